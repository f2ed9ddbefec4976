/* `stepwell report` on profiles with known numbers (golden/), on cut and damaged ones, and on
 * long ones.
 *
 * golden/small.jsonl is a run of 20 equal steps whose plan was worked out by hand: 576 bytes of
 * model and batch live all the time, 448 of the arena at the peak. golden/differs.jsonl is the
 * same with 64 bytes too much in step 4, three allocations in step 5, and a witness that
 * disagrees. golden/large.jsonl is that a million times as large, with long names, op clocks
 * and an end that failed: nothing in it may be wider than a line. golden/process.jsonl has no
 * step, but the memory of the process: an arena that differs, and a kind of a later version. */
#include "profiler/record/json.h"
#include "runtime/stepwell.h"
#include "tests/report/call.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("report")

SW_TEST("usage is checked, what is not built fails by name")
{
    CU_ASSERT_EQUAL(call_words(" ")->status, 2);
    CU_ASSERT_EQUAL(call_words("x --diff y")->status, 3);
    expect_said(2, "csv", "x --format cvs");
    const printed *p = call_words("--list-formats");
    static char list[sizeof p->out]; /* what --out takes stands before what it does not take */
    snprintf(list, sizeof list, "%s", p->out);
    CU_ASSERT_FATAL(p->status == 0 && has(list, "\nOn standard output alone:\n"));
    int n_listed = 0, n_taken = 0;
    const char *alone = strstr(list, "\nOn standard output");
    for (const char *line = strchr(list, '\n') + 1; line != NULL && *line != '\0';) {
        char word[96];
        if (strncmp(line, "  ", 2) == 0 && line[2] != ' ') {
            snprintf(word, sizeof word, "--format=%.*s", (int)strcspn(line + 2, " "), line + 2);
            const bool takes =
                call_words("small.jsonl %s --out %s", word, sw_temp_path("listed"))->status ==
                0;
            SW_CHECK(takes == (line < alone), "%s", word);
            n_listed++;
            n_taken += takes;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    CU_ASSERT(n_listed == n_taken + 2 && n_taken >= 6);
    expect_said(2, "--out takes the formats that --list-formats", "x --out y");
    expect_said(2, "json goes to standard output", "x --format=json --out=y");
    expect_said(2, "--max-peak must be a size", "x --max-peak=-1");
    expect_said(2, "--diff", "x --fail-on-increase=2%%");
    static const char *const increases[] = {"2\t%", "-1%", "nan%", "%", "inf%", "2%%", "MiB"};
    for (size_t i = 0; i < sizeof increases / sizeof *increases; i++)
        expect_said(2, "--fail-on-increase must be", "x --fail-on-increase=%s --diff=y",
                    increases[i]);
    p = call_words("--help");
    CU_ASSERT(p->status == 0 && has(p->out, "--format") && has(p->out, "--bytes") &&
              p->err[0] == '\0');
}

SW_TEST("nowhere to write is refused")
{
    sw_dataset_describe(NULL, NULL); /* has no status to answer with: nothing happens */
    sw_exec *exec;
    sw_profile *profile;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, NULL), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_profile_create(&profile, NULL), SW_OK);
    CU_ASSERT_EQUAL(sw_exec_set_profile(exec, profile), SW_OK);
    CU_ASSERT_EQUAL(sw_exec_set_profile(exec, profile), SW_INVALID);
    sw_exec_destroy(exec);
    CU_ASSERT_EQUAL(sw_profile_destroy(profile), SW_OK);
}

#include "tests/support/json.h"

/* One line that names the file. */
static bool is_one_line(const char *text, const char *path)
{
    const char *end = strchr(text, '\n');
    return end != NULL && end[1] == '\0' && has(text, path);
}

/* ---- known numbers ----------------------------------------------------------------------- */

SW_TEST("the text is as worked out by hand")
{
    setenv("LC_ALL", "C.UTF-8", 1);
    compare_text("small-utf8.txt", "small.jsonl");
    compare_text("small.txt", "small.jsonl --ascii");
    setenv("LC_ALL", "C", 1);
    compare_text("small.txt", "small.jsonl");
    compare_text("small-bytes.txt", "small.jsonl --bytes");
    compare_text("differs.txt", "differs.jsonl");
    compare_text("large.txt", "large.jsonl");
    compare_text("large-bytes.txt", "large.jsonl --bytes");
    compare_text("process.txt", "process.jsonl");
}

