/* Worker threads of an exec. A region is a number of parts that the caller and the workers take
 * one after the other; which thread runs a part must not matter. The caller waits for the parts
 * that others took, never for a worker: one that comes late finds nothing to do. So a region
 * costs little where the others sleep or have no processor.
 *
 * Workers spin for work and then sleep, because regions of a small net follow each other
 * closely and waking a sleeper costs more than the work. No more of them do so than there are
 * processors: threads that spin would take the time of those that compute. The others stay
 * asleep. Who sleeps is woken by swi_pool_wake() before much work, else when the caller
 * has been alone for so long that it is worth the call.
 *
 * An exec with one thread has no workers and never enters a region. OpenMP is not used: it
 * aborts the process when a thread cannot be created and allocates in regions. */
#include "alloc/base/sys.h"
#include "alloc/base/assert.h"
#include "alloc/base/handle.h"
#include "alloc/base/mem.h"
#include "runtime/base/common.h"
#include <pthread.h>
#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Measured on virtual machines of two cores: waking a thread takes its caller 10 us, and it is
 * 15 to 40 us until that runs. */
#define WAKE_NS 20000 /* alone before others are woken */
#define SPIN_NS 100000

typedef void part_body(void *arg, int part);

struct sw_pool {
    sw_par par;               /* first: kernels hand it back to run() */
    uint32_t forks;           /* sw_fork_number of the process that its workers run in */
    int n_workers, n_helpers; /* helpers take parts: the first workers */
    int spins;
    sw_thread *workers[256];
    pthread_mutex_t mutex;
    pthread_cond_t wake, done, never; /* never: until the end */
    /* The number of the region and the next part: who raises it by one has that part. The rest
     * of a region changes while there is no next part (CLOSED). */
    atomic_uint_fast64_t ticket;
    _Atomic(part_body *) body;
    _Atomic(void *) arg;
    atomic_int n_parts;
    char apart[64];              /* what follows changes at other times */
    atomic_int left;             /* parts that are not done */
    atomic_bool waiting, stop;   /* waiting: the caller sleeps until none is left */
    atomic_int sleepers;         /* that were not called yet; changed under the mutex */
    int calls;                   /* that sleepers have not followed yet; under the mutex */
    int begun;                   /* workers; under the mutex */
    int off;                     /* the processor that workers are kept off */
    uint64_t alone_ns, alone_at; /* how long the caller was alone lately, and until when */
};

#define CLOSED 0x80000000u

static void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#endif
}

static bool has_parts(sw_pool *pool)
{
    const uint32_t part = (uint32_t)atomic_load_explicit(&pool->ticket, memory_order_acquire);
    return part < (uint32_t)atomic_load_explicit(&pool->n_parts, memory_order_acquire);
}

/* Take a part and run it. All that is read belongs to the region of the ticket, or the exchange
 * fails: before its other members the ticket of a new region is closed. */
static bool run_part(sw_pool *pool)
{
    uint_fast64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    for (;;) {
        const uint32_t part = (uint32_t)ticket;
        part_body *body = atomic_load_explicit(&pool->body, memory_order_acquire);
        void *arg = atomic_load_explicit(&pool->arg, memory_order_acquire);
        if (part >= (uint32_t)atomic_load_explicit(&pool->n_parts, memory_order_acquire))
            return false;
        if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            body(arg, (int)part);
            return true;
        }
    }
}

/* ---- workers ----------------------------------------------------------------------------- */

