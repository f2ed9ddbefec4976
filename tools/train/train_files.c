/* The files that `stepwell train` is to write: which they are, rows of --metrics, checkpoints.
 */
#include "kernels/dispatch.h"
#include "tools/report/file_same.h"
#include "tools/job/job.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* A folder that a model writes is no file. */
#define FILE_OR_FOLDER(o, path) ((o)->job.kind->save != NULL ? NULL : (path))

#define FILES(o)                                                                               \
    {"--profile", (o)->profile, JOB_LATER, .no_stream = true},                                 \
        {"--metrics", (o)->metrics, JOB_IN_PLACE},                                             \
        {"--heap-profile", (o)->heap_profile, JOB_NO_PIPE, .no_stream = true},                 \
        {"--save-best", FILE_OR_FOLDER(o, (o)->best), JOB_BESIDE, .params = true,              \
         .no_stream = true},                                                                   \
        {"--save-params", FILE_OR_FOLDER(o, (o)->save), JOB_BESIDE, .params = true,            \
         .no_stream = true},                                                                   \
        {"--record", (o)->record, JOB_BESIDE, .no_stream = true},                              \
        {"--plot", (o)->plot, JOB_BESIDE}, {"--replay", (o)->replay, JOB_READ},                \
    {                                                                                          \
        "--load-params", (o)->load, JOB_READ, .params = true                                   \
    }

int train_check_files(const train_opts *o)
{
    const job_output files[] = {FILES(o)};
    if (o->job.kind->save != NULL) {
        const bool whole = o->job.settings.lora == 0 && o->job.settings.adapter == NULL;
        if (cli_given("--save-type") != NULL)
            return cli_error(CLI_USAGE, "--save-type has no effect with --model hf:DIR, which "
                                        "writes folders of float32");
        if (o->save_adapter != NULL && whole)
            return cli_error(CLI_USAGE, "--save-adapter has no effect without --lora or "
                                        "--adapter: --save-params writes the whole model");
        if (o->best != NULL && o->save != NULL && strcmp(o->best, o->save) == 0)
            return cli_error(CLI_USAGE,
                             "--save-best and the last save have one folder, %s: name two",
                             o->best);
        const char *base = whole ? o->job.settings.folder : NULL;
        CLI_TRY(job_folder_check("--save-best", o->best, base));
        CLI_TRY(job_folder_check(o->save_adapter != NULL ? "--save-adapter" : "--save-params",
                                 o->save, base));
    }
    return job_outputs_check(files, sizeof files / sizeof *files, &o->job, o->job.checkpoint,
                             o->resume, o->keep);
}

int train_check_writable(const train_opts *o)
{
    const job_output files[] = {FILES(o)};
    return job_outputs_writable(files, sizeof files / sizeof *files, o->job.checkpoint);
}

/* ---- metrics ----------------------------------------------------------------------------- */

/* Where the file is new. */
static sw_status open_metrics(train *t, bool go_on)
{
    static const char head[] = "kind,step,epoch,loss,accuracy,rate,ms\n";
    const bool events = t->opts.metrics != NULL && job_metrics_events(t->opts.metrics);
    if (events)
        train_events_head(t);
    return job_metrics_open(&t->metrics, t->opts.metrics,
                            events ? (const void *)t->events.bytes : head,
                            events ? t->events.n : sizeof head - 1, go_on);
}

sw_status train_metrics_open(train *t)
{
    t->now.rows_lost = 0;
    return open_metrics(t, false);
}

sw_status train_metrics_go_on(train *t, uint64_t bytes)
{
    if (t->opts.metrics == NULL)
        return SW_OK;
    const bool there = sw_file_taken(t->opts.metrics);
    t->metrics.bytes = bytes;
    SW_TRY(open_metrics(t, true));
    if (!there)
        t->now.rows_lost = 0;
    else if (t->now.rows_lost > 0)
        cli_note("--metrics %s: rows are missing from step %" PRIu64
                 " on: they could not be written; rows go on after step %" PRIu64,
                 t->opts.metrics, t->now.rows_lost, t->now.step);
    return SW_OK;
}

/* A row that could not be written is reported once and fails the run at its end; training goes
 * on. The file stays open: another thread may be syncing it. */
