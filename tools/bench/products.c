/* bench products: matrix products as linear layers ask for them, y = x w^T and its two
 * gradients, beside the machine's peak and, where one is named, a library's. Both work on the
 * same operands, again and again, in blocks of calls that take turns. */
#include "alloc/base/mem.h"
#include "tools/bench/bench.h"
#include "tools/bench/library.h"
#include "tools/bench/peaks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Layers of the whole steps that bench speed times, and squares. */
#define DEFAULT_SHAPES                                                                         \
    "128x64x49,128x24x64,128x120x256,256x256x256,512x512x512,1024x1024x1024,2048x2048x2048,"   \
    "128x4096x4096,512x4096x4096,4096x4096x512,1024x1024x256,1024x8192x256"

typedef struct {
    const char *library, *shapes, *isa, *product;
    int64_t threads, rounds;
    bool json, quiet;
} products_opts;

/* x (m, k), w (n, k), y and dy (m, n). */
typedef struct {
    int64_t m, n, k;
} shape;

enum { FORWARD, INPUT, WEIGHT, PRODUCTS };
static const char *const names[PRODUCTS] = {"forward", "input", "weight"};

enum { OURS, THEIRS, SIDES };

typedef struct {
    const products_opts *opts;
    sw_isa isa;
    sw_pool *pool;
    bench_library library;
    bench_peaks peaks;
    void *block, *scratch; /* of one shape */
    size_t block_bytes, scratch_bytes;
    float *a, *b, *c[SIDES];
    cli_times times[SIDES], peak; /* of a row */
} bench;

/* ---- one product ------------------------------------------------------------------------- */

/* Operands as ops/linear.c has them. */
static sw_gemm product_of(const bench *b, shape s, int which, float *c)
{
    sw_gemm g = {.c = c, .a = b->a, .b = b->b, .a_col = 1, .b_col = 1};
    switch (which) {
    case FORWARD: /* y = x w^T */
        g.m = s.m, g.n = s.n, g.k = s.k;
        g.a_row = s.k, g.b_row = 1, g.b_col = s.k;
        break;
    case INPUT: /* dx = dy w */
        g.m = s.m, g.n = s.k, g.k = s.n;
        g.a_row = s.n, g.b_row = s.k;
        break;
    default: /* dw = dy^T x */
        g.m = s.n, g.n = s.k, g.k = s.m;
        g.a_row = 1, g.a_col = s.n, g.b_row = s.k;
    }
    return g;
}

static void call(bench *b, const sw_gemm *g, int side)
{
    if (side == THEIRS)
        bench_library_run(&b->library, g);
    else
        sw_dense(b->isa)->gemm(g, b->scratch, swi_pool_par(b->pool));
}

enum { BLOCK_NS = 2000000, BLOCK_CALLS = 64, WARM_BELOW_NS = 20000000 };

/* Calls for two milliseconds, at least one; short ones behind one that wakes the threads. */
static void run_block(bench *b, const sw_gemm *g, int side)
{
    uint64_t before = cli_clock_ns(), all = 0;
    const cli_times *seen = &b->times[side];
    if (seen->n == 0 || seen->min < WARM_BELOW_NS) {
        call(b, g, side);
        before = cli_clock_ns();
    }
    for (int i = 0; i < BLOCK_CALLS && all < BLOCK_NS; i++) {
        call(b, g, side);
        const uint64_t now = cli_clock_ns();
        cli_times_add(&b->times[side], now - before);
        all += now - before;
        before = now;
    }
}

/* Both results are rounded sums of k products of numbers below 1. */
static sw_status compare(const bench *b, const sw_gemm *g, const char *which)
{
    const double most = 1e-6 * (double)g->k + 1e-5;
    for (int64_t i = 0; i < g->m * g->n; i++) {
        const double apart = fabs((double)b->c[OURS][i] - (double)b->c[THEIRS][i]);
        if (!(apart <= most))
            return sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                "%s, %lld x %lld by %lld: the library has %g where the "
                                "result is %g",
                                which, (long long)g->m, (long long)g->n, (long long)g->k,
                                (double)b->c[THEIRS][i], (double)b->c[OURS][i]);
    }
    return SW_OK;
}

/* ---- memory of a shape ------------------------------------------------------------------- */

