/* What numbers of units must fulfil: sizes of vertices, wishes, and groups of convolutions that
 * stay equal; and what other sizes cost. Cells that are alone in the groups of a convolution
 * are one variable. Only variables that hang together with a wish or a tie are solved for. */
#include "runtime/population/evolve/align_internal.h"
#include <string.h>

#define MAX_SIZE_DEFAULT 4096
#define MAX_NODES_DEFAULT 1000000

typedef struct {
    swi_alignment *al;
    swi_var *vars;
    swi_row *rows;
    uint32_t n_rows, cap_rows;
    /* Terms of the row that is being made. */
    swi_term *terms;
    uint32_t n_terms;
    uint32_t *place;  /* by variable: which term, from 1 on */
    uint32_t *joined; /* variables that hang together */
} builder;

/* ---- rows -------------------------------------------------------------------------------- */

static void add_term(builder *b, uint32_t var, int64_t coef)
{
    if (b->place[var] == 0) {
        b->terms[b->n_terms++] = (swi_term){var, 0};
        b->place[var] = b->n_terms;
    }
    b->terms[b->place[var] - 1].coef += (int32_t)coef;
}

static bool begins_cell(const swi_alignment *al, uint32_t unit)
{
    return al->members[al->cells[al->cell[unit]].first] == unit;
}

/* All of a source's outputs, `each` times. */
static void add_source(builder *b, uint32_t source, uint32_t each)
{
    const swi_aligned *v = &b->al->vertices[source];
    for (uint32_t k = v->first_run; k < v->first_run + v->n_runs; k++) {
        const swi_run *run = &b->al->runs[k];
        if (begins_cell(b->al, run->unit))
            add_term(b, b->al->cells[b->al->cell[run->unit]].var, (int64_t)run->n * each);
    }
}

static void add_vertex(builder *b, uint32_t vertex)
{
    const swi_aligned *v = &b->al->vertices[vertex];
    for (uint32_t p = v->first_part; p < v->first_part + v->n_parts; p++)
        add_source(b, b->al->parts[p].source, b->al->parts[p].each);
}

/* The terms become a row, in the order of variables and without zeros. */
static sw_status end_row(builder *b, swi_row row)
{
    swi_term *terms = NULL;
    SW_TRY(SWI_TAKE(&b->al->scratch, terms, b->n_terms));
    for (uint32_t i = 0; i < b->n_terms; i++) {
        b->place[b->terms[i].var] = 0;
        if (b->terms[i].coef == 0)
            continue;
        uint32_t k = row.n_terms++;
        for (; k > 0 && terms[k - 1].var > b->terms[i].var; k--)
            terms[k] = terms[k - 1];
        terms[k] = b->terms[i];
    }
    for (uint32_t i = 1; i < row.n_terms; i++)
        swi_class_join(b->joined, terms[0].var, terms[i].var);
    b->n_terms = 0;
    row.terms = terms;
    b->rows[b->n_rows++] = row;
    return SW_OK;
}

/* ---- groups of convolutions -------------------------------------------------------------- */

/* A vertex's channels in so many groups. */
typedef struct {
    uint32_t vertex;
    int groups;
} grouped;

/* Which group the next element is in, `n` of those that are there being in front of it. New
 * ones belong to the group in front of them. */
static int64_t group_of(const swi_alignment *al, const grouped *x, uint32_t slot, int64_t *n)
{
    const int64_t per_group = al->genome->vertices[x->vertex].channels / x->groups;
    if (al->real[slot] == SWI_NEW)
        return (*n - 1) / per_group;
    return (*n)++ / per_group;
}

/* Each group is one cell by itself, with as many slots for each unit: one variable. */
static bool are_single(const swi_alignment *al, const grouped *x, uint32_t *cells, uint32_t *n)
{
    swi_cursor c = swi_cursor_of(al, x->vertex);
    uint32_t slot;
    uint8_t between;
    int64_t there = 0;
    for (bool more = true; more;) {
        more = swi_cursor_next(&c, &slot, &between);
        const int64_t k = group_of(al, x, slot, &there);
        const uint32_t cell = al->cell[al->unit[slot]];
        if (n[k] > 0 && cells[k] != cell)
            return false;
        cells[k] = cell;
        n[k]++;
    }
    for (int k = 1; k < x->groups; k++)
        if (n[k] != n[0] || al->cells[cells[k]].n != al->cells[cells[0]].n)
            return false;
    return true;
}

