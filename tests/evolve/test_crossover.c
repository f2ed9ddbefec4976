/* Crossover: segments, children, what is exchanged. */
#include "tests/evolve/mutants.h"
#include "tests/evolve/net_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("crossover")

#define TAIL(in) TAIL_OF(in, "10")

/* ---- segments ---------------------------------------------------------------------------- */

/* Is each vertex of `set` (by position) on a path from entry to exit, and are edges across its
 * border only from the entry and from the exit? From the definition. */
static bool is_segment(const sw_genome *g, const bool *set, uint32_t entry, uint32_t exit)
{
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++) {
            const uint32_t x = g->vertices[i].in[k];
            if (set[i] && !set[x] && x != entry)
                return false;
            if (!set[i] && set[x] && x != exit)
                return false;
        }
    return set[exit] && !set[entry];
}

/* Vertices from which `exit` can be reached and which `entry` reaches. */
static uint32_t between(const sw_genome *g, uint32_t entry, uint32_t exit, bool *set)
{
    bool from[256] = {false}, to[256] = {false};
    uint32_t n = 0;
    from[entry] = to[exit] = true;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            from[i] = from[i] || from[g->vertices[i].in[k]];
    for (uint32_t i = g->n; i-- > 0;)
        for (uint32_t k = 0; to[i] && k < g->vertices[i].n_in; k++)
            to[g->vertices[i].in[k]] = true;
    for (uint32_t i = 0; i < g->n; i++) {
        set[i] = from[i] && to[i] && i != entry;
        n += set[i];
    }
    return n;
}

static uint32_t check_segments(const sw_genome *g)
{
    swi_segments s = {0};
    uint32_t expected = 0;
    OK(swi_segments_of(&s, g));
    for (uint32_t exit = 1; exit + 1 < g->n; exit++)
        for (uint32_t entry = 0; entry < exit; entry++) {
            bool set[256], listed = false;
            uint32_t list[SWI_SEGMENT_MOST];
            const uint32_t n = between(g, entry, exit, set);
            const bool is = n > 0 && n <= SWI_SEGMENT_MOST && is_segment(g, set, entry, exit);
            expected += is;
            for (uint32_t i = 0; i < s.n; i++) {
                if (s.list[i].entry != entry || s.list[i].exit != exit)
                    continue;
                listed = true;
                CU_ASSERT_EQUAL_FATAL(s.list[i].n, n);
                swi_segment_vertices(g, &s.list[i], list);
                for (uint32_t k = 0; k < n; k++)
                    CU_ASSERT(set[list[k]] && (k == 0 || list[k] > list[k - 1]));
            }
            SW_CHECK(listed == is, "%s to %s: %d, not %d", g->vertices[entry].name,
                     g->vertices[exit].name, listed, is);
        }
    CU_ASSERT_EQUAL(s.n, expected);
    swi_segments_end(&s);
    return expected;
}

/* All pairs of vertices, by the definition: of genomes by hand and of many drawn ones. */
SW_TEST("segments are all there are")
{
    sw_genome *all = genome_of(genome_text);
    for (uint32_t i = 0; i < all->n; i++)
        all->vertices[i].shield = 0;
    uint32_t n = check_segments(all) + check_segments(genome_chain(30));
    const sw_task task = {sizeof task, 1, 28, 28, 10};
    sw_search_space *space = genome_space(&task);
    for (uint64_t seed = 0; seed < 40; seed++) {
        sw_genome *g = NULL;
        OK(sw_genome_draw(&g, space, &task, seed));
        n += check_segments(g);
        sw_genome_destroy(g);
    }
    CU_ASSERT(n > 500);
}

