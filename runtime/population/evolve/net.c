/* Nets: what a genome declares in a model - layers, states of utility, the optimizer. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "runtime/autograd/autograd.h"
#include "runtime/base/owner.h"
#include "runtime/exec/run_internal.h"
#include "runtime/model/model.h"
#include "runtime/ops/ops.h"
#include "runtime/population/evolve/net.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* sw_net_inherit: models of nets, wherever they lie. */

/* The bytes of a model in host memory: its own, or a copy of a device's. */
typedef struct {
    unsigned char *bytes;
    void *copy; /* NULL: they are its own */
} host_bytes;

static sw_status open_bytes(const sw_model *model, bool read, host_bytes *out)
{
    *out = (host_bytes){.bytes = model->base};
    if (model->device->backend->host_memory)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&out->copy, SW_HEAP_FILES, model->bytes));
    out->bytes = out->copy;
    return read ? swi_model_read(model, out->bytes, 0, model->bytes) : SW_OK;
}

static void close_bytes(const sw_model *model, host_bytes *b)
{
    if (b->copy != NULL)
        sw_heap_free(b->copy, SW_HEAP_FILES, model->bytes);
}

static sw_status inherit(const sw_net *to, unsigned char *bytes, const sw_net *a,
                         const sw_net *b, uint64_t seed)
{
    host_bytes of_a = {NULL, NULL}, of_b = {NULL, NULL};
    sw_status status = open_bytes(a->model, true, &of_a);
    if (status == SW_OK && b != NULL)
        status = open_bytes(b->model, true, &of_b);
    if (status == SW_OK)
        status = swi_net_inherit(to, bytes, a, of_a.bytes, b, of_b.bytes, seed);
    close_bytes(a->model, &of_a);
    if (b != NULL)
        close_bytes(b->model, &of_b);
    return status;
}

/* On a device the whole is written at once; one that fails then leaves `to` damaged. */
static sw_status inherit_into(sw_net *to, const sw_net *a, const sw_net *b, uint64_t seed)
{
    host_bytes own;
    sw_status status = open_bytes(to->model, false, &own);
    to->model->drawn = false;
    if (status == SW_OK)
        status = inherit(to, own.bytes, a, b, seed);
    if (status == SW_OK && own.copy != NULL) {
        status = swi_model_write(to->model, 0, own.bytes, to->model->bytes);
        to->model->damaged |= status != SW_OK;
    }
    close_bytes(to->model, &own);
    SW_TRY(status);
    if (to->model->n_knobs > 0)
        swi_knobs_changed(to->model);
    to->model->damaged = false;
    return SW_OK;
}

static sw_status check_net(const sw_net *net, bool whole, const char *what, const char *call)
{
    SW_TRY(sw_handle_check(net, SW_HANDLE_NET, call));
    if (!net->model->ready)
        SW_FAIL(SW_INVALID, "%s: the model of %s, %s, must be ready: call sw_model_ready first",
                call, what, net->model->name);
    if (whole && net->model->damaged)
        SW_FAIL(SW_STALE, "%s: the model of %s, %s, failed after an update; restore it first",
                call, what, net->model->name);
    return SW_OK;
}

sw_status sw_net_inherit(sw_net *to, const sw_net *a, const sw_net *b, uint64_t seed)
{
    SW_TRY(check_net(to, false, "the net that inherits", __func__));
    SW_TRY(check_net(a, true, "a", __func__));
    SW_TRY(b != NULL ? check_net(b, true, "b", __func__) : SW_OK);
    if (to == a || to == b)
        SW_FAIL(SW_INVALID, "%s: a net cannot be its own parent", __func__);
    /* The models of all of them, each once. */
    sw_model *const models[3] = {to->model, a->model, b != NULL ? b->model : NULL};
    const int all = b == NULL || b == a ? 2 : 3;
    int n = 0;
    sw_status status = SW_OK;
    while (n < all && (status = swi_model_take(models[n])) == SW_OK)
        n++;
    if (status == SW_OK)
        status = inherit_into(to, a, b, seed);
    while (n > 0)
        swi_model_give(models[--n]);
    return status;
}

/* ---- first values ------------------------------------------------------------------------ */

sw_status swi_net_fill(sw_net *net, const unsigned char *bytes, size_t n)
{
    sw_model *model = net->model;
    SW_ASSERT(model->bytes == n);
    SW_TRY(swi_model_write(model, 0, bytes, n));
    if (model->n_knobs > 0)
        swi_knobs_set(model, bytes + model->entries[model->knob_entry].offset,
                      sw_dtype_bytes(SW_F32));
    return SW_OK;
}

