/* cuBLASLt as blas.c uses it, in plain loops: float32 and bf16, columns first, a bias, sums of
 * float32 in the order of k. It refuses a product that it does not know as the library refuses
 * one without an algorithm. */
#include "internal.h"
#include "kernels/halves.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALGO 0x7374657077656c6cu

struct cublasLtContext {
    int card;
};
struct swi_fake_matmul_desc {
    cublasComputeType_t compute;
    int32_t transposed[2], epilogue;
    const void *bias;
};
struct swi_fake_layout {
    uint64_t rows, cols;
    int64_t ld, stride;
    int32_t batch, half;
};
struct swi_fake_preference {
    uint64_t workspace;
    uint32_t alignment[4];
};

typedef struct {
    struct swi_fake_matmul_desc desc;
    struct swi_fake_layout layout[4]; /* A, B, C, D */
    const void *at[3];
    void *d;
    float alpha, beta;
    void *workspace;
    size_t workspace_bytes;
} product;

/* The products that an algorithm serves. */
typedef struct {
    uint64_t magic, workspace, alignment, problem;
} chosen;

static cublasStatus_t status_of(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return CUBLAS_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation:
        return CUBLAS_STATUS_ALLOC_FAILED;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
        return CUBLAS_STATUS_NOT_INITIALIZED;
    case cudaErrorInvalidValue:
        return CUBLAS_STATUS_INVALID_VALUE;
    default:
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}

/* ---- handles and descriptors ------------------------------------------------------------- */

/* The list of all objects, so that a reset finds them; what follows is divisible by 16. */
typedef struct item {
    struct item *next;
    uint64_t *live;
} item;
static item *items;

void *swi_item_new(size_t bytes, uint64_t *live)
{
    item *it = swi_fake_reserve(sizeof *it + bytes);
    it->next = items;
    it->live = live;
    items = it;
    (*live)++;
    return it + 1;
}

static item **place_of(const void *what)
{
    item **at = &items;
    while (*at != NULL && (const void *)(*at + 1) != what)
        at = &(*at)->next;
    if (*at == NULL)
        swi_fake_violation("a handle or descriptor of a library that is not there");
    return at;
}

bool swi_item_there(const void *what)
{
    return *place_of(what) != NULL;
}

void swi_item_end(void *what)
{
    item **at = place_of(what);
    item *it = *at;
    if (it == NULL)
        return;
    *at = it->next;
    (*it->live)--;
    free(it);
}

void swi_item_reset(void)
{
    while (items != NULL)
        swi_item_end(items + 1);
}

static cublasStatus_t make(swi_fake_function function, void **out, size_t bytes)
{
    const cudaError_t error = swi_fake_enter(function);
    if (error == cudaSuccess)
        *out = swi_item_new(bytes, &swi_fake.blas_live);
    (void)swi_fake_leave(cudaSuccess);
    return status_of(error);
}

static cublasStatus_t end(swi_fake_function function, void *it)
{
    const cudaError_t error = swi_fake_enter(function);
    if (it != NULL)
        swi_item_end(it);
    (void)swi_fake_leave(cudaSuccess);
    return status_of(error);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    (void)swi_fake_enter(SWI_FN_cublasLtGetStatusString);
    (void)swi_fake_leave(cudaSuccess);
    switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    }
}

