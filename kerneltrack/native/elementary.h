/* exp, log and cos of our own: those of C's libraries differ from system to system in the last bit.

Errors are given in units in the last place (ulp) as measured against 50 digits
(tests/unit/test_native.py).
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

/* log of a normal number x > 0: x = 2^k·m with m from √½ to √2. */
static inline double log1(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int64_t power = (int64_t)(bits >> 52) - 1023;
  bits = (bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000;
  double part;
  memcpy(&part, &bits, sizeof part);
  if (part > 1.4142135623730951) {
    part *= 0.5;
    power += 1;
  }
  double gap = part - 1.0, s = gap / (2.0 + gap), square = s * s, total = LOG_TERMS[10];
  for (int term = 9; term >= 1; term--) total = fma(total, square, LOG_TERMS[term]);
  /* log m = gap - gap·s + 2s³(1/3 + s²/5 ...), so that only the last terms are rounded. */
  double tail = fma(2.0 * s * square, total, -gap * s);
  return fma((double)power, LN2_HIGH, gap + fma((double)power, LN2_LOW, tail));
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
