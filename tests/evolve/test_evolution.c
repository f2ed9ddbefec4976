/* The search loop over real nets. */
#include "runtime/population/evolve/evolution.h"
#include "tests/evolve/evolution_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("evolution")

/* ---- candidates -------------------------------------------------------------------------- */

/* Rungs have their samples, candidates follow from older ones, nothing takes other bytes than
 * predicted, and the answer is the best mean. */
SW_TEST("candidates are trained rung by rung")
{
    const evo_data data = evo_digits(256, 64);
    const sw_evolution_opts opts = EVO_OPTS(&data, .trainings = 8, .looks = 2);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    uint64_t ended = 0, looks = 0, children = 0;
    while (p.what != SW_EVOLVE_ENDED) {
        CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
        CU_ASSERT(p.done <= p.all && p.what != SW_EVOLVE_STOPPED);
        if (p.what != SW_EVOLVE_EVALUATED)
            continue;
        const sw_candidate c = evo_member(e, p.candidate);
        const uint64_t samples = opts.samples / (c.rung == 0 ? 9 : c.rung == 1 ? 3 : 1);
        const uint64_t steps = samples / (uint64_t)c.genome->batch;
        CU_ASSERT_EQUAL(c.steps, steps > 0 ? steps : 1);
        CU_ASSERT(c.invalid || (isfinite(c.fitness) && isfinite(c.loss)));
        CU_ASSERT(c.invalid || c.fitness == c.accuracy - 1e-6 * c.loss);
        CU_ASSERT_DOUBLE_EQUAL(c.error, sqrt(c.accuracy * (1 - c.accuracy) / 64), 1e-12);
        CU_ASSERT_EQUAL(c.measured_bytes, c.price->peak_bytes);
        CU_ASSERT(c.parents[0] < c.id && c.parents[1] == 0 && !c.training);
        CU_ASSERT_EQUAL(c.look, c.born > 0 && c.rung == 2 && c.parents[0] > 0 &&
                                    evo_member(e, (uint32_t)c.parents[0] - 1).looks > 1);
        looks += (uint64_t)c.look;
        children += c.rung == 0 && c.parents[0] > 0;
        CU_ASSERT_EQUAL(p.generation, ++ended);
    }
    CU_ASSERT(looks == 2 && children > 4);
    sw_candidate best = SW_OPTS(sw_candidate);
    OK(sw_evolution_best(e, &best));
    CU_ASSERT(best.looks == 2 && best.rung == 2);
    for (uint32_t i = 0; i < sw_evolution_count(e); i++)
        CU_ASSERT(evo_member(e, i).looks < 2 || evo_member(e, i).mean <= best.mean);
    sw_note("best %.3f of %d, gap %.1f ms", best.mean, (int)sw_evolution_count(e),
            (double)p.longest_gap_ns / 1e6);
    OK(sw_evolution_advance(e, &p)); /* ended stays ended */
    CU_ASSERT_EQUAL(p.what, SW_EVOLVE_ENDED);
}

/* Numbers are those of a plain run of the net that is kept, and a second look begins with other
 * weights. */
SW_TEST("numbers are those of the net")
{
    const evo_data data = evo_digits(256, 64);
    const sw_evolution_opts opts = EVO_OPTS(&data);
    sw_exec *exec = evo_exec(1, NULL);
    sw_evolution *e = evo_evolution(exec, &opts);
    const sw_loader_opts loader_opts = SW_OPTS(sw_loader_opts, .batch = 64, .inline_fill = 1);
    sw_loader *loader = NULL;
    const sw_array *inputs;
    int n, looked = 0;
    evo_run(e, 9);
    OK(sw_loader_create(&loader, data.validation, &loader_opts));
    for (uint32_t i = 0; i < sw_evolution_count(e); i++) {
        const sw_candidate c = evo_member(e, i);
        sw_net *made = NULL;
        if (c.training || c.rung < 0)
            continue;
        if (sw_net_copy(&made, e, i) != SW_OK) {
            CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "is not kept"));
            continue;
        }
        looked++;
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
    CU_ASSERT(looked > 3);
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
    evo_run(e, UINT64_MAX);
    sum = evo_sum(e);
    sw_evolution_destroy(e);
    sw_exec_destroy(exec);
    sw_budget_destroy(limit);
    return sum;
}

