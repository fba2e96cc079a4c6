/* Sums and steps over rows of numbers, in vector registers and always in the same order.

A compiler that may reorder a sum does so as it sees fit, and the bits of a result would depend on
the processor that it was compiled for. Here the order is written down and depends on the sum's
length alone: 8 partial sums (32 in sums of 32 terms and more), folded in halves. What is fused into
one rounding is written as `fma`. So all builds give the same bits, with vectors or without.

The vectors are those of GCC's and Clang's extensions: four doubles, whatever the processor has.
*/
#ifndef KT_VEC_H
#define KT_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef double v4 __attribute__((vector_size(32)));
typedef double v2 __attribute__((vector_size(16)));
typedef int64_t i4 __attribute__((vector_size(32)));

enum { LANES = 4 };

/* Columns of tables that are summed side by side, in registers. */
enum { TILE = 32 };
#define UNROLLED _Pragma("GCC unroll 8")

/* The next multiple of a vector's width: rows of tables that only C works on are padded to it. */
static inline int64_t padded(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

static inline v4 load4(const double *from) {
  v4 value;
  memcpy(&value, from, sizeof value);
  return value;
}

static inline void store4(double *to, v4 value) { memcpy(to, &value, sizeof value); }

static inline v4 all4(double value) { return (v4){value, value, value, value}; }

static inline v4 fma4(v4 left, v4 right, v4 total) {
#if defined(__clang__)
  return __builtin_elementwise_fma(left, right, total);
#elif defined(__FMA__)
  /* What `_mm256_fmadd_pd` is: its header has 60,000 lines, two thirds of a file's compilation. */
  return __builtin_ia32_vfmaddpd256(left, right, total);
#else
  v4 out;
  for (int lane = 0; lane < LANES; lane++)
    out[lane] = fma(left[lane], right[lane], total[lane]);
  return out;
#endif
}

static inline v4 sqrt4(v4 value) {
#if defined(__AVX__) && !defined(__clang__)
  return __builtin_ia32_sqrtpd256(value);
#else
  v4 out;
  for (int lane = 0; lane < LANES; lane++) out[lane] = sqrt(value[lane]);
  return out;
#endif
}

static inline v4 abs4(v4 value) { return (v4)((i4)value & INT64_MAX); }

/* The entries of `when` where a comparison holds, those of `other` where it does not. */
static inline v4 choose4(i4 holds, v4 when, v4 other) {
  return (v4)((holds & (i4)when) | (~holds & (i4)other));
}

/* The larger of two numbers, the second one where they are equal or cannot be compared: unlike C's
fmax these say what becomes of NaN and of zeros of two signs, and are one instruction. */
static inline double larger(double left, double right) { return left > right ? left : right; }

static inline double smaller(double left, double right) { return left < right ? left : right; }

static inline v4 larger4(v4 left, v4 right) { return choose4(left > right, left, right); }

/* The sum of four numbers, halves first. */
static inline double fold4(v4 value) { return (value[0] + value[2]) + (value[1] + value[3]); }

/* One term of each kind of sum, for a vector and for a single entry. */
#define SUM_OF(name, vector_term, single_term)                                                  \
  static inline double name(const double *left, const double *right, int64_t count) {          \
    v4 low = {0}, high = {0};                                                                  \
    int64_t at = 0;                                                                            \
    if (count >= 32) {                                                                         \
      v4 sums[8] = {{0}};                                                                      \
      for (; at + 32 <= count; at += 32)                                                       \
        _Pragma("GCC unroll 8")                                                                \
        for (int i = 0; i < 8; i++) {                                                          \
          v4 a = load4(left + at + 4 * i), b = load4(right + at + 4 * i);                      \
          sums[i] = vector_term(a, b, sums[i]);                                                \
        }                                                                                      \
      low = (sums[0] + sums[2]) + (sums[4] + sums[6]);                                         \
      high = (sums[1] + sums[3]) + (sums[5] + sums[7]);                                        \
    }                                                                                          \
    for (; at + 8 <= count; at += 8) {                                                         \
      v4 a = load4(left + at), b = load4(right + at);                                          \
      low = vector_term(a, b, low);                                                            \
      a = load4(left + at + 4), b = load4(right + at + 4);                                     \
      high = vector_term(a, b, high);                                                          \
    }                                                                                          \
    v4 four = low + high;                                                                      \
    if (count & 4) {                                                                           \
      v4 a = load4(left + at), b = load4(right + at);                                          \
      four = vector_term(a, b, four);                                                          \
      at += 4;                                                                                 \
    }                                                                                          \
    double first = four[0] + four[2], second = four[1] + four[3];                              \
    if (count & 2) {                                                                           \
      first = single_term(left[at], right[at], first);                                         \
      second = single_term(left[at + 1], right[at + 1], second);                               \
      at += 2;                                                                                 \
    }                                                                                          \
    double total = first + second;                                                             \
    return count & 1 ? single_term(left[at], right[at], total) : total;                        \
  }

static inline v4 add_squared_gap4(v4 left, v4 right, v4 total) {
  v4 gap = left - right;
  return fma4(gap, gap, total);
}

static inline double add_squared_gap(double left, double right, double total) {
  double gap = left - right;
  return fma(gap, gap, total);
}

static inline v4 add_absolute_gap4(v4 left, v4 right, v4 total) {
  return total + abs4(left - right);
}

static inline double add_absolute_gap(double left, double right, double total) {
  return total + fabs(left - right);
}

static inline v4 add_entry4(v4 left, v4 right, v4 total) { return (void)right, total + left; }

static inline double add_entry(double left, double right, double total) {
  return (void)right, total + left;
}

static inline v4 add_absolute4(v4 left, v4 right, v4 total) {
  return (void)right, total + abs4(left);
}

static inline double add_absolute(double left, double right, double total) {
  return (void)right, total + fabs(left);
}

/* Σ left[i]·right[i] */
SUM_OF(dot, fma4, fma)
/* Σ(left[i] - right[i])² */
SUM_OF(squared_distance, add_squared_gap4, add_squared_gap)
/* Σ|left[i] - right[i]| */
SUM_OF(absolute_distance, add_absolute_gap4, add_absolute_gap)
SUM_OF(sum_of_entries, add_entry4, add_entry)
SUM_OF(sum_of_absolutes, add_absolute4, add_absolute)

/* Σ row[i] */
static inline double entry_sum(const double *row, int64_t count) {
  return sum_of_entries(row, row, count);
}

/* Σ|row[i]| */
static inline double absolute_sum(const double *row, int64_t count) {
  return sum_of_absolutes(row, row, count);
}

/* to ← to + factor·from */
static inline void add_scaled(double *to, double factor, const double *from, int64_t count) {
  v4 factors = all4(factor);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    store4(to + i, fma4(factors, load4(from + i), load4(to + i)));
  for (; i < count; i++) to[i] = fma(factor, from[i], to[i]);
}

/* to ← factor·other + decay·from, each with one rounding after decay·from's. */
static inline void blend(double *to, double factor, const double *other, double decay,
                         const double *from, int64_t count) {
  v4 factors = all4(factor), decays = all4(decay);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    store4(to + i, fma4(factors, load4(other + i), decays * load4(from + i)));
  for (; i < count; i++) to[i] = fma(factor, other[i], decay * from[i]);
}

/* to ← to + row·row, entry by entry. */
static inline void add_squares(double *to, const double *row, int64_t count) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    store4(to + i, fma4(load4(row + i), load4(row + i), load4(to + i)));
  for (; i < count; i++) to[i] = fma(row[i], row[i], to[i]);
}

/* to ← left - right */
static inline void subtract(double *to, const double *left, const double *right, int64_t count) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) store4(to + i, load4(left + i) - load4(right + i));
  for (; i < count; i++) to[i] = left[i] - right[i];
}

static inline void scale_all(double *to, double factor, int64_t count) {
  v4 factors = all4(factor);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) store4(to + i, load4(to + i) * factors);
  for (; i < count; i++) to[i] *= factor;
}

static inline void fill(double *to, double value, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = value;
}

static inline void copy(double *to, const double *from, int64_t count) {
  memcpy(to, from, (size_t)count * sizeof *to);
}

#endif
