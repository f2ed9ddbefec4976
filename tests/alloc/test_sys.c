/* The file, thread and library tables: what they do, how each call fails, and what messages
 * say. */
#include "alloc/base/sys.h"
#include "alloc/base/fault.h"
#include "alloc/base/mem.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("sys")

static void no_faults(void *unused)
{
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
}

static sw_status write_file(const char *path, sw_file_mode mode, const void *bytes, size_t n)
{
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, mode));
    const sw_status status = sw_file_write(file, bytes, n);
    if (status == SW_OK)
        return sw_file_close(file);
    sw_file_drop(file);
    return status;
}

static sw_status read_file(const char *path, void *to, size_t bytes, size_t *got)
{
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status = sw_file_read(file, to, bytes, got);
    sw_file_drop(file);
    return status;
}

SW_TEST("what was written is read back")
{
    const char *path = sw_temp_path("round trip");
    char text[64];
    size_t got = 0;
    uint64_t bytes = 0;
    sw_file *file;
    CU_ASSERT_EQUAL_FATAL(write_file(path, SW_FILE_WRITE, "0123456789abc", 13), SW_OK);
    CU_ASSERT_EQUAL(read_file(path, text, sizeof text, &got), SW_OK);
    CU_ASSERT_EQUAL(got, 13);
    CU_ASSERT_EQUAL(memcmp(text, "0123456789abc", 13), 0);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_READ), SW_OK);
    CU_ASSERT_STRING_EQUAL(sw_file_path(file), path);
    CU_ASSERT(sw_file_size(file, &bytes) == SW_OK && bytes == 13);
    CU_ASSERT(sw_file_seek(file, 8) == SW_OK && sw_file_read(file, text, 4, &got) == SW_OK &&
              got == 4);
    CU_ASSERT_EQUAL(memcmp(text, "89ab", 4), 0);
    CU_ASSERT(sw_file_read(file, text, 4, &got) == SW_OK && got == 1);
    CU_ASSERT(sw_file_read(file, text, 4, &got) == SW_OK && got == 0);
    CU_ASSERT(sw_file_seek(file, UINT64_MAX) == SW_IO);
    CU_ASSERT_EQUAL(sw_file_close(file), SW_OK);
    CU_ASSERT_EQUAL(write_file(path, SW_FILE_WRITE, "x", 1), SW_OK); /* truncates */
    CU_ASSERT(read_file(path, text, sizeof text, &got) == SW_OK && got == 1);
}

SW_TEST("messages name the path and the reason; outputs stay")
{
    sw_file *file = (sw_file *)(void *)&file, *const before = file;
    const char *missing = sw_temp_path("no such file"), *folder = sw_temp_path("");
    CU_ASSERT_EQUAL(sw_file_open(&file, missing, SW_FILE_READ), SW_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), missing));
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "No such file"));
    CU_ASSERT_EQUAL(sw_file_open(&file, folder, SW_FILE_READ), SW_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), folder));
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "directory"));
    CU_ASSERT_EQUAL(sw_file_open(&file, folder, SW_FILE_WRITE), SW_IO);
    CU_ASSERT_EQUAL(sw_file_open(&file, sw_temp_path("no folder/file"), SW_FILE_WRITE), SW_IO);
    CU_ASSERT_PTR_EQUAL(file, before);
    CU_ASSERT_EQUAL(sw_file_remove(missing), SW_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), missing));
    CU_ASSERT_EQUAL(sw_file_rename(missing, sw_temp_path("target")), SW_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "target"));
}

/* A name may go to another file while the first one is open. */
SW_TEST("a file is known again under its name")
{
    const char *path = sw_temp_path("known"), *moved = sw_temp_path("known before");
    sw_file *file;
    CU_ASSERT_EQUAL(write_file(path, SW_FILE_WRITE, "a", 1), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_READ), SW_OK);
    CU_ASSERT_TRUE(sw_file_is(file, path));
    CU_ASSERT_EQUAL(sw_file_rename(path, moved), SW_OK);
    CU_ASSERT(!sw_file_is(file, path) && sw_file_is(file, moved));
    CU_ASSERT_EQUAL(write_file(path, SW_FILE_WRITE, "a", 1), SW_OK);
    CU_ASSERT(!sw_file_is(file, path) && sw_file_is(file, moved));
    sw_file_drop(file);
}

typedef struct {
    int seen, most;
    char names[256];
} folder_names;

static bool take_name(void *context, const char *name)
{
    folder_names *f = context;
    snprintf(f->names + strlen(f->names), sizeof f->names - strlen(f->names), " %s ", name);
    return ++f->seen < f->most;
}

