/* Formats, each read back by code of its own: hand-made and drawn timelines, odd names, writes
 * and memory that fail, and output that is never held. */
#include "profiler/record/record.h"
#include "tests/sinks/expect.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/timeline.h"
#include <time.h>

SW_TESTS("sinks")

/* ---- a run that was worked out by hand --------------------------------------------------- */

/* A parameter of 100 (28 padding), an input of 64; forward makes h (200, 56) in block/fc and y
 * (10, 54) in "out put;1"; the loss ends both and y's place goes to dy. The peak is op 1: 128 +
 * 64 + 256 + 64 = 512. */
static sw_timeline *by_hand(void)
{
    static sw_tl_op ops[] = {{"block/fc/linear", "block/fc", 1},
                             {"out put;1/linear", "out put;1", 1},
                             {"mse \"#1\"", "", 2}};
    static const sw_tensor values[] = {
        {0, SW_TL_NONE, "fc.weight", "block/fc", "", "parameter", "", SW_SEGMENT_MODEL, 100, 28,
         0, 0, 3},
        {1, SW_TL_NONE, "x 1", "", "", "input", "data", SW_SEGMENT_INPUT, 64, 0, 0, 0, 3},
        {2, SW_TL_NONE, "h", "block/fc", "", "activation", "forward", SW_SEGMENT_STEP, 200, 56,
         0, 0, 2},
        {3, SW_TL_NONE, "y\xc3\xa9", "out put;1", "", "activation", "forward", SW_SEGMENT_STEP,
         10, 54, 256, 1, 2},
        {4, 3, "dy", "", "", "gradient", "loss", SW_SEGMENT_STEP, 10, 54, 256, 2, 2},
    };
    static const uint64_t op_ns[] = {1500, 2001, 0};
    sw_timeline *t = NULL;
    sw_tl_program *p;
    sw_tl_run *run;
    void *kept;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_new(&t), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_add_program(t, &p), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_add_run(t, &run), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_alloc(t, &kept, 5, sizeof *p->values), SW_OK);
    t->model = "hand \"made\"";
    p->run = "train";
    p->ops = ops;
    p->n_ops = 3;
    p->values = memcpy(kept, values, sizeof values);
    p->n_values = 5;
    p->peak_bytes = 512;
    p->peak_op = 1;
    *run =
        (sw_tl_run)SW_INIT(.step = 7, .has_loss = true, .loss = 0.25, .at_ns = 1000, .ns = 3501,
                           .clock = SW_TL_OPS, .op_ns = op_ns, .peak_bytes = 512);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_finish(t), SW_OK);
    return t;
}

SW_TEST("the hand-made run reads as it was made")
{
    sw_timeline *t = by_hand();
    written file;
    check_all(t, "by hand");
    must_write("folded", t, &file);
    SW_CHECK(strcmp(file.bytes, "train;(no_layer);input;x_1 64\n"
                                "train;block;fc;activation;h 200\n"
                                "train;block;fc;activation;h;(padding) 56\n"
                                "train;block;fc;parameter;fc.weight 100\n"
                                "train;block;fc;parameter;fc.weight;(padding) 28\n"
                                "train;out_put,1;activation;y\xc3\xa9 10\n"
                                "train;out_put,1;activation;y\xc3\xa9;(padding) 54\n") == 0,
             "%s", file.bytes);
    drop(&file);
    sw_timeline_free(t);
}

/* A tensor "saved" of role "saved" in x, and another one in a scope "saved" of x: one path of
 * names, two kinds of them. */
SW_TEST("scopes, roles and tensors may be named alike")
{
    sw_timeline *t = by_hand();
    sw_tl_program *p = &t->programs[0];
    for (uint32_t i = 2; i < 4; i++) {
        p->values[i].layer = i == 2 ? "x" : "x/saved";
        p->values[i].role = "saved";
        p->values[i].name = i == 2 ? "saved" : "t";
    }
    check_all(t, "alike");
    sw_timeline_free(t);
}

/* ---- drawn timelines --------------------------------------------------------------------- */

SW_TEST("drawn timelines read back")
{
    for (uint32_t seed = 0; seed < (sw_tests_full() ? 5000u : 150u); seed++) {
        const sw_made_timeline how = {1 + seed % 3,   1 + seed % 5,  1 + seed % 60,
                                      1 + seed % 100, seed % 2 == 0, seed % 3 == 0};
        char what[40];
        sw_timeline *t = sw_make_timeline(seed, &how);
        snprintf(what, sizeof what, "seed %u", seed);
        check_all(t, what);
        sw_timeline_free(t);
    }
}

/* ---- what must hold for every format, whoever wrote it ------------------------------------
 */

/* A timeline with files that are longer than the buffer of a file. */
static sw_timeline *make_large(void)
{
    return sw_make_timeline(11, &(sw_made_timeline){2, 40, 60, 120, true, true});
}

