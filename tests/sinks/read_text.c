/* Folded stacks, read as their tools read them. */
#include "tests/sinks/expect.h"
#include <inttypes.h>

static char wrong[4200];

#define BAD(...) return snprintf(wrong, sizeof wrong, __VA_ARGS__), wrong

/* Copies the line at *at without its end and goes past it; false at the end of the file. */
static bool next_line(const char **at, char *line, size_t room)
{
    const size_t n = strcspn(*at, "\n");
    if (**at == '\0' || n >= room)
        return false;
    memcpy(line, *at, n);
    line[n] = '\0';
    *at += n + ((*at)[n] == '\n');
    return true;
}

static bool lives(const sw_tensor *v, uint32_t op)
{
    return v->alias == SW_TL_NONE && v->birth <= op && v->death >= op;
}

/* ---- folded stacks ----------------------------------------------------------------------- */

static void append(char *to, size_t room, const char *frame)
{
    size_t n = strlen(to);
    if (n > 0 && n + 1 < room)
        to[n++] = ';';
    for (; *frame != '\0' && n + 1 < room; frame++)
        to[n++] = *frame == ';' ? ',' : *frame == ' ' ? '_' : *frame;
    to[n] = '\0';
}

/* The stack of a value, made a second way. */
static void stack_of(const sw_tl_program *p, const sw_tensor *v, char *to, size_t room)
{
    char layer[1000], *rest = layer;
    to[0] = '\0';
    append(to, room, p->run);
    snprintf(layer, sizeof layer, "%s", v->layer[0] != '\0' ? v->layer : "(no layer)");
    for (char *scope; (scope = strtok_r(rest, "/", &rest)) != NULL;)
        append(to, room, scope);
    append(to, room, v->role);
    append(to, room, v->name);
}

const char *check_folded(const written *file, const sw_timeline *t)
{
    const sw_tl_program *p = sw_timeline_peak(t);
    char line[4000], want[4000];
    const char *at = file->bytes;
    uint64_t sum = 0;
    while (next_line(&at, line, sizeof line)) {
        char *blank = strrchr(line, ' '), *end;
        if (blank == NULL || strchr(line, ' ') != blank || strstr(line, ";;") != NULL)
            BAD("a line that tools would misread: %s", line);
        *blank = '\0';
        const uint64_t bytes = strtoull(blank + 1, &end, 10);
        const size_t n = strlen(line);
        const bool padding = n > 10 && strcmp(line + n - 10, ";(padding)") == 0;
        uint64_t values = 0;
        line[padding ? n - 10 : n] = '\0';
        for (uint32_t i = 0; i < p->n_values; i++) {
            stack_of(p, &p->values[i], want, sizeof want);
            if (lives(&p->values[i], p->peak_op) && strcmp(want, line) == 0)
                values += padding ? p->values[i].padding : p->values[i].bytes;
        }
        if (*end != '\0' || bytes == 0 || values != bytes)
            BAD("%s has %" PRIu64 " bytes, not %s", line, values, blank + 1);
        sum += bytes;
    }
    if (*at != '\0' || sum != p->peak_bytes)
        BAD("stacks add up to %" PRIu64 ", the peak is %" PRIu64, sum, p->peak_bytes);
    return "";
}