/* Group k less the first one. */
static void add_groups(builder *b, const grouped *x, int k)
{
    const swi_alignment *al = b->al;
    swi_cursor c = swi_cursor_of(al, x->vertex);
    uint32_t slot;
    uint8_t between;
    int64_t there = 0;
    for (bool more = true; more;) {
        more = swi_cursor_next(&c, &slot, &between);
        const int64_t group = group_of(al, x, slot, &there);
        if ((group == 0 || group == k) && begins_cell(al, al->unit[slot]))
            add_term(b, al->cells[al->cell[al->unit[slot]]].var, group == 0 ? -1 : 1);
    }
}

/* What a grouped convolution reads and what it gives, of all that are concerned. */
static sw_status find_grouped(swi_alignment *al, grouped **out, uint32_t *n)
{
    const sw_genome *g = al->genome;
    SW_TRY(swi_scratch_take(&al->scratch, (void **)out, 2 * (size_t)g->n, sizeof **out));
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (v->kind != SW_VERTEX_CONV2D || v->groups <= 1)
            continue;
        if (al->vertices[v->in[0]].concerned)
            (*out)[(*n)++] = (grouped){v->in[0], v->groups};
        if (al->vertices[i].concerned)
            (*out)[(*n)++] = (grouped){i, v->groups};
    }
    return SW_OK;
}

/* Cells that are one variable get one: `var` is a class of cells first. */
static sw_status join_groups(swi_alignment *al, uint32_t *var, grouped *x, uint32_t *n)
{
    uint32_t *cells = NULL, *count = NULL, rest = 0;
    for (uint32_t i = 0; i < *n; i++) {
        SW_TRY(SWI_TAKE(&al->scratch, cells, x[i].groups));
        SW_TRY(SWI_TAKE(&al->scratch, count, x[i].groups));
        const bool single = are_single(al, &x[i], cells, count);
        for (int k = 1; single && k < x[i].groups; k++)
            swi_class_join(var, cells[0], cells[k]);
        if (!single)
            x[rest++] = x[i];
    }
    *n = rest;
    return SW_OK;
}

/* ---- variables --------------------------------------------------------------------------- */

/* What must stay: of the input, of the last vertex, and of shields. */
static bool is_fixed(const sw_genome *g, uint32_t i)
{
    return i == 0 || i + 1 == g->n || (g->vertices[i].shield & SW_SHIELD_SIZE) != 0;
}

static void fix_source(swi_alignment *al, uint32_t source)
{
    const swi_aligned *v = &al->vertices[source];
    for (uint32_t s = v->first_slot; s < v->first_slot + v->n_slots; s++)
        al->cells[al->cell[al->unit[s]]].flags |=
            al->real[s] == SWI_NEW ? SWI_UNIT_GONE : SWI_UNIT_FIXED;
}

static void fix_cells(swi_alignment *al)
{
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned *v = &al->vertices[i];
        for (uint32_t p = v->first_part;
             v->concerned && is_fixed(al->genome, i) && p < v->first_part + v->n_parts; p++)
            fix_source(al, al->parts[p].source);
    }
}

static sw_status make_vars(builder *b, uint32_t *var)
{
    swi_alignment *al = b->al;
    SW_TRY(SWI_TAKE(&al->scratch, b->vars, al->n_cells));
    for (uint32_t c = 0; c < al->n_cells; c++) {
        swi_cell *cell = &al->cells[c];
        const uint32_t first = swi_class_find(var, c);
        if (first == c) {
            cell->var = al->n_vars++;
            b->vars[cell->var] = (swi_var){cell->n, 0, SWI_MAX_UNITS};
        }
        cell->var = al->cells[first].var;
        swi_var *x = &b->vars[cell->var];
        if ((cell->flags & SWI_UNIT_FIXED) != 0)
            x->low = cell->n;
        if ((cell->flags & SWI_UNIT_GONE) != 0)
            x->high = 0;
        else if ((cell->flags & (SWI_UNIT_FIXED | SWI_UNIT_RIGID)) != 0 && x->high > cell->n)
            x->high = cell->n;
    }
    return SW_OK;
}

/* ---- all of it --------------------------------------------------------------------------- */

/* A wish of what has no size of its own decides the sizes of what it reads. */
static void mark_wished(swi_alignment *al, uint32_t vertex)
{
    const swi_vertex *v = &al->genome->vertices[vertex];
    if (al->vertices[vertex].wished)
        return;
    al->vertices[vertex].wished = true;
    for (uint32_t k = 0; swi_vertex_is_invariant(v) && k < v->n_in; k++)
        mark_wished(al, v->in[k]);
}

