/* What the trackers with an orthonormal basis share (`trackers/covariance`, `trackers/oana`).

The basis of the subspace is Φ_S E with EᵀKE = I, K = κ(S, S) of the stored rows S; G = KE is its
image. A state keeps Eᵀ (`factor`) and Gᵀ (`image`), so that a direction is a row.
*/
#ifndef KT_SPAN_H
#define KT_SPAN_H

#include "arena.h"
#include "tracking.h"

/* An iteration runs with C + SPAN_SHIFT·tr(C)·I: directions of no energy are kept, not made of
rounding errors. */
#define SPAN_SHIFT 1e-7
/* A direction of which less than this fraction of a squared length is new is left out. */
#define SPAN_DEPENDENT 1e-10

/* Directions and their images, of which the first r become the state's; tables of the frame. */
typedef struct {
  mat left, right;
  double *least;
  mat inner, rest;
  int64_t *pivots;
} span_work;

/* K^½ for the features s; `stale` says that K is another than it was made of. */
typedef struct {
  mat matrix, vectors, root;
  double *values;
  int stale;
} span_root;

/* What of a state a row's features are made of. */
typedef struct {
  const mat *factor, *gram, *frame;
  const vec *recent;
  const int64_t *counts;
} span_view;

/* Room for `directions` of `slots` coefficients, r of which become the state's. */
span_work make_span_work(arena *from, int64_t directions, int64_t slots, int64_t rank);

/* Room for K^½ where s is wanted. */
span_root make_span_root(arena *from, const outputs *out, int64_t slots);

/* The first `rank` entries of q ← Eᵀk; ‖q‖². O(|S|r) */
double span_coordinates(const mat *factor, const double *k, int64_t size, int64_t rank, double *q);

/* The image K·direction. O(|S|²) */
void span_image(const mat *gram, const double *direction, int64_t size, double *image);

/* to ← factor·to + from, one step of a shifted iteration. */
void span_step(double *to, double factor, const double *from, int64_t count);

/* Make the first `rank` directions orthonormal, with their images. O(|S|²r + |S|r²) */
void span_finish(const mat *gram, int64_t size, int64_t rank, span_work *work);

/* Turn the frame T so that the features TG of the stored rows move least: `image` is that of the
subspace that was, the first directions in `work` are those of the one that is. O(|S|r² + r³) */
void span_align(const mat *image, int64_t size, span_work *work, mat *frame);

/* Copy the first directions and their images to the state's. */
void span_take(const span_work *work, int64_t size, mat *factor, mat *image);

/* Write a row's loss, novelty, z, q and s, as far as they are wanted. */
void span_report(const span_view *of, const double *q, double loss, int started, span_root *root,
                 outputs *out, int64_t n);

#endif
