/* Those in training: brought into memory, trained by turns, evaluated. A call takes them in
 * turn, as many steps of each as its operations say and not as clocks do: what a candidate's
 * sums are made of depends on nothing but the candidate. */
#include "alloc/base/size.h"
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include "runtime/population/member_pool.h"
#include <math.h>
#include <stdio.h>

/* ---- fitness: what a member's numbers are worth ------------------------------------------ */

static const char *const fitness_names[SW_FITNESS_KINDS] = {
    [SW_FITNESS_ACCURACY] = "accuracy",
    [SW_FITNESS_TRAIN_ACCURACY] = "train_accuracy",
    [SW_FITNESS_LOSS] = "loss",
    [SW_FITNESS_TIME] = "time",
    [SW_FITNESS_PARAMETERS] = "parameters",
    [SW_FITNESS_PEAK_BYTES] = "peak_bytes",
    [SW_FITNESS_OPERATIONS] = "operations",
    [SW_FITNESS_CUSTOM] = "custom"};

const char *sw_fitness_kind_name(sw_fitness_kind kind)
{
    return (unsigned)kind < SW_FITNESS_KINDS ? fitness_names[kind] : NULL;
}

sw_status swi_fitness_read(swi_fitness_plan *out, const sw_fitness *terms, size_t n,
                           const char *call)
{
    /* Accuracy is a whole number of answers: of equals the one with the smaller loss. */
    static const sw_fitness usual[] = {{.kind = SW_FITNESS_ACCURACY},
                                       {.kind = SW_FITNESS_LOSS, .factor = 1e-6}};
    swi_fitness_plan plan = {.n = n > 0 ? n : 2};
    terms = n > 0 ? terms : usual;
    if (terms == NULL || n > SWI_MAX_TERMS)
        SW_FAIL(SW_INVALID, "%s: fitness must have at most %d terms (got %zu)", call,
                SWI_MAX_TERMS, n);
    for (size_t i = 0; i < plan.n; i++) {
        sw_fitness *t = &plan.terms[i];
        *t = terms[i];
        if (sw_fitness_kind_name(t->kind) == NULL)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: the kind %d is none", call, i, (int)t->kind);
        if (t->reserved[0] != 0 || t->reserved[1] != 0)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: reserved must be zero", call, i);
        if (t->objective != 0 || t->average != 0)
            SW_FAIL(SW_UNSUPPORTED, "%s: fitness %zu: %s is no longer used: must be 0", call, i,
                    t->objective != 0 ? "objective" : "average");
        if (!isfinite(t->factor))
            SW_FAIL(SW_INVALID, "%s: fitness %zu: factor must be finite (got %g)", call, i,
                    t->factor);
        if ((t->kind == SW_FITNESS_CUSTOM) != (t->fn != NULL))
            SW_FAIL(SW_INVALID,
                    "%s: fitness %zu: fn must be given for custom, and for no other", call, i);
        if (!(t->drop >= 0 && t->drop < 1) ||
            (t->drop > 0 && t->kind != SW_FITNESS_TRAIN_ACCURACY))
            SW_FAIL(SW_INVALID,
                    "%s: fitness %zu: drop must be 0 to below 1 (got %g), and is of "
                    "train_accuracy alone",
                    call, i, t->drop);
        if (t->factor == 0)
            t->factor = 1;
        if (t->kind != SW_FITNESS_TRAIN_ACCURACY)
            continue;
        const double drop = t->drop > 0 ? t->drop : 0.5;
        if (plan.drop > 0 && plan.drop != drop)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: drop must be that of the others, %g (got %g)",
                    call, i, plan.drop, drop);
        plan.drop = drop;
    }
    if (plan.drop == 0)
        plan.drop = 0.5;
    *out = plan;
    return SW_OK;
}

