/* The adaptive Nyström tracker, see `trackers/oana/tracker.py`: per row scale, check, project,
score; then it becomes a landmark, moves the nearest one or does neither. */
#include "oana.h"

#include "each.h"
#include "linalg.h"

/* Steps of the subspace iteration after a landmark moved (the paper: 2 or 3). */
#define STEPS 2
/* A direction of which less than this fraction of κ(u,u) is new is left out. */
#define NEW 1e-6
/* Eigenvalues of K below this fraction of the largest one are rounding, and no directions. */
#define LEAST_EIGENVALUE 1e-10

oana_work make_oana_work(arena *from, const oana_state *state, int64_t rows) {
  int64_t slots = state->support.rows, rank = state->factor.rows, size = state->counts.at[SIZE];
  int settles = size + 1 < slots && size + 1 + rows >= slots;
  oana_work work;
  work.x = reals(from, state->support.columns);
  work.k = reals(from, slots);
  work.q = reals(from, rank);
  work.span = make_span_work(from, rank, slots, rank);
  work.matrix = table(from, settles ? slots : 0, slots);
  work.vectors = table(from, settles ? slots : 0, slots);
  return work;
}

double oana_project(const kernel *of, const oana_state *state, oana_work *work, double own) {
  int64_t size = state->counts.at[SIZE];
  kernel_row(of, &state->support, size, work->x, work->k);
  double energy = span_coordinates(&state->factor, work->k, size, state->factor.rows, work->q);
  return bounded_loss(own - energy, own);
}

int64_t oana_nearest(const oana_state *state, const double *x, double *distance) {
  int64_t place = -1;
  *distance = INFINITY;
  for (int64_t i = 0; i < state->counts.at[SIZE]; i++) {
    double gap = squared_distance(row_of(&state->support, i), x, state->support.columns);
    if (gap < *distance) {
      place = i;
      *distance = gap;
    }
  }
  return place;
}

int oana_action(const oana_settings *settings, const oana_state *state, double distance) {
  /* A row that is there already says nothing new, but counts in the landmark's mean. */
  if (state->counts.at[SIZE] + 1 < state->support.rows)
    return distance > 0.0 ? OANA_BEGINS : OANA_MOVES;
  return settings->threshold <= distance && distance < INFINITY ? OANA_MOVES : OANA_NOTHING;
}

/* Take what is new in a landmark into the subspace, if anything is. */
static void add_direction(oana_state *state, int64_t place) {
  int64_t size = state->counts.at[SIZE], known = state->counts.at[STARTED];
  double *gram = row_of(&state->gram, place), *factor = row_of(&state->factor, known);
  fill(factor, 0.0, size);
  factor[place] = 1.0;
  copy(row_of(&state->image, known), gram, size);
  if (orthonormalise_row(&state->factor, &state->image, known, size, NEW * gram[place]))
    state->counts.at[STARTED] = known + 1;
}

/* Write the basis of K's r largest eigenvectors, and its image, to `work`. */
static void settle(const oana_state *state, oana_work *work) {
  int64_t size = state->counts.at[SIZE];
  double *values = work->k, largest = -INFINITY;
  for (int64_t i = 0; i < size; i++)
    copy(row_of(&work->matrix, i), row_of(&state->gram, i), size);
  diagonalise(&work->matrix, size, &work->vectors);
  for (int64_t i = 0; i < size; i++) {
    values[i] = row_of(&work->matrix, i)[i];
    largest = larger(values[i], largest);
  }
  for (int64_t c = 0; c < state->factor.rows; c++) {
    int64_t best = 0;
    for (int64_t i = 0; i < size; i++)
      if (values[i] > values[best]) best = i;
    double root = values[best] > LEAST_EIGENVALUE * largest ? sqrt(values[best]) : 0.0;
    double inverse = root > 0.0 ? 1.0 / root : 0.0;
    double *left = row_of(&work->span.left, c), *right = row_of(&work->span.right, c);
    copy(left, row_of(&work->vectors, best), size);
    copy(right, left, size);
    scale_all(left, inverse, size);
    scale_all(right, root, size);
    values[best] = -1.0;
  }
}

