/* The sixteen questions that are asked of a training run's memory, each put to a run whose
 * answer is known without the profiler: by the shapes of the tensors (scenes.h), by what was
 * planted, or by what the system says from outside. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include "tests/system/scenes.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if SW_HAVE_JANSSON
#include <jansson.h>

/* ---- asking ------------------------------------------------------------------------------ */

static sw_outcome outcome;

static const char *path_of(const char *name)
{
    static char path[8][1024];
    static unsigned next;
    char *to = path[next++ % 8];
    snprintf(to, sizeof path[0], "%s", sw_temp_path(name));
    return to;
}

static void drop_json(void *object)
{
    json_decref(object);
}

static int ask(const char *format, ...) SW_PRINTF(1, 2);
static int ask(const char *format, ...)
{
    char words[4000];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    program_run(&outcome, words, "LC_ALL=C");
    return outcome.status;
}

/* The one object that the last answer was. */
static const json_t *answer(void)
{
    json_t *object = json_loads(outcome.out, 0, NULL);
    SW_CHECK(json_is_object(object), "status %d: %s%s", outcome.status, outcome.out,
             outcome.err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    sw_after(drop_json, object);
    return object;
}

static const json_t *report_of(const char *path)
{
    CU_ASSERT_EQUAL(ask("report --json %s", path), 0);
    return answer();
}

/* The member at "a.b.c"; names with a dot in them are not asked for. */
static const json_t *at(const json_t *o, const char *path)
{
    char name[64];
    for (const char *p = path; o != NULL && *p != '\0';) {
        const size_t n = strcspn(p, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        o = json_object_get(o, name);
        p += n + (p[n] == '.');
    }
    SW_CHECK(o != NULL, "there is no %s", path);
    return o;
}

static void check(const json_t *o, const char *path, int64_t wanted)
{
    const json_t *x = at(o, path);
    SW_CHECK(json_is_integer(x) && json_integer_value(x) == wanted, "%s is %lld, not %lld",
             path, (long long)json_integer_value(x), (long long)wanted);
}

static void check_text(const json_t *o, const char *path, const char *wanted)
{
    const char *is = json_string_value(at(o, path));
    SW_CHECK(is != NULL && strcmp(is, wanted) == 0, "%s is %s, not %s", path,
             is != NULL ? is : "no text", wanted);
}

static int64_t sum_of(const json_t *object)
{
    const char *key;
    json_t *x;
    int64_t sum = 0;
    json_object_foreach((json_t *)(uintptr_t)object, key, x) sum += json_integer_value(x);
    return sum;
}

/* ---- 1 and 2: at the peak, by layer ------------------------------------------------------ */

static const layer_scene net[] = {{{"block1", "conv"}, 4000},
                                  {{"block1", "norm"}, 100},
                                  {{"block2", "conv"}, 9000},
                                  {{"head"}, 17}};
#define NET 4

static const char *net_profile(const char *name, int layers)
{
    const char *path = path_of(name);
    scene *s = scene_open(path, (sw_profile_opts){0});
    scene_layers(s, net, layers);
    scene_layers(s, net, layers);
    scene_close(s);
    return path;
}

static void what_is_live_at_the_peak(void)
{
    const json_t *r = report_of(net_profile("live.jsonl", NET));
    check_text(r, "peak.op", "join/concat");
    check(r, "peak.bytes", (int64_t)layers_peak(net, NET));
    check(r, "peak.by_role.activation", (int64_t)layers_peak(net, NET));
    check(r, "peak.by_layer.block1/conv", (int64_t)floats(4000));
    check(r, "peak.by_layer.block1/norm", (int64_t)floats(100));
    check(r, "peak.by_layer.block2/conv", (int64_t)floats(9000));
    check(r, "peak.by_layer.head", (int64_t)floats(17));
    check(r, "peak.by_layer.join", (int64_t)layers_joined(net, NET));
    CU_ASSERT_EQUAL(sum_of(at(r, "peak.by_layer")), (int64_t)layers_peak(net, NET));
    static const struct {
        const char *layer;
        size_t bytes;
    } largest[] = {{"join", 0},
                   {"block2/conv", 9000},
                   {"block1/conv", 4000},
                   {"block1/norm", 100},
                   {"head", 17}};
    const json_t *list = at(r, "peak.largest");
    CU_ASSERT_EQUAL(json_array_size(list), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *x = json_array_get(list, i);
        check_text(x, "layer", largest[i].layer);
        check(x, "bytes",
              (int64_t)(i == 0 ? layers_joined(net, NET) : floats((int64_t)largest[i].bytes)));
    }
}

/* ---- 3: by role -------------------------------------------------------------------------- */

/* Weight and bias; the optimizer's two of each and no more than four numbers of its own; kept
 * gradients, and while backward makes them the weight's and the bias's once more beside what
 * arrives from above: as large as the layer's result. */
static void which_role_holds_what(void)
{
    const linear_scene layer = {.rows = 24, .in = 100, .out = 33};
    const int64_t parameter = (int64_t)(floats(layer.in * layer.out) + floats(layer.out));
    const int64_t result = (int64_t)floats(layer.rows * layer.out);
    const char *path = path_of("roles.jsonl");
    scene *s = scene_open(path, (sw_profile_opts){0});
    scene_linear(s, &layer, 3);
    scene_close(s);
    const json_t *r = report_of(path), *roles = at(r, "peak.by_role");
    check(roles, "parameter", parameter);
    check(roles, "gradient", 2 * parameter + result);
    check(roles, "input", (int64_t)floats(layer.rows * layer.in));
    const int64_t state = json_integer_value(at(roles, "optimizer_state"));
    SW_CHECK(state > 2 * parameter && state <= 2 * parameter + 4 * (int64_t)ONE_NUMBER,
             "optimizer_state is %lld", (long long)state);
    static const char *const known[] = {
        "parameter", "optimizer_state", "buffer",    "state",  "input",  "activation", "saved",
        "gradient",  "temporary",       "workspace", "metric", "output", "knob"};
    const char *key;
    json_t *x;
    json_object_foreach((json_t *)(uintptr_t)roles, key, x)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strcmp(known[i], key) == 0;
        SW_CHECK(found, "an unknown role: %s", key);
    }
    CU_ASSERT_EQUAL(sum_of(roles), json_integer_value(at(r, "measured_peak_bytes")));
}

/* ---- 4 and 16: the phases, and what was predicted ---------------------------------------- */

static const phases_scene steady = {{1000, 5000, 300, 40, 7}},
                          other = {{1000, 500, 300, 9000, 7}};
static const char *const phase_names[] = {"data", "forward", "loss", "backward", "step"};

static const char *phases_profile(const char *name)
{
    const char *path = path_of(name);
    scene *s = scene_open(path, (sw_profile_opts){0});
    scene_phases(s, &steady);
    scene_phases(s, &steady);
    scene_phases(s, &other);
    scene_close(s);
    return path;
}

static void check_phases(const json_t *phases, const phases_scene *wanted)
{
    for (int i = 0; i < SW_PHASES; i++) {
        const json_t *phase = at(phases, phase_names[i]);
        check(phase, "peak_bytes", (int64_t)phases_peak(wanted, i));
        check(phase, "end_bytes", (int64_t)phases_end(i));
    }
}

static void which_phase_peaks_and_whether_it_moves(void)
{
    const char *path = phases_profile("moves.jsonl");
    const json_t *r = report_of(path), *rows = at(r, "rows");
    CU_ASSERT_EQUAL(json_array_size(rows), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *row = json_array_get(rows, i);
        check(row, "step", (int64_t)i + 1);
        check_phases(at(row, "phases"), i < 2 ? &steady : &other);
    }
    CU_ASSERT_EQUAL(ask("report --bytes %s", path), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out,
                                  "the peak is in forward in 2 runs (first in step "
                                  "1), in backward in 1 run"));
    char moves[128];
    snprintf(moves, sizeof moves, "it moves from 20,160 (step 1) to 36,288 (step 3)");
    CU_ASSERT_EQUAL(phases_peak(&steady, SW_FORWARD), 20160);
    CU_ASSERT_EQUAL(phases_peak(&other, SW_BACKWARD), 36288);
    SW_CHECK(strstr(outcome.out, moves) != NULL, "%s", outcome.out);
}

