/* Products by cuBLASLt. The library counts columns first, so that it is given C^T = B^T A^T.
 *
 * How a product is made is asked once for each shape, when a plan is made, and kept:
 * descriptors and the algorithm in a table, where launches find them. They allocate nothing,
 * and a product is always made the same way. Its workspace is part of the launch's scratch; of
 * the ways to add what was summed apart, those that add in place are left out.
 *
 * Strides that a plan did not know are asked for at their first launch, with the scratch that
 * is there. Products that the library cannot do, or that begin at an odd address, are left to
 * gemm.cu; for factors of bf16 an algorithm is asked that takes the address. */
#include "kernels/cuda/gemm.h"
#include "runtime/device/cuda/host.h"
#include <cublasLt.h>
#include <string.h>

enum {
    FIRST_RECORDS = 64,
    ALIGN_WORKSPACE = 256,
    ALIGN_SCRATCH = 64,  /* of what a launch is given */
    ALIGN_OPERANDS = 16, /* what algorithms are chosen for, but of bf16 at odd addresses */
    MOST_WORKSPACE = 32 << 20
};

/* A factor as the library sees it: `rows` side by side, columns `step` apart. */
typedef struct {
    int64_t rows, cols, step, batch_step;
    int64_t turned; /* its lines are its columns */
} factor;

/* All that an algorithm is chosen by: without holes, so that bytes can be compared. */
typedef struct {
    factor a, b;
    int64_t m, n, k, batch, c_row;
    int64_t bias, tf32, halves, half_c;
    uint64_t align; /* of all operands: 16, or less where factors are bf16 */
    uint64_t limit; /* of the workspace */
} shape;

typedef struct {
    shape shape;
    bool found; /* false: the library has no algorithm, or failed */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
} record;

typedef struct {
    sw_cuda_blas kernels; /* first: what gemm.cu sees */
    cublasLtHandle_t handle;
    record *records; /* adding moves them */
    int n, cap;
    bool full; /* there was no memory: nothing is added any more, so that answers stay */
} blas;

static sw_status fail(cublasStatus_t status, const char *function, const shape *s)
{
    const sw_status kind = status == CUBLAS_STATUS_ALLOC_FAILED ? SW_NOMEM : SW_DEVICE;
    (void)cudaGetLastError(); /* so that it is not found again after the next launch */
    if (s == NULL)
        return sw_cuda_its_host.fail(kind, __FILE__, __LINE__, "%s: %s", function,
                                     cublasLtGetStatusString(status));
    return sw_cuda_its_host.fail(
        kind, __FILE__, __LINE__, "%s: %lld products of (%lld, %lld) by (%lld, %lld): %s",
        function, (long long)s->batch, (long long)s->m, (long long)s->k, (long long)s->k,
        (long long)s->n, cublasLtGetStatusString(status));
}

/* ---- shapes ------------------------------------------------------------------------------ */

/* Lines lie along m or n, depth along k; false: neither lies side by side. */
static bool factor_of(factor *f, int64_t lines, int64_t line, int64_t depth, int64_t deep)
{
    f->turned = !(line == 1 || lines == 1);
    if (f->turned && deep != 1 && depth != 1)
        return false;
    f->rows = f->turned ? depth : lines;
    f->cols = f->turned ? lines : depth;
    f->step = f->cols == 1 ? f->rows : f->turned ? line : deep;
    return f->step >= f->rows && f->rows <= INT32_MAX && f->cols <= INT32_MAX;
}

/* false: none of the library's. */
static bool shape_of(shape *s, const sw_cuda_queue *queue, const sw_cuda_product *g,
                     uintptr_t align, size_t limit)
{
    const sw_products *p = &g->p;
    memset(s, 0, sizeof *s);
    s->m = p->m, s->n = p->n, s->k = p->k;
    s->c_row = g->c_row > 0 ? g->c_row : p->n;
    s->batch = p->n_results > 0 ? p->result[0] : 1;
    s->bias = g->bias != NULL;
    s->tf32 = !g->halves && (queue->flags & SW_CUDA_TF32) != 0;
    s->halves = g->halves;
    s->half_c = g->half_c;
    s->align = align;
    s->limit = limit;
    if (p->n_results > 1 || p->n_sums > 0 || p->m == 0 || p->n == 0 || p->k == 0 ||
        s->batch == 0 || s->batch > INT32_MAX)
        return false;
    if (!factor_of(&s->a, p->m, p->a_row, p->k, p->a_col) ||
        !factor_of(&s->b, p->n, p->b_col, p->k, p->b_row))
        return false;
    s->a.batch_step = s->batch > 1 ? p->result_a[0] : 0;
    s->b.batch_step = s->batch > 1 ? p->result_b[0] : 0;
    return true;
}

