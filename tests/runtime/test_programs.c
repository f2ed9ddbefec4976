/* Programs by key: traced once, shared, bounded; what asks for a new plan and what does not;
 * budgets. */
#include "alloc/base/message.h"
#include "alloc/arena/arena.h"
#include "tests/runtime/nets.h"

SW_TESTS("programs")

static sw_run_info last_run(sw_exec *exec)
{
    sw_run_info info = SW_OPTS(sw_run_info);
    OK(sw_last_run(exec, &info));
    return info;
}

SW_TEST("a key is traced once, and warm runs allocate nothing")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 16);
    sw_run_args args = net_args(n, &b);
    for (int i = 0; i < 5; i++) {
        OK(sw_run(exec, &args));
        CU_ASSERT_EQUAL(n->times_called, 1);
        const sw_run_info info = last_run(exec);
        CU_ASSERT_EQUAL(info.warm, i > 0);
        SW_CHECK(i == 0 || info.allocations == 0, "%u allocations", (unsigned)info.allocations);
    }
    args.step = 7;
    args.run = 3;
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(n->times_called, 1); /* counters are no part of the key */
    args.variant = 1;
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(n->times_called, 2);
    args.mode = SW_EVAL;
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(n->times_called, 3);
    sw_param_freeze(n->f1.weight, 1);
    args.mode = SW_TRAIN;
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(n->times_called, 4);
    sw_param_freeze(n->f1.weight, 0); /* the first keys are still known */
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(n->times_called, 4);
}

SW_TEST("setting a knob never plans again")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 16);
    double first = net_train(exec, n, &b, 1);
    sw_knob_set(sw_optimizer_lr(n->opt, 0), 0.0f);
    const double again = net_train(exec, n, &b, 1); /* the first step did learn */
    CU_ASSERT(again < first);
    CU_ASSERT_EQUAL(net_train(exec, n, &b, 1), again); /* rate 0: nothing moves */
    sw_knob_set(n->factor, 0.5f);
    CU_ASSERT_DOUBLE_EQUAL(net_train(exec, n, &b, 1), 0.5 * again, 1e-6);
    CU_ASSERT_EQUAL(sw_knob_get(n->factor), 0.5f);
    CU_ASSERT_EQUAL(n->times_called, 1);
    CU_ASSERT_EQUAL(last_run(exec).warm, 1);
    sw_knob_set((sw_knob){n->model, UINT32_MAX}, 1.0f); /* no such knob: nothing happens */
    CU_ASSERT_EQUAL(sw_knob_get((sw_knob){n->model, UINT32_MAX}), 0.0f);
    CU_ASSERT_EQUAL(sw_optimizer_lr(n->opt, 1).index, UINT32_MAX);
}

SW_TEST("members of a shape share one program")
{
    sw_exec *exec = net_exec(NULL);
    const batch b = net_batch(false, 0, 16);
    net *members[5];
    for (int i = 0; i < 5; i++) {
        members[i] = net_new(false, NULL);
        OK(sw_model_ready(members[i]->model, exec, 3));
        net_train(exec, members[i], &b, 2);
    }
    CU_ASSERT_EQUAL(exec->n_keys, 5);
    CU_ASSERT_EQUAL(exec->n_frames, 1);
    CU_ASSERT_EQUAL(exec->frames[0]->refs, 6); /* five keys and the last run */
    for (int i = 1; i < 5; i++)
        CU_ASSERT(net_same(members[0]->model, members[i]->model));
}

/* Two models with the same bytes in all, one entry of the same shape and number: but it lies
 * elsewhere. */
static void use_third(sw_ctx *c, void *user)
{
    const sw_param *third = user;
    sw_output(c, "y", sw_add(c, sw_use(c, *third), sw_use(c, *third)));
}

