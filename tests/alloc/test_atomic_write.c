/* Replacing files: unique names, locks, what dead processes leave, durability. */
#include "alloc/base/error.h"
#include "alloc/base/sys.h"
#include "tests/alloc/crash.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("replace")

/* A test that "all of it holds for named files" runs too. */
#define ALONE(promise, test)                                                                   \
    SW_TEST(promise)                                                                           \
    {                                                                                          \
        test();                                                                                \
    }

static const char *where = ""; /* after the folder's name */

/* A folder of the test's own, empty, so that what is left is seen. */
static void begin(const char *name)
{
    saves_begin(sw_textf("%s%s", name, where));
}

static sw_status write_text(void *text, sw_file *file)
{
    return sw_file_write(file, text, strlen(text));
}

static sw_status replace(const char *path, const char *text)
{
    return sw_file_replace(path, write_text, sw_textf("%s", text));
}

/* ---- names ------------------------------------------------------------------------------- */

/* Whatever numbers come again, as after a restart in a container: a file of that name is not in
 * the way, even where it cannot be removed. */
static void a_name_that_comes_again_is_passed_over(void)
{
    begin("again");
    saves_put(saves_at("x"), "old");
    CU_ASSERT_EQUAL(mkdir(saves_at("x.0000000000000007.tmp"), 0700), 0);
    sw_fault_random(7, 5);
    SW_CHECK(replace(saves_at("x"), "new") == SW_OK, "%s", sw_last_error());
    CU_ASSERT(saves_has(saves_at("x"), "new") && saves_count() == 2);
    sw_fault_random(7, 1000);
    CU_ASSERT_EQUAL(replace(saves_at("x"), "newer"), SW_IO);
    SW_CHECK(strstr(sw_last_error(), "/x: File exists") != NULL, "%s", sw_last_error());
    sw_fault_random(0, 0);
    CU_ASSERT(saves_has(saves_at("x"), "new") && saves_count() == 2);
}
ALONE("a name that comes again is passed over", a_name_that_comes_again_is_passed_over)

/* The longest name that a file can have can be replaced too. */
static void the_longest_names_can_be_replaced(void)
{
    char name[256];
    begin("long");
    memset(name, 'n', 255);
    name[255] = '\0';
    saves_put(saves_at(name), "old");
    SW_CHECK(replace(saves_at(name), "new") == SW_OK, "%s", sw_last_error());
    CU_ASSERT(saves_has(saves_at(name), "new") && saves_count() == 1);
}
ALONE("the longest names can be replaced", the_longest_names_can_be_replaced)

static void a_name_without_a_folder_is_in_this_one(void)
{
    char here[1024];
    begin("here");
    CU_ASSERT_FATAL(getcwd(here, sizeof here) != NULL && chdir(saves_folder) == 0);
    saves_put("x.00000000000000aa.tmp", "dead");
    const sw_status status = replace("x", "new");
    CU_ASSERT(status == SW_OK && sw_last_note()[0] == '\0' && saves_count() == 1);
    CU_ASSERT_EQUAL(chdir(here), 0);
}
ALONE("a name without a folder is in this one", a_name_without_a_folder_is_in_this_one)

/* ---- what is left ----------------------------------------------------------------- */

/* A process that holds a lock until it gets the order to go. */
static pid_t start_holder(const char *path, int *to_end)
{
    int ends[2], ready[2];
    char byte;
    CU_ASSERT_FATAL(pipe(ends) == 0 && pipe(ready) == 0);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        const int fd = open(path, O_WRONLY);
        close(ends[1]);
        if (fd < 0 || flock(fd, LOCK_EX) != 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 2);
    }
    close(ends[0]);
    close(ready[1]);
    CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *to_end = ends[1];
    return pid;
}

