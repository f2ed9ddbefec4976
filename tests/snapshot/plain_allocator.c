/* See plain_allocator.h. */
#include "tests/snapshot/plain_allocator.h"
#include "tests/snapshot/files.h"
#include "tests/support/suite.h"

#define TAIL ((uint64_t)1 << 44) /* addresses of an expandable segment */

static void *grown(void *array, size_t *room, size_t n, size_t size)
{
    if (n < *room)
        return array;
    *room = 2 * n + 64;
    array = realloc(array, *room * size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(array);
    return array;
}

uint64_t plain_random(plain_allocator *p, uint64_t below)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (p->random >> 33) % below;
}

static void end(void *allocator)
{
    plain_allocator *p = allocator;
    free(p->blocks);
    free(p->segments);
    free(p->events);
    free(p->sums);
}

plain_allocator *plain_new(uint64_t seed)
{
    plain_allocator *p = sw_block(sizeof *p);
    *p = (plain_allocator){
        .capacity = UINT64_MAX, .random = seed, .next_address = (uint64_t)1 << 45};
    sw_after(end, p);
    return p;
}

/* ---- lists ------------------------------------------------------------------------------- */

static uint64_t rounded(const plain_allocator *p, uint64_t bytes)
{
    if (bytes < 512)
        return 512;
    if (p->divisions > 1 && bytes > 512u * (unsigned)p->divisions) {
        uint64_t floor = 512;
        while (2 * floor <= bytes)
            floor *= 2;
        for (int i = 0; i <= p->divisions; i++)
            if (floor + floor / (unsigned)p->divisions * (unsigned)i >= bytes)
                return floor + floor / (unsigned)p->divisions * (unsigned)i;
    }
    return (bytes + 511) / 512 * 512;
}

static void insert(plain_allocator *p, size_t at, plain_block block)
{
    p->blocks = grown(p->blocks, &p->room_blocks, p->n_blocks, sizeof block);
    memmove(p->blocks + at + 1, p->blocks + at, (p->n_blocks - at) * sizeof block);
    p->blocks[at] = block;
    p->n_blocks++;
}

static void erase(plain_allocator *p, size_t at)
{
    p->n_blocks--;
    memmove(p->blocks + at, p->blocks + at + 1, (p->n_blocks - at) * sizeof *p->blocks);
}

