/* The card that is not there: each of its rules, and what breaks it. */
#include "tests/cuda/test_fake.h"
#include <cuda.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("fake")

/* A new card with a stream, and memory of it and of the host. */
static cudaStream_t s;
static float *d, *p;

static const sw_fake_api *begin(uint64_t lazy)
{
    const sw_fake_api *f = fresh(NULL, lazy);
    s = new_stream();
    d = new_device();
    p = new_pinned();
    return f;
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Whether a child that does this to `at` ends well. */
static bool survives(void (*act)(void *at), void *at)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        close(2); /* a sanitizer's report */
        act(at);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void read_it(void *at)
{
    *(volatile float *)at;
}
static void write_it(void *at)
{
    *(volatile float *)at = 1.0f;
}
static void run_kernel_on_it(void *at)
{
    if (tiny_add(new_stream(), at, N, 1.0f) != 0)
        _exit(1);
}
static void run_kernel_past_it(void *at)
{
    (void)tiny_add(new_stream(), at, N + 1024, 1.0f);
}

SW_TEST("memory of the card is not for the host")
{
    begin(0);
    CU_ASSERT(survives(write_it, p));
    CU_ASSERT(survives(run_kernel_on_it, d));
    CU_ASSERT(!survives(read_it, d));
    CU_ASSERT(!survives(write_it, d));
    CU_ASSERT(!survives(run_kernel_past_it, d));
    GOOD(cudaFree(d));
    CU_ASSERT(!survives(run_kernel_on_it, d));
    GOOD(cudaFreeHost(p));
    no_violation();
}

SW_TEST("new memory is NaNs")
{
    begin(0);
    CU_ASSERT(isnan(first_of(d)) && isnan(p[N - 1]));
    GOOD(cudaMemsetAsync(d, 0, N * sizeof(float), new_stream()));
    CU_ASSERT_EQUAL(first_of(d), 0.0f);
}

SW_TEST("a card has so much memory")
{
    const sw_fake_card small = {.total_bytes = SW_FAKE_CONTEXT_BYTES + ((size_t)4 << 20)};
    fresh(&small, 0);
    size_t left, total;
    void *a, *b;
    GOOD(cudaMemGetInfo(&left, &total));
    CU_ASSERT_EQUAL(left, (size_t)4 << 20);
    CU_ASSERT_EQUAL(total, small.total_bytes);
    GOOD(cudaMalloc(&a, (size_t)3 << 20));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&b, (size_t)2 << 20));
    CU_ASSERT_PTR_NULL(b);
    GOOD(cudaMalloc(&b, (size_t)1 << 20));
    GOOD(cudaMemGetInfo(&left, &total));
    CU_ASSERT_EQUAL(left, 0);
    GOOD(cudaFree(a));
    GOOD(cudaFree(b));
    GOOD(cudaFree(NULL));
    GIVES(cudaErrorInvalidValue, cudaFree(a));
    GOOD(cudaMemGetInfo(&left, &total));
    CU_ASSERT_EQUAL(left, (size_t)4 << 20);
    CU_ASSERT_EQUAL(living().device_bytes, 0);
    unsigned char resident; /* no page after a block stays mapped */
    CU_ASSERT_EQUAL(mincore((char *)b + ((size_t)1 << 20), 1, &resident), -1);
}

/* ---- streams ----------------------------------------------------------------------------- */

SW_TEST("lazy work runs when it is waited for")
{
    begin(1);
    float *q = new_pinned();
    p[0] = 3.0f;
    q[0] = 7.0f;
    GOOD(cudaMemcpyAsync(d, p, 4, cudaMemcpyHostToDevice, s));
    GOOD(tiny_scale(s, d, 1, 2.0f));
    GOOD(cudaMemcpyAsync(q, d, 4, cudaMemcpyDeviceToHost, s));
    CU_ASSERT_EQUAL(living().pending, 3);
    CU_ASSERT(isnan(q[0])); /* read too early */
    p[0] = 5.0f;            /* overwritten too early */
    GOOD(cudaStreamSynchronize(s));
    CU_ASSERT_EQUAL(q[0], 10.0f);
    CU_ASSERT_EQUAL(living().pending, 0);
    CU_ASSERT_EQUAL(counted().syncs, 1);
    begin(0);
    p[0] = 3.0f;
    GOOD(cudaMemcpyAsync(d, p, 4, cudaMemcpyHostToDevice, s));
    CU_ASSERT_EQUAL(first_of(d), 3.0f);
    CU_ASSERT_EQUAL(counted().syncs, 0);
}

