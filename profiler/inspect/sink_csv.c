/* Tables: a row for each birth, reuse and death, or one for each run. */
#include "alloc/base/mem.h"
#include "profiler/inspect/sink.h"
#include <inttypes.h>
#include <string.h>

/* Quoted where a comma, a quote or a blank at the edge would be misread. */
static void put_field(sw_sink_out *out, const char *text)
{
    if (strpbrk(text, ",\"") == NULL && text[0] != ' ') {
        sw_sink_text(out, text);
        return;
    }
    sw_sink_text(out, "\"");
    for (const char *quote; (quote = strchr(text, '"')) != NULL; text = quote + 1) {
        sw_sink_bytes(out, text, (size_t)(quote + 1 - text));
        sw_sink_text(out, "\"");
    }
    sw_sink_text(out, text);
    sw_sink_text(out, "\"");
}

typedef struct {
    sw_sink_out *out;
    const char *phase, *op;
} writer;

static sw_status take(void *context, const sw_tl_event *e)
{
    static const char *const actions[] = {
        [SW_TL_ALLOC] = "alloc", [SW_TL_REUSE] = "reuse", [SW_TL_FREE] = "free"};
    writer *w = context;
    if (e->kind == SW_TL_PHASE_BEGIN || e->kind == SW_TL_OP_BEGIN)
        *(e->kind == SW_TL_PHASE_BEGIN ? &w->phase : &w->op) =
            e->kind == SW_TL_PHASE_BEGIN ? sw_prof_phase_name((int)e->index)
                                         : e->program->ops[e->index].name;
    else if (e->kind == SW_TL_PHASE_END || e->kind == SW_TL_OP_END)
        *(e->kind == SW_TL_PHASE_END ? &w->phase : &w->op) = "";
    if (e->kind != SW_TL_ALLOC && e->kind != SW_TL_REUSE && e->kind != SW_TL_FREE)
        return w->out->status;
    const sw_tensor *v = &e->program->values[e->index];
    sw_sink_print(w->out, "%" PRIu64 ",%" PRIu64 ",%s,%s,", e->ns,
                  e->run != NULL ? e->run->step : 0, w->phase, actions[e->kind]);
    put_field(w->out, w->op);
    sw_sink_text(w->out, ",");
    put_field(w->out, v->name);
    sw_sink_text(w->out, ",");
    put_field(w->out, v->layer);
    sw_sink_text(w->out, ",");
    put_field(w->out, v->role);
    sw_sink_print(w->out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", e->address, e->bytes,
                  e->live);
    return w->out->status;
}

static sw_status write_csv(const sw_timeline *t, sw_sink_out *out)
{
    writer w = {out, "", ""};
    sw_sink_text(out, "ns,step,phase,action,op,tensor,layer,role,address,bytes,live_bytes\n");
    return sw_timeline_walk(t, take, &w);
}

const sw_sink sw_sink_csv =
    SW_INIT(.name = "csv",
            .about = "every birth, reuse and death, for a spreadsheet or a data frame",
            .ending = ".csv", .write = write_csv);

/* ---- runs -------------------------------------------------------------------------------- */

/* A record of another tool has no runs. */
static sw_status write_runs(const sw_timeline *t, sw_sink_out *out)
{
    sw_sink_text(out,
                 "step,micro,run,exec,program,immediate,batch,loss,ns,peak_phase,peak_bytes");
    for (int i = 0; i < SW_PROF_PHASES; i++)
        sw_sink_print(out, ",phases.%s.peak_bytes,phases.%s.end_bytes,phases.%s.ns",
                      sw_prof_phase_name(i), sw_prof_phase_name(i), sw_prof_phase_name(i));
    sw_sink_text(out, "\n");
    for (size_t k = 0; k < t->n_runs && sw_timeline_is_ours(t); k++) {
        const sw_tl_run *r = &t->runs[k];
        const sw_tl_program *p = &t->programs[r->program];
        int peak = 0;
        sw_sink_print(out, "%" PRIu64 ",%" PRIu64 ",", r->step, r->micro);
        put_field(out, p->run);
        sw_sink_print(out, ",%" PRIu64 ",%" PRIu64 ",%s,", p->key >> 32, p->key & UINT32_MAX,
                      p->immediate ? "True" : "False");
        if (p->batch >= 0)
            sw_sink_print(out, "%" PRId64, p->batch);
        sw_sink_text(out, ",");
        if (r->has_loss)
            sw_sink_print(out, "%.17g", r->loss);
        for (int i = 1; i < SW_PROF_PHASES; i++)
            peak = r->phase[i].peak_bytes > r->phase[peak].peak_bytes ? i : peak;
        sw_sink_print(out, ",%" PRIu64 ",%s,%" PRIu64, r->ns, sw_prof_phase_name(peak),
                      r->peak_bytes);
        for (int i = 0; i < SW_PROF_PHASES; i++)
            sw_sink_print(out, ",%zu,%zu,%" PRIu64, r->phase[i].peak_bytes,
                          r->phase[i].end_bytes, r->phase[i].ns);
        sw_sink_text(out, "\n");
    }
    return out->status;
}

const sw_sink sw_sink_csv_runs = {
    .name = "csv-runs",
    .about = "steps, bytes and times of each run, in training and evaluation, as a table",
    .ending = ".csv",
    .max_events = UINT64_MAX, /* a run takes some numbers, however many events it has */
    .write = write_runs,
};
