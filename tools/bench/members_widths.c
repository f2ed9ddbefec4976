/* bench members --case sweep and --case distinct: members of other sizes.
 *
 * sweep: groups of larger and larger members that have the same number of parameters together,
 * so that time per parameter and sample can be compared. distinct: networks that all differ in
 * their first width, a group of one for each, in one call and one after the other; beside one
 * group of equal networks that have the mean of these widths, and so the same number of
 * operations. */
#include "alloc/base/mem.h"
#include "tools/bench/members.h"

/* ---- sweep ------------------------------------------------------------------------------- */

enum { SIZES = 6 };

typedef struct {
    sw_exec *exec;
    members_group groups[SIZES];
    members_widths widths[SIZES];
    char names[SIZES][24];
    bench_variant variants[SIZES];
    uint64_t step;
} sweep;

static sw_status run_size(void *context, int i)
{
    sweep *s = context;
    return members_group_run(&s->groups[i], s->step++);
}

/* 49-64-24-10 with all but the logits 1, 2, 4, .. 32 times as wide. As many of them as have the
 * parameters of `members` small ones, and one for each thread at least. */
static sw_status make_sizes(sweep *s, const members_opts *o)
{
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    const int64_t all = o->members * members_parameters(MEMBERS_SMALL);
    SW_TRY(sw_exec_create(&s->exec, &exec));
    for (int i = 0; i < SIZES; i++) {
        const members_widths small = MEMBERS_SMALL,
                             w = {small.in << i, small.h1 << i, small.h2 << i, small.out};
        int64_t n = all / members_parameters(w);
        n -= n % o->common.threads;
        n = n > o->common.threads ? n : o->common.threads;
        s->widths[i] = w;
        snprintf(s->names[i], sizeof s->names[i], "%lld", (long long)members_parameters(w));
        s->variants[i] = (bench_variant){.name = s->names[i], .key = s->names[i]};
        SW_TRY(members_group_make(&s->groups[i], s->exec, w, n, 0, o->member_threads));
        SW_TRY(members_group_batch(&s->groups[i], w, o->common.batch));
        for (int warm = 0; warm < 2; warm++)
            SW_TRY(run_size(s, i));
    }
    return bench_take_turns(s->variants, SIZES, o->loops, run_size, s);
}

/* Picoseconds. */
static double per_number(const sweep *s, const members_opts *o, int i, uint64_t ns)
{
    return 1e3 * (double)ns / (double)s->groups[i].n /
           (double)members_parameters(s->widths[i]) / (double)o->common.batch;
}

static int report_sizes(sweep *s, const members_opts *o)
{
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        for (int i = 0; i < SIZES; i++) {
            const cli_summary *found = &s->variants[i].summary;
            sw_json_open(&json, s->names[i], '{');
            sw_json_put_i64(&json, "members", s->groups[i].n);
            bench_put(&json, "loop", found);
            sw_json_put_f64(&json, "min_ps", per_number(s, o, i, found->min));
            sw_json_put_f64(&json, "median_ps", per_number(s, o, i, found->median));
            sw_json_end(&json);
        }
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf("perceptrons 49-64-24-10 and up to 32 times as wide, batch %lld, Adam, %lld "
               "threads; ps: time per parameter and sample\n\n",
               (long long)o->common.batch, (long long)o->common.threads);
    printf("%-12s %8s %12s %12s %10s %10s\n", "parameters", "members", "min", "median",
           "min ps", "median ps");
    for (int i = 0; i < SIZES; i++) {
        const cli_summary *found = &s->variants[i].summary;
        printf("%-12s %8lld %12s %12s %10.1f %10.1f\n", s->names[i], (long long)s->groups[i].n,
               cli_ns(found->min).text, cli_ns(found->median).text,
               per_number(s, o, i, found->min), per_number(s, o, i, found->median));
    }
    return cli_finish(status);
}

int members_sweep(const members_opts *o)
{
    sweep s = {0};
    const sw_status status = make_sizes(&s, o);
    const int code = status == SW_OK ? report_sizes(&s, o) : cli_library_error(status, false);
    for (int i = 0; i < SIZES; i++)
        members_group_destroy(&s.groups[i]);
    sw_exec_destroy(s.exec);
    return code;
}

/* ---- distinct widths --------------------------------------------------------------------- */

