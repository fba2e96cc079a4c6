/* FOGD: gradient steps on random Fourier features, see `learners/kernel/fogd.py`. */
#include "layouts.h"
#include "learning.h"
#include "random_features.h"

/* The random features, and φ(x)/√m of the row at hand. */
typedef struct {
  const feature_map *of;
  drawn room;
  mat phi;
  double scale;
} row_features;

static row_features make_features(arena *from, const feature_map *of, int64_t width, int64_t many) {
  return (row_features){.of = of,
                        .room = make_room(from, of, width, many),
                        .phi = table(from, 1, many),
                        .scale = 1.0 / sqrt((double)many)};
}

/* O(mD) */
static void find_features(row_features *features, const mat *rows, int64_t n) {
  mat row = rows_from(rows, n, 1);
  evaluate(features->of, &features->room, &row, &features->phi);
  scale_all(features->phi.at, features->scale, features->phi.columns);
  /* A row may be so far out that its angle is none. */
  tame(features->phi.at, features->phi.columns);
}

static void descend_row(lesson *at, const fogd_settings *settings, mat *weights, const double *phi) {
  turn_functions(at, weights, weights->columns);
  double step = decayed_step(settings->step_size, settings->decay_rows, at->counts[LEARNED]++);
  descend(at, settings->logistic != 0);
  shrink(weights, at->known, weights->columns, step * settings->ridge);
  /* Of the squared loss, a row never moves past its own target. */
  double share = at->how->regression ? smaller(1.0, step) : step;
  for (int64_t c = 0; c < at->known; c++)
    if (at->values[c] != 0.0)
      add_scaled(row_of(weights, c), share * at->values[c], phi, weights->columns);
}

KT_API int64_t kt_fogd_run(const fogd_settings *settings, const feature_map *of, const mode *how,
                           fogd_state *state, const mat *rows, const coded *labels, predicted *out,
                           ints *reached) {
  mat *weights = &state->weights;
  arena scratch = {0};
  lesson at;
  row_features features;
  for (int placed = 0; placed < 2; placed++) {
    at = make_lesson(&scratch, weights->rows, how, &state->sums, &state->counts, rows, labels, out);
    features = make_features(&scratch, of, rows->columns, weights->columns);
    if (!placed && !take_block(&scratch)) return KT_NO_MEMORY;
  }
  draw(of, 0, &features.room);
  while (next_row(&at)) {
    find_features(&features, rows, at.n);
    decide(&at, weights, features.phi.at);
    if (!report_row(&at)) continue;
    if (!keep_waiting(&at, &state->bandwidth, &state->early))
      descend_row(&at, settings, weights, features.phi.at);
    else if (at.counts[EARLY] == settings->warmup)
      break;
  }
  write_reached(&at, reached);
  give_back(&scratch);
  return KT_DONE;
}

/* The values of all functions, a line a row. */
KT_API int64_t kt_fogd_values(const feature_map *of, const fogd_state *state, const mat *rows,
                              mat *out) {
  const mat *weights = &state->weights;
  arena scratch = {0};
  row_features features;
  for (int placed = 0; placed < 2; placed++) {
    features = make_features(&scratch, of, rows->columns, weights->columns);
    if (!placed && !take_block(&scratch)) return KT_NO_MEMORY;
  }
  draw(of, 0, &features.room);
  for (int64_t n = 0; n < rows->rows; n++) {
    find_features(&features, rows, n);
    for (int64_t c = 0; c < weights->rows; c++)
      row_of(out, n)[c] = dot(row_of(weights, c), features.phi.at, weights->columns);
  }
  give_back(&scratch);
  return KT_DONE;
}
