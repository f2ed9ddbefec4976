/* Saves, and the power goes: what is there is the old file or the new one, whole, and after the
 * end of a save it is the new one. A call that makes this so cannot be left out unseen. */
#include "tests/alloc/crash.h"
#include "tests/support/suite.h"
#include <sys/stat.h>

SW_TESTS("crash")

static char path[1400];

typedef struct {
    unsigned char before[6000], after[20000];
    uint64_t old, new, wrong; /* states with one of them, with neither or with a late old one */
} save;

static save its;

static sw_status write_parts(void *unused, sw_file *file)
{
    for (size_t at = 0; at < sizeof its.after; at += 700)
        SW_TRY(sw_file_write(file, its.after + at,
                             sizeof its.after - at < 700 ? sizeof its.after - at : 700));
    return SW_OK;
}

static sw_status write_before(void *unused, sw_file *file)
{
    return sw_file_write(file, its.before, sizeof its.before);
}

static bool is(const sw_crash_file *f, const unsigned char *bytes, size_t n)
{
    return f != NULL && f->n == n && memcmp(f->bytes, bytes, n) == 0;
}

static bool look(void *unused, const sw_crash_file *files, int n, bool done)
{
    const sw_crash_file *saved = sw_crash_find(files, n, "saved");
    const bool new = is(saved, its.after, sizeof its.after);
    const bool old = is(saved, its.before, sizeof its.before);
    its.new += new;
    its.old += old;
    its.wrong += !new && (!old || done);
    return true;
}

/* A recorded save over an older file, beside what a dead process left. */
static sw_crash *record(const char *name)
{
    sw_file *file;
    its = (save){.old = 0};
    memset(its.before, 'b', sizeof its.before);
    memset(its.after, 'a', sizeof its.after);
    saves_begin(name);
    snprintf(path, sizeof path, "%s", saves_at("saved"));
    CU_ASSERT_EQUAL_FATAL(sw_file_replace(path, write_before, NULL), SW_OK);
    CU_ASSERT_EQUAL_FATAL(
        sw_file_open(&file, sw_textf("%s.00000000000000ff.tmp", path), SW_FILE_CREATE), SW_OK);
    sw_file_drop(file);
    sw_crash *c = sw_crash_begin(saves_folder);
    const sw_status status = sw_file_replace(path, write_parts, NULL);
    sw_crash_stop();
    SW_CHECK(status == SW_OK, "%s", sw_last_error());
    return c;
}

SW_TEST("a crash leaves the old file or the new one")
{
    sw_crash *c = record("crash");
    const uint64_t states = sw_crash_states(c, -1, look, NULL);
    sw_note("%d events, %llu states: %llu old, %llu new", sw_crash_events(c),
            (unsigned long long)states, (unsigned long long)its.old,
            (unsigned long long)its.new);
    CU_ASSERT(states >= 10000 && its.wrong == 0 && its.old > 0 && its.new > 0);
    CU_ASSERT_EQUAL(states, its.old + its.new);
    sw_crash_free(c);
}

/* Without one of its syncs, or without its rename, a save breaks its promise in some state. */
SW_TEST("no sync and no rename can be left out")
{
    sw_crash *c = record("left out");
    int kinds[SW_FILE_FOLDER_SYNCED + 1];
    sw_crash_leave_each_out(c, look, &its.wrong, kinds);
    CU_ASSERT(kinds[SW_FILE_SYNCED] == 1 && kinds[SW_FILE_RENAMED] == 1);
    CU_ASSERT_EQUAL(kinds[SW_FILE_FOLDER_SYNCED], 1);
    int removed = 0;
    for (int i = 0; i < sw_crash_events(c); i++)
        removed += sw_crash_kind(c, i) == SW_FILE_REMOVED;
    CU_ASSERT_EQUAL(removed, 1);
    sw_crash_free(c);
}
