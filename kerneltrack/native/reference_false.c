/* What people said of the episodes of a reference that moves; the rows of those that were false become normal. */
#include <math.h>

#include "linalg.h"
#include "reference_streams.h"

/* What people said of an episode names its begin to a microsecond, ns. */
#define MICROSECOND 1000
/* Channels that a row of an episode is blamed on, at most; how often a row of one that was false counts, and how
much further its like may be. */
#define MOST_BLAMED 3
#define FALSE_COUNTS 6.0
#define FALSE_FURTHER 1.5

void keep_episode(reference_state *state, int64_t mode) {
  int64_t number = state->counts.at[EPISODES];
  int64_t *kept = kept_of(state, number % state->episode_sums.rows);
  kept[KEPT_NUMBER] = number;
  kept[KEPT_SINCE] = state->times.at[ZERO_TIME];
  kept[KEPT_UNTIL] = kept[KEPT_FALSE] = kept[KEPT_ROWS] = 0;
  kept[KEPT_MODE] = mode;
}

/* Whether an episode is meant by what people said. */
static int is_meant(const reference_state *state, const int64_t *kept, const int64_t *said) {
  int64_t since = kept[KEPT_SINCE];
  if (!said[SAID_OF_ALL]) return since >= said[SAID_SINCE] && since < said[SAID_SINCE] + MICROSECOND;
  return since <= said[SAID_UNTIL] && (is_open(state, kept) || kept[KEPT_UNTIL] >= said[SAID_SINCE]);
}

void hear(reference_state *state, const int_table *said, int64_t time) {
  for (int64_t place = 0; place < state->episode_sums.rows; place++) {
    int64_t *kept = kept_of(state, place);
    for (int64_t i = 0; i < said->rows && kept[KEPT_NUMBER] > 0; i++) {
      const int64_t *one = said->at + i * said->columns;
      if (one[SAID_FROM] <= time && is_meant(state, kept, one)) kept[KEPT_FALSE] = one[SAID_FALSE];
    }
  }
}

/* The episodes that the open block's rows were left out for. */
static double *left_out(const reference_state *state) {
  return row_of(&state->measured, state->measured.rows - 1);
}

void leave_out(reference_state *state, int64_t base, int64_t first, int64_t place) {
  for (int64_t i = place; i >= 0 && base - first + i >= state->counts.at[ZERO]; i--) {
    if (state->good.at[i]) left_out(state)[i] = (double)state->counts.at[EPISODES];
    state->good.at[i] = 0;
    if (state->fresh.at[i]) break;
  }
}

/* Where an episode's sums are: rows by hour; of each channel the rows it was blamed for, its values in all rows and
their squares, and the lower triangle of Σδδᵀ, δ being how far its entries were above what the others make of
them. */
typedef struct {
  double *hours, *blamed, *first, *second, *products;
} episode_sums;

static episode_sums sums_at(const reference_state *state, int64_t place) {
  double *hours = row_of(&state->episode_sums, place), *at = hours + state->hours.rows;
  int64_t width = state->rows.columns;
  return (episode_sums){hours, at, at + width, at + 2 * width, at + 3 * width};
}

/* The Σδδᵀ of a channel: the lower triangle, row by row. */
static double *products_of(const reference_state *state, const episode_sums *sums, int64_t channel) {
  int64_t own = (state->waiting.columns - state->whitener.columns) / state->rows.columns;
  return sums->products + channel * own * (own + 1) / 2;
}

/* Take out of the row that was measured what a channel is above what the others make of it, and add it to the sums
of an episode. */
static void take_out(const reference_state *state, moving_work *work, const episode_sums *sums,
                     int64_t channel) {
  int64_t width = state->rows.columns, own = state->mean.size / width;
  double usual, *products = products_of(state, sums, channel);
  distance_above(work, channel, &usual);
  sums->blamed[channel] += 1.0;
  for (int64_t i = 0; i < own; i++) {
    work->ordered[i * width + channel] -= work->part[i];
    for (int64_t j = 0; j <= i; j++) products[i * (i + 1) / 2 + j] += work->part[i] * work->part[j];
  }
}

