/* Threads and instruction sets as kernels see them. Part of the public header. */
#ifndef STEPWELL_PAR_H
#define STEPWELL_PAR_H

/* Threads for a kernel: run body(arg, 0..n_parts-1), each once, and wait. Which thread runs a
 * part must not matter to the bits. With n_threads 1 it is a plain loop; else a part has 256
 * KiB of stack for its frames. */
typedef struct sw_par {
    int n_threads;
    void (*run)(const struct sw_par *par, void (*body)(void *arg, int part), void *arg,
                int n_parts);
} sw_par;

typedef enum { SW_ISA_BASE, SW_ISA_AVX2, SW_ISA_AVX512 } sw_isa;

/* How products of bf16 numbers are summed, in float32: NONE is float32's order. */
typedef enum { SW_ORDER_NONE, SW_ORDER_PAIR, SW_ORDER_TILE } sw_bf16_order;

#endif
