/* Random networks, seed by seed: whatever a step function does, its plan is what is measured,
 * every way to run it gives the same bits, and its gradients are those of its losses. */
#include "alloc/base/fault.h"
#include "runtime/device/pieces.h"
#include "tests/runtime/random_net.h"
#include "tests/runtime/rebuilt_bits.h"
#include "tests/support/seen_breakdown.h"

SW_TESTS("random networks")

#define RUNS 3

/* ---- what a life leaves ------------------------------------------------------------------ */

/* Models, metrics and outputs after each run, one after the other. */
typedef struct {
    unsigned char *bytes;
    size_t n, cap;
} record;

static void keep(record *r, const void *from, size_t n)
{
    if (r->n + n > r->cap) {
        r->cap = 2 * (r->n + n);
        r->bytes = realloc(r->bytes, r->cap);
        CU_ASSERT_PTR_NOT_NULL_FATAL(r->bytes);
    }
    memcpy(r->bytes + r->n, from, n);
    r->n += n;
}

static void keep_run(record *r, sw_exec *exec, const random_life *life)
{
    for (int i = 0; i < life->net->n_models; i++)
        keep(r, life->models[i]->base, life->models[i]->bytes);
    for (int i = 0; i < life->net->n_ops; i++) {
        const random_op *op = &life->net->op[i];
        char name[8];
        snprintf(name, sizeof name, "v%d", i);
        if (op->kind == RANDOM_METRIC) {
            double x = 0.0;
            (void)seed_well(sw_metric_get(exec, name, &x), "a metric");
            seed_check(isfinite(x), "a metric", "is not finite");
            keep(r, &x, sizeof x);
        } else if (op->kind == RANDOM_OUTPUT) {
            sw_array out = {0};
            if (!seed_well(sw_output_get(exec, name, &out), "an output"))
                return;
            const sw_type type = {out.dtype, SW_PLAIN, out.shape};
            keep(r, out.data, sw_type_bytes(&type));
        }
    }
}

