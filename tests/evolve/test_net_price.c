/* Prices: to the byte what members take, and nothing stays of them. */
#include "alloc/base/sys.h"
#include "tests/evolve/net_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("net prices")

static sw_price price_of(const sw_genome *g, sw_exec *exec, sw_dtype input)
{
    sw_price price = SW_OPTS(sw_price);
    OK(sw_genome_price(g, exec, NULL, input, &price));
    return price;
}

static sw_members *members_of(sw_exec *exec, sw_net *shape)
{
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = shape->model, .fn = sw_net_step, .user = shape);
    sw_members *members = NULL;
    OK(sw_members_create(&members, exec, &opts));
    return members;
}

/* ---- to the byte ------------------------------------------------------------------------- */

/* Whatever the threads of the exec are: a member has one. */
SW_TEST("prices are those of members")
{
    sw_dice dice = {31};
    for (int threads = 1; threads <= 2; threads++) {
        sw_exec *exec = scene_exec(threads);
        for (int i = 0; i < 25; i++) {
            const sw_dtype input = i % 2 ? SW_U8 : SW_F32;
            sw_genome *g = i == 0 ? scene_lenet() : scene_random(&dice);
            g->batch = 1 + (int64_t)sw_dice_below(&dice, 30);
            const sw_price price = price_of(g, exec, input);
            sw_members *members = members_of(exec, scene_net(g, NULL));
            const scene_batch b = scene_data(g, input, g->batch, 1);
            sw_plan_info info = SW_OPTS(sw_plan_info);
            OK(sw_members_look(
                members, &SW_OPTS(sw_members_args, .inputs = b.in, .n_inputs = 2), &info));
            CU_ASSERT_EQUAL(price.arena_bytes, info.arena_bytes);
            CU_ASSERT_EQUAL(price.model_bytes, info.model_bytes);
            CU_ASSERT_EQUAL(price.model_bytes, sw_members_bytes(members));
            CU_ASSERT_EQUAL(price.operations, info.operations);
            CU_ASSERT_EQUAL(price.peak_bytes,
                            price.model_bytes + price.arena_bytes + price.batch_bytes);
            CU_ASSERT_EQUAL(price.parameters, swi_genome_parameters(g));
            CU_ASSERT(fabs(price.operations_per_sample * (double)g->batch -
                           (double)price.operations) < 1e-9 * (double)price.operations);
            sw_members_destroy(members);
            scene_sweep();
        }
    }
}

/* The step that also averages utilities is among them. */
SW_TEST("prices with utility are of the larger step")
{
    const sw_net_opts opts = SW_OPTS(sw_net_opts, .utility = 1);
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {33};
    int larger = 0;
    for (int i = 0; i < 30; i++) {
        const sw_genome *g = i == 0 ? scene_lenet() : scene_random(&dice);
        sw_members *members = members_of(exec, scene_net(g, &opts));
        const scene_batch b = scene_data(g, SW_U8, g->batch, 1);
        sw_plan_info info[2] = {SW_OPTS(sw_plan_info), SW_OPTS(sw_plan_info)};
        for (uint32_t k = 0; k < 2; k++) {
            const sw_members_args args =
                SW_OPTS(sw_members_args, .inputs = b.in, .n_inputs = 2, .variant = k);
            OK(sw_members_look(members, &args, &info[k]));
        }
        sw_price price = SW_OPTS(sw_price);
        OK(sw_genome_price(g, exec, &opts, SW_U8, &price));
        const size_t most = info[1].arena_bytes > info[0].arena_bytes ? info[1].arena_bytes
                                                                      : info[0].arena_bytes;
        larger += info[1].arena_bytes > info[0].arena_bytes;
        CU_ASSERT_EQUAL(price.arena_bytes, most);
        CU_ASSERT_EQUAL(price.model_bytes, sw_members_bytes(members));
        CU_ASSERT_EQUAL(price.operations, info[0].operations);
        sw_members_destroy(members);
        scene_sweep();
    }
    CU_ASSERT(larger > 0);
}

