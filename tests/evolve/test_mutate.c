/* Mutations one by one, against results that were worked out by hand. */
#include "tests/evolve/mutants.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("mutate")

#define TAIL(in) TAIL_OF(in, "3")

static const char chain[] =
    CONV("c1", "input", 8, "") RELU("r1", "c1") CONV("c2", "r1", 4, "") TAIL("c2");
static const char residual[] =
    CONV("c1", "input", 8, "") RELU("r1", "c1") CONV("c2", "r1", 8, "")
        V("sum", "add", "\"r1\", \"c2\"") END CONV("c3", "sum", 6, "") TAIL("c3");
static const char fork[] = CONV("c1", "input", 4, "") CONV("a", "c1", 3, "")
    CONV("b", "c1", 5, "") V("both", "concat", "\"a\", \"c1\", \"b\"")
        END V("norm", "batch_norm", "\"both\"") END CONV("c2", "norm", 6, "") TAIL("c2");
static const char flattened[] = CONV("c1", "input", 2, "")
    V("pool", "max_pool", "\"c1\"") ", \"kernel\": 2, \"stride\": 2" END V(
        "flat", "flatten", "\"pool\"") END V("out", "linear", "\"flat\"") ", \"size\": 3" LAST;

static sw_genome *base(const char *vertices)
{
    return mutant_base("[2, 8, 8]", vertices);
}

