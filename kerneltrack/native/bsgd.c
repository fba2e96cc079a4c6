/* BSGD: steps on the hinge loss on a fixed budget of rows, see `learners/kernel/bsgd.py`. */
#include "dictionary.h"
#include "layouts.h"

enum { REMOVAL, PROJECTION, MERGING };

/* Steps of the golden section search: h to 1e-4. Each waits for the one before, so that searches of
some groups of rows go side by side. */
#define SEARCH 20
#define GROUPS 4
#define GOLDEN 0.6180339887498949

/* The row of the least Σ_c w_cj², ties to the first; fills the costs. */
static int64_t lightest_row(const dictionary_state *state, dictionary_work *work) {
  int64_t size = state->counts.at[STORED], best = 0;
  double *costs = work->costs;
  fill(costs, 0.0, size);
  for (int64_t c = 0; c < state->weights.rows; c++) {
    const double *weights = row_of(&state->weights, c);
    for (int64_t j = 0; j < size; j++) costs[j] += weights[j] * weights[j];
  }
  for (int64_t j = 1; j < size; j++)
    if (costs[j] < costs[best]) best = j;
  return best;
}

/* The last row moves into the place of one that goes. */
static void drop_row(dictionary_state *state, int64_t slot) {
  int64_t last = --state->counts.at[STORED];
  if (slot != last) move_row(state, last, slot);
}

/* Row m and four others n, one in each lane: C classes' weights, ‖d_m - d_n‖²/γ. */
typedef struct {
  int64_t classes;
  const double *own;
  const v4 *others;
  v4 distance;
} merger;

/* What is left of the weights of rows m and n at z = h·d_m + (1 - h)d_n: κ(d_m, z), κ(d_n, z). */
static v4 left_of_own(v4 distance, v4 h) { return exp4(-(1.0 - h) * (1.0 - h) * distance); }

static v4 left_of_other(v4 distance, v4 h) { return exp4(-h * h * distance); }

/* Σ_c w_cz² */
static v4 merged(const merger *of, v4 h) {
  v4 own = left_of_own(of->distance, h), other = left_of_other(of->distance, h);
  v4 total = all4(0.0);
  for (int64_t c = 0; c < of->classes; c++) {
    v4 weight = own * of->own[c] + other * of->others[c];
    total += weight * weight;
  }
  return total;
}

/* Where a search for the h that maximises it stands: the bounds, two places between, both values. */
typedef struct {
  v4 low, high;
  v4 first, second;
  v4 at_first, at_second;
} search;

static search begin_search(const merger *of) {
  search at = {all4(0.0), all4(1.0), all4(1.0 - GOLDEN), all4(GOLDEN), all4(0.0), all4(0.0)};
  at.at_first = merged(of, at.first);
  at.at_second = merged(of, at.second);
  return at;
}

/* A step of the golden section. */
static void narrow(const merger *of, search *at) {
  i4 lower = at->at_first >= at->at_second;
  at->high = choose4(lower, at->second, at->high);
  at->low = choose4(lower, at->low, at->first);
  v4 kept = choose4(lower, at->first, at->second);
  v4 at_kept = choose4(lower, at->at_first, at->at_second);
  v4 part = GOLDEN * (at->high - at->low);
  v4 fresh = choose4(lower, at->high - part, at->low + part), at_fresh = merged(of, fresh);
  at->first = choose4(lower, fresh, kept);
  at->at_first = choose4(lower, at_fresh, at_kept);
  at->second = choose4(lower, kept, fresh);
  at->at_second = choose4(lower, at_kept, at_fresh);
}

/* How far the functions move if m is merged with each of the four at h, squared. */
static v4 moved_by(const merger *of, double own_cost, v4 costs, v4 h) {
  v4 cross = all4(0.0);
  for (int64_t c = 0; c < of->classes; c++) cross += of->own[c] * of->others[c];
  v4 before = own_cost + costs + 2.0 * exp4(-of->distance) * cross;
  return before - merged(of, h);
}

/* Scratch of the mergers: row m's weights, those of each group of four others. */
typedef struct {
  double *own;
  v4 *others;
} bsgd_work;

static bsgd_work make_bsgd_work(arena *from, int64_t classes) {
  return (bsgd_work){reals(from, classes), piece(from, GROUPS * classes, sizeof(v4))};
}

/* Entries n to n + 3 of a row, 0 behind its end. */
static v4 load_some(const double *row, int64_t n, int64_t size) {
  v4 some = all4(0.0);
  for (int64_t lane = 0; lane < LANES && n + lane < size; lane++) some[lane] = row[n + lane];
  return some;
}

static v4 distances_from(const dictionary_lesson *now, int64_t m, int64_t n, int64_t size) {
  const mat *rows = &now->state->rows;
  v4 distance = all4(0.0);
  for (int64_t lane = 0; lane < LANES && n + lane < size; lane++) {
    double gap = squared_distance(row_of(rows, m), row_of(rows, n + lane), rows->columns);
    distance[lane] = gap * now->of->inverse_gamma;
  }
  return distance;
}

