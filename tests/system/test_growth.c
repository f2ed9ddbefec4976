/* Profile and report from one end to the other: a run that leaks is named by what and where, a
 * clean one is not; what did not fit says who would have held it; the heap's own profile. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <unistd.h>

#include "tests/support/json.h"

SW_TESTS("growth")

static sw_outcome outcome;

static json_t *report_of(const char *path)
{
    program_run(&outcome, sw_textf("report --json %s", path), NULL);
    json_t *o = json_loads(outcome.out);
    SW_CHECK(outcome.status == 0 && json_is_object(o), "status %d: %s", outcome.status,
             outcome.err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    return o;
}

static bool text_report_has(const char *path, const char *text)
{
    program_run(&outcome, sw_textf("report %s", path), NULL);
    return outcome.status == 0 && strstr(outcome.out, text) != NULL;
}

static json_int_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "";
}

/* ---- growth ------------------------------------------------------------------------------ */

#if HAVE_STEADY

/* Its report's member "growth". The steps after the warm-up are `n`. */
static json_t *steady(const char *path, const char *n, const char *plant)
{
    const char *program = sw_textf("%s/tests/system/steady", sw_build_root());
    const char *const argv[] = {program, n, path, plant, NULL};
    sw_process_run(&outcome, argv, NULL, 900);
    SW_CHECK(outcome.status == 0, "status %d: %s", outcome.status, outcome.err);
    json_t *all = report_of(path), *growth = json_object_get(all, "growth");
    CU_ASSERT_FATAL(json_is_object(growth));
    return growth;
}

static const json_t *row_of(const json_t *growth, const char *purpose)
{
    const json_t *rows = json_object_get(growth, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(text(json_array_get(rows, i), "purpose"), purpose) == 0)
            return json_array_get(rows, i);
    return NULL;
}

/* Warm-up, last partial batches and evaluation plan programs: none of that is growth. */
SW_TEST("nothing grows in a clean run")
{
    const char *path = sw_temp_path("steady.jsonl");
    json_t *growth = steady(path, sw_tests_full() ? "1000" : "100", NULL);
    CU_ASSERT(json_is_false(json_object_get(growth, "grew")));
    CU_ASSERT(text_report_has(path, "  nothing grew\n"));
    json_decref(growth);
}

/* The warm-up takes an epoch of 16 batches and a step. A leak after step 18 is in the record of
 * step 19, and by step 20 it is growth. */
SW_TEST("a leak of data is named within two steps")
{
    const char *path = sw_temp_path("leak.jsonl");
    json_t *growth = steady(path, "3", "data");
    const json_t *row = row_of(growth, "datasets");
    SW_CHECK(row != NULL, "no row in %s", outcome.out);
    if (row == NULL)
        return;
    SW_CHECK(strncmp(text(row, "place"), "runtime/data/", 13) == 0, "%s", text(row, "place"));
    CU_ASSERT(number(row, "bytes_per_step") >= 5 * 28 * 28);
    CU_ASSERT_EQUAL(number(row, "first_step"), 19);
    CU_ASSERT(text_report_has(path, "datasets grows by"));
    json_decref(growth);
}

/* Memory that the library did not take is named so; by which means, where the heap can tell. */
SW_TEST("a leak outside is named so")
{
    static const struct {
        const char *plant, *purpose, *place;
        json_int_t bytes;
    } leaks[] = {{"malloc", "malloc", "outside the library's heap", 10000},
                 {"pages", "process", "not by malloc", 8000}};
    for (size_t i = 0; i < sizeof leaks / sizeof *leaks; i++) {
        const char *path = sw_temp_path("outside.jsonl");
        json_t *growth = steady(path, sw_tests_full() ? "3000" : "150", leaks[i].plant);
        const json_t *series = json_object_get(growth, "series");
        if (json_object_get(series, "malloc") == NULL) {
            json_decref(growth);
            SW_SKIP("this heap does not say what it has given out");
        }
        const json_t *row = row_of(growth, leaks[i].purpose);
        SW_CHECK(row != NULL && strstr(text(row, "place"), leaks[i].place) != NULL &&
                     number(row, "bytes_per_step") >= leaks[i].bytes,
                 "%s: %s", leaks[i].plant, outcome.out);
        CU_ASSERT_PTR_NULL(row_of(growth, "datasets"));
        json_decref(growth);
    }
}

#else

SW_TEST("nothing grows in a clean run")
{
    SW_SKIP("sanitizers have a heap of their own");
}

