/* Shared by all models: declaring, the losses of the tasks, the step function, chains of
 * layers. */
#include "alloc/base/mem.h"
#include "tools/models/models.h"

tool_task tool_task_of(const sw_dataset_info *data)
{
    const sw_array *target = &data->field[1];
    if (data->n_fields == 4)
        return TOOL_DOCUMENTS;
    if (target->dtype == SW_F32)
        return TOOL_REGRESS;
    return target->shape.rank == 0 ? TOOL_CLASSIFY : TOOL_PREDICT;
}

bool tool_has_pixels(const sw_dataset_info *data)
{
    return data->field[0].dtype == SW_U8 && tool_task_of(data) != TOOL_PREDICT;
}

int64_t tool_field_elements(const tool_net_opts *opts, int field)
{
    const sw_shape *shape = &opts->data.field[field].shape;
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++)
        n *= shape->dim[i];
    return n;
}

/* ---- step -------------------------------------------------------------------------------- */

/* Bytes are moved, which are a quarter of the numbers that they become. */
static sw_value augmented(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    const tool_augment *a = &net->augment;
    if (a->flip == 0.0f && a->crop == 0)
        return x;
    sw_scope_begin(ctx, "augment");
    if (a->flip > 0.0f)
        x = sw_random_flip(ctx, x, a->flip);
    if (a->crop > 0)
        x = sw_random_crop(ctx, x, a->crop);
    sw_scope_end(ctx);
    return x;
}

static sw_value features(sw_ctx *ctx, const tool_net *net)
{
    const sw_value x = augmented(ctx, net, sw_input(ctx, 0));
    return net->channels > 0 ? sw_to_f32_channels(ctx, x, net->scale, net->shift, net->channels)
                             : x;
}

static sw_value in_shape_of(sw_ctx *ctx, sw_value x, sw_value y)
{
    sw_shape shape = {sw_rank(ctx, y), {0}};
    if (shape.rank == sw_rank(ctx, x))
        return x;
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = sw_dim(ctx, y, i);
    return sw_reshape(ctx, x, shape);
}

/* With `shows` what the samples come to leaves the run. */
static sw_value supervised(sw_ctx *ctx, const tool_net *net, bool shows)
{
    const sw_value x = features(ctx, net), y = sw_input(ctx, 1);
    const sw_value out = net->kind->forward(ctx, net, x);
    if (shows)
        sw_output(ctx, TOOL_SCORES, out);
    if (net->task == TOOL_REGRESS)
        return sw_mse(ctx, in_shape_of(ctx, out, y), y);
    const sw_value loss = sw_softmax_ce(ctx, out, y);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, out, y));
    return loss;
}

/* Loss, metrics and, in training mode, gradients: of the mean over the whole step where a step
 * has several micro-batches. */
static void learn(sw_ctx *ctx, tool_net *net)
{
    sw_value loss =
        net->kind->loss != NULL ? net->kind->loss(ctx, net) : supervised(ctx, net, false);
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) != SW_TRAIN)
        return;
    if (net->accumulates) {
        sw_set_phase(ctx, SW_LOSS);
        loss = sw_scale(ctx, loss, net->share);
        sw_clear_phase(ctx);
    }
    sw_backward(ctx, loss, &net->optimizer, 1);
}

void tool_net_micro_step(sw_ctx *ctx, void *user)
{
    tool_net *net = user;
    learn(ctx, net);
    sw_accumulate(ctx, net->optimizer);
}

void tool_net_share(tool_net *net, double share)
{
    sw_knob_set(net->share, (float)share);
}

void tool_net_step(sw_ctx *ctx, void *user)
{
    tool_net *net = user;
    learn(ctx, net);
    if (sw_ctx_mode(ctx) != SW_TRAIN)
        return;
    if (net->clipped)
        sw_clip_norm(ctx, net->optimizer, net->clip);
    sw_update(ctx, net->optimizer);
}

void tool_net_eval_step(sw_ctx *ctx, void *user)
{
    const tool_net *net = user;
    sw_metric(ctx, "loss",
              net->kind->loss != NULL ? net->kind->loss(ctx, net) : supervised(ctx, net, true));
}

