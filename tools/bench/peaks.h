/* Yardsticks of products and ops: the machine's peaks, measured in the same run, and a
 * library of matrix products; and operands to multiply. */
#pragma once

#include "kernels/dense.h"
#include "kernels/dispatch.h"
#include "tools/bench/bench.h"

/* The best of all samples so far; NaN where none was taken. Bytes are those that loops load and
 * store. */
typedef struct {
    double peak_gflops; /* 1e9 operations a second: multiply-adds of registers, two each */
    double peak_read_gb_per_s;  /* all of PEAKS_BYTES is read */
    double peak_mixed_gb_per_s; /* y += a x, each of half of them: two reads and a write */
    uint64_t flops_ns;          /* the least that a sample of the first took */
} bench_peaks;

/* Past the last level of cache that a core has, several times. */
#define PEAKS_BYTES ((size_t)256 << 20)

/* One sample of about a millisecond: multiply-adds on registers, with the vectors of `isa`.
 * How long it took: far above the least, something else ran. */
uint64_t bench_peaks_flops(bench_peaks *peaks, sw_isa isa, const sw_par *par);
/* `samples` of each rate, the memory's on PEAKS_BYTES that are given back at the end. */
SW_MUST_USE sw_status bench_peaks_measure(bench_peaks *peaks, int samples, sw_isa isa,
                                          const sw_par *par);
void bench_peaks_put(bench *b, const bench_peaks *peaks);

/* `count` products c (m, n) = a (m, k) b (k, n); turned: the rows of a lie along k, the rows of
 * b along n. */
typedef struct {
    int64_t m, n, k, count;
    bool turn_a, turn_b, adds;
} bench_product;

/* Those of a layer with x (m, k), w (n, k), y (m, n): y = x w^T, dx = dy w, dw = dy^T x. */
typedef enum { BENCH_FORWARD, BENCH_INPUT, BENCH_WEIGHT, BENCH_LAYER_PRODUCTS } bench_of_layer;
bench_product bench_product_of_layer(bench_of_layer which, int64_t m, int64_t n, int64_t k);

/* Random operands in -1..1, two results, and the kernel's scratch. */
typedef struct {
    void *block;
    size_t bytes;
    sw_gemm here, there; /* with a result each */
    void *scratch;
} bench_operands;
/* In an order of bf16 both operands are of bf16; `order` has its instruction. */
SW_MUST_USE sw_status bench_operands_take(bench_operands *o, const bench_product *p, sw_isa isa,
                                          sw_bf16_order order);
void bench_operands_give(bench_operands *o);

/* Any shared object that has cblas_sgemm, opened when it is named. */
typedef struct bench_library {
    void (*sgemm)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                  const float *a, int a_row, const float *b, int b_row, float beta, float *c,
                  int c_row);
    const char *threads_by; /* what set its threads; NULL: it has no such call */
} bench_library;

/* Open the file and have it run on so many threads, where it has a call for that. It stays
 * open. */
SW_MUST_USE sw_status bench_library_open(bench_library *library, const char *file, int threads);
/* The product of a launch, with the operands as they lie. A bias is not added. */
void bench_library_run(const bench_library *library, const sw_gemm *g);
/* Wait until its threads sleep: those that still turn would take a core from what is timed
 * next. */
void bench_library_rest(void);