static void what_dead_processes_left_is_swept_and_nothing_else(void)
{
    static const char *const others[] =
        SW_INIT("x.0123.tmp", "x.tmp", "xx.00000000000000aa.tmp", "x.00000000000000AA.tmp",
                "x.00000000000000aa.tmpp", "x.12-3.tmp", "y.00000000000000aa.tmp");
    const int n = (int)(sizeof others / sizeof *others);
    int to_end;
    begin("swept");
    for (int i = 0; i < n; i++)
        saves_put(saves_at(others[i]), "mine");
    saves_put(saves_at("x.00000000000000aa.tmp"), "dead");
    saves_put(saves_at("x.00000000000000ab.tmp"), "dead");
    CU_ASSERT_EQUAL(chmod(saves_at("x.00000000000000ab.tmp"), 0400), 0);
    saves_put(saves_at("x.00000000000000ac.tmp"), "alive");
    CU_ASSERT_EQUAL(symlink("x.tmp", saves_at("x.00000000000000ad.tmp")), 0);
    CU_ASSERT_EQUAL(mkfifo(saves_at("x.00000000000000ae.tmp"), 0600), 0);
    const pid_t holder = start_holder(saves_at("x.00000000000000ac.tmp"), &to_end);
    SW_CHECK(replace(saves_at("x"), "new") == SW_OK, "%s", sw_last_error());
    CU_ASSERT(saves_has(saves_at("x"), "new") &&
              saves_has(saves_at("x.00000000000000ac.tmp"), "alive"));
    CU_ASSERT_EQUAL(saves_count(), n + 1 + 3); /* x; the locked one, the link, the pipe */
    for (int i = 0; i < n; i++)
        CU_ASSERT(saves_has(saves_at(others[i]), "mine"));
    close(to_end);
    int status = -1;
    CU_ASSERT(waitpid(holder, &status, 0) == holder && status == 0);
    SW_CHECK(replace(saves_at("x"), "newer") == SW_OK, "%s", sw_last_error());
    CU_ASSERT(saves_has(saves_at("x"), "newer") && saves_count() == n + 3);
}
ALONE("what dead processes left is swept, and nothing else",
      what_dead_processes_left_is_swept_and_nothing_else)

/* Each sweeps what the others have created and not locked yet; none may lose its file. */
static void many_processes_replace_one_file(void)
{
    enum { PROCESSES = 4, TIMES = 100 };
    pid_t pid[PROCESSES];
    begin("many");
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            sw_status status = SW_OK;
            for (int k = 0; k < TIMES && status == SW_OK; k++)
                status = replace(saves_at("x"), "whole");
            if (status != SW_OK)
                fprintf(stderr, "%s\n", sw_last_error());
            _exit(status != SW_OK);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        CU_ASSERT(waitpid(pid[i], &status, 0) == pid[i] && status == 0);
    }
    CU_ASSERT(saves_has(saves_at("x"), "whole") && saves_count() == 1);
}
ALONE("many processes replace one file", many_processes_replace_one_file)

/* ---- failures ---------------------------------------------------------------------------- */

/* Each call fails once: the old file or the new one, whole; what was left is named. */
static void fail_every_call(const char *name, uint64_t all_failing)
{
    uint64_t noted = 0;
    sw_sites sites = {SW_FAULT_FILE, .any = true};
    begin(name);
    while (sw_sites_next(&sites)) {
        saves_put(saves_at("x"), "old");
        saves_put(saves_at("x.00000000000000aa.tmp"), "dead");
        const sw_status status = SW_AT_SITE(&sites, replace(saves_at("x"), "new"));
        CU_ASSERT(saves_has(saves_at("x"), status == SW_OK ? "new" : "old"));
        if (status != SW_OK)
            SW_CHECK(strstr(sw_last_error(), "/x: ") != NULL, "%s", sw_last_error());
        noted += sw_last_note()[0] != '\0';
        if (sw_last_note()[0] != '\0')
            SW_CHECK(status == SW_OK &&
                         strstr(sw_last_note(), "/x: saved, durability unknown") != NULL,
                     "%s", sw_last_note());
        (void)unlink(saves_at("x.00000000000000aa.tmp"));
        CU_ASSERT_EQUAL(saves_count(), 1);
    }
    CU_ASSERT(sites.failed == all_failing &&
              noted == 2); /* noted: the folder's open and sync */
}

SW_TEST("every call can fail")
{
    fail_every_call("faults", 7); /* look, open, mode, write, name, sync, rename */
    sw_fault_unnamed(false);
    fail_every_call("faults, named", 7); /* look, two opens, mode, write, sync, rename */
    sw_fault_unnamed(true);
}

/* A note is of the last call alone. */
SW_TEST("a note goes with the next call")
{
    begin("note");
    swi_note_set("%s", "of another time");
    CU_ASSERT(replace(saves_at("x"), "new") == SW_OK && sw_last_note()[0] == '\0');
}

/* ---- one writer -------------------------------------------------------------------------- */

