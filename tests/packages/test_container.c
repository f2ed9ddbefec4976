/* tools/packages/Containerfile, as far as no container is needed: what it copies is there and
 * is enough, and the image has the libraries that the program is linked with. */
#include "tests/packages/packages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "tools/packages/Containerfile"

static char *recipe(void)
{
    char path[1100];
    size_t n;
    snprintf(path, sizeof path, "%s/" FILE_NAME, sw_source_root());
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    sw_after(free, text);
    return text;
}

/* The packages that the last line with apt-get in it, or the first, installs. */
static void packages_of(const char *text, bool last, char *to, size_t room)
{
    static const char words[] = "--no-install-recommends ";
    const char *at = strstr(text, words), *next;
    while (last && at != NULL && (next = strstr(at + 1, words)) != NULL)
        at = next;
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at += sizeof words - 1;
    snprintf(to, room, " %.*s ", (int)strcspn(at, "\n&"), at);
}

/* Every folder and file that meson reads: a copy of them alone is configured, in full mode. */
static void what_is_copied_is_there_and_enough(void)
{
    char *text = recipe(), *line, *rest = text, all[2000] = "";
    int n = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strncmp(line, "COPY ", 5) != 0 || strncmp(line, "COPY --from", 11) == 0)
            continue;
        char *words = line + 5, *word;
        while ((word = strsep(&words, " ")) != NULL && words != NULL) {
            SW_CHECK(sw_shell("test -e '%s/%s'", sw_source_root(), word) == 0, "%s", word);
            snprintf(all + strlen(all), sizeof all - strlen(all), " %s", word);
            n++;
        }
    }
    CU_ASSERT_EQUAL(n, 7);
    if (!sw_tests_full() || SANITIZED)
        return;
    const package_answer *a = package_ask(
        "mkdir '%s' && cd '%s' && cp -r%s '%s' && cd '%s' && "
        "meson setup ../copied-build -Dtests=disabled -Dcuda=disabled -Ddocs=disabled",
        path_of("copied"), sw_source_root(), all, path_of("copied"), path_of("copied"));
    SW_CHECK(a->status == 0, "%s", a->text);
}

/* The image is built with all that tools/try installs, except tools for tests. */
static void it_is_built_with_what_tools_try_installs(void)
{
    char packages[600];
    packages_of(recipe(), false, packages, sizeof packages);
    const package_answer *a = package_ask(
        "sed -n \"s/.*printf ' \\([a-z0-9.-]*\\)'.*/\\1/p\" '%s/tools/try' | sort -u",
        sw_source_root());
    CU_ASSERT_EQUAL_FATAL(a->status, 0);
    char *list = strdup(a->text), *rest = list, *word;
    int n = 0;
    while ((word = strsep(&rest, "\n")) != NULL) {
        char find[100];
        if (*word == '\0' || strcmp(word, "g++") == 0 || strcmp(word, "libcunit1-dev") == 0)
            continue;
        snprintf(find, sizeof find, " %s ", word);
        SW_CHECK(strstr(packages, find) != NULL, "%s is not in%s", word, packages);
        n++;
    }
    CU_ASSERT(n >= 8);
    free(list);
}

/* The system says which package a library is of; the C library is in every image. */
static void the_image_has_the_libraries_of_the_program(void)
{
    char packages[600];
    if (!package_tool_is_here("dpkg-query") || !package_tool_is_here("objdump"))
        SW_SKIP("dpkg-query or objdump is not installed");
    if (SANITIZED)
        SW_SKIP("the program is linked with a sanitizer");
    packages_of(recipe(), true, packages, sizeof packages);
    const package_answer *a = package_ask("dpkg-query -S $(objdump -p '%s/tools/stepwell' | "
                                          "sed -n 's:.*NEEDED *:*/*-linux-gnu*/:p') | "
                                          "awk -F: '{ name = $NF; sub(\".*/\", \"\", name); if "
                                          "(!seen[name]++) print $1 }' | sort -u",
                                          sw_build_root());
    CU_ASSERT_EQUAL_FATAL(a->status, 0);
    char *list = strdup(a->text), *rest = list, *word;
    while ((word = strsep(&rest, "\n")) != NULL) {
        char find[100];
        snprintf(find, sizeof find, " %s ", word);
        if (*word != '\0' && strcmp(word, "libc6") != 0)
            SW_CHECK(strstr(packages, find) != NULL, "%s is not in%s", word, packages);
    }
    free(list);
}

/* Each RUN line is one that a shell reads. */
static void its_commands_are_commands(void)
{
    char *rest = recipe(), *line;
    int n = 0;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (strncmp(line, "RUN ", 4) == 0) {
            SW_CHECK(sw_shell("sh -n -c '%s'", line + 4) == 0, "%s", line);
            n++;
        }
    CU_ASSERT_EQUAL(n, 6);
}

static const sw_test tests[] = {
    {"what is copied is there and enough", what_is_copied_is_there_and_enough},
    {"it is built with what tools/try installs", it_is_built_with_what_tools_try_installs},
    {"the image has the libraries of the program", the_image_has_the_libraries_of_the_program},
    {"its commands are commands", its_commands_are_commands},
};
SW_SUITE("container", tests)
