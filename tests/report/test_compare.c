/* `stepwell report --steps` and --diff on golden/scopes.jsonl (test_by.c has its figures), and
 * limits on the peak. Step 2 runs another program than step 1: its scratch of 512 bytes is
 * gone, an extra of 448 is new, an output of 128 has 192, and one of 64 is made an op earlier.
 * Step 4 runs the program of step 1 and peaks 64 bytes above its plan. */
#include "tests/report/call.h"

SW_TESTS("compare")

static const char *const sums[] = {"roles", "layers", "ops", "tensors"};

/* In each group: what lines have of it adds up to the peaks, and shares to one. Differences are
 * the newer side less the other: B of two steps, A of --diff. */
static void check_sums(const json_t *o, long long a, long long b)
{
    const bool a_is_newer = strcmp(json_string_value(json_object_get(o, "newer")), "a") == 0;
    const long long grown = a_is_newer ? a - b : b - a;
    CU_ASSERT_EQUAL(number_in(o, "totals", "peak", "a"), a);
    CU_ASSERT_EQUAL(number_in(o, "totals", "peak", "b"), b);
    CU_ASSERT_EQUAL(number_of(o, "peak_difference_bytes"), grown);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        long long all[3] = {0};
        double grew = 0.0, shrank = 0.0;
        const char *name;
        json_t *x, *group = json_object_get(o, sums[i]);
        json_object_foreach(group, name, x)
        {
            all[0] += number_of(x, "a");
            all[1] += number_of(x, "b");
            all[2] += number_of(x, "difference");
            const double share = json_number_value(json_object_get(x, "share"));
            CU_ASSERT((share > 0.0) == (number_of(x, "difference") > 0) && share >= -1.0 &&
                      share <= 1.0);
            *(share > 0.0 ? &grew : &shrank) += share;
            CU_ASSERT_EQUAL(number_of(x, "difference"),
                            (number_of(x, "b") - number_of(x, "a")) * (a_is_newer ? -1 : 1));
        }
        SW_CHECK(all[0] == a && all[1] == b && all[2] == grown, "%s: %lld, %lld, %lld", sums[i],
                 all[0], all[1], all[2]);
        SW_CHECK(grew == 0.0 || fabs(grew - 1.0) < 1e-6, "%s: shares %g", sums[i], grew);
        SW_CHECK(shrank == 0.0 || fabs(shrank + 1.0) < 1e-6, "%s: shares %g", sums[i], shrank);
        CU_ASSERT(a == b || (grown > 0 ? grew > 0.0 : shrank < 0.0));
    }
}

SW_TEST("every tensor says why")
{
    static const struct {
        const char *name;
        long long difference;
        const char *why;
    } wanted[] = {{"block/conv2.scratch", -512, "only in A"},
                  {"block/conv2.extra", 448, "only in B"},
                  {"block/conv2.out", 64, "other size"},
                  {"block/add.out", 64, "peak of B only"},
                  {"conv1.weight", 0, NULL}};
    const json_t *o = object_of(call_words("scopes.jsonl --steps 1,2 --json"));
    check_sums(o, 1216, 1280);
    CU_ASSERT(json_is_false(json_object_get(o, "same_program")));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const json_t *x = json_object_get(json_object_get(o, "tensors"), wanted[i].name);
        const char *why = json_string_value(json_object_get(x, "why"));
        CU_ASSERT_EQUAL(number_of(x, "difference"), wanted[i].difference);
        SW_CHECK(wanted[i].why != NULL ? why != NULL && strcmp(why, wanted[i].why) == 0
                                       : why == NULL,
                 "%s: %s", wanted[i].name, why != NULL ? why : "null");
    }
    CU_ASSERT_EQUAL(json_object_size(json_object_get(o, "tensors")), 7);
    check_sums(object_of(call_words("scopes.jsonl --steps 2,1 --json")), 1280, 1216);
}

