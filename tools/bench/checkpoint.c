/* bench checkpoint: what saving costs a training, and the step that it is taken at.
 *
 * Runs of some seconds take turns, one that saves nothing and one that saves again and again;
 * each is steps with one fixed batch. The cost is the time of a step, saves included, over that
 * of the other kind, by the fastest run of each. Files lie in a folder below TMPDIR. */
#include "alloc/base/sys.h"
#include "tools/bench/bench.h"
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

typedef struct {
    bench_common common;
    const char *model;
    int64_t seconds, pairs;
    cli_every every;
} checkpoint_opts;

enum { MOST_STEPS = 1 << 20 };

typedef struct {
    const checkpoint_opts *opts;
    char folder[1024], path[1100], where[64];
    sw_exec *exec;
    tool_net net;
    sw_array inputs[2];
    sw_checkpoint *checkpoint;
    uint64_t step;
    cli_times with, without; /* steps that a save was taken at, and others of the same runs */
    double plain_ns, saving_ns; /* of a step, in the fastest run of its kind; 0: none yet */
    uint64_t saves, busy, copy_ns, write_ns; /* the last two: at most */
} subject;

/* ---- what is trained --------------------------------------------------------------------- */

static void name_file_system(subject *s)
{
    struct statfs fs;
    static const struct {
        long type;
        const char *name;
    } known[] = {{0xef53, "ext4"},
                 {0x01021994, "tmpfs"},
                 {0x58465342, "xfs"},
                 {0x9123683e, "btrfs"},
                 {0x794c7630, "overlayfs"}};
    snprintf(s->where, sizeof s->where, "an unknown file system");
    if (statfs(s->folder, &fs) != 0)
        return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((long)fs.f_type == known[i].type)
            snprintf(s->where, sizeof s->where, "%s", known[i].name);
}

/* GPT: 4 layers of 256, vocabulary 8192, 8 rows of 128 positions at the default batch. */
static sw_status net_of(const checkpoint_opts *o, tool_net_opts *net)
{
    if (strcmp(o->model, "lenet5") == 0)
        return tool_net_digits(net, "lenet5");
    *net = (tool_net_opts){
        .model = tool_model_find("gpt"),
        .settings = TOOL_SETTINGS_NONE,
        .data = {.size = sizeof net->data,
                 .n_classes = 8192,
                 .n_fields = 2,
                 .field = {{SW_I32, SW_SHAPE(128), NULL}, {SW_I32, SW_SHAPE(128), NULL}},
                 .name = "random numbers"},
        .optimizer = {.size = sizeof net->optimizer, .kind = "adam"}};
    net->settings.layers = 4;
    net->settings.width = 256;
    net->settings.heads = 8;
    net->settings.context = 128;
    return tool_settings_complete(net->model, &net->settings) == CLI_GO
               ? SW_OK
               : sw_error_set(SW_INVALID, __FILE__, __LINE__, "gpt refuses its settings");
}

static int64_t rows(const checkpoint_opts *o)
{
    return strcmp(o->model, "gpt") == 0 && o->common.batch == 128 ? 8 : o->common.batch;
}

static sw_status step(subject *s)
{
    const sw_run_args args = {.size = sizeof args,
                              .fn = tool_net_step,
                              .user = &s->net,
                              .models = &s->net.model,
                              .n_models = 1,
                              .inputs = s->inputs,
                              .n_inputs = 2,
                              .mode = SW_TRAIN,
                              .step = s->step++};
    return sw_run(s->exec, &args);
}

