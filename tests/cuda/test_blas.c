/* Products by cuBLASLt (runtime/device/cuda/blas.c) over the fake of it: what they are, what is
 * left to own kernels, what is asked when, and what becomes of failures. */
#include "kernels/cuda/gemm.h"
#include "kernels/halves.h"
#include "runtime/device/cuda/host.h"
#include "runtime/stepwell.h"
#include "tests/cuda/test_fake.h"
#include <cublasLt.h>

SW_TESTS("blas")

/* The module's, which is not here. */
size_t sw_fake_host_blocks;
bool sw_fake_host_refuses;
static sw_status host_alloc(void **out, size_t bytes)
{
    if (sw_fake_host_refuses)
        return SW_NOMEM;
    *out = calloc(1, bytes);
    sw_fake_host_blocks++;
    return SW_OK;
}
static void host_free(void *block, size_t bytes)
{
    sw_fake_host_blocks--;
    free(block);
}
sw_cuda_host sw_cuda_its_host = {.fail = sw_error_set, .alloc = host_alloc, .free = host_free};

#define ROOM 8192 /* floats of each operand */
enum { A, B, C, BIAS, OPERANDS };
static struct {
    sw_cuda_queue queue;
    float *host[OPERANDS], *dev[OPERANDS], *out;
    unsigned char *scratch; /* of the card, as an arena gives it */
} t;

static void end(void *unused)
{
    sw_cuda_blas_destroy(t.queue.blas);
    CU_ASSERT_EQUAL(living().blas, 0);
    CU_ASSERT_EQUAL(sw_fake_host_blocks, 0);
    no_violation();
}

static void begin(void)
{
    sw_dice dice = {11};
    void *at = NULL;
    fresh(NULL, 0);
    memset(&t, 0, sizeof t);
    t.queue.stream = new_stream();
    for (int i = 0; i < OPERANDS; i++) {
        GOOD(cudaHostAlloc(&at, ROOM * sizeof(float), 0));
        t.host[i] = at;
        GOOD(cudaMalloc(&at, ROOM * sizeof(float)));
        t.dev[i] = at;
        for (int k = 0; k < ROOM; k++)
            t.host[i][k] = (float)sw_dice_below(&dice, 2000) / 1000.0f - 1.0f;
        GOOD(cudaMemcpyAsync(t.dev[i], t.host[i], ROOM * sizeof(float), cudaMemcpyHostToDevice,
                             t.queue.stream));
    }
    GOOD(cudaHostAlloc(&at, ROOM * sizeof(float), 0));
    t.out = at;
    GOOD(cudaMalloc(&at, 1 << 20));
    t.scratch = (unsigned char *)at + 64;
    CU_ASSERT_EQUAL_FATAL(sw_cuda_blas_create(&t.queue.blas), SW_OK);
    sw_after(end, &t);
}

static size_t asks(const sw_cuda_product *g)
{
    return ((const sw_cuda_blas *)t.queue.blas)->bytes(&t.queue, g);
}
static sw_status runs(const sw_cuda_product *g, size_t bytes)
{
    return ((const sw_cuda_blas *)t.queue.blas)->run(&t.queue, g, t.scratch, bytes);
}

/* ---- products ---------------------------------------------------------------------------- */

typedef struct {
    int m, n, k, batch, gap; /* gap: numbers between lines */
    bool a_turned, b_turned, one_b, bias, add;
    bool halves, half_c;
    int odd; /* numbers of bf16 before A */
} how;

static sw_cuda_product product_of(const how *h)
{
    const int a = (h->a_turned ? h->m : h->k) + h->gap,
              b = (h->b_turned ? h->k : h->n) + h->gap;
    sw_cuda_product g =
        sw_cuda_product_of(h->m, h->n, h->k, h->a_turned ? 1 : a, h->a_turned ? a : 1,
                           h->b_turned ? 1 : b, h->b_turned ? b : 1);
    g.p.a = t.dev[A], g.p.b = t.dev[B], g.p.c = t.dev[C];
    g.bias = h->bias ? t.dev[BIAS] : NULL;
    g.p.accumulate = h->add;
    g.halves = h->halves, g.half_c = h->half_c;
    g.p.a = (const float *)(const void *)((const char *)t.dev[A] + 2 * h->odd);
    if (h->batch > 1) {
        g.p.n_results = 1;
        g.p.result[0] = h->batch;
        g.p.result_a[0] = (int64_t)a * (h->a_turned ? h->k : h->m);
        g.p.result_b[0] = h->one_b ? 0 : (int64_t)b * (h->b_turned ? h->n : h->k);
    }
    return g;
}

