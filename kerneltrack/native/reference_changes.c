/* Whether a change lasts or is over: the rows of an episode held against what is normal, and what was so before. */
#include <math.h>

#include "linalg.h"
#include "reference_streams.h"

/* What a row counts in how many of the last ones are odd, further out than nine in ten were. */
#define LASTLY_RATE 0.1
#define HALF_WAY 0.5

/* The Cholesky factor of Ω_BB, B being the means over time of what is scored; it is found once. O(ED²) */
static const mat *factor_of_means(moving_work *work, double *whitener, int which) {
  mat *factor = &work->bare[which], *block = &work->tied;
  if (work->found[which]) return factor;
  work->found[which] = 1;
  for (int64_t i = 0; i < block->rows; i++)
    for (int64_t j = 0; j <= i; j++) row_of(block, i)[j] = 0.0;
  for (int64_t k = work->given; k < work->whitener.rows; k++) {
    const double *row = lower_row(whitener, k) + work->given;
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
                            double *whitener, int which) {
  int64_t size = state->mean.size, rest = size - work->given;
  for (int64_t k = 0; k < size; k++) work->e[work->places[k]] = work->ordered[k] - mean[k];
  for (int64_t i = 0; i < size; i++) work->y[i] = dot(lower_row(whitener, i), work->e, i + 1);
  const mat *factor = factor_of_means(work, whitener, which);
  double square = dot(work->y + work->given, work->y + work->given, rest);
  double *turned = work->v, *half = work->part_of_means;
  fill(turned, 0.0, factor->rows);
  for (int64_t k = 0; k < rest; k++)
    add_scaled(turned, work->y[work->given + k], lower_row(whitener, work->given + k) + work->given,
               least_of(k + 1, factor->rows));
  for (int64_t i = 0; i < factor->rows; i++) {
    half[i] = (turned[i] - dot(row_of(factor, i), half, i)) * row_of(factor, i)[i];
    square -= half[i] * half[i];
  }
  return sqrt(larger(square, 0.0) * (double)rest / (double)(rest - factor->rows));
}

void compare_row(const reference_settings *settings, reference_state *state, moving_work *work,
                 int64_t mode, int64_t place) {
  int64_t size = state->mean.size, *compared = state->compared.at;
  if (mode_at(state, place) != mode) return;
  embed(state, settings->lags, place, work->ordered);
  add_scaled(work->ordered, 1.0, state->mean.at, size);
  double now = distance_from(state, work, state->mean.at, state->whitener.at, 0);
  double *odd = &state->reals.at[LEVEL];
  *odd = fma(LASTLY_RATE, (now > work->of.begin[0] ? 1.0 : 0.0) - *odd, *odd);
  if (compared[FORMER_OF] != mode + 1) return;
  double *mean = state->former.at, *whitener = mean + size;
  double then = distance_from(state, work, mean, whitener, 1);
  copy(work->ordered, state->mean.at, size);
  double changed = distance_from(state, work, mean, whitener, 1);
  compared[COMPARED] += 1;
  double usual = whitener[state->whitener.columns];
  compared[USUAL] += changed > usual && then <= larger(usual, HALF_WAY * changed);
}

void compare_first_rows(const reference_settings *settings, reference_state *state,
                        moving_work *work, int64_t mode, int64_t row, int64_t place) {
  state->compared.at[COMPARED] = state->compared.at[USUAL] = 0;
  state->reals.at[LEVEL] = 0.0;
  for (int64_t i = most_of(place - (row - state->counts.at[ZERO]), 0); i < place; i++)
    compare_row(settings, state, work, mode, i);
}

void settle_change(reference_state *state) {
  int64_t *compared = state->compared.at;
  if (has_recovered(state)) {
    compared[CHANGED] = compared[CHANGED_TIME] = 0;
  } else if (state->reals.at[LEVEL] > LASTING && compared[CHANGED] == 0) {
    compared[CHANGED] = state->counts.at[ZERO] + 1;
    compared[CHANGED_TIME] = state->times.at[ZERO_TIME];
  }
}

void keep_former(reference_state *state) {
  int64_t *compared = state->compared.at;
  if (compared[TO_KEEP] == 0) return;
  part of = part_of(state, compared[TO_KEEP] - 1);
  int64_t size = of.state.mean.size, many = of.state.whitener.columns;
  copy(state->former.at, of.state.mean.at, size);
  copy(state->former.at + size, of.state.whitener.at, many);
  const double *tally = row_of(&of.state.tally, 0);
  double total = sum_of(tally, of.state.tally.columns), over = 0.0;
  int64_t bin = of.state.tally.columns;
  while (bin > 0 && over <= TAIL_PART * total) over += tally[--bin];
  state->former.at[size + many] = edge_of(bin + 1, SCORE_LOWEST);
  compared[FORMER_OF] = compared[TO_KEEP];
  compared[TO_KEEP] = 0;
}
