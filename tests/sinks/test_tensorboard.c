/* TensorBoard's event files: records, numbers, and the file of a timeline. */
#include "profiler/inspect/tfevents.h"
#include "tests/sinks/expect.h"
#include "tests/support/read_tfevents.h"
#include "tests/support/timeline.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4000

typedef struct {
    tfevents_scalar at[MOST];
    size_t n;
} scalars;

static scalars got;

static void keep(void *context, const tfevents_scalar *s)
{
    scalars *to = context;
    if (to->n < MOST)
        to->at[to->n++] = *s;
}

/* The bytes of the package tensorboard (2.21) for the same events: RecordWriter, event_pb2. */
static void a_record_is_what_others_write(void)
{
    /* clang-format off */
    static const unsigned char must[] = {
        0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00,
        0x00, 0xc0, 0x48, 0x6a, 0xe9, 0xd9, 0x41, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e,
        0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32, 0x85, 0x67, 0x8c, 0xe2, 0xa7, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xb8, 0x89, 0x69, 0x2b, 0x09, 0x00, 0x00, 0xe0,
        0x48, 0x6a, 0xe9, 0xd9, 0x41, 0x10, 0xac, 0x02, 0x2a, 0x98, 0x01, 0x0a, 0x11, 0x0a,
        0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00,
        0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61,
        0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73,
        0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11,
        0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00,
        0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72,
        0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f,
        0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a,
        0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15,
        0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74,
        0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x44, 0xf5, 0xcf, 0x90};
    /* clang-format on */
    static sw_tfevents e;
    unsigned char file[300];
    sw_tfevents_init(&e);
    sw_tfevents_version(&e, 1738909987.0);
    const size_t n = e.n;
    memcpy(file, e.bytes, n);
    sw_tfevents_begin(&e, 1738909987.5, 300);
    for (int i = 0; i < 8; i++)
        sw_tfevents_scalar(&e, "loss/train", 0.25);
    sw_tfevents_end(&e);
    CU_ASSERT_EQUAL_FATAL(n + e.n, sizeof must);
    memcpy(file + n, e.bytes, e.n);
    CU_ASSERT(memcmp(file, must, sizeof must) == 0);
}

/* Any cut of a file reads up to the last whole record, and any byte that changes is seen. */
static void cuts_and_damage(void)
{
    static sw_tfevents e;
    unsigned char file[1000];
    size_t n = 0, ends[8] = {0};
    sw_tfevents_init(&e);
    for (uint64_t step = 0; step < 6; step++) {
        if (step == 0) {
            sw_tfevents_version(&e, 5.5);
        } else {
            sw_tfevents_begin(&e, 6.25, step * 100);
            sw_tfevents_scalar(&e, "loss/train", step == 3 ? (double)NAN : 0.5 * (double)step);
            sw_tfevents_scalar(&e, "memory/peak_bytes", 3207488.0);
            sw_tfevents_end(&e);
        }
        CU_ASSERT_EQUAL(sw_tfevents_length(&e, e.bytes), e.n);
        memcpy(file + n, e.bytes, e.n);
        n += e.n;
        ends[step + 1] = n;
    }
    for (size_t cut = 0; cut <= n; cut++) {
        size_t records = 0;
        while (records < 6 && ends[records + 1] <= cut)
            records++;
        got.n = 0;
        const tfevents_read r = tfevents_read_all(file, cut, keep, &got);
        SW_CHECK(r.wrong == NULL && r.records == records && r.whole == ends[records] &&
                     got.n == (records > 1 ? 2 * (records - 1) : 0),
                 "cut at %zu: %s", cut, r.wrong);
    }
    CU_ASSERT(got.at[0].step == 100 && got.at[0].value == 0.5f && got.at[0].wall_s == 6.25);
    CU_ASSERT(isnan(got.at[4].value) && got.at[9].value == 3207488.0f);
    for (size_t i = 0; i < n; i++) {
        file[i] ^= 1;
        CU_ASSERT(tfevents_read_all(file, n, NULL, NULL).wrong != NULL);
        file[i] ^= 1;
    }
}

/* Values without room are left out, and the record stays whole. */
static void a_record_has_an_end(void)
{
    static sw_tfevents e;
    static unsigned char file[2 * SW_TFEVENTS_ROOM];
    char tag[101];
    memset(tag, 't', sizeof tag - 1);
    tag[100] = '\0';
    sw_tfevents_init(&e);
    sw_tfevents_version(&e, 0.0);
    size_t n = e.n;
    memcpy(file, e.bytes, n);
    sw_tfevents_begin(&e, 1.0, UINT64_MAX);
    for (int i = 0; i < 100; i++)
        sw_tfevents_scalar(&e, tag, i);
    sw_tfevents_end(&e);
    memcpy(file + n, e.bytes, e.n);
    n += e.n;
    got.n = 0;
    const tfevents_read r = tfevents_read_all(file, n, keep, &got);
    CU_ASSERT(r.wrong == NULL && r.whole == n && r.records == 2);
    CU_ASSERT(got.n == 37 && got.at[36].value == 36.0f && got.at[36].step == UINT64_MAX);
}

