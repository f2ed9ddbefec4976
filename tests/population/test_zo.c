/* Steps of zeroth order: their numbers, their memory, what is refused, and what fails. */
#include "alloc/base/mem.h"
#include "tests/population/zo_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("zeroth order")

/* ---- numbers ----------------------------------------------------------------------------- */

static const sw_zo_opts mezo = {
    .size = sizeof(sw_zo_opts), .kind = "mezo", .eps = 0.002f, .lr = 0.01f, .seed = 5};
static const sw_zo_opts lozo =
    SW_INIT(.size = sizeof(sw_zo_opts), .kind = "lozo", .eps = 0.004f, .lr = 0.02f,
            .weight_decay = 0.1f, .rank = 3, .window = 2, .seed = 99);

static void as_in_plain_code(const char *isa, bool image, const sw_zo_opts *opts, bool freeze)
{
    sw_exec *exec = NULL;
    if (sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .isa = isa, .threads = 2)) != SW_OK) {
        sw_note("%s: %s", isa, sw_last_error());
        return;
    }
    net *a = zo_net(exec, image, 3), *b = zo_net(exec, image, 3);
    const batch data = net_batch(image, 0, 8);
    const sw_run_args args = zo_args(a, &data);
    if (freeze) {
        sw_param_freeze(sw_param_find(a->model, "f1.weight"), 1);
        sw_param_freeze(sw_param_find(b->model, "f1.weight"), 1);
    }
    sw_zo *zo = zo_of(a, opts);
    for (uint64_t step = 0; step < 5; step++) {
        OK(sw_zo_step(zo, exec, &args, "loss", NULL));
        zo_plain_step(b, exec, &data, opts, step, opts->lr);
        SW_CHECK(zo_same(a->model, b->model), "%s: step %d of %s%s%s differs", isa, (int)step,
                 opts->kind, image ? ", image" : "", freeze ? ", frozen" : "");
    }
    CU_ASSERT_EQUAL(sw_zo_steps(zo), 5);
    CU_ASSERT_EQUAL(sw_zo_not_finite(zo), 0);
    sw_exec_destroy(exec);
}

SW_TEST("a step is its formula, bit by bit")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    for (size_t i = 0; i < 3; i++) {
        as_in_plain_code(isas[i], false, &mezo, false);
        as_in_plain_code(isas[i], false, &lozo, false);
        as_in_plain_code(isas[i], true, &mezo, true);
        as_in_plain_code(isas[i], true, &lozo, true);
    }
}

SW_TEST("the rate is the schedule's")
{
    const sw_schedule schedule = SW_OPTS(sw_schedule, .kind = "linear", .base = 0.05f,
                                         .warmup_steps = 2, .total_steps = 6);
    sw_zo_opts opts = mezo;
    sw_exec *exec = net_exec(NULL);
    net *a = zo_net(exec, false, 3), *b = zo_net(exec, false, 3);
    const batch data = net_batch(false, 0, 8);
    opts.schedule = &schedule;
    sw_zo *zo = zo_of(a, &opts);
    for (uint64_t step = 0; step < 6; step++) {
        float lr = 0.0f;
        OK(sw_schedule_at(&schedule, step, &lr));
        (void)zo_train(zo, exec, a, &data, 1);
        zo_plain_step(b, exec, &data, &opts, step, lr);
        CU_ASSERT(zo_same(a->model, b->model));
    }
}

/* By threads, immediate or planned, and alone or after another trainer's programs. */
SW_TEST("the same bits for any way to run")
{
    const batch data = net_batch(true, 0, 20);
    sw_exec *exec = net_exec(NULL);
    net *first = zo_net(exec, true, 3);
    (void)zo_train(zo_of(first, &mezo), exec, first, &data, 1);
    for (int way = 0; way < 4; way++) {
        sw_exec *other = net_exec(
            &SW_OPTS(sw_exec_opts, .seed = 11 + (uint64_t)way, .threads = 1 + way % 2));
        net *n = zo_net(other, true, 3);
        sw_run_args args = zo_args(n, &data);
        sw_zo *zo = zo_of(n, &mezo);
        args.immediate = way / 2;
        OK(sw_zo_step(zo, other, &args, "loss", NULL));
        SW_CHECK(zo_same(first->model, n->model), "way %d differs", way);
    }
}

