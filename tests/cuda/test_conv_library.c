/* Convolutions where the queue has a library for products: it is handed the right matrices, and
 * own kernels make what it leaves. Under the emulator: the library is planted here. And own
 * kernels where weights are infinite. */
#include "kernels/attrs.h"
#include "kernels/cuda/gemm.h"
#include "kernels/rng.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int asked, made;
    bool makes;
} library;

static size_t wants(const sw_cuda_queue *queue, const sw_cuda_product *g)
{
    (void)queue, (void)g;
    library.asked++;
    return 640;
}

/* One result, plainly. */
static void multiply(const sw_products *p, float *c, const float *a, const float *b)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float sum = p->accumulate ? c[i * p->n + j] : 0.0f;
            for (int64_t k = 0; k < p->k; k++)
                sum += a[i * p->a_row + k * p->a_col] * b[k * p->b_row + j * p->b_col];
            c[i * p->n + j] = sum;
        }
}

static sw_status makes(const sw_cuda_queue *queue, const sw_cuda_product *g, void *scratch,
                       size_t bytes)
{
    const sw_products *p = &g->p;
    const int64_t first = p->n_results > 0 ? p->result[0] : 1;
    const int64_t second = p->n_results > 1 ? p->result[1] : 1;
    (void)queue;
    CU_ASSERT(scratch != NULL && bytes >= 640 && p->n_sums == 0 && p->n_results <= 2);
    if (!library.makes)
        return SW_UNSUPPORTED;
    library.made++;
    for (int64_t i = 0; i < first; i++)
        for (int64_t j = 0; j < second; j++) {
            const int64_t a = i * p->result_a[0] + (second > 1 ? j * p->result_a[1] : 0);
            const int64_t b = i * p->result_b[0] + (second > 1 ? j * p->result_b[1] : 0);
            multiply(p, p->c + (i * second + j) * p->m * p->n, p->a + a, p->b + b);
        }
    return SW_OK;
}

static sw_buffer numbers(const sw_type *type, uint32_t stream)
{
    sw_buffer b = sw_entry_buffer(type, 0);
    sw_rng_normal(b.ptr, 0, sw_type_elements(type), 1, 2, stream, 0);
    return b;
}

/* The entry with these inputs; the output begins with the same numbers each time. */
static sw_buffer launched(int which, const sw_buffer *in, int n_in, const sw_type *out,
                          const swi_conv_attrs *attrs, uint32_t add, const sw_cuda_queue *queue)
{
    const sw_cuda_entry *entry = sw_side_entry("conv2d", which);
    sw_type types[3];
    const sw_buffer to = numbers(out, 9);
    for (int i = 0; i < n_in; i++)
        types[i] = in[i].type;
    const sw_kernel_info info = {types, out, n_in, 1, attrs, 1, SW_ISA_BASE, add};
    const size_t bytes = entry->scratch_bytes(&info, queue);
    const sw_launch l = {.size = sizeof l,
                         .in = in,
                         .n_in = n_in,
                         .out = &to,
                         .n_out = 1,
                         .scratch = sw_entry_block(bytes, 0),
                         .scratch_bytes = bytes,
                         .attrs = attrs,
                         .accumulate = add};
    CU_ASSERT_EQUAL(entry->kernel(&l, queue), SW_OK);
    return to;
}

/* With a library and without, of y or dx; `calls`: of the library. */
static void same_with(int which, const sw_buffer *in, int n_in, const sw_type *out,
                      const swi_conv_attrs *attrs, uint32_t add, int calls)
{
    static const sw_cuda_blas blas = {wants, makes};
    sw_cuda_queue queue = *sw_side_queue();
    const sw_buffer own = launched(which, in, n_in, out, attrs, add, &queue);
    queue.blas = (void *)(uintptr_t)&blas;
    for (int take = 0; take < 2; take++) {
        memset(&library, 0, sizeof library);
        library.makes = take;
        const sw_buffer with = launched(which, in, n_in, out, attrs, add, &queue);
        CU_ASSERT_EQUAL(library.made, take ? calls : 0);
        CU_ASSERT_EQUAL(library.asked, calls);
        for (int64_t i = 0; i < sw_type_elements(out); i++) {
            const float a = ((const float *)with.ptr)[i], b = ((const float *)own.ptr)[i];
            if (!SW_CHECK(fabsf(a - b) < 1e-5f, "%d of kernel %d: %g for %g", (int)i, which,
                          (double)a, (double)b))
                break;
        }
    }
}