SW_TEST("models of other layouts share no program")
{
    static const int64_t sizes[2][4] = {{16, 16, 16, 32}, {16, 32, 16, 16}};
    sw_exec *exec = net_exec(NULL);
    sw_param third;
    for (int k = 0; k < 4; k++) {
        sw_model *model = made_model("m");
        for (int e = 0; e < 4; e++) {
            char name[8], init[16];
            snprintf(name, sizeof name, "p%d", e);
            snprintf(init, sizeof init, "constant:%d", e + 1);
            const sw_param p =
                sw_param_new(model, name, SW_F32, SW_SHAPE(sizes[k % 2][e]), init);
            if (e == 2)
                third = p;
        }
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = use_third, .user = &third, .models = &model,
                                 .n_models = 1)));
        sw_array y;
        OK(sw_output_get(exec, "y", &y));
        CU_ASSERT_EQUAL(*(const float *)y.data, 6.0f);
    }
    CU_ASSERT_EQUAL(exec->n_frames, 2); /* a third and a fourth model share them again */
}

/* Padding of shapes, and dims past the rank, are no part of a trace. */
static void reshaped(sw_ctx *c, void *user)
{
    sw_shape s;
    memset(&s, *(const int *)user, sizeof s);
    s.rank = 2;
    s.dim[0] = 4;
    s.dim[1] = -1;
    sw_output(c, "y", sw_relu(c, sw_reshape(c, sw_input(c, 0), s)));
    s.dim[1] = 3;
    sw_output(c, "z", sw_randn(c, "z", s));
}

SW_TEST("traces are compared by what they mean")
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .checks = 1));
    static const float x[12] = {1};
    int dirt[] = {0, 0x55, 0x33};
    for (int i = 0; i < 3; i++) {
        sw_array in;
        memset(&in, dirt[i], sizeof in);
        in.dtype = SW_F32;
        in.shape.rank = 1;
        in.shape.dim[0] = 12;
        in.data = x;
        const sw_run_args args = SW_OPTS(sw_run_args, .fn = reshaped, .user = &dirt[0],
                                         .inputs = &in, .n_inputs = 1);
        dirt[0] = dirt[i];
        OK(sw_run(exec, &args));
    }
    CU_ASSERT_EQUAL(exec->n_keys, 1);
    CU_ASSERT_EQUAL(exec->n_frames, 1);
}

SW_TEST("the cache is bounded and forgets the least recently used")
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .max_programs = 3));
    net *n = net_new(false, NULL);
    sw_run_args args;
    batch b[5];
    for (int i = 0; i < 5; i++)
        b[i] = net_batch(false, 0, 4 + i);
    for (int i = 0; i < 4; i++) { /* 0, 1, 2, and 3 in place of 0 */
        args = net_args(n, &b[i]);
        OK(sw_run(exec, &args));
        if (i == 2) {
            args = net_args(n, &b[0]);
            OK(sw_run(exec, &args)); /* 0 is used again: 1 is the oldest now */
        }
    }
    CU_ASSERT_EQUAL(exec->n_keys, 3);
    CU_ASSERT_EQUAL(n->times_called, 4);
    args = net_args(n, &b[0]);
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(n->times_called, 4);
    args = net_args(n, &b[1]);
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(n->times_called, 5);
    for (int i = 0; i < 40; i++) {
        args = net_args(n, &b[i % 5]);
        OK(sw_run(exec, &args));
    }
    CU_ASSERT_EQUAL(exec->n_keys, 3);
    uint32_t alive = 0;
    for (uint32_t i = 0; i < exec->n_frames; i++)
        alive += exec->frames[i] != NULL;
    CU_ASSERT_EQUAL(alive, 3);
}

/* The last, smaller batch trains, evaluation has a program, and all share one arena as high as
 * the highest. */
