/* Planned failures: which call fails, what text means, and the error of a thread. */
#include "alloc/base/fault.h"
#include "alloc/base/mem.h"
#include "tests/support/suite.h"
#include <pthread.h>
#include <string.h>

SW_TESTS("fault")

static void all_off(void *unused)
{
    (void)unused;
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
