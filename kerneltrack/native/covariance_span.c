/* The subspace of the covariance tracker: follow the r largest eigenvectors of C = Φ_S Γ Φ_Sᵀ. Its
basis follows C by changes of low rank, lets the new row's direction in for the one of least energy
(Rayleigh and Ritz), and now and then makes a step of orthogonal iteration; derivations and symbols
are in `trackers/covariance/tracker.py`. */
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

/* An eviction that leaves less than this of a direction's squared length has lost digits. */
#define LEAST_LENGTH 1e-3
/* So has that of a row of which less than this is outside the span of the others. */
#define LEAST_REST 1e-5
/* A new direction that is this small a part of its row is made orthogonal twice. */
#define SMALL_PART 0.01
/* Added to the diagonal of VᵀCV, of trace 1: rounding errors do not make it indefinite. */
#define LIFT 1e-15

/* table ← table + factor·left·rightᵀ, as far as `width` columns. */
static void add_outer(mat *table, double factor, const double *left, const double *right,
                      int64_t width) {
  for (int64_t c = 0; c < table->rows; c++)
    add_scaled(row_of(table, c), factor * left[c], right, width);
}

/* table ← table + factor·(left·rightᵀ + right·leftᵀ) */
static void add_symmetric(mat *table, double factor, const double *left, const double *right) {
  add_outer(table, factor, left, right, table->columns);
  add_outer(table, factor, right, left, table->columns);
}

/* out ← Σ weights[c]·row c */
static void combine(const mat *rows, const double *weights, double *out, int64_t width) {
  fill(out, 0.0, width);
  add_rows(rows, rows->rows, width, weights, out);
}

/* out ← table·vector, of the first rows and columns of a symmetric table: its rows are added up. */
static void combine_symmetric(const mat *table, const double *vector, double *out, int64_t size) {
  fill(out, 0.0, size);
  add_rows(table, size, size, vector, out);
}

void span_gain(covariance_state *state, const covariance_work *work, const double *share,
               double weight) {
  int64_t size = state->counts.at[SIZE];
  if (share != NULL) add_outer(&state->through, weight, work->q, share, size);
  if (share == NULL)
    for (int64_t c = 0; c < state->through.rows; c++)
      row_of(&state->through, c)[size] = weight * work->q[c];
  add_outer(&state->energy, weight, work->q, work->q, state->energy.columns);
}

/* M ← M - δ(aF_iᵀ + F_iaᵀ) + δ²Γ_ii·aaᵀ, then (I + βaaᵀ)M(I + βaaᵀ): a in `part`, F_i in `values`,
β in `grown`. */
static void lose_energy(mat *energy, const double *part, double *values, double rest, double own,
                        double grown) {
  int64_t rank = energy->rows;
  for (int64_t c = 0; c < rank; c++) values[c] = rest * (values[c] - 0.5 * rest * own * part[c]);
  add_symmetric(energy, -1.0, part, values);
  for (int64_t c = 0; c < rank; c++) values[c] = dot(row_of(energy, c), part, rank);
  double half = 0.5 * grown * grown * dot(part, values, rank);
  for (int64_t c = 0; c < rank; c++) values[c] = grown * values[c] + half * part[c];
  add_symmetric(energy, 1.0, part, values);
}

int span_lose(covariance_state *state, covariance_work *work, int64_t slot, double rest) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  const double *share = work->share, *weights = work->along;
  double *part = work->part, *values = work->beside, *sum = work->half, own = weights[slot];
  for (int64_t c = 0; c < rank; c++) {
    part[c] = row_of(&state->factor, c)[slot];
    values[c] = row_of(&state->through, c)[slot];
  }
  /* g from what is left of Ea: where K is nearly singular 1 - δ‖a‖² has lost digits. */
  double square = dot(part, part, rank), left = 1.0, grown = 0.0, *image = work->shortened;
  combine(&state->factor, part, sum, size);
  combine(&state->image, part, image, size);
  add_scaled(sum, square, share, size);
  image[slot] = 0.0;
  if (square > 0.0) left = dot(sum, image, size) / square;
  if (!(left > LEAST_LENGTH) || !(rest > LEAST_REST * row_of(&state->gram, slot)[slot])) {
    add_outer(&state->factor, 1.0, part, share, size);
    return 0;
  }
  if (square > 0.0) grown = (1.0 - left) / (sqrt(left) * (1.0 + sqrt(left)) * square);
  /* Each table X ← X + β(Xa)aᵀ after T: E gains aᵀ times t, G nothing, F is T(F - δγaᵀ). */
  scale_all(sum, grown, size);
  add_scaled(sum, 1.0, share, size);
  add_outer(&state->factor, 1.0, part, sum, size);
  add_outer(&state->image, grown, part, image, size);
  combine(&state->through, part, sum, size);
  add_scaled(sum, -rest * square, weights, size);
  add_scaled(sum, sum[slot], share, size);
  scale_all(sum, grown, size);
  add_scaled(sum, -rest, weights, size);
  for (int64_t c = 0; c < rank; c++) {
    double *through = row_of(&state->through, c);
    add_scaled(through, values[c] - rest * own * part[c], share, size);
    add_scaled(through, part[c], sum, size);
  }
  lose_energy(&state->energy, part, values, rest, own, grown);
  return 1;
}

