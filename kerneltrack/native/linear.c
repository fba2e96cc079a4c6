#include "linear.h"

int begin_linear(linear_lesson *now, int64_t more, const mode *how, linear_state *state,
                 const mat *rows, const coded *labels, predicted *out) {
  mat *weights = &state->weights;
  arena *scratch = &now->scratch;
  *now = (linear_lesson){.weights = weights};
  for (int placed = 0; placed < 2; placed++) {
    now->at = make_lesson(scratch, weights->rows, how, &state->sums, &state->counts, rows, labels,
                          out);
    now->x = reals(scratch, weights->columns);
    now->more = reals(scratch, more);
    if (!placed && !take_block(scratch)) return 0;
  }
  fill(now->x, 1.0, weights->columns);
  return 1;
}

/* w_c·x of every class and row, as the loops compute it. */
KT_API int64_t kt_linear_values(const mat *weights, const mat *rows, mat *out) {
  arena scratch = {0};
  double *x = reals(&scratch, weights->columns);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  x = reals(&scratch, weights->columns);
  fill(x, 1.0, weights->columns);
  for (int64_t n = 0; n < rows->rows; n++) {
    copy(x, row_of(rows, n), rows->columns);
    for (int64_t c = 0; c < weights->rows; c++)
      row_of(out, n)[c] = dot(row_of(weights, c), x, weights->columns);
  }
  give_back(&scratch);
  return KT_DONE;
}
