/* The report on the host's memory: growth where there is some and silence elsewhere, sums that
 * add up, and denied requests. Profiles are written here line by line. */
#include "alloc/base/mem.h"
#include "tests/report/call.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include "profiler/inspect/report/report.h"

#include "tests/support/json.h"

SW_TESTS("report host")

/* ---- profiles ---------------------------------------------------------------------------- */

typedef struct {
    FILE *file;
    char path[512];
    uint64_t step;
    uint64_t datasets, programs, place; /* live bytes */
    uint64_t other, process;            /* 0: not asked in this step */
    uint64_t told[3];                   /* as the record before had them */
} script;

static script *begin(void)
{
    static script s;
    memset(&s, 0, sizeof s);
    snprintf(s.path, sizeof s.path, "%s", sw_temp_path("host.jsonl"));
    s.file = fopen(s.path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(s.file);
    fputs("{\"type\":\"header\",\"format\":\"stepwell-profile\",\"version\":1}\n", s.file);
    s.datasets = 9000;
    s.programs = 5000;
    return &s;
}

static void write_host(script *s)
{
    const uint64_t now[3] = {s->datasets, s->programs, s->place};
    if (memcmp(now, s->told, sizeof now) != 0)
        fprintf(s->file,
                ",\"heap\":{\"records\":10,\"programs\":%llu,\"files\":0,\"datasets\":%llu,"
                "\"profile\":70}",
                (unsigned long long)s->programs, (unsigned long long)s->datasets);
    if (s->place != s->told[2])
        fprintf(s->file,
                ",\"places\":[{\"at\":\"runtime/data/x.c:7\",\"heap\":\"datasets\","
                "\"bytes\":%llu,\"blocks\":1}]",
                (unsigned long long)s->place);
    memcpy(s->told, now, sizeof now);
    if (s->other > 0)
        fprintf(s->file, ",\"other_bytes\":%llu", (unsigned long long)s->other);
    if (s->process > 0)
        fprintf(s->file, ",\"process_bytes\":%llu", (unsigned long long)s->process);
}

/* A record of a run with what the script holds now. */
static void record(script *s, const char *run, const char *mode, bool warm)
{
    static const char *const names[] = {"data", "forward", "loss", "backward", "step"};
    fprintf(s->file,
            "{\"type\":\"step\",\"step\":%llu,\"run\":\"%s\",\"mode\":\"%s\","
            "\"measured_by\":\"arena\",\"phases\":{",
            (unsigned long long)s->step, run, mode);
    for (int i = 0; i < 5; i++)
        fprintf(s->file, "%s\"%s\":{\"peak_bytes\":1,\"end_bytes\":1}", i > 0 ? "," : "",
                names[i]);
    fprintf(s->file, "},\"warm\":%s", warm ? "true" : "false");
    write_host(s);
    fputs("}\n", s->file);
    s->other = s->process = 0;
}

static void train(script *s, bool warm)
{
    s->step++;
    record(s, "train", "planned", warm);
}

static void steps(script *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        train(s, true);
}

static void leak(script *s, uint64_t bytes)
{
    s->datasets += bytes;
    s->place += bytes;
}

static void free_json(void *o)
{
    json_decref(o);
}

/* The members that the report adds to its object, read back. */
static json_t *members(const char *path)
{
    const report_style style = {.exact = true};
    report *r;
    sw_json j;
    CU_ASSERT_EQUAL_FATAL(report_read(&r, path, NULL), SW_OK);
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    report_host_sections(&(document){&style, &j}, r);
    sw_json_end(&j);
    CU_ASSERT_EQUAL_FATAL(j.status, SW_OK);
    json_t *o = json_loadb(j.bytes, j.used);
    sw_json_free(&j);
    report_free(r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    sw_after(free_json, o);
    return o;
}

static json_t *finish(script *s)
{
    fclose(s->file);
    return members(s->path);
}

static json_int_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static const json_t *first_row(const json_t *all)
{
    return json_array_get(json_object_get(json_object_get(all, "growth"), "rows"), 0);
}

static bool grew(script *s)
{
    const json_t *growth = json_object_get(finish(s), "growth");
    CU_ASSERT_FATAL(json_is_object(growth));
    const bool any = json_is_true(json_object_get(growth, "grew"));
    CU_ASSERT_EQUAL(any, json_array_size(json_object_get(growth, "rows")) > 0);
    return any;
}

/* A run that is settled: warm-up with all that it takes. */
static script *settled(void)
{
    script *s = begin();
    train(s, false);
    s->programs += 700; /* what the second step finds of the first */
    steps(s, 10);
    return s;
}

/* ---- growth ------------------------------------------------------------------------------ */

/* Epochs with a smaller last batch, and evaluations, plan when they come first. */
SW_TEST("a clean run says nothing")
{
    script *s = settled();
    const int epochs = sw_tests_full() ? 1000 : 20;
    for (int e = 0; e < epochs; e++) {
        steps(s, 98);
        s->programs += e == 0 ? 4000 : 0;
        train(s, e > 0);
        for (int i = 0; i < 3; i++) {
            s->programs += e == 0 && i != 1 ? 3000 : 0;
            record(s, "eval", "planned", e > 0 || i == 1);
        }
    }
    CU_ASSERT(!grew(s));
}

SW_TEST("a leak is named at its second step")
{
    for (uint64_t n = 1; n <= 4; n++) {
        script *s = settled();
        for (uint64_t i = 0; i < n; i++) {
            leak(s, 100);
            train(s, true);
        }
        const json_t *all = finish(s), *row = first_row(all);
        SW_CHECK((row != NULL) == (n >= 2), "%llu leaks", (unsigned long long)n);
        if (row == NULL)
            continue;
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "purpose")), "datasets");
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "place")),
                               "runtime/data/x.c:7");
        CU_ASSERT_EQUAL(number(row, "first_step"), 12);
        CU_ASSERT_EQUAL(number(row, "bytes_per_step"), 100);
        CU_ASSERT_EQUAL(number(row, "bytes"), 100 * (json_int_t)n);
        CU_ASSERT_EQUAL(number(row, "times"), (json_int_t)n);
    }
}

