/* Runs: the same bits however they run, several models and optimizers, what stays and what is
 * lost. */
#include "alloc/base/error.h"
#include "tests/runtime/nets.h"
#include "alloc/base/mem.h"
#include "tests/support/heap_sweep.h"
#include <pthread.h>

SW_TESTS("runs")

static const sw_optimizer_opts adam = {.size = sizeof adam, .kind = "adam", .lr = 0.01f};
static const sw_optimizer_opts release = {
    .size = sizeof release, .kind = "adam", .lr = 0.01f, .release = 1};

/* Five steps of a fresh net from seed 21; its last logits too. */
static net *trained(sw_exec *exec, bool image, const sw_optimizer_opts *opts, bool immediate,
                    bool clip, float *logits)
{
    net *n = net_new(image, opts);
    const batch b = net_batch(image, 0, 33);
    n->clip = clip;
    OK(sw_model_ready(n->model, exec, 21));
    sw_run_args args = net_args(n, &b);
    args.immediate = immediate;
    for (int i = 0; i < 5; i++) {
        args.step = (uint64_t)i;
        OK(sw_run(exec, &args));
    }
    sw_array y;
    OK(sw_output_get(exec, "logits", &y));
    CU_ASSERT(y.dtype == SW_F32 && y.shape.rank == 2 && y.shape.dim[0] == 33);
    memcpy(logits, y.data, 33 * NET_CLASSES * sizeof *logits);
    return n;
}

/* Planned, immediate, without in-place results, with 1 to 4 threads, against planned with
 * one. */
static void compare_ways(bool image, bool clip)
{
    float wanted[33 * NET_CLASSES], got[33 * NET_CLASSES];
    const net *base = trained(net_exec(NULL), image, &adam, false, clip, wanted);
    for (int threads = 1; threads <= 4; threads++)
        for (int how = 0; how < 3; how++) {
            const sw_exec_opts opts =
                SW_OPTS(sw_exec_opts, .threads = threads, .no_inplace = how == 2);
            const net *n = trained(net_exec(&opts), image, &adam, how == 1, clip, got);
            SW_CHECK(net_same(base->model, n->model), "%d threads, way %d", threads, how);
            CU_ASSERT_EQUAL(memcmp(wanted, got, sizeof got), 0);
        }
}
SW_TEST("threads, immediate mode and in-place results change no bits: mlp")
{
    compare_ways(false, false);
}
SW_TEST("... mlp, clipped")
{
    compare_ways(false, true);
}
SW_TEST("... convolutions")
{
    compare_ways(true, false);
}
SW_TEST("... convolutions, clipped")
{
    compare_ways(true, true);
}

/* Bits are promised for one instruction set; between two the same net differs by rounding. */
SW_TEST("older instruction sets train too, with the same bits for every number of threads")
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    float best[33 * NET_CLASSES], one[33 * NET_CLASSES], three[33 * NET_CLASSES];
    (void)trained(net_exec(NULL), true, &adam, false, false, best);
    for (int i = 0; i < 3; i++) {
        const sw_exec_opts a = SW_OPTS(sw_exec_opts, .isa = names[i]);
        const sw_exec_opts b = SW_OPTS(sw_exec_opts, .isa = names[i], .threads = 3);
        sw_exec *exec = NULL;
        const sw_status status = sw_exec_create(&exec, &a);
        sw_exec_destroy(exec);
        if (status == SW_UNSUPPORTED)
            continue; /* not this machine */
        const net *first = trained(net_exec(&a), true, &adam, false, false, one);
        const net *second = trained(net_exec(&b), true, &adam, false, false, three);
        CU_ASSERT(net_same(first->model, second->model));
        CU_ASSERT_EQUAL(memcmp(one, three, sizeof one), 0);
        double off = 0.0;
        for (int k = 0; k < 33 * NET_CLASSES; k++)
            off = fmax(off, fabs((double)one[k] - (double)best[k]));
        SW_CHECK(off < 1e-3, "%s: off by %g", names[i], off);
    }
}

