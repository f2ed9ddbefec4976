/* Does anything grow over steps? A step that neither traced nor planned, nor comes right after
 * one that did, has no reason to raise the highest figure so far: two that do, close to each
 * other, are a leak; a few far apart prove nothing yet. Growth that has stopped by the end is
 * no leak. Steps that plan may take memory, a program each: only many of them in a row are
 * reported.
 *
 * Where the system and the process's own malloc are asked, ten times a second, figures waver:
 * only a larger growth is reported there. */
#include "profiler/inspect/report/report_host.h"

#define FEW 4             /* growths that must be close to each other */
#define CLOSE 8           /* steps between two of a few */
#define WEAK 16           /* growths in steps that may */
#define SAMPLED 3         /* growths of a sampled figure */
#define OTHER_BYTES 32768 /* what the caches of an allocator take and give */
#define PROCESS_TIMES 6   /* of the system's figure: pages come in when first touched */
#define PROCESS_BYTES 1048576

const char *report_series_name(int series)
{
    static const char *const names[] = {"model", "data", "step arena"};
    if (series < REPORT_OF_HEAP)
        return names[series];
    if (series < REPORT_OF_OTHER)
        return sw_heap_name((sw_heap)(series - REPORT_OF_HEAP));
    return series == REPORT_OF_OTHER ? "malloc" : "process";
}

/* ---- judging ----------------------------------------------------------------------------- */

static bool goes_on(uint64_t clock, uint64_t to, uint64_t gap)
{
    return clock - to <= 2 * (gap > 0 ? gap : 1) + 1;
}

static bool grows(const report_host *h, const report_growth *g, uint64_t wanted)
{
    if (g->times >= wanted && goes_on(h->clock, g->to, g->gap) &&
        (g->times >= FEW || g->gap <= CLOSE))
        return true;
    return g->weak_times >= WEAK && goes_on(h->clock, g->weak_to, g->weak_gap);
}

/* The part of the process's growth that the other figures explain. */
static uint64_t explained(const report_host *h)
{
    uint64_t sum = 0;
    for (int i = 0; i < REPORT_OF_PROCESS; i++)
        sum += h->series[i].growth.gained;
    return sum;
}

/* Half of it must have come in the later half, or it levels off. */
static bool levels_off(const report_series *s)
{
    if (s->n_bins < 4)
        return true;
    const uint64_t begin = s->bin[s->n_bins / 4], middle = s->bin[s->n_bins / 2],
                   end = s->bin[s->n_bins - 1];
    return end <= middle || middle <= begin || 3 * (end - middle) < end - begin;
}

bool report_grows(const report_host *h, int series)
{
    const report_series *s = &h->series[series];
    const report_growth *g = &s->growth;
    if (series == REPORT_OF_OTHER)
        return g->gained >= OTHER_BYTES && grows(h, g, SAMPLED);
    if (series != REPORT_OF_PROCESS)
        return grows(h, g, 2);
    const uint64_t known = explained(h);
    return g->gained >= known + PROCESS_BYTES && 2 * known < g->gained &&
           g->times >= PROCESS_TIMES && grows(h, g, PROCESS_TIMES) && !levels_off(s);
}

bool report_line_grows(const report_host *h, const report_line *line)
{
    return grows(h, &line->growth, 2);
}

uint64_t report_per_step(const report_growth *g)
{
    const bool weak = g->times < 2;
    const uint64_t from = weak ? g->weak_from : g->from, to = weak ? g->weak_to : g->to;
    return (weak ? g->weak_gained : g->gained) / (to - from + 1);
}
