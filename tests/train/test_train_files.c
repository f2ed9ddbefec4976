/* Metrics, of lines and of TensorBoard's events, and profile of a run that goes on: what the
 * files have afterwards, what is refused, and that a refused file is as it was. */
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/read_tfevents.h"
#include "tests/support/suite.h"
#include "tools/train/train.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("train files")

static char path[1024];
static train t;

static void end_run(void *unused)
{
    train_metrics_close(&t);
}

/* A run that writes metrics to a file of that name; standard error goes nowhere. */
static void begin_run(const char *name)
{
    snprintf(path, sizeof path, "%s", sw_temp_path(name));
    memset(&t, 0, sizeof t);
    t.opts.metrics = path;
    sw_after(end_run, NULL);
}

static const char *text_of(const char *name)
{
    static char text[2][8192];
    static int next;
    char *to = text[next++ % 2];
    FILE *f = fopen(name, "rb");
    const size_t n = f != NULL ? fread(to, 1, sizeof text[0] - 1, f) : 0;
    to[n] = '\0';
    if (f != NULL)
        fclose(f);
    return to;
}

static bool there(const char *name)
{
    struct stat st;
    return lstat(name, &st) == 0;
}

static void rows(uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step <= to; step++) {
        const bool validation = step % 3 == 0;
        result_bytes bytes = {.peak_bytes = 1000 + step};
        bytes.phase[SW_FORWARD] = (sw_phase_info){.peak_bytes = 500, .end_bytes = 400};
        bytes.phase[SW_BACKWARD] = (sw_phase_info){.peak_bytes = 1000 + step, .end_bytes = 300};
        const train_row row =
            SW_INIT(.kind = validation ? TRAIN_LINE_VALIDATION : TRAIN_LINE_STEP, .step = step,
                    .epoch = step / 4, .score = {.loss = 1.0 / (double)step, .rows = 8},
                    .rate = 0.5, .ns = 1000 * step, .bytes = validation ? NULL : &bytes);
        train_metrics_row(&t, &row);
    }
}

#define EVENTS "events.out.tfevents."

/* The reported bytes; -1: there is no file. */
static int64_t position(void)
{
    return t.metrics.file != NULL ? (int64_t)t.metrics.bytes : -1;
}

static int64_t size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? (int64_t)st.st_size : -1;
}

/* ---- events ------------------------------------------------------------------------------ */

#define MOST 4096
static unsigned char file[1 << 18];
static size_t n_file;
static tfevents_scalar got[MOST];
static size_t n_got;