static sw_status begin(sw_net *net, sw_exec *exec, uint64_t seed, unsigned char *bytes)
{
    SW_TRY(sw_model_ready(net->model, exec, seed));
    SW_TRY(swi_net_begin(net, bytes, seed));
    SW_TRY(swi_model_take(net->model));
    const sw_status status = swi_net_fill(net, bytes, net->model->bytes);
    swi_model_give(net->model);
    return status;
}

sw_status sw_net_ready(sw_net *net, sw_exec *exec, uint64_t seed)
{
    void *bytes;
    size_t n;
    SW_TRY(sw_handle_check(net, SW_HANDLE_NET, "sw_net_ready"));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_net_ready"));
    SW_TRY(sw_model_bytes(net->model, &n));
    SW_TRY(sw_heap_alloc(&bytes, SW_HEAP_FILES, n));
    const sw_status status = begin(net, exec, seed, bytes);
    sw_heap_free(bytes, SW_HEAP_FILES, n);
    return status;
}

#define NO_KNOB UINT32_MAX

/* ---- options ----------------------------------------------------------------------------- */

static sw_status read_opts(sw_net_opts *to, const sw_net_opts *given, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_net_opts, to, given, call));
    if (to->n_scales < 0 || to->n_scales > 4)
        SW_FAIL(SW_INVALID, "%s: n_scales must be 0 to 4 (got %d)", call, to->n_scales);
    for (int i = 0; i < to->n_scales; i++)
        if (!isfinite(to->scale[i]) || !isfinite(to->shift[i]))
            SW_FAIL(SW_INVALID, "%s: scale and shift of channel %d must be finite", call, i);

    if (to->n_losses < 0 || (to->n_losses > 0 && to->losses == NULL))
        SW_FAIL(SW_INVALID, "%s: losses must not be NULL for n_losses %d", call, to->n_losses);
    for (int j = 0; j < to->n_losses; j++) {
        const sw_named_loss *l = &to->losses[j];
        if (l->name == NULL || l->fn == NULL)
            SW_FAIL(SW_INVALID, "%s: loss %d must have a name and a function", call, j);
        if (l->reserved[0] != 0 || l->reserved[1] != 0)
            SW_FAIL(SW_INVALID, "%s: loss '%s': reserved words must be zero", call, l->name);
        if (strcmp(l->name, "cross_entropy") == 0)
            SW_FAIL(SW_INVALID,
                    "%s: loss %d: 'cross_entropy' is there already: give it another name", call,
                    j);
    }

    if (to->utility_rate == 0)
        to->utility_rate = 0.05f;
    if (!(to->utility_rate > 0 && to->utility_rate <= 1))
        SW_FAIL(SW_INVALID, "%s: utility_rate must be above 0 and at most 1 (got %g)", call,
                (double)to->utility_rate);
    if (to->n_scales == 0) {
        to->n_scales = 1;
        to->scale[0] = 1.0f / 255;
        to->shift[0] = 0;
    }
    return SW_OK;
}

static sw_status find_loss(sw_net *net, const char *call)
{
    const char *name = net->genome->loss;
    char known[200] = "";
    size_t used = 0;
    if (strcmp(name, "cross_entropy") == 0)
        return SW_OK;
    for (int i = 0; i < net->opts.n_losses; i++) {
        const sw_named_loss *l = &net->opts.losses[i];
        if (strcmp(l->name, name) == 0) {
            net->loss = l->fn;
            net->loss_user = l->user;
            return SW_OK;
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, ", '%s'", l->name);
    }
    SW_FAIL(SW_INVALID,
            "%s: the loss of the genome must be 'cross_entropy'%s (got '%s'): give it in the "
            "losses of sw_net_opts",
            call, known, name);
}

/* ---- declarations ------------------------------------------------------------------------ */

