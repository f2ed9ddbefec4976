/* Groups of small members on the card that is not there (fake/), or on the CPU. */
#ifndef SW_TESTS_MEMBERS_CARD_H
#define SW_TESTS_MEMBERS_CARD_H

#include "runtime/population/members_internal.h"
#include "tests/cuda/fake_card.h"
#include "tests/population/small_net.h"

enum { N = 7, HIDDEN = 10, ROWS = 8, SAMPLES = 20, STEPS = 5 };
enum { MEMBER_POOL_HEAD = 64 }; /* of a packed member, before its range */

typedef struct {
    const char *device;
    sw_budget *budget;
    sw_exec *exec;
    small *shape;
    sw_members *all;
    sw_member member[N];
} member_pool;

/* device NULL: the CPU. All end when the test ends, or before the next card. */
sw_exec *member_pool_exec(const char *device, sw_budget *budget, bool graphs);
sw_budget *member_pool_budget(size_t bytes);
/* Seed and knob of member k. */
uint64_t member_pool_seed(int k);
float member_pool_factor(int k);
member_pool member_pool_on(const char *device, sw_budget *budget, bool graphs);

/* SAMPLES in batches of ROWS, the last one smaller; STEPS of training with it. */
const sw_feed *member_pool_feed(void);
sw_members_args member_pool_args(const sw_member *members, size_t n, const sw_feed *feed);

/* The bytes of a member, until the test ends; have two the same but for seed and progress? */
unsigned char *member_pool_packed(sw_member member);
bool member_pool_same(sw_member a, sw_member b);

#endif
