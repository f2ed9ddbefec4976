/* `stepwell bench`: one harness. A bench is a table of options and a function that measures;
 * what it finds are rows of structs, which a table of fields describes, and one printer writes
 * them as text or as JSON. Each compares within one run, in turns, by minimum and median: this
 * kind of machine changes speed by a half from one second to the next. */
#pragma once

#include "tools/job/result.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- a bench ----------------------------------------------------------------------------- */

typedef struct bench_field bench_field;

/* A run of one. */
typedef struct {
    int64_t threads; /* these three are options of every bench */
    bool json, quiet;
    bool input;               /* what fails now is a file that is read */
    int code;                 /* the exit status where nothing fails; CLI_DONE */
    sw_json out;              /* with --json */
    const char *open;         /* the array that rows go to; NULL: none */
    const bench_field *shown; /* of the last row of text */
    char heading[2000];       /* text before the next row: a run that fails before has none */
} bench;

typedef struct {
    const char *name, *about;
    const char *line;  /* of the list of all */
    const char *usage; /* NULL: "[options]" */
    const char *notes;
    const char *threads; /* where none are given; NULL: 2 */
    const cli_option *options;
    int n_options; /* at most 16 */
    const char **files;
    int max_files;
    int (*check)(
        bench *b); /* whether options fit together: CLI_GO or an exit status; or NULL */
    sw_status (*run)(bench *b);
} bench_command;
/* Rows of such a table: a number, a word of some, a flag. */
#define BENCH_NUMBER(name, to, initial, help, min, max)                                        \
    {                                                                                          \
        name, "N", CLI_COUNT, to, initial, help, min, max, NULL                                \
    }
#define BENCH_NAME(name, to, initial, help, words)                                             \
    {                                                                                          \
        name, "NAME", CLI_WORD, to, initial, help, 0, 0, words                                 \
    }
#define BENCH_SWITCH(name, to, help)                                                           \
    {                                                                                          \
        name, NULL, CLI_FLAG, to, NULL, help, 0, 0, NULL                                       \
    }
#define BENCH_OPTIONS(table)                                                                   \
    .options = (table), .n_options = (int)(sizeof(table) / sizeof *(table))

extern const bench_command bench_speed, bench_products, bench_plan, bench_budget, bench_place,
    bench_es, bench_accuracy, bench_overhead, bench_search, bench_device;

/* ---- rows -------------------------------------------------------------------------------- */

typedef enum {
    BENCH_WORD,   /* const char *; NULL: absent, as BENCH_NONE and NaN are */
    BENCH_TEXT,   /* the same in place, "": absent */
    BENCH_COUNT,  /* int64_t or uint64_t */
    BENCH_BYTES,  /* the same */
    BENCH_NS,     /* the same */
    BENCH_REAL,   /* double */
    BENCH_TIME,   /* double, nanoseconds */
    BENCH_FLAG,   /* bool */
    BENCH_TIMES,  /* cli_summary, of which text has minimum and median; n 0: absent */
    BENCH_SPREAD, /* the same, of which text has p99 and maximum too */
    BENCH_KINDS
} bench_kind;
#define BENCH_NONE INT64_MIN

/* A member of a row: its key in JSON, and where it is. head: of its column; NULL: in JSON
 * alone. */
struct bench_field {
    const char *key;
    bench_kind kind;
    size_t at;
    const char *head;
    int width; /* of a column of words; 0: of the others */
};
/* Of a struct; the key is the member's name. The second is of one that is called `row`. */
#define BENCH_OF(type, kind, key, head, width)                                                 \
    {                                                                                          \
#key, BENCH_##kind, offsetof(type, key), head, width                                   \
    }
#define BENCH_FIELD(kind, key, head, width) BENCH_OF(row, kind, key, head, width)

/* A struct and the table of its fields from one list of X(t, KIND, key, head, width). */
#define BENCH_ROW(type, fields, LIST)                                                          \
    typedef struct {                                                                           \
        LIST(BENCH_MEMBER, type)                                                               \
    } type;                                                                                    \
    static const bench_field fields[] = {LIST(BENCH_ENTRY, type)}
#define BENCH_MEMBER(type, kind, key, head, width) bench_##kind key;
#define BENCH_ENTRY(type, kind, key, head, width) BENCH_OF(type, kind, key, head, width),
typedef const char *bench_WORD;
typedef char bench_TEXT[48];
typedef int64_t bench_COUNT, bench_BYTES, bench_NS;
typedef double bench_REAL, bench_TIME;
typedef bool bench_FLAG;
typedef cli_summary bench_TIMES, bench_SPREAD;

/* Append rows to the array `key`. */
void bench_put_rows(bench *b, const char *key, const bench_field *fields, int n_fields,
                    const void *rows, int64_t n, size_t row_bytes);
#define bench_rows(b, key, fields, rows, n)                                                    \
    bench_put_rows(b, key, fields, (int)(sizeof(fields) / sizeof *(fields)), rows, n,          \
                   sizeof *(rows))
/* Members of the object itself; in text a line before the next row, without --quiet. */
void bench_put_facts(bench *b, const bench_field *fields, int n_fields, const void *facts);
#define bench_facts(b, fields, facts)                                                          \
    bench_put_facts(b, fields, (int)(sizeof(fields) / sizeof *(fields)), facts)
/* Text before the next row, without --quiet; nothing in JSON. */
void bench_note(bench *b, const char *format, ...) SW_PRINTF(2, 3);

/* Text that no row came after. */
void bench_print_heading(bench *b);

/* --bf16-order; NULL: none. */
static inline sw_bf16_order bench_order(const char *name)
{
    if (name == NULL)
        return SW_ORDER_NONE;
    return strcmp(name, "tile") == 0 ? SW_ORDER_TILE : SW_ORDER_PAIR;
}

double bench_ratio(double a, double b); /* NaN where b is 0 */
double bench_percent(double part, double whole);

/* One of several that do the same in different ways; the first is what others are compared
 * with, in percent. */
typedef struct {
    const char *name;
    cli_summary times;
    double above_min_percent, above_median_percent;
} bench_variant;
enum { BENCH_VARIANTS = 24 };
/* Time step(context, i) of n variants, one after the other, `rounds` times or until
 * interrupted; each round begins with another, so that none always follows the same
 * neighbour. */
SW_MUST_USE sw_status bench_take_turns(bench_variant *variants, int n, int64_t rounds,
                                       sw_status (*step)(void *context, int i), void *context);
void bench_put_variants(bench *b, const char *key, const bench_variant *variants, int n);
