/* Waves of a generation: the residents, then those that rest, as many at a time as there are
 * lanes; and before them those that go on, while children are made. */
#include "runtime/population/evolve/evolution.h"
#include <math.h>

uint64_t swi_steps_of(const sw_evolution *e, const swi_one *one)
{
    const uint64_t steps = e->opts.samples / (uint64_t)one->genome->batch;
    return steps > 0 ? steps : 1;
}

void swi_one_begin_generation(const sw_evolution *e, swi_one *one)
{
    one->assigned = swi_steps_of(e, one);
    one->counted_from = (uint64_t)ceil(e->fitness.drop * (double)one->assigned);
    if (one->counted_from >= one->assigned)
        one->counted_from = one->assigned - 1;
    one->made = one->counted = one->eval_made = one->ns = 0;
    one->loss_sum = one->accuracy_sum = one->eval_loss = one->eval_right = 0;
    one->slow = 0;
    one->ended = false;
}

static void begin_wave(sw_evolution *e)
{
    e->cursor = 0;
    e->wave_ns = 0;
}

static sw_status add_to_wave(sw_evolution *e, uint32_t i)
{
    swi_one *one = &e->members[i];
    if (one->member.of == NULL)
        SW_TRY(swi_one_load(e, one));
    one->begun = false;
    e->waved[i] = true;
    e->n_waved++;
    e->wave[e->n_wave++] = i;
    return SW_OK;
}

sw_status swi_evolution_place(sw_evolution *e)
{
    SW_TRY(swi_evolution_pack(e));
    swi_evolution_use_lanes(e, e->lanes);
    e->n_wave = e->n_waved = 0;
    e->trained = e->generation;
    e->early = 0;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one *one = &e->members[i];
        e->waved[i] = false;
        if (!one->begun)
            swi_one_begin_generation(e, one);
        if (one->resident)
            SW_TRY(add_to_wave(e, i));
    }
    begin_wave(e);
    return SW_OK;
}

sw_status swi_evolution_train_kept(sw_evolution *e)
{
    e->n_wave = 0;
    e->trained = e->generation + 1;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one *one = &e->members[i];
        one->begin_steps = one->steps;
        if (!one->kept || one->member.of == NULL)
            continue;
        swi_one_begin_generation(e, one);
        one->begun = true;
        SW_TRY(sw_member_progress_set(one->member, one->steps, 0));
        e->wave[e->n_wave++] = i;
    }
    begin_wave(e);
    return SW_OK;
}

/* Those that do not stay rest again, as they are now: as at the begin of the next one. */
sw_status swi_wave_rest(sw_evolution *e)
{
    for (uint32_t k = 0; k < e->n_wave; k++) {
        swi_one *one = &e->members[e->wave[k]];
        if (one->resident)
            continue;
        SW_TRY(swi_one_store(e, one, e->generation + 1));
        sw_member_end(one->member);
        one->member = (sw_member){.of = NULL};
    }
    e->n_wave = 0;
    return SW_OK;
}

/* As many of those that rest take their turn as there are lanes. */
sw_status swi_wave_next(sw_evolution *e)
{
    for (uint32_t i = 0; i < e->opts.population && e->n_wave < (uint32_t)e->lanes; i++)
        if (!e->waved[i])
            SW_TRY(add_to_wave(e, i));
    begin_wave(e);
    return SW_OK;
}
