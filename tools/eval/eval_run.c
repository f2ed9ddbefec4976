/* The runs of `stepwell eval` and `stepwell predict`: a plan of inference in an arena of its
 * own, without optimizer and without gradients. */
#include "profiler/record/utf8.h"
#include "tools/eval/eval.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

bool eval_has_classes(const evaluation *e)
{
    return e->job.net.task == TOOL_CLASSIFY;
}

bool eval_is_language(const evaluation *e)
{
    return e->job.net.task == TOOL_PREDICT;
}

char *eval_class_name(const evaluation *e, int64_t k, char *to)
{
    const char *const *names = e->job.test.info.class_names;
    if (names != NULL && k < e->job.test.info.n_classes)
        sw_utf8_clean(to, EVAL_NAME_BYTES, names[k]);
    else
        snprintf(to, EVAL_NAME_BYTES, "%" PRId64, k);
    return to;
}

const eval_measured *eval_main(const evaluation *e)
{
    return &e->measured[job_main(&e->job) - e->job.program - JOB_EVAL];
}

/* ---- before ------------------------------------------------------------------------------ */

static sw_status make_ready(evaluation *e)
{
    const job_opts *o = e->job.opts;
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = job_slot_rows(&e->job.test, e->job.batch),
                .slots = JOB_SLOTS, .budget = job_on_device(o) ? NULL : e->job.budget);
    SW_TRY(sw_loader_create(&e->loader, e->job.test.set, &opts));
    SW_TRY(sw_model_ready(e->job.net.model, e->job.exec, (uint64_t)o->seed));
    return cli_saved(sw_model_load(e->job.net.model, e->opts.load));
}

/* The part in question stands in `test`, for which JOB_NONE plans. */
static void choose_part(evaluation *e)
{
    if (strcmp(e->opts.part, "train") != 0)
        return;
    const job_data test = e->job.test;
    e->job.test = e->job.train;
    e->job.train = test;
    e->job.train.info = e->job.test.info; /* the model is that of samples with labels */
    e->job.train.info.bytes = test.info.bytes;
}

int eval_open(evaluation *e, sw_step_fn *fn)
{
    bool there;
    cli_catch_interrupt();
    sw_status status = sw_file_look(e->opts.load, &there);
    if (status == SW_OK && !there) /* before data that may take minutes to read */
        return cli_error(CLI_DAMAGED, "--load-params %s: there is no such file", e->opts.load);
    if (status != SW_OK)
        return cli_library_error(status, true);
    e->job.limited[strcmp(e->opts.part, "train") != 0] = e->job.batch;
    int code = job_load(&e->job, false);
    if (code != CLI_GO)
        return code;
    choose_part(e);
    if (e->job.test.n == 0)
        return cli_error(CLI_DAMAGED, "%s: there are no samples for --part %s",
                         e->job.test.info.name, e->opts.part);
    e->job.fn = fn;
    code = job_open(&e->job);
    if (code == CLI_GO)
        code = job_check_machine(&e->job, false);
    if (code != CLI_GO)
        return code;
    status = make_ready(e);
    return status == SW_OK ? CLI_GO : cli_library_error(status, true);
}

void eval_close(evaluation *e)
{
    sw_loader_destroy(e->loader);
    job_close(&e->job);
    job_unload(&e->job);
    sw_heap_free(e->counts, SW_HEAP_RECORDS, e->counts_bytes);
}

/* ---- the runs ---------------------------------------------------------------------------- */

static void keep_highest(eval_measured *m, const sw_run_info *info)
{
    m->runs++;
    for (int i = 0; i < SW_PHASES; i++) {
        if (info->phase[i].peak_bytes > m->phase[i].peak_bytes)
            m->phase[i].peak_bytes = info->phase[i].peak_bytes;
        m->phase[i].end_bytes = info->phase[i].end_bytes;
    }
    if (info->peak_bytes > m->peak_bytes)
        m->peak_bytes = info->peak_bytes;
}

static sw_status run(evaluation *e, const sw_array *inputs, eval_take *take, void *to)
{
    const int64_t rows = inputs[0].shape.dim[0];
    const job_which which = rows == e->job.batch ? JOB_EVAL : JOB_EVAL_LAST;
    const sw_run_args args = job_args(&e->job, which, inputs, 0);
    sw_run_info info = SW_OPTS(sw_run_info);
    sw_array scores;
    SW_TRY(sw_run(e->job.exec, &args));
    SW_TRY(sw_last_run(e->job.exec, &info));
    keep_highest(&e->measured[which - JOB_EVAL], &info);
    e->warm_runs += info.warm != 0;
    if (info.warm != 0)
        e->allocations += info.allocations;
    const bool shown = e->job.net.kind->forward != NULL;
    if (shown)
        SW_TRY(sw_output_get(e->job.exec, TOOL_SCORES, &scores));
    SW_TRY(take(e, inputs, shown ? &scores : NULL, to));
    e->rows += rows;
    return SW_OK;
}

sw_status eval_all(evaluation *e, eval_take *take, void *to)
{
    const uint64_t start = cli_clock_ns();
    SW_TRY(sw_loader_epoch(e->loader, 0));
    for (;;) {
        const sw_array *inputs;
        int n;
        if (cli_interrupted())
            SW_FAIL(SW_STOPPED, "interrupted after %" PRId64 " of %" PRId64 " samples", e->rows,
                    e->job.test.n);
        SW_TRY(sw_loader_next(e->loader, &inputs, &n));
        if (n == 0)
            break;
        SW_TRY(run(e, inputs, take, to));
        if (!e->opts.quiet)
            cli_progress("%" PRId64 "/%" PRId64 " samples", e->rows, e->job.test.n);
    }
    e->wall_ns = cli_clock_ns() - start;
    cli_progress("%s", "");
    return SW_OK;
}
