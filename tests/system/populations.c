/* See populations.h. */
#include "tests/system/populations.h"
#include "tests/support/suite.h"
#include <inttypes.h>
#include <sys/stat.h>

#define NET                                                                                    \
    "--data synthetic --synthetic-n 96 --batch 16 --model mlp --hidden 12 --members 6 "        \
    "--interval 3 --steps 24 --seed 3 --quiet --json "

static void new_folder(void)
{
    going_new_folder("population");
    CU_ASSERT(mkdir(going_at("L"), 0700) == 0 && mkdir(going_at("Z"), 0700) == 0);
}

const sw_outcome *population_run(const char *words, const char *more)
{
    new_folder();
    return going_run("pbt " NET "--metrics @/M.csv --log-dir @/L --save-params @/P%%d %s %s",
                     words, more);
}

const sw_outcome *population_only(const char *words, const char *more)
{
    return going_run("pbt " NET "%s %s", words, more);
}

/* FNV-1a; 0: there is no such file. */
static uint64_t hash_of(const char *name)
{
    size_t n;
    uint64_t hash = 0xcbf29ce484222325u;
    unsigned char *bytes = file_read(going_at(name), &n);
    if (bytes == NULL)
        return 0;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    free(bytes);
    return hash;
}

static size_t put_file(char *to, size_t room, const char *name, bool *missing)
{
    const uint64_t hash = hash_of(name);
    *missing = *missing || hash == 0;
    const int n = snprintf(to, room, "%s %016" PRIx64 "\n", name, hash);
    return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

char *population_read(const sw_outcome *out)
{
    enum { ROOM = 1 << 16 };
    bool missing = false;
    const char *from = strstr(out->out, "\"train_rows\":"); /* the test too, then all members */
    const char *to = strstr(out->out, "\"shapes\":");
    if (out->status != 0 || from == NULL || to == NULL)
        return NULL;
    char *text = malloc(ROOM);
    size_t n = put_file(text, ROOM, "M.csv", &missing);
    n += put_file(text + n, ROOM - n, "L/pbt_global.txt", &missing);
    for (int k = 0; k < POPULATION; k++) {
        n += put_file(text + n, ROOM - n, sw_textf("P%d", k), &missing);
        n += put_file(text + n, ROOM - n, sw_textf("L/pbt_policy_%d.txt", k), &missing);
    }
    (void)snprintf(text + n, ROOM - n, "%.*s", (int)(to - from), from);
    if (!missing)
        return text;
    free(text);
    return NULL;
}

/* The begin of the next cell in [at, end), NULL: there is none. Cells are apart by any number
 * of blanks. */
static const char *next_cell(const char *at, const char *end, const char *cell)
{
    at = strstr(at, cell);
    while (at != NULL && at < end && strncmp(at, cell, strlen(cell)) == 0)
        at += strlen(cell);
    return at != NULL && at < end ? at : NULL;
}

int population_column(const char *text, const char *head, const char *row, const char *cell,
                      int column)
{
    int n = 0;
    size_t decimals = 0;
    const char *at = strstr(text, head);
    SW_CHECK(at != NULL, "%s is not in: %s", head, text);
    for (at = at != NULL ? strstr(at, row) : NULL; at != NULL; at = strstr(at + 1, row)) {
        const char *next = strstr(at + 1, row), *x = at;
        const char *end = next != NULL ? next : at + strlen(at);
        if (next_cell(at, end, cell) == NULL)
            break; /* the line after the table */
        for (int i = 0; i <= column && x != NULL; i++)
            x = next_cell(x, end, cell);
        if (x == NULL || strspn(x, "-0123456789") == 0)
            continue;
        const char *point = x + strspn(x, "-0123456789");
        const size_t its = *point == '.' ? strspn(point + 1, "0123456789") : 0;
        SW_CHECK(n == 0 || its == decimals, "%s: column %d: %.30s", head, column, x);
        decimals = its;
        n++;
    }
    return n;
}
