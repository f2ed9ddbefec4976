/* The allocation table: counts, zeroed and aligned blocks, ranges, and failures that change
 * nothing. */
#include "alloc/base/mem.h"
#include "alloc/base/fault.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("mem")

static void no_faults(void *unused)
{
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
}

static bool is_zero(const void *block, size_t bytes)
{
    const unsigned char *p = block;
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != 0)
            return false;
    return true;
}

SW_TEST("blocks are zeroed, aligned and counted")
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 4096, 100000, (size_t)5 << 20};
    for (int heap = 0; heap < SW_HEAP_KINDS; heap++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const sw_heap h = (sw_heap)heap;
            sw_heap_stats before, during, after;
            void *block = NULL;
            sw_heap_read(h, &before);
            CU_ASSERT_EQUAL_FATAL(sw_heap_alloc(&block, h, sizes[i]), SW_OK);
            sw_heap_read(h, &during);
            CU_ASSERT_PTR_NOT_NULL(block);
            CU_ASSERT_EQUAL((uintptr_t)block % 16, 0);
            CU_ASSERT(is_zero(block, sizes[i]));
            CU_ASSERT_EQUAL(during.blocks, before.blocks + 1);
            CU_ASSERT_EQUAL(during.bytes, before.bytes + sizes[i]);
            CU_ASSERT_EQUAL(during.allocations, before.allocations + 1);
            CU_ASSERT(during.peak_bytes >= during.bytes);
            memset(block, 0xaa, sizes[i]);
            sw_heap_free(block, h, sizes[i]);
            sw_heap_read(h, &after);
            CU_ASSERT_EQUAL(after.blocks, before.blocks);
            CU_ASSERT_EQUAL(after.bytes, before.bytes);
            CU_ASSERT(after.peak_bytes >= before.bytes + sizes[i]);
        }
    sw_heap_free(NULL, SW_HEAP_RECORDS, 100);
}

SW_TEST("a reused block is zero again")
{
    for (int round = 0; round < 50; round++) {
        void *block = NULL;
        CU_ASSERT_EQUAL_FATAL(sw_heap_alloc(&block, SW_HEAP_FILES, 300), SW_OK);
        CU_ASSERT(is_zero(block, 300));
        memset(block, 0xff, 300);
        sw_heap_free(block, SW_HEAP_FILES, 300);
    }
}

SW_TEST("resize keeps what fits and zeroes the rest")
{
    void *block = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_heap_resize(&block, SW_HEAP_FILES, 0, 10), SW_OK);
    memcpy(block, "0123456789", 10);
    CU_ASSERT_EQUAL_FATAL(sw_heap_resize(&block, SW_HEAP_FILES, 10, 5000), SW_OK);
    CU_ASSERT_EQUAL(memcmp(block, "0123456789", 10), 0);
    CU_ASSERT(is_zero((char *)block + 10, 4990));
    CU_ASSERT_EQUAL_FATAL(sw_heap_resize(&block, SW_HEAP_FILES, 5000, 4), SW_OK);
    CU_ASSERT_EQUAL(memcmp(block, "0123", 4), 0);
    sw_heap_stats stats;
    sw_heap_read(SW_HEAP_FILES, &stats);
    CU_ASSERT_EQUAL(stats.bytes, 4);
    CU_ASSERT_EQUAL(stats.blocks, 1);
    sw_heap_free(block, SW_HEAP_FILES, 4);
}

SW_TEST("a failure leaves block, output and counts as before")
{
    void *block = NULL, *other = &block;
    sw_heap_stats before, after;
    sw_after(no_faults, NULL);
    CU_ASSERT_EQUAL_FATAL(sw_heap_alloc(&block, SW_HEAP_RECORDS, 100), SW_OK);
    memset(block, 0x5a, 100);
    sw_heap_read(SW_HEAP_RECORDS, &before);
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_FROM);
    void *const kept = block;
    CU_ASSERT_EQUAL(sw_heap_alloc(&other, SW_HEAP_RECORDS, 12345), SW_NOMEM);
    CU_ASSERT_PTR_EQUAL(other, &block);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "12,345"));
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "records"));
    CU_ASSERT_EQUAL(sw_heap_resize(&block, SW_HEAP_RECORDS, 100, 200), SW_NOMEM);
    CU_ASSERT_PTR_EQUAL(block, kept);
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
    sw_heap_read(SW_HEAP_RECORDS, &after);
    CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof after), 0);
    for (int i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(((unsigned char *)block)[i], 0x5a);
    sw_heap_free(block, SW_HEAP_RECORDS, 100);
}