void train_metrics_row(train *t, const train_row *row)
{
    static const char *const kinds[] = {"train", "validation", "epoch"};
    const bool step = row->kind == TRAIN_LINE_STEP, classes = job_has_classes(&t->job);
    const job_cell cells[] = {{"kind", JOB_TEXT, true, .text = kinds[row->kind]},
                              {"step", JOB_COUNT, true, .count = row->step},
                              {"epoch", JOB_COUNT, true, .count = row->epoch + 1},
                              {"loss", JOB_REAL, true, .real = row->score.loss},
                              {classes ? "accuracy" : NULL, JOB_REAL,
                               classes && row->score.rows > 0,
                               .real = (double)row->score.right / (double)row->score.rows},
                              {step ? "rate" : NULL, JOB_REAL, step, .real = row->rate},
                              {"ms", JOB_MS, row->ns > 0, .real = (double)row->ns * 1e-6}};
    sw_status status;
    if (t->metrics.file == NULL || t->metrics_lost)
        return;
    if (job_metrics_events(t->opts.metrics)) {
        train_events_row(t, row);
        status = job_metrics_put(&t->metrics, t->events.bytes, t->events.n);
    } else
        status = job_metrics_row(&t->metrics, cells, sizeof cells / sizeof *cells);
    if (status == SW_OK)
        return;
    t->trouble = t->trouble == CLI_DONE ? cli_library_error(status, false) : t->trouble;
    t->metrics_lost = true;
    if (t->now.rows_lost == 0)
        t->now.rows_lost = row->step;
}

/* The failure of a lost one was reported. */
void train_metrics_close(train *t)
{
    const sw_status status = job_metrics_close(&t->metrics);
    if (status != SW_OK && !t->metrics_lost && t->trouble == CLI_DONE)
        t->trouble = cli_library_error(status, false);
}

/* --checkpoint and --resume: when a run is saved, and how it goes on.
 *
 * A checkpoint is the state after a step. On a device the models are copied after the step
 * while the next one is begun, and the step's results are known later: so the loop's progress
 * is noted when the copy is asked for, gets its sums when the step is reported, and is written
 * then. */

static const job_field fields[] = {
#define U64(member) JOB_FIELD(JOB_U64, train_progress, member)
#define I64(member) JOB_FIELD(JOB_I64, train_progress, member)
#define F64(member) JOB_FIELD(JOB_F64, train_progress, member)
#define BOOL(member) JOB_FIELD(JOB_BOOL, train_progress, member)
    U64(step),        U64(epoch),         U64(epochs),     U64(epoch_steps), U64(diverged),
    U64(validations), U64(best_step),     I64(waited),     U64(rows_lost),   U64(metrics_bytes),
    I64(epoch_right), I64(epoch_rows),    BOOL(evaluated), BOOL(stopped),    BOOL(has_metrics),
    BOOL(best_lost),  BOOL(averaged),     F64(last_loss),  F64(epoch_loss),  F64(epoch_sum),
    F64(mark),        I64(batches_taken), F64(test.loss),  I64(test.right),  I64(test.rows),
    F64(best.loss),   I64(best.right),    I64(best.rows)};
static const job_saved what = {"train", fields, sizeof fields / sizeof *fields, .loads = true};

/* ---- options ----------------------------------------------------------------------------- */