size_t cublasLtGetVersion(void)
{
    (void)swi_fake_enter(SWI_FN_cublasLtGetVersion);
    (void)swi_fake_leave(cudaSuccess);
    return 130000;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cublasLtCreate);
    if (error == cudaSuccess && swi_fake_free_bytes() < SW_FAKE_BLAS_BYTES)
        error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess) {
        cublasLtHandle_t handle = swi_item_new(sizeof *handle, &swi_fake.blas_live);
        handle->card = swi_fake_current();
        swi_fake.used[handle->card] += SW_FAKE_BLAS_BYTES;
        *lightHandle = handle;
    }
    (void)swi_fake_leave(cudaSuccess);
    return status_of(error);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle)
{
    (void)swi_fake_enter(SWI_FN_cublasLtGetVersion); /* the lock */
    swi_fake.used[lightHandle->card] -= SW_FAKE_BLAS_BYTES;
    (void)swi_fake_leave(cudaSuccess);
    return end(SWI_FN_cublasLtDestroy, lightHandle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc,
                                        cublasComputeType_t computeType,
                                        cudaDataType_t scaleType)
{
    void *desc = NULL;
    const cublasStatus_t status =
        make(SWI_FN_cublasLtMatmulDescCreate, &desc, sizeof **matmulDesc);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    *matmulDesc = desc;
    (*matmulDesc)->compute = computeType;
    (*matmulDesc)->epilogue = scaleType == CUDA_R_32F ? CUBLASLT_EPILOGUE_DEFAULT : -1;
    return status;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc)
{
    return end(SWI_FN_cublasLtMatmulDescDestroy, matmulDesc);
}

/* Into a field of exactly these bytes. */
static cublasStatus_t set(swi_fake_function function, void *field, size_t field_bytes,
                          const void *from, size_t bytes)
{
    const cudaError_t error = swi_fake_enter(function);
    const bool good = field != NULL && bytes == field_bytes && from != NULL;
    if (error == cudaSuccess && good)
        memcpy(field, from, bytes);
    (void)swi_fake_leave(cudaSuccess);
    return error == cudaSuccess && !good ? CUBLAS_STATUS_INVALID_VALUE : status_of(error);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                              cublasLtMatmulDescAttributes_t attr,
                                              const void *buf, size_t sizeInBytes)
{
    void *field = attr == CUBLASLT_MATMUL_DESC_TRANSA     ? (void *)&matmulDesc->transposed[0]
                  : attr == CUBLASLT_MATMUL_DESC_TRANSB   ? (void *)&matmulDesc->transposed[1]
                  : attr == CUBLASLT_MATMUL_DESC_EPILOGUE ? (void *)&matmulDesc->epilogue
                  : attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? (void *)&matmulDesc->bias
                                                              : NULL;
    const size_t bytes =
        attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof matmulDesc->bias : 4;
    return set(SWI_FN_cublasLtMatmulDescSetAttribute, field, bytes, buf, sizeInBytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    void *layout = NULL;
    const cublasStatus_t status =
        type != CUDA_R_32F && type != CUDA_R_16BF
            ? CUBLAS_STATUS_NOT_SUPPORTED
            : make(SWI_FN_cublasLtMatrixLayoutCreate, &layout, sizeof **matLayout);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    *matLayout = layout;
    **matLayout = (struct swi_fake_layout){rows, cols, ld, 0, 1, type == CUDA_R_16BF};
    return status;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout)
{
    return end(SWI_FN_cublasLtMatrixLayoutDestroy, matLayout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout,
                                                cublasLtMatrixLayoutAttribute_t attr,
                                                const void *buf, size_t sizeInBytes)
{
    const bool count = attr == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    void *field = count ? (void *)&matLayout->batch
                  : attr == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET
                      ? (void *)&matLayout->stride
                      : NULL;
    const size_t bytes = count ? 4 : 8;
    return set(SWI_FN_cublasLtMatrixLayoutSetAttribute, field, bytes, buf, sizeInBytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    void *it = NULL;
    const cublasStatus_t status =
        make(SWI_FN_cublasLtMatmulPreferenceCreate, &it, sizeof **pref);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    *pref = it;
    for (int i = 0; i < 4; i++)
        (*pref)->alignment[i] = 256;
    return status;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    return end(SWI_FN_cublasLtMatmulPreferenceDestroy, pref);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void *buf, size_t sizeInBytes)
{
    uint32_t ignored; /* search mode, reduction schemes: one algorithm has neither */
    void *field = &ignored;
    size_t bytes = 4;
    if (attr == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        field = &pref->workspace, bytes = 8;
    else if (attr >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
             attr <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
        field = &pref->alignment[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
    return set(SWI_FN_cublasLtMatmulPreferenceSetAttribute, field, bytes, buf, sizeInBytes);
}

/* ---- what can be multiplied -------------------------------------------------------------- */

static uint64_t outer(const product *p, int i)
{
    return p->desc.transposed[i] == CUBLAS_OP_N ? p->layout[i].rows : p->layout[i].cols;
}
static uint64_t inner(const product *p, int i)
{
    return p->desc.transposed[i] == CUBLAS_OP_N ? p->layout[i].cols : p->layout[i].rows;
}

static bool fits(const product *p)
{
    const struct swi_fake_layout *l = p->layout;
    for (int i = 0; i < 4; i++) {
        if (l[i].batch != l[0].batch || l[i].batch < 1 || l[i].ld < (int64_t)l[i].rows ||
            l[i].rows == 0 || l[i].cols == 0)
            return false;
    }
    const uint64_t m = outer(p, 0), k = inner(p, 0), n = inner(p, 1);
    return outer(p, 1) == k && l[2].rows == m && l[2].cols == n && l[3].rows == m &&
           l[3].cols == n;
}

static bool known(const product *p)
{
    const int32_t e = p->desc.epilogue;
    const bool epilogue = e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_BIAS;
    const cublasComputeType_t c = p->desc.compute;
    const struct swi_fake_layout *l = p->layout;
    const bool halves = l[0].half != 0 && c == CUBLAS_COMPUTE_32F;
    /* A bias has the type of the result. */
    if (l[0].half != l[1].half || l[2].half != l[3].half || (l[0].half != 0 && !halves) ||
        (l[2].half != 0 && (!halves || e != CUBLASLT_EPILOGUE_DEFAULT)))
        return false;
    return epilogue && (c == CUBLAS_COMPUTE_32F || c == CUBLAS_COMPUTE_32F_PEDANTIC ||
                        c == CUBLAS_COMPUTE_32F_FAST_TF32);
}

static uint64_t problem_of(const product *p)
{
    const uint64_t parts[] = {outer(p, 0),
                              inner(p, 0),
                              inner(p, 1),
                              (uint64_t)p->layout[0].batch,
                              (uint64_t)p->desc.epilogue,
                              (uint64_t)p->desc.compute,
                              (uint64_t)p->layout[0].half,
                              (uint64_t)p->layout[2].half,
                              (uint64_t)p->desc.transposed[0],
                              (uint64_t)p->desc.transposed[1]};
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * 1099511628211u;
    return hash;
}

static void describe(product *p, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                     cublasLtMatrixLayout_t d)
{
    memset(p, 0, sizeof *p);
    p->desc = *desc;
    p->layout[0] = *a, p->layout[1] = *b, p->layout[2] = *c, p->layout[3] = *d;
}

/* Long sums are split where there is workspace for it: first that, then one that needs none. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
    cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc,
    cublasLtMatrixLayout_t Ddesc, cublasLtMatmulPreference_t preference, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int *returnAlgoCount)
{
    (void)lightHandle;
    product p;
    int n = 0;
    cublasStatus_t status = status_of(swi_fake_enter(SWI_FN_cublasLtMatmulAlgoGetHeuristic));
    if (status == CUBLAS_STATUS_SUCCESS) {
        describe(&p, operationDesc, Adesc, Bdesc, Cdesc, Ddesc);
        status = requestedAlgoCount < 1 || !fits(&p)       ? CUBLAS_STATUS_INVALID_VALUE
                 : !known(&p) || swi_fake.card.no_products ? CUBLAS_STATUS_NOT_SUPPORTED
                                                           : CUBLAS_STATUS_SUCCESS;
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        uint64_t least = 16;
        for (int i = 0; i < 4; i++)
            least = preference->alignment[i] < least ? preference->alignment[i] : least;
        const uint64_t split = (outer(&p, 0) * inner(&p, 1) * 4 + 255) / 256 * 256;
        for (int with = 1; with >= 0 && n < requestedAlgoCount; with--) {
            if (with != 0 && (inner(&p, 0) < 64 || split > preference->workspace))
                continue;
            const chosen c = {ALGO, with != 0 ? split : 0, least, problem_of(&p)};
            cublasLtMatmulHeuristicResult_t *r = &heuristicResultsArray[n++];
            memset(r, 0, sizeof *r);
            memcpy(&r->algo, &c, sizeof c);
            r->workspaceSize = c.workspace;
            r->wavesCount = 1.0f;
        }
    }
    *returnAlgoCount = n;
    (void)swi_fake_leave(cudaSuccess);
    return status;
}

/* ---- products ---------------------------------------------------------------------------- */

static int64_t place(const struct swi_fake_layout *l, int64_t row, int64_t col)
{
    return row + col * l->ld;
}

/* Which keeps ten bits after the point. */
static float tf32(float x)
{
    uint32_t bits;
    if (!isfinite(x))
        return x;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float number(const void *at, const struct swi_fake_layout *l, int64_t i)
{
    return l->half != 0 ? sw_bf16_widen(((const uint16_t *)at)[i]) : ((const float *)at)[i];
}

static float factor(const product *p, int which, int64_t i)
{
    const float x = number(p->at[which], &p->layout[which], i);
    return p->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? tf32(x) : x;
}

static void one_column(const product *p, float *sum, int64_t col, int64_t batch)
{
    const int64_t m = (int64_t)outer(p, 0), k = (int64_t)inner(p, 0);
    const struct swi_fake_layout *l = p->layout;
    const int64_t a = batch * l[0].stride, b = batch * l[1].stride;
    const bool ta = p->desc.transposed[0] != CUBLAS_OP_N,
               tb = p->desc.transposed[1] != CUBLAS_OP_N;
    const int64_t step = ta ? place(&l[0], 0, 1) : place(&l[0], 1, 0);
    memset(sum, 0, (size_t)m * sizeof *sum);
    for (int64_t i = 0; i < k; i++) {
        const float by = factor(p, 1, b + (tb ? place(&l[1], col, i) : place(&l[1], i, col)));
        const int64_t from = a + (ta ? place(&l[0], i, 0) : place(&l[0], 0, i));
        for (int64_t r = 0; r < m; r++)
            sum[r] += factor(p, 0, from + r * step) * by;
    }
    for (int64_t r = 0; r < m; r++) {
        float x = p->alpha * sum[r];
        if (p->beta != 0.0f)
            x += p->beta * number(p->at[2], &l[2], batch * l[2].stride + place(&l[2], r, col));
        if (p->desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
            x += ((const float *)p->desc.bias)[r];
        const int64_t to = place(&l[3], r, col) + batch * l[3].stride;
        if (l[3].half != 0)
            ((uint16_t *)p->d)[to] = sw_bf16_round(x);
        else
            ((float *)p->d)[to] = x;
    }
}

static cudaError_t run_product(swi_work *work)
{
    product *p = work->body;
    if (p->workspace_bytes > 0)
        memset(p->workspace, 0xff, p->workspace_bytes); /* NaNs: it is used */
    float *sum = swi_fake_reserve(outer(p, 0) * sizeof *sum);
    for (int64_t batch = 0; batch < p->layout[0].batch; batch++)
        for (int64_t col = 0; col < (int64_t)inner(p, 1); col++)
            one_column(p, sum, col, batch);
    free(sum);
    return cudaSuccess;
}

static bool reaches(const void *at, const struct swi_fake_layout *l)
{
    const int64_t last =
        place(l, (int64_t)l->rows - 1, (int64_t)l->cols - 1) + (l->batch - 1) * l->stride;
    return swi_fake_there(at, (size_t)(last + 1) * (l->half != 0 ? 2 : sizeof(float)));
}

/* Pointers, alignment and workspace, as the algorithm was chosen for. */
static cublasStatus_t check(const product *p, const cublasLtMatmulAlgo_t *algo,
                            size_t workspace_bytes, chosen *c)
{
    memset(c, 0, sizeof *c);
    if (!fits(p))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!known(p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const void *at[4] = {p->at[0], p->at[1], p->at[2], p->d};
    for (int i = 0; i < 4; i++)
        if ((i != 2 || p->beta != 0.0f) && !reaches(at[i], &p->layout[i])) {
            swi_fake_violation("cublasLtMatmul: matrix %c leaves the memory of the card",
                               "ABCD"[i]);
            return CUBLAS_STATUS_INVALID_VALUE;
        }
    if (p->desc.epilogue == CUBLASLT_EPILOGUE_BIAS &&
        !swi_fake_there(p->desc.bias, outer(p, 0) * sizeof(float)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo == NULL)
        return CUBLAS_STATUS_SUCCESS;
    memcpy(c, algo, sizeof *c);
    if (c->magic != ALGO || c->problem != problem_of(p))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)at[i] % c->alignment != 0)
            return CUBLAS_STATUS_INVALID_VALUE;
    if (c->workspace > workspace_bytes ||
        (c->workspace > 0 &&
         (!swi_fake_there(p->workspace, workspace_bytes) || (uintptr_t)p->workspace % 16 != 0)))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t put(product *p, const cublasLtMatmulAlgo_t *algo, cudaStream_t stream,
                          size_t workspace_bytes)
{
    chosen c;
    if (swi_stream_of(&stream) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    const cublasStatus_t status = check(p, algo, workspace_bytes, &c);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    p->workspace_bytes = c.workspace;
    const bool captured = stream->capture != NULL;
    sw_fake_launch l = {.kernel = "cublasLtMatmul", .captured = captured};
    const void *const at[] = {p->at[0], p->at[1], p->at[2], p->d, p->desc.bias, p->workspace};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if (swi_fake_in_window(at[i]))
            l.pointer[l.n++] = at[i];
    swi_fake_log(&l);
    swi_work *work = swi_work_new(SWI_MATMUL, sizeof *p);
    memcpy(work->body, p, sizeof *p);
    work->run = run_product;
    work->cost_ns = 3000 + outer(p, 0) * inner(p, 0) * inner(p, 1) / 1024;
    swi_fake.counts.matmuls += stream->capture == NULL;
    return status_of(swi_stream_put(stream, work));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                              const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
                              const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta,
                              const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspaceSizeInBytes, cudaStream_t stream)
{
    product p;
    cublasStatus_t status = status_of(swi_fake_enter(SWI_FN_cublasLtMatmul));
    if (status == CUBLAS_STATUS_SUCCESS && lightHandle->card != swi_fake_current())
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS) {
        describe(&p, computeDesc, Adesc, Bdesc, Cdesc, Ddesc);
        p.at[0] = A, p.at[1] = B, p.at[2] = C, p.d = D;
        p.workspace = workspace;
        p.alpha = *(const float *)alpha;
        p.beta = *(const float *)beta;
        status = put(&p, algo, stream, workspaceSizeInBytes);
    }
    (void)swi_fake_leave(cudaSuccess);
    return status;
}
