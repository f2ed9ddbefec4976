/* Attention where descriptors have no cases: heads as wide as a tile, a last tile of one row;
 * and which tiles are looked at, as no comparison of usual numbers shows it. */
#include "kernels/rng.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include <math.h>
#include <string.h>

SW_TESTS("attention")

enum { TILE = 64, SIZE = 4 };
static const swi_attention_attrs causal = {1, 1, 0.0f};

static sw_type rows_of(int64_t rows, int64_t size)
{
    return (sw_type){SW_F32, SW_PLAIN, {3, {1, rows, size}}};
}

static sw_buffer numbers(sw_type type, uint32_t stream)
{
    const sw_buffer b = sw_entry_buffer(&type, 0);
    sw_rng_normal(b.ptr, 0, sw_type_elements(&type), 41, 42, stream, 0);
    return b;
}

/* With the entry's own scratch. */
static void launch(int which, const sw_buffer *in, int n_in, const sw_buffer *out, int n_out)
{
    const sw_cuda_entry *entry = sw_side_entry("attention", which);
    sw_type in_type[6], out_type[2];
    for (int i = 0; i < n_in; i++)
        in_type[i] = in[i].type;
    for (int i = 0; i < n_out; i++)
        out_type[i] = out[i].type;
    const sw_kernel_info info = {in_type, out_type, n_in, n_out, &causal, 1, SW_ISA_BASE, 0};
    const size_t room =
        entry->scratch_bytes != NULL ? entry->scratch_bytes(&info, sw_side_queue()) : 0;
    const sw_launch l =
        SW_OPTS(sw_launch, .in = in, .n_in = n_in, .out = out, .n_out = n_out,
                .scratch = sw_entry_block(room, 0), .scratch_bytes = room, .attrs = &causal);
    CU_ASSERT_EQUAL(sw_side_launch(entry, &l, (sw_cuda_counters){0}), SW_OK);
}

/* Keys that no query of a tile of rows may see are not multiplied by zero, but left alone:
 * infinite keys and values of a later tile change no bit, forward and in dq. */
SW_TEST("later tiles are left alone")
{
    const sw_type type = rows_of(2 * TILE, SIZE),
                  lse = {SW_F32, SW_PLAIN, {3, {1, 1, 2 * TILE}}};
    sw_buffer in[6] = {numbers(type, 0), numbers(type, 1), numbers(type, 2)};
    sw_buffer y[2][2], dq[2];
    for (int odd = 0; odd < 2; odd++) {
        for (int i = 1; i < 3 && odd == 1; i++)
            ((float *)in[i].ptr)[(TILE + 1) * SIZE] = INFINITY;
        y[odd][0] = sw_entry_buffer(&type, 0);
        y[odd][1] = sw_entry_buffer(&lse, 0);
        dq[odd] = sw_entry_buffer(&type, 0);
        launch(SW_CUDA_FORWARD, in, 3, y[odd], 2);
        in[3] = y[0][0];
        in[4] = y[0][1];
        in[5] = odd == 0 ? numbers(type, 3) : in[5];
        launch(1, in, 6, &dq[odd], 1);
    }
    const size_t bytes = TILE * SIZE * sizeof(float);
    CU_ASSERT_EQUAL(memcmp(y[0][0].ptr, y[1][0].ptr, bytes), 0);
    CU_ASSERT_EQUAL(memcmp(y[0][1].ptr, y[1][1].ptr, TILE * sizeof(float)), 0);
    CU_ASSERT_EQUAL(memcmp(dq[0].ptr, dq[1].ptr, bytes), 0);
    CU_ASSERT(isfinite(((const float *)dq[0].ptr)[0]));
    sw_entry_free();
}

/* ---- against the CPU --------------------------------------------------------------------- */

static sw_entry_run begin(const char *label, int which)
{
    const sw_grad_desc *g = which < 0 ? NULL : &sw_op_attention.grads[which];
    return (sw_entry_run)SW_INIT(.label = label, .entry = sw_side_entry("attention", which),
                                 .kernel = g != NULL ? g->kernel : sw_op_attention.forward,
                                 .scratch_bytes = g != NULL ? g->scratch_bytes
                                                            : sw_op_attention.scratch_bytes,
                                 .attrs = &causal, .alias = {-1, -1, -1});
}

SW_TEST("one row more than a tile")
{
    const sw_type type = rows_of(TILE + 1, SIZE);
    sw_entry_run run = begin("one row more than a tile", SW_CUDA_FORWARD);
    while (run.n_in < 3) {
        run.in[run.n_in] = numbers(type, 4 + (uint32_t)run.n_in);
        run.n_in++;
    }
    run.out[run.n_out++] = sw_entry_buffer(&type, 0);
    sw_entry_compare(&run);
    sw_entry_free();
}

/* All kernels, over several tiles. */
SW_TEST("heads as wide as a tile")
{
    const sw_type type = rows_of(TILE + 3, TILE),
                  lse = {SW_F32, SW_PLAIN, {3, {1, 1, TILE + 3}}};
    sw_entry_run forward = begin("wide heads", SW_CUDA_FORWARD);
    while (forward.n_in < 3) {
        forward.in[forward.n_in] = numbers(type, 7 + (uint32_t)forward.n_in);
        forward.n_in++;
    }
    forward.out[forward.n_out++] = sw_entry_buffer(&type, 0);
    forward.out[forward.n_out++] = sw_entry_buffer(&lse, 0);
    sw_entry_compare(&forward);
    const sw_buffer operands[] = {forward.in[0],  forward.in[1],  forward.in[2],
                                  forward.out[0], forward.out[1], numbers(type, 10)};
    for (int g = 0; g < sw_op_attention.n_grads; g++) {
        const sw_grad_desc *d = &sw_op_attention.grads[g];
        sw_entry_run run = begin("wide heads, gradient", g);
        for (int k = 0; k < 6; k++)
            if (k != 3 || d->n_operands == 6)
                run.in[run.n_in++] = operands[k];
        while (run.n_out < d->n_makes)
            run.out[run.n_out++] = sw_entry_buffer(&type, 0);
        sw_entry_compare(&run);
    }
    sw_entry_free();
}
