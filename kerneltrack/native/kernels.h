/* Kernels κ(x, y), see `kerneltrack/kernels.py`. */
#ifndef KT_KERNELS_H
#define KT_KERNELS_H

#include "elementary.h"
#include "layouts.h"
#include "shapes.h"

enum { GAUSSIAN, LAPLACIAN, POLYNOMIAL, LINEAR };

/* What a kernel compares: a distance of x and y, or their product. O(D) */
double compare_rows(const kernel *of, const double *x, const double *y, int64_t width);

/* κ of what was compared, in place. */
void kernel_of_compared(const kernel *of, double *values, int64_t count);

/* κ(x, y). O(D) */
double kernel_value(const kernel *of, const double *x, const double *y, int64_t width);

/* κ(stored[i], x) of the first `count` stored rows into `out`. O(count · D) */
void kernel_row(const kernel *of, const mat *stored, int64_t count, const double *x, double *out);

/* The same of rows that are stored as columns, (D, W), W a multiple of `LANES`: all W of them, where
columns from `count` on come out as 0. */
void kernel_columns(const kernel *of, const mat *stored, int64_t count, const double *x,
                    double *out);

#endif
