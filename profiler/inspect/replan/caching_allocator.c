/* The rules. */
#include "profiler/inspect/replan/caching_blocks.h"
#include "alloc/base/mem.h"

#define ROUND UINT64_C(512)
#define SMALL_PAGE (UINT64_C(2) << 20)
/* Addresses that an expandable segment may grow to. */
#define REST_OF_RANGE (UINT64_C(1) << 50)

/* ---- settings ---------------------------------------------------------------------------- */

caching_settings caching_settings_default(void)
{
    return (caching_settings){.max_split_bytes = UINT64_MAX,
                              .max_rounding_bytes = UINT64_C(20) << 20,
                              .large_page_bytes = UINT64_C(20) << 20};
}

static int log2_of(uint64_t x)
{
    return 63 - __builtin_clzll(x);
}

/* Up to the next of 2^k, 2^k (1 + 1/d), 2^k (1 + 2/d)... */
static uint64_t round_to_division(uint64_t bytes, uint64_t divisions)
{
    if ((bytes & (bytes - 1)) == 0)
        return bytes;
    const uint64_t floor = UINT64_C(1) << log2_of(bytes), step = floor >> log2_of(divisions);
    if (step == 0)
        return floor * 2;
    return (bytes + step - 1) & ~(step - 1);
}

uint64_t caching_round(const caching_settings *s, uint64_t bytes)
{
    if (bytes < ROUND)
        return ROUND;
    int i = log2_of(bytes) - 20;
    i = i < 0 ? 0 : i >= CACHING_DIVISIONS ? CACHING_DIVISIONS - 1 : i;
    const uint64_t divisions = s->divisions[i];
    if (divisions > 1 && bytes > ROUND * divisions)
        return round_to_division(bytes, divisions);
    return (bytes + ROUND - 1) / ROUND * ROUND;
}

/* ---- segments ---------------------------------------------------------------------------- */

static sw_status new_segment(caching_allocator *a, caching_lane key, uint64_t address,
                             uint64_t bytes, bool expandable, uint32_t *out)
{
    uint32_t of;
    SW_TRY(blocks_reserve(a));
    SW_TRY(blocks_lane(a, key, &of));
    if (bytes == 0 || blocks_at(a, address) != NONE)
        SW_FAIL(SW_FORMAT, "a segment of %llu bytes where there is one",
                (unsigned long long)bytes);
    *out = blocks_new(a, of, address, bytes, CACHING_FREE, expandable);
    return SW_OK;
}

sw_status caching_segment_alloc(caching_allocator *a, caching_lane key, uint64_t address,
                                uint64_t bytes)
{
    uint32_t i;
    SW_TRY(new_segment(a, key, address, bytes, false, &i));
    lane *of = &a->lanes[a->blocks[i].lane];
    if (of->fresh != NONE) /* nothing took it: it is like any other */
        blocks_keep(a, of->fresh);
    of->fresh = i;
    return SW_OK;
}

sw_status caching_segment_free(caching_allocator *a, uint64_t address, uint64_t bytes)
{
    const uint32_t i = blocks_at(a, address);
    const block *b = &a->blocks[i];
    if (i == NONE || b->state != CACHING_FREE || b->prev != NONE || b->next != NONE ||
        b->bytes != bytes)
        SW_FAIL(SW_FORMAT, "a segment of %llu bytes goes that is not there, or is in use",
                (unsigned long long)bytes);
    blocks_drop(a, i);
    return SW_OK;
}

/* A lane has one expandable segment: addresses of it that no block begins at are after its
 * end, or before its first block where that came later. */
static sw_status address_without_memory(caching_allocator *a, caching_lane key,
                                        uint64_t address, uint32_t *out)
{
    uint32_t of;
    SW_TRY(blocks_lane(a, key, &of));
    lane *l = &a->lanes[of];
    if (l->tail != NONE && a->blocks[l->tail].address < address) {
        *out = blocks_cut(a, l->tail, address - a->blocks[l->tail].address);
        return SW_OK;
    }
    const uint64_t bytes =
        l->head != NONE ? a->blocks[l->head].address - address : REST_OF_RANGE;
    SW_TRY(new_segment(a, key, address, bytes, true, out));
    a->blocks[*out].state = CACHING_UNMAPPED;
    a->blocks[*out].next = l->head;
    if (l->head != NONE)
        a->blocks[l->head].prev = *out;
    else
        l->tail = *out;
    l->head = *out;
    (void)blocks_merge(a, *out); /* with what was unmapped after it */
    return SW_OK;
}

