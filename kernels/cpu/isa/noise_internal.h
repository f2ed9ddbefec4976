/* Shared by the kernels of noise of one instruction set. */
#pragma once

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
#define swi_noise_matrix SW_KERNEL(noise, elements)

void swi_noise_source_of(swi_noise_source *from, const sw_noise_spec *spec, sw_noise_part part,
                         const sw_noise_at *at);
/* The same numbers of another direction. */
static inline void swi_noise_turn(swi_noise_source *from, uint32_t direction)
{
    from->counter[2] = direction;
}
/* The noise of direction first + d of a launch. */
static inline sw_noise_at swi_noise_at(const sw_noise_layer *l, int64_t d)
{
    return (sw_noise_at){l->seed, l->generation, l->first + (uint32_t)d};
}
/* e[i] *= sigmas[at + i], i < n; sigmas NULL: 1. */
static inline void swi_noise_times(float *e, const float *sigmas, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n && sigmas != NULL; i++)
        e[i] *= sigmas[at + i];
}
/* to[i] = number first + i, i < n. */
void swi_noise_draw(float *to, int64_t first, int64_t n, const swi_noise_source *from);
/* The words of blocks [first, first + n), four each; room for 8 blocks more than n. */
void swi_noise_words(uint32_t *to, int64_t first, int64_t n, const swi_noise_source *from);

/* The first `words` words of each of the directions [first, first + n): to (n, words). */
void swi_noise_words_of(uint32_t *to, int64_t words, uint32_t first, int64_t n,
                        const swi_noise_source *from);

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

/* to[i] = sw_bijection_at(b, i), i < b->n; room for b->n. */
void swi_noise_permutation(uint32_t *to, const sw_bijection *b);
