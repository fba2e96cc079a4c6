/* Doubly stochastic kernel PCA: the equations and their source are in
`kerneltrack/trackers/doubly/kpca.py`.

Per mini-batch of rows: evaluate H(x) = Σ_i φ_i(x) α_i over the pool, which is drawn again in
blocks; per row: project, score, add to the mini-batch's moments; at its end: the step of eq. 10 and
16 for mini-batches (supplement, section A). */
#include "dskpca.h"

#include "each.h"
#include "linalg.h"
#include "vec.h"

enum { SUBSPACE, GHA };
enum { DS_RIDGE };

/* The ridge in force is never below this fraction of tr M: M + λI stays invertible. */
#define MIN_RIDGE 1e-12
/* A step after which tr M is above it, or not a number, is not taken. */
#define MAX_SPREAD 1e30

view make_view(arena *from, const feature_map *map, const doubly_state *state, int64_t most) {
  int64_t width = state->scale.size, rank = state->factor.rows, block = state->cross.columns;
  view work = {.x = table(from, most, width), .h = table(from, most, rank)};
  work.own = reals(from, most);
  work.good = piece(from, most, sizeof(uint8_t));
  work.phi = table(from, GROUP, block);
  work.v = reals(from, rank);
  work.q = reals(from, rank);
  work.room = make_room(from, map, width, block);
  return work;
}

refresh_room make_refresh_room(arena *from, const doubly_state *state) {
  int64_t rank = state->factor.rows;
  mat tables[5];
  for (int i = 0; i < 5; i++) tables[i] = table(from, rank, rank);
  return (refresh_room){tables[0], tables[1], tables[2],        tables[3],
                        tables[4], reals(from, rank), wholes(from, rank)};
}

static int64_t blocks_of(const doubly_state *state) {
  return state->factor.columns / state->cross.columns;
}

int64_t blocks_in_use(const doubly_state *state) {
  return least_of(state->counts.at[DS_STEPS] + 1, blocks_of(state));
}

int64_t next_block(const doubly_state *state) {
  return (state->counts.at[DS_STEPS] + 1) % blocks_of(state);
}

int scale_into(const doubly_settings *settings, const feature_map *map, const doubly_state *state,
               const double *row, view *work, int64_t b) {
  double *x = row_of(&work->x, b);
  int good = scale_row(&state->shift, &state->scale, settings->clip, row, x);
  if (is_positive_only(map))
    for (int64_t d = 0; d < work->x.columns; d++) good &= !(x[d] < 0.0);
  return good;
}

void evaluate_view(const feature_map *map, const doubly_state *state, view *work, int64_t count) {
  const mat *factor = &state->factor;
  int64_t rank = factor->rows, block = work->phi.columns, used = blocks_in_use(state);
  fill(work->own, 0.0, count);
  fill(work->h.at, 0.0, count * rank);
  for (int64_t first = 0; first < used * block; first += block) {
    draw(map, first, &work->room);
    for (int64_t start = 0; start < count; start += GROUP) {
      int64_t stop = least_of(start + GROUP, count);
      mat part = rows_from(&work->x, start, stop - start);
      evaluate(map, &work->room, &part, &work->phi);
      for (int64_t b = start; b < stop; b++) {
        const double *phi = row_of(&work->phi, b - start);
        work->own[b] += dot(phi, phi, block);
        for (int64_t c = 0; c < rank; c++)
          row_of(&work->h, b)[c] += dot(row_of(factor, c) + first, phi, block);
      }
    }
  }
  for (int64_t b = 0; b < count; b++) {
    work->own[b] /= (double)(used * block);
    work->good[b] = work->good[b] && work->own[b] <= MAX_KERNEL;
  }
}

double project_row(const doubly_state *state, view *work, int64_t b) {
  int64_t rank = state->factor.rows;
  const double *h = row_of(&work->h, b);
  for (int64_t c = 0; c < rank; c++) work->v[c] = dot(row_of(&state->solver, c), h, c + 1);
  for (int64_t c = 0; c < rank; c++)
    work->q[c] = dot(row_of(&state->solver_t, c) + c, work->v + c, rank - c);
  double fitted = dot(work->v, work->v, rank);
  return work->own[b] - fitted - state->reals.at[DS_RIDGE] * dot(work->q, work->q, rank);
}

void tell_row(const doubly_state *state, double loss, outputs *out, int64_t n) {
  const int64_t *counts = state->counts.at;
  out->valid.at[n] = 1;
  out->number.at[n] = counts[DS_N];
  out->loss.at[n] = loss;
  out->novelty.at[n] = rank_among_last(&state->recent, counts[DS_LOSSES], loss);
}