static void list_is(const int32_t *list, uint32_t n, const int32_t *want, uint32_t n_want)
{
    if (!SW_CHECK(list != NULL && n == n_want, "%u, not %u", n, n_want))
        return;
    for (uint32_t i = 0; i < n; i++)
        SW_CHECK(list[i] == want[i], "number %u is %d, not %d", i, list[i], want[i]);
}
#define LIST_IS(of, what, ...)                                                                 \
    list_is((of)->what, (of)->n_##what, (const int32_t[]){__VA_ARGS__},                        \
            sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void said(const mutant_notes *notes, const char *text, int exact)
{
    CU_ASSERT_EQUAL(notes->n, 1);
    CU_ASSERT_STRING_EQUAL(notes->list[0].text, text);
    CU_ASSERT_EQUAL(notes->list[0].exact, exact);
}

/* ---- sizes ------------------------------------------------------------------------------- */

/* New outputs are after those that were there, and readers have columns for them. */
SW_TEST("sizes grow at the end")
{
    mutant_notes notes;
    const sw_genome *a = base(chain);
    sw_genome *g = mutant_of(a, SW_MUTATE_SIZE, "c2", 0.5, 0.5, 1, &notes);
    said(&notes, "c2: 4 to 6 outputs", 1);
    CU_ASSERT_STRING_EQUAL(notes.list[0].vertex, "c2");
    LIST_IS(mutant_vertex(g, "c2"), rows, 0, 1, 2, 3, -1, -1);
    LIST_IS(mutant_vertex(g, "out"), cols, 0, 1, 2, 3, -1, -1);
    CU_ASSERT(mutant_is_sound(g, a, NULL));
    g = mutant_of(a, SW_MUTATE_SIZE, "c2", 0.01, 0.01, 1, &notes);
    said(&notes, "c2: 4 to 5 outputs", 1);
}

/* Of those that go utility decides; their order stays. */
SW_TEST("sizes shrink by utility")
{
    const sw_genome *a = base(chain);
    static const float of_c2[] = {0.5f, 0.1f, 0.9f, 0.2f};
    const sw_neuron_utility utility = {.vertex = 3, .n = 4, .values = of_c2};
    const sw_mutation half = {
        .kind = SW_MUTATE_SIZE, .probability = 1, .low = -0.5, .high = -0.5};
    mutant_notes notes = {.n = 0};
    sw_genome *g = NULL;
    const sw_mutate_opts opts =
        SW_OPTS(sw_mutate_opts, .mutations = &half, .n_mutations = 1, .utilities = &utility,
                .n_utilities = 1, .record = mutant_note, .record_user = &notes);
    OK(sw_genome_mutate(&g, a, &opts));
    CU_ASSERT_FATAL(g != NULL);
    AFTER(sw_genome_destroy, g);
    CU_ASSERT_EQUAL(notes.n, 2);
    CU_ASSERT(!notes.all_exact);
    CU_ASSERT_EQUAL(mutant_vertex(g, "c1")->size, 4);
    LIST_IS(mutant_vertex(g, "c2"), rows, 0, 2);
    LIST_IS(mutant_vertex(g, "out"), cols, 0, 2);
}

/* Added vertices have one size; no vertex becomes empty, and logits stay. */
SW_TEST("sizes stay aligned")
{
    mutant_notes notes;
    const sw_genome *a = base(residual);
    sw_genome *g = mutant_of(a, SW_MUTATE_SIZE, "c2", 0.25, 0.25, 3, &notes);
    CU_ASSERT_EQUAL(mutant_vertex(g, "c1")->size, 10);
    CU_ASSERT_EQUAL(mutant_vertex(g, "c2")->size, 10);
    CU_ASSERT_EQUAL(notes.n, 2);
    CU_ASSERT(mutant_is_sound(g, a, NULL));
    a = mutant_base("[2, 8, 8]", CONV("c1", "input", 1, "") TAIL("c1"));
    g = mutant_of(a, SW_MUTATE_SIZE, NULL, -0.9, -0.1, 3, &notes);
    CU_ASSERT_EQUAL(notes.n, 0);
    CU_ASSERT_EQUAL(swi_genome_hash(g), swi_genome_hash(a));
}

/* ---- vertices ---------------------------------------------------------------------------- */

/* The vertex after begins as the identity, and has no parent. */
SW_TEST("vertices are put in between")
{
    const sw_genome *a = base(residual);
    for (uint64_t seed = 0; seed < 40; seed++) {
        mutant_notes notes;
        sw_genome *g = mutant_of(a, SW_MUTATE_ADD_VERTEX, "c3", 0, 0, seed, &notes);
        CU_ASSERT(mutant_is_sound(g, a, NULL));
        CU_ASSERT_EQUAL_FATAL(notes.n, 1);
        const swi_vertex *c3 = mutant_vertex(g, "c3"), *gap = mutant_vertex(g, "gap");
        CU_ASSERT(g->n > a->n);
        CU_ASSERT(&g->vertices[gap->in[0]] != c3);
        CU_ASSERT_EQUAL(g->vertices[gap->in[0]].channels, 6);
        CU_ASSERT_EQUAL(mutant_vertex(g, notes.list[0].vertex)->parent, SWI_NO_PARENT);
        g = mutant_of(a, SW_MUTATE_ADD_VERTEX, "input", 0, 0, seed, &notes);
        CU_ASSERT_EQUAL(notes.n, 0);
        g = mutant_of(a, SW_MUTATE_ADD_VERTEX, "out", 0, 0, seed, &notes);
        CU_ASSERT_EQUAL(notes.n, 0);
    }
}

/* A layer is passed by: what it gave is tied to what it read. */
SW_TEST("layers are removed")
{
    mutant_notes notes;
    const sw_genome *a = base(chain);
    sw_genome *g = mutant_of(a, SW_MUTATE_REMOVE_VERTEX, "c2", 0, 0, 1, &notes);
    said(&notes, "c2: conv2d removed", 0);
    CU_ASSERT(mutant_is_sound(g, a, NULL));
    CU_ASSERT_PTR_NULL(mutant_vertex(g, "c2"));
    CU_ASSERT_EQUAL(g->n, a->n - 1);
    const swi_vertex *out = mutant_vertex(g, "out"), *c1 = mutant_vertex(g, "c1");
    CU_ASSERT_EQUAL(c1->size, out->n_cols);
    for (uint32_t i = 0; i < 4 && i < out->n_cols; i++)
        CU_ASSERT_EQUAL(out->cols[i], (int32_t)i);
    g = mutant_of(a, SW_MUTATE_REMOVE_VERTEX, "r1", 0, 0, 1, &notes);
    said(&notes, "r1: activation removed", 0);
    LIST_IS(mutant_vertex(g, "c2"), cols, 0, 1, 2, 3, 4, 5, 6, 7);
    /* The first layer: what reads it has as many columns as the input. */
    g = mutant_of(a, SW_MUTATE_REMOVE_VERTEX, "c1", 0, 0, 1, &notes);
    LIST_IS(mutant_vertex(g, "c2"), cols, 0, 1);
    static const char *const stay[] = {"input", "gap", "out"};
    for (int i = 0; i < 3; i++) {
        g = mutant_of(a, SW_MUTATE_REMOVE_VERTEX, stay[i], 0, 0, 1, &notes);
        CU_ASSERT_EQUAL(notes.n, 0);
        CU_ASSERT_EQUAL(swi_genome_hash(g), swi_genome_hash(a));
    }
}

/* Of a join one input goes on; what made the others goes with it. */
SW_TEST("joins are removed with dead ends")
{
    int with_branch = 0, without = 0;
    const sw_genome *a = base(residual);
    for (uint64_t seed = 0; seed < 20; seed++) {
        mutant_notes notes;
        sw_genome *g = mutant_of(a, SW_MUTATE_REMOVE_VERTEX, "sum", 0, 0, seed, &notes);
        CU_ASSERT(mutant_is_sound(g, a, NULL));
        CU_ASSERT_EQUAL(notes.n, 1);
        with_branch += mutant_vertex(g, "c2") != NULL;
        without += mutant_vertex(g, "c2") == NULL;
    }
    CU_ASSERT(with_branch > 2 && without > 2);
    /* A branch of one layer goes: the add would add the same twice, and goes too. */
    mutant_notes notes;
    sw_genome *g = mutant_of(a, SW_MUTATE_REMOVE_VERTEX, "c2", 0, 0, 1, &notes);
    CU_ASSERT_PTR_NULL(mutant_vertex(g, "sum"));
    said(&notes, "c2: conv2d removed, and 1 that it needed", 0);
    a = base(fork);
    for (uint64_t seed = 0; seed < 20; seed++) {
        g = mutant_of(a, SW_MUTATE_REMOVE_VERTEX, "both", 0, 0, seed, &notes);
        CU_ASSERT(mutant_is_sound(g, a, NULL));
        CU_ASSERT_PTR_NULL(mutant_vertex(g, "both"));
        if (mutant_vertex(g, "a") != NULL)
            LIST_IS(mutant_vertex(g, "c2"), cols, 0, 1, 2);
        else if (mutant_vertex(g, "b") != NULL)
            LIST_IS(mutant_vertex(g, "c2"), cols, 7, 8, 9, 10, 11);
        else
            LIST_IS(mutant_vertex(g, "c2"), cols, 3, 4, 5, 6);
    }
}

/* Elements of a flattened image that becomes larger are where they were, spread over it. */
SW_TEST("flattened images keep their columns")
{
    mutant_notes notes;
    const sw_genome *a = base(flattened);
    sw_genome *g = mutant_of(a, SW_MUTATE_REMOVE_VERTEX, "pool", 0, 0, 1, &notes);
    CU_ASSERT_EQUAL(notes.n, 1);
    CU_ASSERT(mutant_is_sound(g, a, NULL));
    const swi_vertex *out = mutant_vertex(g, "out");
    CU_ASSERT_EQUAL_FATAL(out->n_cols, 2 * 8 * 8);
    for (int c = 0; c < 2; c++)
        for (int y = 0; y < 8; y++)
            for (int x = 0; x < 8; x++) {
                const int32_t was = y % 2 || x % 2 ? -1 : c * 16 + y / 2 * 4 + x / 2;
                CU_ASSERT_EQUAL(out->cols[(c * 8 + y) * 8 + x], was);
            }
    /* An even window that grows makes it smaller: 8 x 8 by 4 in steps of 2 are 3 x 3. */
    g = mutant_of(a, SW_MUTATE_KERNEL, "pool", 2, 2, 1, &notes);
    said(&notes, "pool: kernel 2 to 4", 0);
    CU_ASSERT(mutant_is_sound(g, a, NULL));
    LIST_IS(mutant_vertex(g, "out"), cols, 0, 1, 2, 4, 5, 6, 8, 9, 10, 16, 17, 18, 20, 21, 22,
            24, 25, 26);
}

/* ---- edges ------------------------------------------------------------------------------- */

/* By an add, or a concat with new columns: half of the time each. */
SW_TEST("edges are added")
{
    int adds = 0, concats = 0;
    const sw_genome *a = base(chain);
    for (uint64_t seed = 0; seed < 60; seed++) {
        mutant_notes notes;
        sw_genome *g = mutant_of(a, SW_MUTATE_ADD_EDGE, "c1", 0, 0, seed, &notes);
        CU_ASSERT(mutant_is_sound(g, a, NULL));
        CU_ASSERT_EQUAL_FATAL(notes.n, 1);
        CU_ASSERT_EQUAL(g->n, a->n + 1);
        adds += !notes.list[0].exact;
        concats += notes.list[0].exact;
        if (!notes.list[0].exact)
            continue;
        said(&notes, "c1: beside what c2 reads", 1);
        LIST_IS(mutant_vertex(g, "c2"), cols, 0, 1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1,
                -1, -1);
        const swi_vertex *join = &g->vertices[mutant_vertex(g, "c2")->in[0]];
        CU_ASSERT_EQUAL(join->kind, SW_VERTEX_CONCAT);
        CU_ASSERT_STRING_EQUAL(g->vertices[join->in[0]].name, "r1");
        CU_ASSERT_STRING_EQUAL(g->vertices[join->in[1]].name, "c1");
    }
    CU_ASSERT(adds > 15 && concats > 15);
}

/* A join that is there already reads one more. */
SW_TEST("joins are extended")
{
    int extended = 0;
    const sw_genome *a = base(fork), *b = base(residual);
    for (uint64_t seed = 0; seed < 60; seed++) {
        mutant_notes notes;
        sw_genome *g = mutant_of(b, SW_MUTATE_ADD_EDGE, "c1", 0, 0, seed, &notes);
        extended += mutant_vertex(g, "sum")->n_in == 3;
        g = mutant_of(a, SW_MUTATE_ADD_EDGE, "c1", 0, 0, seed, &notes);
        CU_ASSERT(mutant_is_sound(g, a, NULL));
    }
    CU_ASSERT(extended > 3);
}

/* An add that is left with one input goes; a concat's readers lose the columns. */
SW_TEST("edges are removed")
{
    mutant_notes notes;
    const sw_genome *a = base(residual);
    sw_genome *g = mutant_of(a, SW_MUTATE_REMOVE_EDGE, NULL, 0, 0, 1, &notes);
    said(&notes, "sum: reads r1 no more", 0);
    CU_ASSERT(mutant_is_sound(g, a, NULL));
    CU_ASSERT_PTR_NULL(mutant_vertex(g, "sum"));
    CU_ASSERT_STRING_EQUAL(g->vertices[mutant_vertex(g, "c3")->in[0]].name, "c2");
    a = base(fork);
    g = mutant_of(a, SW_MUTATE_REMOVE_EDGE, NULL, 0, 0, 1, &notes);
    said(&notes, "both: reads c1 no more", 0);
    CU_ASSERT(mutant_is_sound(g, a, NULL));
    CU_ASSERT_EQUAL(mutant_vertex(g, "both")->n_in, 2);
    LIST_IS(mutant_vertex(g, "norm"), rows, 0, 1, 2, 7, 8, 9, 10, 11);
    LIST_IS(mutant_vertex(g, "c2"), cols, 0, 1, 2, 7, 8, 9, 10, 11);
    /* All that is left is read by one each. */
    sw_genome *again = mutant_of(g, SW_MUTATE_REMOVE_EDGE, NULL, 0, 0, 1, &notes);
    CU_ASSERT_EQUAL(notes.n, 0);
    CU_ASSERT_EQUAL(swi_genome_hash(again), swi_genome_hash(g));
}

/* ---- kernels and kinds ------------------------------------------------------------------- */

SW_TEST("kernels change in steps of two")
{
    int seen[16] = {0};
    mutant_notes notes;
    const sw_genome *a = base(chain);
    for (uint64_t seed = 0; seed < 40; seed++) {
        sw_genome *g = mutant_of(a, SW_MUTATE_KERNEL, "c1", -4, 4, seed, &notes);
        CU_ASSERT_EQUAL_FATAL(notes.n, 1);
        const int k = mutant_vertex(g, "c1")->kernel;
        CU_ASSERT_EQUAL(notes.list[0].exact, k > 3);
        seen[k & 15]++;
    }
    CU_ASSERT(seen[1] > 5 && seen[5] > 5 && seen[7] > 5);
    CU_ASSERT_EQUAL(seen[1] + seen[5] + seen[7], 40);
    /* At most one over the image. */
    a = mutant_base("[2, 4, 4]", CONV("c1", "input", 2, "") TAIL("c1"));
    sw_genome *g = mutant_of(a, SW_MUTATE_KERNEL, NULL, 2, 8, 1, &notes);
    CU_ASSERT_EQUAL(mutant_vertex(g, "c1")->kernel, 5);
    (void)mutant_of(g, SW_MUTATE_KERNEL, NULL, 2, 8, 1, &notes);
    CU_ASSERT_EQUAL(notes.n, 0);
}

SW_TEST("kinds are exchanged")
{
    mutant_notes notes;
    const sw_genome *a = base(flattened);
    sw_genome *g = mutant_of(a, SW_MUTATE_POOL, NULL, 0, 0, 1, &notes);
    said(&notes, "pool: kind max_pool to avg_pool", 0);
    g = mutant_of(g, SW_MUTATE_POOL, NULL, 0, 0, 1, &notes);
    said(&notes, "pool: kind avg_pool to max_pool", 0);
    a = base(chain);
    g = mutant_of(a, SW_MUTATE_POOL, NULL, 0, 0, 1, &notes);
    said(&notes, "gap: kind global_avg_pool to global_max_pool", 0);
    bool other[64] = {false};
    int kinds = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        g = mutant_of(a, SW_MUTATE_ACTIVATION, NULL, 0, 0, seed, &notes);
        const int activation = mutant_vertex(g, "r1")->activation;
        CU_ASSERT_EQUAL(notes.n, 1);
        CU_ASSERT_NOT_EQUAL(activation, mutant_vertex(a, "r1")->activation);
        kinds += !other[activation];
        other[activation] = true;
    }
    CU_ASSERT(kinds >= 2);
}