static const json_t *summary(const char *path)
{
    return object_of(call_words("%s --format json", path));
}

SW_TEST("json has the same numbers")
{
    const json_t *o = summary("small.jsonl");
    CU_ASSERT_EQUAL(number_of(o, "steps"), 20);
    CU_ASSERT_EQUAL(number_of(o, "evaluations"), 1);
    CU_ASSERT_EQUAL(number_of(o, "predicted_peak_bytes"), 1024);
    CU_ASSERT_EQUAL(number_of(o, "measured_peak_bytes"), 1024);
    CU_ASSERT_EQUAL(number_in(o, "predicted", "backward", "peak_bytes"), 1024);
    CU_ASSERT_EQUAL(number_in(o, "measured", "step", "end_bytes"), 640);
    CU_ASSERT_EQUAL(number_of(json_object_get(o, "peak"), "bytes"), 576 + 448);
    CU_ASSERT_EQUAL(number_of(json_object_get(o, "peak"), "padding_bytes"), 120);
    CU_ASSERT_EQUAL(number_in(o, "peak", "by_role", "saved"), 192);
    CU_ASSERT_EQUAL(number_in(o, "peak", "by_layer", "fc"), 192 + 128 + 128);
    CU_ASSERT_EQUAL(number_of(o, "median_step_ns"), 11000);
    CU_ASSERT_EQUAL(number_of(json_object_get(o, "median_ns"), "forward"), 1100);
    CU_ASSERT_EQUAL(number_of(o, "allocations_after_warmup"), 0);
    CU_ASSERT_EQUAL(number_of(o, "process_bytes"), 1048576);
    CU_ASSERT_EQUAL(number_of(o, "batch"), 16);
    CU_ASSERT(json_is_true(json_object_get(o, "equal")) &&
              json_is_true(json_object_get(o, "finished")));
    CU_ASSERT(json_is_null(json_object_get(o, "damaged")));
    const char *by = json_string_value(json_object_get(o, "measured_by"));
    CU_ASSERT(by != NULL && strcmp(by, "access") == 0);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(json_object_get(o, "peak"), "largest")), 7);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(o, "programs")), 2);

    o = summary("differs.jsonl");
    CU_ASSERT(json_is_false(json_object_get(o, "equal")));
    CU_ASSERT_EQUAL(number_of(o, "allocations_after_warmup"), 3);
    CU_ASSERT_EQUAL(number_of(o, "faults"), 2);
    CU_ASSERT(json_is_false(json_object_get(json_object_get(o, "witnesses"), "extent")));

    o = summary("large.jsonl");
    const json_t *slowest = json_array_get(json_object_get(o, "slowest_ops"), 0);
    CU_ASSERT_EQUAL(number_of(slowest, "mean_ns"), (4 * 7919 + 4) * 1000000LL / 7);
    const char *op = json_string_value(json_object_get(slowest, "op"));
    CU_ASSERT(op != NULL && strcmp(op, "sgd") == 0);
}

/* ---- cut and damaged --------------------------------------------------------------------- */

/* Every prefix of the file: damaged while the header is not whole, else a report of what is
 * there. */
SW_TEST("a cut file is used as far as it goes")
{
    static char text[32768];
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("cut.jsonl"));
    slurp(golden("small.jsonl"), text, sizeof text);
    const size_t size = strlen(text), header = (size_t)(strchr(text, '\n') - text);
    const size_t stride = sw_tests_full() ? 1 : 41;
    const uint64_t blocks = sw_heap_blocks();
    for (size_t n = 0; n < size; n += n < header + 2 ? 1 : stride) {
        sw_file_put(path, text, n);
        const printed *p = call_words("%s", path);
        if (n < header) {
            SW_CHECK(p->status == 3 && is_one_line(p->err, path), "cut at %zu: %s", n, p->err);
            continue;
        }
        const bool cut = text[n - 1] != '\n' && text[n] != '\n';
        SW_CHECK(p->status == 0 && p->err[0] == '\0', "cut at %zu: %s", n, p->err);
        SW_CHECK(has(p->out, "the last line is cut") == cut, "cut at %zu: %s", n, p->out);
        const bool ended = n + 1 >= size; /* the end record lacks its newline at most */
        SW_CHECK(has(p->out, "the run did not finish") != ended, "cut at %zu: %s", n, p->out);
    }
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    const printed *p = call_words("%s --quiet", path);
    CU_ASSERT_FALSE(has(p->out, "note:"));
}

