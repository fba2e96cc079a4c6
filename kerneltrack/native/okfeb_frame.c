/* The frame Q of OK-FEB, QᵀQ = N⁻¹, N = M + ρI, and how it follows M = AᵀKA by changes of low rank.

See `trackers/okfeb/okfeb.py` for the derivation. A change N' = N + X of rank 1 or 2 makes of Q
Q' = R(I + QXQᵀ)^{-½}Q with any rotation R; here R is the one that moves the basis LQᵀ of the
subspace least in feature space.
*/
#include "linalg.h"
#include "okfeb.h"

/* A downdate that leaves less than this of N's determinant leaves rounding errors. */
#define LEAST_REST 1e-14
/* One that leaves less than this has lost digits that `okfeb_refresh` brings back. */
#define LEAST_SOUND 1e-4
/* Largest relative error of z that is let pass. */
#define INEXACT 1e-9
/* Newton and Schulz's iteration starts where no entry of QNQᵀ - I is larger, ends where it has
converged: its error is squared in each step. */
#define NEAR 0.05
#define CONVERGED 3e-8
#define SCHULZ_STEPS 6

/* out ← Qx */
static void into_frame(const mat *frame, const double *x, double *out) {
  for (int64_t c = 0; c < frame->rows; c++) out[c] = dot(row_of(frame, c), x, frame->columns);
}

void frame_move(okfeb *loop, const double *q, double decay, double c) {
  mat *frame = &loop->state->frame;
  double *y = loop->work.first, *along = loop->work.low;
  into_frame(frame, q, y);
  double square = dot(y, y, frame->columns), grown = c / (decay * decay) * square;
  double root = sqrt(1.0 + grown);
  /* (I + (c/d²)yyᵀ)^{-½} = I - weight·yyᵀ */
  double weight = square > 0.0 ? grown / (root * (root + 1.0) * square) : 0.0;
  weigh_rows(frame, y, along, frame->columns);
  for (int64_t e = 0; e < frame->rows; e++) {
    double *row = row_of(frame, e);
    add_scaled(row, -weight * y[e], along, frame->columns);
    scale_all(row, 1.0 / decay, frame->columns);
  }
}

/* B = R·S^{-½} - I in the plane of the two vectors, where S is what N becomes there, symmetric, and
the turn C = I - (VᵀQg)(VᵀQa)ᵀ; n0, n1 and `along` give a and g in the plane: (n0, 0), (along, n1).
Returns det S, 0 where rounding has it. */
static double plane_change(double n0, double n1, double along, double kappa, double change[4]) {
  double s00 = kappa * n0 * n0 - 2.0 * n0 * along, s01 = -n0 * n1;
  double det = 1.0 + s00 - s01 * s01;
  if (!(det > LEAST_REST) || !(det < 1.0 / LEAST_REST)) return 0.0;
  /* S^{-½} = (adj S + √δ·I)/(√δ·√(tr S + 2√δ)), δ = det S */
  double root = sqrt(det), scale = 1.0 / (root * sqrt(2.0 + s00 + 2.0 * root));
  double x00 = (1.0 + root) * scale, x01 = -s01 * scale, x11 = (1.0 + s00 + root) * scale;
  /* R: the rotation nearest to C·S^{-½}, in the plane by its angle. */
  double c00 = 1.0 - along * n0, c10 = -n1 * n0;
  double m00 = c00 * x00, m01 = c00 * x01, m10 = c10 * x00 + x01, m11 = c10 * x01 + x11;
  double cosine = m00 + m11, sine = m10 - m01, length = sqrt(cosine * cosine + sine * sine);
  cosine = length > 0.0 ? cosine / length : 1.0;
  sine = length > 0.0 ? sine / length : 0.0;
  change[0] = cosine * x00 - sine * x01 - 1.0;
  change[1] = cosine * x01 - sine * x11;
  change[2] = sine * x00 + cosine * x01;
  change[3] = sine * x01 + cosine * x11 - 1.0;
  return det;
}

