/* stepwell es: load, plan everything, evolve, test, say what was measured. All refusals come
 * before the first generation. */
#include "alloc/base/size.h"
#include "tools/es/es.h"
#include <inttypes.h>

/* Memory that a run needs besides its plan: a slice's poles, and a generation's fitness. */
static sw_status make_ready(es_run *r)
{
    SW_TRY(es_batch_open(r));
    SW_TRY(job_note(&r->job, r->job.net.model));
    SW_TRY(sw_model_ready(r->job.net.model, r->job.exec, (uint64_t)r->opts.job.seed));
    if (r->opts.load != NULL)
        SW_TRY(cli_saved(sw_model_load(r->job.net.model, r->opts.load)));
    return es_look_at_plan(r);
}

/* Images and the batch of a run, which may have each of them more than once: its slot, and its
 * pixels as F32. */
static int check_data(const es_run *r)
{
    const job_opts *o = &r->opts.job;
    const size_t limit = o->data_limit > 0 ? o->data_limit : (size_t)1 << 30;
    size_t each = 1, own, batch, all;
    for (int d = 0; d < r->job.train.info.field[0].shape.rank; d++)
        each *= (size_t)r->job.train.info.field[0].shape.dim[d];
    if (!sw_size_mul(each, (size_t)(r->job.train.n + r->job.test.n), &own) ||
        !sw_size_mul(each, (size_t)r->rows * (1 + sizeof(float)), &batch) ||
        !sw_size_add(own, batch, &all))
        own = batch = all = SIZE_MAX;
    if (all <= limit)
        return CLI_GO;
    return cli_error(CLI_NO_FIT,
                     "%s: the images take %zu bytes, and a batch of %" PRId64
                     " of them %zu more; the limit is %zu: --data-limit %zu would do, or make "
                     "them smaller with --resize, or --slice or --samples",
                     o->data, own, r->rows, batch, limit, all);
}

/* Before an image is decoded. */
static int look_at_data(es_run *r)
{
    int status = job_load(&r->job, true);
    if (status == CLI_GO)
        status = check_data(r);
    job_unload(&r->job);
    return status;
}

static int load(es_run *r)
{
    r->opts.job.params = r->opts.load;
    r->job.quiet = r->opts.quiet;
    if (!r->on_environment) {
        const int status = job_decodes(&r->opts.job) ? look_at_data(r) : CLI_GO;
        return status == CLI_GO ? job_load(&r->job, false) : status;
    }
    es_episodes_describe(r);
    const tool_net_opts net = job_net_opts(&r->job);
    return tool_net_accepts(&net) == SW_OK && net.model->forward != NULL
               ? CLI_GO
               : cli_error(CLI_USAGE, "--model %s does not act in an environment",
                           r->opts.job.model);
}

/* The plans fit; the fitness of a generation is to do so beside them. */
static int check_budget(const es_run *r)
{
    const size_t budget = r->opts.job.budget_bytes, needed = es_total_bytes(r);
    if (budget == 0 || needed <= budget)
        return CLI_GO;
    return cli_error(
        CLI_NO_FIT,
        "does not fit: %zu bytes are needed, %zu of them for the fitness of %" PRId64
        " evaluations; the budget is %zu",
        needed, sw_es_bytes(r->job.es), r->opts.population, budget);
}

/* Everything up to the first generation. CLI_GO or the exit status. */
static int prepare(es_run *r)
{
    cli_catch_interrupt();
    if (r->opts.checkpoint != NULL)
        cli_catch_save();
    int status = es_files_writable(&r->opts);
    if (status == CLI_GO)
        status = load(r);
    if (status == CLI_GO)
        status = es_count(r);
    if (status == CLI_GO)
        status = job_open(&r->job);
    if (status == CLI_GO)
        status = job_check_machine(&r->job, r->opts.witness);
    if (status != CLI_GO)
        return status;
    sw_status made = make_ready(r);
    if (made != SW_OK)
        return cli_library_error(made, made == SW_FORMAT || made == SW_IO);
    status = check_budget(r);
    if (status == CLI_GO)
        status = es_resume(r);
    if (status != CLI_GO)
        return status;
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED,
                         "interrupted before the first generation: no file was "
                         "written");
    made = es_profile_open(r);
    if (made == SW_OK)
        made = es_metrics_open(r);
    return made == SW_OK ? CLI_GO : cli_library_error(made, false);
}

static int run(es_run *r)
{
    const uint64_t start = cli_clock_ns();
    sw_status ran = es_loop(r);
    r->wall_ns = cli_clock_ns() - start;
    cli_progress("%s", "");
    if (ran == SW_OK)
        ran = es_save_last(r);
    const sw_status closed = es_metrics_close(r);
    ran = ran == SW_OK ? closed : ran;
    if (ran == SW_OK && r->opts.save != NULL && r->generation > 0)
        ran = cli_saved(sw_model_save(r->job.net.model, r->opts.save));
    if (ran != SW_OK)
        return cli_library_error(ran, false);
    const int status = es_check_witness(r);
    return es_print(r, cli_interrupted() ? CLI_INTERRUPTED : status);
}

/* Backwards through prepare(). The profile closes last, since the exec writes to it. */
static int close_all(es_run *r, int status)
{
    sw_checkpoint_destroy(r->checkpoint);
    sw_file_drop(r->metrics);
    job_close(&r->job);
    es_batch_close(r);
    if (r->profile != NULL) {
        if (status == CLI_INTERRUPTED)
            sw_profile_end_status(r->profile, SW_STOPPED, NULL);
        else if (status != CLI_DONE)
            sw_profile_end_status(r->profile, SW_IO, cli_last_line());
        const sw_status closed = sw_profile_destroy(r->profile);
        if (closed != SW_OK && status == CLI_DONE)
            status = cli_library_error(closed, false);
    }
    job_unload(&r->job);
    return status;
}

int tool_es(int argc, char **argv)
{
    static es_run r; /* large */
    int status = es_parse(&r, argc, argv);
    if (status != CLI_GO)
        return status;
    status = prepare(&r);
    if (status == CLI_GO)
        status = run(&r);
    return close_all(&r, status);
}