/* The golden file with the first `from` of line `line` replaced. */
static const printed *with_change(int line, const char *from, const char *to)
{
    static char text[32768], changed[40000];
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("changed.jsonl"));
    slurp(golden("small.jsonl"), text, sizeof text);
    const char *at = text;
    for (int i = 1; i < line; i++)
        at = strchr(at, '\n') + 1;
    const char *found = strstr(at, from);
    SW_CHECK(found != NULL && found < strchr(at, '\n'), "line %d has none of it", line);
    const int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(found - text), text, to,
                           found + strlen(from));
    sw_file_put(path, changed, (size_t)n);
    return call_words("%s", path);
}

/* A log that had no room for events says so once. */
SW_TEST("what logs lost is reported")
{
    static const char lost[] =
        "{\"type\":\"events\",\"program\":0,\"step\":1,\"part\":0,\"dropped\":1200,"
        "\"log\":[0,0,1,0,0]}\n"
        "{\"type\":\"events\",\"program\":0,\"step\":1,\"part\":1,\"dropped\":1200,"
        "\"log\":[0,0,1,10,0]}\n{\"type\":\"step\"";
    const printed *p = with_change(4, "{\"type\":\"step\"", lost);
    CU_ASSERT(p->status == 0 && has(p->out, "had no room for 1,200 events"));
    const json_t *o = summary(sw_temp_path("changed.jsonl"));
    CU_ASSERT_EQUAL(number_of(o, "dropped_events"), 1200);
    CU_ASSERT(json_is_false(json_object_get(o, "goes_on")));
}

/* A file may have only some of the steps: the gate judges the figures of all of them. */
SW_TEST("some of the steps are judged as all")
{
    const printed *p = with_change(26, "\"steps\":20", "\"steps\":50");
    CU_ASSERT(has(p->out, "20 training steps (of 50 in all)"));
    p = with_change(26, "\"measured_peak_bytes\":1024", "\"measured_peak_bytes\":4096");
    CU_ASSERT_EQUAL(p->status, 0);
    CU_ASSERT_EQUAL(call_words("%s --max-peak 4095", sw_temp_path("changed.jsonl"))->status, 1);
    CU_ASSERT_EQUAL(call_words("%s --max-peak 4096", sw_temp_path("changed.jsonl"))->status, 0);
}

/* Also one that no run can have: more at the end of a phase than at its peak. */
SW_TEST("no number is too wide")
{
    const printed *p = with_change(4, "\"end_bytes\":", "\"end_bytes\":999999999999");
    CU_ASSERT(p->status == 0 && has(p->out, "Step by step: TiB"));
    check_width(p->out);
}

/* In JSON: one object, with the line and what is wrong. */
static void check_damaged(const char *says)
{
    const printed *p = call_words("%s --json", sw_temp_path("changed.jsonl"));
    const json_t *damaged = json_object_get(object_of(p), "damaged");
    const char *why = json_string_value(json_object_get(damaged, "why"));
    SW_CHECK(p->status == 3 && why != NULL && has(why, says), "status %d: %s", p->status,
             p->out);
    char line[32];
    snprintf(line, sizeof line, "line %lld",
             (long long)json_integer_value(json_object_get(damaged, "line")));
    SW_CHECK(why != NULL && has(why, line), "%s is not in %s", line, why != NULL ? why : "");
}

