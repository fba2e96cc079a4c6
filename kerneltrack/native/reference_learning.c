/* A reference that moves learns at the end of a block. */
#include <math.h>

#include "linalg.h"
#include "reference_streams.h"

/* Rows that a memory in time has, at least and at most; where rows have no times. */
#define LEAST_MEMORY 1024.0
#define MOST_MEMORY 1e7
#define OWN_MEMORY 4032.0
/* Rows wait to be learned until they are such a part of the memory, and of the rows so far. */
#define WAIT_PART 14.0
#define WAIT_AT_FIRST 8.0
/* The first days, ns; if rows come so often that these have so many times the rows of the stretch, that many scores
of them are kept. */
#define FIRST_DAYS (2.0 * 86400.0 * 1e9)
#define MANY_STRETCHES 8
#define FIRST_SCORES 64.0

/* The rows that count fully, by the pace of those so far where the memory is a time. */
static double memory_of(const reference_settings *settings, const reference_state *state) {
  if (settings->memory > 0) return (double)settings->memory;
  int64_t since = state->counts.at[SEEN] - state->counts.at[BEGAN];
  double pace = pace_of(state, since, state->times.at[NEWEST_TIME]);
  if (!(pace > 0.0)) return OWN_MEMORY;
  return smaller(larger(floor((double)settings->memory_time / pace), LEAST_MEMORY), MOST_MEMORY);
}

double memory_of_part(const reference_state *state, const part *of, double memory) {
  if (modes_of(state) == 0) return memory;
  double share = (double)of->rows / (double)most_of(of->since, 1);
  return larger(floor(memory * smaller(share, 1.0)), LEAST_MEMORY);
}

/* Rows that are added up at a time, which the nearest caches hold, and sums of two rows of products, in registers. */
enum { SIDE_BY_SIDE = 16, WIDE = 16 };

/* Add ee' of each of some rows e to sums, one after the other, at least to their lower triangle. Both have
columns for whole `WIDE`, and the sums an even number of rows. */
static void add_squares_of(const mat *rows, mat *sums) {
  for (int64_t i = 0; i < sums->rows; i += 2)
    for (int64_t at = 0; at <= i + 1; at += WIDE) {
      v4 first[WIDE / LANES], second[WIDE / LANES];
      double *to = row_of(sums, i) + at, *below = row_of(sums, i + 1) + at;
      UNROLLED
      for (int t = 0; t < WIDE / LANES; t++) {
        first[t] = load4(to + LANES * t);
        second[t] = load4(below + LANES * t);
      }
      for (int64_t n = 0; n < rows->rows; n++) {
        const double *e = row_of(rows, n);
        v4 one = all4(e[i]), other = all4(e[i + 1]);
        UNROLLED
        for (int t = 0; t < WIDE / LANES; t++) {
          v4 values = load4(e + at + LANES * t);
          first[t] = fma4(one, values, first[t]);
          second[t] = fma4(other, values, second[t]);
        }
      }
      UNROLLED
      for (int t = 0; t < WIDE / LANES; t++) {
        store4(to + LANES * t, first[t]);
        store4(below + LANES * t, second[t]);
      }
    }
}

/* Add the open block's good rows of a mode to what waits to be learned: Σ(e - m), Σ(e - m)(e - m)ᵀ. O(128E²) */
static int wait_with_rows(const reference_settings *settings, part *of, int64_t mode) {
  reference_state *state = &of->state;
  int64_t size = state->mean.size;
  arena scratch = {0};
  int64_t wide = (size + WIDE - 1) / WIDE * WIDE;
  table(&scratch, SIDE_BY_SIDE, wide);
  table(&scratch, wide, wide);
  if (!take_block(&scratch)) return 0;
  mat rows = table(&scratch, SIDE_BY_SIDE, wide), sums = table(&scratch, wide, wide);
  double *products = state->waiting.at + size;
  sums.rows = (size + 1) / 2 * 2;
  for (int64_t i = 0; i < size; i++) copy(row_of(&sums, i), lower_row(products, i), i + 1);
  rows.rows = 0;
  for (int64_t place = 0; place < state->good.size; place++) {
    if (state->good.at[place] && mode_at(state, place) == mode) {
      double *e = row_of(&rows, rows.rows++);
      embed(state, settings->lags, place, e);
      add_scaled(state->waiting.at, 1.0, e, size);
    }
    if (rows.rows < SIDE_BY_SIDE && place + 1 < state->good.size) continue;
    add_squares_of(&rows, &sums);
    *of->waiting += rows.rows;
    rows.rows = 0;
  }
  for (int64_t i = 0; i < size; i++) copy(lower_row(products, i), row_of(&sums, i), i + 1);
  give_back(&scratch);
  return 1;
}

