/* `stepwell bench products`: figures that agree with each other, a library that is held
 * against, and what is refused. */
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY SW_BUILD_ROOT "/tests/system/blas_peer.so"

static sw_outcome outcome;

static void let_go(void *json)
{
    json_decref(json);
}

/* The one object that `words` print. Never NULL. */
static const json_t *object_of(const char *words)
{
    program_run(&outcome, words, NULL);
    json_t *root = json_loads(outcome.out);
    SW_CHECK(outcome.status == 0 && json_is_object(root), "%s: status %d: %s%s", words,
             outcome.status, outcome.out, outcome.err);
    root = root != NULL ? root : json_loads("{}");
    sw_after(let_go, root);
    return root;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (1.0 + fabs(b));
}

/* ---- bench products ---------------------------------------------------------------------- */

static const char *const names[] = {"forward", "input", "weight"};

static void check_product(const json_t *row, int i, bool library)
{
    static const double sizes[2][3] = {{17, 8, 5}, {3, 64, 33}};
    const double *s = sizes[i / 3];
    const json_t *name = json_object_get(row, "product"),
                 *ours = json_object_get(row, "stepwell");
    CU_ASSERT(number(row, "m") == s[0] && number(row, "n") == s[1] && number(row, "k") == s[2]);
    CU_ASSERT_STRING_EQUAL(json_string_value(name), names[i % 3]);
    SW_CHECK(number(ours, "n") >= 3 &&
                 near(number(row, "gflops"), 2 * s[0] * s[1] * s[2] / number(ours, "min_ns")),
             "%d: %g calls, %g GFLOP/s", i, number(ours, "n"), number(row, "gflops"));
    SW_CHECK((json_object_get(row, "library") != NULL) == library, "%d", i);
    CU_ASSERT(number(row, "quiet_percent") > 0 && number(row, "quiet_percent") <= 100);
}

/* Rates follow from times; a library gives the same numbers, or the run would fail. */
static void products_agree_with_themselves(void)
{
    for (int library = 0; library < 2; library++) {
        const json_t *root = object_of(
            library ? "bench products --json --shape 17x8x5,3x64x33 --rounds 3 --threads 2 "
                      "--isa base --library " LIBRARY
                    : "bench products --json --shape 17x8x5,3x64x33 --rounds 3");
        const json_t *rows = json_object_get(root, "products");
        CU_ASSERT_EQUAL_FATAL(json_array_size(rows), 6);
        for (int i = 0; i < 6; i++)
            check_product(json_array_get(rows, (size_t)i), i, library);
        CU_ASSERT(number(json_object_get(root, "peaks"), "gflops") > 0);
        CU_ASSERT_EQUAL(number(root, "threads"), library + 1);
    }
}

static void products_print_a_table(void)
{
    program_run(&outcome,
                "bench products --shape 8x8x8 --product weight --rounds 1 --library " LIBRARY,
                NULL);
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "peak %") != NULL &&
                 strstr(outcome.out, "8x8x8") != NULL &&
                 strstr(outcome.out, "forward ") == NULL &&
                 strstr(outcome.out, "its own choice") != NULL,
             "status %d: %s%s", outcome.status, outcome.out, outcome.err);
}

/* ---- refusals ---------------------------------------------------------------------------- */

static const struct {
    const char *words;
    int status;
    const char *says;
} refused[] = {
    {"bench products --shape 8x8", 2, "--shape must be MxNxK"},
    {"bench products --shape 8x8x0", 2, "from 1 to 65536"},
    {"bench products --shape 8x8x8,", 2, "got 8x8x8,"},
    {"bench products --isa sse", 2, "--isa"},
    {"bench products --product dx", 2, "--product"},
    {"bench products --library /nowhere/blas.so", 3, "/nowhere/blas.so could not be opened"},
    {"bench products --library libm.so.6", 3, "cblas_sgemm was not found"},
};

static void what_means_nothing_is_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        program_run(&outcome, refused[i].words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, refused[i].status) &&
                     strstr(outcome.err, refused[i].says) != NULL,
                 "%s: status %d: %s", refused[i].words, outcome.status, outcome.err);
    }
}

static const sw_test tests[] = {
    {"bench products: rates are those of its times", products_agree_with_themselves},
    {"bench products prints a table", products_print_a_table},
    {"what means nothing is refused", what_means_nothing_is_refused},
};
SW_SUITE("bench", tests)
