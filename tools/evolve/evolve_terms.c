/* The little languages of --selection, --fitness and --mutations. */
#include "tools/evolve/evolve.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A piece of a text that is read: up to the next of `stops`. */
typedef struct {
    const char *option, *at;
    char word[64];
    char stop; /* what stood after the word; 0: nothing */
} reader;

static int refuse(const reader *r, const char *what)
{
    return cli_error(CLI_USAGE, "%s: '%s' %s", r->option, r->word, what);
}

static bool next(reader *r, const char *stops)
{
    const size_t n = strcspn(r->at, stops);
    snprintf(r->word, sizeof r->word, "%.*s", (int)(n < 63 ? n : 63), r->at);
    r->stop = r->at[n];
    r->at += n + (r->stop != '\0');
    return n > 0 && n < 64;
}

static bool read_count(const char *text, uint32_t *out)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    *out = (uint32_t)n;
    return *text >= '0' && *text <= '9' && *end == '\0' && n > 0 && n <= 1000000;
}

static bool read_real(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return strspn(text, "0123456789.eE+-") == strlen(text) && *text != '\0' && *end == '\0' &&
           isfinite(*out);
}

/* ---- selection --------------------------------------------------------------------------- */

static int read_selector_part(reader *r, sw_selection *s)
{
    const bool tournament = s->kind == SW_SELECT_TOURNAMENT;
    if (strcmp(r->word, "keep") == 0 || strcmp(r->word, "breed") == 0) {
        s->keep = r->word[0] == 'k';
        return CLI_GO;
    }
    if (tournament && r->word[0] == 'k' && read_count(r->word + 1, &s->contestants))
        return CLI_GO;
    if (tournament && r->word[0] == 'p' && read_real(r->word + 1, &s->p) && s->p > 0.0 &&
        s->p <= 1.0)
        return CLI_GO;
    return refuse(r, tournament ? "is not kCONTESTANTS, pPROBABILITY, keep or breed"
                                : "is neither keep nor breed");
}

static int read_selector(reader *r, sw_selection *s)
{
    static const char *const names[] = {"elite", "sus", "tournament"}; /* sw_selection_kind */
    int kind = 0;
    if (!next(r, ":+,"))
        return refuse(r, "must be elite:N, sus:N or tournament:N");
    while (kind < 3 && strcmp(names[kind], r->word) != 0)
        kind++;
    if (kind == 3)
        return refuse(r, "is none of elite, sus and tournament");
    s->kind = (sw_selection_kind)kind;
    s->keep = s->kind == SW_SELECT_ELITE;
    if (r->stop != ':')
        return refuse(r, "must be followed by :N, how many it selects");
    if (!next(r, ":+,") || !read_count(r->word, &s->n))
        return refuse(r, "is no number of members");
    while (r->stop == ':') {
        const bool there = next(r, ":+,");
        const int status = there ? read_selector_part(r, s) : refuse(r, "is empty");
        if (status != CLI_GO)
            return status;
    }
    return CLI_GO;
}

int evolve_read_selection(evolve *e)
{
    reader r = {.option = "--selection", .at = e->opts.selection, .stop = '+'};
    uint64_t last = 0;
    int stage = 0;
    if (r.at == NULL)
        return CLI_GO;
    for (; r.stop != '\0'; e->n_selection++) {
        if (e->n_selection == EVOLVE_TERMS)
            return cli_error(CLI_USAGE, "--selection: at most %d", EVOLVE_TERMS);
        if (r.stop == ',')
            last = 0;
        stage += r.stop == ',';
        sw_selection *s = &e->selection[e->n_selection];
        const int status = read_selector(&r, s);
        if (status != CLI_GO)
            return status;
        s->stage = stage;
        last += s->n;
    }
    if (last != (uint64_t)e->opts.population)
        return cli_error(CLI_USAGE,
                         "--selection: must select as many as --population, %lld (got %llu)",
                         (long long)e->opts.population, (unsigned long long)last);
    return CLI_GO;
}

/* ---- fitness ----------------------------------------------------------------------------- */

static int fitness_named(const char *name)
{
    for (int i = 0; i < SW_FITNESS_KINDS; i++)
        if (i != SW_FITNESS_CUSTOM &&
            strcmp(sw_fitness_kind_name((sw_fitness_kind)i), name) == 0)
            return i;
    return -1;
}

/* "accuracy, train_accuracy, ..." */
static const char *fitness_names(void)
{
    static char text[300];
    size_t used = 0;
    for (int i = 0; i < SW_FITNESS_KINDS && used < sizeof text; i++)
        if (i != SW_FITNESS_CUSTOM)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "",
                                 sw_fitness_kind_name((sw_fitness_kind)i));
    return text;
}

