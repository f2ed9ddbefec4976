/* The budget: what every shape that can be reached takes, how many lanes there are, and who
 * lies in it in each turn. All of it is arithmetic over plans, before anything runs. */
#include "alloc/base/mem.h"
#include "tools/population/population.h"
#include <math.h>
#include <string.h>

#define MOST_CONFIGS 100000

/* ---- configs -------------------------------------------------------------------------------
 */

typedef struct {
    size_t arena, batch, member;
} need;

static size_t alone(const need *n)
{
    return n->arena + n->batch + n->member;
}

/* How many values a hyper-parameter can have that decides a config. */
static int64_t choices_of(const pop *p, int i)
{
    sw_hyper is = SW_OPTS(sw_hyper);
    if (p->hyper[i].kind == POP_KNOB || sw_space_at(p->space, i, &is) != SW_OK)
        return 1;
    return is.kind == SW_CHOICE ? is.n_choices : (int64_t)(is.high - is.low) + 1;
}

static double choice_at(const pop *p, int i, int64_t k)
{
    sw_hyper is = SW_OPTS(sw_hyper);
    if (sw_space_at(p->space, i, &is) != SW_OK)
        return 0.0;
    return is.kind == SW_CHOICE ? is.choices[k] : is.low + (double)k;
}

static double count_configs(const pop *p)
{
    double n = 1.0;
    for (int i = 0; i < p->n_hypers; i++)
        n *= (double)choices_of(p, i);
    return n;
}

static pop_config config_at(const pop *p, int64_t k)
{
    double values[POP_HYPERS] = {0};
    for (int i = 0; i < p->n_hypers; i++) {
        const int64_t n = choices_of(p, i);
        if (p->hyper[i].kind != POP_KNOB)
            values[i] = choice_at(p, i, k % n);
        k /= n;
    }
    return pop_config_of(p, values);
}

static sw_status look_at(pop *p, const pop_config *config, need *out)
{
    int shape;
    SW_TRY(pop_shape_of(p, config, &shape));
    const pop_shape *s = p->shapes[shape];
    if (p->memory.refused_knob == 0)
        p->memory.refused_knob = pop_knobs_check(p, s) == CLI_GO ? 0 : CLI_USAGE;
    *out = (need){s->arena_bytes, s->batch_bytes, s->member_bytes};
    return SW_OK;
}

/* ---- what fits --------------------------------------------------------------------------- */

/* The largest of those that need at most `most` alone. */
static need largest(const need *needs, int64_t n, size_t most)
{
    need all = {0, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        if (alone(&needs[i]) > most)
            continue;
        all.arena = needs[i].arena > all.arena ? needs[i].arena : all.arena;
        all.batch = needs[i].batch > all.batch ? needs[i].batch : all.batch;
        all.member = needs[i].member > all.member ? needs[i].member : all.member;
    }
    return all;
}

/* With so many lanes, no one resident: each lane with its member, and where a width changes the
 * old one beside the new one. */
static size_t least(const pop *p, const need *all, int threads)
{
    const size_t members = (size_t)threads + pop_changes_config(p);
    return (size_t)threads * (all->arena + all->batch) + members * all->member;
}

size_t pop_least(const pop *p)
{
    const need all = {p->memory.arena, p->memory.batch, p->memory.member};
    return least(p, &all, p->memory.threads);
}

/* The largest `most` for which all that need no more fit together. */
static size_t find_most(const pop *p, const need *needs, int64_t n, size_t budget)
{
    size_t most = budget;
    for (;;) {
        size_t next = 0;
        const need all = largest(needs, n, most);
        if (least(p, &all, 1) <= budget)
            return most;
        for (int64_t i = 0; i < n; i++) {
            const size_t its = alone(&needs[i]);
            if (its <= most && its > next)
                next = its;
        }
        if (next == 0)
            return 0;
        most = next - 1;
    }
}

static void decide(pop *p, const need *needs, int64_t n)
{
    pop_memory *m = &p->memory;
    const size_t budget = p->opts.job.budget_bytes;
    m->most = budget > 0 ? find_most(p, needs, n, budget) : SIZE_MAX;
    const need all = largest(needs, n, m->most);
    m->arena = all.arena;
    m->batch = all.batch;
    m->member = all.member;
    m->staging = pop_changes_config(p) ? all.member : 0;
    m->threads = job_on_device(&p->opts.job) ? 1 : (int)p->opts.job.threads;
    while (budget > 0 && m->threads > 1 && least(p, &all, m->threads) > budget)
        m->threads--;
    m->n_configs = n;
    m->n_refused = 0;
    m->largest_bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        const size_t its = alone(&needs[i]);
        if (its > m->most && m->n_refused++ == 0) {
            m->first_refused = config_at(p, i);
            m->first_refused_bytes = its;
        }
        if (its <= m->most && its > m->largest_bytes) {
            m->largest = config_at(p, i);
            m->largest_bytes = its;
        }
    }
}

