/* After warm-up a step makes no call of the heap and none that asks the system for memory:
 * counted from outside, by the process's own malloc (steady.c) and by strace. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <unistd.h>

SW_TESTS("steady")

#define OWN_HEAP "sanitizers have a heap of their own"

static const char *steady_path(void)
{
    return sw_textf("%s/tests/system/steady", sw_build_root());
}

static const char *steps(void)
{
    return sw_tests_full() ? "10000" : "100";
}

typedef struct {
    unsigned long long steps, heap_calls, allocations;
    char first[64];
} counts;

static bool run_steady(counts *c, const char *n, const char *plant)
{
    static sw_outcome outcome;
    const char *const argv[] = {steady_path(), n, sw_temp_path("steady-profile"), plant, NULL};
    sw_process_run(&outcome, argv, NULL, 600);
    const bool said =
        outcome.status == 0 &&
        sscanf(outcome.out, "steps %llu heap_calls %llu first %63s allocations %llu", &c->steps,
               &c->heap_calls, c->first, &c->allocations) == 4;
    SW_CHECK(said, "status %d, signal %d: %s%s", outcome.status, outcome.signal, outcome.out,
             outcome.err);
    return said;
}

SW_TEST("planted calls of the heap are seen")
{
    counts c;
    if (!HAVE_STEADY)
        SW_SKIP(OWN_HEAP);
    if (!run_steady(&c, "20", "heap"))
        return;
    SW_CHECK(c.heap_calls >= 40, "%llu calls",
             c.heap_calls); /* one each way, a step and more */
}

SW_TEST("steps make no call of the heap, loaders and profile included")
{
    counts c;
    if (!HAVE_STEADY)
        SW_SKIP(OWN_HEAP);
    if (!run_steady(&c, steps(), NULL))
        return;
    SW_CHECK(c.heap_calls == 0, "%llu calls, the first from %s", c.heap_calls, c.first);
    CU_ASSERT_EQUAL(c.allocations, 0); /* the library's own count says the same */
    sw_note("%llu steps, %llu calls of the heap", c.steps, c.heap_calls);
}

/* Calls for memory between the two marks; -1 where strace cannot run here. */
static long traced_calls(const char *n, const char *plant, char *first, size_t room)
{
    static sw_outcome outcome;
    char line[1024];
    const char *trace = sw_temp_path("trace");
    const char *const argv[] = {"strace",
                                "-f",
                                "-qq",
                                "--seccomp-bpf",
                                "-o",
                                trace,
                                "-e",
                                "trace=mmap,munmap,mremap,brk,mprotect,madvise,getppid",
                                steady_path(),
                                n,
                                sw_temp_path("steady-profile"),
                                plant,
                                NULL};
    sw_process_run(&outcome, argv, NULL, 600);
    FILE *file = outcome.status == 0 ? fopen(trace, "r") : NULL;
    if (file == NULL)
        return -1;
    int marks = 0;
    long calls = 0;
    *first = '\0';
    while (fgets(line, sizeof line, file) != NULL) {
        if (strstr(line, "getppid(") != NULL)
            marks++;
        else if (marks == 1 && calls++ == 0)
            snprintf(first, room, "%.*s", (int)strcspn(line, "\n"), line);
    }
    fclose(file);
    return marks == 2 ? calls : -1;
}

SW_TEST("steps ask the system for no memory")
{
    if (!HAVE_STEADY)
        SW_SKIP(OWN_HEAP);
    char first[256];
    const long planted = traced_calls("20", "system", first, sizeof first);
    if (planted < 0)
        SW_SKIP("strace is not installed or may not trace here");
    SW_CHECK(planted >= 40, "%ld planted calls", planted);
    const long calls = traced_calls(steps(), NULL, first, sizeof first);
    SW_CHECK(calls == 0, "%ld calls, the first: %s", calls, first);
    sw_note("%s steps, %ld system calls for memory", steps(), calls);
}
