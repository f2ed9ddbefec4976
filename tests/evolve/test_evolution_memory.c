/* Bytes of an evolution: predicted, limited, given back. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include "tests/evolve/evolution_scene.h"

SW_TESTS("evolution memory")

static sw_budget *budget_of(size_t bytes)
{
    return made_budget(bytes);
}

/* The bytes that creation under a budget of 64 bytes asks for. */
static size_t least_of(const sw_evolution_opts *opts, int threads)
{
    sw_evolution *e = NULL;
    REFUSED(sw_evolution_create(&e, evo_exec(threads, budget_of(64)), opts), SW_NOMEM, "need");
    const char *at = strstr(sw_last_error(), "need ");
    return at != NULL ? (size_t)sw_number_of(at + 5) : 0;
}

/* With the least budget a run goes on to the end; with 64 bytes less there is none. */
SW_TEST("the least budget is enough, and less is refused")
{
    const evo_data data = evo_digits(128, 32);
    for (int files = 0; files < 2; files++)
        for (int threads = 1; threads <= 2; threads++) {
            if (!sw_tests_full() && threads != 2 - files)
                continue;
            sw_evolution *e = NULL;
            const sw_evolution_opts opts =
                EVO_OPTS(&data, .dir = files ? evo_folder() : NULL, .samples = 32);
            const size_t least = least_of(&opts, threads); /* of any number of threads */
            CU_ASSERT_FATAL(least > 10000);
            sw_exec *less = evo_exec(threads, budget_of(least - 64));
            REFUSED(sw_evolution_create(&e, less, &opts), SW_NOMEM, "need");
            sw_budget *budget = budget_of(least);
            e = evo_evolution(evo_exec(threads, budget), &opts);
            evo_run(e, 3);
            sw_evolution_memory used = SW_OPTS(sw_evolution_memory);
            OK(sw_evolution_used(e, &used));
            CU_ASSERT(used.peak_bytes <= least);
            CU_ASSERT_EQUAL(used.bytes, sw_budget_used(budget));
            sw_note("%s, %d threads: %zu of %zu bytes, %u resting", files ? "files" : "memory",
                    threads, used.peak_bytes, least, used.resting);
        }
}

/* Members rest and take turns, children are refused, and no one is ever denied memory; what was
 * measured is what was predicted, to the byte, for all of them. */
SW_TEST("predictions are exact, and no one is denied memory")
{
    const evo_data data = evo_digits(128, 32);
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    sw_evolution_memory used = SW_OPTS(sw_evolution_memory);
    const sw_net_opts net_opts = SW_OPTS(sw_net_opts, .utility = 1);
    uint32_t rested = 0, looked = 0;
    const sw_evolution_opts opts =
        EVO_OPTS(&data, .dir = evo_folder(), .population = 10, .samples = 64);
    const size_t limit = least_of(&opts, 2) * 5 / 4;
    sw_budget *budget = budget_of(limit);
    sw_exec *exec = evo_exec(2, budget);
    sw_evolution *e = evo_evolution(exec, &opts);
    while (p.generation < (sw_tests_full() ? 30 : 6)) {
        if (!OK(sw_evolution_advance(e, &p)))
            return;
        OK(sw_evolution_used(e, &used));
        CU_ASSERT_FATAL(used.peak_bytes <= limit && used.bytes == sw_budget_used(budget));
        rested = used.resting > rested ? used.resting : rested;
        for (uint32_t i = 0; i < opts.population && p.what == SW_EVOLVE_EVALUATED; i++) {
            const sw_candidate c = evo_member(e, i);
            CU_ASSERT_EQUAL(c.measured_bytes, c.price->peak_bytes);
            CU_ASSERT(c.price->peak_bytes <= limit);
            sw_price price = SW_OPTS(sw_price);
            OK(sw_genome_price(c.genome, exec, &net_opts, SW_U8, &price));
            CU_ASSERT_EQUAL(price.model_bytes, c.price->model_bytes);
            CU_ASSERT_EQUAL(price.batch_bytes, c.price->batch_bytes);
            CU_ASSERT(price.arena_bytes <= c.price->arena_bytes);
            CU_ASSERT_EQUAL(price.operations, c.price->operations);
            looked++;
        }
    }
    CU_ASSERT(rested > 0 && looked >= 60);
    CU_ASSERT(p.refused > 0);
    sw_note("%u at rest, %d of %d mutants refused, peak %zu of %zu bytes", rested,
            (int)p.refused, (int)p.mutants, used.peak_bytes, limit);
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
    OK(sw_net_create(&made, genome, &SW_OPTS(sw_net_opts, .utility = 1)));
    OK(sw_feed_create(&feed, data->train, &feed_opts));
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = sw_net_model(made), .fn = sw_net_step, .user = made);
    OK(sw_members_create(&group, exec, &opts));
    sw_status status = sw_member_new(&member, group, 3);
    for (uint32_t step = 0; step < 4 && status == SW_OK; step++) {
        status = sw_members_run(group,
                                &SW_OPTS(sw_members_args, .members = &member, .n = 1,
                                         .mode = SW_TRAIN, .variant = step % 2, .feed = feed));
    }
    sw_members_destroy(group);
    sw_feed_destroy(feed);
    sw_net_destroy(made);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return status;
}

