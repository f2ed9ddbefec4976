/* Captures, graphs and mapped memory of the fake runtime. */
#include "tests/cuda/test_fake.h"
#include <cuda.h>
#include <math.h>
#include <pthread.h>

SW_TESTS("fake graphs")

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
    fresh(NULL, 0);
    cudaStream_t s;
    cudaGraph_t graph;
    float *d = new_device();
    GOOD(cudaStreamCreateWithFlags(&s, cudaStreamDefault));
    GOOD(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaErrorStreamCaptureImplicit, tiny_add(NULL, d, 1, 1.0f));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &graph));
    GIVES(cudaErrorStreamCaptureUnsupported,
          cudaStreamBeginCapture(NULL, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(s, &graph));
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
