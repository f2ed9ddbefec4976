/* A profile's file in parts: each a profile by itself, bounded, there at any time; and what
 * happens where the next part cannot be had. */
#include "alloc/base/message.h"
#include "alloc/base/sys.h"
#include "profiler/record/prof.h"
#include "profiler/record/record.h"
#include "tests/profiler/read_back.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_BYTES = 80 << 10, EVENTS = 300 };

typedef struct {
    char file[1024], before[1032];
} names;

static names name(const char *file)
{
    names n;
    snprintf(n.file, sizeof n.file, "%s", sw_temp_path(file));
    snprintf(n.before, sizeof n.before, "%s.1", n.file);
    return n;
}

static sw_status begin(sw_profile **out, const char *path, size_t max_bytes)
{
    const sw_prof_header header = {.path = path,
                                   .model = "tiny",
                                   .device = "cpu",
                                   .command = "parts",
                                   .event_room = EVENTS,
                                   .max_bytes = max_bytes};
    return sw_prof_create(out, &header);
}

static sw_profile *open_parts(const char *path)
{
    sw_profile *p = NULL;
    SW_CHECK(begin(&p, path, MAX_BYTES) == SW_OK, "%s", sw_last_error());
    return p;
}

enum { MOST_OPS = 6000 };

static bool plan_of(sw_profile *p, uint32_t program, bool trace, uint32_t n_ops, int n_values)
{
    static const uint32_t layers[MOST_OPS];
    static char phases[MOST_OPS + 1];
    const sw_prof_plan x = {.program = program, .trace = trace, .run = "train", .n_ops = n_ops};
    sw_prof_plan_begin(p, &x);
    for (uint32_t i = 0; i < n_ops; i++)
        sw_prof_plan_op(p, "a");
    sw_prof_plan_layers(p);
    sw_prof_plan_layer(p, "");
    memset(phases, '1', n_ops);
    phases[n_ops] = '\0';
    sw_prof_plan_values(p, layers, phases, n_ops);
    for (int i = 0; i < n_values; i++) {
        const sw_tensor v = {.id = (uint32_t)i,
                             .alias = SW_PROF_NONE,
                             .name = "value",
                             .role = "saved",
                             .phase = "forward",
                             .segment = SW_SEGMENT_STEP,
                             .bytes = 64};
        sw_prof_plan_value(p, &v);
    }
    return sw_prof_plan_end(p);
}

static bool plan(sw_profile *p, uint32_t program, bool trace, int n_values)
{
    return plan_of(p, program, trace, 1, n_values);
}

static void step_of(sw_profile *p, uint32_t exec, uint64_t number, size_t n_events)
{
    sw_record log[EVENTS];
    for (size_t i = 0; i < n_events; i++)
        log[i] = (sw_record){UINT32_MAX, UINT32_MAX, UINT32_MAX - (uint32_t)i, 10, 4, 0};
    const sw_prof_log events = {.log = log, .n = n_events};
    const sw_prof_step s = {.exec = exec,
                            .trace = SW_PROF_NONE,
                            .step = number,
                            .run = "train",
                            .mode = "planned",
                            .measured_by = "arena",
                            .peak_bytes = 100000 - number,
                            .events = n_events > 0 ? &events : NULL};
    sw_prof_step_record(p, &s);
}

static void step(sw_profile *p, uint64_t number, size_t n_events)
{
    step_of(p, 0, number, n_events);
}

static size_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

/* ---- what a part is ---------------------------------------------------------------------- */

/* Header, plans, then steps one by one with their events in front; the steps' range. */
static void check_part(const char *path, int64_t part, size_t n_plans, int64_t *first,
                       int64_t *last)
{
    bool cut;
    json_t *all = read_back(path, &cut);
    const json_t *plans[8], *steps[4096];
    CU_ASSERT_FALSE(cut);
    const json_t *header = json_array_get(all, 0);
    CU_ASSERT_EQUAL(number_of(header, "part"), part);
    CU_ASSERT_EQUAL(number_of(header, "alignment"), SW_ALIGN);
    CU_ASSERT_EQUAL(records_of(all, "plan", plans, 8), n_plans);
    for (size_t i = 0; i < n_plans; i++) {
        CU_ASSERT_PTR_EQUAL(json_array_get(all, 1 + i), plans[i]);
        CU_ASSERT_EQUAL(number_of(plans[i], "program"), (int64_t)i);
    }
    const size_t n = records_of(all, "step", steps, 4096);
    CU_ASSERT_FATAL(n > 0);
    *first = number_of(steps[0], "step");
    *last = number_of(steps[n - 1], "step");
    CU_ASSERT_EQUAL(*last - *first + 1, (int64_t)n);
    for (size_t i = 0; i + 1 < json_array_size(all); i++) {
        const json_t *r = json_array_get(all, i), *next = json_array_get(all, i + 1);
        if (strcmp(json_string_value(json_object_get(r, "type")), "events") == 0)
            CU_ASSERT_EQUAL(number_of(r, "step"), number_of(next, "step"));
    }
    json_decref(all);
}

