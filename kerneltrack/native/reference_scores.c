/* The scores of a row by a reference that moves: of all that is said of it, of each channel, of the hour. */
#include <math.h>

#include "linalg.h"
#include "reference_streams.h"

/* Rows in which a slow mean counts once: so many, and so many more for each time that its variance is that of
independent rows' slow mean, which is such a part of theirs. */
#define LASTS 25.0
#define LASTS_WIDER 0.7
#define SLOW_PART (0.02 / (2.0 - 0.02))
/* What a slow mean is by the others, where these are far from what is usual, is known to such a part of the way: how
they go along was learned near to it. */
#define KNOWN_WITHIN 0.2
/* Where what the others make of a row jumps, from that before, it is known to such a part of the jump: a channel may
follow at once, or a row later. */
#define KNOWN_WITHIN_JUMP 0.7
/* Of the hours: rows that one is known by, days seen before. */
#define KNOWN_HOUR 12.0
/* An hour is not known by those beside it: such a part of the rows, usually half of them, must be its own. */
#define OWN_PART 4.0
#define HOUR_DAYS 3
#define NOT_KNOWN -1.0
#define HOUR_NS 3600000000000
/* The hour of a week, from Monday on, with which times begin: 1970 began on a Thursday. */
#define FIRST_HOUR (3 * HOURS)
#define HOURS_OF_WEEK (7 * HOURS)
/* Entries of v that are summed side by side, in registers. */
#define TILE_OF_V 16

moving_work lay_work(arena *from, const reference_state *state) {
  int64_t size = state->mean.size, width = state->rows.columns, own = size / width;
  moving_work work = {.e = reals(from, size), .own = own, .means = means_of(state)};
  work.y = reals(from, size);
  int64_t tiles = (size + TILE_OF_V - 1) / TILE_OF_V * TILE_OF_V;
  work.v = reals(from, tiles);
  work.whitener = table(from, size, tiles);
  work.part = reals(from, own);
  int64_t wide = padded(width);
  work.gains = reals(from, wide);
  work.fast = reals(from, wide);
  work.slow = reals(from, wide);
  work.side_by_side = table(from, own * own, wide);
  work.turned = table(from, own, wide);
  work.rest = table(from, own, wide);
  work.stepped = table(from, own, wide);
  work.steps = reals(from, wide);
  work.jump_units = reals(from, wide);
  work.counted = reals(from, wide);
  work.hour = -1;
  work.hour_means = reals(from, wide);
  work.hour_spreads = reals(from, wide);
  work.hour_far = reals(from, wide);
  work.scores = reals(from, streams_of(state));
  work.surprises = reals(from, padded(streams_of(state)));
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
  if (has_windows(state)) {
    work.window = make_window_rows(from, state);
    work.parts = reals(from, width);
  }
  return work;
}

int64_t order_causes(const reference_state *state, int64_t *places) {
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

void find_places(const reference_state *state, moving_work *work) {
  int64_t width = state->rows.columns;
  work->given = order_causes(state, work->places);
  for (int64_t d = 0; d < width; d++)
    for (int64_t i = 0; i < work->own; i++) work->entries[d * work->own + i] = work->places[i * width + d];
}

/* Whether a channel's entries have the row before the newest. */
static int has_row_before(const moving_work *work) { return work->own - work->means > 1; }

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
  if (has_windows(state))
    work->units[windows_of(state)] =
        smaller(WINDOW_COUNTS / (double)most_of(state->counts.at[WINDOW_LENGTH], 1), 1.0);
}

/* The blocks Ω_AA of all channels, their entries side by side. W is a lower triangle: what it has not is 0. O(E²·E/D) */
static void find_blocks(const reference_state *state, moving_work *work) {
  int64_t width = state->rows.columns, own = work->own;
  fill(work->side_by_side.at, 0.0, work->side_by_side.rows * work->side_by_side.columns);
  for (int64_t k = work->given; k < work->whitener.rows; k++) {
    const double *row = row_of(&work->whitener, k);
    for (int64_t i = 0; i < own; i++)
      for (int64_t d = 0; d < width; d++) row_of(&work->turned, i)[d] = row[work->places[i * width + d]];
    for (int64_t i = 0; i < own; i++)
      for (int64_t j = 0; j <= i; j++)
        for (int64_t d = 0; d < width; d += LANES) {
          double *to = row_of(&work->side_by_side, i * own + j) + d;
          store4(to, fma4(load4(row_of(&work->turned, i) + d), load4(row_of(&work->turned, j) + d), load4(to)));
        }
  }
}

