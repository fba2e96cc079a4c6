/* The window view of a reference: how far the shape of the last rows is from the nearest of the shapes that
the first half of the stretch had. Equations and symbols are in `kerneltrack/monitor/reference/__init__.py`. */
#include <math.h>

#include "elementary.h"
#include "reference.h"
#include "vec.h"

/* Shapes that a window is held against, at most, four that follow one another each. */
#define MOST_SHAPES 1024
/* Rows of a window that are compared, evenly spaced: as many as make so many numbers, within these bounds. */
#define POINT_NUMBERS 128
#define FEWEST_POINTS 4
#define MOST_POINTS 32
/* Periods that are looked for; what is as long without one; the shortest window that is found. */
#define SHORTEST_PERIOD 3
#define LONGEST_PERIOD 300
#define NO_PERIOD 125
#define SHORTEST_WINDOW 32
/* A window that is found is at most this part of the rows whose shapes are kept. */
#define WINDOW_PART 4
#define VAST 1e300

window_rows make_window_rows(arena *from, const reference_state *state) {
  int64_t width = state->rows.columns;
  return (window_rows){reals(from, MOST_POINTS * width), wholes(from, MOST_POINTS), 0};
}

/* A scaled row so many rows before a place of the open block. */
static const double *row_before(const reference_settings *settings, const reference_state *state,
                                int64_t place, int64_t back) {
  int64_t at = place - back;
  if (at >= 0) return row_of(&state->rows, settings->lags - 1 + at);
  return row_of(&state->before, state->before.rows + at);
}

static void take_window(const reference_settings *settings, const reference_state *state, int64_t place,
                        window_rows *window) {
  int64_t width = state->rows.columns, length = state->counts.at[WINDOW_LENGTH];
  int64_t most = least_of(most_of(POINT_NUMBERS / width, FEWEST_POINTS), MOST_POINTS);
  int64_t points = window->points = least_of(length, most);
  for (int64_t k = 0; k < points; k++) {
    window->back[k] = k * (length - 1) / (points - 1);
    const double *row = row_before(settings, state, place, window->back[k]);
    for (int64_t d = 0; d < width; d++) window->now[d * points + k] = row[d];
  }
}

/* The squared distances of a channel from four shapes, which end at a row and the next three, both without their
means. NaN where a shape has a gap in it. */
static v4 apart(const reference_state *state, const window_rows *window, int64_t channel, int64_t end) {
  const double *now = window->now + channel * window->points;
  const double *shapes = row_of(&state->shapes, channel) + end;
  v4 sum = all4(0.0), squares = sum, share = all4(-1.0 / (double)window->points);
  for (int64_t k = 0; k < window->points; k++) {
    v4 away = all4(now[k]) - load4(shapes - window->back[k]);
    sum += away;
    squares = fma4(away, away, squares);
  }
  v4 rest = fma4(sum * sum, share, squares);
  return choose4(rest < all4(0.0), all4(0.0), rest);
}

/* The row that the nearest shape ends at, -1 where there is none, and the squared distance from it. */
static int64_t nearest_shape(const reference_state *state, const window_rows *window, double *nearest) {
  int64_t length = state->counts.at[WINDOW_LENGTH], found = -1;
  int64_t ends = known_rows(state) - length + 1, fours = (ends + LANES - 1) / LANES;
  int64_t many = ends < LANES ? 0 : least_of(fours, MOST_SHAPES / LANES);
  *nearest = VAST;
  for (int64_t n = 0; n < many; n++) {
    int64_t first = many > 1 ? n * (fours - 1) / (many - 1) * LANES : 0;
    int64_t end = length - 1 + least_of(first, ends - LANES);
    v4 sums = all4(0.0);
    for (int64_t d = 0; d < state->rows.columns; d++)
      if (!state->causes.at[d]) sums += apart(state, window, d, end);
    for (int lane = 0; lane < LANES; lane++) {
      if (!(sums[lane] < *nearest)) continue;
      *nearest = sums[lane];
      found = end + lane;
    }
  }
  return found;
}

int64_t rows_since_gap(const reference_state *state, int64_t place, int64_t since) {
  int64_t here = least_of(place, since);
  for (int64_t n = 0; n < here; n++)
    if (state->fresh.at[place - 1 - n]) return n + 1;
  return here + state->counts.at[FOLLOWED];
}

/* Rows before the open call. */
static int64_t rows_before(const reference_state *state) {
  return state->counts.at[SEEN] - state->counts.at[BEGAN];
}

double distance_of_window(const reference_settings *settings, const reference_state *state, int64_t place,
                      int64_t followed, window_rows *window) {
  int64_t length = state->counts.at[WINDOW_LENGTH];
  double nearest;
  if (length == 0 || followed < length) return NO_WINDOW;
  take_window(settings, state, place, window);
  return nearest_shape(state, window, &nearest) < 0 ? NO_WINDOW : nearest;
}

