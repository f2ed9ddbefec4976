/* Misuse of the public functions: numbers that name nothing, objects that are gone, destruction
 * in a step function, and step functions that longjmp leaves. */
#include "alloc/base/handle.h"
#include "alloc/base/poison.h"
#include "tests/runtime/nets.h"
#include <pthread.h>
#include <setjmp.h>

SW_TESTS("misuse")

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *opt;
    sw_budget *budget;
    sw_dataset *data;
    sw_loader *loader;
    sw_profile *profile;
    sw_linear layer;
    sw_knob knob;
} things;

static float some[4];
static const sw_shape four = {1, {4}};

static void nothing(sw_ctx *c, void *user)
{
}

static things make_things(void)
{
    things t;
    memset(&t, 0, sizeof t);
    OK(sw_budget_create(&t.budget, 1 << 20));
    OK(sw_exec_create(&t.exec, &SW_OPTS(sw_exec_opts)));
    OK(sw_model_create(&t.model, "things"));
    t.layer = sw_linear_new(t.model, "l", 4, 4);
    t.knob = sw_knob_new(t.model, "factor", 1.0f);
    OK(sw_optimizer_create(&t.opt, t.model, &SW_OPTS(sw_optimizer_opts, .kind = "sgd")));
    OK(sw_model_ready(t.model, t.exec, 1));
    OK(sw_dataset_synthetic(&t.data, 4, 1));
    OK(sw_loader_create(&t.loader, t.data, &SW_OPTS(sw_loader_opts, .batch = 2)));
    OK(sw_profile_create(&t.profile, &SW_OPTS(sw_profile_opts)));
    return t;
}

static void end_things(const things *t)
{
    sw_loader_destroy(t->loader);
    sw_dataset_destroy(t->data);
    sw_model_destroy(t->model);
    OK(sw_profile_destroy(t->profile));
    sw_exec_destroy(t->exec);
    sw_budget_destroy(t->budget);
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* Numbers and lists that name nothing, each in a step function; NULL for pointers is tested in
 * tests/callbacks/test_null.c. */
static void name_nothing(sw_ctx *c, void *user)
{
    static sw_optimizer *const no_optimizers[1];
    const sw_value scalar = sw_mean(c, sw_rand(c, "x", four), 0);
    const int *which = user;
    switch (*which) {
    case 0:
        (void)sw_input(c, 0);
        break;
    case 1:
        (void)sw_full(c, SW_SHAPE(-1), 1.0f);
        break;
    case 2:
        (void)sw_concat(c, NULL, 2, 0);
        break;
    case 3:
        (void)sw_concat(c, NULL, 2, -1);
        break;
    case 4:
        (void)sw_stack(c, NULL, 0, 0);
        break;
    case 5:
        sw_scope_end(c);
        break;
    default:
        sw_backward(c, scalar, no_optimizers, 1);
    }
}

SW_TEST("numbers that name nothing are refused")
{
    sw_exec *exec = net_exec(NULL);
    for (int k = 0; k < 7; k++)
        for (int immediate = 0; immediate < 2; immediate++) {
            const sw_run_args a = SW_OPTS(sw_run_args, .fn = name_nothing, .user = &k,
                                          .immediate = immediate, .variant = (uint64_t)k);
            SW_CHECK(sw_run(exec, &a) != SW_OK && sw_last_error()[0] != 0, "case %d", k);
        }
    CU_ASSERT_PTR_NULL(sw_op_at(UINT32_MAX));
    CU_ASSERT_PTR_NULL(sw_vertex_kind_name((sw_vertex_kind)99));
    CU_ASSERT_PTR_NULL(sw_mutation_kind_name((sw_mutation_kind)99));
    CU_ASSERT_PTR_NULL(sw_fitness_kind_name((sw_fitness_kind)99));
}

/* ---- gone -------------------------------------------------------------------------------- */

SW_TEST("what is gone is refused by name")
{
    if (SW_SANITIZED)
        SW_SKIP("a sanitizer finds it");
    things t = make_things();
    const sw_run_args a =
        SW_OPTS(sw_run_args, .fn = nothing, .models = &t.model, .n_models = 1);
    const sw_array *inputs;
    const sw_exec_opts under = SW_OPTS(sw_exec_opts, .budget = t.budget);
    sw_exec *other;
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    int n;
    OK(sw_run(t.exec, &a));
    sw_model_destroy(t.model);
    sw_model_destroy(t.model);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "sw_model_destroy: the model was destroyed");
    REFUSED(sw_run(t.exec, &a), SW_INVALID, "sw_run: model 0 was destroyed");
    REFUSED(sw_model_ready(t.model, t.exec, 1), SW_INVALID, "the model was destroyed");
    REFUSED(sw_param_read(t.layer.bias, some, sizeof some), SW_INVALID, "was destroyed");
    sw_knob_set(t.knob, 2.0f);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "was destroyed"));
    CU_ASSERT_EQUAL(sw_knob_get(t.knob), 0.0f);
    CU_ASSERT_STRING_EQUAL(sw_param_name(t.layer.bias), "");
    REFUSED(sw_optimizer_skipped(t.opt, NULL, NULL), SW_INVALID, "optimizer was destroyed");
    sw_dataset_destroy(t.data); /* before its loader */
    sw_dataset_destroy(t.data);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "data set was destroyed"));
    sw_dataset_describe(t.data, &info);
    CU_ASSERT_EQUAL(info.n, 0);
    OK(sw_loader_epoch(t.loader, 0));
    OK(sw_loader_next(t.loader, &inputs, &n));
    CU_ASSERT_EQUAL(n, 2);
    sw_loader_destroy(t.loader);
    sw_loader_destroy(t.loader);
    REFUSED(sw_loader_next(t.loader, &inputs, &n), SW_INVALID, "loader was destroyed");
    OK(sw_exec_create(&other, &under));
    sw_budget_destroy(t.budget); /* before its exec */
    sw_budget_destroy(t.budget);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "budget was destroyed"));
    sw_exec_destroy(other);
    REFUSED(sw_exec_create(&other, &under), SW_INVALID, "budget was destroyed");
    OK(sw_exec_set_profile(t.exec, t.profile));
    OK(sw_profile_destroy(t.profile));
    REFUSED(sw_profile_destroy(t.profile), SW_INVALID, "profile was destroyed");
    const sw_run_args alone = SW_OPTS(sw_run_args, .fn = nothing);
    REFUSED(sw_run(t.exec, &alone), SW_INVALID, "the exec's profile was destroyed");
    sw_exec_destroy(t.exec);
    sw_exec_destroy(t.exec);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "sw_exec_destroy: the exec was destroyed");
    REFUSED(sw_run(t.exec, &alone), SW_INVALID, "sw_run: the exec was destroyed");
    REFUSED(sw_run((sw_exec *)(void *)some, &alone), SW_INVALID, "not point to any exec");
}

