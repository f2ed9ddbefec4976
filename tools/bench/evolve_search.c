/* bench evolve --case gaps and --case search: a whole search, its pauses; and its winners
 * against the best of random nets that had as many steps in all, both trained from scratch.
 *
 * A search has half of its steps for generations, and half for the fittest of the last one,
 * which begin again. The random nets are a population of one generation: as many draws of the
 * same space under the same budget, trained with as many steps in all as the search had. Both
 * search graphs alone: all nets are trained by adam with one rate and batch, for what a search
 * comes to at its end otherwise, a low rate say, suits nets that are trained already. Fitness
 * is the loss on the validation part, which tells nets apart where accuracy no longer does. */
#include "tools/bench/evolve.h"
#include "tools/evolve/trial.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct {
    const evolve_bench_opts *opts;
    sw_dataset *all, *train, *validation, *test;
    sw_net_opts net;
    sw_search_space *space;
    sw_mutation mutations[SW_MUTATION_KINDS * 2];
    size_t n_mutations;
} search_data;

/* Results of one population. */
typedef struct {
    sw_genome *genome;
    double accuracy; /* on the validation part */
    sw_price price;
    uint64_t steps, gap_ns, mutants, refused, compared, differ, over;
    size_t peak_bytes;
} found;

/* ---- what is searched ---------------------------------------------------------------------
 */

/* The default space with one way to train. */
static sw_status open_space(search_data *d, const sw_task *task)
{
    static const char *const lines[][2] = {{"\n \"optimizers\": ", "[\"adam\"],"},
                                           {"\n \"lr\": ", "{\"from\": 0.002, \"to\": 0.002},"},
                                           {"\n \"batch\": ", "[64],"}};
    sw_search_space *usual;
    char text[16384];
    size_t n = 0;
    SW_TRY(sw_search_space_default(&usual, task));
    const char *from = sw_search_space_text(usual);
    for (int k = 0; k < 3; k++) {
        const char *at = strstr(from, lines[k][0]);
        at = at != NULL ? at + strlen(lines[k][0]) : from;
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s%s", (int)(at - from), from,
                              lines[k][1]);
        from = at + strcspn(at, "\n");
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "%s", from);
    sw_search_space_destroy(usual);
    return sw_search_space_parse(&d->space, text, n, "the space of graphs");
}

/* Those of graphs. */
static void take_mutations(search_data *d)
{
    size_t n;
    const sw_mutation *all = sw_mutations_default(&n);
    for (size_t i = 0; i < n && d->n_mutations < SW_MUTATION_KINDS * 2; i++)
        if (all[i].kind < SW_MUTATE_RATE || all[i].kind == SW_MUTATE_GROW)
            d->mutations[d->n_mutations++] = all[i];
}

/* ---- data -------------------------------------------------------------------------------- */

static sw_status open_data(search_data *d)
{
    const char *dir = d->opts->data;
    float mean, deviation;
    sw_dataset_info info = {.size = sizeof info};
    SW_TRY(dir != NULL ? sw_dataset_idx(&d->all, dir, "train")
                       : sw_dataset_synthetic(&d->all, 4000, 1));
    SW_TRY(dir != NULL ? sw_dataset_idx(&d->test, dir, "t10k")
                       : sw_dataset_synthetic(&d->test, 1000, 2));
    SW_TRY(sw_dataset_moments(d->all, 0, 1, &mean, &deviation));
    sw_dataset_describe(d->all, &info);
    d->net = (sw_net_opts){.size = sizeof d->net,
                           .scale = {1.0f / (255.0f * deviation)},
                           .shift = {-mean / deviation},
                           .n_scales = 1};
    const sw_shape *x = &info.field[0].shape;
    const sw_task task = {.size = sizeof task,
                          .channels = x->rank == 3 ? x->dim[0] : 1,
                          .height = x->dim[x->rank - 2],
                          .width = x->dim[x->rank - 1],
                          .classes = info.n_classes};
    take_mutations(d);
    SW_TRY(open_space(d, &task));
    return sw_dataset_split(&d->train, &d->validation, d->all, info.n / 10, 1);
}

