/* Random features of a kernel, see `kerneltrack/trackers/doubly/random_features.py`. */
#ifndef KT_RANDOM_FEATURES_H
#define KT_RANDOM_FEATURES_H

#include "arena.h"
#include "layouts.h"
#include "philox.h"
#include "shapes.h"
#include "vec.h"

/* Rows that are worked on side by side: what they meet is read from memory once for all of them. */
enum { GROUP = 8 };

/* Room for some features' ω, one column a feature. */
typedef struct {
  mat omega;       /* (P, count) in turns for cosines; P is D, or p(D + 1) of signs */
  double *phase;   /* (count,) b in turns */
  uint64_t *found; /* (LANES, words) random words of a few features */
  int64_t words;   /* of a feature */
  double *normals; /* (D + 6, LANES) their normal numbers */
  double *factor;  /* (GROUP, count) a factor of polynomial features */
} drawn;

/* Make room for `count` features of rows of `width` channels. */
drawn make_room(arena *from, const feature_map *features, int64_t width, int64_t count);

/* Draw features first, ..., as many as there is room for. O(count · D) */
void draw(const feature_map *features, int64_t first, drawn *room);

/* Write φ of the drawn features to the first rows of `out`, (n, count), for up to `GROUP` rows
(n, D). O(n · count · D), times p for polynomials. */
void evaluate(const feature_map *features, const drawn *room, const mat *rows, mat *out);

/* Whether the kernel takes no negative entries. */
int is_positive_only(const feature_map *features);

#endif
