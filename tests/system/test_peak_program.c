/* Which program holds the peak of a run: the highest, whether it trains or evaluates, and every
 * output means that one. The bytes of an evaluation follow from the shapes (scenes.h); the
 * other outputs are held against them, and text against the gate. */
#include "profiler/inspect/writer.h"
#include "tests/system/asking.h"

SW_TESTS("peak program")

#define IN 100
#define OUT 33
static const linear_scene trains_small = {.rows = 50, .in = IN, .out = OUT, .eval_rows = 2000},
                          trains_large = {.rows = 500, .in = IN, .out = OUT, .eval_rows = 20},
                          evaluates = {.in = IN, .out = OUT, .eval_rows = 20};

static int64_t eval_data(const linear_scene *s)
{
    return (int64_t)floats(s->eval_rows * s->in);
}

/* While the evaluation of `what` comes to its number. */
static int64_t eval_peak(const scene *s, const linear_scene *what)
{
    return (int64_t)(s->model_bytes + linear_eval_arena(what)) + eval_data(what);
}

static void expect(const char *part)
{
    SW_CHECK(strstr(asked.out, part) != NULL, "no \"%s\" in:\n%s%s", part, asked.out,
             asked.err);
}

static bool file_has(const char *path, const char *part)
{
    size_t n;
    unsigned char *bytes = file_read(path, &n);
    const bool has = bytes != NULL && memmem(bytes, n, part, strlen(part)) != NULL;
    free(bytes);
    return has;
}

static const char *digits(int64_t n)
{
    static sw_text text;
    text = sw_text_digits((uint64_t)n);
    return text.text;
}

/* ---- every output ------------------------------------------------------------------------ */

#define HIGH "program 1 (eval, batch 2000)"

static const char *high_profile(const char *name, int64_t *peak)
{
    const char *path = sw_temp_path(name);
    scene *s = scene_open(path, (sw_profile_opts){0});
    scene_linear(s, &trains_small, 3);
    *peak = eval_peak(s, &trains_small);
    scene_close(s);
    return path;
}

static void check_json(const char *path, int64_t peak)
{
    const json_t *r = report_of(path);
    const int64_t arena = (int64_t)linear_eval_arena(&trains_small);
    const int64_t data = eval_data(&trains_small);
    check_text(r, "peak.program", HIGH);
    check(r, "peak.bytes", peak);
    check(r, "predicted_peak_bytes", peak);
    check(r, "measured_peak_bytes", peak);
    check(r, "measured.loss.peak_bytes", peak);
    check(r, "arena_bytes", arena);
    check(r, "data_bytes", data);
    check(r, "waterfall.arena_bytes", arena);
    check(r, "waterfall.planned_bytes", peak);
    check(r, "peak.by_role.input", data);
    check(r, "peak.by_role.activation", arena - (int64_t)ONE_NUMBER);
    check(r, "peak.by_role.parameter", (int64_t)linear_parameters(&trains_small));
    CU_ASSERT_EQUAL(sum_of(at(r, "peak.by_role"), NULL), peak);
    CU_ASSERT_EQUAL(sum_of(at(r, "peak.by_layer"), NULL), peak);
    CU_ASSERT(json_is_null(at(r, "batch")) && json_is_null(at(r, "seed")));
    const json_t *programs = at(r, "programs");
    CU_ASSERT_EQUAL_FATAL(json_array_size(programs), 2);
    check_text(json_array_get(programs, 0), "run", "train");
    check(json_array_get(programs, 1), "measured_peak_bytes", peak);
    SW_CHECK(number_at(json_array_get(programs, 0), "measured_peak_bytes") < peak, "%s", path);
}

