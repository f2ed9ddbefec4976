/* The memory that a process may take: the machine's, and what the groups above it leave. */
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include "tools/job/machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void put_below(const char *root, const char *path, const char *text)
{
    char whole[2048];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *c = whole + strlen(root) + 1; *c != '\0'; c++)
        if (*c == '/') {
            *c = '\0';
            (void)mkdir(whole, 0700);
            *c = '/';
        }
    FILE *f = fopen(whole, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs(text, f);
    fclose(f);
}

/* The least of the groups above a process counts, and the machine where none has a limit. */
static void the_memory_is_what_the_groups_leave(void)
{
    char root[1024];
    snprintf(root, sizeof root, "%s", sw_temp_path("machine"));
    (void)mkdir(root, 0700);
    size_t machine, bytes;
    CU_ASSERT_EQUAL(machine_memory(root, &machine), SW_OK);
    CU_ASSERT(machine > (size_t)64 << 20);
    put_below(root, "/proc/self/cgroup",
              "12:cpu:/elsewhere\n0::/a/b\n3:memory:/c/d\nnonsense\n");
    put_below(root, "/sys/fs/cgroup/elsewhere/memory.max", "7\n");
    put_below(root, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    CU_ASSERT(machine_memory(root, &bytes) == SW_OK && bytes == machine);
    put_below(root, "/sys/fs/cgroup/memory/c/d/memory.limit_in_bytes", "9223372036854771712\n");
    CU_ASSERT(machine_memory(root, &bytes) == SW_OK && bytes == machine);
    put_below(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "60000000\n");
    CU_ASSERT(machine_memory(root, &bytes) == SW_OK && bytes == 60000000);
    put_below(root, "/sys/fs/cgroup/a/memory.max", "50000000\n");
    CU_ASSERT(machine_memory(root, &bytes) == SW_OK && bytes == 50000000);
    put_below(root, "/sys/fs/cgroup/memory.max", "40000000\n");
    CU_ASSERT(machine_memory(root, &bytes) == SW_OK && bytes == 40000000);
}

static sw_status ask_machine(void *root)
{
    size_t bytes;
    return machine_memory(root, &bytes);
}

static void a_limit_that_cannot_be_read_is_told(void)
{
    char root[1024];
    snprintf(root, sizeof root, "%s", sw_temp_path("machine"));
    (void)mkdir(root, 0700);
    put_below(root, "/proc/self/cgroup", "0::/a\n");
    put_below(root, "/sys/fs/cgroup/a/memory.max", "50000000\n");
    CU_ASSERT(sw_sweep(SW_FAULT_FILE, SW_IO, ask_machine, root) >= 4);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, ask_machine, root) >= 2);
}

static const sw_test tests[] = {
    {"the memory is what the groups leave", the_memory_is_what_the_groups_leave},
    {"a limit that cannot be read is told", a_limit_that_cannot_be_read_is_told},
};
SW_SUITE("machine", tests)
