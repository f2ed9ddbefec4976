/* Reads the tree's own sources: includes go down only, system calls stand in their tables, the
 * layout is clang-format's. Each rule first has to find planted violations. */
#include "tests/style/rules.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>
#include <time.h>

SW_TESTS("style")

/* ---- reading the tree -------------------------------------------------------------------- */

typedef void visit(const char *path, char *text); /* relative path */

static bool ends(const char *name, const char *with)
{
    const size_t n = strlen(name), m = strlen(with);
    return n >= m && strcmp(name + n - m, with) == 0;
}

static bool is_c(const char *name)
{
    return ends(name, ".c") || ends(name, ".h");
}

static int walk(const char *folder, visit *each)
{
    const char *full = sw_textf("%s/%s", sw_source_root(), folder);
    DIR *dir = opendir(full);
    if (dir == NULL)
        return 0;
    int files = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat st;
        const bool hidden = entry->d_name[0] == '.' && strcmp(entry->d_name, ".ci") != 0;
        if (hidden || (*folder == '\0' && strncmp(entry->d_name, "build", 5) == 0) ||
            strcmp(entry->d_name, "__pycache__") == 0)
            continue;
        const char *path =
            sw_textf("%s%s%s", folder, *folder != '\0' ? "/" : "", entry->d_name);
        full = sw_textf("%s/%s", sw_source_root(), path);
        if (lstat(full, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode))
            files += walk(path, each);
        else if (S_ISREG(st.st_mode)) {
            char *text = sw_file_text(full, NULL);
            if (text != NULL) {
                each(path, text);
                files++;
            }
            free(text);
        }
    }
    closedir(dir);
    return files;
}

static void fail(void *to, const char *path, int line, const char *what)
{
    SW_CHECK(false, "%s:%d: %s", path, line, what);
}

static void count(void *to, const char *path, int line, const char *what)
{
    *(int *)to += line > 0;
}

/* ---- the tests --------------------------------------------------------------------------- */

static void visit_calls(const char *path, char *text)
{
    if (!is_c(path))
        return;
    style_blank(text);
    style_check_calls(path, text, fail, NULL);
}

SW_TEST("system calls stand in their tables")
{
    CU_ASSERT(walk("", visit_calls) > 30);
}