SW_TEST("released updates change no bits and end gradients early")
{
    for (int image = 0; image < 2; image++) {
        float wanted[33 * NET_CLASSES], got[33 * NET_CLASSES];
        sw_exec *exec = net_exec(NULL);
        sw_run_info after = SW_OPTS(sw_run_info), at_once = SW_OPTS(sw_run_info);
        const net *a = trained(exec, image != 0, &adam, false, false, wanted);
        OK(sw_last_run(exec, &after));
        const net *b = trained(exec, image != 0, &release, false, false, got);
        OK(sw_last_run(exec, &at_once));
        CU_ASSERT(net_same(a->model, b->model));
        CU_ASSERT_EQUAL(memcmp(wanted, got, sizeof got), 0);
        SW_CHECK(at_once.phase[SW_BACKWARD].end_bytes < after.phase[SW_BACKWARD].end_bytes,
                 "%zu with release, %zu without", at_once.phase[SW_BACKWARD].end_bytes,
                 after.phase[SW_BACKWARD].end_bytes);
        const net *c = trained(exec, image != 0, &release, true, false, got);
        CU_ASSERT(net_same(a->model, c->model));
    }
}

static void clipped_release(sw_ctx *c, void *user)
{
    net *n = user;
    const sw_value y = sw_apply_linear(c, n->f1, sw_input(c, 0));
    sw_backward(c, sw_mean(c, y, 0), &n->opt, 1);
    sw_clip_norm(c, n->opt, n->max_norm);
    sw_update(c, n->opt);
}

SW_TEST("release excludes what needs all gradients at once")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, &release);
    const batch b = net_batch(false, 0, 4);
    sw_run_args args = net_args(n, &b);
    args.fn = clipped_release;
    REFUSED(sw_run(exec, &args), SW_INVALID, "release");
    sw_model *model = made_model("m");
    (void)sw_linear_new(model, "f", 2, 2);
    const sw_optimizer_opts both =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .release = 1, .keep_gradients = 1);
    sw_optimizer *o = NULL;
    REFUSED(sw_optimizer_create(&o, model, &both), SW_INVALID, "exclude each other");
    CU_ASSERT_PTR_NULL(o);
}

/* ---- outputs ----------------------------------------------------------------------------- */

static void leave_input(sw_ctx *c, void *user)
{
    const sw_value x = sw_input(c, 0);
    sw_output(c, "whole", x);
    sw_output(c, "part", sw_slice(c, x, 1, 1, 2));
    sw_output(c, "twice", sw_scale_by(c, x, 2.0f));
}
static void leave_nothing(sw_ctx *c, void *user)
{
    sw_metric(c, "mean", sw_mean(c, sw_input(c, 0), 0));
}

SW_TEST("outputs last until the next run")
{
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    const sw_array in = {SW_F32, SW_SHAPE(2, 3), x};
    for (int now = 0; now < 2; now++) {
        sw_exec *exec = net_exec(NULL);
        sw_run_args args = SW_OPTS(sw_run_args, .fn = leave_input, .inputs = &in, .n_inputs = 1,
                                   .immediate = now);
        sw_array y;
        double mean;
        REFUSED(sw_output_get(exec, "whole", &y), SW_INVALID, "nothing has run");
        REFUSED(sw_metric_get(exec, "mean", &mean), SW_INVALID, "nothing has run");
        OK(sw_run(exec, &args));
        OK(sw_output_get(exec, "whole", &y));
        CU_ASSERT_EQUAL(memcmp(y.data, x, sizeof x), 0);
        CU_ASSERT(y.data != x);
        OK(sw_output_get(exec, "part", &y));
        CU_ASSERT(y.shape.rank == 2 && y.shape.dim[0] == 2 && y.shape.dim[1] == 2);
        const float part[4] = {2, 3, 5, 6};
        CU_ASSERT_EQUAL(memcmp(y.data, part, sizeof part), 0);
        OK(sw_output_get(exec, "twice", &y));
        CU_ASSERT_EQUAL(((const float *)y.data)[5], 12.0f);
        REFUSED(sw_output_get(exec, "none", &y), SW_INVALID, "'none'");
        REFUSED(sw_metric_get(exec, "mean", &mean), SW_INVALID, "'mean'");
        args.fn = leave_nothing;
        OK(sw_run(exec, &args));
        CU_ASSERT(sw_output_get(exec, "whole", &y) != SW_OK);
        OK(sw_metric_get(exec, "mean", &mean));
        CU_ASSERT_EQUAL(mean, 3.5);
    }
}

