/* Budget maintenance, see `trackers/okfeb/okfeb.py`. */
#include "linalg.h"
#include "okfeb.h"

/* Added to K's diagonal, times the largest κ(x,x), where K must be inverted. */
#define JITTER 1e-10

static int64_t oldest(const okfeb_state *state, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; i++)
    if (state->born.at[i] < state->born.at[best]) best = i;
  return best;
}

/* (K/max κ + JITTER·I)⁻¹ into work.table: choice and shares are the same, nothing overflows.
O(B³) */
static double invert_gram(okfeb *loop, int64_t count) {
  okfeb_work *work = &loop->work;
  const mat *gram = &loop->state->gram;
  double largest = 1e-300;
  for (int64_t i = 0; i < count; i++) largest = larger(row_of(gram, i)[i], largest);
  for (int64_t i = 0; i < count; i++)
    for (int64_t j = 0; j < count; j++) row_of(&work->table, i)[j] = row_of(gram, i)[j] / largest;
  mat *chol = &work->gram_root;
  inverse_cholesky(&work->table, count, JITTER, chol, &work->half, &work->half_t);
  for (int64_t i = 0; i < count; i++)
    for (int64_t j = 0; j < count; j++) {
      int64_t from = most_of(i, j);
      row_of(&work->table, i)[j] = dot(row_of(&work->half_t, i) + from,
                                       row_of(&work->half_t, j) + from, count - from);
    }
  return largest;
}

/* What dropping slot i costs. */
static double cost_of(const okfeb *loop, int64_t i) {
  const okfeb_state *state = loop->state;
  double norm = loop->work.norms[i];
  if (loop->settings->policy == NORM) return state->recency.at[i] * sqrt(norm);
  if (loop->settings->policy == DISTORTION) return row_of(&state->gram, i)[i] * norm;
  return norm / row_of(&loop->work.table, i)[i];
}

/* φ_i projected on the others: K_rest⁻¹k_i = -[K⁻¹]_ji / [K⁻¹]_ii. */
static void spread_row(okfeb *loop, int64_t slot, int64_t count) {
  okfeb_work *work = &loop->work;
  for (int64_t j = 0; j < count; j++) {
    if (j == slot) continue;
    double share = -row_of(&work->table, j)[slot] / row_of(&work->table, slot)[slot];
    for (int64_t c = 0; c < work->moved.rows; c++) {
      double *row = row_of(&work->moved, c);
      row[j] += share * row[slot];
    }
  }
}

int64_t choose_eviction(okfeb *loop, int64_t count, double *rest) {
  int64_t policy = loop->settings->policy, best = 0;
  if (policy == FIFO) return oldest(loop->state, count);
  double largest = policy == COMPENSATED ? invert_gram(loop, count) : 0.0, least = INFINITY;
  for (int64_t i = 0; i < count; i++) {
    double cost = cost_of(loop, i);
    if (cost < least) {
      least = cost;
      best = i;
    }
  }
  if (policy == COMPENSATED) {
    *rest = largest / row_of(&loop->work.table, best)[best];
    spread_row(loop, best, count);
  }
  return best;
}
