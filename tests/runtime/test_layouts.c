/* Which layout images have between convolutions and pools, and that it stays the same on the
 * way there and back. */
#include "runtime/ops/ops.h"
#include "tests/runtime/nets.h"

SW_TESTS("layouts")

static sw_layout layout_for(int64_t images)
{
    const sw_type image = {SW_F32, SW_PLAIN, {4, {images, 3, 8, 8}}};
    return swi_layout_image(&image, 1, NULL);
}

/* Blocks hold at most a quarter more images than there are. */
SW_TEST("blocks are taken where little is wasted")
{
    for (int64_t images = 1; images <= 200; images++) {
        const double held = 16.0 * (double)((images + 15) / 16);
        CU_ASSERT_EQUAL(layout_for(images), held <= 1.25 * (double)images ? SW_N16 : SW_PLAIN);
    }
    CU_ASSERT_EQUAL(layout_for(INT64_MAX), SW_N16);
    const sw_type row = {SW_F32, SW_PLAIN, {2, {16, 8}}};
    CU_ASSERT_EQUAL(swi_layout_image(&row, 1, NULL), SW_PLAIN); /* infer will refuse it */
}

SW_TEST("outputs have the layout of the image")
{
    static const sw_layout layouts[] = {SW_PLAIN, SW_N16};
    const swi_conv_attrs conv = {1, 1, 1, 1};
    const swi_pool_attrs pool = {3, 3, 2, 1}, small = {2, 2, 2, 0};
    for (int i = 0; i < 2; i++) {
        const sw_type in[] = {{SW_F32, layouts[i], {4, {16, 3, 8, 8}}},
                              {SW_F32, SW_PLAIN, {4, {5, 3, 3, 3}}}};
        sw_type out[2];
        OK(sw_op_conv2d.infer(in, 2, &conv, out));
        CU_ASSERT_EQUAL(out[0].layout, layouts[i]);
        OK(sw_op_max_pool2d.infer(in, 1, &pool, out));
        CU_ASSERT(out[0].layout == layouts[i] && out[1].layout == layouts[i]);
        /* Two bits for each place, 2 * 2 of 4 * 4: no image any more. */
        OK(sw_op_max_pool2d.infer(in, 1, &small, out));
        CU_ASSERT_EQUAL(out[0].layout, layouts[i]);
        CU_ASSERT_EQUAL(sw_type_bytes(&out[1]), 16 * 3 * 4 * 4 / 4);
        OK(sw_op_avg_pool2d.infer(in, 1, &pool, out));
        CU_ASSERT_EQUAL(out[0].layout, layouts[i]);
    }
}

static size_t step_arena(net *n, sw_exec *exec, int images, uint32_t *n_ops)
{
    const batch b = net_batch(true, 0, images);
    sw_run_args args = net_args(n, &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &args, &plan));
    *n_ops = plan.n_ops;
    return plan.arena_bytes;
}

/* Where images are plain, each further image costs the same and nothing is converted; a batch
 * in blocks needs the room of whole blocks. */
SW_TEST("small batches do not pay for sixteen")
{
    uint32_t plain_ops, ops;
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(true, NULL);
    const size_t one = step_arena(n, exec, 1, &plain_ops), two = step_arena(n, exec, 2, &ops);
    CU_ASSERT_EQUAL(ops, plain_ops);
    const size_t twelve = step_arena(n, exec, 12, &ops);
    CU_ASSERT_EQUAL(ops, plain_ops);
    CU_ASSERT(twelve - one <=
              11 * (two - one) + 4096); /* what is small is rounded to 64 bytes */
    const size_t thirteen = step_arena(n, exec, 13, &ops);
    SW_CHECK(ops > plain_ops, "%u ops plain, %u in blocks", plain_ops, ops);
    const size_t sixteen = step_arena(n, exec, 16, &ops);
    SW_CHECK(one < two && two < twelve && twelve < thirteen && thirteen <= sixteen,
             "arenas of %zu, %zu, %zu, %zu, %zu", one, two, twelve, thirteen, sixteen);
    CU_ASSERT(one < sixteen / 4);
}

/* One image gives the same answer alone and among others, in whichever layout. */
SW_TEST("an image is judged alike in both layouts")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(true, NULL);
    float alone[NET_CLASSES];
    for (int images = 1; images <= 17; images += 4) { /* 13 are in blocks */
        const batch b = net_batch(true, 0, images);
        sw_run_args args = net_args(n, &b);
        args.mode = SW_EVAL;
        sw_array logits;
        OK(sw_run(exec, &args));
        OK(sw_output_get(exec, "logits", &logits));
        if (images == 1)
            memcpy(alone, logits.data, sizeof alone);
        for (int k = 0; k < NET_CLASSES; k++)
            CU_ASSERT_DOUBLE_EQUAL((double)((const float *)logits.data)[k], (double)alone[k],
                                   1e-5);
    }
}
