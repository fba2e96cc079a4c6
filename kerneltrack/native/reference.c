/* The reference's row loops: distances of embedded rows, evidence over time, learning of good rows,
calibration. Equations and symbols are in
`kerneltrack/monitor/reference/__init__.py`. */
#include "elementary.h"
#include "linalg.h"
#include "philox.h"
#include "reference_blame.h"
#include "vec.h"

/* The part of the calibration's scores that the tail is fitted to, and the fewest of them. */
#define TAIL_PART 0.1
#define TAIL_LEAST 5
/* Largest shape of the tail: its variance is finite. */
#define MOST_SHAPE 0.5
/* Least shape of the tail: some hundred rows do not show that it ends soon. */
#define LEAST_SHAPE 0.1
/* Rows that the highest excursions are remembered for: then half of them and of the rows go. */
#define MOST_WATCHED 1048576
/* S stays below this many thresholds, so that it comes down again once all is well; an episode that
does not get there may be none. */
#define MOST_EVIDENCE 1.5
/* What is below this part of the threshold may be chance: an episode began where S left it. */
#define LOW 0.02
/* An episode is over once S fell by so much: some hundred usual rows. */
#define ENOUGH 60.0
/* Once it fell by so much odd rows no longer count: a usual row in a hundred is one. */
#define FADING 15.0
/* -ln p of a row that counts as surprising by itself. */
#define SURPRISING 4.6
/* Excursions that a threshold is made of, at least. */
#define FEWEST_PEAKS 10
/* Least ‖q‖² that is told from 0. */
#define LEAST_SHARE 1e-12
/* Least mean of a measure that scores are told in. */
#define LEAST_MEAN 1e-9
/* What α counts beside d. */
#define ANGLE_WEIGHT 0.5
/* What the distance from the nearest shape counts beside d, of one channel; of several over the square of their
number, as so many ties are among what d sees. */
#define WINDOW_WEIGHT 18.0
/* What a window's surprise counts beyond, in times of what is let pass of a row. */
#define WINDOW_BEYOND 2.0
/* The score that the distance from the nearest shape is by itself, behind those of the measures. */
#define SHAPES SCORED
/* Means over time that go along with a row, the faster one first: what a new row counts in each, and by
how many deviations it moves one at most, so that a single wild row is forgotten soon. */
static const double memory_rates[] = {0.3, 0.02};
#define MEMORIES 2
#define MOST_PULL 10.0
/* Rows that a variance of 1 counts as, beside those that were measured. */
#define UNSEEN_PRIOR 10.0
#define LEAST_VARIANCE 1e-6
#define MOST_VARIANCE 1e12
/* Surprise that the rows before a row add to it at most, where it is usual by itself. */
#define MOST_HISTORY 4.0
/* So many of its longest runs, and rows, are let pass of a channel; one that repeats itself more often
than so has no longest. */
#define RUNS 4
#define RUN 5
#define MOSTLY 0.5
/* Largest surprise of a channel that is stuck. */
#define MOST_STUCK 50.0
/* What a row counts in the level of surprise, which follows within some 1,000 rows. */
#define LEVEL_RATE 0.001
/* The evidence lets pass at most so many times as much as at a usual level. */
#define MOST_LEVEL 4.0
/* S of a rehearsed row, at most: one odd hour of the stretch, or scores of too few rows so far, must not
decide alone how high the threshold is. */
#define MOST_REHEARSED 60.0
/* Largest |x| after scaling, in deviations: one wild row must not be all that is known. */
#define MOST_DEVIATION 1e3
/* False alarms a row, at most. */
#define MOST_RATE 0.1

/* Of the means over time, how many go along with a row: all that there is room for, the slower first. */
static int64_t memories_of(const reference_state *state) {
  return state->memory.columns / state->rows.columns;
}

void embed(const reference_state *state, int64_t lags, int64_t place, double *e) {
  int64_t width = state->rows.columns, many = state->memory.columns, back = 0;
  for (int64_t l = 0; l < lags; l++) {
    subtract(e + l * width, row_of(&state->rows, place + lags - 1 - back), state->mean.at + l * width, width);
    back += back > place || !begins_at(state, place - back);
  }
  subtract(e + lags * width, row_of(&state->memory, place + 1), state->mean.at + lags * width, many);
}

void follow_means(reference_state *state, int64_t lags, int64_t place) {
  int64_t width = state->rows.columns, many = memories_of(state);
  const double *row = row_of(&state->rows, lags - 1 + place);
  /* After a gap, and as another mode begins, those before are usual. */
  const double *known = row_of(&state->memory, place);
  if (begins_at(state, place)) known = state->mean.at + short_of(state);
  for (int64_t k = 0; k < many; k++) {
    const double *before = known + k * width;
    double *after = row_of(&state->memory, place + 1) + k * width;
    double rate = memory_rates[MEMORIES - many + k];
    for (int64_t d = 0; d < width; d++) {
      double pull = smaller(larger(row[d] - before[d], -MOST_PULL), MOST_PULL);
      after[d] = fma(rate, pull, before[d]);
    }
  }
}

