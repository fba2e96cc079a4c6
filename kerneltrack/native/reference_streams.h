/* What the files of a reference that moves share: the places of its streams and modes in a state, and the scratch of
a call. Equations and symbols are in `kerneltrack/monitor/reference/__init__.py`. */
#ifndef KT_REFERENCE_STREAMS_H
#define KT_REFERENCE_STREAMS_H

#include <math.h>

#include "reference.h"
#include "vec.h"

/* Bins to a power of two, and the exponent that those of scores begin with. */
#define FINE 8
#define FINE_POWER 3
#define SCORE_LOWEST -8
/* The part of the scores that makes the tail. */
#define TAIL_PART 0.1
#define MOST_THRESHOLD 1e9
/* What the height of an excursion of all streams together is told in: so many to a threshold. */
#define TOGETHER 64.0
/* Of a day; those of days off are known by themselves, if they are. */
#define HOURS 24
/* The least deviation at an hour. */
#define HOUR_FLOOR 0.05

/* Rows that a memory has at least where what lasts is told by evidence of its own: rows of a shorter one are learned
before that adds up. */
#define LONG_MEMORY 3072

static inline int64_t streams_of(const reference_state *state) { return state->heights.rows; }

/* The evidences: those of the streams, then the lasting one of each slow mean. */
static inline int64_t evidences_of(const reference_state *state) { return state->evidences.rows; }

/* The streams: 0 of all that is said of a row, whose p is told; it has no evidence, and its heights are those of the
others together; then what its channels are beside their means over time, of each and of all of them; the slow means,
likewise; the windows, if they are asked for; the hours. */
static inline int64_t fast_of(int64_t channel) { return 1 + channel; }

static inline int64_t slow_of(const reference_state *state, int64_t channel) {
  return 2 + state->rows.columns + channel;
}

static inline int64_t hours_of(const reference_state *state) { return streams_of(state) - 1; }

static inline int is_hour(const reference_state *state, double hour) {
  return hour >= 0.0 && hour < (double)state->hours.rows;
}

/* The stream whose scores an evidence is of. */
static inline int64_t said_by(const reference_state *state, int64_t evidence) {
  int64_t many = streams_of(state);
  return evidence < many ? evidence : slow_of(state, evidence - many);
}

/* Where windows are asked for, the stream before the hours. */
static inline int64_t windows_of(const reference_state *state) { return streams_of(state) - 2; }

/* The streams whose scores are those of e alone. */
static inline int64_t of_rows(const reference_state *state) {
  return streams_of(state) - 1 - has_windows(state);
}

/* Whether a stream is that of a slow mean. */
static inline int is_slow(const reference_state *state, int64_t stream) {
  return stream >= slow_of(state, 0) && stream < of_rows(state);
}

/* How many means over time go along with a row. */
static inline int64_t means_of(const reference_state *state) { return state->memory.columns / state->rows.columns; }

/* MUTED, WHICH, ARMED, REMEMBERED, WAITING, AFTER_GAP. */
static inline int64_t *status_of(const reference_state *state) {
  return state->lows.at + streams_of(state) * state->lows.columns;
}

/* Where an evidence was low: a lasting one's is behind that of its slow mean. */
static inline int64_t *low_of(const reference_state *state, int64_t evidence) {
  int64_t behind = evidence < streams_of(state) ? 0 : LOWS_OF_LASTING;
  return state->lows.at + said_by(state, evidence) * state->lows.columns + behind;
}

/* Whether there is evidence of what lasts. */
static inline int tells_what_lasts(const reference_state *state) { return status_of(state)[REMEMBERED] >= LONG_MEMORY; }

/* The modes that there is room for; 0 where no channel says which mode a row is of. */
static inline int64_t modes_of(const reference_state *state) { return most_of(state->modes.rows - 1, 0); }

/* MODE_NOW, MODE_UNPLACED. */
static inline int64_t *mode_status(const reference_state *state) {
  return state->modes.at + modes_of(state) * MODE_NUMBERS;
}

/* The mode that the row at a place of the open block is of; `NO_MODE` if it has no place among them, 0 where
there are no modes. */
static inline int64_t mode_at(const reference_state *state, int64_t place) {
  int64_t many = modes_of(state);
  if (many == 0) return 0;
  double mode = row_of(&state->measured, streams_of(state) + 1)[place];
  return mode >= 0.0 && mode < (double)many ? (int64_t)mode : NO_MODE;
}

