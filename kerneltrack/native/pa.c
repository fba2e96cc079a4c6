/* Passive-aggressive learning, see `learners/linear/pa.py`. */
#include "layouts.h"
#include "linear.h"

enum { PLAIN, CAPPED, SOFTENED };

/* τ of a loss ℓ and n */
static double step_of(const pa_settings *settings, double loss, double norm2) {
  if (settings->variant == SOFTENED) return loss / (norm2 + 0.5 / settings->aggressiveness);
  double step = loss / norm2;
  return settings->variant == CAPPED ? smaller(settings->aggressiveness, step) : step;
}

static void learn_target(const pa_settings *settings, linear_lesson *now, double norm2) {
  double error = wanted_of(&now->at, 0) - now->at.values[0];
  double loss = fabs(error) - settings->insensitivity;
  if (!(loss > 0.0)) return;
  double step = step_of(settings, loss, norm2);
  add_row(now, 0, error > 0.0 ? step : -step);
}

static void learn_class(const pa_settings *settings, linear_lesson *now, double norm2) {
  const lesson *at = &now->at;
  int64_t rival = rival_of(at);
  double loss = rival >= 0 ? 1.0 + at->values[rival] - at->values[at->code] : 0.0;
  if (!(loss > 0.0)) return;
  double step = step_of(settings, loss, 2.0 * norm2);
  add_row(now, at->code, step);
  add_row(now, rival, -step);
}

KT_API int64_t kt_pa_run(const pa_settings *settings, const mode *how, linear_state *state,
                         const mat *rows, const coded *labels, predicted *out) {
  linear_lesson now;
  if (!begin_linear(&now, 0, how, state, rows, labels, out)) return KT_NO_MEMORY;
  while (next_lesson(&now)) {
    now.at.counts[LEARNED] += 1;
    double norm2 = dot(now.x, now.x, now.weights->columns);
    /* Of a row of zeros there is nothing that w could do. */
    if (norm2 == 0.0) continue;
    if (how->regression)
      learn_target(settings, &now, norm2);
    else
      learn_class(settings, &now, norm2);
  }
  return end_linear(&now);
}
