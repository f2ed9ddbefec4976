/* Inheritance at random: every bit of thousands of children is what the definition says. */
#include "tests/evolve/inherit_plain.h"
#include <string.h>

static void compare(sw_exec *exec, sw_dice *dice, int i)
{
    const sw_net_opts with = SW_OPTS(sw_net_opts, .utility = 1), without = SW_OPTS(sw_net_opts);
    const sw_genome *a = scene_random(dice), *b = scene_random(dice);
    const sw_net *na = scene_net(a, i % 3 ? &with : &without), *nb = scene_net(b, &with);
    const unsigned char *xa = scene_random_bytes(na, dice), *xb = scene_random_bytes(nb, dice);
    const sw_net *to = scene_net(scene_random_child(dice, a, b), i % 4 ? &with : &without);
    unsigned char *bytes = scene_block(to->model->bytes);
    const uint64_t seed = sw_dice_next(dice);
    memset(bytes, 0xaa, to->model->bytes);
    OK(swi_net_inherit(to, bytes, na, xa, nb, xb, seed));
    const char *name =
        scene_differs(to, bytes, scene_inherited(exec, to, na, xa, nb, xb, seed));
    SW_CHECK(name == NULL, "child %d (%s): '%s' is not what it must be", i,
             to->genome->optimizer, name != NULL ? name : "");
    scene_sweep();
}

static void every_bit_is_what_the_definition_says(void)
{
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {71};
    const int n = sw_tests_full() ? 10000 : 400;
    for (int i = 0; i < n; i++)
        compare(exec, &dice, i);
    sw_note("%d children", n);
}

/* New nets begin as models that are made ready do. */
static void nets_begin_as_models_do(void)
{
    const sw_net_opts with = SW_OPTS(sw_net_opts, .utility = 1);
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {72};
    for (int i = 0; i < 300; i++) {
        sw_genome *g = scene_random(&dice);
        for (uint32_t k = 0; k < g->n; k++)
            g->vertices[k].identity = sw_dice_below(&dice, 4) == 0;
        const sw_net *made = scene_net(g, &with);
        unsigned char *bytes = scene_block(made->model->bytes);
        memset(bytes, 0xaa, made->model->bytes);
        OK(swi_net_begin(made, bytes, (uint64_t)i));
        const char *name = scene_differs(
            made, bytes, scene_inherited(exec, made, NULL, NULL, NULL, NULL, (uint64_t)i));
        SW_CHECK(name == NULL, "net %d: '%s'", i, name != NULL ? name : "");
        scene_sweep();
    }
}

/* The public way: a net that is made ready has the bytes that its definition says. */
static void nets_are_made_ready_with_their_identities(void)
{
    const sw_net_opts with = SW_OPTS(sw_net_opts, .utility = 1);
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {73};
    int changed = 0;
    for (int i = 0; i < 50; i++) {
        sw_genome *g = scene_random(&dice);
        for (uint32_t k = 0; k < g->n; k++)
            g->vertices[k].identity = sw_dice_below(&dice, 4) == 0;
        sw_net *made = scene_net(g, &with);
        OK(sw_net_ready(made, exec, (uint64_t)i));
        const char *name =
            scene_differs(made, made->model->base,
                          scene_inherited(exec, made, NULL, NULL, NULL, NULL, (uint64_t)i));
        SW_CHECK(name == NULL, "net %d: '%s'", i, name != NULL ? name : "");
        void *ready = scene_block(made->model->bytes);
        memcpy(ready, made->model->base, made->model->bytes);
        OK(sw_model_ready(made->model, exec, (uint64_t)i));
        changed += memcmp(ready, made->model->base, made->model->bytes) != 0;
        scene_sweep();
    }
    CU_ASSERT_EQUAL(changed, 50); /* utilities at least */
}

static const sw_test tests[] = {
    {"every bit is what the definition says", every_bit_is_what_the_definition_says},
    {"nets begin as models do", nets_begin_as_models_do},
    {"nets are made ready with their identities", nets_are_made_ready_with_their_identities},
};
SW_SUITE("inheritance at random", tests)
