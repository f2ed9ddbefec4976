/* bench speed --ops: what each kind of op takes beside what the machine could do, the most time
 * lost first; with a library, what the step's products would take there.
 *
 * Ops of one kernel and the same shapes are one row. An op's time is its least of all steps, by
 * the clock between ops. */
#include "tools/bench/roofline.h"
#include "alloc/base/mem.h"
#include "tools/bench/peaks.h"
#include "tools/bench/speed.h"
#include <string.h>

typedef struct {
    char name[40], shape[48];
    uint64_t calls, ns, estimated_ns, operations, bytes; /* estimated: by the plan */
    double bound_ns;
    int n_products;
    bench_product products[ROOFLINE_PRODUCTS];
    uint64_t product_operations;
    uint64_t here_ns, blas_ns; /* of its products alone */
} row;

typedef struct {
    const speed_opts *opts;
    speed_subject *subject;
    bench_peaks peaks;
    bench_library blas;
    sw_pool *pool;
    uint64_t *op_ns; /* least of each */
    uint32_t n_ops;
    row *rows;
    uint32_t n_rows, cap_rows;
    row all;
    cli_times steps;
} bench;

/* ---- rows -------------------------------------------------------------------------------- */

/* "linear dx", "conv2d dw,db": of what has weights by their names, else by input. */
static void write_name(const swi_node *node, char *to, size_t bytes)
{
    const sw_op_desc *desc = swi_op(node->op);
    const swi_op_axes axes = swi_op_traits_of(node->op)->axes;
    const bool weights = axes == SWI_AXES_LINEAR || axes == SWI_AXES_CONV;
    size_t n = (size_t)snprintf(to, bytes, "%s%s", desc->name, node->again ? " again" : "");
    if (node->grad < 0)
        return;
    const sw_grad_desc *g = &desc->grads[node->grad];
    for (int i = 0; i < g->n_makes && n < bytes; i++) {
        const int input = g->makes[i];
        n += (size_t)snprintf(to + n, bytes - n, "%s%c", i == 0 ? " d" : ",d",
                              weights && input < 3 ? "xwb"[input] : '0' + input);
    }
}

static size_t write_dims(const sw_shape *s, char *to, size_t bytes)
{
    size_t n = 0;
    to[0] = '\0';
    for (int i = 0; i < s->rank && n < bytes; i++)
        n += (size_t)snprintf(to + n, bytes - n, i == 0 ? "%lld" : "x%lld",
                              (long long)s->dim[i]);
    return n < bytes ? n : bytes - 1;
}

/* Of its products M x N x K, else of the first operands. */
static void write_shape(const row *r, const sw_type *types, const swi_node *node, char *to,
                        size_t bytes)
{
    if (r->n_products > 0) {
        const bench_product *p = &r->products[0];
        size_t n = (size_t)snprintf(to, bytes, "%lldx%lldx%lld", (long long)p->m,
                                    (long long)p->n, (long long)p->k);
        if (p->count > 1 && n < bytes)
            snprintf(to + n, bytes - n, " (%lld)", (long long)p->count);
        return;
    }
    size_t n = write_dims(&types[0].shape, to, bytes);
    if (node->n_in > 1 && types[1].shape.rank > 1 && n + 2 < bytes) {
        to[n++] = ' ';
        write_dims(&types[1].shape, to + n, bytes - n);
    }
}

static double bound_of(const bench *b, uint64_t operations, uint64_t bytes)
{
    const double by_flops = (double)operations / b->peaks.gflops,
                 by_bytes = (double)bytes / b->peaks.mixed;
    return by_flops > by_bytes ? by_flops : by_bytes;
}

static bool same(const row *a, const row *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->shape, b->shape) == 0 &&
           a->operations == b->operations && a->bytes == b->bytes;
}

static sw_status add_op(bench *b, const swi_trace *trace, const swi_node *node, uint64_t ns)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    void *rows = b->rows;
    row r = {.calls = 1,
             .ns = ns,
             .estimated_ns = swi_node_cost(trace, node) / SWI_COST_PER_NS,
             .operations = swi_node_operations(trace, node),
             .bytes = swi_node_bytes(trace, node)};
    swi_kernel_info(trace, node, types, &info);
    r.n_products = roofline_products_of(trace, node, r.products);
    for (int i = 0; i < r.n_products; i++) {
        const bench_product *p = &r.products[i];
        r.product_operations += 2 * (uint64_t)(p->m * p->n * p->k * p->count);
    }
    r.bound_ns = bound_of(b, r.operations, r.bytes);
    write_name(node, r.name, sizeof r.name);
    write_shape(&r, types, node, r.shape, sizeof r.shape);
    for (uint32_t i = 0; i < b->n_rows; i++)
        if (same(&b->rows[i], &r)) { /* these are of one op until all have come */
            b->rows[i].calls++;
            b->rows[i].ns += ns;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&rows, SW_HEAP_RECORDS, &b->cap_rows, b->n_rows + 1, sizeof r));
    b->rows = rows;
    b->rows[b->n_rows++] = r;
    return SW_OK;
}

