/* See rules.h. */
#include "tests/style/rules.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

void style_blank(char *text)
{
    char *p = text;
    while (*p != '\0') {
        if (begins(p, "//")) {
            while (*p != '\0' && *p != '\n')
                *p++ = ' ';
        } else if (begins(p, "/*")) {
            while (*p != '\0' && !begins(p, "*/"))
                p += *p == '\n' ? 1 : (*p = ' ', 1);
            if (*p != '\0')
                p[0] = p[1] = ' ';
        } else if (*p == '"' || *p == '\'') {
            const char quote = *p++;
            while (*p != '\0' && *p != quote && *p != '\n') {
                const bool escape = *p == '\\' && p[1] != '\0';
                *p++ = ' ';
                if (escape && *p != '\n')
                    *p++ = ' ';
            }
            p += *p == quote;
        } else
            p++;
    }
}

/* Calls and the paths (by beginning) where they are allowed. */
static const struct {
    const char *calls;
    const char *where[6];
} places[] = {
    {" malloc calloc realloc free aligned_alloc posix_memalign strdup strndup asprintf "
     "vasprintf getline ",
     {"alloc/base/heap_malloc.c", NULL}},
    {" mallocx dallocx sdallocx rallocx xallocx mallctl ",
     {"alloc/base/heap_jemalloc.c", NULL}},
    {" mmap munmap mremap madvise brk sbrk ", {"alloc/base/mem.c", NULL}},
    {" mprotect ", {"alloc/base/mem.c", NULL}},
    {" open openat creat fopen fdopen freopen opendir tmpfile mkstemp rename unlink ",
     {"alloc/base/file", "tools/cli/cli_out.c", NULL}}, /* the latter in a signal handler */
    {" pthread_create thrd_create ", {"alloc/base/sys.c", NULL}},
    {" dlopen dlsym fork system popen ", {"alloc/base/sys.c", NULL}},
    {" printf fprintf vprintf vfprintf dprintf puts fputs putchar putc fputc fwrite perror "
     "psignal ",
     {"tools/", NULL}},
    {" abort exit _exit _Exit quick_exit raise ", {"tools/", NULL}},
    {" alloca __builtin_alloca gets ", {NULL}},
    /* libpng and libjpeg report by functions that may not return. */
    {" setjmp longjmp ", {"runtime/data/image_file.c", NULL}},
    {" __builtin_trap ", {"alloc/base/assert.h", NULL}},
};

static void check_call(const char *path, const char *name, size_t n, int line,
                       style_report *report, void *to)
{
    char word[64], what[200];
    if (n + 2 >= sizeof word)
        return;
    snprintf(word, sizeof word, " %.*s ", (int)n, name);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (strstr(places[i].calls, word) == NULL)
            continue;
        for (size_t k = 0; places[i].where[k] != NULL; k++)
            if (begins(path, places[i].where[k]))
                return;
        snprintf(what, sizeof what, "%.*s is not called here", (int)n, name);
        report(to, path, line, what);
    }
}

void style_check_calls(const char *path, const char *text, style_report *report, void *to)
{
    if (begins(path, "tests/") || begins(path, "tools/examples/")) /* programs of their own */
        return;
    int line = 1;
    for (const char *p = text; *p != '\0'; p++) {
        line += *p == '\n';
        if (!is_word(*p) || (p > text && is_word(p[-1])))
            continue;
        const char *end = p;
        while (is_word(*end))
            end++;
        const char *next = end + strspn(end, " \t\n");
        const bool member =
            p > text && (p[-1] == '.' || (p[-1] == '>' && p - 1 > text && p[-2] == '-'));
        if (*next == '(' && !member)
            check_call(path, p, (size_t)(end - p), line, report, to);
    }
}

/* Is this the word at p, with a comparison with NULL after it? */
static bool meets_null(const char *p, const char *word)
{
    if (!begins(p, word) || is_word(p[strlen(word)]))
        return false;
    p += strlen(word);
    p += strspn(p, " \t\n");
    if (!begins(p, "==") && !begins(p, "!="))
        return false;
    p += 2;
    p += strspn(p, " \t\n");
    return begins(p, "NULL") && !is_word(p[4]);
}

void style_check_backends(const char *path, const char *text, style_report *report, void *to)
{
    static const char *const own[] = {"runtime/device/", "runtime/exec/backend_",
                                      "runtime/exec/queue"};
    int line = 1;
    bool is_own = !begins(path, "runtime/");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        is_own |= begins(path, own[i]);
    for (const char *p = text; *p != '\0'; p++) {
        line += *p == '\n';
        if (p - text < 2 || !is_word(*p) || is_word(p[-1]))
            continue;
        const bool member = begins(p - 2, "->") || (p - text >= 7 && begins(p - 7, "target."));
        if (!is_own && member && (meets_null(p, "device") || meets_null(p, "queue")))
            report(to, path, line, "asks which device it is; that is the backend's table");
        if (begins(path, "runtime/") && begins(p, "sizeof(float)"))
            report(to, path, line, "sizeof(float): sw_dtype_bytes says it");
    }
}

void style_check_words(const char *path, const char *text, style_report *report, void *to)
{
    /* Written in halves, so that this file has none of them. */
    static const char *const words[] = {"/wo"
                                        "rk/",
                                        "/ho"
                                        "me/",
                                        "/ro"
                                        "ot/",
                                        "/Us"
                                        "ers/",
                                        "TO"
                                        "DO",
                                        "FIX"
                                        "ME"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(text, words[i]);
        if (at == NULL)
            continue;
        int line = 1;
        for (const char *p = text; p < at; p++)
            line += *p == '\n';
        char what[100];
        snprintf(what, sizeof what, "contains '%s'", words[i]);
        report(to, path, line, what);
    }
}
