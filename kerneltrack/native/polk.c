/* POLK: functional gradient steps made sparse by matching pursuit, see `learners/kernel/polk.py`.
*/
#include "dictionary.h"
#include "layouts.h"

/* Put the row at hand to the mini-batch, unless it has no gradient: `values` are -∂ℓ/∂f_c. */
static void add_to_batch(dictionary_lesson *now, double step) {
  const lesson *at = &now->at;
  dictionary_state *state = now->state;
  int64_t slot = at->counts[STORED] + at->counts[PENDING];
  int moves = 0;
  for (int64_t c = 0; c < state->weights.rows; c++) {
    double weight = c < at->known ? step * at->values[c] : 0.0;
    row_of(&state->weights, c)[slot] = weight;
    moves |= weight != 0.0;
  }
  if (!moves) return;
  copy(row_of(&state->rows, slot), row_of(at->rows, at->n), at->rows->columns);
  at->counts[PENDING] += 1;
}

/* Take the rows of the mini-batch into the dictionary; how far the functions moved by that, and
whether the last one was stored. */
static double store_batch(const polk_settings *settings, dictionary_lesson *now, int *fresh) {
  dictionary_state *state = now->state;
  int64_t *counts = state->counts.at, begin = counts[STORED], end = begin + counts[PENDING];
  double moved = 0.0;
  for (int64_t slot = begin; slot < end; slot++) {
    int64_t size = counts[STORED];
    if (settings->batch > 1)
      kernel_row(now->of, &state->rows, size, row_of(&state->rows, slot), now->work.k);
    moved += store_row(state, &now->work, slot);
    *fresh = counts[STORED] > size;
  }
  counts[PENDING] = 0;
  return moved;
}

/* Drop rows as long as that moves the functions by ε in all, or must be (Algorithm 1). */
static void prune(const polk_settings *settings, dictionary_lesson *now, double moved, int fresh,
                  double limit) {
  dictionary_state *state = now->state;
  int64_t *counts = state->counts.at;
  while (counts[STORED] > 0) {
    int64_t slot = cheapest_row(state, &now->work);
    moved += now->work.costs[slot];
    int must = counts[STORED] > settings->budget || is_in_span(state, slot);
    if (moved > limit * limit && !must) return;
    if (fresh && slot == counts[STORED] - 1)
      take_back(state, &now->work);
    else
      remove_row(state, &now->work, slot);
    fresh = 0;
  }
}

/* Add the mini-batch to the functions and prune the dictionary. */
static void take_step(const polk_settings *settings, dictionary_lesson *now, double step) {
  dictionary_state *state = now->state;
  int fresh = 0;
  shrink_rows(state, state->counts.at[STORED], step * settings->ridge);
  if (state->counts.at[PENDING] == 0) return;
  renew_root(now->of, state);
  double moved = store_batch(settings, now, &fresh);
  prune(settings, now, moved, fresh, settings->parsimony * (step * sqrt(step)));
}

static void learn_row(const polk_settings *settings, dictionary_lesson *now) {
  lesson *at = &now->at;
  turn_functions(at, &now->state->weights, at->counts[STORED] + at->counts[PENDING]);
  /* The step of a mini-batch is that of its first row. */
  int64_t learned = at->counts[LEARNED]++, first = learned - learned % settings->batch;
  double step = decayed_step(settings->step_size, settings->decay_rows, first);
  descend(at, settings->logistic);
  /* Of the squared loss, a row never moves past its own target. */
  double share = at->how->regression ? smaller(1.0, step) : step;
  add_to_batch(now, share / (double)settings->batch);
  if (learned + 1 == first + settings->batch) take_step(settings, now, step);
}

KT_API int64_t kt_polk_run(const polk_settings *settings, const kernel *of, const mode *how,
                           dictionary_state *state, const mat *rows, const coded *labels,
                           predicted *out, ints *reached) {
  arena scratch = {0};
  dictionary_lesson now = make_dictionary_lesson(&scratch, of, how, state, rows, labels, out);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  now = make_dictionary_lesson(&scratch, of, how, state, rows, labels, out);
  now.warmup = settings->warmup;
  while (next_dictionary_lesson(&now)) learn_row(settings, &now);
  write_reached(&now.at, reached);
  give_back(&scratch);
  return KT_DONE;
}
