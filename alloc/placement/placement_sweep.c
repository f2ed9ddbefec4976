/* See placement_sweep.h. Blocks are of sizes m * 2^k with 8 <= m < 16: at most an eighth of one
 * is lost. A block is known by the buffer that had it last, and is large enough for its
 * alignment wherever it begins. */
#include "alloc/placement/placement_sweep.h"
#include "alloc/base/assert.h"
#include "alloc/placement/placement_align.h"
#include "alloc/base/size.h"
#include <string.h>

#define NONE UINT32_MAX
#define CLASSES 512

/* The class of blocks that a size takes, and their size in *block. */
static uint32_t class_of(size_t bytes, size_t *block)
{
    uint32_t shift = 0;
    if (bytes >= 16)
        shift = 60 - (uint32_t)__builtin_clzll(bytes);
    const size_t step = (size_t)1 << shift, m = (bytes + step - 1) / step;
    SW_ASSERT(m <= 16 && 8 * shift + m < CLASSES);
    *block = m * step;
    return 8 * shift + (uint32_t)m; /* m = 16 is m = 8 of the next shift */
}

static void list_unplaced(const swi_sweep *s, const size_t *offset)
{
    for (uint32_t k = 0; k < s->n_sections; k++)
        s->first_birth[k] = s->first_death[k] = NONE;
    for (uint32_t i = s->n; i-- > 0;) { /* backwards: lists begin with the first buffer */
        SW_ASSERT(s->lo[i] < s->hi[i] && s->hi[i] <= s->n_sections);
        if (offset[i] != SIZE_MAX)
            continue;
        s->next_birth[i] = s->first_birth[s->lo[i]];
        s->first_birth[s->lo[i]] = i;
        if (s->hi[i] == s->n_sections)
            continue; /* none comes after it */
        s->next_death[i] = s->first_death[s->hi[i]];
        s->first_death[s->hi[i]] = i;
    }
}

/* The highest end so far; *small: sums of block sizes stay in range. */
static size_t top_of(const swi_sweep *s, const size_t *offset, bool *small)
{
    size_t top = 0, sum = 0;
    *small = true;
    for (uint32_t i = 0; i < s->n; i++) {
        if (offset[i] != SIZE_MAX && offset[i] + s->items[i].bytes > top)
            top = offset[i] + s->items[i].bytes;
        *small = *small && sw_size_add(sum, s->items[i].bytes, &sum) &&
                 sw_size_add(sum, s->items[i].align, &sum) && sum <= SIZE_MAX / 4;
    }
    return top;
}

static size_t stack_up(const swi_sweep *s, size_t *offset, size_t top)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (offset[i] != SIZE_MAX)
            continue;
        offset[i] = swi_align_up(top, s->items[i].align);
        top = offset[i] + s->items[i].bytes;
    }
    return top;
}

/* Bytes in which the buffer fits wherever they begin. */
static size_t bytes_of(const sw_placement_item *item)
{
    return item->bytes + (item->align > 1 ? item->align - 1 : 0);
}

size_t swi_placement_sweep(const swi_sweep *s, size_t *offset)
{
    uint32_t free[CLASSES];
    bool small;
    size_t bytes, top = top_of(s, offset, &small), height = top;
    if (!small)
        return stack_up(s, offset, top);
    memset(free, 0xff, sizeof free);
    list_unplaced(s, offset);
    for (uint32_t k = 0; k < s->n_sections; k++) {
        for (uint32_t i = s->first_death[k]; i != NONE; i = s->next_death[i]) {
            const uint32_t class = class_of(bytes_of(&s->items[i]), &bytes);
            s->next_free[i] = free[class];
            free[class] = i;
        }
        for (uint32_t i = s->first_birth[k]; i != NONE; i = s->next_birth[i]) {
            const uint32_t class = class_of(bytes_of(&s->items[i]), &bytes), of = free[class];
            s->block[i] = of != NONE ? s->block[of] : top;
            if (of != NONE)
                free[class] = s->next_free[of];
            else
                top += bytes;
            offset[i] = swi_align_up(s->block[i], s->items[i].align);
            SW_ASSERT(offset[i] - s->block[i] + s->items[i].bytes <= bytes);
            if (offset[i] + s->items[i].bytes > height)
                height = offset[i] + s->items[i].bytes;
        }
    }
    return height;
}