static void each_part_is_a_profile_by_itself(void)
{
    const names n = name("parts.jsonl");
    sw_profile *p = open_parts(n.file);
    CU_ASSERT(plan(p, 0, false, 20));
    for (uint64_t i = 1; i <= 60; i++)
        step(p, i, 100);
    CU_ASSERT(plan(p, 1, false, 30)); /* later, and in all parts from here on */
    for (uint64_t i = 61; i <= 500; i++)
        step(p, i, 100);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);

    bool cut;
    json_t *all = read_back(n.file, &cut);
    const int64_t part = number_of(json_array_get(all, 0), "part");
    const json_t *end = json_array_get(all, json_array_size(all) - 1);
    CU_ASSERT(part > 5);
    CU_ASSERT_EQUAL(number_of(end, "steps"), 500); /* of all parts */
    CU_ASSERT_EQUAL(number_of(end, "measured_peak_bytes"), 100000 - 1);
    json_decref(all);
    int64_t first, last, first_before, last_before;
    check_part(n.file, part, 2, &first, &last);
    check_part(n.before, part - 1, 2, &first_before, &last_before);
    CU_ASSERT_EQUAL(last_before + 1, first);
    CU_ASSERT_EQUAL(last, 500);
    all = read_back(n.before, &cut);
    const json_t *goes_on = json_array_get(all, json_array_size(all) - 1);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(goes_on, "type")), "part");
    CU_ASSERT_EQUAL(number_of(goes_on, "part"), part - 1);
    json_decref(all);
}

enum { THREADS = 3 };
typedef struct {
    sw_profile *profile;
    uint32_t exec;
    sw_thread *thread;
} member;

static void record_steps(void *arg)
{
    const member *m = arg;
    for (uint64_t i = 1; i <= 2000; i++)
        step_of(m->profile, m->exec, i, 10);
}

/* The first one's records do not carry it. */
static json_int_t exec_of(const json_t *record)
{
    return json_integer_value(json_object_get(record, "exec"));
}

/* Records of other threads never come between a step and its events. */
static void threads_do_not_part_a_step_from_its_events(void)
{
    const names n = name("threads.jsonl");
    member all[THREADS];
    sw_profile *p = NULL;
    CU_ASSERT_EQUAL_FATAL(begin(&p, n.file, 3 << 20), SW_OK);
    CU_ASSERT(plan(p, 0, false, 10));
    for (uint32_t i = 0; i < THREADS; i++) {
        all[i] = (member){.profile = p, .exec = i};
        CU_ASSERT_EQUAL_FATAL(
            sw_thread_start(&all[i].thread, record_steps, &all[i], "recorder"), SW_OK);
    }
    for (int i = 0; i < THREADS; i++)
        sw_thread_join(all[i].thread);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    size_t n_events = 0;
    for (int which = 0; which < 2; which++) {
        bool cut;
        json_t *records = read_back(which == 0 ? n.file : n.before, &cut);
        for (size_t i = 0; i + 1 < json_array_size(records); i++) {
            const json_t *r = json_array_get(records, i),
                         *next = json_array_get(records, i + 1);
            if (strcmp(json_string_value(json_object_get(r, "type")), "events") != 0)
                continue;
            n_events++;
            SW_CHECK(number_of(r, "step") ==
                             json_integer_value(json_object_get(next, "step")) &&
                         exec_of(r) == exec_of(next) && json_object_get(next, "loss") != NULL,
                     "line %zu of part %d", i + 1, which);
        }
        CU_ASSERT_FALSE(cut);
        json_decref(records);
    }
    CU_ASSERT(n_events > 2000);
}

