/* The budgeted covariance tracker, see `trackers/covariance/tracker.py` for symbols and equations.

S are the stored rows, K = κ(S, S), W with WᵀW = K⁻¹ (`whitener`), Γ the weights, C = Φ_S Γ Φ_Sᵀ; E
the coefficients of the subspace's basis, G = KE (`image`), F = ΓKE (`through`), M = EᵀKΓKE
(`energy`), k = κ(S, x) of a row.
*/
#ifndef KT_COVARIANCE_H
#define KT_COVARIANCE_H

#include "layouts.h"
#include "span.h"

/* Places in `counts`, `reals` and `key` beside those of all trackers; those from RANK and FULL on
are there where the rank is chosen, STAMP where the half-life is one of event time. */
enum { LAST = 9, SINCE = 10 };
enum { LOST = 0, CONTROL = 2, FULL = 4, WHOLE = 5, SCORES = 6 };
enum { COIN, STAMP };

/* The order of the names in `ADMISSIONS`, behind those that all trackers have. */
enum { LEVERAGE = 4 };

/* A row whose squared distance from the span of the others is below this fraction of κ(x,x) is not
stored: Γ takes its projection. So the condition of K, of unit diagonal, stays below B²/FOLD. */
#define FOLD 1e-6

/* Most memories beside that in use. */
#define MOST_RIVALS 2
#define LN2 0.6931471805599453

/* A memory beside that in use: its state, unpacked, and room for what it says of a row. */
typedef struct {
  covariance_state state;
  covariance_settings settings;
  outputs out;
  double *z;
  double loss, novelty;
  int64_t number, gone;
  uint8_t flag[3];
} rival_memory;

/* Scratch space of a call. */
typedef struct {
  /* A row x with k and q; t = K⁻¹k or what an evicted row is on the others; cost of each slot. */
  double *x, *k, *q, *share, *half, *along, *costs;
  /* The new row on S: its coefficients, their image through K and through ΓK. */
  double *fresh, *fresh_image, *fresh_through;
  /* The image of what an evicted row is part of. */
  double *shortened;
  /* Of each direction: an evicted row's part, the new row's, what it makes of M; r + 1 numbers. */
  double *part, *beside, *least, *change;
  /* What is left of each direction in an orthogonal iteration; M of r + 1 directions. */
  span_work span;
  mat small, factor, turns;
  int64_t *order;
  /* The Cholesky factor of K. */
  mat chol;
  span_root root;
} covariance_work;

/* A call. */
typedef struct {
  const covariance_settings *settings;
  const kernel *kernel;
  covariance_state *state;
  const mat *rows;
  const ints *times;
  outputs *out;
  covariance_work work;
  arena scratch;
  /* The memories beside that in use; NULL where there are none, or nothing is learned. */
  rival_memory *rivals;
} covariance;

/* covariance_run.c */

/* Run rows of one model, which its state learns if it is to; without `times` where nothing goes by
them. */
int64_t covariance_run(const covariance_settings *settings, const kernel *kernel,
                       covariance_state *state, const mat *rows, outputs *out, const ints *times);

/* Take scratch space; false where memory is short. */
int covariance_open(covariance *loop);
void covariance_close(covariance *loop);

/* covariance.c */

/* Run row n of the call; whether it was taken. */
int covariance_row(covariance *loop, int64_t n);

/* Pass a row that was taken on, scaled, and let the scale follow it: after all memories ran it. */
void covariance_follow(covariance *loop, int64_t n);

/* How many directions are in use: all, where the rank is not chosen. */
static inline int64_t directions_of(const covariance_state *state) {
  return state->counts.size > RANK ? state->counts.at[RANK] : state->factor.rows;
}

/* covariance_memories.c */

/* How many memories there are beside that in use. */
int64_t memories_of(const covariance_state *state);

/* Unpack them, with room for what they say. */
void lay_out_memories(covariance *loop, arena *from);

/* Let them learn row n, which that in use has learned and reported, and choose which one is in use
from the next row on. */
void run_memories(covariance *loop, int64_t n);

/* covariance_update.c */

/* Multiply Γ by a factor in [0, 1]. O(B²) */
void fade_weights(covariance_state *state, double factor);

/* t = K⁻¹k; δ = κ(x,x) - kᵀt, the squared distance of the row from span S. W is renewed when that
is due, or it is not exact enough. O(B²), O(B³) with a renewal */
double solve_row(covariance_state *state, covariance_work *work, double own);

/* Add wφφᵀ for a row in the span of S, φ = Φ_S t: Γ ← Γ + w ttᵀ. O(B²) */
void fold_row(covariance_state *state, covariance_work *work, double own, double rest,
              double weight);

/* Store the row in slot |S|, with Γ's new diagonal entry w. O(B² + D) */
void add_row(covariance_state *state, covariance_work *work, double own, double rest,
             double weight);

/* The slot to drop after a row was added, -1 if none must go; fills work.costs. O(B²) */
int64_t leaving_slot(const covariance_state *state, covariance_work *work);

/* Project a stored row on the others and drop it; the last slot moves into its place. What it was
on the others stays in work.share. O(B²) */
void evict_slot(covariance_state *state, covariance_work *work, int64_t slot);

/* covariance_span.c */

/* F and M gain wφφᵀ of a row with q in the scratch: one in the span of S, φ = Φ_S t, t in `share`, or
one in the next slot, where `share` is NULL. O(Br + r²) */
void span_gain(covariance_state *state, const covariance_work *work, const double *share,
               double weight);

/* E, G, F and M once row i is projected on the others, before its slot is closed; t (`share`) and Γ's
column i (`along`) in the scratch. False where `span_renew` must follow. O(Br + r²) */
int span_lose(covariance_state *state, covariance_work *work, int64_t slot, double rest);

/* Make E orthonormal by Gram and Schmidt, and G, F and M anew. O(B²r + Br²) */
void span_renew(covariance_state *state, covariance_work *work);

/* Move the subspace after Γ or S changed; the new row on S is in the scratch. O(Br + r³), and where a
step of the orthogonal iteration is due O(B²r + Br² + r³) */
void follow_covariance(const covariance_settings *settings, covariance_state *state,
                       covariance_work *work, double own);

/* Book an admitted row, all of q and δ known, and choose the rank. O(r) */
void choose_rank(const covariance_settings *settings, covariance_state *state, const double *q,
                 double own, double rest, double weight);

#endif
