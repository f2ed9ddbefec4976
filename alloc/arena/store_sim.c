/* A scripted device: limited capacity, coarse commits, memory out of reach of host code unless
 * opened, a call log and planned faults. Tests use it in place of a real device. */
#include "alloc/base/mem.h"
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "alloc/arena/store.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LOG_LINES 256

typedef struct {
    sw_store head;
    sw_sim_script script;
    int64_t commits;
    int depth; /* of host_access */
    bool failed;
    size_t n_log;
    char log[LOG_LINES][48];
} sim_store;

static void note(sim_store *sim, const char *what, size_t bytes)
{
    if (sim->n_log < LOG_LINES)
        snprintf(sim->log[sim->n_log++], sizeof sim->log[0], "%s %zu", what, bytes);
}

static sw_status usable(sim_store *sim)
{
    if (sim->failed && sim->script.sticky)
        SW_FAIL(SW_DEVICE, "sim store: the device has failed");
    return SW_OK;
}

static sw_status protect(sim_store *sim)
{
    SW_ASSERT(sim->depth >= 0 && sim->head.committed_bytes <= sim->head.reserved_bytes);
    const int mode = sim->depth > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (sim->head.committed_bytes > 0 &&
        mprotect(sim->head.base, sim->head.committed_bytes, mode) != 0)
        SW_FAIL(SW_DEVICE, "sim store: protection could not be changed");
    return SW_OK;
}

static sw_status sim_commit(sw_store *store, size_t bytes)
{
    sim_store *sim = (sim_store *)(void *)store;
    note(sim, "commit", bytes);
    SW_TRY(usable(sim));
    size_t wanted;
    if (!sw_size_align(bytes, store->granularity, &wanted) || wanted > store->reserved_bytes ||
        wanted > sim->script.capacity_bytes)
        SW_FAIL(SW_NOMEM, "sim store: needs %zu bytes; the capacity is %zu", bytes,
                sim->script.capacity_bytes);
    if (wanted <= store->committed_bytes)
        return SW_OK;
    if (sim->commits++ == sim->script.fail_commit) {
        sim->failed = true;
        SW_FAIL(SW_NOMEM, "sim store: commit %lld failed as planned",
                (long long)sim->script.fail_commit);
    }
    SW_TRY(sw_range_commit(store->base, store->committed_bytes, wanted));
    const size_t before = store->committed_bytes;
    store->committed_bytes = wanted;
    const sw_status status = protect(sim);
    if (status != SW_OK)
        store->committed_bytes = before;
    return status;
}

static sw_status sim_access(sw_store *store, bool on)
{
    sim_store *sim = (sim_store *)(void *)store;
    if (sim->n_log < LOG_LINES)
        snprintf(sim->log[sim->n_log++], sizeof sim->log[0], "access %s", on ? "on" : "off");
    SW_TRY(usable(sim));
    if (!on && sim->depth == 0)
        SW_FAIL(SW_INVALID, "sim store: access was ended more often than begun");
    const int before = sim->depth;
    sim->depth += on ? 1 : -1;
    SW_ASSERT(sim->depth >= 0);
    const sw_status status = protect(sim);
    if (status != SW_OK)
        sim->depth = before;
    return status;
}

static void sim_destroy(sw_store *store)
{
    sw_range_release(store->base, store->reserved_bytes);
    sw_heap_free(store, SW_HEAP_RECORDS, sizeof(sim_store));
}

static const sw_store_ops sim_ops = {"sim", sim_commit, sim_destroy, sim_access, false, 0};

sw_status sw_store_sim_create(sw_store **out, size_t reserve_bytes, const sw_sim_script *script)
{
    const size_t step = script->granularity > 0 ? script->granularity : (size_t)2 << 20;
    size_t bytes;
    if ((step & (step - 1)) != 0 || step < sw_page_bytes())
        SW_FAIL(SW_INVALID,
                "sim store: the granularity must be a power of two of whole pages (got %zu)",
                step);
    if (!sw_size_align(reserve_bytes > 0 ? reserve_bytes : 1, step, &bytes))
        SW_FAIL(SW_NOMEM, "sim store: %zu bytes overflow", reserve_bytes);
    void *block, *base;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(sim_store)));
    const sw_status status = sw_range_reserve(&base, bytes);
    if (status != SW_OK) {
        sw_heap_free(block, SW_HEAP_RECORDS, sizeof(sim_store));
        return status;
    }
    sim_store *sim = block;
    sim->script = *script;
    sim->head = (sw_store){&sim_ops, base, bytes, 0, step, NULL};
    *out = &sim->head;
    return SW_OK;
}

const char *sw_store_sim_log(const sw_store *store, size_t index)
{
    const sim_store *sim = (const sim_store *)(const void *)store;
    return store->ops == &sim_ops && index < sim->n_log ? sim->log[index] : NULL;
}
