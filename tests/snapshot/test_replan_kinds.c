/* Files of other kinds than a long trace of one device: several devices, no history, nothing
 * but segments; numbers and texts that cannot be; and what the command does with files in its
 * way. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"

SW_TESTS("replan kinds")

#define SETTINGS "'allocator_settings':{'expandable_segments':false}"

/* A segment of 20 MiB with a block of 5 MiB less 100 bytes. */
#define SEGMENT(device)                                                                        \
    "{'device':" #device ",'address':1099511627776,'total_size':20971520,'stream':0,"          \
    "'segment_type':'large','frames':[],'blocks':[{'size':5242880,"                            \
    "'requested_size':5242780,'state':'active_allocated','frames':[]},"                        \
    "{'size':15728640,'requested_size':7,'state':'inactive','frames':[]}]}"
#define EVENT(action, size)                                                                    \
    "{'action':'" action "','addr':1099511627776,'size':" size ",'stream':0,"                  \
    "'time_us':1,'frames':[]}"
#define TRACE "[" EVENT("segment_alloc", "20971520") "," EVENT("alloc", "5242780") "]"
#define FILE_OF(segments, traces)                                                              \
    "{'segments':[" segments "],'device_traces':[" traces "]," SETTINGS "}"

/* Runs it on that file, with these words. */
static int ask(const char *path, const char *words)
{
    return replan_command("'%s' %s", path, words);
}

/* ---- devices ----------------------------------------------------------------------------- */

SW_TEST("each device is reported")
{
    const char *path =
        put_json("two.json", FILE_OF(SEGMENT(0) "," SEGMENT(1), TRACE "," TRACE));
    CU_ASSERT_EQUAL(ask(path, "--replan"), 0);
    CU_ASSERT(replan_said("device 0: 2 events") && replan_said("device 1: 2 events"));
    CU_ASSERT_EQUAL(ask(path, "--replan --device 1"), 0);
    CU_ASSERT(!replan_said("device 0:") && replan_said("device 1: 2 events"));
    CU_ASSERT_EQUAL(ask(path, "--replan --json"), 0);
    CU_ASSERT(replan_said("\"devices\":.{\"device\":0,.*{\"device\":1,"));
    CU_ASSERT_EQUAL(ask(path, "--replan --device 2"), 1);
    CU_ASSERT(replan_said("there is no device 2 in it"));
    CU_ASSERT_EQUAL(ask(path, "--replan --max-peak 9MiB"), 1); /* 10 MiB less 200 */
    CU_ASSERT_EQUAL(ask(path, "--replan --max-peak 9MiB --device 0"), 0);
}

/* An unknown kind is null in a table of several, as in the replan of one. */
SW_TEST("what no frame says is null")
{
    char one[1000];
    snprintf(
        one, sizeof one, "%s",
        put_json("one.json", FILE_OF(SEGMENT(0), "[" EVENT("segment_alloc", "20971520") "]")));
    CU_ASSERT_EQUAL(ask(one, sw_textf("'%s' --json", one)), 0);
    CU_ASSERT(replan_said("\"phase\":null") && !replan_said("\"-\""));
}

/* Also a compressed one, and whoever reads it. */
SW_TEST("an empty file is said to be empty")
{
    static const unsigned char packed[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3,
                                           3,    0,    0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        const char *path = i < 2 ? put_file("empty.pickle", "", 0)
                                 : put_file("empty.gz", packed, sizeof packed);
        CU_ASSERT_EQUAL(ask(path, i % 2 == 0 ? "--replan" : ""), 3);
        SW_CHECK(replan_said("the file is empty"), "file %d", i);
    }
}

SW_TEST("a device without events is reported beside one with")
{
    const char *path =
        put_json("quiet.json", FILE_OF(SEGMENT(0) "," SEGMENT(2), TRACE ",[],[]"));
    CU_ASSERT_EQUAL(ask(path, "--replan"), 0);
    CU_ASSERT(replan_said("device 0: 2 events") && !replan_said("device 1"));
    CU_ASSERT(replan_said("device 2: 0 events") &&
              replan_said("No events are in the snapshot"));
}

/* ---- without a history ------------------------------------------------------------------- */

SW_TEST("without a history the end is reported")
{
    const replan *r = planned_json(FILE_OF(SEGMENT(0), "[]"));
    const replay_census *c = &r->at_reserved.census;
    CU_ASSERT(r->at_reserved.known && c->reserved == 20 * MIB && c->requested == 5242780);
    CU_ASSERT(c->rounding == 100 && c->split == 15 * MIB && c->other_sizes == 0);
    CU_ASSERT(r->whole.bound == 5242780 && r->expandable == 0 && r->period.steps == 0);
    const char *text = planned_text(r);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "_record_memory_history() records"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "at the end"));
    CU_ASSERT_PTR_NULL(strstr(text, "Proof"));
}