static void keep(void *unused, const tfevents_scalar *s)
{
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

/* Everything but the clock. */
static bool same_but_time(const tfevents_scalar *a, size_t n)
{
    bool same = n == n_got;
    for (size_t i = 0; i < n && same; i++)
        same = a[i].step == got[i].step && strcmp(a[i].tag, got[i].tag) == 0 &&
               memcmp(&a[i].value, &got[i].value, sizeof a[i].value) == 0;
    return same;
}

/* ---- metrics ----------------------------------------------------------------------------- */

SW_TEST("a row is an event")
{
    begin_run(EVENTS "rows");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    const int64_t head = position();
    CU_ASSERT_EQUAL(head, 40);
    rows(1, 60);
    const int64_t bytes = position();
    train_metrics_close(&t);
    CU_ASSERT(read_back() && (int64_t)n_file == bytes);
    CU_ASSERT(find("loss/train", 2) == 0.5 && find("loss/train", 51) == -1.0);
    CU_ASSERT(find("loss/validation", 48) == (double)(float)(1.0 / 48.0));
    CU_ASSERT(find("rate", 1) == 0.5 && find("time/step_ms", 4) == (double)0.004f);
    CU_ASSERT(find("time/validation_ms", 48) == (double)0.048f);
    CU_ASSERT(find("memory/forward_peak_bytes", 4) == 500.0);
    CU_ASSERT(find("memory/backward_peak_bytes", 4) == 1004.0);
    CU_ASSERT(find("memory/peak_bytes", 4) == 1004.0);
    CU_ASSERT(find("memory/live_bytes", 4) == 300.0);
    CU_ASSERT(find("memory/data_peak_bytes", 4) == -1.0);
    CU_ASSERT(find("memory/peak_bytes", 48) == -1.0);
    CU_ASSERT(got[0].wall_s > 1.6e9 && got[n_got - 1].wall_s >= got[0].wall_s);
}

SW_TEST("a position is after every row")
{
    static const char *const names[] = {"told.csv", "told.jsonl", EVENTS "told"};
    static const int heads[] = {38, 0, 40};
    for (int i = 0; i < 3; i++) {
        begin_run(names[i]);
        CU_ASSERT_EQUAL(position(), -1);
        CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
        CU_ASSERT_EQUAL(position(), heads[i]);
        for (uint64_t step = 1; step < 20; step++) {
            CU_ASSERT_EQUAL(position(), size_of(path));
            rows(step, step);
        }
        CU_ASSERT_EQUAL(position(), size_of(path));
        CU_ASSERT(position() > 19 * 20);
        train_metrics_close(&t);
        CU_ASSERT_EQUAL(position(), -1);
    }
    memset(&t, 0, sizeof t); /* without --metrics */
    CU_ASSERT_EQUAL(train_metrics_open(&t), SW_OK);
    CU_ASSERT_EQUAL(train_metrics_go_on(&t, 12), SW_OK);
    CU_ASSERT_EQUAL(job_metrics_sync(&t.metrics), SW_OK);
    CU_ASSERT_EQUAL(position(), -1);
}

/* Interrupted after each row, in it or after it, with rows after the checkpoint that are
 * written again. */
SW_TEST("a run that goes on leaves the file of one that did not end")
{
    static tfevents_scalar events[MOST];
    static const char *const names[][2] = {{"whole.csv", "parts.csv"},
                                           {"whole.jsonl", "parts.jsonl"},
                                           {EVENTS "whole", EVENTS "parts"}};
    for (int i = 0; i < 3; i++) {
        begin_run(names[i][0]);
        CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
        rows(1, 40);
        const int64_t end = position();
        train_metrics_close(&t);
        const char *whole = sw_textf("%s", text_of(path));
        CU_ASSERT_FATAL(i < 2 || read_back());
        const size_t n = n_got;
        memcpy(events, got, n * sizeof *got);
        for (uint64_t saved = 0; saved <= 40; saved++) {
            begin_run(names[i][1]);
            CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
            rows(1, saved);
            const int64_t bytes = position();
            rows(saved + 1, saved + 3); /* and was killed */
            CU_ASSERT_EQUAL(sw_file_write(t.metrics.file, "cut", saved % 4), SW_OK);
            train_metrics_close(&t);
            memset(&t.events, 0, sizeof t.events); /* another process */
            CU_ASSERT_EQUAL_FATAL(train_metrics_go_on(&t, (uint64_t)bytes), SW_OK);
            CU_ASSERT(position() == bytes && size_of(path) == bytes);
            rows(saved + 1, 40);
            CU_ASSERT(position() == end && size_of(path) == end);
            train_metrics_close(&t);
            SW_CHECK(i < 2 ? strcmp(text_of(path), whole) == 0
                           : read_back() && same_but_time(events, n),
                     "%s, step %llu: %.300s", path, (unsigned long long)saved, text_of(path));
            CU_ASSERT_EQUAL(t.trouble, CLI_DONE);
        }
    }
}

/* It says the option, the file, the numbers and the way out, and nothing is open. */
static void refused(uint64_t bytes, const char *says)
{
    const sw_status status = train_metrics_go_on(&t, bytes);
    SW_CHECK(status == SW_FORMAT, "status %d: %s", (int)status, sw_last_error());
    SW_CHECK(strstr(sw_last_error(), "--metrics ") != NULL &&
                 strstr(sw_last_error(), path) != NULL &&
                 strstr(sw_last_error(), says) != NULL &&
                 strstr(sw_last_error(), "train without --metrics, or name a file") != NULL,
             "%s", sw_last_error());
    CU_ASSERT_EQUAL(position(), -1);
}

SW_TEST("a file that is another is refused as it is")
{
    static const char text[] = "{\"step\":1}\n{\"step\":2}\n{\"st";
    const size_t n = sizeof text - 1;
    begin_run("other.jsonl");
    sw_file_put(path, text, n);
    for (uint64_t bytes = 1; bytes <= n; bytes++)
        if (text[bytes - 1] != '\n')
            refused(bytes, "no row ends at byte ");
    CU_ASSERT_STRING_EQUAL(text_of(path), text);
    CU_ASSERT_EQUAL(train_metrics_go_on(&t, 11), SW_OK);
    train_metrics_close(&t);
    CU_ASSERT_STRING_EQUAL(text_of(path), "{\"step\":1}\n");
    sw_file_put(path, "a note\n", 7);
    refused(11, "it is another file");
    CU_ASSERT_STRING_EQUAL(text_of(path), "a note\n");
}

/* Cut at every byte: rows go on after the last whole one, and it is said that some are missing.
 */
SW_TEST("a shorter file goes on after its last whole row")
{
    static const char *const names[] = {"short.csv", "short.jsonl"};
    for (int i = 0; i < 2; i++) {
        char whole[2048];
        begin_run(names[i]);
        CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
        rows(1, 9);
        train_metrics_close(&t);
        snprintf(whole, sizeof whole, "%s", text_of(path));
        const size_t n = strlen(whole);
        for (size_t cut = 0; cut < n; cut++) {
            size_t end = cut;
            while (end > 0 && whole[end - 1] != '\n')
                end--;
            sw_file_put(path, whole, cut);
            CU_ASSERT_EQUAL_FATAL(train_metrics_go_on(&t, n), SW_OK);
            SW_CHECK(
                strstr(cli_last_line(), sw_textf("rows are missing: it has %zu bytes, and the "
                                                 "checkpoint goes on at %zu; "
                                                 "rows go on after its last whole one, at %zu",
                                                 cut, n, end)) != NULL,
                "%zu: %s", cut, cli_last_line());
            rows(12, 12);
            CU_ASSERT_EQUAL(position(), size_of(path));
            train_metrics_close(&t);
            if (end == 0 && i == 0)
                end = 38; /* the head is written again */
            const char *now = text_of(path);
            SW_CHECK(strncmp(now, whole, end) == 0 && strstr(now + end, "validation") != NULL &&
                         strchr(now + end, '\n') == now + strlen(now) - 1,
                     "%s cut at %zu: %s", names[i], cut, now);
        }
    }
    CU_ASSERT_EQUAL(t.trouble, CLI_DONE);
}

/* A file of five rows: where each begins, and its length. */
static uint64_t five_rows(const char *name, uint64_t ends[6])
{
    begin_run(name);
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    for (uint64_t i = 1; i < 6; i++) {
        ends[i] = (uint64_t)position();
        rows(i, i);
    }
    const uint64_t all = (uint64_t)position();
    train_metrics_close(&t);
    return all;
}

SW_TEST("another file of events is refused as it is")
{
    uint64_t ends[6] = {0};
    (void)five_rows(EVENTS "other", ends);
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
    const uint64_t all = five_rows(EVENTS "short", ends);
    for (uint64_t cut = all - 1; cut >= ends[4]; cut--) {
        CU_ASSERT_EQUAL_FATAL(truncate(path, (long)cut), 0);
        CU_ASSERT_EQUAL_FATAL(train_metrics_go_on(&t, all), SW_OK);
        CU_ASSERT_EQUAL((uint64_t)position(), cut >= ends[5] ? ends[5] : ends[4]);
        CU_ASSERT_PTR_NOT_NULL(strstr(cli_last_line(), "rows are missing: it has "));
        train_metrics_close(&t);
    }
    CU_ASSERT_EQUAL_FATAL(truncate(path, 5), 0);
    refused(all, "it is another file");
}

SW_TEST("what is no regular file is refused")
{
    begin_run("pipe.csv");
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    refused(38, "is no regular file, and cannot go on at byte 38");
    begin_run("nowhere.csv");
    CU_ASSERT_EQUAL_FATAL(symlink("/nowhere/at/all", path), 0);
    refused(38, "is no regular file");
    begin_run("folder.csv");
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    refused(38, "is no regular file");
    begin_run("-");
    snprintf(path, sizeof path, "-");
    sw_file_put("-", "a\n", 2); /* a file of that name is not meant */
    refused(2, "is no regular file");
    (void)unlink("-");
}

/* A link leads to the file that goes on. */
SW_TEST("a link to a file is followed")
{
    begin_run("link.csv");
    const char *target = sw_temp_path("target.csv");
    sw_file_put(target, "a\nb\nc\n", 6);
    CU_ASSERT_EQUAL_FATAL(symlink(target, path), 0);
    CU_ASSERT_EQUAL(train_metrics_go_on(&t, 4), SW_OK);
    train_metrics_close(&t);
    CU_ASSERT_STRING_EQUAL(text_of(target), "a\nb\n");
}

SW_TEST("a file that is not there begins")
{
    begin_run("new.csv");
    CU_ASSERT_EQUAL_FATAL(train_metrics_go_on(&t, 500), SW_OK);
    CU_ASSERT_EQUAL(position(), 38);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(cli_last_line(), "is a new file: it has the rows from here on"));
    rows(9, 9);
    train_metrics_close(&t);
    CU_ASSERT_EQUAL(strncmp(text_of(path), "kind,step,", 10), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text_of(path), "\nvalidation,9,"));
}

