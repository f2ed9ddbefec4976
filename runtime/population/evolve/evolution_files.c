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

/* Pieces of the files of an evolution: numbers, lists, births. */

void swi_evolution_path(const sw_evolution *e, const char *name, char path[SWI_EVOLUTION_PATH])
{
    (void)snprintf(path, SWI_EVOLUTION_PATH, "%s/%s", e->opts.dir, name);
}

/* ---- fields ------------------------------------------------------------------------------ */

static uint64_t whole_at(const void *at, size_t bytes)
{
    return bytes == 1   ? *(const uint8_t *)at
           : bytes == 4 ? *(const uint32_t *)at
                        : *(const uint64_t *)at;
}

static void put_value(sw_json *j, const swi_datum *f, const char *at)
{
    char text[24];
    const uint64_t x = f->kind != SWI_DATUM_REAL ? whole_at(at, f->bytes) : 0;
    if (f->kind == SWI_DATUM_REAL)
        sw_json_f64(j, *(const double *)(const void *)at);
    else if (f->kind == SWI_DATUM_YES)
        sw_json_bool(j, x != 0);
    else if (f->kind == SWI_DATUM_HEX) {
        (void)snprintf(text, sizeof text, "0x%016llx", (unsigned long long)x);
        sw_json_string(j, text);
    } else if (x == UINT64_MAX)
        sw_json_null(j);
    else
        sw_json_u64(j, x);
}

void swi_data_put(sw_json *j, const swi_datum *fields, size_t n, const void *from)
{
    for (const swi_datum *f = fields; f < fields + n; f++) {
        const char *at = (const char *)from + f->at;
        sw_json_key(j, f->name);
        if (f->many > 0)
            sw_json_begin(j, '[');
        for (uint32_t k = 0; k < f->many || k == 0; k++)
            put_value(j, f, at + k * f->bytes);
        if (f->many > 0)
            sw_json_end(j);
    }
}

static sw_status get_value(sw_json_in *in, const swi_datum *f, void *at)
{
    sw_json_number x = {.magnitude = UINT64_MAX, .real = (double)NAN};
    sw_json_word word;
    char text[24], *end = text;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (f->kind == SWI_DATUM_HEX) {
        SW_TRY(sw_json_get_text(in, text, sizeof text));
        x.magnitude = strtoull(text, &end, 16);
        if (end != text + 18)
            return sw_json_bad(in, "16 hexadecimal digits after 0x must stand here");
    } else if (f->kind == SWI_DATUM_YES || c == 'n') {
        SW_TRY(sw_json_get_word(in, &word));
        if ((word == SW_JSON_NULL) == (f->kind == SWI_DATUM_YES))
            return sw_json_bad(in, "another word must stand here");
        x.magnitude = f->kind == SWI_DATUM_YES ? word == SW_JSON_TRUE : UINT64_MAX;
    } else {
        SW_TRY(sw_json_get_number(in, &x));
        if (f->kind == SWI_DATUM_WHOLE && (x.minus || !x.whole))
            return sw_json_bad(in, "a whole number must stand here");
    }
    if (f->kind == SWI_DATUM_REAL)
        *(double *)at = x.real;
    else if (f->bytes == 1)
        *(uint8_t *)at = (uint8_t)x.magnitude;
    else if (f->bytes == 4)
        *(uint32_t *)at = (uint32_t)x.magnitude;
    else
        *(uint64_t *)at = x.magnitude;
    return SW_OK;
}

sw_status swi_datum_get(sw_json_in *in, const char *key, void *context)
{
    swi_data_in *r = context;
    const swi_datum *f = r->fields;
    while (f < r->fields + r->n && strcmp(f->name, key) != 0)
        f++;
    if (f == r->fields + r->n)
        return r->other != NULL ? r->other(in, key, r->context) : sw_json_skip(in);
    r->seen++;
    if (f->many > 0)
        SW_TRY(sw_json_expect(in, '['));
    for (uint32_t k = 0; k < f->many || k == 0; k++) {
        if (k > 0)
            SW_TRY(sw_json_expect(in, ','));
        SW_TRY(get_value(in, f, (char *)r->to + f->at + k * f->bytes));
    }
    return f->many > 0 ? sw_json_expect(in, ']') : SW_OK;
}

