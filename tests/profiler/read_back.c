/* See read_back.h. */
#include "tests/profiler/read_back.h"
#include "profiler/record/prof.h"
#include "tests/support/suite.h"

size_t count_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    size_t n = 0;
    for (int c; f != NULL && (c = getc(f)) != EOF;)
        n += c == '\n';
    if (f != NULL)
        fclose(f);
    return n;
}

static void drop(void *records)
{
    json_decref(records);
}

const json_t *read_back(const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL, *all = NULL;
    size_t room = 0, bytes = 0;
    FILE *to = open_memstream(&all, &bytes);
    SW_CHECK(f != NULL && to != NULL, "%s", path);
    fputc('[', to);
    for (ssize_t n; f != NULL && (n = getline(&line, &room, f)) > 0;) {
        if (!SW_CHECK(line[n - 1] == '\n', "%s ends in a line", path))
            break;
        json_t *record = json_loadb(line, (size_t)n);
        SW_CHECK(json_is_object(record), "%s: %s: %s", path, sw_last_error(), line);
        json_decref(record);
        fprintf(to, "%s%s", ftell(to) > 1 ? "," : "", line);
    }
    fputc(']', to);
    fclose(to);
    json_t *records = json_loadb(all, bytes);
    free(all);
    free(line);
    if (f != NULL)
        fclose(f);
    sw_after(drop, records);
    return records;
}

size_t records_of(const json_t *records, const char *type, const json_t **out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        if (text_is(record, "type", type) && n < room)
            out[n++] = record;
    }
    return n;
}

const json_t *const *records(const json_t *all, const char *type, size_t n)
{
    const json_t **of = sw_block((n + 1) * sizeof *of);
    CU_ASSERT_EQUAL_FATAL(records_of(all, type, of, n + 1), n);
    return of;
}

bool text_is(const json_t *record, const char *key, const char *wanted)
{
    const char *is = json_string_value(json_object_get(record, key));
    return is != NULL && strcmp(is, wanted) == 0;
}

int64_t number_of(const json_t *record, const char *key)
{
    const json_t *x = json_object_get(record, key);
    SW_CHECK(json_is_integer(x), "'%s' is no integer", key);
    return json_integer_value(x);
}

int64_t phase_number(const json_t *record, int phase, const char *key)
{
    const json_t *phases = json_object_get(record, "phases");
    return number_of(json_object_get(phases, sw_prof_phase_name(phase)), key);
}

/* ---- the sums of a log, from its records alone: what a watch says of the same run -------- */

typedef struct {
    size_t base, live, peak; /* peak: of the arena, in this phase */
    int phase;               /* -1: outside of all */
    uint64_t since;
    sw_prof_phase *phases;
} replay;

static void leave(replay *r, uint64_t now)
{
    if (r->phase < 0)
        return;
    sw_prof_phase *p = &r->phases[r->phase];
    if (r->base + r->peak > p->peak_bytes)
        p->peak_bytes = r->base + r->peak;
    p->end_bytes = r->base + r->live;
    p->ns += now - r->since;
    r->phase = -1;
}

static void begin_run(replay *r)
{
    memset(r->phases, 0, SW_PROF_PHASES * sizeof *r->phases);
    r->phases[0].peak_bytes = r->phases[0].end_bytes = r->base;
    r->phase = -1;
}

static void follow(replay *r, const sw_record *x)
{
    const size_t bytes = (size_t)x->bytes * SW_ALIGN;
    switch ((sw_record_kind)x->kind) {
    case SW_RECORD_RUN:
        begin_run(r);
        break;
    case SW_RECORD_PHASE: {
        const uint64_t now = sw_record_ns(x);
        leave(r, now);
        r->phase = x->id < SW_PROF_PHASES ? (int)x->id : -1;
        r->since = now;
        r->peak = r->live;
        break;
    }
    case SW_RECORD_PLACE:
    case SW_RECORD_PUSH:
        r->live += bytes;
        r->peak = r->live > r->peak ? r->live : r->peak;
        break;
    case SW_RECORD_RELEASE:
        r->live -= bytes;
        break;
    case SW_RECORD_RESET:
        r->live = 0;
        break;
    case SW_RECORD_END:
        leave(r, sw_record_ns(x));
        break;
    case SW_RECORD_OP:
    case SW_RECORD_REUSE:
    case SW_RECORD_DENIED:
    case SW_RECORD_KINDS:
        break;
    }
}

size_t record_replay(const sw_record *log, size_t n, size_t base_bytes,
                     sw_prof_phase phase[SW_PROF_PHASES])
{
    replay r = {.base = base_bytes, .phases = phase};
    begin_run(&r);
    for (size_t i = 0; i < n; i++)
        follow(&r, &log[i]);
    return r.live;
}
