/* Experts side by side and a mixture of them, see `learners/auto/learner.py`. */
#include "elementary.h"
#include "learning.h"

/* Places in `counts` behind those of all learners: landmarks; the class of the last label, 0 before
the first, else its place and 1; rows that wait for the map; whether it is there. */
enum { MET = LEARNER_COUNTS, LATEST, WAITING, MAPPED };
/* Places in `reals`: what has come towards the next landmark; labels that were the last one's, and
that were not; the last target; the mixture's mean squared error; the targets' mean square. */
enum { TOWARDS, STAYED, TURNED, LAST_TARGET, SPREAD, SIZE2, REALS };
/* Where a memory's functions are read off: the constant, the row, the map, the features. */
enum { TAPS = 4 };
/* Behind the memories' functions: the follower, the last label, the stack of all these. */
enum { FOLLOWER, LAST_LABEL, STACK, OTHERS };
/* Columns of `tally`. */
enum { LOSS, RIGHT, WEIGHT };

/* Inputs beyond this count as this, and no entry of D is below that: their products stay numbers. */
#define MOST_INPUT 1e30
#define LEAST_PIVOT 1e-300
/* D of the constant where targets are centred: no λ holds it back. */
#define FREE_PIVOT 1e100
/* Rows between two turns of restoring λ to a coordinate. */
#define RESTORE_EVERY 4
/* The map begins when so much of the budget is met, or so many rows have waited for it. */
#define FIRST_SHARE 0.75
#define LONGEST_WAIT 256
/* A later landmark is one that is nearer to no other than this, and so many of its kind have come. */
#define NOVEL 0.2
#define LATER_EVERY 4.0
/* Of an error, in squared deviations of the mixture's, at most so much counts against an expert. */
#define MOST_SQUARES 25.0

typedef struct {
  double ridge;
  double share;
  double inverse_gamma;
  int64_t last_label;
  vec memories;
  int64_t channels;
} auto_settings;

/* `AutoState` but for the classes' names, with room for the call's classes. */
typedef struct {
  mat factors;
  mat pivots;
  mat aims;
  mat landmarks;
  mat chase;
  mat tempers;
  vec shares;
  mat blending;
  vec blend;
  vec seen;
  mat early;
  mat tally;
  mat course;
  vec reals;
  vec sums;
  ints counts;
} auto_state;

/* A call: the row at hand, its coordinates x, and what the experts say of it. */
typedef struct {
  lesson at;
  const auto_settings *settings;
  auto_state *state;
  int64_t size, memories, experts, width, features, first_feature;
  double *x;
  /* Nx of each memory, (L, p). */
  mat along;
  /* Decision values, probabilities and their logarithms of each expert, whole vectors a line. */
  mat values, chances, logs;
  /* Of the row that a memory takes in, see `find_gains`; u. */
  double *steps, *spreads, *backs, *gains, *taken;
  double *wanted, *aimed, *gradient, *image, *mixed;
  arena scratch;
} auto_call;

/* Rows i to i + 3 of a memory's N, i a multiple of four, with the columns up to i + 3: four columns
of the four rows, then the next four, so that all of N is read in the order in which it lies. */
static inline double *four_at(const auto_call *call, int64_t memory, int64_t i) {
  return row_of(&call->state->factors, memory) + i * (i + LANES) / 2;
}

static inline double *entry_at(const auto_call *call, int64_t memory, int64_t row, int64_t column) {
  int64_t r = row % LANES, c = column % LANES;
  return four_at(call, memory, row - r) + LANES * (column - c + r) + c;
}

