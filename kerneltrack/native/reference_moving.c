/* The row loop of a reference that moves: several streams of scores, each with sums that fade of its
scores and of the excursions of its evidence. Equations and symbols are in
`kerneltrack/monitor/reference/__init__.py`. */
#include <math.h>

#include "elementary.h"
#include "reference_streams.h"

/* Whether rows have a p. */
static int has_p(const reference_state *state, int64_t mode) {
  if (modes_of(state) > 0) return state->modes.at[mode * MODE_NUMBERS + MODE_MADE] > 0;
  return state->counts.at[CALIBRATED] > 0;
}

/* Put a row into the open block, with what it says of gaps and modes; returns its mode. */
static int64_t place_row(const reference_settings *settings, reference_state *state, const double *values,
                         int64_t row, int64_t place, int64_t time) {
  int64_t width = state->rows.columns, mode = 0;
  double *to = row_of(&state->rows, settings->lags - 1 + place);
  scale_deviations(&state->shift, &state->scale, values, to);
  if (modes_of(state) > 0) {
    /* Within a mode its channel is always the same. */
    to[settings->mode] = 0.0;
    mode = find_mode(settings, state, values[settings->mode], row);
    state->turned.at[place] = (uint8_t)(mode != mode_status(state)[MODE_NOW]);
    mode_status(state)[MODE_NOW] = mode;
    row_of(&state->measured, streams_of(state) + 1)[place] = (double)mode;
  }
  if (row == 0)
    for (int64_t l = 0; l < settings->lags - 1; l++) copy(row_of(&state->rows, place + l), to, width);
  int64_t since = row - state->counts.at[BEGAN], newest = state->times.at[NEWEST_TIME];
  int follows_none = !isfinite(state->previous.at[0]);
  state->fresh.at[place] = (uint8_t)(follows_none || ends_gap(settings, state, since, newest, time));
  return mode;
}

/* Another mode begins with a row: the rows before do not lead up to it, and as many as are looked at together
are spared. What takes its time, as heat does, is held for longer. */
static void turn(const reference_settings *settings, reference_state *state, double since) {
  forget_runs(state);
  hold_after_turn(state, since);
  status_of(state)[MUTED] = most_of(status_of(state)[MUTED], settings->lags);
}

/* The evidence of a row whose mode is known. Whether an episode was opened (1), closed (-1). */
static int score_and_weigh(const reference_settings *settings, reference_state *state, lane *one,
                           int64_t mode, int64_t row, int64_t place, int64_t time, int64_t local,
                           int spared, int64_t followed, reference_outputs *out, int64_t at) {
  moving_work *work = &one->work;
  work->evidence = -1.0;
  score_row(settings, &one->of.state, work, place, time, local, followed);
  out->distance.at[at] = work->distance;
  if (*one->of.sorted == 0) return 0;
  surprises_by(&work->of, work->scores, streams_of(state), work->surprises);
  int made = has_p(state, mode);
  if (made) {
    out->score.at[at] = work->scores[0] / *one->of.unit;
    out->p.at[at] = exp1(-work->surprises[0]);
    /* The reference is made with the first row that has a p. */
    if (modes_of(state) > 0) state->counts.at[CALIBRATED] = most_of(state->counts.at[CALIBRATED], 1);
  }
  if (work->rests && state->counts.at[OPENED] < 0) return 0;
  if (spared || !rehearses(state, &one->of, row) || (modes_of(state) > 0 && !made)) return 0;
  /* Where nothing is known of a row it is no evidence. Before, it is rehearsed: a threshold made without it was too low
  for those that followed. */
  if (status_of(state)[ARMED] && state->counts.at[OPENED] < 0 && is_beyond(settings, &one->of.state, place)) return 0;
  return weigh_row(settings, &one->of.state, work, row, place, time);
}

/* S/h after a row, which is known where the row was weighed. */
static double evidence_of(const reference_state *state, const lane *one) {
  int is_known = one->scored && one->work.evidence >= 0.0;
  return is_known ? one->work.evidence : most_evidence(state, &one->work);
}

int64_t run_streams(const reference_settings *settings, reference_state *state, const mat *rows,
                   const int64_t *times, const int64_t *locals, const int_table *said,
                   reference_outputs *out, int64_t done, reference_episodes *episodes, int64_t before) {
  int64_t *counts = state->counts.at, base = counts[SEEN], first = next_place(state), found = 0;
  arena scratch = {0};
  lay_lanes(&scratch, state);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  lane *lanes = lay_lanes(&scratch, state);
  if (low_of(state, 0)[LOW_ROW] < 0) begin_with_others(settings, state, base, times[0]);
  int64_t followed = has_windows(state) ? rows_since_gap(state, first, base - counts[BEGAN]) : 0;
  for (int64_t n = 0; n < rows->rows; n++) {
    int64_t row = base + n, place = first + n;
    hear(state, said, times[n]);
    int64_t mode = place_row(settings, state, row_of(rows, n), row, place, times[n]);
    const double *scaled = row_of(&state->rows, settings->lags - 1 + place);
    state->good.at[place] = 0;
    if (mode == NO_MODE) {
      if (state->fresh.at[place]) begin_anew(state);
      keep_means(state, place);
      is_spared(settings, state, row, times[n]);
      state->times.at[NEWEST_TIME] = times[n];
      copy(state->previous.at, scaled, state->previous.size);
      continue;
    }
    double since = (double)(row - counts[BEGAN]);
    lane *one = lane_of(settings, state, lanes, mode);
    reference_state *own = &one->of.state;
    if (state->fresh.at[place]) begin_anew(own);
    if (modes_of(state) > 0 && state->turned.at[place]) turn(settings, own, since);
    follow_means(own, settings->lags, place);
    int spared = is_spared(settings, state, row, times[n]);
    /* A window has no gap in it, also none after which rows are spared. */
    followed = state->fresh.at[place] ? 1 : least_of(followed, row - status_of(state)[AFTER_GAP]) + 1;
    state->times.at[NEWEST_TIME] = times[n];
    stuck_surprise(own, scaled, !status_of(state)[ARMED]);
    state->good.at[place] = !spared;
    if (modes_of(state) > 0)
      one->work.turns = is_held(state);
    else
      one->work.rests = is_at_rest(settings, state, scaled, since);
    int told = 0;
    if (one->scored)
      told = score_and_weigh(settings, state, one, mode, row, place, times[n], locals[n], spared,
                             followed, out, done + n);
    if (status_of(state)[ARMED] && has_p(state, mode))
      out->evidence.at[done + n] = evidence_of(state, one);
    if (told > 0) keep_episode(state, mode);
    if (counts[OPENED] >= 0) leave_out(state, base, first, place);
    if (told > 0) blame_first_rows(settings, own, &one->work, mode, row, place);
    if (told > 0) compare_first_rows(settings, own, &one->work, mode, row, place);
    if (counts[OPENED] >= 0 && one->scored) compare_row(settings, own, &one->work, mode, place);
    if (told < 0) settle_change(state);
    if (told != 0) note_episode(state, row, times[n], told < 0, before + found++, episodes);
    if (told < 0) close_episode(state, mode, row, times[n]);
  }
  give_back(&scratch);
  return found;
}
