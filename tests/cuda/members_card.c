#include "tests/cuda/members_card.h"
#include <stdlib.h>
#include <string.h>

sw_exec *member_pool_exec(const char *device, sw_budget *budget, bool graphs)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .device = device, .budget = budget,
                             .no_graphs = !graphs && device != NULL));
}

static void end_budget(void *budget)
{
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    sw_budget_destroy(budget);
}

sw_budget *member_pool_budget(size_t bytes)
{
    sw_budget *budget = NULL;
    OK(sw_budget_create(&budget, bytes));
    CU_ASSERT_PTR_NOT_NULL_FATAL(budget);
    sw_after(end_budget, budget);
    return budget;
}

uint64_t member_pool_seed(int k)
{
    return (uint64_t)(k % 5) + 1;
}

float member_pool_factor(int k)
{
    return k % 2 == 0 ? 1.0f : 0.5f;
}

member_pool member_pool_on(const char *device, sw_budget *budget, bool graphs)
{
    member_pool g = {.device = device, .budget = budget, .shape = small_new(HIDDEN)};
    g.exec = member_pool_exec(device, budget, graphs);
    g.all = small_group(g.exec, g.shape, NULL);
    for (int k = 0; k < N; k++) {
        OK(sw_member_new(&g.member[k], g.all, member_pool_seed(k)));
        OK(sw_member_knob_set(g.member[k], g.shape->factor, member_pool_factor(k)));
    }
    return g;
}

sw_members_args member_pool_args(const sw_member *members, size_t n, const sw_feed *feed)
{
    return SW_OPTS(sw_members_args, .members = members, .n = n, .feed = feed, .mode = SW_TRAIN,
                   .own_steps = 1, .steps = STEPS);
}

const sw_feed *member_pool_feed(void)
{
    return small_feed(small_data(SAMPLES), ROWS, 0);
}

/* ---- bytes ------------------------------------------------------------------------------- */

unsigned char *member_pool_packed(sw_member member)
{
    const size_t bytes = sw_members_packed_bytes(member.of);
    unsigned char *to = sw_block(bytes);
    OK(sw_member_pack(member, to, bytes));
    return to;
}

bool member_pool_same(sw_member a, sw_member b)
{
    unsigned char *x = member_pool_packed(a), *y = member_pool_packed(b);
    return memcmp(x + MEMBER_POOL_HEAD, y + MEMBER_POOL_HEAD, a.of->stride) == 0;
}
