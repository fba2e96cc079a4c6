/* One row into the budgeted covariance, and one stored row out of it; derivations are in
`trackers/covariance/tracker.py`. */
#include "covariance.h"

#include "linalg.h"

/* W and ΓKΓ are computed anew after so many admitted rows, or B if that is more. */
#define RENEWAL 64
/* Largest |Kt - k| in units of √(κ_iiκ(x,x)); above it W is renewed at once. */
#define RESIDUAL 1e-10
/* Added to a unit diagonal it changes nothing; pivots stay above half of it. */
#define NO_LIFT 1e-18

/* to ← to + weight·(left·right) */
static void add_product(double *to, double weight, double left, const double *right,
                        int64_t count) {
  v4 weights = all4(weight), lefts = all4(left);
  int64_t j = 0;
  for (; j + LANES <= count; j += LANES)
    store4(to + j, load4(to + j) + weights * (lefts * load4(right + j)));
  for (; j < count; j++) to[j] += weight * (left * right[j]);
}

/* to ← to + (left·u + right·v), rows of a symmetric change of rank 2. */
static void add_pair(double *to, double left, const double *u, double right, const double *v,
                     int64_t count) {
  v4 lefts = all4(left), rights = all4(right);
  int64_t j = 0;
  for (; j + LANES <= count; j += LANES)
    store4(to + j, load4(to + j) + (lefts * load4(u + j) + rights * load4(v + j)));
  for (; j < count; j++) to[j] += left * u[j] + right * v[j];
}

/* out ← tableᵀ·vector, of a table's first rows and columns. */
static void transposed_times(const mat *table, const double *vector, int64_t size, double *out) {
  fill(out, 0.0, size);
  add_rows(table, size, size, vector, out);
}

/* X ← TXTᵀ, where T adds share[j] times row `slot` to row j; share[slot] is -1. */
static void transform(mat *table, int64_t slot, const double *share, int64_t size, double *half) {
  const double *row = row_of(table, slot);
  double own = row[slot];
  for (int64_t j = 0; j < size; j++) half[j] = row[j] + 0.5 * share[j] * own;
  for (int64_t i = 0; i < size; i++)
    add_pair(row_of(table, i), share[i], half, half[i], share, size);
}

/* W from K: of unit diagonal, K = CCᵀ and C⁻¹. ΓKΓ is computed afterwards, its table is free. */
static void renew_whitener(covariance_state *state, covariance_work *work) {
  int64_t size = state->counts.at[SIZE];
  double *unit = work->half;
  for (int64_t i = 0; i < size; i++) unit[i] = 1.0 / sqrt(row_of(&state->gram, i)[i]);
  for (int64_t i = 0; i < size; i++) {
    const double *values = row_of(&state->gram, i);
    double *row = row_of(&work->chol, i);
    for (int64_t j = 0; j < size; j++) row[j] = values[j] * unit[i] * unit[j];
  }
  inverse_cholesky(&work->chol, size, NO_LIFT, &work->chol, &state->whitener, &state->square);
  for (int64_t i = 0; i < size; i++) {
    double *row = row_of(&state->whitener, i);
    for (int64_t j = 0; j < size; j++) row[j] *= unit[j];
  }
}

/* W and ΓKΓ from K and Γ. */
static void renew(covariance_state *state, covariance_work *work) {
  int64_t size = state->counts.at[SIZE];
  double *row = work->half;
  renew_whitener(state, work);
  for (int64_t i = 0; i < size; i++) {
    transposed_times(&state->gram, row_of(&state->weights, i), size, row);
    for (int64_t j = 0; j <= i; j++) {
      double entry = dot(row, row_of(&state->weights, j), size);
      row_of(&state->square, i)[j] = entry;
      row_of(&state->square, j)[i] = entry;
    }
  }
  state->counts.at[SINCE] = 0;
}

static double solve(const covariance_state *state, covariance_work *work, double own) {
  int64_t size = state->counts.at[SIZE];
  span_image(&state->whitener, work->k, size, work->half);
  transposed_times(&state->whitener, work->half, size, work->share);
  return own - dot(work->half, work->half, size);
}

/* Whether Kt is k but for rounding. */
static int is_exact(const covariance_state *state, const covariance_work *work, double own) {
  int64_t size = state->counts.at[SIZE];
  transposed_times(&state->gram, work->share, size, work->along);
  for (int64_t i = 0; i < size; i++) {
    double gap = work->along[i] - work->k[i], length = row_of(&state->gram, i)[i];
    if (!(gap * gap <= RESIDUAL * RESIDUAL * length * own)) return 0;
  }
  return 1;
}

