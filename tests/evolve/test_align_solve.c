/* The solver of sizes against trying all values; how long alignment takes, printed; and
 * searches that end by themselves in nets as they are. */
#include "runtime/population/evolve/align.h"
#include "tests/evolve/net_scene.h"
#include "alloc/base/sys.h"

SW_TESTS("align_solve")

#define MOST 6 /* values of a variable are 0 to this */
#define VARS 4
#define ROWS 7

typedef struct {
    swi_var vars[VARS];
    swi_row rows[ROWS];
    swi_term terms[ROWS][VARS];
    swi_sizes sizes;
} problem;

static swi_row random_row(sw_dice *dice, const problem *p, swi_term *terms, int kind)
{
    swi_row row = {.kind = SWI_ROW_SIZE, .terms = terms, .low = 1};
    int64_t present = 0;
    for (uint32_t v = 0; v < p->sizes.n_vars; v++) {
        if (sw_dice_below(dice, 3) == 0)
            continue;
        const int32_t coef =
            1 + (int32_t)(sw_dice_below(dice, 4) == 0 ? sw_dice_below(dice, 4) : 0);
        terms[row.n_terms++] = (swi_term){v, coef};
        present += coef * p->vars[v].present;
    }
    row.high = present + (int64_t)sw_dice_below(dice, 12);
    row.before = present > 0 ? present : 1;
    row.at = 1 + (int64_t)sw_dice_below(dice, 3) * row.before / 2; /* another one, or it */
    row.at = sw_dice_below(dice, 2) == 0 ? row.before : row.at;
    if (kind == 0) { /* groups: one less the other */
        row = (swi_row){.kind = SWI_ROW_BOUND, .terms = terms, .n_terms = row.n_terms};
        for (uint32_t i = 0; i < row.n_terms; i++)
            terms[i].coef = i % 2 == 0 ? 1 : -1;
    } else if (kind == 1) { /* a wish */
        row.kind = SWI_ROW_BOUND;
        row.low = row.high = 1 + (int64_t)sw_dice_below(dice, 10);
    } else if (kind == 2) {
        row.kind = SWI_ROW_WISH;
        row.at = 1 + (int64_t)sw_dice_below(dice, 12);
    }
    return row;
}

static void random_problem(sw_dice *dice, problem *p)
{
    *p = (problem){.sizes = {.vars = p->vars, .rows = p->rows, .max_nodes = 1000000}};
    p->sizes.n_vars = 1 + (uint32_t)sw_dice_below(dice, VARS);
    p->sizes.n_rows = 1 + (uint32_t)sw_dice_below(dice, ROWS);
    for (uint32_t v = 0; v < p->sizes.n_vars; v++) {
        const int64_t present = 1 + (int64_t)sw_dice_below(dice, MOST - 1);
        const bool fixed = sw_dice_below(dice, 8) == 0;
        const int64_t low = (int64_t)sw_dice_below(dice, 3);
        const int64_t high = MOST - (int64_t)sw_dice_below(dice, 4);
        p->vars[v] = (swi_var){present, fixed ? present : low, fixed ? present : high};
    }
    for (uint32_t i = 0; i < p->sizes.n_rows; i++)
        p->rows[i] = random_row(dice, p, p->terms[i], (int)sw_dice_below(dice, 9));
}

/* INFINITY: not all rows hold. */
static double price(const problem *p, const int64_t *values)
{
    double total = 0, largest = 0;
    for (uint32_t i = 0; i < p->sizes.n_rows; i++) {
        const swi_row *row = &p->rows[i];
        int64_t sum = 0;
        for (uint32_t k = 0; k < row->n_terms; k++)
            sum += row->terms[k].coef * values[row->terms[k].var];
        if (sum < row->low || sum > row->high)
            return (double)INFINITY;
        const double off = fabs((double)(sum - row->at));
        if (row->kind == SWI_ROW_SIZE) {
            total += 0.1 * off / (double)row->at;
            largest = fmax(largest, off / (double)row->at);
        } else if (row->kind == SWI_ROW_WISH) {
            total += 1e6 * off / (double)row->before;
        }
    }
    return total + 0.8 * largest;
}

