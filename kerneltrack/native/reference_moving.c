/* The row loop of a reference that moves: several streams of scores, each with sums that fade of its
scores and of the excursions of its evidence. Equations and symbols are in
`kerneltrack/monitor/reference/__init__.py`. */
#include <math.h>

#include "elementary.h"
#include "linalg.h"
#include "reference.h"
#include "vec.h"

/* Bins to a power of two, and the exponents that the bins of scores and of heights begin with. */
#define FINE 8
#define SCORE_LOWEST -8
#define HEIGHT_LOWEST -3
/* The part of the scores that makes the tail; how much wider it is taken than it was; its shape. */
#define TAIL_PART 0.1
#define TAIL_WIDER 1.3
#define LEAST_SHAPE 0.05
#define MOST_SHAPE 0.5
#define MOST_SURPRISE 30.0
/* Excursions that a threshold is made of: one of so many blocks', within a range. */
#define PEAK_PART 4.0
#define FEWEST_PEAKS 10.0
#define MOST_PEAKS 24.0
#define ENOUGH_PEAKS 12.0
#define MOST_THRESHOLD 1e9
/* What evidence lets pass of a surprise, in drifts: of a stream of the channels, of that of the hours. */
#define PASSED 2.0
#define PASSED_OF_HOURS 4.0
/* Rows in which a slow mean counts once: so many, and so many more for each time that its variance is that of
independent rows' slow mean, which is such a part of theirs. */
#define LASTS 25.0
#define LASTS_WIDER 0.7
#define SLOW_PART (0.02 / (2.0 - 0.02))
#define LEVEL_RATE 0.002
#define MOST_LEVEL 20.0
#define MOST_OF_LEVEL 50.0
#define MOST_EVIDENCE 1.5
#define LOW 0.02
/* Evidence, in thresholds, by which an episode goes on that is over by another stream's. */
#define GOES_ON 0.5
#define ENOUGH 60.0
#define FADING 15.0
#define SURPRISING 4.6
/* Rows to be spared after a gap, at most, and as a part of those since the one before: what works by day
alone is seen, too. */
#define MOST_SPARED 150
#define SPARED_PART 4.0
/* Of the hours: rows that one is known by, days seen before, least deviation. */
#define KNOWN_HOUR 12.0
#define HOUR_DAYS 3
#define HOUR_FLOOR 0.05
#define HOURS 24
#define HOUR_NS 3600000000000
/* What people said of an episode names its begin to a microsecond, ns. */
#define MICROSECOND 1000
/* Rows that a memory in time has, at least and at most; where rows have no times. */
#define LEAST_MEMORY 1024.0
#define MOST_MEMORY 1e7
#define OWN_MEMORY 4032.0
/* What a row counts in how many of the last ones are odd, further out than nine in ten were. */
#define LASTLY_RATE 0.1
#define HALF_WAY 0.5
/* Rows wait to be learned until they are such a part of the memory, and of the rows so far. */
#define WAIT_PART 14.0
#define WAIT_AT_FIRST 8.0
/* Excursions are rehearsed from one in so many parts of a memory on: early, because what comes every other
week is otherwise missed by the threshold; those of the hours later, because an hour is new for days. */
#define REHEARSED_PART 8
#define REHEARSED_PART_OF_HOURS 2
/* Channels that a row of an episode is blamed on, at most; how often a row of one that was false counts, and how
much further its like may be. */
#define MOST_BLAMED 3
#define FALSE_COUNTS 6.0
#define FALSE_FURTHER 1.5

static int64_t streams_of(const reference_state *state) { return state->evidences.rows; }

/* The streams: 0 of all that is said of a row, whose p is told; then what its channels are beside their means over
time, of each and of all of them; the slow means, likewise; the hours. */
static int64_t fast_of(int64_t channel) { return 1 + channel; }

static int64_t slow_of(const reference_state *state, int64_t channel) {
  return 2 + state->rows.columns + channel;
}

static int64_t hours_of(const reference_state *state) { return streams_of(state) - 1; }

/* How many means over time go along with a row. */
static int64_t means_of(const reference_state *state) { return state->memory.columns / state->rows.columns; }

/* MUTED, WHICH, ARMED, REMEMBERED, WAITING, AFTER_GAP. */
static int64_t *status_of(const reference_state *state) {
  return state->lows.at + streams_of(state) * state->lows.columns;
}

/* The modes that there is room for; 0 where no channel says which mode a row is of. */
static int64_t modes_of(const reference_state *state) { return most_of(state->modes.rows - 1, 0); }

/* MODE_NOW, MODE_UNPLACED. */
static int64_t *mode_status(const reference_state *state) {
  return state->modes.at + modes_of(state) * MODE_NUMBERS;
}

/* What is learned of a mode, or of all rows where there are no modes: the state with the mode's own sums in
their places, and its numbers. `rows`: rows seen in it, and `since` its first one. */
typedef struct {
  reference_state state;
  int64_t *learned, *waiting, *sorted, rows, since;
  double *unit;
} part;

static part part_of(reference_state *state, int64_t mode) {
  int64_t *counts = state->counts.at, many = modes_of(state), since = counts[SEEN] - counts[BEGAN];
  part of = {.state = *state, .learned = &counts[LEARNED], .waiting = &status_of(state)[WAITING]};
  of.sorted = &counts[SORTED];
  of.unit = &state->reals.at[MEANS + LONG];
  of.rows = of.since = since;
  if (many == 0) return of;
  int64_t *numbers = state->modes.at + mode * MODE_NUMBERS, width = state->rows.columns;
  vec *mean = &of.state.mean;
  ints *runs[] = {&of.state.runs, &of.state.longest, &of.state.repeated};
  mat *tables[] = {&of.state.scatter, &of.state.whitener, &of.state.waiting, &of.state.tally};
  *mean = (vec){mean->at + mode * (mean->size / many), mean->size / many};
  for (int i = 0; i < 3; i++) *runs[i] = (ints){runs[i]->at + mode * width, width};
  for (int i = 0; i < 4; i++) {
    int64_t rows = tables[i]->rows / many;
    *tables[i] = rows_from(tables[i], mode * rows, rows);
  }
  of.learned = &numbers[MODE_LEARNED];
  of.waiting = &numbers[MODE_WAITING];
  of.sorted = &numbers[MODE_SORTED];
  of.unit = &state->units.at[mode];
  of.rows = numbers[MODE_ROWS];
  of.since = counts[SEEN] - numbers[MODE_FIRST];
  return of;
}

/* The mode that the row at a place of the open block is of; `NO_MODE` if it has no place among them, 0 where
there are no modes. */
static int64_t mode_at(const reference_state *state, int64_t place) {
  int64_t many = modes_of(state);
  if (many == 0) return 0;
  double mode = row_of(&state->measured, streams_of(state) + 1)[place];
  return mode >= 0.0 && mode < (double)many ? (int64_t)mode : NO_MODE;
}

/* The place of the mode that a row is of, which may begin with it; `NO_MODE` if all places are taken. */
static int64_t find_mode(const reference_settings *settings, reference_state *state, double code,
                         int64_t row) {
  int64_t many = modes_of(state), *status = mode_status(state);
  for (int64_t mode = 0; mode < many; mode++) {
    int64_t *numbers = state->modes.at + mode * MODE_NUMBERS;
    if (numbers[MODE_ROWS] > 0 && state->codes.at[mode] != code) continue;
    if (!settings->learn) return numbers[MODE_ROWS] > 0 ? mode : NO_MODE;
    if (numbers[MODE_ROWS]++ == 0) {
      state->codes.at[mode] = code;
      numbers[MODE_FIRST] = row;
    }
    return mode;
  }
  state->codes.at[many] = code;
  status[MODE_UNPLACED] += 1;
  return NO_MODE;
}

/* The means over time of a row whose mode has no place: those before it. */
static void keep_means(reference_state *state, int64_t place) {
  copy(row_of(&state->memory, place + 1), row_of(&state->memory, place), state->memory.columns);
}

void follow_means_of_mode(const reference_settings *settings, reference_state *state, int64_t place) {
  int64_t mode = mode_at(state, place);
  if (mode == NO_MODE) {
    keep_means(state, place);
    return;
  }
  part of = part_of(state, mode);
  follow_means(&of.state, settings->lags, place);
}

/* Where a stream's S was low. */
static int64_t *low_of(const reference_state *state, int64_t stream) {
  return state->lows.at + stream * state->lows.columns;
}

static int64_t bin_of(double value, int64_t lowest, int64_t bins) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  int64_t power = (int64_t)(bits >> 52 & 0x7FF) - 1023, part = (int64_t)(bits >> 49 & (FINE - 1));
  return most_of(0, least_of((power - lowest) * FINE + part, bins - 1));
}

/* Where a bin begins; the first one at 0. */
static double edge_of(int64_t bin, int64_t lowest) {
  if (bin == 0) return 0.0;
  return ldexp(1.0 + (double)(bin % FINE) / FINE, (int)(lowest + bin / FINE));
}

/* What the streams' scores say of a new one: the share of them from each bin's begin on, their tails. */
typedef struct {
  mat share;
  double *total, *begin, *part, *width, *shape;
} chances;

static chances lay_chances(arena *from, const reference_state *state) {
  int64_t many = streams_of(state);
  chances of = {.share = table(from, many, state->tally.columns + 1)};
  of.total = reals(from, many);
  of.begin = reals(from, many);
  of.part = reals(from, many);
  of.width = reals(from, many);
  of.shape = reals(from, many);
  return of;
}

