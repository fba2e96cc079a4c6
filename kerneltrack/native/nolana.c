/* NOLANA: gradient steps on adaptive Nyström features, the weights fitted anew to each map; see
`learners/kernel/nolana.py`. The map and its steps are those of `oana.h`. */
#include "layouts.h"
#include "learning.h"
#include "linalg.h"
#include "oana.h"

/* Places in `counts` behind those of all learners, EARLY between. */
enum { LANDMARKS = LEARNER_COUNTS, MOVED, MAP_DIRECTIONS = EARLY + 1 };

/* The map of a state as the tracker's steps take it: `places` are its counts. */
static oana_state map_of(arena *from, const nolana_state *state, int64_t *places) {
  int64_t slots = state->support.rows;
  places[SIZE] = state->counts.at[LANDMARKS];
  places[STARTED] = state->counts.at[MAP_DIRECTIONS];
  return (oana_state){.support = state->support,
                      .factor = state->factor,
                      .gram = state->gram,
                      .image = state->image,
                      .members = state->members,
                      .born = {wholes(from, slots), slots},
                      .bandwidth = state->bandwidth,
                      .counts = {places, STARTED + 1}};
}

/* The second stage: what f shall say of the landmarks, (C, m); the normal equations, then C⁻¹ of
their matrix; C⁻ᵀ; two columns. */
typedef struct {
  mat aims, normal, transposed;
  double *right, *half;
} refit_work;

static refit_work make_refit_work(arena *from, const nolana_state *state, int learn) {
  int64_t rank = state->weights.columns, classes = learn ? state->weights.rows : 0;
  refit_work work;
  work.aims = table(from, classes, state->support.rows);
  work.normal = table(from, learn ? rank : 0, rank);
  work.transposed = table(from, learn ? rank : 0, rank);
  work.right = reals(from, rank);
  work.half = reals(from, rank);
  return work;
}

/* A call: the row at hand, with its x, k and q in `work`. */
typedef struct {
  lesson at;
  const nolana_settings *settings;
  const kernel *of;
  nolana_state *state;
  oana_settings rules;
  oana_state map;
  oana_work work;
  refit_work refit;
} nolana_call;

/* The row's features q, and the decision values. */
static void evaluate(nolana_call *call) {
  copy(call->work.x, row_of(call->at.rows, call->at.n), call->at.rows->columns);
  oana_project(call->of, &call->map, &call->work, 1.0);
  decide(&call->at, &call->state->weights, call->work.q);
}

/* What the functions say of the landmarks under the old map. O(Cmr) */
static void aim(nolana_call *call) {
  const mat *image = &call->map.image, *weights = &call->state->weights;
  int64_t size = call->map.counts.at[SIZE];
  for (int64_t c = 0; c < call->at.known; c++) {
    double *aims = row_of(&call->refit.aims, c);
    fill(aims, 0.0, size);
    add_rows(image, image->rows, size, row_of(weights, c), aims);
  }
}

/* The weights that say it under the new one (eq. 12). O(mr² + r³ + Cmr) */
static void refit(nolana_call *call) {
  const mat *image = &call->map.image;
  refit_work *work = &call->refit;
  int64_t size = call->map.counts.at[SIZE], rank = image->rows;
  for (int64_t i = 0; i < rank; i++)
    for (int64_t j = 0; j <= i; j++)
      row_of(&work->normal, i)[j] = dot(row_of(image, i), row_of(image, j), size);
  inverse_cholesky(&work->normal, rank, call->settings->refit_ridge, &work->normal, &work->normal,
                   &work->transposed);
  for (int64_t c = 0; c < call->at.known; c++) {
    double *weights = row_of(&call->state->weights, c);
    for (int64_t j = 0; j < rank; j++)
      work->right[j] = dot(row_of(image, j), row_of(&work->aims, c), size);
    for (int64_t j = 0; j < rank; j++)
      work->half[j] = dot(row_of(&work->normal, j), work->right, j + 1);
    for (int64_t j = 0; j < rank; j++)
      weights[j] = dot(row_of(&work->transposed, j), work->half, rank);
  }
}

/* Take the map in `work`, in which a landmark is new, and fit the weights to it. */
static void follow(nolana_call *call, int64_t place) {
  aim(call);
  oana_adopt(&call->rules, &call->map, &call->work, place);
  refit(call);
}

