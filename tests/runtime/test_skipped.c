/* Values that are not finite are never used: updates are skipped, counted, and reported. */
#include "tests/runtime/optimizer_nets.h"

SW_TESTS("skipped")

typedef enum { GOOD, BAD_GRADIENT, BAD_LOSS } kind;
#define BAD 3 /* the parameter with a gradient that is not finite */

/* A factor of 0 is 0 in the loss; but sqrt(0) has the slope infinity, and 0 times that is NaN
 * in the parameter's gradient. */
static void gradient_step(sw_ctx *c, void *user)
{
    on_net *n = user;
    sw_value loss = {0, 0};
    for (int i = 0; i < ON_PARAMS; i++) {
        const sw_value w = sw_use(c, n->w[i]);
        const sw_value part =
            sw_add(c, sw_mul(c, sw_sum(c, sw_mul(c, w, w), 0), sw_input(c, 0)),
                   sw_sqrt(c, sw_mul(c, sw_sum(c, sw_mul(c, w, w), 0), sw_input(c, 1 + i))));
        loss = i == 0 ? part : sw_add(c, loss, part);
    }
    sw_metric(c, "loss", loss);
    if (!n->no_update || n->accumulate)
        sw_backward(c, loss, &n->opt, 1);
    if (n->accumulate)
        sw_accumulate(c, n->opt);
    if (!n->no_update)
        sw_update(c, n->opt);
}

static sw_status run(sw_exec *exec, on_net *n, kind what, int step, bool immediate)
{
    n->x = what == BAD_LOSS ? INFINITY : 0.5f;
    for (int i = 0; i < ON_PARAMS; i++)
        n->factor[i] = 1.0f + (float)(step + i) * 0.25f;
    if (what == BAD_GRADIENT)
        n->factor[BAD] = 0.0f;
    sw_run_args args = on_args(n);
    args.fn = gradient_step;
    args.immediate = immediate;
    return sw_run(exec, &args);
}

static void counted(const on_net *n, uint64_t all, uint64_t row)
{
    uint64_t total = 99, now = 99;
    OK(sw_optimizer_skipped(n->opt, &total, &now));
    SW_CHECK(total == all && now == row, "%d skipped, %d in a row; not %d, %d", (int)total,
             (int)now, (int)all, (int)row);
}

/* All but the counts: parameters, moments, sums, steps, knobs. */
static bool same_but_counts(const on_net *n, const unsigned char *before)
{
    const swi_entry *counts = &n->model->entries[n->opt->counts];
    const size_t behind = counts->offset + counts->bytes;
    return memcmp(n->model->base, before, counts->offset) == 0 &&
           memcmp(n->model->base + behind, before + behind, n->model->bytes - behind) == 0;
}

/* Updates that wait until after backward are skipped as a whole: the model is as if the run had
 * never been, and the next run does what it would have done. */
SW_TEST("an update is skipped as a whole")
{
    sw_exec *exec = net_exec(NULL);
    for (size_t k = 0; k < ON_KINDS; k++)
        for (int way = 0; way < 8; way++) {
            on_end();
            const bool immediate = way & 1, after = way & 2, keep = way & 4;
            sw_optimizer_opts opts = on_opts[k];
            opts.update = after ? SW_UPDATE_AFTER : SW_UPDATE_DEFAULT;
            opts.keep_gradients = keep;
            on_net n, never;
            on_start(&n, &opts);
            on_start(&never, &opts);
            OK(sw_model_ready(n.model, exec, 7));
            OK(sw_model_ready(never.model, exec, 7));
            OK(run(exec, &n, GOOD, 0, immediate));
            OK(run(exec, &never, GOOD, 0, immediate));
            for (int what = BAD_GRADIENT; what <= BAD_LOSS; what++) {
                const unsigned char *before = on_bytes(&n);
                OK(run(exec, &n, (kind)what, 1, immediate));
                CU_ASSERT(what == BAD_LOSS || isfinite(net_metric(exec, "loss")));
                if (!keep) /* gradients lie in the model */
                    SW_CHECK(same_but_counts(&n, before), "%s %zu, way %d, %d", opts.kind, k,
                             way, what);
                counted(&n, (uint64_t)what, (uint64_t)what);
            }
            OK(run(exec, &n, GOOD, 2, immediate));
            OK(run(exec, &never, GOOD, 2, immediate));
            counted(&n, 2, 0);
            if (!on_same_params(&n, &never, opts.kind))
                return;
        }
}