SW_TEST("the same program is said to be equal")
{
    const printed *p = call_words("scopes.jsonl --steps 1,3");
    CU_ASSERT(p->status == 0 && has(p->out, "\nequal, the same program: ") &&
              !has(p->out, "tensors   "));
    const json_t *o = object_of(call_words("scopes.jsonl --steps 1,3 --json"));
    check_sums(o, 1216, 1216);
    CU_ASSERT(json_is_true(json_object_get(o, "same_program")));
    CU_ASSERT_EQUAL(number_in(o, "process", "host heap", "difference"), 1024);
    CU_ASSERT_EQUAL(number_in(o, "process", "process resident", "difference"), 4096);
    CU_ASSERT_EQUAL(number_in(o, "ns", "step in all", "difference"), 1000);
}

/* Bytes measured beyond the plan are a line, and the sum is exact. */
SW_TEST("what no tensor explains is a line")
{
    const json_t *o = object_of(call_words("scopes.jsonl --steps 1,4 --json"));
    check_sums(o, 1216, 1280);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        CU_ASSERT_EQUAL(number_in(o, sums[i], "(not in the values)", "difference"), 64);
    const printed *p = call_words("scopes.jsonl --steps 1,4");
    CU_ASSERT(has(p->out, "forward: peak of 1,216 bytes predicted, 1,280 measured"));
    CU_ASSERT_FALSE(has(p->out, "equal, the same program"));
}

SW_TEST("the text of steps adds up")
{
    setenv("LC_ALL", "C", 1);
    const printed *p = call_words("scopes.jsonl --steps 1,2 --bytes");
    CU_ASSERT_EQUAL(p->status, 0);
    check_width(p->out);
    char total[96];
    snprintf(total, sizeof total, "\n  %-20s %15s %15s %17s\n", "total", "1,216", "1,280",
             "+64");
    CU_ASSERT(has(p->out, total) && has(p->out, "\n  3 equal "));
}

/* A snapshot of PyTorch tells nothing of model and data: no row makes them 0. */
SW_TEST("what a snapshot does not tell has no row")
{
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("small.pickle"));
    CU_ASSERT_EQUAL_FATAL(call_words("small.jsonl --format memory-viz --out %s", path)->status,
                          0);
    const printed *p = call_words("small.jsonl --diff %s --bytes", path);
    CU_ASSERT(p->status == 0 && has(p->out, "\n  arena, reserved") &&
              !has(p->out, "\n  model ") && !has(p->out, "\n  data  0"));
    p = call_words("small.jsonl --diff differs.jsonl");
    CU_ASSERT(p->status == 0 && has(p->out, "\n  model ") && !has(p->out, "reserved"));
}

/* A snapshot without frames: its phases are not known, and no 0. */
SW_TEST("phases that no one told are unknown")
{
    /* {"segments": [], "device_traces": [[an allocation of 1,024 bytes, and its end]]} */
    static const char pickle[] =
        "\200\002}q\000(X\010\000\000\000segmentsq\001]q\002X\015\000\000\000dev"
        "ice_tracesq\003]q\004]q\005(}q\006(X\006\000\000\000actionq\007X\005\000"
        "\000\000allocq\010X\004\000\000\000addrq\011M\000\020X\004\000\000\000s"
        "izeq\012M\000\004X\006\000\000\000streamq\013K\000X\006\000\000\000fram"
        "esq\014]q\015u}q\016(h\007X\016\000\000\000free_completedq\017h\011M\000"
        "\020h\012M\000\004h\013K\000h\014]q\020ueau.";
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("frameless.pickle"));
    FILE *file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT(fwrite(pickle, 1, sizeof pickle - 1, file) == sizeof pickle - 1);
    fclose(file);
    static const char *const phases[] = {"data", "forward", "loss", "backward", "step"};
    const printed *p = call_words("small.jsonl --diff %s", path);
    SW_CHECK(p->status == 0, "%s", p->err);
    check_width(p->out);
    for (int i = 0; i < 5; i++) {
        char line[96];
        snprintf(line, sizeof line, "\n  %-20s", phases[i]);
        const char *at = strstr(p->out, line);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        const size_t n = strcspn(at + 1, "\n");
        const char *first = strstr(at, " unknown "), *second = strstr(at, "  unknown\n");
        SW_CHECK(first != NULL && second != NULL && first < second && second < at + 1 + n,
                 "%.*s", (int)n + 1, at);
    }
    const json_t *o = object_of(call_words("small.jsonl --diff %s --json", path));
    static const char *const groups[] = {"peak_bytes", "end_bytes"};
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < 5; i++) {
            const json_t *x = json_object_get(json_object_get(o, groups[g]), phases[i]);
            CU_ASSERT(json_is_integer(json_object_get(x, "a")) &&
                      json_is_null(json_object_get(x, "b")) &&
                      json_is_null(json_object_get(x, "difference")));
        }
    CU_ASSERT_EQUAL(number_in(o, "totals", "peak", "b"), 1024);
}