/* What a channel's jump is made of: the step of its newest value, less that of how far this is from what the others
make of it, Lᵀ⁻¹rest by its first two entries. */
static void find_jump(moving_work *work, int64_t channel) {
  for (int64_t i = 0; i < work->own; i++) {
    double left = i == 0 ? 1.0 : i == 1 ? -1.0 : 0.0;
    for (int64_t j = 0; j < i; j++)
      left = fma(-row_of(&work->side_by_side, i * work->own + j)[channel], row_of(&work->stepped, j)[channel], left);
    row_of(&work->stepped, i)[channel] = left * row_of(&work->side_by_side, i * work->own + i)[channel];
  }
  work->jump_units[channel] = KNOWN_WITHIN_JUMP / sqrt(larger(variance_of(work, channel, 0), 1e-300));
}

void find_factors(const reference_state *state, moving_work *work) {
  int64_t width = state->rows.columns, own = work->own;
  for (int64_t i = 0; i < work->whitener.rows; i++)
    copy(row_of(&work->whitener, i), lower_row(state->whitener.at, i), i + 1);
  find_blocks(state, work);
  for (int64_t channel = 0; channel < width; channel++) {
    work->known[channel] = 0;
    work->jump_units[channel] = 0.0;
    if (state->causes.at[channel]) continue;
    for (int64_t i = 0; i < own; i++)
      for (int64_t j = 0; j <= i; j++)
        row_of(&work->block, i)[j] = row_of(&work->side_by_side, i * own + j)[channel];
    work->known[channel] = cholesky(&work->block, 0.0, &work->chol);
    copy(row_of(&work->factors, channel * own), work->chol.at, own * own);
    for (int64_t i = 0; i < own * own; i++) row_of(&work->side_by_side, i)[channel] = work->chol.at[i];
    if (work->known[channel] && has_row_before(work)) find_jump(work, channel);
  }
  find_units(state, work);
}

/* By how much d² would fall if a channel were what the others make of it, v_AᵀΩ_AA⁻¹v_A, by its root; and what
the rows say of that beside its means over time, how much of it counts, and the slow mean by itself: of four channels
side by side, from one on. O((E/D)²) */
static void measure_four(moving_work *work, int64_t channel) {
  int64_t own = work->own, means = work->means;
  v4 gain = all4(0.0), fast = gain, slow = gain, jump = load4(work->steps + channel);
  for (int64_t i = 0; i < own; i++) {
    v4 rest = load4(row_of(&work->turned, i) + channel);
    for (int64_t j = 0; j < i; j++)
      rest = fma4(-load4(row_of(&work->side_by_side, i * own + j) + channel),
                  load4(row_of(&work->rest, j) + channel), rest);
    /* The diagonal holds inverses. */
    rest *= load4(row_of(&work->side_by_side, i * own + i) + channel);
    store4(row_of(&work->rest, i) + channel, rest);
    gain = fma4(rest, rest, gain);
    jump = fma4(-load4(row_of(&work->stepped, i) + channel), rest, jump);
    if (i < own - means) fast = gain;
    if (means > 0 && i == own - 1) slow = rest;
  }
  store4(work->gains + channel, sqrt4(gain));
  store4(work->fast + channel, sqrt4(fast));
  store4(work->slow + channel, slow);
  jump *= load4(work->jump_units + channel);
  store4(work->counted + channel, all4(1.0) / sqrt4(fma4(jump, jump, all4(1.0))));
}

/* How far a channel's slow mean is from what the others make of it, in deviations beside them; less where they make
much of it. */
static double slow_score(const moving_work *work, int64_t channel) {
  int64_t own = work->own;
  if (!work->known[channel] || work->means == 0) return 0.0;
  /* The factor's diagonal holds inverses. */
  double unit = row_of(&work->side_by_side, own * own - 1)[channel], left = work->slow[channel];
  double made = KNOWN_WITHIN * (work->e[work->entries[channel * own + own - 1]] / unit - left);
  return fabs(left) / sqrt(fma(made, made, 1.0));
}

