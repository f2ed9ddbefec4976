/* `stepwell report` of golden/population.jsonl: four members, two batches, three turns, under a
 * budget of 4096 bytes in which one member stays and the others take turns. */
#include "tests/report/call.h"
#include "profiler/inspect/population/population.h"
#include "profiler/inspect/profile_read.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("population")

enum { MEMBERS = 4, TURNS = 3, FILE_BYTES = 1 << 17 };

static const char *file_of(const char *name, const char *text, size_t n)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path(name));
    sw_file_put(path, text, n);
    return path;
}

static char *golden_text(void)
{
    static char text[FILE_BYTES];
    slurp(golden("population.jsonl"), text, sizeof text);
    return text;
}

static long long sum_of(const json_t *rows, const char *kind, long long number)
{
    long long sum = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *x = json_array_get(rows, i);
        const json_t *n = json_object_get(x, "number");
        if ((kind == NULL ||
             strcmp(json_string_value(json_object_get(x, "kind")), kind) == 0) &&
            (number < 0 || json_integer_value(n) == number))
            sum += number_of(x, "bytes");
    }
    return sum;
}

/* ---- sums -------------------------------------------------------------------------------- */

SW_TEST("every byte has an owner")
{
    const json_t *o = object_of(call_words("population.jsonl --json"));
    const json_t *rows = json_object_get(o, "budget"), *members = json_object_get(o, "members");
    long long live = 0, outside = 0;
    CU_ASSERT_EQUAL_FATAL(json_array_size(members), MEMBERS);
    CU_ASSERT_EQUAL(sum_of(rows, NULL, -1), number_of(o, "measured_bytes"));
    CU_ASSERT_EQUAL(number_of(o, "sum_bytes"), number_of(o, "measured_bytes"));
    for (int k = 0; k < MEMBERS; k++) {
        const json_t *m = json_array_get(members, (size_t)k);
        CU_ASSERT_EQUAL(sum_of(rows, "member", k), number_of(m, "range_bytes"));
        CU_ASSERT_EQUAL(number_of(m, "parameters_bytes") + number_of(m, "optimizer_bytes") +
                            number_of(m, "buffers_bytes") + number_of(m, "knobs_bytes"),
                        number_of(m, "member_bytes"));
        live += number_of(m, "range_bytes");
        outside += number_of(m, "waiting_bytes") + number_of(m, "kept_bytes");
    }
    CU_ASSERT_EQUAL(live, number_of(o, "live_bytes"));
    CU_ASSERT_EQUAL(outside, number_of(o, "outside_bytes"));
    CU_ASSERT(live > 0 && outside > 0); /* both kinds of members are in it */
    CU_ASSERT_EQUAL(live + sum_of(rows, "free", -1), number_of(o, "range_bytes"));
    CU_ASSERT_EQUAL(sum_of(rows, "step arena", -1), number_of(o, "step_arena_bytes"));
    CU_ASSERT_EQUAL(sum_of(rows, "batch", -1), number_of(o, "batch_bytes"));
    CU_ASSERT(number_of(o, "measured_bytes") <= number_of(o, "predicted_bytes"));
    CU_ASSERT(number_of(o, "predicted_bytes") <= number_of(o, "budget_bytes"));
}

SW_TEST("CSV has the rows of JSON")
{
    char text[65536];
    const long long measured =
        number_of(object_of(call_words("population.jsonl --json")), "measured_bytes");
    const printed *p = call_words("population.jsonl --format csv");
    long long sum = 0;
    CU_ASSERT_EQUAL(p->status, 0);
    snprintf(text, sizeof text, "%s", p->out);
    CU_ASSERT(strncmp(text, "kind,number,shape,layer,role,bytes\n", 35) == 0);
    for (char *line = strtok(text + 35, "\n"); line != NULL; line = strtok(NULL, "\n"))
        sum += strtoll(strrchr(line, ',') + 1, NULL, 10);
    CU_ASSERT_EQUAL(sum, measured);
}