double whiten(const reference_state *state, const double *e, double *y) {
  int64_t size = state->mean.size;
  for (int64_t i = 0; i < size; i++) y[i] = dot(lower_row(state->whitener.at, i), e, i + 1);
  return dot(y, y, size);
}

/* d² of four e side by side, (size, 4), by all of their entries, those of the row and the rows just before
it, and those of the row alone. Each e has sums of its own, in one order wherever it stands. */
static void measure_four(const reference_state *state, const double *e, v4 *squares) {
  int64_t size = state->mean.size, width = state->rows.columns, few = short_of(state);
  v4 total = all4(0.0);
  for (int64_t i = 0; i < size; i++) {
    const double *row = lower_row(state->whitener.at, i);
    v4 a = all4(0.0), b = a, c = a, d = a;
    int64_t j = 0;
    for (; j + 4 <= i + 1; j += 4) {
      const double *at = e + 4 * j;
      a = fma4(all4(row[j]), load4(at), a);
      b = fma4(all4(row[j + 1]), load4(at + 4), b);
      c = fma4(all4(row[j + 2]), load4(at + 8), c);
      d = fma4(all4(row[j + 3]), load4(at + 12), d);
    }
    for (; j <= i; j++) a = fma4(all4(row[j]), load4(e + 4 * j), a);
    v4 y = (a + c) + (b + d);
    total = fma4(y, y, total);
    if (i + 1 == width) squares[ALONE] = total;
    if (i + 1 == few) squares[SHORT] = total;
  }
  squares[LONG] = total;
}

void scale_deviations(const vec *shift, const vec *scale, const double *row, double *to) {
  for (int64_t d = 0; d < scale->size; d++) {
    double deviation = row[d] / scale->at[d] - shift->at[d];
    to[d] = smaller(larger(deviation, -MOST_DEVIATION), MOST_DEVIATION);
  }
}

double pace_of(const reference_state *state, int64_t since, int64_t time) {
  double passed = (double)time - (double)state->times.at[FIRST_TIME];
  return since > PACED && passed > 0.0 ? passed / (double)(since - 1) : 0.0;
}

int ends_gap(const reference_settings *settings, const reference_state *state, int64_t since,
             int64_t before, int64_t time) {
  if (settings->gap == 0) return 0;
  double away = (double)time - (double)before, pace = pace_of(state, since, before);
  return pace > 0.0 && away > (double)settings->gap && away > GAP * pace;
}

int embed_rows(const reference_settings *settings, reference_state *state, const mat *rows,
               const int64_t *times) {
  int64_t lags = settings->lags, width = state->rows.columns, size = state->mean.size;
  int64_t first = next_place(state);
  arena scratch = {0};
  double *e = reals(&scratch, size), *four = reals(&scratch, 4 * size);
  if (!take_block(&scratch)) return 0;
  e = reals(&scratch, size);
  four = reals(&scratch, 4 * size);
  for (int64_t n = 0; n < rows->rows; n++) {
    double *to = row_of(&state->rows, lags - 1 + first + n);
    scale_deviations(&state->shift, &state->scale, row_of(rows, n), to);
    /* Before the first row all was as the first. */
    if (state->counts.at[SEEN] + n == 0)
      for (int64_t l = 0; l < lags - 1; l++) copy(row_of(&state->rows, first + l), to, width);
    int64_t before = n > 0 ? times[n - 1] : state->times.at[NEWEST_TIME];
    int64_t since = state->counts.at[SEEN] + n - state->counts.at[BEGAN];
    int follows_none = n == 0 && !isfinite(state->previous.at[0]);
    state->fresh.at[first + n] =
        (uint8_t)(follows_none || ends_gap(settings, state, since, before, times[n]));
    follow_means(state, lags, first + n);
  }
  fill(four, 0.0, 4 * size);
  for (int64_t n = 0; n < rows->rows; n += 4) {
    int64_t many = least_of(4, rows->rows - n);
    for (int64_t k = 0; k < many; k++) {
      embed(state, lags, first + n + k, e);
      for (int64_t i = 0; i < size; i++) four[4 * i + k] = e[i];
    }
    v4 squares[SCORED];
    measure_four(state, four, squares);
    for (int which = 0; which < SCORED; which++)
      for (int64_t k = 0; k < many; k++)
        row_of(&state->measured, which)[first + n + k] = squares[which][k];
  }
  give_back(&scratch);
  return 1;
}

/* How many of so many sorted scores make the tail. */
static int64_t tail_of(int64_t many) {
  return most_of((int64_t)(TAIL_PART * (double)many), TAIL_LEAST);
}

/* s: a d and α, each over its mean, and beside the first d the distance from the nearest shape; about 1 while all
is well. */
static double score_of(const reference_state *state, int which, const mat *measures, int64_t at) {
  if (which == SHAPES) return window_part(state, row_of(measures, WINDOW)[at]);
  const double *means = state->reals.at + MEANS;
  double measured = row_of(measures, which)[at], angle = row_of(measures, ANGLE)[at];
  double score = fma(ANGLE_WEIGHT, angle / means[ANGLE], sqrt(measured) / means[which]);
  if (!has_windows(state) || which != LONG) return score / (1.0 + ANGLE_WEIGHT);
  double width = (double)state->rows.columns, weight = WINDOW_WEIGHT / (width * width);
  double part = window_part(state, row_of(measures, WINDOW)[at]);
  return fma(weight, part, score) / (1.0 + ANGLE_WEIGHT + weight);
}