static sw_status make(subject *s)
{
    const checkpoint_opts *o = s->opts;
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    tool_net_opts net;
    SW_TRY(net_of(o, &net));
    SW_TRY(sw_exec_create(&s->exec, &exec));
    SW_TRY(tool_net_create(&s->net, &net));
    for (int i = 0; i < 2; i++)
        s->inputs[i] = bench_batch_of(&net.data.field[i], rows(o));
    SW_TRY(bench_batch_make(s->inputs, 2, net.data.n_classes));
    SW_TRY(sw_model_ready(s->net.model, s->exec, 1));
    SW_TRY(bench_make_folder(s->folder, sizeof s->folder));
    name_file_system(s);
    snprintf(s->path, sizeof s->path, "%s/checkpoint", s->folder);
    const sw_checkpoint_opts saving = {
        .size = sizeof saving, .path = s->path, .models = &s->net.model, .n_models = 1};
    SW_TRY(sw_checkpoint_create(&s->checkpoint, s->exec, &saving));
    SW_TRY(sw_checkpoint_ready(s->checkpoint));
    SW_TRY(cli_times_init(&s->with, MOST_STEPS));
    SW_TRY(cli_times_init(&s->without, MOST_STEPS));
    for (int i = 0; i < 3; i++)
        SW_TRY(step(s));
    return sw_checkpoint_save(s->checkpoint, s->step);
}

static void end(subject *s)
{
    static const char *const endings[] = {"", ".1"};
    sw_checkpoint_destroy(s->checkpoint);
    if (s->net.model != NULL)
        tool_net_destroy(&s->net);
    sw_exec_destroy(s->exec);
    bench_batch_free(s->inputs, 2);
    for (int i = 0; i < 2 && s->folder[0] != '\0'; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s%s", s->path, endings[i]);
        if (sw_file_taken(path) && sw_file_remove(path) != SW_OK)
            cli_note("%s", sw_last_error());
    }
    if (s->folder[0] != '\0')
        (void)rmdir(s->folder);
    cli_times_free(&s->with);
    cli_times_free(&s->without);
}

/* ---- measuring --------------------------------------------------------------------------- */

/* Take a checkpoint, unless one is being written: *taken says so. */
static sw_status save(subject *s, bool *taken)
{
    sw_checkpoint_info info = {.size = sizeof info};
    SW_TRY(sw_checkpoint_describe(s->checkpoint, &info));
    if (info.last != SW_OK)
        return sw_checkpoint_wait(s->checkpoint);
    if (info.busy) {
        s->busy++;
        return SW_OK;
    }
    s->write_ns = info.write_ns > s->write_ns ? info.write_ns : s->write_ns;
    SW_TRY(sw_checkpoint_take(s->checkpoint, s->step));
    SW_TRY(sw_checkpoint_write(s->checkpoint));
    SW_TRY(sw_checkpoint_describe(s->checkpoint, &info));
    s->copy_ns = info.copy_ns > s->copy_ns ? info.copy_ns : s->copy_ns;
    s->saves++;
    *taken = true;
    return SW_OK;
}

/* Steps for some seconds; ns of one. A run that saves begins with the time until its first
 * save, so that each has as many as it should. */
static sw_status run(subject *s, bool saves, double *ns)
{
    const uint64_t start = cli_clock_ns(), all = (uint64_t)s->opts->seconds * 1000000000u;
    const cli_every *every = &s->opts->every;
    uint64_t now = start, n = 0, next_ns = start + every->ns / 2, next_step = every->steps;
    while (now - start < all && !cli_interrupted()) {
        bool taken = false;
        const uint64_t before = now;
        SW_TRY(step(s));
        n++;
        if (saves && (every->steps > 0 ? n >= next_step : now >= next_ns)) {
            SW_TRY(save(s, &taken));
            next_ns = taken ? next_ns + every->ns : next_ns;
            next_step = taken ? n + every->steps : next_step;
        }
        now = cli_clock_ns();
        if (saves)
            cli_times_add(taken ? &s->with : &s->without, now - before);
    }
    if (saves)
        SW_TRY(sw_checkpoint_wait(s->checkpoint));
    *ns = n > 0 ? (double)(cli_clock_ns() - start) / (double)n : 0.0;
    return SW_OK;
}