static sw_status look_at_all(pop *p, need *needs, int64_t n)
{
    for (int64_t i = 0; i < n && !cli_interrupted() && p->memory.refused_knob == 0; i++) {
        const pop_config config = config_at(p, i);
        SW_TRY(look_at(p, &config, &needs[i]));
        pop_shapes_sweep(p);
        if (!p->opts.quiet && n > 1)
            cli_progress("planning  %lld/%lld shapes", (long long)(i + 1), (long long)n);
    }
    if (!p->opts.quiet)
        cli_progress("%s", "");
    return SW_OK;
}

/* ---- execs ------------------------------------------------------------------------------- */

static sw_status make_exec(pop *p, int threads, sw_budget *budget)
{
    const job_opts *o = &p->opts.job;
    sw_exec_opts exec = o->exec;
    exec.size = sizeof exec;
    exec.device = o->device;
    exec.threads = threads;
    exec.budget = budget;
    exec.seed = (uint64_t)o->seed;
    exec.isa = o->isa;
    exec.nvtx = SW_NVTX_OFF;
    return sw_exec_create(&p->job.exec, &exec);
}

static void end_shapes(pop *p)
{
    for (int i = 0; i < p->n_shapes; i++) {
        pop_shape_free(p->shapes[i]);
        p->shapes[i] = NULL;
    }
}

static sw_status look_again(pop *p, need *needs, int64_t n)
{
    SW_TRY(make_exec(p, 1, NULL));
    const sw_status status = look_at_all(p, needs, n);
    end_shapes(p);
    sw_exec_destroy(p->job.exec);
    p->job.exec = NULL;
    return status;
}

/* Where the largest shape does not fit as it is planned, every plan has what is left beside its
 * member and batch: it then runs ops again. */
static sw_status look(pop *p, need *needs, int64_t n)
{
    const size_t budget = p->opts.job.budget_bytes;
    SW_TRY(look_again(p, needs, n));
    decide(p, needs, n);
    if (p->memory.n_refused == 0 || budget == 0 || p->opts.job.exec.no_recompute ||
        cli_interrupted())
        return SW_OK;
    const need all = largest(needs, n, SIZE_MAX);
    const size_t others = all.batch + (pop_changes_config(p) ? 2 : 1) * all.member;
    if (others >= budget)
        return SW_OK;
    p->memory.arena_limit = (budget - others) / 64 * 64;
    sw_status status = look_again(p, needs, n);
    if (status == SW_NOMEM) { /* not even so: as it was */
        p->memory.arena_limit = 0;
        status = look_again(p, needs, n);
    }
    if (status == SW_OK)
        decide(p, needs, n);
    return status;
}

/* The least budget of all, for the smallest shape as it is planned without one. */
static int refuse(const pop *p, const need *needs)
{
    size_t smallest = SIZE_MAX;
    int64_t at = 0;
    for (int64_t i = 0; i < p->memory.n_configs; i++)
        if (alone(&needs[i]) < smallest) {
            smallest = alone(&needs[i]);
            at = i;
        }
    const need all = largest(needs, p->memory.n_configs, smallest);
    const pop_config config = config_at(p, at);
    return cli_error(CLI_NO_FIT,
                     "no shape fits --memory-budget %zu: the smallest, %s, needs %zu bytes%s; "
                     "raise the budget, or lower --batch or the widths",
                     p->opts.job.budget_bytes, pop_config_text(&config).text, least(p, &all, 1),
                     pop_changes_config(p) ? " with a second member to change it" : "");
}

static int look_into(pop *p, need *needs, int64_t n)
{
    const sw_status status = look(p, needs, n);
    if (p->memory.refused_knob != 0)
        return p->memory.refused_knob;
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted before the first step");
    if (status != SW_OK)
        return cli_library_error(status, false);
    return p->memory.n_refused == p->memory.n_configs ? refuse(p, needs) : CLI_GO;
}

/* Ranges under a budget are never higher than what lives at one time, so there always is one.
 */
