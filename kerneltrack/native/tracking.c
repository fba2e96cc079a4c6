#include "tracking.h"

#include <float.h>

#include "linalg.h"

/* Losses in the moving average of the censoring threshold (OK-FEB, section VII-D). */
#define MOVING_WINDOW 100
/* How fast ε follows the target rate, in mean losses a row. */
#define CONTROL_GAIN 0.02
/* Weight of a new loss in the mean that the controller is scaled by. */
#define LOSS_MEMORY 0.01

/* Rows that the scale of the first rows counts as. */
#define FIRST_ROWS 500.0
/* Spread over centre of a channel that only rounds a constant, as in `scaling.py`. */
#define ROUNDED (4.0 * 0x1p-23)

int scale_row(const vec *shift, const vec *scale, double clip, const double *row, double *x) {
  int good = 1;
  for (int64_t d = 0; d < shift->size; d++) {
    double value = row[d] / scale->at[d] - shift->at[d];
    if (value > clip)
      value = clip;
    else if (value < -clip)
      value = -clip;
    x[d] = value;
    good &= fabs(value) <= MAX_SCALED && isfinite(row[d]);
  }
  return good;
}

void pass_on(const double *row, const vec *shift, const vec *scale, outputs *out, int64_t n) {
  if (out->x.rows > 0) scale_row(shift, scale, INFINITY, row, row_of(&out->x, n));
}

/* Begin the moments with the scale of the first rows, which counts as that of so many rows. */
static void begin_moments(double *rows, double *moments, const vec *shift, const vec *scale,
                          double many) {
  rows[0] = many;
  for (int64_t d = 0; d < shift->size; d++) {
    moments[4 * d] = shift->at[d] * scale->at[d];
    moments[4 * d + 1] = many * (scale->at[d] * scale->at[d]);
  }
}

void follow_scale(int64_t window, const vec *reals, const double *row, vec *shift, vec *scale) {
  int64_t width = shift->size, count = moments_of(window, width);
  if (count == 0) return;
  double *rows = reals->at + reals->size - count, *moments = rows + 2;
  if (!(rows[0] > 0.0)) begin_moments(rows, moments, shift, scale, FIRST_ROWS);
  rows[1] += 1.0;
  double before = rows[0], now = rows[1], all = before + now, reach = sqrt(all);
  for (int64_t d = 0; d < width; d++) {
    double *past = moments + 4 * d, *own = past + 2, middle = shift->at[d] * scale->at[d];
    double most = reach * scale->at[d];
    double value = smaller(larger(row[d], middle - most), middle + most), gap = value - own[0];
    own[0] += gap / now;
    own[1] += gap * (value - own[0]);
    double apart = own[0] - past[0], centre = past[0] + apart * (now / all);
    double deviation = sqrt((past[1] + own[1] + apart * apart * (before * now / all)) / all);
    int wide = deviation > ROUNDED * larger(fabs(centre), DBL_MIN);
    double unit = wide ? deviation : scale->at[d], origin = centre / unit;
    if (!isfinite(deviation) || !isfinite(origin)) continue;
    scale->at[d] = unit;
    shift->at[d] = origin;
  }
  if (now < (double)window) return;
  rows[0] = now;
  rows[1] = 0.0;
  for (int64_t d = 0; d < width; d++) {
    double *past = moments + 4 * d, *own = past + 2;
    past[0] = own[0];
    past[1] = own[1];
    own[0] = own[1] = 0.0;
  }
}

double bounded_loss(double loss, double own) {
  return isnan(loss) ? own : smaller(larger(loss, 0.0), own);
}

double rank_among(const vec *recent, const int64_t *counts, double loss) {
  return rank_among_last(recent, counts[LOSSES], loss);
}

double rank_among_last(const vec *recent, int64_t losses, double loss) {
  int64_t count = least_of(losses, recent->size), i = 0;
  i4 below = {0}, equal = {0};
  v4 given = all4(loss);
  for (; i + LANES <= count; i += LANES) {
    v4 values = load4(recent->at + i);
    below -= values < given;
    equal -= values == given;
  }
  int64_t less = (below[0] + below[1]) + (below[2] + below[3]);
  int64_t same = (equal[0] + equal[1]) + (equal[2] + equal[3]);
  for (; i < count; i++) {
    less += recent->at[i] < loss;
    same += recent->at[i] == loss;
  }
  return ((double)less + 0.5 * (double)(same + 1)) / (double)(count + 1);
}

/* The mean of the last 100 losses (section VII-D), 0 before the first. */
static double moving_mean(const vec *recent, int64_t losses) {
  int64_t count = least_of(losses, MOVING_WINDOW), place = losses % recent->size;
  double total = 0.0;
  for (int64_t i = 0; i < count; i++) {
    place = (place == 0 ? recent->size : place) - 1;
    total += recent->at[place];
  }
  return count == 0 ? 0.0 : total / (double)count;
}

double least_loss(int64_t censor, double threshold, const vec *recent, const int64_t *counts,
                  const double *reals) {
  if (censor == FIXED) return threshold;
  if (censor == MOVING) return moving_mean(recent, counts[LOSSES]);
  return reals[EPSILON];
}

void remember(vec *recent, int64_t *counts, double *reals, double loss) {
  recent->at[counts[LOSSES] % recent->size] = loss;
  counts[LOSSES] += 1;
  double share = larger(LOSS_MEMORY, 1.0 / (double)counts[LOSSES]);
  reals[MEAN_LOSS] += share * (loss - reals[MEAN_LOSS]);
}

void steer(double *reals, int informative, double admitted) {
  double error = (informative ? 1.0 : 0.0) - admitted;
  reals[EPSILON] = larger(0.0, reals[EPSILON] + CONTROL_GAIN * reals[MEAN_LOSS] * error);
}

void gram_root(const mat *gram, int64_t size, mat *matrix, mat *vectors, double *values,
               mat *root) {
  int known = 1;
  for (int64_t i = 0; i < size; i++) {
    fill(row_of(root, i), 0.0, size);
    copy(row_of(matrix, i), row_of(gram, i), size);
    for (int64_t j = 0; j < size; j++) known &= isfinite(row_of(gram, i)[j]) != 0;
  }
  /* Only a state that no rows have made is not. */
  if (!known) return;
  eigenvectors(matrix, size, values, values + size, values + 2 * size, vectors);
  for (int64_t c = 0; c < size; c++) {
    double weight = sqrt(larger(values[c], 0.0)), *vector = row_of(vectors, c);
    for (int64_t i = 0; i < size; i++) add_scaled(row_of(root, i), weight * vector[i], vector, size);
  }
}

void paper_features(const mat *factor, int64_t size, const double *q, const mat *root,
                    double *out) {
  for (int64_t j = 0; j < size; j++) {
    double along = 0.0;
    for (int64_t c = 0; c < factor->rows; c++) along = fma(row_of(factor, c)[j], q[c], along);
    for (int64_t i = 0; i < size; i++) out[i] = fma(row_of(root, i)[j], along, out[i]);
  }
}
