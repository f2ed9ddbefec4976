/* Nets of genomes: what they compute, that they train, what is refused. */
#include "tests/evolve/net_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("nets")

/* ---- what they compute ------------------------------------------------------------------- */

static double distance(const float *a, const double *b, int64_t n)
{
    double most = 0, scale = 1e-3;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - b[i]));
        scale = fmax(scale, fabs(b[i]));
    }
    return most / scale;
}

static double compare(sw_exec *exec, const sw_genome *g, sw_dtype dtype, sw_dice *dice,
                      const sw_net_opts *opts)
{
    sw_net *made = scene_ready(g, opts, exec, sw_dice_next(dice));
    /* Statistics that are not 0 and 1, so that a norm does something. */
    for (uint32_t i = 0; i < made->genome->n; i++) {
        const swi_net_layer *l = &made->layers[i];
        const sw_param all[] = {l->mean, l->variance, l->weight, l->bias};
        for (int k = 0; k < 4 && l->mean.index != 0; k++) {
            float v[16];
            const int64_t n = sw_param_shape(all[k]).dim[0];
            for (int64_t j = 0; j < n && j < 16; j++)
                v[j] = (float)(1 + sw_dice_below(dice, 8)) / 4;
            if (n <= 16)
                OK(sw_param_write(all[k], v, (size_t)n * 4));
        }
    }
    const scene_batch b = scene_data(g, dtype, 3, sw_dice_next(dice));
    return distance(scene_run_logits(exec, made, &b), scene_logits(made, &b), b.rows * 10);
}

SW_TEST("nets compute what the genome says")
{
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {11};
    double most = 0;
    for (int i = 0; i < 40; i++) {
        const sw_genome *g = scene_random(&dice);
        const double d = compare(exec, g, i % 2 ? SW_U8 : SW_F32, &dice, NULL);
        SW_CHECK(d < 2e-4, "genome %d of %u vertices: %g", i, g->n, d);
        most = fmax(most, d);
    }
    sw_note("largest distance from a float64 interpreter: %.1e of the largest logit", most);
}

SW_TEST("every activation is its own")
{
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {5};
    int n = 0;
    for (; swi_activation_name(n) != NULL; n++) {
        sw_genome *g = scene_genome(7, 0, 0);
        scene_linear(g, "a", 0, 12);
        scene_activation(g, "b", 1, swi_activation_name(n));
        scene_linear(g, "c", 2, 10);
        scene_check(g);
        const double d = compare(exec, g, SW_F32, &dice, NULL);
        SW_CHECK(d < 1e-5, "%s: %g", swi_activation_name(n), d);
    }
    CU_ASSERT_EQUAL(n, 12);
}

SW_TEST("bytes are scaled by channel")
{
    const sw_net_opts opts = SW_OPTS(sw_net_opts, .scale = {0.5f, 0.25f, 0.125f},
                                     .shift = {-1, 2, 0}, .n_scales = 3);
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {6};
    sw_genome *g = scene_genome(3, 4, 4);
    scene_conv(g, "a", 0, 5, 3);
    scene_add(g, SW_VERTEX_GLOBAL_AVG_POOL, "b", 1);
    scene_linear(g, "c", 2, 10);
    scene_check(g);
    CU_ASSERT(compare(exec, g, SW_U8, &dice, &opts) < 1e-5);
}

/* ---- training ---------------------------------------------------------------------------- */

static double train(sw_exec *exec, sw_net *made, const scene_batch *b, int steps,
                    uint64_t variant)
{
    sw_run_args args = SCENE_ARGS(made, b, SW_TRAIN);
    args.variant = variant;
    double loss = 0;
    for (int i = 0; i < steps; i++) {
        args.step = (uint64_t)i;
        OK(sw_run(exec, &args));
        OK(sw_metric_get(exec, "loss", &loss));
    }
    return loss;
}

typedef struct {
    int calls;
    float by;
} hook_notes;

static sw_value scale_gradient(sw_ctx *ctx, sw_param param, sw_value gradient, void *user)
{
    hook_notes *notes = user;
    notes->calls++;
    return sw_scale_by(ctx, gradient, notes->by);
}