SW_TEST("a folder is gone through")
{
    folder_names all = {.most = 9}, one = {.most = 1};
    char path[1100];
    const char *folder = sw_temp_path("a folder");
    CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%c", folder, 'x' + i);
        CU_ASSERT_EQUAL(write_file(path, SW_FILE_WRITE, "", 0), SW_OK);
    }
    CU_ASSERT(sw_folder_for_each(folder, take_name, &all) == SW_OK && all.seen == 3);
    CU_ASSERT(strstr(all.names, " x ") != NULL && strstr(all.names, " y ") != NULL &&
              strstr(all.names, " z ") != NULL);
    CU_ASSERT(sw_folder_for_each(folder, take_name, &one) == SW_OK && one.seen == 1);
    CU_ASSERT_EQUAL(sw_folder_for_each(path, take_name, &one), SW_IO);
    CU_ASSERT(strstr(sw_last_error(), path) != NULL && one.seen == 1);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_ONCE);
    CU_ASSERT_EQUAL(sw_folder_for_each(folder, take_name, &one), SW_IO);
    no_faults(NULL);
}

SW_TEST("a full disk is reported")
{
    sw_file *file;
    if (access("/dev/full", W_OK) != 0)
        SW_SKIP("no /dev/full here");
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, "/dev/full", SW_FILE_WRITE), SW_OK);
    CU_ASSERT_EQUAL(sw_file_write(file, "x", 1), SW_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "/dev/full: No space"));
    sw_file_drop(file);
}

static sw_status every_file_call(void *unused)
{
    const char *path = sw_temp_path("sweep"), *moved = sw_temp_path("swept");
    char text[4];
    size_t got;
    uint64_t bytes;
    sw_file *file = NULL;
    sw_status status = sw_file_open(&file, path, SW_FILE_WRITE);
    if (status != SW_OK)
        return status;
    status = sw_file_write(file, "abc", 3);
    if (status == SW_OK)
        status = sw_file_sync(file);
    if (status != SW_OK) {
        sw_file_drop(file);
        return status;
    }
    SW_TRY(sw_file_close(file));
    SW_TRY(sw_file_rename(path, moved));
    SW_TRY(sw_file_open(&file, moved, SW_FILE_READ));
    status = sw_file_size(file, &bytes);
    if (status == SW_OK)
        status = sw_file_seek(file, 0);
    if (status == SW_OK)
        status = sw_file_read(file, text, 3, &got);
    sw_file_drop(file);
    if (status == SW_OK)
        status = sw_file_remove(moved);
    if (status != SW_OK) /* every failure names one of the two */
        SW_CHECK(strstr(sw_last_error(), "swe") != NULL, "%s", sw_last_error());
    return status;
}

/* A name that cannot be looked at does not count as free. */
SW_TEST("a name is taken, free or unknown")
{
    bool taken = false;
    CU_ASSERT_EQUAL(symlink("leads nowhere", sw_temp_path("dangling")), 0);
    CU_ASSERT_EQUAL(write_file(sw_temp_path("regular"), SW_FILE_WRITE, "", 0), SW_OK);
    CU_ASSERT(sw_file_look(sw_temp_path("dangling"), &taken) == SW_OK && taken);
    CU_ASSERT(sw_file_look(sw_temp_path("free"), &taken) == SW_OK && !taken);
    CU_ASSERT(sw_file_look(sw_temp_path("regular"), &taken) == SW_OK && taken);
    CU_ASSERT(sw_file_look(sw_temp_path("regular/in it"), &taken) == SW_OK && !taken);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_ONCE);
    const sw_status unseen = sw_file_look(sw_temp_path("regular"), &taken);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
    CU_ASSERT(unseen == SW_IO && !taken);
}

SW_TEST("every file call can fail, names a path and leaks nothing")
{
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_FILE, SW_IO, every_file_call, NULL), 10);
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, every_file_call, NULL), 2);
}

SW_TEST("a close that fails still closes")
{
    sw_file *file;
    sw_after(no_faults, NULL);
    const uint64_t blocks = sw_heap_blocks();
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, sw_temp_path("closing"), SW_FILE_WRITE), SW_OK);
    const int next = dup(0); /* the descriptor after the file's */
    close(next);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_ONCE);
    CU_ASSERT_EQUAL(sw_file_close(file), SW_IO);
    const int reused = dup(0);
    CU_ASSERT(reused < next);
    close(reused);
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    CU_ASSERT_EQUAL(sw_file_close(NULL), SW_OK);
    sw_file_drop(NULL);
}

static void write_slowly(void *arg)
{
    const int fd = *(int *)arg;
    for (int i = 0; i < 10; i++) {
        char part[7];
        memset(part, 'a' + i, sizeof part);
        if (write(fd, part, sizeof part) != sizeof part)
            break;
        usleep(1000);
    }
    close(fd);
}

SW_TEST("short reads are joined until the end")
{
    const char *path = sw_temp_path("pipe");
    char text[100];
    size_t got = 0;
    sw_thread *thread = NULL;
    sw_file *file;
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    int both = open(path, O_RDWR); /* so that neither side waits at open */
    CU_ASSERT_FATAL(both >= 0);
    int writer = open(path, O_WRONLY);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_READ), SW_OK);
    close(both);
    CU_ASSERT_EQUAL_FATAL(sw_thread_start(&thread, write_slowly, &writer, "writer"), SW_OK);
    CU_ASSERT_EQUAL(sw_file_read(file, text, 50, &got), SW_OK);
    CU_ASSERT_EQUAL(got, 50);
    CU_ASSERT_EQUAL(text[0], 'a');
    CU_ASSERT_EQUAL(text[49], 'h');
    CU_ASSERT_EQUAL(sw_file_read(file, text, 50, &got), SW_OK);
    CU_ASSERT_EQUAL(got, 20); /* the end */
    sw_thread_join(thread);
    CU_ASSERT_EQUAL(sw_file_close(file), SW_OK);
}

