/* Guesses that look at labels alone, see `learners/common/guesses.py`. */
#include "shapes.h"

/* Places in `places`: labels so far; of the last one the class and 1, 0 before it. */
enum { MANY, LATEST };
/* Places in `values`, of targets: their mean, and the last one. */
enum { MEAN, LAST };
/* Columns of what is said of a row. */
enum { COMMONEST_RIGHT, LAST_RIGHT };

typedef struct {
  ints seen;
  ints places;
  vec values;
} guessed;

static int64_t commonest_of(const ints *seen) {
  int64_t best = 0;
  for (int64_t c = 1; c < seen->size; c++)
    if (seen->at[c] > seen->at[best]) best = c;
  return best;
}

/* Codes of all classes from 0 on; one below -1 is of no class that is known, -1 is no label. */
KT_API int64_t kt_guess_classes(guessed *state, const ints *codes, mat *right) {
  int64_t best = commonest_of(&state->seen), *places = state->places.at;
  for (int64_t n = 0; n < codes->size; n++) {
    int64_t code = codes->at[n];
    double *line = row_of(right, n);
    line[COMMONEST_RIGHT] = places[MANY] > 0 && code == best;
    line[LAST_RIGHT] = code >= 0 && places[LATEST] == code + 1;
    if (code < 0) continue;
    state->seen.at[code] += 1;
    places[MANY] += 1;
    places[LATEST] = code + 1;
    int64_t gap = state->seen.at[code] - state->seen.at[best];
    if (gap > 0 || (gap == 0 && code < best)) best = code;
  }
  return KT_DONE;
}

/* Codes: 0 where there is a target. */
KT_API int64_t kt_guess_targets(guessed *state, const ints *codes, const vec *targets, mat *loss) {
  double *values = state->values.at;
  for (int64_t n = 0; n < codes->size; n++) {
    if (codes->at[n] != 0) continue;
    double target = targets->at[n], gap = target - values[MEAN], step = target - values[LAST];
    row_of(loss, n)[COMMONEST_RIGHT] = gap * gap;
    row_of(loss, n)[LAST_RIGHT] = step * step;
    values[MEAN] += gap / (double)++state->places.at[MANY];
    values[LAST] = target;
  }
  return KT_DONE;
}