static int begin_call(auto_call *call, const auto_settings *settings, const mode *how,
                      auto_state *state, const mat *rows, const coded *labels, predicted *out) {
  int64_t memories = settings->memories.size, size = state->aims.rows / memories;
  int64_t classes = state->aims.columns, line = padded(classes);
  arena *scratch = &call->scratch;
  *call = (auto_call){.settings = settings, .state = state, .size = size, .memories = memories};
  call->experts = memories * TAPS + OTHERS;
  call->width = settings->channels;
  call->features = rows->columns - settings->channels;
  call->first_feature = 1 + call->width + state->landmarks.rows;
  for (int placed = 0; placed < 2; placed++) {
    call->at = make_lesson(scratch, classes, how, &state->sums, &state->counts, rows, labels, out);
    call->x = reals(scratch, padded(size));
    call->along = table(scratch, memories, padded(size));
    call->values = table(scratch, call->experts, line);
    call->chances = table(scratch, call->experts, line);
    call->logs = table(scratch, call->experts, line);
    call->steps = reals(scratch, padded(size));
    call->spreads = reals(scratch, padded(size));
    call->backs = reals(scratch, padded(size));
    call->gains = reals(scratch, padded(size));
    call->taken = reals(scratch, padded(size));
    call->wanted = reals(scratch, line);
    call->aimed = reals(scratch, line);
    call->mixed = reals(scratch, line);
    call->gradient = reals(scratch, padded(call->experts));
    call->image = reals(scratch, padded(call->experts));
    if (!placed && !take_block(scratch)) return 0;
  }
  call->x[0] = 1.0;
  return 1;
}

/* The places of landmarks that were not met yet are not in use: from here to the features'. */
static inline int64_t free_places(const auto_call *call) {
  const int64_t *counts = call->state->counts.at;
  return 1 + call->width + (counts[MAPPED] ? counts[MET] : 0);
}

/* The coordinates in use from `first` on: two runs of them. */
enum { RUNS = 2 };
typedef struct {
  int64_t begin, end;
} run;

static inline run used_run(const auto_call *call, int which, int64_t first) {
  if (which == 0) return (run){first, free_places(call)};
  return (run){first > call->first_feature ? first : call->first_feature, call->size};
}

/* The next four coordinates of which one is in use: a multiple of four, as `i` is. */
static inline int64_t next_four(const auto_call *call, int64_t i) {
  if (i < free_places(call) || i + LANES > call->first_feature) return i;
  return call->first_feature / LANES * LANES;
}

static void take_inputs(double *to, const double *from, int64_t count) {
  for (int64_t j = 0; j < count; j++)
    to[j] = larger(-MOST_INPUT, smaller(MOST_INPUT, from[j]));
}

/* Coordinates of the row: 1, the row, κ(landmarks, row), the features. O(mD) */
static void place_row(auto_call *call, const double *row) {
  const mat *landmarks = &call->state->landmarks;
  double *kernel = call->x + 1 + call->width;
  int64_t met = call->state->counts.at[MET], i = 0;
  double last[LANES] = {0};
  take_inputs(call->x + 1, row, call->width);
  take_inputs(call->x + call->first_feature, row + call->width, call->features);
  for (int64_t j = 0; j < met; j++)
    kernel[j] = -call->settings->inverse_gamma *
                squared_distance(row_of(landmarks, j), row, call->width);
  for (; i + LANES <= met; i += LANES) store4(kernel + i, exp4(load4(kernel + i)));
  copy(last, kernel + i, met - i);
  store4(last, exp4(load4(last)));
  copy(kernel + i, last, met - i);
}

/* Nx of one memory: four rows side by side share what is read of x. O(p²) */
static void project(auto_call *call, int64_t memory) {
  double *along = row_of(&call->along, memory);
  for (int64_t i = next_four(call, 0); i < call->size; i = next_four(call, i + LANES)) {
    const double *next = four_at(call, memory, i);
    v4 sums[LANES] = {{0}};
    for (int64_t j = 0; j < i + LANES; j += LANES) {
      v4 x = load4(call->x + j);
      UNROLLED
      for (int r = 0; r < LANES; r++, next += LANES) sums[r] = fma4(load4(next), x, sums[r]);
    }
    UNROLLED
    for (int r = 0; r < LANES; r++) along[i + r] = fold4(sums[r]);
  }
}

/* What one memory's functions say, read off at its taps. O(p² + Cp) */
static void read_off(auto_call *call, int64_t memory) {
  int64_t begins[TAPS] = {0, 1, 1 + call->width, call->first_feature};
  int64_t ends[TAPS] = {1, 1 + call->width, free_places(call), call->size};
  const double *along = row_of(&call->along, memory);
  const mat *aims = &call->state->aims;
  int64_t known = call->at.known, c = 0;
  project(call, memory);
  for (; c + LANES <= known; c += LANES) {
    v4 total = {0};
    for (int tap = 0; tap < TAPS; tap++) {
      const double *aim = row_of(aims, memory * call->size + begins[tap]) + c;
      for (int64_t i = begins[tap]; i < ends[tap]; i++, aim += aims->columns)
        total = fma4(all4(along[i]), load4(aim), total);
      store4(row_of(&call->values, memory * TAPS + tap) + c, total);
    }
  }
  for (; c < known; c++) {
    double total = 0.0;
    for (int tap = 0; tap < TAPS; tap++) {
      const double *aim = row_of(aims, memory * call->size + begins[tap]) + c;
      for (int64_t i = begins[tap]; i < ends[tap]; i++, aim += aims->columns)
        total = fma(along[i], *aim, total);
      row_of(&call->values, memory * TAPS + tap)[c] = total;
    }
  }
}

