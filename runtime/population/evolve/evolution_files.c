/* DIR/generation.json: all that a generation begins with but for the states of its members,
 * which are files in DIR/members. It is written when those are there, and the one before it is
 * generation.json.1 from then on, as with checkpoints; then what neither of both needs is
 * removed. */
#include "alloc/base/error.h"
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- evolution json ---------------------------------------------------------------------- */

/* Pieces of the files of an evolution: numbers, lists, births. */

void swi_evolution_path(const sw_evolution *e, const char *name, char path[SWI_EVOLUTION_PATH])
{
    (void)snprintf(path, SWI_EVOLUTION_PATH, "%s/%s", e->opts.dir, name);
}

/* ---- numbers ----------------------------------------------------------------------------- */

static void put_hex(sw_json *j, const char *key, uint64_t x)
{
    char text[24];
    (void)snprintf(text, sizeof text, "0x%016llx", (unsigned long long)x);
    sw_json_put_string(j, key, text);
}

static sw_status get_hex(sw_json_in *in, uint64_t *out)
{
    char text[24];
    SW_TRY(sw_json_get_text(in, text, sizeof text));
    if (strlen(text) != 18 || strncmp(text, "0x", 2) != 0 ||
        strspn(text + 2, "0123456789abcdef") != 16)
        return sw_json_bad(in, "16 hexadecimal digits after 0x must stand here");
    *out = strtoull(text, NULL, 16);
    return SW_OK;
}

/* Numbers past 2^53, and sums: "0x..." */
static sw_status get_count_or(sw_json_in *in, const char *field, uint64_t *out)
{
    int64_t x;
    SW_TRY(swi_read_whole(in, field, 0, INT64_MAX, &x));
    *out = (uint64_t)x;
    return SW_OK;
}

/* NaN is null. */
static sw_status get_real(sw_json_in *in, double *out)
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

static void put_counts(sw_json *j, const char *key, const uint64_t *x, size_t n)
{
    sw_json_open(j, key, '[');
    for (size_t i = 0; i < n; i++)
        sw_json_u64(j, x[i]);
    sw_json_end(j);
}

static sw_status get_counts(sw_json_in *in, uint64_t *x, size_t n)
{
    SW_TRY(sw_json_expect(in, '['));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            SW_TRY(sw_json_expect(in, ','));
        SW_TRY(sw_json_get_count(in, &x[i]));
    }
    return sw_json_expect(in, ']');
}

static void put_reals(sw_json *j, const char *key, const double *x, size_t n)
{
    sw_json_open(j, key, '[');
    for (size_t i = 0; i < n; i++)
        sw_json_f64(j, x[i]);
    sw_json_end(j);
}

/* Exactly n numbers. */
static sw_status get_reals(sw_json_in *in, double *x, size_t n)
{
    SW_TRY(sw_json_expect(in, '['));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            SW_TRY(sw_json_expect(in, ','));
        SW_TRY(get_real(in, &x[i]));
    }
    return sw_json_expect(in, ']');
}

/* ---- births ------------------------------------------------------------------------------ */

enum { LIMITS = 7 };
static const char *const births[] = {"first", "drawn", "child"};

static void birth_write(sw_json *j, const char *key, const swi_birth *b)
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
    put_counts(j, "limits", limits, LIMITS);
    sw_json_end(j);
}

typedef struct {
    swi_birth *to;
    uint32_t seen;
} birth_reader;

static sw_status read_limits(sw_json_in *in, swi_limits *l)
{
    uint64_t x[LIMITS];
    SW_TRY(get_counts(in, x, LIMITS));
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
    SW_TRY(get_count_or(in, key, &x));
    if (which == 1)
        r->to->generation = x;
    else if (which == 2)
        r->to->index = (uint32_t)x;
    else
        r->to->attempt = (uint32_t)x;
    return SW_OK;
}

