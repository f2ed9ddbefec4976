/* Alignment of random genomes against plain code: what is tied stays tied, position by
 * position; who stays has the most utility; sizes are the best of all. */
#include "tests/evolve/align_scene.h"
#include <math.h>
#include <string.h>

#define VERTICES 24
#define ELEMENTS 512
#define CELLS 4

typedef struct {
    int n, at[ELEMENTS];
} elements;

/* ---- random genomes ---------------------------------------------------------------------- */

static uint32_t pick(sw_dice *dice, const sw_genome *g)
{
    return (uint32_t)sw_dice_below(dice, g->n);
}

static bool is_shape(const swi_vertex *a, const swi_vertex *b, bool channels)
{
    return a->height == b->height && (!channels || a->channels == b->channels);
}

/* Something behind vertex a; or nothing, where it does not fit. */
static void grow(sw_dice *dice, sw_genome *g, uint32_t a, uint32_t b)
{
    const swi_vertex *x = &g->vertices[a], *y = &g->vertices[b];
    const bool image = x->height > 0;
    const int64_t size = 1 + (int64_t)sw_dice_below(dice, 4);
    switch (sw_dice_below(dice, 8)) {
    case 0:
    case 1:
        (void)(image ? scene_conv(g, a, size, 1) : scene_linear(g, a, size));
        break;
    case 2: /* of the size of another one, for adds */
        if (y->channels <= 12)
            (void)(image ? scene_conv(g, a, y->channels, 1) : scene_linear(g, a, y->channels));
        break;
    case 3:
        (void)scene_through(g, a, image ? SW_VERTEX_BATCH_NORM : SW_VERTEX_ACTIVATION);
        break;
    case 4:
        if (image && sw_dice_below(dice, 2) == 0 && x->channels <= 6)
            (void)scene_through(g, a, SW_VERTEX_FLATTEN);
        else if (image && sw_dice_below(dice, 2) == 0)
            (void)scene_through(g, a, SW_VERTEX_GLOBAL_MAX_POOL);
        else if (image && x->channels % 2 == 0)
            (void)scene_conv(g, a, 2 * size, 2);
        else if (image)
            (void)scene_conv(g, a, 0, 0);
        break;
    case 5:
        if (is_shape(x, y, false) && x->channels + y->channels <= 24)
            (void)scene_join(g, SW_VERTEX_CONCAT, a, b);
        break;
    default:
        if (a != b && is_shape(x, y, true))
            (void)scene_join(g, SW_VERTEX_ADD, a, b);
    }
}

/* All that is read by nothing goes into the end. */
static void close_genome(sw_genome *g)
{
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0, n = g->n; i < n; i++) {
        if (swi_vertex_readers(g, i, NULL, 0) > 0)
            continue;
        const uint32_t end =
            g->vertices[i].height > 0 ? scene_through(g, i, SW_VERTEX_GLOBAL_AVG_POOL) : i;
        last = last == UINT32_MAX ? end : scene_join(g, SW_VERTEX_CONCAT, last, end);
    }
    scene_end(g, last);
}

static sw_genome *random_genome(sw_dice *dice, uint32_t n)
{
    sw_genome *g = NULL;
    const int64_t height = sw_dice_below(dice, 3) > 0 ? 2 : 0;
    const sw_task task = {sizeof task, 1 + (int64_t)sw_dice_below(dice, 4), height, height, 10};
    OK(swi_genome_new(&g, &task));
    for (int tries = 0; g->n < n && tries < 200; tries++)
        grow(dice, g, pick(dice, g), pick(dice, g));
    close_genome(g);
    for (uint32_t i = 1; i < g->n; i++)
        if (sw_dice_below(dice, 12) == 0)
            g->vertices[i].shield = SW_SHIELD_SIZE;
    return g;
}

/* ---- plain units --------------------------------------------------------------------------
 */