SW_TEST("damage names file and line")
{
    static const struct {
        int line;
        const char *from, *to, *says;
    } changes[] = {
        {1, "stepwell-profile", "other-profile", "not a stepwell profile"},
        {1, "\"version\":1", "\"version\":2", "version 2"},
        {1, "\"header\"", "\"step\"", "does not begin with a header"},
        {1, "{", "[", "not a stepwell profile"},
        {2, "\"plan\"", "\"header\"", "line 2: a second header"},
        {2, "\"total_bytes\"", "\"total\"", "line 2: 'total_bytes'"},
        {2, "\"program\":0", "\"program\":-1", "line 2: 'program'"},
        {2, "\"birth\":1", "\"birth\":\"x\"", "line 2: 'birth'"},
        {2, "\"values\":[{", "\"values\":[7,{", "line 2: 'values'"},
        {3, "\"witnesses\"", "witnesses", "line 3: "},
        {4, "\"step\":1,", "\"step\":1.5,", "line 4: 'step'"},
        {5, "\"peak_bytes\":576", "\"peak_bytes\":-576", "line 5: 'peak_bytes'"},
        {5, "\"peak_bytes\":576", "\"peak_bytes\":1e999", "line 5: "},
        {6, "\"loss\":{\"peak", "\"lots\":{\"peak", "line 6: 'loss'"},
        {7, "{", "", "line 7: "},
        {8, "\"type\":\"step\"", "\"type\":8", "line 8: 'type'"},
        {9, "planned", "\x01", "line 9: "},
        {10, "planned", "\xff", "line 10: "},
        {25, "\"type\":\"step\"", "\"type\":\"end\",\"steps\":1,\"wall_ns\":2",
         "line 26: a record after the end"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const printed *p = with_change(changes[i].line, changes[i].from, changes[i].to);
        SW_CHECK(p->status == 3 && is_one_line(p->err, "changed.jsonl") &&
                     has(p->err, changes[i].says),
                 "%s -> %s: status %d, %s", changes[i].from, changes[i].to, p->status, p->err);
        const int line = changes[i].line, steps = line < 4 ? 0 : line > 24 ? 20 : line - 4;
        char shown[64]; /* of the steps before it; nothing where not even the header is
                           good */
        snprintf(shown, sizeof shown, "\n%d training step", steps);
        SW_CHECK(line == 1 ? p->out[0] == '\0' : has(p->out, "tiny on") && has(p->out, shown),
                 "%s: %s", changes[i].to, p->out);
        if (line > 1)
            check_damaged(changes[i].says);
    }
    const printed *p = with_change(6, "\"type\":\"step\"", "\"type\":\"of a later version\"");
    CU_ASSERT(p->status == 0 && has(p->out, "19 training steps"));
}

/* The same lines as in the file, and what follows from them. */
SW_TEST("the process is passed on")
{
    const json_t *o = summary("process.jsonl");
    const json_t *p = json_object_get(o, "process"), *lines = json_object_get(p, "lines");
    json_int_t all = 0;
    CU_ASSERT_EQUAL(json_array_size(lines), 14);
    for (size_t i = 0; i < json_array_size(lines); i++)
        all += json_integer_value(json_object_get(json_array_get(lines, i), "resident_bytes"));
    CU_ASSERT_EQUAL(all, number_of(json_object_get(o, "process"), "resident_bytes"));
    CU_ASSERT_EQUAL(number_of(json_object_get(o, "process"), "arenas_bytes"),
                    2097152 + 8192 + 12288);
    CU_ASSERT_EQUAL(number_of(json_object_get(o, "process"), "arenas_predicted_bytes"),
                    2097152 + 4096 + 12288);
    CU_ASSERT_EQUAL(number_of(json_object_get(o, "process"), "unexplained_bytes"), 4096 + 8192);
    CU_ASSERT(json_is_false(json_object_get(p, "equal")));
    o = summary("small.jsonl");
    CU_ASSERT(json_is_null(json_object_get(o, "process")));
}

/* Lines that do not add up were not written by us. */
SW_TEST("a damaged process is refused")
{
    static const struct {
        const char *from, *to, *says;
    } changes[] = {{"\"resident_bytes\":8192", "\"resident_bytes\":8193", "'resident_bytes'"},
                   {"\"resident_bytes\":8192", "\"resident_bytes\":\"x\"", "'resident_bytes'"},
                   {"\"lines\":[", "\"lines\":[7,", "'lines'"},
                   {"\"lines\":[", "\"lines\":0,\"others\":[", "'lines'"},
                   {"\"name\":\"step\"", "\"name\":7", "'name'"}};
    static char text[32768], changed[32768];
    slurp(golden("process.jsonl"), text, sizeof text);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *at = strstr(text, changes[i].from);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        const int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text,
                               changes[i].to, at + strlen(changes[i].from));
        sw_file_put(sw_temp_path("process.jsonl"), changed, (size_t)n);
        const printed *p = call_words("%s", sw_temp_path("process.jsonl"));
        SW_CHECK(p->status == 3 && has(p->err, "line 2: ") && has(p->err, changes[i].says),
                 "%s: status %d, %s", changes[i].to, p->status, p->err);
    }
}

