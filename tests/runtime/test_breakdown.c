/* The bytes of a step by role and by layer: as planned, by hand and as runs have them. */
#include "runtime/observe/observe.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/seen_breakdown.h"

SW_TESTS("shares")

static sw_exec *keeping(int threads, int no_inplace)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .seed = 11,
                             .no_inplace = no_inplace, .shares = 1));
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* ---- against plans worked out in other ways ---------------------------------------------- */

static sw_seen_breakdown planned(sw_exec *exec, const sw_run_args *args)
{
    sw_seen_breakdown seen = {.n = 0};
    OK(sw_plan_shares(exec, args, sw_see_share, &seen));
    return seen;
}

static sw_seen_breakdown measured(sw_exec *exec)
{
    sw_seen_breakdown seen = {.n = 0};
    OK(sw_last_shares(exec, sw_see_share, &seen));
    return seen;
}

/* A storage of the plan as sw_plan_visit shows it. */
typedef struct {
    char role[24], layer[192];
    size_t bytes;
    uint32_t birth, death;
} stored;
typedef struct {
    stored at[400];
    uint32_t n, n_ops;
} listing;

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    ((listing *)to)->n_ops++;
}

static void see_storage(void *to, const sw_plan_storage *s)
{
    listing *l = to;
    if (s->alias != UINT32_MAX || !SW_CHECK(l->n < 400, "%u storages", l->n))
        return;
    stored *x = &l->at[l->n++];
    *x = (stored){.bytes = s->bytes + s->padding, .birth = s->birth, .death = s->death};
    snprintf(x->role, sizeof x->role, "%s", s->role);
    snprintf(x->layer, sizeof x->layer, "%s", s->layer);
}

/* The bytes that storages of a role or layer (NULL: any) hold while op t runs. */
static size_t live_at(const listing *l, const char *role, const char *layer, uint32_t t)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < l->n; i++)
        if ((role == NULL || strcmp(role, l->at[i].role) == 0) &&
            (layer == NULL || strcmp(layer, l->at[i].layer) == 0) && l->at[i].birth <= t &&
            l->at[i].death >= t)
            sum += l->at[i].bytes;
    return sum;
}

static size_t model_at(const sw_model *m, const char *role, const char *layer)
{
    size_t sum = 0;
    for (uint32_t i = 1; i < m->n_entries; i++) {
        const swi_entry *e = &m->entries[i];
        const char *dot = strchr(e->name, '.');
        const size_t n = dot != NULL ? (size_t)(dot - e->name) : 0;
        if (role != NULL ? strcmp(role, swi_role_name(e->role)) == 0
                         : strlen(layer) == n && strncmp(layer, e->name, n) == 0)
            sum += rounded(e->bytes);
    }
    return sum;
}

/* Each share again, from the list that a visit of the plan gives and the model's entries:
 * quadratic and plain. */
static void check_shares(sw_exec *exec, const net *n, const sw_run_args *args)
{
    static listing l;
    l = (listing){.n = 0};
    OK(sw_plan_visit(
        exec, args, &SW_OPTS(sw_plan_visitor, .to = &l, .op = see_op, .storage = see_storage)));
    uint32_t top = 0;
    for (uint32_t t = 1; t < l.n_ops; t++)
        if (live_at(&l, NULL, NULL, t) > live_at(&l, NULL, NULL, top))
            top = t;
    const sw_seen_breakdown seen = planned(exec, args);
    CU_ASSERT(seen.n > 6);
    for (uint32_t i = 0; i < seen.n; i++) {
        const sw_seen_share *x = &seen.at[i];
        const bool role = x->kind == SW_SHARE_ROLE;
        const char *r = role ? x->name : NULL, *layer = role ? NULL : x->name;
        const size_t base = model_at(n->model, r, layer);
        size_t most = 0;
        for (uint32_t t = 0; t < l.n_ops; t++)
            most = live_at(&l, r, layer, t) > most ? live_at(&l, r, layer, t) : most;
        SW_CHECK(x->at_peak == base + live_at(&l, r, layer, top), "%s: %zu", x->name,
                 x->at_peak);
        SW_CHECK(x->peak == base + most, "%s: %zu", x->name, x->peak);
    }
}