SW_TEST("a leak of data is named within two steps")
{
    SW_SKIP("sanitizers have a heap of their own");
}

SW_TEST("a leak outside is named so")
{
    SW_SKIP("sanitizers have a heap of their own");
}

#endif

/* The program itself: epochs, loaders, validations, and hundreds of last partial batches. */
SW_TEST("nothing grows over 100,000 steps")
{
    const char *n = sw_tests_full() ? "100000" : "3000";
    const char *path = sw_temp_path("long.jsonl");
    program_run(&outcome,
                sw_textf("train --model mlp --hidden 16 --synthetic-n 3210 --batch 32 --steps "
                         "%s --epochs 1000000 --quiet --profile %s",
                         n, path),
                NULL);
    CU_ASSERT_EQUAL_FATAL(outcome.status, 0);
    json_t *all = report_of(path), *growth = json_object_get(all, "growth");
    SW_CHECK(json_is_false(json_object_get(growth, "grew")), "%s", outcome.out);
    CU_ASSERT_EQUAL(number(all, "steps"), strtoll(n, NULL, 10));
    sw_note("%s steps, %lld evaluation runs", n, (long long)number(all, "evaluations"));
    json_decref(all);
}

/* ---- denied ------------------------------------------------------------------------------ */

/* The largest batch that it names is accepted, and one more is not. */
SW_TEST("a refusal names who held it and what fits")
{
    static const char job[] = "train --model lenet5 --quiet --synthetic-n 200 --steps 1 "
                              "--no-recompute --memory-budget 1MiB";
    const char *path = sw_temp_path("denied.jsonl");
    const char *words = sw_textf("%s --batch 128 --profile %s", job, path);
    program_run(&outcome, words, NULL);
    CU_ASSERT(program_failed_cleanly(&outcome, 4));
    json_t *all = report_of(path);
    const json_t *d = json_object_get(all, "denied");
    CU_ASSERT_FATAL(json_is_object(d));
    CU_ASSERT_STRING_EQUAL(text(all, "status"), "failed");
    CU_ASSERT_STRING_EQUAL(text(d, "limited_by"), "budget");
    CU_ASSERT_EQUAL(number(d, "limit_bytes"), 1 << 20);
    const json_t *holders = json_object_get(d, "holders");
    CU_ASSERT(json_array_size(holders) == 10);
    CU_ASSERT_STRING_EQUAL(text(json_array_get(holders, 0), "name"), "conv1/max_pool2d.grad");
    const json_int_t fits = number(d, "largest_batch");
    CU_ASSERT(fits > 0 && number(d, "largest_batch_bytes") <= 1 << 20);
    for (int more = 0; more < 2; more++) {
        words = sw_textf("%s --batch %lld", job, (long long)fits + more);
        program_run(&outcome, words, NULL);
        SW_CHECK(outcome.status == (more == 0 ? 0 : 4), "%s: status %d: %s", words,
                 outcome.status, outcome.err);
    }
    json_decref(all);
    CU_ASSERT(text_report_has(path, "It did not fit\n"));
    CU_ASSERT(strncmp(outcome.out, "It did not fit\n", 15) == 0); /* before all else */
}

/* ---- the heap's own profile -------------------------------------------------------------- */

SW_TEST("the heap profile is written on request")
{
    static const char job[] =
        "train --model mlp --quiet --synthetic-n 200 --steps 1 --batch 16";
    const char *path = sw_temp_path("heap-profile");
    const char *words = sw_textf("%s --heap-profile %s", job, path);
    program_run(&outcome, words, "MALLOC_CONF=prof:false");
    CU_ASSERT(program_failed_cleanly(&outcome, 1));
    CU_ASSERT(strstr(outcome.err, "--heap-profile") != NULL);
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
    const bool can = strstr(outcome.err, "MALLOC_CONF=prof:true") != NULL;
    if (!can) {
        CU_ASSERT(strstr(outcome.err, "-Djemalloc=enabled") != NULL ||
                  strstr(outcome.err, "--enable-prof") != NULL);
        SW_SKIP("this build has no jemalloc, or one without a heap profile");
    }
    program_run(&outcome, words, "MALLOC_CONF=prof:true,lg_prof_sample:0");
    CU_ASSERT_EQUAL(outcome.status, 0);
    size_t n;
    char *bytes = (char *)file_read(path, &n);
    CU_ASSERT(bytes != NULL && n > 100 && strncmp(bytes, "heap_v2/", 8) == 0);
    free(bytes);
}