/* ---- several models and optimizers ------------------------------------------------------- */

typedef struct {
    sw_model *a, *b;
    sw_param w, u, v, frozen;
    sw_optimizer *first, *second, *other;
} pair;

/* loss = sum(x * w * u * v) with w, u of model a under two optimizers, v of model b. */
static void pair_step(sw_ctx *c, void *user)
{
    pair *p = user;
    const sw_value wu = sw_mul(c, sw_use(c, p->w), sw_use(c, p->u));
    const sw_value vf = sw_mul(c, sw_use(c, p->v), sw_use(c, p->frozen));
    const sw_value loss = sw_sum(c, sw_mul(c, sw_mul(c, wu, vf), sw_input(c, 0)), 0);
    sw_optimizer *const all[] = {p->first, p->second, p->other};
    sw_backward(c, loss, all, 3);
    for (int i = 0; i < 3; i++)
        sw_update(c, all[i]);
    sw_metric(c, "loss", loss);
}
static void first_only(sw_ctx *c, void *user)
{
    pair *p = user;
    const sw_value wu = sw_mul(c, sw_use(c, p->w), sw_use(c, p->u));
    const sw_value loss =
        sw_sum(c, sw_mul(c, sw_mul(c, wu, sw_use(c, p->v)), sw_input(c, 0)), 0);
    sw_backward(c, loss, &p->first, 1);
    sw_update(c, p->first);
}

static float value_of(sw_param param)
{
    float x[2] = {NAN, NAN};
    OK(sw_param_read(param, x, sizeof x));
    CU_ASSERT_EQUAL(x[0], x[1]);
    return x[0];
}

SW_TEST("several models and optimizers in one step function")
{
    static const float ones[2] = {1, 1};
    static pair p;
    sw_exec *exec = net_exec(NULL);
    memset(&p, 0, sizeof p);
    p.a = made_model("a");
    p.b = made_model("b");
    p.w = sw_param_new(p.a, "w", SW_F32, SW_SHAPE(2), "constant:2");
    p.u = sw_param_new(p.a, "u", SW_F32, SW_SHAPE(2), "constant:3");
    p.v = sw_param_new(p.b, "v", SW_F32, SW_SHAPE(2), "constant:5");
    p.frozen = sw_param_new(p.b, "frozen", SW_F32, SW_SHAPE(2), "constant:7");
    sw_param_freeze(p.frozen, 1);
    const sw_optimizer_opts one =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f, .params = &p.w, .n_params = 1);
    const sw_optimizer_opts two =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.001f, .params = &p.u, .n_params = 1);
    const sw_optimizer_opts rest = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.1f);
    OK(sw_optimizer_create(&p.first, p.a, &one));
    OK(sw_optimizer_create(&p.second, p.a, &two));
    OK(sw_optimizer_create(&p.other, p.b, &rest));
    sw_model *const models[] = {p.a, p.b};
    const sw_array in = {SW_F32, SW_SHAPE(2), ones};
    sw_run_args args = SW_OPTS(sw_run_args, .fn = pair_step, .user = &p, .models = models,
                               .n_models = 2, .inputs = &in, .n_inputs = 1);
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(net_metric(exec, "loss"), 420.0);
    CU_ASSERT_EQUAL(value_of(p.w), 2.0f - 0.01f * 105.0f);
    CU_ASSERT_EQUAL(value_of(p.u), 3.0f - 0.001f * 70.0f);
    CU_ASSERT_EQUAL(value_of(p.v), 5.0f - 0.1f * 42.0f);
    CU_ASSERT_EQUAL(value_of(p.frozen), 7.0f);
    const float u = value_of(p.u), v = value_of(p.v), w = value_of(p.w);
    args.fn = first_only; /* the others' gradients are pruned */
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(value_of(p.w), w - 0.01f * (u * v));
    CU_ASSERT_EQUAL(value_of(p.u), u);
    CU_ASSERT_EQUAL(value_of(p.v), v);
}