SW_TEST("partial batches and evaluation have programs of their own")
{
    sw_exec *exec = net_exec(NULL);
    for (int image = 0; image < 2; image++) {
        net *n = net_new(image != 0, NULL);
        const batch full = net_batch(n->image, 0, 32), rest = net_batch(n->image, 32, 6);
        sw_run_args args = net_args(n, &full);
        double first = 0, last = 0;
        for (int epoch = 0; epoch < 30; epoch++) {
            args.inputs = full.in;
            OK(sw_run(exec, &args));
            last = net_metric(exec, "loss");
            first = epoch == 0 ? last : first;
            args.inputs = rest.in;
            OK(sw_run(exec, &args));
        }
        SW_CHECK(last < 0.7 * first, "%g, then %g", first, last);
        const void *trained = net_copy_bytes(n->model);
        args.mode = SW_EVAL;
        args.inputs = full.in;
        OK(sw_run(exec, &args));
        const double whole = net_metric(exec, "loss");
        CU_ASSERT(net_same_bytes(n->model, trained));
        CU_ASSERT_EQUAL(n->times_called, 3);
        /* In halves of other sizes: the mean of the parts. */
        const batch a = net_batch(n->image, 0, 31), b = net_batch(n->image, 31, 1);
        args.inputs = a.in;
        OK(sw_run(exec, &args));
        const double most = net_metric(exec, "loss");
        args.inputs = b.in;
        OK(sw_run(exec, &args));
        CU_ASSERT_DOUBLE_EQUAL((31 * most + net_metric(exec, "loss")) / 32, whole, 1e-5);
    }
    size_t highest = 0;
    for (uint32_t i = 0; i < exec->n_frames; i++)
        if (exec->frames[i] != NULL && exec->frames[i]->program->height > highest)
            highest = exec->frames[i]->program->height;
    CU_ASSERT_EQUAL(sw_arena_height(exec->arena), highest);
}

/* ---- purity ------------------------------------------------------------------------------ */

static void impure(sw_ctx *c, void *user)
{
    int *calls = user;
    sw_value x = sw_input(c, 0);
    sw_scope_begin(c, "block");
    x = ++*calls < 3 ? sw_tanh(c, x) : sw_sigmoid(c, x);
    sw_scope_end(c);
    sw_output(c, "y", x);
}

SW_TEST("with checks a trace that differs names the first op")
{
    static const float x[3] = {1, 2, 3};
    const sw_array in = {SW_F32, SW_SHAPE(3), x};
    int calls = 0;
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = impure, .user = &calls, .inputs = &in, .n_inputs = 1);
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .checks = 1));
    OK(sw_run(exec, &args));
    OK(sw_run(exec, &args));
    REFUSED(sw_run(exec, &args), SW_INVALID, "block tanh");
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "block sigmoid"));
    CU_ASSERT_EQUAL(calls, 3);

    /* A pure one passes, released updates included, and learns the same. */
    net *n =
        net_new(true, &SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f, .release = 1));
    net *plain = net_new(true, NULL);
    const batch b = net_batch(true, 0, 20);
    net_train(exec, n, &b, 4);
    net_train(net_exec(NULL), plain, &b, 4);
    CU_ASSERT_EQUAL(n->times_called, 4);
    OK(sw_model_ready(n->model, exec, 5));
    OK(sw_model_ready(plain->model, exec, 5));
    CU_ASSERT(net_same(n->model, plain->model));
    net_train(exec, n, &b, 4);
    net_train(net_exec(NULL), plain, &b, 4);
    CU_ASSERT(net_same(n->model, plain->model));
}

/* ---- plans ------------------------------------------------------------------------------- */

SW_TEST("a plan needs no data and is what runs, to the byte")
{
    for (int image = 0; image < 2; image++) {
        sw_exec *exec = net_exec(NULL);
        net *n = net_new(image != 0, NULL);
        batch b = net_batch(n->image, 0, 20);
        const batch data = b;
        b.in[0].data = b.in[1].data = NULL;
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_run_args args = net_args(n, &b);
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT(!n->model->ready);
        CU_ASSERT_PTR_NULL(n->model->arena);
        CU_ASSERT_EQUAL(plan.slot_bytes, plan.data_bytes);
        CU_ASSERT_EQUAL(plan.total_bytes,
                        plan.model_bytes + plan.arena_bytes + plan.data_bytes);
        CU_ASSERT(plan.lower_bound_bytes <= plan.arena_bytes && plan.n_ops > 10);
        CU_ASSERT(plan.immediate_bytes >= plan.arena_bytes);
        CU_ASSERT(plan.peak_op[0] != '\0' && plan.holders[0] != '\0');

        REFUSED(sw_run(exec, &args), SW_INVALID, "input 0 has no data");
        args = net_args(n, &data);
        args.data_bytes = 12345 * 64;
        OK(sw_run(exec, &args));
        const sw_run_info run = last_run(exec);
        CU_ASSERT_EQUAL(n->times_called, 1);
        CU_ASSERT_EQUAL(run.warm, 0);
        CU_ASSERT_EQUAL(run.peak_bytes, plan.peak_bytes);
        CU_ASSERT_EQUAL(run.arena_bytes, plan.arena_bytes);
        CU_ASSERT_EQUAL(run.model_bytes, plan.model_bytes);
        for (int p = 0; p < SW_PHASES; p++) {
            SW_CHECK(run.phase[p].peak_bytes == plan.phase[p].peak_bytes &&
                         run.phase[p].end_bytes == plan.phase[p].end_bytes,
                     "%s: %zu and %zu planned, %zu and %zu measured",
                     sw_phase_name((sw_phase)p), plan.phase[p].peak_bytes,
                     plan.phase[p].end_bytes, run.phase[p].peak_bytes, run.phase[p].end_bytes);
        }
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.data_bytes, 12345 * 64);
        args.immediate = 1;
        OK(sw_run(exec, &args));
        CU_ASSERT_EQUAL(last_run(exec).bump_bytes, plan.immediate_bytes);
    }
}