/* Released updates are skipped each for itself; of a loss that is not finite all of them. */
SW_TEST("released updates are skipped one by one")
{
    sw_exec *exec = net_exec(NULL);
    for (size_t k = 0; k < ON_KINDS; k++)
        for (int immediate = 0; immediate < 2; immediate++) {
            on_end();
            sw_optimizer_opts opts = on_opts[k];
            opts.update = SW_UPDATE_RELEASE;
            on_net n;
            on_start(&n, &opts);
            OK(run(exec, &n, GOOD, 0, immediate));
            const unsigned char *before = on_bytes(&n);
            OK(run(exec, &n, BAD_LOSS, 1, immediate));
            CU_ASSERT(same_but_counts(&n, before));
            counted(&n, 1, 1);
            OK(run(exec, &n, BAD_GRADIENT, 1, immediate));
            counted(&n, 2, 2);
            for (int i = 0; i < ON_PARAMS; i++) {
                const swi_entry *e = &n.model->entries[n.w[i].index];
                const bool same =
                    memcmp(n.model->base + e->offset, before + e->offset, e->bytes) == 0;
                SW_CHECK(same == (i == BAD), "%s %zu, parameter %d", opts.kind, k, i);
                for (int s = 0; i == BAD && s < SWI_MAX_STATE && e->state[s] != SWI_NONE; s++) {
                    const swi_entry *state = &n.model->entries[e->state[s]];
                    CU_ASSERT_EQUAL(memcmp(n.model->base + state->offset,
                                           before + state->offset, state->bytes),
                                    0);
                }
            }
            OK(run(exec, &n, GOOD, 2, immediate));
            counted(&n, 2, 0);
        }
}

SW_TEST("too many in a row are reported")
{
    for (int way = 0; way < 6; way++) {
        const bool immediate = way & 1;
        on_net n;
        sw_exec *exec = net_exec(NULL);
        on_start(&n, &SW_OPTS(sw_optimizer_opts, .kind = "adam", .update = way / 2,
                              .max_skipped = 3));
        OK(run(exec, &n, GOOD, 0, immediate));
        for (int i = 0; i < 2; i++)
            OK(run(exec, &n, BAD_GRADIENT, 1, immediate));
        OK(run(exec, &n, GOOD, 0, immediate));
        for (int i = 0; i < 2; i++)
            OK(run(exec, &n, BAD_GRADIENT, 1, immediate));
        REFUSED(run(exec, &n, BAD_GRADIENT, 1, immediate), SW_INVALID,
                "3 updates in a row were skipped (5 in all), the last because the gradient of "
                "'p3.w' is not finite");
        counted(&n, 5, 3);
        REFUSED(run(exec, &n, BAD_LOSS, 1, immediate), SW_INVALID, "the loss is not finite");
        CU_ASSERT(!isfinite(net_metric(exec, "loss"))); /* the run has ended as usual */
        CU_ASSERT_FALSE(n.model->damaged);
        n.no_update = 1;
        OK(run(exec, &n, GOOD, 1, immediate)); /* without an update there is nothing to tell */
        n.no_update = 0;
        OK(run(exec, &n, GOOD, 1, immediate));
        counted(&n, 6, 0);
        for (int i = 0; i < ON_PARAMS; i++) {
            static float w[257 * 130];
            const size_t bytes = n.model->entries[n.w[i].index].bytes;
            OK(sw_param_read(n.w[i], w, bytes));
            for (size_t j = 0; j < bytes / sizeof *w; j++)
                CU_ASSERT(isfinite(w[j]));
        }
        OK(sw_model_ready(n.model, exec, 1));
        counted(&n, 0, 0);
    }
}

SW_TEST("ten are the default, any number can be had")
{
    sw_exec *exec = net_exec(NULL);
    on_net ten, never;
    sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f);
    on_start(&ten, &opts);
    opts.max_skipped = -1;
    on_start(&never, &opts);
    for (int i = 1; i <= 12; i++) {
        OK(run(exec, &never, BAD_LOSS, 0, false));
        if (i < 10)
            OK(run(exec, &ten, BAD_LOSS, 0, false));
        else
            REFUSED(run(exec, &ten, BAD_LOSS, 0, false), SW_INVALID, "in a row were skipped");
    }
    counted(&never, 12, 12);
    counted(&ten, 12, 12);
}

