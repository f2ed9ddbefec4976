/* A candidate of an evolution: its net, its group, its feeds, and what it takes, which is known
 * from plans before it has a byte of tensor memory. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <math.h>
#include <string.h>

/* ---- feeds ------------------------------------------------------------------------------- */

sw_status swi_feed_get(sw_evolution *e, const sw_dataset *dataset, int64_t batch,
                       const sw_feed **out)
{
    void *feeds = e->feeds;
    const bool train = dataset == e->opts.train;
    for (uint32_t i = 0; i < e->n_feeds; i++)
        if (e->feeds[i].dataset == dataset && e->feeds[i].batch == batch) {
            *out = e->feeds[i].feed;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&feeds, SW_HEAP_RECORDS, &e->cap_feeds, e->n_feeds + 1,
                           sizeof *e->feeds));
    e->feeds = feeds;
    const sw_feed_opts opts =
        SW_OPTS(sw_feed_opts, .batch = batch, .shuffle = train, .drop_last = train);
    swi_kept_feed kept = {.dataset = dataset, .batch = batch};
    SW_TRY(sw_feed_create(&kept.feed, dataset, &opts));
    *out = kept.feed;
    e->feeds[e->n_feeds++] = kept;
    return SW_OK;
}

static void mark_feeds(sw_evolution *e, const swi_one *one)
{
    for (uint32_t i = 0; i < e->n_feeds; i++)
        e->feeds[i].used |= e->feeds[i].feed == one->train || e->feeds[i].feed == one->eval;
}

void swi_feeds_sweep(sw_evolution *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_feeds; i++)
        e->feeds[i].used = false;
    for (uint32_t i = 0; i < e->opts.population; i++)
        mark_feeds(e, &e->members[i]);
    for (uint32_t i = 0; i < e->n_feeds; i++) {
        if (e->feeds[i].used)
            e->feeds[n++] = e->feeds[i];
        else
            swi_feed_free(e->feeds[i].feed);
    }
    e->n_feeds = n;
}

void swi_feeds_free(sw_evolution *e)
{
    for (uint32_t i = 0; i < e->n_feeds; i++)
        swi_feed_free(e->feeds[i].feed);
    sw_heap_free(e->feeds, SW_HEAP_RECORDS, e->cap_feeds * sizeof *e->feeds);
    e->feeds = NULL;
    e->n_feeds = e->cap_feeds = 0;
}

/* Of evaluation: not more rows than in training, so that it takes no more; as many as divide
 * the samples, where that is not too few. */
static int64_t eval_rows(const sw_evolution *e, int64_t batch)
{
    const int64_t n = (int64_t)e->opts.validation_samples;
    const int64_t most = batch < n ? batch : n;
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(e->opts.validation, &info);
    for (int64_t rows = most; rows >= 1; rows--)
        if (n % rows == 0)
            return 4 * rows >= most || info.n != n ? rows : most;
    return 1;
}

static sw_status find_feeds(sw_evolution *e, swi_one *one)
{
    const int64_t n = (int64_t)e->opts.validation_samples;
    SW_TRY(swi_feed_get(e, e->opts.train, one->genome->batch, &one->train));
    one->eval_rows = eval_rows(e, one->genome->batch);
    one->eval_all = (uint64_t)((n + one->eval_rows - 1) / one->eval_rows);
    return swi_feed_get(e, e->opts.validation, one->eval_rows, &one->eval);
}

/* ---- what it takes ----------------------------------------------------------------------- */

static sw_status look(const swi_one *one, sw_mode mode, uint32_t variant, sw_plan_info *out)
{
    *out = SW_OPTS(sw_plan_info);
    const sw_members_args args =
        SW_OPTS(sw_members_args, .mode = mode, .variant = variant,
                .feed = mode == SW_TRAIN ? one->train : one->eval, .same_data = 1);
    return sw_members_look(one->group, &args, out);
}

/* The variant of training that averages utility, which has the most; for a member that other
 * one too, and evaluation. */
