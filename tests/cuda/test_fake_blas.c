/* cuBLASLt of the fake runtime: products against float64, and what it refuses. */
#include "tests/cuda/test_fake.h"
#include <cublasLt.h>

SW_TESTS("fake blas")

#define MOST 4096

typedef struct {
    int m, n, k, batch, ta, tb, epilogue;
    float alpha, beta;
    cublasComputeType_t compute;
} shape;

static struct {
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c, d;
    cublasLtMatmulPreference_t pref;
    cublasLtMatmulHeuristicResult_t found[2];
    int n_found;
    cudaStream_t s;
    float *host[4], *dev[4]; /* A, B, C, bias; pinned */
    float *out, *dev_out, *workspace;
} t;

static float *pinned(size_t n)
{
    void *at = NULL;
    GOOD(cudaHostAlloc(&at, n * sizeof(float), 0));
    return at;
}
static float *device(size_t n)
{
    void *at = NULL;
    GOOD(cudaMalloc(&at, n * sizeof(float)));
    return at;
}

static cublasLtMatrixLayout_t layout(int rows, int cols, int batch)
{
    cublasLtMatrixLayout_t l = NULL;
    const int64_t stride = (int64_t)rows * cols;
    GOOD(cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, (uint64_t)rows, (uint64_t)cols, rows));
    GOOD(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                          sizeof batch));
    GOOD(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &stride, sizeof stride));
    return l;
}

static void give_back(void *unused)
{
    GOOD(cublasLtMatrixLayoutDestroy(t.a));
    GOOD(cublasLtMatrixLayoutDestroy(t.b));
    GOOD(cublasLtMatrixLayoutDestroy(t.c));
    GOOD(cublasLtMatrixLayoutDestroy(t.d));
    GOOD(cublasLtMatmulDescDestroy(t.desc));
    GOOD(cublasLtMatmulPreferenceDestroy(t.pref));
    GOOD(cublasLtDestroy(t.lt));
    CU_ASSERT_EQUAL(living().blas, 0);
}

/* A card with operands, a description of the product, and what the heuristic finds. */
static void set_up_on(const sw_fake_card *card, const shape *s, uint64_t workspace)
{
    fresh(card, 0);
    sw_dice dice = {7};
    GOOD(cublasLtCreate(&t.lt));
    t.s = new_stream();
    for (int i = 0; i < 4; i++) {
        t.host[i] = pinned(MOST);
        t.dev[i] = device(MOST);
        for (int k = 0; k < MOST; k++)
            t.host[i][k] = (float)sw_dice_below(&dice, 2000) / 1000.0f - 1.0f;
        GOOD(cudaMemcpyAsync(t.dev[i], t.host[i], MOST * 4, cudaMemcpyHostToDevice, t.s));
    }
    t.out = pinned(MOST);
    t.dev_out = device(MOST);
    t.workspace = device(MOST);
    const int32_t ta = s->ta, tb = s->tb, epilogue = s->epilogue;
    GOOD(cublasLtMatmulDescCreate(&t.desc, s->compute, CUDA_R_32F));
    const struct {
        cublasLtMatmulDescAttributes_t attr;
        const void *from;
        size_t bytes;
    } set[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &ta, 4},
               {CUBLASLT_MATMUL_DESC_TRANSB, &tb, 4},
               {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4},
               {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &t.dev[3], sizeof t.dev[3]}};
    for (size_t j = 0; j < sizeof set / sizeof *set; j++)
        GOOD(cublasLtMatmulDescSetAttribute(t.desc, set[j].attr, set[j].from, set[j].bytes));
    t.a = layout(s->ta ? s->k : s->m, s->ta ? s->m : s->k, s->batch);
    t.b = layout(s->tb ? s->n : s->k, s->tb ? s->k : s->n, s->batch);
    t.c = layout(s->m, s->n, s->batch);
    t.d = layout(s->m, s->n, s->batch);
    GOOD(cublasLtMatmulPreferenceCreate(&t.pref));
    GOOD(cublasLtMatmulPreferenceSetAttribute(t.pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace, sizeof workspace));
    for (int i = 0; i < 4; i++)
        GOOD(cublasLtMatmulPreferenceSetAttribute(
            t.pref,
            (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES +
                                                   i),
            &(uint32_t){16}, sizeof(uint32_t)));
    sw_after(give_back, &t);
}

