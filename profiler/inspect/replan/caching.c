/* PyTorch's caching allocator for devices: it takes memory in segments, cuts blocks from them
 * and joins them again. */
#include "alloc/base/mem.h"
#include "profiler/inspect/replan/caching.h"
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/replan/replan.h"

/* Blocks are in chains, one for each segment, by address; free ones also in a treap of their
 * lane, by size and address. */

#define NONE UINT32_MAX

typedef struct {
    uint64_t address, bytes, requested, tag;
    uint32_t prev, next;   /* of the segment, by address */
    uint32_t left, right;  /* of the treap */
    uint32_t priority;     /* parents have more */
    uint32_t lane;         /* NONE: the slot is not used, and `next` is the next such */
    uint8_t state;         /* caching_state */
    bool expandable, kept; /* kept: in the treap */
} block;

typedef struct {
    caching_lane key;
    uint32_t root;
    uint32_t fresh; /* the segment that was given for the next request; NONE */
    uint32_t head;  /* of its expandable segment: the first block; NONE */
    uint32_t tail;  /* the addresses after it, which have no memory */
} lane;

struct caching_allocator {
    caching_settings settings;
    block *blocks;
    uint32_t n_blocks, cap_blocks, unused;
    lane *lanes;
    uint32_t n_lanes, cap_lanes;
    number_map at;   /* blocks by their first address */
    uint32_t place;  /* where the latest caching_place ended */
    uint64_t random; /* for priorities: no file can choose them */
};

/* ---- treap: free blocks of a lane -------------------------------------------------------- */

static bool is_less(const block *a, uint64_t bytes, uint64_t address)
{
    return a->bytes != bytes ? a->bytes < bytes : a->address < address;
}

static uint32_t join(block *b, uint32_t left, uint32_t right)
{
    uint32_t root = NONE, *at = &root;
    while (left != NONE && right != NONE)
        if (b[left].priority > b[right].priority) {
            *at = left;
            at = &b[left].right;
            left = b[left].right;
        } else {
            *at = right;
            at = &b[right].left;
            right = b[right].left;
        }
    *at = left != NONE ? left : right;
    return root;
}

static void blocks_keep(caching_allocator *a, uint32_t i)
{
    block *b = a->blocks, *new = &b[i];
    uint32_t *at = &a->lanes[new->lane].root;
    a->random = a->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    new->priority = (uint32_t)(a->random >> 32);
    while (*at != NONE && b[*at].priority > new->priority)
        at = is_less(&b[*at], new->bytes, new->address) ? &b[*at].right : &b[*at].left;
    /* Those below (bytes, address) to the left. Depths are logarithms of the number. */
    uint32_t root = *at;
    uint32_t *left = &new->left;
    uint32_t *right = &new->right;
    while (root != NONE)
        if (is_less(&b[root], new->bytes, new->address)) {
            *left = root;
            left = &b[root].right;
            root = b[root].right;
        } else {
            *right = root;
            right = &b[root].left;
            root = b[root].left;
        }
    *left = *right = NONE;
    *at = i;
    new->kept = true;
}

/* Into the treap of its lane, and out of it, or of the place of a fresh segment. */
static void blocks_take_out(caching_allocator *a, uint32_t i)
{
    block *b = a->blocks;
    lane *of = &a->lanes[b[i].lane];
    if (of->fresh == i)
        of->fresh = NONE;
    if (!b[i].kept)
        return;
    uint32_t *at = &of->root;
    while (*at != i)
        at = is_less(&b[*at], b[i].bytes, b[i].address) ? &b[*at].right : &b[*at].left;
    *at = join(b, b[i].left, b[i].right);
    b[i].kept = false;
}

/* ---- blocks ------------------------------------------------------------------------------ */

static uint32_t blocks_at(const caching_allocator *a, uint64_t address)
{
    return number_map_at(&a->at, address);
}

/* Room for two more, so that what cuts a block needs no memory in the middle. */
static sw_status blocks_reserve(caching_allocator *a)
{
    SW_TRY(number_map_reserve(&a->at, 2));
    if (a->n_blocks > UINT32_MAX / 2)
        SW_FAIL(SW_UNSUPPORTED, "more than 2^31 blocks");
    return sw_heap_reserve(&a->blocks, SW_HEAP_PROFILE, &a->cap_blocks, a->n_blocks + 2);
}

