/* Random features drawn from counters and never stored: kernels, ω and φ are in the table of
`kerneltrack/trackers/doubly/random_features.py`, with what they are taken from. */
#include "random_features.h"

#include "elementary.h"

enum {
  GAUSSIAN,
  LAPLACIAN,
  CAUCHY,
  MATERN12,
  MATERN32,
  MATERN52,
  ARC0,
  ARC1,
  ARC2,
  POLYNOMIAL,
  LINEAR,
  EXP_SEMIGROUP,
  REC_SEMIGROUP
};

enum { BITS = 64 };

#define PI 3.141592653589793
#define TURN 6.283185307179586
#define ROOT_2 1.4142135623730951

static int has_signs(const feature_map *features) {
  return features->code == POLYNOMIAL || features->code == LINEAR;
}

int is_positive_only(const feature_map *features) {
  return features->code == EXP_SEMIGROUP || features->code == REC_SEMIGROUP;
}

drawn make_room(arena *from, const feature_map *features, int64_t width, int64_t count) {
  int64_t parts = has_signs(features) ? features->degree * (width + 1) : width;
  /* A phase and a word a channel; up to five normals more; normals come in pairs. */
  int64_t needed = has_signs(features) ? parts / BITS + 1 : width + 7;
  drawn room = {.omega = table(from, parts, count), .phase = reals(from, count)};
  room.words = (needed + WORDS - 1) / WORDS * WORDS;
  room.found = piece(from, LANES * room.words, sizeof(uint64_t));
  room.normals = reals(from, LANES * (width + 6));
  room.factor = reals(from, has_signs(features) ? GROUP * count : 0);
  return room;
}

/* Features are drawn `LANES` at a time; these are what their i-th words say. */
static v4 uniform4(const drawn *room, int64_t i) {
  v4 out;
  for (int lane = 0; lane < LANES; lane++) out[lane] = uniform(room->found[lane * room->words + i]);
  return out;
}

static v4 open_uniform4(const drawn *room, int64_t i) {
  v4 out;
  for (int lane = 0; lane < LANES; lane++)
    out[lane] = open_uniform(room->found[lane * room->words + i]);
  return out;
}

static v4 root4(v4 value) {
  for (int lane = 0; lane < LANES; lane++) value[lane] = sqrt(value[lane]);
  return value;
}

/* Write what belongs to columns from `column` on: all four, or as many as there are. */
static void put4(double *row, int64_t column, int64_t columns, v4 value) {
  memcpy(row + column, &value, (size_t)least_of(LANES, columns - column) * sizeof *row);
}

/* Standard normals, a pair for each two words from the second on (Box and Muller). */
static void draw_normals(drawn *room, int64_t count) {
  for (int64_t i = 0; i < count; i += 2) {
    v4 radius = root4(-2.0 * log4(open_uniform4(room, 1 + i))), sine, cosine;
    sine_cosine4(TURN * uniform4(room, 2 + i), &sine, &cosine);
    store4(room->normals + LANES * i, radius * cosine);
    if (i + 1 < count) store4(room->normals + LANES * (i + 1), radius * sine);
  }
}

static void draw_signs(const feature_map *features, drawn *room, int64_t column) {
  int64_t parts = room->omega.rows, width = parts / features->degree, columns = room->omega.columns;
  i4 bits = {0};
  for (int64_t i = 0; i < parts; i++) {
    if (i % BITS == 0)
      for (int lane = 0; lane < LANES; lane++)
        bits[lane] = (int64_t)room->found[lane * room->words + i / BITS];
    v4 sign = choose4((bits & 1) != 0, all4(1.0), all4(-1.0));
    put4(row_of(&room->omega, i), column, columns, sign);
    bits >>= 1;
  }
  for (int64_t i = width - 1; i < parts; i += width)
    for (int64_t j = column; j < least_of(column + LANES, columns); j++)
      row_of(&room->omega, i)[j] *= features->root_offset;
}

