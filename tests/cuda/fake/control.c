/* Calls, faults, counts and the card itself. */
#include "internal.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum kind { PURE, PLAIN, WAITS, TAKES, ENDS, RELEASE };
#define SWI_F(function, kind) {#function, kind},
static const struct {
    const char *name;
    enum kind kind;
} functions[SWI_FN_COUNT] = {
#include "functions.def"
    {"launch", PLAIN},
};
#undef SWI_F

static const sw_fake_card plain_card = {
    .total_bytes = (size_t)8 << 30, .cards = 1, .driver = 13000, .major = 9};

struct swi_fake_state swi_fake;
static bool plugged;
static pthread_mutex_t lock;
static atomic_int waiting;                   /* threads, for the lock */
static _Thread_local cudaError_t last_error; /* CUDA's is of the thread too */
static _Thread_local int current;
static uint64_t calls[SWI_FN_COUNT], can_fail; /* can_fail: of those that can */
static char violation[512];
static struct {
    bool on, work; /* work: pieces of work are counted, not calls */
    int function;  /* -1: any */
    uint64_t left;
    cudaError_t error;
    const char *failed;
} fault;
static sw_fake_launch *log_entries;
static size_t n_log;

/* ---- the card ---------------------------------------------------------------------------- */

static void plug(const sw_fake_card *card)
{
    memset(&swi_fake, 0, sizeof swi_fake);
    swi_fake.card = plain_card;
    if (card != NULL) {
        sw_fake_card *c = &swi_fake.card;
        c->total_bytes = card->total_bytes != 0 ? card->total_bytes : c->total_bytes;
        c->cards = card->cards != 0 ? card->cards : c->cards;
        c->cards = c->cards > SWI_CARDS ? SWI_CARDS : c->cards;
        c->driver = card->driver != 0 ? card->driver : c->driver;
        c->major = card->major != 0 ? card->major : c->major;
        c->minor = card->minor;
        c->cannot_map = card->cannot_map;
        c->no_products = card->no_products;
    }
}

__attribute__((constructor)) static void prepare(void)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

static void begin(void)
{
    atomic_fetch_add(&waiting, 1);
    pthread_mutex_lock(&lock);
    atomic_fetch_sub(&waiting, 1);
    if (plugged)
        return;
    plugged = true;
    const char *mib = getenv("STEPWELL_FAKE_MIB"), *seed = getenv("STEPWELL_FAKE_LAZY");
    plug(&(sw_fake_card){.total_bytes = mib != NULL ? strtoull(mib, NULL, 10) << 20 : 0});
    swi_fake.seed = seed != NULL ? strtoull(seed, NULL, 10) : 0;
    swi_fake.random = swi_fake.seed * 0x9e3779b97f4a7c15u + 1;
}

int swi_fake_current(void)
{
    return current;
}

uint64_t swi_fake_draw(uint64_t below)
{
    uint64_t r = swi_fake.random;
    r ^= r >> 12;
    r ^= r << 25;
    r ^= r >> 27;
    swi_fake.random = r;
    return r * 0x2545f4914f6cdd1du % below;
}

void *swi_fake_reserve(size_t bytes)
{
    void *room = calloc(1, bytes > 0 ? bytes : 1);
    if (room == NULL) {
        fputs("fake CUDA: out of memory\n", stderr);
        abort();
    }
    return room;
}

/* ---- faults ------------------------------------------------------------------------------ */

void swi_fake_violation(const char *format, ...)
{
    swi_fake.counts.violations++;
    if (violation[0] != '\0')
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(violation, sizeof violation, format, list);
    va_end(list);
}

void swi_fake_break(cudaError_t error)
{
    if (swi_fake.broken == cudaSuccess)
        swi_fake.broken = error;
}

static cudaError_t fault_now(int function)
{
    if (!fault.on || fault.work || (fault.function >= 0 && fault.function != function))
        return cudaSuccess;
    if (fault.left-- > 0)
        return cudaSuccess;
    fault.on = false;
    fault.failed = functions[function].name;
    if (fault.error >= cudaErrorIllegalAddress && fault.error <= cudaErrorLaunchFailure)
        swi_fake_break(fault.error);
    return fault.error;
}