/* A dropout layer in SW_TRAIN without an optimizer: both runs of a step draw the same. */
static void dropped(sw_ctx *ctx, void *user)
{
    net *n = user;
    const sw_value x = sw_dropout(ctx, sw_input(ctx, 0), 0.5f);
    const sw_value logits =
        sw_apply_linear(ctx, n->f2, sw_tanh(ctx, sw_apply_linear(ctx, n->f1, x)));
    sw_metric(ctx, "loss", sw_softmax_ce(ctx, logits, sw_input(ctx, 1)));
}

SW_TEST("both runs of a step draw the same numbers")
{
    sw_exec *exec = net_exec(NULL);
    net *n = zo_net(exec, false, 3);
    const batch data = net_batch(false, 0, 8);
    sw_run_args args = net_args(n, &data);
    sw_zo_opts opts = mezo;
    double plus, minus, mean;
    opts.eps = 1e-6f; /* so small that only other numbers could make other losses */
    args.fn = dropped;
    sw_zo *zo = zo_of(n, &opts);
    for (args.step = 0; args.step < 3; args.step++) {
        OK(sw_zo_step(zo, exec, &args, "loss", &mean));
        OK(sw_metric_past(exec, 3, "loss", &plus));
        OK(sw_metric_past(exec, 1, "loss", &minus));
        SW_CHECK(fabs(plus - minus) < 1e-4, "%g and %g", plus, minus);
        CU_ASSERT_EQUAL(mean, 0.5 * (plus + minus));
    }
}

SW_TEST("the loss falls")
{
    sw_exec *exec = net_exec(NULL);
    const batch data = net_batch(false, 0, 32);
    const sw_zo_opts kinds[] = {
        SW_OPTS(sw_zo_opts, .lr = 0.002f, .seed = 1),
        SW_OPTS(sw_zo_opts, .kind = "lozo", .lr = 0.002f, .rank = 2, .window = 10, .seed = 1)};
    for (size_t i = 0; i < 2; i++) {
        net *n = zo_net(exec, false, 3);
        sw_zo *zo = zo_of(n, &kinds[i]);
        const double before = zo_train(zo, exec, n, &data, 1);
        const double after = zo_train(zo, exec, n, &data, sw_tests_full() ? 2000 : 400);
        sw_note("%s: loss %.3f, then %.3f", i == 0 ? "mezo" : "lozo", before, after);
        CU_ASSERT(after < before - 0.3);
    }
}

SW_TEST("a loss that is not finite counts, and moves nothing")
{
    sw_exec *exec = net_exec(NULL);
    net *n = zo_net(exec, false, 3);
    const batch data = net_batch(false, 0, 8);
    sw_zo *zo = zo_of(n, &mezo);
    double loss = 0.0;
    const sw_run_args args = zo_args(n, &data);
    (void)zo_train(zo, exec, n, &data, 1);
    sw_knob_set(n->factor, 3e38f);
    OK(sw_zo_step(zo, exec, &args, "loss", &loss));
    CU_ASSERT(!isfinite(loss));
    CU_ASSERT_EQUAL(sw_zo_not_finite(zo), 1);
    sw_knob_set(n->factor, 1.0f);
    CU_ASSERT(isfinite(zo_train(zo, exec, n, &data, 1)));
    CU_ASSERT_EQUAL(sw_zo_not_finite(zo), 1);
    CU_ASSERT_EQUAL(sw_zo_steps(zo), 3);
}

/* ---- memory ------------------------------------------------------------------------------ */