/* ---- the file of a timeline -------------------------------------------------------------- */

static double find(const char *tag, uint64_t step)
{
    for (size_t i = 0; i < got.n; i++)
        if (strcmp(got.at[i].tag, tag) == 0 && got.at[i].step == step)
            return (double)got.at[i].value;
    return -1.0;
}

static sw_tl_run *add_run(sw_timeline *t, uint32_t program, uint64_t step, double loss)
{
    sw_tl_run *r;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_add_run(t, &r), SW_OK);
    *r = (sw_tl_run){.program = program,
                     .step = step,
                     .has_loss = true,
                     .loss = loss,
                     .at_ns = SW_TL_AFTER,
                     .ns = 2000000,
                     .clock = SW_TL_PHASES,
                     .peak_bytes = 100 * step};
    r->phase[1] = (sw_prof_phase){.peak_bytes = 90 * step, .end_bytes = 50, .ns = 2000000};
    r->phase[3] = (sw_prof_phase){.peak_bytes = 100 * step, .end_bytes = 40};
    return r;
}

static void a_timeline_is_curves(void)
{
    static sw_tl_op ops[] = {{"a", "", 1}, {"b", "", 3}};
    static const sw_tensor value = {
        0, SW_TL_NONE, "v", "", "", "activation", "forward", SW_SEGMENT_STEP, 64, 0, 0, 0, 0};
    sw_timeline *t = NULL;
    written file;
    void *kept;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_new(&t), SW_OK);
    t->created = "2024-02-29T12:00:00Z";
    for (int i = 0; i < 2; i++) {
        sw_tl_program *p;
        CU_ASSERT_EQUAL_FATAL(sw_timeline_add_program(t, &p), SW_OK);
        CU_ASSERT_EQUAL_FATAL(sw_timeline_alloc(t, &kept, 1, sizeof value), SW_OK);
        p->key = (uint64_t)i;
        p->run = i == 0 ? "train" : "eval";
        p->batch = i == 0 ? 4 : 2;
        p->ops = ops;
        p->n_ops = 2;
        p->values = memcpy(kept, &value, sizeof value);
        p->n_values = 1;
    }
    (void)add_run(t, 0, 1, 3.0); /* two micro-batches */
    (void)add_run(t, 0, 1, 5.0);
    (void)add_run(t, 1, 9, 2.5); /* stands at the step before it */
    (void)add_run(t, 0, 2, 1.0);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_finish(t), SW_OK);
    must_write("tensorboard", t, &file);
    got.n = 0;
    const tfevents_read r = tfevents_read_all(file.bytes, file.n, keep, &got);
    SW_CHECK(r.wrong == NULL && r.whole == file.n, "%s", r.wrong);
    CU_ASSERT_EQUAL(r.records, 1 + 2 + 3);
    CU_ASSERT(find("loss/train", 1) == 4.0 && find("loss/train", 2) == 1.0);
    CU_ASSERT(find("loss/validation", 1) == 2.5);
    CU_ASSERT(find("time/step_ms", 1) == 4.0 && find("time/step_ms", 2) == 2.0);
    CU_ASSERT(find("memory/forward_peak_bytes", 2) == 180.0);
    CU_ASSERT(find("memory/backward_peak_bytes", 2) == 200.0);
    CU_ASSERT(find("memory/peak_bytes", 2) == 200.0 && find("memory/live_bytes", 2) == 40.0);
    CU_ASSERT(find("memory/step_peak_bytes", 2) == -1.0);
    CU_ASSERT(find("memory/validation_peak_bytes", 1) == 900.0);
    CU_ASSERT(find("plan/live_bytes_by_op", 0) == 64.0 &&
              find("plan/live_bytes_by_op", 1) == 0.0);
    CU_ASSERT_EQUAL(got.at[0].wall_s, 1709208000.0); /* date -u -d 2024-02-29T12:00 +%s */
    CU_ASSERT_DOUBLE_EQUAL(got.at[got.n - 1].wall_s, 1709208000.008, 1e-6);
    drop(&file);
    sw_timeline_free(t);
}

static void drawn_timelines_are_whole(void)
{
    for (uint64_t seed = 1; seed < 8; seed++) {
        sw_timeline *t =
            sw_make_timeline(seed, &(sw_made_timeline){2, 6, 20, 30, false, seed % 2 == 0});
        written file;
        must_write("tensorboard", t, &file);
        const tfevents_read r = tfevents_read_all(file.bytes, file.n, NULL, NULL);
        SW_CHECK(r.wrong == NULL && r.whole == file.n && r.records > 1, "%s", r.wrong);
        drop(&file);
        sw_timeline_free(t);
    }
}

static const sw_test tests[] = {
    {"a record is what others write", a_record_is_what_others_write},
    {"any cut reads up to a record, any damage is seen", cuts_and_damage},
    {"a record has an end", a_record_has_an_end},
    {"a timeline is curves", a_timeline_is_curves},
    {"drawn timelines are whole", drawn_timelines_are_whole},
};
SW_SUITE("tensorboard", tests)