static double number(int operand, int64_t i, bool half)
{
    const float x = t.host[operand][i];
    return (double)(half ? sw_bf16_widen(sw_bf16_round(x)) : x);
}

static double expected(const sw_cuda_product *g, int64_t r, int64_t i, int64_t j)
{
    const sw_products *p = &g->p;
    const float *bias = g->bias;
    double sum = bias != NULL ? (double)t.host[BIAS][j] : 0.0;
    if (p->accumulate)
        sum += (double)t.host[C][(r * p->m + i) * p->n + j];
    for (int64_t k = 0; k < p->k; k++)
        sum += number(A, r * p->result_a[0] + i * p->a_row + k * p->a_col, g->halves) *
               number(B, r * p->result_b[0] + k * p->b_row + j * p->b_col, g->halves);
    return sum;
}

static void compare(const char *what, const sw_cuda_product *g)
{
    const sw_products *p = &g->p;
    const int64_t results = p->n_results > 0 ? p->result[0] : 1;
    cudaStream_t s = t.queue.stream;
    GOOD(cudaMemcpyAsync(t.dev[C], t.host[C], ROOM * sizeof(float), cudaMemcpyHostToDevice, s));
    for (int f = A; f <= B; f++) {
        uint16_t *halves = (uint16_t *)(void *)t.out;
        for (int64_t e = 0; e < ROOM && g->halves; e++)
            halves[e] = sw_bf16_round(t.host[f][e]);
        const void *at = f == A ? (const void *)p->a : p->b;
        GOOD(cudaMemcpyAsync((void *)(uintptr_t)at,
                             g->halves ? (const void *)halves : t.host[f],
                             (ROOM - 8) * (g->halves ? sizeof *halves : sizeof(float)),
                             cudaMemcpyHostToDevice, s));
        GOOD(cudaStreamSynchronize(s));
    }
    const uint64_t before = counted().matmuls;
    if (!SW_CHECK(runs(g, asks(g)) == SW_OK, "%s: %s", what, sw_last_error()))
        return;
    CU_ASSERT_EQUAL(counted().matmuls, before + 1);
    GOOD(cudaMemcpyAsync(t.out, t.dev[C], ROOM * sizeof(float), cudaMemcpyDeviceToHost, s));
    GOOD(cudaStreamSynchronize(s));
    for (int64_t e = 0; e < ROOM; e++) {
        const bool made = e < results * p->m * p->n;
        const double want = made ? expected(g, e / (p->m * p->n), e / p->n % p->m, e % p->n)
                                 : (double)t.host[C][e];
        const double is =
            (double)(g->half_c ? sw_bf16_widen(((const uint16_t *)(const void *)t.out)[e])
                               : t.out[e]);
        if (g->half_c && !made)
            return;
        if (!SW_CHECK(fabs(is - want) < (g->half_c ? 0x1p-8 * fabs(want) + 1e-6 : 2e-5),
                      "%s: element %d is %g for %g", what, (int)e, is, want))
            return;
    }
}

SW_TEST("products are what they are")
{
    static const how cases[] = {
        {16, 8, 12, 1, 0, false, true, false, true, false}, /* y = x w^T + b */
        {16, 12, 8, 1, 0, false, false, false, false, true},
        {8, 12, 16, 1, 0, true, false, false, false, true},
        {8, 12, 16, 1, 4, true, true, false, false, false},
        {5, 7, 9, 1, 0, false, false, false, true, true},
        {5, 7, 9, 1, 3, false, true, false, true, true},
        {12, 20, 100, 1, 0, false, true, false, true, true}, /* with workspace */
        {12, 20, 100, 3, 0, true, true, false, false, true},
        {4, 6, 8, 5, 0, false, true, false, true, false},
        {4, 6, 8, 5, 4, true, false, true, false, true}, /* one b for all */
        {1, 6, 8, 1, 0, false, true, false, true, false},
        {6, 1, 8, 1, 0, true, false, false, false, false},
        {6, 9, 1, 1, 0, false, false, false, false, true},
        {1, 1, 1, 1, 0, false, false, false, true, true},
        /* of bf16: y = x w^T + b, dx, dw, batches; at odd addresses too */
        {16, 8, 12, 1, 0, false, true, false, true, false, true, false, 0},
        {16, 12, 8, 1, 0, false, false, false, false, true, true, false, 1},
        {16, 12, 8, 1, 0, false, false, false, false, false, true, true, 0},
        {8, 12, 16, 1, 4, true, true, false, false, false, true, true, 3},
        {12, 20, 100, 3, 0, true, true, false, false, true, true, false, 0},
        {4, 6, 8, 5, 4, true, false, true, false, false, true, true, 4},
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_cuda_product g = product_of(&cases[i]);
        const char *what = sw_textf("case %zu", i);
        compare(what, &g);
    }
}

