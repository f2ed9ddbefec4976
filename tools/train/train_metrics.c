/* --metrics: a row for each step, each validation and each epoch: a line of CSV or JSON Lines,
 * or an event of TensorBoard's. Each is handed to the system at once, so that neither Ctrl-C
 * nor a killed process loses any. */
#include "profiler/record/json.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

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
