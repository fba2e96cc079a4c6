/* A model's reference: what its rows were like while all was well. See
`kerneltrack/monitor/reference/__init__.py` for symbols and equations. */
#ifndef KT_REFERENCE_H
#define KT_REFERENCE_H

#include "arena.h"
#include "shapes.h"

/* What is measured of a row, and kept for calibrations: d² of all of e; of the row and those just
before it, without the means over time; of the newest row alone; α. The first three make a score each,
together with α. */
enum { WHOLE, SHORT, ALONE, ANGLE, MEASURES, SCORES = ANGLE };

/* Places of a tail's numbers: where it begins, its shape ξ and its width σ. */
enum { BEGIN, SHAPE, WIDTH, TAIL_NUMBERS };

/* Places in a state's `reals`. */
enum {
  /* Means of the measures, d in place of d²; then the tails of the scores. */
  MEANS,
  TAILS = MEANS + MEASURES,
  /* The threshold h of the evidence. */
  THRESHOLD = TAILS + SCORES * TAIL_NUMBERS,
  /* S, its largest value since it last was 0; the largest surprise and their sum since it was low. */
  EVIDENCE,
  TOP,
  PEAK,
  SURPRISE,
  /* Sum of surprises over the first rows of the episode. */
  EARLY,
  /* The largest surprise of a newest row alone among those that the embedded row is made of. */
  RECENT,
  REALS
};

/* Rows of an episode that say how it began. */
#define EARLY_ROWS 20

/* Places in a state's `counts`: rows seen; learned; scores kept, those that the calibration is made
of, and how many are kept when the next is due; the row after which S last was low, the one that opened
the episode (-1: none is open), the last surprising one and how many of these; episodes so far;
excursions of S that are kept, and the rows in which they were the highest; rows before the first
calibration; rows since S was low whose surprise was that a channel is stuck; the row of RECENT; the row
that the reference began with, and the place of row 0 in its block; rows that the unseen
variances are of; excursions so far. */
enum {
  SEEN,
  LEARNED,
  KEPT,
  CALIBRATED,
  DUE,
  ZERO,
  OPENED,
  LAST_SURPRISE,
  SURPRISES,
  EPISODES,
  EXCURSIONS,
  WATCHED,
  STRETCHED,
  STUCK_ROWS,
  RECENT_ROW,
  BEGAN,
  PAD,
  UNSEEN_ROWS,
  BOOKED
};

/* Places in a state's `times`: of the rows that the counts of the same names are of. */
enum { ZERO_TIME, OPENED_TIME, LAST_TIME, NEWEST_TIME };

typedef struct {
  int64_t lags;
  double ridge;
  double drift;
  double rate;
  int64_t memory;
} reference_settings;

typedef struct {
  vec shift;
  vec scale;
  mat rows;
  mat memory;
  flags good;
  vec mean;
  mat scatter;
  mat whitener;
  vec unseen;
  mat scores;
  mat calibration;
  mat measured;
  vec peaks;
  vec blame;
  vec stuck;
  vec previous;
  ints runs;
  ints longest;
  ints repeated;
  vec reals;
  ints counts;
  ints times;
} reference_state;

/* The kernel subspace's stored rows, scaled, and γ of its kernel exp(-‖x - s‖²/γ). */
typedef struct {
  mat support;
  double bandwidth;
} reference_stored;

/* What is said of rows; NaN before the calibration. */
typedef struct {
  vec score;
  vec p;
  vec evidence;
} reference_outputs;

/* (n, 4) times of start, opening, this row and the last surprising one. */
typedef struct {
  int64_t *at;
  int64_t rows, columns;
} mat_of_ints;

/* What is said of rows, with d and with how many rows and episodes that was. */
typedef struct {
  vec distance;
  reference_outputs watched;
  ints reached;
} reference_followed;

/* Episodes that were opened, changed or closed: at most one a row. */
typedef struct {
  ints number;
  ints start;
  ints opened;
  ints row;
  flags closed;
  vec peak;
  vec surprise;
  vec early;
  ints last;
  ints surprises;
  ints stuck_rows;
  mat_of_ints times;
  mat blame;
  mat stuck;
} reference_episodes;

#endif