/* The predicted bytes are enough for the member alone, and 64 less are not. */
SW_TEST("a prediction is the least budget of a member alone")
{
    const evo_data data = evo_digits(128, 32);
    const sw_evolution_opts opts = EVO_OPTS(&data, .samples = 32);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    for (uint64_t generation = 0; generation < 3; generation++) {
        evo_run(e, generation);
        for (uint32_t i = 0; i < sw_evolution_count(e); i++) {
            const sw_candidate c = evo_member(e, i);
            OK(train_alone(c.genome, &data, c.price->peak_bytes));
            REFUSED(train_alone(c.genome, &data, c.price->peak_bytes - 64), SW_NOMEM, "");
        }
    }
}

/* Children that have no room beside their parents' generation, which all fits, are made when it
 * rests; they are those that a run with all the room has. */
SW_TEST("residents make room for children")
{
    const evo_data data = evo_digits(128, 32);
    const sw_mutation grow = {.kind = SW_MUTATE_GROW, .probability = 1, .high = 1.5};
    const sw_selection keep[2] = {{.kind = SW_SELECT_ELITE, .n = 3, .keep = 1},
                                  {.kind = SW_SELECT_TOURNAMENT, .n = 9}};
    swi_candidate_need most = {0};
    size_t all = 0;
    uint64_t sums[2];
    sw_evolution_opts opts = EVO_OPTS(
        &data, .space = evo_dense_space(), .population = 12, .samples = 32, .mutations = &grow,
        .n_mutations = 1, .mutate = 1, .crossover = 1, .selections = keep, .n_selections = 2);
    for (int tight = 0; tight < 2; tight++) {
        const size_t room = most.arena + most.batch + all + 4 * most.member;
        opts.dir = evo_folder();
        sw_evolution *e = evo_evolution(evo_exec(1, tight ? budget_of(room) : NULL), &opts);
        for (int i = 0; i < 12; i++) {
            most = swi_need_most(most, e->members[i].need);
            all += e->members[i].need.member;
        }
        evo_run(e, 1);
        CU_ASSERT_EQUAL(e->making.alone, tight);
        evo_evaluate(e, 1);
        sums[tight] = evo_sum(e);
        evo_run(e, 3);
    }
    CU_ASSERT_EQUAL(sums[0], sums[1]);
}