static double lost(const row *r)
{
    return (double)r->ns - r->bound_ns;
}

static void sum_up(row *to, const row *r)
{
    to->calls += r->calls;
    to->ns += r->ns;
    to->estimated_ns += r->estimated_ns;
    to->operations += r->operations;
    to->bytes += r->bytes;
    to->bound_ns += r->bound_ns;
    to->n_products += r->n_products;
    to->product_operations += r->product_operations;
    to->here_ns += r->here_ns;
    to->blas_ns += r->blas_ns;
}

/* Figures of all calls, and the most time lost first. */
static void rank(bench *b)
{
    for (uint32_t i = 0; i < b->n_rows; i++) {
        row r = b->rows[i];
        r.estimated_ns *= r.calls;
        r.operations *= r.calls;
        r.bytes *= r.calls;
        r.bound_ns *= (double)r.calls;
        r.product_operations *= r.calls;
        r.here_ns *= r.calls;
        r.blas_ns *= r.calls;
        uint32_t at = i;
        for (; at > 0 && lost(&b->rows[at - 1]) < lost(&r); at--)
            b->rows[at] = b->rows[at - 1];
        b->rows[at] = r;
        sum_up(&b->all, &r);
    }
}

/* ---- measuring --------------------------------------------------------------------------- */

static sw_status run_steps(bench *b)
{
    const sw_exec *exec = b->subject->exec;
    void *block;
    b->n_ops = exec->last->n_ops;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, b->n_ops * sizeof *b->op_ns));
    b->op_ns = block;
    SW_TRY(cli_times_init(&b->steps, (uint64_t)b->opts->steps));
    for (int64_t i = 0; i < b->opts->steps && !cli_interrupted(); i++) {
        const uint64_t start = cli_clock_ns();
        SW_TRY(speed_step(b->subject));
        cli_times_add(&b->steps, cli_clock_ns() - start);
        for (uint32_t k = 0; k < b->n_ops; k++)
            if (i == 0 || exec->op_ns[k] < b->op_ns[k])
                b->op_ns[k] = exec->op_ns[k];
    }
    return SW_OK;
}

static sw_status time_products(bench *b, const sw_par *par)
{
    const roofline_sides sides = {&b->blas, b->subject->exec->target.isa, par};
    for (uint32_t i = 0; i < b->n_rows && !cli_interrupted(); i++)
        for (int k = 0; k < b->rows[i].n_products; k++) {
            row *r = &b->rows[i];
            uint64_t here, library;
            SW_TRY(roofline_products_time(&sides, &r->products[k], &here, &library));
            r->here_ns += here;
            r->blas_ns += library;
        }
    return SW_OK;
}

static sw_status measure(bench *b, const speed_case *of, const sw_exec_opts *exec)
{
    enum { SAMPLES = 10 };
    const sw_par *par;
    SW_TRY(swi_pool_create(&b->pool, exec->threads, 1));
    par = swi_pool_par(b->pool);
    if (b->opts->blas != NULL)
        SW_TRY(bench_library_open(&b->blas, b->opts->blas, exec->threads));
    SW_TRY(speed_make(b->subject, of, b->opts, true, exec));
    const sw_isa isa = b->subject->exec->target.isa;
    SW_TRY(bench_peaks_measure(&b->peaks, SAMPLES, isa, par));
    SW_TRY(run_steps(b));
    SW_TRY(bench_peaks_measure(&b->peaks, SAMPLES, isa, par));
    const swi_program *p = b->subject->exec->last;
    for (uint32_t i = 0; i < b->n_ops; i++)
        SW_TRY(add_op(b, &p->trace, &p->trace.nodes[p->ops[i].node], b->op_ns[i]));
    if (b->opts->blas != NULL)
        SW_TRY(time_products(b, par));
    rank(b);
    return SW_OK;
}

/* ---- showing ----------------------------------------------------------------------------- */

static double per_ns(uint64_t amount, uint64_t ns)
{
    return ns > 0 ? (double)amount / (double)ns : 0.0;
}

static void print_lost(double ns)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s", ns < 0.0 ? "-" : "",
             cli_ns((uint64_t)(ns < 0.0 ? -ns : ns)).text);
    printf(" %10s", text);
}

static void print_row(const bench *b, const row *r)
{
    printf("%-20s %-28s %5llu %10s %7.1f %6.1f %10s", r->name, r->shape,
           (unsigned long long)r->calls, cli_ns(r->ns).text, per_ns(r->operations, r->ns),
           per_ns(r->bytes, r->ns), cli_ns((uint64_t)r->bound_ns).text);
    print_lost(lost(r));
    if (b->opts->blas != NULL && r->n_products > 0) {
        printf(" %10s", cli_ns(r->here_ns).text);
        printf(" %10s", cli_ns(r->blas_ns).text);
    }
    printf("\n");
}

