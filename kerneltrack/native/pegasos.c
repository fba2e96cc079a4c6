/* Pegasos, one classifier a class against the rest, see `learners/linear/pegasos.py`. The weights
are λt·w; the state's memory is the vector of a class that no row has had. */
#include "layouts.h"
#include "linear.h"

/* Add a row, weighed by `sign`, to v = λt·w, and keep ‖w‖ <= 1/√λ, that is ‖v‖² <= λt², if asked to. Between violations v
stays and λt² grows: the projection has nothing to do there. */
static void step(const pegasos_settings *settings, double *v, double sign, const double *x,
                 int64_t size, double t) {
  add_scaled(v, sign, x, size);
  if (!settings->project) return;
  double norm2 = dot(v, v, size);
  if (norm2 > settings->ridge * t * t) scale_all(v, t * sqrt(settings->ridge / norm2), size);
}

KT_API int64_t kt_pegasos_run(const pegasos_settings *settings, const mode *how,
                              linear_state *state, const mat *rows, const coded *labels,
                              predicted *out) {
  linear_lesson now;
  lesson *at = &now.at;
  if (!begin_linear(&now, 0, how, state, rows, labels, out)) return KT_NO_MEMORY;
  mat *weights = &state->weights;
  double *unseen = state->memory.at;
  int64_t size = weights->columns;
  while (decide_next(&now)) {
    double t = (double)at->counts[LEARNED], scale = t > 0.0 ? 1.0 / (settings->ridge * t) : 0.0;
    scale_all(at->values, scale, at->known);
    if (!report_row(at)) continue;
    at->counts[LEARNED] += 1;
    t += 1.0;
    double other = scale * dot(unseen, now.x, size);
    if (meet_class(at)) {
      copy(row_of(weights, at->code), unseen, size);
      at->values[at->code] = other;
    }
    for (int64_t c = 0; c < at->known; c++) {
      double sign = c == at->code ? 1.0 : -1.0;
      if (sign * at->values[c] < 1.0)
        step(settings, row_of(weights, c), sign * at->weight, now.x, size, t);
    }
    if (-other < 1.0) step(settings, unseen, -at->weight, now.x, size, t);
  }
  return end_linear(&now);
}
