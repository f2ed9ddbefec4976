/* bench speed: how long whole steps take, beside controls of the same length or, by lines on
 * standard input, in turns with other programs (tests/torch/speed.py); with --ops, what each
 * kind of op takes beside what the machine could do, the most time lost first, and with a
 * library what the step's products would take there.
 *
 * Ops of one kernel and the same shapes are one row. An op's time is its least of all steps, by
 * the clock between ops. */
#include "alloc/base/mem.h"
#include "runtime/base/op_traits.h"
#include "runtime/exec/exec.h"
#include "tools/bench/peaks.h"
#include "tools/bench/subjects.h"
#include <string.h>

static struct {
    const char *model, *isa, *blas, *order;
    int64_t batch, steps, top, width; /* width 0: the workload's */
    bool turns, control, ops;
    bench_case of; /* with that width */
} o;

/* ---- controls ---------------------------------------------------------------------------- */

/* Work of a known kind that takes as long as a step, on the threads of its exec: others would
 * have to wake, and so would these at the next step. */
typedef struct {
    const sw_par *par;
    uint64_t turns; /* of arithmetic, on each thread */
    void *block;
    size_t block_bytes;
    float *x; /* `share` numbers of each thread, whole cache lines */
    size_t bytes;
    int64_t share, lines; /* lines: that each thread reads and writes */
    int64_t at;           /* line of each share that comes next */
} controls;

static volatile uint64_t sink; /* written by all threads, never read */

/* Each thread has a chain of its own, which no compiler can shorten. */
static void chain(void *arg, int part)
{
    const uint64_t turns = ((const controls *)arg)->turns;
    uint64_t x = (uint64_t)part;
    for (uint64_t i = 0; i < turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

enum { LINE = 16 }; /* numbers of a cache line */

/* Line after line of a share, round and round; x = x a + b stays near b / (1 - a). */
static void walk(void *arg, int part)
{
    typedef float line __attribute__((vector_size(64)));
    const controls *c = arg;
    line *x = (line *)(void *)(c->x + part * c->share);
    const int64_t all = c->share / LINE;
    int64_t at = c->at;
    for (int64_t left = c->lines; left > 0;) {
        const int64_t n = all - at < left ? all - at : left;
        for (int64_t i = at; i < at + n; i++)
            x[i] = x[i] * 0.5f + 1.0f;
        left -= n;
        at = at + n < all ? at + n : 0;
    }
}

static uint64_t time_control(controls *c, void (*body)(void *arg, int part))
{
    const uint64_t start = cli_clock_ns();
    c->par->run(c->par, body, c, c->par->n_threads);
    const uint64_t ns = cli_clock_ns() - start;
    if (body == walk)
        c->at = (c->at + c->lines) % (c->share / LINE);
    return ns;
}

static uint64_t least_of(controls *c, void (*body)(void *arg, int part))
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        const uint64_t ns = time_control(c, body);
        least = ns < least ? ns : least;
    }
    return least > 0 ? least : 1;
}

/* ---- steps ------------------------------------------------------------------------------- */

enum { STEP, CONTROL, MEMORY, KINDS };

typedef struct {
    bench_subject *subject;
    cli_times times[KINDS];
    controls of;
    uint64_t first_ns, second_ns; /* making it, to the end of the first two steps; a step */
} run;

static sw_status time_step(run *r, cli_times *to)
{
    const uint64_t start = cli_clock_ns();
    SW_TRY(bench_subject_step(r->subject));
    cli_times_add(to, cli_clock_ns() - start);
    return SW_OK;
}

