/* The evidence of a reference that moves: surprises add to it, and it opens and closes episodes. */
#include <math.h>

#include "reference_streams.h"

/* What evidence lets pass of a surprise, in drifts: of a stream of the channels, of that of the windows, of that of
the hours. */
#define PASSED 2.0
#define PASSED_OF_WINDOWS 3.0
#define PASSED_OF_HOURS 4.0
/* Of the lasting evidence of a slow mean: less is let pass, and a surprise counts as so much at most. What is a little
odd in many rows adds up, and is not hidden by a few rows that were very odd. */
#define PASSED_OF_LASTING (4.0 / 3.0)
#define MOST_OF_LASTING (7.0 / 3.0)
/* How fast what is let pass follows surprise while an episode is open, and how far; evidence beyond a threshold,
at most; evidence, in thresholds, that is low. */
#define LEVEL_RATE 0.002
#define MOST_LEVEL 20.0
#define MOST_OF_LEVEL 50.0
#define MOST_EVIDENCE 1.5
#define LOW 0.02
/* Evidence, in thresholds, by which an episode goes on that is over by another stream's. */
#define GOES_ON 0.5
/* An excursion of all streams together is over where it is such a part of its highest. */
#define OVER 0.5
/* Rows after the last odd one of an episode in which slow means show no more than what was: three times as many as
they are means of. */
#define SHOWN_FOR 150
#define ENOUGH 60.0
#define FADING 15.0
#define SURPRISING 4.6
/* Rows to be spared after a gap, at most, and as a part of those since the one before: what works by day
alone is seen, too. */
#define MOST_SPARED 150
#define SPARED_PART 4.0
/* Excursions are rehearsed from one in so many parts of a memory on: early, because what comes every other
week is otherwise missed by the threshold; those of the hours later, because an hour is new for days. */
#define REHEARSED_PART 8
#define REHEARSED_PART_OF_HOURS 2
/* The evidence of the hours is weighed once such a part of the scores that are kept had a known hour, and opens
episodes from such a part on: they may come to be known when a short memory was seen long before. */
#define KNOWN_PART 4.0
#define KNOWN_PART_TO_OPEN 2.0

/* Rows are spared from this one on, as many at most. */
static void spare(const reference_settings *settings, reference_state *state, int64_t row, double most) {
  int64_t *status = status_of(state);
  double spared = smaller(smaller(most, (double)MOST_SPARED), (double)(row - status[AFTER_GAP]) / SPARED_PART);
  status[MUTED] = most_of((int64_t)spared, settings->lags);
  status[AFTER_GAP] = row;
}

void begin_with_others(const reference_settings *settings, reference_state *state, int64_t row, int64_t time) {
  spare(settings, state, row, MOST_SPARED);
  for (int64_t evidence = 0; evidence < evidences_of(state); evidence++) {
    low_of(state, evidence)[LOW_ROW] = row;
    low_of(state, evidence)[LOW_TIME] = time;
  }
}

int is_spared(const reference_settings *settings, reference_state *state, int64_t row,
              int64_t time) {
  int64_t *status = status_of(state);
  double pace = pace_of(state, row - state->counts.at[BEGAN], state->times.at[NEWEST_TIME]);
  double away = (double)time - (double)state->times.at[NEWEST_TIME];
  if (state->counts.at[CALIBRATED] > 0 && pace > 0.0 && away > GAP * pace)
    spare(settings, state, row, 2.0 * away / pace);
  if (status[MUTED] == 0) return 0;
  status[MUTED] -= 1;
  return 1;
}

static double drift_of(const reference_settings *settings, const reference_state *state,
                       int64_t stream) {
  if (stream == hours_of(state)) return settings->drift * PASSED_OF_HOURS;
  if (stream >= streams_of(state)) return settings->drift * PASSED_OF_LASTING;
  int windows = has_windows(state) && stream == windows_of(state);
  return settings->drift * (windows ? PASSED_OF_WINDOWS : PASSED);
}