/* ω of the kernels whose channels are drawn each from one word, here the i-th. */
static v4 draw_channel(const feature_map *features, const drawn *room, int64_t i) {
  v4 u = open_uniform4(room, i);
  double inverse = features->inverse_gamma;
  if (features->code == LAPLACIAN) {
    v4 sine, cosine;
    sine_cosine4(PI * (u - 0.5), &sine, &cosine);
    return sine / cosine * inverse / TURN;
  }
  if (features->code == CAUCHY) {
    v4 side = 2.0 * u - 1.0;
    v4 tail = -log4(1.0 - abs4(side)) * sqrt(inverse) / TURN;
    return choose4(side > 0.0, tail, -tail);
  }
  return -log4(u) * inverse;
}

/* Degrees of freedom of Matérn's ω, 0 of the others. */
static int64_t freedom_of(const feature_map *features) {
  int matern = MATERN12 <= features->code && features->code <= MATERN52;
  return matern ? 2 * (features->code - MATERN12) + 1 : 0;
}

/* What normal numbers are multiplied with to become ω. */
static v4 scale_of_normals(const feature_map *features, const drawn *room) {
  int64_t extra = freedom_of(features);
  if (features->code == GAUSSIAN) return all4(sqrt(2.0 * features->inverse_gamma) / TURN);
  if (extra == 0) return all4(1.0);
  v4 square = {0};
  for (int64_t i = 0; i < extra; i++) {
    v4 value = load4(room->normals + LANES * (room->omega.rows + i));
    square += value * value;
  }
  return root4((double)extra * features->inverse_gamma / square) / TURN;
}

/* ω of the kernels that it is made of normal numbers for. */
static void draw_from_normals(const feature_map *features, drawn *room, int64_t column) {
  int64_t width = room->omega.rows;
  draw_normals(room, width + freedom_of(features));
  v4 scale = scale_of_normals(features, room);
  for (int64_t d = 0; d < width; d++) {
    v4 value = load4(room->normals + LANES * d);
    /* Lévy of scale ½: Laplace transform exp(-√s). */
    int levy = features->code == EXP_SEMIGROUP;
    put4(row_of(&room->omega, d), column, room->omega.columns,
         levy ? 0.5 * features->inverse_gamma / (value * value) : value * scale);
  }
}

static void draw_reals(const feature_map *features, drawn *room, int64_t column) {
  int64_t code = features->code, columns = room->omega.columns;
  put4(room->phase, column, columns, uniform4(room, 0));
  if (code != LAPLACIAN && code != CAUCHY && code != REC_SEMIGROUP) {
    draw_from_normals(features, room, column);
    return;
  }
  for (int64_t d = 0; d < room->omega.rows; d++)
    put4(row_of(&room->omega, d), column, columns, draw_channel(features, room, 1 + d));
}

void draw(const feature_map *features, int64_t first, drawn *room) {
  for (int64_t column = 0; column < room->omega.columns; column += LANES) {
    for (int lane = 0; lane < LANES; lane++) {
      uint64_t counter[WORDS] = {0, (uint64_t)(first + column + lane), 0, 0};
      for (int64_t start = 0; start < room->words; start += WORDS, counter[0]++)
        philox_block(features->key.at, counter, room->found + lane * room->words + start);
    }
    if (has_signs(features))
      draw_signs(features, room, column);
    else
      draw_reals(features, room, column);
  }
}

/* Add Σ_d ω_d x_d of a row to `TILE` columns of `out`, which stay in registers meanwhile; `omega` is
their part of ω. */
static void project_tile(const double *omega, int64_t columns, const double *x, int64_t width,
                         double *out) {
  v4 sums[TILE / LANES];
  UNROLLED
  for (int i = 0; i < TILE / LANES; i++) sums[i] = load4(out + LANES * i);
  for (int64_t d = 0; d < width; d++, omega += columns) {
    if (x[d] == 0.0) continue;
    v4 value = all4(x[d]);
    UNROLLED
    for (int i = 0; i < TILE / LANES; i++) sums[i] = fma4(load4(omega + LANES * i), value, sums[i]);
  }
  UNROLLED
  for (int i = 0; i < TILE / LANES; i++) store4(out + LANES * i, sums[i]);
}

