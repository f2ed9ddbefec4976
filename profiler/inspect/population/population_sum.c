/* Sums over a population: parts by layer and role, the step of a lane, and the rows that the
 * budget comes to. */
#include "profiler/inspect/population/population_report.h"
#include "alloc/base/mem.h"
#include <stdlib.h>
#include <string.h>

/* ---- parts ------------------------------------------------------------------------------- */

population_kind population_kind_of(const char *role)
{
    return strcmp(role, "parameter") == 0         ? POPULATION_PARAMETERS
           : strcmp(role, "optimizer_state") == 0 ? POPULATION_OPTIMIZER
           : strcmp(role, "knob") == 0            ? POPULATION_KNOBS
                                                  : POPULATION_BUFFERS;
}

/* Layers come in their order, so the one that is looked for is mostly near the end. */
sw_status population_add(population_parts *x, const char *layer, const char *role,
                         uint64_t bytes)
{
    for (uint32_t i = x->n; i > 0; i--)
        if (strcmp(x->at[i - 1].role, role) == 0 && strcmp(x->at[i - 1].layer, layer) == 0) {
            x->at[i - 1].bytes += bytes;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&x->at, SW_HEAP_PROFILE, &x->cap, x->n + 1, sizeof *x->at));
    x->at[x->n++] = (population_part){layer, role, bytes};
    return SW_OK;
}

void population_parts_free(population_parts *x)
{
    sw_heap_free(x->at, SW_HEAP_PROFILE, x->cap * sizeof *x->at);
    *x = (population_parts){0};
}

/* ---- a step ------------------------------------------------------------------------------ */

static bool of_step(void *context, const sw_tensor *v)
{
    (void)context;
    return v->segment == SW_SEGMENT_STEP && v->alias == SW_TENSOR_NONE;
}

static int larger_first(const void *a, const void *b)
{
    const population_part *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    const int by = strcmp(x->layer, y->layer);
    return by != 0 ? by : strcmp(x->role, y->role);
}

static sw_status add_holders(population_step *s, const sw_tl_program *p)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (of_step(NULL, v) && v->birth <= s->peak_op && v->death >= s->peak_op)
            SW_TRY(population_add(&s->holders, v->layer, v->role, v->bytes + v->padding));
    }
    if (s->holders.n > 0)
        qsort(s->holders.at, s->holders.n, sizeof *s->holders.at, larger_first);
    return SW_OK;
}

sw_status population_step_of(population_step *out, population *p, const sw_tl_program *program)
{
    uint64_t *live;
    population_step s = {.peak = 0};
    SW_TRY(sw_timeline_alloc(p->timeline, &live, (size_t)program->n_ops + 1, sizeof(uint64_t)));
    sw_timeline_curve(program, of_step, NULL, live);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const uint8_t phase = program->ops[i].phase;
        if (phase < SW_PROF_PHASES && live[i] > s.phase[phase])
            s.phase[phase] = live[i];
        if (live[i] > s.peak) {
            s.peak = live[i];
            s.peak_op = i;
        }
    }
    const sw_status status = add_holders(&s, program);
    if (status != SW_OK) {
        population_parts_free(&s.holders);
        return status;
    }
    *out = s;
    return SW_OK;
}

/* ---- every byte -------------------------------------------------------------------------- */

static sw_status add_row(population_rows *x, population_row row)
{
    if (row.bytes == 0)
        return SW_OK;
    SW_TRY(sw_heap_reserve(&x->at, SW_HEAP_PROFILE, &x->cap, x->n + 1, sizeof *x->at));
    x->at[x->n++] = row;
    x->sum += row.bytes;
    return SW_OK;
}

static sw_status add_member(population_rows *x, const population *p, const population_member *m)
{
    const population_shape *s = &p->shapes[m->shape];
    for (uint32_t i = 0; m->resident && i < s->parts.n; i++) {
        const population_part *part = &s->parts.at[i];
        SW_TRY(add_row(x, (population_row){"member", m->member, s->name, part->layer,
                                           part->role, part->bytes}));
    }
    return SW_OK;
}

/* The shape of the turn with the highest step; none: its members have no plan. */
static const population_shape *highest_shape(const population *p, const population_turn *t)
{
    const population_shape *highest = NULL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        const population_shape *s = &p->shapes[t->at[i].shape];
        if (s->highest == SW_TL_NONE || p->timeline->programs[s->highest].arena_bytes <= most)
            continue;
        most = p->timeline->programs[s->highest].arena_bytes;
        highest = s;
    }
    return highest;
}

/* Bytes that the plan leaves empty at its peak, or that another turn needed, are unused. */
static sw_status add_lane(population_rows *x, int64_t lane, const population_shape *s,
                          const population_step *step, uint64_t bytes, uint64_t batch)
{
    uint64_t left = bytes;
    for (uint32_t i = 0; i < step->holders.n && step->peak <= bytes; i++) {
        const population_part *part = &step->holders.at[i];
        SW_TRY(add_row(x, (population_row){"step arena", lane, s->name, part->layer, part->role,
                                           part->bytes}));
        left -= part->bytes;
    }
    SW_TRY(add_row(x, (population_row){"step arena", lane, NULL, "", "unused", left}));
    return add_row(x, (population_row){"batch", lane, NULL, "", "input", batch});
}

static sw_status add_lanes(population_rows *x, population *p, const population_turn *t)
{
    const population_shape *s = highest_shape(p, t);
    population_step step = {.peak = 0};
    sw_status status = SW_OK;
    if (s != NULL)
        SW_TRY(population_step_of(&step, p, &p->timeline->programs[s->highest]));
    for (uint64_t i = 0; i < t->lanes && status == SW_OK; i++) {
        const bool last = i + 1 == t->lanes; /* it has what cannot be shared out evenly */
        const uint64_t steps = t->step_bytes / t->lanes, batches = t->batch_bytes / t->lanes;
        status =
            add_lane(x, (int64_t)i, s, &step, steps + (last ? t->step_bytes % t->lanes : 0),
                     batches + (last ? t->batch_bytes % t->lanes : 0));
    }
    population_parts_free(&step.holders);
    return status;
}

static sw_status attribute(population_rows *x, population *p, const population_turn *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        SW_TRY(add_member(x, p, &t->at[i]));
    SW_TRY(add_row(
        x, (population_row){"free", -1, NULL, "", "range", t->range_bytes - t->live_bytes}));
    return add_lanes(x, p, t);
}

sw_status population_attribute(population_rows *out, population *p, const population_turn *t)
{
    population_rows rows = {0};
    const sw_status status = attribute(&rows, p, t);
    if (status != SW_OK) {
        population_rows_free(&rows);
        return status;
    }
    *out = rows;
    return SW_OK;
}

void population_rows_free(population_rows *x)
{
    sw_heap_free(x->at, SW_HEAP_PROFILE, x->cap * sizeof *x->at);
    *x = (population_rows){0};
}