sw_status caching_segment_map(caching_allocator *a, caching_lane key, uint64_t address,
                              uint64_t bytes)
{
    uint32_t i = blocks_at(a, address);
    SW_TRY(blocks_reserve(a));
    if (i == NONE)
        SW_TRY(address_without_memory(a, key, address, &i));
    SW_TRY(blocks_reserve(a));
    if (a->blocks[i].state != CACHING_UNMAPPED || bytes == 0 || bytes > a->blocks[i].bytes)
        SW_FAIL(SW_FORMAT, "memory is mapped where there is some");
    if (bytes < a->blocks[i].bytes && blocks_at(a, address + bytes) != NONE)
        SW_FAIL(SW_FORMAT, "memory is mapped up to another segment");
    if (bytes < a->blocks[i].bytes)
        (void)blocks_cut(a, i, bytes);
    blocks_set_free(a, i);
    return SW_OK;
}

/* The free block that has the range. An unmapped range begins at a page, which may lie
 * inside. */
static uint32_t free_around(const caching_allocator *a, uint64_t address, uint64_t bytes)
{
    const uint32_t exact = blocks_at(a, address);
    for (uint32_t i = exact != NONE ? exact : 0; i < a->n_blocks; i++) {
        const block *b = &a->blocks[i];
        if (b->lane != NONE && b->state == CACHING_FREE && b->address <= address &&
            bytes <= b->bytes && address - b->address <= b->bytes - bytes)
            return i;
        if (exact != NONE)
            break;
    }
    return NONE;
}

sw_status caching_segment_unmap(caching_allocator *a, uint64_t address, uint64_t bytes)
{
    uint32_t i = free_around(a, address, bytes);
    if (i == NONE || bytes == 0 || !a->blocks[i].expandable)
        SW_FAIL(SW_FORMAT, "memory is unmapped that is not there, or is in use");
    SW_TRY(blocks_reserve(a));
    blocks_take_out(a, i);
    if (a->blocks[i].address < address) {
        const uint32_t rest = blocks_cut(a, i, address - a->blocks[i].address);
        blocks_keep(a, i);
        i = rest;
    }
    if (a->blocks[i].bytes > bytes)
        blocks_keep(a, blocks_cut(a, i, bytes));
    a->blocks[i].state = CACHING_UNMAPPED;
    (void)blocks_merge(a, i);
    return SW_OK;
}

/* ---- requests ---------------------------------------------------------------------------- */

sw_status caching_grow(caching_allocator *a, uint64_t stream, uint64_t pool, uint64_t requested,
                       uint64_t *mapped)
{
    uint32_t of;
    const uint64_t bytes = caching_round(&a->settings, requested);
    const caching_lane key = {stream, pool, bytes <= CACHING_SMALL_BYTES};
    SW_TRY(blocks_lane(a, key, &of));
    const uint32_t tail = a->lanes[of].tail, last = tail != NONE ? a->blocks[tail].prev : NONE;
    const uint64_t address = tail != NONE ? a->blocks[tail].address : (of + UINT64_C(1)) << 51,
                   page = key.small ? SMALL_PAGE : a->settings.large_page_bytes;
    const uint64_t there =
        last != NONE && a->blocks[last].state == CACHING_FREE ? a->blocks[last].bytes : 0;
    const uint64_t more = there < bytes ? (bytes - there + page - 1) / page * page : page;
    *mapped += more;
    return caching_segment_map(a, key, address, more);
}

void caching_mark_present(caching_allocator *a)
{
    for (uint32_t i = 0; i < a->n_lanes; i++) {
        if (a->lanes[i].fresh != NONE)
            blocks_keep(a, a->lanes[i].fresh);
        a->lanes[i].fresh = NONE;
    }
}

/* A pool of the user with an allocator of its own has no expandable segments, whatever the
 * settings say. */
static bool is_split(const caching_allocator *a, const block *b, uint64_t bytes)
{
    const uint64_t rest = b->bytes - bytes;
    const caching_lane *key = &a->lanes[b->lane].key;
    if (key->small || (a->settings.expandable && (b->expandable || key->pool == 0)))
        return rest >= ROUND;
    return bytes < a->settings.max_split_bytes && rest > CACHING_SMALL_BYTES;
}

static void make_active(caching_allocator *a, uint32_t i, uint64_t requested, uint64_t tag)
{
    a->blocks[i].state = CACHING_ACTIVE;
    a->blocks[i].requested = requested;
    a->blocks[i].tag = tag;
}