static void check_report_text(const char *path, int64_t peak)
{
    char part[128];
    CU_ASSERT_EQUAL(ask("report --bytes %s", path), 0);
    expect("batch not given, seed not given");
    expect("Predicted and measured bytes, " HIGH "\n");
    expect("  program 0 (train, batch 50): predicted peak ");
    snprintf(part, sizeof part, "Live at the peak, " HIGH ": %s (", digits(peak));
    expect(part);
    snprintf(part, sizeof part, "of it %s planned", digits(peak));
    expect(part);
    expect("Where the bytes are, planned for " HIGH "\n");
    snprintf(part, sizeof part, "%17s  as planned\n", digits(peak));
    expect(part);
}

static void check_tables(const char *path, int64_t peak)
{
    static const char *const words[] = {"layer", "role", "op", "phase"};
    char part[96];
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(ask("report --json --by %s %s", words[i], path), 0);
        const json_t *r = answer();
        check_text(r, "program", HIGH);
        check(r, "at_peak_bytes", peak);
        check(r, "measured_peak_bytes", peak);
        CU_ASSERT_EQUAL(ask("report --bytes --by %s %s", words[i], path), 0);
        snprintf(part, sizeof part, "By %s, " HIGH ": %s ", words[i], digits(peak));
        expect(part);
    }
}

/* Against a run that is the same but for its evaluations. */
static void check_difference(const char *path, int64_t peak)
{
    static const char *const groups[] = {"roles", "layers", "ops", "tensors"};
    const char *other = sw_temp_path("low.jsonl");
    linear_scene fewer = trains_small;
    fewer.eval_rows = 1000;
    scene *s = scene_open(other, (sw_profile_opts){0});
    scene_linear(s, &fewer, 1);
    const int64_t low = eval_peak(s, &fewer);
    scene_close(s);
    CU_ASSERT_EQUAL(ask("report --json %s --diff %s", path, other), 0);
    const json_t *r = answer();
    check_text(r, "a.program", HIGH);
    check_text(r, "b.program", "program 1 (eval, batch 1000)");
    check(r, "totals.peak.a", peak);
    check(r, "totals.peak.b", low);
    for (int g = 0; g < 4; g++)
        CU_ASSERT_EQUAL(sum_of(at(r, groups[g]), "difference"), peak - low);
    CU_ASSERT_EQUAL(ask("report %s --diff %s", path, other), 0);
    expect("A  scene, " HIGH ", measured:");
    expect("B  scene, program 1 (eval, batch 1000), measured:");
    CU_ASSERT_EQUAL(ask("report --quiet %s --diff %s --fail-on-increase 0%%", path, other), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(asked.err, " in " HIGH " is "));
}

static void check_gate_and_info(const char *path, int64_t peak)
{
    CU_ASSERT_EQUAL(ask("report %s --max-peak %lld", path, (long long)peak), 0);
    expect(" bytes in " HIGH " is within --max-peak ");
    CU_ASSERT_EQUAL(ask("report %s --max-peak %lld", path, (long long)peak - 1), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(asked.err, " bytes in " HIGH " is above --max-peak "));
    CU_ASSERT_EQUAL(ask("info %s", path), 0);
    expect("peak_program: " HIGH "\n");
    CU_ASSERT_PTR_NULL(strstr(asked.out, "seed"));
}

static void check_top(const char *path, int64_t peak)
{
    CU_ASSERT_EQUAL(ask("top --once --json %s", path), 0);
    const json_t *r = answer();
    check_text(r, "program", HIGH);
    check(r, "measured_peak_bytes", peak);
    check(r, "predicted_peak_bytes", peak);
    check(r, "arena_bytes", (int64_t)linear_eval_arena(&trains_small));
    check(r, "total_bytes", peak);
    check(r, "step", 3); /* of training */
    CU_ASSERT(json_is_null(at(r, "batch")));
    CU_ASSERT_EQUAL(ask("top --once %s", path), 0);
    expect("Predicted and measured bytes, " HIGH "\n");
}