SW_TEST("planted calls outside their tables are found")
{
    static const struct {
        const char *path, *text;
        int violations;
    } cases[] = {
        {"runtime/r.c", "void *p = malloc(5);\nfree (p);", 2},
        {"runtime/r.c", "x->free(y); ops.open(z); my_malloc(3); swi_free(2); free_list(1);", 0},
        {"runtime/r.c", "/* malloc(5) */ // free(p)\n\"printf(\" 'a' \"\\\"exit(\"", 0},
        {"runtime/r.c", "int reopen = 3; return open;", 0},
        {"runtime/r.c", "f = '\"'; abort(); g = '\"';", 1},
        {"alloc/base/mem.c", "mmap(0); mprotect(1);", 0},
        {"alloc/base/sys.c", "mmap(0);", 1},
        {"alloc/base/sys.c", "open(p); dlopen(q); pthread_create(r);", 1},
        {"alloc/base/file.c", "pthread_create(r);", 1},
        {"alloc/base/file.c", "open(p); rename(q, r);", 0},
        {"alloc/base/heap_jemalloc.c", "mallocx(1); malloc(1);", 1},
        {"kernels/cpu/k.c", "printf(\"x\");", 1},
        {"tools/stepwell.c", "printf(\"x\"); exit(1);", 0},
        {"tools/stepwell.c", "fopen(p);", 1},
        {"alloc/a.c", "exit(1); alloca(4);", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int found = 0;
        char text[200];
        snprintf(text, sizeof text, "%s", cases[i].text);
        style_blank(text);
        style_check_calls(cases[i].path, text, count, &found);
        SW_CHECK(found == cases[i].violations, "case %zu (%s): %d found", i, cases[i].path,
                 found);
    }
}

static void visit_backends(const char *path, char *text)
{
    if (!is_c(path))
        return;
    style_blank(text);
    style_check_backends(path, text, fail, NULL);
}

/* A difference between devices is a function or a property of their table. */
SW_TEST("which device it is the backends know")
{
    static const struct {
        const char *path, *text;
        int violations;
    } cases[] = {
        {"runtime/exec/run.c", "if (exec->queue != NULL) a = x->target.device==NULL;", 2},
        {"runtime/model/m.c", "return model->device\n    == NULL;", 1},
        {"runtime/model/m.c",
         "// a->device == NULL\nif (opts.device != NULL) x->devices == NULL;", 0},
        {"runtime/model/m.c", "to->device == from->device; a->queue = NULL; device == NULL;",
         0},
        {"runtime/device/backend.c", "if (x->device == NULL) a->queue != NULL;", 0},
        {"runtime/exec/queue_graph.c", "q->device != NULL;", 0},
        {"tests/runtime/t.c", "q->device != NULL; sizeof(float);", 0},
        {"runtime/base/type.c", "n * sizeof(float);", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int found = 0;
        char text[200];
        snprintf(text, sizeof text, "%s", cases[i].text);
        style_blank(text);
        style_check_backends(cases[i].path, text, count, &found);
        SW_CHECK(found == cases[i].violations, "case %zu (%s): %d found", i, cases[i].path,
                 found);
    }
    CU_ASSERT(walk("runtime", visit_backends) > 100);
}

static void visit_words(const char *path, char *text)
{
    style_check_words(path, text, fail, NULL);
}

SW_TEST("no file has a path of a machine or a note to oneself")
{
    int found = 0;
    style_check_words("planted",
                      "cd /ho"
                      "me/somebody\n/* TO"
                      "DO */",
                      count, &found);
    CU_ASSERT_EQUAL(found, 2);
    CU_ASSERT(walk("", visit_words) > 30);
}

#define FORMAT "$(command -v clang-format-14 || command -v clang-format || echo none)"
#define FORMAT_VERSION "version 14." /* other versions lay some lines out differently */
static int n_layout, n_all;
static struct timespec last_ok; /* quick: files as old as that were in order then */
static FILE *layout_list; /* every file of C and CUDA in the tree, each ended by a zero byte */

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* When quick mode began to read what it found in order, by the file that it leaves in the
 * build; all files are older than none, and than a change of the rules. */
static void read_last_ok(const char *stamp)
{
    struct stat st, rules;
    const char *path = sw_textf("%s/.clang-format", sw_source_root());
    last_ok = (struct timespec){0, 0};
    if (!sw_tests_full() && stat(stamp, &st) == 0 && stat(path, &rules) == 0 &&
        is_before(&rules.st_ctim, &st.st_mtim))
        last_ok = st.st_mtim;
}

static void leave_ok(const char *stamp, const struct timespec *began)
{
    const struct timespec times[2] = {*began, *began};
    FILE *file = fopen(stamp, "w");
    if (file != NULL && fclose(file) == 0)
        (void)utimensat(AT_FDCWD, stamp, times, 0);
}

static void visit_layout(const char *path, char *text)
{
    struct stat st;
    if (!is_c(path) && !ends(path, ".cu"))
        return;
    n_all++;
    if (stat(sw_textf("%s%s%s", *path == '/' ? "" : sw_source_root(), *path == '/' ? "" : "/",
                      path),
             &st) == 0 &&
        is_before(&st.st_mtim, &last_ok) && is_before(&st.st_ctim, &last_ok))
        return;
    CU_ASSERT(fwrite(path, 1, strlen(path) + 1, layout_list) == strlen(path) + 1);
    n_layout++;
}

SW_TEST("the layout is clang-format's")
{
    if (system(FORMAT " --version 2>/dev/null | grep -q '" FORMAT_VERSION "'") != 0)
        SW_SKIP("clang-format 14 is not installed");
    char path[1024];
    const char *planted = sw_temp_path("planted.c"); /* must be found too */
    bool found = false, good = true;
    struct timespec began;
    FILE *file = fopen(planted, "w");
    CU_ASSERT_FATAL(file != NULL && fputs("int  x ;\n", file) >= 0 && fclose(file) == 0);
    const char *list = sw_temp_path("layout");
    layout_list = fopen(list, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(layout_list);
    n_layout = n_all = 0;
    const char *stamp = sw_textf("%s/tests/style/layout.ok", sw_build_root());
    clock_gettime(CLOCK_REALTIME_COARSE, &began);
    read_last_ok(stamp);
    walk("", visit_layout);
    visit_layout(planted, NULL);
    CU_ASSERT(fclose(layout_list) == 0);
    CU_ASSERT(n_all > 100 && n_layout > 0);
    FILE *output =
        popen(sw_textf("cd '%s' && xargs -0 " FORMAT " --dry-run --Werror < '%s' 2>&1 | "
                       "sed -n 's/:[0-9]*:[0-9]*: error:.*//p' | sort -u",
                       sw_source_root(), list),
              "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(output);
    while (fgets(path, sizeof path, output) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        found = found || strcmp(path, planted) == 0;
        good &= SW_CHECK(strcmp(path, planted) == 0, "clang-format -i %s", path);
    }
    CU_ASSERT_EQUAL(pclose(output), 0);
    CU_ASSERT(found);
    if (good && found)
        leave_ok(stamp, &began);
    sw_note("%d of %d files changed since they were in order", n_layout - 1, n_all - 1);
}

/* Documents show programs whole: what people read is what is built and tested. A piece of C
 * belongs to the program with its first line. */
static const struct {
    const char *path, *document; /* where it stands */
} shown_programs[] = {{"tools/examples/lenet5.c", "README.md"},
                      {"tests/api/swish_op.c", "tools/docs/ops.md"},
                      {"tools/examples/population.c", "tools/docs/populations.md"},
                      {"tests/api/callbacks.c", "tools/docs/populations.md"},
                      {"tests/api/architectures.c", "tools/docs/architectures.md"}};
#define SHOWN (sizeof shown_programs / sizeof *shown_programs)
static const char *const documents[] =
    SW_INIT("README.md", "ARCHITECTURE.md", "tools/bench/TRIED.md", "tools/docs/README.md",
            "tools/docs/training.md", "tools/docs/budgets.md", "tools/docs/populations.md",
            "tools/docs/evolution.md", "tools/docs/checkpoints.md", "tools/docs/evaluation.md",
            "tools/docs/genomes.md", "tools/docs/replan.md", "tools/docs/architectures.md",
            "tools/docs/finetuning.md", "tools/docs/memory.md", "tools/docs/formats.md",
            "tools/docs/gpu.md", "tools/docs/programs.md", "tools/docs/ops.md",
            "tools/docs/packages.md", "tools/docs/python.md", "tools/packages/README.md");
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_"
#define DOCUMENTS (sizeof documents / sizeof *documents)

/* Fails where `shown` begins as the program does and is not the whole of it. */
static bool is_shown(const char *path, const char *program, const char *shown, size_t n,
                     style_report *report)
{
    const size_t line = strcspn(program, "\n") + 1;
    size_t same = 0;
    if (n < line || strncmp(shown, program, line) != 0)
        return false;
    while (same < n && shown[same] == program[same])
        same++;
    if (same < n || program[n] != '\0')
        report(NULL, path, 0, "a document shows something else");
    return true;
}

static char *source(const char *name)
{
    char *text = sw_file_text(sw_textf("%s/%s", sw_source_root(), name), NULL);
    sw_after(free, text);
    SW_CHECK(text != NULL, "%s cannot be read", name);
    return text;
}

SW_TEST("documents show programs as they are built")
{
    static const char begin[] = "\n```c\n", end[] = "\n```\n";
    bool found[SHOWN] = {false};
    for (size_t d = 0; d < DOCUMENTS; d++) {
        const char *at = source(documents[d]);
        while (at != NULL && (at = strstr(at, begin)) != NULL) {
            at += sizeof begin - 1;
            const char *last = strstr(at, end);
            CU_ASSERT_PTR_NOT_NULL_FATAL(last);
            bool any = false;
            for (size_t i = 0; i < SHOWN; i++)
                if (strcmp(documents[d], shown_programs[i].document) == 0 &&
                    is_shown(shown_programs[i].path, source(shown_programs[i].path), at,
                             (size_t)(last + 1 - at), fail))
                    any = found[i] = true;
            SW_CHECK(any, "%s: a program of its own: %.60s", documents[d], at);
        }
    }
    for (size_t i = 0; i < SHOWN; i++)
        SW_CHECK(found[i], "%s does not show %s", shown_programs[i].document,
                 shown_programs[i].path);
}

/* The text after "](" up to ')', as a path from the folder of the document. */
static bool leads_to_a_file(const char *document, const char *link)
{
    const char *slash = strrchr(document, '/');
    const int n = (int)strcspn(link, ")#");
    if (strncmp(link, "http", 4) == 0)
        return true;
    return access(sw_textf("%s/%.*s/%.*s", sw_source_root(),
                           slash != NULL ? (int)(slash - document) : 1,
                           slash != NULL ? document : ".", n, link),
                  R_OK) == 0;
}

SW_TEST("links of documents lead to files")
{
    int n = 0;
    for (size_t d = 0; d < DOCUMENTS; d++)
        for (const char *at = source(documents[d]);
             at != NULL && (at = strstr(at, "](")) != NULL; n++) {
            at += 2;
            SW_CHECK(leads_to_a_file(documents[d], at), "%s: %.*s is not there", documents[d],
                     (int)strcspn(at, ")"), at);
        }
    CU_ASSERT(n > 20);
    CU_ASSERT(!leads_to_a_file("tools/docs/README.md", "README.md2)"));
    CU_ASSERT(!leads_to_a_file("README.md", "training.md)"));
}

SW_TEST("the README is short")
{
    int n = 0;
    for (const char *at = source("README.md"); at != NULL && *at != '\0'; at++)
        n += *at == '\n';
    SW_CHECK(n > 0 && n <= 120, "README.md has %d lines of at most 120", n);
}

SW_TEST("rows of measured figures are short")
{
    int line = 1;
    for (const char *at = source("tools/bench/MEASURED.md"); at != NULL && *at != '\0';
         line++) {
        const int n = (int)strcspn(at, "\n");
        SW_CHECK(*at != '|' || n <= 200, "MEASURED.md:%d: a row of %d bytes, at most 200", line,
                 n);
        at += n + (at[n] == '\n');
    }
    CU_ASSERT(line > 100);
}

static bool is_declared(const char *header, const char *name, size_t n)
{
    for (const char *at = header; (at = strstr(at, "sw_")) != NULL; at++)
        if (strncmp(at, name, n) == 0 && strspn(at, NAME_LETTERS) == n)
            return true;
    return false;
}

SW_TEST("names in documents are declared")
{
    char *header =
        sw_file_text(sw_textf("%s/runtime/installed/stepwell.h", sw_build_root()), NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(header);
    sw_after(free, header);
    int n = 0;
    for (size_t d = 0; d < DOCUMENTS; d++)
        for (const char *at = source(documents[d]);
             at != NULL && (at = strstr(at, "`sw_")) != NULL; n++) {
            const size_t length = strspn(++at, NAME_LETTERS);
            SW_CHECK(is_declared(header, at, length), "%s: %.*s is not declared", documents[d],
                     (int)length, at);
        }
    CU_ASSERT(n > 30);
    CU_ASSERT(!is_declared(header, "sw_nonsense", 11) && !is_declared(header, "sw_ru", 5));
}

static int n_reported;
static void note_report(void *to, const char *path, int line, const char *what)
{
    n_reported++;
}

SW_TEST("a program that is shown otherwise is found")
{
    static const char program[] = "/* one */\nint a;\nint b;\n";
    n_reported = 0;
    CU_ASSERT(!is_shown("p.c", program, "/* two */\nint a;\n", 17, note_report));
    CU_ASSERT(is_shown("p.c", program, program, sizeof program - 1, note_report));
    CU_ASSERT_EQUAL(n_reported, 0);
    CU_ASSERT(is_shown("p.c", program, "/* one */\nint a;\n", 17, note_report));
    CU_ASSERT(is_shown("p.c", program, "/* one */\nint c;\nint b;\n", 24, note_report));
    CU_ASSERT_EQUAL(n_reported, 2);
}