/* Errors are the model's, which returns them when it is laid out. */
static void declare_vertex(sw_net *net, uint32_t i)
{
    const swi_vertex *v = &net->genome->vertices[i];
    swi_net_layer *layer = &net->layers[i];
    if (v->kind == SW_VERTEX_LINEAR) {
        const sw_linear l =
            sw_linear_new(net->model, v->name, swi_vertex_reads(net->genome, v), v->channels);
        layer->weight = l.weight;
        layer->bias = l.bias;
    } else if (v->kind == SW_VERTEX_CONV2D) {
        const sw_conv2d l = sw_conv2d_new_with(
            net->model, v->name, swi_vertex_reads(net->genome, v), v->channels, v->kernel,
            &SW_OPTS(sw_conv_opts, .stride = v->stride, .pad = swi_vertex_pad(v),
                     .groups = v->groups == 0 ? (int)v->channels : (int)v->groups,
                     .dilation = v->dilation));
        layer->weight = l.weight;
        layer->bias = l.bias;
    } else if (v->kind == SW_VERTEX_BATCH_NORM) {
        const sw_batch_norm2d l = sw_batch_norm2d_new(net->model, v->name, v->channels);
        layer->weight = l.weight;
        layer->bias = l.bias;
        layer->mean = l.running_mean;
        layer->variance = l.running_var;
    }
    if (net->opts.utility != 0 && swi_vertex_is_sized(v)) {
        char name[SWI_VERTEX_NAME + sizeof ".utility"];
        snprintf(name, sizeof name, "%s.utility", v->name);
        layer->utility = sw_state_new(net->model, name, SW_F32, SW_SHAPE(v->channels));
    }
}

/* The parameters that are updated at that time; how many. */
static size_t params_of(const sw_net *net, sw_update_time update, sw_param *out)
{
    const sw_genome *g = net->genome;
    size_t n = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (!swi_vertex_has_parameters(v) || swi_vertex_update(g, v) != update)
            continue;
        out[n++] = net->layers[i].weight;
        out[n++] = net->layers[i].bias;
    }
    return n;
}

static sw_status declare_optimizer(sw_net *net)
{
    const sw_genome *g = net->genome;
    static const sw_update_time times[2] = {SW_UPDATE_RELEASE, SW_UPDATE_AFTER};
    sw_param_group groups[2] = {{.n_params = 0}};
    size_t n_groups = 0, n_params = 0;
    sw_param *params;
    const size_t bytes = 2 * (size_t)g->n * sizeof(sw_param);
    SW_TRY(sw_heap_alloc(&params, SW_HEAP_RECORDS, bytes));
    for (int k = 0; k < 2; k++) {
        const size_t n = params_of(net, times[k], params + n_params);
        if (n == 0)
            continue;
        groups[n_groups++] = (sw_param_group){.params = params + n_params,
                                              .n_params = n,
                                              .weight_decay = g->weight_decay,
                                              .update = (int)times[k]};
        n_params += n;
    }
    sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = g->optimizer, .groups = groups, .n_groups = n_groups,
                .lr = g->lr, .weight_decay = g->weight_decay, .momentum = g->momentum,
                .state_bits = net->opts.state_bits);
    if (opts.state_bits == 8 && !swi_optimizer_has_state8(&opts))
        opts.state_bits = 0;
    const sw_status status = sw_optimizer_create(&net->optimizer, net->model, &opts);
    sw_heap_free(params, SW_HEAP_RECORDS, bytes);
    return status;
}

static sw_status declare(sw_net *net, const char *call)
{
    const sw_genome *g = net->genome;
    void *layers, *values;
    SW_TRY(find_loss(net, call));
    const swi_vertex *in = &net->genome->vertices[0];
    if (net->opts.n_scales > 1 && net->opts.n_scales != in->channels)
        SW_FAIL(SW_INVALID,
                "%s: n_scales must be 0, 1 or %lld, the channels of the input (got %d)", call,
                (long long)in->channels, net->opts.n_scales);

    net->opts.losses = NULL; /* the caller's, for the call */
    net->opts.n_losses = 0;
    SW_TRY(sw_heap_alloc(&layers, SW_HEAP_RECORDS, g->n * sizeof *net->layers));
    net->layers = layers;
    SW_TRY(sw_heap_alloc(&values, SW_HEAP_RECORDS, g->n * sizeof *net->values));
    net->values = values;
    SW_TRY(sw_model_create(&net->model, g->name[0] != '\0' ? g->name : "net"));
    for (uint32_t i = 0; i < g->n; i++)
        declare_vertex(net, i);
    net->clip = net->clip_norm = (sw_knob){net->model, NO_KNOB};
    if (g->clip > 0)
        net->clip = sw_knob_new(net->model, "clip", g->clip);
    if (g->clip_norm > 0)
        net->clip_norm = sw_knob_new(net->model, "clip_norm", g->clip_norm);
    SW_TRY(declare_optimizer(net));
    return swi_model_layout(net->model);
}

