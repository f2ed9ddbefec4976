/* stepwell report FILE: the options, and which printer gets the report; formats for other
 * tools; two runs compared. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/inspect/report/parts.h"
#include "profiler/inspect/report/report.h"
#include "profiler/inspect/sink.h"
#include "profiler/inspect/snapshot.h"
#include "profiler/inspect/profile_read.h"
#include "tools/cli/cli.h"
#include "tools/report/file_same.h"
#include "tools/report/report_settings.h"
#include "tools/top/top.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMATS 32

static const char *const *report_formats(void)
{
    static const char *names[FORMATS + 1] = {"text", "json"};
    for (uint32_t i = 0; i + 2 < FORMATS && sw_sink_at(i) != NULL; i++)
        names[i + 2] = sw_sink_at(i)->name;
    return names;
}

/* Print what there is; the exit status. */
static int report_list_formats(void)
{
    static const char *const own[][2] = {{"text", "the report, for people"},
                                         {"json", "the report, for scripts"}};
    printf("Into the file that --out names, or on standard output:\n");
    for (uint32_t i = 0; sw_sink_at(i) != NULL; i++) {
        printf("  %-16s ", sw_sink_at(i)->name);
        cli_wrap(stdout, 19, 19, sw_sink_at(i)->about);
    }
    printf("On standard output alone:\n");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        printf("  %-16s %s\n", own[i][0], own[i][1]);
    return cli_finish(CLI_DONE);
}

typedef struct {
    const sw_timeline *timeline, *other; /* other: NULL, or to compare with */
    const sw_sink *sink;
    sw_sink_out *out;
} export;

/* Ctrl-C ends a long export between two pieces; the file that was there stays. */
static sw_status write_piece(void *context, const void *bytes, size_t n)
{
    if (cli_interrupted())
        SW_FAIL(SW_STOPPED, "interrupted");
    return sw_file_write(context, bytes, n);
}

static sw_status write_all(void *context, sw_file *file)
{
    const export *x = context;
    x->out->write = write_piece;
    x->out->context = file;
    const sw_status status = x->other != NULL ? x->sink->compare(x->timeline, x->other, x->out)
                                              : x->sink->write(x->timeline, x->out);
    const sw_status rest = sw_sink_flush(x->out);
    return rest != SW_OK ? rest : status;
}

/* The timeline of a file, and a note where runs of it are left out. */
static sw_status open_timeline(sw_timeline **out, const sw_sink *sink, const char *file)
{
    const timeline_want want = {.max_events = sink->max_events};
    SW_TRY(timeline_open(out, file, &want));
    const sw_timeline *t = *out;
    if (t->skipped_runs > 0)
        cli_note("%s: %s of %s runs are left out of the middle, or have no plan in the file",
                 file, cli_digits(t->skipped_runs).text,
                 cli_digits(t->skipped_runs + t->n_runs).text);
    return SW_OK;
}

int report_export(const char *file, const char *other, const char *format, const char *out)
{
    const sw_sink *sink = sw_sink_find(format);
    const char *path = out != NULL ? out : "-";
    sw_timeline *t = NULL, *with = NULL;
    if (sink->binary && strcmp(path, "-") == 0 && cli_terminal(stdout))
        return cli_error(CLI_USAGE, "%s is not text: name a file with --out", sink->name);
    if (other != NULL && sink->compare == NULL)
        return cli_error(CLI_USAGE, "--diff: the format %s is of one run", sink->name);
    cli_catch_interrupt();
    sw_status status = open_timeline(&t, sink, file);
    if (status == SW_OK && other != NULL)
        status = open_timeline(&with, sink, other);
    const bool read = status == SW_OK;
    sw_sink_out *room = NULL;
    if (read)
        status = sw_heap_alloc(&room, SW_HEAP_PROFILE, sizeof *room);
    if (status == SW_OK)
        status = cli_saved(sw_file_replace(path, write_all, &(export){t, with, sink, room}));
    sw_heap_free(room, SW_HEAP_PROFILE, sizeof *room);
    int code = CLI_DONE;
    if (status == SW_OK && t->damaged != NULL)
        code = cli_error(CLI_DAMAGED, "%s", t->damaged);
    if (status == SW_OK && with != NULL && with->damaged != NULL)
        code = cli_error(CLI_DAMAGED, "%s", with->damaged);
    sw_timeline_free(with);
    sw_timeline_free(t);
    if (read && status != SW_OK && cli_interrupted())
        return CLI_INTERRUPTED;
    return status == SW_OK ? code : cli_library_error(status, !read);
}