int oana_enlist(oana_state *state, oana_work *work, double own) {
  int64_t *counts = state->counts.at, size = counts[SIZE], rank = state->factor.rows;
  copy(row_of(&state->support, size), work->x, state->support.columns);
  copy(row_of(&state->gram, size), work->k, size);
  for (int64_t i = 0; i < size; i++) row_of(&state->gram, i)[size] = work->k[i];
  row_of(&state->gram, size)[size] = own;
  for (int64_t c = 0; c < rank; c++) {
    row_of(&state->factor, c)[size] = 0.0;
    row_of(&state->image, c)[size] = work->q[c];
  }
  state->members.at[size] = 1;
  state->born.at[size] = counts[N] - 1;
  counts[SIZE] = size + 1;
  if (counts[STARTED] < rank) add_direction(state, size);
  int last = size + 2 == state->support.rows;
  if (last) settle(state, work);
  return last;
}

/* Put a landmark at x: its row and column of K; the images of the old basis at its new place. */
static void place_at(const kernel *of, oana_state *state, oana_work *work, int64_t place) {
  int64_t size = state->counts.at[SIZE], width = state->support.columns;
  kernel_row(of, &state->support, size, work->x, work->k);
  for (int64_t c = 0; c < state->factor.rows; c++)
    row_of(&state->image, c)[place] = dot(row_of(&state->factor, c), work->k, size);
  copy(row_of(&state->support, place), work->x, width);
  work->k[place] = kernel_value(of, work->x, work->x, width);
  copy(row_of(&state->gram, place), work->k, size);
  for (int64_t i = 0; i < size; i++) row_of(&state->gram, i)[place] = work->k[i];
}

/* E ← orth(KE + 1e-7 tr(K) E), STEPS times. */
static void iterate(const oana_state *state, span_work *work) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows;
  double trace = 0.0;
  for (int64_t i = 0; i < size; i++) trace += row_of(&state->gram, i)[i];
  for (int64_t c = 0; c < rank; c++) {
    copy(row_of(&work->left, c), row_of(&state->factor, c), size);
    span_image(&state->gram, row_of(&work->left, c), size, row_of(&work->right, c));
  }
  for (int step = 0; step < STEPS; step++) {
    for (int64_t c = 0; c < rank; c++)
      span_step(row_of(&work->left, c), SPAN_SHIFT * trace, row_of(&work->right, c), size);
    span_finish(&state->gram, size, rank, work);
  }
}

void oana_displace(const kernel *of, oana_state *state, oana_work *work, int64_t place) {
  double *landmark = row_of(&state->support, place);
  state->members.at[place] += 1;
  double share = 1.0 / (double)state->members.at[place];
  for (int64_t d = 0; d < state->support.columns; d++)
    work->x[d] = landmark[d] + share * (work->x[d] - landmark[d]);
  place_at(of, state, work, place);
  iterate(state, &work->span);
}

void oana_adopt(const oana_settings *settings, oana_state *state, oana_work *work, int64_t place) {
  int64_t size = state->counts.at[SIZE], rank = state->factor.rows, known = 0;
  mat *left = &work->span.left, *right = &work->span.right;
  for (int64_t c = 0; c < rank; c++) {
    if (!(dot(row_of(left, c), row_of(right, c), size) > 0.0)) continue;
    if (known < c) {
      copy(row_of(left, known), row_of(left, c), size);
      copy(row_of(right, known), row_of(right, c), size);
    }
    known++;
  }
  for (int64_t c = known; c < rank; c++) {
    fill(row_of(left, c), 0.0, size);
    fill(row_of(right, c), 0.0, size);
  }
  state->counts.at[STARTED] = known;
  if (settings->aligned) span_align(&state->image, size, &work->span, &state->frame);
  span_take(&work->span, size, &state->factor, &state->image);
  if (known < rank) add_direction(state, place);
}

