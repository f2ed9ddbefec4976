/* From profiles to timelines: golden/small.jsonl, whose figures are known by hand, a profile
 * with a log and a trace, long ones of which a part is kept, cut and changed ones. */
#include "tests/support/suite.h"

#include "profiler/record/record.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include "tools/cli/cli.h"
#include "tools/report/report_settings.h"
#include "profiler/inspect/profile_read.h"

SW_TESTS("timeline_read")

static char *slurp(const char *path, size_t *n)
{
    static char text[1 << 19];
    FILE *f = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    *n = fread(text, 1, sizeof text - 1, f);
    text[*n] = '\0';
    fclose(f);
    return text;
}

static const char *golden(void)
{
    return sw_textf("%s/tests/report/golden/small.jsonl", sw_source_root());
}

SW_TEST("a profile becomes programs and runs")
{
    sw_timeline *t = NULL;
    CU_ASSERT_EQUAL_FATAL(timeline_open(&t, golden(), NULL), SW_OK);
    CU_ASSERT_STRING_EQUAL(t->model, "tiny");
    CU_ASSERT(t->batch == 16 && t->seed == 42 && t->n_programs == 2 && t->n_runs == 21);
    CU_ASSERT_STRING_EQUAL(t->ended, "done");
    CU_ASSERT_STRING_EQUAL(t->why, "");
    const sw_tl_program *p = sw_timeline_peak(t);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT(p->n_ops == 5 && p->peak_op == 2 && p->peak_bytes == 1024 && !p->immediate);
    static const uint8_t phases[] = {1, 2, 3, 3,
                                     4}; /* by what is born; the update makes none */
    static const uint64_t lives[] = {768, 832, 1024};
    uint64_t curve[5];
    sw_timeline_curve(p, NULL, NULL, curve);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(p->ops[i].phase, phases[i]);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(curve[i], lives[i]);
    CU_ASSERT(t->runs[0].step == 1 && t->runs[19].step == 20 && t->runs[3].program == 0);
    sw_timeline_free(t);
    timeline_want want = {.step = {7, 3}, .n_steps = 2};
    CU_ASSERT_EQUAL_FATAL(timeline_open(&t, golden(), &want), SW_OK);
    CU_ASSERT(t->n_runs == 2 && t->skipped_runs == 19 && t->runs[0].step == 3 &&
              t->runs[1].step == 7);
    sw_timeline_free(t);
    want = (timeline_want){.max_events = 4 * (2 * 15 + 12)};
    CU_ASSERT_EQUAL_FATAL(timeline_open(&t, golden(), &want), SW_OK);
    CU_ASSERT(t->n_runs >= 2 && t->n_runs + t->skipped_runs == 21 && t->runs[0].step == 1 &&
              t->runs[t->n_runs - 1].step == 21);
    sw_timeline_free(t);
}

/* The tensors that the model of golden/scopes.jsonl holds for "conv1", and its update, belong
 * to the conv1 that is called in "block", for every reader of the timeline. */
SW_TEST("a model stands in the scopes of its layers")
{
    sw_timeline *t = NULL;
    uint32_t held = 0;
    CU_ASSERT_EQUAL_FATAL(
        timeline_open(&t, sw_textf("%s/tests/report/golden/scopes.jsonl", sw_source_root()),
                      NULL),
        SW_OK);
    const sw_tl_program *p = &t->programs[0];
    for (uint32_t i = 0; i < p->n_values; i++) {
        CU_ASSERT_STRING_NOT_EQUAL(p->values[i].layer, "conv1");
        held += i < p->n_model && strcmp(p->values[i].layer, "block/conv1") == 0;
    }
    CU_ASSERT(held > 0 && strcmp(p->ops[6].name, "conv1/sgd") == 0);
    CU_ASSERT_STRING_EQUAL(p->ops[6].layer, "block/conv1");
    sw_timeline_free(t);
}

/* Two models and two inputs whose offsets begin anew; a trace whose run has a log in two parts.
 */