SW_TEST("an impossible size is an ordinary answer")
{
    void *block = &block;
    CU_ASSERT_EQUAL(sw_heap_alloc(&block, SW_HEAP_DATASETS, SIZE_MAX / 2), SW_NOMEM);
    CU_ASSERT_PTR_EQUAL(block, &block);
    CU_ASSERT_EQUAL(sw_range_reserve(&block, (size_t)1 << 62), SW_NOMEM);
    CU_ASSERT_PTR_EQUAL(block, &block);
    CU_ASSERT_EQUAL(sw_range_reserve(&block, 0), SW_NOMEM);
}

static void *churn(void *unused)
{
    for (int i = 0; i < 2000; i++) {
        void *block;
        if (sw_heap_alloc(&block, SW_HEAP_PROFILE, (size_t)i) == SW_OK)
            sw_heap_free(block, SW_HEAP_PROFILE, (size_t)i);
    }
    return NULL;
}

SW_TEST("counts are right with several threads")
{
    pthread_t threads[4];
    sw_heap_stats before, after;
    sw_heap_read(SW_HEAP_PROFILE, &before);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    sw_heap_read(SW_HEAP_PROFILE, &after);
    CU_ASSERT_EQUAL(after.blocks, before.blocks);
    CU_ASSERT_EQUAL(after.bytes, before.bytes);
    CU_ASSERT_EQUAL(after.allocations, before.allocations + 8000);
}

/* Whether one byte can be written there, tried in a child of its own. */
static bool writable(unsigned char *at)
{
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's report would only be noise */
        signal(SIGBUS, SIG_DFL);
        *(volatile unsigned char *)at = 1;
        _exit(0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

SW_TEST("ranges are reachable only where committed")
{
    const size_t page = sw_page_bytes();
    void *base = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_range_reserve(&base, 4 * page), SW_OK);
    unsigned char *at = base;
    CU_ASSERT(!writable(at));
    CU_ASSERT_EQUAL_FATAL(sw_range_commit(base, 0, 2 * page), SW_OK);
    CU_ASSERT(is_zero(at, 2 * page));
    CU_ASSERT(writable(at + 2 * page - 1));
    CU_ASSERT(!writable(at + 2 * page));
    memset(at, 0xee, 2 * page);
    CU_ASSERT_EQUAL(sw_range_commit(base, 2 * page, 3 * page), SW_OK);
    CU_ASSERT(is_zero(at + 2 * page, page));
    CU_ASSERT_EQUAL(at[2 * page - 1], 0xee);
    sw_range_release(base, 4 * page);
    sw_range_release(NULL, page);
}

static sw_status use_everything(void *unused)
{
    void *block = NULL, *range;
    const size_t page = sw_page_bytes();
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, 64));
    sw_status status = sw_heap_resize(&block, SW_HEAP_RECORDS, 64, 128);
    const size_t bytes = status == SW_OK ? 128 : 64;
    if (status == SW_OK)
        status = sw_range_reserve(&range, page);
    if (status == SW_OK) {
        status = sw_range_commit(range, 0, page);
        sw_range_release(range, page);
    }
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}

SW_TEST("every call of the table can fail")
{
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, use_everything, NULL), 4);
}

SW_TEST("calls are counted in both directions")
{
    const uint64_t before = sw_mem_calls();
    CU_ASSERT_EQUAL(use_everything(NULL), SW_OK);
    CU_ASSERT_EQUAL(sw_mem_calls() - before,
                    2 + 4 + 1); /* resize is an allocation and a free */
}