SW_TEST("the peak of a step is that of inference")
{
    for (int image = 0; image < 2; image++) {
        sw_exec *exec = net_exec(NULL);
        net *n = zo_net(exec, image != 0, 3);
        const batch data = net_batch(image != 0, 0, 32);
        const sw_run_args args = zo_args(n, &data);
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_run_info run = SW_OPTS(sw_run_info);
        OK(sw_plan(exec, &args, &plan));
        OK(sw_run(exec, &args));
        OK(sw_last_run(exec, &run));
        const size_t inference = run.peak_bytes, height = sw_arena_height(exec->arena);
        CU_ASSERT_EQUAL(inference, plan.peak_bytes);
        sw_zo_opts opts = lozo;
        opts.max_steps = 10;
        OK(sw_zo_step(zo_of(n, &opts), exec, &args, "loss", NULL));
        size_t most = 0;
        for (int ago = 0; ago < 4; ago++) {
            OK(sw_run_past(exec, ago, &run));
            most = run.peak_bytes > most ? run.peak_bytes : most;
            CU_ASSERT_EQUAL(run.arena_bytes, ago % 2 == 1 ? plan.arena_bytes : 0);
            CU_ASSERT_EQUAL(run.model_bytes, plan.model_bytes);
        }
        sw_note("peak %zu bytes, of which the model %zu and the arena %zu", most,
                plan.model_bytes, plan.arena_bytes);
        CU_ASSERT_EQUAL(most, inference);
        CU_ASSERT_EQUAL(sw_arena_height(exec->arena), height);
    }
}

/* The runs of a step, and its moves, one by one: what lives at the peak is what was planned,
 * and a move touches its parameter and its numbers and has nothing else. */
SW_TEST("witnesses see no byte more")
{
    sw_exec *exec = net_exec(NULL);
    net *n = zo_net(exec, true, 3);
    const batch data = net_batch(true, 0, 32);
    const sw_run_args args = zo_args(n, &data);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    OK(sw_plan(exec, &args, &plan));
    OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
    CU_ASSERT_EQUAL(seen.n_faults, 0);
    CU_ASSERT_EQUAL(seen.peak_bytes, plan.peak_bytes);
    const float x[SWI_MOVE_NUMBERS] = {0.1f, 0.2f, 0.3f, 0.4f};
    const sw_array numbers = {SW_F32, SW_SHAPE(SWI_MOVE_NUMBERS), x};
    for (int rank = 0; rank < 3; rank += 2)
        for (int k = SWI_MOVE_BY_NOISE; k <= SWI_MOVE_ALL; k++) {
            const swi_zo_rule rule = {
                .eps = 0.1f, .weight_decay = 0.4f, .rank = rank, .window = (uint32_t)rank};
            const sw_run_args move = swi_zo_move_args(&rule, &n->model, (swi_move)k, &numbers);
            sw_plan_info own = SW_OPTS(sw_plan_info);
            OK(sw_plan(exec, &move, &own));
            CU_ASSERT_EQUAL(own.arena_bytes, 0);
            CU_ASSERT_EQUAL(own.n_storages, sw_param_count(n->model) + 1);
            CU_ASSERT(own.peak_bytes <= plan.peak_bytes);
            OK(sw_witness(exec, &move, SW_WITNESS_ALL, &seen));
            SW_CHECK(seen.n_faults == 0, "%s", seen.first_fault);
            CU_ASSERT_EQUAL(seen.agreed, SW_WITNESS_ALL);
            CU_ASSERT_EQUAL(seen.peak_bytes, own.peak_bytes);
        }
}

/* A budget that inference just fits is enough; one byte less is refused before anything
 * moves. */
