/* Products that descriptors have no cases for: factors that lie either way, sizes about those
 * of tiles, sums over axes, columns of a larger matrix; who makes them; what no element
 * exceeds. */
#include "kernels/rng.h"
#include "kernels/cuda/gemm.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const sw_cuda_entry *entry_of(const char *op, int which)
{
    const sw_cuda_host host = {SW_CUDA_ABI, sizeof host, sw_error_set};
    const sw_cuda_module *module = sw_cuda_module_open(&host);
    for (uint32_t i = 0; i < module->n_entries; i++)
        if (strcmp(module->entries[i].op, op) == 0 && module->entries[i].which == which)
            return &module->entries[i];
    SW_CHECK(false, "no entry of %s", op);
    return NULL;
}

/* ---- operands ---------------------------------------------------------------------------- */

/* Random numbers in the places that the strides name, NaNs in between. */
static sw_buffer numbers(sw_type type, const int64_t *stride, uint32_t stream)
{
    const sw_shape *s = &type.shape;
    int64_t n = 1, last = 0;
    sw_buffer b = {.type = type};
    for (int i = 0; i < s->rank; i++) {
        b.stride[i] = stride[i];
        last += (s->dim[i] - 1) * stride[i];
        n *= s->dim[i];
    }
    float *x = sw_entry_block((size_t)n * sizeof *x, 0);
    float *to = sw_entry_block((size_t)(last + 1) * sizeof *to, 0);
    sw_rng_normal(x, 0, n, 31, 32, stream, 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0, rest = i;
        for (int k = s->rank - 1; k >= 0; k--) {
            at += rest % s->dim[k] * b.stride[k];
            rest /= s->dim[k];
        }
        to[at] = x[i];
    }
    b.ptr = to;
    return b;
}

/* (rows, cols), by rows or by columns, `gap` further apart than they are long. */
static sw_buffer matrix(int64_t rows, int64_t cols, bool turned, int64_t gap, uint32_t stream)
{
    const int64_t stride[] = {turned ? 1 : cols + gap, turned ? rows + gap : 1};
    return numbers((sw_type){SW_F32, SW_PLAIN, {2, {rows, cols}}}, stride, stream);
}

static sw_entry_run begin(const char *label, const sw_op_desc *desc, int which)
{
    const sw_grad_desc *g = which < 0 ? NULL : &desc->grads[which];
    sw_entry_run r = {.label = label, .entry = entry_of(desc->name, which), .n_out = 1};
    r.kernel = g != NULL ? g->kernel : desc->forward;
    r.scratch_bytes = g != NULL ? g->scratch_bytes : desc->scratch_bytes;
    r.alias[0] = -1;
    return r;
}

/* With and without what is added to. */
static void compare(sw_entry_run *r, const sw_type *out)
{
    for (uint32_t add = 0; add < 2; add++) {
        r->accumulate = add;
        r->out[0] = sw_entry_buffer(out, 0);
        if (add != 0)
            sw_rng_normal(r->out[0].ptr, 0, sw_type_elements(out), 33, 34, 1, 0);
        sw_entry_compare(r);
    }
    sw_entry_free();
}

/* ---- products ---------------------------------------------------------------------------- */

static void factors_lie_either_way(void)
{
    static const int64_t sizes[][3] = {{32, 32, 32},  {33, 31, 36}, {64, 64, 16},
                                       {68, 60, 100}, {65, 130, 9}, {128, 136, 24},
                                       {129, 96, 8},  {8, 4, 200},  {132, 128, 49}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int mode = 0; mode < 12; mode++) {
            const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            const int64_t gap = mode / 4 == 0 ? 0 : mode / 4 == 1 ? 4 : 1;
            const sw_type y = {SW_F32, SW_PLAIN, {2, {m, n}}};
            char label[100];
            snprintf(label, sizeof label, "(%d, %d, %d), mode %d", (int)m, (int)n, (int)k,
                     mode);
            sw_entry_run r = begin(label, &sw_op_matmul, -1);
            r.in[r.n_in++] = matrix(m, k, (mode & 1) != 0, gap, 1);
            r.in[r.n_in++] = matrix(k, n, (mode & 2) != 0, gap, 2);
            compare(&r, &y);
        }
}

/* Tiles go in bands of rows: two of them, the second not full. */
static void more_rows_than_a_band(void)
{
    const sw_type y = {SW_F32, SW_PLAIN, {2, {1100, 132}}};
    sw_entry_run r = begin("bands", &sw_op_matmul, -1);
    r.in[r.n_in++] = matrix(1100, 4, false, 0, 1);
    r.in[r.n_in++] = matrix(4, 132, false, 0, 2);
    compare(&r, &y);
}