/* Threads, files and budgets that refuse no one change no bit; another seed does, and
 * another number of workers too. */
SW_TEST("bits depend on the options alone")
{
    const evo_data data = evo_digits(256, 64);
    for (int kind = 0; kind < SW_SEARCH_KINDS; kind++) {
        sw_evolution_opts opts = EVO_OPTS(&data, .search = (sw_search_kind)kind);
        const uint64_t sum = sum_of_run(&opts, 1, 0);
        CU_ASSERT_EQUAL(sum_of_run(&opts, 1, 0), sum);
        CU_ASSERT_EQUAL(sum_of_run(&opts, 2, 0), sum);
        CU_ASSERT_EQUAL(sum_of_run(&opts, 2, 64 << 20), sum);
        opts.dir = evo_folder();
        CU_ASSERT_EQUAL(sum_of_run(&opts, 5, 0), sum);
        opts.dir = NULL;
        opts.workers = 3;
        CU_ASSERT_NOT_EQUAL(sum_of_run(&opts, 1, 0), sum);
        opts.workers = 0;
        opts.seed++;
        CU_ASSERT_NOT_EQUAL(sum_of_run(&opts, 1, 0), sum);
    }
}

/* Where states have no room they end, and some genomes are refused: still the same for any
 * number of threads. */
SW_TEST("a tight budget has the same bits for any number of threads")
{
    const evo_data data = evo_digits(256, 64);
    sw_evolution_opts opts = EVO_OPTS(&data);
    for (int files = 0; files < 2; files++) {
        uint64_t tight = 0;
        for (int threads = 1; threads <= 3; threads++) {
            opts.dir = files ? evo_folder() : NULL;
            const uint64_t its = sum_of_run(&opts, threads, 250000);
            CU_ASSERT(threads == 1 || its == tight);
            tight = its;
        }
    }
}

/* ---- fitness and parents of one's own ---------------------------------------------------- */

static double by_parameters(const sw_candidate *c, void *user)
{
    ++*(int *)user;
    return -fabs((double)c->price->parameters - 700);
}

/* The fittest at the highest rung is the answer. */
SW_TEST("fitness decides")
{
    const evo_data data = evo_digits(128, 32);
    int calls = 0;
    const sw_fitness fitness = {
        .kind = SW_FITNESS_CUSTOM, .factor = 2, .fn = by_parameters, .user = &calls};
    const sw_evolution_opts opts = EVO_OPTS(&data, .fitness = &fitness, .n_fitness = 1,
                                            .samples = 36, .trainings = 20, .fresh = -1);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    double first = -INFINITY, most = -INFINITY;
    while (p.what != SW_EVOLVE_ENDED) {
        CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
        if (p.what != SW_EVOLVE_EVALUATED)
            continue;
        const sw_candidate c = evo_member(e, p.candidate);
        CU_ASSERT_EQUAL(c.fitness, -2 * fabs((double)c.price->parameters - 700));
        first = c.id <= 6 ? fmax(first, c.fitness) : first;
        most = fmax(most, c.rung == 2 ? c.fitness : most);
    }
    sw_candidate best = SW_OPTS(sw_candidate);
    OK(sw_evolution_best(e, &best));
    CU_ASSERT(best.fitness == most && best.mean == most && most >= first);
    CU_ASSERT_EQUAL(calls, (int)p.generation);
}

static uint32_t second(sw_evolution *e, uint64_t seed, void *user)
{
    *(uint64_t *)user += seed != 0;
    return sw_evolution_count(e) % 3 == 0 ? UINT32_MAX : 1;
}

SW_TEST("parents may be the caller's choice")
{
    const evo_data data = evo_digits(128, 32);
    uint64_t calls = 0;
    const sw_evolution_opts opts = EVO_OPTS(&data, .samples = 36, .fresh = -1, .start = 2,
                                            .parent = second, .parent_user = &calls);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    evo_run(e, UINT64_MAX);
    for (uint32_t i = 2; i < sw_evolution_count(e); i++) {
        const sw_candidate c = evo_member(e, i);
        CU_ASSERT(c.look || c.parents[0] == (i % 3 == 0 ? 0 : 2));
    }
    CU_ASSERT(calls > 3);
}

