/* The evolution loop. */
#include "runtime/population/evolve/evolution.h"
#include "tests/evolve/evolution_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("evolution")

/* ---- generations ------------------------------------------------------------------------- */

/* Each member is trained with its share of samples, evaluated, and follows from parents of the
 * generation before; those that are kept go on. */
SW_TEST("generations follow each other")
{
    const evo_data data = evo_digits(256, 64);
    const sw_evolution_opts opts = EVO_OPTS(&data);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    uint64_t first_of_generation = 1, last_steps = 0, events[4] = {0};
    while (p.generation < 4) {
        CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
        CU_ASSERT_FATAL(p.done <= p.all && p.steps >= last_steps);
        last_steps = p.steps;
        events[p.what]++;
        uint32_t old = 0;
        for (uint32_t i = 0; i < opts.population && p.what == SW_EVOLVE_EVALUATED; i++) {
            const sw_candidate c = evo_member(e, i);
            const uint64_t each = opts.samples / (uint64_t)c.genome->batch;
            CU_ASSERT_EQUAL(p.done, p.all);
            CU_ASSERT(c.born <= p.generation && c.steps >= each && c.steps % each == 0);
            CU_ASSERT(!c.invalid && isfinite(c.fitness) && isfinite(c.loss));
            CU_ASSERT(c.accuracy >= 0 && c.accuracy <= 1 && c.train_accuracy <= 1);
            CU_ASSERT(c.born == 0 || (c.parents[0] > 0 && c.parents[0] < first_of_generation));
            CU_ASSERT_EQUAL(c.measured_bytes, c.price->peak_bytes);
            old += c.born < p.generation;
        }
        if (p.what != SW_EVOLVE_EVALUATED)
            continue;
        CU_ASSERT_EQUAL(old, p.generation > 0 ? 2 : 0); /* the elite */
        first_of_generation = p.generation > 0 ? first_of_generation + 4 : 7;
    }
    CU_ASSERT(events[SW_EVOLVE_EVALUATED] == 4 && events[SW_EVOLVE_GENERATION] == 4);
    CU_ASSERT(events[SW_EVOLVE_STOPPED] == 0 && p.mutants >= 6 + 4 * 4);
    sw_candidate best = SW_OPTS(sw_candidate);
    OK(sw_evolution_best(e, &best));
    CU_ASSERT(best.fitness > 0.2);
    sw_note("best %.3f of %d mutants, gap %.1f ms", best.fitness, (int)p.mutants,
            (double)p.longest_gap_ns / 1e6);
}

/* Selection rounds accuracy to two digits by default; whom sw_evolution_best names had the
 * highest one of all members of all generations, and of equals the highest fitness. Where terms
 * are given fitness alone says it. */
SW_TEST("the best is named by accuracy itself")
{
    const evo_data data = evo_digits(64, 400);
    const sw_fitness plain = {.kind = SW_FITNESS_LOSS};
    sw_exec *exec = evo_exec(1, NULL);
    int differ = 0;
    for (uint64_t seed = sw_tests_full() ? 1 : 7; seed <= 12; seed++) {
        sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
        sw_candidate accurate = {.accuracy = -1}, fit = {.fitness = -1e30};
        sw_evolution_opts opts = EVO_OPTS(&data, .seed = seed, .population = 24);
        opts.samples = 16; /* their accuracies are close */
        opts.fitness = seed == 12 ? &plain : NULL;
        opts.n_fitness = seed == 12;
        sw_evolution *e = evo_evolution(exec, &opts);
        while (p.generation < 2) {
            CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
            for (uint32_t i = 0; i < opts.population && p.what == SW_EVOLVE_EVALUATED; i++) {
                const sw_candidate c = evo_member(e, i);
                if (c.accuracy > accurate.accuracy ||
                    (c.accuracy == accurate.accuracy && c.fitness > accurate.fitness))
                    accurate = c;
                fit = c.fitness > fit.fitness ? c : fit;
            }
        }
        sw_candidate best = SW_OPTS(sw_candidate);
        OK(sw_evolution_best(e, &best));
        const sw_candidate *its = seed == 12 ? &fit : &accurate;
        SW_CHECK(best.accuracy == its->accuracy && best.fitness == its->fitness,
                 "seed %d: member %d has %g, member %d has %g", (int)seed, (int)best.id,
                 best.accuracy, (int)its->id, its->accuracy);
        differ += fit.accuracy < accurate.accuracy;
    }
    SW_CHECK(differ >= 1, "the fittest was the most accurate in all runs");
}

