/* cuDNN of the fake runtime: what it offers, what it refuses, and what it reports. That its
 * numbers are right is test_dnn.c's. */
#include "tests/cuda/test_fake.h"
#include <cudnn.h>
#include <math.h>

/* One image of one channel, 4 x 4, with a kernel of 3 x 3: y is 2 x 2. */
static struct {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x, y, bias;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t identity;
    cudaStream_t s;
    float *at_x, *at_w, *at_y, *at_bias, *workspace;
} t;

static void fill(float *device, int n, float first, float step)
{
    float *host = new_pinned();
    for (int i = 0; i < n; i++)
        host[i] = first + step * (float)i;
    GOOD(cudaMemcpyAsync(device, host, (size_t)n * sizeof(float), cudaMemcpyHostToDevice, t.s));
}

static cudnnTensorDescriptor_t images(int c, int h, int w)
{
    cudnnTensorDescriptor_t d = NULL;
    GOOD(cudnnCreateTensorDescriptor(&d));
    GOOD(cudnnSetTensor4dDescriptor(d, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, c, h, w));
    return d;
}

static void begin(void)
{
    fresh(NULL, 0);
    t.s = new_stream();
    GOOD(cudnnCreate(&t.handle));
    GOOD(cudnnSetStream(t.handle, t.s));
    t.x = images(1, 4, 4), t.y = images(1, 2, 2), t.bias = images(1, 1, 1);
    GOOD(cudnnCreateFilterDescriptor(&t.w));
    GOOD(cudnnSetFilter4dDescriptor(t.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 3, 3));
    GOOD(cudnnCreateConvolutionDescriptor(&t.conv));
    GOOD(cudnnSetConvolution2dDescriptor(t.conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                         CUDNN_DATA_FLOAT));
    GOOD(cudnnSetConvolutionMathType(t.conv, CUDNN_FMA_MATH));
    GOOD(cudnnCreateActivationDescriptor(&t.identity));
    GOOD(cudnnSetActivationDescriptor(t.identity, CUDNN_ACTIVATION_IDENTITY,
                                      CUDNN_PROPAGATE_NAN, 0.0));
    t.at_x = new_device(), t.at_w = new_device(), t.at_y = new_device();
    t.at_bias = new_device(), t.workspace = new_device();
    fill(t.at_x, 16, 0.0f, 1.0f);
    fill(t.at_w, 9, 1.0f, 0.0f);
    fill(t.at_bias, 1, 1000.0f, 0.0f);
    fill(t.at_y, 4, 0.5f, 0.0f);
}

static void end(void)
{
    GOOD(cudnnDestroyTensorDescriptor(t.x));
    GOOD(cudnnDestroyTensorDescriptor(t.y));
    GOOD(cudnnDestroyTensorDescriptor(t.bias));
    GOOD(cudnnDestroyFilterDescriptor(t.w));
    GOOD(cudnnDestroyConvolutionDescriptor(t.conv));
    GOOD(cudnnDestroyActivationDescriptor(t.identity));
    GOOD(cudnnDestroy(t.handle));
    CU_ASSERT_EQUAL(living().dnn, 0);
}

static cudnnStatus_t forward(cudnnConvolutionFwdAlgo_t algorithm, const float *x, float *y,
                             void *workspace, size_t bytes)
{
    const float one = 1.0f, zero = 0.0f;
    return cudnnConvolutionForward(t.handle, &one, t.x, x, t.w, t.at_w, t.conv, algorithm,
                                   workspace, bytes, &zero, t.y, y);
}

static cudnnStatus_t with_bias(cudnnConvolutionFwdAlgo_t algorithm, cudnnTensorDescriptor_t z,
                               float twice)
{
    const float one = 1.0f;
    return cudnnConvolutionBiasActivationForward(
        t.handle, &one, t.x, t.at_x, t.w, t.at_w, t.conv, algorithm, t.workspace, 256, &twice,
        z, t.at_y, t.bias, t.at_bias, t.identity, t.y, t.at_y);
}

#define PRECOMP CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM
#define IMPLICIT CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM

static void sums_bias_and_what_is_added(void)
{
    begin();
    GOOD(forward(IMPLICIT, t.at_x, t.at_y, NULL, 0));
    CU_ASSERT_EQUAL(first_of(t.at_y), 45.0f); /* 0 1 2, 4 5 6, 8 9 10 */
    CU_ASSERT_EQUAL(first_of(t.at_y + 3), 90.0f);
    GOOD(with_bias(PRECOMP, t.y, 2.0f));
    CU_ASSERT_EQUAL(first_of(t.at_y), 45.0f + 1000.0f + 90.0f);
    GOOD(with_bias(PRECOMP, t.y, 0.0f));
    CU_ASSERT_EQUAL(first_of(t.at_y), 1045.0f);
    CU_ASSERT(isnan(first_of(t.workspace)) && isnan(first_of(t.workspace + 63)));
    CU_ASSERT(counted().convolutions == 3 && counted().convolutions_run == 3);
    no_violation();
    end();
}