/* Sums are the peak, own peaks are no less, and the names are those that the model has. */
static void check_sums(const sw_seen_breakdown *seen, size_t peak)
{
    SW_CHECK(sw_share_sum(seen, SW_SHARE_ROLE) == peak, "roles: %zu of %zu",
             sw_share_sum(seen, SW_SHARE_ROLE), peak);
    SW_CHECK(sw_share_sum(seen, SW_SHARE_LAYER) == peak, "layers: %zu of %zu",
             sw_share_sum(seen, SW_SHARE_LAYER), peak);
    for (uint32_t i = 0; i < seen->n; i++)
        SW_CHECK(seen->at[i].peak >= seen->at[i].at_peak && seen->at[i].peak <= peak, "%s",
                 seen->at[i].name);
}

SW_TEST("shares add up to the peak")
{
    static const int batches[] = {1, 7, 33};
    static const sw_optimizer_opts optimizers[] = {
        {.size = sizeof *optimizers, .kind = "sgd"},
        {.size = sizeof *optimizers, .kind = "sgd", .momentum = 0.9f, .keep_gradients = 1},
        {.size = sizeof *optimizers, .kind = "adam", .release = 1},
    };
    for (int i = 0; i < 2 * 3 * 3; i++) {
        sw_exec *exec = keeping(1, i % 4 == 3);
        net *n = net_new(i % 2 == 1, &optimizers[i / 2 % 3]);
        const batch b = net_batch(i % 2 == 1, 0, batches[i / 6]);
        sw_run_args args = net_args(n, &b);
        for (int eval = 0; eval < 2; eval++) {
            args.mode = eval ? SW_EVAL : SW_TRAIN;
            sw_plan_info info = SW_OPTS(sw_plan_info);
            OK(sw_plan(exec, &args, &info));
            const sw_seen_breakdown seen = planned(exec, &args);
            check_sums(&seen, info.peak_bytes);
            check_shares(exec, n, &args);
        }
    }
}

/* ---- against runs ------------------------------------------------------------------------ */

static void compare(sw_exec *exec, const sw_run_args *args, const char *what)
{
    char why[300];
    sw_run_info run = SW_OPTS(sw_run_info);
    const sw_seen_breakdown said = planned(exec, args);
    OK(sw_run(exec, args));
    OK(sw_last_run(exec, &run));
    const sw_seen_breakdown seen = measured(exec);
    SW_CHECK(sw_same_breakdown(&said, &seen, why, sizeof why), "%s: %s", what, why);
    check_sums(&seen, run.peak_bytes);
}

/* Batches, a last and smaller one, training and evaluation, planned and immediate, in turns on
 * one exec. */
SW_TEST("runs have the shares of their plans")
{
    static const char *const kinds[] = {"sgd", "adam", "adamw"};
    static const int rows[] = {32, 5, 1};
    for (int i = 0; i < 12; i++) {
        const bool image = i % 2 == 1;
        const sw_optimizer_opts opts =
            SW_OPTS(sw_optimizer_opts, .kind = kinds[i / 2 % 3], .keep_gradients = i >= 6,
                    .release = i == 2 || i == 5);
        sw_exec *exec = keeping(1 + i % 3, i % 5 == 4);
        net *n = net_new(image, &opts);
        n->clip = !opts.release;
        for (int k = 0; k < 12; k++) {
            const batch b = net_batch(image, 0, rows[k / 2 % 3]);
            sw_run_args args = net_args(n, &b);
            args.step = (uint64_t)k;
            args.mode = k % 2 == 1 ? SW_EVAL : SW_TRAIN;
            args.immediate = k >= 6 || i == 11;
            compare(exec, &args, args.immediate ? "immediate" : "planned");
        }
    }
}