static size_t place_of(const plain_allocator *p, uint64_t address)
{
    size_t low = 0, high = p->n_blocks;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (p->blocks[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t index_of(const plain_allocator *p, uint64_t address)
{
    const size_t at = place_of(p, address);
    CU_ASSERT_FATAL(at < p->n_blocks && p->blocks[at].address == address);
    return at;
}

static bool joins(const plain_block *a, const plain_block *b)
{
    return a->segment == b->segment && a->state == b->state &&
           (a->state == PLAIN_FREE || a->state == PLAIN_UNMAPPED);
}

/* Blocks i - 1, i and i + 1; returns where the result is. */
static size_t merge(plain_allocator *p, size_t i)
{
    if (i + 1 < p->n_blocks && joins(&p->blocks[i], &p->blocks[i + 1])) {
        p->blocks[i].bytes += p->blocks[i + 1].bytes;
        erase(p, i + 1);
    }
    if (i > 0 && joins(&p->blocks[i - 1], &p->blocks[i])) {
        p->blocks[i - 1].bytes += p->blocks[i].bytes;
        erase(p, i--);
    }
    return i;
}

plain_sums plain_count(const plain_allocator *p)
{
    plain_sums s = {0};
    for (size_t i = 0; i < p->n_blocks; i++) {
        const plain_block *b = &p->blocks[i];
        if (b->state == PLAIN_UNMAPPED)
            continue;
        s.reserved += b->bytes;
        if (b->state == PLAIN_FREE) {
            s.free += b->bytes;
            continue;
        }
        s.requested += b->requested;
        s.pending += b->state == PLAIN_PENDING ? b->requested : 0;
        s.rounding += rounded(p, b->requested) - b->requested;
        s.unsplit += b->bytes - rounded(p, b->requested);
    }
    return s;
}

static void record(plain_allocator *p, const char *action, uint64_t address, uint64_t bytes,
                   const plain_segment *s, int frame)
{
    const size_t room = p->room_events;
    p->events = grown(p->events, &p->room_events, p->n_events, sizeof *p->events);
    if (p->room_events != room) {
        p->sums = realloc(p->sums, p->room_events * sizeof *p->sums);
        CU_ASSERT_PTR_NOT_NULL_FATAL(p->sums);
    }
    if (p->keep_sums)
        p->sums[p->n_events] = plain_count(p);
    p->events[p->n_events++] = (plain_event){action, address, bytes, s->stream, s->pool, frame};
}

/* ---- segments ---------------------------------------------------------------------------- */

static uint32_t new_segment(plain_allocator *p, plain_segment s)
{
    p->segments = grown(p->segments, &p->room_segments, p->n_segments, sizeof s);
    p->segments[p->n_segments] = s;
    return (uint32_t)p->n_segments++;
}

/* Some of the large segments that are free, before a request to the device. */
static void collect(plain_allocator *p)
{
    for (size_t i = 0; i < p->n_blocks; i++) {
        plain_segment *s = &p->segments[p->blocks[i].segment];
        if (p->blocks[i].state != PLAIN_FREE || p->blocks[i].bytes != s->bytes || s->small ||
            s->expandable || s->pool != 0 || plain_random(p, 2) == 0)
            continue;
        const plain_segment was = *s;
        s->bytes = 0;
        erase(p, i--);
        record(p, "segment_free", was.address, was.bytes, &was, 0);
        p->collected++;
    }
}

/* All free segments, and pages of expandable ones. */
void plain_empty_cache(plain_allocator *p)
{
    /* Waits for blocks that other streams use. */
    for (size_t i = 0; i < p->n_blocks; i++)
        if (p->blocks[i].state == PLAIN_PENDING) {
            plain_finish(p, p->blocks[i].address);
            i = 0;
        }
    for (size_t i = 0; i < p->n_blocks; i++) {
        plain_block *b = &p->blocks[i];
        plain_segment *s = &p->segments[b->segment];
        if (b->state != PLAIN_FREE)
            continue;
        if (!s->expandable && b->bytes == s->bytes) {
            const plain_segment was = *s;
            s->bytes = 0;
            erase(p, i--);
            record(p, "segment_free", was.address, was.bytes, &was, 0);
            continue;
        }
        if (!s->expandable)
            continue;
        const uint64_t page = s->small ? 2 * MIB : 20 * MIB, start = s->address;
        const uint64_t from = start + (b->address - start + page - 1) / page * page,
                       to = start + (b->address + b->bytes - start) / page * page;
        if (from >= to)
            continue;
        const plain_block was = *b;
        const plain_segment of = *s;
        b->address = from;
        b->bytes = to - from;
        b->state = PLAIN_UNMAPPED;
        if (from > was.address)
            insert(
                p, i++,
                (plain_block){was.address, from - was.address, 0, was.segment, PLAIN_FREE, 0});
        if (to < was.address + was.bytes)
            insert(
                p, i + 1,
                (plain_block){to, was.address + was.bytes - to, 0, was.segment, PLAIN_FREE, 0});
        i = merge(p, i);
        record(p, "segment_unmap", from, to - from, &of, 0);
    }
}

static bool has_room(plain_allocator *p, uint64_t bytes)
{
    if (plain_count(p).reserved + bytes <= p->capacity)
        return true;
    plain_empty_cache(p);
    return plain_count(p).reserved + bytes <= p->capacity;
}

static bool take_segment(plain_allocator *p, plain_segment s, uint64_t bytes, size_t *out)
{
    s.bytes = bytes <= MIB       ? 2 * MIB
              : bytes < 10 * MIB ? 20 * MIB
                                 : (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    if (p->collects && plain_random(p, 4) == 0)
        collect(p);
    if (p->capacity != UINT64_MAX && !has_room(p, s.bytes))
        return false;
    p->next_address += plain_random(p, 3) * 2 * MIB;
    s.address = p->next_address;
    p->next_address += s.bytes;
    const uint32_t number = new_segment(p, s);
    *out = place_of(p, s.address);
    insert(p, *out, (plain_block){s.address, s.bytes, 0, number, PLAIN_FREE, 0});
    record(p, "segment_alloc", s.address, s.bytes, &s, 0);
    return true;
}

/* Map memory at the first range of free and unmapped blocks that is long enough. */
static bool take_mapped(plain_allocator *p, plain_segment s, uint64_t bytes, size_t *out)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < p->n_blocks && found == SIZE_MAX; i++) {
        const plain_segment *of = &p->segments[p->blocks[i].segment];
        uint64_t room = 0;
        if (p->blocks[i].state != PLAIN_UNMAPPED || of->stream != s.stream ||
            of->pool != s.pool || of->small != s.small)
            continue;
        size_t first = i;
        if (i > 0 && p->blocks[i - 1].segment == p->blocks[i].segment &&
            p->blocks[i - 1].state == PLAIN_FREE)
            first--;
        for (size_t k = first;
             k < p->n_blocks && room < bytes && p->blocks[k].segment == p->blocks[i].segment &&
             (p->blocks[k].state == PLAIN_FREE || p->blocks[k].state == PLAIN_UNMAPPED);
             k++)
            room += p->blocks[k].bytes;
        found = room >= bytes ? first : SIZE_MAX;
    }
    if (found == SIZE_MAX) {
        s.expandable = true;
        s.address = ((uint64_t)1 << 46) + TAIL * p->n_segments;
        const uint32_t number = new_segment(p, s);
        found = place_of(p, s.address);
        insert(p, found, (plain_block){s.address, TAIL, 0, number, PLAIN_UNMAPPED, 0});
    }
    const uint64_t page = s.small ? 2 * MIB : 20 * MIB;
    while (p->blocks[found].state == PLAIN_UNMAPPED || p->blocks[found].bytes < bytes) {
        const size_t at = found + (p->blocks[found].state == PLAIN_FREE);
        const uint64_t have = at > found ? p->blocks[found].bytes : 0;
        uint64_t more = (bytes - have + page - 1) / page * page;
        more = more < p->blocks[at].bytes ? more : p->blocks[at].bytes;
        if (p->capacity != UINT64_MAX && plain_count(p).reserved + more > p->capacity)
            return false;
        const plain_block hole = p->blocks[at];
        const plain_segment of = p->segments[hole.segment];
        p->blocks[at].bytes = more;
        p->blocks[at].state = PLAIN_FREE;
        if (more < hole.bytes)
            insert(p, at + 1,
                   (plain_block){hole.address + more, hole.bytes - more, 0, hole.segment,
                                 PLAIN_UNMAPPED, 0});
        found = merge(p, at);
        record(p, "segment_map", hole.address, more, &of, 0);
    }
    *out = found;
    return true;
}

/* ---- requests ---------------------------------------------------------------------------- */

/* How large it can grow. */
static uint64_t reach(const plain_allocator *p, size_t i)
{
    const bool grows = i + 1 < p->n_blocks &&
                       p->blocks[i + 1].segment == p->blocks[i].segment &&
                       p->blocks[i + 1].state == PLAIN_UNMAPPED;
    return p->blocks[i].bytes + (grows ? p->blocks[i + 1].bytes : 0);
}

/* The smallest free block of (more than) so many bytes, then the lowest. */
static size_t next_of(const plain_allocator *p, const plain_segment *s, uint64_t bytes,
                      const plain_block *behind)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < p->n_blocks; i++) {
        const plain_block *b = &p->blocks[i];
        const plain_segment *of = &p->segments[b->segment];
        if (b->state != PLAIN_FREE || b->bytes < bytes || of->stream != s->stream ||
            of->pool != s->pool || of->small != s->small)
            continue;
        if (behind != NULL && (b->bytes < behind->bytes ||
                               (b->bytes == behind->bytes && b->address <= behind->address)))
            continue;
        if (best == SIZE_MAX || b->bytes < p->blocks[best].bytes)
            best = i;
    }
    return best;
}