/* Copy on one stream, use on another: how often the use comes too early in 40 seeds. */
static int too_early(bool with_event)
{
    int early = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        begin(seed);
        cudaStream_t a = new_stream(), b = new_stream();
        cudaEvent_t e = new_event();
        p[0] = 1.0f;
        GOOD(cudaMemcpyAsync(d, p, 4, cudaMemcpyHostToDevice, a));
        GOOD(cudaEventRecord(e, a));
        if (with_event)
            GOOD(cudaStreamWaitEvent(b, e, 0));
        GOOD(tiny_add(b, d, 1, 1.0f));
        GOOD(cudaStreamSynchronize(b));
        GOOD(cudaDeviceSynchronize());
        early += first_of(d) != 2.0f;
        GOOD(cudaEventDestroy(e));
    }
    return early;
}

SW_TEST("a missing wait between streams shows")
{
    CU_ASSERT_EQUAL(too_early(true), 0);
    const int early = too_early(false);
    SW_CHECK(early > 5 && early < 40, "%d of 40", early);
    no_violation();
}

/* An event stands for what it was when it was waited for. */
SW_TEST("waits are for the record of their time")
{
    begin(1);
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t e = new_event();
    GOOD(cudaStreamWaitEvent(b, e, 0)); /* never recorded: nothing to wait for */
    GOOD(cudaEventQuery(e));
    GOOD(cudaMemsetAsync(d, 0, 4, a));
    GOOD(cudaEventRecord(e, a));
    GOOD(cudaStreamWaitEvent(b, e, 0));
    GOOD(tiny_add(a, d, 1, 5.0f));
    GOOD(cudaEventRecord(e, a));
    GOOD(cudaStreamSynchronize(b));
    CU_ASSERT_EQUAL(first_of(d), 0.0f); /* not the second record */
    GOOD(cudaEventSynchronize(e));
    CU_ASSERT_EQUAL(first_of(d), 5.0f);
    int asked = 0;
    GOOD(tiny_add(a, d, 1, 1.0f));
    GOOD(cudaEventRecord(e, a));
    while (cudaEventQuery(e) == cudaErrorNotReady && asked < 100)
        asked++;
    CU_ASSERT(asked > 0 && asked < 100);
    GOOD(cudaEventQuery(e));
    GIVES(cudaErrorNotReady, cudaGetLastError()); /* as CUDA leaves it */
    GOOD(cudaGetLastError());
}

SW_TEST("clocks are the card's")
{
    begin(0);
    cudaEvent_t from = new_event(), to = new_event(), without;
    float ms = -1.0f;
    GOOD(cudaEventCreateWithFlags(&without, cudaEventDisableTiming));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, from, to));
    GIVES(cudaErrorInvalidResourceHandle, cudaGetLastError());
    GOOD(cudaEventRecord(from, s));
    GOOD(tiny_add(s, d, N, 1.0f));
    GOOD(cudaEventRecord(to, s));
    GOOD(cudaEventElapsedTime(&ms, from, to));
    CU_ASSERT(ms > 0.001f && ms < 1.0f);
    GOOD(cudaEventRecord(without, s));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, from, without));
    sw_fake()->lazy(1);
    GOOD(cudaEventRecord(to, s));
    GIVES(cudaErrorNotReady, cudaEventElapsedTime(&ms, from, to));
}

