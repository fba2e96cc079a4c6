/* What crosses from Python, written from its named tuples by `python -m tests.layouts`. */
#ifndef KT_LAYOUTS_H
#define KT_LAYOUTS_H

#include "shapes.h"

/* A structure is as many members of eight bytes as Python packs. */
#define KT_WORDS(type, many) \
  _Static_assert(sizeof(type) == 8 * (many), #type " is not as Python packs it")

/* Kernel: A kernel with its parameters resolved to numbers, as the compiled loops take it. */
typedef struct {
  int64_t code;
  double inverse_gamma;
  int64_t degree;
  double offset;
} kernel;
KT_WORDS(kernel, 4);

/* Outputs: Arrays that a call fills, one row each, as `Features` documents them; `number` is
`index`. */
typedef struct {
  flags valid;
  ints number;
  mat z;
  vec loss;
  vec novelty;
  flags informative;
  ints evicted;
  flags initial;
  mat q;
  mat s;
  mat x;
} outputs;
KT_WORDS(outputs, 26);

/* OkfebSettings: A spec as numbers; rule, step, policy and censor are places in the spec's choices.
*/
typedef struct {
  int64_t learn;
  double ridge;
  int64_t rule;
  int64_t step;
  double step_size;
  int64_t policy;
  double forgetting;
  int64_t censor;
  double threshold;
  double admitted;
  int64_t start_rows;
  double clip;
  int64_t scale_window;
} okfeb_settings;
KT_WORDS(okfeb_settings, 13);

/* SubspaceState: State of a model; every array keeps its shape for the model's whole life. */
typedef struct {
  mat stored;
  mat factor;
  mat image;
  mat gram;
  mat frame;
  mat seeds;
  vec recency;
  ints born;
  vec shift;
  vec scale;
  vec bandwidth;
  vec recent;
  vec reals;
  ints counts;
} okfeb_state;
KT_WORDS(okfeb_state, 34);

/* CovarianceSettings: A spec as numbers. */
typedef struct {
  int64_t learn;
  int64_t aligned;
  int64_t admission;
  double threshold;
  double admitted;
  double fading;
  int64_t timed;
  double rank_factor;
  int64_t period;
  double clip;
  int64_t scale_window;
} covariance_settings;
KT_WORDS(covariance_settings, 11);

/* CovarianceState: State of a model; every array keeps its shape for the model's whole life. */
typedef struct {
  mat support;
  mat factor;
  mat gram;
  mat image;
  mat through;
  mat energy;
  mat weights;
  mat square;
  mat whitener;
  mat frame;
  ints born;
  vec shift;
  vec scale;
  vec bandwidth;
  vec recent;
  ints key;
  vec reals;
  ints counts;
  mat rivals;
  ints rival_counts;
  vec choice;
} covariance_state;
KT_WORDS(covariance_state, 53);

/* OanaSettings: A spec as numbers; `threshold` is infinite where landmarks stay where they are. */
typedef struct {
  int64_t learn;
  int64_t aligned;
  double threshold;
  double clip;
  int64_t scale_window;
} oana_settings;
KT_WORDS(oana_settings, 5);

/* OANAState: State of a model; every array keeps its shape for the model's whole life. */
typedef struct {
  mat support;
  mat factor;
  mat gram;
  mat image;
  mat frame;
  ints members;
  ints born;
  vec shift;
  vec scale;
  vec bandwidth;
  vec recent;
  vec reals;
  ints counts;
} oana_state;
KT_WORDS(oana_state, 31);

/* RowsSettings: A spec as numbers, as the compiled loop takes it. */
typedef struct {
  int64_t learn;
  double clip;
  int64_t scale_window;
} rows_settings;
KT_WORDS(rows_settings, 3);

/* RowsState: State of a model: 8(2D + 9) bytes, with a moving scale 8(4D + 2) more. */
typedef struct {
  vec shift;
  vec scale;
  vec reals;
  ints counts;
} rows_state;
KT_WORDS(rows_state, 8);

/* DoublySettings: A spec as numbers, as the compiled loops take it. */
typedef struct {
  int64_t learn;
  int64_t aligned;
  double ridge;
  int64_t form;
  double step_size;
  double step_decay;
  int64_t row_batch;
  double clip;
} doubly_settings;
KT_WORDS(doubly_settings, 8);

/* DoublyState: State of a model; every array keeps its shape for the model's whole life. */
typedef struct {
  mat factor;
  mat solver;
  mat solver_t;
  mat mapping;
  mat moment;
  mat cross;
  vec shift;
  vec scale;
  vec bandwidth;
  vec recent;
  vec reals;
  ints counts;
} doubly_state;
KT_WORDS(doubly_state, 30);

/* PairState: State of a model of two views; every array keeps its shape for the model's whole life.
*/
typedef struct {
  cube factor;
  cube solver;
  cube solver_t;
  cube moment;
  mat link;
  cube cross;
  cube own;
  cube gram;
  vec shift;
  vec scale;
  vec bandwidth;
  vec recent;
  vec reals;
  ints counts;
} pair_state;
KT_WORDS(pair_state, 43);

/* FeatureMap: A kernel's random features with their parameters resolved to numbers. */
typedef struct {
  int64_t code;
  double inverse_gamma;
  int64_t degree;
  double root_offset;
  words key;
} feature_map;
KT_WORDS(feature_map, 6);

/* WindowState: State of a moving window; the last of N places is the newest row's. */
typedef struct {
  mat rows;
  mat gram;
  mat cross;
  mat basis;
  mat features;
  vec shares;
  vec residuals;
  vec own;
  ints counts;
} window_state;
KT_WORDS(window_state, 23);

/* MovingMismatch: What a moving window says after each of n rows. */
typedef struct {
  vec value;
  vec residual;
  vec kappa;
} moving_mismatch;
KT_WORDS(moving_mismatch, 6);

/* DriftSettings: A spec as numbers; `direction` is a place in `DIRECTIONS`. */
typedef struct {
  int64_t block;
  double threshold;
  double delta;
  double clip;
  double floor;
  int64_t memory;
  int64_t settle;
  int64_t direction;
} drift_settings;
KT_WORDS(drift_settings, 8);

/* DriftState: State of a model's detector: 8(block + 19) bytes, however long the stream. */
typedef struct {
  vec pending;
  vec reals;
  ints counts;
} drift_state;
KT_WORDS(drift_state, 6);

/* Memory: What goes on from period to period. */
typedef struct {
  mat means;
  vec last;
  ints counts;
} period_memory;
KT_WORDS(period_memory, 7);

/* PeriodSums: The sums of K periods. */
typedef struct {
  ints rows;
  mat repeats;
  mat mean;
  mat comoments;
} period_sums;
KT_WORDS(period_sums, 11);

/* RowSparseSettings: Which steps the rows take: PROXIMAL or EXACT; η and λ. */
typedef struct {
  int64_t method;
  double penalty;
  double ridge;
} sweep_settings;
KT_WORDS(sweep_settings, 3);

/* Descent: Where a descent stands; every sweep writes to it. */
typedef struct {
  mat gram;
  mat factor;
  mat image;
  mat q;
} descent;
KT_WORDS(descent, 12);

/* Mode: What a call does with each row. */
typedef struct {
  int64_t predict;
  int64_t learn;
  int64_t regression;
  int64_t counted;
  int64_t known;
  int64_t units;
  double coverage;
  int64_t balanced;
  mat costs;
} mode;
KT_WORDS(mode, 11);

/* Coded: Labels as numbers. */
typedef struct {
  ints codes;
  vec targets;
  vec weights;
} coded;
KT_WORDS(coded, 6);

/* Predicted: Arrays that a call fills, one row each, as `Predictions` documents them. */
typedef struct {
  flags valid;
  ints code;
  vec score;
  vec margin;
  vec value;
  flags scored;
  flags correct;
  vec error;
  vec lower;
  vec upper;
  int_table members;
} predicted;
KT_WORDS(predicted, 23);

/* LinearState: State of a linear learner; see `LearnerState` for what all states hold. */
typedef struct {
  mat weights;
  mat memory;
  vec sums;
  ints counts;
} linear_state;
KT_WORDS(linear_state, 10);

/* GradientSettings: A `GradientSpec` as numbers. */
typedef struct {
  double ridge;
  double step_size;
  double decay_rows;
} gradient_settings;
KT_WORDS(gradient_settings, 3);

/* LMSSettings: A spec as numbers. */
typedef struct {
  double ridge;
  double step_size;
  double decay_rows;
  int64_t normalised;
} lms_settings;
KT_WORDS(lms_settings, 4);

/* PASettings: A spec as numbers. */
typedef struct {
  int64_t variant;
  double aggressiveness;
  double insensitivity;
} pa_settings;
KT_WORDS(pa_settings, 3);

/* PegasosSettings: A spec as numbers. */
typedef struct {
  double ridge;
  int64_t project;
} pegasos_settings;
KT_WORDS(pegasos_settings, 2);

/* RidgeSettings: A spec as numbers. */
typedef struct {
  double ridge;
  double forgetting;
} ridge_settings;
KT_WORDS(ridge_settings, 2);

/* DictionaryState: State of a learner that keeps rows; see `LearnerState` for what all states hold.
*/
typedef struct {
  mat rows;
  mat weights;
  mat root;
  vec diagonal;
  mat early;
  vec bandwidth;
  vec sums;
  ints counts;
} dictionary_state;
KT_WORDS(dictionary_state, 20);

/* BSGDSettings: A spec as numbers. */
typedef struct {
  double ridge;
  double step_size;
  double decay_rows;
  int64_t maintenance;
  int64_t budget;
  int64_t warmup;
} bsgd_settings;
KT_WORDS(bsgd_settings, 6);

/* POLKSettings: A spec as numbers. */
typedef struct {
  double ridge;
  double step_size;
  double decay_rows;
  double parsimony;
  int64_t logistic;
  int64_t batch;
  int64_t budget;
  int64_t warmup;
} polk_settings;
KT_WORDS(polk_settings, 8);

/* FOGDSettings: A spec as numbers. */
typedef struct {
  double ridge;
  double step_size;
  double decay_rows;
  int64_t logistic;
  int64_t warmup;
} fogd_settings;
KT_WORDS(fogd_settings, 5);

/* FOGDState: State of FOGD; see `LearnerState` for what all states hold. */
typedef struct {
  mat weights;
  mat early;
  vec bandwidth;
  vec sums;
  ints counts;
} fogd_state;
KT_WORDS(fogd_state, 12);

/* NOLANASettings: A spec as numbers; `threshold` is infinite where landmarks stay where they are.
*/
typedef struct {
  double ridge;
  double step_size;
  double decay_rows;
  double refit_ridge;
  double threshold;
  int64_t logistic;
  int64_t moves_first;
  int64_t warmup;
} nolana_settings;
KT_WORDS(nolana_settings, 8);

/* NOLANAState: State of NOLANA; see `LearnerState` for what all states hold. */
typedef struct {
  mat weights;
  mat support;
  mat factor;
  mat gram;
  mat image;
  ints members;
  mat early;
  vec bandwidth;
  vec sums;
  ints counts;
} nolana_state;
KT_WORDS(nolana_state, 26);

/* ReferenceSettings: A spec as numbers. */
typedef struct {
  int64_t lags;
  double ridge;
  double drift;
  double false_alarms;
  int64_t per_rows;
  int64_t per_time;
  int64_t memory;
  int64_t rows;
  int64_t fit_rows;
  int64_t until;
  int64_t gated;
  int64_t moves;
  int64_t memory_time;
  int64_t season;
  int64_t days_off;
  int64_t accept_after;
  int64_t gap;
  int64_t window;
  int64_t mode;
  int64_t learn;
} reference_settings;
KT_WORDS(reference_settings, 20);

/* Tables: The part of a reference's state that its own row loops work on (native/reference.c). */
typedef struct {
  vec shift;
  vec scale;
  mat rows;
  mat memory;
  flags good;
  flags fresh;
  vec mean;
  mat scatter;
  mat whitener;
  vec unseen;
  mat scores;
  mat calibration;
  mat measured;
  vec peaks;
  vec blame;
  mat sides;
  vec stuck;
  vec previous;
  vec recent;
  ints runs;
  ints longest;
  ints repeated;
  vec reals;
  ints counts;
  ints times;
  mat tally;
  mat heights;
  mat lasting;
  mat evidences;
  mat hours;
  vec watched;
  mat waiting;
  int_table lows;
  ints causes;
  vec codes;
  int_table modes;
  vec units;
  flags turned;
  vec former;
  ints compared;
  int_table episodes;
  mat episode_sums;
  mat shapes;
  mat before;
  ints left_out;
  mat ranges;
  mat rest;
} reference_state;
KT_WORDS(reference_state, 116);

/* EpisodeRoom: Arrays that a call fills, one entry an episode that was opened, changed or closed.
*/
typedef struct {
  ints number;
  ints start;
  ints opened;
  ints row;
  flags closed;
  vec peak;
  vec surprise;
  vec early;
  ints last;
  ints surprises;
  ints stuck_rows;
  int_table times;
  mat blame;
  mat sides;
  mat stuck;
  int_table change;
} reference_episodes;
KT_WORDS(reference_episodes, 37);

/* AutoSettings: A spec as numbers, and how many inputs are channels. */
typedef struct {
  double ridge;
  double share;
  double inverse_gamma;
  int64_t last_label;
  vec memories;
  int64_t window;
  int64_t channels;
} auto_settings;
KT_WORDS(auto_settings, 8);

/* AutoState: State of the learner; see `LearnerState` for what all states hold. */
typedef struct {
  mat factors;
  mat pivots;
  mat aims;
  mat landmarks;
  mat chase;
  mat tempers;
  vec shares;
  mat blending;
  vec blend;
  vec seen;
  mat following;
  vec scales;
  ints fern_channels;
  vec fern_thresholds;
  mat fern_weights;
  vec fern_squares;
  window recent;
  vec recent_labels;
  mat tally;
  mat course;
  vec reals;
  vec sums;
  ints counts;
} auto_state;
KT_WORDS(auto_state, 58);

#endif