static sw_status measure(subject *s)
{
    for (int64_t pair = 0; pair < s->opts->pairs && !cli_interrupted(); pair++)
        for (int turn = 0; turn < 2 && !cli_interrupted(); turn++) {
            const bool saves = (pair + turn) % 2 == 1;
            double ns, *least = saves ? &s->saving_ns : &s->plain_ns;
            SW_TRY(run(s, saves, &ns));
            *least = *least == 0.0 || ns < *least ? ns : *least;
            if (!s->opts->common.quiet)
                cli_progress("pair %lld of %lld", (long long)pair + 1,
                             (long long)s->opts->pairs);
        }
    cli_progress("%s", "");
    return SW_OK;
}

static int report(subject *s)
{
    const checkpoint_opts *o = s->opts;
    const cli_summary with = cli_times_summary(&s->with),
                      without = cli_times_summary(&s->without);
    const double cost =
        s->plain_ns > 0.0 ? 100.0 * (s->saving_ns - s->plain_ns) / s->plain_ns : 0.0;
    const double bound = 1.5 * (double)without.median + (double)s->copy_ns;
    const double most = bound > (double)without.p99 ? bound : (double)without.p99;
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        sw_json_put_string(&json, "file_system", s->where);
        sw_json_put_u64(&json, "copy_bytes", sw_checkpoint_bytes(s->checkpoint));
        sw_json_put_f64(&json, "plain_step_ns", s->plain_ns);
        sw_json_put_f64(&json, "saving_step_ns", s->saving_ns);
        sw_json_put_f64(&json, "cost_percent", cost);
        sw_json_put_u64(&json, "saves", s->saves);
        sw_json_put_u64(&json, "busy", s->busy);
        sw_json_put_u64(&json, "copy_ns", s->copy_ns);
        sw_json_put_u64(&json, "write_ns", s->write_ns);
        bench_put(&json, "step_with_save", &with);
        bench_put(&json, "step_without", &without);
        sw_json_put_f64(&json, "p99_bound_ns", most);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf("%s, batch %lld, copy of %s, on %s; %lld pairs of %lld s\n\n", o->model,
               (long long)rows(o), cli_bytes(sw_checkpoint_bytes(s->checkpoint)).text, s->where,
               (long long)o->pairs, (long long)o->seconds);
    printf("a step   %s without saves, %s with (%s of them): %+.2f %%\n",
           cli_ns((uint64_t)s->plain_ns).text, cli_ns((uint64_t)s->saving_ns).text,
           cli_digits(s->saves).text, cost);
    printf("a save   copied in %s, written in %s at most; %s times the one before was still "
           "being written\n\n",
           cli_ns(s->copy_ns).text, cli_ns(s->write_ns).text, cli_digits(s->busy).text);
    printf("%-12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max");
    bench_print("with a save", &with);
    bench_print("without", &without);
    printf("\np99 with a save %s; the larger of 1.5 medians plus the copy and the p99 without: "
           "%s\n",
           cli_ns(with.p99).text, cli_ns((uint64_t)most).text);
    return cli_finish(status);
}

int bench_checkpoint(int argc, char **argv)
{
    static const char *const models[] = {"lenet5", "gpt", NULL};
    checkpoint_opts o = {0};
    const cli_option options[] = {
        {"--model", "NAME", CLI_WORD, &o.model, "lenet5",
         "lenet5, or gpt: 4 layers of 256, vocabulary 8192, 8 rows of 128", 0, 0, models},
        {"--seconds", "N", CLI_COUNT, &o.seconds, "60", "of a run", 1, 3600, NULL},
        {"--pairs", "N", CLI_COUNT, &o.pairs, "5", "runs of each kind", 1, 100, NULL},
        {"--every", "N|Ns|Nm", CLI_EVERY, &o.every, "1s", "save so often", 0, 0, NULL},
    };
    const int parsed = bench_parse(
        "bench checkpoint",
        "Steps with saves in the background beside steps without, in runs that take turns.",
        options, (int)(sizeof options / sizeof *options), &o.common, argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    subject s = {.opts = &o};
    cli_catch_interrupt();
    sw_status status = make(&s);
    if (status == SW_OK)
        status = measure(&s);
    const int code = status == SW_OK ? report(&s) : cli_library_error(status, false);
    end(&s);
    return code;
}