/* How many scores there are of a row. */
static int scored(const reference_state *state) { return has_windows(state) ? SHAPES + 1 : SCORED; }

static double *tail_numbers(const reference_state *state, int which) {
  return state->reals.at + (which == SHAPES ? WINDOW_TAIL : TAILS + which * TAIL_NUMBERS);
}

/* The surprise -ln p of a score under its calibration. */
static double surprise_of(const reference_state *state, int which, double score) {
  const double *sorted = row_of(&state->calibration, which), *numbers = tail_numbers(state, which);
  int64_t many = state->counts.at[SORTED];
  if (score > numbers[BEGIN]) {
    double over = (score - numbers[BEGIN]) / numbers[WIDTH], shape = numbers[SHAPE];
    double start = log1((double)many / (double)tail_of(many));
    return start + log1(larger(1.0 + shape * over, 1.0)) / shape;
  }
  /* How many are not below it, by halves. */
  int64_t low = 0, high = many;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (sorted[middle] < score)
      low = middle + 1;
    else
      high = middle;
  }
  return larger(-log1(((double)(many - low) + 0.5) / ((double)many + 1.0)), 0.0);
}

void note_episode(const reference_state *state, int64_t row, int64_t time, int closed, int64_t place,
                  reference_episodes *out) {
  const double *numbers = state->reals.at;
  const int64_t *counts = state->counts.at;
  /* Without a row that is surprising by itself the newest such row is of an earlier excursion. */
  int mild = counts[LAST_SURPRISE] < counts[ZERO];
  out->number.at[place] = counts[EPISODES];
  out->start.at[place] = counts[ZERO];
  out->opened.at[place] = counts[OPENED];
  out->row.at[place] = row;
  out->closed.at[place] = (uint8_t)closed;
  out->peak.at[place] = numbers[PEAK];
  out->surprise.at[place] = numbers[SURPRISE];
  out->early.at[place] = numbers[EARLY];
  out->last.at[place] = counts[mild ? ZERO : LAST_SURPRISE];
  out->surprises.at[place] = counts[SURPRISES];
  out->stuck_rows.at[place] = counts[STUCK_ROWS];
  copy(row_of(&out->stuck, place), state->stuck.at, state->stuck.size);
  int64_t *times = out->times.at + place * out->times.columns;
  times[0] = state->times.at[ZERO_TIME];
  times[1] = state->times.at[OPENED_TIME];
  times[2] = time;
  times[3] = state->times.at[mild ? ZERO_TIME : LAST_TIME];
  copy(row_of(&out->blame, place), state->blame.at, state->blame.size);
  copy(row_of(&out->sides, place), state->sides.at, out->sides.columns);
  int64_t *change = out->change.at + place * out->change.columns;
  int moves = state->compared.size > 0;
  change[HAS_RECOVERED] = has_recovered(state);
  change[IS_STEADY] = moves && closed && !change[HAS_RECOVERED] && numbers[LEVEL] > LASTING;
  change[SINCE_ROW] = moves ? state->compared.at[CHANGED] : 0;
  change[SINCE_TIME] = moves ? state->compared.at[CHANGED_TIME] : 0;
}

/* θ of surprises that are independent, exponential of mean 1: exp(-kθ) = 1 - θ. */
static double independent_exponent(double drift) {
  double low = 0.0, high = 1.0;
  for (int step = 0; step < 40; step++) {
    double middle = 0.5 * (low + high);
    if (exp1(-drift * middle) > 1.0 - middle)
      high = middle;
    else
      low = middle;
  }
  return low;
}

/* False alarms a row that are accepted: by the pace of the rows that the reference was made from where
they are counted in event time. Rows of one time come as fast as can be: no rate is too low for them. */
double rate_of(const reference_settings *settings, const reference_state *state) {
  if (settings->per_rows > 0) return settings->false_alarms / (double)settings->per_rows;
  int64_t passed = state->times.at[STRETCH_TIME] - state->times.at[FIRST_TIME];
  double pace = (double)most_of(passed, 1) / (double)most_of(state->counts.at[STRETCHED] - 1, 1);
  return smaller(settings->false_alarms * pace / (double)settings->per_time, MOST_RATE);
}

