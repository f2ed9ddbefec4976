/* Training programs for the witnesses: an exec, a model and a batch of made-up digits. */
#ifndef SW_TESTS_WITNESS_FIXTURE_H
#define SW_TESTS_WITNESS_FIXTURE_H

#include "runtime/verify/witness_internal.h"
#include "runtime/stepwell.h"
#include "tests/support/made.h"

typedef enum { NET_MLP, NET_LENET5, NET_SMALL, NET_PROBES } net_kind;

typedef struct {
    net_kind net;
    int64_t batch;
    const char *optimizer; /* "sgd", "momentum", "nesterov", "adam", "adamw", "clip", "kept",
                              "release" */
    int threads, no_inplace;
    const char *isa; /* NULL: the best */
    int shares;      /* runs note births and deaths */
} fixture_opts;

typedef struct {
    fixture_opts opts;
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *optimizer;
    sw_knob clip;
    sw_conv2d conv[2];
    sw_linear linear[3];
    unsigned char *images, *labels;
    sw_array inputs[2];
    sw_run_args args;
    unsigned char *kept; /* copy of the model arena and the inputs */
} fixture;

/* NULL after a failed assert. Ended by fixture_destroy, also registered with sw_after. */
fixture *fixture_create(const fixture_opts *opts);
/* Keep the bits of model and inputs, and compare with them. */
void fixture_keep(fixture *f);
bool fixture_is_kept(const fixture *f);
/* A copy of the program that a test may damage. */
swi_program *fixture_clone(fixture *f);

#endif
