/* Mutations by the thousand, in chains: whatever is drawn, the result is a genome that trains.
 */
#include "alloc/base/sys.h"
#include "tests/evolve/mutants.h"
#include "tests/evolve/net_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("mutate random")

#define KINDS SW_MUTATE_CUSTOM

/* All kinds, often enough that each child has some. */
static void many(sw_mutation list[KINDS])
{
    for (int i = 0; i < KINDS; i++)
        list[i] =
            (sw_mutation){.kind = (sw_mutation_kind)i,
                          .weigh = i < SW_MUTATE_RATE ? (sw_weigh)(i % 3) : SW_WEIGH_NOTHING,
                          .probability = i < SW_MUTATE_RATE ? 0.1 : 0.2};
    list[SW_MUTATE_REMOVE_VERTEX].min_vertices = 5;
    list[SW_MUTATE_ADD_VERTEX].probability = 0.05;
    list[SW_MUTATE_GROW].high = 0.3;
    list[SW_MUTATE_GROW].max_parameters = 300000;
}

/* Any utility for each sized vertex. */
typedef struct {
    sw_neuron_utility list[256];
    float values[1 << 16];
    size_t n;
} utilities;

static void draw_utilities(utilities *u, const sw_genome *g, uint64_t seed)
{
    swi_draws d = swi_draws_of(seed, 7);
    size_t at = 0;
    u->n = 0;
    for (uint32_t i = 0; i < g->n && u->n < 256; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (!swi_vertex_is_sized(v) || at + (size_t)v->channels > 1 << 16)
            continue;
        u->list[u->n++] =
            (sw_neuron_utility){.vertex = i, .n = v->channels, .values = u->values + at};
        for (int64_t k = 0; k < v->channels; k++)
            u->values[at++] = (float)swi_draw_unit(&d);
    }
}

static sw_status mutate_once(sw_genome **out, const sw_genome *parent, uint64_t seed,
                             const sw_search_space *space, const utilities *u,
                             mutant_notes *notes)
{
    sw_mutation list[KINDS];
    many(list);
    const sw_mutate_opts opts = SW_OPTS(
        sw_mutate_opts, .mutations = list, .n_mutations = KINDS, .seed = seed, .space = space,
        .utilities = u->list, .n_utilities = u->n, .record = notes != NULL ? mutant_note : NULL,
        .record_user = notes, .max_vertices = 60, .max_size = 128);
    return sw_genome_mutate(out, parent, &opts);
}

static void check_child(sw_genome *child, const sw_genome *parent, const mutant_notes *notes)
{
    CU_ASSERT_FATAL(mutant_is_sound(child, parent, NULL));
    const bool same = swi_genome_hash(child) == swi_genome_hash(parent);
    if (notes->n <= 1)
        SW_CHECK(same == (notes->n == 0), "%d records, and the hash is %s", notes->n,
                 same ? "the same" : "another");
}

static const sw_task images = {sizeof images, 1, 28, 28, 10};
static const sw_task vectors = {sizeof vectors, 20, 0, 0, 4};

/* Of a task's space, or (NULL) of any kinds of vertices. */
static void draw_parent(sw_genome **out, const sw_search_space *space, const sw_task *task,
                        uint64_t seed)
{
    sw_dice dice = {seed + 1};
    if (task != NULL)
        OK(sw_genome_draw(out, space, task, seed));
    else
        OK(sw_genome_copy(out, scene_random(&dice)));
    if (task == NULL)
        scene_sweep();
}

/* Chains of 25 children of each drawn genome: sound, the same bytes by the same seed. */
static uint64_t walk_chains(const sw_task *task, uint64_t children, uint64_t counts[KINDS])
{
    static utilities u;
    uint64_t records = 0;
    sw_genome *parent = NULL;
    sw_search_space *space = genome_space(task != NULL ? task : &images);
    for (uint64_t i = 0; i < children; i++) {
        mutant_notes notes = {.n = 0};
        sw_genome *child = NULL, *again = NULL;
        if (i % 25 == 0) {
            sw_genome_destroy(parent);
            draw_parent(&parent, space, task, i);
        }
        draw_utilities(&u, parent, i);
        CU_ASSERT_FATAL(OK(mutate_once(&child, parent, i, space, &u, &notes)));
        check_child(child, parent, &notes);
        for (int k = 0; k < notes.n && k < MUTANT_NOTES; k++)
            counts[notes.list[k].kind]++;
        records += (uint64_t)notes.n;
        if (i % 16 == 0) {
            OK(mutate_once(&again, parent, i, space, &u, NULL));
            CU_ASSERT_STRING_EQUAL(genome_print(again), genome_print(child));
            sw_genome_destroy(again);
        }
        sw_genome_destroy(parent);
        parent = child;
    }
    sw_genome_destroy(parent);
    return records;
}

SW_TEST("random children are sound")
{
    uint64_t counts[KINDS] = {0};
    const uint64_t n = sw_tests_full() ? 10000 : 1000;
    const uint64_t records = walk_chains(&images, n / 2, counts) +
                             walk_chains(&vectors, n / 5, counts) +
                             walk_chains(NULL, n * 3 / 10, counts);
    sw_note("%llu changes of %llu children", (unsigned long long)records,
            (unsigned long long)n);
    for (int i = 0; i < KINDS; i++)
        SW_CHECK(counts[i] > n / 200, "%s: %llu", sw_mutation_kind_name((sw_mutation_kind)i),
                 (unsigned long long)counts[i]);
}

