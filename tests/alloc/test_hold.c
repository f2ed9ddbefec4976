/* Holding a name, and cutting a file. */
#include "alloc/base/fault.h"
#include "alloc/base/sys.h"
#include "tests/alloc/crash.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("hold")

static char path[1400], lock[1410];

static void begin(const char *name)
{
    snprintf(path, sizeof path, "%s", sw_temp_path(name));
    snprintf(lock, sizeof lock, "%s.lock", path);
}

/* ---- holding ----------------------------------------------------------------------------- */

static void is_busy(void)
{
    sw_file *other = (sw_file *)path; /* any recognisable address */
    CU_ASSERT_EQUAL(sw_file_hold(&other, path), SW_BUSY);
    CU_ASSERT_PTR_EQUAL(other, path);
    SW_CHECK(strstr(sw_last_error(), path) != NULL &&
                 strstr(sw_last_error(), ": another process saves to it: ") != NULL &&
                 strstr(sw_last_error(), ".lock is locked") != NULL,
             "%s", sw_last_error());
    CU_ASSERT(sw_file_taken(lock));
}

SW_TEST("a name is held once")
{
    sw_file *held = NULL;
    begin("held name");
    SW_CHECK(sw_file_hold(&held, path) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_PTR_NOT_NULL_FATAL(held);
    is_busy();
    sw_file_let_go(held);
    CU_ASSERT_FALSE(sw_file_taken(lock));
    CU_ASSERT_EQUAL(sw_file_hold(&held, path), SW_OK);
    sw_file_let_go(held);
    sw_file_let_go(NULL);
    CU_ASSERT_FALSE(sw_file_taken(lock));
}

/* The holder is another process: flock(1)'s way, and ours. */
static pid_t start_holder(void)
{
    int ready[2];
    char byte;
    CU_ASSERT_FATAL(pipe(ready) == 0);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        sw_file *held;
        if (sw_file_hold(&held, path) != SW_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

SW_TEST("what a killed process held is taken over")
{
    sw_file *held = NULL;
    int status = 0;
    begin("taken over");
    const pid_t pid = start_holder();
    is_busy();
    CU_ASSERT_EQUAL(kill(pid, SIGKILL), 0);
    CU_ASSERT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    CU_ASSERT(sw_file_taken(lock)); /* it could not remove it */
    SW_CHECK(sw_file_hold(&held, path) == SW_OK, "%s", sw_last_error());
    is_busy();
    sw_file_let_go(held);
    CU_ASSERT_FALSE(sw_file_taken(lock));
}

/* An exec ends the hold, as no file of ours goes through it. */
SW_TEST("an exec lets go")
{
    sw_file *held = NULL;
    int ends[2], status = 0;
    char byte;
    begin("exec");
    CU_ASSERT_FATAL(pipe(ends) == 0);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[0], STDIN_FILENO);
        if (sw_file_hold(&held, path) != SW_OK || dup2(ends[1], STDOUT_FILENO) < 0)
            _exit(1);
        execl("/bin/sh", "sh", "-c", "echo x; exec sleep 60", (char *)NULL);
        _exit(2);
    }
    CU_ASSERT_EQUAL(read(ends[0], &byte, 1), 1);
    SW_CHECK(sw_file_hold(&held, path) == SW_OK, "%s", sw_last_error());
    sw_file_let_go(held);
    CU_ASSERT_EQUAL(kill(pid, SIGKILL), 0);
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
    close(ends[0]);
    close(ends[1]);
}

/* Holders come and go, and at no moment are there two: a byte of shared memory would be lost.
 */
SW_TEST("many processes hold one name in turn")
{
    enum { PROCESSES = 4 };
    const int times = sw_tests_full() ? 200 : 80;
    pid_t pid[PROCESSES];
    begin("in turn");
    const char *count = sw_textf("%s.count", path);
    saves_put(count, "");
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i] != 0)
            continue;
        for (int k = 0; k < times;) {
            sw_file *held;
            const sw_status status = sw_file_hold(&held, path);
            if (status == SW_BUSY)
                continue;
            if (status != SW_OK || held == NULL)
                _exit(1);
            const int fd = open(count, O_RDWR);
            if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) /* two holders at once */
                _exit(2);
            (void)usleep(300); /* long enough for a second holder to come */
            close(fd);
            sw_file_let_go(held);
            k++;
        }
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        CU_ASSERT(waitpid(pid[i], &status, 0) == pid[i] && status == 0);
    }
    CU_ASSERT_FALSE(sw_file_taken(lock));
}

