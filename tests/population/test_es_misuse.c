/* Evolution strategies from outside: what is refused, by name, and changes nothing; failures of
 * memory. */
#include "alloc/base/poison.h"
#include "tests/population/es_nets.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("es misuse")

#define FIVE() SW_OPTS(sw_es_opts, .sigma = 0.1f, .directions = 5, .slice = 2, .seed = 9)

/* ---- options ----------------------------------------------------------------------------- */

static void refused_opts(const sw_es_opts *o, const char *part)
{
    es_net *t = es_net_new(ES_MLP, NULL, NULL);
    sw_es *es = (sw_es *)(void *)t;
    REFUSED(sw_es_create(&es, t->opt, o), SW_INVALID, part);
    CU_ASSERT_PTR_EQUAL(es, t);
}

#define WITH(part, ...)                                                                        \
    refused_opts(                                                                              \
        &(sw_es_opts){.size = sizeof(sw_es_opts), .directions = 5, .slice = 2, __VA_ARGS__},   \
        part)

SW_TEST("options that cannot be are named")
{
    WITH("strategy 'cma'", .strategy = "cma");
    WITH("noise 'white'", .noise = "white");
    WITH("distribution 'cauchy'", .distribution = "cauchy");
    WITH("shaping 'best'", .shaping = "best");
    WITH("rank", .rank = -1);
    WITH("rank", .noise = "iid", .rank = 1);
    WITH("in_share", .noise = "sparse", .in_share = -0.5f);
    WITH("out_share", .noise = "sparse", .out_share = 1.5f);
    WITH("in_share", .noise = "sparse", .in_share = NAN);
    WITH("in_share", .noise = "iid", .in_share = 0.5f);
    WITH("sigma", .sigma = -0.1f);
    WITH("sigma", .sigma = NAN);
    WITH("sigma", .sigma = INFINITY);
    WITH("l1", .l1 = -1.0f);
    WITH("l2", .l2 = INFINITY);
    WITH("top", .top = 2);
    WITH("top", .strategy = "ars", .top = 6);
    WITH("snes", .strategy = "snes", .noise = "low-rank");
    WITH("snes", .strategy = "snes", .shaping = "ranks");
    WITH("ars", .strategy = "ars", .shaping = "raw");
    WITH("sigma_lr", .sigma_lr = 0.5f);
    sw_es_opts o = FIVE();
    o.directions = 0;
    refused_opts(&o, "directions");
    o.directions = UINT32_MAX;
    refused_opts(&o, "directions");
    o = FIVE();
    o.slice = 6;
    refused_opts(&o, "slice");
    o = FIVE();
    o.directions = 1u << 31;
    o.repeats = 3;
    refused_opts(&o, "evaluations");
}

SW_TEST("creation is refused")
{
    const sw_es_opts o = FIVE();
    es_net *t = es_net_new(ES_MLP, NULL, NULL);
    sw_es *es = NULL;
    OK(sw_model_ready(t->model, net_exec(NULL), 1));
    REFUSED(sw_es_create(&es, t->opt, &o), SW_INVALID, "after the layout was fixed");
    CU_ASSERT_PTR_NULL(es);
    es_net *two = es_net_new(ES_MLP, &o, NULL);
    REFUSED(sw_es_create(&es, two->opt, &o), SW_INVALID, "has an evolution strategy already");
    CU_ASSERT_PTR_NULL(es);
}

/* ---- handles ----------------------------------------------------------------------------- */

typedef struct {
    es_net *net;
    sw_exec *exec;
    es_batch batch;
    sw_run_args args;
} scene;

static scene scene_of(const sw_es_opts *o)
{
    scene s = {.net = es_net_new(ES_MLP, o, NULL), .exec = net_exec(NULL)};
    OK(sw_model_ready(s.net->model, s.exec, 1));
    s.batch = es_batch_new(ES_MLP, (int64_t)sw_es_rows(s.net->es), 3);
    s.args = ES_ARGS(s.net, &s.batch, SW_EVAL);
    s.args.inputs = NULL; /* set where it is used: the struct moves */
    return s;
}

