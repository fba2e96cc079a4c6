/* The subspace of the covariance tracker: follow the r largest eigenvectors of C = Φ_S Γ Φ_Sᵀ. One
call is one step of orthogonal iteration with Rayleigh and Ritz's choice before it, started from the
subspace as it was and the new row; derivations are in `trackers/covariance/tracker.py`. */
#include "covariance.h"

#include "linalg.h"

/* What is left after an admitted row of the sums that the rank is chosen by: the last hundred
count. */
#define KEPT 0.99
/* Admitted rows, from the full budget on, before the first choice. */
#define PATIENCE 50
/* The rank falls to where the error is this part of what is allowed. */
#define BELOW 0.9
/* A smaller fraction of κ(x,x) counts as nothing, or rounding would choose. */
#define EXACT 1e-6

/* V = [E, new row], orthonormal, and its image. An eviction has shortened E's columns from 1. */
static void load(const covariance_state *state, span_work *work, double own) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  for (int64_t c = 0; c < rank; c++) {
    copy(row_of(&work->left, c), row_of(&state->factor, c), size);
    copy(row_of(&work->right, c), row_of(&state->image, c), size);
    work->least[c] = SPAN_DEPENDENT;
  }
  work->least[rank] = SPAN_DEPENDENT * own;
  orthonormalise(&work->left, &work->right, rank + 1, size, work->least);
}

/* Order the r + 1 Ritz vectors: the largest values first, ties by place. */
static void order_ritz(covariance_work *work, int64_t rank) {
  int64_t *order = work->order;
  for (int64_t c = 0; c <= rank; c++) order[c] = c;
  for (int64_t c = 0; c < rank; c++) {
    int64_t best = c;
    for (int64_t e = c + 1; e <= rank; e++) {
      double value = row_of(&work->small, order[e])[order[e]];
      if (value > row_of(&work->small, order[best])[order[best]]) best = e;
    }
    /* Kept in order, so that equal values stay where they are. */
    int64_t chosen = order[best];
    for (int64_t e = best; e > c; e--) order[e] = order[e - 1];
    order[c] = chosen;
  }
}

/* The Ritz vectors of VᵀKΓKV, in work.turns and work.order; its trace. */
static double find_ritz(covariance_work *work, int64_t size, int64_t rank) {
  double trace = 0.0;
  for (int64_t c = 0; c <= rank; c++) {
    double *row = row_of(&work->small, c);
    for (int64_t e = 0; e <= c; e++) {
      row[e] = dot(row_of(&work->span.right, e), row_of(&work->moved, c), size);
      row_of(&work->small, e)[c] = row[e];
    }
    trace += row[c];
  }
  diagonalise(&work->small, rank + 1, &work->turns);
  order_ritz(work, rank);
  return trace;
}

/* work.moved ← C of the first `count` directions: coefficients ΓKV. */
static void apply(const covariance_state *state, covariance_work *work, int64_t count) {
  int64_t size = state->counts.at[SIZE];
  for (int64_t c = 0; c < count; c++)
    span_image(&state->weights, row_of(&work->span.right, c), size, row_of(&work->moved, c));
}

/* work.moved gains shift·V. */
static void lift(covariance_work *work, int64_t count, double shift, int64_t size) {
  for (int64_t c = 0; c < count; c++)
    add_scaled(row_of(&work->moved, c), shift, row_of(&work->span.left, c), size);
}

/* The r largest Ritz vectors, each through C once: the new E, before it is made orthonormal. */
static void turn_moved(covariance_work *work, int64_t size, int64_t rank) {
  for (int64_t c = 0; c < rank; c++) {
    double *left = row_of(&work->span.left, c);
    const double *turn = row_of(&work->turns, work->order[c]);
    fill(left, 0.0, size);
    for (int64_t e = 0; e <= rank; e++) add_scaled(left, turn[e], row_of(&work->moved, e), size);
  }
}

void follow_covariance(const covariance_settings *settings, covariance_state *state,
                       covariance_work *work, double own) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  load(state, &work->span, own);
  apply(state, work, rank + 1);
  double shift = SPAN_SHIFT * find_ritz(work, size, rank);
  lift(work, rank + 1, shift, size);
  turn_moved(work, size, rank);
  span_finish(&state->gram, size, rank, &work->span);
  for (int64_t step = 1; step < settings->steps; step++) {
    apply(state, work, rank);
    lift(work, rank, shift, size);
    for (int64_t c = 0; c < rank; c++)
      copy(row_of(&work->span.left, c), row_of(&work->moved, c), size);
    span_finish(&state->gram, size, rank, &work->span);
  }
  if (settings->aligned) span_align(&state->image, size, &work->span, &state->frame);
  span_take(&work->span, size, &state->factor, &state->image);
}

void choose_rank(const covariance_settings *settings, covariance_state *state, const double *q,
                 double own, double rest, double weight) {
  int64_t *counts = state->counts.at, most = state->factor.rows;
  double *reals = state->reals.at, *scores = reals + SCORES;
  counts[DIRECTIONS] += counts[RANK];
  int64_t beyond = counts[INFORMATIVE] + 1 - state->support.rows;
  if (beyond < 0) return;
  reals[FULL] = KEPT * reals[FULL] + weight * larger(rest, 0.0);
  reals[WHOLE] = KEPT * reals[WHOLE] + weight * own;
  for (int64_t c = 0; c < most; c++) scores[c] = KEPT * scores[c] + weight * q[c] * q[c];
  if (beyond < PATIENCE) return;
  double allowed = settings->rank_factor * larger(reals[FULL], EXACT * reals[WHOLE]);
  double error = reals[WHOLE];
  int64_t enough = most, fewer = most;
  for (int64_t c = 0; c < most; c++) {
    error -= scores[c];
    if (error <= allowed) enough = least_of(enough, c + 1);
    if (error <= BELOW * allowed) fewer = least_of(fewer, c + 1);
  }
  if (enough > counts[RANK])
    counts[RANK] = enough;
  else if (fewer < counts[RANK])
    counts[RANK] = fewer;
}