/* A chain of n vertices has n (n - 1) / 2 pairs; shields close what is around them. */
SW_TEST("shields close segments")
{
    static const struct {
        const char *shield;
        uint32_t n;
    } cases[] = {
        {"", 6 + 4}, /* of input, c1, r1, c2, gap: pairs before `out` */
        {", \"shield\": [\"crossover\"]", 4},
        {", \"shield\": [\"remove\"]", 4},
        {", \"shield\": [\"inputs\"]", 6},  /* none ends at c1, or begins there */
        {", \"shield\": [\"outputs\"]", 6}, /* none ends at r1, or begins there */
        {", \"shield\": [\"size\", \"kernel\", \"activation\"]", 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        swi_segments s = {0};
        snprintf(text, sizeof text, "%s%s%s%s",
                 CONV("c1", "input", 4, "")
                     V("r1", "activation", "\"c1\"") ", \"activation\": \"relu\"",
                 cases[i].shield, "},\n" CONV("c2", "r1", 4, ""), TAIL("c2"));
        OK(swi_segments_of(&s, mutant_base("[1, 8, 8]", text)));
        SW_CHECK(s.n == cases[i].n, "%s: %u, not %u", cases[i].shield, s.n, cases[i].n);
        swi_segments_end(&s);
    }
}

/* ---- children ---------------------------------------------------------------------------- */

static const sw_crossover_opts always = {.size = sizeof always, .vertices = 1, .deviation = 1};

static void cross(sw_genome **one, sw_genome **two, const sw_genome *a, const sw_genome *b,
                  const sw_crossover_opts *opts)
{
    *one = *two = NULL;
    OK(sw_genome_crossover(one, two, a, b, opts));
    CU_ASSERT_FATAL(*one != NULL && *two != NULL);
    AFTER(sw_genome_destroy, *one);
    AFTER(sw_genome_destroy, *two);
}

/* One segment each: what was the other's stands between the same vertices, with columns for
 * what it reads there. */
SW_TEST("segments take each other's place")
{
    const sw_genome *a = mutant_base(
        "[1, 8, 8]",
        CONV("c1", "input", 4, ", \"shield\": [\"crossover\"]") CONV("mine", "c1", 6, "")
            CONV("c2", "mine", 3, ", \"shield\": [\"crossover\"]") TAIL("c2"));
    const sw_genome *b = mutant_base(
        "[1, 8, 8]",
        CONV("c1", "input", 5, ", \"shield\": [\"crossover\"]") CONV("yours", "c1", 7, "")
            CONV("c2", "yours", 3, ", \"shield\": [\"crossover\"]") TAIL("c2"));
    sw_crossover_opts opts = always;
    opts.deviation = 0.01;
    int exchanged = 0;
    for (opts.seed = 0; opts.seed < 20; opts.seed++) {
        sw_genome *one = NULL, *two = NULL;
        cross(&one, &two, a, b, &opts);
        CU_ASSERT(mutant_is_sound(one, a, b));
        CU_ASSERT(mutant_is_sound(two, b, a));
        CU_ASSERT_EQUAL(one->n, a->n);
        const swi_vertex *v = mutant_vertex(one, "yours");
        CU_ASSERT_EQUAL(v != NULL, mutant_vertex(two, "mine") != NULL);
        exchanged += v != NULL;
        if (v != NULL) {
            CU_ASSERT_EQUAL(v->parent, 1);
            CU_ASSERT_EQUAL(v->was, 2);
            CU_ASSERT_PTR_NULL(mutant_vertex(one, "mine"));
            CU_ASSERT_STRING_EQUAL(one->vertices[v->in[0]].name, "c1");
            CU_ASSERT_EQUAL(one->vertices[v->in[0]].parent, 0);
            CU_ASSERT_EQUAL(v->n_cols, one->vertices[v->in[0]].channels);
            CU_ASSERT_EQUAL(mutant_vertex(one, "c2")->n_cols, v->channels);
            for (uint32_t i = 0; i < 4; i++)
                CU_ASSERT_EQUAL(v->cols[i], (int32_t)i);
        }
    }
    CU_ASSERT(exchanged > 0);
}

/* Both borders of a segment at once: what the second one adds to the segment, which an add ties
 * to what is before it, comes to the first one's other side too. */
SW_TEST("borders are aligned together")
{
    sw_genome *g = mutant_base(
        "[1, 8, 8]", CONV("c1", "input", 8, "") CONV("adapter", "c1", 12, "")
                         CONV("w", "adapter", 12, "") V("sum", "add", "\"adapter\", \"w\"")
                             END CONV("after", "sum", 24, "") TAIL("after"));
    const swi_tie ties[2][2] = {{{1, 2}, {4, 5}}, {{4, 5}, {1, 2}}};
    for (int i = 0; i < 2; i++) {
        sw_genome *child = NULL;
        OK(sw_genome_copy(&child, g));
        OK(swi_genome_begin_lineage(child));
        OK(swi_align(child, &(swi_align_opts){.ties = ties[i], .n_ties = 2}, NULL));
        for (int k = 1; k < 6; k++)
            CU_ASSERT_EQUAL(child->vertices[k].channels, child->vertices[1].channels);
        CU_ASSERT(mutant_is_sound(child, g, NULL));
        sw_genome_destroy(child);
    }
}

static uint32_t of_parent(const sw_genome *g, int parent)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        n += g->vertices[i].parent == parent;
    return n;
}