SW_TEST("a dash is standard output, which stays open")
{
    const char *path = sw_temp_path("stdout");
    char text[32] = {0};
    size_t got = 0;
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO), fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CU_ASSERT_FATAL(kept >= 0 && fd >= 0);
    dup2(fd, STDOUT_FILENO);
    const sw_status first = write_file("-", SW_FILE_WRITE, "one ", 4);
    const sw_status second =
        write_file("-", SW_FILE_WRITE, "two", 3); /* closing leaves it open */
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(fd);
    CU_ASSERT_EQUAL(first, SW_OK);
    CU_ASSERT_EQUAL(second, SW_OK);
    CU_ASSERT_EQUAL(read_file(path, text, sizeof text - 1, &got), SW_OK);
    CU_ASSERT_STRING_EQUAL(text, "one two");
    CU_ASSERT_EQUAL(read_file("-", text, 1, &got),
                    SW_IO); /* no such file: only writing knows it */
}

SW_TEST("a dash that takes nothing is named")
{
    const int kept = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
    if (full < 0) {
        close(kept);
        SW_SKIP("no /dev/full here");
    }
    fflush(stdout);
    dup2(full, STDOUT_FILENO);
    const sw_status status = write_file("-", SW_FILE_WRITE, "one ", 4);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(full);
    CU_ASSERT_EQUAL(status, SW_IO);
    SW_CHECK(strncmp(sw_last_error(), "standard output: ", 17) == 0, "%s", sw_last_error());
}

static void add_one(void *arg)
{
    ++*(int *)arg;
}

static sw_status start_and_join(void *arg)
{
    sw_thread *thread;
    SW_TRY(sw_thread_start(&thread, add_one, arg,
                           "a name that is longer than the system's fifteen"));
    sw_thread_join(thread);
    return SW_OK;
}

SW_TEST("threads start, join and fail")
{
    int runs = 0;
    CU_ASSERT_EQUAL(start_and_join(&runs), SW_OK);
    CU_ASSERT_EQUAL(runs, 1);
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_THREAD, SW_IO, start_and_join, &runs), 1);
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, start_and_join, &runs), 1);
    CU_ASSERT_EQUAL(runs, 5); /* failed ones did not run */
    sw_thread_join(NULL);
}

static sw_status open_library(void *unused)
{
    void *library, *symbol;
    SW_TRY(sw_library_open(&library, "libc.so.6"));
    SW_TRY(sw_library_symbol(library, "strlen", &symbol));
    return symbol != NULL ? SW_OK : SW_INVALID;
}

SW_TEST("libraries open, and fail by name")
{
    void *library = NULL, *symbol = &library;
    CU_ASSERT_EQUAL(sw_library_open(&library, "libno-such-thing.so.9"), SW_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "libno-such-thing.so.9"));
    CU_ASSERT_PTR_NULL(library);
    CU_ASSERT_EQUAL_FATAL(sw_library_open(&library, "libc.so.6"), SW_OK);
    CU_ASSERT_EQUAL(sw_library_symbol(library, "no_such_symbol", &symbol), SW_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "no_such_symbol"));
    CU_ASSERT_PTR_EQUAL(symbol, &library);
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_LIBRARY, SW_UNSUPPORTED, open_library, NULL), 2);
}

/* Of the library or program that an address is in, links resolved. */
SW_TEST("the file of code is found")
{
    char path[4096] = "?", small[2] = "?", own[4096] = "";
    CU_ASSERT_EQUAL(sw_library_path((const void *)(uintptr_t)sw_clock_ns, path, sizeof path),
                    SW_OK);
    const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    CU_ASSERT(n > 0);
    CU_ASSERT_STRING_EQUAL(path, own);
    CU_ASSERT_EQUAL(sw_library_path((const void *)(uintptr_t)getpid, path, sizeof path), SW_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(path, "libc"));
    CU_ASSERT_EQUAL(path[0], '/');
    CU_ASSERT_EQUAL(sw_library_path((const void *)(uintptr_t)getpid, small, sizeof small),
                    SW_IO);
    CU_ASSERT_STRING_EQUAL(small, "?");
    CU_ASSERT_EQUAL(sw_library_path(NULL, path, sizeof path), SW_IO);
}

SW_TEST("the clock goes forward")
{
    const uint64_t before = sw_clock_ns();
    usleep(2000);
    const uint64_t after = sw_clock_ns();
    CU_ASSERT(after - before >= 2000000);
    CU_ASSERT(after - before < 60000000000u);
}
