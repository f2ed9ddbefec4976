/* Images one after the other, on several threads, with what one thread would tell.
 *
 * Images are taken by number, each by a thread that has nothing to do, with a hand of its own
 * to read it. From the first that fails on none is begun; those before it were begun, and are
 * read to their end. So the reported failure is that of the first bad image, and its message is
 * carried to the caller's thread.
 *
 * Progress is reported on the caller's thread, between the images that it reads itself: image k
 * when all before it are read, as one thread does it. Each number is reported once and in
 * order, up to the first bad image; the caller is asked neither more nor less often.
 *
 * One mutex guards all that threads share; pixels and labels are each written by one thread. */
#include "alloc/base/assert.h"
#include "runtime/base/common.h"
#include "runtime/data/image_internal.h"
#include <pthread.h>
#include <stdio.h>

#define REGION (1 << 20) /* images that the pool has at once: it counts by int */

typedef struct hand {
    swi_image_hand is; /* first: threads give it back */
    int64_t at;        /* image that is being read; -1: none */
} hand;

typedef struct {
    const swi_image_work *work;
    pthread_t caller;
    pthread_mutex_t mutex;
    hand *hands;
    int n_hands;
    int64_t next;     /* image that is taken next */
    int64_t end;      /* from here on none is begun: the first that failed, or all of them */
    int64_t told;     /* numbers of progress, by the caller's thread alone */
    sw_status status; /* of `end` */
    char why[512];    /* as long as a message can be */
} run;

/* ---- under the mutex --------------------------------------------------------------------- */

/* Image i failed, or is not to be begun, for the reason that the calling thread has said. */
static void end_at(run *r, int64_t i, sw_status status)
{
    r->end = i;
    r->status = status;
    snprintf(r->why, sizeof r->why, "%s", sw_last_error());
}

/* All images before it are read. */
static int64_t read_until(const run *r)
{
    int64_t first = r->next;
    for (int i = 0; i < r->n_hands; i++)
        if (r->hands[i].at >= 0 && r->hands[i].at < first)
            first = r->hands[i].at;
    return first;
}

static hand *take_hand(run *r)
{
    int i = 0;
    while (i < r->n_hands && r->hands[i].at >= 0)
        i++;
    SW_ASSERT(i < r->n_hands); /* as many as threads */
    r->hands[i].at = r->next++;
    return &r->hands[i];
}

/* By the caller's thread; the mutex is open meanwhile. Image k is reported where it is begun,
 * or about to be, also the bad one. */
static void tell(run *r)
{
    const swi_image_work *w = r->work;
    while (r->told < w->n && r->told <= r->end && r->told <= read_until(r)) {
        const int64_t k = r->told++;
        pthread_mutex_unlock(&r->mutex);
        const sw_status status = w->tell(w->context, k);
        pthread_mutex_lock(&r->mutex);
        if (status == SW_OK)
            continue;
        end_at(r, k, status); /* all before it are sound */
        r->told = w->n;
    }
}

/* ---- without it -------------------------------------------------------------------------- */

/* The pool's numbers are left alone: a thread may be late with one. */
static void read_next(void *run_, int part)
{
    run *r = run_;
    (void)part;
    pthread_mutex_lock(&r->mutex);
    if (pthread_equal(pthread_self(), r->caller))
        tell(r);
    if (r->next >= r->end) {
        pthread_mutex_unlock(&r->mutex);
        return;
    }
    hand *own = take_hand(r);
    pthread_mutex_unlock(&r->mutex);
    const uint32_t fp = swi_fp_enter(); /* weights are the same on all threads */
    const sw_status status = r->work->read(r->work->context, own->at, &own->is);
    swi_fp_leave(fp);
    pthread_mutex_lock(&r->mutex);
    if (status != SW_OK && own->at < r->end)
        end_at(r, own->at, status);
    own->at = -1;
    pthread_mutex_unlock(&r->mutex);
}

static sw_status read_all(run *r, int threads)
{
    sw_pool *pool = NULL;
    if (threads > 1)
        SW_TRY(swi_pool_create(&pool, threads, 1));
    while (r->next < r->end) {
        const int64_t left = r->work->n - r->next;
        const int n = left < REGION ? (int)left : REGION;
        for (int i = 0; i < n && pool == NULL; i++)
            read_next(r, i);
        if (pool != NULL)
            swi_pool_par(pool)->run(swi_pool_par(pool), read_next, r, n);
    }
    swi_pool_destroy(pool);
    pthread_mutex_lock(&r->mutex);
    tell(r); /* what others read last */
    pthread_mutex_unlock(&r->mutex);
    if (r->status != SW_OK)
        SW_FAIL(r->status, "%s", r->why);
    return SW_OK;
}

static int threads_of(const swi_image_work *w)
{
    const int processors = w->threads > 1 ? sw_thread_processors() : 1;
    const int n = w->threads < processors ? w->threads : processors;
    return w->n < n ? (int)w->n : n;
}

sw_status swi_images_each(const swi_image_work *w)
{
    const int threads = threads_of(w);
    const size_t bytes = sizeof(hand) * (size_t)threads,
                 paths = w->path_bytes * (size_t)threads;
    run r = {.work = w, .caller = pthread_self(), .n_hands = threads, .end = w->n};
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes + paths));
    r.hands = block;
    for (int i = 0; i < threads; i++) {
        r.hands[i].at = -1;
        r.hands[i].is.path = (char *)block + bytes + (size_t)i * w->path_bytes;
    }
    pthread_mutex_init(&r.mutex, NULL);
    const sw_status status = read_all(&r, threads);
    pthread_mutex_destroy(&r.mutex);
    sw_heap_free(block, SW_HEAP_FILES, bytes + paths);
    return status;
}
