/* --metrics DIR/events.out.tfevents.NAME: rows as TensorBoard's events, and runs that go on. */
#include "tests/support/heap_sweep.h"
#include "tests/support/read_tfevents.h"
#include "tests/support/suite.h"
#include "tools/train/train.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

SW_TESTS("train events")

static char path[1024];
static train t;

static void end_run(void *unused)
{
    (void)unused;
    train_metrics_close(&t);
}

static void begin_run(const char *name)
{
    snprintf(path, sizeof path, "%s", sw_temp_path(name));
    memset(&t, 0, sizeof t);
    t.opts.metrics = path;
    sw_after(end_run, NULL);
}

static void rows(uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step <= to; step++) {
        train_bytes bytes = {.peak_bytes = 1000 + step};
        bytes.phase[SW_FORWARD] = (sw_phase_info){.peak_bytes = 500, .end_bytes = 400};
        bytes.phase[SW_BACKWARD] = (sw_phase_info){.peak_bytes = 1000 + step, .end_bytes = 300};
        const train_row row =
            SW_INIT(.kind = step % 50 == 0 ? TRAIN_LINE_VALIDATION : TRAIN_LINE_STEP,
                    .step = step, .score = {.loss = 1.0 / (double)step, .rows = 8, .right = 4},
                    .rate = 0.5, .ns = 1000000 * step, .bytes = step % 50 == 0 ? NULL : &bytes);
        train_metrics_row(&t, &row);
    }
}

static uint64_t position(void)
{
    return t.metrics.file != NULL ? t.metrics.bytes : 0;
}

/* ---- the file ---------------------------------------------------------------------------- */

#define MOST 4096
static unsigned char file[1 << 18];
static size_t n_file;
static tfevents_scalar got[MOST];
static size_t n_got;

static void keep(void *unused, const tfevents_scalar *s)
{
    (void)unused;
    if (n_got < MOST)
        got[n_got++] = *s;
}

/* Reads the file; false where it is no sequence of whole records. */
static bool read_back(void)
{
    FILE *f = fopen(path, "rb");
    n_file = f != NULL ? fread(file, 1, sizeof file, f) : 0;
    if (f != NULL)
        fclose(f);
    n_got = 0;
    const tfevents_read r = tfevents_read_all(file, n_file, keep, NULL);
    return SW_CHECK(r.wrong == NULL && r.whole == n_file, "%s at %zu of %zu", r.wrong, r.whole,
                    n_file);
}

static double find(const char *tag, uint64_t step)
{
    for (size_t i = 0; i < n_got; i++)
        if (strcmp(got[i].tag, tag) == 0 && got[i].step == step)
            return (double)got[i].value;
    return -1.0;
}

SW_TEST("a row is an event")
{
    begin_run("events.out.tfevents.rows");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    const uint64_t head = position();
    CU_ASSERT_EQUAL(head, 40);
    rows(1, 60);
    const uint64_t bytes = position();
    train_metrics_close(&t);
    CU_ASSERT(read_back() && n_file == bytes);
    CU_ASSERT(find("loss/train", 2) == 0.5 && find("loss/train", 50) == -1.0);
    CU_ASSERT(find("loss/validation", 50) == (double)0.02f);
    CU_ASSERT(find("rate", 1) == 0.5 && find("time/step_ms", 3) == 3.0);
    CU_ASSERT(find("time/validation_ms", 50) == 50.0);
    CU_ASSERT(find("memory/forward_peak_bytes", 4) == 500.0);
    CU_ASSERT(find("memory/backward_peak_bytes", 4) == 1004.0);
    CU_ASSERT(find("memory/peak_bytes", 4) == 1004.0);
    CU_ASSERT(find("memory/live_bytes", 4) == 300.0);
    CU_ASSERT(find("memory/data_peak_bytes", 4) == -1.0);
    CU_ASSERT(find("memory/peak_bytes", 50) == -1.0);
    CU_ASSERT(got[0].wall_s > 1.6e9 && got[n_got - 1].wall_s >= got[0].wall_s);
}

/* Everything but the clock. */
static bool same_but_time(const tfevents_scalar *a, size_t n)
{
    bool same = n == n_got;
    for (size_t i = 0; i < n && same; i++)
        same = a[i].step == got[i].step && strcmp(a[i].tag, got[i].tag) == 0 &&
               memcmp(&a[i].value, &got[i].value, sizeof a[i].value) == 0;
    return same;
}

/* Interrupted after each of some rows, in a record or between two: the file of a run that goes
 * on has the records of one that did not end, each at its place. */
SW_TEST("a run that goes on has every event once")
{
    static tfevents_scalar whole[MOST];
    begin_run("events.out.tfevents.whole");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    rows(1, 140);
    const uint64_t end = position();
    train_metrics_close(&t);
    CU_ASSERT_FATAL(read_back());
    const size_t n = n_got;
    memcpy(whole, got, n * sizeof *got);
    for (uint64_t saved = 0; saved <= 140; saved += 7) {
        begin_run("events.out.tfevents.parts");
        CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
        rows(1, saved);
        const uint64_t bytes = position();
        rows(saved + 1, saved + 3); /* and was killed */
        CU_ASSERT_EQUAL(sw_file_write(t.metrics.file, "cut", saved % 4), SW_OK);
        train_metrics_close(&t);
        memset(&t.events, 0, sizeof t.events); /* another process */
        CU_ASSERT_EQUAL_FATAL(train_metrics_go_on(&t, bytes), SW_OK);
        CU_ASSERT_EQUAL(position(), bytes);
        rows(saved + 1, 140);
        CU_ASSERT_EQUAL(position(), end);
        train_metrics_close(&t);
        SW_CHECK(read_back() && same_but_time(whole, n), "step %llu",
                 (unsigned long long)saved);
    }
}

