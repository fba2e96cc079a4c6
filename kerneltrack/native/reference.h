/* A model's reference: what its rows were like while all was well. See
`kerneltrack/monitor/reference/__init__.py` for symbols and equations. */
#ifndef KT_REFERENCE_H
#define KT_REFERENCE_H

#include <math.h>

#include "arena.h"
#include "layouts.h"
#include "shapes.h"

/* What is measured of a row, and kept for calibrations: d² of all of e; of the row and those just
before it, without the means over time; of the newest row alone; α. The first three make a score each,
together with α. Where windows are asked for there is one more, the squared distance from the nearest shape,
NO_WINDOW where the rows since the last gap are too few. */
enum { LONG, SHORT, ALONE, ANGLE, MEASURES, WINDOW = MEASURES, SCORED = ANGLE };
#define NO_WINDOW (-1.0)
/* Rows of a window over which its surprise counts as that of so many: windows that follow one another have most of
their rows in common. */
#define WINDOW_COUNTS 4.0

/* Places of a tail's numbers: where it begins, its shape ξ and its width σ. */
enum { BEGIN, SHAPE, WIDTH, TAIL_NUMBERS };

/* Places in a state's `reals`. */
enum {
  /* Means of the measures, d in place of d²; then the tails of the scores. */
  MEANS,
  TAILS = MEANS + MEASURES,
  /* The threshold h of the evidence. */
  THRESHOLD = TAILS + SCORED * TAIL_NUMBERS,
  /* S, its largest value since it last was 0; the largest surprise and their sum since it was low. */
  EVIDENCE,
  TOP,
  PEAK,
  SURPRISE,
  /* Sum of surprises over the first rows of the episode. */
  EARLY,
  /* The largest surprise of a newest row alone among those that the embedded row is made of. */
  RECENT,
  /* Mean surprise of the rows of late. */
  LEVEL,
  /* Mean of WINDOW, d in place of d², and the tail of these; only where windows are asked for. */
  WINDOW_MEAN,
  WINDOW_TAIL
};

/* A row that comes after so many usual distances ends a gap; rows by which these are known. */
#define GAP 4.0
#define PACED 64

/* Rows of `sides`: of the rows that a channel was blamed for in which it was above what the others make of it, by
x, the sums of (x/u)² and of x((x/u)² - 2), u being how far it usually is; then of those in which it was below. */
enum { WEIGHT_ABOVE, SUM_ABOVE, WEIGHT_BELOW, SUM_BELOW, SIDES };

/* Rows of an episode that say how it began. */
#define EARLY_ROWS 20

/* A change that an episode of a moving reference ends in lasts where more of the last rows are odd. */
#define LASTING 0.5

/* Places in a state's `counts`: rows seen; learned; scores kept, those that the calibration is made
of, and how many are kept when the next is due; the row after which S last was low, the one that opened
the episode (-1: none is open), the last surprising one and how many of these; episodes so far;
excursions of S that are kept, and the rows in which they were the highest; rows before the first
calibration; rows since S was low whose surprise was that a channel is stuck; the row of RECENT; the row
that the reference began with, and the place of row 0 in its block; rows that the unseen
variances are of; excursions so far; scores that p goes by, also before the reference is made; rows offered to calibrations; the power of two of these that one is kept of.
Only where windows are asked for: their length (0: not known), rows since the last gap that are before the open
block, as far as they matter, and rows whose shapes are kept; of a reference that moves, too, how many of these, the
newest, wait to be learned. */
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
  BOOKED,
  SORTED,
  OFFERED,
  THINNED,
  WINDOW_LENGTH,
  FOLLOWED,
  SHAPE_ROWS,
  SHAPES_WAITING
};

/* Places in a state's `times`: of the rows that the counts of the same names are of; of the first row,
and of the last one that the reference was made from. */
enum { ZERO_TIME, OPENED_TIME, LAST_TIME, NEWEST_TIME, FIRST_TIME, STRETCH_TIME };

/* Of a reference that moves: numbers of a stream's evidence, S, its highest since it was 0, the level that
surprise has come to, h, the largest surprise since S was low, and their sum; its highest excursion in the open block. */
enum {
  MOVING_SUM,
  MOVING_TOP,
  MOVING_LEVEL,
  MOVING_LIMIT,
  MOVING_PEAK,
  MOVING_TOTAL,
  MOVING_BEST,
  MOVING_NUMBERS
};

/* Where a stream's S was low (row -1 of the first: no row of those that the reference began with others for was
held against it yet), and how many rows were odd since; in the row behind the streams: rows yet to be
spared after a gap, the stream that the episode was opened by, whether episodes are, the memory in rows,
rows that wait to be learned (-1: an episode began among them), the row after the last gap. */
enum { LOW_ROW, LOW_TIME, ODD_ROWS, LOWS_OF_LASTING };
enum { MUTED, WHICH, ARMED, REMEMBERED, WAITING, AFTER_GAP, LOW_NUMBERS };