/* Folded stacks add up to the peak: formats mean the same program. */
static void check_folded(const char *path, int64_t peak)
{
    int64_t sum = 0;
    CU_ASSERT_EQUAL(ask("report %s --format folded", path), 0);
    for (const char *line = asked.out, *end; (end = strchr(line, '\n')) != NULL;
         line = end + 1) {
        const char *number = end;
        while (number > line && number[-1] != ' ')
            number--;
        sum += strtoll(number, NULL, 10);
    }
    SW_CHECK(sum == peak, "folded: %lld", (long long)sum);
}

static void check_formats(const char *path, int64_t peak)
{
    int rows = 0, high = 0;
    check_folded(path, peak);
    CU_ASSERT_EQUAL(ask("report %s --format csv-runs", path), 0);
    for (const char *line = strchr(asked.out, '\n'); line != NULL && line[1] != '\0';
         line = strchr(line + 1, '\n'), rows++) {
        char text[32];
        snprintf(text, sizeof text, ",loss,%lld,", (long long)peak);
        const char *at_peak = strstr(line, text), *end = strchr(line + 1, '\n');
        high += at_peak != NULL && at_peak < end;
    }
    SW_CHECK(rows == 6 && high == 3, "%d rows, %d with the peak:\n%s", rows, high, asked.out);
    CU_ASSERT_EQUAL(ask("report %s --html %s", path, sw_temp_path("page.html")), 0);
    CU_ASSERT(file_has(sw_temp_path("page.html"), "\"main\":1,"));
    CU_ASSERT(file_has(sw_temp_path("page.html"), "\"seed\":null,"));
}

SW_TEST("all outputs mean the evaluation")
{
    int64_t peak;
    const char *path = high_profile("high.jsonl", &peak);
    check_json(path, peak);
    check_report_text(path, peak);
    check_tables(path, peak);
    check_difference(path, peak);
    check_gate_and_info(path, peak);
    check_top(path, peak);
    check_formats(path, peak);
}

/* ---- text and gate ----------------------------------------------------------------------- */

/* The peak of the report is the one that a gate judges; its program has that name. */
static int64_t agreed_peak(const char *path, const char *program)
{
    char name[96], part[160];
    CU_ASSERT_EQUAL(ask("report --json %s --max-peak 1TiB", path), 0);
    const json_t *r = answer();
    check_text(r, "peak.program", program);
    const int64_t peak = number_at(r, "gate.peak_bytes");
    check(r, "peak.bytes", peak);
    CU_ASSERT_EQUAL(ask("report --bytes %s --max-peak 1TiB", path), 0);
    snprintf(part, sizeof part, "Live at the peak, %s: %s (", program, digits(peak));
    for (char *c = asked.out; *c != '\0'; c++) /* as it was before lines were broken */
        if (strncmp(c, "\n  ", 3) == 0)
            memmove(c, c + 2, strlen(c + 1));
    expect(part);
    snprintf(name, sizeof name, " peak of %s bytes in %s is within", digits(peak), program);
    expect(name);
    CU_ASSERT_PTR_NULL(strstr(asked.out, "the highest peak that was measured"));
    check_folded(path, peak);
    return peak;
}

static void run_both(scene *s, const linear_scene *first, const linear_scene *second)
{
    scene_linear(s, first, 2);
    if (second != NULL)
        scene_linear(s, second, 2);
}

