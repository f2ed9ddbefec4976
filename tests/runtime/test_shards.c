/* Steps of several shards: what updates is the mean over the shards, added in pairs, whatever
 * they are; buffers are those of the first; bytes are as planned. */
#include "tests/runtime/nets.h"

SW_TESTS("shards")

#define CHANNELS 3
#define IN (CHANNELS * 16)
#define HIDDEN 33
#define OUT 7
#define ROWS 8
#define MOST 13
#define WIDE (IN * HIDDEN)

typedef struct {
    sw_model *model;
    sw_linear f1, f2;
    sw_batch_norm2d norm;
    sw_optimizer *opt;
    sw_knob max;
    bool last, clips;
} shard_net;

static float x[MOST * ROWS][IN];
static uint8_t y[MOST * ROWS];

static void fill_data(void)
{
    for (int i = 0; i < MOST * ROWS; i++) {
        y[i] = (uint8_t)(i * 5 % OUT);
        for (int k = 0; k < IN; k++)
            x[i][k] = sinf((float)(i * 11 + k * 3)) + (k % OUT == y[i] ? 0.7f : 0.0f);
    }
}

static void shard_step(sw_ctx *c, void *user)
{
    shard_net *n = user;
    sw_value v = sw_apply_batch_norm2d(c, n->norm, sw_input(c, 0));
    v = sw_reshape(c, v, SW_SHAPE(ROWS, IN));
    v = sw_dropout(c, sw_tanh(c, sw_apply_linear(c, n->f1, v)), 0.25f);
    const sw_value loss = sw_softmax_ce(c, sw_apply_linear(c, n->f2, v), sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &n->opt, 1);
    if (!n->last) {
        sw_accumulate(c, n->opt);
        return;
    }
    if (n->clips)
        sw_clip_norm(c, n->opt, n->max);
    sw_update(c, n->opt);
}

static void start(shard_net *n, sw_exec *exec, int shards, sw_update_time when, bool keep)
{
    memset(n, 0, sizeof *n);
    n->model = made_model("net");
    n->norm = sw_batch_norm2d_new(n->model, "norm", CHANNELS);
    n->f1 = sw_linear_new(n->model, "f1", IN, HIDDEN);
    n->f2 = sw_linear_new(n->model, "f2", HIDDEN, OUT);
    n->max = sw_knob_new(n->model, "max", 0.01f);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.5f, .update = when,
                .keep_gradients = keep, .shards = (uint64_t)shards);
    OK(sw_optimizer_create(&n->opt, n->model, &opts));
    OK(sw_model_ready(n->model, exec, 6));
}

static sw_exec *exec_of(int shards, int threads)
{
    const sw_exec_opts opts =
        SW_OPTS(sw_exec_opts, .threads = threads, .seed = 3, .shards = shards);
    return net_exec(&opts);
}

static sw_run_args args_of(shard_net *n, sw_array *in, int shard)
{
    in[0] = (sw_array){SW_F32, SW_SHAPE(ROWS, CHANNELS, 4, 4), x[shard * ROWS]};
    in[1] = (sw_array){SW_U8, SW_SHAPE(ROWS), y + shard * ROWS};
    return SW_OPTS(sw_run_args, .fn = shard_step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = in, .n_inputs = 2, .mode = SW_TRAIN, .step = 5,
                   .run = (uint32_t)shard, .variant = n->last);
}

/* Peaks are as planned. */
static void step_of(shard_net *n, sw_exec *exec, int shards)
{
    sw_array in[2];
    for (int s = 0; s < shards; s++) {
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_run_info info = SW_OPTS(sw_run_info);
        n->last = s + 1 == shards;
        const sw_run_args args = args_of(n, in, s);
        OK(sw_plan(exec, &args, &plan));
        OK(sw_run(exec, &args));
        OK(sw_last_run(exec, &info));
        CU_ASSERT_EQUAL(plan.peak_bytes, info.peak_bytes);
    }
}

static const char *const names[] = {"norm.weight", "norm.bias", "f1.weight",
                                    "f1.bias",     "f2.weight", "f2.bias"};
enum { N_NAMES = sizeof names / sizeof *names };

/* The elements of a parameter or buffer. */
static size_t values_of(const shard_net *n, const char *name, float *to)
{
    const sw_param p = sw_param_find(n->model, name);
    const size_t count = (size_t)swi_elements(&swi_entry_of(p)->shape);
    OK(sw_param_read(p, to, count * sizeof *to));
    return count;
}

/* The gradient of each shard, by nets that keep it. */
static size_t gradients(const char *name, int shards, float (*of)[WIDE])
{
    size_t n = 0;
    for (int s = 0; s < shards; s++) {
        shard_net own;
        sw_array in[2];
        sw_exec *exec = exec_of(0, 1);
        start(&own, exec, 0, SW_UPDATE_AFTER, true);
        const sw_run_args args = args_of(&own, in, s);
        const sw_param p = sw_param_find(own.model, name);
        OK(sw_run(exec, &args));
        n = (size_t)swi_elements(&swi_entry_of(p)->shape);
        OK(sw_param_gradient(p, of[s], n * sizeof **of));
    }
    return n;
}

/* Level by level, pairs of neighbours, an odd one carried up. */
static void add_tree(float (*of)[WIDE], int shards, size_t n)
{
    while (shards > 1) {
        for (int k = 0; k < shards; k += 2)
            for (size_t i = 0; i < n; i++)
                of[k / 2][i] = k + 1 < shards ? of[k][i] + of[k + 1][i] : of[k][i];
        shards = (shards + 1) / 2;
    }
}