int frame_exchange(okfeb *loop, double kappa) {
  okfeb_work *work = &loop->work;
  mat *frame = &loop->state->frame;
  int64_t rank = frame->rows, width = frame->columns;
  double *first = work->first, *second = work->second;
  into_frame(frame, work->a, first);
  into_frame(frame, work->g, second);
  /* V = orth[Qa, Qg], Gram and Schmidt twice. */
  double square = dot(first, first, width);
  if (!(square > 0.0)) return square == 0.0;
  double n0 = sqrt(square), along = 0.0;
  scale_all(first, 1.0 / n0, rank);
  for (int round = 0; round < 2; round++) {
    double part = dot(first, second, width);
    along += part;
    add_scaled(second, -part, first, width);
  }
  double n1 = sqrt(dot(second, second, width));
  int dependent = !(n1 > 1e-15 * fabs(along));
  scale_all(second, dependent ? 0.0 : 1.0 / n1, rank);
  double change[4];
  double left = plane_change(n0, dependent ? 0.0 : n1, along, kappa, change);
  if (!(left > 0.0)) return 0;
  /* Q ← Q + V·B·VᵀQ */
  weigh_rows(frame, first, work->low, frame->columns);
  weigh_rows(frame, second, work->high, frame->columns);
  for (int64_t c = 0; c < rank; c++) {
    double low = change[0] * first[c] + change[2] * second[c];
    double high = change[1] * first[c] + change[3] * second[c];
    add_scaled(row_of(frame, c), low, work->low, width);
    add_scaled(row_of(frame, c), high, work->high, width);
  }
  return left > LEAST_SOUND;
}

int okfeb_is_exact(okfeb *loop) {
  const okfeb_state *state = loop->state;
  okfeb_work *work = &loop->work;
  int64_t width = padded(state->counts.at[SIZE]);
  double *gap = work->a, *turned = work->first, ridge = state->reals.at[RIDGE];
  for (int64_t c = 0; c < state->factor.rows; c++)
    gap[c] = fma(-ridge, work->q[c], dot(row_of(&state->factor, c), work->rest, width));
  into_frame(&state->frame, gap, turned);
  double square = dot(turned, turned, state->frame.columns);
  return square <= INEXACT * INEXACT * dot(work->z, work->z, state->frame.columns);
}

/* Σκ_ii‖a_i‖² */
static double spread_of(const okfeb_state *state) {
  double spread = 0.0;
  for (int64_t i = 0; i < state->counts.at[SIZE]; i++) {
    double square = 0.0;
    for (int64_t c = 0; c < state->factor.rows; c++) {
      double entry = row_of(&state->factor, c)[i];
      square = fma(entry, entry, square);
    }
    spread += row_of(&state->gram, i)[i] * square;
  }
  return spread;
}

/* image ← (KA)ᵀ. O(B²r) */
static void refresh_image(okfeb_state *state) {
  int64_t size = state->counts.at[SIZE], width = padded(size);
  for (int64_t c = 0; c < state->factor.rows; c++)
    for (int64_t i = 0; i < size; i++)
      row_of(&state->image, c)[i] = dot(row_of(&state->gram, i), row_of(&state->factor, c), width);
}

/* work.inner ← N = AᵀKA + ρI. O(Br²) */
static void refresh_inner(okfeb *loop, double ridge) {
  okfeb_state *state = loop->state;
  mat *inner = &loop->work.inner;
  int64_t width = padded(state->counts.at[SIZE]);
  for (int64_t c = 0; c < state->factor.rows; c++) {
    for (int64_t e = 0; e <= c; e++) {
      double entry = dot(row_of(&state->factor, c), row_of(&state->image, e), width);
      row_of(inner, c)[e] = entry;
      row_of(inner, e)[c] = entry;
    }
    row_of(inner, c)[c] += ridge;
  }
}

/* out ← left · right, (r, P) tables, right symmetric or given by rows */
static void multiply(const mat *left, const mat *right, mat *out) {
  for (int64_t c = 0; c < left->rows; c++) {
    fill(row_of(out, c), 0.0, out->columns);
    for (int64_t e = 0; e < left->rows; e++)
      add_scaled(row_of(out, c), row_of(left, c)[e], row_of(right, e), out->columns);
  }
}