double solve_row(covariance_state *state, covariance_work *work, double own) {
  int64_t *counts = state->counts.at;
  if (counts[SINCE] >= most_of(RENEWAL, state->support.rows - 1)) renew(state, work);
  double rest = solve(state, work, own);
  if (counts[SINCE] == 0 || is_exact(state, work, own)) return rest;
  counts[MENDED] += 1;
  renew(state, work);
  return solve(state, work, own);
}

void fade_weights(covariance_state *state, double factor) {
  int64_t size = state->counts.at[SIZE];
  for (int64_t i = 0; i < size; i++) {
    scale_all(row_of(&state->weights, i), factor, size);
    scale_all(row_of(&state->square, i), factor * factor, size);
  }
  for (int64_t c = 0; c < state->through.rows; c++) {
    scale_all(row_of(&state->through, c), factor, size);
    scale_all(row_of(&state->energy, c), factor, state->energy.columns);
  }
  state->reals.at[LOST] *= factor;
}

/* ΓKΓ gains w(g tᵀ + t gᵀ) + w²(tᵀKt)ttᵀ with g = Γk. */
void fold_row(covariance_state *state, covariance_work *work, double own, double rest,
              double weight) {
  int64_t size = state->counts.at[SIZE];
  double *share = work->share, *along = work->along;
  double square = dot(work->k, share, size), half = 0.5 * weight * square;
  transposed_times(&state->weights, work->k, size, along);
  copy(work->fresh, share, size);
  copy(work->fresh_image, work->k, size);
  copy(work->fresh_through, along, size);
  add_scaled(work->fresh_through, weight * square, share, size);
  for (int64_t i = 0; i < size; i++) along[i] = weight * (along[i] + half * share[i]);
  for (int64_t i = 0; i < size; i++) {
    add_pair(row_of(&state->square, i), along[i], share, share[i], along, size);
    add_product(row_of(&state->weights, i), weight, share[i], share, size);
  }
  span_gain(state, work, share, weight);
  rest = larger(rest, 0.0);
  state->reals.at[LOST] += weight * sqrt(rest * (2.0 * own - rest));
}

/* W gains the row [-tᵀ, 1]/√δ, ΓKΓ the row w[Γk, wκ(x,x)]. */
void add_row(covariance_state *state, covariance_work *work, double own, double rest,
             double weight) {
  int64_t size = state->counts.at[SIZE];
  double inverse = 1.0 / sqrt(rest);
  double *gram = row_of(&state->gram, size), *weights = row_of(&state->weights, size);
  double *square = row_of(&state->square, size), *whitener = row_of(&state->whitener, size);
  transposed_times(&state->weights, work->k, size, work->along);
  copy(work->fresh_image, work->k, size);
  copy(work->fresh_through, work->along, size);
  fill(work->fresh, 0.0, size);
  work->fresh[size] = 1.0;
  work->fresh_image[size] = own;
  work->fresh_through[size] = weight * own;
  for (int64_t i = 0; i < size; i++) {
    gram[i] = row_of(&state->gram, i)[size] = work->k[i];
    weights[i] = row_of(&state->weights, i)[size] = 0.0;
    square[i] = row_of(&state->square, i)[size] = weight * work->along[i];
    whitener[i] = -inverse * work->share[i];
    row_of(&state->whitener, i)[size] = 0.0;
  }
  gram[size] = own;
  weights[size] = weight;
  square[size] = weight * (weight * own);
  whitener[size] = inverse;
  copy(row_of(&state->support, size), work->x, state->support.columns);
  for (int64_t c = 0; c < state->factor.rows; c++) {
    row_of(&state->factor, c)[size] = 0.0;
    row_of(&state->image, c)[size] = work->q[c];
    row_of(&state->through, c)[size] = 0.0;
  }
  span_gain(state, work, NULL, weight);
  state->born.at[size] = state->counts.at[N] - 1;
  state->counts.at[SIZE] = size + 1;
}