SW_TEST("a member is shown by layer and role")
{
    for (int k = 0; k < MEMBERS; k++) {
        const json_t *o = object_of(call_words("population.jsonl --member %d --json", k));
        const json_t *parts = json_object_get(o, "parts"),
                     *step = json_object_get(o, "step_arena"),
                     *phases = json_object_get(step, "phases");
        const char *name;
        json_t *x;
        long long highest = 0;
        CU_ASSERT_EQUAL(number_of(o, "member"), k);
        CU_ASSERT_EQUAL(sum_of(parts, NULL, -1), number_of(o, "member_bytes"));
        CU_ASSERT_EQUAL(sum_of(json_object_get(step, "holders"), NULL, -1),
                        number_of(step, "peak_bytes"));
        json_object_foreach(phases, name, x)
        {
            highest = json_integer_value(x) > highest ? json_integer_value(x) : highest;
        }
        CU_ASSERT_EQUAL(highest, number_of(step, "peak_bytes"));
        CU_ASSERT(highest <= number_of(step, "arena_bytes"));
    }
}

/* ---- two turns --------------------------------------------------------------------------- */

static const json_t *total(const json_t *o, const char *name)
{
    const json_t *all = json_object_get(o, "totals");
    for (size_t i = 0; i < json_array_size(all); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(all, i), "name")), name) ==
            0)
            return json_array_get(all, i);
    return NULL;
}

static void check_pair(const json_t *o, int sign)
{
    static const char *const parts[] = {"members", "free", "step arenas", "batches"};
    const json_t *members = json_object_get(o, "members");
    long long sum[2] = {0}, ranges = 0;
    for (int i = 0; i < 4; i++) {
        sum[0] += number_of(total(o, parts[i]), "a");
        sum[1] += number_of(total(o, parts[i]), "b");
    }
    CU_ASSERT_EQUAL(sum[0], number_of(total(o, "measured"), "a"));
    CU_ASSERT_EQUAL(sum[1], number_of(total(o, "measured"), "b"));
    for (size_t k = 0; k < json_array_size(members); k++) {
        const json_t *m = json_array_get(members, k);
        CU_ASSERT_EQUAL(number_of(m, "range_difference_bytes"),
                        sign * (number_of(m, "range_bytes_b") - number_of(m, "range_bytes_a")));
        ranges += number_of(m, "range_difference_bytes");
    }
    CU_ASSERT_EQUAL(ranges, number_of(total(o, "members"), "difference"));
}

SW_TEST("two turns are compared member by member")
{
    const char *path = golden("population.jsonl");
    const json_t *o = object_of(call_words("%s --turns 1,3 --json", path));
    CU_ASSERT_EQUAL(number_of(json_object_get(o, "a"), "turn"), 1);
    CU_ASSERT_EQUAL(number_of(json_object_get(o, "b"), "turn"), 3);
    CU_ASSERT(number_of(o, "copies") == 2 && number_of(o, "changed_values") == 2 &&
              number_of(o, "changed_shape") == 2);
    const json_t *members = json_object_get(o, "members");
    CU_ASSERT(number_of(json_array_get(members, 0), "origin") == 0 &&
              number_of(json_array_get(members, 3), "origin") == 1);
    check_pair(o, 1);
    check_pair(object_of(call_words("%s --turns 3,1 --json", path)), 1);
    o = object_of(call_words("%s --turns 2,2 --json", path));
    CU_ASSERT(number_of(o, "changed_values") == 0 && number_of(o, "changed_shape") == 0);
    CU_ASSERT_EQUAL(number_of(total(o, "measured"), "difference"), 0);
    o = object_of(call_words("%s --diff %s --json", path, path));
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(o, "newer")), "a");
    CU_ASSERT(number_of(o, "changed_values") == 0 && number_of(o, "changed_shape") == 0);
    check_pair(o, -1);
}

/* ---- text and pages ---------------------------------------------------------------------- */

