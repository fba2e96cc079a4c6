/* The row loop of the covariance tracker: scale, check, project, score, decide whether the row is
admitted, and if so add it to the covariance (covariance_update.c) and move the subspace
(covariance_span.c). See `trackers/covariance/tracker.py`. */
#include "covariance.h"

/* Rows of a smaller κ(x,x) are served but not learned from: Γ and K⁻¹ are of its inverse's size. */
#define MIN_KERNEL 1e-60
/* What is left of Γ after any number of rows, so that it never becomes zero. */
#define LEAST_FADING 1e-30
/* How fast ln c follows the target rate, a row. */
#define COIN_GAIN 0.02
/* c times the mean loss stays below it: a calm stream must not wind the controller up. */
#define MOST_MEAN 10.0
/* A new row of the start is outside the subspace by more than this fraction of κ(x,x). */
#define NEW 1e-6

/* The number in [0, 1) that row `number` of a model draws: a hash, not a sequence. SplitMix64
(Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), which counts
through 64-bit words in steps and mixes each by itself. */
static double draw_coin(int64_t key, int64_t number) {
  uint64_t word = (uint64_t)key + ((uint64_t)number + 1) * 0x9E3779B97F4A7C15;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
  word ^= word >> 31;
  return (double)(word >> 11) * 0x1p-53;
}

/* q = Eᵀk, 0 where a direction is not in use; ℓ = κ(x,x) - ‖q‖². O(B(D + r)) */
static double project(covariance *loop, double own) {
  const covariance_state *state = loop->state;
  covariance_work *work = &loop->work;
  int64_t size = state->counts.at[SIZE], rank = directions_of(state);
  kernel_row(loop->kernel, &state->support, size, work->x, work->k);
  double energy = span_coordinates(&state->factor, work->k, size, rank, work->q);
  fill(work->q + rank, 0.0, state->factor.rows - rank);
  return bounded_loss(own - energy, own);
}

/* The probability p = min(1, cℓ) at which leverage admits a row; c is steered.

p is at least half the target rate, which bounds the weights 1/p. ln c moves by the relative excess
of p over the target, so that the mean of p is the target whatever the losses' scale; c stays where
it can make a difference: with c times the mean loss below a quarter of the target only the floor
would be at work. */
static double chance_of(const covariance_settings *settings, double *reals, double loss) {
  double admitted = settings->admitted;
  double chance = smaller(1.0, larger(reals[CONTROL] * loss, 0.5 * admitted));
  double unit = 1.0 / larger(reals[MEAN_LOSS], 1e-300);
  double moved = reals[CONTROL] * exp1(COIN_GAIN * (1.0 - chance / admitted));
  reals[CONTROL] = smaller(larger(moved, 0.25 * admitted * unit), MOST_MEAN * unit);
  return chance;
}

/* The weight at which a row enters the covariance, 0 if it does not. */
static double weigh(covariance *loop, double own, double loss) {
  const covariance_settings *settings = loop->settings;
  covariance_state *state = loop->state;
  int64_t *counts = state->counts.at;
  double *reals = state->reals.at;
  if (own < MIN_KERNEL) return 0.0;
  if (counts[INFORMATIVE] + 1 < state->support.rows || settings->admission == NO_CENSOR) return 1.0;
  if (settings->admission == LEVERAGE) {
    double chance = chance_of(settings, reals, loss);
    return draw_coin(state->key.at[COIN], counts[N]) < chance ? 1.0 / chance : 0.0;
  }
  double least =
      least_loss(settings->admission, settings->threshold, &state->recent, counts, reals);
  if (settings->admission == RATE) steer(reals, loss >= least, settings->admitted);
  return loss >= least ? 1.0 : 0.0;
}

/* Event time since the last admitted row, never below 0. */
static int64_t time_passed(covariance_state *state, int64_t time) {
  int64_t *stamp = state->key.at + STAMP, before = *stamp;
  if (state->counts.at[INFORMATIVE] == 0) {
    *stamp = time;
    return 0;
  }
  if (time <= before) return 0;
  *stamp = time;
  return most_of((int64_t)((uint64_t)time - (uint64_t)before), 0);
}

