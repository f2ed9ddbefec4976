/* Bytes of a search: predicted, limited, given back. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include "tests/evolve/evolution_scene.h"

SW_TESTS("evolution memory")

/* The bytes that creation under a budget of 64 bytes asks for. */
static size_t least_of(const sw_evolution_opts *opts)
{
    sw_evolution *e = NULL;
    REFUSED(sw_evolution_create(&e, evo_exec(1, made_budget(64)), opts), SW_NOMEM, "needs");
    const char *at = strstr(sw_last_error(), "needs ");
    return at != NULL ? (size_t)sw_number_of(at + 6) : 0;
}

/* With the least budget a search goes on to the end; with 64 bytes less there is none. */
SW_TEST("the least budget is enough, and less is refused")
{
    const evo_data data = evo_digits(128, 32);
    for (int files = 0; files < 2; files++)
        for (int threads = 1; threads <= 2; threads++) {
            if (!sw_tests_full() && threads != 2 - files)
                continue;
            sw_evolution *e = NULL;
            const sw_evolution_opts opts =
                EVO_OPTS(&data, .dir = files ? evo_folder() : NULL, .samples = 72);
            const size_t least = least_of(&opts); /* of any number of threads */
            CU_ASSERT_FATAL(least > 10000);
            sw_exec *less = evo_exec(threads, made_budget(least - 64));
            REFUSED(sw_evolution_create(&e, less, &opts), SW_NOMEM, "raise the budget by 64");
            sw_budget *budget = made_budget(least);
            e = evo_evolution(evo_exec(threads, budget), &opts);
            evo_run(e, UINT64_MAX);
            sw_evolution_memory used = SW_OPTS(sw_evolution_memory);
            OK(sw_evolution_used(e, &used));
            CU_ASSERT(used.peak_bytes <= least);
            CU_ASSERT_EQUAL(used.bytes, sw_budget_used(budget));
            sw_note("%s, %d threads: %zu of %zu bytes, %u resting", files ? "files" : "memory",
                    threads, used.peak_bytes, least, used.resting);
        }
}

/* Genomes are refused, and no candidate is ever denied memory; what was measured is what was
 * predicted, to the byte, for all of them. */
SW_TEST("predictions are exact, and no one is denied memory")
{
    const evo_data data = evo_digits(128, 32);
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    sw_evolution_memory used = SW_OPTS(sw_evolution_memory);
    uint32_t looked = 0;
    const sw_evolution_opts opts =
        EVO_OPTS(&data, .dir = evo_folder(), .samples = 72,
                 .trainings = sw_tests_full() ? 100 : 16, .workers = 5);
    const size_t limit = least_of(&opts) * 5 / 4;
    sw_budget *budget = made_budget(limit);
    sw_exec *exec = evo_exec(2, budget);
    sw_evolution *e = evo_evolution(exec, &opts);
    while (p.what != SW_EVOLVE_ENDED) {
        if (!OK(sw_evolution_advance(e, &p)))
            return;
        OK(sw_evolution_used(e, &used));
        CU_ASSERT_FATAL(used.peak_bytes <= limit && used.bytes == sw_budget_used(budget));
        if (p.what != SW_EVOLVE_EVALUATED)
            continue;
        const sw_candidate c = evo_member(e, p.candidate);
        CU_ASSERT_EQUAL(c.measured_bytes, c.price->peak_bytes);
        CU_ASSERT(c.price->peak_bytes <= limit);
        sw_price price = SW_OPTS(sw_price);
        OK(sw_genome_price(c.genome, exec, NULL, SW_U8, &price));
        CU_ASSERT_EQUAL(price.model_bytes, c.price->model_bytes);
        CU_ASSERT_EQUAL(price.batch_bytes, c.price->batch_bytes);
        CU_ASSERT(price.arena_bytes <= c.price->arena_bytes);
        CU_ASSERT_EQUAL(price.operations, c.price->operations);
        looked++;
    }
    CU_ASSERT(looked >= 40 && p.refused > 0);
    sw_note("%d of %d genomes refused, peak %zu of %zu bytes", (int)p.refused, (int)p.mutants,
            used.peak_bytes, limit);
}

/* Without files states rest in the budget too, and nets grow: whatever the budget above the
 * least, the workers and the threads, no call is refused memory. */
SW_TEST("states at rest make room")
{
    const evo_data data = evo_digits(128, 32);
    const sw_mutation grow = {.kind = SW_MUTATE_GROW, .probability = 0.7, .high = 0.6};
    sw_dice dice = {5};
    const int n = sw_tests_full() ? 200 : 16;
    for (int k = 0; k < n; k++) {
        sw_evolution_opts opts =
            EVO_OPTS(&data, .samples = 72, .trainings = 10, .seed = (uint64_t)k + 1,
                     .workers = 1 + (uint32_t)sw_dice_below(&dice, 5), .fresh = 0.3);
        if (k % 3 > 0) {
            opts.mutations = &grow;
            opts.n_mutations = 1;
            opts.space = evo_dense_space();
        }
        const size_t least = least_of(&opts);
        sw_budget *budget = made_budget(least + sw_dice_below(&dice, 3 * least));
        sw_evolution *e = evo_evolution(evo_exec(1 + k % 4, budget), &opts);
        sw_evolution_memory used = SW_OPTS(sw_evolution_memory);
        evo_run(e, UINT64_MAX);
        OK(sw_evolution_used(e, &used));
        CU_ASSERT(used.peak_bytes <= sw_budget_limit(budget));
        sw_candidate best = SW_OPTS(sw_candidate);
        sw_net *made = NULL;
        OK(sw_evolution_best(e, &best));
        OK(sw_net_copy(&made, e, UINT32_MAX));
        sw_net_destroy(made);
    }
}

