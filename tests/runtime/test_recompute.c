/* A budget that holds: whatever ops run again so that a plan fits, the bits are those of the
 * run without a budget, what was promised is what is measured, and less memory never costs
 * less; and where it is easily wrong: repeats of what reads repeats, plans that are kept for
 * another budget than that at hand, and very long programs. */
#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "tests/runtime/random_net.h"
#include "tests/runtime/recompute_nets.h"

SW_TESTS("recompute")

#define RUNS 3
#define BUDGETS (sw_tests_full() ? 12 : 2)
/* Between them the tests of plans see every kind; in full each sees all. */
#define NEXT_KIND (sw_tests_full() ? 1 : 3)
#define FIRST_KIND(k) (sw_tests_full() ? 0 : (k))
#define COSTS (sw_tests_full() ? 50 : 8)

/* ---- lives ------------------------------------------------------------------------------- */

/* The results of a life: all bytes of the models, and the metrics of each run. */
typedef struct {
    unsigned char *bytes[2];
    size_t n[2];
    double metric[RUNS][2];
} record;

static void end_record(void *arg)
{
    record *r = arg;
    for (int i = 0; i < 2; i++) {
        free(r->bytes[i]);
        r->bytes[i] = NULL;
        r->n[i] = 0;
    }
}

static void keep_models(record *r, sw_model *const *models, int n)
{
    end_record(r);
    for (int i = 0; i < n; i++) {
        r->n[i] = models[i]->bytes;
        r->bytes[i] = malloc(r->n[i] + 1);
        CU_ASSERT_PTR_NOT_NULL_FATAL(r->bytes[i]);
        memcpy(r->bytes[i], models[i]->base, r->n[i]);
    }
}

static bool same_record(const record *a, const record *b)
{
    for (int i = 0; i < 2; i++)
        if (a->n[i] != b->n[i] ||
            (a->n[i] > 0 && memcmp(a->bytes[i], b->bytes[i], a->n[i]) != 0))
            return false;
    return memcmp(a->metric, b->metric, sizeof a->metric) == 0;
}

/* An exec of its own for each budget: plans depend on nothing but the program and the limit. */
typedef struct {
    sw_budget *budget; /* NULL: none */
    sw_exec *exec;
} place;

static void leave_place(place *p)
{
    if (p->exec != NULL)
        sw_now(p->exec);
    if (p->budget != NULL)
        sw_now(p->budget);
    *p = (place){0};
}

/* It ends with the test, or by leave_place. */
static void enter_place(place *p, size_t bytes, const sw_exec_opts *like)
{
    sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 11);
    if (like != NULL)
        opts = *like;
    p->budget = opts.budget = bytes > 0 ? made_budget(bytes) : NULL;
    p->exec = made_exec(&opts);
}

/* The plan for a budget; 0: none. Filled where it is refused, too. */
static sw_status plan_within(rc_net *n, size_t bytes, const sw_exec_opts *like,
                             sw_plan_info *plan)
{
    place p;
    *plan = SW_OPTS(sw_plan_info);
    const sw_run_args args = rc_args(n, 0);
    enter_place(&p, bytes, like);
    const sw_status status = sw_plan(p.exec, &args, plan);
    for (int i = 0; i < n->n_models; i++) { /* reserved in the budget that goes */
        sw_arena_destroy(n->models[i]->arena);
        n->models[i]->arena = NULL;
    }
    leave_place(&p);
    return status;
}

static void begin(rc_net *n, rc_kind kind, int layers)
{
    OK(rc_begin(n, kind, layers));
}

/* The bytes that a net needs at least and those that it takes by itself. */
typedef struct {
    size_t least, plain;
} range;

/* A plan does not depend on those before it: each kind is asked once. */
static range range_of(rc_kind kind)
{
    static range known[RC_KINDS];
    rc_net n;
    sw_plan_info plan, lowest;
    if (known[kind].least > 0)
        return known[kind];
    begin(&n, kind, RC_SOME);
    OK(plan_within(&n, 0, NULL, &plan));
    CU_ASSERT_EQUAL(plan_within(&n, 64, NULL, &lowest), SW_NOMEM);
    rc_end(&n);
    SW_CHECK(lowest.total_bytes < plan.total_bytes, "%s: %zu of %zu", rc_name(kind),
             lowest.total_bytes, plan.total_bytes);
    known[kind] = (range){lowest.total_bytes, plan.total_bytes};
    return known[kind];
}

