/* See replan_page.h. It shows the steady step where one was found, else the whole trace; time
 * is counted in events. The page needs no other file and no script. */
#include "tools/report/replan_page.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/address_space.h"
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

static int by_area(const void *a, const void *b)
{
    const shown *x = a, *y = b;
    if (x->area != y->area)
        return x->area < y->area ? 1 : -1;
    return (x->life > y->life) - (x->life < y->life);
}

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

/* Arenas stand one on the other. */
static uint64_t arena_base(const page *p, uint32_t arena)
{
    uint64_t base = 0;
    for (uint32_t i = 0; i < arena; i++)
        base += p->step ? p->r->lives.arenas[i].step_height : p->r->lives.arenas[i].height;
    return base;
}

static void panel(const page *p, bool planned, const char *title)
{
    svg_open(p->to, WIDTH, PANEL_H, false);
    axis(p, title);
    for (uint32_t i = 0; i < p->n; i++) {
        const trace_life *x = &p->r->lives.all[p->lives[i].life];
        const uint64_t offset = p->step ? x->step_offset : x->offset;
        rectangle(p, x,
                  planned ? arena_base(p, x->arena) + offset
                          : address_space_offset(&p->space, x->address));
    }
    svg_print(p->to, "</svg>\n");
}

/* ---- the page ---------------------------------------------------------------------------- */

void replan_page_begin(svg *to, const char *file)
{
    svg_print(to,
              "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>");
    svg_escaped(to, file);
    svg_print(to,
              ", planned again</title>\n<style>\n"
              "body{font-family:sans-serif;max-width:1220px;margin:24px auto;padding:0 12px;"
              "background:#fff;color:#1b1f24}\npre{overflow-x:auto}svg{max-width:100%%;"
              "height:auto}\n.axis{text-anchor:end}.axis,.big{fill:#1b1f24}"
              ".big{font-size:15px}\n");
    svg_print(to, ".grid{stroke:#8a929b;stroke-width:0.6;stroke-dasharray:3 3}\n"
                  "rect.s{stroke:#23282e;stroke-width:0.25}rect.s:hover{stroke-width:2}\n"
                  "@media (prefers-color-scheme:dark){body{background:#14181d;color:#e4e8ec}"
                  ".axis,.big{fill:#e4e8ec}}\n</style>\n</head>\n<body>\n<h1>");
    svg_escaped(to, file);
    svg_print(to, "</h1>\n");
}

void replan_page_end(svg *to)
{
    svg_print(to, "</body>\n</html>\n");
}

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
    for (uint32_t j = 0; p->r->replayed && j < p->r->start.n_segments; j++)
        SW_TRY(add_range(p, p->r->start.segments[j].address, p->r->start.segments[j].bytes));
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
        svg_print(
            p->to,
            "<p>%s: %s events, from left to right. A rectangle is an allocation; its colour is "
            "who asked for it, and its text says who.",
            p->step ? "One steady step" : "The whole trace",
            cli_digits(p->until - p->from).text);
        if (p->left_out > 0)
            svg_print(p->to, " The %s smallest are left out.", cli_digits(p->left_out).text);
        svg_print(p->to, "</p>\n");
    }
    return p->to->status;
}

sw_status replan_page_add(svg *to, const replan *r)
{
    const sw_writer text = {.put = put_text, .context = to};
    const report_style style = {.ascii = true, .to = &text};
    page p = {.to = to, .r = r};
    svg_print(to, "<pre>");
    replan_print_text(r, &style);
    svg_print(to, "</pre>\n");
    SW_TRY(sw_heap_alloc(&p.lives, SW_HEAP_PROFILE, r->lives.n * sizeof *p.lives));
    const sw_status status = add(&p);
    address_space_free(&p.space);
    sw_heap_free(p.lives, SW_HEAP_PROFILE, r->lives.n * sizeof *p.lives);
    return status;
}