SW_TEST("what others gave is counted with its purpose")
{
    char block[64];
    sw_heap_stats before, now;
    sw_heap_read(SW_HEAP_PINNED, &before);
    const uint64_t calls = sw_mem_calls();
    sw_heap_note(block, SW_HEAP_PINNED, sizeof block);
    sw_heap_read(SW_HEAP_PINNED, &now);
    CU_ASSERT_EQUAL(now.bytes, before.bytes + sizeof block);
    CU_ASSERT_EQUAL(now.blocks, before.blocks + 1);
    CU_ASSERT(now.peak_bytes >= now.bytes);
    sw_heap_note_end(NULL, SW_HEAP_PINNED, 64);
    sw_heap_note_end(block, SW_HEAP_PINNED, sizeof block);
    sw_heap_read(SW_HEAP_PINNED, &now);
    CU_ASSERT_EQUAL(now.bytes, before.bytes);
    CU_ASSERT_EQUAL(now.blocks, before.blocks);
    CU_ASSERT_EQUAL(sw_mem_calls() - calls, 2); /* a step that takes one is seen to */
}

SW_TEST("heaps and the backend have names")
{
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        for (int j = 0; j < i; j++)
            CU_ASSERT_STRING_NOT_EQUAL(sw_heap_name((sw_heap)i), sw_heap_name((sw_heap)j));
    CU_ASSERT_STRING_EQUAL(sw_heap_name(SW_HEAP_KINDS), "?");
    CU_ASSERT(strcmp(sw_heap_backend(), "malloc") == 0 ||
              strncmp(sw_heap_backend(), "jemalloc ", 9) == 0);
    sw_note("heap backend: %s", sw_heap_backend());
}

/* ---- fault --------------------------------------------------------------------------------
 */

/* Planned failures: which call fails, what text means, and the error of a thread. */
static void all_off(void *unused)
{
    for (int kind = 0; kind < SW_FAULT_KINDS; kind++)
        sw_fault_plan((sw_fault_kind)kind, 0, SW_FAULT_OFF);
}

/* Bit i of the answer: call i failed. */
static unsigned pattern(sw_fault_kind kind, int calls)
{
    unsigned bits = 0;
    for (int i = 0; i < calls; i++)
        bits |= (unsigned)swi_fault_hit(kind) << i;
    return bits;
}

SW_TEST("once fails that call, from fails it and the rest")
{
    sw_after(all_off, NULL);
    for (int kind = 0; kind < SW_FAULT_KINDS; kind++) {
        const sw_fault_kind k = (sw_fault_kind)kind;
        sw_fault_plan(k, 0, SW_FAULT_ONCE);
        CU_ASSERT_EQUAL(pattern(k, 6), 0x01);
        sw_fault_plan(k, 3, SW_FAULT_ONCE);
        CU_ASSERT_EQUAL(pattern(k, 6), 0x08);
        sw_fault_plan(k, 3, SW_FAULT_FROM);
        CU_ASSERT_EQUAL(sw_fault_hits(k), 0);
        CU_ASSERT_EQUAL(pattern(k, 6), 0x38);
        CU_ASSERT_EQUAL(sw_fault_calls(k), 6);
        CU_ASSERT_EQUAL(sw_fault_hits(k), 3);
        sw_fault_plan(k, 0, SW_FAULT_OFF);
        CU_ASSERT_EQUAL(sw_fault_calls(k), 0);
        CU_ASSERT_EQUAL(pattern(k, 6), 0);
        CU_ASSERT_EQUAL(sw_fault_calls(k), 6);
    }
}

SW_TEST("a plan for one kind leaves the others alone")
{
    sw_after(all_off, NULL);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_FROM);
    CU_ASSERT_EQUAL(pattern(SW_FAULT_MEMORY, 3), 0);
    CU_ASSERT_EQUAL(pattern(SW_FAULT_THREAD, 3), 0);
    CU_ASSERT_EQUAL(pattern(SW_FAULT_FILE, 3), 7);
}

