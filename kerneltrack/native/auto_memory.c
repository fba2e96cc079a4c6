/* Nested ridges: the memories of the learner that chooses for itself, see
`learners/auto/learner.py`. */
#include "auto.h"

#include "elementary.h"

/* No entry of D is below this. */
#define LEAST_PIVOT 1e-300
/* D of the constant where targets are centred: no λ holds it back. */
#define FREE_PIVOT 1e100
/* Rows between two turns of restoring λ to a coordinate. */
#define RESTORE_EVERY 4
/* λ' of a function in the map's space, in λ, and ε. */
#define MAP_RIDGE 10.0
#define JITTER 0.01

/* Nx of one memory: four rows side by side share what is read of x. O(p²) */
void project(auto_call *call, int64_t memory) {
  double *along = row_of(&call->along, memory);
  for (int64_t i = next_four(call, 0); i < call->size; i = next_four(call, i + LANES)) {
    const double *next = four_at(call, memory, i);
    v4 sums[LANES] = {{0}};
    for (int64_t j = 0; j < i + LANES; j += LANES) {
      v4 x = load4(call->x + j);
      UNROLLED
      for (int r = 0; r < LANES; r++, next += LANES) sums[r] = fma4(load4(next), x, sums[r]);
    }
    UNROLLED
    for (int r = 0; r < LANES; r++) along[i + r] = fold4(sums[r]);
  }
}

/* Where two vectors of classes begin that are worked on side by side, and the next two: a sum is a
chain of steps that wait for each other, and two take no longer than one. The last vector ends with
the last class, and may have some of the classes of the other: of these the same comes out twice. */
typedef struct {
  int64_t one, other, next;
} columns;

static inline columns two_vectors(int64_t at, int64_t known) {
  int64_t left = known - at;
  if (left > 2 * LANES && left < 3 * LANES) return (columns){at, at, at + LANES};
  return (columns){at, least_of(at + LANES, known - LANES), at + 2 * LANES};
}

/* What one memory's functions say, read off at its taps. O(p² + Cp) */
void read_off(auto_call *call, int64_t memory) {
  int64_t begins[TAPS] = {0, 1, 1 + call->width, call->first_feature};
  int64_t ends[TAPS] = {1, 1 + call->width, free_places(call), call->size};
  const double *along = row_of(&call->along, memory);
  const mat *aims = &call->state->aims;
  int64_t known = call->at.known;
  project(call, memory);
  columns at;
  for (int64_t c = 0; c < known && known >= LANES; c = at.next) {
    at = two_vectors(c, known);
    v4 one = {0}, other = {0};
    for (int tap = 0; tap < TAPS; tap++) {
      double *values = row_of(&call->values, memory * TAPS + tap);
      const double *aim = row_of(aims, memory * call->size + begins[tap]);
      for (int64_t i = begins[tap]; i < ends[tap]; i++, aim += aims->columns) {
        one = fma4(all4(along[i]), load4(aim + at.one), one);
        other = fma4(all4(along[i]), load4(aim + at.other), other);
      }
      store4(values + at.one, one);
      store4(values + at.other, other);
    }
  }
  for (int64_t c = 0; c < known && known < LANES; c++) {
    double total = 0.0;
    for (int tap = 0; tap < TAPS; tap++) {
      const double *aim = row_of(aims, memory * call->size + begins[tap]) + c;
      for (int64_t i = begins[tap]; i < ends[tap]; i++, aim += aims->columns)
        total = fma(along[i], *aim, total);
      row_of(&call->values, memory * TAPS + tap)[c] = total;
    }
  }
}

/* What a row is along each coordinate, f (`steps`), and what it does to a memory there: v = Df/ρ
(`spreads`), α = 1 + Σfv up to the coordinate, k = f/α' (`backs`) with α' that of the coordinate
before, v/α (`gains`); D ← Dα'/(ρα). Coordinates that are not in use have none of it. */
static void find_gains(auto_call *call, int64_t memory, const double *along, double grown,
                       int64_t first, double scale) {
  double total = 1.0, inverse = 1.0, *pivots = row_of(&call->state->pivots, memory);
  fill(call->spreads, 0.0, padded(call->size));
  fill(call->backs, 0.0, padded(call->size));
  for (int which = 0; which < RUNS; which++) {
    run used = used_run(call, which, first);
    for (int64_t i = used.begin; i < used.end; i++) {
      double pivot = grown * pivots[i], step = scale * along[i];
      double spread = pivot * step, before = total;
      total = fma(step, spread, total);
      call->steps[i] = step;
      call->spreads[i] = spread;
      call->backs[i] = step * inverse;
      inverse = 1.0 / total;
      call->gains[i] = spread * inverse;
      pivots[i] = larger(pivot * (before * inverse), LEAST_PIVOT);
    }
  }
}

