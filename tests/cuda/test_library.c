/* Who makes matrix products where a queue has a library for them: it is asked first, about what
 * is launched later, and own kernels make what it leaves. Under the emulator: the library is
 * planted here. */
#include "kernels/attrs.h"
#include "kernels/rng.h"
#include "kernels/cuda/gemm.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include <math.h>
#include <string.h>

/* Random numbers in the places that the strides name. */
static sw_buffer numbers(sw_type type, const int64_t *stride, uint32_t stream)
{
    sw_buffer b = sw_entry_buffer(&type, 0);
    for (int i = 0; i < type.shape.rank; i++)
        CU_ASSERT_EQUAL(b.stride[i], stride[i]);
    sw_rng_normal(b.ptr, 0, sw_type_elements(&type), 31, 32, stream, 0);
    return b;
}

static struct {
    sw_status status;
    sw_cuda_product asked, run;
    void *scratch;
    size_t bytes, wanted;
} seen = {.wanted = 100000};

static size_t wants(const sw_cuda_queue *queue, const sw_cuda_product *g)
{
    (void)queue;
    seen.asked = *g;
    return seen.wanted;
}

static sw_status takes(const sw_cuda_queue *queue, const sw_cuda_product *g, void *scratch,
                       size_t bytes)
{
    (void)queue;
    seen.run = *g;
    seen.scratch = scratch;
    seen.bytes = bytes;
    return seen.status;
}

static bool same_product(const sw_products *a, const sw_products *b, bool adds)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->a_row == b->a_row &&
           a->a_col == b->a_col && a->b_row == b->b_row && a->b_col == b->b_col &&
           a->n_results == b->n_results && a->n_sums == b->n_sums &&
           (!adds || a->accumulate == b->accumulate);
}

/* A library of a queue gets each product with its axes joined, the same when a plan is made and
 * when it is launched, and room for what it wants; what it leaves, own kernels make. */
static void a_library_is_asked_first(void)
{
    static const sw_cuda_blas blas = {wants, takes};
    sw_cuda_queue queue = *sw_side_queue();
    queue.blas = (void *)(uintptr_t)&blas;
    static const sw_status said[] = {SW_OK, SW_DEVICE, SW_UNSUPPORTED};
    const sw_type types[] = {{SW_F32, SW_PLAIN, {3, {3, 5, 6}}},
                             {SW_F32, SW_PLAIN, {2, {6, 10}}}};
    const sw_type y = {SW_F32, SW_PLAIN, {3, {3, 5, 10}}};
    const sw_kernel_info info = {types, &y, 2, 1, NULL, 1, SW_ISA_BASE, 1};
    const sw_cuda_entry *entry = sw_side_entry("matmul", -1);
    for (int i = 0; i < 3; i++) {
        const int64_t step_a[] = {30, 6, 1}, step_b[] = {10, 1};
        const sw_buffer in[] = {numbers(types[0], step_a, 1), numbers(types[1], step_b, 2)};
        const sw_buffer out = sw_entry_buffer(&y, 0);
        float *c = out.ptr;
        memset(c, 0, sw_type_bytes(&y));
        const size_t bytes = entry->scratch_bytes(&info, &queue);
        const sw_launch l = SW_OPTS(sw_launch, .in = in, .n_in = 2, .out = &out, .n_out = 1,
                                    .scratch = sw_entry_block(bytes, 0), .scratch_bytes = bytes,
                                    .accumulate = 1);
        seen.status = said[i];
        CU_ASSERT_EQUAL(bytes, 100000);
        CU_ASSERT_EQUAL(entry->kernel(&l, &queue), i == 2 ? SW_OK : said[i]);
        CU_ASSERT(seen.run.p.m == 15 && seen.run.p.n == 10 && seen.run.p.k == 6 &&
                  seen.run.p.n_results == 0 && seen.run.p.c == c);
        CU_ASSERT(same_product(&seen.asked.p, &seen.run.p, true));
        CU_ASSERT(seen.scratch == l.scratch && seen.bytes == bytes);
        CU_ASSERT_EQUAL(c[0] != 0.0f && c[149] != 0.0f, i == 2);
        sw_entry_free();
    }
}

static struct {
    sw_cuda_product product[32];
    int n, launched;
} plan;

static size_t notes(const sw_cuda_queue *queue, const sw_cuda_product *g)
{
    (void)queue;
    plan.product[plan.n++ % 32] = *g;
    return 640;
}