/* Let Γ fade by what has passed since the last admitted row, in rows or in event time. */
static void fade(covariance *loop, int64_t time) {
  const covariance_settings *settings = loop->settings;
  int64_t *counts = loop->state->counts.at, passed = counts[N] - counts[LAST];
  counts[LAST] = counts[N];
  if (settings->timed) passed = time_passed(loop->state, time);
  if (settings->fading > 0.0)
    fade_weights(loop->state, larger(exp1(-settings->fading * (double)passed), LEAST_FADING));
}

/* Add the row in `work` to the covariance; the index that left, -1 if none did. */
static int64_t learn(covariance *loop, double own, double weight, int64_t time) {
  covariance_state *state = loop->state;
  covariance_work *work = &loop->work;
  int64_t *counts = state->counts.at, number = counts[N] - 1, gone = -1;
  fade(loop, time);
  for (int64_t c = directions_of(state); c < state->factor.rows; c++)
    work->q[c] = dot(work->k, row_of(&state->factor, c), counts[SIZE]);
  double rest = solve_row(state, work, own);
  if (loop->settings->rank_factor > 0.0)
    choose_rank(loop->settings, state, work->q, own, rest, weight);
  counts[SINCE] += 1;
  if (!(rest > FOLD * own)) {
    fold_row(state, work, own, rest, weight);
    gone = number;
  } else {
    add_row(state, work, own, rest, weight);
    int64_t leaves = leaving_slot(state, work);
    if (leaves >= 0) {
      gone = state->born.at[leaves];
      evict_slot(state, work, leaves);
    }
  }
  follow_covariance(loop->settings, state, work, own);
  return gone;
}

static void report(covariance *loop, double loss, int started, int64_t n) {
  const covariance_state *state = loop->state;
  span_view view = {&state->factor, &state->gram, &state->frame, &state->recent, state->counts.at};
  span_report(&view, loop->work.q, loss, started, &loop->work.root, loop->out, n);
}

/* Learn row n of the call, in `work` with its loss, and report it. */
static void learn_row(covariance *loop, double own, double loss, int64_t n) {
  covariance_state *state = loop->state;
  outputs *out = loop->out;
  int64_t *counts = state->counts.at, number = counts[N], gone = -1;
  int64_t time = loop->settings->timed ? loop->times->at[n] : 0;
  double weight = weigh(loop, own, loss);
  counts[N] += 1;
  /* Without a direction for each row the features of a new one would say nothing. */
  int unfilled = counts[STARTED] < state->factor.rows;
  int started = weight > 0.0 && unfilled && loss > NEW * own;
  if (started) {
    gone = learn(loop, own, weight, time);
    counts[STARTED] += 1;
    loss = project(loop, own);
  }
  report(loop, loss, started, n);
  if (!started) {
    if (weight > 0.0) {
      counts[UNSEEN] += !(loss < own);
      gone = learn(loop, own, weight, time);
    }
    remember(&state->recent, counts, state->reals.at, loss);
  }
  if (!(weight > 0.0)) return;
  loop->work.root.stale = 1;
  out->informative.at[n] = 1;
  out->evicted.at[n] = gone;
  counts[INFORMATIVE] += 1;
  counts[EVICTED] += gone >= 0;
  counts[DROPPED] += gone == number;
}

int covariance_row(covariance *loop, int64_t n) {
  const covariance_settings *settings = loop->settings;
  covariance_state *state = loop->state;
  double *x = loop->work.x;
  const double *row = row_of(loop->rows, n);
  if (!scale_row(&state->shift, &state->scale, settings->clip, row, x)) return 0;
  double own = kernel_value(loop->kernel, x, x, state->support.columns);
  if (!(fabs(own) <= MAX_KERNEL)) return 0;
  loop->out->valid.at[n] = 1;
  loop->out->number.at[n] = state->counts.at[N];
  double loss = project(loop, own);
  if (settings->learn)
    learn_row(loop, own, loss, n);
  else
    report(loop, loss, 0, n);
  return 1;
}