static sw_status birth_read(sw_json_in *in, swi_birth *out)
{
    birth_reader r = {.to = out};
    SW_TRY(sw_json_get_object(in, read_birth, &r));
    return r.seen == 63 ? SW_OK : sw_json_bad(in, "a field of the birth is missing");
}

/* How a member was born; an object. */
static void ops_write(sw_json *j, const swi_one *one)
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

/* ---- evolution history ------------------------------------------------------------------- */

/* DIR/history.jsonl: a line for each member and generation, of what it was and what became of
 * it. A run that goes on cuts it to what the last whole generation knew of it. */

sw_status swi_evolution_log_begin(sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    swi_evolution_path(e, "history.jsonl", path);
    SW_TRY(sw_file_open(&e->history, path, SW_FILE_KEEP));
    SW_TRY(sw_file_own(e->history, path)); /* one run at a time writes into the folder */
    return sw_file_cut(e->history, e->history_bytes);
}

sw_status swi_evolution_log_write(sw_evolution *e)
{
    sw_json j;
    if (e->opts.dir == NULL)
        return SW_OK;
    sw_json_growing(&j, SW_HEAP_FILES);
    for (uint32_t i = 0; i < e->opts.population; i++) {
        sw_json_begin(&j, '{');
        sw_json_put_u64(&j, "generation", e->generation);
        sw_json_put_u64(&j, "id", e->members[i].id);
        put_counts(&j, "parents", e->members[i].parents, 2);
        birth_write(&j, "born", &e->members[i].birth);
        ops_write(&j, &e->members[i]);
        put_hex(&j, "genome", swi_genome_hash(e->members[i].genome));
        sw_json_put_i64(&j, "batch", e->members[i].genome->batch);
        sw_json_put_u64(&j, "vertices", e->members[i].genome->n);
        sw_json_put_u64(&j, "parameters", e->members[i].price.parameters);
        sw_json_put_u64(&j, "operations", e->members[i].price.operations);
        sw_json_put_u64(&j, "peak_bytes", e->members[i].price.peak_bytes);
        sw_json_put_u64(&j, "measured_bytes", e->members[i].measured);
        sw_json_put_u64(&j, "made", e->members[i].made);
        sw_json_put_u64(&j, "steps", e->members[i].steps);
        sw_json_put_f64(&j, "loss", e->members[i].loss);
        sw_json_put_f64(&j, "accuracy", e->members[i].accuracy);
        sw_json_put_f64(&j, "train_accuracy", e->members[i].train_accuracy);
        sw_json_put_f64(&j, "fitness", e->members[i].fitness);
        put_reals(&j, "objectives", e->members[i].objectives, e->fitness.n_objectives);
        sw_json_put_u64(&j, "rank", e->members[i].rank);
        sw_json_put_string(&j, "why", e->members[i].invalid ? e->members[i].why : NULL);
        sw_json_put_u64(&j, "ns_per_sample", e->members[i].ns_per_sample);
        sw_json_end(&j);
        sw_json_line(&j);
    }
    sw_status status = j.status;
    if (status == SW_OK)
        status = sw_file_cut(e->history, e->history_bytes);
    if (status == SW_OK)
        status = sw_file_write(e->history, j.bytes, j.used);
    if (status == SW_OK)
        e->history_bytes += j.used;
    sw_json_free(&j);
    return status;
}

/* ---- evolution identity ------------------------------------------------------------------ */

/* Which run it is: the options that its bits depend on, by name, so that a run that would not
 * be the same is refused by what is another. */

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
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
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
    SW_TRY(get_hex(in, &x));
    if (x != r->list[which].value)
        SW_FAIL(SW_INVALID,
                "sw_evolution_resume: the run of %s had another %s: give the options that it "
                "was begun with",
                in->path, key);
    return SW_OK;
}

/* The options that must be equal where a run goes on. */
static sw_status options_read(sw_json_in *in, const sw_evolution *e)
{
    options_reader r = {.seen = 0};
    options_of(e, r.list);
    SW_TRY(sw_json_get_object(in, read_option, &r));
    return r.seen == (1u << OPTIONS) - 1 ? SW_OK
                                         : sw_json_bad(in, "an option of the run is missing");
}

