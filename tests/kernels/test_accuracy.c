/* Functions of one number against float64: what each promises, in every instruction set, over
 * floats that are spread evenly over all bit patterns, and where the old formulas were wrong.
 * `stepwell bench accuracy` does the same over every float. */
#include "kernels/dispatch.h"
#include "kernels/scalar.h"
#include "tests/support/suite.h"
#include "tools/bench/accuracy.h"

SW_TESTS("accuracy")

enum { STEP = 8209 };

SW_TEST("errors of functions of one number stay below what is promised")
{
    const uint64_t step = sw_tests_full() ? 257 : STEP;
    for (int i = 0; i < n_accuracy_rows; i++) {
        const accuracy_row *row = &accuracy_rows[i];
        const char *of = row->slope ? "slope" : "value";
        accuracy_result result;
        accuracy_begin(&result);
        accuracy_sweep(row, step, 0, accuracy_count(step), NULL, &result);
        SW_CHECK(result.arguments > 0, "%s, %s: nothing was judged", row->name, of);
        SW_CHECK(result.apart == 0, "%s, %s: instruction sets differ at %llu arguments",
                 row->name, of, (unsigned long long)result.apart);
        for (int r = 0; r < ACCURACY_RANGES; r++)
            SW_CHECK(result.worst[r] <= row->bound, "%s, %s: %.2f ulp at %.9g, %g is promised",
                     row->name, of, result.worst[r], (double)result.at[r], row->bound);
    }
}

/* The error itself: what is half an ulp away, lost, infinite or NaN. */
SW_TEST("errors are seen")
{
    const accuracy_row plain = {.name = "planted"};
    const accuracy_row crosses = {.name = "planted", .from = -2, .to = -1, .floor = 0.25f};
    CU_ASSERT_EQUAL(accuracy_error(&plain, 1.0f, 1.0f, 1.0), 0.0);
    CU_ASSERT_EQUAL(accuracy_error(&plain, 1.0f, 1.0f + 0x1p-22f, 1.0), 2.0);
    CU_ASSERT_EQUAL(accuracy_error(&plain, 1.0f, 0.0f, 0x1p-127), 0.0);
    CU_ASSERT(accuracy_error(&plain, 1.0f, 0.0f, 0x1p-125) > 1e6);
    CU_ASSERT(accuracy_error(&plain, 1.0f, NAN, 1.0) == HUGE_VAL);
    CU_ASSERT(accuracy_error(&plain, 1.0f, 1.0f, (double)NAN) == HUGE_VAL);
    CU_ASSERT_EQUAL(accuracy_error(&plain, 1.0f, (double)NAN, (double)NAN), 0.0);
    CU_ASSERT_EQUAL(accuracy_error(&plain, 1.0f, HUGE_VALF, 0x1p128), 0.0);
    CU_ASSERT(accuracy_error(&plain, 1.0f, HUGE_VALF, 1e38) > 1e6);
    CU_ASSERT(accuracy_error(&plain, 1.0f, -HUGE_VALF, 0x1p128) > 1e6);
    CU_ASSERT(accuracy_error(&plain, 1.0f, 3e38f, HUGE_VAL) > 1e6);
    CU_ASSERT_EQUAL(accuracy_error(&crosses, -1.5f, 0x1p-24f, 0.0), 2.0);
    CU_ASSERT(accuracy_error(&crosses, -3.0f, 0x1p-24f, 0.0) > 1e6);
}

SW_TEST("ends of ranges are limits")
{
    const float inf = HUGE_VALF, most = 3.402823466e38f;
    CU_ASSERT(fabsf(sw_log_value(2.5e38f) - 88.414524f) < 1e-5f);
    CU_ASSERT(fabsf(sw_log_value(most) - 88.722839f) < 1e-5f);
    CU_ASSERT_EQUAL(sw_log_value(1e-40f), -inf);
    CU_ASSERT_EQUAL(sw_log_value(-1e-40f), -inf);
    CU_ASSERT(isfinite(sw_exp_value(88.7228317f)) && sw_exp_value(88.7228394f) == inf);
    CU_ASSERT(sw_exp_value(-87.335f) > 0.0f && sw_exp_value(-90.0f) == 0.0f);
    CU_ASSERT_EQUAL(sw_expf(-inf), 0.0f);
    static const struct {
        const char *name;
        float (*value)(float x), (*slope)(float x);
    } fall[] = {{"swish", sw_swish_value, sw_swish_slope},
                {"gelu", sw_gelu_value, sw_gelu_slope},
                {"gelu_tanh", sw_gelu_tanh_value, sw_gelu_tanh_slope},
                {"mish", sw_mish_value, sw_mish_slope}};
    for (size_t i = 0; i < sizeof fall / sizeof *fall; i++) {
        const float far[] = {-200.0f, -1e10f, -most, -inf};
        for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
            SW_CHECK(fabsf(fall[i].value(far[k])) < 1e-37f, "%s(%g) is %g", fall[i].name,
                     (double)far[k], (double)fall[i].value(far[k]));
            SW_CHECK(fabsf(fall[i].slope(far[k])) < 1e-37f, "%s'(%g)", fall[i].name,
                     (double)far[k]);
            SW_CHECK(fall[i].value(-far[k]) == -far[k] && fall[i].slope(-far[k]) == 1.0f,
                     "%s(%g)", fall[i].name, (double)-far[k]);
        }
        SW_CHECK(isnan(fall[i].value(NAN)) && isnan(fall[i].slope(NAN)), "%s(NaN)",
                 fall[i].name);
    }
}

/* ---- the table of kernels/README.md ------------------------------------------------------ */

/* The row of a line "| op | value or slope | six numbers or - | bound | note |". */
static bool read_line(char *line, char cell[10][200])
{
    int n = 0;
    for (char *at = strstr(line, "| "); at != NULL && n < 10; n++) {
        char *end = at + 1;
        do
            end = strchr(end + 1, '|');
        while (end != NULL && end[-1] == '\\');
        if (end == NULL)
            break;
        const char *from = at + 1 + (at[1] == ' ');
        int size = (int)(end - from);
        while (size > 0 && from[size - 1] == ' ')
            size--;
        snprintf(cell[n], 200, "%.*s", size > 0 ? size : 0, from);
        at = end;
    }
    return n == 10 && (strcmp(cell[1], "value") == 0 || strcmp(cell[1], "slope") == 0);
}

SW_TEST("the table of the README is that of the code")
{
    char line[1024], cell[10][200];
    int n = 0;
    FILE *file = fopen(sw_textf("%s/kernels/README.md", sw_source_root()), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (!read_line(line, cell))
            continue;
        if (!SW_CHECK(n < n_accuracy_rows, "one row too many: %s", line))
            break;
        const accuracy_row *row = &accuracy_rows[n++];
        SW_CHECK(strcmp(cell[0], row->name) == 0 &&
                     (strcmp(cell[1], "slope") == 0) == row->slope,
                 "%s, %s stands where %s does in the code", cell[0], cell[1], row->name);
        SW_CHECK(strtod(cell[8], NULL) == row->bound && strcmp(cell[9], row->note) == 0,
                 "%s, %s: %s, %s", cell[0], cell[1], cell[8], cell[9]);
        for (int r = 0; r < ACCURACY_RANGES; r++)
            SW_CHECK(strtod(cell[2 + r], NULL) <= row->bound, "%s, %s: %s", cell[0], cell[1],
                     cell[2 + r]);
    }
    fclose(file);
    SW_CHECK(n == n_accuracy_rows, "%d rows of %d", n, n_accuracy_rows);
}
