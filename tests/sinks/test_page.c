/* The page, taken apart again: each list decoded and compared with
 * the timeline, the words read as JSON, what a browser would take for an element counted. */
#include "tests/sinks/expect.h"
#include "tests/support/json.h"
#include "tests/support/timeline.h"

SW_TESTS("html")

static void free_page(void *p)
{
    drop(p);
    free(p);
}

/* A page of one run or of two. */
static void write_page(written *p, const sw_timeline *t, const sw_timeline *other)
{
    drop(p);
    CU_ASSERT_EQUAL_FATAL(write_by("html", t, other, p), SW_OK);
}

/* One that goes when the test ends. */
static written *new_page(void)
{
    written *p = calloc(1, sizeof *p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    sw_after(free_page, p);
    return p;
}

/* ---- reading it -------------------------------------------------------------------------- */

/* From the "<" of the element with that id to its end; NULL: there is none. */
static const char *element(const written *p, const char *id)
{
    const char *at = strstr(p->bytes, sw_textf(" id=\"%s\"", id));
    while (at != NULL && *at != '<')
        at--;
    return at;
}

static uint64_t attribute(const char *at, const char *name, uint64_t otherwise)
{
    const char *mark = sw_textf(" data-%s=\"", name);
    const char *end = strchr(at, '>'), *found = strstr(at, mark);
    return found == NULL || found > end ? otherwise : strtoull(found + strlen(mark), NULL, 10);
}

static int digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static size_t decode(unsigned char *to, const char *from)
{
    size_t n = 0;
    for (uint32_t bits = 0, have = 0; digit_of(*from) >= 0; from++) {
        bits = bits << 6 | (uint32_t)digit_of(*from);
        have += 6;
        if (have >= 8) {
            have -= 8;
            to[n++] = (unsigned char)(bits >> have);
        }
    }
    return n;
}

/* The list of that name as doubles; the caller frees it. *n: how many. */
static double *column(const written *p, const char *id, size_t *n)
{
    const char *at = element(p, id);
    if (!SW_CHECK(at != NULL, "there is no %s", id))
        return NULL;
    const char *type = strstr(at, "data-type=\"") + 11, *text = strchr(at, '>') + 1;
    const bool real = strncmp(type, "f64", 3) == 0;
    const size_t width = real ? 8 : strtoull(type + 1, NULL, 10) / 8;
    *n = attribute(at, "n", 0);
    const double factor = (double)attribute(at, "factor", 0);
    unsigned char *raw = malloc(strlen(text) + 1);
    double *out = calloc(*n + 1, sizeof *out), last = 0;
    CU_ASSERT_FATAL(raw != NULL && out != NULL);
    SW_CHECK(decode(raw, text) == *n * width, "%s", id);
    for (size_t i = 0; i < *n; i++) {
        uint64_t x = 0;
        for (size_t k = 0; k < width; k++)
            x |= (uint64_t)raw[i * width + k] << 8 * k;
        double value = (double)x;
        if (real)
            memcpy(&value, &x, sizeof value);
        last = attribute(at, "steps", 0) != 0 ? last + value : value;
        out[i] = last * factor;
    }
    free(raw);
    return out;
}

static double *column_of(const written *p, const char *group, const char *name, size_t wanted)
{
    size_t n = 0;
    const char *id = sw_textf("%s.%s", group, name);
    double *out = column(p, id, &n);
    SW_CHECK(n == wanted, "%s: %zu", id, n);
    return out;
}

/* Each value of a list as `what` has it, in which v is the i-th of the timeline's. */
#define COMPARE(p, group, name, count, list, what)                                             \
    do {                                                                                       \
        double *got = column_of(p, group, name, count);                                        \
        size_t wrong = 0;                                                                      \
        for (size_t i = 0; got != NULL && i < (count); i++) {                                  \
            const __typeof__(*(list)) *v = &(list)[i];                                         \
            wrong += got[i] != (double)(what);                                                 \
        }                                                                                      \
        SW_CHECK(got != NULL && wrong == 0, "%s.%s: %zu differ", group, name, wrong);          \
        free(got);                                                                             \
    } while (0)

static void compare_numbers(const written *p, const sw_timeline *t, int which)
{
    char group[60];
    for (uint32_t k = 0; k < t->n_programs; k++) {
        const sw_tl_program *g = &t->programs[k];
        snprintf(group, sizeof group, "t%d.p%u", which, k);
        COMPARE(p, group, "id", g->n_values, g->values, v->id);
        COMPARE(p, group, "alias", g->n_values, g->values,
                v->alias == SW_TL_NONE ? 0 : v->alias + 1);
        COMPARE(p, group, "bytes", g->n_values, g->values, v->bytes);
        COMPARE(p, group, "padding", g->n_values, g->values, v->padding);
        COMPARE(p, group, "offset", g->n_values, g->values, v->offset);
        COMPARE(p, group, "segment", g->n_values, g->values, v->segment);
        COMPARE(p, group, "birth", g->n_values, g->values, v->birth);
        COMPARE(p, group, "length", g->n_values, g->values, v->death - v->birth);
        COMPARE(p, group, "op.phase", g->n_ops, g->ops, v->phase);
    }
    snprintf(group, sizeof group, "t%d.run", which);
    COMPARE(p, group, "program", t->n_runs, t->runs, v->program);
    COMPARE(p, group, "step", t->n_runs, t->runs, v->step);
    COMPARE(p, group, "micro", t->n_runs, t->runs, v->micro);
    COMPARE(p, group, "at_ns", t->n_runs, t->runs, v->at_ns);
    COMPARE(p, group, "ns", t->n_runs, t->runs, v->ns);
    COMPARE(p, group, "peak", t->n_runs, t->runs, v->peak_bytes);
    COMPARE(p, group, "logged", t->n_runs, t->runs, v->n_log);
    COMPARE(p, group, "dropped", t->n_runs, t->runs, v->dropped);
    COMPARE(p, group, "clock", t->n_runs, t->runs, v->clock);
    for (int f = 0; f < SW_PROF_PHASES; f++) {
        snprintf(group, sizeof group, "t%d.run.%s", which, sw_prof_phase_name(f));
        COMPARE(p, group, "peak", t->n_runs, t->runs, v->phase[f].peak_bytes);
        COMPARE(p, group, "end", t->n_runs, t->runs, v->phase[f].end_bytes);
        COMPARE(p, group, "ns", t->n_runs, t->runs, v->phase[f].ns);
    }
    for (size_t r = 0; r < t->n_runs; r++) {
        const sw_tl_run *run = &t->runs[r];
        snprintf(group, sizeof group, "t%d.r%zu", which, r);
        if (run->clock == SW_TL_OPS)
            COMPARE(p, group, "op_ns", t->programs[run->program].n_ops, run->op_ns, *v);
    }
}

SW_TEST("numbers come back")
{
    written *p = new_page();
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const sw_made_timeline how = {3, 9, 70, 150, true, seed % 2 == 0};
        sw_timeline *t = sw_make_timeline(seed, &how);
        sw_timeline *other = seed % 4 == 0 ? sw_make_timeline(seed + 1000, &how) : NULL;
        write_page(p, t, other);
        compare_numbers(p, t, 0);
        if (other != NULL)
            compare_numbers(p, other, 1);
        CU_ASSERT_EQUAL(strstr(p->bytes, "id=\"t1\"") != NULL, other != NULL);
        sw_timeline_free(t);
        sw_timeline_free(other);
    }
}

