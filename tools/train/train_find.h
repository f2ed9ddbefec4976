/* `stepwell train --find-lr`: the rate rises from step to step, and the losses say which one is
 * good. */
#pragma once

#include "profiler/record/json.h"
#include "tools/cli/cli.h"

struct train_opts;

typedef struct {
    double rate, loss, smoothed;
} train_find_point;

typedef struct train_find {
    train_find_point *at; /* room for `steps` */
    uint64_t n, steps;
    double from, to;
    uint64_t reach; /* a smoothed loss is the mean of so many on both sides, and its own */
    double lowest;  /* mean of as many losses in a row, so far */
    bool over;      /* the loss went up, or is no number any more */
} train_find;

/* Results of the points; rates are NaN where the loss never fell. */
typedef struct {
    double steepest; /* where the smoothed loss falls fastest */
    double tenth;    /* a tenth of the rate with the lowest smoothed loss */
    double lowest_rate, lowest_loss;
} train_found;

#define TRAIN_FIND_STEPS 100    /* without --steps */
#define TRAIN_FIND_MOST 1000000 /* steps */

/* CLI_GO, or CLI_USAGE for what it excludes or lacks. */
int train_find_check(struct train_opts *opts);
SW_MUST_USE sw_status train_find_create(train_find **out, const struct train_opts *opts,
                                        uint64_t steps);
void train_find_destroy(train_find *find); /* NULL is fine */
/* Of step 0, 1, ... */
double train_find_rate(const train_find *find, uint64_t step);
/* The loss of the next step. */
void train_find_add(train_find *find, double rate, double loss);
train_found train_find_result(const train_find *find);

/* The member "find_lr" of an open object; lines for people; the picture of --plot. */
void train_find_put(sw_json *json, const train_find *find);
void train_find_print(const train_find *find);
SW_MUST_USE sw_status train_find_plot(const train_find *find, const char *path,
                                      const char *title);
