/* Members in checkpoints: of several groups with ranges that lie among each other, and that
 * move between a save and the load after it. */
#include "runtime/base/checksum.h"
#include "tests/population/small_net.h"
#include <string.h>

enum { N = 3, ROWS = 8 };

static unsigned char *packed(sw_member member)
{
    const size_t bytes = sw_members_packed_bytes(member.of);
    unsigned char *to = sw_block(bytes);
    OK(sw_member_pack(member, to, bytes));
    return to;
}

static void train(sw_members *of, const sw_member *member, const sw_feed *feed)
{
    const sw_members_args args =
        SW_OPTS(sw_members_args, .members = member, .n = N, .feed = feed, .mode = SW_TRAIN,
                .own_steps = 1, .steps = 2);
    OK(sw_members_run(of, &args));
}

static void ranges_among_each_other_are_kept(void)
{
    if (!swi_checksum_there())
        SW_SKIP("built without libxxhash");
    const sw_feed *feed = small_feed(small_data(20), ROWS, 0);
    for (int no_copy = 0; no_copy < 2; no_copy++) {
        sw_exec *exec = small_exec(2);
        sw_members *of[2] = {small_group(exec, small_new(5), NULL),
                             small_group(exec, small_new(14), NULL)};
        sw_member member[2][N], gone;
        unsigned char *was[2][N];
        sw_checkpoint *c = NULL;
        const sw_checkpoint_opts opts =
            SW_OPTS(sw_checkpoint_opts, .path = sw_temp_path("ranges"), .no_copy = no_copy);
        OK(sw_checkpoint_create(&c, exec, &opts));
        OK(sw_member_new(&gone, of[1], 9));
        for (int k = 0; k < N; k++)
            for (int g = 0; g < 2; g++)
                OK(sw_member_new(&member[g][k], of[g], (uint64_t)(k + 3 * g)));
        for (int g = 0; g < 2; g++) {
            train(of[g], member[g], feed);
            OK(sw_checkpoint_members(c, of[g], member[g], N));
            for (int k = 0; k < N; k++)
                was[g][k] = packed(member[g][k]);
        }
        OK(sw_checkpoint_save(c, 1));
        sw_member_end(gone);
        for (int k = 0; k < 9; k++) /* holes close while the arena grows */
            OK(sw_member_new(&gone, of[k % 2], 77));
        for (int g = 0; g < 2; g++)
            train(of[g], member[g], feed);
        sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
        OK(sw_checkpoint_find(c, NULL, &found));
        OK(sw_checkpoint_load(c));
        for (int g = 0; g < 2; g++)
            for (int k = 0; k < N; k++)
                SW_CHECK(memcmp(was[g][k], packed(member[g][k]),
                                sw_members_packed_bytes(of[g])) == 0,
                         "no_copy %d: member %d of group %d", no_copy, k, g);
        sw_checkpoint_destroy(c);
    }
}

static const sw_test tests[] = {
    {"ranges that lie among each other are kept", ranges_among_each_other_are_kept},
};
SW_SUITE("members that are saved", tests)