/* How a run ended: a file from before there was a status came to its end. */
SW_TEST("only a run that is done is finished")
{
    static const struct {
        const char *end, *status, *says;
        bool finished;
    } ends[] = {
        {"\"type\":\"end\"", "done", "20 training steps", true},
        {"\"type\":\"end\",\"status\":\"done\"", "done", "20 training steps", true},
        {"\"type\":\"end\",\"status\":\"interrupted\"", "interrupted",
         "note: the run ended as 'interrupted'", false},
        {"\"type\":\"end\",\"status\":\"failed\",\"error\":\"no\\u001b room\"", "failed",
         "note: the run ended as 'failed': no? room", false},
        {"\"type\":\"other\"", NULL, "the run did not finish", false},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const printed *p = with_change(26, "\"type\":\"end\"", ends[i].end);
        SW_CHECK(p->status == 0 && has(p->out, ends[i].says), "%s: %s", ends[i].end, p->out);
        const json_t *o = summary(sw_temp_path("changed.jsonl"));
        const char *status = json_string_value(json_object_get(o, "status"));
        SW_CHECK(json_is_true(json_object_get(o, "finished")) == ends[i].finished, "%s",
                 ends[i].end);
        SW_CHECK(status != NULL ? ends[i].status != NULL && strcmp(status, ends[i].status) == 0
                                : ends[i].status == NULL,
                 "%s", ends[i].end);
    }
}

/* One line cannot make the reader take what the machine has. */
SW_TEST("a line has bounds")
{
    static const char head[] = "{\"type\":\"header\",\"format\":\"stepwell-profile\","
                               "\"version\":1}\n{\"type\":\"x\",\"a\":[";
    static const struct {
        const char *piece;
        size_t times;
        const char *says;
    } lines[] = {{"[[]],", 6500000, "line 2 takes more than"},
                 {"0000000000000000,", 2500000, "line 2 is longer than"}};
    const uint64_t blocks = sw_heap_blocks();
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(sw_temp_path("bounds.jsonl"), "w");
        CU_ASSERT_PTR_NOT_NULL_FATAL(f);
        fputs(head, f);
        for (size_t k = 0; k < lines[i].times; k++)
            fputs(lines[i].piece, f);
        fputs("0]}\n", f);
        fclose(f);
        const printed *p = call_words("%s", sw_temp_path("bounds.jsonl"));
        SW_CHECK(p->status == 3 && is_one_line(p->err, "bounds.jsonl") &&
                     has(p->err, lines[i].says),
                 "status %d: %s", p->status, p->err);
        sw_heap_stats files;
        sw_heap_read(SW_HEAP_FILES, &files);
        SW_CHECK(files.peak_bytes < (size_t)350 << 20, "%zu bytes", files.peak_bytes);
    }
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

SW_TEST("missing and foreign files")
{
    const printed *p = call_words("%s", sw_temp_path("nothing.jsonl"));
    CU_ASSERT(p->status == 3 && is_one_line(p->err, "nothing.jsonl"));
    p = call_words("%s", sw_temp_path(""));
    CU_ASSERT(p->status == 3);
    static const char zeros[100000];
    sw_file_put(sw_temp_path("zeros"), zeros, sizeof zeros);
    p = call_words("%s", sw_temp_path("zeros"));
    CU_ASSERT(p->status == 3 && is_one_line(p->err, "zeros"));
}

static void check_harmless(const printed *p)
{
    for (const char *c = p->out; *c != '\0'; c++)
        SW_CHECK(*c == '\n' || ((unsigned char)*c >= 0x20 && *c != 0x7f),
                 "a control character came out");
}

