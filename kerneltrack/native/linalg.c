#include "linalg.h"

#include "vec.h"

/* Below it, and above its inverse, a matrix to be rotated counts as unknown. */
#define TINY 1e-290
#define POLAR_STEPS 30
/* Newton's iteration is quadratic: a change below 1e-7 leaves an error near 1e-14. */
#define POLAR_TOLERANCE 1e-7
#define JACOBI_SWEEPS 12
#define QL_SWEEPS 50
/* Entries below this fraction of the mean of their two diagonal ones are rounding. */
#define JACOBI_TOLERANCE 1e-15

void multiply_transposed(const mat *left, const mat *right, int64_t depth, mat *out) {
  for (int64_t i = 0; i < left->rows; i++)
    for (int64_t j = 0; j < right->rows; j++)
      row_of(out, i)[j] = dot(row_of(left, i), row_of(right, j), depth);
}

/* Four rows at once: what they are added to is loaded and stored once. */
static void add_four_rows(const mat *rows, int64_t first, int64_t width, const double *factors,
                          double *to) {
  const double *a = row_of(rows, first), *b = a + rows->columns, *c = b + rows->columns;
  const double *d = c + rows->columns;
  int64_t i = 0;
  for (; i + LANES <= width; i += LANES) {
    v4 total = fma4(all4(factors[0]), load4(a + i), load4(to + i));
    total = fma4(all4(factors[1]), load4(b + i), total);
    total = fma4(all4(factors[2]), load4(c + i), total);
    store4(to + i, fma4(all4(factors[3]), load4(d + i), total));
  }
  for (; i < width; i++) {
    double total = fma(factors[1], b[i], fma(factors[0], a[i], to[i]));
    to[i] = fma(factors[3], d[i], fma(factors[2], c[i], total));
  }
}

void add_rows(const mat *rows, int64_t count, int64_t width, const double *factors, double *to) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) add_four_rows(rows, i, width, factors + i, to);
  for (; i < count; i++) add_scaled(to, factors[i], row_of(rows, i), width);
}

void transpose(const mat *matrix, mat *out) {
  for (int64_t i = 0; i < matrix->rows; i++)
    for (int64_t j = 0; j < matrix->rows; j++) row_of(out, j)[i] = row_of(matrix, i)[j];
}

void inverse_cholesky(const mat *matrix, int64_t size, double shift, mat *chol, mat *out,
                      mat *transposed) {
  for (int64_t j = 0; j < size; j++) {
    double *own = row_of(chol, j);
    double pivot = row_of(matrix, j)[j] + shift - dot(own, own, j);
    double root = sqrt(larger(pivot, 0.5 * shift)), scale = 1.0 / root;
    own[j] = root;
    for (int64_t i = j + 1; i < size; i++) {
      double *row = row_of(chol, i);
      row[j] = (row_of(matrix, i)[j] - dot(row, own, j)) * scale;
    }
    /* Row j of C⁻¹, entry i: -Σ_{i<=k<j} C[j, k] C⁻¹[k, i] / C[j, j]. */
    for (int64_t i = 0; i < j; i++) {
      double entry = -scale * dot(own + i, row_of(transposed, i) + i, j - i);
      row_of(transposed, i)[j] = entry;
      row_of(transposed, j)[i] = 0.0;
      row_of(out, j)[i] = entry;
      row_of(out, i)[j] = 0.0;
    }
    row_of(transposed, j)[j] = scale;
    row_of(out, j)[j] = scale;
  }
}

void solve_factored(const mat *inverse, const mat *transposed, const double *right, double *half,
                    double *out) {
  int64_t size = inverse->rows;
  for (int64_t j = 0; j < size; j++) half[j] = dot(row_of(inverse, j), right, j + 1);
  for (int64_t j = 0; j < size; j++) out[j] = dot(row_of(transposed, j) + j, half + j, size - j);
}

int cholesky(const mat *matrix, double shift, mat *chol) {
  for (int64_t i = 0; i < matrix->rows; i++) {
    const double *from = row_of(matrix, i);
    double *own = row_of(chol, i);
    for (int64_t j = 0; j < i; j++) {
      const double *other = row_of(chol, j);
      own[j] = (from[j] - dot(own, other, j)) * other[j];
    }
    double pivot = from[i] - shift - dot(own, own, i);
    if (!(pivot > 0.0)) return 0;
    own[i] = 1.0 / sqrt(pivot);
  }
  return 1;
}

