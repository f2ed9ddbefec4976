/* The memory that a process may take: the machine's, and what the groups above it leave. */
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include "tools/job/machine.h"
#include <sys/stat.h>

SW_TESTS("machine")

static void put_below(char *root, const char *path, const char *text)
{
    char *whole = sw_textf("%s%s", root, path);
    for (char *c = whole + strlen(root) + 1; *c != '\0'; c++)
        if (*c == '/') {
            *c = '\0';
            (void)mkdir(whole, 0700);
            *c = '/';
        }
    sw_file_put(whole, text, strlen(text));
}

static size_t memory_of(char *root)
{
    machine m;
    CU_ASSERT_EQUAL(machine_memory(root, &m), SW_OK);
    CU_ASSERT_EQUAL(m.limit_unknown[0], '\0');
    return m.bytes;
}

/* The least of the groups above a process counts, and the machine where none has a limit. */
SW_TEST("the memory is what the groups leave")
{
    char *root = sw_temp_path("machine");
    (void)mkdir(root, 0700);
    const size_t whole = memory_of(root);
    CU_ASSERT(whole > (size_t)64 << 20);
    put_below(root, "/proc/self/cgroup",
              "12:cpu:/elsewhere\n0::/a/b\n3:memory:/c/d\nnonsense\n");
    put_below(root, "/sys/fs/cgroup/elsewhere/memory.max", "7\n");
    put_below(root, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    CU_ASSERT_EQUAL(memory_of(root), whole);
    put_below(root, "/sys/fs/cgroup/memory/c/d/memory.limit_in_bytes", "9223372036854771712\n");
    CU_ASSERT_EQUAL(memory_of(root), whole);
    put_below(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "60000000\n");
    CU_ASSERT_EQUAL(memory_of(root), 60000000);
    put_below(root, "/sys/fs/cgroup/a/memory.max", "50000000\n");
    CU_ASSERT_EQUAL(memory_of(root), 50000000);
    put_below(root, "/sys/fs/cgroup/memory.max", "40000000\n");
    CU_ASSERT_EQUAL(memory_of(root), 40000000);
}

static sw_status ask_machine(void *root)
{
    machine m;
    return machine_memory(root, &m);
}

/* Each file operation fails in turn: the limit that was not read is unknown, by the name of its
 * file, and the others count. */
SW_TEST("a limit that cannot be read is unknown")
{
    char *root = sw_temp_path("unread");
    (void)mkdir(root, 0700);
    const size_t whole = memory_of(root);
    put_below(root, "/proc/self/cgroup", "0::/a\n");
    put_below(root, "/sys/fs/cgroup/a/memory.max", "40000000\n");
    put_below(root, "/sys/fs/cgroup/memory.max", "50000000\n");
    int unknown = 0, seen[3] = {0};
    for (uint64_t k = 0, hits = 1; hits > 0; k++) {
        machine m;
        sw_fault_plan(SW_FAULT_FILE, k, SW_FAULT_ONCE);
        CU_ASSERT_EQUAL_FATAL(machine_memory(root, &m), SW_OK);
        hits = sw_fault_hits(SW_FAULT_FILE);
        sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
        const char *said = m.limit_unknown;
        const bool list = strstr(said, "/proc/self/cgroup: ") != NULL,
                   inner = strstr(said, "/a/memory.max: ") != NULL,
                   outer = strstr(said, "/cgroup/memory.max: ") != NULL;
        const size_t wanted = list ? whole : inner ? 50000000 : 40000000;
        SW_CHECK(m.bytes == wanted && list + inner + outer == (hits > 0),
                 "call %d: %zu bytes: %s", (int)k, m.bytes, said);
        unknown += said[0] != '\0';
        seen[0] += list;
        seen[1] += inner;
        seen[2] += outer;
    }
    CU_ASSERT(unknown >= 9 && seen[0] >= 3 && seen[1] >= 3 && seen[2] >= 3);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, ask_machine, root) >= 2);
}

/* A path that is not a file, as the system itself refuses it. */
SW_TEST("a limit that is a folder is unknown")
{
    machine m;
    char *root = sw_temp_path("limit-folder");
    (void)mkdir(root, 0700);
    put_below(root, "/proc/self/cgroup", "0::/a\n");
    put_below(root, "/sys/fs/cgroup/a/memory.max/x", "");
    put_below(root, "/sys/fs/cgroup/memory.max", "50000000\n");
    CU_ASSERT(machine_memory(root, &m) == SW_OK && m.bytes == 50000000);
    CU_ASSERT(strstr(m.limit_unknown, "/a/memory.max: Is a directory") != NULL);
}

/* A group's use counts without the files that it would give up; a use that is not there is not
 * known. */
SW_TEST("what is left is the least of the machine and its groups")
{
    machine m;
    char *root = sw_temp_path("left");
    (void)mkdir(root, 0700);
    CU_ASSERT(machine_left(root, &m) == SW_OK &&
              strstr(m.limit_unknown, "/proc/meminfo: ") != NULL);
    put_below(root, "/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n");
    CU_ASSERT(machine_left(root, &m) == SW_OK && m.limit_unknown[0] == '\0');
    CU_ASSERT(m.left == 5000 * 1024 && !m.group);
    put_below(root, "/proc/self/cgroup", "0::/a\n3:memory:/c\n");
    put_below(root, "/sys/fs/cgroup/a/memory.max", "4000000\n");
    CU_ASSERT(machine_left(root, &m) == SW_OK &&
              strstr(m.limit_unknown, "/a/memory.current: no number") != NULL);
    put_below(root, "/sys/fs/cgroup/a/memory.current", "1500000\n");
    CU_ASSERT(machine_left(root, &m) == SW_OK &&
              strstr(m.limit_unknown, "memory.stat: no number after inactive_file") != NULL);
    put_below(root, "/sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 500000\n");
    CU_ASSERT(machine_left(root, &m) == SW_OK && m.limit_unknown[0] == '\0');
    CU_ASSERT(m.left == 3000000 && m.group && m.bytes == 4000000);
    put_below(root, "/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "2000000\n");
    put_below(root, "/sys/fs/cgroup/memory/c/memory.usage_in_bytes", "2500000\n");
    put_below(root, "/sys/fs/cgroup/memory/c/memory.stat", "total_inactive_file 100000\n");
    CU_ASSERT(machine_left(root, &m) == SW_OK && m.left == 0 && m.bytes == 2000000);
}
