/* The scores of a reference that moves, and the excursions of its evidence, as they are kept: what they say of a
new score, and the thresholds. */
#include <math.h>

#include "elementary.h"
#include "reference_streams.h"

/* The exponent that the bins of heights begin with. */
#define HEIGHT_LOWEST -3
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

chances lay_chances(arena *from, const reference_state *state) {
  int64_t many = streams_of(state);
  chances of = {.share = table(from, many, state->tally.columns + 1)};
  of.total = reals(from, many);
  of.begin = reals(from, many);
  of.part = reals(from, many);
  of.width = reals(from, many);
  of.shape = reals(from, many);
  return of;
}

void find_chances(const reference_state *state, chances *of) {
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
    shape += is_slow(state, stream) ? SLOW_TAIL_HEAVIER : TAIL_HEAVIER;
    of->shape[stream] = smaller(larger(shape, LEAST_SHAPE), MOST_SHAPE);
    of->width[stream] = larger(TAIL_WIDER * first * (1.0 - of->shape[stream]), 1e-9);
  }
}

double surprise_by(const chances *of, int64_t stream, double score) {
  if (score < 0.0) return 0.0;
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

/* Whether the window of a row of the open block has rows of an episode in it. */
static int is_of_episode(const reference_state *state, int64_t stream, int64_t place) {
  if (!has_windows(state) || stream != windows_of(state)) return 0;
  return shows_what_was(state, stream, state->counts.at[SEEN] - state->good.size + place);
}

void add_scores(reference_state *state, int64_t mode, int64_t lags) {
  int64_t many = streams_of(state), width = state->rows.columns;
  for (int64_t place = 0; place < state->good.size; place++) {
    if (!state->good.at[place] || mode_at(state, place) != mode) continue;
    for (int64_t stream = 0; stream < many; stream++) {
      double score = row_of(&state->measured, stream)[place];
      if (score < 0.0 || is_of_episode(state, stream, place)) continue;
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

void add_heights(reference_state *state) {
  for (int64_t stream = 0; stream < streams_of(state); stream++) {
    double *best = &row_of(&state->evidences, stream)[MOVING_BEST];
    if (*best > 0.0)
      row_of(&state->heights, stream)[bin_of(*best, HEIGHT_LOWEST, state->heights.columns)] += 1.0;
    *best = 0.0;
  }
}

/* h: where excursions of S are as rare as stated. Of the highest ones the heights beyond a level
are taken as exponential with a mean that is not known better than they say. */
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
  double mean = larger(over / count, 1.0);
  return least + mean * count * (exp1(log1(count / wanted) / count) - 1.0);
}

/* The part of their own thresholds at which excursions of all streams together are as rare as stated. The sum of the
streams' rates, by which these are made, is the most that theirs can be: it is 1 at most. */
static double part_of_limits(const reference_settings *settings, const reference_state *state) {
  const double *heights = row_of(&state->heights, 0);
  int64_t bins = state->heights.columns;
  if (sum_of(heights, bins) < ENOUGH_PEAKS) return 1.0;
  double limit = limit_of(heights, bins, state->watched.at[0], rate_of(settings, state));
  return smaller(larger(limit / TOGETHER, LEAST_PART), 1.0);
}

void find_limits(const reference_settings *settings, reference_state *state) {
  int64_t causes = 0;
  for (int64_t d = 0; d < state->causes.size; d++) causes += state->causes.at[d];
  /* Of the channels and of all of them, with the slow means if there are any; and the hours if they are known. */
  int64_t weighed = (state->causes.size - causes + 1) * (means_of(state) > 0 ? 2 : 1);
  weighed += settings->season != 0;
  weighed += has_windows(state);
  double rate = rate_of(settings, state) / (double)weighed, part = part_of_limits(settings, state);
  row_of(&state->evidences, 0)[MOVING_LIMIT] = part;
  for (int64_t stream = 1; stream < streams_of(state); stream++) {
    double limit = limit_of(row_of(&state->heights, stream), state->heights.columns,
                            state->watched.at[0], rate);
    row_of(&state->evidences, stream)[MOVING_LIMIT] = smaller(part * larger(limit, 1.0), MOST_THRESHOLD);
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