static void close_data(search_data *d)
{
    sw_search_space_destroy(d->space);
    sw_dataset_destroy(d->train);
    sw_dataset_destroy(d->validation);
    sw_dataset_destroy(d->all);
    sw_dataset_destroy(d->test);
}

/* ---- a population ------------------------------------------------------------------------ */

static int stopped(void *user)
{
    (void)user;
    return cli_interrupted();
}

static sw_status look_at_members(sw_evolution *evolution, size_t budget, found *out)
{
    for (uint32_t i = 0; i < sw_evolution_count(evolution); i++) {
        sw_candidate c = {.size = sizeof c};
        SW_TRY(sw_evolution_member(evolution, i, &c));
        out->compared += c.measured_bytes > 0;
        out->differ += c.measured_bytes > 0 && c.measured_bytes != c.price->peak_bytes;
        out->over += c.price->peak_bytes > budget || c.measured_bytes > budget;
    }
    return SW_OK;
}

static sw_status take_best(sw_evolution *evolution, found *out)
{
    sw_candidate c = {.size = sizeof c};
    sw_evolution_memory memory = {.size = sizeof memory};
    SW_TRY(sw_evolution_best(evolution, &c));
    SW_TRY(sw_genome_copy(&out->genome, c.genome));
    out->accuracy = c.accuracy;
    out->price = *c.price;
    SW_TRY(sw_evolution_used(evolution, &memory));
    out->peak_bytes = memory.peak_bytes;
    return SW_OK;
}

static sw_status go(const search_data *d, sw_evolution *evolution, uint64_t generations,
                    const char *name, found *out)
{
    for (uint64_t done = 0; done < generations;) {
        sw_evolve_progress p = {.size = sizeof p};
        SW_TRY(sw_evolution_advance(evolution, &p));
        out->steps = p.steps;
        out->gap_ns = p.longest_gap_ns;
        out->mutants = p.mutants;
        out->refused = p.refused;
        if (p.what == SW_EVOLVE_STOPPED)
            SW_FAIL(SW_STOPPED, "interrupted");
        if (p.what == SW_EVOLVE_EVALUATED) {
            SW_TRY(look_at_members(evolution, d->opts->budget, out));
            done++;
        }
        if (!d->opts->common.quiet)
            cli_progress("%s: generation %" PRIu64 " of %" PRIu64, name, p.generation + 1,
                         generations);
    }
    return take_best(evolution, out);
}

enum { FINALISTS = 64 }; /* at most */

static sw_status copy_if_new(sw_genome **list, uint32_t *n, const sw_genome *genome)
{
    sw_genome_info is = {.size = sizeof is}, other = {.size = sizeof other};
    SW_TRY(sw_genome_describe(genome, &is));
    for (uint32_t i = 0; i < *n; i++) {
        SW_TRY(sw_genome_describe(list[i], &other));
        if (other.hash == is.hash)
            return SW_OK;
    }
    SW_TRY(sw_genome_copy(&list[*n], genome));
    (*n)++;
    return SW_OK;
}

/* The fittest first; *n: at most so many, and how many there are. */
static sw_status take_finalists(sw_evolution *evolution, sw_genome **list, uint32_t *n)
{
    const uint32_t members = sw_evolution_count(evolution), most = *n;
    double before = (double)INFINITY;
    *n = 0;
    for (uint32_t turn = 0; turn < members && *n < most; turn++) {
        double best = -(double)INFINITY;
        sw_candidate c = {.size = sizeof c};
        for (uint32_t i = 0; i < members; i++) {
            SW_TRY(sw_evolution_member(evolution, i, &c));
            if (c.fitness < before && c.fitness > best)
                best = c.fitness;
        }
        for (uint32_t i = 0; i < members && *n < most; i++) {
            SW_TRY(sw_evolution_member(evolution, i, &c));
            if (c.fitness == best)
                SW_TRY(copy_if_new(list, n, c.genome));
        }
        before = best;
    }
    return SW_OK;
}

static const sw_fitness by_loss = {.kind = SW_FITNESS_LOSS};

