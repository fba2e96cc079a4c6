/* The functions of elementary.h for Python. */
#include "elementary.h"

#include "shapes.h"

/* The order of the names in `kerneltrack/native/elementary.py`. */
enum { EXP, LOG, SIN, COS, COSINE_OF_TURNS };

static v4 value4(int64_t which, v4 x) {
  v4 sine, cosine;
  switch (which) {
    case EXP:
      return exp4(x);
    case LOG:
      return log4(x);
    case COSINE_OF_TURNS:
      return cosine_of_turns4(x);
    default:
      sine_cosine4(x, &sine, &cosine);
      return which == SIN ? sine : cosine;
  }
}

KT_API int64_t kt_elementary(const int64_t *which, const vec *x, vec *out) {
  for (int64_t i = 0; i < x->size; i++) out->at[i] = value4(*which, all4(x->at[i]))[0];
  return KT_DONE;
}
