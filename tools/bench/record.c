/* bench record: what recording costs, as differences of medians within one run.
 *
 * Four subjects that differ in nothing but the recording (nothing counted and no clock read;
 * phase peaks and clocks with the file off; with the file; with op clocks too) take turns. */
#include "alloc/base/sys.h"
#include "tools/bench/bench.h"
#include <string.h>
#include <unistd.h>

enum { NONE, COUNTED, FILED, CLOCKED, VARIANTS };
static const bench_variant variants[VARIANTS] = {{.name = "nothing", .key = "none"},
                                                 {.name = "file off", .key = "file_off"},
                                                 {.name = "file on", .key = "file_on"},
                                                 {.name = "op clocks", .key = "op_clocks"}};

typedef struct {
    bench_common common;
    int64_t steps;
} record_opts;

typedef struct {
    char folder[900]; /* of this run alone; "" before it is made */
    char path[VARIANTS][1024];
    sw_profile *profile[VARIANTS];
    bench_small small[VARIANTS];
    bench_lenet lenet[VARIANTS];
    bench_variant variant[VARIANTS];
    bool is_lenet;
} record;

static sw_status open_profile(record *r, int variant)
{
    snprintf(r->path[variant], sizeof r->path[variant], "%s/%s.jsonl", r->folder,
             variants[variant].key);
    const sw_profile_opts opts = {.size = sizeof opts,
                                  .path = variant == COUNTED ? NULL : r->path[variant],
                                  .model = r->is_lenet ? "lenet5" : "small",
                                  .device = "cpu"};
    return sw_profile_create(&r->profile[variant], &opts);
}

static sw_status open_subjects(record *r, const record_opts *o)
{
    SW_TRY(bench_make_folder(r->folder, sizeof r->folder));
    for (int i = 0; i < VARIANTS; i++) {
        if (i != NONE)
            SW_TRY(open_profile(r, i));
        const sw_exec_opts exec = {.size = sizeof exec,
                                   .threads = (int)o->common.threads,
                                   .profile = r->profile[i],
                                   .op_clocks = i == CLOCKED,
                                   .no_phases = i == NONE};
        SW_TRY(r->is_lenet ? bench_lenet_create(&r->lenet[i], o->common.batch, true, &exec)
                           : bench_small_create(&r->small[i], o->common.batch, &exec));
    }
    return SW_OK;
}

static sw_status step(void *context, int i)
{
    record *r = context;
    return r->is_lenet ? bench_lenet_step(&r->lenet[i]) : bench_small_step(&r->small[i]);
}

static sw_status close_subjects(record *r, sw_status status)
{
    for (int i = 0; i < VARIANTS; i++) {
        bench_small_destroy(&r->small[i]);
        bench_lenet_destroy(&r->lenet[i]);
        if (r->profile[i] != NULL) {
            const sw_status closed = sw_profile_destroy(r->profile[i]);
            status = status == SW_OK ? closed : status;
        }
        if (r->profile[i] != NULL && i != COUNTED) {
            const sw_status removed = sw_file_remove(r->path[i]);
            status = status == SW_OK ? removed : status;
        }
    }
    if (r->folder[0] != '\0')
        (void)rmdir(r->folder);
    return status;
}

static sw_status subject(record *r, const record_opts *o, bool is_lenet)
{
    *r = (record){.is_lenet = is_lenet};
    memcpy(r->variant, variants, sizeof variants);
    const int64_t steps = is_lenet && o->steps > 10 ? o->steps / 10 : o->steps;
    sw_status status = open_subjects(r, o);
    if (status == SW_OK)
        status = bench_take_turns(r->variant, VARIANTS, steps, step, r);
    return close_subjects(r, status);
}

static int run(const record_opts *o)
{
    record small, lenet;
    cli_catch_interrupt();
    sw_status status = subject(&small, o, false);
    if (status == SW_OK)
        status = subject(&lenet, o, true);
    if (status != SW_OK)
        return cli_library_error(status, false);
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        bench_put_variants(&json, "small", small.variant, VARIANTS);
        bench_put_variants(&json, "lenet5", lenet.variant, VARIANTS);
        return result_json_end(&json, code);
    }
    if (!o->common.quiet)
        printf("batch %lld, %lld thread%s, %s and %s steps of each, taking turns\n\n",
               (long long)o->common.batch, (long long)o->common.threads,
               o->common.threads == 1 ? "" : "s",
               cli_digits(small.variant[NONE].summary.n).text,
               cli_digits(lenet.variant[NONE].summary.n).text);
    bench_print_variants("perceptron", small.variant, VARIANTS);
    bench_print_variants("lenet5", lenet.variant, VARIANTS);
    return cli_finish(code);
}

int bench_record(int argc, char **argv)
{
    record_opts o = {0};
    const cli_option options[] = {
        {"--steps", "N", CLI_COUNT, &o.steps, "4000",
         "steps of the perceptron; a tenth for lenet5", 1, 1 << 20, NULL},
    };
    const int status = bench_parse(
        "bench record",
        "Steps with and without a profile: a perceptron of 5,034 parameters, and LeNet5.",
        options, (int)(sizeof options / sizeof *options), &o.common, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
