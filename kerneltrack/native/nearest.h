/* The nearest of a window of labelled rows, see `learners/auto/learner.py`. */
#ifndef KT_NEAREST_H
#define KT_NEAREST_H

#include "arena.h"
#include "shapes.h"
#include "vec.h"

/* Rows of a window side by side; rows that are looked for. */
enum { SIDE = 8, NEAREST = 16 };

typedef struct {
  /* How many were found; places in the window and squared distances, the nearest first. */
  int64_t many;
  int64_t place[NEAREST];
  float squared[NEAREST];
} nearest_rows;

/* A larger input counts as this: squares and their sums stay numbers of single precision. */
#define MOST_WINDOW_INPUT 1e15

static inline float *window_at(const window *rows, int64_t columns, int64_t row, int64_t column) {
  return rows->at + (row / SIDE * columns + column) * SIDE + row % SIDE;
}

/* Write a row of `columns` entries to a place of the window. */
void put_in_window(window *rows, int64_t columns, int64_t place, const double *row);

/* Write Σ_d (scales_d·gap_d)² of the row and each of the first `many`, over the first `width` of
their columns. `squares` has room for `many` rounded up to eights, `point` for 2·width.
O(many·width) */
void measure_window(const window *rows, int64_t columns, int64_t many, const double *row,
                    const double *scales, int64_t width, float *squares, float *point);

/* Find the nearest of `many`; of those equally far the ones that stand first. O(many) */
void find_nearest(const float *squares, int64_t many, nearest_rows *found);

#endif