/* Thousands of random pairs: valid children, which descend right, and mix both parents. */
SW_TEST("children of random pairs are sound")
{
    enum { PARENTS = 24 };
    const uint64_t pairs = sw_tests_full() ? 5000 : 150;
    const sw_task task = {sizeof task, 1, 28, 28, 10};
    sw_genome *parents[PARENTS] = {NULL};
    uint64_t mixed = 0;
    sw_search_space *space = genome_space(&task);
    for (uint64_t i = 0; i < PARENTS; i++)
        OK(sw_genome_draw(&parents[i], space, &task, i));
    for (uint64_t i = 0; i < pairs; i++) {
        const sw_genome *a = parents[swi_draw_seed(i, 1) % PARENTS];
        const sw_genome *b = parents[swi_draw_seed(i, 2) % PARENTS];
        sw_crossover_opts opts = SW_OPTS(sw_crossover_opts, .vertices = 1, .seed = i);
        sw_genome *one = NULL, *two = NULL, *alone = NULL;
        cross(&one, &two, a, b, &opts);
        CU_ASSERT_FATAL(mutant_is_sound(one, a, b));
        CU_ASSERT_FATAL(mutant_is_sound(two, b, a));
        mixed += of_parent(one, 1) > 0;
        CU_ASSERT_EQUAL(of_parent(one, 1) > 0, of_parent(two, 1) > 0);
        OK(sw_genome_crossover(&alone, NULL, a, b, &opts));
        CU_ASSERT_EQUAL(swi_genome_hash(alone), swi_genome_hash(one));
        sw_genome_destroy(alone);
    }
    for (int i = 0; i < PARENTS; i++)
        sw_genome_destroy(parents[i]);
    sw_note("%llu of %llu pairs exchanged segments", (unsigned long long)mixed,
            (unsigned long long)pairs);
    CU_ASSERT(mixed > pairs / 2);
}

/* A genome that has changed several times. */
static sw_genome *relative_of(const sw_genome *a, uint64_t seed)
{
    sw_mutation list[SW_MUTATE_RATE];
    sw_genome *g = NULL;
    for (int i = 0; i < SW_MUTATE_RATE; i++)
        list[i] = (sw_mutation){.kind = (sw_mutation_kind)i, .probability = 0.1};
    OK(sw_genome_copy(&g, a));
    for (uint64_t i = 0; i < 6; i++) {
        sw_genome *next = NULL;
        const sw_mutate_opts opts =
            SW_OPTS(sw_mutate_opts, .mutations = list, .n_mutations = SW_MUTATE_RATE,
                    .seed = seed * 6 + i, .max_vertices = 40, .max_size = 40);
        OK(sw_genome_mutate(&next, g, &opts));
        sw_genome_destroy(g);
        g = next;
    }
    return g;
}

/* The same of genomes with groups, flattened images and joins of all kinds: any one and what
 * became of it. */
