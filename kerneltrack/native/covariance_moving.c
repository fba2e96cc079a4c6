/* The covariance tracker under a moving window, see moving.h. */
#include "covariance.h"
#include "each.h"
#include "moving.h"

static void run_row(void *loop, int64_t n) {
  if (covariance_row(loop, n)) covariance_follow(loop, n);
}

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

/* Run the rows of one model. */
static int64_t run(covariance *loop, window_state *window, moving_mismatch *measured) {
  if (!covariance_open(loop)) return KT_NO_MEMORY;
  windowed tracker = {loop,      run_row,           compare,
                      write_basis, loop->work.x,    loop->kernel,
                      loop->out, &loop->state->born, loop->state->counts.at};
  int64_t result = run_moving(&tracker, window, measured);
  covariance_close(loop);
  return result;
}

KT_API int64_t kt_moving_covariance(const covariance_settings *settings, const kernel *of,
                                    const models *all, const mat *rows, const outputs *out,
                                    const ints *times, const structures *windows,
                                    const moving_mismatch *measured) {
  const covariance_state *states = all->states.at;
  for (int64_t m = 0; m < all->states.many; m++) {
    covariance_state state = states[m];
    window_state window = ((const window_state *)windows->at)[m];
    kernel own = kernel_of(of, &state.bandwidth);
    share part = share_of(all, m, rows, out, times);
    moving_mismatch said = mismatch_from(measured, all->starts.at[m], part.rows.rows);
    covariance loop = {settings, &own, &state, &part.rows, &part.times, &part.out, .scratch = {0}};
    int64_t done = run(&loop, &window, &said);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}
