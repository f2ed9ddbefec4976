/* The whole process, seen from inside by `stepwell train --process` and from outside by the
 * system: what our ranges hold is what was predicted, every other byte has a name, and two
 * batch sizes differ by what their plans differ. */
#include "profiler/record/process.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <unistd.h>

#include "tests/support/json.h"

SW_TESTS("process")

static sw_outcome outcome;

static bool readable(void)
{
    return access("/proc/self/smaps", R_OK) == 0 && access("/proc/self/pagemap", R_OK) == 0;
}

static json_t *run(const char *words)
{
    program_run(&outcome, sw_textf("train --json --quiet %s", words), NULL);
    json_t *o = json_loads(outcome.out);
    SW_CHECK(outcome.status == 0 && json_is_object(o), "%s: status %d: %s%s", words,
             outcome.status, outcome.err, sw_last_error());
    return o != NULL ? o : json_loads("{}");
}

static json_int_t number(const json_t *o, const char *key)
{
    const json_t *x = json_object_get(o, key);
    SW_CHECK(json_is_integer(x), "%s is no integer", key);
    return json_integer_value(x);
}

/* Whether the lines add up, and each arena has what was predicted. */
static void check_process(const json_t *process, const char *words)
{
    const json_t *lines = json_object_get(process, "lines");
    json_int_t all = 0;
    int arenas = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *l = json_array_get(lines, i);
        all += number(l, "resident_bytes");
        if (json_object_get(l, "predicted_bytes") == NULL)
            continue;
        arenas++;
        const json_int_t wanted = number(l, "predicted_bytes"),
                         is = number(l, "resident_bytes");
        SW_CHECK(SW_CHECKS > 0 || wanted == is, "%s: %s: %lld resident, %lld predicted", words,
                 json_string_value(json_object_get(l, "name")), (long long)is,
                 (long long)wanted);
    }
    SW_CHECK(arenas == 3, "%s: %d arenas", words, arenas);
    SW_CHECK(all == number(process, "resident_bytes"), "%s: the lines add up to %lld", words,
             (long long)all);
    CU_ASSERT(SW_CHECKS > 0 || json_is_true(json_object_get(process, "equal")));
}

/* Nearly nothing may be unexplained: what the loader of programs keeps may lie apart. */
#define REST ((json_int_t)64 << 10)

static const char *const runs[] = {
    "--process --model mlp --synthetic-n 1000 --batch 100 --steps 4",
    "--process --model lenet5 --synthetic-n 1000 --batch 100 --steps 4",
    "--process --model mlp --hidden 700,300 --synthetic-n 150 --batch 64 --steps 5 --threads 3",
    "--process --model lenet5 --synthetic-n 150 --batch 64 --epochs 2 --threads 2",
    "--process --model lenet5 --synthetic-n 300 --batch 7 --steps 3 --optimizer sgd",
    "--process --model lenet5 --synthetic-n 300 --batch 50 --steps 3 --immediate",
    "--process --model mlp --synthetic-n 40 --batch 100 --steps 1",
    "--process --model mlp --synthetic-n 300 --batch 50 --steps 3 --witness",
};

SW_TEST("what is resident is what was predicted, and the rest has names")
{
    if (!readable())
        SW_SKIP("no /proc/self/smaps");
    if (!HAVE_STEADY)
        SW_SKIP("a sanitizer has mappings of its own");
    json_int_t most = 0;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        json_t *o = run(runs[i]);
        const json_t *process = json_object_get(o, "process");
        check_process(process, runs[i]);
        const json_int_t rest = number(process, "unexplained_bytes");
        most = rest > most ? rest : most;
        SW_CHECK(rest <= REST, "%s: %lld bytes are unexplained", runs[i], (long long)rest);
        json_decref(o);
    }
    sw_note("%zu runs, at most %lld bytes unexplained", sizeof runs / sizeof *runs,
            (long long)most);
}

