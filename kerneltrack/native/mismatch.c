/* The kernel mismatch of a window that is at hand, see `monitor/mismatch.py`. */
#include "mismatch.h"

#include "arena.h"
#include "kernels.h"

/* Rows whose kernel values with one row are at hand at a time: they stay in the fast cache. */
#define TILE 256

/* ‖K - K̂‖_F², tr(K - K̂), tr(K) */
enum { SQUARE, RESIDUAL, OWN };

/* What row n has beside itself: its entry of the diagonal. Its square. */
static double add_diagonal(const kernel *of, const mat *rows, const mat *z, int64_t n,
                           double *sums) {
  double value = kernel_value(of, row_of(rows, n), row_of(rows, n), rows->columns);
  sums[OWN] += value;
  subtract_products(z, z->rows, n, n, 1, &value);
  sums[RESIDUAL] += value;
  return value * value;
}

/* Squares of the entries of K - K̂ in the columns from `start` on, off the diagonal twice. */
static double tile_square(const kernel *of, const mat *rows, const mat *z, int64_t start,
                          double *line, double *sums) {
  int64_t width = least_of(TILE, rows->rows - start);
  mat tile = {row_of(rows, start), width, rows->columns};
  double total = 0.0;
  for (int64_t n = start; n < rows->rows; n++) {
    int64_t last = least_of(n - start, width);
    kernel_row(of, &tile, last, row_of(rows, n), line);
    subtract_products(z, z->rows, n, start, last, line);
    total += 2.0 * dot(line, line, last);
    if (last < width) total += add_diagonal(of, rows, z, n, sums);
  }
  return total;
}

/* The three sums of scaled rows (N, D) and their features Z (r, N). K - K̂ passes by in pieces of
one row and TILE columns; each piece is summed by itself, then the pieces of a tile, then the tiles:
always the same order, and short sums. O(N²(D + r)) */
KT_API int64_t kt_mismatch_sums(const kernel *of, const mat *rows, const mat *z, vec *sums) {
  arena scratch = {0};
  reals(&scratch, TILE);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  double *line = reals(&scratch, TILE);
  for (int64_t start = 0; start < rows->rows; start += TILE)
    sums->at[SQUARE] += tile_square(of, rows, z, start, line, sums->at);
  give_back(&scratch);
  return KT_DONE;
}

/* The same of many windows, each with its own kernel: the structures of all lie one after the other. */
KT_API int64_t kt_mismatch_sums_each(const int64_t *windows, const kernel *kernels, const mat *rows,
                                     const mat *zs, vec *sums) {
  for (int64_t w = 0; w < *windows; w++) {
    int64_t done = kt_mismatch_sums(&kernels[w], &rows[w], &zs[w], &sums[w]);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}
