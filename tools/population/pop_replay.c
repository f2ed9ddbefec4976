/* --replay: one member along the schedule of a policy file. The file is a lineage: the first
 * line has who began, each further one who went on from there, from which step on and with
 * which values; so the seeds are known too, and the bits are those of the population's member.
 */
#include "tools/population/population.h"
#include <inttypes.h>

static sw_status values_to(pop *p, const double *values)
{
    for (int i = 0; i < p->n_hypers; i++)
        SW_TRY(sw_pbt_value_set(p->pbt, 0, i, values[i]));
    return SW_OK;
}

/* A schedule is kept as it is: what does not fit is no other shape. */
static sw_status check_fit(pop *p, const pop_config *config)
{
    pop_config its = *config;
    bool changed, fits;
    SW_TRY(pop_fit(p, &its, &changed, &fits));
    if (!fits || changed)
        SW_FAIL(SW_NOMEM, "--replay %s: %s does not fit --memory-budget %zu", p->opts.replay,
                pop_config_text(config).text, p->opts.job.budget_bytes);
    return SW_OK;
}

/* The member goes on as `who`, with other values. */
static sw_status change(pop *p, int who, const double *values)
{
    pop_member *m = &p->members[0];
    const pop_config config = pop_config_of(p, values);
    int shape;
    SW_TRY(check_fit(p, &config));
    SW_TRY(pop_pause(p, 0)); /* nothing is there before the first */
    SW_TRY(values_to(p, values));
    SW_TRY(pop_shape_of(p, &config, &shape));
    m->resized = m->waiting.there && m->waiting.shape != shape;
    m->shape = shape;
    m->seed = (uint64_t)p->opts.job.seed + (uint64_t)who;
    return pop_bring(p, 0);
}

static sw_status along(pop *p, int n)
{
    double values[POP_HYPERS], next, time;
    const int first = 0;
    for (int k = 0; k < n && !cli_interrupted(); k++) {
        int who;
        SW_TRY(sw_policy_change(p->opts.replay, p->space, k, &who, &time, values));
        SW_TRY(change(p, who, values));
        next = p->steps_to_do;
        if (k + 1 < n)
            SW_TRY(sw_policy_change(p->opts.replay, p->space, k + 1, NULL, &next, NULL));
        if (!p->opts.quiet)
            cli_note("step %.0f: the values of member %d", time, who);
        p->members[0].target = (uint64_t)(next < p->steps_to_do ? next : p->steps_to_do);
        SW_TRY(pop_advance(p, &first, 1));
        pop_shapes_sweep(p);
    }
    return cli_interrupted() ? SW_OK : pop_score_all(p, &first, 1);
}

int pop_replay(pop *p)
{
    int n;
    sw_status status = sw_policy_changes(p->opts.replay, p->space, &n);
    if (status != SW_OK)
        return cli_library_error(status, true);
    const pop_memory *m = &p->memory;
    p->memory.packing = SW_OPTS(sw_packing, .threads = m->threads,
                                .lane_bytes = (size_t)m->threads * (m->arena + m->batch),
                                .resident = 1, .resident_bytes = m->member);
    p->memory.most_of = p->memory.packing;
    p->memory.predicted_peak = pop_least(p);
    const uint64_t start = cli_clock_ns();
    status = along(p, n);
    if (status == SW_OK)
        status = pop_test_best(p);
    p->wall_ns = cli_clock_ns() - start;
    if (status == SW_OK)
        status = pop_measure(p);
    if (status == SW_OK && !cli_interrupted())
        status = pop_save_params(p);
    if (status != SW_OK)
        return cli_library_error(status, false);
    return pop_print(p, cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
}