SW_TEST("segments alone are reported")
{
    const replan *r = planned_json(FILE_OF(
        "", "[" EVENT("segment_alloc", "20971520") "," EVENT("segment_free", "20971520") "]"));
    CU_ASSERT(r->lives.n == 0 && r->reserved == 20 * MIB && r->proof.from == TRACE_NONE);
    CU_ASSERT_EQUAL(r->at_reserved.census.cached, 20 * MIB);
    const char *text = planned_text(r);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "No allocation is in it."));
    CU_ASSERT_PTR_NULL(strstr(text, "what if not"));
}

SW_TEST("what says nothing is refused")
{
    CU_ASSERT_EQUAL(ask(put_json("e.json", FILE_OF("", "[]")), "--replan"), 3);
    CU_ASSERT(replan_said("there are no segments and no events in it"));
    CU_ASSERT_EQUAL(ask(put_json("e.json", FILE_OF("", "")), "--replan --json"), 3);
}

/* ---- numbers and texts ------------------------------------------------------------------- */

SW_TEST("numbers that cannot be are named")
{
    static const struct {
        const char *json, *error;
    } of[] = {
        {FILE_OF("", "[" EVENT("alloc", "-5") "]"),
         "event 0: .size. must be a number from 0 to 1,\\?099511627776 (got -5)"},
        {FILE_OF("", "[" EVENT("alloc", "9223372036854775808") "]"),
         "(got 9223372036854775808)"},
        {FILE_OF("", "[" EVENT("alloc", "1.5") "]"), "(got 1.5)"},
        {FILE_OF("", "[" EVENT("alloc", "null") "]"), "(got no number)"},
        {FILE_OF("", "[{'action':'alloc','addr':1}]"), "(got nothing)"},
        {FILE_OF("", "[" EVENT("alloc", "'\xff'") "]"), "(got no number)"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const int status = ask(put_json("number.json", of[i].json), "--replan");
        SW_CHECK(status == 3 && replan_said(of[i].error), "%s: %d", of[i].json, status);
    }
    /* The latest of two keys counts, as in Python. */
    const replan *r =
        planned_json(FILE_OF("", "[{'action':'alloc','addr':1,'size':5,'size':7,'stream':0}]"));
    CU_ASSERT_EQUAL(r->whole.bound, 7);
}

/* Names that a terminal, a page or JSON would take for something else, and of any length. */
SW_TEST("names do no harm")
{
    static const char *const names[] = {"\xff\xfe\x80z", "a\\u001b[31m\\u0007",
                                        "</pre><script>", "a\\\"b\\nc", ""};
    static char json[300000];
    size_t n = (size_t)snprintf(json, sizeof json, "{\"segments\":[],\"device_traces\":[[");
    for (size_t i = 0; i <= sizeof names / sizeof *names; i++) {
        n += (size_t)snprintf(json + n, sizeof json - n,
                              "%s{\"action\":\"alloc\",\"addr\":%zu,\"size\":64,\"stream\":0,"
                              "\"frames\":[{\"filename\":\"net.py\",\"line\":1,\"name\":\"",
                              i > 0 ? "," : "", 4096 * (i + 1));
        if (i < sizeof names / sizeof *names) {
            n += (size_t)snprintf(json + n, sizeof json - n, "%s", names[i]);
        } else {
            memset(json + n, 'x', 200000);
            n += 200000;
        }
        n += (size_t)snprintf(json + n, sizeof json - n, "\"}]}");
    }
    n += (size_t)snprintf(json + n, sizeof json - n, "]]}");
    const char *page = sw_temp_path("names.html");
    const char *plan = sw_temp_path("names.plan");
    const char *words = sw_textf("--replan --html '%s' --out '%s'", page, plan);
    const char *path = put_file("names.json", json, n);
    CU_ASSERT_EQUAL(ask(path, words), 0);
    CU_ASSERT_EQUAL(sw_shell("LC_ALL=C grep -q '[^[:print:]]' '%s'", sw_temp_path("said.txt")),
                    1);
    CU_ASSERT_EQUAL(sw_shell("grep -q '<script' '%s'", page), 1);
    CU_ASSERT_EQUAL(ask(path, "--replan --json"), 0);
    CU_ASSERT_EQUAL(sw_shell("python3 -c 'import json, sys; json.load(open(sys.argv[1], "
                             "encoding=\"utf-8\")); json.load(open(sys.argv[2]))' '%s' '%s'",
                             sw_temp_path("said.txt"), plan),
                    0);
}

/* ---- streams ----------------------------------------------------------------------------- */

/* Each has an arena of its own; there is an end to them. */
SW_TEST("streams have arenas, up to 4,096")
{
    static const uint32_t counts[] = {1, 300, 4097};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        static char json[1 << 20];
        replan r;
        size_t n = (size_t)snprintf(json, sizeof json, "{\"segments\":[],\"device_traces\":[[");
        for (uint32_t i = 0; i < counts[c]; i++)
            n += (size_t)snprintf(json + n, sizeof json - n,
                                  "%s{\"action\":\"alloc\",\"addr\":%u,\"size\":512,"
                                  "\"stream\":%u}",
                                  i > 0 ? "," : "", 4096 * (i + 1), i);
        n += (size_t)snprintf(json + n, sizeof json - n, "]]}");
        const sw_status status = replanned(&r, put_file("streams.json", json, n));
        SW_CHECK(status == (counts[c] <= 4096 ? SW_OK : SW_UNSUPPORTED), "%u: %s", counts[c],
                 sw_last_error());
        if (status == SW_OK) {
            CU_ASSERT(r.lives.n_arenas == counts[c] && r.streams == (counts[c] > 1));
            CU_ASSERT_EQUAL(r.whole.height, 512 * counts[c]);
            replan_free(&r);
        }
    }
}

