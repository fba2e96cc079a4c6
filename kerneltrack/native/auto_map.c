/* The still map of the learner that chooses for itself: its scale, its landmarks, and when they are
chosen; see `learners/auto/learner.py`. */
#include "auto.h"
#include "elementary.h"

/* The map is made when so many rows were learned from, and anew at each fourfold of that as long as
the window has all of them. */
#define FIRST_MAP 128
#define NEXT_MAP 4
/* Share of the budget that is met when the map is made; others are met later. */
#define FIRST_SHARE 0.9
/* Rows that are learned anew when it is made, and with each row that follows until all are. */
#ifndef AT_ONCE
#define AT_ONCE 128
#define EACH_TIME 16
#endif
/* Of a channel's share in the scale so much is the same for all. */
#define COMMON_SHARE 0.1
/* Rows, about, that channels are scaled by. */
#define SAMPLE 256
/* Rows that differ by less have no scale, and rows that lie nearer to landmarks make no more. */
#define LEAST_SPREAD 1e-30
#define LEAST_GAP 1e-6
/* Golden section: spreads draws evenly whatever their number. */
#define GOLDEN 0.6180339887498949

void aim_at(auto_call *call, double label) {
  fill(call->aimed, 0.0, call->at.known);
  if (call->at.how->regression)
    call->aimed[0] = in_units(&call->at, label);
  else if (label >= 0.0)
    call->aimed[(int64_t)label] = 1.0;
}

/* values ← exp(values) */
static void exponentials(double *values, int64_t count) {
  double last[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) store4(values + i, exp4(load4(values + i)));
  copy(last, values + i, count - i);
  store4(last, exp4(load4(last)));
  copy(values + i, last, count - i);
}

/* The row's channels, as they are and in the map's scale. */
static void place_channels(const auto_call *call, const double *row) {
  const double *scales = call->state->scales.at;
  take_inputs(call->x + 1, row, call->width);
  for (int64_t d = 0; d < call->width; d++) call->point[d] = scales[d] * call->x[1 + d];
}

void place_row(auto_call *call, const double *row) {
  const mat *landmarks = &call->state->landmarks;
  double *kernel = call->x + 1 + call->width;
  int64_t met = call->state->counts.at[MET];
  place_channels(call, row);
  take_inputs(call->x + call->first_feature, row + call->width, call->features);
  for (int64_t j = 0; j < met; j++)
    kernel[j] = -call->settings->inverse_gamma *
                squared_distance(row_of(landmarks, j), call->point, call->width);
  exponentials(kernel, met);
}

static int64_t rows_kept(const auto_call *call) {
  return least_of(call->at.counts[LEARNED], call->settings->window);
}

/* A row of the window as it was learned. */
static void recall_row(const auto_call *call, int64_t place, double *row) {
  int64_t columns = call->width + call->features;
  for (int64_t d = 0; d < columns; d++)
    row[d] = (double)*window_at(&call->state->recent, columns, place, d);
}

/* Let scales² be `shares` by channel, so that rows of the window are 2 apart on the average. */
static void set_scales(auto_call *call, const double *shares) {
  int64_t many = rows_kept(call), columns = call->width + call->features;
  double total = 0.0;
  for (int64_t d = 0; d < call->width; d++) {
    double mean = 0.0, spread = 0.0;
    for (int64_t n = 0; n < many; n++)
      mean += (double)*window_at(&call->state->recent, columns, n, d);
    mean /= (double)many;
    for (int64_t n = 0; n < many; n++) {
      double gap = (double)*window_at(&call->state->recent, columns, n, d) - mean;
      spread = fma(gap, gap, spread);
    }
    total = fma(shares[d], spread / (double)many, total);
  }
  if (!(total >= LEAST_SPREAD && total <= MOST_INPUT)) return;
  for (int64_t d = 0; d < call->width; d++)
    call->state->scales.at[d] = sqrt(shares[d] / total);
}