SW_TEST("pageable copies wait and are counted")
{
    begin(1);
    float host[4] = {4.0f};
    GOOD(cudaMemcpyAsync(d, p, 16, cudaMemcpyHostToDevice, s));
    CU_ASSERT_EQUAL(counted().pageable, 0);
    GOOD(cudaMemcpyAsync(d, host, 16, cudaMemcpyHostToDevice, s));
    host[0] = 5.0f;
    CU_ASSERT_EQUAL(first_of(d), 4.0f);
    CU_ASSERT_EQUAL(counted().pageable, 1);
    CU_ASSERT_EQUAL(counted().syncs, 1);
    GOOD(cudaMemcpy(host, d, 16, cudaMemcpyDeviceToHost));
    CU_ASSERT_EQUAL(host[0], 4.0f);
    CU_ASSERT_EQUAL(counted().legacy, 1);
    GIVES(cudaErrorInvalidMemcpyDirection,
          cudaMemcpyAsync(d, d, 16, cudaMemcpyHostToDevice, s));
    no_violation();
    GIVES(cudaErrorInvalidValue,
          cudaMemcpyAsync(d, p, (N + 1) * sizeof(float), cudaMemcpyHostToDevice, s));
    violation_says("outside of the memory");
}

SW_TEST("what is used after its end is reported")
{
    begin(1);
    GOOD(cudaMemcpyAsync(d, p, 16, cudaMemcpyHostToDevice, s));
    GOOD(cudaFreeHost(p));
    violation_says("cudaFreeHost");
    begin(1);
    GOOD(cudaMemsetAsync(d, 0, 4, s));
    GOOD(cudaStreamDestroy(s)); /* what is in it still runs */
    CU_ASSERT_EQUAL(living().streams, 0);
    GOOD(cudaDeviceSynchronize());
    CU_ASSERT_EQUAL(first_of(d), 0.0f);
    no_violation();
    GIVES(cudaErrorInvalidResourceHandle, cudaMemsetAsync(d, 0, 4, s));
    violation_says("a stream that is not there");
    fresh(NULL, 0);
    cudaEvent_t e = new_event();
    GOOD(cudaEventDestroy(e));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventQuery(e));
    violation_says("an event that is not there");
}

SW_TEST("the default stream is seen")
{
    begin(0);
    GOOD(tiny_add(NULL, d, 1, 1.0f));
    CU_ASSERT_EQUAL(counted().legacy, 1);
    CU_ASSERT_EQUAL(counted().launches, 1);
}

/* ---- launches ---------------------------------------------------------------------------- */

SW_TEST("launches are noted with their pointers")
{
    const sw_fake_api *f = begin(0);
    float *e = new_device(), *by = new_device();
    GOOD(cudaMemsetAsync(e, 0, N * sizeof(float), s));
    GOOD(cudaMemsetAsync(by, 0, 4, s));
    GOOD(tiny_product(s, d, e, by, N));
    const sw_fake_launch *l;
    CU_ASSERT_EQUAL_FATAL(f->launches(&l), 1);
    CU_ASSERT_STRING_EQUAL(l->kernel, "product");
    CU_ASSERT(l->grid[0] == 2 && l->grid[1] == 1 && l->block[0] == 64);
    CU_ASSERT_EQUAL(l->shared_bytes, 128);
    CU_ASSERT_EQUAL_FATAL(l->n, 3);
    CU_ASSERT(l->pointer[0] == d && l->pointer[1] == e && l->pointer[2] == by);
    CU_ASSERT_EQUAL(first_of(d + N - 1), 0.0f);
    CU_ASSERT(f->is_device(d, N * sizeof(float)) && !f->is_device(d, N * sizeof(float) + 1));
    f->forget();
    CU_ASSERT_EQUAL(f->launches(&l), 0);
    no_violation();
}

static const bool looks_into_structs =
#ifdef __has_builtin
#if __has_builtin(__builtin_clear_padding)
    true ||
#endif
#endif
    false;

