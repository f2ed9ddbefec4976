/* The population: what it is made from, generation after generation, and what is kept of each.
 */
#include "tools/evolve/evolve.h"
#include <math.h>
#include <string.h>

/* ---- data -------------------------------------------------------------------------------- */

static int split(evolve *e)
{
    const int status =
        job_validation(&e->job, e->opts.validation_share, &e->train, &e->validation);
    const bool named = e->job.train.info.class_names != NULL; /* which files of nets have */
    if (status == CLI_GO && e->opts.retrain == 0 && !named) { /* not needed twice */
        sw_dataset_destroy(e->job.train.set);
        e->job.train.set = NULL;
    }
    return status;
}

/* Data, budget and what the split takes for a moment: a limit is a promise of this machine. */
static int check_machine(const evolve *e)
{
    const size_t sets = 2 * e->job.train.info.bytes + e->job.test.info.bytes;
    machine m;
    const sw_status status = machine_memory("", &m);
    if (status != SW_OK)
        return cli_library_error(status, false);
    const size_t there = m.bytes;
    if (sets <= there && e->opts.job.budget_bytes <= there - sets)
        return CLI_GO;
    return cli_error(CLI_NO_FIT,
                     "does not fit: the data sets take %zu bytes and --memory-budget is %zu; "
                     "this machine has %zu",
                     sets, e->opts.job.budget_bytes, there);
}

/* ---- making ------------------------------------------------------------------------------ */

static sw_status read_first(evolve *e)
{
    const char *at = e->opts.first;
    char path[EVOLVE_PATH];
    for (size_t n; at != NULL && *at != '\0'; at += n + (at[n] == ',')) {
        n = strcspn(at, ",");
        if (e->n_first == EVOLVE_FIRST || n >= sizeof path)
            SW_FAIL(SW_INVALID, "--first: at most %d files, of at most %d bytes", EVOLVE_FIRST,
                    EVOLVE_PATH);
        snprintf(path, sizeof path, "%.*s", (int)n, at);
        SW_TRY(sw_genome_load(&e->first[e->n_first], path));
        e->n_first++;
    }
    return SW_OK;
}

sw_status evolve_exec(evolve *e, sw_exec **out)
{
    const job_opts *o = &e->opts.job;
    sw_exec_opts exec = o->exec;
    if (e->budget == NULL)
        SW_TRY(sw_budget_create(&e->budget, o->budget_bytes));
    exec.size = sizeof exec;
    exec.threads = (int)o->threads;
    exec.budget = e->budget;
    exec.seed = (uint64_t)o->seed;
    exec.isa = o->isa;
    return sw_exec_create(out, &exec);
}

static int stop(void *user)
{
    evolve *e = user;
    if (e->ends_ns > 0 && cli_clock_ns() >= e->ends_ns)
        e->timed_out = true;
    return e->timed_out || cli_interrupted();
}

static sw_status make_population(evolve *e)
{
    const evolve_opts *o = &e->opts;
    const sw_evolution_opts opts = SW_OPTS(
        sw_evolution_opts, .train = e->train.set, .validation = e->validation.set,
        .space = e->space, .first = e->n_first > 0 ? (const sw_genome *const *)e->first : NULL,
        .n_first = e->n_first, .population = (uint32_t)o->population,
        .samples = (uint64_t)o->samples, .validation_samples = (uint64_t)o->validation_samples,
        .seed = (uint64_t)o->job.seed, .net = &e->net,
        .mutations = e->n_mutation > 0 ? e->mutation : NULL, .n_mutations = e->n_mutation,
        .mutate = o->mutate > 0.0 ? o->mutate : -1.0,
        .crossover = o->crossover > 0.0 ? o->crossover : -1.0,
        .selections = e->n_selection > 0 ? e->selection : NULL, .n_selections = e->n_selection,
        .fitness = e->n_fitness > 0 ? e->fitness : NULL, .n_fitness = e->n_fitness,
        .candidate_bytes = o->candidate_bytes, .dir = o->out, .stop = stop, .stop_user = e,
        .generation_ns = o->generation_time.ns);
    void *block;
    SW_TRY(evolve_exec(e, &e->exec));
    SW_TRY(sw_evolution_create(&e->evolution, e->exec, &opts));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)o->population * sizeof *e->members));
    e->members = block;
    return SW_OK;
}

