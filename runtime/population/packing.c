/* Packing: which members lie in a budget, and which wait.
 *
 * Everybody has a turn, so lanes are as large as the largest arena and batch of all. Where some
 * wait, each lane has a slot besides, as large as the largest that waits; so for each size that
 * this can be, all larger members must stay, and the rest is a subset-sum problem over few
 * sizes with many members each: a table of which sums can be had, in granules of the budget,
 * with multiplicities split into powers of two (Kellerer, Pferschy, Pisinger, "Knapsack
 * Problems", 2004, section 7.1). */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/base/structs.h"
#include <string.h>

#define GRANULES ((size_t)1 << 20)

/* One part of a shape's members in the table: 2^k of them, or the rest. */
typedef struct {
    uint32_t shape;
    size_t count, granules;
} part;

typedef struct {
    const sw_pack_shape *shapes;
    size_t n, budget;
    int threads;
    size_t arena, batch; /* the largest */
    size_t *order;       /* shapes by bytes of a member, falling */
    /* The table: sum s is reached first by part from[s]; UINT32_MAX: not at all. */
    uint32_t *from;
    part *parts;
    uint32_t n_parts, cap_parts;
    size_t *best; /* residents of the best packing so far */
    size_t best_bytes, best_slot, bound;
    bool found;
} packer;

static size_t lanes_of(const packer *p, int threads, size_t slot)
{
    return sw_size_product((size_t)threads, sw_size_sum(sw_size_sum(p->arena, p->batch), slot));
}

/* ---- the table --------------------------------------------------------------------------- */

/* Members of a shape beyond those that fit alone change nothing. */
static sw_status split(packer *p, uint32_t shape, size_t room, size_t granule)
{
    const size_t bytes = p->shapes[shape].member_bytes;
    const size_t one = bytes / granule + (bytes % granule != 0);
    size_t left = p->shapes[shape].members, count = 1;
    if (one == 0 || one > room)
        return SW_OK;
    left = left < room / one ? left : room / one;
    for (; left > 0; count *= 2) {
        const size_t take = count < left ? count : left;
        SW_TRY(sw_heap_reserve(&p->parts, SW_HEAP_RECORDS, &p->cap_parts, p->n_parts + 1));
        p->parts[p->n_parts++] = (part){shape, take, (take * one)};

        left -= take;
    }
    return SW_OK;
}

/* Sums that can be reached with one part more, each by the first part that makes it; *top: the
 * largest sum. */
static void add_sums(packer *p, uint32_t k, size_t room, size_t *top)
{
    const size_t g = p->parts[k].granules;
    size_t s = *top + g < room ? *top + g : room;
    for (; s >= g; s--)
        if (p->from[s] == UINT32_MAX && p->from[s - g] != UINT32_MAX) {
            p->from[s] = k;
            *top = s > *top ? s : *top;
        }
}

/* The most of `room` bytes that members from order[first] on can fill; their numbers are added
 * to `counts`. */
static sw_status fill(packer *p, size_t first, size_t room, size_t *counts)
{
    const size_t granule = room / GRANULES + (room % GRANULES != 0);
    if (granule == 0)
        return SW_OK;
    const size_t n = room / granule;
    p->n_parts = 0;
    for (size_t i = first; i < p->n; i++)
        SW_TRY(split(p, (uint32_t)p->order[i], n, granule));
    memset(p->from, 0xff, (n + 1) * sizeof *p->from);
    p->from[0] = p->n_parts; /* reached by nothing */
    size_t s = 0;
    for (uint32_t k = 0; k < p->n_parts && s < n; k++)
        add_sums(p, k, n, &s);
    while (s > 0) {
        const part *its = &p->parts[p->from[s]];
        counts[its->shape] += its->count;
        s -= its->granules;
    }
    return SW_OK;
}

/* ---- packings ---------------------------------------------------------------------------- */

static size_t bytes_of(const packer *p, const size_t *counts)
{
    size_t bytes = 0;
    for (size_t i = 0; i < p->n; i++)
        bytes = sw_size_sum(bytes, sw_size_product(counts[i], p->shapes[i].member_bytes));
    return bytes;
}

/* The packing where members larger than those of order[first] stay, and slots are as large as
 * one of order[first]. */
static sw_status try_slot(packer *p, int threads, size_t first, size_t *counts)
{
    const size_t slot = p->shapes[p->order[first]].member_bytes;
    const size_t lanes = lanes_of(p, threads, slot);
    memset(counts, 0, p->n * sizeof *counts);
    for (size_t i = 0; i < first; i++)
        counts[p->order[i]] = p->shapes[p->order[i]].members;
    const size_t stay = bytes_of(p, counts);
    if (lanes > p->budget || stay > p->budget - lanes)
        return SW_OK;
    const size_t room = p->budget - lanes;
    p->bound = room > p->bound ? room : p->bound;
    if (p->found && room <= p->best_bytes)
        return SW_OK;
    SW_TRY(fill(p, first, room - stay, counts));
    const size_t bytes = bytes_of(p, counts);
    if (!p->found || bytes > p->best_bytes) {
        p->found = true;
        p->best_bytes = bytes;
        p->best_slot = slot;
        memcpy(p->best, counts, p->n * sizeof *counts);
    }
    return SW_OK;
}

