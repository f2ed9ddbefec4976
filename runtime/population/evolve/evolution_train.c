/* Runs of the members of a wave. A call takes members in
 * turn, as many steps of each as its operations say and not as clocks do: what a member's sums
 * are made of depends on nothing but the member. */
#include "alloc/base/assert.h"
#include "runtime/population/evolve/evolution.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Operations of a call for each lane, and of one member in it: some ten milliseconds and half a
 * one, at ten operations a nanosecond. A step that has more is a call by itself. */
#define CALL_OPERATIONS 100000000u
#define MEMBER_OPERATIONS 5000000u
#define MEMBERS_OF_A_LANE 4 /* at least, so that lanes end a call at about the same time */

/* ---- one call ---------------------------------------------------------------------------- */

static bool trains(const swi_one *one)
{
    return !one->ended && !one->invalid && one->made < one->assigned;
}

static bool is_to_evaluate(const swi_one *one)
{
    return !one->invalid && one->eval_made < one->eval_all;
}

/* Steps in a row: one of variant 1, or those up to the next one; not across where counting
 * begins. */
static uint32_t steps_in_a_row(const swi_one *one)
{
    const uint64_t operations = one->price.operations > 0 ? one->price.operations : 1;
    const uint64_t turn = one->made % SWI_UTILITY_STEPS;
    uint64_t n = one->assigned - one->made;
    if (turn == 0)
        return 1;
    n = n < SWI_UTILITY_STEPS - turn ? n : SWI_UTILITY_STEPS - turn;
    if (one->made < one->counted_from && one->counted_from - one->made < n)
        n = one->counted_from - one->made;
    const uint64_t quick = MEMBER_OPERATIONS / operations;
    n = n < quick ? n : quick;
    return n > 0 ? (uint32_t)n : 1;
}

static sw_members_args train_args(const sw_evolution *e, const swi_one *one,
                                  uint64_t generation)
{
    return SW_OPTS(sw_members_args, .members = &one->member, .n = 1, .mode = SW_TRAIN,
                   .variant = one->made % SWI_UTILITY_STEPS == 0, .feed = one->train,
                   .same_data = 1, .data_seed = swi_draw_seed(e->opts.seed, generation),
                   .own_steps = 1, .steps = steps_in_a_row(one));
}

static sw_members_args eval_args(const swi_one *one)
{
    return SW_OPTS(sw_members_args, .members = &one->member, .n = 1, .mode = SW_EVAL,
                   .feed = one->eval, .same_data = 1, .step = one->eval_made, .steps = 1);
}

/* Members in turn from the cursor on, at most so many; how many. */
static uint32_t choose(sw_evolution *e, bool train, uint32_t members)
{
    const uint64_t most = (uint64_t)CALL_OPERATIONS * (uint64_t)e->lanes;
    uint64_t operations = 0;
    uint32_t n = 0;
    const uint32_t least = MEMBERS_OF_A_LANE * (uint32_t)e->lanes;
    for (uint32_t k = 0; k < e->n_wave && n < members; k++) {
        if (operations >= most && (n >= least || e->lanes == 1))
            break;
        const uint32_t i = e->wave[e->cursor % e->n_wave];
        const swi_one *one = &e->members[i];
        e->cursor = (e->cursor + 1) % e->n_wave;
        if (!(train ? trains(one) : is_to_evaluate(one)))
            continue;
        e->call_groups[n] = one->group;
        e->call_args[n] = train ? train_args(e, one, e->trained) : eval_args(one);
        e->call_of[n++] = i;
        operations += one->price.operations * (train ? e->call_args[n - 1].steps : 1);
    }
    return n;
}

static sw_status run(sw_evolution *e, uint32_t n, uint64_t *took)
{
    const uint64_t begin = sw_clock_ns();
    const uint64_t gap = e->last_end > 0 ? begin - e->last_end : 0;
    e->longest_gap = gap > e->longest_gap ? gap : e->longest_gap;
    SW_TRY(sw_members_run_all(e->call_groups, e->call_args, n));
    e->last_end = sw_clock_ns();
    *took = e->last_end - begin;
    swi_evolution_note_peak(e);
    return SW_OK;
}

/* ---- what came of it --------------------------------------------------------------------- */

static void invalidate(swi_one *one, const char *what, double x)
{
    one->invalid = true;
    (void)snprintf(one->why, sizeof one->why, "%s became %g in step %llu", what, x,
                   (unsigned long long)one->steps);
}

