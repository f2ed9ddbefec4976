/* stepwell top: a running training, watched through the profile that it writes.
 *
 * Each look reads what was added to the file into the report of it, and prints: on a terminal
 * and with --once the report's table of phases, else a line or a JSON object. Beside the report
 * a window keeps the latest steps. Where the file is another one, or begins anew, all of that
 * begins from nothing. */
#include "alloc/base/sys.h"
#include "profiler/inspect/report/report.h"
#include "profiler/record/utf8.h"
#include "tools/cli/cli.h"
#include "tools/top/top.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TOP_PATH 4096

typedef struct {
    char path[TOP_PATH];  /* what is opened: FILE, or an open file of the process */
    char shown[TOP_PATH]; /* its name for people */
    long pid;             /* 0: a file was named */
    uint64_t began;       /* of the process, as the system counts it; numbers are used again */
} top_source;

typedef enum {
    TOP_FOUND,
    TOP_NO_PROC,   /* the system does not show its processes */
    TOP_NO_SUCH,   /* it is not there, or has ended */
    TOP_FORBIDDEN, /* it is not ours to look at */
    TOP_NO_PROFILE /* it writes none */
} top_found;

/* ---- top source -------------------------------------------------------------------------- */

/* Which file, and whether a process still writes it: what the system shows of its processes in
 * /proc. A process's open files are reached through its own names for them, so that its folders
 * need not be ours. */

/* Whether the file begins as profiles do, as far as it goes; false when it cannot be read. */
static bool top_source_fits(const char *path)
{
    static const char head[] = "{\"type\":\"header\",\"format\":\"stepwell-profile\"";
    char text[sizeof head - 1];
    sw_file *file;
    size_t n = 0;
    if (sw_file_open(&file, path, SW_FILE_READ) != SW_OK)
        return false;
    const bool read = sw_file_read(file, text, sizeof text, &n) == SW_OK;
    sw_file_drop(file);
    return read && memcmp(text, head, n) == 0;
}

/* When the process began, in the system's ticks; 0: it is not there, or only its name is until
 * its parent asks how it ended. */