/* No adjacent elements, more than one batch, sums, odd addresses, empty products. */
SW_TEST("what it cannot do is left")
{
    static const how plain = {8, 8, 8, 1, 0, false, false, false, true, false};
    begin();
    for (int i = 0; i < 12; i++) {
        sw_cuda_product g = product_of(&plain);
        g.p.a_col += i == 0;
        g.p.b_row += i == 1, g.p.b_col += i == 1;
        g.p.n_sums = i == 2, g.p.sum[0] = 2;
        g.p.n_results = i == 3 ? 2 : 0;
        g.p.result[0] = g.p.result[1] = 2;
        g.p.m = i == 4 ? 0 : g.p.m;
        g.p.n = i == 5 ? 0 : g.p.n;
        g.p.k = i == 6 ? 0 : g.p.k;
        g.p.a += i == 7, g.p.b += i == 8, g.p.c += i == 9;
        g.bias += i == 10;
        g.p.a_row = i == 11 ? 4 : g.p.a_row; /* rows that overlap */
        /* A plan does not know addresses. */
        CU_ASSERT_EQUAL(asks(&g), i < 7 || i == 11 ? SIZE_MAX : 0);
        CU_ASSERT_EQUAL(runs(&g, 1 << 16), SW_UNSUPPORTED);
        CU_ASSERT_EQUAL(counted().matmuls, 0);
    }
}

/* A launch takes what its plan found: nothing is asked, made or allocated any more, and the
 * workspace is within the scratch, at a good address. */
SW_TEST("launches find what plans asked")
{
    static const how cases[] = {{12, 20, 100, 1, 0, false, true, false, true, false},
                                {12, 20, 100, 1, 0, false, true, false, false, false},
                                {12, 20, 100, 2, 0, false, true, false, false, false},
                                {12, 20, 100, 1, 4, false, true, false, false, false}};
    const sw_fake_launch *l;
    begin();
    for (int i = 0; i < 4; i++) {
        const sw_cuda_product g = product_of(&cases[i]);
        const uint64_t asked = sw_fake()->calls("cublasLtMatmulAlgoGetHeuristic");
        const size_t bytes = asks(&g);
        CU_ASSERT_EQUAL(asks(&g), bytes);
        CU_ASSERT_EQUAL(sw_fake()->calls("cublasLtMatmulAlgoGetHeuristic"), asked + 1);
        CU_ASSERT(bytes > 12 * 20 * 4 && bytes < 4096);
        const sw_fake_live live = living();
        const size_t blocks = sw_fake_host_blocks;
        for (int add = 0; add < 3; add++) {
            sw_cuda_product with = g;
            with.p.accumulate = add == 1;
            CU_ASSERT_EQUAL(runs(&with, bytes), SW_OK);
        }
        CU_ASSERT_EQUAL(sw_fake()->calls("cublasLtMatmulAlgoGetHeuristic"), asked + 1);
        CU_ASSERT(living().blas == live.blas && sw_fake_host_blocks == blocks);
        const size_t n = sw_fake()->launches(&l);
        CU_ASSERT_EQUAL_FATAL(n, 3 * (size_t)(i + 1));
        const unsigned char *workspace = l[n - 1].pointer[l[n - 1].n - 1];
        CU_ASSERT((uintptr_t)workspace % 256 == 0 && workspace >= t.scratch &&
                  workspace < t.scratch + bytes);
    }
}

/* They are asked for once, with the scratch that is there. */
SW_TEST("strides that no plan knew")
{
    static const how plain = {12, 20, 100, 1, 0, true, true, false, false, false};
    begin();
    sw_cuda_product g = product_of(&plain);
    const size_t bytes = asks(&g);
    for (int less = 0; less < 2; less++) {
        const uint64_t asked = sw_fake()->calls("cublasLtMatmulAlgoGetHeuristic");
        g.p.a_col = 12 + 4;
        for (int i = 0; i < 3; i++)
            CU_ASSERT_EQUAL(runs(&g, less ? 0 : bytes), SW_OK);
        CU_ASSERT_EQUAL(sw_fake()->calls("cublasLtMatmulAlgoGetHeuristic"), asked + 1);
    }
}