static size_t budget_at(const range *r, int k, int n)
{
    return r->least + (size_t)k * (r->plain - r->least) / (size_t)(n - 1);
}

/* ---- a run under a budget ---------------------------------------------------------------- */

static void check_run(const place *p, const sw_plan_info *plan, uint64_t k, const char *name)
{
    sw_run_info run = SW_OPTS(sw_run_info);
    OK(sw_last_run(p->exec, &run));
    SW_CHECK(run.peak_bytes == plan->peak_bytes && run.arena_bytes == plan->arena_bytes,
             "%s: %zu and %zu measured, %zu and %zu planned", name, run.peak_bytes,
             run.arena_bytes, plan->peak_bytes, plan->arena_bytes);
    for (int i = 0; i < SW_PHASES; i++)
        SW_CHECK(run.phase[i].peak_bytes == plan->phase[i].peak_bytes &&
                     run.phase[i].end_bytes == plan->phase[i].end_bytes,
                 "%s: phase %s", name, sw_phase_name((sw_phase)i));
    SW_CHECK(k == 0 || (run.warm && run.allocations == 0), "%s: run %u: %u allocations", name,
             (unsigned)k, (unsigned)run.allocations);
    if (p->budget == NULL)
        return;
    const size_t limit = sw_budget_limit(p->budget);
    SW_CHECK(sw_budget_used(p->budget) <= limit && run.peak_bytes <= limit &&
                 plan->total_bytes <= limit,
             "%s: %zu used, peak %zu, %zu planned of %zu", name, sw_budget_used(p->budget),
             run.peak_bytes, plan->total_bytes, limit);
}

static void witness(const place *p, rc_net *n, const sw_plan_info *plan, const char *name)
{
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    const sw_run_args args = rc_args(n, RUNS);
    const sw_status status = sw_witness(p->exec, &args, SW_WITNESS_ALL, &seen);
    SW_CHECK(status == SW_OK, "%s: %s", name, sw_last_error());
    SW_CHECK(seen.agreed == SW_WITNESS_ALL && seen.n_faults == 0, "%s: %u agree: %s", name,
             seen.agreed, seen.first_fault);
    SW_CHECK(seen.peak_bytes == plan->peak_bytes, "%s: %zu observed, %zu planned", name,
             seen.peak_bytes, plan->peak_bytes);
}

/* A whole life; bytes 0: no budget. */
static void live(rc_kind kind, int layers, size_t bytes, const sw_exec_opts *like,
                 bool immediate, bool witnessed, record *r, sw_plan_info *plan)
{
    place p;
    rc_net n;
    *plan = SW_OPTS(sw_plan_info);
    enter_place(&p, bytes, like);
    begin(&n, kind, layers);
    sw_run_args args = rc_args(&n, 0);
    args.immediate = immediate;
    sw_status status = sw_plan(p.exec, &args, plan);
    for (uint64_t k = 0; status == SW_OK && k < RUNS; k++) {
        args.step = k;
        status = sw_run(p.exec, &args);
        if (status != SW_OK)
            break;
        if (!immediate)
            check_run(&p, plan, k, rc_name(kind));
        r->metric[k][0] = net_metric(p.exec, "loss");
        r->metric[k][1] = net_metric(p.exec, "accuracy");
    }
    if (SW_CHECK(status == SW_OK, "%s in %zu: %s", rc_name(kind), bytes, sw_last_error())) {
        keep_models(r, n.models, n.n_models);
        if (witnessed)
            witness(&p, &n, plan, rc_name(kind));
    }
    rc_end(&n);
    leave_place(&p);
}

static record wanted, got;