/* ---- what is kept of a shape ------------------------------------------------------------- */

static record *known(const blas *b, const shape *s)
{
    for (int i = 0; i < b->n; i++)
        if (memcmp(&b->records[i].shape, s, sizeof *s) == 0)
            return &b->records[i];
    return NULL;
}

/* Zeros after the shape; NULL: the table is full. It grows while plans are made: the search
 * for a batch that fits plans hundreds of times, and each plan has to learn what a run would
 * find. */
static record *add(blas *b, const shape *s)
{
    if (b->n == b->cap) {
        const int cap = b->cap > 0 ? 2 * b->cap : FIRST_RECORDS;
        void *at;
        b->full = b->full || b->cap > INT32_MAX / 4 ||
                  sw_cuda_its_host.alloc(&at, (size_t)cap * sizeof(record)) != SW_OK;
        if (b->full)
            return NULL;
        if (b->n > 0) {
            memcpy(at, b->records, (size_t)b->n * sizeof(record));
            sw_cuda_its_host.free(b->records, (size_t)b->cap * sizeof(record));
        }
        b->records = at;
        b->cap = cap;
    }
    record *r = &b->records[b->n++];
    r->shape = *s;
    return r;
}

static cublasStatus_t set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what,
                          const void *value, size_t bytes)
{
    return cublasLtMatmulDescSetAttribute(product, what, value, bytes);
}

/* The left factor of the library is B, the right one A. */
static cublasStatus_t describe_product(record *r)
{
    const shape *s = &r->shape;
    const cublasOperation_t left = s->b.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t right = s->a.turned ? CUBLAS_OP_N : CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue =
        s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    /* No one reads there: alignment is what is said by it. */
    const void *const bias = (const void *)(uintptr_t)ALIGN_OPERANDS;
    cublasStatus_t e = cublasLtMatmulDescCreate(
        &r->product, s->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = set(r->product, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = set(r->product, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = set(r->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (e == CUBLAS_STATUS_SUCCESS && s->bias)
        e = set(r->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    return e;
}

static cublasStatus_t describe(cublasLtMatrixLayout_t *out, const factor *f, int64_t batch,
                               int64_t half)
{
    const int32_t n = (int32_t)batch;
    cublasStatus_t e =
        cublasLtMatrixLayoutCreate(out, half != 0 ? CUDA_R_16BF : CUDA_R_32F, (uint64_t)f->rows,
                                   (uint64_t)f->cols, f->step);
    if (e == CUBLAS_STATUS_SUCCESS && batch > 1)
        e = cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n,
                                             sizeof n);
    if (e == CUBLAS_STATUS_SUCCESS && batch > 1)
        e = cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &f->batch_step, sizeof f->batch_step);
    return e;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, const shape *s)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, align = (uint32_t)s->align;
    cublasStatus_t e = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &s->limit, sizeof s->limit);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    for (int i = 0; i < 4 && e == CUBLAS_STATUS_SUCCESS; i++)
        e = cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &align, sizeof align);
    return e;
}

/* The first of the library's list. */
static cublasStatus_t choose(const blas *b, record *r)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int n = 0;
    cublasStatus_t e = cublasLtMatmulPreferenceCreate(&preference);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = prefer(preference, &r->shape);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulAlgoGetHeuristic(b->handle, r->product, r->b, r->a, r->c, r->c,
                                           preference, 1, &best, &n);
    if (e == CUBLAS_STATUS_SUCCESS && n > 0 && best.state == CUBLAS_STATUS_SUCCESS &&
        best.workspaceSize <= r->shape.limit) {
        r->found = true;
        r->algorithm = best.algo;
        r->workspace = best.workspaceSize;
    }
    if (preference != NULL)
        (void)cublasLtMatmulPreferenceDestroy(preference);
    return e;
}

/* The record of a shape, made where there is none yet; NULL: the table is full. Where the
 * library fails too, what was said when a plan was made holds for its launches. */
static const record *find(blas *b, const shape *s)
{
    const factor c = {s->n, s->m, s->c_row, s->m * s->n, 0};
    record *r = known(b, s);
    if (r != NULL)
        return r;
    r = add(b, s);
    if (r == NULL)
        return NULL;
    cublasStatus_t e = describe_product(r);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = describe(&r->a, &s->a, s->batch, s->halves);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = describe(&r->b, &s->b, s->batch, s->halves);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = describe(&r->c, &c, s->batch, s->half_c);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = choose(b, r);
    if (e != CUBLAS_STATUS_SUCCESS)
        r->found = false;
    return r;
}