static sw_evolution_opts opts_of(const search_data *d, uint64_t seed, uint64_t samples)
{
    return (sw_evolution_opts){.size = sizeof(sw_evolution_opts),
                               .train = d->train,
                               .validation = d->validation,
                               .population = (uint32_t)d->opts->population,
                               .samples = samples,
                               .seed = seed,
                               .net = &d->net,
                               .space = d->space,
                               .mutations = d->mutations,
                               .n_mutations = d->n_mutations,
                               .fitness = &by_loss,
                               .n_fitness = 1,
                               .stop = stopped};
}

/* So many samples for each member that a population of draws makes so many steps in all. */
static sw_status samples_for(const search_data *d, sw_exec *exec, uint64_t seed, uint64_t steps,
                             uint64_t *out)
{
    const sw_evolution_opts opts = opts_of(d, seed, 1);
    double of_a_sample = 0.0;
    sw_evolution *drawn;
    sw_status status = sw_evolution_create(&drawn, exec, &opts);
    for (uint32_t i = 0; status == SW_OK && i < sw_evolution_count(drawn); i++) {
        sw_candidate c = {.size = sizeof c};
        sw_genome_info info = {.size = sizeof info};
        status = sw_evolution_member(drawn, i, &c);
        if (status == SW_OK)
            status = sw_genome_describe(c.genome, &info);
        if (status == SW_OK)
            of_a_sample += 1.0 / (double)info.batch;
    }
    if (status == SW_OK)
        *out = (uint64_t)ceil((double)steps / of_a_sample);
    sw_evolution_destroy(drawn);
    return status;
}

/* Adds the results of a second population to the first: its best, sums and maxima. */
static void add_found(found *sum, const found *more)
{
    found all = *more;
    sw_genome_destroy(sum->genome);
    all.steps += sum->steps;
    all.mutants += sum->mutants;
    all.refused += sum->refused;
    all.compared += sum->compared;
    all.differ += sum->differ;
    all.over += sum->over;
    all.gap_ns = sum->gap_ns > all.gap_ns ? sum->gap_ns : all.gap_ns;
    all.peak_bytes = sum->peak_bytes > all.peak_bytes ? sum->peak_bytes : all.peak_bytes;
    *sum = all;
}

/* One population from its beginning; finalists (or NULL): room for the fittest genomes of its
 * last generation, all different, at most n. */
static sw_status run_population(const search_data *d, sw_exec *exec,
                                const sw_evolution_opts *opts, uint64_t generations,
                                const char *name, sw_genome **finalists, uint32_t *n,
                                found *out)
{
    sw_evolution *evolution;
    SW_TRY(sw_evolution_create(&evolution, exec, opts));
    sw_status status = go(d, evolution, generations, name, out);
    if (status == SW_OK && finalists != NULL)
        status = take_finalists(evolution, finalists, n);
    sw_evolution_destroy(evolution);
    return status;
}

/* Half of the steps for generations, and half for the fittest, which begin again: so the last
 * choice is between nets that were trained from scratch, as it is for random ones. */
static sw_status search(const search_data *d, sw_exec *exec, uint64_t seed, found *out)
{
    const evolve_bench_opts *o = d->opts;
    const uint64_t generations = (uint64_t)o->generations / 2;
    sw_genome *finalists[FINALISTS] = {NULL};
    uint32_t n =
        (uint32_t)o->population / 2 < FINALISTS ? (uint32_t)o->population / 2 : FINALISTS;
    sw_evolution_opts opts = opts_of(d, seed, (uint64_t)o->samples);
    found second = {.price = {.size = sizeof second.price}};
    sw_status status = run_population(d, exec, &opts, generations > 0 ? generations : 1,
                                      "search", finalists, &n, out);
    if (status == SW_OK) {
        opts = opts_of(d, seed, (uint64_t)(o->samples * o->generations));
        opts.first = (const sw_genome *const *)finalists;
        opts.n_first = opts.population = n;
        status = run_population(d, exec, &opts, 1, "finalists", NULL, NULL, &second);
    }
    if (status == SW_OK)
        add_found(out, &second);
    for (uint32_t i = 0; i < FINALISTS; i++)
        sw_genome_destroy(finalists[i]);
    return status;
}

