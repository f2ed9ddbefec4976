/* The failure sweep of `stepwell pbt`: allocations and file operations of a small population
 * fail once, and from there on. Quick mode takes a sample of the sites. */
#include "tests/support/suite.h"
#include "tests/system/populations.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SAMPLE 8 /* sites of a kind that quick mode tries */

static const char words[] =
    "--members 4 --steps 9 --optimizer momentum --memory-budget 300000 --pause-to @/Z "
    "--metrics @/M.csv --log-dir @/L --save-params @/P --checkpoint @/C --checkpoint-every 1 "
    "lr=log:0.01..1 hidden=int:4..12";

static const sw_outcome *run(const char *fault)
{
    static sw_outcome outcome;
    char line[9000];
    size_t n = 0;
    going_new_folder("faults");
    CU_ASSERT(mkdir(going_at("L"), 0700) == 0 && mkdir(going_at("Z"), 0700) == 0);
    n += (size_t)snprintf(line, sizeof line,
                          "pbt --data synthetic --synthetic-n 60 --batch 16 --model mlp "
                          "--hidden 12 --interval 3 --quiet --json ");
    for (const char *c = words; *c != '\0'; c++)
        n += (size_t)snprintf(line + n, sizeof line - n, "%.*s", *c == '@' ? 999 : 1,
                              *c == '@' ? going_at("") : c);
    program_run(&outcome, line, fault);
    return &outcome;
}

/* One object, or nothing. */
static bool is_whole(const char *out)
{
    const size_t n = strlen(out);
    return n == 0 || (out[0] == '{' && out[n - 1] == '\n' && out[n - 2] == '}');
}

static void one_site(const char *kind, unsigned long long k, const char *mode)
{
    char fault[80];
    snprintf(fault, sizeof fault, "STEPWELL_FAULT=%s:%llu%s", kind, k, mode);
    const sw_outcome *o = run(fault);
    const bool memory = strcmp(kind, "memory") == 0;
    const bool failed = memory ? o->status == 4 : o->status == 1 || o->status == 3;
    const bool done = o->status == 0 && is_whole(o->out) && o->out[0] == '{';
    SW_CHECK(o->signal == 0 && !o->timed_out && is_whole(o->out) &&
                 (done || (failed && o->err[0] != '\0' && sw_count_lines(o->err) <= 3)),
             "%s: status %d, signal %d: %s", fault, o->status, o->signal, o->err);
}

static void every_site_fails_cleanly(void)
{
    static const char *const kinds[] = {"memory", "file", "thread"};
    unsigned long long sites[3] = {0};
    const sw_outcome *o = run("STEPWELL_FAULT=memory:count");
    const char *line = strstr(o->err, "fault sites:");
    CU_ASSERT_FATAL(o->status == 0 && line != NULL &&
                    sscanf(line, "fault sites: memory %llu file %llu thread %llu", &sites[0],
                           &sites[1], &sites[2]) == 3);
    sw_note("%llu memory, %llu file, %llu thread sites", sites[0], sites[1], sites[2]);
    CU_ASSERT(sites[0] > 100 && sites[1] > 40);
    for (int kind = 0; kind < 3; kind++) {
        const unsigned long long n = sites[kind], step = sw_tests_full() || n <= SAMPLE
                                                             ? 1
                                                             : (n + SAMPLE - 1) / SAMPLE;
        for (unsigned long long k = step / 2; k < n; k += step) {
            one_site(kinds[kind], k, "");
            one_site(kinds[kind], k, "+");
        }
    }
}

static const sw_test tests[] = {
    {"every site of a small population fails cleanly", every_site_fails_cleanly},
};
SW_SUITE("pbt faults", tests)