/* TF32 only where the queue says so. */
SW_TEST("factors are rounded where it is asked for")
{
    static const how plain = {1, 4, 1, 1, 0, false, false, false, false, false};
    float y[3];
    begin();
    const sw_cuda_product g = product_of(&plain);
    for (int i = 0; i < 3; i++) {
        t.queue.flags = i == 1 ? SW_CUDA_TF32 : 0;
        CU_ASSERT_EQUAL(runs(&g, asks(&g)), SW_OK);
        y[i] = first_of(t.dev[C]);
    }
    CU_ASSERT_EQUAL(y[0], t.host[A][0] * t.host[B][0]);
    CU_ASSERT(y[1] != y[0] && fabsf(y[1] - y[0]) < 2e-3f);
    CU_ASSERT_EQUAL(y[2], y[0]);
}

/* ---- failures ---------------------------------------------------------------------------- */

/* While a plan is made: the product is then left to own kernels, in its launches too. */
SW_TEST("a plan that fails stays without it")
{
    static const how plain = {12, 20, 100, 2, 0, false, true, false, true, false};
    for (uint64_t k = 0;; k++) {
        begin();
        const sw_cuda_product g = product_of(&plain);
        sw_fake()->fail(NULL, k, cudaErrorMemoryAllocation);
        const size_t bytes = asks(&g);
        const char *which = sw_fake()->failed();
        const bool failed = which != NULL && strstr(which, "Destroy") == NULL;
        sw_fake()->fail(NULL, UINT64_MAX, -1);
        CU_ASSERT_EQUAL(bytes == SIZE_MAX, failed);
        CU_ASSERT_EQUAL(runs(&g, 1 << 16), failed ? SW_UNSUPPORTED : SW_OK);
        CU_ASSERT_EQUAL(asks(&g), bytes);
        sw_now(&t);
        if (which == NULL) {
            CU_ASSERT(k > 15);
            break;
        }
    }
}

SW_TEST("a launch that fails says so")
{
    static const how plain = {12, 20, 100, 1, 0, false, true, false, true, false};
    begin();
    const sw_cuda_product g = product_of(&plain);
    const size_t bytes = asks(&g);
    sw_fake()->fail("cublasLtMatmul", 0, cudaErrorLaunchFailure);
    CU_ASSERT_EQUAL(runs(&g, bytes), SW_DEVICE);
    SW_CHECK(strstr(sw_last_error(), "cublasLtMatmul") != NULL &&
                 strstr(sw_last_error(), "(12, 100) by (100, 20)") != NULL,
             "%s", sw_last_error());
    sw_cuda_blas_destroy(t.queue.blas); /* of a broken card */
    CU_ASSERT(living().blas == 0 && sw_fake_host_blocks == 0);
    t.queue.blas = NULL;
    fresh(NULL, 0);
}

SW_TEST("a handle that cannot be made")
{
    static const struct {
        int error;
        sw_status status;
    } cases[] = {{cudaErrorMemoryAllocation, SW_NOMEM}, {cudaErrorNoDevice, SW_DEVICE}};
    for (int i = 0; i < 2; i++) {
        void *blas = &t;
        fresh(NULL, 0);
        sw_fake()->fail("cublasLtCreate", 0, cases[i].error);
        CU_ASSERT_EQUAL(sw_cuda_blas_create(&blas), cases[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "cublasLtCreate"));
        CU_ASSERT(blas == &t && sw_fake_host_blocks == 0 && living().blas == 0);
    }
    sw_cuda_blas_destroy(NULL);
    CU_ASSERT_EQUAL(sw_cuda_blas_version(), (int)cublasLtGetVersion());
}

/* A table grows with what plans ask. Where there is no memory for it, it keeps what it has, and
 * further shapes are own kernels', then and later. */
SW_TEST("a table grows while there is memory")
{
    how h = {1, 1, 4, 1, 0, false, true, false, false, false};
    for (int refused = 0; refused < 2; refused++) {
        int kept = 0;
        begin();
        for (int i = 0; i < 1100; i++) {
            sw_fake_host_refuses = refused && i >= 1000 && i < 1050;
            h.m = i % 100 + 1, h.n = i / 100 + 1;
            const sw_cuda_product g = product_of(&h);
            (void)asks(&g);
            kept += runs(&g, 0) == SW_OK;
        }
        CU_ASSERT_EQUAL(kept, refused ? 1024 : 1100);
        CU_ASSERT_EQUAL(living().blas, 1 + 4 * (uint64_t)kept);
        h.m = h.n = 1;
        const sw_cuda_product g = product_of(&h);
        CU_ASSERT_EQUAL(runs(&g, 0), SW_OK);
        sw_now(&t);
    }
}