/* Add the row at a place of the open block to the sums of an episode: those channels are blamed without which
it is usual, one after the other. O(E²) each */
static void add_to_episode(const reference_settings *settings, reference_state *state, moving_work *work,
                           int64_t kept_at, int64_t place) {
  int64_t *kept = kept_of(state, kept_at), width = state->rows.columns;
  episode_sums sums = sums_at(state, kept_at);
  if (kept[KEPT_ROWS]++ == 0) fill(sums.hours, 0.0, state->episode_sums.columns);
  double hour = row_of(&state->measured, streams_of(state))[place];
  if (is_hour(state, hour)) sums.hours[(int64_t)hour] += 1.0;
  const double *row = row_of(&state->rows, settings->lags - 1 + place);
  for (int64_t d = 0; d < width; d++) {
    sums.first[d] += row[d];
    sums.second[d] = fma(row[d], row[d], sums.second[d]);
  }
  measure_row(settings, state, work, place);
  for (int taken = 0; taken < MOST_BLAMED; taken++) {
    int64_t worst = worst_channel(state, work);
    int64_t fast = fast_of(worst), slow = slow_of(state, worst);
    int odd = work->scores[fast] > work->of.begin[fast] || work->scores[slow] > work->of.begin[slow];
    if (!odd) return;
    take_out(state, work, &sums, worst);
    measure_ordered(state, work);
  }
}

int add_to_episodes(const reference_settings *settings, reference_state *state) {
  arena scratch = {0};
  lay_lanes(&scratch, state);
  if (!take_block(&scratch)) return 0;
  lane *lanes = lay_lanes(&scratch, state);
  for (int64_t place = 0; place < state->good.size; place++) {
    double number = left_out(state)[place];
    int64_t mode = mode_at(state, place);
    for (int64_t at = 0; at < state->episode_sums.rows && number > 0.0 && mode != NO_MODE; at++) {
      const int64_t *kept = kept_of(state, at);
      if ((double)kept[KEPT_NUMBER] != number || kept[KEPT_MODE] != mode) continue;
      lane *one = lane_of(settings, state, lanes, mode);
      if (one->scored) add_to_episode(settings, &one->of.state, &one->work, at, place);
    }
  }
  give_back(&scratch);
  return 1;
}

/* Count the scores of the rows that an episode begins and ends with, without the slow means: the newest row of a
channel alone is so far off, and as many times as there are rows beside it. */
static void count_ends(reference_state *state, moving_work *work, int64_t channel, double off) {
  int64_t width = state->rows.columns, ends = 2 * (work->own - work->means);
  fill(work->ordered, 0.0, state->mean.size);
  work->ordered[channel] = off;
  measure_ordered(state, work);
  for (int64_t d = 0; d <= width; d++) {
    int64_t stream = fast_of(d), bins = state->tally.columns;
    double score = FALSE_FURTHER * work->scores[stream];
    row_of(&state->tally, stream)[bin_of(score, SCORE_LOWEST, bins)] += FALSE_COUNTS * (double)ends;
  }
}

/* Count the scores that an episode's rows have under what is learned now, each stream's by its root mean square:
that of all rows, and what the channels' distances add. The columns of a factor of a channel's Σδδᵀ are as many
rows that have it for their sum. O(E³) */
static int count_scores(part *of, const episode_sums *sums, int64_t rows) {
  reference_state *state = &of->state;
  int64_t width = state->rows.columns, own = state->mean.size / width, many = of_rows(state);
  arena scratch = {0};
  lay_work(&scratch, state);
  table(&scratch, own, own);
  table(&scratch, own, own);
  reals(&scratch, own);
  reals(&scratch, many);
  if (!take_block(&scratch)) return 0;
  moving_work work = lay_work(&scratch, state);
  mat products = table(&scratch, own, own), factor = table(&scratch, own, own);
  double *rest = reals(&scratch, own), *squares = reals(&scratch, many);
  find_places(state, &work);
  find_factors(state, &work);
  for (int64_t stream = 0; stream < many; stream++)
    squares[stream] = mean_square(row_of(&state->tally, stream), state->tally.columns);
  for (int64_t channel = 0; channel < width; channel++) {
    if (!(sums->blamed[channel] > 0.0)) continue;
    const double *from = products_of(state, sums, channel);
    for (int64_t i = 0; i < own; i++)
      for (int64_t j = 0; j <= i; j++)
        row_of(&products, i)[j] = row_of(&products, j)[i] = from[i * (i + 1) / 2 + j] / (double)rows;
    semidefinite_factor(&products, rest, &factor);
    for (int64_t column = 0; column < own; column++) {
      fill(work.ordered, 0.0, state->mean.size);
      for (int64_t i = 0; i < own; i++) work.ordered[i * width + channel] = row_of(&factor, i)[column];
      measure_ordered(state, &work);
      for (int64_t stream = 0; stream < many; stream++)
        squares[stream] = fma(work.scores[stream], work.scores[stream], squares[stream]);
    }
    count_ends(state, &work, channel, sqrt(from[0] / sums->blamed[channel]));
  }
  for (int64_t stream = 0; stream < many; stream++) {
    double *tally = row_of(&state->tally, stream), score = FALSE_FURTHER * sqrt(squares[stream]);
    tally[bin_of(score, SCORE_LOWEST, state->tally.columns)] += FALSE_COUNTS * (double)rows;
  }
  give_back(&scratch);
  return 1;
}

