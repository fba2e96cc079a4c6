#include "learning.h"

#include "elementary.h"

/* An error counts as at most this much: its square is still finite. */
#define MAX_ERROR 1e150
#define LEAST_BETA 0.1
#define MOST_BETA 50.0
#define LEAST_CURVATURE 1e-9

/* Behind the other sums: the logarithm of the bound of errors, errors so far, misses (or hits, below
0) in a row, and what share of hits is owed for earlier misses (of misses for earlier hits, below
0). */
enum { LOG_BOUND, MANY_ERRORS, RUN, OWED, ERROR_SUMS };
/* A bound below the first is 0, none is above the second. */
#define LEAST_LOG -230.0
#define MOST_LOG 345.0
/* Step of the bound's logarithm where a tenth of the errors is to be above it, and the longest; the
first steps are FIRST_PACE over the root of the errors so far. */
#define PACE 0.1
#define MOST_PACE 0.2
#define FIRST_PACE 2.0
/* What share is owed for a miss, and how much of the rarer outcome's can be at most. */
#define DEBT 0.01
#define MOST_OWED 0.5
/* Classes in a word of a set. */
#define BITS 64
/* What is rarer is no chance. */
#define RARE 1e-5
/* A target counts as at most so many standard deviations from the mean. */
#define MOST_DEVIATIONS 10.0

/* The units of decision values by mean and variance of the targets so far. */
static void set_units(lesson *at) {
  double variance = 0.0;
  at->centre = 0.0;
  at->unit = 1.0;
  if (!at->how->regression || at->how->units == AS_THEY_ARE) return;
  at->centre = at->sums[TARGET_MEAN];
  variance = at->sums[TARGET_VARIANCE];
  if (variance > 0.0) at->unit = sqrt(variance);
}

lesson make_lesson(arena *from, int64_t classes, const mode *how, const vec *sums,
                   const ints *counts, const mat *rows, const coded *labels, predicted *out) {
  lesson at = {.how = how,
               .rows = rows,
               .labels = labels,
               .out = out,
               .sums = sums->at,
               .counts = counts->at,
               .values = reals(from, padded(classes)),
               .chances = reals(from, padded(classes)),
               .known = how->known,
               .n = -1};
  set_units(&at);
  if (how->coverage > 0.0) at.errors = sums->at + sums->size - ERROR_SUMS;
  if (!how->regression) at.seen = sums->at + SEEN;
  return at;
}

/* Half of an interval's width; none before the first error. */
static double half_width(const double *errors) {
  if (!(errors[MANY_ERRORS] > 0.0)) return NAN;
  return errors[LOG_BOUND] <= LEAST_LOG ? 0.0 : exp1(errors[LOG_BOUND]);
}

/* How many outcomes of this chance in a row are no chance any more. */
static double longest_run(double chance) { return floor(log1(RARE) / log1(chance)); }

/* Length of a step of the bound's logarithm. */
static double step_of(double missing, double many) {
  double rarity = sqrt(0.1 / missing);
  double pace = smaller(MOST_PACE, PACE * rarity);
  return larger(pace, FIRST_PACE * smaller(1.0, 1.0 / rarity) / sqrt(many));
}

/* Move the bound of errors, on a scale of logarithms, towards the one that a share of `coverage`
stays below; faster after more misses, or hits, in a row than chance gives, and a little farther for
what is owed. */
static void follow_errors(double *errors, double coverage, double error) {
  double missing = 1.0 - coverage, many = errors[MANY_ERRORS], *run = errors + RUN;
  int miss = error > half_width(errors), without = errors[LOG_BOUND] <= LEAST_LOG;
  double least = error > 0.0 ? log1(error) : LEAST_LOG;
  errors[MANY_ERRORS] = many + 1.0;
  if (many == 0.0 || (miss && without)) {
    errors[LOG_BOUND] = larger(least, LEAST_LOG);
    return;
  }
  if (miss)
    *run = larger(*run, 0.0) + 1.0;
  else
    *run = smaller(*run, 0.0) - 1.0;
  double times = fabs(*run) - longest_run(miss ? missing : coverage);
  double excess = (miss ? 1.0 : 0.0) - missing, *owed = errors + OWED;
  double moved = step_of(missing, many) * larger(1.0, times) * (excess + *owed);
  errors[LOG_BOUND] = smaller(MOST_LOG, larger(LEAST_LOG, errors[LOG_BOUND] + moved));
  /* No bound is below 0, so nothing is owed for a hit there. */
  if (without) return;
  double most = MOST_OWED * smaller(missing, coverage);
  *owed = smaller(most, larger(-most, *owed + DEBT * excess));
}

