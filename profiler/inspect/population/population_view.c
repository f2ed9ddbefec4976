/* A population as a report: its members, its shapes and what the budget holds, in the last
 * turn. JSON and CSV have every byte by member, layer and role; text has the sums. */
#include "profiler/inspect/population/population_view.h"
#include <math.h>
#include <string.h>

/* ---- members ----------------------------------------------------------------------------- */

static const table_column member_columns[] = {
    {"member", "member", TABLE_COUNT, 6},
    {"place", "lies", TABLE_TEXT, 8},
    {"score", "score", TABLE_REAL, 9},
    {"parameters_bytes", "parameters", TABLE_BYTES, 11},
    {"optimizer_bytes", "optimizer", TABLE_BYTES, 11},
    {"buffers_bytes", "buffers", TABLE_BYTES, 10},
    {"knobs_bytes", "knobs", TABLE_BYTES, 7},
    {"member_bytes", "together", TABLE_BYTES, 11},
    {"range_bytes", "in budget", TABLE_BYTES, 11},
    {"waiting_bytes", "waiting", TABLE_BYTES, 11},
    {"kept_bytes", "kept", TABLE_BYTES, 11},
    {"donor", "donor", TABLE_COUNT, 6},
    {"step", "step", TABLE_COUNT, 8},
    {"status", "status", TABLE_TEXT, 6},
    {"loss", NULL, TABLE_REAL, 0},
    {"shape", "shape", TABLE_TEXT, 40}};

static void member_row(const void *context, size_t i, table_cell *c)
{
    const population_view *v = context;
    const population_member *m = &v->turn->at[i];
    const population_shape *s = &v->p->shapes[m->shape];
    *c++ = (table_cell){.n = m->member};
    *c++ = (table_cell){.text = m->place};
    *c++ = (table_cell){.share = m->score, .none = isnan(m->score)};
    for (int k = 0; k < POPULATION_KINDS; k++)
        *c++ = (table_cell){.n = s->kind[k]};
    *c++ = (table_cell){.n = s->member_bytes};
    *c++ = (table_cell){.n = m->range_bytes};
    *c++ = (table_cell){.n = m->waiting_bytes};
    *c++ = (table_cell){.n = m->kept_bytes};
    *c++ = (table_cell){.n = (uint64_t)m->donor, .none = m->donor < 0};
    *c++ = (table_cell){.n = m->step};
    *c++ = (table_cell){.text = m->status};
    *c++ = (table_cell){.share = m->loss, .none = isnan(m->loss)};
    *c++ = (table_cell){.text = s->name};
}

table population_member_table(const population_view *v)
{
    return (table){.columns = member_columns,
                   .n_columns = (int)(sizeof member_columns / sizeof *member_columns),
                   .n = v->turn != NULL ? v->turn->n : 0,
                   .row = member_row,
                   .context = v};
}

/* ---- shapes ------------------------------------------------------------------------------ */

static const table_column shape_columns[] = {{"shape", "shape", TABLE_NAME, 30},
                                             {"members", "members", TABLE_COUNT, 7},
                                             {"member_bytes", "a member", TABLE_BYTES, 11},
                                             {"arena_bytes", "its step", TABLE_BYTES, 11},
                                             {"batch_bytes", "its batch", TABLE_BYTES, 11}};

const sw_tl_program *population_program(const population_view *v, const population_shape *s)
{
    return s->highest == SW_TL_NONE ? NULL : &v->p->timeline->programs[s->highest];
}

uint64_t population_members_of(const population_view *v, uint32_t shape)
{
    uint64_t n = 0;
    for (uint32_t i = 0; v->turn != NULL && i < v->turn->n; i++)
        n += v->turn->at[i].shape == shape;
    return n;
}

static void shape_row(const void *context, size_t i, table_cell *c)
{
    const population_view *v = context;
    const population_shape *s = &v->p->shapes[v->shape[i]];
    const sw_tl_program *p = population_program(v, s);
    *c++ = (table_cell){.text = s->name};
    *c++ = (table_cell){.n = population_members_of(v, v->shape[i])};
    *c++ = (table_cell){.n = s->member_bytes};
    *c++ = (table_cell){.n = p != NULL ? p->arena_bytes : 0, .none = p == NULL};
    *c++ = (table_cell){.n = s->batch_bytes};
}

table population_shape_table(const population_view *v)
{
    return (table){.columns = shape_columns,
                   .n_columns = (int)(sizeof shape_columns / sizeof *shape_columns),
                   .n = v->n_shapes,
                   .row = shape_row,
                   .context = v};
}

/* ---- bytes ------------------------------------------------------------------------------- */

static const table_column row_columns[] = {
    {"kind", "kind", TABLE_NAME, 10},   {"number", "number", TABLE_COUNT, 6},
    {"shape", "shape", TABLE_TEXT, 20}, {"layer", "layer", TABLE_TEXT, 20},
    {"role", "role", TABLE_TEXT, 16},   {"bytes", "bytes", TABLE_BYTES, 11}};

static void budget_row(const void *context, size_t i, table_cell *c)
{
    const population_view *v = context;
    const population_row *r = &v->rows.at[i];
    *c++ = (table_cell){.text = r->kind};
    *c++ = (table_cell){.n = (uint64_t)r->number, .none = r->number < 0};
    *c++ = (table_cell){.text = r->shape};
    *c++ = (table_cell){.text = r->layer};
    *c++ = (table_cell){.text = r->role};
    *c++ = (table_cell){.n = r->bytes};
}

table population_budget_table(const population_view *v)
{
    return (table){.columns = row_columns,
                   .n_columns = (int)(sizeof row_columns / sizeof *row_columns),
                   .n = v->rows.n,
                   .row = budget_row,
                   .context = v};
}

/* ---- making it --------------------------------------------------------------------------- */

/* Shapes that members have in the turn; all of the file where there is no turn. */
static sw_status make_view(population_view *v)
{
    population *p = v->p;
    SW_TRY(
        sw_timeline_alloc(p->timeline, &v->shape, (size_t)p->n_shapes + 1, sizeof *v->shape));
    SW_TRY(sw_timeline_alloc(p->timeline, &v->step, (size_t)p->n_shapes + 1, sizeof *v->step));
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        if (v->turn != NULL && population_members_of(v, i) == 0)
            continue;
        const sw_tl_program *program = population_program(v, &p->shapes[i]);
        if (program != NULL)
            SW_TRY(population_step_of(&v->step[v->n_shapes], p, program));
        v->shape[v->n_shapes++] = i;
    }
    return v->turn != NULL ? population_attribute(&v->rows, p, v->turn) : SW_OK;
}

static void free_view(population_view *v)
{
    for (uint32_t i = 0; i < v->n_shapes; i++)
        population_parts_free(&v->step[i].holders);
    population_rows_free(&v->rows);
}

/* ---- all --------------------------------------------------------------------------------- */

static sw_status print_all(const population_view *v, population_format format)
{
    if (format == POPULATION_JSON)
        return population_print_json(v);
    if (format == POPULATION_CSV) {
        const table rows = population_budget_table(v);
        table_print_csv(v->style, &rows);
    } else {
        population_print_text(v);
    }
    return SW_OK;
}

sw_status population_print(population *p, int64_t member, population_format format,
                           const report_tail *more, const report_style *style)
{
    population_view v = {.p = p, .turn = population_last(p), .style = style, .more = more};
    if (member >= 0)
        return population_print_member(p, (uint32_t)member, format, more, style);
    sw_status status = make_view(&v);
    if (status == SW_OK)
        status = print_all(&v, format);
    free_view(&v);
    return status;
}