cudaError_t swi_fake_work_fault(void)
{
    if (!fault.on || !fault.work || fault.left-- > 0)
        return cudaSuccess;
    fault.on = false;
    fault.failed = "work";
    return fault.error;
}

/* ---- calls ------------------------------------------------------------------------------- */

cudaError_t swi_fake_enter(swi_fake_function function)
{
    begin();
    const enum kind kind = functions[function].kind;
    calls[function]++;
    if (kind != PURE && function != SWI_FN_launch && function != SWI_FN_cudaEventRecord &&
        function != SWI_FN_cudaEventRecordWithFlags && function != SWI_FN_cudaStreamWaitEvent)
        swi_fake_let_go();
    if (kind == PURE)
        return cudaSuccess;
    can_fail++;
    if (swi_fake.card.driver < CUDART_VERSION / 1000 * 1000)
        return cudaErrorInsufficientDriver;
    if (swi_fake.broken != cudaSuccess)
        return swi_fake.broken;
    SWI_TRY(fault_now((int)function));
    if (swi_fake.card.cards < 1)
        return cudaErrorNoDevice;
    return kind == PLAIN || kind == ENDS ? cudaSuccess
                                         : swi_capture_allows(functions[function].name);
}

cudaError_t swi_fake_leave(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    const bool others_first = swi_fake.capturing > 0 && atomic_load(&waiting) > 0;
    pthread_mutex_unlock(&lock);
    if (others_first) /* what they do inside of a capture is what threads get wrong */
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return error;
}

cudaError_t cudaGetLastError(void)
{
    (void)swi_fake_enter(SWI_FN_cudaGetLastError);
    const cudaError_t error = swi_fake.broken != cudaSuccess ? swi_fake.broken : last_error;
    last_error = cudaSuccess; /* what broke the card comes again */
    (void)swi_fake_leave(cudaSuccess);
    return error;
}

/* ---- cards ------------------------------------------------------------------------------- */

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    (void)swi_fake_enter(SWI_FN_cudaDriverGetVersion);
    *driverVersion = swi_fake.card.driver > 0 ? swi_fake.card.driver : 0;
    return swi_fake_leave(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    (void)swi_fake_enter(SWI_FN_cudaRuntimeGetVersion);
    *runtimeVersion = CUDART_VERSION;
    return swi_fake_leave(cudaSuccess);
}

SWI_FUNCTION(cudaError_t, cudaGetDeviceCount, (int *count), (count))
{
    *count = swi_fake.card.cards;
    return cudaSuccess;
}

/* The context is made with the card's first use. */
static cudaError_t use_card(int device)
{
    if (device < 0 || device >= swi_fake.card.cards)
        return cudaErrorInvalidDevice;
    if (!swi_fake.context[device]) {
        if (swi_fake.card.total_bytes < SW_FAKE_CONTEXT_BYTES)
            return cudaErrorMemoryAllocation;
        swi_fake.context[device] = true;
        swi_fake.used[device] += SW_FAKE_CONTEXT_BYTES;
    }
    current = device;
    return cudaSuccess;
}

SWI_CALL(cudaSetDevice, (int device), use_card(device))

static cudaError_t attribute(int *value, int attr, int device)
{
    if (device < 0 || device >= swi_fake.card.cards)
        return cudaErrorInvalidDevice;
    switch (attr) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = swi_fake.card.major;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = swi_fake.card.minor;
        return cudaSuccess;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = !swi_fake.card.cannot_map;
        return cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}

SWI_CALL(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attr, int device),
         attribute(value, (int)attr, device))

SWI_CALL_AS(CUresult, cuDeviceGetAttribute, (int *pi, CUdevice_attribute attrib, CUdevice dev),
            attribute(pi, (int)attrib, dev))

SWI_FUNCTION(CUresult, cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal))
{
    if (ordinal < 0 || ordinal >= swi_fake.card.cards)
        return cudaErrorInvalidDevice;
    *device = ordinal;
    return cudaSuccess;
}

