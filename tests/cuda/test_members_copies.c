/* Members on a card: copies, packs, models, widths, wherever they go. */
#include "tests/cuda/members_card.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("copies of members on a card")

SW_TEST("copies are exact wherever they go")
{
    const sw_feed *feed = member_pool_feed();
    float knob = 0.0f;
    uint64_t steps = 0;
    sw_fake_card_new(NULL, 3);
    member_pool g = member_pool_on("cuda", NULL, true), cpu = member_pool_on(NULL, NULL, true);
    sw_members_args args = member_pool_args(g.member, 2, feed);
    OK(sw_members_run(g.all, &args));
    OK(sw_member_knob_set(g.member[0], g.shape->factor, 0.75f)); /* it is not uploaded yet */
    OK(sw_member_copy(g.member[1], g.member[0]));
    OK(sw_member_knob_get(g.member[1], g.shape->factor, &knob));
    CU_ASSERT(knob == 0.75f && member_pool_same(g.member[0], g.member[1]));
    OK(sw_member_progress(g.member[1], &steps, NULL));
    CU_ASSERT_EQUAL(steps, STEPS);
    /* To the CPU and back. */
    OK(sw_member_copy(cpu.member[2], g.member[0]));
    CU_ASSERT(member_pool_same(cpu.member[2], g.member[0]));
    OK(sw_member_copy(g.member[4], cpu.member[2]));
    OK(sw_member_knob_get(g.member[4], g.shape->factor, &knob));
    CU_ASSERT(knob == 0.75f && member_pool_same(g.member[4], g.member[0]));
    unsigned char *bytes = member_pool_packed(g.member[0]);
    OK(sw_member_unpack(g.member[5], bytes, sw_members_packed_bytes(g.all)));
    OK(sw_member_unpack(cpu.member[5], bytes, sw_members_packed_bytes(g.all)));
    CU_ASSERT(member_pool_same(g.member[5], g.member[0]));
    CU_ASSERT(member_pool_same(cpu.member[5], g.member[0]));
    OK(sw_member_knob_get(g.member[5], g.shape->factor, &knob));
    CU_ASSERT_EQUAL(knob, 0.75f);
    /* They go on alike: the unpacked one has the seed too. */
    args.members = &g.member[0];
    args.n = 1;
    OK(sw_members_run(g.all, &args));
    args.members = &g.member[5];
    OK(sw_members_run(g.all, &args));
    CU_ASSERT(member_pool_same(g.member[5], g.member[0]));
    CU_ASSERT(!member_pool_same(g.member[1], g.member[0]));
}

/* A model of the card and one of the host; knobs on their way go with the bytes. */
SW_TEST("a member and a model take each other over")
{
    float knob = 0.0f, x[SMALL_WIDTH], y[SMALL_WIDTH];
    for (int on_card = 0; on_card < 2; on_card++) {
        sw_fake_card_new(NULL, 1);
        member_pool g = member_pool_on("cuda", NULL, true);
        sw_exec *host = member_pool_exec(NULL, NULL, true);
        small *t = small_new(HIDDEN);
        sw_members_args args = member_pool_args(g.member, 1, member_pool_feed());
        OK(sw_model_ready(t->model, on_card != 0 ? g.exec : host, 77));
        sw_knob_set(t->factor, 0.25f);
        OK(sw_member_from_model(g.member[0], t->model));
        OK(sw_member_knob_get(g.member[0], g.shape->factor, &knob));
        OK(sw_member_read(g.member[0], g.shape->f2.bias, x, sizeof x));
        OK(sw_param_read(t->f2.bias, y, sizeof y));
        CU_ASSERT(knob == 0.25f && memcmp(x, y, sizeof x) == 0);
        OK(sw_members_run(g.all, &args));
        OK(sw_member_knob_set(g.member[0], g.shape->factor, 2.0f));
        OK(sw_member_to_model(t->model, g.member[0]));
        CU_ASSERT_EQUAL(sw_knob_get(t->factor), 2.0f);
        OK(sw_member_from_model(g.member[1], t->model));
        CU_ASSERT(member_pool_same(g.member[0], g.member[1]));
        sw_member_end(g.member[1]);
    }
}

SW_TEST("what is written is read")
{
    float x[SMALL_WIDTH] = {1, 2, 3, 4, 5, 6}, y[SMALL_WIDTH];
    sw_fake_card_new(NULL, 1);
    member_pool g = member_pool_on("cuda", NULL, true);
    OK(sw_member_write(g.member[2], g.shape->f2.bias, x, sizeof x));
    OK(sw_member_read(g.member[2], g.shape->f2.bias, y, sizeof y));
    CU_ASSERT(memcmp(x, y, sizeof x) == 0);
    OK(sw_member_read(g.member[3], g.shape->f2.bias, y, sizeof y));
    CU_ASSERT(memcmp(x, y, sizeof x) != 0);
    REFUSED(sw_member_knob_set(g.member[0], g.shape->factor, NAN), SW_INVALID, "cannot be");
}

/* The same bits as on the CPU, where the bytes were the same. */
SW_TEST("a member is resized as on the CPU")
{
    const sw_array in[2] = {{SW_F32, SW_SHAPE(ROWS, SMALL_WIDTH), NULL},
                            {SW_F32, SW_SHAPE(ROWS, SMALL_WIDTH), NULL}};
    const sw_members_args args =
        SW_OPTS(sw_members_args, .inputs = in, .n_inputs = 2, .mode = SW_TRAIN);
    const sw_resize_opts opts = SW_OPTS(sw_resize_opts, .seed = 5);
    sw_members *wide[2];
    sw_member grown[2];
    sw_fake_card_new(NULL, 1);
    member_pool g[2] = {member_pool_on("cuda", NULL, true), member_pool_on(NULL, NULL, true)};
    const sw_members_args some = member_pool_args(g[0].member, 1, member_pool_feed());
    OK(sw_members_run(g[0].all, &some));
    OK(sw_member_copy(g[1].member[0], g[0].member[0]));
    for (int i = 0; i < 2; i++) {
        wide[i] = small_group(g[i].exec, small_new(HIDDEN + 6), NULL);
        OK(sw_member_new(&grown[i], wide[i], 9));
        OK(sw_member_resize(grown[i], g[i].member[0], &args, &opts));
    }
    CU_ASSERT(member_pool_same(grown[0], grown[1]));
}