static void evaluate(auto_call *call) {
  const auto_state *state = call->state;
  int64_t follower = call->memories * TAPS + FOLLOWER;
  double *chased = row_of(&call->values, follower);
  place_row(call, row_of(call->at.rows, call->at.n));
  for (int64_t memory = 0; memory < call->memories; memory++) read_off(call, memory);
  for (int64_t c = 0; c < call->at.known; c++)
    chased[c] = dot(row_of(&state->chase, c), call->x, 1 + call->width);
  for (int64_t e = 0; e <= follower; e++) tame(row_of(&call->values, e), call->at.known);
}

/* Logarithms of the first `known` chances, both in whole vectors. */
static void take_logs(double *chances, int64_t known, double *logs) {
  fill(chances + known, 1.0, padded(known) - known);
  for (int64_t c = 0; c < known; c += LANES) store4(logs + c, log4(load4(chances + c)));
}

/* Chances with a little of all classes in them, and their logarithms. */
static void with_floor(auto_call *call, int64_t expert) {
  double *chances = row_of(&call->chances, expert), *logs = row_of(&call->logs, expert);
  int64_t known = call->at.known;
  double least = FLOOR / (double)known;
  for (int64_t c = 0; c < known; c++) chances[c] = fma(1.0 - FLOOR, chances[c], least);
  take_logs(chances, known, logs);
}

/* The chances of decision values at the expert's β. */
static void temper(auto_call *call, int64_t expert) {
  double *chances = row_of(&call->chances, expert), *logs = row_of(&call->logs, expert);
  int64_t known = call->at.known;
  double beta = row_of(&call->state->tempers, expert)[BETA];
  temper_values(beta, row_of(&call->values, expert), known, chances);
  take_logs(chances, known, logs);
}

/* The last label stays as often as it did, or another comes as often as each has. */
static void expect_last(auto_call *call, int64_t expert) {
  const auto_state *state = call->state;
  double *chances = row_of(&call->chances, expert), total = 0.0;
  double stays = (state->reals.at[STAYED] + 1.0) /
                 (state->reals.at[STAYED] + state->reals.at[TURNED] + 2.0);
  int64_t last = state->counts.at[LATEST] - 1;
  if (!call->settings->last_label) last = -1;
  for (int64_t c = 0; c < call->at.known; c++) {
    chances[c] = c == last ? 0.0 : state->seen.at[c] + 1.0;
    total += chances[c];
  }
  double rest = last < 0 ? 1.0 : 1.0 - stays;
  for (int64_t c = 0; c < call->at.known; c++) chances[c] = rest * chances[c] / larger(total, 1e-9);
  if (last >= 0) chances[last] = call->at.known > 1 ? stays : 1.0;
  with_floor(call, expert);
}

static void stack_classes(auto_call *call, int64_t stack) {
  double *values = row_of(&call->values, stack);
  fill(values, 0.0, call->at.known);
  for (int64_t e = 0; e < stack; e++)
    add_scaled(values, call->state->blend.at[e], row_of(&call->logs, e), call->at.known);
  tame(values, call->at.known);
  copy(row_of(&call->chances, stack), values, call->at.known);
  softmax(row_of(&call->chances, stack), call->at.known, row_of(&call->chances, stack));
  with_floor(call, stack);
}

/* The mixture's probabilities into the lesson's values. O(EC) */
static void mix_classes(auto_call *call) {
  int64_t last = call->memories * TAPS + LAST_LABEL;
  if (call->at.known == 0) return;
  for (int64_t e = 0; e < last; e++) temper(call, e);
  expect_last(call, last);
  stack_classes(call, last + 1);
  fill(call->at.values, 0.0, call->at.known);
  for (int64_t e = 0; e < call->experts; e++)
    add_scaled(call->at.values, call->state->shares.at[e], row_of(&call->chances, e),
               call->at.known);
}

