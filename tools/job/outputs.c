/* See outputs.h. */
#include "tools/job/outputs.h"
#include "alloc/base/assert.h"
#include "profiler/inspect/tfevents.h"
#include "profiler/record/json.h"
#include "tools/job/saves.h"
#include "tools/report/file_same.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The other one by its option, its name or both. */
static int refuse(const job_output *f, const char *option, const char *name)
{
    return cli_error(CLI_USAGE, "%s %s, the same file as %s%s%s", f->option, f->path, option,
                     *option != '\0' && *name != '\0' ? " " : "", name);
}

/* Against a file that `option` writes or reads beside the one it names, or one of the data. */
static int check_name(const job_output *files, size_t n, const char *option, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (files[i].how != JOB_READ && file_same(files[i].path, name))
            return refuse(&files[i], option, name);
    return CLI_GO;
}

static int check_data(const job_output *files, size_t n, const job_opts *opts)
{
    char name[FILE_PATH_BYTES];
    int status = CLI_GO;
    for (int i = 0; status == CLI_GO && job_file_name(opts, i, name, sizeof name); i++)
        status = check_name(files, n, "", name);
    return status;
}

/* All generations that there are, or may be soon. */
static int check_generations(const job_output *files, size_t n, const char *option,
                             const char *path, int64_t keep)
{
    char name[FILE_PATH_BYTES];
    int64_t last = JOB_GENERATIONS > keep ? JOB_GENERATIONS : keep;
    int status = CLI_GO;
    for (int64_t i = 0;
         status == CLI_GO && i < last && sw_generation_name(name, sizeof name, path, (int)i);
         i++) {
        status = check_name(files, n, option, name);
        if (sw_file_taken(name) && i + JOB_GENERATIONS >= last)
            last = i + 1 + JOB_GENERATIONS;
    }
    return status;
}

int job_outputs_check(const job_output *files, size_t n, const job_opts *opts,
                      const char *checkpoint, const char *resume, int64_t keep)
{
    const job_output saved = {"--checkpoint", checkpoint, JOB_BESIDE, false, false};
    char lock[FILE_PATH_BYTES];
    int status = CLI_GO;
    for (size_t i = 0; i < n; i++) {
        const job_output *f = &files[i];
        if (f->no_stream && f->path != NULL && strcmp(f->path, "-") == 0)
            return cli_error(CLI_USAGE, "%s must be a file: standard output has the result",
                             f->option);
        for (size_t k = i + 1; k < n && f->how != JOB_READ; k++)
            if (!(files[k].how == JOB_READ && files[k].params && f->params) &&
                file_same(f->path, files[k].path))
                return refuse(f, files[k].option, "");
    }
    if (opts != NULL)
        status = check_data(files, n, opts);
    if (status == CLI_GO && resume != NULL && *resume != '\0')
        status = check_generations(files, n, "--resume", resume, 0);
    if (checkpoint == NULL || status != CLI_GO)
        return status;
    status = check_generations(files, n, saved.option, checkpoint, keep);
    if (status == CLI_GO && opts != NULL)
        status = check_data(&saved, 1, opts);
    if (status == CLI_GO &&
        snprintf(lock, sizeof lock, "%s.lock", checkpoint) < (int)sizeof lock)
        status = check_name(files, n, saved.option, lock);
    return status;
}

/* A file that alloc/base/file.c does not open must not be a pipe: to open one would wait where
 * no signal ends it. */
static int check_writable(const job_output *f)
{
    char folder[FILE_PATH_BYTES];
    struct stat st;
    if (f->path == NULL || strlen(f->path) >= sizeof folder || f->how == JOB_READ ||
        f->how == JOB_LATER)
        return CLI_GO;
    memcpy(folder, f->path, strlen(f->path) + 1);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    const bool there = stat(f->path, &st) == 0;
    const bool in_place =
        there && !(f->how == JOB_BESIDE && S_ISREG(st.st_mode)); /* devices always */
    const char *asked = in_place ? f->path : slash != NULL ? folder : ".";
    if (there && f->how == JOB_NO_PIPE && S_ISFIFO(st.st_mode))
        return cli_error(CLI_FAILED, "%s %s: must not be a pipe: a regular file is needed",
                         f->option, f->path);
    if (there && S_ISDIR(st.st_mode))
        errno = EISDIR;
    else if (access(asked, W_OK) == 0)
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: %s", f->option, f->path, strerror(errno));
}

/* A checkpoint is a regular file: a pipe or a device keeps nothing that a run could go on
 * from. */