static uint64_t began(long pid)
{
    char path[64], text[1024];
    sw_file *file;
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (sw_file_open(&file, path, SW_FILE_READ) != SW_OK)
        return 0;
    const sw_status status = sw_file_read(file, text, sizeof text - 1, &n);
    sw_file_drop(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* its name may have anything in it */
    if (status != SW_OK || at == NULL || at[1] == '\0' || strchr("ZXx", at[2]) != NULL)
        return 0;
    for (int field = 3; field < 22 && at != NULL; field++) /* the state is the third */
        at = strchr(at + (field == 3 ? 2 : 1), ' ');
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/* Whether the process is still the one it was. */
static bool top_source_lives(const top_source *s)
{
    return began(s->pid) == s->began && s->began != 0;
}

/* A regular file that is open for writing there: the system shows it by the link's mode. */
static bool is_written(const char *link, struct stat *file)
{
    struct stat mode;
    return lstat(link, &mode) == 0 && (mode.st_mode & S_IWUSR) != 0 && stat(link, file) == 0 &&
           S_ISREG(file->st_mode);
}

static bool take_file(void *context, const char *name)
{
    top_source *s = context;
    struct stat file;
    char link[TOP_PATH];
    snprintf(link, sizeof link, "/proc/%ld/fd/%.32s", s->pid, name);
    if (!is_written(link, &file) || file.st_size == 0 || !top_source_fits(link))
        return true;
    memcpy(s->path, link, sizeof link);
    const ssize_t n = readlink(link, s->shown, sizeof s->shown - 1);
    s->shown[n > 0 ? n : 0] = '\0';
    return false;
}

/* Look for the profile that process `pid` writes, among its open files. */
static top_found top_source_process(top_source *s, long pid)
{
    char folder[64];
    if (access("/proc/self/stat", R_OK) != 0)
        return TOP_NO_PROC;
    *s = (top_source){.pid = pid, .began = began(pid)};
    if (s->began == 0)
        return TOP_NO_SUCH;
    snprintf(folder, sizeof folder, "/proc/%ld/fd", pid);
    errno = 0;
    if (sw_folder_for_each(folder, take_file, s) != SW_OK)
        return began(pid) == 0 ? TOP_NO_SUCH : TOP_FORBIDDEN;
    return s->path[0] != '\0' ? TOP_FOUND : TOP_NO_PROFILE;
}

/* ---- who writes a file ------------------------------------------------------------------- */

typedef struct {
    struct stat file;
    char process[64];
    bool written, hidden;
} search;

static bool compare_file(void *context, const char *name)
{
    search *x = context;
    struct stat file;
    char link[128];
    snprintf(link, sizeof link, "%s/%.32s", x->process, name);
    x->written = is_written(link, &file) && file.st_dev == x->file.st_dev &&
                 file.st_ino == x->file.st_ino;
    return !x->written;
}

/* Processes of others than the file's owner are not asked: they seldom may write it. */
static bool compare_process(void *context, const char *name)
{
    search *x = context;
    struct stat process;
    if (!isdigit((unsigned char)*name))
        return true;
    snprintf(x->process, sizeof x->process, "/proc/%.32s", name);
    if (stat(x->process, &process) != 0)
        return true;
    snprintf(x->process, sizeof x->process, "/proc/%.32s/fd", name);
    if (sw_folder_for_each(x->process, compare_file, x) != SW_OK &&
        process.st_uid == x->file.st_uid && access(x->process, F_OK) == 0)
        x->hidden = true;
    return !x->written;
}

/* Whether a process has the file open for writing: 1, 0, or -1: it cannot be seen. */
static int top_source_written(const top_source *s)
{
    search x = {0};
    if (stat(s->path, &x.file) != 0 ||
        sw_folder_for_each("/proc", compare_process, &x) != SW_OK)
        return -1;
    if (x.written)
        return 1;
    const bool ours = geteuid() == 0 || x.file.st_uid == geteuid();
    return ours && !x.hidden ? 0 : -1;
}

/* ---- top --------------------------------------------------------------------------------- */

#define WINDOW 4096
#define WINDOW_NS 10000000000u
#define WAIT_NS ((uint64_t)2000000000) /* without a record the run waits, at least */
#define HEAD 1024                      /* bytes that tell one profile from the next */

typedef enum {
    EMPTY, /* no step yet */
    RUNS,
    WAITS, /* no record for a while */
    ENDED, /* there is an end record */
    DIED   /* there is none, and no process writes it any more */
} condition;
static const char *const condition_name[] = {"empty", "running", "waiting", "ended", "died"};

/* One training step; its micro-batches count together. */
typedef struct {
    uint64_t step, at_ns, ns;
} point;

typedef struct {
    const char *operand;
    double interval;
    bool once, wait, json;
    bool file; /* a number too is the name of one */
    top_source source;
    report *report; /* of the file that is open; NULL: none */
    profile_lines lines;
    char head[HEAD];
    size_t n_head;
    uint64_t size, idle; /* of the file; nanoseconds since it was written */
    condition condition;

    bool any, timed; /* a training step; records say when their run began */
    report_row last;
    uint64_t host, process; /* the latest figures; process 0: none */
    point window[WINDOW];
    uint64_t n_window; /* all that ever were */
    cli_times times;   /* scratch for the median */
} top;

/* ---- records ----------------------------------------------------------------------------- */

static const point *latest(const top *t, uint64_t back)
{
    return &t->window[(t->n_window + WINDOW - 1 - back) % WINDOW];
}

static sw_status take_step(void *context, const profile_step *x, const report_row *row,
                           bool train)
{
    top *t = context;
    t->host = x->host > 0 ? x->host : t->host;
    if (x->process != UINT64_MAX && x->process > 0)
        t->process = x->process;
    if (!train)
        return SW_OK;
    point at = {.step = x->step, .at_ns = x->at_ns, .ns = x->ns};
    if (t->n_window > 0 && t->timed && at.at_ns < latest(t, 0)->at_ns)
        at.at_ns = latest(t, 0)->at_ns; /* written under a clock that went back */
    t->timed = at.at_ns != SW_TL_AFTER;
    t->any = true;
    t->last = *row;
    if (row->micro > 0 && t->n_window > 0 && latest(t, 0)->step == at.step)
        t->window[(t->n_window - 1) % WINDOW].ns += at.ns;
    else
        t->window[t->n_window++ % WINDOW] = at;
    return SW_OK;
}

/* The steps of the last ten seconds, at most WINDOW. */
typedef struct {
    uint64_t steps, ns;
    double rate; /* a second; 0: not known */
    cli_summary time;
} pace;

/* Without a clock in the records steps are taken to follow each other at once. */
static pace measure(top *t)
{
    const uint64_t have = t->n_window < WINDOW ? t->n_window : WINDOW;
    const point *newest = latest(t, 0), *oldest = newest;
    pace x = {0};
    uint64_t sum = 0;
    t->times.n = t->times.max = 0;
    t->times.min = UINT64_MAX;
    for (uint64_t i = 0; i < have; i++) {
        const point *at = latest(t, i);
        sum += at->ns;
        const uint64_t span = t->timed ? newest->at_ns + newest->ns - at->at_ns : sum;
        if (i > 0 && span > WINDOW_NS)
            break;
        cli_times_add(&t->times, at->ns);
        oldest = at;
        x.ns = span;
        x.steps++;
    }
    x.time = cli_times_summary(&t->times);
    if (have > 0 && x.ns > 0) /* a record may stand for several steps */
        x.rate = (double)(newest->step - oldest->step + 1) * 1e9 / (double)x.ns;
    return x;
}

/* ---- the file ---------------------------------------------------------------------------- */

static void close_file(top *t)
{
    if (t->report == NULL)
        return;
    report_free(t->report);
    profile_lines_close(&t->lines);
    t->report = NULL;
    t->n_head = 0;
    t->n_window = t->host = t->process = 0;
    t->any = false;
}

/* Another run may have emptied the file and begun anew, or have the name now. */
static sw_status is_another(top *t, bool *another)
{
    char head[HEAD];
    size_t n;
    *another = false;
    if (!sw_file_is(t->lines.file, t->source.path)) {
        top_source now;
        if (t->source.pid == 0)
            *another = sw_file_there(t->source.path) && top_source_fits(t->source.path);
        else if (top_source_lives(&t->source) &&
                 top_source_process(&now, t->source.pid) == TOP_FOUND) {
            t->source = now;
            *another = !sw_file_is(t->lines.file, now.path);
        }
        return SW_OK;
    }
    SW_TRY(sw_file_size(t->lines.file, &t->size));
    SW_TRY(profile_lines_head(&t->lines, head, t->n_head > 0 ? t->n_head : HEAD, &n));
    *another =
        t->size < t->lines.next || n < t->n_head || memcmp(head, t->head, t->n_head) != 0;
    return SW_OK;
}

static sw_status follow(top *t)
{
    const report_watch watch = {.context = t, .step = take_step};
    bool another = true;
    if (t->report != NULL)
        SW_TRY(is_another(t, &another));
    if (another) {
        /* In the place of the one that is open, which stays where this fails. */
        const char *path = t->source.path;
        struct stat file;
        report *fresh;
        profile_lines lines;
        if (stat(path, &file) == 0 && !S_ISREG(file.st_mode))
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
    }
    SW_TRY(sw_file_size(t->lines.file, &t->size));
    SW_TRY(report_more(t->report, &t->lines, &watch));
    if (t->n_head == 0 && t->lines.line > 0)
        SW_TRY(profile_lines_head(&t->lines, t->head, HEAD, &t->n_head));
    return SW_OK;
}

/* ---- how the run is ---------------------------------------------------------------------- */

/* Runs that record one step of many are waited for longer. */
static uint64_t patience(const top *t)
{
    if (t->n_window < 2)
        return WAIT_NS;
    const uint64_t gap =
        t->timed ? latest(t, 0)->at_ns - latest(t, 1)->at_ns : latest(t, 0)->ns;
    return gap > WAIT_NS / 4 ? 4 * gap : WAIT_NS;
}

static condition judge(top *t)
{
    struct stat file;
    struct timespec now = {0};
    if (t->report == NULL)
        return EMPTY;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (stat(t->source.path, &file) == 0) {
        const int64_t age = (int64_t)(now.tv_sec - file.st_mtim.tv_sec) * 1000000000 +
                            (now.tv_nsec - file.st_mtim.tv_nsec);
        t->idle = age > 0 ? (uint64_t)age : 0;
    }
    if (t->report->file.ended)
        return ENDED;
    if (t->source.pid > 0
            ? !top_source_lives(&t->source)
            : (t->once || t->idle >= WAIT_NS / 2) && top_source_written(&t->source) == 0)
        return DIED;
    return !t->any ? EMPTY : t->idle >= patience(t) ? WAITS : RUNS;
}

/* Only who has written all has died: then look once more. */
static sw_status look(top *t)
{
    if (t->report == NULL && t->wait && t->source.pid == 0 && !sw_file_there(t->source.path))
        return SW_OK;
    const sw_status status = follow(t);
    if (status == SW_IO && t->report == NULL && t->source.pid > 0 &&
        top_source_process(&t->source, t->source.pid) == TOP_FOUND)
        return SW_OK; /* it has moved since it was found */
    SW_TRY(status);
    t->condition = judge(t);
    if (t->condition == DIED) {
        SW_TRY(follow(t));
        t->condition = judge(t);
    }
    return SW_OK;
}

/* ---- text -------------------------------------------------------------------------------- */

/* The program that holds the peak so far, and its runs without a witness; NULL: none ran. */
static const report_plan *highest(const top *t, const report_seen **seen)
{
    const report_plan *plan = t->report != NULL ? report_peak_plan(t->report) : NULL;
    *seen = NULL;
    for (int i = 0; plan != NULL && i < plan->n_seen; i++)
        if (strcmp(plan->seen[i].by, "access") != 0)
            *seen = &plan->seen[i];
    return *seen != NULL ? plan : NULL;
}

static bool counted(const report_seen *seen)
{
    return seen != NULL && strcmp(seen->by, "plan") != 0;
}

static void print_condition(const top *t)
{
    static const char *const codes[] = {"\033[33m", "\033[32m", "\033[33m", "\033[1m",
                                        "\033[31m"};
    const bool colour = cli_colour(stdout);
    const char *plain = colour ? "\033[0m" : "";
    fputs(colour ? codes[t->condition] : "", stdout);
    if (t->condition == EMPTY)
        printf("no step yet%s\n", plain);
    else if (t->condition == RUNS)
        printf("running%s\n", plain);
    else if (t->condition == WAITS)
        printf("no record for %s s%s\n", cli_digits(t->idle / 1000000000u).text, plain);
    else if (t->condition == ENDED)
        printf("%s%s%s%s\n", t->report->file.status, plain,
               *t->report->file.error != '\0' ? ": " : "", t->report->file.error);
    else
        printf("died%s (its profile has no end, and no process writes it)\n", plain);
}

static void print_step(const top *t, const char *after)
{
    if (!t->any)
        return;
    printf("step %s", cli_digits(t->last.step).text);
    if (t->report->planned_steps > 0)
        printf(" of %s (%.0f %%)", cli_digits(t->report->planned_steps).text,
               floor(100.0 * (double)t->last.step / (double)t->report->planned_steps));
    if (t->last.has_loss)
        printf(", loss %.4g", t->last.loss);
    fputs(after, stdout);
}

static void print_pace(const pace *x)
{
    if (x->rate > 0.0)
        printf("%.*f steps/s, ", x->rate < 100.0 ? 2 : 0, x->rate);
    printf("median step %s", cli_ns(x->time.median).text);
}

/* A curve over the whole run. A value that is not finite is drawn as the highest of all. */
static void print_curve(const char *name, const double *at, size_t n, const char *last)
{
    uint64_t scaled[REPORT_SAMPLES];
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t i = 0; i < n; i++)
        if (isfinite(at[i])) {
            low = fmin(low, at[i]);
            high = fmax(high, at[i]);
        }
    for (size_t i = 0; i < n; i++) {
        const double share = high > low ? (at[i] - low) / (high - low) : 0.5;
        scaled[i] = isfinite(at[i]) ? (uint64_t)(share * 1000.0) : 1000;
    }
    if (n > 0)
        printf("%-6s%s  %s\n", name, bars_spark(scaled, n, 0, 1000, !cli_utf8()).text, last);
}

static void print_curves(const report *r)
{
    double loss[REPORT_SAMPLES], time[REPORT_SAMPLES], peak[REPORT_BINS];
    char last[32];
    size_t n = 0;
    for (size_t i = 0; i < r->n_sample; i++) {
        const report_row *row = &r->sample[i];
        time[i] = 0.0;
        for (int k = 0; k < SW_PROF_PHASES; k++)
            time[i] += (double)row->phase[k].ns;
        if (row->has_loss)
            loss[n++] = row->loss;
    }
    snprintf(last, sizeof last, "%.4g", n > 0 ? loss[n - 1] : 0.0);
    print_curve("loss", loss, n, last);
    if (r->n_sample > 0)
        print_curve("time", time, r->n_sample, cli_ns((uint64_t)time[r->n_sample - 1]).text);
    for (size_t i = 0; i < r->moves.n_bins; i++)
        peak[i] = (double)r->moves.bin[i];
    print_curve("peak", peak, r->moves.n_bins, cli_bytes((size_t)r->moves.highest_bytes).text);
}

static void print_picture(top *t)
{
    const report_seen *seen;
    const report_plan *plan = highest(t, &seen);
    const pace x = measure(t);
    const sw_writer to = cli_writer(stdout);
    const report_style style = {.to = &to, .ascii = !cli_utf8()};
    const report *r = t->report;
    if (r == NULL || t->lines.line == 0)
        puts("nothing is written yet");
    else {
        sw_writer_say(&to, 0, 2, "%s on %s, batch %" PRId64 "%s%s", r->model, r->device,
                      r->timeline->batch, *r->data != '\0' ? ", data " : "", r->data);
    }
    print_step(t, ": ");
    print_condition(t);
    if (x.steps > 0) {
        print_pace(&x);
        printf(", slowest %s of %s in %s\n", cli_ns(x.time.max).text, cli_digits(x.steps).text,
               cli_ns(x.ns).text);
    }
    if (plan != NULL) {
        report_print_predicted(&style, r, plan);
        putchar('\n');
        printf("model %s   arena %s   data %s   total %s\n", cli_bytes(plan->model_bytes).text,
               cli_bytes(plan->arena_bytes).text, cli_bytes(plan->data_bytes).text,
               cli_bytes(plan->total_bytes).text);
        if (r->budget_bytes > 0)
            printf("budget %s, of which %.0f %% are taken\n", cli_bytes(r->budget_bytes).text,
                   100.0 * (double)plan->total_bytes / (double)r->budget_bytes);
        if (t->process > 0)
            printf("process %s resident   ", cli_bytes(t->process).text);
        printf("host heap %s", cli_bytes(t->host).text);
        if (r->warm_runs > 0)
            printf("   %s allocation%s after warm-up", cli_digits(r->allocations).text,
                   r->allocations == 1 ? "" : "s");
        printf("\n\n");
        print_curves(r);
    }
    char name[256];
    sw_utf8_clean(name, sizeof name, t->source.shown);
    printf("\n%s, %s\n", name, cli_bytes((size_t)t->size).text);
    cli_flush();
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_head(sw_json *j, const top *t)
{
    const report *r = t->lines.line > 0 ? t->report : NULL;
    sw_json_put_string(j, "file", t->source.shown);
    sw_json_put_known(j, "process", t->source.pid > 0, (uint64_t)t->source.pid);
    sw_json_put_string(j, "model", r != NULL ? r->model : NULL);
    sw_json_put_string(j, "device", r != NULL ? r->device : NULL);
    sw_json_put_string(j, "data", r != NULL ? r->data : NULL);
    report_put_batch(j, r != NULL ? r->timeline->batch : -1);
    sw_json_put_string(j, "condition", condition_name[t->condition]);
    sw_json_put_string(j, "status", t->condition == ENDED ? r->file.status : NULL);
    sw_json_put_u64(j, "idle_ns", t->idle);
    sw_json_put_known(j, "step", t->any, t->last.step);
    const uint64_t steps = r != NULL ? r->planned_steps : 0;
    sw_json_put_known(j, "planned_steps", steps > 0, steps);
    sw_json_put_known_f64(j, "loss", t->any && t->last.has_loss, t->last.loss);
}

static sw_status print_json(top *t)
{
    const report_seen *seen;
    const report_plan *plan = highest(t, &seen);
    const bool planned = plan != NULL && !plan->immediate;
    const report_plan none = {.peak = 0}, *p = plan != NULL ? plan : &none;
    const pace x = measure(t);
    const report *r = t->report;
    sw_json j;
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    put_head(&j, t);
    sw_json_put_known_f64(&j, "steps_per_second", x.rate > 0.0, x.rate);
    sw_json_put_known(&j, "median_step_ns", x.steps > 0, x.time.median);
    sw_json_put_known(&j, "max_step_ns", x.steps > 0, x.time.max);
    sw_json_put_u64(&j, "window_steps", x.steps);
    sw_json_put_u64(&j, "window_ns", x.ns);
    sw_json_put_string(&j, "program", plan != NULL ? report_program_name(plan).text : NULL);
    report_put_phases(&j, "predicted", planned ? plan->phase : NULL);
    report_put_phases(&j, "measured", counted(seen) ? seen->phase : NULL);
    sw_json_put_string(&j, "measured_by", seen != NULL ? seen->by : NULL);
    sw_json_put_known(&j, "predicted_peak_bytes", planned, p->peak);
    sw_json_put_known(&j, "measured_peak_bytes", counted(seen),
                      counted(seen) ? profile_peak(seen->phase) : 0);
    sw_json_put_known(&j, "model_bytes", plan != NULL, p->model_bytes);
    sw_json_put_known(&j, "arena_bytes", plan != NULL, p->arena_bytes);
    sw_json_put_known(&j, "data_bytes", plan != NULL, p->data_bytes);
    sw_json_put_known(&j, "total_bytes", plan != NULL, p->total_bytes);
    const uint64_t budget = r != NULL ? r->budget_bytes : 0;
    sw_json_put_known(&j, "budget_bytes", budget > 0, budget);
    sw_json_put_known(&j, "process_bytes", t->process > 0, t->process);
    sw_json_put_known(&j, "host_bytes", plan != NULL, t->host);
    sw_json_put_known(&j, "allocations_after_warmup", r != NULL && r->warm_runs > 0,
                      r != NULL ? r->allocations : 0);
    sw_json_end(&j);
    const sw_writer to = cli_writer(stdout);
    const report_style style = {.to = &to};
    const sw_status status = report_print_object(&j, &style);
    cli_flush();
    return status;
}

/* ---- going round ------------------------------------------------------------------------- */

/* Whether the time came before an interrupt. */
static bool rest(uint64_t until)
{
    while (!cli_interrupted()) {
        const uint64_t now = cli_clock_ns(), left = until > now ? until - now : 0;
        const struct timespec some = {0, left < 50000000 ? (long)left : 50000000};
        if (left == 0)
            return true;
        (void)nanosleep(&some, NULL);
    }
    return false;
}

/* CLI_DONE or CLI_INTERRUPTED in *code. On a terminal each picture is drawn over the last. */
static sw_status go_round(top *t, int *code)
{
    const bool drawn = !t->once && cli_terminal(stdout);
    *code = CLI_DONE;
    for (;;) {
        SW_TRY(look(t));
        if (t->json)
            SW_TRY(print_json(t));
        else if (t->once)
            print_picture(t);
        else if (drawn) {
            fputs("\033[H\033[J", stdout);
            print_picture(t);
        } else {
            const report_seen *seen;
            const report_plan *plan = highest(t, &seen);
            const pace x = measure(t);
            print_step(t, ", ");
            if (x.steps > 0) {
                print_pace(&x);
                printf(", ");
            }
            if (plan != NULL)
                printf("peak %s in %s, ", cli_bytes(profile_peak(seen->phase)).text,
                       report_program_name(plan).text);
            if (t->process > 0)
                printf("process %s, ", cli_bytes(t->process).text);
            print_condition(t);
            cli_flush();
        }
        const bool over = t->condition == ENDED || t->condition == DIED;
        if (t->once || ferror(stdout) || (over && (!t->wait || t->source.pid > 0)))
            return SW_OK;
        if (!rest(cli_clock_ns() + (uint64_t)(t->interval * 1e9))) {
            *code = CLI_INTERRUPTED;
            return SW_OK;
        }
    }
}

/* ---- what is watched --------------------------------------------------------------------- */

static int find(top *t)
{
    const char *operand = t->operand;
    if (!t->file && operand[strspn(operand, "0123456789")] == '\0' && strlen(operand) < 10) {
        /* A process opens its profile when its plans are made: it gets a moment, or with
         * --wait all the time it takes. */
        const long pid = strtol(operand, NULL, 10);
        const uint64_t end = cli_clock_ns() + WAIT_NS / 2;
        for (;;) {
            const top_found found = top_source_process(&t->source, pid);
            if (found == TOP_FOUND)
                return CLI_GO;
            if (found != TOP_NO_PROFILE || (!t->wait && cli_clock_ns() >= end)) {
                if (found == TOP_NO_PROC)
                    return cli_error(CLI_DAMAGED,
                                     "the system shows no processes here (/proc); give the "
                                     "profile's FILE instead of %s",
                                     t->operand);
                if (found == TOP_NO_SUCH)
                    return cli_error(CLI_DAMAGED,
                                     "there is no process %s; a file of that name is ./%s",
                                     t->operand, t->operand);
                if (found == TOP_FORBIDDEN)
                    return cli_error(CLI_DAMAGED,
                                     "process %s belongs to another user; give the profile's "
                                     "FILE, or run as that user",
                                     t->operand);
                return cli_error(CLI_DAMAGED,
                                 "process %s writes no profile; start it with stepwell train "
                                 "--profile FILE (with --wait, one that comes later is "
                                 "waited for)",
                                 t->operand);
            }
            if (!rest(cli_clock_ns() + 20000000))
                return CLI_INTERRUPTED;
        }
    }
    if (strlen(operand) >= TOP_PATH)
        return cli_error(CLI_DAMAGED, "%.40s...: the name is too long", operand);
    snprintf(t->source.path, TOP_PATH, "%s", operand);
    snprintf(t->source.shown, TOP_PATH, "%s", operand);
    return CLI_GO;
}

static int run(top *t)
{
    sw_status status = cli_times_init(&t->times, WINDOW);
    CLI_LIBRARY(status, false);
    cli_catch_interrupt();
    int code = find(t);
    if (code == CLI_GO) {
        status = go_round(t, &code);
        code = status == SW_OK ? cli_finish(code) : cli_library_error(status, true);
        close_file(t);
    }
    cli_times_free(&t->times);
    return code;
}

static top watched; /* its window is large for a stack */

int top_file(const char *file, bool json)
{
    watched = (top){.operand = file, .interval = 1.0, .json = json, .file = true};
    return run(&watched);
}

int tool_top(int argc, char **argv)
{
    top *t = &watched;
    const cli_option options[] = {
        {"--interval", "SECONDS", CLI_REAL, &t->interval, "1", "between two looks"},
        {"--once", NULL, CLI_FLAG, &t->once, NULL, "one picture, and end"},
        {"--wait", NULL, CLI_FLAG, &t->wait, NULL,
         "wait for a profile that is not there yet, and for the next run in FILE when one has "
         "ended"},
        {"--json", NULL, CLI_FLAG, &t->json, NULL, "one JSON object a line for each look"},
    };
    const cli_command command = {
        .name = "top",
        .usage = "PID|FILE [options]",
        .about = "Watch a running training through the profile that it writes.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .operand = &t->operand,
        .max_operands = 1,
        .notes =
            "PID is a process that was started with --profile, FILE its profile. On a terminal "
            "each look is the report's table of phases, until the run ends or Ctrl-C is "
            "pressed; elsewhere it is a line. A new run in the same file begins from "
            "nothing.\nRates and times are those of the last ten seconds. Sparklines go over a "
            "sample of all training steps: loss, time, highest peak. The table is of the "
            "program with the highest peak so far, in training or evaluation.\n"
            "Keys of --json, null where it is not known: file, process, model, device, data, "
            "batch; condition (empty, running, waiting, ended, died), status, idle_ns; step, "
            "planned_steps, loss; of the last ten seconds steps_per_second, median_step_ns, "
            "max_step_ns, window_steps, window_ns; program (the highest so far), predicted and "
            "measured, for each phase its peak_bytes and end_bytes, predicted_peak_bytes, "
            "measured_peak_bytes, model_bytes, arena_bytes, data_bytes, total_bytes, "
            "budget_bytes, process_bytes, host_bytes, measured_by, allocations_after_warmup.\n"
            "Exit status: 0 the run has ended, 2 wrong usage, 3 no such process or profile, "
            "130 interrupted."};
    const int status = cli_parse(&command, argc, argv);
    if (status != CLI_GO)
        return status;
    if (t->operand == NULL)
        return cli_error(CLI_USAGE, "PID or FILE must be given: a process or a profile; usage: "
                                    "stepwell top PID|FILE [options]");
    if (t->interval < 0.02 || t->interval > 86400.0)
        return cli_error(CLI_USAGE, "--interval must be 0.02 to 86400 seconds (a day)");
    return run(t);
}
