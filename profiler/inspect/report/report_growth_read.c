/* Step records into what grew. */
#include "profiler/inspect/report/report_host.h"
#include "profiler/inspect/profile_members.h"
#include <string.h>

/* ---- counting ---------------------------------------------------------------------------- */

static void count(uint64_t *times, uint64_t *gained, uint64_t *from, uint64_t *to,
                  uint64_t *gap, uint64_t bytes, uint64_t step)
{
    if (*times == 0)
        *from = step;
    else if (step > *to && step - *to > *gap)
        *gap = step - *to;
    *to = step > *to ? step : *to;
    *gained += bytes;
    ++*times;
}

static void look(report_growth *g, uint64_t bytes, uint64_t step, bool settled)
{
    if (!g->known) {
        g->known = true;
        g->first = g->high = bytes;
    }
    g->last = bytes;
    if (bytes <= g->high)
        return;
    const uint64_t more = bytes - g->high;
    g->high = bytes;
    if (settled)
        count(&g->times, &g->gained, &g->from, &g->to, &g->gap, more, step);
    else
        count(&g->weak_times, &g->weak_gained, &g->weak_from, &g->weak_to, &g->weak_gap, more,
              step);
}

/* Into the bins of its sparkline: the last figure of each. */
static void draw(report_series *s)
{
    if (s->stride == 0)
        s->stride = 1;
    if (s->looks / s->stride == REPORT_GROWTH_BINS) {
        for (size_t i = 0; i < REPORT_GROWTH_BINS / 2; i++)
            s->bin[i] = s->bin[2 * i + 1];
        s->stride *= 2;
    }
    const size_t i = (size_t)(s->looks++ / s->stride);
    s->bin[i] = s->growth.last;
    s->n_bins = i + 1;
}

/* ---- records ----------------------------------------------------------------------------- */

static report_line *find_line(report_host *h, const char *at, const char *heap)
{
    for (size_t i = 0; i < h->n_lines; i++)
        if (strcmp(h->lines[i].at, at) == 0 && strcmp(h->lines[i].heap, heap) == 0)
            return &h->lines[i];
    return NULL;
}

static sw_status take_line(report_host *h, const profile_position *p, value o, uint64_t step,
                           bool settled)
{
    /* It has held nothing before, but for what is there when the file begins. */
    report_line x = {.growth = {.known = h->records > 0}};
    uint64_t bytes;
    if (!value_is_dict(o))
        return profile_wrong(p, "places", "a list of places");
    SW_TRY(profile_get_text(p, o, "at", x.at, sizeof x.at));
    SW_TRY(profile_get_text(p, o, "heap", x.heap, sizeof x.heap));
    SW_TRY(profile_need_u64(p, o, "bytes", &bytes));
    report_line *line = find_line(h, x.at, x.heap);
    if (line == NULL && h->n_lines == REPORT_LINES)
        return SW_OK;
    if (line == NULL) {
        SW_TRY(sw_heap_reserve(&h->lines, SW_HEAP_PROFILE, &h->cap_lines, h->n_lines + 1,
                               sizeof x));
        line = &h->lines[h->n_lines++];
        *line = x;
    }
    look(&line->growth, bytes, step, settled);
    return SW_OK;
}

static sw_status take_sites(report_host *h, const profile_position *p, uint64_t step,
                            bool settled)
{
    const value sites = value_at(p->record, "places");
    if (sites != 0 && !value_is_list(sites))
        return profile_wrong(p, "places", "a list of places");
    for (size_t i = 0; i < value_count(sites); i++)
        SW_TRY(take_line(h, p, value_item(sites, i), step, settled));
    return SW_OK;
}

/* Members of an object of figures; what is missing has not changed. */
static sw_status take_figures(report_host *h, const profile_position *p, const char *key,
                              const char *const *names, int first, int n, uint64_t step,
                              bool settled)
{
    const value o = value_at(p->record, key);
    if (o == 0)
        return SW_OK;
    if (!value_is_dict(o))
        return profile_wrong(p, key, "an object");
    for (int i = 0; i < n; i++) {
        uint64_t bytes;
        SW_TRY(profile_get_u64(p, o, names[i], 0, &bytes));
        look(&h->series[first + i].growth, bytes, step, settled);
    }
    return SW_OK;
}

static sw_status take_sampled(report_host *h, const profile_position *p, int series,
                              const char *key, uint64_t step)
{
    uint64_t bytes;
    SW_TRY(profile_get_u64(p, p->record, key, UINT64_MAX, &bytes));
    if (bytes == UINT64_MAX)
        return SW_OK;
    look(&h->series[series].growth, bytes, step, !h->sample_unsettled);
    draw(&h->series[series]);
    return SW_OK;
}

/* A run in immediate mode is never called warm: the first ones take what the others use. */
static bool is_settled(report_host *h, const profile_position *p)
{
    const value warm = value_at(p->record, "warm");
    const char *mode = value_text(value_at(p->record, "mode"));
    if (mode != NULL && strcmp(mode, "immediate") == 0)
        return h->immediate++ > 2;
    return value_is_true(warm);
}

sw_status report_take_growth(report_host *h, const profile_position *p)
{
    static const char *const arenas[] = {"model", "data", "step"};
    const char *purposes[SW_HEAP_KINDS];
    uint64_t step;
    SW_TRY(profile_need_u64(p, p->record, "step", &step));
    const bool quiet = is_settled(h, p), settled = quiet && !h->unsettled;
    h->unsettled = !quiet;
    h->sample_unsettled |= !settled;
    h->clock = step > h->clock ? step : h->clock;
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        purposes[i] = sw_heap_name((sw_heap)i);
    SW_TRY(take_figures(h, p, "heap", purposes, REPORT_OF_HEAP, SW_HEAP_KINDS, step, settled));
    SW_TRY(take_figures(h, p, "arenas", arenas, REPORT_OF_MODEL, 3, step, settled));
    SW_TRY(take_sites(h, p, step, settled));
    for (int i = 0; i < REPORT_OF_OTHER; i++)
        if (h->series[i].growth.known)
            draw(&h->series[i]);
    h->records += h->series[REPORT_OF_HEAP].growth.known;
    const bool asked = value_is_number(value_at(p->record, "process_bytes")) ||
                       value_is_number(value_at(p->record, "other_bytes"));
    SW_TRY(take_sampled(h, p, REPORT_OF_OTHER, "other_bytes", step));
    SW_TRY(take_sampled(h, p, REPORT_OF_PROCESS, "process_bytes", step));
    if (asked)
        h->sample_unsettled = false;
    return SW_OK;
}
