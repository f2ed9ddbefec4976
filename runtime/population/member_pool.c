/* Shared by the groups of an exec: the ranges of their members. */
#include "alloc/base/assert.h"
#include "alloc/base/poison.h"
#include "alloc/base/size.h"
#include "runtime/device/device.h"
#include "runtime/model/model_bytes.h"
#include "runtime/population/member_pool.h"
#include "runtime/population/members_internal.h"
#include <stdlib.h>
#include <string.h>

sw_status swi_member_pool_arena(sw_arena **out, const sw_exec *exec, const char *label,
                                sw_arena_use use)
{
    const swi_target *target = swi_target_of(exec);
    sw_store *store;
    SW_TRY(swi_device_store(target->device, &store, 0));
    const sw_arena_opts opts = {
        .label = label, .use = use, .store = store, .budget = target->budget};
    const sw_status status = sw_arena_create(out, &opts);
    if (status != SW_OK)
        sw_store_destroy(store);
    return status;
}

static void end(swi_member_pool *c)
{
    SW_ASSERT(c->groups == NULL && c->lanes == NULL);
    sw_arena_destroy(c->ranges);
    sw_heap_free(c, SW_HEAP_RECORDS, sizeof *c);
}

static sw_status make(swi_member_pool **out, sw_exec *exec)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(swi_member_pool)));
    swi_member_pool *c = block;
    *c = (swi_member_pool){.exec = exec};
    const sw_status status = swi_member_pool_arena(&c->ranges, exec, "members", SW_ARENA_MODEL);
    if (status != SW_OK) {
        end(c);
        return status;
    }
    *out = c;
    return SW_OK;
}

sw_status swi_member_pool_join(sw_members *m, sw_exec *exec)
{
    if (exec->member_pool == NULL)
        SW_TRY(make(&exec->member_pool, exec));
    m->member_pool = exec->member_pool;
    m->member_pool->users++;
    m->next = m->member_pool->groups;
    m->member_pool->groups = m;
    return SW_OK;
}

void swi_member_pool_leave(sw_members *m)
{
    swi_member_pool *c = m->member_pool;
    if (c == NULL)
        return;
    sw_members **at = &c->groups;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    m->member_pool = NULL;
    if (--c->users > 0)
        return;
    c->exec->member_pool = NULL;
    end(c);
}

/* With a budget a hole is bytes of it; few members are moved in no time. */
#define FEW 1024

/* ---- ranges ------------------------------------------------------------------------------ */

typedef struct {
    sw_members *of;
    uint32_t slot;
    size_t offset;
} range;

static int by_offset(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static size_t list_ranges(const swi_member_pool *c, range *list)
{
    size_t n = 0;
    for (sw_members *m = c->groups; m != NULL; m = m->next)
        for (uint32_t i = 0; i < m->n_slots; i++)
            if (m->slots[i].taken) {
                if (list != NULL)
                    list[n] = (range){m, i, m->slots[i].offset};
                n++;
            }
    return n;
}

/* Free slots have no range from then on. */
static void forget_free_ranges(swi_member_pool *c)
{
    for (sw_members *m = c->groups; m != NULL; m = m->next)
        for (uint32_t i = 0; i < m->n_slots; i++)
            if (!m->slots[i].taken)
                m->slots[i].offset = SWI_NO_RANGE;
}

/* In pieces, front to back: those of a device are no longer than the way, since a copy may not
 * run into itself; where that is short they go by host memory. */
static sw_status move_by_host(swi_device *device, unsigned char *to, const unsigned char *from,
                              size_t bytes)
{
    const size_t piece = bytes < SWI_PIECE_BYTES ? bytes : SWI_PIECE_BYTES;
    sw_status status = SW_OK;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, piece));
    for (size_t at = 0; at < bytes && status == SW_OK; at += piece) {
        const size_t n = bytes - at < piece ? bytes - at : piece;
        status = swi_device_read(device, block, from + at, n);
        if (status == SW_OK)
            status = swi_device_write(device, to + at, block, n);
    }
    sw_heap_free(block, SW_HEAP_RECORDS, piece);
    return status;
}

