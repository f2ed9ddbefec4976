/* `stepwell bench speed --ops`: rows that add up, and their order; all else of bench is in
 * transcripts/bench.txt. */
#include "tests/support/json.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

SW_TESTS("bench")

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

/* An op that is a product alone has the operations of a product, and an addition for each
 * element where it adds; others have more, or are no products. */
static void check_products(const json_t *row)
{
    static const char *const alone[] = {"linear dx", "linear dw", "matmul", "conv2d dx"};
    const char *name = json_string_value(json_object_get(row, "op"));
    const double all = number(row, "operations"), products = number(row, "product_operations");
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (products > 0 && strcmp(name, alone[i]) == 0)
            SW_CHECK(products > 0.99 * all, "%s: %g of %g", name, products, all);
    SW_CHECK(products <= all, "%s: %g of %g", name, products, all);
    if (strncmp(name, "linear", 6) == 0 && strstr(name, "db") == NULL &&
        strstr(name, "ce d") == NULL)
        SW_CHECK(products > 0.9 * all, "%s: %g of %g", name, products, all);
}

/* Rows: their sums, the bound by the peaks that are printed, the most time lost first. */
static void check_ops(const json_t *root, bool library)
{
    static const char *const keys[] = {"calls", "min_ns", "operations", "bytes",
                                       "product_operations"};
    enum { KEYS = 5 };
    const json_t *rows = json_object_get(root, "ops");
    const size_t n = json_array_size(rows) - 1;
    const json_t *all = json_array_get(rows, n);
    double sums[KEYS] = {0}, before = INFINITY;
    int products = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        const double by_flops = number(row, "operations") / number(root, "peak_gflops"),
                     by_bytes = number(row, "bytes") / number(root, "peak_mixed_gb_per_s"),
                     lost = number(row, "lost_ns");
        for (int k = 0; k < KEYS; k++)
            sums[k] += number(row, keys[k]);
        CU_ASSERT(near(number(row, "bound_ns"), by_flops > by_bytes ? by_flops : by_bytes));
        CU_ASSERT(near(lost, number(row, "min_ns") - number(row, "bound_ns")));
        CU_ASSERT(lost <= before);
        before = lost;
        check_products(row);
        products += json_is_number(json_object_get(row, "library_ns"));
    }
    for (int k = 0; k < KEYS; k++)
        CU_ASSERT_EQUAL(number(all, keys[k]), sums[k]);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(all, "op")), "all");
    SW_CHECK((products > 0) == library, "%d rows have products", products);
}

/* Of 8 layers 7 go forward in strips and 7 are updated in strips, by products above all; the
 * loss and its gradient have none. */
static void check_strips(const json_t *root)
{
    const json_t *rows = json_object_get(root, "ops");
    double calls = 0, with_products = 0;
    check_ops(root, false);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strncmp(json_string_value(json_object_get(row, "op")), "in_strips", 9) != 0)
            continue;
        const double all = number(row, "operations"),
                     products = number(row, "product_operations");
        SW_CHECK(products == 0 || products > 0.9 * all, "%g of %g", products, all);
        calls += number(row, "calls");
        with_products += products > 0 ? number(row, "calls") : 0;
    }
    SW_CHECK(calls == 7 + 7 + 2 && with_products == 7 + 7, "%g calls, %g with products", calls,
             with_products);
}

SW_TEST("bench speed: ops add up and are ranked")
{
    if (sw_tests_full()) { /* each measures the machine's peaks, and takes seconds */
        check_ops(object_of("bench speed --json --ops --model gpt --batch 1 --steps 2"), false);
        check_ops(object_of("bench speed --json --ops --model mbconv --batch 17 --steps 1"),
                  false);
        /* Rows and features enough for strips. */
        check_strips(object_of("bench speed --json --ops --model swishnet --width 1024 "
                               "--batch 1100 --steps 1"));
    }
    const json_t *root = object_of("bench speed --json --ops --model mlp200 --batch 4 "
                                   "--steps 2 --library " LIBRARY),
                 *rows = json_object_get(root, "ops"),
                 *all = json_array_get(rows, json_array_size(rows) - 1);
    check_ops(root, true);
    CU_ASSERT(
        near(number(root, "with_library_ns"),
             number(all, "min_ns") - number(all, "products_ns") + number(all, "library_ns")));
    program_run(&outcome, "bench speed --ops --model lenet5 --batch 4 --steps 2 --top 3", NULL);
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "the rest") != NULL &&
                 strstr(outcome.out, "no --library") != NULL,
             "status %d: %s%s", outcome.status, outcome.out, outcome.err);
}
