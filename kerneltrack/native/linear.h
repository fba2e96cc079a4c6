/* What the loops of the linear learners share (`learners/linear`): w_c·x of every class. */
#ifndef KT_LINEAR_H
#define KT_LINEAR_H

#include "layouts.h"
#include "learning.h"

/* A call: the row at hand, its features x (and 1 behind them where the weights have a place for a
bias), and further numbers, as many as the loop has asked for. */
typedef struct {
  lesson at;
  mat *weights;
  double *x;
  double *more;
  arena scratch;
} linear_lesson;

/* False where there is no memory. */
int begin_linear(linear_lesson *now, int64_t more, const mode *how, linear_state *state,
                 const mat *rows, const coded *labels, predicted *out);

/* Go on to the next row, with its decision values; false behind the last. */
static inline int decide_next(linear_lesson *now) {
  lesson *at = &now->at;
  if (!next_row(at)) return 0;
  copy(now->x, row_of(at->rows, at->n), at->rows->columns);
  decide(at, now->weights, now->x);
  return 1;
}

/* Whether weights have a place for a bias behind those of the features. */
static inline int has_bias(const linear_lesson *now) {
  return now->weights->columns > now->at.rows->columns;
}

/* Whether the bias is of the ridge's concern: it is not where targets are centred. */
static inline int shrinks_bias(const linear_lesson *now) {
  return !(now->at.how->regression && now->at.how->units == CENTRED);
}

/* Take the row's target up, and write the weights in the units that follow from it. */
static inline void turn_weights(linear_lesson *now) {
  new_units to = meet_target(&now->at);
  double *weights = row_of(now->weights, 0);
  scale_all(weights, to.turn, now->weights->columns);
  if (has_bias(now)) weights[now->weights->columns - 1] += to.shift;
  now->at.values[0] = fma(to.turn, now->at.values[0], to.shift);
}

/* Predict rows up to the next one that is learned from, and meet its class or target; false if
there is none. */
static inline int next_lesson(linear_lesson *now) {
  while (decide_next(now))
    if (report_row(&now->at)) {
      meet_class(&now->at);
      if (now->at.how->regression) turn_weights(now);
      return 1;
    }
  return 0;
}

static inline int64_t end_linear(linear_lesson *now) {
  give_back(&now->scratch);
  return KT_DONE;
}

/* w_c ← w_c + factor·x */
static inline void add_row(linear_lesson *now, int64_t c, double factor) {
  add_scaled(row_of(now->weights, c), factor, now->x, now->weights->columns);
}

/* w_c ← (1 - amount)w_c of the known classes */
static inline void shrink_known(linear_lesson *now, double amount) {
  int64_t width = shrinks_bias(now) ? now->weights->columns : now->at.rows->columns;
  shrink(now->weights, now->at.known, width, amount);
}

#endif
