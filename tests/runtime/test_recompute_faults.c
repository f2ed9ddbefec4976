/* Planning under a budget where allocations fail, random networks under budgets, and what is
 * shown of a plan with repeats. */
#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "tests/runtime/random_net.h"
#include "tests/runtime/recompute_nets.h"
#include "tests/support/seen_breakdown.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("recompute at the edges")

#define RUNS 3
#define BUDGETS 12

/* ---- random networks --------------------------------------------------------------------- */

typedef struct {
    uint64_t bits; /* a hash of models and metrics after each run */
    sw_plan_info plan;
    sw_status status;
} outcome;

static uint64_t mix(uint64_t h, const void *from, size_t n)
{
    const unsigned char *p = from;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h ^ h >> 29;
}

static void seed_run(sw_exec *exec, sw_budget *budget, random_life *life, uint64_t k,
                     outcome *out)
{
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_run_info run = SW_OPTS(sw_run_info);
    sw_run_args args = random_life_args(life, k);
    out->status = sw_plan(exec, &args, &plan);
    if (out->plan.size == 0)
        out->plan = plan;
    if (out->status != SW_OK)
        return;
    if (!seed_well(sw_run(exec, &args), "run") ||
        !seed_well(sw_last_run(exec, &run), "last run"))
        return;
    seed_sizes("peak", run.peak_bytes, plan.peak_bytes);
    seed_sizes("arena", run.arena_bytes, plan.arena_bytes);
    seed_check(budget == NULL || sw_budget_used(budget) <= sw_budget_limit(budget), "budget",
               "exceeded");
    for (int i = 0; i < life->net->n_models; i++)
        out->bits = mix(out->bits, life->models[i]->base, life->models[i]->bytes);
    for (int i = 0; i < life->net->n_ops; i++) {
        char name[8];
        double x = 0.0;
        snprintf(name, sizeof name, "v%d", i);
        if (life->net->op[i].kind == RANDOM_METRIC &&
            seed_well(sw_metric_get(exec, name, &x), "a metric"))
            out->bits = mix(out->bits, &x, sizeof x);
    }
}

/* A life within `bytes` (0: no budget) of one kind of run, that is, of one program. */
static outcome seed_live(size_t bytes, bool witnessed)
{
    outcome out = {.bits = 1};
    random_life life;
    sw_budget *budget = NULL;
    sw_exec *exec = NULL;
    if (bytes > 0 && !seed_well(sw_budget_create(&budget, bytes), "budget"))
        return out;
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 5, .budget = budget);
    if (seed_well(sw_exec_create(&exec, &opts), "exec") &&
        seed_well(random_life_begin(&life, &seed_net, false, false), "declare")) {
        const uint64_t by = seed_net.twice ? 2 : 1;
        for (uint64_t k = 0; out.status == SW_OK && k < RUNS; k++)
            seed_run(exec, budget, &life, k * by + by - 1, &out);
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        const sw_run_args args = random_life_args(&life, by - 1);
        if (witnessed && out.status == SW_OK &&
            seed_well(sw_witness(exec, &args, SW_WITNESS_ALL & ~SW_WITNESS_NEED, &seen),
                      "witness"))
            seed_check(seen.n_faults == 0, "witness", seen.first_fault);
        random_life_end(&life);
    }
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return out;
}

static int seeds_with_repeats;

/* Without loader slots the budget holds models and arena. */
static size_t charged(const sw_plan_info *plan)
{
    return plan->model_bytes + plan->arena_bytes;
}