/* right ← ½(I - QNQᵀ); the largest entry of I - QNQᵀ, infinite where one is not finite */
static double frame_gap(okfeb *loop) {
  const mat *frame = &loop->state->frame;
  okfeb_work *work = &loop->work;
  double gap = 0.0;
  multiply(frame, &work->inner, &work->left);
  for (int64_t c = 0; c < frame->rows; c++)
    for (int64_t e = 0; e <= c; e++) {
      double entry = dot(row_of(&work->left, c), row_of(frame, e), frame->columns);
      entry = (c == e ? 1.0 : 0.0) - entry;
      row_of(&work->right, c)[e] = 0.5 * entry;
      row_of(&work->right, e)[c] = 0.5 * entry;
      gap = isfinite(entry) ? larger(fabs(entry), gap) : INFINITY;
    }
  return gap;
}

/* Q ← Q + ½(I - QNQᵀ)Q until it has converged, 1 to 3 times; false where it is too far off. */
static int refine_frame(okfeb *loop) {
  mat *frame = &loop->state->frame;
  okfeb_work *work = &loop->work;
  for (int step = 0; step < SCHULZ_STEPS; step++) {
    double gap = frame_gap(loop);
    if (!(gap < NEAR)) return 0;
    multiply(&work->right, frame, &work->left);
    for (int64_t i = 0; i < frame->rows * frame->columns; i++) frame->at[i] += work->left.at[i];
    if (gap < CONVERGED) break;
  }
  return 1;
}

/* Q ← T·C⁻¹, CCᵀ = N, with the rotation T that is nearest to QN·C⁻ᵀ. O(Br² + r³) */
static void refactor_frame(okfeb *loop, double ridge) {
  mat *frame = &loop->state->frame;
  okfeb_work *work = &loop->work;
  int64_t rank = frame->rows;
  refresh_inner(loop, ridge);
  multiply(frame, &work->inner, &work->left);
  /* The factor adds the ridge itself; the rotation takes tables without padding. */
  refresh_inner(loop, 0.0);
  mat chol = {work->turn.at, rank, rank}, inverse = {work->root.at, rank, rank};
  mat transposed = {work->right.at, rank, rank};
  inverse_cholesky(&work->inner, rank, ridge, &chol, &inverse, &transposed);
  mat cross = {work->inner.at, rank, rank};
  for (int64_t c = 0; c < rank; c++)
    for (int64_t e = 0; e < rank; e++)
      row_of(&chol, c)[e] = dot(row_of(&work->left, c), row_of(&inverse, e), e + 1);
  copy(cross.at, chol.at, rank * rank);
  mat spare = {work->left.at, rank, rank};
  nearest_rotation(&cross, &spare, work->pivots, &chol);
  for (int64_t c = 0; c < rank; c++)
    for (int64_t e = 0; e < rank; e++)
      row_of(frame, c)[e] = dot(row_of(&chol, c) + e, row_of(&transposed, e) + e, rank - e);
}

void okfeb_refresh(okfeb *loop) {
  double ridge = loop->state->reals.at[RIDGE];
  refresh_image(loop->state);
  refresh_inner(loop, ridge);
  if (!refine_frame(loop)) refactor_frame(loop, ridge);
}

void okfeb_renew(okfeb *loop) {
  okfeb_state *state = loop->state;
  double *reals = state->reals.at;
  if (reals[SHRINK] > 0.0) {
    refresh_image(state);
    int64_t count = state->factor.rows * state->factor.columns;
    add_scaled(state->factor.at, -reals[SHRINK], state->image.at, count);
  }
  reals[RIDGE] = larger(loop->settings->ridge, MIN_RIDGE * spread_of(state));
  reals[FADED] = 1.0;
  reals[SHRINK] = 0.0;
  state->counts.at[SINCE] = 0;
  okfeb_refresh(loop);
}
