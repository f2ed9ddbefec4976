/* Checks that look at the program: did a result take its input's place, what lives from the
 * forward part to the backward part, and does the program compute the same in memory that
 * punishes mistakes.
 *
 * The punishing memory is a block of our own in place of the step arena: storages are all ones
 * (NaN) when they are born and again when they die, and after each op every byte that is not
 * its own must be as it was. So an op that reads what it has not declared, reads what it has
 * not written, leaves a part unwritten or writes past its scratch is seen, wherever the plan
 * happened to put things. */
#include "runtime/exec/run_internal.h"
#include "runtime/verify/op_check.h"
#include <stdio.h>
#include <string.h>

/* The step function around the op under test, built from public ops, and one run of it. */

/* Inputs of the run: the operands that are no parameters, then the weights of the F32
 * outputs. */
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
    if (o->half && !as_is)
        v = swi_cast(ctx, v, SW_BF16);
    if ((u->flags & SWI_CHECK_MADE) != 0 && o->type.dtype == SW_F32 && !as_is)
        v = sw_scale_by(ctx, v, 1.0f); /* the same bits in bytes of their own */
    if (o->wanted && !swi_check_wants(c, u->only, i))
        v = sw_detach(ctx, v);
    return o->layout != SW_PLAIN ? swi_layout(ctx, v, o->layout) : v;
}

