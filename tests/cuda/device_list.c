/* See device_list.h. */
#include "tests/cuda/device_list.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sources ----------------------------------------------------------------------------- */

#define MOST_FILES 64

typedef struct {
    const char *root;
    char seen[MOST_FILES][128];
    int n;
    uint64_t hash;
    bool bad;
} walk;

static char *read_text(const char *root, const char *path)
{
    char name[1024];
    snprintf(name, sizeof name, "%s/%s", root, path);
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    const long n = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)n + 1);
    if (text != NULL && fread(text, 1, (size_t)n, file) != (size_t)n) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static void add_byte(walk *w, char c)
{
    w->hash = (w->hash ^ (unsigned char)c) * 0x100000001b3u;
}

/* Where a comment or blanks end that begin at p; p itself where there are none. */
static const char *behind_blank(const char *p)
{
    for (;;) {
        if (isspace((unsigned char)*p))
            p++;
        else if (strncmp(p, "//", 2) == 0)
            p += strcspn(p, "\n");
        else if (strncmp(p, "/*", 2) == 0)
            p = strstr(p, "*/") != NULL ? strstr(p, "*/") + 2 : p + strlen(p);
        else
            return p;
    }
}

static void walk_file(walk *w, const char *path);

static void walk_include(walk *w, const char *line)
{
    char path[128];
    if (sscanf(line, "#include \"%127[^\"]\"", path) == 1)
        walk_file(w, path);
}

/* Every file once, where it is first included. */
static void walk_file(walk *w, const char *path)
{
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->seen[i], path) == 0)
            return;
    char *text = w->n < MOST_FILES ? read_text(w->root, path) : NULL;
    if (text == NULL && w->n < MOST_FILES) /* made by the build */
        text = read_text(SW_BUILD_ROOT, path);
    if (text == NULL) {
        w->bad = true;
        return;
    }
    snprintf(w->seen[w->n++], sizeof w->seen[0], "%s", path);
    for (const char *p = text; *p != '\0';) {
        const char *next = behind_blank(p);
        if (next > p) {
            add_byte(w, ' ');
            p = next;
            continue;
        }
        if (*p == '#')
            walk_include(w, p);
        add_byte(w, *p++);
    }
    free(text);
}

uint64_t sw_device_hash(uint64_t hash, const char *root, const char *path)
{
    static walk w;
    memset(&w, 0, sizeof w);
    w.root = root;
    w.hash = hash ^ 0xcbf29ce484222325u;
    walk_file(&w, path);
    return w.bad ? 0 : w.hash;
}

/* ---- kernels ----------------------------------------------------------------------------- */

#define SW_CUDA_KERNEL(op, which, function, scratch, exact) {#op, #function},
static const struct {
    const char *op, *function;
} entries[] = {
#include "kernels/cuda/table.def"
};
#undef SW_CUDA_KERNEL
#define ENTRIES (sizeof entries / sizeof *entries)

static const char *const units[] = {
#define X(unit) #unit,
    SW_CUDA_UNITS(X)
#undef X
};

static sw_device_row *row_of(sw_device_list *list, const char *op)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->row[i].op, op) == 0)
            return &list->row[i];
    return NULL;
}

/* The unit is one of those that the op's entries are in. */
static void add_unit(sw_device_row *row, const char *unit, uint64_t hash)
{
    const char *last = strrchr(row->units, '+');
    if (strcmp(last != NULL ? last + 1 : row->units, unit) == 0)
        return;
    const size_t n = strlen(row->units);
    snprintf(row->units + n, sizeof row->units - n, "%s%s", n > 0 ? "+" : "", unit);
    snprintf(row->now, sizeof row->now, "%016llx",
             (unsigned long long)(strtoull(row->now, NULL, 16) * 3 + hash));
}

/* The functions that the unit's object defines: that of nvcc, or the emulated one. */
static bool read_unit(sw_device_list *list, const char *unit, bool *found)
{
    char line[2400];
    snprintf(line, sizeof line, "kernels/cuda/%s.cu", unit);
    const uint64_t hash = sw_device_hash(0, SW_SOURCE_ROOT, line);
    snprintf(line, sizeof line,
             "nm --defined-only '%s/kernels/cuda/%s.o' "
             "'%s/tests/cuda/libsw_emulated_kernels_cuda_%s.a' 2>&1",
             SW_BUILD_ROOT, unit, SW_BUILD_ROOT, unit);
    FILE *out = popen(line, "r");
    while (out != NULL && fgets(line, sizeof line, out) != NULL) {
        const char *name = strrchr(line, ' ');
        line[strcspn(line, "\n")] = '\0';
        for (size_t e = 0; name != NULL && e < ENTRIES; e++)
            if (strcmp(name + 1, entries[e].function) == 0) {
                add_unit(row_of(list, entries[e].op), unit, hash);
                found[e] = true;
            }
    }
    if (out != NULL)
        pclose(out);
    return hash != 0;
}