/* Of each mode: rows seen in it, the row that was its first, rows learned, waiting to be learned, scores that
p goes by, whether it has a p, rows that its channels' runs are of. In the row behind the modes: the mode of
the newest row (-1: it has no place, -2: there was none yet), and rows that had no place. */
enum { MODE_ROWS, MODE_FIRST, MODE_LEARNED, MODE_WAITING, MODE_SORTED, MODE_MADE, MODE_RUNS, MODE_NUMBERS };
enum { MODE_NOW, MODE_UNPLACED };
enum { NO_MODE = -1, NO_MODE_YET = -2 };

/* Of a reference that moves: the mode that `former` is of, counted from 1 (0: there is none); whether what is
now is to be kept at the end of the block, likewise; rows of the episode that were held against `former`, and
how many of them were usual; the row since when the device has changed to stay, counted from 1 (0: it has not),
and its time. */
enum { FORMER_OF, TO_KEEP, COMPARED, USUAL, CHANGED, CHANGED_TIME, FORMER_NUMBERS };
#define LEAST_COMPARED 3

/* Of an episode of a reference that moves: its number (0: the place is free), since when and until when it was,
ns, whether people said that it was false, rows whose sums are kept, and the mode that these are of. In the row
behind them: episodes whose rows have become normal. What its sums are: reference_false.c. */
enum { KEPT_NUMBER, KEPT_SINCE, KEPT_UNTIL, KEPT_FALSE, KEPT_ROWS, KEPT_MODE, KEPT_NUMBERS };
enum { KEPT_LEARNED };

/* What people said of episodes: since when and until when they were, ns; from when on it counts; whether they were
false; whether all that were between these times are meant, or the one that began then, to a microsecond. */
enum { SAID_SINCE, SAID_UNTIL, SAID_FROM, SAID_FALSE, SAID_OF_ALL };

/* The kernel subspace's stored rows, scaled, and γ of its kernel exp(-‖x - s‖²/γ). */
typedef struct {
  mat support;
  double bandwidth;
} reference_stored;

/* What is said of rows: d and ℓ, NaN before the reference has learned half its stretch; the rest NaN
before the calibration, `settled` until as many rows have a score as `recent` holds. */
typedef struct {
  vec distance;
  vec residual;
  vec score;
  vec p;
  vec evidence;
  vec settled;
} reference_outputs;

/* What is said of a change with an episode: whether its rows are those of before the last change that lasted;
whether it is over because it has lasted; since when the device has changed, as of CHANGED, CHANGED_TIME. */
enum { HAS_RECOVERED, IS_STEADY, SINCE_ROW, SINCE_TIME, CHANGE_NUMBERS };

/* Place in the open block of the next row. */
static inline int64_t next_place(const reference_state *state) {
  return (state->counts.at[SEEN] + state->counts.at[PAD]) % state->good.size;
}

/* Whether the rows before the one at a place of the open block do not lead up to it: it comes after a gap, or
another mode begins with it. */
static inline int begins_at(const reference_state *state, int64_t place) {
  return state->fresh.at[place] || (state->turned.size > 0 && state->turned.at[place]);
}

/* Whether the rows of the episode are what was normal before the last change that lasted. */
static inline int has_recovered(const reference_state *state) {
  const int64_t *compared = state->compared.at;
  return state->compared.size > 0 && compared[COMPARED] >= LEAST_COMPARED &&
         2 * compared[USUAL] > compared[COMPARED];
}

/* How many of the first entries of e, y are those of the row and of the rows just before it. */
static inline int64_t short_of(const reference_state *state) {
  return state->mean.size - state->memory.columns;
}

/* The means over time after the row at a place of the open block. */
void follow_means(reference_state *state, int64_t lags, int64_t place);

/* The mean distance in time of so many rows up to one of this time, ns; 0 where they have none, or are too
few. */
double pace_of(const reference_state *state, int64_t since, int64_t time);

/* Whether a row comes so long after the one before that lags, means and evidence begin anew: longer than
stated, and than some usual distances. `since`: rows before it. */
int ends_gap(const reference_settings *settings, const reference_state *state, int64_t since,
             int64_t before, int64_t time);

/* Channels' runs begin anew, and `previous` is not known: a row that finds it so comes after a gap. */
void forget_runs(reference_state *state);

/* A row in deviations, clipped. */
void scale_deviations(const vec *shift, const vec *scale, const double *row, double *to);

/* Scale rows into the open block, and measure d² of each; false where memory is short. O(E²) a row */
int embed_rows(const reference_settings *settings, reference_state *state, const mat *rows,
               const int64_t *times);

/* Evidence of the rows that were put into the open block, with their residuals, in `out` from row `done`
on. Rows whose excursion of S is over, or never began, are marked as good. Returns how many episodes were
opened or closed, told behind those `before`, or KT_NO_MEMORY. */
int64_t watch_rows(const reference_settings *settings, reference_state *state,
                   const reference_stored *stored, const vec *residual, const int64_t *times,
                   reference_outputs *out, int64_t done, reference_episodes *episodes, int64_t before);

/* Keep what was measured of the open block's good rows for the next calibration. */
void keep_measures(reference_state *state);

