/* Threads and instruction sets as kernels see them. Part of the public header. */
#ifndef STEPWELL_PAR_H
#define STEPWELL_PAR_H

/* Threads for a kernel: run body(arg, 0..n_parts-1), each once, and wait. Which thread runs a
 * part must not matter to the bits. With n_threads 1 it is a plain loop; else a part has 384
 * KiB of stack for its frames. */
typedef struct sw_par {
    int n_threads;
    void (*run)(const struct sw_par *par, void (*body)(void *arg, int part), void *arg,
                int n_parts);
} sw_par;

typedef enum { SW_ISA_BASE, SW_ISA_AVX2, SW_ISA_AVX512 } sw_isa;

/* How products of bf16 numbers are summed, in float32. Each order has the same bits on every
 * processor with FMA. Denormals count as zero, and what is missing at the end of k is zero in
 * both operands. PAIR: for each two of k, c = fma(a0, b0, fma(a1, b1, c)), as VDPBF16PS does.
 * TILE: for each 32 of k, c = c + (e + o), as TDPBF16PS does, where e is the chain of fma over
 * the even k of the 32 from zero, and o the one over the odd k. At SW_ISA_BASE fma is a product
 * and then a sum: the same bits unless a product over- or underflows. NONE is float32.
 *
 * The next two are for kernels: PAIR by VDPBF16PS, TILE by TDPBF16PS, with the same bits. CUDA:
 * a card's, by its library. */
typedef enum {
    SW_ORDER_NONE,
    SW_ORDER_PAIR,
    SW_ORDER_TILE,
    SW_ORDER_PAIR_DOT,
    SW_ORDER_TILE_AMX,
    SW_ORDER_CUDA
} sw_bf16_order;

#endif