/* With the metric as the only thing that leaves, and everything in one scope. */
static void scoped_step(sw_ctx *ctx, void *user)
{
    net *n = user;
    sw_scope_begin(ctx, "outer");
    sw_scope_begin(ctx, "inner");
    const sw_value x = sw_apply_linear(ctx, n->f1, sw_input(ctx, 0));
    sw_scope_end(ctx);
    const sw_value loss =
        sw_softmax_ce(ctx, sw_apply_linear(ctx, n->f2, sw_tanh(ctx, x)), sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &n->opt, 1);
    sw_update(ctx, n->opt);
    sw_scope_end(ctx);
}

/* By hand: what a layer and a role hold of a small network. */
SW_TEST("shares have names and bytes")
{
    sw_exec *exec = keeping(1, 0);
    net *n = net_new(false, &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .momentum = 0.5f));
    const batch b = net_batch(false, 0, 10);
    sw_run_args args = net_args(n, &b);
    args.fn = scoped_step;
    const sw_seen_breakdown seen = planned(exec, &args);
    const size_t weights = rounded(NET_PIXELS * 24 * 4) + rounded(24 * 4),
                 others = rounded(24 * NET_CLASSES * 4) + rounded(NET_CLASSES * 4);
    const size_t inputs = rounded(10 * NET_PIXELS * 4) + rounded(10);
    const sw_seen_share parameter = sw_share_named(&seen, SW_SHARE_ROLE, "parameter"),
                        input = sw_share_named(&seen, SW_SHARE_ROLE, "input"),
                        f1 = sw_share_named(&seen, SW_SHARE_LAYER, "f1"),
                        f2 = sw_share_named(&seen, SW_SHARE_LAYER, "f2"),
                        inner = sw_share_named(&seen, SW_SHARE_LAYER, "outer/inner/f1"),
                        knobs = sw_share_named(&seen, SW_SHARE_ROLE, "knob"),
                        metric = sw_share_named(&seen, SW_SHARE_ROLE, "metric");
    CU_ASSERT_EQUAL(parameter.at_peak, weights + others);
    CU_ASSERT_EQUAL(parameter.peak, weights + others);
    CU_ASSERT_EQUAL(input.at_peak, inputs);
    CU_ASSERT_EQUAL(f1.at_peak, 2 * weights); /* with the momentum */
    CU_ASSERT_EQUAL(f2.at_peak, 2 * others);
    CU_ASSERT_EQUAL(knobs.peak, 64);
    CU_ASSERT_EQUAL(metric.peak, 64);
    CU_ASSERT(inner.peak >= rounded(10 * 24 * 4));
    CU_ASSERT_EQUAL(sw_share_named(&seen, SW_SHARE_ROLE, "state").peak, 0);
    for (uint32_t i = 1; i < seen.n; i++)
        CU_ASSERT(seen.at[i - 1].kind <= seen.at[i].kind); /* roles first */
    compare(exec, &args, "scoped");
}

/* Forward meets the layers in their order, backward against it; a line is found either way, and
 * each name has one. */
SW_TEST("layers are found from both sides")
{
    swi_breakdown x = {0};
    char name[16];
    uint32_t line = 0, again = 0;
    OK(swi_breakdown_empty(&x));
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "layer%d", i);
        OK(swi_breakdown_layer(&x, name, &line));
        CU_ASSERT_EQUAL(line, (uint32_t)SWI_ROLE_COUNT + 1 + (uint32_t)i);
    }
    sw_dice dice = {5};
    for (int i = 0; i < 2000; i++) {
        const int which = i < 200 ? 199 - i : (int)sw_dice_below(&dice, 200);
        snprintf(name, sizeof name, "layer%d", which);
        OK(swi_breakdown_layer(&x, name, &again));
        CU_ASSERT_EQUAL(again, (uint32_t)SWI_ROLE_COUNT + 1 + (uint32_t)which);
    }
    OK(swi_breakdown_layer(&x, "", &again));
    CU_ASSERT_EQUAL(again, (uint32_t)SWI_ROLE_COUNT);
    OK(swi_breakdown_layer(&x, "gradient", &again)); /* a layer may have the name of a role */
    CU_ASSERT_EQUAL(again, line + 1);
    swi_breakdown_free(&x);
}