/* What is kept of an episode. */
static inline int64_t *kept_of(const reference_state *state, int64_t place) {
  return state->episodes.at + place * state->episodes.columns;
}

/* Whether an episode is open, by what is kept of it. */
static inline int is_open(const reference_state *state, const int64_t *kept) {
  return state->counts.at[OPENED] >= 0 && kept[KEPT_NUMBER] == state->counts.at[EPISODES];
}

static inline int64_t bin_of(double value, int64_t lowest, int64_t bins) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  int64_t power = (int64_t)(bits >> 52 & 0x7FF) - 1023, part = (int64_t)(bits >> 49 & (FINE - 1));
  return most_of(0, least_of((power - lowest) * FINE + part, bins - 1));
}

/* Where a bin begins, by the bits of what `bin_of` reads; the first one at 0. */
static inline double edge_of(int64_t bin, int64_t lowest) {
  if (bin == 0) return 0.0;
  uint64_t bits = (uint64_t)(lowest + bin / FINE + 1023) << 52 | (uint64_t)(bin % FINE) << 49;
  double edge;
  memcpy(&edge, &bits, sizeof edge);
  return edge;
}

/* Where in a bin a value is, from 0 to 1. But for the first one a bin is as wide as a power of two: the quotient is a
product. */
static inline double place_in_bin(double value, int64_t bin, int64_t lowest) {
  if (bin == 0) return value / edge_of(1, lowest);
  uint64_t bits = (uint64_t)(FINE_POWER - lowest - bin / FINE + 1023) << 52;
  double bins;
  memcpy(&bins, &bits, sizeof bins);
  return (value - edge_of(bin, lowest)) * bins;
}

