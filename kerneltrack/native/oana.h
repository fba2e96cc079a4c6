/* The adaptive Nyström map and its steps, see `trackers/oana/tracker.py`. The learner NOLANA takes
the same steps on a map of its own.

U are the m landmarks, K = κ(U, U), E the coefficients of the basis, G = KE.
*/
#ifndef KT_OANA_H
#define KT_OANA_H

#include "kernels.h"
#include "layouts.h"
#include "span.h"

/* A row x with k = κ(U, x) and q = Eᵀk; the basis that follows; tables for the last landmark. */
typedef struct {
  double *x, *k, *q;
  span_work span;
  mat matrix, vectors;
} oana_work;

/* What a row does to the map. */
enum { OANA_NOTHING, OANA_MOVES, OANA_BEGINS };

/* Scratch for a call that learns `rows` rows at most, 0 if it does not learn. */
oana_work make_oana_work(arena *from, const oana_state *state, int64_t rows);

/* k and q of the row in `work`; ℓ = κ(x,x) - ‖q‖² in [0, κ(x,x)], `own` is κ(x,x). O(m(D + r)) */
double oana_project(const kernel *of, const oana_state *state, oana_work *work, double own);

/* The landmark nearest to a row, the first of equals, and its squared distance: -1 and infinite
if there is none. O(mD) */
int64_t oana_nearest(const oana_state *state, const double *x, double *distance);

/* What a row at this squared distance from its landmark does. */
int oana_action(const oana_settings *settings, const oana_state *state, double distance);

/* Make the row in `work`, projected, the next landmark, but leave the subspace for `oana_adopt` to
change. Whether it was the last: then the new basis is in `work`, else there is none and the map is
done. There must be room, as OANA_BEGINS says. O(mr), with the last one O(m³) */
int oana_enlist(oana_state *state, oana_work *work, double own);

/* Move a landmark to the mean of its rows and the one in `work`, but leave the subspace, whose
successor is in `work`, for `oana_adopt`. The image becomes that of the old basis and the landmarks
at their new places. O(mD + m²r + mr²) */
void oana_displace(const kernel *of, oana_state *state, oana_work *work, int64_t place);

/* Make the basis in `work` the map's, with its image; `place` is the landmark that is new.
Directions that have vanished go last, and the new landmark may begin another. O(mr² + r³) */
void oana_adopt(const oana_settings *settings, oana_state *state, oana_work *work, int64_t place);

#endif
