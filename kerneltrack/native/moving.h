/* The moving window, see `monitor/moving.py` for what is kept from row to row. */
#ifndef KT_MOVING_H
#define KT_MOVING_H

#include "layouts.h"
#include "windowed.h"

/* Room for a window's values after `many` rows from `first` on. */
static inline moving_mismatch mismatch_from(const moving_mismatch *all, int64_t first,
                                            int64_t many) {
  return (moving_mismatch){.value = {all->value.at + first, many},
                           .residual = {all->residual.at + first, many},
                           .kappa = {all->kappa.at + first, many}};
}

/* Run the rows of a model through tracker and window, one by one, and fill both's outputs. */
int64_t run_moving(const windowed *tracker, window_state *window, moving_mismatch *measured);

#endif