/* ---- making and ending ------------------------------------------------------------------- */

void swi_genome_net_free(sw_net *net)
{
    if (net == NULL)
        return;
    swi_model_free(net->model);
    sw_heap_free(net->layers, SW_HEAP_RECORDS, net->genome->n * sizeof *net->layers);
    sw_heap_free(net->values, SW_HEAP_RECORDS, net->genome->n * sizeof *net->values);
    swi_genome_free(net->own);
    sw_handle_give(net, SW_HANDLE_NET, sizeof *net);
}

sw_status swi_net_create(sw_net **out, const sw_genome *genome, const sw_net_opts *given,
                         const char *call)
{
    sw_net_opts opts;
    sw_net *net;
    SW_TRY(read_opts(&opts, given, call));
    SW_TRY(sw_handle_take(&net, SW_HANDLE_NET, sizeof(sw_net)));
    net->genome = genome;
    net->opts = opts;
    const sw_status status = declare(net, call);
    return SW_GIVE(status, out, net, swi_genome_net_free);
}

sw_status sw_net_create(sw_net **out, const sw_genome *genome, const sw_net_opts *opts)
{
    sw_genome *own;
    sw_net *net;
    SW_TRY(swi_given(out != NULL, "out", __func__));
    SW_TRY(sw_handle_check(genome, SW_HANDLE_GENOME, __func__));
    SW_TRY(sw_genome_copy(&own, genome));
    const sw_status status = swi_net_create(&net, own, opts, __func__);
    if (status != SW_OK) {
        swi_genome_free(own);
        return status;
    }
    net->own = own;
    *out = net;
    return SW_OK;
}

void sw_net_destroy(sw_net *net)
{
    if (!sw_handle_ends(net, SW_HANDLE_NET, __func__) ||
        sw_call_may_end(net->model, "model", __func__) != SW_OK)
        return;
    if (swi_owner_take(&net->model->busy))
        swi_genome_net_free(net);
    else
        (void)sw_error_set(SW_BUSY, __FILE__, __LINE__, "%s: model %s is in use by %s",
                           __func__, net->model->name, swi_owner_text(&net->model->busy));
}

sw_model *sw_net_model(sw_net *net)
{
    return sw_handle_check(net, SW_HANDLE_NET, "sw_net_model") == SW_OK ? net->model : NULL;
}

sw_optimizer *sw_net_optimizer(sw_net *net)
{
    return sw_handle_check(net, SW_HANDLE_NET, "sw_net_optimizer") == SW_OK ? net->optimizer
                                                                            : NULL;
}

const sw_genome *sw_net_genome(const sw_net *net)
{
    return sw_handle_check(net, SW_HANDLE_NET, "sw_net_genome") == SW_OK ? net->genome : NULL;
}

/* The price of training a genome: its net, traced and planned as a member of a group is, and
 * forgotten. */

/* Samples and labels of a batch, as data sets have them. */
static void inputs_of(const sw_genome *g, sw_dtype input, sw_array in[2])
{
    const swi_vertex *x = &g->vertices[0];
    const int64_t classes = g->vertices[g->n - 1].channels;
    in[0] = (sw_array){.dtype = input, .shape = SW_SHAPE(g->batch, x->channels)};
    if (x->height != 0)
        in[0].shape = SW_SHAPE(g->batch, x->channels, x->height, x->width);
    in[1] = (sw_array){.dtype = classes <= 256 ? SW_U8 : SW_I32, .shape = SW_SHAPE(g->batch)};
}

/* As feeds count a batch: each field rounded up. */
static sw_status batch_bytes(const sw_genome *g, const sw_array in[2], size_t *out)
{
    *out = 0;
    for (int i = 0; i < 2; i++) {
        int64_t n;
        size_t bytes;
        if (!sw_size_elements(in[i].shape.dim, in[i].shape.rank, &n) ||
            !sw_size_mul((size_t)n, sw_dtype_bytes(in[i].dtype), &bytes) ||
            !sw_size_align(bytes, SW_ALIGN, &bytes) || !sw_size_add(*out, bytes, out))
            SW_FAIL(SW_NOMEM, "the bytes of a batch of %lld samples overflow",
                    (long long)g->batch);
    }
    return SW_OK;
}

