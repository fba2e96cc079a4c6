/* The moving window: one row through the tracker, then through the window; see `monitor/moving.py`.
X are the window's rows, S the stored rows, Z the features, a row a direction. */
#include "moving.h"

#include "arena.h"
#include "mismatch.h"

/* Rows of K - ZᵀZ that are computed side by side: they share the loads of Z. */
#define GROUP 4

/* Places in the window's counts. */
enum { SEEN, WINDOW_DIRECTIONS, STALE };

/* Move what lies behind the first `step` numbers of a row to its front. */
static void shift(double *row, int64_t step, int64_t count) {
  memmove(row, row + step, (size_t)(count - step) * sizeof *row);
}

/* The kernel values that row j of the window was given when it came: the last is its own. */
static double *given_values(const window_state *window, int64_t j) {
  return row_of(&window->gram, (window->counts.at[SEEN] + j) % window->rows.rows);
}

/* Take the tracker's row into the window: its kernel values with window and stored rows, the latter
into k. `number` is its index, by which a slot of S tells that it holds it. O(N(D + B)) */
static void enter(const windowed *tracker, window_state *window, int64_t number, double *k) {
  int64_t length = window->rows.rows, width = window->rows.columns, size = tracker->counts[SIZE];
  shift(window->own.at, 1, length);
  shift(window->shares.at, 1, length);
  shift(window->residuals.at, 1, length);
  shift(window->rows.at, width, length * width);
  copy(row_of(&window->rows, length - 1), tracker->x, width);
  double *values = given_values(window, 0);
  kernel_row(tracker->kernel, &window->rows, length, tracker->x, values);
  window->own.at[length - 1] = values[length - 1];
  tracker->compare(tracker->loop, tracker->x, k);
  for (int64_t i = 0; i < size; i++) {
    double *row = row_of(&window->cross, i);
    shift(row, 1, length);
    row[length - 1] = k[i];
    if (tracker->born->at[i] == number) copy(row, values, length);
  }
  window->counts.at[SEEN] += 1;
}

/* Book the newest row's entries of K - ZᵀZ; the subspace is as it was. O(N(B + r)) */
static void append(window_state *window, const double *k, double *line) {
  int64_t length = window->rows.rows, newest = length - 1;
  int64_t rank = window->counts.at[WINDOW_DIRECTIONS];
  double *shares = window->shares.at;
  for (int64_t c = 0; c < rank; c++) {
    double *row = row_of(&window->features, c);
    shift(row, 1, length);
    row[newest] = dot(row_of(&window->basis, c), k, window->basis.columns);
  }
  copy(line, given_values(window, newest), length);
  subtract_products(&window->features, rank, newest, 0, length, line);
  for (int64_t j = 0; j < newest; j++) shares[j] += 2.0 * line[j] * line[j];
  shares[newest] = line[newest] * line[newest];
  window->residuals.at[newest] = line[newest];
}

/* out ← Σ_i weights[i]·row i of a table, in the order of the rows. */
static void combine(const double *weights, const mat *rows, int64_t count, double *out) {
  int64_t length = rows->columns, j = 0;
  for (; j + 4 * LANES <= length; j += 4 * LANES) {
    v4 sums[4] = {{0}};
    for (int64_t i = 0; i < count; i++) {
      const double *row = row_of(rows, i) + j;
      v4 weight = all4(weights[i]);
#pragma GCC unroll 4
      for (int v = 0; v < 4; v++) sums[v] = fma4(weight, load4(row + v * LANES), sums[v]);
    }
    for (int v = 0; v < 4; v++) store4(out + j + v * LANES, sums[v]);
  }
  fill(out + j, 0.0, length - j);
  for (int64_t i = 0; i < count; i++)
    add_scaled(out + j, weights[i], row_of(rows, i) + j, length - j);
}

/* Four rows of the window: their features with the sign turned, row by row, and kernel values. */
typedef struct {
  const double *weights;
  const double *values[GROUP];
} group;

/* Add the squares of the entries that four rows have in one column before them. */
static double add_column(const group *rows, const mat *z, int64_t rank, int64_t j, double total) {
  double entries[GROUP] = {0};
  for (int64_t c = 0; c < rank; c++)
    for (int g = 0; g < GROUP; g++)
      entries[g] = fma(rows->weights[c * GROUP + g], row_of(z, c)[j], entries[g]);
  for (int g = GROUP - 1; g >= 0; g--) {
    double entry = rows->values[g][j] + entries[g];
    total = fma(entry, entry, total);
  }
  return total;
}

/* The same of 8 columns. */
static void add_columns(const group *rows, const mat *z, int64_t rank, int64_t j, double *totals) {
  v4 left[GROUP] = {{0}}, right[GROUP] = {{0}};
  for (int64_t c = 0; c < rank; c++) {
    v4 low = load4(row_of(z, c) + j), high = load4(row_of(z, c) + j + LANES);
#pragma GCC unroll 4
    for (int g = 0; g < GROUP; g++) {
      v4 weight = all4(rows->weights[c * GROUP + g]);
      left[g] = fma4(weight, low, left[g]);
      right[g] = fma4(weight, high, right[g]);
    }
  }
  v4 low = load4(totals + j), high = load4(totals + j + LANES);
#pragma GCC unroll 4
  for (int g = GROUP - 1; g >= 0; g--) {
    v4 entries = load4(rows->values[g] + j) + left[g];
    low = fma4(entries, entries, low);
    entries = load4(rows->values[g] + j + LANES) + right[g];
    high = fma4(entries, entries, high);
  }
  store4(totals + j, low);
  store4(totals + j + LANES, high);
}