bool sw_device_list_kernels(sw_device_list *out, const char **why)
{
    bool found[ENTRIES] = {false};
    memset(out, 0, sizeof *out);
    *why = "too many kernels";
    for (size_t e = 0; e < ENTRIES; e++) {
        if (row_of(out, entries[e].op) != NULL)
            continue;
        if (out->n == SW_DEVICE_KERNELS)
            return false;
        snprintf(out->row[out->n++].op, sizeof out->row[0].op, "%s", entries[e].op);
    }
    *why = "a source cannot be read";
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        if (!read_unit(out, units[u], found))
            return false;
    *why = "no objects of the kernels, or no nm";
    for (size_t e = 0; e < ENTRIES; e++)
        if (!found[e])
            return false;
    return true;
}

/* ---- the file ---------------------------------------------------------------------------- */

static const char head[] = "# Kernels on a real device\n\n"
                           "Which sources a device has checked last, by the hash of the files "
                           "and of what they include,\n"
                           "comments left out. Written by the suite that runs on a device; a "
                           "kernel whose sources have\n"
                           "another hash now is stale. `test_device` shows what is.\n\n"
                           "| kernel | files | sources | date | card | driver |\n"
                           "|---|---|---|---|---|---|\n";

/* The cell after *at, without blanks around it; *at goes past its end. */
static bool take_cell(char **at, char *to, size_t bytes)
{
    char *end = **at == '|' ? strchr(*at + 1, '|') : NULL;
    if (end == NULL)
        return false;
    const char *from = *at + 1;
    size_t n = (size_t)(end - from);
    while (n > 0 && *from == ' ')
        from++, n--;
    while (n > 0 && from[n - 1] == ' ')
        n--;
    if (n >= bytes)
        return false;
    memcpy(to, from, n);
    to[n] = '\0';
    *at = end;
    return true;
}

static bool read_row(sw_device_list *list, char *line)
{
    sw_device_row r;
    if (!take_cell(&line, r.op, sizeof r.op) || !take_cell(&line, r.units, sizeof r.units) ||
        !take_cell(&line, r.then, sizeof r.then) || !take_cell(&line, r.date, sizeof r.date) ||
        !take_cell(&line, r.card, sizeof r.card) ||
        !take_cell(&line, r.driver, sizeof r.driver) || strcmp(line, "|\n") != 0)
        return false;
    sw_device_row *row = row_of(list, r.op);
    if (row == NULL || strcmp(r.date, "never") == 0)
        return true;
    if (strlen(r.then) != 16 || strspn(r.then, "0123456789abcdef") != 16)
        return false;
    memcpy(row->then, r.then, sizeof r.then);
    memcpy(row->date, r.date, sizeof r.date);
    memcpy(row->card, r.card, sizeof r.card);
    memcpy(row->driver, r.driver, sizeof r.driver);
    return true;
}

bool sw_device_list_read(sw_device_list *list, const char *path)
{
    char line[512];
    bool table = false, good = true;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    while (good && fgets(line, sizeof line, file) != NULL) {
        if (table)
            good = read_row(list, line);
        table |= strncmp(line, "|---", 4) == 0;
    }
    fclose(file);
    return good && table;
}

bool sw_device_list_write(const sw_device_list *list, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    bool good = fputs(head, file) >= 0;
    for (int i = 0; good && i < list->n; i++) {
        const sw_device_row *r = &list->row[i];
        const bool never = sw_device_row_state(r) == SW_DEVICE_NEVER;
        good = fprintf(file, "| %s | %s | %s | %s | %s | %s |\n", r->op, r->units,
                       never ? "-" : r->then, never ? "never" : r->date, never ? "-" : r->card,
                       never ? "-" : r->driver) > 0;
    }
    return fclose(file) == 0 && good;
}

/* Without what would end a cell. */
static void put_cell(char *to, size_t bytes, const char *text)
{
    snprintf(to, bytes, "%s", text);
    for (char *p = to; *p != '\0'; p++)
        if (*p == '|' || *p == '\n')
            *p = '/';
}

bool sw_device_list_mark(sw_device_list *list, const char *op, const char *date,
                         const char *card, const char *driver)
{
    sw_device_row *row = row_of(list, op);
    if (row == NULL)
        return false;
    memcpy(row->then, row->now, sizeof row->then);
    put_cell(row->date, sizeof row->date, date);
    put_cell(row->card, sizeof row->card, card);
    put_cell(row->driver, sizeof row->driver, driver);
    return true;
}

sw_device_state sw_device_row_state(const sw_device_row *row)
{
    return row->then[0] == '\0'               ? SW_DEVICE_NEVER
           : strcmp(row->then, row->now) == 0 ? SW_DEVICE_CHECKED
                                              : SW_DEVICE_CHANGED;
}
