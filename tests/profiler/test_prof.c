/* The profile file: what is written, when, and what happens where it cannot be. */
#include "alloc/base/sys.h"
#include "profiler/record/prof.h"
#include "profiler/record/record.h"
#include "tests/profiler/read_back.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SW_TESTS("profile")

static sw_profile *begin(const char *path)
{
    const sw_prof_header header =
        SW_INIT(.path = path, .model = "tiny", .device = "cpu", .data = "synthetic",
                .command = "test \"quoted\"", .version = "1.2.3", .batch = 16, .seed = 42);
    sw_profile *p = NULL;
    SW_CHECK(sw_prof_create(&p, &header) == SW_OK, "%s", sw_last_error());
    return p;
}

static void step(sw_profile *p, uint32_t exec, uint64_t number)
{
    const double loss = 1.0 / (double)number;
    sw_prof_step s =
        SW_INIT(.exec = exec, .program = 3, .step = number, .run = "train", .mode = "planned",
                .measured_by = "arena", .loss = &loss, .peak_bytes = 1000 + number,
                .arena_bytes = 512, .model_bytes = 256, .ns = 77, .warm = number > 1);
    for (int i = 0; i < SW_PROF_PHASES; i++)
        s.phase[i] = (sw_prof_phase){1000 + (size_t)i, 900 + (size_t)i, 10 + (uint64_t)i};
    sw_prof_step_record(p, &s);
}

static void plan(sw_profile *p, uint32_t exec, int n_values)
{
    const sw_prof_plan x =
        SW_INIT(.exec = exec, .program = 3, .run = "train", .batch = 16, .model_bytes = 1,
                .arena_bytes = 2, .data_bytes = 3, .slot_bytes = 4, .total_bytes = 6,
                .lower_bound_bytes = 2, .padding_bytes = 5, .immediate_bytes = 7,
                .peak_bytes = 4321, .n_ops = 2, .peak_position = 1, .peak_op = "b",
                .phase = {{11, 12, 0}, {21, 22, 0}, {31, 32, 0}, {41, 42, 0}, {51, 52, 0}});
    sw_prof_plan_begin(p, &x);
    sw_prof_plan_name(p, "a");
    sw_prof_plan_name(p, "b");
    sw_prof_plan_layers(p);
    sw_prof_plan_name(p, "l");
    sw_prof_plan_name(p, "");
    sw_prof_plan_values(p, (const uint32_t[]){1, 0}, "14", 2);
    for (int i = 0; i < n_values; i++) {
        const sw_tensor v =
            SW_INIT(.id = (uint32_t)i, .alias = i == 1 ? 0 : SW_PROF_NONE,
                    .name = sw_textf("value%d", i), .layer = "l", .op = i == 0 ? NULL : "a",
                    .role = "saved", .phase = "forward", .segment = SW_SEGMENT_STEP,
                    .bytes = 60, .padding = 4, .offset = 64 * (size_t)i, .birth = 0,
                    .death = 1);
        sw_prof_plan_value(p, &v);
    }
    sw_prof_plan_end(p);
}

static size_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void sleep_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* ---- what is written --------------------------------------------------------------------- */

/* A bare root has no /proc. */
static bool system_tells_of_processes(void)
{
    return access("/proc/self/statm", R_OK) == 0;
}

static const json_t *member(const json_t *record, const char *key)
{
    return json_object_get(record, key);
}

