/* Snapshots: what we write is read back event by event, what others write has answers that were
 * worked out by hand, and no file makes the reader take more than its share. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include "tests/support/timeline.h"
#include "profiler/inspect/snapshot.h"
#include "profiler/record/json.h"
#include "profiler/inspect/profile_read.h"
#include <time.h>

SW_TESTS("snapshot")

/* ---- a run of our own -------------------------------------------------------------------- */

/* Two inputs and two models that each begin at offset 0; names that viewers would hide. */
static const sw_tensor run_values[] = {
    {10, SW_TL_NONE, "a.weight", "block_start/a", "", "parameter", "data", SW_SEGMENT_MODEL,
     100, 28, 0, 0, 4},
    {11, SW_TL_NONE, "b.weight", "b", "", "parameter", "data", SW_SEGMENT_MODEL, 64, 0, 0, 0,
     4},
    {12, SW_TL_NONE, "input0", "", "", "input", "data", SW_SEGMENT_INPUT, 256, 0, 0, 0, 4},
    {13, SW_TL_NONE, "input1", "", "", "input", "data", SW_SEGMENT_INPUT, 64, 0, 0, 0, 4},
    {0, SW_TL_NONE, "a.out", "block_start/a", "a/linear", "saved", "forward", SW_SEGMENT_STEP,
     640, 0, 0, 0, 3},
    {1, 0, "a.relu.out", "block_start/a", "a/relu", "activation", "forward", SW_SEGMENT_STEP,
     640, 0, 0, 1, 2},
    {2, SW_TL_NONE, "empty", "", "a/relu", "temporary", "forward", SW_SEGMENT_STEP, 0, 0, 640,
     1, 1},
    {3, SW_TL_NONE, "b.out", "b", "b/linear", "activation", "forward", SW_SEGMENT_STEP, 60, 4,
     640, 1, 2},
    {4, SW_TL_NONE, "grad", "b", "b/linear backward", "gradient", "backward", SW_SEGMENT_STEP,
     128, 0, 704, 2, 3},
    {5, SW_TL_NONE, "kept", "", "PyEval_ step", "metric", "step", SW_SEGMENT_STEP, 64, 0, 832,
     3, 4},
};
static const sw_tl_op run_ops[] = {
    {"a/linear", "block_start/a", 1},
    {"a/relu", "block_start/a", 1},
    {"b/linear backward", "b", 3},
    {"PyEval_ step", "", 4},
};
#define RUN_PEAK (128 + 64 + 256 + 64 + 640 + 128 + 64) /* at the third and the last op */

static sw_timeline *make_run(void)
{
    sw_timeline *t;
    sw_tl_program *p;
    sw_tl_run *run;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_new(&t), SW_OK);
    t->path = "run";
    t->model = "toy";
    CU_ASSERT_EQUAL_FATAL(sw_timeline_add_program(t, &p), SW_OK);
    void *block;
    p->n_values = sizeof run_values / sizeof *run_values;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_alloc(t, &block, p->n_values, sizeof *run_values), SW_OK);
    p->values = memcpy(block, run_values, sizeof run_values);
    p->n_ops = sizeof run_ops / sizeof *run_ops;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_alloc(t, &block, p->n_ops, sizeof *run_ops), SW_OK);
    p->ops = memcpy(block, run_ops, sizeof run_ops);
    p->run = "train";
    p->arena_bytes = 960;
    for (uint64_t step = 1; step <= 2; step++) {
        CU_ASSERT_EQUAL_FATAL(sw_timeline_add_run(t, &run), SW_OK);
        run->step = step;
    }
    SW_CHECK(sw_timeline_finish(t) == SW_OK, "%s", sw_last_error());
    return t;
}