SW_TEST("budgets change no bit")
{
    for (int k = 0; k < RC_KINDS; k++) {
        const rc_kind kind = (rc_kind)k;
        sw_plan_info plan;
        const range r = range_of(kind);
        sw_after(end_record, &wanted);
        sw_after(end_record, &got);
        live(kind, RC_SOME, 0, NULL, false, false, &wanted, &plan);
        CU_ASSERT(plan.n_repeats == 0 && plan.repeat_cost == 0 && plan.method[0] == '\0');
        live(kind, RC_SOME, 0, NULL, true, false, &got, &plan);
        SW_CHECK(same_record(&wanted, &got), "%s: immediate mode has other bits",
                 rc_name(kind));
        uint32_t most = 0;
        for (int j = 0; j < BUDGETS; j++) {
            const size_t bytes = budget_at(&r, j, BUDGETS);
            live(kind, RC_SOME, bytes, NULL, false, sw_tests_full() || j == 0, &got, &plan);
            SW_CHECK(same_record(&wanted, &got), "%s in %zu (%u repeats): other bits",
                     rc_name(kind), bytes, plan.n_repeats);
            most = plan.n_repeats > most ? plan.n_repeats : most;
            CU_ASSERT(j < BUDGETS - 1 || (plan.n_repeats == 0 && plan.n_released == 0));
        }
        SW_CHECK(most > 0, "%s: nothing ran again", rc_name(kind));
        sw_note("%-14s %6zu to %6zu bytes, at most %u repeats", rc_name(kind), r.least, r.plain,
                most);
    }
}

/* Threads and no in-place: the same promise. */
SW_TEST("... with threads or out of place")
{
    static const sw_exec_opts ways[] = {
        {.size = sizeof(sw_exec_opts), .seed = 11, .threads = 3},
        {.size = sizeof(sw_exec_opts), .seed = 11, .no_inplace = 1, .op_clocks = 1},
    };
    sw_after(end_record, &wanted);
    sw_after(end_record, &got);
    for (int kind = FIRST_KIND(2); kind < RC_KINDS; kind += NEXT_KIND) {
        sw_plan_info plan;
        live((rc_kind)kind, RC_SOME, 0, NULL, false, false, &wanted, &plan);
        for (int w = 0; w < 2; w++) {
            rc_net n;
            begin(&n, (rc_kind)kind, RC_SOME);
            CU_ASSERT_EQUAL(plan_within(&n, 64, &ways[w], &plan), SW_NOMEM);
            rc_end(&n);
            live((rc_kind)kind, RC_SOME, plan.total_bytes, &ways[w], false, true, &got, &plan);
            SW_CHECK(same_record(&wanted, &got), "%s: other bits", rc_name((rc_kind)kind));
            CU_ASSERT(plan.n_repeats > 0);
        }
    }
}

/* ---- cost -------------------------------------------------------------------------------- */

static void costs(rc_kind kind)
{
    rc_net n;
    const range r = range_of(kind);
    begin(&n, kind, RC_SOME);
    uint64_t before = UINT64_MAX, bound_before = UINT64_MAX;
    for (int k = 0; k < COSTS; k++) {
        sw_plan_info plan;
        const size_t bytes = budget_at(&r, k, COSTS);
        if (!SW_CHECK(plan_within(&n, bytes, NULL, &plan) == SW_OK, "%s in %zu: %s",
                      rc_name(kind), bytes, sw_last_error()))
            continue;
        SW_CHECK(plan.budget_cost <= before, "%s: %llu in %zu bytes, %llu in less",
                 rc_name(kind), (unsigned long long)plan.budget_cost, bytes,
                 (unsigned long long)before);
        SW_CHECK(plan.least_repeat_cost <= plan.repeat_cost, "%s in %zu: %llu proved, %llu",
                 rc_name(kind), bytes, (unsigned long long)plan.least_repeat_cost,
                 (unsigned long long)plan.repeat_cost);
        CU_ASSERT(plan.least_repeat_cost <= bound_before);
        CU_ASSERT(plan.total_bytes <= bytes && plan.cost >= plan.repeat_cost);
        CU_ASSERT(plan.operations >= plan.repeat_operations);
        CU_ASSERT((plan.n_repeats == 0) == (plan.repeat_cost == 0));
        CU_ASSERT_EQUAL(plan.n_repeats > 0, strcmp(plan.method, "search") == 0 ||
                                                strcmp(plan.method, "chain") == 0);
        CU_ASSERT(plan.budget_cost >= plan.repeat_cost);
        before = plan.budget_cost;
        bound_before = plan.least_repeat_cost;
    }
    CU_ASSERT_EQUAL(before, 0);
    rc_end(&n);
}

SW_TEST("less memory never costs less")
{
    for (int k = FIRST_KIND(2); k < RC_KINDS; k += NEXT_KIND)
        costs((rc_kind)k);
}

/* ---- refusals ---------------------------------------------------------------------------- */

/* The bytes that a refusal says it needs. */
static size_t needed(void)
{
    const char *at = strstr(sw_last_error(), "does not fit: ");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    return (size_t)sw_number_of(at + strlen("does not fit: "));
}

