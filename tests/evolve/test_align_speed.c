/* How long alignment takes, printed; and searches that end by themselves in nets as they are.
 */
#include "tests/evolve/net_scene.h"
#include "alloc/base/sys.h"
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Convolutions and batch norms with residuals around every two; a stage's size doubles. */
static sw_genome *residual_net(uint32_t n)
{
    sw_genome *g = scene_genome(3, 8, 8);
    uint32_t x = aligned_conv(g, 0, 16, 1);
    for (int64_t size = 16; g->n < n; size = g->n % 40 < 8 ? size * 2 : size) {
        if (g->vertices[x].channels != size)
            x = aligned_conv(g, x, size, 1);
        const uint32_t a =
            aligned_through(g, aligned_conv(g, x, size, 1), SW_VERTEX_BATCH_NORM);
        const uint32_t r = aligned_through(g, a, SW_VERTEX_ACTIVATION);
        const uint32_t b =
            aligned_through(g, aligned_conv(g, r, size, 1), SW_VERTEX_BATCH_NORM);
        x = aligned_join(g, SW_VERTEX_ADD, x, b);
    }
    aligned_end(g, x);
    return g;
}

/* Forks of four; their concat is added to their input. */
static sw_genome *fork_net(uint32_t n, int64_t size)
{
    sw_genome *g = scene_genome(3, 8, 8);
    uint32_t x = aligned_conv(g, 0, 4 * size, 1);
    while (g->n < n) {
        uint32_t part[4];
        for (int k = 0; k < 4; k++)
            part[k] = aligned_conv(g, x, size, 1);
        const uint32_t a = aligned_join(g, SW_VERTEX_CONCAT, part[0], part[1]);
        const uint32_t b = aligned_join(g, SW_VERTEX_CONCAT, part[2], part[3]);
        x = aligned_join(g, SW_VERTEX_ADD, x, aligned_join(g, SW_VERTEX_CONCAT, a, b));
    }
    aligned_end(g, x);
    return g;
}

static sw_genome *wide_net(uint32_t n, int64_t size)
{
    sw_genome *g = scene_genome(size, 0, 0);
    uint32_t x = aligned_linear(g, 0, size);
    while (g->n < n)
        x = aligned_join(g, SW_VERTEX_ADD, x, aligned_linear(g, x, size));
    aligned_end(g, x);
    return g;
}

/* Each sized vertex wishes other sizes, one after the other. */
static void time_net(sw_genome *g, const char *name, const sw_neuron_utility *utilities,
                     size_t n_utilities)
{
    static double us[4096];
    int n = 0, stopped = 0, refused = 0;
    uint64_t nodes = 0;
    for (uint32_t i = 1; i + 1 < g->n; i++)
        for (int k = 0; swi_vertex_is_sized(&g->vertices[i]) && k < 4; k++) {
            sw_genome *own = NULL;
            const int64_t size = g->vertices[i].size;
            const int64_t to[] = {size - 1, size + 1, size - size / 5, size + size / 5};
            const swi_wish wish = {i, to[k]};
            const swi_align_opts opts = {.wishes = &wish,
                                         .n_wishes = 1,
                                         .utilities = utilities,
                                         .n_utilities = n_utilities};
            swi_align_info info;
            OK(sw_genome_copy(&own, g));
            const uint64_t begin = sw_clock_ns();
            const sw_status status = swi_align(own, &opts, &info);
            us[n++] = (double)(sw_clock_ns() - begin) / 1e3;
            if (status == SW_OK) {
                stopped += !info.optimal;
                nodes += info.nodes;
            }
            refused += status != SW_OK;
            sw_genome_destroy(own);
        }
    CU_ASSERT_EQUAL(stopped, 0);
    CU_ASSERT_EQUAL(refused, 0);
    qsort(us, (size_t)n, sizeof *us, by_size);
    sw_note("%s, %u vertices: median %.0f us, %.0f to %.0f at 99 of 100, %.0f nodes", name,
            g->n, us[n / 2], us[0], us[n * 99 / 100], (double)nodes / n);
}

static void alignment_of_one_wish_is_short(void)
{
    static float values[1000];
    sw_neuron_utility utilities[60];
    size_t n = 0;
    time_net(residual_net(100), "residuals", NULL, 0);
    time_net(fork_net(100, 32), "forks in residuals", NULL, 0);
    sw_genome *g = wide_net(58, 1000);
    g->vertices[0].channels = 1000;
    for (int e = 0; e < 1000; e++)
        values[e] = (float)(e * 7919 % 1000);
    for (uint32_t i = 1; i + 1 < g->n; i++)
        if (swi_vertex_is_sized(&g->vertices[i]))
            utilities[n++] = (sw_neuron_utility){.vertex = i, .n = 1000, .values = values};
    time_net(g, "30 of 1000 in one, by utility", utilities, n);
}

/* All sizes at once by a share, as near as they can. */
static void grow_all(sw_genome *g, const char *name, int percent)
{
    static swi_wish wishes[128];
    swi_align_opts opts = {.wishes = wishes, .relax = true};
    swi_align_info info = {0};
    for (uint32_t i = 1; i + 1 < g->n; i++)
        if (swi_vertex_is_sized(&g->vertices[i]))
            wishes[opts.n_wishes++] =
                (swi_wish){i, (g->vertices[i].size * (100 + percent) + 50) / 100};
    const uint64_t begin = sw_clock_ns();
    OK(swi_align(g, &opts, &info));
    CU_ASSERT_TRUE(info.optimal);
    sw_note("%s, by %d %%: %.0f us, %llu nodes", name, percent,
            (double)(sw_clock_ns() - begin) / 1e3, (unsigned long long)info.nodes);
}

static void all_wishes_at_once_are_short_too(void)
{
    const int shares[] = {3, 7, 20, -20};
    for (int k = 0; k < 4; k++) {
        grow_all(residual_net(100), "residuals", shares[k]);
        grow_all(fork_net(100, 32), "forks in residuals", shares[k]);
        grow_all(fork_net(100, 37), "uneven forks in residuals", shares[k]);
    }
}

static const sw_test tests[] = {
    {"alignment of one wish is short", alignment_of_one_wish_is_short},
    {"all wishes at once are short too", all_wishes_at_once_are_short_too},
};
SW_SUITE("align_speed", tests)