static bool same_record(const record *a, const record *b)
{
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

/* ---- plans ------------------------------------------------------------------------------- */

/* By role and by layer: what was planned is what was counted, and adds up to the peak. */
static void check_shares(sw_exec *exec, const sw_run_args *args, size_t peak,
                         sw_status (*of)(sw_exec *, sw_share_visitor *, void *))
{
    char why[300] = "";
    sw_seen_breakdown said = {.n = 0}, seen = {.n = 0};
    if (!seed_well(sw_plan_shares(exec, args, sw_see_share, &said), "planned shares") ||
        !seed_well(of(exec, sw_see_share, &seen), "shares"))
        return;
    seed_check(sw_same_breakdown(&said, &seen, why, sizeof why), "shares", why);
    seed_sizes("roles", sw_share_sum(&seen, SW_SHARE_ROLE), peak);
    seed_sizes("layers", sw_share_sum(&seen, SW_SHARE_LAYER), peak);
}

static bool run_once(sw_exec *exec, const sw_run_args *args, record *r)
{
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_run_info run = SW_OPTS(sw_run_info);
    if (!seed_well(sw_plan(exec, args, &plan), "plan") ||
        !seed_well(sw_run(exec, args), args->immediate ? "immediate run" : "run") ||
        !seed_well(sw_last_run(exec, &run), "last run"))
        return false;
    if (args->immediate)
        seed_sizes("bump", run.bump_bytes, plan.immediate_bytes);
    else {
        for (int i = 0; i < SW_PHASES; i++) {
            seed_sizes(sw_phase_name((sw_phase)i), run.phase[i].peak_bytes,
                       plan.phase[i].peak_bytes);
            seed_sizes("its end", run.phase[i].end_bytes, plan.phase[i].end_bytes);
        }
        seed_sizes("peak", run.peak_bytes, plan.peak_bytes);
        seed_sizes("arena", run.arena_bytes, plan.arena_bytes);
        seed_sizes("models", run.model_bytes, plan.model_bytes);
        seed_check(plan.arena_bytes >= plan.lower_bound_bytes, "arena",
                   "below its lower bound");
        seed_check(plan.arena_bytes <= plan.lower_bound_bytes + plan.lower_bound_bytes / 2,
                   "arena", "half as high again as its lower bound");
        seed_check(plan.peak_bytes ==
                       plan.model_bytes + plan.slot_bytes + plan.lower_bound_bytes,
                   "peak", "is not models, inputs and the lower bound");
        seed_check(plan.arena_bytes <= plan.immediate_bytes, "arena", "higher than the bump");
    }
    if (exec->shares)
        check_shares(exec, args, run.peak_bytes, sw_last_shares);
    keep_run(r, exec, args->user);
    return true;
}

/* Some training runs and an evaluation. */
static bool live(sw_exec *exec, random_life *life, bool immediate, record *r)
{
    for (uint64_t k = 0; k < RUNS + 1; k++) {
        sw_run_args args = random_life_args(life, k);
        args.immediate = immediate;
        args.mode = k == RUNS ? SW_EVAL : SW_TRAIN;
        if (!run_once(exec, &args, r))
            return false;
    }
    return true;
}

/* ---- the networks themselves ------------------------------------------------------------- */

static int n_kinds[RANDOM_KIND_COUNT];

static void count_kinds(void)
{
    for (int i = 0; i < seed_net.n_ops; i++)
        n_kinds[seed_net.op[i].kind]++;
}

/* A kind of op that no network has would not be tested. */
SW_TEST("every kind of op comes up")
{
    memset(n_kinds, 0, sizeof n_kinds);
    seed_each(600, 600, count_kinds);
    for (int i = 0; i < RANDOM_KIND_COUNT; i++)
        SW_CHECK(n_kinds[i] >= 5, "kind %d comes up %d times", i, n_kinds[i]);
}

/* ---- the same bits ----------------------------------------------------------------------- */

typedef struct {
    const char *name;
    sw_exec_opts opts;
    bool immediate;
} way;
static const way ways[] = {
    {"planned", {.size = sizeof(sw_exec_opts), .seed = 5, .shares = 1}, false},
    {"immediate", {.size = sizeof(sw_exec_opts), .seed = 5, .shares = 1}, true},
    {"not in place",
     {.size = sizeof(sw_exec_opts), .seed = 5, .no_inplace = 1, .shares = 1},
     false},
    {"nothing rebuilt",
     {.size = sizeof(sw_exec_opts), .seed = 5, .no_rebuild = 1, .shares = 1},
     false},
    {"in whole", {.size = sizeof(sw_exec_opts), .seed = 5, .no_strips = 1, .shares = 1}, false},
    {"three threads", {.size = sizeof(sw_exec_opts), .seed = 5, .threads = 3}, false},
    {"checked", {.size = sizeof(sw_exec_opts), .seed = 5, .checks = 1, .op_clocks = 1}, false},
};
#define WAYS (sizeof ways / sizeof *ways)
#define IN_WHOLE 4

static bool live_this_way(sw_exec *exec, const way *w, record *r)
{
    random_life life;
    r->n = 0;
    const bool well = seed_well(random_life_begin(&life, &seed_net, false, false), "declare") &&
                      live(exec, &life, w->immediate, r);
    random_life_end(&life);
    return well;
}

static sw_exec *execs[WAYS];
static record first, other;

static void all_ways(void)
{
    if (!live_this_way(execs[0], &ways[0], &first))
        return;
    for (size_t i = 1; i < WAYS; i++)
        seed_check(!live_this_way(execs[i], &ways[i], &other) || same_record(&first, &other),
                   ways[i].name, "other bits than planned");
}

SW_TEST("every way to run gives the same bits, as planned")
{
    for (size_t i = 0; i < WAYS; i++)
        execs[i] = net_exec(&ways[i].opts);
    seed_each(100, 5000, all_ways);
}

static void usual_pieces(void *arg)
{
    swi_piece_bytes = *(const size_t *)arg;
}

/* Execs that compute in bf16, whose ops go in many pieces though nets are small. */
static void execs_in_halves(sw_bf16_order order)
{
    static size_t usual;
    usual = swi_piece_bytes;
    sw_after(usual_pieces, &usual);
    swi_piece_bytes = 512;
    for (size_t i = 0; i < WAYS; i++) {
        sw_exec_opts opts = ways[i].opts;
        opts.compute = SW_BF16;
        opts.bf16_order = order;
        execs[i] = net_exec(&opts);
    }
}

SW_TEST("every way to run in bf16 gives the same bits, as planned: pair")
{
    execs_in_halves(SW_ORDER_PAIR);
    seed_each(60, 5000, all_ways);
}

SW_TEST("every way to run in bf16 gives the same bits, as planned: tile")
{
    execs_in_halves(SW_ORDER_TILE);
    seed_each(40, 5000, all_ways);
}

/* ---- witnesses --------------------------------------------------------------------------- */

static void witnessed_by(uint32_t which)
{
    random_life life;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    if (seed_well(random_life_begin(&life, &seed_net, false, false), "declare")) {
        sw_run_args args = random_life_args(&life, 1);
        if (seed_well(sw_run(execs[0], &args), "run") &&
            seed_well(sw_plan(execs[0], &args, &plan), "plan") &&
            seed_well(sw_witness(execs[0], &args, which, &seen), "witness")) {
            seed_check(seen.n_faults == 0 && seen.agreed == which, "witness", seen.first_fault);
            for (int i = 0; i < SW_PHASES && (which & SW_WITNESS_ACCESS) != 0; i++) {
                seed_sizes("observed", seen.phase[i].peak_bytes, plan.phase[i].peak_bytes);
                seed_sizes("observed end", seen.phase[i].end_bytes, plan.phase[i].end_bytes);
            }
            if ((which & SW_WITNESS_ACCESS) != 0)
                check_shares(execs[0], &args, seen.peak_bytes, sw_witness_shares);
        }
    }
    random_life_end(&life);
}

/* After a relu that lets nothing through nothing is needed, nor is the place of a maximum
 * where a gradient is only summed: the need witness sees a softer network. */
static void witnessed(void)
{
    witnessed_by(SW_WITNESS_ALL & ~SW_WITNESS_NEED);
    random_net_soften(&seed_net);
    witnessed_by(SW_WITNESS_NEED);
}

SW_TEST("all witnesses agree")
{
    execs[0] = net_exec(&ways[0].opts);
    seed_each(8, 1000, witnessed);
}

SW_TEST("all witnesses agree in bf16")
{
    execs_in_halves(SW_ORDER_PAIR);
    seed_each(8, 1000, witnessed);
}

/* ---- recomputed results ------------------------------------------------------------------ */

static uint32_t n_rebuilt; /* of all seeds */

/* In whole: a result of strips, or of some images at a time, never stands to be compared. */
static void rebuilt(void)
{
    sw_exec *exec = execs[IN_WHOLE];
    random_life life;
    rebuilt_bits bits;
    if (seed_well(random_life_begin(&life, &seed_net, false, false), "declare")) {
        const sw_run_args args = random_life_args(&life, 1);
        if (seed_well(sw_run(exec, &args), "run") &&
            seed_well(rebuilt_bits_compare(exec, &args, false, &bits), "rebuilt")) {
            seed_check(bits.differ + bits.unknown == 0, "rebuilt", bits.first);
            n_rebuilt += bits.results;
        }
    }
    random_life_end(&life);
}

SW_TEST("rebuilt bits are the forward bits")
{
    n_rebuilt = 0;
    execs[IN_WHOLE] = net_exec(&ways[IN_WHOLE].opts);
    seed_each(100, 5000, rebuilt);
    SW_CHECK(n_rebuilt > 50, "only %u results were recomputed", n_rebuilt);
    execs_in_halves(SW_ORDER_TILE);
    seed_each(100, 5000, rebuilt);
    sw_note("%u results recomputed", n_rebuilt);
}

/* ---- plans of a fresh exec --------------------------------------------------------------- */

/* A plan does not depend on what the exec has traced before. */
static void planned_afresh(void)
{
    random_life life;
    sw_exec *exec = NULL;
    sw_plan_info plan[2] = {SW_OPTS(sw_plan_info), SW_OPTS(sw_plan_info)};
    if (seed_well(sw_exec_create(&exec, &ways[0].opts), "exec") &&
        seed_well(random_life_begin(&life, &seed_net, false, false), "declare")) {
        const sw_run_args args = random_life_args(&life, 0);
        if (seed_well(sw_plan(execs[0], &args, &plan[0]), "plan") &&
            seed_well(sw_plan(exec, &args, &plan[1]), "plan afresh")) {
            seed_check(plan[0].n_ops == plan[1].n_ops && plan[0].n_values == plan[1].n_values,
                       "plan afresh", "other ops");
            seed_sizes("plan afresh", plan[1].arena_bytes, plan[0].arena_bytes);
        }
    }
    random_life_end(&life);
    sw_exec_destroy(exec);
}

SW_TEST("plans do not depend on those before")
{
    execs[0] = net_exec(&ways[0].opts);
    seed_each(100, 5000, planned_afresh);
}

/* ---- failures ---------------------------------------------------------------------------- */

static void stop_faults(void *arg)
{
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
}

/* The k-th call of the first run fails: then nothing has changed, and all runs are as ever.
 * Returns the number of calls. */
static uint64_t fail_at(uint64_t k)
{
    random_life life;
    sw_exec *exec = NULL;
    uint64_t calls = 0;
    if (seed_well(sw_exec_create(&exec, &ways[0].opts), "exec") &&
        seed_well(random_life_begin(&life, &seed_net, false, false), "declare")) {
        record before = {0}, after = {0};
        sw_run_args args = random_life_args(&life, 0);
        for (int i = 0; i < seed_net.n_models; i++)
            if (seed_well(sw_model_ready(life.models[i], exec, ways[0].opts.seed), "ready"))
                keep(&before, life.models[i]->base, life.models[i]->bytes);
        sw_fault_plan(SW_FAULT_MEMORY, k, SW_FAULT_ONCE);
        const sw_status status = sw_run(exec, &args);
        calls = sw_fault_calls(SW_FAULT_MEMORY);
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        if (status != SW_OK) {
            seed_check(status == SW_NOMEM && calls > k, "failing run", sw_last_error());
            for (int i = 0; i < seed_net.n_models; i++)
                keep(&after, life.models[i]->base, life.models[i]->bytes);
            seed_check(same_record(&before, &after), "failing run", "the models have changed");
            other.n = 0;
            seed_check(!live(exec, &life, false, &other) || same_record(&first, &other),
                       "retry", "other bits than without a failure");
        }
        free(before.bytes);
        free(after.bytes);
    }
    random_life_end(&life);
    sw_exec_destroy(exec);
    return calls;
}

static void refused(void)
{
    sw_dice dice = {seed_net.seed};
    if (!live_this_way(execs[0], &ways[0], &first))
        return;
    const uint64_t calls = fail_at(UINT64_MAX);
    for (int i = 0; i < 3 && !seed_failed; i++)
        (void)fail_at(sw_dice_below(&dice, calls));
}

SW_TEST("a refused run changes nothing")
{
    sw_after(stop_faults, NULL);
    execs[0] = net_exec(&ways[0].opts);
    seed_each(15, 1000, refused);
}