static sw_status looks(const sw_cuda_queue *queue, const sw_cuda_product *g, void *scratch,
                       size_t bytes)
{
    bool known = false;
    (void)queue, (void)scratch;
    for (int i = 0; i < plan.n && i < 32; i++)
        known |= same_product(&plan.product[i].p, &g->p, false) &&
                 (plan.product[i].bias != NULL) == (g->bias != NULL);
    SW_CHECK(known && bytes >= 640, "(%d, %d, %d) in %zu bytes", (int)g->p.m, (int)g->p.n,
             (int)g->p.k, bytes);
    plan.launched++;
    return SW_UNSUPPORTED;
}

/* All products of all chunks, of the last one too, which has fewer rows. */
static void what_chunks_launch_was_asked_for(void)
{
    static const sw_cuda_blas blas = {notes, looks};
    const swi_linear_ce_attrs attrs = {4, {0.0f, 0, 0}, 0};
    const sw_type types[] = {F32(10, 7), F32(9, 7), U8(10), F32(9)};
    const sw_type out[] = {SCALAR, F32(10, 7), F32(9, 7), F32(9)};
    const sw_kernel_info info = {types, out, 4, 4, &attrs, 1, SW_ISA_BASE, 0};
    const sw_cuda_entry *entry = sw_side_entry("linear_ce", -1);
    sw_cuda_queue queue = *sw_side_queue();
    sw_buffer in[4], to[4];
    queue.blas = (void *)(uintptr_t)&blas;
    plan.n = plan.launched = 0;
    for (int i = 0; i < 4; i++) {
        const int64_t step[] = {types[i].shape.rank > 1 ? 7 : 1, 1};
        to[i] = sw_entry_buffer(&out[i], 0);
        if (i != 2)
            in[i] = numbers(types[i], step, (uint32_t)i);
    }
    in[2] = sw_entry_fill(&types[2], (const uint8_t[10]){0}, false, 0.0f, 0);
    const size_t bytes = entry->scratch_bytes(&info, &queue);
    const sw_launch l =
        SW_OPTS(sw_launch, .in = in, .n_in = 4, .out = to, .n_out = 4,
                .scratch = sw_entry_block(bytes, 0), .scratch_bytes = bytes, .attrs = &attrs);
    CU_ASSERT_EQUAL(entry->kernel(&l, &queue), SW_OK);
    CU_ASSERT_EQUAL(plan.launched, 9);
    CU_ASSERT(isfinite(*(const float *)to[0].ptr));
    sw_entry_free();
}

/* The plan already knows what the library's choice depends on. */
static void a_library_hears_of_the_bias(void)
{
    static const sw_cuda_blas blas = {wants, takes};
    const sw_type types[] = {F32(5, 7), F32(9, 7), F32(9)};
    const sw_type y = F32(5, 9);
    const sw_cuda_entry *entry = sw_side_entry("linear", -1);
    sw_cuda_queue queue = *sw_side_queue();
    queue.blas = (void *)(uintptr_t)&blas;
    for (int n_in = 2; n_in < 4; n_in++) {
        const sw_kernel_info info = {types, &y, n_in, 1, NULL, 1, SW_ISA_BASE, 0};
        CU_ASSERT_EQUAL(entry->scratch_bytes(&info, &queue), 100000);
        CU_ASSERT_EQUAL(seen.asked.bias != NULL, n_in == 3);
    }
}

/* Whether two ops are one launch is the library's to decide too: what it takes stays its own,
 * and a pair that is one never goes to it. */
static void a_fusion_is_never_the_librarys(void)
{
    static const sw_cuda_blas blas = {wants, takes};
    static const size_t wanted[] = {0, 256, SIZE_MAX};
    const sw_type types[] = {F32(5, 7), F32(9, 7), F32(9)};
    const sw_type y = F32(5, 9);
    const sw_kernel_info info = {types, &y, 3, 1, NULL, 1, SW_ISA_BASE, 0};
    const sw_cuda_fusion *fusion = &sw_side_module()->fusions[0];
    sw_cuda_queue queue = *sw_side_queue();
    const int64_t step[] = {7, 1};
    const sw_buffer in[] = {numbers(types[0], step, 1), numbers(types[1], step, 2),
                            numbers(types[2], &step[1], 3)};
    const sw_buffer out = sw_entry_buffer(&y, 0);
    const sw_launch l =
        SW_OPTS(sw_launch, .in = in, .n_in = 3, .out = &out, .n_out = 1, .attrs = NULL);
    CU_ASSERT_NOT_EQUAL(fusion->joins(&info, &queue), 0); /* there is no library */
    queue.blas = (void *)(uintptr_t)&blas;
    for (int i = 0; i < 3; i++) {
        seen.wanted = wanted[i];
        CU_ASSERT_EQUAL(fusion->joins(&info, &queue) != 0, i == 2);
        CU_ASSERT(seen.asked.p.m == 5 && seen.asked.p.n == 9 && seen.asked.bias != NULL);
    }
    seen.status = SW_DEVICE; /* who asks it all the same */
    CU_ASSERT_EQUAL(fusion->kernel(&l, NULL, &queue), SW_OK);
    for (int i = 0; i < 45; i++)
        CU_ASSERT(((const float *)out.ptr)[i] >= 0.0f);
    seen.wanted = 100000;
    sw_entry_free();
}

