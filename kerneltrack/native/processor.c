/* Which of the builds the processor can run. */
#include "shapes.h"

/* The place of the best build in `binding.BUILDS`. */
KT_API int64_t kt_processor_level(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
  return avx2 + (avx2 && avx512);
#else
  return 0;
#endif
}