SW_TEST("children of relatives are sound")
{
    const uint64_t pairs = sw_tests_full() ? 3000 : 150;
    uint64_t mixed = 0;
    sw_dice dice = {5};
    for (uint64_t i = 0; i < pairs; i++) {
        const sw_genome *a = scene_random(&dice);
        sw_genome *b = relative_of(a, i), *one = NULL, *two = NULL;
        cross(&one, &two, a, b,
              &SW_OPTS(sw_crossover_opts, .vertices = 1, .deviation = 0.2, .seed = i));
        CU_ASSERT_FATAL(mutant_is_sound(one, a, b));
        CU_ASSERT_FATAL(mutant_is_sound(two, b, a));
        mixed += of_parent(one, 1) > 0;
        sw_genome_destroy(b);
        scene_sweep();
    }
    sw_note("%llu of %llu pairs exchanged segments", (unsigned long long)mixed,
            (unsigned long long)pairs);
    CU_ASSERT(mixed > pairs / 2);
}

/* Output i of the segment that comes in takes the place of output i of the one that goes. Of 4
 * and 8 there are 5 then, which costs least; of those that only one has the most useful stays:
 * its row where it comes in, its column where it goes. */
SW_TEST("utility of both parents counts")
{
    static const float of_m[] = {1, 1, 1, 1}, of_w[] = {0, 0, 0, 0, 0.1f, 0.2f, 1, 0.3f};
    const sw_genome *a =
        mutant_base("[1, 8, 8]", CONV("c1", "input", 4, ", \"shield\": [\"crossover\"]")
                                     CONV("m", "c1", 4, "") RELU("r", "m") TAIL("r"));
    const sw_genome *b =
        mutant_base("[1, 8, 8]", CONV("d1", "input", 4, ", \"shield\": [\"crossover\"]")
                                     CONV("w", "d1", 8, "") RELU("s", "w") TAIL("s"));
    const sw_neuron_utility m = {.vertex = 2, .n = 4, .values = of_m};
    const sw_neuron_utility w = {.vertex = 2, .n = 8, .values = of_w};
    int exchanged = 0;
    sw_crossover_opts opts =
        SW_OPTS(sw_crossover_opts, .vertices = 1, .deviation = 0.01, .utilities_a = &m,
                .n_utilities_a = 1, .utilities_b = &w, .n_utilities_b = 1);
    for (opts.seed = 0; opts.seed < 60; opts.seed++) {
        static const int32_t want[] = {0, 1, 2, 3, 6};
        sw_genome *one = NULL, *two = NULL;
        cross(&one, &two, a, b, &opts);
        const swi_vertex *v = mutant_vertex(one, "w"), *out = mutant_vertex(two, "out");
        if (v != NULL && mutant_vertex(one, "c1") != NULL) {
            exchanged++;
            CU_ASSERT_EQUAL_FATAL(v->size, 5);
            CU_ASSERT_EQUAL_FATAL(out->n_cols, 5);
            for (uint32_t i = 0; i < 5; i++) {
                CU_ASSERT_EQUAL(v->rows[i], want[i]);
                CU_ASSERT_EQUAL(out->cols[i], want[i]);
            }
        }
    }
    CU_ASSERT(exchanged > 5);
}

/* ---- training ---------------------------------------------------------------------------- */