/* ---- what kernels call ------------------------------------------------------------------- */

static size_t product_bytes(const sw_cuda_queue *queue, const sw_cuda_product *g)
{
    blas *b = queue->blas;
    shape s;
    const record *r =
        shape_of(&s, queue, g, ALIGN_OPERANDS, MOST_WORKSPACE) ? find(b, &s) : NULL;
    if (r == NULL || !r->found)
        return SIZE_MAX;
    /* Of a scratch that is less aligned, so that it fits. */
    return r->workspace > 0 ? r->workspace + ALIGN_WORKSPACE - ALIGN_SCRATCH : 0;
}

static sw_status launch(const blas *b, const record *r, const sw_cuda_queue *queue,
                        const sw_cuda_product *g, void *workspace)
{
    const float alpha = 1.0f, beta = g->p.accumulate ? 1.0f : 0.0f;
    cublasStatus_t e = CUBLAS_STATUS_SUCCESS;
    if (sw_cuda_states(queue))
        return SW_OK;
    if (g->bias != NULL)
        e = set(r->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmul(b->handle, r->product, &alpha, g->p.b, r->b, g->p.a, r->a, &beta,
                           g->p.c, r->c, g->p.c, r->c, &r->algorithm, workspace, r->workspace,
                           (cudaStream_t)queue->stream);
    return e == CUBLAS_STATUS_SUCCESS ? SW_OK : fail(e, "cublasLtMatmul", &r->shape);
}

static sw_status product_run(const sw_cuda_queue *queue, const sw_cuda_product *g,
                             void *scratch, size_t bytes)
{
    blas *b = queue->blas;
    shape s;
    const size_t skip = -(uintptr_t)scratch % ALIGN_WORKSPACE;
    const size_t capacity = bytes > skip ? bytes - skip : 0;
    const uintptr_t operands =
        (uintptr_t)g->p.a | (uintptr_t)g->p.b | (uintptr_t)g->p.c | (uintptr_t)g->bias;
    const uintptr_t low = (operands | ALIGN_OPERANDS) & -(operands | ALIGN_OPERANDS);
    if ((low < ALIGN_OPERANDS && !g->halves) || !shape_of(&s, queue, g, low, MOST_WORKSPACE))
        return SW_UNSUPPORTED;
    const record *r = known(b, &s);
    if (r == NULL || (r->found && r->workspace > capacity)) {
        s.limit = capacity < MOST_WORKSPACE ? capacity : MOST_WORKSPACE;
        r = find(b, &s);
    }
    if (r == NULL || !r->found)
        return SW_UNSUPPORTED;
    return launch(b, r, queue, g, r->workspace > 0 ? (unsigned char *)scratch + skip : NULL);
}

sw_status sw_cuda_blas_create(void **out)
{
    void *capacity;
    SW_TRY(sw_cuda_its_host.alloc(&capacity, sizeof(blas)));
    blas *b = capacity;
    b->kernels = (sw_cuda_blas){product_bytes, product_run};
    const cublasStatus_t e = cublasLtCreate(&b->handle);
    if (e != CUBLAS_STATUS_SUCCESS) {
        sw_cuda_its_host.free(b, sizeof *b);
        return fail(e, "cublasLtCreate", NULL);
    }
    *out = b;
    return SW_OK;
}

void sw_cuda_blas_destroy(void *blas_)
{
    blas *b = blas_;
    if (b == NULL)
        return;
    for (int i = 0; i < b->n; i++) {
        if (b->records[i].product != NULL)
            (void)cublasLtMatmulDescDestroy(b->records[i].product);
        if (b->records[i].a != NULL)
            (void)cublasLtMatrixLayoutDestroy(b->records[i].a);
        if (b->records[i].b != NULL)
            (void)cublasLtMatrixLayoutDestroy(b->records[i].b);
        if (b->records[i].c != NULL)
            (void)cublasLtMatrixLayoutDestroy(b->records[i].c);
    }
    if (b->cap > 0)
        sw_cuda_its_host.free(b->records, (size_t)b->cap * sizeof(record));
    (void)cublasLtDestroy(b->handle);
    sw_cuda_its_host.free(b, sizeof *b);
}

int sw_cuda_blas_version(void)
{
    return (int)cublasLtGetVersion();
}