/* As long as the median of some steps, and over the bytes of one. */
static sw_status ready_controls(run *r)
{
    enum { STEPS = 15 };
    cli_times steps;
    size_t bytes;
    sw_status status = SW_OK;
    SW_TRY(bench_subject_bytes(r->subject, &bytes));
    SW_TRY(cli_times_init(&steps, STEPS));
    for (int i = 0; i < STEPS && status == SW_OK; i++)
        status = time_step(r, &steps);
    const uint64_t ns = cli_times_summary(&steps).median;
    cli_times_free(&steps);
    SW_TRY(status);
    /* Both of about `ns`; the second over `bytes`. */
    controls *c = &r->of;
    const sw_par *par = swi_pool_par(r->subject->exec->pool);
    enum { TURNS = 1000000 };
    const size_t threads = (size_t)par->n_threads, unit = threads * LINE * sizeof(float);
    *c = (controls){.par = par, .turns = TURNS};
    const double of_turns = (double)least_of(c, chain);
    c->turns = (uint64_t)(TURNS * (double)ns / of_turns) + 1;
    c->bytes = (bytes + unit - 1) / unit * unit;
    c->block_bytes = c->bytes + SW_ALIGN;
    SW_TRY(sw_heap_alloc(&c->block, SW_HEAP_DATASETS, c->block_bytes));
    c->x = (float *)(((uintptr_t)c->block + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN);
    c->share = (int64_t)(c->bytes / sizeof(float) / threads);
    for (int64_t j = 0; j < c->share * (int64_t)threads; j++) /* pages of zeros may be one */
        c->x[j] = (float)(j % LINE);
    c->lines = c->share / LINE; /* all of it once; of what fits into a cache more often */
    while (least_of(c, walk) < ns / 4)
        c->lines *= 2;
    c->lines = (int64_t)((double)c->lines * (double)ns / (double)least_of(c, walk)) + 1;
    return SW_OK;
}

/* Arithmetic comes after each step. Reads and writes come as often as steps since the last
 * ones, after each other, so that caches have what they have after a step; one that is not
 * timed then takes it back. */
static sw_status time_steps(run *r)
{
    enum { TURN = 16 };
    const int64_t steps = o.steps;
    for (int i = 0; i < KINDS; i++)
        SW_TRY(cli_times_init(&r->times[i], (uint64_t)steps));
    if (o.control)
        SW_TRY(ready_controls(r));
    for (int64_t i = 0; i < steps && !cli_interrupted(); i++) {
        SW_TRY(time_step(r, &r->times[STEP]));
        if (!o.control)
            continue;
        cli_times_add(&r->times[CONTROL], time_control(&r->of, chain));
        if (i % TURN != TURN - 1 && i != steps - 1)
            continue;
        for (int64_t k = 0; k <= i % TURN; k++)
            cli_times_add(&r->times[MEMORY], time_control(&r->of, walk));
        SW_TRY(bench_subject_step(r->subject));
    }
    return SW_OK;
}

/* clang-format off */
#define STEP_FACTS(X, t) \
    X(t, WORD, model, "", 0) \
    X(t, WORD, about, "", 0) \
    X(t, COUNT, batch, "batch", 0) \
    X(t, COUNT, width, "features", 0) \
    X(t, WORD, isa, "", 0) \
    X(t, BYTES, memory_control_bytes, "memory control over", 0) \
    X(t, NS, epoch_min_ns, "an epoch of each", 0) \
    X(t, NS, epoch_median_ns, "by the median", 0)
#define STEP_ROW(X, t) \
    X(t, WORD, name, "", 14) \
    X(t, SPREAD, times, "", 0) \
    X(t, REAL, p99_over_median, "p99/median", 12)
/* clang-format on */

static void report(bench *b, run *r)
{
    BENCH_ROW(times_row, fields, STEP_ROW);
    BENCH_ROW(facts, of_facts, STEP_FACTS);
    const bench_case *of = &r->subject->of;
    times_row rows[] = {{.name = "step"},
                        {.name = "control"},
                        {.name = "memory control"},
                        {.name = "step/control"},
                        {.name = "step/memory"}};
    for (int i = 0; i < KINDS; i++) {
        rows[i].times = cli_times_summary(&r->times[i]);
        rows[i].p99_over_median =
            bench_ratio((double)rows[i].times.p99, (double)rows[i].times.median);
    }
    for (int i = 1; i < KINDS; i++)
        rows[KINDS - 1 + i].p99_over_median =
            rows[STEP].p99_over_median / rows[i].p99_over_median;
    const double epoch =
        of->epoch > 0 ? (double)of->epoch / (double)(of->slice * of->slices) : 0.0;
    const facts f = {.model = of->name,
                     .about = of->about,
                     .isa = sw_isa_name(r->subject->exec->target.isa),
                     .batch = r->subject->batch,
                     .width = o.width > 0 ? o.width : BENCH_NONE,
                     .memory_control_bytes = o.control ? (int64_t)r->of.bytes : BENCH_NONE,
                     .epoch_min_ns = epoch > 0 ? (int64_t)(epoch * (double)rows[STEP].times.min)
                                               : BENCH_NONE,
                     .epoch_median_ns = epoch > 0
                                            ? (int64_t)(epoch * (double)rows[STEP].times.median)
                                            : BENCH_NONE};
    bench_facts(b, of_facts, &f);
    bench_rows(b, "rows", fields, rows, o.control ? 5 : 1);
}

enum { MOST_PRODUCTS = 3 };

/* ---- the products of an op --------------------------------------------------------------- */

static bench_of_layer which_of(const swi_node *node)
{
    if (node->grad < 0)
        return BENCH_FORWARD;
    return swi_op(node->op)->grads[node->grad].makes[0] == 0 ? BENCH_INPUT : BENCH_WEIGHT;
}

/* in: x, w; or w, dy; or x, dy. A node with one operand sums up a bias. */
static int linear(const swi_node *node, const sw_kernel_info *info, bench_product *p)
{
    const bench_of_layer which = which_of(node);
    if (node->n_in < 2)
        return 0;
    const sw_type *x = which == BENCH_INPUT ? &info->out[0] : &info->in[0],
                  *w = which == BENCH_FORWARD ? &info->in[1]
                       : which == BENCH_INPUT ? &info->in[0]
                                              : &info->out[0];
    const int64_t n = w->shape.dim[0], k = w->shape.dim[1];
    p[0] = bench_product_of_layer(which, sw_type_elements(x) / k, n, k);
    return 1;
}

static int tiles(const swi_trace *trace, const swi_node *node, const sw_kernel_info *info,
                 bench_product *p)
{
    const swi_tile_attrs *a = swi_node_attrs(trace, node);
    if (swi_op_traits_of(a->make_op)->axes != SWI_AXES_LINEAR)
        return 0;
    const int64_t n = info->out[0].shape.dim[0], k = info->out[0].shape.dim[1];
    p[0] = bench_product_of_layer(BENCH_WEIGHT, sw_type_elements(&info->in[0]) / k, n, k);
    return 1;
}

/* Products of whole matrices: strips change no shape that counts. */
static int strips(const swi_trace *trace, const swi_node *node, const sw_kernel_info *info,
                  bench_product *p)
{
    const swi_strips_attrs *a = swi_node_attrs(trace, node);
    const bool updates = a->kind == SWI_STRIPS_UPDATE;
    if (!updates && a->kind != SWI_STRIPS_PRODUCT)
        return 0;
    const sw_type *w = updates ? &info->out[1] : &info->in[1];
    const int64_t m = info->in[0].shape.dim[0], n = w->shape.dim[0], k = w->shape.dim[1];
    p[0] = bench_product_of_layer(updates ? BENCH_INPUT : BENCH_FORWARD, m, n, k);
    if (updates)
        p[1] = bench_product_of_layer(BENCH_WEIGHT, m, n, k);
    return updates ? 2 : 1;
}

static int64_t dim_from_end(const sw_type *t, int back)
{
    return t->shape.dim[t->shape.rank - 1 - back];
}

/* y = a b, da = dy b^T, db = a^T dy; as many as the larger operand has in front. in: a, b; or
 * b, dy; or a, dy. */
static int matmul(const swi_node *node, const sw_kernel_info *info, bench_product *p)
{
    const sw_type *first = &info->in[0], *second = &info->in[1];
    const bench_of_layer which = which_of(node);
    const sw_type *y = which == BENCH_FORWARD ? &info->out[0] : second;
    const int64_t m = dim_from_end(y, 1), n = dim_from_end(y, 0),
                  k = dim_from_end(first, which == BENCH_INPUT ? 1 : 0);
    if (which == BENCH_FORWARD)
        p[0] = (bench_product){.m = m, .n = n, .k = k};
    else if (which == BENCH_INPUT)
        p[0] = (bench_product){.m = m, .n = k, .k = n, .turn_b = true};
    else
        p[0] = (bench_product){.m = k, .n = n, .k = m, .turn_a = true};
    p[0].count = sw_type_elements(y) / (m * n);
    return 1;
}

/* y (out, positions) = w (out, in) x (in, positions) of each image, or of sixteen in a
 * block. */
static int conv(const swi_trace *trace, const swi_node *node, const sw_kernel_info *info,
                bench_product *p)
{
    const swi_conv_attrs *a = swi_node_attrs(trace, node);
    const bench_of_layer which = which_of(node);
    const sw_type *x = which == BENCH_INPUT ? &info->out[0] : &info->in[0],
                  *w = which == BENCH_FORWARD ? &info->in[1]
                       : which == BENCH_INPUT ? &info->in[0]
                                              : &info->out[0];
    if (node->n_in < 2 || w->shape.rank != 4 || w->shape.dim[2] != 1 || w->shape.dim[3] != 1 ||
        a->stride != 1 || a->pad != 0 || a->groups > 1)
        return 0;
    const bool blocks = x->layout == SW_N16;
    const int64_t out = w->shape.dim[0], in = w->shape.dim[1],
                  images = blocks ? (x->shape.dim[0] + 15) / 16 : x->shape.dim[0],
                  size = x->shape.dim[2] * x->shape.dim[3] * (blocks ? 16 : 1);
    if (which == BENCH_FORWARD)
        p[0] = (bench_product){.m = out, .n = size, .k = in};
    else if (which == BENCH_INPUT)
        p[0] = (bench_product){.m = in, .n = size, .k = out, .turn_a = true};
    else
        p[0] = (bench_product){.m = out, .n = in, .k = size, .turn_b = true, .adds = true};
    p[0].count = images;
    return 1;
}

/* The products of a node of linear layers, losses after them, matmul, convolutions of one
 * position and updates in tiles, uncut; how many there are. Attention and other convolutions
 * multiply too, but not so that a library could. */
static int products_of(const swi_trace *trace, const swi_node *node,
                       bench_product products[MOST_PRODUCTS])
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    const swi_op_traits *traits = swi_op_traits_of(node->op);
    swi_kernel_info(trace, node, types, &info);
    if (traits->duty == SWI_DUTY_TILED)
        return tiles(trace, node, &info, products);
    if (traits->duty == SWI_DUTY_STRIPS)
        return strips(trace, node, &info, products);
    switch (traits->axes) {
    case SWI_AXES_LINEAR:
        return linear(node, &info, products);
    case SWI_AXES_LINEAR_LOSS:
        if (node->grad >= 0)
            return 0; /* forward makes the gradients */
        const int64_t n = info.in[1].shape.dim[0], k = info.in[1].shape.dim[1],
                      m = sw_type_elements(&info.in[0]) / k;
        int found = 0;
        products[found++] = bench_product_of_layer(BENCH_FORWARD, m, n, k);
        for (uint32_t out = 1; out <= 2; out++) /* after the loss: dx, dw */
            if (!swi_is_null(node, out))
                products[found++] =
                    bench_product_of_layer(out == 1 ? BENCH_INPUT : BENCH_WEIGHT, m, n, k);
        return found;
    case SWI_AXES_MATMUL:
        return matmul(node, &info, products);
    case SWI_AXES_CONV:
        return conv(trace, node, &info, products);
    default:
        return 0;
    }
}

