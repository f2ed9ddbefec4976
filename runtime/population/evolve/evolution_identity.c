/* Which run it is: the options that its bits depend on, by name, so that a run that would not
 * be the same is refused by what is another. */
#include "runtime/population/evolve/evolution_files.h"
#include <string.h>

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
