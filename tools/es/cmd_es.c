/* stepwell es: load, plan everything, evolve, test, say what was measured. All refusals come
 * before the first generation. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/exec/exec.h"
#include "tools/es/es.h"
#include "tools/job/job.h"
#include <inttypes.h>
#include <string.h>

/* ---- es opts ----------------------------------------------------------------------------- */

/* The command line of `stepwell es`. */

static const char *const environment_words[] = {"cart-pole", NULL};
static const char *const strategy_words[] = {"nes", "ars", "eggroll", "snes", NULL};
static const char *const shaping_words[] = {"ranks", "standardised", "raw", NULL};
static const char *const noise_words[] = {
    "low-rank",  "iid",          "permuted",      "permuted-in", "permuted-out",
    "sign-flip", "sign-flip-in", "sign-flip-out", "sparse",      "dropout",
    NULL};
static const char *const distribution_words[] = {"normal", "rademacher", "bits", NULL};

/* Options of a job that have no part here: they say how a backward part goes, or how a batch is
 * made, which --population, --slice and --samples do. */
static const char left_out[] =
    "--batch --clip --max-skipped --update --keep-gradients --accumulate --immediate "
    "--checkpoint --augment --no-rebuild --no-recompute --no-chunks --checkpoint-pauses "
    "--bf16-order";

static const char notes[] =
    "A generation evaluates the net --population times, each time with other noise on its "
    "parameters, and forward alone; an estimate of the gradient follows from the fitness (the "
    "loss, or the steps of an episode). No noise is stored: it is a function of seed, "
    "generation, parameter, direction and element, and is made where it is used. Memory "
    "depends on --slice; --population adds 12 bytes an evaluation.\n"
    "Example: stepwell es --data idx:mnist --model lenet5 --population 16384 --samples 2 "
    "--sigma 0.02 --lr 0.004 --schedule cosine --generations 1200 --threads 2\n"
    "Example: stepwell es --environment cart-pole --target 475\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit "
    "the memory, 5 no such device, 130 interrupted. Ctrl-C stops after the current generation "
    "and saves; a second one stops at once.\n"
    "With --json standard output has one object when the run came to its end or was "
    "interrupted, and nothing when it was refused or failed. Its keys: model, device, data, "
    "environment, population, directions, repeats, slice (evaluations of a run), rows (of its "
    "batch), samples, strategy, noise, sigma, optimizer, lr, seed, threads, generations (that "
    "were made), reached (--target), evaluations, not_finite (fitness that was no finite "
    "number), fitness (mean, best, worst, deviation of the last generation); test_loss, "
    "test_accuracy or test_steps (mean of an episode), test_rows; predicted_peak_bytes, "
    "measured_peak_bytes (of a run under noise), inference_peak_bytes (planned, of the same "
    "batch without noise), model_bytes, arena_bytes, data_bytes, total_bytes, "
    "lower_bound_bytes, update_arena_bytes, update_peak_bytes (of the program that updates), "
    "es_bytes (fitness and order), noise_bytes (of the plan: noise that outlives its op), "
    "noise_scratch_bytes (of the op that takes most), evaluations_per_second, wall_ns, "
    "evaluate_ns, update_ns, test_ns, resumed_from_generation, checkpoints, witness. With "
    "several processes also transport, transport_bytes (of each rank, for exchanges) and "
    "ranks: host, runs (of slices), predicted_peak_bytes, measured_peak_bytes, sent_bytes, "
    "waited_ns, transport_resident_bytes (that it takes itself), made_twice (estimates that "
    "might not have been finite) and update_ns (its part of the updates, without waiting) of "
    "each.";

/* Options of the job that are taken; model and data have no default until it is known whether
 * an environment is. */
