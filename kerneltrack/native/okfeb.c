/* The row loop of OK-FEB and OK-FE: scale, check, project, score, learn.

See `trackers/okfeb/okfeb.py` for equations and source; the frame is in okfeb_frame.c, what leaves a
full budget in okfeb_budget.c.
*/
#include "okfeb.h"

#include "each.h"
#include "linalg.h"

/* An update after which Σκ_ii‖a_i‖² exceeds this many times max(λ, √κ) counts as diverged. */
#define MAX_CONDITION 1e10
/* Rows after which KA and Q are computed anew, B if that is more. */
#define RENEWAL 64
/* They are as well once so little of M's fading part is left, or so much of A is to be shrunk. */
#define LEAST_FADED 0.9
#define MOST_SHRINK 0.05
/* And the row after one that leaves N with more than this condition: no Q is then as exact as others
are, and its error must not outlast what it came from. */
#define ILL 1e7
/* A row that shrinks L to less than this goes through the renewal, not through a change of rank 1. */
#define LEAST_DECAY 0.1

/* One update: what is done, and what would come of it. */
typedef struct {
  /* Whether q = 0, or the start is not over: the row enters with the random row `seed` of A. */
  int unseen;
  int64_t seed;
  double step, decay;
  /* The slot that is dropped, -1 if none; under COMPENSATED its δ. */
  int64_t evicted;
  double rest;
  /* Σκ_ii‖a_i‖² after it. */
  double spread;
} update;

/* b = Aᵀk, z = Qb, q = Qᵀz (eq. 11b); ℓ (eq. 6b) = κ(x,x) - ‖z‖² - ρ‖q‖². O(Br + r²) */
static double project(okfeb *loop, double own) {
  okfeb_work *work = &loop->work;
  const okfeb_state *state = loop->state;
  int64_t width = padded(state->counts.at[SIZE]), columns = state->frame.columns;
  for (int64_t c = 0; c < state->factor.rows; c++)
    work->b[c] = dot(row_of(&state->factor, c), work->k, width);
  for (int64_t c = 0; c < state->frame.rows; c++)
    work->z[c] = dot(row_of(&state->frame, c), work->b, columns);
  fill(work->q, 0.0, columns);
  for (int64_t c = 0; c < state->frame.rows; c++)
    add_scaled(work->q, work->z[c], row_of(&state->frame, c), columns);
  double ridge = state->reals.at[RIDGE];
  return own - dot(work->z, work->z, columns) - ridge * dot(work->q, work->q, columns);
}

static int is_stored(const okfeb_state *state, const double *x) {
  for (int64_t i = 0; i < state->counts.at[SIZE]; i++) {
    int64_t d = 0;
    while (d < state->stored.rows && row_of(&state->stored, d)[i] == x[d]) d++;
    if (d == state->stored.rows) return 1;
  }
  return 0;
}

/* Put the row and its kernel values into slot |S|; its old image is kᵀA = b. */
static void place(okfeb *loop, double own) {
  okfeb_state *state = loop->state;
  const okfeb_work *work = &loop->work;
  int64_t size = state->counts.at[SIZE];
  double *values = row_of(&state->gram, size);
  for (int64_t i = 0; i < size; i++) {
    values[i] = work->k[i];
    row_of(&state->gram, i)[size] = work->k[i];
  }
  values[size] = own;
  for (int64_t d = 0; d < state->stored.rows; d++) row_of(&state->stored, d)[size] = work->x[d];
  for (int64_t c = 0; c < state->factor.rows; c++) {
    row_of(&state->image, c)[size] = work->b[c];
    row_of(&state->factor, c)[size] = 0.0;
  }
  state->recency.at[size] = 1.0;
  state->born.at[size] = state->counts.at[N] - 1;
}

/* Make a slot as if nothing had been in it. */
static void clear_slot(okfeb_state *state, int64_t slot) {
  for (int64_t i = 0; i < state->gram.rows; i++) {
    row_of(&state->gram, slot)[i] = 0.0;
    row_of(&state->gram, i)[slot] = 0.0;
  }
  for (int64_t d = 0; d < state->stored.rows; d++) row_of(&state->stored, d)[slot] = 0.0;
  for (int64_t c = 0; c < state->factor.rows; c++) {
    row_of(&state->factor, c)[slot] = 0.0;
    row_of(&state->image, c)[slot] = 0.0;
  }
  state->recency.at[slot] = 0.0;
  state->born.at[slot] = 0;
}

