/* Alignment of random genomes against plain code: what is tied stays tied, position by
 * position; who stays has the most utility; sizes are the best of all. */
#include "tests/evolve/net_scene.h"

SW_TESTS("align_random")

#define VERTICES 24
#define ELEMENTS 512
#define CELLS 4

typedef struct {
    int n, at[ELEMENTS];
} elements;

/* ---- random genomes ---------------------------------------------------------------------- */

static int64_t scale = 1; /* of sizes */

static uint32_t pick(sw_dice *dice, const sw_genome *g)
{
    return (uint32_t)sw_dice_below(dice, g->n);
}

static bool is_shape(const swi_vertex *a, const swi_vertex *b, bool channels)
{
    return a->height == b->height && (!channels || a->channels == b->channels);
}

/* Something after vertex a; or nothing, where it does not fit. */
static void grow(sw_dice *dice, sw_genome *g, uint32_t a, uint32_t b)
{
    const swi_vertex *x = &g->vertices[a], *y = &g->vertices[b];
    const bool image = x->height > 0;
    const int64_t size = 1 + (int64_t)sw_dice_below(dice, 4 * (uint64_t)scale);
    switch (sw_dice_below(dice, 8)) {
    case 0:
    case 1:
        (void)(image ? aligned_conv(g, a, size, 1) : aligned_linear(g, a, size));
        break;
    case 2: /* of the size of another one, for adds */
        if (y->channels <= 12 * scale)
            (void)(image ? aligned_conv(g, a, y->channels, 1)
                         : aligned_linear(g, a, y->channels));
        break;
    case 3:
        (void)aligned_through(g, a, image ? SW_VERTEX_BATCH_NORM : SW_VERTEX_ACTIVATION);
        break;
    case 4:
        if (image && sw_dice_below(dice, 2) == 0 && x->channels <= 6 * scale)
            (void)aligned_through(g, a, SW_VERTEX_FLATTEN);
        else if (image && sw_dice_below(dice, 2) == 0)
            (void)aligned_through(g, a, SW_VERTEX_GLOBAL_MAX_POOL);
        else if (image && x->channels % 2 == 0)
            (void)aligned_conv(g, a, 2 * size, 2);
        else if (image)
            (void)aligned_conv(g, a, 0, 0);
        break;
    case 5:
        if (is_shape(x, y, false) && x->channels + y->channels <= 24 * scale)
            (void)aligned_join(g, SW_VERTEX_CONCAT, a, b);
        break;
    default:
        if (a != b && is_shape(x, y, true))
            (void)aligned_join(g, SW_VERTEX_ADD, a, b);
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
            g->vertices[i].height > 0 ? aligned_through(g, i, SW_VERTEX_GLOBAL_AVG_POOL) : i;
        last = last == UINT32_MAX ? end : aligned_join(g, SW_VERTEX_CONCAT, last, end);
    }
    aligned_end(g, last);
}

static sw_genome *random_genome(sw_dice *dice, uint32_t n)
{
    sw_genome *g = NULL;
    const int64_t height = sw_dice_below(dice, 3) > 0 ? 2 : 0;
    const int64_t channels = 1 + (int64_t)sw_dice_below(dice, 4);
    const sw_task task = {sizeof task, channels, height, height, 10};
    OK(swi_genome_new(&g, &task));
    for (int tries = 0; g->n < n && tries < 200; tries++) {
        const uint32_t a = pick(dice, g);
        grow(dice, g, a, pick(dice, g));
    }
    close_genome(g);
    for (uint32_t i = 1; i < g->n; i++)
        if (sw_dice_below(dice, 12) == 0)
            g->vertices[i].shield = SW_SHIELD_SIZE;
    return g;
}

/* ---- plain units ------------------------------------------------------------------------- */

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

/* ---- what must hold after every alignment ------------------------------------------------ */

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

/* ---- many of them ------------------------------------------------------------------------ */

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
    tie->a = pick(dice, g);
    tie->b = pick(dice, g);
    const sw_status status = swi_align(g, &opts, info);
    for (size_t k = 0; status == SW_OK && !opts.relax && k < opts.n_wishes; k++)
        CU_ASSERT_EQUAL(g->vertices[wishes[k].vertex].channels, wishes[k].size);
    return status;
}

/* Whatever is wished and tied in whatever genome: it is refused and nothing has changed, or all
 * that was tied is still tied, by the same neurons. */
SW_TEST("what is tied stays tied")
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
            wrong += !aligned_same(g, old);
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

/* Searches in larger genomes with larger sizes end by themselves, soon: with wishes of sized
 * vertices, or one of any. All but 1 of 1,000: whether several wishes can hold in concats of
 * twenty parts may take longer. */
