/* find_package(stepwell): projects of CMake against an installed tree, in C and in C++, with
 * the shared library and the static one, wherever the tree lies. */
#include "tests/packages/packages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] =
    "#include <stepwell.h>\n#include <stdio.h>\n"
    "int main(void) {\n"
    "    sw_exec *exec = NULL;\n"
    "    if (sw_exec_create(&exec, NULL) != SW_OK) { puts(sw_last_error()); return 1; }\n"
    "    sw_exec_destroy(exec);\n    puts(sw_version());\n    return 0;\n}\n";

/* LANGUAGES, REQUESTED and PARTS are given; a program for each language and part. */
static const char project[] =
    "cmake_minimum_required(VERSION 3.10)\n"
    "project(uses ${LANGUAGES})\n"
    "find_package(stepwell ${REQUESTED} REQUIRED COMPONENTS ${PARTS})\n"
    "find_package(stepwell ${REQUESTED} REQUIRED)\n" /* twice is fine */
    "foreach(language ${LANGUAGES})\n"
    "    string(REPLACE CXX cc ending ${language})\n"
    "    string(REPLACE C c ending ${ending})\n"
    "    foreach(part ${PARTS})\n"
    "        add_executable(${language}_${part} uses.${ending})\n"
    "        string(REPLACE shared stepwell target stepwell::${part})\n"
    "        string(REPLACE ::static ::stepwell_static target ${target})\n"
    "        target_link_libraries(${language}_${part} PRIVATE ${target})\n"
    "    endforeach()\n"
    "endforeach()\n";

static void write_project(void)
{
    CU_ASSERT_EQUAL_FATAL(sw_shell("mkdir -p '%s'", path_of("uses")), 0);
    CU_ASSERT(file_write(path_of("uses/CMakeLists.txt"), project, sizeof project - 1));
    CU_ASSERT(file_write(path_of("uses/uses.c"), program, sizeof program - 1));
    CU_ASSERT(file_write(path_of("uses/uses.cc"), program, sizeof program - 1));
}

/* CMake in a folder of its own, with the tree at `prefix`. */
static const package_answer *configure(const char *prefix, const char *languages,
                                       const char *wanted, const char *parts)
{
    return package_ask("rm -rf '%s' && cmake -S '%s' -B '%s' -DCMAKE_PREFIX_PATH='%s' "
                       "-DLANGUAGES='%s' -DREQUESTED='%s' -DPARTS='%s' -Wdev -Werror=dev",
                       path_of("uses-build"), path_of("uses"), path_of("uses-build"), prefix,
                       languages, wanted, parts);
}

static void builds_and_runs(const char *prefix, const char *languages, const char *parts)
{
    const package_answer *a = configure(prefix, languages, "0.1", parts);
    SW_CHECK(a->status == 0, "%s, %s: %s", languages, parts, a->text);
    a = package_ask("cmake --build '%s'", path_of("uses-build"));
    SW_CHECK(a->status == 0, "%s, %s: %s", languages, parts, a->text);
    char *list = strdup(languages), *rest = list;
    for (char *language; (language = strsep(&rest, ";")) != NULL;)
        for (int i = 0; i < 2; i++) {
            static const char *const part[] = {"shared", "static"};
            if (strstr(parts, part[i]) == NULL)
                continue;
            a = package_ask("'%s/%s_%s'", path_of("uses-build"), language, part[i]);
            SW_CHECK(a->status == 0 && strcmp(a->text, SW_VERSION "\n") == 0, "%s, %s: %s",
                     language, part[i], a->text);
        }
    free(list);
}

/* The tree lies below DESTDIR, and is moved to a folder with blanks in its name in between. */
static void projects_of_cmake_build(void)
{
    char prefix[1300], moved[1300];
    if (SANITIZED)
        SW_SKIP("the library is built with a sanitizer");
    if (!package_tool_is_here("cmake"))
        SW_SKIP("cmake is not installed");
    snprintf(prefix, sizeof prefix, "%s%s", package_tree(), package_prefix());
    snprintf(moved, sizeof moved, "%s", path_of("a moved tree"));
    write_project();
    const char *languages = package_tool_is_here("c++") ? "C;CXX" : "C";
    CU_ASSERT_EQUAL_FATAL(sw_shell("mv '%s' '%s'", prefix, moved), 0);
    builds_and_runs(moved, languages, "shared;static");
    CU_ASSERT_EQUAL_FATAL(sw_shell("mv '%s' '%s'", moved, prefix), 0);
    if (!sw_tests_full())
        return;
    builds_and_runs(prefix, "C", "shared");
    builds_and_runs(prefix, "CXX", "shared");
    builds_and_runs(prefix, "C", "static");
    builds_and_runs(prefix, "CXX", "static");
}