/* One more set of data, or two at different times, or what has come and gone. */
SW_TEST("what is taken once is no leak")
{
    script *s = settled();
    leak(s, 1000);
    steps(s, 50);
    CU_ASSERT(!grew(s));
    s = settled();
    leak(s, 1000);
    steps(s, 40);
    leak(s, 1000);
    steps(s, 2);
    CU_ASSERT(!grew(s));
    s = settled();
    for (int i = 0; i < 20; i++) {
        leak(s, 1000);
        train(s, true);
        s->datasets -= 1000;
        s->place -= 1000;
        train(s, true);
    }
    CU_ASSERT(!grew(s));
}

SW_TEST("what has stopped is no leak")
{
    script *s = settled();
    for (int i = 0; i < 10; i++) {
        leak(s, 100);
        train(s, true);
    }
    steps(s, 30);
    CU_ASSERT(!grew(s));
}

/* Each epoch something is left over: the fourth time it is reported. */
SW_TEST("a leak of each epoch is reported in the end")
{
    for (int epochs = 3; epochs <= 4; epochs++) {
        script *s = settled();
        for (int e = 0; e < epochs; e++) {
            steps(s, 50);
            leak(s, 5000);
            record(s, "eval", "planned", true);
        }
        const json_t *all = finish(s), *row = first_row(all);
        SW_CHECK((row != NULL) == (epochs == 4), "%d epochs", epochs);
        if (row != NULL)
            CU_ASSERT_EQUAL(number(row, "bytes_per_step"), 20000 / 151);
    }
}

/* Each step plans anew and keeps the plan: growth, though each has a reason. A few that do are
 * none. */