SW_TEST("a refusal names what would do")
{
    for (int k = FIRST_KIND(0); k < RC_KINDS; k += NEXT_KIND) {
        rc_net n;
        sw_plan_info plan;
        begin(&n, (rc_kind)k, RC_SOME);
        REFUSED(plan_within(&n, 64, NULL, &plan), SW_NOMEM, "does not fit");
        const size_t least = needed();
        CU_ASSERT_EQUAL(least, plan.total_bytes);
        CU_ASSERT_EQUAL(least, plan.model_bytes + plan.arena_bytes + plan.data_bytes);
        CU_ASSERT_EQUAL(plan.data_bytes, plan.slot_bytes);
        CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), plan.peak_op));
        SW_CHECK(plan_within(&n, least, NULL, &plan) == SW_OK, "%s: %s", rc_name((rc_kind)k),
                 sw_last_error());
        CU_ASSERT_EQUAL(plan.total_bytes, least);
        REFUSED(plan_within(&n, least - 1, NULL, &plan), SW_NOMEM, "does not fit");
        CU_ASSERT_EQUAL(needed(), least);
        rc_end(&n);
    }
}

/* Another model takes the room; when it goes, the same exec plans again. */
SW_TEST("a refusal lasts as long as the room is taken")
{
    rc_net n, other;
    place p;
    sw_plan_info plan, with;
    const range r = range_of(RC_SWISH);
    begin(&n, RC_SWISH, RC_SOME);
    begin(&other, RC_SWISH, 4);
    enter_place(&p, r.least + 64, NULL);
    OK(sw_model_ready(other.models[0], p.exec, 1));
    const size_t used = sw_budget_used(p.budget);
    CU_ASSERT(used > 64);
    sw_run_args args = rc_args(&n, 0);
    plan = with = SW_OPTS(sw_plan_info);
    for (int i = 0; i < 2; i++) {
        REFUSED(sw_plan(p.exec, &args, &plan), SW_NOMEM, "of them taken");
        CU_ASSERT_EQUAL(sw_budget_used(p.budget), used);
    }
    rc_end(&other);
    CU_ASSERT_EQUAL(sw_budget_used(p.budget), 0);
    OK(sw_plan(p.exec, &args, &with));
    CU_ASSERT(with.n_repeats > 0 && with.total_bytes <= r.least + 64);
    CU_ASSERT_EQUAL(sw_budget_used(p.budget), with.model_bytes + with.arena_bytes);
    const int called = n.times_called;
    OK(sw_run(p.exec, &args));
    CU_ASSERT_EQUAL(n.times_called, called); /* that plan is what runs */
}

/* ---- options ----------------------------------------------------------------------------- */

SW_TEST("without recomputation what is over is refused")
{
    const sw_exec_opts never = SW_OPTS(sw_exec_opts, .seed = 11, .no_recompute = 1);
    for (int k = FIRST_KIND(1); k < RC_KINDS; k += NEXT_KIND) {
        rc_net n;
        sw_plan_info plan, without;
        const range r = range_of((rc_kind)k);
        begin(&n, (rc_kind)k, RC_SOME);
        REFUSED(plan_within(&n, r.plain - 1, &never, &without), SW_NOMEM, "does not fit");
        CU_ASSERT_EQUAL(needed(), r.plain);
        CU_ASSERT(without.n_repeats == 0 && without.n_released == 0);
        OK(plan_within(&n, r.plain, &never, &without));
        OK(plan_within(&n, r.plain, NULL, &plan));
        plan.trace_ns = plan.plan_ns = without.trace_ns = without.plan_ns = 0;
        CU_ASSERT_EQUAL(memcmp(&plan, &without, sizeof plan), 0);
        rc_end(&n);
    }
}

SW_TEST("checks see through repeats")
{
    const range r = range_of(RC_MLP);
    sw_plan_info plan;
    sw_after(end_record, &wanted);
    live(RC_MLP, RC_SOME, 0, NULL, false, false, &wanted, &plan);
    rc_net n;
    place p;
    begin(&n, RC_MLP, RC_SOME);
    enter_place(&p, r.least, &SW_OPTS(sw_exec_opts, .seed = 11, .checks = 1));
    for (uint64_t k = 0; k < RUNS; k++) {
        const sw_run_args args = rc_args(&n, k);
        OK(sw_run(p.exec, &args));
    }
    CU_ASSERT(memcmp(n.models[0]->base, wanted.bytes[0], wanted.n[0]) == 0);
    CU_ASSERT(n.times_called == RUNS);
    const sw_run_args args = rc_args(&n, RUNS);
    n.other = 1;
    REFUSED(sw_run(p.exec, &args), SW_INVALID, "b0 relu and is now b0 tanh");
    n.other = 0;
    OK(sw_run(p.exec, &args));
}

