/* Random networks, made op by op from dice. */
#include "tests/runtime/random_make.h"

static bool is_view(random_kind kind)
{
    return kind == RANDOM_RESHAPE || kind == RANDOM_SLICE || kind == RANDOM_TRANSPOSE ||
           kind == RANDOM_DETACH;
}

int random_push(maker *m, random_op op)
{
    random_net *r = m->net;
    CU_ASSERT_FATAL(r->n_ops < RANDOM_OPS);
    if (m->scope != 0 && op.kind < RANDOM_METRIC)
        op.scope = m->scope;
    op.phase =
        op.kind > RANDOM_BYTES && op.kind < RANDOM_METRIC && chance(m, 2) ? below(m, 5) : -1;
    for (int i = 0; i < op.n_in; i++) {
        random_op *from = &r->op[op.in[i]];
        from->uses++;
        op.deps |= from->deps;
        op.touches |= from->touches;
        op.of_model |= is_view(op.kind) && from->of_model;
    }
    if (op.kind == RANDOM_DETACH || op.kind == RANDOM_ACCURACY)
        op.deps = 0;
    r->op[r->n_ops] = op;
    return r->n_ops++;
}

int random_push_on(maker *m, random_kind kind, int x, float size)
{
    return random_push(
        m, (random_op){
               .kind = kind, .n_in = 1, .in = {x}, .shape = m->net->op[x].shape, .size = size});
}

int random_tamed(maker *m, int x)
{
    const float size = m->net->op[x].size;
    if (size <= 6.0f)
        return x;
    const int y = random_push_on(m, RANDOM_SCALE_BY, x, 1.0f);
    m->net->op[y].number = 1.0f / size;
    return y;
}

bool random_is_value(const random_op *op)
{
    return op->kind <= RANDOM_ACCURACY && !(op->kind == RANDOM_INPUT && op->what != 0);
}

int random_pick(maker *m, int min_rank, int max_rank)
{
    const int n = m->net->n_ops;
    for (int i = 0; i < 24; i++) {
        const int back = chance(m, 70) ? below(m, n < 6 ? n : 6) : below(m, n);
        const random_op *op = &m->net->op[n - 1 - back];
        if (random_is_value(op) && op->shape.rank >= min_rank && op->shape.rank <= max_rank &&
            op->size <= 10.0f)
            return n - 1 - back;
    }
    return -1;
}

int random_push_use(maker *m, int p)
{
    return random_push(m,
                       (random_op)SW_INIT(.kind = RANDOM_PARAM, .shape = m->net->param[p].shape,
                                          .what = p, .deps = 1u << p, .touches = 1u << p,
                                          .of_model = true, .size = 1.0f));
}

int random_push_param(maker *m, sw_shape shape)
{
    random_net *r = m->net;
    int p = -1;
    for (int i = 0; i < r->n_params; i++)
        if (same(&r->param[i].shape, &shape) && chance(m, 35))
            p = i;
    if (p < 0 && r->n_params == RANDOM_PARAMS)
        return -1;
    if (p < 0) {
        p = r->n_params++;
        r->param[p] =
            (random_param){.shape = shape, .model = below(m, r->n_models), .optimizer = -1};
    }
    return random_push_use(m, p);
}

/* ---- the whole --------------------------------------------------------------------------- */

static void make_inputs(maker *m)
{
    random_net *r = m->net;
    r->batch = chance(m, 40) ? 1 + below(m, 4) : 1 + below(m, 40);
    r->bytes = chance(m, 50);
    r->input[0] = SW_SHAPE(r->batch, 1 + below(m, 12));
    r->input[1] = SW_SHAPE(r->batch, 1 + below(m, 3), 4 + below(m, 8), 4 + below(m, 8));
    r->input[RANDOM_LABELS] = SW_SHAPE(r->batch);
    for (int i = 0; i < 3; i++)
        (void)random_push(m,
                          (random_op){.kind = i == 1 && r->bytes ? RANDOM_BYTES : RANDOM_INPUT,
                                      .what = i == RANDOM_LABELS ? RANDOM_LABELS
                                              : i == 1           ? -1
                                                                 : 0,
                                      .shape = r->input[i],
                                      .size = 3.0f});
    r->op[1].what = r->bytes ? 1 : 0;
    r->op[1].n[0] = 1;
}

