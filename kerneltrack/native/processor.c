/* Which build of the loops this processor can run. */
#include "shapes.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Bits of CPUID's leaves 1 and 7, and of the registers that the system saves (XCR0). */
#define FMA (1u << 12)
#define OSXSAVE (1u << 27)
#define AVX2 (1u << 5)
#define BMI2 (1u << 8)
#define AVX512F (1u << 16)
#define AVX512DQ (1u << 17)
#define AVX512VL (1u << 31)
#define SAVES_YMM 0x06u
#define SAVES_ZMM 0xe6u

static int has(unsigned int found, unsigned int wanted) { return (found & wanted) == wanted; }

static unsigned int registers_saved(void) {
  unsigned int low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

static int64_t level(void) {
  unsigned int a, b, c, d, features;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, FMA | OSXSAVE)) return 0;
  if (!__get_cpuid_count(7, 0, &a, &features, &c, &d) || !has(features, AVX2 | BMI2)) return 0;
  unsigned int saved = registers_saved();
  if (!has(saved, SAVES_YMM)) return 0;
  return has(features, AVX512F | AVX512DQ | AVX512VL) && has(saved, SAVES_ZMM) ? 2 : 1;
}
#else
static int64_t level(void) { return 0; }
#endif

/* The place of the best build in `binding.BUILDS`, by CPUID itself: what compilers offer for it
lives in their run-time libraries. */
KT_API int64_t kt_processor_level(void) { return level(); }