SW_TEST("plans without end are growth")
{
    for (int n = 8; n <= 40; n += 32) {
        script *s = settled();
        for (int i = 0; i < n; i++) {
            s->programs += 2000;
            train(s, false);
        }
        CU_ASSERT_EQUAL(grew(s), n == 40);
    }
}

/* No run in immediate mode is called warm. */
SW_TEST("immediate runs are looked at too")
{
    for (int leaks = 0; leaks < 2; leaks++) {
        script *s = begin();
        for (int i = 0; i < 12; i++) {
            s->step++;
            s->programs += i < 2 ? 1000 : 0;
            leak(s, leaks > 0 ? 50 : 0);
            record(s, "train", "immediate", false);
        }
        CU_ASSERT_EQUAL(grew(s), leaks > 0);
    }
}

/* The process's own malloc wavers by what its caches hold; a leak goes on and on. */
SW_TEST("malloc may waver")
{
    sw_dice dice = {3};
    for (int leaks = 0; leaks < 2; leaks++) {
        script *s = settled();
        for (uint64_t i = 0; i < 60; i++) {
            s->other = 200000 + sw_dice_below(&dice, 20000) + (leaks > 0 ? i * 4000 : 0);
            steps(s, 5);
        }
        const json_t *all = finish(s), *row = first_row(all);
        SW_CHECK((row != NULL) == (leaks > 0), "%d", leaks);
        if (row != NULL) {
            CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "purpose")),
                                   "malloc");
            CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(row, "place")),
                                          "outside the library's heap"));
        }
    }
}

/* Pages come in as they are touched first, and then no more. No growth is reported twice. */
SW_TEST("the process levels off or grows")
{
    static const struct {
        const char *what;
        uint64_t until, other;
        bool grows;
    } runs[] = {{"levels off", 15, 0, false},
                {"goes on", 60, 0, true},
                {"malloc explains it", 60, 200000, false}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        script *s = settled();
        for (uint64_t k = 0; k < 60; k++) {
            const uint64_t at = k < runs[i].until ? k : runs[i].until;
            s->process = 50000000 + at * 200000;
            s->other = 300000 + k * runs[i].other;
            steps(s, 4);
        }
        bool process = false;
        const json_t *rows = json_object_get(json_object_get(finish(s), "growth"), "rows");
        for (size_t k = 0; k < json_array_size(rows); k++)
            process |=
                strcmp(json_string_value(json_object_get(json_array_get(rows, k), "purpose")),
                       "process") == 0;
        SW_CHECK(process == runs[i].grows, "%s", runs[i].what);
    }
}

/* ---- sums -------------------------------------------------------------------------------- */

static void write_plan(FILE *f)
{
    fputs("{\"type\":\"plan\",\"program\":0,\"run\":\"train\",\"batch\":8,\"model_bytes\":1000,"
          "\"model_padding_bytes\":30,\"arena_bytes\":5000,\"data_bytes\":600,\"slot_bytes\":"
          "200,\"total_bytes\":6600,\"lower_bound_bytes\":4400,\"padding_bytes\":70,\"lanes_"
          "bytes\":300,\"peak_bytes\":5600,\"peak_position\":0,\"peak_op\":\"x\",\"n_ops\":1,"
          "\"ops\":[\"x\"],\"layers\":[\"\"],\"op_layer\":[0],\"op_phase\":\"1\",\"values\":[],"
          "\"phases\":{",
          f);
    static const char *const names[] = {"data", "forward", "loss", "backward", "step"};
    for (int i = 0; i < 5; i++)
        fprintf(f, "%s\"%s\":{\"peak_bytes\":%d,\"end_bytes\":1}", i > 0 ? "," : "", names[i],
                i == 1 ? 5600 : 1);
    fputs("}}\n", f);
}

