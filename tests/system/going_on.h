/* Trainings that are interrupted and go on, by the program: their files lie in one folder, and
 * what they come to is compared as a whole. */
#ifndef SW_TESTS_GOING_ON_H
#define SW_TESTS_GOING_ON_H

#include "tests/system/program.h"

/* An empty folder for the files of this test, called `name`. */
void going_new_folder(const char *name);
/* A path in it. Valid until the sixteenth next call. */
const char *going_at(const char *name);
bool going_exists(const char *name);
void going_put(const char *name, const char *text);
/* Both are there with the same bytes. */
bool going_same_file(const char *a, const char *b);
void going_copy(const char *from, const char *to);

/* Run it by these words; "@" stands for the folder. */
const sw_outcome *going_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, begun: for sw_process_wait(.., "going", ..). */
pid_t going_start(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The results of a training: P (parameters), B (the best), M.jsonl and the result. */
typedef struct {
    char *params, *best, *metrics; /* the last without times */
    size_t n_params, n_best;
    char result[1500]; /* the members that tell the same of any run with the same numbers */
    double best_step, steps;
} going_end;
/* Read from the folder; `out` is the result on standard output. */
going_end going_read(const char *out);
void going_free(going_end *end);
/* A failed test names the first that differs. */
void going_equal(const going_end *a, const going_end *b, const char *what);
/* Remove P, B and M.jsonl. */
void going_clear(void);

/* The step of a checkpoint in the folder, as `stepwell info` tells it; -1: it tells none. */
double going_step(const char *name);

#endif