/* Nothing waits: it was learned, or an episode began among it. */
static void forget_waiting(part *of) {
  fill(of->state.waiting.at, 0.0, of->state.waiting.rows * of->state.waiting.columns);
  *of->waiting = 0;
}

void fade_learned(part *of, double memory) {
  if ((double)*of->learned <= memory) return;
  scale_all(of->state.scatter.at, memory / (double)*of->learned, of->state.scatter.columns);
  *of->learned = (int64_t)memory;
}

/* Each channel's deviation over its entries of e, in the unit of its first rows, which may be those of a quiet night;
1 at least. O(E) */
static void find_deviations(const part *of, double *deviations) {
  int64_t size = of->state.mean.size, width = of->state.rows.columns;
  double all = (double)most_of(*of->learned, 1) * (double)(size / width);
  fill(deviations, 0.0, width);
  for (int64_t i = 0; i < size; i++) deviations[i % width] += lower_row(of->state.scatter.at, i)[i] / all;
  for (int64_t d = 0; d < width; d++) deviations[d] = sqrt(larger(deviations[d], 1.0));
}

int find_whitener(const reference_settings *settings, part *of) {
  reference_state *state = &of->state;
  int64_t size = state->mean.size, width = state->rows.columns;
  arena scratch = {0};
  for (int i = 0; i < 3; i++) table(&scratch, size, size);
  wholes(&scratch, size);
  reals(&scratch, width);
  if (!take_block(&scratch)) return 0;
  mat half = table(&scratch, size, size), other = table(&scratch, size, size), root = table(&scratch, size, size);
  int64_t *places = wholes(&scratch, size);
  double *deviations = reals(&scratch, width);
  order_causes(state, places);
  find_deviations(of, deviations);
  double all = (double)most_of(*of->learned, 1);
  for (int64_t i = 0; i < size; i++)
    for (int64_t j = 0; j <= i; j++) {
      int64_t a = places[i], b = places[j];
      double unit = deviations[i % width] * deviations[j % width];
      row_of(&half, most_of(a, b))[least_of(a, b)] = lower_row(state->scatter.at, i)[j] / (all * unit);
    }
  inverse_cholesky(&half, size, settings->ridge, &half, &root, &other);
  for (int64_t i = 0; i < size; i++)
    for (int64_t k = places[i]; k < size; k++)
      lower_row(state->whitener.at, k)[places[i]] = row_of(&root, k)[places[i]] / deviations[i % width];
  give_back(&scratch);
  return 1;
}

/* Learn what waited, with a memory; m and the scatter about it, and W anew. O(E³) */
static int learn_waiting(const reference_settings *settings, part *of, double memory) {
  reference_state *state = &of->state;
  int64_t size = state->mean.size;
  fade_learned(of, memory);
  *of->learned += *of->waiting;
  double all = (double)most_of(*of->learned, 1);
  const double *sum = state->waiting.at;
  for (int64_t i = 0; i < size; i++) {
    double *row = lower_row(state->scatter.at, i);
    add_scaled(row, 1.0, lower_row(state->waiting.at + size, i), i + 1);
    add_scaled(row, -sum[i] / all, sum, i + 1);
  }
  add_scaled(state->mean.at, 1.0 / all, sum, size);
  if (!find_whitener(settings, of)) return 0;
  forget_waiting(of);
  return 1;
}

/* Whether a mode has scores enough for rows to have a p; that of all rows where there are no modes. */
static void make(const reference_settings *settings, reference_state *state, int64_t mode,
                 const part *of) {
  if (of->rows < settings->rows || *of->sorted == 0) return;
  int64_t enough = least_of(settings->rows - settings->fit_rows, state->calibration.columns);
  if (modes_of(state) == 0) {
    if (state->counts.at[CALIBRATED] == 0) state->counts.at[CALIBRATED] = *of->sorted;
  } else if (*of->sorted >= enough) {
    state->modes.at[mode * MODE_NUMBERS + MODE_MADE] = 1;
  }
}

/* Whether the block is the one in which the first days end, of a device whose rows come so often that the
first scores, which are by some hours of a day alone, are many. */
static int ends_first_days(const reference_settings *settings, const reference_state *state) {
  double first = (double)state->times.at[FIRST_TIME];
  double before = (double)state->times.at[STRETCH_TIME] - first, now = (double)state->times.at[NEWEST_TIME] - first;
  int64_t since = state->counts.at[SEEN] - state->counts.at[BEGAN];
  return !status_of(state)[ARMED] && before < FIRST_DAYS && now >= FIRST_DAYS && since >= MANY_STRETCHES * settings->rows;
}