/* Results and sums over axes that do, and do not, follow each other in memory. */
static void axes_in_front(void)
{
    static const struct {
        const char *what;
        int64_t a[4], step_a[4], b[4], step_b[4];
    } cases[] = {
        {"heads", {2, 3, 20, 8}, {480, 8, 24, 1}, {2, 3, 8, 36}, {864, 36, 108, 1}},
        {"one b for all", {2, 3, 20, 8}, {480, 160, 8, 1}, {1, 1, 8, 36}, {288, 288, 36, 1}},
        {"one b, rows of another a", {2, 3, 1, 8}, {24, 8, 8, 1}, {1, 1, 8, 5}, {40, 40, 5, 1}},
        {"one a for all", {1, 1, 20, 8}, {160, 160, 8, 1}, {3, 2, 8, 4}, {64, 32, 4, 1}},
        {"one a for some",
         {1, 2, 33, 40},
         {9, 1320, 40, 1},
         {3, 2, 40, 34},
         {2720, 1360, 34, 1}},
        {"odd steps", {2, 3, 4, 8}, {100, 33, 8, 1}, {2, 3, 8, 4}, {96, 32, 4, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_type a = {SW_F32, SW_PLAIN, {4, {0}}}, b = a, y;
        memcpy(a.shape.dim, cases[i].a, sizeof cases[i].a);
        memcpy(b.shape.dim, cases[i].b, sizeof cases[i].b);
        CU_ASSERT_EQUAL_FATAL(sw_op_matmul.infer((sw_type[]){a, b}, 2, NULL, &y), SW_OK);
        for (int which = -1; which < 2; which++) {
            char label[100];
            snprintf(label, sizeof label, "%s, %d", cases[i].what, which);
            sw_entry_run r = begin(label, &sw_op_matmul, which);
            int64_t step[4] = {0, 0, y.shape.dim[3], 1};
            step[1] = y.shape.dim[2] * step[2];
            step[0] = y.shape.dim[1] * step[1];
            if (which != 0)
                r.in[r.n_in++] = numbers(a, cases[i].step_a, 1);
            if (which != 1)
                r.in[r.n_in++] = numbers(b, cases[i].step_b, 2);
            if (which >= 0)
                r.in[r.n_in++] = numbers(y, step, 3);
            compare(&r, which < 0 ? &y : which == 0 ? &a : &b);
        }
    }
}

/* What is made is a range of rows of the gradient. */
static void columns_of_a_larger_gradient(void)
{
    static const int64_t gaps[] = {0, 4, 7, 60};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        const sw_type dw = {SW_F32, SW_PLAIN, {2, {36, 65}}};
        sw_entry_run r = begin("dw", &sw_op_linear, 1);
        r.in[r.n_in++] = matrix(110, 65, false, 0, 1);
        r.in[r.n_in++] = matrix(110, 36, false, gaps[i], 2);
        compare(&r, &dw);
    }
}

/* ---- who makes them ---------------------------------------------------------------------- */

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
    sw_cuda_queue queue = sw_entry_queue;
    queue.blas = (void *)(uintptr_t)&blas;
    static const sw_status said[] = {SW_OK, SW_DEVICE, SW_UNSUPPORTED};
    const sw_type types[] = {{SW_F32, SW_PLAIN, {3, {3, 5, 6}}},
                             {SW_F32, SW_PLAIN, {2, {6, 10}}}};
    const sw_type y = {SW_F32, SW_PLAIN, {3, {3, 5, 10}}};
    const sw_kernel_info info = {types, &y, 2, 1, NULL, 1, SW_ISA_BASE, 1};
    const sw_cuda_entry *entry = entry_of("matmul", -1);
    for (int i = 0; i < 3; i++) {
        const int64_t step_a[] = {30, 6, 1}, step_b[] = {10, 1};
        const sw_buffer in[] = {numbers(types[0], step_a, 1), numbers(types[1], step_b, 2)};
        const sw_buffer out = sw_entry_buffer(&y, 0);
        float *c = out.ptr;
        memset(c, 0, sw_type_bytes(&y));
        const size_t bytes = entry->scratch_bytes(&info, &queue);
        const sw_launch l = {.size = sizeof l,
                             .in = in,
                             .n_in = 2,
                             .out = &out,
                             .n_out = 1,
                             .scratch = sw_entry_block(bytes, 0),
                             .scratch_bytes = bytes,
                             .accumulate = 1};
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
    const sw_type types[] = {SWI_F32(10, 7), SWI_F32(9, 7), SWI_U8(10), SWI_F32(9)};
    const sw_type out[] = {SWI_F32_SCALAR, SWI_F32(10, 7), SWI_F32(9, 7), SWI_F32(9)};
    const sw_kernel_info info = {types, out, 4, 4, &attrs, 1, SW_ISA_BASE, 0};
    const sw_cuda_entry *entry = entry_of("linear_ce", -1);
    sw_cuda_queue queue = sw_entry_queue;
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
    const sw_launch l = {.size = sizeof l,
                         .in = in,
                         .n_in = 4,
                         .out = to,
                         .n_out = 4,
                         .scratch = sw_entry_block(bytes, 0),
                         .scratch_bytes = bytes,
                         .attrs = &attrs};
    CU_ASSERT_EQUAL(entry->kernel(&l, &queue), SW_OK);
    CU_ASSERT_EQUAL(plan.launched, 9);
    CU_ASSERT(isfinite(*(const float *)to[0].ptr));
    sw_entry_free();
}

/* What is chosen by it is known when the plan is made. */
static void a_library_hears_of_the_bias(void)
{
    static const sw_cuda_blas blas = {wants, takes};
    const sw_type types[] = {SWI_F32(5, 7), SWI_F32(9, 7), SWI_F32(9)};
    const sw_type y = SWI_F32(5, 9);
    const sw_cuda_entry *entry = entry_of("linear", -1);
    sw_cuda_queue queue = sw_entry_queue;
    queue.blas = (void *)(uintptr_t)&blas;
    for (int n_in = 2; n_in < 4; n_in++) {
        const sw_kernel_info info = {types, &y, n_in, 1, NULL, 1, SW_ISA_BASE, 0};
        CU_ASSERT_EQUAL(entry->scratch_bytes(&info, &queue), 100000);
        CU_ASSERT_EQUAL(seen.asked.bias != NULL, n_in == 3);
    }
}

/* Room for own kernels is left where the library makes nothing of a product, and only there. */
static void what_a_library_takes_needs_no_other_room(void)
{
    static const sw_cuda_blas blas = {wants, takes};
    static const size_t wanted[] = {0, 256, SIZE_MAX};
    const sw_cuda_product g = sw_cuda_product_of(20, 12, 400, 400, 1, 12, 1);
    const size_t own = sw_cuda_product_bytes(&g, &sw_entry_queue);
    sw_cuda_queue queue = sw_entry_queue;
    queue.blas = (void *)(uintptr_t)&blas;
    for (int i = 0; i < 3; i++) {
        seen.wanted = wanted[i];
        CU_ASSERT_EQUAL(sw_cuda_product_bytes(&g, &queue), i < 2 ? wanted[i] : own);
    }
    CU_ASSERT(own > 256);
    seen.wanted = 100000;
}

/* A launch whose strides its plan did not know makes do with less scratch, down to none. */
static void less_scratch_gives_the_same_product(void)
{
    sw_cuda_product g = sw_cuda_product_of(20, 12, 400, 400, 1, 12, 1);
    const size_t bytes = sw_cuda_product_bytes(&g, &sw_entry_queue);
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
        CU_ASSERT_EQUAL(sw_cuda_product_run("test", &g, scratch, less, &sw_entry_queue), SW_OK);
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
        CU_ASSERT_EQUAL(sw_cuda_product_run("test", &g, NULL, 0, &sw_entry_queue),
                        SW_UNSUPPORTED);
        SW_CHECK(strstr(sw_last_error(), "2147483648") != NULL, "%s", sw_last_error());
        CU_ASSERT_EQUAL(x, 1.0f);
    }
}