static void kernels_of_one_place_are_products(void)
{
    static const swi_conv_attrs whole = {1, 0, 1, 1}, halves = {1, 0, 1, 2};
    static const swi_conv_attrs strided = {2, 0, 1, 1};
    const sw_type x = F32(3, 4, 5, 8), y = F32(3, 6, 5, 8), b = F32(6);
    const sw_type w = F32(6, 4, 1, 1), w2 = F32(6, 2, 1, 1);
    const sw_type small_x = F32(3, 4, 5, 6), small_y = F32(3, 6, 5, 6);
    const sw_type half_y = F32(3, 6, 3, 4);
    const sw_buffer in[] = {numbers(&x, 1), numbers(&w, 2), numbers(&b, 3)};
    const sw_buffer groups[] = {in[0], numbers(&w2, 2)};
    const sw_buffer back[] = {in[1], numbers(&y, 4)}, back_groups[] = {groups[1], back[1]};
    const sw_buffer small[] = {numbers(&small_x, 1), in[1]};
    same_with(SW_CUDA_FORWARD, in, 2, &y, &whole, 0, 1);
    same_with(SW_CUDA_FORWARD, groups, 2, &y, &halves, 0, 1);
    same_with(0, back, 2, &x, &whole, 0, 1);
    same_with(0, back, 2, &x, &whole, 1, 1);
    same_with(0, back_groups, 2, &x, &halves, 1, 1);
    same_with(SW_CUDA_FORWARD, in, 3, &y, &whole, 0, 0);
    same_with(SW_CUDA_FORWARD, small, 2, &small_y, &whole, 0, 0);
    same_with(SW_CUDA_FORWARD, in, 2, &half_y, &strided, 0, 0);
    sw_entry_free();
}

/* Depthwise is own kernels'; kernels of one place are products, but for those with a bias or of
 * small planes, and but for the gradient of their weights. */
static void products_are_asked_for_where_they_serve(void)
{
    static const sw_cuda_blas blas = {wants, makes};
    static const swi_conv_attrs whole = {1, 0, 1, 1}, halves = {1, 0, 1, 2}, all = {1, 1, 1, 4};
    static const sw_type y = F32(3, 4, 5, 8), small = F32(3, 4, 5, 6);
    static const sw_type one = F32(4, 4, 1, 1), two = F32(4, 2, 1, 1);
    static const sw_type deep = F32(4, 1, 3, 3), bias = F32(4);
    static const struct {
        const sw_type *x, *w;
        const swi_conv_attrs *attrs;
        int which, n_in, products;
    } cases[] = {{&y, &one, &whole, SW_CUDA_FORWARD, 2, 1},
                 {&y, &one, &whole, SW_CUDA_FORWARD, 3, 0},
                 {&y, &one, &whole, 0, 2, 1},
                 {&y, &one, &whole, 2, 2, 0},
                 {&small, &one, &whole, SW_CUDA_FORWARD, 2, 0},
                 {&small, &one, &whole, 0, 2, 0},
                 {&y, &two, &halves, SW_CUDA_FORWARD, 2, 1},
                 {&y, &two, &halves, 0, 2, 1},
                 {&y, &deep, &all, SW_CUDA_FORWARD, 2, 0},
                 {&y, &deep, &all, SW_CUDA_FORWARD, 3, 0},
                 {&y, &deep, &all, 0, 2, 0},
                 {&y, &deep, &all, 2, 2, 0}};
    sw_cuda_queue queue = *sw_side_queue();
    queue.blas = (void *)(uintptr_t)&blas;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_buffer x = numbers(cases[i].x, 1), w = numbers(cases[i].w, 2);
        const int which = cases[i].which;
        const sw_buffer in[] = {which == 0 ? w : x, which == SW_CUDA_FORWARD ? w : x,
                                numbers(&bias, 3)};
        memset(&library, 0, sizeof library);
        library.makes = true;
        launched(which, in, cases[i].n_in, which == 2 ? cases[i].w : cases[i].x, cases[i].attrs,
                 0, &queue);
        SW_CHECK(library.asked == cases[i].products && library.made == cases[i].products,
                 "case %d: %d products", (int)i, library.made);
        sw_entry_free();
    }
}

/* Nothing after the last term of a sum is a term: an infinite weight is not multiplied by zeros
 * there. */
static void infinite_weights_make_infinite_sums(void)
{
    static const swi_conv_attrs attrs = {1, 0, 1, 1};
    const sw_type x = F32(1, 3, 5, 5), w = F32(2, 3, 1, 1), y = F32(1, 2, 5, 5);
    const sw_buffer in[] = {numbers(&x, 1), numbers(&w, 2)};
    float *at = in[0].ptr, *weights = in[1].ptr;
    for (int i = 0; i < 75; i++)
        at[i] = fabsf(at[i]) + 1.0f;
    weights[0] = INFINITY;
    const sw_buffer out = launched(SW_CUDA_FORWARD, in, 2, &y, &attrs, 0, sw_side_queue());
    for (int i = 0; i < 50; i++) {
        const float got = ((const float *)out.ptr)[i];
        SW_CHECK(i < 25 ? got == INFINITY : isfinite(got), "%d: %g", i, (double)got);
    }
    sw_entry_free();
}

static const sw_test tests[] = {
    {"infinite weights make infinite sums", infinite_weights_make_infinite_sums},
    {"kernels of one place are products", kernels_of_one_place_are_products},
    {"products are asked for where they serve", products_are_asked_for_where_they_serve},
};
SW_SUITE("conv by a library", tests)
