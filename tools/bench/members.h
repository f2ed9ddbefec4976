/* Perceptrons in-h1-h2-out with Adam, as members of one shape; and LeNet5. */
#ifndef STEPWELL_BENCH_MEMBERS_H
#define STEPWELL_BENCH_MEMBERS_H

#include "tools/bench/bench.h"

/* Widths of a perceptron from its input to its logits. */
typedef struct {
    int64_t in, h1, h2, out;
} members_widths;
#define MEMBERS_SMALL ((members_widths){49, 64, 24, 10})

typedef struct {
    sw_model *model;
    sw_linear fc[3];
    sw_optimizer *adam;
} members_net;

/* A group of equal perceptrons, and one batch that all of them read. It may not move. */
typedef struct {
    members_net shape;
    sw_members *group;
    sw_member *members;
    int64_t n;
    sw_array inputs[2];
} members_group;

/* A step with cross-entropy and Adam; `user` is a members_net. */
void members_step(sw_ctx *ctx, void *user);
SW_MUST_USE sw_status members_declare(members_net *net, members_widths widths);

/* Shape, group and n members with seeds from `seed` on, each on so many threads; after a
 * failure destroy it too. */
SW_MUST_USE sw_status members_group_make(members_group *g, sw_exec *exec, members_widths widths,
                                         int64_t n, uint64_t seed, int64_t threads);
/* Its batch. */
SW_MUST_USE sw_status members_group_batch(members_group *g, members_widths widths,
                                          int64_t batch);
/* The arguments of a run; the run. */
sw_members_args members_group_args(const members_group *g, uint64_t step);
SW_MUST_USE sw_status members_group_run(members_group *g, uint64_t step);
void members_group_destroy(members_group *g);

/* n LeNet5 of digits, on so many threads each. It may not move; after a failure destroy it too.
 */
typedef struct {
    tool_net net;
    sw_members *group;
    sw_member *members;
    int64_t n;
} members_lenets;
SW_MUST_USE sw_status members_lenets_make(members_lenets *lenets, sw_exec *exec, int64_t n,
                                          int64_t threads);
void members_lenets_destroy(members_lenets *lenets);

#endif