/* Move the last slot into the one that is dropped. */
static void drop_slot(okfeb_state *state, int64_t slot, int64_t last) {
  for (int64_t i = 0; i < last; i++) {
    row_of(&state->gram, i)[slot] = row_of(&state->gram, i)[last];
    row_of(&state->gram, slot)[i] = row_of(&state->gram, last)[i];
  }
  row_of(&state->gram, slot)[slot] = row_of(&state->gram, last)[last];
  for (int64_t d = 0; d < state->stored.rows; d++)
    row_of(&state->stored, d)[slot] = row_of(&state->stored, d)[last];
  for (int64_t c = 0; c < state->factor.rows; c++) {
    row_of(&state->factor, c)[slot] = row_of(&state->factor, c)[last];
    row_of(&state->image, c)[slot] = row_of(&state->image, c)[last];
  }
  state->recency.at[slot] = state->recency.at[last];
  state->born.at[slot] = state->born.at[last];
  clear_slot(state, last);
}

/* An upper bound of λ_max(K): the largest absolute row sum, or the trace (Prop. 3). */
static double bound_of_gram(const okfeb_state *state, int64_t kind, int64_t count) {
  double bound = 0.0;
  for (int64_t i = 0; i < count; i++) {
    if (kind == MAJORISED)
      bound += row_of(&state->gram, i)[i];
    else
      bound = larger(absolute_sum(row_of(&state->gram, i), padded(count)), bound);
  }
  return bound;
}

/* The step size μ_n of the row in slot |S|, ‖q‖² = norm2. */
static double step_of(okfeb *loop, int64_t kind, double norm2) {
  const okfeb_settings *settings = loop->settings;
  okfeb_state *state = loop->state;
  double n = (double)state->counts.at[N];
  if (kind == INVERSE_NORM) return 1.0 / sqrt(norm2);
  if (kind == INVERSE_N) return settings->step_size / n;
  if (kind == INVERSE_N2) return settings->step_size / (n * n);
  double bound = 1.0;
  if (settings->rule == NONPARAMETRIC)
    bound = bound_of_gram(state, kind, state->counts.at[SIZE] + 1);
  if (kind == NORMALISED) return 1.0 / (bound * (norm2 + settings->ridge));
  /* Prop. 2 and 3: γ_n = ‖q‖² + λ/n, ξ_n = tr(K)γ_n, μ_n = 1/Σ. */
  state->reals.at[STEP_SUM] += bound * (norm2 + settings->ridge / n);
  return 1.0 / state->reals.at[STEP_SUM];
}

/* work.rest ← k - KAq, of the stored rows. */
static void find_rest(okfeb *loop) {
  const okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  int64_t size = state->counts.at[SIZE];
  weigh_rows(&state->image, work->q, work->rest, padded(size));
  for (int64_t i = 0; i < size; i++) work->rest[i] = work->k[i] - work->rest[i];
}

/* ℓ of a row that is to be learned from, from tables that are exact enough. */
static double exact_loss(okfeb *loop, double own, double loss) {
  find_rest(loop);
  if (okfeb_is_exact(loop)) return loss;
  okfeb_refresh(loop);
  loss = project(loop, own);
  find_rest(loop);
  return loss;
}

/* work.norms ← ‖a_i‖² of the moved rows. */
static void find_norms(okfeb_work *work, int64_t width) {
  fill(work->norms, 0.0, width);
  for (int64_t c = 0; c < work->moved.rows; c++)
    add_squares(work->norms, row_of(&work->moved, c), width);
}