/* F and M of E and G. */
static void find_energy(covariance_state *state) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  for (int64_t c = 0; c < rank; c++) {
    double *through = row_of(&state->through, c);
    combine_symmetric(&state->weights, row_of(&state->image, c), through, size);
    for (int64_t e = 0; e <= c; e++) {
      double entry = dot(row_of(&state->image, e), through, size);
      row_of(&state->energy, c)[e] = entry;
      row_of(&state->energy, e)[c] = entry;
    }
  }
}

void span_renew(covariance_state *state, covariance_work *work) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  span_work *span = &work->span;
  for (int64_t c = 0; c < rank; c++) {
    double *left = row_of(&span->left, c);
    copy(left, row_of(&state->factor, c), size);
    combine_symmetric(&state->gram, left, row_of(&span->right, c), size);
    span->least[c] = SPAN_DEPENDENT;
  }
  orthonormalise(&span->left, &span->right, rank, size, span->least);
  span_take(span, size, &state->factor, &state->image);
  find_energy(state);
}

/* The part of the new row that the subspace does not see, in the scratch, of length 1; false if
there is none. O(Br) */
static int find_direction(const covariance_state *state, covariance_work *work, double own) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  double *seen = work->beside, rest = 0.0;
  for (int round = 0; round < 2 && !(rest > SMALL_PART * own); round++) {
    for (int64_t c = 0; c < rank; c++)
      seen[c] = -dot(row_of(&state->factor, c), work->fresh_image, size);
    add_rows(&state->factor, rank, size, seen, work->fresh);
    add_rows(&state->image, rank, size, seen, work->fresh_image);
    add_rows(&state->through, rank, size, seen, work->fresh_through);
    rest = dot(work->fresh, work->fresh_image, size);
  }
  if (!(rest > SPAN_DEPENDENT * own)) return 0;
  double scale = 1.0 / sqrt(rest);
  scale_all(work->fresh, scale, size);
  scale_all(work->fresh_image, scale, size);
  scale_all(work->fresh_through, scale, size);
  return 1;
}

/* Put the new direction, of energy `along` and work.beside with the others, into place c. */
static void fill_direction(covariance_state *state, covariance_work *work, int64_t place,
                           double along) {
  int64_t size = state->counts.at[SIZE];
  copy(row_of(&state->factor, place), work->fresh, size);
  copy(row_of(&state->image, place), work->fresh_image, size);
  copy(row_of(&state->through, place), work->fresh_through, size);
  work->beside[place] = along;
  for (int64_t c = 0; c < state->energy.rows; c++) {
    row_of(&state->energy, place)[c] = work->beside[c];
    row_of(&state->energy, c)[place] = work->beside[c];
  }
}

/* work.small ← VᵀCV of V = [E, new direction], over its trace; the trace. */
static double load_energy(const covariance_state *state, covariance_work *work, double along) {
  int64_t rank = state->energy.rows;
  double trace = along;
  for (int64_t c = 0; c < rank; c++) trace += row_of(&state->energy, c)[c];
  double scale = 1.0 / trace;
  for (int64_t c = 0; c < rank; c++) {
    double *row = row_of(&work->small, c);
    for (int64_t e = 0; e < rank; e++) row[e] = scale * row_of(&state->energy, c)[e];
    row[rank] = row_of(&work->small, rank)[c] = scale * work->beside[c];
  }
  row_of(&work->small, rank)[rank] = scale * along;
  return trace;
}

/* Two steps of inverse iteration on work.least; false if VᵀCV - shift·I is not positive. */
static int iterate(covariance_work *work, double shift) {
  int64_t count = work->small.rows;
  double *least = work->least;
  if (!cholesky(&work->small, shift, &work->factor)) return 0;
  for (int step = 0; step < 2; step++) {
    solve_cholesky(&work->factor, least);
    scale_all(least, 1.0 / sqrt(dot(least, least, count)), count);
  }
  return 1;
}

/* The direction in V of least energy, nearly: work.least, of length 1. O(r³/3)

Two steps of inverse iteration from what the last of E and the new direction have least of, two more
with a shift below the smallest Ritz value: its error is squared. */
static void find_least(covariance_work *work) {
  int64_t rank = work->small.rows - 1;
  double *least = work->least, *change = work->change;
  fill(least, 0.0, rank + 1);
  least[rank - 1] = sqrt(0.5);
  least[rank] = work->beside[rank - 1] > 0.0 ? -sqrt(0.5) : sqrt(0.5);
  if (!iterate(work, -LIFT)) return;
  for (int64_t c = 0; c <= rank; c++) change[c] = dot(row_of(&work->small, c), least, rank + 1);
  double value = dot(change, least, rank + 1);
  add_scaled(change, -value, least, rank + 1);
  iterate(work, value - sqrt(dot(change, change, rank + 1)) - LIFT);
}