/* False: the run of the member failed, which makes it invalid. */
static sw_status ended_well(swi_one *one, bool *well)
{
    sw_status status;
    SW_TRY(sw_members_status(one->group, &status, 1));
    *well = status == SW_OK;
    if (*well)
        return SW_OK;
    one->invalid = true;
    (void)snprintf(one->why, sizeof one->why, "a step ended with %s: %s",
                   sw_status_name(status), sw_last_note());
    return SW_OK;
}

/* The most that its launches were given, in any lane: range, batch and step. */
static void measure(swi_one *one, const sw_feed *feed)
{
    const sw_members *m = one->group;
    size_t reached = 0;
    for (int k = 0; k < 2; k++)
        for (int lane = 0; lane < m->lanes->n; lane++) {
            const swi_frame *f = m->programs[m->run.program[k]].frame[lane];
            reached = f->reached > reached ? f->reached : reached;
        }
    const size_t bytes = m->stride + reached + feed->bytes;
    one->measured = bytes > one->measured ? bytes : one->measured;
}

static void judge_time(const sw_evolution *e, swi_one *one, uint64_t ns, uint32_t steps)
{
    one->ns += ns;
    if (e->opts.step_ns == 0)
        return;
    one->slow = ns / steps > e->opts.step_ns ? one->slow + steps : 0;
    one->ended |= one->slow >= e->opts.patience;
}

static sw_status take_training(sw_evolution *e, swi_one *one, uint32_t steps)
{
    double loss, accuracy;
    bool well;
    SW_TRY(ended_well(one, &well));
    if (!well)
        return SW_OK;
    SW_TRY(sw_members_mean(one->group, "loss", &loss, 1));
    SW_TRY(sw_members_mean(one->group, "accuracy", &accuracy, 1));
    measure(one, one->train);
    if (one->made >= one->counted_from) {
        one->accuracy_sum += accuracy * steps;
        one->counted += steps;
    }
    one->loss_sum += loss * steps;
    one->made += steps;
    one->steps += steps;
    e->steps += steps;
    judge_time(e, one, one->group->slots[one->member.index].ns, steps);
    if (!isfinite(loss))
        invalidate(one, "the loss of training", loss);
    return SW_OK;
}

/* Shares of a batch times its rows: right answers are whole numbers. */
static sw_status take_evaluation(swi_one *one)
{
    double loss, accuracy;
    bool well;
    SW_TRY(ended_well(one, &well));
    if (!well)
        return SW_OK;
    SW_TRY(sw_members_metric(one->group, "loss", &loss, 1));
    SW_TRY(sw_members_metric(one->group, "accuracy", &accuracy, 1));
    const double rows = (double)swi_feed_rows(one->eval, one->eval_made);
    measure(one, one->eval);
    one->eval_loss += loss * rows;
    one->eval_right += rint(accuracy * rows);
    one->eval_made++;
    if (!isfinite(loss))
        invalidate(one, "the loss of evaluation", loss);
    return SW_OK;
}

static sw_status run_training(sw_evolution *e, uint32_t n)
{
    uint64_t took = 0;
    SW_TRY(run(e, n, &took));
    for (uint32_t k = 0; k < n; k++)
        SW_TRY(take_training(e, &e->members[e->call_of[k]], e->call_args[k].steps));
    e->wave_ns += took;
    if (e->opts.generation_ns == 0)
        return SW_OK;
    /* A wave has its share of the time. */
    const double share = (double)e->n_wave / e->opts.population;
    if ((double)e->wave_ns >= share * (double)e->opts.generation_ns)
        for (uint32_t k = 0; k < e->n_wave; k++)
            e->members[e->wave[k]].ended = true;
    return SW_OK;
}

static sw_status run_evaluation(sw_evolution *e, uint32_t n)
{
    uint64_t took = 0;
    SW_TRY(run(e, n, &took));
    for (uint32_t k = 0; k < n; k++)
        SW_TRY(take_evaluation(&e->members[e->call_of[k]]));
    return SW_OK;
}

sw_status swi_evolution_run_kept(sw_evolution *e)
{
    const uint64_t before = e->steps;
    const uint32_t n = choose(e, true, 1); /* so that there is something for each child */
    if (n > 0)
        SW_TRY(run_training(e, n));
    e->early += e->steps - before;
    return SW_OK;
}

sw_status swi_evolution_run(sw_evolution *e, bool *ended)
{
    uint32_t n = choose(e, true, e->n_wave);
    *ended = false;
    if (n > 0)
        return run_training(e, n);
    n = choose(e, false, e->n_wave);
    if (n > 0)
        return run_evaluation(e, n);
    SW_TRY(swi_evolution_judge_wave(e));
    SW_TRY(swi_wave_rest(e));
    *ended = e->n_waved == e->opts.population;
    return *ended ? SW_OK : swi_wave_next(e);
}