void solve_cholesky(const mat *chol, double *right) {
  for (int64_t i = 0; i < chol->rows; i++) {
    const double *own = row_of(chol, i);
    right[i] = (right[i] - dot(own, right, i)) * own[i];
  }
  for (int64_t i = chol->rows - 1; i >= 0; i--) {
    const double *own = row_of(chol, i);
    right[i] *= own[i];
    add_scaled(right, -right[i], own, i);
  }
}

static void swap_entries(double *left, double *right) {
  double kept = *left;
  *left = *right;
  *right = kept;
}

/* Invert in place by Gauss-Jordan elimination with row pivoting; false if singular. */
static int invert(mat *matrix, int64_t *pivots) {
  int64_t size = matrix->rows;
  for (int64_t column = 0; column < size; column++) {
    int64_t best = column;
    for (int64_t i = column + 1; i < size; i++)
      if (fabs(row_of(matrix, i)[column]) > fabs(row_of(matrix, best)[column])) best = i;
    pivots[column] = best;
    if (!(fabs(row_of(matrix, best)[column]) > 0.0)) return 0;
    double *own = row_of(matrix, column);
    if (best != column)
      for (int64_t j = 0; j < size; j++) swap_entries(row_of(matrix, best) + j, own + j);
    double scale = 1.0 / own[column];
    scale_all(own, scale, size);
    own[column] = scale;
    for (int64_t i = 0; i < size; i++) {
      if (i == column) continue;
      double *row = row_of(matrix, i), weight = row[column];
      /* The entry counts as 0: put right afterwards, as a vector must not wait for it. */
      add_scaled(row, -weight, own, size);
      row[column] = fma(-weight, scale, 0.0);
    }
  }
  for (int64_t column = size - 1; column >= 0; column--) {
    int64_t best = pivots[column];
    if (best == column) continue;
    for (int64_t i = 0; i < size; i++)
      swap_entries(row_of(matrix, i) + column, row_of(matrix, i) + best);
  }
  return 1;
}

static void make_identity(mat *matrix) {
  fill(matrix->at, 0.0, matrix->rows * matrix->columns);
  for (int64_t i = 0; i < matrix->rows; i++) row_of(matrix, i)[i] = 1.0;
}

/* One step of the iteration; the largest change of an entry. */
static double polar_step(mat *matrix, const mat *inverse) {
  int64_t size = matrix->rows;
  double own = 0.0, other = 0.0, change = 0.0;
  for (int64_t i = 0; i < size; i++) {
    own += dot(row_of(matrix, i), row_of(matrix, i), size);
    other += dot(row_of(inverse, i), row_of(inverse, i), size);
  }
  double scale = sqrt(sqrt(other / own));
  for (int64_t i = 0; i < size; i++)
    for (int64_t j = 0; j < size; j++) {
      double *entry = row_of(matrix, i) + j;
      double value = 0.5 * (scale * *entry + row_of(inverse, j)[i] / scale);
      change = larger(change, fabs(value - *entry));
      *entry = value;
    }
  return change;
}

void nearest_rotation(const mat *matrix, mat *inverse, int64_t *pivots, mat *out) {
  int64_t size = matrix->rows, count = size * size;
  double largest = 0.0;
  for (int64_t i = 0; i < count; i++) largest = larger(largest, fabs(matrix->at[i]));
  /* Outside this range products of the iteration would overflow, and the data say nothing. */
  int known = TINY < largest && largest < 1.0 / TINY;
  double weight = known ? 1.0 / largest : 0.0;
  for (int64_t i = 0; i < count; i++) out->at[i] = known ? matrix->at[i] * weight : 0.0;
  for (int64_t i = 0; i < size; i++) row_of(out, i)[i] += known ? 1e-14 : 1.0;
  for (int step = 0; step < POLAR_STEPS; step++) {
    copy(inverse->at, out->at, count);
    if (!invert(inverse, pivots)) {
      make_identity(out);
      return;
    }
    if (polar_step(out, inverse) < POLAR_TOLERANCE) return;
  }
}

/* The rotation that zeroes an entry beside two diagonal ones: its cosine and sine. */
static void jacobi_angle(double low, double off, double high, double *cosine, double *sine) {
  /* tan of the angle: the smaller root of t² + (gap/off)t - 1, without overflow. */
  double half = 0.5 * (high - low) / off;
  double tangent = 1.0 / (fabs(half) + sqrt(half * half + 1.0));
  tangent = half >= 0.0 ? tangent : -tangent;
  *cosine = 1.0 / sqrt(tangent * tangent + 1.0);
  *sine = tangent * *cosine;
}