/* Turn V = [E, new direction] so that its last is the one of least energy, which is dropped:
E ← E - (E s/(1 + h) + d)sᵀ, (s, h) = u, h >= 0, which moves E no more than it must. O(Br + r²) */
static void drop_least(covariance_state *state, covariance_work *work, double along) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  double *least = work->least, *change = work->change, *sum = work->half;
  if (least[rank] < 0.0) scale_all(least, -1.0, rank + 1);
  double weight = 1.0 / (1.0 + least[rank]);
  mat *tables[] = {&state->factor, &state->image, &state->through};
  const double *rows[] = {work->fresh, work->fresh_image, work->fresh_through};
  for (int i = 0; i < 3; i++) {
    combine(tables[i], least, sum, size);
    scale_all(sum, weight, size);
    add_scaled(sum, 1.0, rows[i], size);
    add_outer(tables[i], -1.0, least, sum, size);
  }
  for (int64_t c = 0; c < rank; c++) change[c] = dot(row_of(&state->energy, c), least, rank);
  double square = dot(change, least, rank), across = dot(work->beside, least, rank);
  double half = 0.5 * (weight * weight * square + 2.0 * weight * across + along);
  for (int64_t c = 0; c < rank; c++)
    change[c] = weight * change[c] + work->beside[c] - half * least[c];
  add_symmetric(&state->energy, -1.0, least, change);
}

/* Let the new row's direction in: it fills a place that has none, or the direction of least energy
goes. */
static void take_direction(covariance_state *state, covariance_work *work, double own) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  if (!find_direction(state, work, own)) return;
  double along = dot(work->fresh_image, work->fresh_through, size);
  for (int64_t c = 0; c < rank; c++)
    work->beside[c] = dot(row_of(&state->image, c), work->fresh_through, size);
  for (int64_t c = 0; c < rank; c++)
    if (!(row_of(&state->energy, c)[c] > 0.0)) {
      fill_direction(state, work, c, along);
      return;
    }
  double trace = load_energy(state, work, along);
  if (!(0.0 < trace && trace < INFINITY)) return;
  find_least(work);
  drop_least(state, work, along);
}

/* Order the Ritz vectors: the largest values first, ties by place. */
static void order_ritz(int64_t *order, const double *values, int64_t rank) {
  for (int64_t c = 0; c < rank; c++) {
    int64_t e = c;
    for (; e > 0 && values[c] > values[order[e - 1]]; e--) order[e] = order[e - 1];
    order[e] = c;
  }
}

/* One step of orthogonal iteration from the Ritz vectors of E: E ← orth(ΓKE + shift·E).
O(B²r + Br² + r³) */
static void iterate_span(const covariance_settings *settings, covariance_state *state,
                         covariance_work *work) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  double *values = work->beside, trace = 0.0;
  mat energy = {work->small.at, rank, rank}, turns = {work->turns.at, rank, rank};
  copy(energy.at, state->energy.at, rank * rank);
  for (int64_t c = 0; c < rank; c++) trace += row_of(&energy, c)[c];
  eigenvectors(&energy, rank, values, work->least, work->change, &turns);
  order_ritz(work->order, values, rank);
  for (int64_t c = 0; c < rank; c++) {
    double *turn = row_of(&turns, work->order[c]), *left = row_of(&work->span.left, c);
    /* No direction changes its sign without need. */
    if (turn[c] < 0.0) scale_all(turn, -1.0, rank);
    combine(&state->factor, turn, left, size);
    scale_all(left, SPAN_SHIFT * trace, size);
    add_rows(&state->through, rank, size, turn, left);
  }
  for (int64_t c = 0; c < rank; c++) {
    double *left = row_of(&work->span.left, c), *right = row_of(&work->span.right, c);
    combine_symmetric(&state->gram, left, right, size);
    work->span.least[c] = SPAN_DEPENDENT * dot(left, right, size);
  }
  orthonormalise(&work->span.left, &work->span.right, rank, size, work->span.least);
  if (settings->aligned) span_align(&state->image, size, &work->span, &state->frame);
  span_take(&work->span, size, &state->factor, &state->image);
  find_energy(state);
}

void follow_covariance(const covariance_settings *settings, covariance_state *state,
                       covariance_work *work, double own) {
  int64_t budget = state->support.rows - 1, admitted = state->counts.at[INFORMATIVE];
  take_direction(state, work, own);
  if (admitted < budget || admitted % settings->period == 0) iterate_span(settings, state, work);
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
