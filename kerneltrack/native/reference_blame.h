/* What channels a row is off in, of a reference that does not move. Equations and symbols are in
`kerneltrack/monitor/reference/__init__.py`. */
#ifndef KT_REFERENCE_BLAME_H
#define KT_REFERENCE_BLAME_H

#include "reference.h"

#define VAST 1e300
/* Values that differ by less, in deviations, are the same. */
#define SAME 1e-9

/* Scratch space of attribution: Ω = WᵀW; Ωe; the entries of the channels that are taken out, their
part of Ω as its Cholesky factor, of which the first `factored` rows are known; the sum of the squares of
`part` up to each; how far the entries are above what the others make of them. */
typedef struct {
  mat precision;
  double *e, *y, *v, *part, *gain, *above, *parts;
  int64_t *entries, factored;
  mat chol;
  int known;
} blame_work;

/* How often what is off in a row is added to `blame`, and to `sides`. */
typedef struct {
  double blame, sides;
} blame_times;

blame_work make_blame_work(arena *from, const reference_state *state, int64_t lags);

/* What is off in the row at a place of the open block, added so many times. */
void add_blame(const reference_settings *settings, reference_state *state, const reference_stored *stored,
               int64_t place, blame_times times, blame_work *work);

/* On which side the channels were from where an episode began until it was noticed, as far as the open block
has these rows; `first`: place of row `base`. */
void take_sides_before(const reference_settings *settings, reference_state *state,
                       const reference_stored *stored, int64_t first, int64_t base, int64_t place,
                       blame_work *work);

/* How many rows of its episode a row speaks for in `blame`, itself among them; 0 if another one does so
for it. `since`: rows since the episode opened. */
double speaks_for(int64_t since);

#endif