static void print_heading(const bench *b, const cli_summary *steps)
{
    const speed_case *of = b->subject->of;
    printf("%s: %s; batch %lld, %d thread%s, %s\n"
           "peaks of this run: %.1f GFLOP/s; memory %.1f GB/s read, %.1f mixed\n"
           "a step with op clocks: %s at least, %s median; its ops:\n\n",
           of->name, of->about, (long long)b->subject->batch, b->subject->exec->target.threads,
           b->subject->exec->target.threads == 1 ? "" : "s",
           sw_isa_name(b->subject->exec->target.isa), b->peaks.gflops, b->peaks.read,
           b->peaks.mixed, cli_ns(steps->min).text, cli_ns(steps->median).text);
}

/* All of a step where products take what they take in the library. */
static uint64_t with_library(const row *all)
{
    const uint64_t sum = all->ns + all->blas_ns;
    return sum > all->here_ns ? sum - all->here_ns : 0;
}

static int print(bench *b, const cli_summary *steps, int status)
{
    const bool library = b->opts->blas != NULL;
    row rest = {.name = "the rest"};
    if (!b->opts->quiet)
        print_heading(b, steps);
    printf("%-20s %-28s %5s %10s %7s %6s %10s %10s%s\n", "op", "M x N x K, or operands",
           "calls", "time", "GFLOP/s", "GB/s", "bound", "lost",
           library ? "   products    library" : "");
    for (uint32_t i = 0; i < b->n_rows; i++)
        if ((int64_t)i < b->opts->top)
            print_row(b, &b->rows[i]);
        else
            sum_up(&rest, &b->rows[i]);
    if (rest.calls > 0)
        print_row(b, &rest);
    snprintf(b->all.name, sizeof b->all.name, "all");
    print_row(b, &b->all);
    if (!library)
        printf("\nno --library: what the products would take elsewhere is not known\n");
    else
        printf(
            "\nproducts alone, uncut, operands again and again: %s here, %s in the library;\n"
            "all ops with the library's products: %s\n",
            cli_ns(b->all.here_ns).text, cli_ns(b->all.blas_ns).text,
            cli_ns(with_library(&b->all)).text);
    return cli_finish(status);
}

static void put_row(sw_json *json, const bench *b, const row *r)
{
    const bool products = b->opts->blas != NULL && r->n_products > 0;
    sw_json_put_u64(json, "calls", r->calls);
    sw_json_put_u64(json, "min_ns", r->ns);
    sw_json_put_u64(json, "estimated_ns", r->estimated_ns);
    sw_json_put_u64(json, "operations", r->operations);
    sw_json_put_u64(json, "bytes", r->bytes);
    sw_json_put_f64(json, "gflops", per_ns(r->operations, r->ns));
    sw_json_put_f64(json, "gb_per_s", per_ns(r->bytes, r->ns));
    sw_json_put_f64(json, "bound_ns", r->bound_ns);
    sw_json_put_f64(json, "lost_ns", lost(r));
    sw_json_put_u64(json, "product_operations", r->product_operations);
    sw_json_put_known(json, "products_ns", products, r->here_ns);
    sw_json_put_known(json, "library_ns", products, r->blas_ns);
}

static int put(bench *b, const cli_summary *steps, int status)
{
    sw_json json;
    result_json_begin(&json);
    sw_json_put_string(&json, "model", b->subject->of->name);
    sw_json_put_i64(&json, "batch", b->subject->batch);
    sw_json_put_i64(&json, "threads", b->subject->exec->target.threads);
    sw_json_put_string(&json, "isa", sw_isa_name(b->subject->exec->target.isa));
    bench_peaks_put(&json, &b->peaks);
    bench_put(&json, "step", steps);
    sw_json_open(&json, "ops", '[');
    for (uint32_t i = 0; i < b->n_rows; i++) {
        sw_json_begin(&json, '{');
        sw_json_put_string(&json, "op", b->rows[i].name);
        sw_json_put_string(&json, "shape", b->rows[i].shape);
        put_row(&json, b, &b->rows[i]);
        sw_json_end(&json);
    }
    sw_json_end(&json);
    sw_json_open(&json, "all", '{');
    put_row(&json, b, &b->all);
    sw_json_end(&json);
    sw_json_put_known(&json, "with_library_ns", b->opts->blas != NULL, with_library(&b->all));
    return result_json_end(&json, status);
}

int speed_roofline(const speed_opts *o, const speed_case *of, const sw_exec_opts *opts)
{
    speed_subject subject = {0};
    bench b = {.opts = o, .subject = &subject};
    sw_exec_opts exec = *opts;
    exec.threads = of->members > 0 ? 1 : opts->threads; /* as a lane has */
    const sw_status status = measure(&b, of, &exec);
    const bool input = o->blas != NULL && b.blas.sgemm == NULL;
    const int done = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    int code;
    if (status != SW_OK) {
        code = cli_library_error(status, input);
    } else {
        const cli_summary steps = cli_times_summary(&b.steps);
        code = o->json ? put(&b, &steps, done) : print(&b, &steps, done);
    }
    speed_destroy(&subject);
    swi_pool_destroy(b.pool);
    cli_times_free(&b.steps);
    sw_heap_free(b.op_ns, SW_HEAP_RECORDS, b.n_ops * sizeof *b.op_ns);
    sw_heap_free(b.rows, SW_HEAP_RECORDS, b.cap_rows * sizeof *b.rows);
    return code;
}