/* Until there are parts or the pool stops. */
static void wait_for_parts(sw_pool *pool)
{
    for (int i = 0; i < pool->spins; i++) {
        if (has_parts(pool) || atomic_load_explicit(&pool->stop, memory_order_acquire))
            return;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    /* Either this thread sees the new ticket, or the caller sees a sleeper: it opens the ticket
     * first and then looks. */
    atomic_fetch_add(&pool->sleepers, 1);
    if ((uint32_t)atomic_load(&pool->ticket) < (uint32_t)atomic_load(&pool->n_parts)) {
        atomic_fetch_sub(&pool->sleepers, 1);
    } else {
        while (pool->calls == 0 && !atomic_load(&pool->stop))
            pthread_cond_wait(&pool->wake, &pool->mutex);
        pool->calls -= pool->calls > 0;
    }
    pthread_mutex_unlock(&pool->mutex);
}

static void help(sw_pool *pool)
{
    for (;;) {
        wait_for_parts(pool);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire))
            return;
        int n = 0;
        while (run_part(pool))
            n++;
        if (n > 0 && atomic_fetch_sub(&pool->left, n) == n && atomic_load(&pool->waiting)) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

static void worker(void *arg)
{
    sw_pool *pool = arg;
    (void)swi_fp_enter();
    pthread_mutex_lock(&pool->mutex);
    const bool helps = pool->begun++ < pool->n_helpers;
    pthread_cond_signal(&pool->done);
    while (!helps && !atomic_load(&pool->stop))
        pthread_cond_wait(&pool->never, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    if (helps)
        help(pool);
}

/* ---- the caller -------------------------------------------------------------------------- */

/* A processor of a virtual machine that is idle looks to Linux as if the host had taken it
 * away, and a thread that is woken is put where its caller runs; both then share one processor
 * for tenths of a second, or as long as neither sleeps. So workers are kept off the caller's
 * processor, and follow when that changes. */
static void make_way(sw_pool *pool)
{
    const int here = sw_thread_processor();
    if (here == pool->off)
        return;
    for (int i = 0; i < pool->n_workers; i++)
        sw_thread_keep_off(pool->workers[i], here);
    pool->off = here;
}

/* Call as many as there is work for. */
static void wake_some(sw_pool *pool, int most)
{
    pthread_mutex_lock(&pool->mutex);
    const int sleepers = atomic_load(&pool->sleepers), n = most < sleepers ? most : sleepers;
    atomic_fetch_sub(&pool->sleepers, n);
    pool->calls += n;
    for (int i = 0; i < n; i++)
        pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

/* Parts while others sleep, until that has been so for WAKE_NS; returns how many. A time long
 * ago says nothing of what comes. */
static int run_alone(sw_pool *pool, int n_parts)
{
    const uint64_t start = sw_clock_ns();
    uint64_t now = start;
    int n = 0;
    if (start - pool->alone_at > SPIN_NS)
        pool->alone_ns = 0;
    for (;; n++) {
        if (pool->alone_ns + (now - start) >= WAKE_NS && n_parts - n > 1) {
            pool->alone_ns = 0;
            wake_some(pool, n_parts - n - 1);
            return n;
        }
        if (!run_part(pool))
            break;
        now = sw_clock_ns();
    }
    pool->alone_ns += now - start;
    pool->alone_at = now;
    return n;
}

static void wait_for_others(sw_pool *pool)
{
    for (int i = 0; i < pool->spins; i++) {
        if (atomic_load_explicit(&pool->left, memory_order_acquire) == 0)
            return;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->waiting, true);
    while (atomic_load(&pool->left) > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->waiting, false);
    pthread_mutex_unlock(&pool->mutex);
}

static void run_parallel(const sw_par *par, part_body *body, void *arg, int n_parts)
{
    sw_pool *pool = (sw_pool *)(uintptr_t)par;
    SW_ASSERT(par->n_threads >= 1 && body != NULL && n_parts >= 0);
    SW_ASSERT(pool->forks == sw_fork_number() || pool->n_workers == 0);
    if (n_parts <= 1 || pool->n_helpers == 0) {
        for (int i = 0; i < n_parts; i++)
            body(arg, i);
        return;
    }
    make_way(pool);
    const uint64_t region =
        (atomic_load_explicit(&pool->ticket, memory_order_relaxed) >> 32) + 1;
    SW_ASSERT(atomic_load(&pool->left) == 0); /* one region at a time */
    SW_ASSERT(!atomic_load(&pool->waiting) && !atomic_load(&pool->stop));
    atomic_store_explicit(&pool->ticket, region << 32 | CLOSED, memory_order_relaxed);
    atomic_store_explicit(&pool->left, n_parts, memory_order_release);
    atomic_store_explicit(&pool->body, body, memory_order_release);
    atomic_store_explicit(&pool->arg, arg, memory_order_release);
    atomic_store_explicit(&pool->n_parts, n_parts, memory_order_release);
    atomic_store(&pool->ticket, region << 32);
    int n = atomic_load(&pool->sleepers) > 0 ? run_alone(pool, n_parts) : 0;
    while (run_part(pool))
        n++;
    if (atomic_fetch_sub(&pool->left, n) != n)
        wait_for_others(pool);
}

void swi_pool_wake(sw_pool *pool)
{
    if (pool->n_helpers == 0)
        return;
    make_way(pool);
    if (atomic_load(&pool->sleepers) > 0)
        wake_some(pool, pool->n_helpers);
}

/* ---- life -------------------------------------------------------------------------------- */

void swi_pool_destroy(sw_pool *pool)
{
    if (pool == NULL)
        return;
    /* In a process that was forked off the workers are the parent's, and conditions that are
     * destroyed would wait for them. */
    const bool ours = pool->forks == sw_fork_number();
    if (ours) {
        pthread_mutex_lock(&pool->mutex);
        atomic_store(&pool->stop, true);
        pthread_cond_broadcast(&pool->wake);
        pthread_cond_broadcast(&pool->never);
        pthread_mutex_unlock(&pool->mutex);
    }
    for (int i = 0; i < pool->n_workers; i++)
        sw_thread_join(pool->workers[i]);
    if (ours) {
        pthread_mutex_destroy(&pool->mutex);
        pthread_cond_destroy(&pool->wake);
        pthread_cond_destroy(&pool->done);
        pthread_cond_destroy(&pool->never);
    }
    sw_heap_free(pool, SW_HEAP_RECORDS, sizeof *pool);
}

/* How often to look in SPIN_NS: how long a processor relaxes differs by a factor of ten. The
 * fastest of some samples, since others may run meanwhile. */
static int count_spins(void)
{
    enum { SAMPLES = 4, LOOKS = 128 };
    uint64_t least = UINT64_MAX;
    for (int s = 0; s < SAMPLES; s++) {
        const uint64_t start = sw_clock_ns();
        for (int i = 0; i < LOOKS; i++)
            relax();
        const uint64_t ns = sw_clock_ns() - start;
        least = ns < least ? ns : least;
    }
    const uint64_t spins = (uint64_t)SPIN_NS * LOOKS / (least > 0 ? least : 1);
    return spins < 20000 ? (int)spins + 1 : 20000;
}

sw_status swi_pool_create(sw_pool **out, int threads, int sharers)
{
    SW_ASSERT(threads >= 1 && threads <= 256 && sharers >= 1);
    sw_pool *pool;
    SW_TRY(sw_heap_alloc(&pool, SW_HEAP_RECORDS, sizeof(sw_pool)));
    const int processors = sw_thread_processors() / sharers;
    pool->par = (sw_par){threads, run_parallel};
    pool->forks = sw_fork_number();
    pool->spins = threads > 1 ? count_spins() : 0;
    pool->n_helpers = processors < threads ? processors - 1 : threads - 1;
    pool->n_helpers = pool->n_helpers > 0 ? pool->n_helpers : 0;
    pool->off = -1;
    atomic_store(&pool->ticket, CLOSED);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pthread_cond_init(&pool->never, NULL);
    for (int i = 0; i + 1 < threads; i++) {
        const sw_status status = sw_thread_start(&pool->workers[i], worker, pool, "sw-worker");
        if (status != SW_OK) {
            swi_pool_destroy(pool);
            return status;
        }
        pool->n_workers++;
    }
    /* All workers have touched their stacks, also those that no step will ever have work
     * for. */
    pthread_mutex_lock(&pool->mutex);
    while (pool->begun < pool->n_workers)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    *out = pool;
    return SW_OK;
}

const sw_par *swi_pool_par(sw_pool *pool)
{
    return &pool->par;
}

/* Denormals are zero in compute threads: Adam's second moments reach them, and they cost 200
 * times as much. Other code in the process must not change our bits, nor we its: the word is
 * put back. */
uint32_t swi_fp_enter(void)
{
#if defined(__x86_64__)
    const uint32_t old = _mm_getcsr();
    _mm_setcsr(0x1f80u | 0x8040u); /* round to nearest, exceptions masked, FTZ and DAZ */
    return old;
#else
    return 0;
#endif
}

void swi_fp_leave(uint32_t old)
{
#if defined(__x86_64__)
    _mm_setcsr(old);
#else
    (void)old;
#endif
}