/* work.moved ← A after the update, before anything is dropped, transposed; work.norms its rows'
‖a_i‖². */
static void move_factor(okfeb *loop, const update *plan) {
  const okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  int64_t size = state->counts.at[SIZE], width = padded(size + 1);
  if (plan->unseen) {
    /* Scaled as ‖φ‖^{-½}. */
    double scale = 1.0 / sqrt(sqrt(row_of(&state->gram, size)[size]));
    const double *drawn = row_of(&state->seeds, plan->seed);
    for (int64_t c = 0; c < state->factor.rows; c++) {
      copy(row_of(&work->moved, c), row_of(&state->factor, c), width);
      row_of(&work->moved, c)[size] = drawn[c] * scale;
    }
    find_norms(work, width);
    return;
  }
  int parametric = loop->settings->rule == PARAMETRIC;
  const double *along = work->rest;
  if (parametric) {
    /* Rows of [A; 0]q - e: eq. 16. */
    weigh_rows(&state->factor, work->q, work->along, width);
    work->along[size] -= 1.0;
    along = work->along;
  }
  double step = parametric ? -plan->step : plan->step;
  fill(work->norms, 0.0, width);
  for (int64_t c = 0; c < state->factor.rows; c++) {
    double *moved = row_of(&work->moved, c);
    blend(moved, step * work->q[c], along, plan->decay, row_of(&state->factor, c), width);
    add_squares(work->norms, moved, width);
  }
}

/* Σκ_ii‖a_i‖² of what stays. */
static double find_spread(const okfeb *loop, int64_t count, int64_t evicted) {
  double spread = 0.0;
  for (int64_t i = 0; i < count; i++)
    if (i != evicted) spread += row_of(&loop->state->gram, i)[i] * loop->work.norms[i];
  return spread;
}

/* Work an update out, without writing to the state. */
static void try_update(okfeb *loop, update *plan) {
  const okfeb_state *state = loop->state;
  int64_t count = state->counts.at[SIZE] + 1;
  plan->decay = 1.0;
  if (!plan->unseen && loop->settings->rule == PARAMETRIC)
    plan->decay -= plan->step * loop->settings->ridge / (double)state->counts.at[N];
  move_factor(loop, plan);
  plan->evicted = -1;
  if (count == state->born.size) {
    plan->evicted = choose_eviction(loop, count, &plan->rest);
    if (loop->settings->policy == COMPENSATED) find_norms(&loop->work, padded(count));
  }
  plan->spread = find_spread(loop, count, plan->evicted);
}

/* L ← dL + μeqᵀ: KA and Q. M ← d²M + c·qqᵀ, as Lᵀe = ρq. */
static int move_parametric(okfeb *loop, const update *plan, double loss) {
  okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  double step = plan->step, decay = plan->decay, *reals = state->reals.at;
  int64_t width = padded(state->counts.at[SIZE] + 1);
  for (int64_t c = 0; c < state->image.rows; c++) {
    double *image = row_of(&state->image, c);
    blend(image, step * work->q[c], work->rest, decay, image, width);
  }
  int gentle = decay > LEAST_DECAY;
  double c = 2.0 * decay * step * reals[RIDGE] + step * step * larger(loss, 0.0);
  if (gentle) frame_move(loop, work->q, decay, c);
  /* What is not gentle is renewed at once. */
  double kept = gentle ? decay * decay : 0.0;
  reals[RIDGE] *= kept;
  reals[FADED] *= kept;
  return gentle;
}

/* A ← A + μwqᵀ, w = k⁺ - KAq: KA and Q. M ← M + μ(pqᵀ + qpᵀ) + μ²(wᵀKw)qqᵀ, p = (KA)ᵀw. O(B²)

What the rule shrinks besides, A ← A - (μλ/n)KA, is summed up for the next renewal. */
static int move_nonparametric(okfeb *loop, const update *plan) {
  okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  int64_t size = state->counts.at[SIZE], width = padded(size + 1);
  for (int64_t i = 0; i <= size; i++)
    work->along[i] = dot(row_of(&state->gram, i), work->rest, width);
  fill(work->along + size + 1, 0.0, width - size - 1);
  for (int64_t c = 0; c < state->image.rows; c++) {
    double *image = row_of(&state->image, c);
    work->a[c] = -plan->step * work->q[c];
    work->g[c] = dot(image, work->rest, width);
    add_scaled(image, plan->step * work->q[c], work->along, width);
  }
  state->reals.at[SHRINK] +=
      plan->step * loop->settings->ridge / (double)state->counts.at[N];
  return frame_exchange(loop, dot(work->rest, work->along, width));
}

/* A gains a row a in slot |S|: KA and Q. M ← M + baᵀ + abᵀ + κaaᵀ */
static int move_unseen(okfeb *loop) {
  okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  int64_t size = state->counts.at[SIZE], width = padded(size + 1);
  for (int64_t c = 0; c < state->image.rows; c++) {
    double entry = row_of(&work->moved, c)[size];
    work->a[c] = -entry;
    work->g[c] = work->b[c];
    add_scaled(row_of(&state->image, c), entry, row_of(&state->gram, size), width);
  }
  return frame_exchange(loop, row_of(&state->gram, size)[size]);
}