/* Members of one shape share a program, repeats and all. */
SW_TEST("equal traces share one program")
{
    rc_net n[3];
    place p;
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    const range r = range_of(RC_RESIDUAL);
    begin(&n[0], RC_RESIDUAL, RC_SOME);
    OK(plan_within(&n[0], r.least, NULL, &plan));
    rc_end(&n[0]);
    enter_place(&p, r.least + 2 * plan.model_bytes, NULL);
    for (int i = 0; i < 3; i++) {
        begin(&n[i], RC_RESIDUAL, RC_SOME);
        OK(sw_model_ready(n[i].models[0], p.exec, 5));
    }
    for (int i = 0; i < 3; i++) {
        const sw_run_args args = rc_args(&n[i], 0);
        OK(sw_run(p.exec, &args));
        OK(sw_plan(p.exec, &args, &plan));
        CU_ASSERT(plan.n_repeats > 0);
        CU_ASSERT_EQUAL(n[i].times_called, 1);
    }
    CU_ASSERT_EQUAL(p.exec->n_frames, 1);
    CU_ASSERT(net_same(n[0].models[0], n[1].models[0]));
    CU_ASSERT(net_same(n[0].models[0], n[2].models[0]));
}

/* Two execs in one budget: the first takes what it likes, the second finds what that left. */
SW_TEST("two execs share one budget")
{
    rc_net n[2];
    sw_exec *exec[2];
    sw_plan_info plan[2];
    const range a = range_of(RC_CONV), b = range_of(RC_SWISH);
    /* Their inputs are the caller's here: the budget holds models and arenas. */
    const size_t data = 2 * (RC_BATCH * NET_PIXELS * sizeof(float) + 64);
    sw_budget *budget = made_budget(b.plain + a.least + (a.plain - a.least) / 2 - data);
    for (int i = 0; i < 2; i++) {
        begin(&n[i], i == 0 ? RC_CONV : RC_SWISH, RC_SOME);
        OK(sw_exec_create(&exec[i], &SW_OPTS(sw_exec_opts, .seed = 11, .budget = budget)));
    }
    const sw_run_args first = rc_args(&n[1], 0), second = rc_args(&n[0], 0);
    plan[0] = plan[1] = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec[1], &first, &plan[1]));
    OK(sw_plan(exec[0], &second, &plan[0]));
    CU_ASSERT(plan[0].n_repeats > 0 && plan[1].n_repeats == 0);
    for (int k = 0; k < RUNS; k++) {
        OK(sw_run(exec[0], &second));
        OK(sw_run(exec[1], &first));
        CU_ASSERT(sw_budget_used(budget) <= sw_budget_limit(budget));
    }
    for (int i = 0; i < 2; i++) {
        sw_exec_destroy(exec[i]);
        rc_end(&n[i]);
    }
}

