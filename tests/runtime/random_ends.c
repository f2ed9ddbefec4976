/* Where random networks end: losses, metrics, outputs, and training. */
#include "tests/runtime/random_make.h"

/* Not what x is the sum of: their difference would have no gradient for it. */
static int other_of_shape(maker *m, int x)
{
    const random_op *of = &m->net->op[x];
    for (int i = 0; i < m->net->n_ops; i++) {
        const int y = below(m, m->net->n_ops);
        if (y != x && y != of->in[0] && y != of->in[1] && random_is_value(&m->net->op[y]) &&
            same(&m->net->op[y].shape, &m->net->op[x].shape))
            return y;
    }
    return random_push(
        m, (random_op){.kind = RANDOM_RAND, .shape = m->net->op[x].shape, .size = 1.0f});
}

static int elementwise_loss(maker *m, random_kind kind, int x, int y)
{
    return random_push(m, (random_op)SW_INIT(.kind = kind, .n_in = 2, .in = {x, y},
                                             .number = 0.25f, .size = m->net->op[x].size));
}

/* A scalar made of x. */
static int term(maker *m, int x)
{
    const sw_shape s = m->net->op[x].shape;
    const bool rows = s.rank == 2 && s.dim[0] == m->net->batch && s.dim[1] >= RANDOM_CLASSES;
    if (s.rank == 0)
        return x;
    if (rows && chance(m, 50)) {
        if (chance(m, 30)) {
            const int a = elementwise_loss(m, RANDOM_ACCURACY, x, RANDOM_LABELS);
            (void)random_push_on(m, RANDOM_METRIC, a, 0.0f);
        }
        return elementwise_loss(m, RANDOM_SOFTMAX_CE, x, RANDOM_LABELS);
    }
    switch (below(m, 7)) {
    case 0:
        return elementwise_loss(m, RANDOM_MSE, x, other_of_shape(m, x));
    case 1:
        return elementwise_loss(m, RANDOM_HUBER, x, other_of_shape(m, x));
    case 2:
        return elementwise_loss(m, RANDOM_L1, x, other_of_shape(m, x));
    case 3:
        return random_push(m, (random_op)SW_INIT(.kind = RANDOM_BCE, .n_in = 1, .in = {x},
                                                 .number = 0.25f, .size = m->net->op[x].size));
    case 4:
        return elementwise_loss(
            m, RANDOM_BCE_WITH, x,
            random_push(m, (random_op){.kind = RANDOM_RAND, .shape = s, .size = 1.0f}));
    case 5: {
        const int square =
            random_push(m, (random_op)SW_INIT(.kind = RANDOM_MUL, .n_in = 2, .in = {x, x},
                                              .shape = s, .size = m->net->op[x].size));
        return random_reduce(m, square, RANDOM_MEAN, 0);
    }
    default:
        return random_reduce(m, x, RANDOM_MEAN, 0);
    }
}

static void add_term(maker *m, int t, int *loss)
{
    if (*loss < 0) {
        *loss = t;
        m->net->op[t].uses++;
        return;
    }
    int part = t;
    if (chance(m, 40)) {
        part = random_push_on(m, RANDOM_SCALE_BY, t, 1.0f);
        m->net->op[part].number = 0.5f;
    }
    *loss = random_push(m, (random_op){.kind = RANDOM_ADD, .n_in = 2, .in = {*loss, part}});
    m->net->op[*loss].uses++;
}

/* x becomes a part of one loss or of both, a metric or an output. */
static void sink(maker *m, int x, int *loss)
{
    if (chance(m, 12)) {
        (void)random_push_on(m, RANDOM_OUTPUT, x, 0.0f);
        return;
    }
    const int t = term(m, random_tamed(m, x)), where = below(m, 100);
    if (where < 12)
        (void)random_push_on(m, RANDOM_METRIC, t, 0.0f);
    if (where >= 12 && where < 75)
        add_term(m, t, &loss[0]);
    if (where >= 60)
        add_term(m, t, &loss[1]);
}

void random_end_all(maker *m, int *loss)
{
    for (int x = 0; x < m->net->n_ops; x++)
        if (m->net->op[x].uses == 0 && random_is_value(&m->net->op[x]))
            sink(m, x, loss);
    for (int i = 0; i < 2; i++)
        if (loss[i] >= 0)
            (void)random_push_on(m, RANDOM_METRIC, loss[i], 0.0f);
}

