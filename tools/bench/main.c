/* The program stepwell-bench, which `stepwell bench` runs: the first word picks the
 * measurement. */
#include "tools/bench/bench.h"
#include "tools/cli/cli_page.h"
#include <string.h>

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: not built yet */
    const char *about;
} bench;

static const bench benches[] = {
    {"record", bench_record,
     "what the profile costs: counted only, with a file, with op clocks"},
    {"nvtx", bench_nvtx, "what ranges for Nsight cost, with a tool and without"},
    {"profiler", bench_profiler,
     "what an event of the log, a clocked edge and a written log cost"},
    {"speed", bench_speed,
     "whole steps of six workloads; their ops beside the machine's peaks"},
    {"products", bench_products, "matrix products, beside the machine's peak and a library"},
    {"plan", bench_plan, "tracing and planning LeNet5; arenas beside their lower bounds"},
    {"place", bench_place, "the placement solver over files and random buffers"},
    {"budget", bench_budget, "what a smaller budget costs: three deep programs"},
    {"checkpoint", bench_checkpoint, "what saving costs a running training"},
    {"device", bench_device, "whole steps of six networks on a device, and what the card can"},
    {"accuracy", bench_accuracy, "functions of one number against float64, over every float"},
    {"es", bench_es, "layers under the noise of evolution strategies: NESgpu's table"},
};
enum { N_BENCHES = sizeof benches / sizeof *benches };

/* Names that are gone, each with its successor. */
#define NOTHING "nothing does it now; MEASURED.md has its figures, each with the commit"
static const struct {
    const char *name, *now;
} gone[] = {
    {"pauses", "use bench speed --control"},
    {"members", "use bench speed --model mlp200 or lenet5x5"},
    {"costs", "use bench speed --ops"},
    {"binary", NOTHING},
    {"evolve", NOTHING},
};

void bench_put(sw_json *json, const char *key, const cli_summary *s)
{
    sw_json_open(json, key, '{');
    sw_json_put_u64(json, "n", s->n);
    sw_json_put_u64(json, "min_ns", s->min);
    sw_json_put_u64(json, "median_ns", s->median);
    sw_json_put_u64(json, "p99_ns", s->p99);
    sw_json_put_u64(json, "max_ns", s->max);
    sw_json_end(json);
}

void bench_print(const char *name, const cli_summary *s)
{
    printf("%-12s %12s %12s %12s %12s\n", name, cli_ns(s->min).text, cli_ns(s->median).text,
           cli_ns(s->p99).text, cli_ns(s->max).text);
}

/* `--page man`: the manual page of `stepwell bench`, for `stepwell help`; of a shell: the last
 * part of its script. The names are a table of words, then come the options of each. */
static int print_page(cli_page page)
{
    cli_option table[N_BENCHES];
    const cli_command names = {.name = "bench",
                               .usage = "NAME [options]",
                               .about = "Compare ways to run within one run; show minimum and "
                                        "median of each.",
                               .options = table,
                               .n_options = N_BENCHES};
    char name[32], option[] = "--help", *argv[] = {name, option, NULL};
    int status = CLI_DONE;
    for (int i = 0; i < N_BENCHES; i++)
        table[i] = (cli_option){.name = benches[i].name, .help = benches[i].about};
    cli_set_page(page == CLI_PAGE_MAN ? CLI_PAGE_MAN_SECTION : page);
    if (page == CLI_PAGE_MAN)
        cli_begin_man(&names);
    else
        cli_put_page(&names);
    for (int i = 0; i < N_BENCHES && status == CLI_DONE; i++) {
        snprintf(name, sizeof name, "%s", benches[i].name);
        status = benches[i].run(2, argv);
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
        if (benches[i].run != NULL)
            fprintf(to, "  %-10s %s\n", benches[i].name, benches[i].about);
    fputs("\n  --help after a name lists its options\n", to);
    return to == stdout ? cli_finish(CLI_DONE) : CLI_USAGE;
}

static int run(int argc, char **argv)
{
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
    for (int i = 0; i < N_BENCHES; i++) {
        if (strcmp(benches[i].name, name) != 0)
            continue;
        if (benches[i].run == NULL)
            return cli_error(CLI_USAGE, "'%s' is not built yet", name);
        return benches[i].run(argc - 1, argv + 1);
    }
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (strcmp(gone[i].name, name) == 0)
            return cli_error(CLI_USAGE, "there is no bench %s any more: %s", name, gone[i].now);
    const char *near = cli_nearest(name, benches, sizeof *benches, N_BENCHES);
    if (near != NULL)
        return cli_error(CLI_USAGE, "unknown bench '%s'; did you mean %s?", name, near);
    return cli_error(CLI_USAGE, "unknown bench '%s'; see stepwell bench --help", name);
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv, run);
}
