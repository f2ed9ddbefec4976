/* Sizes that fit together: known cases. */
#include "tests/evolve/net_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("align")

/* Numbers of rows or columns, which end with -2. */
static bool is_list(const int32_t *numbers, uint32_t n, const int32_t *list)
{
    uint32_t k = 0;
    while (k < n && list[k] == numbers[k])
        k++;
    return k == n && list[n] == -2;
}
#define ROWS(g, i, ...)                                                                        \
    CU_ASSERT(is_list((g)->vertices[i].rows, (g)->vertices[i].n_rows,                          \
                      (const int32_t[]){__VA_ARGS__, -2}))
#define COLS(g, i, ...)                                                                        \
    CU_ASSERT(is_list((g)->vertices[i].cols, (g)->vertices[i].n_cols,                          \
                      (const int32_t[]){__VA_ARGS__, -2}))

SW_TEST("a chain changes in one place")
{
    sw_genome *g = scene_genome(3, 0, 0);
    const uint32_t a = aligned_linear(g, 0, 4);
    const uint32_t b = aligned_linear(g, aligned_through(g, a, SW_VERTEX_ACTIVATION), 2);
    aligned_end(g, b);
    OK(aligned_resize(g, a, 6));
    ROWS(g, a, 0, 1, 2, 3, -1, -1);
    COLS(g, a, 0, 1, 2);
    ROWS(g, b, 0, 1);
    COLS(g, b, 0, 1, 2, 3, -1, -1);
    OK(aligned_resize(g, a, 2));
    ROWS(g, a, 0, 1);
    COLS(g, b, 0, 1);
    OK(aligned_resize(g, a, 3)); /* what was lost stays lost */
    ROWS(g, a, 0, 1, -1);
    CU_ASSERT_EQUAL(g->vertices[b].size, 2);
    OK(swi_genome_check(g, NULL));
}

/* An add: both of its inputs change, and batch norms on the way. */
SW_TEST("an add takes its inputs along")
{
    sw_genome *g = scene_genome(3, 4, 4);
    const uint32_t a = aligned_conv(g, 0, 4, 1),
                   n = aligned_through(g, a, SW_VERTEX_BATCH_NORM);
    const uint32_t b = aligned_conv(g, n, 4, 1);
    const uint32_t sum = aligned_join(g, SW_VERTEX_ADD, n, b);
    aligned_end(g, sum);
    const float values[] = {1, 5, 2, 4}, others[] = {0, 0, 3, 0};
    const sw_neuron_utility utilities[] = {{.vertex = a, .n = 4, .values = values},
                                           {.vertex = b, .n = 4, .values = others}};
    const swi_wish wish = {sum, 2};
    const swi_align_opts opts = {
        .wishes = &wish, .n_wishes = 1, .utilities = utilities, .n_utilities = 2};
    swi_align_info info;
    OK(swi_align(g, &opts, &info)); /* 1, 5, 5, 4 */
    ROWS(g, a, 1, 2);
    ROWS(g, n, 1, 2);
    ROWS(g, b, 1, 2);
    COLS(g, b, 1, 2);
    COLS(g, g->n - 1, 1, 2);
    CU_ASSERT_EQUAL(info.dropped, 4);
    CU_ASSERT_EQUAL(info.added, 0);
    CU_ASSERT_TRUE(info.optimal);
    OK(swi_genome_check(g, NULL));
}

/* A concat beside a vertex of its size: the part that was wished, and its place there. */
SW_TEST("parts of a concat keep their places")
{
    sw_genome *g = scene_genome(3, 0, 0);
    const uint32_t a = aligned_linear(g, 0, 2), b = aligned_linear(g, 0, 3);
    const uint32_t c = aligned_join(g, SW_VERTEX_CONCAT, a, b), d = aligned_linear(g, 0, 5);
    aligned_end(g, aligned_join(g, SW_VERTEX_ADD, c, d));
    OK(aligned_resize(g, a, 3));
    ROWS(g, a, 0, 1, -1);
    ROWS(g, b, 0, 1, 2);
    ROWS(g, d, 0, 1, -1, 2, 3, 4);
    COLS(g, g->n - 1, 0, 1, -1, 2, 3, 4);
    OK(swi_genome_check(g, NULL));
}