void book_height(reference_state *state, int64_t stream) {
  double *held = row_of(&state->evidences, stream);
  held[MOVING_BEST] = larger(held[MOVING_BEST], held[MOVING_TOP]);
  held[MOVING_TOP] = 0.0;
}

void begin_anew(reference_state *state) {
  forget_runs(state);
  if (state->counts.at[OPENED] >= 0) return;
  for (int64_t evidence = 0; evidence < evidences_of(state); evidence++) {
    book_height(state, evidence);
    row_of(&state->evidences, evidence)[MOVING_SUM] = 0.0;
  }
}

/* A surprise goes into the evidence of its stream; before the threshold holds an excursion ends as an
episode would. */
static void weigh_stream(const reference_settings *settings, reference_state *state, int64_t stream,
                         double surprise, double unit, int64_t row, int64_t time) {
  double *held = row_of(&state->evidences, stream);
  const int64_t *status = status_of(state);
  int open = state->counts.at[OPENED] >= 0;
  double passed = drift_of(settings, state, stream) * smaller(larger(held[MOVING_LEVEL], 1.0), MOST_LEVEL);
  double counted = surprise;
  if (stream >= streams_of(state)) counted = smaller(surprise, settings->drift * MOST_OF_LASTING);
  /* Most rows: there is no evidence, and they add none. */
  int is_quiet = !open && held[MOVING_SUM] == 0.0 && held[MOVING_TOP] == 0.0 && held[MOVING_LEVEL] <= 1.0 &&
                 counted <= passed;
  if (!is_quiet) {
    double most = status[ARMED] ? MOST_EVIDENCE * held[MOVING_LIMIT] : MOST_THRESHOLD;
    held[MOVING_SUM] = smaller(larger(fma(unit, counted - passed, held[MOVING_SUM]), 0.0), most);
    if (open || held[MOVING_LEVEL] > 1.0) {
      double off = smaller(counted, MOST_OF_LEVEL) - held[MOVING_LEVEL];
      held[MOVING_LEVEL] = larger(fma(LEVEL_RATE, off, held[MOVING_LEVEL]), 1.0);
    }
    held[MOVING_TOP] = larger(held[MOVING_TOP], held[MOVING_SUM]);
    if (open) return;
  }
  int64_t *low = low_of(state, stream);
  if (is_quiet || held[MOVING_SUM] < LOW * held[MOVING_LIMIT]) {
    low[LOW_ROW] = row;
    low[LOW_TIME] = time;
    low[ODD_ROWS] = 0;
    held[MOVING_PEAK] = held[MOVING_TOTAL] = 0.0;
  }
  held[MOVING_PEAK] = larger(held[MOVING_PEAK], surprise);
  held[MOVING_TOTAL] += surprise;
  low[ODD_ROWS] += surprise > SURPRISING;
  if (is_quiet) return;
  int fell = !status[ARMED] && held[MOVING_TOP] - held[MOVING_SUM] > ENOUGH * unit;
  if (fell) held[MOVING_SUM] = 0.0;
  if (!(held[MOVING_SUM] > 0.0)) book_height(state, stream);
}

/* Whether such a part of the scores that are kept are those of a stream, too: had a known hour, or a window. */
static int knows(const moving_work *work, int64_t stream, double parts) {
  return work->of.total[stream] * parts >= work->of.total[0];
}

/* How many evidences count: those of what lasts where a memory is long. */
static int64_t weighed_of(const reference_state *state) {
  return tells_what_lasts(state) ? evidences_of(state) : streams_of(state);
}

/* The stream of the hours if it cannot open an episode; else none. */
static int64_t closed_stream(const reference_state *state, const moving_work *work) {
  return knows(work, hours_of(state), KNOWN_PART_TO_OPEN) ? -1 : hours_of(state);
}

/* The excursions of all streams together, in thresholds of their own, are those of stream 0. That of an episode counts
as well: where it did not, thresholds that it was above would fall with each. */
static void weigh_together(reference_state *state, moving_work *work) {
  double *held = row_of(&state->evidences, 0);
  work->evidence = most_evidence(state, work);
  double height = TOGETHER * work->evidence * held[MOVING_LIMIT];
  held[MOVING_TOP] = larger(held[MOVING_TOP], height);
  if (state->counts.at[OPENED] < 0 && height < OVER * held[MOVING_TOP]) book_height(state, 0);
}