static void mix_targets(auto_call *call) {
  int64_t last = call->memories * TAPS + LAST_LABEL, stack = last + 1;
  double total = 0.0, mixed = 0.0;
  row_of(&call->values, last)[0] = call->settings->last_label
                                       ? in_units(&call->at, call->state->reals.at[LAST_TARGET])
                                       : row_of(&call->values, 0)[0];
  for (int64_t e = 0; e < stack; e++)
    total = fma(call->state->blend.at[e], row_of(&call->values, e)[0], total);
  row_of(&call->values, stack)[0] = total;
  tame(row_of(&call->values, stack), 1);
  for (int64_t e = 0; e < call->experts; e++)
    mixed = fma(call->state->shares.at[e], row_of(&call->values, e)[0], mixed);
  call->at.values[0] = mixed;
}

static void mix(auto_call *call) {
  if (call->at.how->regression)
    mix_targets(call);
  else
    mix_classes(call);
}

/* w_e ← (1 - α)w_e·likelihood_e/Σ + α/E; `image` holds the likelihoods. */
static void share_out(auto_call *call) {
  double total = 0.0, share = call->settings->share, *shares = call->state->shares.at;
  for (int64_t e = 0; e < call->experts; e++) {
    shares[e] *= call->image[e];
    total += shares[e];
  }
  for (int64_t e = 0; e < call->experts; e++)
    shares[e] = fma(1.0 - share, shares[e] / total, share / (double)call->experts);
}

/* A Newton step on the log loss of each expert's β. */
static void learn_tempers(auto_call *call) {
  for (int64_t e = 0; e < call->memories * TAPS + LAST_LABEL; e++) {
    const double *chances = row_of(&call->chances, e), *values = row_of(&call->values, e);
    learn_temper(row_of(&call->state->tempers, e), values, chances, call->at.known, call->at.code);
  }
}

/* A ← A - Ag gᵀA/(1 + gᵀAg), blend += error·Ag/(1 + gᵀAg), A is `blending`. O(E²) */
static void learn_blend(auto_call *call, int64_t count, double error) {
  mat *blending = &call->state->blending;
  double squared = 1.0;
  for (int64_t i = 0; i < count; i++) {
    call->image[i] = dot(row_of(blending, i), call->gradient, count);
    squared = fma(call->gradient[i], call->image[i], squared);
  }
  add_scaled(call->state->blend.at, error / squared, call->image, count);
  for (int64_t i = 0; i < count; i++)
    add_scaled(row_of(blending, i), -call->image[i] / squared, call->image, count);
}

static void learn_class_stack(auto_call *call, int64_t stack) {
  const double *chances = row_of(&call->chances, stack);
  for (int64_t e = 0; e < stack; e++) {
    const double *logs = row_of(&call->logs, e);
    call->gradient[e] = logs[call->at.code] - dot(chances, logs, call->at.known);
  }
  learn_blend(call, stack, 1.0);
}

static void follow_class(auto_call *call, const double *values) {
  const lesson *at = &call->at;
  int64_t rival = -1, width = 1 + call->width;
  for (int64_t c = 0; c < at->known; c++)
    if (c != at->code && (rival < 0 || values[c] > values[rival])) rival = c;
  double loss = rival >= 0 ? 1.0 + values[rival] - values[at->code] : 0.0;
  if (!(loss > 0.0)) return;
  double step = smaller(1.0, loss / (2.0 * dot(call->x, call->x, width)));
  add_scaled(row_of(&call->state->chase, at->code), step, call->x, width);
  add_scaled(row_of(&call->state->chase, rival), -step, call->x, width);
}

/* Whether the largest of the chances is the row's own class's. */
static int is_right(const auto_call *call, const double *chances) {
  int64_t best = 0;
  for (int64_t c = 1; c < call->at.known; c++)
    if (chances[c] > chances[best]) best = c;
  return best == call->at.code;
}