SW_TEST("the waterfall adds up")
{
    script *s = begin();
    write_plan(s->file);
    s->process = 100000;
    s->other = 2000;
    train(s, true);
    const json_t *w = json_object_get(finish(s), "waterfall");
    CU_ASSERT_FATAL(json_is_object(w));
    /* 5600 at the peak less model 1000 and slot 200 live in the arena of 5000. */
    CU_ASSERT_EQUAL(number(w, "holes_bytes"), 600);
    CU_ASSERT_EQUAL(number(w, "padding_bytes"), 300);
    CU_ASSERT_EQUAL(number(w, "alignment_bytes"), 70);
    CU_ASSERT_EQUAL(number(w, "live_bytes"), 4400 - 370);
    CU_ASSERT_EQUAL(number(w, "planned_bytes"), 6600);
    CU_ASSERT_EQUAL(number(w, "heap_bytes"), 10 + 5000 + 9000 + 70 + 2000);
    CU_ASSERT_EQUAL(number(w, "arenas_bytes"), 6600);
    CU_ASSERT_EQUAL(
        number(w, "heap_bytes") + number(w, "arenas_bytes") + number(w, "rest_bytes"), 100000);
}

SW_TEST("a record of the process is listed apart")
{
    script *s = begin();
    write_plan(s->file);
    train(s, true);
    fputs("{\"type\":\"process\",\"resident_bytes\":5000,\"lines\":[{\"kind\":\"arena\","
          "\"name\":\"step\",\"mapped_bytes\":4096,\"resident_bytes\":1000,\"predicted_bytes\":"
          "1000},{\"kind\":\"stack\",\"name\":\"main\",\"resident_bytes\":200},{\"kind\":"
          "\"heap\",\"name\":\"malloc\",\"resident_bytes\":300},{\"kind\":\"code\",\"name\":"
          "\"libc\",\"resident_bytes\":400},{\"kind\":\"file\",\"name\":\"f\",\"resident_"
          "bytes\":30},{\"kind\":\"system\",\"name\":\"v\",\"resident_bytes\":70},{\"kind\":"
          "\"rest\",\"name\":\"unexplained\",\"resident_bytes\":3000}]}\n",
          s->file);
    const json_t *w = json_object_get(finish(s), "waterfall");
    CU_ASSERT(json_is_true(json_object_get(w, "told_apart")));
    CU_ASSERT_EQUAL(number(w, "system_bytes"), 500);
    CU_ASSERT_EQUAL(number(w, "reserved_bytes"), 4096);
    CU_ASSERT_EQUAL(number(w, "system_bytes") + number(w, "stack_bytes") +
                        number(w, "heap_bytes") + number(w, "arenas_bytes") +
                        number(w, "unexplained_bytes"),
                    number(w, "process_bytes"));
}

/* ---- denied, and damage ------------------------------------------------------------------ */

static const char denied_text[] =
    "{\"type\":\"denied\",\"program\":0,\"step\":0,\"run\":\"train\",\"batch\":8,"
    "\"limited_by\":\"budget\",\"message\":\"no room\",\"label\":\"x\",\"request_bytes\":50,"
    "\"limit_bytes\":40,\"used_bytes\":1,\"op\":\"conv\",\"phase\":\"forward\","
    "\"needed_bytes\":60,\"model_bytes\":10,\"arena_bytes\":50,\"data_bytes\":0,"
    "\"live_bytes\":55,\"by_role\":{\"saved\":15,\"gradient\":40},\"by_layer\":{\"a\":55},"
    "\"holders\":[{\"name\":\"big\",\"role\":\"gradient\",\"layer\":\"a\",\"bytes\":40}]}\n";

static json_t *denied_with(const char *from, const char *to)
{
    script *s = begin();
    const char *at = strstr(denied_text, from);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    fprintf(s->file, "%.*s%s%s", (int)(at - denied_text), denied_text, to, at + strlen(from));
    fputs("{\"type\":\"fits\",\"batch\":3,\"needed_bytes\":39,\"limit_bytes\":40}\n", s->file);
    return json_object_get(finish(s), "denied");
}

