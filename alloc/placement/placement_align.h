/* Offsets of the placement solver: multiples of any number, not of powers of two alone. */
#ifndef SW_PLACEMENT_ALIGN_H
#define SW_PLACEMENT_ALIGN_H

#include <stdint.h>

/* The least multiple of `align` (0 and 1: of one) from x on; the caller keeps x + align in
 * range. */
static inline uint64_t swi_align_up(uint64_t x, uint64_t align)
{
    if (align <= 1)
        return x;
    const uint64_t rest = x % align;
    return rest == 0 ? x : x + (align - rest);
}

#endif