SW_TEST("text and gate agree")
{
    static const linear_scene eval_large = {.in = IN, .out = OUT, .eval_rows = 2000},
                              steps = {.rows = 50, .in = IN, .out = OUT};
    static const struct {
        const char *program;
        const linear_scene *first, *second; /* second: a model of its own */
        bool another_exec, immediate, unmeasured;
        uint64_t every;
        bool eval; /* eval_peak of the last scene is the peak */
    } cases[] = {
        {"program 1 (eval, batch 2000)", &trains_small, NULL, .eval = true},
        {"program 0 (train, batch 500)", &trains_large, NULL},
        {"program 0 (eval, batch 20)", &evaluates, NULL, .eval = true},
        {"program 1 (eval, batch 2000)", &steps, &eval_large, .eval = true},
        {"program 0 (eval, exec 1, batch 2000)", &steps, &eval_large, .another_exec = true,
         .eval = true},
        {"program 0 (train, batch 500)", &trains_large, &evaluates, .another_exec = true},
        {"immediate run 1 (eval, batch 2000)", &trains_small, NULL, .immediate = true,
         .eval = true},
        {"program 1 (eval, exec 1, batch 2000)", &trains_small, NULL, .unmeasured = true,
         .eval = true},
        /* no run of it has a record */
        {"program 2 (eval, batch 2000)", &trains_large, &eval_large, .every = 1000,
         .eval = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = sw_temp_path("case.jsonl");
        const linear_scene *last = cases[i].second != NULL ? cases[i].second : cases[i].first;
        scene *s = scene_open(path, (sw_profile_opts){.every = cases[i].every});
        const sw_exec_opts exec = {.no_phases = cases[i].unmeasured};
        s->immediate = cases[i].immediate;
        if (cases[i].unmeasured)
            scene_exec(s, exec);
        run_both(s, cases[i].first, cases[i].another_exec ? NULL : cases[i].second);
        if (cases[i].another_exec) {
            scene_exec(s, exec);
            run_both(s, cases[i].second, NULL);
        }
        const int64_t peak = eval_peak(s, last);
        scene_close(s);
        const int64_t is = agreed_peak(path, cases[i].program);
        SW_CHECK((is == peak) == cases[i].eval, "case %zu: %lld, evaluation %lld", i,
                 (long long)is, (long long)peak);
    }
}

/* The peak of a run without a record of its trace is said, and no program is named for it. */
SW_TEST("a run that is not in the file is reported")
{
    const char *path = sw_temp_path("unknown.jsonl");
    scene *s = scene_open(path, (sw_profile_opts){.every = 1000});
    s->immediate = 1;
    scene_linear(s, &evaluates, 1);
    linear_scene large = evaluates;
    large.eval_rows = 2000;
    scene_linear(s, &large, 1);
    const int64_t peak = eval_peak(s, &large);
    scene_close(s);
    check_text(report_of(path), "peak.program", "immediate run 0 (eval, batch 20)");
    CU_ASSERT_EQUAL(ask("report --bytes %s --max-peak %lld", path, (long long)peak - 1), 1);
    char part[96];
    snprintf(part, sizeof part, "the highest peak that was measured is %s, in a run that",
             digits(peak));
    expect(part);
    CU_ASSERT_PTR_NOT_NULL(strstr(asked.err, " bytes is above --max-peak "));
}

/* The file of a run that was killed: cut after each line, and within the next one. */
SW_TEST("a cut profile means what it has")
{
    int64_t peak;
    const char *path = high_profile("whole.jsonl", &peak), *cut = sw_temp_path("cut.jsonl");
    size_t n, end;
    unsigned char *bytes = file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    bool planned = false, evaluated = false;
    for (size_t line = 0; line < n; line = end) {
        end = (size_t)((unsigned char *)memchr(bytes + line, '\n', n - line) - bytes) + 1;
        const char *text = (const char *)bytes + line;
        planned |= memmem(text, end - line, "\"type\":\"plan\"", 13) != NULL;
        evaluated |= memmem(text, end - line, "\"run\":\"eval\",\"mode\"", 19) != NULL;
        for (size_t more = 0; more <= 40 && planned && end + more <= n; more += 40) {
            CU_ASSERT(file_write(cut, bytes, end + more));
            const int64_t is =
                agreed_peak(cut, evaluated ? HIGH : "program 0 (train, batch 50)");
            SW_CHECK((is == peak) == evaluated, "cut at %zu: %lld", end + more, (long long)is);
        }
    }
    free(bytes);
    CU_ASSERT_TRUE(evaluated);
}
