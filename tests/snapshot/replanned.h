/* Shared by the tests of a replan: files that are planned again, and a training. */
#ifndef SW_TESTS_REPLANNED_H
#define SW_TESTS_REPLANNED_H

#include "profiler/inspect/replan/replan.h"
#include "tests/snapshot/plain_allocator.h"

/* A device of a file, planned again: replan_free gives it back; a failure leaves nothing. */
sw_status replanned_device(replan *r, const char *path, int64_t device);
sw_status replanned(replan *r, const char *path); /* device 0 */
/* A file of this JSON, planned again; a failure fails the test. */
void replanned_json(replan *r, const char *json);
/* All of it, printed as text and JSON one after the other; free it. */
char *replanned_text(const replan *r);

typedef struct {
    int layers, steps, frames;
    uint64_t weight, activation; /* bytes of each layer */
    uint64_t warm;               /* bytes that the first step alone takes */
} plain_training;

/* Weights and moments for good; forward keeps an activation of each layer, backward makes a
 * gradient of each and lets the activation go. */
void plain_train(plain_allocator *p, const plain_training *t);

/* The status of `stepwell report` with these words; what it says is in said.txt. */
int replan_command(const char *words);
bool replan_said(const char *pattern);

#endif