SW_TEST("a step that is not there is named")
{
    expect_said(1, "no record of step 9; the nearest is 4", "scopes.jsonl --steps 1,9");
    expect_said(1, "no record of eval step 1; there are no such runs",
                "scopes.jsonl --steps eval:1,2");
    expect_said(0, "program 1 (eval", "small.jsonl --steps 20,eval:21");
    static const char *const words[] = {
        "1",       "1,", ",1", "1,2,3", "0,1", "a,b", "1;2", "-1,2", "99999999999999999999,1",
        "test:1,2"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        expect_said(2, "--steps must be", "scopes.jsonl --steps %s", words[i]);
}

/* ---- limits ------------------------------------------------------------------------------ */

/* The lines on standard error. */
static int lines(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

SW_TEST("a peak above the limit fails")
{
    static const struct {
        const char *limit;
        int status;
    } cases[] = {{"1024", 0}, {"1023", 1}, {"1KiB", 0}, {"0", 1}, {"1GiB", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const printed *p = call_words("small.jsonl --max-peak %s", cases[i].limit);
        SW_CHECK(p->status == cases[i].status && lines(p->err) == cases[i].status,
                 "%s: status %d, %s", cases[i].limit, p->status, p->err);
        SW_CHECK(cases[i].status == 0 || has(p->err, "measured peak of 1,024 bytes in program "
                                                     "0 (train, batch 16) is above --max-peak"),
                 "%s", p->err);
        CU_ASSERT(has(p->out, "Live at the peak")); /* the report is there all the same */
        CU_ASSERT_EQUAL(has(p->out, "gate: "), cases[i].status == 0);
    }
    const printed *p = call_words("small.jsonl --max-peak 1023 --json");
    CU_ASSERT_EQUAL(p->status, 1);
    const json_t *gate = json_object_get(object_of(p), "gate");
    CU_ASSERT(json_is_true(json_object_get(gate, "failed")) &&
              json_is_true(json_object_get(gate, "above_max_peak")) &&
              number_of(gate, "peak_bytes") == 1024 &&
              number_of(gate, "max_peak_bytes") == 1023);
    CU_ASSERT_EQUAL(call_words("small.jsonl --by role --max-peak 1023")->status, 1);
    CU_ASSERT_EQUAL(call_words("scopes.jsonl --steps 1,2 --max-peak 1")->status, 1);
}

/* The highest that any run measured counts: 1,088 in step 4. */
SW_TEST("the highest measured peak is judged")
{
    CU_ASSERT_EQUAL(call_words("differs.jsonl --max-peak 1088")->status, 0);
    CU_ASSERT_EQUAL(call_words("differs.jsonl --max-peak 1087")->status, 1);
}

/* Runs that were not watched have the figures of their plan, and are not called measured. */
SW_TEST("what no one looked at is predicted")
{
    static char text[65536];
    char path[1024];
    slurp(golden("scopes.jsonl"), text, sizeof text);
    for (char *by; (by = strstr(text, "\"arena\"")) != NULL;)
        memcpy(by, "\"plan\" ", 7);
    snprintf(path, sizeof path, "%s", sw_temp_path("planned.jsonl"));
    FILE *f = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs(text, f);
    fclose(f);
    expect_said(1, "the predicted peak of 1,280 bytes", "%s --max-peak 1279", path);
    const printed *p = call_words("%s --steps 1,2", path);
    CU_ASSERT(p->status == 0 && has(p->out, "as planned") && !has(p->out, "measured"));
}

/* differs.jsonl has 1,088 bytes, small.jsonl 1,024: 6.25 % more. */
SW_TEST("an increase over the base fails")
{
    static const struct {
        const char *limit;
        int status;
    } cases[] = {{"0%", 1}, {"6%", 1}, {"6.2499%", 1}, {"6.25%", 0}, {"7%", 0},
                 {"0", 1},  {"63", 1}, {"64", 0},      {"1KiB", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const printed *p = call_words("differs.jsonl --diff small.jsonl --fail-on-increase %s",
                                      cases[i].limit);
        SW_CHECK(p->status == cases[i].status && lines(p->err) == cases[i].status,
                 "%s: status %d, %s", cases[i].limit, p->status, p->err);
        SW_CHECK(cases[i].status == 0 ||
                     (has(p->err, "1,088 bytes in program 0 (train, batch 16) is 64 bytes "
                                  "(6.25%) above the 1,024 bytes of") &&
                      has(p->err, cases[i].limit)),
                 "%s", p->err);
        p = call_words("small.jsonl --diff differs.jsonl --fail-on-increase %s",
                       cases[i].limit);
        SW_CHECK(p->status == 0 && p->err[0] == '\0', "less is no increase: %s", p->err);
    }
    const printed *p = call_words(
        "differs.jsonl --json --diff small.jsonl --fail-on-increase 5%% --max-peak 1000");
    CU_ASSERT(p->status == 1 && lines(p->err) == 2);
    const json_t *gate = json_object_get(object_of(p), "gate");
    CU_ASSERT(number_of(gate, "increase_bytes") == 64 &&
              number_of(gate, "base_peak_bytes") == 1024 &&
              json_is_true(json_object_get(gate, "above_increase")) &&
              json_is_true(json_object_get(gate, "above_max_peak")));
}

/* The line names what has grown most: the files differ in one tensor. */
SW_TEST("the line names what grew")
{
    static char text[65536], changed[65536];
    slurp(golden("small.jsonl"), text, sizeof text);
    const char *at = strstr(text, "\"bytes\":192,\"padding\":0,\"offset\":0,\"birth\":0");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    snprintf(changed, sizeof changed, "%.*s\"bytes\":192,\"padding\":6400%s", (int)(at - text),
             text, at + strlen("\"bytes\":192,\"padding\":0"));
    for (char *peak; (peak = strstr(changed, "\"peak_bytes\":1024")) != NULL;)
        memcpy(peak, "\"peak_bytes\":7424", strlen("\"peak_bytes\":7424"));
    FILE *f = fopen(sw_temp_path("grown.jsonl"), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs(changed, f);
    fclose(f);
    expect_said(1, "role saved (+6,400 bytes), layer fc (+6,400 bytes)",
                "%s --diff small.jsonl --fail-on-increase 10%%", sw_temp_path("grown.jsonl"));
    const json_t *o =
        object_of(call_words("%s --diff small.jsonl --json", sw_temp_path("grown.jsonl")));
    check_sums(o, 7424, 1024);
    CU_ASSERT_EQUAL(number_of(o, "peak_difference_bytes"), 6400); /* as the gate says */
    CU_ASSERT_EQUAL(number_in(o, "roles", "saved", "difference"), 6400);
    setenv("LC_ALL", "C", 1);
    const printed *p = call_words("%s --diff small.jsonl --bytes", sw_temp_path("grown.jsonl"));
    CU_ASSERT(has(p->out, "A - B") && has(p->out, "+6,400") && !has(p->out, "-6,400"));
    o = object_of(call_words("small.jsonl --diff %s --json", sw_temp_path("grown.jsonl")));
    check_sums(o, 1024, 7424);
    CU_ASSERT_EQUAL(number_of(o, "peak_difference_bytes"), -6400);
}

/* Damage goes before a gate, and a file with no peak cannot pass one. */
SW_TEST("what cannot be judged does not pass")
{
    static char text[65536];
    slurp(golden("small.jsonl"), text, sizeof text);
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("some.jsonl"));
    FILE *f = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fprintf(f, "%.*s\n", (int)strcspn(text, "\n"), text);
    fclose(f);
    expect_said(1, "neither a measured nor a predicted peak", "%s --max-peak 1GiB", path);
    f = fopen(path, "a");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fprintf(f, "damage\n");
    fclose(f);
    CU_ASSERT_EQUAL(call_words("%s --max-peak 1GiB", path)->status, 3);
    CU_ASSERT_EQUAL(call_words("%s --diff small.jsonl", path)->status, 3);
}