/* ---- rows -------------------------------------------------------------------------------- */

/* clang-format off */
#define OP_ROW(X, t) \
    X(t, TEXT, op, "op", 20) \
    X(t, TEXT, shape, "M x N x K, or operands", 28) \
    X(t, COUNT, calls, "calls", 5) \
    X(t, NS, min_ns, "time", 0) \
    X(t, NS, estimated_ns, "by plan", 0) \
    X(t, COUNT, operations, NULL, 0) \
    X(t, COUNT, bytes, NULL, 0) \
    X(t, REAL, gflops, "GFLOP/s", 0) \
    X(t, REAL, gb_per_s, "GB/s", 0) \
    X(t, TIME, bound_ns, "bound", 0) \
    X(t, TIME, lost_ns, "lost", 0) \
    X(t, COUNT, product_operations, NULL, 0) \
    X(t, NS, products_ns, "products", 0) /* of its products alone */ \
    X(t, NS, library_ns, "library", 0)
/* clang-format on */
typedef struct {
    OP_ROW(BENCH_MEMBER, row)
    int n_products;
    bench_product products[MOST_PRODUCTS];
} row;
static const bench_field op_fields[] = {OP_ROW(BENCH_ENTRY, row)};
enum { OP_FIELDS = sizeof op_fields / sizeof *op_fields }; /* the last two are of a library */

