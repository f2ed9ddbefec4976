/* One case of an op's descriptor: operands by Philox, the same as doubles, and the
 * double-precision forward after a loss of fixed random weights. */
#include "kernels/rng.h"
#include "runtime/verify/op_check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SEED 0x5eed0f09u

struct swi_check_block {
    struct swi_check_block *next;
    size_t bytes;
};

sw_status swi_check_take(swi_check *c, void **out, size_t bytes)
{
    void *block;
    const size_t head = 64;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, head + bytes));
    struct swi_check_block *b = block;
    *b = (struct swi_check_block){c->blocks, head + bytes};
    c->blocks = b;
    *out = (unsigned char *)block + head;
    return SW_OK;
}

/* ---- numbers ----------------------------------------------------------------------------- */

static sw_status fill_distinct(swi_check *c, float *to, int64_t n, uint32_t stream)
{
    void *order;
    SW_TRY(swi_check_take(c, &order, (size_t)n * sizeof(uint32_t)));
    sw_rng_shuffle(order, (uint32_t)n, SEED + stream, 0);
    const uint32_t *place = order;
    for (int64_t i = 0; i < n; i++)
        to[i] = 0.05f * (float)((int64_t)place[i] - n / 2) + 0.025f;
    return SW_OK;
}

/* n floats as the case fills this input. Streams differ by op, case and input. */
static sw_status fill_floats(swi_check *c, float *to, int64_t n, sw_fill fill, int64_t limit,
                             uint32_t stream)
{
    if (fill == SW_FILL_DISTINCT)
        return fill_distinct(c, to, n, stream);
    const bool normal = fill == SW_FILL_NORMAL || fill == SW_FILL_AWAY;
    (normal ? sw_rng_normal : sw_rng_uniform)(to, 0, n, SEED, stream, 0, 0);
    const double top = fill == SW_FILL_BYTES ? 256.0 : (double)(limit > 0 ? limit : 1);
    for (int64_t i = 0; i < n; i++) {
        if (fill == SW_FILL_AWAY)
            to[i] += to[i] < 0.0f ? -0.1f : 0.1f;
        else if (fill == SW_FILL_LABELS || fill == SW_FILL_BYTES)
            to[i] = (float)floor((double)to[i] * top);
    }
    return SW_OK;
}

static void store_element(void *to, sw_dtype dtype, int64_t i, float x)
{
    switch (dtype) {
    case SW_F64:
        ((double *)to)[i] = (double)x;
        break;
    case SW_I32:
        ((int32_t *)to)[i] = (int32_t)x;
        break;
    case SW_U8:
        ((uint8_t *)to)[i] = (uint8_t)(int32_t)x;
        break;
    case SW_U16:
        ((uint16_t *)to)[i] = (uint16_t)(int32_t)x;
        break;
    default:
        ((float *)to)[i] = x;
        break;
    }
}

static double element(const void *from, sw_dtype dtype, int64_t i)
{
    switch (dtype) {
    case SW_F64:
        return ((const double *)from)[i];
    case SW_I32:
        return (double)((const int32_t *)from)[i];
    case SW_U8:
        return (double)((const uint8_t *)from)[i];
    case SW_U16:
        return (double)((const uint16_t *)from)[i];
    default:
        return (double)((const float *)from)[i];
    }
}

/* ---- operands ---------------------------------------------------------------------------- */

/* The same numbers as rows of a tensor with a last axis that is longer by one at both ends. */
static sw_status widen(swi_check *c, swi_check_operand *o)
{
    const int rank = o->type.shape.rank;
    o->wide_type = o->type;
    const int64_t row = rank > 0 ? o->type.shape.dim[rank - 1] : o->n;
    const int64_t edge = rank > 0 ? 1 : 0;
    if (rank > 0)
        o->wide_type.shape.dim[rank - 1] = row + 2;
    o->wide_n = sw_type_elements(&o->wide_type);
    const size_t size = sw_dtype_bytes(o->type.dtype);
    SW_TRY(swi_check_take(c, &o->wide, (size_t)o->wide_n * size));
    for (int64_t i = 0; i < o->wide_n; i++)
        store_element(o->wide, o->type.dtype, i, 3.0f);
    for (int64_t r = 0; row > 0 && r < o->n / row; r++)
        memcpy((unsigned char *)o->wide + (size_t)(r * (row + 2 * edge) + edge) * size,
               (const unsigned char *)o->data + (size_t)(r * row) * size, (size_t)row * size);
    return SW_OK;
}