static void turn_pair(double *first, double *second, double cosine, double sine) {
  double low = *first, high = *second;
  *first = cosine * low - sine * high;
  *second = sine * low + cosine * high;
}

static void turn_rows(double *first, double *second, double cosine, double sine, int64_t count) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    v4 low = load4(first + i), high = load4(second + i);
    store4(first + i, cosine * low - sine * high);
    store4(second + i, sine * low + cosine * high);
  }
  for (; i < count; i++) turn_pair(first + i, second + i, cosine, sine);
}

void diagonalise(mat *matrix, int64_t size, mat *turns) {
  for (int64_t i = 0; i < size; i++) {
    fill(row_of(turns, i), 0.0, size);
    row_of(turns, i)[i] = 1.0;
  }
  for (int sweep = 0, still = 0; sweep < JACOBI_SWEEPS && !still; sweep++) {
    still = 1;
    for (int64_t p = 0; p < size; p++)
      for (int64_t q = p + 1; q < size; q++) {
        double *low = row_of(matrix, p), *high = row_of(matrix, q), off = low[q];
        double small = JACOBI_TOLERANCE * sqrt(fabs(low[p]) * fabs(high[q]));
        if (!(fabs(off) > small)) continue;
        still = 0;
        double cosine, sine;
        jacobi_angle(low[p], off, high[q], &cosine, &sine);
        turn_rows(low, high, cosine, sine, size);
        turn_rows(row_of(turns, p), row_of(turns, q), cosine, sine, size);
        for (int64_t i = 0; i < size; i++)
          turn_pair(row_of(matrix, i) + p, row_of(matrix, i) + q, cosine, sine);
        low[q] = 0.0;
        high[p] = 0.0;
      }
  }
}

int orthonormalise_row(mat *left, mat *right, int64_t row, int64_t size, double least) {
  double *own = row_of(left, row), *image = row_of(right, row), rest = 0.0;
  for (int round = 0; round < 2; round++) {
    for (int64_t e = 0; e < row; e++) {
      double along = dot(row_of(left, e), image, size);
      add_scaled(own, -along, row_of(left, e), size);
      add_scaled(image, -along, row_of(right, e), size);
    }
    rest = dot(own, image, size);
  }
  int found = rest > least;
  double scale = found ? 1.0 / sqrt(rest) : 0.0;
  scale_all(own, scale, size);
  scale_all(image, scale, size);
  return found;
}

void orthonormalise(mat *left, mat *right, int64_t count, int64_t size, const double *least) {
  for (int64_t c = 0; c < count; c++) orthonormalise_row(left, right, c, size, least[c]);
}

/* Take the pivot's column of R out of what is left. */
static void factor_column(const mat *matrix, double *rest, int64_t best, int64_t step, mat *out) {
  double scale = 1.0 / sqrt(rest[best]);
  const double *pivot = row_of(out, best);
  for (int64_t i = 0; i < matrix->rows; i++) {
    /* Rows that were pivots have nothing left, not even rounding noise. */
    if (!(rest[i] >= 0.0) || i == best) continue;
    double *row = row_of(out, i);
    row[step] = scale * (row_of(matrix, best)[i] - dot(pivot, row, step));
    rest[i] = larger(rest[i] - row[step] * row[step], 0.0);
  }
  row_of(out, best)[step] = rest[best] * scale;
  rest[best] = -1.0;
}

void semidefinite_factor(const mat *matrix, double *rest, mat *out) {
  int64_t size = matrix->rows;
  double trace = 0.0;
  for (int64_t i = 0; i < size; i++) {
    rest[i] = row_of(matrix, i)[i];
    trace += fabs(rest[i]);
    fill(row_of(out, i), 0.0, size);
  }
  double least = trace * (double)size * 2.3e-16;
  for (int64_t step = 0; step < size; step++) {
    int64_t best = 0;
    for (int64_t i = 0; i < size; i++)
      if (rest[i] > rest[best]) best = i;
    if (!(rest[best] > least)) return;
    factor_column(matrix, rest, best, step, out);
  }
}

/* Rows b that are to be added up if they are good, each with a weight. */
typedef struct {
  const double *weights; /* the first one; the next is `stride` after it */
  int64_t stride;
  const double *rows; /* likewise, `columns` after one another */
  int64_t columns;
  const uint8_t *good;
  int64_t many;
} weighted_rows;