/* steps: of random nets, in all; 0: a search. */
static sw_status evolve_in(const search_data *d, sw_exec *exec, uint64_t seed, uint64_t steps,
                           found *out)
{
    uint64_t samples = 0;
    if (steps == 0)
        return search(d, exec, seed, out);
    SW_TRY(samples_for(d, exec, seed, steps, &samples));
    const sw_evolution_opts opts = opts_of(d, seed, samples);
    return run_population(d, exec, &opts, 1, "random", NULL, NULL, out);
}

static sw_status evolve_once(const search_data *d, uint64_t seed, uint64_t steps, found *out)
{
    const evolve_bench_opts *o = d->opts;
    sw_budget *budget;
    sw_exec *exec = NULL;
    *out = (found){.price = {.size = sizeof out->price}};
    SW_TRY(sw_budget_create(&budget, o->budget));
    const sw_exec_opts with = {
        .size = sizeof with, .threads = (int)o->common.threads, .budget = budget};
    sw_status status = sw_exec_create(&exec, &with);
    if (status == SW_OK)
        status = evolve_in(d, exec, seed, steps, out);
    cli_progress("%s", "");
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return status;
}

/* From scratch, on the whole training part; share of the test part that is right. */
static sw_status train_once(const search_data *d, const found *f, uint64_t seed, double *share)
{
    const sw_exec_opts with = {.size = sizeof with, .threads = (int)d->opts->common.threads};
    int64_t right = 0, rows = 1;
    trial t = {0};
    sw_exec *exec;
    SW_TRY(sw_exec_create(&exec, &with));
    sw_status status = trial_open(&t, exec, NULL, f->genome, &d->net, seed);
    for (int64_t k = 0; k < d->opts->epochs && status == SW_OK; k++)
        status = trial_epoch(&t, d->all, (uint64_t)k, NULL, NULL);
    if (status == SW_OK)
        status = trial_test(&t, d->test, &right, &rows);
    trial_close(&t);
    sw_exec_destroy(exec);
    *share = (double)right / (double)rows;
    return status;
}

/* The mean of some first values. */
static sw_status train_again(const search_data *d, const found *f, double *share)
{
    double sum = 0.0, one = 0.0;
    for (int64_t i = 1; i <= d->opts->repeats; i++) {
        SW_TRY(train_once(d, f, (uint64_t)i, &one));
        sum += one;
        if (!d->opts->common.quiet)
            cli_progress("from scratch: %" PRId64 " of %" PRId64, i, d->opts->repeats);
    }
    cli_progress("%s", "");
    *share = sum / (double)d->opts->repeats;
    return SW_OK;
}

/* ---- the cases --------------------------------------------------------------------------- */

sw_status evolve_bench_gaps(const evolve_out *out)
{
    search_data d = {.opts = out->opts};
    found f = {.genome = NULL};
    sw_status status = open_data(&d);
    const uint64_t start = cli_clock_ns();
    if (status == SW_OK)
        status = evolve_once(&d, 1, 0, &f);
    if (status == SW_OK) {
        evolve_title(out, "gaps", "a search, selection and mutation included");
        evolve_number(out, "longest_gap_ms", "longest pause of two batches",
                      (double)f.gap_ns / 1e6, "ms");
        evolve_number(out, "seconds", "the search", (double)(cli_clock_ns() - start) / 1e9,
                      "s");
        evolve_number(out, "steps", "steps", (double)f.steps, "");
        evolve_number(out, "mutants", "mutants priced", (double)f.mutants, "");
        evolve_number(out, "peak_bytes", "most bytes of the population", (double)f.peak_bytes,
                      "");
        evolve_end(out);
    }
    sw_genome_destroy(f.genome);
    close_data(&d);
    return status;
}

