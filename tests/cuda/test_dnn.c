/* Convolutions by cuDNN (runtime/device/cuda/dnn.c) over the fake of it: what they are, what is
 * taken of what the library offers, what is left to own kernels, what is asked when, and what
 * becomes of failures. */
#include "kernels/attrs.h"
#include "kernels/cuda/dnn.h"
#include "runtime/device/cuda/host.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/test_fake.h"
#include <cudnn.h>
#include <math.h>
#include <stdatomic.h>
#include <time.h>

#define ROOM 16384 /* floats of each operand */
enum { X, W, Y, BIAS, OPERANDS };
static struct {
    sw_cuda_queue queue;
    sw_cuda_device device;
    float *host[OPERANDS], *dev[OPERANDS], *out;
    unsigned char *scratch; /* of the card, as an arena gives it */
} t;

static void begin_on(int card)
{
    sw_dice dice = {13};
    pthread_mutexattr_t knowing;
    void *at = NULL;
    fresh(&(sw_fake_card){.cards = card + 1}, 0);
    GOOD(cudaSetDevice(card));
    memset(&t, 0, sizeof t);
    t.device.ordinal = card;
    pthread_mutexattr_init(&knowing);
    pthread_mutexattr_settype(&knowing, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&t.device.capture_lock, &knowing);
    pthread_mutexattr_destroy(&knowing);
    t.queue.stream = new_stream();
    t.queue.device = &t.device;
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
    CU_ASSERT_EQUAL_FATAL(sw_cuda_dnn_create(&t.queue.dnn), SW_OK);
}

static void begin(void)
{
    begin_on(0);
}

static void end_library(void)
{
    sw_cuda_dnn_destroy(t.queue.dnn);
    CU_ASSERT_EQUAL(living().dnn, 0);
    CU_ASSERT_EQUAL(sw_fake_host_blocks, 0);
    CU_ASSERT_EQUAL(pthread_mutex_destroy(&t.device.capture_lock), 0); /* no one holds it */
}

static void end(void)
{
    end_library();
    no_violation();
}

static size_t asks(const sw_cuda_conv_sizes *z)
{
    return ((const sw_cuda_dnn *)t.queue.dnn)->bytes(&t.queue, z);
}

static int out_of(const sw_cuda_conv_sizes *z)
{
    return z->result == SW_CUDA_CONV_Y ? Y : z->result == SW_CUDA_CONV_DX ? X : W;
}

static sw_cuda_conv_operands operands_of(const sw_cuda_conv_sizes *z)
{
    static const int in[][2] = {{X, W}, {W, Y}, {X, Y}};
    return (sw_cuda_conv_operands){{t.dev[in[z->result][0]], t.dev[in[z->result][1]]},
                                   z->bias ? t.dev[BIAS] : NULL,
                                   t.dev[out_of(z)],
                                   0};
}

static sw_status runs_with(const sw_cuda_conv_sizes *z, const sw_cuda_conv_operands *at,
                           size_t bytes)
{
    return ((const sw_cuda_dnn *)t.queue.dnn)->run(&t.queue, z, at, t.scratch, bytes);
}

static sw_status runs(const sw_cuda_conv_sizes *z, size_t bytes)
{
    const sw_cuda_conv_operands at = operands_of(z);
    return runs_with(z, &at, bytes);
}

static const sw_fake_launch *last_launch(void)
{
    const sw_fake_launch *l;
    const size_t n = sw_fake()->launches(&l);
    CU_ASSERT_FATAL(n > 0);
    return &l[n - 1];
}

/* ---- convolutions ------------------------------------------------------------------------ */