static sw_status add_sources(builder *b)
{
    const int64_t most = b->al->opts->max_size > 0 ? b->al->opts->max_size : MAX_SIZE_DEFAULT;
    for (uint32_t i = 1; i < b->al->genome->n; i++) {
        const swi_aligned *v = &b->al->vertices[i];
        const int64_t size = b->al->genome->vertices[i].size;
        if (!v->concerned || !swi_vertex_is_sized(&b->al->genome->vertices[i]))
            continue;
        add_source(b, i, 1);
        SW_TRY(end_row(b, (swi_row){.kind = v->wished ? SWI_ROW_BOUND : SWI_ROW_SIZE,
                                    .low = 1,
                                    .high = size > most ? size : most,
                                    .at = size,
                                    .before = size}));
    }
    return SW_OK;
}

static sw_status add_wishes(builder *b, bool relax)
{
    for (size_t k = 0; k < b->al->opts->n_wishes; k++) {
        const swi_wish *w = &b->al->opts->wishes[k];
        add_vertex(b, w->vertex);
        SW_TRY(end_row(b, (swi_row){.kind = relax ? SWI_ROW_WISH : SWI_ROW_BOUND,
                                    .low = relax ? 1 : w->size,
                                    .high = relax ? INT64_MAX / 4 : w->size,
                                    .at = w->size,
                                    .before = b->al->genome->vertices[w->vertex].channels}));
    }
    return SW_OK;
}

static sw_status add_grouped(builder *b, const grouped *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (int k = 1; k < x[i].groups; k++) {
            add_groups(b, &x[i], k);
            SW_TRY(end_row(b, (swi_row){.kind = SWI_ROW_BOUND}));
        }
    return SW_OK;
}

static sw_status make_rows(builder *b, const grouped *x, uint32_t n_grouped, bool relax)
{
    swi_alignment *al = b->al;
    size_t n = al->genome->n + al->opts->n_wishes;
    for (uint32_t i = 0; i < n_grouped; i++)
        n += (size_t)x[i].groups;
    b->n_rows = 0;
    SW_TRY(SWI_TAKE(&al->scratch, b->rows, n));
    SW_TRY(SWI_TAKE(&al->scratch, b->terms, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, b->place, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, b->joined, al->n_vars));
    for (uint32_t i = 0; i < al->n_vars; i++)
        b->joined[i] = i;
    SW_TRY(add_sources(b));
    SW_TRY(add_wishes(b, relax));
    return add_grouped(b, x, n_grouped);
}

/* ---- what is solved ---------------------------------------------------------------------- */

static void mark_vars(builder *b, uint32_t vertex, bool *marks)
{
    add_vertex(b, vertex);
    for (uint32_t i = 0; i < b->n_terms; i++) {
        b->place[b->terms[i].var] = 0;
        marks[swi_class_find(b->joined, b->terms[i].var)] = true;
    }
    b->n_terms = 0;
}

/* Leave the variables and rows that hang together with wishes and ties; `vars[i]` was variable
 * from[i]. */
static sw_status leave_concerned(builder *b, uint32_t *from, swi_sizes *out)
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

static sw_status solve(builder *b, const swi_sizes *x, bool relax, int64_t *values,
                       swi_solution *s)
{
    SW_TRY(swi_sizes_solve(&b->al->scratch, x, values, s));
    if (relax && s->found && !some_wish_moved(x, values))
        return move_one(&b->al->scratch, x, b->rows, values, s);
    return SW_OK;
}

static sw_status try_sizes(builder *b, const grouped *x, uint32_t n_grouped, bool relax,
                           swi_align_info *info, bool *found)
{
    swi_alignment *al = b->al;
    swi_sizes sizes;
    swi_solution s;
    int64_t *values = NULL, *all = NULL;
    uint32_t *from = NULL;
    SW_TRY(make_rows(b, x, n_grouped, relax));
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
    builder b = {.al = al};
    uint32_t *var = NULL, n = 0;
    grouped *x;
    bool found = false;
    SW_TRY(SWI_TAKE(&al->scratch, var, al->n_cells));
    for (uint32_t c = 0; c < al->n_cells; c++)
        var[c] = c;
    SW_TRY(find_grouped(al, &x, &n));
    SW_TRY(join_groups(al, var, x, &n));
    fix_cells(al);
    SW_TRY(make_vars(&b, var));
    for (size_t k = 0; k < al->opts->n_wishes; k++)
        mark_wished(al, al->opts->wishes[k].vertex);
    SW_TRY(try_sizes(&b, x, n, false, info, &found));
    if (found || !al->opts->relax)
        return found ? SW_OK : refuse(al);
    al->n_vars = 0;
    SW_TRY(make_vars(&b, var));
    SW_TRY(try_sizes(&b, x, n, true, info, &found));
    return found ? SW_OK : refuse(al);
}
