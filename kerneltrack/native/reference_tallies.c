/* The scores of a reference that moves, and the excursions of its evidence, as they are kept: what they say of a
new score, and the thresholds. */
#include <math.h>

#include "elementary.h"
#include "reference_streams.h"

/* The exponent that the bins of heights begin with. */
#define HEIGHT_LOWEST -3
/* How many bins of heights one of lasting evidence has. */
#define COARSE 2
/* How much wider the tail is taken than it was, and by how much heavier, since the farthest scores are seldom among
those that a memory holds; of a slow mean by more, which says the same in many rows, so that its scores are those of
few; its shape. */
#define TAIL_WIDER 1.3
#define TAIL_HEAVIER 0.1
#define SLOW_TAIL_HEAVIER 0.25
#define LEAST_SHAPE 0.05
#define MOST_SHAPE 0.5
#define MOST_SURPRISE 30.0
/* Excursions that a threshold is made of: one of so many blocks', within a range. */
#define PEAK_PART 4.0
#define FEWEST_PEAKS 10.0
#define MOST_PEAKS 24.0
#define ENOUGH_PEAKS 12.0
/* The least part of its own threshold at which a stream opens an episode: a memory has not seen all that comes. */
#define LEAST_PART 0.9
/* How much farther a threshold is taken as a memory ends, which has not seen what comes once in a while; this goes
back to nothing over a part of a memory. */
#define FARTHER_AT_FIRST 3.0
#define FARTHER_FOR 0.6

chances lay_chances(arena *from, const reference_state *state) {
  int64_t many = streams_of(state);
  chances of = {.share = table(from, many, state->tally.columns + 1)};
  of.total = reals(from, many);
  of.begin = reals(from, many);
  of.log_part = reals(from, many);
  of.width = reals(from, many);
  of.below = reals(from, padded(many));
  of.shape = reals(from, many);
  return of;
}

/* The place after the last bin that is not empty, 1 at least. */
static int64_t end_of(const double *tally, int64_t bins) {
  while (bins > 1 && !(tally[bins - 1] > 0.0)) bins--;
  return bins;
}

void find_chances(const reference_state *state, chances *of) {
  int64_t bins = state->tally.columns;
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    const double *tally = row_of(&state->tally, stream);
    double *share = row_of(&of->share, stream), sum = 0.0;
    /* Most bins are empty: those below the lowest score and above the highest. */
    int64_t end = end_of(tally, bins), low = 0;
    while (low < end - 1 && !(tally[low] > 0.0)) low++;
    fill(share + end, 0.0, bins + 1 - end);
    for (int64_t bin = end - 1; bin >= low; bin--) share[bin] = sum += tally[bin];
    double total = larger(sum, 1e-9);
    for (int64_t bin = low; bin < end; bin++) share[bin] /= total;
    fill(share, share[low], low);
    int64_t start = share[low] > TAIL_PART ? low : 0;
    while (start < bins - 1 && share[start] > TAIL_PART) start++;
    double begin = edge_of(start, SCORE_LOWEST), weight = 0.0, first = 0.0, second = 0.0;
    for (int64_t bin = start; bin < end; bin++) {
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
    of->log_part[stream] = log1(larger(share[start], 1.0 / larger(total, 1.0)));
    shape += is_slow(state, stream) ? SLOW_TAIL_HEAVIER : TAIL_HEAVIER;
    of->shape[stream] = smaller(larger(shape, LEAST_SHAPE), MOST_SHAPE);
    of->width[stream] = larger(TAIL_WIDER * first * (1.0 - of->shape[stream]), 1e-9);
  }
}

/* Whether a score is in its stream's tail. */
static int is_far(const chances *of, int64_t stream, double score) { return score - of->begin[stream] > 0.0; }

/* What a surprise is the logarithm of, but for what goes along with it: a fraction. */
static void find_chance(const chances *of, int64_t stream, double score, double *above, double *below) {
  *above = *below = 1.0;
  if (score < 0.0) return;
  if (is_far(of, stream, score)) {
    double over = score - of->begin[stream];
    *above = 1.0 + smaller(of->shape[stream] * over / of->width[stream], 1e300);
    return;
  }
  const double *share = row_of(&of->share, stream);
  int64_t bin = bin_of(score, SCORE_LOWEST, of->share.columns - 1);
  double within = place_in_bin(score, bin, SCORE_LOWEST);
  double from = share[bin], part = fma(share[bin + 1] - from, smaller(larger(within, 0.0), 1.0), from);
  *above = part * of->total[stream] + 0.5;
  *below = of->total[stream] + 1.0;
}

