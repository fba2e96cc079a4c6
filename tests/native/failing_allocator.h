/* Scratch space that runs out at a call: compiled before every file of the row loops. */
#include <stdint.h>
#include <stdlib.h>

#define KT_SHARED __attribute__((weak, visibility("default")))

/* How often memory was asked for, how much of it was not given back, and which call gets none. */
KT_SHARED int64_t kt_asked, kt_taken, kt_fails_at;

KT_SHARED void *kt_failing_calloc(size_t count, size_t size) {
  void *block = ++kt_asked == kt_fails_at ? NULL : calloc(count, size);
  if (block != NULL) kt_taken++;
  return block;
}

KT_SHARED void kt_failing_free(void *block) {
  if (block != NULL) kt_taken--;
  free(block);
}

#define calloc kt_failing_calloc
#define free kt_failing_free