/* Every call with a strategy that is not there. */
static void refuse_all(sw_es *es, scene *s)
{
    sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    const float some[4] = {0};
    REFUSED(sw_es_generation_set(es, 1), SW_INVALID, "sw_es_generation_set");
    REFUSED(sw_es_ask(es, 0, 0, &of), SW_INVALID, "sw_es_ask");
    REFUSED(sw_es_tell(es, 0, 0, 1.0f), SW_INVALID, "sw_es_tell");
    REFUSED(sw_es_tell_slice(es, 0, some, 4), SW_INVALID, "sw_es_tell_slice");
    REFUSED(sw_es_evaluate(es, s->exec, &s->args, 0, "loss"), SW_INVALID, "sw_es_evaluate");
    REFUSED(sw_es_step(es, s->exec, NULL), SW_INVALID, "sw_es_step");
    REFUSED(sw_es_plan(es, s->exec, &plan), SW_INVALID, "sw_es_plan");
    REFUSED(sw_es_member(es, 0, 1, s->net->model), SW_INVALID, "sw_es_member");
    CU_ASSERT_EQUAL(sw_es_sigma(es).index, UINT32_MAX);
    CU_ASSERT_EQUAL(sw_es_generation(es), 0);
    CU_ASSERT_EQUAL(sw_es_slices(es), 0);
    CU_ASSERT_EQUAL(sw_es_rows(es), 0);
    CU_ASSERT_EQUAL(sw_es_bytes(es), 0);
    sw_es_destroy(es);
}

SW_TEST("invalid handles are refused")
{
    scene s = scene_of(&FIVE());
    s.args.inputs = s.batch.in;
    refuse_all((sw_es *)(void *)s.exec, &s);
    if (SW_SANITIZED) /* they find what was destroyed themselves */
        return;
    sw_es *gone = s.net->es;
    sw_es_destroy(gone);
    s.net->es = NULL;
    refuse_all(gone, &s);
    sw_run_args args = s.args;
    args.es = gone;
    REFUSED(sw_run(s.exec, &args), SW_INVALID, "sw_run");
}

/* ---- ask, tell, evaluate, step ----------------------------------------------------------- */

