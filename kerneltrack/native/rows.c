/* The tracker that passes scaled rows on, see `trackers/rows`. */
#include "each.h"
#include "layouts.h"

/* Mid-rank of a fitting error among equal ones. */
#define MIDDLE 0.5

/* Run the rows of one model; x is room for one of them, scaled. */
static void run(const rows_settings *settings, rows_state *state, const mat *rows, outputs *out,
                double *x) {
  int64_t width = rows->columns, index = state->counts.at[N];
  for (int64_t n = 0; n < rows->rows; n++) {
    if (!scale_row(&state->shift, &state->scale, settings->clip, row_of(rows, n), x)) continue;
    out->valid.at[n] = 1;
    out->number.at[n] = index++;
    out->novelty.at[n] = MIDDLE;
    if (out->z.rows > 0) copy(row_of(&out->z, n), x, width);
    if (out->q.rows > 0) copy(row_of(&out->q, n), x, width);
    pass_on(row_of(rows, n), &state->shift, &state->scale, out, n);
    if (settings->learn)
      follow_scale(settings->scale_window, &state->reals, row_of(rows, n), &state->shift,
             &state->scale);
  }
  if (settings->learn) state->counts.at[N] = index;
}

KT_API int64_t kt_rows_run(const rows_settings *settings, const models *all, const mat *rows,
                           const outputs *out) {
  const rows_state *states = all->states.at;
  arena scratch = {0};
  reals(&scratch, rows->columns);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  double *x = reals(&scratch, rows->columns);
  for (int64_t m = 0; m < all->states.many; m++) {
    rows_state state = states[m];
    share part = share_of(all, m, rows, out, NULL);
    run(settings, &state, &part.rows, &part.out, x);
  }
  give_back(&scratch);
  return KT_DONE;
}