/* A block of a lane, in no chain; blocks_reserve() was called. */
static uint32_t blocks_new(caching_allocator *a, uint32_t of, uint64_t address, uint64_t bytes,
                           caching_state state, bool expandable)
{
    uint32_t i = a->unused;
    if (i != NONE)
        a->unused = a->blocks[i].next;
    else
        i = a->n_blocks++;
    a->blocks[i] = (block)SW_INIT(.address = address, .bytes = bytes, .prev = NONE,
                                  .next = NONE, .left = NONE, .right = NONE, .lane = of,
                                  .state = (uint8_t)state, .expandable = expandable);
    number_map_put(&a->at, address, i);
    return i;
}

/* Out of everything. */
static void blocks_drop(caching_allocator *a, uint32_t i)
{
    block *b = &a->blocks[i];
    blocks_take_out(a, i);
    number_map_put(&a->at, b->address, NUMBER_MAP_NONE);
    if (b->prev != NONE)
        a->blocks[b->prev].next = b->next;
    if (b->next != NONE)
        a->blocks[b->next].prev = b->prev;
    b->lane = NONE;
    b->next = a->unused;
    a->unused = i;
}

/* Cut block i after its first `bytes`; the rest is a block of the same state, which is in no
 * treap. Block i may not be in one either. */
static uint32_t blocks_cut(caching_allocator *a, uint32_t i, uint64_t bytes)
{
    block *b = &a->blocks[i];
    const uint32_t rest = blocks_new(a, b->lane, b->address + bytes, b->bytes - bytes,
                                     (caching_state)b->state, b->expandable);
    block *r = &a->blocks[rest];
    r->prev = i;
    r->next = b->next;
    if (r->next != NONE)
        a->blocks[r->next].prev = rest;
    b->next = rest;
    b->bytes = bytes;
    lane *of = &a->lanes[b->lane];
    of->tail = of->tail == i ? rest : of->tail;
    return rest;
}

/* The part of free block i at `address`, in no treap; what is before and after it stays free.
 */
static uint32_t cut_out(caching_allocator *a, uint32_t i, uint64_t address, uint64_t bytes)
{
    blocks_take_out(a, i);
    if (a->blocks[i].address < address) {
        const uint32_t rest = blocks_cut(a, i, address - a->blocks[i].address);
        blocks_keep(a, i);
        i = rest;
    }
    if (a->blocks[i].bytes > bytes)
        blocks_keep(a, blocks_cut(a, i, bytes));
    return i;
}

/* Make one block of i and its neighbours of the same state; it is the lowest of them. */
static uint32_t blocks_merge(caching_allocator *a, uint32_t i)
{
    block *b = a->blocks;
    lane *of = &a->lanes[b[i].lane];
    const uint32_t prev = b[i].prev, next = b[i].next;
    if (next != NONE && b[next].state == b[i].state) {
        const uint64_t bytes = b[next].bytes;
        of->tail = of->tail == next ? i : of->tail;
        blocks_drop(a, next);
        b[i].bytes += bytes;
    }
    if (prev == NONE || b[prev].state != b[i].state)
        return i;
    const uint64_t bytes = b[i].bytes;
    of->tail = of->tail == i ? prev : of->tail;
    blocks_take_out(a, prev);
    blocks_drop(a, i);
    b[prev].bytes += bytes;
    return prev;
}

/* It is free from now on, one with free neighbours, and can be found. */
static void blocks_set_free(caching_allocator *a, uint32_t i)
{
    a->blocks[i].state = CACHING_FREE;
    a->blocks[i].requested = 0;
    blocks_keep(a, blocks_merge(a, i));
}

static sw_status blocks_lane(caching_allocator *a, caching_lane key, uint32_t *out)
{
    for (uint32_t i = 0; i < a->n_lanes; i++) {
        const caching_lane *k = &a->lanes[i].key;
        if (k->stream == key.stream && k->pool == key.pool && k->small == key.small) {
            *out = i;
            return SW_OK;
        }
    }
    if (a->n_lanes == 4096)
        SW_FAIL(SW_UNSUPPORTED, "more than 4,096 streams and pools");
    SW_TRY(sw_heap_reserve(&a->lanes, SW_HEAP_PROFILE, &a->cap_lanes, a->n_lanes + 1));
    *out = a->n_lanes;
    a->lanes[a->n_lanes++] = (lane){key, NONE, NONE, NONE, NONE};
    return SW_OK;
}