/* The list begins with what a careful caller does not take. */
static void offers(void)
{
    cudnnConvolutionFwdAlgoPerf_t y[32];
    cudnnConvolutionBwdDataAlgoPerf_t dx[32];
    cudnnConvolutionBwdFilterAlgoPerf_t dw[32];
    int n = 0, missing = 0;
    begin();
    GOOD(cudnnGetConvolutionForwardAlgorithm_v7(t.handle, t.x, t.w, t.conv, t.y, 32, &n, y));
    CU_ASSERT(n == 12 && y[0].algo == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD &&
              y[0].mathType != CUDNN_FMA_MATH && y[1].mathType == CUDNN_FMA_MATH);
    for (int i = 0; i < n; i++) {
        size_t bytes = 1;
        const cudnnStatus_t status = cudnnGetConvolutionForwardWorkspaceSize(
            t.handle, t.x, t.w, t.conv, t.y, y[i].algo, &bytes);
        CU_ASSERT_EQUAL(status, y[i].status);
        CU_ASSERT(status != CUDNN_STATUS_SUCCESS || bytes == y[i].memory);
        missing += status == CUDNN_STATUS_NOT_SUPPORTED;
    }
    CU_ASSERT_EQUAL(missing, 2);
    GOOD(cudnnGetConvolutionBackwardDataAlgorithm_v7(t.handle, t.w, t.y, t.conv, t.x, 32, &n,
                                                     dx));
    CU_ASSERT(n == 8 && dx[0].determinism == CUDNN_NON_DETERMINISTIC);
    GOOD(cudnnGetConvolutionBackwardFilterAlgorithm_v7(t.handle, t.x, t.y, t.conv, t.w, 3, &n,
                                                       dw));
    CU_ASSERT(n == 3 && dw[2].determinism == CUDNN_NON_DETERMINISTIC);
    GOOD(cudnnSetConvolution2dDescriptor(t.conv, 1, 1, 1, 1, 2, 2, CUDNN_CROSS_CORRELATION,
                                         CUDNN_DATA_FLOAT));
    GOOD(cudnnGetConvolutionBackwardDataAlgorithm_v7(t.handle, t.w, t.y, t.conv, t.x, 32, &n,
                                                     dx));
    CU_ASSERT(n == 3 && dx[2].determinism == CUDNN_NON_DETERMINISTIC);
    no_violation();
    end();
}

static void what_varies_has_other_bits(void)
{
    const float one = 1.0f, zero = 0.0f;
    float seen[2][9];
    begin();
    fill(t.at_x, 16, 0.1f, 0.37f); /* whose sums are rounded */
    fill(t.at_y, 4, 1.0f, 0.31f);
    for (int i = 0; i < 2; i++) {
        GOOD(cudnnConvolutionBackwardFilter(t.handle, &one, t.x, t.at_x, t.y, t.at_y, t.conv,
                                            CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, NULL, 0, &zero,
                                            t.w, t.at_w));
        sw_fake()->peek(seen[i], t.at_w, sizeof seen[i]);
    }
    CU_ASSERT(memcmp(seen[0], seen[1], sizeof seen[0]) != 0);
    for (int k = 0; k < 9; k++)
        CU_ASSERT(fabsf(seen[0][k] - seen[1][k]) < 1e-5f);
    end();
}

