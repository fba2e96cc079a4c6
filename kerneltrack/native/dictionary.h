/* A dictionary of rows: one in, one out, each with the others re-fitted, as POLK and BSGD share it;
see `learners/kernel/dictionary.py` for the equations.

D are the M stored rows, K = κ(D, D) with unit diagonal, W with WᵀW = K⁻¹ (`root`), k = κ(D, x) of a
row, w_c the weights of f_c = Σ_j w_cj κ(d_j, ·).
*/
#ifndef KT_DICTIONARY_H
#define KT_DICTIONARY_H

#include "kernels.h"
#include "layouts.h"
#include "learning.h"

/* Places in `counts` behind those of all learners: rows stored, rows of the mini-batch (EARLY lies
between), and the steps since W was computed anew. */
enum { STORED = LEARNER_COUNTS, PENDING, SINCE = EARLY + 1 };

/* Scratch of a call, a number a stored row in each: k; Wk; t and the diagonal before the row that
came in last; a column of W, one of K⁻¹; what removing each row would cost. */
typedef struct {
  double *k, *half, *share, *before, *along, *pull, *costs;
} dictionary_work;

/* A call: the row at hand, with its k in `work`. */
typedef struct {
  lesson at;
  const kernel *of;
  dictionary_state *state;
  dictionary_work work;
  int64_t warmup;
} dictionary_lesson;

dictionary_lesson make_dictionary_lesson(arena *from, const kernel *of, const mode *how,
                                         dictionary_state *state, const mat *rows,
                                         const coded *labels, predicted *out);

/* Predict rows up to the next one that is learned from, and meet its class; false behind the last,
or when `warmup` rows wait for the bandwidth. */
int next_dictionary_lesson(dictionary_lesson *now);

/* Weights ← (1 - amount) weights of the first `size` rows */
static inline void shrink_rows(dictionary_state *state, int64_t size, double amount) {
  shrink(&state->weights, state->weights.rows, size, amount);
}

/* Compute W from the rows, if that is due. O(M²D + M³) */
void renew_root(const kernel *of, dictionary_state *state);

/* Copy a row and its weights to another place. */
void move_row(dictionary_state *state, int64_t from, int64_t to);

/* Take the row at place `from` >= M, whose k is in `work`, into the dictionary; how far the
functions moved, squared: 0 but for a row in the span of the others, which is projected on them
instead. */
double store_row(dictionary_state *state, dictionary_work *work, int64_t from);

/* Whether a stored row is as good as in the span of the others. */
int is_in_span(const dictionary_state *state, int64_t slot);

/* The row whose removal moves the functions least, ties to the first; fills the costs. A row that
by now is as good as in the span of the others goes before it. */
int64_t cheapest_row(const dictionary_state *state, dictionary_work *work);

/* Drop the row that `store_row` took in last, nothing removed since; the others take its share. */
void take_back(dictionary_state *state, dictionary_work *work);

/* Drop a row, the others re-fitted; the last one moves into its place. */
void remove_row(dictionary_state *state, dictionary_work *work, int64_t slot);

#endif
