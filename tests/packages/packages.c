#include "tests/packages/packages.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool package_tool_is_here(const char *tool)
{
    return sw_shell("command -v %s", tool) == 0;
}

const char *package_tree(void)
{
    static char tree[1024];
    if (tree[0] == '\0') {
        snprintf(tree, sizeof tree, "%s", sw_temp_path("tree"));
        CU_ASSERT_EQUAL_FATAL(sw_shell("meson install -C '%s' --no-rebuild --destdir '%s'",
                                       sw_build_root(), tree),
                              0);
    }
    return tree;
}

const char *package_prefix(void)
{
    return SW_PREFIX;
}

const package_answer *package_ask(const char *format, ...)
{
    static package_answer answer;
    char line[8192], path[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    snprintf(path, sizeof path, "%s", sw_temp_path("answer"));
    answer.status = sw_shell("{ %s\n} > '%s' 2>&1", line, path);
    FILE *file = fopen(path, "rb");
    const size_t n = file != NULL ? fread(answer.text, 1, sizeof answer.text - 1, file) : 0;
    answer.text[n] = '\0';
    if (file != NULL)
        fclose(file);
    return &answer;
}
