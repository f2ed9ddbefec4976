/* bench accuracy: each function of one number and its slope over every float, or every N-th,
 * against float64: the rows of the table in kernels/README.md. */
#include "tools/bench/accuracy.h"
#include "kernels/dispatch.h"
#include "tools/bench/bench.h"
#include <string.h>

static struct {
    int64_t step;
    const char *op;
} o;

typedef struct {
    const char *op, *of, *note;
    int64_t arguments, other_bits;
    double bound_ulp, worst_ulp[ACCURACY_RANGES], at[ACCURACY_RANGES];
    bool holds;
} row;
#define RANGE(i, head)                                                                         \
    {head, BENCH_REAL, offsetof(row, worst_ulp) + (i) * sizeof(double), head, 9},              \
    {                                                                                          \
        "at " head, BENCH_REAL, offsetof(row, at) + (i) * sizeof(double), NULL, 0              \
    }
static const bench_field fields[] = {BENCH_FIELD(WORD, op, "op", 18),
                                     BENCH_FIELD(WORD, of, "of", 5),
                                     RANGE(0, "below -10"),
                                     RANGE(1, "-10 .. -1"),
                                     RANGE(2, "-1 .. 0"),
                                     RANGE(3, "0 .. 1"),
                                     RANGE(4, "1 .. 10"),
                                     RANGE(5, "above 10"),
                                     BENCH_FIELD(REAL, bound_ulp, "at most", 0),
                                     BENCH_FIELD(COUNT, arguments, NULL, 0),
                                     BENCH_FIELD(COUNT, other_bits, "other bits", 0),
                                     BENCH_FIELD(FLAG, holds, "holds", 5),
                                     BENCH_FIELD(WORD, note, "", 1)};

static bool chosen(int i)
{
    return o.op == NULL || strcmp(o.op, accuracy_rows[i].name) == 0;
}

/* Errors are rounded up, so that none is below what was found. */
static row judge(int i, const accuracy_result *found)
{
    const accuracy_row *a = &accuracy_rows[i];
    row r = SW_INIT(.op = a->name, .of = a->slope ? "slope" : "value", .note = a->note,
                    .arguments = (int64_t)found->arguments, .other_bits = (int64_t)found->apart,
                    .bound_ulp = a->bound, .holds = found->apart == 0);
    for (int k = 0; k < ACCURACY_RANGES; k++) {
        const double worst = found->worst[k];
        r.worst_ulp[k] = worst < 0.0 ? (double)NAN : ceil(worst * 100.0) / 100.0;
        r.at[k] = worst < 0.0 ? (double)NAN : (double)found->at[k];
        r.holds = r.holds && worst <= a->bound;
    }
    return r;
}

static sw_status measure(bench *b)
{
    static const bench_field facts[] = {
        {"step", BENCH_COUNT, 0, "every float of", 0},
        {"instruction_sets", BENCH_COUNT, sizeof(int64_t), "instruction sets", 0}};
    const int64_t f[] = {o.step, (int64_t)sw_cpu_isa() + 1};
    sw_pool *pool;
    int failed = 0;
    SW_TRY(swi_pool_create(&pool, (int)b->threads, 1));
    bench_facts(b, facts, f);
    for (int i = 0; i < n_accuracy_rows && !cli_interrupted(); i++) {
        accuracy_result found;
        if (!chosen(i))
            continue;
        /* Pieces between which progress is shown and an interrupt heeded. */
        const sw_par *par = swi_pool_par(pool);
        const accuracy_row *a = &accuracy_rows[i];
        const uint64_t step = (uint64_t)o.step, count = accuracy_count(step), piece = 1 << 22;
        accuracy_begin(&found);
        for (uint64_t at = 0; at < count && !cli_interrupted(); at += piece) {
            cli_progress("%s%s: %.0f %%", a->name, a->slope ? ", slope" : "",
                         100.0 * (double)at / (double)count);
            accuracy_sweep(a, step, at, at + piece < count ? at + piece : count, par, &found);
        }
        if (cli_interrupted())
            break;
        const row r = judge(i, &found);
        failed += !r.holds;
        bench_rows(b, "rows", fields, &r, 1);
    }
    swi_pool_destroy(pool);
    if (failed > 0)
        b->code = cli_error(CLI_FAILED, "%d rows are above what they promise", failed);
    return SW_OK;
}

static int check(bench *b)
{
    (void)b;
    for (int i = 0; i < n_accuracy_rows; i++)
        if (chosen(i))
            return CLI_GO;
    const char *near = cli_nearest(o.op, accuracy_rows, sizeof *accuracy_rows, n_accuracy_rows);
    return near != NULL ? cli_error(CLI_USAGE, "unknown op '%s'; did you mean %s?", o.op, near)
                        : cli_error(CLI_USAGE, "unknown op '%s'", o.op);
}

static const cli_option options[] = {
    BENCH_NUMBER("--step", &o.step, "1", "every N-th float by its bits", 1, 1 << 24),
    BENCH_NAME("--op", &o.op, NULL, "this op alone, as the table names it", NULL),
};

const bench_command bench_accuracy = {
    .name = "accuracy",
    .line = "functions of one number against float64, over every float",
    .about = "Largest errors of functions of one number and of their slopes against "
             "float64, over every float.",
    BENCH_OPTIONS(options),
    .check = check,
    .run = measure,
    .notes = "Errors are in ulp of max(|y|, 2^-126), where a slope crosses 0 of a larger "
             "number. Slopes are those of what the op saves. All instruction sets of the "
             "machine run; they must have the same bits. Exit status 1: a row is above "
             "what it promises."};