/* ---- evolution files --------------------------------------------------------------------- */

/* ---- writing ----------------------------------------------------------------------------- */

static sw_status write_one(sw_json *j, const sw_evolution *e, const swi_one *one)
{
    const double numbers[] = {one->fitness, one->loss, one->accuracy, one->train_accuracy};
    const uint64_t counts[] = {one->measured, one->ns_per_sample, one->rank};
    const uint64_t state[] = {one->rest.generation, one->rest.bytes};
    sw_json_begin(j, '{');
    sw_json_put_u64(j, "id", one->id);
    put_counts(j, "parents", one->parents, 2);
    birth_write(j, "born", &one->birth);
    ops_write(j, one);
    sw_json_put_u64(j, "steps", one->begun ? one->begin_steps : one->steps);
    put_reals(j, "averages", one->averages.of, e->fitness.n);
    put_reals(j, "objectives", one->objectives, e->fitness.n_objectives);
    put_reals(j, "numbers", numbers, 4);
    put_counts(j, "counts", counts, 3);
    put_counts(j, "state", state, 2);
    put_hex(j, "sum", one->rest.sum);
    char *text;
    size_t bytes;
    SW_TRY(sw_genome_print(one->genome, &text, &bytes));
    sw_json_put_string(j, "genome", text);
    sw_text_free(text, bytes);

    sw_json_end(j);
    return SW_OK;
}

static sw_status write_all(sw_json *j, const sw_evolution *e)
{
    sw_json_begin(j, '{');
    sw_json_put_string(j, "format", SWI_GENERATION_FORMAT);
    option list[OPTIONS];
    options_of(e, list);
    sw_json_open(j, "options", '{');
    for (int i = 0; i < OPTIONS; i++)
        put_hex(j, list[i].name, list[i].value);
    sw_json_end(j);
    sw_json_put_u64(j, "generation", e->generation);
    sw_json_put_u64(j, "next_id", e->next_id);
    sw_json_put_u64(j, "history_bytes", e->history_bytes);
    sw_json_put_u64(j, "steps", e->steps - e->early);
    sw_json_put_u64(j, "mutants", e->mutants);
    sw_json_put_u64(j, "refused", e->refused);
    sw_json_open(j, "members", '[');
    for (uint32_t i = 0; i < e->opts.population; i++)
        SW_TRY(write_one(j, e, &e->members[i]));
    sw_json_end(j);
    sw_json_open(j, "best", '[');
    if (e->has_best)
        SW_TRY(write_one(j, e, &e->best));
    sw_json_end(j);
    put_hex(j, "sum", 0);
    sw_json_end(j);
    sw_json_line(j);
    return j->status;
}

/* Bytes after those that the sum is of. */
enum { TAIL = 29 };
static void tail_of(char to[TAIL + 1], const char *text, size_t n)
{
    (void)snprintf(to, TAIL + 1, ",\"sum\":\"0x%016llx\"}\n",
                   (unsigned long long)swi_sum_of(text, n, 0));
}

/* The format is judged first: each one has its own sum. */
sw_status swi_generation_check(const char *text, size_t n, const char *path)
{
    char tail[TAIL + 1], format[64];
    const bool known = sscanf(text, "{\"format\":\"%63[^\"]", format) == 1;
    if (known && strcmp(format, SWI_GENERATION_FORMAT) != 0)
        SW_FAIL(
            SW_FORMAT,
            "%s: its format is \"%s\", and this library goes on with \"%s\" alone: go on with "
            "the version that began the run, or begin one in another folder",
            path, format, SWI_GENERATION_FORMAT);
    if (n >= TAIL)
        tail_of(tail, text, n - TAIL);
    if (!known || n < TAIL || memcmp(text + n - TAIL, tail, TAIL) != 0)
        SW_FAIL(SW_FORMAT, "%s is damaged: it is not what was written", path);
    return SW_OK;
}