/* Labels of all outputs: equal ones are one unit. */
static void relabel(elements *all, uint32_t n, int from, int to)
{
    for (uint32_t i = 0; i < n; i++)
        for (int e = 0; e < all[i].n; e++)
            if (all[i].at[e] == from)
                all[i].at[e] = to;
}

static void append(elements *to, const elements *from, int times)
{
    for (int e = 0; e < from->n; e++)
        for (int k = 0; k < times; k++)
            to->at[to->n++] = from->at[e];
}

static int label_all(const sw_genome *g, elements *all)
{
    int n = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        elements *to = &all[i];
        to->n = 0;
        CU_ASSERT_FATAL(v->channels <= ELEMENTS);
        if (i == 0 || swi_vertex_is_sized(v))
            while (to->n < v->channels)
                to->at[to->n++] = n++;
        else if (v->kind == SW_VERTEX_FLATTEN)
            append(to, &all[v->in[0]],
                   (int)(g->vertices[v->in[0]].height * g->vertices[v->in[0]].width));
        else
            append(to, &all[v->in[0]], 1);
        for (uint32_t k = 1; k < v->n_in; k++)
            if (v->kind == SW_VERTEX_CONCAT)
                append(to, &all[v->in[k]], 1);
            else
                for (int e = 0; e < to->n; e++)
                    relabel(all, i + 1, all[v->in[k]].at[e], to->at[e]);
    }
    return n;
}

/* ---- what must hold behind every alignment ------------------------------------------------
 */

/* For each output now, which one it was; -1: a new one. */
static void map_all(const sw_genome *g, const sw_genome *old, elements *all)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        elements *to = &all[i];
        to->n = 0;
        CU_ASSERT_FATAL(v->channels <= ELEMENTS);
        if (i == 0 || swi_vertex_is_sized(v)) {
            while (to->n < v->channels) {
                to->at[to->n] = i == 0 ? to->n : v->rows[to->n];
                to->n++;
            }
            continue;
        }
        const swi_vertex *in = &old->vertices[v->in[0]];
        const int times = v->kind == SW_VERTEX_FLATTEN ? (int)(in->height * in->width) : 1;
        int before = 0;
        for (uint32_t k = 0; k < (v->kind == SW_VERTEX_CONCAT ? v->n_in : 1); k++) {
            const elements *x = &all[v->in[k]];
            for (int e = 0; e < x->n; e++)
                for (int t = 0; t < times; t++)
                    to->at[to->n++] = x->at[e] < 0 ? -1 : before + x->at[e] * times + t;
            before += (int)old->vertices[v->in[k]].channels;
        }
    }
}

static bool is_map(const int32_t *numbers, uint32_t n, const elements *map)
{
    bool same = (int)n == map->n;
    for (uint32_t k = 0; same && k < n; k++)
        same = numbers[k] == map->at[k];
    return same;
}

static bool is_rising(const int32_t *numbers, uint32_t n)
{
    int last = -1;
    for (uint32_t k = 0; k < n; k++) {
        if (numbers[k] >= 0 && numbers[k] <= last)
            return false;
        last = numbers[k] >= 0 ? numbers[k] : last;
    }
    return true;
}

static int count_wrong(const sw_genome *g, const sw_genome *old)
{
    static elements map[2 * VERTICES + 8];
    int wrong = 0;
    map_all(g, old, map);
    for (uint32_t i = 1; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (swi_vertex_has_parameters(v))
            wrong += !is_map(v->rows, v->n_rows, &map[i]) || !is_rising(v->rows, v->n_rows) ||
                     v->n_rows != v->channels;
        if (swi_vertex_is_sized(v))
            wrong += !is_map(v->cols, v->n_cols, &map[v->in[0]]) ||
                     v->n_cols != swi_vertex_reads(g, v) ||
                     (v->size != old->vertices[i].size && (v->shield & SW_SHIELD_SIZE) != 0);
        for (uint32_t k = 1; v->kind == SW_VERTEX_ADD && k < v->n_in; k++)
            wrong += map[v->in[k]].n != map[i].n ||
                     memcmp(map[v->in[k]].at, map[i].at, (size_t)map[i].n * sizeof(int)) != 0;
    }
    return wrong;
}