SW_TEST("searches end soon")
{
    sw_dice dice = {47};
    const int n = sw_tests_full() ? 20000 : 1000;
    int done = 0, stopped = 0;
    uint64_t most = 0;
    scale = 40;
    for (int i = 0; i < n; i++) {
        sw_genome *g = random_genome(&dice, 10 + (uint32_t)sw_dice_below(&dice, 50));
        swi_wish wishes[4];
        swi_align_opts opts = {.wishes = wishes, .relax = sw_dice_below(&dice, 2) == 0};
        swi_align_info info;
        const uint32_t n_wishes = 1 + (uint32_t)sw_dice_below(&dice, 4);
        while (opts.n_wishes < n_wishes) {
            uint32_t v = pick(&dice, g);
            while (n_wishes > 1 && !swi_vertex_is_sized(&g->vertices[v]))
                v = pick(&dice, g);
            const double share = 0.8 + 0.1 * (double)sw_dice_below(&dice, 5);
            wishes[opts.n_wishes++] =
                (swi_wish){v, (int64_t)(share * (double)g->vertices[v].channels + 0.5)};
        }
        if (swi_align(g, &opts, &info) == SW_OK) {
            done++;
            stopped += !info.optimal;
            most = info.nodes > most ? info.nodes : most;
        }
        sw_genome_destroy(g);
    }
    scale = 1;
    CU_ASSERT(stopped <= n / 1000);
    CU_ASSERT(done > n / 4);
    sw_note("%d of %d aligned, at most %llu nodes, stopped %d", done, n,
            (unsigned long long)most, stopped);
}

/* ---- plain cells ------------------------------------------------------------------------- */

#define LABELS 256
#define LEAST_MOST 8 /* of all sizes; of random genomes they are at most 12 */

typedef struct {
    elements at[2 * VERTICES + 8];
    int n_labels;
    int next[LABELS]; /* which label is after it everywhere; -1: none; -2: not there */
    bool has_front[LABELS], fixed[LABELS], cut[LABELS];
    int head[LABELS], n_cells; /* first label by cell */
    int length[LABELS];        /* by cell */
    bool doubtful;             /* a flattened channel beside a concat of the same unit */
} plain;

static bool is_source(const sw_genome *g, uint32_t i)
{
    return i == 0 || swi_vertex_is_sized(&g->vertices[i]);
}

static int run_of(const elements *x, int e)
{
    int n = 1;
    while (e + n < x->n && x->at[e + n] == x->at[e])
        n++;
    return n;
}

static int count_runs(const sw_genome *g, const plain *p, int label)
{
    int n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        for (int e = 0; is_source(g, i) && e < p->at[i].n; e += run_of(&p->at[i], e))
            n += p->at[i].at[e] == label;
    return n;
}

static void cut(const sw_genome *g, plain *p, uint32_t vertex, int groups)
{
    const int per_group = (int)g->vertices[vertex].channels / groups;
    for (int e = per_group; e < p->at[vertex].n; e += per_group) {
        p->cut[p->at[vertex].at[e - 1]] = true;
        p->doubtful |= p->at[vertex].at[e - 1] == p->at[vertex].at[e];
    }
}

static plain *plain_cells(const sw_genome *g)
{
    static plain own;
    plain *p = &own;
    memset(p, 0, sizeof *p);
    p->n_labels = label_all(g, p->at);
    CU_ASSERT_FATAL(p->n_labels <= LABELS);
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (i == 0 || i + 1 == g->n || (v->shield & SW_SHIELD_SIZE) != 0)
            for (int e = 0; e < p->at[i].n; e++)
                p->fixed[p->at[i].at[e]] = true;
        if (v->kind == SW_VERTEX_CONV2D && v->groups > 1) {
            cut(g, p, i, v->groups);
            cut(g, p, v->in[0], v->groups);
        }
    }
    /* Units that occur twice in a row beside flattened images. */
    bool flat = false, twice = false;
    for (uint32_t j = 0; j < g->n; j++) {
        flat |= g->vertices[j].kind == SW_VERTEX_FLATTEN;
        for (int e = 1; e < p->at[j].n; e++)
            twice |=
                g->vertices[j].kind == SW_VERTEX_CONCAT && p->at[j].at[e] == p->at[j].at[e - 1];
    }
    p->doubtful |= flat && twice;
    for (int k = 0; k < LABELS; k++)
        p->next[k] = -2;
    for (uint32_t m = 0; m < g->n; m++)
        for (int e = 0, n; is_source(g, m) && e < p->at[m].n; e += n) {
            const elements *x = &p->at[m];
            n = run_of(x, e);
            int *next = &p->next[x->at[e]];
            const int behind =
                e + n < x->n && run_of(x, e + n) == n && !p->cut[x->at[e]] ? x->at[e + n] : -1;
            *next = *next == -2 || *next == behind ? behind : -1;
        }
    for (int k = 0; k < LABELS; k++) {
        if (p->next[k] >= 0 && count_runs(g, p, k) != count_runs(g, p, p->next[k]))
            p->next[k] = -1;
        if (p->next[k] >= 0)
            p->has_front[p->next[k]] = true;
    }
    for (int k = 0; k < LABELS; k++) {
        if (p->next[k] == -2 || p->has_front[k])
            continue;
        for (int u = k; u >= 0; u = p->next[u])
            p->length[p->n_cells]++;
        p->head[p->n_cells++] = k;
    }
    return p;
}

