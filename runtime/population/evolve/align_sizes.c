/* Numbers of units of all cells. Only variables that hang together with a wish or a tie are
 * solved for; the others stay. Wishes that cannot hold come as near as they can. */
#include "runtime/population/evolve/align_rows.h"
#include <string.h>

#define MAX_NODES_DEFAULT 1000000

/* ---- what is solved ---------------------------------------------------------------------- */

static void mark_vars(swi_rows *b, uint32_t vertex, bool *marks)
{
    swi_rows_add_vertex(b, vertex);
    for (uint32_t i = 0; i < b->n_terms; i++) {
        b->place[b->terms[i].var] = 0;
        marks[swi_class_find(b->joined, b->terms[i].var)] = true;
    }
    b->n_terms = 0;
}

/* Leave the variables and rows that hang together with wishes and ties; `vars[i]` was variable
 * from[i]. */
static sw_status leave_concerned(swi_rows *b, uint32_t *from, swi_sizes *out)
{
    swi_alignment *al = b->al;
    bool *marks = NULL;
    uint32_t *to = NULL, n = 0, n_rows = 0;
    SW_TRY(SWI_TAKE(&al->scratch, marks, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, to, al->n_vars));
    for (size_t k = 0; k < al->opts->n_wishes; k++)
        mark_vars(b, al->opts->wishes[k].vertex, marks);
    for (size_t k = 0; k < al->opts->n_ties; k++) {
        mark_vars(b, al->opts->ties[k].a, marks);
        mark_vars(b, al->opts->ties[k].b, marks);
    }
    for (uint32_t i = 0; i < al->n_vars; i++)
        if (marks[swi_class_find(b->joined, i)]) {
            b->vars[n] = b->vars[i];
            from[n] = i;
            to[i] = n++;
        }
    for (uint32_t i = 0; i < b->n_rows; i++) {
        swi_term *terms = b->rows[i].terms;
        if (b->rows[i].n_terms == 0 || !marks[swi_class_find(b->joined, terms[0].var)])
            continue;
        for (uint32_t k = 0; k < b->rows[i].n_terms; k++)
            terms[k].var = to[terms[k].var];
        b->rows[n_rows++] = b->rows[i];
    }
    *out = (swi_sizes){.vars = b->vars,
                       .rows = b->rows,
                       .n_vars = n,
                       .n_rows = n_rows,
                       .max_nodes =
                           al->opts->max_nodes > 0 ? al->opts->max_nodes : MAX_NODES_DEFAULT};
    return SW_OK;
}

/* ---- wishes that cannot hold ------------------------------------------------------------- */

static int64_t sum_of(const swi_row *row, const int64_t *values)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < row->n_terms; i++)
        sum += row->terms[i].coef * values[row->terms[i].var];
    return sum;
}

static bool some_wish_moved(const swi_sizes *x, const int64_t *values)
{
    bool any = false;
    for (uint32_t i = 0; i < x->n_rows; i++) {
        const swi_row *row = &x->rows[i];
        if (row->kind != SWI_ROW_WISH || row->at == row->before)
            continue;
        any = true;
        if ((sum_of(row, values) > row->before) == (row->at > row->before) &&
            sum_of(row, values) != row->before)
            return true;
    }
    return !any;
}

/* Best of: this wish moves, or that one, ... */
static sw_status move_one(swi_scratch *scratch, const swi_sizes *x, swi_row *rows,
                          int64_t *values, swi_solution *best)
{
    int64_t *own = NULL;
    SW_TRY(SWI_TAKE(scratch, own, x->n_vars));
    best->found = false;
    for (uint32_t i = 0; i < x->n_rows; i++) {
        swi_solution s;
        const swi_row row = rows[i];
        if (row.kind != SWI_ROW_WISH || row.at == row.before)
            continue;
        if (row.at > row.before)
            rows[i].low = row.before + 1;
        else
            rows[i].high = row.before - 1;
        SW_TRY(swi_sizes_solve(scratch, x, own, &s));
        rows[i] = row;
        best->nodes += s.nodes;
        best->optimal = best->optimal && s.optimal;
        if (!s.found || (best->found && s.cost >= best->cost))
            continue;
        best->found = true;
        best->cost = s.cost;
        memcpy(values, own, x->n_vars * sizeof *own);
    }
    return SW_OK;
}

