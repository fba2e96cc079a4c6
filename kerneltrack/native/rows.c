/* The tracker that passes scaled rows on, see `trackers/rows`. */
#include "tracking.h"

/* Mid-rank of a fitting error among equal ones. */
#define MIDDLE 0.5

typedef struct {
  double clip;
  vec shift;
  vec scale;
  int64_t before;
} rows_settings;

KT_API int64_t kt_rows_run(const rows_settings *settings, const mat *rows, outputs *out) {
  int64_t width = rows->columns, index = settings->before;
  arena scratch = {0};
  reals(&scratch, width);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  double *x = reals(&scratch, width);
  for (int64_t n = 0; n < rows->rows; n++) {
    if (!scale_row(&settings->shift, &settings->scale, settings->clip, row_of(rows, n), x)) continue;
    out->valid.at[n] = 1;
    out->number.at[n] = index++;
    out->novelty.at[n] = MIDDLE;
    if (out->z.rows > 0) copy(row_of(&out->z, n), x, width);
    if (out->q.rows > 0) copy(row_of(&out->q, n), x, width);
  }
  give_back(&scratch);
  return KT_DONE;
}