SW_TEST("frozen parameters stay, cost no gradient and keep the layout")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(true, NULL);
    const batch b = net_batch(true, 0, 20);
    float before[36], after[36];
    net_train(exec, n, &b, 2);
    sw_plan_info all = SW_OPTS(sw_plan_info), fewer = SW_OPTS(sw_plan_info);
    const sw_run_args args = net_args(n, &b);
    OK(sw_plan(exec, &args, &all));
    sw_param_freeze(n->c1.weight, 1);
    sw_param_freeze(n->c1.bias, 1);
    const uint64_t layout = sw_model_layout_hash(n->model);
    OK(sw_param_read(n->c1.weight, before, sizeof before));
    net_train(exec, n, &b, 3);
    OK(sw_param_read(n->c1.weight, after, sizeof after));
    CU_ASSERT_EQUAL(memcmp(before, after, sizeof after), 0);
    CU_ASSERT_EQUAL(sw_model_layout_hash(n->model), layout);
    OK(sw_plan(exec, &args, &fewer));
    CU_ASSERT(fewer.n_ops < all.n_ops);
    sw_param_freeze(n->c1.weight, 0);
    net_train(exec, n, &b, 1);
    OK(sw_param_read(n->c1.weight, after, sizeof after));
    CU_ASSERT(memcmp(before, after, sizeof after) != 0);
}

/* ---- failures ---------------------------------------------------------------------------- */

typedef struct {
    net *n;
    uint32_t op; /* fails when told to */
    bool late;   /* after the update */
} failing;

static bool fail_now;
static sw_status sometimes(const sw_launch *l)
{
    if (fail_now)
        SW_FAIL(SW_DEVICE, "the %d bytes of scratch are cursed", (int)l->scratch_bytes);
    memcpy(l->out[0].ptr, l->in[0].ptr, sw_type_bytes(&l->in[0].type));
    return SW_OK;
}
static sw_status same_type(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    out[0] = in[0];
    return SW_OK;
}

static void failing_step(sw_ctx *c, void *user)
{
    failing *f = user;
    sw_value x = sw_input(c, 0);
    if (!f->late)
        x = sw_op_apply(c, f->op, &x, 1, NULL);
    const sw_value logits =
        sw_apply_linear(c, f->n->f2, sw_tanh(c, sw_apply_linear(c, f->n->f1, x)));
    const sw_value loss = sw_softmax_ce(c, logits, sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &f->n->opt, 1);
    sw_update(c, f->n->opt);
    if (f->late)
        sw_output(c, "late", sw_op_apply(c, f->op, &x, 1, NULL));
}

SW_TEST("a run that fails before an update changes nothing, after it damages the model")
{
    static uint32_t op;
    const sw_op_desc desc = SW_OPTS(sw_op_desc, .name = "test.sometimes", .n_in = 1, .n_out = 1,
                                    .infer = same_type, .forward = sometimes);
    if (op == 0)
        OK(sw_op_register(&desc, &op));
    for (int kind = 0; kind < 4; kind++) {
        sw_exec *exec = net_exec(NULL);
        failing f = {net_new(false, NULL), op, (kind & 1) != 0};
        net *other = net_new(false, NULL);
        const batch b = net_batch(false, 0, 9);
        sw_run_args args = net_args(f.n, &b);
        args.fn = failing_step;
        args.user = &f;
        args.immediate = (kind & 2) != 0;
        fail_now = false;
        OK(sw_run(exec, &args));
        OK(sw_model_ready(other->model, exec, 2));
        const void *before = net_copy_bytes(f.n->model);
        OK(sw_model_copy(other->model, f.n->model));
        fail_now = true;
        REFUSED(sw_run(exec, &args), SW_DEVICE,
                "test.sometimes: the 0 bytes of scratch are cursed");
        fail_now = false;
        if (!f.late) {
            CU_ASSERT(net_same_bytes(f.n->model, before));
            OK(sw_run(exec, &args));
            continue;
        }
        SW_CHECK(strstr(sw_last_error(), "must be restored") != NULL, "%s", sw_last_error());
        REFUSED(sw_run(exec, &args), SW_STALE, "restore it");
        REFUSED(sw_model_copy(other->model, f.n->model), SW_STALE, "restore it");
        OK(sw_model_copy(f.n->model, other->model));
        CU_ASSERT(net_same_bytes(f.n->model, before));
        OK(sw_run(exec, &args));
        fail_now = true;
        CU_ASSERT_EQUAL(sw_run(exec, &args), SW_DEVICE);
        fail_now = false;
        OK(sw_model_ready(f.n->model, exec, 1)); /* the other way to restore it */
        OK(sw_run(exec, &args));
    }
}