static sw_cuda_conv_sizes sizes_of(const sw_op_case *c, sw_cuda_conv_result result)
{
    const swi_conv_attrs *a = c->attrs;
    const int64_t *x = c->in[0].shape.dim, *w = c->in[1].shape.dim;
    sw_cuda_conv_sizes z = {.result = result,
                            .bias = result == SW_CUDA_CONV_Y && c->n_in > 2,
                            .batch = x[0],
                            .in_c = x[1],
                            .in_h = x[2],
                            .in_w = x[3],
                            .out_c = w[0],
                            .groups = a->groups,
                            .kernel_h = w[2],
                            .kernel_w = w[3],
                            .stride = a->stride,
                            .pad = a->pad,
                            .dilation = a->dilation};
    z.out_h = (z.in_h + 2 * z.pad - (z.kernel_h - 1) * z.dilation - 1) / z.stride + 1;
    z.out_w = (z.in_w + 2 * z.pad - (z.kernel_w - 1) * z.dilation - 1) / z.stride + 1;
    return z;
}

/* A sum long enough for workspace in all three. */
static const swi_conv_attrs plain_attrs = {1, 1, 1, 1};
static const sw_op_case plain = {.name = "plain",
                                 .n_in = 3,
                                 .in = {F32(3, 4, 6, 5), F32(7, 4, 3, 3), F32(7)},
                                 .attrs = &plain_attrs};

/* Product of the operands where they meet: (image, channel of y, of x in its group, place of y,
 * tap); 0 in the padding. */
static double term(const sw_cuda_conv_sizes *z, const int64_t at[7])
{
    const int64_t each = z->in_c / z->groups, c = at[1] / (z->out_c / z->groups) * each + at[2];
    const int64_t y = at[3] * z->stride + at[5] * z->dilation - z->pad;
    const int64_t x = at[4] * z->stride + at[6] * z->dilation - z->pad;
    if (y < 0 || y >= z->in_h || x < 0 || x >= z->in_w)
        return 0.0;
    const int64_t in_x = ((at[0] * z->in_c + c) * z->in_h + y) * z->in_w + x;
    const int64_t in_w = ((at[1] * each + at[2]) * z->kernel_h + at[5]) * z->kernel_w + at[6];
    const int64_t in_y = ((at[0] * z->out_c + at[1]) * z->out_h + at[3]) * z->out_w + at[4];
    const float *const *h = (const float *const *)t.host;
    return z->result == SW_CUDA_CONV_Y    ? (double)h[X][in_x] * (double)h[W][in_w]
           : z->result == SW_CUDA_CONV_DX ? (double)h[W][in_w] * (double)h[Y][in_y]
                                          : (double)h[X][in_x] * (double)h[Y][in_y];
}

/* Element e of y or dw: a sum over what it is not counted by. Of dx: each place of y and tap
 * that meet it. */
static double expected(const sw_cuda_conv_sizes *z, int64_t e, bool add)
{
    const int64_t each = z->in_c / z->groups;
    int64_t from[7] = {0},
            to[7] = {z->batch, z->out_c, each, z->out_h, z->out_w, z->kernel_h, z->kernel_w};
    int64_t y = 0, x = 0, at[7];
    double sum = add ? (double)t.host[out_of(z)][e] : 0.0;
#define ONLY(i, n) (from[i] = e % (n), to[i] = from[i] + 1, e /= (n))
    if (z->result == SW_CUDA_CONV_Y) {
        ONLY(4, z->out_w), ONLY(3, z->out_h), ONLY(1, z->out_c), ONLY(0, z->batch);
        sum += z->bias ? (double)t.host[BIAS][from[1]] : 0.0;
    } else if (z->result == SW_CUDA_CONV_DW) {
        ONLY(6, z->kernel_w), ONLY(5, z->kernel_h), ONLY(2, each), ONLY(1, z->out_c);
    } else {
        x = e % z->in_w, e /= z->in_w;
        y = e % z->in_h, e /= z->in_h;
        ONLY(2, each);
        from[1] = e % z->groups * (z->out_c / z->groups);
        to[1] = from[1] + z->out_c / z->groups;
        e /= z->groups;
        ONLY(0, z->batch);
    }
#undef ONLY
    for (at[0] = from[0]; at[0] < to[0]; at[0]++)
        for (at[1] = from[1]; at[1] < to[1]; at[1]++)
            for (at[2] = from[2]; at[2] < to[2]; at[2]++)
                for (at[3] = from[3]; at[3] < to[3]; at[3]++)
                    for (at[4] = from[4]; at[4] < to[4]; at[4]++)
                        for (at[5] = from[5]; at[5] < to[5]; at[5]++)
                            for (at[6] = from[6]; at[6] < to[6]; at[6]++) {
                                const bool meets =
                                    z->result != SW_CUDA_CONV_DX ||
                                    (at[3] * z->stride + at[5] * z->dilation - z->pad == y &&
                                     at[4] * z->stride + at[6] * z->dilation - z->pad == x);
                                sum += meets ? term(z, at) : 0.0;
                            }
    return sum;
}

