/* Chrome's trace events as JSON: slices for steps, phases, layers and ops, and a counter with
 * the live bytes of each role. Times are microseconds with three decimals, so nanoseconds are
 * kept. */
#include "profiler/record/json.h"
#include "profiler/inspect/sink_internal.h"
#include <string.h>

typedef struct {
    sw_json j;
    swi_roles roles;
    char buffer[8192];
} writer;

/* Opens an event; its arguments and end are the caller's. */
static void begin_event(sw_json *j, const char *kind, uint64_t ns)
{
    sw_json_begin(j, '{');
    sw_json_put_string(j, "ph", kind);
    sw_json_put_u64(j, "pid", 1);
    sw_json_put_u64(j, "tid", 1);
    sw_json_key(j, "ts");
    sw_json_thousandths(j, ns);
}

static void put_name(sw_json *j, const char *what, const char *name)
{
    begin_event(j, "M", 0);
    sw_json_put_string(j, "name", what);
    sw_json_open(j, "args", '{');
    sw_json_put_string(j, "name", name);
    sw_json_end(j);
    sw_json_end(j);
}

/* Two counters: their sum is a line of its own, since viewers that stack roles would stack it.
 */
static void put_counters(writer *w)
{
    sw_json *j = &w->j;
    begin_event(j, "C", w->roles.ns);
    sw_json_put_string(j, "name", "live bytes");
    sw_json_open(j, "args", '{');
    sw_json_put_u64(j, "live", w->roles.live);
    sw_json_end(j);
    sw_json_end(j);
    begin_event(j, "C", w->roles.ns);
    sw_json_put_string(j, "name", "live bytes by role");
    sw_json_open(j, "args", '{');
    for (uint32_t i = 0; i < w->roles.n; i++)
        sw_json_put_u64(j, w->roles.name[i], w->roles.bytes[i]);
    sw_json_end(j);
    sw_json_end(j);
    swi_roles_written(&w->roles);
}

static void put_step(sw_json *j, const sw_tl_event *e)
{
    sw_json_put_string(j, "run", e->program->run);
    sw_json_put_string(j, "mode", e->program->immediate ? "immediate" : "planned");
    if (e->run->has_loss)
        sw_json_put_f64(j, "loss", e->run->loss);
    sw_json_put_u64(j, "peak_bytes", e->run->peak_bytes);
}

static void put_begin(sw_json *j, const sw_tl_event *e)
{
    begin_event(j, "B", e->ns);
    sw_json_put_string(j, "cat", swi_slice_category(e->kind));
    sw_json_put_string(j, "name", e->name);
    sw_json_open(j, "args", '{');
    if (e->kind == SW_TL_STEP_BEGIN)
        put_step(j, e);
    else if (e->kind == SW_TL_PHASE_BEGIN)
        sw_json_put_u64(j, "peak_bytes", e->run->phase[e->index].peak_bytes);
    sw_json_put_u64(j, "live_bytes", e->live);
    sw_json_end(j);
    sw_json_end(j);
}

static sw_status take(void *context, const sw_tl_event *e)
{
    writer *w = context;
    if (swi_roles_due(&w->roles, e))
        put_counters(w);
    swi_roles_take(&w->roles, e);
    if (e->kind <= SW_TL_OP_BEGIN) {
        put_begin(&w->j, e);
    } else if (e->kind >= SW_TL_OP_END) {
        begin_event(&w->j, "E", e->ns);
        sw_json_end(&w->j);
    }
    return w->j.status;
}

static void put_about(sw_json *j, const sw_timeline *t)
{
    sw_json_open(j, "otherData", '{');
    sw_json_put_string(j, "tool", t->tool);
    sw_json_put_string(j, "model", t->model);
    sw_json_put_string(j, "device", t->device);
    sw_json_put_string(j, "data", t->data);
    sw_json_put_string(j, "created", t->created);
    sw_json_put_string(j, "command", t->command);
    sw_json_put_i64(j, "batch", t->batch);
    sw_json_end(j);
}

static sw_status write_chrome(const sw_timeline *t, sw_sink_out *out)
{
    writer w;
    sw_json *j = &w.j;
    sw_json_fixed(j, w.buffer, sizeof w.buffer, sw_sink_drain, out);
    swi_roles_init(&w.roles, t);
    sw_json_begin(j, '{');
    sw_json_put_string(j, "displayTimeUnit", "ns");
    put_about(j, t);
    sw_json_open(j, "traceEvents", '[');
    put_name(j, "process_name", t->model[0] != '\0' ? t->model : t->tool);
    put_name(j, "thread_name", "steps");
    SW_TRY(sw_timeline_walk(t, take, &w));
    if (w.roles.pending != 0)
        put_counters(&w);
    sw_json_end(j);
    sw_json_end(j);
    sw_json_line(j);
    SW_TRY(j->status);
    return sw_sink_drain(out, j->bytes, j->used);
}

const sw_sink sw_sink_chrome = {
    .name = "chrome",
    .about = "Chrome trace JSON, for chrome://tracing, Perfetto and speedscope",
    .ending = ".trace.json",
    .write = write_chrome,
};
