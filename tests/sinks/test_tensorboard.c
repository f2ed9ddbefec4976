/* TensorBoard's event files: records and numbers. */
#include "profiler/inspect/tfevents.h"
#include "tests/support/suite.h"
#include "tests/support/read_tfevents.h"

SW_TESTS("tensorboard")

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
SW_TEST("a record is what others write")
{
    /* clang-format off */
    static const unsigned char must[] = SW_INIT( 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00, 0x00, 0xc0, 0x48, 0x6a, 0xe9, 0xd9, 0x41, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e, 0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32, 0x85, 0x67, 0x8c, 0xe2, 0xa7, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xb8, 0x89, 0x69, 0x2b, 0x09, 0x00, 0x00, 0xe0, 0x48, 0x6a, 0xe9, 0xd9, 0x41, 0x10, 0xac, 0x02, 0x2a, 0x98, 0x01, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x0a, 0x11, 0x0a, 0x0a, 0x6c, 0x6f, 0x73, 0x73, 0x2f, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x15, 0x00, 0x00, 0x80, 0x3e, 0x44, 0xf5, 0xcf, 0x90);
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
SW_TEST("any cut reads up to a record, any damage is seen")
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
SW_TEST("a record has an end")
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