static void was_the_prediction_right(void)
{
    const json_t *r = report_of(phases_profile("predicted.jsonl"));
    check_phases(at(r, "predicted"), &other);
    check_phases(at(r, "measured"), &other);
    CU_ASSERT_TRUE(json_is_true(at(r, "equal")));
    const json_t *programs = at(r, "programs");
    CU_ASSERT_EQUAL(json_array_size(programs), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *p = json_array_get(programs, i);
        check_phases(at(p, "predicted"), i == 0 ? &steady : &other);
        check_phases(at(json_array_get(at(p, "measured"), 0), "phases"),
                     i == 0 ? &steady : &other);
    }
}

/* ---- 7: the largest batch ---------------------------------------------------------------- */

#define FIT "--model mlp --hidden 32 --synthetic-n 5000"
#define FIT_BYTES ((size_t)2 << 20)

/* What is said is tried: that batch trains under the budget, and one more is refused. Its bytes
 * hold at least what the shapes do: the layers' weights and biases three times (Adam), two
 * loaders of three slots, the images as floats, and the gradient of the first weight with that
 * of its layer's result. */
static void the_largest_batch_fits_and_no_other(void)
{
    CU_ASSERT_EQUAL(ask("plan --json " FIT " --fit %zu", FIT_BYTES), 0);
    const json_t *r = answer();
    const int64_t n = json_integer_value(at(r, "largest_batch"));
    CU_ASSERT(n > 0);
    for (int more = 0; more < 2; more++) {
        const int status = ask("train --quiet --steps 1 --no-recompute " FIT
                               " --memory-budget %zu --batch %lld",
                               FIT_BYTES, (long long)n + more);
        SW_CHECK(status == (more ? 4 : 0), "batch %lld: status %d: %s", (long long)n + more,
                 status, outcome.err);
    }
    const size_t model = 3 * (floats(784 * 32) + floats(32) + floats(32 * 10) + floats(10));
    const size_t slot = scene_rounded((size_t)n * 784) + scene_rounded((size_t)n);
    const size_t arena = floats(784 * n) + floats(784 * 32) + floats(32 * n);
    const int64_t total = json_integer_value(at(r, "total_bytes"));
    SW_CHECK(total >= (int64_t)(model + 6 * slot + arena) && total <= (int64_t)FIT_BYTES &&
                 total <= (int64_t)(model + 6 * slot + arena) + 2048,
             "%lld bytes", (long long)total);
}