/* SW_OK without `found`: not with so many threads. */
static sw_status try_threads(packer *p, int threads, size_t *counts)
{
    size_t all = lanes_of(p, threads, 0);
    for (size_t i = 0; i < p->n; i++)
        all =
            sw_size_sum(all, sw_size_product(p->shapes[i].members, p->shapes[i].member_bytes));
    p->bound = 0;
    if (all <= p->budget) { /* no one waits */
        for (size_t i = 0; i < p->n; i++)
            p->best[i] = p->shapes[i].members;
        p->best_bytes = bytes_of(p, p->best);
        p->best_slot = 0;
        p->bound = p->best_bytes;
        p->found = true;
        return SW_OK;
    }
    for (size_t first = p->n; first-- > 0;) /* the smallest slots leave the most room */
        if (first == 0 || p->shapes[p->order[first]].member_bytes !=
                              p->shapes[p->order[first - 1]].member_bytes)
            SW_TRY(try_slot(p, threads, first, counts));
    return SW_OK;
}

static sw_status pack(packer *p, size_t *counts, size_t *resident, sw_packing *out)
{
    int threads = p->threads;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = i;
        const size_t bytes = p->shapes[i].member_bytes;
        for (; k > 0 && p->shapes[p->order[k - 1]].member_bytes < bytes; k--)
            p->order[k] = p->order[k - 1];
        p->order[k] = i;
        p->arena = p->shapes[i].arena_bytes > p->arena ? p->shapes[i].arena_bytes : p->arena;
        p->batch = p->shapes[i].batch_bytes > p->batch ? p->shapes[i].batch_bytes : p->batch;
    }
    for (; threads > 0; threads--) {
        SW_TRY(try_threads(p, threads, counts));
        if (p->found)
            break;
    }
    if (!p->found) {
        /* The shape that needs the most alone, in one lane. */
        size_t least = 0, worst = 0;
        for (size_t m = 0; m < p->n; m++) {
            const sw_pack_shape *s = &p->shapes[m];
            const size_t need =
                sw_size_sum(sw_size_sum(s->arena_bytes, s->batch_bytes), s->member_bytes);
            if (need > least) {
                least = need;
                worst = m;
            }
        }
        const size_t together = lanes_of(p, 1, p->shapes[p->order[0]].member_bytes);
        SW_FAIL(
            SW_NOMEM,
            "members do not fit the budget of %zu bytes: the least is %zu, for one lane with "
            "the largest arena (%zu), batch (%zu) and member (%zu); shape %zu alone needs %zu",
            p->budget, together, p->arena, p->batch, p->shapes[p->order[0]].member_bytes, worst,
            least);
    }
    memcpy(resident, p->best, p->n * sizeof *resident);
    size_t members = 0;
    sw_packing made = {.size = out->size, .threads = threads, .bound_bytes = p->bound};
    for (size_t j = 0; j < p->n; j++) {
        members += p->shapes[j].members;
        made.resident += p->best[j];
        made.all_bytes = sw_size_sum(
            made.all_bytes, sw_size_product(p->shapes[j].members, p->shapes[j].member_bytes));
    }
    made.all_bytes = sw_size_sum(made.all_bytes, lanes_of(p, p->threads, 0));
    made.waiting = members - made.resident;
    made.resident_bytes = p->best_bytes;
    made.lane_bytes = lanes_of(p, threads, made.waiting > 0 ? p->best_slot : 0);
    made.bytes = made.lane_bytes + made.resident_bytes;
    swi_struct_write(SWI_STRUCT_sw_packing, out, &made);
    return SW_OK;
}

static sw_status check(const sw_pack_shape *shapes, size_t n, int threads,
                       const size_t *resident, const sw_packing *out)
{
    static const char call[] = "sw_pack";
    if (shapes == NULL || n == 0 || n > UINT32_MAX / 64 || resident == NULL || out == NULL)
        SW_FAIL(SW_INVALID,
                "%s: shapes (at least one), resident and out must be given (got %zu shapes)",
                call, n);
    if (threads < 1 || threads > 256)
        SW_FAIL(SW_INVALID, "%s: threads must be 1 to 256 (got %d)", call, threads);
    for (size_t i = 0; i < n; i++)
        if (shapes[i].members == 0 || shapes[i].member_bytes == 0)
            SW_FAIL(SW_INVALID, "%s: shape %zu must have members, of at least one byte", call,
                    i);
    return swi_struct_check(SWI_STRUCT_sw_packing, out, call);
}

sw_status sw_pack(const sw_pack_shape *shapes, size_t n, size_t budget, int threads,
                  size_t *resident, sw_packing *out)
{
    packer p = {.shapes = shapes, .n = n, .budget = budget, .threads = threads};
    const size_t table = (GRANULES + 1) * sizeof *p.from;
    void *block, *sums;
    SW_TRY(check(shapes, n, threads, resident, out));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, 3 * n * sizeof(size_t)));
    sw_status status = sw_heap_alloc(&sums, SW_HEAP_RECORDS, table);
    if (status == SW_OK) {
        p.order = block;
        p.best = p.order + n;
        p.from = sums;
        status = pack(&p, p.best + n, resident, out);
        sw_heap_free(sums, SW_HEAP_RECORDS, table);
    }
    sw_heap_free(p.parts, SW_HEAP_RECORDS, p.cap_parts * sizeof *p.parts);
    sw_heap_free(block, SW_HEAP_RECORDS, 3 * n * sizeof(size_t));
    return status;
}