/* Add Σ_d ω_d x_d to `out`, (n, count), ω from row `start` of the drawn numbers on. Zeros are
passed over, so that sparse rows cost less. */
static void project(const drawn *room, const mat *rows, int64_t start, double *out) {
  int64_t count = room->omega.columns, width = rows->columns, at = 0;
  const double *omega = row_of(&room->omega, start);
  for (; at + TILE <= count; at += TILE)
    for (int64_t n = 0; n < rows->rows; n++)
      project_tile(omega + at, count, row_of(rows, n), width, out + n * count + at);
  for (int64_t n = 0; n < rows->rows; n++)
    for (int64_t d = 0; d < width; d++) {
      double value = row_of(rows, n)[d];
      if (value != 0.0) add_scaled(out + n * count + at, value, omega + d * count + at, count - at);
    }
}

/* to ← to·factor, entry by entry */
static void multiply_all(double *to, const double *factor, int64_t count) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) store4(to + i, load4(to + i) * load4(factor + i));
  for (; i < count; i++) to[i] *= factor[i];
}

/* Π_t ω_tᵀ(x, √c) */
static void evaluate_signs(const feature_map *features, const drawn *room, const mat *rows,
                           double *out) {
  int64_t count = room->omega.columns, many = rows->rows, width = rows->columns;
  for (int64_t t = 0; t < features->degree; t++) {
    int64_t start = t * (width + 1);
    double *factor = t == 0 ? out : room->factor;
    for (int64_t n = 0; n < many; n++)
      copy(factor + n * count, row_of(&room->omega, start + width), count);
    project(room, rows, start, factor);
    if (t > 0) multiply_all(out, factor, many * count);
  }
}

/* φ of four values of ωᵀx, or of b + ωᵀx. */
static v4 feature4(int64_t code, v4 along) {
  if (code < ARC0) return ROOT_2 * cosine_of_turns4(along);
  if (code >= EXP_SEMIGROUP) return exp4(-along);
  v4 value = choose4(along > 0.0, all4(ROOT_2), all4(0.0));
  for (int64_t order = ARC0; order < code; order++) value *= along;
  return value;
}

void evaluate(const feature_map *features, const drawn *room, const mat *rows, mat *out) {
  int64_t code = features->code, count = room->omega.columns, total = rows->rows * count, i = 0;
  double *values = out->at;
  if (has_signs(features)) {
    evaluate_signs(features, room, rows, values);
    return;
  }
  for (int64_t n = 0; n < rows->rows; n++)
    if (code < ARC0)
      copy(values + n * count, room->phase, count);
    else
      fill(values + n * count, 0.0, count);
  project(room, rows, 0, values);
  for (; i + LANES <= total; i += LANES)
    store4(values + i, feature4(code, load4(values + i)));
  for (; i < total; i++) values[i] = feature4(code, all4(values[i]))[0];
}

/* φ of features first, ... for all rows into `out`, (n, count). */
KT_API int64_t kt_feature_rows(const feature_map *features, const mat *rows, const int64_t *first,
                               mat *out) {
  arena scratch = {0};
  make_room(&scratch, features, rows->columns, out->columns);
  if (!take_block(&scratch)) return KT_NO_MEMORY;
  drawn room = make_room(&scratch, features, rows->columns, out->columns);
  draw(features, *first, &room);
  for (int64_t n = 0; n < rows->rows; n += GROUP) {
    int64_t many = least_of(GROUP, rows->rows - n);
    mat part = {row_of(rows, n), many, rows->columns}, to = {row_of(out, n), many, out->columns};
    evaluate(features, &room, &part, &to);
  }
  give_back(&scratch);
  return KT_DONE;
}

/* The words of consecutive counters under a key. */
KT_API int64_t kt_philox_words(const words *key, const words *counter, words *out) {
  uint64_t here[WORDS], found[WORDS];
  for (int i = 0; i < WORDS; i++) here[i] = counter->at[i];
  for (int64_t i = 0; i < out->size; i++) {
    if (i % WORDS == 0) {
      philox_block(key->at, here, found);
      count_up(here);
    }
    out->at[i] = found[i % WORDS];
  }
  return KT_DONE;
}

/* The reals of words: from [0, 1) and from (0, 1). */
KT_API int64_t kt_philox_reals(const words *of, vec *closed, vec *open) {
  for (int64_t i = 0; i < of->size; i++) {
    closed->at[i] = uniform(of->at[i]);
    open->at[i] = open_uniform(of->at[i]);
  }
  return KT_DONE;
}