SW_TEST("records read back as they were")
{
    const char *path = sw_temp_path("whole.jsonl");
    sw_profile *p = begin(path);
    plan(p, 0, 3);
    step(p, 0, 1);
    const char *const names[] = {"access", "need"};
    const int verdicts[] = {1, -1};
    const sw_prof_witness witness =
        SW_INIT(.exec = 0, .program = 3, .step = 1, .phase = {{5, 6, 0}}, .peak_bytes = 9000,
                .measured_by = "access", .names = names, .witness_results = verdicts, .n = 2,
                .faults = 1, .first_fault = "why");
    sw_prof_witness_record(p, &witness);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    const json_t *all = read_back(path);
    CU_ASSERT_EQUAL_FATAL(json_array_size(all), 6);
    const json_t *r = json_array_get(all, 0);
    CU_ASSERT(text_is(r, "type", "header") && text_is(r, "format", "stepwell-profile"));
    CU_ASSERT_EQUAL(number_of(r, "version"), 1);
    CU_ASSERT(text_is(r, "command", "test \"quoted\"") && number_of(r, "batch") == 16 &&
              number_of(r, "seed") == 42);
    CU_ASSERT_EQUAL(strlen(json_string_value(member(r, "created"))), 20);
    r = json_array_get(all, 1);
    CU_ASSERT(text_is(r, "type", "plan") && number_of(r, "program") == 3 &&
              number_of(r, "total_bytes") == 6);
    CU_ASSERT_EQUAL(json_array_size(member(r, "ops")), 2);
    CU_ASSERT_EQUAL(json_array_size(member(r, "values")), 3);
    for (int i = 0; i < SW_PROF_PHASES; i++)
        CU_ASSERT(phase_number(r, i, "peak_bytes") == 11 + 10 * i &&
                  phase_number(r, i, "end_bytes") == 12 + 10 * i);
    const json_t *v = json_array_get(member(r, "values"), 1);
    CU_ASSERT(number_of(v, "alias") == 0 && number_of(v, "offset") == 64 &&
              text_is(v, "name", "value1"));
    CU_ASSERT(json_is_null(member(json_array_get(member(r, "values"), 0), "op")));
    r = json_array_get(all, 2);
    CU_ASSERT(text_is(r, "type", "step") && number_of(r, "step") == 1 &&
              number_of(r, "allocations") == 0);
    CU_ASSERT_EQUAL(phase_number(r, 4, "ns"), 14);
    CU_ASSERT(system_tells_of_processes() ? number_of(r, "process_bytes") > 100000
                                          : json_is_null(member(r, "process_bytes")));
    CU_ASSERT(json_number_value(member(r, "loss")) == 1.0);
    r = json_array_get(all, 3);
    CU_ASSERT(text_is(r, "measured_by", "access") && number_of(r, "faults") == 1);
    CU_ASSERT(json_is_true(member(member(r, "witnesses"), "access")));
    CU_ASSERT(json_is_null(member(member(r, "witnesses"), "need")));
    r = json_array_get(all, 4);
    CU_ASSERT(text_is(r, "type", "heap") && text_is(r, "backend", sw_heap_backend()));
    r = json_array_get(all, 5);
    CU_ASSERT(text_is(r, "type", "end") && number_of(r, "steps") == 1);
    CU_ASSERT_EQUAL(number_of(r, "predicted_peak_bytes"), 4321);
    CU_ASSERT_EQUAL(number_of(r, "measured_peak_bytes"), 9000);
}

/* Larger than the buffer: it goes out in pieces and is one line all the same. */
SW_TEST("a plan of any size is one line")
{
    const char *path = sw_temp_path("large.jsonl");
    sw_profile *p = begin(path);
    plan(p, 0, 20000);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    const json_t *all = read_back(path);
    CU_ASSERT_EQUAL(json_array_size(all), 4);
    CU_ASSERT_EQUAL(json_array_size(member(json_array_get(all, 1), "values")), 20000);
}

/* The process ends without a word, as by a kill: what was written is whole lines, without an
 * end. */