/* The gains and scores of all channels. */
static void measure_channels(const reference_state *state, moving_work *work) {
  int64_t width = state->rows.columns, own = work->own;
  for (int64_t i = 0; i < own; i++)
    for (int64_t d = 0; d < width; d++) row_of(&work->turned, i)[d] = work->v[work->places[i * width + d]];
  for (int64_t d = 0; d < width && has_row_before(work); d++)
    work->steps[d] = work->e[work->entries[d * own]] - work->e[work->entries[d * own + 1]];
  for (int64_t channel = 0; channel < width; channel += LANES) measure_four(work, channel);
  double whole = 0.0, counted = 0.0;
  for (int64_t channel = 0; channel < width; channel++) {
    if (!work->known[channel]) work->gains[channel] = work->fast[channel] = work->counted[channel] = 0.0;
    double fast = work->fast[channel], counts = fast * work->counted[channel];
    whole = fma(fast, fast, whole);
    counted = fma(counts, counts, counted);
    work->scores[fast_of(channel)] = counts;
    work->scores[slow_of(state, channel)] = slow_score(work, channel);
  }
  work->counted_together = whole > 0.0 ? sqrt(counted / whole) : 1.0;
}

double distance_above(const moving_work *work, int64_t channel, double *usual) {
  int64_t own = work->own;
  *usual = 1.0;
  if (!work->known[channel]) return 0.0;
  mat factor = rows_from(&work->factors, channel * own, own);
  *usual = sqrt(variance_of(work, channel, 0));
  for (int64_t i = 0; i < own; i++) work->part[i] = work->v[work->entries[channel * own + i]];
  solve_cholesky(&factor, work->part);
  return work->part[0];
}

/* The place of an hour by local clocks, ns: that of the day, on days off behind those of the others; -1 where rows
have no times. */
static int64_t hour_of(const reference_settings *settings, int64_t time, int64_t local) {
  if (!settings->season || time == 0) return -1;
  int64_t hour = local / HOUR_NS - (local % HOUR_NS < 0);
  int64_t of_week = ((hour + FIRST_HOUR) % HOURS_OF_WEEK + HOURS_OF_WEEK) % HOURS_OF_WEEK;
  return (settings->days_off >> of_week / HOURS & 1) * HOURS + of_week % HOURS;
}

void hour_sums(const reference_state *state, int64_t hour, int64_t channel, double *sums) {
  int64_t first = hour / HOURS * HOURS;
  const double *now = row_of(&state->hours, hour);
  const double *before = row_of(&state->hours, first + (hour + HOURS - 1) % HOURS);
  const double *after = row_of(&state->hours, first + (hour + 1) % HOURS);
  for (int64_t i = 3 * channel; i < 3 * channel + 3; i++)
    sums[i - 3 * channel] = fma(0.5, before[i] + after[i], now[i]);
}

/* What the channels were at an hour and those beside it; whether it is known. */
static void find_hour(const reference_state *state, moving_work *work, int64_t hour) {
  work->hour = hour;
  work->knows_hour = 0;
  for (int64_t d = 0; d < state->rows.columns; d++) {
    double sums[3];
    hour_sums(state, hour, d, sums);
    double own = row_of(&state->hours, hour)[3 * d];
    if (!(sums[0] >= KNOWN_HOUR && own * OWN_PART >= sums[0])) return;
    double mean = sums[1] / sums[0], spread = larger(sums[2] / sums[0] - mean * mean, 0.0);
    work->hour_means[d] = mean;
    work->hour_spreads[d] = sqrt(spread + HOUR_FLOOR * HOUR_FLOOR);
  }
  work->knows_hour = 1;
}

/* The largest distance of a channel from what it was at this hour and those beside it, in deviations; below 0 where
the hour is not known. */
static double hour_score(const reference_state *state, moving_work *work, const double *row, int64_t hour, double seen) {
  if (hour < 0 || seen < (double)HOUR_DAYS * HOURS * (double)HOUR_NS) return NOT_KNOWN;
  /* It is found once: rows that follow one another are mostly of the same. */
  if (work->hour != hour) find_hour(state, work, hour);
  if (!work->knows_hour) return NOT_KNOWN;
  double largest = 0.0;
  for (int64_t d = 0; d < state->rows.columns; d++)
    if (!state->causes.at[d]) largest = larger(largest, fabs(row[d] - work->hour_means[d]) / work->hour_spreads[d]);
  return largest;
}

