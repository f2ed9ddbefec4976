/* The expected content of a timeline's file, by a walk and plain sums; and files in memory. */
#ifndef SW_TESTS_SINKS_EXPECT_H
#define SW_TESTS_SINKS_EXPECT_H

#include "profiler/inspect/sink.h"
#include "tests/support/suite.h"

/* A file that a sink wrote; a zero stands after its bytes. */
typedef struct {
    char *bytes;
    size_t n, room;
    size_t writes, fail_at; /* of the calls of write; the one that fails, from 1; 0: none */
    bool after;             /* one came after the one that failed */
} written;

/* Writes by the sink of that name, `other` (NULL: none) to be compared; the status of writing
 * or of the last flush. */
sw_status write_by(const char *format, const sw_timeline *t, const sw_timeline *other,
                   written *out);
/* The same, which must succeed. */
void must_write(const char *format, const sw_timeline *t, written *out);
void drop(written *out);

typedef struct {
    bool begin;
    sw_tl_kind kind; /* of the begin */
    char *name;
    uint64_t ns;
} slice;

typedef struct {
    const sw_timeline *t;
    slice *slices;
    size_t n_slices, room;
    uint64_t max_live, allocations;
} expected;

void expect(expected *x, const sw_timeline *t);
void expect_free(expected *x);

/* A reader of slices and counters goes through a file by these, in the file's order, and then
 * asks whether all was there. */
typedef struct {
    const expected *x;
    size_t next; /* slice */
    uint64_t ns;
    struct {
        char name[400];
        uint64_t bytes;
    } role[64];
    uint32_t n_roles;
    uint64_t live, max_live, changes;
    bool torn; /* roles or their sum were written, the other not yet */
    char wrong[600];
} trace;

void trace_slice(trace *r, bool begin, const char *category, const char *name, uint64_t ns);
void trace_role(trace *r, const char *name, uint64_t bytes, uint64_t ns);
void trace_live(trace *r, uint64_t bytes, uint64_t ns);
/* At a moment where the counters belong together. */
void trace_sums(trace *r);
/* "" or what is wrong. */
const char *trace_end(trace *r);

/* Each format's own check; "" or what is wrong. They are independent of what wrote the file. */
const char *check_perfetto(const written *file, const expected *x);
const char *check_folded(const written *file, const sw_timeline *t);
/* All of them on one timeline; a failed assert names `what`. */
void check_all(const sw_timeline *t, const char *what);

#endif
