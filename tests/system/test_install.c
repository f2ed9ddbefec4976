/* The library as a user meets it: what it exports, its name, its header in C and C++, and
 * programs built against an installed tree with nothing but pkg-config. */
#include "runtime/base/checksum.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <ctype.h>
#include <dirent.h>
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

/* ---- installed --------------------------------------------------------------------------- */

static char installed[1024], pkg[2600],
    lib[1200]; /* the tree, pkg-config with its settings, its libraries */

/* Installs once; false where that cannot be done here. */
static bool install(void)
{
    static int state; /* 0: not tried */
    if (state == 0) {
        snprintf(installed, sizeof installed, "%s", sw_temp_path("installed"));
        state = sw_shell("meson install -C '%s' --no-rebuild --destdir '%s'", sw_build_root(),
                         installed) == 0
                    ? 1
                    : -1;
        char line[1200];
        snprintf(line, sizeof line, "dirname $(find '%s' -name stepwell.pc)", installed);
        char *folder = state == 1 ? shell_output(line) : NULL;
        if (folder == NULL) {
            state = -1;
            return false;
        }
        folder[strcspn(folder, "\n")] = '\0';
        snprintf(pkg, sizeof pkg, "PKG_CONFIG_SYSROOT_DIR='%s' PKG_CONFIG_PATH='%s' pkg-config",
                 installed, folder);
        snprintf(lib, sizeof lib, "%s/..", folder);
        free(folder);
    }
    return state == 1;
}

static void an_installed_tree_is_whole(void)
{
    CU_ASSERT_FATAL(install());
    CU_ASSERT_EQUAL(sw_shell("test \"$(%s --modversion stepwell)\" = " SW_VERSION, pkg), 0);
    CU_ASSERT_EQUAL(sw_shell("test -x \"$(find '%s' -path '*bin/stepwell')\"", installed), 0);
    CU_ASSERT_EQUAL(sw_shell("\"$(find '%s' -path '*bin/stepwell')\" --version", installed), 0);
    CU_ASSERT_EQUAL(
        sw_shell("test 15 = \"$(find '%s' -path '*/man1/stepwell*.1' -size +1 | wc -l)\"",
                 installed),
        0);
    CU_ASSERT_EQUAL(sw_shell("test 1 = \"$(find '%s' -path '*/share/*' -name '*stepwell*' "
                             "! -path '*/man1/*' -type f -size +1 | wc -l)\"",
                             installed),
                    0);
    CU_ASSERT_EQUAL(sw_shell("\"$(find '%s' -path '*bin/stepwell')\" bench --help", installed),
                    0);
    CU_ASSERT_EQUAL(sw_shell("test -f '%s/libstepwell.a' -a -L '%s/libstepwell.so'", lib, lib),
                    0);
}

/* The Python package finds library and program beside it, with no variable that names them. */
static void the_python_package_works_installed(void)
{
    if (SANITIZED)
        SW_SKIP("the library is built with a sanitizer");
    if (!installed_here("python3"))
        SW_SKIP("python3 is not installed");
    CU_ASSERT_FATAL(install());
    CU_ASSERT_EQUAL(
        sw_shell("env -u STEPWELL -u STEPWELL_LIBRARY PYTHONDONTWRITEBYTECODE=1 "
                 "PYTHONPATH=\"$(dirname "
                 "$(find '%s' -path '*/stepwell/python/pyproject.toml'))\" python3 -c \""
                 "import stepwell as sw; assert sw.sw_version() == '" SW_VERSION "'; "
                 "from stepwell import library as loaded; assert '%s' in loaded()._name; "
                 "assert sw.plan(model='lenet5', batch=8)['batch'] == 8\"",
                 installed, installed),
        0);
}

static const char program[] =
    "#include <stepwell.h>\n#include <stdio.h>\n"
    "int main(void) {\n"
    "    sw_exec_opts options = {sizeof options};\n    sw_exec *exec;\n"
    "    if (sw_exec_create(&exec, &options) != SW_OK) { puts(sw_last_error()); return 1; }\n"
    "    sw_exec_destroy(exec);\n    puts(sw_version());\n    return 0;\n}\n";