static void put_found(sw_json *json, const char *key, const found *f, double share)
{
    sw_json_open(json, key, '{');
    sw_json_put_f64(json, "validation_accuracy", f->accuracy);
    sw_json_put_f64(json, "test_accuracy", share);
    sw_json_put_u64(json, "parameters", f->price.parameters);
    sw_json_put_u64(json, "predicted_bytes", f->price.peak_bytes);
    sw_json_put_u64(json, "steps", f->steps);
    sw_json_put_u64(json, "refused", f->refused);
    sw_json_put_u64(json, "compared", f->compared);
    sw_json_put_u64(json, "differ", f->differ);
    sw_json_put_u64(json, "over", f->over);
    sw_json_put_u64(json, "population_peak_bytes", f->peak_bytes);
    sw_json_put_u64(json, "longest_gap_ns", f->gap_ns);
    sw_json_end(json);
}

static void print_found(uint64_t seed, const char *name, const found *f, double share)
{
    printf("%4" PRIu64 " %-8s %9.2f %% %9.2f %% %10s %10s %10s %9s %7s\n", seed, name,
           100.0 * f->accuracy, 100.0 * share, cli_digits(f->price.parameters).text,
           cli_bytes(f->price.peak_bytes).text, cli_bytes(f->peak_bytes).text,
           cli_digits(f->steps).text, f->differ + f->over > 0 ? "no" : "yes");
    cli_flush();
}

/* Returns the two test accuracies. */
static sw_status compare(const evolve_out *out, const search_data *d, uint64_t seed,
                         double share[2])
{
    static const char *const arms[] = {"evolved", "random"};
    char key[32];
    snprintf(key, sizeof key, "seed_%" PRIu64, seed);
    if (out->json != NULL)
        sw_json_open(out->json, key, '{');
    uint64_t steps = 0; /* the search comes first */
    for (int arm = 0; arm < 2; arm++) {
        found f;
        sw_status status = evolve_once(d, seed, steps, &f);
        steps = f.steps;
        if (status == SW_OK)
            status = train_again(d, &f, &share[arm]);
        if (status == SW_OK && out->json != NULL)
            put_found(out->json, arms[arm], &f, share[arm]);
        else if (status == SW_OK)
            print_found(seed, arms[arm], &f, share[arm]);
        sw_genome_destroy(f.genome);
        SW_TRY(status);
    }
    if (out->json != NULL)
        sw_json_end(out->json);
    return SW_OK;
}

static void say_search(const evolve_out *out)
{
    const evolve_bench_opts *o = out->opts;
    if (out->json != NULL) {
        sw_json_open(out->json, "search", '{');
        return;
    }
    printf("\n%s: %" PRId64 " members under %s; %" PRId64 " generations of %" PRId64
           " samples (half of them, then the fittest from scratch), or draws with as many "
           "steps in "
           "all; the best then %" PRId64 " epochs from scratch, and tested (mean of %" PRId64
           ")\n",
           o->data != NULL ? o->data : "synthetic", o->population, cli_bytes(o->budget).text,
           o->generations, o->samples, o->epochs, o->repeats);
    printf("%4s %-8s %11s %11s %10s %10s %10s %9s %7s\n", "seed", "", "validation", "test",
           "parameters", "bytes", "population", "steps", "as said");
}

sw_status evolve_bench_search(const evolve_out *out)
{
    const int64_t n = out->opts->seeds;
    search_data d = {.opts = out->opts};
    double sum[2] = {0.0, 0.0};
    int64_t wins = 0;
    sw_status status = open_data(&d);
    if (status == SW_OK)
        say_search(out);
    for (int64_t i = 1; i <= n && status == SW_OK; i++) {
        double share[2];
        status = compare(out, &d, (uint64_t)i, share);
        if (status == SW_OK) {
            wins += share[0] > share[1];
            sum[0] += share[0];
            sum[1] += share[1];
        }
    }
    if (status == SW_OK) {
        evolve_number(out, "evolved_mean", "evolved, mean", 100.0 * sum[0] / (double)n, "%");
        evolve_number(out, "random_mean", "random, mean", 100.0 * sum[1] / (double)n, "%");
        evolve_number(out, "wins", "seeds that evolved won", (double)wins, "");
        evolve_end(out);
    }
    close_data(&d);
    return status;
}
