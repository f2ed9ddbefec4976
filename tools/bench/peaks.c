/* The machine's peaks: multiply-adds on registers, and memory that no cache holds; a shared
 * object with cblas_sgemm; operands on pages of their own.
 *
 * For a peak each thread runs some chains of multiply-adds that do not depend on each other:
 * more than units times latency, fewer than registers. A sample is short, so that the best of
 * many is one that nothing interrupted. */
#include "tools/bench/peaks.h"
#include "kernels/halves.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
    if (found > peaks->peak_gflops) {
        peaks->peak_gflops = found;
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
        peaks->peak_read_gb_per_s =
            read > peaks->peak_read_gb_per_s ? read : peaks->peak_read_gb_per_s;
        peaks->peak_mixed_gb_per_s =
            mixed > peaks->peak_mixed_gb_per_s ? mixed : peaks->peak_mixed_gb_per_s;
        (void)bench_peaks_flops(peaks, isa, par);
    }
    sw_heap_free(block, SW_HEAP_DATASETS, bytes);
    return SW_OK;
}

void bench_peaks_put(bench *b, const bench_peaks *peaks)
{
    typedef bench_peaks row;
    static const bench_field fields[] = {
        BENCH_FIELD(REAL, peak_gflops, "peaks of this run, GFLOP/s", 0),
        BENCH_FIELD(REAL, peak_read_gb_per_s, "GB/s read", 0),
        BENCH_FIELD(REAL, peak_mixed_gb_per_s, "mixed", 0)};
    bench_peaks known = *peaks;
    if (known.peak_mixed_gb_per_s == 0.0)
        known.peak_read_gb_per_s = known.peak_mixed_gb_per_s = (double)NAN;
    bench_facts(b, fields, &known);
}

/* ---- operands ---------------------------------------------------------------------------- */

bench_product bench_product_of_layer(bench_of_layer which, int64_t m, int64_t n, int64_t k)
{
    if (which == BENCH_FORWARD)
        return (bench_product){.m = m, .n = n, .k = k, .count = 1, .turn_b = true};
    if (which == BENCH_INPUT)
        return (bench_product){.m = m, .n = k, .k = n, .count = 1};
    return (bench_product){.m = n, .n = k, .k = m, .count = 1, .turn_a = true};
}

enum { PAGE = 4096 };

static size_t pages(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + PAGE - 1) / PAGE * PAGE;
}

sw_status bench_operands_take(bench_operands *o, const bench_product *p, sw_isa isa,
                              sw_bf16_order order)
{
    const size_t a = pages(p->m * p->k), b = pages(p->k * p->n), c = pages(p->m * p->n);
    o->bytes = a + b + 2 * c + PAGE +
               sw_dense(isa)->gemm_bytes(p->m, p->n, p->k, order != SW_ORDER_NONE);
    SW_TRY(sw_heap_alloc(&o->block, SW_HEAP_DATASETS, o->bytes));
    unsigned char *at = o->block;
    at += (PAGE - (uintptr_t)at % PAGE) % PAGE;
    float *x = (float *)(void *)at;
    o->here =
        (sw_gemm)SW_INIT(.a = x, .b = (float *)(void *)(at + a),
                         .c = (float *)(void *)(at + a + b), .a_row = p->turn_a ? 1 : p->k,
                         .a_col = p->turn_a ? p->m : 1, .b_row = p->turn_b ? 1 : p->n,
                         .b_col = p->turn_b ? p->k : 1, .m = p->m, .n = p->n, .k = p->k,
                         .accumulate = p->adds, .order = order,
                         .a_half = order != SW_ORDER_NONE, .b_half = order != SW_ORDER_NONE);
    o->there = o->here;
    o->there.c = (float *)(void *)(at + a + b + c);
    o->scratch = at + a + b + 2 * c;
    uint32_t state = 1;
    for (size_t i = 0; i < (a + b) / sizeof *x; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
        if (order != SW_ORDER_NONE) /* the second half is not read */
            ((uint16_t *)(void *)x)[i] = sw_bf16_round(x[i]);
    }
    return SW_OK;
}

void bench_operands_give(bench_operands *o)
{
    sw_heap_free(o->block, SW_HEAP_DATASETS, o->bytes);
    *o = (bench_operands){0};
}

/* ---- a library --------------------------------------------------------------------------- */

/* Values of the interface. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TURNED = 112 };

static bool find(void *library, const char *name, void **out)
{
    return sw_library_symbol(library, name, out) == SW_OK;
}

sw_status bench_library_open(bench_library *l, const char *file, int threads)
{
    static const char *const setters[] = {"MKL_Set_Num_Threads", "openblas_set_num_threads",
                                          "bli_thread_set_num_threads"};
    void *library, *found;
    /* How long idle threads turn before they sleep, 2 ms and about as much: by default they
     * would take a core for 200 ms. Settings of the user stay. */
    (void)setenv("KMP_BLOCKTIME", "2", 0);
    (void)setenv("OPENBLAS_THREAD_TIMEOUT", "22", 0);
    if (sw_library_open(&library, file) != SW_OK || !find(library, "cblas_sgemm", &found))
        return SW_IO; /* a file that is not what it ought to be; the message says it */
    memcpy(&l->sgemm, &found, sizeof found);
    l->threads_by = NULL;
    for (size_t i = 0; i < sizeof setters / sizeof *setters && l->threads_by == NULL; i++)
        if (find(library, setters[i], &found)) {
            void (*set)(int threads);
            memcpy(&set, &found, sizeof found);
            set(threads);
            l->threads_by = setters[i];
        }
    return SW_OK;
}

void bench_library_run(const bench_library *l, const sw_gemm *g)
{
    const bool turn_a = g->a_col != 1, turn_b = g->b_col != 1;
    l->sgemm(ROW_MAJOR, turn_a ? TURNED : AS_IT_IS, turn_b ? TURNED : AS_IT_IS, (int)g->m,
             (int)g->n, (int)g->k, 1.0f, g->a, (int)(turn_a ? g->a_col : g->a_row), g->b,
             (int)(turn_b ? g->b_col : g->b_row), g->accumulate ? 1.0f : 0.0f, g->c,
             (int)(g->c_row > 0 ? g->c_row : g->n));
}

static uint64_t process_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void bench_library_rest(void)
{
    const struct timespec while_ = {0, 500000};
    for (int i = 0; i < 2000; i++) {
        const uint64_t before = process_ns();
        nanosleep(&while_, NULL);
        if (process_ns() - before < 100000)
            return;
    }
}