/* A search that the program trains: two that tell the same ask the same, the order of ends may
 * be any, and the best has the best mean. */
SW_TEST("a search can be asked and told")
{
    const evo_data data = evo_digits(128, 32);
    const sw_evolution_opts opts = EVO_OPTS(&data, .samples = 144, .trainings = 9, .looks = 2);
    uint64_t sums[2] = {0};
    for (int k = 0; k < 2; k++) {
        sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
        sw_evolution_job jobs[8], job = SW_OPTS(sw_evolution_job);
        sw_candidate best = SW_OPTS(sw_candidate);
        sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
        sw_dice dice = {3};
        int n = 0, looks = 0;
        double most = -INFINITY;
        do {
            OK(sw_evolution_ask(e, &job));
            if (job.candidate != UINT32_MAX) {
                CU_ASSERT_FATAL(n < 8 && job.samples <= 144 && job.price->peak_bytes > 1000);
                jobs[n++] = job;
                looks += job.look;
                sums[k] = sums[k] * 31 + job.candidate * 8 + (uint64_t)job.rung;
                continue;
            }
            if (n == 0)
                break;
            const uint64_t at = sw_dice_below(&dice, (uint64_t)n);
            const double fitness =
                jobs[at].candidate == 3 ? (double)NAN : -(double)jobs[at].price->parameters;
            most = jobs[at].rung == 2 && fitness > most ? fitness : most;
            OK(sw_evolution_tell(e, jobs[at].candidate, fitness));
            REFUSED(sw_evolution_tell(e, jobs[at].candidate, 0), SW_INVALID, "not asked for");
            jobs[at] = jobs[--n];
        } while (true);
        OK(sw_evolution_best(e, &best));
        CU_ASSERT(looks == 2 && best.looks == 2 && best.mean == most);
        CU_ASSERT(evo_member(e, 3).invalid);
        REFUSED(sw_evolution_advance(e, &p), SW_INVALID, "asked and told");
    }
    CU_ASSERT_EQUAL(sums[0], sums[1]);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    sw_evolution_job job = SW_OPTS(sw_evolution_job);
    evo_run(e, 1);
    REFUSED(sw_evolution_ask(e, &job), SW_INVALID, "by sw_evolution_advance");
    REFUSED(sw_evolution_tell(e, 0, 1), SW_INVALID, "not asked for");
    const sw_evolution_opts with = EVO_OPTS(&data, .dir = evo_folder());
    REFUSED(sw_evolution_ask(evo_evolution(evo_exec(1, NULL), &with), &job), SW_UNSUPPORTED,
            "no dir");
}

/* ---- numbers that are not finite --------------------------------------------------------- */

/* Infinite: what is learnt by it is no number. */
static sw_value bad_loss(sw_ctx *ctx, sw_value logits, sw_value labels, void *user)
{
    const sw_value loss = sw_softmax_ce(ctx, logits, labels);
    return sw_scale_by(ctx, sw_scale_by(ctx, loss, 3e38f), 3e38f);
}

/* Candidates with a loss of their own that becomes infinite are invalid, with the reason: they
 * do not go on, have no children, and are not the answer. */
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
    opts.samples = 72;
    sw_evolution *e = evo_evolution(evo_exec(2, NULL), &opts);
    for (int i = 0; i < 5; i++)
        sw_genome_destroy(made[i]);
    evo_run(e, UINT64_MAX);
    for (uint32_t i = 0; i < sw_evolution_count(e); i++) {
        const sw_candidate c = evo_member(e, i);
        CU_ASSERT_EQUAL(c.invalid, i < 5);
        CU_ASSERT(i >= 5 || strstr(c.why, "loss of training became inf") != NULL);
        CU_ASSERT(i >= 5 || (c.rung == 0 && isnan(c.fitness)));
        CU_ASSERT(c.parents[0] == 0 || c.parents[0] > 5);
    }
    sw_candidate best = SW_OPTS(sw_candidate);
    OK(sw_evolution_best(e, &best));
    CU_ASSERT(!best.invalid && best.looks == 2);
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
    while (p.what != SW_EVOLVE_ENDED && stops < 1000) {
        CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
        if (p.what != SW_EVOLVE_STOPPED)
            continue;
        stops++;
        left = 3;
    }
    CU_ASSERT(stops > 5);
    CU_ASSERT_EQUAL(evo_sum(e), sum);
}