static size_t rounded(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + 4095) / 4096 * 4096;
}

static float *cut(unsigned char **at, size_t bytes)
{
    float *found = (float *)(void *)*at;
    *at += bytes;
    return found;
}

/* All three products have operands and results of at most the largest of the three matrices. */
static sw_status take(bench *b, shape s)
{
    const int64_t xw = s.k * (s.m > s.n ? s.m : s.n), y = s.m * s.n;
    const size_t bytes = rounded(xw > y ? xw : y);
    const sw_dense_kernels *dense = sw_dense(b->isa);
    b->scratch_bytes = 0;
    for (int i = 0; i < PRODUCTS; i++) {
        const sw_gemm g = product_of(b, s, i, NULL);
        const size_t scratch = dense->gemm_bytes(g.m, g.n, g.k, g.a_col != 1);
        b->scratch_bytes = scratch > b->scratch_bytes ? scratch : b->scratch_bytes;
    }
    b->block_bytes = 4 * bytes + b->scratch_bytes + 4096;
    SW_TRY(sw_heap_alloc(&b->block, SW_HEAP_DATASETS, b->block_bytes));
    unsigned char *at = b->block;
    at += (4096 - (uintptr_t)at % 4096) % 4096;
    b->a = cut(&at, bytes);
    b->b = cut(&at, bytes);
    b->c[OURS] = cut(&at, bytes);
    b->c[THEIRS] = cut(&at, bytes);
    b->scratch = at;
    uint32_t state = 1;
    for (size_t i = 0; i < 2 * bytes / sizeof(float); i++) {
        state = state * 1664525u + 1013904223u;
        b->a[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    return SW_OK;
}

static void give(bench *b)
{
    sw_heap_free(b->block, SW_HEAP_DATASETS, b->block_bytes);
    b->block = NULL;
}

/* ---- the table --------------------------------------------------------------------------- */

typedef struct {
    shape s;
    int which;
    cli_summary side[SIDES];
    cli_summary peak; /* its samples between the blocks */
} row;

static double gflops(const row *r, uint64_t ns)
{
    return 2.0 * (double)r->s.m * (double)r->s.n * (double)r->s.k / (double)(ns > 0 ? ns : 1);
}

static double ratio(uint64_t a, uint64_t b)
{
    return (double)a / (double)(b > 0 ? b : 1);
}

/* Of the best of the run. */
static double quiet(const bench *b, const row *r)
{
    return 100.0 * ratio(b->peaks.flops_ns, r->peak.median);
}

static void print_row(const bench *b, const row *r)
{
    const cli_summary *ours = &r->side[OURS], *theirs = &r->side[THEIRS];
    char text[64];
    snprintf(text, sizeof text, "%lldx%lldx%lld", (long long)r->s.m, (long long)r->s.n,
             (long long)r->s.k);
    printf("%-15s %-8s %6.0f %7.1f %7.1f %6.1f", text, names[r->which], quiet(b, r),
           gflops(r, ours->min), gflops(r, ours->median),
           100.0 * gflops(r, ours->min) / b->peaks.gflops);
    if (b->opts->library != NULL)
        printf(" %8.1f %7.1f %6.2f %6.2f", gflops(r, theirs->min), gflops(r, theirs->median),
               ratio(theirs->min, ours->min), ratio(theirs->median, ours->median));
    printf("\n");
    cli_flush();
}

static void put_row(sw_json *json, const bench *b, const row *r)
{
    sw_json_begin(json, '{');
    sw_json_put_i64(json, "m", r->s.m);
    sw_json_put_i64(json, "n", r->s.n);
    sw_json_put_i64(json, "k", r->s.k);
    sw_json_put_string(json, "product", names[r->which]);
    bench_put(json, "stepwell", &r->side[OURS]);
    sw_json_put_f64(json, "gflops", gflops(r, r->side[OURS].min));
    sw_json_put_f64(json, "quiet_percent", quiet(b, r));
    if (b->opts->library != NULL) {
        bench_put(json, "library", &r->side[THEIRS]);
        sw_json_put_f64(json, "library_gflops", gflops(r, r->side[THEIRS].min));
    }
    sw_json_end(json);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static sw_status run_rounds(bench *b, row *r, int sides)
{
    sw_gemm g[SIDES];
    for (int k = 0; k < sides; k++)
        g[k] = product_of(b, r->s, r->which, b->c[k]);
    for (int64_t round = 0; round < b->opts->rounds && !cli_interrupted(); round++) {
        cli_times_add(&b->peak, bench_peaks_flops(&b->peaks, b->isa, swi_pool_par(b->pool)));
        for (int turn = 0; turn < sides; turn++) {
            const int side = (int)((round + turn) % sides);
            run_block(b, &g[side], side);
            if (side == THEIRS)
                bench_library_rest();
        }
        if (round == 0 && sides == SIDES)
            SW_TRY(compare(b, &g[OURS], names[r->which]));
    }
    for (int k = 0; k < sides; k++)
        r->side[k] = cli_times_summary(&b->times[k]);
    r->peak = cli_times_summary(&b->peak);
    return SW_OK;
}

static sw_status measure(bench *b, row *r)
{
    const int sides = b->opts->library != NULL ? SIDES : 1;
    sw_status status = cli_times_init(&b->peak, (uint64_t)b->opts->rounds);
    for (int k = 0; k < sides && status == SW_OK; k++)
        status = cli_times_init(&b->times[k], (uint64_t)b->opts->rounds * BLOCK_CALLS);
    if (status == SW_OK)
        status = run_rounds(b, r, sides);
    for (int k = 0; k < sides; k++)
        cli_times_free(&b->times[k]);
    cli_times_free(&b->peak);
    return status;
}

static bool chosen(const products_opts *o, int which)
{
    return strcmp(o->product, "all") == 0 || strcmp(o->product, names[which]) == 0;
}

static sw_status measure_shape(bench *b, shape s, sw_json *json)
{
    sw_status status = take(b, s);
    for (int i = 0; i < PRODUCTS && status == SW_OK && !cli_interrupted(); i++) {
        row r = {.s = s, .which = i};
        if (!chosen(b->opts, i))
            continue;
        status = measure(b, &r);
        if (status != SW_OK || cli_interrupted())
            break;
        if (json != NULL)
            put_row(json, b, &r);
        else
            print_row(b, &r);
    }
    give(b);
    return status;
}

/* "512x256x64" at *text; the text goes on behind it. */
static bool read_shape(const char **text, shape *s)
{
    int64_t *const to[] = {&s->m, &s->n, &s->k};
    for (int i = 0; i < 3; i++) {
        char *end;
        *to[i] = strtoll(*text, &end, 10);
        if (end == *text || *to[i] < 1 || *to[i] > 65536 || (i < 2 && *end != 'x'))
            return false;
        *text = end + (i < 2);
    }
    return **text == '\0' || (*(*text)++ == ',' && **text != '\0');
}

static bool read_shapes(const char *text, shape *to, int most, int *n)
{
    for (*n = 0; *text != '\0'; (*n)++)
        if (*n == most || !read_shape(&text, &to[*n]))
            return false;
    return true;
}

static void print_heading(const bench *b)
{
    const products_opts *o = b->opts;
    if (!o->quiet)
        printf("y = x w^T (forward), dx = dy w (input) and dw = dy^T x (weight); %s, %lld "
               "thread%s\nGFLOP/s of the least and the median time\n%s\n",
               sw_isa_name(b->isa), (long long)o->threads, o->threads == 1 ? "" : "s",
               o->library != NULL && b->library.threads_by == NULL
                   ? "how many threads the library has is its own choice\n"
                   : "");
    printf("%-15s %-8s %6s %7s %7s %6s", "M x N x K", "", "quiet", "best", "median", "peak %");
    if (o->library != NULL)
        printf(" %8s %7s %6s %6s", "library", "median", "ratio", "median");
    printf("\n");
}

enum { MOST_SHAPES = 64, PEAK_SAMPLES = 20 };

static sw_status run_all(bench *b, const shape *shapes, int n, sw_json *json)
{
    const products_opts *o = b->opts;
    SW_TRY(swi_pool_create(&b->pool, (int)o->threads));
    if (o->library != NULL)
        SW_TRY(bench_library_open(&b->library, o->library, (int)o->threads));
    for (int i = 0; i < PEAK_SAMPLES; i++)
        (void)bench_peaks_flops(&b->peaks, b->isa, swi_pool_par(b->pool));
    if (json == NULL)
        print_heading(b);
    for (int i = 0; i < n && !cli_interrupted(); i++)
        SW_TRY(measure_shape(b, shapes[i], json));
    return SW_OK;
}

static int run(const products_opts *o)
{
    bench b = {.opts = o, .isa = sw_cpu_isa()};
    shape shapes[MOST_SHAPES];
    int n;
    sw_json json, *to = o->json ? &json : NULL;
    if (!read_shapes(o->shapes, shapes, MOST_SHAPES, &n))
        return cli_error(CLI_USAGE,
                         "--shape must be MxNxK of numbers from 1 to 65536, with commas "
                         "between at most %d of them (got %s)",
                         MOST_SHAPES, o->shapes);
    for (int i = 0; o->isa != NULL && i <= SW_ISA_AVX512; i++)
        if (strcmp(o->isa, sw_isa_name((sw_isa)i)) == 0) {
            if (i > (int)b.isa)
                return cli_error(CLI_USAGE, "--isa: this machine has no %s", o->isa);
            b.isa = (sw_isa)i;
            break;
        }
    cli_catch_interrupt();
    if (to != NULL) {
        result_json_begin(to);
        sw_json_put_string(to, "isa", sw_isa_name(b.isa));
        sw_json_put_i64(to, "threads", o->threads);
        sw_json_open(to, "products", '[');
    }
    const sw_status status = run_all(&b, shapes, n, to);
    swi_pool_destroy(b.pool);
    if (status != SW_OK) {
        if (to != NULL)
            sw_json_free(to);
        return cli_library_error(status, b.library.sgemm == NULL && o->library != NULL);
    }
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (to == NULL) {
        printf("\npeak: %.1f GFLOP/s, multiply-adds on registers\n", b.peaks.gflops);
        return cli_finish(code);
    }
    sw_json_end(to);
    bench_peaks_put(to, &b.peaks);
    return result_json_end(to, code);
}

int bench_products(int argc, char **argv)
{
    static const char *const products[] = {"all", "forward", "input", "weight", NULL},
                             *const isas[] = {"base", "avx2", "avx512", NULL};
    products_opts o = {0};
    const cli_option options[] = {
        {"--shape", "MxNxK,..", CLI_WORD, &o.shapes, NULL,
         "batch, outputs and inputs of a layer (default: those of the notes)", 0, 0, NULL},
        {"--product", "NAME", CLI_WORD, &o.product, "all", "these alone", 0, 0, products},
        {"--library", "FILE", CLI_WORD, &o.library, NULL,
         "a shared object with cblas_sgemm, to be held against", 0, 0, NULL},
        {"--rounds", "N", CLI_COUNT, &o.rounds, "15", "blocks of 2 ms of each", 1, 1 << 16,
         NULL},
        {"--threads", "N", CLI_COUNT, &o.threads, "1", "threads that compute", 1, 256, NULL},
        {"--isa", "NAME", CLI_WORD, &o.isa, NULL, "instruction set (the best there is)", 0, 0,
         isas},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "no heading", 0, 0, NULL},
    };
    const cli_command command = {
        .name = "bench products",
        .usage = "[options]",
        .about = "Matrix products of linear layers, y = x w^T and both gradients, beside the "
                 "peak of this run and a library's.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .notes = "Shapes by default: 128x64x49, 128x24x64, 128x120x256, squares of 256, 512, "
                 "1024 and 2048, 128x4096x4096, 512x4096x4096, 4096x4096x512, 1024x1024x256, "
                 "1024x8192x256.\n"
                 "Operands are the same in each call, so small ones are in caches. Quiet: the "
                 "median of the peak while a row was measured, in percent of the best of the "
                 "run; below 90, something else ran.\n"
                 "A ratio above 1 is a library that takes longer; what it makes is compared "
                 "with what the kernels make. Its threads are set by MKL_Set_Num_Threads, "
                 "openblas_set_num_threads or bli_thread_set_num_threads, else by variables "
                 "of its own."};
    const int status = cli_parse(&command, argc, argv);
    o.shapes = o.shapes != NULL ? o.shapes : DEFAULT_SHAPES;
    return status == CLI_GO ? run(&o) : status;
}
