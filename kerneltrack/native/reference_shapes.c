/* The window view of a reference that moves: the shapes of the rows that it remembers, which move with them. Equations
and symbols are in `kerneltrack/monitor/reference/__init__.py`. */
#include <math.h>

#include "reference_streams.h"

/* What the distance from the nearest shape counts beside d, of one channel; of several over the square of their number,
as so many ties are among what d sees. */
#define SHAPE_WEIGHT 12.0

void score_window(const reference_settings *settings, const reference_state *state, moving_work *work,
                  int64_t place, int64_t followed) {
  int64_t windows = windows_of(state), watched = (state->mean.size - work->given) / work->own;
  double square = distance_of_window(settings, state, place, followed, &work->window);
  double part = 1.0, weight = SHAPE_WEIGHT / (double)(watched * watched);
  work->scores[windows] = square < 0.0 ? NO_WINDOW : sqrt(square);
  if (square >= 0.0 && work->usual_window > 0.0) part = work->scores[windows] / work->usual_window;
  /* d is about the root of how many entries it is made of. */
  double usual = sqrt((double)(state->mean.size - work->given));
  work->scores[0] = fma(weight * usual, part, work->scores[0]) / (1.0 + weight);
}

/* What follows is of another piece than the rows so far. */
static void break_off(reference_state *state) {
  int64_t kept = state->counts.at[SHAPE_ROWS];
  if (kept > 0 && isfinite(row_of(&state->shapes, 0)[kept - 1])) keep_row(state, NULL);
}

static void drop_oldest(reference_state *state, int64_t many) {
  int64_t kept = state->counts.at[SHAPE_ROWS] -= many;
  for (int64_t d = 0; d < state->shapes.rows; d++) {
    double *values = row_of(&state->shapes, d);
    for (int64_t n = 0; n < kept; n++) values[n] = values[n + many];
    fill(values + kept, 0.0, many);
  }
  state->counts.at[SHAPES_WAITING] = least_of(state->counts.at[SHAPES_WAITING], kept);
}

/* An episode began among the rows that wait. */
static void drop_waiting(reference_state *state) {
  int64_t *counts = state->counts.at, many = counts[SHAPES_WAITING];
  counts[SHAPE_ROWS] -= many;
  counts[SHAPES_WAITING] = 0;
  for (int64_t d = 0; d < state->shapes.rows; d++)
    fill(row_of(&state->shapes, d) + counts[SHAPE_ROWS], 0.0, many);
}

void keep_waiting_shapes(const reference_settings *settings, reference_state *state, double memory) {
  int64_t *counts = state->counts.at, block = state->good.size;
  if (status_of(state)[WAITING] < 0) drop_waiting(state);
  /* A row may begin another piece. */
  int64_t most = least_of(state->shapes.columns, (int64_t)memory) - 2 * block;
  if (counts[SHAPE_ROWS] > most) drop_oldest(state, counts[SHAPE_ROWS] - most);
  int64_t before = counts[SHAPE_ROWS];
  for (int64_t place = 0; place < block; place++) {
    if (!state->good.at[place] || state->fresh.at[place]) break_off(state);
    if (state->good.at[place]) keep_row(state, row_of(&state->rows, settings->lags - 1 + place));
  }
  counts[SHAPES_WAITING] += counts[SHAPE_ROWS] - before;
}

/* Whether so many rows have one binary digit more than those. */
static int has_doubled(int64_t many, int64_t before) {
  while (many > 1 && before > 1) {
    many /= 2;
    before /= 2;
  }
  return many > 1;
}

/* Scores of windows of another length are of no use. */
static void forget_windows(reference_state *state) {
  int64_t windows = windows_of(state);
  double *held = row_of(&state->evidences, windows);
  fill(row_of(&state->tally, windows), 0.0, state->tally.columns);
  fill(row_of(&state->heights, windows), 0.0, state->heights.columns);
  held[MOVING_SUM] = held[MOVING_TOP] = held[MOVING_BEST] = 0.0;
}

int learn_shapes(const reference_settings *settings, reference_state *state) {
  int64_t *length = &state->counts.at[WINDOW_LENGTH], was = *length, before = known_rows(state);
  state->counts.at[SHAPES_WAITING] = 0;
  int chosen = was > 0 && (status_of(state)[ARMED] || settings->window > 0);
  if (chosen || !has_doubled(known_rows(state), before)) return 1;
  if (state->counts.at[OPENED] >= 0) return 1;
  if (!choose_window(settings, state)) return 0;
  if (*length != was) forget_windows(state);
  return 1;
}