/* In the place of that with zeros. */
static sw_status put_sum(sw_json *j)
{
    char tail[TAIL + 1];
    SW_TRY(j->status);
    tail_of(tail, j->bytes, j->used - TAIL);
    memcpy(j->bytes + j->used - TAIL, tail, TAIL);
    return SW_OK;
}

static sw_status write_text(void *context, sw_file *f)
{
    const sw_json *j = context;
    return sw_file_write(f, j->bytes, j->used);
}

sw_status swi_generation_write(sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    sw_json j;
    swi_evolution_path(e, "generation.json", path);
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_status status = write_all(&j, e);
    if (status == SW_OK)
        status = put_sum(&j);
    if (status == SW_OK)
        status = sw_file_replace_with(path, &(sw_replace_opts){.write = write_text,
                                                               .context = &j,
                                                               .keep = SWI_GENERATIONS_KEPT,
                                                               .drop_old = e->drop_old});
    sw_json_free(&j);
    SW_TRY(status);
    e->drop_old = false;
    swi_states_note(e, e->members, e->has_best ? &e->best : NULL);
    swi_states_sweep(e);
    return SW_OK;
}

/* ---- evolution resume -------------------------------------------------------------------- */

/* A run goes on where its folder ends: DIR/generation.json is read, and everything that it
 * names is checked, before anything changes. Where something of it is damaged it is passed
 * over, and DIR/generation.json.1 is asked. */

/* Room for all that is wrong with both generations. The folder is named once, so that the
 * second reason has room in a message, too. */
enum { NOTES = 4 * SWI_EVOLUTION_PATH };
static void note(const sw_evolution *e, char *notes, const char *why)
{
    const size_t used = strlen(notes), n = strlen(e->opts.dir);
    if (used > 0 && strncmp(why, e->opts.dir, n) == 0 && why[n] == '/')
        why += n + 1;
    (void)snprintf(notes + used, NOTES - used, "%s%s", used > 0 ? "; " : "", why);
}

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct {
    sw_evolution *e;
    const char *path;
    const char *file; /* its bytes */
    size_t n;
    char *notes;            /* NOTES bytes: what was wrong and ended nothing */
    swi_one *members, best; /* of the run, as far as they were read */
    uint32_t n_members, n_best;
    uint64_t generation, next_id, history_bytes, steps, mutants, refused, sum;
    swi_one *at; /* that is read */
    uint32_t seen, seen_one;
    char *text; /* room for any string of the file */
    size_t room;
} reader;

static sw_status read_op(sw_json_in *in, void *context)
{
    reader *r = context;
    swi_one *one = r->at;
    sw_json_text text = {.to = r->text, .cap = r->room};
    void *ops = one->ops;
    SW_TRY(sw_json_get_string(in, &text));
    SW_TRY(sw_heap_reserve(&ops, SW_HEAP_RECORDS, &one->ops_cap,
                           one->ops_bytes + (uint32_t)text.length + 1, 1));
    one->ops = ops;
    memcpy(one->ops + one->ops_bytes, r->text, text.length);
    one->ops_bytes += (uint32_t)text.length + 1;
    one->ops[one->ops_bytes - 1] = '\n';
    return SW_OK;
}