SW_TEST("pointers that are not the card's are reported")
{
    begin(1);
    float *host = mmap((void *)0x7abc12340000, N * sizeof *host, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(host != MAP_FAILED);
    GOOD(tiny_add(s, host, N, 1.0f));
    violation_says("add is given");
    begin(1);
    GOOD(tiny_product(s, d, d, host, N)); /* inside of a struct, where its padding is cleared */
    if (looks_into_structs)
        violation_says("product is given");
    begin(1);
    GOOD(cudaFree(d));
    GOOD(tiny_add(s, d, N, 1.0f));
    violation_says("add is given");
    violation_says("where the card has no memory");
    begin(1);
    float *gone = new_device();
    GOOD(cudaFree(gone));
    GOOD(tiny_product(s, d, d, gone, N));
    if (looks_into_structs)
        violation_says("product is given");
    begin(0);
    munmap(host, N * sizeof *host);
}

SW_TEST("a bad configuration breaks nothing")
{
    begin(0);
    GIVES(cudaErrorInvalidConfiguration, tiny_too_wide(s, d));
    GOOD(tiny_add(s, d, N, 1.0f));
    GOOD(cudaDeviceSynchronize());
}

/* ---- faults ------------------------------------------------------------------------------ */

SW_TEST("a kernel that fails breaks the card")
{
    begin(1);
    void *more;
    GOOD(tiny_divergent(s, d)); /* no one knows yet */
    GIVES(cudaErrorLaunchFailure, cudaStreamSynchronize(s));
    violation_says("divergent barrier");
    GIVES(cudaErrorLaunchFailure, cudaMalloc(&more, 4));
    GIVES(cudaErrorLaunchFailure, cudaGetLastError());
    GIVES(cudaErrorLaunchFailure, cudaGetLastError());
    GIVES(cudaErrorLaunchFailure, cudaFree(d)); /* and yet it is given back */
    GIVES(cudaErrorLaunchFailure, cudaStreamDestroy(s));
    const sw_fake_live l = living();
    CU_ASSERT(l.device_blocks == 0 && l.streams == 0);
}

SW_TEST("calls fail when they are ordered to")
{
    const sw_fake_api *f = begin(0);
    void *more;
    f->fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
    GOOD(cudaMalloc(&more, 4));
    CU_ASSERT_PTR_NULL(f->failed());
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&more, 4));
    CU_ASSERT_STRING_EQUAL(f->failed(), "cudaMalloc");
    GOOD(cudaMalloc(&more, 4));
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    GOOD(cudaGetLastError());
    f->fail("launch", 0, cudaErrorLaunchFailure);
    GIVES(cudaErrorLaunchFailure, tiny_add(s, d, N, 1.0f));
    GIVES(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    begin(0);
    f->fail(NULL, 1, cudaErrorUnknown);
    GOOD(cudaMemsetAsync(d, 0, 4, s));
    GIVES(cudaErrorUnknown, cudaMemsetAsync(d, 0, 4, s));
    GOOD(cudaMemsetAsync(d, 0, 4, s)); /* no error of the card itself */
}

SW_TEST("work fails when it is ordered to")
{
    for (uint64_t lazy = 0; lazy < 2; lazy++) {
        const sw_fake_api *f = begin(lazy);
        f->fail_work(1, cudaErrorIllegalAddress);
        GOOD(cudaMemsetAsync(d, 0, 4, s));
        const int second = tiny_add(s, d, 1, 1.0f);
        GIVES(lazy ? 0 : cudaErrorIllegalAddress, second);
        GIVES(cudaErrorIllegalAddress, cudaStreamSynchronize(s));
        CU_ASSERT_STRING_EQUAL(f->failed(), "work");
        CU_ASSERT_EQUAL(living().pending, 0);
        GIVES(cudaErrorIllegalAddress, cudaMemsetAsync(d, 0, 4, s));
    }
}

/* ---- cards ------------------------------------------------------------------------------- */

