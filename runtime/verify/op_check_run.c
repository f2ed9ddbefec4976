/* The step function around the op under test, built from public ops, and one run of it. */
#include "runtime/verify/op_check.h"
#include "runtime/ops/ops.h"
#include <stdio.h>
#include <string.h>

/* Inputs of the run: the operands that are no parameters, then the weights of the F32 outputs.
 */
static int input_of_operand(const swi_check *c, int i)
{
    int n = 0;
    for (int k = 0; k < i; k++)
        n += !c->in[k].wanted;
    return n;
}

static int input_of_weight(const swi_check *c, uint32_t flags, int output, int use)
{
    int n = input_of_operand(c, c->n_in);
    const int uses = (flags & SWI_CHECK_TWICE) != 0 ? 2 : 1;
    for (int k = 0; k < output; k++)
        n += c->out[k].type.dtype == SW_F32 ? uses : 0;
    return n + use;
}

int swi_check_twin(const swi_check *c, int i)
{
    const swi_check_operand *o = &c->in[i];
    for (int k = 0; k < i && o->wanted; k++)
        if (c->in[k].wanted && c->in[k].layout == o->layout &&
            swi_same_shape(&c->in[k].type.shape, &o->type.shape))
            return k;
    return i;
}

bool swi_check_wants(const swi_check *c, uint32_t only, int i)
{
    return c->in[i].wanted && (only == SWI_CHECK_ALL || (i < 32 && (only >> i & 1u) != 0));
}

static sw_value operand(sw_ctx *ctx, const swi_check_use *u, int i)
{
    const swi_check *c = u->check;
    const swi_check_operand *o = &c->in[i];
    const bool sliced = (u->flags & SWI_CHECK_SLICED) != 0;
    sw_value v = o->wanted ? sw_use(ctx, sliced ? o->wide_param : o->param)
                           : sw_input(ctx, input_of_operand(c, i));
    const int rank = o->type.shape.rank;
    if (sliced && rank > 0)
        v = sw_slice(ctx, v, rank - 1, 1, o->type.shape.dim[rank - 1]);
    const bool as_is = (c->as_is >> i & 1u) != 0;
    if ((u->flags & SWI_CHECK_MADE) != 0 && o->type.dtype == SW_F32 && !as_is)
        v = sw_scale_by(ctx, v, 1.0f); /* the same bits in bytes of their own */
    if (o->wanted && !swi_check_wants(c, u->only, i))
        v = sw_detach(ctx, v);
    return o->layout != SW_PLAIN ? swi_layout(ctx, v, o->layout) : v;
}

/* One use of the op; its share of the loss, or {0} without gradients. */
static sw_value use_once(sw_ctx *ctx, const swi_check_use *u, int use)
{
    const swi_check *c = u->check;
    sw_value in[SWI_CHECK_INPUTS], out[SWI_CHECK_OUTPUTS], loss = {0, 0};
    for (int i = 0; i < c->n_in; i++) {
        const int twin = (u->flags & SWI_CHECK_ONE) != 0 ? swi_check_twin(c, i) : i;
        in[i] = twin < i ? in[twin] : operand(ctx, u, i);
    }
    sw_op_apply_all(ctx, c->id, in, c->n_in, c->spec->attrs, out);
    for (int i = 0; i < c->desc->n_out && sw_ctx_status(ctx) == SW_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "y%d.%d", i, use);
        if ((u->flags & SWI_CHECK_GIVE) != 0)
            sw_output(ctx, name, out[i]);
        if ((u->flags & SWI_CHECK_TRAIN) == 0 || c->out[i].type.dtype != SW_F32)
            continue;
        const sw_value flat = sw_reshape(ctx, out[i], SW_SHAPE(-1));
        const sw_value weight = sw_input(ctx, input_of_weight(c, u->flags, i, use));
        const sw_value part = sw_sum(ctx, sw_mul(ctx, flat, weight), 0);
        loss = loss.id != 0 ? sw_add(ctx, loss, part) : part;
        if ((u->flags & SWI_CHECK_HELD) != 0) /* a product keeps both; it adds nothing */
            loss = sw_add(ctx, loss,
                          sw_scale_by(ctx, sw_sum(ctx, sw_mul(ctx, out[i], out[i]), 0), 0.0f));
    }
    return loss;
}

