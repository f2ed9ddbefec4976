/* Waiting for pipes inside the library: what sw_interrupt_set() ends, and what it does not. */
#include "alloc/base/fault.h"
#include "alloc/base/sys.h"
#include "tests/support/suite.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("waiting")

static atomic_int answer, questions;

static int asked(void)
{
    questions++;
    return answer;
}

static void begin(void *unused)
{
    answer = questions = 0;
    sw_interrupt_set(NULL);
}

/* Ask for the end when the wait has begun. */
static void interrupt_later(void *unused)
{
    while (questions < 3)
        usleep(1000);
    answer = 1;
}

static sw_thread *later(void)
{
    sw_thread *thread = NULL;
    begin(NULL);
    sw_after(begin, NULL);
    sw_interrupt_set(asked);
    CU_ASSERT_EQUAL(sw_thread_start(&thread, interrupt_later, NULL, "interrupt"), SW_OK);
    return thread;
}

static const char *pipe_of(const char *name)
{
    const char *path = sw_temp_path(name);
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    return path;
}

static void stopped(sw_status status, const char *path)
{
    CU_ASSERT_EQUAL(status, SW_STOPPED);
    SW_CHECK(strstr(sw_last_error(), path) != NULL &&
                 strstr(sw_last_error(), "interrupted") != NULL,
             "%s", sw_last_error());
}

SW_TEST("an open without a reader ends")
{
    const char *path = pipe_of("open");
    sw_file *file = NULL;
    sw_thread *thread = later();
    stopped(sw_file_open(&file, path, SW_FILE_WRITE), path);
    CU_ASSERT_PTR_NULL(file);
    sw_thread_join(thread);
}

SW_TEST("a read without a writer ends")
{
    const char *path = pipe_of("read");
    char text[4];
    size_t got = 7;
    sw_file *file = NULL;
    sw_thread *thread = later();
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_READ), SW_OK);
    stopped(sw_file_read(file, text, sizeof text, &got), path);
    CU_ASSERT_EQUAL(got, 7);
    sw_file_drop(file);
    sw_thread_join(thread);
}

SW_TEST("a write that no one takes ends")
{
    static const char block[1 << 20];
    const char *path = pipe_of("write");
    sw_file *file = NULL;
    const int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    sw_thread *thread = later();
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_WRITE), SW_OK);
    stopped(sw_file_write(file, block, sizeof block), path);
    sw_file_drop(file);
    sw_thread_join(thread);
    close(reader);
}

static void take_slowly(void *arg)
{
    static char text[1 << 16];
    size_t sum = 0;
    for (ssize_t n; (n = read(*(int *)arg, text, sizeof text)) > 0; sum += (size_t)n)
        usleep(20000);
    *(int *)arg = (int)sum;
}

/* A reader that is there gets all, although the end was asked for. */
SW_TEST("what is taken is written to the end")
{
    static const char block[1 << 20];
    const char *path = pipe_of("slow");
    sw_file *file = NULL;
    sw_thread *thread = NULL;
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    begin(NULL);
    sw_after(begin, NULL);
    sw_interrupt_set(asked);
    answer = 1;
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, path, SW_FILE_WRITE), SW_OK);
    CU_ASSERT_EQUAL(fcntl(reader, F_SETFL, 0), 0);
    const int fd = reader;
    CU_ASSERT_EQUAL(sw_thread_start(&thread, take_slowly, &reader, "reader"), SW_OK);
    CU_ASSERT_EQUAL(sw_file_write(file, block, sizeof block), SW_OK);
    CU_ASSERT_EQUAL(sw_file_close(file), SW_OK);
    sw_thread_join(thread);
    CU_ASSERT_EQUAL(reader, (int)sizeof block);
    close(fd);
}

/* Regular files are read and written whole, whatever was asked. */
SW_TEST("regular files know no interrupt")
{
    char text[4] = "";
    size_t got = 0;
    sw_file *file = NULL;
    begin(NULL);
    sw_after(begin, NULL);
    sw_interrupt_set(asked);
    answer = 1;
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, sw_temp_path("plain"), SW_FILE_WRITE), SW_OK);
    CU_ASSERT_EQUAL(sw_file_write(file, "abc", 3), SW_OK);
    CU_ASSERT_EQUAL(sw_file_close(file), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_file_open(&file, sw_temp_path("plain"), SW_FILE_READ), SW_OK);
    CU_ASSERT(sw_file_read(file, text, 3, &got) == SW_OK && got == 3);
    sw_file_drop(file);
    CU_ASSERT_EQUAL(questions, 0);
}

/* ---- the clock --------------------------------------------------------------------------- */

SW_TEST("our clock never goes back")
{
    uint64_t before = sw_clock_ns();
    for (int i = 0; i < 100; i++) {
        sw_fault_clock(i % 2 == 0 ? -1000000000 * (int64_t)i : 1000 * i);
        const uint64_t now = sw_clock_ns();
        CU_ASSERT(now >= before && now - before < 10000000000u);
        before = now;
    }
    sw_fault_clock(INT64_MIN); /* further than any machine has been up */
    CU_ASSERT(sw_clock_ns() == before);
    sw_fault_clock(0);
}