/* ---- the best sizes of all --------------------------------------------------------------- */

/* Outputs from e on to before `end`, of a vertex, with z units in each cell. */
static int64_t count_outputs(const plain *p, uint32_t vertex, int e, int end, const int *z)
{
    int64_t n = 0;
    for (; e < end; e++)
        for (int c = 0; c < p->n_cells; c++)
            n += p->head[c] == p->at[vertex].at[e] ? z[c] : 0;
    return n;
}

static bool groups_are_equal(const sw_genome *g, const plain *p, uint32_t vertex, int groups,
                             const int *z)
{
    const int per_group = (int)g->vertices[vertex].channels / groups;
    for (int k = 1; k < groups; k++)
        if (count_outputs(p, vertex, k * per_group, (k + 1) * per_group, z) !=
            count_outputs(p, vertex, 0, per_group, z))
            return false;
    return true;
}

static void mark_wished(const sw_genome *g, uint32_t i, bool *wished)
{
    wished[i] = true;
    for (uint32_t k = 0; swi_vertex_is_invariant(&g->vertices[i]) && k < g->vertices[i].n_in;
         k++)
        mark_wished(g, g->vertices[i].in[k], wished);
}

/* The cost of the sizes; INFINITY: they are not possible. */
static double price(const sw_genome *g, const plain *p, const swi_wish *wish, const int *z)
{
    bool wished[2 * VERTICES + 8] = {false};
    double sum = 0, largest = 0;
    mark_wished(g, wish->vertex, wished);
    if (count_outputs(p, wish->vertex, 0, p->at[wish->vertex].n, z) != wish->size)
        return (double)INFINITY;
    for (uint32_t i = 1; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (v->kind == SW_VERTEX_CONV2D && v->groups > 1 &&
            (!groups_are_equal(g, p, i, v->groups, z) ||
             !groups_are_equal(g, p, v->in[0], v->groups, z)))
            return (double)INFINITY;
        if (!swi_vertex_is_sized(v))
            continue;
        const int64_t size = count_outputs(p, i, 0, p->at[i].n, z);
        if (size < 1 || size > (v->size > LEAST_MOST ? v->size : LEAST_MOST))
            return (double)INFINITY;
        const double off = fabs((double)(size - v->size)) / (double)v->size;
        sum += wished[i] ? 0 : off;
        largest = !wished[i] && off > largest ? off : largest;
    }
    return 0.1 * sum + 0.8 * largest;
}

static double try_all(const sw_genome *g, const plain *p, const swi_wish *wish)
{
    int z[LABELS], free_cell[LABELS], n = 0;
    double least = (double)INFINITY;
    for (int c = 0; c < p->n_cells; c++) {
        bool fixed = false;
        for (int u = p->head[c]; u >= 0; u = p->next[u])
            fixed |= p->fixed[u];
        z[c] = fixed ? p->length[c] : 0;
        if (!fixed)
            free_cell[n++] = c;
    }
    if (n > CELLS)
        return -1;
    for (int at = 0; at >= 0;) {
        const double cost = price(g, p, wish, z);
        least = cost < least ? cost : least;
        for (at = n - 1; at >= 0 && ++z[free_cell[at]] > 12; at--)
            z[free_cell[at]] = 0;
    }
    return least;
}

static double cost_of(const sw_genome *g, const sw_genome *old, const swi_wish *wish)
{
    bool wished[2 * VERTICES + 8] = {false};
    double sum = 0, largest = 0;
    mark_wished(g, wish->vertex, wished);
    for (uint32_t i = 1; i < g->n; i++) {
        const double off = fabs((double)(g->vertices[i].size - old->vertices[i].size)) /
                           (double)(old->vertices[i].size > 0 ? old->vertices[i].size : 1);
        sum += wished[i] ? 0 : off;
        largest = !wished[i] && off > largest ? off : largest;
    }
    return 0.1 * sum + 0.8 * largest;
}