/* Add how much the classes' functions rise along each channel at the row at hand, and its square: of
the weights a of a class a_d - (2/γ)·scale_d·Σ_j κ_j a_j (point_d - landmark_jd). O(mDC) */
static void add_slopes(auto_call *call, double *sums, double *shares) {
  int64_t met = call->state->counts.at[MET], width = call->width, known = call->at.known;
  double *kernel = call->x + 1 + width;
  mat *slopes = &call->slopes;
  fill(slopes->at, 0.0, slopes->rows * slopes->columns);
  for (int64_t j = 0; j < met; j++) {
    const double *landmark = row_of(&call->state->landmarks, j);
    const double *weights = row_of(&call->weights, 1 + width + j);
    for (int64_t d = 0; d < width; d++) call->spot[d] = call->point[d] - landmark[d];
    for (int64_t c = 0; c < known; c++)
      add_scaled(row_of(slopes, c), kernel[j] * weights[c], call->spot, width);
  }
  for (int64_t d = 0; d < width; d++) {
    double factor = -2.0 * call->settings->inverse_gamma * call->state->scales.at[d];
    for (int64_t c = 0; c < known; c++) {
      double slope = fma(factor, row_of(slopes, c)[d], row_of(&call->weights, 1 + d)[c]);
      sums[d] += slope;
      shares[d] = fma(slope, slope, shares[d]);
    }
  }
}

/* Find each channel's share in how much the functions of the long memory change, see the module;
false where they do not. O(p²C + nmDC) for n = `SAMPLE` rows. */
static int learn_shares(auto_call *call, double *row, double *shares) {
  int64_t many = rows_kept(call), width = call->width, asked = 0;
  double *sums = call->steps;
  weights_of_memory(call, &call->weights);
  fill(shares, 0.0, width);
  fill(sums, 0.0, width);
  for (int64_t n = 0; n < many; n += 1 + many / SAMPLE, asked++) {
    recall_row(call, n, row);
    place_row(call, row);
    add_slopes(call, sums, shares);
  }
  /* An even rise of a target is what the ridge over the row has: the map is for the rest. */
  for (int64_t d = 0; d < width && call->at.how->regression; d++)
    shares[d] = larger(0.0, shares[d] - sums[d] * sums[d] / (double)asked);
  double total = entry_sum(shares, width);
  if (!(total > 0.0 && total <= MOST_INPUT)) return 0;
  for (int64_t d = 0; d < width; d++)
    shares[d] = fma(1.0 - COMMON_SHARE, shares[d] / total, COMMON_SHARE / (double)width);
  return 1;
}

/* Let the row at hand, in the map's scale, be a landmark. */
static void add_landmark(auto_call *call) {
  auto_state *state = call->state;
  copy(row_of(&state->landmarks, state->counts.at[MET]++), call->point, call->width);
}

/* Take 1 - κ(row, ·) into how far each row of the window is from all landmarks. O(nD) */
static void come_nearer(auto_call *call, const double *row, int64_t many) {
  const auto_state *state = call->state;
  measure_window(&state->recent, call->width + call->features, many, row, state->scales.at,
                 call->width, call->squares, call->singles);
  for (int64_t n = 0; n < many; n += LANES) {
    const float *squares = call->squares + n;
    v4 squared = {squares[0], squares[1], squares[2], squares[3]};
    v4 gap = larger4(1.0 - exp4(-call->settings->inverse_gamma * squared), all4(0.0));
    v4 old = load4(call->gaps + n);
    store4(call->gaps + n, choose4(gap < old, gap, old));
  }
}

/* The first row of the window up to which so much of all gaps comes together. */
static int64_t draw_row(const auto_call *call, int64_t many, double most) {
  double sum = 0.0;
  for (int64_t n = 0; n < many - 1; n++) {
    sum += call->gaps[n];
    if (sum > most) return n;
  }
  return many - 1;
}

/* Choose landmarks among the window's rows: each in proportion to how far a row is from those
chosen before, by evenly spread draws. O(nmD) */
static void choose_landmarks(auto_call *call, double *row) {
  auto_state *state = call->state;
  int64_t many = rows_kept(call);
  int64_t wanted = most_of(1, (int64_t)(FIRST_SHARE * (double)state->landmarks.rows));
  double draw = 0.5;
  state->counts.at[MET] = 0;
  fill(call->gaps, 1.0, many);
  while (state->counts.at[MET] < wanted) {
    double total = entry_sum(call->gaps, many);
    if (!(total > LEAST_GAP * (double)many)) break;
    recall_row(call, draw_row(call, many, draw * total), row);
    draw += draw + GOLDEN < 1.0 ? GOLDEN : GOLDEN - 1.0;
    place_channels(call, row);
    add_landmark(call);
    come_nearer(call, row, many);
  }
}