static void a_program_builds_with_pkg_config_alone(void)
{
    static sw_outcome outcome;
    if (SANITIZED)
        SW_SKIP("the library is built with a sanitizer");
    CU_ASSERT_FATAL(install());
    CU_ASSERT(file_write(sw_temp_path("prog.c"), program, sizeof program - 1));
    CU_ASSERT_EQUAL_FATAL(sw_shell("cc '%s' -o '%s' $(%s --cflags --libs stepwell)",
                                   sw_temp_path("prog.c"), sw_temp_path("prog"), pkg),
                          0);
    char path[1300];
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", lib);
    const char *const argv[] = {sw_temp_path("prog"), NULL}, *const env[] = {path, NULL};
    sw_process_run(&outcome, argv, env, 60);
    SW_CHECK(outcome.status == 0, "%s%s", outcome.out, outcome.err);
    CU_ASSERT_STRING_EQUAL(outcome.out, SW_VERSION "\n");
    /* Neither is anything asked for that only a static link needs. */
    CU_ASSERT_EQUAL(sw_shell("PKG_CONFIG_LIBDIR=/nowhere %s --cflags --libs stepwell", pkg), 0);
}

static const char on_a_card[] =
    "#include <stepwell.h>\n#include <stdio.h>\n"
    "int main(void) {\n"
    "    sw_exec_opts options = {sizeof options};\n    sw_exec *exec = NULL;\n"
    "    options.device = \"cuda\";\n"
    "    if (sw_exec_create(&exec, &options) != SW_OK) puts(sw_last_error());\n"
    "    sw_exec_destroy(exec);\n    return 0;\n}\n";

/* Built here it is found, and says what is missing besides; otherwise where it was looked for.
 */
static void finds_the_module(const sw_outcome *outcome, const char *text)
{
    const bool built =
        sw_shell("test -f '%s/kernels/cuda/libstepwell-cuda.so'", sw_build_root()) == 0;
    const bool found = strstr(text, "no CUDA module") == NULL;
    SW_CHECK(outcome->signal == 0 && found == built &&
                 (built || strstr(text, "stepwell/libstepwell-cuda.so") != NULL),
             "built %d: %s", built, text);
}