/* How many rows wait, so that a fault is noticed before it is learned: a day, of fourteen that are remembered. */
static double wait_of(double memory, int64_t rows) {
  return smaller(memory / WAIT_PART, (double)rows / WAIT_AT_FIRST);
}

/* Learn the open block's good rows of a mode, and their scores; false where memory is short. */
static int end_part(const reference_settings *settings, reference_state *state, int64_t mode,
                    double memory) {
  part of = part_of(state, mode);
  if (modes_of(state) > 0 && of.rows == 0) return 1;
  double own = memory_of_part(state, &of, memory);
  int64_t since = modes_of(state) > 0 ? *of.learned : of.since;
  if (modes_of(state) > 0 ? since >= settings->fit_rows : since > settings->fit_rows) {
    add_scores(&of.state, mode, settings->lags);
    double kept = sum_of(row_of(&of.state.tally, 0), of.state.tally.columns);
    double most = ends_first_days(settings, state) ? FIRST_SCORES : own;
    fade(of.state.tally.at, streams_of(state) * of.state.tally.columns, kept, most);
    if (modes_of(state) == 0)
      fade(of.state.hours.at, of.state.hours.rows * of.state.hours.columns, kept, own);
    find_unit(&of);
  }
  if (!wait_with_rows(settings, &of, mode)) return 0;
  int is_due = *of.waiting > 0 && (double)*of.waiting >= wait_of(own, of.rows);
  if (is_due && !learn_waiting(settings, &of, own)) return 0;
  make(settings, state, mode, &of);
  return 1;
}

/* Hours are those of all modes: a mode at another time of day than ever is odd. */
static void fade_hours(reference_state *state, double memory) {
  double kept = 0.0;
  for (int64_t hour = 0; hour < state->hours.rows; hour++) kept += row_of(&state->hours, hour)[0];
  fade(state->hours.at, state->hours.rows * state->hours.columns, kept, memory);
}

/* An episode began among what waits: it is not learned. */
static void leave_out_waiting(reference_state *state) {
  int64_t *status = status_of(state);
  if (status[WAITING] >= 0) return;
  for (int64_t mode = 0; mode < most_of(modes_of(state), 1); mode++) {
    part of = part_of(state, mode);
    forget_waiting(&of);
  }
  forget_waiting_ranges(state);
  status[WAITING] = 0;
}

int end_streams(const reference_settings *settings, reference_state *state) {
  int64_t *counts = state->counts.at, *status = status_of(state), many = streams_of(state);
  int64_t since = counts[SEEN] - counts[BEGAN];
  if (!settings->learn) return 1;
  double memory = memory_of(settings, state);
  if (!add_to_episodes(settings, state)) return 0;
  keep_former(state);
  if (has_windows(state)) keep_waiting_shapes(settings, state, memory);
  leave_out_waiting(state);
  if (!learn_episodes(settings, state, memory)) return 0;
  for (int64_t mode = 0; mode < most_of(modes_of(state), 1); mode++)
    if (!end_part(settings, state, mode, memory)) return 0;
  learn_ranges(settings, state, wait_of(memory, since));
  if (has_windows(state) && status[WAITING] == 0 && !learn_shapes(settings, state)) return 0;
  if (since > settings->fit_rows) {
    if (modes_of(state) > 0) fade_hours(state, memory);
    add_heights(state);
    double watched = state->watched.at[0];
    fade(state->heights.at, many * state->heights.columns, watched, memory);
    fade(state->lasting.at, state->lasting.rows * state->lasting.columns, watched, memory);
    fade(state->watched.at, 1, watched, memory);
  }
  /* The pace that a rate in time goes by is that of the rows of a memory, which STRETCHED counts. */
  if (!status[ARMED]) state->times.at[STRETCH_TIME] = state->times.at[NEWEST_TIME];
  if (counts[OPENED] < 0) find_limits(settings, state, memory);
  if (counts[CALIBRATED] > 0 && (double)since >= memory && !status[ARMED]) {
    /* What was rehearsed is over. */
    for (int64_t evidence = 0; evidence < evidences_of(state); evidence++) {
      book_height(state, evidence);
      row_of(&state->evidences, evidence)[MOVING_SUM] = 0.0;
    }
    status[ARMED] = since;
  }
  status[REMEMBERED] = (int64_t)memory;
  return 1;
}