SW_TEST("what was denied is passed on")
{
    const json_t *d = denied_with("no room", "no room");
    CU_ASSERT_FATAL(json_is_object(d));
    CU_ASSERT_EQUAL(number(d, "times"), 1);
    CU_ASSERT_EQUAL(number(d, "needed_bytes"), 60);
    CU_ASSERT_EQUAL(number(d, "largest_batch"), 3);
    CU_ASSERT_EQUAL(number(d, "largest_batch_bytes"), 39);
    CU_ASSERT_EQUAL(number(json_object_get(d, "by_role"), "gradient"), 40);
    const json_t *holder = json_array_get(json_object_get(d, "holders"), 0);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(holder, "name")), "big");
    CU_ASSERT(
        json_is_null(json_object_get(denied_with("\"batch\":8", "\"batch\":null"), "batch")));
}

/* Of more layers than there are lines the last one has the rest; what is in none has a name. */
SW_TEST("layers of a refusal add up")
{
    static const char layers[] = "{\"\":9,\"b\":8,\"c\":7,\"d\":6,\"e\":5,\"f\":5,\"g\":4,"
                                 "\"h\":4,\"i\":3,\"j\":2,\"k\":1,\"l\":1}";
    const json_t *d = denied_with("{\"a\":55}", layers);
    CU_ASSERT_EQUAL(number(json_object_get(d, "by_layer"), "(no layer)"), 9);
    CU_ASSERT_EQUAL(number(json_object_get(d, "by_layer"), "l"), 1);
    FILE *f = fopen(sw_temp_path("host.jsonl"), "a");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs("{\"type\":\"end\",\"status\":\"failed\",\"error\":\"no room\",\"wall_ns\":9}\n", f);
    fclose(f);
    const printed *p = call_words("%s", sw_temp_path("host.jsonl"));
    SW_CHECK(p->status == 0 && strstr(p->out, " (no layer)                   9  16.4%") &&
                 strstr(p->out, " 3 more                       4   7.3%"),
             "status %d:\n%s", p->status, p->out);
    CU_ASSERT_PTR_NOT_NULL(strstr(p->out, "ended as 'failed'\n")); /* why stands above */
    check_width(p->out);
}

/* ---- cards ------------------------------------------------------------------------------- */

static void put_device(FILE *f, const char *at, const char *name, unsigned free_bytes)
{
    fprintf(f,
            "{\"type\":\"device\",\"at\":\"%s\",\"name\":\"%s\",\"card\":\"Card "
            "X\",\"capability\":\"9.0\",\"driver\":\"13.2\",\"runtime\":\"13.0\",\"cublas\":"
            "130002,\"cudnn\":null,\"total_bytes\":10000,\"open_bytes\":9000,\"free_bytes\":%u,"
            "\"arenas\":{\"model\":{\"committed_bytes\":2000,\"promised_bytes\":1900},\"step\":"
            "{\"committed_bytes\":3000,\"promised_bytes\":2900},\"data\":{\"committed_bytes\":"
            "500,\"promised_bytes\":400}},\"graph_bytes\":50,\"pinned_bytes\":77}\n",
            at, name, free_bytes);
}