static sw_status look(sw_net *net, sw_exec *exec, const sw_array in[2], uint64_t variant,
                      sw_plan_info *out)
{
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = sw_net_step, .user = net,
                                     .models = &net->model, .n_models = 1, .inputs = in,
                                     .n_inputs = 2, .mode = SW_TRAIN, .variant = variant);
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const sw_status status = swi_exec_look(exec, &args, 1, out);
    swi_leave(exec, &args);
    return status;
}

static sw_status price_net(sw_net *net, sw_exec *exec, sw_dtype input, sw_price *price)
{
    sw_array in[2];
    sw_plan_info info, with;
    inputs_of(net->genome, input, in);
    SW_TRY(batch_bytes(net->genome, in, &price->batch_bytes));
    SW_TRY(look(net, exec, in, 0, &info));
    if (net->opts.utility != 0) { /* a step may be of either variant */
        SW_TRY(look(net, exec, in, 1, &with));
        info.arena_bytes =
            with.arena_bytes > info.arena_bytes ? with.arena_bytes : info.arena_bytes;
    }
    /* As for members: a range has at least SW_ALIGN bytes. */
    const sw_genome *g = net->genome;
    price->model_bytes = net->model->bytes > 0 ? net->model->bytes : SW_ALIGN;
    price->arena_bytes = info.arena_bytes;
    if (!sw_size_add(price->model_bytes, price->arena_bytes, &price->peak_bytes) ||
        !sw_size_add(price->peak_bytes, price->batch_bytes, &price->peak_bytes))
        SW_FAIL(SW_NOMEM, "the bytes of model %s, its step and its batch overflow",
                net->model->name);
    price->operations = info.operations;
    price->operations_per_sample = (double)info.operations / (double)g->batch;
    price->parameters = swi_genome_parameters(g);
    return SW_OK;
}

sw_status sw_genome_price(const sw_genome *genome, sw_exec *exec, const sw_net_opts *opts,
                          sw_dtype input, sw_price *out)
{
    const uint64_t start = sw_clock_ns();
    sw_net *net;
    SW_TRY(sw_handle_check(genome, SW_HANDLE_GENOME, __func__));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_price, out, __func__));
    if (input != SW_U8 && input != SW_F32)
        SW_FAIL(SW_INVALID, "%s: input must be SW_U8 or SW_F32 (got %d)", __func__, (int)input);
    SW_TRY(swi_net_create(&net, genome, opts, __func__));
    sw_price price = SW_OPTS(sw_price);
    const sw_status status = price_net(net, exec, input, &price);
    swi_genome_net_free(net);
    SW_TRY(status);
    price.ns = sw_clock_ns() - start;
    swi_struct_write(SWI_STRUCT_sw_price, out, &price);
    return SW_OK;
}

/* The step function of nets: a genome, vertex by vertex, in ops. */

/* ---- input ------------------------------------------------------------------------------- */

static bool is_sample(const swi_vertex *in, const sw_shape *s)
{
    if (in->height == 0)
        return s->rank == 2 && s->dim[1] == in->channels;
    return s->rank == 4 && s->dim[1] == in->channels && s->dim[2] == in->height &&
           s->dim[3] == in->width;
}

/* The samples as numbers. */
static sw_value sample(sw_ctx *ctx, const sw_net *net)
{
    const sw_net_opts *o = &net->opts;
    const sw_value x = sw_input(ctx, 0);
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return (sw_value){0, 0};
    const sw_type type = v->type;
    if (!is_sample(&net->genome->vertices[0], &type.shape) ||
        (type.dtype != SW_U8 && type.dtype != SW_F32)) {
        const swi_vertex *in = &net->genome->vertices[0];
        char wanted[80], got[8 * 24] = "";
        size_t used = 0;
        if (in->height == 0)
            snprintf(wanted, sizeof wanted, "(batch, %lld)", (long long)in->channels);
        else
            snprintf(wanted, sizeof wanted, "(batch, %lld, %lld, %lld)",
                     (long long)in->channels, (long long)in->height, (long long)in->width);
        for (int d = 0; d < type.shape.rank && used < sizeof got; d++)
            used += (size_t)snprintf(got + used, sizeof got - used, "%s%lld", d > 0 ? ", " : "",
                                     (long long)type.shape.dim[d]);
        return SWI_REFUSE(ctx, "model %s: input 0 must be %s of u8 or f32 (got (%s) of %s)",
                          net->model->name, wanted, got, sw_dtype_name(type.dtype));
    }
    if (type.dtype == SW_F32)
        return x;
    return o->n_scales == 1 ? sw_to_f32(ctx, x, o->scale[0], o->shift[0])
                            : sw_to_f32_channels(ctx, x, o->scale, o->shift, o->n_scales);
}