/* The row a of A leaves: KA and Q. KA ← KA - K_iaᵀ, M ← M - agᵀ - gaᵀ + κaaᵀ, g = (KA)_i; where its
φ was projected on the others before, what leaves is the rest of it, which they do not see. */
static int move_dropped(okfeb *loop, const update *plan) {
  okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  int64_t slot = plan->evicted, width = padded(state->counts.at[SIZE] + 1);
  int compensated = loop->settings->policy == COMPENSATED;
  for (int64_t c = 0; c < state->image.rows; c++) {
    double *image = row_of(&state->image, c), entry = row_of(&work->moved, c)[slot];
    work->a[c] = entry;
    work->g[c] = compensated ? plan->rest * entry : image[slot];
    if (!compensated) add_scaled(image, -entry, row_of(&state->gram, slot), width);
  }
  return frame_exchange(loop, compensated ? plan->rest : row_of(&state->gram, slot)[slot]);
}

/* KA and Q follow an update, before anything is dropped. */
static int move(okfeb *loop, const update *plan, double loss) {
  if (plan->unseen) return move_unseen(loop);
  if (loop->settings->rule == PARAMETRIC) return move_parametric(loop, plan, loss);
  return move_nonparametric(loop, plan);
}

/* About the condition of N: Σκ_ii‖a_i‖² for its trace, times tr N⁻¹ = ‖Q‖_F². O(r²) */
static double condition_of(const mat *frame, double spread) {
  return spread * dot(frame->at, frame->at, frame->rows * frame->columns);
}

/* Make an update the state: low-rank changes, or where they are not exact a renewal. */
static void commit(okfeb *loop, const update *plan, double loss, int exact) {
  okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  int64_t *counts = state->counts.at, size = counts[SIZE], width = padded(size + 1);
  int followed = exact && move(loop, plan, loss);
  if (exact && plan->evicted >= 0) followed &= move_dropped(loop, plan);
  for (int64_t c = 0; c < state->factor.rows; c++)
    copy(row_of(&state->factor, c), row_of(&work->moved, c), width);
  counts[SIZE] = size + 1;
  if (plan->evicted >= 0) {
    drop_slot(state, plan->evicted, size);
    counts[SIZE] = size;
  }
  counts[SINCE] += 1;
  double *reals = state->reals.at, shrunk = bound_of_gram(state, MAJORISED, counts[SIZE]);
  if (counts[SINCE] >= most_of(RENEWAL, size) || reals[FADED] < LEAST_FADED ||
      reals[SHRINK] * shrunk > MOST_SHRINK || MIN_RIDGE * plan->spread > reals[RIDGE])
    okfeb_renew(loop);
  else if (!followed || (plan->evicted >= 0 && loop->settings->policy == COMPENSATED))
    okfeb_refresh(loop);
  if (condition_of(&state->frame, plan->spread) > ILL) counts[SINCE] = most_of(RENEWAL, size);
}

/* Whether what the nonparametric rule would shrink, A ← A - (μλ/n)KA, turns A round. */
static int shrinks_too_much(const okfeb *loop, const update *plan) {
  const okfeb_state *state = loop->state;
  if (plan->unseen || loop->settings->rule == PARAMETRIC) return 0;
  double part = plan->step * loop->settings->ridge / (double)state->counts.at[N];
  return !(part * bound_of_gram(state, MAJORISED, state->counts.at[SIZE] + 1) <= 1.0);
}

