/* Who makes matrix products, and convolutions that are some, where a queue has a library for
 * them: it is asked first, about what is launched later, and own kernels make what it leaves.
 * Under the emulator: the library is planted here. */
#include "kernels/attrs.h"
#include "kernels/rng.h"
#include "kernels/cuda/gemm.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"

SW_TESTS("by a library")

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
    seen.asked = *g;
    return seen.wanted;
}

static sw_status takes(const sw_cuda_queue *queue, const sw_cuda_product *g, void *scratch,
                       size_t bytes)
{
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
SW_TEST("a library is asked first")
{
    static const sw_cuda_blas blas = {wants, takes};
    sw_cuda_queue queue = *sw_side_queue();
    queue.blas = (void *)(uintptr_t)&blas;
    static const sw_status said[] = {SW_OK, SW_DEVICE, SW_UNSUPPORTED};
    const sw_type types[] = {{SW_F32, SW_PLAIN, {3, {3, 5, 6}}},
                             {SW_F32, SW_PLAIN, {2, {6, 10}}}};
    const sw_type y = F32(3, 5, 10);
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
    plan.product[plan.n++ % 32] = *g;
    return 640;
}

static sw_status looks(const sw_cuda_queue *queue, const sw_cuda_product *g, void *scratch,
                       size_t bytes)
{
    bool known = false;
    for (int i = 0; i < plan.n && i < 32; i++)
        known |= same_product(&plan.product[i].p, &g->p, false) &&
                 (plan.product[i].bias != NULL) == (g->bias != NULL);
    SW_CHECK(known && bytes >= 640, "(%d, %d, %d) in %zu bytes", (int)g->p.m, (int)g->p.n,
             (int)g->p.k, bytes);
    plan.launched++;
    return SW_UNSUPPORTED;
}

/* All products of all chunks, of the last one too, which has fewer rows. */
SW_TEST("what chunks launch was asked for")
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
SW_TEST("a library hears of the bias")
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
SW_TEST("a pair is never the library's")
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
SW_TEST("what a library takes needs no other room")
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
SW_TEST("less scratch gives the same product")
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
SW_TEST("too large a product is refused")
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

SW_TEST("a product of bf16 without a library is named with its strides")
{
    sw_cuda_product g = sw_cuda_product_of(2, 3, 4, 5, 1, 1, 6);
    g.halves = true;
    CU_ASSERT_EQUAL(sw_cuda_product_run("test", &g, NULL, 0, sw_side_queue()), SW_UNSUPPORTED);
    SW_CHECK(strstr(sw_last_error(), "with strides (5, 1) by (1, 6)") != NULL, "%s",
             sw_last_error());
}

/* ---- convolutions ------------------------------------------------------------------------ */

static struct {
    int asked, made;
    bool makes;
} conv;

static size_t conv_wants(const sw_cuda_queue *queue, const sw_cuda_product *g)
{
    conv.asked++;
    return 640;
}

/* Plainly. */
static sw_status conv_makes(const sw_cuda_queue *queue, const sw_cuda_product *g, void *scratch,
                            size_t bytes)
{
    const sw_products *p = &g->p;
    const int64_t n[] = {p->n_results > 0 ? p->result[0] : 1,
                         p->n_results > 1 ? p->result[1] : 1};
    CU_ASSERT(scratch != NULL && bytes >= 640 && p->n_sums == 0 && p->n_results <= 2);
    if (!conv.makes)
        return SW_UNSUPPORTED;
    conv.made++;
    for (int64_t r = 0; r < n[0] * n[1]; r++) {
        const int64_t i = r / n[1], j = r % n[1];
        const float *a = p->a + i * p->result_a[0] + (n[1] > 1 ? j * p->result_a[1] : 0);
        const float *b = p->b + i * p->result_b[0] + (n[1] > 1 ? j * p->result_b[1] : 0);
        for (int64_t e = 0; e < p->m * p->n; e++) {
            float *c = p->c + r * p->m * p->n + e;
            float sum = p->accumulate ? *c : 0.0f;
            for (int64_t k = 0; k < p->k; k++)
                sum += a[e / p->n * p->a_row + k * p->a_col] *
                       b[k * p->b_row + e % p->n * p->b_col];
            *c = sum;
        }
    }
    return SW_OK;
}

static sw_buffer conv_numbers(const sw_type *type, uint32_t stream)
{
    sw_buffer b = sw_entry_buffer(type, 0);
    sw_rng_normal(b.ptr, 0, sw_type_elements(type), 1, 2, stream, 0);
    return b;
}

/* The entry with these inputs; the output begins with the same numbers each time. */
static sw_buffer conv_launched(int which, const sw_buffer *in, int n_in, const sw_type *out,
                               const swi_conv_attrs *attrs, uint32_t add,
                               const sw_cuda_queue *queue)
{
    const sw_cuda_entry *entry = sw_side_entry("conv2d", which);
    sw_type types[3];
    const sw_buffer to = conv_numbers(out, 9);
    for (int i = 0; i < n_in; i++)
        types[i] = in[i].type;
    const sw_kernel_info info = {types, out, n_in, 1, attrs, 1, SW_ISA_BASE, add};
    const size_t bytes = entry->scratch_bytes(&info, queue);
    const sw_launch l = SW_OPTS(sw_launch, .in = in, .n_in = n_in, .out = &to, .n_out = 1,
                                .scratch = sw_entry_block(bytes, 0), .scratch_bytes = bytes,
                                .attrs = attrs, .accumulate = add);
    CU_ASSERT_EQUAL(entry->kernel(&l, queue), SW_OK);
    return to;
}

/* Kernels of one place are products, but for those with a bias or of small planes, and but for
 * the gradient of their weights; depthwise is own kernels'. The numbers are the same, whoever
 * makes them. */
SW_TEST("conv: kernels of one place are products")
{
    static const sw_cuda_blas blas = {conv_wants, conv_makes};
    static const swi_conv_attrs whole = {1, 0, 1, 1}, halves = {1, 0, 1, 2}, all = {1, 1, 1, 4},
                                strided = {2, 0, 1, 1};
    static const sw_type x = F32(3, 4, 5, 8), y = F32(3, 6, 5, 8), half = F32(3, 6, 3, 4);
    static const sw_type small_x = F32(3, 4, 5, 6), small_y = F32(3, 6, 5, 6), bias = F32(6);
    static const sw_type one = F32(6, 4, 1, 1), two = F32(6, 2, 1, 1), deep = F32(4, 1, 3, 3);
    enum { Y = SW_CUDA_FORWARD, DX = 0, DW = 2 };
    static const struct {
        const sw_type *x, *w, *y;
        const swi_conv_attrs *attrs;
        int which, n_in, products;
        uint32_t add;
    } cases[] = {{&x, &one, &y, &whole, Y, 2, 1, 0},
                 {&x, &one, &y, &whole, Y, 3, 0, 0},
                 {&x, &one, &y, &whole, DX, 2, 1, 0},
                 {&x, &one, &y, &whole, DX, 2, 1, 1},
                 {&x, &one, &y, &whole, DW, 2, 0, 0},
                 {&x, &two, &y, &halves, Y, 2, 1, 0},
                 {&x, &two, &y, &halves, DX, 2, 1, 0},
                 {&x, &two, &y, &halves, DX, 2, 1, 1},
                 {&x, &one, &half, &strided, Y, 2, 0, 0},
                 {&small_x, &one, &small_y, &whole, Y, 2, 0, 0},
                 {&small_x, &one, &small_y, &whole, DX, 2, 0, 0},
                 {&x, &deep, &x, &all, Y, 2, 0, 0},
                 {&x, &deep, &x, &all, DX, 2, 0, 0},
                 {&x, &deep, &x, &all, DW, 2, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_buffer of[] = {conv_numbers(cases[i].x, 1), conv_numbers(cases[i].w, 2),
                                conv_numbers(cases[i].y, 4), conv_numbers(&bias, 3)};
        const int which = cases[i].which;
        const sw_buffer in[] = {of[which == DX], of[which == Y ? 1 : 2], of[3]};
        const sw_type *out = which == Y ? cases[i].y : which == DX ? cases[i].x : cases[i].w;
        sw_buffer got[3];
        for (int k = 0; k < 3; k++) { /* no library, one that leaves it, one that makes it */
            sw_cuda_queue queue = *sw_side_queue();
            queue.blas = k > 0 ? (void *)(uintptr_t)&blas : queue.blas;
            conv.asked = conv.made = 0;
            conv.makes = k == 2;
            got[k] = conv_launched(which, in, cases[i].n_in, out, cases[i].attrs, cases[i].add,
                                   &queue);
            SW_CHECK(conv.asked == (k > 0 ? cases[i].products : 0) &&
                         conv.made == (k == 2 ? cases[i].products : 0),
                     "case %d: asked for %d products, made %d", (int)i, conv.asked, conv.made);
            for (int64_t e = 0; e < sw_type_elements(out); e++) {
                const float a = ((const float *)got[k].ptr)[e],
                            b = ((const float *)got[0].ptr)[e];
                if (!SW_CHECK(fabsf(a - b) < 1e-5f, "case %d, %d: %g for %g", (int)i, (int)e,
                              (double)a, (double)b))
                    break;
            }
        }
        sw_entry_free();
    }
}

/* Nothing after the last term of a sum is a term: an infinite weight is not multiplied by zeros
 * there. */
SW_TEST("conv: infinite weights make infinite sums")
{
    static const swi_conv_attrs attrs = {1, 0, 1, 1};
    const sw_type x = F32(1, 3, 5, 5), w = F32(2, 3, 1, 1), y = F32(1, 2, 5, 5);
    const sw_buffer in[] = {conv_numbers(&x, 1), conv_numbers(&w, 2)};
    float *at = in[0].ptr, *weights = in[1].ptr;
    for (int i = 0; i < 75; i++)
        at[i] = fabsf(at[i]) + 1.0f;
    weights[0] = INFINITY;
    const sw_buffer out = conv_launched(SW_CUDA_FORWARD, in, 2, &y, &attrs, 0, sw_side_queue());
    for (int i = 0; i < 50; i++) {
        const float got = ((const float *)out.ptr)[i];
        SW_CHECK(i < 25 ? got == INFINITY : isfinite(got), "%d: %g", i, (double)got);
    }
    sw_entry_free();
}
