/* Reading tests/ops/special_values.txt. */
#include "tests/ops/special.h"
#include "tests/support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE "tests/ops/special_values.txt"
enum { CELLS = 8, LINE = 65536, ROW = 32768 };

static float numbers[ROW]; /* of the row that is read */
static int n_numbers;

/* "(2,3)" before the values; none: no shape. */
static const char *read_shape(special_tensor *t, const char *s)
{
    t->shaped = *s == '(';
    if (!t->shaped)
        return s;
    for (s++; *s != ')' && *s != '\0' && t->shape.rank < SW_MAX_RANK; s += *s == ',') {
        char *end;
        t->shape.dim[t->shape.rank++] = strtol(s, &end, 10);
        s = end;
    }
    return *s == ')' ? s + 1 : NULL;
}

/* "1,nan,-0*3" */
static bool read_values(special_tensor *t, const char *s)
{
    for (t->v = numbers + n_numbers; *s != '\0';) {
        char *end;
        const float v = strtof(s, &end);
        const long copies = *end == '*' ? strtol(end + 1, &end, 10) : 1;
        if (end == s || copies < 1 || n_numbers + copies > ROW)
            return false;
        for (long i = 0; i < copies; i++, t->n++)
            numbers[n_numbers++] = v;
        if (*end != '\0' && *end != ',')
            return false;
        s = *end == ',' ? end + 1 : end;
    }
    return true;
}

static bool read_tensor(special_tensor *t, const char *s)
{
    memset(t, 0, sizeof *t);
    t->looked_at = strcmp(s, "~") != 0;
    t->kind = 'f';
    if (!t->looked_at)
        return true;
    if (*s == 'c' || *s == 'u' || (*s == 'i' && s[1] != 'n'))
        t->kind = *s++;
    s = read_shape(t, s);
    return s != NULL && read_values(t, s);
}

/* Tensors apart by blanks; "-": none. Their number, -1 for a fault. */
static int read_tensors(special_tensor *to, char *s)
{
    int n = 0;
    char *rest = NULL;
    if (strcmp(s, "-") == 0)
        return 0;
    for (char *word = strtok_r(s, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        if (n == SPECIAL_OPERANDS || !read_tensor(&to[n++], word))
            return -1;
    return n;
}

static bool read_name(special_row *row, const char *s)
{
    if (strlen(s) >= sizeof row->name)
        return false;
    memcpy(row->name, s, strlen(s) + 1);
    const char *at = strchr(s, ' ');
    for (int i = 0; at != NULL && i < 4; i++, at = strchr(at + 1, ' '))
        row->args[i] = strtod(at + 1, NULL);
    return true;
}

/* Cells of "a | b | c", trimmed. */
static int split(char *line, char *cell[CELLS])
{
    int n = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *next = line; next != NULL && n < CELLS; n++) {
        cell[n] = next;
        next = strstr(next, " | ");
        if (next != NULL) {
            *next = '\0';
            next += 3;
        }
    }
    return n;
}

static bool read_row(special_row *row, char *line)
{
    char *cell[CELLS];
    const int n = split(line, cell);
    if ((n != 5 && n != CELLS) || !read_name(row, cell[0]))
        return false;
    row->differs = n == CELLS;
    row->n_in = read_tensors(row->in, cell[1]);
    row->n_grads = read_tensors(row->dx, cell[4]);
    if (row->n_in < 1 || row->n_grads < 0 || !read_tensor(&row->y, cell[3]))
        return false;
    if (strcmp(cell[2], "-") != 0 && !read_tensor(&row->dy, cell[2]))
        return false;
    return !row->differs || (strlen(cell[7]) > 10 && read_tensor(&row->our_y, cell[5]) &&
                             read_tensors(row->our_dx, cell[6]) == row->n_grads);
}

/* Keep case k of n. */
static bool keep_case(special_tensor *t, int n_tensors, int k, int n)
{
    for (int i = 0; i < n_tensors; i++, t++) {
        int size = 1;
        for (int d = 0; d < t->shape.rank; d++)
            size *= (int)t->shape.dim[d];
        if (t->n == 0) /* there is none */
            continue;
        if (t->n != n * size || size > SPECIAL_NUMBERS)
            return false;
        t->v += k * size;
        t->n = size;
    }
    return true;
}

/* The row has a case in each place of its lists. */
static bool visit_cases(const special_row *row, void (*visit)(const special_row *, void *),
                        void *to)
{
    static special_row one;
    int n = row->in[0].n;
    for (int d = 0; d < row->in[0].shape.rank; d++)
        n /= row->in[0].shape.dim[d] > 0 ? (int)row->in[0].shape.dim[d] : 1;
    for (int k = 0; k < n; k++) {
        one = *row;
        one.place = k + 1;
        if (!keep_case(one.in, SPECIAL_OPERANDS, k, n) || !keep_case(&one.dy, 1, k, n) ||
            !keep_case(&one.y, 1, k, n) || !keep_case(one.dx, SPECIAL_OPERANDS, k, n) ||
            !keep_case(&one.our_y, 1, k, n) || !keep_case(one.our_dx, SPECIAL_OPERANDS, k, n))
            return false;
        visit(&one, to);
    }
    return n > 0;
}

bool special_each(void (*visit)(const special_row *row, void *to), void *to)
{
    static char line[LINE];
    static special_row row;
    char path[4096];
    snprintf(path, sizeof path, "%s/" PAGE, sw_source_root());
    FILE *file = fopen(path, "r");
    if (!SW_CHECK(file != NULL, "%s cannot be opened", path))
        return false;
    bool good = true;
    for (int n = 1; good && fgets(line, sizeof line, file) != NULL; n++) {
        if (*line == '#' || *line == '\n')
            continue;
        memset(&row, 0, sizeof row);
        row.line = n;
        n_numbers = 0;
        good = read_row(&row, line) && visit_cases(&row, visit, to);
        SW_CHECK(good, PAGE ":%d: this is no row", n);
    }
    fclose(file);
    return good;
}
