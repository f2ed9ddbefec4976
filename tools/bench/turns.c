/* The command line that most measurements share; variants that take turns, and the tables of
 * what each costs above the first; a place for the files of a run. */
#include "tools/bench/bench.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, OWN_OPTIONS = 8 };

int bench_parse(const char *name, const char *about, const cli_option *own, int n,
                bench_common *o, int argc, char **argv)
{
    const cli_option common[] = {
        {"--batch", "N", CLI_COUNT, &o->batch, "128", "rows per step", 1, 1 << 16, NULL},
        {"--threads", "N", CLI_COUNT, &o->threads, "1", "threads that compute", 1, 256, NULL},
        {"--json", NULL, CLI_FLAG, &o->json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o->quiet, NULL, "no heading", 0, 0, NULL},
    };
    cli_option options[OWN_OPTIONS + sizeof common / sizeof *common];
    memcpy(options, own, (size_t)n * sizeof *own);
    memcpy(options + n, common, sizeof common);
    const cli_command command = {.name = name,
                                 .usage = "[options]",
                                 .about = about,
                                 .options = options,
                                 .n_options = n + (int)(sizeof common / sizeof *common)};
    return cli_parse(&command, argc, argv);
}

sw_status bench_take_turns(bench_variant *v, int n, int64_t rounds,
                           sw_status (*step)(void *context, int i), void *context)
{
    cli_times times[MOST] = {{0}};
    sw_status status = n <= MOST ? SW_OK : SW_INVALID;
    for (int i = 0; status == SW_OK && i < n; i++)
        status = cli_times_init(&times[i], (uint64_t)rounds);
    for (int64_t round = 0; status == SW_OK && round < rounds && !cli_interrupted(); round++)
        for (int turn = 0; status == SW_OK && turn < n; turn++) {
            const int i = (int)((round + turn) % n);
            const uint64_t start = cli_clock_ns();
            status = step(context, i);
            cli_times_add(&times[i], cli_clock_ns() - start);
        }
    for (int i = 0; i < n && i < MOST; i++) {
        if (status == SW_OK)
            v[i].summary = cli_times_summary(&times[i]);
        cli_times_free(&times[i]);
    }
    return status;
}

static int put_line(sw_json *json)
{
    const int status = result_json_end(json, CLI_DONE);
    cli_flush();
    return status;
}

static int refuse(const bench_answers *a, const char *line)
{
    char names[80] = "";
    for (int i = 0; i < a->n; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? " or " : "", a->names[i]);
    }
    return cli_error(CLI_USAGE, "--turns: a line must be NAME WARM COUNT, the name %s (got %s)",
                     names, line);
}

/* "members 1 4": one that is not timed, then four that are. */
static int answer(const bench_answers *a, const char *line)
{
    char name[16];
    int warm, count, which = 0;
    if (sscanf(line, "%15s %d %d", name, &warm, &count) != 3 || warm < 0 || count < 1)
        return refuse(a, line);
    while (which < a->n && strcmp(name, a->names[which]) != 0)
        which++;
    if (which == a->n)
        return refuse(a, line);
    sw_json json;
    result_json_begin(&json);
    sw_json_open(&json, "ns", '[');
    for (int i = -warm; i < count; i++) {
        const uint64_t start = cli_clock_ns();
        const sw_status status = a->step(a->context, which);
        if (status != SW_OK) {
            sw_json_free(&json);
            return cli_library_error(status, false);
        }
        if (i >= 0)
            sw_json_u64(&json, cli_clock_ns() - start);
    }
    sw_json_end(&json);
    return put_line(&json);
}

int bench_answer_turns(const bench_answers *a)
{
    char line[64];
    sw_json json;
    result_json_begin(&json);
    sw_json_put_u64(&json, "first_ns", a->first_ns);
    sw_json_put_u64(&json, "second_ns", a->second_ns);
    int status = put_line(&json);
    while (status == CLI_DONE && !cli_interrupted() && fgets(line, sizeof line, stdin) != NULL)
        status = answer(a, line);
    return status == CLI_DONE && cli_interrupted() ? CLI_INTERRUPTED : status;
}

double bench_above(const bench_variant *v, int i, bool median)
{
    const cli_summary *a = &v[i].summary, *b = &v[0].summary;
    const double base = (double)(median ? b->median : b->min);
    return base > 0.0 ? 100.0 * ((double)(median ? a->median : a->min) - base) / base : 0.0;
}

void bench_print_variants(const char *title, const bench_variant *v, int n)
{
    printf("%-12s %12s %12s %10s %10s\n", title, "min", "median", "min +%", "median +%");
    for (int i = 0; i < n; i++)
        printf("  %-10s %12s %12s %10.2f %10.2f\n", v[i].name, cli_ns(v[i].summary.min).text,
               cli_ns(v[i].summary.median).text, bench_above(v, i, false),
               bench_above(v, i, true));
}

void bench_put_variants(sw_json *json, const char *key, const bench_variant *v, int n)
{
    sw_json_open(json, key, '{');
    for (int i = 0; i < n; i++) {
        bench_put(json, v[i].key, &v[i].summary);
        char name[40];
        snprintf(name, sizeof name, "%s_percent", v[i].key);
        sw_json_put_f64(json, name, bench_above(v, i, true));
    }
    sw_json_end(json);
}

sw_status bench_make_folder(char *to, size_t capacity)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(to, capacity, "%s/stepwell-bench-XXXXXX",
             temporary != NULL && *temporary != '\0' ? temporary : "/tmp");
    if (mkdtemp(to) != NULL)
        return SW_OK;
    const sw_status status =
        sw_error_set(SW_IO, __FILE__, __LINE__, "%s: %s", to, strerror(errno));
    to[0] = '\0';
    return status;
}
