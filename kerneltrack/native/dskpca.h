/* What doubly stochastic kernel PCA and its pairs of views share, see
`kerneltrack/trackers/doubly/kpca.py`. */
#ifndef KT_DSKPCA_H
#define KT_DSKPCA_H

#include "layouts.h"
#include "random_features.h"
#include "tracking.h"

/* Places in a state's `counts`: not those of the other trackers. */
enum { DS_N, DS_LOSSES, DS_STEPS, DS_WAITING, DS_MENDED };

/* Scratch space: a mini-batch of rows, what is said of them, a block of features. */
typedef struct {
  mat x;         /* (T, D) scaled rows */
  mat h;         /* (T, r) H(x) */
  double *own;   /* (T,) κ̂(x,x) */
  uint8_t *good; /* (T,) whether the row can be used */
  mat phi;       /* (GROUP, B) features of some rows */
  double *v;     /* (r,) half-way to q */
  double *q;     /* (r,) projection coefficients of one row */
  drawn room;    /* a block's features */
} view;

/* Scratch space of `refresh`, (r, r) each. */
typedef struct {
  mat inner, left, right, root, turn;
  double *rest;
  int64_t *pivots;
} refresh_room;

/* Make scratch space for mini-batches of `most` rows. */
view make_view(arena *from, const feature_map *map, const doubly_state *state, int64_t most);

refresh_room make_refresh_room(arena *from, const doubly_state *state);

/* The random features of a model or a view, which has a bandwidth of its own. */
feature_map features_of(const feature_map *of, double bandwidth);

/* How many blocks of the pool have coefficients: one of the start, one a step. */
int64_t blocks_in_use(const doubly_state *state);

/* The block that the open mini-batch's step moves; a full pool is gone round again. */
int64_t next_block(const doubly_state *state);

/* Write a scaled row to the view's b-th; whether it is finite, not too large and has features. */
int scale_into(const doubly_settings *settings, const feature_map *map, const doubly_state *state,
               const double *row, view *work, int64_t b);

/* Fill h = H(x) and own = κ̂(x,x) = Σφ²/F' of the view's first rows (Algorithm 2). Rows with a
κ̂(x,x) that is too large turn bad, and what is filled for bad ones means nothing. A row's sums have
the order of its own features, whatever rows stand beside it. */
void evaluate_view(const feature_map *map, const doubly_state *state, view *work, int64_t count);

/* Fill q = (M + λI)⁻¹h of the view's b-th row; ℓ = κ̂(x,x) - hᵀq - λ‖q‖². */
double project_row(const doubly_state *state, view *work, int64_t b);

/* Say of row n that it is valid, its number, loss and novelty. */
void tell_row(const doubly_state *state, double loss, outputs *out, int64_t n);

/* Count row n, of which `tell_row` has spoken, as one that is learned from. */
void count_row(doubly_state *state, outputs *out, int64_t n);

/* How many rows the open mini-batch still takes, and whether it is to be learned from. */
int64_t room_left(const doubly_settings *settings, const doubly_state *state);
int is_whole(const doubly_settings *settings, const doubly_state *state);

/* Add √F'·αq, the projected row by the features in use, to `out`. */
void write_coordinates(const doubly_state *state, const double *q, double *out);

/* Features of some of the view's rows from the b-th on, those of the open mini-batch's step, which
are drawn, into `phi`. */
void evaluate_step(const feature_map *map, view *work, int64_t b, int64_t many);

/* η = θ₀/(1 + θ₁t) (eq. 27), but never above 1/`most`. */
double step_length(const doubly_settings *settings, const doubly_state *state, double most);

/* Add `grow` times the mini-batch's moments to the coefficients of its features. */
void grow_block(doubly_state *state, double grow);

/* Begin a new mini-batch. */
void clear_moments(doubly_state *state);

/* Compute anew what depends on α; false, and nothing done, if α is out of all bounds. */
int refresh(const doubly_settings *settings, doubly_state *state, refresh_room *room);

#endif