/* ---- gates ------------------------------------------------------------------------------- */

/* The increase is asked for in whole bytes where it can be: 0% and sizes are exact. */

bool report_gate_asked(const report_limits *l)
{
    return l->max_peak != REPORT_NO_LIMIT || l->increase != NULL;
}

static bool read_percent(const char *text, double *out)
{
    char *end;
    /* No sign, no blank, no word such as inf, and no 0x10, which strtod reads too. */
    if (*text < '0' || *text > '9' || strpbrk(text, "xX") != NULL)
        return false;
    *out = strtod(text, &end);
    return end[0] == '%' && end[1] == '\0' && isfinite(*out);
}

int report_limits_read(report_limits *l, bool base)
{
    if (l->increase == NULL)
        return CLI_GO;
    l->relative = strchr(l->increase, '%') != NULL;
    if (l->relative ? !read_percent(l->increase, &l->percent)
                    : !cli_read_bytes(l->increase, &l->bytes))
        return cli_refuse_bytes("--fail-on-increase", "a percentage such as 0% or 2.5%, or ",
                                l->increase);
    if (!base)
        return cli_error(CLI_USAGE,
                         "--fail-on-increase needs a base: stepwell report FILE --diff BASE");
    return CLI_GO;
}

static bool over_max(const report_gate *g)
{
    return g->run.known && g->run.bytes > g->limits->max_peak;
}

static bool over_base(const report_gate *g)
{
    const report_limits *l = g->limits;
    if (l->increase == NULL || !g->run.known || !g->base.known || g->run.bytes <= g->base.bytes)
        return false;
    const uint64_t more = g->run.bytes - g->base.bytes;
    return l->relative ? (double)more * 100.0 > l->percent * (double)g->base.bytes
                       : more > l->bytes;
}

static bool unknown(const report_gate *g)
{
    return !g->run.known || (g->limits->increase != NULL && !g->base.known);
}

bool report_gate_failed(const report_gate *g)
{
    return over_max(g) || over_base(g) || unknown(g);
}

void report_gate_more(sw_json *j, const void *gate)
{
    const report_gate *g = gate;
    const report_limits *l = g->limits;
    sw_json_open(j, "gate", '{');
    sw_json_put_bool(j, "failed", report_gate_failed(g));
    sw_json_put_known(j, "peak_bytes", g->run.known, g->run.bytes);
    sw_json_put_bool(j, "measured", g->run.measured);
    if (l->max_peak != REPORT_NO_LIMIT) {
        sw_json_put_u64(j, "max_peak_bytes", l->max_peak);
        sw_json_put_bool(j, "above_max_peak", over_max(g));
    }
    if (l->increase != NULL) {
        sw_json_put_known(j, "base_peak_bytes", g->base.known, g->base.bytes);
        sw_json_put_string(j, "allowed_increase", l->increase);
        sw_json_put_bool(j, "above_increase", over_base(g));
        if (g->run.known && g->base.known)
            sw_json_put_i64(j, "increase_bytes", (int64_t)(g->run.bytes - g->base.bytes));
        sw_json_put_string(j, "grew_most", g->grew[0] != '\0' ? g->grew : NULL);
    }
    sw_json_end(j);
}

