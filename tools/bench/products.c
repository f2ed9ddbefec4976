/* bench products: matrix products as linear layers ask for them, y = x w^T and its two
 * gradients, beside the machine's peak and, where one is named, a library's. Both work on the
 * same operands, again and again, in blocks of calls that take turns. */
#include "tools/bench/peaks.h"
#include <stdlib.h>
#include <string.h>

/* Layers of the whole steps that bench speed times, and squares. */
#define DEFAULT_SHAPES                                                                         \
    "128x64x49,128x24x64,128x120x256,256x256x256,512x512x512,1024x1024x1024,2048x2048x2048,"   \
    "128x4096x4096,512x4096x4096,4096x4096x512,1024x1024x256,1024x8192x256"

static struct {
    const char *blas, *shapes, *isa, *product, *order;
    int64_t rounds;
} o;

static const char *const names[BENCH_LAYER_PRODUCTS] = {"forward", "input", "weight"};

static sw_bf16_order order;

enum { OURS, THEIRS, SIDES };

typedef struct {
    bench *out;
    sw_isa isa;
    sw_pool *pool;
    bench_library blas;
    bench_peaks peaks;
    bench_operands operands; /* of a row */
    cli_times times[SIDES], peak;
} products;

/* ---- one product ------------------------------------------------------------------------- */

static void call(const products *b, int side)
{
    if (side == THEIRS)
        bench_library_run(&b->blas, &b->operands.there);
    else
        sw_dense(b->isa)->gemm(&b->operands.here, b->operands.scratch, swi_pool_par(b->pool));
}

enum { BLOCK_NS = 2000000, BLOCK_CALLS = 64, WARM_BELOW_NS = 20000000 };

/* Both results are rounded sums of k products of numbers below 1. */
static sw_status compare(const bench_operands *operands, const char *which)
{
    const sw_gemm *g = &operands->here;
    const double most = 1e-6 * (double)g->k + 1e-5;
    for (int64_t i = 0; i < g->m * g->n; i++) {
        const double ours = (double)g->c[i], theirs = (double)operands->there.c[i];
        if (!(fabs(ours - theirs) <= most))
            return sw_error_set(
                SW_INVALID, __FILE__, __LINE__,
                "%s, %lld x %lld by %lld: the library has %g where the result is %g", which,
                (long long)g->m, (long long)g->n, (long long)g->k, theirs, ours);
    }
    return SW_OK;
}

/* ---- the table --------------------------------------------------------------------------- */

/* clang-format off */
#define PRODUCT_ROW(X, t) \
    X(t, TEXT, shape, "M x N x K", 15) \
    X(t, WORD, product, "", 8) \
    X(t, COUNT, m, NULL, 0) \
    X(t, COUNT, n, NULL, 0) \
    X(t, COUNT, k, NULL, 0) \
    X(t, TIMES, stepwell, NULL, 0) \
    X(t, TIMES, library, NULL, 0) \
    X(t, REAL, quiet_percent, "quiet %", 0) /* the median peak while the row was measured, of the best of the run */ \
    X(t, REAL, gflops, "GFLOP/s", 0) \
    X(t, REAL, median_gflops, "median", 0) \
    X(t, REAL, peak_percent, "peak %", 0) \
    X(t, REAL, library_gflops, "library", 0) \
    X(t, REAL, library_median_gflops, "median", 0) \
    X(t, REAL, ratio, "ratio", 0) \
    X(t, REAL, median_ratio, "median", 0)
/* clang-format on */
BENCH_ROW(row, fields, PRODUCT_ROW);
enum { FIELDS = sizeof fields / sizeof *fields }; /* the last four are of a library */