/* Gradients are checked for what some gradient kernel makes. A rule answers for every F32
 * input. */
static bool is_wanted(const sw_op_desc *d, const swi_check_operand *o, int i)
{
    if (d->no_gradient || o->type.dtype != SW_F32)
        return false;
    if (d->rule != NULL)
        return true;
    for (int g = 0; g < d->n_grads; g++)
        for (int k = 0; k < d->grads[g].n_makes; k++)
            if (d->grads[g].makes[k] == i)
                return true;
    return false;
}

static sw_status make_operand(swi_check *c, int i)
{
    swi_check_operand *o = &c->in[i];
    const int spec = i < 4 ? i : 3;
    o->type = c->spec->in[spec];
    o->layout = o->type.layout;
    o->type.layout = SW_PLAIN;
    o->n = sw_type_elements(&o->type);
    if (o->n < 0 || o->n > 1 << 24)
        SW_FAIL(SW_INVALID, "input %d of the case has a bad shape", i);
    void *floats, *exact;
    SW_TRY(swi_check_take(c, &floats, (size_t)o->n * sw_dtype_bytes(SW_F32)));
    SW_TRY(swi_check_take(c, &exact, (size_t)o->n * sizeof(double)));
    SW_TRY(swi_check_take(c, &o->data, (size_t)o->n * sw_dtype_bytes(o->type.dtype)));
    const uint32_t stream =
        sw_rng_stream(c->desc->name) + 64u * (uint32_t)c->index + (uint32_t)i;
    SW_TRY(fill_floats(c, floats, o->n, c->spec->fill[spec], c->spec->limit, stream));
    o->exact = exact;
    for (int64_t k = 0; k < o->n; k++) {
        store_element(o->data, o->type.dtype, k, ((const float *)floats)[k]);
        o->exact[k] = element(o->data, o->type.dtype, k);
    }
    o->wanted = is_wanted(c->desc, o, i);
    c->n_wanted += o->wanted;
    return widen(c, o);
}

static sw_status make_outputs(swi_check *c)
{
    sw_type in[SWI_CHECK_INPUTS], out[2 * SWI_CHECK_OUTPUTS];
    memset(out, 0, sizeof out);
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i].type;
        in[i].layout = c->in[i].layout;
    }
    SW_TRY(c->desc->infer(in, c->n_in, c->spec->attrs, out));
    for (int i = 0; i < c->desc->n_out; i++) {
        swi_check_output *o = &c->out[i];
        o->type = out[i];
        o->type.layout = SW_PLAIN;
        o->n = sw_type_elements(&o->type);
        for (int k = 0; k < 2; k++) {
            void *weight;
            SW_TRY(swi_check_take(c, &weight, (size_t)o->n * sw_dtype_bytes(SW_F32)));
            o->weight[k] = weight;
            sw_rng_normal(o->weight[k], 0, o->n, SEED + 1, sw_rng_stream(c->desc->name),
                          (uint32_t)(c->index * SWI_CHECK_OUTPUTS + i), (uint32_t)k);
        }
    }
    return SW_OK;
}

static sw_status make_model(swi_check *c)
{
    if (c->n_wanted == 0)
        return SW_OK;
    SW_TRY(sw_model_create(&c->model, "op_check"));
    for (int i = 0; i < c->n_in; i++) {
        swi_check_operand *o = &c->in[i];
        char name[32];
        if (!o->wanted)
            continue;
        snprintf(name, sizeof name, "x%d", i);
        o->param = sw_param_new(c->model, name, SW_F32, o->type.shape, "zeros");
        snprintf(name, sizeof name, "wide%d", i);
        o->wide_param = sw_param_new(c->model, name, SW_F32, o->wide_type.shape, "zeros");
    }
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1, .no_check = 1);
    return sw_optimizer_create(&c->optimizer, c->model, &opts);
}