/* v ← Wᵀy, in registers: each entry's terms in the order of W's rows. O(E²/2) */
static void turn_back(const mat *whitener, const double *y, double *v) {
  for (int64_t at = 0; at < whitener->columns; at += TILE_OF_V) {
    v4 sums[TILE_OF_V / LANES] = {{0}};
    for (int64_t i = at; i < whitener->rows; i++) {
      const double *row = row_of(whitener, i) + at;
      v4 factor = all4(y[i]);
      UNROLLED
      for (int t = 0; t < TILE_OF_V / LANES; t++) sums[t] = fma4(factor, load4(row + LANES * t), sums[t]);
    }
    UNROLLED
    for (int t = 0; t < TILE_OF_V / LANES; t++) store4(v + at + LANES * t, sums[t]);
  }
}

void measure_ordered(const reference_state *state, moving_work *work) {
  int64_t size = state->mean.size, width = state->rows.columns;
  for (int64_t k = 0; k < size; k++) work->e[work->places[k]] = work->ordered[k];
  /* What comes behind the causes in y is what they leave of the rest. */
  for (int64_t i = 0; i < size; i++) work->y[i] = dot(row_of(&work->whitener, i), work->e, i + 1);
  turn_back(&work->whitener, work->y, work->v);
  measure_channels(state, work);
  /* Of all channels: behind the causes the slow means come first, then the fast ones. */
  int64_t rest = size - work->given, each = rest / work->own, means = each * work->means;
  const double *y = work->y + work->given;
  work->scores[0] = sqrt(dot(y, y, rest));
  work->scores[fast_of(width)] = sqrt(dot(y + means, y + means, rest - means)) * work->counted_together;
  work->scores[slow_of(state, width)] = sqrt(dot(y, y, work->means > 0 ? each : 0));
}

void measure_row(const reference_settings *settings, const reference_state *state,
                 moving_work *work, int64_t place) {
  embed(state, settings->lags, place, work->ordered);
  measure_ordered(state, work);
}

void score_row(const reference_settings *settings, reference_state *state, moving_work *work,
               int64_t place, int64_t time, int64_t local, int64_t followed) {
  int64_t many = streams_of(state);
  const double *row = row_of(&state->rows, settings->lags - 1 + place);
  measure_row(settings, state, work, place);
  work->distance = work->scores[0];
  if (has_windows(state)) score_window(settings, state, work, place, followed);
  int64_t hour = hour_of(settings, time, local);
  double seen = (double)time - (double)state->times.at[FIRST_TIME];
  work->scores[many - 1] = hour_score(state, work, row, hour, seen);
  for (int64_t stream = 0; stream < many; stream++)
    row_of(&state->measured, stream)[place] = work->scores[stream];
  row_of(&state->measured, many)[place] = (double)hour;
}

int64_t worst_channel(const reference_state *state, const moving_work *work) {
  int64_t worst = 0;
  while (state->causes.at[worst]) worst++;
  for (int64_t channel = worst + 1; channel < state->rows.columns; channel++)
    if (work->gains[channel] > work->gains[worst]) worst = channel;
  return worst;
}

/* Whether there is a whitener to score rows by, of so many rows at least. */
static int is_scored(const reference_settings *settings, const reference_state *state, const part *of) {
  if (modes_of(state) > 0) return *of->learned >= settings->fit_rows;
  return state->counts.at[SEEN] - state->counts.at[BEGAN] >= settings->fit_rows;
}

lane *lay_lanes(arena *from, reference_state *state) {
  int64_t many = most_of(modes_of(state), 1);
  lane *lanes = piece(from, many, sizeof(lane));
  for (int64_t mode = 0; mode < many; mode++) {
    part of = part_of(state, mode);
    moving_work work = lay_work(from, &of.state);
    if (lanes) lanes[mode] = (lane){.of = of, .work = work};
  }
  return lanes;
}

lane *lane_of(const reference_settings *settings, reference_state *state, lane *lanes,
              int64_t mode) {
  lane *one = &lanes[mode];
  if (one->found) return one;
  one->found = 1;
  one->of = part_of(state, mode);
  find_places(&one->of.state, &one->work);
  one->scored = is_scored(settings, state, &one->of);
  if (one->scored) find_factors(&one->of.state, &one->work);
  if (*one->of.sorted > 0) find_chances(&one->of.state, &one->work.of);
  if (has_windows(state))
    one->work.usual_window = mean_score(row_of(&state->tally, windows_of(state)), state->tally.columns);
  return one;
}