/* Sizes are those of least cost, and refused where there are none. */
SW_TEST("sizes are the best of all")
{
    sw_dice dice = {23};
    const int n = sw_tests_full() ? 20000 : 1200;
    int compared = 0, moved = 0, impossible = 0, wrong = 0;
    for (int i = 0; i < n; i++) {
        sw_genome *g = random_genome(&dice, 4 + (uint32_t)sw_dice_below(&dice, 6)), *old = NULL;
        const plain *p = plain_cells(g);
        swi_wish wish = {pick(&dice, g), 1};
        wish.size +=
            (int64_t)sw_dice_below(&dice, 2 * (uint64_t)g->vertices[wish.vertex].channels);
        const swi_align_opts opts = {.wishes = &wish, .n_wishes = 1, .max_size = LEAST_MOST};
        const double least = p->doubtful ? -1 : try_all(g, p, &wish);
        OK(sw_genome_copy(&old, g));
        const sw_status status = least >= 0 ? swi_align(g, &opts, NULL) : SW_OK;
        compared += least >= 0;
        impossible += least >= 0 && isinf(least);
        if (least >= 0 && isinf(least))
            wrong += status != SW_UNSUPPORTED;
        else if (least >= 0)
            wrong += status != SW_OK || fabs(cost_of(g, old, &wish) - least) > 1e-8;
        moved += least > 0 && !isinf(least);
        sw_genome_destroy(old);
        sw_genome_destroy(g);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(compared > n / 3 && moved > n / 50 && impossible > n / 20);
    sw_note("%d compared, %d impossible, %d with others that move", compared, impossible,
            moved);
}

/* ---- who stays --------------------------------------------------------------------------- */

/* Whether output e of a source that it was is there. */
static bool is_there(const swi_vertex *v, int e)
{
    for (uint32_t k = 0; k < v->n_rows; k++)
        if (v->rows[k] == e)
            return true;
    return false;
}

/* Units in the place of which one of the same cell would be worth more, or was in front. */
static int count_misplaced(const sw_genome *g, const sw_genome *old, const plain *p,
                           const double *utility)
{
    bool stays[LABELS] = {false};
    int wrong = 0;
    for (uint32_t i = 0; i < old->n; i++)
        for (int e = 0; is_source(old, i) && e < p->at[i].n; e++)
            stays[p->at[i].at[e]] |= i == 0 || is_there(&g->vertices[i], e);
    for (int c = 0; c < p->n_cells; c++)
        for (int u = p->head[c]; u >= 0; u = p->next[u])
            for (int w = p->next[u]; w >= 0; w = p->next[w])
                wrong += (stays[u] && !stays[w] && utility[u] < utility[w]) ||
                         (!stays[u] && stays[w] && utility[u] >= utility[w]);
    return wrong;
}

/* Of each cell the units stay that are worth the most in sum, of equals those in front. */
SW_TEST("those with the most utility stay")
{
    sw_dice dice = {31};
    int done = 0, wrong = 0;
    for (int i = 0; i < 1500; i++) {
        sw_genome *g = random_genome(&dice, 4 + (uint32_t)sw_dice_below(&dice, 10)),
                  *old = NULL;
        const plain *p = plain_cells(g);
        double utility[LABELS] = {0};
        float values[2 * VERTICES + 8][ELEMENTS];
        sw_neuron_utility list[2 * VERTICES + 8];
        swi_align_opts opts = {.utilities = list};
        for (uint32_t v = 0; v < g->n; v++) {
            const bool given = sw_dice_below(&dice, 4) > 0;
            for (int e = 0; e < p->at[v].n; e++) {
                values[v][e] = given ? (float)sw_dice_below(&dice, 5) : 1;
                utility[p->at[v].at[e]] += is_source(g, v) ? (double)values[v][e] : 0;
            }
            if (given)
                list[opts.n_utilities++] =
                    (sw_neuron_utility){.vertex = v, .n = p->at[v].n, .values = values[v]};
        }
        const swi_wish wish = {pick(&dice, g), 2};
        opts.wishes = &wish;
        opts.n_wishes = 1;
        OK(sw_genome_copy(&old, g));
        if (!p->doubtful && swi_align(g, &opts, NULL) == SW_OK) {
            done++;
            wrong += count_misplaced(g, old, p, utility);
        }
        sw_genome_destroy(old);
        sw_genome_destroy(g);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(done > 300);
    sw_note("%d aligned", done);
}
