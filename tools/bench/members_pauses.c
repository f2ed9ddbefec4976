/* bench members --case pauses and --case first: what a loop over members costs besides its
 * arithmetic.
 *
 * A machine has pauses of its own, so each loop is followed by pure arithmetic of the same
 * length, which touches no memory and calls nothing. Page faults are those of the process while
 * the loops run, on all threads. */
#include "alloc/base/mem.h"
#include "tools/bench/members.h"
#include <sys/resource.h>

/* ---- pauses ------------------------------------------------------------------------------ */

typedef struct {
    sw_exec *exec;
    members_group group;
    cli_times loops, controls;
    uint64_t step, turns, calls, faults, switches;
} pauses;

static sw_status loop(void *context)
{
    pauses *p = context;
    return members_group_run(&p->group, p->step++);
}

static uint64_t switches(const struct rusage *r)
{
    return (uint64_t)r->ru_nivcsw;
}

static uint64_t faults(const struct rusage *r)
{
    return (uint64_t)r->ru_minflt + (uint64_t)r->ru_majflt;
}

static sw_status measure(pauses *p, int64_t n)
{
    struct rusage before = {0}, after = {0};
    for (int64_t i = 0; i < n && !cli_interrupted(); i++) {
        const uint64_t calls = sw_mem_calls();
        (void)getrusage(RUSAGE_SELF, &before);
        const uint64_t start = cli_clock_ns();
        SW_TRY(loop(p));
        const uint64_t between = cli_clock_ns();
        (void)getrusage(RUSAGE_SELF, &after);
        p->calls += sw_mem_calls() - calls;
        p->faults += faults(&after) - faults(&before);
        p->switches += switches(&after) - switches(&before);
        const uint64_t control = cli_clock_ns();
        members_control(p->turns);
        cli_times_add(&p->loops, between - start);
        cli_times_add(&p->controls, cli_clock_ns() - control);
    }
    return SW_OK;
}

static sw_status run(pauses *p, const members_opts *o)
{
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    SW_TRY(cli_times_init(&p->loops, (uint64_t)o->loops));
    SW_TRY(cli_times_init(&p->controls, (uint64_t)o->loops));
    SW_TRY(sw_exec_create(&p->exec, &exec));
    SW_TRY(members_group_batch(&p->group, MEMBERS_SMALL, o->common.batch));
    SW_TRY(members_group_make(&p->group, p->exec, MEMBERS_SMALL, o->members, 0,
                              o->member_threads));
    SW_TRY(members_calibrate(&p->turns, loop, p));
    return measure(p, o->loops);
}

static int report(pauses *p, const members_opts *o)
{
    const cli_summary loops = cli_times_summary(&p->loops),
                      controls = cli_times_summary(&p->controls);
    const uint64_t bound = controls.max + loops.median;
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        bench_put(&json, "members", &loops);
        bench_put(&json, "control", &controls);
        sw_json_put_u64(&json, "bound_ns", bound);
        sw_json_put_u64(&json, "allocations", p->calls);
        sw_json_put_u64(&json, "page_faults", p->faults);
        sw_json_put_u64(&json, "involuntary_switches", p->switches);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf("%s loops over %lld members, batch %lld, %lld threads, each followed by the "
               "control\n\n",
               cli_digits(loops.n).text, (long long)o->members, (long long)o->common.batch,
               (long long)o->common.threads);
    printf("%-12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max");
    bench_print("members", &loops);
    bench_print("control", &controls);
    printf("\nthe control's max and one median loop: %s; allocations %s, page faults %s, "
           "involuntary switches %s\n",
           cli_ns(bound).text, cli_digits(p->calls).text, cli_digits(p->faults).text,
           cli_digits(p->switches).text);
    return cli_finish(status);
}

int members_pauses(const members_opts *o)
{
    pauses p = {0};
    const sw_status status = run(&p, o);
    const int code = status == SW_OK ? report(&p, o) : cli_library_error(status, false);
    members_group_destroy(&p.group);
    sw_exec_destroy(p.exec);
    cli_times_free(&p.loops);
    cli_times_free(&p.controls);
    return code;
}

/* ---- the first loop of new networks ------------------------------------------------------ */

enum { MADE, FIRST, BOTH, SECOND, PARTS };
static const char *const parts[PARTS] = {"made", "loop 1", "both", "loop 2"},
                         *const keys[PARTS] = {"made", "first", "both", "second"};

static sw_status measure_new(const members_opts *o, members_group *g, sw_exec *exec,
                             cli_times *times)
{
    SW_TRY(members_group_batch(g, MEMBERS_SMALL, o->common.batch));
    const uint64_t start = cli_clock_ns();
    SW_TRY(members_group_make(g, exec, MEMBERS_SMALL, o->members, 0, o->member_threads));
    const uint64_t made = cli_clock_ns();
    SW_TRY(members_group_run(g, 0));
    const uint64_t first = cli_clock_ns();
    SW_TRY(members_group_run(g, 1));
    cli_times_add(&times[SECOND], cli_clock_ns() - first);
    cli_times_add(&times[MADE], made - start);
    cli_times_add(&times[FIRST], first - made);
    cli_times_add(&times[BOTH], first - start);
    return SW_OK;
}

/* Each round has an exec of its own, so that nothing is there from the round before. */
static sw_status rounds(const members_opts *o, cli_times *times)
{
    const sw_exec_opts opts = {.size = sizeof opts, .threads = (int)o->common.threads};
    sw_status status = SW_OK;
    for (int i = 0; i < PARTS && status == SW_OK; i++)
        status = cli_times_init(&times[i], (uint64_t)o->loops);
    for (int64_t i = 0; i < o->loops && status == SW_OK && !cli_interrupted(); i++) {
        sw_exec *exec = NULL;
        members_group group = {0};
        status = sw_exec_create(&exec, &opts);
        if (status == SW_OK)
            status = measure_new(o, &group, exec, times);
        members_group_destroy(&group);
        sw_exec_destroy(exec);
    }
    return status;
}

static int report_new(const members_opts *o, cli_times *times)
{
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    cli_summary found[PARTS];
    for (int i = 0; i < PARTS; i++)
        found[i] = cli_times_summary(&times[i]);
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        for (int i = 0; i < PARTS; i++)
            bench_put(&json, keys[i], &found[i]);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf("%lld new members, batch %lld, %lld threads, made %s times: shape, group and "
               "members, then loops\n\n",
               (long long)o->members, (long long)o->common.batch, (long long)o->common.threads,
               cli_digits(found[BOTH].n).text);
    printf("%-12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max");
    for (int i = 0; i < PARTS; i++)
        bench_print(parts[i], &found[i]);
    return cli_finish(status);
}

int members_first(const members_opts *o)
{
    cli_times times[PARTS] = {{0}};
    const sw_status status = rounds(o, times);
    const int code = status == SW_OK ? report_new(o, times) : cli_library_error(status, false);
    for (int i = 0; i < PARTS; i++)
        cli_times_free(&times[i]);
    return code;
}
