/* Fibers, barriers and schedules of cuda_emulator.h. A block's threads run on workers, each
 * with a stack: a thread that never waits leaves its worker to the next one without a switch.
 */
#include "cuda_emulator.h"
#include "fiber.h"
#include <stdarg.h>
#include <stdio.h>

#define MOST_THREADS 1024
#define WARP 32
#define SHARED_MOST 49152 /* bytes of a block that every device has */
#define SHARED_SITES 64
#define SHARED_GAP 64 /* red zone after each array */

enum state { NEW, READY, AT_BARRIER, AT_WARP, DONE };

struct thread {
    enum state state;
    int worker; /* that it waits on; -1: none */
    uint3 place;
    const char *file; /* where it waits */
    int line;
    unsigned calls; /* of the warp: their parity says where values lie */
};

swi_emu_place swi_emu_now;

static struct {
    thread at[MOST_THREADS];
    int n, n_done, n_barrier, warp_arrived[MOST_THREADS / WARP];
    int ready[MOST_THREADS], first, n_ready; /* a ring */
    int running, next_worker, free_workers[MOST_THREADS], n_free;
    int assigned; /* the thread that a worker begins with */
    void (*body)(void *arg);
    void *arg;
    const swi_emu_launch_info *info;
    cudaError_t error;
    uint64_t values[2][WARP * (MOST_THREADS / WARP)];
} block;

static struct {
    alignas(64) unsigned char bytes[SHARED_MOST + (SHARED_SITES + 2) * SHARED_GAP * 2];
    const void *site[SHARED_SITES];
    void *at[SHARED_SITES];
    size_t used, counted;
    int n;
    void *dynamic;
} shared;

static char message[512];
static uint64_t seed, random_state;
swi_emu_counts swi_emu_count;

void swi_emu_schedule(uint64_t s)
{
    seed = s;
    random_state = s * 0x9e3779b97f4a7c15u + 1;
}

const char *swi_emu_error(void)
{
    return message;
}

void swi_emu_clear(void)
{
    message[0] = '\0';
}

swi_emu_counts swi_emu_counted(void)
{
    return swi_emu_count;
}

/* xorshift64* */
static uint64_t draw(uint64_t below)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1du % below;
}

/* ---- failures ---------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void fail(cudaError_t error, const char *format,
                                                       ...)
{
    if (message[0] == '\0') {
        va_list list;
        va_start(list, format);
        const int n = snprintf(message, sizeof message, "%s: ", block.info->kernel);
        vsnprintf(message + n, sizeof message - (size_t)n, format, list);
        va_end(list);
    }
    block.error = error;
}

static void fail_at(const thread *a, const char *what, const thread *b)
{
    char other[200] = "";
    if (b != NULL && b->state == DONE)
        snprintf(other, sizeof other, ", thread (%u, %u, %u) has ended", b->place.x, b->place.y,
                 b->place.z);
    else if (b != NULL)
        snprintf(other, sizeof other, ", thread (%u, %u, %u) waits at %s:%d", b->place.x,
                 b->place.y, b->place.z, b->file, b->line);
    fail(cudaErrorLaunchFailure, "%s: block (%u, %u, %u), thread (%u, %u, %u) waits at %s:%d%s",
         what, swi_emu_now.block.x, swi_emu_now.block.y, swi_emu_now.block.z, a->place.x,
         a->place.y, a->place.z, a->file, a->line, other);
}

/* ---- who runs next ----------------------------------------------------------------------- */

static void make_ready(int t)
{
    block.at[t].state = block.at[t].worker < 0 ? NEW : READY;
    block.ready[(block.first + block.n_ready++) % MOST_THREADS] = t;
}

/* All of [from, from + n), in the order of the schedule. */
static void make_all_ready(int from, int n)
{
    for (int i = 0; i < n; i++)
        make_ready(seed == 1 ? from + n - 1 - i : from + i);
}

/* The fiber that the schedule takes next; -1: none can go on. The newest is at the end of the
 * ring, all others are brought to its front. */
static int peek(void)
{
    if (block.n_ready == 0)
        return -1;
    if (seed == 2)
        return block.ready[(block.first + block.n_ready - 1) % MOST_THREADS];
    if (seed > 2) {
        const int other = (block.first + (int)draw((uint64_t)block.n_ready)) % MOST_THREADS;
        const int t = block.ready[other];
        block.ready[other] = block.ready[block.first];
        block.ready[block.first] = t;
    }
    return block.ready[block.first];
}

/* It runs now. */
static void take(int t)
{
    block.first = seed == 2 ? block.first : (block.first + 1) % MOST_THREADS;
    block.n_ready--;
    block.running = t;
    swi_emu_now.thread = block.at[t].place;
}