SW_TEST("a killed run leaves a readable file")
{
    const char *path = sw_temp_path("killed.jsonl");
    const pid_t child = fork();
    if (child == 0) {
        sw_profile *p = begin(path);
        plan(p, 0, 3);
        for (uint64_t i = 1; i <= 5000; i++)
            step(p, 0, i);
        _exit(0);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    const json_t *all = read_back(path);
    CU_ASSERT(json_array_size(all) > 4000); /* all but what one buffer holds */
    (void)records(all, "header", 1);
    (void)records(all, "plan", 1);
    (void)records(all, "end", 0);
}

SW_TEST("the system is asked ten times a second at most")
{
    if (!system_tells_of_processes())
        SW_SKIP("/proc is not mounted");
    const char *path = sw_temp_path("asked.jsonl");
    sw_profile *p = begin(path);
    const uint64_t start = sw_clock_ns();
    uint64_t n = 0;
    while (sw_clock_ns() - start < 250000000u) {
        step(p, 0, ++n);
        nanosleep(&(struct timespec){0, 50000}, NULL); /* some thousand records are enough */
    }
    const uint64_t most = (sw_clock_ns() - start) / SW_PROF_PROCESS_NS + 1;
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    const json_t *all = read_back(path);
    uint64_t asked = 0;
    for (size_t i = 0; i < json_array_size(all); i++)
        asked += json_is_integer(member(json_array_get(all, i), "process_bytes"));
    SW_CHECK(asked >= 2 && asked <= most, "%llu times in %llu steps", (unsigned long long)asked,
             (unsigned long long)n);
}

SW_TEST("two execs are distinguished")
{
    const char *path = sw_temp_path("owners.jsonl");
    sw_profile *p = begin(path);
    const uint32_t a = sw_prof_join(p), b = sw_prof_join(p);
    plan(p, a, 1);
    plan(p, b, 1);
    step(p, b, 1);
    step(p, a, 1);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    const json_t *all = read_back(path);
    CU_ASSERT_PTR_NULL(member(json_array_get(all, 1), "exec"));
    CU_ASSERT_EQUAL(number_of(json_array_get(all, 2), "exec"), 1);
    CU_ASSERT_EQUAL(number_of(json_array_get(all, 3), "exec"), 1);
    CU_ASSERT_PTR_NULL(member(json_array_get(all, 4), "exec"));
}

typedef struct {
    sw_profile *profile;
    uint32_t exec;
    int rounds;
} recorder;

static void record_from_a_thread(void *arg)
{
    const recorder *r = arg;
    for (int i = 1; i <= r->rounds; i++) {
        step(r->profile, r->exec, (uint64_t)i);
        if (i % 100 == 0)
            plan(r->profile, r->exec, 50);
    }
}

SW_TEST("threads do not mix their records")
{
    const char *path = sw_temp_path("threads.jsonl");
    recorder r[4];
    sw_thread *thread[4];
    sw_profile *p = begin(path);
    for (int i = 0; i < 4; i++) {
        r[i] = (recorder){p, sw_prof_join(p), 500};
        CU_ASSERT_EQUAL_FATAL(
            sw_thread_start(&thread[i], record_from_a_thread, &r[i], "recorder"), SW_OK);
    }
    for (int i = 0; i < 4; i++)
        sw_thread_join(thread[i]);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    const json_t *all = read_back(path);
    CU_ASSERT_EQUAL(json_array_size(all), 1 + 4 * 505 + 2);
    CU_ASSERT_EQUAL(number_of(json_array_get(all, json_array_size(all) - 1), "steps"), 2000);
}

/* ---- when it is written ------------------------------------------------------------------ */

/* At each record, all those that are 100 ms old stand in the file. */
SW_TEST("no record waits longer than 100 ms")
{
    const char *path = sw_temp_path("pace.jsonl");
    uint64_t at[64];
    sw_profile *p = begin(path);
    for (size_t i = 0; i < 40; i++) {
        sleep_ms(10);
        at[i] = sw_clock_ns();
        step(p, 0, i + 1);
        const size_t there = count_lines(path);
        const uint64_t now = at[i];
        for (size_t k = 0; k <= i; k++)
            SW_CHECK(now - at[k] < SW_PROF_FLUSH_NS || there > k + 1,
                     "record %zu is late at %zu", k, i);
    }
    sleep_ms(150); /* slow steps: the next one would come too late for this one */
    step(p, 0, 41);
    CU_ASSERT_EQUAL(count_lines(path), 42);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
}

/* The lines of `path`, read until there are enough, at most a second later: a busy machine
 * wakes threads late. */
static size_t lines_soon(const char *path, size_t wanted)
{
    for (int i = 0; i < 100 && count_lines(path) < wanted; i++)
        sleep_ms(10);
    return count_lines(path);
}

/* A burst, then nothing: after a short pause, after a long one in which the profile's thread
 * went to sleep, and again. */
SW_TEST("nor where no step follows")
{
    const char *path = sw_temp_path("idle.jsonl");
    sw_profile *p = begin(path);
    size_t lines = 1;
    static const long pauses[] = {0, 300, 20, 300};
    for (size_t k = 0; k < 4; k++) {
        sleep_ms(pauses[k]);
        for (uint64_t i = 1; i <= 20; i++)
            step(p, 0, i);
        lines += 20;
        CU_ASSERT_EQUAL(lines_soon(path, lines), lines);
    }
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
}

/* A system without another thread says so, and the file that was there stays. */
SW_TEST("without its thread there is no profile")
{
    const char *path = sw_temp_path("kept.jsonl");
    sw_profile *p = begin(path);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    const size_t bytes = file_bytes(path);
    const sw_prof_header header = {.path = path};
    p = NULL;
    sw_fault_plan(SW_FAULT_THREAD, 0, SW_FAULT_ONCE);
    CU_ASSERT_EQUAL(sw_prof_create(&p, &header), SW_IO);
    SW_CHECK(strstr(sw_last_error(), "thread sw-profile") != NULL, "%s", sw_last_error());
    CU_ASSERT_PTR_NULL(p);
    CU_ASSERT_EQUAL(file_bytes(path), bytes);
}

SW_TEST("quick steps share a write")
{
    const char *path = sw_temp_path("shared.jsonl");
    sw_profile *p = begin(path);
    const uint64_t before = sw_fault_calls(SW_FAULT_FILE);
    for (uint64_t i = 1; i <= 1000; i++)
        step(p, 0, i);
    const uint64_t calls = sw_fault_calls(SW_FAULT_FILE) - before;
    SW_CHECK(calls < 60, "%llu calls", (unsigned long long)calls);
    CU_ASSERT_EQUAL(sw_prof_flush(p), SW_OK);
    CU_ASSERT_EQUAL(count_lines(path), 1001);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
}

SW_TEST("a plan is written at once")
{
    const char *path = sw_temp_path("plan.jsonl");
    sw_profile *p = begin(path);
    CU_ASSERT_EQUAL(count_lines(path), 1);
    plan(p, 0, 2);
    CU_ASSERT_EQUAL(count_lines(path), 2);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
}

SW_TEST("a step record calls no heap")
{
    static uint64_t op_ns[3000]; /* more than the buffer holds */
    const char *path = sw_temp_path("calls.jsonl");
    sw_profile *p = begin(path);
    const uint64_t calls = sw_mem_calls();
    for (uint64_t i = 1; i <= 5000; i++)
        step(p, 0, i);
    const sw_prof_step large =
        SW_INIT(.exec = 0, .program = 3, .step = 1, .run = "train", .mode = "planned",
                .measured_by = "arena", .op_ns = op_ns, .n_ops = 3000);
    for (uint64_t i = 0; i < 3000; i++)
        op_ns[i] = UINT64_MAX - i;
    for (int i = 0; i < 10; i++)
        sw_prof_step_record(p, &large);
    CU_ASSERT_EQUAL(sw_mem_calls() - calls, 0);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    CU_ASSERT(file_bytes(path) > 5000 * 300 + 10 * 60000);
}

/* ---- without a file, and with one that fails --------------------------------------------- */

SW_TEST("without a path nothing is opened or started")
{
    const uint64_t threads = sw_fault_calls(SW_FAULT_THREAD);
    const uint64_t files_before = sw_fault_calls(SW_FAULT_FILE);
    sw_profile *p = begin(NULL);
    plan(p, 0, 3);
    step(p, 0, 1);
    step(p, 0, 2);
    const sw_prof_step eval =
        SW_INIT(.exec = 0, .program = 3, .step = 2, .run = "eval", .mode = "planned",
                .measured_by = "arena", .peak_bytes = 5000);
    sw_prof_step_record(p, &eval);
    CU_ASSERT_EQUAL(sw_prof_flush(p), SW_OK);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    CU_ASSERT_EQUAL(sw_fault_calls(SW_FAULT_FILE), files_before);
    CU_ASSERT_EQUAL(sw_fault_calls(SW_FAULT_THREAD), threads);
    CU_ASSERT_EQUAL(sw_prof_destroy(NULL), SW_OK);
}

SW_TEST("a failed write stays")
{
    const char *path = sw_temp_path("fails.jsonl");
    sw_profile *p = begin(path);
    step(p, 0, 1);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_ONCE);
    CU_ASSERT_EQUAL(sw_prof_flush(p), SW_IO);
    const size_t bytes = file_bytes(path);
    step(p, 0, 2);
    plan(p, 0, 2);
    CU_ASSERT_EQUAL(sw_error_set(SW_BUSY, __FILE__, __LINE__, "something else"), SW_BUSY);
    CU_ASSERT_EQUAL(sw_prof_flush(p), SW_IO);
    SW_CHECK(strstr(sw_last_error(), "fails.jsonl") != NULL, "%s", sw_last_error());
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_IO);
    CU_ASSERT_EQUAL(file_bytes(path), bytes); /* nothing is written after a hole */
}