void tool_net_predict_step(sw_ctx *ctx, void *user)
{
    const tool_net *net = user;
    const sw_value out = net->kind->forward(ctx, net, features(ctx, net));
    sw_output(ctx, TOOL_SCORES, net->task == TOOL_CLASSIFY ? sw_softmax(ctx, out) : out);
}

/* ---- chains ------------------------------------------------------------------------------ */

void tool_chain_add(tool_net *net, tool_chain *chain, int64_t in, int64_t out)
{
    char name[16];
    snprintf(name, sizeof name, "fc%d", chain->n + 1);
    chain->layer[chain->n++] = sw_linear_new(net->model, name, in, out);
}

void tool_chain_drop(tool_net *net, const tool_net_opts *o)
{
    if (!o->knobs)
        return;
    net->dropout = sw_knob_new(net->model, "dropout", (float)o->settings.dropout);
    net->drops = 1;
}

static sw_value drop(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    const double rate = net->settings.dropout;
    if (net->drops)
        return sw_dropout_knob(ctx, x, net->dropout);
    return rate > 0.0 ? sw_dropout(ctx, x, (float)rate) : x; /* below 0: not taken */
}

sw_value tool_chain_apply(sw_ctx *ctx, const tool_net *net, const tool_chain *chain, sw_value x)
{
    char name[16];
    for (int i = 0; i < chain->n; i++) {
        x = sw_apply_linear(ctx, chain->layer[i], x);
        if (i + 1 == chain->n && !chain->active_end)
            break;
        snprintf(name, sizeof name, "fc%d", i + 1);
        sw_scope_begin(ctx, name); /* what follows a layer counts as part of it in reports */
        x = drop(ctx, net, tool_activate(ctx, net, x));
        sw_scope_end(ctx);
    }
    return x;
}

/* ---- declaring --------------------------------------------------------------------------- */

sw_status tool_net_own(tool_net *net, size_t bytes)
{
    SW_TRY(sw_heap_alloc(&net->own, SW_HEAP_RECORDS, bytes));
    net->own_bytes = bytes;
    return SW_OK;
}

static const char *task_name(tool_task task)
{
    return task == TOOL_CLASSIFY  ? "classes"
           : task == TOOL_REGRESS ? "numbers"
           : task == TOOL_PREDICT ? "sequences"
                                  : "documents";
}

/* Can a model, with settings of its own, learn what these data have? */
static bool takes_data(const tool_model *model, const tool_net_opts *like)
{
    tool_net_opts o = *like;
    o.model = model;
    o.settings = TOOL_SETTINGS_NONE;
    return (model->learns & tool_task_of(&o.data)) != 0 &&
           tool_settings_complete(model, &o.settings) == CLI_GO &&
           (model->accepts == NULL || model->accepts(&o) == SW_OK);
}

/* The data are not for this model: say which models they are for. */
static sw_status refuse_data(const tool_net_opts *o, const char *why)
{
    const char *takers[16];
    char list[200] = "";
    int n = 0;
    size_t used = 0;
    for (int i = 0; tool_model_at(i) != NULL && n < 16; i++)
        if (takes_data(tool_model_at(i), o))
            takers[n++] = tool_model_at(i)->name;
    for (int i = 0; i < n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 i == 0       ? ""
                                 : i + 1 == n ? " or "
                                              : ", ",
                                 takers[i]);
    if (n == 0)
        SW_FAIL(SW_INVALID, "%s; no model takes these data", why);
    SW_FAIL(SW_INVALID, "%s; --model %s takes these data", why, list);
}

static sw_status check_data(const tool_net_opts *o)
{
    const tool_task task = tool_task_of(&o->data);
    char why[400];
    if ((o->model->learns & task) == 0) {
        snprintf(why, sizeof why, "%s does not learn %s, which is what %s has", o->model->name,
                 task_name(task), o->data.name != NULL ? o->data.name : "the data set");
        return refuse_data(o, why);
    }
    if (o->model->accepts == NULL || o->model->accepts(o) == SW_OK)
        return SW_OK;
    snprintf(why, sizeof why, "%s", sw_last_error());
    if (!takes_data(o->model, o))
        return refuse_data(o, why);
    SW_FAIL(SW_INVALID, "%s", why); /* not the data: a setting */
}