static sw_status read_one_field(sw_json_in *in, const char *key, void *context)
{
    static const char *const fields[] = {"id",     "parents",  "born",       "ops",
                                         "steps",  "averages", "objectives", "numbers",
                                         "counts", "state",    "sum",        "genome"};
    reader *r = context;
    swi_one *one = r->at;
    const swi_fitness_plan *p = &r->e->fitness;
    uint32_t which;
    SW_TRY(swi_read_field(in, key, fields, 12, "a member", &r->seen_one, &which));
    switch (which) {
    case 0:
        return sw_json_get_count(in, &one->id);
    case 1:
        return get_counts(in, one->parents, 2);
    case 2:
        return birth_read(in, &one->birth);
    case 3:
        return swi_read_list(in, read_op, r);
    case 4:
        return sw_json_get_count(in, &one->steps);
    case 5:
        return get_reals(in, one->averages.of, p->n);
    case 6:
        return get_reals(in, one->objectives, p->n_objectives);
    case 7: {
        double x[4];
        SW_TRY(get_reals(in, x, 4));
        one->fitness = x[0];
        one->loss = x[1];
        one->accuracy = x[2];
        one->train_accuracy = x[3];
        return SW_OK;
    }
    case 8: {
        uint64_t x[3];
        SW_TRY(get_counts(in, x, 3));
        one->measured = (size_t)x[0];
        one->ns_per_sample = x[1];
        one->rank = (uint32_t)x[2];
        return SW_OK;
    }
    case 9: {
        uint64_t x[2];
        SW_TRY(get_counts(in, x, 2));
        one->rest.generation = x[0];
        one->rest.bytes = (size_t)x[1];
        return SW_OK;
    }
    case 10:
        return get_hex(in, &one->rest.sum);
    default: {
        sw_json_text text = {.to = r->text, .cap = r->room};
        SW_TRY(sw_json_get_string(in, &text));
        if (r->at->genome != NULL)
            return sw_json_bad(in, "a second genome");
        return sw_genome_parse(&r->at->genome, r->text, text.length, r->path);
    }
    }
}

static sw_status read_one(sw_json_in *in, reader *r, swi_one *to)
{
    r->at = to;
    r->seen_one = 0;
    SW_TRY(sw_json_get_object(in, read_one_field, r));
    return r->seen_one == 0xfff ? SW_OK : sw_json_bad(in, "a field of the member is missing");
}

static sw_status read_member(sw_json_in *in, void *context)
{
    reader *r = context;
    if (r->n_members == r->e->opts.population)
        return sw_json_bad(in, "more members than the population has");
    return read_one(in, r, &r->members[r->n_members++]);
}

static sw_status read_best(sw_json_in *in, void *context)
{
    reader *r = context;
    if (r->n_best++ > 0)
        return sw_json_bad(in, "there is one best");
    return read_one(in, r, &r->best);
}

static sw_status read_field(sw_json_in *in, const char *key, void *context)
{
    static const char *const fields[] = {"format",        "options", "generation", "next_id",
                                         "history_bytes", "steps",   "mutants",    "refused",
                                         "members",       "best",    "sum"};
    reader *r = context;
    uint64_t *const counts[] = {&r->generation, &r->next_id, &r->history_bytes,
                                &r->steps,      &r->mutants, &r->refused};
    uint32_t which;
    SW_TRY(swi_read_field(in, key, fields, 11, "a generation", &r->seen, &which));
    if (which == 0) /* it was judged with the sum */
        return sw_json_get_string(in, &(sw_json_text){.to = r->text, .cap = r->room});
    if (which == 1)
        return options_read(in, r->e);
    if (which == 8)
        return swi_read_list(in, read_member, r);
    if (which == 9)
        return swi_read_list(in, read_best, r);
    if (which == 10)
        return get_hex(in, &r->sum);
    return sw_json_get_count(in, counts[which - 2]);
}

static sw_status parse(reader *r)
{
    sw_json_in in = swi_read_begin(r->file, r->n, r->path);
    SW_TRY(swi_generation_check(r->file, r->n, r->path));
    SW_TRY(sw_json_get_object(&in, read_field, r));
    if (r->seen != 0x7ff)
        return sw_json_bad(&in, "a field of the generation is missing");
    if (r->n_members != r->e->opts.population)
        return sw_json_bad(&in, "members are missing");
    return swi_read_end(&in);
}

/* ---- going on ---------------------------------------------------------------------------- */