/* h: where excursions of S are as rare as stated. Of the highest ones the heights beyond the lowest of
them are taken as exponential, as those of a random walk are (Cramér and Lundberg), of no larger
exponent than independent rows give. */
static void find_threshold(const reference_settings *settings, reference_state *state) {
  const double *peaks = state->peaks.at;
  /* An episode ends by the threshold that it began by. */
  if (state->counts.at[OPENED] >= 0) return;
  /* The highest quarter: most excursions are a row long, and say nothing of those that last. */
  int64_t kept = state->counts.at[EXCURSIONS], quarter = state->counts.at[BOOKED] / 4;
  int64_t many = least_of(kept, most_of(quarter, FEWEST_PEAKS));
  double most = independent_exponent(settings->drift), excess = 0.0;
  double rate = rate_of(settings, state), wanted = rate * (double)state->counts.at[WATCHED];
  double *threshold = &state->reals.at[THRESHOLD];
  if (many == 0) {
    *threshold = -log1(rate) / most;
    return;
  }
  if (wanted >= (double)many) {
    *threshold = larger(peaks[many - 1], 1.0);
    return;
  }
  for (int64_t i = 0; i < many; i++) excess += peaks[i] - peaks[many - 1];
  /* Of k heights the mean m is not known better than so: P(beyond h) = (1 + (h - h₀)/km)^-k. */
  double others = (double)most_of(many - 1, 1);
  double mean = larger(excess / others, 1.0 / most);
  double often = exp1(log1((double)many / wanted) / others);
  *threshold = larger(peaks[many - 1] + others * mean * (often - 1.0), 1.0);
}

/* Keep the height of an excursion of S that was no episode, if it is among the highest. */
static void book_excursion(reference_state *state, double height) {
  double *peaks = state->peaks.at;
  int64_t *many = &state->counts.at[EXCURSIONS], most = state->peaks.size;
  if (!(height > 0.0)) return;
  state->counts.at[BOOKED] += 1;
  if (*many == most && !(height > peaks[most - 1])) return;
  int64_t i = *many < most ? (*many)++ : most - 1;
  for (; i > 0 && peaks[i - 1] < height; i--) peaks[i] = peaks[i - 1];
  peaks[i] = height;
}

/* A row without an episode. */
static void count_row(reference_state *state) {
  int64_t *counts = state->counts.at;
  counts[WATCHED] += 1;
  if (counts[WATCHED] < MOST_WATCHED) return;
  counts[WATCHED] /= 2;
  counts[BOOKED] /= 2;
  counts[EXCURSIONS] /= 2;
  for (int64_t i = 0; i < counts[EXCURSIONS]; i++) state->peaks.at[i] = state->peaks.at[2 * i + 1];
}

/* Whether S came down far enough from its highest value in this episode, or to 0. */
static int is_over(const reference_state *state) {
  double evidence = state->reals.at[EVIDENCE];
  return !(evidence > 0.0) || state->reals.at[TOP] - evidence > ENOUGH;
}

/* Whether an episode went so little beyond h that it may have been none. */
static int doubtful(const reference_state *state) {
  return state->reals.at[TOP] < MOST_EVIDENCE * state->reals.at[THRESHOLD];
}

static int is_raised(const reference_state *state) {
  return state->reals.at[EVIDENCE] > LOW * state->reals.at[THRESHOLD];
}

/* What the evidence lets pass of a row's surprise: k times the level of the rows before, so that it falls
again where a small change lasts. The level goes on to the row. */
static double let_pass(const reference_settings *settings, reference_state *state, double surprise) {
  double *level = &state->reals.at[LEVEL];
  double passed = settings->drift * smaller(larger(*level, 1.0), MOST_LEVEL);
  *level = fma(LEVEL_RATE, smaller(surprise, MOST_STUCK) - *level, *level);
  return passed;
}

/* A row's surprise goes into the evidence S; whether an episode was opened (1) or closed (-1). */
static int weigh_evidence(const reference_settings *settings, reference_state *state, double surprise,
                          int64_t row, int64_t time) {
  double *numbers = state->reals.at;
  int64_t *counts = state->counts.at;
  double most = MOST_EVIDENCE * numbers[THRESHOLD];
  if (!(numbers[EVIDENCE] > 0.0)) numbers[TOP] = 0.0;
  if (counts[OPENED] < 0 && !is_raised(state)) {
    counts[ZERO] = row;
    state->times.at[ZERO_TIME] = time;
    counts[SURPRISES] = 0;
    numbers[PEAK] = numbers[SURPRISE] = 0.0;
    fill(state->blame.at, 0.0, state->blame.size);
    fill(state->sides.at, 0.0, SIDES * state->sides.columns);
    fill(state->stuck.at, 0.0, state->stuck.size);
    counts[STUCK_ROWS] = 0;
  }
  double passed = let_pass(settings, state, surprise);
  numbers[EVIDENCE] = smaller(larger(numbers[EVIDENCE] + surprise - passed, 0.0), most);
  numbers[TOP] = larger(numbers[TOP], numbers[EVIDENCE]);
  numbers[PEAK] = larger(numbers[PEAK], surprise);
  numbers[SURPRISE] += surprise;
  if (surprise > SURPRISING && numbers[TOP] - numbers[EVIDENCE] < FADING) {
    counts[LAST_SURPRISE] = row;
    state->times.at[LAST_TIME] = time;
    counts[SURPRISES] += 1;
  }
  if (counts[OPENED] < 0 && numbers[EVIDENCE] > numbers[THRESHOLD]) {
    counts[OPENED] = row;
    state->times.at[OPENED_TIME] = time;
    counts[EPISODES] += 1;
    numbers[EARLY] = surprise;
    return 1;
  }
  if (counts[OPENED] >= 0 && row < counts[OPENED] + EARLY_ROWS) numbers[EARLY] += surprise;
  if (counts[OPENED] < 0) {
    count_row(state);
    if (!(numbers[EVIDENCE] > 0.0)) book_excursion(state, numbers[TOP]);
    return 0;
  }
  if (!is_over(state)) return 0;
  numbers[EVIDENCE] = 0.0;
  /* Without episodes the excursions would be cut off at h, and h would fall. */
  book_excursion(state, numbers[TOP]);
  return -1;
}