SWI_FUNCTION(CUresult, cuDeviceGetName, (char *name, int len, CUdevice dev), (name, len, dev))
{
    if (dev < 0 || dev >= swi_fake.card.cards || len < 1)
        return cudaErrorInvalidValue;
    snprintf(name, (size_t)len, "card that is not there %d", dev);
    return cudaSuccess;
}

SWI_FUNCTION(cudaError_t, cudaMemGetInfo, (size_t * free, size_t *total), (free, total))
{
    SWI_TRY(use_card(current));
    *free = swi_fake_free_bytes();
    *total = swi_fake.card.total_bytes;
    return cudaSuccess;
}

/* ---- control ----------------------------------------------------------------------------- */

static void reset(const sw_fake_card *card)
{
    begin();
    swi_item_reset();
    swi_graph_reset();
    swi_stream_reset();
    swi_fake_memory_reset();
    plug(card);
    memset(calls, 0, sizeof calls);
    can_fail = 0;
    memset(&fault, 0, sizeof fault);
    violation[0] = '\0';
    n_log = 0;
    last_error = cudaSuccess;
    current = 0;
    pthread_mutex_unlock(&lock);
}

static void lazy(uint64_t seed)
{
    begin();
    swi_fake.seed = seed;
    swi_fake.random = seed * 0x9e3779b97f4a7c15u + 1;
    if (seed == 0)
        swi_stream_drain();
    pthread_mutex_unlock(&lock);
}

static void read_counts(sw_fake_counts *out)
{
    begin();
    *out = swi_fake.counts;
    pthread_mutex_unlock(&lock);
}

static void read_live(sw_fake_live *out)
{
    begin();
    memset(out, 0, sizeof *out);
    swi_fake_memory_live(out);
    swi_stream_live(out);
    swi_graph_live(out);
    out->blas = swi_fake.blas_live;
    pthread_mutex_unlock(&lock);
}

static int function_of(const char *name)
{
    for (int i = 0; i < SWI_FN_COUNT; i++)
        if (strcmp(functions[i].name, name) == 0)
            return i;
    fprintf(stderr, "fake CUDA: no function %s\n", name);
    abort();
}

static uint64_t read_calls(const char *name)
{
    begin();
    const uint64_t n = name != NULL ? calls[function_of(name)] : can_fail;
    pthread_mutex_unlock(&lock);
    return n;
}

static void plan_fault(const char *name, bool work, uint64_t k, int error)
{
    begin();
    fault.on = error >= 0;
    fault.work = work;
    fault.function = name != NULL ? function_of(name) : -1;
    fault.left = k;
    fault.error = (cudaError_t)error;
    fault.failed = NULL;
    pthread_mutex_unlock(&lock);
}

static void fail(const char *function, uint64_t k, int error)
{
    plan_fault(function, false, k, error);
}

static void fail_work(uint64_t k, int error)
{
    plan_fault(NULL, true, k, error);
}

static const char *failed(void)
{
    return fault.failed;
}

static const char *first_violation(void)
{
    return violation;
}

void swi_fake_log(const sw_fake_launch *launch)
{
    if (log_entries == NULL)
        log_entries = swi_fake_reserve(SW_FAKE_LOG * sizeof *log_entries);
    if (n_log < SW_FAKE_LOG)
        log_entries[n_log++] = *launch;
}

static size_t launches(const sw_fake_launch **out)
{
    *out = log_entries;
    return n_log;
}

static void forget(void)
{
    begin();
    n_log = 0;
    pthread_mutex_unlock(&lock);
}

static bool is_device(const void *at, size_t bytes)
{
    begin();
    const bool there = swi_fake_there(at, bytes);
    pthread_mutex_unlock(&lock);
    return there;
}

static void peek(void *to, const void *at, size_t bytes)
{
    begin();
    swi_fake_open_memory();
    memcpy(to, at, bytes);
    swi_fake_close_memory();
    pthread_mutex_unlock(&lock);
}

EXPORT const sw_fake_api *sw_fake(void)
{
    static const sw_fake_api api = {reset,  lazy,      read_counts, read_live,       read_calls,
                                    fail,   fail_work, failed,      first_violation, launches,
                                    forget, is_device, peek};
    return &api;
}