SW_TEST("flattened channels come and go whole")
{
    sw_genome *g = scene_genome(1, 2, 2);
    const uint32_t a = aligned_conv(g, 0, 3, 1), f = aligned_through(g, a, SW_VERTEX_FLATTEN);
    const uint32_t b = aligned_linear(g, f, 12), sum = aligned_join(g, SW_VERTEX_ADD, f, b);
    aligned_end(g, sum);
    const float values[] = {2, 1, 3};
    const sw_neuron_utility utility = {.vertex = a, .n = 3, .values = values};
    const swi_wish wish = {b, 8};
    const swi_align_opts opts = {
        .wishes = &wish, .n_wishes = 1, .utilities = &utility, .n_utilities = 1};
    OK(swi_align(g, &opts, NULL));
    ROWS(g, a, 0, 2);
    ROWS(g, b, 0, 1, 2, 3, 8, 9, 10, 11);
    COLS(g, b, 0, 1, 2, 3, 8, 9, 10, 11);
    REFUSED(aligned_resize(g, b, 7), SW_UNSUPPORTED, "'v3': it cannot have 7 outputs");
    OK(aligned_resize(g, b, 12));
    ROWS(g, b, 0, 1, 2, 3, 8, 9, 10, 11, -1, -1, -1, -1);
    OK(swi_genome_check(g, NULL));
}

/* Summands may come in any order, and through a vertex in between. */
SW_TEST("flattened channels tie from both sides")
{
    sw_genome *g = scene_genome(1, 2, 2);
    const uint32_t a = aligned_conv(g, 0, 1, 1), f = aligned_through(g, a, SW_VERTEX_FLATTEN);
    const uint32_t b = aligned_linear(g, f, 4), c = aligned_linear(g, f, 4);
    const uint32_t x = aligned_join(g, SW_VERTEX_ADD, b, f);
    aligned_end(g, aligned_join(g, SW_VERTEX_ADD, c, aligned_join(g, SW_VERTEX_ADD, b, x)));
    OK(aligned_resize(g, a, 2));
    ROWS(g, b, 0, 1, 2, 3, -1, -1, -1, -1);
    ROWS(g, c, 0, 1, 2, 3, -1, -1, -1, -1);
    OK(swi_genome_check(g, NULL));
}

/* Where a channel lies across two parts of a concat, a new one would lie after it here, and
 * inside of it there: there are no new ones, but it may be wide. */
SW_TEST("a channel across parts of a concat has no new one after it")
{
    for (int between = 0; between < 2; between++) {
        sw_genome *g = scene_genome(1, 2, 2);
        const uint32_t a = aligned_conv(g, 0, 2, 1),
                       f = aligned_through(g, a, SW_VERTEX_FLATTEN);
        const uint32_t b = aligned_linear(g, f, 2), c = aligned_linear(g, f, 6);
        const uint32_t both = aligned_join(g, SW_VERTEX_CONCAT, b, c);
        const uint32_t y = aligned_linear(g, f, 8);
        uint32_t x = aligned_join(g, SW_VERTEX_ADD, both, between ? y : f);
        if (between)
            x = aligned_join(g, SW_VERTEX_CONCAT, x, aligned_join(g, SW_VERTEX_ADD, y, f));
        aligned_end(g, between ? x : aligned_join(g, SW_VERTEX_CONCAT, x, y));
        const float values[] = {2, 1};
        const sw_neuron_utility utility = {.vertex = a, .n = 2, .values = values};
        const swi_wish wish = {a, 3}, less = {c, 2};
        swi_align_opts opts = {
            .wishes = &wish, .n_wishes = 1, .utilities = &utility, .n_utilities = 1};
        OK(swi_align(g, &opts, NULL)); /* the second channel has new ones after it */
        ROWS(g, b, 0, 1);
        ROWS(g, c, 0, 1, 2, 3, 4, 5, -1, -1, -1, -1);
        opts = (swi_align_opts){.wishes = &less, .n_wishes = 1};
        OK(swi_align(g, &opts, NULL));
        ROWS(g, a, 0);
        ROWS(g, c, 0, 1);
        REFUSED(aligned_resize(g, a, 2), SW_UNSUPPORTED, "'v1'");
        OK(swi_genome_check(g, NULL));
    }
}

/* Two vertices that become one: the shorter one gets new outputs, or the longer one loses some,
 * whichever costs less. */
SW_TEST("ties make outputs one")
{
    sw_genome *g = scene_genome(3, 0, 0);
    const uint32_t a = aligned_linear(g, 0, 4), b = aligned_linear(g, a, 5);
    aligned_end(g, b);
    const swi_tie tie = {a, b};
    const swi_align_opts opts = {.ties = &tie, .n_ties = 1};
    OK(swi_align(g, &opts, NULL)); /* 1 of 5 is less than 1 of 4 */
    ROWS(g, a, 0, 1, 2, 3);
    ROWS(g, b, 0, 1, 2, 3);
    COLS(g, g->n - 1, 0, 1, 2, 3);

    sw_genome *h = scene_genome(3, 0, 0);
    const uint32_t c = aligned_linear(h, 0, 4), d = aligned_linear(h, c, 6);
    aligned_end(h, d);
    h->vertices[d].shield = SW_SHIELD_SIZE;
    OK(swi_align(h, &opts, NULL));
    ROWS(h, c, 0, 1, 2, 3, -1, -1);
    ROWS(h, d, 0, 1, 2, 3, 4, 5);
    COLS(h, d, 0, 1, 2, 3, -1, -1);
    OK(swi_genome_check(h, NULL));
}