SW_TEST("a file that another writes is refused")
{
    sw_file *other;
    begin_run("busy.csv");
    sw_file_put(path, "a\nb\n", 4);
    CU_ASSERT_EQUAL_FATAL(sw_file_take(&other, path, false), SW_OK);
    CU_ASSERT_EQUAL(train_metrics_go_on(&t, 2), SW_BUSY);
    CU_ASSERT_EQUAL(position(), -1);
    sw_file_drop(other);
    CU_ASSERT_STRING_EQUAL(text_of(path), "a\nb\n");
}

/* Each call fails alone and from there on: the file is as it was, or it is cut, and a second
 * try goes on. */
SW_TEST("every call of going on can fail")
{
    for (int i = 0; i < 8; i++) {
        sw_sites sites = {i % 2 == 0 ? SW_FAULT_FILE : SW_FAULT_MEMORY,
                          i / 2 % 2 == 0 ? SW_FAULT_ONCE : SW_FAULT_FROM, .any = true};
        const bool lines = i < 4;
        begin_run(lines ? "swept.csv" : EVENTS "swept");
        CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
        rows(1, 2);
        const int64_t bytes = lines ? 4 : position();
        train_metrics_close(&t);
        while (sw_sites_next(&sites)) {
            if (lines)
                sw_file_put(path, "a\nb\nc", 5);
            if (SW_AT_SITE(&sites, train_metrics_go_on(&t, (uint64_t)bytes)) != SW_OK) {
                CU_ASSERT_EQUAL(position(), -1);
                CU_ASSERT_EQUAL(sw_heap_blocks(), sites.blocks);
                CU_ASSERT(!lines || strcmp(text_of(path), "a\nb\nc") == 0 ||
                          strcmp(text_of(path), "a\nb\n") == 0);
                CU_ASSERT_EQUAL(train_metrics_go_on(&t, (uint64_t)bytes), SW_OK);
            }
            CU_ASSERT_EQUAL(position(), bytes);
            CU_ASSERT(!lines || strcmp(text_of(path), "a\nb\n") == 0);
            rows(4, 4);
            train_metrics_close(&t);
            CU_ASSERT(lines || read_back());
        }
        CU_ASSERT(sites.k > (sites.kind != SW_FAULT_FILE ? 2 : lines ? 7 : 9));
    }
}

