/* Random numbers from counters: Philox4x64-10. The same counter gives the same words, in any order and in any
process, so that what was drawn once need not be stored; those of `numpy.random.Philox`, bit for bit.

Reference: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
section 3.2. */
#ifndef KT_PHILOX_H
#define KT_PHILOX_H

#include <stdint.h>

enum { WORDS = 4, ROUNDS = 10 };

#define MULTIPLIER_0 0xD2E7470EE14C6C93u
#define MULTIPLIER_1 0xCA5A826395121157u
#define WEYL_0 0x9E3779B97F4A7C15u
#define WEYL_1 0xBB67AE8584CAA73Bu
/* 2^-53: words become reals as NumPy's do, by their upper 53 bits. */
#define UNIT 0x1p-53

static inline uint64_t high_product(uint64_t left, uint64_t right) {
  return (uint64_t)(((unsigned __int128)left * right) >> 64);
}

/* Count up a number of four words, the least significant first. */
static inline void count_up(uint64_t *counter) {
  for (int i = 0; i < WORDS; i++)
    if (++counter[i] != 0) return;
}

/* The four words of a counter under a key. NumPy's generator counts up before it draws, so that its
counter c gives the block of c + 1 here, too. */
static inline void philox_block(const uint64_t *key, const uint64_t *counter, uint64_t *out) {
  uint64_t c[WORDS] = {counter[0], counter[1], counter[2], counter[3]};
  uint64_t k0 = key[0], k1 = key[1];
  count_up(c);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t high0 = high_product(MULTIPLIER_0, c[0]), low0 = MULTIPLIER_0 * c[0];
    uint64_t high1 = high_product(MULTIPLIER_1, c[2]), low1 = MULTIPLIER_1 * c[2];
    c[0] = high1 ^ c[1] ^ k0;
    c[1] = low1;
    c[2] = high0 ^ c[3] ^ k1;
    c[3] = low0;
    k0 += WEYL_0;
    k1 += WEYL_1;
  }
  for (int i = 0; i < WORDS; i++) out[i] = c[i];
}

/* A number in [0, 1), the one that NumPy's generators make of a word. */
static inline double uniform(uint64_t word) { return (double)(int64_t)(word >> 11) * UNIT; }

/* A number in (0, 1): the middle of one of 2^52 equal intervals. */
static inline double open_uniform(uint64_t word) {
  return ((double)(int64_t)(word >> 12) + 0.5) * (2.0 * UNIT);
}

#endif