/* ---- sizes of all cells ------------------------------------------------------------------ */

static sw_status solve(swi_rows *b, const swi_sizes *x, bool relax, int64_t *values,
                       swi_solution *s)
{
    SW_TRY(swi_sizes_solve(&b->al->scratch, x, values, s));
    if (relax && s->found && !some_wish_moved(x, values))
        return move_one(&b->al->scratch, x, b->rows, values, s);
    return SW_OK;
}

static sw_status try_sizes(swi_rows *b, const swi_grouped *x, uint32_t n_grouped, bool relax,
                           swi_align_info *info, bool *found)
{
    swi_alignment *al = b->al;
    swi_sizes sizes;
    swi_solution s;
    int64_t *values = NULL, *all = NULL;
    uint32_t *from = NULL;
    SW_TRY(swi_rows_make(b, x, n_grouped, relax));
    SW_TRY(SWI_TAKE(&al->scratch, values, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, all, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, from, al->n_vars));
    for (uint32_t i = 0; i < al->n_vars; i++)
        all[i] = b->vars[i].present;
    SW_TRY(leave_concerned(b, from, &sizes));
    SW_TRY(solve(b, &sizes, relax, values, &s));
    info->nodes += s.nodes;
    info->optimal = s.optimal;
    *found = s.found;
    for (uint32_t i = 0; i < sizes.n_vars && s.found; i++)
        all[from[i]] = values[i];
    for (uint32_t c = 0; c < al->n_cells && s.found; c++)
        al->cells[c].size = all[al->cells[c].var];
    return SW_OK;
}

static sw_status refuse(const swi_alignment *al)
{
    const swi_align_opts *opts = al->opts;
    const swi_vertex *v = al->genome->vertices;
    if (opts->n_wishes > 0)
        SW_FAIL(
            SW_UNSUPPORTED,
            "vertex '%s': it cannot have %lld outputs in the place of %lld: no sizes of the "
            "vertices that it is tied to fit",
            v[opts->wishes[0].vertex].name, (long long)opts->wishes[0].size,
            (long long)v[opts->wishes[0].vertex].channels);
    SW_FAIL(SW_UNSUPPORTED,
            "vertex '%s': its %lld outputs cannot be those of '%s' (%lld): no sizes of the "
            "vertices that they are tied to fit",
            v[opts->ties[0].a].name, (long long)v[opts->ties[0].a].channels,
            v[opts->ties[0].b].name, (long long)v[opts->ties[0].b].channels);
}

sw_status swi_align_sizes(swi_alignment *al, swi_align_info *info)
{
    swi_rows b = {.al = al};
    uint32_t *var = NULL, n = 0;
    swi_grouped *x;
    bool found = false;
    SW_TRY(SWI_TAKE(&al->scratch, var, al->n_cells));
    for (uint32_t c = 0; c < al->n_cells; c++)
        var[c] = c;
    SW_TRY(swi_groups_find(al, &x, &n));
    SW_TRY(swi_groups_join(al, var, x, &n));
    swi_rows_fix(al);
    SW_TRY(swi_rows_vars(&b, var));
    SW_TRY(try_sizes(&b, x, n, false, info, &found));
    if (found || !al->opts->relax)
        return found ? SW_OK : refuse(al);
    al->n_vars = 0;
    SW_TRY(swi_rows_vars(&b, var));
    SW_TRY(try_sizes(&b, x, n, true, info, &found));
    return found ? SW_OK : refuse(al);
}
