/* The files that `stepwell train` is to write: none of them may be another that it writes or
 * reads, by whatever name, and whether the parameters can be saved is known before the
 * training. */
#include "alloc/base/assert.h"
#include "kernels/dispatch.h"
#include "profiler/record/json.h"
#include "tools/job/optimizer.h"
#include "tools/report/file_same.h"
#include "tools/train/train.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- train files ------------------------------------------------------------------------- */

#define PATH_BYTES FILE_PATH_BYTES

static int refuse(const char *option, const char *path, const char *other)
{
    return cli_error(CLI_USAGE, "%s %s, the same file as %s", option, path, other);
}

int train_check_data(const char *option, const char *path, const job_opts *opts)
{
    char file[PATH_BYTES];
    for (int i = 0; job_file_name(opts, i, file, sizeof file); i++)
        if (file_same(path, file))
            return refuse(option, path, file);
    return CLI_GO;
}

/* A file of the command line, under a name of its own. */
typedef struct {
    const char *option, *path;
    bool read, params; /* parameters may replace those that the run began with */
} named_file;

/* Whether one of `n` files is `name`, a file of --checkpoint, or of --resume which is read. */
static int check_name(const named_file *files, size_t n, const char *option, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!files[i].read && file_same(files[i].path, name)) {
            char other[PATH_BYTES + 32];
            snprintf(other, sizeof other, "%s %s", option, name);
            return refuse(files[i].option, files[i].path, other);
        }
    return CLI_GO;
}

/* All generations that there are, or may be soon. */
static int check_generations(const named_file *files, size_t n, const char *option,
                             const char *path, int64_t keep)
{
    char name[PATH_BYTES];
    int64_t last = JOB_GENERATIONS > keep ? JOB_GENERATIONS : keep;
    for (int64_t i = 0; i < last && sw_generation_name(name, sizeof name, path, (int)i); i++) {
        const int status = check_name(files, n, option, name);
        if (status != CLI_GO)
            return status;
        if (sw_file_taken(name) && i + JOB_GENERATIONS >= last)
            last = i + 1 + JOB_GENERATIONS;
    }
    return CLI_GO;
}

/* FILE and FILE.lock may not be data, and no other file may be one of theirs. */
static int check_checkpoint(const named_file *files, size_t n, const train_opts *o)
{
    static const char option[] = "--checkpoint";
    const char *path = o->job.checkpoint;
    char lock[PATH_BYTES];
    int status = CLI_GO;
    if (o->resume != NULL && *o->resume != '\0')
        status = check_generations(files, n, "--resume", o->resume, 0);
    if (path == NULL || status != CLI_GO)
        return status;
    status = check_generations(files, n, option, path, o->keep);
    if (status == CLI_GO)
        status = train_check_data(option, path, &o->job);
    if (status == CLI_GO && snprintf(lock, sizeof lock, "%s.lock", path) < (int)sizeof lock)
        status = check_name(files, n, option, lock);
    return status;
}

int train_check_files(const train_opts *o)
{
    const named_file files[] = {{"--profile", o->profile, false, false},
                                {"--metrics", o->metrics, false, false},
                                {"--heap-profile", o->heap_profile, false, false},
                                {"--save-best", o->best, false, true},
                                {"--save-params", o->save, false, true},
                                {"--record", o->record, false, false},
                                {"--plot", o->plot, false, false},
                                {"--replay", o->replay, true, false},
                                {"--load-params", o->load, true, true}};
    const size_t n = sizeof files / sizeof *files;
    for (size_t i = 0; i < n; i++) {
        if (files[i].read)
            continue;
        for (size_t k = i + 1; k < n; k++)
            if (!(files[k].read && files[k].params && files[i].params) &&
                file_same(files[i].path, files[k].path))
                return refuse(files[i].option, files[i].path, files[k].option);
        const int status = train_check_data(files[i].option, files[i].path, &o->job);
        if (status != CLI_GO)
            return status;
    }
    return check_checkpoint(files, n, o);
}

int train_check_file(const char *option, const char *path, bool replaced)
{
    char folder[PATH_BYTES];
    struct stat st;
    if (path == NULL || strlen(path) >= sizeof folder)
        return CLI_GO;
    memcpy(folder, path, strlen(path) + 1);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    const bool there = stat(path, &st) == 0;
    const bool in_place = there && !(replaced && S_ISREG(st.st_mode)); /* devices always */
    const char *asked = in_place ? path : slash != NULL ? folder : ".";
    if (there && S_ISDIR(st.st_mode))
        errno = EISDIR;
    else if (access(asked, W_OK) == 0)
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: %s", option, path, strerror(errno));
}

