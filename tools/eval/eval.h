/* Between the files of `stepwell eval` and `stepwell predict`: options, the runs, what comes
 * out. */
#ifndef STEPWELL_EVAL_H
#define STEPWELL_EVAL_H

#include "alloc/base/sys.h"
#include "tools/job/result.h"

/* In the order of eval_words and predict_words. */
typedef enum { EVAL_TEXT, EVAL_JSON, EVAL_CSV, EVAL_JSONL, EVAL_NPY } eval_format;

typedef struct {
    job_opts job;
    const char *load, *part, *out, *word; /* word: of --format; NULL: not given */
    eval_format format;
    bool json, quiet;
} eval_opts;

/* Observations of a program. */
typedef struct {
    uint64_t runs;
    sw_phase_info phase[SW_PHASES]; /* the highest peak of all runs, the end of the last */
    size_t peak_bytes;
} eval_measured;

/* Confusion is counted up to so many classes: 128 MiB. */
#define EVAL_COUNTED 4096

typedef struct {
    eval_opts opts;
    job job;
    sw_loader *loader;
    eval_measured measured[2]; /* of JOB_EVAL and JOB_EVAL_LAST */
    uint64_t *counts;          /* (classes, classes); NULL: nothing is counted */
    size_t counts_bytes;
    double loss;         /* mean over `rows`; not of predict */
    int64_t right, rows; /* right: of classes */
    uint64_t warm_runs, allocations, wall_ns;
} evaluation;

/* All batches, in the order of the samples. `take` is called after each run with the inputs,
 * and the scores (rows, n); scores is NULL where the model has none. SW_STOPPED after an
 * interrupt. */
typedef sw_status eval_take(evaluation *e, const sw_array *inputs, const sw_array *scores,
                            void *to);
SW_MUST_USE sw_status eval_all(evaluation *e, eval_take *take, void *to);

bool eval_has_classes(const evaluation *e);
bool eval_is_language(const evaluation *e);
/* The name of class k, cleaned for people: its number where it has none. Returns `to`. */
#define EVAL_NAME_BYTES 100
char *eval_class_name(const evaluation *e, int64_t k, char *to);
/* The program that most samples went through. */
const eval_measured *eval_main(const evaluation *e);

/* A text that goes to a file piece by piece. The first error stays. */
typedef struct {
    sw_file *file;
    sw_status status;
    size_t used;
    char bytes[1 << 14];
} eval_out;
void eval_put(eval_out *out, const void *bytes, size_t n);
void eval_print(eval_out *out, const char *format, ...) SW_PRINTF(2, 3);
/* Have `write` fill the file of --out, or standard output: a file is there whole or not at all.
 * The status of the first failure. */
SW_MUST_USE sw_status eval_write(const char *path,
                                 sw_status (*write)(void *context, eval_out *out),
                                 void *context);

/* The result of eval. */
void eval_print_text(const evaluation *e);
void eval_put_json(sw_json *json, evaluation *e);
void eval_put_csv(eval_out *out, const evaluation *e);

/* All rows of predict, in the format of the options. */
SW_MUST_USE sw_status predict_write(void *evaluation, eval_out *out);

#endif
