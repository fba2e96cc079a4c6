#include "dictionary.h"

#include "linalg.h"

/* A row whose squared distance from the span of the others is below this is not stored, or goes as
another comes close, so that the condition of K stays below M²/IN_SPAN. */
#define IN_SPAN 1e-6
/* W is computed anew after so many rows in and out, or M if that is more. */
#define RENEWAL 64
/* Added to a unit diagonal it changes nothing; pivots stay above half of it. */
#define NO_LIFT 1e-18

static dictionary_work make_work(arena *from, int64_t slots) {
  int64_t room = padded(slots);
  dictionary_work work;
  work.k = reals(from, room);
  work.half = reals(from, room);
  work.share = reals(from, room);
  work.before = reals(from, room);
  work.along = reals(from, room);
  work.pull = reals(from, room);
  work.costs = reals(from, room);
  return work;
}

dictionary_lesson make_dictionary_lesson(arena *from, const kernel *of, const mode *how,
                                         dictionary_state *state, const mat *rows,
                                         const coded *labels, predicted *out) {
  int64_t classes = state->weights.rows;
  return (dictionary_lesson){
      .at = make_lesson(from, classes, how, &state->sums, &state->counts, rows, labels, out),
      .of = of,
      .state = state,
      .work = make_work(from, state->rows.rows)};
}

/* k of a row and the values of the first `known` functions. O(MD + CM) */
static void evaluate(const kernel *of, const dictionary_state *state, const double *row,
                     int64_t known, double *k, double *values) {
  int64_t size = state->counts.at[STORED];
  kernel_row(of, &state->rows, size, row, k);
  for (int64_t c = 0; c < known; c++) values[c] = dot(row_of(&state->weights, c), k, size);
}

int next_dictionary_lesson(dictionary_lesson *now) {
  lesson *at = &now->at;
  dictionary_state *state = now->state;
  while (next_row(at)) {
    evaluate(now->of, state, row_of(at->rows, at->n), at->known, now->work.k, at->values);
    if (!report_row(at)) continue;
    if (!keep_waiting(at, &state->bandwidth, &state->early)) return 1;
    if (at->counts[EARLY] == now->warmup) return 0;
  }
  return 0;
}

/* The values of all functions, a line a row. */
KT_API int64_t kt_dictionary_values(const kernel *of, const dictionary_state *state,
                                    const mat *rows, mat *out) {
  arena scratch = {0};
  reals(&scratch, state->rows.rows);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  double *k = reals(&scratch, state->rows.rows);
  for (int64_t n = 0; n < rows->rows; n++)
    evaluate(of, state, row_of(rows, n), state->weights.rows, k, row_of(out, n));
  give_back(&scratch);
  return KT_DONE;
}

/* C⁻¹ into the root, where CCᵀ = K: below its diagonal K turns into C, on and above it grows C⁻ᵀ.
The operations are those of `inverse_cholesky`, on one table. */
static void invert_gram(const kernel *of, dictionary_state *state, int64_t size) {
  mat *root = &state->root;
  for (int64_t i = 0; i < size; i++)
    kernel_row(of, &state->rows, i + 1, row_of(&state->rows, i), row_of(root, i));
  for (int64_t j = 0; j < size; j++) {
    double *own = row_of(root, j);
    double pivot = own[j] + NO_LIFT - dot(own, own, j);
    double scale = 1.0 / sqrt(larger(pivot, 0.5 * NO_LIFT));
    for (int64_t i = j + 1; i < size; i++) {
      double *row = row_of(root, i);
      row[j] = (row[j] - dot(row, own, j)) * scale;
    }
    for (int64_t i = 0; i < j; i++) {
      double *row = row_of(root, i);
      row[j] = -scale * dot(own + i, row + i, j - i);
    }
    own[j] = scale;
  }
  for (int64_t i = 0; i < size; i++)
    for (int64_t j = 0; j < i; j++) {
      row_of(root, i)[j] = row_of(root, j)[i];
      row_of(root, j)[i] = 0.0;
    }
}

void renew_root(const kernel *of, dictionary_state *state) {
  int64_t size = state->counts.at[STORED];
  if (state->counts.at[SINCE] < most_of(RENEWAL, size)) return;
  invert_gram(of, state, size);
  fill(state->diagonal.at, 0.0, size);
  for (int64_t i = 0; i < size; i++) add_squares(state->diagonal.at, row_of(&state->root, i), size);
  state->counts.at[SINCE] = 0;
}

void move_row(dictionary_state *state, int64_t from, int64_t to) {
  copy(row_of(&state->rows, to), row_of(&state->rows, from), state->rows.columns);
  for (int64_t c = 0; c < state->weights.rows; c++) {
    double *weights = row_of(&state->weights, c);
    weights[to] = weights[from];
  }
}