/* Mean and scatter of the open block's good rows, one after the other (Welford), and W anew:
C = scatter/n + ρ(tr C/E)·I, WᵀW = C⁻¹, its rows over the unseen deviations. Rows beyond the memory
fade. False where memory is short. O(128E² + E³) */
int learn_block(const reference_settings *settings, reference_state *state);

/* Scores and tails from the measures that were kept so far; false where memory is short. */
int calibrate_so_far(const reference_settings *settings, reference_state *state);

/* The same at the end of the stretch and later, the threshold, and when the next calibration is due. */
int calibrate(const reference_settings *settings, reference_state *state);

/* Go on to the next block: what is before its first row, and nothing else. */
void roll_block(const reference_settings *settings, reference_state *state);

/* e: the row at a place of the buffer and the lags - 1 rows before it, the newest first, and its means
over time, less m. Before the first row after a gap all was as it is in that. */
void embed(const reference_state *state, int64_t lags, int64_t place, double *e);

/* y ← We, W lower triangular; ‖y‖². */
double whiten(const reference_state *state, const double *e, double *y);

/* A channel is blamed for so many rows, in which it was so far above what the others make of it, in deviations;
usually it is `usual`. SUM/WEIGHT is the mean distance: of x = μ + uz, z normal, E[x((x/u)² - 2)] = μE[(x/u)²],
and rows that are usual add nothing to SUM. */
void take_side(reference_state *state, int64_t channel, double rows, double above, double usual);

/* How surprising it is that a channel has shown the same value for so long: the rows beyond what its
runs before allow, each as likely as repeats were then. One that mostly repeated its value is never stuck. */
double stuck_for(const reference_state *state, int64_t channel);

/* Follow the channels' runs by a further row, which teaches what is usual or not; the largest surprise that
one is stuck. */
double stuck_surprise(reference_state *state, const double *row, int learning);

/* What is told of the episode that is, or was, open. */
void note_episode(const reference_state *state, int64_t row, int64_t time, int closed, int64_t place,
                  reference_episodes *out);

/* Whether windows are asked for. */
static inline int has_windows(const reference_state *state) { return state->shapes.columns > 0; }

/* The distance from the nearest shape over its mean; 1 where there is none. */
static inline double window_part(const reference_state *state, double window) {
  return window < 0.0 ? 1.0 : sqrt(window) / state->reals.at[WINDOW_MEAN];
}

/* The rows of a window by channel, and how many rows before the newest each is. */
typedef struct {
  double *now;
  int64_t *back;
  int64_t points;
} window_rows;

window_rows make_window_rows(arena *from, const reference_state *state);

/* Rows since the last gap that are before a place of the open block, as far as they matter; `since`: rows before it. */
int64_t rows_since_gap(const reference_state *state, int64_t place, int64_t since);

/* The squared distance of a row's window from the nearest shape, NO_WINDOW where there is none. `followed`: rows
since the last gap, it among them. O(1024 · points) */
double distance_of_window(const reference_settings *settings, const reference_state *state, int64_t place,
                      int64_t followed, window_rows *window);

/* Measure WINDOW of rows of the open block, from a place on; false where memory is short. */
int measure_windows(const reference_settings *settings, reference_state *state, int64_t place, int64_t many);

/* The squared distances of a row's channels, (D,), from the nearest shape, 0 where there is none. */
void parts_of_window(const reference_settings *settings, const reference_state *state, int64_t place,
                     window_rows *window, double *parts);

/* The same; false where memory is short. */
int window_parts(const reference_settings *settings, const reference_state *state, int64_t place,
                 double *parts);

/* Keep the open block's good rows, for their shapes. */
void keep_shapes(const reference_settings *settings, reference_state *state);

/* Keep one more row; NULL for one that stands for a gap. */
void keep_row(reference_state *state, const double *row);

/* Rows whose shapes are known: those that are kept and do not wait. */
static inline int64_t known_rows(const reference_state *state) {
  const ints *counts = &state->counts;
  return counts->at[SHAPE_ROWS] - (counts->size > SHAPES_WAITING ? counts->at[SHAPES_WAITING] : 0);
}

/* Choose how long windows are, once all shapes are kept; false where memory is short. */
int choose_window(const reference_settings *settings, reference_state *state);

/* Go on to the next block: what is before it. */
void roll_windows(const reference_settings *settings, reference_state *state);

/* False alarms a row that are accepted. */
double rate_of(const reference_settings *settings, const reference_state *state);

/* Hold rows of the open block against a reference that moves; as `watch_rows`. `locals`: the times as clocks
there show them; `said`: what people said of episodes. O(E²) a row */
int64_t run_streams(const reference_settings *settings, reference_state *state, const mat *rows,
                   const int64_t *times, const int64_t *locals, const int_table *said,
                   reference_outputs *out, int64_t done, reference_episodes *episodes, int64_t before);

/* Learn a whole block's good rows, their scores and the excursions of evidence; false where memory is short.
O(128E² + E³) */
int end_streams(const reference_settings *settings, reference_state *state);

/* `follow_means` of a reference that moves, by the mode of the row. */
void follow_means_of_mode(const reference_settings *settings, reference_state *state, int64_t place);

#endif