static void within_budgets(void)
{
    random_life life;
    if (!seed_well(random_life_begin(&life, &seed_net, false, false), "declare"))
        return;
    sw_plan_info plain = SW_OPTS(sw_plan_info);
    sw_exec *exec = NULL;
    const sw_run_args args = random_life_args(&life, 1);
    (void)(seed_well(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .seed = 5)), "exec") &&
           seed_well(sw_plan(exec, &args, &plain), "plan"));
    sw_exec_destroy(exec);
    random_life_end(&life);
    const outcome wanted = seed_live(0, false);
    const size_t most = charged(&plain);
    uint64_t cost = 0;
    bool refused = false, repeats = false;
    for (int k = BUDGETS; k-- > 0 && !refused;) {
        const size_t bytes = most - plain.arena_bytes * (size_t)(BUDGETS - 1 - k) / BUDGETS;
        const outcome o = seed_live(bytes, k % 4 == 1);
        refused = o.status != SW_OK;
        if (refused) {
            const size_t least = charged(&o.plan);
            seed_check(o.status == SW_NOMEM && least > bytes, "refusal",
                       o.status == SW_NOMEM ? "names less than there was" : sw_last_error());
            const outcome there = seed_live(least, true);
            seed_check(there.status == SW_OK && there.bits == wanted.bits, "the least",
                       there.status == SW_OK ? "other bits" : sw_last_error());
            seed_check(seed_live(least - 1, false).status == SW_NOMEM, "the least",
                       "is not the least");
            repeats |= there.plan.n_repeats > 0;
            break;
        }
        seed_check(o.bits == wanted.bits, "budget", "other bits");
        seed_check(o.plan.budget_cost >= cost, "cost", "less in a smaller budget");
        seed_check(o.plan.least_repeat_cost <= o.plan.repeat_cost, "bound", "above the cost");
        cost = o.plan.budget_cost;
        repeats |= o.plan.n_repeats > 0;
    }
    seeds_with_repeats += repeats;
}

SW_TEST("random networks keep to budgets")
{
    seeds_with_repeats = 0;
    seed_each(8, 400, within_budgets);
    sw_note("%d with repeats", seeds_with_repeats);
}

/* ---- failures ---------------------------------------------------------------------------- */

/* The least total of a net, and the repeats that it then has. */
static size_t least_of(rc_kind kind, int layers, uint32_t *repeats)
{
    rc_net n;
    sw_budget *budget;
    sw_exec *exec;
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_budget_create(&budget, 64));
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .budget = budget)));
    OK(rc_begin(&n, kind, layers));
    const sw_run_args args = rc_args(&n, 0);
    REFUSED(sw_plan(exec, &args, &plan), SW_NOMEM, "does not fit");
    rc_end(&n);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    *repeats = plan.n_repeats;
    return plan.total_bytes;
}

SW_TEST("every allocation of planning fails once")
{
    uint32_t repeats;
    const rc_kind kind = RC_RESIDUAL;
    const size_t least = least_of(kind, 6, &repeats);
    CU_ASSERT(repeats > 0);
    sw_sites sites = {SW_FAULT_MEMORY, .every = sw_tests_full() ? 1 : 37, .exact = true};
    while (sw_sites_next(&sites)) {
        /* A call of planning in `bytes` fails; the next try works. */
        rc_net n;
        sw_budget *budget;
        sw_exec *exec;
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        OK(sw_budget_create(&budget, least));
        OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .seed = 3, .budget = budget)));
        OK(rc_begin(&n, kind, 6));
        const sw_run_args args = rc_args(&n, 0);
        if (SW_AT_SITE(&sites, sw_plan(exec, &args, &plan)) != SW_OK)
            CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.n_repeats, repeats);
        rc_end(&n);
        sw_exec_destroy(exec);
        sw_budget_destroy(budget);
    }
    CU_ASSERT(sites.k > 40);
}

/* ---- what is shown ----------------------------------------------------------------------- */

#define MOST 600
typedef struct {
    uint32_t n_ops, n_again, n;
    sw_plan_storage at[MOST];
} listing;

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    listing *l = to;
    static const char again[] = " (recomputed, budget)";
    const char *end = strstr(name, again);
    CU_ASSERT(position == l->n_ops && (unsigned)phase < SW_PHASES);
    l->n_ops++;
    l->n_again += end != NULL && strcmp(end, again) == 0;
}

static void see_storage(void *to, const sw_plan_storage *s)
{
    listing *l = to;
    if (!s->input && SW_CHECK(l->n < MOST, "%u storages", l->n))
        l->at[l->n++] = *s;
}

static size_t end_of(const sw_plan_storage *s)
{
    return s->offset + s->bytes + s->padding;
}

