/* XXH3 by the header of libxxhash alone: nothing to link, and no memory but the caller's. */
#include "runtime/base/checksum.h"
#include "alloc/base/assert.h"

#if SW_HAVE_XXHASH

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The state begins at a multiple of 64 in the caller's memory, which is one of 8. */
#define STATE_ALIGN 64
_Static_assert(_Alignof(XXH3_state_t) <= STATE_ALIGN, "the state of XXH3 is aligned to 64");
_Static_assert(sizeof(XXH3_state_t) + STATE_ALIGN - _Alignof(swi_checksum) <=
                   sizeof(swi_checksum),
               "the state of XXH3 has room wherever the caller's memory begins");

static XXH3_state_t *state_of(const swi_checksum *sum)
{
    return (XXH3_state_t *)(((uintptr_t)sum + STATE_ALIGN - 1) & ~(uintptr_t)(STATE_ALIGN - 1));
}

bool swi_checksum_there(void)
{
    return true;
}

void swi_checksum_begin(swi_checksum *sum)
{
    (void)XXH3_64bits_reset(state_of(sum));
}

void swi_checksum_add(swi_checksum *sum, const void *bytes, size_t n)
{
    if (n > 0)
        (void)XXH3_64bits_update(state_of(sum), bytes, n);
}

uint64_t swi_checksum_end(const swi_checksum *sum)
{
    return XXH3_64bits_digest(state_of(sum));
}

uint64_t swi_checksum_of(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

#else

bool swi_checksum_there(void)
{
    return false;
}

void swi_checksum_begin(swi_checksum *sum)
{
    (void)sum;
    SW_ASSERT(false);
}

void swi_checksum_add(swi_checksum *sum, const void *bytes, size_t n)
{
    (void)sum, (void)bytes, (void)n;
    SW_ASSERT(false);
}

uint64_t swi_checksum_end(const swi_checksum *sum)
{
    (void)sum;
    SW_ASSERT(false);
    return 0;
}

uint64_t swi_checksum_of(const void *bytes, size_t n)
{
    (void)bytes, (void)n;
    SW_ASSERT(false);
    return 0;
}

#endif
