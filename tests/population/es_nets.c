#include "tests/population/es_nets.h"
#include "kernels/noise.h"
#include "runtime/population/es/es_internal.h"

const char *const es_net_names[ES_NETS] = {"mlp", "conv", "tokens", "vectors", "words"};

const char *const es_noises[ES_NOISES] = {
    "low-rank",  "iid",          "permuted",      "permuted-in", "permuted-out",
    "sign-flip", "sign-flip-in", "sign-flip-out", "sparse",      "dropout"};

enum {
    IN = 11,
    HIDDEN = 18,
    OUT = 5,
    CHANNELS = 3,
    SIDE = 7,
    WORDS = 13,
    WIDTH = 8,
    LENGTH = 6
};

static sw_value logits_of(sw_ctx *ctx, es_net *t)
{
    sw_value x = sw_input(ctx, 0);
    switch (t->kind) {
    case ES_MLP:
        x = sw_apply_layer_norm(ctx, t->norm, sw_apply_linear(ctx, t->f1, x));
        return sw_apply_linear(ctx, t->f2, sw_swish(ctx, x));
    case ES_CONV:
        x = sw_apply_batch_norm2d(ctx, t->bn, sw_apply_conv2d(ctx, t->c1, x));
        x = sw_apply_conv2d(ctx, t->c2, sw_relu(ctx, x));
        x = sw_add(ctx, x, sw_use(ctx, t->channels));
        return sw_apply_linear(ctx, t->f1, sw_flatten(ctx, sw_avg_pool(ctx, x, 2)));
    case ES_TOKENS:
        x = sw_apply_embedding(ctx, t->table, x);
        x = sw_add(ctx, x, sw_slice(ctx, sw_use(ctx, t->places), 0, 1, LENGTH));
        x = sw_add(ctx, x, sw_attention(ctx, x, x, x, 2, 1, 0.0f));
        x = sw_apply_rms_norm(ctx, t->rms, x);
        x = sw_reshape(ctx, x, SW_SHAPE(-1, WIDTH));
        return sw_linear_op(ctx, x, sw_use(ctx, t->table.weight), (sw_value){0, 0});
    default:
        x = sw_mul(ctx, x, sw_use(ctx, t->gain));
        x = sw_tanh(ctx, sw_add(ctx, sw_use(ctx, t->shift), x));
        return sw_apply_linear(ctx, t->f1, x);
    }
}

/* The logits of a chunk at a time. */
static void words_step(sw_ctx *ctx, es_net *t)
{
    sw_value x = sw_apply_embedding(ctx, t->table, sw_input(ctx, 0));
    x = sw_reshape(ctx, sw_swish(ctx, sw_apply_rms_norm(ctx, t->rms, x)), SW_SHAPE(-1, WIDTH));
    const sw_value labels = sw_reshape(ctx, sw_input(ctx, 1), SW_SHAPE(-1));
    const sw_value loss = sw_linear_ce_with(ctx, x, sw_use(ctx, t->f1.weight),
                                            sw_use(ctx, t->f1.bias), labels, 0.1f, 3);
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &t->opt, 1);
    sw_update(ctx, t->opt);
}

void es_net_step(sw_ctx *ctx, void *user)
{
    es_net *t = user;
    if (t->kind == ES_WORDS) {
        words_step(ctx, t);
        return;
    }
    const sw_value logits = logits_of(ctx, t);
    const sw_value labels = sw_reshape(ctx, sw_input(ctx, 1), SW_SHAPE(-1));
    const sw_value loss = sw_softmax_ce(ctx, logits, labels);
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, logits, labels));
    sw_metric(ctx, "size", sw_mean(ctx, sw_mul(ctx, logits, logits), 0));
    sw_backward(ctx, loss, &t->opt, 1);
    sw_update(ctx, t->opt);
}

static void declare(es_net *t)
{
    sw_model *m = t->model;
    switch (t->kind) {
    case ES_MLP:
        t->f1 = sw_linear_new(m, "f1", IN, HIDDEN);
        t->norm = sw_layer_norm_new(m, "norm", HIDDEN);
        t->f2 = sw_linear_new(m, "f2", HIDDEN, OUT);
        break;
    case ES_CONV: {
        const sw_conv_opts c2 = SW_OPTS(sw_conv_opts, .stride = 2, .pad = 1, .groups = 2);
        t->c1 = sw_conv2d_new(m, "c1", CHANNELS, 8, 3);
        t->c1.pad = 1;
        t->bn = sw_batch_norm2d_new(m, "bn", 8);
        t->c2 = sw_conv2d_new_with(m, "c2", 8, 6, 3, &c2);
        t->channels = sw_param_new(m, "channels", SW_F32, SW_SHAPE(6, 1, 1), "normal:0.1");
        t->f1 = sw_linear_new(m, "f1", 6 * 2 * 2, OUT);
        break;
    }
    case ES_TOKENS:
        t->table = sw_embedding_new(m, "table", WORDS, WIDTH);
        t->places =
            sw_param_new(m, "places", SW_F32, SW_SHAPE(LENGTH + 2, WIDTH), "normal:0.1");
        t->rms = sw_rms_norm_new(m, "rms", WIDTH);
        break;
    case ES_WORDS:
        t->table = sw_embedding_new(m, "table", WORDS, WIDTH);
        t->rms = sw_rms_norm_new(m, "rms", WIDTH);
        t->f1 = sw_linear_new(m, "f1", WIDTH, WORDS);
        break;
    default:
        t->gain = sw_param_new(m, "gain", SW_F32, SW_SHAPE(IN), "ones");
        t->shift = sw_param_new(m, "shift", SW_F32, SW_SHAPE(IN), "zeros");
        t->f1 = sw_linear_new(m, "f1", IN, OUT);
    }
}