static void find_chances(const reference_state *state, chances *of) {
  int64_t bins = state->tally.columns;
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    const double *tally = row_of(&state->tally, stream);
    double *share = row_of(&of->share, stream), sum = 0.0;
    share[bins] = 0.0;
    for (int64_t bin = bins - 1; bin >= 0; bin--) share[bin] = sum += tally[bin];
    double total = larger(sum, 1e-9);
    for (int64_t bin = 0; bin < bins; bin++) share[bin] /= total;
    int64_t start = 0;
    while (start < bins - 1 && share[start] > TAIL_PART) start++;
    double begin = edge_of(start, SCORE_LOWEST), weight = 0.0, first = 0.0, second = 0.0;
    for (int64_t bin = start; bin < bins; bin++) {
      double middle = 0.5 * (edge_of(bin, SCORE_LOWEST) + edge_of(bin + 1, SCORE_LOWEST)) - begin;
      weight += tally[bin];
      first = fma(tally[bin], middle, first);
      second = fma(tally[bin] * middle, middle, second);
    }
    weight = larger(weight, 1e-9);
    first /= weight;
    double spread = larger(second / weight - first * first, 1e-12);
    double shape = 0.5 * (1.0 - first * first / spread);
    of->total[stream] = total;
    of->begin[stream] = begin;
    of->part[stream] = larger(share[start], 1.0 / larger(total, 1.0));
    of->shape[stream] = smaller(larger(shape, LEAST_SHAPE), MOST_SHAPE);
    of->width[stream] = larger(TAIL_WIDER * first * (1.0 - of->shape[stream]), 1e-9);
  }
}

static double surprise_by(const chances *of, int64_t stream, double score) {
  double over = score - of->begin[stream];
  if (over > 0.0) {
    double shape = of->shape[stream];
    double far = smaller(shape * over / of->width[stream], 1e300);
    return smaller(log1(1.0 + far) / shape - log1(of->part[stream]), MOST_SURPRISE);
  }
  const double *share = row_of(&of->share, stream);
  int64_t bin = bin_of(score, SCORE_LOWEST, of->share.columns - 1);
  double from = edge_of(bin, SCORE_LOWEST), to = edge_of(bin + 1, SCORE_LOWEST);
  double within = smaller(larger((score - from) / (to - from), 0.0), 1.0);
  double above = fma(share[bin + 1] - share[bin], within, share[bin]), total = of->total[stream];
  return larger(-log1((above * total + 0.5) / (total + 1.0)), 0.0);
}

/* Scratch of a row's streams: e, y, v = Wᵀy, a channel's part of v; by how much d² would fall for each channel;
the streams' scores, surprises, and how much of these their evidence takes; the factors of the channels' parts
of Ω = WᵀW. */
typedef struct {
  double *e, *y, *v, *part, *gains, *scores, *surprises, *units;
  mat factors, block, chol;
  int *known;
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
} moving_work;

static moving_work lay_work(arena *from, const reference_state *state) {
  int64_t size = state->mean.size, width = state->rows.columns, own = size / width;
  moving_work work = {.e = reals(from, size), .own = own, .means = means_of(state)};
  work.y = reals(from, size);
  work.v = reals(from, size);
  work.part = reals(from, own);
  work.gains = reals(from, width);
  work.scores = reals(from, streams_of(state));
  work.surprises = reals(from, streams_of(state));
  work.units = reals(from, streams_of(state));
  work.factors = table(from, width * own, own);
  work.block = table(from, own, own);
  work.chol = table(from, own, own);
  work.known = piece(from, width, sizeof(int));
  int64_t scored = 0;
  for (int64_t d = 0; d < width; d++) scored += !state->causes.at[d];
  scored *= means_of(state);
  work.tied = table(from, scored, scored);
  for (int which = 0; which < 2; which++) work.bare[which] = table(from, scored, scored);
  work.part_of_means = reals(from, scored);
  work.places = wholes(from, size);
  work.entries = wholes(from, size);
  work.ordered = reals(from, size);
  work.of = lay_chances(from, state);
  return work;
}

/* Where each entry of e is in W: those of the causes come first, and of either the slow means, the fast ones, the
newest row and those before it; returns how many the causes have. */
static int64_t order_causes(const reference_state *state, int64_t *places) {
  int64_t width = state->rows.columns, own = state->mean.size / width, means = means_of(state);
  int64_t next = 0, given = 0;
  for (int64_t cause = 1; cause >= 0; cause--) {
    for (int64_t i = 0; i < own; i++) {
      int64_t group = i < means ? own - 1 - i : i - means;
      for (int64_t d = 0; d < width; d++)
        if (state->causes.at[d] == cause) places[group * width + d] = next++;
    }
    if (cause) given = next;
  }
  return given;
}

/* Where the entries of e are in W, and each channel's. */
static void find_places(const reference_state *state, moving_work *work) {
  int64_t width = state->rows.columns;
  work->given = order_causes(state, work->places);
  for (int64_t d = 0; d < width; d++)
    for (int64_t i = 0; i < work->own; i++) work->entries[d * work->own + i] = work->places[i * width + d];
}

/* The variance of one of a channel's entries, beside what the others make of it. O((E/D)²) */
static double variance_of(const moving_work *work, int64_t channel, int64_t i) {
  mat factor = rows_from(&work->factors, channel * work->own, work->own);
  fill(work->part, 0.0, work->own);
  work->part[i] = 1.0;
  solve_cholesky(&factor, work->part);
  return work->part[i];
}

/* How much of a row's surprise goes into a stream's evidence. A slow mean says the same in many rows: in all of
them together it counts once. They are more where rows resemble those before, so that it varies more than that
of independent ones; of all channels they are the mean of the channels'. */
static void find_units(const reference_state *state, moving_work *work) {
  int64_t width = state->rows.columns, slow = work->own - 1;
  double sum = 0.0, many = 0.0;
  for (int64_t stream = 0; stream < streams_of(state); stream++) work->units[stream] = 1.0;
  for (int64_t channel = 0; channel < width && work->means > 0; channel++) {
    if (!work->known[channel]) continue;
    double usual = larger(variance_of(work, channel, 0), 1e-300);
    double wider = variance_of(work, channel, slow) / usual / SLOW_PART;
    double rows = fma(LASTS_WIDER, smaller(wider, 1.0 / SLOW_PART), LASTS);
    work->units[slow_of(state, channel)] = 1.0 / rows;
    sum += rows;
    many += 1.0;
  }
  if (many > 0.0) work->units[slow_of(state, width)] = many / sum;
}

/* The Cholesky factors of Ω_AA, A being the entries of one channel. O(E³/D) */
static void find_factors(const reference_state *state, moving_work *work) {
  int64_t size = state->mean.size, width = state->rows.columns, own = work->own;
  for (int64_t channel = 0; channel < width; channel++) {
    const int64_t *at = work->entries + channel * own;
    work->known[channel] = 0;
    if (state->causes.at[channel]) continue;
    fill(work->block.at, 0.0, own * own);
    /* W is a lower triangle: what it has not is 0. */
    for (int64_t k = work->given; k < size; k++) {
      const double *row = row_of(&state->whitener, k);
      for (int64_t i = 0; i < own; i++)
        for (int64_t j = 0; j <= i; j++)
          row_of(&work->block, i)[j] = fma(row[at[i]], row[at[j]], row_of(&work->block, i)[j]);
    }
    work->known[channel] = cholesky(&work->block, 0.0, &work->chol);
    copy(row_of(&work->factors, channel * own), work->chol.at, own * own);
  }
  find_units(state, work);
}

/* By how much d² would fall if a channel were what the others make of it, v_AᵀΩ_AA⁻¹v_A, by its root; and what
the rows say of that beside its means over time, and the slow one by itself, as scores. O((E/D)²) */
static void measure_channel(const reference_state *state, moving_work *work, int64_t channel) {
  int64_t own = work->own, means = work->means;
  const int64_t *at = work->entries + channel * own;
  double gain = 0.0, fast = 0.0, slow = 0.0;
  for (int64_t i = 0; i < own && work->known[channel]; i++) {
    const double *row = row_of(&work->factors, channel * own + i);
    double rest = work->v[at[i]];
    for (int64_t j = 0; j < i; j++) rest = fma(-row[j], work->part[j], rest);
    /* The diagonal holds inverses. */
    work->part[i] = rest * row[i];
    gain = fma(work->part[i], work->part[i], gain);
    if (i < own - means) fast = gain;
    if (means > 0 && i == own - 1) slow = fabs(work->part[i]);
  }
  work->gains[channel] = sqrt(gain);
  work->scores[fast_of(channel)] = sqrt(fast);
  work->scores[slow_of(state, channel)] = slow;
}

/* How far the newest value of a channel is above what the others make of it, the first of Ω_AA⁻¹v_A, and how far
it usually is. O((E/D)²) */
static double distance_above(const moving_work *work, int64_t channel, double *usual) {
  int64_t own = work->own;
  *usual = 1.0;
  if (!work->known[channel]) return 0.0;
  mat factor = rows_from(&work->factors, channel * own, own);
  *usual = sqrt(variance_of(work, channel, 0));
  for (int64_t i = 0; i < own; i++) work->part[i] = work->v[work->entries[channel * own + i]];
  solve_cholesky(&factor, work->part);
  return work->part[0];
}

