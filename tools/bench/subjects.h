/* Whole training steps that benches time: models of the table at sizes that are measured, alone
 * or as members of one shape, over one batch of random numbers, a loader or a feed; and a
 * generation of evolution strategies. */
#pragma once

#include "tools/bench/bench.h"

/* Data for n arrays whose types and shapes are set: numbers in -1..1 for F32, ids below `ids`
 * for I32 and for the bytes of all but the first, any bytes for the first. After a failure free
 * them too. */
SW_MUST_USE sw_status bench_batch_make(sw_array *arrays, int n, int64_t ids);
void bench_batch_free(sw_array *arrays, int n);

enum { BENCH_OF_SPEED = 1, BENCH_OF_DEVICE = 2 };
typedef enum { BENCH_BATCH, BENCH_LOADER, BENCH_FEED } bench_source;

typedef struct {
    const char *name, *about, *model, *optimizer;
    int lists; /* bits: the benches that have it */
    float momentum;
    bool release; /* updates right after their gradients, as stepwell train has them */
    bool digits;  /* images and options of `stepwell train` without data */
    bool plain;   /* a step without accuracy */
    bool es; /* a generation: its batch is evaluations under low-rank noise in pairs, then comes
                the update */
    bench_source source;
    int64_t batch, steps;  /* where none are given */
    int64_t members;       /* that a step trains; 0: it is one model */
    int64_t slice, slices; /* of a feed: steps of a member in a row, and how often in a step */
    int64_t epoch;         /* steps of each member in an epoch that is reported; 0: none is */
    int64_t layers, width, heads, context, classes, side, channels,
        features; /* 0: not its own */
    cli_list hidden;
} bench_case;
/* The cases of a bench, NULL past the last; one of them by its name. */
const bench_case *bench_case_at(int list, int i);
const bench_case *bench_case_find(int list, const char *name);

/* It may not move. */
typedef struct {
    bench_case of;
    int64_t batch, threads;
    sw_exec *exec;
    tool_net net;
    sw_array own[2];
    const sw_array *inputs;
    sw_dataset *set;
    sw_loader *loader;
    sw_feed *feed;
    sw_members *group;
    sw_member *members;
    sw_es *es;
    int64_t turn;
    uint64_t step, epoch;
} bench_subject;

/* All that a step needs, and two steps, so that the next one is warm; after a failure destroy
 * it too. */
SW_MUST_USE sw_status bench_subject_make(bench_subject *s, const bench_case *which,
                                         int64_t batch, const sw_exec_opts *exec);
SW_MUST_USE sw_status bench_subject_step(bench_subject *s);
sw_run_args bench_subject_args(bench_subject *s); /* of the next step of one model */
void bench_subject_destroy(bench_subject *s);
/* Bytes that a step has room for: models, arenas and batches. */
SW_MUST_USE sw_status bench_subject_bytes(const bench_subject *s, size_t *out);