SW_TEST("it fits the least budget of inference")
{
    const batch data = net_batch(true, 0, 32);
    sw_exec *exec = net_exec(NULL);
    net *n = zo_net(exec, true, 3);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    const sw_run_args args = zo_args(n, &data);
    OK(sw_plan(exec, &args, &plan));
    const size_t least = plan.model_bytes + plan.arena_bytes;
    for (size_t less = 0; less < 2; less++) {
        sw_budget *budget = made_budget(least - less);
        sw_exec *small = made_exec(&SW_OPTS(sw_exec_opts, .budget = budget));
        net *m = net_new(true, &SW_OPTS(sw_optimizer_opts, .kind = "sgd"));
        const sw_run_args own = zo_args(m, &data);
        OK(sw_model_ready(m->model, small, 3));
        void *before = net_copy_bytes(m->model);
        const sw_status status = sw_zo_step(zo_of(m, &lozo), small, &own, "loss", NULL);
        SW_CHECK(status == (less == 0 ? SW_OK : SW_NOMEM), "%s", sw_last_error());
        CU_ASSERT_EQUAL(net_same_bytes(m->model, before), less == 1);
        CU_ASSERT_FALSE(m->model->damaged);
        sw_model_destroy(m->model);
        m->model = NULL;
    }
}

SW_TEST("warm steps allocate nothing")
{
    sw_exec *exec = net_exec(NULL);
    net *n = zo_net(exec, true, 3);
    const batch data = net_batch(true, 0, 8);
    sw_zo_opts opts = lozo;
    opts.max_steps = 100;
    sw_zo *zo = zo_of(n, &opts);
    (void)zo_train(zo, exec, n, &data, 2);
    const uint64_t calls = sw_mem_calls();
    (void)zo_train(zo, exec, n, &data, 20);
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
}

/* ---- failures ---------------------------------------------------------------------------- */

static struct {
    int calls, fails; /* the call that fails */
} ops;

static sw_status fails_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    out[0] = in[0];
    return SW_OK;
}

static sw_status fails_forward(const sw_launch *l)
{
    memcpy(l->out[0].ptr, l->in[0].ptr, (size_t)sw_type_bytes(&l->out[0].type));
    if (ops.calls++ == ops.fails)
        return sw_error_set(SW_INVALID, __FILE__, __LINE__, "planted");
    return SW_OK;
}

static uint32_t fails_op(void)
{
    static uint32_t id;
    static const sw_op_desc desc =
        SW_INIT(.size = sizeof desc, .name = "zo_fails", .n_in = 1, .n_out = 1,
                .infer = fails_infer, .forward = fails_forward, .no_gradient = 1);
    if (id == 0)
        OK(sw_op_register(&desc, &id));
    return id;
}

static void failing_step(sw_ctx *ctx, void *user)
{
    net *n = user;
    const sw_value in = sw_input(ctx, 0), x = sw_op_apply(ctx, fails_op(), &in, 1, NULL);
    const sw_value logits =
        sw_apply_linear(ctx, n->f2, sw_tanh(ctx, sw_apply_linear(ctx, n->f1, x)));
    sw_metric(ctx, "loss", sw_softmax_ce(ctx, logits, sw_input(ctx, 1)));
}

/* The run that fails is the first or the second one, of the first or the third step. */
SW_TEST("a step that fails midway says so")
{
    sw_exec *exec = net_exec(NULL);
    const batch data = net_batch(false, 0, 8);
    for (int fails = 0; fails < 6; fails++) {
        net *n = zo_net(exec, false, 3), *spare = zo_net(exec, false, 4);
        sw_run_args args = zo_args(n, &data);
        sw_zo_opts opts = mezo;
        opts.max_steps = 10;
        sw_zo *zo = zo_of(n, &opts);
        args.fn = failing_step;
        args.immediate = fails % 4 == 3;
        ops.calls = 0;
        ops.fails = fails;
        sw_status status = SW_OK;
        for (int i = 0; i < 3 && status == SW_OK; i++)
            status = sw_zo_step(zo, exec, &args, "loss", NULL);
        CU_ASSERT_EQUAL(status, SW_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "planted"));
        CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "must be restored"));
        CU_ASSERT_EQUAL(sw_zo_steps(zo), (uint64_t)fails / 2);
        REFUSED(sw_zo_step(zo, exec, &args, "loss", NULL), SW_STALE, "restore");
        REFUSED(sw_run(exec, &args), SW_STALE, "restore");
        OK(sw_model_copy(n->model, spare->model));
        OK(sw_zo_step(zo, exec, &args, "loss", NULL));
        if (fails < 2)
            OK(sw_zo_save(zo, sw_temp_path("midway")));
        else
            REFUSED(sw_zo_save(zo, sw_temp_path("midway")), SW_INVALID, "a step failed");
    }
}