/* Sizes of terabytes, times of years, a loss that is no number; a common factor,
 * differences. */
SW_TEST("wide numbers come back")
{
    const sw_made_timeline how = {1, 3, 5, 40, false, false};
    written *p = new_page();
    for (uint32_t factor = 1; factor <= 4096; factor *= 64) {
        sw_timeline *t = sw_make_timeline(5, &how);
        sw_tl_program *g = &t->programs[0];
        for (uint32_t i = 0; i < g->n_values; i++) {
            g->values[i].bytes = ((uint64_t)i << 34) * factor + factor;
            g->values[i].offset = i == 0 ? (UINT64_C(1) << 53) : (uint64_t)i * factor;
        }
        t->runs[0].has_loss = false;
        t->runs[1].at_ns = UINT64_C(1) << 52;
        t->runs[2].at_ns = (UINT64_C(1) << 52) + 1;
        write_page(p, t, NULL);
        compare_numbers(p, t, 0);
        double *loss = column_of(p, "t0.run", "loss", 3);
        CU_ASSERT(loss != NULL && isnan(loss[0]) && loss[1] == t->runs[1].loss);
        free(loss);
        sw_timeline_free(t);
    }
}

/* A number that all have in common is taken out, ascending ones become differences: what is
 * written of births is one byte each. */
