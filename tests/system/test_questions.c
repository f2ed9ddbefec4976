/* The sixteen questions that are asked of a training run's memory, each put to a run whose
 * answer is known without the profiler: by the shapes of the tensors (scenes.h), by what was
 * planted, or by what the system says from outside. Those about the host, budgets and long runs
 * are in test_questions_host.c. */
#include "tests/system/asking.h"

SW_TESTS("questions")

/* ---- 1 and 2: at the peak, by layer ------------------------------------------------------ */

SW_TEST("1 what is live at the peak")
{
    const json_t *r = report_of(net_profile("live.jsonl", NET));
    check_text(r, "peak.op", "join concat");
    check(r, "peak.bytes", (int64_t)layers_peak(net, NET));
    check(r, "peak.by_role.activation", (int64_t)layers_peak(net, NET));
    check(r, "peak.by_layer.block1/conv", (int64_t)floats(4000));
    check(r, "peak.by_layer.block1/norm", (int64_t)floats(100));
    check(r, "peak.by_layer.block2/conv", (int64_t)floats(9000));
    check(r, "peak.by_layer.head", (int64_t)floats(17));
    check(r, "peak.by_layer.join", (int64_t)layers_joined(net, NET));
    CU_ASSERT_EQUAL(sum_of(at(r, "peak.by_layer"), NULL), (int64_t)layers_peak(net, NET));
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

/* The tree of scopes, the largest first, with what lives of each at the peak and ever. */
SW_TEST("2 which layer costs what")
{
    CU_ASSERT_EQUAL(ask("report --json --by layer %s", net_profile("layers.jsonl", NET)), 0);
    const json_t *rows = at(answer(), "rows");
    const int64_t all = (int64_t)layers_peak(net, NET);
    const int64_t join = (int64_t)layers_joined(net, NET);
    const int64_t block1 = (int64_t)(floats(4000) + floats(100));
    const struct {
        const char *layer;
        int64_t at_peak, own;
    } wanted[] = {
        {"(all)", all, all},
        {"join", join, join + (int64_t)ONE_NUMBER},
        {"block2", (int64_t)floats(9000), (int64_t)floats(9000)},
        {"block2/conv", (int64_t)floats(9000), (int64_t)floats(9000)},
        {"block1", block1, block1},
        {"block1/conv", (int64_t)floats(4000), (int64_t)floats(4000)},
        {"block1/norm", (int64_t)floats(100), (int64_t)floats(100)},
        {"head", (int64_t)floats(17), (int64_t)floats(17)},
    };
    const size_t n = sizeof wanted / sizeof *wanted;
    CU_ASSERT_EQUAL_FATAL(json_array_size(rows), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        check_text(row, "layer", wanted[i].layer);
        check(row, "at_peak_bytes", wanted[i].at_peak);
        check(row, "own_peak_bytes", wanted[i].own);
        const double share = json_number_value(at(row, "share"));
        const double is = (double)wanted[i].at_peak / (double)all;
        SW_CHECK(share > is - 1e-9 && share < is + 1e-9, "%s: %g", wanted[i].layer, share);
    }
}

/* ---- 3: by role -------------------------------------------------------------------------- */

/* Weight and bias; the optimizer's two of each and no more than four numbers of its own; kept
 * gradients, and while backward makes them the weight's and the bias's once more beside what
 * arrives from above: as large as the layer's result. */
SW_TEST("3 which role holds what")
{
    const linear_scene layer = {.rows = 24, .in = 100, .out = 33};
    const int64_t parameter = (int64_t)(floats(layer.in * layer.out) + floats(layer.out));
    const int64_t result = (int64_t)floats(layer.rows * layer.out);
    const char *path = sw_temp_path("roles.jsonl");
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
    json_object_foreach(roles, key, x)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strcmp(known[i], key) == 0;
        SW_CHECK(found, "an unknown role: %s", key);
    }
    CU_ASSERT_EQUAL(sum_of(roles, NULL), json_integer_value(at(r, "measured_peak_bytes")));
}

/* ---- 4 and 16: the phases, and what was predicted ---------------------------------------- */

static const phases_scene steady = {{1000, 5000, 300, 40, 7}},
                          other = {{1000, 500, 300, 9000, 7}};
static const char *const phase_names[] = {"data", "forward", "loss", "backward", "step"};