/* The next larger one of the lane. */
static uint32_t blocks_next_larger(const caching_allocator *a, uint32_t i)
{
    const block *b = &a->blocks[i];
    uint32_t found = NONE;
    for (uint32_t at = a->lanes[b->lane].root; at != NONE;) {
        const block *x = &a->blocks[at];
        const bool more = x->bytes != b->bytes ? x->bytes > b->bytes : x->address > b->address;
        found = more ? at : found;
        at = more ? x->left : x->right;
    }
    return found;
}

#define ROUND UINT64_C(512)
#define SMALL_PAGE (UINT64_C(2) << 20)
/* Addresses that an expandable segment may grow to. */
#define REST_OF_RANGE (UINT64_C(1) << 50)

/* ---- settings ---------------------------------------------------------------------------- */

static int log2_of(uint64_t x)
{
    return 63 - __builtin_clzll(x);
}

uint64_t caching_round(const caching_settings *s, uint64_t bytes)
{
    if (bytes < ROUND)
        return ROUND;
    int i = log2_of(bytes) - 20;
    i = i < 0 ? 0 : i >= CACHING_DIVISIONS ? CACHING_DIVISIONS - 1 : i;
    const uint64_t divisions = s->divisions[i];
    if (divisions > 1 && bytes > ROUND * divisions) {
        /* Up to the next of 2^k, 2^k (1 + 1/d), 2^k (1 + 2/d)... */
        const uint64_t step = UINT64_C(1) << log2_of(bytes) >> log2_of(divisions);
        return (bytes + step - 1) & ~(step - 1);
    }
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

sw_status caching_segment_unmap(caching_allocator *a, uint64_t address, uint64_t bytes)
{
    /* The free block that has the range: it begins at a page, which may lie inside. */
    const uint32_t exact = blocks_at(a, address);
    uint32_t i = NONE;
    for (uint32_t k = exact != NONE ? exact : 0; i == NONE && k < a->n_blocks; k++) {
        const block *b = &a->blocks[k];
        if (b->lane != NONE && b->state == CACHING_FREE && b->address <= address &&
            bytes <= b->bytes && address - b->address <= b->bytes - bytes)
            i = k;
        if (exact != NONE)
            break;
    }
    if (i == NONE || bytes == 0 || !a->blocks[i].expandable)
        SW_FAIL(SW_FORMAT, "memory is unmapped that is not there, or is in use");
    SW_TRY(blocks_reserve(a));
    i = cut_out(a, i, address, bytes);
    a->blocks[i].state = CACHING_UNMAPPED;
    (void)blocks_merge(a, i);
    return SW_OK;
}

/* ---- requests ---------------------------------------------------------------------------- */

void caching_mark_present(caching_allocator *a)
{
    for (uint32_t i = 0; i < a->n_lanes; i++) {
        if (a->lanes[i].fresh != NONE)
            blocks_keep(a, a->lanes[i].fresh);
        a->lanes[i].fresh = NONE;
    }
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
    /* A pool of the user with an allocator of its own has no expandable segments, whatever the
     * settings say. */
    const block *b = &a->blocks[i];
    const uint64_t rest = b->bytes - bytes;
    const caching_lane *key = &a->lanes[b->lane].key;
    const bool fine =
        key->small || (a->settings.expandable && (b->expandable || key->pool == 0));
    const bool split = fine ? rest >= ROUND
                            : bytes < a->settings.max_split_bytes && rest > CACHING_SMALL_BYTES;
    (void)cut_out(a, i, address, split ? bytes : b->bytes);
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
    i = cut_out(a, i, address, bytes);
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
    number_map_free(&a->at);
    sw_heap_free(a, SW_HEAP_PROFILE, sizeof *a);
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
            /* In an expandable segment: between what is not mapped. */
            const bool whole =
                (b->prev == NONE || a->blocks[b->prev].state == CACHING_UNMAPPED) &&
                (b->next == NONE || a->blocks[b->next].state == CACHING_UNMAPPED);
            const caching_block seen = {b->address,
                                        b->bytes,
                                        b->requested,
                                        b->tag,
                                        a->lanes[b->lane].key,
                                        (caching_state)b->state,
                                        whole};
            visit(context, &seen);
        }
    }
}

/* ---- where requests go ------------------------------------------------------------------- */

