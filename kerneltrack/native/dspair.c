/* Doubly stochastic kernel SVD and CCA: two views of every row. The equations and their source are
in `kerneltrack/trackers/doubly/pair.py`.

Each view has the state of `dskpca` for its own functions; what ties them together is W and which
functions a view's features are multiplied with. Both states share their counts. */
#include "dskpca.h"
#include "each.h"
#include "layouts.h"
#include "linalg.h"
#include "vec.h"

enum { KSVD, KCCA, NEWTON };
enum { VIEWS = 2 };

/* μ in mean eigenvalues of G. With T = 2B, a tenth fits the mini-batch's noise, 1 is slower. */
#define DAMPING 0.3

/* A view's part of the state: Σuφ(x)ᵀ in `own`, Σφ(x)φ(x)ᵀ in the lower triangle of `gram`. */
typedef struct {
  doubly_state of;
  mat own;
  mat gram;
} pair_view;

typedef struct {
  view works[VIEWS];
  mat before[VIEWS];   /* (r, F) coefficients before the step */
  mat w;               /* (r, r) W */
  mat chol, inverse, transposed; /* (B, B) of G + μI */
  double *half;        /* (B,) half-way through a solution */
  refresh_room room;
} scratch_space;

static scratch_space make_scratch(arena *from, const doubly_settings *settings,
                                  const feature_map *maps, const pair_view *views, int64_t total) {
  scratch_space work;
  const mat *factor = &views[0].of.factor;
  int64_t most = least_of(settings->row_batch, total), block = views[0].gram.rows;
  for (int i = 0; i < VIEWS; i++) {
    work.works[i] = make_view(from, &maps[i], &views[i].of, most);
    work.before[i] = table(from, settings->learn ? factor->rows : 0, factor->columns);
  }
  work.w = table(from, factor->rows, factor->rows);
  work.chol = table(from, block, block);
  work.inverse = table(from, block, block);
  work.transposed = table(from, block, block);
  work.half = reals(from, block);
  work.room = make_refresh_room(from, &views[0].of);
  return work;
}

/* Add the good ones of `count` rows to the open mini-batch's sums. */
static void gather(const feature_map *maps, pair_view *views, mat *link, view *works,
                   int64_t count) {
  for (int i = 0; i < VIEWS; i++)
    draw(&maps[i], next_block(&views[i].of) * views[i].of.cross.columns, &works[i].room);
  for (int64_t b = 0; b < count; b += GROUP) {
    int64_t many = least_of(GROUP, count - b);
    const uint8_t *good = works[0].good + b;
    mat h[VIEWS] = {rows_from(&works[0].h, b, many), rows_from(&works[1].h, b, many)};
    add_products(&h[0], &h[1], good, 0, link);
    for (int i = 0; i < VIEWS; i++) {
      mat phi = rows_from(&works[i].phi, 0, many);
      evaluate_step(&maps[i], &works[i], b, many);
      add_products(&h[i], &h[i], good, 0, &views[i].of.moment);
      add_products(&h[1 - i], &phi, good, 0, &views[i].of.cross);
      add_products(&h[i], &phi, good, 0, &views[i].own);
      add_products(&phi, &phi, good, 1, &views[i].gram);
    }
  }
}

/* Turn rows c of `right` into (G + μI)⁻¹c; where all features of a mini-batch are zero nothing
happens: so are the rows. O(B³ + rB²) */
static void solve(const mat *gram, mat *right, scratch_space *work) {
  int64_t block = gram->rows;
  double shift = 0.0;
  for (int64_t j = 0; j < block; j++) shift += DAMPING * row_of(gram, j)[j] / (double)block;
  if (!(shift > 0.0)) return;
  inverse_cholesky(gram, block, shift, &work->chol, &work->inverse, &work->transposed);
  for (int64_t c = 0; c < right->rows; c++)
    solve_factored(&work->inverse, &work->transposed, row_of(right, c), work->half,
                   row_of(right, c));
}

