/* The card that is not there: each of its rules, and what breaks it. */
#include "tests/cuda/test_fake.h"
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("fake")

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
    fresh(NULL, 0);
    float *d = new_device(), *p = new_pinned();
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
    fresh(NULL, 0);
    float *d = new_device(), *p = new_pinned();
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
}

/* ---- streams ----------------------------------------------------------------------------- */

SW_TEST("lazy work runs when it is waited for")
{
    fresh(NULL, 1);
    cudaStream_t s = new_stream();
    float *d = new_device(), *p = new_pinned(), *q = new_pinned();
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
    fresh(NULL, 0);
    s = new_stream(), d = new_device(), p = new_pinned();
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
        fresh(NULL, seed);
        cudaStream_t a = new_stream(), b = new_stream();
        cudaEvent_t e = new_event();
        float *d = new_device(), *p = new_pinned();
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
    fresh(NULL, 1);
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t e = new_event();
    float *d = new_device();
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
    fresh(NULL, 0);
    cudaStream_t s = new_stream();
    cudaEvent_t from = new_event(), to = new_event(), without;
    float *d = new_device(), ms = -1.0f;
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
    fresh(NULL, 1);
    cudaStream_t s = new_stream();
    float *d = new_device(), *p = new_pinned(), host[4] = {4.0f};
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
    fresh(NULL, 1);
    cudaStream_t s = new_stream();
    float *d = new_device(), *p = new_pinned();
    GOOD(cudaMemcpyAsync(d, p, 16, cudaMemcpyHostToDevice, s));
    GOOD(cudaFreeHost(p));
    violation_says("cudaFreeHost");
    fresh(NULL, 1);
    s = new_stream(), d = new_device();
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
    fresh(NULL, 0);
    float *d = new_device();
    GOOD(tiny_add(NULL, d, 1, 1.0f));
    CU_ASSERT_EQUAL(counted().legacy, 1);
    CU_ASSERT_EQUAL(counted().launches, 1);
}

/* ---- launches ---------------------------------------------------------------------------- */

SW_TEST("launches are noted with their pointers")
{
    const sw_fake_api *f = fresh(NULL, 0);
    cudaStream_t s = new_stream();
    float *d = new_device(), *e = new_device(), *by = new_device();
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
    fresh(NULL, 1);
    cudaStream_t s = new_stream();
    float *d;
    float *host = mmap((void *)0x7abc12340000, N * sizeof *host, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(host != MAP_FAILED);
    GOOD(tiny_add(s, host, N, 1.0f));
    violation_says("add is given");
    fresh(NULL, 1);
    s = new_stream(), d = new_device();
    GOOD(tiny_product(s, d, d, host, N)); /* inside of a struct, where its padding is cleared */
    if (looks_into_structs)
        violation_says("product is given");
    fresh(NULL, 1);
    s = new_stream(), d = new_device();
    GOOD(cudaFree(d));
    GOOD(tiny_add(s, d, N, 1.0f));
    violation_says("add is given");
    violation_says("where the card has no memory");
    fresh(NULL, 1);
    s = new_stream(), d = new_device();
    float *gone = new_device();
    GOOD(cudaFree(gone));
    GOOD(tiny_product(s, d, d, gone, N));
    if (looks_into_structs)
        violation_says("product is given");
    fresh(NULL, 0);
    munmap(host, N * sizeof *host);
}

SW_TEST("a bad configuration breaks nothing")
{
    fresh(NULL, 0);
    cudaStream_t s = new_stream();
    float *d = new_device();
    GIVES(cudaErrorInvalidConfiguration, tiny_too_wide(s, d));
    GOOD(tiny_add(s, d, N, 1.0f));
    GOOD(cudaDeviceSynchronize());
}

/* ---- faults ------------------------------------------------------------------------------ */

SW_TEST("a kernel that fails breaks the card")
{
    fresh(NULL, 1);
    cudaStream_t s = new_stream();
    float *d = new_device();
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
    const sw_fake_api *f = fresh(NULL, 0);
    cudaStream_t s = new_stream();
    float *d = new_device();
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
    f->reset(NULL);
    s = new_stream(), d = new_device();
    f->fail(NULL, 1, cudaErrorUnknown);
    GOOD(cudaMemsetAsync(d, 0, 4, s));
    GIVES(cudaErrorUnknown, cudaMemsetAsync(d, 0, 4, s));
    GOOD(cudaMemsetAsync(d, 0, 4, s)); /* no error of the card itself */
}

SW_TEST("work fails when it is ordered to")
{
    for (uint64_t lazy = 0; lazy < 2; lazy++) {
        const sw_fake_api *f = fresh(NULL, lazy);
        cudaStream_t s = new_stream();
        float *d = new_device();
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
    cudaStream_t s = new_stream();
    float *d = new_device();
    GOOD(cudaSetDevice(1)); /* a stream belongs to a card */
    GIVES(cudaErrorInvalidResourceHandle, tiny_add(s, d, N, 1.0f));
    fresh(NULL, 0);
}

SW_TEST("counts are of what was done")
{
    const sw_fake_api *f = fresh(NULL, 0);
    cudaStream_t s = new_stream();
    float *d = new_device(), *p = new_pinned();
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