static sw_status whole_life(void *arg)
{
    const sw_prof_header header = {.path = arg, .model = "tiny", .device = "cpu"};
    sw_profile *p;
    SW_TRY(sw_prof_create(&p, &header));
    plan(p, 0, 1000);
    for (uint64_t i = 1; i <= 200; i++)
        step(p, 0, i);
    const sw_status flushed = sw_prof_flush(p);
    const sw_status closed = sw_prof_destroy(p);
    CU_ASSERT(flushed == SW_OK || flushed == closed);
    return closed;
}

SW_TEST("every refusal is reported and leaks nothing")
{
    char *path = sw_temp_path("sweep.jsonl");
    const uint64_t files = sw_sweep(SW_FAULT_FILE, SW_IO, whole_life, path);
    const uint64_t blocks = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, whole_life, path);
    sw_note("%llu file operations and %llu allocations failed in turn",
            (unsigned long long)files, (unsigned long long)blocks);
    CU_ASSERT(files >= 8 && blocks >= 2);
}

SW_TEST("places that take no file")
{
    sw_profile *p = NULL;
    const sw_prof_header nowhere = {.path = sw_temp_path("missing/x.jsonl")};
    CU_ASSERT_EQUAL(sw_prof_create(&p, &nowhere), SW_IO);
    const sw_prof_header full = {.path = "/dev/full"};
    if (access(full.path, W_OK) == 0)
        CU_ASSERT_EQUAL(sw_prof_create(&p, &full), SW_IO);
    CU_ASSERT_PTR_NULL(p);
}