/* A row that cannot be written is reported once; the file stays open for who syncs it, and the
 * position stays after the last whole row. */
SW_TEST("a lost row ends the metrics and not the run")
{
    static const char *const names[] = {"lost.csv", EVENTS "lost"};
    for (int i = 0; i < 2; i++) {
        begin_run(names[i]);
        CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
        rows(1, 2);
        const int64_t bytes = position();
        sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_ONCE);
        rows(3, 3);
        sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
        CU_ASSERT_EQUAL(t.trouble, CLI_FAILED);
        rows(4, 5); /* no row without those before it */
        CU_ASSERT(position() == bytes && size_of(path) == bytes);
        CU_ASSERT_EQUAL(job_metrics_sync(&t.metrics), SW_OK);
        train_metrics_close(&t);
        CU_ASSERT_EQUAL(t.trouble, CLI_FAILED);
        CU_ASSERT_EQUAL(t.now.rows_lost,
                        3); /* for checkpoints: rows of a run that goes on do not */
        CU_ASSERT_EQUAL(train_metrics_go_on(&t, (uint64_t)bytes), SW_OK); /* bring it back */
        CU_ASSERT_EQUAL(t.now.rows_lost, 3);
        CU_ASSERT_PTR_NOT_NULL(strstr(cli_last_line(), "rows are missing from step 3 on"));
        train_metrics_close(&t);
        CU_ASSERT_EQUAL(train_metrics_open(&t), SW_OK);
        CU_ASSERT_EQUAL(t.now.rows_lost, 0); /* another file */
        train_metrics_close(&t);
    }
}