/* An option that differs from the files of the folder is a mistake of the command line. */
static int resume(evolve *e)
{
    int found = 0;
    if (!e->opts.resume)
        return CLI_GO;
    const sw_status status = sw_evolution_resume(e->evolution, &found);
    if (status == SW_INVALID)
        return cli_error(CLI_USAGE, "--resume %s: %s", e->opts.out, sw_last_error());
    if (cli_saved(status) != SW_OK) /* prints what was damaged and ended nothing */
        return cli_library_error(status, true);
    e->resumed = found != 0;
    if (!e->opts.quiet && !e->resumed)
        cli_note("there is no run in %s yet: it begins", e->opts.out);
    return CLI_GO;
}

int evolve_open(evolve *e)
{
    int code = check_machine(e);
    if (code != CLI_GO)
        return code;
    sw_status status =
        e->opts.space != NULL ? sw_search_space_load(&e->space, e->opts.space) : SW_OK;
    if (status == SW_OK)
        status = read_first(e);
    if (status != SW_OK)
        return status == SW_INVALID ? cli_error(CLI_USAGE, "%s", sw_last_error())
                                    : cli_library_error(status, true);
    code = split(e);
    if (code == CLI_GO)
        code = evolve_files_open(e);
    if (code != CLI_GO)
        return code;
    status = make_population(e);
    if (status == SW_INVALID) /* a genome of other data, say */
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    return status == SW_OK ? resume(e) : cli_library_error(status, false);
}

/* ---- looking ----------------------------------------------------------------------------- */

static evolve_member member_of(const sw_candidate *c)
{
    evolve_member m = {.id = c->id,
                       .parents = {c->parents[0], c->parents[1]},
                       .born = c->born,
                       .steps = c->steps,
                       .parameters = c->price->parameters,
                       .operations = c->price->operations,
                       .ns_per_sample = c->ns_per_sample,
                       .rank = c->rank,
                       .predicted_bytes = c->price->peak_bytes,
                       .measured_bytes = c->measured_bytes,
                       .fitness = c->fitness,
                       .accuracy = c->accuracy,
                       .loss = c->loss,
                       .train_accuracy = c->train_accuracy,
                       .invalid = c->invalid != 0};
    sw_genome_info info = SW_OPTS(sw_genome_info);
    if (sw_genome_describe(c->genome, &info) == SW_OK)
        m.vertices = info.n_vertices;
    snprintf(m.why, sizeof m.why, "%s", c->why != NULL ? c->why : "");
    return m;
}

/* Is `a` ahead of `b`: by rank, then by fitness, of which none is the worst? The default
 * fitness rounds accuracy, which is asked first then, as by sw_evolution_best. */
static bool ahead(const evolve *e, const evolve_member *a, const evolve_member *b)
{
    if (a->invalid != b->invalid)
        return b->invalid;
    if (e->n_fitness == 0 && a->accuracy != b->accuracy)
        return a->accuracy > b->accuracy;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    return isnan(b->fitness) ? !isnan(a->fitness) : a->fitness > b->fitness;
}

static double mean(double sum, uint32_t n)
{
    return n > 0 ? sum / n : (double)NAN;
}

static evolve_row row_of(const evolve *e)
{
    const evolve_member *best = &e->members[0];
    double fitness = 0.0, accuracy = 0.0;
    uint32_t n = 0, n_accuracy = 0;
    evolve_row row = {.generation = e->progress.generation,
                      .mutants = e->progress.mutants,
                      .refused = e->progress.refused,
                      .steps = e->progress.steps,
                      .ns = cli_clock_ns() - e->generation_began_ns};
    for (size_t i = 0; i < e->n_members; i++) {
        const evolve_member *m = &e->members[i];
        best = ahead(e, m, best) ? m : best;
        row.invalid += m->invalid;
        row.compared += m->measured_bytes > 0;
        row.differ += m->measured_bytes > 0 && m->measured_bytes != m->predicted_bytes;
        if (m->predicted_bytes > row.largest_bytes)
            row.largest_bytes = m->predicted_bytes;
        if (!isnan(m->fitness)) {
            fitness += m->fitness;
            n++;
        }
        if (!isnan(m->accuracy)) {
            accuracy += m->accuracy;
            n_accuracy++;
        }
    }
    row.best = best->fitness;
    row.mean = mean(fitness, n);
    row.accuracy = best->accuracy;
    row.mean_accuracy = mean(accuracy, n_accuracy);
    row.best_id = best->id;
    row.parameters = best->parameters;
    row.best_bytes = best->predicted_bytes;
    return row;
}