/* ---- training ---------------------------------------------------------------------------- */

SW_TEST("training changes within its bounds")
{
    mutant_notes notes;
    sw_genome *g = base(chain), *a = g;
    for (uint64_t seed = 0; seed < 400; seed++) {
        const double share = seed % 2 == 0 ? 0.9 : -0.6;
        g->lr = seed < 200 ? 0.9f : 2e-6f;
        g = mutant_of(g, SW_MUTATE_RATE, NULL, share, share, seed, &notes);
        CU_ASSERT(notes.n == 1 && notes.all_exact);
        const double was = seed < 200 ? (double)0.9f : (double)2e-6f;
        CU_ASSERT_EQUAL(g->lr, (float)fmin(fmax(was * (1 + share), 1e-6), 1));
    }
    g = a;
    for (uint64_t seed = 0; seed < 100; seed++) {
        const char *was = g->optimizer;
        sw_genome *next = mutant_of(g, SW_MUTATE_OPTIMIZER, NULL, 0, 0, seed, &notes);
        CU_ASSERT(strcmp(next->optimizer, was) != 0);
        CU_ASSERT_EQUAL(next->lr, g->lr);
        next = mutant_of(next, SW_MUTATE_OPTIMIZER_PART, NULL, 0, 0, seed, &notes);
        CU_ASSERT(next->weight_decay == 0 || next->weight_decay == 1e-4f);
        CU_ASSERT(next->momentum == 0 || next->momentum == 0.9f);
        CU_ASSERT(next->clip == 0 || next->clip == 1);
        CU_ASSERT(notes.n == 1 && notes.all_exact);
        g = next;
    }
}