/* All numbers of the table are there. */
static sw_status get_object(sw_json_in *in, swi_data_in r)
{
    SW_TRY(sw_json_get_object(in, swi_datum_get, &r));
    return r.seen == r.n ? SW_OK : sw_json_bad(in, "a field is missing");
}
#define COUNT_OF(table) (uint32_t)(sizeof(table) / sizeof *(table))

/* ---- births ------------------------------------------------------------------------------ */

static const char *const births[] = {"first", "drawn", "child"};
static const swi_datum birth_fields[] = {SWI_DATUM(generation, WHOLE, swi_birth, generation),
                                         SWI_DATUM(index, WHOLE, swi_birth, index),
                                         SWI_DATUM(attempt, WHOLE, swi_birth, attempt),
                                         SWI_DATUM(fresh, YES, swi_birth, fresh),
                                         {"limits", SWI_DATUM_WHOLE,
                                          offsetof(swi_birth, limits), sizeof(size_t),
                                          sizeof(swi_limits) / sizeof(size_t)}};

/* Of a member as its generation begins. */
static const swi_datum one_fields[] = {
    SWI_DATUM(id, WHOLE, swi_one, id),
    SWI_DATA(parents, WHOLE, swi_one, parents),
    SWI_DATUM(steps, WHOLE, swi_one, steps),
    SWI_DATA(averages, REAL, swi_one, averages.of),
    SWI_DATA(objectives, REAL, swi_one, objectives),
    SWI_DATUM(fitness, REAL, swi_one, fitness),
    SWI_DATUM(loss, REAL, swi_one, loss),
    SWI_DATUM(accuracy, REAL, swi_one, accuracy),
    SWI_DATUM(train_accuracy, REAL, swi_one, train_accuracy),
    SWI_DATUM(measured_bytes, WHOLE, swi_one, measured),
    SWI_DATUM(ns_per_sample, WHOLE, swi_one, ns_per_sample),
    SWI_DATUM(rank, WHOLE, swi_one, rank),
    {"state", SWI_DATUM_WHOLE, offsetof(swi_one, rest.generation), sizeof(uint64_t), 2},
    SWI_DATUM(sum, HEX, swi_one, rest.sum)};

/* How a member was born; an object. */
static void birth_write(sw_json *j, const swi_birth *b)
{
    sw_json_open(j, "born", '{');
    sw_json_put_string(j, "how", births[b->how]);
    swi_data_put(j, birth_fields, COUNT_OF(birth_fields), b);
    sw_json_end(j);
}

static sw_status read_how(sw_json_in *in, const char *key, void *birth)
{
    uint32_t how;
    SW_TRY(swi_read_choice(in, key, births, 3, &how));
    ((swi_birth *)birth)->how = (swi_birth_kind)how;
    return SW_OK;
}

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
        swi_data_put(&j, one_fields, 2, &e->members[i]); /* id, parents */
        birth_write(&j, &e->members[i].birth);
        ops_write(&j, &e->members[i]);
        const uint64_t hash = swi_genome_hash(e->members[i].genome);
        swi_data_put(&j, &(swi_datum){"genome", SWI_DATUM_HEX, 0, sizeof hash, 0}, 1, &hash);
        sw_json_put_i64(&j, "batch", e->members[i].genome->batch);
        sw_json_put_u64(&j, "vertices", e->members[i].genome->n);
        SW_JSON_PUT(&j, &e->members[i].price, parameters, operations, peak_bytes);
        sw_json_put_u64(&j, "measured_bytes", e->members[i].measured);
        SW_JSON_PUT(&j, &e->members[i], made, steps, loss, accuracy, train_accuracy, fitness);
        sw_json_open(&j, "objectives", '[');
        for (size_t k = 0; k < e->fitness.n_objectives; k++)
            sw_json_f64(&j, e->members[i].objectives[k]);
        sw_json_end(&j);
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

