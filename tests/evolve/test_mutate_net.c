/* Children as nets: changes that are said to be exact compute what the parent did, and every
 * child trains. */
#include "tests/evolve/mutants.h"
#include "tests/evolve/net_scene.h"

SW_TESTS("mutate nets")

#define ROWS 5

static const sw_task tasks[] = {{sizeof tasks[0], 1, 14, 14, 10},
                                {sizeof tasks[0], 12, 0, 0, 10}};

static sw_genome *later(sw_genome *g)
{
    scene_later(ENDS(sw_genome_destroy, g), g);
    return g;
}

enum { SOURCES = 3 }; /* the default spaces of these tasks, and any kinds of vertices */

static sw_search_space *space_of(int source)
{
    sw_search_space *space = NULL;
    OK(sw_search_space_default(&space, &tasks[source < 2 ? source : 0]));
    return space;
}

static sw_genome *draw(const sw_search_space *space, int source, uint64_t seed)
{
    sw_dice dice = {seed + 1};
    sw_genome *g = NULL;
    if (source == 2)
        return scene_random(&dice);
    OK(sw_genome_draw(&g, space, &tasks[source], seed));
    g->batch = 16;
    return later(g);
}

static double train(sw_exec *exec, sw_net *made, const scene_batch *data)
{
    OK(sw_run(exec, &SCENE_ARGS(made, data, SW_TRAIN)));
    return net_metric(exec, "loss");
}

/* ---- exact changes ----------------------------------------------------------------------- */

/* The largest difference of logits as a share of the largest logit. */
static double difference(sw_exec *exec, sw_net *a, sw_net *b, const scene_batch *data)
{
    const float *x = scene_run_logits(exec, a, data), *y = scene_run_logits(exec, b, data);
    double most = 0, largest = 0;
    for (int i = 0; i < ROWS * 10; i++) {
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)x[i]));
        CU_ASSERT(isfinite(x[i]) && isfinite(y[i]));
    }
    CU_ASSERT(largest > 0);
    return most / fmax(largest, 1e-30);
}

static sw_genome *child_of(const sw_genome *a, const sw_mutation *list, size_t n, uint64_t seed,
                           const sw_search_space *space, mutant_notes *notes)
{
    sw_genome *child = NULL;
    *notes = (mutant_notes){.all_exact = true};
    const sw_mutate_opts opts = SW_OPTS(
        sw_mutate_opts, .mutations = list, .n_mutations = n, .seed = seed, .space = space,
        .record = mutant_note, .record_user = notes, .max_vertices = 60, .max_size = 64);
    OK(sw_genome_mutate(&child, a, &opts));
    return later(child);
}

/* Several kinds at once, so that new layers are changed again before they ever ran. */
static const sw_mutation exact_kinds[] = {
    {.kind = SW_MUTATE_ADD_VERTEX, .probability = 0.2},
    {.kind = SW_MUTATE_SIZE, .probability = 0.3, .low = 0.1, .high = 0.5},
    {.kind = SW_MUTATE_ADD_EDGE, .probability = 0.1},
    {.kind = SW_MUTATE_KERNEL, .probability = 0.2, .low = 2, .high = 2},
    {.kind = SW_MUTATE_REMOVE_VERTEX, .probability = 0.05},
    {.kind = SW_MUTATE_RATE, .probability = 0.3},
    {.kind = SW_MUTATE_OPTIMIZER, .probability = 0.3},
    {.kind = SW_MUTATE_BATCH, .probability = 0.3},
    {.kind = SW_MUTATE_GROW, .probability = 0.1, .low = 0.1, .high = 0.2},
};
enum { EXACT_KINDS = sizeof exact_kinds / sizeof *exact_kinds };

typedef struct {
    uint64_t counts[SW_MUTATION_KINDS], others; /* exact; that compute something else */
    double worst;
} tally;