/* Welford's update: gap/n towards the mean, (gap²(1 - 1/n) - variance)/n towards the variance. */
new_units meet_target(lesson *at) {
  const mode *how = at->how;
  if (!how->regression || how->units == AS_THEY_ARE) return (new_units){1.0, 0.0};
  double *mean = at->sums + TARGET_MEAN, *variance = at->sums + TARGET_VARIANCE;
  double target = at->labels->targets.at[at->n], centre = at->centre, unit = at->unit;
  double many = (double)(at->counts[LEARNED] + 1), most = MOST_DEVIATIONS * sqrt(*variance);
  double gap = target - *mean, rest = 1.0;
  if (most > 0.0) gap = smaller(most, larger(-most, gap));
  if (how->units == CENTRED) {
    *mean += gap / many;
    rest = 1.0 - 1.0 / many;
  }
  *variance += (gap * gap * rest - *variance) / many;
  set_units(at);
  if (at->counts[LEARNED] == 0) return (new_units){1.0, 0.0};
  return (new_units){unit / at->unit, (centre - at->centre) / at->unit};
}

void turn_functions(lesson *at, mat *weights, int64_t width) {
  if (!at->how->regression) return;
  double turn = meet_target(at).turn;
  for (int64_t c = 0; c < weights->rows; c++) scale_all(row_of(weights, c), turn, width);
  at->values[0] *= turn;
}

static void mark_target(const lesson *at) {
  predicted *out = at->out;
  double value = out->value.at[at->n];
  if (at->labels->codes.at[at->n] < 0 || isnan(value)) return;
  double error = smaller(MAX_ERROR, fabs(at->labels->targets.at[at->n] - value));
  out->scored.at[at->n] = 1;
  out->error.at[at->n] = error;
  at->counts[SCORED] += 1;
  at->sums[SQUARED] += error * error;
  at->sums[ABSOLUTE] += error;
}

static void mark_class(const lesson *at) {
  predicted *out = at->out;
  int64_t code = at->labels->codes.at[at->n], said = out->code.at[at->n];
  if (code == MISSING || said < 0) return;
  out->scored.at[at->n] = 1;
  out->correct.at[at->n] = said == code;
  at->counts[SCORED] += 1;
  at->counts[CORRECT] += said == code;
}

/* Compare the row's prediction with its label, if both are there. */
static void mark_row(const lesson *at) {
  if (at->how->regression)
    mark_target(at);
  else
    mark_class(at);
}

void tame(double *values, int64_t count) {
  for (int64_t c = 0; c < count; c++)
    values[c] = isnan(values[c]) ? 0.0 : smaller(MOST_VALUE, larger(-MOST_VALUE, values[c]));
}

/* `tame` of four. */
static inline v4 tame4(v4 values) {
  v4 within = larger4(all4(-MOST_VALUE), values);
  within = choose4(within > MOST_VALUE, all4(MOST_VALUE), within);
  return choose4(values == values, within, all4(0.0));
}

void spread_floor(double *chances, int64_t known) {
  v4 least = all4(FLOOR / (double)known), most = all4(1.0 - FLOOR);
  for (int64_t c = 0; c < known; c += LANES)
    store4(chances + c, fma4(most, load4(chances + c), least));
}

void temper_values(double beta, const double *values, int64_t known, double *chances) {
  for (int64_t c = 0; c < known; c += LANES)
    store4(chances + c, tame4(beta * load4(values + c)));
  softmax(chances, known, chances);
  spread_floor(chances, known);
}

void learn_temper(double *temper, const double *values, const double *chances, int64_t known,
                  int64_t code) {
  double mean = 0.0, square = 0.0;
  for (int64_t c = 0; c < known; c++) {
    mean = fma(chances[c], values[c], mean);
    square = fma(chances[c] * values[c], values[c], square);
  }
  double slope = values[code] - mean;
  if (!(fabs(slope) <= MOST_VALUE && square <= MOST_VALUE)) return;
  double met = FADING * temper[CURVATURE] + larger(square - mean * mean, 0.0);
  temper[CURVATURE] = larger(met, LEAST_CURVATURE);
  double beta = temper[BETA] + slope / temper[CURVATURE];
  /* No step is longer than half of β. */
  beta = smaller(larger(beta, 0.5 * temper[BETA]), 1.5 * temper[BETA]);
  temper[BETA] = smaller(larger(beta, LEAST_BETA), MOST_BETA);
}

