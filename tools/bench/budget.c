/* bench budget: for three deep programs, what keeping a part of the activations costs: bytes,
 * repeated arithmetic beside the known optimum, predicted and measured times. */
#include "tools/bench/budget.h"
#include <string.h>

enum { SUBJECTS = 3 };
static const char *const kinds[SUBJECTS + 2] = {"mlp", "lenet5", "conv", "all", NULL};

typedef struct {
    bench_budget_times how;
    bench_deep_opts sizes;
    const char *subject;
    bool json, quiet;
} budget_opts;

static double percent(double part, double whole)
{
    return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

static double operations_percent(const bench_budget_table *t, uint64_t operations)
{
    return percent((double)operations, (double)t->plain.operations);
}

static double cost_percent(const bench_budget_table *t, uint64_t cost)
{
    return percent((double)cost, (double)t->plain.cost);
}

static double expected_ns(const bench_budget_row *row)
{
    return row->predicted * (double)row->plain_ns;
}

static double off_percent(const bench_budget_row *row)
{
    return percent((double)row->ns - expected_ns(row), expected_ns(row));
}

/* ---- text -------------------------------------------------------------------------------- */

static void print_name(const bench_budget_row *row)
{
    if (row->keep > 0)
        printf("%4d %%", row->keep);
    else
        printf("%6s", "least");
}

static void print_subject(const bench_budget_table *t)
{
    const bench_deep_opts *o = &t->opts;
    if (strcmp(o->kind, "lenet5") == 0)
        printf("lenet5, Adam, batch %lld", (long long)o->batch);
    else if (strcmp(o->kind, "mlp") == 0)
        printf("%lld linear layers of %lld with relu, SGD, batch %lld", (long long)o->layers,
               (long long)o->width, (long long)o->batch);
    else
        printf("%lld convolutions of %lld channels, %lld x %lld, SGD, batch %lld",
               (long long)o->layers, (long long)o->width, (long long)o->side,
               (long long)o->side, (long long)o->batch);
    printf("\nwithout a budget %s bytes", cli_digits(t->plain.total_bytes).text);
    printf(", of which %s are activations", cli_digits(t->activation_bytes).text);
    if (t->links > 0)
        printf("\n(%u equal links of %s, each at most %.3f %% of the arithmetic)", t->links,
               cli_digits(t->link_bytes).text,
               operations_percent(t, t->link_operations[t->links - 1]));
    printf("\n\n");
}

static void print_bytes(const bench_budget_table *t)
{
    printf("%6s %12s %12s %13s %12s %10s %7s\n", "keep", "budget", "total", "predicted peak",
           "observed", "planned", "by");
    for (int i = 0; i < BENCH_BUDGET_ROWS; i++) {
        const bench_budget_row *row = &t->row[i];
        if (row->budget_bytes == 0)
            continue;
        print_name(row);
        printf(" %12s", cli_digits(row->budget_bytes).text);
        if (!row->fits) {
            printf(" does not fit: %s are the least\n", cli_digits(t->least_bytes).text);
            continue;
        }
        printf(" %12s", cli_digits(row->plan.total_bytes).text);
        printf(" %14s", cli_digits(row->plan.peak_bytes).text);
        printf(" %12s", cli_digits(row->observed).text);
        printf(" %10s %7s\n", cli_ns(row->plan.trace_ns + row->plan.plan_ns).text,
               row->plan.method[0] != '\0' ? row->plan.method : "-");
        if (row->witnessed > 0 && row->witnessed != row->observed)
            printf("%6s the access witness saw %s\n", "", cli_digits(row->witnessed).text);
    }
}

static void print_or_dash(bool known, int width, double x)
{
    if (known)
        printf(" %*.2f", width, x);
    else
        printf(" %*s", width, "-");
}

static void print_times(const bench_budget_table *t)
{
    printf("\n%6s %5s %9s %9s %7s %7s %10s %10s %7s\n", "keep", "again", "arith. %",
           "optimum %", "cost %", "least %", "predicted", "measured", "off %");
    for (int i = 0; i < BENCH_BUDGET_ROWS; i++) {
        const bench_budget_row *row = &t->row[i];
        if (row->budget_bytes == 0 || !row->fits)
            continue;
        print_name(row);
        printf(" %5u %9.2f", row->plan.n_repeats,
               operations_percent(t, row->plan.repeat_operations));
        print_or_dash(row->known < UINT64_MAX, 9, operations_percent(t, row->known));
        printf(" %7.2f", cost_percent(t, row->plan.repeat_cost));
        print_or_dash(row->plan.least_repeat_cost < UINT64_MAX, 7,
                      cost_percent(t, row->plan.least_repeat_cost));
        if (row->timed)
            printf(" %10s", cli_ns((uint64_t)expected_ns(row)).text);
        if (row->timed)
            printf(" %10s %7.1f", cli_ns(row->ns).text, off_percent(row));
        printf("\n");
    }
}

void bench_budget_print(const bench_budget_table *t)
{
    print_subject(t);
    print_bytes(t);
    print_times(t);
    if (t->sweep_budgets > 0)
        printf("\n%d budgets down to the least: %d fit, %d cost less than a larger one;\n"
               "planned in at most %s\n",
               t->sweep_budgets, t->sweep_planned, t->sweep_falls, cli_ns(t->sweep_ns).text);
}

static void print_heading(const budget_opts *o)
{
    printf("keep: percent of the activations that the budget leaves room for. again: ops\n"
           "that run again. arith.: repeated arithmetic in percent of that of a step without\n"
           "repeats; optimum: on a chain of n equal links with room for k at least n - k are\n"
           "recomputed. cost: as the planner estimates it; least: as it proved. predicted:\n"
           "the plain program's step, and its ops that are repeated once more; both run in\n"
           "turn, medians. %lld thread%s.\n\n",
           (long long)o->how.threads, o->how.threads == 1 ? "" : "s");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_times(sw_json *json, const bench_budget_row *row)
{
    sw_json_put_u64(json, "plain_ns", row->plain_ns);
    sw_json_put_u64(json, "plain_min_ns", row->plain_min_ns);
    sw_json_put_f64(json, "predicted_ns", expected_ns(row));
    sw_json_put_u64(json, "measured_ns", row->ns);
    sw_json_put_u64(json, "measured_min_ns", row->min_ns);
    sw_json_put_f64(json, "predicted_ratio", row->predicted);
    sw_json_put_f64(json, "measured_ratio", (double)row->ns / (double)row->plain_ns);
    sw_json_put_f64(json, "measured_min_ratio",
                    (double)row->min_ns / (double)row->plain_min_ns);
    sw_json_put_f64(json, "measured_paired_ratio", row->paired);
    sw_json_put_u64(json, "expected_again_ns", row->expected_again_ns);
    sw_json_put_u64(json, "again_ns", row->again_ns);
    sw_json_put_u64(json, "plain_forward_ns", row->rest_ns[0][0]);
    sw_json_put_u64(json, "plain_backward_ns", row->rest_ns[0][1]);
    sw_json_put_u64(json, "forward_ns", row->rest_ns[1][0]);
    sw_json_put_u64(json, "backward_ns", row->rest_ns[1][1]);
    sw_json_put_f64(json, "off_percent", off_percent(row));
}

static void put_row(sw_json *json, const bench_budget_table *t, const bench_budget_row *row)
{
    sw_json_begin(json, '{');
    sw_json_put_i64(json, "keep_percent", row->keep);
    sw_json_put_u64(json, "budget_bytes", row->budget_bytes);
    sw_json_put_bool(json, "fits", row->fits);
    if (row->fits) {
        sw_json_put_u64(json, "total_bytes", row->plan.total_bytes);
        sw_json_put_u64(json, "predicted_peak_bytes", row->plan.peak_bytes);
        sw_json_put_u64(json, "observed_peak_bytes", row->observed);
        if (row->witnessed > 0)
            sw_json_put_u64(json, "witnessed_peak_bytes", row->witnessed);
        sw_json_put_u64(json, "repeats", row->plan.n_repeats);
        sw_json_put_f64(json, "repeat_operations_percent",
                        operations_percent(t, row->plan.repeat_operations));
        if (row->known < UINT64_MAX)
            sw_json_put_f64(json, "optimum_operations_percent",
                            operations_percent(t, row->known));
        sw_json_put_f64(json, "repeat_cost_percent", cost_percent(t, row->plan.repeat_cost));
        if (row->plan.least_repeat_cost < UINT64_MAX)
            sw_json_put_f64(json, "least_repeat_cost_percent",
                            cost_percent(t, row->plan.least_repeat_cost));
        sw_json_put_string(json, "method", row->plan.method);
        sw_json_put_u64(json, "plan_ns", row->plan.trace_ns + row->plan.plan_ns);
    }
    if (row->timed)
        put_times(json, row);
    sw_json_end(json);
}

void bench_budget_put(sw_json *json, const bench_budget_table *t)
{
    sw_json_begin(json, '{');
    sw_json_put_string(json, "subject", t->opts.kind);
    sw_json_put_i64(json, "layers", t->opts.layers);
    sw_json_put_i64(json, "width", t->opts.width);
    sw_json_put_i64(json, "batch", t->opts.batch);
    sw_json_put_u64(json, "plain_total_bytes", t->plain.total_bytes);
    sw_json_put_u64(json, "activation_bytes", t->activation_bytes);
    sw_json_put_u64(json, "least_total_bytes", t->least_bytes);
    sw_json_put_u64(json, "operations", t->plain.operations);
    sw_json_put_u64(json, "links", t->links);
    sw_json_put_u64(json, "link_bytes", t->link_bytes);
    sw_json_put_u64(json, "link_operations",
                    t->links > 0 ? t->link_operations[t->links - 1] : 0);
    sw_json_open(json, "rows", '[');
    for (int i = 0; i < BENCH_BUDGET_ROWS; i++)
        if (t->row[i].budget_bytes > 0)
            put_row(json, t, &t->row[i]);
    sw_json_end(json);
    sw_json_open(json, "sweep", '{');
    sw_json_put_i64(json, "budgets", t->sweep_budgets);
    sw_json_put_i64(json, "fit", t->sweep_planned);
    sw_json_put_i64(json, "cost_falls", t->sweep_falls);
    sw_json_put_u64(json, "max_plan_ns", t->sweep_ns);
    sw_json_end(json);
    sw_json_end(json);
}

/* ---- the command ------------------------------------------------------------------------- */

static int run(const budget_opts *o)
{
    static bench_budget_table table;
    sw_json json;
    bool shown = false;
    if (o->json) {
        result_json_begin(&json);
        sw_json_put_i64(&json, "threads", o->how.threads);
        sw_json_open(&json, "subjects", '[');
    } else if (!o->quiet)
        print_heading(o);
    cli_catch_interrupt();
    for (int i = 0; i < SUBJECTS && !cli_interrupted(); i++) {
        if (strcmp(o->subject, "all") != 0 && strcmp(o->subject, kinds[i]) != 0)
            continue;
        table = (bench_budget_table){.opts = o->sizes};
        table.opts.kind = kinds[i];
        bench_deep_sizes(&table.opts);
        bench_budget_times how = o->how;
        if (how.steps < 0)
            how.steps = strcmp(kinds[i], "lenet5") == 0 ? 500 : 20;
        const sw_status status = bench_budget_measure(&table, &how);
        if (status != SW_OK) {
            if (o->json)
                sw_json_free(&json);
            return cli_library_error(status, false);
        }
        if (o->json)
            bench_budget_put(&json, &table);
        else {
            printf("%s", shown ? "\n" : "");
            bench_budget_print(&table);
        }
        shown = true;
    }
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (!o->json)
        return cli_finish(status);
    sw_json_end(&json);
    return result_json_end(&json, status);
}

int bench_budget(int argc, char **argv)
{
    budget_opts o = {.how = {.steps = -1}};
    bench_deep_opts *s = &o.sizes;
    const cli_option options[] = {
        {"--subject", "NAME", CLI_WORD, &o.subject, "all", "mlp, lenet5, conv, or all", 0, 0,
         kinds},
        {"--steps", "N", CLI_COUNT, &o.how.steps, NULL,
         "timed steps of each row, and as many without a budget in between (default 20, "
         "lenet5 500); 0: none",
         0, 1 << 16, NULL},
        {"--budgets", "N", CLI_COUNT, &o.how.budgets, "50",
         "that are planned, evenly down to the least", 2, 1 << 16, NULL},
        {"--threads", "N", CLI_COUNT, &o.how.threads, "2", "threads that compute", 1, 256,
         NULL},
        {"--layers", "N", CLI_COUNT, &s->layers, NULL, "of the chains (default 32, conv 50)", 2,
         BENCH_DEEP_LAYERS, NULL},
        {"--width", "N", CLI_COUNT, &s->width, NULL,
         "of a layer (default 1024), or its channels (16)", 10, 1 << 16, NULL},
        {"--side", "N", CLI_COUNT, &s->side, NULL, "of conv's images (default 32)", 1, 4096,
         NULL},
        {"--batch", "N", CLI_COUNT, &s->batch, NULL,
         "rows per step (default 512, lenet5 128, conv 32)", 1, 1 << 16, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "no heading", 0, 0, NULL},
    };
    const cli_command command = {
        .name = "bench budget",
        .usage = "[options]",
        .about = "The cost of keeping less: bytes, repeated arithmetic and time of three deep "
                 "programs.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options)};
    const int status = cli_parse(&command, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
