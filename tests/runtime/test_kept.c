/* Kept gradients: what one update used, no later one sees. Each parameter has its own: in a run
 * whose loss does not depend on a parameter nothing happens to it, whatever was kept before. */
#include "tests/runtime/nets.h"

SW_TESTS("kept")

#define N 18 /* parameters: more than the flags of one line of 64 bytes */
#define ALL ((1u << N) - 1)
#define ODD (0x2aaaau & ALL)

typedef struct {
    sw_model *model;
    sw_param w[N];
    sw_optimizer *opt;
    sw_knob max;
    unsigned mask; /* the loss depends on these */
    bool clip, accumulate, update;
} many;

/* The gradient of parameter i is (i + 1) times the input; none at all for mask 0. */
static void many_step(sw_ctx *c, void *user)
{
    many *m = user;
    sw_value loss = {0, 0};
    for (int i = 0; i < N; i++)
        if ((m->mask >> i & 1u) != 0) {
            const sw_value part = sw_scale_by(
                c, sw_sum(c, sw_mul(c, sw_use(c, m->w[i]), sw_input(c, 0)), 0), (float)(i + 1));
            loss = loss.id == 0 ? part : sw_add(c, loss, part);
        }
    if (m->mask != 0) {
        sw_metric(c, "loss", loss);
        sw_backward(c, loss, &m->opt, 1);
    }
    if (m->accumulate)
        sw_accumulate(c, m->opt);
    if (m->clip)
        sw_clip_norm(c, m->opt, m->max);
    if (m->update)
        sw_update(c, m->opt);
}

static void start(many *m, sw_exec *exec, const sw_optimizer_opts *opts)
{
    memset(m, 0, sizeof *m);
    m->update = true;
    m->model = made_model("m");
    for (int i = 0; i < N; i++) {
        char name[8] = {'w', (char)('a' + i), 0};
        m->w[i] = sw_param_new(m->model, name, SW_F32, SW_SHAPE(3), "normal:1");
    }
    m->max = sw_knob_new(m->model, "max", 1.5f);
    OK(sw_optimizer_create(&m->opt, m->model, opts));
    OK(sw_model_ready(m->model, exec, 6));
}

static float numbers[3] = {0.5f, -0.25f, 2.0f};
static const sw_array input = {SW_F32, {1, {3}}, numbers};

static sw_run_args args_of(many *m, bool immediate)
{
    return SW_OPTS(sw_run_args, .fn = many_step, .user = m, .models = &m->model, .n_models = 1,
                   .inputs = &input, .n_inputs = 1, .immediate = immediate,
                   .variant = m->mask | (uint64_t)m->accumulate << 32 |
                              (uint64_t)m->update << 33 | (uint64_t)m->clip << 34);
}

static sw_status run(sw_exec *exec, many *m, unsigned mask, bool immediate)
{
    m->mask = mask;
    const sw_run_args args = args_of(m, immediate);
    return sw_run(exec, &args);
}

static bool same_params(const many *a, const many *b, const char *what)
{
    bool same = true;
    for (int i = 0; i < N; i++) {
        float x[3], y[3];
        OK(sw_param_read(a->w[i], x, sizeof x));
        OK(sw_param_read(b->w[i], y, sizeof y));
        same &= SW_CHECK(memcmp(x, y, sizeof x) == 0, "%s: parameter %d: %g, not %g", what, i,
                         (double)x[0], (double)y[0]);
    }
    return same;
}

static const sw_optimizer_opts kinds[] = {
    {.size = sizeof *kinds, .kind = "sgd", .lr = 1.0f, .weight_decay = 0.1f},
    {.size = sizeof *kinds, .kind = "sgd", .lr = 0.5f, .momentum = 0.9f},
    {.size = sizeof *kinds, .kind = "adam", .lr = 0.1f},
    {.size = sizeof *kinds, .kind = "adamw", .lr = 0.1f, .weight_decay = 0.1f},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* Runs that update what they differentiate: keeping, releasing and neither give the same bits,
 * also where the loss depends on other parameters than it did before. */
SW_TEST("keeping and releasing change no update")
{
    static const unsigned masks[] = {ALL, ODD, 1u, 1u << 17, ALL};
    for (size_t k = 0; k < N_KINDS; k++)
        for (int way = 0; way < 4; way++) {
            const bool clip = way & 1, immediate = way & 2;
            sw_exec *exec = net_exec(NULL);
            many plain, keep, release;
            sw_optimizer_opts opts = kinds[k];
            start(&plain, exec, &opts);
            opts.keep_gradients = 1;
            start(&keep, exec, &opts);
            opts.keep_gradients = 0;
            opts.release = 1;
            start(&release, exec, &opts);
            plain.clip = keep.clip = clip;
            for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
                OK(run(exec, &plain, masks[i], immediate));
                OK(run(exec, &keep, masks[i], immediate));
                if (!same_params(&keep, &plain, opts.kind))
                    return;
                if (clip)
                    continue;
                OK(run(exec, &release, masks[i], immediate));
                if (!same_params(&release, &plain, opts.kind))
                    return;
            }
        }
}