/* The row becomes a landmark; then it is projected anew. */
static void begin_landmark(nolana_call *call) {
  if (oana_enlist(&call->map, &call->work, 1.0)) follow(call, call->map.counts.at[SIZE] - 1);
  evaluate(call);
}

static void move_landmark(nolana_call *call, int64_t place) {
  oana_displace(call->of, &call->map, &call->work, place);
  follow(call, place);
  call->at.counts[MOVED] += 1;
}

/* A step on the loss (eq. 11). */
static void descend_row(nolana_call *call) {
  const nolana_settings *settings = call->settings;
  lesson *at = &call->at;
  mat *weights = &call->state->weights;
  turn_functions(at, weights, weights->columns);
  double step = decayed_step(settings->step_size, settings->decay_rows, at->counts[LEARNED]++);
  descend(at, settings->logistic);
  shrink(weights, at->known, weights->columns, step * settings->ridge);
  /* Of the squared loss, a row never moves past its own target. */
  double share = at->how->regression ? smaller(1.0, step) : step;
  for (int64_t c = 0; c < at->known; c++)
    if (at->values[c] != 0.0)
      add_scaled(row_of(weights, c), share * at->values[c], call->work.q, weights->columns);
}

static void learn_row(nolana_call *call) {
  double distance;
  int64_t place = oana_nearest(&call->map, call->work.x, &distance);
  int action = oana_action(&call->rules, &call->map, distance);
  if (action == OANA_BEGINS) begin_landmark(call);
  if (action == OANA_MOVES && call->settings->moves_first) {
    move_landmark(call, place);
    evaluate(call);
  }
  descend_row(call);
  if (action == OANA_MOVES && !call->settings->moves_first) move_landmark(call, place);
  call->at.counts[LANDMARKS] = call->map.counts.at[SIZE];
  call->at.counts[MAP_DIRECTIONS] = call->map.counts.at[STARTED];
}

/* Predict rows up to the next one that is learned from, and meet its class; false behind the last,
or when `warmup` rows wait for the bandwidth. */
static int next_nolana_lesson(nolana_call *call) {
  lesson *at = &call->at;
  nolana_state *state = call->state;
  while (next_row(at)) {
    evaluate(call);
    if (!report_row(at)) continue;
    if (!keep_waiting(at, &state->bandwidth, &state->early)) return 1;
    if (at->counts[EARLY] == call->settings->warmup) return 0;
  }
  return 0;
}

KT_API int64_t kt_nolana_run(const nolana_settings *settings, const kernel *of, const mode *how,
                             nolana_state *state, const mat *rows, const coded *labels,
                             predicted *out, ints *reached) {
  nolana_call call = {.settings = settings, .of = of, .state = state};
  int64_t classes = state->weights.rows, places[STARTED + 1] = {0};
  arena scratch = {0};
  call.rules = (oana_settings){how->learn, 0, settings->threshold, INFINITY, 0};
  for (int placed = 0; placed < 2; placed++) {
    call.at = make_lesson(&scratch, classes, how, &state->sums, &state->counts, rows, labels, out);
    call.map = map_of(&scratch, state, places);
    call.work = make_oana_work(&scratch, &call.map, how->learn ? rows->rows : 0);
    call.refit = make_refit_work(&scratch, state, how->learn != 0);
    if (!placed && !take_block(&scratch)) return KT_NO_MEMORY;
  }
  while (next_nolana_lesson(&call)) learn_row(&call);
  write_reached(&call.at, reached);
  give_back(&scratch);
  return KT_DONE;
}

/* The values of all functions, a line a row. */
KT_API int64_t kt_nolana_values(const kernel *of, const nolana_state *state, const mat *rows,
                                mat *out) {
  const mat *weights = &state->weights;
  int64_t places[STARTED + 1] = {0};
  arena scratch = {0};
  oana_state map;
  oana_work work;
  for (int placed = 0; placed < 2; placed++) {
    map = map_of(&scratch, state, places);
    work = make_oana_work(&scratch, &map, 0);
    if (!placed && !take_block(&scratch)) return KT_NO_MEMORY;
  }
  for (int64_t n = 0; n < rows->rows; n++) {
    copy(work.x, row_of(rows, n), rows->columns);
    oana_project(of, &map, &work, 1.0);
    for (int64_t c = 0; c < weights->rows; c++)
      row_of(out, n)[c] = dot(row_of(weights, c), work.q, weights->columns);
  }
  give_back(&scratch);
  return KT_DONE;
}
