/* Training of zeroth order: `stepwell train --method mezo|lozo`, --record and --replay. The
 * runs of a step are those of validation, so a training needs what inference needs. */
#include "tools/train/train.h"
#include <inttypes.h>
#include <string.h>

/* ---- options ----------------------------------------------------------------------------- */

/* An option that was given, in words; NULL: it was not. */
static int check_numbers(const train_opts *o)
{
    if (o->eps == 0.0)
        return cli_error(CLI_USAGE, "--eps must be above 0 (got 0)");
    if (o->record != NULL && strcmp(o->record, "-") == 0)
        return cli_error(CLI_USAGE, "--record must be a file: standard output has the result");
    return CLI_GO;
}

int train_zeroth_check(train_opts *o)
{
    const bool lozo = strcmp(o->method, "lozo") == 0;
    const bool zeroth = lozo || strcmp(o->method, "mezo") == 0, replay = o->replay != NULL;
    const char *other = zeroth ? cli_given(TRAIN_NOT_ZEROTH) : NULL;
    if (other != NULL)
        return cli_error(CLI_USAGE, "%s and --method %s exclude each other", other, o->method);
    const int status = check_numbers(o);
    if (status != CLI_GO)
        return status;
    o->job.method = zeroth || replay ? JOB_MEZO : JOB_BACKPROP;
    o->eps = o->eps < 0.0 ? 0.001 : o->eps;
    if (lozo && o->zo_rank == 0)
        o->zo_rank = 2;
    if (lozo && o->zo_window == 0)
        o->zo_window = 50;
    return CLI_GO;
}

/* ---- training ---------------------------------------------------------------------------- */

sw_status train_zeroth_open(train *t)
{
    const train_opts *o = &t->opts;
    if (o->job.method != JOB_MEZO || o->replay != NULL)
        return SW_OK;
    const sw_schedule schedule = train_schedule(t);
    const sw_zo_opts opts = SW_OPTS(
        sw_zo_opts, .kind = o->method, .eps = (float)o->eps, .lr = (float)o->job.lr,
        .weight_decay = (float)o->job.weight_decay, .rank = (int)o->zo_rank,
        .window = (uint32_t)o->zo_window, .schedule = &schedule, .seed = (uint64_t)o->job.seed,
        .max_steps = o->record != NULL ? t->total_steps : 0);
    return sw_zo_create(&t->zo, t->job.net.model, &opts);
}

sw_status train_zeroth_step(train *t, const sw_run_args *args)
{
    return sw_zo_step(t->zo, t->job.exec, args, "loss", NULL);
}

sw_status train_zeroth_save(train *t)
{
    if (t->opts.record == NULL || t->now.step == 0)
        return SW_OK;
    SW_TRY(cli_saved(sw_zo_save(t->zo, t->opts.record)));
    sw_file *file;
    SW_TRY(sw_file_open(&file, t->opts.record, SW_FILE_READ));
    const sw_status status = sw_file_size(file, &t->record_bytes);
    sw_file_drop(file);
    return status;
}

/* ---- replay ------------------------------------------------------------------------------ */

static sw_status say_step(void *user, uint64_t step, uint64_t steps)
{
    train *t = user;
    t->now.step = step;
    if (!t->opts.quiet)
        cli_progress("replay  step %" PRIu64 "/%" PRIu64, step, steps);
    return cli_interrupted() ? SW_STOPPED : SW_OK;
}

sw_status train_replay(train *t)
{
    const sw_status status =
        sw_zo_replay(t->job.net.model, t->job.exec, t->opts.replay, say_step, t);
    t->total_steps = t->now.step;
    if (status == SW_STOPPED && cli_interrupted())
        return SW_OK;
    SW_TRY(status);
    return train_validate(t);
}