/* The evidence that is furthest above its threshold, -1 if none is above. */
static int64_t stream_above(const reference_state *state, const moving_work *work) {
  int64_t found = -1, many = weighed_of(state), closed = closed_stream(state, work);
  double largest = 1.0;
  for (int64_t stream = 1; stream < many; stream++) {
    if (stream == closed) continue;
    const double *held = row_of(&state->evidences, stream);
    if (held[MOVING_SUM] / held[MOVING_LIMIT] > largest) {
      largest = held[MOVING_SUM] / held[MOVING_LIMIT];
      found = stream;
    }
  }
  return found;
}

/* Open an episode by the evidence of a stream: it began where that was last low. */
static void open_by(reference_state *state, int64_t stream, int64_t row, int64_t time) {
  const double *held = row_of(&state->evidences, stream);
  const int64_t *low = low_of(state, stream);
  int64_t *counts = state->counts.at;
  double *numbers = state->reals.at;
  status_of(state)[WHICH] = stream;
  /* What waits may be its begin. */
  status_of(state)[WAITING] = -1;
  counts[OPENED] = row;
  counts[ZERO] = low[LOW_ROW];
  counts[SURPRISES] = low[ODD_ROWS];
  counts[STUCK_ROWS] = 0;
  counts[EPISODES] += 1;
  state->times.at[OPENED_TIME] = time;
  state->times.at[ZERO_TIME] = low[LOW_TIME];
  numbers[PEAK] = held[MOVING_PEAK];
  numbers[SURPRISE] = held[MOVING_TOTAL];
  numbers[EARLY] = 0.0;
  fill(state->blame.at, 0.0, state->blame.size);
  fill(state->sides.at, 0.0, SIDES * state->sides.columns);
  fill(state->stuck.at, 0.0, state->stuck.size);
}

/* How surprising it is that a channel is stuck; a cause never is. */
static double held_for(const reference_state *state, int64_t channel) {
  return state->causes.at[channel] ? 0.0 : stuck_for(state, channel);
}

/* A channel is blamed for the row at a place of the open block: how far it is above what the others make of it;
in an episode of the hours, above what it was at this one. */
static void blame_row(reference_state *state, const moving_work *work, int64_t lags, int64_t channel,
                      int64_t place) {
  int64_t hours = hours_of(state);
  double hour = row_of(&state->measured, hours + 1)[place], sums[3], usual;
  double above = distance_above(work, channel, &usual);
  if (status_of(state)[WHICH] == hours && is_hour(state, hour)) {
    hour_sums(state, (int64_t)hour, channel, sums);
    double mean = sums[1] / larger(sums[0], 1.0);
    above = row_of(&state->rows, lags - 1 + place)[channel] - mean;
    usual = sqrt(larger(sums[2] / larger(sums[0], 1.0) - mean * mean, 0.0));
  }
  take_side(state, channel, 1.0, above, usual);
}

void blame_first_rows(const reference_settings *settings, reference_state *state,
                      moving_work *work, int64_t mode, int64_t row, int64_t place) {
  if (has_windows(state) && status_of(state)[WHICH] == windows_of(state)) return;
  for (int64_t i = most_of(place - (row - state->counts.at[ZERO]), 0); i < place; i++) {
    if (mode_at(state, i) != mode) continue;
    measure_row(settings, state, work, i);
    blame_row(state, work, settings->lags, worst_channel(state, work), i);
  }
}

/* A row counts for the channel that is least what the others make of it. */
static void blame_worst(const reference_settings *settings, reference_state *state, const moving_work *work,
                        int64_t place) {
  int64_t worst = worst_channel(state, work);
  double odd = larger(work->surprises[fast_of(worst)], work->surprises[slow_of(state, worst)]);
  double share = odd * work->gains[worst] * work->gains[worst];
  state->blame.at[worst] = smaller(state->blame.at[worst] + share, 1e300);
  blame_row(state, work, settings->lags, worst, place);
}