static char *write_run(const sw_timeline *t, const char *name)
{
    sink_bytes s;
    sink_open(&s);
    SW_CHECK(sw_sink_find("memory-viz")->write(t, &s.out) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_EQUAL(sw_sink_flush(&s.out), SW_OK);
    char *path = put_file(name, s.bytes, s.n);
    sink_close(&s);
    return path;
}

static void write_value(sw_json *j, value v)
{
    const value_kind kind = value_kind_of(v);
    if (kind == VALUE_LIST || kind == VALUE_DICT) {
        sw_json_begin(j, kind == VALUE_LIST ? '[' : '{');
        for (uint64_t i = 0; i < value_count(v); i++) {
            if (kind == VALUE_DICT)
                sw_json_key(j, value_key(v, i));
            write_value(j, kind == VALUE_LIST ? value_item(v, i) : value_member(v, i));
        }
        sw_json_end(j);
    } else if (kind == VALUE_INT) {
        sw_json_i64(j, value_number(v));
    } else if (kind == VALUE_TEXT) {
        sw_json_string(j, value_text(v));
    } else {
        CU_ASSERT(v == VALUE_TRUE || v == VALUE_FALSE);
        sw_json_bool(j, v == VALUE_TRUE);
    }
}

/* The snapshot as json.dump of Python has it. */
static sw_json json_of_run(const sw_timeline *t)
{
    tree_file f;
    sw_json j;
    CU_ASSERT_EQUAL_FATAL(tree_open(&f, write_run(t, "to.pickle"), pickle_read), SW_OK);
    sw_json_growing(&j, SW_HEAP_PROFILE);
    write_value(&j, f.top);
    sw_json_line(&j);
    CU_ASSERT_EQUAL_FATAL(j.status, SW_OK);
    tree_close(&f);
    return j;
}

static const char *write_json(const sw_timeline *t, const char *name)
{
    sw_json j = json_of_run(t);
    const char *path = put_file(name, j.bytes, j.used);
    sw_json_free(&j);
    return path;
}

/* A walk's events of values: ALLOC and FREE as they come, a REUSE as a free and an alloc. */
typedef struct {
    bool alloc;
    uint64_t bytes, live;
    const sw_tensor *value;
} line;

typedef struct {
    line *at;
    uint32_t n, room;
    uint64_t live, peak;
    const sw_timeline *t;
    size_t ended;            /* runs */
    uint32_t holder[4][256]; /* of a program, who has the place of a value; plus one */
} story;

static void tell(story *s, bool alloc, const sw_tl_event *e, uint32_t whose, uint64_t bytes)
{
    if (s->n == s->room) {
        s->room = 2 * s->room + 256;
        s->at = realloc(s->at, s->room * sizeof *s->at);
        CU_ASSERT_PTR_NOT_NULL_FATAL(s->at);
    }
    s->live += alloc ? bytes : -bytes;
    s->peak = s->live > s->peak ? s->live : s->peak;
    s->at[s->n++] = (line){alloc, bytes, s->live, &e->program->values[whose]};
}

/* The model's end, after all runs, is in no snapshot. */
static sw_status hear_run(void *context, const sw_tl_event *e)
{
    story *s = context;
    const sw_tl_program *p = e->program;
    s->ended += e->kind == SW_TL_STEP_END;
    if (e->kind < SW_TL_ALLOC || e->kind > SW_TL_FREE || s->ended == s->t->n_runs)
        return SW_OK;
    const uint32_t alias = p->values[e->index].alias;
    const uint32_t root = alias != SW_TL_NONE ? alias : e->index;
    const uint64_t bytes = p->values[root].bytes + p->values[root].padding;
    uint32_t *whose = &s->holder[p - s->t->programs][root];
    if (bytes == 0 || (e->kind == SW_TL_ALLOC) == (*whose != 0))
        return SW_OK;
    if (*whose != 0)
        tell(s, false, e, *whose - 1, bytes);
    *whose = 0;
    if (e->kind != SW_TL_FREE) {
        tell(s, true, e, e->index, bytes);
        *whose = e->index + 1;
    }
    return SW_OK;
}

static sw_status hear_snapshot(void *context, const sw_tl_event *e)
{
    if (e->kind == SW_TL_ALLOC || e->kind == SW_TL_FREE)
        tell(context, e->kind == SW_TL_ALLOC, e, e->index, e->bytes);
    return SW_OK;
}

/* But for what the writer alters in names that viewers would hide. */
static bool same_name(const char *ours, const char *theirs)
{
    for (; *ours == *theirs || (*theirs == '-' && strchr("_:", *ours) != NULL);
         ours++, theirs++)
        if (*ours == '\0')
            return true;
    return false;
}

static bool same_line(const line *a, const line *b)
{
    return a->alloc == b->alloc && a->bytes == b->bytes && a->live == b->live &&
           strcmp(a->value->role, b->value->role) == 0 &&
           strcmp(a->value->phase, b->value->phase) == 0 &&
           same_name(a->value->name, b->value->name) && same_name(a->value->op, b->value->op) &&
           same_name(a->value->layer, b->value->layer);
}

/* Write, read, and compare event by event; returns the peak. */
static uint64_t check_round(const sw_timeline *run, const char *path)
{
    static story wrote, got;
    sw_timeline *t;
    memset(&wrote, 0, sizeof wrote);
    memset(&got, 0, sizeof got);
    wrote.t = run;
    if (!SW_CHECK(timeline_open(&t, path, NULL) == SW_OK, "%s", sw_last_error()))
        return 0;
    CU_ASSERT_STRING_EQUAL(t->tool, "pytorch");
    CU_ASSERT_EQUAL(sw_timeline_walk(run, hear_run, &wrote), SW_OK);
    CU_ASSERT_EQUAL(sw_timeline_walk(t, hear_snapshot, &got), SW_OK);
    SW_CHECK(wrote.n <= got.n && wrote.peak == got.peak &&
                 sw_timeline_peak(t)->peak_bytes == got.peak,
             "%s: %u and %u events, peaks %llu and %llu", path, wrote.n, got.n,
             (unsigned long long)wrote.peak, (unsigned long long)got.peak);
    for (uint32_t i = 0; i < wrote.n && i < got.n; i++)
        if (!SW_CHECK(same_line(&wrote.at[i], &got.at[i]), "%s: event %u: %s and %s", path, i,
                      wrote.at[i].value->name, got.at[i].value->name))
            break;
    free(wrote.at);
    free(got.at);
    sw_timeline_free(t);
    return got.peak;
}

SW_TEST("drawn runs are read as they were")
{
    const uint64_t seeds = sw_tests_full() ? 2000 : 60;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        sw_timeline *run =
            sw_make_timeline(seed, &(sw_made_timeline){1 + seed % 4, 5, 30, 60, true, true});
        (void)check_round(run, seed % 2 ? write_run(run, "run.pickle")
                                        : write_json(run, "run.json"));
        sw_timeline_free(run);
    }
}

