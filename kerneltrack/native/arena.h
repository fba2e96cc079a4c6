/* Scratch space of one call: one block, taken at its begin and given back at its end. */
#ifndef KT_ARENA_H
#define KT_ARENA_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shapes.h"

/* Under the address sanitizer pieces lie apart, and what is between them is forbidden. */
#ifdef KT_SANITIZE
#include <sanitizer/asan_interface.h>
#define KT_GAP 64
#define KT_FORBID(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#else
#define KT_GAP 0
#define KT_FORBID(at, bytes) ((void)0)
#endif

/* Pieces are asked for twice by the same function: first to add up their sizes, while there is no
block, then to get their places. */
typedef struct {
  char *block;
  size_t used;
  void *taken;
} arena;

static inline void *piece(arena *from, int64_t count, size_t size) {
  size_t asked = (size_t)count * size, bytes = (asked + 63) / 64 * 64 + KT_GAP;
  char *at = from->block ? from->block + from->used : NULL;
  if (at) KT_FORBID(at + asked, bytes - asked);
  from->used += bytes;
  return at;
}

static inline double *reals(arena *from, int64_t count) {
  return piece(from, count, sizeof(double));
}

static inline int64_t *wholes(arena *from, int64_t count) {
  return piece(from, count, sizeof(int64_t));
}

static inline mat table(arena *from, int64_t rows, int64_t columns) {
  return (mat){reals(from, rows * columns), rows, columns};
}

/* Take the block that the pieces asked for so far need, zeroed; false where memory is short. Pages
of large tables that a call does not touch cost nothing: they are the system's zeros. */
static inline int take_block(arena *from) {
  from->taken = calloc(1, from->used + 64);
  if (from->taken == NULL) return 0;
  from->block = (char *)(((uintptr_t)from->taken + 63) & ~(uintptr_t)63);
  from->used = 0;
  return 1;
}

static inline void give_back(arena *from) { free(from->taken); }

#endif
