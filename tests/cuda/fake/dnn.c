/* cuDNN's convolutions in plain loops: sums in float64. Of the algorithms some are there to be
 * refused by who asks: they come first, want too much, or change their bits from call to call.
 * It refuses a case that it does not know as the library does. */
#include "internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HUGE_WORKSPACE ((size_t)1 << 30)

struct cudnnContext {
    int card;
    cudaStream_t stream;
};
struct cudnnTensorStruct { /* also of weights */
    int dim[4];            /* the first is 0 before it is set */
};
struct cudnnFilterStruct {
    struct cudnnTensorStruct as;
};
struct cudnnActivationStruct {
    int mode; /* 0 before it is set */
};
struct cudnnConvolutionStruct {
    int pad[2], stride[2], dilation[2], groups;
    cudnnMathType_t math, asked; /* asked: when a list was requested */
    bool listed;
};

typedef enum { Y, DX, DW } what;

typedef struct {
    what result;
    struct cudnnTensorStruct x, y, w;
    struct cudnnConvolutionStruct conv;
    int algorithm;
    const void *in[2], *z, *bias;
    void *out;
    float alpha, beta; /* beta is for `z`, or for what is in `out` */
    void *workspace;
    size_t workspace_bytes;
    bool varies;
} convolution;

static cudnnStatus_t status_of(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return CUDNN_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation:
        return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
        return CUDNN_STATUS_NOT_INITIALIZED;
    case cudaErrorNotSupported:
        return CUDNN_STATUS_NOT_SUPPORTED;
    case cudaErrorInvalidValue:
        return CUDNN_STATUS_BAD_PARAM;
    default:
        return CUDNN_STATUS_EXECUTION_FAILED;
    }
}

static cudnnStatus_t leave(cudnnStatus_t status)
{
    (void)swi_fake_leave(cudaSuccess);
    return status;
}

/* ---- handles and descriptors ------------------------------------------------------------- */

size_t cudnnGetVersion(void)
{
    (void)swi_fake_enter(SWI_FN_cudnnGetVersion);
    (void)swi_fake_leave(cudaSuccess);
    return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    (void)swi_fake_enter(SWI_FN_cudnnGetErrorString);
    (void)swi_fake_leave(cudaSuccess);
    switch (status) {
    case CUDNN_STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
        return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
        return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
        return "CUDNN_STATUS_BAD_PARAM";
    }
}

/* The library waits for the card when a handle ends, and says nothing of its making. */
static void waits(const char *function)
{
    if (swi_fake.capturing > 0)
        swi_fake_violation("%s may wait for a card that has a stream under capture", function);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudnnCreate);
    waits("cudnnCreate");
    if (error == cudaSuccess && swi_fake_free_bytes() < SW_FAKE_DNN_BYTES)
        error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess) {
        *handle = swi_item_new(sizeof **handle, &swi_fake.dnn_live);
        (*handle)->card = swi_fake_current();
        swi_fake.used[(*handle)->card] += SW_FAKE_DNN_BYTES;
    }
    return leave(status_of(error));
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    const cudaError_t error = swi_fake_enter(SWI_FN_cudnnDestroy);
    waits("cudnnDestroy");
    swi_fake.counts.syncs++;
    swi_stream_drain();
    if (swi_item_there(handle)) {
        swi_fake.used[handle->card] -= SW_FAKE_DNN_BYTES;
        swi_item_end(handle);
    }
    return leave(status_of(error));
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudnnSetStream);
    if (error == cudaSuccess)
        error = swi_stream_of(&streamId);
    if (error == cudaSuccess && swi_item_there(handle))
        handle->stream = streamId;
    return leave(status_of(error));
}