static const char *how(const report_gate_peak *p)
{
    return p->what != NULL ? p->what : p->measured ? "measured peak" : "predicted peak";
}

static double percent(const report_gate *g)
{
    return g->base.bytes == 0
               ? 0.0
               : 100.0 * ((double)g->run.bytes - (double)g->base.bytes) / (double)g->base.bytes;
}

int report_gate_judge(const report_gate *g, bool tell)
{
    const report_limits *l = g->limits;
    if (!report_gate_asked(l))
        return CLI_DONE;
    cli_flush(); /* the line comes after the report */
    if (unknown(g))
        return cli_error(CLI_FAILED,
                         "%s: it has neither a measured nor a predicted peak to be judged by",
                         g->run.known ? g->base.path : g->run.path);
    if (over_max(g))
        (void)cli_error(
            CLI_FAILED, "%s: the %s of %s bytes%s is above --max-peak %s by %s byte%s",
            g->run.path, how(&g->run), cli_digits(g->run.bytes).text, g->run.in,
            cli_digits(l->max_peak).text, cli_digits(g->run.bytes - l->max_peak).text,
            g->run.bytes - l->max_peak == 1 ? "" : "s");
    if (over_base(g))
        (void)cli_error(CLI_FAILED,
                        "%s: the %s of %s bytes%s is %s byte%s (%.2f%%) above the %s bytes of "
                        "%s, more than --fail-on-increase %s%s%s",
                        g->run.path, how(&g->run), cli_digits(g->run.bytes).text, g->run.in,
                        cli_digits(g->run.bytes - g->base.bytes).text,
                        g->run.bytes - g->base.bytes == 1 ? "" : "s", percent(g),
                        cli_digits(g->base.bytes).text, g->base.path, l->increase,
                        g->grew[0] != '\0' ? "; what grew most: " : "", g->grew);
    if (over_max(g) || over_base(g))
        return CLI_FAILED;
    if (tell) {
        if (l->max_peak != REPORT_NO_LIMIT)
            printf("gate: the %s of %s bytes%s is within --max-peak %s\n", how(&g->run),
                   cli_digits(g->run.bytes).text, g->run.in, cli_digits(l->max_peak).text);
        if (l->increase != NULL)
            printf("gate: peak %s bytes, base %s (%+.2f%%): within --fail-on-increase %s\n",
                   cli_digits(g->run.bytes).text, cli_digits(g->base.bytes).text, percent(g),
                   l->increase);
    }
    return CLI_DONE;
}

/* ---- two runs ---------------------------------------------------------------------------- */

int report_end(const profile_reading *file, int code)
{
    cli_flush();
    if (file->damaged_line > 0)
        code = cli_error(CLI_DAMAGED, "%s", file->damaged_why);
    return cli_finish(code);
}

/* The role and the layer in which the newer run has most beyond the other. */
static void name_grown(const comparison *c, report_gate *gate)
{
    size_t used = 0;
    for (int of = COMPARE_ROLES; of <= COMPARE_LAYERS; of++) {
        const compare_line *most = NULL;
        for (size_t i = 0; i < c->n; i++) {
            const int64_t more = compare_difference(c, &c->lines[i]);
            if ((int)c->lines[i].of == of && more > 0 &&
                (most == NULL || more > compare_difference(c, most)))
                most = &c->lines[i];
        }
        if (most != NULL)
            used += (size_t)snprintf(gate->grew + used, sizeof gate->grew - used,
                                     "%s%s %.80s (+%s bytes)", used > 0 ? ", " : "",
                                     of == COMPARE_ROLES ? "role" : "layer", most->name,
                                     cli_digits((uint64_t)compare_difference(c, most)).text);
    }
}

