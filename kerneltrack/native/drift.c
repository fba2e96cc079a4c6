/* Drift alerts, and Page-Hinkley's test in river's arithmetic: see `kerneltrack/monitor/drift.py`,
which has the equations and their source. */
#include "layouts.h"
#include "shapes.h"
#include "vec.h"

/* Mean absolute deviation to standard deviation, for normal data: √(π/2). */
#define MEAN_TO_DEVIATION 1.2533
/* Blocks that the usual loss looks back on: 50,000 rows by default. */
#define USUAL_BLOCKS 5000
/* Smallest spread: that of losses that are all zero. */
#define TINY 1e-300

enum { BOTH, UP, DOWN };

/* Places in a state's `reals` and `counts`: what is kept beside Page-Hinkley, then its own. */
enum {
  LEVEL,
  SPREAD,
  LOSS,
  USUAL,
  /* Mean losses before and since the lowest sum (a rise began there) and the highest (a fall). */
  RISE_BEFORE,
  RISE_AFTER,
  FALL_BEFORE,
  FALL_AFTER,
  MEAN,
  SUM_INCREASE,
  SUM_DECREASE,
  MIN_INCREASE,
  MAX_DECREASE,
  REALS
};
enum { WAITING, BLOCKS, USUAL_COUNT, RISE_BLOCKS, FALL_BLOCKS, MEAN_COUNT, COUNTS };

/* Rows at which alerts were raised, mean losses before and after the changes. */
typedef struct {
  ints position;
  vec before;
  vec after;
} drift_alerts;

/* mean ← the mean of `count` numbers, of which `value` is the last. */
static void move_mean(double *mean, double value, int64_t count) {
  *mean += (value - *mean) / (double)count;
}

/* Begin anew, but for the usual loss. */
static void begin(drift_state *state) {
  double usual = state->reals.at[USUAL];
  int64_t *counts = state->counts.at, waiting = counts[WAITING], known = counts[USUAL_COUNT];
  fill(state->reals.at, 0.0, REALS);
  for (int64_t i = 0; i < COUNTS; i++) counts[i] = 0;
  state->reals.at[USUAL] = usual;
  state->reals.at[MIN_INCREASE] = INFINITY;
  state->reals.at[MAX_DECREASE] = -1.0;
  counts[WAITING] = waiting;
  counts[USUAL_COUNT] = known;
}

/* Page-Hinkley's test takes a deviation; whether it alerts. */
static int test(const drift_settings *settings, drift_state *state, double x) {
  double *reals = state->reals.at;
  state->counts.at[MEAN_COUNT] += 1;
  reals[MEAN] += 1.0 / (double)state->counts.at[MEAN_COUNT] * (x - reals[MEAN]);
  double gap = x - reals[MEAN];
  reals[SUM_INCREASE] = reals[SUM_INCREASE] + gap - settings->delta;
  reals[SUM_DECREASE] = reals[SUM_DECREASE] + gap + settings->delta;
  reals[MIN_INCREASE] = smaller(reals[SUM_INCREASE], reals[MIN_INCREASE]);
  reals[MAX_DECREASE] = larger(reals[SUM_DECREASE], reals[MAX_DECREASE]);
  int rise = reals[SUM_INCREASE] - reals[MIN_INCREASE] > settings->threshold;
  int fall = reals[MAX_DECREASE] - reals[SUM_DECREASE] > settings->threshold;
  return settings->direction == UP ? rise : settings->direction == DOWN ? fall : rise || fall;
}

/* u, how far a block's root mean loss is from the level; the product cannot overflow where the
quotient could: the clip is at most 1e6. */
static double deviation(const drift_settings *settings, const double *reals, double gap) {
  double spread = MEAN_TO_DEVIATION * reals[SPREAD];
  spread = larger(settings->floor * sqrt(reals[USUAL]), spread);
  spread = larger(TINY, spread);
  if (fabs(gap) >= settings->clip * spread) return gap < 0.0 ? -settings->clip : settings->clip;
  return gap / spread;
}

/* Compare a block with the level; whether a change has come to light. */
static int watch(const drift_settings *settings, drift_state *state, double loss, double gap) {
  double *reals = state->reals.at;
  int64_t *counts = state->counts.at;
  int found = test(settings, state, deviation(settings, reals, gap));
  move_mean(&reals[RISE_AFTER], loss, ++counts[RISE_BLOCKS]);
  move_mean(&reals[FALL_AFTER], loss, ++counts[FALL_BLOCKS]);
  return found;
}