/* The file each time, and its folder until that worked. */
SW_TEST("rows are synced")
{
    begin_run("synced.csv");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    rows(1, 3);
    static const struct {
        uint64_t fails, calls;
        sw_status status;
    } syncs[] = {{0, 1, SW_IO},          {1, 2, SW_OK},          {2, 3, SW_OK},
                 {UINT64_MAX, 3, SW_OK}, {UINT64_MAX, 1, SW_OK}, {0, 1, SW_IO},
                 {UINT64_MAX, 1, SW_OK}};
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        sw_fault_plan(SW_FAULT_FILE, syncs[i].fails, SW_FAULT_ONCE);
        const sw_status status = job_metrics_sync(&t.metrics);
        const uint64_t calls = sw_fault_calls(SW_FAULT_FILE);
        sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
        SW_CHECK(status == syncs[i].status && calls == syncs[i].calls,
                 "sync %zu: status %d, %llu calls", i, (int)status, (unsigned long long)calls);
    }
}

static void sync_often(void *failed)
{
    for (int i = 0; i < 200; i++)
        *(int *)failed += job_metrics_sync(&t.metrics) != SW_OK;
}

SW_TEST("a thread syncs while rows are written")
{
    sw_thread *thread;
    int failed = 0;
    begin_run("thread.csv");
    CU_ASSERT_EQUAL_FATAL(train_metrics_open(&t), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_thread_start(&thread, sync_often, &failed, "syncs"), SW_OK);
    rows(1, 3000);
    sw_thread_join(thread);
    CU_ASSERT_EQUAL(failed, 0);
    CU_ASSERT_EQUAL(position(), size_of(path));
    train_metrics_close(&t);
    CU_ASSERT_EQUAL(t.trouble, CLI_DONE);
}

