/* What every tracker's row loop does with a row beside learning from it: scale, check, score.

The structures are those of `trackers/common`: states of all trackers begin `counts` and `reals` with
the places named here.
*/
#ifndef KT_TRACKING_H
#define KT_TRACKING_H

#include "arena.h"
#include "kernels.h"
#include "layouts.h"
#include "shapes.h"

/* Places in a state's `counts` and `reals`. */
enum { N, SIZE, LOSSES, INFORMATIVE, EVICTED, DROPPED, MENDED, UNSEEN, STARTED };
/* Directions in use, and their sum over informative rows, where a state has the places. */
enum { RANK = 11, DIRECTIONS = 12 };
enum { EPSILON = 1, MEAN_LOSS = 3 };

enum { NO_CENSOR, FIXED, MOVING, RATE };

/* Largest |x| after scaling: its square is still finite. */
#define MAX_SCALED 1e150
/* Largest κ(x,x) that the products of an update can take. */
#define MAX_KERNEL 1e100

/* Write x/scale - shift, clipped, to x; false if the row is not finite or too large. */
int scale_row(const vec *shift, const vec *scale, double clip, const double *row, double *x);

/* Write a row that is taken, scaled but not clipped, to the outputs if they want it. */
void pass_on(const double *row, const vec *shift, const vec *scale, outputs *out, int64_t n);

/* Numbers of the moments that a moving scale is made of: the last ones of a state's `reals`. */
static inline int64_t moments_of(int64_t window, int64_t width) {
  return window > 0 ? 2 + 4 * width : 0;
}

/* Let the scale follow a row that was taken, see `trackers/common/moving_scale.py`; a window of 0
keeps it as it is. */
void follow_scale(int64_t window, const vec *reals, const double *row, vec *shift, vec *scale);

/* ℓ within [0, κ(x,x)]; what the state cannot tell (NaN) is not explained at all. */
double bounded_loss(double loss, double own);

/* The mid-rank in (0, 1) of a loss among itself and the model's last ones. */
double rank_among(const vec *recent, const int64_t *counts, double loss);

/* The same of a ring into which `losses` were written in all. */
double rank_among_last(const vec *recent, int64_t losses, double loss);

/* ε, the loss below which a row is uninformative. */
double least_loss(int64_t censor, double threshold, const vec *recent, const int64_t *counts,
                  const double *reals);

/* Add a loss to the ring and to the mean. */
void remember(vec *recent, int64_t *counts, double *reals, double loss);

/* Steer ε towards the target rate. */
void steer(double *reals, int informative, double admitted);

/* K_S^{1/2} of the first `size` stored rows into `root`, zeros if K_S is not finite; `vectors` and
`matrix` are workspace, (size or more)², as are `values`, 3·size. */
void gram_root(const mat *gram, int64_t size, mat *matrix, mat *vectors, double *values,
               mat *root);

/* Add K_S^{1/2}Aq (Remark 4) to out, given Aᵀ and the root. */
void paper_features(const mat *factor, int64_t size, const double *q, const mat *root,
                    double *out);

#endif
