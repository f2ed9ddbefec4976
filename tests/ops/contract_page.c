/* Reading runtime/ops/SAVED.md. Cells have alternatives, apart by "; else"; those of the second
 * cell end with conditions, "where A and B", and the third and fourth cell have a sum for each.
 */
#include "tests/ops/contract_page.h"
#include "runtime/ops/ops.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELSE "; else "
#define WHERE " where "

/* ---- the table --------------------------------------------------------------------------- */

static void copy_cell(char *to, size_t room, const char *from, const char *end)
{
    while (from < end && (*from == ' ' || *from == '`'))
        from++;
    while (end > from && (end[-1] == ' ' || end[-1] == '`'))
        end--;
    snprintf(to, room, "%.*s", (int)(end - from), from);
}

static bool read_row(contract_row *to, const char *line)
{
    char *const cells[] = {to->op, to->keeps, to->bytes, to->half, to->again, to->plain};
    const size_t room[] = {sizeof to->op,   sizeof to->keeps, sizeof to->bytes,
                           sizeof to->half, sizeof to->again, sizeof to->plain};
    for (int i = 0; i < 6; i++) {
        const char *end = strchr(line + 1, '|');
        const char *newline = strchr(line, '\n');
        if (end == NULL || (newline != NULL && end > newline) || (size_t)(end - line) > room[i])
            return false;
        copy_cell(cells[i], room[i], line + 1, end);
        line = end;
    }
    return line[1] == '\n' || line[1] == '\0';
}

