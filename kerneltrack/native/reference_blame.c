/* What channels a row is off in: those without which it would be usual. */
#include "reference_blame.h"

#include "linalg.h"
#include "philox.h"
#include "vec.h"

/* Part of Ω_ii that rounding may leave of an entry. */
#define DETERMINED 1e-9
/* Channels that a row is blamed on, at most. */
#define MOST_CHANNELS 3
/* Rows of an episode that are all searched for channels; of the next as many one of two, of the next
twice as many one of four, and so on. */
#define ALL_SEARCHED 256
/* Channels that the search for them begins anew with, at most, and which part of d² must be theirs. */
#define MOST_STARTS 3
#define MOST_OF_IT 0.75

blame_work make_blame_work(arena *from, const reference_state *state, int64_t lags) {
  blame_work work;
  int64_t size = short_of(state), all = state->mean.size;
  work.precision = table(from, size, size);
  work.e = reals(from, all);
  work.y = reals(from, all);
  work.v = reals(from, size);
  work.part = reals(from, MOST_CHANNELS * lags);
  work.gain = reals(from, MOST_CHANNELS * lags);
  work.above = reals(from, MOST_CHANNELS * lags);
  work.parts = reals(from, state->rows.columns);
  work.factored = 0;
  work.entries = wholes(from, MOST_CHANNELS * lags);
  work.chol = table(from, MOST_CHANNELS * lags, MOST_CHANNELS * lags);
  work.known = 0;
  return work;
}

/* Ω of the row and those just before it: W's first rows are the root of that block's own inverse. */
static void find_precision(const reference_state *state, mat *out) {
  int64_t size = out->rows;
  fill(out->at, 0.0, size * size);
  for (int64_t i = 0; i < size; i++) {
    const double *row = lower_row(state->whitener.at, i);
    for (int64_t j = 0; j <= i; j++) add_scaled(row_of(out, j), row[j], row, i + 1);
  }
}

/* By how much d² falls where the first `count` entries are what the others make of them:
vᵀ(Ω of the entries)⁻¹v. What is known of the first entries is not found again. */
static double gain_of(blame_work *work, int64_t count) {
  for (int64_t i = work->factored; i < count; i++) {
    double *row = row_of(&work->chol, i);
    const double *from = row_of(&work->precision, work->entries[i]);
    for (int64_t j = 0; j <= i; j++) {
      double rest = from[work->entries[j]] - dot(row, row_of(&work->chol, j), j);
      row[j] = j < i ? rest / row_of(&work->chol, j)[j] : sqrt(rest);
      /* An entry that the others determine says nothing more. */
      if (j == i && !(rest > DETERMINED * from[work->entries[i]])) row[j] = VAST;
    }
    work->part[i] = (work->v[work->entries[i]] - dot(row, work->part, i)) / row[i];
    work->gain[i] = fma(work->part[i], work->part[i], i > 0 ? work->gain[i - 1] : 0.0);
  }
  work->factored = most_of(work->factored, count);
  return count > 0 ? smaller(work->gain[count - 1], VAST) : 0.0;
}

static void take_out(blame_work *work, int64_t channel, int64_t width, int64_t lags, int64_t at) {
  int64_t *entries = work->entries + at * lags;
  if (at * lags < work->factored && entries[0] != channel) work->factored = at * lags;
  for (int64_t l = 0; l < lags; l++) entries[l] = l * width + channel;
}

/* How far the first `count` entries are above what the others make of them, (Ω of the entries)⁻¹v, once their
gain is known. */
static void find_distances(blame_work *work, int64_t count) {
  for (int64_t i = count - 1; i >= 0; i--) {
    double rest = work->part[i];
    for (int64_t j = i + 1; j < count; j++) rest = fma(-row_of(&work->chol, j)[i], work->above[j], rest);
    work->above[i] = rest / row_of(&work->chol, i)[i];
  }
}

/* The usual distance of one of the first `count` entries: the root of its place in (Ω of the entries)⁻¹, whose
factor's inverse has `part` as this column. */
static double usual_distance(blame_work *work, int64_t entry, int64_t count) {
  double square = 0.0;
  for (int64_t i = entry; i < count; i++) {
    const double *row = row_of(&work->chol, i);
    double rest = i == entry ? 1.0 : -dot(row + entry, work->part + entry, i - entry);
    work->part[i] = rest / row[i];
    square = fma(work->part[i], work->part[i], square);
  }
  return sqrt(square);
}

void take_side(reference_state *state, int64_t channel, double rows, double above, double usual) {
  int below = above < 0.0;
  double times = above / larger(usual, SAME), square = times * times;
  double weight = rows * square;
  row_of(&state->sides, below ? WEIGHT_BELOW : WEIGHT_ABOVE)[channel] += weight;
  row_of(&state->sides, below ? SUM_BELOW : SUM_ABOVE)[channel] += rows * fabs(above) * (square - 2.0);
}

