/* A step with much in it: two models with their own optimizers, views, broadcasting, random
 * numbers, knobs, states, outputs, an evaluation program. All witnesses agree with it. */
#include "runtime/exec/exec.h"
#include "tests/support/made.h"

SW_TESTS("rich")

typedef struct {
    sw_exec *exec;
    sw_model *models[2];
    sw_optimizer *optimizers[2];
    sw_conv2d conv;
    sw_linear head, critic[2];
    sw_param mean, runs;
    sw_knob strength;
    unsigned char *images;
    int32_t *labels;
    sw_array inputs[2];
    sw_run_args args;
} rich;

/* Pools and activations of all kinds, two halves that meet again, and noise. */
static sw_value features(sw_ctx *ctx, rich *r, sw_value x)
{
    sw_scope_begin(ctx, "features");
    x = sw_leaky_relu(ctx, sw_apply_conv2d(ctx, r->conv, x), 0.1f);
    const sw_value a = sw_global_avg_pool(ctx, sw_avg_pool(ctx, x, 2));
    const sw_value b = sw_global_max_pool(ctx, sw_max_pool2d(ctx, x, 3, 2, 1));
    const sw_value both[2] = {sw_flatten(ctx, a), sw_flatten(ctx, b)};
    x = sw_concat(ctx, both, 2, 1);
    if (sw_ctx_mode(ctx) == SW_TRAIN) {
        const sw_value noise =
            sw_randn(ctx, "noise", SW_SHAPE(sw_dim(ctx, x, 0), sw_dim(ctx, x, 1)));
        x = sw_add(ctx, x, sw_scale(ctx, noise, r->strength));
    }
    const sw_value left = sw_slice(ctx, x, 1, 0, 4), right = sw_slice(ctx, x, 1, 4, 4);
    x = sw_add(ctx, sw_mul(ctx, left, sw_sigmoid(ctx, right)), sw_scale_by(ctx, left, 0.5f));
    sw_scope_end(ctx);
    return x;
}

static void step(sw_ctx *ctx, void *user)
{
    rich *r = user;
    const sw_value x = features(ctx, r, sw_to_f32(ctx, sw_input(ctx, 0), 1.0f / 255.0f, 0.0f));
    const sw_value centred = sw_add(ctx, x, sw_use(ctx, r->mean));
    const sw_value logits = sw_apply_linear(ctx, r->head, sw_tanh(ctx, centred));
    const sw_value loss = sw_softmax_ce(ctx, logits, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_output(ctx, "probabilities", sw_softmax(ctx, logits));
    sw_assign(ctx, r->mean, sw_scale_by(ctx, sw_mean(ctx, x, 1u), -0.1f));
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return;
    const sw_value judged =
        sw_apply_linear(ctx, r->critic[1],
                        sw_swish(ctx, sw_apply_linear(ctx, r->critic[0], sw_detach(ctx, x))));
    const sw_value doubt = sw_bce(ctx, judged, 1.0f);
    sw_metric(ctx, "doubt", doubt);
    sw_backward(ctx, loss, &r->optimizers[0], 1);
    sw_clip_norm(ctx, r->optimizers[0], r->strength);
    sw_update(ctx, r->optimizers[0]);
    sw_backward(ctx, doubt, &r->optimizers[1], 1);
    sw_update(ctx, r->optimizers[1]);
}

static void declare(rich *r, int no_inplace)
{
    r->exec =
        made_exec(&SW_OPTS(sw_exec_opts, .seed = 9, .threads = 2, .no_inplace = no_inplace));
    r->models[0] = made_model("net");
    r->models[1] = made_model("critic");
    r->conv = sw_conv2d_new(r->models[0], "conv", 1, 4, 3);
    r->conv.pad = 1;
    r->head = sw_linear_new(r->models[0], "head", 4, 10);
    r->mean = sw_buffer_new(r->models[0], "mean", SW_F32, SW_SHAPE(4), "zeros");
    r->strength = sw_knob_new(r->models[0], "strength", 0.2f);
    r->critic[0] = sw_linear_new(r->models[1], "in", 4, 9);
    r->critic[1] = sw_linear_new(r->models[1], "out", 9, 1);
    const sw_optimizer_opts sgd =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .momentum = 0.5f, .release = 1);
    OK(sw_optimizer_create(&r->optimizers[0], r->models[0],
                           &SW_OPTS(sw_optimizer_opts, .kind = "adamw", .weight_decay = 0.1f)));
    OK(sw_optimizer_create(&r->optimizers[1], r->models[1], &sgd));
}