/* A step that is not there: those beside it. */
static int no_such_step(const report *r, const report_step *step)
{
    char near[96] = "there are no such runs";
    if (step->below > 0 && step->above > 0)
        snprintf(near, sizeof near, "the nearest are %" PRIu64 " and %" PRIu64, step->below,
                 step->above);
    else if (step->below + step->above > 0)
        snprintf(near, sizeof near, "the nearest is %" PRIu64, step->below + step->above);
    if (r->runs + r->evaluations == 0)
        return cli_error(CLI_FAILED, "%s: there is no step in the file", r->path);
    return cli_error(CLI_FAILED, "%s: no record of %s%sstep %" PRIu64 "; %s", r->path,
                     step->run, *step->run != '\0' ? " " : "", step->step, near);
}

/* Print what differs between the runs of two files, or two steps of one (`steps`), as text or
 * JSON: bytes of the phases, totals, and what lives at the peaks by role, layer, maker and
 * tensor, times. FILE is the run that limits judge, OTHER its base; differences are FILE -
 * OTHER, and of steps the later less the earlier one. */
static int report_two(const report_settings *s, report_steps_wanted *steps)
{
    comparison c = {.newer = steps != NULL};
    report *r[2] = {NULL, NULL};
    int code = CLI_GO;
    sw_status status = report_open(&r[0], s->file, steps);
    if (status == SW_OK && steps == NULL)
        status = report_open(&r[1], s->diff, NULL);
    for (int i = 0; i < 2 && status == SW_OK && code == CLI_GO; i++)
        if (steps == NULL)
            status = compare_run(&c.side[i], r[i]);
        else if (steps->at[i].found)
            status = compare_step(&c.side[i], r[0], &steps->at[i]);
        else
            code =
                r[0]->file.damaged_line > 0 ? CLI_DAMAGED : no_such_step(r[0], &steps->at[i]);
    if (status == SW_OK && code == CLI_GO)
        status = compare(&c);
    if (status == SW_OK && code == CLI_GO) {
        report_gate gate = {.limits = &s->limits, .run = report_highest(r[0])};
        const report_tail tail = {report_gate_more, &gate},
                          *more = report_gate_asked(&s->limits) ? &tail : NULL;
        if (steps == NULL)
            gate.base = report_highest(r[1]);
        name_grown(&c, &gate);
        if (s->json)
            status = report_difference_json(&c, more, &s->style);
        else
            report_print_difference(&c, &s->style);
        code = status != SW_OK ? cli_library_error(status, false)
                               : report_gate_judge(&gate, !s->json && !s->style.quiet);
        status = SW_OK;
    } else if (status != SW_OK && (steps == NULL || r[0] == NULL || status != SW_FORMAT ||
                                   r[0]->file.damaged_line == 0))
        code = cli_library_error(status, true);
    for (int i = 0; i < 2 && (steps != NULL || status == SW_OK); i++)
        if (r[i] != NULL)
            code = report_end(&r[i]->file, code);
    report_free(r[0]);
    report_free(r[1]);
    return code;
}

const char *report_read_number(const char *text, uint64_t *out)
{
    *out = 0;
    if (*text < '0' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (*out > (UINT64_MAX - 9) / 10)
            return NULL;
        *out = *out * 10 + (uint64_t)(*text - '0');
    }
    return text;
}

/* "12", "train:12" or "eval:12"; what follows. */
static const char *read_step(const char *text, report_step *step)
{
    static const char *const runs[] = {"train", "eval"};
    *step = (report_step){.run = ""};
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(runs[i]);
        if (strncmp(text, runs[i], n) == 0 && text[n] == ':') {
            step->run = runs[i];
            text += n + 1;
        }
    }
    return *text != '0' ? report_read_number(text, &step->step) : NULL;
}

/* ---- one run ----------------------------------------------------------------------------- */

/* The members after those of the report. */
typedef struct {
    const report_gate *gate; /* NULL: no limit was given */
    const report_rank_rows *ranks;
} after;

static void put_after(sw_json *j, const void *context)
{
    const after *x = context;
    if (x->ranks->n > 0)
        report_ranks_put(j, x->ranks);
    if (x->gate != NULL)
        report_gate_more(j, x->gate);
}