/* Optimizer with all that belongs to it, rate and batch are exchanged, each by its chance. */
SW_TEST("training is exchanged")
{
    enum { SEEDS = 2000 };
    sw_genome *a = genome_chain(8), *b = genome_chain(9);
    int optimizer = 0, rate = 0, batches = 0;
    snprintf(b->optimizer, sizeof b->optimizer, "sgd");
    b->momentum = 0.9f;
    b->clip = 1;
    b->lr = 0.5f;
    b->batch = 8;
    OK(swi_genome_check(b, NULL));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const sw_crossover_opts opts = SW_OPTS(sw_crossover_opts, .optimizer = 0.25,
                                               .rate = 0.5, .batch = 0.75, .seed = seed);
        sw_genome *one = NULL, *two = NULL;
        cross(&one, &two, a, b, &opts);
        const bool is_b = strcmp(one->optimizer, "sgd") == 0;
        CU_ASSERT_EQUAL(one->momentum, is_b ? 0.9f : 0);
        CU_ASSERT_EQUAL(one->clip, is_b ? 1 : 0);
        CU_ASSERT_STRING_EQUAL(two->optimizer, is_b ? "adam" : "sgd");
        CU_ASSERT_EQUAL(one->lr + two->lr, a->lr + b->lr);
        CU_ASSERT_EQUAL(one->batch + two->batch, a->batch + b->batch);
        CU_ASSERT_EQUAL(one->n, a->n);
        optimizer += is_b;
        rate += one->lr == b->lr;
        batches += one->batch == b->batch;
    }
    CU_ASSERT(optimizer > SEEDS / 4 - 90 && optimizer < SEEDS / 4 + 90);
    CU_ASSERT(rate > SEEDS / 2 - 100 && rate < SEEDS / 2 + 100);
    CU_ASSERT(batches > 3 * SEEDS / 4 - 90 && batches < 3 * SEEDS / 4 + 90);
}

/* clip_norm cannot come to a vertex that releases its update by its own word. */
SW_TEST("updates that cannot be mixed stay")
{
    sw_genome *a = genome_chain(8), *b = genome_chain(8);
    a->vertices[1].update = SW_UPDATE_RELEASE;
    b->update = SW_UPDATE_AFTER;
    b->clip_norm = 1;
    OK(swi_genome_check(a, NULL));
    OK(swi_genome_check(b, NULL));
    for (uint64_t seed = 0; seed < 20; seed++) {
        sw_genome *one = NULL, *two = NULL;
        cross(&one, &two, a, b, &SW_OPTS(sw_crossover_opts, .optimizer = 1, .seed = seed));
        CU_ASSERT(mutant_is_sound(one, a, b));
        CU_ASSERT(mutant_is_sound(two, b, a));
        CU_ASSERT_EQUAL(one->clip_norm, 0);
        CU_ASSERT_EQUAL(two->clip_norm, 1);
    }
}

/* ---- control ----------------------------------------------------------------------------- */

SW_TEST("other tasks are refused")
{
    sw_genome *a = genome_chain(8), *out = NULL;
    const sw_genome *b = genome_of(genome_text);
    REFUSED(sw_genome_crossover(&out, NULL, a, b, NULL), SW_INVALID, "one task");
    REFUSED(sw_genome_crossover(NULL, NULL, a, a, NULL), SW_INVALID, "both be NULL");
    sw_crossover_opts opts = SW_OPTS(sw_crossover_opts, .rate = 2);
    REFUSED(sw_genome_crossover(&out, NULL, a, a, &opts), SW_INVALID, "rate must be 0 to 1");
    opts = SW_OPTS(sw_crossover_opts, .deviation = -1);
    REFUSED(sw_genome_crossover(&out, NULL, a, a, &opts), SW_INVALID, "deviation");
    CU_ASSERT_PTR_NULL(out);
}

typedef struct {
    const sw_genome *a, *b;
    uint64_t seed;
} crossing;

static sw_status cross_once(void *arg)
{
    const crossing *c = arg;
    sw_crossover_opts opts = always;
    sw_genome *one = NULL, *two = NULL;
    opts.seed = c->seed;
    const sw_status status = sw_genome_crossover(&one, &two, c->a, c->b, &opts);
    CU_ASSERT_EQUAL(status == SW_OK, one != NULL);
    CU_ASSERT_EQUAL(status == SW_OK, two != NULL);
    sw_genome_destroy(one);
    sw_genome_destroy(two);
    return status;
}

SW_TEST("no memory leaves nothing")
{
    crossing c = {genome_chain(14), genome_chain(10), 0};
    uint64_t sites = 0;
    OK(cross_once(&c));
    for (c.seed = 0; c.seed < 3; c.seed++)
        sites += sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, cross_once, &c);
    sw_note("%llu sites", (unsigned long long)sites);
    CU_ASSERT(sites > 60);
}
