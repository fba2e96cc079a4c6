/* The models of a call, one or many: what each of them gets of it.

A tracker's loop runs the models of a call one after the other, each as if it were alone: no
operation spans two of them.
*/
#ifndef KT_EACH_H
#define KT_EACH_H

#include "tracking.h"

/* Many structures, one after the other, of so many members each. */
typedef struct {
  const void *at;
  int64_t many, members;
} structures;

/* States, and where in the call's tables each one's rows begin and end. A model may come twice: then
its pieces run in their order. */
typedef struct {
  structures states;
  ints starts;
  ints stops;
} models;

/* Rows of one model, their times where a tracker takes them, and room for their results. */
typedef struct {
  mat rows;
  outputs out;
  ints times;
} share;

/* Rows of a table, of which there are none where it is not wanted. */
static inline mat wanted_rows(const mat *table, int64_t first, int64_t many) {
  return table->rows > 0 ? rows_from(table, first, many) : *table;
}

/* Room for the results of `many` rows from `first` on. */
static inline outputs outputs_from(const outputs *out, int64_t first, int64_t many) {
  return (outputs){.valid = {out->valid.at + first, many},
                   .number = {out->number.at + first, many},
                   .z = wanted_rows(&out->z, first, many),
                   .loss = {out->loss.at + first, many},
                   .novelty = {out->novelty.at + first, many},
                   .informative = {out->informative.at + first, many},
                   .evicted = {out->evicted.at + first, many},
                   .initial = {out->initial.at + first, many},
                   .q = wanted_rows(&out->q, first, many),
                   .s = wanted_rows(&out->s, first, many),
                   .x = wanted_rows(&out->x, first, many)};
}

/* What model m gets of a call; `times` may be none. */
static inline share share_of(const models *all, int64_t m, const mat *rows, const outputs *out,
                             const ints *times) {
  int64_t first = all->starts.at[m], many = all->stops.at[m] - first;
  share own = {.rows = rows_from(rows, first, many), .out = outputs_from(out, first, many)};
  if (times != NULL && times->size > 0) own.times = (ints){times->at + first, many};
  return own;
}

/* The kernel of a model, which has a bandwidth of its own. */
static inline kernel kernel_of(const kernel *of, const vec *bandwidth) {
  kernel own = *of;
  own.inverse_gamma = 1.0 / bandwidth->at[0];
  return own;
}

#endif
