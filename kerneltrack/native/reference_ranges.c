/* Which values the causes had in the rows that a reference that moves has learned. What the other channels usually are
at further values is not known. */
#include "reference_streams.h"

/* Rows are learned a day's at a time; a value is known if one of the last days went as far. */
#define DAYS 16

/* Of each cause: its channel; the rows that wait to be learned, and its lowest and highest value in them; the lowest
and the highest that is known; the lowest of each of the last days that were learned, the newest first, and the
highest. What is known follows from the days: it is kept so that a value of a row costs two comparisons, not two of
each day. */
enum {
  RANGE_CHANNEL,
  RANGE_WAITING,
  RANGE_LOWEST,
  RANGE_HIGHEST,
  KNOWN_LOW,
  KNOWN_HIGH,
  LOWEST_OF_DAYS,
  HIGHEST_OF_DAYS = LOWEST_OF_DAYS + DAYS
};

int is_beyond(const reference_settings *settings, const reference_state *state, int64_t place) {
  const double *row = row_of(&state->rows, settings->lags - 1 + place), *means = row_of(&state->memory, place + 1);
  for (int64_t i = 0; i < state->ranges.rows; i++) {
    const double *range = row_of(&state->ranges, i);
    int64_t channel = (int64_t)range[RANGE_CHANNEL];
    for (int64_t m = -1; m < means_of(state); m++) {
      double value = m < 0 ? row[channel] : means[m * state->rows.columns + channel];
      if (value < range[KNOWN_LOW] || value > range[KNOWN_HIGH]) return 1;
    }
  }
  return 0;
}

static void forget_waiting_range(double *range) {
  range[RANGE_WAITING] = 0.0;
  range[RANGE_LOWEST] = INFINITY;
  range[RANGE_HIGHEST] = -INFINITY;
}

void forget_waiting_ranges(reference_state *state) {
  for (int64_t i = 0; i < state->ranges.rows; i++) forget_waiting_range(row_of(&state->ranges, i));
}

/* The rows that wait were learned: those of a day. */
static void learn_range(double *range) {
  for (int64_t i = DAYS - 1; i > 0; i--) {
    range[LOWEST_OF_DAYS + i] = range[LOWEST_OF_DAYS + i - 1];
    range[HIGHEST_OF_DAYS + i] = range[HIGHEST_OF_DAYS + i - 1];
  }
  range[LOWEST_OF_DAYS] = range[KNOWN_LOW] = range[RANGE_LOWEST];
  range[HIGHEST_OF_DAYS] = range[KNOWN_HIGH] = range[RANGE_HIGHEST];
  for (int64_t i = 1; i < DAYS; i++) {
    range[KNOWN_LOW] = smaller(range[KNOWN_LOW], range[LOWEST_OF_DAYS + i]);
    range[KNOWN_HIGH] = larger(range[KNOWN_HIGH], range[HIGHEST_OF_DAYS + i]);
  }
  forget_waiting_range(range);
}

void learn_ranges(const reference_settings *settings, reference_state *state, double wait) {
  for (int64_t i = 0; i < state->ranges.rows; i++) {
    double *range = row_of(&state->ranges, i);
    for (int64_t place = 0; place < state->good.size; place++) {
      if (!state->good.at[place]) continue;
      double value = row_of(&state->rows, settings->lags - 1 + place)[(int64_t)range[RANGE_CHANNEL]];
      range[RANGE_WAITING] += 1.0;
      range[RANGE_LOWEST] = smaller(range[RANGE_LOWEST], value);
      range[RANGE_HIGHEST] = larger(range[RANGE_HIGHEST], value);
    }
    if (range[RANGE_WAITING] >= larger(wait, 1.0)) learn_range(range);
  }
}