static int report_file(const report_settings *s)
{
    report *r;
    report_live live = {0};
    const bool text = !s->json && strcmp(s->format, "text") == 0;
    sw_status status = report_open(&r, s->file, NULL);
    CLI_LIBRARY(status, true);
    const report_gate gate = {.limits = &s->limits, .run = report_highest(r)};
    report_rank_rows ranks = {0};
    if (s->by == NULL)
        status = report_ranks_beside(&ranks, r);
    const after rest = {report_gate_asked(&s->limits) ? &gate : NULL, &ranks};
    const report_tail tail = {put_after, &rest},
                      *more = rest.gate != NULL || ranks.n > 0 ? &tail : NULL;
    const report_plan *plan = report_peak_plan(r);
    if (status == SW_OK && s->by == NULL && plan != NULL)
        status = report_find_live(r, plan, &live);
    if (s->by != NULL)
        status = report_print_by(r, s->by,
                                 s->json ? BY_JSON
                                 : text  ? BY_TEXT
                                         : BY_CSV,
                                 &s->style, more);
    else if (status == SW_OK && s->json)
        status = report_print_json(r, &live, more, &s->style);
    else if (status == SW_OK) {
        report_print_text(r, &live, &s->style);
        if (ranks.n > 0) {
            sw_writer_print(s->style.to, "\n");
            report_ranks_print(&ranks, &s->style);
        }
    }
    report_ranks_free(&ranks);
    const int code =
        status == SW_OK
            ? report_end(&r->file, report_gate_judge(&gate, text && !s->style.quiet))
            : cli_library_error(status, true);
    report_free(r);
    return code;
}

static bool is_export(const report_settings *s)
{
    return s->html != NULL || (sw_sink_find(s->format) != NULL &&
                               !(s->by != NULL && strcmp(s->format, "csv") == 0));
}

int report_check_format(const report_settings *s)
{
    const bool text = strcmp(s->format, "text") == 0;
    if (s->html != NULL && (s->json || s->out != NULL || !text))
        return cli_error(CLI_USAGE, "--html writes one format to one file: leave out --format, "
                                    "--json and --out");
    if (s->json && !text && strcmp(s->format, "json") != 0)
        return cli_error(CLI_USAGE, "--json and --format %s are two formats: leave one out",
                         s->format);
    return CLI_GO;
}

/* Whether the options go together: CLI_GO, or CLI_USAGE with a message. */
static int check(const report_settings *s)
{
    CLI_TRY(report_check_format(s));
    if ((s->by != NULL) + (s->diff != NULL) + (s->steps != NULL) > 1)
        return cli_error(CLI_USAGE,
                         "--by, --diff and --steps are three reports: ask for one of them");
    if (s->live && (s->by != NULL || s->diff != NULL || s->steps != NULL || s->out != NULL ||
                    s->style.exact || s->style.quiet || s->ascii || is_export(s) ||
                    report_gate_asked(&s->limits)))
        return cli_error(CLI_USAGE, "--live shows what is there now, and takes --json alone");
    if (s->turns != NULL || s->member != NULL)
        return cli_error(CLI_USAGE,
                         "%s needs the profile of a population, and FILE is of one run",
                         s->turns != NULL ? "--turns" : "--member");
    if (is_export(s) && s->by != NULL)
        return cli_error(CLI_USAGE, "--by goes out as text, json or csv");
    if (is_export(s) && s->steps != NULL)
        return cli_error(CLI_USAGE, "--steps goes out as text or json");
    if (is_export(s) && report_gate_asked(&s->limits))
        return cli_error(CLI_USAGE,
                         "--max-peak and --fail-on-increase belong to reports in text or json");
    if (!is_export(s) && s->out != NULL)
        return cli_error(CLI_USAGE,
                         "--out takes the formats that --list-formats names first: %s goes to "
                         "standard output, which the shell can redirect (--format %s > FILE)",
                         s->format, s->format);
    const char *out = s->html != NULL ? s->html : s->out;
    if (file_same(out, s->file) || file_same(out, s->diff))
        return cli_error(CLI_USAGE, "%s %s, a file that is read",
                         s->html != NULL ? "--html" : "--out", out);
    return CLI_GO;
}