/* A row is one call of the system, and no block of memory. */
SW_TEST("a row takes no memory")
{
    begin_run(EVENTS "quiet");
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

/* ---- the profile of the run before ------------------------------------------------------- */

SW_TEST("the profile before is kept")
{
    char kept[1100];
    snprintf(path, sizeof path, "%s", sw_temp_path("profile.jsonl"));
    const char *part = sw_textf("%s.1", path);
    memset(kept, 'x', sizeof kept);
    CU_ASSERT_EQUAL(job_keep_profile(path, 7, kept, sizeof kept), SW_OK);
    CU_ASSERT_STRING_EQUAL(kept, ""); /* there is none */
    sw_file_put(part, "part", 4);
    for (int i = 1; i < 5; i++) {
        const char text[2] = {(char)('0' + i), '\0'};
        sw_file_put(path, text, 1);
        CU_ASSERT_EQUAL(job_keep_profile(path, 7, kept, sizeof kept), SW_OK);
        CU_ASSERT_STRING_EQUAL(kept,
                               sw_textf(i == 1 ? "%s.before-7" : "%s.before-7.%d", path, i));
        CU_ASSERT_STRING_EQUAL(text_of(kept), text);
        CU_ASSERT_FALSE(there(path));
    }
    sw_file_put(path, "8", 1);
    CU_ASSERT_EQUAL(job_keep_profile(path, 8, kept, sizeof kept), SW_OK);
    CU_ASSERT_STRING_EQUAL(kept, sw_textf("%s.before-8", path));
    CU_ASSERT_STRING_EQUAL(text_of(sw_textf("%s.before-7", path)), "1");
    CU_ASSERT_STRING_EQUAL(text_of(part), "part");
    CU_ASSERT_EQUAL(job_keep_profile(NULL, 8, kept, sizeof kept), SW_OK);
    CU_ASSERT_STRING_EQUAL(kept, "");
}

SW_TEST("what is no profile stays")
{
    char kept[1100];
    sw_file *other;
    snprintf(path, sizeof path, "%s", sw_temp_path("pipe"));
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    CU_ASSERT_EQUAL(job_keep_profile(path, 1, kept, sizeof kept), SW_OK);
    CU_ASSERT(kept[0] == '\0' && there(path));
    snprintf(path, sizeof path, "%s", sw_temp_path("busy.jsonl"));
    sw_file_put(path, "busy", 4);
    CU_ASSERT_EQUAL_FATAL(sw_file_take(&other, path, false), SW_OK);
    CU_ASSERT_EQUAL(job_keep_profile(path, 1, kept, sizeof kept), SW_BUSY);
    CU_ASSERT(kept[0] == '\0' && there(path));
    sw_file_drop(other);
    CU_ASSERT_EQUAL(job_keep_profile(path, 1, kept, strlen(path) + 9), SW_INVALID);
    CU_ASSERT(kept[0] == '\0' && there(path));
    CU_ASSERT_EQUAL(job_keep_profile(path, 1, kept, strlen(path) + 10), SW_OK);
    CU_ASSERT(kept[0] != '\0' && !there(path));
}

/* A failed call leaves the profile under its name, and nothing else. */
SW_TEST("every call of keeping can fail")
{
    for (int i = 0; i < 4; i++) {
        sw_sites sites = {i % 2 == 0 ? SW_FAULT_FILE : SW_FAULT_MEMORY,
                          i / 2 == 0 ? SW_FAULT_ONCE : SW_FAULT_FROM, .any = true};
        char kept[1100];
        snprintf(path, sizeof path, "%s", sw_temp_path("swept.jsonl"));
        while (sw_sites_next(&sites)) {
            sw_file_put(path, "old", 3);
            const sw_status status =
                SW_AT_SITE(&sites, job_keep_profile(path, sites.k, kept, sizeof kept));
            CU_ASSERT_EQUAL(there(path), status != SW_OK);
            CU_ASSERT_EQUAL(kept[0] == '\0', status != SW_OK);
            CU_ASSERT_STRING_EQUAL(text_of(status == SW_OK ? kept : path), "old");
            CU_ASSERT_EQUAL(remove(status == SW_OK ? kept : path), 0);
        }
        CU_ASSERT(sites.k > (sites.kind == SW_FAULT_FILE ? 3 : 1));
    }
}
