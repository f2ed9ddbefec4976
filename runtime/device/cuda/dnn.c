/* Convolutions by cuDNN, as blas.c has products by cuBLASLt.
 *
 * How a convolution is made is asked once for each shape, when a plan is made, and kept:
 * descriptors and the algorithm in a table, where launches find them. They allocate and ask
 * nothing, so that a convolution is always made the same way; what no plan has asked for, and
 * what the library refuses at its first launch, is own kernels' from then on. Its workspace is
 * part of the launch's scratch.
 *
 * Taken is the first of the library's list that it calls deterministic, that fits into the
 * workspace, that keeps to the arithmetic that was asked for (float32 by multiply and add, or
 * TF32 where the queue allows it), and whose sums are those of the formula: transforms
 * (Winograd's, Fourier's) have other terms, with other errors, and carry an infinity to places
 * that it does not belong to. A bias goes with the one algorithm that the library gives it to
 * without an activation. All else is left to own kernels, also what begins at an odd address,
 * for which the library might choose other kernels.
 *
 * The library's handle takes time and memory, so it is made when a plan first has a
 * convolution. Where it cannot be made own kernels do the work. These functions are marked as
 * deprecated beside cuDNN's graphs; cuDNN 9 has them. */
#include "kernels/cuda/dnn.h"
#include "runtime/device/cuda/host.h"
#include <cudnn.h>
#include <string.h>

enum { MOST_OFFERS = 32 }; /* of one list: 8 algorithms, each with a few arithmetics */

/* All that an algorithm is chosen by: without holes, so that bytes can be compared. */
typedef struct {
    sw_cuda_conv_sizes sizes;
    int64_t tf32;
} shape;

typedef struct {
    shape shape;
    bool found;    /* false: the library has no algorithm, or failed */
    bool launched; /* it has done its work at least once */
    cudnnTensorDescriptor_t x, y, bias;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    int algorithm; /* a number of the result's own enum */
    size_t workspace;
} record;

typedef struct {
    sw_cuda_dnn kernels; /* first: what kernels see */
    bool asked;          /* for a handle; NULL then: there is none to be had */
    cudnnHandle_t handle;
    cudnnActivationDescriptor_t identity;
    pthread_mutex_t *captures; /* of the card */
    swi_cuda_shapes records;
} dnn;