static void compare(sw_exec *exec, const sw_search_space *space, int source, uint64_t i,
                    tally *t)
{
    mutant_notes notes;
    const sw_genome *a = draw(space, source, i % 997);
    const scene_batch data = scene_data(a, SW_F32, ROWS, i);
    sw_net *from = scene_ready(a, NULL, exec, i);
    (void)train(exec, from, &data);
    const sw_genome *child =
        i % 3 == 0 ? child_of(a, exact_kinds, EXACT_KINDS, i, space, &notes)
                   : child_of(a, &exact_kinds[i / 3 % EXACT_KINDS], 1, i, space, &notes);
    sw_net *to = scene_ready(child, NULL, exec, i + 1);
    OK(sw_net_inherit(to, from, NULL, i));
    const double d = difference(exec, from, to, &data);
    t->others += !notes.all_exact && d > 1e-3;
    if (notes.all_exact) {
        t->worst = fmax(t->worst, d);
        SW_CHECK(d <= 1e-6, "child %llu: %g (%s)", (unsigned long long)i, d,
                 notes.list[0].text);
        for (int k = 0; k < notes.n && k < MUTANT_NOTES; k++)
            t->counts[notes.list[k].kind]++;
    }
    scene_sweep();
}

/* Over thousands of children. */
SW_TEST("exact changes compute the same")
{
    sw_exec *exec = net_exec(NULL);
    const uint64_t n = sw_tests_full() ? 4000 : 100;
    tally all = {.worst = 0};
    for (int source = 0; source < SOURCES; source++) {
        sw_search_space *space = space_of(source);
        for (uint64_t i = 0; i < n; i++)
            compare(exec, space, source, i, &all);
        sw_search_space_destroy(space);
    }
    const uint64_t *counts = all.counts;
    sw_note("at most %.2g of the largest logit; sizes %llu, vertices %llu, edges %llu, kernels "
            "%llu, growth %llu; %llu children compute something else, as they say",
            all.worst, (unsigned long long)counts[SW_MUTATE_SIZE],
            (unsigned long long)counts[SW_MUTATE_ADD_VERTEX],
            (unsigned long long)counts[SW_MUTATE_ADD_EDGE],
            (unsigned long long)counts[SW_MUTATE_KERNEL],
            (unsigned long long)counts[SW_MUTATE_GROW], (unsigned long long)all.others);
    CU_ASSERT(counts[SW_MUTATE_SIZE] > n / 20 && counts[SW_MUTATE_ADD_VERTEX] > n / 40 &&
              counts[SW_MUTATE_ADD_EDGE] > n / 80 && counts[SW_MUTATE_KERNEL] > n / 40 &&
              counts[SW_MUTATE_GROW] > n / 200 && all.others > n / 20);
}

/* ---- training ---------------------------------------------------------------------------- */

static void all_kinds(sw_mutation list[SW_MUTATE_CUSTOM])
{
    for (int i = 0; i < SW_MUTATE_CUSTOM; i++)
        list[i] = (sw_mutation){.kind = (sw_mutation_kind)i,
                                .probability = i < SW_MUTATE_RATE ? 0.1 : 0.2};
    list[SW_MUTATE_REMOVE_VERTEX].min_vertices = 5;
    list[SW_MUTATE_ADD_VERTEX].probability = 0.05;
    list[SW_MUTATE_GROW].high = 0.2;
    list[SW_MUTATE_GROW].max_parameters = 100000;
    list[SW_MUTATE_RATE].low = -0.5; /* it does not grow */
    list[SW_MUTATE_RATE].high = -0.1;
}

#define LINE 25 /* children, each of the one before */
#define MOST 200000

static int is_small(const sw_genome *g, void *none)
{
    return swi_genome_parameters(g) <= MOST;
}

