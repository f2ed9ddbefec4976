/* stepwell report SNAPSHOT --replan: each device of a snapshot, planned again, and the page of
 * it. The page shows the steady step where one was found, else the whole trace; time is counted
 * in events. It needs no other file and no script. */
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "alloc/base/sys.h"
#include "profiler/inspect/replan/replan.h"
#include "tools/cli/cli.h"
#include "tools/cli/svg.h"
#include "tools/report/report_settings.h"
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1200, PANEL_H = 430, PLOT_H = 370, LEFT = 120, PLOT_W = 1060, MOST = 6000 };

typedef struct {
    uint64_t area;
    uint32_t life;
} shown;

typedef struct {
    svg *to;
    const replan *r;
    address_space space;              /* of PyTorch's addresses */
    uint64_t recorded, planned, high; /* bytes: of each panel, and of the axis of both */
    uint32_t from, until;             /* positions */
    shown *lives;
    uint32_t n, left_out;
    bool step;
} page;

/* ---- what is shown ----------------------------------------------------------------------- */

static sw_status add_range(page *p, uint64_t address, uint64_t bytes)
{
    return bytes > 0 ? address_space_add(&p->space, address, bytes) : SW_OK;
}

SW_ORDER(by_area, shown, SW_FALLS(area), SW_RISES(life))

/* ---- panels ------------------------------------------------------------------------------ */

static long long x_of(const page *p, uint32_t position)
{
    const double part = (double)(position - p->from) / (double)(p->until - p->from);
    return 100 * LEFT + (long long)(100.0 * PLOT_W * part);
}

static long long y_of(const page *p, uint64_t bytes)
{
    return 100 * (PLOT_H + 30) - (long long)(100.0 * PLOT_H * (double)bytes / (double)p->high);
}

static void axis(const page *p, const char *title)
{
    svg_tick ticks[SVG_TICKS];
    const svg_axis bytes =
        svg_axis_of(0.0, (double)p->high / 1048576.0, false, PLOT_H + 30, -PLOT_H);
    const int n = svg_ticks(&bytes, 6, ticks);
    svg_open_text(p->to, "big", 100 * LEFT, 2000);
    svg_escaped(p->to, title);
    svg_print(p->to, "</text>\n");
    for (int i = 0; i < n; i++) {
        const long long y = svg_at(&bytes, ticks[i].value);
        svg_grid_line(p->to, 100 * LEFT, y, 100 * (LEFT + PLOT_W), y);
        svg_open_text(p->to, "axis", 100 * (LEFT - 8), y + 400);
        svg_print(p->to, "%s MiB</text>\n", ticks[i].text);
    }
}

static void rectangle(const page *p, const trace_life *x, uint64_t offset)
{
    const uint32_t from = x->born > p->from ? x->born : p->from,
                   to = x->dead < p->until ? x->dead : p->until;
    const long long left = x_of(p, from), top = y_of(p, offset + x->bytes);
    svg_print(p->to, "<rect class=\"s\" fill=\"hsl(%u 55%% 68%%)\"", x->stack * 47 % 360);
    svg_length(p->to, "x", left);
    svg_length(p->to, "y", top);
    svg_length(p->to, "width", x_of(p, to) - left);
    svg_length(p->to, "height", y_of(p, offset) - top);
    svg_print(p->to, "><title>");
    svg_escaped(p->to, replan_who(&p->r->trace, x->stack));
    svg_print(p->to, ": %s bytes, from event %s to %s</title></rect>\n",
              cli_digits(x->bytes).text,
              x->born > 0 ? cli_digits(p->r->trace.events[x->born - 1].number).text
                          : "before the trace",
              x->dead < p->r->lives.n_positions
                  ? cli_digits(p->r->trace.events[x->dead - 1].number).text
                  : "the end");
}

static void panel(const page *p, bool planned, const char *title)
{
    svg_open(p->to, WIDTH, PANEL_H, false);
    axis(p, title);
    for (uint32_t i = 0; i < p->n; i++) {
        const trace_life *x = &p->r->lives.all[p->lives[i].life];
        uint64_t at = address_space_offset(&p->space, x->address);
        if (planned)
            at = p->step ? x->step_offset : x->offset;
        for (uint32_t k = 0; planned && k < x->arena; k++) /* arenas stand one on the other */
            at += p->step ? p->r->lives.arenas[k].step_height : p->r->lives.arenas[k].height;
        rectangle(p, x, at);
    }
    svg_print(p->to, "</svg>\n");
}

