/* Worker threads of an exec. A parallel region spins for some microseconds and then sleeps,
 * because regions of a small net follow each other closely and waking a sleeper costs more than
 * the work.
 *
 * Parts are handed out by an atomic counter; which thread runs a part must not matter. An exec
 * with one thread has no pool and never enters a region. OpenMP is not used: it aborts the
 * process when a thread cannot be created and allocates in regions. */
#include "alloc/base/sys.h"
#include "alloc/base/assert.h"
#include "alloc/base/fork.h"
#include "alloc/base/mem.h"
#include "runtime/base/common.h"
#include <pthread.h>
#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SPINS 4000 /* about 20 us: the median wake-up of a sleeping thread */

struct sw_pool {
    sw_par par;     /* first: kernels hand it back to run() */
    uint32_t forks; /* sw_fork_number of the process that its workers run in */
    int n_workers;
    sw_thread *workers[256];
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    atomic_uint_fast64_t region; /* grows with each region */
    atomic_int next, n_parts, running;
    atomic_bool stop;
    int sleepers, waiting; /* under the mutex */
    void (*body)(void *arg, int part);
    void *arg;
};

static void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#endif
}

static void work(sw_pool *pool)
{
    SW_ASSERT(pool->body != NULL);
    const int n = atomic_load_explicit(&pool->n_parts, memory_order_relaxed);
    for (;;) {
        const int part = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (part >= n)
            return;
        SW_ASSERT(part >= 0);
        pool->body(pool->arg, part);
    }
}

/* Wait until the region number differs from `seen` or the pool stops. */
static void wait_for_region(sw_pool *pool, uint64_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->region, memory_order_acquire) != seen ||
            atomic_load_explicit(&pool->stop, memory_order_acquire))
            return;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    pool->sleepers++;
    SW_ASSERT(pool->sleepers > 0 && pool->sleepers < pool->par.n_threads);
    while (atomic_load(&pool->region) == seen && !atomic_load(&pool->stop))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    pool->sleepers--;
    SW_ASSERT(pool->sleepers >= 0);
    pthread_mutex_unlock(&pool->mutex);
}

static void worker(void *arg)
{
    sw_pool *pool = arg;
    uint64_t seen = 0;
    (void)swi_fp_enter();
    for (;;) {
        wait_for_region(pool, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire))
            return;
        seen = atomic_load_explicit(&pool->region, memory_order_acquire);
        work(pool);
        if (atomic_fetch_sub_explicit(&pool->running, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool->mutex);
            if (pool->waiting)
                pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

static void run_parallel(const sw_par *par, void (*body)(void *arg, int part), void *arg,
                         int n_parts)
{
    sw_pool *pool = (sw_pool *)(uintptr_t)par;
    SW_ASSERT(par->n_threads >= 1 && body != NULL && n_parts >= 0);
    SW_ASSERT(pool->forks == sw_fork_number() || pool->n_workers == 0);
    if (n_parts <= 1 || pool->n_workers == 0) {
        for (int i = 0; i < n_parts; i++)
            body(arg, i);
        return;
    }
    pool->body = body;
    pool->arg = arg;
    SW_ASSERT(atomic_load(&pool->running) == 0); /* one region at a time */
    SW_ASSERT(pool->waiting == 0 && !atomic_load(&pool->stop));
    atomic_store_explicit(&pool->n_parts, n_parts, memory_order_relaxed);
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->running, pool->n_workers, memory_order_relaxed);
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add_explicit(&pool->region, 1, memory_order_release);
    if (pool->sleepers > 0)
        pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    work(pool);
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->running, memory_order_acquire) == 0)
            return;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    pool->waiting = 1;
    while (atomic_load_explicit(&pool->running, memory_order_acquire) > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pool->waiting = 0;
    SW_ASSERT(atomic_load(&pool->next) >= n_parts);
    pthread_mutex_unlock(&pool->mutex);
}

void swi_pool_destroy(sw_pool *pool)
{
    if (pool == NULL)
        return;
    /* In a process that was forked off the workers are the parent's, and conditions that are
     * destroyed would wait for them. */
    const bool ours = pool->forks == sw_fork_number();
    if (ours) {
        atomic_store_explicit(&pool->stop, true, memory_order_release);
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
    for (int i = 0; i < pool->n_workers; i++)
        sw_thread_join(pool->workers[i]);
    if (ours) {
        pthread_mutex_destroy(&pool->mutex);
        pthread_cond_destroy(&pool->wake);
        pthread_cond_destroy(&pool->done);
    }
    sw_heap_free(pool, SW_HEAP_RECORDS, sizeof *pool);
}

static void nothing(void *arg, int part)
{
    (void)arg, (void)part;
}

/* A region ends when all workers have been in it: they have begun and touched their stacks,
 * also where no step will ever have enough work for two. */
static void begin_all(sw_pool *pool)
{
    run_parallel(&pool->par, nothing, NULL, pool->n_workers + 1);
}

sw_status swi_pool_create(sw_pool **out, int threads)
{
    SW_ASSERT(threads >= 1 && threads <= 256);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(sw_pool)));
    sw_pool *pool = block;
    pool->par = (sw_par){threads, run_parallel};
    pool->forks = sw_fork_number();
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 0; i + 1 < threads; i++) {
        const sw_status status = sw_thread_start(&pool->workers[i], worker, pool, "sw-worker");
        if (status != SW_OK) {
            swi_pool_destroy(pool);
            return status;
        }
        pool->n_workers++;
    }
    begin_all(pool);
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