/* A member's numbers are those of a plain run of its net over the samples. */
SW_TEST("numbers are those of the net")
{
    const evo_data data = evo_digits(256, 64);
    const sw_evolution_opts opts = EVO_OPTS(&data);
    sw_exec *exec = evo_exec(1, NULL);
    sw_evolution *e = evo_evolution(exec, &opts);
    const sw_loader_opts loader_opts = SW_OPTS(sw_loader_opts, .batch = 64, .inline_fill = 1);
    sw_loader *loader = NULL;
    const sw_array *inputs;
    int n;
    evo_run(e, 2);
    evo_evaluate(e, UINT64_MAX);
    OK(sw_loader_create(&loader, data.validation, &loader_opts));
    for (uint32_t i = 0; i < opts.population; i++) {
        const sw_candidate c = evo_member(e, i);
        sw_net *made = NULL;
        OK(sw_net_copy(&made, e, i));
        sw_model *model = sw_net_model(made);
        OK(sw_loader_epoch(loader, 0));
        OK(sw_loader_next(loader, &inputs, &n));
        OK(sw_run(exec,
                  &SW_OPTS(sw_run_args, .fn = sw_net_step, .user = made, .models = &model,
                           .n_models = 1, .inputs = inputs, .n_inputs = n, .mode = SW_EVAL)));
        CU_ASSERT_DOUBLE_EQUAL(net_metric(exec, "accuracy"), c.accuracy, 1e-7);
        CU_ASSERT_DOUBLE_EQUAL(net_metric(exec, "loss"), c.loss, 1e-5);
        sw_net_destroy(made);
    }
    sw_loader_destroy(loader);
}

/* ---- the same bits ----------------------------------------------------------------------- */

static uint64_t sum_of_run(const sw_evolution_opts *opts, int threads, size_t budget)
{
    sw_budget *limit = NULL;
    uint64_t sum;
    if (budget > 0)
        OK(sw_budget_create(&limit, budget));
    sw_exec *exec = NULL;
    sw_evolution *e = NULL;
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .threads = threads, .budget = limit)));
    OK(sw_evolution_create(&e, exec, opts));
    evo_evaluate(e, 2);
    sum = evo_sum(e);
    sw_evolution_destroy(e);
    sw_exec_destroy(exec);
    sw_budget_destroy(limit);
    return sum;
}

/* Threads, files, rests and budgets that refuse no one change no bit; another seed does. */
SW_TEST("bits depend on the options alone")
{
    const evo_data data = evo_digits(256, 64);
    sw_evolution_opts opts = EVO_OPTS(&data);
    const uint64_t sum = sum_of_run(&opts, 1, 0);
    CU_ASSERT_EQUAL(sum_of_run(&opts, 1, 0), sum);
    CU_ASSERT_EQUAL(sum_of_run(&opts, 2, 0), sum);
    CU_ASSERT_EQUAL(sum_of_run(&opts, 5, 0), sum);
    CU_ASSERT_EQUAL(sum_of_run(&opts, 2, 64 << 20), sum);
    opts.dir = evo_folder();
    CU_ASSERT_EQUAL(sum_of_run(&opts, 2, 0), sum);
    opts.dir = evo_folder();
    CU_ASSERT_EQUAL(sum_of_run(&opts, 1, 400000), sum);
    for (int files = 0; files < 2; files++) { /* some rest, and some are refused */
        uint64_t tight = 0;
        for (int threads = 1; threads <= 3; threads++) {
            opts.dir = files ? evo_folder() : NULL;
            const uint64_t its = sum_of_run(&opts, threads, files ? 170000 : 330000);
            CU_ASSERT(threads == 1 || its == tight);
            tight = its;
        }
    }
    opts.dir = NULL;
    opts.seed++;
    CU_ASSERT_NOT_EQUAL(sum_of_run(&opts, 1, 0), sum);
}

/* ---- fitness ----------------------------------------------------------------------------- */

static double by_parameters(const sw_candidate *c, void *user)
{
    ++*(int *)user;
    return -fabs((double)c->price->parameters - 700);
}