/* One use of the op; its share of the loss, or {0} without gradients. */
static sw_value use_once(sw_ctx *ctx, const swi_check_use *u, const sw_value *in, int use)
{
    const swi_check *c = u->check;
    sw_value out[SWI_CHECK_OUTPUTS], loss = {0, 0};
    sw_op_apply_all(ctx, c->id, in, c->n_in, c->spec->attrs, out);
    for (int i = 0; i < c->desc->n_out && sw_ctx_status(ctx) == SW_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "y%d.%d", i, use);
        if ((u->flags & SWI_CHECK_GIVE) != 0)
            sw_output(ctx, name, swi_cast(ctx, out[i], c->out[i].type.dtype));
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
    sw_value in[SWI_CHECK_INPUTS];
    for (int i = 0; i < u->check->n_in; i++) {
        const int twin = (u->flags & SWI_CHECK_ONE) != 0 ? swi_check_twin(u->check, i) : i;
        in[i] = twin < i ? in[twin] : operand(ctx, u, i);
    }
    sw_value loss = use_once(ctx, u, in, 0);
    if ((u->flags & SWI_CHECK_TWICE) != 0)
        loss = sw_add(ctx, loss, use_once(ctx, u, in, 1));
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

static sw_status check_result_take(swi_check *c, swi_check_result *r)
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

static sw_status check_read_gradients(swi_check *c, uint32_t flags, uint32_t only,
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
    SW_TRY(check_result_take(c, r));
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
    return check_read_gradients(c, flags, only, r);
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

/* ---- op check program -------------------------------------------------------------------- */

static const swi_node *forward_node(const swi_check *c, const swi_trace *t)
{
    for (uint32_t n = 0; n < t->n_nodes; n++)
        if (t->nodes[n].op == c->id && t->nodes[n].grad < 0 && !t->nodes[n].is_backward)
            return &t->nodes[n];
    return NULL;
}

uint64_t swi_check_halves(const swi_check *c, const sw_exec *exec)
{
    const swi_trace *t = &exec->last->trace;
    const swi_node *node = forward_node(c, t);
    uint64_t halves = 0;
    for (uint32_t k = 0; node != NULL && k < node->n_in + node->n_out; k++)
        if (t->values[t->operands[node->first + k]].type.dtype == SW_BF16)
            halves |= (uint64_t)1 << (k < node->n_in ? k : SWI_CHECK_INPUTS + k - node->n_in);
    return halves;
}

int swi_check_roundings(const swi_check *c, const sw_exec *exec)
{
    const swi_trace *t = &exec->last->trace;
    const swi_node *f = forward_node(c, t);
    int n = 0;
    for (uint32_t g = 0; f != NULL && g < t->n_nodes; g++) {
        const swi_node *node = &t->nodes[g];
        for (uint32_t k = 0;
             node->gradient_of == (uint32_t)(f - t->nodes) + 1 && k < node->n_in + node->n_out;
             k++) {
            const swi_value *v = &t->values[t->operands[node->first + k]];
            bool read = false;
            for (uint32_t i = 0; i < f->n_out; i++)
                read |= t->operands[f->first + f->n_in + i] == t->operands[node->first + k];
            n += v->type.dtype == SW_BF16 ? k >= node->n_in ? 1 : 3 * read : 0;
        }
    }
    return n;
}

void swi_check_taken(swi_check *c, const sw_exec *exec)
{
    const swi_trace *t = &exec->last->trace;
    const swi_node *node = forward_node(c, t);
    if (node == NULL || node->is_view || c->desc->inplace == 0)
        return;
    const uint32_t *operands = t->operands + node->first;
    const swi_value *out = &t->values[operands[node->n_in]];
    bool possible = false;
    for (uint32_t k = 0; k < node->n_in && k < 32; k++) {
        const swi_value *in = &t->values[operands[k]];
        const swi_storage *s = &t->storages[in->storage];
        possible |= (c->desc->inplace >> k & 1u) != 0 && s->segment == SWI_SEG_STEP &&
                    in->contiguous && in->offset == 0 && s->bytes == sw_type_bytes(&out->type);
    }
    if (possible)
        swi_check_say(c, t->storages[out->storage].alias != out->storage, "in place",
                      "the result did not take the place of an input that dies");
}

/* ---- saved bytes ------------------------------------------------------------------------- */

#define NAMED 1u /* by a gradient kernel: saved */
#define OWN 2u   /* an operand of the forward op */

static uint32_t first_backward(const swi_program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (swi_node_of(p, i)->is_backward)
            return i;
    return p->n_ops;
}

/* Mark by root storage what the descriptor says about each. An operand that a kernel leaves
 * unread for its shapes is not kept for it; of the operands that it names, those that the op
 * has are counted. */
static void mark(const swi_check *c, const swi_trace *t, unsigned char *marks)
{
    const swi_node *f = forward_node(c, t);
    for (uint32_t k = 0; f != NULL && k < f->n_in + f->n_out; k++)
        marks[swi_root_of(t, t->values[t->operands[f->first + k]].storage)] |= OWN;
    for (uint32_t n = 0; f != NULL && n < t->n_nodes; n++) {
        if (t->nodes[n].op != c->id || t->nodes[n].grad < 0)
            continue;
        const sw_grad_desc *grad = &c->desc->grads[t->nodes[n].grad];
        const uint32_t unread = swi_unread(t, &t->nodes[n]);
        uint32_t operand = 0;
        for (int k = 0; k < grad->n_operands; k++) {
            const uint32_t i = SWI_OPERAND_INDEX(grad->operands[k]);
            const uint32_t kind = SWI_OPERAND_KIND(grad->operands[k]);
            const bool input = kind == SW_IN(0);
            if (kind != SW_DOUT(0) && i >= (input ? f->n_in : f->n_out))
                continue;
            const bool reads = swi_reads(unread, operand++);
            if (kind == SW_DOUT(0) || !reads)
                continue;
            const uint32_t value = t->operands[f->first + (input ? i : f->n_in + i)];
            marks[swi_root_of(t, t->values[value].storage)] |= NAMED;
        }
    }
}

static bool lives_at(const swi_trace *t, uint32_t s, uint32_t at)
{
    const swi_storage *x = &t->storages[s];
    return x->segment == SWI_SEG_STEP && x->alias == s && x->birth != SWI_NONE &&
           x->birth < at && x->death >= at;
}

static void check_saved(swi_check *c, const swi_program *p, const unsigned char *marks)
{
    const swi_trace *t = &p->trace;
    const uint32_t at = first_backward(p);
    size_t kept = 0, named = 0;
    char extra[96] = "";
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const bool lives = lives_at(t, s, at);
        /* A rule may keep any operand of its op; kernels keep what they name. */
        const bool may = (marks[s] & (c->desc->rule != NULL ? OWN : NAMED)) != 0;
        const bool must = (marks[s] & NAMED) != 0 && t->storages[s].segment == SWI_SEG_STEP;
        if (lives)
            kept += t->storages[s].bytes;
        if (c->desc->rule != NULL ? lives && may : must)
            named += t->storages[s].bytes;
        if (lives && !may)
            swi_storage_name(t, s, extra, sizeof extra);
    }
    swi_check_say(c, kept == named && extra[0] == '\0', "saved bytes",
                  "%zu bytes are kept for backward, the save policy names %zu%s%s", kept, named,
                  extra[0] != '\0' ? "; also kept: " : "", extra);
}

/* ---- punishing memory -------------------------------------------------------------------- */

typedef struct {
    swi_check *c;
    const swi_program *p;
    swi_frame *frame;               /* of p */
    bool places;                    /* try other places for results */
    unsigned char *memory, *shadow; /* p->height bytes each */
    uint32_t scribble_op, scribble; /* before that op this storage is lost; SWI_NONE: none */
    bool with_numbers;              /* it becomes -1000s: a comparison does not show NaN */
    bool stray;                     /* some op wrote what is not its own */
    uint32_t stray_op;
    size_t stray_at;
} prison;

static void lose(prison *x, uint32_t s)
{
    const swi_storage *st = &x->p->trace.storages[s];
    memset(x->memory + st->offset, 0xff, st->rounded);
    memset(x->shadow + st->offset, 0xff, st->rounded);
}

static sw_status before_op(void *context, uint32_t i)
{
    prison *x = context;
    const swi_run_op *op = &x->p->ops[i];
    for (uint32_t k = 0; k < op->n_births; k++)
        lose(x, x->p->births[op->births + k]);
    if (i == x->scribble_op && x->scribble != SWI_NONE)
        lose(x, x->scribble);
    if (i == x->scribble_op && x->scribble != SWI_NONE && x->with_numbers) {
        const swi_storage *st = &x->p->trace.storages[x->scribble];
        const uint16_t lost = 0xc47a; /* -1000 in bf16; twice: -1003 in float32 */
        for (size_t at = 0; at + sizeof lost <= st->bytes; at += sizeof lost)
            memcpy(x->memory + st->offset + at, &lost, sizeof lost);
        memcpy(x->shadow + st->offset, x->memory + st->offset, st->bytes);
    }
    return SW_OK;
}

static void own(prison *x, size_t offset, size_t bytes)
{
    memcpy(x->shadow + offset, x->memory + offset, bytes);
}

/* Whether output 0 may lie where operand k lies: the same bytes in the same order. */
static bool fits(const swi_trace *t, const swi_node *node, uint32_t k)
{
    const swi_value *in = &t->values[t->operands[node->first + k]];
    const swi_value *out = &t->values[t->operands[node->first + node->n_in]];
    return in->contiguous && in->type.layout == out->type.layout &&
           sw_type_bytes(&in->type) == sw_type_bytes(&out->type);
}

/* Every operand that the descriptor allows, whichever of them the plan has chosen. */
static sw_status try_places(prison *x, uint32_t i, const swi_node *node)
{
    const sw_launch *launch = swi_frame_launch(x->frame, i);
    const sw_op_desc *d = x->c->desc;
    if (node->op != x->c->id || node->is_view || (node->accumulate & 1u) != 0 ||
        node->grad >= 32)
        return SW_OK;
    const uint32_t mask = node->grad < 0 ? d->inplace : d->grads[node->grad].inplace;
    for (uint32_t k = 0; k < node->n_in && k < 32; k++) {
        if ((mask >> k & 1u) == 0 || !fits(&x->p->trace, node, k))
            continue;
        *(node->grad < 0 ? &x->c->taken : &x->c->grad_taken[node->grad]) |= 1u << k;
        if (launch->in[k].ptr != launch->out[0].ptr && launch->out[0].ptr != NULL) {
            /* The kernel once more with output 0 on top of a copy of operand k. */
            sw_buffer buffers[SWI_MAX_OPERANDS];
            const size_t n_in = (size_t)launch->n_in,
                         bytes = sw_type_bytes(&launch->out[0].type);
            void *block;
            memcpy(buffers, launch->in, n_in * sizeof *buffers);
            memcpy(buffers + n_in, launch->out, (size_t)launch->n_out * sizeof *buffers);
            sw_launch again = *launch;
            again.in = buffers;
            again.out = buffers + n_in;
            for (size_t j = 0; j < (size_t)launch->n_out; j++) {
                if (launch->out[j].ptr == NULL)
                    continue;
                SW_TRY(swi_check_take(x->c, &block,
                                      sw_type_bytes(&launch->out[j].type) + SW_ALIGN));
                const uintptr_t at = ((uintptr_t)block + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
                buffers[n_in + j].ptr = (void *)at;
            }
            buffers[k].ptr = buffers[n_in].ptr;
            memcpy(buffers[k].ptr, launch->in[k].ptr, bytes);
            SW_TRY(node->kernel(&again));
            swi_check_say(x->c, memcmp(buffers[k].ptr, launch->out[0].ptr, bytes) == 0,
                          "in place",
                          "%s %d gives other bits when output 0 takes the place of operand %u",
                          node->grad < 0 ? "the forward kernel" : "gradient",
                          node->grad < 0 ? 0 : node->grad, k);
        }
    }
    return SW_OK;
}

static sw_status after_op(void *context, uint32_t i)
{
    prison *x = context;
    const swi_program *p = x->p;
    const swi_trace *t = &p->trace;
    const swi_run_op *op = &p->ops[i];
    const swi_node *node = &t->nodes[op->node];
    if (x->places)
        SW_TRY(try_places(x, i, node));
    for (uint32_t k = 0; k < node->n_out; k++) {
        const swi_value *v = &t->values[t->operands[node->first + node->n_in + k]];
        const swi_storage *s = &t->storages[v->storage];
        if (s->segment == SWI_SEG_STEP && s->birth != SWI_NONE)
            own(x, s->offset + v->offset, sw_type_bytes(&v->type));
    }
    if (node->scratch != SWI_NONE)
        own(x, t->storages[node->scratch].offset, t->storages[node->scratch].bytes);
    if (!x->stray && memcmp(x->memory, x->shadow, p->height) != 0) {
        x->stray = true;
        x->stray_op = i;
        while (x->memory[x->stray_at] == x->shadow[x->stray_at])
            x->stray_at++;
        memcpy(x->shadow, x->memory, p->height);
    }
    for (uint32_t k = 0; k < op->n_deaths; k++)
        lose(x, p->deaths[op->deaths + k]);
    return SW_OK;
}

static sw_status take_prison(swi_check *c, swi_frame *frame, prison *x)
{
    const swi_program *p = frame->program;
    void *memory, *shadow;
    SW_TRY(swi_check_take(c, &memory, p->height + 2 * SW_ALIGN));
    SW_TRY(swi_check_take(c, &shadow, p->height + SW_ALIGN));
    const uintptr_t at = ((uintptr_t)memory + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
    *x = (prison)SW_INIT(.c = c, .p = p, .frame = frame, .memory = (unsigned char *)at,
                         .shadow = shadow, .scribble_op = SWI_NONE, .scribble = SWI_NONE);
    return SW_OK;
}

/* Run the program in the prison and read what leaves it. */
static sw_status serve(swi_check *c, const swi_program *p, prison *x, uint32_t flags,
                       swi_check_result *r)
{
    unsigned char *base[SWI_SEG_COUNT + 1];
    swi_check_call call;
    const swi_hooks hooks = {.context = x, .before = before_op, .after = after_op};
    SW_TRY(swi_check_call_fill(c, flags, SWI_CHECK_ALL, &call));
    SW_TRY(swi_check_model_fill(c, c->plain, flags));
    memset(x->memory, 0xff, p->height);
    memset(x->shadow, 0xff, p->height);
    swi_bases(c->plain, &call.args, base);
    base[SWI_SEG_STEP] = x->memory;
    SW_TRY(swi_program_execute(c->plain, x->frame, &call.args, base, p->binds, &hooks, NULL));
    for (uint32_t i = 0; i < p->trace.n_outputs; i++) {
        const swi_value *v = &p->trace.values[p->trace.outputs[i].value];
        if (i < (uint32_t)c->desc->n_out)
            memcpy(r->out[i], x->memory + p->trace.storages[v->storage].offset + v->offset,
                   sw_type_bytes(&v->type));
    }
    return check_read_gradients(c, flags, SWI_CHECK_ALL, r);
}

/* Are the gradients the same when storage s is lost before op `at`? */
static sw_status is_unneeded(swi_check *c, const swi_program *p, prison *x, uint32_t flags,
                             const swi_check_result *base, bool *same)
{
    swi_check_result lost;
    char where[160];
    SW_TRY(check_result_take(c, &lost));
    SW_TRY(serve(c, p, x, flags, &lost));
    for (int i = 0; i < c->desc->n_out; i++)
        lost.out[i] = base->out[i]; /* only gradients count */
    *same = swi_check_same(c, base, &lost, where, sizeof where);
    return SW_OK;
}

/* Without each saved storage of numbers the gradients must change: else it was saved for
 * nothing. */
static sw_status check_need(swi_check *c, const swi_program *p, prison *x, uint32_t flags,
                            const unsigned char *marks, const swi_check_result *base)
{
    const swi_trace *t = &p->trace;
    const uint32_t at = first_backward(p);
    for (uint32_t s = 0; s < t->n_storages; s++) {
        bool floats = true;
        for (uint32_t v = 0; v < t->n_values; v++)
            floats &= swi_root_of(t, t->values[v].storage) != s ||
                      swi_is_number(t->values[v].type.dtype);
        if (!lives_at(t, s, at) || (marks[s] & (NAMED | OWN)) == 0 || !floats)
            continue;
        char name[96];
        bool same = true;
        x->scribble_op = at;
        x->scribble = s;
        for (int numbers = 0; same && numbers < 2; numbers++) {
            x->with_numbers = numbers != 0;
            SW_TRY(is_unneeded(c, p, x, flags, base, &same));
        }
        swi_check_say(c, !same, "need",
                      "%s is kept for backward, but the gradients are the same without it",
                      swi_storage_name(t, s, name, sizeof name));
    }
    x->scribble = SWI_NONE;
    return SW_OK;
}

sw_status swi_check_program(swi_check *c, sw_exec *exec, uint32_t flags,
                            const swi_check_result *base)
{
    swi_check_result r, served;
    prison x;
    char where[160], name[128];
    SW_TRY(swi_check_run(c, exec, flags, SWI_CHECK_ALL, &r));
    const swi_program *p = exec->last;
    SW_TRY(take_prison(c, exec->last_frame, &x));
    x.places = exec == c->apart; /* there every operand outlives its op */
    SW_TRY(check_result_take(c, &served));
    SW_TRY(serve(c, p, &x, flags, &served));
    if ((flags & SWI_CHECK_GIVE) == 0)
        memcpy(served.out, base->out, sizeof served.out);
    if ((flags & SWI_CHECK_TRAIN) == 0)
        memcpy(served.grad, base->grad, sizeof served.grad);
    const bool same = swi_check_same(c, base, &served, where, sizeof where);
    swi_check_say(c, same, "dead bytes",
                  "%s when everything that is not live is NaN: something undeclared or "
                  "unwritten is read",
                  where);
    swi_check_say(
        c, !x.stray, "stray write",
        "%s writes at byte %zu of the arena, outside of its outputs and scratch",
        x.stray ? swi_node_name(&p->trace, swi_node_of(p, x.stray_op), name, sizeof name) : "",
        x.stray_at);
    if ((flags & SWI_CHECK_TRAIN) == 0 || x.places)
        return SW_OK;
    void *marks;
    SW_TRY(swi_check_take(c, &marks, p->trace.n_storages));
    mark(c, &p->trace, marks);
    check_saved(c, p, marks);
    return same ? check_need(c, p, &x, flags, marks, base) : SW_OK;
}