SW_TEST("bad labels leave a damaged model")
{
    sw_exec *exec = net_exec(NULL);
    net *n = zo_net(exec, false, 3);
    uint8_t labels[4] = {1, 2, 200, 3};
    batch data = net_batch(false, 0, 4);
    const sw_run_args args = zo_args(n, &data);
    sw_zo *zo = zo_of(n, &mezo);
    data.in[1].data = labels;
    REFUSED(sw_zo_step(zo, exec, &args, "loss", NULL), SW_INVALID, "200");
    REFUSED(sw_run(exec, &args), SW_STALE, "restore");
    labels[2] = 0;
    OK(sw_model_ready(n->model, exec, 3));
    OK(sw_zo_step(zo, exec, &args, "loss", NULL));
}

/* An exec can do without some of what it asks for; that is not looked at here. */
static sw_status make_exec(sw_exec **out)
{
    SW_TRY(sw_exec_create(out, &SW_OPTS(sw_exec_opts)));
    if (sw_fault_hits(SW_FAULT_MEMORY) == 0)
        return SW_OK;
    sw_exec_destroy(*out);
    return sw_error_set(SW_NOMEM, __FILE__, __LINE__, "while the exec was made");
}

/* Everything that a trainer allocates fails once. A step that was refused for memory has
 * changed nothing. */
static sw_status live(void *arg)
{
    const batch *data = arg;
    sw_exec *exec = NULL;
    sw_zo *zo = NULL;
    sw_zo_opts opts = lozo;
    opts.max_steps = 4;
    SW_TRY(make_exec(&exec));
    net n = {.image = false};
    sw_status status = sw_model_create(&n.model, "net");
    if (status == SW_OK) {
        n.f1 = sw_linear_new(n.model, "f1", NET_PIXELS, 24);
        n.f2 = sw_linear_new(n.model, "f2", 24, NET_CLASSES);
        n.factor = sw_knob_new(n.model, "factor", 1.0f);
        status = sw_model_ready(n.model, exec, 3);
    }
    if (status == SW_OK)
        status = sw_zo_create(&zo, n.model, &opts);
    const sw_run_args args = zo_args(&n, data);
    for (int i = 0; i < 2 && status == SW_OK; i++) {
        static unsigned char before[1 << 16];
        memcpy(before, n.model->base, n.model->bytes);
        status = sw_zo_step(zo, exec, &args, "loss", NULL);
        SW_CHECK(status == SW_OK ||
                     (!n.model->damaged && memcmp(before, n.model->base, n.model->bytes) == 0),
                 "step %d: %s", i, sw_last_error());
    }
    if (status == SW_OK)
        status = sw_zo_save(zo, sw_temp_path("swept"));
    sw_zo_destroy(zo);
    sw_model_destroy(n.model);
    sw_exec_destroy(exec);
    return status;
}

SW_TEST("every allocation can fail")
{
    batch data = net_batch(false, 0, 4);
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, live, &data);
    sw_note("%llu sites", (unsigned long long)sites);
    CU_ASSERT(sites > 20);
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void refused_opts(net *n, sw_zo_opts opts, const char *part)
{
    sw_zo *zo = NULL;
    opts.size = sizeof opts;
    REFUSED(sw_zo_create(&zo, n->model, &opts), SW_INVALID, part);
    CU_ASSERT_PTR_NULL(zo);
}