/* Its state is as large as the genome says, and the bytes are those that were written. */
static sw_status check_state(reader *r, swi_one *one)
{
    sw_evolution *e = r->e;
    void *scratch;
    char why[SWI_EVOLUTION_PATH] = "";
    one->rest.there = true;
    if (one->rest.bytes != one->need.member)
        SW_FAIL(SW_FORMAT, "%s: member %llu has %zu bytes, its genome needs %zu", r->path,
                (unsigned long long)one->id, one->rest.bytes, one->need.member);
    SW_TRY(swi_charged_take(e, &scratch, one->need.member, &e->scratch_bytes));
    const sw_status status = one == &e->best ? swi_best_mend(e, scratch, why, sizeof why)
                                             : swi_rest_read(e, one, scratch);
    swi_charged_give(e, scratch, one->need.member, &e->scratch_bytes);
    if (*why != '\0' && status == SW_OK)
        note(e, r->notes, why);
    return status;
}

/* Opening it finds out what its genome takes; then it needs no net. */
static sw_status open_best(reader *r)
{
    swi_one opened;
    if (r->n_best == 0)
        return SW_OK;
    swi_one_begin(&opened);
    opened.genome = r->best.genome;
    SW_TRY(swi_one_open(r->e, &opened));
    r->best.need = opened.need;
    r->best.price = opened.price;
    r->best.eval_rows = opened.eval_rows;
    swi_one_close(&opened);
    return SW_OK;
}

/* Everything is read and checked before anything changes. */
static sw_status restore(reader *r)
{
    sw_evolution *e = r->e;
    swi_limits limits = swi_limits_begin(e);
    for (uint32_t i = 0; i < r->n_members; i++) {
        swi_one *one = &r->members[i];
        SW_TRY(swi_one_open(e, one));
        if (!swi_limits_fit(&limits, one->need))
            SW_FAIL(SW_NOMEM,
                    "sw_evolution_resume: member %llu does not fit the budget: %zu bytes are "
                    "needed, %zu are there",
                    (unsigned long long)one->id, swi_limits_bytes(&limits, one->need),
                    limits.room);
        limits.most = swi_need_most(limits.most, one->need);
        SW_TRY(check_state(r, one));
    }

    SW_TRY(open_best(r));
    /* No run needs the lost part of a history to go on: it ends after its last whole line
     * then. */
    char path[SWI_EVOLUTION_PATH], why[SWI_EVOLUTION_PATH + 100];
    char *text = NULL;
    size_t n = 0;
    bool there;
    const unsigned long long had = r->history_bytes;
    swi_evolution_path(r->e, "history.jsonl", path);
    SW_TRY(sw_file_look(path, &there));
    if (there)
        SW_TRY(swi_text_load(&text, &n, path, "a history", SIZE_MAX / 2));
    if (n < r->history_bytes) {
        (void)snprintf(why, sizeof why, "%s: has %zu of its %llu bytes: lines are lost", path,
                       n, had);
        note(r->e, r->notes, why);
        r->history_bytes = n;
        while (r->history_bytes > 0 && text[r->history_bytes - 1] != '\n')
            r->history_bytes--;
    }
    sw_text_free(text, n);

    if (r->n_best > 0) {
        swi_one *real = &r->e->best, was = *real; /* its file is named after where it stands */
        *real = r->best;
        const sw_status status = check_state(r, real);
        *real = was;
        SW_TRY(status);
    }
    for (uint32_t j = 0; j < e->opts.population; j++) {
        swi_one_free(e, &e->members[j]);
        e->members[j] = r->members[j];
        swi_one_begin(&r->members[j]);
    }
    swi_one_free(e, &e->best);
    e->best = r->best;
    e->best.rest.there = r->n_best > 0;
    e->has_best = r->n_best > 0;
    swi_one_begin(&r->best);
    e->generation = r->generation;
    e->next_id = r->next_id;
    e->history_bytes = r->history_bytes;
    e->steps = r->steps;
    e->mutants = r->mutants;
    e->refused = r->refused;
    e->resumed = true;
    swi_feeds_sweep(e);
    return SW_OK;
}

