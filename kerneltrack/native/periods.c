/* Sums of a device's rows by period, see `monitor/periods/sums.py`. */
#include <math.h>

#include "arena.h"
#include "elementary.h"
#include "layouts.h"
#include "linalg.h"
#include "shapes.h"
#include "vec.h"

/* Means over time: of the channels over two spans, seconds. */
enum { MEANS = 2 };
#define NANOSECOND 1e-9

/* m ← m + (1 - exp(-gap/span))·(x - m) */
static void move_means(period_memory *memory, const vec *spans, const double *row, int64_t gap) {
  int64_t width = memory->last.size;
  for (int64_t k = 0; k < MEANS; k++) {
    double rate = 1.0 - exp1(-(double)gap * NANOSECOND / spans->at[k]);
    double *mean = row_of(&memory->means, k);
    for (int64_t i = 0; i < width; i++) mean[i] = fma(rate, row[i] - mean[i], mean[i]);
  }
}

/* Count a vector into a period: δ = v - mean, mean ← mean + δ/n, and the lower triangle of the
co-moments grows by (n - 1)/n·δδᵀ (Welford, Technometrics 4, 1962). */
static void count_into(period_sums *sums, int64_t period, const double *vector, double *gap) {
  int64_t width = sums->mean.columns, rows = ++sums->rows.at[period];
  double *mean = row_of(&sums->mean, period);
  for (int64_t i = 0; i < width; i++) {
    gap[i] = vector[i] - mean[i];
    mean[i] += gap[i] / (double)rows;
  }
  double share = (double)(rows - 1) / (double)rows;
  for (int64_t i = 0; i < width; i++)
    add_scaled(row_of(&sums->comoments, period * width + i), share * gap[i], gap, i + 1);
}

/* Count rows, in order of time, each into its period. O(nD²) */
KT_API int64_t kt_period_sums(const vec *spans, period_memory *memory, const mat *rows,
                              const ints *times, const ints *periods, period_sums *sums) {
  int64_t width = rows->columns;
  arena scratch = {0};
  for (int round = 0; round < 2; round++) {
    double *vector = reals(&scratch, (1 + MEANS) * width);
    double *gap = reals(&scratch, (1 + MEANS) * width);
    if (round == 0) {
      if (!take_block(&scratch)) return KT_NO_MEMORY;
      continue;
    }
    for (int64_t n = 0; n < rows->rows; n++) {
      const double *row = row_of(rows, n);
      double *repeats = row_of(&sums->repeats, periods->at[n]);
      if (memory->counts.at[0]++ == 0) {
        for (int64_t k = 0; k < MEANS; k++)
          memcpy(row_of(&memory->means, k), row, (size_t)width * sizeof(double));
      } else {
        move_means(memory, spans, row, most_of(times->at[n] - memory->counts.at[1], 0));
        for (int64_t i = 0; i < width; i++) repeats[i] += row[i] == memory->last.at[i];
      }
      memory->counts.at[1] = times->at[n];
      memcpy(memory->last.at, row, (size_t)width * sizeof(double));
      memcpy(vector, row, (size_t)width * sizeof(double));
      memcpy(vector + width, memory->means.at, (size_t)(MEANS * width) * sizeof(double));
      count_into(sums, periods->at[n], vector, gap);
    }
  }
  give_back(&scratch);
  return KT_DONE;
}

/* The first row of (P_BB)⁻¹P_B· of a channel's entries B into `weights`, P symmetric: eliminated
from the last of them up. `rows` (3, 3D) is workspace. */
static void first_solved(const mat *precision, int64_t channel, mat *rows, double *weights) {
  int64_t size = precision->columns, width = size / (1 + MEANS);
  for (int64_t k = 0; k <= MEANS; k++)
    memcpy(row_of(rows, k), row_of(precision, channel + k * width), (size_t)size * sizeof(double));
  for (int64_t k = MEANS; k > 0; k--)
    for (int64_t above = 0; above < k; above++) {
      double *to = row_of(rows, above), *from = row_of(rows, k);
      add_scaled(to, -to[channel + k * width] / from[channel + k * width], from, size);
    }
  double pivot = rows->at[channel];
  for (int64_t i = 0; i < size; i++) weights[i] = rows->at[i] / pivot;
  /* By definition, and not by rounding. */
  for (int64_t k = 0; k <= MEANS; k++) weights[channel + k * width] = k == 0;
}

