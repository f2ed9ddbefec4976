/* Shared by the kernels of bits of one instruction set. */
#ifndef SW_BINARY_INTERNAL_H
#define SW_BINARY_INTERNAL_H

#include "kernels/binary.h"
#include "kernels/cpu/isa/noise_internal.h"

/* Filters go by eight: one in each 64-bit lane of the widest vector. */
enum { SWI_TILE = 8 };

#define swi_binary_pack SW_ISA_FN(swi_binary_pack)
#define swi_binary_max_pool SW_ISA_FN(swi_binary_max_pool)
#define swi_binary_row_sums SW_ISA_FN(swi_binary_row_sums)
#define swi_binary_layer_bytes SW_ISA_FN(swi_binary_layer_bytes)
#define swi_binary_layer SW_ISA_FN(swi_binary_layer)
#define swi_binary_stored_bytes SW_ISA_FN(swi_binary_stored_bytes)
#define swi_binary_draw SW_ISA_FN(swi_binary_draw)
#define swi_binary_gradient_bytes SW_ISA_FN(swi_binary_gradient_bytes)
#define swi_binary_gradient SW_ISA_FN(swi_binary_gradient)
#define swi_binary_member SW_ISA_FN(swi_binary_member)
#define swi_binary_bounds SW_ISA_FN(swi_binary_bounds)
#define swi_binary_sample SW_ISA_FN(swi_binary_sample)

void swi_binary_pack(void *bits, const float *x, int64_t batch, int64_t channels,
                     int64_t positions, float threshold, const sw_par *par);
void swi_binary_max_pool(void *y, const void *x, const sw_binary_shape *s, const sw_par *par);
void swi_binary_row_sums(double *sums, const float *w, int64_t rows, int64_t cols,
                         const sw_par *par);
size_t swi_binary_layer_bytes(const sw_binary_shape *s, int threads);
void swi_binary_layer(const sw_binary_layer *l, void *scratch, const sw_par *par);
size_t swi_binary_stored_bytes(const sw_binary_layer *l);
void swi_binary_draw(uint64_t *to, const sw_binary_layer *l, void *scratch, const sw_par *par);
size_t swi_binary_gradient_bytes(const sw_noise_spec *spec, int threads);
void swi_binary_gradient(const sw_binary_sum *g, void *scratch, const sw_par *par);
void swi_binary_member(float *theta, const sw_noise_spec *spec, const sw_noise_at *at,
                       float scale, bool mirrored, int64_t first_row, int64_t n_rows);

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
