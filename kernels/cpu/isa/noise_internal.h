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

#define swi_noise_source_of SW_ISA_FN(swi_noise_source_of)
#define swi_noise_draw SW_ISA_FN(swi_noise_draw)
#define swi_noise_words SW_ISA_FN(swi_noise_words)
#define swi_noise_words_of SW_ISA_FN(swi_noise_words_of)
#define swi_noise_fill SW_ISA_FN(swi_noise_fill)
#define swi_noise_linear_bytes SW_ISA_FN(swi_noise_linear_bytes)
#define swi_noise_linear SW_ISA_FN(swi_noise_linear)
#define swi_noise_piece SW_ISA_FN(swi_noise_piece)
#define swi_noise_elements_of SW_ISA_FN(swi_noise_elements_of)
#define swi_noise_row SW_ISA_FN(swi_noise_row)
#define swi_noise_permutation SW_ISA_FN(swi_noise_permutation)
#define swi_noise_is_product SW_ISA_FN(swi_noise_is_product)
#define swi_noise_product_bytes SW_ISA_FN(swi_noise_product_bytes)
#define swi_noise_product SW_ISA_FN(swi_noise_product)
#define swi_noise_conv SW_ISA_FN(swi_noise_conv)
#define swi_noise_embedding SW_ISA_FN(swi_noise_embedding)
#define swi_noise_affine SW_ISA_FN(swi_noise_affine)
#define swi_noise_matrix SW_ISA_FN(swi_noise_matrix)
#define swi_noise_gradient_bytes SW_ISA_FN(swi_noise_gradient_bytes)
#define swi_noise_gradient SW_ISA_FN(swi_noise_gradient)
#define swi_noise_step SW_ISA_FN(swi_noise_step)

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

void swi_noise_fill(float *to, int64_t first, int64_t n, const sw_noise_spec *spec,
                    sw_noise_part part, const sw_noise_at *at);
size_t swi_noise_linear_bytes(const swi_noise_attrs *a, int64_t batch, int threads);
void swi_noise_linear(float *y, const float *x, int64_t batch, int64_t out,
                      const sw_noise_layer *l, void *scratch, const sw_par *par);
void swi_noise_conv(float *y, const float *x, const sw_conv *s, const sw_noise_layer *l,
                    const sw_par *par);
void swi_noise_embedding(float *y, const sw_ids *ids, const float *table,
                         const sw_noise_layer *l, const sw_par *par);
void swi_noise_affine(const sw_noise_affine *f, const sw_noise_layer *l, const sw_par *par);
void swi_noise_matrix(float *to, int64_t first, int64_t n, const sw_noise_spec *spec,
                      const sw_noise_at *at, float sigma, const float *w);
size_t swi_noise_gradient_bytes(const sw_noise_spec *spec, int64_t n_rows, int64_t n);
void swi_noise_gradient(const sw_noise_sum *g, void *scratch, const sw_par *par);
void swi_noise_step(float *theta, const swi_move_attrs *a, const sw_noise_at *at,
                    const float *numbers, const sw_par *par);

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
