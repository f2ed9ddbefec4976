/* Pieces of the files of an evolution: numbers, lists, births, options. */
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

/* ---- whole files ------------------------------------------------------------------------- */

static sw_status read_open(sw_file *f, swi_text *out)
{
    uint64_t size;
    size_t got = 0;
    void *block;
    SW_TRY(sw_file_size(f, &size));
    if (size > SIZE_MAX / 4)
        SW_FAIL(SW_FORMAT, "%s: is too large", sw_file_path(f));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, (size_t)size + 1));
    const sw_status status = sw_file_read(f, block, (size_t)size, &got);
    if (status != SW_OK) {
        sw_heap_free(block, SW_HEAP_FILES, (size_t)size + 1);
        return status;
    }
    *out = (swi_text){block, (size_t)size};
    memset((char *)block + got, 0, (size_t)size + 1 - got);
    return SW_OK;
}

sw_status swi_text_read_file(swi_text *out, const char *path)
{
    sw_file *f;
    SW_TRY(sw_file_open(&f, path, SW_FILE_READ));
    const sw_status status = read_open(f, out);
    sw_file_drop(f);
    return status;
}

void swi_text_free(swi_text *text)
{
    if (text->bytes != NULL)
        sw_heap_free(text->bytes, SW_HEAP_FILES, text->n + 1);
    *text = (swi_text){NULL, 0};
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
    char text[24], *end;
    SW_TRY(sw_json_get_text(in, text, sizeof text));
    const uint64_t x = strtoull(text, &end, 16);
    if (strlen(text) != 18 || strncmp(text, "0x", 2) != 0 || *end != '\0')
        return sw_json_bad(in, "16 hexadecimal digits behind 0x must stand here");
    *out = x;
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

/* ---- options ----------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    uint64_t value;
} option;
enum { OPTIONS = 17 };

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t add(uint64_t sum, uint64_t x)
{
    return swi_sum_of(&x, sizeof x, sum);
}

static uint64_t sum_of_text(const char *text)
{
    return text != NULL ? swi_sum_of(text, strlen(text), 0) : 0;
}

/* Functions are not in it but for whether they are there. */
static uint64_t sum_of_mutations(const sw_evolution_opts *o)
{
    uint64_t sum = o->n_mutations;
    for (size_t i = 0; i < o->n_mutations; i++) {
        const sw_mutation *m = &o->mutations[i];
        const uint64_t x[] = {(uint64_t)m->kind,
                              (uint64_t)m->weigh,
                              bits_of(m->probability),
                              bits_of(m->low),
                              bits_of(m->high),
                              m->min_vertices,
                              m->max_parameters,
                              m->filter != NULL,
                              m->space != NULL ? sum_of_text(sw_search_space_text(m->space))
                                               : 0};
        sum = swi_sum_of(x, sizeof x, sum);
    }
    return sum;
}

static uint64_t sum_of_selections(const sw_evolution_opts *o)
{
    uint64_t sum = o->n_selections;
    for (size_t i = 0; i < o->n_selections; i++) {
        const sw_selection *s = &o->selections[i];
        const uint64_t x[] = {(uint64_t)s->kind,  s->n,        s->contestants, bits_of(s->p),
                              (uint64_t)s->stage, s->keep != 0};
        sum = swi_sum_of(x, sizeof x, sum);
    }
    return sum;
}

static uint64_t sum_of_fitness(const swi_fitness_plan *p)
{
    uint64_t sum = p->n;
    for (size_t i = 0; i < p->n; i++) {
        const sw_fitness *t = &p->terms[i];
        const uint64_t x[] = {(uint64_t)t->kind,   (uint64_t)t->objective, bits_of(t->factor),
                              bits_of(t->average), bits_of(t->drop),       t->map != NULL,
                              t->fn != NULL};
        sum = swi_sum_of(x, sizeof x, sum);
    }
    return sum;
}

static uint64_t sum_of_net(const sw_net_opts *o)
{
    uint64_t sum = swi_sum_of(o->scale, sizeof o->scale, (uint64_t)o->n_scales);
    sum = swi_sum_of(o->shift, sizeof o->shift, sum);
    for (int i = 0; i < o->n_losses; i++)
        sum = add(sum, sum_of_text(o->losses[i].name));
    return add(add(sum, o->hook != NULL), bits_of((double)o->utility_rate));
}

static uint64_t sum_of_data(const sw_dataset *d)
{
    uint64_t sum;
    sw_dataset_info info = {.size = sizeof info};
    if (sw_dataset_hash(d, &sum) == SW_OK)
        return sum;
    sw_dataset_describe(d, &info);
    return add((uint64_t)info.n, info.bytes);
}

static void options_of(const sw_evolution *e, option list[OPTIONS])
{
    const sw_evolution_opts *o = &e->opts;
    uint64_t first = o->n_first;
    for (size_t i = 0; i < o->n_first; i++)
        first = add(first, swi_genome_hash(o->first[i]));
    const option all[OPTIONS] = {
        {"seed", o->seed},
        {"population", o->population},
        {"samples", o->samples},
        {"validation_samples", o->validation_samples},
        {"mutate", bits_of(o->mutate)},
        {"crossover", bits_of(o->crossover)},
        {"candidate_bytes", o->candidate_bytes},
        {"generation_ns", o->generation_ns},
        {"step_ns", o->step_ns},
        {"patience", o->patience},
        {"first", first},
        {"mutations", sum_of_mutations(o)},
        {"selections", sum_of_selections(o)},
        {"fitness", sum_of_fitness(&e->fitness)},
        {"net", sum_of_net(&e->net_opts)},
        {"space", sum_of_text(sw_search_space_text(e->space))},
        {"data", add(sum_of_data(o->train), sum_of_data(o->validation))}};
    memcpy(list, all, sizeof all);
}

void swi_options_write(sw_json *j, const sw_evolution *e)
{
    option list[OPTIONS];
    options_of(e, list);
    sw_json_open(j, "options", '{');
    for (int i = 0; i < OPTIONS; i++)
        swi_put_hex(j, list[i].name, list[i].value);
    sw_json_end(j);
}

typedef struct {
    option list[OPTIONS];
    uint32_t seen;
} options_reader;

static sw_status read_option(sw_json_in *in, const char *key, void *context)
{
    options_reader *r = context;
    const char *names[OPTIONS];
    uint32_t which;
    uint64_t x;
    for (int i = 0; i < OPTIONS; i++)
        names[i] = r->list[i].name;
    SW_TRY(swi_read_field(in, key, names, OPTIONS, "the options", &r->seen, &which));
    SW_TRY(swi_get_hex(in, &x));
    if (x != r->list[which].value)
        SW_FAIL(SW_INVALID,
                "sw_evolution_resume: the run of %s had another %s: give the options that it "
                "was begun with",
                in->path, key);
    return SW_OK;
}

sw_status swi_options_read(sw_json_in *in, const sw_evolution *e)
{
    options_reader r = {.seen = 0};
    options_of(e, r.list);
    SW_TRY(sw_json_get_object(in, read_option, &r));
    return r.seen == (1u << OPTIONS) - 1 ? SW_OK
                                         : sw_json_bad(in, "an option of the run is missing");
}