SW_TEST("numbers out of range are refused")
{
    scene s = scene_of(&FIVE());
    sw_es *es = s.net->es;
    sw_es_evaluation of = SW_OPTS(sw_es_evaluation, .repeat = 77);
    const float some[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    REFUSED(sw_es_generation_set(es, 1ull << 32), SW_INVALID, "4294967295");
    REFUSED(sw_es_ask(es, 3, 0, &of), SW_INVALID, "below 3 (got 3)");
    REFUSED(sw_es_ask(es, 0, 4, &of), SW_INVALID, "below 4 (got 4)");
    CU_ASSERT_EQUAL(of.repeat, 77);
    REFUSED(sw_es_tell(es, 5, 0, 1.0f), SW_INVALID, "below 5 and 2 (got 5 and 0)");
    REFUSED(sw_es_tell(es, 0, 2, 1.0f), SW_INVALID, "got 0 and 2");
    REFUSED(sw_es_tell_slice(es, 3, some, 4), SW_INVALID, "below 3");
    REFUSED(sw_es_tell_slice(es, 0, some, 3), SW_INVALID, "must be 4 numbers (got 3)");
    REFUSED(sw_es_tell_slice(es, 0, NULL, 4), SW_INVALID, "4 numbers");
    REFUSED(sw_es_step(es, s.exec, NULL), SW_INVALID, "10 of 10 evaluations");
}

SW_TEST("missing evaluations are named")
{
    scene s = scene_of(&FIVE());
    sw_es *es = s.net->es;
    sw_es_info info = SW_OPTS(sw_es_info);
    for (uint32_t d = 0; d < 5; d++)
        for (uint32_t r = 0; r < 2; r++)
            if (d != 3 || r != 1)
                OK(sw_es_tell(es, d, r, 8.0f));
    REFUSED(sw_es_step(es, s.exec, &info), SW_INVALID,
            "1 of 10 evaluations have no fitness yet, the first is repeat 1 of direction 3");
    OK(sw_es_tell(es, 0, 0, 5.0f)); /* again: the second counts */
    OK(sw_es_tell(es, 3, 1, 6.0f));
    OK(sw_es_step(es, s.exec, &info));
    CU_ASSERT_EQUAL(info.generation, 0);
    CU_ASSERT_EQUAL(info.evaluations, 10);
    CU_ASSERT_DOUBLE_EQUAL(info.best, 5.0, 0.0);
    CU_ASSERT_DOUBLE_EQUAL(info.worst, 8.0, 0.0);
    CU_ASSERT_EQUAL(sw_es_generation(es), 1);
    REFUSED(sw_es_step(es, s.exec, &info), SW_INVALID, "10 of 10");
}

SW_TEST("evaluations that cannot be are refused")
{
    scene s = scene_of(&FIVE());
    sw_es *es = s.net->es;
    es_net *stranger = es_net_new(ES_MLP, NULL, NULL);
    s.args.inputs = s.batch.in;
    REFUSED(sw_es_evaluate(es, s.exec, &s.args, 3, "loss"), SW_INVALID, "below 3");
    REFUSED(sw_es_evaluate(es, s.exec, &s.args, 0, "score"), SW_INVALID, "score");
    sw_run_args args = ES_ARGS(stranger, &s.batch, SW_EVAL);
    REFUSED(sw_es_evaluate(es, s.exec, &args, 0, "loss"), SW_INVALID, "'mlp' among them");
    const es_batch odd = es_batch_rows(&s.batch, 0, 3);
    args = ES_ARGS(s.net, &odd, SW_EVAL);
    REFUSED(sw_es_evaluate(es, s.exec, &args, 0, "loss"), SW_INVALID, "multiple");
    args = ES_ARGS(s.net, &s.batch, SW_EVAL);
    args.es = es;
    args.es_slice = 3;
    REFUSED(sw_run(s.exec, &args), SW_INVALID, "es_slice must be below 3");
    REFUSED(sw_es_step(es, s.exec, NULL), SW_INVALID, "10 of 10");
    OK(sw_es_evaluate(es, s.exec, &s.args, 0, "loss"));
    REFUSED(sw_es_step(es, s.exec, NULL), SW_INVALID, "6 of 10");
}

SW_TEST("a sigma that cannot be is refused")
{
    static const float bad[] = {0.0f, -0.1f};
    scene s = scene_of(&FIVE());
    s.args.inputs = s.batch.in;
    for (uint32_t d = 0; d < 5; d++)
        for (uint32_t r = 0; r < 2; r++)
            OK(sw_es_tell(s.net->es, d, r, (float)d));
    for (int i = 0; i < 2; i++) {
        sw_knob_set(sw_es_sigma(s.net->es), bad[i]);
        REFUSED(sw_es_evaluate(s.net->es, s.exec, &s.args, 0, "loss"), SW_INVALID, "sigma");
        REFUSED(sw_es_step(s.net->es, s.exec, NULL), SW_INVALID, "sigma");
    }
    sw_knob_set(sw_es_sigma(s.net->es), 0.1f);
    OK(sw_es_step(s.net->es, s.exec, NULL));
}

/* ---- step functions ---------------------------------------------------------------------- */

enum { OPERAND, MATRIX_PRODUCT, RESHAPED, SLICED, TWO, CALLS, SHORT };
typedef struct {
    int what;
    sw_model *model;
    sw_optimizer *opt;
    sw_es *es;
    sw_exec *exec;
    sw_param square, vector;
    sw_status inside[2];
} odd;

static void odd_step(sw_ctx *ctx, void *user)
{
    odd *t = user;
    sw_value x = sw_input(ctx, 0);
    const sw_value w = sw_use(ctx, t->square), v = sw_use(ctx, t->vector), none = {0, 0};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = odd_step, .models = &t->model, .n_models = 1);
    switch (t->what) {
    case OPERAND:
        x = sw_mul(ctx, x, sw_relu(ctx, v));
        break;
    case MATRIX_PRODUCT:
        x = sw_matmul(ctx, x, w);
        break;
    case RESHAPED:
        x = sw_linear_op(ctx, x, sw_reshape(ctx, w, SW_SHAPE(2, 8)), none);
        break;
    case SLICED:
        x = sw_linear_op(ctx, x, sw_slice(ctx, w, 0, 0, 2), none);
        break;
    case TWO:
        x = sw_add(ctx, x, sw_mul(ctx, v, v));
        break;
    case CALLS:
        t->inside[0] = sw_es_evaluate(t->es, t->exec, &args, 0, "loss");
        t->inside[1] = sw_es_step(t->es, t->exec, NULL);
        sw_es_destroy(t->es);
        break;
    default:
        x = sw_slice(ctx, x, 0, 0, 3);
    }
    sw_metric(ctx, "loss", sw_mean(ctx, sw_mul(ctx, x, x), 0));
    if (t->what == SHORT)
        sw_metric(ctx, "ce", sw_mse(ctx, x, x));
}

