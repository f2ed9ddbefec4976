/* Chrome's and speedscope's files, read back. */
#include "tests/sinks/expect.h"

#include "tests/support/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static char wrong[700];

#define BAD(...) return snprintf(wrong, sizeof wrong, __VA_ARGS__), wrong

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : "";
}

/* ---- Chrome ------------------------------------------------------------------------------ */

static void take_counter(trace *r, const json_t *e, uint64_t ns)
{
    const char *name;
    json_t *value, *args = json_object_get(e, "args");
    if (strcmp(text_of(e, "name"), "live bytes") == 0) {
        trace_live(r, (uint64_t)json_integer_value(json_object_get(args, "live")), ns);
        return;
    }
    json_object_foreach(args, name, value)
        trace_role(r, name, (uint64_t)json_integer_value(value), ns);
}

static const char *take_event(trace *r, const json_t *e)
{
    const char *kind = text_of(e, "ph");
    const json_t *ts = json_object_get(e, "ts");
    const uint64_t ns = (uint64_t)llround(json_number_value(ts) * 1000.0);
    if (!json_is_number(ts) || json_integer_value(json_object_get(e, "pid")) != 1 ||
        json_integer_value(json_object_get(e, "tid")) != 1)
        BAD("an event without a time, process or thread");
    if (strcmp(kind, "C") == 0)
        take_counter(r, e, ns);
    else if (strcmp(kind, "B") == 0)
        trace_slice(r, true, text_of(e, "cat"), text_of(e, "name"), ns);
    else if (strcmp(kind, "E") == 0)
        trace_slice(r, false, NULL, NULL, ns);
    else if (strcmp(kind, "M") != 0)
        BAD("an event of kind %s", kind);
    return "";
}

const char *check_chrome(const written *file, const expected *x)
{
    static trace r;
    json_t *all = json_loadb(file->bytes, file->n);
    r = (trace){.x = x};
    if (all == NULL)
        BAD("no JSON: %s", sw_last_error());
    const json_t *about = json_object_get(all, "otherData");
    const char *bad = strcmp(text_of(about, "model"), x->t->model) != 0 ? "another model" : "";
    const json_t *events = json_object_get(all, "traceEvents");
    for (size_t i = 0; i < json_array_size(events) && bad[0] == '\0'; i++)
        bad = take_event(&r, json_array_get(events, i));
    json_decref(all);
    return bad[0] != '\0' ? bad : trace_end(&r);
}

/* ---- speedscope -------------------------------------------------------------------------- */

static const char *frame_name(const json_t *all, const json_t *number)
{
    const json_t *frames = json_object_get(json_object_get(all, "shared"), "frames");
    const json_t *frame = json_array_get(frames, (size_t)json_integer_value(number));
    return json_is_integer(number) && frame != NULL ? text_of(frame, "name") : "?";
}

/* Whether the stack says run, scopes, role and tensor of a value that lives at the peak. */
static bool is_live(const json_t *all, const json_t *stack, const sw_tl_program *p)
{
    const size_t depth = json_array_size(stack);
    const bool padding =
        strcmp(frame_name(all, json_array_get(stack, depth - 1)), "(padding)") == 0;
    const char *name = frame_name(all, json_array_get(stack, depth - 1 - padding));
    const char *role = frame_name(all, json_array_get(stack, depth - 2 - padding));
    if (depth < 4 || strcmp(frame_name(all, json_array_get(stack, 0)), p->run) != 0)
        return false;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (v->birth <= p->peak_op && v->death >= p->peak_op && v->alias == SW_TL_NONE &&
            strcmp(v->name, name) == 0 && strcmp(v->role, role) == 0)
            return true;
    }
    return false;
}

static const char *take_peak(const json_t *all, const json_t *o, const sw_tl_program *p)
{
    const json_t *samples = json_object_get(o, "samples"),
                 *weights = json_object_get(o, "weights");
    uint64_t sum = 0;
    if (strcmp(text_of(o, "type"), "sampled") != 0 ||
        strcmp(text_of(o, "unit"), "bytes") != 0 ||
        json_array_size(samples) != json_array_size(weights))
        BAD("the peak is no profile of samples and weights in bytes");
    for (size_t i = 0; i < json_array_size(samples); i++) {
        sum += (uint64_t)json_integer_value(json_array_get(weights, i));
        if (!is_live(all, json_array_get(samples, i), p))
            BAD("sample %zu is nothing that lives at the peak", i);
    }
    if (sum != p->peak_bytes ||
        sum != (uint64_t)json_integer_value(json_object_get(o, "endValue")))
        BAD("the peak adds up to %llu, not %llu", (unsigned long long)sum,
            (unsigned long long)p->peak_bytes);
    return "";
}

/* Steps have the name of their run there: what is read becomes the walk's name again. */
static const char *take_runs(const json_t *all, const json_t *o, const expected *x)
{
    const json_t *events = json_object_get(o, "events");
    const json_int_t start = json_integer_value(json_object_get(o, "startValue"));
    const json_int_t end = json_integer_value(json_object_get(o, "endValue"));
    json_int_t last = start, open[200];
    size_t depth = 0;
    if (strcmp(text_of(o, "type"), "evented") != 0 || json_array_size(events) != x->n_slices)
        BAD("%zu events of %zu", json_array_size(events), x->n_slices);
    for (size_t i = 0; i < x->n_slices; i++) {
        const json_t *e = json_array_get(events, i);
        const slice *s = &x->slices[i];
        const json_int_t at = json_integer_value(json_object_get(e, "at"));
        const json_int_t frame = json_integer_value(json_object_get(e, "frame"));
        const char *name = frame_name(all, json_object_get(e, "frame"));
        const bool step = s->kind == SW_TL_STEP_BEGIN || s->kind == SW_TL_STEP_END;
        if (at < last || at > end || (uint64_t)at != s->ns ||
            strcmp(text_of(e, "type"), s->begin ? "O" : "C") != 0 ||
            (step ? strcmp(name, "train") != 0 && strcmp(name, "eval") != 0
                  : strcmp(name, s->name) != 0))
            BAD("event %zu is not %s", i, s->name);
        if (s->begin && depth < 200)
            open[depth++] = frame;
        else if (depth == 0 || open[--depth] != frame)
            BAD("event %zu closes what is not open", i);
        last = at;
    }
    if (depth > 0)
        BAD("%zu frames stay open", depth);
    return "";
}

const char *check_speedscope(const written *file, const expected *x)
{
    json_t *all = json_loadb(file->bytes, file->n);
    if (all == NULL)
        BAD("no JSON: %s", sw_last_error());
    const json_t *profiles = json_object_get(all, "profiles");
    const char *bad = take_peak(all, json_array_get(profiles, 0), sw_timeline_peak(x->t));
    if (strcmp(text_of(all, "$schema"), "https://www.speedscope.app/file-format-schema.json") !=
        0)
        bad = "another schema";
    if (bad[0] == '\0' && x->t->n_runs > 0)
        bad = take_runs(all, json_array_get(profiles, 1), x);
    if (bad[0] == '\0' && json_array_size(profiles) != (x->t->n_runs > 0 ? 2u : 1u))
        bad = "another number of profiles";
    json_decref(all);
    return bad;
}
