/* bench accuracy: each function of one number and its slope over every float, or every N-th,
 * against float64. It prints the table of kernels/README.md. */
#include "tools/bench/accuracy.h"
#include "kernels/dispatch.h"
#include "runtime/exec/exec.h"
#include "tools/bench/bench.h"
#include <math.h>
#include <string.h>

typedef struct {
    int64_t step, threads;
    const char *op;
    bool json;
} accuracy_opts;

enum { MOST_ROWS = 64 };
static accuracy_result results[MOST_ROWS];

static bool chosen(const accuracy_opts *o, int i)
{
    return o->op == NULL || strcmp(o->op, accuracy_rows[i].name) == 0;
}

/* Pieces between which progress is shown and an interrupt heeded. */
static void sweep_row(const accuracy_opts *o, int i, int done, int n, const sw_par *par)
{
    const uint64_t step = (uint64_t)o->step, count = accuracy_count(step), piece = 1 << 22;
    accuracy_begin(&results[i]);
    for (uint64_t at = 0; at < count && !cli_interrupted(); at += piece) {
        cli_progress("%s%s: %d of %d, %.0f %%", accuracy_rows[i].name,
                     accuracy_rows[i].slope ? ", slope" : "", done + 1, n,
                     100.0 * (double)at / (double)count);
        accuracy_sweep(&accuracy_rows[i], step, at, at + piece < count ? at + piece : count,
                       par, &results[i]);
    }
}

static bool holds(int i)
{
    bool ok = results[i].apart == 0;
    for (int r = 0; r < ACCURACY_RANGES; r++)
        ok = ok && results[i].worst[r] <= accuracy_rows[i].bound;
    return ok;
}

/* Rounded up, so that what is printed is not below what was found. */
static void print_cell(double worst)
{
    if (worst < 0.0)
        printf(" - |");
    else if (isinf(worst))
        printf(" inf |");
    else
        printf(" %.2f |", ceil(worst * 100.0) / 100.0);
}

static void print_table(const accuracy_opts *o)
{
    printf("| op | of | %s | %s | %s | %s | %s | %s | at most | |\n", accuracy_ranges[0],
           accuracy_ranges[1], accuracy_ranges[2], accuracy_ranges[3], accuracy_ranges[4],
           accuracy_ranges[5]);
    printf("|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < n_accuracy_rows; i++) {
        const accuracy_row *row = &accuracy_rows[i];
        if (!chosen(o, i))
            continue;
        printf("| %s | %s |", row->name, row->slope ? "slope" : "value");
        for (int r = 0; r < ACCURACY_RANGES; r++)
            print_cell(results[i].worst[r]);
        printf(" %g | %s |\n", row->bound, row->note);
    }
}

static void put_row(sw_json *json, int i)
{
    const accuracy_row *row = &accuracy_rows[i];
    sw_json_begin(json, '{');
    sw_json_put_string(json, "op", row->name);
    sw_json_put_bool(json, "slope", row->slope);
    sw_json_put_u64(json, "arguments", results[i].arguments);
    sw_json_put_u64(json, "other_bits", results[i].apart);
    sw_json_put_f64(json, "bound_ulp", row->bound);
    sw_json_open(json, "ranges", '[');
    for (int r = 0; r < ACCURACY_RANGES; r++) {
        if (results[i].worst[r] < 0.0)
            continue;
        sw_json_begin(json, '{');
        sw_json_put_string(json, "range", accuracy_ranges[r]);
        sw_json_put_f64(json, "worst_ulp", results[i].worst[r]);
        sw_json_put_f64(json, "at", (double)results[i].at[r]);
        sw_json_end(json);
    }
    sw_json_end(json);
    sw_json_put_bool(json, "holds", holds(i));
    sw_json_end(json);
}

static int finish(const accuracy_opts *o, uint64_t ns)
{
    int failed = 0;
    for (int i = 0; i < n_accuracy_rows; i++)
        failed += chosen(o, i) && !holds(i);
    const int status = cli_interrupted() ? CLI_INTERRUPTED : failed > 0 ? CLI_FAILED : CLI_DONE;
    if (o->json) {
        sw_json json;
        result_json_begin(&json);
        sw_json_put_i64(&json, "step", o->step);
        sw_json_put_i64(&json, "threads", o->threads);
        sw_json_put_u64(&json, "elapsed_ns", ns);
        sw_json_put_i64(&json, "instruction_sets", (int64_t)sw_cpu_isa() + 1);
        sw_json_open(&json, "rows", '[');
        for (int i = 0; i < n_accuracy_rows && !cli_interrupted(); i++)
            if (chosen(o, i))
                put_row(&json, i);
        sw_json_end(&json);
        return result_json_end(&json, status);
    }
    if (cli_interrupted())
        return cli_finish(status);
    print_table(o);
    printf("\n%s arguments each, every %lld of all floats, in %s; %d instruction sets.\n",
           cli_digits(accuracy_count((uint64_t)o->step)).text, (long long)o->step,
           cli_ns(ns).text, (int)sw_cpu_isa() + 1);
    for (int i = 0; i < n_accuracy_rows; i++)
        if (chosen(o, i) && results[i].apart > 0)
            printf("%s, %s: other bits of another instruction set at %s arguments\n",
                   accuracy_rows[i].name, accuracy_rows[i].slope ? "slope" : "value",
                   cli_digits(results[i].apart).text);
    if (failed > 0)
        return cli_error(cli_finish(CLI_FAILED), "%d rows are above what they promise", failed);
    return cli_finish(status);
}

static int run(const accuracy_opts *o)
{
    sw_pool *pool = NULL;
    int n = 0, done = 0;
    for (int i = 0; i < n_accuracy_rows; i++)
        n += chosen(o, i);
    if (n == 0) {
        const char *near =
            cli_nearest(o->op, accuracy_rows, sizeof *accuracy_rows, n_accuracy_rows);
        return near != NULL
                   ? cli_error(CLI_USAGE, "unknown op '%s'; did you mean %s?", o->op, near)
                   : cli_error(CLI_USAGE, "unknown op '%s'", o->op);
    }
    const sw_status status = swi_pool_create(&pool, (int)o->threads, 1);
    if (status != SW_OK)
        return cli_library_error(status, false);
    cli_catch_interrupt();
    const uint64_t start = cli_clock_ns();
    for (int i = 0; i < n_accuracy_rows && !cli_interrupted(); i++)
        if (chosen(o, i))
            sweep_row(o, i, done++, n, swi_pool_par(pool));
    cli_progress("%s", "");
    swi_pool_destroy(pool);
    return finish(o, cli_clock_ns() - start);
}

int bench_accuracy(int argc, char **argv)
{
    accuracy_opts o = {0};
    const cli_option options[] = {
        {"--step", "N", CLI_COUNT, &o.step, "1", "every N-th float by its bits", 1, 1 << 24,
         NULL},
        {"--op", "NAME", CLI_WORD, &o.op, NULL, "this op alone, as the table names it", 0, 0,
         NULL},
        {"--threads", "N", CLI_COUNT, &o.threads, "2", "threads that compute", 1, 256, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
    };
    const cli_command command = {
        .name = "bench accuracy",
        .usage = "[options]",
        .about = "Largest errors of functions of one number and of their slopes against "
                 "float64, over every float.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .notes = "Errors are in ulp of max(|y|, 2^-126), where a slope crosses 0 of a larger "
                 "number. Slopes are those of what the op saves. All instruction sets of the "
                 "machine run; they must have the same bits. Exit status 1: a row is above "
                 "what it promises."};
    const int status = cli_parse(&command, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