static void step(sw_ctx *ctx, void *user)
{
    const swi_check_use *u = user;
    sw_value loss = use_once(ctx, u, 0);
    if ((u->flags & SWI_CHECK_TWICE) != 0)
        loss = sw_add(ctx, loss, use_once(ctx, u, 1));
    if ((u->flags & SWI_CHECK_TRAIN) == 0 || sw_ctx_status(ctx) != SW_OK)
        return;
    sw_optimizer *const o = u->check->optimizer;
    sw_backward(ctx, loss, &o, 1);
    sw_accumulate(ctx, o);
}

static sw_status add_input(sw_array *inputs, int *n, sw_type type, const void *data)
{
    if (*n == SWI_MAX_INPUTS)
        SW_FAIL(SW_INVALID, "a case with more than %d inputs that have no gradient",
                SWI_MAX_INPUTS);
    inputs[(*n)++] = (sw_array){type.dtype, type.shape, data};
    return SW_OK;
}

sw_status swi_check_call_fill(swi_check *c, uint32_t flags, uint32_t only, swi_check_call *call)
{
    memset(call, 0, sizeof *call);
    call->use = (swi_check_use){c, flags, only};
    int n = 0;
    for (int i = 0; i < c->n_in; i++) {
        const swi_check_operand *o = &c->in[i];
        const bool wide = (flags & SWI_CHECK_SLICED) != 0;
        if (!o->wanted)
            SW_TRY(add_input(call->inputs, &n, wide ? o->wide_type : o->type,
                             wide ? o->wide : o->data));
    }
    for (int i = 0; (flags & SWI_CHECK_TRAIN) != 0 && i < c->desc->n_out; i++) {
        const swi_check_output *o = &c->out[i];
        const sw_type flat = {SW_F32, SW_PLAIN, SW_SHAPE(o->n)};
        const int first = (flags & SWI_CHECK_SECOND) != 0;
        if (o->type.dtype != SW_F32)
            continue;
        SW_TRY(add_input(call->inputs, &n, flat, o->weight[first]));
        if ((flags & SWI_CHECK_TWICE) != 0)
            SW_TRY(add_input(call->inputs, &n, flat, o->weight[1]));
    }
    call->args = SW_OPTS(
        sw_run_args, .fn = step, .user = &call->use, .models = &c->model,
        .n_models = c->model != NULL, .inputs = call->inputs, .n_inputs = n,
        .mode = (flags & SWI_CHECK_TRAIN) != 0 ? SW_TRAIN : SW_EVAL,
        .immediate = (flags & SWI_CHECK_NOW) != 0,
        /* `user` may be at the same address for another use: the variant tells them apart. */
        .variant = flags | (uint64_t)c->index << 16 | (uint64_t)only << 32, .step = 3,
        .run = 1);
    return SW_OK;
}

sw_status swi_check_model_fill(swi_check *c, sw_exec *exec, uint32_t flags)
{
    if (c->model == NULL)
        return SW_OK;
    SW_TRY(sw_model_ready(c->model, exec, 1));
    for (int i = 0; i < c->n_in; i++) {
        const swi_check_operand *o = &c->in[i];
        if (!o->wanted)
            continue;
        const int twin = (flags & SWI_CHECK_EQUAL) != 0 ? swi_check_twin(c, i) : i;
        SW_TRY(
            sw_param_write(o->param, c->in[twin].data, (size_t)o->n * sw_dtype_bytes(SW_F32)));
        SW_TRY(
            sw_param_write(o->wide_param, o->wide, (size_t)o->wide_n * sw_dtype_bytes(SW_F32)));
    }
    return SW_OK;
}

sw_status swi_check_result_take(swi_check *c, swi_check_result *r)
{
    memset(r, 0, sizeof *r);
    r->clean = true;
    for (int i = 0; i < c->desc->n_out; i++)
        SW_TRY(swi_check_take(c, &r->out[i], sw_type_bytes(&c->out[i].type)));
    for (int i = 0; i < c->n_in; i++) {
        void *block;
        if (!c->in[i].wanted)
            continue;
        SW_TRY(swi_check_take(c, &block, (size_t)c->in[i].n * sw_dtype_bytes(SW_F32)));
        r->grad[i] = block;
    }
    return SW_OK;
}

