/* Conditions on numbers of units: sizes of vertices, wishes, and groups of convolutions that
 * stay equal; and the cost of other sizes. */
#include "runtime/population/evolve/align_rows.h"

#define MAX_SIZE_DEFAULT 4096

/* ---- rows -------------------------------------------------------------------------------- */

void swi_rows_add_term(swi_rows *b, uint32_t var, int64_t coef)
{
    if (b->place[var] == 0) {
        b->terms[b->n_terms++] = (swi_term){var, 0};
        b->place[var] = b->n_terms;
    }
    b->terms[b->place[var] - 1].coef += (int32_t)coef;
}

bool swi_unit_begins_cell(const swi_alignment *al, uint32_t unit)
{
    return al->members[al->cells[al->cell[unit]].first] == unit;
}

/* All of a source's outputs, `each` times. */
static void add_source(swi_rows *b, uint32_t source, uint32_t each)
{
    const swi_aligned *v = &b->al->vertices[source];
    for (uint32_t k = v->first_run; k < v->first_run + v->n_runs; k++) {
        const swi_run *run = &b->al->runs[k];
        if (swi_unit_begins_cell(b->al, run->unit))
            swi_rows_add_term(b, b->al->cells[b->al->cell[run->unit]].var,
                              (int64_t)run->n * each);
    }
}

void swi_rows_add_vertex(swi_rows *b, uint32_t vertex)
{
    const swi_aligned *v = &b->al->vertices[vertex];
    for (uint32_t p = v->first_part; p < v->first_part + v->n_parts; p++)
        add_source(b, b->al->parts[p].source, b->al->parts[p].each);
}

/* The terms become a row, in the order of variables and without zeros. */
static sw_status end_row(swi_rows *b, swi_row row)
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

/* ---- variables --------------------------------------------------------------------------- */

/* These sizes must stay: of the input, of the last vertex, and of shields. */
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

void swi_rows_fix(swi_alignment *al)
{
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned *v = &al->vertices[i];
        for (uint32_t p = v->first_part;
             v->concerned && is_fixed(al->genome, i) && p < v->first_part + v->n_parts; p++)
            fix_source(al, al->parts[p].source);
    }
}

sw_status swi_rows_vars(swi_rows *b, uint32_t *var)
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

/* ---- rows of all ---------------------------------------------------------------------------
 */

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

static sw_status add_sources(swi_rows *b)
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

static sw_status add_wishes(swi_rows *b, bool relax)
{
    for (size_t k = 0; k < b->al->opts->n_wishes; k++) {
        const swi_wish *w = &b->al->opts->wishes[k];
        swi_rows_add_vertex(b, w->vertex);
        SW_TRY(end_row(b, (swi_row){.kind = relax ? SWI_ROW_WISH : SWI_ROW_BOUND,
                                    .low = relax ? 1 : w->size,
                                    .high = relax ? INT64_MAX / 4 : w->size,
                                    .at = w->size,
                                    .before = b->al->genome->vertices[w->vertex].channels}));
    }
    return SW_OK;
}

static sw_status add_grouped(swi_rows *b, const swi_grouped *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (int k = 1; k < x[i].groups; k++) {
            swi_groups_add(b, &x[i], k);
            SW_TRY(end_row(b, (swi_row){.kind = SWI_ROW_BOUND}));
        }
    return SW_OK;
}

sw_status swi_rows_make(swi_rows *b, const swi_grouped *x, uint32_t n_grouped, bool relax)
{
    swi_alignment *al = b->al;
    size_t n = al->genome->n + al->opts->n_wishes;
    for (uint32_t i = 0; i < n_grouped; i++)
        n += (size_t)x[i].groups;
    b->n_rows = 0;
    for (size_t k = 0; k < al->opts->n_wishes; k++)
        mark_wished(al, al->opts->wishes[k].vertex);
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