/* The linear forms of the channels' residuals (D, 3D), of the correlations R (lower triangle) with
ridge: P = (R + ridge·I)⁻¹. O(D³) */
KT_API int64_t kt_period_weights(const mat *correlations, const double *ridge, mat *weights) {
  int64_t size = correlations->rows;
  arena scratch = {0};
  for (int round = 0; round < 2; round++) {
    mat chol = table(&scratch, size, size), inverse = table(&scratch, size, size);
    mat transposed = table(&scratch, size, size), rows = table(&scratch, 1 + MEANS, size);
    if (round == 0) {
      if (!take_block(&scratch)) return KT_NO_MEMORY;
      continue;
    }
    inverse_cholesky(correlations, size, *ridge, &chol, &inverse, &transposed);
    /* P = C⁻ᵀC⁻¹; the factor is no longer needed. */
    multiply_transposed(&transposed, &transposed, size, &chol);
    for (int64_t c = 0; c < weights->rows; c++)
      first_solved(&chol, c, &rows, row_of(weights, c));
  }
  give_back(&scratch);
  return KT_DONE;
}

/* Count the sums at some places, in their order, as those of one period, the first of `whole`:
n = n₁ + n₂, C = C₁ + C₂ + n₁n₂/n·δδᵀ with δ = v̄₂ - v̄₁ (Chan et al., The American Statistician
37, 1983). O(D²) a place */
KT_API int64_t kt_period_join(const period_sums *sums, const ints *places, period_sums *whole) {
  int64_t width = sums->mean.columns;
  arena scratch = {0};
  for (int round = 0; round < 2; round++) {
    double *gap = reals(&scratch, width);
    if (round == 0) {
      if (!take_block(&scratch)) return KT_NO_MEMORY;
      continue;
    }
    for (int64_t k = 0; k < places->size; k++) {
      int64_t place = places->at[k];
      double before = (double)whole->rows.at[0], more = (double)sums->rows.at[place];
      double total = before + more, *mean = whole->mean.at, share = before * (more / total);
      for (int64_t i = 0; i < width; i++) gap[i] = row_of(&sums->mean, place)[i] - mean[i];
      for (int64_t i = 0; i < width; i++) {
        double *to = row_of(&whole->comoments, i);
        add_scaled(to, 1.0, row_of(&sums->comoments, place * width + i), i + 1);
        add_scaled(to, share * gap[i], gap, i + 1);
        mean[i] = fma(more / total, gap[i], mean[i]);
      }
      add_scaled(whole->repeats.at, 1.0, row_of(&sums->repeats, place), whole->repeats.columns);
      whole->rows.at[0] += sums->rows.at[place];
    }
  }
  give_back(&scratch);
  return KT_DONE;
}

/* What channels' residuals come to in the periods at some places, (m, D) each: level W(v̄ - centre),
spread the diagonal of WCWᵀ/n, not below 0. W (D, 3D). O(D³) a place */
KT_API int64_t kt_period_residuals(const mat *weights, const vec *centre, const period_sums *sums,
                                   const ints *places, mat *level, mat *spread) {
  int64_t width = weights->columns;
  for (int64_t k = 0; k < places->size; k++) {
    int64_t place = places->at[k];
    const double *mean = row_of(&sums->mean, place);
    for (int64_t c = 0; c < weights->rows; c++) {
      const double *own = row_of(weights, c);
      double total = 0.0, square = 0.0;
      for (int64_t i = 0; i < width; i++) total = fma(own[i], mean[i] - centre->at[i], total);
      for (int64_t i = 0; i < width; i++) {
        const double *row = row_of(&sums->comoments, place * width + i);
        square = fma(own[i], fma(own[i], row[i], 2.0 * dot(row, own, i)), square);
      }
      row_of(level, k)[c] = total;
      row_of(spread, k)[c] = larger(square, 0.0) / (double)sums->rows.at[place];
    }
  }
  return KT_DONE;
}