static double number_of(const sw_fitness *t, const sw_candidate *c)
{
    switch (t->kind) {
    case SW_FITNESS_ACCURACY:
        return c->accuracy;
    case SW_FITNESS_TRAIN_ACCURACY:
        return c->train_accuracy;
    case SW_FITNESS_LOSS:
        return -c->loss;
    case SW_FITNESS_TIME:
        return -(double)c->ns_per_sample;
    case SW_FITNESS_PARAMETERS:
        return -(double)c->price->parameters;
    case SW_FITNESS_PEAK_BYTES:
        return -(double)c->price->peak_bytes;
    case SW_FITNESS_OPERATIONS:
        return -c->price->operations_per_sample;
    case SW_FITNESS_CUSTOM:
        return t->fn(c, t->user);
    }
    return NAN;
}

double swi_fitness_of(const swi_fitness_plan *p, const sw_candidate *c, uint32_t *which)
{
    double sum = 0;
    *which = UINT32_MAX;
    for (uint32_t i = 0; i < p->n; i++) {
        const sw_fitness *t = &p->terms[i];
        const double x = number_of(t, c);
        sum += (t->map != NULL ? t->map(x, t->user) : x) * t->factor;
        if (!isfinite(x) || !isfinite(sum)) {
            *which = i;
            return (double)NAN;
        }
    }
    return sum;
}

/* ---- memory ------------------------------------------------------------------------------ */

/* One lane for the largest, all that are in training, and what a child begins in. */
enum { IN_BETWEEN = 2 };

swi_candidate_need swi_need_most(swi_candidate_need a, swi_candidate_need b)
{
    return (swi_candidate_need){sw_size_larger(a.arena, b.arena),
                                sw_size_larger(a.batch, b.batch),
                                sw_size_larger(a.member, b.member)};
}

uint32_t swi_evolution_width(const sw_evolution *e)
{
    return e->opts.workers > SWI_SEARCH_WIDE ? e->opts.workers : SWI_SEARCH_WIDE;
}

size_t swi_need_bytes(const sw_evolution *e, swi_candidate_need need)
{
    /* Plans are far below 2^48 bytes, and there are at most 2^10 workers. */
    const size_t most = (size_t)1 << 44;
    if (need.arena > most || need.batch > most || need.member > most)
        return SIZE_MAX;
    return need.arena + need.batch + (swi_evolution_width(e) + IN_BETWEEN) * need.member;
}

size_t swi_evolution_room(const sw_evolution *e)
{
    const size_t limit = sw_budget_limit(e->budget);
    if (e->budget == NULL)
        return SIZE_MAX / 4;
    return limit > e->others ? limit - e->others : 0;
}

static size_t evolution_bytes(const sw_evolution *e)
{
    const swi_member_pool *pool = e->exec->member_pool;
    const size_t members =
        pool != NULL ? sw_arena_height(pool->ranges) + swi_lanes_bytes(pool) : 0;
    return members + e->rest_bytes + e->scratch_bytes;
}

static void swi_evolution_note_peak(sw_evolution *e)
{
    e->peak_bytes = sw_size_larger(e->peak_bytes, evolution_bytes(e));
}

sw_status swi_charged_take(sw_evolution *e, void **out, size_t bytes, size_t *count)
{
    SW_TRY(sw_budget_take(e->budget, bytes, "evolution"));
    const sw_status status = sw_heap_alloc(out, SW_HEAP_RECORDS, bytes);
    if (status != SW_OK) {
        sw_budget_give(e->budget, bytes);
        return status;
    }
    *count += bytes;
    swi_evolution_note_peak(e);
    return SW_OK;
}

void swi_charged_give(sw_evolution *e, void *block, size_t bytes, size_t *count)
{
    if (block == NULL)
        return;
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    sw_budget_give(e->budget, bytes);
    *count -= bytes;
}

sw_status sw_evolution_used(const sw_evolution *e, sw_evolution_memory *out)
{
    SW_TRY(sw_handle_look(e, SW_HANDLE_EVOLUTION, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_evolution_memory, out, __func__));
    const swi_member_pool *pool = e->exec->member_pool;
    sw_evolution_memory used = {.size = out->size, .bytes = evolution_bytes(e)};
    used.peak_bytes = sw_size_larger(used.bytes, e->peak_bytes);
    if (pool != NULL) {
        used.lane_bytes = swi_lanes_bytes(pool);
        used.member_bytes = sw_arena_height(pool->ranges);
    }
    for (uint32_t i = 0; i < e->n; i++) {
        used.resident += e->ones[i]->training;
        used.resting += e->ones[i]->rest.there;
    }
    swi_struct_write(SWI_STRUCT_sw_evolution_memory, out, &used);
    return SW_OK;
}