enum { NARROWEST = 16 };

typedef struct {
    const members_opts *opts;
    sw_exec *exec;
    members_group equal, *groups;
    sw_members **handles;  /* of the groups */
    sw_members_args *args; /* of a run of each */
    uint64_t step;
} distinct;

enum { EQUAL, TOGETHER, ONE_BY_ONE, WAYS };

static sw_status run_distinct(void *context, int which)
{
    distinct *d = context;
    const size_t n = (size_t)d->opts->members;
    d->step++;
    if (which == EQUAL)
        return members_group_run(&d->equal, d->step);
    for (size_t i = 0; which == TOGETHER && i < n; i++)
        d->args[i].step = d->step;
    if (which == TOGETHER)
        return sw_members_run_all(d->handles, d->args, n);
    for (int64_t i = 0; i < d->opts->members; i++)
        SW_TRY(members_group_run(&d->groups[i], d->step));
    return SW_OK;
}

/* As many widths below the mean as above it; an even number leaves the mean out. */
static int64_t width_of(int64_t i, int64_t n)
{
    return NARROWEST + i + (n % 2 == 0 && i >= n / 2 ? 1 : 0);
}

static sw_status make_distinct(distinct *d)
{
    const members_opts *o = d->opts;
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    members_widths w = MEMBERS_SMALL;
    void *block;
    SW_TRY(sw_exec_create(&d->exec, &exec));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)o->members * sizeof *d->groups));
    d->groups = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)o->members * sizeof *d->handles));
    d->handles = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)o->members * sizeof *d->args));
    d->args = block;
    w.h1 = NARROWEST + o->members / 2;
    SW_TRY(members_group_make(&d->equal, d->exec, w, o->members, 0, o->member_threads));
    SW_TRY(members_group_batch(&d->equal, w, o->common.batch));
    for (int64_t i = 0; i < o->members; i++) {
        members_group *g = &d->groups[i];
        w.h1 = width_of(i, o->members);
        SW_TRY(members_group_make(g, d->exec, w, 1, (uint64_t)i, o->member_threads));
        g->inputs[0] = d->equal.inputs[0];
        g->inputs[1] = d->equal.inputs[1];
        d->handles[i] = g->group;
        d->args[i] = members_group_args(g, 0);
    }
    for (int i = 0; i < 2 * WAYS; i++)
        SW_TRY(run_distinct(d, i % WAYS));
    return SW_OK;
}

static void end_distinct(distinct *d)
{
    const int64_t n = d->opts->members;
    for (int64_t i = 0; d->groups != NULL && i < n; i++) {
        d->groups[i].inputs[0].data = d->groups[i].inputs[1].data = NULL;
        members_group_destroy(&d->groups[i]);
    }
    sw_heap_free(d->args, SW_HEAP_RECORDS, (size_t)n * sizeof *d->args);
    sw_heap_free(d->handles, SW_HEAP_RECORDS, (size_t)n * sizeof *d->handles);
    sw_heap_free(d->groups, SW_HEAP_RECORDS, (size_t)n * sizeof *d->groups);
    members_group_destroy(&d->equal);
    sw_exec_destroy(d->exec);
}

static int report_distinct(const members_opts *o, const bench_variant *v)
{
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        bench_put_variants(&json, "distinct", v, WAYS);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf("%lld perceptrons 49-h-24-10, h from %d to %lld, and as many with h = %lld; "
               "batch %lld, %lld threads\n\n",
               (long long)o->members, (int)NARROWEST,
               (long long)width_of(o->members - 1, o->members),
               (long long)(NARROWEST + o->members / 2), (long long)o->common.batch,
               (long long)o->common.threads);
    bench_print_variants("", v, WAYS);
    return cli_finish(status);
}

int members_distinct(const members_opts *o)
{
    distinct d = {.opts = o};
    bench_variant v[WAYS] = {{.name = "equal", .key = "equal"},
                             {.name = "one call", .key = "one_call"},
                             {.name = "one by one", .key = "one_by_one"}};
    sw_status status = make_distinct(&d);
    if (status == SW_OK)
        status = bench_take_turns(v, WAYS, o->loops, run_distinct, &d);
    const int code = status == SW_OK ? report_distinct(o, v) : cli_library_error(status, false);
    end_distinct(&d);
    return code;
}