static void refused(uint64_t bytes, const char *says)
{
    const sw_status status = train_metrics_go_on(&t, bytes);
    SW_CHECK(status == SW_FORMAT && strstr(sw_last_error(), says) != NULL,
             "%llu: status %d: %s", (unsigned long long)bytes, (int)status, sw_last_error());
    CU_ASSERT_EQUAL(position(), 0);
}

SW_TEST("another file is refused as it is")
{
    uint64_t ends[6] = {0};
    begin_run("events.out.tfevents.other");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    for (uint64_t i = 1; i < 6; i++) {
        ends[i] = position();
        rows(i, i);
    }
    train_metrics_close(&t);
    CU_ASSERT_FATAL(read_back());
    const size_t n = n_file;
    uint64_t next = 1;
    for (uint64_t bytes = 1; bytes < n; bytes++)
        if (next < 6 && bytes == ends[next])
            next++;
        else
            refused(bytes, "no row ends at byte ");
    CU_ASSERT_EQUAL(next, 6);
    CU_ASSERT(read_back() && n_file == n);
    FILE *f = fopen(path, "r+b"); /* the length of the third record */
    CU_ASSERT_FATAL(f != NULL && fseek(f, (long)ends[2], SEEK_SET) == 0 && fputc(1, f) == 1);
    fclose(f);
    refused(ends[4], "no row ends at byte ");
    CU_ASSERT_EQUAL(train_metrics_go_on(&t, ends[2]), SW_OK);
    train_metrics_close(&t);
    CU_ASSERT(read_back() && n_file == ends[2]);
}

/* Cut at every byte of its last records: events go on after the last whole one. */
SW_TEST("a shorter file goes on after its last record")
{
    uint64_t ends[6] = {0};
    begin_run("events.out.tfevents.short");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    for (uint64_t i = 1; i < 6; i++) {
        ends[i] = position();
        rows(i, i);
    }
    const uint64_t all = position();
    train_metrics_close(&t);
    for (uint64_t cut = all - 1; cut >= ends[4]; cut--) {
        CU_ASSERT_EQUAL_FATAL(truncate(path, (long)cut), 0);
        CU_ASSERT_EQUAL_FATAL(train_metrics_go_on(&t, all), SW_OK);
        CU_ASSERT_EQUAL(position(), cut >= ends[5] ? ends[5] : ends[4]);
        CU_ASSERT_PTR_NOT_NULL(strstr(cli_last_line(), "rows are missing: it has "));
        train_metrics_close(&t);
    }
    CU_ASSERT_EQUAL_FATAL(truncate(path, 5), 0);
    refused(all, "it is another file");
}

SW_TEST("every call can fail")
{
    for (int i = 0; i < 4; i++) {
        sw_sites sites = {i % 2 == 0 ? SW_FAULT_FILE : SW_FAULT_MEMORY,
                          i / 2 == 0 ? SW_FAULT_ONCE : SW_FAULT_FROM, .any = true};
        begin_run("events.out.tfevents.swept");
        CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
        rows(1, 2);
        const uint64_t bytes = position();
        train_metrics_close(&t);
        while (sw_sites_next(&sites)) {
            if (SW_AT_SITE(&sites, train_metrics_go_on(&t, bytes)) != SW_OK) {
                CU_ASSERT_EQUAL(sw_heap_blocks(), sites.blocks);
                CU_ASSERT_EQUAL(train_metrics_go_on(&t, bytes), SW_OK);
            }
            CU_ASSERT_EQUAL(position(), bytes);
            rows(3, 3);
            train_metrics_close(&t);
            CU_ASSERT(read_back());
        }
        CU_ASSERT(sites.k > (sites.kind == SW_FAULT_FILE ? 9 : 2));
    }
}

/* The disk is full: whole records stay, and the run fails at its end. */
SW_TEST("a lost event is reported")
{
    begin_run("events.out.tfevents.lost");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    rows(1, 2);
    const uint64_t bytes = position();
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_ONCE);
    rows(3, 3);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
    rows(4, 5);
    CU_ASSERT(t.trouble == CLI_FAILED && t.now.rows_lost == 3 && position() == bytes);
    train_metrics_close(&t);
    CU_ASSERT(read_back() && n_file == bytes);
}

/* A row is one call of the system, and no block of memory. */
SW_TEST("a row takes no memory")
{
    begin_run("events.out.tfevents.quiet");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    rows(1, 1);
    sw_fault_plan(SW_FAULT_MEMORY, UINT64_MAX, SW_FAULT_ONCE);
    sw_fault_plan(SW_FAULT_FILE, UINT64_MAX, SW_FAULT_ONCE);
    rows(2, 11);
    CU_ASSERT_EQUAL(sw_fault_calls(SW_FAULT_MEMORY), 0);
    CU_ASSERT_EQUAL(sw_fault_calls(SW_FAULT_FILE), 10);
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
}

SW_TEST("names decide")
{
    CU_ASSERT(job_metrics_events("events.out.tfevents") &&
              job_metrics_events("a/b/events.out.tfevents.x.csv"));
    CU_ASSERT(!job_metrics_events("events.out.tfevents/m.csv") && !job_metrics_events("") &&
              !job_metrics_events("my.events.out.tfevents") && !job_metrics_events("-"));
}