sw_status caching_take(caching_allocator *a, uint64_t address, uint64_t requested, uint64_t tag)
{
    const uint32_t i = blocks_at(a, address);
    const uint64_t bytes = caching_round(&a->settings, requested);
    if (i == NONE || a->blocks[i].state != CACHING_FREE || a->blocks[i].bytes < bytes)
        SW_FAIL(SW_FORMAT, "%llu bytes where no free block is", (unsigned long long)requested);
    SW_TRY(blocks_reserve(a));
    blocks_take_out(a, i);
    if (is_split(a, &a->blocks[i], bytes))
        blocks_keep(a, blocks_cut(a, i, bytes));
    make_active(a, i, requested, tag);
    return SW_OK;
}

sw_status caching_place(caching_allocator *a, uint64_t segment, uint64_t address,
                        uint64_t bytes, uint64_t requested, uint64_t tag)
{
    uint32_t i = a->place;
    if (i >= a->n_blocks || a->blocks[i].lane == NONE || a->blocks[i].address < segment ||
        a->blocks[i].address > address)
        i = blocks_at(a, segment);
    while (i != NONE && a->blocks[i].address + a->blocks[i].bytes <= address)
        i = a->blocks[i].next;
    SW_TRY(blocks_reserve(a));
    block *b = i != NONE ? &a->blocks[i] : NULL;
    if (b == NULL || b->state != CACHING_FREE || bytes == 0 || requested > bytes ||
        b->address > address || address - b->address > b->bytes ||
        bytes > b->bytes - (address - b->address))
        SW_FAIL(SW_FORMAT, "a block of %llu bytes where no free one is",
                (unsigned long long)bytes);
    blocks_take_out(a, i);
    if (a->blocks[i].address < address) {
        const uint32_t rest = blocks_cut(a, i, address - a->blocks[i].address);
        blocks_keep(a, i);
        i = rest;
    }
    if (a->blocks[i].bytes > bytes)
        blocks_keep(a, blocks_cut(a, i, bytes));
    make_active(a, i, requested, tag);
    a->place = i;
    return SW_OK;
}

sw_status caching_free_requested(caching_allocator *a, uint64_t address)
{
    const uint32_t i = blocks_at(a, address);
    if (i == NONE || a->blocks[i].state != CACHING_ACTIVE)
        SW_FAIL(SW_FORMAT, "a free of what is not there");
    a->blocks[i].state = CACHING_PENDING;
    return SW_OK;
}

sw_status caching_free(caching_allocator *a, uint64_t address)
{
    const uint32_t i = blocks_at(a, address);
    if (i == NONE ||
        (a->blocks[i].state != CACHING_ACTIVE && a->blocks[i].state != CACHING_PENDING))
        SW_FAIL(SW_FORMAT, "a free of what is not there");
    blocks_set_free(a, i);
    return SW_OK;
}

/* ---- the allocator ----------------------------------------------------------------------- */

sw_status caching_create(caching_allocator **out, const caching_settings *settings)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_PROFILE, sizeof **out));
    (*out)->settings = *settings;
    (*out)->unused = (*out)->place = NONE;
    return SW_OK;
}

void caching_destroy(caching_allocator *a)
{
    if (a == NULL)
        return;
    sw_heap_free(a->blocks, SW_HEAP_PROFILE, a->cap_blocks * sizeof(block));
    sw_heap_free(a->lanes, SW_HEAP_PROFILE, a->cap_lanes * sizeof(lane));
    sw_heap_free(a->table, SW_HEAP_PROFILE, a->n_table * sizeof *a->table);
    sw_heap_free(a, SW_HEAP_PROFILE, sizeof *a);
}

caching_lane caching_lane_at(const caching_allocator *a, uint32_t i)
{
    return a->lanes[i].key;
}

/* In an expandable segment: between what is not mapped. */
static bool is_whole(const caching_allocator *a, const block *b)
{
    return (b->prev == NONE || a->blocks[b->prev].state == CACHING_UNMAPPED) &&
           (b->next == NONE || a->blocks[b->next].state == CACHING_UNMAPPED);
}

void caching_each(const caching_allocator *a,
                  void (*visit)(void *context, const caching_block *block), void *context)
{
    for (uint32_t head = 0; head < a->n_blocks; head++) {
        if (a->blocks[head].lane == NONE || a->blocks[head].prev != NONE)
            continue;
        for (uint32_t i = head; i != NONE; i = a->blocks[i].next) {
            const block *b = &a->blocks[i];
            if (b->state == CACHING_UNMAPPED)
                continue;
            const caching_block seen = {b->address,    b->bytes, b->requested,
                                        b->tag,        b->lane,  (caching_state)b->state,
                                        is_whole(a, b)};
            visit(context, &seen);
        }
    }
}