/* Take what each class was to say of the row into the functions, coordinate by coordinate: an error
is what those before have left of it. */
static void learn_aims(auto_call *call, int64_t memory, int64_t first) {
  const mat *aims = &call->state->aims;
  int64_t known = call->at.known;
  columns at;
  for (int64_t c = 0; c < known && known >= LANES; c = at.next) {
    at = two_vectors(c, known);
    v4 one = load4(call->wanted + at.one), other = load4(call->wanted + at.other);
    for (int which = 0; which < RUNS; which++) {
      run used = used_run(call, which, first);
      double *aim = row_of(aims, memory * call->size + used.begin);
      for (int64_t i = used.begin; i < used.end; i++, aim += aims->columns) {
        v4 old = load4(aim + at.one), old_other = load4(aim + at.other);
        v4 step = all4(-call->steps[i]), gain = all4(call->gains[i]);
        one = fma4(step, old, one);
        other = fma4(step, old_other, other);
        store4(aim + at.one, fma4(gain, one, old));
        store4(aim + at.other, fma4(gain, other, old_other));
      }
    }
  }
  for (int64_t c = 0; c < known && known < LANES; c++) {
    double error = call->wanted[c];
    for (int which = 0; which < RUNS; which++) {
      run used = used_run(call, which, first);
      double *aim = row_of(aims, memory * call->size + used.begin) + c;
      for (int64_t i = used.begin; i < used.end; i++, aim += aims->columns) {
        error = fma(-call->steps[i], *aim, error);
        *aim = fma(call->gains[i], error, *aim);
      }
    }
  }
}

/* N ← N - k·u, u ← u + v·N, row by row: four rows side by side, so that u is read and written once
for them. A row's own column is 1 and has no u yet, the columns behind it have neither. O(p²) */
static void turn_rows(auto_call *call, int64_t memory, int64_t first) {
  double *u = call->taken;
  fill(u, 0.0, padded(call->size));
  for (int64_t i = next_four(call, first / LANES * LANES); i < call->size; i = next_four(call, i + LANES)) {
    double *next = four_at(call, memory, i);
    v4 backs[LANES], spreads[LANES];
    UNROLLED
    for (int r = 0; r < LANES; r++) {
      backs[r] = all4(-call->backs[i + r]);
      spreads[r] = all4(call->spreads[i + r]);
    }
    for (int64_t j = 0; j < i + LANES; j += LANES) {
      v4 now = load4(u + j);
      UNROLLED
      for (int r = 0; r < LANES; r++, next += LANES) {
        v4 old = load4(next);
        store4(next, fma4(backs[r], now, old));
        now = fma4(spreads[r], old, now);
      }
      store4(u + j, now);
    }
  }
}

/* Take a row into a memory, which it is `along`, not at all before coordinate `first`; `wanted` is
what each class was to say of it. */
static void absorb(auto_call *call, int64_t memory, const double *along, double grown,
                   int64_t first, double scale) {
  find_gains(call, memory, along, grown, first, scale);
  learn_aims(call, memory, first);
  turn_rows(call, memory, first);
}

/* Whether a memory's constant is free of the ridge. */
static int is_free(const auto_call *call) {
  return call->at.how->regression && call->at.how->units == CENTRED;
}

/* Restore the λ that rows have cost one coordinate since its last turn. */
static void restore_ridge(auto_call *call, int64_t memory, int64_t learned) {
  double rho = call->settings->memories.at[memory];
  int64_t turn = learned / RESTORE_EVERY;
  int64_t place = turn % call->size;
  if (learned % RESTORE_EVERY != 0 || (place == 0 && is_free(call))) return;
  if (place >= free_places(call) && place < call->first_feature) return;
  int64_t rows = least_of(learned + 1, RESTORE_EVERY * call->size);
  double lost = sqrt(call->settings->ridge * (1.0 - power_of(rho, rows)));
  double *along = row_of(&call->along, memory);
  for (int64_t i = place; i < call->size; i++) along[i] = *entry_at(call, memory, i, place);
  fill(call->wanted, 0.0, call->at.known);
  absorb(call, memory, along, 1.0, place, lost);
}