/* Note what each expert, and the mixture behind them, made of the row. Of the last label it counts
how often the row's was the same: the guess that it stays is what others are compared with. */
static void tally_class(auto_call *call) {
  int64_t last = call->memories * TAPS + LAST_LABEL, place = call->state->counts.at[LATEST];
  for (int64_t e = 0; e <= call->experts; e++) {
    int mixed = e == call->experts, same = call->settings->last_label && place == call->at.code + 1;
    const double *chances = mixed ? call->at.values : row_of(&call->chances, e);
    double *tally = row_of(&call->state->tally, e);
    tally[LOSS] -= mixed ? log1(chances[call->at.code]) : row_of(&call->logs, e)[call->at.code];
    tally[RIGHT] += e == last ? same : is_right(call, chances);
    tally[WEIGHT] += mixed ? 1.0 : call->state->shares.at[e];
  }
}

static void tally_target(auto_call *call, double target) {
  for (int64_t e = 0; e <= call->experts; e++) {
    int mixed = e == call->experts;
    double error = target - (mixed ? call->at.values[0] : row_of(&call->values, e)[0]);
    error *= call->at.unit;
    double *tally = row_of(&call->state->tally, e);
    tally[LOSS] += error * error;
    tally[WEIGHT] += mixed ? 1.0 : call->state->shares.at[e];
  }
}

/* Rows that a line of `course` is of when so many were learned from before: a power of 2. */
static int64_t span_of(int64_t learned, int64_t spans) {
  int64_t span = 1;
  while (learned / spans >= span) span *= 2;
  return span;
}

/* Add the experts' weights at the row to its line; as lines run out, each takes the next one in. */
static void note_course(auto_call *call) {
  mat *course = &call->state->course;
  int64_t learned = call->at.counts[LEARNED], spans = course->rows, many = course->columns;
  int64_t span = span_of(learned, spans);
  if (learned > 0 && span_of(learned - 1, spans) < span) {
    for (int64_t i = 0; i < spans / 2; i++)
      for (int64_t e = 0; e < many; e++)
        row_of(course, i)[e] = row_of(course, 2 * i)[e] + row_of(course, 2 * i + 1)[e];
    fill(row_of(course, spans / 2), 0.0, (spans - spans / 2) * many);
  }
  double *line = row_of(course, learned / span);
  for (int64_t e = 0; e < many; e++) line[e] += call->state->shares.at[e];
}

static void learn_class(auto_call *call) {
  auto_state *state = call->state;
  int64_t code = call->at.code, follower = call->memories * TAPS + FOLLOWER;
  tally_class(call);
  for (int64_t e = 0; e < call->experts; e++) call->image[e] = row_of(&call->chances, e)[code];
  share_out(call);
  learn_class_stack(call, follower + 2);
  learn_tempers(call);
  follow_class(call, row_of(&call->values, follower));
  int64_t last = state->counts.at[LATEST] - 1;
  if (last >= 0) {
    state->reals.at[STAYED] = FADING * state->reals.at[STAYED] + (last == code ? 1.0 : 0.0);
    state->reals.at[TURNED] = FADING * state->reals.at[TURNED] + (last == code ? 0.0 : 1.0);
  }
  state->counts.at[LATEST] = code + 1;
  state->seen.at[code] += 1.0;
}

/* Whether a memory's constant is free of the ridge. */
static int is_free(const auto_call *call) {
  return call->at.how->regression && call->at.how->units == CENTRED;
}

/* Take the row's target up, and write all that is in the units of targets in those that follow. */
static void turn_units(auto_call *call) {
  auto_state *state = call->state;
  new_units to = meet_target(&call->at);
  double *chase = row_of(&state->chase, 0), *real = state->reals.at;
  scale_all(state->aims.at, to.turn, state->aims.rows);
  for (int64_t memory = 0; memory < call->memories; memory++)
    row_of(&state->aims, memory * call->size)[0] += to.shift;
  scale_all(chase, to.turn, state->chase.columns);
  chase[0] += to.shift;
  real[SPREAD] *= to.turn * to.turn;
  real[SIZE2] *= to.turn * to.turn;
  for (int64_t e = 0; e < call->experts; e++) {
    double *value = row_of(&call->values, e);
    value[0] = fma(to.turn, value[0], to.shift);
  }
  call->at.values[0] = fma(to.turn, call->at.values[0], to.shift);
}