static void set_up(const shape *s, uint64_t workspace)
{
    set_up_on(NULL, s, workspace);
}

static cublasStatus_t find_algorithms(void)
{
    return cublasLtMatmulAlgoGetHeuristic(t.lt, t.desc, t.a, t.b, t.c, t.d, t.pref, 2, t.found,
                                          &t.n_found);
}

static cublasStatus_t multiply(const shape *s, const float *a, int which, void *workspace,
                               size_t bytes)
{
    return cublasLtMatmul(t.lt, t.desc, &s->alpha, a, t.a, t.dev[1], t.b, &s->beta, t.dev[2],
                          t.c, t.dev_out, t.d, &t.found[which].algo, workspace, bytes, t.s);
}

static double expected(const shape *s, int row, int col, int batch)
{
    const size_t at_a = (size_t)batch * s->m * s->k, at_b = (size_t)batch * s->k * s->n;
    double sum = 0.0;
    for (int i = 0; i < s->k; i++)
        sum += (double)t.host[0][at_a + (s->ta ? i + row * s->k : row + i * s->m)] *
               (double)t.host[1][at_b + (s->tb ? col + i * s->n : i + col * s->k)];
    const size_t place = row + col * s->m;
    sum = (double)s->alpha * sum +
          (double)s->beta * (double)t.host[2][(size_t)batch * s->m * s->n + place];
    if ((s->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0)
        sum += (double)t.host[3][row];
    return sum;
}

static void compare(const shape *s, int which)
{
    const size_t all = (size_t)s->m * s->n * s->batch;
    GOOD(multiply(s, t.dev[0], which, t.workspace, MOST * 4));
    GOOD(cudaMemcpyAsync(t.out, t.dev_out, all * 4, cudaMemcpyDeviceToHost, t.s));
    for (int batch = 0; batch < s->batch; batch++)
        for (int row = 0; row < s->m; row++)
            for (int col = 0; col < s->n; col++) {
                const double want = expected(s, row, col, batch);
                const size_t place = (size_t)batch * s->m * s->n + row + col * s->m;
                SW_CHECK(fabs((double)t.out[place] - want) < 1e-4, "(%d, %d, %d) is %g for %g",
                         batch, row, col, (double)t.out[place], want);
            }
    no_violation();
}

SW_TEST("products are right")
{
    static const shape shapes[] = {
        {5, 7, 3, 1, 0, 0, 1, 1.0f, 0.0f, CUBLAS_COMPUTE_32F},
        {5, 7, 70, 1, 1, 0, 1, 1.0f, 1.0f, CUBLAS_COMPUTE_32F},
        {8, 4, 9, 3, 0, 1, 1, 0.5f, 2.0f, CUBLAS_COMPUTE_32F_PEDANTIC},
        {6, 3, 65, 2, 1, 1, CUBLASLT_EPILOGUE_BIAS, 1.0f, 0.0f, CUBLAS_COMPUTE_32F},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        set_up(s, MOST);
        GOOD(find_algorithms());
        CU_ASSERT_EQUAL(t.n_found, s->k >= 64 ? 2 : 1);
        for (int which = 0; which < t.n_found; which++)
            compare(s, which);
        CU_ASSERT_EQUAL(counted().matmuls_run, (uint64_t)t.n_found);
        sw_now(&t);
    }
}

SW_TEST("TF32 is another number")
{
    shape s = {8, 8, 32, 1, 0, 0, 1, 1.0f, 0.0f, CUBLAS_COMPUTE_32F_FAST_TF32};
    set_up(&s, 0);
    GOOD(find_algorithms());
    GOOD(multiply(&s, t.dev[0], 0, NULL, 0));
    double most = 0.0;
    static float got[64];
    sw_fake()->peek(got, t.dev_out, sizeof got);
    for (int i = 0; i < 64; i++) {
        const double off = fabs((double)got[i] - expected(&s, i % 8, i / 8, 0));
        most = off > most ? off : most;
    }
    SW_CHECK(most > 1e-5 && most < 1e-2, "%g", most);
}

SW_TEST("what does not fit is refused")
{
    const shape s = {4, 4, 64, 1, 0, 0, 1, 1.0f, 0.0f, CUBLAS_COMPUTE_32F};
    set_up(&s, MOST);
    GOOD(find_algorithms());
    CU_ASSERT_EQUAL_FATAL(t.n_found, 2);
    CU_ASSERT_EQUAL(t.found[0].workspaceSize, 256);
    CU_ASSERT_EQUAL(t.found[1].workspaceSize, 0);
    GOOD(multiply(&s, t.dev[0], 0, t.workspace, 256));
    GIVES(CUBLAS_STATUS_INVALID_VALUE, multiply(&s, t.dev[0], 0, t.workspace, 255));
    GIVES(CUBLAS_STATUS_INVALID_VALUE, multiply(&s, t.dev[0], 0, NULL, 256));
    GIVES(CUBLAS_STATUS_INVALID_VALUE, multiply(&s, t.dev[0], 0, t.workspace + 1, 256));
    GOOD(multiply(&s, t.dev[0], 1, NULL, 0));
    /* An address that the algorithm was not chosen for. */
    GIVES(CUBLAS_STATUS_INVALID_VALUE, multiply(&s, t.dev[0] + 1, 1, NULL, 0));
    no_violation();
    /* It uses its workspace. */
    GOOD(cudaMemsetAsync(t.workspace, 0, 512, t.s));
    GOOD(multiply(&s, t.dev[0], 0, t.workspace, 256));
    CU_ASSERT(isnan(first_of(t.workspace)) && first_of(t.workspace + 64) == 0.0f);
    /* An algorithm of another product. */
    const int32_t bias = CUBLASLT_EPILOGUE_BIAS, relu = CUBLASLT_EPILOGUE_RELU;
    GOOD(cublasLtMatmulDescSetAttribute(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, 4));
    GIVES(CUBLAS_STATUS_INVALID_VALUE, multiply(&s, t.dev[0], 1, NULL, 0));
    GIVES(CUBLAS_STATUS_INVALID_VALUE,
          cublasLtMatmulDescSetAttribute(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, 8));
    GOOD(cublasLtMatmulDescSetAttribute(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &relu, 4));
    GIVES(CUBLAS_STATUS_NOT_SUPPORTED, find_algorithms());
    CU_ASSERT_EQUAL(t.n_found, 0);
    no_violation();
    /* A matrix that leaves its memory. */
    GOOD(cublasLtMatmulDescSetAttribute(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, 4));
    GOOD(find_algorithms());
    GIVES(CUBLAS_STATUS_INVALID_VALUE, multiply(&s, t.dev[0] + MOST - 16, 1, NULL, 0));
    violation_says("matrix A leaves");
}

SW_TEST("a card may have no products")
{
    const shape s = {4, 4, 64, 1, 0, 0, 1, 1.0f, 0.0f, CUBLAS_COMPUTE_32F};
    set_up_on(&(sw_fake_card){.no_products = true}, &s, MOST);
    GIVES(CUBLAS_STATUS_NOT_SUPPORTED, find_algorithms());
    CU_ASSERT_EQUAL(t.n_found, 0);
}

SW_TEST("products can be captured")
{
    const shape s = {4, 4, 8, 1, 0, 0, 1, 1.0f, 0.0f, CUBLAS_COMPUTE_32F};
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    set_up(&s, 0);
    GOOD(find_algorithms());
    GOOD(cudaStreamBeginCapture(t.s, cudaStreamCaptureModeThreadLocal));
    GOOD(multiply(&s, t.dev[0], 0, NULL, 0));
    GOOD(cudaStreamEndCapture(t.s, &graph));
    CU_ASSERT(isnan(first_of(t.dev_out)));
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    sw_now(&t); /* the graph has all it needs */
    GOOD(cudaGraphLaunch(exec, t.s));
    CU_ASSERT(!isnan(first_of(t.dev_out)));
    const sw_fake_launch *l;
    CU_ASSERT_EQUAL_FATAL(sw_fake()->launches(&l), 1);
    CU_ASSERT(strcmp(l->kernel, "cublasLtMatmul") == 0 && l->captured && l->n >= 4);
    CU_ASSERT(counted().matmuls == 0 && counted().matmuls_run == 1);
}