static void what_is_missing_is_named(void)
{
    static const struct {
        const char *remove, *wanted, *parts, *says; /* NULL: it is found */
    } cases[] = {
        {"nothing", "0.1", "shared", NULL},
        {"lib*/libstepwell.a", "", "shared", NULL},
        {"lib*/libstepwell.a", "", "static", "the static library is not in"},
        {"lib*/libstepwell.so*", "", "static", NULL},
        {"lib*/libstepwell.so*", "", "shared", "the shared library is not in"},
        {"lib*/libstepwell.*", "", "shared", "neither libstepwell.so." SW_VERSION " nor"},
        {"include/stepwell.h", "", "shared", "stepwell.h is not there"},
        {"nothing", "", "cuda", "a component is shared or static"},
        {"nothing", "99.1", "shared", "version: " SW_VERSION},
    };
    if (!package_tool_is_here("cmake"))
        SW_SKIP("cmake is not installed");
    char tree[1300];
    snprintf(tree, sizeof tree, "%s", path_of("broken tree"));
    write_project();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!sw_tests_full() && i != 2)
            continue;
        CU_ASSERT_EQUAL_FATAL(
            sw_shell("rm -rf '%s' && cp -a '%s%s' '%s' && cd '%s' && rm -f %s", tree,
                     package_tree(), package_prefix(), tree, tree, cases[i].remove),
            0);
        const package_answer *a = configure(tree, "C", cases[i].wanted, cases[i].parts);
        char *text = strdup(a->text); /* CMake breaks lines where it likes */
        for (char *c = text; *c != '\0'; c++)
            *c = *c == '\n' ? ' ' : *c;
        for (char *c; (c = strstr(text, "  ")) != NULL;)
            memmove(c, c + 1, strlen(c));
        SW_CHECK(cases[i].says == NULL ? a->status == 0
                                       : a->status != 0 && strstr(text, cases[i].says) != NULL,
                 "case %zu: status %d: %s", i, a->status, a->text);
        free(text);
    }
}

/* The file of the version alone, as CMake includes it. */
static void versions_fit_by_the_number_of_the_abi(void)
{
    static const struct {
        const char *asked; /* words that set what CMake sets */
        bool fits, exact;
    } cases[] = {
        {"", true, false},
        {"-DPACKAGE_FIND_VERSION=0.1 -DPACKAGE_FIND_VERSION_MAJOR=0", true, false},
        {"-DPACKAGE_FIND_VERSION=" SW_VERSION " -DPACKAGE_FIND_VERSION_MAJOR=0", true, true},
        {"-DPACKAGE_FIND_VERSION=0.999 -DPACKAGE_FIND_VERSION_MAJOR=0", false, false},
        {"-DPACKAGE_FIND_VERSION=1.0 -DPACKAGE_FIND_VERSION_MAJOR=1", false, false},
        {"-DPACKAGE_FIND_VERSION_RANGE=0.1...0.999 -DPACKAGE_FIND_VERSION_MIN_MAJOR=0 "
         "-DPACKAGE_FIND_VERSION_MIN=0.1 -DPACKAGE_FIND_VERSION_RANGE_MAX=INCLUDE "
         "-DPACKAGE_FIND_VERSION_MAX=0.999",
         true, false},
        {"-DPACKAGE_FIND_VERSION_RANGE='0.1...<" SW_VERSION
         "' -DPACKAGE_FIND_VERSION_MIN_MAJOR=0 "
         "-DPACKAGE_FIND_VERSION_MIN=0.1 -DPACKAGE_FIND_VERSION_RANGE_MAX=EXCLUDE "
         "-DPACKAGE_FIND_VERSION_MAX=" SW_VERSION,
         false, false},
        {"-DCMAKE_SIZEOF_VOID_P=2", false, false},
    };
    static const char script[] =
        "include(\"${FILE}\")\n"
        "if(PACKAGE_VERSION_UNSUITABLE)\n    set(PACKAGE_VERSION_COMPATIBLE FALSE)\nendif()\n"
        "message(\"${PACKAGE_VERSION_COMPATIBLE} ${PACKAGE_VERSION_EXACT}\")\n";
    if (!package_tool_is_here("cmake"))
        SW_SKIP("cmake is not installed");
    CU_ASSERT(file_write(path_of("version.cmake"), script, sizeof script - 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char must[32];
        const package_answer *a =
            package_ask("cmake -DFILE=\"$(find '%s' -name stepwell-config-version.cmake)\" %s "
                        "-P '%s'",
                        package_tree(), cases[i].asked, path_of("version.cmake"));
        snprintf(must, sizeof must, "%s %s\n", cases[i].fits ? "TRUE" : "FALSE",
                 cases[i].exact ? "TRUE" : "FALSE");
        SW_CHECK(a->status == 0 && strcmp(a->text, must) == 0, "%s: %s", cases[i].asked,
                 a->text);
    }
}

static const sw_test tests[] = {
    {"projects of CMake build, in C and C++", projects_of_cmake_build},
    {"what is missing is named", what_is_missing_is_named},
    {"versions fit by the number of the ABI", versions_fit_by_the_number_of_the_abi},
};
SW_SUITE("cmake", tests)