/* The hour of the day by the clocks of a place, ns; -1 where rows have no times. */
static int64_t hour_of(const reference_settings *settings, int64_t time, int64_t local) {
  if (!settings->season || time == 0) return -1;
  int64_t hour = local / HOUR_NS - (local % HOUR_NS < 0);
  return (hour % HOURS + HOURS) % HOURS;
}

/* Rows, sum and sum of squares of a channel at an hour, with half of those beside it. */
static void hour_sums(const reference_state *state, int64_t hour, int64_t channel, double *sums) {
  const double *now = row_of(&state->hours, hour);
  const double *before = row_of(&state->hours, (hour + HOURS - 1) % HOURS);
  const double *after = row_of(&state->hours, (hour + 1) % HOURS);
  for (int64_t i = 3 * channel; i < 3 * channel + 3; i++)
    sums[i - 3 * channel] = fma(0.5, before[i] + after[i], now[i]);
}

/* The largest distance of a channel from what it was at this hour and those beside it, in deviations. */
static double hour_score(const reference_state *state, const double *row, int64_t hour, double seen) {
  if (hour < 0 || seen < (double)HOUR_DAYS * HOURS * (double)HOUR_NS) return 0.0;
  double largest = 0.0;
  for (int64_t d = 0; d < state->rows.columns; d++) {
    double sums[3];
    hour_sums(state, hour, d, sums);
    if (!(sums[0] >= KNOWN_HOUR)) return 0.0;
    if (state->causes.at[d]) continue;
    double mean = sums[1] / sums[0], spread = larger(sums[2] / sums[0] - mean * mean, 0.0);
    largest = larger(largest, fabs(row[d] - mean) / sqrt(spread + HOUR_FLOOR * HOUR_FLOOR));
  }
  return largest;
}

/* e, y and v of `ordered`, and its scores but that of the hours. */
static void measure_ordered(const reference_state *state, moving_work *work) {
  int64_t size = state->mean.size, width = state->rows.columns;
  for (int64_t k = 0; k < size; k++) work->e[work->places[k]] = work->ordered[k];
  /* What comes behind the causes in y is what they leave of the rest. */
  whiten(state, work->e, work->y);
  fill(work->v, 0.0, size);
  for (int64_t i = 0; i < size; i++)
    add_scaled(work->v, work->y[i], row_of(&state->whitener, i), i + 1);
  for (int64_t channel = 0; channel < width; channel++) measure_channel(state, work, channel);
  /* Of all channels: behind the causes the slow means come first, then the fast ones. */
  int64_t rest = size - work->given, each = rest / work->own, means = each * work->means;
  const double *y = work->y + work->given;
  work->scores[0] = sqrt(dot(y, y, rest));
  work->scores[fast_of(width)] = sqrt(dot(y + means, y + means, rest - means));
  work->scores[slow_of(state, width)] = sqrt(dot(y, y, work->means > 0 ? each : 0));
}

/* The same of the row at a place of the open block. */
static void measure_row(const reference_settings *settings, const reference_state *state,
                        moving_work *work, int64_t place) {
  embed(state, settings->lags, place, work->ordered);
  measure_ordered(state, work);
}

/* The scores of the row at a place of the open block, and its hour, kept for the end of the block. */
static void score_row(const reference_settings *settings, reference_state *state, moving_work *work,
                      int64_t place, int64_t time, int64_t local) {
  int64_t many = streams_of(state);
  const double *row = row_of(&state->rows, settings->lags - 1 + place);
  measure_row(settings, state, work, place);
  int64_t hour = hour_of(settings, time, local);
  double seen = (double)time - (double)state->times.at[FIRST_TIME];
  work->scores[many - 1] = hour_score(state, row, hour, seen);
  for (int64_t stream = 0; stream < many; stream++)
    row_of(&state->measured, stream)[place] = work->scores[stream];
  row_of(&state->measured, many)[place] = (double)hour;
}

/* After a gap the rows before and the means over time are not those that a row goes with: some rows are
spared, neither evidence nor learned. Whether this row is one. */
static int is_spared(const reference_settings *settings, reference_state *state, int64_t row,
                     int64_t time) {
  int64_t *status = status_of(state);
  double pace = pace_of(state, row - state->counts.at[BEGAN], state->times.at[NEWEST_TIME]);
  double away = (double)time - (double)state->times.at[NEWEST_TIME];
  if (state->counts.at[CALIBRATED] > 0 && pace > 0.0 && away > GAP * pace) {
    double spared = smaller(2.0 * away / pace, (double)MOST_SPARED);
    spared = smaller(spared, (double)(row - status[AFTER_GAP]) / SPARED_PART);
    status[MUTED] = most_of((int64_t)spared, settings->lags);
    status[AFTER_GAP] = row;
  }
  if (status[MUTED] == 0) return 0;
  status[MUTED] -= 1;
  return 1;
}

static double drift_of(const reference_settings *settings, const reference_state *state,
                       int64_t stream) {
  int hours = stream == hours_of(state);
  return settings->drift * (hours ? PASSED_OF_HOURS : PASSED);
}

/* An excursion of S is over: the highest of a block counts. */
static void book_height(reference_state *state, int64_t stream) {
  double *held = row_of(&state->evidences, stream);
  held[MOVING_BEST] = larger(held[MOVING_BEST], held[MOVING_TOP]);
  held[MOVING_TOP] = 0.0;
}

/* A row comes after a gap: what led up to it is over, but for an episode. */
static void begin_anew(reference_state *state) {
  forget_runs(state);
  if (state->counts.at[OPENED] >= 0) return;
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    book_height(state, stream);
    row_of(&state->evidences, stream)[MOVING_SUM] = 0.0;
  }
}

/* A surprise goes into the evidence of its stream; before the threshold holds an excursion ends as an
episode would. */
static void weigh_stream(const reference_settings *settings, reference_state *state, int64_t stream,
                         double surprise, double unit, int64_t row, int64_t time) {
  double *held = row_of(&state->evidences, stream);
  const int64_t *status = status_of(state);
  int open = state->counts.at[OPENED] >= 0;
  double passed = drift_of(settings, state, stream) * smaller(larger(held[MOVING_LEVEL], 1.0), MOST_LEVEL);
  double most = status[ARMED] ? MOST_EVIDENCE * held[MOVING_LIMIT] : MOST_THRESHOLD;
  held[MOVING_SUM] = smaller(larger(fma(unit, surprise - passed, held[MOVING_SUM]), 0.0), most);
  if (open || held[MOVING_LEVEL] > 1.0) {
    double off = smaller(surprise, MOST_OF_LEVEL) - held[MOVING_LEVEL];
    held[MOVING_LEVEL] = larger(fma(LEVEL_RATE, off, held[MOVING_LEVEL]), 1.0);
  }
  held[MOVING_TOP] = larger(held[MOVING_TOP], held[MOVING_SUM]);
  if (open) return;
  int64_t *low = low_of(state, stream);
  if (held[MOVING_SUM] < LOW * held[MOVING_LIMIT]) {
    low[LOW_ROW] = row;
    low[LOW_TIME] = time;
    low[ODD_ROWS] = 0;
    held[MOVING_PEAK] = held[MOVING_TOTAL] = 0.0;
  }
  held[MOVING_PEAK] = larger(held[MOVING_PEAK], surprise);
  held[MOVING_TOTAL] += surprise;
  low[ODD_ROWS] += surprise > SURPRISING;
  int fell = !status[ARMED] && held[MOVING_TOP] - held[MOVING_SUM] > ENOUGH * unit;
  if (fell) held[MOVING_SUM] = 0.0;
  if (!(held[MOVING_SUM] > 0.0)) book_height(state, stream);
}

/* The stream whose evidence is furthest above its threshold, -1 if none is above. */
static int64_t stream_above(const reference_state *state) {
  int64_t found = -1;
  double largest = 1.0;
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    const double *held = row_of(&state->evidences, stream);
    if (held[MOVING_SUM] / held[MOVING_LIMIT] > largest) {
      largest = held[MOVING_SUM] / held[MOVING_LIMIT];
      found = stream;
    }
  }
  return found;
}

/* Open an episode by the evidence of a stream: it began where that was last low. */
static void open_by(reference_state *state, int64_t stream, int64_t row, int64_t time) {
  const double *held = row_of(&state->evidences, stream);
  const int64_t *low = low_of(state, stream);
  int64_t *counts = state->counts.at;
  double *numbers = state->reals.at;
  status_of(state)[WHICH] = stream;
  /* What waits may be its begin. */
  status_of(state)[WAITING] = -1;
  counts[OPENED] = row;
  counts[ZERO] = low[LOW_ROW];
  counts[SURPRISES] = low[ODD_ROWS];
  counts[STUCK_ROWS] = 0;
  counts[EPISODES] += 1;
  state->times.at[OPENED_TIME] = time;
  state->times.at[ZERO_TIME] = low[LOW_TIME];
  numbers[PEAK] = held[MOVING_PEAK];
  numbers[SURPRISE] = held[MOVING_TOTAL];
  numbers[EARLY] = 0.0;
  fill(state->blame.at, 0.0, state->blame.size);
  fill(state->sides.at, 0.0, SIDES * state->sides.columns);
  fill(state->stuck.at, 0.0, state->stuck.size);
}