static int job_table(es_opts *o, cli_option *table)
{
    static char rate[700];
    const job_help help[] = {
        {&o->job.lr, rate},
        {&o->job.budget_bytes,
         "hard limit for model, arena, batch and fitness together (default none)"},
        {&o->job.precision, "f32 alone: noise is made of float32 numbers"}};
    snprintf(rate, sizeof rate,
             "learning rate (default 0.01, cart-pole 0.1, with --optimizer %s)",
             tool_optimizer_rates());
    const int n = job_options_but(&o->job, table, left_out, true, help, 3);
    for (int i = 0; i < n; i++)
        if (table[i].to == (void *)&o->job.model || table[i].to == (void *)&o->job.data)
            table[i].initial = NULL;
    o->job.batch = (cli_list){{0}, 0};
    return n;
}

static int es_table(es_opts *o, cli_option *table)
{
    const cli_option options[] = {
#define ES_ROW(field, name, value, kind, ...)                                                  \
    ES_LINE(field, job., name, value, kind, __VA_ARGS__)
#define ES_OPTION(type, field, name, value, kind, ...)                                         \
    ES_LINE(field, , name, value, kind, __VA_ARGS__)
#define ES_LINE(field, in, name, value, kind, ...)                                             \
    {name, value, kind, &o->in field, __VA_ARGS__},
#include "tools/es/es_options.def"
#undef ES_LINE
    };
    o->sigma = o->sigma_lr = o->in_share = o->out_share = o->target = -1.0;
    const int n = job_table(o, table);
    memcpy(table + n, options, sizeof options);
    return n + (int)(sizeof options / sizeof *options);
}

/* ---- what the parser cannot see ---------------------------------------------------------- */

const char *es_noise(const es_opts *o)
{
    return o->noise != NULL ? o->noise : strcmp(o->strategy, "snes") == 0 ? "iid" : "low-rank";
}

/* ars and snes have a shaping of their own, snes its noise too. */
static int check_noise(const es_opts *o)
{
    const bool snes = strcmp(o->strategy, "snes") == 0, ars = strcmp(o->strategy, "ars") == 0;
    if (o->shaping != NULL && (snes || ars))
        return cli_error(CLI_USAGE,
                         "--shaping has no effect with --strategy %s, which has its own",
                         o->strategy);
    if (snes && strcmp(es_noise(o), "iid") != 0)
        return cli_error(CLI_USAGE, "--strategy snes has --noise iid (got %s)", o->noise);
    if (o->rank > 0 && strcmp(es_noise(o), "low-rank") != 0)
        return cli_error(CLI_USAGE, "--rank has no effect without --noise low-rank");
    for (int i = 0; i < 2; i++) {
        const double share = i == 0 ? o->in_share : o->out_share;
        if (share == 0.0 || share > 1.0)
            return cli_error(CLI_USAGE, "%s must be above 0 and at most 1 (got %g)",
                             i == 0 ? "--in-share" : "--out-share", share);
    }
    if (o->sigma == 0.0)
        return cli_error(CLI_USAGE, "--sigma must be above 0 (got 0)");
    if (o->target == 0.0)
        return cli_error(CLI_USAGE, "--target must be above 0 (got 0)");
    return CLI_GO;
}

int64_t es_directions(const es_opts *o)
{
    return o->population / o->repeats;
}