typedef struct {
    bench_subject subject;
    bench_peaks peaks;
    bench_library blas;
    sw_pool *pool;
    uint64_t *op_ns; /* least of each */
    uint32_t n_ops;
    row *rows;
    uint32_t n_rows, cap_rows;
    cli_times steps;
} ops;

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
static void write_shape(row *r, const sw_type *types, const swi_node *node)
{
    char *to = r->shape;
    const size_t bytes = sizeof r->shape;
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

static sw_status add_op(ops *b, const swi_trace *trace, const swi_node *node, uint64_t ns)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    row r = {.calls = 1,
             .min_ns = (int64_t)ns,
             .estimated_ns = (int64_t)(swi_node_cost(trace, node) / SWI_COST_PER_NS),
             .operations = (int64_t)swi_node_operations(trace, node),
             .bytes = (int64_t)swi_node_bytes(trace, node)};
    swi_kernel_info(trace, node, types, &info);
    r.n_products = products_of(trace, node, r.products);
    for (int i = 0; i < r.n_products; i++) {
        const bench_product *p = &r.products[i];
        r.product_operations += 2 * p->m * p->n * p->k * p->count;
    }
    write_name(node, r.op, sizeof r.op);
    write_shape(&r, types, node);
    for (uint32_t i = 0; i < b->n_rows; i++) {
        row *a = &b->rows[i];
        if (strcmp(a->op, r.op) == 0 && strcmp(a->shape, r.shape) == 0 &&
            a->operations == r.operations &&
            a->bytes == r.bytes) { /* these are of one op until all have come */
            a->calls++;
            a->min_ns += r.min_ns;
            return SW_OK;
        }
    }
    /* and one for all */
    SW_TRY(sw_heap_reserve(&b->rows, SW_HEAP_RECORDS, &b->cap_rows, b->n_rows + 2));
    b->rows[b->n_rows++] = r;
    return SW_OK;
}