void count_row(doubly_state *state, outputs *out, int64_t n) {
  int64_t *counts = state->counts.at;
  state->recent.at[counts[DS_LOSSES] % state->recent.size] = out->loss.at[n];
  counts[DS_LOSSES] += 1;
  counts[DS_N] += 1;
  counts[DS_WAITING] += 1;
  out->informative.at[n] = 1;
}

int64_t room_left(const doubly_settings *settings, const doubly_state *state) {
  int64_t waiting = settings->learn ? state->counts.at[DS_WAITING] : 0;
  return most_of(settings->row_batch - waiting, 1);
}

int is_whole(const doubly_settings *settings, const doubly_state *state) {
  return settings->learn && state->counts.at[DS_WAITING] >= settings->row_batch;
}

void write_coordinates(const doubly_state *state, const double *q, double *out) {
  int64_t used = blocks_in_use(state) * state->cross.columns;
  double scale = sqrt((double)used);
  for (int64_t c = 0; c < state->factor.rows; c++)
    add_scaled(out, scale * q[c], row_of(&state->factor, c), used);
}

void evaluate_step(const feature_map *map, view *work, int64_t b, int64_t many) {
  mat part = rows_from(&work->x, b, many);
  evaluate(map, &work->room, &part, &work->phi);
}

double step_length(const doubly_settings *settings, const doubly_state *state, double most) {
  double steps = (double)state->counts.at[DS_STEPS];
  double eta = settings->step_size / (1.0 + settings->step_decay * steps);
  return eta * most > 1.0 ? 1.0 / most : eta;
}

void grow_block(doubly_state *state, double grow) {
  int64_t block = state->cross.columns, first = next_block(state) * block;
  for (int64_t c = 0; c < state->cross.rows; c++)
    add_scaled(row_of(&state->factor, c) + first, grow, row_of(&state->cross, c), block);
}

void clear_moments(doubly_state *state) {
  fill(state->moment.at, 0.0, state->moment.rows * state->moment.columns);
  fill(state->cross.at, 0.0, state->cross.rows * state->cross.columns);
}

/* M = F'ααᵀ into `inner`; its trace. */
static double inner_products(const doubly_state *state, mat *inner) {
  int64_t used = blocks_in_use(state) * state->cross.columns;
  double trace = 0.0;
  for (int64_t c = 0; c < inner->rows; c++) {
    for (int64_t e = 0; e <= c; e++) {
      double entry =
          (double)used * dot(row_of(&state->factor, c), row_of(&state->factor, e), used);
      row_of(inner, c)[e] = entry;
      row_of(inner, e)[c] = entry;
    }
    trace += row_of(inner, c)[c];
  }
  return trace;
}

/* M^{1/2}(M + λI)⁻¹ into `mapping`. M = RRᵀ; R = M^{1/2}U by its polar decomposition, so that
M^{1/2} = RUᵀ. */
static void align(doubly_state *state, refresh_room *room) {
  int64_t rank = state->factor.rows;
  semidefinite_factor(&room->inner, room->rest, &room->root);
  nearest_rotation(&room->root, &room->left, room->pivots, &room->turn);
  multiply_transposed(&room->root, &room->turn, rank, &room->left);
  multiply_transposed(&state->solver_t, &state->solver_t, rank, &room->right);
  multiply_transposed(&room->left, &room->right, rank, &state->mapping);
}

int refresh(const doubly_settings *settings, doubly_state *state, refresh_room *room) {
  double trace = inner_products(state, &room->inner);
  if (!(trace <= MAX_SPREAD)) return 0;
  state->reals.at[DS_RIDGE] = larger(settings->ridge, MIN_RIDGE * trace);
  inverse_cholesky(&room->inner, state->factor.rows, state->reals.at[DS_RIDGE], &room->left,
                   &state->solver, &state->solver_t);
  if (settings->aligned) align(state, room);
  return 1;
}

/* Add the good ones of `count` rows to the open mini-batch's moments. */
static void gather(const feature_map *map, doubly_state *state, view *work, int64_t count) {
  draw(map, next_block(state) * state->cross.columns, &work->room);
  for (int64_t b = 0; b < count; b += GROUP) {
    int64_t many = least_of(GROUP, count - b);
    mat h = rows_from(&work->h, b, many), phi = rows_from(&work->phi, 0, many);
    evaluate_step(map, work, b, many);
    add_products(&h, &h, work->good + b, 0, &state->moment);
    add_products(&h, &phi, work->good + b, 0, &state->cross);
  }
}

/* α ← α - η S α with S = Σhhᵀ/T (subspace, eq. 10) or its upper triangle (GHA, eq. 16). */
static void shrink_all(const doubly_settings *settings, doubly_state *state, const mat *before,
                       double eta) {
  int64_t rank = state->factor.rows, used = blocks_in_use(state) * state->cross.columns;
  double shrink = eta / (double)settings->row_batch;
  for (int64_t c = 0; c < rank; c++)
    for (int64_t e = 0; e < (settings->form == GHA ? c + 1 : rank); e++)
      add_scaled(row_of(&state->factor, c), -shrink * row_of(&state->moment, e)[c],
                 row_of(before, e), used);
}

