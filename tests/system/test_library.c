/* The library as a user meets it: what it exports, its name, its header in C and C++. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *library(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/runtime/libstepwell.so", sw_build_root());
    return path;
}

/* The output of a shell line, or NULL when it failed. Give back by free(). */
static char *shell_output(const char *line)
{
    char path[1024];
    size_t n;
    snprintf(path, sizeof path, "%s", sw_temp_path("shell-output"));
    return sw_shell("%s > '%s'", line, path) == 0 ? (char *)file_read(path, &n) : NULL;
}

/* The status of a pipeline is its last command's, so each tool is looked for by itself. */
static bool installed_here(const char *tool)
{
    return sw_shell("command -v %s", tool) == 0;
}

/* The exported names, one per line, without versions; NULL, and a failed test, without any. */
static char *exported(void)
{
    char line[1300];
    snprintf(
        line, sizeof line,
        "nm -D --defined-only '%s' | grep -v ' A ' | awk '{ sub(/@.*/, \"\", $3); print $3 }'",
        library());
    char *names = shell_output(line);
    CU_ASSERT(names != NULL && *names != '\0');
    return names;
}

static void only_public_names_leave_the_library(void)
{
    if (!installed_here("nm"))
        SW_SKIP("nm is not installed");
    char *names = exported();
    CU_ASSERT_PTR_NOT_NULL_FATAL(names);
    sw_after(free, names);
    int n = 0;
    for (char *name = strtok(names, "\n"); name != NULL; name = strtok(NULL, "\n"), n++)
        SW_CHECK(strncmp(name, "sw_", 3) == 0, "%s is exported", name);
    CU_ASSERT(n > 50);
    sw_note("%d exported names", n);
}

/* Whether `name` stands as a whole line in `names`. */
static bool has_line(const char *names, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(names, name); at != NULL; at = strstr(at + 1, name))
        if ((at == names || at[-1] == '\n') && at[n] == '\n')
            return true;
    return false;
}

/* The header as it is installed. */
static char *header_text(void)
{
    char path[1024];
    size_t n;
    snprintf(path, sizeof path, "%s/runtime/installed/stepwell.h", sw_build_root());
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    sw_after(free, text);
    return text;
}

/* Every function that the header declares with SW_API is in `names`; returns how many. */
static int check_header(const char *names)
{
    int functions = 0;
    char *text = header_text();
    for (char *at = strstr(text, "SW_API "); at != NULL; at = strstr(at + 1, "SW_API ")) {
        if (at > text && at[-1] != '\n' && strncmp(at - 12, "SW_MUST_USE ", 12) != 0)
            continue;
        const char *end = strchr(at, '(');
        if (end == NULL)
            break;
        const char *begin = end;
        while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')
            begin--;
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)(end - begin), begin);
        if (strncmp(name, "sw_", 3) != 0)
            continue;
        functions++;
        SW_CHECK(has_line(names, name), "%s is declared and not exported", name);
    }
    return functions;
}

static void every_public_function_is_there(void)
{
    if (!installed_here("nm"))
        SW_SKIP("nm is not installed");
    char *names = exported();
    CU_ASSERT_PTR_NOT_NULL_FATAL(names);
    sw_after(free, names);
    const int n = check_header(names);
    CU_ASSERT(n > 100);
    sw_note("%d public functions", n);
}

static void the_soname_has_the_abi_number(void)
{
    char line[1200];
    if (!installed_here("objdump"))
        SW_SKIP("objdump is not installed");
    snprintf(line, sizeof line, "objdump -p '%s' | awk '/SONAME/ { print $2 }'", library());
    char *name = shell_output(line);
    CU_ASSERT_PTR_NOT_NULL_FATAL(name);
    CU_ASSERT_STRING_EQUAL(name, "libstepwell.so.0\n");
    free(name);
}

/* Nor what only tools read JSON with. */
static void the_library_needs_no_device_and_no_blas(void)
{
    char line[1200];
    if (!installed_here("objdump"))
        SW_SKIP("objdump is not installed");
    snprintf(line, sizeof line, "objdump -p '%s' | grep NEEDED", library());
    char *needed = shell_output(line);
    CU_ASSERT_PTR_NOT_NULL_FATAL(needed);
    CU_ASSERT_PTR_NOT_NULL(strstr(needed, "libc."));
    CU_ASSERT_PTR_NULL(strstr(needed, "cuda"));
    CU_ASSERT_PTR_NULL(strstr(needed, "blas"));
    free(needed);
}

static void the_header_is_c_and_cpp(void)
{
    static const char twice[] =
        "#include <stepwell.h>\n#include <stepwell.h>\nint main(void) { return 0; }\n";
    const char *root = sw_source_root();
    CU_ASSERT(file_write(sw_temp_path("h.c"), twice, sizeof twice - 1));
    CU_ASSERT_EQUAL(sw_shell("cc -std=c11 -fsyntax-only -Wall -Wextra -Wpedantic -Werror "
                             "-I'%s' -I'%s/runtime' '%s'",
                             root, root, sw_temp_path("h.c")),
                    0);
    if (sw_shell("c++ --version") != 0)
        SW_SKIP("no C++ compiler is installed");
    CU_ASSERT_EQUAL(sw_shell("c++ -x c++ -std=c++11 -fsyntax-only -Wall -Wextra -Werror -I'%s' "
                             "-I'%s/runtime' '%s'",
                             root, root, sw_temp_path("h.c")),
                    0);
}

/* Each object that a function of the C header destroys has its owner in the one for C++. */
static void every_object_has_an_owner(void)
{
    char path[1024];
    size_t n;
    int objects = 0;
    const char *c = header_text();
    snprintf(path, sizeof path, "%s/runtime/installed/stepwell.hpp", sw_source_root());
    char *cpp = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(cpp);
    sw_after(free, cpp);
    for (const char *at = strstr(c, "_destroy(sw_"); at != NULL;
         at = strstr(at + 1, "_destroy(sw_")) {
        char name[64], end[160], owner[160];
        CU_ASSERT_FATAL(sscanf(at, "_destroy(sw_%63[a-z_]", name) == 1);
        snprintf(end, sizeof end, "_destroy(sw_%s *", name);
        if (strncmp(at, end, strlen(end)) != 0)
            continue;
        objects++;
        snprintf(end, sizeof end, "\nSTEPWELL_OWNED(sw_%s)", name);
        snprintf(owner, sizeof owner, "\nusing %s = owner<sw_%s>;", name, name);
        SW_CHECK((strstr(cpp, end) != NULL || strcmp(name, "profile") == 0) &&
                     strstr(cpp, owner) != NULL,
                 "sw_%s has no owner in stepwell.hpp", name);
    }
    CU_ASSERT(objects >= 17);
}

static const sw_test tests[] = {
    {"only public names leave the library", only_public_names_leave_the_library},
    {"every public function is there", every_public_function_is_there},
    {"the SONAME has the number of the ABI", the_soname_has_the_abi_number},
    {"the library needs no device and no BLAS to start",
     the_library_needs_no_device_and_no_blas},
    {"the header is C11 and C++", the_header_is_c_and_cpp},
    {"every object has an owner in C++", every_object_has_an_owner},
};
SW_SUITE("library", tests)