int train_checkpoint_check(const train_opts *o)
{
    const char *path = o->job.checkpoint;
    if (path != NULL && strcmp(path, "-") == 0)
        return cli_error(CLI_USAGE,
                         "--checkpoint must be a file: standard output has the result");
    if (o->witness && (path != NULL || o->resume != NULL))
        return cli_error(CLI_USAGE,
                         "--witness and %s exclude each other: witnesses look at the first "
                         "steps of a run alone",
                         path != NULL ? "--checkpoint" : "--resume");
    struct stat st;
    if ((path != NULL || o->resume != NULL) && o->metrics != NULL &&
        stat(o->metrics, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return cli_error(CLI_USAGE,
                         "--metrics %s must be a regular file with %s: a run that goes on cuts "
                         "off the rows after its checkpoint",
                         o->metrics, path != NULL ? "--checkpoint" : "--resume");
    return job_saves_check(path, o->resume);
}

/* On the thread that writes: what must not be older than the checkpoint. A profile that cannot
 * be written any more fails the run at its end, and no save. */
static sw_status sync_files(void *user)
{
    train *t = user;
    const sw_status profile = t->profile != NULL ? sw_profile_sync(t->profile) : SW_OK;
    (void)profile;
    return job_metrics_sync(&t->metrics);
}

void train_checkpoint_opts(train *t)
{
    t->job.saving =
        SW_OPTS(sw_checkpoint_opts, .path = t->opts.job.checkpoint, .command = t->command,
                .keep = (int)t->opts.keep, .no_copy = t->opts.job.checkpoint_pauses,
                .before = sync_files, .user = t);
    t->job.saves = t->opts.job.checkpoint != NULL || t->opts.resume != NULL;
}

/* A damaged file is passed over here too, and named once it is loaded. */
const char *train_resumed_params(const train_opts *o)
{
    static char name[FILE_PATH_BYTES];
    char text[JOB_NORMAL_BYTES];
    for (int i = 0; o->resume != NULL && i < JOB_GENERATIONS; i++)
        if (sw_generation_name(name, sizeof name, job_resume_path(o->resume, o->job.checkpoint),
                               i) &&
            sw_file_taken(name) &&
            sw_params_note(name, JOB_NORMAL_KEY, text, sizeof text) == SW_OK)
            return name;
    return NULL;
}

/* ---- going on ---------------------------------------------------------------------------- */

void train_identify(const train *t, job_identity *to)
{
    const job_opts *o = &t->opts.job;
    const unsigned takes = tool_schedule_takes(o->schedule);
    job_identify(to, o, t->options, t->n_options);
    if (t->job.net.weights[0] != '\0')
        job_identity_add(to, "weights of the model's folder", "%s", t->job.net.weights);
    job_identity_add(to, "--data", "%s", o->data);
    job_identity_add(to, "--normalise", "%s", t->job.normal.text);
    if (t->job.shards > 0)
        job_identity_add(to, "--shards", "%d", t->job.shards);
    job_identity_add(to, "--batch", "%" PRId64, o->batch.at[0]);
    if ((takes & TOOL_LR_CUTS) != 0)
        job_identity_add(to, "--lr-every", "%" PRIu64, t->lr_every);
    if ((takes & TOOL_LR_TOTAL) != 0)
        job_identity_add(to, "steps in all (--epochs, --steps)", "%" PRIu64, t->total_steps);
}

static int go_on_checkpoint(train *t, const sw_checkpoint_found *found)
{
    static job_identity identity; /* large */
    train_identify(t, &identity);
    CLI_TRY(job_state_get(t->job.checkpoint, &what, &identity, found->path, &t->now));
    if (t->now.step > t->total_steps)
        return cli_error(CLI_USAGE,
                         "--resume %s: it is after step %" PRIu64 ", and this run has %" PRIu64
                         " steps in all: give more --epochs or --steps",
                         found->path, t->now.step, t->total_steps);
    const sw_status loaded = sw_checkpoint_load(t->job.checkpoint);
    if (loaded == SW_INVALID)
        return cli_error(CLI_USAGE, "--resume %s", sw_last_error());
    CLI_LIBRARY(loaded, true);
    t->inside = true;
    t->saving.resumed_step = t->now.step;
    snprintf(t->saving.resumed_from, sizeof t->saving.resumed_from, "%s", found->path);
    const char *isa = sw_isa_name(swi_target_of(t->job.exec)->isa);
    const bool cpu = !job_on_device(&t->opts.job);
    if ((strcmp(found->device, "cpu") == 0) != cpu)
        cli_note("%s was saved on %s, and the run goes on on %s: numbers differ in their last "
                 "bits",
                 found->path, found->device, t->opts.job.device);
    else if (cpu && strcmp(found->isa, isa) != 0)
        cli_note("%s was saved with the instruction set %s, and the run goes on with %s: "
                 "numbers differ in their last bits (--isa)",
                 found->path, found->isa, isa);
    if (!t->opts.quiet)
        cli_note("goes on after step %" PRIu64 " of %" PRIu64 ", from %s", t->now.step,
                 t->total_steps, found->path);
    return CLI_GO;
}

int train_resume(train *t)
{
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    char kept[FILE_PATH_BYTES];
    if (!t->job.saves)
        return CLI_GO;
    sw_loader *const loaders[] = {t->train_loader, t->test_loader};
    for (int i = 0; i < 2; i++)
        CLI_LIBRARY(sw_checkpoint_loader(t->job.checkpoint, loaders[i]), true);
    if (t->opts.job.checkpoint != NULL)
        CLI_LIBRARY(sw_checkpoint_ready(t->job.checkpoint), true);
    CLI_TRY(job_resume_find(t->job.checkpoint, t->opts.resume, t->opts.job.checkpoint,
                            t->opts.quiet, &found));
    if (found.found)
        CLI_TRY(go_on_checkpoint(t, &found));
    t->saving.due = job_due_after(&t->opts.every, t->now.step);
    if (!found.found || t->opts.profile == NULL)
        return CLI_GO;
    /* The profile of the run before is not replaced. */
    CLI_LIBRARY(job_keep_profile(t->opts.profile, t->now.step, kept, sizeof kept), false);
    if (kept[0] != '\0')
        cli_note("the profile of the steps before is in %s", kept);
    return CLI_GO;
}

/* ---- saving ------------------------------------------------------------------------------ */

static void say_failure(const char *why)
{
    cli_note("the checkpoint could not be saved: %s; training goes on, and the save is tried "
             "again",
             why);
}

/* How the save that was on its way ended, once it did. A failure is said once, until one
 * succeeds again: the next save tries again, and the one before is there. */
static sw_status look(train *t)
{
    sw_checkpoint_info info = SW_OPTS(sw_checkpoint_info);
    train_saving *s = &t->saving;
    if (!s->running)
        return SW_OK;
    SW_TRY(sw_checkpoint_describe(t->job.checkpoint, &info));
    if (info.busy)
        return SW_OK;
    s->running = false;
    if (info.last != SW_OK && !s->told_trouble)
        say_failure(info.text);
    else if (info.last == SW_OK && (s->told_trouble || s->say))
        cli_note("step %" PRIu64 " is saved in %s", info.step, t->opts.job.checkpoint);
    if (info.last == SW_OK && info.text[0] != '\0' && info.saved == 1)
        cli_note("%s", info.text);
    s->told_trouble = info.last != SW_OK;
    s->say = s->say && info.last != SW_OK;
    return SW_OK;
}

static sw_status write_taken(train *t)
{
    static job_identity identity; /* large */
    train_saving *s = &t->saving;
    s->waits = false;
    s->taken.has_metrics = t->metrics.file != NULL;
    s->taken.metrics_bytes = t->metrics.bytes;
    train_identify(t, &identity);
    SW_TRY(job_state_put(t->job.checkpoint, &what, &identity, &s->taken));
    const sw_status written = sw_checkpoint_write(t->job.checkpoint);
    s->running =
        written == SW_OK; /* with a pause it has ended, and is looked at all the same */
    return written == SW_OK ? look(t) : written;
}

/* A save that fails on the way is reported, once, and tried again: training goes on, unless the
 * card or the model has failed. */
static sw_status tried(train *t, sw_status status)
{
    if (status == SW_OK || status == SW_DEVICE || status == SW_STALE)
        return status;
    if (!t->saving.told_trouble)
        say_failure(sw_last_error());
    t->saving.told_trouble = true;
    return SW_OK;
}

sw_status train_checkpoint_told(train *t, uint64_t step)
{
    train_saving *s = &t->saving;
    if (!s->waits || s->taken.step != step)
        return SW_OK;
    s->taken.epoch_sum = t->now.epoch_sum;
    s->taken.epoch_steps = t->now.epoch_steps;
    s->taken.epoch_loss = t->now.epoch_loss;
    s->taken.epoch_right = t->now.epoch_right;
    s->taken.epoch_rows = t->now.epoch_rows;
    s->taken.last_loss = t->now.last_loss;
    s->taken.diverged = t->now.diverged;
    s->taken.rows_lost = t->now.rows_lost;
    return tried(t, write_taken(t));
}

static sw_status take(train *t)
{
    train_saving *s = &t->saving;
    SW_TRY(sw_checkpoint_take(t->job.checkpoint, t->now.step));
    s->taken = t->now;
    return SW_OK;
}

sw_status train_checkpoint_step(train *t)
{
    train_saving *s = &t->saving;
    if (t->opts.job.checkpoint == NULL)
        return SW_OK;
    SW_TRY(look(t));
    if (s->running || s->waits)
        return SW_OK; /* what is due while one is written comes after it */
    s->say |= cli_save_asked();
    if (!s->say && !job_is_due(&s->due, t->now.step))
        return SW_OK;
    s->due = job_due_after(&t->opts.every, t->now.step);
    if (t->opts.job.checkpoint_pauses)
        SW_TRY(train_catch_up(t));
    sw_status status = take(t);
    if (status == SW_OK && t->flight.there)
        s->waits = true; /* for the step to be reported */
    else if (status == SW_OK)
        status = write_taken(t);
    return tried(t, status);
}

/* Once more, after what is on its way. */
static sw_status save_last(train *t)
{
    const sw_status before = sw_checkpoint_wait(t->job.checkpoint);
    (void)before; /* look() says it */
    SW_TRY(look(t));
    t->saving.say = false;
    SW_TRY(take(t));
    SW_TRY(write_taken(t));
    return sw_checkpoint_wait(t->job.checkpoint);
}

void train_checkpoint_end(train *t)
{
    sw_checkpoint_info *ended = &t->saving.ended;
    if (t->opts.job.checkpoint == NULL || t->now.step == 0)
        return;
    const sw_status status = save_last(t);
    t->saving.running = false;
    if (status != SW_OK) {
        const int failed = cli_library_error(status, false);
        t->trouble = t->trouble == CLI_DONE ? failed : t->trouble;
        t->saving.lost = true;
    }
    ended->size = sizeof *ended;
    if (sw_checkpoint_describe(t->job.checkpoint, ended) != SW_OK || status != SW_OK)
        return;
    if (ended->text[0] != '\0' && ended->saved == 1)
        cli_note("%s", ended->text);
    if (!t->opts.quiet)
        cli_note("step %" PRIu64 " is saved in %s", t->now.step, t->opts.job.checkpoint);
}