void surprises_by(const chances *of, const double *scores, int64_t many, double *surprises) {
  for (int64_t stream = 0; stream < many; stream++)
    find_chance(of, stream, scores[stream], &surprises[stream], &of->below[stream]);
  for (int64_t stream = many; stream < padded(many); stream++) surprises[stream] = of->below[stream] = 1.0;
  for (int64_t at = 0; at < many; at += LANES)
    store4(surprises + at, log4(load4(surprises + at) / load4(of->below + at)));
  for (int64_t stream = 0; stream < many; stream++) {
    double found = surprises[stream];
    if (!(scores[stream] < 0.0) && is_far(of, stream, scores[stream]))
      surprises[stream] = smaller(found / of->shape[stream] - of->log_part[stream], MOST_SURPRISE);
    else
      surprises[stream] = larger(-found, 0.0);
  }
}

/* Whether the window of a row of the open block has rows of an episode in it. */
static int is_of_episode(const reference_state *state, int64_t stream, int64_t place) {
  if (!has_windows(state) || stream != windows_of(state)) return 0;
  return shows_what_was(state, stream, state->counts.at[SEEN] - state->good.size + place);
}

void add_scores(reference_state *state, int64_t mode, int64_t lags) {
  int64_t many = streams_of(state), width = state->rows.columns;
  for (int64_t stream = 0; stream < many; stream++) {
    double *tally = row_of(&state->tally, stream);
    const double *scores = row_of(&state->measured, stream);
    for (int64_t place = 0; place < state->good.size; place++) {
      if (!state->good.at[place] || mode_at(state, place) != mode) continue;
      if (scores[place] < 0.0 || is_of_episode(state, stream, place)) continue;
      tally[bin_of(scores[place], SCORE_LOWEST, state->tally.columns)] += 1.0;
    }
  }
  for (int64_t place = 0; place < state->good.size; place++) {
    if (!state->good.at[place] || mode_at(state, place) != mode) continue;
    double hour = row_of(&state->measured, many)[place];
    if (!is_hour(state, hour)) continue;
    const double *row = row_of(&state->rows, lags - 1 + place);
    double *sums = row_of(&state->hours, (int64_t)hour);
    for (int64_t d = 0; d < width; d++) {
      sums[3 * d] += 1.0;
      sums[3 * d + 1] += row[d];
      sums[3 * d + 2] = fma(row[d], row[d], sums[3 * d + 2]);
    }
  }
}

/* How often the excursions of an evidence were so high: bins, each as wide as so many of the finest. */
typedef struct {
  double *at;
  int64_t bins, wide;
} tallied;

static tallied heights_of(const reference_state *state, int64_t evidence) {
  int64_t many = streams_of(state);
  if (evidence < many) return (tallied){row_of(&state->heights, evidence), state->heights.columns, 1};
  return (tallied){row_of(&state->lasting, evidence - many), state->lasting.columns, COARSE};
}

void add_heights(reference_state *state) {
  for (int64_t evidence = 0; evidence < evidences_of(state); evidence++) {
    double *best = &row_of(&state->evidences, evidence)[MOVING_BEST];
    tallied heights = heights_of(state, evidence);
    if (*best > 0.0)
      heights.at[bin_of(*best, HEIGHT_LOWEST, heights.wide * heights.bins) / heights.wide] += 1.0;
    *best = 0.0;
  }
}

/* Where a bin of heights begins, which is as wide as so many of the finest. */
static double height_at(int64_t bin, int64_t wide) { return edge_of(bin * wide, HEIGHT_LOWEST); }