SW_TEST("a budget that is too small is refused before anything runs")
{
    net *n = net_new(true, NULL);
    const batch b = net_batch(true, 0, 20);
    const sw_run_args args = net_args(n, &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info), again = SW_OPTS(sw_plan_info);
    OK(sw_plan(net_exec(NULL), &args, &plan));
    const size_t whole = plan.model_bytes + plan.arena_bytes;
    for (int k = 0; k < 3; k++) {
        sw_budget *budget;
        OK(sw_budget_create(&budget, k == 0 ? whole - 64 : k == 1 ? 64 : whole));
        sw_exec *exec = NULL;
        OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .budget = budget, .no_recompute = 1)));
        net *m = net_new(true, NULL);
        sw_run_args mine = net_args(m, &b);
        if (k == 2) {
            OK(sw_plan(exec, &mine, &again));
            CU_ASSERT_EQUAL(sw_budget_used(budget), whole);
            OK(sw_run(exec, &mine));
            CU_ASSERT_EQUAL(sw_budget_used(budget), whole);
        } else {
            again = SW_OPTS(sw_plan_info);
            REFUSED(sw_plan(exec, &mine, &again), SW_NOMEM, "does not fit");
            char number[32];
            (void)sw_message(number, sizeof number, "%zu bytes are needed", whole);
            CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), number));
            CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), again.peak_op));
            CU_ASSERT_EQUAL(again.total_bytes, plan.total_bytes); /* filled then too */
            REFUSED(sw_run(exec, &mine), SW_NOMEM, "does not fit");
            CU_ASSERT(!m->model->ready || sw_budget_used(budget) <= whole - 64);
        }
        sw_model_destroy(m->model);
        m->model = NULL;
        CU_ASSERT_EQUAL(sw_budget_used(budget), k == 2 ? plan.arena_bytes : 0);
        sw_exec_destroy(exec);
        CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
        sw_budget_destroy(budget);
    }
}

SW_TEST("a plan after a run leaves what the run left")
{
    for (int now = 0; now < 2; now++) {
        sw_exec *exec = net_exec(NULL);
        net *n = net_new(false, NULL), *other = net_new(true, NULL);
        const batch b = net_batch(false, 0, 8), image = net_batch(true, 0, 30);
        sw_run_args args = net_args(n, &b);
        args.immediate = now;
        OK(sw_run(exec, &args));
        const double loss = net_metric(exec, "loss");
        sw_array was, is;
        OK(sw_output_get(exec, "logits", &was));
        float kept[8 * NET_CLASSES];
        memcpy(kept, was.data, sizeof kept);
        const sw_run_args next = net_args(other, &image);
        OK(sw_plan(exec, &next, &SW_OPTS(sw_plan_info)));
        CU_ASSERT_EQUAL(net_metric(exec, "loss"), loss);
        OK(sw_output_get(exec, "logits", &is));
        CU_ASSERT_PTR_EQUAL(is.data, was.data);
        CU_ASSERT_EQUAL(memcmp(kept, is.data, sizeof kept), 0);
    }
}

