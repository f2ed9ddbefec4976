/* Random networks, made op by op from dice. */
#include "tests/runtime/random_net.h"
#include <stdio.h>
#include <string.h>

#define MOST_ELEMENTS 40000

typedef struct {
    random_net *net;
    sw_dice dice;
    int scope;
} maker;

static int below(maker *m, int n)
{
    return (int)sw_dice_below(&m->dice, (uint64_t)n);
}

static bool chance(maker *m, int percent)
{
    return below(m, 100) < percent;
}

static int64_t elements(const sw_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

static bool same(const sw_shape *a, const sw_shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

/* ---- appending --------------------------------------------------------------------------- */

static bool is_view(random_kind kind)
{
    return kind == RANDOM_RESHAPE || kind == RANDOM_SLICE || kind == RANDOM_DETACH;
}

static int push(maker *m, random_op op)
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

static int push_on(maker *m, random_kind kind, int x, float size)
{
    return push(
        m, (random_op){
               .kind = kind, .n_in = 1, .in = {x}, .shape = m->net->op[x].shape, .size = size});
}

/* What has grown large is made small again, so that neither tanh nor softmax saturates. */
static int tamed(maker *m, int x)
{
    const float size = m->net->op[x].size;
    if (size <= 6.0f)
        return x;
    const int y = push_on(m, RANDOM_SCALE_BY, x, 1.0f);
    m->net->op[y].number = 1.0f / size;
    return y;
}

static bool is_value(const random_op *op)
{
    return op->kind <= RANDOM_ACCURACY && !(op->kind == RANDOM_INPUT && op->what != 0);
}

/* A value, rather a late one; min_rank..max_rank. -1: none came up. */
static int pick(maker *m, int min_rank, int max_rank)
{
    const int n = m->net->n_ops;
    for (int i = 0; i < 24; i++) {
        const int back = chance(m, 70) ? below(m, n < 6 ? n : 6) : below(m, n);
        const random_op *op = &m->net->op[n - 1 - back];
        if (is_value(op) && op->shape.rank >= min_rank && op->shape.rank <= max_rank &&
            op->size <= 10.0f)
            return n - 1 - back;
    }
    return -1;
}

static int push_use(maker *m, int p)
{
    return push(m, (random_op){.kind = RANDOM_PARAM,
                               .shape = m->net->param[p].shape,
                               .what = p,
                               .deps = 1u << p,
                               .touches = 1u << p,
                               .of_model = true,
                               .size = 1.0f});
}

/* A parameter of that shape, a new one or one that is in use. -1: there are too many. */
static int push_param(maker *m, sw_shape shape)
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
    return push_use(m, p);
}

/* ---- the ops ----------------------------------------------------------------------------- */

static bool broadcast(const sw_shape *a, const sw_shape *b, sw_shape *out)
{
    *out = (sw_shape){.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 1; i <= out->rank; i++) {
        const int64_t x = i <= a->rank ? a->dim[a->rank - i] : 1;
        const int64_t y = i <= b->rank ? b->dim[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        out->dim[out->rank - i] = x == 1 ? y : x;
    }
    return elements(out) <= MOST_ELEMENTS;
}

static int push_slice(maker *m, int x, int axis, bool one)
{
    random_op op = {.kind = RANDOM_SLICE,
                    .n_in = 1,
                    .in = {x},
                    .shape = m->net->op[x].shape,
                    .size = m->net->op[x].size};
    const int64_t all = op.shape.dim[axis];
    op.n[0] = axis;
    op.n[1] = below(m, (int)all);
    op.n[2] = one ? 1 : 1 + below(m, (int)(all - op.n[1]));
    op.shape.dim[axis] = op.n[2];
    return push(m, op);
}

/* Something that can be added to x. */
static int partner(maker *m, int x, sw_shape *shape)
{
    const sw_shape s = m->net->op[x].shape;
    if (chance(m, 10)) {
        *shape = s;
        return x;
    }
    if (s.rank > 0 && chance(m, 12)) { /* a part of its own */
        const int y = push_slice(m, x, below(m, s.rank), true);
        if (broadcast(&s, &m->net->op[y].shape, shape))
            return y;
    }
    if (m->net->op[x].kind == RANDOM_PARAM && chance(m, 40)) {
        *shape = s;
        return push_param(m, s);
    }
    if (chance(m, 60))
        for (int i = 0; i < 12; i++) {
            const int y = pick(m, 0, 8);
            if (y >= 0 && y != x && broadcast(&s, &m->net->op[y].shape, shape))
                return y;
        }
    sw_shape part = {0};
    const int from = s.rank > 0 ? below(m, s.rank + 1) : 0;
    for (int i = from; i < s.rank; i++)
        part.dim[part.rank++] = chance(m, 30) ? 1 : s.dim[i];
    if (elements(&part) > 4000 || !broadcast(&s, &part, shape))
        return -1;
    if (chance(m, 25))
        return push(m, (random_op){.kind = chance(m, 50) ? RANDOM_RAND : RANDOM_RANDN,
                                   .shape = part,
                                   .size = 3.0f});
    return push_param(m, part);
}

static int add_or_mul(maker *m)
{
    const int x = pick(m, 0, 8);
    sw_shape shape;
    const int y = x >= 0 ? partner(m, x, &shape) : -1;
    if (y < 0)
        return -1;
    const float a = m->net->op[x].size, b = m->net->op[y].size;
    const bool add = chance(m, 50);
    const bool turned = chance(m, 30);
    return push(m, (random_op){.kind = add ? RANDOM_ADD : RANDOM_MUL,
                               .n_in = 2,
                               .in = {turned ? y : x, turned ? x : y},
                               .shape = shape,
                               .size = add ? a + b : a * b});
}

static int pointwise(maker *m)
{
    const random_kind kinds[] = {RANDOM_RELU,  RANDOM_LEAKY, RANDOM_TANH,    RANDOM_SIGMOID,
                                 RANDOM_SWISH, RANDOM_SCALE, RANDOM_SCALE_BY};
    const int x = pick(m, 0, 8);
    if (x < 0)
        return -1;
    random_op op = {.kind = kinds[below(m, 7)],
                    .n_in = 1,
                    .in = {x},
                    .shape = m->net->op[x].shape,
                    .size = m->net->op[x].size};
    if (op.kind == RANDOM_TANH || op.kind == RANDOM_SIGMOID)
        op.size = 1.0f;
    op.number = op.kind == RANDOM_LEAKY ? 0.1f : chance(m, 50) ? -0.5f : 1.5f;
    op.what = below(m, m->net->n_models);
    if (op.kind == RANDOM_SCALE_BY)
        op.size *= 1.5f;
    return push(m, op);
}

static int reshape(maker *m)
{
    const int x = pick(m, 1, 5);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    sw_shape to = {0};
    const int at = below(m, s.rank);
    switch (below(m, 4)) {
    case 0: /* one row */
        to = (sw_shape){1, {elements(&s)}};
        break;
    case 1: /* a matrix */
        to = (sw_shape){2, {s.dim[0], elements(&s) / s.dim[0]}};
        break;
    case 2: /* an axis of one */
        for (int i = 0; i <= s.rank; i++)
            to.dim[to.rank++] = i == at ? 1 : s.dim[i - (i > at)];
        break;
    default: /* an axis in two */
        for (int i = 0; i < s.rank; i++) {
            const int64_t k = i == at ? (s.dim[i] % 3 == 0 ? 3 : s.dim[i] % 2 == 0 ? 2 : 1) : 1;
            if (k > 1)
                to.dim[to.rank++] = k;
            to.dim[to.rank++] = s.dim[i] / k;
        }
    }
    return push(m, (random_op){.kind = RANDOM_RESHAPE,
                               .n_in = 1,
                               .in = {x},
                               .shape = to,
                               .size = m->net->op[x].size});
}

static int slice(maker *m)
{
    const int x = pick(m, 1, 6);
    return x < 0 ? -1 : push_slice(m, x, below(m, m->net->op[x].shape.rank), false);
}

static int concat(maker *m)
{
    const int x = pick(m, 1, 6);
    if (x < 0)
        return -1;
    random_op op = {.kind = RANDOM_CONCAT,
                    .n_in = 1,
                    .in = {x},
                    .shape = m->net->op[x].shape,
                    .size = m->net->op[x].size};
    const int axis = below(m, op.shape.rank), wanted = 2 + below(m, 2);
    op.n[0] = axis;
    for (int i = 0; i < 20 && op.n_in < wanted; i++) {
        const int y = chance(m, 15) ? x : pick(m, op.shape.rank, op.shape.rank);
        if (y < 0)
            continue;
        sw_shape s = m->net->op[y].shape;
        const int64_t n = s.dim[axis];
        s.dim[axis] = op.shape.dim[axis];
        if (!same(&s, &op.shape) ||
            elements(&s) / s.dim[axis] * (n + s.dim[axis]) > MOST_ELEMENTS)
            continue;
        op.shape.dim[axis] += n;
        op.in[op.n_in++] = y;
        op.size = fmaxf(op.size, m->net->op[y].size);
    }
    return push(m, op);
}

static int linear(maker *m)
{
    const int x = pick(m, 2, 2);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    if (s.dim[1] > 300)
        return -1;
    int w = -1;
    for (int i = 0; i < 10 && w < 0 && chance(m, 25); i++) { /* a weight that was computed */
        w = pick(m, 2, 2);
        if (w >= 0 &&
            (m->net->op[w].shape.dim[1] != s.dim[1] || m->net->op[w].shape.dim[0] > 64))
            w = -1;
    }
    const float strength = w >= 0 ? (float)s.dim[1] * m->net->op[w].size : 2.0f;
    if (w < 0)
        w = push_param(m, SW_SHAPE(1 + below(m, chance(m, 20) ? 40 : 10), s.dim[1]));
    if (w < 0)
        return -1;
    random_op op = {.kind = RANDOM_LINEAR,
                    .n_in = 2,
                    .in = {x, w},
                    .shape = SW_SHAPE(s.dim[0], m->net->op[w].shape.dim[0]),
                    .size = 1.0f + strength * m->net->op[x].size};
    if (elements(&op.shape) > MOST_ELEMENTS)
        return -1;
    const int b = chance(m, 70) ? push_param(m, SW_SHAPE(op.shape.dim[1])) : -1;
    if (b >= 0)
        op.in[op.n_in++] = b;
    return push(m, op);
}

static int conv(maker *m)
{
    const int x = pick(m, 4, 4);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    const int64_t k = 1 + below(m, 4), stride = 1 + below(m, 3), pad = below(m, (int)k);
    if (s.dim[1] > 8 || s.dim[2] + 2 * pad < k || s.dim[3] + 2 * pad < k)
        return -1;
    const int64_t out = 1 + below(m, 5);
    const int w = push_param(m, SW_SHAPE(out, s.dim[1], k, k));
    if (w < 0)
        return -1;
    random_op op = {.kind = RANDOM_CONV,
                    .n_in = 2,
                    .in = {x, w},
                    .shape = SW_SHAPE(s.dim[0], out, (s.dim[2] + 2 * pad - k) / stride + 1,
                                      (s.dim[3] + 2 * pad - k) / stride + 1),
                    .n = {k, stride, pad},
                    .size = 2.0f * m->net->op[x].size};
    const int b = chance(m, 70) ? push_param(m, SW_SHAPE(out)) : -1;
    if (b >= 0)
        op.in[op.n_in++] = b;
    return push(m, op);
}

static int pool(maker *m)
{
    const int x = pick(m, 4, 4);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    random_op op = {.kind = (random_kind)(RANDOM_MAX_POOL + below(m, 4)),
                    .n_in = 1,
                    .in = {x},
                    .shape = SW_SHAPE(s.dim[0], s.dim[1], 1, 1),
                    .size = m->net->op[x].size};
    const int64_t places = s.dim[2] * s.dim[3];
    if (op.kind == RANDOM_GLOBAL_MAX && (places == 1 || places > 255))
        op.kind = RANDOM_GLOBAL_AVG; /* the index of the winner says something, in a byte */
    if (op.kind <= RANDOM_AVG_POOL) {
        op.n[0] = 1 + (op.kind == RANDOM_MAX_POOL) + below(m, 3);
        op.n[1] = 1 + below(m, 3);
        op.n[2] = below(m, (int)op.n[0] / 2 + 1);
        for (int i = 2; i < 4; i++) {
            if (s.dim[i] + 2 * op.n[2] < op.n[0])
                return -1;
            op.shape.dim[i] = (s.dim[i] + 2 * op.n[2] - op.n[0]) / op.n[1] + 1;
        }
    }
    return push(m, op);
}

static int reduce(maker *m, int x, bool mean, uint32_t axes)
{
    const random_op *of = &m->net->op[x];
    random_op op = {.kind = mean ? RANDOM_MEAN : RANDOM_SUM, .n_in = 1, .in = {x}};
    op.n[0] = axes;
    for (int i = 0; i < of->shape.rank; i++)
        if (axes != 0 && (axes >> i & 1u) == 0)
            op.shape.dim[op.shape.rank++] = of->shape.dim[i];
    op.size = of->size;
    if (!mean)
        op.size *= (float)(elements(&of->shape) / elements(&op.shape));
    return push(m, op);
}

static int any_reduction(maker *m)
{
    const int x = pick(m, 1, 6);
    return x < 0
               ? -1
               : reduce(m, x, chance(m, 50), (uint32_t)below(m, 1 << m->net->op[x].shape.rank));
}

static int lone(maker *m, random_kind kind)
{
    const int x = pick(m, 1, 6);
    if (x < 0)
        return -1;
    return push_on(m, kind, x, kind == RANDOM_SOFTMAX ? 1.0f : m->net->op[x].size);
}

/* A state of the shape of a value; what it is given is decided at the end. */
static int state(maker *m)
{
    random_net *r = m->net;
    const int x = pick(m, 0, 6);
    if (x < 0 || r->n_states == 4 || elements(&r->op[x].shape) > 4000)
        return -1;
    r->state[r->n_states] =
        (random_param){.shape = r->op[x].shape, .model = below(m, r->n_models)};
    return push(m, (random_op){.kind = RANDOM_STATE,
                               .shape = r->op[x].shape,
                               .what = r->n_states++,
                               .of_model = true,
                               .size = 5.0f});
}

static void step(maker *m)
{
    const int kind = below(m, 100);
    if (chance(m, 8))
        m->scope = below(m, 4);
    int x;
    if (kind < 22)
        x = add_or_mul(m);
    else if (kind < 40)
        x = pointwise(m);
    else if (kind < 46)
        x = reshape(m);
    else if (kind < 52)
        x = slice(m);
    else if (kind < 58)
        x = concat(m);
    else if (kind < 61)
        x = lone(m, RANDOM_DETACH);
    else if (kind < 73)
        x = linear(m);
    else if (kind < 82)
        x = conv(m);
    else if (kind < 89)
        x = pool(m);
    else if (kind < 94)
        x = any_reduction(m);
    else if (kind < 97)
        x = lone(m, RANDOM_SOFTMAX);
    else
        x = state(m);
    if (x >= 0)
        (void)tamed(m, x);
}

/* ---- where everything ends --------------------------------------------------------------- */

static int other_of_shape(maker *m, int x)
{
    for (int i = 0; i < m->net->n_ops; i++) {
        const int y = below(m, m->net->n_ops);
        if (y != x && is_value(&m->net->op[y]) &&
            same(&m->net->op[y].shape, &m->net->op[x].shape))
            return y;
    }
    return push(m,
                (random_op){.kind = RANDOM_RAND, .shape = m->net->op[x].shape, .size = 1.0f});
}

static int pair_loss(maker *m, random_kind kind, int x, int y)
{
    return push(m, (random_op){.kind = kind,
                               .n_in = 2,
                               .in = {x, y},
                               .number = 0.25f,
                               .size = m->net->op[x].size});
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
            const int a = pair_loss(m, RANDOM_ACCURACY, x, RANDOM_LABELS);
            (void)push_on(m, RANDOM_METRIC, a, 0.0f);
        }
        return pair_loss(m, RANDOM_SOFTMAX_CE, x, RANDOM_LABELS);
    }
    switch (below(m, 5)) {
    case 0:
        return pair_loss(m, RANDOM_MSE, x, other_of_shape(m, x));
    case 1:
        return push(m, (random_op){.kind = RANDOM_BCE,
                                   .n_in = 1,
                                   .in = {x},
                                   .number = 0.25f,
                                   .size = m->net->op[x].size});
    case 2:
        return pair_loss(m, RANDOM_BCE_WITH, x,
                         push(m, (random_op){.kind = RANDOM_RAND, .shape = s, .size = 1.0f}));
    case 3: {
        const int square = push(m, (random_op){.kind = RANDOM_MUL,
                                               .n_in = 2,
                                               .in = {x, x},
                                               .shape = s,
                                               .size = m->net->op[x].size});
        return reduce(m, square, true, 0);
    }
    default:
        return reduce(m, x, true, 0);
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
        part = push_on(m, RANDOM_SCALE_BY, t, 1.0f);
        m->net->op[part].number = 0.5f;
    }
    *loss = push(m, (random_op){.kind = RANDOM_ADD, .n_in = 2, .in = {*loss, part}});
    m->net->op[*loss].uses++;
}