static sw_status find_price(swi_one *one, bool whole)
{
    sw_plan_info info[3];
    size_t arena = 0, batch = 0;
    const int n = whole ? 3 : 1;
    SW_TRY(look(one, SW_TRAIN, 1, &info[0]));
    if (whole) {
        SW_TRY(look(one, SW_TRAIN, 0, &info[1]));
        SW_TRY(look(one, SW_EVAL, 0, &info[2]));
    }
    for (int i = 0; i < n; i++) {
        arena = info[i].arena_bytes > arena ? info[i].arena_bytes : arena;
        batch = info[i].data_bytes > batch ? info[i].data_bytes : batch;
    }
    const uint64_t operations = info[n > 1].operations;
    one->need = (swi_candidate_need){arena, batch, sw_members_bytes(one->group)};
    one->price =
        SW_OPTS(sw_price, .peak_bytes = arena + batch + one->need.member,
                .model_bytes = one->need.member, .arena_bytes = arena, .batch_bytes = batch,
                .operations = operations,
                .operations_per_sample = (double)operations / (double)one->genome->batch,
                .parameters = swi_genome_parameters(one->genome));
    return SW_OK;
}

static sw_status open_all(sw_evolution *e, swi_one *one, bool whole)
{
    const uint64_t begin = sw_clock_ns();
    SW_TRY(swi_net_create(&one->net, one->genome, &e->net_opts, "sw_evolution"));
    const sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = sw_net_model(one->net),
                                         .fn = sw_net_step, .user = one->net, .threads = 1);
    SW_TRY(sw_members_create(&one->group, e->exec, &opts));
    SW_TRY(find_feeds(e, one));
    SW_TRY(find_price(one, whole));
    one->price.ns = sw_clock_ns() - begin;
    return SW_OK;
}

static sw_status open_one(sw_evolution *e, swi_one *one, bool whole)
{
    if (one->genome->batch > e->n_train)
        SW_FAIL(SW_INVALID,
                "the batch of genome %s must be at most the %lld samples of the training set "
                "(got %lld)",
                one->genome->name, (long long)e->n_train, (long long)one->genome->batch);
    const sw_status status = open_all(e, one, whole);
    if (status != SW_OK)
        swi_one_close(one);
    return status;
}

sw_status swi_one_open(sw_evolution *e, swi_one *one)
{
    return open_one(e, one, true);
}

sw_status swi_one_estimate(sw_evolution *e, swi_one *one)
{
    return open_one(e, one, false);
}

void swi_one_close(swi_one *one)
{
    sw_member_end(one->member);
    swi_members_free(one->group);
    swi_genome_net_free(one->net);
    one->member = (sw_member){.of = NULL};
    one->group = NULL;
    one->net = NULL;
    one->train = one->eval = NULL;
}

void swi_one_begin(swi_one *one)
{
    *one = (swi_one){.fitness = (double)NAN,
                     .order = (double)NAN,
                     .loss = (double)NAN,
                     .accuracy = (double)NAN,
                     .train_accuracy = (double)NAN};
    for (int k = 0; k < SWI_MAX_OBJECTIVES; k++)
        one->objectives[k] = (double)NAN;
    swi_fitness_begin(&one->averages);
}

void swi_one_free(sw_evolution *e, swi_one *one)
{
    swi_one_close(one);
    swi_charged_give(e, one->rest.block, one->rest.bytes, &e->rest_bytes);
    swi_genome_free(one->genome);
    sw_heap_free(one->ops, SW_HEAP_RECORDS, one->ops_cap);
    swi_one_begin(one);
}

sw_candidate swi_one_view(const swi_one *one)
{
    return SW_OPTS(sw_candidate, .id = one->id, .parents = {one->parents[0], one->parents[1]},
                   .born = one->birth.generation, .steps = one->steps, .genome = one->genome,
                   .price = &one->price, .measured_bytes = one->measured,
                   .fitness = one->fitness, .loss = one->loss, .accuracy = one->accuracy,
                   .train_accuracy = one->train_accuracy, .ns_per_sample = one->ns_per_sample,
                   .rank = one->rank, .invalid = one->invalid,
                   .why = one->invalid ? one->why : NULL);
}

uint64_t swi_member_seed(const sw_evolution *e, uint64_t id)
{
    return swi_draw_seed(e->opts.seed ^ 0x6d656d62u /* "memb" */, id);
}