/* A window counts for the channels by their parts of its distance. */
static void blame_window(const reference_settings *settings, reference_state *state, moving_work *work,
                         int64_t place) {
  int64_t windows = windows_of(state);
  if (work->scores[windows] < 0.0) return;
  parts_of_window(settings, state, place, &work->window, work->parts);
  double all = larger(work->scores[windows] * work->scores[windows], 1e-300);
  for (int64_t d = 0; d < state->rows.columns; d++) {
    double share = work->surprises[windows] * smaller(work->parts[d] / all, 1.0);
    state->blame.at[d] = smaller(state->blame.at[d] + share, 1e300);
  }
}

/* A row of an open episode: its surprise, and the channel that is least what the others make of it. Whether
the episode is over. */
static int count_odd(const reference_settings *settings, reference_state *state, moving_work *work,
                     int64_t place, int64_t row, int64_t time, int opened) {
  int64_t *counts = state->counts.at, width = state->rows.columns;
  double *numbers = state->reals.at;
  int64_t which = status_of(state)[WHICH], stream = said_by(state, which);
  double surprise = work->surprises[stream];
  const double *evidence = row_of(&state->evidences, which);
  double unit = work->units[stream];
  if (has_windows(state) && which == windows_of(state))
    blame_window(settings, state, work, place);
  else
    blame_worst(settings, state, work, place);
  double held = 0.0;
  for (int64_t d = 0; d < width; d++) held = larger(held, held_for(state, d));
  if (held > SURPRISING) {
    counts[STUCK_ROWS] += 1;
    for (int64_t d = 0; d < width; d++) state->stuck.at[d] += held_for(state, d);
  }
  if (surprise > SURPRISING && evidence[MOVING_TOP] - evidence[MOVING_SUM] < FADING * unit) {
    counts[LAST_SURPRISE] = row;
    state->times.at[LAST_TIME] = time;
    if (!opened) counts[SURPRISES] += 1;
  }
  if (row < counts[OPENED] + EARLY_ROWS) numbers[EARLY] += surprise;
  if (!opened) {
    numbers[PEAK] = larger(numbers[PEAK], surprise);
    numbers[SURPRISE] += surprise;
  }
  return !(evidence[MOVING_SUM] > 0.0) || evidence[MOVING_TOP] - evidence[MOVING_SUM] > ENOUGH * unit;
}

void close_episode(reference_state *state, int64_t mode, int64_t row, int64_t time) {
  int64_t *kept = kept_of(state, state->counts.at[EPISODES] % state->episode_sums.rows);
  if (is_open(state, kept)) kept[KEPT_UNTIL] = time;
  if (state->reals.at[LEVEL] > LASTING) state->compared.at[TO_KEEP] = mode + 1;
  book_height(state, 0);
  for (int64_t stream = 0; stream < evidences_of(state); stream++) {
    double *held = row_of(&state->evidences, stream);
    held[MOVING_SUM] = held[MOVING_TOP] = held[MOVING_PEAK] = held[MOVING_TOTAL] = 0.0;
    int64_t *low = low_of(state, stream);
    low[LOW_ROW] = row;
    low[LOW_TIME] = time;
    low[ODD_ROWS] = 0;
  }
  state->counts.at[OPENED] = -1;
}

/* Whether the threshold holds, or one in so many parts of a memory has been seen before a row. */
static int has_seen(const reference_state *state, int64_t row, int64_t parts) {
  const int64_t *status = status_of(state);
  return status[ARMED] || row - state->counts.at[BEGAN] >= (status[REMEMBERED] + parts - 1) / parts;
}

/* Whether an episode that is over by one stream's evidence goes on by that of another, such as of a slow mean
that still shows it. */
static int goes_on(reference_state *state) {
  int64_t *which = &status_of(state)[WHICH];
  for (int64_t stream = 1; stream < weighed_of(state); stream++) {
    const double *held = row_of(&state->evidences, stream);
    int grows = held[MOVING_SUM] >= held[MOVING_TOP];
    if (stream == *which || !grows || held[MOVING_SUM] <= GOES_ON * held[MOVING_LIMIT]) continue;
    *which = stream;
    return 1;
  }
  return 0;
}