/* A file that only has the name of a lock stays as it is. */
SW_TEST("other files of the name stay")
{
    sw_file *held = NULL;
    begin("other locks");
    saves_put(lock, "mine");
    CU_ASSERT_EQUAL(sw_file_hold(&held, path), SW_IO);
    SW_CHECK(strstr(sw_last_error(), ".lock: has 4 bytes, so it is no lock") != NULL, "%s",
             sw_last_error());
    CU_ASSERT(saves_has(lock, "mine") && unlink(lock) == 0);
    CU_ASSERT(mkdir(lock, 0700) == 0 && sw_file_hold(&held, path) == SW_IO);
    CU_ASSERT(rmdir(lock) == 0 && mkfifo(lock, 0600) == 0);
    CU_ASSERT_EQUAL(sw_file_hold(&held, path), SW_IO);
    SW_CHECK(strstr(sw_last_error(), ".lock: is no regular file") != NULL, "%s",
             sw_last_error());
    CU_ASSERT(unlink(lock) == 0 && held == NULL);
}

/* A lock is not removed once its name has gone to another process. */
SW_TEST("only its own lock is removed")
{
    sw_file *held = NULL, *next = NULL;
    begin("own");
    CU_ASSERT_EQUAL_FATAL(sw_file_hold(&held, path), SW_OK);
    CU_ASSERT_EQUAL(unlink(lock), 0);
    CU_ASSERT_EQUAL_FATAL(sw_file_hold(&next, path), SW_OK);
    sw_file_let_go(held);
    CU_ASSERT(sw_file_taken(lock));
    is_busy();
    sw_file_let_go(next);
    CU_ASSERT_FALSE(sw_file_taken(lock));
}

static sw_status hold_once(void *unused)
{
    sw_file *held = NULL;
    SW_TRY(sw_file_hold(&held, path));
    sw_file_drop(held);
    return SW_OK;
}

SW_TEST("every call of holding can fail")
{
    begin("hold sweep");
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_FILE, SW_IO, hold_once, NULL), 3); /* open, size, lock */
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, hold_once, NULL), 2);
}

/* ---- cutting ----------------------------------------------------------------------------- */

SW_TEST("a file is cut and goes on there")
{
    sw_file *file = NULL;
    begin("file cut");
    saves_put(path, "0123456789");
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_KEEP), SW_OK);
    CU_ASSERT_EQUAL(sw_file_cut(file, 4), SW_OK);
    CU_ASSERT(saves_has(path, "0123"));
    CU_ASSERT_EQUAL(sw_file_write(file, "ab", 2), SW_OK);
    CU_ASSERT(saves_has(path, "0123ab"));
    CU_ASSERT(sw_file_cut(file, 6) == SW_OK && saves_has(path, "0123ab"));
    CU_ASSERT_EQUAL(sw_file_cut(file, 7), SW_FORMAT);
    SW_CHECK(strstr(sw_last_error(), "/file cut: has 6 bytes, and cannot be cut to 7") != NULL,
             "%s", sw_last_error());
    CU_ASSERT(sw_file_write(file, "c", 1) == SW_OK && saves_has(path, "0123abc"));
    CU_ASSERT(sw_file_cut(file, 0) == SW_OK && saves_has(path, ""));
    sw_file_drop(file);
}

SW_TEST("a pipe cannot be cut")
{
    sw_file *file = NULL;
    begin("cut pipe");
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_KEEP), SW_OK);
    CU_ASSERT_EQUAL(sw_file_cut(file, 0), SW_FORMAT);
    SW_CHECK(strstr(sw_last_error(), "/cut pipe: is no regular file") != NULL, "%s",
             sw_last_error());
    sw_file_drop(file);
    close(reader);
}

static sw_status cut_once(void *unused)
{
    sw_file *file = NULL;
    SW_TRY(sw_file_open(&file, path, SW_FILE_KEEP));
    const sw_status status = sw_file_cut(file, 4);
    CU_ASSERT(saves_has(path, status == SW_OK ? "0123" : "0123456789"));
    saves_put(path, "0123456789");
    sw_file_drop(file);
    return status;
}

SW_TEST("cutting can fail")
{
    begin("cut sweep");
    saves_put(path, "0123456789");
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_FILE, SW_IO, cut_once, NULL), 2);
}

/* Nothing is held, which is noted, and no lock file stays. */
SW_TEST("without locks it is noted")
{
    sw_file *held = (sw_file *)path; /* any recognisable address */
    begin("no locks");
    sw_fault_plan(SW_FAULT_LOCK, 0, SW_FAULT_FROM);
    CU_ASSERT_EQUAL(sw_file_hold(&held, path), SW_OK);
    CU_ASSERT_PTR_NULL(held);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_note(), "no locks: the file system has no locks"));
    sw_fault_plan(SW_FAULT_LOCK, 0, SW_FAULT_OFF);
    CU_ASSERT_FALSE(sw_file_taken(lock));
    CU_ASSERT_EQUAL(sw_file_hold(&held, path), SW_OK);
    CU_ASSERT_STRING_EQUAL(sw_last_note(), "");
    sw_file_let_go(held);
}