/* The step of a whole mini-batch of T rows and B features: all coefficients shrink, then the
block's α += η Σφh/(TB). With η at most 1/tr S, I - ηS does not overshoot. */
static void step(const doubly_settings *settings, doubly_state *state, mat *before,
                 refresh_room *room) {
  double batch = (double)settings->row_batch, trace = 0.0;
  int64_t count = before->rows * before->columns;
  copy(before->at, state->factor.at, count);
  for (int64_t c = 0; c < state->factor.rows; c++) trace += row_of(&state->moment, c)[c] / batch;
  double eta = step_length(settings, state, trace);
  shrink_all(settings, state, before, eta);
  grow_block(state, eta / (batch * (double)state->cross.columns));
  state->counts.at[DS_STEPS] += 1;
  if (!refresh(settings, state, room)) {
    state->counts.at[DS_MENDED] += 1;
    copy(state->factor.at, before->at, count);
    /* The features in use may be more than before: M is scaled by their number. */
    refresh(settings, state, room);
  }
  state->counts.at[DS_WAITING] = 0;
  clear_moments(state);
}

/* Fill what is said of row n, the b-th of its mini-batch. */
static void tell(const doubly_settings *settings, const doubly_state *state, view *work, int64_t b,
                 outputs *out, int64_t n) {
  int64_t rank = state->factor.rows;
  tell_row(state, bounded_loss(project_row(state, work, b), work->own[b]), out, n);
  if (settings->aligned)
    for (int64_t c = 0; c < rank; c++)
      row_of(&out->z, n)[c] = dot(row_of(&state->mapping, c), row_of(&work->h, b), rank);
  if (out->q.rows > 0) copy(row_of(&out->q, n), work->q, rank);
  if (out->s.rows > 0) write_coordinates(state, work->q, row_of(&out->s, n));
}

/* Run `count` rows of one mini-batch from `place` on. */
static void run_batch(const doubly_settings *settings, const feature_map *map, doubly_state *state,
                      const mat *rows, int64_t place, int64_t count, view *work, outputs *out) {
  for (int64_t b = 0; b < count; b++)
    work->good[b] = (uint8_t)scale_into(settings, map, state, row_of(rows, place + b), work, b);
  evaluate_view(map, state, work, count);
  for (int64_t b = 0; b < count; b++) {
    if (!work->good[b]) continue;
    tell(settings, state, work, b, out, place + b);
    if (settings->learn) count_row(state, out, place + b);
  }
  if (settings->learn) gather(map, state, work, count);
}

/* Run the rows of one model. */
static int64_t run(const doubly_settings *settings, const feature_map *map, doubly_state *state,
                   const mat *rows, outputs *out) {
  int64_t total = rows->rows, batch = settings->row_batch;
  arena scratch = {0};
  view work;
  mat before;
  refresh_room room;
  for (int pass = 0; pass < 2; pass++) {
    if (pass == 1 && !take_block(&scratch)) return KT_NO_MEMORY;
    work = make_view(&scratch, map, state, least_of(batch, total));
    before = table(&scratch, settings->learn ? state->factor.rows : 0, state->factor.columns);
    room = make_refresh_room(&scratch, state);
  }
  for (int64_t place = 0, count; place < total; place += count) {
    count = least_of(room_left(settings, state), total - place);
    run_batch(settings, map, state, rows, place, count, &work, out);
    if (is_whole(settings, state)) step(settings, state, &before, &room);
  }
  give_back(&scratch);
  return KT_DONE;
}

feature_map features_of(const feature_map *of, double bandwidth) {
  feature_map own = *of;
  own.inverse_gamma = 1.0 / bandwidth;
  return own;
}

KT_API int64_t kt_dskpca_run(const doubly_settings *settings, const feature_map *of,
                             const models *all, const mat *rows, const outputs *out) {
  const doubly_state *states = all->states.at;
  for (int64_t m = 0; m < all->states.many; m++) {
    doubly_state state = states[m];
    feature_map own = features_of(of, state.bandwidth.at[0]);
    share part = share_of(all, m, rows, out, NULL);
    int64_t done = run(settings, &own, &state, &part.rows, &part.out);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}

/* Compute what depends on α, of a state that begins. */
KT_API int64_t kt_dskpca_refresh(const doubly_settings *settings, doubly_state *state) {
  arena scratch = {0};
  make_refresh_room(&scratch, state);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  refresh_room room = make_refresh_room(&scratch, state);
  refresh(settings, state, &room);
  give_back(&scratch);
  return KT_DONE;
}