static const char recorded[] =
    "{\"type\":\"header\",\"format\":\"stepwell-profile\",\"version\":1}\n"
    "{\"type\":\"trace\",\"trace\":4,\"run\":\"train\",\"ops\":[\"a/f\",\"a/g\"],"
    "\"layers\":[\"\",\"a/b\"],\"op_layer\":[1,0],\"op_phase\":\"14\",\"peak_position\":1,"
    "\"values\":["
    "{\"id\":0,\"name\":\"i0\",\"role\":\"input\",\"segment\":\"input\",\"bytes\":64,"
    "\"padding\":0,\"offset\":0,\"birth\":0,\"death\":2},"
    "{\"id\":1,\"name\":\"i1\",\"role\":\"input\",\"segment\":\"input\",\"bytes\":60,"
    "\"padding\":4,\"offset\":0,\"birth\":0,\"death\":2},"
    "{\"id\":2,\"name\":\"x\",\"role\":\"activation\",\"segment\":\"step\",\"bytes\":128,"
    "\"padding\":0,\"offset\":0,\"birth\":0,\"death\":2},"
    "{\"id\":3,\"name\":\"y\",\"role\":\"activation\",\"segment\":\"step\",\"alias\":2,"
    "\"bytes\":128,\"padding\":0,\"offset\":0,\"birth\":1,\"death\":2},"
    "{\"id\":4,\"name\":\"m0\",\"role\":\"parameter\",\"segment\":\"model\",\"bytes\":64,"
    "\"padding\":0,\"offset\":0,\"birth\":0,\"death\":2},"
    "{\"id\":5,\"name\":\"m1\",\"role\":\"parameter\",\"segment\":\"model\",\"bytes\":64,"
    "\"padding\":0,\"offset\":0,\"birth\":0,\"death\":2}]}\n"
    "{\"type\":\"events\",\"trace\":4,\"step\":1,\"part\":0,\"dropped\":0,"
    "\"log\":[1000,0,1,0,0, 1000,0,1,1,1, 1100,0,0,2,1, 0,2,2,6,1]}\n"
    "{\"type\":\"events\",\"trace\":4,\"step\":1,\"part\":1,\"dropped\":3,"
    "\"log\":[1500,0,4,1,4, 1600,0,1,2,4, 0,2,3,4,4, 0,0,0,8,4, 2000,0,0,10,4]}\n"
    "{\"type\":\"step\",\"step\":1,\"trace\":4,\"mode\":\"immediate\",\"at_ns\":1000,\"ns\":"
    "1000,"
    "\"loss\":0.5}\n"
    "{\"type\":\"step\",\"step\":2,\"program\":9}\n";

typedef struct {
    char text[4096];
    size_t used;
} seen;

static sw_status note(void *context, const sw_tl_event *e)
{
    static const char *const words[] = {"step{", "phase{", "layer{", "op{",    "+",    "=",
                                        "-",     "}op",    "}layer", "}phase", "}step"};
    seen *s = context;
    s->used += (size_t)snprintf(s->text + s->used, sizeof s->text - s->used,
                                "%llu %s %s %llu\n", (unsigned long long)e->ns, words[e->kind],
                                e->name, (unsigned long long)e->live);
    return SW_OK;
}

SW_TEST("a log is walked as it was written")
{
    const char *path = sw_temp_path("recorded.jsonl");
    sw_timeline *t = NULL;
    sw_file_put(path, recorded, sizeof recorded - 1);
    CU_ASSERT_EQUAL_FATAL(timeline_open(&t, path, NULL), SW_OK);
    CU_ASSERT(t->n_runs == 1 && t->skipped_runs == 1 && t->runs[0].n_log == 9);
    CU_ASSERT(t->runs[0].dropped == 3 && t->programs[0].immediate && t->runs[0].has_loss);
    const sw_tl_program *p = &t->programs[0];
    CU_ASSERT(p->n_model == 2 && p->n_input == 2 && p->values[1].offset == 64 &&
              p->values[3].offset == 64);
    seen s = {.used = 0};
    CU_ASSERT_EQUAL(sw_timeline_walk(t, note, &s), SW_OK);
    static const char wanted[] = "1000 + m0 64\n1000 + m1 128\n1000 step{ step 1 128\n"
                                 "1000 + i0 192\n1000 + i1 256\n"
                                 "1000 phase{ forward 256\n1100 layer{ a 256\n"
                                 "1100 layer{ b 256\n1100 op{ a/f 256\n1100 + x 384\n"
                                 "1500 }op a/f 384\n1500 }layer b 384\n1500 }layer a 384\n"
                                 "1500 }phase forward 384\n1500 phase{ step 384\n"
                                 "1600 op{ a/g 384\n1600 = y 384\n2000 }op a/g 384\n"
                                 "2000 }phase step 384\n2000 - x 256\n2000 - i1 192\n"
                                 "2000 - i0 128\n2000 }step step 1 128\n2000 - m1 64\n"
                                 "2000 - m0 0\n";
    SW_CHECK(strcmp(s.text, wanted) == 0, "%s", s.text);
    sw_timeline_free(t);
}

static sw_status open_once(void *arg)
{
    sw_timeline *t;
    SW_TRY(timeline_open(&t, arg, NULL));
    sw_timeline_free(t);
    return SW_OK;
}

SW_TEST("every refusal is reported")
{
    char *path = sw_temp_path("refused.jsonl");
    sw_file_put(path, recorded, sizeof recorded - 1);
    const uint64_t files = sw_sweep(SW_FAULT_FILE, SW_IO, open_once, path),
                   memory = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, open_once, path);
    sw_note("%llu sites of files, %llu of memory", (unsigned long long)files,
            (unsigned long long)memory);
    CU_ASSERT(files >= 4 && memory >= 8);
}