static sw_status run_odd(odd *t, int what)
{
    static const float zeros[16];
    const sw_array in = {SW_F32, SW_SHAPE(4, 4), zeros};
    const sw_run_args args = SW_OPTS(
        sw_run_args, .fn = odd_step, .user = t, .models = &t->model, .n_models = 1,
        .inputs = &in, .n_inputs = 1, .mode = SW_EVAL, .variant = (uint64_t)what, .es = t->es);
    t->what = what;
    return sw_run(t->exec, &args);
}

SW_TEST("uses without noise name op and parameter")
{
    odd t = {.exec = net_exec(NULL)};
    t.model = made_model("odd");
    t.square = sw_param_new(t.model, "square", SW_F32, SW_SHAPE(4, 4), "ones");
    t.vector = sw_param_new(t.model, "vector", SW_F32, SW_SHAPE(4), "ones");
    OK(sw_optimizer_create(&t.opt, t.model, &SW_OPTS(sw_optimizer_opts, .kind = "sgd")));
    OK(sw_es_create(&t.es, t.opt, &FIVE()));
    AFTER(sw_es_destroy, t.es);
    REFUSED(run_odd(&t, OPERAND), SW_UNSUPPORTED, "relu reads the parameter 'vector'");
    REFUSED(run_odd(&t, MATRIX_PRODUCT), SW_UNSUPPORTED, "matmul reads the parameter 'square'");
    REFUSED(run_odd(&t, RESHAPED), SW_UNSUPPORTED, "'square' (4, 4) is used as (2, 8)");
    REFUSED(run_odd(&t, SLICED), SW_UNSUPPORTED, "'square'");
    REFUSED(run_odd(&t, TWO), SW_UNSUPPORTED, "mul reads the parameter 'vector'");
    REFUSED(run_odd(&t, SHORT), SW_INVALID, "multiple of the 4 evaluations");
    for (uint32_t d = 0; d < 5; d++)
        for (uint32_t r = 0; r < 2; r++)
            OK(sw_es_tell(t.es, d, r, 1.0f));
    REFUSED(run_odd(&t, CALLS), SW_INVALID, "nothing must be destroyed in a step function");
    CU_ASSERT_EQUAL(sw_es_rows(t.es), 4);
    for (int i = 0; i < 2; i++)
        SW_CHECK(t.inside[i] == SW_BUSY, "call %d: %s", i, sw_status_name(t.inside[i]));
    sw_param_freeze(t.vector, 1);
    OK(run_odd(&t, OPERAND));
}

/* ---- failures of memory ------------------------------------------------------------------ */

typedef struct {
    sw_budget *budget;
    sw_exec *exec;
    es_net t;
} life;

/* Create, evaluate, step. */
static sw_status live(life *l, const es_batch *b)
{
    es_net *t = &l->t;
    SW_TRY(sw_budget_create(&l->budget, 1 << 20));
    const sw_exec_opts with = SW_OPTS(sw_exec_opts, .threads = 1, .budget = l->budget);
    SW_TRY(sw_exec_create(&l->exec, &with));
    SW_TRY(sw_model_create(&t->model, "vectors"));
    t->kind = ES_VECTORS;
    t->gain = sw_param_new(t->model, "gain", SW_F32, SW_SHAPE(11), "ones");
    t->shift = sw_param_new(t->model, "shift", SW_F32, SW_SHAPE(11), "zeros");
    t->f1 = sw_linear_new(t->model, "f1", 11, 5);
    SW_TRY(sw_optimizer_create(&t->opt, t->model, &SW_OPTS(sw_optimizer_opts, .kind = "adam")));
    SW_TRY(sw_es_create(&t->es, t->opt, &FIVE()));
    SW_TRY(sw_model_ready(t->model, l->exec, 1));
    for (uint32_t s = 0; s < sw_es_slices(t->es); s++)
        SW_TRY(sw_es_evaluate(t->es, l->exec, &ES_ARGS(t, b, SW_EVAL), s, "loss"));
    return sw_es_step(t->es, l->exec, NULL);
}