/* The row that is best merged with row m, -1 if there is none; its h and its distance. */
static int64_t best_partner(dictionary_lesson *now, bsgd_work *work, int64_t m, double *h,
                            double *distance) {
  const dictionary_state *state = now->state;
  int64_t size = state->counts.at[STORED], classes = state->weights.rows, best = -1;
  double least = INFINITY;
  for (int64_t c = 0; c < classes; c++) work->own[c] = row_of(&state->weights, c)[m];
  for (int64_t n = 0; n < size; n += GROUPS * LANES) {
    int64_t groups = least_of(GROUPS, (size - n + LANES - 1) / LANES);
    merger of[GROUPS];
    search at[GROUPS];
    for (int64_t g = 0; g < groups; g++) {
      v4 *others = work->others + g * classes;
      int64_t there = n + g * LANES;
      for (int64_t c = 0; c < classes; c++)
        others[c] = load_some(row_of(&state->weights, c), there, size);
      of[g] = (merger){classes, work->own, others, distances_from(now, m, there, size)};
      at[g] = begin_search(&of[g]);
    }
    for (int step = 0; step < SEARCH; step++)
      for (int64_t g = 0; g < groups; g++) narrow(&of[g], &at[g]);
    for (int64_t g = 0; g < groups; g++) {
      int64_t there = n + g * LANES;
      v4 share = 0.5 * (at[g].low + at[g].high), costs = load_some(now->work.costs, there, size);
      v4 moved = moved_by(&of[g], now->work.costs[m], costs, share);
      for (int64_t lane = 0; lane < LANES && there + lane < size; lane++) {
        if (there + lane == m || !(moved[lane] < least)) continue;
        best = there + lane;
        least = moved[lane];
        *h = share[lane];
        *distance = of[g].distance[lane];
      }
    }
  }
  return best;
}

/* Make row n the merger of rows m and n. */
static void merge_into(dictionary_state *state, int64_t m, int64_t n, double h, double distance) {
  double own = left_of_own(all4(distance), all4(h))[0];
  double other = left_of_other(all4(distance), all4(h))[0];
  for (int64_t c = 0; c < state->weights.rows; c++) {
    double *weights = row_of(&state->weights, c);
    weights[n] = own * weights[m] + other * weights[n];
  }
  double *row = row_of(&state->rows, n), *gone = row_of(&state->rows, m);
  for (int64_t d = 0; d < state->rows.columns; d++) row[d] += h * (gone[d] - row[d]);
}

/* Merge the lightest row with the one where that moves the functions least. */
static void merge(dictionary_lesson *now, bsgd_work *work) {
  dictionary_state *state = now->state;
  double h = 0.0, distance = 0.0;
  int64_t m = lightest_row(state, &now->work), n = best_partner(now, work, m, &h, &distance);
  if (n >= 0) merge_into(state, m, n, h, distance);
  drop_row(state, m);
}

/* Take the row behind the stored ones in; if there are too many, the cheapest goes. */
static void project(const bsgd_settings *settings, dictionary_lesson *now) {
  dictionary_state *state = now->state;
  int64_t size = state->counts.at[STORED];
  renew_root(now->of, state);
  store_row(state, &now->work, size);
  if (state->counts.at[STORED] <= settings->budget) return;
  int64_t slot = cheapest_row(state, &now->work);
  if (slot == size)
    take_back(state, &now->work);
  else
    remove_row(state, &now->work, slot);
}

/* Take the row behind the stored ones in, and let one go if there are too many. */
static void keep_to_budget(const bsgd_settings *settings, dictionary_lesson *now,
                           bsgd_work *work) {
  dictionary_state *state = now->state;
  if (settings->maintenance == PROJECTION) {
    project(settings, now);
    return;
  }
  state->counts.at[STORED] += 1;
  if (state->counts.at[STORED] <= settings->budget) return;
  if (settings->maintenance == MERGING)
    merge(now, work);
  else
    drop_row(state, lightest_row(state, &now->work));
}

static void learn_row(const bsgd_settings *settings, dictionary_lesson *now, bsgd_work *work) {
  const lesson *at = &now->at;
  dictionary_state *state = now->state;
  double step = decayed_step(settings->step_size, settings->decay_rows, at->counts[LEARNED]++);
  int64_t slot = at->counts[STORED], rival = rival_of(at);
  shrink_rows(state, slot, step * settings->ridge);
  if (rival < 0 || !(1.0 + at->values[rival] - at->values[at->code] > 0.0)) return;
  for (int64_t c = 0; c < state->weights.rows; c++) row_of(&state->weights, c)[slot] = 0.0;
  row_of(&state->weights, at->code)[slot] = step;
  row_of(&state->weights, rival)[slot] = -step;
  copy(row_of(&state->rows, slot), row_of(at->rows, at->n), at->rows->columns);
  keep_to_budget(settings, now, work);
}

KT_API int64_t kt_bsgd_run(const bsgd_settings *settings, const kernel *of, const mode *how,
                           dictionary_state *state, const mat *rows, const coded *labels,
                           predicted *out, ints *reached) {
  arena scratch = {0};
  dictionary_lesson now;
  bsgd_work work;
  for (int placed = 0; placed < 2; placed++) {
    now = make_dictionary_lesson(&scratch, of, how, state, rows, labels, out);
    work = make_bsgd_work(&scratch, state->weights.rows);
    if (!placed && !take_block(&scratch)) return KT_NO_MEMORY;
  }
  now.warmup = settings->warmup;
  while (next_dictionary_lesson(&now)) learn_row(settings, &now, &work);
  write_reached(&now.at, reached);
  give_back(&scratch);
  return KT_DONE;
}
