/* Experts side by side and a mixture of them, see `learners/auto/learner.py`. */
#include "auto.h"

#include "elementary.h"

/* Of an error, in squared deviations of the mixture's, at most so much counts against an expert. */
#define MOST_SQUARES 25.0
/* How much such a squared deviation counts: with more, chance moves the weights. */
#define SQUARE_RATE 0.0625

/* Rows that the expert of a few nearest ones asks. */
#define FEW 4
/* Rows that the guess of what follows a label begins with. */
#define FIRST_FOLLOWING 20.0
/* Rows that are nearer than this are all as near. */
#define LEAST_SQUARE 1e-6

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
    call->point = reals(scratch, call->width);
    call->spot = reals(scratch, call->width);
    call->row = reals(scratch, call->width + call->features);
    call->squares = piece(scratch, state->recent_labels.size + SIDE, sizeof(float));
    call->singles = piece(scratch, 2 * call->width, sizeof(float));
    call->leaves = piece(scratch, state->fern_channels.size / FERN_TESTS, sizeof(int64_t));
    call->fern_steps = reals(scratch, state->fern_channels.size / FERN_TESTS);
    call->pushes = reals(scratch, line);
    call->gaps = reals(scratch, state->recent_labels.size + SIDE);
    call->weights = table(scratch, size, line);
    call->slopes = table(scratch, line, call->width);
    if (!placed && !take_block(scratch)) return 0;
  }
  call->x[0] = 1.0;
  return 1;
}

/* Add a row's weight to what its label says: its class's share, or its target's. */
static void count_near(const auto_call *call, int64_t expert, int64_t rank, double weight) {
  double label = call->state->recent_labels.at[call->nearest.place[rank]];
  double *values = row_of(&call->values, expert);
  if (call->at.how->regression)
    values[0] = fma(weight, in_units(&call->at, label), values[0]);
  else if (label >= 0.0)
    values[(int64_t)label] += weight;
}