static void what_does_not_fit_is_refused(void)
{
    cudnnConvolutionFwdAlgoPerf_t list[32];
    cudnnTensorDescriptor_t blank = NULL;
    int n;
    begin();
    GOOD(forward(PRECOMP, t.at_x, t.at_y, t.workspace, 256));
    GIVES(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
          forward(PRECOMP, t.at_x, t.at_y, t.workspace, 255));
    GIVES(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
          forward(PRECOMP, t.at_x, t.at_y, NULL, 256));
    GIVES(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
          forward(PRECOMP, t.at_x, t.at_y, t.workspace + 1, 256));
    GIVES(CUDNN_STATUS_NOT_SUPPORTED,
          forward(CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, t.at_x, t.at_y, NULL, 0));
    GIVES(CUDNN_STATUS_NOT_SUPPORTED, with_bias(IMPLICIT, t.y, 0.0f));
    GIVES(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, with_bias(PRECOMP, NULL, 0.0f));
    GIVES(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, with_bias(PRECOMP, t.x, 0.0f));
    GOOD(cudnnSetActivationDescriptor(t.identity, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN,
                                      0.0));
    GIVES(CUDNN_STATUS_NOT_SUPPORTED, with_bias(PRECOMP, t.y, 0.0f));
    GOOD(cudnnCreateTensorDescriptor(&blank));
    GIVES(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
          cudnnGetConvolutionForwardAlgorithm_v7(t.handle, blank, t.w, t.conv, t.y, 32, &n,
                                                 list));
    GIVES(
        CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
        cudnnGetConvolutionForwardAlgorithm_v7(t.handle, t.y, t.w, t.conv, t.x, 32, &n, list));
    GIVES(
        CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
        cudnnGetConvolutionForwardAlgorithm_v7(t.handle, t.x, NULL, t.conv, t.y, 32, &n, list));
    GIVES(CUDNN_STATUS_BAD_PARAM,
          cudnnSetTensor4dDescriptor(blank, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 0, 1, 1));
    GIVES(CUDNN_STATUS_BAD_PARAM,
          cudnnSetTensor4dDescriptor(blank, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1 << 16,
                                     1 << 15, 1, 1));
    GIVES(CUDNN_STATUS_NOT_SUPPORTED,
          cudnnSetTensor4dDescriptor(blank, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    GOOD(cudnnDestroyTensorDescriptor(blank));
    no_violation();
    end();
}

/* Mistakes that cuDNN would let pass. */
static void what_is_wrong_is_reported(void)
{
    cudnnConvolutionFwdAlgoPerf_t list[32];
    int n;
    begin();
    GIVES(CUDNN_STATUS_BAD_PARAM, forward(IMPLICIT, t.at_x + N - 8, t.at_y, NULL, 0));
    violation_says("the first operand leaves");
    end();
    begin();
    GIVES(CUDNN_STATUS_BAD_PARAM, forward(IMPLICIT, t.at_x, t.at_x + 15, NULL, 0));
    violation_says("writes what it reads");
    end();
    begin();
    GOOD(cudnnGetConvolutionForwardAlgorithm_v7(t.handle, t.x, t.w, t.conv, t.y, 32, &n, list));
    GOOD(cudnnSetConvolutionMathType(t.conv, CUDNN_DEFAULT_MATH));
    GOOD(forward(IMPLICIT, t.at_x, t.at_y, NULL, 0));
    violation_says("arithmetic that was not asked for");
    end();
    begin();
    const cudnnTensorDescriptor_t gone = t.bias;
    GOOD(cudnnDestroyTensorDescriptor(t.bias));
    GOOD(cudnnDestroyTensorDescriptor(gone));
    violation_says("that is not there");
    t.bias = images(1, 1, 1);
    end();
}

static void handles_take_memory_and_wait(void)
{
    cudnnHandle_t more = NULL;
    cudaGraph_t graph;
    size_t before, during, total;
    begin();
    GOOD(cudaMemGetInfo(&before, &total));
    GOOD(cudnnCreate(&more));
    GOOD(cudaMemGetInfo(&during, &total));
    CU_ASSERT_EQUAL(before - during, SW_FAKE_DNN_BYTES);
    sw_fake()->lazy(1);
    GOOD(forward(IMPLICIT, t.at_x, t.at_y, NULL, 0));
    CU_ASSERT(living().pending > 0);
    const uint64_t syncs = counted().syncs;
    GOOD(cudnnDestroy(more));
    CU_ASSERT(living().pending == 0 && counted().syncs == syncs + 1);
    no_violation();
    GOOD(cudaStreamBeginCapture(t.s, cudaStreamCaptureModeRelaxed));
    GOOD(cudnnCreate(&more));
    violation_says("cudnnCreate may wait");
    GOOD(cudaStreamEndCapture(t.s, &graph));
    GOOD(cudaGraphDestroy(graph));
    GOOD(cudnnDestroy(more));
    end();
    fresh(&(sw_fake_card){.total_bytes = SW_FAKE_CONTEXT_BYTES + SW_FAKE_DNN_BYTES - 1}, 0);
    GOOD(cudaSetDevice(0));
    GIVES(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, cudnnCreate(&more));
}

static const sw_test tests[] = {
    {"sums, bias and what is added", sums_bias_and_what_is_added},
    {"offers", offers},
    {"what varies has other bits", what_varies_has_other_bits},
    {"what does not fit is refused", what_does_not_fit_is_refused},
    {"what is wrong is reported", what_is_wrong_is_reported},
    {"handles take memory and wait", handles_take_memory_and_wait},
};
SW_SUITE("fake dnn", tests)