static rich *create(int64_t batch, int no_inplace)
{
    rich *r = sw_block(sizeof *r);
    sw_dice dice = {7};
    declare(r, no_inplace);
    r->images = sw_block((size_t)batch * 100);
    r->labels = sw_block((size_t)batch * sizeof *r->labels);
    for (int64_t i = 0; i < batch * 100; i++)
        r->images[i] = (unsigned char)sw_dice_below(&dice, 256);
    for (int64_t i = 0; i < batch; i++)
        r->labels[i] = (int32_t)sw_dice_below(&dice, 10);
    r->inputs[0] = (sw_array){SW_U8, SW_SHAPE(batch, 1, 10, 10), r->images};
    r->inputs[1] = (sw_array){SW_I32, SW_SHAPE(batch), r->labels};
    r->args = SW_OPTS(sw_run_args, .fn = step, .user = r, .models = r->models, .n_models = 2,
                      .inputs = r->inputs, .n_inputs = 2);
    return r;
}

static void agree(rich *r, sw_mode mode)
{
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    r->args.mode = mode;
    SW_CHECK(sw_run(r->exec, &r->args) == SW_OK, "%s", sw_last_error());
    SW_CHECK(sw_plan(r->exec, &r->args, &plan) == SW_OK, "%s", sw_last_error());
    SW_CHECK(sw_witness(r->exec, &r->args, SW_WITNESS_ALL, &seen) == SW_OK, "%s",
             sw_last_error());
    SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s: %u faults: %s",
             mode == SW_TRAIN ? "train" : "eval", seen.n_faults, seen.first_fault);
    CU_ASSERT_EQUAL(seen.peak_bytes, plan.peak_bytes);
    for (int i = 0; i < SW_PHASES; i++) {
        CU_ASSERT_EQUAL(seen.phase[i].peak_bytes, plan.phase[i].peak_bytes);
        CU_ASSERT_EQUAL(seen.phase[i].end_bytes, plan.phase[i].end_bytes);
    }
}

SW_TEST("rich steps agree with their plans")
{
    for (int64_t batch = 1; batch <= 33; batch += 16)
        for (int no_inplace = 0; no_inplace < 2; no_inplace++) {
            rich *r = create(batch, no_inplace);
            if (r == NULL)
                return;
            agree(r, SW_TRAIN);
            agree(r, SW_EVAL);
            agree(r, SW_TRAIN);
        }
}

/* Outputs of the run before are gone, and say so; those of the next run are there. */
SW_TEST("outputs of the last run are stale afterwards")
{
    rich *r = create(3, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r);
    sw_array out;
    agree(r, SW_TRAIN);
    CU_ASSERT_EQUAL(sw_output_get(r->exec, "probabilities", &out), SW_STALE);
    CU_ASSERT_EQUAL(sw_run(r->exec, &r->args), SW_OK);
    CU_ASSERT_EQUAL(sw_output_get(r->exec, "probabilities", &out), SW_OK);
    float sum = 0.0f;
    for (int i = 0; i < 10; i++)
        sum += ((const float *)out.data)[i];
    CU_ASSERT(sum > 0.999f && sum < 1.001f);
}

/* Models that are not ready are made so, as a run does. */
SW_TEST("models are made ready")
{
    rich *r = create(3, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    CU_ASSERT_EQUAL(sw_witness(r->exec, &r->args, SW_WITNESS_ALL, &seen), SW_OK);
    CU_ASSERT_EQUAL(seen.agreed, SW_WITNESS_ALL);
    CU_ASSERT(r->models[0]->ready && r->models[1]->ready);
}

static void nothing(sw_ctx *ctx, void *user)
{
}

SW_TEST("empty steps agree")
{
    rich *r = create(1, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = nothing);
    CU_ASSERT_EQUAL(sw_witness(r->exec, &args, SW_WITNESS_ALL, &seen), SW_OK);
    CU_ASSERT_EQUAL(seen.agreed, SW_WITNESS_ALL);
    CU_ASSERT_EQUAL(seen.peak_bytes, 0);
    r->args.fn = nothing;
    agree(r, SW_TRAIN);
}
