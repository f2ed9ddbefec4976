/* Each device of a snapshot, planned again. */
#include "tools/report/report_replan.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/inspect/replan/replan.h"
#include "tools/cli/cli.h"
#include "tools/report/replan_page.h"
#include <stdlib.h>
#include <string.h>

/* Of all devices that were asked for. */
typedef struct {
    uint64_t bound; /* the least that any allocator needs */
    uint64_t loss;  /* what was reserved above that; of a profile 0, as it has no segments */
    uint64_t devices[SNAPSHOT_DEVICES / 64]; /* bits */
    bool segments;
} sums;

/* A device of several files. */
typedef struct {
    const char *file;
    int64_t device;
    uint64_t reserved, most; /* 0: no segments; requested */
    replan_role role;        /* that has the most at the peak */
    char name[40];           /* of it */
    const char *phase;       /* of the peak; NULL: not known */
    bool oom;
} rank;

typedef struct {
    const report_replan_asked *asked;
    snapshot_trace *traces;
    uint32_t n_traces, cap_traces;
    sums sums, base;
    sw_json report, offsets;
    svg page;
    const char *file; /* of several, which has all of these: */
    rank *ranks;
    uint32_t n_ranks, cap_ranks;
    bool said; /* a device */
    bool read; /* what fails from here on is not the file's fault */
} run;

static bool stopped(void *context)
{
    (void)context;
    return cli_interrupted();
}

/* The traces of the devices that are asked for. The file is closed after them: its tree takes
 * more memory than all that follows. */
static sw_status read_traces(run *r, const snapshot_file *f)
{
    uint64_t devices[SNAPSHOT_DEVICES / 64];
    const int64_t asked = r->asked->device;
    SW_TRY(snapshot_trace_devices(f, devices));
    for (int64_t d = 0; d < SNAPSHOT_DEVICES; d++) {
        if ((devices[d / 64] >> d % 64 & 1) == 0 || (asked >= 0 && asked != d))
            continue;
        SW_TRY(sw_heap_reserve(&r->traces, SW_HEAP_PROFILE, &r->cap_traces, r->n_traces + 1,
                               sizeof *r->traces));
        SW_TRY(snapshot_trace_read(&r->traces[r->n_traces++], f, d));
    }
    if (r->n_traces == 0 && asked >= 0)
        SW_FAIL(SW_INVALID, "%s: there is no device %lld in it", f->path, (long long)asked);
    if (r->n_traces == 0)
        SW_FAIL(SW_FORMAT, "%s: there are no segments and no events in it", f->path);
    return SW_OK;
}

static sw_status refuse_own(const char *path)
{
    SW_FAIL(SW_FORMAT,
            "%s: it must be a snapshot that PyTorch wrote (got an export of stepwell, whose "
            "memory is planned already): stepwell report %s shows it",
            path, path);
}

/* A file that does not even begin like a snapshot has no byte that is wrong. */
static sw_status explain(const char *path, sw_status status)
{
    bool is = true;
    char why[512];
    snprintf(why, sizeof why, "%s", sw_last_error());
    SW_TRY(snapshot_is(path, &is));
    if (is)
        SW_FAIL(status, "%s", why);
    SW_FAIL(status,
            "%s: it must be a PyTorch snapshot, a pickle or its JSON (got something "
            "else); other files are reported without --replan",
            path);
}

static sw_status read_file(run *r, const char *path)
{
    snapshot_file f;
    sw_status status = snapshot_file_open(&f, path);
    if (status == SW_FORMAT)
        status = explain(path, status);
    if (status == SW_OK)
        status = f.own ? refuse_own(path) : read_traces(r, &f);
    snapshot_file_close(&f);
    return status;
}

static void free_traces(run *r)
{
    for (uint32_t i = 0; i < r->n_traces; i++)
        snapshot_trace_free(&r->traces[i]);
    r->n_traces = 0;
}

static void add(sums *to, const replan *of)
{
    to->bound += of->whole.most;
    to->devices[of->trace.device / 64] |= UINT64_C(1) << of->trace.device % 64;
    to->segments |= of->replayed;
    if (of->replayed && of->reserved > of->whole.most)
        to->loss += of->reserved - of->whole.most;
}

static sw_status add_base(run *r, const replan *of)
{
    add(&r->base, of);
    return SW_OK;
}

static sw_status say(run *r, const replan *of)
{
    add(&r->sums, of);
    if (r->asked->html != NULL)
        SW_TRY(replan_page_add(&r->page, of));
    if (r->asked->json) {
        sw_json_begin(&r->report, '{');
        replan_put_json(&r->report, of);
        sw_json_end(&r->report);
    } else {
        if (r->said)
            sw_writer_text(r->asked->style->to, "\n");
        replan_print_text(of, r->asked->style);
        r->said = true;
    }
    if (r->asked->out == NULL)
        return SW_OK;
    sw_json_begin(&r->offsets, '{');
    replan_put_offsets(&r->offsets, of);
    sw_json_end(&r->offsets);
    return SW_OK;
}