/* A member's peak is below candidate_bytes, whatever mutations would like, growth too. */
SW_TEST("candidates have a hard limit")
{
    const evo_data data = evo_digits(128, 32);
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    const sw_mutation grow[] = {{.kind = SW_MUTATE_GROW, .probability = 0.8},
                                {.kind = SW_MUTATE_BATCH, .probability = 0.3}};
    size_t largest = 0;
    sw_evolution_opts opts = EVO_OPTS(&data, .samples = 32, .mutations = grow, .n_mutations = 2,
                                      .space = evo_dense_space(), .candidate_bytes = 64);
    sw_evolution *e = NULL;
    REFUSED(sw_evolution_create(&e, evo_exec(1, NULL), &opts), SW_NOMEM, "at least");
    opts.candidate_bytes = 200000;
    e = evo_evolution(evo_exec(1, NULL), &opts);
    while (p.generation < 6) {
        if (!OK(sw_evolution_advance(e, &p)))
            return;
        for (uint32_t i = 0; i < opts.population; i++) {
            const sw_candidate c = evo_member(e, i);
            CU_ASSERT_FATAL(c.price->peak_bytes <= opts.candidate_bytes);
            largest = c.price->peak_bytes > largest ? c.price->peak_bytes : largest;
        }
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
            EVO_OPTS(&data, .dir = files ? evo_folder() : NULL, .samples = 32);
        sw_budget *budget = budget_of(64 << 20);
        sw_exec *exec = evo_exec(1, budget);
        const size_t before = sw_budget_used(budget);
        OK(sw_evolution_create(&e, exec, &opts));
        evo_run(e, 2);
        CU_ASSERT(sw_budget_used(budget) > before);
        sw_evolution_destroy(e);
        CU_ASSERT_EQUAL(sw_budget_used(budget), before);
    }
}

typedef struct {
    size_t heap, bytes;
    uint64_t blocks;
} footprint;

static footprint look(sw_evolution *e)
{
    footprint f = {0, 0, 0};
    sw_evolution_memory used = SW_OPTS(sw_evolution_memory);
    for (int k = 0; k < SW_HEAP_KINDS; k++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)k, &stats);
        f.heap += stats.bytes;
        f.blocks += stats.blocks;
    }
    OK(sw_evolution_used(e, &used));
    f.bytes = used.bytes;
    return f;
}

static footprint most_until(sw_evolution *e, uint64_t generations, uint64_t from)
{
    footprint most = {0, 0, 0};
    for (uint64_t g = from; g < generations; g++) {
        evo_run(e, g + 1);
        const footprint f = look(e);
        most.heap = f.heap > most.heap ? f.heap : most.heap;
        most.bytes = f.bytes > most.bytes ? f.bytes : most.bytes;
        most.blocks = f.blocks > most.blocks ? f.blocks : most.blocks;
    }
    return most;
}

/* Where all genomes are one, generations leave nothing: not a block, not a byte. */
SW_TEST("generations leave nothing")
{
    const evo_data data = evo_digits(128, 32);
    sw_evolution_opts opts = EVO_OPTS(&data);
    sw_genome *one = NULL;
    const sw_genome *all[6];
    const sw_task task =
        SW_OPTS(sw_task, .channels = 1, .height = 28, .width = 28, .classes = 10);
    OK(sw_genome_draw(&one, opts.space, &task, 3));
    for (int i = 0; i < 6; i++)
        all[i] = one;
    opts.first = all;
    opts.n_first = 6;
    opts.samples = 16;
    opts.mutate = -1;
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    sw_genome_destroy(one);
    const footprint early = most_until(e, 10, 0);
    const footprint late = most_until(e, sw_tests_full() ? 1000 : 30, 10);
    SW_CHECK(late.heap <= early.heap && late.blocks <= early.blocks, "%zu then %zu bytes",
             early.heap, late.heap);
    CU_ASSERT(late.bytes <= early.bytes);
}

/* With mutations, of genomes that are limited, memory stays where it was too. */
SW_TEST("memory is flat over generations")
{
    const evo_data data = evo_digits(128, 32);
    const uint64_t part = sw_tests_full() ? 250 : 12;
    const sw_evolution_opts opts =
        EVO_OPTS(&data, .samples = 16, .candidate_bytes = 300000, .dir = evo_folder());
    sw_evolution *e = evo_evolution(evo_exec(1, budget_of(4 << 20)), &opts);
    const footprint early = most_until(e, 2 * part, 0);
    const footprint late = most_until(e, 4 * part, 2 * part);
    sw_note("heap %zu, then %zu; tensors %zu, then %zu", early.heap, late.heap, early.bytes,
            late.bytes);
    SW_CHECK(late.heap <= 2 * early.heap, "%zu then %zu", early.heap, late.heap);
    CU_ASSERT(late.bytes <= 4 << 20);
}