/* ---- activations ------------------------------------------------------------------------- */

static sw_value leaky_relu(sw_ctx *ctx, sw_value x)
{
    return sw_leaky_relu(ctx, x, 0.01f);
}

static sw_value elu(sw_ctx *ctx, sw_value x)
{
    return sw_elu(ctx, x, 1);
}

typedef sw_value activation_fn(sw_ctx *ctx, sw_value x);
static const struct {
    const char *name;
    activation_fn *fn;
} activations[] = {{"relu", sw_relu},
                   {"leaky_relu", leaky_relu},
                   {"tanh", sw_tanh},
                   {"sigmoid", sw_sigmoid},
                   {"swish", sw_swish},
                   {"gelu", sw_gelu},
                   {"gelu_tanh", sw_gelu_tanh},
                   {"mish", sw_mish},
                   {"softplus", sw_softplus},
                   {"hard_swish", sw_hard_swish},
                   {"elu", elu},
                   {"selu", sw_selu}};

/* ---- vertices ---------------------------------------------------------------------------- */

/* Those with parameters, which begin their scopes themselves. */
static sw_value apply_layer(sw_ctx *ctx, const sw_net *net, uint32_t i, sw_value x)
{
    const swi_vertex *v = &net->genome->vertices[i];
    const swi_net_layer *l = &net->layers[i];
    if (v->kind == SW_VERTEX_CONV2D) {
        const sw_conv2d layer = {.weight = l->weight,
                                 .bias = l->bias,
                                 .stride = v->stride,
                                 .pad = swi_vertex_pad(v),
                                 .groups = v->groups == 0 ? (int)v->channels : (int)v->groups,
                                 .dilation = v->dilation};
        return sw_apply_conv2d(ctx, layer, x);
    }
    if (v->kind == SW_VERTEX_BATCH_NORM) {
        const sw_batch_norm2d layer =
            SW_INIT(.weight = l->weight, .bias = l->bias, .running_mean = l->mean,
                    .running_var = l->variance, .momentum = 0.1f, .epsilon = 1e-5f);
        return sw_apply_batch_norm2d(ctx, layer, x);
    }
    const sw_linear layer = {.weight = l->weight, .bias = l->bias};
    return sw_apply_linear(ctx, layer, sw_rank(ctx, x) > 2 ? sw_flatten(ctx, x) : x);
}

static sw_value apply_plain(sw_ctx *ctx, const swi_vertex *v, const sw_value *in)
{
    const int pad = swi_vertex_pad(v);
    switch (v->kind) {
    case SW_VERTEX_MAX_POOL:
        return sw_max_pool2d(ctx, in[0], v->kernel, v->stride, pad);
    case SW_VERTEX_AVG_POOL:
        return sw_avg_pool2d(ctx, in[0], v->kernel, v->stride, pad);
    case SW_VERTEX_GLOBAL_MAX_POOL:
        return sw_flatten(ctx, sw_global_max_pool(ctx, in[0]));
    case SW_VERTEX_GLOBAL_AVG_POOL:
        return sw_flatten(ctx, sw_global_avg_pool(ctx, in[0]));
    case SW_VERTEX_ACTIVATION: {
        /* Activation `i` of swi_activation_name. */
        const sw_value x = in[0];
        const char *name = swi_activation_name(v->activation);
        for (size_t k = 0; name != NULL && k < sizeof activations / sizeof *activations; k++)
            if (strcmp(activations[k].name, name) == 0)
                return activations[k].fn(ctx, x);
        SWI_STICK(ctx, SW_UNSUPPORTED, "nets cannot apply activation %d (%s)", v->activation,
                  name != NULL ? name : "none");
        return (sw_value){0, 0};
    }
    case SW_VERTEX_DROPOUT:
        return sw_dropout(ctx, in[0], v->rate);
    case SW_VERTEX_FLATTEN:
        return sw_flatten(ctx, in[0]);
    case SW_VERTEX_ADD: {
        sw_value sum = in[0];
        for (uint32_t k = 1; k < v->n_in; k++)
            sum = sw_add(ctx, sum, in[k]);
        return sum;
    }
    case SW_VERTEX_CONCAT:
        return sw_concat(ctx, in, (int)v->n_in, 1);
    default:
        return SWI_REFUSE(ctx, "a vertex of a net is of no known kind");
    }
}

