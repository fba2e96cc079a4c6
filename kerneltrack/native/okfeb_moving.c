/* OK-FEB under a moving window, see moving.h. */
#include "each.h"
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

/* Run the rows of one model. */
static int64_t run(okfeb *loop, window_state *window, moving_mismatch *measured) {
  if (!okfeb_open(loop)) return KT_NO_MEMORY;
  windowed tracker = {loop,      run_row,           compare,
                      write_basis, loop->work.x,    loop->kernel,
                      loop->out, &loop->state->born, loop->state->counts.at};
  int64_t result = run_moving(&tracker, window, measured);
  okfeb_close(loop);
  return result;
}

KT_API int64_t kt_moving_okfeb(const okfeb_settings *settings, const kernel *of, const models *all,
                               const mat *rows, const outputs *out, const structures *windows,
                               const moving_mismatch *measured) {
  const okfeb_state *states = all->states.at;
  for (int64_t m = 0; m < all->states.many; m++) {
    okfeb_state state = states[m];
    window_state window = ((const window_state *)windows->at)[m];
    kernel own = kernel_of(of, &state.bandwidth);
    share part = share_of(all, m, rows, out, NULL);
    moving_mismatch said = mismatch_from(measured, all->starts.at[m], part.rows.rows);
    okfeb loop = {settings, &own, &state, &part.rows, &part.out, .rooted = 0};
    int64_t done = run(&loop, &window, &said);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}