/* to ← to + Σ_b weights_b·rows_b, `vectors` of numbers wide, in registers. */
static inline __attribute__((always_inline)) void add_vectors(weighted_rows of, double *to,
                                                              int vectors) {
  v4 sums[TILE / LANES];
  UNROLLED
  for (int t = 0; t < vectors; t++) sums[t] = load4(to + LANES * t);
  for (int64_t b = 0; b < of.many; b++, of.weights += of.stride, of.rows += of.columns) {
    if (!of.good[b]) continue;
    v4 weight = all4(*of.weights);
    UNROLLED
    for (int t = 0; t < vectors; t++) sums[t] = fma4(weight, load4(of.rows + LANES * t), sums[t]);
  }
  UNROLLED
  for (int t = 0; t < vectors; t++) store4(to + LANES * t, sums[t]);
}

static double add_entries(weighted_rows of, double sum) {
  for (int64_t b = 0; b < of.many; b++, of.weights += of.stride, of.rows += of.columns)
    if (of.good[b]) sum = fma(*of.weights, *of.rows, sum);
  return sum;
}

/* The same of fewer columns than `TILE`. */
static void add_rest(weighted_rows of, double *to, int64_t width) {
  int64_t vectors = width / LANES;
  switch (vectors) {
#define CASE(count)             \
  case count:                   \
    add_vectors(of, to, count); \
    break
    CASE(1);
    CASE(2);
    CASE(3);
    CASE(4);
    CASE(5);
    CASE(6);
    CASE(7);
#undef CASE
  }
  of.rows += vectors * LANES;
  for (int64_t at = vectors * LANES; at < width; at++, of.rows++) to[at] = add_entries(of, to[at]);
}

/* `out` is walked through once for all rows: it is larger than a processor's nearest caches. */
void add_products(const mat *left, const mat *right, const uint8_t *good, int lower, mat *out) {
  weighted_rows of = {left->at, left->columns, right->at, right->columns, good, left->rows};
  for (int64_t at = 0; at + TILE <= out->columns; at += TILE)
    for (int64_t i = lower ? at + TILE - 1 : 0; i < out->rows; i++) {
      of.weights = left->at + i;
      of.rows = right->at + at;
      add_vectors(of, row_of(out, i) + at, TILE / LANES);
    }
  for (int64_t i = 0; i < out->rows; i++) {
    int64_t most = lower ? i + 1 : out->columns, at = most / TILE * TILE;
    of.weights = left->at + i;
    of.rows = right->at + at;
    add_rest(of, row_of(out, i) + at, most - at);
  }
}

/* One reflection I - βuuᵀ of Householder's: A's first k rows and columns, the vector u in row k,
which afterwards has nothing but its last entry, returned, left of the diagonal; β in *weight. A row
that is `rounding` is left out. */
static double reflect(mat *matrix, int64_t k, double rounding, double *along, double *weight) {
  double *u = row_of(matrix, k), length = sqrt(dot(u, u, k));
  double end = u[k - 1] > 0.0 ? -length : length;
  *weight = 0.0;
  if (!(length > rounding)) return 0.0;
  u[k - 1] -= end;
  double beta = 2.0 / dot(u, u, k);
  for (int64_t i = 0; i < k; i++) along[i] = beta * dot(row_of(matrix, i), u, k);
  add_scaled(along, -0.5 * beta * dot(u, along, k), u, k);
  for (int64_t i = 0; i < k; i++) {
    double own = u[i], other = along[i];
    add_scaled(row_of(matrix, i), -own, along, k);
    add_scaled(row_of(matrix, i), -other, u, k);
  }
  *weight = beta;
  return end;
}

/* The first row m >= l that is cut off from the next: by an entry that is rounding of the matrix. */
static int64_t next_cut(const double *beside, int64_t l, int64_t size, double rounding) {
  while (l + 1 < size && fabs(beside[l]) > rounding) l++;
  return l;
}