/* Selection follows the fitness: with elite alone the fittest goes on for ever. */
SW_TEST("fitness decides")
{
    const evo_data data = evo_digits(128, 32);
    int calls = 0;
    const sw_fitness fitness = {
        .kind = SW_FITNESS_CUSTOM, .factor = 2, .fn = by_parameters, .user = &calls};
    const sw_selection elite[2] = {{.kind = SW_SELECT_ELITE, .n = 1, .keep = 1},
                                   {.kind = SW_SELECT_ELITE, .n = 5}};
    double last = -INFINITY;
    const sw_evolution_opts opts =
        EVO_OPTS(&data, .fitness = &fitness, .n_fitness = 1, .selections = elite,
                 .n_selections = 2, .samples = 16);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    for (uint64_t generation = 0; generation < 6; generation++) {
        evo_run(e, generation);
        evo_evaluate(e, UINT64_MAX);
        double most = -INFINITY;
        for (uint32_t i = 0; i < opts.population; i++) {
            const sw_candidate c = evo_member(e, i);
            CU_ASSERT_EQUAL(c.fitness, -2 * fabs((double)c.price->parameters - 700));
            most = c.fitness > most ? c.fitness : most;
        }
        CU_ASSERT(most >= last);
        last = most;
        sw_candidate best = SW_OPTS(sw_candidate);
        OK(sw_evolution_best(e, &best));
        CU_ASSERT_EQUAL(best.fitness, most);
    }
    CU_ASSERT_EQUAL(calls, 6 * 6);
}

/* With two objectives no one of rank 0 is beaten in both. */
SW_TEST("objectives are ranked")
{
    const evo_data data = evo_digits(128, 32);
    const sw_fitness fitness[2] = {{.kind = SW_FITNESS_ACCURACY},
                                   {.kind = SW_FITNESS_PEAK_BYTES, .objective = 1}};
    const sw_evolution_opts opts = EVO_OPTS(&data, .fitness = fitness, .n_fitness = 2);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    evo_run(e, 1);
    evo_evaluate(e, UINT64_MAX);
    uint32_t zero = 0;
    for (uint32_t i = 0; i < opts.population; i++) {
        const sw_candidate c = evo_member(e, i);
        bool beaten = false;
        for (uint32_t k = 0; k < opts.population; k++) {
            const sw_candidate o = evo_member(e, k);
            const bool as_good =
                o.accuracy >= c.accuracy && o.price->peak_bytes <= c.price->peak_bytes;
            beaten |= as_good &&
                      (o.accuracy > c.accuracy || o.price->peak_bytes < c.price->peak_bytes);
        }
        CU_ASSERT_EQUAL(c.rank > 0, beaten);
        CU_ASSERT_EQUAL(c.fitness, c.accuracy);
        zero += c.rank == 0;
    }
    CU_ASSERT(zero > 0);
}

/* ---- numbers that are not finite --------------------------------------------------------- */

/* Infinite: what is learnt by it is no number. */
static sw_value bad_loss(sw_ctx *ctx, sw_value logits, sw_value labels, void *user)
{
    const sw_value loss = sw_softmax_ce(ctx, logits, labels);
    return sw_scale_by(ctx, sw_scale_by(ctx, loss, 3e38f), 3e38f);
}

/* Members with a loss of their own that becomes infinite are invalid, with the reason; the
 * others go on, and those that descend from the first ones begin with weights of their own. */
SW_TEST("infinite losses end no run")
{
    static const sw_task task = {
        .size = sizeof task, .channels = 1, .height = 28, .width = 28, .classes = 10};
    static const sw_named_loss losses[] = {{.name = "bad", .fn = bad_loss}};
    const sw_net_opts net_opts = SW_OPTS(sw_net_opts, .losses = losses, .n_losses = 1);
    const evo_data data = evo_digits(128, 32);
    sw_evolution_opts opts = EVO_OPTS(&data);
    const sw_genome *first[5];
    sw_genome *made[5];
    for (uint64_t i = 0; i < 5; i++) {
        OK(sw_genome_draw(&made[i], opts.space, &task, i));
        strcpy(made[i]->loss, "bad");
        first[i] = made[i];
    }
    opts.net = &net_opts;
    opts.first = first;
    opts.n_first = 5;
    opts.samples = 64;
    sw_evolution *e = evo_evolution(evo_exec(2, NULL), &opts);
    for (int i = 0; i < 5; i++)
        sw_genome_destroy(made[i]);
    evo_evaluate(e, UINT64_MAX);
    for (uint32_t i = 0; i < 6; i++) {
        const sw_candidate c = evo_member(e, i);
        CU_ASSERT_EQUAL(c.invalid, i < 5);
        CU_ASSERT(i == 5 || strstr(c.why, "loss of training became inf") != NULL);
    }
    evo_run(e, 1);
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < 6; i++) {
        const sw_candidate c = evo_member(e, i);
        CU_ASSERT(c.id == 6 || c.born == 1); /* no one invalid is kept */
        fresh += c.parents[0] > 0 && c.parents[0] < 6 && c.steps == 0;
    }
    evo_run(e, 4);
    CU_ASSERT(fresh > 0);
    evo_evaluate(e, UINT64_MAX);
    sw_candidate best = SW_OPTS(sw_candidate);
    OK(sw_evolution_best(e, &best));
    CU_ASSERT_FALSE(best.invalid);
}