static void add(row *to, const row *r)
{
    to->calls += r->calls;
    to->min_ns += r->min_ns;
    to->estimated_ns += r->estimated_ns;
    to->operations += r->operations;
    to->bytes += r->bytes;
    to->bound_ns += r->bound_ns;
    to->n_products += r->n_products;
    to->product_operations += r->product_operations;
    to->products_ns += r->products_ns;
    to->library_ns += r->library_ns;
}

/* Rates, once all has been added; what a row without products has of a library is absent. */
static void finish(row *r, const char *name)
{
    if (name != NULL)
        snprintf(r->op, sizeof r->op, "%s", name);
    r->gflops = bench_ratio((double)r->operations, (double)r->min_ns);
    r->gb_per_s = bench_ratio((double)r->bytes, (double)r->min_ns);
    r->lost_ns = (double)r->min_ns - r->bound_ns;
    if (r->n_products == 0)
        r->products_ns = r->library_ns = BENCH_NONE;
}

/* Figures of all calls, the most time lost first; then a row of all. */
static void rank(ops *b)
{
    row all = {.calls = 0};
    for (uint32_t i = 0; i < b->n_rows; i++) {
        row r = b->rows[i];
        const double by_flops = (double)r.operations / b->peaks.peak_gflops,
                     by_bytes = (double)r.bytes / b->peaks.peak_mixed_gb_per_s;
        const int64_t n = r.calls;
        r.estimated_ns *= n;
        r.operations *= n;
        r.bytes *= n;
        r.product_operations *= n;
        r.products_ns *= n;
        r.library_ns *= n;
        r.bound_ns = (double)n * (by_flops > by_bytes ? by_flops : by_bytes);
        r.lost_ns = (double)r.min_ns - r.bound_ns;
        uint32_t at = i;
        for (; at > 0 && b->rows[at - 1].lost_ns < r.lost_ns; at--)
            b->rows[at] = b->rows[at - 1];
        b->rows[at] = r;
        add(&all, &r);
    }
    for (uint32_t i = 0; i < b->n_rows; i++)
        finish(&b->rows[i], NULL);
    b->rows[b->n_rows++] = all;
    finish(&b->rows[b->n_rows - 1], "all");
}

/* ---- time of ops ------------------------------------------------------------------------- */

static sw_status run_steps(ops *b)
{
    const sw_exec *exec = b->subject.exec;
    b->n_ops = exec->last->n_ops;
    SW_TRY(sw_heap_alloc(&b->op_ns, SW_HEAP_RECORDS, b->n_ops * sizeof *b->op_ns));
    SW_TRY(cli_times_init(&b->steps, (uint64_t)o.steps));
    for (int64_t i = 0; i < o.steps && !cli_interrupted(); i++) {
        const uint64_t start = cli_clock_ns();
        SW_TRY(bench_subject_step(&b->subject));
        cli_times_add(&b->steps, cli_clock_ns() - start);
        for (uint32_t k = 0; k < b->n_ops; k++)
            if (i == 0 || exec->op_ns[k] < b->op_ns[k])
                b->op_ns[k] = exec->op_ns[k];
    }
    return SW_OK;
}

