/* The first page of the guide: each of its answers is three commands that work, with what is
 * installed, in an empty folder. */
#include "tests/packages/packages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One request of 1,000 bytes in a segment of 2 MiB, as PyTorch records it. */
static const char snapshot[] =
    "{\"segments\": [{\"device\": 0, \"address\": 1048576, \"total_size\": 2097152, "
    "\"stream\": 0, \"segment_type\": \"small\", \"allocated_size\": 1024, \"active_size\": "
    "1024, \"blocks\": [{\"address\": 1048576, \"size\": 1024, \"requested_size\": 1000, "
    "\"state\": \"active_allocated\"}, {\"address\": 1049600, \"size\": 2096128, \"state\": "
    "\"inactive\"}]}], \"device_traces\": [[{\"action\": \"segment_alloc\", \"addr\": 1048576, "
    "\"size\": 2097152, \"stream\": 0}, {\"action\": \"alloc\", \"addr\": 1048576, \"size\": "
    "1000, \"stream\": 0}]]}";

/* The commands' folder: the source's folders lie in it, and a file for pkg-config that names
 * the installed tree. */
static void make_folder(const char *folder)
{
    CU_ASSERT_EQUAL_FATAL(
        sw_shell("mkdir '%s' && ln -s '%s/tools' '%s/tests' '%s' && sed 's|^prefix=.*|prefix=%s"
                 "%s|' '%s%s'/*/pkgconfig/stepwell.pc '%s%s'/*/*/pkgconfig/stepwell.pc "
                 ">'%s/stepwell.pc'; test -s '%s/stepwell.pc'",
                 folder, sw_source_root(), sw_source_root(), folder, package_tree(),
                 package_prefix(), package_tree(), package_prefix(), package_tree(),
                 package_prefix(), folder, folder),
        0);
}

/* NULL, or why these commands are not for this build, this machine or a quick run. */
static const char *left_out(const char *commands)
{
    if (!sw_tests_full() &&
        (strstr(commands, "--members") != NULL || strstr(commands, "evolve") != NULL))
        return "full runs it";
    if (strncmp(commands, "cp ", 3) == 0 && SANITIZED)
        return "a program of others cannot link a sanitized library";
    if (strstr(commands, "\nc++ ") != NULL && !package_tool_is_here("c++"))
        return "c++";
    if (strstr(commands, "python3") != NULL && (SANITIZED || !package_tool_is_here("python3")))
        return "python3";
    return strstr(commands, "pkg-config") != NULL && !package_tool_is_here("pkg-config")
               ? "pkg-config"
               : NULL;
}

static void each_answer_is_three_commands_that_work(void)
{
    static const char begin[] = "\n```sh\n";
    char path[1200], folder[600];
    size_t n;
    int answers = 0, ran = 0;
    snprintf(path, sizeof path, "%s/tools/docs/README.md", sw_source_root());
    char *page = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(page);
    sw_after(free, page);
    snprintf(folder, sizeof folder, "%s", path_of("first-page"));
    make_folder(folder);
    snprintf(path, sizeof path, "%s/snapshot.pickle", folder);
    CU_ASSERT(file_write(path, snapshot, sizeof snapshot - 1));
    for (char *at = page; (at = strstr(at, begin)) != NULL; answers++) {
        char *last = strstr(at += sizeof begin - 1, "\n```\n");
        int lines = 1;
        CU_ASSERT_PTR_NOT_NULL_FATAL(last);
        *last = '\0';
        for (const char *line = at; (line = strchr(line, '\n')) != NULL; line++)
            lines++;
        SW_CHECK(lines == 3, "%d commands: %s", lines, at);
        const char *why = left_out(at);
        if (why == NULL) {
            const package_answer *a = package_ask(
                "cd '%s' && export PATH='%s%s/bin':\"$PATH\" PKG_CONFIG_PATH=\"$PWD\" "
                "LD_LIBRARY_PATH=\"$(PKG_CONFIG_PATH=$PWD pkg-config --variable=libdir "
                "stepwell)\" && set -e\n%s",
                folder, package_tree(), package_prefix(), at);
            SW_CHECK(a->status == 0, "%s: %s", at, a->text);
            ran++;
        } else
            sw_note("left out (%s): %.40s", why, at);
        at = last + 1;
    }
    CU_ASSERT(answers == 9 && ran >= 5);
}

static const sw_test tests[] = {
    {"each answer is three commands that work", each_answer_is_three_commands_that_work},
};
SW_SUITE("first page", tests)
