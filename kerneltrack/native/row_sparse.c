/* Row-sparse approximation by block coordinate descent: the equations and their source are in
`kerneltrack/batch/row_sparse.py`. */
#include "arena.h"
#include "layouts.h"
#include "linalg.h"
#include "shapes.h"
#include "vec.h"

enum { PROXIMAL, EXACT };
/* Rows whose changes are added to KA at once. */
enum { BLOCK = 16 };

#define ROOT_STEPS 200
#define ROOT_TOLERANCE 1e-14
/* A norm that no sound problem comes to: p is not in the range of H but for rounding. */
#define FAR 1e300

/* Scratch space: (r, r) but for the first two. */
typedef struct {
  mat before; /* (r, N) Q before the sweep, Aᵀ when a descent begins */
  mat target; /* (N, r) KQᵀ */
  mat inner, chol, solver, solver_t;
  mat outer, vectors; /* QQᵀ, diagonalised, and its eigenvectors as rows */
  double *values;     /* (r,) its eigenvalues */
  double *gammas, *along, *here; /* (r,) of one row, in the eigenvectors' frame */
  double *image;                 /* (r,) its part of KA */
  mat steps;                     /* (BLOCK, r) changes of a block's rows */
  uint8_t *moved;                /* (BLOCK,) whether they are any */
} scratch_space;

static scratch_space make_scratch(arena *from, const descent *of) {
  int64_t rank = of->factor.columns, count = of->factor.rows;
  scratch_space work = {.before = table(from, rank, count), .target = table(from, count, rank)};
  mat *squares[] = {&work.inner,    &work.chol,  &work.solver,
                    &work.solver_t, &work.outer, &work.vectors};
  for (int i = 0; i < 6; i++) *squares[i] = table(from, rank, rank);
  double **rows[] = {&work.values, &work.gammas, &work.along, &work.here, &work.image};
  for (int i = 0; i < 5; i++) *rows[i] = reals(from, rank);
  work.steps = table(from, BLOCK, rank);
  work.moved = piece(from, BLOCK, sizeof(uint8_t));
  return work;
}

/* AᵀKA */
static void inner_products(const descent *of, mat *inner) {
  int64_t rank = inner->rows;
  fill(inner->at, 0.0, rank * rank);
  for (int64_t i = 0; i < of->factor.rows; i++)
    for (int64_t c = 0; c < rank; c++) {
      double weight = row_of(&of->factor, i)[c];
      if (weight != 0.0) add_scaled(row_of(inner, c), weight, row_of(&of->image, i), rank);
    }
}

/* Q = (AᵀKA + λI)⁻¹AᵀK */
static void solve_q(const descent *of, double ridge, scratch_space *work) {
  int64_t rank = of->q.rows;
  inner_products(of, &work->inner);
  inverse_cholesky(&work->inner, rank, ridge, &work->chol, &work->solver, &work->solver_t);
  for (int64_t n = 0; n < of->q.columns; n++) {
    solve_factored(&work->solver, &work->solver_t, row_of(&of->image, n), work->here, work->along);
    for (int64_t c = 0; c < rank; c++) row_of(&of->q, c)[n] = work->along[c];
  }
}

static double largest_of(const double *values, int64_t count) {
  double largest = 0.0;
  for (int64_t k = 0; k < count; k++) largest = larger(values[k], largest);
  return largest;
}

/* Δ > 0 with Σ along_k²/(values_k Δ + η)² = 1, where ‖along‖ > η: Newton's method on 1/√Σ - 1
(nearly linear in Δ), kept within a bracket. */
static double norm_of_minimum(const double *values, const double *along, int64_t size,
                              double penalty) {
  double low = 0.0, high = INFINITY, largest = largest_of(values, size);
  /* The least that the root can be: all of p along the steepest direction. */
  double at = largest > 0.0 ? (sqrt(dot(along, along, size)) - penalty) / largest : 1.0;
  for (int i = 0; i < ROOT_STEPS; i++) {
    double total = 0.0, slope = 0.0;
    for (int64_t k = 0; k < size; k++) {
      double depth = values[k] * at + penalty, part = along[k] * along[k] / (depth * depth);
      total += part;
      slope += part * values[k] / depth;
    }
    if (total > 1.0)
      low = at;
    else
      high = at;
    /* d/dΔ of 1/√total is slope/total^(3/2). */
    double step = slope > 0.0 ? (sqrt(total) - 1.0) * total / slope : INFINITY;
    double after = at + step;
    if (!(low < after && after < high)) after = high == INFINITY ? 2.0 * at : 0.5 * (low + high);
    if (fabs(after - at) <= ROOT_TOLERANCE * at || !(after < FAR)) return at;
    at = after;
  }
  return at;
}