SW_TEST("what we write we read")
{
    sw_timeline *run = make_run(), *t;
    CU_ASSERT_EQUAL(check_round(run, write_run(run, "run.pickle")), RUN_PEAK);
    CU_ASSERT_EQUAL(check_round(run, write_json(run, "run.json")), RUN_PEAK);
    CU_ASSERT_EQUAL_FATAL(timeline_open(&t, write_run(run, "run"), NULL), SW_OK);
    const sw_tl_program *p = sw_timeline_peak(t);
    CU_ASSERT_STRING_EQUAL(t->model, "toy");
    CU_ASSERT_EQUAL(p->peak_bytes, RUN_PEAK);
    CU_ASSERT_STRING_EQUAL(p->ops[p->peak_op].name, "b/linear backward");
    CU_ASSERT_EQUAL(p->arena_bytes, 960 + 192 + 320); /* three segments */
    CU_ASSERT_EQUAL(p->phase[3].peak_bytes, RUN_PEAK);
    for (uint32_t i = 0; i < p->n_values; i++) /* the model alone is alive at the end */
        SW_CHECK((p->values[i].death == p->n_ops) ==
                     (strcmp(p->values[i].role, "parameter") == 0),
                 "%s", p->values[i].name);
    sw_timeline_free(t);
    sw_timeline_free(run);
}

/* ---- runs of others ---------------------------------------------------------------------- */

/* On device 1: 1024 and 512 from before the trace, of which the first is freed in it; 4096 and
 * 2048 made in it. A segment of 1 MiB is added and given back, of 2 MiB each stay. */