/* What the nearest rows of the window say. O(WD) */
static void ask_nearest(auto_call *call, const double *row) {
  const auto_state *state = call->state;
  int64_t near = call->memories * TAPS + NEAR;
  int64_t many = least_of(call->at.counts[LEARNED], call->settings->window);
  const nearest_rows *found = &call->nearest;
  double weights[NEAREST], total = 0.0;
  measure_window(&state->recent, call->width + call->features, many, row, state->scales.at,
                 call->width, call->squares, call->singles);
  find_nearest(call->squares, many, &call->nearest);
  for (int64_t e = near; e < near + 3; e++) fill(row_of(&call->values, e), 0.0, call->at.known);
  for (int64_t i = 0; i < found->many; i++) {
    double part = ((double)found->squared[0] + LEAST_SQUARE) / ((double)found->squared[i] + LEAST_SQUARE);
    weights[i] = part * part;
    total += weights[i];
  }
  for (int64_t i = 0; i < found->many; i++) {
    count_near(call, near, i, weights[i] / total);
    if (i < FEW) count_near(call, near + 1, i, 1.0 / (double)least_of(FEW, found->many));
    count_near(call, near + 2, i, 1.0 / (double)found->many);
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
  ask_nearest(call, row_of(call->at.rows, call->at.n));
  ask_ferns(call, row_of(&call->values, call->memories * TAPS + FERNS));
  for (int64_t e = 0; e <= call->memories * TAPS + NEAR_MANY; e++) tame(row_of(&call->values, e), call->at.known);
}

/* Logarithms of the first `known` chances, both in whole vectors. */
static void take_logs(const double *chances, int64_t known, double *logs) {
  for (int64_t c = 0; c < known; c += LANES) store4(logs + c, log4(load4(chances + c)));
}

/* Chances with a little of all classes in them, and their logarithms. */
static void with_floor(auto_call *call, int64_t expert) {
  double *chances = row_of(&call->chances, expert);
  spread_floor(chances, call->at.known);
  take_logs(chances, call->at.known, row_of(&call->logs, expert));
}

/* The chances of decision values at the expert's β. */
static void temper(auto_call *call, int64_t expert) {
  double *chances = row_of(&call->chances, expert), *logs = row_of(&call->logs, expert);
  int64_t known = call->at.known;
  double beta = row_of(&call->state->tempers, expert)[BETA];
  temper_values(beta, row_of(&call->values, expert), known, chances);
  take_logs(chances, known, logs);
}

/* Labels come as often as they did after the last one, mixed with as many as `FIRST_FOLLOWING` rows
of what was expected without that. */
static void follow_last(const auto_call *call, int64_t last, double *chances) {
  const double *line = row_of(&call->state->following, last);
  double total = FIRST_FOLLOWING + entry_sum(line, call->at.known);
  for (int64_t c = 0; c < call->at.known; c++)
    chances[c] = fma(FIRST_FOLLOWING, chances[c], line[c]) / total;
}

/* The last label stays as often as it did, or another comes as often as each has; then what came
after this label. */
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
  if (last >= 0) {
    chances[last] = call->at.known > 1 ? stays : 1.0;
    follow_last(call, last, chances);
  }
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

/* Whether a memory is read off twice at the same place, the map's end: of rows without features. */
static int is_twin(const auto_call *call, int64_t expert) {
  const mat *tempers = &call->state->tempers;
  return call->features == 0 && expert < call->memories * TAPS && expert % TAPS == TAPS - 1 &&
         row_of(tempers, expert)[BETA] == row_of(tempers, expert - 1)[BETA];
}

/* What the expert before says. */
static void repeat(auto_call *call, int64_t expert) {
  copy(row_of(&call->chances, expert), row_of(&call->chances, expert - 1), call->chances.columns);
  copy(row_of(&call->logs, expert), row_of(&call->logs, expert - 1), call->logs.columns);
}

/* The mixture's probabilities into the lesson's values. O(EC) */
static void mix_classes(auto_call *call) {
  int64_t last = call->memories * TAPS + LAST_LABEL;
  if (call->at.known == 0) return;
  for (int64_t e = 0; e < last; e++) {
    if (is_twin(call, e))
      repeat(call, e);
    else
      temper(call, e);
  }
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
  call->surprise = 1.0 - call->at.values[code];
  for (int64_t e = 0; e < call->experts; e++) call->image[e] = row_of(&call->chances, e)[code];
  share_out(call);
  learn_class_stack(call, call->memories * TAPS + STACK);
  learn_tempers(call);
  follow_class(call, row_of(&call->values, follower));
  int64_t last = state->counts.at[LATEST] - 1;
  if (last >= 0) {
    scale_all(row_of(&state->following, last), FADING, state->following.columns);
    row_of(&state->following, last)[code] += 1.0;
    state->reals.at[STAYED] = FADING * state->reals.at[STAYED] + (last == code ? 1.0 : 0.0);
    state->reals.at[TURNED] = FADING * state->reals.at[TURNED] + (last == code ? 0.0 : 1.0);
  }
  state->counts.at[LATEST] = code + 1;
  state->seen.at[code] += 1.0;
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
  turn_ferns(call, to.turn, to.shift);
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
  int64_t follower = call->memories * TAPS + FOLLOWER, stack = call->memories * TAPS + STACK;
  int64_t width = 1 + call->width;
  turn_units(call);
  double label = call->at.labels->targets.at[call->at.n], *real = state->reals.at;
  double target = in_units(&call->at, label);
  double missed = target - call->at.values[0];
  tally_target(call, target);
  call->surprise = real[SPREAD] > 0.0 ? smaller(1.0, missed * missed / real[SPREAD]) : 1.0;
  int64_t learned = call->at.counts[LEARNED];
  double pace = larger(1.0 - FADING, 1.0 / (double)(learned + 1));
  real[SIZE2] += pace * (target * target - real[SIZE2]);
  if (learned > 0 && real[SPREAD] > 0.0) {
    for (int64_t e = 0; e < call->experts; e++) {
      double error = target - row_of(&call->values, e)[0];
      call->image[e] = exp1(-SQUARE_RATE * smaller(MOST_SQUARES, error * error / real[SPREAD]));
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

static void learn_row(auto_call *call) {
  const lesson *at = &call->at;
  int regression = at->how->regression != 0;
  double label = regression ? at->labels->targets.at[at->n] : (double)at->code;
  note_course(call);
  if (regression)
    learn_target(call);
  else
    learn_class(call);
  if (call->state->counts.at[MAPPED])
    learn_ferns(call, row_of(&call->values, call->memories * TAPS + FERNS), label);
  aim_at(call, label);
  learn_memories(call, call->aimed, at->counts[LEARNED]);
  learn_map(call, label);
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