/* The evidence of a row of the stretch, S at most `most`: as later, but every excursion is booked. */
static void rehearse(const reference_settings *settings, reference_state *state, double surprise,
                     double most) {
  double *numbers = state->reals.at;
  double passed = let_pass(settings, state, surprise);
  numbers[EVIDENCE] = smaller(larger(numbers[EVIDENCE] + surprise - passed, 0.0), most);
  numbers[TOP] = larger(numbers[TOP], numbers[EVIDENCE]);
  count_row(state);
  if (!is_over(state)) return;
  book_excursion(state, numbers[TOP]);
  numbers[EVIDENCE] = numbers[TOP] = 0.0;
}

/* The episode that is open, as of the last row. */
KT_API int64_t kt_reference_note(const reference_state *state, reference_episodes *out) {
  note_episode(state, state->counts.at[SEEN] - 1, state->times.at[NEWEST_TIME], 0, 0, out);
  return KT_DONE;
}

/* The rows that the channels' runs before the calibration are of: those of the mode, where there are modes. */
static int64_t *rows_of_runs(const reference_state *state) {
  int64_t modes = state->modes.rows - 1;
  if (modes <= 0) return &state->counts.at[STRETCHED];
  int64_t now = state->modes.at[modes * MODE_NUMBERS + MODE_NOW];
  return state->modes.at + most_of(now, 0) * MODE_NUMBERS + MODE_RUNS;
}

double stuck_for(const reference_state *state, int64_t channel) {
  int64_t beyond = state->runs.at[channel] - RUNS * state->longest.at[channel] - RUN;
  if (beyond <= 0) return 0.0;
  double often = (double)(state->repeated.at[channel] + 1) / (double)(*rows_of_runs(state) + 2);
  return often > MOSTLY ? 0.0 : smaller(-log1(often) * (double)beyond, MOST_STUCK);
}

void forget_runs(reference_state *state) {
  for (int64_t d = 0; d < state->previous.size; d++) {
    state->previous.at[d] = NAN;
    state->runs.at[d] = 0;
  }
}

double stuck_surprise(reference_state *state, const double *row, int learning) {
  int64_t *counts = state->counts.at, *rows = rows_of_runs(state);
  double largest = 0.0;
  for (int64_t d = 0; d < state->previous.size; d++) {
    int64_t *run = &state->runs.at[d], *longest = &state->longest.at[d];
    int same = fabs(row[d] - state->previous.at[d]) <= SAME && counts[STRETCHED] > 0;
    *run = same ? *run + 1 : 0;
    state->previous.at[d] = row[d];
    if (learning) {
      state->repeated.at[d] += same;
      *longest = most_of(*longest, *run);
    } else {
      largest = larger(largest, stuck_for(state, d));
    }
  }
  counts[STRETCHED] += learning;
  if (rows != &counts[STRETCHED]) *rows += learning;
  return largest;
}

/* The surprise of an embedded row that goes into the evidence: where its rows are usual one by one, as
after a change from one mode to another, what their order says is limited. */
static double weighed(double *recent, int64_t *since, int64_t lags, int64_t row, double embedded,
                      double newest) {
  if (newest >= *recent || row - *since >= lags) {
    *recent = newest;
    *since = row;
  }
  return smaller(embedded, larger(*recent, MOST_HISTORY));
}

/* What the surprise of a shape adds to the evidence. */
static double added_by_shape(const reference_settings *settings, const reference_state *state,
                             double surprise) {
  int64_t length = state->counts.at[WINDOW_LENGTH];
  if (length == 0) return 0.0;
  return WINDOW_COUNTS / (double)length * larger(surprise - WINDOW_BEYOND * settings->drift, 0.0);
}

/* Rows of the open block from where S was raised, or the last gap ended, up to a place: what looked odd was
nothing (1), or was an episode (0). */
static void mark(reference_state *state, int64_t first, int64_t base, int64_t place, int good) {
  for (int64_t i = place; i >= 0 && base - first + i >= state->counts.at[ZERO]; i--) {
    state->good.at[i] = (uint8_t)good;
    if (state->fresh.at[i]) break;
  }
}

/* A row comes after a gap: what led up to it is over, but for an episode. */
static void begin_anew(reference_state *state) {
  double *numbers = state->reals.at;
  forget_runs(state);
  numbers[RECENT] = 0.0;
  if (state->counts.at[OPENED] >= 0) return;
  book_excursion(state, numbers[TOP]);
  numbers[EVIDENCE] = numbers[TOP] = 0.0;
}