SW_TEST("text has eighty columns")
{
    static const char *const words[] =
        SW_INIT("", "--bytes", "--member 2", "--member 2 --bytes", "--turns 1,3",
                "--turns 1,3 --bytes");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const printed *p = call_words("population.jsonl %s", words[i]);
        SW_CHECK(p->status == 0 && p->err[0] == '\0', "%s: %d, %s", words[i], p->status,
                 p->err);
        check_width(p->out);
    }
}

SW_TEST("a page has members and turns, and no markup of the file")
{
    static char page[1 << 17];
    char text[FILE_BYTES], *at, out[1024];
    snprintf(text, sizeof text, "%s", golden_text());
    at = strstr(text, "\"name\":\"batch 8\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);

    memcpy(at + 8, "<b>&'8>", 7); /* as long as "batch 8" */
    snprintf(out, sizeof out, "%s", sw_temp_path("page.html"));
    const printed *p = call_words("%s --html %s", file_of("escape", text, strlen(text)), out);
    CU_ASSERT_EQUAL(p->status, 0);
    slurp(out, page, sizeof page);
    CU_ASSERT(has(page, "&lt;b&gt;&amp;&#39;8&gt;") && !has(page, "<b>"));
    CU_ASSERT(has(page, "<tr><th>member</th><th>1</th><th>2</th><th>3</th></tr>"));
    CU_ASSERT(has(page, "a copy of member") && has(page, "</html>"));
}

/* ---- what does not go together ----------------------------------------------------------- */

SW_TEST("what is of one run is refused")
{
    static const char *const words[] =
        SW_INIT("--by layer", "--steps 1,2", "--max-peak 1MiB --html o", "--format perfetto",
                "--turns 1", "--turns 0,1", "--turns 1,2x", "--turns 1,2 --member 1",
                "--member x", "--json --html o", "--out o", "--json --format csv", "--member 4",
                "--member 99999999999", "--member 1 --html o", "--format csv --out o");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const printed *p = call_words("population.jsonl %s", words[i]);
        SW_CHECK(p->status == 2 && p->out[0] == '\0' && strchr(p->err, '\n') != NULL &&
                     strchr(p->err, '\n')[1] == '\0',
                 "%s: %d, %s", words[i], p->status, p->err);
    }
    CU_ASSERT(
        has(call_words("population.jsonl --turns 1,9")->err, "no turn 9; it has turns 1 to 3"));
    CU_ASSERT_EQUAL(call_words("small.jsonl --turns 1,2")->status, 2);
    CU_ASSERT_EQUAL(call_words("small.jsonl --member 1")->status, 2);
    CU_ASSERT_EQUAL(call_words("population.jsonl --diff small.jsonl")->status, 3);
}

/* The peak is the most that was measured in any turn. */
SW_TEST("limits judge the measured peak")
{
    const char *path = golden("population.jsonl");
    CU_ASSERT_EQUAL(call_words("%s --max-peak 3072", path)->status, 0);
    const printed *p = call_words("%s --max-peak 3071 --json", path);
    CU_ASSERT(p->status == 1 && has(p->err, "above --max-peak 3,071 by 1 byte"));
    CU_ASSERT(json_is_object(json_object_get(object_of(p), "gate")));
    expect_said(0, "gate: ", "%s --diff %s --fail-on-increase 0%%", path, path);
    CU_ASSERT_EQUAL(call_words("%s --fail-on-increase 1%%", path)->status, 2);
    CU_ASSERT_EQUAL(call_words("%s --turns 1,2 --max-peak 1", path)->status, 1);
}

/* The reader of runs passes over what it does not know. */
SW_TEST("a reader of runs takes the plans")
{
    sw_timeline *t;
    CU_ASSERT_EQUAL_FATAL(timeline_open(&t, golden("population.jsonl"), NULL), SW_OK);
    CU_ASSERT(t->n_programs == 6 && t->n_runs == 0 && t->damaged == NULL);
    CU_ASSERT_STRING_EQUAL(t->ended, "done");
    sw_timeline_free(t);
}

/* ---- damage ------------------------------------------------------------------------------ */

