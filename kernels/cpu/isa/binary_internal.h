/* Shared by the kernels of bits of one instruction set. */
#ifndef SW_BINARY_INTERNAL_H
#define SW_BINARY_INTERNAL_H

#include "kernels/binary.h"
#include "kernels/cpu/isa/noise_internal.h"

/* Filters go by eight: one in each 64-bit lane of the widest vector. */
enum { SWI_TILE = 8 };

#define swi_binary_bounds SW_ISA_FN(swi_binary_bounds)
#define swi_binary_sample SW_ISA_FN(swi_binary_sample)

/* below: sw_binary_below of n rows of logits in the order of their filters' bits, 0 for bits of
 * padding. */
void swi_binary_bounds(uint16_t *below, const float *logits, int64_t n, int64_t channels,
                       int64_t taps, float scale);
/* Bits of `rows` filters of `words` words each, from row `first` of the logits on: word w of
 * filter f at [w * step + f * apart]. minus, or NULL: of the mirrored draws. */
typedef struct {
    const uint16_t *below;
    int64_t first, rows, words, step, apart;
} swi_binary_filters;
void swi_binary_sample(uint64_t *plus, uint64_t *minus, const swi_binary_filters *f,
                       const swi_noise_source *from);

SW_VEC_FN uint64_t bload(const void *words, int64_t i)
{
    uint64_t word;
    memcpy(&word, (const unsigned char *)words + 8 * i, 8);
    return word;
}
SW_VEC_FN void bstore(void *words, int64_t i, uint64_t word)
{
    memcpy((unsigned char *)words + 8 * i, &word, 8);
}

#endif