static sw_value apply_vertex(sw_ctx *ctx, const sw_net *net, uint32_t i)
{
    const swi_vertex *v = &net->genome->vertices[i];
    const swi_net_layer *l = &net->layers[i];
    sw_value in[SWI_MAX_INPUTS];
    for (uint32_t k = 0; k < v->n_in; k++)
        in[k] = net->values[v->in[k]];
    if (swi_vertex_has_parameters(v)) {
        sw_value y = apply_layer(ctx, net, i, in[0]);
        /* Does this run average utilities? */
        if (l->utility.index == 0 ||
            !(net->opts.utility != 0 && ctx->args->mode == SW_TRAIN && ctx->args->variant == 1))
            return y;
        sw_scope_begin(ctx, v->name);
        y = swi_neuron_utility(ctx, y, l->utility, net->opts.utility_rate);
        sw_scope_end(ctx);
        return y;
    }
    sw_scope_begin(ctx, v->name);
    const sw_value y = apply_plain(ctx, v, in);
    sw_scope_end(ctx);
    return y;
}

/* ---- the step ---------------------------------------------------------------------------- */

static sw_value loss_of(sw_ctx *ctx, const sw_net *net, sw_value logits, sw_value labels)
{
    const float smoothing = net->genome->smoothing;
    if (net->loss != NULL)
        return net->loss(ctx, logits, labels, net->loss_user);
    return smoothing > 0 ? sw_softmax_ce_with(ctx, logits, labels, smoothing, INT32_MIN)
                         : sw_softmax_ce(ctx, logits, labels);
}

/* The gradient times min(1, clip / its norm). */
static sw_value clipped(sw_ctx *ctx, const sw_net *net, sw_value gradient)
{
    if (swi_value_at(ctx, gradient) == NULL ||
        swi_stick(ctx, swi_knob_use(net->clip, SWI_KNOB_NORM)) != SW_OK)
        return gradient;
    uint32_t in[2] = {gradient.id - 1, SWI_NONE}, sum = SWI_NONE, scale = SWI_NONE;
    if (swi_apply(ctx, SW_OP_sumsq, in, 1, NULL, NULL, 0, NULL, &sum) != SW_OK)
        return gradient;
    in[0] = sum;
    in[1] = swi_knob_value(ctx, net->clip);
    if (ctx->status != SW_OK ||
        swi_apply(ctx, SW_OP_clip_scale, in, 2, NULL, NULL, 0, NULL, &scale) != SW_OK)
        return gradient;
    return sw_mul(ctx, gradient, swi_handle(ctx, scale));
}

static sw_value change_gradient(sw_ctx *ctx, sw_param param, sw_value gradient, void *user)
{
    const sw_net *net = user;
    if (net->clip.index != UINT32_MAX)
        gradient = clipped(ctx, net, gradient);
    if (net->opts.hook != NULL)
        gradient = net->opts.hook(ctx, param, gradient, net->opts.hook_user);
    return gradient;
}

void sw_net_step(sw_ctx *ctx, void *user)
{
    sw_net *net = user;
    const sw_status status = sw_handle_check(net, SW_HANDLE_NET, "sw_net_step");
    if (status != SW_OK)
        (void)swi_stick(ctx, status);
    if (status != SW_OK || !swi_ctx_works(ctx))
        return;
    const uint32_t n = net->genome->n;
    net->values[0] = sample(ctx, net);
    for (uint32_t i = 1; i < n && ctx->status == SW_OK; i++)
        net->values[i] = apply_vertex(ctx, net, i);
    if (ctx->status != SW_OK)
        return;
    const sw_value logits = net->values[n - 1], labels = sw_input(ctx, 1);
    const sw_value loss = loss_of(ctx, net, logits, labels);
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, logits, labels));
    if (sw_ctx_mode(ctx) == SW_TRAIN) {
        if (net->clip.index != UINT32_MAX || net->opts.hook != NULL)
            sw_gradient_hook(ctx, net->model, change_gradient, net);
        sw_backward(ctx, loss, &net->optimizer, 1);
        if (net->clip_norm.index != UINT32_MAX)
            sw_clip_norm(ctx, net->optimizer, net->clip_norm);
        sw_update(ctx, net->optimizer);
    }
}