/* The memory of an object is the last that is used again; then it has another generation. */
SW_TEST("the memory of what is gone is used again last")
{
    if (SW_SANITIZED)
        SW_SKIP("a sanitizer finds it");
    sw_model *first, *m = NULL;
    OK(sw_model_create(&first, "first"));
    const uint32_t generation = first->handle.generation;
    sw_model_destroy(first);
    int n = 0;
    do {
        CU_ASSERT_EQUAL(sw_param_count(first), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "was destroyed"));
        OK(sw_model_create(&m, "next"));
        if (m != first)
            sw_model_destroy(m);
    } while (m != first && ++n < 100000); /* all that tests before this one have destroyed */
    CU_ASSERT_PTR_EQUAL_FATAL(m, first);
    CU_ASSERT(n >= SW_HANDLE_KEPT - 1);
    CU_ASSERT(!sw_handle_is(first, SW_HANDLE_MODEL, generation));
    sw_model_destroy(m);
}

/* ---- in a step function ------------------------------------------------------------------ */

typedef struct {
    things *t;
    int what;
} ending;

static void destroy_one(sw_ctx *c, void *user)
{
    const ending *e = user;
    switch (e->what) {
    case 0:
        sw_exec_destroy(e->t->exec);
        break;
    case 1:
        sw_model_destroy(e->t->model);
        break;
    case 2:
        sw_loader_destroy(e->t->loader);
        break;
    default:
        (void)!sw_profile_destroy(e->t->profile);
    }
}

SW_TEST("nothing is destroyed in a step function")
{
    things t = make_things();
    for (int what = 0; what < 4; what++)
        for (int immediate = 0; immediate < 2; immediate++) {
            ending e = {&t, what};
            const sw_run_args a =
                SW_OPTS(sw_run_args, .fn = destroy_one, .user = &e, .models = &t.model,
                        .n_models = 1, .immediate = immediate, .variant = (uint64_t)what);
            REFUSED(sw_run(t.exec, &a), SW_INVALID, "must be destroyed in a step function");
        }
    OK(sw_run(t.exec, &SW_OPTS(sw_run_args, .fn = nothing)));
    OK(sw_loader_epoch(t.loader, 0));
    OK(sw_profile_flush(t.profile));
    OK(sw_param_read(t.layer.bias, some, sizeof some));
    end_things(&t);
}

static sw_ctx *kept;
static void keep_ctx(sw_ctx *c, void *user)
{
    kept = c;
}

SW_TEST("a ctx ends with its step function")
{
    sw_exec *exec = net_exec(NULL);
    const sw_run_args a = SW_OPTS(sw_run_args, .fn = keep_ctx);
    OK(sw_run(exec, &a));
    CU_ASSERT_EQUAL(sw_ctx_status(kept), SW_STALE);
    CU_ASSERT_EQUAL(sw_rand(kept, "x", four).id, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "after the end of its step function"));
    OK(sw_run(exec, &a));
}

/* ---- longjmp ----------------------------------------------------------------------------- */

static jmp_buf out;
static bool jumps;

static void jump_out(sw_ctx *c, void *user)
{
    const net *n = user;
    (void)sw_use(c, n->f1.bias);
    if (jumps)
        longjmp(out, 1);
}