/* Learn what the channels were like in an episode at its hours, at each of them as on the whole. */
static void learn_hours(part *of, const episode_sums *sums, int64_t rows) {
  reference_state *state = &of->state;
  int64_t width = state->rows.columns, last = streams_of(state) - 1;
  for (int64_t hour = 0; hour < state->hours.rows; hour++) {
    double here = sums->hours[hour], largest = 0.0, now[3];
    if (!(here > 0.0)) continue;
    for (int64_t d = 0; d < width; d++) {
      double first = sums->first[d] / (double)rows, second = sums->second[d] / (double)rows;
      double *known = row_of(&state->hours, hour) + 3 * d;
      known[0] += here;
      known[1] = fma(here, first, known[1]);
      known[2] = fma(here, second, known[2]);
      if (state->causes.at[d]) continue;
      hour_sums(state, hour, d, now);
      double mean = now[1] / now[0], spread = larger(now[2] / now[0] - mean * mean, 0.0);
      double square = larger(second - mean * (2.0 * first - mean), 0.0);
      largest = larger(largest, square / (spread + HOUR_FLOOR * HOUR_FLOOR));
    }
    row_of(&state->tally, last)[bin_of(sqrt(largest), SCORE_LOWEST, state->tally.columns)] += here;
  }
}

/* Learn an episode that was false: how far its channels were above what the others make of them may come again,
of ties between channels it says nothing. O(E³) */
static int learn_episode(const reference_settings *settings, reference_state *state, int64_t at,
                         double memory) {
  int64_t *kept = kept_of(state, at), rows = kept[KEPT_ROWS], width = state->rows.columns;
  part of = part_of(state, kept[KEPT_MODE]);
  int64_t own = of.state.mean.size / width;
  episode_sums sums = sums_at(state, at);
  fade_learned(&of, memory_of_part(state, &of, memory));
  for (int64_t channel = 0; channel < width; channel++) {
    const double *products = products_of(state, &sums, channel);
    for (int64_t i = 0; i < own; i++)
      for (int64_t j = 0; j <= i; j++) {
        double *entry = lower_row(of.state.scatter.at, i * width + channel) + j * width + channel;
        *entry = fma(FALSE_COUNTS, products[i * (i + 1) / 2 + j], *entry);
      }
  }
  if (!find_whitener(settings, &of) || !count_scores(&of, &sums, rows)) return 0;
  learn_hours(&of, &sums, rows);
  return 1;
}

int learn_episodes(const reference_settings *settings, reference_state *state, double memory) {
  int64_t places = state->episode_sums.rows;
  for (int64_t place = 0; place < places; place++) {
    int64_t *kept = kept_of(state, place);
    if (!kept[KEPT_FALSE] || is_open(state, kept)) continue;
    if (kept[KEPT_ROWS] > 0) {
      if (!learn_episode(settings, state, place, memory)) return 0;
      kept_of(state, places)[KEPT_LEARNED] += 1;
    }
    for (int64_t i = 0; i < KEPT_NUMBERS; i++) kept[i] = 0;
    fill(row_of(&state->episode_sums, place), 0.0, state->episode_sums.columns);
  }
  return 1;
}
