/* What every learner's row loop does with a row beside learning from it: predict, score, decide.

The structures are those of `learners/common`. Labels are numbers: a class's place among the known
ones; a new class is the next.
*/
#ifndef KT_LEARNING_H
#define KT_LEARNING_H

#include "arena.h"
#include "layouts.h"
#include "shapes.h"
#include "vec.h"

/* Places in a state's `counts`, behind which a learner may have its own, and in `sums`: squared and
absolute errors, then a classifier's β and the curvature that it has met so far, then in regression
the mean and the variance of the targets learned from; at the end, where intervals are asked for,
what `follow_errors` keeps. */
enum { SCORED, CORRECT, LEARNED, UNUSABLE, LEARNER_COUNTS };
enum { SQUARED, ABSOLUTE, TEMPER, TARGET_MEAN = TEMPER + 2, TARGET_VARIANCE };
/* In classification, where regression has the mean: labels of each class. */
enum { SEEN = TARGET_MEAN };
/* Columns of a temper. */
enum { BETA, CURVATURE };

/* How fast what is known of a β's curvature fades. */
#define FADING 0.998
/* Share of a row's probabilities that is spread over all classes. */
#define FLOOR 1e-3
/* A larger value counts as this. */
#define MOST_VALUE 1e110
/* Of a learner with a kernel of its own: the rows that wait for the bandwidth. */
enum { EARLY = LEARNER_COUNTS + 2 };

/* What targets are learned as: as they are; in standard deviations; as deviations from their mean, in
standard deviations. */
enum { AS_THEY_ARE, SCALED, CENTRED };

/* How classes are balanced where one is predicted. */
enum { NOT_BALANCED, BY_COUNT, BY_ROOT };

/* Codes of no label, and of one that can be held against a class but not be learned. */
enum { MISSING = -1, UNUSABLE_LABEL = -2 };

/* A call of a row loop, and the row at hand. */
typedef struct {
  const mode *how;
  const mat *rows;
  const coded *labels;
  predicted *out;
  double *sums;
  int64_t *counts;
  /* Decision values of the row, in whole vectors; how many classes have one. */
  double *values;
  /* Its probabilities, in whole vectors. */
  double *chances;
  int64_t known;
  /* Its number, and its label where it is learned from, and how much that counts. */
  int64_t n, code;
  double weight;
  /* In regression a decision value z says centre + unit·z. */
  double centre, unit;
  /* What is known of the errors, where intervals or sets are asked for, else NULL. */
  double *errors;
  /* Labels of each class so far; NULL in regression. */
  double *seen;
} lesson;

/* How a decision value z of the units before is written in those now: turn·z + shift. */
typedef struct {
  double turn, shift;
} new_units;

/* A lesson before its first row, with room for `classes` decision values. */
lesson make_lesson(arena *from, int64_t classes, const mode *how, const vec *sums,
                   const ints *counts, const mat *rows, const coded *labels, predicted *out);

/* Go on to the next row that is fit to compute with; false behind the last. */
static inline int next_row(lesson *at) {
  while (++at->n < at->rows->rows)
    if (at->out->valid.at[at->n]) return 1;
  return 0;
}

/* Report what the row's decision values say, as probabilities at β, and score it, if that is asked
for; whether it is learned from: then β has taken its step. A label that cannot be used is
counted. */
int report_row(lesson *at);

/* The same of other decision values, in whole vectors. */
int report_values(lesson *at, const double *values);

/* chances ← (1 - .001)·chances + .001/known, in whole vectors. */
void spread_floor(double *chances, int64_t known);

/* chances ← (1 - .001)·softmax(β·values) + .001/known, of the first `known` >= 1 values; both in
whole vectors, and not the same. */
void temper_values(double beta, const double *values, int64_t known, double *chances);

/* A Newton step of a temper on the log loss of a row of class `code`, what its values and chances
were before it. */
void learn_temper(double *temper, const double *values, const double *chances, int64_t known,
                  int64_t code);

/* w ← w from numbers that a computer has; 0 for what is none. */
void tame(double *values, int64_t count);

/* Take the row's class up if it is new, with a decision value of 0; whether it was. */
static inline int meet_class(lesson *at) {
  if (at->code != at->known) return 0;
  at->values[at->known++] = 0.0;
  return 1;
}

/* Take the row's target into mean and variance, which the units of decision values follow; the
functions learned so far stay what they are if their values are written anew. Before the first
target there is none: then as if units were those before. */
new_units meet_target(lesson *at);

/* The same for functions without a bias, a row of weights each: they keep their shape and their unit,
and follow the centre. */
void turn_functions(lesson *at, mat *weights, int64_t width);

/* A target in the units of decision values. */
static inline double in_units(const lesson *at, double target) {
  return (target - at->centre) / at->unit;
}

/* What class c was to say of the row: its target, or whether it is of the class. */
static inline double wanted_of(const lesson *at, int64_t c) {
  if (at->how->regression) return in_units(at, at->labels->targets.at[at->n]);
  return c == at->code ? 1.0 : 0.0;
}

/* w_c·x of the known classes. O(Cp) */
static inline void decide(lesson *at, const mat *weights, const double *x) {
  for (int64_t c = 0; c < at->known; c++)
    at->values[c] = dot(row_of(weights, c), x, weights->columns);
}

/* η/√(1 + t/d) at the t-th labelled row, η where d = 0 */
double decayed_step(double step_size, double decay_rows, int64_t learned);

/* Multiply weights by 1 - amount, never by less than 0: the first `width` of the first `count`
rows. */
void shrink(mat *weights, int64_t count, int64_t width, double amount);

/* The probabilities of the first `known` >= 1 classes; `out` may be `values`, both in whole
vectors. */
void softmax(const double *values, int64_t known, double *out);

/* The best of the known classes but the row's own, -1 if there is no other. */
int64_t rival_of(const lesson *at);

/* Meet the row's class, and put the row with its label to those that wait while the bandwidth is 0;
whether it waits. */
int keep_waiting(lesson *at, const vec *bandwidth, mat *early);

/* How many rows were run, and the classes known then, for a call that may end before its rows. */
void write_reached(const lesson *at, ints *reached);

/* Turn the row's decision values s into -∂ℓ/∂s_c of its loss: (y - s)²/2 in regression; -log of the
label's probability; Crammer and Singer's multi-class hinge. */
void descend(lesson *at, int logistic);

#endif