static void put(products *b, row *r, int sides)
{
    const double work = 2.0 * (double)r->m * (double)r->n * (double)r->k;
    const cli_summary peak = cli_times_summary(&b->peak);
    r->stepwell = cli_times_summary(&b->times[OURS]);
    if (sides == SIDES)
        r->library = cli_times_summary(&b->times[THEIRS]);
    const cli_summary *ours = &r->stepwell, *theirs = &r->library;
    r->quiet_percent = 100.0 * bench_ratio((double)b->peaks.flops_ns, (double)peak.median);
    r->gflops = bench_ratio(work, (double)ours->min);
    r->median_gflops = bench_ratio(work, (double)ours->median);
    r->peak_percent = 100.0 * r->gflops / b->peaks.peak_gflops;
    r->library_gflops = bench_ratio(work, (double)theirs->min);
    r->library_median_gflops = bench_ratio(work, (double)theirs->median);
    r->ratio =
        sides == SIDES ? bench_ratio((double)theirs->min, (double)ours->min) : (double)NAN;
    r->median_ratio = sides == SIDES ? bench_ratio((double)theirs->median, (double)ours->median)
                                     : (double)NAN;
    snprintf(r->shape, sizeof r->shape, "%lldx%lldx%lld", (long long)r->m, (long long)r->n,
             (long long)r->k);
    bench_put_rows(b->out, "products", fields, FIELDS - (sides == SIDES ? 0 : 4), r, 1,
                   sizeof *r);
}

static sw_status run_rounds(products *b, row *r, int sides)
{
    for (int64_t round = 0; round < o.rounds && !cli_interrupted(); round++) {
        cli_times_add(&b->peak, bench_peaks_flops(&b->peaks, b->isa, swi_pool_par(b->pool)));
        for (int turn = 0; turn < sides; turn++) {
            const int side = (int)((round + turn) % sides);
            /* Calls for two milliseconds, at least one; short ones after one that wakes the
             * threads. */
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
            if (side == THEIRS)
                bench_library_rest();
        }
        if (round == 0 && sides == SIDES)
            SW_TRY(compare(&b->operands, r->product));
    }
    if (!cli_interrupted())
        put(b, r, sides);
    return SW_OK;
}

static sw_status measure_row(products *b, row *r, int which)
{
    const int sides = o.blas != NULL ? SIDES : 1;
    const bench_product p = bench_product_of_layer((bench_of_layer)which, r->m, r->n, r->k);
    sw_status status = bench_operands_take(&b->operands, &p, b->isa, order);
    if (status == SW_OK)
        status = cli_times_init(&b->peak, (uint64_t)o.rounds);
    for (int k = 0; k < sides && status == SW_OK; k++)
        status = cli_times_init(&b->times[k], (uint64_t)o.rounds * BLOCK_CALLS);
    if (status == SW_OK)
        status = run_rounds(b, r, sides);
    for (int k = 0; k < sides; k++)
        cli_times_free(&b->times[k]);
    cli_times_free(&b->peak);
    bench_operands_give(&b->operands);
    return status;
}

/* ---- the command ------------------------------------------------------------------------- */

enum { MOST_SHAPES = 64, PEAK_SAMPLES = 20 };
static row shapes[MOST_SHAPES];
static int n_shapes;
static sw_isa isa;

/* "512x256x64" at *text; the text goes on after it. */
static bool read_shape(const char **text, row *r)
{
    int64_t *const to[] = {&r->m, &r->n, &r->k};
    for (int i = 0; i < 3; i++) {
        char *end;
        *to[i] = strtoll(*text, &end, 10);
        if (end == *text || *to[i] < 1 || *to[i] > 65536 || (i < 2 && *end != 'x'))
            return false;
        *text = end + (i < 2);
    }
    return **text == '\0' || (*(*text)++ == ',' && **text != '\0');
}

