/* The modes of a reference that moves: what is learned of each, and the mode that a row is of. */
#include "reference_streams.h"

part part_of(reference_state *state, int64_t mode) {
  int64_t *counts = state->counts.at, many = modes_of(state), since = counts[SEEN] - counts[BEGAN];
  part of = {.state = *state, .learned = &counts[LEARNED], .waiting = &status_of(state)[WAITING]};
  of.sorted = &counts[SORTED];
  of.unit = &state->reals.at[MEANS + LONG];
  of.rows = of.since = since;
  if (many == 0) return of;
  int64_t *numbers = state->modes.at + mode * MODE_NUMBERS, width = state->rows.columns;
  vec *mean = &of.state.mean;
  ints *runs[] = {&of.state.runs, &of.state.longest, &of.state.repeated};
  mat *tables[] = {&of.state.scatter, &of.state.whitener, &of.state.waiting, &of.state.tally};
  *mean = (vec){mean->at + mode * (mean->size / many), mean->size / many};
  for (int i = 0; i < 3; i++) *runs[i] = (ints){runs[i]->at + mode * width, width};
  for (int i = 0; i < 4; i++) {
    int64_t rows = tables[i]->rows / many;
    *tables[i] = rows_from(tables[i], mode * rows, rows);
  }
  of.learned = &numbers[MODE_LEARNED];
  of.waiting = &numbers[MODE_WAITING];
  of.sorted = &numbers[MODE_SORTED];
  of.unit = &state->units.at[mode];
  of.rows = numbers[MODE_ROWS];
  of.since = counts[SEEN] - numbers[MODE_FIRST];
  return of;
}

int64_t find_mode(const reference_settings *settings, reference_state *state, double code,
                  int64_t row) {
  int64_t many = modes_of(state), *status = mode_status(state);
  for (int64_t mode = 0; mode < many; mode++) {
    int64_t *numbers = state->modes.at + mode * MODE_NUMBERS;
    if (numbers[MODE_ROWS] > 0 && state->codes.at[mode] != code) continue;
    if (!settings->learn) return numbers[MODE_ROWS] > 0 ? mode : NO_MODE;
    if (numbers[MODE_ROWS]++ == 0) {
      state->codes.at[mode] = code;
      numbers[MODE_FIRST] = row;
    }
    return mode;
  }
  state->codes.at[many] = code;
  status[MODE_UNPLACED] += 1;
  return NO_MODE;
}

void keep_means(reference_state *state, int64_t place) {
  copy(row_of(&state->memory, place + 1), row_of(&state->memory, place), state->memory.columns);
}

void follow_means_of_mode(const reference_settings *settings, reference_state *state, int64_t place) {
  int64_t mode = mode_at(state, place);
  if (mode == NO_MODE) {
    keep_means(state, place);
    return;
  }
  part of = part_of(state, mode);
  follow_means(&of.state, settings->lags, place);
}