/* The options that must be equal where a run goes on. */
static sw_status options_read(sw_json_in *in, const sw_evolution *e)
{
    option list[OPTIONS];
    swi_datum fields[OPTIONS];
    uint64_t values[OPTIONS];
    options_of(e, list);
    for (uint32_t i = 0; i < OPTIONS; i++)
        fields[i] =
            (swi_datum){list[i].name, SWI_DATUM_HEX, i * sizeof *values, sizeof *values, 0};
    SW_TRY(get_object(in, (swi_data_in){.fields = fields, .n = OPTIONS, .to = values}));
    for (int i = 0; i < OPTIONS; i++)
        if (values[i] != list[i].value)
            SW_FAIL(SW_INVALID,
                    "sw_evolution_resume: the run of %s had another %s: give the options that "
                    "it was begun with",
                    in->path, list[i].name);
    return SW_OK;
}

/* ---- writing ----------------------------------------------------------------------------- */

static sw_status write_one(sw_json *j, const swi_one *one)
{
    swi_one was = *one;
    char *text;
    size_t bytes;
    if (one->begun)
        was.steps = one->begin_steps;
    SW_TRY(sw_genome_print(one->genome, &text, &bytes));
    sw_json_begin(j, '{');
    swi_data_put(j, one_fields, COUNT_OF(one_fields), &was);
    birth_write(j, &one->birth);
    ops_write(j, one);
    sw_json_put_string(j, "genome", text);
    sw_json_end(j);
    sw_text_free(text, bytes);
    return SW_OK;
}

/* Of a run, in its file. */
typedef struct {
    uint64_t generation, next_id, history_bytes, steps, mutants, refused, sum;
} counts;
static const swi_datum count_fields[] = {SWI_DATUM(generation, WHOLE, counts, generation),
                                         SWI_DATUM(next_id, WHOLE, counts, next_id),
                                         SWI_DATUM(history_bytes, WHOLE, counts, history_bytes),
                                         SWI_DATUM(steps, WHOLE, counts, steps),
                                         SWI_DATUM(mutants, WHOLE, counts, mutants),
                                         SWI_DATUM(refused, WHOLE, counts, refused),
                                         SWI_DATUM(sum, HEX, counts, sum)};
enum { COUNTS = COUNT_OF(count_fields) - 1 }; /* the sum is the last of the file */