/* Place a row of the window as if it had just come. */
static void place_again(auto_call *call, int64_t place) {
  recall_row(call, place, call->row);
  place_row(call, call->row);
  for (int64_t memory = 0; memory < call->memories; memory++) project(call, memory);
  aim_at(call, call->state->recent_labels.at[place]);
}

/* Let the ferns learn a row of the window, which was placed, unless its class gave way. */
static void tell_ferns(auto_call *call, int64_t place) {
  if (!call->at.how->regression && call->state->recent_labels.at[place] < 0.0) return;
  ask_ferns(call, call->mixed);
  learn_ferns(call, call->mixed, call->state->recent_labels.at[place]);
}

/* Make the map, and begin the memories and ferns anew by the last rows of the window; the others
follow with the rows to come, see `learn_anew`. */
static void make_map(auto_call *call) {
  auto_state *state = call->state;
  int64_t many = rows_kept(call), first = most_of(0, many - AT_ONCE);
  if (!state->counts.at[MAPPED] || !learn_shares(call, call->row, call->backs))
    fill(call->backs, 1.0, call->width);
  set_scales(call, call->backs);
  draw_ferns(call, many);
  choose_landmarks(call, call->row);
  state->counts.at[MAPPED] = 1;
  state->counts.at[ANEW] = 0;
  state->counts.at[ANEW_END] = first;
  clear_memories(call);
  if (call->at.how->regression) begin_map(call);
  for (int64_t n = first; n < many; n++) {
    place_again(call, n);
    learn_memories(call, call->aimed, n - first);
    tell_ferns(call, n);
  }
}

/* Learn some more of the rows that the map was made from, the oldest first: each before its place
in the window is taken. */
static void learn_anew(auto_call *call) {
  int64_t *place = call->state->counts.at + ANEW;
  int64_t last = least_of(call->state->counts.at[ANEW_END], *place + EACH_TIME);
  for (; *place < last; *place += 1) {
    place_again(call, *place);
    learn_memories_late(call, call->aimed, call->at.counts[LEARNED] - *place);
    tell_ferns(call, *place);
  }
}

/* Whether the row becomes a landmark: one that is far from all of them, and of another class than
was expected, does the sooner; others so often that all are met within about a window. */
static void meet_landmark(auto_call *call) {
  auto_state *state = call->state;
  int64_t met = state->counts.at[MET];
  if (met >= state->landmarks.rows) return;
  const double *kernel = call->x + 1 + call->width;
  double nearest = 0.0, *towards = state->reals.at + TOWARDS;
  double later = (1.0 - FIRST_SHARE) * (double)state->landmarks.rows;
  for (int64_t j = 0; j < met; j++) nearest = larger(kernel[j], nearest);
  double gap = 1.0 - nearest;
  if (!(gap > LEAST_GAP)) return;
  *towards += larger(gap * gap * call->surprise, later / (double)call->settings->window);
  if (!(*towards >= 1.0)) return;
  *towards = 0.0;
  add_landmark(call);
}

/* Whether the map is made when so many rows were learned from. */
static int is_map_time(const auto_call *call, int64_t learned) {
  int64_t at = FIRST_MAP, most = call->settings->window;
  while (at < learned && at * NEXT_MAP <= most) at *= NEXT_MAP;
  return learned == most || (learned == at && 2 * at <= most);
}

void learn_map(auto_call *call, double label) {
  int64_t *learned = call->at.counts + LEARNED, place = *learned % call->settings->window;
  if (call->state->counts.at[MAPPED]) meet_landmark(call);
  learn_anew(call);
  put_in_window(&call->state->recent, call->width + call->features, place,
                row_of(call->at.rows, call->at.n));
  call->state->recent_labels.at[place] = label;
  *learned += 1;
  if (is_map_time(call, *learned)) make_map(call);
}