/* ---- the page ---------------------------------------------------------------------------- */

static void put_text(void *context, const char *bytes, size_t n)
{
    char piece[256];
    for (size_t i = 0; i < n;) {
        size_t k = 0;
        while (i < n && k + 1 < sizeof piece) {
            piece[k++] = bytes[i];
            i++;
            if (bytes[i - 1] == '\n')
                break;
        }
        const bool line = k > 0 && piece[k - 1] == '\n';
        piece[line ? k - 1 : k] = '\0';
        svg_escaped(context, piece);
        if (line)
            svg_put(context, "\n", 1);
    }
}

static sw_status add(page *p)
{
    const replan *r = p->r;
    p->step = r->steady;
    p->from = p->step ? r->period.from : 0;
    p->until = p->step ? r->period.to : r->lives.n_positions;
    p->planned = p->step ? r->step.height : r->whole.height;
    /* The largest, by bytes and time. */
    const trace_lives *l = &p->r->lives;
    for (uint32_t i = 0; i < l->n; i++) {
        const trace_life *x = &l->all[i];
        const uint32_t from = x->born > p->from ? x->born : p->from,
                       to = x->dead < p->until ? x->dead : p->until;
        if (from < to)
            p->lives[p->n++] = (shown){(x->bytes >> 8) * (to - from), i};
    }
    if (p->n > 0)
        qsort(p->lives, p->n, sizeof *p->lives, by_area);
    if (p->n > MOST) {
        p->left_out = p->n - MOST;
        p->n = MOST;
    }
    /* Segments that there ever were; of a profile, which has none, what lives in what is
     * shown. */
    const snapshot_trace *t = &p->r->trace;
    for (uint32_t j = 0; p->r->replayed && j < p->r->trace.start.n_segments; j++)
        SW_TRY(add_range(p, p->r->trace.start.segments[j].address,
                         p->r->trace.start.segments[j].bytes));
    for (uint32_t j = 0; j < t->n_events; j++)
        if (t->events[j].action == TRACE_SEGMENT_ALLOC ||
            t->events[j].action == TRACE_SEGMENT_MAP)
            SW_TRY(add_range(p, t->events[j].address, t->events[j].bytes));
    for (uint32_t j = 0; j < p->n; j++) {
        const trace_life *x = &p->r->lives.all[p->lives[j].life];
        SW_TRY(add_range(p, x->address, x->bytes));
    }
    address_space_close_up(&p->space);
    for (uint32_t j = 0; j < p->space.n; j++) {
        const address_range *x = &p->space.ranges[j];
        const uint64_t end = x->offset + (x->to - x->from);
        p->recorded = end > p->recorded ? end : p->recorded;
    }

    p->high = p->recorded > p->planned ? p->recorded : p->planned;
    if (p->n > 0) {
        char title[200];
        const uint64_t reserved = p->step ? p->r->step_reserved : p->r->reserved;
        if (p->r->replayed)
            snprintf(title, sizeof title, "PyTorch's addresses: %s bytes reserved",
                     cli_digits(reserved).text);
        else
            snprintf(title, sizeof title, "PyTorch's addresses: %s bytes are used at some time",
                     cli_digits(p->recorded).text);
        panel(p, false, title);
        snprintf(title, sizeof title, "planned: %s bytes", cli_digits(p->planned).text);
        panel(p, true, title);
        svg_print(p->to,
                  "<p>%s: %s events, from left to right. A rectangle is an allocation; its "
                  "colour is who asked for it, and its text says who.",
                  p->step ? "One steady step" : "The whole trace",
                  cli_digits(p->until - p->from).text);
        if (p->left_out > 0)
            svg_print(p->to, " The %s smallest are left out.", cli_digits(p->left_out).text);
        svg_print(p->to, "</p>\n");
    }
    return p->to->status;
}

/* ---- devices ----------------------------------------------------------------------------- */