/* Turn p into the row of BCD-Ex; 0 if it is zero, else 1. */
static double exact_row(scratch_space *work, int64_t size, double penalty) {
  double *along = work->along;
  if (sqrt(dot(along, along, size)) <= penalty) return 0.0;
  double length = norm_of_minimum(work->gammas, along, size, penalty);
  for (int64_t k = 0; k < size; k++) along[k] = -along[k] / (work->gammas[k] + penalty / length);
  return 1.0;
}

/* Turn p into the row of BCD-PG but for the factor that is returned. */
static double proximal_row(scratch_space *work, int64_t size, double penalty) {
  double *along = work->along, steepest = largest_of(work->gammas, size);
  /* Q is zero: the price alone counts. */
  if (!(steepest > 0.0)) return 0.0;
  for (int64_t k = 0; k < size; k++)
    along[k] = work->here[k] - (work->gammas[k] * work->here[k] + along[k]) / steepest;
  double length = sqrt(dot(along, along, size)), reach = penalty / steepest;
  return length > reach ? 1.0 - reach / length : 0.0;
}

/* (KA)_i as the rows of the open block have left it. */
static void look_up_image(const descent *of, int64_t first, int64_t i, scratch_space *work) {
  int64_t rank = of->factor.columns;
  copy(work->image, row_of(&of->image, i), rank);
  for (int64_t b = 0; b < i - first; b++)
    if (work->moved[b])
      add_scaled(work->image, row_of(&of->gram, first + b)[i], row_of(&work->steps, b), rank);
}

/* H_i and p_i = (2/N)(QQᵀ(KA)_i - Qk_i) - H_i a_i in the eigenvectors' frame: H_i is diagonal. */
static void derive_row(const descent *of, int64_t i, double own, scratch_space *work) {
  int64_t rank = of->factor.columns;
  double unit = 2.0 / (double)of->factor.rows;
  for (int64_t k = 0; k < rank; k++) {
    const double *vector = row_of(&work->vectors, k);
    work->here[k] = dot(vector, row_of(&of->factor, i), rank);
    work->gammas[k] = unit * own * work->values[k];
    double gap = dot(vector, work->image, rank) - own * work->here[k];
    double pull = dot(vector, row_of(&work->target, i), rank);
    work->along[k] = unit * (work->values[k] * gap - pull);
  }
}

/* Replace a row by `scale` times what it is along the eigenvectors; the change into `step`. Whether
there is any. */
static int move_row(double *row, double scale, const scratch_space *work, double *step) {
  int64_t rank = work->vectors.rows;
  int moved = 0;
  fill(step, 0.0, rank);
  if (scale > 0.0)
    for (int64_t k = 0; k < rank; k++)
      add_scaled(step, scale * work->along[k], row_of(&work->vectors, k), rank);
  for (int64_t c = 0; c < rank; c++) {
    double after = step[c];
    step[c] = after - row[c];
    row[c] = after;
    moved |= step[c] != 0.0;
  }
  return moved;
}

/* Update row i, the b-th of a block. A row with κ(x, x) = 0 keeps what it has: it adds nothing to
the subspace. */
static void update_row(const sweep_settings *settings, descent *of, int64_t first, int64_t b,
                       scratch_space *work) {
  int64_t i = first + b, rank = of->factor.columns;
  double own = row_of(&of->gram, i)[i];
  work->moved[b] = 0;
  if (!(own > 0.0)) return;
  look_up_image(of, first, i, work);
  derive_row(of, i, own, work);
  double scale = settings->method == EXACT ? exact_row(work, rank, settings->penalty)
                                           : proximal_row(work, rank, settings->penalty);
  work->moved[b] = (uint8_t)move_row(row_of(&of->factor, i), scale, work, row_of(&work->steps, b));
}