static inline double sum_of(const double *values, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

/* Scale sums down to what the memory holds. */
static inline void fade(double *sums, int64_t count, double total, double memory) {
  if (total > memory) scale_all(sums, memory / total, count);
}

/* What is learned of a mode, or of all rows where there are no modes: the state with the mode's own sums in
their places, and its numbers. `rows`: rows seen in it, and `since` its first one. */
typedef struct {
  reference_state state;
  int64_t *learned, *waiting, *sorted, rows, since;
  double *unit;
} part;

part part_of(reference_state *state, int64_t mode);

/* The place of the mode that a row is of, which may begin with it; `NO_MODE` if all places are taken. */
int64_t find_mode(const reference_settings *settings, reference_state *state, double code,
                  int64_t row);

/* The means over time of a row whose mode has no place: those before it. */
void keep_means(reference_state *state, int64_t place);

/* What the streams' scores say of a new one: the share of them from each bin's begin on, their tails; the logarithm
of the part of them that is in it; scratch of a row's. */
typedef struct {
  mat share;
  double *total, *begin, *log_part, *width, *shape, *below;
} chances;

chances lay_chances(arena *from, const reference_state *state);

void find_chances(const reference_state *state, chances *of);

/* The surprises -ln p of the streams' scores; `surprises` has room for `padded` many. */
void surprises_by(const chances *of, const double *scores, int64_t many, double *surprises);

/* Add the scores of the open block's good rows of a mode, and what they were like at their hour. */
void add_scores(reference_state *state, int64_t mode, int64_t lags);

/* Add the highest excursion of the open block of each stream: those within a block are not many, but one
that comes again. */
void add_heights(reference_state *state);

void find_limits(const reference_settings *settings, reference_state *state, double memory);

/* The mean of the distances, and whether there are scores to go by. */
void find_unit(part *of);

/* The mean of a stream's scores. */
double mean_score(const double *tally, int64_t bins);

/* Mean square of a stream's scores. */
double mean_square(const double *tally, int64_t bins);

/* Scratch of a row's streams: e, y, v = Wᵀy, a channel's part of v; by how much d² would fall for each channel;
the streams' scores, surprises, and how much of these their evidence takes; the factors of the channels' parts
of Ω = WᵀW. */
typedef struct {
  double *e, *y, *v, *part, *gains, *scores, *surprises, *units;
  mat factors, block, chol;
  int *known;
  /* W, with zeros beyond its diagonal. */
  mat whitener;
  /* The factors, v and what is left of it, entry by entry and of the channels side by side; what channels' entries
  say, the slow mean's and that of the rows. */
  mat side_by_side, turned, rest;
  double *fast, *slow;
  /* Of the channels: the step of the newest value, what is taken off it for the jump of what the others make of the
  row, what such a jump counts for, and so the part that counts of what the rows say; that of all channels together. */
  double *steps, *jump_units, *counted, counted_together;
  mat stepped;
  /* What the channels are at an hour, and how far they usually are from it; whether it is known. */
  double *hour_means, *hour_spreads, *hour_far;
  int64_t hour;
  int knows_hour;
  /* Of the means over time of what is scored: their block of Ω, its factors as it is normal now and as it was
  before the last change that lasted, whether these are found. */
  mat tied, bare[2];
  double *part_of_means;
  int found[2];
  /* Where each entry of e is in W, and how many of these are the causes'; each channel's, of the newest row first,
  of the slow mean last; how many it has, and how many of these are means. */
  int64_t *places, given, *entries, own, means;
  double *ordered;
  chances of;
  /* d; of the windows, the rows of one, what each channel makes of its distance, and what that is on average (0: not
  known). */
  double distance;
  /* Whether the row opens no episode: at rest, by no stream; after another mode began, by none but the hours. */
  int rests, turns;
  /* S/h of the stream that is furthest, of the newest row; -1 where it was not weighed. */
  double evidence;
  window_rows window;
  double *parts, usual_window;
} moving_work;

/* The parts of a reference on the way of a call's rows, and the scratch of each; one where there are no
modes. What is scored by is found as the first row of a mode comes. */
typedef struct {
  part of;
  moving_work work;
  int scored, found;
} lane;

moving_work lay_work(arena *from, const reference_state *state);

/* Where each entry of e is in W: those of the causes come first, and of either the slow means, the fast ones, the
newest row and those before it; returns how many the causes have. */
int64_t order_causes(const reference_state *state, int64_t *places);

/* Where the entries of e are in W, and each channel's. */
void find_places(const reference_state *state, moving_work *work);

/* The Cholesky factors of Ω_AA, A being the entries of one channel. O(E³/D) */
void find_factors(const reference_state *state, moving_work *work);

/* How far the newest value of a channel is above what the others make of it, the first of Ω_AA⁻¹v_A, and how far
it usually is. O((E/D)²) */
double distance_above(const moving_work *work, int64_t channel, double *usual);

/* Rows, sum and sum of squares of a channel at an hour, with half of those beside it. */
void hour_sums(const reference_state *state, int64_t hour, int64_t channel, double *sums);

/* e, y and v of `ordered`, and its scores but that of the hours. */
void measure_ordered(const reference_state *state, moving_work *work);

/* The same of the row at a place of the open block. */
void measure_row(const reference_settings *settings, const reference_state *state,
                 moving_work *work, int64_t place);

/* The scores of the row at a place of the open block, and its hour, kept for the end of the block. `followed`: rows
since the last gap, it among them. */
void score_row(const reference_settings *settings, reference_state *state, moving_work *work,
               int64_t place, int64_t time, int64_t local, int64_t followed);

/* The score of the row's window, and that of all that is said of it with it. */
void score_window(const reference_settings *settings, const reference_state *state, moving_work *work,
                  int64_t place, int64_t followed);

/* Whether a row comes so soon after the last odd one of an episode that a stream still shows what was. */
int shows_what_was(const reference_state *state, int64_t stream, int64_t row);

/* Keep the open block's good rows for their shapes, where the oldest go beyond the memory. They wait; those that
waited are left out if an episode began among them. */
void keep_waiting_shapes(const reference_settings *settings, reference_state *state, double memory);

/* Learn the shapes of the rows that waited, and choose how long windows are wherever they have become twice as many,
until the threshold holds; false where memory is short. */
int learn_shapes(const reference_settings *settings, reference_state *state);

/* The channel that is least what the others make of it. */
int64_t worst_channel(const reference_state *state, const moving_work *work);

lane *lay_lanes(arena *from, reference_state *state);

/* The lane of a row of a mode, ready to score it. */
lane *lane_of(const reference_settings *settings, reference_state *state, lane *lanes,
              int64_t mode);

/* After a gap the rows before and the means over time are not those that a row goes with: some rows are
spared, neither evidence nor learned. Whether this row is one. */
int is_spared(const reference_settings *settings, reference_state *state, int64_t row,
              int64_t time);

/* The first row since the reference began with others: as after a long gap, since the means over time do not know
what hour it is; and an episode cannot have begun before it. */
void begin_with_others(const reference_settings *settings, reference_state *state, int64_t row, int64_t time);

/* An excursion of S is over: the highest of a block counts. */
void book_height(reference_state *state, int64_t stream);

/* A row comes after a gap: what led up to it is over, but for an episode. */
void begin_anew(reference_state *state);

/* On which side the channels were in the first rows of an episode that has just opened, as far as the open
block has them. */
void blame_first_rows(const reference_settings *settings, reference_state *state,
                      moving_work *work, int64_t mode, int64_t row, int64_t place);

/* An episode is over: all evidence begins anew, and its height does not count, since it is not normal. Where its rows are as odd as they were,
they are soon what is normal: what was so before is kept. */
void close_episode(reference_state *state, int64_t mode, int64_t row, int64_t time);

/* The evidence of a scored row. Whether an episode was opened (1), closed (-1). */
int weigh_row(const reference_settings *settings, reference_state *state, moving_work *work,
              int64_t row, int64_t place, int64_t time);

/* S/h of the stream that is furthest of those that can open an episode. */
double most_evidence(const reference_state *state, const moving_work *work);

/* Whether the evidence of a row is weighed. Of a mode it is from half a memory since its first row on; of one
that comes later, once a memory has passed. */
int rehearses(const reference_state *state, const part *of, int64_t row);

/* Hold the row of an episode against what is normal, so that at its end it is known whether the rows still are
odd, and against what was before the last change that lasted, in the same mode: it is usual then as the rows
were, or where it has come back by more than half of the way. None is while what is normal now would have been usual
then, too: nothing of the change was learned yet, or it was small. */
void compare_row(const reference_settings *settings, reference_state *state, moving_work *work,
                 int64_t mode, int64_t place);

/* The rows of an episode that has just opened, as far as the open block has them. */
void compare_first_rows(const reference_settings *settings, reference_state *state,
                        moving_work *work, int64_t mode, int64_t row, int64_t place);

/* An episode is over: the device has changed to stay, or has come back from such a change, or neither. */
void settle_change(reference_state *state);

/* Keep what is known of a mode, before rows of a change that lasts are learned. */
void keep_former(reference_state *state);

/* Keep an episode that has just opened by a row of a mode, in the place of an older one. */
void keep_episode(reference_state *state, int64_t mode);

/* What people said of the episodes that are kept, up to the time of a row: of two things the last one counts. */
void hear(reference_state *state, const int_table *said, int64_t time);

/* Rows of the open block from the one that an episode began with, or the last gap ended, up to a place, are
not learned. */
void leave_out(reference_state *state, int64_t base, int64_t first, int64_t place);

/* Add the rows of the open block that were left out to the sums of their episodes. */
int add_to_episodes(const reference_settings *settings, reference_state *state);

/* Whether a cause, or a mean of it over time, has a value at a place of the open block that is beyond those of the rows
that were learned. */
int is_beyond(const reference_settings *settings, const reference_state *state, int64_t place);

/* Whether the device is at rest in a row, as it seldom is, or was before it, by a channel that stands at its lowest or
highest value: it opens no episode. `since`: rows before it since the reference began. */
int is_at_rest(const reference_settings *settings, reference_state *state, const double *row, double since);

/* Another mode begins with a row: rows are held from there on. */
void hold_after_turn(reference_state *state, double since);

/* Whether a row is held, counting it. */
int is_held(reference_state *state);

/* Keep the causes' values in the open block's good rows; they are learned once `wait` rows wait. */
void learn_ranges(const reference_settings *settings, reference_state *state, double wait);

/* No row waits: an episode began among them. */
void forget_waiting_ranges(reference_state *state);

/* Learn the rows of the episodes that were false and are over. */
int learn_episodes(const reference_settings *settings, reference_state *state, double memory);

/* The same of a mode: its share of the rows since its first one. */
double memory_of_part(const reference_state *state, const part *of, double memory);

/* What was learned fades to what the memory holds. */
void fade_learned(part *of, double memory);

/* W anew, of the scatter of the rows learned. O(E³) */
int find_whitener(const reference_settings *settings, part *of);

#endif
