/* Shared by the kernels of noise of one instruction set. */
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

#define swi_noise_fill SW_KERNEL(noise, fill)
#define swi_noise_source_of SW_ISA_FN(swi_noise_source_of)
#define swi_noise_draw SW_ISA_FN(swi_noise_draw)
#define swi_noise_words SW_ISA_FN(swi_noise_words)
#define swi_noise_words_of SW_ISA_FN(swi_noise_words_of)
#define swi_noise_piece SW_ISA_FN(swi_noise_piece)
#define swi_noise_elements_of SW_ISA_FN(swi_noise_elements_of)
#define swi_noise_row SW_ISA_FN(swi_noise_row)
#define swi_noise_permutation SW_ISA_FN(swi_noise_permutation)
#define swi_noise_is_product SW_ISA_FN(swi_noise_is_product)
#define swi_noise_product_bytes SW_ISA_FN(swi_noise_product_bytes)
#define swi_noise_product SW_ISA_FN(swi_noise_product)
#define swi_noise_matrix SW_KERNEL(noise, elements)

void swi_noise_source_of(swi_noise_source *from, const sw_noise_spec *spec, sw_noise_part part,
                         const sw_noise_at *at);
/* The same numbers of another direction. */
static inline void swi_noise_turn(swi_noise_source *from, uint32_t direction)
{
    from->counter[2] = direction;
}
/* to[i] = number first + i, i < n. */
void swi_noise_draw(float *to, int64_t first, int64_t n, const swi_noise_source *from);
/* The words of blocks [first, first + n), four each; room for 8 blocks more than n. */
void swi_noise_words(uint32_t *to, int64_t first, int64_t n, const swi_noise_source *from);

/* The first `words` words of each of the directions [first, first + n): to (n, words). */
void swi_noise_words_of(uint32_t *to, int64_t words, uint32_t first, int64_t n,
                        const swi_noise_source *from);

/* ---- rows of E ----------------------------------------------------------------------------
 */

/* Elements of E by rows, of one direction. Values of columns are made for a piece of them and
 * stay while the next rows ask for the same piece: walk through columns outside, rows inside.
 * 68 KiB, for the stack. */
enum { SWI_NOISE_KEPT = 8192, SWI_NOISE_RANK = 64, SWI_NOISE_AHEAD = 32 };
typedef struct {
    const sw_noise_spec *spec;
    sw_noise_direction d;
    swi_noise_source elements, rows, cols;
    int64_t col, n; /* the piece; n 0: none */
    int64_t row;    /* LOW_RANK: rows [row, row + AHEAD) of A are there; -1: none */
    union {
        float cols_of[SWI_NOISE_KEPT];    /* B (rank, n); signs */
        uint32_t channel[SWI_NOISE_KEPT]; /* where channels go */
    };
    float rows_of[SWI_NOISE_KEPT]; /* A (rank, AHEAD); a row of S */
} swi_noise_elements;

/* Columns that a piece may have at most. */
int64_t swi_noise_piece(const sw_noise_spec *spec);
void swi_noise_elements_of(swi_noise_elements *e, const sw_noise_spec *spec,
                           const sw_noise_at *at, float sigma);
/* to = E(row, [col, col + n)), n at most swi_noise_piece. w: the parameter's elements there,
 * for DROPOUT. false: all are 0, and `to` has not been written. */
bool swi_noise_row(float *to, swi_noise_elements *e, int64_t row, int64_t col, int64_t n,
                   const float *w);

/* ---- linear layers whose noise is one matrix for all directions ---------------------------
 */

/* to[i] = sw_bijection_at(b, i), i < b->n; room for b->n. */
void swi_noise_permutation(uint32_t *to, const sw_bijection *b);
/* Whether the product below takes this noise: sign-flip, permuted, of no enormous rows. */
bool swi_noise_is_product(const swi_noise_attrs *a);
size_t swi_noise_product_bytes(const swi_noise_attrs *a, int64_t batch, int threads);
void swi_noise_product(float *y, const float *x, int64_t batch, const sw_noise_layer *l,
                       void *scratch, const sw_par *par);

#endif