static int64_t elements_of(const sw_cuda_conv_sizes *z)
{
    return z->result == SW_CUDA_CONV_Y ? z->batch * z->out_c * z->out_h * z->out_w
           : z->result == SW_CUDA_CONV_DX
               ? z->batch * z->in_c * z->in_h * z->in_w
               : z->out_c * (z->in_c / z->groups) * z->kernel_h * z->kernel_w;
}

/* Nothing else is written. */
static void compare(const char *what, const sw_cuda_conv_sizes *z, size_t bytes, bool add)
{
    const int out = out_of(z);
    sw_cuda_conv_operands at = operands_of(z);
    const uint64_t before = counted().convolutions;
    at.accumulate = add;
    for (int i = 0; i < OPERANDS; i++) /* each is an output at times */
        GOOD(cudaMemcpyAsync(t.dev[i], t.host[i], ROOM * sizeof(float), cudaMemcpyHostToDevice,
                             t.queue.stream));
    if (!SW_CHECK(runs_with(z, &at, bytes) == SW_OK, "%s: %s", what, sw_last_error()))
        return;
    CU_ASSERT_EQUAL(counted().convolutions, before + 1);
    GOOD(cudaMemcpyAsync(t.out, t.dev[out], ROOM * sizeof(float), cudaMemcpyDeviceToHost,
                         t.queue.stream));
    for (int64_t e = 0; e < ROOM; e++) {
        const double want = e < elements_of(z) ? expected(z, e, add) : (double)t.host[out][e];
        if (!SW_CHECK(fabs((double)t.out[e] - want) < 2e-5, "%s: element %d is %g for %g", what,
                      (int)e, (double)t.out[e], want))
            return;
    }
}

/* The workspace is what was planned, at a good address within the scratch. */
static void look_at_workspace(size_t bytes)
{
    const sw_fake_launch *l = last_launch();
    const unsigned char *at = l->pointer[l->n - 1];
    CU_ASSERT_EQUAL(l->grid[2] > 0, bytes > 0);
    if (bytes > 0)
        CU_ASSERT(l->grid[2] == bytes - 192 && (uintptr_t)at % 256 == 0 && at >= t.scratch &&
                  at + l->grid[2] <= t.scratch + bytes);
}

/* All cases of the op, each of its results; the fake knows no strides with dilations, and no
 * gradient of x with a dilation that keeps its bits. */
static void convolutions_are_what_they_are(void)
{
    int n = 0, with_workspace = 0;
    begin();
    for (int i = 0; i <= sw_op_conv2d.n_cases; i++)
        for (int result = 0; result < 3; result++) {
            const sw_op_case *c = i < sw_op_conv2d.n_cases ? &sw_op_conv2d.cases[i] : &plain;
            const sw_cuda_conv_sizes z = sizes_of(c, (sw_cuda_conv_result)result);
            const bool left = z.dilation > 1 && (z.stride > 1 || result == SW_CUDA_CONV_DX);
            const size_t bytes = asks(&z);
            char what[96];
            snprintf(what, sizeof what, "%s, result %d", c->name, result);
            SW_CHECK((bytes == SIZE_MAX) == left, "%s: %zu bytes", what, bytes);
            if (left) {
                CU_ASSERT_EQUAL(runs(&z, 1 << 16), SW_UNSUPPORTED);
                continue;
            }
            for (int add = 0; add < 2; add++) {
                compare(what, &z, bytes, add);
                look_at_workspace(bytes);
            }
            n++;
            with_workspace += bytes > 0;
        }
    CU_ASSERT(n > 60 && with_workspace > 30);
    end();
}