SW_TEST("every parameter has a gradient")
{
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {21};
    for (int i = 0; i < 60; i++) {
        hook_notes notes = {0, 1};
        const sw_genome *g = scene_random(&dice);
        sw_net *made = scene_ready(
            g, &SW_OPTS(sw_net_opts, .hook = scale_gradient, .hook_user = &notes), exec, 3);
        const scene_batch b = scene_data(g, SW_F32, 4, 9);
        const sw_param bias = made->layers[g->n - 1].bias;
        float before[10], after[10];
        OK(sw_param_read(bias, before, sizeof before));
        const double loss = train(exec, made, &b, 2, 0);
        CU_ASSERT(isfinite(loss) && loss > 0);
        OK(sw_param_read(bias, after, sizeof after));
        CU_ASSERT(memcmp(before, after, sizeof after) != 0);
        int parameters = 0;
        for (uint32_t k = 0; k < g->n; k++)
            parameters += swi_vertex_has_parameters(&g->vertices[k]) ? 2 : 0;
        SW_CHECK(notes.calls == parameters, "genome %d: %d of %d", i, notes.calls, parameters);
        scene_sweep();
    }
}

SW_TEST("losses fall")
{
    sw_exec *exec = scene_exec(1);
    for (int k = 0; k < 4; k++) {
        sw_genome *g = scene_lenet();
        g->update = k % 2 ? SW_UPDATE_AFTER : SW_UPDATE_RELEASE;
        g->clip = k == 2 ? 0.5f : 0;
        g->clip_norm = k == 3 ? 0.5f : 0;
        g->smoothing = k == 1 ? 0.1f : 0;
        scene_check(g);
        sw_net *made = scene_ready(g, NULL, exec, 1);
        const scene_batch b = scene_data(g, SW_U8, 16, 2);
        const double first = train(exec, made, &b, 1, 0), last = train(exec, made, &b, 60, 0);
        SW_CHECK(last < 0.6 * first, "%d: %g to %g", k, first, last);
        double accuracy = 0;
        OK(sw_metric_get(exec, "accuracy", &accuracy));
        CU_ASSERT(accuracy > 0.9);
    }
}

/* Updates released during backward, or after it, or some of each: the same bits. */
SW_TEST("times of updates change no bit")
{
    sw_exec *exec = scene_exec(1);
    unsigned char *bytes[3];
    size_t n = 0;
    for (int k = 0; k < 3; k++) {
        sw_genome *g = scene_lenet();
        g->update = k == 0 ? SW_UPDATE_RELEASE : SW_UPDATE_AFTER;
        if (k == 2) {
            g->vertices[1].update = SW_UPDATE_RELEASE;
            g->vertices[8].update = SW_UPDATE_RELEASE;
        }
        scene_check(g);
        sw_net *made = scene_ready(g, NULL, exec, 1);
        const scene_batch b = scene_data(g, SW_F32, 8, 2);
        train(exec, made, &b, 5, 0);
        n = made->model->role_bytes[SWI_ROLE_PARAMETER];
        bytes[k] = scene_block(n);
        memcpy(bytes[k], made->model->base, n);
    }
    CU_ASSERT(memcmp(bytes[0], bytes[1], n) == 0);
    CU_ASSERT(memcmp(bytes[0], bytes[2], n) == 0);
}

