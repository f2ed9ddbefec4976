/* Nets: what a genome declares in a model - layers, states of utility, the optimizer. */
#include "runtime/population/evolve/net.h"
#include "runtime/autograd/autograd.h"
#include "runtime/base/owner.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NO_KNOB UINT32_MAX

/* ---- options ----------------------------------------------------------------------------- */

static sw_status check_scales(const sw_net_opts *o, const char *call)
{
    if (o->n_scales < 0 || o->n_scales > 4)
        SW_FAIL(SW_INVALID, "%s: n_scales must be 0 to 4 (got %d)", call, o->n_scales);
    for (int i = 0; i < o->n_scales; i++)
        if (!isfinite(o->scale[i]) || !isfinite(o->shift[i]))
            SW_FAIL(SW_INVALID, "%s: scale and shift of channel %d must be finite", call, i);
    return SW_OK;
}

static sw_status check_losses(const sw_net_opts *o, const char *call)
{
    if (o->n_losses < 0 || (o->n_losses > 0 && o->losses == NULL))
        SW_FAIL(SW_INVALID, "%s: losses must not be NULL for n_losses %d", call, o->n_losses);
    for (int i = 0; i < o->n_losses; i++) {
        const sw_named_loss *l = &o->losses[i];
        if (l->name == NULL || l->fn == NULL)
            SW_FAIL(SW_INVALID, "%s: loss %d must have a name and a function", call, i);
        if (l->reserved[0] != 0 || l->reserved[1] != 0)
            SW_FAIL(SW_INVALID, "%s: loss '%s': reserved words must be zero", call, l->name);
        if (strcmp(l->name, "cross_entropy") == 0)
            SW_FAIL(SW_INVALID,
                    "%s: loss %d: 'cross_entropy' is there already: give it "
                    "another name",
                    call, i);
    }
    return SW_OK;
}

static sw_status read_opts(sw_net_opts *to, const sw_net_opts *given, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_net_opts, to, given, call));
    SW_TRY(check_scales(to, call));
    SW_TRY(check_losses(to, call));
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

static sw_status check_input(const sw_net *net, const char *call)
{
    const swi_vertex *in = &net->genome->vertices[0];
    if (net->opts.n_scales > 1 && net->opts.n_scales != in->channels)
        SW_FAIL(SW_INVALID,
                "%s: n_scales must be 0, 1 or %lld, the channels of the input (got %d)", call,
                (long long)in->channels, net->opts.n_scales);
    return SW_OK;
}

/* ---- declarations ------------------------------------------------------------------------ */

static void declare_conv2d(sw_net *net, const swi_vertex *v, swi_net_layer *layer)
{
    const sw_conv_opts opts = SW_OPTS(
        sw_conv_opts, .stride = v->stride, .pad = swi_vertex_pad(v),
        .groups = v->groups == 0 ? (int)v->channels : (int)v->groups, .dilation = v->dilation);
    const sw_conv2d l = sw_conv2d_new_with(
        net->model, v->name, swi_vertex_reads(net->genome, v), v->channels, v->kernel, &opts);
    layer->weight = l.weight;
    layer->bias = l.bias;
}

static void declare_batch_norm(sw_net *net, const swi_vertex *v, swi_net_layer *layer)
{
    const sw_batch_norm2d l = sw_batch_norm2d_new(net->model, v->name, v->channels);
    layer->weight = l.weight;
    layer->bias = l.bias;
    layer->mean = l.running_mean;
    layer->variance = l.running_var;
}

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
        declare_conv2d(net, v, layer);
    } else if (v->kind == SW_VERTEX_BATCH_NORM) {
        declare_batch_norm(net, v, layer);
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
    void *block;
    const size_t bytes = 2 * (size_t)g->n * sizeof(sw_param);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    sw_param *params = block;
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
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = g->optimizer, .groups = groups, .n_groups = n_groups,
                .lr = g->lr, .weight_decay = g->weight_decay, .momentum = g->momentum);
    const sw_status status = sw_optimizer_create(&net->optimizer, net->model, &opts);
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}

static sw_status declare(sw_net *net, const char *call)
{
    const sw_genome *g = net->genome;
    void *layers, *values;
    SW_TRY(find_loss(net, call));
    SW_TRY(check_input(net, call));
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
    void *block;
    SW_TRY(read_opts(&opts, given, call));
    SW_TRY(sw_handle_take(&block, SW_HANDLE_NET, sizeof(sw_net)));
    sw_net *net = block;
    net->genome = genome;
    net->opts = opts;
    const sw_status status = declare(net, call);
    if (status != SW_OK)
        swi_genome_net_free(net);
    else
        *out = net;
    return status;
}

sw_status sw_net_create(sw_net **out, const sw_genome *genome, const sw_net_opts *opts)
{
    static const char call[] = "sw_net_create";
    sw_genome *own;
    sw_net *net;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(sw_handle_check(genome, SW_HANDLE_GENOME, call));
    SW_TRY(sw_genome_copy(&own, genome));
    const sw_status status = swi_net_create(&net, own, opts, call);
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
    static const char call[] = "sw_net_destroy";
    if (!sw_handle_ends(net, SW_HANDLE_NET, call) ||
        sw_call_may_end(net->model, "model", call) != SW_OK)
        return;
    if (swi_owner_take(&net->model->busy))
        swi_genome_net_free(net);
    else
        (void)sw_error_set(SW_BUSY, __FILE__, __LINE__, "%s: model %s is in use by %s", call,
                           net->model->name, swi_owner_text(&net->model->busy));
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