/* to_c ← to_c - η Σ_e W[c, e] from_e, first columns only */
static void take_linked(mat *to, double eta, const mat *w, const mat *from, int64_t columns) {
  for (int64_t c = 0; c < to->rows; c++)
    for (int64_t e = 0; e < to->rows; e++)
      add_scaled(row_of(to, c), -eta * row_of(w, c)[e], row_of(from, e), columns);
}

/* Move a view's coefficients: Algorithm 3, lines 7 to 10, or Algorithm 4, lines 7 and 8. */
static void move(const doubly_settings *settings, pair_view *one, const mat *before, double eta,
                 scratch_space *work) {
  doubly_state *state = &one->of;
  int64_t block = state->cross.columns;
  if (settings->form == KSVD)
    take_linked(&state->factor, eta, &work->w, before, blocks_in_use(state) * block);
  else
    take_linked(&state->cross, 1.0, &work->w, &one->own, block);
  if (settings->form == NEWTON) {
    solve(&one->gram, &state->cross, work);
    grow_block(state, eta);
  } else {
    grow_block(state, eta / ((double)settings->row_batch * (double)block));
  }
}

/* W = (1/T) Σ(uvᵀ + vuᵀ), and a bound of ‖W‖: since 2|u||v| <= u² + v², it is at most that of
E = (1/T) Σ(uuᵀ + vvᵀ), and so at most E's trace and its largest absolute row sum. (Of functions
that are not correlated the trace alone is r times too much.) */
static double link_views(const pair_view *views, const mat *link, double batch, mat *w) {
  double trace = 0.0, widest = 0.0;
  for (int64_t c = 0; c < w->rows; c++) {
    const double *one = row_of(&views[0].of.moment, c), *two = row_of(&views[1].of.moment, c);
    double row = 0.0;
    trace += (one[c] + two[c]) / batch;
    for (int64_t e = 0; e < w->rows; e++) {
      row_of(w, c)[e] = (row_of(link, c)[e] + row_of(link, e)[c]) / batch;
      row += fabs(one[e] + two[e]) / batch;
    }
    widest = larger(row, widest);
  }
  return smaller(widest, trace);
}

static void clear(mat *table) { fill(table->at, 0.0, table->rows * table->columns); }

/* The step of a whole mini-batch of T rows and B features of each view. */
static void step(const doubly_settings *settings, pair_view *views, mat *link,
                 scratch_space *work) {
  int64_t *counts = views[0].of.counts.at, count = work->before[0].rows * work->before[0].columns;
  double bound = link_views(views, link, (double)settings->row_batch, &work->w);
  double eta = step_length(settings, &views[0].of, bound);
  for (int i = 0; i < VIEWS; i++) {
    copy(work->before[i].at, views[i].of.factor.at, count);
    move(settings, &views[i], &work->before[i], eta, work);
  }
  counts[DS_STEPS] += 1;
  counts[DS_WAITING] = 0;
  if (!refresh(settings, &views[0].of, &work->room) ||
      !refresh(settings, &views[1].of, &work->room)) {
    counts[DS_MENDED] += 1;
    for (int i = 0; i < VIEWS; i++) {
      copy(views[i].of.factor.at, work->before[i].at, count);
      refresh(settings, &views[i].of, &work->room);
    }
  }
  for (int i = 0; i < VIEWS; i++) {
    clear_moments(&views[i].of);
    clear(&views[i].own);
    clear(&views[i].gram);
  }
  clear(link);
}

/* Fill what is said of row n, the b-th of its mini-batch. */
static void tell(const pair_view *views, view *works, int64_t b, outputs *out, int64_t n) {
  int64_t rank = views[0].of.factor.rows;
  double loss = 0.5 * project_row(&views[0].of, &works[0], b);
  loss += 0.5 * project_row(&views[1].of, &works[1], b);
  double own = 0.5 * (works[0].own[b] + works[1].own[b]);
  tell_row(&views[0].of, bounded_loss(loss, own), out, n);
  if (out->z.rows > 0) copy(row_of(&out->z, n), row_of(&works[0].h, b), rank);
  if (out->q.rows > 0) copy(row_of(&out->q, n), row_of(&works[1].h, b), rank);
  if (out->s.rows > 0) write_coordinates(&views[0].of, works[0].q, row_of(&out->s, n));
}

