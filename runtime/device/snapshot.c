/* Snapshots, by the table of their backend; and those of backends that copy at once. */
#include "alloc/arena/arena.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "runtime/device/snapshot.h"
#include <string.h>

struct swi_snapshot {
    swi_device *device;           /* with a share of it */
    const sw_cuda_queue *compute; /* the exec's */
    size_t n_bytes;               /* at least 1 */
    unsigned char *bytes;         /* NULL before there is room */
    sw_arena *arena;              /* NULL: of a card */
    sw_cuda_event *there;         /* NULL: of the host */
    enum {
        SWI_SNAPSHOT_STILL,   /* nothing is on its way */
        SWI_SNAPSHOT_ASKED,   /* copies are, with no event after them */
        SWI_SNAPSHOT_RECORDED /* the event is after them */
    } state;
};

struct swi_snapshot_ways {
    sw_status (*create)(swi_snapshot *snapshot, sw_budget *budget);
    sw_status (*room)(swi_snapshot *snapshot);
    sw_status (*copy)(swi_snapshot *snapshot, size_t at, const void *from, size_t bytes);
    sw_status (*end)(swi_snapshot *snapshot);
    sw_status (*wait)(swi_snapshot *snapshot);
    sw_status (*sync)(swi_snapshot *snapshot); /* NULL: no work is ever left to do */
    void (*free)(swi_snapshot *snapshot); /* what create and room took, all or a part of it */
};

/* ---- snapshot card ----------------------------------------------------------------------- */

/* Snapshots of a card: copies in the exec's stream to pinned memory, and an event after
 * them. */

static sw_status said(swi_snapshot *s, sw_status status)
{
    return swi_device_faulted(s->device, status);
}

/* The thread may be one that has not used the card yet, and the card one that has failed. */
static sw_status enter(swi_snapshot *s)
{
    SW_TRY(swi_device_fault(s->device));
    return said(s, s->device->api->use(s->device->card));
}

/* The budget is the device's and this is the host's. */
static sw_status create(swi_snapshot *s, sw_budget *budget)
{
    (void)budget;
    SW_ASSERT(s->compute != NULL);
    SW_TRY(swi_device_fault(s->device));
    return said(s, s->device->api->event_create(s->device->card, &s->there, false));
}

static sw_status pin(swi_snapshot *s)
{
    void *block;
    SW_TRY(swi_device_pin(s->device, &block, s->n_bytes));
    s->bytes = block;
    return SW_OK;
}

static sw_status copy(swi_snapshot *s, size_t at, const void *from, size_t bytes)
{
    SW_TRY(enter(s));
    /* A copy that was taken before and not waited for is given up: these copies come after it
     * in the stream, and the event moves after them. */
    s->state = SWI_SNAPSHOT_ASKED;
    return said(s,
                s->device->api->copy(s->compute, s->bytes + at, from, bytes, SW_CUDA_TO_HOST));
}

static sw_status end(swi_snapshot *s)
{
    SW_TRY(enter(s));
    SW_TRY(said(s, s->device->api->record(s->there, s->compute)));
    s->state = SWI_SNAPSHOT_RECORDED;
    return SW_OK;
}

static sw_status wait_for(swi_snapshot *s)
{
    SW_TRY(enter(s));
    SW_ASSERT(s->state != SWI_SNAPSHOT_ASKED); /* swi_snapshot_end was called */
    if (s->state == SWI_SNAPSHOT_STILL)
        return SW_OK;
    SW_TRY(said(s, s->device->api->wait(s->there)));
    s->state = SWI_SNAPSHOT_STILL;
    return SW_OK;
}

static sw_status sync_card(swi_snapshot *s)
{
    SW_TRY(enter(s));
    return said(s, s->device->api->sync(s->device->card));
}

/* No event is after copies that were asked for and not ended; the queue may be gone with its
 * exec. The error of a broken card was reported before. */
static void free_card(swi_snapshot *s)
{
    if (s->state == SWI_SNAPSHOT_ASKED)
        (void)s->device->api->sync(s->device->card);
    if (s->state == SWI_SNAPSHOT_RECORDED)
        (void)wait_for(s);
    if (s->there != NULL)
        s->device->api->event_destroy(s->there);
    swi_device_unpin(s->device, s->bytes, s->n_bytes);
}

const swi_snapshot_ways swi_snapshot_by_stream =
    SW_INIT(.create = create, .room = pin, .copy = copy, .end = end, .wait = wait_for,
            .sync = sync_card, .free = free_card);

/* ---- calls ------------------------------------------------------------------------------- */

static const swi_snapshot_ways *ways_of(const swi_snapshot *s)
{
    return s->device->backend->snapshot;
}

sw_status swi_snapshot_create(swi_snapshot **out, const swi_target *target, size_t bytes)
{
    swi_snapshot *s;
    SW_ASSERT(target != NULL && target->device->backend->snapshot != NULL);
    SW_TRY(sw_heap_alloc(&s, SW_HEAP_RECORDS, sizeof(swi_snapshot)));
    s->device = swi_device_share(target->device);
    s->compute = target->compute;
    s->n_bytes = bytes > 0 ? bytes : 1;
    const sw_status status = ways_of(s)->create(s, target->budget);
    return SW_GIVE(status, out, s, swi_snapshot_destroy);
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
    SW_TRY(sw_arena_create(&s->arena, &opts));
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

const swi_snapshot_ways swi_snapshot_at_once =
    SW_INIT(.create = charge, .room = commit, .copy = read_now, .end = is_there,
            .wait = is_there, .free = end_arena);