SW_TEST("training and evaluation share an exec")
{
    rc_net n;
    place p;
    const range r = range_of(RC_CONV);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_after(end_record, &wanted);
    live(RC_CONV, RC_SOME, 0, NULL, false, false, &wanted, &plan);
    begin(&n, RC_CONV, RC_SOME);
    enter_place(&p, r.least, NULL);
    for (uint64_t k = 0; k < RUNS; k++) {
        sw_run_args args = rc_args(&n, k);
        OK(sw_run(p.exec, &args));
        args.mode = SW_EVAL;
        OK(sw_plan(p.exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.n_repeats, 0); /* nothing is kept for backward */
        OK(sw_run(p.exec, &args));
    }
    CU_ASSERT(memcmp(n.models[0]->base, wanted.bytes[0], wanted.n[0]) == 0);
    CU_ASSERT_EQUAL(n.times_called, 2);
}

SW_TEST("immediate mode repeats nothing")
{
    rc_net n;
    place p;
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    begin(&n, RC_MLP, RC_SOME);
    OK(plan_within(&n, 0, NULL, &plan));
    const size_t whole = plan.model_bytes + plan.immediate_bytes;
    for (int k = 0; k < 2; k++) {
        enter_place(&p, whole - 64 * (size_t)k, NULL);
        sw_run_args args = rc_args(&n, 0);
        args.immediate = 1;
        args.data_bytes = 0;
        if (k == 0) {
            OK(sw_plan(p.exec, &args, &plan));
            OK(sw_run(p.exec, &args));
            CU_ASSERT_EQUAL(plan.n_repeats, 0);
        } else {
            REFUSED(sw_plan(p.exec, &args, &plan), SW_NOMEM, "does not fit");
            CU_ASSERT_EQUAL(sw_budget_used(p.budget), 0);
        }
        rc_end(&n);
        leave_place(&p);
        begin(&n, RC_MLP, RC_SOME);
    }
}

#define ROWS 64
#define WIDE 256
#define BUDGETS_OF_SEEDS 12

/* ---- two narrow places in the forward part ----------------------------------------------- */

/* x is cheap and read by z; before z and after it, something large lives that neither of them
 * needs. So x runs again before z, and z, which then reads that run, again in backward. */
typedef struct {
    sw_model *model;
    sw_linear a, b, c, d, e;
    sw_optimizer *opt;
    sw_array in[2];
} narrow;

static sw_value large(sw_ctx *ctx, narrow *n)
{
    const sw_value x = sw_slice(ctx, sw_input(ctx, 0), 1, 0, 8);
    const sw_value wide = sw_relu(ctx, sw_apply_linear(ctx, n->b, x));
    return sw_detach(ctx, sw_apply_linear(ctx, n->c, sw_detach(ctx, wide)));
}

static void narrow_step(sw_ctx *ctx, void *user)
{
    narrow *n = user;
    const sw_value x = sw_relu(ctx, sw_apply_linear(ctx, n->a, sw_input(ctx, 0)));
    const sw_value s = large(ctx, n);
    const sw_value z = sw_tanh(ctx, sw_apply_linear(ctx, n->d, x));
    sw_value y = sw_add(ctx, sw_apply_linear(ctx, n->e, z), s);
    y = sw_add(ctx, y, large(ctx, n));
    const sw_value loss = sw_softmax_ce(ctx, y, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &n->opt, 1);
    sw_update(ctx, n->opt);
}

static sw_status narrow_begin(narrow *n)
{
    static float x[ROWS * 16];
    static uint8_t labels[ROWS];
    *n = (narrow){0};
    SW_TRY(sw_model_create(&n->model, "narrow"));
    n->a = sw_linear_new(n->model, "a", 16, WIDE);
    n->b = sw_linear_new(n->model, "b", 8, 8 * WIDE);
    n->c = sw_linear_new(n->model, "c", 8 * WIDE, 10);
    n->d = sw_linear_new(n->model, "d", WIDE, WIDE);
    n->e = sw_linear_new(n->model, "e", WIDE, 10);
    const sw_param frozen[] = {n->b.weight, n->b.bias, n->c.weight, n->c.bias};
    for (int i = 0; i < 4; i++)
        sw_param_freeze(frozen[i], 1);
    for (int i = 0; i < ROWS * 16; i++)
        x[i] = (float)(i * 7919 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint8_t)(i % 10);
    n->in[0] = (sw_array){SW_F32, SW_SHAPE(ROWS, 16), x};
    n->in[1] = (sw_array){SW_U8, SW_SHAPE(ROWS), labels};
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f);
    return sw_optimizer_create(&n->opt, n->model, &sgd);
}

/* Ops that run again before backward has begun. */
static int repeats_in_forward(const swi_program *p)
{
    int n = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        if (node->is_backward && !node->again)
            break;
        n += node->again;
    }
    return n;
}

/* Three runs in `bytes` (0: no budget): the model's bytes then, or NULL where they do not
 * fit. */
static void *narrow_life(size_t bytes, sw_plan_info *plan, int *in_forward)
{
    narrow n;
    sw_budget *budget = NULL;
    sw_exec *exec = NULL;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    void *left = NULL;
    OK(bytes > 0 ? sw_budget_create(&budget, bytes) : SW_OK);
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .seed = 5, .budget = budget)));
    OK(narrow_begin(&n));
    sw_run_args args = SW_OPTS(sw_run_args, .fn = narrow_step, .user = &n, .models = &n.model,
                               .n_models = 1, .inputs = n.in, .n_inputs = 2);
    *plan = SW_OPTS(sw_plan_info);
    const sw_status status = sw_plan(exec, &args, plan);
    for (uint64_t k = 0; status == SW_OK && k < 3; k++) {
        args.step = k;
        OK(sw_run(exec, &args));
    }
    if (status == SW_OK) {
        *in_forward += repeats_in_forward(exec->last);
        left = net_copy_bytes(n.model);
        OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.n_faults == 0, "in %zu: %s", bytes, seen.first_fault);
    }
    sw_model_destroy(n.model);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return left;
}

