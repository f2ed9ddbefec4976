/* Calls of `stepwell report`. */
#include "tests/report/call.h"
#include "tools/cli/cli.h"
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#define WORDS 16

void slurp(const char *path, char *to, size_t room)
{
    FILE *f = fopen(path, "r");
    const size_t n = f != NULL ? fread(to, 1, room - 1, f) : 0;
    to[n] = '\0';
    if (f != NULL)
        fclose(f);
}

static int divert(int fd, const char *path)
{
    const int kept = dup(fd), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)dup2(file, fd);
    close(file);
    return kept;
}

static void restore(int fd, int kept)
{
    (void)dup2(kept, fd);
    close(kept);
}

/* The words follow "report". */
static const printed *call_with(int argc, char **argv)
{
    static printed p;
    char out[1024], err[1024];
    snprintf(out, sizeof out, "%s", sw_temp_path("out"));
    snprintf(err, sizeof err, "%s", sw_temp_path("err"));
    fflush(stdout);
    fflush(stderr);
    const int kept_out = divert(STDOUT_FILENO, out), kept_err = divert(STDERR_FILENO, err);
    p.status = tool_report(argc, argv);
    fflush(stdout);
    fflush(stderr);
    restore(STDOUT_FILENO, kept_out);
    restore(STDERR_FILENO, kept_err);
    slurp(out, p.out, sizeof p.out);
    slurp(err, p.err, sizeof p.err);
    return &p;
}

const char *golden(const char *name)
{
    static char path[4][1024];
    static unsigned next;
    char *to = path[next++ % 4];
    snprintf(to, sizeof path[0], "%s/tests/report/golden/%s", sw_source_root(), name);
    return to;
}

static const printed *call_text(const char *format, va_list args)
{
    char text[8192], *argv[WORDS + 1] = {0};
    int argc = 1;
    snprintf(text, sizeof text, "report ");
    vsnprintf(text + 7, sizeof text - 7, format, args);
    argv[0] = strtok(text, " ");
    for (char *word; argc < WORDS && (word = strtok(NULL, " ")) != NULL; argc++) {
        const size_t n = strlen(word);
        const bool ours =
            n > 6 && strcmp(word + n - 6, ".jsonl") == 0 && strchr(word, '/') == NULL;
        argv[argc] = ours ? sw_textf("%s", golden(word)) : word;
    }
    return call_with(argc, argv);
}

const printed *call_words(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const printed *p = call_text(format, args);
    va_end(args);
    return p;
}

void expect_said(int status, const char *part, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const printed *p = call_text(format, args);
    va_end(args);
    SW_CHECK(p->status == status && has(status == 0 ? p->out : p->err, part),
             "%s, for %s: status %d, %s", part, format, p->status, p->err);
}

bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

void check_width(const char *text)
{
    int width = 0;
    for (const char *c = text; *c != '\0'; c++) {
        width = *c == '\n' ? 0 : width + (((unsigned char)*c & 0xc0) != 0x80);
        if (width == 81)
            SW_CHECK(width <= 80, "a line is longer than 80 columns: %.240s", c - 80);
        SW_CHECK(*c != '\n' || c == text || c[-1] != ' ', "blanks at the end: %.90s",
                 c - text > 80 ? c - 80 : text);
    }
}

void compare_text(const char *wanted, const char *format, ...)
{
    static char text[sizeof((printed *)0)->out];
    va_list args;
    va_start(args, format);
    const printed *p = call_text(format, args);
    va_end(args);
    slurp(golden(wanted), text, sizeof text);
    SW_CHECK(p->status == 0 && strcmp(p->out, text) == 0, "%s: status %d, now\n%s", wanted,
             p->status, p->out);
    check_width(p->out);
}

static void drop_json(void *object)
{
    json_decref(object);
}

const json_t *object_of(const printed *p)
{
    json_t *o = json_loads(p->out);
    SW_CHECK(json_is_object(o), "status %d: %s %s", p->status, sw_last_error(), p->err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    sw_after(drop_json, o);
    return o;
}

long long number_of(const json_t *o, const char *key)
{
    const json_t *x = json_object_get(o, key);
    SW_CHECK(json_is_integer(x), "%s is no integer", key);
    return json_integer_value(x);
}

long long number_in(const json_t *o, const char *group, const char *name, const char *key)
{
    const json_t *x = json_object_get(json_object_get(o, group), name);
    SW_CHECK(json_is_object(x), "%s has no %s", group, name);
    return number_of(x, key);
}