/* Digits; or a table of 13 numbers and a class. */
static sw_dataset *dataset_new(bool image)
{
    sw_dataset *dataset = NULL;
    if (image) {
        OK(sw_dataset_synthetic(&dataset, 200, 1));
    } else {
        const char *path = sw_temp_path("numbers.csv");
        const sw_csv_opts opts = SW_OPTS(sw_csv_opts, .label = "label");
        FILE *file = fopen(path, "w");
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        for (int c = 0; c < 13; c++)
            fprintf(file, "x%d,", c);
        fprintf(file, "label\n");
        for (int i = 0; i < 200; i++) {
            for (int c = 0; c < 13; c++)
                fprintf(file, "%d.5,", i * c % 7);
            fprintf(file, "%d\n", i % 10);
        }
        fclose(file);
        OK(sw_dataset_csv(&dataset, NULL, path, &opts));
    }
    AFTER(sw_dataset_destroy, dataset);
    return dataset;
}

static sw_genome *genome_for(bool image)
{
    if (image)
        return scene_lenet();
    sw_genome *g = scene_genome(13, 0, 0);
    scene_linear(g, "fc", 0, 10);
    scene_check(g);
    return g;
}

/* Bytes of images, numbers of vectors. */
SW_TEST("batches are counted as feeds count them")
{
    sw_exec *exec = scene_exec(1);
    for (int image = 0; image < 2; image++) {
        const sw_dataset *dataset = dataset_new(image != 0);
        sw_genome *g = genome_for(image != 0);
        for (g->batch = 1; g->batch < 100; g->batch += 7) {
            sw_feed *feed = NULL;
            OK(sw_feed_create(&feed, dataset, &SW_OPTS(sw_feed_opts, .batch = g->batch)));
            AFTER(sw_feed_destroy, feed);
            CU_ASSERT_EQUAL(price_of(g, exec, image ? SW_U8 : SW_F32).batch_bytes,
                            sw_feed_bytes(feed));
        }
    }
}

/* A run measures bytes that lived; the price has the arena's height, which may have holes. */
SW_TEST("runs measure what was priced")
{
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {41};
    int equal = 0, n = 60;
    for (int i = 0; i < n; i++) {
        sw_genome *g = i == 0 ? scene_lenet() : scene_random(&dice);
        g->batch = 2 + (int64_t)sw_dice_below(&dice, 12);
        const sw_price price = price_of(g, exec, SW_F32);
        sw_net *made = scene_ready(g, NULL, exec, 1);
        const scene_batch b = scene_data(g, SW_F32, g->batch, 1);
        sw_run_info info = SW_OPTS(sw_run_info);
        OK(sw_run(exec, &SCENE_ARGS(made, &b, SW_TRAIN)));
        OK(sw_last_run(exec, &info));
        CU_ASSERT_EQUAL(info.arena_bytes, price.arena_bytes);
        CU_ASSERT_EQUAL(info.model_bytes, price.model_bytes);
        SW_CHECK(info.peak_bytes <= price.peak_bytes, "genome %d: %zu of %zu", i,
                 info.peak_bytes, price.peak_bytes);
        equal += info.peak_bytes == price.peak_bytes;
        scene_sweep();
    }
    sw_note("%d of %d measured peaks are the whole of model, arena and batch", equal, n);
}

/* ---- nothing stays ----------------------------------------------------------------------- */

static size_t heap_bytes(void)
{
    size_t bytes = 0;
    for (int k = 0; k < SW_HEAP_KINDS; k++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)k, &stats);
        bytes += stats.bytes;
    }
    return bytes;
}

/* 2,000 genomes, each another one, leave nothing; a thousand a second and more. */
SW_TEST("pricing leaves nothing")
{
    sw_exec *exec = scene_exec(1);
    sw_genome *g = scene_lenet();
    const int n = 2000;
    uint64_t ns = 0, most = 0;
    size_t before = 0;
    for (int i = 0; i < n + 80; i++) {
        if (i == 80) /* handles of what was destroyed wait for their turn */
            before = heap_bytes();
        g->vertices[1].size = 1 + i % 40;
        g->vertices[8].size = 20 + i / 40;
        scene_check(g);
        const sw_price price = price_of(g, exec, SW_U8);
        ns += price.ns;
        most = price.ns > most ? price.ns : most;
    }
    CU_ASSERT_EQUAL(heap_bytes(), before);
    CU_ASSERT(ns / (n + 80) < 10000000);
    sw_note("lenet5: %.0f prices a second, the slowest %.0f us", 1e9 * (n + 80) / (double)ns,
            (double)most / 1e3);
}