/* Give the first `size` rows the projection of the row at `slot`; its Σ_c w². */
static double fold(dictionary_state *state, const dictionary_work *work, int64_t slot,
                   int64_t size) {
  double total = 0.0;
  for (int64_t c = 0; c < state->weights.rows; c++) {
    double *weights = row_of(&state->weights, c), weight = weights[slot];
    total += weight * weight;
    add_scaled(weights, weight, work->share, size);
  }
  return total;
}

/* W and the diagonal with the row whose t is in `work`; `rest` is δ. */
static void grow_root(dictionary_state *state, dictionary_work *work, int64_t size, double rest) {
  double *diagonal = state->diagonal.at, *row = row_of(&state->root, size);
  double inverse = 1.0 / sqrt(rest);
  copy(work->before, diagonal, size);
  copy(row, work->share, size);
  scale_all(row, -inverse, size);
  add_squares(diagonal, row, size);
  for (int64_t j = 0; j < size; j++) row_of(&state->root, j)[size] = 0.0;
  row[size] = inverse;
  diagonal[size] = inverse * inverse;
}

double store_row(dictionary_state *state, dictionary_work *work, int64_t from) {
  int64_t *counts = state->counts.at, size = counts[STORED];
  for (int64_t i = 0; i < size; i++) work->half[i] = dot(row_of(&state->root, i), work->k, size);
  fill(work->share, 0.0, size);
  add_rows(&state->root, size, size, work->half, work->share);
  double rest = 1.0 - dot(work->half, work->half, size);
  if (rest <= IN_SPAN) return larger(0.0, rest) * fold(state, work, from, size);
  if (from != size) move_row(state, from, size);
  grow_root(state, work, size, rest);
  counts[STORED] = size + 1;
  counts[SINCE] += 1;
  return 0.0;
}

int is_in_span(const dictionary_state *state, int64_t slot) {
  return state->diagonal.at[slot] * IN_SPAN > 1.0;
}

int64_t cheapest_row(const dictionary_state *state, dictionary_work *work) {
  int64_t size = state->counts.at[STORED], best = 0, nearest = 0;
  const double *diagonal = state->diagonal.at;
  double *costs = work->costs;
  fill(costs, 0.0, size);
  for (int64_t c = 0; c < state->weights.rows; c++)
    add_squares(costs, row_of(&state->weights, c), size);
  for (int64_t j = 0; j < size; j++) {
    costs[j] /= diagonal[j];
    if (costs[j] < costs[best]) best = j;
    if (diagonal[j] > diagonal[nearest]) nearest = j;
  }
  return is_in_span(state, nearest) ? nearest : best;
}

void take_back(dictionary_state *state, dictionary_work *work) {
  int64_t last = state->counts.at[STORED] - 1;
  fold(state, work, last, last);
  copy(state->diagonal.at, work->before, last);
  state->counts.at[STORED] = last;
  state->counts.at[SINCE] -= 1;
}

/* w_ci ← w_ci - w_cj [K⁻¹]_ij/[K⁻¹]_jj */
static void refit(dictionary_state *state, const double *column, int64_t slot, int64_t size) {
  double scale = -1.0 / column[slot];
  for (int64_t c = 0; c < state->weights.rows; c++) {
    double *weights = row_of(&state->weights, c);
    add_scaled(weights, scale * weights[slot], column, size);
  }
}

void remove_row(dictionary_state *state, dictionary_work *work, int64_t slot) {
  int64_t size = state->counts.at[STORED], last = size - 1;
  mat *root = &state->root;
  double *along = work->along, *pull = work->pull, square = 0.0;
  for (int64_t m = 0; m < size; m++) {
    along[m] = row_of(root, m)[slot];
    square = fma(along[m], along[m], square);
  }
  fill(pull, 0.0, size);
  add_rows(root, size, size, along, pull);
  refit(state, pull, slot, size);
  /* v = along ± ‖along‖e_last; Wᵀv follows from Wᵀ·along. */
  double length = along[last] >= 0.0 ? sqrt(square) : -sqrt(square);
  add_scaled(pull, length, row_of(root, last), size);
  double scale = -1.0 / (length * (along[last] + length));
  fill(state->diagonal.at, 0.0, last);
  for (int64_t m = 0; m < last; m++) {
    double *row = row_of(root, m);
    add_scaled(row, scale * along[m], pull, size);
    row[slot] = row[last];
    add_squares(state->diagonal.at, row, last);
  }
  if (slot != last) move_row(state, last, slot);
  state->counts.at[STORED] = last;
  state->counts.at[SINCE] += 1;
}
