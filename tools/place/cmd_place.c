/* stepwell place: an offset for each buffer of a file, as low as possible or within a capacity.
 * Whatever the solver finds is checked before it is shown or written. */
#include "tools/place/place.h"
#include "tools/job/result.h"
#include <string.h>

/* The search that --prove asks for: many minutes. */
#define PROVE_NODES ((int64_t)100000000)

#define NO_LIMIT 1e9 /* thirty years, and far from what a clock overflows at */

typedef struct {
    const char *file, *out;
    size_t capacity;
    double time_limit; /* seconds; negative: none */
    int64_t nodes;     /* 0: not given */
    int64_t threads;
    bool prove, json, quiet;
} place_opts;

typedef struct {
    const place_opts *opts;
    place_csv csv;
    place_answer answer;
    uint64_t start, read_ns, write_ns, total_ns;
    bool written;
} place_run;

/* ---- for people -------------------------------------------------------------------------- */

/* To standard error where standard output has the rows. */
static void print_answer(const place_run *run)
{
    const place_opts *o = run->opts;
    const place_answer *a = &run->answer;
    const sw_placement_result *r = &a->result;
    FILE *to = o->out != NULL && strcmp(o->out, "-") == 0 ? stderr : stdout;
    if (o->quiet) {
        if (o->out == NULL)
            fprintf(to, "%zu\n", r->height);
        return;
    }
    fprintf(to, "buffers      %s\n", cli_digits(run->csv.n).text);
    if (o->capacity > 0)
        fprintf(to, "capacity     %s\n", result_both(o->capacity).text);
    fprintf(to, "lower bound  %s\n", result_both(r->lower_bound).text);
    fprintf(to, "height       %s\n", result_both(r->height).text);
    if (r->height == r->lower_bound)
        fputs("             the optimum: the lower bound is reached\n", to);
    else if (a->optimal)
        fprintf(to,
                "             the optimum: proved that nothing is lower, %.3f %% over\n"
                "             the lower bound\n",
                place_gap_percent(a));
    else
        fprintf(to, "             %.3f %% over the lower bound; not proved to be the optimum\n",
                place_gap_percent(a));
    if (!a->optimal && r->proved > r->lower_bound)
        fprintf(to, "proved       nothing is below %s\n", result_both(r->proved).text);
    fprintf(to, "found by     %s; %s order%s, %s search node%s\n",
            r->method != NULL ? r->method : "nothing to do",
            cli_digits((uint64_t)r->n_orders).text, r->n_orders == 1 ? "" : "s",
            cli_digits(r->nodes).text, r->nodes == 1 ? "" : "s");
    if (r->hurried)
        fputs("             no placement was whole when it had to end: what had no place went\n"
              "             on top, over blocks that others had left\n",
              to);
    else if (a->timed_out)
        fputs("             until the time limit\n", to);
    fprintf(to, "read %s, solved %s, checked %s", cli_ns(run->read_ns).text,
            cli_ns(a->solve_ns).text, cli_ns(a->check_ns).text);
    if (run->written)
        fprintf(to, ", written %s", cli_ns(run->write_ns).text);
    fputc('\n', to);
}

/* One line for an answer that is above the capacity. */
static int refuse(const place_run *run)
{
    const place_answer *a = &run->answer;
    const sw_placement_result *r = &a->result;
    const char *file = run->opts->file;
    const size_t capacity = run->opts->capacity;
    const int status = place_status(a);
    if (r->lower_bound > capacity)
        return cli_error(status,
                         "%s: proved: no placement within %zu bytes exists, %zu bytes live at "
                         "one time",
                         file, capacity, r->lower_bound);
    if (a->result.end == SW_PLACEMENT_NO_FIT)
        return cli_error(status,
                         "%s: proved: no placement within %zu bytes exists; the lowest that "
                         "was found has %zu",
                         file, capacity, r->height);
    return cli_error(status,
                     "%s: not proved: no placement within %zu bytes was found, the search "
                     "%s after %s nodes; the lowest has %zu, and none is below %zu",
                     file, capacity,
                     a->interrupted ? "was interrupted"
                     : a->timed_out ? "met the time limit"
                                    : "ended",
                     cli_digits(r->nodes).text, r->height,
                     r->proved > r->lower_bound ? r->proved : r->lower_bound);
}

/* ---- the run ----------------------------------------------------------------------------- */