SW_TEST("wrong options are refused")
{
    const evo_data data = evo_digits(64, 32), other = {data.train, NULL};
    sw_dataset *vectors = NULL;
    sw_evolution *e = NULL;
    sw_exec *exec = evo_exec(1, NULL);
    const sw_selection few = {.kind = SW_SELECT_ELITE, .n = 5};
    const sw_fitness bad = {.kind = SW_FITNESS_CUSTOM};
    const sw_evolution_opts good = EVO_OPTS(&data);
    sw_evolution_opts opts = good;
    OK(sw_dataset_vectors(&vectors, 64, 7, 1));
#define CASE_OF(field, value, status, part)                                                    \
    opts = good;                                                                               \
    opts.field = value;                                                                        \
    REFUSED(sw_evolution_create(&e, exec, &opts), status, part)
#define CASE(field, value, part) CASE_OF(field, value, SW_INVALID, part)
#define OLDER(field, value) CASE_OF(field, value, SW_UNSUPPORTED, #field " is no longer used")
    CASE(train, NULL, "data set");
    CASE(validation, other.validation, "data set");
    CASE(validation, vectors, "same fields");
    CASE(n_first, 1, "list");
    CASE(validation_samples, 33, "33");
    CASE(dir, "", "dir");
    CASE(search, (sw_search_kind)3, "the search 3");
    CASE(rungs, 7, "rungs");
    CASE(eta, 1, "eta");
    CASE(workers, 5000, "workers");
    CASE(looks, 6, "looks");
    CASE(fresh, 1.5, "fresh");
    OLDER(mutate, 0.5);
    OLDER(crossover, 0.5);
    OLDER(generation_ns, 1);
    OLDER(step_ns, 1);
    OLDER(patience, 1);
    opts = good;
    opts.n_selections = 1;
    opts.selections = &few;
    REFUSED(sw_select(NULL, 0, &few, 1, 0, NULL, NULL, NULL), SW_UNSUPPORTED, "are gone");
    REFUSED(sw_pareto(NULL, 0, 0, NULL, NULL), SW_UNSUPPORTED, "one fitness");
    REFUSED(sw_evolution_create(&e, exec, &opts), SW_UNSUPPORTED, "use search or parent");
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
    REFUSED(sw_evolution_best(e, &c), SW_INVALID, "no candidate");
    REFUSED(sw_net_copy(&none, e, UINT32_MAX), SW_INVALID, "no candidate");
    REFUSED(sw_evolution_member(e, 0, &c), SW_INVALID, "below 0");
    REFUSED(sw_evolution_resume(e, &found), SW_INVALID, "no dir");
    REFUSED(sw_evolution_rebuild(e, 1, &none), SW_UNSUPPORTED, "are not rebuilt");
    CU_ASSERT(sw_search_kind_name((sw_search_kind)SW_SEARCH_KINDS) == NULL);
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
        while (status == SW_OK && p.what != SW_EVOLVE_ENDED)
            status = sw_evolution_advance(e, &p);
        sw_evolution_destroy(e);
    }
    sw_exec_destroy(exec);
    return status;
}

/* Each allocation of a short run fails once: the answer is SW_NOMEM, or the run could do
 * without it (plans that are looked for in less memory), and no block is left. */
SW_TEST("no memory is an answer", .full = true)
{
    const evo_data data = evo_digits(64, 16);
    sw_sites sites = {SW_FAULT_MEMORY};
    sw_evolution_opts opts =
        EVO_OPTS(&data, .start = 2, .samples = 36, .trainings = 3, .seed = 9);
    OK(short_run(&opts));
    while (sw_sites_next(&sites))
        (void)SW_AT_SITE(&sites, short_run(&opts));
    CU_ASSERT(sites.failed > sites.k / 2);
}