/* The least of some calls in a row, after one that wakes the threads. */
static uint64_t least(const ops *b, const bench_operands *on, bool library)
{
    enum { CALLS = 40, ENOUGH_NS = 30000000 };
    uint64_t found = UINT64_MAX, all = 0;
    for (int i = 0; i < CALLS && all < ENOUGH_NS; i++) {
        const uint64_t start = cli_clock_ns();
        if (library)
            bench_library_run(&b->blas, &on->there);
        else
            sw_dense(b->subject.exec->target.isa)
                ->gemm(&on->here, on->scratch, swi_pool_par(b->pool));
        const uint64_t ns = cli_clock_ns() - start;
        found = ns < found ? ns : found;
        all += ns;
    }
    if (library)
        bench_library_rest();
    return found;
}

/* The least time of each product of the rows: here, and in the library. */
static sw_status time_products(ops *b)
{
    enum { ROUNDS = 3 };
    for (uint32_t i = 0; i < b->n_rows && !cli_interrupted(); i++)
        for (int k = 0; k < b->rows[i].n_products; k++) {
            const bench_product *p = &b->rows[i].products[k];
            bench_operands operands;
            uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
            SW_TRY(
                bench_operands_take(&operands, p, b->subject.exec->target.isa, SW_ORDER_NONE));
            for (int turn = 0; turn < 2 * ROUNDS; turn++) {
                const uint64_t ns = least(b, &operands, turn % 2 == 1);
                best[turn % 2] = ns < best[turn % 2] ? ns : best[turn % 2];
            }
            bench_operands_give(&operands);
            b->rows[i].products_ns += (int64_t)best[0] * p->count;
            b->rows[i].library_ns += (int64_t)best[1] * p->count;
        }
    return SW_OK;
}

static sw_status measure_ops(bench *out, ops *b, const sw_exec_opts *exec)
{
    enum { SAMPLES = 10 };
    bench_case one = o.of;
    one.members = 0; /* one of them: what runs in a lane has no clocks at its ops */
    one.source = one.source == BENCH_FEED ? BENCH_LOADER : one.source;
    SW_TRY(swi_pool_create(&b->pool, exec->threads, 1));
    const sw_par *par = swi_pool_par(b->pool);
    out->input = o.blas != NULL;
    if (o.blas != NULL)
        SW_TRY(bench_library_open(&b->blas, o.blas, exec->threads));
    out->input = false;
    SW_TRY(bench_subject_make(&b->subject, &one, o.batch, exec));
    const sw_isa isa = b->subject.exec->target.isa;
    SW_TRY(bench_peaks_measure(&b->peaks, SAMPLES, isa, par));
    SW_TRY(run_steps(b));
    SW_TRY(bench_peaks_measure(&b->peaks, SAMPLES, isa, par));
    const swi_program *p = b->subject.exec->last;
    for (uint32_t i = 0; i < b->n_ops; i++)
        SW_TRY(add_op(b, &p->trace, &p->trace.nodes[p->ops[i].node], b->op_ns[i]));
    if (o.blas != NULL)
        SW_TRY(time_products(b));
    rank(b);
    return SW_OK;
}

/* Of text so many rows as are asked for, the rest, and all. */
static void put_rows(bench *out, ops *b)
{
    const int n_fields = OP_FIELDS - (o.blas != NULL ? 0 : 2);
    const int64_t n = b->n_rows - 1, top = out->json || o.top > n ? n : o.top;
    row rest = {.calls = 0};
    for (int64_t i = top; i < n; i++) {
        row r = b->rows[i];
        r.products_ns = r.n_products > 0 ? r.products_ns : 0;
        r.library_ns = r.n_products > 0 ? r.library_ns : 0;
        add(&rest, &r);
    }
    finish(&rest, "the rest");
    bench_put_rows(out, "ops", op_fields, n_fields, b->rows, top, sizeof rest);
    if (rest.calls > 0)
        bench_put_rows(out, "ops", op_fields, n_fields, &rest, 1, sizeof rest);
    bench_put_rows(out, "ops", op_fields, n_fields, &b->rows[n], 1, sizeof rest);
}

/* clang-format off */
#define OPS_FACTS(X, t) \
    X(t, WORD, model, "", 0) \
    X(t, WORD, about, "", 0) \
    X(t, COUNT, batch, "batch", 0) \
    X(t, WORD, isa, "", 0) \
    X(t, TIMES, step, "a step with op clocks at least", 0) \
    X(t, NS, with_library_ns, "its ops with the library's products", 0)
/* clang-format on */