/* Take the row into every memory: of each class what it was to say is in `wanted`. */
void learn_memories(auto_call *call, const double *aimed, int64_t learned) {
  for (int64_t memory = 0; memory < call->memories; memory++) {
    double rho = call->settings->memories.at[memory];
    copy(call->wanted, aimed, call->at.known);
    absorb(call, memory, row_of(&call->along, memory), 1.0 / rho, 0, 1.0);
    if (rho < 1.0) restore_ridge(call, memory, learned);
  }
}

void learn_memories_late(auto_call *call, const double *aimed, int64_t ago) {
  for (int64_t memory = 0; memory < call->memories; memory++) {
    double scale = sqrt(power_of(call->settings->memories.at[memory], ago));
    for (int64_t c = 0; c < call->at.known; c++) call->wanted[c] = scale * aimed[c];
    absorb(call, memory, row_of(&call->along, memory), 1.0, 0, scale);
  }
}

void clear_memories(auto_call *call) {
  auto_state *state = call->state;
  fill(state->aims.at, 0.0, state->aims.rows * state->aims.columns);
  fill(state->factors.at, 0.0, state->factors.rows * state->factors.columns);
  fill(state->pivots.at, 1.0 / call->settings->ridge, state->pivots.rows * state->pivots.columns);
  for (int64_t memory = 0; memory < call->memories; memory++) {
    if (is_free(call)) row_of(&state->pivots, memory)[0] = FREE_PIVOT;
    for (int64_t i = 0; i < call->size; i++) *entry_at(call, memory, i, i) = 1.0;
  }
}

/* K + εI of the landmarks as the lower triangle LLᵀ, in place of N; L_ii in `roots`. O(m³) */
static void factor_kernel(auto_call *call, double *roots) {
  const mat *landmarks = &call->state->landmarks;
  int64_t first = 1 + call->width, met = call->state->counts.at[MET];
  for (int64_t i = 0; i < met; i++) {
    for (int64_t j = 0; j <= i; j++) {
      double squared = squared_distance(row_of(landmarks, i), row_of(landmarks, j), call->width);
      double sum = exp1(-call->settings->inverse_gamma * squared) + (i == j ? JITTER : 0.0);
      for (int64_t k = 0; k < j; k++)
        sum = fma(-*entry_at(call, 0, first + i, first + k),
                  *entry_at(call, 0, first + j, first + k), sum);
      if (i == j) roots[i] = sqrt(larger(sum, JITTER));
      *entry_at(call, 0, first + i, first + j) = i == j ? roots[i] : sum / roots[j];
    }
  }
}

/* L ← diag(L)·L⁻¹, in place, row by row: entries left of the one at hand are not read any more. O(m³) */
static void invert_factor(auto_call *call, const double *roots) {
  int64_t first = 1 + call->width, met = call->state->counts.at[MET];
  for (int64_t i = 0; i < met; i++) {
    for (int64_t j = 0; j < i; j++) {
      double sum = 0.0;
      for (int64_t k = j; k < i; k++)
        sum = fma(-*entry_at(call, 0, first + i, first + k) / roots[k],
                  *entry_at(call, 0, first + k, first + j), sum);
      *entry_at(call, 0, first + i, first + j) = sum;
    }
    *entry_at(call, 0, first + i, first + i) = 1.0;
  }
}

void begin_map(auto_call *call) {
  int64_t first = 1 + call->width, met = call->state->counts.at[MET];
  double *roots = call->gains, ridge = MAP_RIDGE * call->settings->ridge;
  factor_kernel(call, roots);
  invert_factor(call, roots);
  for (int64_t memory = 0; memory < call->memories; memory++) {
    double *pivots = row_of(&call->state->pivots, memory) + first;
    for (int64_t i = 0; i < met; i++) {
      pivots[i] = 1.0 / (ridge * roots[i] * roots[i]);
      for (int64_t j = 0; memory > 0 && j < i; j++)
        *entry_at(call, memory, first + i, first + j) = *entry_at(call, 0, first + i, first + j);
    }
  }
}

void weights_of_memory(const auto_call *call, mat *weights) {
  const mat *aims = &call->state->aims;
  fill(weights->at, 0.0, weights->rows * weights->columns);
  for (int64_t i = 0; i < call->size; i++)
    for (int64_t j = 0; j <= i; j++)
      add_scaled(row_of(weights, j), *entry_at(call, 0, i, j), row_of(aims, i), call->at.known);
}