/* Positions that were made one are one: both are new ones, or what they were stood at the same
 * place. */
static int count_untied(const sw_genome *g, const sw_genome *old, uint32_t a, uint32_t b)
{
    static elements map[2 * VERTICES + 8];
    int wrong = g->vertices[a].channels != g->vertices[b].channels;
    map_all(g, old, map);
    for (int e = 0; e < map[a].n && !wrong; e++)
        wrong += map[a].at[e] >= 0 && map[b].at[e] >= 0 && map[a].at[e] != map[b].at[e];
    return wrong;
}

/* ---- many of them --------------------------------------------------------------------------
 */

/* Wishes, ties, both; with and without relaxing. */
static sw_status random_align(sw_dice *dice, sw_genome *g, bool ties, swi_tie *tie,
                              swi_align_info *info)
{
    swi_wish wishes[2];
    swi_align_opts opts = {.wishes = wishes, .ties = tie, .max_size = 16};
    opts.n_ties = ties ? 1 : 0;
    opts.n_wishes = ties ? sw_dice_below(dice, 2) : 1 + sw_dice_below(dice, 2);
    opts.relax = sw_dice_below(dice, 3) == 0;
    for (size_t k = 0; k < opts.n_wishes; k++) {
        do
            wishes[k].vertex = pick(dice, g);
        while (!swi_vertex_is_sized(&g->vertices[wishes[k].vertex]) &&
               sw_dice_below(dice, 4) > 0);
        wishes[k].size = 1 + (int64_t)sw_dice_below(
                                 dice, 2 * (uint64_t)g->vertices[wishes[k].vertex].channels);
    }
    *tie = (swi_tie){pick(dice, g), pick(dice, g)};
    const sw_status status = swi_align(g, &opts, info);
    for (size_t k = 0; status == SW_OK && !opts.relax && k < opts.n_wishes; k++)
        CU_ASSERT_EQUAL(g->vertices[wishes[k].vertex].channels, wishes[k].size);
    return status;
}

/* Whatever is wished and tied in whatever genome: it is refused and nothing has changed, or all
 * that was tied is still tied, by the same neurons. */
static void what_is_tied_stays_tied(void)
{
    sw_dice dice = {5};
    const int n = sw_tests_full() ? 30000 : 1500;
    int done = 0, wrong = 0, untied = 0, refused = 0, stopped = 0;
    for (int i = 0; i < n; i++) {
        sw_genome *g = random_genome(&dice, 4 + (uint32_t)sw_dice_below(&dice, VERTICES - 8));
        sw_genome *old = NULL;
        swi_tie tie;
        swi_align_info info;
        const bool ties = i % 3 == 0;
        OK(sw_genome_copy(&old, g));
        const sw_status status = random_align(&dice, g, ties, &tie, &info);
        if (status == SW_OK) {
            done++;
            stopped += !info.optimal;
            wrong += swi_genome_check(g, NULL) != SW_OK || count_wrong(g, old) != 0;
            untied += ties && count_untied(g, old, tie.a, tie.b) != 0;
        } else {
            refused += status == SW_UNSUPPORTED;
            wrong += !scene_same(g, old);
        }
        sw_genome_destroy(old);
        sw_genome_destroy(g);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(untied, 0);
    CU_ASSERT_EQUAL(done + refused, n);
    CU_ASSERT(done > n / 4 && refused > n / 20);
    sw_note("%d genomes: %d aligned, %d refused, %d searches stopped", n, done, refused,
            stopped);
}

static const sw_test tests[] = {
    {"what is tied stays tied", what_is_tied_stays_tied},
};
SW_SUITE("align_random", tests)