/* How surprising it is that a channel is stuck; a cause never is. */
static double held_for(const reference_state *state, int64_t channel) {
  return state->causes.at[channel] ? 0.0 : stuck_for(state, channel);
}

/* The Cholesky factor of Ω_BB, B being the means over time of what is scored; it is found once. O(ED²) */
static const mat *factor_of_means(moving_work *work, const mat *whitener, int which) {
  mat *factor = &work->bare[which], *block = &work->tied;
  if (work->found[which]) return factor;
  work->found[which] = 1;
  for (int64_t i = 0; i < block->rows; i++)
    for (int64_t j = 0; j <= i; j++) row_of(block, i)[j] = 0.0;
  for (int64_t k = work->given; k < whitener->rows; k++) {
    const double *row = row_of(whitener, k) + work->given;
    int64_t many = least_of(k - work->given + 1, block->rows);
    for (int64_t i = 0; i < many; i++) add_scaled(row_of(block, i), row[i], row, i + 1);
  }
  if (!cholesky(block, 0.0, factor)) factor->rows = 0;
  return factor;
}

/* ‖We‖ of `ordered` less a mean, without the means over time: those still show what was, when the rows no
longer do; the least that it is with any of them. As a part of a distance of all entries, so that it compares.
`which`: 0 as it is normal now, 1 as it was. O(E²) */
static double distance_from(const reference_state *state, moving_work *work, const double *mean,
                            const mat *whitener, int which) {
  int64_t size = state->mean.size, rest = size - work->given;
  for (int64_t k = 0; k < size; k++) work->e[work->places[k]] = work->ordered[k] - mean[k];
  for (int64_t i = 0; i < size; i++) work->y[i] = dot(row_of(whitener, i), work->e, i + 1);
  const mat *factor = factor_of_means(work, whitener, which);
  double square = dot(work->y + work->given, work->y + work->given, rest);
  double *turned = work->v, *half = work->part_of_means;
  fill(turned, 0.0, factor->rows);
  for (int64_t k = 0; k < rest; k++)
    add_scaled(turned, work->y[work->given + k], row_of(whitener, work->given + k) + work->given,
               least_of(k + 1, factor->rows));
  for (int64_t i = 0; i < factor->rows; i++) {
    half[i] = (turned[i] - dot(row_of(factor, i), half, i)) * row_of(factor, i)[i];
    square -= half[i] * half[i];
  }
  return sqrt(larger(square, 0.0) * (double)rest / (double)(rest - factor->rows));
}

/* Hold the row of an episode against what is normal, so that at its end it is known whether the rows still are
odd, and against what was before the last change that lasted, in the same mode: it is usual then as the rows
were, or where it has come back by more than half of the way. None is while what is normal now would have been usual
then, too: nothing of the change was learned yet, or it was small. */
static void compare_row(const reference_settings *settings, reference_state *state, moving_work *work,
                        int64_t mode, int64_t place) {
  int64_t size = state->mean.size, *compared = state->compared.at;
  if (mode_at(state, place) != mode) return;
  embed(state, settings->lags, place, work->ordered);
  add_scaled(work->ordered, 1.0, state->mean.at, size);
  double now = distance_from(state, work, state->mean.at, &state->whitener, 0);
  double *odd = &state->reals.at[LEVEL];
  *odd = fma(LASTLY_RATE, (now > work->of.begin[0] ? 1.0 : 0.0) - *odd, *odd);
  if (compared[FORMER_OF] != mode + 1) return;
  const double *mean = row_of(&state->former, 0);
  mat whitener = rows_from(&state->former, 1, size);
  double then = distance_from(state, work, mean, &whitener, 1);
  copy(work->ordered, state->mean.at, size);
  double changed = distance_from(state, work, mean, &whitener, 1);
  compared[COMPARED] += 1;
  double usual = row_of(&state->former, size + 1)[0];
  compared[USUAL] += changed > usual && then <= larger(usual, HALF_WAY * changed);
}

/* The rows of an episode that has just opened, as far as the open block has them. */
static void compare_first_rows(const reference_settings *settings, reference_state *state,
                               moving_work *work, int64_t mode, int64_t row, int64_t place) {
  state->compared.at[COMPARED] = state->compared.at[USUAL] = 0;
  state->reals.at[LEVEL] = 0.0;
  for (int64_t i = most_of(place - (row - state->counts.at[ZERO]), 0); i < place; i++)
    compare_row(settings, state, work, mode, i);
}

/* A channel is blamed for the row at a place of the open block: how far it is above what the others make of it;
in an episode of the hours, above what it was at this one. */
static void blame_row(reference_state *state, const moving_work *work, int64_t lags, int64_t channel,
                      int64_t place) {
  int64_t hours = hours_of(state);
  double hour = row_of(&state->measured, hours + 1)[place], sums[3], usual;
  double above = distance_above(work, channel, &usual);
  if (status_of(state)[WHICH] == hours && hour >= 0.0 && hour < HOURS) {
    hour_sums(state, (int64_t)hour, channel, sums);
    double mean = sums[1] / larger(sums[0], 1.0);
    above = row_of(&state->rows, lags - 1 + place)[channel] - mean;
    usual = sqrt(larger(sums[2] / larger(sums[0], 1.0) - mean * mean, 0.0));
  }
  take_side(state, channel, 1.0, above, usual);
}

/* The channel that is least what the others make of it. */
static int64_t worst_channel(const reference_state *state, const moving_work *work) {
  int64_t worst = 0;
  while (state->causes.at[worst]) worst++;
  for (int64_t channel = worst + 1; channel < state->rows.columns; channel++)
    if (work->gains[channel] > work->gains[worst]) worst = channel;
  return worst;
}

/* On which side the channels were in the first rows of an episode that has just opened, as far as the open
block has them. */
static void blame_first_rows(const reference_settings *settings, reference_state *state,
                             moving_work *work, int64_t mode, int64_t row, int64_t place) {
  for (int64_t i = most_of(place - (row - state->counts.at[ZERO]), 0); i < place; i++) {
    if (mode_at(state, i) != mode) continue;
    measure_row(settings, state, work, i);
    blame_row(state, work, settings->lags, worst_channel(state, work), i);
  }
}

/* A row of an open episode: its surprise, and the channel that is least what the others make of it. Whether
the episode is over. */
static int count_odd(reference_state *state, const moving_work *work, int64_t lags, int64_t place,
                     int64_t row, int64_t time, int opened) {
  int64_t *counts = state->counts.at, width = state->rows.columns;
  double *numbers = state->reals.at;
  int64_t which = status_of(state)[WHICH];
  double surprise = work->surprises[which];
  const double *evidence = row_of(&state->evidences, which);
  int64_t worst = worst_channel(state, work);
  double odd = larger(work->surprises[fast_of(worst)], work->surprises[slow_of(state, worst)]);
  double share = odd * work->gains[worst] * work->gains[worst], unit = work->units[which];
  state->blame.at[worst] = smaller(state->blame.at[worst] + share, 1e300);
  blame_row(state, work, lags, worst, place);
  double held = 0.0;
  for (int64_t d = 0; d < width; d++) held = larger(held, held_for(state, d));
  if (held > SURPRISING) {
    counts[STUCK_ROWS] += 1;
    for (int64_t d = 0; d < width; d++) state->stuck.at[d] += held_for(state, d);
  }
  if (surprise > SURPRISING && evidence[MOVING_TOP] - evidence[MOVING_SUM] < FADING * unit) {
    counts[LAST_SURPRISE] = row;
    state->times.at[LAST_TIME] = time;
    if (!opened) counts[SURPRISES] += 1;
  }
  if (row < counts[OPENED] + EARLY_ROWS) numbers[EARLY] += surprise;
  if (!opened) {
    numbers[PEAK] = larger(numbers[PEAK], surprise);
    numbers[SURPRISE] += surprise;
  }
  return !(evidence[MOVING_SUM] > 0.0) || evidence[MOVING_TOP] - evidence[MOVING_SUM] > ENOUGH * unit;
}

/* What is kept of an episode. */
static int64_t *kept_of(const reference_state *state, int64_t place) {
  return state->episodes.at + place * state->episodes.columns;
}

/* Keep an episode that has just opened by a row of a mode, in the place of an older one. */
static void keep_episode(reference_state *state, int64_t mode) {
  int64_t number = state->counts.at[EPISODES];
  int64_t *kept = kept_of(state, number % state->episode_sums.rows);
  kept[KEPT_NUMBER] = number;
  kept[KEPT_SINCE] = state->times.at[ZERO_TIME];
  kept[KEPT_UNTIL] = kept[KEPT_FALSE] = kept[KEPT_ROWS] = 0;
  kept[KEPT_MODE] = mode;
}

/* Whether an episode is open, by what is kept of it. */
static int is_open(const reference_state *state, const int64_t *kept) {
  return state->counts.at[OPENED] >= 0 && kept[KEPT_NUMBER] == state->counts.at[EPISODES];
}

/* Whether an episode is meant by what people said. */
static int is_meant(const reference_state *state, const int64_t *kept, const int64_t *said) {
  int64_t since = kept[KEPT_SINCE];
  if (!said[SAID_OF_ALL]) return since >= said[SAID_SINCE] && since < said[SAID_SINCE] + MICROSECOND;
  return since <= said[SAID_UNTIL] && (is_open(state, kept) || kept[KEPT_UNTIL] >= said[SAID_SINCE]);
}

