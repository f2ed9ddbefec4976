/* What the kernels of noise of one instruction set share. */
#ifndef SW_NOISE_INTERNAL_H
#define SW_NOISE_INTERNAL_H

#include "kernels/cpu/isa/vec.h"
#include "kernels/noise_kernels.h"

/* Numbers of one direction: where to draw them from. */
typedef struct {
    uint64_t key[20]; /* of the rounds, two each */
    uint32_t counter[3];
    int32_t distribution;
} swi_noise_source;

#define swi_noise_source_of SW_ISA_FN(swi_noise_source_of)
#define swi_noise_draw SW_ISA_FN(swi_noise_draw)
#define swi_noise_words SW_ISA_FN(swi_noise_words)
#define swi_noise_fill SW_ISA_FN(swi_noise_fill)
#define swi_noise_linear_bytes SW_ISA_FN(swi_noise_linear_bytes)
#define swi_noise_linear SW_ISA_FN(swi_noise_linear)
#define swi_noise_conv_bytes SW_ISA_FN(swi_noise_conv_bytes)
#define swi_noise_conv SW_ISA_FN(swi_noise_conv)
#define swi_noise_embedding SW_ISA_FN(swi_noise_embedding)
#define swi_noise_affine SW_ISA_FN(swi_noise_affine)
#define swi_noise_move SW_ISA_FN(swi_noise_move)
#define swi_noise_gradient_bytes SW_ISA_FN(swi_noise_gradient_bytes)
#define swi_noise_gradient SW_ISA_FN(swi_noise_gradient)

void swi_noise_source_of(swi_noise_source *from, const sw_noise_spec *spec, sw_noise_part part,
                         const sw_noise_at *at);
/* to[i] = number first + i, i < n. */
void swi_noise_draw(float *to, int64_t first, int64_t n, const swi_noise_source *from);
/* The words of blocks [first, first + n), four each; room for 8 blocks more than n. */
void swi_noise_words(uint32_t *to, int64_t first, int64_t n, const swi_noise_source *from);

void swi_noise_fill(float *to, int64_t first, int64_t n, const sw_noise_spec *spec,
                    sw_noise_part part, const sw_noise_at *at);
size_t swi_noise_linear_bytes(const swi_noise_attrs *a, int64_t batch, int threads);
void swi_noise_linear(float *y, const float *x, int64_t batch, const sw_noise_layer *l,
                      void *scratch, const sw_par *par);
size_t swi_noise_conv_bytes(const swi_noise_attrs *a, const sw_conv *s, int threads);
void swi_noise_conv(float *y, const float *x, const sw_conv *s, const sw_noise_layer *l,
                    void *scratch, const sw_par *par);
void swi_noise_embedding(float *y, const sw_ids *ids, const sw_noise_layer *l,
                         const sw_par *par);
void swi_noise_affine(float *y, const float *x, int64_t batch, int64_t channels, int64_t inner,
                      bool blocks, const sw_noise_layer *l, const sw_par *par);
void swi_noise_move(const sw_noise_shift *m, const sw_par *par);
size_t swi_noise_gradient_bytes(const sw_noise_spec *spec, int64_t n_rows, int threads);
void swi_noise_gradient(const sw_noise_sum *g, void *scratch, const sw_par *par);

#endif