/* Without the check numbers go where they go: what the tests above see is the check. */
SW_TEST("nothing is skipped without the check")
{
    sw_exec *exec = net_exec(NULL);
    on_net n;
    on_start(&n, &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .no_check = 1));
    OK(run(exec, &n, BAD_GRADIENT, 0, false));
    float w[5 * 3 * 7 * 2];
    OK(sw_param_read(n.w[4], w, sizeof w));
    CU_ASSERT(isfinite(w[0]));
    static float bad[257 * 130];
    OK(sw_param_read(n.w[BAD], bad, sizeof bad));
    CU_ASSERT(isnan(bad[0]));
    counted(&n, 0, 0);
}

/* A micro-batch that is not finite spoils the update that it was for, and no later one. */
SW_TEST("a bad micro-batch spoils one update")
{
    for (int way = 0; way < 4; way++) {
        const bool immediate = way & 1;
        const kind what = way & 2 ? BAD_LOSS : BAD_GRADIENT;
        const sw_optimizer_opts opts =
            SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = 1);
        on_net n, never;
        sw_exec *exec = net_exec(NULL);
        on_start(&n, &opts);
        on_start(&never, &opts);
        OK(sw_model_ready(n.model, exec, 7));
        OK(sw_model_ready(never.model, exec, 7));
        n.accumulate = n.no_update = 1;
        OK(run(exec, &n, what, 0, immediate));
        counted(&n, 0, 0);
        n.no_update = 0;
        OK(run(exec, &n, GOOD, 0, immediate));
        counted(&n, 1, 1);
        CU_ASSERT(on_same_params(&n, &never, "skipped"));
        OK(run(exec, &n, GOOD, 1, immediate));
        OK(run(exec, &never, GOOD, 1, immediate));
        counted(&n, 1, 0);
        CU_ASSERT(on_same_params(&n, &never, "used up"));
    }
}

/* ---- several optimizers, and more parameters than one op looks at ------------------------ */

#define MANY 70
typedef struct {
    sw_model *model;
    sw_param w[MANY];
    sw_optimizer *opt[2];
    float factor[MANY];
} many;

static void many_step(sw_ctx *c, void *user)
{
    many *m = user;
    sw_value loss = {0, 0};
    for (int i = 0; i < MANY; i++) {
        const sw_value w = sw_use(c, m->w[i]), f = sw_slice(c, sw_input(c, 0), 0, i, 1);
        const sw_value part = sw_sum(c, sw_sqrt(c, sw_mul(c, sw_mul(c, w, w), f)), 0);
        loss = i == 0 ? part : sw_add(c, loss, part);
    }
    sw_backward(c, loss, m->opt, 2);
    sw_update(c, m->opt[0]);
    sw_update(c, m->opt[1]);
}

/* An optimizer skips by its own gradients: the other goes on. */
SW_TEST("optimizers have their own verdicts, of many parameters")
{
    static many m;
    memset(&m, 0, sizeof m);
    sw_exec *exec = net_exec(NULL);
    m.model = made_model("m");
    for (int i = 0; i < MANY; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        m.w[i] = sw_param_new(m.model, name, SW_F32, SW_SHAPE(1), "ones");
    }
    for (int o = 0; o < 2; o++)
        OK(sw_optimizer_create(&m.opt[o], m.model,
                               &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 1.0f,
                                        .params = m.w + (o == 0 ? 0 : 2),
                                        .n_params = o == 0 ? 2 : MANY - 2)));
    const sw_array in = {SW_F32, SW_SHAPE(MANY), m.factor};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = many_step, .user = &m, .models = &m.model, .n_models = 1,
                .inputs = &in, .n_inputs = 1);
    for (int bad = 0; bad < MANY; bad += bad < 2 ? 1 : 7) {
        float w[MANY];
        for (int i = 0; i < MANY; i++)
            m.factor[i] = i == bad ? 0.0f : 1.0f;
        OK(sw_model_ready(m.model, exec, 0));
        OK(sw_run(exec, &args));
        for (int i = 0; i < MANY; i++) {
            OK(sw_param_read(m.w[i], &w[i], sizeof w[i]));
            const bool skipped = (i < 2) == (bad < 2);
            SW_CHECK(w[i] == (skipped ? 1.0f : 0.0f), "%d is bad: parameter %d is %g", bad, i,
                     (double)w[i]);
        }
        for (int o = 0; o < 2; o++) {
            uint64_t skipped = 9;
            OK(sw_optimizer_skipped(m.opt[o], &skipped, NULL));
            CU_ASSERT_EQUAL(skipped, (o == 0) == (bad < 2));
        }
    }
}