/* The most that states at rest take without files: half of the room that one lane and all
 * members leave. The other half is for more lanes. */
size_t swi_rest_room(const sw_evolution *e)
{
    return (swi_evolution_room(e) - swi_need_bytes(e, e->most)) / 2;
}

/* As many lanes as there is room for, beside what exchanges of ranks take. Where they become
 * fewer, all give back what they have. */
static sw_status use_lanes(sw_evolution *e)
{
    const size_t more = swi_rest_room(e) * (e->opts.dir != NULL ? 2 : 1);
    const size_t left = more > e->ranks_bytes ? more - e->ranks_bytes : 0;
    const size_t lanes = 1 + left / (e->most.arena + e->most.batch + 1);
    const size_t most = (size_t)(swi_target_of(e->exec)->threads / e->threads);
    const int had = e->lanes;
    e->lanes = (int)(lanes < most ? lanes : most);
    if (e->exec->member_pool == NULL)
        return SW_OK;
    for (swi_lanes *l = e->exec->member_pool->lanes; l != NULL && e->lanes < had; l = l->next)
        SW_TRY(swi_lanes_empty(l));
    swi_lanes_use(e->exec->member_pool, e->lanes);
    return SW_OK;
}

/* ---- into memory ------------------------------------------------------------------------- */

void swi_one_assign(const sw_evolution *e, swi_one *one, const swi_job *job)
{
    uint64_t parts = 1;
    for (uint32_t rung = job->rung + 1; rung < e->opts.rungs; rung++)
        parts *= e->opts.eta;
    const uint64_t steps = e->opts.samples / parts / (uint64_t)one->genome->batch;
    one->assigned = steps > one->steps ? steps : one->steps + 1;
    one->counted_from =
        one->steps + (uint64_t)ceil(e->fitness.drop * (double)(one->assigned - one->steps));
    if (one->counted_from >= one->assigned)
        one->counted_from = one->assigned - 1;
    one->counted = one->eval_made = one->ns = one->ns_samples = 0;
    one->accuracy_sum = one->eval_loss = one->eval_right = 0;
    one->training = true;
    one->placed = false;
}

/* Its state where it is there and whole; else it begins again. */
static sw_status load(sw_evolution *e, swi_one *one, unsigned char *range)
{
    sw_status status;
    if (one->steps > 0) {
        status = swi_ranks_fetch(e, one, range);
        if (status == SW_OK || (status != SW_FORMAT && status != SW_IO))
            return status;
        if (one->rest.there)
            swi_evolution_note(e, sw_last_error());
        one->steps = 0;
    }
    return range != NULL ? swi_net_begin(one->net, range, swi_one_seed(e, one)) : SW_OK;
}

static sw_status place(sw_evolution *e, swi_one *one)
{
    one->placed = true;
    if (!swi_is_mine(e, one)) {
        swi_one_close(one); /* it was opened for its price */
        return load(e, one, NULL);
    }
    if (one->group == NULL)
        SW_TRY(swi_one_open(e, one));
    SW_TRY(swi_member_claim(&one->member, one->group, swi_one_seed(e, one)));
    sw_status status = load(e, one, swi_member_base(one->group, one->member.index));
    if (status == SW_OK)
        status = sw_member_progress_set(one->member, one->steps, one->steps);
    if (status != SW_OK) {
        sw_member_end(one->member);
        one->member = (sw_member){.of = NULL};
    }
    swi_evolution_note_peak(e);
    return status;
}

/* ---- one call ---------------------------------------------------------------------------- */

/* Operations of a call for each lane, and of one member in it: some ten milliseconds and half a
 * one, at ten operations a nanosecond. A step that has more is a call by itself. */
#define CALL_OPERATIONS 100000000u
#define MEMBER_OPERATIONS 5000000u
#define MEMBERS_OF_A_LANE 4 /* at least, so that lanes end a call at about the same time */

