/* The trap: regions are closed before each op, the first touch of a region faults, and the
 * handler of SIGSEGV writes down who it was and opens the region as far as was asked. A region
 * faults at most twice per op, once for reading and once for writing. It works through any code
 * that the kernels call, and in worker threads: handlers belong to the process. Faults
 * elsewhere go to whoever had the signal before.
 *
 * The handler takes a spin lock, because threads of one region may fault together; it calls
 * nothing but mprotect. */
#include "runtime/verify/witness_internal.h"
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__) && defined(__linux__)
#define HAS_ACCESS_RECORDER 1
#else
#define HAS_ACCESS_RECORDER 0
#endif

static atomic_bool taken; /* one trap in the process */
static _Atomic(swi_access_recorder *) active;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static struct sigaction before;

static size_t zone_from(const swi_region *region, int side)
{
    return side < 0 ? region->from - sw_page_bytes() : side > 0 ? region->to : region->from;
}

static size_t zone_to(const swi_region *region, int side)
{
    return side < 0 ? region->from : side > 0 ? region->to + sw_page_bytes() : region->to;
}

#if HAS_ACCESS_RECORDER
/* Rooms lie one after the other with a guard on each side, so every byte belongs to one. */
static uint32_t region_at(const swi_regions *r, size_t offset)
{
    uint32_t low = 0, high = r->n_regions;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (zone_from(&r->regions[middle], -1) <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool open_zone(swi_access_recorder *recorder, size_t offset, bool write)
{
    const uint32_t region = region_at(recorder->regions, offset);
    const swi_region *r = &recorder->regions->regions[region];
    const int side = offset < r->from ? -1 : offset >= r->to ? 1 : 0;
    unsigned char *level = &recorder->level[3 * (size_t)region + (size_t)(side + 1)];
    const unsigned char wanted = write ? 2 : 1;
    if (*level >= wanted)
        return true; /* another thread was first */
    if (recorder->n_touches < recorder->cap_touches)
        recorder->touches[recorder->n_touches++] =
            (swi_touch){recorder->op, region, write, (int8_t)side};
    else
        recorder->lost++;
    *level = wanted;
    return sw_range_protect(recorder->regions->base, zone_from(r, side), zone_to(r, side),
                            write ? SW_RANGE_WRITE : SW_RANGE_READ) == SW_OK;
}

static void pass_on(int signal_number, siginfo_t *info, void *context)
{
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(signal_number, info, context);
    else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
        (void)sigaction(signal_number, &before,
                        NULL); /* the access comes again and ends there */
    else
        before.sa_handler(signal_number);
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    swi_access_recorder *recorder = atomic_load(&active);
    const uintptr_t at = (uintptr_t)info->si_addr;
    if (recorder == NULL || at < (uintptr_t)recorder->regions->base ||
        at - (uintptr_t)recorder->regions->base >= recorder->regions->bytes) {
        pass_on(signal_number, info, context);
        return;
    }
    const ucontext_t *u = context;
    const bool write = (u->uc_mcontext.gregs[REG_ERR] & 2) != 0;
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        ;
    const bool opened = open_zone(recorder, at - (uintptr_t)recorder->regions->base, write);
    atomic_flag_clear_explicit(&lock, memory_order_release);
    if (!opened)
        pass_on(signal_number, info, context);
}
#endif

static sw_status take_arrays(swi_access_recorder *recorder, const swi_regions *regions,
                             const swi_program *p)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, 3 * (size_t)regions->n_regions));
    recorder->level = block;
    /* Each operand can be read and written, and there is space for touches of regions that
     * the op does not list. */
    const size_t cap = 2 * (size_t)p->n_binds + 4096;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, cap * sizeof *recorder->touches));
    recorder->touches = block;
    recorder->cap_touches = (uint32_t)cap;
    return SW_OK;
}

void swi_access_recorder_free(swi_access_recorder *recorder)
{
    if (recorder->regions == NULL)
        return;
    sw_heap_free(recorder->level, SWI_WITNESS_HEAP, 3 * (size_t)recorder->regions->n_regions);
    sw_heap_free(recorder->touches, SWI_WITNESS_HEAP,
                 recorder->cap_touches * sizeof *recorder->touches);
    memset(recorder, 0, sizeof *recorder);
}

sw_status swi_access_recorder_begin(swi_access_recorder *recorder, const swi_regions *regions,
                                    const swi_program *program)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->regions = regions;
#if HAS_ACCESS_RECORDER
    SW_TRY(take_arrays(recorder, regions, program));
    if (atomic_exchange(&taken, true))
        SW_FAIL(SW_BUSY, "the access witness is at work in another thread");
    sw_status status = sw_range_protect(regions->base, 0, regions->bytes, SW_RANGE_NONE);
    if (status == SW_OK) {
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_fault;
        ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&ours.sa_mask);
        atomic_store(&active, recorder);
        if (sigaction(SIGSEGV, &ours, &before) != 0) {
            atomic_store(&active, NULL);
            status = sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                                  "the access witness cannot have SIGSEGV");
        }
    }
    if (status != SW_OK)
        atomic_store(&taken, false);
    return status;
#else
    (void)program;
    (void)take_arrays;
    SW_FAIL(SW_UNSUPPORTED, "the access witness is built for Linux on x86-64");
#endif
}

sw_status swi_access_recorder_next(swi_access_recorder *recorder, uint32_t op)
{
    recorder->op = op;
    for (uint32_t z = 0; z < 3 * recorder->regions->n_regions; z++) {
        if (recorder->level[z] == 0)
            continue;
        const swi_region *region = &recorder->regions->regions[z / 3];
        const int side = (int)(z % 3) - 1;
        recorder->level[z] = 0;
        SW_TRY(sw_range_protect(recorder->regions->base, zone_from(region, side),
                                zone_to(region, side), SW_RANGE_NONE));
    }
    return SW_OK;
}

void swi_access_recorder_end(void)
{
    (void)sigaction(SIGSEGV, &before, NULL);
    atomic_store(&active, NULL);
    atomic_store(&taken, false);
}
