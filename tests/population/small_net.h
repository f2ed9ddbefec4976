/* A small net with dropout, optimizer state, a state and a knob, which learns from vectors by
 * feeds; groups of it, and the same net trained alone. */
#ifndef SW_TESTS_SMALL_NET_H
#define SW_TESTS_SMALL_NET_H

#include "tests/runtime/nets.h"

enum { SMALL_WIDTH = 6 };

typedef struct {
    sw_model *model;
    sw_linear f1, f2;
    sw_param seen; /* sum of all losses */
    sw_knob factor;
    sw_optimizer *opt;
} small;

/* Its name is small and the hidden width. All are destroyed when the test ends, the last one
 * first. */
small *small_new(int64_t hidden);
void small_step(sw_ctx *ctx, void *user);
sw_dataset *small_data(int64_t n);
sw_feed *small_feed(const sw_dataset *data, int64_t rows, int drop_last);
sw_exec *small_exec(int threads);
/* opts: all but size, shape, fn and user; NULL: zeros. */
sw_members *small_group(sw_exec *exec, const small *shape, const sw_members_opts *opts);
void small_members(sw_member *out, size_t n, sw_members *of, uint64_t first_seed);

/* Ready with `seed` and trained alone for so many steps by a keyed loader whose seed is
 * `stream`; its last loss, and the sum of all. */
small *small_alone(int64_t hidden, const sw_dataset *data, int64_t rows, int drop_last,
                   uint64_t seed, uint64_t stream, uint64_t steps, double *last, double *sum);
/* Has the member the bytes of the model? The model has the member's afterwards. */
bool small_is(sw_member member, sw_model *model);
/* Check how far it is. */
void small_progress(sw_member member, uint64_t steps, uint64_t batches);
/* Have both members the same bytes? By way of a model of their shape. */
bool small_same(sw_member a, sw_member b);

#endif