/* ---- gradients that are products --------------------------------------------------------- */

enum { ROWS = 3, WIDE_IN = 40, WIDE_OUT = 50 };
typedef struct {
    sw_model *model;
    sw_linear layer;
    sw_optimizer *opt;
    float x[ROWS][WIDE_IN], t[ROWS][WIDE_OUT];
} product;

/* The gradient of the weight is t^T x; the loss is 0 while the weight is. */
static void product_step(sw_ctx *c, void *user)
{
    product *p = user;
    const sw_value y = sw_apply_linear(c, p->layer, sw_input(c, 0));
    sw_backward(c, sw_sum(c, sw_mul(c, y, sw_input(c, 1)), 0), &p->opt, 1);
    sw_update(c, p->opt);
}

/* Where the factors cannot make it infinite they alone are read; large ones decide nothing. */
SW_TEST("products are judged by their factors")
{
    static const struct {
        float x, t;  /* of the first row */
        float other; /* t of the second row, where x is 1 */
        bool skipped;
    } cases[] = {{1.0f, 1.0f, 1.0f, false},
                 {1e25f, 1e20f, 0.0f, true},  /* 1e45: infinite */
                 {1e25f, 0.0f, 1e20f, false}, /* never met */
                 {1e-30f, 1e-30f, 1.0f, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int update = SW_UPDATE_DEFAULT; update <= SW_UPDATE_RELEASE; update++) {
            product p = {0};
            sw_exec *exec = net_exec(NULL);
            p.model = made_model("m");
            p.layer = (sw_linear){.weight = sw_param_new(p.model, "w", SW_F32,
                                                         SW_SHAPE(WIDE_OUT, WIDE_IN), "zeros")};
            OK(sw_optimizer_create(
                &p.opt, p.model,
                &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 1e-3f, .update = update)));
            for (int k = 0; k < WIDE_IN; k++) {
                p.x[0][k] = cases[i].x;
                p.x[1][k] = p.x[2][k] = 1.0f;
            }
            for (int k = 0; k < WIDE_OUT; k++) {
                p.t[0][k] = cases[i].t;
                p.t[1][k] = cases[i].other;
            }
            const sw_array in[] = {{SW_F32, SW_SHAPE(ROWS, WIDE_IN), p.x},
                                   {SW_F32, SW_SHAPE(ROWS, WIDE_OUT), p.t}};
            const sw_run_args args =
                SW_OPTS(sw_run_args, .fn = product_step, .user = &p, .models = &p.model,
                        .n_models = 1, .inputs = in, .n_inputs = 2);
            float w[WIDE_OUT][WIDE_IN];
            uint64_t skipped = 9;
            OK(sw_run(exec, &args));
            OK(sw_optimizer_skipped(p.opt, &skipped, NULL));
            OK(sw_param_read(p.layer.weight, w, sizeof w));
            SW_CHECK(skipped == cases[i].skipped && (w[3][3] == 0.0f) == cases[i].skipped &&
                         isfinite(w[3][3]),
                     "case %zu, update %d: %d skipped, %g", i, update, (int)skipped,
                     (double)w[3][3]);
            bool bounded = false;
            for (uint32_t k = 0; k < exec->last->trace.n_nodes; k++)
                bounded |= exec->last->trace.nodes[k].op == SW_OP_product_bound;
            CU_ASSERT(bounded);
            sw_witness_info info = SW_OPTS(sw_witness_info);
            OK(sw_model_ready(p.model, exec, 0));
            OK(sw_witness(exec, &args, SW_WITNESS_ALL & ~SW_WITNESS_NEED, &info));
            SW_CHECK(info.n_faults == 0, "case %zu: %s", i, info.first_fault);
        }
}