/* Learn from the row in `work`; the index that left, -1 if none did. */
static int64_t learn(okfeb *loop, double own, double loss) {
  okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  const okfeb_settings *settings = loop->settings;
  int64_t size = state->counts.at[SIZE], full = size + 1 == state->born.size;
  place(loop, own);
  if (full) scale_all(state->recency.at, settings->forgetting, size);
  double largest = own;
  for (int64_t i = 0; i < size; i++) largest = larger(row_of(&state->gram, i)[i], largest);
  /* A safe step adds at most κ/(4λ) to the spread: no sound state lies above the second term. */
  double limit = larger(MAX_CONDITION * larger(settings->ridge, sqrt(largest)),
                        4.0 * (double)(size + 1) * largest / settings->ridge);
  double norm2 = dot(work->q, work->q, state->frame.columns);
  update plan = {.unseen = !(norm2 > 0.0), .seed = state->counts.at[N] % state->seeds.rows};
  state->counts.at[UNSEEN] += plan.unseen;
  work->rest[size] = own - dot(work->b, work->q, state->frame.columns);
  fill(work->rest + size + 1, 0.0, padded(size + 1) - size - 1);
  if (!plan.unseen) plan.step = step_of(loop, settings->step, norm2);
  try_update(loop, &plan);
  int exact = 1, mended = !(plan.spread <= limit) || shrinks_too_much(loop, &plan);
  if (mended) {
    state->counts.at[MENDED] += 1;
    if (!plan.unseen) plan.step = step_of(loop, NORMALISED, norm2);
    try_update(loop, &plan);
    exact = plan.spread <= limit;
  }
  if (!exact) {
    /* Shrinking A keeps what it spans. */
    double shrink = 0.5 * sqrt(limit / plan.spread);
    scale_all(work->moved.at, shrink, work->moved.rows * work->moved.columns);
    find_norms(work, padded(size + 1));
    plan.spread = find_spread(loop, size + 1, plan.evicted);
    if (!(plan.spread <= limit)) {
      clear_slot(state, size);
      return state->counts.at[N] - 1;
    }
  }
  int64_t gone = full ? state->born.at[plan.evicted] : -1;
  commit(loop, &plan, loss, exact);
  if (mended && exact) okfeb_refresh(loop);
  return gone;
}

/* Take a row of the start in: it becomes an SV with a random row of A. */
static double begin(okfeb *loop, double own) {
  okfeb_state *state = loop->state;
  int64_t size = state->counts.at[SIZE];
  update plan = {.unseen = 1, .seed = size};
  place(loop, own);
  try_update(loop, &plan);
  commit(loop, &plan, 0.0, 1);
  okfeb_renew(loop);
  state->counts.at[STARTED] += 1;
  for (int64_t i = 0; i <= size; i++) loop->work.k[i] = row_of(&state->gram, i)[size];
  return project(loop, own);
}

/* Whether a row is taken in: the paper censors only once the budget is full. */
static int takes(const okfeb *loop, double own, double loss) {
  const okfeb_settings *settings = loop->settings;
  const okfeb_state *state = loop->state;
  const int64_t *counts = state->counts.at;
  if (counts[STARTED] < settings->start_rows || !(own > 0.0)) return 0;
  if (counts[SIZE] + 1 < state->born.size || settings->censor == NO_CENSOR) return 1;
  return loss >= least_loss(settings->censor, settings->threshold, &state->recent, counts,
                            state->reals.at);
}

/* Write what is said of row n. */
static void tell(okfeb *loop, int64_t n, double loss, int started) {
  const okfeb_state *state = loop->state;
  outputs *out = loop->out;
  okfeb_work *work = &loop->work;
  int64_t size = state->counts.at[SIZE];
  if (out->z.rows > 0) copy(row_of(&out->z, n), work->z, out->z.columns);
  if (out->q.rows > 0) copy(row_of(&out->q, n), work->q, out->q.columns);
  out->loss.at[n] = loss;
  out->novelty.at[n] = started ? 0.5 : rank_among(&state->recent, state->counts.at, loss);
  if (out->s.rows == 0 || size == 0) return;
  if (!loop->rooted) {
    gram_root(&state->gram, size, &work->table, &work->half, work->values, &work->gram_root);
  }
  loop->rooted = 1;
  paper_features(&state->factor, size, work->q, &work->gram_root, row_of(&out->s, n));
}

static void learn_row(okfeb *loop, int64_t n, double own, double loss, int taken) {
  const okfeb_settings *settings = loop->settings;
  okfeb_state *state = loop->state;
  int64_t *counts = state->counts.at;
  if (taken) {
    int64_t gone = learn(loop, own, loss);
    loop->rooted = 0;
    loop->out->informative.at[n] = 1;
    loop->out->evicted.at[n] = gone;
    counts[INFORMATIVE] += 1;
    counts[EVICTED] += gone >= 0;
    counts[DROPPED] += gone == loop->out->number.at[n];
  }
  remember(&state->recent, counts, state->reals.at, loss);
  if (settings->censor == RATE && counts[SIZE] + 1 == state->born.size)
    steer(state->reals.at, taken, settings->admitted);
}

