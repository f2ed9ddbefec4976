/* Groups of small members on the card that is not there (fake/), or on the CPU. */
#ifndef SW_TESTS_MEMBERS_CARD_H
#define SW_TESTS_MEMBERS_CARD_H

#include "runtime/population/members_internal.h"
#include "tests/cuda/fake_card.h"
#include "tests/population/small_net.h"

enum { N = 7, HIDDEN = 10, ROWS = 8, SAMPLES = 20, STEPS = 5 };
enum { CREW_HEAD = 64 }; /* of a packed member, in front of its range */

/* A new card, whose streams are late as `lazy` says; at the end nothing of it is left, and
 * nothing was wrong. */
void crew_new_card(const sw_fake_card *card, uint64_t lazy);
void crew_end_card(void);

typedef struct {
    const char *device;
    sw_budget *budget;
    sw_exec *exec;
    small *shape;
    sw_members *all;
    sw_member member[N];
} crew;

/* device NULL: the CPU. The caller destroys what these make. */
sw_exec *crew_exec(const char *device, sw_budget *budget, bool graphs);
sw_members *crew_members(sw_exec *exec, small *shape);
/* Seed and knob of member k. */
uint64_t crew_seed(int k);
float crew_factor(int k);
crew crew_on(const char *device, sw_budget *budget, bool graphs);
void crew_end(crew *g);

/* SAMPLES in batches of ROWS, the last one smaller; STEPS of training with it. */
const sw_feed *crew_feed(void);
sw_members_args crew_args(const sw_member *members, size_t n, const sw_feed *feed);

/* The bytes of a member, to be freed; have two the same but for seed and progress? */
unsigned char *crew_packed(sw_member member);
bool crew_same(sw_member a, sw_member b);

#endif