/* Defaults, and how a generation falls into directions and slices. */
static int check_population(es_opts *o)
{
    const bool given = o->slice > 0;
    if (o->repeats == 0)
        o->repeats = o->no_antithetic ? 1 : 2;
    if (!o->no_antithetic && o->repeats < 2)
        return cli_error(CLI_USAGE, "--repeats must be at least 2: the second evaluation of a "
                                    "direction has the negated noise (--no-antithetic: none "
                                    "has)");
    if (o->population == 0)
        o->population = (o->environment != NULL ? 128 : 1024) / o->repeats * o->repeats;
    if (o->population == 0 || o->population % o->repeats != 0)
        return cli_error(CLI_USAGE,
                         "--population must be a multiple of the %" PRId64
                         " evaluations of a direction, --repeats (got %" PRId64 ")",
                         o->repeats, o->population);
    if (es_directions(o) > (int64_t)1 << 31)
        return cli_error(CLI_USAGE, "--population: at most 2^31 directions (got %" PRId64 ")",
                         es_directions(o));
    if (!given)
        o->slice = o->population <= 1024 ? o->population
                   : o->repeats <= 1024  ? 1024 / o->repeats * o->repeats
                                         : o->repeats;
    if (o->slice > o->population)
        return cli_error(CLI_USAGE,
                         "--slice must be at most --population %" PRId64 " (got %" PRId64 ")",
                         o->population, o->slice);
    if (o->slice % o->repeats != 0)
        return cli_error(CLI_USAGE,
                         "--slice must be a multiple of the %" PRId64
                         " evaluations of a direction, --repeats (got %" PRId64 ")",
                         o->repeats, o->slice);
    if (o->slice > JOB_BATCH_MAX / o->samples)
        return cli_error(CLI_USAGE,
                         "--slice times --samples must be at most %d (got %" PRId64
                         " times %" PRId64 ")",
                         JOB_BATCH_MAX, o->slice, o->samples);
    if (o->top > es_directions(o))
        return cli_error(CLI_USAGE,
                         "--top must be at most the %" PRId64 " directions (got %" PRId64 ")",
                         es_directions(o), o->top);
    return CLI_GO;
}

static int check(es_run *r)
{
    es_opts *o = &r->opts;
    if (o->strategy == NULL)
        o->strategy = o->environment != NULL ? "nes" : "eggroll";
    CLI_TRY(check_noise(o));
    CLI_TRY(check_population(o));
    CLI_TRY(es_files_check(o));
    /* An environment's net is small where nothing is said about it. */
    job_opts *j = &o->job;
    if (j->model == NULL)
        j->model = o->environment != NULL ? "mlp" : "lenet5";
    if (o->environment != NULL && strcmp(j->model, "mlp") == 0 && j->settings.hidden.n == 0)
        j->settings.hidden = (cli_list){{16}, 1};
    if (j->data == NULL)
        j->data = "synthetic";
    if (o->job.lr < 0.0 && o->job.optimizer == NULL)
        o->job.lr = o->environment != NULL ? 0.1 : 0.01;
    if (o->sigma < 0.0)
        o->sigma = o->environment != NULL ? 0.2 : 0.02;
    if (o->test_episodes == 0)
        o->test_episodes = 100;
    if (o->target > 0.0 && o->test_every == 0)
        o->test_every = 10;
    if (o->environment == NULL && o->target > 1.0)
        return cli_error(
            CLI_USAGE, "--target must be a share that is right, above 0 and at most 1 (got %g)",
            o->target);
    CLI_TRY(job_ranks_check(j, o->rank_timeout, ""));
    return job_check(j);
}

static sw_es_opts es_library_opts(const es_run *r)
{
    const es_opts *o = &r->opts;
    return SW_OPTS(
        sw_es_opts, .strategy = o->strategy, .noise = o->noise, .distribution = o->distribution,
        .rank = (int)o->rank, .in_share = o->in_share > 0.0 ? (float)o->in_share : 0.0f,
        .out_share = o->out_share > 0.0 ? (float)o->out_share : 0.0f, .sigma = (float)o->sigma,
        .directions = (uint32_t)es_directions(o), .repeats = (uint32_t)o->repeats,
        .no_antithetic = o->no_antithetic, .slice = (uint32_t)r->slice, .shaping = o->shaping,
        .top = (uint32_t)o->top, .maximise = r->on_environment, .l1 = (float)o->l1,
        .l2 = (float)o->l2, .seed = (uint64_t)o->job.seed,
        .sigma_lr = o->sigma_lr > 0.0 ? (float)o->sigma_lr : 0.0f);
}