static void no_part_passes_its_bound(void)
{
    const names n = name("bound.jsonl");
    sw_profile *p = open_parts(n.file);
    CU_ASSERT(plan(p, 0, false, 10));
    size_t most = 0, before = 0;
    for (uint64_t i = 1; i <= 400; i++) {
        step(p, i, (size_t)(i * 37 % EVENTS));
        CU_ASSERT_EQUAL(sw_prof_flush(p), SW_OK);
        most = file_bytes(n.file) > most ? file_bytes(n.file) : most;
        before = file_bytes(n.before) > before ? file_bytes(n.before) : before;
    }
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    SW_CHECK(most <= MAX_BYTES && before <= MAX_BYTES && before > MAX_BYTES / 2,
             "%zu and %zu bytes of %d", most, before, MAX_BYTES);
}

static size_t largest(const names *n)
{
    const size_t now = file_bytes(n->file), before = file_bytes(n->before);
    return now > before ? now : before;
}

/* Lines with changed blocks are many and long: they count in what a record may take, under
 * witnesses too. */
static void places_keep_the_bound(void)
{
    enum { PLACES = 100, ROUNDS = 60 };
    static char at[PLACES][120];
    void *blocks[PLACES] = {0};
    const names n = name("places.jsonl");
    sw_profile *p = open_parts(n.file);
    size_t most = 0;
    for (int i = 0; i < PLACES; i++)
        snprintf(at[i], sizeof at[i], "a/%090d.c:%d", i, i);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const size_t bytes = 100 + (size_t)round;
        for (int i = 0; i < PLACES; i++) {
            sw_heap_free(blocks[i], SW_HEAP_RECORDS, bytes - 1);
            CU_ASSERT_EQUAL_FATAL(sw_heap_alloc_at(&blocks[i], SW_HEAP_RECORDS, bytes, at[i]),
                                  SW_OK);
        }
        const sw_prof_witness seen = {.step = round, .measured_by = "access"};
        sw_prof_witness_record(p, &seen);
        for (uint64_t i = 0; i < round % 7; i++)
            step(p, round, 40);
        CU_ASSERT_EQUAL(sw_prof_flush(p), SW_OK);
        most = largest(&n) > most ? largest(&n) : most;
    }
    for (int i = 0; i < PLACES; i++)
        sw_heap_free(blocks[i], SW_HEAP_RECORDS, 100 + ROUNDS);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    SW_CHECK(most <= MAX_BYTES, "%zu bytes of %d", most, MAX_BYTES);
}

static void a_new_part_calls_no_heap(void)
{
    const names n = name("heap.jsonl");
    sw_profile *p = open_parts(n.file);
    CU_ASSERT(plan(p, 0, false, 10));
    const uint64_t calls = sw_mem_calls();
    for (uint64_t i = 1; i <= 300; i++)
        step(p, i, EVENTS);
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    CU_ASSERT(file_bytes(n.before) > 0);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
}

static void quick_steps_with_events_share_a_write(void)
{
    const names n = name("share.jsonl");
    sw_profile *p = NULL;
    CU_ASSERT_EQUAL_FATAL(begin(&p, n.file, 0), SW_OK);
    const uint64_t before = sw_fault_calls(SW_FAULT_FILE);
    for (uint64_t i = 1; i <= 200; i++)
        step(p, i, 20);
    const uint64_t calls = sw_fault_calls(SW_FAULT_FILE) - before;
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    SW_CHECK(calls < 50, "%llu file operations", (unsigned long long)calls);
}

/* ---- what has no room -------------------------------------------------------------------- */

/* The old file stays, and the number in the message would suffice. */
static void parts_too_small_are_refused(void)
{
    const names n = name("small.jsonl");
    sw_profile *p = open_parts(n.file);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    const size_t bytes = file_bytes(n.file);
    p = NULL;
    CU_ASSERT_EQUAL(begin(&p, n.file, 1000), SW_INVALID);
    SW_CHECK(strstr(sw_last_error(), "and more with the plans (got 1,000)") != NULL, "%s",
             sw_last_error());
    CU_ASSERT_PTR_NULL(p);
    CU_ASSERT_EQUAL(file_bytes(n.file), bytes);
}

