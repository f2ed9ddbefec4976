/* The output of the commands with --json: the keys that are part of the interface, and figures
 * that agree with each other and between commands. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include "tests/support/json.h"

SW_TESTS("results")

static sw_outcome outcome;

static void let_go(void *json)
{
    json_decref(json);
}

/* The one object that `words` print, for json_decref(). Never NULL. */
static json_t *load_object(const char *words)
{
    program_run(&outcome, words, NULL);
    json_t *root = json_loads(outcome.out);
    SW_CHECK(outcome.status == 0 && json_is_object(root), "%s: status %d: %s%s", words,
             outcome.status, outcome.err, root == NULL ? sw_last_error() : "");
    CU_ASSERT_EQUAL(sw_count_lines(outcome.out), 1);
    return root != NULL ? root : json_loads("{}");
}

/* The same, let go at the end of the test. */
static json_t *object_of(const char *words)
{
    json_t *root = load_object(words);
    sw_after(let_go, root);
    return root;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* ---- keys -------------------------------------------------------------------------------- */

static const char *const phases[] = {"data", "forward", "loss", "backward", "step"};

static void has_numbers(const json_t *object, const char *of, const char *const *keys)
{
    for (; *keys != NULL; keys++)
        SW_CHECK(number(object, *keys) >= 0.0, "%s: no number under %s", of, *keys);
}

static void has_strings(const json_t *object, const char *of, const char *const *keys)
{
    for (; *keys != NULL; keys++)
        SW_CHECK(json_is_string(json_object_get(object, *keys)), "%s: no string under %s", of,
                 *keys);
}

static void has_phases(const json_t *object, const char *of, const char *key)
{
    static const char *const both[] = {"peak_bytes", "end_bytes", NULL};
    const json_t *all = json_object_get(object, key);
    SW_CHECK(json_object_size(all) == 5, "%s: %zu phases under %s", of, json_object_size(all),
             key);
    for (int i = 0; i < 5; i++)
        has_numbers(json_object_get(all, phases[i]), phases[i], both);
}

/* Roles or layers: every line has a name and bytes, as planned and, with `measured`, the same
 * as measured; those at the peak add up to it. */
static void has_shares(const json_t *object, const char *of, bool measured)
{
    static const char *const kinds[] = {"roles", "layers"};
    static const char *const both[] = {"at_peak_bytes", "peak_bytes", NULL};
    for (int k = 0; k < 2; k++) {
        const json_t *lines = json_object_get(object, kinds[k]);
        double sum = 0.0;
        SW_CHECK(json_array_size(lines) > 1, "%s: %zu %s", of, json_array_size(lines),
                 kinds[k]);
        for (size_t i = 0; i < json_array_size(lines); i++) {
            const json_t *line = json_array_get(lines, i);
            const json_t *said = json_object_get(line, "predicted");
            SW_CHECK(json_is_string(json_object_get(line, "name")), "%s: no name", of);
            has_numbers(said, kinds[k], both);
            SW_CHECK(number(said, "peak_bytes") > 0.0 &&
                         number(said, "peak_bytes") >= number(said, "at_peak_bytes"),
                     "%s: %s", of, kinds[k]);
            SW_CHECK(measured ? json_equal(said, json_object_get(line, "measured"))
                              : json_object_get(line, "measured") == NULL,
                     "%s: other bytes were measured in %s", of, kinds[k]);
            sum += number(said, "at_peak_bytes");
        }
        SW_CHECK(sum == number(object, "predicted_peak_bytes"), "%s: %s add up to %.0f", of,
                 kinds[k], sum);
    }
}

SW_TEST("train prints the keys of the interface")
{
    static const char *const strings[] = {"model",     "device",      "data",
                                          "optimizer", "measured_by", NULL};
    static const char *const numbers[] =
        SW_INIT("batch", "steps", "epochs", "seed", "threads", "final_loss", "test_accuracy",
                "predicted_peak_bytes", "measured_peak_bytes", "model_bytes", "arena_bytes",
                "data_bytes", "checkpoint_bytes", "total_bytes", "lower_bound_bytes",
                "allocations_after_warmup", "min_step_ns", "median_step_ns", "p99_step_ns",
                "max_step_ns", "wall_ns", NULL);
    const json_t *root = object_of("train --json --synthetic-n 100 --batch 16 --steps 9 "
                                   "--epochs 2 --seed 3 --threads 2 --optimizer momentum");
    has_strings(root, "train", strings);
    has_numbers(root, "train", numbers);
    has_phases(root, "train", "predicted");
    has_phases(root, "train", "measured");
    has_shares(root, "train", true);
    CU_ASSERT(
        json_equal(json_object_get(root, "predicted"), json_object_get(root, "measured")));
    CU_ASSERT_EQUAL(number(root, "batch"), 16);
    CU_ASSERT_EQUAL(number(root, "steps"), 9);
    CU_ASSERT_EQUAL(number(root, "epochs"), 1); /* of 7 steps: the second is not whole */
    CU_ASSERT_EQUAL(number(root, "seed"), 3);
    CU_ASSERT_EQUAL(number(root, "threads"), 2);
    CU_ASSERT_EQUAL(number(root, "allocations_after_warmup"), 0);
    CU_ASSERT_EQUAL(number(root, "total_bytes"), number(root, "model_bytes") +
                                                     number(root, "arena_bytes") +
                                                     number(root, "data_bytes"));
    CU_ASSERT(number(root, "lower_bound_bytes") <= number(root, "arena_bytes"));
    CU_ASSERT(number(root, "min_step_ns") > 0);
    CU_ASSERT(number(root, "min_step_ns") <= number(root, "median_step_ns"));
    CU_ASSERT(number(root, "median_step_ns") <= number(root, "p99_step_ns"));
    CU_ASSERT(number(root, "p99_step_ns") <= number(root, "max_step_ns"));
    CU_ASSERT(number(root, "max_step_ns") < number(root, "wall_ns"));
    CU_ASSERT(json_is_null(json_object_get(root, "checkpoint")) &&
              json_is_null(json_object_get(root, "resumed_from_step")));
}

/* Each member is null where nothing is known under it. */
SW_TEST("a run with checkpoints has their keys")
{
    static const char *const numbers[] = {"every_steps",  "copy_bytes",    "saved",
                                          "failed",       "last_step",     "file_bytes",
                                          "last_copy_ns", "last_write_ns", NULL};
    const char *path = sw_temp_path("checkpoint");
    const json_t
        *root = object_of(sw_textf(
            "train --json --synthetic-n 100 --batch 20 --checkpoint %s --checkpoint-every 2",
            path)),
        *saves = json_object_get(root, "checkpoint");
    const char *const said = json_string_value(json_object_get(saves, "path"));
    has_numbers(saves, "checkpoint", numbers);
    CU_ASSERT(said != NULL && strcmp(said, path) == 0);
    CU_ASSERT(json_is_null(json_object_get(saves, "every_ns")));
    CU_ASSERT_EQUAL(json_object_size(saves), 10);
    CU_ASSERT_EQUAL(number(saves, "last_step"), 5);
    CU_ASSERT_EQUAL(number(saves, "copy_bytes"), number(root, "checkpoint_bytes"));
    CU_ASSERT_EQUAL(number(root, "checkpoint_bytes"), number(root, "model_bytes"));
    CU_ASSERT_EQUAL(number(root, "total_bytes"),
                    number(root, "model_bytes") + number(root, "arena_bytes") +
                        number(root, "data_bytes") + number(root, "checkpoint_bytes"));
    root = object_of(sw_textf("train --json --synthetic-n 100 --batch 20 --resume --checkpoint "
                              "%s --checkpoint-pauses",
                              path));
    saves = json_object_get(root, "checkpoint");
    CU_ASSERT_EQUAL(number(root, "resumed_from_step"), 5);
    CU_ASSERT(json_is_null(json_object_get(saves, "every_steps")) &&
              json_is_null(json_object_get(saves, "last_copy_ns")) &&
              number(saves, "every_ns") == 600e9 && number(saves, "copy_bytes") == 0);
}

SW_TEST("plan prints the keys of the interface")
{
    static const char *const strings[] = {"model", "device", NULL};
    static const char *const numbers[] =
        SW_INIT("batch", "predicted_peak_bytes", "model_bytes", "arena_bytes", "data_bytes",
                "total_bytes", "plan_ns", "lower_bound_bytes", "checkpoint_bytes", NULL);
    const json_t *one = object_of("plan --json --synthetic-n 100 --batch 16");
    has_strings(one, "plan", strings);
    has_numbers(one, "plan", numbers);
    has_phases(one, "plan", "predicted");
    has_shares(one, "plan", false);
    CU_ASSERT(number(one, "plan_ns") > 0);
    const json_t *three = object_of("plan --json --synthetic-n 100 --batch 1,16,50");
    const json_t *plans = json_object_get(three, "plans");
    static const int batches[] = {1, 16, 50};
    CU_ASSERT_EQUAL_FATAL(json_array_size(plans), 3);
    for (size_t i = 0; i < 3; i++) {
        has_numbers(json_array_get(plans, i), "plans", numbers);
        has_phases(json_array_get(plans, i), "plans", "predicted");
        has_shares(json_array_get(plans, i), "plans", false);
        CU_ASSERT_EQUAL(number(json_array_get(plans, i), "batch"), batches[i]);
    }
    CU_ASSERT_EQUAL(number(json_array_get(plans, 1), "predicted_peak_bytes"),
                    number(one, "predicted_peak_bytes"));
}

/* ---- the plan and the witnesses ---------------------------------------------------------- */

static bool agrees(const json_t *witness)
{
    static const char *const names[] = {"access", "extent", "death", "need"};
    for (int i = 0; i < 4; i++)
        if (!json_is_true(json_object_get(witness, names[i])))
            return false;
    return number(witness, "faults") == 0.0 &&
           json_is_null(json_object_get(witness, "first_fault"));
}

static bool same(const json_t *a, const char *a_key, const json_t *b, const char *b_key)
{
    const json_t *x = json_object_get(a, a_key);
    return x != NULL && json_equal(x, json_object_get(b, b_key));
}

/* Program by program: what `plan` says, what `train` planned, what the witnesses saw. */
static void check_witnessed(const char *words)
{
    json_t *planned = load_object(sw_textf("plan --json %s", words));
    json_t *trained =
        load_object(sw_textf("train --json --quiet --witness --epochs 1 %s", words));
    const json_t *plan = json_object_get(planned, "programs");
    const json_t *train = json_object_get(trained, "programs");
    SW_CHECK(json_array_size(plan) > 1 && json_array_size(plan) == json_array_size(train),
             "%s: %zu and %zu programs", words, json_array_size(plan), json_array_size(train));
    for (size_t i = 0; i < json_array_size(plan) && i < json_array_size(train); i++) {
        const json_t *p = json_array_get(plan, i), *t = json_array_get(train, i);
        const char *name = json_string_value(json_object_get(p, "name"));
        SW_CHECK(same(p, "name", t, "name") && same(p, "batch", t, "batch") &&
                     same(p, "predicted", t, "predicted") &&
                     same(p, "predicted_peak_bytes", t, "predicted_peak_bytes") &&
                     same(p, "arena_bytes", t, "arena_bytes"),
                 "%s, %s: plan and train differ", words, name);
        has_shares(p, words, false);
        has_shares(t, words, true);
        SW_CHECK(same(t, "predicted", t, "measured") &&
                     same(t, "predicted_peak_bytes", t, "measured_peak_bytes"),
                 "%s, %s: other bytes were observed", words, name);
        SW_CHECK(number(t, "runs") > 0.0 && agrees(json_object_get(t, "witness")),
                 "%s, %s: a witness disagrees or did not look", words, name);
    }
    SW_CHECK(agrees(json_object_get(trained, "witness")), "%s: the witnesses disagree", words);
    const char *by = json_string_value(json_object_get(trained, "measured_by"));
    SW_CHECK(by != NULL && strcmp(by, "access") == 0, "%s: measured by %s", words,
             by != NULL ? by : "nothing");
    json_decref(planned);
    json_decref(trained);
}

SW_TEST("what is planned is what the witnesses observe")
{
    static const char *const optimizers[] = {"sgd", "momentum", "nesterov", "adam", "adamw"};
    static const char *const extra[] = {"", "--update after", "--clip 1 --weight-decay 0.01"};
    static const int batches[] = {16, 100, 33, 5, 1};
    const bool full = sw_tests_full();
    for (int o = 0; o < 5; o++)
        for (int b = 0; b < 5; b++)
            for (int e = 0; e < 3; e++) {
                /* Of all 75, quick mode takes each optimizer once with another batch. */
                if (!full && (b != o || e != o % 3))
                    continue;
                check_witnessed(sw_textf(
                    "--model mlp --hidden 12 --synthetic-n 100 --batch %d --optimizer %s %s",
                    batches[b], optimizers[o], extra[e]));
            }
    check_witnessed("--synthetic-n 90 --batch 32 --optimizer adam");
    check_witnessed("--synthetic-n 70 --batch 70 --optimizer nesterov --clip 1");
}

/* Without a witness the arena's births and deaths are what is measured, with batches that are
 * not full and evaluation among them; immediate mode has the bump, a budget makes ops run
 * again. A program that did not run has nothing. */
SW_TEST("every mode has its roles and layers")
{
    static const char *const words[] = {
        "--synthetic-n 70 --batch 32 --optimizer adamw --threads 2",
        "--model mlp --synthetic-n 70 --batch 32 --immediate",
        "--model mlp --hidden 9,8,7 --synthetic-n 40 --batch 7 --optimizer sgd --update after",
        "--synthetic-n 20 --batch 20 --immediate --optimizer momentum --clip 1",
        "--synthetic-n 128 --batch 64 --isa base --memory-budget 3000KiB --witness"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        json_t *root = load_object(sw_textf("train --json --quiet --epochs 2 %s", words[i]));
        const json_t *programs = json_object_get(root, "programs");
        has_shares(root, words[i], true);
        for (size_t k = 0; k < json_array_size(programs); k++)
            has_shares(json_array_get(programs, k), words[i], true);
        json_decref(root);
    }
    const json_t *root =
        object_of("train --json --quiet --steps 1 --synthetic-n 70 --batch 32");
    const json_t *last = json_array_get(json_object_get(root, "programs"), 1);
    const json_t *line_of_it = json_array_get(json_object_get(last, "roles"), 0);
    CU_ASSERT_EQUAL(number(last, "runs"), 0);
    CU_ASSERT(json_is_null(json_object_get(line_of_it, "measured")));
    has_shares(object_of("plan --json --immediate --batch 9"), "plan", false);
}