/* ---- when and when not ------------------------------------------------------------------- */

typedef struct {
    sw_exec *exec;
    sw_run_args args;
    sw_status inside;
} asking;

static void ask_again(void *to, const sw_share *share)
{
    asking *a = to;
    a->inside = sw_last_shares(a->exec, sw_see_share, NULL);
}

SW_TEST("what was not measured is refused")
{
    sw_seen_breakdown seen = {.n = 0};
    sw_exec *plain = net_exec(NULL), *exec = keeping(1, 0);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 4);
    sw_run_args args = net_args(n, &b);
    OK(sw_run(plain, &args));
    REFUSED(sw_last_shares(plain, sw_see_share, &seen), SW_INVALID, "without shares");
    REFUSED(sw_last_shares(exec, sw_see_share, &seen), SW_INVALID, "nothing has run");
    REFUSED(sw_witness_shares(exec, sw_see_share, &seen), SW_INVALID, "no access witness");
    CU_ASSERT_NOT_EQUAL(sw_plan_shares(exec, NULL, sw_see_share, &seen), SW_OK);
    CU_ASSERT_EQUAL(seen.n, 0);
    OK(sw_run(exec, &args));
    asking a = {.exec = exec, .inside = SW_OK};
    OK(sw_last_shares(exec, ask_again, &a));
    CU_ASSERT_EQUAL(a.inside, SW_BUSY);
    const sw_exec_opts both = SW_OPTS(sw_exec_opts, .shares = 1, .no_phases = 1);
    sw_exec *none = NULL;
    REFUSED(sw_exec_create(&none, &both), SW_INVALID, "no_phases");
    args.mode = (sw_mode)7;
    REFUSED(sw_plan_shares(exec, &args, sw_see_share, &seen), SW_INVALID, "mode");
    CU_ASSERT_NOT_EQUAL(sw_run(exec, &args), SW_OK); /* refused: the last run is as it was */
    OK(sw_last_shares(exec, sw_see_share, &seen));
    CU_ASSERT(seen.n > 0);
}

/* Noting takes its room in the first run of a program; later steps take none. */
SW_TEST("noting calls no heap after warm-up")
{
    sw_exec *exec = keeping(1, 0);
    net *n = net_new(true, NULL);
    const batch b = net_batch(true, 0, 8);
    sw_run_args args = net_args(n, &b);
    sw_run_info run = SW_OPTS(sw_run_info);
    for (int i = 0; i < 4; i++) {
        OK(sw_run(exec, &args));
        OK(sw_last_run(exec, &run));
        if (i > 0)
            CU_ASSERT_EQUAL(run.allocations, 0);
    }
    args.immediate = 1;
    for (int i = 0; i < 4; i++) {
        OK(sw_run(exec, &args));
        OK(sw_last_run(exec, &run));
        if (i > 1) /* two traces take turns */
            CU_ASSERT_EQUAL(run.allocations, 0);
    }
}

static sw_status ask_all(void *arg)
{
    asking *a = arg;
    sw_seen_breakdown seen = {.n = 0};
    SW_TRY(sw_plan_shares(a->exec, &a->args, sw_see_share, &seen));
    a->args.immediate = 1;
    const sw_status status = sw_plan_shares(a->exec, &a->args, sw_see_share, &seen);
    a->args.immediate = 0;
    SW_TRY(status);
    return sw_last_shares(a->exec, sw_see_share, &seen);
}

SW_TEST("memory may fail anywhere")
{
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 4);
    asking a = {.exec = keeping(1, 0), .args = net_args(n, &b)};
    OK(sw_run(a.exec, &a.args)); /* what stays is there */
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, ask_all, &a) >= 2);
}