/* The user's pools have an allocator of their own. */
static bool grows(const plain_allocator *p)
{
    return p->expandable && !(p->user_pools && p->pool != 0);
}

static size_t find(const plain_allocator *p, const plain_segment *s, uint64_t bytes)
{
    size_t i = next_of(p, s, bytes, NULL);
    while (i != SIZE_MAX && grows(p)) {
        const size_t next = next_of(p, s, bytes, &p->blocks[i]);
        if (next == SIZE_MAX || reach(p, next) >= reach(p, i))
            break;
        i = next;
    }
    if (i == SIZE_MAX || p->max_split == 0)
        return i;
    const bool huge = p->blocks[i].bytes >= p->max_split;
    if ((bytes < p->max_split && huge) ||
        (bytes >= p->max_split && p->blocks[i].bytes >= bytes + 20 * MIB))
        return SIZE_MAX;
    return i;
}

static bool take_new(plain_allocator *p, plain_segment s, uint64_t bytes, size_t *out)
{
    if (!grows(p))
        return take_segment(p, s, bytes, out);
    if (take_mapped(p, s, bytes, out))
        return true;
    plain_empty_cache(p);
    return take_mapped(p, s, bytes, out);
}

uint64_t plain_malloc(plain_allocator *p, uint64_t stream, uint64_t requested, int frame)
{
    const uint64_t bytes = rounded(p, requested);
    const plain_segment s = {.stream = stream, .pool = p->pool, .small = bytes <= MIB};
    size_t i = find(p, &s, bytes);
    if (i == SIZE_MAX && !take_new(p, s, bytes, &i)) {
        record(p, "oom", 12345, bytes, &s, frame);
        return 0;
    }
    plain_block *b = &p->blocks[i];
    const uint64_t rest = b->bytes - bytes;
    const bool split = s.small || grows(p)
                           ? rest >= 512
                           : rest > MIB && (p->max_split == 0 || bytes < p->max_split);
    b->state = PLAIN_ACTIVE;
    b->requested = requested;
    b->frame = frame;
    const uint64_t address = b->address;
    if (split) {
        b->bytes = bytes;
        insert(p, i + 1,
               (plain_block){address + bytes, rest, 0, p->blocks[i].segment, PLAIN_FREE, 0});
    }
    record(p, "alloc", address, requested, &s, frame);
    return address;
}

void plain_finish(plain_allocator *p, uint64_t address)
{
    const size_t i = place_of(p, address);
    if (i == p->n_blocks || p->blocks[i].address != address ||
        p->blocks[i].state != PLAIN_PENDING)
        return;
    const plain_block was = p->blocks[i];
    const plain_segment of = p->segments[was.segment];
    p->blocks[i].state = PLAIN_FREE;
    (void)merge(p, i);
    record(p, "free_completed", address, was.requested, &of,
           p->frees > 0 ? p->frees : was.frame);
}

void plain_free(plain_allocator *p, uint64_t address, bool pending)
{
    const size_t i = index_of(p, address);
    const plain_segment of = p->segments[p->blocks[i].segment];
    p->blocks[i].state = PLAIN_PENDING;
    record(p, "free_requested", address, p->blocks[i].requested, &of,
           p->frees > 0 ? p->frees : p->blocks[i].frame);
    if (!pending)
        plain_finish(p, address);
}