static int64_t largest_of(const double *values, int64_t known) {
  int64_t best = 0;
  for (int64_t c = 1; c < known; c++)
    if (values[c] > values[best]) best = c;
  return best;
}

/* How much a label of class c counts: of balanced classes the inverse of how often it came, or that
one's root. */
static double weight_of(const lesson *at, int64_t c) {
  if (!at->how->balanced) return 1.0;
  double many = larger(at->seen[c], 1.0);
  return 1.0 / (at->how->balanced == BY_ROOT ? sqrt(many) : many);
}

/* What it costs on the average to predict class c, by the table. */
static double expected_cost(const lesson *at, const double *chances, int64_t c) {
  const mat *costs = &at->how->costs;
  double total = 0.0;
  for (int64_t label = 0; label < at->known; label++)
    total = fma(weight_of(at, label) * chances[label], row_of(costs, label)[c], total);
  return total;
}

/* The class of least expected cost, the first of several. O(C), with a table of costs O(C²) */
static int64_t cheapest_of(const lesson *at, const double *chances) {
  int64_t best = 0;
  double least = 0.0;
  for (int64_t c = 0; c < at->known; c++) {
    /* Where all errors cost the same, what is left is less the more the class itself weighs. */
    double cost = at->how->costs.rows ? expected_cost(at, chances, c)
                                      : -weight_of(at, c) * chances[c];
    if (c == 0 || cost < least) {
      best = c;
      least = cost;
    }
  }
  return best;
}

/* The class that is predicted, its probability, and how far that is ahead of the others'. */
static void report_class(const lesson *at, const double *values, const double *chances) {
  predicted *out = at->out;
  int plain = !at->how->balanced && !at->how->costs.rows;
  int64_t best = plain ? largest_of(values, at->known) : cheapest_of(at, chances);
  double second = -INFINITY;
  for (int64_t c = 0; c < at->known; c++)
    if (c != best && chances[c] > second) second = chances[c];
  out->code.at[at->n] = best;
  out->score.at[at->n] = chances[best];
  out->margin.at[at->n] = at->known > 1 ? chances[best] - second : 0.0;
}

/* The probability of a class that is not known. */
static double unknown_chance(int64_t known) { return FLOOR / (double)(known + 1); }

/* -log of a probability: how odd a label of that class would be. The only known class is not certain:
there may be others. */
static double oddness(double chance, int64_t known) {
  return -log1(smaller(chance, 1.0 - unknown_chance(known)));
}

/* The classes that are no odder than the bound; before the first label all that are known. */
static void report_set(const lesson *at, const double *chances) {
  int_table *members = &at->out->members;
  int64_t *words = members->at + at->n * members->columns;
  double bound = half_width(at->errors);
  for (int64_t c = 0; c < at->known && c < members->columns * BITS; c++)
    if (!(oddness(chances[c], at->known) > bound))
      words[c / BITS] |= (int64_t)((uint64_t)1 << (c % BITS));
}

/* How far the prediction is from its label: a class that was not known is as odd as one can be. */
static double error_of(const lesson *at, const double *chances, double value) {
  if (at->how->regression) return fabs(at->labels->targets.at[at->n] - value);
  int known = at->code >= 0 && at->code < at->known;
  return oddness(known ? chances[at->code] : unknown_chance(at->known), at->known);
}

static void report_target(const lesson *at, double value) {
  at->out->value.at[at->n] = value;
  if (!at->errors) return;
  double half = half_width(at->errors);
  at->out->lower.at[at->n] = value - half;
  at->out->upper.at[at->n] = value + half;
}

static int report(lesson *at, const double *values, const double *chances) {
  int target = at->known > 0 && at->how->regression;
  double value = target ? fma(at->unit, values[0], at->centre) : 0.0;
  if (at->how->predict) {
    if (target)
      report_target(at, value);
    else if (at->known > 0)
      report_class(at, values, chances);
    if (at->errors && at->known > 0 && !target) report_set(at, chances);
    mark_row(at);
  }
  if (!at->how->learn) return 0;
  at->code = at->labels->codes.at[at->n];
  at->weight = at->labels->weights.size ? at->labels->weights.at[at->n] : 1.0;
  at->counts[UNUSABLE] += at->code == UNUSABLE_LABEL;
  int labelled = at->how->regression ? at->code >= 0 : at->code != MISSING;
  if (at->errors && at->known > 0 && labelled)
    follow_errors(at->errors, at->how->coverage, smaller(MAX_ERROR, error_of(at, chances, value)));
  if (at->how->counted && at->seen && at->code >= 0) at->seen[at->code] += 1.0;
  return at->code >= 0;
}

