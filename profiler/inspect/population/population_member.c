/* One member by layer and role. */
#include "profiler/inspect/population/population_report.h"
#include "profiler/inspect/report/print.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    population *p;
    const population_turn *turn;
    const population_member *member;
    const population_shape *shape;
    const sw_tl_program *program; /* NULL: it has none */
    population_step step;
    const report_style *style;
    const report_tail *more; /* of JSON; NULL: none */
} view;

static const table_column columns[] = {{"layer", "layer", TABLE_NAME, 24},
                                       {"role", "role", TABLE_TEXT, 18},
                                       {"bytes", "bytes", TABLE_BYTES, 12}};

static void row(const void *context, size_t i, table_cell *c)
{
    const population_part *x = &((const view *)context)->shape->parts.at[i];
    *c++ = (table_cell){.text = x->layer, .shown = *x->layer != '\0' ? NULL : "(no layer)"};
    *c++ = (table_cell){.text = x->role};
    *c++ = (table_cell){.n = x->bytes};
}

static void print_text(const view *v, const table *t)
{
    const population_member *m = v->member;
    const sw_writer *to = v->style->to;
    population_head_text(v->p, v->style);
    sw_writer_print(to, "\n");
    sw_writer_say(to, 0, 2, "Member %" PRIu32 " in turn %" PRIu64 ", step %" PRIu64 ": %s, %s",
                  m->member, v->turn->turn, m->step, v->shape->name, m->place);
    if (m->donor >= 0)
        sw_writer_say(to, 2, 4, "a copy of member %" PRId64 " since this turn began", m->donor);
    if (!isnan(m->score))
        sw_writer_print(to, "  score %.5g, loss %.5g\n", m->score, m->loss);
    for (uint32_t i = 0; i < v->p->n_names; i++)
        sw_writer_say(to, 2, 4, "%s %.6g", v->p->names[i],
                      population_values(v->p, v->turn, m->member)[i]);
    sw_writer_print(to, "  %s of the budget", table_bytes(m->range_bytes, v->style).text);
    sw_writer_print(to, "; outside of it %s that wait",
                    table_bytes(m->waiting_bytes, v->style).text);
    sw_writer_print(to, " and %s kept\n\n", table_bytes(m->kept_bytes, v->style).text);
    table_print(t, t->n, v->style);
    sw_writer_print(to, "  together %s\n", table_bytes(v->shape->member_bytes, v->style).text);
    if (v->program != NULL) {
        sw_writer_print(to, "\n");
        population_print_step(&v->step, v->program, v->style);
    }
}

static sw_status print_json(const view *v)
{
    const population_member *m = v->member;
    sw_json j;
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    population_put_head(&j, v->p);
    sw_json_put_u64(&j, "turn", v->turn->turn);
    sw_json_put_u64(&j, "member", m->member);
    sw_json_put_u64(&j, "step", m->step);
    sw_json_put_u64(&j, "member_seed", m->seed);
    sw_json_put_string(&j, "shape", v->shape->name);
    sw_json_put_string(&j, "place", m->place);
    sw_json_put_string(&j, "member_status", m->status);
    sw_json_put_known_f64(&j, "score", !isnan(m->score), m->score);
    sw_json_put_known_f64(&j, "loss", !isnan(m->loss), m->loss);
    sw_json_put_known_f64(&j, "train_loss", !isnan(m->train_loss), m->train_loss);
    sw_json_put_known(&j, "donor", m->donor >= 0, (uint64_t)m->donor);
    population_put_values(&j, "values", v->p, population_values(v->p, v->turn, m->member));
    sw_json_put_u64(&j, "member_bytes", v->shape->member_bytes);
    sw_json_put_u64(&j, "range_bytes", m->range_bytes);
    sw_json_put_u64(&j, "waiting_bytes", m->waiting_bytes);
    sw_json_put_u64(&j, "kept_bytes", m->kept_bytes);
    population_put_parts(&j, "parts", &v->shape->parts);
    population_put_step(&j, &v->step, v->program);
    population_put_end(&j, v->p, v->more);
    sw_json_end(&j);
    return report_print_object(&j, v->style);
}

sw_status population_print_member(population *p, uint32_t member, population_format format,
                                  const report_tail *more, const report_style *style)
{
    view v = {.p = p, .turn = population_last(p), .style = style, .more = more};
    if (v.turn == NULL)
        SW_FAIL(SW_INVALID, "%s: no turn has ended in this file", p->shown);
    if (member >= v.turn->n)
        SW_FAIL(SW_INVALID, "--member must be 0 to %" PRIu32 " in %s (got %" PRIu32 ")",
                v.turn->n - 1, p->shown, member);
    v.member = &v.turn->at[member];
    v.shape = &p->shapes[v.member->shape];
    if (v.shape->highest != SW_TL_NONE) {
        v.program = &p->timeline->programs[v.shape->highest];
        SW_TRY(population_step_of(&v.step, p, v.program));
    }
    const table t = {.columns = columns,
                     .n_columns = (int)(sizeof columns / sizeof *columns),
                     .n = v.shape->parts.n,
                     .row = row,
                     .context = &v};
    sw_status status = SW_OK;
    if (format == POPULATION_JSON)
        status = print_json(&v);
    else if (format == POPULATION_CSV)
        table_print_csv(style, &t);
    else
        print_text(&v, &t);
    population_parts_free(&v.step.holders);
    return status;
}