/* min ‖x - s‖² over the stored rows, one channel aside (-1: none). */
static double nearest_without(const mat *support, const double *row, int64_t channel) {
  double nearest = VAST;
  for (int64_t i = 0; i < support->rows; i++) {
    const double *stored = row_of(support, i);
    double sum = 0.0;
    for (int64_t d = 0; d < support->columns; d++) {
      double away = row[d] - stored[d];
      if (d != channel) sum = fma(away, away, sum);
    }
    nearest = smaller(sum, nearest);
  }
  return nearest;
}

/* Of a row that is off by α, more than by d: the channel without which it would lie nearest to a stored
row, added to `blame`, so many times, by how much nearer, and to `sides`. */
static void add_blame_of_angle(const reference_settings *settings, reference_state *state,
                               const reference_stored *stored, int64_t place, blame_times times,
                               blame_work *work) {
  const double *row = row_of(&state->rows, settings->lags - 1 + place);
  int64_t best = 0, lags = settings->lags;
  double whole = nearest_without(&stored->support, row, -1), largest = -1.0;
  for (int64_t channel = 0; channel < stored->support.columns; channel++) {
    double gain = whole - nearest_without(&stored->support, row, channel);
    if (gain > largest) {
      largest = gain;
      best = channel;
    }
  }
  double usual = stored->bandwidth * state->reals.at[MEANS + ANGLE] * state->reals.at[MEANS + ANGLE];
  if (!(largest > 0.0 && usual > 0.0)) return;
  state->blame.at[best] = smaller(fma(times.blame, largest / usual, state->blame.at[best]), VAST);
  take_out(work, best, stored->support.columns, lags, 0);
  gain_of(work, lags);
  find_distances(work, lags);
  take_side(state, best, times.sides, work->above[0], usual_distance(work, 0, lags));
}

/* Take the channel out at a place, beside those at the other `many` - 1, with which d² falls by most;
the one that is there if none makes it fall by more than `gained`. Returns by how much it then falls. */
static double best_at(blame_work *work, int64_t *chosen, int64_t at, int64_t many, int64_t width,
                      int64_t lags, double gained) {
  int64_t best = chosen[at];
  for (int64_t channel = 0; channel < width; channel++) {
    int known = 0;
    for (int64_t i = 0; i < many; i++) known |= i != at && chosen[i] == channel;
    if (known) continue;
    take_out(work, channel, width, lags, at);
    double gain = gain_of(work, many * lags);
    if (gain > gained * (1.0 + SAME)) {
      gained = gain;
      best = channel;
    }
  }
  chosen[at] = best;
  take_out(work, best, width, lags, at);
  return gained;
}

/* Take channels out, one after the other, until what is left of d² is usual: those that are chosen
already, `taken` of them, then each as the best beside those before it; then others take their places.
Returns by how much d² falls; `taken` is then how many they are. */
static double take_some_out(blame_work *work, int64_t *chosen, int64_t *taken, double left, double usual,
                            int64_t width, int64_t lags) {
  int64_t most = least_of(MOST_CHANNELS, width), many = *taken, settled = 0;
  for (int64_t at = 0; at < many; at++) take_out(work, chosen[at], width, lags, at);
  double gained = gain_of(work, many * lags);
  for (; many < most && left - gained > usual; many++) {
    gained = best_at(work, chosen, many, many + 1, width, lags, -1.0);
    settled = 1;
  }
  /* One that stood for several may go again, until each is the best beside the others. */
  for (int64_t step = 0; many > 1 && settled < many && step < MOST_CHANNELS * many; step++) {
    int64_t at = step % many, before = chosen[at];
    gained = best_at(work, chosen, at, many, width, lags, gained);
    settled = chosen[at] == before ? settled + 1 : 1;
  }
  *taken = many;
  return gained;
}

/* The channels without which d² would be smallest, into `chosen`. Where the best ones, one by one, are
most of d² and yet leave more than is usual, others that stand for them may have come first: the search
begins anew with those that are not among them. */
static double find_channels(blame_work *work, int64_t *chosen, int64_t *taken, double left,
                            double usual, int64_t width, int64_t lags) {
  double gained = take_some_out(work, chosen, taken, left, usual, width, lags);
  if (gained < MOST_OF_IT * left) return gained;
  int64_t one_by_one[MOST_CHANNELS], many = *taken, starts = 0;
  for (int64_t i = 0; i < many; i++) one_by_one[i] = chosen[i];
  for (int64_t first = 0; first < width && starts < MOST_STARTS && left - gained > usual; first++) {
    int known = 0;
    for (int64_t i = 0; i < many; i++) known |= one_by_one[i] == first;
    if (known) continue;
    int64_t others[MOST_CHANNELS] = {first}, how_many = 1;
    double other = take_some_out(work, others, &how_many, left, usual, width, lags);
    starts++;
    if (!(other > gained * (1.0 + SAME))) continue;
    gained = other;
    *taken = how_many;
    for (int64_t i = 0; i < how_many; i++) chosen[i] = others[i];
  }
  return gained;
}

