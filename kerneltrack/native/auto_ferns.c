/* Random ferns of the learner that chooses for itself, see `learners/auto/learner.py`. */
#include <math.h>

#include "auto.h"
#include "philox.h"

/* A step is as long as this over the root of the number of ferns at first. */
#define CLASS_PACE 0.8
/* What a row adds to a leaf's squares in regression. */
#define TARGET_SQUARE 0.1
/* What stays of a leaf's squares whenever a row comes to it: steps never end. */
#define STAYS 0.99
/* Draws of two rows that differ in a channel. */
#define MOST_DRAWS 8
/* Key of the draws. */
#define FERN_KEY 0x6665726e73u

static int64_t fern_count(const auto_call *call) {
  return call->state->fern_channels.size / FERN_TESTS;
}

/* The leaf of each fern that the row at hand comes to. O(F) */
static void find_leaves(const auto_call *call) {
  const int64_t *channels = call->state->fern_channels.at;
  const double *thresholds = call->state->fern_thresholds.at, *row = call->x + 1;
  for (int64_t f = 0; f < fern_count(call); f++) {
    int64_t leaf = f;
    for (int test = 0; test < FERN_TESTS; test++)
      leaf = 2 * leaf + (row[*channels++] > *thresholds++);
    call->leaves[f] = leaf;
  }
}

void ask_ferns(auto_call *call, double *values) {
  const mat *weights = &call->state->fern_weights;
  int64_t known = call->at.known, many = fern_count(call), c = 0;
  find_leaves(call);
  for (; c + LANES <= known; c += LANES) {
    v4 total = {0};
    for (int64_t f = 0; f < many; f++) total += load4(row_of(weights, call->leaves[f]) + c);
    store4(values + c, total);
  }
  for (; c < known; c++) {
    double total = 0.0;
    for (int64_t f = 0; f < many; f++) total += row_of(weights, call->leaves[f])[c];
    values[c] = total;
  }
  tame(values, known);
}

/* What each class's value should rise by. Returns what a leaf's squares do. */
static double find_pushes(auto_call *call, const double *values, double label) {
  double *pushes = call->pushes, square = 0.0;
  if (call->at.how->regression) {
    pushes[0] = in_units(&call->at, label) - values[0];
    return TARGET_SQUARE;
  }
  softmax(values, call->at.known, pushes);
  for (int64_t c = 0; c < call->at.known; c++) {
    pushes[c] = (c == (int64_t)label ? 1.0 : 0.0) - pushes[c];
    square = fma(pushes[c], pushes[c], square);
  }
  return square;
}

void learn_ferns(auto_call *call, const double *values, double label) {
  double square = find_pushes(call, values, label);
  int64_t many = fern_count(call);
  double pace = call->at.how->regression ? 1.0 / (double)many : CLASS_PACE / sqrt((double)many);
  double *squares = call->state->fern_squares.at, *steps = call->fern_steps;
  for (int64_t f = 0; f < many; f++) {
    double *sum = squares + call->leaves[f];
    steps[f] = *sum = fma(STAYS, *sum, square);
  }
  for (int64_t f = 0; f < many; f++) steps[f] = pace / sqrt(1.0 + steps[f]);
  for (int64_t f = 0; f < many; f++)
    add_scaled(row_of(&call->state->fern_weights, call->leaves[f]), steps[f], call->pushes,
               call->at.known);
}

void turn_ferns(auto_call *call, double turn, double shift) {
  mat *weights = &call->state->fern_weights;
  double part = shift / (double)fern_count(call);
  for (int64_t leaf = 0; leaf < weights->rows; leaf++)
    weights->at[leaf] = fma(turn, weights->at[leaf], part);
}

/* A place between what two rows of the window have in a channel, if there are two that differ. */
static void draw_test(const auto_call *call, int64_t many, int64_t place) {
  int64_t columns = call->width + call->features, *channel = call->state->fern_channels.at + place;
  uint64_t key[2] = {FERN_KEY, (uint64_t)many}, words[WORDS];
  for (uint64_t again = 0; again < MOST_DRAWS; again++) {
    uint64_t counter[WORDS] = {(uint64_t)place, again, 0, 0};
    philox_block(key, counter, words);
    if (again == 0) *channel = (int64_t)(uniform(words[0]) * (double)call->width);
    int64_t one = (int64_t)(uniform(words[1]) * (double)many);
    int64_t other = (int64_t)(uniform(words[2]) * (double)many);
    double low = (double)*window_at(&call->state->recent, columns, one, *channel);
    double high = (double)*window_at(&call->state->recent, columns, other, *channel);
    call->state->fern_thresholds.at[place] = fma(uniform(words[3]), high - low, low);
    if (low != high) return;
  }
}

void draw_ferns(auto_call *call, int64_t many) {
  auto_state *state = call->state;
  for (int64_t place = 0; place < state->fern_channels.size; place++)
    draw_test(call, many, place);
  fill(state->fern_weights.at, 0.0, state->fern_weights.rows * state->fern_weights.columns);
  fill(state->fern_squares.at, 0.0, state->fern_squares.size);
}