static void end_life(life *l)
{
    sw_es_destroy(l->t.es);
    sw_model_destroy(l->t.model);
    sw_exec_destroy(l->exec);
    sw_budget_destroy(l->budget);
}

/* Some calls may fail (fewer addresses are reserved): then the numbers are the same. */
SW_TEST("memory may fail anywhere, and from anywhere on")
{
    static unsigned char wanted[4096];
    es_batch b = es_batch_new(ES_VECTORS, 4, 3);
    life whole = {.exec = NULL};
    OK(live(&whole, &b));
    CU_ASSERT_FATAL(whole.t.model->bytes <= sizeof wanted);
    memcpy(wanted, whole.t.model->base, whole.t.model->bytes);
    end_life(&whole);
    for (int from = 0; from < 2; from++) {
        sw_sites sites = {SW_FAULT_MEMORY, from ? SW_FAULT_FROM : SW_FAULT_ONCE};
        while (sw_sites_next(&sites)) {
            life l = {.exec = NULL};
            if (SW_AT_SITE(&sites, live(&l, &b)) == SW_OK)
                CU_ASSERT_EQUAL(memcmp(wanted, l.t.model->base, l.t.model->bytes), 0);
            end_life(&l);
        }
        CU_ASSERT(sites.k > 50 && sites.k <= 2000);
    }
}

/* Reported numbers stay for another try, and the step is that of one that did not fail. */
SW_TEST("a step that fails can be tried again")
{
    static unsigned char wanted[1 << 14];
    bool reached = true;
    for (uint64_t k = 0; reached && k < 2000; k++) {
        const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
        life l = {.t = {.kind = ES_MLP}};
        OK(sw_exec_create(&l.exec, &SW_OPTS(sw_exec_opts)));
        OK(sw_model_create(&l.t.model, "again"));
        l.t.f1 = sw_linear_new(l.t.model, "f1", 7, 5);
        OK(sw_optimizer_create(&l.t.opt, l.t.model, &sgd));
        OK(sw_es_create(&l.t.es, l.t.opt, &FIVE()));
        OK(sw_model_ready(l.t.model, l.exec, 1));
        for (uint32_t d = 0; d < 5; d++)
            for (uint32_t r = 0; r < 2; r++)
                OK(sw_es_tell(l.t.es, d, r, (float)(d * 3 % 4 + r)));
        sw_fault_plan(SW_FAULT_MEMORY, k - 1, k == 0 ? SW_FAULT_OFF : SW_FAULT_ONCE);
        const sw_status got = sw_es_step(l.t.es, l.exec, NULL);
        reached = k == 0 || sw_fault_calls(SW_FAULT_MEMORY) > k - 1;
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        if (got != SW_OK) {
            CU_ASSERT_EQUAL(got, SW_NOMEM);
            CU_ASSERT_EQUAL(sw_es_generation(l.t.es), 0);
            SW_CHECK(sw_es_step(l.t.es, l.exec, NULL) == SW_OK, "site %llu, again: %s",
                     (unsigned long long)k, sw_last_error());
        }
        CU_ASSERT_EQUAL(sw_es_generation(l.t.es), 1);
        CU_ASSERT_FATAL(l.t.model->bytes <= sizeof wanted);
        if (k == 0)
            memcpy(wanted, l.t.model->base, l.t.model->bytes);
        CU_ASSERT_EQUAL(memcmp(wanted, l.t.model->base, l.t.model->bytes), 0);
        end_life(&l);
    }
    CU_ASSERT(!reached);
}
