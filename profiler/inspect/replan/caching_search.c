/* Where a request goes: the search of caching_allocator.c. */
#include "profiler/inspect/replan/caching_blocks.h"

/* How large a block can become by mapping what follows. */
static uint64_t expandable_bytes(const caching_allocator *a, uint32_t i)
{
    const block *b = &a->blocks[i];
    const bool grows = b->next != NONE && a->blocks[b->next].state == CACHING_UNMAPPED;
    return b->bytes + (grows ? a->blocks[b->next].bytes : 0);
}

static uint32_t best_of(const caching_allocator *a, const lane *of, uint64_t bytes)
{
    const caching_settings *s = &a->settings;
    uint32_t i = blocks_least(a, of->root, bytes);
    if (i == NONE)
        return NONE;
    if (a->blocks[i].expandable && s->expandable) {
        uint32_t next = blocks_next_larger(a, i);
        while (a->blocks[i].expandable && next != NONE &&
               expandable_bytes(a, next) < expandable_bytes(a, i)) {
            i = next;
            next = blocks_next_larger(a, i);
        }
    } else {
        while (i != NONE && a->blocks[i].expandable)
            i = blocks_next_larger(a, i);
    }
    if (i == NONE || (bytes < s->max_split_bytes && a->blocks[i].bytes >= s->max_split_bytes) ||
        (bytes >= s->max_split_bytes && a->blocks[i].bytes >= bytes + s->max_rounding_bytes))
        return NONE;
    return i;
}

static bool has_room(const caching_allocator *a, uint32_t i, uint64_t bytes)
{
    uint64_t room = 0;
    for (; i != NONE && room < bytes; i = a->blocks[i].next) {
        if (a->blocks[i].state != CACHING_FREE && a->blocks[i].state != CACHING_UNMAPPED)
            break;
        room += a->blocks[i].bytes;
    }
    return room >= bytes;
}

/* A block that the search refuses for its size may still be where an expandable segment grows
 * first: the free block before the lowest addresses without memory that have room. It is taken
 * whole as it is, where it is large enough. */
static uint32_t where_it_grows(const caching_allocator *a, const lane *of, uint64_t bytes)
{
    for (uint32_t i = of->head; i != NONE; i = a->blocks[i].next) {
        if (a->blocks[i].state != CACHING_UNMAPPED)
            continue;
        const uint32_t prev = a->blocks[i].prev;
        const uint32_t from = prev != NONE && a->blocks[prev].state == CACHING_FREE ? prev : i;
        if (!has_room(a, from, bytes))
            continue;
        return a->blocks[from].state == CACHING_FREE && a->blocks[from].bytes >= bytes ? from
                                                                                       : NONE;
    }
    return NONE;
}

sw_status caching_find(caching_allocator *a, uint64_t stream, uint64_t pool, uint64_t requested,
                       uint64_t *out)
{
    uint32_t of;
    const uint64_t bytes = caching_round(&a->settings, requested);
    SW_TRY(blocks_lane(a, (caching_lane){stream, pool, bytes <= CACHING_SMALL_BYTES}, &of));
    const lane *l = &a->lanes[of];
    uint32_t i = best_of(a, l, bytes);
    if (i == NONE && l->fresh != NONE && a->blocks[l->fresh].bytes >= bytes)
        i = l->fresh;
    if (i == NONE && a->settings.expandable && a->settings.max_split_bytes != UINT64_MAX)
        i = where_it_grows(a, l, bytes);
    *out = i == NONE ? 0 : a->blocks[i].address;
    return SW_OK;
}

static uint32_t free_at(const caching_allocator *a, uint64_t address)
{
    const uint32_t i = blocks_at(a, address);
    return i != NONE && a->blocks[i].state == CACHING_FREE ? i : NONE;
}

bool caching_is_new(const caching_allocator *a, uint64_t address, uint64_t stream,
                    uint64_t requested, uint64_t mapped)
{
    const uint32_t i = free_at(a, address);
    const uint64_t bytes = caching_round(&a->settings, requested);
    const block *b = &a->blocks[i];
    if (i == NONE || b->bytes < bytes)
        return false;
    const lane *of = &a->lanes[b->lane];
    if (of->key.stream != stream || of->key.small != (bytes <= CACHING_SMALL_BYTES))
        return false;
    return of->fresh == i || (mapped != 0 && b->expandable && mapped - address < b->bytes) ||
           (a->settings.expandable && where_it_grows(a, of, bytes) == i);
}

bool caching_is_pending(const caching_allocator *a, uint64_t address)
{
    const uint32_t i = blocks_at(a, address);
    return i != NONE && a->blocks[i].state == CACHING_PENDING;
}

bool caching_pool_at(const caching_allocator *a, uint64_t address, uint64_t *out)
{
    const uint32_t i = free_at(a, address);
    if (i == NONE)
        return false;
    *out = a->lanes[a->blocks[i].lane].key.pool;
    return true;
}