/* ---- 12 and 13: two runs ----------------------------------------------------------------- */

/* They differ by the layer `head`: it has a tensor of its own, and a part of the joined one. */
static void what_changed_between_two_runs(void)
{
    const char *a = net_profile("with.jsonl", NET), *b = net_profile("without.jsonl", NET - 1);
    CU_ASSERT_EQUAL(ask("report --json %s --diff %s", a, b), 0);
    const json_t *r = answer();
    const int64_t head = (int64_t)floats(17);
    const int64_t join =
        (int64_t)layers_joined(net, NET) - (int64_t)layers_joined(net, NET - 1);
    check(r, "totals.peak.a", (int64_t)layers_peak(net, NET));
    check(r, "totals.peak.b", (int64_t)layers_peak(net, NET - 1));
    check(r, "totals.peak.difference", -head - join);
    check(r, "roles.activation.difference", -head - join);
    check(r, "layers.head.difference", -head);
    check(r, "layers.join.difference", -join);
    check(r, "layers.block1/conv.difference", 0);
    static const char *const groups[] = {"roles", "layers", "ops"};
    for (int g = 0; g < 3; g++) {
        int64_t sum = 0;
        double share = 0.0;
        const char *key;
        json_t *x;
        json_object_foreach((json_t *)(uintptr_t)at(r, groups[g]), key, x)
        {
            sum += json_integer_value(at(x, "difference"));
            share += json_number_value(at(x, "share"));
        }
        SW_CHECK(sum == -head - join && share > 0.999999 && share < 1.000001,
                 "%s: %lld bytes, %g", groups[g], (long long)sum, share);
    }
}

static void a_peak_that_grew_fails_the_build(void)
{
    const char *a = net_profile("now.jsonl", NET), *b = net_profile("base.jsonl", NET - 1);
    const size_t now = layers_peak(net, NET), base = layers_peak(net, NET - 1);
    CU_ASSERT_EQUAL(ask("report --quiet %s --max-peak %zu", a, now), 0);
    CU_ASSERT_EQUAL(outcome.err[0], '\0');
    CU_ASSERT_EQUAL(ask("report --quiet %s --max-peak %zu", a, now - 1), 1);
    SW_CHECK(sw_count_lines(outcome.err) == 1, "%s", outcome.err);
    const double grew = 100.0 * (double)(now - base) / (double)base;
    CU_ASSERT_EQUAL(
        ask("report --quiet %s --diff %s --fail-on-increase %.6f%%", a, b, grew + 1e-4), 0);
    CU_ASSERT_EQUAL(
        ask("report --quiet %s --diff %s --fail-on-increase %.6f%%", a, b, grew - 1e-4), 1);
    SW_CHECK(sw_count_lines(outcome.err) == 1, "%s", outcome.err);
    CU_ASSERT_EQUAL(ask("report --quiet %s --diff %s --fail-on-increase 0%%", b, a), 0);
}