SW_TEST("batches are multiples of eight")
{
    mutant_notes notes;
    sw_genome *g = base(chain);
    int moved = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        sw_genome *next = mutant_of(g, SW_MUTATE_BATCH, NULL, 0, 0, seed, &notes);
        CU_ASSERT(next->batch >= 8 && next->batch % 8 == 0);
        CU_ASSERT_EQUAL(notes.n, next->batch != g->batch);
        moved += notes.n;
        g = next;
    }
    CU_ASSERT(moved > 150);
}

/* ---- growth ------------------------------------------------------------------------------ */

typedef struct {
    uint64_t most;
    int asked;
} bound;

static int within(const sw_genome *g, void *user)
{
    bound *b = user;
    b->asked++;
    return swi_genome_parameters(g) <= b->most;
}

static sw_status grow(sw_genome **out, const sw_genome *a, double high, bound *b)
{
    const sw_mutation one = {.kind = SW_MUTATE_GROW, .probability = 1, .high = high};
    const sw_mutate_opts opts = SW_OPTS(sw_mutate_opts, .mutations = &one, .n_mutations = 1,
                                        .fits = b->most > 0 ? within : NULL, .fits_user = b);
    return sw_genome_mutate(out, a, &opts);
}

/* Parameters when all sizes but the logits' grow by a share: the reference, by itself. */
static uint64_t grown_parameters(double share)
{
    const int64_t a = 64 + (int64_t)ceil(share * 64 - 1e-9);
    const int64_t b = 32 + (int64_t)ceil(share * 32 - 1e-9);
    return (uint64_t)(a * 2 * 9 + a + b * a * 9 + b + 3 * b + 3);
}