SW_TEST("cards that are missing or old")
{
    int n = -1, version = -1;
    fresh(&(sw_fake_card){.driver = -1}, 0);
    GOOD(cudaDriverGetVersion(&version));
    CU_ASSERT_EQUAL(version, 0);
    GIVES(cudaErrorInsufficientDriver, cudaGetDeviceCount(&n));
    CU_ASSERT_EQUAL(n, -1);
    fresh(&(sw_fake_card){.driver = 12080}, 0);
    GOOD(cudaDriverGetVersion(&version));
    CU_ASSERT_EQUAL(version, 12080);
    GIVES(cudaErrorInsufficientDriver, cudaSetDevice(0));
    fresh(&(sw_fake_card){.cards = -1}, 0);
    GIVES(cudaErrorNoDevice, cudaGetDeviceCount(&n));
    fresh(&(sw_fake_card){.cards = 2, .major = 7}, 0);
    GOOD(cudaGetDeviceCount(&n));
    CU_ASSERT_EQUAL(n, 2);
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(2));
    GOOD(cudaDeviceGetAttribute(&n, cudaDevAttrComputeCapabilityMajor, 1));
    CU_ASSERT_EQUAL(n, 7);
    GOOD(cudaSetDevice(1)); /* a stream belongs to a card */
    GIVES(cudaErrorInvalidResourceHandle, tiny_add(s, d, N, 1.0f));
    begin(0);
}

SW_TEST("counts are of what was done")
{
    const sw_fake_api *f = begin(0);
    GOOD(tiny_add(s, d, 1, 1.0f));
    GOOD(cudaMemcpyAsync(p, d, 4, cudaMemcpyDeviceToHost, s));
    GOOD(cudaMemcpyAsync(d + 1, d, 4, cudaMemcpyDeviceToDevice, s));
    GOOD(cudaStreamQuery(s));
    const sw_fake_counts c = counted();
    CU_ASSERT(c.allocs == 1 && c.host_allocs == 1 && c.launches == 1 && c.to_host == 1 &&
              c.on_device == 1 && c.to_device == 0 && c.queries == 1 && c.syncs == 0 &&
              c.kernels_run == 1);
    CU_ASSERT_EQUAL(f->calls("cudaMemcpyAsync"), 2);
    CU_ASSERT_EQUAL(f->calls(NULL), 7);
    const sw_fake_live l = living();
    CU_ASSERT(l.device_blocks == 1 && l.pinned == 1 && l.streams == 1 && l.events == 0);
}

/* ---- graphs ------------------------------------------------------------------------------ */

/* Captures, graphs and mapped memory of the fake runtime. */

/* ---- captures ---------------------------------------------------------------------------- */

typedef struct {
    cudaStream_t s;
    cudaEvent_t event;
    float *d, *p;
    cudaGraph_t graph;
} bench;

static bench begun(enum cudaStreamCaptureMode mode, uint64_t lazy)
{
    fresh(NULL, lazy);
    bench b = {new_stream(), new_event(), new_device(), new_pinned(), NULL};
    GOOD(cudaMemsetAsync(b.d, 0, N * sizeof(float), b.s));
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaStreamBeginCapture(b.s, mode));
    return b;
}

static cudaGraphExec_t ended(bench *b, size_t nodes)
{
    cudaGraphExec_t exec = NULL;
    size_t n = 0;
    GOOD(cudaStreamEndCapture(b->s, &b->graph));
    GOOD(cudaGraphGetNodes(b->graph, NULL, &n));
    CU_ASSERT_EQUAL(n, nodes);
    GOOD(cudaGraphInstantiate(&exec, b->graph, 0));
    GOOD(cudaGraphUpload(exec, b->s));
    return exec;
}