/* ---- 15: the page ------------------------------------------------------------------------ */

static int sextet(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* The numbers of a column of the page, which holds them in base64, as narrow as they go. */
static size_t column(const char *page, const char *name, uint64_t *to, size_t room)
{
    char key[80];
    unsigned width = 0, factor = 0, bits = 0;
    size_t n = 0, of = 0;
    uint64_t held = 0, x = 0;
    snprintf(key, sizeof key, "id=\"%s\" data-type=\"u", name);
    const char *from = strstr(page, key);
    SW_CHECK(from != NULL &&
                 sscanf(from + strlen(key), "%u\" data-n=\"%zu\" data-factor=\"%u\"", &width,
                        &of, &factor) == 3,
             "the page has no column %s", name);
    if (from == NULL)
        return 0;
    unsigned got = 0;
    for (const char *c = strchr(from, '>') + 1; sextet(*c) >= 0; c++) {
        held = held << 6 | (uint64_t)sextet(*c);
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        x |= (held >> bits & 0xffu) << got;
        got += 8;
        if (got == width && n < room)
            to[n++] = x * factor;
        if (got == width)
            x = got = 0;
    }
    SW_CHECK(n == of, "%s: %zu numbers, not %zu", name, n, of);
    return n;
}

static unsigned char *page_of(const char *profile, const char *page, size_t *n)
{
    CU_ASSERT_EQUAL(ask("report %s --html %s", profile, page), 0);
    unsigned char *text = file_read(page, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    sw_after(free, text);
    return text;
}

/* Every byte in one file, nothing that is asked of a network, and a long run costs little more
 * than a short one. tests/html opens such a page in a browser. */
static void the_page_opens_offline(void)
{
    size_t small, large, n;
    const char *page =
        (const char *)page_of(net_profile("page.jsonl", NET), path_of("page.html"), &small);
    static const char *const asks[] = {"http:",   "https:",         "//cdn",     "<link",
                                       "<iframe", " src=",          "@import",   "url(",
                                       "fetch(",  "XMLHttpRequest", "WebSocket", "import("};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        const char *found = strstr(page, asks[i]);
        SW_CHECK(found == NULL, "the page asks for something: %.80s", found);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "default-src 'none'"));
    uint64_t bytes[16], padding[16];
    n = column(page, "t0.p0.bytes", bytes, 16);
    CU_ASSERT(n == NET + 2 && column(page, "t0.p0.padding", padding, 16) == n);
    for (size_t i = 0; i < NET; i++)
        SW_CHECK(bytes[i] == (uint64_t)net[i].n * 4 &&
                     bytes[i] + padding[i] == floats(net[i].n),
                 "%s: %llu and %llu bytes", net[i].scope[0], (unsigned long long)bytes[i],
                 (unsigned long long)padding[i]);
    CU_ASSERT_EQUAL(bytes[NET] + padding[NET], layers_joined(net, NET));

    const int steps = sw_tests_full() ? 100000 : 5000;
    const char *path = path_of("huge.jsonl");
    scene *s = scene_open(path, (sw_profile_opts){.events = 1});
    for (int i = 0; i < steps; i++)
        scene_layers(s, net, NET);
    scene_close(s);
    (void)page_of(path, path_of("huge.html"), &large);
    SW_CHECK(outcome.peak_bytes < (size_t)1 << 30, "%zu bytes", outcome.peak_bytes);
    sw_note("%d steps with their events: a page of %zu KiB, of 2 steps %zu KiB", steps,
            large >> 10, small >> 10);
}

static const sw_test tests[] = {
    {"1 what is live at the peak", what_is_live_at_the_peak},
    {"3 which role holds what", which_role_holds_what},
    {"4 which phase peaks, and whether it moves", which_phase_peaks_and_whether_it_moves},
    {"7 the largest batch fits, and no other", the_largest_batch_fits_and_no_other},
    {"12 what changed between two runs", what_changed_between_two_runs},
    {"13 a peak that grew fails the build", a_peak_that_grew_fails_the_build},
    {"15 the page opens offline", the_page_opens_offline},
    {"16 was the prediction right", was_the_prediction_right},
};

#else

static void profiles_are_not_read_without_jansson(void)
{
    SW_SKIP("jansson, which reads profiles, is not built in");
}

static const sw_test tests[] = {
    {"all sixteen", profiles_are_not_read_without_jansson},
};

#endif
SW_SUITE("questions", tests)
