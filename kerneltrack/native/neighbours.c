/* How much of one model's subspace lies in another's, see `monitor/neighbours.py`. */
#include "arena.h"
#include "kernels.h"
#include "linalg.h"
#include "vec.h"

/* ‖Uᵀκ(S, T)V‖_F² of a model's basis Uᵀ (r, c) on its rows S (c, D) and each of many others': of the
k-th the rows T are k·b to (k + 1)·b of `others`, Vᵀ the rows k·q to (k + 1)·q of `bases` (q, b).
Into `out`, (m,). O(m(cbD + cbr + rqb)) */
KT_API int64_t kt_overlaps(const kernel *of, const mat *rows, const mat *basis, const mat *others,
                           const mat *bases, vec *out) {
  int64_t many = out->size, count = bases->columns, rank = bases->rows / many;
  arena scratch = {0};
  for (int round = 0; round < 2; round++) {
    mat values = table(&scratch, count, rows->rows), half = table(&scratch, basis->rows, count);
    if (round == 0) {
      if (!take_block(&scratch)) return KT_NO_MEMORY;
      continue;
    }
    for (int64_t k = 0; k < many; k++) {
      for (int64_t i = 0; i < count; i++)
        kernel_row(of, rows, rows->rows, row_of(others, k * count + i), row_of(&values, i));
      multiply_transposed(basis, &values, rows->rows, &half);
      double total = 0.0;
      for (int64_t i = 0; i < rank; i++)
        for (int64_t j = 0; j < basis->rows; j++) {
          double entry = dot(row_of(bases, k * rank + i), row_of(&half, j), count);
          total = fma(entry, entry, total);
        }
      out->at[k] = total;
    }
  }
  give_back(&scratch);
  return KT_DONE;
}
