/* The machine's peaks: multiply-adds on registers, and memory that no cache holds.
 *
 * Each thread runs some chains of multiply-adds that do not depend on each other: more than
 * units times latency, fewer than registers. A sample is short, so that the best of many is one
 * that nothing interrupted. */
#include "tools/bench/peaks.h"
#include "alloc/base/mem.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { CHAINS = 12, TURNS = 200000, PARTS_PER_THREAD = 4 };

/* Written by all threads, never read. */
static volatile float sink;

/* ---- arithmetic -------------------------------------------------------------------------- */

/* x = x a + b stays near b / (1 - a): neither denormal nor infinite. */
#define CHAIN_A 0.5f
#define CHAIN_B 1.0f

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void chains_avx512(void *arg, int part)
{
    const __m512 a = _mm512_set1_ps(CHAIN_A), b = _mm512_set1_ps(CHAIN_B);
    __m512 x[CHAINS];
    (void)arg;
    for (int i = 0; i < CHAINS; i++)
        x[i] = _mm512_set1_ps((float)(part + i));
    for (int turn = 0; turn < TURNS; turn++)
        UNROLL
    for (int i = 0; i < CHAINS; i++)
        x[i] = _mm512_fmadd_ps(x[i], a, b);
    for (int i = 1; i < CHAINS; i++)
        x[0] = _mm512_add_ps(x[0], x[i]);
    sink = _mm_cvtss_f32(_mm512_castps512_ps128(x[0]));
}

__attribute__((target("avx2,fma"))) static void chains_avx2(void *arg, int part)
{
    const __m256 a = _mm256_set1_ps(CHAIN_A), b = _mm256_set1_ps(CHAIN_B);
    __m256 x[CHAINS];
    (void)arg;
    for (int i = 0; i < CHAINS; i++)
        x[i] = _mm256_set1_ps((float)(part + i));
    for (int turn = 0; turn < TURNS; turn++)
        UNROLL
    for (int i = 0; i < CHAINS; i++)
        x[i] = _mm256_fmadd_ps(x[i], a, b);
    for (int i = 1; i < CHAINS; i++)
        x[0] = _mm256_add_ps(x[0], x[i]);
    sink = _mm_cvtss_f32(_mm256_castps256_ps128(x[0]));
}
#endif

/* Four lanes of compiler vectors, a product and then a sum, as the base kernels. */
typedef float four __attribute__((vector_size(16)));

static void chains_base(void *arg, int part)
{
    const four a = {CHAIN_A, CHAIN_A, CHAIN_A, CHAIN_A},
               b = {CHAIN_B, CHAIN_B, CHAIN_B, CHAIN_B};
    four x[CHAINS];
    (void)arg;
    for (int i = 0; i < CHAINS; i++)
        x[i] = b * (float)(part + i);
    for (int turn = 0; turn < TURNS; turn++)
        UNROLL
    for (int i = 0; i < CHAINS; i++)
        x[i] = x[i] * a + b;
    for (int i = 1; i < CHAINS; i++)
        x[0] += x[i];
    sink = x[0][0];
}

uint64_t bench_peaks_flops(bench_peaks *peaks, sw_isa isa, const sw_par *par)
{
    static const int lanes[] = {4, 8, 16};
    void (*chains)(void *arg, int part) = chains_base;
    int width = lanes[SW_ISA_BASE];
#if defined(__x86_64__)
    if (isa != SW_ISA_BASE) {
        chains = isa == SW_ISA_AVX512 ? chains_avx512 : chains_avx2;
        width = lanes[isa];
    }
#else
    (void)isa;
#endif
    const int parts = PARTS_PER_THREAD * par->n_threads;
    const uint64_t start = cli_clock_ns();
    par->run(par, chains, NULL, parts);
    const uint64_t ns = cli_clock_ns() - start;
    const double found = 2.0 * CHAINS * TURNS * width * parts / (double)ns;
    if (found > peaks->gflops) {
        peaks->gflops = found;
        peaks->flops_ns = ns;
    }
    return ns;
}

/* ---- memory ------------------------------------------------------------------------------ */

enum { BLOCK = 1 << 18 }; /* floats of a part: 1 MiB */

typedef struct {
    float *x, *y; /* y: the second half */
} halves;

/* Integers, in several sums: a sum of floats is one chain, which waits for itself. */
static void read_part(void *arg, int part)
{
    typedef uint64_t two __attribute__((vector_size(16)));
    const halves *h = arg;
    const two *at = (const two *)(const void *)(h->x + (int64_t)part * BLOCK);
    two a = {0}, b = {0}, c = {0}, d = {0};
    for (int i = 0; i < BLOCK / 4; i += 4) {
        a += at[i];
        b += at[i + 1];
        c += at[i + 2];
        d += at[i + 3];
    }
    a += b + c + d;
    sink = (float)(a[0] + a[1]);
}

static void mixed_part(void *arg, int part)
{
    typedef float sixteen __attribute__((vector_size(64)));
    const halves *h = arg;
    const sixteen *x = (const sixteen *)(const void *)(h->x + (int64_t)part * BLOCK);
    sixteen *y = (sixteen *)(void *)(h->y + (int64_t)part * BLOCK);
    for (int i = 0; i < BLOCK / 16; i++)
        y[i] += 0.5f * x[i];
}

static double rate(const sw_par *par, void (*body)(void *arg, int part), halves *h, int parts,
                   double bytes)
{
    const uint64_t start = cli_clock_ns();
    par->run(par, body, h, parts);
    return bytes / (double)(cli_clock_ns() - start);
}

sw_status bench_peaks_measure(bench_peaks *peaks, int samples, sw_isa isa, const sw_par *par)
{
    void *block;
    const size_t bytes = PEAKS_BYTES + SW_ALIGN;
    const int parts = (int)(PEAKS_BYTES / sizeof(float) / BLOCK);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_DATASETS, bytes));
    halves h = {.x = (float *)(((uintptr_t)block + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN)};
    h.y = h.x + PEAKS_BYTES / sizeof(float) / 2;
    for (size_t i = 0; i < PEAKS_BYTES / sizeof(float); i++) /* pages of zeros may be one */
        h.x[i] = (float)(i % 16);
    for (int i = 0; i < samples && !cli_interrupted(); i++) {
        const double read = rate(par, read_part, &h, parts, (double)PEAKS_BYTES);
        const double mixed = rate(par, mixed_part, &h, parts / 2, 1.5 * (double)PEAKS_BYTES);
        peaks->read = read > peaks->read ? read : peaks->read;
        peaks->mixed = mixed > peaks->mixed ? mixed : peaks->mixed;
        (void)bench_peaks_flops(peaks, isa, par);
    }
    sw_heap_free(block, SW_HEAP_DATASETS, bytes);
    return SW_OK;
}

void bench_peaks_put(sw_json *json, const bench_peaks *peaks)
{
    sw_json_open(json, "peaks", '{');
    sw_json_put_f64(json, "gflops", peaks->gflops);
    sw_json_put_known_f64(json, "read_gb_per_s", peaks->read > 0.0, peaks->read);
    sw_json_put_known_f64(json, "mixed_gb_per_s", peaks->mixed > 0.0, peaks->mixed);
    sw_json_end(json);
}
