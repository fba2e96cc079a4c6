/* What crosses the boundary: members of eight bytes each, in the order of Python's named tuples.

`binding.py` packs an array as its address and its lengths, everything else as a number. Arrays are
contiguous, by rows; C trusts the lengths, which Python has checked.
*/
#ifndef KT_SHAPES_H
#define KT_SHAPES_H

#include <stdint.h>

/* A function that Python calls. */
#define KT_API __attribute__((visibility("default")))

/* What such a function returns where it has nothing to say, and where memory is short. */
enum { KT_DONE = 0, KT_NO_MEMORY = -1 };

typedef struct {
  double *at;
  int64_t size;
} vec;

typedef struct {
  double *at;
  int64_t rows, columns;
} mat;

typedef struct {
  double *at;
  int64_t many, rows, columns;
} cube;

typedef struct {
  int64_t *at;
  int64_t size;
} ints;

typedef struct {
  int64_t *at;
  int64_t rows, columns;
} int_table;

typedef struct {
  uint8_t *at;
  int64_t size;
} flags;

typedef struct {
  uint64_t *at;
  int64_t size;
} words;

/* Eight rows of reals of single precision after one another, each group by columns: entry d of row
i stands in line (i / 8)·columns + d, place i % 8. */
typedef struct {
  float *at;
  int64_t lines, side;
} window;

static inline double *row_of(const mat *table, int64_t row) {
  return table->at + row * table->columns;
}

/* Row i of a lower triangle, i + 1 numbers: its rows lie one after the other. */
static inline double *lower_row(double *triangle, int64_t i) { return triangle + i * (i + 1) / 2; }

/* `many` rows of a table from `first` on. */
static inline mat rows_from(const mat *table, int64_t first, int64_t many) {
  return (mat){row_of(table, first), many, table->columns};
}

/* One table of several. */
static inline mat table_of(const cube *tables, int64_t which) {
  return (mat){tables->at + which * tables->rows * tables->columns, tables->rows, tables->columns};
}

static inline int64_t least_of(int64_t left, int64_t right) { return left < right ? left : right; }

static inline int64_t most_of(int64_t left, int64_t right) { return left > right ? left : right; }

#endif
