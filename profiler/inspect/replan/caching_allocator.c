/* Blocks in chains, one for each segment, by address; free ones also in a treap of their lane,
 * by size and address; all in a table by their first address. */
#include "profiler/inspect/replan/caching_allocator.h"
#include "alloc/base/mem.h"

#define NONE UINT32_MAX
#define ROUND UINT64_C(512)
#define SMALL_BYTES (UINT64_C(1) << 20)
#define SMALL_PAGE (UINT64_C(2) << 20)
#define LARGE_PAGE (UINT64_C(20) << 20)
#define REST_OF_RANGE                                                                          \
    (UINT64_C(1) << 50) /* addresses that an expandable segment may grow to                    \
                         */

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
    uint32_t tail;  /* the addresses behind it, which have no memory */
} lane;

struct caching_allocator {
    caching_settings settings;
    block *blocks;
    uint32_t n_blocks, cap_blocks, unused;
    lane *lanes;
    uint32_t n_lanes, cap_lanes;
    uint32_t *table; /* by address: block + 1, or 0 */
    uint32_t n_table, used_table;
    uint32_t place;  /* where the latest caching_place ended */
    uint64_t random; /* for priorities: no file can choose them */
};

/* ---- settings ---------------------------------------------------------------------------- */

caching_settings caching_settings_default(void)
{
    return (caching_settings){.max_split_bytes = UINT64_MAX,
                              .max_rounding_bytes = UINT64_C(20) << 20};
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

static void keep(caching_allocator *a, uint32_t i)
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

static void take_out(caching_allocator *a, uint32_t i)
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
static uint32_t least_of(const caching_allocator *a, uint32_t root, uint64_t bytes)
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

static uint32_t block_at(const caching_allocator *a, uint64_t address)
{
    return a->n_table == 0 ? NONE : a->table[place_of(a, address)] - 1;
}

static void put(caching_allocator *a, uint32_t i)
{
    a->table[place_of(a, a->blocks[i].address)] = i + 1;
    a->used_table++;
}

/* What stands behind it moves up, so that no search ends too early. */
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
    void *more;
    const uint32_t old = a->n_table;
    uint32_t *table = a->table;
    if (a->used_table < old / 2)
        return SW_OK;
    const uint32_t n = old > 0 ? 2 * old : 1024;
    SW_TRY(sw_heap_alloc(&more, SW_HEAP_PROFILE, n * sizeof *table));
    a->table = more;
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
static sw_status reserve(caching_allocator *a)
{
    void *blocks = a->blocks;
    SW_TRY(grow_table(a));
    if (a->n_blocks > UINT32_MAX / 2)
        SW_FAIL(SW_UNSUPPORTED, "more than 2^31 blocks");
    SW_TRY(sw_heap_reserve(&blocks, SW_HEAP_PROFILE, &a->cap_blocks, a->n_blocks + 2,
                           sizeof(block)));
    a->blocks = blocks;
    return SW_OK;
}

/* A block of a lane, in no chain; reserve() was called. */
static uint32_t new_block(caching_allocator *a, uint32_t of, uint64_t address, uint64_t bytes,
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

static void drop(caching_allocator *a, uint32_t i)
{
    block *b = &a->blocks[i];
    take_out(a, i);
    forget(a, b->address);
    if (b->prev != NONE)
        a->blocks[b->prev].next = b->next;
    if (b->next != NONE)
        a->blocks[b->next].prev = b->prev;
    b->lane = NONE;
    b->next = a->unused;
    a->unused = i;
}

/* Cut block i behind its first `bytes`; the rest is a block of the same state, which is in no
 * treap. Block i may not be in one either. */
static uint32_t cut(caching_allocator *a, uint32_t i, uint64_t bytes)
{
    block *b = &a->blocks[i];
    const uint32_t rest = new_block(a, b->lane, b->address + bytes, b->bytes - bytes,
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
static uint32_t merge(caching_allocator *a, uint32_t i)
{
    block *b = a->blocks;
    lane *of = &a->lanes[b[i].lane];
    const uint32_t prev = b[i].prev, next = b[i].next;
    if (next != NONE && b[next].state == b[i].state) {
        const uint64_t bytes = b[next].bytes;
        of->tail = of->tail == next ? i : of->tail;
        drop(a, next);
        b[i].bytes += bytes;
    }
    if (prev == NONE || b[prev].state != b[i].state)
        return i;
    const uint64_t bytes = b[i].bytes;
    of->tail = of->tail == i ? prev : of->tail;
    take_out(a, prev);
    drop(a, i);
    b[prev].bytes += bytes;
    return prev;
}

static void set_free(caching_allocator *a, uint32_t i)
{
    a->blocks[i].state = CACHING_FREE;
    a->blocks[i].requested = 0;
    keep(a, merge(a, i));
}

static sw_status lane_of(caching_allocator *a, caching_lane key, uint32_t *out)
{
    for (uint32_t i = 0; i < a->n_lanes; i++) {
        const caching_lane *k = &a->lanes[i].key;
        if (k->stream == key.stream && k->pool == key.pool && k->small == key.small) {
            *out = i;
            return SW_OK;
        }
    }
    void *lanes = a->lanes;
    if (a->n_lanes == 4096)
        SW_FAIL(SW_UNSUPPORTED, "more than 4,096 streams and pools");
    SW_TRY(
        sw_heap_reserve(&lanes, SW_HEAP_PROFILE, &a->cap_lanes, a->n_lanes + 1, sizeof(lane)));
    a->lanes = lanes;
    *out = a->n_lanes;
    a->lanes[a->n_lanes++] = (lane){key, NONE, NONE, NONE, NONE};
    return SW_OK;
}

/* ---- segments ---------------------------------------------------------------------------- */

static sw_status new_segment(caching_allocator *a, caching_lane key, uint64_t address,
                             uint64_t bytes, bool expandable, uint32_t *out)
{
    uint32_t of;
    SW_TRY(reserve(a));
    SW_TRY(lane_of(a, key, &of));
    if (bytes == 0 || block_at(a, address) != NONE)
        SW_FAIL(SW_FORMAT, "a segment of %llu bytes where there is one",
                (unsigned long long)bytes);
    *out = new_block(a, of, address, bytes, CACHING_FREE, expandable);
    return SW_OK;
}

sw_status caching_segment_alloc(caching_allocator *a, caching_lane key, uint64_t address,
                                uint64_t bytes)
{
    uint32_t i;
    SW_TRY(new_segment(a, key, address, bytes, false, &i));
    lane *of = &a->lanes[a->blocks[i].lane];
    if (of->fresh != NONE) /* nothing took it: it is like any other */
        keep(a, of->fresh);
    of->fresh = i;
    return SW_OK;
}

sw_status caching_segment_free(caching_allocator *a, uint64_t address, uint64_t bytes)
{
    const uint32_t i = block_at(a, address);
    const block *b = &a->blocks[i];
    if (i == NONE || b->state != CACHING_FREE || b->prev != NONE || b->next != NONE ||
        b->bytes != bytes)
        SW_FAIL(SW_FORMAT, "a segment of %llu bytes goes that is not there, or is in use",
                (unsigned long long)bytes);
    drop(a, i);
    return SW_OK;
}

/* A lane has one expandable segment: addresses of it that no block begins at are behind its
 * end, or in front of its first block where that came later. */
static sw_status address_without_memory(caching_allocator *a, caching_lane key,
                                        uint64_t address, uint32_t *out)
{
    uint32_t of;
    SW_TRY(lane_of(a, key, &of));
    lane *l = &a->lanes[of];
    if (l->tail != NONE && a->blocks[l->tail].address < address) {
        *out = cut(a, l->tail, address - a->blocks[l->tail].address);
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
    return SW_OK;
}

sw_status caching_segment_map(caching_allocator *a, caching_lane key, uint64_t address,
                              uint64_t bytes)
{
    uint32_t i = block_at(a, address);
    SW_TRY(reserve(a));
    if (i == NONE)
        SW_TRY(address_without_memory(a, key, address, &i));
    SW_TRY(reserve(a));
    if (a->blocks[i].state != CACHING_UNMAPPED || bytes == 0 || bytes > a->blocks[i].bytes)
        SW_FAIL(SW_FORMAT, "memory is mapped where there is some");
    if (bytes < a->blocks[i].bytes && block_at(a, address + bytes) != NONE)
        SW_FAIL(SW_FORMAT, "memory is mapped up to another segment");
    if (bytes < a->blocks[i].bytes)
        (void)cut(a, i, bytes);
    set_free(a, i);
    return SW_OK;
}

/* The free block that has the range. What is unmapped begins at a page, which may lie inside.
 */
static uint32_t free_around(const caching_allocator *a, uint64_t address, uint64_t bytes)
{
    const uint32_t exact = block_at(a, address);
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
    SW_TRY(reserve(a));
    take_out(a, i);
    if (a->blocks[i].address < address) {
        const uint32_t rest = cut(a, i, address - a->blocks[i].address);
        keep(a, i);
        i = rest;
    }
    if (a->blocks[i].bytes > bytes)
        keep(a, cut(a, i, bytes));
    a->blocks[i].state = CACHING_UNMAPPED;
    (void)merge(a, i);
    return SW_OK;
}

/* ---- requests ---------------------------------------------------------------------------- */

/* How large a block can become by mapping what follows. */
static uint64_t expandable_bytes(const caching_allocator *a, uint32_t i)
{
    const block *b = &a->blocks[i];
    const bool grows = b->next != NONE && a->blocks[b->next].state == CACHING_UNMAPPED;
    return b->bytes + (grows ? a->blocks[b->next].bytes : 0);
}

/* The next larger one of the lane. */
static uint32_t successor(const caching_allocator *a, uint32_t i)
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

static uint32_t best_of(const caching_allocator *a, const lane *of, uint64_t bytes)
{
    const caching_settings *s = &a->settings;
    uint32_t i = least_of(a, of->root, bytes);
    if (i == NONE)
        return NONE;
    if (a->blocks[i].expandable && s->expandable) {
        uint32_t next = successor(a, i);
        while (a->blocks[i].expandable && next != NONE &&
               expandable_bytes(a, next) < expandable_bytes(a, i)) {
            i = next;
            next = successor(a, i);
        }
    } else {
        while (i != NONE && a->blocks[i].expandable)
            i = successor(a, i);
    }
    if (i == NONE || (bytes < s->max_split_bytes && a->blocks[i].bytes >= s->max_split_bytes) ||
        (bytes >= s->max_split_bytes && a->blocks[i].bytes >= bytes + s->max_rounding_bytes))
        return NONE;
    return i;
}

sw_status caching_find(caching_allocator *a, uint64_t stream, uint64_t pool, uint64_t requested,
                       uint64_t *out)
{
    uint32_t of;
    const uint64_t bytes = caching_round(&a->settings, requested);
    SW_TRY(lane_of(a, (caching_lane){stream, pool, bytes <= SMALL_BYTES}, &of));
    const lane *l = &a->lanes[of];
    uint32_t i = best_of(a, l, bytes);
    if (i == NONE && l->fresh != NONE && a->blocks[l->fresh].bytes >= bytes)
        i = l->fresh;
    *out = i == NONE ? 0 : a->blocks[i].address;
    return SW_OK;
}

sw_status caching_grow(caching_allocator *a, uint64_t stream, uint64_t pool, uint64_t requested,
                       uint64_t *mapped)
{
    uint32_t of;
    const uint64_t bytes = caching_round(&a->settings, requested);
    const caching_lane key = {stream, pool, bytes <= SMALL_BYTES};
    SW_TRY(lane_of(a, key, &of));
    const uint32_t tail = a->lanes[of].tail, last = tail != NONE ? a->blocks[tail].prev : NONE;
    const uint64_t address = tail != NONE ? a->blocks[tail].address : (of + UINT64_C(1)) << 51,
                   page = key.small ? SMALL_PAGE : LARGE_PAGE;
    const uint64_t there =
        last != NONE && a->blocks[last].state == CACHING_FREE ? a->blocks[last].bytes : 0;
    const uint64_t more = there < bytes ? (bytes - there + page - 1) / page * page : page;
    *mapped += more;
    return caching_segment_map(a, key, address, more);
}

void caching_settle(caching_allocator *a)
{
    for (uint32_t i = 0; i < a->n_lanes; i++) {
        if (a->lanes[i].fresh != NONE)
            keep(a, a->lanes[i].fresh);
        a->lanes[i].fresh = NONE;
    }
}

bool caching_pool_at(const caching_allocator *a, uint64_t address, uint64_t *out)
{
    const uint32_t i = block_at(a, address);
    if (i == NONE || a->blocks[i].state != CACHING_FREE)
        return false;
    *out = a->lanes[a->blocks[i].lane].key.pool;
    return true;
}

static bool is_split(const caching_allocator *a, const block *b, uint64_t bytes)
{
    const uint64_t rest = b->bytes - bytes;
    if (a->lanes[b->lane].key.small || a->settings.expandable)
        return rest >= ROUND;
    return bytes < a->settings.max_split_bytes && rest > SMALL_BYTES;
}

static void make_active(caching_allocator *a, uint32_t i, uint64_t requested, uint64_t tag)
{
    a->blocks[i].state = CACHING_ACTIVE;
    a->blocks[i].requested = requested;
    a->blocks[i].tag = tag;
}

sw_status caching_take(caching_allocator *a, uint64_t address, uint64_t requested, uint64_t tag)
{
    const uint32_t i = block_at(a, address);
    const uint64_t bytes = caching_round(&a->settings, requested);
    if (i == NONE || a->blocks[i].state != CACHING_FREE || a->blocks[i].bytes < bytes)
        SW_FAIL(SW_FORMAT, "%llu bytes where no free block is", (unsigned long long)requested);
    SW_TRY(reserve(a));
    take_out(a, i);
    if (is_split(a, &a->blocks[i], bytes))
        keep(a, cut(a, i, bytes));
    make_active(a, i, requested, tag);
    return SW_OK;
}

sw_status caching_place(caching_allocator *a, uint64_t segment, uint64_t address,
                        uint64_t bytes, uint64_t requested, uint64_t tag)
{
    uint32_t i = a->place;
    if (i >= a->n_blocks || a->blocks[i].lane == NONE || a->blocks[i].address < segment ||
        a->blocks[i].address > address)
        i = block_at(a, segment);
    while (i != NONE && a->blocks[i].address + a->blocks[i].bytes <= address)
        i = a->blocks[i].next;
    SW_TRY(reserve(a));
    block *b = i != NONE ? &a->blocks[i] : NULL;
    if (b == NULL || b->state != CACHING_FREE || bytes == 0 || requested > bytes ||
        b->address > address || address - b->address > b->bytes ||
        bytes > b->bytes - (address - b->address))
        SW_FAIL(SW_FORMAT, "a block of %llu bytes where no free one is",
                (unsigned long long)bytes);
    take_out(a, i);
    if (a->blocks[i].address < address) {
        const uint32_t rest = cut(a, i, address - a->blocks[i].address);
        keep(a, i);
        i = rest;
    }
    if (a->blocks[i].bytes > bytes)
        keep(a, cut(a, i, bytes));
    make_active(a, i, requested, tag);
    a->place = i;
    return SW_OK;
}

sw_status caching_free_requested(caching_allocator *a, uint64_t address)
{
    const uint32_t i = block_at(a, address);
    if (i == NONE || a->blocks[i].state != CACHING_ACTIVE)
        SW_FAIL(SW_FORMAT, "a free of what is not there");
    a->blocks[i].state = CACHING_PENDING;
    return SW_OK;
}

sw_status caching_free(caching_allocator *a, uint64_t address)
{
    const uint32_t i = block_at(a, address);
    if (i == NONE ||
        (a->blocks[i].state != CACHING_ACTIVE && a->blocks[i].state != CACHING_PENDING))
        SW_FAIL(SW_FORMAT, "a free of what is not there");
    set_free(a, i);
    return SW_OK;
}

/* ---- the allocator ----------------------------------------------------------------------- */

sw_status caching_create(caching_allocator **out, const caching_settings *settings)
{
    void *made;
    SW_TRY(sw_heap_alloc(&made, SW_HEAP_PROFILE, sizeof **out));
    *out = made;
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

uint32_t caching_lanes(const caching_allocator *a)
{
    return a->n_lanes;
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