static sw_status speed_ops(bench *out, const sw_exec_opts *given)
{
    ops b = {.n_rows = 0};
    sw_exec_opts exec = *given;
    exec.threads = o.of.members > 0 ? 1 : given->threads; /* as a lane has */
    const sw_status status = measure_ops(out, &b, &exec);
    if (status == SW_OK) {
        BENCH_ROW(step_facts, facts, OPS_FACTS);
        const step_facts f =
            SW_INIT(.model = o.of.name, .about = o.of.about,
                    .isa = sw_isa_name(b.subject.exec->target.isa), .batch = b.subject.batch,
                    .with_library_ns = o.blas != NULL ? b.rows[b.n_rows - 1].min_ns -
                                                            b.rows[b.n_rows - 1].products_ns +
                                                            b.rows[b.n_rows - 1].library_ns
                                                      : BENCH_NONE,
                    .step = cli_times_summary(&b.steps));
        bench_facts(out, facts, &f);
        bench_peaks_put(out, &b.peaks);
        put_rows(out, &b);
        if (o.blas == NULL)
            bench_note(out,
                       "\nno --library: what the products would take elsewhere is not known\n");
    }
    bench_subject_destroy(&b.subject);
    swi_pool_destroy(b.pool);
    cli_times_free(&b.steps);
    sw_heap_free(b.op_ns, SW_HEAP_RECORDS, b.n_ops * sizeof *b.op_ns);
    sw_heap_free(b.rows, SW_HEAP_RECORDS, b.cap_rows * sizeof *b.rows);
    return status;
}

/* --turns: say {"first_ns", "second_ns"}, then answer lines of NAME WARM COUNT on standard
 * input until it ends: WARM steps untimed, then COUNT, {"ns": [...]}. */
static sw_status answer_turns(bench *b, run *r)
{
    char line[64], name[16];
    sw_json json;
    result_json_begin(&json);
    SW_JSON_PUT(&json, r, first_ns, second_ns);
    b->code = result_json_end(&json, CLI_DONE);
    cli_flush();
    while (b->code == CLI_DONE && !cli_interrupted() &&
           fgets(line, sizeof line, stdin) != NULL) {
        int warm, count;
        if (sscanf(line, "%15s %d %d", name, &warm, &count) != 3 || warm < 0 || count < 1 ||
            strcmp(name, "step") != 0) {
            b->code =
                cli_error(CLI_USAGE, "--turns: a line must be step WARM COUNT (got %s)", line);
            break;
        }
        cli_times times;
        sw_status status = cli_times_init(&times, (uint64_t)count);
        for (int i = -warm; status == SW_OK && i < count; i++)
            status = i < 0 ? bench_subject_step(r->subject) : time_step(r, &times);
        result_json_begin(&json);
        sw_json_open(&json, "ns", '[');
        for (int i = 0; status == SW_OK && i < count; i++)
            sw_json_u64(&json, times.ns[i]);
        sw_json_end(&json);
        cli_times_free(&times);
        if (status != SW_OK) {
            sw_json_free(&json);
            return status;
        }
        b->code = result_json_end(&json, CLI_DONE);
        cli_flush();
    }
    return SW_OK;
}

/* ---- the command ------------------------------------------------------------------------- */

static sw_status measure(bench *b)
{
    bench_subject subject = {0};
    run r = {.subject = &subject};
    const sw_exec_opts exec = {.size = sizeof exec,
                               .threads = (int)b->threads,
                               .isa = o.isa,
                               .op_clocks = o.ops,
                               .compute = o.order != NULL ? SW_BF16 : SW_F32,
                               .bf16_order = bench_order(o.order)};
    if (o.ops)
        return speed_ops(b, &exec);
    const uint64_t start = cli_clock_ns();
    sw_status status = bench_subject_make(&subject, &o.of, o.batch, &exec);
    const uint64_t between = cli_clock_ns();
    if (status == SW_OK)
        status = bench_subject_step(&subject);
    r.first_ns = between - start;
    r.second_ns = cli_clock_ns() - between;
    if (status == SW_OK)
        status = o.turns ? answer_turns(b, &r) : time_steps(&r);
    if (status == SW_OK && !o.turns)
        report(b, &r);
    sw_heap_free(r.of.block, SW_HEAP_DATASETS, r.of.block_bytes);
    bench_subject_destroy(&subject);
    for (int i = 0; i < KINDS; i++)
        cli_times_free(&r.times[i]);
    return status;
}