static sw_status move_on_device(swi_device *device, unsigned char *to,
                                const unsigned char *from, size_t bytes)
{
    enum { MOST_PIECES = 64 };
    const size_t way = (size_t)(from - to);
    if (way < bytes / MOST_PIECES)
        return move_by_host(device, to, from, bytes);
    for (size_t at = 0; at < bytes; at += way)
        SW_TRY(
            swi_device_copy(device, to + at, from + at, bytes - at < way ? bytes - at : way));
    return SW_OK;
}

/* A range moves down, over its own bytes where it is longer than its way. */
static sw_status move_down(const swi_member_pool *c, size_t to, size_t from, size_t bytes)
{
    swi_device *device = swi_target_of(c->exec)->device;
    unsigned char *base = sw_arena_base(c->ranges);
    SW_ASSERT(to <= from);
    if (to == from)
        return SW_OK;
    if (!device->backend->host_memory)
        return move_on_device(device, base + to, base + from, bytes);
    memmove(base + to, base + from, bytes);
    return SW_OK;
}

static sw_status move_all(swi_member_pool *c, const range *list, size_t n)
{
    size_t top = 0;
    for (size_t i = 0; i < n; i++) {
        swi_slot_record *slot = &list[i].of->slots[list[i].slot];
        const sw_status status = move_down(c, top, list[i].offset, list[i].of->stride);
        if (status != SW_OK) {
            slot->damaged |= status == SW_DEVICE;
            return status;
        }
        slot->offset = top;
        top += list[i].of->stride;
    }
    c->top = top;
    return SW_OK;
}

/* All that live move down, in their order, until there is no hole. */
static sw_status close_holes(swi_member_pool *c)
{
    void *block;
    const size_t n = list_ranges(c, NULL);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (n + 1) * sizeof(range)));
    range *list = block;
    list_ranges(c, list);
    qsort(list, n, sizeof *list, by_offset);
    const sw_status status = move_all(c, list, n);
    sw_heap_free(block, SW_HEAP_RECORDS, (n + 1) * sizeof(range));
    forget_free_ranges(c);
    return status;
}

static sw_status grow_to(swi_member_pool *c, size_t bytes, size_t *offset)
{
    size_t end_of_it;
    if (!sw_size_add(c->top, bytes, &end_of_it))
        SW_FAIL(SW_NOMEM, "members: a range of %zu bytes overflows", bytes);
    SW_TRY(sw_arena_grow(c->ranges, end_of_it, true));
    *offset = c->top;
    c->top = end_of_it;
    if (swi_target_of(c->exec)->device->backend->host_memory)
        sw_unpoison((unsigned char *)sw_arena_base(c->ranges) + *offset, bytes);
    return SW_OK;
}

sw_status swi_member_pool_range(swi_member_pool *c, size_t bytes, size_t *offset)
{
    const size_t height = sw_arena_height(c->ranges), holes = c->top - c->live;
    const bool tight = swi_target_of(c->exec)->budget != NULL || c->n_live <= FEW;
    const bool large = holes >= bytes && holes >= height / 4;
    if (c->top + bytes > height && holes > 0 && (tight || large))
        SW_TRY(close_holes(c));
    const sw_status status = grow_to(c, bytes, offset);
    if (status != SW_NOMEM)
        return status;
    const size_t top = c->top;
    SW_TRY(close_holes(c));
    return c->top < top ? grow_to(c, bytes, offset) : status;
}

static sw_status empty_ranges(swi_member_pool *c)
{
    sw_arena *ranges;
    SW_TRY(swi_member_pool_arena(&ranges, c->exec, "members", SW_ARENA_MODEL));
    forget_free_ranges(c);
    sw_arena_destroy(c->ranges);
    c->ranges = ranges;
    c->top = 0;
    return SW_OK;
}

sw_status swi_member_pool_trim(swi_member_pool *c)
{
    for (swi_lanes *l = c->lanes; l != NULL; l = l->next)
        SW_TRY(swi_lanes_empty(l));
    return c->n_live == 0 ? empty_ranges(c) : SW_OK;
}