int measure_windows(const reference_settings *settings, reference_state *state, int64_t place, int64_t many) {
  arena scratch = {0};
  make_window_rows(&scratch, state);
  if (!take_block(&scratch)) return 0;
  window_rows window = make_window_rows(&scratch, state);
  int64_t followed = rows_since_gap(state, place, rows_before(state));
  double *measured = row_of(&state->measured, WINDOW);
  for (int64_t at = place; at < place + many; at++) {
    followed = state->fresh.at[at] ? 1 : followed + 1;
    measured[at] = distance_of_window(settings, state, at, followed, &window);
  }
  give_back(&scratch);
  return 1;
}

void parts_of_window(const reference_settings *settings, const reference_state *state, int64_t place,
                     window_rows *window, double *parts) {
  double nearest;
  take_window(settings, state, place, window);
  int64_t end = nearest_shape(state, window, &nearest);
  int64_t first = least_of(end, known_rows(state) - LANES);
  for (int64_t d = 0; d < state->rows.columns; d++)
    parts[d] = end < 0 || state->causes.at[d] ? 0.0 : apart(state, window, d, first)[end - first];
}

int window_parts(const reference_settings *settings, const reference_state *state, int64_t place,
                 double *parts) {
  arena scratch = {0};
  make_window_rows(&scratch, state);
  if (!take_block(&scratch)) return 0;
  window_rows window = make_window_rows(&scratch, state);
  parts_of_window(settings, state, place, &window, parts);
  give_back(&scratch);
  return 1;
}

/* How like themselves the kept rows are after so many rows, each channel by its variance. */
static double likeness(const reference_state *state, const double *means, const double *variances, int64_t lag) {
  double all = 0.0;
  for (int64_t d = 0; d < state->shapes.rows; d++) {
    const double *values = row_of(&state->shapes, d);
    double sum = 0.0;
    for (int64_t n = lag; n < known_rows(state); n++) {
      double product = (values[n] - means[d]) * (values[n - lag] - means[d]);
      if (isfinite(product)) sum += product;
    }
    if (variances[d] > 0.0 && !state->causes.at[d]) all += sum / variances[d];
  }
  return all;
}

/* The lag at which the kept rows are most like themselves, a local maximum. */
static int64_t find_period(const reference_state *state, double *means, double *variances) {
  int64_t many = known_rows(state);
  for (int64_t d = 0; d < state->shapes.rows; d++) {
    const double *values = row_of(&state->shapes, d);
    double sum = 0.0, squares = 0.0, count = 0.0;
    for (int64_t n = 0; n < many; n++) {
      if (!isfinite(values[n])) continue;
      count += 1.0;
      sum += values[n];
    }
    means[d] = sum / larger(count, 1.0);
    for (int64_t n = 0; n < many; n++) {
      double away = values[n] - means[d];
      if (isfinite(away)) squares = fma(away, away, squares);
    }
    variances[d] = squares;
  }
  int64_t found = NO_PERIOD, last = least_of(LONGEST_PERIOD + 1, many / 2);
  double most = -VAST, before = likeness(state, means, variances, SHORTEST_PERIOD - 1);
  double here = likeness(state, means, variances, SHORTEST_PERIOD);
  for (int64_t lag = SHORTEST_PERIOD; lag < last; lag++) {
    double after = likeness(state, means, variances, lag + 1);
    if (here > before && here > after && here > most) {
      most = here;
      found = lag;
    }
    before = here;
    here = after;
  }
  return found;
}

int choose_window(const reference_settings *settings, reference_state *state) {
  int64_t width = state->shapes.rows, most = known_rows(state) / WINDOW_PART;
  int64_t *length = &state->counts.at[WINDOW_LENGTH];
  arena scratch = {0};
  double *means = reals(&scratch, width), *variances = reals(&scratch, width);
  if (!take_block(&scratch)) return 0;
  means = reals(&scratch, width);
  variances = reals(&scratch, width);
  *length = settings->window;
  if (settings->window < 0)
    *length = least_of(most_of(find_period(state, means, variances), SHORTEST_WINDOW), most);
  /* After gaps there may be too few rows of one piece. */
  if (*length > known_rows(state) || *length < FEWEST_POINTS) *length = 0;
  give_back(&scratch);
  return 1;
}

void keep_row(reference_state *state, const double *row) {
  int64_t *kept = &state->counts.at[SHAPE_ROWS];
  if (*kept == state->shapes.columns) return;
  for (int64_t d = 0; d < state->shapes.rows; d++) row_of(&state->shapes, d)[*kept] = row ? row[d] : NAN;
  *kept += 1;
}

void keep_shapes(const reference_settings *settings, reference_state *state) {
  for (int64_t place = 0; place < state->good.size; place++) {
    if (!state->good.at[place]) continue;
    if (state->fresh.at[place]) keep_row(state, NULL);
    keep_row(state, row_of(&state->rows, settings->lags - 1 + place));
  }
}

void roll_windows(const reference_settings *settings, reference_state *state) {
  int64_t block = state->good.size, most = state->before.rows;
  state->counts.at[FOLLOWED] = least_of(rows_since_gap(state, block, rows_before(state)), most);
  for (int64_t n = 0; n < most; n++)
    copy(row_of(&state->before, n), row_before(settings, state, block, most - n), state->before.columns);
}
