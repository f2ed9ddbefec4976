/* A search is made from the buffers: time in sections, sizes in units of what divides them all.
 * See placement_search.c. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "alloc/placement/placement_search_internal.h"
#include <stdlib.h>

#define FIRST_TRAIL 1024 /* entries; it grows */

typedef struct {
    uint32_t time, buffer, start;
} event;

/* Ends before starts. */
static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* A section ends where a buffer ends and one has started since the last such place. */
static void find_sections(swi_search *s, const sw_placement_item *items, event *events)
{
    bool started = false;
    for (uint32_t i = 0; i < s->n; i++) {
        events[2 * i] = (event){items[i].lower, i, 1};
        events[2 * i + 1] = (event){items[i].upper, i, 0};
    }
    qsort(events, 2 * (size_t)s->n, sizeof *events, by_time);
    s->n_sections = s->n_list = 0;
    for (uint32_t k = 0; k < 2 * s->n; k++) {
        const uint32_t i = events[k].buffer;
        if (events[k].start != 0) {
            s->first[i] = s->n_sections;
            started = true;
            continue;
        }
        s->n_sections += started;
        started = false;
        s->end[i] = s->n_sections;
        s->n_list += s->end[i] - s->first[i];
    }
}

static sw_status time_to_sections(swi_search *s, const sw_placement_item *items)
{
    void *block;
    const size_t bytes = 2 * (size_t)s->n * sizeof(event);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    find_sections(s, items, block);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
}

/* Whether i and j, of which one lies directly on the other, can change places. */
static bool exchangeable(const swi_search *s, uint32_t i, uint32_t j)
{
    const uint64_t align = s->align[i];
    return align == s->align[j] &&
           (align == 0 || (s->bytes[i] % align == 0 && s->bytes[j] % align == 0));
}

static void find_twins(swi_search *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        s->twin[i] = SWI_NONE;
        s->alike[i] = i;
        for (uint32_t k = s->list_at[s->first[i]]; s->list[k] < i; k++) {
            const uint32_t j = s->list[k];
            if (s->first[j] != s->first[i] || s->end[j] != s->end[i])
                continue;
            if (s->alike[i] == i && exchangeable(s, i, j)) {
                s->alike[i] = s->alike[j];
                s->alike[j] = i;
            }
            if (s->bytes[j] == s->bytes[i] && s->align[j] == s->align[i])
                s->twin[i] = j;
        }
    }
}

static void fill_starters(swi_search *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->start_at[s->first[i] + 1]++;
    for (uint32_t k = 0; k < s->n_sections; k++)
        s->start_at[k + 1] += s->start_at[k];
    for (uint32_t i = s->n; i-- > 0;) /* each count goes down to where its section starts */
        s->starter[--s->start_at[s->first[i] + 1]] = i;
    for (uint32_t k = 0; k < s->n_sections; k++)
        s->start_at[k] = s->start_at[k + 1];
    s->start_at[s->n_sections] = s->n;
}

static void fill_lists(swi_search *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = s->first[i]; k < s->end[i]; k++)
            s->list_at[k + 1]++;
    for (uint32_t k = 0; k < s->n_sections; k++)
        s->list_at[k + 1] += s->list_at[k];
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = s->first[i]; k < s->end[i]; k++) {
            s->list[s->list_at[k] + s->n_left[k]++] = i;
            s->rest[k] += s->bytes[i];
        }
    find_twins(s);
    fill_starters(s);
}

/* Large alignments first. */
static size_t lay_out(swi_search *s, unsigned char *base)
{
    const size_t n = s->n, m = n + 1; /* each section ends with a buffer */
    size_t at = 0;
#define PART(field, count)                                                                     \
    do {                                                                                       \
        const size_t from = sw_size_part(&at, (count) * sizeof *s->field);                     \
        s->field = base != NULL ? (void *)(base + from) : NULL;                                \
    } while (0)
    PART(bytes, n);
    PART(low, n);
    PART(offset, n);
    PART(align, n);
    PART(name, n);
    PART(first, n);
    PART(end, n);
    PART(twin, n);
    PART(alike, n);
    PART(starter, n);
    PART(placed, n);
    PART(gathered, n);
    PART(ends, n);
    PART(sums, n + 1);
    PART(rest, m);
    PART(floor, m);
    PART(list_at, m + 1);
    PART(start_at, m + 1);
    PART(n_left, m);
    PART(failed, m);
    PART(queue, m);
    PART(dirty, m);
    PART(choice, s->cap_choice);
    PART(value, s->cap_choice);
    PART(stack, s->cap_stack);
    PART(table, (size_t)1 << SWI_TABLE_BITS);
#undef PART
    return at;
}

/* In units, of which all offsets are multiples. */
static uint64_t align_of(const swi_search *s, uint64_t align)
{
    const uint64_t units = align > 1 ? align / sw_size_gcd(align, s->unit) : 1;
    return units > 1 ? units : 0;
}

static void fill_buffers(swi_search *s, const sw_placement_item *items,
                         const sw_placement_opts *opts)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->unit = sw_size_gcd(s->unit, items[i].bytes);
    const uint64_t sizes = s->unit; /* who asks for a divisor of all sizes asks for nothing */
    for (uint32_t i = 0; i < s->n; i++)
        if (items[i].align > 1 && sizes % items[i].align != 0)
            s->unit = sw_size_gcd(s->unit, items[i].align);
    s->roof = opts->capacity / s->unit;
    s->noise = swi_mix(opts->seed + 1);
    for (uint32_t i = 0; i < s->n; i++) {
        s->bytes[i] = items[i].bytes / s->unit;
        s->align[i] = align_of(s, items[i].align);
        s->name[i] = swi_mix(i + 1);
    }
}

/* The lists of the sections have as many entries as buffers cover sections. */
static sw_status take_lists(swi_search *s)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, (size_t)s->n_list * sizeof *s->list));
    s->list = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, FIRST_TRAIL * sizeof *s->trail));
    s->trail = block;
    s->cap_trail = FIRST_TRAIL;
    fill_lists(s);
    return SW_OK;
}

sw_status swi_search_create(swi_search *s, const sw_placement_item *items, size_t n,
                            const sw_placement_opts *opts)
{
    void *block;
    *s = (swi_search){.n = (uint32_t)n,
                      .cap_choice = 16 * n + 4096,
                      .cap_stack = 2 * (uint32_t)n + 64,
                      .outcome = SW_SEARCH_GAVE_UP};
    s->block_bytes = lay_out(s, NULL);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, s->block_bytes));
    s->block = block;
    (void)lay_out(s, block);
    SW_TRY(time_to_sections(s, items));
    fill_buffers(s, items, opts);
    return take_lists(s);
}

void swi_search_destroy(swi_search *s)
{
    if (s->trail != NULL)
        sw_heap_free(s->trail, SW_HEAP_PROGRAMS, s->cap_trail * sizeof *s->trail);
    if (s->list != NULL)
        sw_heap_free(s->list, SW_HEAP_PROGRAMS, (size_t)s->n_list * sizeof *s->list);
    if (s->block != NULL)
        sw_heap_free(s->block, SW_HEAP_PROGRAMS, s->block_bytes);
}