sw_status swi_check_begin(swi_check *c, int index)
{
    c->index = index;
    c->spec = &c->desc->cases[index];
    c->n_in = c->spec->n_in;
    c->n_wanted = 0;
    memset(c->in, 0, sizeof c->in);
    memset(c->out, 0, sizeof c->out);
    for (int d = 0; d < SWI_CHECK_DIRECTIONS; d++)
        c->slope[d] = NAN;
    if (c->n_in < 0 || c->n_in > SWI_CHECK_INPUTS || c->desc->n_out > SWI_CHECK_OUTPUTS)
        SW_FAIL(SW_INVALID, "a case must have at most %d inputs and %d outputs (got %d and %d)",
                SWI_CHECK_INPUTS, SWI_CHECK_OUTPUTS, c->n_in, c->desc->n_out);
    for (int i = 0; i < c->n_in; i++)
        SW_TRY(make_operand(c, i));
    SW_TRY(make_outputs(c));
    return make_model(c);
}

void swi_check_end(swi_check *c)
{
    swi_model_free(c->model);
    c->model = NULL;
    c->optimizer = NULL;
    while (c->blocks != NULL) {
        struct swi_check_block *b = c->blocks;
        c->blocks = b->next;
        sw_heap_free(b, SW_HEAP_RECORDS, b->bytes);
    }
}

/* ---- the double-precision side ----------------------------------------------------------- */

/* The stream of a random op is that of its node in the last planned run. */
static uint32_t stream_of(const swi_check *c)
{
    const swi_program *p = c->plain->last;
    for (uint32_t n = 0; p != NULL && n < p->trace.n_nodes; n++)
        if (p->trace.nodes[n].op == c->id && p->trace.nodes[n].grad < 0)
            return p->trace.nodes[n].stream;
    return 0;
}

sw_status swi_check_reference(swi_check *c, double *const *in, double **out)
{
    sw_type in_type[SWI_CHECK_INPUTS], out_type[SWI_CHECK_OUTPUTS];
    if (c->desc->reference == NULL)
        SW_FAIL(SW_UNSUPPORTED, "the descriptor has no double-precision forward");
    for (int i = 0; i < c->n_in; i++)
        in_type[i] = c->in[i].type;
    for (int i = 0; i < c->desc->n_out; i++) {
        out_type[i] = c->out[i].type;
        memset(out[i], 0, (size_t)c->out[i].n * sizeof(double));
    }
    const sw_reference r = {.in = (const double *const *)in,
                            .in_type = in_type,
                            .n_in = c->n_in,
                            .out = out,
                            .out_type = out_type,
                            .attrs = c->spec->attrs,
                            .seed = c->plain->seed,
                            .stream = stream_of(c),
                            .step = 3,
                            .run = 1};
    return c->desc->reference(&r);
}

static sw_status loss_at(swi_check *c, double *const *in, double **out, double *loss)
{
    SW_TRY(swi_check_reference(c, in, out));
    *loss = 0.0;
    for (int i = 0; i < c->desc->n_out; i++)
        for (int64_t k = 0; c->out[i].type.dtype == SW_F32 && k < c->out[i].n; k++)
            *loss += out[i][k] * (double)c->out[i].weight[0][k];
    return SW_OK;
}

sw_status swi_check_loss(swi_check *c, double *const *direction, double step, double *loss)
{
    double *in[SWI_CHECK_INPUTS], *out[SWI_CHECK_OUTPUTS];
    void *block;
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i].exact;
        if (direction[i] == NULL)
            continue;
        SW_TRY(swi_check_take(c, &block, (size_t)c->in[i].n * sizeof(double)));
        in[i] = block;
        for (int64_t k = 0; k < c->in[i].n; k++)
            in[i][k] = c->in[i].exact[k] + step * direction[i][k];
    }
    for (int i = 0; i < c->desc->n_out; i++) {
        SW_TRY(swi_check_take(c, &block, (size_t)c->out[i].n * sizeof(double)));
        out[i] = block;
    }
    return loss_at(c, in, out, loss);
}