SW_TEST("a capture runs nothing, and a graph all")
{
    for (uint64_t lazy = 0; lazy < 4; lazy++) {
        bench b = begun(cudaStreamCaptureModeThreadLocal, lazy);
        enum cudaStreamCaptureStatus status;
        GOOD(cudaStreamIsCapturing(b.s, &status));
        CU_ASSERT_EQUAL(status, cudaStreamCaptureStatusActive);
        GOOD(tiny_add(b.s, b.d, N, 1.0f));
        GOOD(tiny_scale(b.s, b.d, N, 2.0f));
        GOOD(cudaMemcpyAsync(b.p, b.d, 4, cudaMemcpyDeviceToHost, b.s));
        CU_ASSERT_EQUAL(first_of(b.d), 0.0f);
        cudaGraphExec_t exec = ended(&b, 3);
        CU_ASSERT_EQUAL(counted().launches, 0);
        for (int i = 0; i < 3; i++)
            GOOD(cudaGraphLaunch(exec, b.s));
        GOOD(cudaStreamSynchronize(b.s));
        CU_ASSERT_EQUAL(b.p[0], 14.0f);
        const sw_fake_counts c = counted();
        CU_ASSERT(c.captures == 1 && c.captured == 3 && c.instantiated == 1 &&
                  c.graph_launches == 3 && c.kernels_run == 6 && c.launches == 0);
        const sw_fake_launch *l;
        CU_ASSERT_EQUAL_FATAL(sw_fake()->launches(&l), 2);
        CU_ASSERT(l[0].captured && l[1].captured);
        CU_ASSERT_EQUAL(living().graphs + living().execs, 2);
        GOOD(cudaGraphDestroy(b.graph));
        GOOD(cudaGraphLaunch(exec, b.s)); /* what was made of it stays */
        GOOD(cudaGraphExecDestroy(exec));
        GOOD(cudaDeviceSynchronize());
        CU_ASSERT_EQUAL(first_of(b.d), 30.0f);
        CU_ASSERT_EQUAL(living().graphs + living().execs, 0);
        no_violation();
    }
}

/* Calls that no capture may see; the last two take away what others need. */
enum { CALLS = 13, LASTING = 11 };
static cudaError_t call_number(int i, bench *b)
{
    void *at;
    CUdeviceptr range;
    float host[4] = {0};
    switch (i) {
    case 0:
        return cudaMalloc(&at, 4);
    case 1:
        return cudaHostAlloc(&at, 4, 0);
    case 2:
        return cudaStreamSynchronize(b->s);
    case 3:
        return cudaDeviceSynchronize();
    case 4:
        return cudaStreamQuery(b->s);
    case 5:
        return cudaEventQuery(b->event);
    case 6:
        return cudaEventSynchronize(b->event);
    case 7:
        return cudaMemcpy(b->d, b->p, 4, cudaMemcpyHostToDevice);
    case 8:
        return cudaMemcpyAsync(b->d, host, 16, cudaMemcpyHostToDevice, b->s); /* pageable */
    case 9:
        return (cudaError_t)cuMemAddressReserve(&range, SW_FAKE_GRANULARITY, 0, 0, 0);
    case 10: { /* it would wait for work outside of the capture */
        cudaEvent_t e = new_event();
        GOOD(cudaEventRecord(e, new_stream()));
        return cudaStreamWaitEvent(b->s, e, 0);
    }
    case 11:
        return cudaFree(b->d);
    default:
        return cudaFreeHost(b->p);
    }
}

SW_TEST("what no capture may see ends it")
{
    for (int i = 0; i < CALLS; i++) {
        bench b = begun(cudaStreamCaptureModeThreadLocal, 0);
        GOOD(tiny_add(b.s, b.d, N, 1.0f));
        CU_ASSERT_NOT_EQUAL(call_number(i, &b), cudaSuccess);
        GIVES(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(b.d, 0, 4, b.s));
        SW_CHECK(cudaStreamEndCapture(b.s, &b.graph) == cudaErrorStreamCaptureInvalidated &&
                     b.graph == NULL,
                 "call %d", i);
        sw_fake_live l = living();
        CU_ASSERT(l.device_blocks == 1 && l.pinned == 1 && l.ranges == 0);
        (void)cudaGetLastError();
        GOOD(tiny_add(b.s, b.d, N, 1.0f)); /* the stream is a stream again */
        CU_ASSERT_EQUAL(l.graphs, 0);
    }
    /* The same outside of a capture is nothing of the kind. */
    fresh(NULL, 0);
    bench b = {new_stream(), new_event(), new_device(), new_pinned(), NULL};
    for (int i = 0; i < LASTING; i++)
        GOOD(call_number(i, &b));
    no_violation();
}