/* CLI_GO or an exit status; fills in what follows from the options alone. */
static int es_parse(es_run *r, int argc, char **argv)
{
    static cli_option table[ES_OPTIONS_MAX]; /* a checkpoint names what differs */
    es_opts *o = &r->opts;
    const cli_command command =
        SW_INIT(.name = "es", .usage = "[options]",
                .about = "Train a network by evolution strategies, in the memory of inference.",
                .options = table, .n_options = es_table(o, table), .notes = notes);
    CLI_TRY(cli_parse(&command, argc, argv));
    cli_command_line(r->command, sizeof r->command, argc, argv);
    r->options = table;
    r->n_options = command.n_options;
    o->job.method = JOB_ES;
    CLI_TRY(check(r));
    r->on_environment = o->environment != NULL;
    r->slice = o->slice / o->repeats;
    r->rows = o->slice * o->samples;
    r->sets = o->no_antithetic ? o->repeats : (o->repeats + 1) / 2;
    r->job.opts = &o->job;
    r->job.batch = r->rows;
    r->job.es_opts = es_library_opts(r);
    return CLI_GO;
}

static int es_count(es_run *r)
{
    const es_opts *o = &r->opts;
    const uint64_t each = o->same_samples ? (uint64_t)o->samples
                                          : (uint64_t)(es_directions(o) * r->sets * o->samples);
    r->generations = o->generations > 0 ? (uint64_t)o->generations : 100;
    if (o->job.epochs > 0)
        r->generations = ((uint64_t)r->job.train.n * (uint64_t)o->job.epochs + each - 1) / each;
    if ((uint64_t)o->job.warmup >= r->generations)
        return cli_error(CLI_USAGE,
                         "--warmup must be below the %" PRIu64
                         " generations of this run (got %" PRId64 ")",
                         r->generations, o->job.warmup);
    return CLI_GO;
}

/* ---- cmd es ------------------------------------------------------------------------------ */

/* Memory that a run needs besides its plan: a slice's poles, and a generation's fitness. */
static sw_status make_ready(es_run *r)
{
    SW_TRY(es_batch_open(r));
    SW_TRY(job_note(&r->job, r->job.net.model));
    SW_TRY(sw_model_ready(r->job.net.model, r->job.exec, (uint64_t)r->opts.job.seed));
    if (r->opts.load != NULL)
        SW_TRY(cli_saved(sw_model_load(r->job.net.model, r->opts.load)));
    return es_look_at_plan(r);
}

/* Images and the batch of a run, which may have each of them more than once: its slot, and its
 * pixels as F32. */
static int check_data(const es_run *r)
{
    const job_opts *o = &r->opts.job;
    const size_t limit = o->data_limit > 0 ? o->data_limit : (size_t)1 << 30;
    size_t each = 1, own, batch, all;
    for (int d = 0; d < r->job.train.info.field[0].shape.rank; d++)
        each *= (size_t)r->job.train.info.field[0].shape.dim[d];
    if (!sw_size_mul(each, (size_t)(r->job.train.n + r->job.test.n), &own) ||
        !sw_size_mul(each, (size_t)r->rows * (1 + sizeof(float)), &batch) ||
        !sw_size_add(own, batch, &all))
        own = batch = all = SIZE_MAX;
    if (all <= limit)
        return CLI_GO;
    return cli_error(CLI_NO_FIT,
                     "%s: the images take %zu bytes, and a batch of %" PRId64
                     " of them %zu more; the limit is %zu: --data-limit %zu would do, or make "
                     "them smaller with --resize, or --slice or --samples",
                     o->data, own, r->rows, batch, limit, all);
}

/* Before an image is decoded. */
static int look_at_data(es_run *r)
{
    int status = job_load(&r->job, true);
    if (status == CLI_GO)
        status = check_data(r);
    job_unload(&r->job);
    return status;
}