/* By the program, which has the library inside, and by a program with the shared library. */
static void the_cuda_module_is_found_installed(void)
{
    static sw_outcome outcome;
    char path[1300], found[1300];
    CU_ASSERT_FATAL(install());
    snprintf(path, sizeof path, "find '%s' -path '*bin/stepwell'", installed);
    char *where = shell_output(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(where);
    snprintf(found, sizeof found, "%.*s", (int)strcspn(where, "\n"), where);
    free(where);
    const char *const argv[] = {found, "train", "--device", "cuda", "--steps", "1", NULL};
    sw_process_run(&outcome, argv, NULL, 60);
    finds_the_module(&outcome, outcome.err);
    if (SANITIZED)
        SW_SKIP("the library is built with a sanitizer");
    CU_ASSERT(file_write(sw_temp_path("card.c"), on_a_card, sizeof on_a_card - 1));
    CU_ASSERT_EQUAL_FATAL(sw_shell("cc '%s' -o '%s' $(%s --cflags --libs stepwell)",
                                   sw_temp_path("card.c"), sw_temp_path("card"), pkg),
                          0);
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", lib);
    const char *const again[] = {sw_temp_path("card"), NULL}, *const env[] = {path, NULL};
    sw_process_run(&outcome, again, env, 60);
    CU_ASSERT_EQUAL(outcome.status, 0);
    finds_the_module(&outcome, outcome.out);
}

/* libstepwell.a in the program, and everything else too where the system has it as archives.
 * Both find no shared library of ours. */
static void a_program_links_statically(void)
{
    static sw_outcome outcome;
    static const char *const ways[] = {"", "-static"};
    if (SANITIZED)
        SW_SKIP("the library is built with a sanitizer");
    CU_ASSERT_FATAL(install());
    for (int i = 0; i < 2; i++) {
        char all[4000], path[1024];
        snprintf(path, sizeof path, "%s", sw_temp_path("static"));
        snprintf(all, sizeof all, "$(%s --cflags --static --libs stepwell)", pkg);
        CU_ASSERT(file_write(sw_temp_path("empty.c"), "int main(void){return 0;}", 25));
        if (i == 1 && sw_shell("cc %s '%s' -o '%s' $(echo \"%s\" | sed s/-lstepwell//)",
                               ways[i], sw_temp_path("empty.c"), path, all) != 0) {
            sw_note("no archives of the C library, or of what the library uses");
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(sw_shell("cc %s '%s/tools/examples/mlp.c' -o '%s' "
                                       "$(echo \"%s\" | sed s/-lstepwell/-l:libstepwell.a/)",
                                       ways[i], sw_source_root(), path, all),
                              0);
        const char *const argv[] = {path, NULL};
        sw_process_run(&outcome, argv, NULL, 60);
        SW_CHECK(outcome.status == 0 && strstr(outcome.out, "accuracy") != NULL,
                 "%s: status %d: %s%s", ways[i], outcome.status, outcome.out, outcome.err);
    }
}

#define MOST 16 /* programs of a folder */

/* Arguments for a program that runs for some seconds, so that it runs for half a second in
 * quick. */
static const char *shorter(const char *file)
{
    return strcmp(file, "binary_mnist.c") == 0 ? "synthetic dense 0.5" : "";
}

/* Every program of a folder, as their first lines say: built against the
 * installed header and library with what pkg-config says, and run. All at once. */
static void build_and_run(const char *folder, int least)
{
    static sw_outcome outcome;
    char path[1024], libraries[1300], tags[MOST][300];
    pid_t pids[MOST];
    int n = 0;
    const bool compiles_cpp = sw_shell("c++ --version") == 0;
    snprintf(path, sizeof path, "%s/%s", sw_source_root(), folder);
    snprintf(libraries, sizeof libraries, "LD_LIBRARY_PATH=%s", lib);
    DIR *dir = opendir(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL && n < MOST;
         entry = readdir(dir)) {
        const char *dot = strrchr(entry->d_name, '.');
        const bool cpp = dot != NULL && strcmp(dot, ".cpp") == 0;
        if (dot == NULL || (strcmp(dot, ".c") != 0 && !(cpp && compiles_cpp)))
            continue;
        char line[6000];
        snprintf(tags[n], sizeof tags[n], "built-%.*s", (int)(dot - entry->d_name),
                 entry->d_name);
        const char *built = sw_temp_path(tags[n]);
        snprintf(line, sizeof line,
                 "%s '%s/%s' -o '%s' $(%s --cflags --libs stepwell) && exec '%s' %s",
                 cpp ? "c++ -std=c++17" : "cc", path, entry->d_name, built, pkg, built,
                 sw_tests_full() ? "" : shorter(entry->d_name));
        const char *const argv[] = {"sh", "-c", line, NULL}, *const env[] = {libraries, NULL};
        pids[n] = sw_process_start(tags[n], argv, env);
        n++;
    }
    closedir(dir);
    for (int i = 0; i < n; i++) {
        sw_process_wait(&outcome, pids[i], tags[i], 120);
        /* 77: a part that it shows was left out of this build, and it says so. */
        const bool skipped = outcome.status == 77 &&
                             strncmp(outcome.out, "skipped: ", 9) == 0 && !swi_checksum_there();
        SW_CHECK((outcome.status == 0 || skipped) && outcome.out[0] != '\0' &&
                     outcome.err[0] == '\0',
                 "%s, %s: status %d, signal %d: %s%s", folder, tags[i], outcome.status,
                 outcome.signal, outcome.out, outcome.err);
    }
    CU_ASSERT(n >= least && n < MOST);
}

static void training_programs_work_installed(void)
{
    if (SANITIZED)
        SW_SKIP("the library is built with a sanitizer");
    CU_ASSERT_FATAL(install());
    build_and_run("tools/examples", 2);
}

static void example_programs_work_installed(void)
{
    if (SANITIZED)
        SW_SKIP("the library is built with a sanitizer");
    CU_ASSERT_FATAL(install());
    build_and_run("tests/api", 9); /* quick: the tests api-* run them as built */
}

static const sw_test tests[] = {
    {"only public names leave the library", only_public_names_leave_the_library},
    {"every public function is there", every_public_function_is_there},
    {"the SONAME has the number of the ABI", the_soname_has_the_abi_number},
    {"the library needs no device and no BLAS to start",
     the_library_needs_no_device_and_no_blas},
    {"the header is C11 and C++", the_header_is_c_and_cpp},
    {"every object has an owner in C++", every_object_has_an_owner},
    {"an installed tree is whole", an_installed_tree_is_whole},
    {"the Python package works installed", the_python_package_works_installed},
    {"the CUDA module is found installed", the_cuda_module_is_found_installed},
    {"a program builds with pkg-config alone", a_program_builds_with_pkg_config_alone},
    {"a program links statically", a_program_links_statically},
    {"the training programs build and run installed", training_programs_work_installed},
    {"the example programs build and run installed", example_programs_work_installed,
     .full = true},
};
SW_SUITE("install", tests)