/* The lines of a card are all of it, whatever other programs do meanwhile. */
SW_TEST("the memory of a card adds up")
{
    static const struct {
        unsigned free_bytes;
        json_int_t rest;
        const char *line;
    } cases[] = {{3350, 100, "unexplained                              100"},
                 {3550, -100, "unexplained                             -100"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        script *s = begin();
        put_device(s->file, "begin", "cuda:0", 9000);
        put_device(s->file, "begin", "cuda:1", 8000);
        put_device(s->file, "end", "cuda:0", cases[i].free_bytes);
        const json_t *cards = json_object_get(finish(s), "devices");
        CU_ASSERT_EQUAL_FATAL(json_array_size(cards), 2); /* the latest of each */
        const json_t *card = json_array_get(cards, 0);
        const json_t *arenas = json_object_get(card, "arenas");
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(card, "at")), "end");
        CU_ASSERT_EQUAL(number(card, "unexplained_bytes"), cases[i].rest);
        CU_ASSERT(number(card, "cublas") == 130002);
        json_int_t sum = number(card, "total_bytes") - number(card, "open_bytes") +
                         number(card, "free_bytes") + number(card, "unexplained_bytes") +
                         number(card, "graph_bytes");
        static const char *const names[] = {"other", "step", "model", "data"};
        for (int k = 0; k < 4; k++)
            sum += number(json_object_get(arenas, names[k]), "committed_bytes");
        CU_ASSERT_EQUAL(sum, 10000);
        const printed *p = call_words("%s", s->path);
        SW_CHECK(p->status == 0 && has(p->out, "Memory of cuda:0 at the end\n") &&
                     has(p->out, "Memory of cuda:1 at the beginning\n") &&
                     has(p->out, "Card X, compute capability 9.0, driver 13.2") &&
                     has(p->out, "cuBLASLt 130002") && has(p->out, cases[i].line),
                 "status %d:\n%s", p->status, p->out);
        check_width(p->out);
    }
    script *s = begin();
    CU_ASSERT_EQUAL(json_array_size(json_object_get(finish(s), "devices")), 0);
    CU_ASSERT(!has(call_words("%s", s->path)->out, "Memory of"));
}

#define ZERO(phase) "\"" phase "\":{\"peak_bytes\":0,\"end_bytes\":0}"

/* A wrong member is named, wherever it is in the record, and its record is left out. */
SW_TEST("damage is named")
{
    static const struct {
        const char *line, *says;
    } lines[] = {
        {"{\"type\":\"denied\",\"step\":0,\"by_role\":7}", "'by_role'"},
        {"{\"type\":\"denied\",\"step\":0,\"by_role\":{},\"by_layer\":{},\"holders\":[7]}",
         "'holders'"},
        {"{\"type\":\"fits\",\"batch\":3}", "'type'"},
        {"{\"type\":\"heap\",\"purposes\":7}", "'purposes'"},
        {"{\"type\":\"heap\",\"purposes\":[],\"other\":7}", "'other'"},
        {"{\"type\":\"device\",\"total_bytes\":7,\"free_bytes\":8}", "'free_bytes'"},
        {"{\"type\":\"device\",\"total_bytes\":7,\"arenas\":{\"step\":7}}", "'arenas'"},
        {"{\"type\":\"device\",\"total_bytes\":7,\"arenas\":{\"step\":"
         "{\"committed_bytes\":8}}}",
         "'committed_bytes'"},
        {"{\"type\":\"step\",\"step\":1,\"places\":[7]}", "'places'"},
        {"{\"type\":\"step\",\"step\":1,\"heap\":7}", "'heap'"},
        {"{\"type\":\"step\",\"step\":1,\"arenas\":{\"model\":\"x\"}}", "'model'"},
        {"{\"type\":\"plan\",\"program\":0,\"model_bytes\":9,\"data_bytes\":0,"
         "\"arena_bytes\":0,\"total_bytes\":9,\"lower_bound_bytes\":0,\"peak_bytes\":8,"
         "\"phases\":{" ZERO("data") "," ZERO("forward") "," ZERO("loss") "," ZERO(
             "backward") "," ZERO("step") "},\"lanes_bytes\":0}",
         "'peak_bytes' is missing or not what its parts add up to"},
    };
    const uint64_t blocks = sw_heap_blocks();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        script *s = begin();
        report *r = NULL;
        fprintf(s->file, "%s\n", lines[i].line);
        fclose(s->file);
        CU_ASSERT_EQUAL_FATAL(report_read(&r, s->path, NULL), SW_OK);
        SW_CHECK(r->file.damaged_line > 0 && strstr(r->file.damaged_why, lines[i].says) != NULL,
                 "%s: %s", lines[i].line, r->file.damaged_why);
        report_free(r);
    }
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}