/* The bound holds for each gradient by itself: what goes beyond is scaled by the norm. */
SW_TEST("clip bounds each gradient")
{
    sw_exec *exec = scene_exec(1);
    float weight[2][70], bias[2][10];
    for (int k = 0; k < 2; k++) {
        hook_notes notes = {0, 1};
        sw_genome *g = scene_genome(7, 0, 0);
        scene_linear(g, "fc", 0, 10);
        snprintf(g->optimizer, sizeof g->optimizer, "sgd");
        g->lr = 1;
        g->clip = k == 0 ? 0 : 0.01f;
        scene_check(g);
        sw_net *made = scene_ready(
            g, &SW_OPTS(sw_net_opts, .hook = scale_gradient, .hook_user = &notes), exec, 1);
        const swi_net_layer *l = &made->layers[1];
        float w[70], c[10];
        OK(sw_param_read(l->weight, w, sizeof w));
        OK(sw_param_read(l->bias, c, sizeof c));
        const scene_batch b = scene_data(g, SW_F32, 8, 2);
        train(exec, made, &b, 1, 0);
        CU_ASSERT_EQUAL(notes.calls, 2);
        OK(sw_param_read(l->weight, weight[k], sizeof w));
        OK(sw_param_read(l->bias, bias[k], sizeof c));
        for (int i = 0; i < 70; i++)
            weight[k][i] -= w[i];
        for (int i = 0; i < 10; i++)
            bias[k][i] -= c[i];
    }
    double sum[2] = {0, 0}, sum_bias[2] = {0, 0}, apart = 0;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 70; i++)
            sum[k] += (double)weight[k][i] * (double)weight[k][i];
        for (int i = 0; i < 10; i++)
            sum_bias[k] += (double)bias[k][i] * (double)bias[k][i];
    }
    const double factor = 0.01 / sqrt(sum[0]);
    for (int i = 0; i < 70; i++)
        apart = fmax(apart, fabs((double)weight[1][i] - factor * (double)weight[0][i]));
    CU_ASSERT(sum[0] > 0.01 * 0.01 && sum_bias[0] > 0.01 * 0.01);
    CU_ASSERT(fabs(sqrt(sum[1]) - 0.01) < 1e-5 && fabs(sqrt(sum_bias[1]) - 0.01) < 1e-5);
    CU_ASSERT(apart < 1e-6);
}

/* ---- losses ------------------------------------------------------------------------------ */

static sw_value twice(sw_ctx *ctx, sw_value logits, sw_value labels, void *user)
{
    ++*(int *)user;
    return sw_scale_by(ctx, sw_softmax_ce(ctx, logits, labels), 2);
}

SW_TEST("genomes bring their loss")
{
    int calls = 0;
    const sw_named_loss losses[] = {{.name = "twice", .fn = twice, .user = &calls}};
    const sw_net_opts opts = SW_OPTS(sw_net_opts, .losses = losses, .n_losses = 1);
    sw_exec *exec = scene_exec(1);
    double loss[2];
    for (int k = 0; k < 2; k++) {
        sw_genome *g = scene_genome(7, 0, 0);
        scene_linear(g, "fc", 0, 10);
        snprintf(g->loss, sizeof g->loss, "%s", k == 0 ? "cross_entropy" : "twice");
        scene_check(g);
        sw_net *made = scene_ready(g, &opts, exec, 1);
        const scene_batch b = scene_data(g, SW_F32, 8, 2);
        loss[k] = train(exec, made, &b, 1, 0);
    }
    CU_ASSERT_EQUAL(calls, 1);
    CU_ASSERT(fabs(loss[1] - 2 * loss[0]) < 1e-6);
}

/* ---- utility ----------------------------------------------------------------------------- */

static void average(sw_dtype compute)
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .compute = compute));
    sw_genome *g = scene_lenet();
    sw_net *made = scene_ready(g, &SW_OPTS(sw_net_opts, .utility = 1), exec, 1);
    const scene_batch b = scene_data(g, SW_U8, 16, 2);
    sw_neuron_utility u[16];
    CU_ASSERT_EQUAL(scene_utilities(made, made->model->base, u), 5);
    train(exec, made, &b, 2, 0);
    for (int k = 0; k < 5; k++)
        for (int64_t i = 0; i < u[k].n; i++)
            CU_ASSERT(u[k].values[i] == 0);
    train(exec, made, &b, 2, 1);
    for (int k = 0; k < 5; k++) {
        double sum = 0;
        CU_ASSERT_EQUAL(u[k].n, g->vertices[u[k].vertex].channels);
        for (int64_t i = 0; i < u[k].n; i++)
            sum += (double)u[k].values[i];
        SW_CHECK(sum > 0 && isfinite(sum), "vertex %u: %g", u[k].vertex, sum);
    }
    CU_ASSERT_PTR_NOT_NULL(sw_param_find(sw_net_model(made), "conv1.utility").model);
    CU_ASSERT(sw_param_find(sw_net_model(made), "fc3.utility").index != 0);
}

SW_TEST("utilities are averaged in variant 1, in both types")
{
    average(SW_F32);
    average(SW_BF16);
}