SW_TEST("the gradient is the mean over the shards, in pairs")
{
    static const int counts[] = {2, 3, 4, 5, 6, 7, 8, 11, 12, 13};
    static float of[MOST][WIDE], before[WIDE], after[WIDE];
    fill_data();
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int k = 0; k < N_NAMES; k++) {
            const int shards = counts[c];
            shard_net own;
            sw_exec *exec = exec_of(shards, 1 + k % 2);
            start(&own, exec, shards, k % 3 == 0 ? SW_UPDATE_AFTER : SW_UPDATE_RELEASE, false);
            (void)values_of(&own, names[k], before);
            step_of(&own, exec, shards);
            const size_t n = gradients(names[k], shards, of);
            CU_ASSERT_EQUAL(values_of(&own, names[k], after), n);
            add_tree(of, shards, n);
            const float share = (float)(1.0 / (double)shards);
            size_t wrong = 0;
            for (size_t i = 0; i < n; i++)
                wrong += after[i] != before[i] - 0.5f * (of[0][i] * share) &&
                         after[i] != fmaf(-0.5f, of[0][i] * share, before[i]);
            SW_CHECK(wrong == 0, "%d shards: %zu of %zu elements of %s are others", shards,
                     wrong, n, names[k]);
        }
}

SW_TEST("running statistics are those of the first shard")
{
    static float one[CHANNELS], all[CHANNELS];
    fill_data();
    for (int shards = 2; shards <= 8; shards++) {
        shard_net alone, many;
        sw_array in[2];
        sw_exec *exec = exec_of(0, 1), *sharded = exec_of(shards, 1);
        start(&alone, exec, 0, SW_UPDATE_AFTER, false);
        start(&many, sharded, shards, SW_UPDATE_AFTER, false);
        alone.last = true;
        const sw_run_args args = args_of(&alone, in, 0);
        OK(sw_run(exec, &args));
        step_of(&many, sharded, shards);
        (void)values_of(&alone, "norm.running_mean", one);
        (void)values_of(&many, "norm.running_mean", all);
        CU_ASSERT_EQUAL(memcmp(one, all, sizeof one), 0);
    }
}

SW_TEST("clipping reads the mean, and one bad loss skips the update")
{
    static float before[WIDE], after[WIDE];
    fill_data();
    for (int bad = 0; bad < 4; bad++) {
        shard_net own;
        uint64_t skipped;
        sw_exec *exec = exec_of(4, 1);
        start(&own, exec, 4, SW_UPDATE_AFTER, false);
        own.clips = true;
        step_of(&own, exec, 4);
        const size_t n = values_of(&own, "f1.weight", before);
        const float was = x[bad * ROWS][0];
        x[bad * ROWS][0] = INFINITY;
        step_of(&own, exec, 4);
        x[bad * ROWS][0] = was;
        (void)values_of(&own, "f1.weight", after);
        CU_ASSERT_EQUAL(memcmp(before, after, n * sizeof *before), 0);
        OK(sw_optimizer_skipped(own.opt, &skipped, NULL));
        CU_ASSERT_EQUAL(skipped, 1);
        step_of(&own, exec, 4); /* the next one is as ever */
        (void)values_of(&own, "f1.weight", after);
        CU_ASSERT_NOT_EQUAL(memcmp(before, after, n * sizeof *before), 0);
    }
}

SW_TEST("shards need room for partial sums, as many as wait at one time")
{
    static const int sums[] = {0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3};
    size_t least = 0;
    sw_exec *exec = exec_of(0, 1);
    for (int shards = 1; shards <= 13; shards++) {
        shard_net own;
        size_t bytes;
        start(&own, exec, shards, SW_UPDATE_AFTER, false);
        OK(sw_model_bytes(own.model, &bytes));
        if (shards == 1)
            least = bytes;
        const size_t each = bytes - least;
        const size_t once = sizeof(float) * (WIDE + HIDDEN + HIDDEN * OUT + OUT + 2 * CHANNELS),
                     wanted = (size_t)sums[shards] * once;
        SW_CHECK(each >= wanted && each <= wanted + N_NAMES * SW_ALIGN, "%d shards: %zu bytes",
                 shards, each);
    }
}

SW_TEST("what cannot be is refused by name")
{
    shard_net own;
    sw_array in[2];
    sw_exec *exec = exec_of(4, 1), *made;
    fill_data();
    start(&own, exec, 2, SW_UPDATE_AFTER, false);
    sw_run_args args = args_of(&own, in, 0);
    REFUSED(sw_run(exec, &args), SW_INVALID, "set sw_optimizer_opts.shards to 4");
    args.immediate = 1;
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED,
            "an exec with shards or ranks has no immediate");
    start(&own, exec, 0, SW_UPDATE_AFTER, true);
    args = args_of(&own, in, 0);
    REFUSED(sw_run(exec, &args), SW_INVALID, "its optimizer is for 1 shards");
    exec->target.shards_here = 1; /* as of four ranks */
    start(&own, exec, 1, SW_UPDATE_AFTER, false);
    args = args_of(&own, in, 0);
    REFUSED(sw_run(exec, &args), SW_INVALID, "each rank runs one shard of a step");
    sw_exec_opts opts = SW_OPTS(sw_exec_opts, .shards = -1);
    REFUSED(sw_exec_create(&made, &opts), SW_INVALID, "shards must be 0 to 65536 (got -1)");
    const sw_optimizer_opts both =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1, .shards = 2);
    REFUSED(sw_optimizer_create(&own.opt, made_model("other"), &both), SW_INVALID,
            "shards and keep_gradients exclude each other");
    REFUSED(swi_shards_check(6, 4), SW_INVALID, "shards must be 4 times 1, 2, 4, 8, ...");
    OK(swi_shards_check(6, 3));
    OK(swi_shards_check(12, 3));
    OK(swi_shards_check(7, 1));
    REFUSED(swi_shards_check(9, 3), SW_INVALID, "(got 9)");
}
