/* The call of the learner that chooses for itself, which its files share; see
`learners/auto/learner.py`. */
#ifndef KT_AUTO_H
#define KT_AUTO_H

#include "layouts.h"
#include "learning.h"
#include "nearest.h"

/* Places in `counts` behind those of all learners: landmarks; the class of the last label, 0 before
the first, else its place and 1; whether the map is there; of the rows that the map was made from,
the first that has not been learned anew, and the first of those that were at once. */
enum { MET = LEARNER_COUNTS, LATEST, MAPPED, ANEW, ANEW_END };
/* Places in `reals`: what has come towards the next landmark; labels that were the last one's, and
that were not; the last target; the mixture's mean squared error; the targets' mean square. */
enum { TOWARDS, STAYED, TURNED, LAST_TARGET, SPREAD, SIZE2, REALS };
/* Where a memory's functions are read off: the constant, the row, the map, the features. */
enum { TAPS = 4 };
/* Behind the memories' functions: the follower; the nearest rows, weighed by their distances, a few
and many alike; the ferns; the last label; the stack of all these. */
enum { FOLLOWER, NEAR, NEAR_FEW, NEAR_MANY, FERNS, LAST_LABEL, STACK, OTHERS };
/* Tests of a fern; it has a leaf for each of their 2^4 outcomes. */
enum { FERN_TESTS = 4 };
/* Columns of `tally`. */
enum { LOSS, RIGHT, WEIGHT };

/* Inputs beyond this count as this, and no entry of D is below that: their products stay numbers. */
#define MOST_INPUT 1e30

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
  /* The row in the map's scale; a landmark's. */
  double *point, *spot;
  /* A row of the window; 1 - the probability of the class that the row at hand has. */
  double *row, surprise;
  /* The nearest rows of the window, and the room to find them. */
  nearest_rows nearest;
  float *squares, *singles;
  /* The leaf of each fern, its step, and what they take each class's value towards. */
  int64_t *leaves;
  double *fern_steps, *pushes;
  /* Of a map that is made: how far each row of the window is from all landmarks, weights of each
  coordinate and class, what the classes' functions rise by along each channel. */
  double *gaps;
  mat weights, slopes;
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

/* Entries of a row or inputs that a computer can take squares of. */
static inline void take_inputs(double *to, const double *from, int64_t count) {
  for (int64_t j = 0; j < count; j++)
    to[j] = larger(-MOST_INPUT, smaller(MOST_INPUT, from[j]));
}

/* Nx of one memory into `along`. O(p²) */
void project(auto_call *call, int64_t memory);

/* What one memory's functions say, read off at its taps. O(p² + Cp) */
void read_off(auto_call *call, int64_t memory);

/* Take the row into every memory: of each class what it was to say is in `aimed`. O(p² + Cp) */
void learn_memories(auto_call *call, const double *aimed, int64_t learned);

/* The same of a row that came so many rows ago: as much as is left of it. O(p² + Cp) */
void learn_memories_late(auto_call *call, const double *aimed, int64_t ago);

/* Forget all rows. */
void clear_memories(auto_call *call);

/* After `clear_memories`: hold the map's weights a back by λ'·aᵀ(K + εI)a, K that of the landmarks,
not by λ·aᵀa: with K + εI = LLᵀ, N = diag(L)L⁻¹ and D_i = 1/(λ'L_ii²) there. O(m³) */
void begin_map(auto_call *call);

/* Weights of the coordinates, (p, C), by which the long memory says what it says: Nᵀg. O(p²C) */
void weights_of_memory(const auto_call *call, mat *weights);

/* What the ferns say of the row. O(FC) */
void ask_ferns(auto_call *call, double *values);

/* Take a step with what the ferns said of the row last. O(FC) */
void learn_ferns(auto_call *call, const double *values, double label);

/* Write what the ferns say in other units of targets. O(F) */
void turn_ferns(auto_call *call, double turn, double shift);

/* Draw the tests of the ferns anew, between the window's first rows; they know nothing then. */
void draw_ferns(auto_call *call, int64_t many);

/* Coordinates of the row: 1, the row, κ(landmarks, row), the features. O(mD) */
void place_row(auto_call *call, const double *row);

/* Put a learned row to the window, and make the map anew or let the row become a landmark, if it is
time. */
void learn_map(auto_call *call, double label);

/* What each class was to say of a row of this class or target; a class below 0 gave way to another.
*/
void aim_at(auto_call *call, double label);

#endif
