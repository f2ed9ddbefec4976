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
    int64_t epoch;        /* steps of each member in an epoch that is told; 0: none is */
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
    /* What a case has of these: */
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

/* ---- roofline ---------------------------------------------------------------------------- */

/* --ops: an exit status. */
int speed_roofline(const speed_opts *opts, const speed_case *which, const sw_exec_opts *exec);

#endif