/* The same for tables, steps and differences, which look at all of a plan. */
SW_TEST("changed plans never do harm")
{
    static char text[65536], changed[65536];
    static const char *const asked[] =
        SW_INIT("--by layer", "--by role", "--by op --bytes", "--by phase",
                "--by layer --format csv", "--steps 1,2", "--steps 1,4 --json");
    char path[1024], base[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("fuzz.jsonl"));
    snprintf(base, sizeof base, "%s", golden("scopes.jsonl"));
    slurp(base, text, sizeof text);
    const size_t size = strlen(text), kinds = sizeof asked / sizeof *asked;
    const uint64_t blocks = sw_heap_blocks();
    sw_dice dice = {23};
    for (size_t i = 0; i < (sw_tests_full() ? 20000 : 400); i++) {
        memcpy(changed, text, size);
        for (uint64_t k = 1 + sw_dice_below(&dice, 3); k > 0; k--) /* mostly other digits */
            changed[sw_dice_below(&dice, size)] =
                (char)(sw_dice_below(&dice, 4) > 0 ? '0' + (int)sw_dice_below(&dice, 10)
                                                   : (int)sw_dice_below(&dice, 256));
        sw_file_put(path, changed, size);
        const printed *p = i % (kinds + 1) < kinds
                               ? call_words("%s %s", path, asked[i % (kinds + 1)])
                               : call_words("%s --diff %s", path, base);
        SW_CHECK(p->status == 0 || p->status == 1 || p->status == 3, "round %zu: %d %s", i,
                 p->status, p->err);
        SW_CHECK(p->status == 0 || is_one_line(p->err, path), "round %zu: %s", i, p->err);
        check_harmless(p);
    }
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

/* Any bytes give a report or one line and status 3. */
SW_TEST("changed bytes never do harm")
{
    static char text[32768], changed[32768];
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("fuzz.jsonl"));
    slurp(golden("small.jsonl"), text, sizeof text);
    const size_t size = strlen(text);
    const uint64_t blocks = sw_heap_blocks();
    sw_dice dice = {17};
    for (int i = 0; i < (sw_tests_full() ? 20000 : 400); i++) {
        memcpy(changed, text, size);
        for (uint64_t k = 1 + sw_dice_below(&dice, 3); k > 0; k--)
            changed[sw_dice_below(&dice, size)] = (char)sw_dice_below(&dice, 256);
        sw_file_put(path, changed, size);
        const printed *p = call_words("%s", path);
        SW_CHECK(p->status == 0 || (p->status == 3 && is_one_line(p->err, path)),
                 "round %d: %d %s", i, p->status, p->err);
        check_harmless(p);
    }
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

static sw_status report_once(void *words)
{
    const printed *p = call_words("%s", (const char *)words);
    CU_ASSERT(p->status == 0 || p->err[0] != '\0');
    return p->status == 0 ? SW_OK : SW_IO;
}

SW_TEST("every refusal is reported")
{
    char path[1024], words[4000];
    snprintf(path, sizeof path, "%s", golden("scopes.jsonl"));
    static const char *const asked[] = {
        "", "--json", "--by layer", "--by op --json", "--steps 1,2", "--steps 1,4 --json"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        snprintf(words, sizeof words, "%s %s", path, asked[i]);
        const uint64_t files = sw_sweep(SW_FAULT_FILE, SW_IO, report_once, words);
        const uint64_t blocks = sw_sweep(SW_FAULT_MEMORY, SW_IO, report_once, words);
        SW_CHECK(files >= 3 && blocks >= 4, "%s: %llu and %llu", words,
                 (unsigned long long)files, (unsigned long long)blocks);
    }
    snprintf(words, sizeof words, "%s --diff %s", path, path);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_IO, report_once, words) >= 8);
}

/* ---- long runs --------------------------------------------------------------------------- */

/* `n` steps; step i has i bytes and i nanoseconds in every phase. */
static void write_long(const char *path, uint64_t n)
{
    FILE *f = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fprintf(f, "{\"type\":\"header\",\"format\":\"stepwell-profile\",\"version\":1}\n");
    for (uint64_t i = 1; i <= n; i++) {
        fprintf(f, "{\"type\":\"step\",\"step\":%llu,\"measured_by\":\"arena\",\"phases\":{",
                (unsigned long long)i);
        static const char *const names[] = {"data", "forward", "loss", "backward", "step"};
        for (int k = 0; k < 5; k++)
            fprintf(f, "%s\"%s\":{\"peak_bytes\":%llu,\"end_bytes\":0,\"ns\":%llu}",
                    k > 0 ? "," : "", names[k], (unsigned long long)i, (unsigned long long)i);
        fprintf(f, "},\"ns\":%llu}\n", (unsigned long long)i);
    }
    fclose(f);
}

