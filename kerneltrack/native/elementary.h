/* exp, log and cos of our own: those of C's libraries differ from system to system in the last bit.

Errors are given in units in the last place (ulp) as measured against 50 digits
(tests/unit/test_elementary.py).
*/
#ifndef KT_ELEMENTARY_H
#define KT_ELEMENTARY_H

#include "vec.h"

/* ln 2 in two parts, the first with zeros at its end: k·LN2_HIGH is exact for |k| < 2^20. */
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10
#define LOG2_E 1.4426950408889634
/* Added to a number below 2^51 it leaves the nearest integer in the last bits. */
#define ROUNDER 6755399441055744.0
#define EXP_LOWEST -708.0
#define EXP_HIGHEST 709.0

static const double EXP_TERMS[14] = {
    1.0,           1.0,           1.0 / 2,        1.0 / 6,          1.0 / 24,
    1.0 / 120,     1.0 / 720,     1.0 / 5040,     1.0 / 40320,      1.0 / 362880,
    1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};

/* exp of four numbers: 2^k·exp(r), |r| <= ln2/2, by its Taylor series. 0 below EXP_LOWEST,
infinite above EXP_HIGHEST, NaN of NaN. Within 1 ulp but for rounding of the series, 4e-16. */
static inline v4 exp4(v4 x) {
  v4 inside = larger4(x, all4(EXP_LOWEST));
  inside = choose4(inside > EXP_HIGHEST, all4(EXP_HIGHEST), inside);
  v4 shifted = fma4(inside, all4(LOG2_E), all4(ROUNDER));
  v4 whole = shifted - ROUNDER;
  v4 rest = fma4(whole, all4(-LN2_HIGH), inside);
  rest = fma4(whole, all4(-LN2_LOW), rest);
  v4 total = all4(EXP_TERMS[13]);
  _Pragma("GCC unroll 13")
  for (int term = 12; term >= 0; term--) total = fma4(total, rest, all4(EXP_TERMS[term]));
  v4 power = (v4)(((i4)shifted << 52) + 0x3FF0000000000000);
  v4 out = total * power;
  out = choose4(x < EXP_LOWEST, all4(0.0), out);
  out = choose4(x > EXP_HIGHEST, all4(INFINITY), out);
  return choose4(x == x, out, x);
}

static inline double exp1(double x) { return exp4(all4(x))[0]; }

/* 2s·(1 + s²/3 + s⁴/5 ...) = log((1 + s)/(1 - s)), |s| <= .1716 */
static const double LOG_TERMS[11] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                     1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};

/* log of four normal numbers > 0: x = 2^k·m with m from √½ to √2. Within 1 ulp. */
static inline v4 log4(v4 x) {
  i4 bits = (i4)x;
  /* k by the bits of 2^52 + k. */
  v4 power = (v4)(((bits >> 52) & 0x7FF) | 0x4330000000000000) - (0x1p52 + 1023.0);
  v4 part = (v4)((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  i4 high = part > 1.4142135623730951;
  part = choose4(high, 0.5 * part, part);
  power = choose4(high, power + 1.0, power);
  v4 gap = part - 1.0, s = gap / (2.0 + gap), square = s * s, total = all4(LOG_TERMS[10]);
  _Pragma("GCC unroll 10")
  for (int term = 9; term >= 1; term--) total = fma4(total, square, all4(LOG_TERMS[term]));
  /* log m = gap - gap·s + 2s³(1/3 + s²/5 ...), so that only the last terms are rounded. */
  v4 tail = fma4(2.0 * s * square, total, -gap * s);
  return fma4(power, all4(LN2_HIGH), gap + fma4(power, all4(LN2_LOW), tail));
}

static inline double log1(double x) { return log4(all4(x))[0]; }

/* π/2 in two parts, and its inverse. */
#define QUARTER_HIGH 1.5707963267948966
#define QUARTER_LOW 6.123233995736766e-17
#define QUARTER_INVERSE 0.6366197723675814

/* sin r = r + r³·Σ SIN_TERMS[k] r^(2k), cos r = 1 - r²/2 + r⁴·Σ COS_TERMS[k] r^(2k), |r| <= π/4 */
static const double SIN_TERMS[8] = {
    -1.0 / 6,        1.0 / 120,          -1.0 / 5040,          1.0 / 362880,
    -1.0 / 39916800, 1.0 / 6227020800.0, -1.0 / 1307674368000, 1.0 / 355687428096000};
static const double COS_TERMS[8] = {
    1.0 / 24,        -1.0 / 720,          1.0 / 40320,          -1.0 / 3628800,
    1.0 / 479001600, -1.0 / 87178291200., 1.0 / 20922789888000, -1.0 / 6402373705728000};

/* sin x and cos x of four numbers, |x| <= 8, by Taylor's series around the nearest multiple of π/2.
Within 1.6 ulp: the distance from the multiple is rounded once, the sum once. */
static inline void sine_cosine4(v4 x, v4 *sine, v4 *cosine) {
  v4 shifted = fma4(x, all4(QUARTER_INVERSE), all4(ROUNDER)), whole = shifted - ROUNDER;
  /* The first difference is exact. */
  v4 near = fma4(whole, all4(-QUARTER_HIGH), x), rest = fma4(whole, all4(-QUARTER_LOW), near);
  v4 square = rest * rest, odd = all4(SIN_TERMS[7]), even = all4(COS_TERMS[7]);
  _Pragma("GCC unroll 7")
  for (int term = 6; term >= 0; term--) {
    odd = fma4(odd, square, all4(SIN_TERMS[term]));
    even = fma4(even, square, all4(COS_TERMS[term]));
  }
  v4 half = 0.5 * square, most = 1.0 - half;
  odd = fma4(rest * square, odd, rest);
  even = most + fma4(square * square, even, (1.0 - most) - half);
  i4 quarter = (i4)shifted, turned = (quarter & 1) != 0;
  *sine = (v4)((i4)choose4(turned, even, odd) ^ (quarter & 2) << 62);
  *cosine = (v4)((i4)choose4(turned, odd, even) ^ ((quarter + 1) & 2) << 62);
}

/* sin(πf) = f Σ TURN_TERMS[k] f^(2k); the next term is below 2e-18 for |f| <= ½. */
static const double TURN_TERMS[11] = {
    3.141592653589793,       -5.167712780049969,     2.550164039877345,
    -0.5992645293207919,     0.08214588661112819,    -0.007370430945714348,
    0.00046630280576761234,  -2.1915353447830204e-05, 7.952054001475508e-07,
    -2.2948428997269856e-08, 5.392664662608125e-10};

/* cos(2π·turns) of four numbers: whole turns are dropped exactly, 1 - 2sin²(π·part) of what is
left, the sine by its Taylor series. Error below 1.2e-15, not relative to the cosine. */
static inline v4 cosine_of_turns4(v4 turns) {
  /* Adding 2^52 rounds to the nearest integer; larger numbers are integers, or no numbers. */
  v4 size = abs4(turns), whole = choose4(size < 0x1p52, (size + 0x1p52) - 0x1p52, size);
  v4 part = size - whole, square = part * part, total = all4(TURN_TERMS[10]);
  _Pragma("GCC unroll 10")
  for (int term = 9; term >= 0; term--) total = fma4(total, square, all4(TURN_TERMS[term]));
  v4 sine = part * total;
  return fma4(-2.0 * sine, sine, all4(1.0));
}

/* base^times by squaring, times >= 0 */
static inline double power_of(double base, int64_t times) {
  double out = 1.0;
  for (; times > 0; times >>= 1) {
    if (times & 1) out *= base;
    base *= base;
  }
  return out;
}

#endif
