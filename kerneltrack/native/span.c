/* See span.h; derivations: `trackers/covariance/tracker.py` and `trackers/oana/tracker.py`. */
#include "span.h"

#include "linalg.h"

/* The novelty of rows that formed the start. */
#define MIDDLE 0.5

span_work make_span_work(arena *from, int64_t directions, int64_t slots, int64_t rank) {
  span_work work;
  work.left = table(from, directions, slots);
  work.right = table(from, directions, slots);
  work.least = reals(from, directions);
  work.inner = table(from, rank, rank);
  work.rest = table(from, rank, rank);
  work.pivots = wholes(from, rank);
  return work;
}

span_root make_span_root(arena *from, const outputs *out, int64_t slots) {
  int64_t size = out->s.rows > 0 ? slots : 0;
  span_root root;
  root.matrix = table(from, size, size);
  root.vectors = table(from, size, size);
  root.root = table(from, size, size);
  root.values = reals(from, 3 * size);
  root.stale = 1;
  return root;
}

double span_coordinates(const mat *factor, const double *k, int64_t size, int64_t rank, double *q) {
  for (int64_t c = 0; c < rank; c++) q[c] = dot(k, row_of(factor, c), size);
  return dot(q, q, rank);
}

void span_image(const mat *gram, const double *direction, int64_t size, double *image) {
  for (int64_t i = 0; i < size; i++) image[i] = dot(row_of(gram, i), direction, size);
}

void span_step(double *to, double factor, const double *from, int64_t count) {
  v4 factors = all4(factor);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    store4(to + i, fma4(factors, load4(to + i), load4(from + i)));
  for (; i < count; i++) to[i] = fma(factor, to[i], from[i]);
}

void span_finish(const mat *gram, int64_t size, int64_t rank, span_work *work) {
  for (int64_t c = 0; c < rank; c++) {
    double *left = row_of(&work->left, c), *right = row_of(&work->right, c);
    span_image(gram, left, size, right);
    work->least[c] = SPAN_DEPENDENT * dot(left, right, size);
  }
  orthonormalise(&work->left, &work->right, rank, size, work->least);
}

void span_align(const mat *image, int64_t size, span_work *work, mat *frame) {
  mat now = {work->right.at, frame->rows, work->right.columns};
  multiply_transposed(&now, image, size, &work->inner);
  multiply_transposed(frame, &work->inner, frame->rows, &work->rest);
  nearest_rotation(&work->rest, &work->inner, work->pivots, frame);
}

void span_take(const span_work *work, int64_t size, mat *factor, mat *image) {
  for (int64_t c = 0; c < factor->rows; c++) {
    copy(row_of(factor, c), row_of(&work->left, c), size);
    copy(row_of(image, c), row_of(&work->right, c), size);
  }
}

void span_report(const span_view *of, const double *q, double loss, int started, span_root *root,
                 outputs *out, int64_t n) {
  int64_t rank = of->factor->rows, size = of->counts[SIZE];
  out->loss.at[n] = loss;
  out->initial.at[n] = started != 0;
  out->novelty.at[n] = started ? MIDDLE : rank_among(of->recent, of->counts, loss);
  if (out->z.rows > 0)
    for (int64_t c = 0; c < rank; c++) row_of(&out->z, n)[c] = dot(row_of(of->frame, c), q, rank);
  if (out->q.rows > 0) copy(row_of(&out->q, n), q, rank);
  if (out->s.rows == 0 || size == 0) return;
  if (root->stale || started)
    gram_root(of->gram, size, &root->matrix, &root->vectors, root->values, &root->root);
  root->stale = 0;
  paper_features(of->factor, size, q, &root->root, row_of(&out->s, n));
}
