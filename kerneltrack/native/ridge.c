/* Recursive ridge regression, see `learners/linear/ridge.py`. The state's memory is Sᵀ of P = SSᵀ;
beside it stands a factor `grown`, 1/√ρ, that a step multiplies it by first. */
#include "layouts.h"
#include "linear.h"

#include "elementary.h"
#include "linalg.h"

/* Rows of Sᵀ that are still in the processor's cache when they are looked at again. */
#define BLOCK 16

/* What a row x does: a = Sᵀx, k = Sa, s² = 1 + ‖a‖². */
typedef struct {
  double *a, *gain;
  double squared;
} ridge_step;

static void measure(ridge_step *step, int64_t size) {
  step->squared = 1.0;
  for (int64_t i = 0; i < size; i++) step->squared += step->a[i] * step->a[i];
}

/* The row is √weight·x. */
static void project_row(ridge_step *step, const mat *root, const double *x, double grown,
                        double weight) {
  int64_t size = root->columns;
  double factors[BLOCK], lift = sqrt(weight) * grown;
  fill(step->gain, 0.0, size);
  for (int64_t i = 0; i < size; i += BLOCK) {
    mat block = {row_of(root, i), least_of(BLOCK, size - i), size};
    for (int64_t b = 0; b < block.rows; b++) {
      step->a[i + b] = lift * dot(row_of(&block, b), x, size);
      factors[b] = grown * step->a[i + b];
    }
    add_rows(&block, block.rows, size, factors, step->gain);
  }
  measure(step, size);
}

/* The same for the row length·e_place, without growth. */
static void project_unit(ridge_step *step, const mat *root, int64_t place, double length) {
  int64_t size = root->columns;
  for (int64_t i = 0; i < size; i++) step->a[i] = length * row_of(root, i)[place];
  fill(step->gain, 0.0, size);
  add_rows(root, size, size, step->a, step->gain);
  measure(step, size);
}

/* row ← grown·row - weight·gain */
static void downdate_row(double *row, double grown, double weight, const double *gain,
                         int64_t size) {
  int64_t j = 0;
  for (; j + LANES <= size; j += LANES)
    store4(row + j, fma4(all4(-weight), load4(gain + j), all4(grown) * load4(row + j)));
  for (; j < size; j++) row[j] = fma(-weight, gain[j], grown * row[j]);
}

/* S ← S - k aᵀ/(s(s + 1)) */
static void downdate(const ridge_step *step, mat *root, double grown) {
  double s = sqrt(step->squared), scale = 1.0 / (s * (s + 1.0));
  for (int64_t i = 0; i < root->rows; i++)
    downdate_row(row_of(root, i), grown, scale * step->a[i], step->gain, root->columns);
}

/* w += k√weight(y - wᵀx)/s² of every class */
static void learn_row(ridge_step *step, linear_lesson *now, mat *root, double grown) {
  const lesson *at = &now->at;
  project_row(step, root, now->x, grown, at->weight);
  double lift = sqrt(at->weight);
  for (int64_t c = 0; c < at->known; c++)
    add_scaled(row_of(now->weights, c), lift * ((wanted_of(at, c) - at->values[c]) / step->squared),
               step->gain, root->columns);
  downdate(step, root, grown);
}

/* S after a first row that a bias without a penalty explains whatever it is: the limit of Potter's
update as the bias's own λ goes to 0. */
static void begin_bias(linear_lesson *now, mat *root) {
  int64_t last = root->columns - 1;
  for (int64_t i = 0; i < last; i++)
    row_of(root, i)[last] = -row_of(root, i)[i] * now->x[i];
  row_of(root, last)[last] = 1.0 / sqrt(now->at.weight);
}

/* Restore the λ that rows have cost one coordinate since its last turn. */
static void restore_ridge(const ridge_settings *settings, ridge_step *step, linear_lesson *now,
                          mat *root) {
  int64_t learned = now->at.counts[LEARNED], size = root->columns, place = learned % size;
  if (!shrinks_bias(now) && place == size - 1) return;
  double lost = 1.0 - power_of(settings->forgetting, least_of(learned + 1, size));
  double length = sqrt(settings->ridge * lost);
  project_unit(step, root, place, length);
  for (int64_t c = 0; c < now->at.known; c++) {
    double *weights = row_of(now->weights, c);
    add_scaled(weights, -length * weights[place] / step->squared, step->gain, size);
  }
  downdate(step, root, 1.0);
}

KT_API int64_t kt_ridge_run(const ridge_settings *settings, const mode *how, linear_state *state,
                            const mat *rows, const coded *labels, predicted *out) {
  linear_lesson now;
  mat *root = &state->memory;
  int64_t room = padded(root->columns);
  if (!begin_linear(&now, 2 * room, how, state, rows, labels, out)) return KT_NO_MEMORY;
  ridge_step step = {.a = now.more, .gain = now.more + room};
  double grown = 1.0 / sqrt(settings->forgetting);
  while (next_lesson(&now)) {
    if (now.at.counts[LEARNED] == 0 && !shrinks_bias(&now)) {
      for (int64_t i = 0; i < root->rows; i++) scale_all(row_of(root, i), grown, root->columns);
      begin_bias(&now, root);
    } else {
      learn_row(&step, &now, root, grown);
    }
    if (settings->forgetting < 1.0) restore_ridge(settings, &step, &now, root);
    now.at.counts[LEARNED] += 1;
  }
  return end_linear(&now);
}
