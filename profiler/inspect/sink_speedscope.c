/* speedscope's file: first the peak of the run in bytes (stacks of run, scopes, role
 * and tensor, as in folded stacks), then the runs in time (run, phase, scopes, op). Frames are
 * numbered as they come and are listed at the end. */
#include "profiler/record/json.h"
#include "profiler/inspect/sink_internal.h"
#include <string.h>

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

typedef struct {
    sw_json j;
    swi_stacks frames; /* a table: number plus one */
    swi_stacks peak;
    uint64_t end_ns;
    sw_status status;
    char buffer[8192];
} writer;

/* The number of a frame; what fails is in w->status. */
static void put_frame(writer *w, const char *text, size_t n)
{
    uint32_t node = 1;
    if (w->status == SW_OK)
        w->status = swi_stacks_child(&w->frames, 0, 0, text, n, &node);
    sw_json_u64(&w->j, node - 1);
}

/* ---- the peak ---------------------------------------------------------------------------- */

static void put_stack(writer *w, const sw_tl_program *p, uint32_t at)
{
    const swi_frame *x = &w->peak.nodes[at];
    if (at == 0) {
        put_frame(w, p->run, strlen(p->run));
        return;
    }
    put_stack(w, p, x->parent);
    put_frame(w, x->text, x->n);
}

static void put_samples(writer *w, const sw_tl_program *p)
{
    sw_json_open(&w->j, "samples", '[');
    for (uint32_t i = 0; i < w->peak.n_nodes; i++) {
        const swi_frame *x = &w->peak.nodes[i];
        const uint64_t bytes[2] = {x->bytes, x->padding};
        for (int padding = 0; padding < 2 && x->kind == SWI_TENSOR; padding++) {
            if (bytes[padding] == 0)
                continue;
            sw_json_begin(&w->j, '[');
            put_stack(w, p, i);
            if (padding != 0)
                put_frame(w, "(padding)", 9);
            sw_json_end(&w->j);
        }
    }
    sw_json_end(&w->j);
    sw_json_open(&w->j, "weights", '[');
    for (uint32_t i = 0; i < w->peak.n_nodes; i++) {
        const swi_frame *x = &w->peak.nodes[i];
        if (x->kind == SWI_TENSOR && x->bytes > 0)
            sw_json_u64(&w->j, x->bytes);
        if (x->kind == SWI_TENSOR && x->padding > 0)
            sw_json_u64(&w->j, x->padding);
    }
    sw_json_end(&w->j);
}

static sw_status put_peak(writer *w, const sw_tl_program *p)
{
    SW_TRY(swi_stacks_live(&w->peak, p, p->peak_op));
    sw_json_begin(&w->j, '{');
    sw_json_put_string(&w->j, "type", "sampled");
    sw_json_put_string(&w->j, "name", "live at the peak");
    sw_json_put_string(&w->j, "unit", "bytes");
    sw_json_put_u64(&w->j, "startValue", 0);
    sw_json_put_u64(&w->j, "endValue", w->peak.nodes[0].bytes + w->peak.nodes[0].padding);
    put_samples(w, p);
    sw_json_end(&w->j);
    return w->status;
}

/* ---- runs in time ------------------------------------------------------------------------ */

static sw_status take(void *context, const sw_tl_event *e)
{
    writer *w = context;
    const bool begins = e->kind <= SW_TL_OP_BEGIN, ends = e->kind >= SW_TL_OP_END;
    if (!begins && !ends)
        return SW_OK;
    const bool step = e->kind == SW_TL_STEP_BEGIN || e->kind == SW_TL_STEP_END;
    const char *name = step ? e->program->run : e->name; /* steps are one frame */
    sw_json_begin(&w->j, '{');
    sw_json_put_string(&w->j, "type", begins ? "O" : "C");
    sw_json_put_u64(&w->j, "at", e->ns);
    sw_json_key(&w->j, "frame");
    put_frame(w, name, strlen(name));
    sw_json_end(&w->j);
    w->end_ns = e->ns;
    return w->status != SW_OK ? w->status : w->j.status;
}

static sw_status put_runs(writer *w, const sw_timeline *t)
{
    const bool timed = t->runs[0].clock != SW_TL_UNTIMED;
    w->end_ns = t->runs[0].at_ns;
    sw_json_begin(&w->j, '{');
    sw_json_put_string(&w->j, "type", "evented");
    sw_json_put_string(&w->j, "name", timed ? "runs in time" : "runs (not timed)");
    sw_json_put_string(&w->j, "unit", timed ? "nanoseconds" : "none");
    sw_json_put_u64(&w->j, "startValue", t->runs[0].at_ns);
    sw_json_open(&w->j, "events", '[');
    SW_TRY(sw_timeline_walk(t, take, w));
    sw_json_end(&w->j);
    sw_json_put_u64(&w->j, "endValue", w->end_ns);
    sw_json_end(&w->j);
    return SW_OK;
}

/* ---- the file ---------------------------------------------------------------------------- */

static void put_frames(writer *w)
{
    sw_json_open(&w->j, "shared", '{');
    sw_json_open(&w->j, "frames", '[');
    for (uint32_t i = 1; i < w->frames.n_nodes; i++) {
        sw_json_begin(&w->j, '{');
        sw_json_put_string(&w->j, "name", w->frames.nodes[i].text);
        sw_json_end(&w->j);
    }
    sw_json_end(&w->j);
    sw_json_end(&w->j);
}

static sw_status put_file(writer *w, const sw_timeline *t, const sw_tl_program *p)
{
    SW_TRY(swi_stacks_begin(&w->frames));
    sw_json_begin(&w->j, '{');
    sw_json_put_string(&w->j, "$schema", SCHEMA);
    sw_json_put_string(&w->j, "exporter", "stepwell");
    sw_json_put_string(&w->j, "name", t->model[0] != '\0' ? t->model : t->tool);
    sw_json_put_u64(&w->j, "activeProfileIndex", 0);
    sw_json_open(&w->j, "profiles", '[');
    SW_TRY(put_peak(w, p));
    if (t->n_runs > 0)
        SW_TRY(put_runs(w, t));
    sw_json_end(&w->j);
    put_frames(w);
    sw_json_end(&w->j);
    sw_json_line(&w->j);
    return w->j.status;
}

static sw_status write_speedscope(const sw_timeline *t, sw_sink_out *out)
{
    const sw_tl_program *p;
    writer w = {.status = SW_OK};
    SW_TRY(swi_peak_program(t, &p));
    sw_json_fixed(&w.j, w.buffer, sizeof w.buffer, sw_sink_drain, out);
    sw_status status = put_file(&w, t, p);
    if (status == SW_OK)
        status = sw_sink_drain(out, w.j.bytes, w.j.used);
    swi_stacks_free(&w.frames);
    swi_stacks_free(&w.peak);
    return status;
}

const sw_sink sw_sink_speedscope = {
    .name = "speedscope",
    .about = "the peak as a flame graph and the runs in time, for speedscope.app",
    .ending = ".speedscope.json",
    .write = write_speedscope,
};