int64_t watch_rows(const reference_settings *settings, reference_state *state,
                   const reference_stored *stored, const vec *residual, const int64_t *times,
                   reference_outputs *out, int64_t done, reference_episodes *episodes, int64_t before) {
  double *numbers = state->reals.at;
  int64_t *counts = state->counts.at, found = 0;
  int64_t first = next_place(state), base = counts[SEEN];
  arena scratch = {0};
  make_blame_work(&scratch, state, settings->lags);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  blame_work work = make_blame_work(&scratch, state, settings->lags);
  for (int64_t n = 0; n < residual->size; n++) {
    int64_t row = base + n, place = first + n;
    state->good.at[place] = 1;
    double angle = sqrt(larger(-log1(larger(1.0 - residual->at[n], LEAST_SHARE)), 0.0));
    row_of(&state->measured, ANGLE)[place] = angle;
    state->times.at[NEWEST_TIME] = times[n];
    if (state->fresh.at[place]) {
      if (counts[OPENED] < 0) mark(state, first, base, place - 1, 1);
      begin_anew(state);
    }
    double held = stuck_surprise(state, row_of(&state->rows, settings->lags - 1 + place),
                                 counts[CALIBRATED] == 0);
    if (counts[SORTED] == 0) continue;
    double scores[SHAPES + 1], surprises[SHAPES + 1];
    for (int which = 0; which < scored(state); which++) {
      scores[which] = score_of(state, which, &state->measured, place);
      surprises[which] = surprise_of(state, which, scores[which]);
    }
    double counted = weighed(&numbers[RECENT], &counts[RECENT_ROW], settings->lags, row,
                             surprises[SHORT], surprises[ALONE]);
    if (has_windows(state)) counted += added_by_shape(settings, state, surprises[SHAPES]);
    if (counts[CALIBRATED] == 0) {
      rehearse(settings, state, counted, MOST_REHEARSED);
      continue;
    }
    int told = weigh_evidence(settings, state, larger(counted, held), row, times[n]);
    out->score.at[done + n] = scores[LONG];
    out->p.at[done + n] = exp1(-surprises[LONG]);
    out->evidence.at[done + n] = numbers[EVIDENCE] / numbers[THRESHOLD];
    int open = counts[OPENED] >= 0;
    if (held > counted) {
      counts[STUCK_ROWS] += 1;
      for (int64_t d = 0; d < state->stuck.size; d++) state->stuck.at[d] += stuck_for(state, d);
    }
    if (open || is_raised(state)) {
      state->good.at[place] = 0;
      double searched = open ? speaks_for(row - counts[OPENED]) : 0.0;
      blame_times times_searched = {searched, searched};
      if (told > 0) take_sides_before(settings, state, stored, first, base, place, &work);
      if (searched > 0.0) add_blame(settings, state, stored, place, times_searched, &work);
    } else {
      mark(state, first, base, place, 1);
    }
    if (told != 0) note_episode(state, row, times[n], told < 0, before + found++, episodes);
    if (told < 0) {
      counts[OPENED] = -1;
      mark(state, first, base, place, doubtful(state));
    }
  }
  if (first + residual->size == state->good.size && counts[CALIBRATED] > 0 &&
      counts[OPENED] < 0) {
    /* What is no episode when the block ends counts as none. */
    mark(state, first, base, state->good.size - 1, 1);
    find_threshold(settings, state);
  }
  give_back(&scratch);
  return found;
}

void roll_block(const reference_settings *settings, reference_state *state) {
  int64_t block = state->good.size, width = state->rows.columns, many = state->memory.columns;
  if (has_windows(state)) roll_windows(settings, state);
  copy(row_of(&state->memory, 0), row_of(&state->memory, block), many);
  for (int64_t l = 0; l < settings->lags - 1; l++)
    copy(row_of(&state->rows, l), row_of(&state->rows, block + l), width);
  /* Before the first row after a gap, or of another mode, all was as it is in that. */
  int64_t begin = 0;
  for (int64_t l = most_of(settings->lags - 1 - block, 0); l < settings->lags - 1; l++)
    if (begins_at(state, block - settings->lags + 1 + l)) begin = l;
  for (int64_t l = 0; l < begin; l++) copy(row_of(&state->rows, l), row_of(&state->rows, begin), width);
  /* Of what is yet to come nothing is there: a state has the bytes of what it stands for alone. */
  fill(row_of(&state->memory, 1), 0.0, block * many);
  fill(row_of(&state->rows, settings->lags - 1), 0.0, block * width);
  fill(state->measured.at, 0.0, state->measured.rows * block);
  for (int64_t place = 0; place < block; place++) state->good.at[place] = state->fresh.at[place] = 0;
  for (int64_t place = 0; place < state->turned.size; place++) state->turned.at[place] = 0;
}

/* Which half of a run of 2^bits rows the one that stands for it is in: drawn, so that no beat of the
machine's own chooses it. */
static int64_t half_of(int64_t run, int64_t bits) {
  uint64_t key[2] = {1}, of[WORDS] = {(uint64_t)run, (uint64_t)bits}, drawn[WORDS];
  philox_block(key, of, drawn);
  return (int64_t)(drawn[0] & 1);
}