/* h: where excursions of S are as rare as stated. Of the highest ones the heights beyond a level
are taken as exponential with a mean that is not known better than they say. */
static double limit_of(tallied of, double watched, double rate) {
  const double *heights = of.at;
  int64_t bins = end_of(heights, of.bins), wide = of.wide;
  double total = sum_of(heights, bins), wanted = larger(rate * watched, 1e-12), count = 0.0, over = 0.0;
  double kept = larger(FEWEST_PEAKS, smaller(MOST_PEAKS, total / PEAK_PART));
  kept = smaller(kept, larger(total - 1.0, 1.0));
  int64_t bin = bins - 1;
  if (total < ENOUGH_PEAKS) {
    /* Too few to tell how they thin out: beyond the highest as far as their mean. */
    double mean = 0.0;
    while (bin > 0 && !(heights[bin] > 0.0)) bin--;
    for (int64_t i = 0; i < bins; i++) mean = fma(heights[i], height_at(i + 1, wide), mean);
    mean = larger(mean / larger(total, 1.0), 1.0);
    return height_at(bin + 1, wide) + mean * log1(larger(1.0 / wanted, 2.718281828459045));
  }
  for (; bin > 0; bin--) {
    count += heights[bin];
    if (count >= kept) break;
  }
  double least = height_at(bin, wide);
  count = larger(count, 1.5);
  for (int64_t i = bin; i < bins; i++) {
    double middle = 0.5 * (height_at(i, wide) + height_at(i + 1, wide));
    over = fma(heights[i], larger(middle - least, 0.0), over);
  }
  if (wanted >= count) return least;
  double mean = larger(over / count, 1.0);
  return least + mean * count * (exp1(log1(count / wanted) / count) - 1.0);
}

/* The part of their own thresholds at which excursions of all streams together are as rare as stated. The sum of the
streams' rates, by which these are made, is the most that theirs can be: it is 1 at most. */
static double part_of_limits(const reference_settings *settings, const reference_state *state) {
  tallied heights = heights_of(state, 0);
  if (sum_of(heights.at, heights.bins) < ENOUGH_PEAKS) return 1.0;
  double limit = limit_of(heights, state->watched.at[0], rate_of(settings, state));
  return smaller(larger(limit / TOGETHER, LEAST_PART), 1.0);
}

/* How many times as far as its excursions say a threshold is, after so many memories. */
static double farther(double memories) {
  return 1.0 + FARTHER_AT_FIRST * smaller(larger((1.0 + FARTHER_FOR - memories) / FARTHER_FOR, 0.0), 1.0);
}

void find_limits(const reference_settings *settings, reference_state *state, double memory) {
  int64_t causes = 0;
  for (int64_t d = 0; d < state->causes.size; d++) causes += state->causes.at[d];
  /* Of the channels and of all of them, with the slow means if there are any; and the hours if they are known. What
  lasts in a slow mean is of the same scores, and seldom alone. */
  int64_t weighed = (state->causes.size - causes + 1) * (means_of(state) > 0 ? 2 : 1);
  weighed += settings->season != 0;
  weighed += has_windows(state);
  double rate = rate_of(settings, state) / (double)weighed, part = part_of_limits(settings, state);
  part *= farther((double)(state->counts.at[SEEN] - state->counts.at[BEGAN]) / memory);
  row_of(&state->evidences, 0)[MOVING_LIMIT] = part;
  for (int64_t evidence = 1; evidence < evidences_of(state); evidence++) {
    double limit = limit_of(heights_of(state, evidence), state->watched.at[0], rate);
    row_of(&state->evidences, evidence)[MOVING_LIMIT] = smaller(part * larger(limit, 1.0), MOST_THRESHOLD);
  }
}

double mean_score(const double *tally, int64_t bins) {
  double total = sum_of(tally, bins), sum = 0.0;
  for (int64_t bin = 0; bin < bins; bin++)
    sum = fma(tally[bin], edge_of(bin + 1, SCORE_LOWEST) + edge_of(bin, SCORE_LOWEST), sum);
  return 0.5 * sum / larger(total, 1.0);
}

void find_unit(part *of) {
  const double *tally = row_of(&of->state.tally, 0);
  double total = sum_of(tally, of->state.tally.columns);
  *of->unit = larger(mean_score(tally, of->state.tally.columns), 1e-9);
  *of->sorted = (int64_t)smaller(larger(total, 0.0), (double)of->state.calibration.columns);
}

double mean_square(const double *tally, int64_t bins) {
  double total = 0.0, sum = 0.0;
  for (int64_t bin = 0; bin < bins; bin++) {
    double middle = 0.5 * (edge_of(bin, SCORE_LOWEST) + edge_of(bin + 1, SCORE_LOWEST));
    total += tally[bin];
    sum = fma(tally[bin] * middle, middle, sum);
  }
  return sum / larger(total, 1e-9);
}
