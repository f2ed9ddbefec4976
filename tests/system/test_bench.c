/* `stepwell bench speed` and `bench products`: figures that agree with each other, a library
 * that is held against, lines that are answered, and what is refused. */
#include "tests/support/json.h"
#include "tests/support/process.h"
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

/* ---- bench speed ------------------------------------------------------------------------- */

static double summary(const json_t *object, const char *key, double n)
{
    const json_t *s = json_object_get(object, key);
    SW_CHECK(number(s, "n") == n && number(s, "min_ns") > 0 &&
                 number(s, "min_ns") <= number(s, "median_ns") &&
                 number(s, "median_ns") <= number(s, "p99_ns"),
             "%s: n %g, %g, %g, %g ns", key, number(s, "n"), number(s, "min_ns"),
             number(s, "median_ns"), number(s, "p99_ns"));
    return number(s, "p99_ns") / number(s, "median_ns");
}

/* Small batches; swishnet of small layers, since its own have 512 MiB whatever the batch is. */
static void every_workload_has_its_step(void)
{
    static const char *const models[] = {"lenet5",   "mlp200", "lenet5x5",
                                         "swishnet", "gpt",    "mbconv"};
    char words[200];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const bool control = i < 2, sized = strcmp(models[i], "swishnet") == 0;
        if (!sw_tests_full() && strcmp(models[i], "gpt") == 0)
            continue; /* as long as all the others */
        snprintf(words, sizeof words,
                 "bench speed --json --model %s --steps 3 --batch 2 --threads 2%s%s", models[i],
                 control ? " --control --isa base" : "", sized ? " --width 96" : "");
        const json_t *root = object_of(words);
        CU_ASSERT(near(number(root, "step_p99_over_median"), summary(root, "step", 3)));
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "model")), models[i]);
        CU_ASSERT_EQUAL(number(root, "batch"), 2);
        if (control) {
            CU_ASSERT(
                near(number(root, "control_p99_over_median"), summary(root, "control", 3)));
            CU_ASSERT(near(number(root, "memory_control_p99_over_median"),
                           summary(root, "memory_control", 3)));
            /* Weights, both moments of Adam and more. */
            const double least = i == 0 ? 44426 * 12 : 200 * 5010 * 12;
            SW_CHECK(number(root, "memory_control_bytes") > least &&
                         number(root, "memory_control_bytes") < 4 * least,
                     "%s: %g bytes", models[i], number(root, "memory_control_bytes"));
            CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "isa")), "base");
        }
        CU_ASSERT((json_object_get(root, "width") != NULL) == sized);
        SW_CHECK((json_object_get(root, "epoch_min_ns") != NULL) ==
                     (strcmp(models[i], "lenet5x5") == 0),
                 "%s", models[i]);
    }
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
    const json_t *rows = json_object_get(root, "ops"), *all = json_object_get(root, "all"),
                 *peaks = json_object_get(root, "peaks");
    double sums[KEYS] = {0}, before = INFINITY;
    int products = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double by_flops = number(row, "operations") / number(peaks, "gflops"),
                     by_bytes = number(row, "bytes") / number(peaks, "mixed_gb_per_s"),
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

static void ops_add_up(void)
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
                 *all = json_object_get(root, "all");
    check_ops(root, true);
    CU_ASSERT(
        near(number(root, "with_library_ns"),
             number(all, "min_ns") - number(all, "products_ns") + number(all, "library_ns")));
    program_run(&outcome, "bench speed --ops --model lenet5 --batch 4 --steps 2 --top 3", NULL);
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "the rest") != NULL &&
                 strstr(outcome.out, "no --library") != NULL,
             "status %d: %s%s", outcome.status, outcome.out, outcome.err);
}

static void controls_are_rows(void)
{
    program_run(&outcome, "bench speed --control --batch 4 --steps 20 --threads 1", NULL);
    const char *arithmetic = strstr(outcome.out, "\ncontrol "),
               *memory = strstr(outcome.out, "\nmemory control "),
               *over = strstr(outcome.out, "\nstep/memory ");
    SW_CHECK(outcome.status == 0 && arithmetic != NULL && memory > arithmetic && over > memory,
             "status %d: %s%s", outcome.status, outcome.out, outcome.err);
}

/* A line for making it, then one for each that came. */
static void lines_are_answered(void)
{
    char answers[1100];
    snprintf(answers, sizeof answers, "%s", sw_temp_path("answers"));
    CU_ASSERT_EQUAL_FATAL(sw_shell("printf 'step 1 2\\nstep 0 3\\n' | '%s' bench speed --turns "
                                   "--batch 4 > '%s'",
                                   program_path(), answers),
                          0);
    CU_ASSERT_EQUAL(sw_shell("test $(grep -c first_ns '%s') = 1", answers), 0);
    CU_ASSERT_EQUAL(sw_shell("grep -Eqx '.\"ns\":.[0-9]+,[0-9]+].' '%s'", answers), 0);
    CU_ASSERT_EQUAL(sw_shell("grep -Eqx '.\"ns\":.[0-9]+,[0-9]+,[0-9]+].' '%s'", answers), 0);
    CU_ASSERT_EQUAL(
        sw_shell("echo members 1 2 | '%s' bench speed --turns --batch 4 2>&1", program_path()),
        2);
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
    {"bench speed --model resnet", 2, "--model"},
    {"bench speed --ops --turns", 2, "--ops goes with neither"},
    {"bench speed --ops --control", 2, "--ops goes with neither"},
    {"bench speed --model gpt --width 64", 2, "--width is for --model swishnet"},
    {"bench speed --library libm.so.6", 2, "--library is for --ops"},
    {"bench speed --ops --library libm.so.6", 3, "cblas_sgemm was not found"},
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
    {"bench speed: every workload has its step", every_workload_has_its_step},
    {"bench speed: controls are rows", controls_are_rows},
    {"bench speed: ops add up and are ranked", ops_add_up},
    {"bench speed: lines are answered", lines_are_answered},
    {"what means nothing is refused", what_means_nothing_is_refused},
};
SW_SUITE("bench", tests)