/* The default stream waits for streams that were made so: it may not be used while one of them
 * captures. */
SW_TEST("the default stream ends captures too")
{
    begin(0);
    cudaStream_t with;
    cudaGraph_t graph;
    GOOD(cudaStreamCreateWithFlags(&with, cudaStreamDefault));
    GOOD(cudaStreamBeginCapture(with, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaErrorStreamCaptureImplicit, tiny_add(NULL, d, 1, 1.0f));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(with, &graph));
    GIVES(cudaErrorStreamCaptureUnsupported,
          cudaStreamBeginCapture(NULL, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(with, &graph));
}

static void *pin_elsewhere(void *error)
{
    void *at;
    *(cudaError_t *)error = cudaHostAlloc(&at, 4, 0);
    return NULL;
}

SW_TEST("other threads are concerned by global captures alone")
{
    for (int mode = cudaStreamCaptureModeGlobal; mode <= cudaStreamCaptureModeThreadLocal;
         mode++) {
        bench b = begun((enum cudaStreamCaptureMode)mode, 0);
        pthread_t thread;
        cudaError_t error = cudaErrorUnknown;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, pin_elsewhere, &error), 0);
        pthread_join(thread, NULL);
        const bool global = mode == cudaStreamCaptureModeGlobal;
        GIVES(global ? cudaErrorStreamCaptureUnsupported : 0, error);
        GIVES(global ? cudaErrorStreamCaptureInvalidated : 0,
              cudaStreamEndCapture(b.s, &b.graph));
    }
}

/* Two streams in one graph; what is not joined again is an error. */
SW_TEST("streams fork and join")
{
    int early = 0;
    for (uint64_t seed = 0; seed < 24; seed++) {
        bench b = begun(cudaStreamCaptureModeThreadLocal, seed);
        cudaStream_t side = new_stream();
        cudaEvent_t fork = new_event(), join = new_event();
        float *d2 = b.d + N / 2;
        GOOD(tiny_add(b.s, b.d, N, 1.0f));
        GOOD(cudaEventRecord(fork, b.s));
        GOOD(cudaStreamWaitEvent(side, fork, 0));
        GOOD(tiny_scale(side, d2, 1, 10.0f));
        GOOD(cudaEventRecord(join, side));
        if (seed % 2 == 0)
            GOOD(tiny_add(b.s, d2, 1, 1.0f)); /* beside what the other does: a race */
        GOOD(cudaStreamWaitEvent(b.s, join, 0));
        GOOD(tiny_add(b.s, d2, 1, 0.5f));
        cudaGraphExec_t exec = ended(&b, seed % 2 == 0 ? 4 : 3);
        GOOD(cudaGraphLaunch(exec, b.s));
        GOOD(cudaDeviceSynchronize());
        const float got = first_of(d2);
        CU_ASSERT(seed % 2 == 0 || got == 10.5f);
        early += seed % 2 == 0 && got != 11.5f;
        GOOD(cudaGraphExecDestroy(exec));
    }
    SW_CHECK(early > 0 && early < 12, "%d of 12 seeds show the race", early);
    bench b = begun(cudaStreamCaptureModeThreadLocal, 0);
    cudaStream_t side = new_stream();
    GOOD(cudaEventRecord(b.event, b.s));
    GOOD(cudaStreamWaitEvent(side, b.event, 0));
    GOOD(tiny_add(side, b.d, 1, 1.0f));
    GIVES(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(b.s, &b.graph));
    GIVES(cudaErrorStreamCaptureUnjoined, cudaGetLastError());
    GOOD(tiny_add(side, b.d, 1, 1.0f));
}