/* Whether a row stands for its run of 2^bits rows. */
static int stands_for(int64_t row, int64_t bits) {
  for (int64_t bit = 1; bit <= bits; bit++)
    if ((row >> (bit - 1) & 1) != half_of(row >> bit, bit)) return 0;
  return 1;
}

/* Keep every second score, in order: one of each run that is twice as long as before. */
static void thin_out(reference_state *state) {
  int64_t *counts = state->counts.at, bits = counts[THINNED] + 1;
  for (int64_t run = 0; run < state->scores.columns / 2; run++) {
    int64_t from = 2 * run + half_of(run, bits);
    for (int64_t which = 0; which < state->scores.rows; which++) {
      double *kept = row_of(&state->scores, which);
      kept[run] = kept[from];
    }
  }
  counts[THINNED] = bits;
  counts[KEPT] /= 2;
}

void keep_measures(reference_state *state) {
  int64_t *counts = state->counts.at, slots = state->scores.columns;
  for (int64_t place = 0; place < state->good.size; place++) {
    if (!state->good.at[place]) continue;
    int64_t row = counts[OFFERED]++;
    if (counts[CALIBRATED] == 0 && counts[KEPT] == slots) thin_out(state);
    if (!stands_for(row, counts[THINNED])) continue;
    for (int64_t which = 0; which < state->scores.rows; which++)
      row_of(&state->scores, which)[counts[KEPT] % slots] = row_of(&state->measured, which)[place];
    counts[KEPT] += 1;
  }
}

/* The variance of each entry of y over rows that were not learned yet, the open block's good ones among
them: 1 if they were as those that were. A tie that does not hold beyond its rows, or that too few
speak of, counts the less. */
static void measure_unseen(const reference_settings *settings, reference_state *state, double *e,
                           double *y, double *squares) {
  int64_t size = state->mean.size, *known = &state->counts.at[UNSEEN_ROWS], many = 0;
  fill(squares, 0.0, size);
  for (int64_t place = 0; place < state->good.size; place++) {
    if (!state->good.at[place]) continue;
    embed(state, settings->lags, place, e);
    whiten(state, e, y);
    for (int64_t i = 0; i < size; i++) squares[i] = fma(y[i], y[i], squares[i]);
    many++;
  }
  double before = UNSEEN_PRIOR + (double)*known, after = before + (double)many;
  for (int64_t i = 0; i < size; i++) {
    double *variance = &state->unseen.at[i];
    double found = *variance * (before + squares[i]) / after;
    *variance = smaller(larger(found, LEAST_VARIANCE), MOST_VARIANCE);
  }
  *known = least_of(*known + many, settings->memory);
}

int learn_block(const reference_settings *settings, reference_state *state) {
  int64_t size = state->mean.size, *learned = &state->counts.at[LEARNED];
  arena scratch = {0};
  double *e = reals(&scratch, size), *after = reals(&scratch, size), *more = reals(&scratch, size);
  mat half = table(&scratch, size, size), other = table(&scratch, size, size), root = table(&scratch, size, size);
  if (!take_block(&scratch)) return 0;
  e = reals(&scratch, size);
  after = reals(&scratch, size);
  more = reals(&scratch, size);
  half = table(&scratch, size, size);
  other = table(&scratch, size, size);
  root = table(&scratch, size, size);
  /* What the first half of the stretch was measured by is too little to go by. */
  if (state->counts.at[KEPT] > 0) measure_unseen(settings, state, e, after, more);
  if (*learned > settings->memory) {
    scale_all(state->scatter.at, (double)settings->memory / (double)*learned, state->scatter.columns);
    *learned = settings->memory;
  }
  for (int64_t place = 0; place < state->good.size; place++) {
    if (!state->good.at[place]) continue;
    *learned += 1;
    embed(state, settings->lags, place, e);
    add_scaled(state->mean.at, 1.0 / (double)*learned, e, size);
    embed(state, settings->lags, place, after);
    for (int64_t i = 0; i < size; i++) add_scaled(lower_row(state->scatter.at, i), e[i], after, i + 1);
  }
  double trace = 0.0, share = 1.0 / (double)most_of(*learned, 1);
  for (int64_t i = 0; i < size; i++) {
    for (int64_t j = 0; j <= i; j++) row_of(&half, i)[j] = share * lower_row(state->scatter.at, i)[j];
    trace += row_of(&half, i)[i];
  }
  double lift = larger(settings->ridge * trace / (double)size, 1e-12);
  inverse_cholesky(&half, size, lift, &half, &root, &other);
  for (int64_t i = 0; i < size; i++) {
    copy(lower_row(state->whitener.at, i), row_of(&root, i), i + 1);
    scale_all(lower_row(state->whitener.at, i), 1.0 / sqrt(state->unseen.at[i]), i + 1);
  }
  give_back(&scratch);
  return 1;
}

static void sort(double *values, int64_t count) {
  /* Shell's, by gaps of Tokuda: few values, and no allocation. */
  static const int64_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
  for (int g = 0; g < 9; g++)
    for (int64_t i = gaps[g]; i < count; i++) {
      double value = values[i];
      int64_t j = i;
      for (; j >= gaps[g] && values[j - gaps[g]] > value; j -= gaps[g]) values[j] = values[j - gaps[g]];
      values[j] = value;
    }
}

