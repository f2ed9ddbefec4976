/* Pieces of the files of an evolution: numbers, lists, births. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution_files.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void swi_evolution_path(const sw_evolution *e, const char *name, char path[SWI_EVOLUTION_PATH])
{
    (void)snprintf(path, SWI_EVOLUTION_PATH, "%s/%s", e->opts.dir, name);
}

/* ---- numbers ----------------------------------------------------------------------------- */

void swi_put_hex(sw_json *j, const char *key, uint64_t x)
{
    char text[24];
    (void)snprintf(text, sizeof text, "0x%016llx", (unsigned long long)x);
    sw_json_put_string(j, key, text);
}

sw_status swi_get_hex(sw_json_in *in, uint64_t *out)
{
    char text[24];
    SW_TRY(sw_json_get_text(in, text, sizeof text));
    if (strlen(text) != 18 || strncmp(text, "0x", 2) != 0 ||
        strspn(text + 2, "0123456789abcdef") != 16)
        return sw_json_bad(in, "16 hexadecimal digits after 0x must stand here");
    *out = strtoull(text, NULL, 16);
    return SW_OK;
}

sw_status swi_get_count_or(sw_json_in *in, const char *field, uint64_t *out)
{
    int64_t x;
    SW_TRY(swi_read_whole(in, field, 0, INT64_MAX, &x));
    *out = (uint64_t)x;
    return SW_OK;
}

sw_status swi_get_real(sw_json_in *in, double *out)
{
    sw_json_number x;
    sw_json_word word;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (c != 'n') {
        SW_TRY(sw_json_get_number(in, &x));
        *out = x.real;
        return SW_OK;
    }
    SW_TRY(sw_json_get_word(in, &word));
    *out = (double)NAN;
    return word == SW_JSON_NULL ? SW_OK : sw_json_bad(in, "a number or null must stand here");
}

void swi_put_counts(sw_json *j, const char *key, const uint64_t *x, size_t n)
{
    sw_json_open(j, key, '[');
    for (size_t i = 0; i < n; i++)
        sw_json_u64(j, x[i]);
    sw_json_end(j);
}

sw_status swi_get_counts(sw_json_in *in, uint64_t *x, size_t n)
{
    SW_TRY(sw_json_expect(in, '['));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            SW_TRY(sw_json_expect(in, ','));
        SW_TRY(sw_json_get_count(in, &x[i]));
    }
    return sw_json_expect(in, ']');
}

void swi_put_reals(sw_json *j, const char *key, const double *x, size_t n)
{
    sw_json_open(j, key, '[');
    for (size_t i = 0; i < n; i++)
        sw_json_f64(j, x[i]);
    sw_json_end(j);
}

sw_status swi_get_reals(sw_json_in *in, double *x, size_t n)
{
    SW_TRY(sw_json_expect(in, '['));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            SW_TRY(sw_json_expect(in, ','));
        SW_TRY(swi_get_real(in, &x[i]));
    }
    return sw_json_expect(in, ']');
}

/* ---- births ------------------------------------------------------------------------------ */

enum { LIMITS = 7 };
static const char *const births[] = {"first", "drawn", "child"};

void swi_birth_write(sw_json *j, const char *key, const swi_birth *b)
{
    const swi_limits *l = &b->limits;
    const uint64_t limits[LIMITS] = {l->most.arena, l->most.batch, l->most.member,    l->best,
                                     l->room,       l->population, (uint64_t)l->files};
    sw_json_open(j, key, '{');
    sw_json_put_string(j, "how", births[b->how]);
    sw_json_put_u64(j, "generation", b->generation);
    sw_json_put_u64(j, "index", b->index);
    sw_json_put_u64(j, "attempt", b->attempt);
    sw_json_put_bool(j, "fresh", b->fresh);
    swi_put_counts(j, "limits", limits, LIMITS);
    sw_json_end(j);
}

typedef struct {
    swi_birth *to;
    uint32_t seen;
} birth_reader;

static sw_status read_limits(sw_json_in *in, swi_limits *l)
{
    uint64_t x[LIMITS];
    SW_TRY(swi_get_counts(in, x, LIMITS));
    *l = (swi_limits){.most = {(size_t)x[0], (size_t)x[1], (size_t)x[2]},
                      .best = (size_t)x[3],
                      .room = (size_t)x[4],
                      .population = (uint32_t)x[5],
                      .files = x[6] != 0};
    return SW_OK;
}

static sw_status read_birth(sw_json_in *in, const char *key, void *context)
{
    static const char *const fields[] = {"how",     "generation", "index",
                                         "attempt", "fresh",      "limits"};
    birth_reader *r = context;
    uint32_t which, how;
    uint64_t x = 0;
    SW_TRY(swi_read_field(in, key, fields, 6, "a birth", &r->seen, &which));
    if (which == 0) {
        SW_TRY(swi_read_choice(in, key, births, 3, &how));
        r->to->how = (swi_birth_kind)how;
        return SW_OK;
    }
    if (which == 4)
        return swi_read_bool(in, key, &r->to->fresh);
    if (which == 5)
        return read_limits(in, &r->to->limits);
    SW_TRY(swi_get_count_or(in, key, &x));
    if (which == 1)
        r->to->generation = x;
    else if (which == 2)
        r->to->index = (uint32_t)x;
    else
        r->to->attempt = (uint32_t)x;
    return SW_OK;
}

sw_status swi_birth_read(sw_json_in *in, swi_birth *out)
{
    birth_reader r = {.to = out};
    SW_TRY(sw_json_get_object(in, read_birth, &r));
    return r.seen == 63 ? SW_OK : sw_json_bad(in, "a field of the birth is missing");
}

void swi_ops_write(sw_json *j, const swi_one *one)
{
    sw_json_open(j, "ops", '[');
    char line[512];
    for (uint32_t at = 0; at < one->ops_bytes;) {
        const char *from = one->ops + at;
        const char *end = memchr(from, '\n', one->ops_bytes - at);
        const size_t n = (size_t)(end - from);
        (void)snprintf(line, sizeof line, "%.*s", (int)n, from);
        sw_json_string(j, line);
        at += (uint32_t)n + 1;
    }
    sw_json_end(j);
}
