/* Multi-class hinge loss by stochastic gradient steps, see `learners/linear/hinge.py`. */
#include "linear.h"

KT_API int64_t kt_hinge_run(const gradient_settings *settings, const mode *how, linear_state *state,
                            const mat *rows, const coded *labels, predicted *out) {
  linear_lesson now;
  lesson *at = &now.at;
  if (!begin_linear(&now, 0, how, state, rows, labels, out)) return KT_NO_MEMORY;
  while (next_lesson(&now)) {
    double step = decayed_step(settings->step_size, settings->decay_rows, at->counts[LEARNED]++);
    int64_t rival = rival_of(at);
    shrink_known(&now, step * settings->ridge);
    if (rival >= 0 && 1.0 + at->values[rival] - at->values[at->code] > 0.0) {
      add_row(&now, at->code, at->weight * step);
      add_row(&now, rival, -at->weight * step);
    }
  }
  return end_linear(&now);
}