SW_TEST("plans are read from text")
{
    sw_after(all_off, NULL);
    CU_ASSERT_EQUAL(sw_fault_parse("memory:2"), SW_OK);
    CU_ASSERT_EQUAL(pattern(SW_FAULT_MEMORY, 5), 0x04);
    CU_ASSERT_EQUAL(sw_fault_parse("file:1+"), SW_OK);
    CU_ASSERT_EQUAL(pattern(SW_FAULT_FILE, 4), 0x0e);
    CU_ASSERT_EQUAL(sw_fault_parse("thread:0"), SW_OK);
    CU_ASSERT_EQUAL(pattern(SW_FAULT_THREAD, 2), 0x01);
    CU_ASSERT_EQUAL(sw_fault_parse("library:18446744073709551615"), SW_OK);
    CU_ASSERT_EQUAL(pattern(SW_FAULT_LIBRARY, 5), 0);
    CU_ASSERT_EQUAL(sw_fault_parse("memory:count"), SW_OK);
    CU_ASSERT_EQUAL(pattern(SW_FAULT_MEMORY, 5), 0);
    CU_ASSERT_EQUAL(sw_fault_calls(SW_FAULT_MEMORY), 5);
}

SW_TEST("bad text is refused, named, and changes no plan")
{
    static const char *const bad[] =
        SW_INIT("", "memory", "memory:", "memory:x", "memory:1x", "memory:-1", "memory:+1",
                "memory: 1", "Memory:1", "memories:1", "disk:1", "memory:1++", "memory:1 ",
                "memory:18446744073709551616", "memory:counts", ":1", "memory:count+");
    sw_after(all_off, NULL);
    sw_fault_plan(SW_FAULT_MEMORY, 1, SW_FAULT_ONCE);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        SW_CHECK(sw_fault_parse(bad[i]) == SW_INVALID, "'%s'", bad[i]);
        SW_CHECK(strstr(sw_last_error(), bad[i]) != NULL, "'%s': %s", bad[i], sw_last_error());
    }
    CU_ASSERT_EQUAL(pattern(SW_FAULT_MEMORY, 4), 0x02);
}

static void *fail_elsewhere(void *out)
{
    const bool silent = sw_last_error()[0] == '\0';
    (void)sw_error_set(SW_IO, "file", 1, "another thread's %d", 7);
    *(bool *)out = silent && strcmp(sw_last_error(), "another thread's 7") == 0;
    return NULL;
}

SW_TEST("errors belong to a thread and stay on one line")
{
    pthread_t thread;
    bool apart = false;
    CU_ASSERT_EQUAL(sw_error_set(SW_FORMAT, "file", 1, "two\nlines\r%d", 5), SW_FORMAT);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "two lines 5");
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, fail_elsewhere, &apart), 0);
    pthread_join(thread, NULL);
    CU_ASSERT(apart);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "two lines 5");
    (void)sw_error_set(SW_NOMEM, "file", 1, "conv1: %s",
                       sw_last_error()); /* the message before is an argument */
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "conv1: two lines 5");
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    (void)sw_error_set(SW_NOMEM, "file", 1, "%s", longer);
    CU_ASSERT(strlen(sw_last_error()) > 200 && strlen(sw_last_error()) < sizeof longer - 1);
}

SW_TEST("every status and kind of failure has a name")
{
    static const char *const names[] = {"ok",          "invalid", "nomem", "format", "io",
                                        "unsupported", "stale",   "busy",  "device", "stopped"};
    for (int s = SW_OK; s <= SW_STOPPED; s++)
        CU_ASSERT_STRING_EQUAL(sw_status_name((sw_status)s), names[s]);
    CU_ASSERT_STRING_EQUAL(sw_status_name((sw_status)(SW_STOPPED + 1)), "?");
    CU_ASSERT_STRING_EQUAL(sw_status_name((sw_status)-1), "?");
    CU_ASSERT_STRING_EQUAL(sw_fault_kind_name(SW_FAULT_LIBRARY), "library");
    CU_ASSERT_STRING_EQUAL(sw_fault_kind_name(SW_FAULT_LOCK), "lock");
    CU_ASSERT_STRING_EQUAL(sw_fault_kind_name(SW_FAULT_KINDS), "?");
}
