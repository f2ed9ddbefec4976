/* bench plan --prove: the height of every training program's arena beside its lower bound: each
 * model, optimizer, release on and off, and every batch up to a largest. Where a plan stays
 * above, a longer search says whether the bound can be reached. */
#include "alloc/placement/placement.h"
#include "tools/bench/bench.h"
#include "tools/job/optimizer.h"
#include <string.h>

#define BUFFERS_MAX 4096

/* As `stepwell train` names them. */
static const char *const models[] = {"mlp", "lenet5"};
static const char *const optimizers[] = {"sgd", "momentum", "nesterov", "adam", "adamw"};
enum { N_MODELS = 2, N_OPTIMIZERS = 5, N_KINDS = N_MODELS * N_OPTIMIZERS * 2 };

/* The programs of one kind, or of all. */
typedef struct {
    int64_t programs;
    int64_t reached;     /* the plan is at its lower bound */
    int64_t longer;      /* above; a longer search comes to the bound */
    int64_t unreachable; /* above; no placement is at the bound, proved */
    int64_t open;        /* above; neither */
    double above;        /* how far a plan is above its bound at most, in percent */
    double left;         /* the same between the lowest known height and what is proved */
} tally;

typedef struct {
    const char *model, *optimizer;
    bool release;
    tally of;
} kind;

typedef struct {
    const bench_prove_opts *opts;
    sw_placement_item items[BUFFERS_MAX];
    size_t n, height; /* of the plan that was visited last */
    kind kinds[N_KINDS];
    tally all;
} proof;

static void take_storage(void *to, const sw_plan_storage *s)
{
    proof *p = to;
    const size_t bytes = s->bytes + s->padding;
    if (s->input || s->alias != UINT32_MAX || bytes == 0)
        return;
    if (s->offset + bytes > p->height)
        p->height = s->offset + bytes;
    if (p->n < BUFFERS_MAX)
        p->items[p->n] =
            (sw_placement_item){.lower = s->birth, .upper = s->death + 1, .bytes = bytes};
    p->n++;
}

