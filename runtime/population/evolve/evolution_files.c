/* DIR/history.jsonl: a line that says which run it is, then a line for each candidate that
 * began and one for each rung that one reached, each with a checksum; and DIR/members, the
 * states of those that may go on. A run that goes on does what the lines say again, without
 * training: the search is a function of its scores. */
#include "alloc/base/error.h"
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void swi_evolution_path(const sw_evolution *e, const char *name,
                               char path[SWI_EVOLUTION_PATH])
{
    (void)snprintf(path, SWI_EVOLUTION_PATH, "%s/%s", e->opts.dir, name);
}

void swi_evolution_note(sw_evolution *e, const char *why)
{
    const size_t used = strlen(e->notes);
    if (swi_ranks_rank(e->ranks) > 0)
        return;
    (void)snprintf(e->notes + used, sizeof e->notes - used, "%s%s", used > 0 ? "; " : "", why);
    swi_note_set("%s", e->notes);
}

/* Numbers of a struct as fields of a JSON object: one table writes and reads them. A whole
 * number that is UINT64_MAX is null, as NaN is; sums are "0x" and 16 digits. */
typedef enum { DATUM_WHOLE, DATUM_HEX, DATUM_REAL, DATUM_YES } datum_kind;
typedef struct {
    const char *name;
    datum_kind kind;
    size_t at, bytes; /* in the struct; of a number: 1, 4 or 8 */
    uint32_t many;    /* of a list; 0: a number alone */
} datum;
#define DATUM(name, kind, type, member)                                                        \
    {                                                                                          \
#name, DATUM_##kind, offsetof(type, member), sizeof(((type *)0)->member), 0            \
    }
#define DATA(name, kind, type, member)                                                         \
    {                                                                                          \
#name, DATUM_##kind, offsetof(type, member), sizeof(((type *)0)->member[0]),           \
            sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0])                       \
    }
/* Of datum_get, a sw_json_member: the table and where to read to. */
typedef struct {
    const datum *fields;
    uint32_t n;
    void *to;
    sw_json_member *other; /* of a key that the table has not; NULL: passed over */
    void *context;         /* of `other` */
    uint32_t seen;         /* fields of the table */
} data_in;

/* ---- fields ------------------------------------------------------------------------------ */

static void put_value(sw_json *j, const datum *f, const char *at)
{
    char text[24];
    const void *p = at;
    const uint64_t x = f->kind == DATUM_REAL ? 0
                       : f->bytes == 1       ? *(const uint8_t *)p
                       : f->bytes == 4       ? *(const uint32_t *)p
                                             : *(const uint64_t *)p;
    if (f->kind == DATUM_REAL)
        sw_json_f64(j, *(const double *)p);
    else if (f->kind == DATUM_YES)
        sw_json_bool(j, x != 0);
    else if (f->kind == DATUM_HEX) {
        (void)snprintf(text, sizeof text, "0x%016llx", (unsigned long long)x);
        sw_json_string(j, text);
    } else if (x == UINT64_MAX)
        sw_json_null(j);
    else
        sw_json_u64(j, x);
}

