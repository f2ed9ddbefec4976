/* Folded stacks and Massif's file, read as their tools read them. */
#include "tests/sinks/expect.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- Massif ------------------------------------------------------------------------------ */

typedef struct {
    const char *at;
    char line[4000];
} lines;

/* The next line that is no comment; what stands after a number sign is one. */
static bool next_plain(lines *l)
{
    while (next_line(&l->at, l->line, sizeof l->line)) {
        l->line[strcspn(l->line, "#")] = '\0';
        if (l->line[strspn(l->line, " ")] != '\0')
            return true;
    }
    l->line[0] = '\0';
    return false;
}

static bool number(lines *l, const char *name, uint64_t *out)
{
    const size_t n = strlen(name);
    char *end;
    if (!next_plain(l) || strncmp(l->line, name, n) != 0)
        return false;
    *out = strtoull(l->line + n, &end, 10);
    return *end == '\0';
}

/* A node and all below it; children come down in bytes and add up. False: wrong. */
static bool take_node(lines *l, int depth, uint64_t *bytes)
{
    unsigned n_children;
    uint64_t sum = 0, child = 0, last = UINT64_MAX;
    int used = 0;
    if (!next_plain(l) || (int)strspn(l->line, " ") != depth ||
        sscanf(l->line + depth, "n%u: %" SCNu64 " %n", &n_children, bytes, &used) != 2)
        return false;
    const char *rest = l->line + depth + used;
    const bool group = strncmp(rest, "in ", 3) == 0;
    if (depth > 0 && (group ? n_children > 0
                            : strncmp(rest, "0x0: ", 5) != 0 || strstr(rest, " (in ") == NULL))
        return false;
    for (unsigned i = 0; i < n_children; i++) {
        if (!take_node(l, depth + 1, &child) || (child > last && i + 1 < n_children))
            return false;
        last = child;
        sum += child;
    }
    return n_children == 0 || sum == *bytes;
}

const char *check_massif(const written *file, const sw_timeline *t)
{
    static lines l;
    const sw_tl_program *p = sw_timeline_peak(t);
    uint64_t peaks = 0, count = 0, highest = 0, last = 0, x, time, heap, extra;
    l.at = file->bytes;
    if (!next_plain(&l) || strncmp(l.line, "desc:", 5) != 0 || !next_plain(&l) ||
        strncmp(l.line, "cmd:", 4) != 0 || !next_plain(&l) ||
        strcmp(l.line, "time_unit: i") != 0)
        BAD("the head: %s", l.line);
    for (; *l.at != '\0'; count++) {
        if (!number(&l, "snapshot=", &x) || x != count || !number(&l, "time=", &time) ||
            !number(&l, "mem_heap_B=", &heap) || !number(&l, "mem_heap_extra_B=", &extra) ||
            !number(&l, "mem_stacks_B=", &x) || x != 0 || !next_plain(&l) ||
            strncmp(l.line, "heap_tree=", 10) != 0)
            BAD("snapshot %" PRIu64 ": %s", count, l.line);
        uint64_t bytes = 0, padding = 0;
        for (uint32_t i = 0; i < p->n_values; i++)
            if (lives(&p->values[i], (uint32_t)time)) {
                bytes += p->values[i].bytes;
                padding += p->values[i].padding;
            }
        if (time >= p->n_ops || (count > 0 && time <= last) || bytes != heap ||
            padding != extra)
            BAD("at op %" PRIu64 ": %" PRIu64 " and %" PRIu64, time, heap, extra);
        last = time;
        highest = heap + extra > highest ? heap + extra : highest;
        const bool peak = strcmp(l.line, "heap_tree=peak") == 0;
        peaks += peak && heap + extra == p->peak_bytes;
        if (strcmp(l.line, "heap_tree=empty") != 0 &&
            ((!peak && strcmp(l.line, "heap_tree=detailed") != 0) || !take_node(&l, 0, &x) ||
             x != heap))
            BAD("the tree at op %" PRIu64 ": %s", time, l.line);
    }
    if (peaks != 1 || highest != p->peak_bytes || count > 405)
        BAD("%" PRIu64 " peaks, the highest %" PRIu64 " of %" PRIu64, peaks, highest,
            p->peak_bytes);
    return "";
}