/* A flattened image of 2 x 2 and a vector of 6: two whole channels, or one. */
SW_TEST("ties of flattened images take whole channels")
{
    sw_genome *g = scene_genome(1, 2, 2);
    const uint32_t a = aligned_conv(g, 0, 1, 1), f = aligned_through(g, a, SW_VERTEX_FLATTEN);
    const uint32_t b = aligned_linear(g, f, 6);
    aligned_end(g, b);
    const swi_tie tie = {f, b};
    const swi_align_opts opts = {.ties = &tie, .n_ties = 1};
    OK(swi_align(g, &opts, NULL));
    CU_ASSERT_EQUAL(g->vertices[f].channels, g->vertices[b].channels);
    ROWS(g, a, 0);
    ROWS(g, b, 0, 1, 2, 3);
    OK(swi_genome_check(g, NULL));
}

SW_TEST("groups of convolutions stay equal")
{
    sw_genome *g = scene_genome(3, 4, 4);
    const uint32_t a = aligned_conv(g, 0, 6, 1), b = aligned_conv(g, a, 4, 2);
    aligned_end(g, b);
    OK(aligned_resize(g, a, 8));
    ROWS(g, a, 0, 1, 2, -1, 3, 4, 5, -1);
    COLS(g, b, 0, 1, 2, -1, 3, 4, 5, -1);
    OK(aligned_resize(g, b, 2));
    ROWS(g, b, 0, 2);
    REFUSED(aligned_resize(g, a, 7), SW_UNSUPPORTED, "7 outputs in the place of 8");
    const swi_wish wish = {a, 9};
    const swi_align_opts opts = {.wishes = &wish, .n_wishes = 1, .relax = true};
    OK(swi_align(g, &opts, NULL)); /* 10: it must move towards 9 */
    CU_ASSERT_EQUAL(g->vertices[a].size, 10);
    OK(swi_genome_check(g, NULL));
}

SW_TEST("groups across parts of a concat stay equal")
{
    sw_genome *g = scene_genome(3, 4, 4);
    const uint32_t a = aligned_conv(g, 0, 2, 1), b = aligned_conv(g, 0, 4, 1);
    const uint32_t c = aligned_conv(g, aligned_join(g, SW_VERTEX_CONCAT, a, b), 4, 2);
    aligned_end(g, c);
    OK(aligned_resize(g, b, 6)); /* 2 + 2 and 4 */
    ROWS(g, a, 0, 1);
    ROWS(g, b, 0, -1, 1, 2, 3, -1);
    COLS(g, c, 0, 1, 2, -1, 3, 4, 5, -1);
    OK(aligned_resize(g, b, 5)); /* 1 + 2 and 3, or 3 + 1 and 4: one of `a`, either way */
    CU_ASSERT(g->vertices[a].size == 1 || g->vertices[a].size == 3);
    OK(swi_genome_check(g, NULL));
}

/* Input, last vertex and shields stay; what hangs on them is refused and says so. */
SW_TEST("what is fixed stays")
{
    sw_genome *g = scene_genome(4, 0, 0);
    const uint32_t a = aligned_linear(g, 0, 4), sum = aligned_join(g, SW_VERTEX_ADD, 0, a);
    const uint32_t b = aligned_linear(g, sum, 5);
    aligned_end(g, b);
    sw_genome *before = NULL;
    OK(sw_genome_copy(&before, g));
    REFUSED(aligned_resize(g, a, 5), SW_UNSUPPORTED, "'v1'");
    REFUSED(aligned_resize(g, g->n - 1, 5), SW_UNSUPPORTED, "5 outputs in the place of 10");
    REFUSED(aligned_resize(g, b, 0), SW_UNSUPPORTED, "0 outputs");
    REFUSED(aligned_resize(g, b, 5000), SW_UNSUPPORTED, "5000 outputs");
    g->vertices[b].shield = SW_SHIELD_SIZE;
    REFUSED(aligned_resize(g, b, 6), SW_UNSUPPORTED, "6 outputs");
    g->vertices[b].shield = 0;
    CU_ASSERT(aligned_same(before, g));
    sw_genome_destroy(before);
}