/* Of all devices that were asked for. */
typedef struct {
    uint64_t bound; /* the least that any allocator needs */
    uint64_t loss;  /* what was reserved above that; of a profile 0, as it has no segments */
    uint64_t devices[SNAPSHOT_DEVICES / 64]; /* bits */
    bool segments;
} sums;

/* A device of several files. */
typedef struct {
    const char *file, *phase; /* phase: of the peak; NULL: not known */
    int64_t device;
    uint64_t reserved_bytes, requested_bytes, role_bytes; /* reserved 0: no segments */
    char role[40];                                        /* that has the most at the peak */
    double share;
    bool out_of_memory;
} rank;

typedef struct {
    const report_settings *asked;
    snapshot_trace *traces;
    uint32_t n_traces, cap_traces;
    sums sums, base;
    report_limits no_max;
    report_gate bound, loss;
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
        SW_TRY(sw_heap_reserve(&r->traces, SW_HEAP_PROFILE, &r->cap_traces, r->n_traces + 1));
        SW_TRY(snapshot_trace_read(&r->traces[r->n_traces++], f, d));
    }
    if (r->n_traces == 0 && asked >= 0)
        SW_FAIL(SW_INVALID, "%s: there is no device %lld in it", f->path, (long long)asked);
    if (r->n_traces == 0)
        SW_FAIL(SW_FORMAT, "%s: there are no segments and no events in it", f->path);
    return SW_OK;
}

static sw_status read_file(run *r, const char *path)
{
    snapshot_file f;
    bool is = true;
    char why[512] = "";
    sw_status status = snapshot_file_open(&f, path);
    const bool own = status == SW_OK && f.own;
    if (status == SW_OK && !own)
        status = read_traces(r, &f);
    else if (status == SW_FORMAT)
        snprintf(why, sizeof why, "%s", sw_last_error());
    snapshot_file_close(&f);
    if (own)
        SW_FAIL(SW_FORMAT,
                "%s: it must be a snapshot that PyTorch wrote (got an export of stepwell, "
                "whose memory is planned already): stepwell report %s shows it",
                path, path);
    if (why[0] == '\0')
        return status;
    /* A file that does not even begin like a snapshot has no byte that is wrong. */
    SW_TRY(snapshot_is(path, &is));
    if (is)
        SW_FAIL(status, "%s", why);
    SW_FAIL(status,
            "%s: it must be a PyTorch snapshot, a pickle or its JSON (got something "
            "else); other files are reported without --replan",
            path);
}

static void free_traces(run *r)
{
    for (uint32_t i = 0; i < r->n_traces; i++)
        snapshot_trace_free(&r->traces[i]);
    r->n_traces = 0;
}

static void add_sums(sums *to, const replan *of)
{
    to->bound += of->whole.most;
    to->devices[of->trace.device / 64] |= UINT64_C(1) << of->trace.device % 64;
    to->segments |= of->replayed;
    if (of->replayed && of->reserved > of->whole.most)
        to->loss += of->reserved - of->whole.most;
}

static sw_status add_base(run *r, const replan *of)
{
    add_sums(&r->base, of);
    return SW_OK;
}