/* Of the list: what has the terms of the formula, the same bits each time, the arithmetic that
 * was asked for and little enough workspace. With a bias the one that can have one. */
static void the_first_that_may_be_taken_is(void)
{
    static const struct {
        sw_cuda_conv_result result;
        int n_in;
        unsigned algorithm;
        const char *function;
    } cases[] = {
        {SW_CUDA_CONV_Y, 2, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
         "cudnnConvolutionForward"},
        {SW_CUDA_CONV_Y, 3, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
         "cudnnConvolutionBiasActivationForward"},
        {SW_CUDA_CONV_DX, 2, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, "cudnnConvolutionBackwardData"},
        {SW_CUDA_CONV_DW, 2, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
         "cudnnConvolutionBackwardFilter"}};
    begin();
    for (unsigned tf32 = 0; tf32 < 2; tf32++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            sw_op_case c = plain;
            c.n_in = cases[i].n_in;
            t.queue.flags = tf32 ? SW_CUDA_TF32 : 0;
            const sw_cuda_conv_sizes z = sizes_of(&c, cases[i].result);
            const size_t bytes = asks(&z);
            CU_ASSERT_EQUAL(runs(&z, bytes), SW_OK);
            const sw_fake_launch *l = last_launch();
            CU_ASSERT_STRING_EQUAL(l->kernel, cases[i].function);
            CU_ASSERT_EQUAL(l->grid[0], cases[i].algorithm);
            CU_ASSERT_EQUAL(l->grid[1], tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
        }
    end();
}

/* TF32 only where the queue says so. */
static void factors_are_rounded_where_it_is_asked_for(void)
{
    static const swi_conv_attrs attrs = {1, 0, 1, 1};
    static const sw_op_case one = {
        .n_in = 2, .in = {F32(1, 1, 1, 1), F32(1, 1, 1, 1)}, .attrs = &attrs};
    const sw_cuda_conv_sizes z = sizes_of(&one, SW_CUDA_CONV_Y);
    float y[3];
    begin();
    for (int i = 0; i < 3; i++) {
        t.queue.flags = i == 1 ? SW_CUDA_TF32 : 0;
        CU_ASSERT_EQUAL(runs(&z, asks(&z)), SW_OK);
        y[i] = first_of(t.dev[Y]);
    }
    CU_ASSERT_EQUAL(y[0], t.host[X][0] * t.host[W][0]);
    CU_ASSERT(y[1] != y[0] && fabsf(y[1] - y[0]) < 2e-3f);
    CU_ASSERT_EQUAL(y[2], y[0]);
    end();
}

/* ---- what is left ------------------------------------------------------------------------ */

/* Nothing, groups of nothing, more than it counts. */
static void sizes_that_are_none_of_its(void)
{
    begin();
    for (int i = 0; i < 9; i++) {
        sw_cuda_conv_sizes z = sizes_of(&plain, SW_CUDA_CONV_Y);
        int64_t *const no[] = {&z.batch, &z.in_c, &z.out_c, &z.out_h, &z.kernel_w, &z.groups};
        if (i < 6)
            *no[i] = 0;
        if (i == 6)
            z.batch = (int64_t)1 << 31;
        if (i == 7)
            z.in_h = z.in_w = 1 << 15, z.in_c = 2; /* of all elements */
        if (i == 8)
            z.kernel_w = INT64_MAX;
        CU_ASSERT_EQUAL(asks(&z), SIZE_MAX);
        CU_ASSERT_EQUAL(runs(&z, 1 << 16), SW_UNSUPPORTED);
    }
    CU_ASSERT_EQUAL(sw_fake()->calls("cudnnCreate"), 0);
    CU_ASSERT_EQUAL(counted().convolutions, 0);
    end();
}

/* A plan does not know addresses; and no launch asks. */
static void launches_that_no_plan_knew_are_left(void)
{
    const sw_cuda_conv_sizes z = sizes_of(&plain, SW_CUDA_CONV_Y);
    begin();
    CU_ASSERT_EQUAL(runs(&z, 1 << 16), SW_UNSUPPORTED);
    CU_ASSERT_EQUAL(sw_fake()->calls("cudnnCreate"), 0);
    const size_t bytes = asks(&z);
    CU_ASSERT_FATAL(bytes > 192 && bytes < 1 << 16);
    for (int i = 0; i < 6; i++) {
        sw_cuda_conv_operands at = operands_of(&z);
        at.in[0] += i == 0;
        at.in[1] += i == 1;
        at.bias += i == 2;
        at.out += i == 3;
        CU_ASSERT_EQUAL(runs_with(&z, &at, i == 4 ? bytes - 256 : bytes),
                        i == 5 ? SW_OK : SW_UNSUPPORTED);
    }
    CU_ASSERT_EQUAL(counted().convolutions, 1);
    end();
}

/* ---- what is asked when ------------------------------------------------------------------ */

/* A launch takes what its plan found: nothing is asked, made or allocated any more, but for the
 * launch itself. */
static void launches_find_what_plans_asked(void)
{
    begin();
    CU_ASSERT_EQUAL(living().dnn, 0); /* not before it is needed */
    for (int i = 0; i < 3; i++) {
        const sw_cuda_conv_sizes z = sizes_of(&plain, (sw_cuda_conv_result)i);
        const size_t bytes = asks(&z);
        uint64_t calls = sw_fake()->calls(NULL);
        CU_ASSERT_EQUAL(asks(&z), bytes);
        CU_ASSERT_EQUAL(sw_fake()->calls(NULL), calls);
        const uint64_t live = living().dnn;
        for (int k = 0; k < 3; k++)
            CU_ASSERT_EQUAL(runs(&z, bytes), SW_OK);
        CU_ASSERT_EQUAL(sw_fake()->calls(NULL), calls + 3);
        CU_ASSERT_EQUAL(living().dnn, live);
    }
    CU_ASSERT_EQUAL(sw_fake()->calls("cudnnCreate"), 1);
    CU_ASSERT_EQUAL(sw_fake()->calls("cudnnSetStream"), 1);
    CU_ASSERT_EQUAL(counted().legacy, 0);
    end();
}

/* A launch that is only counted is one, where the library would make it, and nothing else. */
static void a_launch_is_stated(void)
{
    const sw_cuda_conv_sizes z = sizes_of(&plain, SW_CUDA_CONV_DX);
    uint32_t stated = 0;
    begin();
    const size_t bytes = asks(&z);
    sw_cuda_conv_operands at = operands_of(&z);
    t.queue.stated = &stated;
    CU_ASSERT_EQUAL(runs_with(&z, &at, bytes), SW_OK);
    CU_ASSERT_EQUAL(stated, 1);
    at.out++;
    CU_ASSERT_EQUAL(runs_with(&z, &at, bytes), SW_UNSUPPORTED);
    CU_ASSERT(stated == 1 && counted().convolutions == 0);
    end();
}

/* A capture has the same launch, and its replay the same bits. */
static void replays_have_the_same_bits(void)
{
    static float once[ROOM], again[ROOM];
    begin();
    for (int i = 0; i < 3; i++) {
        const sw_cuda_conv_sizes z = sizes_of(&plain, (sw_cuda_conv_result)i);
        const size_t bytes = asks(&z), n = (size_t)elements_of(&z) * sizeof(float);
        cudaGraph_t graph = NULL;
        cudaGraphExec_t exec = NULL;
        CU_ASSERT_EQUAL(runs(&z, bytes), SW_OK);
        sw_fake()->peek(once, t.dev[out_of(&z)], n);
        const sw_fake_launch first = *last_launch();
        GOOD(cudaStreamBeginCapture(t.queue.stream, cudaStreamCaptureModeThreadLocal));
        CU_ASSERT_EQUAL(runs(&z, bytes), SW_OK);
        GOOD(cudaStreamEndCapture(t.queue.stream, &graph));
        GOOD(cudaGraphInstantiate(&exec, graph, 0));
        CU_ASSERT(last_launch()->captured && !first.captured &&
                  memcmp(last_launch()->grid, first.grid, sizeof first.grid) == 0);
        for (int k = 0; k < 2; k++) {
            GOOD(cudaMemsetAsync(t.dev[out_of(&z)], 0, n, t.queue.stream));
            GOOD(cudaGraphLaunch(exec, t.queue.stream));
            sw_fake()->peek(again, t.dev[out_of(&z)], n);
            CU_ASSERT_EQUAL(memcmp(once, again, n), 0);
        }
        GOOD(cudaGraphExecDestroy(exec));
        GOOD(cudaGraphDestroy(graph));
    }
    CU_ASSERT(counted().convolutions == 3 && counted().convolutions_run == 9);
    end();
}

/* A plan may be made by a thread that works on another card. */
static void a_plan_is_of_its_card(void)
{
    const sw_cuda_conv_sizes z = sizes_of(&plain, SW_CUDA_CONV_DW);
    int now = -1;
    begin_on(1);
    GOOD(cudaSetDevice(0));
    const size_t bytes = asks(&z);
    GOOD(cudaGetDevice(&now));
    CU_ASSERT(bytes != SIZE_MAX && now == 1);
    CU_ASSERT_EQUAL(runs(&z, bytes), SW_OK);
    end();
}

static atomic_int capturing;
static void *capture(void *unused)
{
    cudaGraph_t graph = NULL;
    pthread_mutex_lock(&t.device.capture_lock);
    const cudaStream_t s = new_stream();
    GOOD(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    capturing = 1;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    GOOD(cudaStreamEndCapture(s, &graph));
    GOOD(cudaGraphDestroy(graph));
    pthread_mutex_unlock(&t.device.capture_lock);
    return unused;
}

static pthread_t capture_begins(void)
{
    pthread_t thread;
    capturing = 0;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, capture, NULL), 0);
    while (capturing == 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return thread;
}

/* A handle is not made or ended while a stream of the card is captured. */
static void a_capture_is_let_end_first(void)
{
    const sw_cuda_conv_sizes z = sizes_of(&plain, SW_CUDA_CONV_Y);
    begin();
    pthread_t other_thread = capture_begins();
    CU_ASSERT(asks(&z) != SIZE_MAX);
    pthread_join(other_thread, NULL);
    other_thread = capture_begins();
    sw_cuda_dnn_destroy(t.queue.dnn);
    pthread_join(other_thread, NULL);
    CU_ASSERT_EQUAL(sw_cuda_dnn_create(&t.queue.dnn), SW_OK);
    end();
}

static void who_captures_makes_no_handle(void)
{
    const sw_cuda_conv_sizes z = sizes_of(&plain, SW_CUDA_CONV_Y);
    begin();
    pthread_mutex_lock(&t.device.capture_lock);
    CU_ASSERT_EQUAL(asks(&z), SIZE_MAX);
    CU_ASSERT_EQUAL(sw_fake()->calls("cudnnCreate"), 0);
    pthread_mutex_unlock(&t.device.capture_lock);
    CU_ASSERT_EQUAL(asks(&z), SIZE_MAX); /* what was said holds */
    const sw_cuda_conv_sizes other = sizes_of(&plain, SW_CUDA_CONV_DW);
    CU_ASSERT(asks(&other) != SIZE_MAX);
    end();
}

/* ---- failures ---------------------------------------------------------------------------- */

/* While a plan is made: the convolution is then left to own kernels, in its launches too. */
static void a_plan_that_fails_stays_without_it(void)
{
    static const int errors[] = {cudaErrorMemoryAllocation, cudaErrorNotSupported,
                                 cudaErrorUnknown};
    for (int i = 0; i < 3; i++)
        for (uint64_t k = 0;; k++) {
            begin();
            const sw_cuda_conv_sizes z = sizes_of(&plain, (sw_cuda_conv_result)i);
            sw_fake()->fail(NULL, k, errors[i]);
            const size_t bytes = asks(&z);
            const char *which = sw_fake()->failed();
            sw_fake()->fail(NULL, UINT64_MAX, -1);
            CU_ASSERT_EQUAL(bytes == SIZE_MAX, which != NULL);
            CU_ASSERT_EQUAL(runs(&z, 1 << 16), which != NULL ? SW_UNSUPPORTED : SW_OK);
            CU_ASSERT_EQUAL(asks(&z), bytes);
            CU_ASSERT_EQUAL(cudaPeekAtLastError(), cudaSuccess);
            end();
            if (which == NULL) {
                CU_ASSERT(k > 15);
                break;
            }
        }
}

/* An algorithm that is refused after all is no error: the next one is taken. */
static void another_algorithm_may_do(void)
{
    sw_op_case c = plain;
    c.n_in = 2;
    const sw_cuda_conv_sizes z = sizes_of(&c, SW_CUDA_CONV_Y);
    begin();
    sw_fake()->fail("cudnnGetConvolutionForwardWorkspaceSize", 1, cudaErrorNotSupported);
    CU_ASSERT_EQUAL(asks(&z), 0);
    CU_ASSERT_PTR_NOT_NULL(sw_fake()->failed());
    CU_ASSERT_EQUAL(runs(&z, 0), SW_OK);
    CU_ASSERT_EQUAL(last_launch()->grid[0], CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
    end();
}

static void a_launch_that_fails_says_so(void)
{
    static const struct {
        const char *function, *says;
        sw_cuda_conv_result result;
        int error;
        sw_status status;
    } cases[] = {{"cudnnConvolutionBiasActivationForward", "a convolution", SW_CUDA_CONV_Y,
                  cudaErrorLaunchFailure, SW_DEVICE},
                 {"cudnnConvolutionBackwardData", "gradient of its input", SW_CUDA_CONV_DX,
                  cudaErrorMemoryAllocation, SW_NOMEM},
                 {"cudnnConvolutionBackwardFilter", "gradient of its weights", SW_CUDA_CONV_DW,
                  cudaErrorInvalidValue, SW_DEVICE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        const sw_cuda_conv_sizes z = sizes_of(&plain, cases[i].result);
        const size_t bytes = asks(&z);
        sw_fake()->fail(cases[i].function, 0, cases[i].error);
        CU_ASSERT_EQUAL(runs(&z, bytes), cases[i].status);
        SW_CHECK(strstr(sw_last_error(), cases[i].says) != NULL &&
                     strstr(sw_last_error(), "(3, 4, 6, 5), weights (7, 4, 3, 3)") != NULL,
                 "%s", sw_last_error());
        end_library(); /* of a broken card, too */
        fresh(NULL, 0);
    }
}

/* Own kernels take over for good what it refuses to launch; a refusal after a launch is an
 * error. */
static void a_launch_that_is_refused(void)
{
    const sw_cuda_conv_sizes z = sizes_of(&plain, SW_CUDA_CONV_DW);
    for (int launched = 0; launched < 2; launched++) {
        begin();
        const size_t bytes = asks(&z);
        if (launched)
            CU_ASSERT_EQUAL(runs(&z, bytes), SW_OK);
        sw_fake()->fail("cudnnConvolutionBackwardFilter", 0, cudaErrorNotSupported);
        CU_ASSERT_EQUAL(runs(&z, bytes), launched ? SW_DEVICE : SW_UNSUPPORTED);
        CU_ASSERT_EQUAL(runs(&z, bytes), launched ? SW_OK : SW_UNSUPPORTED);
        CU_ASSERT_EQUAL(asks(&z) == SIZE_MAX, !launched);
        end();
    }
}

/* A library that cannot be opened is not asked for again. */
static void a_handle_that_cannot_be_made(void)
{
    begin();
    sw_fake()->fail("cudnnCreate", 0, cudaErrorMemoryAllocation);
    for (int i = 0; i < 3; i++) {
        const sw_cuda_conv_sizes z = sizes_of(&plain, (sw_cuda_conv_result)i);
        CU_ASSERT_EQUAL(asks(&z), SIZE_MAX);
        CU_ASSERT_EQUAL(runs(&z, 1 << 16), SW_UNSUPPORTED);
    }
    CU_ASSERT_EQUAL(sw_fake()->calls("cudnnCreate"), 1);
    end();
    sw_cuda_dnn_destroy(NULL);
    CU_ASSERT_EQUAL(sw_cuda_dnn_version(), (int)cudnnGetVersion());
}

/* A table grows with what plans ask. Where there is no memory for it, it keeps what it has, and
 * further shapes are own kernels', then and later. */
static void a_table_grows_while_there_is_memory(void)
{
    sw_cuda_conv_sizes z = sizes_of(&plain, SW_CUDA_CONV_DX);
    for (int refused = sw_tests_full() ? 0 : 1; refused < 2; refused++) {
        int kept = 0;
        begin();
        for (int i = 0; i < 1100; i++) {
            sw_fake_host_refuses = refused && i >= 1000 && i < 1050;
            z.in_c = i % 33 + 1;
            z.out_c = i / 33 + 1;
            const size_t bytes = asks(&z);
            kept += runs(&z, bytes != SIZE_MAX ? bytes : 0) == SW_OK;
        }
        CU_ASSERT_EQUAL(kept, refused ? 1024 : 1100);
        CU_ASSERT_EQUAL(living().dnn, 2 + 4 * (uint64_t)kept);
        z.in_c = z.out_c = 1;
        CU_ASSERT_EQUAL(runs(&z, asks(&z)), SW_OK);
        end();
    }
}

static const sw_test tests[] = {
    {"convolutions are what they are", convolutions_are_what_they_are},
    {"the first that may be taken is", the_first_that_may_be_taken_is},
    {"factors are rounded where it is asked for", factors_are_rounded_where_it_is_asked_for},
    {"sizes that cuDNN does not take", sizes_that_are_none_of_its},
    {"launches that no plan knew are left", launches_that_no_plan_knew_are_left},
    {"launches find what plans asked", launches_find_what_plans_asked},
    {"a launch is stated", a_launch_is_stated},
    {"replays have the same bits", replays_have_the_same_bits},
    {"a plan is of its card", a_plan_is_of_its_card},
    {"a capture is let end first", a_capture_is_let_end_first},
    {"who captures makes no handle", who_captures_makes_no_handle},
    {"a plan that fails stays without it", a_plan_that_fails_stays_without_it},
    {"another algorithm may do", another_algorithm_may_do},
    {"a launch that fails says so", a_launch_that_fails_says_so},
    {"a launch that is refused", a_launch_that_is_refused},
    {"a handle that cannot be made", a_handle_that_cannot_be_made},
    {"a table grows while there is memory", a_table_grows_while_there_is_memory},
};
SW_SUITE("dnn", tests)
