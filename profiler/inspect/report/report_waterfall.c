/* Where the bytes are, in two sums. The process as the system counts it: code, stacks, heap,
 * arenas, and bytes that no one claims. The promise of the plan: model, data, and the step
 * arena, which is the live bytes at the peak, lanes that hold no image, rounding up, and holes.
 * Each line is in bytes, and the lines of a sum add up to it. */
#include "profiler/inspect/report/print.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    /* of the process */
    bool told; /* line by line, by a record of the process */
    bool known;
    bool elsewhere; /* the arenas are a card's */
    uint64_t process, system, stacks, heap, rest, arenas, reserved;
    /* of the plan */
    const sw_tl_program *p;
    uint64_t total, tensors, holes;
} waterfall;

static void add_process(waterfall *w, const sw_process *p)
{
    w->told = w->known = true;
    w->process = p->resident_bytes;
    for (size_t i = 0; i < p->n; i++) {
        const sw_process_line *l = &p->line[i];
        uint64_t *to = l->kind == SW_PROCESS_ARENA   ? &w->arenas
                       : l->kind == SW_PROCESS_STACK ? &w->stacks
                       : l->kind == SW_PROCESS_HEAP  ? &w->heap
                       : l->kind == SW_PROCESS_REST  ? &w->rest
                                                     : &w->system;
        *to += l->resident_bytes;
        if (l->kind == SW_PROCESS_ARENA)
            w->reserved += l->mapped_bytes;
    }
}

/* From steps: the process and the heap; arenas as far as they were promised. */
static void add_steps(waterfall *w, const report *r, uint64_t total)
{
    const report_series *s = r->host->series;
    if (!s[REPORT_OF_PROCESS].growth.known)
        return;
    w->known = true;
    w->process = s[REPORT_OF_PROCESS].growth.last;
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        w->heap += s[REPORT_OF_HEAP + i].growth.last;
    if (s[REPORT_OF_OTHER].growth.known)
        w->heap += s[REPORT_OF_OTHER].growth.last;
    w->heap = w->heap < w->process ? w->heap : w->process;
    const uint64_t left = w->process - w->heap;
    w->arenas = w->elsewhere ? 0 : total < left ? total : left;
    w->rest = left - w->arenas;
}

static bool make(waterfall *w, const report *r)
{
    const report_plan *plan = report_peak_plan(r);
    *w = (waterfall){.p = plan != NULL ? report_program(r, plan) : NULL};
    if (r->host == NULL || w->p == NULL || !w->p->has_parts)
        return false;
    const sw_tl_program *x = w->p;
    const uint64_t live = x->peak_bytes - x->model_bytes - x->slot_bytes;
    w->total = x->model_bytes + x->data_bytes + x->arena_bytes;
    w->tensors = live - x->padding_bytes - x->lanes_bytes;
    w->holes = x->arena_bytes - live;
    w->elsewhere = r->host->n_devices > 0;
    if (r->process != NULL)
        add_process(w, r->process);
    else
        add_steps(w, r, w->total);
    return true;
}

/* ---- text -------------------------------------------------------------------------------- */

static void line(const report_style *style, int indent, const char *name, uint64_t bytes,
                 const char *why)
{
    sw_writer_print(style->to, "%*s%-*s%17s%s%s\n", indent, "", 30 - indent, name,
                    sw_text_digits(bytes).text, why[0] != '\0' ? "  " : "", why);
}

void report_print_waterfall(const report *r, const report_style *style)
{
    waterfall w;
    /* figures are exact: their point is that they add up */
    if (!make(&w, r))
        return;
    sw_writer_text(style->to, "\n");
    sw_writer_say(style->to, 0, 2, "%sWhere the bytes are%s, planned for %s",
                  style->to->colour ? "\033[1m" : "", style->to->colour ? "\033[0m" : "",
                  report_program_name(report_peak_plan(r)).text);
    if (w.known) {
        line(style, 2, "process", w.process, "resident, as the system says");
        if (w.told) {
            line(style, 4, "program, libraries, system", w.system, "");
            line(style, 4, "stacks", w.stacks, "");
        }
        line(style, 4, "host heap", w.heap, "");
        line(style, 4, "arenas", w.arenas,
             w.elsewhere ? "they are on the device"
             : w.told    ? "model, data, step"
                         : "as planned");
        line(style, 4, w.told ? "unexplained" : "unattributed", w.rest,
             w.told ? "" : "run train --process for details");
    }
    if (w.told)
        line(style, 2, "reserved", w.reserved, "for arenas, in whole pages");
    line(style, 2, "planned", w.total, "");
    line(style, 4, "model", w.p->model_bytes - w.p->model_padding_bytes, "");
    line(style, 4, "model, alignment", w.p->model_padding_bytes, "");
    line(style, 4, "data", w.p->data_bytes, "");
    line(style, 4, "step arena", w.p->arena_bytes, "");
    line(style, 6, "live at the peak", w.tensors, "");
    line(style, 6, "padding", w.p->lanes_bytes, "lanes that hold no image");
    line(style, 6, "alignment", w.p->padding_bytes, "tensors rounded up");
    line(style, 6, "holes", w.holes, "between tensors at the peak");
}

void report_put_waterfall(sw_json *j, const report *r)
{
    waterfall w;
    if (!sw_json_open_known(j, "waterfall", make(&w, r)))
        return;
    sw_json_put_bool(j, "told_apart", w.told);
    sw_json_put_known(j, "process_bytes", w.known, w.process);
    if (w.told) {
        sw_json_put_u64(j, "system_bytes", w.system);
        sw_json_put_u64(j, "stack_bytes", w.stacks);
        sw_json_put_u64(j, "reserved_bytes", w.reserved);
    }
    if (w.known) {
        sw_json_put_u64(j, "heap_bytes", w.heap);
        sw_json_put_u64(j, "arenas_bytes", w.arenas);
        sw_json_put_u64(j, w.told ? "unexplained_bytes" : "rest_bytes", w.rest);
    }
    sw_json_put_u64(j, "planned_bytes", w.total);
    sw_json_put_u64(j, "model_bytes", w.p->model_bytes);
    sw_json_put_u64(j, "model_alignment_bytes", w.p->model_padding_bytes);
    sw_json_put_u64(j, "data_bytes", w.p->data_bytes);
    sw_json_put_u64(j, "arena_bytes", w.p->arena_bytes);
    sw_json_put_u64(j, "live_bytes", w.tensors);
    sw_json_put_u64(j, "padding_bytes", w.p->lanes_bytes);
    sw_json_put_u64(j, "alignment_bytes", w.p->padding_bytes);
    sw_json_put_u64(j, "holes_bytes", w.holes);
    sw_json_end(j);
}
