/* A profile that is synced: which files, what fails, and what goes on meanwhile. */
#include "alloc/base/sys.h"
#include "profiler/record/prof.h"
#include "profiler/record/record.h"
#include "tests/profiler/read_back.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

SW_TESTS("profile sync")

static sw_profile *begin(const char *path)
{
    sw_profile *p = NULL;
    const sw_prof_header header = {
        .path = path, .model = "tiny", .device = "cpu", .command = "sync"};
    SW_CHECK(sw_prof_create(&p, &header) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}

static void step(sw_profile *p, uint32_t exec, uint64_t number)
{
    const sw_prof_step s =
        SW_INIT(.exec = exec, .trace = SW_PROF_NONE, .step = number, .run = "train",
                .mode = "planned", .measured_by = "arena", .peak_bytes = 1000);
    sw_prof_step_record(p, &s);
}

static size_t steps_in(const char *path)
{
    static const json_t *steps[8192];
    bool cut;
    json_t *all = read_back(path, &cut);
    const size_t n = records_of(all, "step", steps, 8192);
    CU_ASSERT_FALSE(cut);
    json_decref(all);
    return n;
}

/* Calls of the file table in one sync, of which call k fails. */
static uint64_t calls_of_sync(sw_profile *p, uint64_t k, sw_status *status)
{
    sw_fault_plan(SW_FAULT_FILE, k, SW_FAULT_ONCE);
    *status = sw_prof_sync(p);
    const uint64_t calls = sw_fault_calls(SW_FAULT_FILE);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
    return calls;
}

/* With nothing left to write: the sync of each file, then opening and syncing the folder. Only
 * the former can fail it, and no later record pays for that. */
static void check_calls(sw_profile *p, uint64_t files)
{
    sw_status status;
    CU_ASSERT_EQUAL(sw_prof_flush(p), SW_OK);
    CU_ASSERT_EQUAL(calls_of_sync(p, UINT64_MAX, &status), files + 2);
    CU_ASSERT_EQUAL(status, SW_OK);
    for (uint64_t k = 0; k < files + 2; k++) {
        (void)calls_of_sync(p, k, &status);
        CU_ASSERT_EQUAL(status, k < files ? SW_IO : SW_OK);
        CU_ASSERT_EQUAL(sw_prof_flush(p), SW_OK);
    }
    CU_ASSERT_EQUAL(sw_prof_sync(p), SW_OK);
}

SW_TEST("file and folder are synced")
{
    const char *path = sw_temp_path("synced.jsonl");
    sw_profile *p = begin(path);
    step(p, 0, 1);
    check_calls(p, 1);
    step(p, 0, 2);
    CU_ASSERT_EQUAL(sw_prof_sync(p), SW_OK);
    CU_ASSERT_EQUAL(steps_in(path), 2); /* what waited is in the file */
    step(p, 0, 3);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    CU_ASSERT_EQUAL(steps_in(path), 3);
}

/* Each sync reports a record that could not be written, as each flush does. */
SW_TEST("a record that was lost is reported")
{
    sw_status status;
    sw_profile *p = begin(sw_temp_path("lost.jsonl"));
    CU_ASSERT_EQUAL(sw_prof_sync(p), SW_OK);
    step(p, 0, 1);
    (void)calls_of_sync(p, 0, &status); /* the write */
    CU_ASSERT_EQUAL(status, SW_IO);
    CU_ASSERT_EQUAL(calls_of_sync(p, UINT64_MAX, &status), 0);
    CU_ASSERT_EQUAL(status, SW_IO);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_IO);
}

SW_TEST("a profile without a file has nothing to sync")
{
    sw_status status;
    sw_profile *p = begin(NULL);
    CU_ASSERT_EQUAL(calls_of_sync(p, UINT64_MAX, &status), 0);
    CU_ASSERT_EQUAL(status, SW_OK);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
}

SW_TEST("a sync calls no heap")
{
    sw_profile *p = begin(sw_temp_path("sync-heap.jsonl"));
    const uint64_t calls = sw_mem_calls();
    for (uint64_t i = 1; i <= 500; i++) {
        step(p, 0, i);
        if (i % 50 == 0)
            CU_ASSERT_EQUAL(sw_prof_sync(p), SW_OK);
    }
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
}

SW_TEST("quick steps with events share a write")
{
    enum { EVENTS = 20 };
    static const sw_record log[EVENTS];
    const sw_prof_log events = {.log = log, .n = EVENTS};
    sw_prof_step s = SW_INIT(.trace = SW_PROF_NONE, .run = "train", .mode = "planned",
                             .measured_by = "arena", .events = &events);
    sw_profile *p = begin(sw_temp_path("share.jsonl"));
    const uint64_t before = sw_fault_calls(SW_FAULT_FILE);
    for (s.step = 1; s.step <= 200; s.step++)
        sw_prof_step_record(p, &s);
    const uint64_t calls = sw_fault_calls(SW_FAULT_FILE) - before;
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    SW_CHECK(calls > 0 && calls < 50, "%llu file operations", (unsigned long long)calls);
}

/* ---- beside others ----------------------------------------------------------------------- */

enum { RECORDERS = 2, SYNCERS = 2, STEPS = 2000 };
typedef struct {
    sw_profile *profile;
    uint32_t exec;
    atomic_int *recording;
    uint64_t syncs, failed;
    sw_thread *thread;
} member;

static void record_steps(void *arg)
{
    const member *m = arg;
    for (uint64_t i = 1; i <= STEPS; i++)
        step(m->profile, m->exec, i);
    atomic_fetch_sub(m->recording, 1);
}

static void sync_on(void *arg)
{
    member *m = arg;
    do {
        m->failed += sw_prof_sync(m->profile) != SW_OK;
        m->syncs++;
    } while (atomic_load(m->recording) > 0);
}

SW_TEST("threads record and sync at once")
{
    const char *path = sw_temp_path("at-once.jsonl");
    member all[RECORDERS + SYNCERS];
    atomic_int recording = RECORDERS;
    uint64_t syncs = 0, failed = 0;
    sw_profile *p = begin(path);
    for (uint32_t i = 0; i < RECORDERS + SYNCERS; i++) {
        all[i] = (member){.profile = p, .exec = i, .recording = &recording};
        CU_ASSERT_EQUAL_FATAL(sw_thread_start(&all[i].thread,
                                              i < RECORDERS ? record_steps : sync_on, &all[i],
                                              "member"),
                              SW_OK);
    }
    for (int i = 0; i < RECORDERS + SYNCERS; i++) {
        sw_thread_join(all[i].thread);
        syncs += i < RECORDERS ? 0 : all[i].syncs;
        failed += i < RECORDERS ? 0 : all[i].failed;
    }
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    CU_ASSERT(syncs >= SYNCERS && failed == 0);
    CU_ASSERT_EQUAL(steps_in(path), (size_t)RECORDERS * STEPS);
}