/* Making and ending one. */
#define PAIR(kind, argument)                                                                   \
    cudnnStatus_t cudnnCreate##kind(cudnn##kind##_t *argument)                                 \
    {                                                                                          \
        const cudaError_t error = swi_fake_enter(SWI_FN_cudnnCreate##kind);                    \
        if (error == cudaSuccess)                                                              \
            *argument = swi_item_new(sizeof **argument, &swi_fake.dnn_live);                   \
        return leave(status_of(error));                                                        \
    }                                                                                          \
    cudnnStatus_t cudnnDestroy##kind(cudnn##kind##_t argument)                                 \
    {                                                                                          \
        const cudaError_t error = swi_fake_enter(SWI_FN_cudnnDestroy##kind);                   \
        swi_item_end(argument);                                                                \
        return leave(status_of(error));                                                        \
    }
PAIR(TensorDescriptor, tensorDesc)
PAIR(FilterDescriptor, filterDesc)
PAIR(ActivationDescriptor, activationDesc)
PAIR(ConvolutionDescriptor, convDesc)

static cudnnStatus_t set_sizes(swi_fake_function function, struct cudnnTensorStruct *to,
                               bool known, int a, int b, int c, int d)
{
    const cudaError_t error = swi_fake_enter(function);
    const int64_t most = INT32_MAX;
    const bool good = a > 0 && b > 0 && c > 0 && d > 0 && a <= most / b / c / d;
    if (error == cudaSuccess && good && known && swi_item_there(to))
        *to = (struct cudnnTensorStruct){{a, b, c, d}};
    return leave(error != cudaSuccess ? status_of(error)
                 : !good              ? CUDNN_STATUS_BAD_PARAM
                 : !known             ? CUDNN_STATUS_NOT_SUPPORTED
                                      : CUDNN_STATUS_SUCCESS);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensorDesc,
                                         cudnnTensorFormat_t format, cudnnDataType_t dataType,
                                         int n, int c, int h, int w)
{
    return set_sizes(SWI_FN_cudnnSetTensor4dDescriptor, tensorDesc,
                     format == CUDNN_TENSOR_NCHW && dataType == CUDNN_DATA_FLOAT, n, c, h, w);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filterDesc,
                                         cudnnDataType_t dataType, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w)
{
    return set_sizes(SWI_FN_cudnnSetFilter4dDescriptor, &filterDesc->as,
                     format == CUDNN_TENSOR_NCHW && dataType == CUDNN_DATA_FLOAT, k, c, h, w);
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activationDesc,
                                           cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t reluNanOpt, double coef)
{
    (void)reluNanOpt, (void)coef;
    const cudaError_t error = swi_fake_enter(SWI_FN_cudnnSetActivationDescriptor);
    if (error == cudaSuccess && swi_item_there(activationDesc))
        activationDesc->mode = (int)mode;
    return leave(status_of(error));
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convDesc, int pad_h,
                                              int pad_w, int u, int v, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType)
{
    const cudaError_t error = swi_fake_enter(SWI_FN_cudnnSetConvolution2dDescriptor);
    const bool good = pad_h >= 0 && pad_w >= 0 && u > 0 && v > 0 && dilation_h > 0 &&
                      dilation_w > 0 && computeType == CUDNN_DATA_FLOAT &&
                      mode == CUDNN_CROSS_CORRELATION;
    if (error == cudaSuccess && good && swi_item_there(convDesc))
        *convDesc = (struct cudnnConvolutionStruct){
            .pad = {pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}, 1, CUDNN_DEFAULT_MATH};
    return leave(error == cudaSuccess && !good ? CUDNN_STATUS_BAD_PARAM : status_of(error));
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convDesc,
                                            int groupCount)
{
    const cudaError_t error = swi_fake_enter(SWI_FN_cudnnSetConvolutionGroupCount);
    if (error == cudaSuccess && swi_item_there(convDesc))
        convDesc->groups = groupCount;
    return leave(status_of(error));
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convDesc,
                                          cudnnMathType_t mathType)
{
    const cudaError_t error = swi_fake_enter(SWI_FN_cudnnSetConvolutionMathType);
    if (error == cudaSuccess && swi_item_there(convDesc))
        convDesc->math = mathType;
    return leave(status_of(error));
}

/* ---- problems ---------------------------------------------------------------------------- */

static bool agree(const convolution *c)
{
    const struct cudnnConvolutionStruct *v = &c->conv;
    for (int i = 0; i < 2; i++) {
        const int64_t reach = (int64_t)(c->w.dim[2 + i] - 1) * v->dilation[i] + 1;
        const int64_t capacity = (int64_t)c->x.dim[2 + i] + 2 * v->pad[i] - reach;
        if (capacity < 0 || capacity / v->stride[i] + 1 != c->y.dim[2 + i])
            return false;
    }
    return v->groups > 0 && c->x.dim[0] == c->y.dim[0] &&
           c->x.dim[1] == c->w.dim[1] * v->groups && c->w.dim[0] % v->groups == 0 &&
           c->y.dim[1] == c->w.dim[0];
}

static cudnnStatus_t describe(convolution *c, what result, cudnnHandle_t handle,
                              cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                              cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y)
{
    const void *const all[] = {handle, x, w, conv, y};
    memset(c, 0, sizeof *c);
    for (int i = 0; i < 5; i++)
        if (all[i] == NULL || !swi_item_there(all[i]))
            return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    c->result = result;
    c->x = *x, c->w = w->as, c->y = *y, c->conv = *conv;
    if (c->x.dim[0] == 0 || c->w.dim[0] == 0 || c->y.dim[0] == 0 || c->conv.groups == 0)
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (handle->card != swi_fake_current())
        return CUDNN_STATUS_BAD_PARAM;
    return agree(c) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
}

static size_t elements(const struct cudnnTensorStruct *t)
{
    return (size_t)t->dim[0] * (size_t)t->dim[1] * (size_t)t->dim[2] * (size_t)t->dim[3];
}

/* ---- algorithms -------------------------------------------------------------------------- */

typedef enum { NONE, SOME, HUGE_ONE } appetite;
typedef struct {
    int algorithm;
    appetite wants;
    bool varies, missing; /* missing: listed as not supported */
} rule;

/* As the list offers them: the fastest first. */
static const rule forward_rules[] = {
    {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, SOME, false, false},
    {CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING, NONE, false, false},
    {CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, NONE, false, true},
    {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, HUGE_ONE, false, false},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, SOME, false, false},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NONE, false, false},
    {-1, NONE, false, false}};