int job_outputs_writable(const job_output *files, size_t n, const char *checkpoint)
{
    const job_output saved = {"--checkpoint", checkpoint, JOB_BESIDE, false, false};
    struct stat st;
    int status = CLI_GO;
    if (checkpoint != NULL && stat(checkpoint, &st) == 0 && !S_ISREG(st.st_mode) &&
        !S_ISDIR(st.st_mode))
        return cli_error(CLI_FAILED, "--checkpoint %s: must be a regular file", checkpoint);
    for (size_t i = 0; i < n && status == CLI_GO; i++)
        status = check_writable(&files[i]);
    return status == CLI_GO ? check_writable(&saved) : status;
}

/* ---- a profile that was there ------------------------------------------------------------ */

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
sw_status job_keep_profile(const char *path, uint64_t step, char *kept, size_t bytes)
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

int job_profile_close(sw_profile *profile, int status)
{
    if (profile == NULL)
        return status;
    if (status == CLI_INTERRUPTED)
        sw_profile_end_status(profile, SW_STOPPED, NULL);
    else if (status != CLI_DONE)
        sw_profile_end_status(profile, SW_IO, cli_last_line());
    const sw_status closed = sw_profile_destroy(profile);
    return closed != SW_OK && status == CLI_DONE ? cli_library_error(closed, false) : status;
}

/* ---- metrics ----------------------------------------------------------------------------- */

bool job_metrics_events(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    return strncmp(name, SW_TFEVENTS_NAME, sizeof SW_TFEVENTS_NAME - 1) == 0;
}

int job_metrics_check(const char *path, bool events)
{
    if (path == NULL || cli_ends_with(path, ".csv") || cli_ends_with(path, ".jsonl") ||
        (events && job_metrics_events(path)))
        return CLI_GO;
    return events ? cli_error(CLI_USAGE,
                              "--metrics must be a file that ends in .csv or .jsonl, or for "
                              "TensorBoard DIR/" SW_TFEVENTS_NAME ".NAME (got '%s')",
                              path)
                  : cli_error(CLI_USAGE, "--metrics must be FILE.csv or FILE.jsonl (got '%s')",
                              path);
}

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

/* From record to record: their lengths have checks. */
static sw_status events_end(sw_file *file, uint64_t bytes, uint64_t *end)
{
    sw_tfevents e;
    uint64_t at = 0;
    sw_tfevents_init(&e);
    while (at < bytes) {
        unsigned char front[SW_TFEVENTS_FRONT];
        size_t got;
        SW_TRY(sw_file_seek(file, at));
        SW_TRY(sw_file_read(file, front, sizeof front, &got));
        const uint64_t n = got == sizeof front ? sw_tfevents_length(&e, front) : 0;
        if (n == 0 || n > bytes - at)
            break;
        at += n;
    }
    *end = at;
    return SW_OK;
}

/* Does a file of lines begin as one of these metrics, as far as it goes? */
static sw_status begins_as(sw_file *file, const char *head, size_t n, bool *out)
{
    char front[64];
    size_t got;
    SW_TRY(sw_file_seek(file, 0));
    SW_TRY(sw_file_read(file, front, n < sizeof front ? n : sizeof front, &got));
    *out = memcmp(front, head, got) == 0;
    return SW_OK;
}

/* Where the last whole row in the first `bytes` ends; *ours: its rows are of such a file. */
static sw_status look_at_rows(const char *path, const void *head, size_t n, uint64_t bytes,
                              uint64_t *end, bool *ours)
{
    const bool events = job_metrics_events(path), csv = cli_ends_with(path, ".csv");
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    sw_status status = events ? events_end(file, bytes, end) : lines_end(file, bytes, end);
    *ours = *end > 0 || bytes == 0;
    if (status == SW_OK && !events)
        status = begins_as(file, csv ? head : "{", csv ? n : 1, ours);
    sw_file_drop(file);
    return status;
}

static sw_status go_on(job_metrics *m, const void *head, size_t n)
{
    uint64_t there, end = 0;
    bool ours = true;
    SW_TRY(sw_file_size(m->file, &there));
    const uint64_t whole = there < m->bytes ? there : m->bytes;
    if (m->bytes > 0)
        SW_TRY(look_at_rows(m->path, head, n, whole, &end, &ours));
    if (whole == m->bytes ? end != m->bytes : !ours)
        SW_FAIL(SW_FORMAT,
                "--metrics %s: no row ends at byte %" PRIu64 ", where the checkpoint goes on: "
                "it is another file; " WAY_OUT,
                m->path, m->bytes);
    SW_TRY(sw_file_cut(m->file, end));
    if (there < m->bytes)
        cli_note("--metrics %s: rows are missing: it has %" PRIu64
                 " bytes, and the checkpoint goes on at %" PRIu64
                 "; rows go on after its last whole one, at %" PRIu64,
                 m->path, there, m->bytes, end);
    m->bytes = end;
    return SW_OK;
}