/* The whole lines before a cut are there, and a changed byte is refused or harmless. */
SW_TEST("damage is refused or harmless")
{
    const char *path = sw_temp_path("damaged.jsonl");
    uint64_t refused = 0, walked = 0;
    for (size_t n = 0; n < sizeof recorded; n += sw_tests_full() ? 1 : 7) {
        sw_timeline *t = NULL;
        sw_file_put(path, recorded, n);
        const sw_status status = timeline_open(&t, path, NULL);
        SW_CHECK(status == SW_OK || (status == SW_FORMAT && n < 60), "cut at %zu: %s", n,
                 sw_last_error());
        sw_timeline_free(t);
    }
    static char text[sizeof recorded];
    for (size_t n = 0; n < sizeof recorded - 1; n++)
        for (unsigned with = 0; with < (sw_tests_full() ? 256u : 5u); with++) {
            static const char often[] = {'9', '-', '"', 0x7f, '{'};
            sw_timeline *t = NULL;
            seen s = {.used = 0};
            memcpy(text, recorded, sizeof text);
            text[n] = sw_tests_full() ? (char)with : often[with];
            sw_file_put(path, text, sizeof text - 1);
            const sw_status status = timeline_open(&t, path, NULL);
            refused += status != SW_OK;
            CU_ASSERT(status == SW_OK || status == SW_FORMAT);
            if (status == SW_OK) {
                walked++;
                CU_ASSERT_EQUAL(sw_timeline_walk(t, note, &s), SW_OK);
                sw_timeline_free(t);
            }
        }
    sw_note("%llu refused, %llu walked", (unsigned long long)refused,
            (unsigned long long)walked);
    CU_ASSERT(refused > 100 && walked > 100);
}

SW_TEST("a format is written whole or not at all")
{
    size_t n;
    const char *out = sw_temp_path("events.csv");
    sw_file_put(out, "old\n", 4);
    for (uint64_t site = 0;; site++) {
        sw_fault_plan(SW_FAULT_FILE, site, SW_FAULT_ONCE);
        const int status = report_export(golden(), NULL, "csv", out);
        const bool struck = sw_fault_hits(SW_FAULT_FILE) > 0;
        sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
        const char *text = slurp(out, &n);
        if (!struck) {
            CU_ASSERT(status == 0 && n > 1000 && strncmp(text, "ns,step,phase,", 14) == 0);
            break;
        }
        /* A lock or a sync of the folder that fails is no reason to write nothing. */
        const bool whole = status == 0 && strncmp(text, "ns,step,phase,", 14) == 0;
        SW_CHECK(whole ? n > 1000 : status != 0 && strcmp(text, "old\n") == 0, "site %llu",
                 (unsigned long long)site);
        if (whole)
            sw_file_put(out, "old\n", 4);
    }
}

/* The runs before the damage go out, and the line is named. */
SW_TEST("what precedes damage goes out")
{
    static char text[65536];
    size_t n, bytes;
    const char *in = sw_temp_path("damaged.jsonl");
    const char *out = sw_temp_path("damaged.csv");
    const char *sound = slurp(golden(), &bytes);
    CU_ASSERT_FATAL(bytes < sizeof text);
    memcpy(text, sound, bytes);
    sw_file_put(in, text, bytes);
    CU_ASSERT_EQUAL(report_export(in, NULL, "csv", out), 0);
    (void)slurp(out, &n);
    const size_t whole = n;
    char *step = text;
    for (int i = 0; i < 9 && step != NULL; i++)
        step = strstr(step + 1, "{\"type\":\"step\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(step);
    step[0] = '?';
    sw_file_put(in, text, bytes);
    CU_ASSERT_EQUAL(report_export(in, NULL, "csv", out), CLI_DAMAGED);
    SW_CHECK(strstr(cli_last_line(), "damaged.jsonl: line ") != NULL, "%s", cli_last_line());
    const char *part = slurp(out, &n);
    SW_CHECK(strncmp(part, "ns,step,phase,", 14) == 0 && n > 100 && n < whole,
             "%zu of %zu bytes", n, whole);
}

SW_TEST("two runs go where there is room for two")
{
    size_t n;
    const char *out = sw_temp_path("two.html");
    CU_ASSERT_EQUAL(report_export(golden(), golden(), "html", out), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(slurp(out, &n), " id=\"t1\">"));
    CU_ASSERT_EQUAL(report_export(golden(), NULL, "html", out), 0);
    CU_ASSERT_PTR_NULL(strstr(slurp(out, &n), " id=\"t1\">"));
    CU_ASSERT_EQUAL(report_export(golden(), "missing.jsonl", "html", out), CLI_DAMAGED);
    CU_ASSERT_EQUAL(report_export(golden(), golden(), "csv", out), CLI_USAGE);
    CU_ASSERT_PTR_NULL(strstr(slurp(out, &n), "ns,step,phase,"));
}

/* Messages have the name that was given, not that of the file beside it. */
SW_TEST("a folder that is not there is named")
{
    CU_ASSERT_EQUAL(report_export(golden(), NULL, "csv", sw_temp_path("missing/x.csv")), 1);
    SW_CHECK(strstr(cli_last_line(), "missing/x.csv: ") != NULL, "%s", cli_last_line());
}
