/* Saves with older generations, and the power goes: the newest is the old file or the new one,
 * each older one is whole, and what must not be older than the new one is durable in front. */
#include "alloc/base/fault.h"
#include "tests/alloc/crash.h"
#include "tests/support/suite.h"
#include <sys/stat.h>

SW_TESTS("crash, generations")

enum { BYTES = 30000, PART = 700, KEEP = 3, LOG_OLD = 1500, LOG_NEW = 3000 };

static char path[1400];

/* The states of one save. Generation 0 is the newest; "older" were there before. */
static struct {
    char name;          /* of the bytes that are written */
    bool damaged;       /* what stood at the path was no whole generation */
    bool stops;         /* one wrong state is enough */
    bool with_log;      /* the new file may be there only with all of the log */
    uint64_t old, new_; /* states with the one or the other at the path */
    uint64_t wrong;
    sw_file *log;
} its;

static sw_status write_parts(void *unused, sw_file *file)
{
    char part[PART];
    memset(part, its.name, sizeof part);
    for (size_t at = 0; at < BYTES; at += PART)
        SW_TRY(sw_file_write(file, part, BYTES - at < PART ? BYTES - at : PART));
    return SW_OK;
}

static sw_status write_log(sw_file *log, size_t n)
{
    char text[LOG_NEW];
    memset(text, 'l', n);
    return sw_file_write(log, text, n);
}

static sw_status sync_log(void *unused)
{
    SW_TRY(write_log(its.log, LOG_NEW / 2));
    return sw_file_sync(its.log);
}

static sw_status save(char name, bool drop_old, sw_status (*before)(void *))
{
    its.name = name;
    return sw_file_replace_with(
        path, &(sw_replace_opts){
                  .write = write_parts, .before = before, .keep = KEEP, .drop_old = drop_old});
}

/* ---- what is seen ------------------------------------------------------------------------ */

/* The letter of a whole generation; 0: not there, '?': not whole. */
static char letter(const sw_crash_file *f)
{
    if (f == NULL)
        return 0;
    const bool whole = f->n == BYTES && memcmp(f->bytes, f->bytes + 1, BYTES - 1) == 0;
    return whole ? (char)f->bytes[0] : '?';
}

static bool log_is_whole(const sw_crash_file *log)
{
    size_t n = 0;
    while (log != NULL && n < log->n && log->bytes[n] == 'l')
        n++;
    return n == LOG_OLD + LOG_NEW;
}

/* Generations c, b, a were there, c the newest; d is saved. Numbers go from new to old. With
 * drop_old c is damaged, and b and a stay where they are. */
static bool look(void *unused, const sw_crash_file *files, int n, bool done)
{
    const char now = letter(sw_crash_find(files, n, "saved")),
               one = letter(sw_crash_find(files, n, "saved.1")),
               two = letter(sw_crash_find(files, n, "saved.2"));
    const char old = its.damaged ? '?' : 'c';
    its.old += now == old;
    its.new_ += now == 'd';
    bool right = now == 'd' || (now == old && !done);
    if (its.damaged)
        right &= one == 'b' && two == 'a';
    else if (done)
        right &= one == 'c' && two == 'b';
    else
        right &=
            (one == 0 || one == 'c' || one == 'b') && (two == 0 || two == 'b' || two == 'a');
    if (its.with_log && now == 'd')
        right &= log_is_whole(sw_crash_find(files, n, "log"));
    its.wrong += !right;
    return right || !its.stops;
}

/* ---- recording --------------------------------------------------------------------------- */

static void begin(const char *name)
{
    saves_begin(name);
    snprintf(path, sizeof path, "%s", saves_at("saved"));
    memset(&its, 0, sizeof its);
    for (const char *old = "abc"; *old != '\0'; old++)
        SW_CHECK(save(*old, false, NULL) == SW_OK, "%s", sw_last_error());
}

static sw_crash *record(const char *name)
{
    begin(name);
    sw_crash *c = sw_crash_begin(saves_folder);
    const sw_status status = save('d', false, NULL);
    sw_crash_stop();
    SW_CHECK(status == SW_OK && sw_last_note()[0] == '\0', "%s", sw_last_error());
    return c;
}

/* The log was written, and not synced, before the save. */
static sw_crash *record_with_log(const char *name)
{
    sw_file *first = NULL;
    begin(name);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&first, saves_at("log"), SW_FILE_CREATE), SW_OK);
    CU_ASSERT_EQUAL(write_log(first, LOG_OLD), SW_OK);
    sw_file_drop(first);
    sw_crash *c = sw_crash_begin(saves_folder);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&its.log, saves_at("log"), SW_FILE_KEEP), SW_OK);
    sw_status status = sw_file_cut(its.log, LOG_OLD);
    if (status == SW_OK)
        status = write_log(its.log, LOG_NEW / 2);
    if (status == SW_OK)
        status = save('d', false, sync_log);
    sw_crash_stop();
    SW_CHECK(status == SW_OK, "%s", sw_last_error());
    sw_file_drop(its.log);
    its.with_log = true;
    return c;
}

/* ---- what is promised -------------------------------------------------------------------- */

