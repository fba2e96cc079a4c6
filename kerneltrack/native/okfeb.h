/* OK-FEB and OK-FE, see `trackers/okfeb/okfeb.py` for symbols, equations and source.

Tables are padded with zeros to W columns (of slots) and P columns (of directions), multiples of a
vector's width, and stay so: what lies past the stored rows takes part in sums and adds nothing.
*/
#ifndef KT_OKFEB_H
#define KT_OKFEB_H

#include "layouts.h"
#include "tracking.h"

/* Places in `counts` and `reals` beside those of all trackers. */
enum { SINCE = 9 };
enum { RIDGE = 0, STEP_SUM = 2, FADED = 4, SHRINK = 5 };

enum { PARAMETRIC, NONPARAMETRIC };
enum { NORMALISED, INVERSE_NORM, INVERSE_N, INVERSE_N2, MAJORISED };
enum { NORM, FIFO, DISTORTION, COMPENSATED };

/* The ridge in force is never below this fraction of Σκ_ii‖a_i‖², which rounding errors of M scale
with: M + ρI stays invertible. */
#define MIN_RIDGE 1e-12

/* Scratch space of a call. */
typedef struct {
  /* The row: scaled, κ(S, x), Aᵀk, z, q. */
  double *x, *k, *b, *z, *q;
  /* Aq, k⁺ - KAq and such, and ‖a_i‖², of each slot. */
  double *along, *rest, *norms;
  /* A as it would be after the update, transposed, (r, W). */
  mat moved;
  /* A change of the frame: vectors a and g, their images, what is added. */
  double *a, *g, *first, *second, *low, *high;
  /* (r, P) tables of the renewal; `pivots` of the rotation. */
  mat inner, left, right, turn, root;
  int64_t *pivots;
  /* (C, C) tables of K⁻¹ (compensated) or K^½ (the paper's features). */
  mat table, half, half_t, gram_root;
  double *values;
} okfeb_work;

typedef struct {
  const okfeb_settings *settings;
  const kernel *kernel;
  okfeb_state *state;
  const mat *rows;
  outputs *out;
  okfeb_work work;
  arena scratch;
  /* Whether `gram_root` is that of the stored rows as they are. */
  int rooted;
} okfeb;

/* Take scratch space; false where memory is short. */
int okfeb_open(okfeb *loop);
void okfeb_close(okfeb *loop);

/* Run row n of the call. */
void okfeb_row(okfeb *loop, int64_t n);

/* okfeb_frame.c */

/* Q follows N ← d²N + c·qqᵀ, where nothing but the subspace's own motion turns it. */
void frame_move(okfeb *loop, const double *q, double decay, double c);

/* Q follows M ← M - agᵀ - gaᵀ + κaaᵀ, where L loses φaᵀ, g = Lᵀφ and κ = ‖φ‖²: a, g in the scratch.
False where so little of N is left that Q must be computed anew. */
int frame_exchange(okfeb *loop, double kappa);

/* Whether z and q of the row are what A says, for all that rounding has done to KA and Q since they
were computed anew: Lᵀe = ρq, e = φ - Lq. work.rest holds k - KAq. O(Br + r²) */
int okfeb_is_exact(okfeb *loop);

/* KA and M from scratch, and Q with them, which keeps its orientation. */
void okfeb_refresh(okfeb *loop);

/* The same with the ridge as it was set, and with what the nonparametric rule shrinks applied to A:
what rows since the last renewal have put off. */
void okfeb_renew(okfeb *loop);

/* okfeb_budget.c */

/* The slot to drop of the first `count`, given A after the update (work.moved) and ‖a_i‖² (norms);
under COMPENSATED its row of A is spread on the others, and *rest is δ = 1/[K⁻¹]_ii. */
int64_t choose_eviction(okfeb *loop, int64_t count, double *rest);

#endif
