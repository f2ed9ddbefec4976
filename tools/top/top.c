/* stepwell top: the options, and going round until the run, or who watches it, ends. */
#include "tools/top/top.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "tools/top/screen.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define NEAR_BYTES ((uint64_t)4 << 20) /* of the end: every step is read */
#define SAMPLES 1024                   /* steps that are read of what lies before it */
#define WAIT_NS ((uint64_t)2000000000) /* without a record the run waits, at least */

typedef struct {
    const char *operand;
    double interval;
    bool once, wait, json;
    bool file; /* a number too is the name of one */
} settings;

/* ---- the file ---------------------------------------------------------------------------- */

static void close_file(top *t)
{
    if (t->report == NULL)
        return;
    t->state.allocations += t->report->allocations;
    t->state.warm |= t->report->warm_runs > 0;
    report_free(t->report);
    profile_lines_close(&t->lines);
    t->report = NULL;
    t->joined = false;
    t->n_head = 0;
}

/* When the file was written last, on the clock of cli_clock_ns. */
static uint64_t written_at(const struct stat *file)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const int64_t age = (int64_t)(now.tv_sec - file->st_mtim.tv_sec) * 1000000000 +
                        (now.tv_nsec - file->st_mtim.tv_nsec);
    const uint64_t clock = cli_clock_ns();
    return age <= 0 ? clock : (uint64_t)age < clock ? clock - (uint64_t)age : 0;
}

/* In the place of the one that is open, which stays when it cannot be done. */
static sw_status open_file(top *t)
{
    struct stat file = {.st_size = 0};
    const char *path = t->source.path;
    const bool there = stat(path, &file) == 0;
    report *fresh;
    profile_lines lines;
    if (there && !S_ISREG(file.st_mode))
        SW_FAIL(SW_FORMAT, "%s: not a regular file; a profile that is watched must be one",
                path);
    SW_TRY(report_begin(&fresh, &lines, path));
    if (!top_source_fits(path)) {
        report_free(fresh);
        profile_lines_close(&lines);
        SW_FAIL(SW_FORMAT, "%s: not a stepwell profile", path);
    }
    close_file(t);
    t->report = fresh;
    t->lines = lines;
    t->size = 0;
    t->fresh = there ? written_at(&file) : cli_clock_ns();
    return SW_OK;
}

/* Another run may have emptied the file and begun anew, under the name and in the place of the
 * one before. */
static sw_status is_same(top *t, bool *same)
{
    char head[sizeof t->head];
    size_t n;
    *same = true;
    if (t->n_head == 0)
        return SW_OK;
    SW_TRY(profile_lines_head(&t->lines, head, t->n_head, &n));
    *same = n == t->n_head && memcmp(head, t->head, n) == 0;
    return SW_OK;
}

static sw_status keep_head(top *t)
{
    if (t->n_head > 0 || t->lines.line == 0)
        return SW_OK;
    return profile_lines_head(&t->lines, t->head, sizeof t->head, &t->n_head);
}

/* Reads the bytes after those read so far; *same is false when the file is another one now. */
static sw_status read_more(top *t, bool *same)
{
    uint64_t size;
    const report_watch watch = top_watch(t);
    SW_TRY(sw_file_size(t->lines.file, &size));
    *same = size >= t->lines.next;
    if (*same)
        SW_TRY(is_same(t, same));
    if (!*same || (size == t->size && t->n_head > 0))
        return SW_OK;
    if (t->size > 0)
        t->fresh = cli_clock_ns();
    t->size = size;
    const uint64_t behind = size - t->lines.next;
    t->next = t->lines.next;
    t->recent = behind > NEAR_BYTES ? size - NEAR_BYTES : 0;
    t->stride = behind / SAMPLES;
    SW_TRY(report_more(t->report, &t->lines, &watch));
    if (t->lines.line > 0 && !t->joined)
        top_join(t);
    return keep_head(t);
}

/* Begin the file again, as if it had not been seen. */
static sw_status start_over(top *t)
{
    bool same;
    SW_TRY(open_file(t));
    memset(&t->state, 0, sizeof t->state);
    return read_more(t, &same);
}

/* The name may have gone to another file: what is left of this one was read, go on there. */
static bool was_renamed(top *t)
{
    if (sw_file_is(t->lines.file, t->source.path))
        return false;
    if (t->source.pid > 0) {
        top_source now;
        if (!top_source_lives(&t->source) ||
            top_source_process(&now, t->source.pid) != TOP_FOUND)
            return false;
        t->source = now;
        return !sw_file_is(t->lines.file, now.path);
    }
    return sw_file_there(t->source.path) && top_source_fits(t->source.path);
}