static void all_states_are_right(sw_crash *c, const char *name)
{
    const uint64_t states = sw_crash_states(c, -1, look, NULL);
    sw_note("%s: %d events, %llu states: %llu old, %llu new", name, sw_crash_events(c),
            (unsigned long long)states, (unsigned long long)its.old,
            (unsigned long long)its.new_);
    CU_ASSERT(states >= 10000 && its.old > 0 && its.new_ > 0);
    CU_ASSERT(its.wrong == 0 && its.old + its.new_ == states);
    sw_crash_free(c);
}

static void run_generations(const char *name)
{
    all_states_are_right(record(name), name);
}

static void run_log(const char *name)
{
    all_states_are_right(record_with_log(name), name);
}

SW_TEST("every generation is whole")
{
    saves_both_ways(run_generations, "generations");
}

SW_TEST("the log is never older than the file")
{
    saves_both_ways(run_log, "generations and a log");
}

static void run_drop(const char *name)
{
    sw_file *file = NULL;
    begin(name);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_KEEP), SW_OK);
    CU_ASSERT_EQUAL(sw_file_write(file, "damage", 6), SW_OK);
    sw_file_drop(file);
    its.damaged = true;
    sw_crash *c = sw_crash_begin(saves_folder);
    CU_ASSERT_EQUAL(save('d', true, NULL), SW_OK);
    sw_crash_stop();
    all_states_are_right(c, name);
}

SW_TEST("a damaged file never replaces a generation")
{
    saves_both_ways(run_drop, "damaged");
}

/* The same save without drop_old does that, and it is seen. */
SW_TEST("a damaged file that is kept is seen")
{
    begin("kept damage");
    sw_file *file = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_KEEP), SW_OK);
    CU_ASSERT_EQUAL(sw_file_write(file, "damage", 6), SW_OK);
    sw_file_drop(file);
    its.damaged = true;
    sw_crash *c = sw_crash_begin(saves_folder);
    CU_ASSERT_EQUAL(save('d', false, NULL), SW_OK);
    sw_crash_stop();
    (void)sw_crash_states(c, -1, look, NULL);
    CU_ASSERT(its.wrong > 0);
    sw_crash_free(c);
}

/* ---- what cannot be left out ------------------------------------------------------------- */

static void leave_each_out(sw_crash *c, const int expected[SW_FILE_FOLDER_SYNCED + 1])
{
    int kinds[SW_FILE_FOLDER_SYNCED + 1];
    its.stops = true;
    sw_crash_leave_each_out(c, look, &its.wrong, kinds);
    for (int kind = 0; kind <= SW_FILE_FOLDER_SYNCED; kind++)
        SW_CHECK(kinds[kind] == expected[kind], "%d events of kind %d", kinds[kind], kind);
    sw_crash_free(c);
}

SW_TEST("no call can be left out")
{
    int expected[SW_FILE_FOLDER_SYNCED + 1] = {[SW_FILE_SYNCED] = 2,
                                               [SW_FILE_RENAMED] = 2,
                                               [SW_FILE_NAMED] = 1,
                                               [SW_FILE_LINKED] = 1,
                                               [SW_FILE_FOLDER_SYNCED] = 1};
    leave_each_out(record_with_log("each left out"), expected);
    if (!sw_tests_full())
        return;
    sw_fault_unnamed(false);
    expected[SW_FILE_NAMED] = 0;
    leave_each_out(record_with_log("each left out, named"), expected);
    sw_fault_unnamed(true);
}

static int last_of(const sw_crash *c, sw_file_event_kind kind)
{
    int found = -1;
    for (int i = 0; i < sw_crash_events(c); i++)
        found = sw_crash_kind(c, i) == kind ? i : found;
    CU_ASSERT_FATAL(found >= 0);
    return found;
}

static uint64_t wrong_states(sw_crash *c)
{
    its.wrong = 0;
    its.stops = true;
    (void)sw_crash_states(c, -1, look, NULL);
    sw_crash_free(c);
    return its.wrong;
}

/* `before` after the rename: its two events, the log's bytes and their sync, come later. */
SW_TEST("the log cannot be synced after the rename")
{
    sw_crash *c = record_with_log("late log");
    const int rename = last_of(c, SW_FILE_RENAMED), sync = last_of(c, SW_FILE_SYNCED);
    CU_ASSERT(sync < rename && sw_crash_kind(c, sync - 1) == SW_FILE_WRITTEN);
    CU_ASSERT(sw_crash_handle(c, sync) == its.log && sw_crash_handle(c, sync - 1) == its.log);
    sw_crash_move(c, sync - 1, rename);
    sw_crash_move(c, sync - 1, rename);
    CU_ASSERT(wrong_states(c) > 0);
}

/* A sync before the naming promises nothing. */
SW_TEST("the file is named before it is synced")
{
    sw_crash *c = record("late name");
    const int named = last_of(c, SW_FILE_NAMED), sync = last_of(c, SW_FILE_SYNCED);
    CU_ASSERT(named < sync && sync < last_of(c, SW_FILE_RENAMED));
    sw_crash_move(c, named, sync);
    CU_ASSERT(wrong_states(c) > 0);
}