/* Calls from a frame that is deeper than that of sw_run. */
__attribute__((noinline)) static sw_status run_deeper(sw_exec *exec, const sw_run_args *a)
{
    volatile char room[4096];
    room[0] = 1;
    const sw_status status = sw_run(exec, a);
    return room[0] == 1 ? status : SW_IO; /* used after the call: the frame stays */
}

SW_TEST("a step function may be left by longjmp")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    sw_run_args a =
        SW_OPTS(sw_run_args, .fn = jump_out, .user = n, .models = &n->model, .n_models = 1);
    for (volatile int immediate = 0; immediate < 2; immediate++) {
        a.immediate = immediate;
        const uint32_t fp = swi_fp_enter();
        swi_fp_leave(fp);
        jumps = true;
        if (setjmp(out) == 0)
            (void)!sw_run(exec, &a);
        jumps = false;
        REFUSED(run_deeper(exec, &a), SW_BUSY, "or that longjmp left");
        OK(sw_run(exec, &a));
        const uint32_t now = swi_fp_enter();
        swi_fp_leave(now);
        CU_ASSERT_EQUAL(now, fp);
        OK(sw_run(exec, &a));
    }
    jumps = true;
    if (setjmp(out) == 0)
        (void)!sw_run(exec, &a);
    /* Both are destroyed after it, by the test's end. */
}

/* A call from a deeper frame, where that of sw_run was. */
__attribute__((noinline)) static sw_status set_deeper(sw_es *es)
{
    volatile char room[4096];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
    const sw_status status = sw_es_generation_set(es, 1);
    return room[0] == 0 ? status : SW_IO;
}

SW_TEST("the noise of a run that longjmp left is free")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    sw_es *es;
    OK(sw_es_create(&es, n->opt, &SW_OPTS(sw_es_opts, .directions = 2)));
    sw_run_args a = SW_OPTS(sw_run_args, .fn = jump_out, .user = n, .models = &n->model,
                            .n_models = 1, .es = es);
    for (volatile int deeper = 1; deeper >= 0; deeper--) {
        jumps = true;
        if (setjmp(out) == 0)
            (void)!sw_run(exec, &a);
        jumps = false;
        if (deeper) /* taken for the step function itself */
            REFUSED(set_deeper(es), SW_BUSY, "the evolution strategy is in use by a run");
        OK(sw_es_generation_set(es, 2));
    }
    sw_es_destroy(es);
}

/* ---- whose thread ------------------------------------------------------------------------ */

typedef struct {
    sw_exec *exec;
    const sw_run_args *args;
    sw_status inner, foreign;
    char inner_text[300], foreign_text[300];
} callers;

static void *call_foreign(void *arg)
{
    callers *c = arg;
    c->foreign = sw_run(c->exec, c->args);
    snprintf(c->foreign_text, sizeof c->foreign_text, "%s", sw_last_error());
    return NULL;
}

static void call_again(sw_ctx *ctx, void *user)
{
    callers *c = user;
    pthread_t thread;
    c->inner = sw_run(c->exec, c->args);
    snprintf(c->inner_text, sizeof c->inner_text, "%s", sw_last_error());
    if (pthread_create(&thread, NULL, call_foreign, c) == 0)
        pthread_join(thread, NULL);
}

SW_TEST("another thread is said of another thread alone")
{
    callers c = {.exec = net_exec(NULL)};
    const sw_run_args a = SW_OPTS(sw_run_args, .fn = call_again, .user = &c);
    c.args = &a;
    OK(sw_run(c.exec, &a));
    CU_ASSERT_EQUAL(c.inner, SW_BUSY);
    CU_ASSERT_EQUAL(c.foreign, SW_BUSY);
    SW_CHECK(strstr(c.inner_text, "this thread") != NULL, "%s", c.inner_text);
    SW_CHECK(strstr(c.inner_text, "another") == NULL, "%s", c.inner_text);
    SW_CHECK(strstr(c.foreign_text, "another thread") != NULL, "%s", c.foreign_text);
}

SW_TEST("declarations after the layout change nothing")
{
    things t = make_things();
    size_t before, after;
    OK(sw_model_bytes(t.model, &before));
    CU_ASSERT_EQUAL(sw_param_new(t.model, "late", SW_F32, four, "ones").index, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "after the layout was fixed"));
    CU_ASSERT_EQUAL(sw_knob_new(t.model, "late", 1.0f).index, UINT32_MAX);
    CU_ASSERT_EQUAL(sw_param_new(t.model, "late", SW_U8, four, "?").index, 0);
    (void)sw_conv2d_new(t.model, "late", 3, -1, 0);
    OK(sw_model_bytes(t.model, &after));
    CU_ASSERT_EQUAL(before, after);
    CU_ASSERT_EQUAL(sw_param_find(t.model, "late").index, 0);
    OK(sw_run(t.exec, &SW_OPTS(sw_run_args, .fn = nothing, .models = &t.model, .n_models = 1)));
    OK(sw_model_ready(t.model, t.exec, 2));
    end_things(&t);
}