/* An update after an update has nothing to do: no byte of the model changes, the moments and
 * the count of steps included. */
SW_TEST("an update of nothing changes nothing")
{
    for (size_t k = 0; k < N_KINDS; k++)
        for (int way = 0; way < 4; way++) {
            sw_exec *exec = net_exec(NULL);
            many m;
            sw_optimizer_opts opts = kinds[k];
            opts.keep_gradients = 1;
            start(&m, exec, &opts);
            m.clip = way & 1;
            OK(run(exec, &m, 0, way & 2)); /* before any gradient, too */
            const void *before = net_copy_bytes(m.model);
            OK(run(exec, &m, 0, way & 2));
            CU_ASSERT(net_same_bytes(m.model, before));
            OK(run(exec, &m, ALL, way & 2));
            before = net_copy_bytes(m.model);
            OK(run(exec, &m, 0, way & 2));
            SW_CHECK(net_same_bytes(m.model, before), "%s, way %d", opts.kind, way);
        }
}

/* A sum begins anew for each parameter after the update that used it. */
SW_TEST("accumulation begins anew for each parameter")
{
    for (int immediate = 0; immediate < 2; immediate++) {
        sw_exec *exec = net_exec(NULL);
        many m;
        float g[3], w[3], now[3];
        start(&m, exec,
              &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 1.0f, .keep_gradients = 1));
        OK(run(exec, &m, ALL, immediate)); /* uses and clears what it made */
        m.accumulate = true;
        m.update = false;
        OK(run(exec, &m, 1u, immediate)); /* one is kept: the others are not */
        OK(run(exec, &m, 3u, immediate));
        OK(run(exec, &m, 2u, immediate));
        for (int i = 0; i < 2; i++) {
            OK(sw_param_gradient(m.w[i], g, sizeof g));
            for (int e = 0; e < 3; e++)
                CU_ASSERT_EQUAL(g[e], 2.0f * (float)(i + 1) * numbers[e]);
        }
        OK(sw_param_read(m.w[2], w, sizeof w));
        m.accumulate = false;
        m.update = true;
        OK(run(exec, &m, 0, immediate));
        OK(sw_param_read(m.w[2], now, sizeof now));
        CU_ASSERT_EQUAL(memcmp(w, now, sizeof w), 0);
        OK(sw_param_gradient(m.w[2], g, sizeof g)); /* stays readable */
        CU_ASSERT_EQUAL(g[0], 3.0f * numbers[0]);
    }
}

/* The norm is that of the gradients that are there. */
SW_TEST("clipping sees live gradients alone")
{
    for (int immediate = 0; immediate < 2; immediate++) {
        sw_exec *exec = net_exec(NULL);
        many m;
        float w[3], now[3];
        start(&m, exec,
              &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 1.0f, .keep_gradients = 1));
        sw_knob_set(m.max, 100.0f);
        m.clip = true;
        OK(run(exec, &m, ALL, immediate));
        OK(sw_param_read(m.w[0], w, sizeof w));
        sw_knob_set(m.max, 3.0f); /* above the norm of the first gradient, 2.08, alone */
        OK(run(exec, &m, 1u, immediate));
        OK(sw_param_read(m.w[0], now, sizeof now));
        for (int e = 0; e < 3; e++)
            CU_ASSERT_EQUAL(now[e], w[e] - numbers[e]);
    }
}

SW_TEST("with all frozen there is nothing to update")
{
    sw_exec *exec = net_exec(NULL);
    many m;
    start(&m, exec, &SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = 1));
    for (int i = 0; i < N; i++)
        sw_param_freeze(m.w[i], 1);
    REFUSED(run(exec, &m, 0, false), SW_INVALID, "frozen");
    REFUSED(run(exec, &m, 0, true), SW_INVALID, "frozen");
    sw_param_freeze(m.w[3], 0);
    OK(run(exec, &m, 0, false));
}

/* The witnesses watch the bytes that the plan counts, whether all is there to update or a
 * part. */
SW_TEST("the witnesses agree about kept gradients")
{
    for (size_t k = 0; k < N_KINDS; k++)
        for (int clip = 0; clip < 2; clip++) {
            sw_exec *exec = net_exec(NULL);
            many m;
            sw_optimizer_opts opts = kinds[k];
            opts.keep_gradients = 1;
            start(&m, exec, &opts);
            m.clip = clip != 0;
            OK(run(exec, &m, ALL, false));
            static const unsigned masks[] = {ALL, ODD, 1u};
            for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
                m.mask = masks[i];
                const sw_run_args args = args_of(&m, false);
                sw_witness_info info = SW_OPTS(sw_witness_info);
                OK(sw_witness(exec, &args, SW_WITNESS_ALL, &info));
                SW_CHECK(info.agreed == SW_WITNESS_ALL && info.n_faults == 0, "%s, clip %d: %s",
                         opts.kind, clip, info.first_fault);
            }
        }
}