static int open_exec(pop *p)
{
    const size_t budget = p->opts.job.budget_bytes;
    sw_status status = sw_budget_create(&p->job.budget, budget > 0 ? budget : SIZE_MAX / 2);
    if (status == SW_OK)
        status = make_exec(p, p->memory.threads, p->job.budget);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

int pop_open(pop *p)
{
    const double n = count_configs(p);
    void *needs;
    if (n > MOST_CONFIGS)
        return cli_error(
            CLI_USAGE,
            "the ranges reach %.0f shapes, and %d can be planned ahead: give fewer "
            "batches and widths, as choice:64,128,256",
            n, MOST_CONFIGS);
    sw_status status = sw_heap_alloc(&needs, SW_HEAP_RECORDS, (size_t)n * sizeof(need));
    if (status != SW_OK)
        return cli_library_error(status, false);
    const int found = look_into(p, needs, (int64_t)n);
    sw_heap_free(needs, SW_HEAP_RECORDS, (size_t)n * sizeof(need));
    return found == CLI_GO ? open_exec(p) : found;
}

/* ---- one turn ---------------------------------------------------------------------------- */

/* Lanes as large as for any shape, so that what is reserved never changes. */
static sw_status pack(pop *p, sw_pack_shape *shapes, size_t *resident, int *of, int n)
{
    const size_t budget = p->opts.job.budget_bytes;
    int used = 0;
    for (int i = 0; i < n; i++) {
        size_t members = 0;
        for (int k = 0; k < p->n_members; k++)
            members += p->members[k].shape == i && !p->members[k].ended;
        if (members == 0)
            continue;
        of[used] = i;
        shapes[used++] = (sw_pack_shape){.member_bytes = p->shapes[i]->member_bytes,
                                         .arena_bytes = p->memory.arena,
                                         .batch_bytes = p->memory.batch,
                                         .members = members};
    }
    p->memory.packing.size = sizeof p->memory.packing;
    size_t room = budget == 0 ? SIZE_MAX / 2 : budget;
    room -= p->memory.staging < room ? p->memory.staging : 0;
    if (used == 0)
        return SW_OK;
    SW_TRY(
        sw_pack(shapes, (size_t)used, room, p->memory.threads, resident, &p->memory.packing));
    for (int i = 0; i < used; i++)
        for (int k = 0; k < p->n_members; k++)
            if (p->members[k].shape == of[i] && !p->members[k].ended && resident[i] > 0) {
                p->members[k].stays = true;
                resident[i]--;
            }
    return SW_OK;
}

sw_status pop_arrange(pop *p)
{
    const size_t n = (size_t)p->n_shapes;
    const size_t bytes = n * (sizeof(sw_pack_shape) + sizeof(size_t) + sizeof(int));
    sw_pack_shape *shapes;
    for (int k = 0; k < p->n_members; k++)
        p->members[k].stays = false;
    SW_TRY(sw_heap_alloc(&shapes, SW_HEAP_RECORDS, bytes));
    size_t *resident = (size_t *)(shapes + n);
    const sw_status status = pack(p, shapes, resident, (int *)(resident + n), (int)n);
    sw_heap_free(shapes, SW_HEAP_RECORDS, bytes);
    SW_TRY(status);
    const size_t predicted = p->memory.packing.bytes + p->memory.staging;
    if (predicted > p->memory.predicted_peak) {
        p->memory.predicted_peak = predicted;
        p->memory.most_of = p->memory.packing;
    }
    for (int k = 0; k < p->n_members; k++)
        if (!p->members[k].stays)
            SW_TRY(pop_pause(p, k));
    for (int k = 0; k < p->n_members; k++)
        if (p->members[k].stays)
            SW_TRY(pop_bring(p, k));
    return SW_OK;
}

sw_status pop_measure(pop *p)
{
    for (int i = 0; i < p->n_shapes; i++) {
        sw_members_memory used = SW_OPTS(sw_members_memory);
        if (p->shapes[i] == NULL)
            continue;
        SW_TRY(sw_members_used(p->shapes[i]->group, &used));
        if (used.lane_bytes + used.range_bytes > p->memory.measured_peak)
            p->memory.measured_peak = used.lane_bytes + used.range_bytes;
        return SW_OK;
    }
    return SW_OK;
}

sw_status pop_config_bytes(pop *p, const pop_config *config, size_t *member, size_t *lane)
{
    need its;
    SW_TRY(look_at(p, config, &its));
    *member = its.member;
    *lane = its.arena + its.batch;
    pop_shapes_sweep(p);
    return SW_OK;
}

sw_status pop_fit(pop *p, pop_config *config, bool *changed, bool *fits)
{
    need its;
    const bool halve = strcmp(p->opts.too_large, "batch") == 0;
    *changed = *fits = false;
    for (; config->batch > 0; config->batch /= 2, *changed = true) {
        SW_TRY(look_at(p, config, &its));
        *fits = alone(&its) <= p->memory.most && its.arena <= p->memory.arena &&
                its.batch <= p->memory.batch && its.member <= p->memory.member;
        if (*fits || !halve)
            break;
    }
    pop_shapes_sweep(p);
    return SW_OK;
}