/* Reads the file and finds the places. */
static int solve_problem(place_run *run)
{
    const place_opts *o = run->opts;
    CLI_LIBRARY(place_csv_read(&run->csv, o->file), true);
    run->read_ns = cli_clock_ns() - run->start;
    place_request request = {.capacity = o->capacity,
                             .threads = (unsigned)o->threads,
                             .nodes = (uint64_t)(o->nodes > 0 ? o->nodes
                                                 : o->prove   ? PROVE_NODES
                                                              : PLACE_NODES)};
    if (o->time_limit >= 0.0 && o->time_limit < NO_LIMIT)
        request.until_ns = run->start + (uint64_t)(o->time_limit * 1e9);
    const sw_status status = place_solve(&run->csv, &request, &run->answer);
    if (status == SW_INVALID)
        return cli_error(CLI_FAILED, "%s: the solver's answer is wrong: %s", o->file,
                         sw_last_error());
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

/* Nothing is written that is not within the capacity. */
static int write_answer(place_run *run)
{
    const place_opts *o = run->opts;
    if (o->out == NULL || !run->answer.holds)
        return CLI_GO;
    const uint64_t start = cli_clock_ns();
    CLI_LIBRARY(cli_saved(place_csv_write(&run->csv, o->out)), false);
    run->write_ns = cli_clock_ns() - start;
    run->written = true;
    return CLI_GO;
}

static int show(const place_run *run)
{
    const place_opts *o = run->opts;
    const place_answer *a = &run->answer;
    int status = place_status(a);
    if (!a->holds)
        status = refuse(run);
    else if (status == CLI_INTERRUPTED && !a->optimal)
        cli_note("interrupted: this is the lowest that was found until then");
    if (o->json) {
        static const char *const ends[] = {"optimal", "fits", "no_fit", "gave_up"};
        const sw_placement_result *r = &a->result;
        sw_json json;
        result_json_begin(&json);
        sw_json_put_u64(&json, "buffers", run->csv.n);
        SW_JSON_PUT(&json, r, lower_bound, height);
        sw_json_put_known(&json, "capacity", run->opts->capacity > 0, run->opts->capacity);
        sw_json_put_bool(&json, "solved", a->holds);
        sw_json_put_bool(&json, "optimal", a->optimal);
        sw_json_put_u64(&json, "proved", r->proved);
        sw_json_put_string(&json, "end", ends[r->end]);
        sw_json_put_f64(&json, "gap_percent", place_gap_percent(a));
        SW_JSON_PUT(&json, r, method, nodes);
        sw_json_put_i64(&json, "orders", r->n_orders);
        SW_JSON_PUT(&json, a, timed_out, interrupted);
        sw_json_put_bool(&json, "hurried", r->hurried);
        SW_JSON_PUT(&json, run, written);
        sw_json_put_u64(&json, "ns", run->total_ns);
        sw_json_put_u64(&json, "read_ns", run->read_ns);
        SW_JSON_PUT(&json, a, solve_ns, check_ns);
        sw_json_put_u64(&json, "write_ns", run->write_ns);
        return result_json_end(&json, status);
    }
    if (a->holds)
        print_answer(run);
    return cli_finish(status);
}

static int check(const place_opts *o)
{
    if (o->file == NULL)
        return cli_error(CLI_USAGE,
                         "FILE must be given: a table with the columns id,lower,upper,size");
    if (o->json && o->out != NULL && strcmp(o->out, "-") == 0)
        return cli_error(
            CLI_USAGE, "--json and --out - exclude each other: both write to standard output");
    if (o->prove && o->nodes > 0)
        return cli_error(CLI_USAGE, "--prove and --nodes exclude each other: both say how long "
                                    "to search");
    if (o->time_limit == 0.0)
        return cli_error(CLI_USAGE, "--time-limit must be above 0 seconds (got 0)");
    return CLI_GO;
}

int tool_place(int argc, char **argv)
{
    place_opts o = {.time_limit = -1.0};
    const cli_option options[] = {
        {"--capacity", "SIZE", CLI_BYTES, &o.capacity, NULL,
         "find any placement that ends within this; without it, the lowest", 1},
        {"--time-limit", "SECONDS", CLI_REAL, &o.time_limit, NULL,
         "stop after this time and use the best placement so far; without it the result "
         "depends on the file alone"},
        {"--prove", NULL, CLI_FLAG, &o.prove, NULL,
         "search until the optimum is proved, which may take minutes"},
        {"--nodes", "N", CLI_COUNT, &o.nodes, NULL, "most search nodes (default 1000000)", 1},
        {"--threads", "N", CLI_COUNT, &o.threads, "1",
         "threads of the search; the answer does not depend on them", 1, 64},
        {"--out", "FILE", CLI_WORD, &o.out, NULL,
         "write the rows with an offset column; - is standard output, and messages then go to "
         "standard error"},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output"},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL,
         "print only the height; with --out nothing"},
    };
    const cli_command command = SW_INIT(
            .name = "place", .usage = "FILE [options]",
            .about = "Give each buffer of a file an offset, so that buffers that live at the "
                     "same time do not overlap and the height is small.",
            .options = options, .n_options = (int)(sizeof options / sizeof *options),
            .operand = &o.file, .max_operands = 1,
            .notes =
                "The file has a header, id,lower,upper,size and perhaps alignment, and a line "
                "per buffer, which lives from lower until before upper, at a multiple of its "
                "alignment. Every answer is checked. The status is 4 when there is no "
                "placement within the capacity, or "
                "none was found; the message says which, and no file is written. Ctrl-C "
                "writes the best that was found, and the status is 130.");
    CLI_TRY(cli_parse(&command, argc, argv));
    CLI_TRY(check(&o));
    place_run run = {.opts = &o, .start = cli_clock_ns()};
    cli_catch_interrupt();
    int status = solve_problem(&run);
    if (status == CLI_GO)
        status = write_answer(&run);
    run.total_ns = cli_clock_ns() - run.start;
    if (status == CLI_GO)
        status = show(&run);
    place_csv_free(&run.csv);
    return status;
}