static sw_status plan_devices(run *r, sw_status (*take)(run *r, const replan *of))
{
    for (uint32_t i = 0; i < r->n_traces; i++) {
        replan of;
        sw_status status = replan_make(&of, &r->traces[i], stopped, NULL);
        if (status == SW_OK && cli_interrupted())
            cli_note("interrupted: plans are as low as they were by then");
        if (status == SW_OK)
            status = take(r, &of);
        replan_free(&of);
        SW_TRY(status);
    }
    free_traces(r);
    return SW_OK;
}

static sw_status write_offsets(void *context, sw_file *file)
{
    const sw_json *j = context;
    return sw_file_write(file, j->bytes, j->used);
}

static void begin_json(sw_json *j, const char *path)
{
    sw_json_growing(j, SW_HEAP_PROFILE);
    sw_json_begin(j, '{');
    if (path != NULL)
        sw_json_put_string(j, "file", path);
    sw_json_put_string(j, "tool", "pytorch");
    sw_json_open(j, "devices", '[');
}

static sw_status end_json(sw_json *j)
{
    sw_json_end(j);
    sw_json_end(j);
    sw_json_line(j);
    return j->status;
}

/* Sums over other devices say nothing, nor do those of another kind. */
static sw_status plan_base(run *r)
{
    const char *file = r->asked->file, *base = r->asked->base;
    SW_TRY(read_file(r, base));
    SW_TRY(plan_devices(r, add_base));
    if (r->sums.segments != r->base.segments)
        SW_FAIL(SW_INVALID,
                "%s and %s must be of one kind (got a profile and a snapshot of a device)",
                file, base);
    if (memcmp(r->sums.devices, r->base.devices, sizeof r->sums.devices) != 0)
        SW_FAIL(SW_INVALID, "%s and %s must have the same devices: --device N compares one",
                file, base);
    return SW_OK;
}

/* ---- limits ------------------------------------------------------------------------------ */

static void put_gate(run *r)
{
    const report_limits *l = r->asked->limits;
    const bool above = l->max_peak != REPORT_NO_LIMIT && r->sums.bound > l->max_peak;
    if (!report_gate_asked(l) || cli_interrupted())
        return;
    sw_json_open(&r->report, "gate", '{');
    sw_json_put_bool(&r->report, "failed",
                     above || report_limits_grown(l, r->sums.bound, r->base.bound) ||
                         report_limits_grown(l, r->sums.loss, r->base.loss));
    sw_json_put_u64(&r->report, "bound_bytes", r->sums.bound);
    sw_json_put_u64(&r->report, "loss_bytes", r->sums.loss);
    sw_json_put_known(&r->report, "base_bound_bytes", r->asked->base != NULL, r->base.bound);
    sw_json_put_known(&r->report, "base_loss_bytes", r->asked->base != NULL, r->base.loss);
    sw_json_end(&r->report);
}

static int judge_one(const run *r, const char *what, uint64_t now, uint64_t base)
{
    const report_limits *l = r->asked->limits;
    if (!report_limits_grown(l, now, base))
        return CLI_DONE;
    return cli_error(CLI_FAILED,
                     "%s: %s of %s bytes is %s above the %s of %s, more than "
                     "--fail-on-increase %s",
                     r->asked->file, what, cli_digits(now).text, cli_digits(now - base).text,
                     cli_digits(base).text, r->asked->base, l->increase);
}

static int judge(const run *r)
{
    const report_limits *l = r->asked->limits;
    int code = CLI_DONE;
    cli_flush();
    if (l->max_peak != REPORT_NO_LIMIT && r->sums.bound > l->max_peak)
        code = cli_error(CLI_FAILED, "%s: the least of %s bytes is above --max-peak %s",
                         r->asked->file, cli_digits(r->sums.bound).text,
                         cli_digits(l->max_peak).text);
    const int bound = judge_one(r, "the least", r->sums.bound, r->base.bound),
              loss = judge_one(r, "the loss (reserved above the least)", r->sums.loss,
                               r->base.loss);
    return code != CLI_DONE ? code : bound != CLI_DONE ? bound : loss;
}

static sw_status run_all(run *r)
{
    SW_TRY(read_file(r, r->asked->file));
    cli_catch_interrupt(); /* before that nothing is lost */
    begin_json(&r->report, r->asked->file);
    begin_json(&r->offsets, r->asked->file);
    if (r->asked->html != NULL)
        replan_page_begin(&r->page, r->asked->file);
    SW_TRY(plan_devices(r, say));
    if (r->asked->base != NULL && !cli_interrupted())
        SW_TRY(plan_base(r));
    r->read = true;
    sw_json_end(&r->report);
    put_gate(r);
    sw_json_end(&r->report);
    sw_json_line(&r->report);
    SW_TRY(r->report.status);
    SW_TRY(end_json(&r->offsets));
    if (r->asked->json)
        fwrite(r->report.bytes, 1, r->report.used, stdout);
    if (r->asked->html != NULL) {
        replan_page_end(&r->page);
        SW_TRY(r->page.status);
        SW_TRY(svg_save(&r->page, r->asked->html));
    }
    return r->asked->out != NULL
               ? cli_saved(sw_file_replace(r->asked->out, write_offsets, &r->offsets))
               : SW_OK;
}