/* The case's numbers where none are given. */
static int check(bench *b)
{
    if (o.ops && (o.turns || o.control))
        return cli_error(CLI_USAGE, "--ops goes with neither --turns nor --control");
    if (o.ops && strcmp(o.model, "es") == 0)
        return cli_error(CLI_USAGE, "--ops is for models that are trained (got es)");
    if (o.width > 0 && strcmp(o.model, "swishnet") != 0)
        return cli_error(CLI_USAGE, "--width is for --model swishnet (got %s)", o.model);
    if (o.blas != NULL && !o.ops)
        return cli_error(CLI_USAGE, "--library is for --ops");
    if (o.order != NULL && (o.blas != NULL || strcmp(o.model, "es") == 0))
        return cli_error(CLI_USAGE, "--bf16-order goes with neither --library nor --model es");
    o.of = *bench_case_find(BENCH_OF_SPEED, o.model);
    o.of.width = o.width > 0 ? o.width : o.of.width;
    o.batch = o.batch > 0 ? o.batch : o.of.batch;
    o.steps = o.steps > 0 ? o.steps : o.of.steps;
    b->json = b->json && !o.turns; /* whose lines are JSON */
    return CLI_GO;
}

static const char *const models[] = {"lenet5", "mlp200", "lenet5x5", "swishnet",
                                     "gpt",    "mbconv", "es",       NULL},
                         *const isas[] = {"base", "avx2", "avx512", "avx512-bf16", "amx", NULL},
                         *const orders[] = {"pair", "tile", NULL};
static const cli_option options[] = {
    BENCH_NAME("--model", &o.model, "lenet5", "the workload", models),
    BENCH_NUMBER("--steps", &o.steps, NULL,
                 "steps (lenet5: 500, mlp200: 200, swishnet: 15, others: 30)", 1, 1 << 20),
    BENCH_NUMBER("--batch", &o.batch, NULL,
                 "rows of a step (gpt: 8, mbconv: 32, es: 1024, others: 128)", 1, 1 << 16),
    BENCH_NUMBER("--width", &o.width, NULL, "features of a layer (swishnet: 4096)", 1, 1 << 14),
    BENCH_NAME("--isa", &o.isa, NULL, "instruction set (the best there is)", isas),
    BENCH_NAME("--bf16-order", &o.order, NULL,
               "steps in bf16, with products summed in this order (float32)", orders),
    BENCH_SWITCH("--control", &o.control,
                 "beside the steps, arithmetic, and reads and writes, of the same length"),
    BENCH_SWITCH(
        "--ops", &o.ops,
        "instead: each kind of op beside the machine's peaks, the most time lost first"),
    BENCH_NUMBER("--top", &o.top, "30", "with --ops: so many rows of text, then the rest", 1,
                 1 << 16),
    {"--library", "FILE", CLI_WORD, &o.blas, NULL,
     "with --ops: a shared object with cblas_sgemm; what the step's products take there"},
    BENCH_SWITCH("--turns", &o.turns, "answer lines of step WARM COUNT on standard input"),
};

const bench_command bench_speed = {
    .name = "speed",
    .line = "whole steps of workloads; their ops beside the machine's peaks",
    .about = "Whole training steps of a workload; or where their time goes.",
    BENCH_OPTIONS(options),
    .check = check,
    .run = measure,
    .notes = "lenet5: Adam, with its loader. mlp200: 200 perceptrons 49-64-24-10 as members, "
             "Adam. lenet5x5: 5 LeNet5 as members side by side, 14 batches of each in a step, "
             "own orders. swishnet: 8 linear layers of 4096, SGD. gpt: 4 layers of 256, "
             "context 128, vocabulary 8192, AdamW. mbconv: images of 64 x 64, Adam. es: a "
             "generation of LeNet5, an image for each evaluation, low-rank noise in pairs.\n"
             "--ops: the peaks are measured in the same run. An op's bound is the larger of "
             "its operations by the peak and its operands' bytes by the bandwidth (two reads "
             "and a write); what it takes beyond is lost. Less than 0: operands came from "
             "caches. Of members the ops are those of one, on one thread.\n"
             "--control: after each step each thread computes on registers for as long. After "
             "every 16 steps come 16 times reads and writes, as long and over as many bytes as "
             "the step's model, arena and batch have, an equal share of each thread. All that "
             "slows memory on a shared machine slows these as well: above their p99/median, a "
             "step has a tail of its own.\n"
             "tests/torch/speed.py takes turns with PyTorch and JAX."};