static const char other[] =
    "{'segments': [{'device':0,'address':4096,'total_size':4096,'stream':0,'blocks':[]},"
    "{'device':1,'address':1073741824,'total_size':2097152,'stream':0,'blocks':[{'size':1024,"
    "'state':'inactive'},{'size':512,'requested_size':500,'state':'active_allocated',"
    "'category':'parameter','frames':[{'filename':'/u/net.py','line':3,'name':'__init__'}]},"
    "{'size':4096,'requested_size':4000,'state':'active_pending_free','frames':[]},"
    "{'size':2091520,'state':'inactive'}]},{'device':1,'address':8589934592,"
    "'total_size':2097152,'stream':0,'blocks':[{'size':2097152,'state':'inactive'}]}],"
    "'device_traces':[[],[{'action':'segment_alloc','addr':17179869184,'size':1048576,"
    "'stream':0,'time_us':5},{'action':'alloc','addr':1073743360,'size':4000,'stream':0,"
    "'time_us':10,'category':'autograd_detail','user_metadata':'batch 7',"
    "'frames':[{'filename':'/u/net.py','line':9,'name':'forward'}]},"
    "{'action':'free_requested','addr':1073741824,'size':1000,'stream':0},"
    "{'action':'free_completed','addr':1073741824,'size':1000,'stream':0,'time_us':14},"
    "{'action':'alloc','addr':17179869184,'size':2048,'stream':0,'time_us':20},"
    "{'action':'annotate','addr':17179869184,'size':2048,'user_metadata':'noted'},"
    "{'action':'oom','device_free':5,'size':99999,'stream':0},{'action':'alloc',"
    "'addr':17179880000,'size':0,'stream':0},{'action':'free_completed','addr':17179869184,"
    "'size':2048,'time_us':21},{'action':'segment_free','addr':17179869184,'size':1048576,"
    "'stream':0},{'action':'snapshot','addr':0,'size':0}]],'allocator_settings':{}}";

static const sw_tensor *value_named(const sw_tl_program *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_values; i++)
        if (strcmp(p->values[i].name, name) == 0)
            return &p->values[i];
    CU_FAIL(name);
    return &p->values[0];
}

static void check_life(const sw_tensor *v, uint64_t bytes, uint32_t birth, uint32_t death,
                       const char *role, uint64_t offset)
{
    SW_CHECK(v->bytes == bytes && v->padding == 0 && v->birth == birth && v->death == death &&
                 strcmp(v->role, role) == 0 && v->offset == offset,
             "%s: %llu bytes, ops %u to %u, %s, offset %llu", v->name,
             (unsigned long long)v->bytes, v->birth, v->death, v->role,
             (unsigned long long)v->offset);
}

/* Positions: in front, alloc 4000, free 1000, alloc 2048, free 2048. */
SW_TEST("a run of another tool has known answers")
{
    sw_timeline *t;
    const char *path = put_json("other.json", other);
    if (!SW_CHECK(timeline_open(&t, path, NULL) == SW_OK, "%s", sw_last_error()))
        return;
    const sw_tl_program *p = sw_timeline_peak(t);
    CU_ASSERT_STRING_EQUAL(t->device, "cuda:1, the fullest of 2");
    CU_ASSERT_EQUAL(t->n_programs, 1);
    CU_ASSERT_EQUAL(p->n_ops, 5);
    CU_ASSERT_EQUAL(p->n_values, 4);
    check_life(value_named(p, "from before the trace"), 1000, 0, 1, "unknown", 0);
    check_life(value_named(p, "net.py:3 __init__"), 500, 0, 5, "parameter", 1024);
    check_life(value_named(p, "batch 7"), 4000, 1, 5, "temporary", 1536);
    check_life(value_named(p, "noted"), 2048, 3, 3, "unknown", 4 << 20);
    CU_ASSERT_STRING_EQUAL(value_named(p, "batch 7")->layer, "net.py:9 forward");
    CU_ASSERT_EQUAL(p->peak_bytes, 500 + 4000 + 2048);
    CU_ASSERT_EQUAL(p->peak_op, 3);
    CU_ASSERT_EQUAL(p->arena_bytes, (4 << 20) + (1 << 20));
    static const uint64_t ns[] = {0, 4000, 6000, 1000, 0};
    CU_ASSERT_EQUAL(t->n_runs, 1);
    CU_ASSERT_EQUAL(t->runs[0].clock, SW_TL_OPS);
    for (int i = 0; i < 5; i++)
        SW_CHECK(t->runs[0].op_ns[i] == ns[i], "op %d", i);
    CU_ASSERT_EQUAL(t->runs[0].ns, 11000);
    sw_timeline_free(t);
}