/* What people said of the episodes that are kept, up to the time of a row: of two things the last one counts. */
static void hear(reference_state *state, const int_table *said, int64_t time) {
  for (int64_t place = 0; place < state->episode_sums.rows; place++) {
    int64_t *kept = kept_of(state, place);
    for (int64_t i = 0; i < said->rows && kept[KEPT_NUMBER] > 0; i++) {
      const int64_t *one = said->at + i * said->columns;
      if (one[SAID_FROM] <= time && is_meant(state, kept, one)) kept[KEPT_FALSE] = one[SAID_FALSE];
    }
  }
}

/* An episode is over: the device has changed to stay, or has come back from such a change, or neither. */
static void settle_change(reference_state *state) {
  int64_t *compared = state->compared.at;
  if (has_recovered(state)) {
    compared[CHANGED] = compared[CHANGED_TIME] = 0;
  } else if (state->reals.at[LEVEL] > LASTING && compared[CHANGED] == 0) {
    compared[CHANGED] = state->counts.at[ZERO] + 1;
    compared[CHANGED_TIME] = state->times.at[ZERO_TIME];
  }
}

/* An episode is over: its height counts, and all evidence begins anew. Where its rows are as odd as they were,
they are soon what is normal: what was so before is kept. */
static void close_episode(reference_state *state, int64_t mode, int64_t time) {
  int64_t *kept = kept_of(state, state->counts.at[EPISODES] % state->episode_sums.rows);
  if (is_open(state, kept)) kept[KEPT_UNTIL] = time;
  if (state->reals.at[LEVEL] > LASTING) state->compared.at[TO_KEEP] = mode + 1;
  book_height(state, status_of(state)[WHICH]);
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    double *held = row_of(&state->evidences, stream);
    held[MOVING_SUM] = held[MOVING_TOP] = 0.0;
  }
  state->counts.at[OPENED] = -1;
}

/* The episodes that the open block's rows were left out for. */
static double *left_out(const reference_state *state) {
  return row_of(&state->measured, state->measured.rows - 1);
}

/* Rows of the open block from the one that an episode began with, or the last gap ended, up to a place, are
not learned. */
static void leave_out(reference_state *state, int64_t base, int64_t first, int64_t place) {
  for (int64_t i = place; i >= 0 && base - first + i >= state->counts.at[ZERO]; i--) {
    if (state->good.at[i]) left_out(state)[i] = (double)state->counts.at[EPISODES];
    state->good.at[i] = 0;
    if (state->fresh.at[i]) break;
  }
}

/* Whether the threshold holds, or one in so many parts of a memory has been seen before a row. */
static int has_seen(const reference_state *state, int64_t row, int64_t parts) {
  const int64_t *status = status_of(state);
  return status[ARMED] || row - state->counts.at[BEGAN] >= (status[REMEMBERED] + parts - 1) / parts;
}

/* Whether an episode that is over by one stream's evidence goes on by that of another, such as of a slow mean
that still shows it. */
static int goes_on(reference_state *state) {
  int64_t *which = &status_of(state)[WHICH];
  for (int64_t stream = 1; stream < streams_of(state); stream++) {
    const double *held = row_of(&state->evidences, stream);
    int grows = held[MOVING_SUM] >= held[MOVING_TOP];
    if (stream == *which || !grows || held[MOVING_SUM] <= GOES_ON * held[MOVING_LIMIT]) continue;
    *which = stream;
    return 1;
  }
  return 0;
}

/* The evidence of a scored row. Whether an episode was opened (1), closed (-1). */
static int weigh_row(const reference_settings *settings, reference_state *state, moving_work *work,
                     int64_t row, int64_t place, int64_t time) {
  int64_t width = state->rows.columns, many = streams_of(state), *status = status_of(state);
  for (int64_t channel = 0; channel < width; channel++)
    work->surprises[fast_of(channel)] = larger(work->surprises[fast_of(channel)], held_for(state, channel));
  int64_t weighed = has_seen(state, row, REHEARSED_PART_OF_HOURS) ? many : many - 1;
  for (int64_t stream = 1; stream < weighed; stream++)
    weigh_stream(settings, state, stream, work->surprises[stream], work->units[stream], row, time);
  int opened = 0;
  if (state->counts.at[OPENED] < 0) {
    state->watched.at[0] += 1.0;
    int64_t stream = status[ARMED] ? stream_above(state) : -1;
    if (stream < 0) return 0;
    open_by(state, stream, row, time);
    opened = 1;
  }
  if (!count_odd(state, work, settings->lags, place, row, time, opened)) return opened;
  if (goes_on(state)) return 0;
  /* One row cannot open and close: what is above a threshold is above 0. */
  return opened ? 1 : -1;
}

/* S/h of the stream that is furthest. */
static double most_evidence(const reference_state *state) {
  double most = 0.0;
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    const double *held = row_of(&state->evidences, stream);
    most = larger(most, held[MOVING_SUM] / held[MOVING_LIMIT]);
  }
  return most;
}

/* Whether the evidence of a row is weighed. Of a mode it is from half a memory since its first row on; of one
that comes later, once a memory has passed. */
static int rehearses(const reference_state *state, const part *of, int64_t row) {
  if (modes_of(state) == 0) return has_seen(state, row, REHEARSED_PART);
  const int64_t *status = status_of(state);
  int64_t since = row - state->counts.at[SEEN] + of->since;
  return (status[ARMED] ? since : 2 * since) >= status[REMEMBERED];
}

/* Whether there is a whitener to score rows by, of so many rows at least. */
static int is_scored(const reference_settings *settings, const reference_state *state, const part *of) {
  if (modes_of(state) > 0) return *of->learned >= settings->fit_rows;
  return state->counts.at[SEEN] - state->counts.at[BEGAN] >= settings->fit_rows;
}

/* Whether rows have a p. */
static int has_p(const reference_state *state, int64_t mode) {
  if (modes_of(state) > 0) return state->modes.at[mode * MODE_NUMBERS + MODE_MADE] > 0;
  return state->counts.at[CALIBRATED] > 0;
}

/* The parts of a reference on the way of a call's rows, and the scratch of each; one where there are no
modes. What is scored by is found as the first row of a mode comes. */
typedef struct {
  part of;
  moving_work work;
  int scored, found;
} lane;

static lane *lay_lanes(arena *from, reference_state *state) {
  int64_t many = most_of(modes_of(state), 1);
  lane *lanes = piece(from, many, sizeof(lane));
  for (int64_t mode = 0; mode < many; mode++) {
    part of = part_of(state, mode);
    moving_work work = lay_work(from, &of.state);
    if (lanes) lanes[mode] = (lane){.of = of, .work = work};
  }
  return lanes;
}

/* The lane of a row of a mode, ready to score it. */
static lane *lane_of(const reference_settings *settings, reference_state *state, lane *lanes,
                     int64_t mode) {
  lane *one = &lanes[mode];
  if (one->found) return one;
  one->found = 1;
  one->of = part_of(state, mode);
  find_places(&one->of.state, &one->work);
  one->scored = is_scored(settings, state, &one->of);
  if (one->scored) find_factors(&one->of.state, &one->work);
  if (*one->of.sorted > 0) find_chances(&one->of.state, &one->work.of);
  return one;
}

/* Put a row into the open block, with what it says of gaps and modes; returns its mode. */
static int64_t place_row(const reference_settings *settings, reference_state *state, const double *values,
                         int64_t row, int64_t place, int64_t time) {
  int64_t width = state->rows.columns, mode = 0;
  double *to = row_of(&state->rows, settings->lags - 1 + place);
  scale_deviations(&state->shift, &state->scale, values, to);
  if (modes_of(state) > 0) {
    /* Within a mode its channel is always the same. */
    to[settings->mode] = 0.0;
    mode = find_mode(settings, state, values[settings->mode], row);
    state->turned.at[place] = (uint8_t)(mode != mode_status(state)[MODE_NOW]);
    mode_status(state)[MODE_NOW] = mode;
    row_of(&state->measured, streams_of(state) + 1)[place] = (double)mode;
  }
  if (row == 0)
    for (int64_t l = 0; l < settings->lags - 1; l++) copy(row_of(&state->rows, place + l), to, width);
  int64_t since = row - state->counts.at[BEGAN], newest = state->times.at[NEWEST_TIME];
  int follows_none = !isfinite(state->previous.at[0]);
  state->fresh.at[place] = (uint8_t)(follows_none || ends_gap(settings, state, since, newest, time));
  return mode;
}

/* Another mode begins with a row: the rows before do not lead up to it, and as many as are looked at together
are spared. */
static void turn(const reference_settings *settings, reference_state *state) {
  forget_runs(state);
  status_of(state)[MUTED] = most_of(status_of(state)[MUTED], settings->lags);
}

/* The evidence of a row whose mode is known. Whether an episode was opened (1), closed (-1). */
static int score_and_weigh(const reference_settings *settings, reference_state *state, lane *one,
                           int64_t mode, int64_t row, int64_t place, int64_t time, int64_t local,
                           int spared, reference_outputs *out, int64_t at) {
  moving_work *work = &one->work;
  score_row(settings, &one->of.state, work, place, time, local);
  out->distance.at[at] = work->scores[0];
  if (*one->of.sorted == 0) return 0;
  for (int64_t stream = 0; stream < streams_of(state); stream++)
    work->surprises[stream] = surprise_by(&work->of, stream, work->scores[stream]);
  int made = has_p(state, mode);
  if (made) {
    out->score.at[at] = work->scores[0] / *one->of.unit;
    out->p.at[at] = exp1(-work->surprises[0]);
    /* The reference is made with the first row that has a p. */
    if (modes_of(state) > 0) state->counts.at[CALIBRATED] = most_of(state->counts.at[CALIBRATED], 1);
  }
  int waits = spared || !rehearses(state, &one->of, row) || (modes_of(state) > 0 && !made);
  return waits ? 0 : weigh_row(settings, &one->of.state, work, row, place, time);
}

