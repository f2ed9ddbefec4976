/* The list of what a real device has checked: what it says today, and that it notices changes.
 */
#include "tests/cuda/device_list.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include <stdio.h>
#include <string.h>

SW_TESTS("device list")

static sw_device_list list, other;

/* All kernels, as they are before anything was read or marked: nm reads them once. */
static bool kernels(const char **why)
{
    static sw_device_list all;
    static bool read;
    read = read || sw_device_list_kernels(&all, why);
    list = all;
    return read;
}

/* The names of one state, in lines. */
static void show(sw_device_state state, const char *what)
{
    char line[100] = "";
    int n = 0;
    for (int i = 0; i < list.n; i++)
        n += sw_device_row_state(&list.row[i]) == state;
    sw_note("%s: %d of %d", what, n, list.n);
    for (int i = 0; i < list.n; i++) {
        if (sw_device_row_state(&list.row[i]) != state)
            continue;
        const size_t used = strlen(line);
        if (used + strlen(list.row[i].op) + 2 > sizeof line) {
            sw_note("   %s", line);
            line[0] = '\0';
        }
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s ", list.row[i].op);
    }
    if (line[0] != '\0')
        sw_note("   %s", line);
}

SW_TEST("what no device has checked is shown")
{
    const char *why;
    if (!kernels(&why))
        SW_SKIP(why);
    CU_ASSERT(sw_device_list_read(&list, SW_DEVICE_LIST));
    show(SW_DEVICE_NEVER, "never on a device");
    show(SW_DEVICE_CHANGED, "changed since they were on a device");
    show(SW_DEVICE_CHECKED, "checked on a device as they are");
    CU_ASSERT(list.n > 50);
}

static void write_text(const char *name, const char *text)
{
    sw_file_put(sw_temp_path(name), text, strlen(text));
}

static uint64_t hash_of(const char *unit, const char *header)
{
    char root[1024];
    write_text("unit.cu", unit);
    write_text("part.h", header);
    snprintf(root, sizeof root, "%s", sw_temp_path("unit.cu"));
    *strrchr(root, '/') = '\0';
    return sw_device_hash(0, root, "unit.cu");
}

SW_TEST("a changed source has another hash, and a comment has not")
{
    static const char unit[] = "#include \"part.h\"\n#include <none.h>\nint a = 1; /* one */\n";
    const uint64_t was = hash_of(unit, "#include \"unit.cu\"\nint b;\n");
    CU_ASSERT(was != 0);
    CU_ASSERT_EQUAL(hash_of(unit, "#include \"unit.cu\"\nint b;\n"), was);
    CU_ASSERT_EQUAL(hash_of("#include \"part.h\"\n#include <none.h>\nint a =  1;  // two\n",
                            "#include \"unit.cu\"\n/* three */ int b;\n"),
                    was);
    CU_ASSERT_NOT_EQUAL(hash_of("#include \"part.h\"\n#include <none.h>\nint a = 2;\n",
                                "#include \"unit.cu\"\nint b;\n"),
                        was);
    CU_ASSERT_NOT_EQUAL(hash_of(unit, "#include \"unit.cu\"\nint c;\n"), was);
    CU_ASSERT_EQUAL(hash_of("#include \"missing.h\"\n", ""), 0);
}

SW_TEST("every kernel is of a file, and includes count")
{
    const char *why;
    if (!kernels(&why))
        SW_SKIP(why);
    for (int i = 0; i < list.n; i++)
        SW_CHECK(list.row[i].units[0] != '\0' && strlen(list.row[i].now) == 16, "%s: '%s', %s",
                 list.row[i].op, list.row[i].units, list.row[i].now);
    const uint64_t rows = sw_device_hash(0, SW_SOURCE_ROOT, "kernels/cuda/rows.cu");
    CU_ASSERT(rows != 0 && rows != sw_device_hash(0, SW_SOURCE_ROOT, "kernels/cuda/device.h"));
}

SW_TEST("a check is kept until its sources change")
{
    const char *why;
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("DEVICE.md"));
    if (!kernels(&why))
        SW_SKIP(why);
    other = list;
    sw_device_row *first = &list.row[0];
    CU_ASSERT_STRING_EQUAL(first->op, "relu");
    CU_ASSERT_EQUAL(sw_device_row_state(first), SW_DEVICE_NEVER);
    CU_ASSERT(sw_device_list_mark(&list, "relu", "2031-02-03", "a|card", "600.1"));
    CU_ASSERT(!sw_device_list_mark(&list, "no_such_op", "2031-02-03", "card", "600.1"));
    CU_ASSERT_EQUAL(sw_device_row_state(first), SW_DEVICE_CHECKED);
    CU_ASSERT(sw_device_list_write(&list, path));
    CU_ASSERT(sw_device_list_read(&other, path));
    CU_ASSERT_EQUAL(sw_device_row_state(&other.row[0]), SW_DEVICE_CHECKED);
    CU_ASSERT_STRING_EQUAL(other.row[0].card, "a/card");
    CU_ASSERT_STRING_EQUAL(other.row[0].date, "2031-02-03");
    CU_ASSERT_EQUAL(sw_device_row_state(&other.row[1]), SW_DEVICE_NEVER);
    other.row[0].now[3] ^= 1;
    CU_ASSERT_EQUAL(sw_device_row_state(&other.row[0]), SW_DEVICE_CHANGED);
    write_text("DEVICE.md", "|---|\n| relu | unary | 12 | 2031-02-03 | card | 1 |\n");
    CU_ASSERT(!sw_device_list_read(&other, path));
    write_text("DEVICE.md", "|---|\n| relu | unary |\n");
    CU_ASSERT(!sw_device_list_read(&other, path));
    CU_ASSERT(!sw_device_list_read(&other, sw_temp_path("none.md")));
}