/* Past the budget it is the one whose projection on the others moves C least:
‖ΔC‖²_HS = 2δ_i(ΓKΓ)_ii - δ_i²Γ_ii², δ_i = 1/[K⁻¹]_ii. Ties go to the lowest slot. A row that now is
as good as in the span of the others goes first, or K⁻¹ would be lost. */
int64_t leaving_slot(const covariance_state *state, covariance_work *work) {
  int64_t size = state->counts.at[SIZE], best = 0, nearest = 0;
  double *rests = work->half, *costs = work->costs;
  fill(rests, 0.0, size);
  for (int64_t m = 0; m < size; m++) add_squares(rests, row_of(&state->whitener, m), size);
  for (int64_t i = 0; i < size; i++) {
    rests[i] = 1.0 / rests[i];
    double own = rests[i] * row_of(&state->weights, i)[i];
    costs[i] = 2.0 * rests[i] * row_of(&state->square, i)[i] - own * own;
    if (costs[i] < costs[best]) best = i;
    /* δ_i/κ_i, without a division. */
    double length = row_of(&state->gram, i)[i], least = row_of(&state->gram, nearest)[nearest];
    if (rests[i] * least < rests[nearest] * length) nearest = i;
  }
  if (rests[nearest] <= FOLD * row_of(&state->gram, nearest)[nearest]) return nearest;
  return size == state->support.rows ? best : -1;
}

/* Take a slot's column, in work.along, out of W: the reflection that sends it to the last axis
leaves a root of K_rest⁻¹ above it. */
static void reflect_whitener(covariance_state *state, covariance_work *work, double square) {
  int64_t size = state->counts.at[SIZE], last = size - 1;
  double *along = work->along, *reflected = work->half, length = sqrt(square);
  along[last] += along[last] >= 0.0 ? length : -length;
  double scale = 1.0 / (length * fabs(along[last]));
  transposed_times(&state->whitener, along, size, reflected);
  for (int64_t m = 0; m < last; m++)
    add_scaled(row_of(&state->whitener, m), -scale * along[m], reflected, size);
}

static void move_slot(mat *table, int64_t slot, int64_t last) {
  double *own = row_of(table, slot), *from = row_of(table, last);
  for (int64_t i = 0; i < last; i++) row_of(table, i)[slot] = row_of(table, i)[last];
  copy(own, from, last);
  own[slot] = from[last];
}

/* Move the last slot into one that is dropped. */
static void drop_slot(covariance_state *state, int64_t slot, int64_t last) {
  if (slot < last) {
    move_slot(&state->gram, slot, last);
    move_slot(&state->weights, slot, last);
    move_slot(&state->square, slot, last);
    copy(row_of(&state->support, slot), row_of(&state->support, last), state->support.columns);
  }
  for (int64_t m = 0; m < last; m++)
    row_of(&state->whitener, m)[slot] = row_of(&state->whitener, m)[last];
  for (int64_t c = 0; c < state->factor.rows; c++) {
    row_of(&state->factor, c)[slot] = row_of(&state->factor, c)[last];
    row_of(&state->image, c)[slot] = row_of(&state->image, c)[last];
    row_of(&state->through, c)[slot] = row_of(&state->through, c)[last];
  }
  state->born.at[slot] = state->born.at[last];
}

/* The new row, which stood in the last slot, on the rows that stay: its coefficients and what ΓK makes
of them through T, where K is K - δeeᵀ; its kernel values stay. */
static void leave_row(covariance_work *work, int64_t slot, int64_t last, double rest) {
  double *fresh = work->fresh, *image = work->fresh_image, *through = work->fresh_through;
  int64_t size = last + 1;
  if (slot == last) {
    copy(fresh, work->share, last);
    add_scaled(through, -rest, work->along, size);
  }
  add_scaled(through, through[slot], work->share, size);
  if (slot == last) return;
  fresh[slot] = fresh[last];
  image[slot] = image[last];
  through[slot] = through[last];
}

void evict_slot(covariance_state *state, covariance_work *work, int64_t slot) {
  int64_t size = state->counts.at[SIZE], last = size - 1;
  double *share = work->share, *along = work->along, square = 0.0;
  for (int64_t m = 0; m < size; m++) {
    along[m] = row_of(&state->whitener, m)[slot];
    square = fma(along[m], along[m], square);
  }
  double rest = 1.0 / square;
  transposed_times(&state->whitener, along, size, share);
  scale_all(share, -rest, size);
  share[slot] = -1.0;
  reflect_whitener(state, work, square);
  copy(along, row_of(&state->weights, slot), size);
  int sound = span_lose(state, work, slot, rest);
  leave_row(work, slot, last, rest);
  /* ΓKΓ with K - δeeᵀ in the middle, then both sides through T. */
  for (int64_t i = 0; i < size; i++)
    add_product(row_of(&state->square, i), -rest, along[i], along, size);
  transform(&state->square, slot, share, size, along);
  transform(&state->weights, slot, share, size, along);
  drop_slot(state, slot, last);
  share[slot] = share[last];
  state->counts.at[SIZE] = last;
  state->reals.at[LOST] += sqrt(larger(work->costs[slot], 0.0));
  if (!sound) span_renew(state, work);
}