/* A snapshot planned again: text or JSON, and offsets to a file. */
static int run_replan(report_settings *s)
{
    if (s->by != NULL || s->steps != NULL || s->live || s->turns != NULL || s->member != NULL)
        return cli_error(CLI_USAGE, "--replan does not go with --by, --steps, --live, --turns "
                                    "or --member");
    if (sw_sink_find(s->format) != NULL)
        return cli_error(CLI_USAGE, "--replan goes out as text or json (got --format %s)",
                         s->format);
    if (file_same(s->out, s->file) || file_same(s->html, s->file))
        return cli_error(CLI_USAGE, "%s is a file that is read", s->file);
    if ((s->out != NULL && strcmp(s->out, "-") == 0) ||
        (s->html != NULL && strcmp(s->html, "-") == 0))
        return cli_error(CLI_USAGE,
                         "--out and --html must be files (got -): the report goes to "
                         "standard output");
    if (file_same(s->out, s->html))
        return cli_error(CLI_USAGE, "--out and --html name one file");
    if (s->diff != NULL && s->limits.increase == NULL)
        return cli_error(CLI_USAGE, "with --replan --diff BASE is for --fail-on-increase");
    const int limits = report_limits_read(&s->limits, s->diff != NULL);
    return limits == CLI_GO ? report_replan(s) : limits;
}

/* A rank each. */
static int run_several(const report_settings *s, int n)
{
    if (s->by != NULL || s->steps != NULL || s->live || s->turns != NULL || s->member != NULL ||
        s->diff != NULL || s->html != NULL || s->out != NULL || s->replan ||
        sw_sink_find(s->format) != NULL || report_gate_asked(&s->limits))
        return cli_error(CLI_USAGE,
                         "several files are one table, as text or json%s: of the other "
                         "options --device and --ascii go with them",
                         s->replan ? " (got --replan, which takes one file)" : "");
    bool foreign;
    CLI_LIBRARY(snapshot_is(s->files[0], &foreign), true);
    return foreign ? report_ranks(s, n) : report_rank_profiles(s, n);
}

/* The first steps, for people who have no file yet. */
static int say_how(void)
{
    const int code = cli_error(CLI_USAGE, "FILE must be given: a profile, or a snapshot of "
                                          "PyTorch; usage: stepwell report FILE [options]");
    fputs(
        "  A PyTorch run on a card records one in three lines:\n"
        "    torch.cuda.memory._record_memory_history()           # before the model is made\n"
        "    ...                                                  # a few steps\n"
        "    torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")\n"
        "  stepwell report snapshot.pickle --replan says where the memory went, and what would "
        "help.\n",
        stderr);
    return code;
}

static int run(report_settings *s)
{
    report_steps_wanted steps;
    bool population = false;
    if (s->replan)
        return run_replan(s);
    if (s->device >= 0)
        return cli_error(CLI_USAGE, "--device is for --replan");
    int status = s->live ? CLI_GO : report_is_population(s->file, &population);
    if (population || status != CLI_GO)
        return population ? report_population(s) : status;
    status = check(s);
    const char *rest = s->steps != NULL ? read_step(s->steps, &steps.at[0]) : NULL;
    rest = rest != NULL && *rest == ',' ? read_step(rest + 1, &steps.at[1]) : NULL;
    if (status == CLI_GO && s->steps != NULL && (rest == NULL || *rest != '\0'))
        return cli_error(CLI_USAGE,
                         "--steps must be two steps such as 1,2 or 20,eval:20 (got '%s')",
                         s->steps);
    if (status == CLI_GO)
        status = report_limits_read(&s->limits, s->diff != NULL);
    if (status != CLI_GO)
        return status;
    if (s->live)
        return top_file(s->file, s->json);
    if (s->html != NULL)
        return report_export(s->file, s->diff, "html", s->html);
    if (is_export(s))
        return report_export(s->file, s->diff, s->format, s->out);
    if (s->steps != NULL || s->diff != NULL)
        return report_two(s, s->steps != NULL ? &steps : NULL);
    return report_file(s);
}

