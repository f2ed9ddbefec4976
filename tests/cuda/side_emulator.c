/* Entries under the emulator: they run when they are launched, on the host's memory. */
#include "tests/cuda/side.h"
#include "kernels/cuda/api.h"
#include "tests/cuda/emulator.h"
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
    const sw_status status = entry->kernel(launch, &queue);
    const uint64_t launches = swi_emu_counted().launches - before;
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