int shows_what_was(const reference_state *state, int64_t stream, int64_t row) {
  const int64_t *counts = state->counts.at;
  if (stream < slow_of(state, 0) || stream == hours_of(state)) return 0;
  int windows = has_windows(state) && stream == windows_of(state);
  int64_t shown = windows ? most_of(SHOWN_FOR, counts[WINDOW_LENGTH]) : SHOWN_FOR;
  return counts[OPENED] < 0 && counts[EPISODES] > 0 && row - counts[LAST_SURPRISE] < shown;
}

/* The lasting evidence of the slow means, also where it opens no episode: a memory in time may come to have more rows,
or fewer while one is open. */
static void weigh_what_lasts(const reference_settings *settings, reference_state *state, const moving_work *work,
                             int64_t row, int64_t time) {
  if (work->turns && state->counts.at[OPENED] < 0) return;
  if (shows_what_was(state, slow_of(state, 0), row)) return;
  for (int64_t evidence = streams_of(state); evidence < evidences_of(state); evidence++) {
    int64_t stream = said_by(state, evidence);
    weigh_stream(settings, state, evidence, work->surprises[stream], work->units[stream], row, time);
  }
}

int weigh_row(const reference_settings *settings, reference_state *state, moving_work *work,
              int64_t row, int64_t place, int64_t time) {
  int64_t width = state->rows.columns, many = streams_of(state), *status = status_of(state);
  for (int64_t channel = 0; channel < width; channel++)
    work->surprises[fast_of(channel)] = larger(work->surprises[fast_of(channel)], held_for(state, channel));
  int by_hours = state->counts.at[OPENED] >= 0 && status[WHICH] == hours_of(state);
  int hours = has_seen(state, row, REHEARSED_PART_OF_HOURS) && knows(work, hours_of(state), KNOWN_PART);
  int64_t weighed = hours || by_hours ? many : many - 1;
  for (int64_t stream = 1; stream < weighed; stream++) {
    if (work->turns && state->counts.at[OPENED] < 0 && stream != hours_of(state)) continue;
    if (shows_what_was(state, stream, row)) continue;
    if (stream >= of_rows(state) && stream != hours_of(state) && !knows(work, stream, KNOWN_PART_TO_OPEN)) continue;
    weigh_stream(settings, state, stream, work->surprises[stream], work->units[stream], row, time);
  }
  weigh_what_lasts(settings, state, work, row, time);
  weigh_together(state, work);
  int opened = 0;
  if (state->counts.at[OPENED] < 0) {
    state->watched.at[0] += 1.0;
    int64_t stream = status[ARMED] && work->evidence > 1.0 ? stream_above(state, work) : -1;
    if (stream < 0) return 0;
    open_by(state, stream, row, time);
    opened = 1;
  }
  if (!count_odd(settings, state, work, place, row, time, opened)) return opened;
  if (goes_on(state)) return 0;
  /* One row cannot open and close: what is above a threshold is above 0. */
  return opened ? 1 : -1;
}

double most_evidence(const reference_state *state, const moving_work *work) {
  double most = 0.0;
  int64_t many = weighed_of(state), closed = closed_stream(state, work);
  for (int64_t stream = 1; stream < many; stream++) {
    if (stream == closed) continue;
    const double *held = row_of(&state->evidences, stream);
    most = larger(most, held[MOVING_SUM] / held[MOVING_LIMIT]);
  }
  return most;
}

int rehearses(const reference_state *state, const part *of, int64_t row) {
  if (modes_of(state) == 0) return has_seen(state, row, REHEARSED_PART);
  const int64_t *status = status_of(state);
  int64_t since = row - state->counts.at[SEEN] + of->since;
  return (status[ARMED] ? since : 2 * since) >= status[REMEMBERED];
}
