/* Checks that look at the program: did a result take its input's place, what lives from the
 * forward part to the backward part, and does the program compute the same in memory that
 * punishes mistakes.
 *
 * The punishing memory is a block of our own in place of the step arena: storages are all ones
 * (NaN) when they are born and again when they die, and after each op every byte that is not
 * its own must be as it was. So an op that reads what it has not declared, reads what it has
 * not written, leaves a part unwritten or writes past its scratch is seen, wherever the plan
 * happened to put things. */
#include "runtime/verify/op_check.h"
#include "runtime/exec/run_internal.h"
#include "runtime/observe/observe.h"
#include <stdio.h>
#include <string.h>

static uint32_t root_of(const swi_trace *t, uint32_t s)
{
    while (t->storages[s].alias != s)
        s = t->storages[s].alias;
    return s;
}

static const swi_node *forward_node(const swi_check *c, const swi_trace *t)
{
    for (uint32_t n = 0; n < t->n_nodes; n++)
        if (t->nodes[n].op == c->id && t->nodes[n].grad < 0 && !t->nodes[n].is_backward)
            return &t->nodes[n];
    return NULL;
}

/* ---- in place ---------------------------------------------------------------------------- */

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
        if (p->trace.nodes[p->ops[i].node].is_backward)
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
        marks[root_of(t, t->values[t->operands[f->first + k]].storage)] |= OWN;
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
            marks[root_of(t, t->values[value].storage)] |= NAMED;
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

static void fill_with_numbers(prison *x, uint32_t s)
{
    const swi_storage *st = &x->p->trace.storages[s];
    const float lost = -1000.0f;
    for (size_t at = 0; at + sizeof lost <= st->bytes; at += sizeof lost)
        memcpy(x->memory + st->offset + at, &lost, sizeof lost);
    memcpy(x->shadow + st->offset, x->memory + st->offset, st->bytes);
}

static sw_status before_op(void *context, uint32_t i)
{
    prison *x = context;
    const swi_run_op *op = &x->p->ops[i];
    for (uint32_t k = 0; k < op->n_births; k++)
        lose(x, x->p->births[op->births + k]);
    if (i == x->scribble_op && x->scribble != SWI_NONE)
        lose(x, x->scribble);
    if (i == x->scribble_op && x->scribble != SWI_NONE && x->with_numbers)
        fill_with_numbers(x, x->scribble);
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

/* The kernel once more with output 0 on top of a copy of operand k. */
static sw_status on_top(prison *x, const sw_launch *launch, const swi_node *node, uint32_t k)
{
    sw_buffer buffers[SWI_MAX_OPERANDS];
    const size_t n_in = (size_t)launch->n_in, bytes = sw_type_bytes(&launch->out[0].type);
    void *block;
    memcpy(buffers, launch->in, n_in * sizeof *buffers);
    memcpy(buffers + n_in, launch->out, (size_t)launch->n_out * sizeof *buffers);
    sw_launch again = *launch;
    again.in = buffers;
    again.out = buffers + n_in;
    for (size_t i = 0; i < (size_t)launch->n_out; i++) {
        if (launch->out[i].ptr == NULL)
            continue;
        SW_TRY(swi_check_take(x->c, &block, sw_type_bytes(&launch->out[i].type) + SW_ALIGN));
        const uintptr_t at = ((uintptr_t)block + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
        buffers[n_in + i].ptr = (void *)at;
    }
    buffers[k].ptr = buffers[n_in].ptr;
    memcpy(buffers[k].ptr, launch->in[k].ptr, bytes);
    SW_TRY(node->kernel(&again));
    swi_check_say(x->c, memcmp(buffers[k].ptr, launch->out[0].ptr, bytes) == 0, "in place",
                  "%s %d gives other bits when output 0 takes the place of operand %u",
                  node->grad < 0 ? "the forward kernel" : "gradient",
                  node->grad < 0 ? 0 : node->grad, k);
    return SW_OK;
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
        if (launch->in[k].ptr != launch->out[0].ptr && launch->out[0].ptr != NULL)
            SW_TRY(on_top(x, launch, node, k));
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
    *x = (prison){.c = c,
                  .p = p,
                  .frame = frame,
                  .memory = (unsigned char *)at,
                  .shadow = shadow,
                  .scribble_op = SWI_NONE,
                  .scribble = SWI_NONE};
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
    return swi_check_read_gradients(c, flags, SWI_CHECK_ALL, r);
}

/* Are the gradients the same when storage s is lost before op `at`? */
static sw_status is_unneeded(swi_check *c, const swi_program *p, prison *x, uint32_t flags,
                             const swi_check_result *base, bool *same)
{
    swi_check_result lost;
    char where[160];
    SW_TRY(swi_check_result_take(c, &lost));
    SW_TRY(serve(c, p, x, flags, &lost));
    for (int i = 0; i < c->desc->n_out; i++)
        lost.out[i] = base->out[i]; /* only gradients count */
    *same = swi_check_same(c, base, &lost, where, sizeof where);
    return SW_OK;
}

/* Without each saved F32 storage the gradients must change: else it was saved for nothing. */
static sw_status check_need(swi_check *c, const swi_program *p, prison *x, uint32_t flags,
                            const unsigned char *marks, const swi_check_result *base)
{
    const swi_trace *t = &p->trace;
    const uint32_t at = first_backward(p);
    for (uint32_t s = 0; s < t->n_storages; s++) {
        bool floats = true;
        for (uint32_t v = 0; v < t->n_values; v++)
            floats &=
                root_of(t, t->values[v].storage) != s || t->values[v].type.dtype == SW_F32;
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
    SW_TRY(swi_check_result_take(c, &served));
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
    swi_check_say(c, !x.stray, "stray write",
                  "%s writes at byte %zu of the arena, outside of "
                  "its outputs and scratch",
                  x.stray ? swi_node_name(&p->trace, &p->trace.nodes[p->ops[x.stray_op].node],
                                          name, sizeof name)
                          : "",
                  x.stray_at);
    if ((flags & SWI_CHECK_TRAIN) == 0 || x.places)
        return SW_OK;
    void *marks;
    SW_TRY(swi_check_take(c, &marks, p->trace.n_storages));
    mark(c, &p->trace, marks);
    check_saved(c, p, marks);
    return same ? check_need(c, p, &x, flags, marks, base) : SW_OK;
}