/* ---- syncs: which files, what fails, and what goes on meanwhile ---------------------------
 */

static size_t steps_in(const char *path)
{
    static const json_t *steps[8192];
    return records_of(read_back(path), "step", steps, 8192);
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

/* ---- syncs beside others
 * ----------------------------------------------------------------------- */

enum { RECORDERS = 2, SYNCERS = 2, STEPS = 2000 };
typedef struct {
    sw_profile *profile;
    uint32_t exec;
    atomic_int *recording;
    uint64_t syncs, failed;
    sw_thread *thread;
} syncer;

static void record_steps(void *arg)
{
    const syncer *m = arg;
    for (uint64_t i = 1; i <= STEPS; i++)
        step(m->profile, m->exec, i);
    atomic_fetch_sub(m->recording, 1);
}

static void sync_on(void *arg)
{
    syncer *m = arg;
    do {
        m->failed += sw_prof_sync(m->profile) != SW_OK;
        m->syncs++;
    } while (atomic_load(m->recording) > 0);
}

SW_TEST("threads record and sync at once")
{
    const char *path = sw_temp_path("at-once.jsonl");
    syncer all[RECORDERS + SYNCERS];
    atomic_int recording = RECORDERS;
    uint64_t syncs = 0, failed = 0;
    sw_profile *p = begin(path);
    for (uint32_t i = 0; i < RECORDERS + SYNCERS; i++) {
        all[i] = (syncer){.profile = p, .exec = i, .recording = &recording};
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