SW_TEST("a repeat may read what was repeated")
{
    sw_plan_info plain, plan;
    int in_forward = 0;
    const void *right = narrow_life(0, &plain, &in_forward);
    CU_ASSERT_PTR_NOT_NULL_FATAL(right);
    const size_t most = plain.model_bytes + plain.arena_bytes;
    uint32_t repeats = 0;
    for (int k = 0; k < BUDGETS_OF_SEEDS; k++) {
        const size_t bytes = most - plain.arena_bytes * (size_t)k / 40;
        const void *is = narrow_life(bytes, &plan, &in_forward);
        if (is == NULL)
            break;
        SW_CHECK(memcmp(is, right, plain.model_bytes) == 0, "%u repeats in %zu: other bits",
                 plan.n_repeats, bytes);
        repeats = plan.n_repeats;
    }
    CU_ASSERT(repeats > 0 && in_forward > 0);
    sw_note("%u repeats, %d before backward", repeats, in_forward);
}

/* ---- plans for another budget ------------------------------------------------------------ */

typedef struct {
    size_t least, plain; /* arena bytes, with all repeats and with none */
    size_t model;
} sizes;

static sizes sizes_of(rc_kind kind)
{
    sizes of = {0};
    for (int k = 0; k < 2; k++) {
        rc_net n;
        sw_budget *budget = NULL;
        sw_exec *exec = NULL;
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        OK(k == 0 ? sw_budget_create(&budget, 64) : SW_OK);
        OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .budget = budget)));
        OK(rc_begin(&n, kind, RC_SOME));
        const sw_run_args args = rc_args(&n, 0);
        CU_ASSERT_EQUAL(sw_plan(exec, &args, &plan), k == 0 ? SW_NOMEM : SW_OK);
        *(k == 0 ? &of.least : &of.plain) = plan.arena_bytes;
        of.model = plan.model_bytes + n.data_bytes;
        rc_end(&n);
        sw_exec_destroy(exec);
        sw_budget_destroy(budget);
    }
    CU_ASSERT_FATAL(of.least < of.plain);
    return of;
}

/* Immediate mode has no plan to keep to, and asks for more: what it was refused, a planned run
 * is not. */
SW_TEST("a plan for immediate mode is not kept")
{
    rc_net n;
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    const sizes of = sizes_of(RC_SWISH);
    sw_budget *budget = made_budget(of.model + of.least);
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .budget = budget));
    OK(rc_begin(&n, RC_SWISH, RC_SOME));
    sw_run_args args = rc_args(&n, 0);
    for (int k = 0; k < 2; k++) {
        args.immediate = 1;
        REFUSED(sw_plan(exec, &args, &plan), SW_NOMEM, "does not fit");
        args.immediate = 0;
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT(plan.n_repeats > 0 && plan.arena_bytes <= of.least);
    }
    OK(sw_run(exec, &args));
}

/* A plan that took no room yet is planned anew when others took that room. */
SW_TEST("a plan gives way to what others took")
{
    rc_net n;
    sw_model *other;
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    const sizes of = sizes_of(RC_SWISH);
    sw_budget *budget = made_budget(of.model + of.plain);
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .budget = budget));
    OK(rc_begin(&n, RC_SWISH, RC_SOME));
    const sw_run_args args = rc_args(&n, 0);
    const sw_plan_visitor nothing = SW_OPTS(sw_plan_visitor);
    OK(sw_plan_visit(exec, &args, &nothing)); /* plans, and reserves nothing */
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    OK(sw_model_create(&other, "other")); /* takes most of what can be done without */
    (void)sw_param_new(other, "table", SW_F32,
                       SW_SHAPE((int64_t)(of.plain - of.least) / 4 * 9 / 10), "zeros");
    OK(sw_model_ready(other, exec, 1));
    CU_ASSERT(sw_budget_used(budget) > 0);
    OK(sw_run(exec, &args));
    OK(sw_plan(exec, &args, &plan));
    CU_ASSERT(plan.n_repeats + plan.n_released > 0 && plan.arena_bytes < of.plain);
    CU_ASSERT(sw_budget_used(budget) <= sw_budget_limit(budget));
    sw_model_destroy(other);
}

