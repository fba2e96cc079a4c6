/* Several memories of one stream side by side, see `trackers/covariance/memories.py`. The one in use
is the state's own; the others lie packed beside it, and change places with it. */
#include "covariance.h"
#include "elementary.h"
#include "linalg.h"

/* What is left of a memory's mean loss after a row, and how far below that in use another's must be
to take its place. */
#define KEPT 0.99
#define BETTER 0.97
/* Arrays of a memory of its own: reals, then whole numbers. */
enum { REALS_OF_ONE = 12, WHOLES_OF_ONE = 3 };

/* The arrays of reals in the order in which they are packed. */
static void reals_of(covariance_state *state, vec *into) {
  mat *tables[] = {&state->support, &state->factor,  &state->gram,   &state->image,
                   &state->through, &state->energy,  &state->weights, &state->square,
                   &state->whitener, &state->frame};
  for (int i = 0; i < 10; i++) into[i] = (vec){tables[i]->at, tables[i]->rows * tables[i]->columns};
  into[10] = (vec){state->recent.at, state->recent.size};
  into[11] = (vec){state->reals.at, state->reals.size};
}

/* The state of a packed memory: the shapes of the one in use, and its scale. */
static covariance_state unpacked(const covariance_state *of, int64_t place) {
  covariance_state state = *of;
  mat *tables[] = {&state.support, &state.factor,  &state.gram,    &state.image,  &state.through,
                   &state.energy,  &state.weights, &state.square, &state.whitener, &state.frame};
  vec *vectors[] = {&state.recent, &state.reals};
  ints *wholes[] = {&state.born, &state.key, &state.counts};
  double *real = row_of(&of->rivals, place);
  int64_t *whole = of->rival_counts.at + place * (of->born.size + of->key.size + of->counts.size);
  for (int i = 0; i < 10; i++) {
    tables[i]->at = real;
    real += tables[i]->rows * tables[i]->columns;
  }
  for (int i = 0; i < 2; i++) {
    vectors[i]->at = real;
    real += vectors[i]->size;
  }
  for (int i = 0; i < WHOLES_OF_ONE; i++) {
    wholes[i]->at = whole;
    whole += wholes[i]->size;
  }
  return state;
}

static void swap_reals(double *left, double *right, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    double kept = left[i];
    left[i] = right[i];
    right[i] = kept;
  }
}

static void swap_wholes(int64_t *left, int64_t *right, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    int64_t kept = left[i];
    left[i] = right[i];
    right[i] = kept;
  }
}

int64_t memories_of(const covariance_state *state) { return state->rivals.rows; }

void lay_out_memories(covariance *loop, arena *from) {
  int64_t many = memories_of(loop->state), rank = loop->state->factor.rows;
  for (int64_t m = 0; m < many; m++) {
    rival_memory *rival = &loop->rivals[m];
    rival->state = unpacked(loop->state, m);
    rival->settings = *loop->settings;
    rival->z = reals(from, padded(rank));
    rival->out = (outputs){.valid = {rival->flag, 1},
                           .number = {&rival->number, 1},
                           .z = {rival->z, 1, rank},
                           .loss = {&rival->loss, 1},
                           .novelty = {&rival->novelty, 1},
                           .informative = {rival->flag + 1, 1},
                           .evicted = {&rival->gone, 1},
                           .initial = {rival->flag + 2, 1},
                           .q = {NULL, 0, rank},
                           .s = {NULL, 0, 0}};
  }
}

/* Let the features of the memory that comes into use go on from those of the one that was: with the
bases Φ_SE of both, T ← the rotation nearest to T EᵀK(S, S')E'. O(B²(D + r) + Br² + r³) */
static void align(covariance *loop, covariance_state *other) {
  covariance_state *own = loop->state;
  covariance_work *work = &loop->work;
  int64_t rank = own->factor.rows, here = own->counts.at[SIZE], there = other->counts.at[SIZE];
  mat *cross = &work->span.inner;
  fill(cross->at, 0.0, cross->rows * cross->columns);
  for (int64_t j = 0; j < there; j++) {
    kernel_row(loop->kernel, &own->support, here, row_of(&other->support, j), work->k);
    for (int64_t c = 0; c < rank; c++) {
      double q = dot(row_of(&own->factor, c), work->k, here);
      for (int64_t d = 0; d < rank; d++)
        row_of(cross, c)[d] = fma(q, row_of(&other->factor, d)[j], row_of(cross, c)[d]);
    }
  }
  mat *turned = &work->span.rest;
  for (int64_t i = 0; i < rank; i++) {
    fill(row_of(turned, i), 0.0, rank);
    for (int64_t c = 0; c < rank; c++)
      add_scaled(row_of(turned, i), row_of(&own->frame, i)[c], row_of(cross, c), rank);
  }
  nearest_rotation(turned, cross, work->span.pivots, &other->frame);
}

/* Put a memory into use, in the place of the one that is. Running totals stay where they are. */
static void change(covariance *loop, int64_t place) {
  static const int TOTALS[] = {INFORMATIVE, EVICTED, DROPPED, MENDED, UNSEEN};
  covariance_state *own = loop->state, *other = &loop->rivals[place].state;
  vec mine[REALS_OF_ONE], theirs[REALS_OF_ONE];
  vec *choice = &own->choice;
  if (loop->settings->aligned) align(loop, other);
  reals_of(own, mine);
  reals_of(other, theirs);
  /* The scale is that of all memories. */
  mine[REALS_OF_ONE - 1].size -= moments_of(loop->settings->scale_window, own->scale.size);
  for (int i = 0; i < REALS_OF_ONE; i++) swap_reals(mine[i].at, theirs[i].at, mine[i].size);
  swap_wholes(own->born.at, other->born.at, own->born.size);
  swap_wholes(own->key.at, other->key.at, own->key.size);
  swap_wholes(own->counts.at, other->counts.at, own->counts.size);
  for (int i = 0; i < 5; i++) swap_wholes(own->counts.at + TOTALS[i], other->counts.at + TOTALS[i], 1);
  swap_reals(choice->at, choice->at + 1 + place, 1);
  int64_t half = choice->size / 2;
  swap_reals(choice->at + half, choice->at + half + 1 + place, 1);
  loop->work.root.stale = 1;
}

void run_memories(covariance *loop, int64_t n) {
  int64_t many = memories_of(loop->state), best = -1;
  double *means = loop->state->choice.at, *lives = means + 1 + many;
  means[0] = KEPT * means[0] + (1.0 - KEPT) * loop->out->loss.at[n];
  for (int64_t m = 0; m < many; m++) {
    rival_memory *rival = &loop->rivals[m];
    mat row = {row_of(loop->rows, n), 1, loop->rows->columns};
    ints time = {NULL, 0};
    if (loop->times->size > 0) time = (ints){loop->times->at + n, 1};
    covariance one = *loop;
    rival->settings.fading = LN2 / lives[1 + m];
    rival->flag[0] = rival->flag[1] = rival->flag[2] = 0;
    one.settings = &rival->settings;
    one.state = &rival->state;
    one.rows = &row;
    one.times = &time;
    one.out = &rival->out;
    one.rivals = NULL;
    one.work.root.stale = 1;
    covariance_row(&one, 0);
    means[1 + m] = KEPT * means[1 + m] + (1.0 - KEPT) * rival->loss;
    if (best < 0 || means[1 + m] < means[1 + best]) best = m;
  }
  if (means[1 + best] < BETTER * means[0]) change(loop, best);
}