/* Bits of training do not depend on whether utilities are averaged. */
SW_TEST("utilities change no parameter")
{
    const sw_net_opts opts = SW_OPTS(sw_net_opts, .utility = 1);
    sw_exec *exec = scene_exec(1);
    sw_genome *g = scene_lenet();
    const scene_batch b = scene_data(g, SW_U8, 16, 2);
    sw_net *plain = scene_ready(g, &opts, exec, 1), *with = scene_ready(g, &opts, exec, 1);
    train(exec, plain, &b, 3, 0);
    train(exec, with, &b, 3, 1);
    CU_ASSERT(memcmp(plain->model->base, with->model->base,
                     plain->model->role_bytes[SWI_ROLE_PARAMETER]) == 0);
}

/* ---- what is refused --------------------------------------------------------------------- */

SW_TEST("misuse is refused")
{
    sw_genome *g = scene_lenet();
    sw_net *made = NULL;
    sw_net_opts opts = SW_OPTS(sw_net_opts);
    opts.n_scales = 5;
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "n_scales");
    opts.n_scales = 3;
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "0, 1 or 1");
    opts.n_scales = 1;
    opts.scale[0] = NAN;
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "finite");
    opts = SW_OPTS(sw_net_opts, .state_bits = 4);
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "state_bits must be 0, 8 or 32");
    opts = SW_OPTS(sw_net_opts, .n_losses = 1);
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "losses");
    sw_named_loss loss = {.name = "cross_entropy", .fn = twice};
    opts.losses = &loss;
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "cross_entropy");
    loss.name = "twice";
    loss.reserved[1] = 1;
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "reserved");
    loss.reserved[1] = 0;
    snprintf(g->loss, sizeof g->loss, "thrice");
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "'cross_entropy', 'twice'");
    opts = SW_OPTS(sw_net_opts, .utility_rate = 1.5f);
    REFUSED(sw_net_create(&made, g, &opts), SW_INVALID, "utility_rate");
    CU_ASSERT_PTR_NULL(made);
    CU_ASSERT_PTR_NULL(sw_net_model(NULL));
    CU_ASSERT_PTR_NULL(sw_net_optimizer(NULL));
    CU_ASSERT_PTR_NULL(sw_net_genome(NULL));
    sw_net_destroy(NULL);
}

SW_TEST("wrong inputs are refused by their shape")
{
    sw_exec *exec = scene_exec(1);
    sw_genome *g = scene_lenet();
    sw_net *made = scene_ready(g, NULL, exec, 1);
    scene_batch b = scene_data(g, SW_U8, 4, 2);
    sw_run_args args = SCENE_ARGS(made, &b, SW_TRAIN);
    b.in[0].shape = SW_SHAPE(4, 784);
    REFUSED(sw_run(exec, &args), SW_INVALID, "(batch, 1, 28, 28)");
    b.in[0].shape = SW_SHAPE(2, 1, 14, 28);
    REFUSED(sw_run(exec, &args), SW_INVALID, "(2, 1, 14, 28)");
    b.in[0].shape = SW_SHAPE(4, 1, 28, 28);
    OK(sw_run(exec, &args));
}

SW_TEST("a net keeps a genome of its own")
{
    sw_exec *exec = scene_exec(1);
    sw_genome *g = scene_lenet(), *copy = NULL;
    OK(sw_genome_copy(&copy, g));
    sw_net *made = scene_net(copy, NULL);
    sw_genome_destroy(copy);
    CU_ASSERT_EQUAL(swi_genome_hash(sw_net_genome(made)), swi_genome_hash(g));
    const scene_batch b = scene_data(g, SW_U8, 4, 2);
    OK(sw_run(exec, &SCENE_ARGS(made, &b, SW_TRAIN)));
    CU_ASSERT_PTR_EQUAL(sw_net_model(made), made->model);
    CU_ASSERT_PTR_EQUAL(sw_net_optimizer(made), made->optimizer);
}

static sw_status make_one(void *genome)
{
    sw_net *made;
    SW_TRY(sw_net_create(&made, genome, &SW_OPTS(sw_net_opts, .utility = 1)));
    sw_net_destroy(made);
    return SW_OK;
}

SW_TEST("making survives every failure")
{
    sw_genome *g = scene_lenet();
    g->clip = 1;
    scene_check(g);
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, make_one, g);
    CU_ASSERT(sites > 8);
}