sw_status tool_net_accepts(const tool_net_opts *o)
{
    SW_TRY(check_data(o));
    if (o->settings.dropout >= 1.0)
        SW_FAIL(SW_INVALID, "%s: --dropout must be below 1 (got %g)", o->model->name,
                o->settings.dropout);
    const sw_shape *s = &o->data.field[0].shape;
    if (o->augment.flip == 0.0f && o->augment.crop == 0)
        return SW_OK;
    if (!tool_has_pixels(&o->data) || s->rank != 3 || o->model->forward == NULL)
        SW_FAIL(SW_INVALID,
                "%s: --augment is for images (channels, height, width), and %s has none",
                o->model->name, o->data.name);
    if (o->augment.crop >= s->dim[1] || o->augment.crop >= s->dim[2])
        SW_FAIL(SW_INVALID,
                "%s: --augment crop must be below the side of images, %lld x %lld (got %d)",
                o->model->name, (long long)s->dim[1], (long long)s->dim[2], o->augment.crop);
    return SW_OK;
}

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    SW_TRY(tool_net_accepts(o));
    net->kind = o->model;
    net->task = tool_task_of(&o->data);
    net->settings = o->settings;
    net->augment = o->augment;
    if (tool_has_pixels(&o->data)) {
        net->channels = o->pixels.n > 0 ? o->pixels.n : 1;
        net->scale[0] = 1.0f / 255.0f;
        for (int i = 0; i < o->pixels.n; i++) {
            net->scale[i] = 1.0f / (255.0f * o->pixels.deviation[i]);
            net->shift[i] = -o->pixels.mean[i] / o->pixels.deviation[i];
        }
    }
    SW_TRY(o->model->declare(net, o));
    if (o->clip > 0.0f) {
        net->clip = sw_knob_new(net->model, "clip", o->clip);
        net->clipped = 1;
    }
    if (o->accumulate) {
        net->share = sw_knob_new(net->model, "share", 1.0f);
        net->accumulates = 1;
    }
    return o->optimizer.kind == NULL
               ? SW_OK
               : sw_optimizer_create(&net->optimizer, net->model, &o->optimizer);
}

sw_status tool_net_create(tool_net *net, const tool_net_opts *opts)
{
    tool_net fresh = {0};
    SW_TRY(sw_model_create(&fresh.model, opts->model->name));
    fresh.models[0] = fresh.model;
    const sw_status status = declare(&fresh, opts);
    if (status == SW_OK)
        *net = fresh;
    else
        tool_net_destroy(&fresh);
    return status;
}

void tool_net_destroy(tool_net *net)
{
    sw_model_destroy(net->model);
    sw_model_destroy(net->models[1]);
    sw_heap_free(net->own, SW_HEAP_RECORDS, net->own_bytes);
    *net = (tool_net){0};
}

sw_status tool_net_digits(tool_net_opts *opts, const char *model)
{
    *opts = (tool_net_opts){
        .model = tool_model_find(model),
        .settings = TOOL_SETTINGS_NONE,
        .data = SW_INIT(.size = sizeof opts->data, .n_classes = 10, .n_fields = 2,
                        .field = {{SW_U8, SW_SHAPE(1, 28, 28), NULL}, {SW_U8, SW_SCALAR, NULL}},
                        .name = "synthetic"),
        .pixels = {1, {0.1307f}, {0.3081f}}, /* MNIST's */
        .optimizer = {.size = sizeof opts->optimizer, .kind = "adam"}};
    if (opts->model == NULL || tool_settings_complete(opts->model, &opts->settings) != CLI_GO)
        SW_FAIL(SW_INVALID, "'%s' is not a model, or its defaults are not valid", model);
    return SW_OK;
}