SW_TEST("labels out of range fail the run")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    batch b = net_batch(false, 0, 4);
    const uint8_t labels[4] = {1, 2, NET_CLASSES, 0};
    net_train(exec, n, &b, 1);
    const void *before = net_copy_bytes(n->model);
    b.in[1].data = labels;
    const sw_run_args args = net_args(n, &b);
    REFUSED(sw_run(exec, &args), SW_INVALID, "softmax_ce");
    CU_ASSERT(net_same_bytes(n->model, before));
}

/* ---- threads ----------------------------------------------------------------------------- */

typedef struct {
    sw_exec *exec;
    sw_run_args args;
    sw_status status;
} foreign;

static void *run_foreign(void *user)
{
    foreign *f = user;
    f->status = sw_run(f->exec, &f->args);
    return NULL;
}

/* Another thread tries to use the exec, then the model, from inside a step function. */
static foreign attempt[2];
static void meddled(sw_ctx *c, void *user)
{
    net_step(c, user);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_foreign, &attempt[i]) == 0)
            pthread_join(thread, NULL);
    }
}

SW_TEST("execs and models belong to one thread at a time")
{
    sw_exec *exec = net_exec(NULL), *second = net_exec(NULL);
    net *n = net_new(false, NULL), *m = net_new(false, NULL);
    const batch b = net_batch(false, 0, 4);
    sw_run_args args = net_args(n, &b);
    args.fn = meddled;
    attempt[0] = (foreign){exec, net_args(m, &b), SW_OK};   /* busy exec, free model */
    attempt[1] = (foreign){second, net_args(n, &b), SW_OK}; /* free exec, busy model */
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(attempt[0].status, SW_BUSY);
    CU_ASSERT_EQUAL(attempt[1].status, SW_BUSY);
    run_foreign(&attempt[0]);
    run_foreign(&attempt[1]);
    CU_ASSERT_EQUAL(attempt[0].status, SW_OK);
    CU_ASSERT_EQUAL(attempt[1].status, SW_OK);
}

static void only_forward(sw_ctx *c, void *user)
{
    sw_output(c, "y", sw_mul(c, sw_use(c, *(sw_param *)user), sw_input(c, 0)));
}

/* Its first values are by the exec's seed, and the first run says so, no other. */
SW_TEST("a model that a run makes ready is reported, once")
{
    static const float ones[2] = {1, 1};
    const sw_array in = {SW_F32, SW_SHAPE(2), ones};
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .seed = 77));
    for (int immediate = 0; immediate < 2; immediate++) {
        float by_run[2], by_call[2];
        sw_model *model = NULL, *same = NULL;
        OK(sw_model_create(&model, "net"));
        OK(sw_model_create(&same, "net"));
        sw_param w = sw_param_new(model, "w", SW_F32, SW_SHAPE(2), "normal:1");
        const sw_param v = sw_param_new(same, "w", SW_F32, SW_SHAPE(2), "normal:1");
        sw_run_args args = SW_OPTS(sw_run_args, .fn = only_forward, .user = &w,
                                   .models = &model, .n_models = 1, .inputs = &in,
                                   .n_inputs = 1, .mode = SW_EVAL, .immediate = immediate);
        swi_note_set("%s", "");
        OK(sw_run(exec, &args));
        SW_CHECK(strcmp(sw_last_note(), "model net: sw_model_ready was not called: its first "
                                        "values are by the exec's seed, 77") == 0,
                 "%s", sw_last_note());
        swi_note_set("%s", "");
        OK(sw_run(exec, &args));
        CU_ASSERT_STRING_EQUAL(sw_last_note(), "");
        OK(sw_model_ready(same, exec, 77));
        OK(sw_param_read(w, by_run, sizeof by_run));
        OK(sw_param_read(v, by_call, sizeof by_call));
        CU_ASSERT_EQUAL(memcmp(by_run, by_call, sizeof by_run), 0);
        sw_model_destroy(model);
        sw_model_destroy(same);
    }
}

