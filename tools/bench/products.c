/* bench products: matrix products as linear layers ask for them, y = x w^T and its two
 * gradients, beside the machine's peak and, where one is named, a library's. Both work on the
 * same operands, again and again, in blocks of calls that take turns. */
#include "tools/bench/library.h"
#include "tools/bench/operands.h"
#include "tools/bench/peaks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Layers of the whole steps that bench speed times, and squares. */
#define DEFAULT_SHAPES                                                                         \
    "128x64x49,128x24x64,128x120x256,256x256x256,512x512x512,1024x1024x1024,2048x2048x2048,"   \
    "128x4096x4096,512x4096x4096,4096x4096x512,1024x1024x256,1024x8192x256"

typedef struct {
    const char *blas, *shapes, *isa, *product;
    int64_t threads, rounds;
    bool json, quiet;
} products_opts;

/* x (m, k), w (n, k), y and dy (m, n). */
typedef struct {
    int64_t m, n, k;
} shape;

static const char *const names[BENCH_LAYER_PRODUCTS] = {"forward", "input", "weight"};

enum { OURS, THEIRS, SIDES };

typedef struct {
    const products_opts *opts;
    sw_isa isa;
    sw_pool *pool;
    bench_library blas;
    bench_peaks peaks;
    bench_operands operands; /* of a row */
    cli_times times[SIDES], peak;
} bench;

/* ---- one product ------------------------------------------------------------------------- */

static void call(const bench *b, int side)
{
    const bench_operands *o = &b->operands;
    if (side == THEIRS)
        bench_library_run(&b->blas, &o->there);
    else
        sw_dense(b->isa)->gemm(&o->here, o->scratch, swi_pool_par(b->pool));
}

enum { BLOCK_NS = 2000000, BLOCK_CALLS = 64, WARM_BELOW_NS = 20000000 };

/* Calls for two milliseconds, at least one; short ones after one that wakes the threads. */
static void run_block(bench *b, int side)
{
    uint64_t before = cli_clock_ns(), all = 0;
    const cli_times *seen = &b->times[side];
    if (seen->n == 0 || seen->min < WARM_BELOW_NS) {
        call(b, side);
        before = cli_clock_ns();
    }
    for (int i = 0; i < BLOCK_CALLS && all < BLOCK_NS; i++) {
        call(b, side);
        const uint64_t now = cli_clock_ns();
        cli_times_add(&b->times[side], now - before);
        all += now - before;
        before = now;
    }
}

/* Both results are rounded sums of k products of numbers below 1. */
static sw_status compare(const bench_operands *o, const char *which)
{
    const sw_gemm *g = &o->here;
    const double most = 1e-6 * (double)g->k + 1e-5;
    for (int64_t i = 0; i < g->m * g->n; i++) {
        const double ours = (double)g->c[i], theirs = (double)o->there.c[i];
        if (!(fabs(ours - theirs) <= most))
            return sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                "%s, %lld x %lld by %lld: the library has %g where the "
                                "result is %g",
                                which, (long long)g->m, (long long)g->n, (long long)g->k,
                                theirs, ours);
    }
    return SW_OK;
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
    if (b->opts->blas != NULL)
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
    if (b->opts->blas != NULL) {
        bench_put(json, "library", &r->side[THEIRS]);
        sw_json_put_f64(json, "library_gflops", gflops(r, r->side[THEIRS].min));
    }
    sw_json_end(json);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static sw_status run_rounds(bench *b, row *r, int sides)
{
    for (int64_t round = 0; round < b->opts->rounds && !cli_interrupted(); round++) {
        cli_times_add(&b->peak, bench_peaks_flops(&b->peaks, b->isa, swi_pool_par(b->pool)));
        for (int turn = 0; turn < sides; turn++) {
            const int side = (int)((round + turn) % sides);
            run_block(b, side);
            if (side == THEIRS)
                bench_library_rest();
        }
        if (round == 0 && sides == SIDES)
            SW_TRY(compare(&b->operands, names[r->which]));
    }
    for (int k = 0; k < sides; k++)
        r->side[k] = cli_times_summary(&b->times[k]);
    r->peak = cli_times_summary(&b->peak);
    return SW_OK;
}

static sw_status measure(bench *b, row *r)
{
    const int sides = b->opts->blas != NULL ? SIDES : 1;
    const bench_product p =
        bench_product_of_layer((bench_of_layer)r->which, r->s.m, r->s.n, r->s.k);
    sw_status status = bench_operands_take(&b->operands, &p, b->isa);
    if (status == SW_OK)
        status = cli_times_init(&b->peak, (uint64_t)b->opts->rounds);
    for (int k = 0; k < sides && status == SW_OK; k++)
        status = cli_times_init(&b->times[k], (uint64_t)b->opts->rounds * BLOCK_CALLS);
    if (status == SW_OK)
        status = run_rounds(b, r, sides);
    for (int k = 0; k < sides; k++)
        cli_times_free(&b->times[k]);
    cli_times_free(&b->peak);
    bench_operands_give(&b->operands);
    return status;
}

static bool chosen(const products_opts *o, int which)
{
    return strcmp(o->product, "all") == 0 || strcmp(o->product, names[which]) == 0;
}

static sw_status measure_shape(bench *b, shape s, sw_json *json)
{
    for (int i = 0; i < BENCH_LAYER_PRODUCTS && !cli_interrupted(); i++) {
        row r = {.s = s, .which = i};
        if (!chosen(b->opts, i))
            continue;
        SW_TRY(measure(b, &r));
        if (cli_interrupted())
            break;
        if (json != NULL)
            put_row(json, b, &r);
        else
            print_row(b, &r);
    }
    return SW_OK;
}

/* "512x256x64" at *text; the text goes on after it. */
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
               o->blas != NULL && b->blas.threads_by == NULL
                   ? "how many threads the library has is its own choice\n"
                   : "");
    printf("%-15s %-8s %6s %7s %7s %6s", "M x N x K", "", "quiet", "best", "median", "peak %");
    if (o->blas != NULL)
        printf(" %8s %7s %6s %6s", "library", "median", "ratio", "median");
    printf("\n");
}

enum { MOST_SHAPES = 64, PEAK_SAMPLES = 20 };

static sw_status run_all(bench *b, const shape *shapes, int n, sw_json *json)
{
    const products_opts *o = b->opts;
    SW_TRY(swi_pool_create(&b->pool, (int)o->threads, 1));
    if (o->blas != NULL)
        SW_TRY(bench_library_open(&b->blas, o->blas, (int)o->threads));
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
        return cli_library_error(status, b.blas.sgemm == NULL && o->blas != NULL);
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
        {"--library", "FILE", CLI_WORD, &o.blas, NULL,
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
