/* The program stepwell-bench, which `stepwell bench` runs: the first word picks the
 * measurement. */
#include "tools/bench/bench.h"
#include "tools/cli/cli_page.h"
#include <string.h>

static const bench_command *const benches[] = {
    &bench_speed, &bench_products, &bench_plan,     &bench_budget, &bench_place,
    &bench_es,    &bench_accuracy, &bench_overhead, &bench_search, &bench_device};
enum { N_BENCHES = sizeof benches / sizeof *benches, OWN_OPTIONS = 16 };

/* Names that are gone, each with its successor. */
#define NOTHING "nothing does it now; MEASURED.md has its figures, each with the commit"
static const struct {
    const char *name, *now;
} gone[] = {
    {"pauses", "use bench speed --control"},
    {"members", "use bench speed --model mlp200 or lenet5x5"},
    {"costs", "use bench speed --ops"},
    {"record", "use bench overhead --case steps"},
    {"nvtx", "use bench overhead --case steps"},
    {"profiler", "use bench overhead --case events"},
    {"checkpoint", "use bench overhead --case checkpoint"},
    {"binary", NOTHING},
    {"evolve", NOTHING},
};

static int measure(bench *b, const bench_command *c)
{
    static const bench_field facts[] = {
        {"threads", BENCH_COUNT, offsetof(bench, threads), "threads", 0}};
    if (b->json)
        result_json_begin(&b->out);
    bench_facts(b, facts, b);
    const sw_status status = c->run(b);
    cli_progress("%s", "");
    if (status != SW_OK) {
        if (b->json)
            sw_json_free(&b->out);
        return cli_library_error(status, b->input);
    }
    const int code = b->code == CLI_DONE && cli_interrupted() ? CLI_INTERRUPTED : b->code;
    bench_print_heading(b);
    if (!b->json)
        return cli_finish(code);
    bench_put_facts(b, NULL, 0, NULL); /* closes the array */
    return result_json_end(&b->out, code);
}

static int run_bench(const bench_command *c, int argc, char **argv)
{
    bench b = {.code = CLI_DONE};
    static char name[40]; /* messages begin with it from now on */
    const cli_option common[] = {
        BENCH_NUMBER("--threads", &b.threads, c->threads != NULL ? c->threads : "2",
                     "threads that compute", 1, 256),
        BENCH_SWITCH("--json", &b.json, "one JSON object on standard output"),
        BENCH_SWITCH("--quiet", &b.quiet, "no heading"),
    };
    cli_option options[OWN_OPTIONS + sizeof common / sizeof *common];
    snprintf(name, sizeof name, "bench %s", c->name);
    memcpy(options, c->options, (size_t)c->n_options * sizeof *options);
    memcpy(options + c->n_options, common, sizeof common);
    const cli_command command =
        SW_INIT(.name = name, .usage = c->usage != NULL ? c->usage : "[options]",
                .about = c->about, .options = options,
                .n_options = c->n_options + (int)(sizeof common / sizeof *common),
                .operand = c->files, .max_operands = c->max_files, .notes = c->notes);
    int status = cli_parse(&command, argc, argv);
    if (status == CLI_GO && c->check != NULL)
        status = c->check(&b);
    if (status != CLI_GO)
        return status;
    cli_catch_interrupt();
    return measure(&b, c);
}

/* `--page man`: the manual page of `stepwell bench`, for `stepwell help`; of a shell: the last
 * part of its script. The names are a table of words, then come the options of each. */
static int print_page(cli_page page)
{
    cli_option table[N_BENCHES];
    const cli_command names =
        SW_INIT(.name = "bench", .usage = "NAME [options]",
                .about = "Compare ways to run within one run; show minimum and median of each.",
                .options = table, .n_options = N_BENCHES);
    char name[32], option[] = "--help", *argv[] = {name, option, NULL};
    int status = CLI_DONE;
    for (int i = 0; i < N_BENCHES; i++)
        table[i] = (cli_option){.name = benches[i]->name, .help = benches[i]->line};
    cli_set_page(page == CLI_PAGE_MAN ? CLI_PAGE_MAN_SECTION : page);
    if (page == CLI_PAGE_MAN)
        cli_begin_man(&names);
    else
        cli_put_page(&names);
    for (int i = 0; i < N_BENCHES && status == CLI_DONE; i++) {
        snprintf(name, sizeof name, "%s", benches[i]->name);
        status = run_bench(benches[i], 2, argv);
    }
    if (page == CLI_PAGE_MAN)
        cli_end_man(&names);
    else
        cli_end_completion();
    return cli_finish(status);
}

static int print_help(FILE *to)
{
    fputs("usage: stepwell bench NAME [options]\n\n"
          "Compare within one run; minimum and median of each.\n\n",
          to);
    for (int i = 0; i < N_BENCHES; i++)
        fprintf(to, "  %-10s %s\n", benches[i]->name, benches[i]->line);
    fputs("\n  --help after a name lists its options\n", to);
    return to == stdout ? cli_finish(CLI_DONE) : CLI_USAGE;
}

static int run(int argc, char **argv)
{
    const char *names[N_BENCHES];
    cli_set_command("bench");
    if (argc < 2)
        return print_help(stderr);
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return argc == 2 ? print_help(stdout)
                         : cli_error(CLI_USAGE, "'%s' is one argument too many after %s",
                                     argv[2], name);
    if (argc == 3 && strcmp(name, "--page") == 0 && cli_page_named(argv[2]) != CLI_PAGE_HELP)
        return print_page(cli_page_named(argv[2]));
    if (argc > 2 && strcmp(name, "plan") == 0 && strcmp(argv[2], "--budget") == 0)
        return run_bench(&bench_budget, argc - 2, argv + 2);
    for (int i = 0; i < N_BENCHES; i++) {
        names[i] = benches[i]->name;
        if (strcmp(names[i], name) == 0)
            return run_bench(benches[i], argc - 1, argv + 1);
    }
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (strcmp(gone[i].name, name) == 0)
            return cli_error(CLI_USAGE, "there is no bench %s any more: %s", name, gone[i].now);
    const char *near = cli_nearest(name, names, sizeof *names, N_BENCHES);
    if (near != NULL)
        return cli_error(CLI_USAGE, "unknown bench '%s'; did you mean %s?", name, near);
    return cli_error(CLI_USAGE, "unknown bench '%s'; see stepwell bench --help", name);
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv, run);
}