/* The profile has the same record, and without the option nothing is read or written. */
SW_TEST("the profile has it too")
{
    if (!readable())
        SW_SKIP("no /proc/self/smaps");
    const char *path = sw_temp_path("process.jsonl");
    json_t *trained = run(sw_textf(
        "--process --profile %s --model mlp --synthetic-n 100 --batch 50 --steps 2", path));
    program_run(&outcome, sw_textf("report --json %s", path), NULL);
    json_t *reported = json_loads(outcome.out);
    CU_ASSERT(outcome.status == 0 && json_is_object(reported));
    CU_ASSERT(json_is_object(json_object_get(trained, "process")));
    CU_ASSERT(
        json_equal(json_object_get(trained, "process"), json_object_get(reported, "process")));
    json_decref(reported);
    json_decref(trained);
    program_run(&outcome, sw_textf("report %s", path), NULL);
    CU_ASSERT(outcome.status == 0 &&
              strstr(outcome.out, "Resident bytes of the process") != NULL);
    trained = run("--model mlp --synthetic-n 100 --batch 50 --steps 2");
    CU_ASSERT_PTR_NULL(json_object_get(trained, "process"));
    json_decref(trained);
}

/* In a namespace with an empty /proc. */
SW_TEST("without /proc it says so")
{
    if (!HAVE_STEADY)
        SW_SKIP("sanitizers read /proc themselves");
    static const char empty[] = "mount -t tmpfs none /proc";
    if (sw_shell("unshare -rm sh -c '%s' 2>/dev/null", empty) != 0)
        SW_SKIP("no namespace with an empty /proc to be had");
    const char *line = sw_textf("%s && exec %s train --process --json --quiet --model mlp "
                                "--synthetic-n 100 --batch 50 --steps 2",
                                empty, program_path());
    const char *const argv[] = {"unshare", "-rm", "sh", "-c", line, NULL};
    sw_process_run(&outcome, argv, NULL, 60);
    CU_ASSERT_EQUAL(outcome.status, 0);
    SW_CHECK(strstr(outcome.err, "/proc/self/smaps: ") != NULL &&
                 sw_count_lines(outcome.err) == 1,
             "%s", outcome.err);
    json_t *o = json_loads(outcome.out);
    CU_ASSERT(json_is_null(json_object_get(o, "process")) && number(o, "steps") == 2);
    json_decref(o);
}

/* The peak by the system, and the plan's bytes. */
typedef struct {
    double peak, total;
} figures;

static figures train_outside(const char *words, int batch)
{
    json_t *o = run(sw_textf("%s --batch %d", words, batch));
    const figures f = {(double)outcome.peak_bytes, (double)number(o, "total_bytes")};
    json_decref(o);
    return f;
}

/* By how much the large batch needs more: measured less predicted, as a share of the latter. */
static double off_by(const char *words, int small, int large)
{
    const figures a = train_outside(words, small), b = train_outside(words, large);
    const double predicted = b.total - a.total, is = b.peak - a.peak;
    SW_CHECK(predicted > 20e6, "%s: only %.0f bytes", words, predicted);
    sw_note("%s, batch %d and %d: %.0f bytes more, %.0f predicted (%+.2f %%)", words, small,
            large, is, predicted, 100.0 * (is - predicted) / predicted);
    return a.peak <= 0.0 || b.peak <= 0.0 ? (double)NAN : (is - predicted) / predicted;
}

/* The same images in both processes, so that nothing differs but the batch. The kernel counts
 * pages in batches, for each thread and core: what it says is a little off now and then. */
SW_TEST("from outside two batches differ as predicted")
{
    static const struct {
        const char *words;
        int small, large;
    } pairs[] = {
        {"--model mlp --hidden 1024 --synthetic-n 4096 --steps 1", 512, 4096},
        {"--model lenet5 --synthetic-n 4096 --steps 1", 256, 4096},
    };
    if (!HAVE_STEADY)
        SW_SKIP("a sanitizer has memory of its own");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double off = 1.0;
        for (int tries = 0; tries < 4 && fabs(off) > 0.01; tries++)
            off = off_by(pairs[i].words, pairs[i].small, pairs[i].large);
        if (isnan(off))
            SW_SKIP("the system does not say what a process needed at most");
        SW_CHECK(fabs(off) <= 0.01, "%s: off by %.2f %% four times", pairs[i].words,
                 100.0 * off);
    }
}
