/* OK-FEB under a moving window, see moving.h. */
#include "moving.h"
#include "okfeb.h"

static void run_row(void *loop, int64_t n) { okfeb_row(loop, n); }

static void compare(void *loop, const double *x, double *k) {
  const okfeb *of = loop;
  kernel_columns(of->kernel, &of->state->stored, of->state->counts.at[SIZE], x, k);
}

/* z = QAᵀκ(S, x): QAᵀ. */
static int64_t write_basis(void *loop, mat *basis) {
  const okfeb_state *state = ((const okfeb *)loop)->state;
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  for (int64_t c = 0; c < rank; c++) {
    double *row = row_of(basis, c);
    fill(row, 0.0, basis->columns);
    for (int64_t e = 0; e < rank; e++)
      add_scaled(row, row_of(&state->frame, c)[e], row_of(&state->factor, e), size);
  }
  return rank;
}

KT_API int64_t kt_moving_okfeb(const okfeb_settings *settings, const kernel *kernel,
                               okfeb_state *state, const mat *rows, outputs *out,
                               window_state *window, moving_mismatch *measured) {
  okfeb loop = {settings, kernel, state, rows, out, .rooted = 0};
  if (!okfeb_open(&loop)) return KT_NO_MEMORY;
  windowed tracker = {&loop, run_row, compare, write_basis, loop.work.x, kernel, out,
                      &state->born, state->counts.at};
  int64_t result = run_moving(&tracker, window, measured);
  okfeb_close(&loop);
  return result;
}