static sw_status follow(top *t)
{
    bool same = true;
    if (t->report == NULL)
        SW_TRY(open_file(t));
    const bool renamed = was_renamed(t);
    const sw_status status = read_more(t, &same);
    /* A file that is written anew may look damaged where it was read before. */
    if ((status == SW_FORMAT && t->lines.line > 1) || (status == SW_OK && !same))
        return start_over(t);
    if (status != SW_OK || !renamed)
        return status;
    const sw_status opened = open_file(t);
    if (opened == SW_IO) /* gone already: the next look finds where to */
        return SW_OK;
    return opened == SW_OK ? read_more(t, &same) : opened;
}

/* ---- how the run is ---------------------------------------------------------------------- */

/* Runs that record one step of many are waited for longer. */
static uint64_t patience(const top *t)
{
    const top_state *s = &t->state;
    if (s->n_window < 2)
        return WAIT_NS;
    const top_point *last = &s->window[(s->n_window - 1) % TOP_WINDOW];
    const top_point *before = &s->window[(s->n_window - 2) % TOP_WINDOW];
    const uint64_t gap = s->timed ? last->at_ns - before->at_ns : last->ns;
    return gap > WAIT_NS / 4 ? 4 * gap : WAIT_NS;
}

static bool is_dead(const top *t, uint64_t idle, bool once)
{
    if (t->source.pid > 0)
        return !top_source_lives(&t->source);
    return (once || idle >= WAIT_NS / 2) && top_source_written(&t->source) == 0;
}

static top_condition judge(const top *t, bool once)
{
    if (t->report == NULL)
        return TOP_EMPTY;
    if (t->report->ended)
        return TOP_ENDED;
    const uint64_t idle = cli_clock_ns() - t->fresh;
    if (is_dead(t, idle, once))
        return TOP_DIED;
    if (!t->state.any)
        return TOP_EMPTY;
    return idle >= patience(t) ? TOP_WAITS : TOP_RUNS;
}

/* Died is only who has written all that he could: look once more. */
static sw_status look(top *t, const settings *s)
{
    if (t->report == NULL && s->wait && t->source.pid == 0 && !sw_file_there(t->source.path))
        return SW_OK;
    const sw_status status = follow(t);
    const bool moved = status == SW_IO && t->report == NULL && t->source.pid > 0 &&
                       top_source_process(&t->source, t->source.pid) == TOP_FOUND;
    if (moved) /* since it was found */
        return SW_OK;
    SW_TRY(status);
    t->condition = judge(t, s->once);
    if (t->condition == TOP_DIED) {
        SW_TRY(follow(t));
        t->condition = judge(t, s->once);
    }
    return SW_OK;
}

/* ---- going round ------------------------------------------------------------------------- */

static sw_status show(top *t, const settings *s, bool drawn)
{
    if (s->json)
        return top_print_json(t);
    if (drawn || s->once)
        top_draw(t, drawn);
    else
        top_print_line(t);
    return SW_OK;
}

static bool is_over(const top *t, const settings *s)
{
    const bool over = t->condition == TOP_ENDED || t->condition == TOP_DIED;
    return s->once || (over && (!s->wait || t->source.pid > 0));
}

/* CLI_DONE or CLI_INTERRUPTED in *code. */
static sw_status go_round(top *t, const settings *s, bool drawn, int *code)
{
    const uint64_t interval = (uint64_t)(s->interval * 1e9);
    *code = CLI_DONE;
    for (uint64_t next = cli_clock_ns();;) {
        SW_TRY(look(t, s));
        SW_TRY(show(t, s, drawn));
        if (is_over(t, s) || ferror(stdout))
            return SW_OK;
        const uint64_t now = cli_clock_ns();
        next = next + interval > now ? next + interval : now + interval;
        const screen_event event = screen_wait(next);
        if (event == SCREEN_TIME)
            continue;
        *code = event == SCREEN_STOPPED ? CLI_INTERRUPTED : CLI_DONE;
        return SW_OK;
    }
}

/* The last picture stays when the other screen goes. */
static int watch(top *t, const settings *s)
{
    int code;
    const bool drawn = !s->once && !s->json && screen_open();
    sw_status status = go_round(t, s, drawn, &code);
    if (drawn) {
        screen_close();
        if (status == SW_OK)
            top_draw(t, false);
    }
    close_file(t);
    return status == SW_OK ? cli_finish(code) : cli_library_error(status, true);
}

/* ---- what is watched --------------------------------------------------------------------- */

static int refuse(const settings *s, top_found found)
{
    const char *pid = s->operand;
    if (found == TOP_NO_PROC)
        return cli_error(CLI_DAMAGED,
                         "the system shows no processes here (/proc); give the "
                         "profile's FILE instead of %s",
                         pid);
    if (found == TOP_NO_SUCH)
        return cli_error(CLI_DAMAGED, "there is no process %s; a file of that name is ./%s",
                         pid, pid);
    if (found == TOP_FORBIDDEN)
        return cli_error(
            CLI_DAMAGED,
            "process %s belongs to another user; give the profile's FILE, or run as that user",
            pid);
    return cli_error(CLI_DAMAGED,
                     "process %s writes no profile; start it with stepwell train "
                     "--profile FILE (with --wait, one that comes later is "
                     "waited for)",
                     pid);
}