/* Of this algorithm or shape; others are errors. */
static bool is_refusal(cudnnStatus_t status)
{
    return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

/* ---- the library ------------------------------------------------------------------------- */

static void close_library(dnn *d)
{
    if (d->identity != NULL)
        (void)cudnnDestroyActivationDescriptor(d->identity);
    if (d->handle != NULL)
        (void)cudnnDestroy(d->handle);
    d->identity = NULL;
    d->handle = NULL;
}

static cudnnStatus_t make_handle(dnn *d, const sw_cuda_queue *queue)
{
    cudnnStatus_t e = cudnnCreate(&d->handle);
    if (e != CUDNN_STATUS_SUCCESS) {
        d->handle = NULL;
        return e;
    }
    e = cudnnSetStream(d->handle, (cudaStream_t)queue->stream);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnCreateActivationDescriptor(&d->identity);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnSetActivationDescriptor(d->identity, CUDNN_ACTIVATION_IDENTITY,
                                         CUDNN_PROPAGATE_NAN, 0.0);
    return e;
}

/* On the queue's card, which plans need not have made the thread's. Making and ending a handle
 * may wait for the card: captures of other threads are let end first. */
static bool open_library(dnn *d, const sw_cuda_queue *queue)
{
    sw_cuda_device *device = queue->device;
    if (cudaSetDevice(device->ordinal) != cudaSuccess)
        return false;
    if (d->asked)
        return d->handle != NULL;
    if (pthread_mutex_lock(&device->capture_lock) != 0)
        return false;
    d->asked = true;
    d->captures = &device->capture_lock;
    if (make_handle(d, queue) != CUDNN_STATUS_SUCCESS)
        close_library(d);
    pthread_mutex_unlock(&device->capture_lock);
    return d->handle != NULL;
}

/* ---- shapes ------------------------------------------------------------------------------ */

/* Tensors have at least one element; the library counts them in 32 bits. */
static bool fits(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t sizes[] = {a, b, c, d};
    int64_t all = 1;
    for (int i = 0; i < 4; i++) {
        if (sizes[i] < 1 || sizes[i] > INT32_MAX / all)
            return false;
        all *= sizes[i];
    }
    return true;
}

/* false: none of the library's. */
static bool shape_of(shape *s, const sw_cuda_queue *queue, const sw_cuda_conv_sizes *z)
{
    *s = (shape){*z, (queue->flags & SW_CUDA_TF32) != 0};
    return z->groups >= 1 && fits(z->batch, z->in_c, z->in_h, z->in_w) &&
           fits(z->batch, z->out_c, z->out_h, z->out_w) &&
           fits(z->out_c, z->in_c / z->groups, z->kernel_h, z->kernel_w);
}

static cudnnStatus_t describe_images(cudnnTensorDescriptor_t *out, int64_t n, int64_t c,
                                     int64_t h, int64_t w)
{
    const cudnnStatus_t e = cudnnCreateTensorDescriptor(out);
    return e != CUDNN_STATUS_SUCCESS
               ? e
               : cudnnSetTensor4dDescriptor(*out, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, (int)n,
                                            (int)c, (int)h, (int)w);
}

static cudnnStatus_t describe_weights(record *r)
{
    const sw_cuda_conv_sizes *z = &r->shape.sizes;
    const cudnnStatus_t e = cudnnCreateFilterDescriptor(&r->w);
    return e != CUDNN_STATUS_SUCCESS
               ? e
               : cudnnSetFilter4dDescriptor(r->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                            (int)z->out_c, (int)(z->in_c / z->groups),
                                            (int)z->kernel_h, (int)z->kernel_w);
}

static cudnnStatus_t describe_convolution(record *r)
{
    const sw_cuda_conv_sizes *z = &r->shape.sizes;
    const int pad = (int)z->pad, stride = (int)z->stride, dilation = (int)z->dilation;
    cudnnStatus_t e = cudnnCreateConvolutionDescriptor(&r->conv);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnSetConvolution2dDescriptor(r->conv, pad, pad, stride, stride, dilation,
                                            dilation, CUDNN_CROSS_CORRELATION,
                                            CUDNN_DATA_FLOAT);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnSetConvolutionGroupCount(r->conv, (int)z->groups);
    if (e == CUDNN_STATUS_SUCCESS) /* what may be offered */
        e = cudnnSetConvolutionMathType(r->conv,
                                        r->shape.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
    return e;
}

static cudnnStatus_t describe(record *r)
{
    const sw_cuda_conv_sizes *z = &r->shape.sizes;
    cudnnStatus_t e = describe_images(&r->x, z->batch, z->in_c, z->in_h, z->in_w);
    if (e == CUDNN_STATUS_SUCCESS)
        e = describe_images(&r->y, z->batch, z->out_c, z->out_h, z->out_w);
    if (e == CUDNN_STATUS_SUCCESS && z->bias)
        e = describe_images(&r->bias, 1, z->out_c, 1, 1);
    if (e == CUDNN_STATUS_SUCCESS)
        e = describe_weights(r);
    if (e == CUDNN_STATUS_SUCCESS)
        e = describe_convolution(r);
    return e;
}

static void drop(record *r)
{
    if (r->x != NULL)
        (void)cudnnDestroyTensorDescriptor(r->x);
    if (r->y != NULL)
        (void)cudnnDestroyTensorDescriptor(r->y);
    if (r->bias != NULL)
        (void)cudnnDestroyTensorDescriptor(r->bias);
    if (r->w != NULL)
        (void)cudnnDestroyFilterDescriptor(r->w);
    if (r->conv != NULL)
        (void)cudnnDestroyConvolutionDescriptor(r->conv);
}

/* ---- algorithms -------------------------------------------------------------------------- */

typedef struct {
    int algorithm;
    bool repeats; /* there, and the same bits each time */
    cudnnMathType_t math;
} offer;

/* The library's list for a result: the same for all three, but for the types of its enums. */
#define LIST(perf, function, first, second, third)                                             \
    do {                                                                                       \
        perf all[MOST_OFFERS];                                                                 \
        e = function(d->handle, first, second, r->conv, third, MOST_OFFERS, n, all);           \
        for (int i = 0; e == CUDNN_STATUS_SUCCESS && i < *n; i++)                              \
            to[i] = (offer){(int)all[i].algo,                                                  \
                            all[i].status == CUDNN_STATUS_SUCCESS &&                           \
                                all[i].determinism == CUDNN_DETERMINISTIC,                     \
                            all[i].mathType};                                                  \
    } while (0)

static cudnnStatus_t list(const dnn *d, const record *r, offer *to, int *n)
{
    cudnnStatus_t e;
    switch ((sw_cuda_conv_result)r->shape.sizes.result) {
    case SW_CUDA_CONV_Y:
        LIST(cudnnConvolutionFwdAlgoPerf_t, cudnnGetConvolutionForwardAlgorithm_v7, r->x, r->w,
             r->y);
        return e;
    case SW_CUDA_CONV_DX:
        LIST(cudnnConvolutionBwdDataAlgoPerf_t, cudnnGetConvolutionBackwardDataAlgorithm_v7,
             r->w, r->y, r->x);
        return e;
    default:
        LIST(cudnnConvolutionBwdFilterAlgoPerf_t, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
             r->x, r->y, r->w);
        return e;
    }
}

static bool has_the_terms_of_the_formula(const shape *s, int algorithm)
{
    switch ((sw_cuda_conv_result)s->sizes.result) {
    case SW_CUDA_CONV_Y:
        if (s->sizes.bias)
            return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
        return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
               algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
               algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM ||
               algorithm == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
    case SW_CUDA_CONV_DX:
        return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 ||
               algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
    default:
        return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 ||
               algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
               algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
    }
}

/* Numbers stay float32; CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION would make halves of them. */
static bool keeps_to_the_arithmetic(const shape *s, cudnnMathType_t math)
{
    return math == CUDNN_FMA_MATH ||
           (s->tf32 && (math == CUDNN_DEFAULT_MATH || math == CUDNN_TENSOR_OP_MATH));
}

static cudnnStatus_t ask_workspace(const dnn *d, const record *r, int algorithm, size_t *bytes)
{
    switch ((sw_cuda_conv_result)r->shape.sizes.result) {
    case SW_CUDA_CONV_Y:
        return cudnnGetConvolutionForwardWorkspaceSize(
            d->handle, r->x, r->w, r->conv, r->y, (cudnnConvolutionFwdAlgo_t)algorithm, bytes);
    case SW_CUDA_CONV_DX:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            d->handle, r->w, r->y, r->conv, r->x, (cudnnConvolutionBwdDataAlgo_t)algorithm,
            bytes);
    default:
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(
            d->handle, r->x, r->y, r->conv, r->w, (cudnnConvolutionBwdFilterAlgo_t)algorithm,
            bytes);
    }
}

/* The first that can be taken. The arithmetic becomes the descriptor's: workspace and launch go
 * by it. */
static cudnnStatus_t choose(const dnn *d, record *r)
{
    offer all[MOST_OFFERS];
    int n = 0;
    cudnnStatus_t e = list(d, r, all, &n);
    for (int i = 0; (e == CUDNN_STATUS_SUCCESS || is_refusal(e)) && i < n && !r->found; i++) {
        size_t bytes = SIZE_MAX;
        if (!all[i].repeats || !keeps_to_the_arithmetic(&r->shape, all[i].math) ||
            !has_the_terms_of_the_formula(&r->shape, all[i].algorithm))
            continue;
        e = cudnnSetConvolutionMathType(r->conv, all[i].math);
        if (e == CUDNN_STATUS_SUCCESS)
            e = ask_workspace(d, r, all[i].algorithm, &bytes);
        r->found = e == CUDNN_STATUS_SUCCESS && bytes <= SWI_CUDA_MOST_WORKSPACE;
        r->algorithm = all[i].algorithm;
        r->workspace = bytes;
    }
    return e;
}

/* The record of a shape, made where there is none yet; NULL: the table is full. Where the
 * library fails too, what was said when a plan was made holds for its launches. */
static const record *find(dnn *d, const sw_cuda_queue *queue, const shape *s)
{
    record *r = swi_cuda_shapes_known(&d->records, s);
    if (r != NULL)
        return r;
    r = swi_cuda_shapes_add(&d->records, s);
    if (r == NULL)
        return NULL;
    if (!open_library(d, queue) || describe(r) != CUDNN_STATUS_SUCCESS ||
        choose(d, r) != CUDNN_STATUS_SUCCESS)
        (void)cudaGetLastError(); /* so that it is not found again after the next launch */
    return r;
}

/* ---- what kernels call ------------------------------------------------------------------- */

static size_t conv_bytes(const sw_cuda_queue *queue, const sw_cuda_conv_sizes *sizes)
{
    shape s;
    const record *r = shape_of(&s, queue, sizes) ? find((dnn *)queue->dnn, queue, &s) : NULL;
    if (r == NULL || !r->found)
        return SIZE_MAX;
    return swi_cuda_workspace_scratch(r->workspace);
}

static cudnnStatus_t forward(const dnn *d, const record *r, const sw_cuda_conv_operands *at,
                             void *workspace)
{
    const float one = 1.0f, beta = at->accumulate ? 1.0f : 0.0f;
    const cudnnConvolutionFwdAlgo_t algorithm = (cudnnConvolutionFwdAlgo_t)r->algorithm;
    if (at->bias == NULL)
        return cudnnConvolutionForward(d->handle, &one, r->x, at->in[0], r->w, at->in[1],
                                       r->conv, algorithm, workspace, r->workspace, &beta, r->y,
                                       at->out);
    /* A term that is added, times 0 too, has to be named: y itself, which the library allows.
     */
    return cudnnConvolutionBiasActivationForward(
        d->handle, &one, r->x, at->in[0], r->w, at->in[1], r->conv, algorithm, workspace,
        r->workspace, &beta, r->y, at->out, r->bias, at->bias, d->identity, r->y, at->out);
}

static cudnnStatus_t launch(const dnn *d, const record *r, const sw_cuda_conv_operands *at,
                            void *workspace)
{
    const float one = 1.0f, beta = at->accumulate ? 1.0f : 0.0f;
    switch ((sw_cuda_conv_result)r->shape.sizes.result) {
    case SW_CUDA_CONV_Y:
        return forward(d, r, at, workspace);
    case SW_CUDA_CONV_DX:
        return cudnnConvolutionBackwardData(d->handle, &one, r->w, at->in[0], r->y, at->in[1],
                                            r->conv,
                                            (cudnnConvolutionBwdDataAlgo_t)r->algorithm,
                                            workspace, r->workspace, &beta, r->x, at->out);
    default:
        return cudnnConvolutionBackwardFilter(d->handle, &one, r->x, at->in[0], r->y, at->in[1],
                                              r->conv,
                                              (cudnnConvolutionBwdFilterAlgo_t)r->algorithm,
                                              workspace, r->workspace, &beta, r->w, at->out);
    }
}

static sw_status fail(cudnnStatus_t status, const sw_cuda_conv_sizes *z)
{
    static const char *const results[] = {"a convolution", "the gradient of its input",
                                          "the gradient of its weights"};
    const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                        status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    (void)cudaGetLastError();
    return sw_cuda_its_host.fail(
        memory ? SW_NOMEM : SW_DEVICE, __FILE__, __LINE__,
        "cuDNN, %s: images (%lld, %lld, %lld, %lld), weights (%lld, %lld, %lld, %lld): %s",
        results[z->result], (long long)z->batch, (long long)z->in_c, (long long)z->in_h,
        (long long)z->in_w, (long long)z->out_c, (long long)(z->in_c / z->groups),
        (long long)z->kernel_h, (long long)z->kernel_w, cudnnGetErrorString(status));
}

static sw_status conv_run(const sw_cuda_queue *queue, const sw_cuda_conv_sizes *sizes,
                          const sw_cuda_conv_operands *at, void *scratch, size_t bytes)
{
    dnn *d = queue->dnn;
    shape s;
    size_t capacity;
    void *const workspace = swi_cuda_workspace_in(scratch, bytes, &capacity);
    if (!swi_cuda_is_aligned(at->in[0]) || !swi_cuda_is_aligned(at->in[1]) ||
        !swi_cuda_is_aligned(at->out) || !swi_cuda_is_aligned(at->bias) ||
        !shape_of(&s, queue, sizes))
        return SW_UNSUPPORTED;
    record *r = swi_cuda_shapes_known(&d->records, &s);
    if (r == NULL || !r->found || r->workspace > capacity)
        return SW_UNSUPPORTED;
    if (sw_cuda_states(queue))
        return SW_OK;
    const cudnnStatus_t e = launch(d, r, at, r->workspace > 0 ? workspace : NULL);
    if (is_refusal(e) && !r->launched) {
        r->found = false; /* nor later */
        return SW_UNSUPPORTED;
    }
    r->launched = true;
    return e == CUDNN_STATUS_SUCCESS ? SW_OK : fail(e, sizes);
}

sw_status sw_cuda_dnn_create(void **out)
{
    void *capacity;
    SW_TRY(sw_cuda_its_host.alloc(&capacity, sizeof(dnn)));
    dnn *d = capacity;
    d->kernels = (sw_cuda_dnn){conv_bytes, conv_run};
    d->records =
        (swi_cuda_shapes){.record_bytes = sizeof(record), .shape_bytes = sizeof(shape)};
    *out = d;
    return SW_OK;
}

void sw_cuda_dnn_destroy(void *dnn_)
{
    dnn *d = dnn_;
    if (d == NULL)
        return;
    for (int i = 0; i < d->records.n; i++)
        drop(swi_cuda_shapes_at(&d->records, i));
    swi_cuda_shapes_free(&d->records);
    const bool alone = d->captures != NULL && pthread_mutex_lock(d->captures) == 0;
    close_library(d);
    if (alone)
        pthread_mutex_unlock(d->captures);
    sw_cuda_its_host.free(d, sizeof *d);
}

int sw_cuda_dnn_version(void)
{
    return (int)cudnnGetVersion();
}
