/* Snapshots, by the table of their backend; and those of backends that copy at once. */
#include "runtime/device/snapshot_ways.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include <string.h>

/* ---- calls ------------------------------------------------------------------------------- */

static const swi_snapshot_ways *ways_of(const swi_snapshot *s)
{
    return s->device->backend->snapshot;
}

sw_status swi_snapshot_create(swi_snapshot **out, const swi_target *target, size_t bytes)
{
    void *block;
    SW_ASSERT(target != NULL && target->device->backend->snapshot != NULL);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(swi_snapshot)));
    swi_snapshot *s = block;
    s->device = swi_device_share(target->device);
    s->compute = target->compute;
    s->n_bytes = bytes > 0 ? bytes : 1;
    const sw_status status = ways_of(s)->create(s, target->budget);
    if (status != SW_OK) {
        swi_snapshot_destroy(s);
        return status;
    }
    *out = s;
    return SW_OK;
}

sw_status swi_snapshot_room(swi_snapshot *s)
{
    SW_ASSERT(s != NULL && s->n_bytes > 0);
    return s->bytes == NULL ? ways_of(s)->room(s) : SW_OK;
}

void swi_snapshot_destroy(swi_snapshot *s)
{
    if (s == NULL)
        return;
    ways_of(s)->free(s);
    swi_device_close(s->device);
    sw_heap_free(s, SW_HEAP_RECORDS, sizeof *s);
}

sw_status swi_snapshot_copy(swi_snapshot *s, size_t at, const void *from, size_t bytes)
{
    SW_ASSERT(s->bytes != NULL);
    SW_ASSERT(at <= s->n_bytes && bytes <= s->n_bytes - at);
    if (bytes == 0)
        return SW_OK;
    SW_ASSERT(from != NULL);
    return ways_of(s)->copy(s, at, from, bytes);
}

sw_status swi_snapshot_end(swi_snapshot *s)
{
    SW_ASSERT(s->bytes != NULL);
    return ways_of(s)->end(s);
}

sw_status swi_snapshot_wait(swi_snapshot *s)
{
    SW_ASSERT(s->bytes != NULL);
    return ways_of(s)->wait(s);
}

sw_status swi_snapshot_sync(swi_snapshot *s)
{
    return ways_of(s)->sync != NULL ? ways_of(s)->sync(s) : SW_OK;
}

unsigned char *swi_snapshot_bytes(const swi_snapshot *s)
{
    return s->bytes;
}

/* ---- at once ----------------------------------------------------------------------------- */

/* Not SW_ARENA_DATA: a budget counts those of the host as batch slots. */
static sw_status charge(swi_snapshot *s, sw_budget *budget)
{
    sw_store *store;
    SW_TRY(sw_store_host_create(&store, s->n_bytes));
    const sw_arena_opts opts = {
        .label = "checkpoint", .store = store, .budget = budget, .use = SW_ARENA_OTHER};
    const sw_status status = sw_arena_create(&s->arena, &opts);
    if (status != SW_OK) {
        sw_store_destroy(store);
        return status;
    }
    return sw_arena_grow(s->arena, s->n_bytes, false); /* a refusal names the whole of it */
}

static sw_status commit(swi_snapshot *s)
{
    SW_TRY(sw_arena_grow(s->arena, s->n_bytes, true));
    s->bytes = sw_arena_base(s->arena);
    sw_unpoison(s->bytes, s->n_bytes);
    memset(s->bytes, 0, s->n_bytes);
    return SW_OK;
}

static sw_status read_now(swi_snapshot *s, size_t at, const void *from, size_t bytes)
{
    return swi_device_read(s->device, s->bytes + at, from, bytes);
}

static sw_status is_there(swi_snapshot *s)
{
    return swi_device_fault(s->device);
}

static void end_arena(swi_snapshot *s)
{
    sw_arena_destroy(s->arena);
}

const swi_snapshot_ways swi_snapshot_at_once = {.create = charge,
                                                .room = commit,
                                                .copy = read_now,
                                                .end = is_there,
                                                .wait = is_there,
                                                .free = end_arena};
