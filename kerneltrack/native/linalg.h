/* Small dense linear algebra for the row loops.

The matrices are r×r with r around 10: a call of LAPACK costs more than the arithmetic, and its
rounding depends on the library. These loops are plain, and always run the same operations in the
same order. Tables are contiguous by rows; `columns` is the distance between rows where it is not
the width that is worked on.
*/
#ifndef KT_LINALG_H
#define KT_LINALG_H

#include "shapes.h"

/* out[i, j] ← Σ left[i, c]·right[j, c] over the first `depth` columns of both. O(nmk) */
void multiply_transposed(const mat *left, const mat *right, int64_t depth, mat *out);

/* to ← to + Σ factors[i]·row i of the first `count` rows, one after the other, and the first `width`
columns; `to` is not in the table. O(nw) */
void add_rows(const mat *rows, int64_t count, int64_t width, const double *factors, double *to);

/* out ← matrixᵀ, of a square matrix; not the same table */
void transpose(const mat *matrix, mat *out);

/* C⁻¹ into `out` and C⁻ᵀ into `transposed`, where CCᵀ = matrix + shift·I; C into the lower triangle
of `chol`. The first `size` rows and columns of all tables are used, of `matrix` the lower triangle;
`chol` and `out` may be `matrix`. A pivot that rounding drives below shift/2 is lifted to it: no NaN
comes out. O(r³) */
void inverse_cholesky(const mat *matrix, int64_t size, double shift, mat *chol, mat *out,
                      mat *transposed);

/* out ← (CCᵀ)⁻¹ right, of C⁻¹ and C⁻ᵀ; `half` is workspace, (r,); `out` may be `right`. O(r²) */
void solve_factored(const mat *inverse, const mat *transposed, const double *right, double *half,
                    double *out);

/* C with CCᵀ = matrix - shift·I into the lower triangle of `chol`, with 1/C_ii on the diagonal; false
where that is not positive definite. O(r³/3) */
int cholesky(const mat *matrix, double shift, mat *chol);

/* right ← (CCᵀ)⁻¹ right. O(r²) */
void solve_cholesky(const mat *chol, double *right);

/* The orthogonal factor of the polar decomposition of a square matrix into `out`: the rotation that
is nearest to it. `inverse` and `pivots` are workspace; no table is another. O(r³) a step.

Newton's iteration X ← (gX + X⁻ᵀ/g)/2 with the scaling g of Higham (SIAM J. Sci. Stat. Comput. 7,
1986), about 6 steps. Directions in which the matrix is zero are completed by a tiny multiple of the
identity. */
void nearest_rotation(const mat *matrix, mat *inverse, int64_t *pivots, mat *out);

/* Turn the first `size` rows and columns of a symmetric matrix into a diagonal one by Jacobi's
rotations, cyclic by rows: turns · matrix · turnsᵀ is diagonal, its entries are not ordered.

Rotations by angles that rounding swallows are left out; the sweeps end with the first that has
none, after 12 at the latest. O(r³) a sweep. */
void diagonalise(mat *matrix, int64_t size, mat *turns);

/* Eigenvalues of a symmetric matrix into `diagonal`, not ordered, and eigenvectors into the rows of
`turns`: Householder's reflections, then the implicit QL iteration (Bowdler, Martin, Reinsch,
Wilkinson, Numer. Math. 11, 1968). For matrices beyond some ten rows; overwrites the matrix. `beside`
and `along` are workspace, (size,). O(size³) */
void eigenvectors(mat *matrix, int64_t size, double *diagonal, double *beside, double *along,
                  mat *turns);

/* Make one row of `left` orthonormal to those before it in the inner product of a Gram matrix K;
`right` holds the images Ka of the rows a. Whether more than `least`, a squared length, was left of
it; if not it is zeroed. */
int orthonormalise_row(mat *left, mat *right, int64_t row, int64_t size, double least);

/* The same for the first `count` rows in their order: modified Gram-Schmidt, twice. `least` is of
each row. O(count² · size) */
void orthonormalise(mat *left, mat *right, int64_t count, int64_t size, const double *least);

/* R into `out` with RRᵀ = matrix, by Cholesky with diagonal pivoting; `rest` is workspace, (r,).

The matrix may be singular: columns of R past its numerical rank are zero, and the error of RRᵀ is
of the order of rounding, ε·trace. O(r³) */
void semidefinite_factor(const mat *matrix, double *rest, mat *out);

/* out ← out + Σ left_b right_bᵀ over the rows b that are `good`, in their order, or only the lower
triangle of `out`. O(nmk) */
void add_products(const mat *left, const mat *right, const uint8_t *good, int lower, mat *out);

/* out ← Σ_c weights[c]·row c, as far as a padded width. */
void weigh_rows(const mat *rows, const double *weights, double *out, int64_t width);

#endif