/* Scale and evaluate both views of `count` rows; a row is good if both are. */
static void look_at(const doubly_settings *settings, const feature_map *maps,
                    const pair_view *views, const mat *rows, int64_t count, view *works) {
  for (int64_t b = 0; b < count; b++) {
    const double *row = row_of(rows, b);
    int good = scale_into(settings, &maps[0], &views[0].of, row, &works[0], b);
    good &= scale_into(settings, &maps[1], &views[1].of, row + views[0].of.scale.size, &works[1],
                       b);
    works[0].good[b] = works[1].good[b] = (uint8_t)good;
  }
  for (int i = 0; i < VIEWS; i++) evaluate_view(&maps[i], &views[i].of, &works[i], count);
  for (int64_t b = 0; b < count; b++) works[0].good[b] &= works[1].good[b];
}

/* A view's part of a state: of the rows' columns those from `column` on. `mapping` is made, and not
used: no frame is kept. */
static pair_view view_of(const pair_state *state, int64_t which, int64_t column, int64_t width,
                         mat mapping) {
  doubly_state of = {
      .factor = table_of(&state->factor, which),
      .solver = table_of(&state->solver, which),
      .solver_t = table_of(&state->solver_t, which),
      .mapping = mapping,
      .moment = table_of(&state->moment, which),
      .cross = table_of(&state->cross, which),
      .shift = {state->shift.at + column, width},
      .scale = {state->scale.at + column, width},
      .bandwidth = {state->bandwidth.at + which, 1},
      .recent = state->recent,
      .reals = {state->reals.at + which, 1},
      .counts = state->counts,
  };
  return (pair_view){of, table_of(&state->own, which), table_of(&state->gram, which)};
}

/* Run rows (n, D₁ + D₂) through both views in order. The views are written to only if they are to
learn. */
static void run(const doubly_settings *settings, const feature_map *maps, pair_view *views,
                mat *link, const mat *rows, outputs *out, scratch_space *work) {
  for (int64_t place = 0, count; place < rows->rows; place += count) {
    count = least_of(room_left(settings, &views[0].of), rows->rows - place);
    mat part = rows_from(rows, place, count);
    look_at(settings, maps, views, &part, count, work->works);
    for (int64_t b = 0; b < count; b++) {
      if (!work->works[0].good[b]) continue;
      tell(views, work->works, b, out, place + b);
      if (settings->learn) count_row(&views[0].of, out, place + b);
    }
    if (settings->learn) gather(maps, views, link, work->works, count);
    if (is_whole(settings, &views[0].of)) step(settings, views, link, work);
  }
}

/* Run the rows of one model, of which `first` columns are the first view's. */
static int64_t run_pair(const doubly_settings *settings, const feature_map *of, int64_t first,
                        pair_state *state, share *part) {
  int64_t width = state->scale.size, rank = state->link.rows;
  feature_map maps[VIEWS];
  for (int i = 0; i < VIEWS; i++) maps[i] = features_of(&of[i], state->bandwidth.at[i]);
  arena memory = {0};
  scratch_space work;
  pair_view views[VIEWS];
  for (int placed = 0; placed < 2; placed++) {
    mat mapping = table(&memory, rank, rank);
    views[0] = view_of(state, 0, 0, first, mapping);
    views[1] = view_of(state, 1, first, width - first, mapping);
    work = make_scratch(&memory, settings, maps, views, part->rows.rows);
    if (!placed && !take_block(&memory)) return KT_NO_MEMORY;
  }
  run(settings, maps, views, &state->link, &part->rows, &part->out, &work);
  give_back(&memory);
  return KT_DONE;
}

KT_API int64_t kt_dspair_run(const doubly_settings *settings, const feature_map *of,
                             const models *all, const mat *rows, const outputs *out,
                             const int64_t *first) {
  const pair_state *states = all->states.at;
  for (int64_t m = 0; m < all->states.many; m++) {
    pair_state state = states[m];
    share part = share_of(all, m, rows, out, NULL);
    int64_t done = run_pair(settings, of, *first, &state, &part);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}