/* All members of a generation that has its fitness. */
static sw_status take_generation(evolve *e)
{
    const uint32_t n = sw_evolution_count(e->evolution);
    e->n_members = 0;
    for (uint32_t i = 0; i < n && i < (uint32_t)e->opts.population; i++) {
        sw_candidate c = SW_OPTS(sw_candidate);
        SW_TRY(sw_evolution_member(e->evolution, i, &c));
        evolve_member *m = &e->members[e->n_members++];
        *m = member_of(&c);
    }
    sw_evolution_memory memory = SW_OPTS(sw_evolution_memory);
    SW_TRY(sw_evolution_used(e->evolution, &memory));
    evolve_row row = row_of(e);
    row.population_bytes = memory.peak_bytes;
    SW_TRY(evolve_row_add(e, &row));
    e->done = row.generation + 1;
    e->generation_began_ns += row.ns; /* breeding the next one is part of it */
    evolve_say_row(e, &row);
    return SW_OK;
}

sw_status evolve_find_best(evolve *e)
{
    sw_candidate c = SW_OPTS(sw_candidate);
    if (e->n_members == 0 && e->done > 0) /* all of them were before this process */
        SW_TRY(evolve_members_read(e, e->done - 1));
    const sw_status status = sw_evolution_best(e->evolution, &c);
    if (status == SW_INVALID) /* none was measured yet */
        return SW_OK;
    SW_TRY(status);
    SW_TRY(sw_genome_copy(&e->genome, c.genome));
    e->best = member_of(&c);
    e->has_best = true;
    return SW_OK;
}

/* ---- the loop ---------------------------------------------------------------------------- */

static sw_status tell_first(evolve *e)
{
    e->done = e->progress.generation;
    if (e->resumed)
        SW_TRY(evolve_rows_read(e, e->done));
    if (e->resumed && !e->opts.quiet)
        cli_note("goes on with generation %llu, from %s", (unsigned long long)e->done,
                 e->opts.out);
    evolve_say_head(e);
    for (size_t i = 0; i < e->n_rows; i++)
        evolve_say_row(e, &e->rows[i]);
    return SW_OK;
}

/* A generation counts once the next one is there: then the folder has it. */
sw_status evolve_loop(evolve *e)
{
    bool told = false;
    const uint64_t limit = e->opts.time_limit.ns;
    e->began_ns = e->generation_began_ns = cli_clock_ns();
    e->ends_ns = limit > 0 ? e->began_ns + limit : 0;
    while (!told || e->done < e->generations) {
        e->progress = SW_OPTS(sw_evolve_progress);
        SW_TRY(sw_evolution_advance(e->evolution, &e->progress));
        if (!told)
            SW_TRY(tell_first(e));
        told = true;
        if (e->done >= e->generations)
            break; /* a run that was complete */
        if (e->progress.what == SW_EVOLVE_STOPPED)
            break;
        if (e->progress.what == SW_EVOLVE_TRAINED)
            evolve_say_progress(e);
        if (e->progress.what == SW_EVOLVE_EVALUATED)
            SW_TRY(take_generation(e));
        if (e->progress.what == SW_EVOLVE_GENERATION && stop(e))
            break;
    }
    /* The last one is measured; the next one is bred too, for who goes on. */
    if (e->progress.what == SW_EVOLVE_EVALUATED)
        do
            SW_TRY(sw_evolution_advance(e->evolution, &e->progress));
        while (e->progress.what == SW_EVOLVE_TRAINED);
    return SW_OK;
}

void evolve_end_population(evolve *e)
{
    sw_evolution_destroy(e->evolution);
    sw_exec_destroy(e->exec);
    e->evolution = NULL;
    e->exec = NULL;
}

void evolve_close(evolve *e)
{
    evolve_end_population(e);
    sw_budget_destroy(e->budget);
    for (size_t i = 0; i < e->n_first; i++)
        sw_genome_destroy(e->first[i]);
    sw_genome_destroy(e->genome);
    sw_search_space_destroy(e->space);
    sw_dataset_destroy(e->train.set);
    sw_dataset_destroy(e->validation.set);
    job_unload(&e->job);
    sw_heap_free(e->members, SW_HEAP_RECORDS, (size_t)e->opts.population * sizeof *e->members);
    sw_heap_free(e->rows, SW_HEAP_RECORDS, e->cap_rows * sizeof *e->rows);
}