/* ---- files that mean harm ---------------------------------------------------------------- */

typedef struct {
    const char *text, *error;
} harm_case;

#define SEGMENT(more) "{'device':0,'address':0,'total_size':4096,'blocks':[" more "]}"
#define TRACE(events) "{'segments':[],'device_traces':[[" events "]]}"

static const harm_case harms[] = {
    {"{'segments':3}", "no list of segments"},
    {"{'segments':[3]}", "segment 0: 'device'"},
    {"{'segments':[{'device':1024}]}", "segment 0: 'device' must be a number from 0 to 1023"},
    {"{'segments':[{'device':0,'total_size':-1}]}", "segment 0: 'total_size'"},
    {"{'segments':[{'device':0,'total_size':1}]}", "segment 0: 'address'"},
    {"{'segments':[" SEGMENT("{}") "]}", "block 0: 'size'"},
    {"{'segments':[" SEGMENT("{'size':1e9}") "]}", "block 0: 'size'"},
    {"{'segments':[" SEGMENT("{'size':64,'requested_size':-5,'state':'active'}") "]}",
     "block 0: 'requested_size'"},
    {"{'segments':[],'device_traces':{}}", "no list of segments"},
    {TRACE("{'action':'alloc'}"), "event 0: 'addr'"},
    {TRACE("{'action':'alloc','addr':0,'size':1},{'action':'free_completed','addr':0}"),
     "event 1: 'size'"},
    {TRACE("{'action':'alloc','addr':0,'size':1099511627777}"), "event 0: 'size'"},
    {TRACE("{'action':'alloc','addr':9223372036854775807,'size':1}"), "event 0: 'addr'"},
    /* more in all than an address has room for */
    {TRACE("{'action':'alloc','addr':0,'size':1099511627776},"
           "{'action':'alloc','addr':2199023255552,'size':1099511627776}"),
     "ends past"},
};

SW_TEST("what is no snapshot is refused by place")
{
    for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
        sw_timeline *t;
        const uint64_t blocks = sw_heap_blocks();
        const char *path = put_json("harm.json", harms[i].text);
        const sw_status status = read_snapshot(&t, path);
        SW_CHECK(status == SW_FORMAT && strstr(sw_last_error(), harms[i].error) != NULL,
                 "%s: %s", harms[i].text, sw_last_error());
        if (status == SW_OK)
            sw_timeline_free(t);
        CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    }
}

/* A thousand times the same segment of a thousand times the same block: a few kilobytes. */
SW_TEST("what is shared is not counted without end")
{
    sink_bytes s;
    sw_pickle p;
    sw_timeline *t;
    sink_open(&s);
    sw_pickle_start(&p, &s.out);
    sw_pickle_begin(&p, '{');
    sw_pickle_string(&p, "segments");
    sw_pickle_begin(&p, '[');
    for (int i = 0; i < 3000; i++) {
        if (i > 0) {
            sw_pickle_again(&p, 1);
            continue;
        }
        sw_pickle_begin(&p, '{');
        static const char *const keys[] = {"device", "address", "total_size"};
        for (int k = 0; k < 3; k++) {
            sw_pickle_string(&p, keys[k]);
            sw_pickle_u64(&p, 0);
        }
        sw_pickle_string(&p, "blocks");
        sw_pickle_begin(&p, '[');
        for (int b = 0; b < 3000; b++) {
            if (b > 0) {
                sw_pickle_again(&p, 0);
                continue;
            }
            sw_pickle_begin(&p, '{');
            sw_pickle_string(&p, "size");
            sw_pickle_u64(&p, 0);
            sw_pickle_end(&p);
            (void)sw_pickle_keep(&p);
        }
        sw_pickle_end(&p);
        sw_pickle_end(&p);
        (void)sw_pickle_keep(&p);
    }
    sw_pickle_end(&p);
    sw_pickle_end(&p);
    sw_pickle_stop(&p);
    CU_ASSERT_EQUAL(sw_sink_flush(&s.out), SW_OK);
    const char *path = put_file("shared.pickle", s.bytes, s.n);
    CU_ASSERT_EQUAL(read_snapshot(&t, path), SW_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "more blocks than the file can hold"));
    sink_close(&s);
}