static uint64_t time_of(sw_exec *exec, const sw_genome *g, uint64_t *plan_ns)
{
    uint64_t least = UINT64_MAX;
    *plan_ns = UINT64_MAX;
    for (int i = 0; i < 15; i++) {
        const sw_price price = price_of(g, exec, SW_U8);
        least = price.ns < least ? price.ns : least;
        sw_net *made = scene_net(g, NULL);
        scene_batch b = scene_data(g, SW_U8, g->batch, 1);
        sw_plan_info info = SW_OPTS(sw_plan_info);
        OK(sw_plan(exec, &SCENE_ARGS(made, &b, SW_TRAIN), &info));
        const uint64_t plan = info.trace_ns + info.plan_ns;
        *plan_ns = plan < *plan_ns ? plan : *plan_ns;
    }
    return least;
}

SW_TEST("times of prices")
{
    sw_exec *exec = scene_exec(1);
    static const int vertices[] = {20, 100};
    for (int k = 0; k < 2; k++) {
        uint64_t plan;
        const uint64_t price = time_of(exec, scene_deep(vertices[k]), &plan);
        sw_note("%d vertices: price %.0f us, of which trace and plan %.0f us", vertices[k],
                (double)price / 1e3, (double)plan / 1e3);
        CU_ASSERT(price > 0);
        scene_sweep();
    }
}

/* Programs, metrics and outputs of the exec's runs stay as they are. */
SW_TEST("a price disturbs no run")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    sw_net *made = scene_ready(g, NULL, exec, 1);
    const scene_batch b = scene_data(g, SW_U8, 8, 1);
    const sw_run_args args = SCENE_ARGS(made, &b, SW_TRAIN);
    double loss = 0, again = 0;
    OK(sw_run(exec, &args));
    OK(sw_metric_get(exec, "loss", &loss));
    price_of(scene_deep(30), exec, SW_F32);
    OK(sw_metric_get(exec, "loss", &again));
    CU_ASSERT_EQUAL(loss, again);
    sw_run_info info = SW_OPTS(sw_run_info);
    OK(sw_run(exec, &args));
    OK(sw_last_run(exec, &info));
    CU_ASSERT(info.warm);
}

/* ---- budgets, misuse, failures ----------------------------------------------------------- */

/* A price is what it is: no budget makes the plan smaller, and nothing is taken of it. */
SW_TEST("budgets are not touched")
{
    sw_budget *budget = made_budget(1 << 16);
    sw_exec *small = net_exec(&SW_OPTS(sw_exec_opts, .budget = budget));
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    const sw_price a = price_of(g, exec, SW_U8), b = price_of(g, small, SW_U8);
    CU_ASSERT_EQUAL(a.peak_bytes, b.peak_bytes);
    CU_ASSERT(b.peak_bytes > 1 << 16);
}

SW_TEST("misuse is refused")
{
    sw_exec *exec = scene_exec(1);
    sw_genome *g = scene_lenet();
    sw_price price = SW_OPTS(sw_price, .peak_bytes = 77);
    REFUSED(sw_genome_price(g, exec, NULL, SW_I32, &price), SW_INVALID, "SW_U8");
    snprintf(g->loss, sizeof g->loss, "thrice");
    REFUSED(sw_genome_price(g, exec, NULL, SW_U8, &price), SW_INVALID, "thrice");
    CU_ASSERT_EQUAL(price.peak_bytes, 77);
}

typedef struct {
    sw_exec *exec;
    const sw_genome *g;
} pair;

static sw_status price_one(void *arg)
{
    const pair *p = arg;
    return sw_genome_price(p->g, p->exec, NULL, SW_U8, &SW_OPTS(sw_price));
}

SW_TEST("every failure leaves nothing")
{
    sw_genome *g = scene_genome(7, 0, 0);
    scene_linear(g, "fc", 0, 10);
    scene_check(g);
    pair p = {scene_exec(1), g};
    OK(price_one(&p)); /* what the exec keeps from its first trace on */
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, price_one, &p) > 20);
}