void okfeb_row(okfeb *loop, int64_t n) {
  const okfeb_settings *settings = loop->settings;
  okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  outputs *out = loop->out;
  int64_t *counts = state->counts.at;
  const double *row = row_of(loop->rows, n);
  if (!scale_row(&state->shift, &state->scale, settings->clip, row, work->x)) return;
  double own = kernel_value(loop->kernel, work->x, work->x, state->stored.rows);
  if (!(fabs(own) <= MAX_KERNEL)) return;
  pass_on(row, &state->shift, &state->scale, out, n);
  if (settings->learn)
    follow_scale(settings->scale_window, &state->reals, row, &state->shift, &state->scale);
  out->valid.at[n] = 1;
  out->number.at[n] = counts[N];
  kernel_columns(loop->kernel, &state->stored, counts[SIZE], work->x, work->k);
  double loss = project(loop, own), tolerance = 1e-6 * own;
  int started = 0;
  if (settings->learn) {
    counts[N] += 1;
    started = counts[STARTED] < settings->start_rows && own > 0.0 && !is_stored(state, work->x);
  }
  if (started) {
    loss = begin(loop, own);
    loop->rooted = 0;
    out->initial.at[n] = 1;
    out->informative.at[n] = 1;
    counts[INFORMATIVE] += 1;
  }
  int taken = settings->learn && !started && takes(loop, own, bounded_loss(loss, own));
  if (taken) loss = exact_loss(loop, own, loss);
  if (settings->learn) counts[MENDED] += !(-tolerance <= loss && loss <= own + tolerance);
  loss = bounded_loss(loss, own);
  tell(loop, n, loss, started);
  if (settings->learn && !started) learn_row(loop, n, own, loss, taken);
}

/* Ask for the pieces of a call's scratch space. */
static void lay_out(okfeb *loop) {
  okfeb_work *work = &loop->work;
  arena *from = &loop->scratch;
  const okfeb_state *state = loop->state;
  int64_t slots = state->gram.rows, rank = state->frame.rows, columns = state->frame.columns;
  double **rows_of_slots[] = {&work->k, &work->along, &work->rest, &work->norms};
  double **directions[] = {&work->b,     &work->z,      &work->q,   &work->a,   &work->g,
                           &work->first, &work->second, &work->low, &work->high};
  mat *tables[] = {&work->inner, &work->left, &work->right, &work->turn, &work->root};
  mat *squares[] = {&work->table, &work->half, &work->half_t, &work->gram_root};
  work->x = reals(from, state->stored.rows);
  for (int i = 0; i < 4; i++) *rows_of_slots[i] = reals(from, slots);
  for (int i = 0; i < 9; i++) *directions[i] = reals(from, columns);
  for (int i = 0; i < 5; i++) *tables[i] = table(from, rank, columns);
  work->moved = table(from, rank, slots);
  work->pivots = wholes(from, rank);
  work->values = reals(from, loop->out->s.rows > 0 ? 3 * slots : 0);
  int wanted = loop->out->s.rows > 0 || loop->settings->policy == COMPENSATED;
  for (int i = 0; i < 4; i++) *squares[i] = table(from, wanted ? slots : 0, slots);
}

int okfeb_open(okfeb *loop) {
  lay_out(loop);
  if (!take_block(&loop->scratch)) return 0;
  lay_out(loop);
  return 1;
}

void okfeb_close(okfeb *loop) { give_back(&loop->scratch); }

/* Run the rows of one model. */
static int64_t run(okfeb *loop) {
  if (!okfeb_open(loop)) return KT_NO_MEMORY;
  for (int64_t n = 0; n < loop->rows->rows; n++) okfeb_row(loop, n);
  okfeb_close(loop);
  return KT_DONE;
}

KT_API int64_t kt_okfeb_run(const okfeb_settings *settings, const kernel *of, const models *all,
                            const mat *rows, const outputs *out) {
  const okfeb_state *states = all->states.at;
  for (int64_t m = 0; m < all->states.many; m++) {
    okfeb_state state = states[m];
    kernel own = kernel_of(of, &state.bandwidth);
    share part = share_of(all, m, rows, out, NULL);
    okfeb loop = {settings, &own, &state, &part.rows, &part.out, .rooted = 0};
    int64_t done = run(&loop);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}