/* Which of a run of rows speaks is drawn, so that no beat of the machine's own chooses it. */
double speaks_for(int64_t since) {
  int bits = 0;
  while (since >> bits >= ALL_SEARCHED) bits++;
  uint64_t key[2] = {0}, run[WORDS] = {(uint64_t)(since >> bits), (uint64_t)bits}, drawn[WORDS];
  uint64_t many = (uint64_t)1 << bits;
  philox_block(key, run, drawn);
  return drawn[0] % many == (uint64_t)since % many ? (double)(int64_t)many : 0.0;
}

/* What is off in a row, channel by channel, added to `blame` and `sides` so many times: the channels without
which d² would be smallest, so many that what is left is usual. Each counts by what d² would grow again
without it. */
static void add_blame_of_distance(const reference_settings *settings, reference_state *state,
                                  blame_times times, blame_work *work) {
  int64_t lags = settings->lags, width = state->rows.columns;
  double left = dot(work->y, work->y, short_of(state));
  int64_t taken = 0, chosen[MOST_CHANNELS] = {0};
  double usual = state->reals.at[MEANS + SHORT] * state->reals.at[MEANS + SHORT];
  double gained = find_channels(work, chosen, &taken, left, usual, width, lags);
  double parts[MOST_CHANNELS], sum = 0.0;
  for (int64_t at = 0; at < taken; at++) {
    int64_t others = 0;
    for (int64_t i = 0; i < taken; i++)
      if (i != at) take_out(work, chosen[i], width, lags, others++);
    parts[at] = larger(gained - gain_of(work, others * lags), 0.0);
    sum += parts[at];
  }
  for (int64_t at = 0; at < taken; at++) take_out(work, chosen[at], width, lags, at);
  gain_of(work, taken * lags);
  find_distances(work, taken * lags);
  double gain = smaller(times.blame * gained / usual, VAST);
  for (int64_t at = 0; at < taken && sum > 0.0; at++) {
    double *blame = &state->blame.at[chosen[at]], share = parts[at] / sum;
    *blame = smaller(fma(gain, share, *blame), VAST);
    double usually = usual_distance(work, at * lags, taken * lags);
    take_side(state, chosen[at], times.sides * share, work->above[at * lags], usually);
  }
}

/* e, y and v of the row at a place of the open block. */
static void split_row(const reference_state *state, int64_t lags, int64_t place, blame_work *work) {
  int64_t size = short_of(state);
  if (!work->known) find_precision(state, &work->precision);
  work->known = 1;
  embed(state, lags, place, work->e);
  whiten(state, work->e, work->y);
  work->factored = 0;
  fill(work->v, 0.0, size);
  for (int64_t i = 0; i < size; i++)
    add_scaled(work->v, work->y[i], lower_row(state->whitener.at, i), i + 1);
}

/* Whether α is further above its mean than d, of the row and those just before it, is above its own. */
static int off_by_angle(const reference_state *state, int64_t place) {
  const double *means = state->reals.at + MEANS;
  double distance = sqrt(row_of(&state->measured, SHORT)[place]) / means[SHORT];
  return row_of(&state->measured, ANGLE)[place] / means[ANGLE] > larger(distance, 1.0);
}

/* Whether the window that ends at a place is further from the nearest shape, over its mean, than the rows are
from the mean, over theirs. */
static int off_by_shape(const reference_state *state, int64_t place) {
  if (!has_windows(state)) return 0;
  const double *means = state->reals.at + MEANS;
  double distance = sqrt(row_of(&state->measured, SHORT)[place]) / means[SHORT];
  double angle = row_of(&state->measured, ANGLE)[place] / means[ANGLE];
  double part = window_part(state, row_of(&state->measured, WINDOW)[place]);
  return part > larger(larger(distance, angle), 1.0);
}

/* Of a row whose window is off: each channel by its part of the squared distance. Of how far it is above what is
usual a shape says nothing. */
static void add_blame_of_shape(const reference_settings *settings, reference_state *state, int64_t place,
                               double times, blame_work *work) {
  double usual = state->reals.at[WINDOW_MEAN] * state->reals.at[WINDOW_MEAN];
  if (!window_parts(settings, state, place, work->parts)) return;
  for (int64_t d = 0; d < state->blame.size; d++)
    state->blame.at[d] = smaller(fma(times, work->parts[d] / usual, state->blame.at[d]), VAST);
}

void add_blame(const reference_settings *settings, reference_state *state,
                      const reference_stored *stored, int64_t place, blame_times times,
                      blame_work *work) {
  if (off_by_shape(state, place)) {
    add_blame_of_shape(settings, state, place, times.blame, work);
    return;
  }
  split_row(state, settings->lags, place, work);
  if (off_by_angle(state, place) && stored->support.rows > 0)
    add_blame_of_angle(settings, state, stored, place, times, work);
  else
    add_blame_of_distance(settings, state, times, work);
}

void take_sides_before(const reference_settings *settings, reference_state *state,
                              const reference_stored *stored, int64_t first, int64_t base,
                              int64_t place, blame_work *work) {
  for (int64_t i = place - 1; i >= 0 && base - first + i >= state->counts.at[ZERO]; i--) {
    if (state->fresh.at[i + 1]) break;
    add_blame(settings, state, stored, i, (blame_times){0.0, 1.0}, work);
  }
}