static void learn_target(auto_call *call) {
  auto_state *state = call->state;
  int64_t follower = call->memories * TAPS + FOLLOWER, stack = follower + 2;
  int64_t width = 1 + call->width;
  turn_units(call);
  double label = call->at.labels->targets.at[call->at.n], *real = state->reals.at;
  double target = in_units(&call->at, label);
  double missed = target - call->at.values[0];
  tally_target(call, target);
  int64_t learned = call->at.counts[LEARNED];
  double pace = larger(1.0 - FADING, 1.0 / (double)(learned + 1));
  real[SIZE2] += pace * (target * target - real[SIZE2]);
  if (learned > 0 && real[SPREAD] > 0.0) {
    for (int64_t e = 0; e < call->experts; e++) {
      double error = target - row_of(&call->values, e)[0];
      call->image[e] = exp1(-0.5 * smaller(MOST_SQUARES, error * error / real[SPREAD]));
    }
    share_out(call);
  }
  double error = target - row_of(&call->values, stack)[0];
  double unit = sqrt(real[SIZE2]);
  if (unit > 0.0) {
    for (int64_t e = 0; e < stack; e++) call->gradient[e] = row_of(&call->values, e)[0] / unit;
    /* What a computer has of them: targets may have been tiny before. */
    tame(call->gradient, stack);
    learn_blend(call, stack, smaller(MOST_VALUE, larger(-MOST_VALUE, error / unit)));
  }
  real[SPREAD] += pace * (missed * missed - real[SPREAD]);
  double gap = target - row_of(&call->values, follower)[0];
  add_scaled(row_of(&state->chase, 0), gap / (dot(call->x, call->x, width) + 0.5), call->x, width);
  real[LAST_TARGET] = label;
}

/* What a row is along each coordinate, f (`steps`), and what it does to a memory there: v = Df/ρ
(`spreads`), α = 1 + Σfv up to the coordinate, k = f/α' (`backs`) with α' that of the coordinate
before, v/α (`gains`); D ← Dα'/(ρα). Coordinates that are not in use have none of it. */
static void find_gains(auto_call *call, int64_t memory, const double *along, double grown,
                       int64_t first, double scale) {
  double total = 1.0, inverse = 1.0, *pivots = row_of(&call->state->pivots, memory);
  fill(call->spreads, 0.0, padded(call->size));
  fill(call->backs, 0.0, padded(call->size));
  for (int which = 0; which < RUNS; which++) {
    run used = used_run(call, which, first);
    for (int64_t i = used.begin; i < used.end; i++) {
      double pivot = grown * pivots[i], step = scale * along[i];
      double spread = pivot * step, before = total;
      total = fma(step, spread, total);
      call->steps[i] = step;
      call->spreads[i] = spread;
      call->backs[i] = step * inverse;
      inverse = 1.0 / total;
      call->gains[i] = spread * inverse;
      pivots[i] = larger(pivot * (before * inverse), LEAST_PIVOT);
    }
  }
}

/* Take what each class was to say of the row into the functions, coordinate by coordinate: an error
is what those before have left of it. */
static void learn_aims(auto_call *call, int64_t memory, int64_t first) {
  const mat *aims = &call->state->aims;
  int64_t known = call->at.known, c = 0;
  for (; c + LANES <= known; c += LANES) {
    v4 error = load4(call->wanted + c);
    for (int which = 0; which < RUNS; which++) {
      run used = used_run(call, which, first);
      double *aim = row_of(aims, memory * call->size + used.begin) + c;
      for (int64_t i = used.begin; i < used.end; i++, aim += aims->columns) {
        v4 old = load4(aim);
        error = fma4(all4(-call->steps[i]), old, error);
        store4(aim, fma4(all4(call->gains[i]), error, old));
      }
    }
  }
  for (; c < known; c++) {
    double error = call->wanted[c];
    for (int which = 0; which < RUNS; which++) {
      run used = used_run(call, which, first);
      double *aim = row_of(aims, memory * call->size + used.begin) + c;
      for (int64_t i = used.begin; i < used.end; i++, aim += aims->columns) {
        error = fma(-call->steps[i], *aim, error);
        *aim = fma(call->gains[i], error, *aim);
      }
    }
  }
}