/* Steps in a row; not across where counting begins. */
static uint32_t steps_in_a_row(const swi_one *one)
{
    const uint64_t operations = one->price.operations > 0 ? one->price.operations : 1;
    const uint64_t end = one->steps < one->counted_from ? one->counted_from : one->assigned;
    const uint64_t quick = MEMBER_OPERATIONS / operations;
    const uint64_t n = end - one->steps < quick ? end - one->steps : quick;
    return n > 0 ? (uint32_t)n : 1;
}

static sw_members_args args_of(const sw_evolution *e, const swi_one *one)
{
    if (one->steps == one->assigned)
        return SW_OPTS(sw_members_args, .members = &one->member, .n = 1, .mode = SW_EVAL,
                       .feed = one->eval, .same_data = 1, .step = one->eval_made, .steps = 1);
    return SW_OPTS(sw_members_args, .members = &one->member, .n = 1, .mode = SW_TRAIN,
                   .feed = one->train, .same_data = 1, .data_seed = swi_one_order(e, one),
                   .own_steps = 1, .steps = steps_in_a_row(one));
}

static bool is_over(const swi_one *one)
{
    return one->invalid || (one->steps == one->assigned && one->eval_made == one->eval_all);
}

/* Of a call. */
static uint64_t most_operations(const sw_evolution *e)
{
    return (uint64_t)CALL_OPERATIONS * (uint64_t)e->lanes;
}

/* Members in turn from the cursor on; how many, and their operations. */
static uint32_t choose(sw_evolution *e, uint64_t *made)
{
    const uint64_t most = most_operations(e);
    const uint32_t least = MEMBERS_OF_A_LANE * (uint32_t)e->lanes;
    uint64_t operations = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < e->n_training; k++) {
        if (operations >= most && (n >= least || e->lanes == 1))
            break;
        const uint32_t i = e->in_training[e->cursor++ % e->n_training];
        const swi_one *one = e->ones[i];
        if (is_over(one))
            continue;
        e->call_groups[n] = one->group;
        e->call_args[n] = args_of(e, one);
        e->call_of[n] = i;
        operations += one->price.operations * e->call_args[n++].steps;
    }
    *made += operations;
    return n;
}

/* ---- what came of it --------------------------------------------------------------------- */

static void invalidate(swi_one *one, const char *what, double x)
{
    one->invalid = true;
    (void)snprintf(one->why, sizeof one->why, "%s became %g in step %llu", what, x,
                   (unsigned long long)one->steps);
}

/* The most that its launches were given, in any lane: range, batch and step. */
static void measure(swi_one *one, const sw_feed *feed)
{
    const sw_members *m = one->group;
    size_t reached = 0;
    for (int k = 0; k < 2; k++)
        for (int lane = 0; lane < m->lanes->n; lane++) {
            const swi_frame *f = m->programs[m->run.program[k]].frame[lane];
            reached = sw_size_larger(reached, f->reached);
        }
    one->measured = sw_size_larger(one->measured, m->stride + reached + feed->bytes);
}

static sw_status take_training(swi_one *one, uint32_t steps, double loss, double accuracy)
{
    measure(one, one->train);
    if (one->steps >= one->counted_from) {
        one->accuracy_sum += accuracy * steps;
        one->counted += steps;
    }
    one->steps += steps;
    one->ns += one->group->slots[one->member.index].ns;
    one->ns_samples += steps * (uint64_t)one->genome->batch;
    if (!isfinite(loss))
        invalidate(one, "the loss of training", loss);
    return SW_OK;
}

/* Shares of a batch times its rows: right answers are whole numbers. */
static sw_status take_evaluation(swi_one *one, double loss, double accuracy)
{
    const double rows = (double)swi_feed_rows(one->eval, one->eval_made);
    measure(one, one->eval);
    one->eval_loss += loss * rows;
    one->eval_right += rint(accuracy * rows);
    one->eval_made++;
    if (!isfinite(loss))
        invalidate(one, "the loss of evaluation", loss);
    return SW_OK;
}