/* The share is the largest that fits, up to a 256th of the range, for any bound. */
SW_TEST("growth is the largest that fits")
{
    const sw_genome *a =
        base(CONV("c1", "input", 64, "") RELU("r1", "c1") CONV("c2", "r1", 32, "") TAIL("c2"));
    for (int i = 1; i < 60; i++) {
        bound b = {.most = grown_parameters(0) + (uint64_t)i * 1000};
        sw_genome *g = NULL;
        OK(grow(&g, a, 1, &b));
        CU_ASSERT_FATAL(g != NULL);
        AFTER(sw_genome_destroy, g);
        double share = 0;
        while (share < 1 && grown_parameters(share + 1.0 / 4096) <= b.most)
            share += 1.0 / 4096;
        const uint64_t least = grown_parameters(fmax(0, share - 1.0 / 256));
        const uint64_t got = swi_genome_parameters(g);
        SW_CHECK(got <= b.most && got >= least, "%llu of %llu, at least %llu",
                 (unsigned long long)got, (unsigned long long)b.most,
                 (unsigned long long)least);
        CU_ASSERT(b.asked <= 12);
    }
    sw_genome *g = NULL;
    bound none = {.most = 0};
    OK(grow(&g, a, 0.5, &none));
    CU_ASSERT_EQUAL(swi_genome_parameters(g), grown_parameters(0.5));
    sw_genome_destroy(g);
    bound full = {.most = grown_parameters(0)};
    OK(grow(&g, a, 0.5, &full));
    CU_ASSERT_EQUAL(swi_genome_hash(g), swi_genome_hash(a));
    sw_genome_destroy(g);
}