static int read_fitness_part(reader *r, sw_fitness *f)
{
    double *to = strncmp(r->word, "average=", 8) == 0 ? &f->average
                 : strncmp(r->word, "drop=", 5) == 0  ? &f->drop
                                                      : NULL;
    if (to == NULL)
        return refuse(r, "is neither average=X nor drop=X");
    if (!read_real(strchr(r->word, '=') + 1, to) || *to < 0.0 || *to >= 1.0)
        return refuse(r, "must be a share, at least 0 and below 1");
    if (to == &f->drop && f->kind != SW_FITNESS_TRAIN_ACCURACY)
        return refuse(r, "has no effect but of train_accuracy");
    return CLI_GO;
}

static int read_term(reader *r, sw_fitness *f)
{
    char all[360];
    if (!next(r, "*:+,"))
        return refuse(r, "must be the name of a fitness");
    if (r->stop == '*') {
        if (!read_real(r->word, &f->factor) || f->factor == 0.0)
            return refuse(r, "is no factor");
        if (!next(r, ":+,"))
            return refuse(r, "must be the name of a fitness");
    }
    const int kind = fitness_named(r->word);
    snprintf(all, sizeof all, "is none of %s", fitness_names());
    if (kind < 0)
        return refuse(r, all);
    f->kind = (sw_fitness_kind)kind;
    while (r->stop == ':') {
        const bool there = next(r, ":+,");
        const int status = there ? read_fitness_part(r, f) : refuse(r, "is empty");
        if (status != CLI_GO)
            return status;
    }
    return CLI_GO;
}

int evolve_read_fitness(evolve *e)
{
    reader r = {.option = "--fitness", .at = e->opts.fitness, .stop = '+'};
    int objective = 0;
    e->n_objectives = 1;
    if (r.at == NULL)
        return CLI_GO;
    for (; r.stop != '\0'; e->n_fitness++) {
        if (e->n_fitness == EVOLVE_TERMS)
            return cli_error(CLI_USAGE, "--fitness: at most %d terms", EVOLVE_TERMS);
        objective += r.stop == ',';
        const int status = read_term(&r, &e->fitness[e->n_fitness]);
        if (status != CLI_GO)
            return status;
        e->fitness[e->n_fitness].objective = objective;
    }
    e->n_objectives = (size_t)objective + 1;
    return CLI_GO;
}

/* ---- mutations --------------------------------------------------------------------------- */

static int mutation_named(const char *name)
{
    for (int i = 0; i < SW_MUTATION_KINDS; i++)
        if (strcmp(sw_mutation_kind_name((sw_mutation_kind)i), name) == 0)
            return i;
    return -1;
}

/* The default ones of that kind; a kind that the default list does not have is taken with its
 * probability alone. */
static int add_mutations(evolve *e, const reader *r, int kind, double probability)
{
    size_t n, found = 0;
    const sw_mutation *usual = sw_mutations_default(&n);
    for (size_t i = 0; i < n; i++) {
        if ((int)usual[i].kind != kind || e->n_mutation == EVOLVE_TERMS)
            continue;
        e->mutation[e->n_mutation] = usual[i];
        if (probability > 0.0)
            e->mutation[e->n_mutation].probability = probability;
        e->n_mutation++;
        found++;
    }
    if (found > 0)
        return CLI_GO;
    if (probability <= 0.0)
        return refuse(r, "must have a probability: it is no default mutation");
    if (e->n_mutation < EVOLVE_TERMS)
        e->mutation[e->n_mutation++] =
            (sw_mutation){.kind = (sw_mutation_kind)kind, .probability = probability};
    return CLI_GO;
}

int evolve_read_mutations(evolve *e)
{
    reader r = {.option = "--mutations", .at = e->opts.mutations, .stop = ','};
    char all[400];
    size_t used = (size_t)snprintf(all, sizeof all, "is none of ");
    for (int i = 0; i < SW_MUTATION_KINDS && used < sizeof all; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "",
                                 sw_mutation_kind_name((sw_mutation_kind)i));
    while (r.at != NULL && r.stop != '\0') {
        double probability = 0.0;
        char *equals;
        if (!next(&r, ","))
            return refuse(&r, "is none");
        equals = strchr(r.word, '=');
        if (equals != NULL &&
            (!read_real(equals + 1, &probability) || probability <= 0.0 || probability > 1.0))
            return refuse(&r, "must have a probability above 0, at most 1");
        if (equals != NULL)
            *equals = '\0';
        const int kind = mutation_named(r.word);
        const int status = kind < 0 ? refuse(&r, all) : add_mutations(e, &r, kind, probability);
        if (status != CLI_GO)
            return status;
    }
    return CLI_GO;
}