/* ---- faults ------------------------------------------------------------------------------ */

/* Every allocation on the way to a first run fails once, and once from there on: the status
 * says so, nothing leaks, and the same run works afterwards. */
/* One whole life: exec, model, optimizer, two runs, a plan, an evaluation. */
typedef struct {
    sw_exec *exec;
    net n;
} life;

static sw_status declare(life *l, bool image)
{
    net *n = &l->n;
    SW_TRY(sw_model_create(&n->model, "net"));
    n->image = image;
    if (image) {
        n->c1 = sw_conv2d_new(n->model, "c1", 1, 4, 3);
        n->c2 = sw_conv2d_new(n->model, "c2", 4, 6, 3);
        n->f1 = sw_linear_new(n->model, "f1", 24, NET_CLASSES);
    } else {
        n->f1 = sw_linear_new(n->model, "f1", NET_PIXELS, 24);
        n->f2 = sw_linear_new(n->model, "f2", 24, NET_CLASSES);
    }
    n->factor = sw_knob_new(n->model, "factor", 1.0f);
    n->max_norm = sw_knob_new(n->model, "max_norm", 0.1f);
    n->clip = image;
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = !image);
    return sw_optimizer_create(&n->opt, n->model, &opts);
}

static sw_status live(life *l, bool image, bool immediate)
{
    SW_TRY(sw_exec_create(&l->exec, &SW_OPTS(sw_exec_opts, .seed = 3, .op_clocks = 1)));
    SW_TRY(declare(l, image));
    const batch b = net_batch(image, 0, 17);
    sw_run_args args = net_args(&l->n, &b);
    args.immediate = immediate;
    SW_TRY(sw_run(l->exec, &args));
    SW_TRY(sw_run(l->exec, &args));
    args.mode = SW_EVAL;
    return sw_run(l->exec, &args);
}

static void end(life *l)
{
    sw_model_destroy(l->n.model);
    sw_exec_destroy(l->exec);
}

static void sweep(bool image, bool immediate, sw_fault_mode mode)
{
    life whole = {.exec = NULL};
    OK(live(&whole, image, immediate));
    const void *wanted = net_copy_bytes(whole.n.model);
    end(&whole);
    sw_sites sites = {SW_FAULT_MEMORY, mode};
    while (sw_sites_next(&sites)) {
        life l = {.exec = NULL};
        /* A call may fail (fewer addresses are reserved, say): the result is the same. */
        if (SW_AT_SITE(&sites, live(&l, image, immediate)) == SW_OK)
            CU_ASSERT(net_same_bytes(l.n.model, wanted));
        end(&l);
    }
    CU_ASSERT(sites.k > 20 && sites.k <= 2000);
}

SW_TEST("every allocation of a planned mlp fails once")
{
    sweep(false, false, SW_FAULT_ONCE);
}
SW_TEST("... and from there on")
{
    sweep(false, false, SW_FAULT_FROM);
}
SW_TEST("... of an immediate mlp")
{
    sweep(false, true, SW_FAULT_ONCE);
}
SW_TEST("... of convolutions")
{
    sweep(true, false, SW_FAULT_ONCE);
}

/* The same exec and model after a refusal: what the k-th failure left does not disturb a
 * retry. */
SW_TEST("a refused run can be tried again")
{
    life whole = {.exec = NULL};
    OK(live(&whole, false, false));
    const void *wanted = net_copy_bytes(whole.n.model);
    end(&whole);
    sw_sites sites = {SW_FAULT_MEMORY};
    while (sw_sites_next(&sites)) {
        life l = {.exec = NULL};
        OK(sw_exec_create(&l.exec, &SW_OPTS(sw_exec_opts, .seed = 3)));
        OK(declare(&l, false));
        const batch b = net_batch(false, 0, 17);
        sw_run_args args = net_args(&l.n, &b);
        if (SW_AT_SITE(&sites, sw_run(l.exec, &args)) != SW_OK)
            OK(sw_run(l.exec, &args));
        OK(sw_run(l.exec, &args));
        CU_ASSERT(net_same_bytes(l.n.model, wanted));
        end(&l);
    }
    CU_ASSERT(sites.k <= 500);
}