static int load(es_run *r)
{
    r->opts.job.params = r->opts.load;
    r->job.quiet = r->opts.quiet;
    if (!r->on_environment) {
        CLI_TRY(job_decodes(&r->opts.job) ? look_at_data(r) : CLI_GO);
        CLI_TRY(job_load(&r->job, false));
        return job_refuse_documents(&r->job, "es");
    }
    es_episodes_describe(r);
    const tool_net_opts net = job_net_opts(&r->job);
    return tool_net_accepts(&net) == SW_OK && net.model->forward != NULL
               ? CLI_GO
               : cli_error(CLI_USAGE, "--model %s does not act in an environment",
                           r->opts.job.model);
}

/* Everything up to the first generation. CLI_GO or the exit status. */
static int prepare(es_run *r)
{
    cli_catch_interrupt();
    CLI_TRY(es_ranks_open(r));
    if (r->opts.checkpoint != NULL)
        cli_catch_save();
    CLI_TRY(es_files_writable(&r->opts));
    CLI_TRY(load(r));
    CLI_TRY(es_count(r));
    CLI_TRY(job_open(&r->job));
    r->job.exec->target.ranks = r->ranks; /* before the update is planned: they share it out */
    CLI_TRY(job_check_machine(&r->job, r->opts.witness));
    sw_status made = make_ready(r);
    if (made != SW_OK)
        return cli_library_error(made, made == SW_FORMAT || made == SW_IO);
    /* The plans fit; the fitness of a generation is to do so beside them. */
    const size_t budget = r->opts.job.budget_bytes, needed = es_total_bytes(r);
    if (budget > 0 && needed > budget)
        return cli_error(
            CLI_NO_FIT,
            "does not fit: %zu bytes are needed, %zu of them for the fitness of %" PRId64
            " evaluations; the budget is %zu",
            needed, sw_es_bytes(r->job.es), r->opts.population, budget);
    CLI_TRY(es_resume(r));
    CLI_TRY(es_ranks_agree(r));
    if (cli_interrupted() && r->ranks == NULL)
        return cli_error(CLI_INTERRUPTED,
                         "interrupted before the first generation: no file was written");
    CLI_LIBRARY(es_profile_open(r), false);
    CLI_LIBRARY(es_metrics_open(r), false);
    return CLI_GO;
}

static int run(es_run *r)
{
    const uint64_t start = cli_clock_ns();
    sw_status ran = es_loop(r);
    r->wall_ns = cli_clock_ns() - start;
    cli_progress("%s", "");
    if (ran == SW_OK)
        ran = es_save_last(r);
    const sw_status closed = job_metrics_close(&r->metrics);
    ran = ran == SW_OK ? closed : ran;
    if (ran == SW_OK && r->opts.save != NULL && r->generation > 0)
        ran = job_save_params(&r->opts.job, r->job.net.model, r->opts.save);
    CLI_LIBRARY(ran, false);
    const int status = result_check_witnesses(&r->job, r->measured);
    return es_print(r, cli_interrupted() || r->stopped ? CLI_INTERRUPTED : status);
}

/* Backwards through prepare(). The profile closes last, since the exec writes to it. */
static int close_all(es_run *r, int status)
{
    sw_checkpoint_destroy(r->checkpoint);
    sw_file_drop(r->metrics.file);
    job_close(&r->job);
    es_batch_close(r);
    sw_heap_free(r->found, SW_HEAP_RECORDS, r->found_bytes);
    status = job_profile_close(r->profile, status);
    job_unload(&r->job);
    return status;
}

int tool_es(int argc, char **argv)
{
    static es_run r; /* large */
    job_ranks_one_voice(argc, argv);
    CLI_TRY(es_parse(&r, argc, argv));
    int status = prepare(&r);
    if (status == CLI_GO)
        status = run(&r);
    job_ranks_profile(r.ranks, r.profile, true);
    status = job_ranks_close(r.ranks, r.found != NULL, status);
    return close_all(&r, status);
}
