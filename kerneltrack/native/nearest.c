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

void measure_window(const window *rows, int64_t columns, int64_t many, const double *row,
                    const double *scales, int64_t width, float *squares, float *point) {
  float *factors = point + width;
  for (int64_t d = 0; d < width; d++) {
    factors[d] = single(scales[d]);
    point[d] = single(row[d]) * factors[d];
  }
  measure_all(rows, columns, many, point, factors, width, squares);
}

/* Distances that are compared at once; rows that may be among the nearest, side by side. */
enum { GROUP_ROWS = 4 * SIDE, CANDIDATES = 2 * GROUP_ROWS };

typedef struct {
  int64_t many;
  int64_t place[CANDIDATES];
  float squared[CANDIDATES];
} candidates;

static inline f8 load8(const float *from) {
  f8 value;
  memcpy(&value, from, sizeof value);
  return value;
}

/* How many of the candidates come before each: those nearer, and those as near that stand before
it. All are compared with all, eight at a time, so that no branch has to be guessed. */
static void rank_all(candidates *all, int32_t *ranks) {
  for (int64_t i = all->many; i % SIDE != 0; i++) all->squared[i] = FLT_MAX;
  for (int64_t first = 0; first < all->many; first += SIDE) {
    f8 here = load8(all->squared + first);
    w8 rank = {0}, at = (w8){0, 1, 2, 3, 4, 5, 6, 7} + (int32_t)first;
    for (int64_t i = 0; i < all->many; i++) {
      f8 other = (f8){0} + all->squared[i];
      rank -= (other < here) | ((other == here) & (at > (int32_t)i));
    }
    memcpy(ranks + first, &rank, sizeof rank);
  }
}

/* Write the nearest of the candidates in their order. */
static void sort_nearest(candidates *all, nearest_rows *found) {
  int32_t ranks[CANDIDATES];
  rank_all(all, ranks);
  found->many = least_of(all->many, NEAREST);
  for (int64_t i = 0; i < all->many; i++) {
    if (ranks[i] >= NEAREST) continue;
    found->place[ranks[i]] = all->place[i];
    found->squared[ranks[i]] = all->squared[i];
  }
}

/* The next number of single precision above one that is not negative. */
static inline float next_above(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits++;
  memcpy(&value, &bits, sizeof bits);
  return value;
}

/* A number that `NEAREST` of the distances are below: of as many minima as a group has rows, each of
one row of every group, the next above that which so many are not above. */
static float limit_of(const float *squares, int64_t many) {
  f8 least[GROUP_ROWS / SIDE];
  candidates minima = {.many = GROUP_ROWS};
  nearest_rows found;
  if (many < GROUP_ROWS) return INFINITY;
  UNROLLED
  for (int i = 0; i < GROUP_ROWS / SIDE; i++) least[i] = (f8){0} + FLT_MAX;
  for (int64_t first = 0; first + GROUP_ROWS <= many; first += GROUP_ROWS)
    UNROLLED
    for (int i = 0; i < GROUP_ROWS / SIDE; i++) {
      f8 here = load8(squares + first + i * SIDE);
      w8 below = here < least[i];
      least[i] = (f8)((below & (w8)here) | (~below & (w8)least[i]));
    }
  memcpy(minima.squared, least, sizeof least);
  sort_nearest(&minima, &found);
  return next_above(found.squared[NEAREST - 1]);
}

/* Whether one of eight, or of a group, is below a limit. */
static inline int any8(w8 below) {
  i4 words = (i4)below;
  return ((words[0] | words[1]) | (words[2] | words[3])) != 0;
}

static inline int any_below(const float *squares, float limit) {
  w8 below = {0};
  UNROLLED
  for (int i = 0; i < GROUP_ROWS; i += SIDE) below |= load8(squares + i) < limit;
  return any8(below);
}

/* Take those of eight rows, or fewer at the end, that are below the limit. */
static void take_rows(candidates *all, const float *squares, int64_t first, int64_t end,
                      float limit) {
  int64_t many = all->many;
  for (int64_t i = first; i < end; i++) {
    all->place[many] = i;
    all->squared[many] = squares[i];
    many += squares[i] < limit;
  }
  all->many = many;
}

/* Leave only the nearest where eight more might not fit, which rows to come have to be below. */
static float make_room(candidates *all, nearest_rows *found, float limit) {
  if (all->many <= CANDIDATES - SIDE) return limit;
  sort_nearest(all, found);
  all->many = found->many;
  memcpy(all->place, found->place, sizeof found->place);
  memcpy(all->squared, found->squared, sizeof found->squared);
  return found->squared[NEAREST - 1];
}

void find_nearest(const float *squares, int64_t many, nearest_rows *found) {
  candidates all;
  float limit = limit_of(squares, many);
  all.many = 0;
  for (int64_t first = 0; first < many; first += SIDE) {
    int64_t group = first + GROUP_ROWS;
    if (first % GROUP_ROWS == 0 && group <= many && !any_below(squares + first, limit)) {
      first = group - SIDE;
      continue;
    }
    if (!any8(load8(squares + first) < limit)) continue;
    take_rows(&all, squares, first, least_of(first + SIDE, many), limit);
    limit = make_room(&all, found, limit);
  }
  sort_nearest(&all, found);
}