static void free_run(run *r)
{
    svg_free(&r->page);
    sw_json_free(&r->offsets);
    sw_json_free(&r->report);
    free_traces(r);
    sw_heap_free(r->traces, SW_HEAP_PROFILE, r->cap_traces * sizeof *r->traces);
    sw_heap_free(r->ranks, SW_HEAP_PROFILE, r->cap_ranks * sizeof *r->ranks);
}

int report_replan(const report_replan_asked *asked)
{
    run r = {.asked = asked};
    const sw_status status = run_all(&r);
    const int code = status == SW_OK
                         ? cli_finish(cli_interrupted() ? CLI_INTERRUPTED : judge(&r))
                         : cli_library_error(status, !r.read);
    free_run(&r);
    return code;
}

/* ---- several files ----------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    const uint64_t of_x = x->reserved > x->most ? x->reserved : x->most,
                   of_y = y->reserved > y->most ? y->reserved : y->most;
    if (of_x != of_y)
        return of_x < of_y ? 1 : -1;
    const int names = strcmp(x->file, y->file);
    return names != 0 ? names : (x->device > y->device) - (x->device < y->device);
}

static sw_status add_rank(run *r, const replan *of)
{
    const int phase = of->roles.phase[of->whole.position];
    SW_TRY(sw_heap_reserve(&r->ranks, SW_HEAP_PROFILE, &r->cap_ranks, r->n_ranks + 1,
                           sizeof *r->ranks));
    rank *x = &r->ranks[r->n_ranks++];
    *x = (rank){r->file,
                of->trace.device,
                of->replayed ? of->reserved : 0,
                of->whole.most,
                of->at_peak[0],
                "",
                phase >= 0 ? sw_prof_phase_name(phase) : NULL,
                of->oom.there};
    snprintf(x->name, sizeof x->name, "%s", of->n_roles > 0 ? x->role.role : "");
    return SW_OK;
}

static sw_status put_ranks(run *of)
{
    sw_json *j = &of->report;
    begin_json(j, NULL);
    for (uint32_t i = 0; i < of->n_ranks; i++) {
        const rank *x = &of->ranks[i];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "file", x->file);
        sw_json_put_i64(j, "device", x->device);
        sw_json_put_known(j, "reserved_bytes", x->reserved > 0, x->reserved);
        sw_json_put_u64(j, "requested_bytes", x->most);
        sw_json_put_string(j, "role", x->name[0] != '\0' ? x->name : NULL);
        sw_json_put_u64(j, "role_bytes", x->role.bytes);
        sw_json_put_string(j, "phase", x->phase);
        sw_json_put_bool(j, "out_of_memory", x->oom);
        sw_json_end(j);
    }
    SW_TRY(end_json(j));
    fwrite(j->bytes, 1, j->used, stdout);
    return SW_OK;
}

int report_ranks(const report_replan_asked *asked, const char *const *files, int n)
{
    run r = {.asked = asked};
    sw_status status = SW_OK;
    for (int i = 0; i < n && status == SW_OK; i++) {
        r.file = files[i];
        status = read_file(&r, r.file);
        if (status == SW_OK)
            status = plan_devices(&r, add_rank);
    }
    const bool read = status == SW_OK;
    if (r.n_ranks > 0)
        qsort(r.ranks, r.n_ranks, sizeof *r.ranks, by_size);
    if (read && asked->json)
        status = put_ranks(&r);
    else if (read) {
        sw_writer_print(asked->style->to, "%16s %16s %-9s %-15s %5s  file, device\n",
                        "reserved", "requested", "phase", "most of it", "");
        for (uint32_t j = 0; j < r.n_ranks; j++) {
            const rank *x = &r.ranks[j];
            const double share = x->most > 0 ? (double)x->role.bytes / (double)x->most : 0.0;
            sw_writer_print(asked->style->to, "%16s %16s %-9s %-15s %3.0f %%  %s, %lld%s\n",
                            cli_digits(x->reserved).text, cli_digits(x->most).text,
                            x->phase != NULL ? x->phase : "-",
                            x->name[0] != '\0' ? x->name : "-", 100.0 * share, x->file,
                            (long long)x->device, x->oom ? ": out of memory" : "");
        }
    }
    const int code = status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, !read);
    free_run(&r);
    return code;
}