int train_check_regular(const char *option, const char *path)
{
    struct stat st;
    if (path == NULL || stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: must be a regular file", option, path);
}

/* For what is not opened by alloc/base/file.c: to open a pipe would wait where no signal ends
 * it. */
static int check_no_pipe(const char *option, const char *path)
{
    struct stat st;
    if (path == NULL || stat(path, &st) != 0 || !S_ISFIFO(st.st_mode))
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: must not be a pipe: a regular file is needed", option,
                     path);
}

int train_check_writable(const train_opts *o)
{
    int status = train_check_file("--save-params", o->save, true);
    if (status == CLI_GO)
        status = train_check_file("--save-best", o->best, true);
    if (status == CLI_GO)
        status = train_check_file("--record", o->record, true);
    if (status == CLI_GO)
        status = train_check_file("--plot", o->plot, true);
    if (status == CLI_GO)
        status = train_check_regular("--checkpoint", o->job.checkpoint);
    if (status == CLI_GO)
        status = train_check_file("--checkpoint", o->job.checkpoint, true);
    if (status == CLI_GO)
        status = train_check_file("--heap-profile", o->heap_profile, false);
    if (status == CLI_GO)
        status = check_no_pipe("--heap-profile", o->heap_profile);
    return status == CLI_GO ? train_check_file("--metrics", o->metrics, false) : status;
}

/* ---- a run that goes on ------------------------------------------------------------------ */

/* The first name that is free. */
static sw_status free_name(const char *path, uint64_t step, char *kept, size_t bytes)
{
    for (unsigned n = 1;; n++) {
        char ending[32] = "";
        bool taken;
        if (n > 1)
            snprintf(ending, sizeof ending, ".%u", n);
        const int length = snprintf(kept, bytes, "%s.before-%" PRIu64 "%s", path, step, ending);
        if (length < 0 || (size_t)length >= bytes)
            SW_FAIL(SW_INVALID,
                    "--profile %s: the name to keep it under has no room in %zu bytes", path,
                    bytes);
        SW_TRY(sw_file_look(kept, &taken));
        if (!taken)
            return SW_OK;
    }
}

/* The lock says that no other process writes it, and goes with the file to its new name. */
sw_status train_keep_profile(const char *path, uint64_t step, char *kept, size_t bytes)
{
    struct stat st;
    sw_file *file;
    bool taken;
    SW_ASSERT(bytes > 0);
    kept[0] = '\0';
    if (path == NULL)
        return SW_OK;
    SW_TRY(sw_file_look(path, &taken));
    if (!taken || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return SW_OK;
    SW_TRY(sw_file_take(&file, path, false));
    sw_status status = free_name(path, step, kept, bytes);
    if (status == SW_OK)
        status = sw_file_rename(path, kept);
    if (status != SW_OK)
        kept[0] = '\0';
    sw_file_drop(file);
    return status;
}

/* ---- train metrics ----------------------------------------------------------------------- */

/* --metrics: a row for each step, each validation and each epoch: a line of CSV or JSON Lines,
 * or an event of TensorBoard's. Each is handed to the system at once, so that neither Ctrl-C
 * nor a killed process loses any. */

#define LINE_BYTES 512

static bool is_rows(const char *path)
{
    return cli_ends_with(path, ".csv") || cli_ends_with(path, ".jsonl");
}

int train_rows_check(const char *path)
{
    return path == NULL || is_rows(path)
               ? CLI_GO
               : cli_error(CLI_USAGE, "--metrics must be FILE.csv or FILE.jsonl (got '%s')",
                           path);
}

int train_metrics_check(const char *path)
{
    if (path == NULL || train_events_is(path) || is_rows(path))
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--metrics must be a file that ends in .csv or .jsonl, or for TensorBoard "
                     "DIR/" SW_TFEVENTS_NAME ".NAME (got '%s')",
                     path);
}

/* A row that could not be written is reported once and fails the run at its end; training goes
 * on. The file stays open: another thread may be syncing it. */
static void put(train *t, uint64_t step, const void *text, size_t n)
{
    const sw_status status = sw_file_write(t->metrics, text, n);
    if (status == SW_OK) {
        t->metrics_bytes += n;
        return;
    }
    t->trouble = t->trouble == CLI_DONE ? cli_library_error(status, false) : t->trouble;
    t->metrics_lost = true;
    if (t->now.rows_lost == 0)
        t->now.rows_lost = step;
}

