/* The moving window, see `monitor/moving.py` for what is kept from row to row. */
#ifndef KT_MOVING_H
#define KT_MOVING_H

#include "windowed.h"

typedef struct {
  mat rows;
  mat gram;
  mat cross;
  mat basis;
  mat features;
  vec shares;
  vec residuals;
  vec own;
  ints counts;
} window_state;

typedef struct {
  vec value;
  vec residual;
  vec kappa;
} moving_mismatch;

/* Run the rows of a call through tracker and window, one by one, and fill both's outputs. */
int64_t run_moving(const windowed *tracker, window_state *window, moving_mismatch *measured);

#endif
