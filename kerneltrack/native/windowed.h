/* A tracker that a moving window goes along with, row by row: what the window asks of it. */
#ifndef KT_WINDOWED_H
#define KT_WINDOWED_H

#include "kernels.h"
#include "tracking.h"

typedef struct {
  /* The tracker's call, which the functions get. */
  void *loop;
  /* Run row n of the call, and fill its outputs. */
  void (*run_row)(void *loop, int64_t n);
  /* κ(S, x) of a scaled row into k, padded(slots) places. */
  void (*compare)(void *loop, const double *x, double *k);
  /* The rows whose products with κ(S, x) are the features of x, or a rotation of these; how many
  directions there are. What lies past the stored rows is 0. */
  int64_t (*write_basis)(void *loop, mat *basis);
  /* The row that was run last, scaled, (D,). */
  const double *x;
  const kernel *kernel;
  const outputs *out;
  /* The state's: index of each stored row, and counts. */
  const ints *born;
  const int64_t *counts;
} windowed;

#endif