/* ---- product_bound ----------------------------------------------------------------------- */

static void bounds(void)
{
    static const int64_t sizes[][2] = {
        {1, 1}, {7, 300}, {20000, 3}, {40, 8193}, {30000, 17000}};
    static const float odd[] = {0.0f, -1e30f, INFINITY, -INFINITY, NAN, -NAN};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
            for (int which = 0; which < 3; which++) {
                const int64_t *n = sizes[s], all = n[0] + n[1];
                const swi_bound_attrs attrs = {77, which == 2 ? all - 1 : all};
                const sw_type y = {SW_F64, SW_PLAIN, {0, {0}}};
                sw_entry_run r = begin("bound", &sw_op_product_bound, -1);
                r.attrs = &attrs;
                for (int i = 0; i < 2; i++) {
                    const sw_type t = {SW_F32, SW_PLAIN, {1, {n[i]}}};
                    r.in[r.n_in++] = numbers(t, (const int64_t[]){1}, (uint32_t)i);
                    if (which == i)
                        ((float *)r.in[i].ptr)[n[i] - 1 - n[i] / 3] = odd[k];
                }
                r.out[0] = sw_entry_buffer(&y, 0);
                sw_entry_compare(&r);
                sw_entry_free();
            }
}

static const sw_test tests[] = {
    {"factors lie either way", factors_lie_either_way},
    {"more rows than a band", more_rows_than_a_band},
    {"axes in front", axes_in_front},
    {"columns of a larger gradient", columns_of_a_larger_gradient},
    {"a library is asked first", a_library_is_asked_first},
    {"a library hears of the bias", a_library_hears_of_the_bias},
    {"what a library takes needs no other room", what_a_library_takes_needs_no_other_room},
    {"what chunks launch was asked for", what_chunks_launch_was_asked_for},
    {"less scratch gives the same product", less_scratch_gives_the_same_product},
    {"too large a product is refused", too_large_a_product_is_refused},
    {"bounds", bounds},
};
SW_SUITE("gemm", tests)