static const char notes[] =
    "FILE is what --profile FILE of `stepwell train`, `es` or `pbt` wrote, or a PyTorch memory "
    "snapshot, also compressed (.gz). Several snapshots, of a rank each, are one table, the "
    "largest first; its --json has tool and devices with file, device, reserved_bytes, "
    "requested_bytes, role, role_bytes (what most of the peak is), phase and out_of_memory. "
    "Several profiles, of a rank each of one run (F, F.r1, F.r2), are one too, by rank: tool, "
    "n_ranks, ranks with rank, host, file, runs, predicted_bytes, measured_bytes, sent_bytes, "
    "waited_ns, wall_ns, status. A report of F has the same `ranks`.\n"
    "With --diff A is FILE, B is OTHER and differences are A - B: what FILE has more. With "
    "--steps they are B - A. Lines by role, layer, maker and tensor add up to the difference "
    "of the peaks. --fail-on-increase judges the same difference: FILE is the new run and "
    "OTHER its base. The peak of a run is the highest that was measured, in training or "
    "evaluation, else the highest predicted; reports and tables are of the program that holds "
    "it.\n"
    "A profile that is damaged after its first line is reported up to there, in JSON with "
    "\"damaged\". Exit status: 0 done, 1 a limit is exceeded, a step is not there or the "
    "output cannot be written, 2 wrong usage, 3 a damaged or foreign file, 130 interrupted.\n"
    "With --replan, --max-peak limits the least that any allocator needs; --diff with "
    "--fail-on-increase limits its growth, and that of the bytes reserved above it. Its --json "
    "has file, tool, devices and gate: tools/docs/replan.md has the members, and those of the "
    "file of --out.\n"
    "With --json standard output has one object, or nothing when FILE was refused; what is not "
    "known is null. Its keys: file, tool, model, device, data, normalise, batch, seed, "
    "created, command; steps and training_runs that are in the file, all_steps of the run, "
    "part (1), evaluations, finished, status, error, cut, goes_on (false), dropped_events, "
    "damaged, wall_ns; of the program that holds the peak predicted and measured, for each "
    "phase its peak_bytes and end_bytes, measured_by, measured_peak_bytes, "
    "predicted_peak_bytes, model_bytes, arena_bytes, data_bytes, total_bytes, "
    "lower_bound_bytes, program_host_bytes (of the program's records, beside the total), peak "
    "(its program, what is live there), slowest_ops, ops_mean_ns; equal, witnesses, faults, "
    "first_fault, median_ns, median_step_ns, warm_steps, allocations_after_warmup, host_bytes, "
    "process_bytes, immediate_runs, unplanned_runs, process, denied, growth, waterfall, heap, "
    "devices (the memory of cards), programs, rows (steps), peaks (where the peak goes), and "
    "gate where a limit was given; of a PyTorch snapshot step_phases, for each training step "
    "that frames show the most that lived in each phase.\n"
    "With --diff and --steps too: a, b, newer (a or b: differences are that side less the "
    "other), peak_difference_bytes, and peak_bytes, end_bytes, same_program (with --steps), "
    "totals, roles, layers, ops, tensors, process and ns, whose members have a, b, difference "
    "and, of sums, share. With --by too: file, tool, by, program, at_peak_bytes, "
    "measured_peak_bytes, peak_op, peak_position, rows with the columns of --format csv, "
    "damaged.\n"
    "Of a population: n_members, scores, turns and of the last one turn, members, values, "
    "budget (kind, number, shape, layer, role, bytes: every byte, so they add up to "
    "measured_bytes) and shapes, whose parts and step_arena have layers and roles. With "
    "--member parts and step_arena of one; with --turns and --diff a, b, totals, members and "
    "values.";

