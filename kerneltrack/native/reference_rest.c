/* Rows that open no episode although their mode or state is known: a device at rest, seldom, and the rows after it and
after another mode has begun. What they are like was seen on too few days to say how odd one of them is. */
#include "reference_streams.h"

/* A value is a bound once it was repeated so often in a row, and none was further out. It says that the device is at
rest where it has so many rows; so many times as many as lie within such a part of a deviation of it; and no more than
such a part of all. */
#define REPEATS 2
#define LEAST_ROWS 6.0
#define CLEARLY 3.0
#define NEAR 0.5
#define SELDOM 0.3
/* Channels that say so at once, at least, and one of so many: a single one may be a sensor that fails. */
#define FEWEST_CHANNELS 2
#define CHANNELS_PART 4
/* Spells that are apart before those that follow are known; how long one is at least, how far two are apart, and for
how long a spell is held to be rest, in parts of a memory: half an hour, six hours and two days of fourteen. */
#define KNOWN_SPELLS 2.0
#define LEAST_PART_OF_MEMORY 672.0
#define APART_PART 56.0
#define MOST_PART 7.0
/* Rows after a spell that are held, for each of its rows, and at most. */
#define HELD_PART 2.0
#define MOST_HELD 150.0
/* Rows after another mode begins that are held: such a part of those since the last one began. */
#define TURN_PART 4.0

/* The bound of each channel, first below, then above: the value, upwards or downwards; rows that had it, and that came
near it; spells; the row that the last one began with; rows of the one that goes on. In the row behind them: rows yet
to be held, the row that another mode began with, and rows at rest of those that go on. */
enum { BOUND, BOUND_ROWS, BOUND_NEAR, SPELLS, SPELL_ROW, SPELL_LENGTH };
enum { ROWS_HELD, TURN_ROW, RESTED };

static double *held_rows(reference_state *state) { return row_of(&state->rest, state->rest.rows - 1); }

/* What a value says of a bound. */
static void count_value(double *bound, double value, int64_t repeats) {
  if (repeats >= REPEATS && (!(bound[BOUND_ROWS] > 0.0) || value > bound[BOUND])) {
    fill(bound, 0.0, SPELL_LENGTH + 1);
    bound[BOUND] = value;
    bound[BOUND_ROWS] = 1.0;
  } else if (!(bound[BOUND_ROWS] > 0.0)) {
    return;
  } else if (value == bound[BOUND]) {
    bound[BOUND_ROWS] += 1.0;
  } else if (value > bound[BOUND] - NEAR) {
    bound[BOUND_NEAR] += 1.0;
  }
}

static int says_rest(const double *bound, double since) {
  double rows = bound[BOUND_ROWS];
  return rows >= LEAST_ROWS && rows >= CLEARLY * bound[BOUND_NEAR] && rows < SELDOM * since;
}

/* Follow the spells at a bound. Whether the device is at rest by it. */
static int follow_spells(double *bound, double value, double since, double memory, int learns) {
  if (value != bound[BOUND]) {
    bound[SPELL_LENGTH] = 0.0;
    return 0;
  }
  bound[SPELL_LENGTH] += 1.0;
  double known = bound[SPELLS], began = since + 1.0 - bound[SPELL_LENGTH];
  int is_long = bound[SPELL_LENGTH] >= larger(memory / LEAST_PART_OF_MEMORY, LEAST_ROWS);
  int is_apart = known == 0.0 || began - bound[SPELL_ROW] > memory / APART_PART;
  if (learns && is_long && is_apart) {
    bound[SPELLS] += 1.0;
    bound[SPELL_ROW] = began;
  } else if (known > 0.0 && bound[SPELL_ROW] == began) {
    known -= 1.0;
  }
  return known >= KNOWN_SPELLS && says_rest(bound, since) && bound[SPELL_LENGTH] < memory / MOST_PART;
}

/* How many channels stand at a bound at which the device is at rest, and how many could. */
static int64_t resting_channels(const reference_settings *settings, reference_state *state, const double *row,
                                double since, int64_t *many) {
  double memory = (double)status_of(state)[REMEMBERED];
  int64_t resting = 0;
  *many = 0;
  for (int64_t d = 0; d < state->rows.columns; d++) {
    if (state->causes.at[d]) continue;
    int rests = 0;
    for (int64_t side = 0; side < 2; side++) {
      double *bound = row_of(&state->rest, 2 * d + side), value = side ? row[d] : -row[d];
      /* Most values are far from both bounds, and are no new one. */
      if (state->runs.at[d] < REPEATS && !(value > bound[BOUND] - NEAR)) {
        bound[SPELL_LENGTH] = 0.0;
        continue;
      }
      if (settings->learn) count_value(bound, value, state->runs.at[d]);
      if (bound[BOUND_ROWS] > 0.0) rests |= follow_spells(bound, value, since, memory, settings->learn);
    }
    resting += rests;
    *many += 1;
  }
  return resting;
}

int is_at_rest(const reference_settings *settings, reference_state *state, const double *row, double since) {
  double *held = held_rows(state);
  int64_t many, resting = resting_channels(settings, state, row, since, &many);
  if (resting >= FEWEST_CHANNELS && resting * CHANNELS_PART >= many) {
    held[RESTED] += 1.0;
    return 1;
  }
  held[ROWS_HELD] = larger(held[ROWS_HELD], smaller(HELD_PART * held[RESTED], MOST_HELD));
  held[RESTED] = 0.0;
  return is_held(state);
}

void hold_after_turn(reference_state *state, double since) {
  double *held = held_rows(state);
  held[ROWS_HELD] = larger(held[ROWS_HELD], smaller((since - held[TURN_ROW]) / TURN_PART, MOST_HELD));
  held[TURN_ROW] = since;
}

int is_held(reference_state *state) {
  double *held = held_rows(state);
  if (!(held[ROWS_HELD] >= 1.0)) return 0;
  held[ROWS_HELD] -= 1.0;
  return 1;
}
