/* Records of populations: shapes, members in a turn, and what a turn takes. */
#include "profiler/record/prof_internal.h"

/* ---- shapes ------------------------------------------------------------------------------ */

static void put_shape(sw_json *j, uint32_t number, const sw_prof_shape *x)
{
    sw_json_put_string(j, "type", "shape");
    sw_json_put_u64(j, "shape", number);
    sw_json_put_string(j, "name", x->name);
    sw_json_put_u64(j, "member_bytes", x->member_bytes);
    sw_json_put_u64(j, "batch_bytes", x->batch_bytes);
    if (x->exec > 0)
        sw_json_put_u64(j, "exec", x->exec);
    sw_json_open(j, "programs", '[');
    sw_json_u32s(j, x->programs, x->n_programs);
    sw_json_end(j);
    sw_json_open(j, "values", '[');
}

uint32_t sw_prof_shape_begin(sw_profile *p, const sw_prof_shape *x)
{
    pthread_mutex_lock(&p->lock);
    const uint32_t number = p->n_shapes++;
    if (!swi_prof_writes(p))
        return number;
    sw_json_begin(&p->json, '{');
    put_shape(&p->json, number, x);
    return number;
}

/* ---- members ----------------------------------------------------------------------------- */

static void put_values(sw_json *j, const sw_prof_member *x)
{
    sw_json_open(j, "values", '{');
    for (uint32_t i = 0; i < x->n_values; i++)
        sw_json_put_f64(j, x->names[i], x->values[i]);
    sw_json_end(j);
}

static void put_member(sw_json *j, const void *member)
{
    const sw_prof_member *x = member;
    sw_json_put_u64(j, "turn", x->turn);
    sw_json_put_u64(j, "member", x->member);
    sw_json_put_u64(j, "shape", x->shape);
    sw_json_put_u64(j, "step", x->step);
    sw_json_put_u64(j, "seed", x->seed);
    sw_json_put_string(j, "place", x->place);
    sw_json_put_string(j, "status", x->status);
    sw_json_put_u64(j, "range_bytes", x->range_bytes);
    sw_json_put_u64(j, "waiting_bytes", x->waiting_bytes);
    sw_json_put_u64(j, "kept_bytes", x->kept_bytes);
    sw_json_put_f64(j, "score", x->score);
    sw_json_put_f64(j, "loss", x->loss);
    sw_json_put_f64(j, "train_loss", x->train_loss);
    sw_json_put_known(j, "donor", x->donor >= 0, (uint64_t)x->donor);
    put_values(j, x);
}

void sw_prof_member_record(sw_profile *p, const sw_prof_member *x)
{
    swi_prof_record(p, "member", put_member, x);
}

/* ---- turns ------------------------------------------------------------------------------- */

static void put_turn(sw_json *j, const void *turn)
{
    const sw_prof_turn *x = turn;
    sw_json_put_u64(j, "turn", x->turn);
    sw_json_put_u64(j, "step", x->step);
    sw_json_put_u64(j, "members", x->members);
    sw_json_put_u64(j, "lanes", x->lanes);
    sw_json_put_u64(j, "step_bytes", x->step_bytes);
    sw_json_put_u64(j, "batch_bytes", x->batch_bytes);
    sw_json_put_u64(j, "range_bytes", x->range_bytes);
    sw_json_put_u64(j, "live_bytes", x->live_bytes);
    sw_json_put_u64(j, "measured_bytes", x->step_bytes + x->batch_bytes + x->range_bytes);
    sw_json_put_u64(j, "predicted_bytes", x->predicted_bytes);
    sw_json_put_u64(j, "outside_bytes", x->outside_bytes);
}

void sw_prof_turn_record(sw_profile *p, const sw_prof_turn *x)
{
    const uint64_t measured = x->step_bytes + x->batch_bytes + x->range_bytes;
    pthread_mutex_lock(&p->lock);
    if (measured > p->measured_peak_bytes)
        p->measured_peak_bytes = measured;
    if (x->predicted_bytes > p->predicted_peak_bytes)
        p->predicted_peak_bytes = x->predicted_bytes;
    if (x->step > p->steps)
        p->steps = x->step;
    pthread_mutex_unlock(&p->lock);
    swi_prof_record(p, "turn", put_turn, x);
}