static size_t least_for(uint32_t n_ops, int n_values)
{
    const sw_prof_header header = {
        .model = "tiny", .device = "cpu", .command = "parts", .measures = true};
    sw_profile *p = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_prof_create(&p, &header), SW_OK);
    CU_ASSERT(plan_of(p, 0, false, n_ops, n_values));
    const size_t least = sw_prof_least(p);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    return least;
}

static void a_plan_without_room_ends_the_profile(void)
{
    const names n = name("plan.jsonl");
    const size_t least = least_for(1, 500);
    for (size_t less = 0; less < 2; less++) {
        sw_profile *p = NULL;
        CU_ASSERT_EQUAL_FATAL(begin(&p, n.file, least - less), SW_OK);
        CU_ASSERT_EQUAL(plan(p, 0, false, 500), less == 0);
        for (uint64_t i = 1; i < 200; i++)
            step(p, i, EVENTS);
        CU_ASSERT_EQUAL(sw_prof_destroy(p), less == 0 ? SW_OK : SW_INVALID);
        if (less == 0)
            continue;
        char wanted[64];
        (void)sw_message(wanted, sizeof wanted, "at least %zu bytes", least);
        SW_CHECK(strstr(sw_last_error(), wanted) != NULL, "%s", sw_last_error());
        CU_ASSERT_EQUAL(count_lines(n.file), 1); /* the header; nothing after the gap */
    }
}

/* The least that a run asks for has room for the longest record of a step. */
static void clocks_of_ops_keep_the_bound(void)
{
    static uint64_t op_ns[MOST_OPS];
    const names n = name("clocks.jsonl");
    const size_t least = least_for(MOST_OPS, 10);
    sw_profile *p = NULL;
    size_t most = 0;
    CU_ASSERT_EQUAL_FATAL(begin(&p, n.file, least), SW_OK);
    CU_ASSERT(plan_of(p, 0, false, MOST_OPS, 10));
    for (uint32_t i = 0; i < MOST_OPS; i++)
        op_ns[i] = UINT64_MAX - i;
    for (uint64_t i = 1; i <= 5; i++) {
        const sw_prof_step s = {.trace = SW_PROF_NONE,
                                .step = i,
                                .run = "train",
                                .mode = "planned",
                                .measured_by = "arena",
                                .op_ns = op_ns,
                                .n_ops = MOST_OPS};
        sw_prof_step_record(p, &s);
        CU_ASSERT_EQUAL(sw_prof_flush(p), SW_OK);
        most = largest(&n) > most ? largest(&n) : most;
    }
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    SW_CHECK(most <= least, "%zu bytes of %zu", most, least);
}

static void a_trace_without_room_is_let_go(void)
{
    const names n = name("trace.jsonl");
    sw_profile *p = open_parts(n.file);
    CU_ASSERT(plan(p, 0, true, 10));
    CU_ASSERT_FALSE(plan(p, 1, true, 5000));
    CU_ASSERT(plan(p, 2, true, 10));
    for (uint64_t i = 1; i < 300; i++)
        step(p, i, EVENTS);
    CU_ASSERT_EQUAL(sw_prof_destroy(p), SW_OK);
    CU_ASSERT(file_bytes(n.before) <= MAX_BYTES);
}

static void what_is_no_regular_file_is_refused(void)
{
    const names n = name("link.jsonl");
    sw_profile *p = NULL;
    CU_ASSERT_EQUAL_FATAL(symlink("elsewhere", n.file), 0);
    CU_ASSERT_EQUAL(begin(&p, n.file, MAX_BYTES), SW_INVALID);
    SW_CHECK(strstr(sw_last_error(), "must be a regular file") != NULL, "%s", sw_last_error());
    CU_ASSERT_EQUAL(begin(&p, "/dev/null", MAX_BYTES), SW_INVALID);
    CU_ASSERT_EQUAL(begin(&p, "-", MAX_BYTES), SW_INVALID);
    CU_ASSERT_PTR_NULL(p);
}

/* ---- what fails, and when ---------------------------------------------------------------- */

static sw_status whole_life(void *arg)
{
    sw_profile *p;
    SW_TRY(begin(&p, arg, MAX_BYTES));
    (void)plan(p, 0, false, 20);
    for (uint64_t i = 1; i <= 40; i++)
        step(p, i, EVENTS);
    return sw_prof_destroy(p);
}

