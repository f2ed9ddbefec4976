/* `stepwell report --by` on golden/scopes.jsonl, with plans that were worked out by hand: a
 * block with two convolutions, a head, and a weight that the model calls "conv1" and the block
 * "block/conv1". 320 bytes live all the time. Live bytes op by op are in program 0 (steps 1, 3
 * and 4) 576, 1216, 768, 832, 896, 960, 576, and in program 1 (step 2) 576, 1280, 832, 896,
 * 960, 960, 576. */
#include "tests/report/call.h"

SW_TESTS("by")

static const json_t *rows_by(const char *file, const char *by)
{
    return json_object_get(object_of(call_words("%s --json --by %s", file, by)), "rows");
}

/* The row of that name in its first member. */
static const json_t *row(const json_t *rows, const char *key, const char *name)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *x = json_array_get(rows, i);
        const char *is = json_string_value(json_object_get(x, key));
        if (is != NULL && strcmp(is, name) == 0)
            return x;
    }
    SW_CHECK(false, "no row of %s %s", key, name);
    return NULL;
}

SW_TEST("layers are a tree")
{
    static const struct {
        const char *path;
        long long at_peak, own, running; /* -1: no op */
    } wanted[] = {{"(all)", 1280, 1280, 1280},
                  {"block", 1152, 1152, 1280},
                  {"block/conv2", 640, 640, 1280},
                  {"block/conv1", 448, 640, 960},
                  {"block/(itself)", 64, 64, 832},
                  {"(no layer)", 128, 128, -1},
                  {"head", 0, 192, 960}};
    const json_t *rows = rows_by("scopes.jsonl", "layer");
    const size_t n = sizeof wanted / sizeof *wanted;
    CU_ASSERT_EQUAL_FATAL(json_array_size(rows), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(rows, i);
        CU_ASSERT_PTR_EQUAL(x, row(rows, "layer", wanted[i].path)); /* in this order */
        CU_ASSERT_EQUAL(number_of(x, "at_peak_bytes"), wanted[i].at_peak);
        CU_ASSERT_EQUAL(number_of(x, "own_peak_bytes"), wanted[i].own);
        const json_t *running = json_object_get(x, "peak_while_running_bytes");
        SW_CHECK(wanted[i].running < 0 ? json_is_null(running)
                                       : json_integer_value(running) == wanted[i].running,
                 "%s", wanted[i].path);
    }
    const json_t *conv1 = row(rows, "layer", "block/conv1");
    CU_ASSERT(number_of(conv1, "parameters_bytes") == 192 &&
              number_of(conv1, "activations_bytes") == 256 && number_of(conv1, "ops") == 3);
}

/* Each figure of an outer scope covers those of the scopes in it, in a real run. */
SW_TEST("outer scopes cover inner ones")
{
    const json_t *rows = rows_by("scopes.jsonl", "layer");
    static const char *const sums[] = {"at_peak_bytes",   "parameters_bytes",
                                       "gradients_bytes", "activations_bytes",
                                       "workspace_bytes", "tensors"};
    for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) {
        long long block = 0, all = 0;
        for (size_t i = 1; i < json_array_size(rows); i++) {
            const json_t *x = json_array_get(rows, i);
            const char *path = json_string_value(json_object_get(x, "layer"));
            *(strchr(path, '/') != NULL ? &block : &all) += number_of(x, sums[k]);
        }
        CU_ASSERT_EQUAL(block, number_of(row(rows, "layer", "block"), sums[k]));
        CU_ASSERT_EQUAL(all, number_of(row(rows, "layer", "(all)"), sums[k]));
    }
}

/* By role nothing is without a name, and all of it is there. */
SW_TEST("every byte has a role")
{
    const json_t *rows = rows_by("scopes.jsonl", "role");
    long long sum = 0;
    for (size_t i = 1; i < json_array_size(rows); i++) {
        const json_t *x = json_array_get(rows, i);
        const char *role = json_string_value(json_object_get(x, "role"));
        SW_CHECK(role != NULL && *role != '\0' && *role != '(' && strcmp(role, "unknown") != 0,
                 "%s", role != NULL ? role : "null");
        sum += number_of(x, "at_peak_bytes");
    }
    CU_ASSERT_EQUAL(sum, 1280);
    CU_ASSERT_EQUAL(number_of(row(rows, "role", "gradient"), "own_peak_bytes"), 320);
    CU_ASSERT_EQUAL(number_of(row(rows, "role", "saved"), "at_peak_bytes"), 448);
    CU_ASSERT_EQUAL(number_of(row(rows, "role", "(all)"), "tensors"), 9);
}

SW_TEST("ops and phases have their peaks")
{
    static const long long live[] = {1280, 960, 960, 896, 832, 576, 576},
                           at[] = {1, 4, 5, 3, 2, 0, 6};
    const json_t *rows = rows_by("scopes.jsonl", "op");
    CU_ASSERT_EQUAL_FATAL(json_array_size(rows), 7);
    for (size_t i = 0; i < 7; i++) {
        CU_ASSERT_EQUAL(number_of(json_array_get(rows, i), "live_bytes"), live[i]);
        CU_ASSERT_EQUAL(number_of(json_array_get(rows, i), "position"), at[i]);
    }
    CU_ASSERT_EQUAL(number_of(json_array_get(rows, 0), "born_bytes"), 448 + 192 + 64);
    rows = rows_by("scopes.jsonl", "phase");
    static const long long peaks[] = {320, 1280, 896, 960, 576};
    CU_ASSERT_EQUAL_FATAL(json_array_size(rows), 5);
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(number_of(json_array_get(rows, i), "predicted_peak_bytes"), peaks[i]);
        CU_ASSERT_EQUAL(number_of(json_array_get(rows, i), "measured_peak_bytes"), peaks[i]);
    }
}

SW_TEST("text and csv have the same figures")
{
    static const char *const by[] = {"layer", "role", "op", "phase"};
    char name[64];
    setenv("LC_ALL", "C", 1);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "scopes-%s.txt", by[i]);
        compare_text(name, "scopes.jsonl --by %s", by[i]);
        check_width(call_words("large.jsonl --bytes --by %s", by[i])->out);
        check_width(call_words("large.jsonl --by %s", by[i])->out);
    }
    setenv("LC_ALL", "C.UTF-8", 1);
    check_width(call_words("scopes.jsonl --by layer")->out);
    expect_said(0,
                "role,at_peak_bytes,share,own_peak_bytes,tensors,own_peak_op\n"
                "(all),1280,1.000000,1280,9,block/conv2/conv2d\n"
                "saved,448,0.350000,448,2,block/conv2/conv2d\n",
                "scopes.jsonl --by role --format csv");
}

SW_TEST("what does not go together is refused")
{
    CU_ASSERT_EQUAL(call_words("x --by kind")->status, 2);
    CU_ASSERT_EQUAL(call_words("x --by role --diff y")->status, 2);
    CU_ASSERT_EQUAL(call_words("x --by role --format perfetto")->status, 2);
    CU_ASSERT_EQUAL(call_words("x --format perfetto --max-peak 1")->status, 2);
    CU_ASSERT_EQUAL(call_words("x --by role --out y")->status, 2);
}