/* ---- control ----------------------------------------------------------------------------- */

static int refuse(const sw_genome *g, void *user)
{
    return *(int *)user;
}

/* A mutation that does not fit is undone, and not noted; a failure of `fits` is the call's. */
SW_TEST("nothing that does not fit stays")
{
    int answer = 0;
    mutant_notes notes = {.n = 0};
    const sw_genome *a = base(residual);
    sw_mutation all[SW_MUTATE_CUSTOM] = {{.kind = 0}};
    for (int i = 0; i < SW_MUTATE_CUSTOM; i++)
        all[i] = (sw_mutation){.kind = (sw_mutation_kind)i, .probability = 1};
    const sw_mutate_opts opts = SW_OPTS(
        sw_mutate_opts, .mutations = all, .n_mutations = SW_MUTATE_CUSTOM, .fits = refuse,
        .fits_user = &answer, .record = mutant_note, .record_user = &notes);
    sw_genome *g = NULL;
    OK(sw_genome_mutate(&g, a, &opts));
    CU_ASSERT_EQUAL(notes.n, 0);
    CU_ASSERT_EQUAL(swi_genome_hash(g), swi_genome_hash(a));
    CU_ASSERT(mutant_is_sound(g, a, NULL));
    sw_genome_destroy(g);
    g = NULL;
    answer = -(int)SW_NOMEM;
    REFUSED(sw_genome_mutate(&g, a, &opts), SW_NOMEM, "fits");
    CU_ASSERT_PTR_NULL(g);
}