static void every_refusal_is_told_and_leaks_nothing(void)
{
    const names n = name("sweep.jsonl");
    const uint64_t files =
        sw_sweep(SW_FAULT_FILE, SW_IO, whole_life, (void *)(uintptr_t)n.file);
    const uint64_t blocks =
        sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, whole_life, (void *)(uintptr_t)n.file);
    sw_note("%llu file operations and %llu allocations failed in turn",
            (unsigned long long)files, (unsigned long long)blocks);
    CU_ASSERT(files > 40 && blocks >= 5);
}

/* Whatever operation fails, PATH holds whole lines after a header. */
static void a_failed_part_leaves_a_readable_file(void)
{
    const names n = name("half.jsonl");
    for (uint64_t k = 8;; k++) { /* those before open and lock the file */
        (void)unlink(n.file);
        sw_fault_plan(SW_FAULT_FILE, k, SW_FAULT_ONCE);
        const sw_status status = whole_life((void *)(uintptr_t)n.file);
        const bool reached = sw_fault_calls(SW_FAULT_FILE) > k;
        sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
        if (!reached)
            break;
        CU_ASSERT_EQUAL(status, SW_IO);
        SW_CHECK(count_lines(n.file) >= 1, "site %llu", (unsigned long long)k);
    }
}

/* A line that was cut is the last one. */
static void check_killed(const char *path, bool must_be)
{
    bool cut;
    if (!must_be && access(path, F_OK) != 0)
        return;
    json_t *all = read_back(path, &cut);
    const json_t *first = json_array_get(all, 0);
    const char *type = json_string_value(json_object_get(first, "type"));
    SW_CHECK(type != NULL && strcmp(type, "header") == 0, "%s", path);
    json_decref(all);
}

static void a_kill_at_any_time_leaves_a_readable_file(void)
{
    const names n = name("killed.jsonl");
    sw_dice dice = {7};
    uint64_t parts = 0;
    for (int round = 0; round < (sw_tests_full() ? 200 : 40); round++) {
        sw_profile *p;
        (void)unlink(n.before);
        int begun[2];
        char byte = 0;
        CU_ASSERT_EQUAL_FATAL(pipe(begun), 0);
        const pid_t child = fork();
        if (child == 0) {
            p = NULL;
            if (begin(&p, n.file, MAX_BYTES) != SW_OK || write(begun[1], &byte, 1) != 1)
                _exit(1);
            (void)plan(p, 0, false, 20);
            for (uint64_t i = 1;; i++)
                step(p, i, EVENTS);
        }
        CU_ASSERT_EQUAL(read(begun[0], &byte, 1), 1);
        close(begun[0]);
        close(begun[1]);
        nanosleep(&(struct timespec){0, (long)sw_dice_below(&dice, 4000000)}, NULL);
        CU_ASSERT_EQUAL(kill(child, SIGKILL), 0);
        int status;
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT(WIFSIGNALED(status));
        check_killed(n.file, true);
        check_killed(n.before, false);
        parts += access(n.before, F_OK) == 0;
    }
    SW_CHECK(parts > 0, "no child came so far as to a second part");
}

static const sw_test tests[] = {
    {"each part is a profile by itself", each_part_is_a_profile_by_itself},
    {"threads do not part a step from its events", threads_do_not_part_a_step_from_its_events},
    {"a kill at any time leaves a readable file", a_kill_at_any_time_leaves_a_readable_file},
    {"no part passes its bound", no_part_passes_its_bound},
    {"places keep the bound", places_keep_the_bound},
    {"a new part calls no heap", a_new_part_calls_no_heap},
    {"quick steps with events share a write", quick_steps_with_events_share_a_write},
    {"parts too small are refused", parts_too_small_are_refused},
    {"a plan without room ends the profile", a_plan_without_room_ends_the_profile},
    {"clocks of ops keep the bound", clocks_of_ops_keep_the_bound},
    {"a trace without room is let go", a_trace_without_room_is_let_go},
    {"what is no regular file is refused", what_is_no_regular_file_is_refused},
    {"every refusal is reported and leaks nothing", every_refusal_is_told_and_leaks_nothing},
    {"a failed part leaves a readable file", a_failed_part_leaves_a_readable_file},
};
SW_SUITE("profile in parts", tests)