/* Events that each replay records, and waits for. */
SW_TEST("events live in graphs")
{
    bench b = begun(cudaStreamCaptureModeThreadLocal, 1);
    cudaEvent_t from = new_event(), to = new_event();
    cudaStream_t side = new_stream();
    float ms[2] = {0};
    GOOD(cudaStreamWaitEvent(b.s, b.event, cudaEventWaitExternal));
    GOOD(cudaEventRecordWithFlags(from, b.s, cudaEventRecordExternal));
    GOOD(tiny_add(b.s, b.d, N, 1.0f));
    GOOD(cudaEventRecordWithFlags(to, b.s, cudaEventRecordExternal));
    cudaGraphExec_t exec = ended(&b, 4);
    for (int i = 0; i < 2; i++) {
        GOOD(tiny_scale(side, b.d, N, 4.0f));
        GOOD(cudaEventRecord(b.event, side));
        GOOD(cudaGraphLaunch(exec, b.s));
        GOOD(cudaStreamSynchronize(b.s)); /* and with it the other stream */
        CU_ASSERT_EQUAL(first_of(b.d), i == 0 ? 1.0f : 5.0f);
        GOOD(cudaEventElapsedTime(&ms[i], from, to));
    }
    CU_ASSERT(ms[0] > 0.0f && fabsf(ms[1] - ms[0]) < 1e-6f);
    GOOD(cudaEventDestroy(b.event)); /* the graph keeps it */
    GOOD(cudaGraphLaunch(exec, b.s));
    GOOD(cudaDeviceSynchronize());
    no_violation();
    /* A graph that waits for what comes after it. */
    b = begun(cudaStreamCaptureModeThreadLocal, 1);
    GOOD(cudaStreamWaitEvent(b.s, b.event, cudaEventWaitExternal));
    exec = ended(&b, 1);
    GOOD(cudaGraphLaunch(exec, b.s));
    GOOD(cudaEventRecord(b.event, b.s));
    CU_ASSERT_NOT_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
    violation_says("wait for each other");
}

/* ---- mapped memory ----------------------------------------------------------------------- */

#define G SW_FAKE_GRANULARITY
static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc whole_access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* Two mistakes that tests of the module must not miss: addresses that go before their memory,
 * and memory that goes before the work on it. */
static CUdeviceptr mapped_granule(void)
{
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle h = 0;
    GOOD(cuMemAddressReserve(&at, G, 0, 0, 0));
    GOOD(cuMemCreate(&h, G, &prop, 0));
    GOOD(cuMemMap(at, G, 0, h, 0));
    GOOD(cuMemSetAccess(at, G, &whole_access, 1));
    return at;
}

SW_TEST("what is mapped or in use is not taken away")
{
    fresh(NULL, 1);
    GIVES(1, cuMemAddressFree(mapped_granule(), G));
    violation_says("memory is mapped");
    fresh(NULL, 1);
    const CUdeviceptr at = mapped_granule();
    GOOD(tiny_add(new_stream(), (float *)(uintptr_t)at, N, 1.0f));
    GOOD(cuMemUnmap(at, G));
    violation_says("cuMemUnmap");
}

SW_TEST("drivers are asked by name")
{
    fresh(NULL, 0);
    void *f = NULL;
    enum cudaDriverEntryPointQueryResult result;
    GOOD(cudaGetDriverEntryPointByVersion("cuMemCreate", &f, 12000, 0, &result));
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                       unsigned long long);
    memcpy(&create, &f, sizeof create);
    CU_ASSERT(create == cuMemCreate && result == cudaDriverEntryPointSuccess);
    GOOD(cudaGetDriverEntryPointByVersion("cuFly", &f, 12000, 0, &result));
    CU_ASSERT(f == NULL && result == cudaDriverEntryPointSymbolNotFound);
    GOOD(cudaGetDriverEntryPointByVersion("cuMemCreate", &f, 14000, 0, &result));
    CU_ASSERT(f == NULL && result == cudaDriverEntryPointVersionNotSufficent);
    fresh(&(sw_fake_card){.cannot_map = true}, 0);
    CUmemGenericAllocationHandle h;
    int can = -1;
    GOOD(
        cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    CU_ASSERT_EQUAL(can, 0);
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&h, G, &prop, 0));
}