/* An equal trace that has more room does not share the plan of one that had little. */
SW_TEST("a slow plan is not shared")
{
    rc_net n[2];
    sw_plan_info plan[2] = {SW_OPTS(sw_plan_info), SW_OPTS(sw_plan_info)};
    const sizes of = sizes_of(RC_CONV);
    sw_budget *budget = made_budget(2 * of.model + of.plain);
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .budget = budget));
    OK(rc_begin(&n[0], RC_CONV, RC_SOME));
    OK(rc_begin(&n[1], RC_CONV, RC_SOME));
    sw_run_args args = rc_args(&n[0], 0);
    args.data_bytes = of.model + of.plain - of.least; /* leaves little */
    OK(sw_plan(exec, &args, &plan[0]));
    CU_ASSERT(plan[0].n_repeats > 0);
    args = rc_args(&n[1], 0);
    OK(sw_plan(exec, &args, &plan[1]));
    SW_CHECK(plan[1].n_repeats == 0 && plan[1].arena_bytes == of.plain, "%u repeats, %zu bytes",
             plan[1].n_repeats, plan[1].arena_bytes);
    CU_ASSERT_EQUAL(exec->n_frames, 2);
}

/* ---- long programs ----------------------------------------------------------------------- */

#define LONG 500

typedef struct {
    int layers;
    sw_model *model;
    sw_linear linear[LONG];
    sw_optimizer *opt;
    sw_array in[2];
} deep;

static void deep_step(sw_ctx *ctx, void *user)
{
    deep *d = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < d->layers; i++) {
        const sw_value y = sw_tanh(ctx, sw_apply_linear(ctx, d->linear[i], x));
        x = i % 9 == 8 ? sw_add(ctx, x, y) : y;
    }
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_backward(ctx, loss, &d->opt, 1);
    sw_update(ctx, d->opt);
}

static sw_status deep_begin(deep *d)
{
    d->layers = sw_tests_full() ? LONG : LONG / 16;
    SW_TRY(sw_model_create(&d->model, "deep"));
    for (int i = 0; i < d->layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%d", i);
        d->linear[i] = sw_linear_new(d->model, name, 16, 16);
    }
    d->in[0] = (sw_array){SW_F32, SW_SHAPE(64, 16), NULL};
    d->in[1] = (sw_array){SW_U8, SW_SHAPE(64), NULL};
    return sw_optimizer_create(&d->opt, d->model, &SW_OPTS(sw_optimizer_opts, .kind = "sgd"));
}

/* Planning takes memory by the ops and by a table that is bounded. Time is noted: it depends on
 * the machine. */
SW_TEST("long programs are planned in little memory")
{
    static deep d;
    size_t most = 0, arena = 0;
    sw_heap_stats heap;
    OK(deep_begin(&d));
    for (int k = 0; k < 3; k++) {
        sw_budget *budget = NULL;
        sw_exec *exec;
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        OK(k > 0 ? sw_budget_create(&budget, most - arena * (size_t)k / 3) : SW_OK);
        OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .budget = budget)));
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = deep_step, .user = &d, .models = &d.model, .n_models = 1,
                    .inputs = d.in, .n_inputs = 2);
        OK(sw_plan(exec, &args, &plan));
        if (k == 0) {
            arena = plan.arena_bytes;
            most = plan.model_bytes + arena;
        }
        CU_ASSERT_EQUAL(plan.n_repeats > 0, k > 0);
        sw_heap_read(SW_HEAP_PROGRAMS, &heap);
        sw_note("%u ops, %u of them again: %.2f s, heap at most %zu MB", plan.n_ops,
                plan.n_repeats, (double)plan.plan_ns * 1e-9, heap.peak_bytes >> 20);
        SW_CHECK(heap.peak_bytes < (size_t)100 << 20, "%zu bytes", heap.peak_bytes);
        sw_arena_destroy(d.model->arena); /* reserved in the budget that goes */
        d.model->arena = NULL;
        sw_exec_destroy(exec);
        sw_budget_destroy(budget);
    }
    sw_model_destroy(d.model);
}