int64_t run_streams(const reference_settings *settings, reference_state *state, const mat *rows,
                   const int64_t *times, const int64_t *locals, const int_table *said,
                   reference_outputs *out, int64_t done, reference_episodes *episodes, int64_t before) {
  int64_t *counts = state->counts.at, base = counts[SEEN], first = next_place(state), found = 0;
  arena scratch = {0};
  lay_lanes(&scratch, state);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  lane *lanes = lay_lanes(&scratch, state);
  for (int64_t n = 0; n < rows->rows; n++) {
    int64_t row = base + n, place = first + n;
    hear(state, said, times[n]);
    int64_t mode = place_row(settings, state, row_of(rows, n), row, place, times[n]);
    const double *scaled = row_of(&state->rows, settings->lags - 1 + place);
    state->good.at[place] = 0;
    if (mode == NO_MODE) {
      if (state->fresh.at[place]) begin_anew(state);
      keep_means(state, place);
      is_spared(settings, state, row, times[n]);
      state->times.at[NEWEST_TIME] = times[n];
      copy(state->previous.at, scaled, state->previous.size);
      continue;
    }
    lane *one = lane_of(settings, state, lanes, mode);
    reference_state *own = &one->of.state;
    if (state->fresh.at[place]) begin_anew(own);
    if (modes_of(state) > 0 && state->turned.at[place]) turn(settings, own);
    follow_means(own, settings->lags, place);
    int spared = is_spared(settings, state, row, times[n]);
    state->times.at[NEWEST_TIME] = times[n];
    stuck_surprise(own, scaled, !status_of(state)[ARMED]);
    state->good.at[place] = !spared;
    int told = 0;
    if (one->scored)
      told = score_and_weigh(settings, state, one, mode, row, place, times[n], locals[n], spared, out,
                             done + n);
    if (status_of(state)[ARMED] && has_p(state, mode))
      out->evidence.at[done + n] = most_evidence(state);
    if (told > 0) keep_episode(state, mode);
    if (counts[OPENED] >= 0) leave_out(state, base, first, place);
    if (told > 0) blame_first_rows(settings, own, &one->work, mode, row, place);
    if (told > 0) compare_first_rows(settings, own, &one->work, mode, row, place);
    if (counts[OPENED] >= 0 && one->scored) compare_row(settings, own, &one->work, mode, place);
    if (told < 0) settle_change(state);
    if (told != 0) note_episode(state, row, times[n], told < 0, before + found++, episodes);
    if (told < 0) close_episode(state, mode, times[n]);
  }
  give_back(&scratch);
  return found;
}

/* The rows that count fully, by the pace of those so far where the memory is a time. */
static double memory_of(const reference_settings *settings, const reference_state *state) {
  if (settings->memory > 0) return (double)settings->memory;
  int64_t since = state->counts.at[SEEN] - state->counts.at[BEGAN];
  double pace = pace_of(state, since, state->times.at[NEWEST_TIME]);
  if (!(pace > 0.0)) return OWN_MEMORY;
  return smaller(larger(floor((double)settings->memory_time / pace), LEAST_MEMORY), MOST_MEMORY);
}

/* The same of a mode: its share of the rows since its first one. */
static double memory_of_part(const reference_state *state, const part *of, double memory) {
  if (modes_of(state) == 0) return memory;
  double share = (double)of->rows / (double)most_of(of->since, 1);
  return larger(floor(memory * smaller(share, 1.0)), LEAST_MEMORY);
}

/* Scale sums down to what the memory holds. */
static void fade(double *sums, int64_t count, double total, double memory) {
  if (total > memory) scale_all(sums, memory / total, count);
}

/* Add the scores of the open block's good rows of a mode, and what they were like at their hour. */
static void add_scores(reference_state *state, int64_t mode, int64_t lags) {
  int64_t many = streams_of(state), width = state->rows.columns;
  for (int64_t place = 0; place < state->good.size; place++) {
    if (!state->good.at[place] || mode_at(state, place) != mode) continue;
    for (int64_t stream = 0; stream < many; stream++) {
      double score = row_of(&state->measured, stream)[place];
      row_of(&state->tally, stream)[bin_of(score, SCORE_LOWEST, state->tally.columns)] += 1.0;
    }
    double hour = row_of(&state->measured, many)[place];
    if (!(hour >= 0.0 && hour < HOURS)) continue;
    const double *row = row_of(&state->rows, lags - 1 + place);
    double *sums = row_of(&state->hours, (int64_t)hour);
    for (int64_t d = 0; d < width; d++) {
      sums[3 * d] += 1.0;
      sums[3 * d + 1] += row[d];
      sums[3 * d + 2] = fma(row[d], row[d], sums[3 * d + 2]);
    }
  }
}

/* Add the highest excursion of the open block of each stream: those within a block are not many, but one
that comes again. */
static void add_heights(reference_state *state) {
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    double *best = &row_of(&state->evidences, stream)[MOVING_BEST];
    if (*best > 0.0)
      row_of(&state->heights, stream)[bin_of(*best, HEIGHT_LOWEST, state->heights.columns)] += 1.0;
    *best = 0.0;
  }
}

static double sum_of(const double *values, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

/* h: where excursions of S are as rare as stated. Of the highest ones the heights beyond the lowest of
them are taken as exponential with a mean that is not known better than they say. */
static double limit_of(const double *heights, int64_t bins, double watched, double rate) {
  double total = sum_of(heights, bins), wanted = larger(rate * watched, 1e-12), count = 0.0, over = 0.0;
  double kept = larger(FEWEST_PEAKS, smaller(MOST_PEAKS, total / PEAK_PART));
  kept = smaller(kept, larger(total - 1.0, 1.0));
  int64_t bin = bins - 1;
  if (total < ENOUGH_PEAKS) {
    /* Too few to tell how they thin out: beyond the highest as far as their mean. */
    double mean = 0.0;
    while (bin > 0 && !(heights[bin] > 0.0)) bin--;
    for (int64_t i = 0; i < bins; i++) mean = fma(heights[i], edge_of(i + 1, HEIGHT_LOWEST), mean);
    mean = larger(mean / larger(total, 1.0), 1.0);
    return edge_of(bin + 1, HEIGHT_LOWEST) + mean * log1(larger(1.0 / wanted, 2.718281828459045));
  }
  for (; bin > 0; bin--) {
    count += heights[bin];
    if (count >= kept) break;
  }
  double least = edge_of(bin, HEIGHT_LOWEST);
  count = larger(count, 1.5);
  for (int64_t i = bin; i < bins; i++) {
    double middle = 0.5 * (edge_of(i, HEIGHT_LOWEST) + edge_of(i + 1, HEIGHT_LOWEST));
    over = fma(heights[i], larger(middle - least, 0.0), over);
  }
  if (wanted >= count) return least;
  double mean = larger(over / larger(count - 1.0, 1.0), 1.0);
  return least + mean * count * (exp1(log1(count / wanted) / count) - 1.0);
}

static void find_limits(const reference_settings *settings, reference_state *state) {
  int64_t causes = 0;
  for (int64_t d = 0; d < state->causes.size; d++) causes += state->causes.at[d];
  /* Of the channels and of all of them, with the slow means if there are any; and the hours. */
  int64_t weighed = (state->causes.size - causes + 1) * (means_of(state) > 0 ? 2 : 1) + 1;
  double rate = rate_of(settings, state) / (double)weighed;
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    double limit = limit_of(row_of(&state->heights, stream), state->heights.columns,
                            state->watched.at[0], rate);
    row_of(&state->evidences, stream)[MOVING_LIMIT] = smaller(larger(limit, 1.0), MOST_THRESHOLD);
  }
}

/* Add the open block's good rows of a mode to what waits to be learned: Σ(e - m), Σ(e - m)(e - m)ᵀ. O(128E²) */
static int wait_with_rows(const reference_settings *settings, part *of, int64_t mode) {
  reference_state *state = &of->state;
  int64_t size = state->mean.size;
  arena scratch = {0};
  reals(&scratch, size);
  if (!take_block(&scratch)) return 0;
  double *e = reals(&scratch, size);
  for (int64_t place = 0; place < state->good.size; place++) {
    if (!state->good.at[place] || mode_at(state, place) != mode) continue;
    *of->waiting += 1;
    embed(state, settings->lags, place, e);
    add_scaled(state->waiting.at, 1.0, e, size);
    for (int64_t i = 0; i < size; i++) add_scaled(row_of(&state->waiting, 1 + i), e[i], e, i + 1);
  }
  give_back(&scratch);
  return 1;
}

/* Nothing waits: it was learned, or an episode began among it. */
static void forget_waiting(part *of) {
  fill(of->state.waiting.at, 0.0, of->state.waiting.rows * of->state.waiting.columns);
  *of->waiting = 0;
}

