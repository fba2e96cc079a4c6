/* Regularised least mean squares, plain and normalised, see `learners/linear/lms.py`. */
#include "layouts.h"
#include "linear.h"

/* ε of NLMS: a row with ‖x‖² far below it says nothing, and is not blown up. */
#define NORM_FLOOR 1e-3

KT_API int64_t kt_lms_run(const lms_settings *settings, const mode *how, linear_state *state,
                          const mat *rows, const coded *labels, predicted *out) {
  linear_lesson now;
  lesson *at = &now.at;
  if (!begin_linear(&now, 0, how, state, rows, labels, out)) return KT_NO_MEMORY;
  while (next_lesson(&now)) {
    double step = decayed_step(settings->step_size, settings->decay_rows, at->counts[LEARNED]++);
    double norm2 = dot(now.x, now.x, now.weights->columns), leak = step;
    if (settings->normalised)
      step /= NORM_FLOOR + norm2;
    else if (step * norm2 > 1.0)
      leak = step = 1.0 / norm2;
    shrink_known(&now, leak * settings->ridge);
    /* A row that counts more than once is not overshot for that. */
    if (at->weight * step * norm2 <= larger(1.0, step * norm2))
      step *= at->weight;
    else if (step * norm2 < 1.0)
      step = 1.0 / norm2;
    for (int64_t c = 0; c < at->known; c++)
      add_row(&now, c, step * (wanted_of(at, c) - at->values[c]));
  }
  return end_linear(&now);
}
