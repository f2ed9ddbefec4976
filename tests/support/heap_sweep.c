/* See heap_sweep.h. */
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"

#define MAX_SITES 100000

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

static void stop(void *unused)
{
    for (int kind = 0; kind < SW_FAULT_KINDS; kind++)
        sw_fault_plan((sw_fault_kind)kind, 0, SW_FAULT_OFF);
}

bool sw_sites_next(sw_sites *s)
{
    const char *kind = sw_fault_kind_name(s->kind);
    const uint64_t blocks = sw_heap_blocks();
    if (!s->begun) {
        s->begun = true;
        s->blocks = blocks;
        sw_after(stop, NULL);
        return true;
    }
    SW_CHECK(s->keeps || blocks == s->blocks, "%s site %llu: %lld blocks are left", kind,
             (unsigned long long)s->k, (long long)(blocks - s->blocks));
    s->k += s->every > 0 ? s->every : 1;
    s->blocks = blocks;
    if (s->reached && SW_CHECK(s->k < MAX_SITES, "more than %d sites", MAX_SITES))
        return true;
    sw_note("%s: %llu sites, %llu failures", kind, (unsigned long long)s->k,
            (unsigned long long)s->failed);
    return false;
}

void sw_site_begin(sw_sites *s)
{
    sw_fault_plan(s->kind, s->k, s->mode == SW_FAULT_OFF ? SW_FAULT_ONCE : s->mode);
}

sw_status sw_site_end(sw_sites *s, sw_status status)
{
    const char *kind = sw_fault_kind_name(s->kind);
    const sw_status expected = s->status != SW_OK           ? s->status
                               : s->kind == SW_FAULT_MEMORY ? SW_NOMEM
                                                            : SW_IO;
    s->reached = sw_fault_calls(s->kind) > s->k;
    sw_fault_plan(s->kind, 0, SW_FAULT_OFF);
    s->failed += status != SW_OK;
    if (!s->reached)
        SW_CHECK(status == SW_OK, "nothing failed on purpose: %s", sw_last_error());
    else
        SW_CHECK(status == SW_OK ? !s->exact
                                 : (s->any || status == expected) && sw_last_error()[0] != '\0',
                 "%s site %llu: %s: %s", kind, (unsigned long long)s->k, sw_status_name(status),
                 sw_last_error());
    return status;
}

uint64_t sw_sweep(sw_fault_kind kind, sw_status status, sw_status (*operation)(void *arg),
                  void *arg)
{
    sw_sites once = {.kind = kind, .status = status, .any = status == SW_OK, .exact = true};
    sw_sites from = once;
    from.mode = SW_FAULT_FROM;
    while (sw_sites_next(&once))
        (void)SW_AT_SITE(&once, operation(arg));
    while (sw_sites_next(&from))
        (void)SW_AT_SITE(&from, operation(arg));
    return once.k - 1;
}
