#include "kernels.h"

double compare_rows(const kernel *of, const double *x, const double *y, int64_t width) {
  if (of->code == GAUSSIAN) return squared_distance(x, y, width);
  if (of->code == LAPLACIAN) return absolute_distance(x, y, width);
  return dot(x, y, width);
}

static v4 kernel4(const kernel *of, v4 compared) {
  if (of->code == GAUSSIAN || of->code == LAPLACIAN) return exp4(-compared * of->inverse_gamma);
  if (of->code == LINEAR) return compared;
  v4 base = compared + of->offset, power = base;
  for (int64_t i = 1; i < of->degree; i++) power *= base;
  return power;
}

void kernel_of_compared(const kernel *of, double *values, int64_t count) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) store4(values + i, kernel4(of, load4(values + i)));
  for (; i < count; i++) values[i] = kernel4(of, all4(values[i]))[0];
}

double kernel_value(const kernel *of, const double *x, const double *y, int64_t width) {
  return kernel4(of, all4(compare_rows(of, x, y, width)))[0];
}

void kernel_row(const kernel *of, const mat *stored, int64_t count, const double *x, double *out) {
  for (int64_t i = 0; i < count; i++)
    out[i] = compare_rows(of, row_of(stored, i), x, stored->columns);
  kernel_of_compared(of, out, count);
}

/* Four columns' distances or products. The terms are added in the order of the channels: other
bits than `compare_rows` gives, for whom the order is that of `dot`. */
static v4 compare_columns(const kernel *of, const mat *stored, int64_t at, const double *x) {
  v4 total = all4(0.0);
  const double *entry = stored->at + at;
  for (int64_t d = 0; d < stored->rows; d++, entry += stored->columns) {
    v4 value = load4(entry), given = all4(x[d]);
    if (of->code == GAUSSIAN)
      total = add_squared_gap4(value, given, total);
    else if (of->code == LAPLACIAN)
      total = add_absolute_gap4(value, given, total);
    else
      total = fma4(value, given, total);
  }
  return total;
}

void kernel_columns(const kernel *of, const mat *stored, int64_t count, const double *x,
                    double *out) {
  for (int64_t i = 0; i < stored->columns; i += LANES)
    store4(out + i, kernel4(of, compare_columns(of, stored, i, x)));
  for (int64_t i = count; i < stored->columns; i++) out[i] = 0.0;
}

/* Tables of kernel values and distances. */

/* out ← κ(rows, columns). O(nmD) */
KT_API int64_t kt_gram(const kernel *of, const mat *rows, const mat *columns, mat *out) {
  for (int64_t i = 0; i < rows->rows; i++)
    kernel_row(of, columns, columns->rows, row_of(rows, i), row_of(out, i));
  return KT_DONE;
}

/* ‖x_i - x_j‖² of all pairs j < i into `out`, ‖x_i - x_j‖₁ for the Laplacian kernel. O(n²D) */
KT_API int64_t kt_pair_distances(const kernel *of, const mat *rows, vec *out) {
  double *to = out->at;
  for (int64_t i = 0; i < rows->rows; i++)
    for (int64_t j = 0; j < i; j++)
      *to++ = compare_rows(of, row_of(rows, i), row_of(rows, j), rows->columns);
  return KT_DONE;
}
