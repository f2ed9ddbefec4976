/* A library of matrix products that a measurement is held against: any shared object that has
 * cblas_sgemm, opened when it is named. */
#ifndef STEPWELL_BENCH_LIBRARY_H
#define STEPWELL_BENCH_LIBRARY_H

#include "kernels/dense.h"
#include "tools/cli/cli.h"

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

#endif