SW_TEST("options are refused by name")
{
    net *n = zo_net(net_exec(NULL), false, 3);
    refused_opts(n, (sw_zo_opts){.kind = "spsa"}, "mezo");
    refused_opts(n, (sw_zo_opts){.eps = -1.0f}, "eps");
    refused_opts(n, (sw_zo_opts){.eps = INFINITY}, "eps");
    refused_opts(n, (sw_zo_opts){.lr = NAN}, "lr");
    refused_opts(n, (sw_zo_opts){.weight_decay = -0.1f}, "weight_decay");
    refused_opts(n, (sw_zo_opts){.rank = 2}, "lozo");
    refused_opts(n, (sw_zo_opts){.window = 2}, "lozo");
    refused_opts(n, (sw_zo_opts){.kind = "lozo", .rank = -1}, "rank");
    refused_opts(n, (sw_zo_opts){.kind = "lozo", .rank = 257}, "rank");
    refused_opts(n, (sw_zo_opts){.max_steps = (uint64_t)1 << 33}, "max_steps");
    const sw_schedule bad = SW_OPTS(sw_schedule, .kind = "cosine", .base = 1.0f);
    refused_opts(n, (sw_zo_opts){.schedule = &bad}, "cosine");
}

SW_TEST("steps are refused before anything moves")
{
    sw_exec *exec = net_exec(NULL);
    net *n = zo_net(exec, false, 3), *other = zo_net(exec, false, 4);
    const batch data = net_batch(false, 0, 8);
    sw_zo_opts opts = mezo;
    opts.max_steps = 1;
    sw_zo *zo = zo_of(n, &opts);
    void *before = net_copy_bytes(n->model);
    sw_run_args args = zo_args(n, &data), bad = args;
    REFUSED(sw_zo_step(zo, exec, &args, "lost", NULL), SW_INVALID, "lost");
    bad.mode = SW_TRAIN;
    REFUSED(sw_zo_step(zo, exec, &bad, "loss", NULL), SW_INVALID, "sw_update");
    bad = zo_args(other, &data);
    REFUSED(sw_zo_step(zo, exec, &bad, "loss", NULL), SW_INVALID, "among the models");
    for (size_t i = 0; i < sw_param_count(n->model); i++)
        sw_param_freeze(sw_param_at(n->model, i), 1);
    REFUSED(sw_zo_step(zo, exec, &args, "loss", NULL), SW_INVALID, "not frozen");
    for (size_t i = 0; i < sw_param_count(n->model); i++)
        sw_param_freeze(sw_param_at(n->model, i), 0);
    CU_ASSERT(net_same_bytes(n->model, before));
    OK(sw_zo_step(zo, exec, &args, "loss", NULL));
    before = net_copy_bytes(n->model);
    REFUSED(sw_zo_step(zo, exec, &args, "loss", NULL), SW_INVALID, "full");
    CU_ASSERT(net_same_bytes(n->model, before));
    CU_ASSERT_FALSE(n->model->damaged);
    opts.max_steps = 3;
    sw_zo *frozen = zo_of(other, &opts);
    bad = zo_args(other, &data);
    OK(sw_zo_step(frozen, exec, &bad, "loss", NULL));
    sw_param_freeze(sw_param_find(other->model, "f2.bias"), 1);
    REFUSED(sw_zo_step(frozen, exec, &bad, "loss", NULL), SW_INVALID, "frozen");
}

/* In immediate mode it is seen once it has happened. */
SW_TEST("an immediate update is refused")
{
    sw_exec *exec = net_exec(NULL);
    net *n = zo_net(exec, false, 3);
    const batch data = net_batch(false, 0, 8);
    sw_run_args args = net_args(n, &data);
    args.immediate = 1;
    REFUSED(sw_zo_step(zo_of(n, &mezo), exec, &args, "loss", NULL), SW_INVALID, "sw_update");
    CU_ASSERT(n->model->damaged);
}