static double always_nan(const sw_candidate *c, void *user)
{
    return c->id % 2 == 0 ? (double)NAN : c->accuracy;
}

/* A fitness that is no number makes a member invalid: it is not chosen where another is, and
 * what comes of it begins anew. The run goes on. */
SW_TEST("invalid members are passed over")
{
    const evo_data data = evo_digits(128, 32);
    const sw_fitness fitness = {.kind = SW_FITNESS_CUSTOM, .fn = always_nan};
    const sw_evolution_opts opts =
        EVO_OPTS(&data, .fitness = &fitness, .n_fitness = 1, .samples = 32);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    uint64_t last = 0;
    for (uint64_t generation = 0; generation < 5; generation++) {
        evo_run(e, generation);
        for (uint32_t i = 0; i < 2 && generation > 0; i++)
            CU_ASSERT_EQUAL(evo_member(e, i).id % 2, 1); /* the elite */
        evo_evaluate(e, UINT64_MAX);
        for (uint32_t i = 0; i < opts.population; i++) {
            const sw_candidate c = evo_member(e, i);
            CU_ASSERT_EQUAL(c.invalid, c.id % 2 == 0);
            CU_ASSERT_EQUAL(isnan(c.fitness) != 0, c.invalid);
            CU_ASSERT_EQUAL(c.why != NULL, c.invalid);
            last = c.id > last ? c.id : last;
        }
    }
    CU_ASSERT(last > 20);
}

/* ---- stops and limits -------------------------------------------------------------------- */

static int asked(void *user)
{
    return --*(int *)user == 0;
}

/* A stop is reported at once and loses nothing; the run that goes on ends as one without it. */
SW_TEST("stops are reported, and lose nothing")
{
    const evo_data data = evo_digits(128, 32);
    sw_evolution_opts opts = EVO_OPTS(&data);
    const uint64_t sum = sum_of_run(&opts, 1, 0);
    int left = 4, stops = 0;
    opts.stop = asked;
    opts.stop_user = &left;
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    while (!(p.generation == 2 && p.what == SW_EVOLVE_EVALUATED) && stops < 1000) {
        CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
        if (p.what != SW_EVOLVE_STOPPED)
            continue;
        stops++;
        left = 3;
    }
    CU_ASSERT(stops > 5);
    CU_ASSERT_EQUAL(evo_sum(e), sum);
}

/* Time that is over ends the training of a generation, or of a member that is slow so many
 * steps in a row; all are evaluated all the same. */
SW_TEST("time ends training")
{
    const evo_data data = evo_digits(256, 32);
    sw_evolution_opts opts = EVO_OPTS(&data, .samples = 100000, .generation_ns = 1);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    evo_evaluate(e, UINT64_MAX);
    for (uint32_t i = 0; i < opts.population; i++) {
        const sw_candidate c = evo_member(e, i);
        CU_ASSERT(c.steps < 100 && isfinite(c.accuracy));
    }
    opts.generation_ns = 0;
    opts.step_ns = 1;
    opts.patience = 7;
    e = evo_evolution(evo_exec(1, NULL), &opts);
    evo_evaluate(e, UINT64_MAX);
    for (uint32_t i = 0; i < opts.population; i++) {
        const sw_candidate c = evo_member(e, i);
        CU_ASSERT(c.steps >= 7 && c.steps <= 7 + 20 && c.ns_per_sample > 0);
    }
}