static void check_rows(const json_t *rows, uint64_t n)
{
    const size_t shown = json_array_size(rows);
    SW_CHECK(shown == (n < 12 ? n : 12), "%llu steps: %zu rows", (unsigned long long)n, shown);
    json_int_t before = 0, widest = 0, narrowest = INT64_MAX;
    for (size_t i = 0; i < shown; i++) {
        const json_t *row = json_array_get(rows, i);
        const long long step = number_of(row, "step");
        SW_CHECK(step > before, "%llu steps: %lld after %lld", (unsigned long long)n,
                 (long long)step, (long long)before);
        SW_CHECK(number_in(row, "phases", "loss", "peak_bytes") == step, "row %lld",
                 (long long)step);
        if (i < 3)
            CU_ASSERT_EQUAL(step, (json_int_t)i + 1);
        if (i + 3 >= shown)
            CU_ASSERT_EQUAL(step, (json_int_t)(n - (shown - 1 - i)));
        if (i > 3 && i + 3 < shown) {
            widest = step - before > widest ? step - before : widest;
            narrowest = step - before < narrowest ? step - before : narrowest;
        }
        before = step;
    }
    SW_CHECK(n < 100 || widest <= 2 * narrowest, "%llu steps: gaps from %lld to %lld",
             (unsigned long long)n, (long long)narrowest, (long long)widest);
}

SW_TEST("long runs show their ends and an even sample")
{
    static const uint64_t lengths[] = {0,   1,   2,    3,    4,    5,    6,    7,
                                       11,  12,  13,   14,   40,   63,   64,   65,
                                       127, 128, 1000, 4095, 4097, 8193, 20000};
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("long.jsonl"));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const uint64_t n = lengths[i];
        write_long(path, n);
        const json_t *o = summary(path);
        CU_ASSERT_EQUAL(number_of(o, "steps"), (json_int_t)n);
        check_rows(json_object_get(o, "rows"), n);
        if (n >
            1) { /* the first run is not warm: the median of 2..n, or of an even sample of it */
            const json_int_t median = number_of(o, "median_step_ns"),
                             middle = (json_int_t)(n + 2) / 2;
            SW_CHECK(llabs(median - middle) <= 8, "%llu steps: median %lld",
                     (unsigned long long)n, (long long)median);
        }
    }
}

/* Reading takes no more memory for a run that is ten times as long. */
SW_TEST("memory does not grow with the run")
{
    size_t peak[2];
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("memory.jsonl"));
    for (int i = 0; i < 2; i++) {
        write_long(path, i == 0 ? 2000 : 20000);
        CU_ASSERT_EQUAL(call_words("%s", path)->status, 0);
        sw_heap_stats files, profile;
        sw_heap_read(SW_HEAP_FILES, &files);
        sw_heap_read(SW_HEAP_PROFILE, &profile);
        peak[i] = files.peak_bytes + profile.peak_bytes;
    }
    CU_ASSERT_EQUAL(peak[0], peak[1]);
}

SW_TEST("a seed of 64 bits is exact")
{
    const printed *p = with_change(1, "\"seed\":42", "\"seed\":18446744073709551615");
    CU_ASSERT(p->status == 0 && has(p->out, "batch 16, seed 18446744073709551615,"));
}

/* A terminal must not obey what stands in a file. */
SW_TEST("names cannot command the terminal")
{
    const printed *p = with_change(1, "\"tiny\"", "\"\\u001b[31m\\u0007\\u009bx\"");
    CU_ASSERT_EQUAL(p->status, 0);
    CU_ASSERT(strchr(p->out, 0x1b) == NULL && strchr(p->out, 7) == NULL &&
              !has(p->out, "\xc2\x9b"));
    CU_ASSERT(has(p->out, "?[31m???x on cpu"));
}
