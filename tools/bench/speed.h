/* bench speed: whole training steps of six workloads. */
#ifndef STEPWELL_BENCH_SPEED_H
#define STEPWELL_BENCH_SPEED_H

#include "tools/bench/members.h"
#include "tools/bench/nets.h"

typedef struct {
    const char *model, *isa, *blas;
    int64_t batch, threads, steps, top, width; /* width 0: the workload's */
    bool json, quiet, turns, control, ops;
} speed_opts;

/* ---- workloads --------------------------------------------------------------------------- */

typedef struct speed_subject speed_subject;

typedef struct {
    const char *name, *about;
    int64_t batch, steps; /* where none are given */
    int64_t members;      /* that a step trains; 0: it is one model */
    int64_t runs;         /* of each member in a step */
    int64_t epoch;        /* steps of each member in an epoch that is reported; 0: none is */
    sw_status (*make)(speed_subject *s, const sw_exec_opts *exec);
    sw_status (*step)(speed_subject *s);
    void (*destroy)(speed_subject *s);
    const bench_net_case *net; /* of make_net */
} speed_case;
const speed_case *speed_case_at(int i); /* NULL past the end */

/* One of them; it may not move. */
struct speed_subject {
    const speed_case *of;
    int64_t batch, threads;
    sw_exec *exec;
    bool alone; /* of members: one, as a model of its own */
    /* A case has some of these: */
    bench_net_case sized; /* of make_net, with the width that was asked for */
    bench_net net;
    bench_lenet lenet;
    members_group group;
    members_net one;
    sw_dataset *set;
    sw_feed *feed;
    members_lenets lenets;
    int64_t turn;
    uint64_t step;
};

/* Everything that a step needs, and two steps, so that the next one is warm; after a failure
 * destroy it too. alone: of members make one, as a model. */
SW_MUST_USE sw_status speed_make(speed_subject *s, const speed_case *which,
                                 const speed_opts *opts, bool alone, const sw_exec_opts *exec);
SW_MUST_USE sw_status speed_step(speed_subject *s);
void speed_destroy(speed_subject *s);
/* Bytes that a step has room for: models, arenas and batches. */
SW_MUST_USE sw_status speed_bytes(const speed_subject *s, size_t *out);

/* ---- controls ---------------------------------------------------------------------------- */

/* Work of a known kind that takes as long as a step, on the threads of its exec: others would
 * have to wake, and so would these at the next step. */
typedef struct {
    const sw_par *par;
    uint64_t turns; /* of arithmetic, on each thread */
    void *block;
    size_t block_bytes;
    float *x; /* `share` numbers of each thread, whole cache lines */
    size_t bytes;
    int64_t share, lines; /* lines: that each thread reads and writes */
    int64_t at;           /* line of each share that comes next */
} speed_controls;
/* Both of about `ns`; the second over `bytes`. All memory is taken here; free them after a
 * failure, too. */
SW_MUST_USE sw_status speed_controls_make(speed_controls *c, const sw_par *par, size_t bytes,
                                          uint64_t ns);
void speed_controls_free(speed_controls *c);
/* How long each took. */
uint64_t speed_control_arithmetic(speed_controls *c);
uint64_t speed_control_memory(speed_controls *c);

/* ---- roofline ---------------------------------------------------------------------------- */

/* --ops: an exit status. */
int speed_roofline(const speed_opts *opts, const speed_case *which, const sw_exec_opts *exec);

#endif