/* Book the entries that rows from `first` on have with all rows before `first`. */
static void add_group(window_state *window, int64_t rank, int64_t first, double *weights) {
  const mat *z = &window->features;
  int64_t length = window->rows.rows, j = 0;
  group rows = {.weights = weights};
  for (int64_t g = 0; g < GROUP; g++)
    rows.values[g] = given_values(window, first + g) + (length - 1 - first - g);
  for (int64_t c = 0; c < rank; c++)
    for (int64_t g = 0; g < GROUP; g++) weights[c * GROUP + g] = -row_of(z, c)[first + g];
  for (; j + 2 * LANES <= first; j += 2 * LANES) add_columns(&rows, z, rank, j, window->shares.at);
  for (; j < first; j++)
    window->shares.at[j] = add_column(&rows, z, rank, j, window->shares.at[j]);
}

/* Book the entries that rows from `first` to before `last` have with each other and themselves. */
static void add_triangle(window_state *window, int64_t rank, int64_t first, int64_t last) {
  const mat *z = &window->features;
  int64_t length = window->rows.rows;
  for (int64_t row = first; row < last; row++) {
    const double *values = given_values(window, row) + (length - 1 - row);
    for (int64_t j = first; j <= row; j++) {
      double product = 0.0;
      for (int64_t c = 0; c < rank; c++)
        product = fma(-row_of(z, c)[row], row_of(z, c)[j], product);
      double entry = values[j] + product;
      window->shares.at[j] += entry * entry;
      window->residuals.at[row] = entry;
    }
  }
}

/* Take the subspace as it is now and book all of K - ZᵀZ again: row by row, oldest first, each with
the rows before it, in groups behind those that are left over. O(Br² + NBr + N²r) */
static void measure_anew(const windowed *tracker, window_state *window, double *weights) {
  int64_t length = window->rows.rows, rank = tracker->write_basis(tracker->loop, &window->basis);
  window->counts.at[WINDOW_DIRECTIONS] = rank;
  window->counts.at[STALE] = 0;
  for (int64_t c = 0; c < rank; c++)
    combine(row_of(&window->basis, c), &window->cross, tracker->counts[SIZE],
            row_of(&window->features, c));
  fill(window->shares.at, 0.0, length);
  add_triangle(window, rank, 0, length % GROUP);
  for (int64_t first = length % GROUP; first < length; first += GROUP) {
    add_group(window, rank, first, weights);
    add_triangle(window, rank, first, first + GROUP);
  }
  for (int64_t j = 0; j < length; j++) {
    /* Off the diagonal every entry is there twice. */
    double own = window->residuals.at[j];
    window->shares.at[j] = 2.0 * window->shares.at[j] - own * own;
  }
}

static void report(const window_state *window, moving_mismatch *measured, int64_t n) {
  int64_t length = window->rows.rows;
  double value = sqrt(entry_sum(window->shares.at, length)) / (double)length;
  measured->value.at[n] = value;
  /* Equal at the least, but for rounding: a certificate must not lie below what it certifies. */
  measured->residual.at[n] =
      larger(entry_sum(window->residuals.at, length) / (double)length, value);
  measured->kappa.at[n] = entry_sum(window->own.at, length) / (double)length;
}

/* Scratch: κ(S, x), a row of K - ZᵀZ, features of a group. */
typedef struct {
  double *k, *line, *weights;
} moving_work;

static void run_row(const windowed *tracker, window_state *window, moving_mismatch *measured,
                    const moving_work *work, int64_t n) {
  int64_t length = window->rows.rows, *counts = window->counts.at;
  tracker->run_row(tracker->loop, n);
  if (!tracker->out->valid.at[n]) return;
  enter(tracker, window, tracker->out->number.at[n], work->k);
  if (tracker->out->informative.at[n] || counts[SEEN] < length) counts[STALE] = 1;
  if (counts[SEEN] < length) return;
  if (counts[STALE])
    measure_anew(tracker, window, work->weights);
  else
    append(window, work->k, work->line);
  report(window, measured, n);
}

int64_t run_moving(const windowed *tracker, window_state *window, moving_mismatch *measured) {
  arena scratch = {0};
  moving_work work;
  for (int placed = 0; placed < 2; placed++) {
    work.k = reals(&scratch, padded(window->cross.rows));
    work.line = reals(&scratch, window->rows.rows);
    work.weights = reals(&scratch, GROUP * window->features.rows);
    if (!placed && !take_block(&scratch)) return KT_NO_MEMORY;
  }
  for (int64_t n = 0; n < measured->value.size; n++) run_row(tracker, window, measured, &work, n);
  give_back(&scratch);
  return KT_DONE;
}