/* The second writer is refused before it has changed a byte; a device has no lock. */
SW_TEST("a file has one writer")
{
    sw_file *first = NULL, *second = NULL;
    begin("one");
    saves_put(saves_at("x"), "old");
    CU_ASSERT_EQUAL_FATAL(sw_file_take(&first, saves_at("x"), true), SW_OK);
    CU_ASSERT_EQUAL(sw_file_write(first, "mine", 4), SW_OK);
    CU_ASSERT_EQUAL(sw_file_take(&second, saves_at("x"), true), SW_BUSY);
    SW_CHECK(strstr(sw_last_error(), "/x: another process is writing it") != NULL, "%s",
             sw_last_error());
    CU_ASSERT(saves_has(saves_at("x"), "mine"));
    CU_ASSERT_EQUAL(sw_file_close(first), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_file_take(&second, saves_at("x"), true), SW_OK);
    CU_ASSERT(saves_has(saves_at("x"), ""));
    sw_file_drop(second);
    CU_ASSERT_EQUAL_FATAL(sw_file_take(&first, "/dev/null", true), SW_OK);
    CU_ASSERT_EQUAL(sw_file_take(&second, "/dev/null", true), SW_OK);
    sw_file_drop(first);
    sw_file_drop(second);
}

/* The tests of names, sweeping and many processes again, as on a file system on which a new
 * file has its name from the start. */
SW_TEST("all of it holds for named files")
{
    sw_fault_unnamed(false);
    where = " (named)";
    a_name_that_comes_again_is_passed_over();
    the_longest_names_can_be_replaced();
    a_name_without_a_folder_is_in_this_one();
    what_dead_processes_left_is_swept_and_nothing_else();
    many_processes_replace_one_file();
    where = "";
    sw_fault_unnamed(true);
}

/* ---- files without a name ---------------------------------------------------------------- */

static sw_status count_files(void *n, sw_file *file)
{
    *(int *)n = saves_count();
    return sw_file_write(file, "new", 3);
}

/* While it is written, a new file stands in its folder only where the system has no other way.
 */
SW_TEST("a new file has no name while it is written")
{
    int n = -1;
    begin("unnamed");
    saves_put(saves_at("x"), "old");
    CU_ASSERT(sw_file_replace(saves_at("x"), count_files, &n) == SW_OK && n == 1);
    sw_fault_unnamed(false);
    CU_ASSERT(sw_file_replace(saves_at("x"), count_files, &n) == SW_OK && n == 2);
    sw_fault_unnamed(true);
    CU_ASSERT(saves_has(saves_at("x"), "new") && saves_count() == 1);
}

/* The calls themselves: a name comes once, where it is free; closed without one a file is gone.
 */
SW_TEST("a file can be named later")
{
    sw_file *file = NULL;
    begin("later");
    saves_put(saves_at("taken"), "old");
    SW_CHECK(sw_file_open(&file, saves_at("x"), SW_FILE_UNNAMED) == SW_OK, "%s",
             sw_last_error());
    CU_ASSERT_FATAL(file != NULL);
    CU_ASSERT(sw_file_write(file, "new", 3) == SW_OK && saves_count() == 1);
    CU_ASSERT_EQUAL(sw_file_name(file, saves_at("taken")), SW_IO);
    SW_CHECK(strstr(sw_last_error(), "/taken: File exists") != NULL, "%s", sw_last_error());
    CU_ASSERT_EQUAL(sw_file_name(file, saves_at("x")), SW_OK);
    CU_ASSERT(saves_has(saves_at("x"), "new") && saves_has(saves_at("taken"), "old") &&
              saves_count() == 2);
    CU_ASSERT_EQUAL(sw_file_close(file), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, saves_at("y"), SW_FILE_UNNAMED), SW_OK);
    sw_file_drop(file);
    CU_ASSERT_EQUAL(saves_count(), 2);
    CU_ASSERT_EQUAL(sw_file_open(&file, saves_at("no folder/x"), SW_FILE_UNNAMED), SW_IO);
    sw_fault_unnamed(false);
    CU_ASSERT_EQUAL(sw_file_open(&file, saves_at("x"), SW_FILE_UNNAMED), SW_UNSUPPORTED);
    SW_CHECK(strstr(sw_last_error(), "/x: its file system has no files") != NULL, "%s",
             sw_last_error());
    sw_fault_unnamed(true);
}