/* Bounds of vertices and parameters hold at every single change. */
SW_TEST("bounds of mutations hold")
{
    const sw_genome *a = base(residual);
    const sw_mutation less = {
        .kind = SW_MUTATE_REMOVE_VERTEX, .probability = 1, .min_vertices = 6};
    sw_genome *g = NULL;
    OK(sw_genome_mutate(&g, a, &SW_OPTS(sw_mutate_opts, .mutations = &less, .n_mutations = 1)));
    CU_ASSERT(g->n < a->n && g->n >= 4); /* of 6 an add and its branch may go at once */
    sw_genome_destroy(g);
    const sw_mutation more = {
        .kind = SW_MUTATE_SIZE, .probability = 1, .low = 1, .high = 2, .max_parameters = 100};
    OK(sw_genome_mutate(&g, a, &SW_OPTS(sw_mutate_opts, .mutations = &more, .n_mutations = 1)));
    CU_ASSERT_EQUAL(swi_genome_hash(g), swi_genome_hash(a));
    sw_genome_destroy(g);
    const sw_mutation add = {.kind = SW_MUTATE_ADD_VERTEX, .probability = 1};
    for (uint32_t most = a->n; most < a->n + 6; most++) {
        OK(sw_genome_mutate(&g, a,
                            &SW_OPTS(sw_mutate_opts, .mutations = &add, .n_mutations = 1,
                                     .max_vertices = most)));
        CU_ASSERT(g->n <= most);
        sw_genome_destroy(g);
    }
}

/* The formula, worked out with other numbers than the code's. */
SW_TEST("probabilities follow utility")
{
    static const double us[] = {0, 0.01, 0.25, 0.5, 1, 4};
    for (int i = 0; i < 6; i++) {
        const double u = us[i], m = 4, a = 1, p = 0.1;
        const double high = exp(log(p) * (2 * 2 - sqrt(u)) / (2 * 2 - 1));
        const double low = exp(log(p) * (2 * 16 - 1) / (2 * 16 - u * u));
        CU_ASSERT_DOUBLE_EQUAL(swi_weighed(p, SW_WEIGH_HIGH, u, m, a), high, 1e-12);
        CU_ASSERT_DOUBLE_EQUAL(swi_weighed(p, SW_WEIGH_LOW, u, m, a), low, 1e-12);
        CU_ASSERT_EQUAL(swi_weighed(p, SW_WEIGH_NOTHING, u, m, a), p);
    }
    CU_ASSERT_EQUAL(swi_weighed(0.3, SW_WEIGH_HIGH, 0, 0, 0), 0.3);
    CU_ASSERT_EQUAL(swi_weighed(0, SW_WEIGH_LOW, 1, 2, 1), 0);
    CU_ASSERT_EQUAL(swi_weighed(1, SW_WEIGH_HIGH, 1, 2, 1), 1);
}

/* Over many seeds each vertex is changed as often as its probability says. */
SW_TEST("vertices are chosen by their probability")
{
    enum { SEEDS = 4000 };
    const sw_genome *a = base(residual);
    static const float values[3][8] = {{4, 4, 4, 4, 4, 4, 4, 4},
                                       {1, 1, 1, 1, 1, 1, 1, 1},
                                       {0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f}};
    static const char *const names[3] = {"c1", "c2", "c3"};
    sw_neuron_utility utilities[3];
    double mean = 0;
    for (int i = 0; i < 3; i++) {
        const swi_vertex *v = mutant_vertex(a, names[i]);
        utilities[i] = (sw_neuron_utility){
            .vertex = (uint32_t)(v - a->vertices), .n = v->channels, .values = values[i]};
        mean += (double)values[i][0] / 3;
    }
    for (int w = SW_WEIGH_NOTHING; w <= SW_WEIGH_LOW; w++) {
        const sw_mutation one = SW_INIT(.kind = SW_MUTATE_KERNEL, .weigh = (sw_weigh)w,
                                        .probability = 0.2, .low = 2, .high = 2);
        int changed[3] = {0};
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            sw_genome *g = NULL;
            OK(sw_genome_mutate(&g, a,
                                &SW_OPTS(sw_mutate_opts, .mutations = &one, .n_mutations = 1,
                                         .seed = seed, .utilities = utilities,
                                         .n_utilities = 3)));
            for (int i = 0; i < 3; i++)
                changed[i] += mutant_vertex(g, names[i])->kernel == 5;
            sw_genome_destroy(g);
        }
        for (int i = 0; i < 3; i++) {
            const double p = swi_weighed(0.2, (sw_weigh)w, (double)values[i][0], 4, mean);
            SW_CHECK(fabs(changed[i] - SEEDS * p) < 4 * sqrt(SEEDS * p * (1 - p)),
                     "%s, weighed %d: %d of %d, expected %.0f", names[i], w, changed[i], SEEDS,
                     SEEDS * p);
        }
    }
}

