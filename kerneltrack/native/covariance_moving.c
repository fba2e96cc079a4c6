/* The covariance tracker under a moving window, see moving.h. */
#include "covariance.h"
#include "moving.h"

static void run_row(void *loop, int64_t n) { covariance_row(loop, n); }

static void compare(void *loop, const double *x, double *k) {
  const covariance *of = loop;
  kernel_row(of->kernel, &of->state->support, of->state->counts.at[SIZE], x, k);
}

/* E is orthonormal as it is: its directions in use. */
static int64_t write_basis(void *loop, mat *basis) {
  const covariance_state *state = ((const covariance *)loop)->state;
  int64_t size = state->counts.at[SIZE], rank = directions_of(state);
  for (int64_t c = 0; c < rank; c++) {
    copy(row_of(basis, c), row_of(&state->factor, c), size);
    fill(row_of(basis, c) + size, 0.0, basis->columns - size);
  }
  return rank;
}

KT_API int64_t kt_moving_covariance(const covariance_settings *settings, const kernel *kernel,
                                    covariance_state *state, const mat *rows, outputs *out,
                                    const ints *times, window_state *window,
                                    moving_mismatch *measured) {
  covariance loop = {settings, kernel, state, rows, times, out, .scratch = {0}};
  if (!covariance_open(&loop)) return KT_NO_MEMORY;
  windowed tracker = {&loop, run_row, compare, write_basis, loop.work.x, kernel, out,
                      &state->born, state->counts.at};
  int64_t result = run_moving(&tracker, window, measured);
  covariance_close(&loop);
  return result;
}