int report_values(lesson *at, const double *values) {
  int classes = at->known > 0 && !at->how->regression;
  if (classes) temper_values(at->sums[TEMPER], values, at->known, at->chances);
  if (!report(at, values, at->chances)) return 0;
  if (classes && at->code < at->known)
    learn_temper(at->sums + TEMPER, values, at->chances, at->known, at->code);
  return 1;
}

int report_row(lesson *at) { return report_values(at, at->values); }

int keep_waiting(lesson *at, const vec *bandwidth, mat *early) {
  int waits = bandwidth->at[0] == 0.0;
  int regression = at->how->regression != 0;
  /* A function of targets is not known before something was learned. */
  if (!(waits && regression)) meet_class(at);
  if (!waits) return 0;
  double *place = row_of(early, at->counts[EARLY]++);
  copy(place, row_of(at->rows, at->n), at->rows->columns);
  place[at->rows->columns] = regression ? at->labels->targets.at[at->n] : (double)at->code;
  return 1;
}

void write_reached(const lesson *at, ints *reached) {
  reached->at[0] = least_of(at->n + 1, at->rows->rows);
  reached->at[1] = at->known;
}

double decayed_step(double step_size, double decay_rows, int64_t learned) {
  return decay_rows > 0.0 ? step_size / sqrt(1.0 + (double)learned / decay_rows) : step_size;
}

void shrink(mat *weights, int64_t count, int64_t width, double amount) {
  if (!(amount > 0.0)) return;
  double keep = larger(0.0, 1.0 - amount);
  for (int64_t c = 0; c < count; c++) scale_all(row_of(weights, c), keep, width);
}

void softmax(const double *values, int64_t known, double *out) {
  double largest = values[0], total = 0.0;
  for (int64_t c = 1; c < known; c++) largest = larger(values[c], largest);
  for (int64_t c = 0; c < known; c += LANES)
    store4(out + c, exp4(load4(values + c) - all4(largest)));
  for (int64_t c = 0; c < known; c++) total += out[c];
  scale_all(out, 1.0 / total, padded(known));
}

int64_t rival_of(const lesson *at) {
  int64_t rival = -1;
  for (int64_t c = 0; c < at->known; c++)
    if (c != at->code && (rival < 0 || at->values[c] > at->values[rival])) rival = c;
  return rival;
}

static void descend_hinge(lesson *at) {
  double *values = at->values;
  int64_t rival = rival_of(at);
  int wrong = rival >= 0 && 1.0 + values[rival] - values[at->code] > 0.0;
  fill(values, 0.0, at->known);
  if (!wrong) return;
  values[at->code] = 1.0;
  values[rival] = -1.0;
}

void descend(lesson *at, int logistic) {
  double *values = at->values;
  if (!at->how->regression && !logistic) {
    descend_hinge(at);
    return;
  }
  if (logistic) softmax(values, at->known, values);
  for (int64_t c = 0; c < at->known; c++) values[c] = wanted_of(at, c) - values[c];
}

/* Turn decision values, a line a row, into probabilities at a state's β. */
KT_API int64_t kt_chances(const vec *sums, mat *values) {
  arena scratch = {0};
  int64_t known = values->columns;
  double *line = NULL, *chances = NULL;
  for (int placed = 0; placed < 2; placed++) {
    line = reals(&scratch, padded(known));
    chances = reals(&scratch, padded(known));
    if (!placed && !take_block(&scratch)) return KT_NO_MEMORY;
  }
  for (int64_t n = 0; n < values->rows && known > 0; n++) {
    copy(line, row_of(values, n), known);
    temper_values(sums->at[TEMPER], line, known, chances);
    copy(row_of(values, n), chances, known);
  }
  give_back(&scratch);
  return KT_DONE;
}

/* Turn decision values of regression, a line a row, into targets. */
KT_API int64_t kt_targets(const mode *how, const vec *sums, mat *values) {
  lesson at = {.how = how, .sums = sums->at};
  set_units(&at);
  for (int64_t n = 0; n < values->rows; n++)
    for (int64_t c = 0; c < values->columns; c++)
      row_of(values, n)[c] = fma(at.unit, row_of(values, n)[c], at.centre);
  return KT_DONE;
}

/* Compare predictions with labels that came late. */
KT_API int64_t kt_mark_rows(const mode *how, vec *sums, ints *counts, const coded *labels,
                            predicted *out) {
  lesson at = {.how = how, .labels = labels, .out = out, .sums = sums->at, .counts = counts->at};
  for (at.n = 0; at.n < out->valid.size; at.n++) mark_row(&at);
  return KT_DONE;
}