/* The default list makes one or two changes of a genome of 12 vertices. */
SW_TEST("the default mutations are few")
{
    enum { SEEDS = 1000 };
    const sw_genome *g = genome_chain(12);
    mutant_notes notes = {.n = 0};
    int none = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sw_genome *child = NULL;
        const int before = notes.n;
        OK(sw_genome_mutate(&child, g,
                            &SW_OPTS(sw_mutate_opts, .seed = seed, .record = mutant_note,
                                     .record_user = &notes)));
        none += notes.n == before;
        sw_genome_destroy(child);
    }
    sw_note("%.2f changes of a genome of %u vertices; %d of %d are as they were",
            (double)notes.n / SEEDS, g->n, none, SEEDS);
    CU_ASSERT(notes.n > SEEDS && notes.n < 3 * SEEDS);
}

SW_TEST("refusals name the mutation")
{
    sw_genome *a = base(chain), *g = NULL;
    static const struct {
        sw_mutation m;
        const char *part;
    } bad[] = {
        {{.kind = (sw_mutation_kind)99, .probability = 1}, "kind 99"},
        {{.kind = SW_MUTATE_SIZE, .probability = 1.5}, "probability"},
        {{.kind = SW_MUTATE_SIZE, .probability = NAN}, "probability"},
        {{.kind = SW_MUTATE_SIZE, .probability = 1, .low = 1, .high = 0.5}, "low"},
        {{.kind = SW_MUTATE_SIZE, .probability = 1, .low = -1, .high = 0.5}, "low"},
        {{.kind = SW_MUTATE_RATE, .probability = 1, .low = -1.5, .high = 0.5}, "low"},
        {{.kind = SW_MUTATE_GROW, .probability = 1, .low = -0.5, .high = 0.5}, "low"},
        {{.kind = SW_MUTATE_POOL, .probability = 1, .high = 1}, "no range"},
        {{.kind = SW_MUTATE_KERNEL, .probability = 1, .low = -1, .high = 1}, "step of two"},
        {{.kind = SW_MUTATE_KERNEL, .probability = 1, .low = 3, .high = 3}, "step of two"},
        {{.kind = SW_MUTATE_RATE, .probability = 1, .weigh = SW_WEIGH_LOW}, "weigh"},
        {{.kind = SW_MUTATE_SIZE, .probability = 1, .reserved = {1}}, "reserved"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const sw_mutate_opts opts =
            SW_OPTS(sw_mutate_opts, .mutations = &bad[i].m, .n_mutations = 1);
        REFUSED(sw_genome_mutate(&g, a, &opts), SW_INVALID, bad[i].part);
        CU_ASSERT_PTR_NULL(g);
    }
    const float one[1] = {1};
    sw_neuron_utility u = {.vertex = 99, .n = 1, .values = one};
    const sw_mutate_opts opts = SW_OPTS(sw_mutate_opts, .utilities = &u, .n_utilities = 1);
    REFUSED(sw_genome_mutate(&g, a, &opts), SW_INVALID, "vertex must be below");
    u.vertex = 2;
    REFUSED(sw_genome_mutate(&g, a, &opts), SW_INVALID, "parameters");
    u.vertex = 1;
    REFUSED(sw_genome_mutate(&g, a, &opts), SW_INVALID, "8 neurons");
    CU_ASSERT_STRING_EQUAL(sw_mutation_kind_name(SW_MUTATE_GROW), "grow");
    CU_ASSERT_PTR_NULL(sw_mutation_kind_name((sw_mutation_kind)SW_MUTATION_KINDS));
}