/* The worker of a thread that runs next: its own, or one without a thread. */
static void work(int worker);
static int worker_of(int t)
{
    int worker = block.at[t].worker;
    if (worker < 0 && block.n_free > 0)
        worker = block.free_workers[--block.n_free];
    else if (worker < 0)
        swi_fiber_begin(worker = block.next_worker++, work);
    return worker;
}

/* From a worker, whose thread waits or has ended, to what the schedule wants next. A fiber that
 * has failed never goes on; its stack is used again. */
static void leave_worker(int worker)
{
    const int next = block.error == cudaSuccess ? peek() : -1;
    if (next < 0) {
        swi_emu_count.switches++;
        swi_fiber_to_scheduler(worker);
        return;
    }
    take(next);
    const int to = worker_of(next);
    if (to == worker)
        return;
    swi_emu_count.switches++;
    swi_fiber_switch(worker, to);
}

static void leave(void)
{
    leave_worker(block.at[block.running].worker);
}

/* A worker: thread after thread. */
static void work(int worker)
{
    for (;;) {
        thread *t = &block.at[block.running];
        t->worker = worker;
        swi_emu_count.threads++;
        block.body(block.arg);
        block.at[block.running].state = DONE; /* the same thread: it may have waited */
        block.at[block.running].worker = -1;
        block.n_done++;
        block.free_workers[block.n_free++] = worker;
        leave_worker(worker);
    }
}

/* No one can run, and somebody waits. */
static void report_stuck(void)
{
    const thread *waits = NULL, *other = NULL;
    for (int i = 0; i < block.n; i++)
        if (block.at[i].state == AT_BARRIER || block.at[i].state == AT_WARP) {
            waits = waits == NULL ? &block.at[i] : waits;
            if (other == NULL &&
                (block.at[i].file != waits->file || block.at[i].line != waits->line))
                other = &block.at[i];
        }
    for (int i = 0; i < block.n && other == NULL; i++)
        if (block.at[i].state == DONE)
            other = &block.at[i];
    fail_at(waits, waits->state == AT_BARRIER ? "divergent barrier" : "divergent warp", other);
}

static void run_block(void)
{
    swi_emu_count.blocks++;
    block.first = block.n_ready = block.n_done = block.n_barrier = 0;
    block.next_worker = block.n_free = 0;
    memset(block.warp_arrived, 0, sizeof block.warp_arrived);
    const dim3 d = swi_emu_now.block_size;
    for (int i = 0; i < block.n; i++) {
        const unsigned u = (unsigned)i;
        block.at[i] = thread{NEW, -1, {u % d.x, u / d.x % d.y, u / (d.x * d.y)}, "", 0, 0};
    }
    make_all_ready(0, block.n);
    while (block.n_done < block.n && block.error == cudaSuccess) {
        const int t = peek();
        if (t < 0) {
            report_stuck();
            return;
        }
        take(t);
        swi_emu_count.switches++;
        swi_fiber_resume(worker_of(t));
    }
}

/* ---- waiting ----------------------------------------------------------------------------- */

static thread *wait_here(enum state state, const char *file, int line)
{
    thread *t = &block.at[block.running];
    t->state = state;
    t->file = file;
    t->line = line;
    return t;
}

/* Threads [from, from + n) have all arrived, the running one last: at one place? */
static bool at_one_place(int from, int n, const char *what)
{
    const thread *t = &block.at[block.running];
    for (int i = from; i < from + n; i++)
        if (block.at[i].file != t->file || block.at[i].line != t->line) {
            fail_at(t, what, &block.at[i]);
            return false;
        }
    return true;
}

void swi_emu_barrier(const char *file, int line)
{
    wait_here(AT_BARRIER, file, line);
    if (++block.n_barrier == block.n && at_one_place(0, block.n, "divergent barrier")) {
        block.n_barrier = 0;
        make_all_ready(0, block.n);
    }
    leave();
}

int swi_emu_lane(void)
{
    return block.running % WARP;
}

const uint64_t *swi_emu_warp(uint64_t value, unsigned mask, const char *file, int line)
{
    const int warp = block.running / WARP, from = warp * WARP;
    thread *t = wait_here(AT_WARP, file, line);
    const unsigned parity = t->calls++ & 1u;
    block.values[parity][block.running] = value;
    if (mask != 0xffffffffu) {
        fail_at(t, "not all lanes are in the mask", NULL);
    } else if (++block.warp_arrived[warp] == WARP &&
               at_one_place(from, WARP, "divergent warp")) {
        block.warp_arrived[warp] = 0;
        make_all_ready(from, WARP);
    }
    leave();
    return &block.values[parity][from];
}