/* What was learned fades to what the memory holds. */
static void fade_learned(part *of, double memory) {
  if ((double)*of->learned <= memory) return;
  scale_all(of->state.scatter.at, memory / (double)*of->learned, of->state.scatter.rows * of->state.mean.size);
  *of->learned = (int64_t)memory;
}

/* W anew, of the scatter of the rows learned. O(E³) */
static int find_whitener(const reference_settings *settings, part *of) {
  reference_state *state = &of->state;
  int64_t size = state->mean.size;
  arena scratch = {0};
  table(&scratch, size, size);
  table(&scratch, size, size);
  wholes(&scratch, size);
  if (!take_block(&scratch)) return 0;
  mat half = table(&scratch, size, size), other = table(&scratch, size, size);
  int64_t *places = wholes(&scratch, size);
  order_causes(state, places);
  double all = (double)most_of(*of->learned, 1), trace = 0.0;
  for (int64_t i = 0; i < size; i++) {
    for (int64_t j = 0; j <= i; j++) {
      int64_t a = places[i], b = places[j];
      row_of(&half, most_of(a, b))[least_of(a, b)] = row_of(&state->scatter, i)[j] / all;
    }
    trace += row_of(&half, places[i])[places[i]];
  }
  double lift = larger(settings->ridge * trace / (double)size, 1e-12);
  inverse_cholesky(&half, size, lift, &half, &state->whitener, &other);
  give_back(&scratch);
  return 1;
}

/* Learn what waited, with a memory; m and the scatter about it, and W anew. O(E³) */
static int learn_waiting(const reference_settings *settings, part *of, double memory) {
  reference_state *state = &of->state;
  int64_t size = state->mean.size;
  fade_learned(of, memory);
  *of->learned += *of->waiting;
  double all = (double)most_of(*of->learned, 1);
  const double *sum = state->waiting.at;
  for (int64_t i = 0; i < size; i++) {
    double *row = row_of(&state->scatter, i);
    add_scaled(row, 1.0, row_of(&state->waiting, 1 + i), i + 1);
    add_scaled(row, -sum[i] / all, sum, i + 1);
  }
  add_scaled(state->mean.at, 1.0 / all, sum, size);
  if (!find_whitener(settings, of)) return 0;
  forget_waiting(of);
  return 1;
}

/* The mean of the distances, and whether there are scores to go by. */
static void find_unit(part *of) {
  int64_t bins = of->state.tally.columns;
  const double *tally = row_of(&of->state.tally, 0);
  double total = sum_of(tally, bins), sum = 0.0;
  for (int64_t bin = 0; bin < bins; bin++)
    sum = fma(tally[bin], edge_of(bin + 1, SCORE_LOWEST) + edge_of(bin, SCORE_LOWEST), sum);
  *of->unit = larger(0.5 * sum / larger(total, 1.0), 1e-9);
  *of->sorted = (int64_t)smaller(larger(total, 0.0), (double)of->state.calibration.columns);
}

/* Whether a mode has scores enough for rows to have a p; that of all rows where there are no modes. */
static void make(const reference_settings *settings, reference_state *state, int64_t mode,
                 const part *of) {
  if (of->rows < settings->rows || *of->sorted == 0) return;
  int64_t enough = least_of(settings->rows - settings->fit_rows, state->calibration.columns);
  if (modes_of(state) == 0) {
    if (state->counts.at[CALIBRATED] == 0) state->counts.at[CALIBRATED] = *of->sorted;
  } else if (*of->sorted >= enough) {
    state->modes.at[mode * MODE_NUMBERS + MODE_MADE] = 1;
  }
}

/* Learn the open block's good rows of a mode, and their scores; false where memory is short. */
static int end_part(const reference_settings *settings, reference_state *state, int64_t mode,
                    double memory) {
  part of = part_of(state, mode);
  if (modes_of(state) > 0 && of.rows == 0) return 1;
  double own = memory_of_part(state, &of, memory);
  int64_t since = modes_of(state) > 0 ? *of.learned : of.since;
  if (modes_of(state) > 0 ? since >= settings->fit_rows : since > settings->fit_rows) {
    add_scores(&of.state, mode, settings->lags);
    double kept = sum_of(row_of(&of.state.tally, 0), of.state.tally.columns);
    fade(of.state.tally.at, streams_of(state) * of.state.tally.columns, kept, own);
    if (modes_of(state) == 0)
      fade(of.state.hours.at, of.state.hours.rows * of.state.hours.columns, kept, own);
    find_unit(&of);
  }
  if (!wait_with_rows(settings, &of, mode)) return 0;
  /* So that a fault is noticed before it is learned: a day, of fourteen that are remembered. */
  double wait = smaller(own / WAIT_PART, (double)of.rows / WAIT_AT_FIRST);
  if (*of.waiting > 0 && (double)*of.waiting >= wait && !learn_waiting(settings, &of, own)) return 0;
  make(settings, state, mode, &of);
  return 1;
}

/* Where an episode's sums are: rows by hour; of each channel the rows it was blamed for, its values in all rows and
their squares, and the lower triangle of Σδδᵀ, δ being how far its entries were above what the others make of
them. */
typedef struct {
  double *hours, *blamed, *first, *second, *products;
} episode_sums;

static episode_sums sums_at(const reference_state *state, int64_t place) {
  double *at = row_of(&state->episode_sums, place);
  int64_t width = state->rows.columns;
  return (episode_sums){at, at + HOURS, at + HOURS + width, at + HOURS + 2 * width, at + HOURS + 3 * width};
}

/* The Σδδᵀ of a channel: the lower triangle, row by row. */
static double *products_of(const reference_state *state, const episode_sums *sums, int64_t channel) {
  int64_t own = state->whitener.columns / state->rows.columns;
  return sums->products + channel * own * (own + 1) / 2;
}

/* Take out of the row that was measured what a channel is above what the others make of it, and add it to the sums
of an episode. */
static void take_out(const reference_state *state, moving_work *work, const episode_sums *sums,
                     int64_t channel) {
  int64_t width = state->rows.columns, own = state->mean.size / width;
  double usual, *products = products_of(state, sums, channel);
  distance_above(work, channel, &usual);
  sums->blamed[channel] += 1.0;
  for (int64_t i = 0; i < own; i++) {
    work->ordered[i * width + channel] -= work->part[i];
    for (int64_t j = 0; j <= i; j++) products[i * (i + 1) / 2 + j] += work->part[i] * work->part[j];
  }
}

/* Add the row at a place of the open block to the sums of an episode: those channels are blamed without which
it is usual, one after the other. O(E²) each */
static void add_to_episode(const reference_settings *settings, reference_state *state, moving_work *work,
                           int64_t kept_at, int64_t place) {
  int64_t *kept = kept_of(state, kept_at), width = state->rows.columns;
  episode_sums sums = sums_at(state, kept_at);
  if (kept[KEPT_ROWS]++ == 0) fill(sums.hours, 0.0, state->episode_sums.columns);
  double hour = row_of(&state->measured, streams_of(state))[place];
  if (hour >= 0.0 && hour < HOURS) sums.hours[(int64_t)hour] += 1.0;
  const double *row = row_of(&state->rows, settings->lags - 1 + place);
  for (int64_t d = 0; d < width; d++) {
    sums.first[d] += row[d];
    sums.second[d] = fma(row[d], row[d], sums.second[d]);
  }
  measure_row(settings, state, work, place);
  for (int taken = 0; taken < MOST_BLAMED; taken++) {
    int64_t worst = worst_channel(state, work);
    int64_t fast = fast_of(worst), slow = slow_of(state, worst);
    int odd = work->scores[fast] > work->of.begin[fast] || work->scores[slow] > work->of.begin[slow];
    if (!odd) return;
    take_out(state, work, &sums, worst);
    measure_ordered(state, work);
  }
}

/* Add the rows of the open block that were left out to the sums of their episodes. */
static int add_to_episodes(const reference_settings *settings, reference_state *state) {
  arena scratch = {0};
  lay_lanes(&scratch, state);
  if (!take_block(&scratch)) return 0;
  lane *lanes = lay_lanes(&scratch, state);
  for (int64_t place = 0; place < state->good.size; place++) {
    double number = left_out(state)[place];
    int64_t mode = mode_at(state, place);
    for (int64_t at = 0; at < state->episode_sums.rows && number > 0.0 && mode != NO_MODE; at++) {
      const int64_t *kept = kept_of(state, at);
      if ((double)kept[KEPT_NUMBER] != number || kept[KEPT_MODE] != mode) continue;
      lane *one = lane_of(settings, state, lanes, mode);
      if (one->scored) add_to_episode(settings, &one->of.state, &one->work, at, place);
    }
  }
  give_back(&scratch);
  return 1;
}

/* Mean square of a stream's scores. */
static double mean_square(const double *tally, int64_t bins) {
  double total = 0.0, sum = 0.0;
  for (int64_t bin = 0; bin < bins; bin++) {
    double middle = 0.5 * (edge_of(bin, SCORE_LOWEST) + edge_of(bin + 1, SCORE_LOWEST));
    total += tally[bin];
    sum = fma(tally[bin] * middle, middle, sum);
  }
  return sum / larger(total, 1e-9);
}

