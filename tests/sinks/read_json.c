/* Chrome's files, read back. */
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
