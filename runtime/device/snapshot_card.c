/* Snapshots of a card: copies in the exec's stream to pinned memory, and an event after them.
 */
#include "runtime/device/snapshot_ways.h"
#include "alloc/base/assert.h"

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

const swi_snapshot_ways swi_snapshot_by_stream = {.create = create,
                                                  .room = pin,
                                                  .copy = copy,
                                                  .end = end,
                                                  .wait = wait_for,
                                                  .sync = sync_card,
                                                  .free = free_card};