/* The generalised Pareto distribution of what is beyond the tail's begin, by weighted moments
(Hosking and Wallis, Technometrics 29, 1987). */
static void fit_tail(const double *sorted, int64_t many, double *numbers) {
  int64_t beyond = tail_of(many);
  const double *over = sorted + many - beyond;
  double start = over[-1], first = 0.0, second = 0.0;
  for (int64_t i = 0; i < beyond; i++) {
    double excess = over[i] - start;
    first += excess;
    second += excess * (double)(beyond - 1 - i) / (double)(beyond - 1);
  }
  first /= (double)beyond;
  second /= (double)beyond;
  double rest = first - 2.0 * second, shape = rest > 0.0 ? 2.0 - first / rest : 0.0;
  numbers[BEGIN] = start;
  numbers[SHAPE] = smaller(larger(shape, LEAST_SHAPE), MOST_SHAPE);
  numbers[WIDTH] = larger(first * (1.0 - numbers[SHAPE]), 1e-300);
}

/* The excursions of S over the calibration's own scores, of rows that follow one another. */
static void find_excursions(const reference_settings *settings, reference_state *state,
                            const mat *scores) {
  const double *embedded = row_of(scores, SHORT), *newest = row_of(scores, ALONE);
  double recent = 0.0;
  int64_t since = 0;
  state->reals.at[LEVEL] = 1.0;
  for (int64_t n = 0; n < scores->columns; n++) {
    double counted =
        weighed(&recent, &since, settings->lags, n, surprise_of(state, SHORT, embedded[n]),
                surprise_of(state, ALONE, newest[n]));
    if (has_windows(state))
      counted += added_by_shape(settings, state,
                                surprise_of(state, SHAPES, row_of(scores, SHAPES)[n]));
    rehearse(settings, state, counted, VAST);
  }
}

/* The means of the measures over the rows that were kept. */
static void find_units(reference_state *state, int64_t many) {
  for (int which = 0; which < MEASURES; which++) {
    const double *kept = row_of(&state->scores, which);
    double sum = 0.0;
    for (int64_t n = 0; n < many; n++) sum += which == ANGLE ? kept[n] : sqrt(kept[n]);
    state->reals.at[MEANS + which] = larger(sum / (double)many, LEAST_MEAN);
  }
  if (!has_windows(state)) return;
  const double *kept = row_of(&state->scores, WINDOW);
  double sum = 0.0, known = 0.0;
  for (int64_t n = 0; n < many; n++) {
    if (kept[n] < 0.0) continue;
    sum += sqrt(kept[n]);
    known += 1.0;
  }
  state->reals.at[WINDOW_MEAN] = larger(sum / larger(known, 1.0), LEAST_MEAN);
}

/* Scores and tails from the newest `many` measures; false where memory is short. */
static int calibrate_by(const reference_settings *settings, reference_state *state, int64_t many) {
  int64_t slots = state->scores.columns;
  /* The oldest first: the kept ones are a ring. */
  int64_t oldest = state->counts.at[KEPT] - many;
  arena scratch = {0};
  mat scores = table(&scratch, scored(state), many);
  if (!take_block(&scratch)) return 0;
  scores = table(&scratch, scored(state), many);
  find_units(state, many);
  for (int64_t n = 0; n < many; n++) {
    int64_t at = (oldest + n) % slots;
    for (int which = 0; which < scored(state); which++)
      row_of(&scores, which)[n] = score_of(state, which, &state->scores, at);
  }
  state->counts.at[SORTED] = many;
  for (int which = 0; which < scored(state); which++) {
    double *sorted = row_of(&state->calibration, which);
    copy(sorted, row_of(&scores, which), many);
    sort(sorted, many);
    fit_tail(sorted, many, tail_numbers(state, which));
  }
  /* The first scores are those of all rows, one after the other. */
  if (state->counts.at[WATCHED] == 0) find_excursions(settings, state, &scores);
  give_back(&scratch);
  return 1;
}

int calibrate_so_far(const reference_settings *settings, reference_state *state) {
  return calibrate_by(settings, state, least_of(state->counts.at[KEPT], state->calibration.columns));
}

int calibrate(const reference_settings *settings, reference_state *state) {
  int64_t *counts = state->counts.at, slots = state->scores.columns;
  int64_t many = least_of(counts[KEPT], state->calibration.columns);
  int first = counts[CALIBRATED] == 0;
  if (first) state->times.at[STRETCH_TIME] = state->times.at[NEWEST_TIME];
  if (many >= 4 * TAIL_LEAST && !calibrate_by(settings, state, many)) return 0;
  if (first) {
    /* What was rehearsed is over. */
    book_excursion(state, state->reals.at[TOP]);
    state->reals.at[EVIDENCE] = state->reals.at[TOP] = 0.0;
  }
  find_threshold(settings, state);
  counts[CALIBRATED] = counts[SORTED];
  counts[DUE] = counts[KEPT] + least_of(counts[CALIBRATED], slots);
  return 1;
}