static int check(bench *b)
{
    (void)b;
    for (const char *at = o.shapes != NULL ? o.shapes : DEFAULT_SHAPES; *at != '\0'; n_shapes++)
        if (n_shapes == MOST_SHAPES || !read_shape(&at, &shapes[n_shapes]))
            return cli_error(CLI_USAGE,
                             "--shape must be MxNxK of numbers from 1 to 65536, with commas "
                             "between at most %d of them (got %s)",
                             MOST_SHAPES, o.shapes);
    int bf16;
    const char *refused;
    sw_isa_named(o.isa, &isa, &bf16);
    if (isa > sw_cpu_isa() || (o.isa != NULL && (bf16 & ~sw_cpu_bf16()) != 0))
        return cli_error(CLI_USAGE, "--isa: this machine has no %s (its best is %s)", o.isa,
                         sw_isa_best());
    if (o.order != NULL && o.blas != NULL)
        return cli_error(CLI_USAGE, "--library has products of float32 alone: --bf16-order "
                                    "cannot be given with it");
    if (o.order != NULL)
        order = sw_order_way(bench_order(o.order), bf16, &refused);
    if (o.order != NULL && refused != NULL)
        return cli_error(CLI_USAGE, "--isa: AMX cannot be used, since %s", refused);
    return CLI_GO;
}

static sw_status run_all(products *b)
{
    const sw_par *par;
    SW_TRY(swi_pool_create(&b->pool, (int)b->out->threads, 1));
    par = swi_pool_par(b->pool);
    b->out->input = o.blas != NULL;
    if (o.blas != NULL)
        SW_TRY(bench_library_open(&b->blas, o.blas, (int)b->out->threads));
    b->out->input = false;
    for (int i = 0; i < PEAK_SAMPLES; i++)
        (void)bench_peaks_flops(&b->peaks, isa, par);
    bench_note(b->out, "y = x w^T (forward), dx = dy w (input) and dw = dy^T x (weight)\n%s\n",
               o.blas != NULL && b->blas.threads_by == NULL
                   ? "how many threads the library has is its own choice\n"
                   : "");
    for (int i = 0; i < n_shapes; i++)
        for (int k = 0; k < BENCH_LAYER_PRODUCTS && !cli_interrupted(); k++) {
            shapes[i].product = names[k];
            if (strcmp(o.product, "all") == 0 || strcmp(o.product, names[k]) == 0)
                SW_TRY(measure_row(b, &shapes[i], k));
        }
    bench_peaks_put(b->out, &b->peaks);
    return SW_OK;
}

static sw_status measure(bench *b)
{
    static const bench_field facts[] = {{"isa", BENCH_WORD, 0, "instruction set", 0},
                                        {"by", BENCH_WORD, sizeof(char *), "products by", 0}};
    products p = {.out = b, .isa = isa};
    const char *of[] = {sw_isa_name(isa), sw_order_by(order, isa)};
    bench_facts(b, facts, of);
    const sw_status status = run_all(&p);
    swi_pool_destroy(p.pool);
    return status;
}

static const char *const words[] = {"all", "forward", "input", "weight", NULL},
                         *const isas[] = {"base", "avx2", "avx512", "avx512-bf16", "amx", NULL},
                         *const orders[] = {"pair", "tile", NULL};
static const cli_option options[] = {
    {"--shape", "MxNxK,..", CLI_WORD, &o.shapes, NULL,
     "batch, outputs and inputs of a layer (default: those of the notes)"},
    BENCH_NAME("--product", &o.product, "all", "these alone", words),
    {"--library", "FILE", CLI_WORD, &o.blas, NULL,
     "a shared object with cblas_sgemm, to be held against"},
    BENCH_NUMBER("--rounds", &o.rounds, "15", "blocks of 2 ms of each", 1, 1 << 16),
    BENCH_NAME("--isa", &o.isa, NULL, "instruction set (the best there is)", isas),
    BENCH_NAME("--bf16-order", &o.order, NULL, "products of bf16 numbers, summed in this order",
               orders),
};

const bench_command bench_products = {
    .name = "products",
    .line = "matrix products, beside the machine's peak and a library",
    .about = "Matrix products of linear layers, y = x w^T and both gradients, beside the "
             "peak of this run and a library's.",
    .threads = "1",
    BENCH_OPTIONS(options),
    .check = check,
    .run = measure,
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