static const char *phases_profile(const char *name)
{
    const char *path = sw_temp_path(name);
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

SW_TEST("4 which phase peaks, and whether it moves")
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
    CU_ASSERT_PTR_NOT_NULL(strstr(asked.out,
                                  "the peak of a step is in forward in 2 runs (first "
                                  "in step 1), in backward in"));
    char moves[128];
    snprintf(moves, sizeof moves, "it moves from 20,160 (step 1) to 36,288 (step 3)");
    CU_ASSERT_EQUAL(phases_peak(&steady, SW_FORWARD), 20160);
    CU_ASSERT_EQUAL(phases_peak(&other, SW_BACKWARD), 36288);
    SW_CHECK(strstr(asked.out, moves) != NULL, "%s", asked.out);
}

SW_TEST("16 was the prediction right")
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

/* ---- 5: one step and another ------------------------------------------------------------- */

/* Step 2 has a layer more: its tensor, and its part of the joined one. */
SW_TEST("5 why step 2 uses more than step 1")
{
    static const char *const groups[] = {"roles", "layers", "ops", "tensors"};
    const char *path = sw_temp_path("steps.jsonl");
    scene *s = scene_open(path, (sw_profile_opts){0});
    scene_layers(s, net, NET - 1);
    scene_layers(s, net, NET);
    scene_close(s);
    CU_ASSERT_EQUAL(ask("report --json --steps 1,2 %s", path), 0);
    const json_t *r = answer();
    const int64_t head = (int64_t)floats(17);
    const int64_t join =
        (int64_t)layers_joined(net, NET) - (int64_t)layers_joined(net, NET - 1);
    check(r, "peak_difference_bytes", head + join);
    check(r, "layers.head.difference", head);
    check(r, "layers.join.difference", join);
    check(r, "layers.block2/conv.difference", 0);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const int64_t sum = sum_of(at(r, groups[i]), "difference");
        SW_CHECK(sum == head + join, "%s: %lld", groups[i], (long long)sum);
    }
}

/* ---- 12 and 13: two runs ----------------------------------------------------------------- */

/* They differ by the layer `head`: it has a tensor of its own, and a part of the joined one. */
SW_TEST("12 what changed between two runs")
{
    const char *a = net_profile("with.jsonl", NET), *b = net_profile("without.jsonl", NET - 1);
    CU_ASSERT_EQUAL(ask("report --json %s --diff %s", a, b), 0);
    const json_t *r = answer();
    const int64_t head = (int64_t)floats(17);
    const int64_t join =
        (int64_t)layers_joined(net, NET) - (int64_t)layers_joined(net, NET - 1);
    check(r, "totals.peak.a", (int64_t)layers_peak(net, NET));
    check(r, "totals.peak.b", (int64_t)layers_peak(net, NET - 1));
    check(r, "totals.peak.difference", head + join);
    check(r, "roles.activation.difference", head + join);
    check(r, "layers.head.difference", head);
    check(r, "layers.join.difference", join);
    check(r, "layers.block1/conv.difference", 0);
    static const char *const groups[] = {"roles", "layers", "ops"};
    for (int g = 0; g < 3; g++) {
        int64_t sum = 0;
        double share = 0.0;
        const char *key;
        json_t *x;
        json_object_foreach(at(r, groups[g]), key, x)
        {
            sum += json_integer_value(at(x, "difference"));
            share += json_number_value(at(x, "share"));
        }
        SW_CHECK(sum == head + join && share > 0.999999 && share < 1.000001,
                 "%s: %lld bytes, %g", groups[g], (long long)sum, share);
    }
}

SW_TEST("13 a peak that grew fails the build")
{
    const char *a = net_profile("now.jsonl", NET), *b = net_profile("base.jsonl", NET - 1);
    const size_t now = layers_peak(net, NET), base = layers_peak(net, NET - 1);
    CU_ASSERT_EQUAL(ask("report --quiet %s --max-peak %zu", a, now), 0);
    CU_ASSERT_EQUAL(asked.err[0], '\0');
    CU_ASSERT_EQUAL(ask("report --quiet %s --max-peak %zu", a, now - 1), 1);
    SW_CHECK(sw_count_lines(asked.err) == 1, "%s", asked.err);
    const double grew = 100.0 * (double)(now - base) / (double)base;
    CU_ASSERT_EQUAL(
        ask("report --quiet %s --diff %s --fail-on-increase %.6f%%", a, b, grew + 1e-4), 0);
    CU_ASSERT_EQUAL(
        ask("report --quiet %s --diff %s --fail-on-increase %.6f%%", a, b, grew - 1e-4), 1);
    SW_CHECK(sw_count_lines(asked.err) == 1, "%s", asked.err);
    CU_ASSERT_EQUAL(ask("report --quiet %s --diff %s --fail-on-increase 0%%", b, a), 0);
}