/* ---- files in its way -------------------------------------------------------------------- */

SW_TEST("files that cannot be written are named")
{
    const char *path = put_json("one.json", FILE_OF(SEGMENT(0), TRACE));
    CU_ASSERT(ask(path, "--replan --out -") == 2 && replan_said("must be files (got -)"));
    CU_ASSERT(ask(path, "--replan --html -") == 2);
    CU_ASSERT(ask(path, "--replan --out /dev/full") == 1 && replan_said("/dev/full"));
    const char *folder = sw_temp_path("folder");
    CU_ASSERT_EQUAL(sw_shell("mkdir -p '%s'", folder), 0);
    CU_ASSERT(ask(path, sw_textf("--replan --out '%s'", folder)) == 1 && replan_said("folder"));
    CU_ASSERT(ask(path, sw_textf("--replan --out '%s/a' --html '%s/a'", folder, folder)) == 2 &&
              replan_said("name one file"));
    CU_ASSERT_EQUAL(
        sw_shell("'%s/tools/stepwell' report '%s' --replan > /dev/full", sw_build_root(), path),
        1);
}

SW_TEST("what is compared is alike")
{
    const char *one = put_json("one.json", FILE_OF(SEGMENT(0), TRACE));
    const char *two = put_json("two.json", FILE_OF(SEGMENT(0) "," SEGMENT(1), TRACE "," TRACE));
    const char *profile = put_json(
        "cpu.json",
        "{'segments':[],'device_traces':[[{'action':'alloc','addr':4096,'size':5242780}]]}");
    const char *words = sw_textf("--replan --diff '%s' --fail-on-increase 2%%", two);
    CU_ASSERT(ask(one, words) == 1 && replan_said("must have the same devices"));
    words = sw_textf("--replan --device 0 --diff '%s' --fail-on-increase 2%%", two);
    CU_ASSERT_EQUAL(ask(one, words), 0);
    words = sw_textf("--replan --diff '%s' --fail-on-increase 2%%", profile);
    CU_ASSERT(ask(one, words) == 1 && replan_said("must be of one kind"));
    CU_ASSERT_EQUAL(ask(profile, words), 0);
    CU_ASSERT_EQUAL(ask(put_file("run.jsonl", "{\"type\":\"header\"}\n{}\n", 21), "--replan"),
                    3);
    CU_ASSERT(replan_said("must be a PyTorch snapshot"));
}

/* Addresses of a CPU differ from run to run: how far they lie apart is no loss. */
SW_TEST("addresses of a CPU are no loss")
{
#define CPU(address)                                                                           \
    "{'segments':[],'device_traces':[[{'action':'alloc','addr':4096,'size':1000},"             \
    "{'action':'alloc','addr':" address ",'size':1000}]]}"
    const char *near = put_json("near.json", CPU("8192"));
    const char *far = put_json("far.json", CPU("819200000"));
    CU_ASSERT_EQUAL(ask(far, sw_textf("--replan --diff '%s' --fail-on-increase 0%%", near)), 0);
    /* Nor does a page draw what lies between them. */
    const char *page = sw_temp_path("far.html");
    CU_ASSERT_EQUAL(ask(far, sw_textf("--replan --html '%s'", page)), 0);
    CU_ASSERT_EQUAL(sw_shell("grep -q '2,000 bytes are used at some time' '%s'", page), 0);
}

/* ---- stopped ----------------------------------------------------------------------------- */

static bool at_once(void *context)
{
    ++*(int *)context;
    return true;
}

SW_TEST("a plan that is stopped is whole")
{
    const plain_training t = {30, 5, 4, 5 * MIB, MIB, 0};
    snapshot_file f;
    snapshot_trace trace;
    replan r;
    int asked = 0;
    plain_allocator *p = plain_new(9);
    plain_train(p, &t);
    const char *path = plain_write(p, "stopped.pickle", 0);
    CU_ASSERT_EQUAL_FATAL(snapshot_file_open(&f, path), SW_OK);
    CU_ASSERT_EQUAL_FATAL(snapshot_trace_read(&trace, &f, 0), SW_OK);
    snapshot_file_close(&f);
    CU_ASSERT_EQUAL_FATAL(replan_make(&r, &trace, at_once, &asked), SW_OK);
    CU_ASSERT(r.whole.n == r.lives.n && r.whole.height >= r.whole.bound);
    for (uint32_t i = 0; i < r.lives.n; i++) {
        const trace_life *x = &r.lives.all[i];
        CU_ASSERT(x->offset + x->bytes <= r.lives.arenas[x->arena].height);
    }
    replan_free(&r);
}