/* A size out of reach comes as near as can be. */
SW_TEST("relaxed wishes come as near as they can")
{
    sw_genome *g = scene_genome(4, 0, 0);
    const uint32_t a = aligned_linear(g, 0, 4), b = aligned_linear(g, 0, 6);
    const uint32_t sum = aligned_join(g, SW_VERTEX_CONCAT, a, b);
    g->vertices[b].shield = SW_SHIELD_SIZE;
    aligned_end(g, aligned_linear(g, sum, 3));
    const swi_wish wishes[] = {{sum, 3}, {a, 8}};
    swi_align_opts opts = {.wishes = wishes, .n_wishes = 1};
    REFUSED(swi_align(g, &opts, NULL), SW_UNSUPPORTED, "'v3'");
    opts.relax = true;
    OK(swi_align(g, &opts, NULL));
    CU_ASSERT_EQUAL(g->vertices[a].size, 1);
    CU_ASSERT_EQUAL(g->vertices[b].size, 6);
    opts = (swi_align_opts){.wishes = wishes + 1, .n_wishes = 1, .relax = true, .max_size = 5};
    OK(swi_align(g, &opts, NULL));
    CU_ASSERT_EQUAL(g->vertices[a].size, 5);
    OK(swi_genome_check(g, NULL));
}

/* Sizes that fit, of a vertex that would have more parameters than can be. */
SW_TEST("what shapes refuse leaves the genome as it was")
{
    sw_genome *g = scene_genome(4000, 0, 0), *before = NULL;
    const uint32_t a = aligned_linear(g, 0, 4);
    aligned_end(g, a);
    OK(sw_genome_copy(&before, g));
    const swi_wish wish = {a, 600000};
    const swi_align_opts opts = {.wishes = &wish, .n_wishes = 1, .max_size = 1000000};
    REFUSED(swi_align(g, &opts, NULL), SW_UNSUPPORTED, "'v1': it must have at most");
    CU_ASSERT(aligned_same(g, before));
    const swi_align_opts none = {.wishes = NULL};
    OK(swi_align(g, &none, NULL));
    CU_ASSERT(aligned_same(g, before));
    sw_genome_destroy(before);
}

/* Invalid options are named. */
SW_TEST("options are checked")
{
    sw_genome *g = scene_genome(3, 0, 0);
    aligned_end(g, aligned_linear(g, 0, 2));
    const float values[] = {1, (float)NAN};
    sw_neuron_utility utility = {.vertex = 1, .n = 2, .values = values};
    const swi_wish wish = {1, 1}, far = {9, 1};
    const swi_tie tie = {1, 9};
    swi_align_opts opts = {.wishes = &far, .n_wishes = 1};
    REFUSED(swi_align(g, &opts, NULL), SW_INVALID, "wish 0: its vertex must be below 3");
    opts = (swi_align_opts){.ties = &tie, .n_ties = 1};
    REFUSED(swi_align(g, &opts, NULL), SW_INVALID, "tie 0: its vertex must be below 3");
    opts = (swi_align_opts){
        .wishes = &wish, .n_wishes = 1, .utilities = &utility, .n_utilities = 1};
    REFUSED(swi_align(g, &opts, NULL), SW_INVALID, "'v1': each must be finite (output 1");
    utility.n = 3;
    REFUSED(swi_align(g, &opts, NULL), SW_INVALID, "one for each of its 2 outputs (got 3)");
}

/* ---- memory ------------------------------------------------------------------------------ */

static sw_genome *swept, *swept_before;

static sw_status align_swept(void *arg)
{
    sw_genome *g = NULL;
    const swi_tie tie = {1, 4};
    const swi_wish wish = {2, 2};
    const swi_align_opts opts = {.wishes = &wish, .n_wishes = 1, .ties = &tie, .n_ties = 1};
    SW_TRY(sw_genome_copy(&g, swept));
    const sw_status status = swi_align(g, &opts, NULL);
    if (status != SW_OK)
        CU_ASSERT(aligned_same(g, swept_before));
    sw_genome_destroy(g);
    return status;
}

SW_TEST("refused memory leaves the genome as it was")
{
    swept = scene_genome(3, 4, 4);
    const uint32_t a = aligned_conv(swept, 0, 6, 1), b = aligned_conv(swept, a, 4, 2);
    const uint32_t n = aligned_through(swept, b, SW_VERTEX_BATCH_NORM);
    aligned_end(swept, aligned_conv(swept, n, 5, 1));
    OK(sw_genome_copy(&swept_before, swept));
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, align_swept, NULL);
    CU_ASSERT(sites > 10);
    sw_genome_destroy(swept_before);
}
