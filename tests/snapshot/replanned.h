/* Shared by the tests of a replan: files that are planned again, and a training. */
#ifndef SW_TESTS_REPLANNED_H
#define SW_TESTS_REPLANNED_H

#include "profiler/inspect/replan/replan.h"
#include "tests/snapshot/plain_allocator.h"

/* The first device of a file, planned again: replan_free gives it back; a failure leaves
 * nothing. */
sw_status replanned(replan *r, const char *path);
/* The same, of a file or of a file of this JSON; a failure ends the test. They go when it
 * ends. */
const replan *planned(const char *path);
const replan *planned_json(const char *json);
/* Such a file; in the text ' stands for ". */
const char *put_json(const char *name, const char *json);
/* Events of a trace as JSON, from "action address bytes more; ...": more members, or none. */
const char *made_events(const char *events);
/* All of it, printed as text and JSON one after the other; goes when the test ends. */
const char *planned_text(const replan *r);

typedef struct {
    int layers, steps, frames;
    uint64_t weight, activation; /* bytes of each layer */
    uint64_t warm;               /* bytes that the first step alone takes */
} plain_training;

/* Weights and moments for good; forward keeps an activation of each layer, backward makes a
 * gradient of each and lets the activation go. */
void plain_train(plain_allocator *p, const plain_training *t);

/* The status of `stepwell report` with these words; what it says is in said.txt. */
int replan_command(const char *format, ...) SW_PRINTF(1, 2);
bool replan_said(const char *pattern);

#endif