/* A file that ends anywhere is read to the last turn that is whole. */
SW_TEST("a cut file has the turns before")
{
    char *text = golden_text();
    const size_t n = strlen(text), by = sw_tests_full() ? 7 : 211;
    const char *header_end = strchr(text, '\n');
    long long most = 0;
    for (size_t cut = (size_t)(header_end - text) + 1; cut < n; cut += by) {
        const char *path = file_of("cut", text, cut);
        const printed *p = call_words("%s --json", path);
        json_t *o = json_loads(p->out); /* not object_of: too many to drop at the end */
        SW_CHECK(p->status == 0 && o != NULL, "%zu bytes: %d, %s", cut, p->status, p->err);
        const long long turns = number_of(o, "turns");
        CU_ASSERT(turns >= most && turns <= TURNS);
        most = turns;
        if (turns > 0)
            CU_ASSERT_EQUAL(sum_of(json_object_get(o, "budget"), NULL, -1),
                            number_of(o, "measured_bytes"));
        json_decref(o);
    }
    CU_ASSERT_EQUAL(most, TURNS);
}

/* Put `digits` more into the first number after `key` in `line`: 640 becomes 1640. */
static size_t damage(char *to, const char *text, const char *type, const char *key)
{
    char start[64], name[64];
    snprintf(start, sizeof start, "{\"type\":\"%s\"", type);
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *line = strstr(text, start);
    const char *at = line != NULL ? strstr(line, name) : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at += strlen(name);
    const size_t before = (size_t)(at - text);
    memcpy(to, text, before);
    to[before] = '1';
    strcpy(to + before + 1, at);
    return before + 1 + strlen(at);
}

SW_TEST("damaged sums are found")
{
    static const struct {
        const char *type, *key;
    } where[] = {{"shape", "shape"},        {"shape", "member_bytes"}, {"shape", "bytes"},
                 {"shape", "padding"},      {"member", "member"},      {"member", "shape"},
                 {"member", "range_bytes"}, {"turn", "turn"},          {"turn", "members"},
                 {"turn", "step_bytes"},    {"turn", "batch_bytes"},   {"turn", "range_bytes"},
                 {"turn", "live_bytes"},    {"turn", "measured_bytes"}};
    static char text[FILE_BYTES + 8];
    for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
        const size_t n = damage(text, golden_text(), where[i].type, where[i].key);
        const printed *p = call_words("%s --json", file_of("damaged", text, n));
        SW_CHECK(p->status == 3 && has(p->err, "line "), "%s of %s: %d, %s", where[i].key,
                 where[i].type, p->status, p->err);
        (void)object_of(p); /* what was read is valid all the same */
    }
}

/* ---- memory ------------------------------------------------------------------------------ */

static void nothing(void *context, const char *bytes, size_t n)
{
    *(size_t *)context += n + (bytes == NULL);
}

static sw_status page_piece(void *context, const char *bytes, size_t n)
{
    nothing(context, bytes, n);
    return SW_OK;
}

static sw_status all_of_it(void *path)
{
    size_t bytes = 0;
    population *p;
    const sw_writer to = {nothing, &bytes, false};
    const report_style style = {.to = &to};
    const population_want want = {.all = true};
    SW_TRY(population_open(&p, path, &want));
    const population_pair pair = {
        .of = {p, p}, .turn = {population_find(p, 1), population_last(p)}, .newer = 1};
    sw_status status = SW_OK;
    for (int f = POPULATION_TEXT; f <= POPULATION_CSV && status == SW_OK; f++) {
        status = population_print(p, -1, (population_format)f, NULL, &style);
        if (status == SW_OK)
            status = population_print(p, 1, (population_format)f, NULL, &style);
        if (status == SW_OK)
            status = population_compare(&pair, (population_format)f, NULL, &style);
    }
    if (status == SW_OK)
        status = population_html(p, page_piece, &bytes);
    population_free(p);
    return status;
}

SW_TEST("every allocation can fail")
{
    char path[1024];
    snprintf(path, sizeof path, "%s", golden("population.jsonl"));
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, all_of_it, path) > 20);
}
