/* Replays recorded calls of the row loops, where there is no Python: on an emulated processor.

A recording (tests/native/recording.py) is a row of calls. For each: the function's number, how many
structures it is given, and for each structure its words: a number as it is, or an array, whose
bytes follow, or an array that this call was given before, or structures, whose words follow. What the function returns and what the
arrays then hold goes to standard output.
*/
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUNCTION(name) int64_t name(void);
#include "functions.h"
#undef FUNCTION

typedef int64_t function(void *, void *, void *, void *, void *, void *, void *, void *, void *);

#define FUNCTION(name) (function *)name,
static function *const functions[] = {
#include "functions.h"
};

enum { MOST_ARGUMENTS = 9, MOST_WORDS = 256, MOST_ARRAYS = 256 };
enum { NUMBER, ARRAY, AGAIN, STRUCTURES };

typedef struct {
  void *at;
  int64_t bytes;
} array;

static FILE *recording;

static void fail(const char *why) {
  fprintf(stderr, "replay: %s\n", why);
  exit(1);
}

static void read_bytes(void *to, int64_t count) {
  if (fread(to, 1, (size_t)count, recording) != (size_t)count) fail("the recording is cut");
}

static int64_t next(void) {
  int64_t number;
  read_bytes(&number, sizeof number);
  return number;
}

static int64_t next_below(int64_t end, const char *what) {
  int64_t number = next();
  if (number < 0 || number >= end) fail(what);
  return number;
}

/* The next word of a structure; an array's bytes are put behind `arrays`. */
static int64_t next_word(array *arrays, int *many) {
  switch (next()) {
    case NUMBER:
      return next();
    case AGAIN:
      return (int64_t)(intptr_t)arrays[next_below(*many, "no such array")].at;
    case ARRAY: {
      array *made = &arrays[*many];
      if (++*many > MOST_ARRAYS) fail("too many arrays");
      made->bytes = next();
      made->at = malloc((size_t)made->bytes + 1);
      if (made->at == NULL) fail("no memory");
      read_bytes(made->at, made->bytes);
      return (int64_t)(intptr_t)made->at;
    }
    case STRUCTURES: {
      int64_t count = next(), *members = malloc((size_t)count * sizeof(int64_t) + 1);
      if (members == NULL) fail("no memory");
      for (int64_t i = 0; i < count; i++) members[i] = next_word(arrays, many);
      return (int64_t)(intptr_t)members;
    }
    default:
      fail("no such kind of word");
      return 0;
  }
}

static void replay(int64_t which) {
  static int64_t words[MOST_ARGUMENTS][MOST_WORDS];
  static array arrays[MOST_ARRAYS];
  int many = 0;
  int64_t arguments = next_below(MOST_ARGUMENTS + 1, "too many arguments");
  for (int64_t i = 0; i < arguments; i++) {
    int64_t count = next_below(MOST_WORDS + 1, "too many words");
    for (int64_t j = 0; j < count; j++) words[i][j] = next_word(arrays, &many);
  }
  int64_t result = functions[which](words[0], words[1], words[2], words[3], words[4], words[5],
                                    words[6], words[7], words[8]);
  fwrite(&result, sizeof result, 1, stdout);
  for (int i = 0; i < many; i++) {
    fwrite(arrays[i].at, 1, (size_t)arrays[i].bytes, stdout);
    free(arrays[i].at);
  }
}

int main(int count, char **names) {
  if (count != 2) fail("replay RECORDING");
  recording = fopen(names[1], "rb");
  if (recording == NULL) fail("there is no such recording");
  const int64_t known = sizeof functions / sizeof functions[0];
  for (int64_t calls = next(); calls > 0; calls--) replay(next_below(known, "no such function"));
  return fflush(stdout) == 0 ? 0 : 1;
}