/* A call: what it was given and its scratch. */
typedef struct {
  const oana_settings *settings;
  const kernel *of;
  oana_state *state;
  outputs *out;
  oana_work work;
  span_root root;
} oana;

static void begin(oana *loop, double own) {
  if (oana_enlist(loop->state, &loop->work, own))
    oana_adopt(loop->settings, loop->state, &loop->work, loop->state->counts.at[SIZE] - 1);
}

static void report(oana *loop, double loss, int started, int64_t n) {
  const oana_state *state = loop->state;
  span_view view = {&state->factor, &state->gram, &state->frame, &state->recent, state->counts.at};
  span_report(&view, loop->work.q, loss, started, &loop->root, loop->out, n);
}

/* Learn row n of the call, in `work` with its loss, and report it. */
static void learn_row(oana *loop, double own, double loss, int64_t n) {
  oana_state *state = loop->state;
  oana_work *work = &loop->work;
  int64_t *counts = state->counts.at;
  double distance;
  counts[N] += 1;
  int64_t place = oana_nearest(state, work->x, &distance);
  int action = oana_action(loop->settings, state, distance);
  /* Without a direction for each row the features of a new one would say nothing. */
  int unfilled = counts[STARTED] < state->factor.rows;
  int started = action == OANA_BEGINS && unfilled && loss > NEW * own;
  if (started) {
    begin(loop, own);
    loss = oana_project(loop->of, state, work, own);
  }
  report(loop, loss, started, n);
  if (action == OANA_MOVES) {
    oana_displace(loop->of, state, work, place);
    oana_adopt(loop->settings, state, work, place);
  } else if (action == OANA_BEGINS && !started) {
    begin(loop, own);
  }
  loop->root.stale |= action != OANA_NOTHING;
  if (!started) remember(&state->recent, counts, state->reals.at, loss);
  loop->out->informative.at[n] = action != OANA_NOTHING;
  counts[INFORMATIVE] += action != OANA_NOTHING;
}

static void run_row(oana *loop, const double *row, int64_t n) {
  oana_state *state = loop->state;
  double *x = loop->work.x;
  if (!scale_row(&state->shift, &state->scale, loop->settings->clip, row, x)) return;
  double own = kernel_value(loop->of, x, x, state->support.columns);
  if (!(fabs(own) <= MAX_KERNEL)) return;
  pass_on(row, &state->shift, &state->scale, loop->out, n);
  if (loop->settings->learn)
    follow_scale(loop->settings->scale_window, &state->reals, row, &state->shift, &state->scale);
  loop->out->valid.at[n] = 1;
  loop->out->number.at[n] = state->counts.at[N];
  double loss = oana_project(loop->of, state, &loop->work, own);
  if (loop->settings->learn)
    learn_row(loop, own, loss, n);
  else
    report(loop, loss, 0, n);
}

/* Run the rows of one model. */
static int64_t run(const oana_settings *settings, const kernel *of, oana_state *state,
                   const mat *rows, outputs *out) {
  oana loop = {.settings = settings, .of = of, .state = state, .out = out};
  arena scratch = {0};
  for (int placed = 0; placed < 2; placed++) {
    loop.work = make_oana_work(&scratch, state, settings->learn ? rows->rows : 0);
    loop.root = make_span_root(&scratch, out, state->support.rows);
    if (!placed && !take_block(&scratch)) return KT_NO_MEMORY;
  }
  for (int64_t n = 0; n < rows->rows; n++) run_row(&loop, row_of(rows, n), n);
  give_back(&scratch);
  return KT_DONE;
}

KT_API int64_t kt_oana_run(const oana_settings *settings, const kernel *of, const models *all,
                           const mat *rows, const outputs *out) {
  const oana_state *states = all->states.at;
  for (int64_t m = 0; m < all->states.many; m++) {
    oana_state state = states[m];
    kernel own = kernel_of(of, &state.bandwidth);
    share part = share_of(all, m, rows, out, NULL);
    int64_t done = run(settings, &own, &state, &part.rows, &part.out);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}