SW_TEST("lists are as narrow as they may be")
{
    const sw_made_timeline how = {1, 0, 3000, 3000, false, false};
    sw_timeline *t = sw_make_timeline(3, &how);
    written *p = new_page();
    sw_tl_program *g = &t->programs[0];
    for (uint32_t i = 0; i < g->n_values; i++) {
        g->values[i].birth = i / 4;
        g->values[i].death = g->values[i].birth;
        g->values[i].bytes = (uint64_t)(i % 200) << 40;
    }
    write_page(p, t, NULL);
    compare_numbers(p, t, 0);
    const char *births = element(p, "t0.p0.birth"), *bytes = element(p, "t0.p0.bytes");
    CU_ASSERT_PTR_NOT_NULL_FATAL(births);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    CU_ASSERT(strncmp(strstr(births, "data-type"), "data-type=\"u8\"", 14) == 0);
    CU_ASSERT(attribute(births, "steps", 0) == 1);
    CU_ASSERT(strncmp(strstr(bytes, "data-type"), "data-type=\"u8\"", 14) == 0);
    CU_ASSERT(attribute(bytes, "factor", 0) == UINT64_C(1) << 40);
    sw_timeline_free(t);
}

/* ---- words ------------------------------------------------------------------------------- */

static size_t count_of(const written *p, const char *text)
{
    size_t n = 0;
    for (const char *at = strstr(p->bytes, text); at != NULL; at = strstr(at + 1, text))
        n++;
    return n;
}

static json_t *words(const written *p, const char *id)
{
    const char *at = element(p, id);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at = strchr(at, '>') + 1;
    json_t *out = json_loadb(at, (size_t)(strstr(at, "</script>") - at));
    SW_CHECK(out != NULL, "%s: %s", id, sw_last_error());
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    return out;
}

static const char *string_at(const json_t *strings, const double *list, size_t i)
{
    const char *text = json_string_value(json_array_get(strings, (size_t)list[i]));
    return text == NULL ? "(none)" : text;
}

static void compare_names(const written *p, const sw_timeline *t, const json_t *strings)
{
    for (uint32_t k = 0; k < t->n_programs; k++) {
        const sw_tl_program *g = &t->programs[k];
        const char *group = sw_textf("t0.p%u", k);
        double *name = column_of(p, group, "name", g->n_values);
        double *layer = column_of(p, group, "layer", g->n_values);
        double *role = column_of(p, group, "role", g->n_values);
        double *op = column_of(p, group, "op.name", g->n_ops);
        for (uint32_t i = 0; i < g->n_values; i++) {
            CU_ASSERT_STRING_EQUAL(string_at(strings, name, i), g->values[i].name);
            CU_ASSERT_STRING_EQUAL(string_at(strings, layer, i), g->values[i].layer);
            CU_ASSERT_STRING_EQUAL(string_at(strings, role, i), g->values[i].role);
        }
        for (uint32_t i = 0; i < g->n_ops; i++)
            CU_ASSERT_STRING_EQUAL(string_at(strings, op, i), g->ops[i].name);
        free(name);
        free(layer);
        free(role);
        free(op);
    }
}

SW_TEST("words come back")
{
    written *p = new_page();
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const sw_made_timeline how = {2, 3, 40, 80, false, true};
        sw_timeline *t = sw_make_timeline(seed, &how);
        t->seed = UINT64_MAX;
        write_page(p, t, NULL);
        json_t *w = words(p, "t0");
        compare_names(p, t, json_object_get(w, "strings"));
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(w, "model")), t->model);
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(w, "seed")),
                               "18446744073709551615");
        const json_t *g = json_array_get(json_object_get(w, "programs"), 1);
        CU_ASSERT_EQUAL(json_integer_value(json_object_get(g, "peak_bytes")),
                        (json_int_t)t->programs[1].peak_bytes);
        CU_ASSERT_EQUAL(json_integer_value(json_object_get(w, "main")),
                        (json_int_t)(sw_timeline_peak(t) - t->programs));
        json_decref(w);
        sw_timeline_free(t);
    }
}

/* A name may be the end of a script: each element ends once, and what follows "<" is the page's
 * own. */