/* A ready net of a genome, for sw_net_destroy. */
static sw_net *ready_net(const sw_genome *g, sw_exec *exec, uint64_t seed)
{
    sw_net *made = NULL;
    OK(sw_net_create(&made, g, NULL));
    CU_ASSERT_PTR_NOT_NULL_FATAL(made);
    OK(sw_model_ready(sw_net_model(made), exec, seed));
    return made;
}

/* Each child begins with what its parent has learnt, and trains a step. */
static uint64_t train_line(sw_exec *exec, const sw_search_space *space, int source,
                           uint64_t seed)
{
    sw_mutation list[SW_MUTATE_CUSTOM];
    uint64_t trained = 0;
    all_kinds(list);
    sw_genome *first = draw(space, source, seed);
    first->lr = 1e-4f; /* no line diverges by itself */
    sw_net *parent = ready_net(first, exec, seed);
    for (uint64_t i = 0; i < LINE; i++) {
        const sw_mutate_opts opts =
            SW_OPTS(sw_mutate_opts, .mutations = list, .n_mutations = SW_MUTATE_CUSTOM,
                    .seed = seed + i, .space = space, .fits = is_small, .max_vertices = 60,
                    .max_size = 64);
        sw_genome *child = NULL;
        OK(sw_genome_mutate(&child, sw_net_genome(parent), &opts));
        CU_ASSERT_FATAL(mutant_is_sound(child, sw_net_genome(parent), NULL));
        const scene_batch data = scene_data(child, SW_F32, ROWS, seed + i);
        sw_net *made = ready_net(child, exec, seed + i);
        OK(sw_net_inherit(made, parent, NULL, i));
        const double loss = train(exec, made, &data);
        trained += SW_CHECK(isfinite(loss), "child %llu of %llu: %g", (unsigned long long)i,
                            (unsigned long long)seed, loss);
        sw_net_destroy(parent);
        sw_genome_destroy(child);
        parent = made;
        scene_sweep();
    }
    sw_net_destroy(parent);
    return trained;
}

/* All of them, however far from a drawn genome. */
SW_TEST("random children train")
{
    sw_exec *exec = net_exec(NULL);
    const uint64_t lines = sw_tests_full() ? 135 : 1;
    uint64_t trained = 0;
    for (int source = 0; source < SOURCES; source++) {
        sw_search_space *space = space_of(source);
        for (uint64_t i = 0; i < lines; i++)
            trained += train_line(exec, space, source, i * LINE);
        sw_search_space_destroy(space);
    }
    sw_note("%llu children trained", (unsigned long long)trained);
    CU_ASSERT_EQUAL(trained, lines * LINE * SOURCES);
}

/* The same of children of two parents, and of a mutant of such a child. */
SW_TEST("crossed children train")
{
    sw_exec *exec = net_exec(NULL);
    sw_search_space *space = space_of(0);
    const uint64_t n = sw_tests_full() ? 500 : 12;
    for (uint64_t i = 0; i < n; i++) {
        const sw_genome *a = draw(space, 0, 2 * i), *b = draw(space, 0, 2 * i + 1);
        const sw_crossover_opts opts = SW_OPTS(sw_crossover_opts, .vertices = 1, .seed = i);
        sw_genome *one = NULL, *two = NULL;
        OK(sw_genome_crossover(&one, &two, a, b, &opts));
        sw_net *na = scene_ready(a, NULL, exec, i), *nb = scene_ready(b, NULL, exec, i + 1);
        const scene_batch data = scene_data(a, SW_F32, ROWS, i);
        sw_net *children[2] = {scene_ready(later(one), NULL, exec, 3),
                               scene_ready(later(two), NULL, exec, 4)};
        OK(sw_net_inherit(children[0], na, nb, i));
        OK(sw_net_inherit(children[1], nb, na, i));
        for (int k = 0; k < 2; k++) {
            const double loss = train(exec, children[k], &data);
            SW_CHECK(isfinite(loss), "child %llu: %g", (unsigned long long)i, loss);
        }
        scene_sweep();
    }
    sw_search_space_destroy(space);
}