/* How large a block can become by mapping what follows. */
static uint64_t expandable_bytes(const caching_allocator *a, uint32_t i)
{
    const block *b = &a->blocks[i];
    const bool grows = b->next != NONE && a->blocks[b->next].state == CACHING_UNMAPPED;
    return b->bytes + (grows ? a->blocks[b->next].bytes : 0);
}

/* The smallest free block of at least so many bytes, of those the lowest. */
static uint32_t best_of(const caching_allocator *a, const lane *of, uint64_t bytes)
{
    const caching_settings *s = &a->settings;
    uint32_t i = NONE;
    for (uint32_t at = of->root; at != NONE;) {
        const bool less = is_less(&a->blocks[at], bytes, 0);
        i = less ? i : at;
        at = less ? a->blocks[at].right : a->blocks[at].left;
    }
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
        uint64_t room = 0;
        for (uint32_t k = from; k != NONE && room < bytes; k = a->blocks[k].next) {
            if (a->blocks[k].state != CACHING_FREE && a->blocks[k].state != CACHING_UNMAPPED)
                break;
            room += a->blocks[k].bytes;
        }
        if (room < bytes)
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

/* ---- expandable segments ----------------------------------------------------------------- */

typedef struct {
    const trace_lives *l;
    caching_allocator *a;
    number_map living; /* lives by their recorded address */
    uint64_t *at;      /* their addresses here */
    uint32_t next;     /* life */
    uint64_t mapped;
} run;

static sw_status take(run *r)
{
    const trace_life *x = &r->l->all[r->next];
    const trace_arena *of = &r->l->arenas[x->arena];
    uint64_t address;
    SW_TRY(caching_find(r->a, of->stream, of->pool, x->bytes, &address));
    if (address == 0) {
        /* As an allocator with expandable segments does: map whole pages after the lane's
         * segment. Addresses are made up. */
        caching_allocator *a = r->a;
        uint32_t at;
        const uint64_t bytes = caching_round(&a->settings, x->bytes);
        const caching_lane key = {of->stream, of->pool, bytes <= CACHING_SMALL_BYTES};
        SW_TRY(blocks_lane(a, key, &at));
        const uint32_t tail = a->lanes[at].tail,
                       last = tail != NONE ? a->blocks[tail].prev : NONE;
        const uint64_t page = key.small ? SMALL_PAGE : a->settings.large_page_bytes,
                       there = last != NONE && a->blocks[last].state == CACHING_FREE
                                   ? a->blocks[last].bytes
                                   : 0,
                       more = there < bytes ? (bytes - there + page - 1) / page * page : page;
        r->mapped += more;
        SW_TRY(caching_segment_map(
            a, key, tail != NONE ? a->blocks[tail].address : (at + UINT64_C(1)) << 51, more));
        SW_TRY(caching_find(a, of->stream, of->pool, x->bytes, &address));
    }
    SW_TRY(caching_take(r->a, address, x->bytes, 0));
    r->at[r->next] = address;
    return number_map_set(&r->living, x->address, r->next++);
}

static sw_status let_go(run *r, const trace_event *e)
{
    const uint32_t i = number_map_at(&r->living, e->address);
    if (i == NUMBER_MAP_NONE)
        return SW_OK;
    SW_TRY(caching_free(r->a, r->at[i]));
    return number_map_set(&r->living, e->address, NUMBER_MAP_NONE);
}

sw_status expandable_reserved(const snapshot_trace *t, const trace_lives *l, uint64_t *out)
{
    run r = {.l = l};
    caching_settings settings = t->settings;
    settings.expandable = true;
    SW_TRY(sw_heap_alloc(&r.at, SW_HEAP_PROFILE, l->n * sizeof *r.at));
    sw_status status = caching_create(&r.a, &settings);
    while (status == SW_OK && r.next < l->n_before)
        status = take(&r);
    for (uint32_t i = 0; i < t->n_events && status == SW_OK; i++) {
        const trace_event *e = &t->events[i];
        const bool made = e->action == TRACE_ALLOC && e->bytes > 0;
        if (made || e->action == TRACE_FREE_COMPLETED)
            status = let_go(&r, e); /* of an allocation one whose free was not recorded */
        if (made && status == SW_OK)
            status = take(&r);
    }
    *out = r.mapped;
    caching_destroy(r.a);
    number_map_free(&r.living);
    sw_heap_free(r.at, SW_HEAP_PROFILE, l->n * sizeof *r.at);
    return status;
}