SW_TEST("every format writes the same twice")
{
    for (uint32_t i = 0; sw_sink_at(i) != NULL; i++) {
        const char *name = sw_sink_at(i)->name;
        written a, b;
        sw_timeline *t = make_large(), *same = make_large();
        must_write(name, t, &a);
        must_write(name, same, &b);
        SW_CHECK(a.n == b.n && memcmp(a.bytes, b.bytes, a.n) == 0, "%s differs", name);
        CU_ASSERT_PTR_EQUAL(sw_sink_find(name), sw_sink_at(i));
        drop(&a);
        drop(&b);
        sw_timeline_free(t);
        sw_timeline_free(same);
    }
    CU_ASSERT_PTR_NULL(sw_sink_find("no such format"));
}

SW_TEST("every write that fails is said and is the last")
{
    sw_timeline *t = make_large();
    for (uint32_t i = 0; sw_sink_at(i) != NULL; i++) {
        const char *name = sw_sink_at(i)->name;
        written whole, file;
        must_write(name, t, &whole);
        for (size_t k = 1; k <= whole.writes; k++) {
            const uint64_t blocks = sw_heap_blocks();
            file = (written){.fail_at = k};
            const sw_status status = write_by(name, t, NULL, &file);
            SW_CHECK(status == SW_IO && !file.after && sw_heap_blocks() == blocks &&
                         file.n < whole.n &&
                         (file.n == 0 || memcmp(file.bytes, whole.bytes, file.n) == 0),
                     "%s, write %zu of %zu: %s", name, k, whole.writes, sw_status_name(status));
            drop(&file);
        }
        drop(&whole);
    }
    sw_timeline_free(t);
}

typedef struct {
    const char *format;
    const sw_timeline *t;
} job;

static sw_status write_job(void *arg)
{
    const job *x = arg;
    written file = {.n = 0};
    const sw_status status = write_by(x->format, x->t, NULL, &file);
    drop(&file);
    return status;
}

SW_TEST("every refused block is said")
{
    sw_timeline *t = sw_make_timeline(3, &(sw_made_timeline){2, 3, 30, 60, true, false});
    for (uint32_t i = 0; sw_sink_at(i) != NULL; i++) {
        job x = {sw_sink_at(i)->name, t};
        (void)sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, write_job, &x);
    }
    sw_timeline_free(t);
}

/* A file in which nothing ran, and one of nothing: a valid file or a clear refusal. */
SW_TEST("empty timelines are written or refused")
{
    for (int programs = 0; programs < 2; programs++)
        for (uint32_t i = 0; sw_sink_at(i) != NULL; i++) {
            const char *name = sw_sink_at(i)->name;
            written file = {.n = 0};
            sw_timeline *t = by_hand();
            t->n_runs = 0;
            t->path = "nothing.jsonl";
            t->n_programs = (uint32_t)programs;
            const sw_status status = write_by(name, t, NULL, &file);
            SW_CHECK(status == SW_OK || (status == SW_FORMAT && programs == 0 &&
                                         strstr(sw_last_error(), "nothing.jsonl") != NULL),
                     "%s: %s", name, sw_last_error());
            drop(&file);
            if (programs == 1)
                check_all(t, "no run");
            sw_timeline_free(t);
        }
}

/* ---- large files ------------------------------------------------------------------------- */

static sw_status count(void *context, const void *bytes, size_t n)
{
    *(size_t *)context += n;
    return SW_OK;
}

static sw_status count_event(void *context, const sw_tl_event *e)
{
    ++*(uint64_t *)context;
    return SW_OK;
}

SW_TEST("large files stream")
{
    static const char *const formats[] = {"perfetto", "csv", "memory-viz"};
    static sw_sink_out buffer;
    const uint32_t runs = sw_tests_full() ? 2200 : 220;
    sw_timeline *t = sw_make_timeline(2, &(sw_made_timeline){1, runs, 300, 400, false, false});
    uint64_t events = 0;
    CU_ASSERT_EQUAL(sw_timeline_walk(t, count_event, &events), SW_OK);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        sw_heap_stats before, after;
        struct timespec a, b;
        size_t bytes = 0;
        sw_heap_read(SW_HEAP_PROFILE, &before);
        clock_gettime(CLOCK_MONOTONIC, &a);
        buffer = (sw_sink_out){.write = count, .context = &bytes};
        CU_ASSERT_EQUAL(sw_sink_find(formats[i])->write(t, &buffer), SW_OK);
        CU_ASSERT_EQUAL(sw_sink_flush(&buffer), SW_OK);
        clock_gettime(CLOCK_MONOTONIC, &b);
        sw_heap_read(SW_HEAP_PROFILE, &after);
        const size_t most = before.bytes + bytes / 4;
        SW_CHECK(bytes > 1000000 &&
                     (after.peak_bytes <= before.peak_bytes || after.peak_bytes < most),
                 "%s: %zu bytes, %zu in memory", formats[i], bytes, after.peak_bytes);
        sw_note("%s: %llu events, %zu bytes, %.3f s", formats[i], (unsigned long long)events,
                bytes, (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    }
    sw_timeline_free(t);
}