/* ---- training ---------------------------------------------------------------------------- */

void random_make_optimizers(maker *m)
{
    static const char *const kinds[] = {"sgd", "adam", "adamw"};
    random_net *r = m->net;
    r->n_optimizers = 1 + below(m, RANDOM_OPTIMIZERS);
    r->twice = chance(m, 20);
    for (int i = 0; i < r->n_optimizers; i++) {
        random_optimizer *o = &r->optimizer[i];
        *o = (random_optimizer){.model = below(m, r->n_models),
                                .kind = kinds[below(m, 3)],
                                .weight_decay = chance(m, 30) ? 0.1f : 0.0f,
                                .keep = chance(m, 30)};
        if (strcmp(o->kind, "sgd") == 0 && chance(m, 60)) {
            o->momentum = 0.5f;
            o->nesterov = chance(m, 40);
        }
        o->release = !o->keep && chance(m, 40);
        o->clip = !o->release && chance(m, 40);
        o->hook = !o->keep && (r->seed >> i & 3) == 0; /* no draw: the nets stay as they are */
    }
    for (int p = 0; p < r->n_params; p++) {
        const int o = below(m, r->n_optimizers);
        if (r->optimizer[o].model != r->param[p].model || chance(m, 8))
            continue;
        r->param[p].optimizer = o;
        r->optimizer[o].params |= 1u << p;
    }
}

static void push_train(maker *m, random_kind kind, int loss, int optimizers)
{
    random_op op = {.kind = kind, .what = optimizers};
    if (loss >= 0) {
        op.n_in = 1;
        op.in[0] = loss;
    }
    (void)random_push(m, op);
}

static void accumulate_some(maker *m, int optimizers)
{
    for (int i = 0; i < m->net->n_optimizers; i++)
        if ((optimizers >> i & 1) != 0 && m->net->optimizer[i].keep &&
            (m->net->twice || chance(m, 50)))
            push_train(m, RANDOM_ACCUMULATE, -1, 1 << i);
}

static void update_all(maker *m, int optimizers)
{
    for (int i = 0; i < m->net->n_optimizers; i++)
        if ((optimizers >> i & 1) != 0)
            push_train(m, RANDOM_UPDATE, -1, 1 << i);
}

/* One or two backwards, each for the optimizers that its loss can teach. Updates in between
 * only of what the second loss does not touch. */
void random_train(maker *m, const int *loss)
{
    random_net *r = m->net;
    int can[2] = {0, 0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; loss[k] >= 0 && i < r->n_optimizers; i++)
            if ((r->op[loss[k]].deps & r->optimizer[i].params) != 0 && chance(m, 85))
                can[k] |= 1 << i;
    if (can[0] != 0) {
        push_train(m, RANDOM_BACKWARD, loss[0], can[0]);
        accumulate_some(m, can[0]);
        int early = can[0] & ~can[1];
        for (int i = 0; i < r->n_optimizers; i++)
            if (can[1] != 0 && (r->op[loss[1]].touches & r->optimizer[i].params) != 0)
                early &= ~(1 << i);
        update_all(m, early);
        can[0] &= ~early;
    }
    if (can[1] != 0) {
        push_train(m, RANDOM_BACKWARD, loss[1], can[1]);
        accumulate_some(m, can[1]);
    }
    update_all(m, can[0] | can[1]);
}

void random_watch(maker *m, int x)
{
    (void)random_push_on(m, RANDOM_METRIC, random_reduce(m, x, RANDOM_MEAN, 0), 0.0f);
}

/* A state is assigned a value of this run, not a view of the model. */
void random_assign(maker *m, int s)
{
    int from = -1;
    for (int x = 0; x < m->net->train_from; x++) {
        const random_op *op = &m->net->op[x];
        if (random_is_value(op) && !op->of_model && same(&op->shape, &m->net->state[s].shape) &&
            (from < 0 || chance(m, 50)))
            from = x;
    }
    if (from < 0)
        return;
    (void)random_push(m,
                      (random_op){.kind = RANDOM_ASSIGN, .n_in = 1, .in = {from}, .what = s});
    if (chance(m, 40))
        random_watch(m, random_push(m, (random_op){.kind = RANDOM_STATE,
                                                   .shape = m->net->state[s].shape,
                                                   .what = s,
                                                   .of_model = true}));
}