/* A member of that genome trained alone, with one thread, under a budget of so many bytes. */
static sw_status train_alone(const sw_genome *genome, const evo_data *data, size_t bytes)
{
    const sw_feed_opts feed_opts =
        SW_OPTS(sw_feed_opts, .batch = genome->batch, .shuffle = 1, .drop_last = 1);
    sw_budget *budget = NULL;
    sw_exec *exec = NULL;
    sw_net *made = NULL;
    sw_feed *feed = NULL;
    sw_members *group = NULL;
    sw_member member;
    OK(sw_budget_create(&budget, bytes));
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .budget = budget)));
    OK(sw_net_create(&made, genome, NULL));
    OK(sw_feed_create(&feed, data->train, &feed_opts));
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = sw_net_model(made), .fn = sw_net_step, .user = made);
    OK(sw_members_create(&group, exec, &opts));
    sw_status status = sw_member_new(&member, group, 3);
    for (uint32_t step = 0; step < 4 && status == SW_OK; step++) {
        status = sw_members_run(group, &SW_OPTS(sw_members_args, .members = &member, .n = 1,
                                                .mode = SW_TRAIN, .feed = feed));
    }
    sw_members_destroy(group);
    sw_feed_destroy(feed);
    sw_net_destroy(made);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return status;
}

/* The predicted bytes are enough for the candidate alone, and 64 less are not. */
SW_TEST("a prediction is the least budget of a candidate alone")
{
    const evo_data data = evo_digits(128, 32);
    const sw_evolution_opts opts = EVO_OPTS(&data, .samples = 72);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    evo_run(e, UINT64_MAX);
    for (uint32_t i = 0; i < sw_evolution_count(e); i++) {
        const sw_candidate c = evo_member(e, i);
        OK(train_alone(c.genome, &data, c.price->peak_bytes));
        REFUSED(train_alone(c.genome, &data, c.price->peak_bytes - 64), SW_NOMEM, "");
    }
}

/* A candidate's peak is below candidate_bytes, whatever mutations would like, growth too. */
SW_TEST("candidates have a hard limit")
{
    const evo_data data = evo_digits(128, 32);
    const sw_mutation grow[] = {{.kind = SW_MUTATE_GROW, .probability = 0.8},
                                {.kind = SW_MUTATE_BATCH, .probability = 0.3}};
    size_t largest = 0;
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    sw_evolution_opts opts =
        EVO_OPTS(&data, .samples = 72, .mutations = grow, .n_mutations = 2, .trainings = 12,
                 .space = evo_dense_space(), .candidate_bytes = 64);
    sw_evolution *e = NULL;
    REFUSED(sw_evolution_create(&e, evo_exec(1, NULL), &opts), SW_NOMEM, "at least");
    opts.candidate_bytes = 200000;
    e = evo_evolution(evo_exec(1, NULL), &opts);
    while (p.what != SW_EVOLVE_ENDED)
        if (!OK(sw_evolution_advance(e, &p)))
            return;
    for (uint32_t i = 0; i < sw_evolution_count(e); i++) {
        const sw_candidate c = evo_member(e, i);
        CU_ASSERT(c.price->peak_bytes <= opts.candidate_bytes);
        largest = c.price->peak_bytes > largest ? c.price->peak_bytes : largest;
    }
    CU_ASSERT(p.refused > 0);
    SW_CHECK(largest > opts.candidate_bytes / 2, "%zu", largest);
    sw_note("largest %zu of %zu bytes", largest, opts.candidate_bytes);
}

SW_TEST("everything is given back")
{
    const evo_data data = evo_digits(128, 32);
    for (int files = 0; files < 2; files++) {
        sw_evolution *e = NULL;
        const sw_evolution_opts opts =
            EVO_OPTS(&data, .dir = files ? evo_folder() : NULL, .samples = 72);
        sw_budget *budget = made_budget(64 << 20);
        sw_exec *exec = evo_exec(1, budget);
        const size_t before = sw_budget_used(budget);
        OK(sw_evolution_create(&e, exec, &opts));
        evo_run(e, 10);
        sw_evolution_memory used = SW_OPTS(sw_evolution_memory);
        OK(sw_evolution_used(e, &used));
        CU_ASSERT(used.peak_bytes > 10000);
        sw_evolution_destroy(e);
        CU_ASSERT_EQUAL(sw_budget_used(budget), before);
    }
}

/* A candidate that is over leaves its genome and its numbers: some ten kilobytes. */
SW_TEST("candidates leave little")
{
    const evo_data data = evo_digits(128, 32);
    const sw_evolution_opts opts =
        EVO_OPTS(&data, .samples = 36, .candidate_bytes = 300000, .dir = evo_folder(),
                 .trainings = sw_tests_full() ? 400 : 60);
    sw_evolution *e = evo_evolution(evo_exec(1, made_budget(4 << 20)), &opts);
    size_t heap[2] = {0};
    uint32_t n[2];
    for (int half = 0; half < 2; half++) {
        evo_run(e, half == 0 ? opts.trainings : 2 * opts.trainings);
        for (int k = 0; k < SW_HEAP_KINDS; k++) {
            sw_heap_stats stats;
            sw_heap_read((sw_heap)k, &stats);
            heap[half] += stats.bytes;
        }
        n[half] = sw_evolution_count(e);
    }
    const size_t each = (heap[1] - heap[0]) / (n[1] - n[0]);
    SW_CHECK(heap[1] < heap[0] || each < 30000, "%zu bytes each", each);
    sw_note("%u candidates, %zu bytes each", n[1], each);
}
