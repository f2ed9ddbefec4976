/* A run goes on where its folder ends: DIR/generation.json is read, and everything that it
 * names is checked, before anything changes. Where something of it is damaged it is passed
 * over, and DIR/generation.json.1 is asked. */
#include "alloc/base/mem.h"
#include "alloc/base/error.h"
#include "runtime/population/evolve/evolution_files.h"
#include <stdio.h>
#include <string.h>

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

static sw_status read_genome(sw_json_in *in, const reader *r)
{
    sw_json_text text = {.to = r->text, .cap = r->room};
    SW_TRY(sw_json_get_string(in, &text));
    if (r->at->genome != NULL)
        return sw_json_bad(in, "a second genome");
    return sw_genome_parse(&r->at->genome, r->text, text.length, r->path);
}

static sw_status read_numbers(sw_json_in *in, swi_one *one)
{
    double x[4];
    SW_TRY(swi_get_reals(in, x, 4));
    one->fitness = x[0];
    one->loss = x[1];
    one->accuracy = x[2];
    one->train_accuracy = x[3];
    return SW_OK;
}

static sw_status read_counts(sw_json_in *in, swi_one *one)
{
    uint64_t x[3];
    SW_TRY(swi_get_counts(in, x, 3));
    one->measured = (size_t)x[0];
    one->ns_per_sample = x[1];
    one->rank = (uint32_t)x[2];
    return SW_OK;
}

static sw_status read_state(sw_json_in *in, swi_one *one)
{
    uint64_t x[2];
    SW_TRY(swi_get_counts(in, x, 2));
    one->rest.generation = x[0];
    one->rest.bytes = (size_t)x[1];
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
        return swi_get_counts(in, one->parents, 2);
    case 2:
        return swi_birth_read(in, &one->birth);
    case 3:
        return swi_read_list(in, read_op, r);
    case 4:
        return sw_json_get_count(in, &one->steps);
    case 5:
        return swi_get_reals(in, one->averages.of, p->n);
    case 6:
        return swi_get_reals(in, one->objectives, p->n_objectives);
    case 7:
        return read_numbers(in, one);
    case 8:
        return read_counts(in, one);
    case 9:
        return read_state(in, one);
    case 10:
        return swi_get_hex(in, &one->rest.sum);
    default:
        return read_genome(in, r);
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
        return swi_options_read(in, r->e);
    if (which == 8)
        return swi_read_list(in, read_member, r);
    if (which == 9)
        return swi_read_list(in, read_best, r);
    if (which == 10)
        return swi_get_hex(in, &r->sum);
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

static sw_status open_members(reader *r)
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
    return SW_OK;
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

static void exchange(reader *r)
{
    sw_evolution *e = r->e;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one_free(e, &e->members[i]);
        e->members[i] = r->members[i];
        swi_one_begin(&r->members[i]);
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
}

/* No run needs the lost part of a history to go on: it ends after its last whole line then. */
static sw_status look_at_history(reader *r)
{
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
    return SW_OK;
}

/* Everything is read and checked before anything changes. */
static sw_status restore(reader *r)
{
    SW_TRY(open_members(r));
    SW_TRY(open_best(r));
    SW_TRY(look_at_history(r));
    if (r->n_best > 0) {
        swi_one *real = &r->e->best, was = *real; /* its file is named after where it stands */
        *real = r->best;
        const sw_status status = check_state(r, real);
        *real = was;
        SW_TRY(status);
    }
    exchange(r);
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