SW_TEST("names end no element")
{
    const sw_made_timeline how = {1, 1, 200, 400, false, true};
    sw_timeline *t = sw_make_timeline(11, &how);
    static const char *const evil[] = {"</script><script>document.title='no'</script>",
                                       "<!--<script>", "]]><style>", "\"'`${1}\\"};
    written *p = new_page(), *plain = new_page();
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(sw_timeline_string(t, &t->programs[0].values[i].name, evil[i]), SW_OK);
    t->path = evil[0];
    t->command = evil[1];
    write_page(p, t, NULL);
    const sw_made_timeline tame = {1, 1, 3, 3, false, false};
    sw_timeline *other = sw_make_timeline(11, &tame);
    other->runs[0].clock = t->runs[0].clock; /* a list more with the clocks of ops */
    if (other->runs[0].clock == SW_TL_OPS && other->runs[0].op_ns == NULL)
        other->runs[0].clock = SW_TL_PHASES;
    write_page(plain, other, NULL);
    const size_t extra = count_of(p, ".op_ns\"") - count_of(plain, ".op_ns\"");
    CU_ASSERT_EQUAL(count_of(p, "</script"), count_of(plain, "</script") + extra);
    CU_ASSERT_EQUAL(count_of(p, "<script"), count_of(plain, "<script") + extra);
    CU_ASSERT_EQUAL(count_of(p, "<!--"), count_of(plain, "<!--"));
    CU_ASSERT_EQUAL(count_of(p, "<b>"), 0);
    CU_ASSERT(count_of(p, "\\u003c/script>") >= 2);
    sw_timeline_free(t);
    sw_timeline_free(other);
}

/* ---- promises of the page ---------------------------------------------------------------- */

SW_TEST("it asks for nothing")
{
    const sw_made_timeline how = {1, 1, 3, 3, false, false};
    sw_timeline *t = sw_make_timeline(1, &how);
    written *p = new_page();
    write_page(p, t, NULL);
    CU_ASSERT_EQUAL(count_of(p, "content=\"default-src 'none'; script-src 'sha256-"), 1);
    static const char *const never[] = {
        "unsafe-inline", "unsafe-eval",     "eval(",    "http://", "https://",    "@import",
        "url(",          "XMLHttpRequest",  "fetch(",   "<link",   "<img",        "<iframe",
        "innerHTML",     "document.write(", "import( ", "src=",    "new Function"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        SW_CHECK(count_of(p, never[i]) == 0, "%s", never[i]);
    CU_ASSERT(strncmp(p->bytes, "<!DOCTYPE html>", 15) == 0);
    CU_ASSERT_STRING_EQUAL(p->bytes + p->n - 8, "</html>\n");
    sw_timeline_free(t);
}

/* Of more clocks than are kept, every k-th run has its own, and the page says so. */
SW_TEST("clocks are sampled_out")
{
    sw_timeline *t = NULL;
    written *p = new_page();
    void *ops, *op_ns;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_new(&t), SW_OK);
    sw_tl_program *g;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_add_program(t, &g), SW_OK);
    g->n_ops = 1000;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_alloc(t, &ops, g->n_ops, sizeof *g->ops), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_alloc(t, &op_ns, g->n_ops, sizeof(uint64_t)), SW_OK);
    g->ops = ops;
    g->run = "train";
    for (uint32_t i = 0; i < g->n_ops; i++)
        g->ops[i] = (sw_tl_op){"op", "", 1};
    for (uint64_t i = 0; i < 9000; i++) {
        sw_tl_run *run;
        CU_ASSERT_EQUAL_FATAL(sw_timeline_add_run(t, &run), SW_OK);
        *run = (sw_tl_run){.step = i + 1, .at_ns = i, .clock = SW_TL_OPS, .op_ns = op_ns};
    }
    CU_ASSERT_EQUAL_FATAL(sw_timeline_finish(t), SW_OK);
    write_page(p, t, NULL);
    CU_ASSERT_EQUAL(count_of(p, ".op_ns\""), 3000);
    CU_ASSERT_PTR_NOT_NULL(element(p, "t0.r8997.op_ns"));
    CU_ASSERT_PTR_NULL(element(p, "t0.r8999.op_ns"));
    CU_ASSERT_PTR_NOT_NULL(strstr(p->bytes, "\"clocked_every\":3"));
    sw_timeline_free(t);
}