/* A process opens its profile when its plans are made: it gets a moment, or with --wait all the
 * time it takes. */
static int find_process(top *t, const settings *s, long pid)
{
    const uint64_t begin = cli_clock_ns();
    for (;;) {
        const top_found found = top_source_process(&t->source, pid);
        if (found == TOP_FOUND)
            return CLI_GO;
        const bool patient = s->wait || cli_clock_ns() - begin < WAIT_NS / 2;
        if (found != TOP_NO_PROFILE || !patient)
            return refuse(s, found);
        if (screen_wait(cli_clock_ns() + 20000000) == SCREEN_STOPPED)
            return CLI_INTERRUPTED;
    }
}

static int find(top *t, const settings *s)
{
    if (!s->file && s->operand[strspn(s->operand, "0123456789")] == '\0' &&
        strlen(s->operand) < 10)
        return find_process(t, s, strtol(s->operand, NULL, 10));
    if (strlen(s->operand) >= TOP_PATH)
        return cli_error(CLI_DAMAGED, "%.40s...: the name is too long", s->operand);
    snprintf(t->source.path, TOP_PATH, "%s", s->operand);
    snprintf(t->source.shown, TOP_PATH, "%s", s->operand);
    return CLI_GO;
}

static int run(const settings *s)
{
    top *t;
    sw_status status = sw_heap_alloc(&t, SW_HEAP_PROFILE, sizeof(top));
    if (status != SW_OK)
        return cli_library_error(status, false);
    status = cli_times_init(&t->times, TOP_WINDOW);
    int code = status == SW_OK ? CLI_GO : cli_library_error(status, false);
    screen_catch();
    if (code == CLI_GO)
        code = find(t, s);
    if (code == CLI_GO)
        code = watch(t, s);
    if (status == SW_OK)
        cli_times_free(&t->times);
    sw_heap_free(t, SW_HEAP_PROFILE, sizeof *t);
    return code;
}

int top_file(const char *file, bool json)
{
    const settings s = {.operand = file, .interval = 1.0, .json = json, .file = true};
    return run(&s);
}

int tool_top(int argc, char **argv)
{
    settings s = {0};
    const cli_option options[] = {
        {"--interval", "SECONDS", CLI_REAL, &s.interval, "1", "between two looks", 0, 0, NULL},
        {"--once", NULL, CLI_FLAG, &s.once, NULL, "one picture, and end", 0, 0, NULL},
        {"--wait", NULL, CLI_FLAG, &s.wait, NULL,
         "wait for a profile that is not there yet, and for the next run in FILE when one has "
         "ended",
         0, 0, NULL},
        {"--json", NULL, CLI_FLAG, &s.json, NULL, "one JSON object a line for each look", 0, 0,
         NULL},
    };
    const cli_command command = {
        .name = "top",
        .usage = "PID|FILE [options]",
        .about = "Watch a running training through the profile that it writes.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .operand = &s.operand,
        .max_operands = 1,
        .notes =
            "PID is a process that was started with --profile, FILE its profile. On a "
            "terminal the picture is drawn in place, until the run ends, or q or Ctrl-C "
            "is pressed; elsewhere each look is a line. A profile that is renamed and begun "
            "again is followed, and a new run in the same file "
            "too.\nRates and times are those of the last ten seconds. Sparklines "
            "go over the whole run; a point is the mean loss, the slowest step and the "
            "highest peak of the program that is shown: the highest so far, in training or "
            "evaluation. Of a long file that was there before, steps that "
            "allocated nothing are sampled.\n"
            "Keys of --json, null where it is not known: file, process, model, device, "
            "data, batch; condition (empty, running, waiting, ended, died), status, "
            "idle_ns; step, planned_steps, loss; of the last ten seconds "
            "steps_per_second, median_step_ns, max_step_ns, window_steps, window_ns; "
            "program (the highest so far), predicted and measured, for each phase its "
            "peak_bytes and end_bytes, "
            "predicted_peak_bytes, measured_peak_bytes, model_bytes, arena_bytes, "
            "data_bytes, total_bytes, budget_bytes, process_bytes, host_bytes, measured_by, "
            "allocations_after_warmup.\n"
            "Exit status: 0 the run has ended, or q, 2 wrong usage, 3 no such process or "
            "profile, 130 interrupted."};
    const int status = cli_parse(&command, argc, argv);
    if (status != CLI_GO)
        return status;
    if (s.operand == NULL)
        return cli_error(CLI_USAGE, "PID or FILE must be given: a process or a profile; usage: "
                                    "stepwell top PID|FILE [options]");
    if (s.interval < 0.02 || s.interval > 86400.0)
        return cli_error(CLI_USAGE, "--interval must be 0.02 to 86400 seconds (a day)");
    return run(&s);
}