int tool_report(int argc, char **argv)
{
    report_settings s = {.limits.max_peak = REPORT_NO_LIMIT, .device = -1};
    const cli_option options[] = {
        {"--format", "NAME", CLI_WORD, &s.format, "text",
         "text, json, or one of --list-formats, for the tools that read those", 0, 0,
         report_formats()},
        {"--list-formats", NULL, CLI_FLAG, &s.list, NULL, "list the formats"},
        {"--out", "FILE", CLI_WORD, &s.out, NULL,
         "file for any listed format but text and json (default standard output); with "
         "--replan for the plan's offsets"},
        {"--bytes", NULL, CLI_FLAG, &s.style.exact, NULL, "exact bytes instead of KiB and MiB"},
        {"--json", NULL, CLI_FLAG, &s.json, NULL, "the same as --format json"},
        {"--quiet", NULL, CLI_FLAG, &s.style.quiet, NULL, "no notes"},
        {"--diff", "OTHER", CLI_WORD, &s.diff, NULL,
         "two runs side by side: rows add up to the difference"},
        {"--live", NULL, CLI_FLAG, &s.live, NULL,
         "watch a running training, as stepwell top does"},
        {"--html", "OUT", CLI_WORD, &s.html, NULL,
         "write a page for a browser, of one file, or with --diff of two runs; the same as "
         "--format html --out OUT"},
        {"--steps", "A,B", CLI_WORD, &s.steps, NULL,
         "why step B uses more than step A, tensor by tensor; eval:B is an evaluation"},
        {"--turns", "A,B", CLI_WORD, &s.turns, NULL,
         "of a population: how turn B differs from turn A, member by member"},
        {"--member", "K", CLI_WORD, &s.member, NULL,
         "of a population: member K alone, by layer and role"},
        {"--replan", NULL, CLI_FLAG, &s.replan, NULL,
         "of a PyTorch snapshot: why its allocator reserved what it did, the least that any "
         "needs, and how low a plan is"},
        {"--device", "N", CLI_COUNT, &s.device, NULL, "with --replan: this device alone", 0,
         1023},
        {"--by", "WHAT", CLI_WORD, &s.by, NULL,
         "one table, by layer, role, type, op or phase; as text, json or csv", 0, 0,
         report_by_words},
        {"--max-peak", "SIZE", CLI_BYTES, &s.limits.max_peak, NULL,
         "fail when the peak of FILE is above SIZE"},
        {"--fail-on-increase", "X", CLI_WORD, &s.limits.increase, NULL,
         "with --diff: fail when the peak of FILE exceeds that of OTHER by more than X, such "
         "as 2% or 1MiB"},
        {"--ascii", NULL, CLI_FLAG, &s.ascii, NULL, "draw bars with ASCII characters"},
    };
    const cli_command command =
        SW_INIT(.name = "report", .usage = "FILE... [options]",
                .about =
                    "Show what a profile says: the memory of each phase, planned and measured.",
                .options = options, .n_options = (int)(sizeof options / sizeof *options),
                .operand = s.files, .max_operands = REPORT_FILES, .notes = notes);
    const int status = cli_parse(&command, argc, argv);
    if (status != CLI_GO)
        return status;
    if (s.list)
        return report_list_formats();
    int n = 0;
    while (n < REPORT_FILES && s.files[n] != NULL)
        n++;
    s.file = s.files[0];
    if (n == 0)
        return say_how();
    const sw_writer to = cli_writer(stdout);
    s.style.ascii = s.ascii || !cli_utf8();
    s.style.to = &to;
    s.json |= strcmp(s.format, "json") == 0;
    return n > 1 ? run_several(&s, n) : run(&s);
}