/* Learn a block's level and spread. */
static void learn(const drift_settings *settings, drift_state *state, double loss, double gap) {
  double *reals = state->reals.at;
  int64_t span = settings->memory / settings->block, blocks = ++state->counts.at[BLOCKS];
  if (blocks > 1) reals[SPREAD] += (fabs(gap) - reals[SPREAD]) / (double)least_of(blocks - 1, span);
  reals[LEVEL] += gap / (double)least_of(blocks, span);
  move_mean(&reals[LOSS], loss, least_of(blocks, span));
}

/* At a new extreme of its sum a change, if one comes, begins with the next block. */
static void mark_extremes(drift_state *state) {
  double *reals = state->reals.at;
  if (reals[SUM_INCREASE] <= reals[MIN_INCREASE]) {
    reals[RISE_BEFORE] = reals[LOSS];
    reals[RISE_AFTER] = 0.0;
    state->counts.at[RISE_BLOCKS] = 0;
  }
  if (reals[SUM_DECREASE] >= reals[MAX_DECREASE]) {
    reals[FALL_BEFORE] = reals[LOSS];
    reals[FALL_AFTER] = 0.0;
    state->counts.at[FALL_BLOCKS] = 0;
  }
}

/* Take one block of a mean loss; whether it raises the alert. */
static int take(const drift_settings *settings, drift_state *state, double loss) {
  double *reals = state->reals.at;
  int64_t known = ++state->counts.at[USUAL_COUNT];
  move_mean(&reals[USUAL], loss, least_of(known, USUAL_BLOCKS));
  double gap = sqrt(loss) - reals[LEVEL];
  int watched = state->counts.at[BLOCKS] >= settings->settle / settings->block;
  if (watched && watch(settings, state, loss, gap)) return 1;
  learn(settings, state, loss, gap);
  if (watched) mark_extremes(state);
  return 0;
}

/* Write the mean losses before and after the change that has just raised an alert. */
static void write_levels(const drift_settings *settings, const double *reals, double *before,
                         double *after) {
  double rise = reals[SUM_INCREASE] - reals[MIN_INCREASE];
  double fall = reals[MAX_DECREASE] - reals[SUM_DECREASE];
  int rising = settings->direction == UP || (settings->direction == BOTH && rise >= fall);
  *before = reals[rising ? RISE_BEFORE : FALL_BEFORE];
  *after = reals[rising ? RISE_AFTER : FALL_AFTER];
}

/* Mean of a block. Divided first: a sum of huge losses could overflow. */
static double block_mean(const vec *pending) {
  double mean = 0.0;
  for (int64_t i = 0; i < pending->size; i++) mean += pending->at[i] / (double)pending->size;
  return mean;
}

KT_API int64_t kt_drift_begin(drift_state *state) {
  begin(state);
  return KT_DONE;
}

/* Run losses through the state; how many alerts they raise, at most one a block. */
KT_API int64_t kt_drift_run(const drift_settings *settings, drift_state *state, const vec *losses,
                            drift_alerts *out) {
  int64_t found = 0, *waiting = &state->counts.at[WAITING];
  for (int64_t n = 0; n < losses->size; n++) {
    state->pending.at[(*waiting)++] = losses->at[n];
    if (*waiting < state->pending.size) continue;
    if (take(settings, state, block_mean(&state->pending))) {
      out->position.at[found] = n;
      write_levels(settings, state->reals.at, &out->before.at[found], &out->after.at[found]);
      found++;
      begin(state);
    }
    *waiting = 0;
  }
  fill(state->pending.at + *waiting, 0.0, state->pending.size - *waiting);
  return found;
}

/* The same of many models, one after the other; how many alerts each raised. */
KT_API int64_t kt_drift_run_each(const drift_settings *settings, const int64_t *models,
                                 drift_state *states, const vec *losses, drift_alerts *outs,
                                 ints *found) {
  for (int64_t m = 0; m < *models; m++)
    found->at[m] = kt_drift_run(settings, &states[m], &losses[m], &outs[m]);
  return KT_DONE;
}
