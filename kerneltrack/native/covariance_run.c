/* A call of the covariance tracker: its scratch space, its rows one by one (covariance.c), and the
memories beside that in use (covariance_memories.c). */
#include "covariance.h"
#include "each.h"

/* Ask for the pieces of a call's scratch space. */
static void lay_out(covariance *loop) {
  const covariance_state *state = loop->state;
  covariance_work *work = &loop->work;
  arena *from = &loop->scratch;
  int64_t slots = state->support.rows, rank = state->factor.rows;
  double **rows_of_slots[] = {&work->k,          &work->share,       &work->half,
                              &work->along,      &work->costs,       &work->fresh,
                              &work->shortened,  &work->fresh_image, &work->fresh_through};
  double **directions[] = {&work->part, &work->beside, &work->least, &work->change};
  mat *tables[] = {&work->small, &work->factor, &work->turns};
  work->x = reals(from, state->support.columns);
  work->q = reals(from, rank);
  for (int i = 0; i < 9; i++) *rows_of_slots[i] = reals(from, slots);
  for (int i = 0; i < 4; i++) *directions[i] = reals(from, rank + 1);
  work->span = make_span_work(from, rank, slots, rank);
  for (int i = 0; i < 3; i++) *tables[i] = table(from, rank + 1, rank + 1);
  work->order = wholes(from, rank + 1);
  work->chol = table(from, loop->settings->learn ? slots : 0, slots);
  work->root = make_span_root(from, loop->out, slots);
  if (loop->rivals != NULL) lay_out_memories(loop, from);
}

int covariance_open(covariance *loop) {
  lay_out(loop);
  if (!take_block(&loop->scratch)) return 0;
  lay_out(loop);
  return 1;
}

void covariance_close(covariance *loop) { give_back(&loop->scratch); }

void covariance_follow(covariance *loop, int64_t n) {
  covariance_state *state = loop->state;
  const double *row = row_of(loop->rows, n);
  pass_on(row, &state->shift, &state->scale, loop->out, n);
  if (loop->settings->learn)
    follow_scale(loop->settings->scale_window, &state->reals, row, &state->shift, &state->scale);
}

int64_t covariance_run(const covariance_settings *settings, const kernel *kernel,
                       covariance_state *state, const mat *rows, outputs *out, const ints *times) {
  covariance loop = {settings, kernel, state, rows, times, out, .scratch = {0}};
  rival_memory rivals[MOST_RIVALS];
  covariance_settings first = *settings;
  if (settings->learn && memories_of(state) > 0) {
    loop.rivals = rivals;
    loop.settings = &first;
  }
  if (!covariance_open(&loop)) return KT_NO_MEMORY;
  for (int64_t n = 0; n < rows->rows; n++) {
    if (loop.rivals != NULL) first.fading = LN2 / state->choice.at[1 + memories_of(state)];
    int taken = covariance_row(&loop, n);
    if (taken && loop.rivals != NULL) run_memories(&loop, n);
    if (taken) covariance_follow(&loop, n);
  }
  covariance_close(&loop);
  return KT_DONE;
}

KT_API int64_t kt_covariance_run(const covariance_settings *settings, const kernel *of,
                                 const models *all, const mat *rows, const outputs *out,
                                 const ints *times) {
  const covariance_state *states = all->states.at;
  for (int64_t m = 0; m < all->states.many; m++) {
    covariance_state state = states[m];
    kernel own = kernel_of(of, &state.bandwidth);
    share part = share_of(all, m, rows, out, times);
    int64_t done = covariance_run(settings, &own, &state, &part.rows, &part.out, &part.times);
    if (done != KT_DONE) return done;
  }
  return KT_DONE;
}