static const char heads[] = "kind,step,epoch,loss,accuracy,rate,ms\n";

static sw_status write_head(train *t)
{
    if (train_events_is(t->opts.metrics)) {
        train_events_head(t);
        SW_TRY(sw_file_write(t->metrics, t->events.bytes, t->events.n));
        t->metrics_bytes = t->events.n;
        return SW_OK;
    }
    if (!cli_ends_with(t->opts.metrics, ".csv"))
        return SW_OK;
    SW_TRY(sw_file_write(t->metrics, heads, sizeof heads - 1));
    t->metrics_bytes = sizeof heads - 1;
    return SW_OK;
}

sw_status train_metrics_open(train *t)
{
    if (t->opts.metrics == NULL)
        return SW_OK;
    SW_TRY(sw_file_take(&t->metrics, t->opts.metrics, true)); /* as the only writer */
    t->metrics_bytes = 0;
    t->now.rows_lost = 0;
    return write_head(t);
}

/* ---- a run that goes on ------------------------------------------------------------------ */

#define WAY_OUT "train without --metrics, or name a file that is not there yet"

/* After the last newline in the first `bytes` of a file of lines. */
static sw_status lines_end(sw_file *file, uint64_t bytes, uint64_t *end)
{
    char block[1024];
    uint64_t from = bytes;
    *end = 0;
    while (from > 0 && *end == 0) {
        const size_t n = from < sizeof block ? (size_t)from : sizeof block;
        size_t got;
        from -= n;
        SW_TRY(sw_file_seek(file, from));
        SW_TRY(sw_file_read(file, block, n, &got));
        for (size_t i = got; i > 0 && *end == 0; i--)
            *end = block[i - 1] == '\n' ? from + i : 0;
    }
    return SW_OK;
}

/* Does a file of lines begin as one of these metrics, as far as it goes? */
static sw_status begins_as(sw_file *file, const char *head, bool *out)
{
    char front[64];
    size_t got, n = strlen(head);
    n = n < sizeof front ? n : sizeof front;
    SW_TRY(sw_file_seek(file, 0));
    SW_TRY(sw_file_read(file, front, n, &got));
    *out = memcmp(front, head, got) == 0;
    return SW_OK;
}

/* Where the last whole row in the first `bytes` ends; *ours: its rows are of such a file. */
static sw_status look_at_rows(const char *path, const char *head, uint64_t bytes, uint64_t *end,
                              bool *ours)
{
    const bool events = train_events_is(path);
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    sw_status status =
        events ? train_events_end(file, bytes, end) : lines_end(file, bytes, end);
    *ours = *end > 0 || bytes == 0;
    if (status == SW_OK && !events)
        status = begins_as(file, cli_ends_with(path, ".csv") ? head : "{", ours);
    sw_file_drop(file);
    return status;
}

static sw_status go_on(sw_file *file, const char *path, const char *head, uint64_t *bytes)
{
    uint64_t there, end = 0;
    bool ours = true;
    SW_TRY(sw_file_size(file, &there));
    const uint64_t whole = there < *bytes ? there : *bytes;
    if (*bytes > 0)
        SW_TRY(look_at_rows(path, head, whole, &end, &ours));
    if (whole == *bytes ? end != *bytes : !ours)
        SW_FAIL(SW_FORMAT,
                "--metrics %s: no row ends at byte %" PRIu64 ", where the checkpoint goes on: "
                "it is another file; " WAY_OUT,
                path, *bytes);
    SW_TRY(sw_file_cut(file, end));
    if (there < *bytes)
        cli_note("--metrics %s: rows are missing: it has %" PRIu64
                 " bytes, and the checkpoint goes on at %" PRIu64
                 "; rows go on after its last whole one, at %" PRIu64,
                 path, there, *bytes, end);
    *bytes = end;
    return SW_OK;
}

sw_status train_rows_go_on(sw_file **out, const char *path, const char *head, uint64_t *bytes)
{
    struct stat st;
    bool taken;
    sw_file *file;
    SW_TRY(sw_file_look(path, &taken)); /* or rows that are there would be gone */
    if (taken && (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode)))
        SW_FAIL(SW_FORMAT,
                "--metrics %s: is no regular file, and cannot go on at byte %" PRIu64
                "; " WAY_OUT,
                path, *bytes);
    SW_TRY(sw_file_take(&file, path, !taken));
    const sw_status status = taken ? go_on(file, path, head, bytes) : SW_OK;
    if (status != SW_OK) {
        sw_file_drop(file);
        return status;
    }
    if (!taken) {
        *bytes = 0;
        cli_note("--metrics %s is a new file: it has the rows from here on", path);
    }
    *out = file;
    return SW_OK;
}