SW_TEST("wrong options are refused")
{
    const evo_data data = evo_digits(64, 32), other = {data.train, NULL};
    sw_dataset *vectors = NULL;
    sw_evolution *e = NULL;
    sw_exec *exec = evo_exec(1, NULL);
    const sw_selection few = {.kind = SW_SELECT_ELITE, .n = 5};
    const sw_selection many = {.kind = SW_SELECT_ELITE, .n = 6, .p = 0.5};
    const sw_fitness bad = {.kind = SW_FITNESS_CUSTOM};
    const sw_evolution_opts good = EVO_OPTS(&data);
    sw_evolution_opts opts = good;
    OK(sw_dataset_vectors(&vectors, 64, 7, 1));
#define CASE(field, value, part)                                                               \
    opts = good;                                                                               \
    opts.field = value;                                                                        \
    REFUSED(sw_evolution_create(&e, exec, &opts), SW_INVALID, part)
    CASE(train, NULL, "data set");
    CASE(validation, other.validation, "data set");
    CASE(validation, vectors, "same fields");
    CASE(population, 5000, "population");
    CASE(mutate, 1.5, "mutate");
    CASE(crossover, (double)NAN, "crossover");
    CASE(n_first, 1, "list");
    CASE(selections, &few, "list");
    CASE(validation_samples, 33, "33");
    CASE(dir, "", "dir");
    opts = good;
    opts.n_selections = 1;
    opts.selections = &few;
    REFUSED(sw_evolution_create(&e, exec, &opts), SW_INVALID, "population of 6 (got 5)");
    opts.selections = &many;
    REFUSED(sw_evolution_create(&e, exec, &opts), SW_INVALID, "tournaments");
    opts = good;
    opts.n_fitness = 1;
    opts.fitness = &bad;
    REFUSED(sw_evolution_create(&e, exec, &opts), SW_INVALID, "fn");
    CU_ASSERT_PTR_NULL(e);
    sw_dataset_destroy(vectors);
    e = evo_evolution(exec, &good);
    sw_candidate c = SW_OPTS(sw_candidate);
    sw_net *none = NULL;
    int found;
    REFUSED(sw_evolution_best(e, &c), SW_INVALID, "no member");
    REFUSED(sw_net_copy(&none, e, UINT32_MAX), SW_INVALID, "no member");
    REFUSED(sw_evolution_member(e, 6, &c), SW_INVALID, "below 6");
    REFUSED(sw_evolution_resume(e, &found), SW_INVALID, "no dir");
    REFUSED(sw_evolution_rebuild(e, 1, &none), SW_UNSUPPORTED, "members are not rebuilt");
}

/* ---- memory that is not there ------------------------------------------------------------ */

static sw_status short_run(void *arg)
{
    const sw_evolution_opts *opts = arg;
    sw_exec *exec;
    sw_evolution *e;
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    SW_TRY(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts)));
    sw_status status = sw_evolution_create(&e, exec, opts);
    if (status == SW_OK) {
        while (status == SW_OK && p.generation < 2)
            status = sw_evolution_advance(e, &p);
        sw_evolution_destroy(e);
    }
    sw_exec_destroy(exec);
    return status;
}

/* Each allocation of a run of two generations fails once: the answer is SW_NOMEM, or the run
 * could do without it (plans that are looked for in less memory), and no block is left. */
SW_TEST("no memory is an answer", .full = true)
{
    const evo_data data = evo_digits(64, 16);
    sw_sites sites = {SW_FAULT_MEMORY};
    sw_evolution_opts opts =
        EVO_OPTS(&data, .population = 2, .samples = 16, .crossover = 0.9, .seed = 9);
    OK(short_run(&opts));
    while (sw_sites_next(&sites))
        (void)SW_AT_SITE(&sites, short_run(&opts));
    CU_ASSERT(sites.failed > sites.k / 2);
}

/* Twenty nets of the default space, with files and a budget: selection, mutation, plans,
 * weights and files of a whole generation lie between two batches. */
SW_TEST("gaps are short", .full = true)
{
    static const sw_task task = {
        .size = sizeof task, .channels = 1, .height = 28, .width = 28, .classes = 10};
    const evo_data data = evo_digits(2000, 200);
    sw_search_space *space = NULL;
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    OK(sw_search_space_default(&space, &task));
    AFTER(sw_search_space_destroy, space);
    sw_budget *budget = made_budget(256 << 20);
    const sw_evolution_opts opts =
        EVO_OPTS(&data, .space = space, .population = 20, .samples = 1280, .dir = evo_folder());
    sw_evolution *e = evo_evolution(evo_exec(2, budget), &opts);
    while (p.generation < 4) {
        const uint64_t begin = sw_clock_ns();
        CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
        if (p.what == SW_EVOLVE_GENERATION)
            sw_note("generation %d: %.1f ms, longest gap %.1f ms, %d mutants, %d refused",
                    (int)p.generation, (double)(sw_clock_ns() - begin) / 1e6,
                    (double)p.longest_gap_ns / 1e6, (int)p.mutants, (int)p.refused);
    }
    CU_ASSERT(p.longest_gap_ns < 2000000000u);
}