static double percent(size_t part, size_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void add(tally *to, const tally *one)
{
    to->programs += one->programs;
    to->reached += one->reached;
    to->longer += one->longer;
    to->unreachable += one->unreachable;
    to->open += one->open;
    to->above = larger(to->above, one->above);
    to->left = larger(to->left, one->left);
}

/* The program that was visited last. */
static sw_status judge(proof *p, tally *to)
{
    sw_placement_result r;
    const sw_placement_opts plan = {0}, longer = {.nodes = (uint64_t)p->opts->nodes};
    if (p->n > BUFFERS_MAX)
        SW_FAIL(SW_UNSUPPORTED, "a program must have at most %d buffers (got %zu)", BUFFERS_MAX,
                p->n);
    SW_TRY(sw_placement_solve(p->items, p->n, &plan, &r));
    tally one = {.programs = 1, .above = percent(p->height - r.lower_bound, r.lower_bound)};
    if (p->height > r.lower_bound)
        SW_TRY(sw_placement_solve(p->items, p->n, &longer, &r));
    const size_t lowest = p->height < r.height ? p->height : r.height;
    one.left = percent(lowest - r.proved, r.lower_bound);
    if (p->height == r.lower_bound)
        one.reached = 1;
    else if (r.height == r.lower_bound)
        one.longer = 1;
    else if (r.proved > r.lower_bound)
        one.unreachable = 1;
    else
        one.open = 1;
    add(to, &one);
    return SW_OK;
}

static sw_status visit(proof *p, sw_exec *exec, tool_net *net, int64_t batch, tally *to)
{
    const sw_array inputs[] = {{SW_U8, SW_SHAPE(batch, 1, 28, 28), NULL},
                               {SW_U8, SW_SHAPE(batch), NULL}};
    const sw_run_args args = {.size = sizeof args,
                              .fn = tool_net_step,
                              .user = net,
                              .models = &net->model,
                              .n_models = 1,
                              .inputs = inputs,
                              .n_inputs = 2,
                              .mode = SW_TRAIN};
    const sw_plan_visitor visitor = {.size = sizeof visitor, .to = p, .storage = take_storage};
    p->n = p->height = 0;
    SW_TRY(sw_plan_visit(exec, &args, &visitor));
    return judge(p, to);
}

static sw_status prove_kind(proof *p, kind *k)
{
    tool_net_opts net_opts;
    SW_TRY(tool_net_digits(&net_opts, k->model));
    tool_optimizer_set(&net_opts.optimizer, k->optimizer, 0.9);
    net_opts.optimizer.release = k->release;
    const sw_exec_opts exec_opts = {.size = sizeof exec_opts, .threads = (int)p->opts->threads};
    sw_exec *exec = NULL;
    tool_net net = {0};
    SW_TRY(sw_exec_create(&exec, &exec_opts));
    sw_status status = tool_net_create(&net, &net_opts);
    for (int64_t batch = 1; status == SW_OK && batch <= p->opts->largest && !cli_interrupted();
         batch++)
        status = visit(p, exec, &net, batch, &k->of);
    tool_net_destroy(&net);
    sw_exec_destroy(exec);
    return status;
}

static sw_status prove_all(proof *p)
{
    for (int i = 0; i < N_KINDS && !cli_interrupted(); i++) {
        kind *k = &p->kinds[i];
        k->model = models[i / (2 * N_OPTIMIZERS)];
        k->optimizer = optimizers[i / 2 % N_OPTIMIZERS];
        k->release = i % 2 != 0;
        SW_TRY(prove_kind(p, k));
        add(&p->all, &k->of);
    }
    return SW_OK;
}

/* ---- showing ----------------------------------------------------------------------------- */

static void print_row(const char *model, const char *optimizer, const char *release,
                      const tally *t)
{
    printf("%-7s %-9s %-7s %8lld %8lld %7lld %7lld %5lld %8.4f %7.4f\n", model, optimizer,
           release, (long long)t->programs, (long long)t->reached, (long long)t->longer,
           (long long)t->unreachable, (long long)t->open, t->above, t->left);
}

static void print_all(const proof *p)
{
    if (!p->opts->quiet)
        printf("Every training program, batches 1 to %lld: heights beside lower bounds.\n"
               "reached: by the plan; longer: by a search of %s nodes; never: proved that\n"
               "nothing is at the bound; open: neither. above %%: of plans, at most; left %%:\n"
               "between the lowest known and what is proved.\n\n",
               (long long)p->opts->largest, cli_digits((uint64_t)p->opts->nodes).text);
    printf("%-7s %-9s %-7s %8s %8s %7s %7s %5s %8s %7s\n", "model", "optimizer", "release",
           "programs", "reached", "longer", "never", "open", "above %", "left %");
    for (int i = 0; i < N_KINDS; i++)
        if (p->kinds[i].of.programs > 0)
            print_row(p->kinds[i].model, p->kinds[i].optimizer,
                      p->kinds[i].release ? "yes" : "no", &p->kinds[i].of);
    print_row("all", "", "", &p->all);
}

static void put_tally(sw_json *json, const tally *t)
{
    sw_json_put_i64(json, "programs", t->programs);
    sw_json_put_i64(json, "reached", t->reached);
    sw_json_put_i64(json, "reached_by_longer_search", t->longer);
    sw_json_put_i64(json, "proved_unreachable", t->unreachable);
    sw_json_put_i64(json, "open", t->open);
    sw_json_put_f64(json, "above_percent", t->above);
    sw_json_put_f64(json, "gap_left_percent", t->left);
}

static int put_all(const proof *p, int status)
{
    sw_json json;
    result_json_begin(&json);
    sw_json_put_i64(&json, "largest_batch", p->opts->largest);
    sw_json_put_i64(&json, "threads", p->opts->threads);
    sw_json_put_i64(&json, "nodes", p->opts->nodes);
    put_tally(&json, &p->all);
    sw_json_open(&json, "kinds", '[');
    for (int i = 0; i < N_KINDS && p->kinds[i].of.programs > 0; i++) {
        sw_json_begin(&json, '{');
        sw_json_put_string(&json, "model", p->kinds[i].model);
        sw_json_put_string(&json, "optimizer", p->kinds[i].optimizer);
        sw_json_put_bool(&json, "release", p->kinds[i].release);
        put_tally(&json, &p->kinds[i].of);
        sw_json_end(&json);
    }
    sw_json_end(&json);
    return result_json_end(&json, status);
}

int bench_prove(const bench_prove_opts *opts)
{
    static proof p;
    p = (proof){.opts = opts};
    cli_catch_interrupt();
    const sw_status status = prove_all(&p);
    if (status != SW_OK)
        return cli_library_error(status, false);
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (opts->json)
        return put_all(&p, code);
    print_all(&p);
    return cli_finish(code);
}
