/* See heap_sweep.h. */
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"

#define MAX_SITES 10000

uint64_t sw_heap_blocks(void)
{
    uint64_t blocks = 0;
    for (int heap = 0; heap < SW_HEAP_KINDS; heap++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)heap, &stats);
        blocks += stats.blocks;
    }
    return blocks;
}

static uint64_t sweep_mode(sw_fault_kind kind, sw_fault_mode mode, sw_status status,
                           sw_status (*operation)(void *arg), void *arg)
{
    for (uint64_t k = 0; k < MAX_SITES; k++) {
        const uint64_t blocks = sw_heap_blocks();
        sw_fault_plan(kind, k, mode);
        const sw_status got = operation(arg);
        const bool reached = sw_fault_calls(kind) > k;
        sw_fault_plan(kind, 0, SW_FAULT_OFF);
        SW_CHECK(sw_heap_blocks() == blocks, "%s site %llu leaks", sw_fault_kind_name(kind),
                 (unsigned long long)k);
        if (!reached) {
            SW_CHECK(got == SW_OK, "nothing failed on purpose: %s", sw_last_error());
            return k;
        }
        SW_CHECK(status == SW_OK ? got != SW_OK : got == status, "%s site %llu: %s",
                 sw_fault_kind_name(kind), (unsigned long long)k, sw_status_name(got));
        SW_CHECK(sw_last_error()[0] != '\0', "%s site %llu has no message",
                 sw_fault_kind_name(kind), (unsigned long long)k);
    }
    SW_CHECK(false, "more than %d sites", MAX_SITES);
    return MAX_SITES;
}

uint64_t sw_sweep(sw_fault_kind kind, sw_status status, sw_status (*operation)(void *arg),
                  void *arg)
{
    const uint64_t sites = sweep_mode(kind, SW_FAULT_ONCE, status, operation, arg);
    (void)sweep_mode(kind, SW_FAULT_FROM, status, operation, arg);
    return sites;
}