/* A member whose run failed is invalid. */
static sw_status take(swi_one *one, const sw_members_args *args)
{
    sw_status status;
    double loss, accuracy;
    SW_TRY(sw_members_status(one->group, &status, 1));
    if (status != SW_OK) {
        one->invalid = true;
        (void)snprintf(one->why, sizeof one->why, "a step ended with %s: %s",
                       sw_status_name(status), sw_last_note());
        return SW_OK;
    }
    SW_TRY(sw_members_mean(one->group, "loss", &loss, 1));
    SW_TRY(sw_members_mean(one->group, "accuracy", &accuracy, 1));
    return args->mode == SW_TRAIN ? take_training(one, args->steps, loss, accuracy)
                                  : take_evaluation(one, loss, accuracy);
}

void swi_one_judge(sw_evolution *e, swi_one *one)
{
    uint32_t which;
    const double n = (double)e->opts.validation_samples;
    one->loss = one->invalid ? (double)NAN : one->eval_loss / n;
    one->accuracy = one->invalid ? (double)NAN : one->eval_right / n;
    one->train_accuracy =
        one->counted > 0 ? one->accuracy_sum / (double)one->counted : (double)NAN;
    one->ns_per_sample = one->ns_samples > 0 ? one->ns / one->ns_samples : 0;
    one->fitness = (double)NAN;
    if (one->invalid)
        return;
    const sw_candidate view = swi_one_view(e, one);
    e->shown = view.genome;
    one->fitness = swi_fitness_of(&e->fitness, &view, &which);
    e->shown = NULL;
    one->invalid = isnan(one->fitness);
    if (one->invalid)
        (void)snprintf(one->why, sizeof one->why, "fitness %u, %s, is no finite number", which,
                       sw_fitness_kind_name(e->fitness.terms[which].kind));
}

/* *n members: none are left where it is 0. */
static sw_status run_call(sw_evolution *e, uint32_t *n, uint64_t *operations)
{
    *n = choose(e, operations);
    const uint64_t begin = sw_clock_ns();
    const uint64_t gap = e->last_end > 0 ? begin - e->last_end : 0;
    if (*n == 0)
        return SW_OK;
    e->longest_gap = gap > e->longest_gap ? gap : e->longest_gap;
    SW_TRY(sw_members_run_all(e->call_groups, e->call_args, *n));
    e->last_end = sw_clock_ns();
    swi_evolution_note_peak(e);
    for (uint32_t k = 0; k < *n; k++) {
        swi_one *one = e->ones[e->call_of[k]];
        const uint64_t before = one->steps;
        SW_TRY(take(one, &e->call_args[k]));
        e->own_steps += one->steps - before;
    }
    return SW_OK;
}

/* As much as a call takes at most, since others wait after it; what is over says so. */
static sw_status run_turn(sw_evolution *e, uint32_t next, bool *over)
{
    uint64_t operations = 0;
    uint32_t n = 1;
    while (n > 0 && operations < most_operations(e)) {
        SW_TRY(run_call(e, &n, &operations));
        SW_TRY(swi_ranks_alive(e->ranks));
    }
    *over = is_over(e->ones[next]);
    return swi_ranks_turn(e, next, over);
}

static sw_status run(sw_evolution *e, uint32_t next, uint32_t *ended)
{
    uint64_t operations = 0;
    uint32_t n;
    *ended = SWI_SEARCH_NONE;
    if (e->ranks != NULL)
        swi_ranks_deal(e);
    e->n_training = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        swi_one *one = e->ones[i];
        if (!one->training)
            continue;
        if (!one->placed)
            SW_TRY(place(e, one));
        if (swi_is_mine(e, one))
            e->in_training[e->n_training++] = i;
    }
    SW_TRY(use_lanes(e));
    bool over = is_over(e->ones[next]);
    if (e->ranks != NULL)
        SW_TRY(run_turn(e, next, &over));
    else if (!over) {
        SW_TRY(run_call(e, &n, &operations));
        over = is_over(e->ones[next]);
    }
    if (!over)
        return SW_OK;
    if (e->ranks == NULL)
        swi_one_judge(e, e->ones[next]);
    *ended = next;
    return SW_OK;
}

sw_status swi_evolution_run(sw_evolution *e, uint32_t next, uint32_t *ended)
{
    const sw_status status = run(e, next, ended);
    return status == SW_NOMEM && e->ranks != NULL ? swi_ranks_no_room(e) : status;
}