/* Note which states the generation of a file needs; and go on from it, or leave it at that. */
static sw_status take(sw_evolution *e, const char *path, bool go_on, char *notes)
{
    const size_t bytes = e->opts.population * sizeof(swi_one);
    char *file;
    reader r = {.e = e, .path = path, .notes = notes};
    void *members = NULL, *text = NULL;
    SW_TRY(swi_text_load(&file, &r.n, path, "a generation", SIZE_MAX / 2));
    r.file = file;
    r.room = r.n + 1;
    sw_status status = sw_heap_alloc(&members, SW_HEAP_RECORDS, bytes);
    if (status == SW_OK)
        status = sw_heap_alloc(&text, SW_HEAP_FILES, r.room);
    r.members = members;
    r.text = text;
    swi_one_begin(&r.best);
    for (uint32_t i = 0; i < e->opts.population && members != NULL; i++)
        swi_one_begin(&r.members[i]);
    if (status == SW_OK)
        status = parse(&r);
    if (status == SW_OK)
        swi_states_note(e, r.members, r.n_best > 0 ? &r.best : NULL);
    if (status == SW_OK && go_on)
        status = restore(&r);
    for (uint32_t i = 0; i < e->opts.population && members != NULL; i++)
        swi_one_free(e, &r.members[i]);
    swi_one_free(e, &r.best);
    sw_heap_free(text, SW_HEAP_FILES, r.room);
    sw_heap_free(members, SW_HEAP_RECORDS, bytes);
    sw_text_free(file, r.n);
    return status;
}

/* From the newest generation that is whole; *found false: there is none at all. */
static sw_status resume(sw_evolution *e, const char *const paths[], char *notes, bool *found)
{
    sw_status first = SW_OK;
    char from[80];
    for (int i = 0; i < SWI_GENERATIONS_KEPT; i++) {
        bool there = false;
        sw_status status = sw_file_look(paths[i], &there);
        if (status == SW_OK && !there)
            status = sw_error_set(SW_IO, __FILE__, __LINE__, "%s is not there", paths[i]);
        else
            *found = true;
        if (there)
            status = take(e, paths[i], true, notes);
        e->drop_old = i > 0; /* it must not take the place of the whole one */
        if (status == SW_OK && i > 0) {
            (void)snprintf(from, sizeof from, "goes on from generation %llu (%s)",
                           (unsigned long long)e->generation, strrchr(paths[i], '/') + 1);
            note(e, notes, from);
        }
        if (status != SW_FORMAT && status != SW_IO)
            return status;
        first = first == SW_OK ? status : first;
        note(e, notes, sw_last_error());
    }
    return *found ? sw_error_set(first, __FILE__, __LINE__, "%s", notes) : SW_OK;
}

sw_status sw_evolution_resume(sw_evolution *e, int *found)
{
    static const char call[] = "sw_evolution_resume";
    char newest[SWI_EVOLUTION_PATH], older[SWI_EVOLUTION_PATH], notes[NOTES] = "";
    const char *const paths[SWI_GENERATIONS_KEPT] = {newest, older};
    bool any = false;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, call));
    if (found == NULL)
        SW_FAIL(SW_INVALID, "%s: found must not be NULL", call);
    if (e->opts.dir == NULL || e->phase != SWI_PHASE_NEW)
        SW_FAIL(SW_INVALID, "%s: %s", call,
                e->opts.dir == NULL
                    ? "the run has no dir"
                    : "it must be called before the first sw_evolution_advance");
    swi_evolution_path(e, "generation.json", newest);
    swi_evolution_path(e, "generation.json.1", older);
    (void)!take(e, older, false, notes); /* it need not be there */
    SW_TRY(resume(e, paths, notes, &any));
    swi_note_set("%s", any ? notes : "");
    *found = any;
    return SW_OK;
}