static void end_net(void *p)
{
    es_net *t = p;
    sw_es_destroy(t->es);
    sw_model_destroy(t->model);
    free(t);
}

es_net *es_net_new(es_net_kind kind, const sw_es_opts *es, const sw_optimizer_opts *optimizer)
{
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 1.0f);
    es_net *t = calloc(1, sizeof *t);
    sw_after(end_net, t);
    t->kind = kind;
    OK(sw_model_create(&t->model, es_net_names[kind]));
    declare(t);
    OK(sw_optimizer_create(&t->opt, t->model, optimizer != NULL ? optimizer : &sgd));
    if (es != NULL)
        OK(sw_es_create(&t->es, t->opt, es));
    return t;
}

es_batch es_batch_new(es_net_kind kind, int64_t rows, uint64_t seed)
{
    es_batch b;
    const sw_shape images = SW_SHAPE(rows, CHANNELS, SIDE, SIDE), vectors = SW_SHAPE(rows, IN);
    const sw_shape tokens = SW_SHAPE(rows, LENGTH), labels = SW_SHAPE(rows);
    const bool words = kind == ES_TOKENS || kind == ES_WORDS;
    b.in[0] = (sw_array){words ? SW_I32 : SW_F32,
                         words             ? tokens
                         : kind == ES_CONV ? images
                                           : vectors,
                         NULL};
    b.in[1] = (sw_array){SW_I32, words ? tokens : labels, NULL};
    sw_dice dice = {seed};
    for (int i = 0; i < 2; i++) {
        int64_t n = 1;
        for (int k = 0; k < b.in[i].shape.rank; k++)
            n *= b.in[i].shape.dim[k];
        int32_t *data = calloc((size_t)n, 4);
        sw_after(free, data);
        for (int64_t k = 0; k < n; k++) {
            const uint64_t r = sw_dice_next(&dice);
            if (b.in[i].dtype == SW_F32)
                ((float *)(void *)data)[k] = (float)(r % 2001) / 1000.0f - 1.0f;
            else
                data[k] = (int32_t)(r % (words ? WORDS : OUT));
        }
        b.in[i].data = data;
        b.row_bytes[i] = (size_t)(n / rows) * 4;
    }
    return b;
}

es_batch es_batch_rows(const es_batch *of, int64_t from, int64_t n)
{
    es_batch b = *of;
    for (int i = 0; i < 2; i++) {
        b.in[i].shape.dim[0] = n;
        b.in[i].data = (const char *)of->in[i].data + (size_t)from * b.row_bytes[i];
    }
    return b;
}

static void perturb(const swi_noise_mode *mode, sw_model *model, uint32_t e, uint32_t direction,
                    float scale, float sigma)
{
    const swi_entry *entry = &model->entries[e];
    const size_t n = entry->bytes / 4;
    const sw_param p = {model, e};
    const sw_noise_at at = {mode->seed, (uint32_t)mode->generation, direction};
    sw_noise_spec s;
    sw_noise_direction d;
    float *theta = malloc(entry->bytes), *sigmas = malloc(entry->bytes);
    swi_noise_spec(&s, &mode->like, mode->in_share, mode->out_share, &entry->shape,
                   swi_noise_stream(entry->name));
    sw_noise_prepare(&d, &s, &at, sigma);
    OK(sw_param_read(p, theta, entry->bytes));
    for (size_t i = 0; i < n; i++)
        sigmas[i] = 1.0f;
    if (mode->sigmas != NULL)
        memcpy(sigmas, model->base + model->entries[mode->sigmas[e]].offset, entry->bytes);
    for (size_t i = 0; s.rows != 0 && i < n; i++)
        theta[i] +=
            scale * sigmas[i] *
            sw_noise_element(&s, &d, (int64_t)i / s.cols, (int64_t)i % s.cols, theta[i]);
    OK(sw_param_write(p, theta, entry->bytes));
    free(theta);
    free(sigmas);
}

void es_perturb_by_hand(const sw_es *es, sw_model *to, uint32_t direction, float sign)
{
    const float sigma = sw_knob_get((sw_knob){es->mode.model, es->mode.sigma});
    for (uint32_t e = 1; e < to->n_entries; e++)
        if (swi_is_perturbed(&es->mode, &to->entries[e]))
            perturb(&es->mode, to, e, direction, sign * sigma, sigma);
}

void es_member_by_hand(const es_net *t, es_net *to, uint32_t direction, float sign)
{
    OK(sw_model_copy(to->model, t->model));
    es_perturb_by_hand(t->es, to->model, direction, sign);
}
