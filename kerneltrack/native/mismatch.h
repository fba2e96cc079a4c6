/* What whole and moving windows share: entries of K - ZᵀZ, see `monitor/mismatch.py`. */
#ifndef KT_MISMATCH_H
#define KT_MISMATCH_H

#include "shapes.h"
#include "vec.h"

/* Subtract z_rowᵀz_j from line[j - start] for `count` columns j of Z (r, N) from `start` on; of Z
the first `rank` rows. O(count · r) */
static inline void subtract_products(const mat *z, int64_t rank, int64_t row, int64_t start,
                                     int64_t count, double *line) {
  for (int64_t c = 0; c < rank; c++)
    add_scaled(line, -row_of(z, c)[row], row_of(z, c) + start, count);
}

#endif