/* The part of a wide gradient that belongs to the slice; the rest must be zero. */
static bool cut(const swi_check_operand *o, const float *wide, float *to)
{
    const int rank = o->type.shape.rank;
    if (rank == 0) {
        memcpy(to, wide, (size_t)o->n * sizeof *to);
        return true;
    }
    bool clean = true;
    const int64_t row = o->type.shape.dim[rank - 1];
    for (int64_t i = 0; i < o->wide_n; i++) {
        const int64_t r = i / (row + 2), k = i % (row + 2);
        if (k >= 1 && k <= row)
            to[r * row + k - 1] = wide[i];
        else
            clean &= wide[i] == 0.0f;
    }
    return clean;
}

sw_status swi_check_read_gradients(swi_check *c, uint32_t flags, uint32_t only,
                                   swi_check_result *r)
{
    for (int i = 0; (flags & SWI_CHECK_TRAIN) != 0 && i < c->n_in; i++) {
        const swi_check_operand *o = &c->in[i];
        if (!swi_check_wants(c, only, i) ||
            ((flags & SWI_CHECK_ONE) != 0 && swi_check_twin(c, i) != i))
            continue;
        if ((flags & SWI_CHECK_SLICED) == 0) {
            SW_TRY(
                sw_param_gradient(o->param, r->grad[i], (size_t)o->n * sw_dtype_bytes(SW_F32)));
            continue;
        }
        void *wide;
        SW_TRY(swi_check_take(c, &wide, (size_t)o->wide_n * sw_dtype_bytes(SW_F32)));
        SW_TRY(
            sw_param_gradient(o->wide_param, wide, (size_t)o->wide_n * sw_dtype_bytes(SW_F32)));
        r->clean &= cut(o, wide, r->grad[i]);
    }
    return SW_OK;
}

static bool is_type(const sw_array *a, const sw_type *type)
{
    return a->dtype == type->dtype && a->shape.rank == type->shape.rank &&
           memcmp(a->shape.dim, type->shape.dim,
                  (size_t)a->shape.rank * sizeof a->shape.dim[0]) == 0;
}

sw_status swi_check_run(swi_check *c, sw_exec *exec, uint32_t flags, uint32_t only,
                        swi_check_result *r)
{
    swi_check_call call;
    SW_TRY(swi_check_result_take(c, r));
    SW_TRY(swi_check_call_fill(c, flags, only, &call));
    SW_TRY(swi_check_model_fill(c, exec, flags));
    SW_TRY(sw_run(exec, &call.args));
    for (int i = 0; (flags & SWI_CHECK_GIVE) != 0 && i < c->desc->n_out; i++) {
        char name[32];
        sw_array given;
        snprintf(name, sizeof name, "y%d.0", i);
        SW_TRY(sw_output_get(exec, name, &given));
        if (!is_type(&given, &c->out[i].type))
            SW_FAIL(SW_INVALID, "output %d has another type than infer says", i);
        memcpy(r->out[i], given.data, sw_type_bytes(&c->out[i].type));
    }
    return swi_check_read_gradients(c, flags, only, r);
}

/* ---- comparing bits ---------------------------------------------------------------------- */

static bool same_bytes(const void *a, const void *b, size_t bytes, size_t element,
                       const char *what, int i, char *where, size_t capacity)
{
    const unsigned char *x = a, *y = b;
    size_t n = 0;
    for (size_t k = 0; k < bytes; k += element)
        n += memcmp(x + k, y + k, element) != 0;
    if (n == 0)
        return true;
    size_t first = 0;
    while (memcmp(x + first, y + first, element) == 0)
        first += element;
    snprintf(where, capacity, "%s %d differs in %zu of %zu elements, first at %zu", what, i, n,
             bytes / element, first / element);
    return false;
}

bool swi_check_same(const swi_check *c, const swi_check_result *a, const swi_check_result *b,
                    char *where, size_t bytes)
{
    for (int i = 0; i < c->desc->n_out; i++)
        if (!same_bytes(a->out[i], b->out[i], sw_type_bytes(&c->out[i].type),
                        sw_dtype_bytes(c->out[i].type.dtype), "output", i, where, bytes))
            return false;
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].wanted &&
            !same_bytes(a->grad[i], b->grad[i], (size_t)c->in[i].n * sw_dtype_bytes(SW_F32),
                        sw_dtype_bytes(SW_F32), "the gradient of input", i, where, bytes))
            return false;
    return true;
}