void contract_read(contract_page *to, const char *text)
{
    int number = 1, in_table = 0; /* lines of the present table */
    memset(to, 0, sizeof *to);
    for (const char *line = text; line != NULL && *line != '\0'; number++) {
        in_table = line[0] == '|' ? in_table + 1 : 0;
        contract_row *row = &to->row[to->n];
        if (in_table > 2 && to->n < CONTRACT_ROWS) { /* after its head and the line below */
            row->line = number;
            if (read_row(row, line))
                to->n++;
            else if (to->error[0] == '\0')
                snprintf(to->error, sizeof to->error, "line %d has not six cells", number);
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
}

const contract_row *contract_find(const contract_page *page, const char *op)
{
    for (int i = 0; i < page->n; i++)
        if (strcmp(page->row[i].op, op) == 0)
            return &page->row[i];
    return NULL;
}

/* Alternative i of a cell. */
static bool part(const char *cell, int i, char *to, size_t room)
{
    for (; i > 0; i--) {
        cell = strstr(cell, ELSE);
        if (cell == NULL)
            return false;
        cell += strlen(ELSE);
    }
    const char *end = strstr(cell, ELSE);
    snprintf(to, room, "%.*s", (int)(end != NULL ? (size_t)(end - cell) : strlen(cell)), cell);
    return true;
}

/* ---- operands ---------------------------------------------------------------------------- */

/* "in3" or "out1" at *p, which moves past it; -1: neither. */
static int operand(const char **p)
{
    const bool out = strncmp(*p, "out", 3) == 0;
    if (!out && strncmp(*p, "in", 2) != 0)
        return -1;
    char *end;
    const char *digits = *p + (out ? 3 : 2);
    const long i = strtol(digits, &end, 10);
    if (end == digits || i < 0 || i >= CONTRACT_OUT)
        return -1;
    *p = end;
    return (int)i + (out ? CONTRACT_OUT : 0);
}

static bool read_set(const char *text, uint32_t *kept, uint32_t *there)
{
    *kept = *there = 0;
    if (strcmp(text, "nothing") == 0)
        return true;
    for (const char *p = text;; p += 2) {
        const bool bracket = *p == '[';
        p += bracket;
        const int i = operand(&p);
        if (i < 0 || (bracket && *p++ != ']'))
            return false;
        *kept |= 1u << i;
        *there |= bracket ? 1u << i : 0;
        if (*p == '\0')
            return true;
        if (strncmp(p, ", ", 2) != 0)
            return false;
    }
}

const char *contract_set(uint32_t set, uint32_t there, char *to, size_t room)
{
    size_t n = 0;
    snprintf(to, room, "nothing");
    for (int i = 0; i < 2 * CONTRACT_OUT && n < room; i++)
        if ((set >> i & 1u) != 0)
            n += (size_t)snprintf(to + n, room - n, "%s%s%s%d%s", n > 0 ? ", " : "",
                                  (there >> i & 1u) != 0 ? "[" : "",
                                  i < CONTRACT_OUT ? "in" : "out", i % CONTRACT_OUT,
                                  (there >> i & 1u) != 0 ? "]" : "");
    return to;
}

uint32_t contract_there(const contract_row *row)
{
    uint32_t all = 0, kept, there;
    char text[320];
    for (int i = 0; part(row->keeps, i, text, sizeof text); i++) {
        char *where = strstr(text, WHERE);
        if (where != NULL)
            *where = '\0';
        if (read_set(text, &kept, &there))
            all |= there;
    }
    return all;
}

/* ---- conditions -------------------------------------------------------------------------- */

#define WHO "more than in0 has a gradient"

bool contract_asks_who(const contract_row *row)
{
    return strstr(row->keeps, WHO) != NULL;
}

/* Places of which one wins. */
static int64_t places_of(const contract_use *u)
{
    if (strcmp(u->name, "max_pool2d") == 0) {
        const swi_pool_attrs *a = u->attrs;
        return (int64_t)a->kernel_h * a->kernel_w;
    }
    return swi_elements(&u->in[0].shape) / swi_elements(&u->out[0].shape);
}

static bool condition(const char *text, const contract_use *u, bool *holds, bool *shares)
{
    char *end;
    if (strcmp(text, "the output is kept anyway") == 0) {
        *shares = true;
        *holds &= u->held;
    } else if (strcmp(text, "the slope is above 0") == 0) {
        *holds &= u->attrs != NULL && ((const swi_number_attrs *)u->attrs)->value > 0.0f;
    } else if (strcmp(text, WHO) == 0) {
        *holds &= !u->alone;
    } else if (strcmp(text, "in0 has the output's shape") == 0) {
        *holds &= swi_same_shape(&u->in[0].shape, &u->out[0].shape);
    } else if (strncmp(text, "of at most ", 11) == 0) {
        const int64_t most = strtoll(text + 11, &end, 10);
        *holds &= places_of(u) <= most;
        return strcmp(end, " places") == 0;
    } else {
        return false;
    }
    return true;
}

/* "A and B"; the text is cut in pieces. */
static bool conditions(char *text, const contract_use *u, bool *holds, bool *shares)
{
    *holds = true;
    *shares = false;
    while (text != NULL) {
        char *next = strstr(text, " and ");
        if (next != NULL)
            *next = '\0';
        if (!condition(text, u, holds, shares))
            return false;
        text = next != NULL ? next + 5 : NULL;
    }
    return true;
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* The count of " of X" and " per X"; elements of the output without either. " in each channel":
 * those of each of *parts channels of its images, or blocks of images. */
static bool count_of(const char **p, const contract_use *u, int64_t *n, int64_t *parts)
{
    const sw_type *x = &u->in[0], *y = &u->out[0];
    *n = sw_type_elements(y);
    *parts = 1;
    if (strncmp(*p, " of ", 4) == 0) {
        *p += 4;
        const int i = operand(p);
        const bool out = i >= CONTRACT_OUT;
        if (i < 0 || i % CONTRACT_OUT >= (out ? u->n_out : u->n_in))
            return i >= 0 && (*n = 0, true); /* an optional operand that is not there */
        *n = sw_type_elements(out ? &u->out[i - CONTRACT_OUT] : &u->in[i]);
    } else if (strncmp(*p, " per row", 8) == 0) {
        *p += 8;
        *n =
            swi_elements(&x->shape) / (x->shape.rank > 0 ? x->shape.dim[x->shape.rank - 1] : 1);
    } else if (strncmp(*p, " per channel", 12) == 0) {
        *p += 12;
        *n = x->shape.dim[1];
    } else if (strncmp(*p, " in each channel", 16) == 0) {
        *p += 16;
        const int64_t images = y->shape.dim[0];
        *parts = y->shape.dim[1] * (y->layout == SW_N16 ? (images + 15) / 16 : images);
        *n /= *parts;
    } else if (strncmp(*p, " per group", 10) == 0) {
        *p += 10;
        *n = x->shape.dim[0] * ((const swi_norm_attrs *)u->attrs)->groups;
    }
    return true;
}

/* "4 of in0 + 1/8 + 8 per row": bytes for each, whole bytes for each term. */
static bool sum_of(const char *text, const contract_use *u, size_t *bytes)
{
    *bytes = 0;
    for (const char *p = text;; p += 3) {
        char *end;
        int64_t n, parts;
        const long over = strtol(p, &end, 10);
        const long below = *end == '/' ? strtol(end + 1, &end, 10) : 1;
        if (end == p || over < 0 || below < 1)
            return false;
        p = end;
        if (!count_of(&p, u, &n, &parts))
            return false;
        *bytes += (size_t)((n * over + below - 1) / below * parts);
        if (*p == '\0')
            return true;
        if (strncmp(p, " + ", 3) != 0)
            return false;
    }
}

bool contract_choose(const contract_row *row, const contract_use *u, contract_terms *to,
                     char *why, size_t room)
{
    char keeps[sizeof row->keeps], bytes[sizeof row->bytes];
    for (int i = 0; part(row->keeps, i, keeps, sizeof keeps); i++) {
        bool holds = true;
        char *where = strstr(keeps, WHERE);
        to->shares = false;
        if (where != NULL) {
            *where = '\0';
            if (!conditions(where + strlen(WHERE), u, &holds, &to->shares)) {
                snprintf(why, room, "no condition is known as '%s'", where + strlen(WHERE));
                return false;
            }
        }
        if (!read_set(keeps, &to->kept, &to->there)) {
            snprintf(why, room, "'%s' is not a list of in0, [in1], out0, or nothing", keeps);
            return false;
        }
        const char *sums = u->half ? row->half : row->bytes;
        if (!part(sums, i, bytes, sizeof bytes) || !sum_of(bytes, u, &to->bytes)) {
            snprintf(why, room, "alternative %d of the bytes, '%s', is not a sum", i, sums);
            return false;
        }
        if (holds)
            return true;
    }
    snprintf(why, room, "no alternative holds");
    return false;
}
