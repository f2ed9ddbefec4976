/* See caching_blocks.h. */
#include "profiler/inspect/replan/caching_blocks.h"
#include "alloc/base/mem.h"

/* ---- treap: free blocks of a lane -------------------------------------------------------- */

static bool is_less(const block *a, uint64_t bytes, uint64_t address)
{
    return a->bytes != bytes ? a->bytes < bytes : a->address < address;
}

/* Those below (bytes, address) to the left. Depths are logarithms of the number. */
static void split(block *b, uint32_t root, uint64_t bytes, uint64_t address, uint32_t *left,
                  uint32_t *right)
{
    while (root != NONE)
        if (is_less(&b[root], bytes, address)) {
            *left = root;
            left = &b[root].right;
            root = b[root].right;
        } else {
            *right = root;
            right = &b[root].left;
            root = b[root].left;
        }
    *left = *right = NONE;
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

void blocks_keep(caching_allocator *a, uint32_t i)
{
    block *b = a->blocks, *new = &b[i];
    uint32_t *at = &a->lanes[new->lane].root;
    a->random = a->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    new->priority = (uint32_t)(a->random >> 32);
    while (*at != NONE && b[*at].priority > new->priority)
        at = is_less(&b[*at], new->bytes, new->address) ? &b[*at].right : &b[*at].left;
    split(b, *at, new->bytes, new->address, &new->left, &new->right);
    *at = i;
    new->kept = true;
}

void blocks_take_out(caching_allocator *a, uint32_t i)
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

/* The smallest of at least so many bytes, of those the lowest. */
uint32_t blocks_least(const caching_allocator *a, uint32_t root, uint64_t bytes)
{
    uint32_t found = NONE;
    while (root != NONE) {
        const bool less = is_less(&a->blocks[root], bytes, 0);
        found = less ? found : root;
        root = less ? a->blocks[root].right : a->blocks[root].left;
    }
    return found;
}

/* ---- table: blocks by their first address ------------------------------------------------ */

static uint32_t hash(const caching_allocator *a, uint64_t address)
{
    return (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (a->n_table - 1);
}

/* The place of that address, or the free one where it would go. */
static uint32_t place_of(const caching_allocator *a, uint64_t address)
{
    uint32_t i = hash(a, address);
    while (a->table[i] != 0 && a->blocks[a->table[i] - 1].address != address)
        i = (i + 1) & (a->n_table - 1);
    return i;
}

uint32_t blocks_at(const caching_allocator *a, uint64_t address)
{
    return a->n_table == 0 ? NONE : a->table[place_of(a, address)] - 1;
}

static void put(caching_allocator *a, uint32_t i)
{
    a->table[place_of(a, a->blocks[i].address)] = i + 1;
    a->used_table++;
}

/* Entries after it move up, so that no search ends too early. */
static void forget(caching_allocator *a, uint64_t address)
{
    uint32_t hole = place_of(a, address), i = hole;
    for (;;) {
        i = (i + 1) & (a->n_table - 1);
        if (a->table[i] == 0)
            break;
        const uint32_t home = hash(a, a->blocks[a->table[i] - 1].address);
        if (((i - home) & (a->n_table - 1)) < ((i - hole) & (a->n_table - 1)))
            continue;
        a->table[hole] = a->table[i];
        hole = i;
    }
    a->table[hole] = 0;
    a->used_table--;
}

static sw_status grow_table(caching_allocator *a)
{
    const uint32_t old = a->n_table;
    uint32_t *table = a->table;
    if (a->used_table < old / 2)
        return SW_OK;
    const uint32_t n = old > 0 ? 2 * old : 1024;
    SW_TRY(sw_heap_alloc(&a->table, SW_HEAP_PROFILE, n * sizeof *table));
    a->n_table = n;
    a->used_table = 0;
    for (uint32_t i = 0; i < old; i++)
        if (table[i] != 0)
            put(a, table[i] - 1);
    sw_heap_free(table, SW_HEAP_PROFILE, old * sizeof *table);
    return SW_OK;
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* Room for two more, so that what cuts a block needs no memory in the middle. */
sw_status blocks_reserve(caching_allocator *a)
{
    SW_TRY(grow_table(a));
    if (a->n_blocks > UINT32_MAX / 2)
        SW_FAIL(SW_UNSUPPORTED, "more than 2^31 blocks");
    SW_TRY(sw_heap_reserve(&a->blocks, SW_HEAP_PROFILE, &a->cap_blocks, a->n_blocks + 2,
                           sizeof(block)));
    return SW_OK;
}

/* A block of a lane, in no chain; blocks_reserve() was called. */
uint32_t blocks_new(caching_allocator *a, uint32_t of, uint64_t address, uint64_t bytes,
                    caching_state state, bool expandable)
{
    uint32_t i = a->unused;
    if (i != NONE)
        a->unused = a->blocks[i].next;
    else
        i = a->n_blocks++;
    a->blocks[i] = (block){.address = address,
                           .bytes = bytes,
                           .prev = NONE,
                           .next = NONE,
                           .left = NONE,
                           .right = NONE,
                           .lane = of,
                           .state = (uint8_t)state,
                           .expandable = expandable};
    put(a, i);
    return i;
}

void blocks_drop(caching_allocator *a, uint32_t i)
{
    block *b = &a->blocks[i];
    blocks_take_out(a, i);
    forget(a, b->address);
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
uint32_t blocks_cut(caching_allocator *a, uint32_t i, uint64_t bytes)
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

/* Make one block of i and its neighbours of the same state; it is the lowest of them. */
uint32_t blocks_merge(caching_allocator *a, uint32_t i)
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

void blocks_set_free(caching_allocator *a, uint32_t i)
{
    a->blocks[i].state = CACHING_FREE;
    a->blocks[i].requested = 0;
    blocks_keep(a, blocks_merge(a, i));
}

sw_status blocks_lane(caching_allocator *a, caching_lane key, uint32_t *out)
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
    SW_TRY(sw_heap_reserve(&a->lanes, SW_HEAP_PROFILE, &a->cap_lanes, a->n_lanes + 1,
                           sizeof(lane)));
    *out = a->n_lanes;
    a->lanes[a->n_lanes++] = (lane){key, NONE, NONE, NONE, NONE};
    return SW_OK;
}

/* The next larger one of the lane. */
uint32_t blocks_next_larger(const caching_allocator *a, uint32_t i)
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