/* Count the scores of the rows that an episode begins and ends with, without the slow means: the newest row of a
channel alone is so far off, and as many times as there are rows beside it. */
static void count_ends(reference_state *state, moving_work *work, int64_t channel, double off) {
  int64_t width = state->rows.columns, ends = 2 * (work->own - work->means);
  fill(work->ordered, 0.0, state->mean.size);
  work->ordered[channel] = off;
  measure_ordered(state, work);
  for (int64_t d = 0; d <= width; d++) {
    int64_t stream = fast_of(d), bins = state->tally.columns;
    double score = FALSE_FURTHER * work->scores[stream];
    row_of(&state->tally, stream)[bin_of(score, SCORE_LOWEST, bins)] += FALSE_COUNTS * (double)ends;
  }
}

/* Count the scores that an episode's rows have under what is learned now, each stream's by its root mean square:
that of all rows, and what the channels' distances add. The columns of a factor of a channel's Σδδᵀ are as many
rows that have it for their sum. O(E³) */
static int count_scores(part *of, const episode_sums *sums, int64_t rows) {
  reference_state *state = &of->state;
  int64_t width = state->rows.columns, own = state->mean.size / width, many = streams_of(state);
  arena scratch = {0};
  lay_work(&scratch, state);
  table(&scratch, own, own);
  table(&scratch, own, own);
  reals(&scratch, own);
  reals(&scratch, many);
  if (!take_block(&scratch)) return 0;
  moving_work work = lay_work(&scratch, state);
  mat products = table(&scratch, own, own), factor = table(&scratch, own, own);
  double *rest = reals(&scratch, own), *squares = reals(&scratch, many);
  find_places(state, &work);
  find_factors(state, &work);
  for (int64_t stream = 0; stream < many - 1; stream++)
    squares[stream] = mean_square(row_of(&state->tally, stream), state->tally.columns);
  for (int64_t channel = 0; channel < width; channel++) {
    if (!(sums->blamed[channel] > 0.0)) continue;
    const double *from = products_of(state, sums, channel);
    for (int64_t i = 0; i < own; i++)
      for (int64_t j = 0; j <= i; j++)
        row_of(&products, i)[j] = row_of(&products, j)[i] = from[i * (i + 1) / 2 + j] / (double)rows;
    semidefinite_factor(&products, rest, &factor);
    for (int64_t column = 0; column < own; column++) {
      fill(work.ordered, 0.0, state->mean.size);
      for (int64_t i = 0; i < own; i++) work.ordered[i * width + channel] = row_of(&factor, i)[column];
      measure_ordered(state, &work);
      for (int64_t stream = 0; stream < many - 1; stream++)
        squares[stream] = fma(work.scores[stream], work.scores[stream], squares[stream]);
    }
    count_ends(state, &work, channel, sqrt(from[0] / sums->blamed[channel]));
  }
  for (int64_t stream = 0; stream < many - 1; stream++) {
    double *tally = row_of(&state->tally, stream), score = FALSE_FURTHER * sqrt(squares[stream]);
    tally[bin_of(score, SCORE_LOWEST, state->tally.columns)] += FALSE_COUNTS * (double)rows;
  }
  give_back(&scratch);
  return 1;
}

/* Learn what the channels were like in an episode at its hours, at each of them as on the whole. */
static void learn_hours(part *of, const episode_sums *sums, int64_t rows) {
  reference_state *state = &of->state;
  int64_t width = state->rows.columns, last = streams_of(state) - 1;
  for (int64_t hour = 0; hour < HOURS; hour++) {
    double here = sums->hours[hour], largest = 0.0, now[3];
    if (!(here > 0.0)) continue;
    for (int64_t d = 0; d < width; d++) {
      double first = sums->first[d] / (double)rows, second = sums->second[d] / (double)rows;
      double *known = row_of(&state->hours, hour) + 3 * d;
      known[0] += here;
      known[1] = fma(here, first, known[1]);
      known[2] = fma(here, second, known[2]);
      if (state->causes.at[d]) continue;
      hour_sums(state, hour, d, now);
      double mean = now[1] / now[0], spread = larger(now[2] / now[0] - mean * mean, 0.0);
      double square = larger(second - mean * (2.0 * first - mean), 0.0);
      largest = larger(largest, square / (spread + HOUR_FLOOR * HOUR_FLOOR));
    }
    row_of(&state->tally, last)[bin_of(sqrt(largest), SCORE_LOWEST, state->tally.columns)] += here;
  }
}

/* Learn an episode that was false: how far its channels were above what the others make of them may come again,
of ties between channels it says nothing. O(E³) */
static int learn_episode(const reference_settings *settings, reference_state *state, int64_t at,
                         double memory) {
  int64_t *kept = kept_of(state, at), rows = kept[KEPT_ROWS], width = state->rows.columns;
  part of = part_of(state, kept[KEPT_MODE]);
  int64_t own = of.state.mean.size / width;
  episode_sums sums = sums_at(state, at);
  fade_learned(&of, memory_of_part(state, &of, memory));
  for (int64_t channel = 0; channel < width; channel++) {
    const double *products = products_of(state, &sums, channel);
    for (int64_t i = 0; i < own; i++)
      for (int64_t j = 0; j <= i; j++) {
        double *entry = row_of(&of.state.scatter, i * width + channel) + j * width + channel;
        *entry = fma(FALSE_COUNTS, products[i * (i + 1) / 2 + j], *entry);
      }
  }
  if (!find_whitener(settings, &of) || !count_scores(&of, &sums, rows)) return 0;
  learn_hours(&of, &sums, rows);
  return 1;
}

/* Learn the rows of the episodes that were false and are over. */
static int learn_episodes(const reference_settings *settings, reference_state *state, double memory) {
  int64_t places = state->episode_sums.rows;
  for (int64_t place = 0; place < places; place++) {
    int64_t *kept = kept_of(state, place);
    if (!kept[KEPT_FALSE] || is_open(state, kept)) continue;
    if (kept[KEPT_ROWS] > 0) {
      if (!learn_episode(settings, state, place, memory)) return 0;
      kept_of(state, places)[KEPT_LEARNED] += 1;
    }
    for (int64_t i = 0; i < KEPT_NUMBERS; i++) kept[i] = 0;
    fill(row_of(&state->episode_sums, place), 0.0, state->episode_sums.columns);
  }
  return 1;
}

/* Hours are those of all modes: a mode at another time of day than ever is odd. */
static void fade_hours(reference_state *state, double memory) {
  double kept = 0.0;
  for (int64_t hour = 0; hour < state->hours.rows; hour++) kept += row_of(&state->hours, hour)[0];
  fade(state->hours.at, state->hours.rows * state->hours.columns, kept, memory);
}

/* An episode began among what waits: it is not learned. */
static void leave_out_waiting(reference_state *state) {
  int64_t *status = status_of(state);
  if (status[WAITING] >= 0) return;
  for (int64_t mode = 0; mode < most_of(modes_of(state), 1); mode++) {
    part of = part_of(state, mode);
    forget_waiting(&of);
  }
  status[WAITING] = 0;
}

/* Keep what is known of a mode, before rows of a change that lasts are learned. */
static void keep_former(reference_state *state) {
  int64_t *compared = state->compared.at;
  if (compared[TO_KEEP] == 0) return;
  part of = part_of(state, compared[TO_KEEP] - 1);
  int64_t size = of.state.mean.size;
  copy(row_of(&state->former, 0), of.state.mean.at, size);
  copy(row_of(&state->former, 1), of.state.whitener.at, size * size);
  const double *tally = row_of(&of.state.tally, 0);
  double total = sum_of(tally, of.state.tally.columns), over = 0.0;
  int64_t bin = of.state.tally.columns;
  while (bin > 0 && over <= TAIL_PART * total) over += tally[--bin];
  row_of(&state->former, size + 1)[0] = edge_of(bin + 1, SCORE_LOWEST);
  compared[FORMER_OF] = compared[TO_KEEP];
  compared[TO_KEEP] = 0;
}

int end_streams(const reference_settings *settings, reference_state *state) {
  int64_t *counts = state->counts.at, *status = status_of(state), many = streams_of(state);
  int64_t since = counts[SEEN] - counts[BEGAN];
  if (!settings->learn) return 1;
  double memory = memory_of(settings, state);
  if (!add_to_episodes(settings, state)) return 0;
  keep_former(state);
  leave_out_waiting(state);
  if (!learn_episodes(settings, state, memory)) return 0;
  for (int64_t mode = 0; mode < most_of(modes_of(state), 1); mode++)
    if (!end_part(settings, state, mode, memory)) return 0;
  if (since > settings->fit_rows) {
    if (modes_of(state) > 0) fade_hours(state, memory);
    add_heights(state);
    double watched = state->watched.at[0];
    fade(state->heights.at, many * state->heights.columns, watched, memory);
    fade(state->watched.at, 1, watched, memory);
  }
  /* The pace that a rate in time goes by is that of the rows of a memory, which STRETCHED counts. */
  if (!status[ARMED]) state->times.at[STRETCH_TIME] = state->times.at[NEWEST_TIME];
  if (counts[OPENED] < 0) find_limits(settings, state);
  if (counts[CALIBRATED] > 0 && (double)since >= memory && !status[ARMED]) {
    /* What was rehearsed is over. */
    for (int64_t stream = 0; stream < many; stream++) {
      book_height(state, stream);
      row_of(&state->evidences, stream)[MOVING_SUM] = 0.0;
    }
    status[ARMED] = 1;
  }
  status[REMEMBERED] = (int64_t)memory;
  return 1;
}