/* N ← N - k·u, u ← u + v·N, row by row: four rows side by side, so that u is read and written once
for them. A row's own column is 1 and has no u yet, the columns behind it have neither. O(p²) */
static void turn_rows(auto_call *call, int64_t memory, int64_t first) {
  double *u = call->taken;
  fill(u, 0.0, padded(call->size));
  for (int64_t i = next_four(call, first / LANES * LANES); i < call->size; i = next_four(call, i + LANES)) {
    double *next = four_at(call, memory, i);
    v4 backs[LANES], spreads[LANES];
    UNROLLED
    for (int r = 0; r < LANES; r++) {
      backs[r] = all4(-call->backs[i + r]);
      spreads[r] = all4(call->spreads[i + r]);
    }
    for (int64_t j = 0; j < i + LANES; j += LANES) {
      v4 now = load4(u + j);
      UNROLLED
      for (int r = 0; r < LANES; r++, next += LANES) {
        v4 old = load4(next);
        store4(next, fma4(backs[r], now, old));
        now = fma4(spreads[r], old, now);
      }
      store4(u + j, now);
    }
  }
}

/* Take a row into a memory, which it is `along`, not at all before coordinate `first`; `wanted` is
what each class was to say of it. */
static void absorb(auto_call *call, int64_t memory, const double *along, double grown,
                   int64_t first, double scale) {
  find_gains(call, memory, along, grown, first, scale);
  learn_aims(call, memory, first);
  turn_rows(call, memory, first);
}

/* Restore the λ that rows have cost one coordinate since its last turn. */
static void restore_ridge(auto_call *call, int64_t memory, int64_t learned) {
  double rho = call->settings->memories.at[memory];
  int64_t turn = learned / RESTORE_EVERY;
  int64_t place = turn % call->size;
  if (learned % RESTORE_EVERY != 0 || (place == 0 && is_free(call))) return;
  if (place >= free_places(call) && place < call->first_feature) return;
  int64_t rows = least_of(learned + 1, RESTORE_EVERY * call->size);
  double lost = sqrt(call->settings->ridge * (1.0 - power_of(rho, rows)));
  double *along = row_of(&call->along, memory);
  for (int64_t i = place; i < call->size; i++) along[i] = *entry_at(call, memory, i, place);
  fill(call->wanted, 0.0, call->at.known);
  absorb(call, memory, along, 1.0, place, lost);
}

/* Take the row into every memory: of each class what it was to say is in `wanted`. */
static void learn_memories(auto_call *call, const double *aimed, int64_t learned) {
  for (int64_t memory = 0; memory < call->memories; memory++) {
    double rho = call->settings->memories.at[memory];
    copy(call->wanted, aimed, call->at.known);
    absorb(call, memory, row_of(&call->along, memory), 1.0 / rho, 0, 1.0);
    if (rho < 1.0) restore_ridge(call, memory, learned);
  }
}

/* What each class was to say of a row of this class or target. */
static void aim_at(auto_call *call, double label) {
  fill(call->aimed, 0.0, call->at.known);
  if (call->at.how->regression)
    call->aimed[0] = in_units(&call->at, label);
  else
    call->aimed[(int64_t)label] = 1.0;
}

/* Begin the memories anew, with the map, by the rows that waited for it. */
static void begin_map(auto_call *call) {
  auto_state *state = call->state;
  int64_t many = state->counts.at[WAITING], inputs = state->early.columns - 1;
  state->counts.at[MAPPED] = 1;
  state->counts.at[WAITING] = 0;
  fill(state->aims.at, 0.0, state->aims.rows * state->aims.columns);
  fill(state->factors.at, 0.0, state->factors.rows * state->factors.columns);
  fill(state->pivots.at, 1.0 / call->settings->ridge, state->pivots.rows * state->pivots.columns);
  for (int64_t memory = 0; memory < call->memories; memory++) {
    if (is_free(call)) row_of(&state->pivots, memory)[0] = FREE_PIVOT;
    for (int64_t i = 0; i < call->size; i++) *entry_at(call, memory, i, i) = 1.0;
  }
  for (int64_t n = 0; n < many; n++) {
    const double *row = row_of(&state->early, n);
    place_row(call, row);
    for (int64_t memory = 0; memory < call->memories; memory++) project(call, memory);
    aim_at(call, row[inputs]);
    learn_memories(call, call->aimed, n);
  }
}