/* x becomes a part of one loss or of both, a metric or an output. */
static void sink(maker *m, int x, int *loss)
{
    if (chance(m, 12)) {
        (void)push_on(m, RANDOM_OUTPUT, x, 0.0f);
        return;
    }
    const int t = term(m, tamed(m, x)), where = below(m, 100);
    if (where < 12)
        (void)push_on(m, RANDOM_METRIC, t, 0.0f);
    if (where >= 12 && where < 75)
        add_term(m, t, &loss[0]);
    if (where >= 60)
        add_term(m, t, &loss[1]);
}

static void end_all(maker *m, int *loss)
{
    for (int x = 0; x < m->net->n_ops; x++)
        if (m->net->op[x].uses == 0 && is_value(&m->net->op[x]))
            sink(m, x, loss);
    for (int i = 0; i < 2; i++)
        if (loss[i] >= 0)
            (void)push_on(m, RANDOM_METRIC, loss[i], 0.0f);
}

/* ---- training ---------------------------------------------------------------------------- */

static void make_optimizers(maker *m)
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
    (void)push(m, op);
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
static void train(maker *m, const int *loss)
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

/* A metric of what the model holds by now. */
static void watch(maker *m, int x)
{
    (void)push_on(m, RANDOM_METRIC, reduce(m, x, true, 0), 0.0f);
}

