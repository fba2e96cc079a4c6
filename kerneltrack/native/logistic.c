/* Multinomial logistic regression by stochastic gradient steps, see `learners/linear/logistic.py`.
*/
#include "linear.h"

KT_API int64_t kt_logistic_run(const gradient_settings *settings, const mode *how,
                               linear_state *state, const mat *rows, const coded *labels,
                               predicted *out) {
  linear_lesson now;
  lesson *at = &now.at;
  if (!begin_linear(&now, padded(state->weights.rows), how, state, rows, labels, out))
    return KT_NO_MEMORY;
  double *probable = now.more;
  while (decide_next(&now)) {
    if (!report_row(at)) continue;
    meet_class(at);
    softmax(at->values, at->known, probable);
    double step = decayed_step(settings->step_size, settings->decay_rows, at->counts[LEARNED]++);
    shrink_known(&now, step * settings->ridge);
    for (int64_t c = 0; c < at->known; c++)
      add_row(&now, c, at->weight * step * (wanted_of(at, c) - probable[c]));
  }
  return end_linear(&now);
}
