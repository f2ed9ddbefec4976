/* Entries under the emulator: they run when they are launched, on the host's memory. */
#include "tests/cuda/side.h"
#include "kernels/cuda/api.h"
#include "tests/cuda/emulator.h"
#include "tests/cuda/entry.h"
#include "tests/support/suite.h"
#include "runtime/stepwell.h"

static sw_cuda_counters counters;
static uint32_t tickets[SW_CUDA_TICKETS];
static sw_cuda_queue queue = {.counters = &counters, .tickets = tickets};

/* The module's: here are only its kernels. */
const sw_cuda_module *sw_cuda_module_open(const sw_cuda_host *host)
{
    static const sw_cuda_api none;
    return sw_cuda_module_make(host, &none);
}

const sw_cuda_module *sw_side_module(void)
{
    const sw_cuda_host host = {SW_CUDA_ABI, sizeof host, sw_error_set, NULL, NULL};
    const sw_cuda_module *module = sw_cuda_module_open(&host);
    CU_ASSERT_PTR_NOT_NULL_FATAL(module);
    return module;
}

const sw_side_way *sw_side_way_at(int i)
{
    static const sw_side_way ways[] = {{"in order", true, false},
                                       {"another schedule, no tickets", false, false},
                                       {"other counters", false, true}};
    return i < 3 ? &ways[i] : NULL;
}

void sw_side_choose(int i)
{
    static const uint64_t schedules[] = {0, 2, 11, 5};
    swi_emu_schedule(schedules[i < 3 ? i : 3]);
    queue.tickets = i == 1 ? NULL : tickets;
}

const sw_cuda_queue *sw_side_queue(void)
{
    return &queue;
}

/* ---- bytes that a launch may know -------------------------------------------------------- */

static ptrdiff_t know(const void *at, size_t bytes)
{
    swi_emu_know(at, bytes);
    return -1;
}

/* A block and the fences around it. */
static void of_block(const void *block, void (*what)(const void *at, size_t bytes))
{
    size_t bytes, shift;
    if (block != NULL && sw_entry_block_at(block, &bytes, &shift))
        what((const char *)block - SW_ENTRY_FENCE, bytes + 2 * (size_t)SW_ENTRY_FENCE);
}

static void of_blocks(const sw_launch *l, void (*what)(const void *at, size_t bytes))
{
    for (int i = 0; i < l->n_in; i++)
        of_block(l->in[i].ptr, what);
    for (int i = 0; i < l->n_out; i++)
        of_block(l->out[i].ptr, what);
    of_block(l->scratch, what);
}

/* The elements of inputs, and of results that are added to, and no others: neither scratch nor
 * gaps between rows. */
static void know_operands(const sw_launch *l)
{
    of_blocks(l, swi_emu_forget);
    for (int i = 0; i < l->n_in; i++)
        if (l->in[i].ptr != NULL)
            (void)sw_entry_each(&l->in[i], know);
    for (int i = 0; i < l->n_out; i++)
        if (l->out[i].ptr != NULL && (l->accumulate >> i & 1u) != 0)
            (void)sw_entry_each(&l->out[i], know);
}

/* Every element of a result was written, with what was made of known bytes. */
static sw_status is_written(const sw_cuda_entry *entry, const sw_launch *l)
{
    for (int i = 0; i < l->n_out; i++) {
        const ptrdiff_t at =
            l->out[i].ptr != NULL ? sw_entry_each(&l->out[i], swi_emu_unknown) : -1;
        if (at >= 0)
            SW_FAIL(SW_INVALID,
                    "%s, kernel %d: byte %d of output %d was not written, or made of bytes "
                    "that were not",
                    entry->op, entry->which, (int)at, i);
    }
    return SW_OK;
}

sw_status sw_side_launch(const sw_cuda_entry *entry, const sw_launch *launch,
                         sw_cuda_counters now)
{
    uint32_t stated = 0;
    sw_cuda_queue counting = queue;
    counting.stated = &stated;
    counters = now;
    swi_emu_clear();
    const uint64_t before = swi_emu_counted().launches;
    const sw_status promise = entry->kernel(launch, &counting);
    const bool none = swi_emu_counted().launches == before;
    if (swi_emu_tracks())
        know_operands(launch);
    sw_status status = entry->kernel(launch, &queue);
    const uint64_t launches = swi_emu_counted().launches - before;
    if (swi_emu_tracks()) {
        if (status == SW_OK && launches > 0)
            status = is_written(entry, launch);
        of_blocks(launch, swi_emu_know);
    }
    if (status == SW_OK && (promise != SW_OK || !none || launches != stated))
        return sw_error_set(SW_INVALID, __FILE__, __LINE__,
                            "%s, kernel %d: %d launches, %d stated", entry->op, entry->which,
                            (int)launches, (int)stated);
    if (status != SW_OK && swi_emu_error()[0] != '\0')
        return sw_error_set(status, __FILE__, __LINE__, "%s, kernel %d: %s", entry->op,
                            entry->which, swi_emu_error());
    return status;
}

bool sw_side_counts(uint64_t *launches)
{
    *launches = swi_emu_counted().launches;
    return true;
}

void sw_side_tell(void)
{
    const swi_emu_counts c = swi_emu_counted();
    sw_note("%llu launches so far, %.1f million emulated threads, %.1f million switches",
            (unsigned long long)c.launches, (double)c.threads * 1e-6,
            (double)c.switches * 1e-6);
}

bool sw_side_broken(void)
{
    return false;
}

void sw_side_compared(const sw_cuda_entry *entry, bool passed)
{
}

void sw_side_close(void)
{
}