/* Value number k of a variable: from the present one outwards. MOST + 1 of them. */
static int64_t outwards(const swi_var *v, int k)
{
    int64_t order[MOST + 1];
    int n = 0;
    for (int64_t d = 0; d <= MOST; d++)
        for (int side = -1; side <= 1; side += 2) {
            const int64_t z = v->present + side * d;
            if (z >= 0 && z <= MOST && (d > 0 || side > 0))
                order[n++] = z;
        }
    return order[k];
}

static double try_all(const problem *p, int64_t *best)
{
    double least = (double)INFINITY;
    int64_t values[VARS], n = 1;
    for (uint32_t v = 0; v < p->sizes.n_vars; v++)
        n *= MOST + 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        bool inside = true;
        for (uint32_t v = p->sizes.n_vars; v-- > 0; rest /= MOST + 1) {
            values[v] = outwards(&p->vars[v], (int)(rest % (MOST + 1)));
            inside = inside && values[v] >= p->vars[v].low && values[v] <= p->vars[v].high;
        }
        const double cost = inside ? price(p, values) : (double)INFINITY;
        if (cost < least - (isinf(least) ? 0 : 1e-9 * (1 + least))) {
            least = cost;
            memcpy(best, values, sizeof values);
        }
    }
    return least;
}

/* The optimum, or that there is none; of equals the first one outwards. */
SW_TEST("the solver finds the best sizes")
{
    sw_dice dice = {11};
    const int n = sw_tests_full() ? 50000 : 4000;
    int found = 0, wrong = 0;
    uint64_t nodes = 0;
    for (int i = 0; i < n; i++) {
        problem p;
        swi_scratch scratch = {NULL};
        swi_solution s;
        int64_t values[VARS] = {0}, best[VARS] = {0};
        random_problem(&dice, &p);
        const double least = try_all(&p, best);
        OK(swi_sizes_solve(&scratch, &p.sizes, values, &s));
        swi_scratch_end(&scratch);
        CU_ASSERT_TRUE(s.optimal);
        wrong += s.found != !isinf(least);
        nodes += s.nodes;
        if (!s.found || isinf(least))
            continue;
        found++;
        wrong += fabs(price(&p, values) - least) > 1e-8 * (1 + least);
        wrong += memcmp(values, best, p.sizes.n_vars * sizeof *values) != 0;
        wrong += fabs(s.cost - least) > 1e-8 * (1 + least);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(found > n / 4 && found < n);
    sw_note("%d problems, %d with a solution, %.1f nodes each", n, found,
            (double)nodes / (double)n);
}

/* A branch of 8 parts beside a vertex of all of them: it grows by much, evenly. */
SW_TEST("many parts share what is wished")
{
    swi_var vars[9];
    swi_row rows[10];
    swi_term one[8], all[8];
    for (uint32_t v = 0; v < 8; v++) {
        vars[v] = (swi_var){512, 0, SWI_MAX_UNITS};
        one[v] = all[v] = (swi_term){v, 1};
        rows[v] = (swi_row){SWI_ROW_SIZE, &one[v], 1, 1, 4096, 512, 512};
    }
    rows[8] = (swi_row){SWI_ROW_BOUND, all, 8, 4897, 4897, 4096, 4096};
    const swi_sizes sizes = {vars, rows, 8, 9, 1000000};
    swi_scratch scratch = {NULL};
    swi_solution s;
    int64_t values[8];
    OK(swi_sizes_solve(&scratch, &sizes, values, &s));
    swi_scratch_end(&scratch);
    CU_ASSERT_TRUE_FATAL(s.found);
    CU_ASSERT_TRUE(s.optimal);
    CU_ASSERT_DOUBLE_EQUAL(s.cost, 0.1 * 801 / 512 + 0.8 * 101 / 512, 1e-9);
    sw_note("%llu nodes", (unsigned long long)s.nodes);
}

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

SW_TEST("alignment of one wish is short")
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

SW_TEST("all wishes at once are short too")
{
    const int shares[] = {3, 7, 20, -20};
    for (int k = 0; k < 4; k++) {
        grow_all(residual_net(100), "residuals", shares[k]);
        grow_all(fork_net(100, 32), "forks in residuals", shares[k]);
        grow_all(fork_net(100, 37), "uneven forks in residuals", shares[k]);
    }
}