static void put_data(sw_json *j, const datum *fields, size_t n, const void *from)
{
    for (const datum *f = fields; f < fields + n; f++) {
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

static sw_status get_value(sw_json_in *in, const datum *f, void *at)
{
    sw_json_number x = {.magnitude = UINT64_MAX, .real = (double)NAN};
    sw_json_word word;
    char text[24], *end = text;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (f->kind == DATUM_HEX) {
        SW_TRY(sw_json_get_text(in, text, sizeof text));
        x.magnitude = strtoull(text, &end, 16);
        if (end != text + 18)
            return sw_json_bad(in, "16 hexadecimal digits after 0x must stand here");
    } else if (f->kind == DATUM_YES || c == 'n') {
        SW_TRY(sw_json_get_word(in, &word));
        if ((word == SW_JSON_NULL) == (f->kind == DATUM_YES))
            return sw_json_bad(in, "another word must stand here");
        x.magnitude = f->kind == DATUM_YES ? word == SW_JSON_TRUE : UINT64_MAX;
    } else {
        SW_TRY(sw_json_get_number(in, &x));
        if (f->kind == DATUM_WHOLE && (x.minus || !x.whole))
            return sw_json_bad(in, "a whole number must stand here");
    }
    if (f->kind == DATUM_REAL)
        *(double *)at = x.real;
    else if (f->bytes == 1)
        *(uint8_t *)at = (uint8_t)x.magnitude;
    else if (f->bytes == 4)
        *(uint32_t *)at = (uint32_t)x.magnitude;
    else
        *(uint64_t *)at = x.magnitude;
    return SW_OK;
}

static sw_status get_datum(sw_json_in *in, const char *key, void *context)
{
    data_in *r = context;
    const datum *f = r->fields;
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
static sw_status get_object(sw_json_in *in, data_in r)
{
    SW_TRY(sw_json_get_object(in, get_datum, &r));
    return r.seen == r.n ? SW_OK : sw_json_bad(in, "a field is missing");
}
#define COUNT_OF(table) (uint32_t)(sizeof(table) / sizeof *(table))

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

/* ---- which run it is ------------------------------------------------------------------ */

/* Which run it is: the options that its bits depend on, by name, so that a run that would not
 * be the same is refused by what is another. */

typedef swi_option option;
#define OPTIONS SWI_EVOLUTION_OPTIONS

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
        const uint64_t x[] = {
            (uint64_t)m->kind,
            (uint64_t)m->weigh,
            bits_of(m->probability),
            bits_of(m->low),
            bits_of(m->high),
            m->min_vertices,
            m->max_parameters,
            m->filter != NULL,
            m->fn != NULL,
            m->space != NULL ? sum_of_text(sw_search_space_text(m->space)) : 0};
        sum = swi_sum_of(x, sizeof x, sum);
    }
    return sum;
}

static uint64_t sum_of_fitness(const swi_fitness_plan *p)
{
    uint64_t sum = p->n;
    for (size_t i = 0; i < p->n; i++) {
        const sw_fitness *t = &p->terms[i];
        const uint64_t x[] = {(uint64_t)t->kind, bits_of(t->factor), bits_of(t->drop),
                              t->map != NULL, t->fn != NULL};
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
    sum = add(add(sum, o->hook != NULL), bits_of((double)o->utility_rate));
    return o->state_bits == 8 ? add(sum, 8) : sum;
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

void swi_evolution_options(const sw_evolution *e, option list[OPTIONS])
{
    const sw_evolution_opts *o = &e->opts;
    uint64_t first = o->n_first;
    for (size_t i = 0; i < o->n_first; i++)
        first = add(first, swi_genome_hash(o->first[i]));
    const option all[OPTIONS] = {
        {"seed", o->seed},
        {"search", o->search + (o->parent != NULL ? SW_SEARCH_KINDS : 0)},
        {"samples", o->samples},
        {"validation_samples", o->validation_samples},
        {"trainings", o->trainings},
        {"rungs", o->rungs},
        {"eta", o->eta},
        {"start", o->start},
        {"parents", o->parents},
        {"population", o->population},
        {"workers", o->workers},
        {"looks", o->looks},
        {"fresh", bits_of(o->fresh)},
        {"candidate_bytes", o->candidate_bytes},
        {"first", first},
        {"mutations", sum_of_mutations(o)},
        {"fitness", sum_of_fitness(&e->fitness)},
        {"net", sum_of_net(&e->net_opts) + (uint64_t)swi_target_of(e->exec)->order},
        {"space", sum_of_text(sw_search_space_text(e->space))},
        {"data", add(sum_of_data(o->train), sum_of_data(o->validation))}};
    memcpy(list, all, sizeof all);
}

/* The options that must be equal where a run goes on. */
static sw_status options_read(sw_json_in *in, const sw_evolution *e)
{
    option list[OPTIONS];
    datum fields[OPTIONS];
    uint64_t values[OPTIONS];
    swi_evolution_options(e, list);
    for (uint32_t i = 0; i < OPTIONS; i++)
        fields[i] = (datum){list[i].name, DATUM_HEX, i * sizeof *values, sizeof *values, 0};
    SW_TRY(get_object(in, (data_in){.fields = fields, .n = OPTIONS, .to = values}));
    for (int i = 0; i < OPTIONS; i++)
        if (values[i] != list[i].value)
            SW_FAIL(SW_INVALID,
                    "sw_evolution_resume: the run of %s had another %s: give the options that "
                    "it was begun with",
                    in->path, list[i].name);
    return SW_OK;
}

/* ---- states at rest ---------------------------------------------------------------------- */

/* A state begins with a line that says what it is. */
enum { HEAD = 160 };

static void path_of(const sw_evolution *e, const swi_one *one, char path[SWI_EVOLUTION_PATH])
{
    (void)snprintf(path, SWI_EVOLUTION_PATH, "%s/members/%llu-%u.state", e->opts.dir,
                   (unsigned long long)one->id, one->rest.rung);
}

static size_t head_of(char to[HEAD], const swi_one *one)
{
    return (size_t)snprintf(to, HEAD,
                            SWI_STATE_HEAD "\"id\":%llu,\"rung\":%u,"
                                           "\"bytes\":%zu,\"sum\":\"0x%016llx\"}\n",
                            (unsigned long long)one->id, one->rest.rung, one->need.member,
                            (unsigned long long)one->rest.sum);
}

/* Every byte of it must be the one that was written. */
static sw_status read_open(sw_file *f, const swi_one *one, void *to)
{
    char head[HEAD], found[HEAD];
    const size_t begin = head_of(head, one), n = one->need.member;
    uint64_t size;
    size_t got = 0, got_head = 0;
    SW_TRY(sw_file_size(f, &size));
    SW_TRY(sw_file_read(f, found, begin, &got_head));
    SW_TRY(sw_file_read(f, to, n, &got));
    if (size != begin + n)
        SW_FAIL(SW_FORMAT, "%s: has %llu bytes, and %zu were written", sw_file_path(f),
                (unsigned long long)size, begin + n);
    if (got_head != begin || memcmp(head, found, begin) != 0 || got != n ||
        swi_sum_of(to, n, 0) != one->rest.sum)
        SW_FAIL(SW_FORMAT, "%s is damaged: its bytes are not those that were written",
                sw_file_path(f));
    return SW_OK;
}

sw_status swi_rest_get(const sw_evolution *e, const swi_one *one, unsigned char *to)
{
    char path[SWI_EVOLUTION_PATH];
    sw_file *f;
    if (e->opts.dir == NULL) {
        memcpy(to, one->rest.block, one->need.member);
        return SW_OK;
    }
    path_of(e, one, path);
    SW_TRY(sw_file_open(&f, path, SW_FILE_READ));
    const sw_status status = read_open(f, one, to);
    sw_file_drop(f);
    return status;
}

static sw_status write_state(const sw_evolution *e, swi_one *one, const void *range)
{
    char path[SWI_EVOLUTION_PATH], head[HEAD];
    sw_file *f;
    one->rest.sum = swi_sum_of(range, one->need.member, 0);
    path_of(e, one, path);
    SW_TRY(sw_file_open(&f, path, SW_FILE_WRITE));
    sw_status status = sw_file_write(f, head, head_of(head, one));
    if (status == SW_OK)
        status = sw_file_write(f, range, one->need.member);
    const sw_status closed = sw_file_close(f);
    return status == SW_OK ? closed : status;
}

/* By rank 0, wherever it is. */
static sw_status keep_file(sw_evolution *e, swi_one *one, void *range)
{
    void *block = NULL;
    const size_t n = one->need.member;
    const bool first = swi_ranks_rank(e->ranks) == 0;
    if (first && !swi_is_mine(e, one))
        SW_TRY(swi_charged_take(e, &block, n, &e->scratch_bytes));
    void *from = block != NULL ? block : range;
    sw_status status = swi_ranks_copy(e->ranks, one->owner, 0, from, n);
    if (status == SW_OK && first)
        status = write_state(e, one, from);
    swi_charged_give(e, block, n, &e->scratch_bytes);
    return status;
}

sw_status swi_rest_put(sw_evolution *e, swi_one *one, uint32_t rung)
{
    const size_t n = one->need.member;
    unsigned char *range =
        swi_is_mine(e, one) ? swi_member_base(one->group, one->member.index) : NULL;
    const uint32_t before = one->rest.rung;
    const bool had = one->rest.there;
    if (e->opts.dir == NULL) {
        if (one->rest.block == NULL)
            SW_TRY(swi_charged_take(e, &one->rest.block, n, &e->rest_bytes));
        memcpy(one->rest.block, range, n);
        one->rest.there = true;
        return SW_OK;
    }
    if (had && before != rung)
        swi_rest_drop(e, one);
    one->rest.rung = rung;
    one->rest.there = true;
    return keep_file(e, one, range);
}

void swi_rest_drop(sw_evolution *e, swi_one *one)
{
    char path[SWI_EVOLUTION_PATH];
    if (!one->rest.there)
        return;
    swi_charged_give(e, one->rest.block, one->need.member, &e->rest_bytes);
    one->rest.block = NULL;
    one->rest.there = false;
    if (!swi_has_files(e))
        return;
    path_of(e, one, path);
    (void)!sw_file_remove(path);
}

/* ---- lines ------------------------------------------------------------------------------- */

/* A line ends with the sum of what stands before it. */
enum { TAIL = 29 };
static void tail_of(char to[TAIL + 1], const char *text, size_t n)
{
    (void)snprintf(to, TAIL + 1, ",\"sum\":\"0x%016llx\"}\n",
                   (unsigned long long)swi_sum_of(text, n, 0));
}

bool swi_line_is_whole(const char *line, size_t bytes)
{
    char tail[TAIL + 1];
    if (bytes < TAIL)
        return false;
    tail_of(tail, line, bytes - TAIL);
    return memcmp(line + bytes - TAIL, tail, TAIL) == 0;
}

/* The object that is open in j becomes a line of the history. */
static sw_status put_line(sw_evolution *e, sw_json *j)
{
    char tail[TAIL + 1];
    sw_status status = j->status;
    if (status == SW_OK && e->history == NULL)
        status = swi_log_open(e);
    if (status == SW_OK) {
        tail_of(tail, j->bytes, j->used);
        status = sw_file_write(e->history, j->bytes, j->used);
    }
    if (status == SW_OK)
        status = sw_file_write(e->history, tail, TAIL);
    if (status == SW_OK)
        e->history_bytes += j->used + TAIL;
    sw_json_free(j);
    return status;
}

static const char *const jobs[] = {"none", "draw", "child", "rung", "look"}; /* swi_job_what */

/* How a candidate began. */
static const datum begin_fields[] = {
    DATUM(id, WHOLE, swi_one, id),
    DATUM(how, WHOLE, swi_one, how),
    DATUM(of, WHOLE, swi_one, of),
    DATUM(born, WHOLE, swi_one, born),
    DATUM(attempt, WHOLE, swi_one, attempt),
    DATUM(hash, HEX, swi_one, hash),
    DATUM(peak_bytes, WHOLE, swi_one, price.peak_bytes),
    DATUM(parameters, WHOLE, swi_one, price.parameters),
    DATUM(operations, WHOLE, swi_one, price.operations),
    {"needs", DATUM_WHOLE, offsetof(swi_one, need), sizeof(size_t), 3}};

/* Its results at a rung. */
static const datum end_fields[] = {DATUM(id, WHOLE, swi_one, id),
                                   DATUM(steps, WHOLE, swi_one, steps),
                                   DATUM(fitness, REAL, swi_one, fitness),
                                   DATUM(loss, REAL, swi_one, loss),
                                   DATUM(accuracy, REAL, swi_one, accuracy),
                                   DATUM(train_accuracy, REAL, swi_one, train_accuracy),
                                   DATUM(measured_bytes, WHOLE, swi_one, measured),
                                   DATUM(rests, YES, swi_one, rest.there),
                                   DATUM(rung, WHOLE, swi_one, rest.rung),
                                   DATUM(state, HEX, swi_one, rest.sum),
                                   DATUM(invalid, YES, swi_one, invalid),
                                   DATUM(ns_per_sample, WHOLE, swi_one, ns_per_sample)};

sw_status swi_log_begin(sw_evolution *e, const swi_one *one)
{
    sw_json j;
    char *text;
    size_t bytes;
    if (!swi_has_files(e))
        return SW_OK;
    SW_TRY(sw_genome_print(one->genome, &text, &bytes));
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_json_begin(&j, '{');
    sw_json_put_string(&j, "what", jobs[one->how]);
    put_data(&j, begin_fields, COUNT_OF(begin_fields), one);
    sw_json_put_u64(&j, "mutants", e->mutants);
    sw_json_put_u64(&j, "refused", e->refused);
    ops_write(&j, one);
    sw_json_put_string(&j, "genome", text);
    sw_text_free(text, bytes);
    return put_line(e, &j);
}

sw_status swi_log_end(sw_evolution *e, const swi_one *one)
{
    sw_json j;
    if (!swi_has_files(e))
        return SW_OK;
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_json_begin(&j, '{');
    sw_json_put_string(&j, "what", jobs[SWI_JOB_GO_ON]);
    put_data(&j, end_fields, COUNT_OF(end_fields), one);
    sw_json_put_string(&j, "why", one->invalid ? one->why : NULL);
    return put_line(e, &j);
}

/* ---- doing it again ---------------------------------------------------------------------- */

typedef struct {
    sw_evolution *e;
    swi_one *one;
    char *text; /* room for any string of the line */
    size_t room;
    char what[16];
} reader;

static sw_status read_op(sw_json_in *in, void *context)
{
    reader *r = context;
    swi_one *one = r->one;
    sw_json_text text = {.to = r->text, .cap = r->room};
    SW_TRY(sw_json_get_string(in, &text));
    SW_TRY(sw_heap_reserve(&one->ops, SW_HEAP_RECORDS, &one->ops_cap,
                           one->ops_bytes + (uint32_t)text.length + 1));
    memcpy(one->ops + one->ops_bytes, r->text, text.length);
    one->ops_bytes += (uint32_t)text.length + 1;
    one->ops[one->ops_bytes - 1] = '\n';
    return SW_OK;
}

static sw_status read_other(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    sw_json_text text = {.to = r->text, .cap = r->room};
    int c;
    if (strcmp(key, "what") == 0)
        return sw_json_get_text(in, r->what, sizeof r->what);
    if (strcmp(key, "ops") == 0)
        return swi_read_list(in, read_op, r);
    if (strcmp(key, "mutants") == 0)
        return sw_json_get_count(in, &r->e->mutants);
    if (strcmp(key, "refused") == 0)
        return sw_json_get_count(in, &r->e->refused);
    if (strcmp(key, "genome") == 0 && r->one->genome == NULL) {
        SW_TRY(sw_json_get_string(in, &text));
        return sw_genome_parse(&r->one->genome, r->text, text.length, in->path);
    }
    SW_TRY(sw_json_peek(in, &c));
    if (strcmp(key, "why") == 0 && c == '"')
        return sw_json_get_text(in, r->one->why, sizeof r->one->why);
    return sw_json_skip(in);
}

/* The next line of what is replayed, read into `one`: of that kind, of that candidate, and what
 * was written. Else nothing of it counts: the history is cut here. */
static sw_status read_line(sw_evolution *e, swi_one *one, const char *what, const datum *fields,
                           uint32_t n, const char *path)
{
    const char *line = e->replayed + e->replayed_at;
    const size_t left = e->replayed_bytes - e->replayed_at;
    const char *end = memchr(line, '\n', left);
    const uint64_t id = one->id;
    if (end == NULL)
        SW_FAIL(SW_FORMAT, "%s: its last line is cut", path);
    const size_t bytes = (size_t)(end - line) + 1;
    if (!swi_line_is_whole(line, bytes))
        SW_FAIL(SW_FORMAT, "%s is damaged at byte %zu: it is not what was written", path,
                e->replayed_at);
    reader r = {.e = e, .one = one, .room = bytes};
    SW_TRY(sw_heap_alloc(&r.text, SW_HEAP_FILES, bytes));
    sw_json_in in = swi_read_begin(line, bytes, path);
    const sw_status status = get_object(
        &in,
        (data_in){.fields = fields, .n = n, .to = one, .other = read_other, .context = &r});
    sw_heap_free(r.text, SW_HEAP_FILES, bytes);
    SW_TRY(status);
    if (one->id != id || strcmp(r.what, what) != 0)
        SW_FAIL(SW_FORMAT, "%s: the line at byte %zu is another candidate's", path,
                e->replayed_at);
    e->replayed_at += bytes;
    return SW_OK;
}

/* The rest of the history goes, and the run is no longer replayed. */
static sw_status cut(sw_evolution *e, const char *why)
{
    if (why != NULL)
        swi_evolution_note(e, why);
    sw_text_free(e->replayed, e->replayed_bytes);
    e->replayed = NULL;
    e->history_bytes = e->replayed_at;
    return SW_OK;
}

static sw_status replay(sw_evolution *e, swi_one *one, const char *what, const datum *fields,
                        uint32_t n, bool *there)
{
    char path[SWI_EVOLUTION_PATH];
    swi_one read = *one;
    *there = e->replayed_at < e->replayed_bytes;
    if (!*there)
        return cut(e, NULL);
    swi_evolution_path(e, "history.jsonl", path);
    const sw_status status = read_line(e, &read, what, fields, n, path);
    *there = status == SW_OK;
    if (*there) {
        *one = read;
        return SW_OK;
    }
    if (read.genome != one->genome)
        swi_genome_free(read.genome);
    if (read.ops != one->ops)
        sw_heap_free(read.ops, SW_HEAP_RECORDS, read.ops_cap);
    return status == SW_FORMAT ? cut(e, sw_last_error()) : status;
}

sw_status swi_replay_begin(sw_evolution *e, swi_one *one, bool *there)
{
    const swi_job_what how = one->how;
    SW_TRY(replay(e, one, jobs[how], begin_fields, COUNT_OF(begin_fields), there));
    if (!*there)
        return SW_OK;
    sw_price *p = &one->price;
    *p = SW_OPTS(sw_price, .peak_bytes = p->peak_bytes, .model_bytes = one->need.member,
                 .arena_bytes = one->need.arena, .batch_bytes = one->need.batch,
                 .operations = p->operations, .parameters = p->parameters,
                 .operations_per_sample = (double)p->operations / (double)one->genome->batch);
    e->most = swi_need_most(e->most, one->need);
    return SW_OK;
}

sw_status swi_replay_end(sw_evolution *e, swi_one *one, bool *there)
{
    return replay(e, one, jobs[SWI_JOB_GO_ON], end_fields, COUNT_OF(end_fields), there);
}

/* ---- opening ----------------------------------------------------------------------------- */

static sw_status put_head(sw_evolution *e)
{
    sw_json j;
    option list[OPTIONS];
    swi_evolution_options(e, list);
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_json_begin(&j, '{');
    sw_json_put_string(&j, "format", SWI_HISTORY_FORMAT);
    sw_json_open(&j, "options", '{');
    for (int i = 0; i < OPTIONS; i++)
        put_data(&j, &(datum){list[i].name, DATUM_HEX, 0, sizeof list[i].value, 0}, 1,
                 &list[i].value);
    sw_json_end(&j);
    return put_line(e, &j);
}

/* States that no line names: of a process that was ended. */
static bool sweep_one(void *context, const char *name)
{
    const sw_evolution *e = context;
    char path[SWI_EVOLUTION_PATH];
    unsigned long long id;
    unsigned rung;
    int n = 0;
    if (sscanf(name, "%llu-%u.state%n", &id, &rung, &n) != 2 || name[n] != '\0' || n == 0)
        return true;
    const swi_one *one = id > 0 && id <= e->n ? e->ones[id - 1] : NULL;
    if (one != NULL && one->rest.there && one->rest.rung == rung)
        return true;
    (void)snprintf(path, sizeof path, "%s/members/%s", e->opts.dir, name);
    (void)!sw_file_remove(path);
    return true;
}

sw_status swi_log_open(sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    swi_evolution_path(e, "members", path);
    SW_TRY(sw_folder_make(path));
    (void)!sw_folder_for_each(path, sweep_one, e);
    swi_evolution_path(e, "history.jsonl", path);
    SW_TRY(sw_file_open(&e->history, path, SW_FILE_KEEP));
    SW_TRY(sw_file_own(e->history, path)); /* one run at a time writes into the folder */
    SW_TRY(sw_file_cut(e->history, e->history_bytes));
    SW_TRY(sw_file_seek(e->history, e->history_bytes));
    return e->history_bytes == 0 ? put_head(e) : SW_OK;
}

static sw_status head_member(sw_json_in *in, const char *key, void *context)
{
    char format[64];
    if (strcmp(key, "options") == 0)
        return options_read(in, context);
    if (strcmp(key, "format") != 0)
        return sw_json_skip(in);
    SW_TRY(sw_json_get_text(in, format, sizeof format));
    if (strcmp(format, SWI_HISTORY_FORMAT) != 0)
        SW_FAIL(SW_FORMAT,
                "%s: its format is \"%s\", and this library goes on with \"" SWI_HISTORY_FORMAT
                "\" alone: go on with the version that began the run, or begin one in another "
                "folder",
                in->path, format);
    return SW_OK;
}

/* Its text, where there is one. */
static sw_status load_history(sw_evolution *e, const char *path)
{
    bool there = false;
    if (swi_has_files(e))
        SW_TRY(sw_file_look(path, &there));
    if (there)
        SW_TRY(
            swi_text_load(&e->replayed, &e->replayed_bytes, path, "a history", SIZE_MAX / 2));
    return swi_ranks_text(e, &e->replayed, &e->replayed_bytes);
}

sw_status sw_evolution_resume(sw_evolution *e, int *found)
{
    static const char call[] = "sw_evolution_resume";
    char path[SWI_EVOLUTION_PATH];
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, call));
    SW_TRY(swi_given(found != NULL, "found", call));
    if (e->opts.dir == NULL || e->begun || e->n > 0)
        SW_FAIL(SW_INVALID, "%s: %s", call,
                e->opts.dir == NULL
                    ? "the run has no dir"
                    : "it must be called before the first sw_evolution_advance");
    swi_evolution_path(e, "history.jsonl", path);
    SW_TRY(load_history(e, path));
    if (e->replayed == NULL) {
        *found = 0;
        return SW_OK;
    }
    swi_note_set("%s", "");
    if (memchr(e->replayed, '\n', e->replayed_bytes) == NULL) { /* it ended as it began */
        *found = 0;
        return cut(e, NULL);
    }
    /* The first line, which is whole, is that of this run. A history of an earlier version is
     * refused. */
    const char *end = memchr(e->replayed, '\n', e->replayed_bytes);
    sw_json_in in = swi_read_begin(e->replayed, (size_t)(end - e->replayed) + 1, path);
    e->replayed_at = (size_t)(end - e->replayed) + 1;
    if (strncmp(e->replayed, "{\"format\":", 10) != 0)
        SW_FAIL(SW_FORMAT,
                "%s: is not a history of \"" SWI_HISTORY_FORMAT
                "\": go on with the version that began the run, or begin one in another folder",
                path);
    SW_TRY(sw_json_get_object(&in, head_member, e));
    SW_TRY(swi_evolution_replay(e));
    *found = 1;
    return e->replayed != NULL ? cut(e, NULL) : SW_OK;
}