sw_status job_metrics_open(job_metrics *m, const char *path, const void *head,
                           size_t head_bytes, bool goes_on)
{
    struct stat st;
    bool taken = false;
    sw_status status = SW_OK;
    if (path == NULL)
        return SW_OK;
    m->path = path;
    if (goes_on)
        SW_TRY(sw_file_look(path, &taken)); /* or rows that are there would be gone */
    else
        m->bytes = 0;
    if (taken && (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode)))
        SW_FAIL(SW_FORMAT,
                "--metrics %s: is no regular file, and cannot go on at byte %" PRIu64
                "; " WAY_OUT,
                path, m->bytes);
    SW_TRY(sw_file_take(&m->file, path, !taken)); /* as the only writer */
    if (taken)
        status = go_on(m, head, head_bytes);
    else if (goes_on) {
        m->bytes = 0;
        cli_note("--metrics %s is a new file: it has the rows from here on", path);
    }
    if (status == SW_OK && m->bytes == 0 && !cli_ends_with(path, ".jsonl"))
        status = job_metrics_put(m, head, head_bytes);
    if (status == SW_OK)
        return SW_OK;
    sw_file_drop(m->file);
    m->file = NULL;
    return status;
}

sw_status job_metrics_put(job_metrics *m, const void *row, size_t n)
{
    SW_TRY(sw_file_write(m->file, row, n));
    m->bytes += n;
    return SW_OK;
}

/* Numbers are as long as it takes to read them back; what a row does not have is empty. */
static size_t csv_row(const job_cell *cells, int n, char *to, size_t room)
{
    size_t used = 0;
    for (const job_cell *c = cells; c < cells + n; c++) {
        char text[400] = "";
        if (c->kind == JOB_GROUP)
            continue;
        if (c->known && c->kind == JOB_TEXT)
            snprintf(text, sizeof text, "%s", c->text);
        else if (c->known && c->kind == JOB_COUNT)
            snprintf(text, sizeof text, "%" PRIu64, c->count);
        else if (c->known && isnan(c->real))
            snprintf(text, sizeof text, "nan");
        else if (c->known)
            snprintf(text, sizeof text, c->kind == JOB_MS ? "%.6f" : "%.9g", c->real);
        used += (size_t)snprintf(to + used, room - used, "%s%s", used > 0 ? "," : "", text);
        SW_ASSERT(used + 1 < room);
    }
    to[used] = '\n';
    return used + 1;
}

sw_status job_metrics_row(job_metrics *m, const job_cell *cells, int n)
{
    char text[8192];
    bool group = false;
    sw_json json;
    if (m->file == NULL)
        return SW_OK;
    if (cli_ends_with(m->path, ".csv"))
        return job_metrics_put(m, text, csv_row(cells, n, text, sizeof text));
    sw_json_fixed(&json, text, sizeof text, NULL, NULL);
    sw_json_begin(&json, '{');
    for (const job_cell *c = cells; c < cells + n; c++) {
        if (c->key == NULL)
            continue;
        if (c->kind == JOB_GROUP) {
            sw_json_open(&json, c->key, '{');
            group = true;
        } else if (c->kind == JOB_TEXT)
            sw_json_put_string(&json, c->key, c->text);
        else if (c->kind == JOB_COUNT)
            sw_json_put_known(&json, c->key, c->known, c->count);
        else
            sw_json_put_known_f64(&json, c->key, c->known, c->real);
    }
    if (group)
        sw_json_end(&json);
    sw_json_end(&json);
    sw_json_line(&json);
    SW_TRY(json.status);
    return job_metrics_put(m, text, json.used);
}

/* A row is one write() and a sync one fsync() of the same descriptor, which neither call
 * changes: they need no lock. The name is in the folder from the first sync on; where a folder
 * cannot be synced, the checkpoint's own says so. */
sw_status job_metrics_sync(job_metrics *m)
{
    if (m->file == NULL)
        return SW_OK;
    SW_TRY(sw_file_sync(m->file));
    if (!m->named && !sw_file_waits(m->file))
        m->named = sw_folder_sync(m->path) == SW_OK;
    return SW_OK;
}

sw_status job_metrics_close(job_metrics *m)
{
    sw_file *file = m->file;
    m->file = NULL;
    return sw_file_close(file);
}