/* Update every row of A in turn, and KA with it, for a block of rows at once: it is larger than a
processor's nearest caches. */
static void update_rows(const sweep_settings *settings, descent *of, scratch_space *work) {
  multiply_transposed(&of->gram, &of->q, of->q.columns, &work->target);
  for (int64_t first = 0; first < of->factor.rows; first += BLOCK) {
    int64_t many = least_of(BLOCK, of->factor.rows - first);
    for (int64_t b = 0; b < many; b++) update_row(settings, of, first, b, work);
    mat values = rows_from(&of->gram, first, many);
    add_products(&values, &work->steps, work->moved, 0, &of->image);
  }
}

/* QQᵀ by its eigenvalues, none below 0, and eigenvectors. */
static void decompose(const descent *of, scratch_space *work) {
  multiply_transposed(&of->q, &of->q, of->q.columns, &work->outer);
  diagonalise(&work->outer, of->q.rows, &work->vectors);
  for (int64_t k = 0; k < of->q.rows; k++)
    work->values[k] = larger(row_of(&work->outer, k)[k], 0.0);
}

/* f(A, Q). O(Nr²) */
static double objective(const sweep_settings *settings, const descent *of, scratch_space *work) {
  int64_t rank = of->q.rows, count = of->q.columns;
  double fit = 0.0, length = 0.0, norms = 0.0;
  inner_products(of, &work->inner);
  multiply_transposed(&of->q, &of->q, count, &work->outer);
  for (int64_t n = 0; n < count; n++) {
    const double *row = row_of(&of->factor, n), *image = row_of(&of->image, n);
    double along = 0.0;
    for (int64_t c = 0; c < rank; c++) along += image[c] * row_of(&of->q, c)[n];
    fit += row_of(&of->gram, n)[n] - 2.0 * along;
    norms += sqrt(dot(row, row, rank));
  }
  fit += dot(work->inner.at, work->outer.at, rank * rank);
  for (int64_t c = 0; c < rank; c++) length += row_of(&work->outer, c)[c];
  return (fit + settings->ridge * length) / (double)count + settings->penalty * norms;
}

/* KA of a factor that a descent begins from. O(N²r) */
KT_API int64_t kt_row_sparse_start(descent *of) {
  arena memory = {0};
  make_scratch(&memory, of);
  if (!take_block(&memory)) return KT_NO_MEMORY;
  scratch_space work = make_scratch(&memory, of);
  for (int64_t n = 0; n < of->factor.rows; n++)
    for (int64_t c = 0; c < of->factor.columns; c++)
      row_of(&work.before, c)[n] = row_of(&of->factor, n)[c];
  multiply_transposed(&of->gram, &work.before, of->gram.columns, &of->image);
  give_back(&memory);
  return KT_DONE;
}

/* Q of the factor alone. O(Nr²) */
KT_API int64_t kt_row_sparse_solve(const sweep_settings *settings, descent *of) {
  arena memory = {0};
  make_scratch(&memory, of);
  if (!take_block(&memory)) return KT_NO_MEMORY;
  scratch_space work = make_scratch(&memory, of);
  solve_q(of, settings->ridge, &work);
  give_back(&memory);
  return KT_DONE;
}

/* One sweep; f after it and the relative change of Q into `result`. O(Nr²), and O(Nr) for every row
that changes. */
KT_API int64_t kt_row_sparse_sweep(const sweep_settings *settings, descent *of, vec *result) {
  int64_t count = of->q.rows * of->q.columns;
  arena memory = {0};
  make_scratch(&memory, of);
  if (!take_block(&memory)) return KT_NO_MEMORY;
  scratch_space work = make_scratch(&memory, of);
  copy(work.before.at, of->q.at, count);
  solve_q(of, settings->ridge, &work);
  decompose(of, &work);
  update_rows(settings, of, &work);
  double norm = sqrt(dot(work.before.at, work.before.at, count));
  double change = sqrt(squared_distance(of->q.at, work.before.at, count));
  result->at[0] = objective(settings, of, &work);
  result->at[1] = norm > 0.0 ? change / norm : INFINITY;
  give_back(&memory);
  return KT_DONE;
}

/* Δ of `norm_of_minimum` into `out`. */
KT_API int64_t kt_row_sparse_norm(const vec *values, const vec *along, const double *penalty,
                                  vec *out) {
  out->at[0] = norm_of_minimum(values->at, along->at, values->size, *penalty);
  return KT_DONE;
}
