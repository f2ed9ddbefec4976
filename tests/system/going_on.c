/* See going_on.h. */
#include "tests/system/going_on.h"
#include "tests/support/suite.h"
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[1000];

/* ---- files ------------------------------------------------------------------------------- */

void going_new_folder(const char *name)
{
    snprintf(folder, sizeof folder, "%s", sw_temp_path(name));
    (void)sw_shell("rm -rf '%s'", folder);
    CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
}

const char *going_at(const char *name)
{
    static char path[16][1200];
    static unsigned next;
    char *to = path[next++ % 16];
    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

bool going_exists(const char *name)
{
    return access(going_at(name), F_OK) == 0;
}

void going_put(const char *name, const char *text)
{
    CU_ASSERT(file_write(going_at(name), text, strlen(text)));
}

bool going_same_file(const char *a, const char *b)
{
    size_t n[2];
    unsigned char *bytes[2] = {file_read(going_at(a), &n[0]), file_read(going_at(b), &n[1])};
    const bool same = bytes[0] != NULL && bytes[1] != NULL && n[0] == n[1] &&
                      memcmp(bytes[0], bytes[1], n[0]) == 0;
    free(bytes[0]);
    free(bytes[1]);
    return same;
}

void going_copy(const char *from, const char *to)
{
    size_t n;
    unsigned char *bytes = file_read(going_at(from), &n);
    (void)unlink(going_at(to)); /* a generation may be a second name of it */
    SW_CHECK(bytes != NULL && file_write(going_at(to), bytes, n), "%s to %s", from, to);
    free(bytes);
}

/* ---- running ----------------------------------------------------------------------------- */

static void expand(char *to, size_t room, const char *format, va_list list)
{
    char words[6000];
    size_t n = 0;
    vsnprintf(words, sizeof words, format, list);
    to[0] = '\0';
    for (const char *c = words; *c != '\0' && n + sizeof folder < room; c++)
        n += (size_t)snprintf(to + n, room - n, "%.*s", *c == '@' ? 999 : 1,
                              *c == '@' ? folder : c);
}

const sw_outcome *going_run(const char *format, ...)
{
    static sw_outcome outcome;
    char words[8000];
    va_list list;
    va_start(list, format);
    expand(words, sizeof words, format, list);
    va_end(list);
    program_run(&outcome, words, NULL);
    return &outcome;
}

pid_t going_start(const char *format, ...)
{
    char words[8000];
    va_list list;
    va_start(list, format);
    expand(words, sizeof words, format, list);
    va_end(list);
    return program_start("going", words, NULL);
}

/* ---- ends -------------------------------------------------------------------------------- */

static const char *const members[] = {
    "steps",     "epochs",        "final_loss",    "diverged",
    "skipped",   "test_accuracy", "validations",   "validation_loss",
    "best_step", "best_accuracy", "stopped_early", "best_validation_loss"};

static void keep_members(going_end *end, const char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const char *at = strstr(out, sw_textf("\"%s\":", members[i]));
        if (at != NULL)
            n += (size_t)snprintf(end->result + n, sizeof end->result - n, "%.*s ",
                                  (int)strcspn(at, ",}"), at);
    }
}

/* In place: each line up to its time. */
static void drop_times(char *text)
{
    char *to = text;
    for (char *line = text; line != NULL && *line != '\0';) {
        char *next = strchr(line, '\n');
        char *time = strstr(line, ",\"ms\":");
        const size_t length = next == NULL ? strlen(line) : (size_t)(next - line);
        const size_t kept =
            time != NULL && time < line + length ? (size_t)(time - line) : length;
        memmove(to, line, kept);
        to += kept;
        *to++ = '\n';
        line = next == NULL ? NULL : next + 1;
    }
    *to = '\0';
}

going_end going_read(const char *out)
{
    going_end end = {0};
    size_t n;
    end.params = (char *)file_read(going_at("P"), &end.n_params);
    end.best = (char *)file_read(going_at("B"), &end.n_best);
    end.metrics = (char *)file_read(going_at("M.jsonl"), &n);
    if (end.metrics != NULL)
        drop_times(end.metrics);
    keep_members(&end, out);
    end.steps = program_number(out, "steps");
    end.best_step = program_number(out, "best_step");
    return end;
}

void going_free(going_end *end)
{
    free(end->params);
    free(end->best);
    free(end->metrics);
    *end = (going_end){0};
}

static bool same_bytes(const char *a, size_t n, const char *b, size_t m)
{
    return (a == NULL && b == NULL) ||
           (a != NULL && b != NULL && n == m && memcmp(a, b, n) == 0);
}

/* The first line of `b` that is another one than that of `a`. */
static const char *first_line(const char *a, const char *b)
{
    static char line[300];
    const char *begin = b;
    if (a == NULL || b == NULL)
        return "one has none";
    for (; *a == *b && *a != '\0'; a++, b++)
        begin = *b == '\n' ? b + 1 : begin;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(begin, "\n"), begin);
    return line;
}

void going_equal(const going_end *a, const going_end *b, const char *what)
{
    SW_CHECK(a->params != NULL && same_bytes(a->params, a->n_params, b->params, b->n_params),
             "%s: other parameters (%zu and %zu bytes)", what, a->n_params, b->n_params);
    SW_CHECK(same_bytes(a->best, a->n_best, b->best, b->n_best), "%s: another --save-best",
             what);
    SW_CHECK(a->metrics != NULL && b->metrics != NULL && strcmp(a->metrics, b->metrics) == 0,
             "%s: other metrics from: %s", what, first_line(a->metrics, b->metrics));
    SW_CHECK(a->result[0] != '\0' && strcmp(a->result, b->result) == 0, "%s: %s| %s", what,
             a->result, b->result);
}

void going_clear(void)
{
    (void)unlink(going_at("P"));
    (void)unlink(going_at("B"));
    (void)unlink(going_at("M.jsonl"));
}

double going_step(const char *name)
{
    const sw_outcome *o = going_run("info --json @/%s", name);
    return o->status == 0 ? program_number(o->out, "step") : -1.0;
}