static sw_status say(run *r, const replan *of)
{
    add_sums(&r->sums, of);
    if (r->asked->html != NULL) {
        const sw_writer text = {.put = put_text, .context = &r->page};
        const report_style style = {.ascii = true, .to = &text};
        page p = {.to = &r->page, .r = of};
        svg_print(&r->page, "<pre>");
        replan_print_text(of, &style);
        svg_print(&r->page, "</pre>\n");
        SW_TRY(sw_heap_alloc(&p.lives, SW_HEAP_PROFILE, of->lives.n * sizeof *p.lives));
        const sw_status status = add(&p);
        address_space_free(&p.space);
        sw_heap_free(p.lives, SW_HEAP_PROFILE, of->lives.n * sizeof *p.lives);
        SW_TRY(status);
    }
    if (r->asked->json) {
        sw_json_begin(&r->report, '{');
        replan_put_json(&r->report, of);
        sw_json_end(&r->report);
    } else {
        if (r->said)
            sw_writer_text(r->asked->style.to, "\n");
        replan_print_text(of, &r->asked->style);
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

static void begin_json(sw_json *j, const char *path)
{
    report_begin_object(j);
    sw_json_put_string(j, "file", path);
    sw_json_put_string(j, "tool", "pytorch");
    sw_json_open(j, "devices", '[');
}

/* Sums over other devices say nothing, nor do those of another kind. */
static sw_status plan_base(run *r)
{
    const char *file = r->asked->file, *base = r->asked->diff;
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

static const char page_style[] =
    ", planned again</title>\n<style>\n"
    "body{font-family:sans-serif;max-width:1220px;margin:24px auto;padding:0 12px;"
    "background:#fff;color:#1b1f24}\npre{overflow-x:auto}svg{max-width:100%;"
    "height:auto}\n.axis{text-anchor:end}.axis,.big{fill:#1b1f24}.big{font-size:15px}\n"
    ".grid{stroke:#8a929b;stroke-width:0.6;stroke-dasharray:3 3}\n"
    "rect.s{stroke:#23282e;stroke-width:0.25}rect.s:hover{stroke-width:2}\n"
    "@media (prefers-color-scheme:dark){body{background:#14181d;color:#e4e8ec}"
    ".axis,.big{fill:#e4e8ec}}\n</style>\n</head>\n<body>\n<h1>";

static sw_status run_all(run *r)
{
    SW_TRY(read_file(r, r->asked->file));
    cli_catch_interrupt(); /* before that nothing is lost */
    begin_json(&r->report, r->asked->file);
    begin_json(&r->offsets, r->asked->file);
    if (r->asked->html != NULL) {
        svg_print(&r->page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
                            "charset=\"utf-8\">\n<title>");
        svg_escaped(&r->page, r->asked->file);
        svg_put(&r->page, page_style, sizeof page_style - 1);
        svg_escaped(&r->page, r->asked->file);
        svg_print(&r->page, "</h1>\n");
    }
    SW_TRY(plan_devices(r, say));
    if (r->asked->diff != NULL && !cli_interrupted())
        SW_TRY(plan_base(r));
    r->read = true;
    sw_json_end(&r->report);
    /* Of the loss the increase alone is limited. */
    const report_limits *l = &r->asked->limits;
    const char *file = r->asked->file, *base = r->asked->diff;
    r->no_max = *l;
    r->no_max.max_peak = REPORT_NO_LIMIT;
    r->bound = (report_gate){
        .limits = l,
        .run = {.path = file, .known = true, .what = "least", .bytes = r->sums.bound},
        .base = {.path = base, .known = base != NULL, .bytes = r->base.bound}};
    r->loss = (report_gate){
        .limits = &r->no_max,
        .run = SW_INIT(.path = file, .known = true, .what = "loss (reserved above the least)",
                       .bytes = r->sums.loss),
        .base = {.path = base, .known = base != NULL, .bytes = r->base.loss}};
    if (report_gate_asked(l) && !cli_interrupted()) {
        sw_json_open(&r->report, "gate", '{');
        sw_json_put_bool(&r->report, "failed",
                         report_gate_failed(&r->bound) || report_gate_failed(&r->loss));
        sw_json_put_u64(&r->report, "bound_bytes", r->sums.bound);
        sw_json_put_u64(&r->report, "loss_bytes", r->sums.loss);
        sw_json_put_known(&r->report, "base_bound_bytes", base != NULL, r->base.bound);
        sw_json_put_known(&r->report, "base_loss_bytes", base != NULL, r->base.loss);
        sw_json_end(&r->report);
    }
    sw_json_end(&r->report);
    sw_json_line(&r->report);
    SW_TRY(r->report.status);
    sw_json_end(&r->offsets);
    sw_json_end(&r->offsets);
    sw_json_line(&r->offsets);
    SW_TRY(r->offsets.status);
    if (r->asked->json)
        fwrite(r->report.bytes, 1, r->report.used, stdout);
    if (r->asked->html != NULL) {
        svg_print(&r->page, "</body>\n</html>\n");
        SW_TRY(r->page.status);
        SW_TRY(svg_save(&r->page, r->asked->html));
    }
    return r->asked->out != NULL ? cli_saved(sw_file_replace_bytes(
                                       r->asked->out, r->offsets.bytes, r->offsets.used))
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

int report_replan(const report_settings *asked)
{
    run r = {.asked = asked};
    const sw_status status = run_all(&r);
    int code = CLI_INTERRUPTED;
    if (status == SW_OK && !cli_interrupted()) {
        const int bound = report_gate_judge(&r.bound, false),
                  loss = report_gate_judge(&r.loss, false);
        code = bound != CLI_DONE ? bound : loss;
    }
    code = status == SW_OK ? cli_finish(code) : cli_library_error(status, !r.read);
    free_run(&r);
    return code;
}

/* ---- several files ----------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    const uint64_t of_x = x->reserved_bytes > x->requested_bytes ? x->reserved_bytes
                                                                 : x->requested_bytes,
                   of_y = y->reserved_bytes > y->requested_bytes ? y->reserved_bytes
                                                                 : y->requested_bytes;
    if (of_x != of_y)
        return of_x < of_y ? 1 : -1;
    const int names = strcmp(x->file, y->file);
    return names != 0 ? names : (x->device > y->device) - (x->device < y->device);
}

static sw_status add_rank(run *r, const replan *of)
{
    const int phase = of->lives.roles.phase[of->whole.position];
    SW_TRY(sw_heap_reserve(&r->ranks, SW_HEAP_PROFILE, &r->cap_ranks, r->n_ranks + 1));
    const uint64_t most = of->whole.most, bytes = of->at_peak[0].bytes;
    rank *x = &r->ranks[r->n_ranks++];
    *x = (rank)SW_INIT(.file = r->file, .phase = phase >= 0 ? sw_prof_phase_name(phase) : NULL,
                       .device = of->trace.device,
                       .reserved_bytes = of->replayed ? of->reserved : 0,
                       .requested_bytes = most, .role_bytes = bytes,
                       .share = most > 0 ? (double)bytes / (double)most : 0.0,
                       .out_of_memory = of->oom.there);
    snprintf(x->role, sizeof x->role, "%s", of->n_roles > 0 ? of->at_peak[0].role : "");
    return SW_OK;
}

static const table_column rank_fields[] = {
    FIELDS(rank, file, device), FIELDS_KNOWN(rank, reserved_bytes),
    FIELDS(rank, requested_bytes), FIELDS_KNOWN(rank, role),
    FIELDS(rank, role_bytes, phase, out_of_memory)};
int report_ranks(const report_settings *asked, int n)
{
    run r = {.asked = asked};
    sw_status status = SW_OK;
    for (int i = 0; i < n && status == SW_OK; i++) {
        r.file = asked->files[i];
        status = read_file(&r, r.file);
        if (status == SW_OK)
            status = plan_devices(&r, add_rank);
    }
    const bool read = status == SW_OK;
    if (r.n_ranks > 0)
        qsort(r.ranks, r.n_ranks, sizeof *r.ranks, by_size);
    if (read && asked->json) {
        const table t = TABLE_OF(rank_fields, r.ranks, r.n_ranks);
        report_begin_object(&r.report);
        sw_json_put_string(&r.report, "tool", "pytorch");
        table_put(&r.report, "devices", &t);
        status = report_end_object(&r.report, NULL, &asked->style);
    }
    if (read && !asked->json)
        sw_writer_print(asked->style.to, "%16s %16s %-9s %-15s %5s  file, device\n", "reserved",
                        "requested", "phase", "most of it", "");
    for (uint32_t j = 0; read && !asked->json && j < r.n_ranks; j++) {
        const rank *x = &r.ranks[j];
        sw_writer_print(asked->style.to, "%16s %16s %-9s %-15s %3.0f %%  %s, %lld%s\n",
                        cli_digits(x->reserved_bytes).text, cli_digits(x->requested_bytes).text,
                        x->phase != NULL ? x->phase : "-", x->role[0] != '\0' ? x->role : "-",
                        100.0 * x->share, x->file, (long long)x->device,
                        x->out_of_memory ? ": out of memory" : "");
    }
    const int code = status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, !read);
    free_run(&r);
    return code;
}