/* The only key is forgotten by a plan; what ran last can still be asked. */
SW_TEST("an evicted program keeps its last figures")
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .max_programs = 1));
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8), smaller = net_batch(false, 0, 5);
    sw_run_args args = net_args(n, &b);
    OK(sw_run(exec, &args));
    const double loss = net_metric(exec, "loss");
    for (int i = 0; i < 3; i++) {
        const sw_run_args next = net_args(n, i % 2 == 0 ? &smaller : &b);
        OK(sw_plan(exec, &next, &SW_OPTS(sw_plan_info)));
        CU_ASSERT_EQUAL(net_metric(exec, "loss"), loss);
    }
    args = net_args(n, &smaller);
    OK(sw_run(exec, &args));
    CU_ASSERT_NOT_EQUAL(net_metric(exec, "loss"), loss);
    CU_ASSERT_EQUAL(exec->n_keys, 1);
}

static sw_budget *budget_of(size_t bytes)
{
    sw_budget *budget = made_budget(bytes);
    return budget;
}

/* A plan that does not fit takes nothing, so that something smaller still fits. */
SW_TEST("a refused plan gives back what it took")
{
    const batch images = net_batch(true, 0, NET_BATCH), rows = net_batch(false, 0, 2);
    const sw_run_args like = net_args(net_new(true, NULL), &images);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(net_exec(NULL), &like, &plan));
    sw_budget *budget = budget_of(plan.model_bytes + plan.arena_bytes - 64);
    net *big = net_new(true, NULL), *small = net_new(false, NULL);
    const sw_run_args much = net_args(big, &images), little = net_args(small, &rows);
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .budget = budget, .no_recompute = 1));
    REFUSED(sw_plan(exec, &much, &plan), SW_NOMEM, "does not fit");
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    OK(sw_plan(exec, &little, &plan));
    CU_ASSERT_EQUAL(sw_budget_used(budget), plan.model_bytes + plan.arena_bytes);
    REFUSED(sw_plan(exec, &much, &plan), SW_NOMEM, "of them taken");
    OK(sw_run(exec, &little));
}

SW_TEST("immediate mode is planned as high as its bump")
{
    const batch b = net_batch(true, 0, 20);
    const sw_run_args like = net_args(net_new(true, NULL), &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(net_exec(NULL), &like, &plan));
    CU_ASSERT(plan.immediate_bytes > plan.arena_bytes);
    sw_exec_opts opts =
        SW_OPTS(sw_exec_opts, .budget = budget_of(plan.model_bytes + plan.immediate_bytes));
    const sw_exec_opts less = SW_OPTS(
        sw_exec_opts, .budget = budget_of(plan.model_bytes + plan.immediate_bytes - 64));
    sw_run_args args = net_args(net_new(true, NULL), &b);
    args.immediate = 1;
    char number[32];
    (void)sw_message(number, sizeof number, "arena %zu", plan.immediate_bytes);
    REFUSED(sw_plan(net_exec(&less), &args, &plan), SW_NOMEM, number);
    sw_exec *exec = net_exec(&opts);
    OK(sw_plan(exec, &args, &plan));
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(sw_budget_used(opts.budget), plan.model_bytes + plan.immediate_bytes);
}

static void sum_input(sw_ctx *c, void *user)
{
    const sw_param *p = user;
    sw_output(c, "sum", sw_sum(c, sw_use(c, *p), 0));
    sw_output(c, "x", sw_sum(c, sw_input(c, 0), 0));
}

SW_TEST("models and inputs can hold the peak")
{
    sw_model *model = made_model("m");
    const sw_param p = sw_param_new(model, "table", SW_F32, SW_SHAPE(5000), "zeros");
    static const float x[3000];
    const sw_array in = {SW_F32, SW_SHAPE(3000), x};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = sum_input, .user = (void *)(uintptr_t)&p, .models = &model,
                .n_models = 1, .inputs = &in, .n_inputs = 1);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(net_exec(NULL), &args, &plan));
    const char *wanted = "table (parameter) 20,032 bytes, input0 (input) 12,032 bytes, ";
    SW_CHECK(strncmp(plan.holders, wanted, strlen(wanted)) == 0, "%s", plan.holders);
}