static const rule data_rules[] = {
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, NONE, true, false},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, SOME, false, false},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING, HUGE_ONE, false, false},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, SOME, false, false},
    {-1, NONE, false, false}};
static const rule weights_rules[] = {
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, NONE, true, false},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, SOME, true, false},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, SOME, false, false},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, SOME, false, false},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING, NONE, false, false},
    {-1, NONE, false, false}};
static const rule *const rules[] = {forward_rules, data_rules, weights_rules};

/* Strides with dilations it does not know at all, the gradient of x with a dilation only in one
 * way that varies. */
static bool offers(const convolution *c, const rule *r)
{
    return (c->conv.dilation[0] == 1 || c->conv.stride[0] == 1) &&
           (c->result != DX || c->conv.dilation[0] == 1 || r->varies);
}

static const rule *rule_of(const convolution *c, int algorithm)
{
    for (const rule *r = rules[c->result]; r->algorithm >= 0; r++)
        if (r->algorithm == algorithm && !r->missing && offers(c, r))
            return r;
    return NULL;
}

/* By the terms of a sum; none for few. */
static size_t workspace_of(const convolution *c, const rule *r)
{
    const size_t terms = c->result == DW ? (size_t)c->y.dim[0] * c->y.dim[2] * c->y.dim[3]
                                         : elements(&c->w) / c->w.dim[0];
    const size_t some = terms < 8 ? 0 : (terms * sizeof(float) + 255) / 256 * 256;
    return r->wants == NONE ? 0 : r->wants == SOME ? some : HUGE_WORKSPACE;
}