SW_TEST("plans show their repeats")
{
    static listing l;
    const int layers = sw_tests_full() ? 10 : 6;
    int shown = 0;
    for (int kind = 0; kind < RC_KINDS; kind++) {
        uint32_t repeats;
        const size_t least = least_of((rc_kind)kind, layers, &repeats);
        rc_net n;
        sw_budget *budget;
        sw_exec *exec;
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_seen_breakdown seen = {.n = 0}, ran = {.n = 0};
        char why[300] = "";
        OK(sw_budget_create(&budget, least));
        OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .budget = budget, .shares = 1)));
        OK(rc_begin(&n, (rc_kind)kind, layers));
        const sw_run_args args = rc_args(&n, 0);
        l = (listing){.n_ops = 0};
        const sw_plan_visitor v =
            SW_OPTS(sw_plan_visitor, .to = &l, .op = see_op, .storage = see_storage);
        OK(sw_plan_visit(exec, &args, &v));
        CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
        OK(sw_run(exec, &args));
        OK(sw_plan(exec, &args, &plan));
        SW_CHECK(l.n_again == plan.n_repeats && l.n_ops == plan.n_ops,
                 "%s: %u again, %u repeats", rc_name((rc_kind)kind), l.n_again, plan.n_repeats);
        CU_ASSERT(plan.n_repeats > 0 && plan.n_repeats <= repeats); /* no loader takes room */
        shown += plan.n_repeats > 0;
        size_t highest = 0;
        for (uint32_t i = 0; i < l.n; i++) {
            const sw_plan_storage *a = &l.at[i];
            highest = end_of(a) > highest ? end_of(a) : highest;
            for (uint32_t k = 0; k < i; k++) {
                const sw_plan_storage *b = &l.at[k];
                const bool together = a->birth <= b->death && b->birth <= a->death;
                const bool over = a->offset < end_of(b) && b->offset < end_of(a);
                if (a->alias == UINT32_MAX && b->alias == UINT32_MAX)
                    SW_CHECK(!together || !over, "%u lies on %u", a->id, b->id);
            }
        }
        CU_ASSERT_EQUAL(highest, plan.arena_bytes);
        OK(sw_plan_shares(exec, &args, sw_see_share, &seen));
        OK(sw_last_shares(exec, sw_see_share, &ran));
        SW_CHECK(sw_same_breakdown(&seen, &ran, why, sizeof why), "%s", why);
        CU_ASSERT_EQUAL(sw_share_sum(&seen, SW_SHARE_ROLE), plan.peak_bytes);
        CU_ASSERT_EQUAL(sw_share_sum(&seen, SW_SHARE_LAYER), plan.peak_bytes);
        rc_end(&n);
        sw_exec_destroy(exec);
        sw_budget_destroy(budget);
    }
    CU_ASSERT(shown > RC_KINDS / 2);
}

/* Whole lines of the file; how many hold `part`. */
static int lines_with(const char *path, const char *part)
{
    static char line[1 << 20];
    int n = 0;
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    while (fgets(line, sizeof line, file) != NULL) {
        CU_ASSERT(line[0] == '{' && line[strlen(line) - 1] == '\n');
        n += strstr(line, part) != NULL;
    }
    (void)fclose(file);
    return n;
}

/* The plan's record has the repeats as ops of their own, and a clock for each op. */
SW_TEST("profiles have the repeats")
{
    const char *path = sw_temp_path("repeats.jsonl");
    uint32_t repeats;
    const size_t least = least_of(RC_CONV, 8, &repeats);
    rc_net n;
    sw_budget *budget;
    sw_exec *exec;
    sw_profile *profile;
    OK(sw_profile_create(&profile, &SW_OPTS(sw_profile_opts, .path = path, .model = "conv",
                                            .device = "cpu", .batch = RC_BATCH)));
    OK(sw_budget_create(&budget, least));
    OK(sw_exec_create(
        &exec, &SW_OPTS(sw_exec_opts, .budget = budget, .profile = profile, .op_clocks = 1)));
    OK(rc_begin(&n, RC_CONV, 8));
    for (uint64_t k = 0; k < RUNS; k++) {
        const sw_run_args args = rc_args(&n, k);
        OK(sw_run(exec, &args));
    }
    rc_end(&n);
    sw_exec_destroy(exec);
    OK(sw_profile_destroy(profile));
    sw_budget_destroy(budget);
    CU_ASSERT(repeats > 0);
    CU_ASSERT_EQUAL(lines_with(path, " (recomputed, budget)\""), 1);
    CU_ASSERT_EQUAL(lines_with(path, "\"op_ns\""), RUNS);
}
