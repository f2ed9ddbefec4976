/* The solver of sizes against trying all values. */
#include "runtime/population/evolve/align.h"
#include "tests/evolve/net_scene.h"
#include <math.h>
#include <string.h>

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
static void the_solver_finds_the_best(void)
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
static void many_parts_share_what_is_wished(void)
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

static const sw_test tests[] = {
    {"the solver finds the best sizes", the_solver_finds_the_best},
    {"many parts share what is wished", many_parts_share_what_is_wished},
};
SW_SUITE("align_solve", tests)
