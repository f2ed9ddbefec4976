/* A population as JSON. Its keys are part of the interface. */
#include "profiler/inspect/population/population_view.h"

void population_put_head(sw_json *j, const population *p)
{
    const sw_timeline *t = p->timeline;
    sw_json_put_string(j, "file", p->shown);
    sw_json_put_string(j, "tool", "stepwell");
    sw_json_put_string(j, "kind", "population");
    report_put_text(j, "model", t->model);
    report_put_text(j, "device", t->device);
    report_put_text(j, "data", t->data);
    report_put_text(j, "normalise", t->normalise);
    report_put_text(j, "scores", t->scores);
    report_put_batch(j, t->batch);
    sw_json_put_u64(j, "seed", t->seed);
    report_put_text(j, "created", t->created);
    report_put_text(j, "command", t->command);
    sw_json_put_u64(j, "n_members", p->members);
    sw_json_put_known(j, "budget_bytes", p->budget_bytes > 0, p->budget_bytes);
    sw_json_put_u64(j, "turns", p->seen_turns);
    sw_json_put_known(j, "first_turn", p->seen_turns > 0, p->first_turn);
    sw_json_put_known(j, "last_turn", p->seen_turns > 0, p->last_turn);
    sw_json_put_u64(j, "measured_peak_bytes", p->peak_bytes);
}

void population_put_end(sw_json *j, const population *p, const report_tail *more)
{
    report_put_text(j, "status", p->status);
    report_put_text(j, "error", p->error);
    if (sw_json_open_known(j, "damaged", p->damaged_line > 0)) {
        sw_json_put_u64(j, "line", p->damaged_line);
        sw_json_put_string(j, "why", p->damaged_why);
        sw_json_end(j);
    }
    if (more != NULL)
        more->put(j, more->context);
}

void population_put_values(sw_json *j, const char *key, const population *p,
                           const double *values)
{
    sw_json_open(j, key, '{');
    for (uint32_t i = 0; i < p->n_names; i++)
        sw_json_put_f64(j, p->names[i], values[i]);
    sw_json_end(j);
}

void population_put_parts(sw_json *j, const char *key, const population_parts *x)
{
    sw_json_open(j, key, '[');
    for (uint32_t i = 0; i < x->n; i++) {
        sw_json_begin(j, '{');
        sw_json_put_string(j, "layer", x->at[i].layer);
        sw_json_put_string(j, "role", x->at[i].role);
        sw_json_put_u64(j, "bytes", x->at[i].bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void population_put_step(sw_json *j, const population_step *s, const sw_tl_program *p)
{
    if (!sw_json_open_known(j, "step_arena", p != NULL))
        return;
    sw_json_put_string(j, "run", p->run);
    report_put_batch(j, p->batch);
    sw_json_put_u64(j, "arena_bytes", p->arena_bytes);
    sw_json_put_u64(j, "peak_bytes", s->peak);
    sw_json_put_string(j, "peak_op", s->peak_op < p->n_ops ? p->ops[s->peak_op].name : NULL);
    sw_json_open(j, "phases", '{');
    for (int i = 0; i < SW_PROF_PHASES; i++)
        sw_json_put_u64(j, sw_prof_phase_name(i), s->phase[i]);
    sw_json_end(j);
    population_put_parts(j, "holders", &s->holders);
    sw_json_end(j);
}

static void put_shapes(sw_json *j, const population_view *v)
{
    sw_json_open(j, "shapes", '[');
    for (uint32_t i = 0; i < v->n_shapes; i++) {
        const population_shape *s = &v->p->shapes[v->shape[i]];
        const sw_tl_program *p = population_program(v, s);
        sw_json_begin(j, '{');
        sw_json_put_string(j, "shape", s->name);
        sw_json_put_u64(j, "members", population_members_of(v, v->shape[i]));
        sw_json_put_u64(j, "member_bytes", s->member_bytes);
        sw_json_put_u64(j, "batch_bytes", s->batch_bytes);
        population_put_parts(j, "parts", &s->parts);
        population_put_step(j, &v->step[i], p);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void put_turn(sw_json *j, const population_view *v)
{
    const population_turn *t = v->turn;
    sw_json_put_u64(j, "turn", t->turn);
    sw_json_put_u64(j, "step", t->step);
    sw_json_put_u64(j, "lanes", t->lanes);
    sw_json_put_u64(j, "step_arena_bytes", t->step_bytes);
    sw_json_put_u64(j, "batch_bytes", t->batch_bytes);
    sw_json_put_u64(j, "range_bytes", t->range_bytes);
    sw_json_put_u64(j, "live_bytes", t->live_bytes);
    sw_json_put_u64(j, "measured_bytes", population_measured(t));
    sw_json_put_u64(j, "predicted_bytes", t->predicted_bytes);
    sw_json_put_u64(j, "outside_bytes", t->outside_bytes);
    const table members = population_member_table(v), budget = population_budget_table(v);
    table_put(j, "members", &members);
    sw_json_open(j, "values", '[');
    for (uint32_t i = 0; i < t->n; i++) {
        sw_json_begin(j, '{');
        sw_json_put_u64(j, "member", t->at[i].member);
        population_put_values(j, "values", v->p, population_values(v->p, t, i));
        sw_json_end(j);
    }
    sw_json_end(j);
    table_put(j, "budget", &budget);
    sw_json_put_u64(j, "sum_bytes", v->rows.sum);
}

sw_status population_print_json(const population_view *v)
{
    sw_json j;
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    population_put_head(&j, v->p);
    if (v->turn != NULL)
        put_turn(&j, v);
    put_shapes(&j, v);
    population_put_end(&j, v->p, v->more);
    sw_json_end(&j);
    return report_print_object(&j, v->style);
}