static sw_status write_all(sw_json *j, const sw_evolution *e)
{
    const counts now = SW_INIT(.generation = e->generation, .next_id = e->next_id,
                               .history_bytes = e->history_bytes, .steps = e->steps - e->early,
                               .mutants = e->mutants, .refused = e->refused);
    option list[OPTIONS];
    options_of(e, list);
    sw_json_begin(j, '{');
    sw_json_put_string(j, "format", SWI_GENERATION_FORMAT);
    sw_json_open(j, "options", '{');
    for (int i = 0; i < OPTIONS; i++)
        swi_data_put(j, &(swi_datum){list[i].name, SWI_DATUM_HEX, 0, sizeof list[i].value, 0},
                     1, &list[i].value);
    sw_json_end(j);
    swi_data_put(j, count_fields, COUNTS, &now);
    sw_json_open(j, "members", '[');
    for (uint32_t i = 0; i < e->opts.population; i++)
        SW_TRY(write_one(j, &e->members[i]));
    sw_json_end(j);
    sw_json_open(j, "best", '[');
    if (e->has_best)
        SW_TRY(write_one(j, &e->best));
    sw_json_end(j);
    swi_data_put(j, count_fields + COUNTS, 1, &now);
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
        SW_FAIL(SW_FORMAT,
                "%s: its format is \"%s\", and this library goes on with \"%s\" alone: go on "
                "with the version that began the run, or begin one in another folder",
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
    counts now;
    swi_one *at;                     /* that is read */
    uint32_t sections, sections_one; /* that were read: of the file, of the member */
    char *text;                      /* room for any string of the file */
    size_t room;
} reader;

static sw_status read_op(sw_json_in *in, void *context)
{
    reader *r = context;
    swi_one *one = r->at;
    sw_json_text text = {.to = r->text, .cap = r->room};
    SW_TRY(sw_json_get_string(in, &text));
    SW_TRY(sw_heap_reserve(&one->ops, SW_HEAP_RECORDS, &one->ops_cap,
                           one->ops_bytes + (uint32_t)text.length + 1, 1));
    memcpy(one->ops + one->ops_bytes, r->text, text.length);
    one->ops_bytes += (uint32_t)text.length + 1;
    one->ops[one->ops_bytes - 1] = '\n';
    return SW_OK;
}

static sw_status read_section_of_one(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    swi_one *one = r->at;
    r->sections_one++;
    if (strcmp(key, "born") == 0)
        return sw_json_get_object(in, swi_datum_get,
                                  &(swi_data_in){.fields = birth_fields,
                                                 .n = COUNT_OF(birth_fields),
                                                 .to = &one->birth,
                                                 .other = read_how,
                                                 .context = &one->birth});
    if (strcmp(key, "ops") == 0)
        return swi_read_list(in, read_op, r);
    sw_json_text text = {.to = r->text, .cap = r->room};
    SW_TRY(sw_json_get_string(in, &text));
    return one->genome != NULL ? sw_json_bad(in, "a second genome")
                               : sw_genome_parse(&one->genome, r->text, text.length, r->path);
}

static sw_status read_one(sw_json_in *in, reader *r, swi_one *to)
{
    r->at = to;
    r->sections_one = 0;
    SW_TRY(get_object(
        in, (swi_data_in){one_fields, COUNT_OF(one_fields), to, read_section_of_one, r, 0}));
    return r->sections_one == 3 ? SW_OK : sw_json_bad(in, "a field of the member is missing");
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

static sw_status read_section(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    r->sections++;
    if (strcmp(key, "options") == 0)
        return options_read(in, r->e);
    if (strcmp(key, "members") == 0)
        return swi_read_list(in, read_member, r);
    if (strcmp(key, "best") == 0)
        return swi_read_list(in, read_best, r);
    return sw_json_skip(in); /* the format was judged with the sum */
}

static sw_status parse(reader *r)
{
    sw_json_in in = swi_read_begin(r->file, r->n, r->path);
    SW_TRY(swi_generation_check(r->file, r->n, r->path));
    SW_TRY(get_object(
        &in, (swi_data_in){count_fields, COUNT_OF(count_fields), &r->now, read_section, r, 0}));
    if (r->sections != 4 || r->n_members != r->e->opts.population)
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
    const unsigned long long had = r->now.history_bytes;
    swi_evolution_path(r->e, "history.jsonl", path);
    SW_TRY(sw_file_look(path, &there));
    if (there)
        SW_TRY(swi_text_load(&text, &n, path, "a history", SIZE_MAX / 2));
    if (n < r->now.history_bytes) {
        (void)snprintf(why, sizeof why, "%s: has %zu of its %llu bytes: lines are lost", path,
                       n, had);
        note(r->e, r->notes, why);
        r->now.history_bytes = n;
        while (r->now.history_bytes > 0 && text[r->now.history_bytes - 1] != '\n')
            r->now.history_bytes--;
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
    e->generation = r->now.generation;
    e->next_id = r->now.next_id;
    e->history_bytes = r->now.history_bytes;
    e->steps = r->now.steps;
    e->mutants = r->now.mutants;
    e->refused = r->now.refused;
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