sw_status train_metrics_go_on(train *t, uint64_t bytes)
{
    if (t->opts.metrics == NULL)
        return SW_OK;
    const bool there = sw_file_taken(t->opts.metrics);
    SW_TRY(train_rows_go_on(&t->metrics, t->opts.metrics, heads, &bytes));
    sw_tfevents_init(&t->events);
    t->metrics_bytes = bytes;
    if (!there)
        t->now.rows_lost = 0;
    else if (t->now.rows_lost > 0)
        cli_note("--metrics %s: rows are missing from step %" PRIu64
                 " on: they could not be written; rows go on after step %" PRIu64,
                 t->opts.metrics, t->now.rows_lost, t->now.step);
    const sw_status status = bytes == 0 ? write_head(t) : SW_OK;
    if (status == SW_OK)
        return SW_OK;
    sw_file_drop(t->metrics);
    t->metrics = NULL;
    return status;
}

void train_metrics_position(const train *t, bool *there, uint64_t *bytes)
{
    *there = t->metrics != NULL;
    *bytes = t->metrics_bytes;
}

/* A row is one write() and a sync one fsync() of the same descriptor, which neither call
 * changes: they need no lock. The name is in the folder from the first sync on; where a folder
 * cannot be synced, the checkpoint's own says so. */
sw_status train_metrics_sync(train *t)
{
    if (t->metrics == NULL)
        return SW_OK;
    SW_TRY(sw_file_sync(t->metrics));
    if (!t->metrics_named && !sw_file_waits(t->metrics))
        t->metrics_named = sw_folder_sync(t->opts.metrics) == SW_OK;
    return SW_OK;
}

/* ---- rows -------------------------------------------------------------------------------- */

static const char *const kinds[] = {"train", "validation", "epoch"};

static double accuracy_of(const train_row *row)
{
    return (double)row->score.right / (double)row->score.rows;
}

/* Numbers are as long as it takes to read them back; what a line does not have is empty. */
static size_t write_csv(const train *t, const train_row *row, char *text)
{
    char accuracy[40] = "", rate[40] = "", ms[40] = "", loss[40];
    snprintf(loss, sizeof loss, "%.9g", row->score.loss);
    if (train_has_classes(t) && row->score.rows > 0)
        snprintf(accuracy, sizeof accuracy, "%.9g", accuracy_of(row));
    if (row->kind == TRAIN_LINE_STEP)
        snprintf(rate, sizeof rate, "%.9g", row->rate);
    if (row->ns > 0)
        snprintf(ms, sizeof ms, "%.6f", (double)row->ns * 1e-6);
    return (size_t)snprintf(text, LINE_BYTES, "%s,%" PRIu64 ",%" PRIu64 ",%s,%s,%s,%s\n",
                            kinds[row->kind], row->step, row->epoch + 1,
                            isnan(row->score.loss) ? "nan" : loss, accuracy, rate, ms);
}

static size_t write_json(const train *t, const train_row *row, char *text)
{
    sw_json json;
    sw_json_fixed(&json, text, LINE_BYTES, NULL, NULL);
    sw_json_begin(&json, '{');
    sw_json_put_string(&json, "kind", kinds[row->kind]);
    sw_json_put_u64(&json, "step", row->step);
    sw_json_put_u64(&json, "epoch", row->epoch + 1);
    sw_json_put_f64(&json, "loss", row->score.loss);
    if (train_has_classes(t))
        sw_json_put_known_f64(&json, "accuracy", row->score.rows > 0, accuracy_of(row));
    if (row->kind == TRAIN_LINE_STEP)
        sw_json_put_f64(&json, "rate", row->rate);
    sw_json_put_known_f64(&json, "ms", row->ns > 0, (double)row->ns * 1e-6);
    sw_json_end(&json);
    sw_json_line(&json);
    return json.used;
}

