#include "nearest.h"

#include <float.h>

typedef float f8 __attribute__((vector_size(32)));
typedef int32_t w8 __attribute__((vector_size(32)));

static inline float single(double value) {
  return (float)larger(-MOST_WINDOW_INPUT, smaller(MOST_WINDOW_INPUT, value));
}

void put_in_window(window *rows, int64_t columns, int64_t place, const double *row) {
  for (int64_t d = 0; d < columns; d++) *window_at(rows, columns, place, d) = single(row[d]);
}

static inline f8 fma8(f8 left, f8 right, f8 total) {
#if defined(__clang__)
  return __builtin_elementwise_fma(left, right, total);
#elif defined(__FMA__)
  return __builtin_ia32_vfmaddps256(left, right, total);
#else
  f8 out;
  for (int lane = 0; lane < SIDE; lane++) out[lane] = fmaf(left[lane], right[lane], total[lane]);
  return out;
#endif
}

/* Squared distances of all rows to a scaled point. */
static void measure_all(const window *rows, int64_t columns, int64_t many, const float *point,
                        const float *scales, int64_t width, float *squares) {
  for (int64_t first = 0; first < many; first += SIDE) {
    const float *next = rows->at + first * columns;
    f8 total = {0};
    for (int64_t d = 0; d < width; d++, next += SIDE) {
      f8 entries, scale = {0}, from = {0};
      memcpy(&entries, next, sizeof entries);
      f8 gap = fma8(entries, scale + scales[d], from - point[d]);
      total = fma8(gap, gap, total);
    }
    memcpy(squares + first, &total, sizeof total);
  }
}

static void take_in(nearest_rows *found, int64_t place, float squared) {
  int64_t i = found->many < NEAREST ? found->many++ : NEAREST - 1;
  for (; i > 0 && found->squared[i - 1] > squared; i--) {
    found->squared[i] = found->squared[i - 1];
    found->place[i] = found->place[i - 1];
  }
  found->squared[i] = squared;
  found->place[i] = place;
}

void measure_window(const window *rows, int64_t columns, int64_t many, const double *row,
                    const double *scales, int64_t width, float *squares, float *point) {
  float *factors = point + width;
  for (int64_t d = 0; d < width; d++) {
    factors[d] = single(scales[d]);
    point[d] = single(row[d]) * factors[d];
  }
  measure_all(rows, columns, many, point, factors, width, squares);
}

/* Distances that are compared at once. */
enum { GROUP_ROWS = 4 * SIDE };

static inline f8 load8(const float *from) {
  f8 value;
  memcpy(&value, from, sizeof value);
  return value;
}

/* A number that `NEAREST` of the distances are not above: of as many minima as a group has rows,
each of one row of every group, that which so many are not above. */
static float bound_of(const float *squares, int64_t many) {
  f8 least[GROUP_ROWS / SIDE];
  float minima[GROUP_ROWS];
  nearest_rows found = {0};
  if (many < GROUP_ROWS) return FLT_MAX;
  UNROLLED
  for (int i = 0; i < GROUP_ROWS / SIDE; i++) least[i] = (f8){0} + FLT_MAX;
  for (int64_t first = 0; first + GROUP_ROWS <= many; first += GROUP_ROWS)
    UNROLLED
    for (int i = 0; i < GROUP_ROWS / SIDE; i++) {
      f8 here = load8(squares + first + i * SIDE);
      w8 below = here < least[i];
      least[i] = (f8)((below & (w8)here) | (~below & (w8)least[i]));
    }
  memcpy(minima, least, sizeof minima);
  for (int64_t i = 0; i < GROUP_ROWS; i++)
    if (found.many < NEAREST || minima[i] < found.squared[NEAREST - 1]) take_in(&found, i, minima[i]);
  return found.squared[NEAREST - 1];
}

/* Whether one of eight, or of a group, is not above a bound. */
static inline int any8(w8 within) {
  i4 words = (i4)within;
  return ((words[0] | words[1]) | (words[2] | words[3])) != 0;
}

static inline int any_within(const float *squares, float bound) {
  w8 within = {0};
  UNROLLED
  for (int i = 0; i < GROUP_ROWS; i += SIDE) within |= load8(squares + i) <= bound;
  return any8(within);
}

void find_nearest(const float *squares, int64_t many, nearest_rows *found) {
  float bound = bound_of(squares, many);
  found->many = 0;
  for (int64_t first = 0; first < many; first += SIDE) {
    int64_t group = first + GROUP_ROWS;
    if (first % GROUP_ROWS == 0 && group <= many && !any_within(squares + first, bound)) {
      first = group - SIDE;
      continue;
    }
    if (!any8(load8(squares + first) <= bound)) continue;
    for (int64_t i = first; i < least_of(first + SIDE, many); i++) {
      int full = found->many == NEAREST;
      if (squares[i] <= bound && !(full && squares[i] >= found->squared[NEAREST - 1]))
        take_in(found, i, squares[i]);
    }
  }
}