/* One sweep of the implicit QL iteration between rows l and m, the eigenvectors turned along. */
static void ql_sweep(double *diagonal, double *beside, int64_t l, int64_t m, mat *turns) {
  double half = (diagonal[l + 1] - diagonal[l]) / (2.0 * beside[l]);
  double root = sqrt(half * half + 1.0);
  double g = diagonal[m] - diagonal[l] + beside[l] / (half + (half >= 0.0 ? root : -root));
  double sine = 1.0, cosine = 1.0, shift = 0.0;
  for (int64_t i = m - 1; i >= l; i--) {
    double f = sine * beside[i], b = cosine * beside[i], r = sqrt(f * f + g * g);
    beside[i + 1] = r;
    if (!(r > 0.0)) {
      diagonal[i + 1] -= shift;
      beside[m] = 0.0;
      return;
    }
    sine = f / r;
    cosine = g / r;
    g = diagonal[i + 1] - shift;
    r = (diagonal[i] - g) * sine + 2.0 * cosine * b;
    shift = sine * r;
    diagonal[i + 1] = g + shift;
    g = cosine * r - b;
    turn_rows(row_of(turns, i), row_of(turns, i + 1), cosine, sine, turns->columns);
  }
  diagonal[l] -= shift;
  beside[l] = g;
  beside[m] = 0.0;
}

void eigenvectors(mat *matrix, int64_t size, double *diagonal, double *beside, double *along,
                  mat *turns) {
  mat used = {turns->at, size, turns->columns};
  for (int64_t i = 0; i < size; i++) {
    fill(row_of(turns, i), 0.0, turns->columns);
    row_of(turns, i)[i] = 1.0;
  }
  double largest = 0.0;
  for (int64_t i = 0; i < size; i++) largest = larger(absolute_sum(row_of(matrix, i), size), largest);
  double rounding = 0x1p-53 * largest;
  for (int64_t k = size - 1; k > 0; k--)
    beside[k - 1] = reflect(matrix, k, rounding, along, diagonal + k);
  /* The product of the reflections, then what is left on the diagonal. */
  for (int64_t k = 1; k < size; k++) {
    double beta = diagonal[k], *u = row_of(matrix, k);
    for (int64_t i = 0; i < k; i++)
      add_scaled(row_of(turns, i), -beta * dot(row_of(turns, i), u, k), u, k);
  }
  for (int64_t i = 0; i < size; i++) diagonal[i] = row_of(matrix, i)[i];
  if (size > 0) beside[size - 1] = 0.0;
  for (int64_t l = 0; l < size; l++)
    for (int sweep = 0; sweep < QL_SWEEPS; sweep++) {
      int64_t m = next_cut(beside, l, size, rounding);
      if (m == l) break;
      ql_sweep(diagonal, beside, l, m, &used);
    }
}

void weigh_rows(const mat *rows, const double *weights, double *out, int64_t width) {
  int64_t c = 0;
  fill(out, 0.0, width);
  /* Four at a time, one after the other: the sums stay in registers. */
  for (; c + 4 <= rows->rows; c += 4) {
    const double *a = row_of(rows, c), *b = a + rows->columns, *d = b + rows->columns;
    const double *e = d + rows->columns;
    for (int64_t i = 0; i < width; i += LANES) {
      v4 sum = fma4(all4(weights[c]), load4(a + i), load4(out + i));
      sum = fma4(all4(weights[c + 1]), load4(b + i), sum);
      sum = fma4(all4(weights[c + 2]), load4(d + i), sum);
      store4(out + i, fma4(all4(weights[c + 3]), load4(e + i), sum));
    }
  }
  for (; c < rows->rows; c++) add_scaled(out, weights[c], row_of(rows, c), width);
}

/* Some of them for Python, which tests them. */

KT_API int64_t kt_multiply_transposed(const mat *left, const mat *right, mat *out) {
  multiply_transposed(left, right, left->columns, out);
  return KT_DONE;
}

KT_API int64_t kt_inverse_cholesky(const mat *matrix, const double *shift, mat *chol, mat *out,
                                   mat *transposed) {
  inverse_cholesky(matrix, matrix->rows, *shift, chol, out, transposed);
  return KT_DONE;
}

KT_API int64_t kt_nearest_rotation(const mat *matrix, mat *inverse, ints *pivots, mat *out) {
  nearest_rotation(matrix, inverse, pivots->at, out);
  return KT_DONE;
}

KT_API int64_t kt_diagonalise(mat *matrix, mat *turns) {
  diagonalise(matrix, matrix->rows, turns);
  return KT_DONE;
}

KT_API int64_t kt_eigenvectors(mat *matrix, vec *diagonal, vec *beside, vec *along, mat *turns) {
  eigenvectors(matrix, matrix->rows, diagonal->at, beside->at, along->at, turns);
  return KT_DONE;
}

KT_API int64_t kt_semidefinite_factor(const mat *matrix, vec *rest, mat *out) {
  semidefinite_factor(matrix, rest->at, out);
  return KT_DONE;
}