enum { MOST = 32 };                         /* in a list */
typedef cudnnConvolutionFwdAlgoPerf_t perf; /* the other two have the same bytes */

/* Each algorithm in an arithmetic that was not asked for, then in all that were. */
static cudnnStatus_t list(const convolution *c, int most, int *n, perf *out)
{
    static const cudnnMathType_t plain[] = {CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH},
                                 rounding[] = {CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION,
                                               CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH};
    const bool rounds = c->conv.math != CUDNN_FMA_MATH;
    *n = 0;
    for (const rule *r = rules[c->result]; r->algorithm >= 0; r++)
        for (int i = 0; i < (rounds ? 3 : 2) && *n < most; i++)
            if (r->missing || offers(c, r))
                out[(*n)++] = (perf){
                    .algo = (cudnnConvolutionFwdAlgo_t)r->algorithm,
                    .status = r->missing ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS,
                    .time = 1.0f,
                    .memory = workspace_of(c, r),
                    .determinism = r->varies ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC,
                    .mathType = rounds ? rounding[i] : plain[i]};
    return *n > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

static cudnnStatus_t ask_list(swi_fake_function function, what result, cudnnHandle_t handle,
                              cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                              cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
                              int most, int *n, void *out)
{
    perf all[MOST];
    convolution c;
    cudnnStatus_t status = status_of(swi_fake_enter(function));
    *n = 0;
    if (status == CUDNN_STATUS_SUCCESS)
        status = describe(&c, result, handle, x, w, conv, y);
    if (status == CUDNN_STATUS_SUCCESS)
        status =
            most < 1 ? CUDNN_STATUS_BAD_PARAM : list(&c, most < MOST ? most : MOST, n, all);
    if (status == CUDNN_STATUS_SUCCESS) {
        conv->listed = true;
        conv->asked = conv->math;
        memcpy(out, all, (size_t)*n * sizeof *all);
    }
    return leave(status);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnFilterDescriptor_t filterDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t destDesc, const int requestedAlgoCount,
    int *returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t *perfResults)
{
    return ask_list(SWI_FN_cudnnGetConvolutionForwardAlgorithm_v7, Y, handle, srcDesc,
                    filterDesc, convDesc, destDesc, requestedAlgoCount, returnedAlgoCount,
                    perfResults);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount,
    int *returnedAlgoCount, cudnnConvolutionBwdDataAlgoPerf_t *perfResults)
{
    return ask_list(SWI_FN_cudnnGetConvolutionBackwardDataAlgorithm_v7, DX, handle, gradDesc,
                    filterDesc, convDesc, diffDesc, requestedAlgoCount, returnedAlgoCount,
                    perfResults);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnFilterDescriptor_t gradDesc, const int requestedAlgoCount,
    int *returnedAlgoCount, cudnnConvolutionBwdFilterAlgoPerf_t *perfResults)
{
    return ask_list(SWI_FN_cudnnGetConvolutionBackwardFilterAlgorithm_v7, DW, handle, srcDesc,
                    gradDesc, convDesc, diffDesc, requestedAlgoCount, returnedAlgoCount,
                    perfResults);
}

static cudnnStatus_t ask_bytes(swi_fake_function function, what result, cudnnHandle_t handle,
                               cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                               cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
                               int algorithm, size_t *out)
{
    convolution c;
    cudnnStatus_t status = status_of(swi_fake_enter(function));
    if (status == CUDNN_STATUS_SUCCESS)
        status = describe(&c, result, handle, x, w, conv, y);
    const rule *r = status == CUDNN_STATUS_SUCCESS ? rule_of(&c, algorithm) : NULL;
    if (r != NULL)
        *out = workspace_of(&c, r);
    else if (status == CUDNN_STATUS_SUCCESS)
        status = CUDNN_STATUS_NOT_SUPPORTED;
    return leave(status);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc,
    const cudnnFilterDescriptor_t wDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t yDesc, cudnnConvolutionFwdAlgo_t algo, size_t *sizeInBytes)
{
    return ask_bytes(SWI_FN_cudnnGetConvolutionForwardWorkspaceSize, Y, handle, xDesc, wDesc,
                     convDesc, yDesc, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc,
    const cudnnTensorDescriptor_t dyDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t dxDesc, cudnnConvolutionBwdDataAlgo_t algo,
    size_t *sizeInBytes)
{
    return ask_bytes(SWI_FN_cudnnGetConvolutionBackwardDataWorkspaceSize, DX, handle, dxDesc,
                     wDesc, convDesc, dyDesc, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc,
    const cudnnTensorDescriptor_t dyDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnFilterDescriptor_t gradDesc, cudnnConvolutionBwdFilterAlgo_t algo,
    size_t *sizeInBytes)
{
    return ask_bytes(SWI_FN_cudnnGetConvolutionBackwardFilterWorkspaceSize, DW, handle, xDesc,
                     gradDesc, convDesc, dyDesc, (int)algo, sizeInBytes);
}

/* ---- convolutions ------------------------------------------------------------------------ */

static float factor(const convolution *c, float x)
{
    return c->conv.math == CUDNN_FMA_MATH ? x : swi_fake_tf32(x);
}

/* The terms of one place of y. */
static void one_place(const convolution *c, double *sum, const int at[4])
{
    const int channels = c->w.dim[1], group = at[1] / (c->w.dim[0] / c->conv.groups);
    const float *const first = c->in[0], *const second = c->in[1];
    const size_t y =
        (((size_t)at[0] * c->y.dim[1] + at[1]) * c->y.dim[2] + at[2]) * (size_t)c->y.dim[3] +
        at[3];
    for (int i = 0; i < channels; i++)
        for (int ky = 0; ky < c->w.dim[2]; ky++)
            for (int kx = 0; kx < c->w.dim[3]; kx++) {
                const int64_t iy = (int64_t)at[2] * c->conv.stride[0] - c->conv.pad[0] +
                                   (int64_t)ky * c->conv.dilation[0];
                const int64_t ix = (int64_t)at[3] * c->conv.stride[1] - c->conv.pad[1] +
                                   (int64_t)kx * c->conv.dilation[1];
                if (iy < 0 || iy >= c->x.dim[2] || ix < 0 || ix >= c->x.dim[3])
                    continue;
                const size_t plane = (size_t)at[0] * c->x.dim[1] + group * channels + i;
                const size_t x = (plane * c->x.dim[2] + (size_t)iy) * c->x.dim[3] + (size_t)ix;
                const size_t w =
                    (((size_t)at[1] * channels + i) * c->w.dim[2] + ky) * c->w.dim[3] + kx;
                const size_t a = c->result == DX ? w : x, b = c->result == Y ? w : y;
                double *to = &sum[c->result == Y ? y : c->result == DX ? x : w];
                *to += (double)factor(c, first[a]) * (double)factor(c, second[b]);
                if (c->varies && swi_fake.counts.convolutions_run % 2 == 1)
                    *to = (double)(float)*to;
            }
}

static cudaError_t run_convolution(swi_work *work)
{
    const convolution *c = work->body;
    const struct cudnnTensorStruct *const shape[] = {&c->y, &c->x, &c->w},
                                          *s = shape[c->result];
    const float *old = c->z != NULL ? c->z : c->out, *bias = c->bias;
    float *out = c->out;
    double *sum = swi_fake_reserve(elements(s) * sizeof *sum);
    if (c->workspace_bytes > 0)
        memset(c->workspace, 0xff, c->workspace_bytes); /* NaNs: it is used */
    int at[4];
    for (at[0] = 0; at[0] < c->y.dim[0]; at[0]++)
        for (at[1] = 0; at[1] < c->y.dim[1]; at[1]++)
            for (at[2] = 0; at[2] < c->y.dim[2]; at[2]++)
                for (at[3] = 0; at[3] < c->y.dim[3]; at[3]++)
                    one_place(c, sum, at);
    for (size_t i = 0; i < elements(s); i++) {
        float v = c->alpha * (float)sum[i];
        if (c->beta != 0.0f)
            v += c->beta * old[i];
        if (bias != NULL)
            v += bias[i / ((size_t)s->dim[2] * s->dim[3]) % s->dim[1]];
        out[i] = v;
    }
    free(sum);
    return cudaSuccess;
}

static bool there(const char *name, const void *at, size_t n)
{
    if (swi_fake_there(at, n * sizeof(float)))
        return true;
    swi_fake_violation("a convolution: %s leaves the memory of the card", name);
    return false;
}

static bool apart(const void *a, size_t n, const void *b, size_t m)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    if (x + n * sizeof(float) <= y || y + m * sizeof(float) <= x)
        return true;
    swi_fake_violation("a convolution writes what it reads");
    return false;
}

/* Pointers and workspace, as the algorithm wants them. */
static cudnnStatus_t check(convolution *c, size_t workspace_bytes)
{
    const struct cudnnTensorStruct *const of[3][3] = {
        {&c->x, &c->w, &c->y}, {&c->w, &c->y, &c->x}, {&c->x, &c->y, &c->w}};
    const struct cudnnTensorStruct *const *s = of[c->result];
    const rule *r = rule_of(c, c->algorithm);
    if (r == NULL)
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (c->conv.listed && c->conv.math != CUDNN_FMA_MATH &&
        (c->conv.asked == CUDNN_FMA_MATH ||
         c->conv.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION))
        swi_fake_violation("a convolution in an arithmetic that was not asked for");
    if (!there("the first operand", c->in[0], elements(s[0])) ||
        !there("the second operand", c->in[1], elements(s[1])) ||
        !there("the result", c->out, elements(s[2])) ||
        (c->bias != NULL && !there("the bias", c->bias, (size_t)c->y.dim[1])) ||
        !apart(c->in[0], elements(s[0]), c->out, elements(s[2])) ||
        !apart(c->in[1], elements(s[1]), c->out, elements(s[2])))
        return CUDNN_STATUS_BAD_PARAM;
    c->workspace_bytes = workspace_of(c, r);
    c->varies = r->varies;
    if (c->workspace_bytes > workspace_bytes)
        return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    if (c->workspace_bytes > 0 && (c->workspace == NULL || (uintptr_t)c->workspace % 16 != 0 ||
                                   !swi_fake_there(c->workspace, workspace_bytes)))
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    return CUDNN_STATUS_SUCCESS;
}

static void note(const convolution *c, const char *function, bool captured)
{
    sw_fake_launch l = {
        .captured = captured,
        .grid = {(unsigned)c->algorithm, (unsigned)c->conv.math, (unsigned)c->workspace_bytes}};
    const void *const at[] = {c->in[0], c->in[1], c->bias, c->out, c->workspace};
    memcpy(l.kernel, function, strlen(function));
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if (swi_fake_in_window(at[i]))
            l.pointer[l.n++] = at[i];
    swi_fake_log(&l);
}

/* After swi_fake_enter, which it leaves. */
static cudnnStatus_t put(convolution *c, const char *function, cudnnHandle_t handle,
                         size_t workspace_bytes)
{
    cudaStream_t stream = handle->stream;
    cudnnStatus_t status = status_of(swi_stream_of(&stream));
    if (status == CUDNN_STATUS_SUCCESS)
        status = check(c, workspace_bytes);
    if (status != CUDNN_STATUS_SUCCESS)
        return leave(status);
    note(c, function, stream->capture != NULL);
    swi_work *work = swi_work_new(SWI_CONV, sizeof *c);
    memcpy(work->body, c, sizeof *c);
    work->run = run_convolution;
    work->cost_ns = 3000 + elements(&c->y) * (elements(&c->w) / c->w.dim[0]) / 1024;
    swi_fake.counts.convolutions += stream->capture == NULL;
    return leave(status_of(swi_stream_put(stream, work)));
}

/* A launch: the function by its name, the operands by the names that all of them share. */
#define CONVOLVE(function, result, first, second, to)                                          \
    convolution c;                                                                             \
    cudnnStatus_t status = status_of(swi_fake_enter(SWI_FN_##function));                       \
    if (status == CUDNN_STATUS_SUCCESS)                                                        \
        status = describe(&c, result, handle, xDesc, wDesc, convDesc, yDesc);                  \
    if (status != CUDNN_STATUS_SUCCESS)                                                        \
        return leave(status);                                                                  \
    c.algorithm = (int)algo;                                                                   \
    c.in[0] = first, c.in[1] = second, c.out = to;                                             \
    c.workspace = workSpace

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t xDesc, const void *x,
                                      const cudnnFilterDescriptor_t wDesc, const void *w,
                                      const cudnnConvolutionDescriptor_t convDesc,
                                      cudnnConvolutionFwdAlgo_t algo, void *workSpace,
                                      size_t workSpaceSizeInBytes, const void *beta,
                                      const cudnnTensorDescriptor_t yDesc, void *y)
{
    CONVOLVE(cudnnConvolutionForward, Y, x, w, y);
    c.alpha = *(const float *)alpha, c.beta = *(const float *)beta;
    return put(&c, __func__, handle, workSpaceSizeInBytes);
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha1, const cudnnTensorDescriptor_t xDesc,
    const void *x, const cudnnFilterDescriptor_t wDesc, const void *w,
    const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t algo,
    void *workSpace, size_t workSpaceSizeInBytes, const void *alpha2,
    const cudnnTensorDescriptor_t zDesc, const void *z, const cudnnTensorDescriptor_t biasDesc,
    const void *bias, const cudnnActivationDescriptor_t activationDesc,
    const cudnnTensorDescriptor_t yDesc, void *y)
{
    CONVOLVE(cudnnConvolutionBiasActivationForward, Y, x, w, y);
    c.alpha = *(const float *)alpha1, c.beta = *(const float *)alpha2;
    c.bias = bias, c.z = z;
    if (zDesc == NULL || biasDesc == NULL || activationDesc == NULL || z == NULL ||
        bias == NULL || !swi_item_there(zDesc) || !swi_item_there(biasDesc) ||
        !swi_item_there(activationDesc))
        return leave(CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    if (memcmp(zDesc, yDesc, sizeof *zDesc) != 0 || biasDesc->dim[1] != yDesc->dim[1] ||
        elements(biasDesc) != (size_t)yDesc->dim[1])
        return leave(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
    if (activationDesc->mode != CUDNN_ACTIVATION_IDENTITY ||
        algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
        return leave(CUDNN_STATUS_NOT_SUPPORTED);
    return put(&c, __func__, handle, workSpaceSizeInBytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           const cudnnFilterDescriptor_t wDesc, const void *w,
                                           const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                           const cudnnConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workSpace,
                                           size_t workSpaceSizeInBytes, const void *beta,
                                           const cudnnTensorDescriptor_t dxDesc, void *dx)
{
    const cudnnTensorDescriptor_t xDesc = dxDesc, yDesc = dyDesc;
    CONVOLVE(cudnnConvolutionBackwardData, DX, w, dy, dx);
    c.alpha = *(const float *)alpha, c.beta = *(const float *)beta;
    return put(&c, __func__, handle, workSpaceSizeInBytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnTensorDescriptor_t dyDesc, const void *dy,
    const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionBwdFilterAlgo_t algo,
    void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
    const cudnnFilterDescriptor_t dwDesc, void *dw)
{
    const cudnnTensorDescriptor_t yDesc = dyDesc;
    const cudnnFilterDescriptor_t wDesc = dwDesc;
    CONVOLVE(cudnnConvolutionBackwardFilter, DW, x, dy, dw);
    c.alpha = *(const float *)alpha, c.beta = *(const float *)beta;
    return put(&c, __func__, handle, workSpaceSizeInBytes);
}