/* Room for own kernels is left where the library makes nothing of a product, and only there. */
static void what_a_library_takes_needs_no_other_room(void)
{
    static const sw_cuda_blas blas = {wants, takes};
    static const size_t wanted[] = {0, 256, SIZE_MAX};
    const sw_cuda_product g = sw_cuda_product_of(20, 12, 400, 400, 1, 12, 1);
    const size_t own = sw_cuda_product_bytes(&g, sw_side_queue());
    sw_cuda_queue queue = *sw_side_queue();
    queue.blas = (void *)(uintptr_t)&blas;
    for (int i = 0; i < 3; i++) {
        seen.wanted = wanted[i];
        CU_ASSERT_EQUAL(sw_cuda_product_bytes(&g, &queue), i < 2 ? wanted[i] : own);
    }
    CU_ASSERT(own > 256);
    seen.wanted = 100000;
}

/* A launch with strides that its plan did not know makes do with less scratch, down to none. */
static void less_scratch_gives_the_same_product(void)
{
    sw_cuda_product g = sw_cuda_product_of(20, 12, 400, 400, 1, 12, 1);
    const size_t bytes = sw_cuda_product_bytes(&g, sw_side_queue());
    float *a = sw_entry_block(20 * 400 * sizeof *a, 0), *b = sw_entry_block(400 * 12 * 4, 0);
    float *c[2] = {sw_entry_block(20 * 12 * 4, 0), sw_entry_block(20 * 12 * 4, 0)};
    sw_rng_normal(a, 0, 20 * 400, 1, 2, 3, 0);
    sw_rng_normal(b, 0, 400 * 12, 1, 2, 4, 0);
    CU_ASSERT_FATAL(bytes >= 2 * 20 * 12 * sizeof(float));
    g.p.a = a, g.p.b = b;
    for (size_t less = bytes + 4; less-- > 0; less = less > 500 ? less - 500 : 0) {
        g.p.c = c[less < bytes];
        memset(g.p.c, 0xff, 20 * 12 * sizeof(float));
        void *scratch = sw_entry_block(less, 0);
        CU_ASSERT_EQUAL(sw_cuda_product_run("test", &g, scratch, less, sw_side_queue()), SW_OK);
        for (int i = 0; i < 20 * 12; i++)
            if (!SW_CHECK(fabsf(c[1][i] - c[0][i]) < 1e-4f || less >= bytes,
                          "%zu of %zu bytes: element %d is %g for %g", less, bytes, i,
                          (double)c[1][i], (double)c[0][i]))
                break;
    }
    sw_entry_free();
}

/* Sizes that kernels cannot count are named and nothing is launched. */
static void too_large_a_product_is_refused(void)
{
    float x = 1.0f;
    const int64_t large = (int64_t)1 << 31;
    for (int i = 0; i < 4; i++) {
        sw_cuda_product g = sw_cuda_product_of(i == 0 ? large : 1, i == 1 ? large : 1,
                                               i == 2 ? large : 1, 1, 1, 1, 1);
        g.p.c = &x, g.p.a = &x, g.p.b = &x;
        g.p.n_results = i == 3;
        g.p.result[0] = large;
        CU_ASSERT_EQUAL(sw_cuda_product_run("test", &g, NULL, 0, sw_side_queue()),
                        SW_UNSUPPORTED);
        SW_CHECK(strstr(sw_last_error(), "2147483648") != NULL, "%s", sw_last_error());
        CU_ASSERT_EQUAL(x, 1.0f);
    }
}

static const sw_test tests[] = {
    {"a library is asked first", a_library_is_asked_first},
    {"a library hears of the bias", a_library_hears_of_the_bias},
    {"a pair is never the library's", a_fusion_is_never_the_librarys},
    {"what a library takes needs no other room", what_a_library_takes_needs_no_other_room},
    {"what chunks launch was asked for", what_chunks_launch_was_asked_for},
    {"less scratch gives the same product", less_scratch_gives_the_same_product},
    {"too large a product is refused", too_large_a_product_is_refused},
};
SW_SUITE("gemm by a library", tests)