void random_net_make(random_net *r, uint64_t seed)
{
    memset(r, 0, sizeof *r);
    r->seed = seed;
    maker m = {.net = r, .dice = {seed * 0x9e3779b97f4a7c15ull + 77}};
    r->n_models = 1 + chance(&m, 40);
    make_inputs(&m);
    const int steps = chance(&m, 20) ? 1 + below(&m, 4) : 4 + below(&m, 20);
    for (int i = 0; i < steps; i++)
        random_make_step(&m);
    int loss[2] = {-1, -1};
    random_end_all(&m, loss);
    m.scope = 0;
    random_make_optimizers(&m);
    r->train_from = r->n_ops;
    random_train(&m, loss);
    if (r->n_params > 0 && chance(&m, 40))
        random_watch(&m, random_push_use(&m, below(&m, r->n_params)));
    for (int s = 0; s < r->n_states; s++)
        random_assign(&m, s);
}

/* ---- describing it ---------------------------------------------------------------------- */

/* In place of what lets nothing through somewhere, or not the numbers themselves. */
static random_kind soft(random_kind kind)
{
    switch (kind) {
    case RANDOM_MAX_POOL:
        return RANDOM_AVG_POOL;
    case RANDOM_GLOBAL_MAX:
        return RANDOM_GLOBAL_AVG;
    case RANDOM_MAX:
        return RANDOM_MEAN;
    case RANDOM_RELU:
        return RANDOM_LEAKY;
    case RANDOM_ABS:
    case RANDOM_CLAMP:
    case RANDOM_DROPOUT:
        return RANDOM_TANH;
    case RANDOM_HARD_SWISH:
    case RANDOM_ELU: /* after a norm all may be above 0 */
    case RANDOM_SELU:
        return RANDOM_SWISH;
    case RANDOM_HUBER:
    case RANDOM_L1:
        return RANDOM_MSE;
    default:
        return kind;
    }
}

void random_net_soften(random_net *r)
{
    for (int i = 0; i < r->n_ops; i++) {
        random_op *op = &r->op[i];
        if (op->kind == RANDOM_RELU)
            op->number = 0.1f;
        op->kind = soft(op->kind);
    }
}

void random_net_untie(random_net *r)
{
    bool detached = false;
    for (int i = 0; i < r->n_ops; i++)
        detached |= r->op[i].kind == RANDOM_DETACH;
    for (int i = 0; detached && i < r->n_ops; i++) {
        const random_kind kind = r->op[i].kind;
        if (kind == RANDOM_MAX || kind == RANDOM_L1 || kind == RANDOM_ABS)
            r->op[i].kind = soft(kind);
    }
}

void random_net_print(const random_net *r)
{
    static const char *const names[] = {
#define NAME(id, name) name,
        RANDOM_KINDS(NAME)};
    sw_note("seed %llu: batch %d, %d models%s", (unsigned long long)r->seed, (int)r->batch,
            r->n_models, r->twice ? ", updates every second run" : "");
    for (int i = 0; i < r->n_optimizers; i++) {
        const random_optimizer *o = &r->optimizer[i];
        sw_note("  optimizer %d: %s of model %d%s%s%s%s%s%s%s, parameters 0x%x", i, o->kind,
                o->model, o->momentum > 0.0f ? " momentum" : "", o->nesterov ? " nesterov" : "",
                o->weight_decay > 0.0f ? " decay" : "", o->keep ? " keep" : "",
                o->release ? " release" : "", o->clip ? " clip" : "", o->hook ? " hook" : "",
                o->params);
    }
    for (int i = 0; i < r->n_ops; i++) {
        const random_op *op = &r->op[i];
        char in[40] = "", shape[80] = "";
        for (int k = 0; k < op->n_in; k++)
            snprintf(in + strlen(in), sizeof in - strlen(in), " %d", op->in[k]);
        for (int k = 0; k < op->shape.rank; k++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d",
                     k > 0 ? "x" : "", (int)op->shape.dim[k]);
        sw_note("  %3d %-15s of%-12s (%s) n %d %d %d what %d number %g scope %d phase %d", i,
                names[op->kind], in, shape, (int)op->n[0], (int)op->n[1], (int)op->n[2],
                op->what, (double)op->number, op->scope, op->phase);
    }
}