/* Whatever byte is another one, the answer is a timeline or an error, and nothing is left. */
SW_TEST("a changed byte does no harm")
{
    sw_timeline *run = make_run(), *t;
    sw_dice dice = {.state = 5};
    sink_bytes s;
    sink_open(&s);
    CU_ASSERT_EQUAL(sw_sink_find("memory-viz")->write(run, &s.out), SW_OK);
    CU_ASSERT_EQUAL(sw_sink_flush(&s.out), SW_OK);
    sw_json j = json_of_run(run);
    for (int as_json = 0; as_json < 2; as_json++) {
        char *bytes = as_json ? j.bytes : s.bytes;
        const size_t n = as_json ? j.used : s.n, step = sw_tests_full() ? 1 : 23;
        for (size_t i = 0; i < n; i += step) {
            const char was = bytes[i];
            bytes[i] = (char)sw_dice_below(&dice, 256);
            const uint64_t blocks = sw_heap_blocks();
            const sw_status status = read_snapshot(&t, put_file("changed", bytes, n));
            if (status == SW_OK)
                sw_timeline_free(t);
            SW_CHECK(status == SW_OK || status == SW_FORMAT, "byte %zu: %s", i,
                     sw_last_error());
            CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
            bytes[i] = was;
        }
    }
    sw_json_free(&j);
    sink_close(&s);
    sw_timeline_free(run);
}

/* ---- failures ---------------------------------------------------------------------------- */

static sw_status open_and_free(void *path)
{
    sw_timeline *t;
    SW_TRY(timeline_open(&t, path, NULL));
    sw_timeline_free(t);
    return SW_OK;
}

static sw_status write_and_drop(void *run)
{
    sink_bytes s;
    sink_open(&s);
    sw_status status = sw_sink_find("memory-viz")->write(run, &s.out);
    const sw_status flushed = sw_sink_flush(&s.out);
    sink_close(&s);
    return status == SW_OK ? flushed : status;
}

SW_TEST("each failure is reported and leaves nothing")
{
    sw_timeline *run = make_run();
    char *path = sw_textf("%s", write_run(run, "sweep.pickle"));
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, open_and_free, path) > 10);
    CU_ASSERT(sw_sweep(SW_FAULT_FILE, SW_IO, open_and_free, path) > 3);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, write_and_drop, run) > 4);
    sw_timeline_free(run);
}

/* ---- many -------------------------------------------------------------------------------- */

/* A run of `n` events more: pairs of an alloc and a free in a place that moves. */
static sw_timeline *make_long_run(uint32_t n)
{
    sw_timeline *t = make_run();
    sw_tl_run *run;
    for (uint32_t i = 0; i < n / 20; i++) {
        CU_ASSERT_EQUAL_FATAL(sw_timeline_add_run(t, &run), SW_OK);
        run->step = i + 3;
    }
    for (size_t i = 0; i < t->n_runs; i++)
        t->runs[i].at_ns = i * 10000;
    return t;
}

static uint64_t micros(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

SW_TEST("many events are written and read")
{
    const uint32_t n = sw_tests_full() ? 1000000 : 40000;
    sw_timeline *run = make_long_run(n), *t;
    sink_bytes s;
    sink_open(&s);
    const uint64_t began = micros();
    CU_ASSERT_EQUAL(sw_sink_find("memory-viz")->write(run, &s.out), SW_OK);
    CU_ASSERT_EQUAL(sw_sink_flush(&s.out), SW_OK);
    const uint64_t written = micros();
    const char *path = put_file("many.pickle", s.bytes, s.n);
    const size_t bytes = s.n;
    const uint64_t before = micros();
    sw_timeline_free(run);
    sink_close(&s);
    if (!SW_CHECK(read_snapshot(&t, path) == SW_OK, "%s", sw_last_error()))
        return;
    const sw_tl_program *p = sw_timeline_peak(t);
    sw_note("%u positions: %zu bytes, written in %llu ms, read in %llu ms", p->n_ops, bytes,
            (unsigned long long)(written - began) / 1000,
            (unsigned long long)(micros() - before) / 1000);
    CU_ASSERT_EQUAL(p->peak_bytes, RUN_PEAK);
    CU_ASSERT(p->n_ops > n / 2);
    sw_timeline_free(t);
}
