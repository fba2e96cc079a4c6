/* A reference's way through the rows of a call, block by block: each is held against it before it is
learned, and at the end of a block those are learned that are let in. Equations and symbols are in
`kerneltrack/monitor/reference/__init__.py`. */
#include <math.h>

#include "covariance.h"
#include "elementary.h"
#include "linalg.h"
#include "reference.h"
#include "vec.h"

/* A model's reference: its own tables, and the kernel subspace of the scaled rows. */
typedef struct {
  const reference_settings *settings;
  reference_state *state;
  const covariance_settings *tracking;
  covariance_state *subspace;
  kernel kernel;
  /* What the subspace says of a block's rows, of which only ℓ counts; the rows that it learns. */
  outputs said;
  mat learned;
  ints times;
} reference;

static void lay_out(reference *of, arena *from) {
  int64_t block = of->state->good.size;
  vec *numbers[] = {&of->said.loss, &of->said.novelty};
  ints *wholes_of[] = {&of->said.number, &of->said.evicted, &of->times};
  flags *flags_of[] = {&of->said.valid, &of->said.informative, &of->said.initial};
  for (int i = 0; i < 2; i++) *numbers[i] = (vec){reals(from, block), block};
  for (int i = 0; i < 3; i++) *wholes_of[i] = (ints){wholes(from, block), block};
  for (int i = 0; i < 3; i++) *flags_of[i] = (flags){piece(from, block, 1), block};
  of->learned = table(from, block, of->state->rows.columns);
  of->state->memory = table(from, block + 1, of->state->memory.columns);
}

/* Whether further rows may change the reference. */
static int learns(const reference *of) {
  return of->settings->learn && (of->settings->gated || of->state->counts.at[CALIBRATED] == 0);
}

/* Whether the stretch ends after a number of rows: a new normal's always does. */
static int goes_by_rows(const reference *of) {
  return !of->settings->until || of->state->counts.at[BEGAN] > 0;
}

/* ℓ of the open block's rows from a place on, under the kernel subspace as it is; 0 where the reference
has not learned half its stretch. */
static int measure_residual(reference *of, int64_t place, int64_t many) {
  covariance_settings serving = *of->tracking;
  serving.learn = 0;
  fill(of->said.loss.at, 0.0, many);
  if (of->state->counts.at[SEEN] - of->state->counts.at[BEGAN] < of->settings->fit_rows) return 1;
  mat rows = rows_from(&of->state->rows, of->settings->lags - 1 + place, many);
  return covariance_run(&serving, &of->kernel, of->subspace, &rows, &of->said, &of->times) == KT_DONE;
}

/* Learn a whole block's good rows. */
static int learn(reference *of) {
  reference_state *state = of->state;
  int64_t many = 0, lags = of->settings->lags;
  int64_t since = state->counts.at[SEEN] - state->counts.at[BEGAN], fit_rows = of->settings->fit_rows;
  if (since > fit_rows) keep_measures(state);
  if (has_windows(state) && since <= fit_rows) keep_shapes(of->settings, state);
  if (has_windows(state) && since == fit_rows && !choose_window(of->settings, state)) return 0;
  if (!learn_block(of->settings, state)) return 0;
  for (int64_t place = 0; place < state->good.size; place++)
    if (state->good.at[place])
      copy(row_of(&of->learned, many++), row_of(&state->rows, lags - 1 + place), state->rows.columns);
  mat rows = {of->learned.at, many, state->rows.columns};
  return covariance_run(of->tracking, &of->kernel, of->subspace, &rows, &of->said, &of->times) ==
         KT_DONE;
}

/* Learn a whole block's good rows, and calibrate if that is due. */
static int end_block(reference *of) {
  const int64_t *counts = of->state->counts.at;
  if (of->settings->moves) return end_streams(of->settings, of->state);
  int learning = learns(of), made = counts[CALIBRATED] > 0;
  if (learning && !learn(of)) return 0;
  int ends = goes_by_rows(of) && counts[SEEN] - counts[BEGAN] == of->settings->rows;
  if (ends || (made && learning && counts[KEPT] >= counts[DUE]))
    return calibrate(of->settings, of->state);
  /* The evidence of a long stretch is rehearsed under the scores so far. */
  int rehearses = !made && counts[OFFERED] >= of->state->scores.columns;
  return !rehearses || calibrate_so_far(of->settings, of->state);
}

/* Whether the episode that is open is old enough to be the new normal. */
static int accepts(const reference *of) {
  const int64_t *counts = of->state->counts.at, after = of->settings->accept_after;
  return of->settings->learn && after > 0 && counts[OPENED] >= 0 &&
         counts[SEEN] - counts[OPENED] >= after;
}