/* ---- shared memory ----------------------------------------------------------------------- */

static void *shared_take(size_t bytes)
{
    const size_t size = (bytes + 15) / 16 * 16;
    unsigned char *at = shared.bytes + shared.used;
    shared.counted += size;
    if (shared.counted > SHARED_MOST) {
        fail(cudaErrorInvalidConfiguration, "%zu bytes of shared memory, %d are the most",
             shared.counted, SHARED_MOST);
        leave();
    }
    swi_fiber_memory_open(at, bytes);
    memset(at, 0xff, bytes); /* NaNs */
    swi_emu_forget(at, bytes);
    shared.used += size + SHARED_GAP;
    return at;
}

void *swi_emu_shared(const void *site, size_t bytes)
{
    for (int i = 0; i < shared.n; i++)
        if (shared.site[i] == site)
            return shared.at[i];
    if (shared.n == SHARED_SITES) {
        fail(cudaErrorInvalidConfiguration, "more than %d shared arrays", SHARED_SITES);
        leave();
    }
    void *at = shared_take(bytes);
    shared.site[shared.n] = site;
    shared.at[shared.n++] = at;
    return at;
}

void *swi_emu_dynamic(void)
{
    if (shared.dynamic == NULL)
        shared.dynamic = shared_take(block.info->shared_bytes);
    return shared.dynamic;
}

void *swi_emu_global(void *p)
{
    if (p >= shared.bytes && p < shared.bytes + sizeof shared.bytes) {
        fail(cudaErrorIllegalAddress, "a store to global memory goes to shared memory");
        leave();
    }
    return p;
}

static void shared_reset(void)
{
    shared.used = shared.counted = 0;
    shared.n = 0;
    shared.dynamic = NULL;
    swi_fiber_memory_close(shared.bytes, sizeof shared.bytes);
}

/* ---- launches ---------------------------------------------------------------------------- */

cudaError_t swi_emu_can_be(const swi_emu_launch_info *info)
{
    block.info = info;
    block.error = cudaSuccess;
    const dim3 g = info->grid, b = info->block;
    const uint64_t threads = (uint64_t)b.x * b.y * b.z;
    if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7fffffffu || g.y > 65535u || g.z > 65535u)
        fail(cudaErrorInvalidConfiguration, "a grid of (%u, %u, %u) blocks", g.x, g.y, g.z);
    else if (b.x > 1024 || b.y > 1024 || b.z > 64 || threads == 0 || threads > MOST_THREADS)
        fail(cudaErrorInvalidConfiguration, "a block of (%u, %u, %u) threads", b.x, b.y, b.z);
    else if (threads % WARP != 0)
        fail(cudaErrorInvalidConfiguration, "a block of %u threads is no number of warps",
             (unsigned)threads);
    else if (info->shared_bytes > SHARED_MOST)
        fail(cudaErrorInvalidConfiguration, "%zu bytes of shared memory, %d are the most",
             info->shared_bytes, SHARED_MOST);
    return block.error;
}

/* A step that has no factor in common with n visits all blocks. */
static uint64_t stride_over(uint64_t n)
{
    uint64_t step = n / 2 + draw(n / 2 + 1) + 1;
    for (;; step++) {
        uint64_t a = step, b = n;
        while (b != 0) {
            const uint64_t r = a % b;
            a = b;
            b = r;
        }
        if (a == 1)
            return step;
    }
}

cudaError_t swi_emu_run(const swi_emu_launch_info *info, void (*run)(void *body), void *body)
{
    block.info = info;
    block.body = run;
    block.arg = body;
    block.error = cudaSuccess;
    swi_emu_count.launches++;
    const dim3 g = info->grid;
    const uint64_t n = (uint64_t)g.x * g.y * g.z;
    const uint64_t step = seed > 1 ? stride_over(n) : 1, first = seed > 1 ? draw(n) : 0;
    block.n = (int)(info->block.x * info->block.y * info->block.z);
    swi_emu_now.block_size = info->block;
    swi_emu_now.grid = g;
    for (uint64_t i = 0; i < n && block.error == cudaSuccess; i++) {
        const uint64_t b = seed == 1 ? n - 1 - i : (first + i % n * (step % n)) % n;
        swi_emu_now.block = uint3{(unsigned)(b % g.x), (unsigned)(b / g.x % g.y),
                                  (unsigned)(b / ((uint64_t)g.x * g.y))};
        shared_reset();
        run_block();
    }
    return block.error;
}
