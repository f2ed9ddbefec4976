/* See expect.h. */
#include "tests/sinks/expect.h"
#include "alloc/base/mem.h"

static sw_status keep(void *context, const void *bytes, size_t n)
{
    written *w = context;
    w->after |= w->fail_at > 0 && w->writes >= w->fail_at;
    if (++w->writes == w->fail_at)
        SW_FAIL(SW_IO, "planned: write %zu", w->writes);
    if (w->n + n + 1 > w->room) {
        w->room = (w->n + n + 1) * 2;
        w->bytes = realloc(w->bytes, w->room);
        if (w->bytes == NULL)
            SW_FAIL(SW_NOMEM, "no room for the test's file");
    }
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
    w->bytes[w->n] = '\0';
    return SW_OK;
}

sw_status write_by(const char *format, const sw_timeline *t, const sw_timeline *other,
                   written *out)
{
    static sw_sink_out buffer;
    const sw_sink *sink = sw_sink_find(format);
    if (sink == NULL)
        SW_FAIL(SW_INVALID, "there is no format %s", format);
    buffer = (sw_sink_out){.write = keep, .context = out};
    const sw_status status = other != NULL ? sink->compare(t, other, &buffer)
                                           : sink->write(t, &buffer),
                    rest = sw_sink_flush(&buffer);
    return status != SW_OK ? status : rest;
}

void must_write(const char *format, const sw_timeline *t, written *out)
{
    *out = (written){.n = 0};
    const sw_status status = write_by(format, t, NULL, out);
    SW_CHECK(status == SW_OK, "%s: %s", format, sw_last_error());
    if (out->bytes == NULL)
        out->bytes = calloc(1, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out->bytes);
}

void drop(written *out)
{
    free(out->bytes);
    *out = (written){.n = 0};
}

/* ---- what a walk says -------------------------------------------------------------------- */

static sw_status look(void *context, const sw_tl_event *e)
{
    expected *x = context;
    x->max_live = e->live > x->max_live ? e->live : x->max_live;
    x->allocations += e->kind == SW_TL_ALLOC;
    const bool begin = e->kind == SW_TL_STEP_BEGIN || e->kind == SW_TL_PHASE_BEGIN ||
                       e->kind == SW_TL_LAYER_BEGIN || e->kind == SW_TL_OP_BEGIN;
    if (e->kind == SW_TL_ALLOC || e->kind == SW_TL_REUSE || e->kind == SW_TL_FREE)
        return SW_OK;
    if (x->n_slices == x->room) {
        x->room = x->room * 2 + 64;
        x->slices = realloc(x->slices, x->room * sizeof *x->slices);
    }
    x->slices[x->n_slices++] = (slice){begin, e->kind, strdup(e->name), e->ns};
    return SW_OK;
}

void expect(expected *x, const sw_timeline *t)
{
    *x = (expected){.t = t};
    SW_CHECK(sw_timeline_walk(t, look, x) == SW_OK, "%s", sw_last_error());
}

void expect_free(expected *x)
{
    for (size_t i = 0; i < x->n_slices; i++)
        free(x->slices[i].name);
    free(x->slices);
}

/* ---- slices and counters ----------------------------------------------------------------- */

#define WRONG(r, ...)                                                                          \
    do {                                                                                       \
        if ((r)->wrong[0] == '\0')                                                             \
            snprintf((r)->wrong, sizeof(r)->wrong, __VA_ARGS__);                               \
    } while (0)

static void clock_goes_on(trace *r, uint64_t ns)
{
    if (ns < r->ns)
        WRONG(r, "time goes back from %llu to %llu", (unsigned long long)r->ns,
              (unsigned long long)ns);
    r->ns = ns;
}

void trace_slice(trace *r, bool begin, const char *category, const char *name, uint64_t ns)
{
    static const char *const categories[] = {[SW_TL_STEP_BEGIN] = "step",
                                             [SW_TL_PHASE_BEGIN] = "phase",
                                             [SW_TL_LAYER_BEGIN] = "layer",
                                             [SW_TL_OP_BEGIN] = "op"};
    clock_goes_on(r, ns);
    trace_sums(r);
    if (r->next == r->x->n_slices) {
        WRONG(r, "more slices than %zu", r->next);
        return;
    }
    const slice *s = &r->x->slices[r->next++];
    if (s->begin != begin || s->ns != ns || (name != NULL && strcmp(s->name, name) != 0) ||
        (category != NULL && strcmp(categories[s->kind], category) != 0))
        WRONG(r, "slice %zu is %s %s at %llu, not %s at %llu", r->next - 1,
              begin ? "begin" : "end", name != NULL ? name : "", (unsigned long long)ns,
              s->name, (unsigned long long)s->ns);
}

void trace_role(trace *r, const char *name, uint64_t bytes, uint64_t ns)
{
    uint32_t i = 0;
    clock_goes_on(r, ns);
    while (i < r->n_roles && strcmp(r->role[i].name, name) != 0)
        i++;
    if (i == sizeof r->role / sizeof *r->role) {
        WRONG(r, "too many roles");
        return;
    }
    if (i == r->n_roles)
        snprintf(r->role[r->n_roles++].name, sizeof r->role[i].name, "%s", name);
    r->role[i].bytes = bytes;
    r->torn = true;
}

void trace_live(trace *r, uint64_t bytes, uint64_t ns)
{
    trace_sums(r);
    clock_goes_on(r, ns);
    r->live = bytes;
    r->max_live = bytes > r->max_live ? bytes : r->max_live;
    r->changes++;
    r->torn = true;
}

void trace_sums(trace *r)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->n_roles; i++)
        sum += r->role[i].bytes;
    if (r->torn && sum != r->live)
        WRONG(r, "roles add up to %llu, %llu live", (unsigned long long)sum,
              (unsigned long long)r->live);
    r->torn = false;
}

const char *trace_end(trace *r)
{
    trace_sums(r);
    if (r->next != r->x->n_slices)
        WRONG(r, "%zu of %zu slices", r->next, r->x->n_slices);
    if (r->live != 0)
        WRONG(r, "%llu bytes live at the end", (unsigned long long)r->live);
    if (r->max_live != r->x->max_live)
        WRONG(r, "a peak of %llu, not %llu", (unsigned long long)r->max_live,
              (unsigned long long)r->x->max_live);
    if (r->changes > 2 * r->x->allocations + 1)
        WRONG(r, "%llu changes of the counter", (unsigned long long)r->changes);
    return r->wrong;
}

/* ---- all formats ------------------------------------------------------------------------- */

void check_all(const sw_timeline *t, const char *what)
{
    static const struct {
        const char *format;
        const char *(*trace)(const written *file, const expected *x);
        const char *(*peak)(const written *file, const sw_timeline *t);
    } formats[] = {
        {"perfetto", check_perfetto, NULL},
        {"folded", NULL, check_folded},
    };
    expected x;
    expect(&x, t);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        written file;
        must_write(formats[i].format, t, &file);
        const char *wrong =
            formats[i].trace != NULL ? formats[i].trace(&file, &x) : formats[i].peak(&file, t);
        SW_CHECK(wrong[0] == '\0', "%s, %s: %s", what, formats[i].format, wrong);
        drop(&file);
    }
    expect_free(&x);
}