void train_metrics_row(train *t, const train_row *row)
{
    char text[LINE_BYTES];
    if (t->metrics == NULL || t->metrics_lost)
        return;
    if (train_events_is(t->opts.metrics)) {
        train_events_row(t, row);
        put(t, row->step, t->events.bytes, t->events.n);
        return;
    }
    put(t, row->step, text,
        cli_ends_with(t->opts.metrics, ".csv") ? write_csv(t, row, text)
                                               : write_json(t, row, text));
}

/* The failure of a lost one was reported. */
void train_metrics_close(train *t)
{
    if (t->metrics_lost)
        sw_file_drop(t->metrics);
    const sw_status status = t->metrics_lost ? SW_OK : sw_file_close(t->metrics);
    t->metrics = NULL;
    if (status != SW_OK && t->trouble == CLI_DONE)
        t->trouble = cli_library_error(status, false);
}

/* ---- train checkpoint -------------------------------------------------------------------- */

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
    return train_metrics_sync(t);
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

static void identify(const train *t, job_identity *to)
{
    const job_opts *o = &t->opts.job;
    const unsigned takes = tool_schedule_takes(o->schedule);
    job_identify(to, o, t->options, t->n_options);
    job_identity_add(to, "--data", "%s", o->data);
    job_identity_add(to, "--normalise", "%s", t->job.normal.text);
    job_identity_add(to, "--batch", "%" PRId64, t->job.batch);
    if ((takes & TOOL_LR_CUTS) != 0)
        job_identity_add(to, "--lr-every", "%" PRIu64, t->lr_every);
    if ((takes & TOOL_LR_TOTAL) != 0)
        job_identity_add(to, "steps in all (--epochs, --steps)", "%" PRIu64, t->total_steps);
}

static int go_on_checkpoint(train *t, const sw_checkpoint_found *found)
{
    static job_identity identity; /* large */
    identify(t, &identity);
    const int status = job_state_get(t->job.checkpoint, &what, &identity, found->path, &t->now);
    if (status != CLI_GO)
        return status;
    if (t->now.step > t->total_steps)
        return cli_error(CLI_USAGE,
                         "--resume %s: it is after step %" PRIu64 ", and this run has %" PRIu64
                         " steps in all: give more --epochs or --steps",
                         found->path, t->now.step, t->total_steps);
    const sw_status loaded = sw_checkpoint_load(t->job.checkpoint);
    if (loaded == SW_INVALID)
        return cli_error(CLI_USAGE, "--resume %s", sw_last_error());
    if (loaded != SW_OK)
        return cli_library_error(loaded, true);
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

/* The profile of the run before is not replaced. */
static int keep_profile(const train *t)
{
    char kept[FILE_PATH_BYTES];
    if (t->opts.profile == NULL)
        return CLI_GO;
    const sw_status status =
        train_keep_profile(t->opts.profile, t->now.step, kept, sizeof kept);
    if (status != SW_OK)
        return cli_library_error(status, false);
    if (kept[0] != '\0')
        cli_note("the profile of the steps before is in %s", kept);
    return CLI_GO;
}

int train_resume(train *t)
{
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    sw_status status = SW_OK;
    if (!t->job.saves)
        return CLI_GO;
    sw_loader *const loaders[] = {t->train_loader, t->test_loader};
    for (int i = 0; i < 2 && status == SW_OK; i++)
        status = sw_checkpoint_loader(t->job.checkpoint, loaders[i]);
    if (status == SW_OK && t->opts.job.checkpoint != NULL)
        status = sw_checkpoint_ready(t->job.checkpoint);
    if (status != SW_OK)
        return cli_library_error(status, true);
    int code = job_resume_find(t->job.checkpoint, t->opts.resume, t->opts.job.checkpoint,
                               t->opts.quiet, &found);
    if (code == CLI_GO && found.found)
        code = go_on_checkpoint(t, &found);
    if (code == CLI_GO && found.found)
        code = keep_profile(t);
    t->saving.due = job_due_after(&t->opts.every, t->now.step);
    return code;
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
    train_metrics_position(t, &s->taken.has_metrics, &s->taken.metrics_bytes);
    identify(t, &identity);
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

static bool is_due(train *t)
{
    train_saving *s = &t->saving;
    s->say |= cli_save_asked();
    return s->say || job_is_due(&s->due, t->now.step);
}

sw_status train_checkpoint_step(train *t)
{
    train_saving *s = &t->saving;
    if (t->opts.job.checkpoint == NULL)
        return SW_OK;
    SW_TRY(look(t));
    if (s->running || s->waits || !is_due(t))
        return SW_OK; /* what is due while one is written comes after it */
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