/* What a state is given: a value of this run, not a view of the model. */
static void assign(maker *m, int s)
{
    int from = -1;
    for (int x = 0; x < m->net->train_from; x++) {
        const random_op *op = &m->net->op[x];
        if (is_value(op) && !op->of_model && same(&op->shape, &m->net->state[s].shape) &&
            (from < 0 || chance(m, 50)))
            from = x;
    }
    if (from < 0)
        return;
    (void)push(m, (random_op){.kind = RANDOM_ASSIGN, .n_in = 1, .in = {from}, .what = s});
    if (chance(m, 40))
        watch(m, push(m, (random_op){.kind = RANDOM_STATE,
                                     .shape = m->net->state[s].shape,
                                     .what = s,
                                     .of_model = true}));
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
        (void)push(m, (random_op){.kind = i == 1 && r->bytes ? RANDOM_BYTES : RANDOM_INPUT,
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
        step(&m);
    int loss[2] = {-1, -1};
    end_all(&m, loss);
    m.scope = 0;
    make_optimizers(&m);
    r->train_from = r->n_ops;
    train(&m, loss);
    if (r->n_params > 0 && chance(&m, 40))
        watch(&m, push_use(&m, below(&m, r->n_params)));
    for (int s = 0; s < r->n_states; s++)
        assign(&m, s);
}

void random_net_soften(random_net *r)
{
    for (int i = 0; i < r->n_ops; i++) {
        random_op *op = &r->op[i];
        if (op->kind == RANDOM_MAX_POOL || op->kind == RANDOM_GLOBAL_MAX)
            op->kind = op->kind == RANDOM_MAX_POOL ? RANDOM_AVG_POOL : RANDOM_GLOBAL_AVG;
        if (op->kind == RANDOM_RELU) {
            op->kind = RANDOM_LEAKY;
            op->number = 0.1f;
        }
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
        sw_note("  optimizer %d: %s of model %d%s%s%s%s%s%s, parameters 0x%x", i, o->kind,
                o->model, o->momentum > 0.0f ? " momentum" : "", o->nesterov ? " nesterov" : "",
                o->weight_decay > 0.0f ? " decay" : "", o->keep ? " keep" : "",
                o->release ? " release" : "", o->clip ? " clip" : "", o->params);
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