/* Score rows of the open block, which are told behind `found` episodes; how many they are then. */
static int64_t run_piece(reference *of, const mat *rows, const int64_t *times, const int64_t *locals,
                         const int_table *said, int64_t done, reference_outputs *out,
                         reference_episodes *episodes, int64_t found) {
  reference_state *state = of->state;
  int64_t place = next_place(state), many = rows->rows;
  int64_t since = state->counts.at[SEEN] - state->counts.at[BEGAN];
  if (since == 0) state->times.at[FIRST_TIME] = times[0];
  if (of->settings->moves) {
    int64_t told =
        run_streams(of->settings, state, rows, times, locals, said, out, done, episodes, found);
    state->counts.at[SEEN] += many;
    return told < 0 ? told : found + told;
  }
  if (!embed_rows(of->settings, state, rows, times) || !measure_residual(of, place, many))
    return KT_NO_MEMORY;
  if (has_windows(state) && !measure_windows(of->settings, state, place, many)) return KT_NO_MEMORY;
  if (since >= of->settings->fit_rows) {
    copy(out->residual.at + done, of->said.loss.at, many);
    const double *measured = row_of(&state->measured, LONG) + place;
    for (int64_t n = 0; n < many; n++) out->distance.at[done + n] = sqrt(measured[n]);
  }
  vec residual = {of->said.loss.at, many};
  reference_stored stored = {rows_from(&of->subspace->support, 0, of->subspace->counts.at[SIZE]),
                             of->subspace->bandwidth.at[0]};
  int64_t more =
      watch_rows(of->settings, state, &stored, &residual, times, out, done, episodes, found);
  state->counts.at[SEEN] += many;
  return more < 0 ? more : found + more;
}

/* The mean of the scores of each row and those before it since the last gap, as many as are kept, the oldest
first: NaN until all of them have one. `seen`: rows before the first of these. */
static void settle(reference_state *state, int64_t seen, int64_t done, int64_t many,
                   reference_outputs *out) {
  double *recent = state->recent.at;
  int64_t kept = state->recent.size, first = (seen + state->counts.at[PAD]) % state->good.size;
  for (int64_t n = 0; n < many; n++) {
    int64_t newest = (seen + n) % kept, oldest = newest + 1;
    if (state->fresh.at[first + n]) fill(recent, NAN, kept);
    recent[newest] = out->score.at[done + n];
    double sum = entry_sum(recent + oldest, kept - oldest) + entry_sum(recent, oldest);
    out->settled.at[done + n] = sum / (double)kept;
  }
}

/* The means over time within the open block, which follow from those before it and its rows; `state` has room for
them, where the one that is kept has those before it. */
static void recall(const reference_settings *settings, reference_state *state, const mat *kept) {
  int64_t stop = next_place(state), since = state->counts.at[SEEN] - state->counts.at[BEGAN];
  copy(state->memory.at, kept->at, kept->columns);
  for (int64_t place = most_of(stop - since, 0); place < stop; place++)
    follow_means_of_mode(settings, state, place);
}

/* Hold rows against the reference, and let it learn, until all are done, there may be no room for what is
to be told of episodes, or one is old enough to be the new normal, at the end of a block. `reached`: how
many rows and episodes that was, and whether one is. `locals`: the times as clocks there show them; `said`: what
people said of episodes. */
KT_API int64_t kt_reference_run(const reference_settings *settings, reference_state *state,
                                const covariance_settings *tracking, covariance_state *subspace,
                                const mat *rows, const ints *times, const ints *locals,
                                const int_table *said, reference_outputs *out,
                                reference_episodes *episodes, ints *reached) {
  /* One that moves has no kernel subspace. */
  double bandwidth = settings->moves ? 1.0 : subspace->bandwidth.at[0];
  reference_state now = *state;
  reference of = {settings, &now, tracking, subspace, .kernel = {GAUSSIAN, 1.0 / bandwidth, 2, 1.0}};
  int64_t block = state->good.size, done = 0, found = 0, accepted = 0;
  arena scratch = {0};
  lay_out(&of, &scratch);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  lay_out(&of, &scratch);
  recall(settings, &now, &state->memory);
  while (done < rows->rows && !accepted && found >= 0) {
    int64_t many = least_of(block - next_place(state), rows->rows - done);
    if (found + many > episodes->number.size) break;
    mat piece = rows_from(rows, done, many);
    int64_t seen = state->counts.at[SEEN];
    found = run_piece(&of, &piece, times->at + done, locals->at + done, said, done, out, episodes, found);
    settle(&now, seen, done, many, out);
    done += many;
    if (found < 0 || next_place(state) != 0) continue;
    if (!end_block(&of)) found = KT_NO_MEMORY;
    accepted = accepts(&of);
    /* A new normal is made of this block's rows. */
    if (!accepted) roll_block(settings, &now);
  }
  copy(state->memory.at, now.memory.at, state->memory.columns);
  give_back(&scratch);
  if (found < 0) return found;
  reached->at[0] = done;
  reached->at[1] = found;
  reached->at[2] = accepted;
  return KT_DONE;
}

/* The same of many models, one after the other; what is said of each has a place of its own. */
KT_API int64_t kt_reference_run_each(const reference_settings *settings, const int64_t *models,
                                     reference_state *states, const covariance_settings *tracking,
                                     covariance_state *subspaces, const mat *rows, const ints *times,
                                     const ints *locals, const int_table *said,
                                     reference_outputs *outs, reference_episodes *episodes,
                                     ints *reached) {
  for (int64_t m = 0; m < *models; m++) {
    int64_t done = kt_reference_run(settings, &states[m], tracking, &subspaces[m], &rows[m], &times[m],
                                    &locals[m], &said[m], &outs[m], &episodes[m], &reached[m]);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}

/* Make the calibration where an event time ends the stretch. */
KT_API int64_t kt_reference_calibrate(const reference_settings *settings, reference_state *state) {
  return calibrate(settings, state) ? KT_DONE : KT_NO_MEMORY;
}