SW_TEST("random shields hold")
{
    static utilities u;
    const uint64_t n = sw_tests_full() ? 2000 : 300;
    sw_search_space *space = genome_space(&images);
    for (uint64_t i = 0; i < n; i++) {
        sw_genome *parent = NULL, *child = NULL;
        swi_draws d = swi_draws_of(i, 3);
        draw_parent(&parent, space, i % 2 == 0 ? &images : NULL, i);
        for (uint32_t v = 1; v < parent->n; v++) {
            snprintf(parent->vertices[v].name, SWI_VERTEX_NAME, "layer%u", v);
            if (swi_draw_happens(&d, 0.3))
                parent->vertices[v].shield = swi_draw_below(&d, SW_SHIELD_ALL + 1);
        }
        draw_utilities(&u, parent, i);
        OK(mutate_once(&child, parent, i, space, &u, NULL));
        CU_ASSERT_FATAL(mutant_is_sound(child, parent, NULL));
        CU_ASSERT_FATAL(mutant_keeps_shields(child, parent));
        sw_genome_destroy(child);
        sw_genome_destroy(parent);
    }
}

/* ---- a hard constraint ------------------------------------------------------------------- */

typedef struct {
    uint64_t most, asked, refused, last;
    bool twice;
} bound;

static int within(const sw_genome *g, void *user)
{
    bound *b = user;
    const uint64_t hash = swi_genome_hash(g);
    const int fits = swi_genome_parameters(g) <= b->most;
    b->twice = b->twice || (b->asked > 0 && hash == b->last);
    b->last = hash;
    b->asked++;
    b->refused += !fits;
    return fits;
}

/* No child is above the bound, and a genome is asked about once. */
SW_TEST("what does not fit is never seen")
{
    sw_mutation list[KINDS];
    uint64_t refused = 0;
    many(list);
    sw_search_space *space = genome_space(&images);
    for (uint64_t i = 0; i < (sw_tests_full() ? 2000u : 300u); i++) {
        sw_genome *parent = NULL, *child = NULL;
        OK(sw_genome_draw(&parent, space, &images, i % 50));
        bound b = {.most = swi_genome_parameters(parent) * 21 / 20};
        const sw_mutate_opts opts =
            SW_OPTS(sw_mutate_opts, .mutations = list, .n_mutations = KINDS, .seed = i,
                    .space = space, .fits = within, .fits_user = &b);
        OK(sw_genome_mutate(&child, parent, &opts));
        CU_ASSERT_FATAL(swi_genome_parameters(child) <= b.most);
        CU_ASSERT(!b.twice);
        refused += b.refused;
        sw_genome_destroy(child);
        sw_genome_destroy(parent);
    }
    sw_note("%llu were refused", (unsigned long long)refused);
    CU_ASSERT(refused > 100);
}

/* ---- memory and time --------------------------------------------------------------------- */

typedef struct {
    const sw_genome *parent;
    const sw_search_space *space;
    uint64_t seed;
} scene;

static sw_status mutate_scene(void *arg)
{
    static utilities u;
    const scene *s = arg;
    sw_genome *child = NULL;
    draw_utilities(&u, s->parent, s->seed);
    const sw_status status = mutate_once(&child, s->parent, s->seed, s->space, &u, NULL);
    CU_ASSERT_EQUAL(status == SW_OK, child != NULL);
    sw_genome_destroy(child);
    return status;
}

SW_TEST("no memory leaves nothing")
{
    uint64_t sites = 0;
    scene s = {.parent = genome_of(genome_text), .space = genome_space(&images)};
    for (s.seed = 0; s.seed < (sw_tests_full() ? 8u : 2u); s.seed++)
        sites += sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, mutate_scene, &s);
    sw_note("%llu sites", (unsigned long long)sites);
    CU_ASSERT(sites > 50);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of single mutations by the default list, and of crossovers. */
SW_TEST("times are small")
{
    enum { N = 1000 };
    static double mutate[N], cross[N];
    const sw_genome *a = genome_chain(20), *b = genome_chain(22);
    const sw_task task = {sizeof task, 3, 16, 16, 10};
    sw_search_space *space = genome_space(&task);
    for (uint64_t i = 0; i < N; i++) {
        sw_genome *child = NULL;
        uint64_t from = sw_clock_ns();
        OK(sw_genome_mutate(&child, a, &SW_OPTS(sw_mutate_opts, .seed = i, .space = space)));
        mutate[i] = (double)(sw_clock_ns() - from) / 1e3;
        sw_genome_destroy(child);
        from = sw_clock_ns();
        OK(sw_genome_crossover(&child, NULL, a, b,
                               &SW_OPTS(sw_crossover_opts, .seed = i, .vertices = 1)));
        cross[i] = (double)(sw_clock_ns() - from) / 1e3;
        sw_genome_destroy(child);
    }
    qsort(mutate, N, sizeof *mutate, by_size);
    qsort(cross, N, sizeof *cross, by_size);
    sw_note("20 vertices: mutation %.0f us (p99 %.0f), crossover of two %.0f us (p99 %.0f)",
            mutate[N / 2], mutate[N * 99 / 100], cross[N / 2], cross[N * 99 / 100]);
    CU_ASSERT(mutate[N / 2] < 20000);
}