/* Whether the row becomes a landmark: one that is far from all of them does the sooner. */
static void meet_landmark(auto_call *call) {
  auto_state *state = call->state;
  int64_t met = state->counts.at[MET], most = state->landmarks.rows;
  if (met >= most) return;
  const double *kernel = call->x + 1 + call->width;
  double nearest = 0.0, *towards = state->reals.at + TOWARDS;
  for (int64_t j = 0; j < met; j++) nearest = larger(kernel[j], nearest);
  if (!state->counts.at[MAPPED])
    *towards += 2.0 * (1.0 - nearest);
  else if (nearest < NOVEL)
    *towards += 1.0 / LATER_EVERY;
  if (!(*towards >= 1.0)) return;
  *towards = 0.0;
  copy(row_of(&state->landmarks, met), call->x + 1, call->width);
  state->counts.at[MET] = met + 1;
}

/* Before the map is there: the row waits for it. */
static void wait_for_map(auto_call *call, double label) {
  auto_state *state = call->state;
  int64_t inputs = state->early.columns - 1;
  double *place = row_of(&state->early, state->counts.at[WAITING]++);
  copy(place, row_of(call->at.rows, call->at.n), inputs);
  place[inputs] = label;
  if ((double)state->counts.at[MET] >= FIRST_SHARE * (double)state->landmarks.rows ||
      state->counts.at[WAITING] == LONGEST_WAIT)
    begin_map(call);
}

static void learn_row(auto_call *call) {
  const lesson *at = &call->at;
  int regression = at->how->regression != 0;
  double label = regression ? at->labels->targets.at[at->n] : (double)at->code;
  note_course(call);
  if (regression)
    learn_target(call);
  else
    learn_class(call);
  aim_at(call, label);
  learn_memories(call, call->aimed, at->counts[LEARNED]);
  meet_landmark(call);
  if (!call->state->counts.at[MAPPED]) wait_for_map(call, label);
  at->counts[LEARNED] += 1;
}

/* Report what the mixture says: a classifier's decision values are logarithms of its probabilities,
which a mean of several makes less sure than it should be. */
static int report_mixture(auto_call *call) {
  int64_t known = call->at.known;
  if (call->at.how->regression || known == 0) return report_row(&call->at);
  fill(call->at.values + known, 1.0, padded(known) - known);
  for (int64_t c = 0; c < known; c += LANES)
    store4(call->mixed + c, log4(load4(call->at.values + c)));
  return report_values(&call->at, call->mixed);
}

/* A class is new: all that speaks of classes gets a place for it. */
static void meet(auto_call *call) {
  if (!meet_class(&call->at)) return;
  for (int64_t e = 0; e < call->experts; e++) row_of(&call->values, e)[call->at.known - 1] = 0.0;
  mix(call);
}

KT_API int64_t kt_auto_run(const auto_settings *settings, const mode *how, auto_state *state,
                           const mat *rows, const coded *labels, predicted *out) {
  auto_call call;
  if (!begin_call(&call, settings, how, state, rows, labels, out)) return KT_NO_MEMORY;
  while (next_row(&call.at)) {
    /* Before the first label there is nothing to say. */
    int learned = how->learn && labels->codes.at[call.at.n] >= 0;
    if (call.at.known > 0 || learned) {
      evaluate(&call);
      mix(&call);
    }
    if (!report_mixture(&call)) continue;
    meet(&call);
    learn_row(&call);
  }
  give_back(&call.scratch);
  return KT_DONE;
}

/* What every expert and, last, the mixture says of all classes, a line a row. */
KT_API int64_t kt_auto_values(const auto_settings *settings, const mode *how, auto_state *state,
                              const mat *rows, const coded *labels, predicted *out, mat *values) {
  auto_call call;
  if (!begin_call(&call, settings, how, state, rows, labels, out)) return KT_NO_MEMORY;
  int64_t classes = state->aims.columns;
  for (call.at.n = 0; call.at.n < rows->rows && call.at.known > 0; call.at.n++) {
    double *line = row_of(values, call.at.n);
    evaluate(&call);
    mix(&call);
    for (int64_t e = 0; e < call.experts; e++)
      copy(line + e * classes, row_of(how->regression ? &call.values : &call.chances, e), classes);
    copy(line + call.experts * classes, call.at.values, classes);
  }
  give_back(&call.scratch);
  return KT_DONE;
}
