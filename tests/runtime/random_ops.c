/* The ops of random networks, each where it finds operands of shapes that it can have. */
#include "tests/runtime/random_make.h"

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
    random_op op = SW_INIT(.kind = RANDOM_SLICE, .n_in = 1, .in = {x},
                           .shape = m->net->op[x].shape, .size = m->net->op[x].size);
    const int64_t all = op.shape.dim[axis];
    op.n[0] = axis;
    op.n[1] = below(m, (int)all);
    op.n[2] = one ? 1 : 1 + below(m, (int)(all - op.n[1]));
    op.shape.dim[axis] = op.n[2];
    return random_push(m, op);
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
        return random_push_param(m, s);
    }
    if (chance(m, 60))
        for (int i = 0; i < 12; i++) {
            const int y = random_pick(m, 0, 8);
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
        return random_push(m, (random_op){.kind = chance(m, 50) ? RANDOM_RAND : RANDOM_RANDN,
                                          .shape = part,
                                          .size = 3.0f});
    return random_push_param(m, part);
}

static int add_or_mul(maker *m)
{
    const int x = random_pick(m, 0, 8);
    sw_shape shape;
    const int y = x >= 0 ? partner(m, x, &shape) : -1;
    if (y < 0)
        return -1;
    const float a = m->net->op[x].size, b = m->net->op[y].size;
    const random_kind kind = chance(m, 45)   ? RANDOM_ADD
                             : chance(m, 80) ? RANDOM_MUL
                                             : RANDOM_SUB;
    const bool turned = chance(m, 30);
    return random_push(
        m, (random_op)SW_INIT(.kind = kind, .n_in = 2, .in = {turned ? y : x, turned ? x : y},
                              .shape = shape, .size = kind == RANDOM_MUL ? a * b : a + b));
}

static int pointwise_on(maker *m, int x)
{
    const int curves = RANDOM_DROPOUT - RANDOM_RELU + 1, scales = 2;
    const int k = below(m, curves + scales);
    random_op op =
        SW_INIT(.kind = (random_kind)(k < curves ? RANDOM_RELU + k : RANDOM_SCALE + k - curves),
                .n_in = 1, .in = {x}, .shape = m->net->op[x].shape, .size = m->net->op[x].size);
    if (op.kind == RANDOM_EXP && op.size > 2.0f)
        op.kind = RANDOM_SELU; /* it would be large */
    if (op.kind == RANDOM_EXP)
        op.size = expf(op.size);
    if (op.kind == RANDOM_TANH || op.kind == RANDOM_SIGMOID)
        op.size = 1.0f;
    const bool factor = op.kind == RANDOM_SCALE_BY && chance(m, 50);
    op.number = op.kind == RANDOM_LEAKY     ? 0.1f
                : op.kind == RANDOM_DROPOUT ? 0.3f
                : factor                    ? -0.5f
                                            : 1.5f;
    op.what = below(m, m->net->n_models);
    if (op.kind == RANDOM_SCALE_BY || op.kind == RANDOM_DROPOUT)
        op.size *= 1.5f;
    return random_push(m, op);
}

static int pointwise(maker *m)
{
    const int x = random_pick(m, 0, 8);
    return x < 0 ? -1 : pointwise_on(m, x);
}

/* By rows of the last axis, by groups of channels, or by channels of the batch, often with an
 * op after it that can go channel by channel; with a weight, and a bias where there is one. */
static int norm(maker *m)
{
    const int x = random_pick(m, 2, 4);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    const bool whole =
        elements(&s) > s.dim[1] && m->net->n_norms < RANDOM_NORMS && chance(m, 60);
    const bool groups = whole || (s.rank > 2 && chance(m, 60));
    const int64_t size = groups ? s.dim[1] : s.dim[s.rank - 1];
    random_op op = SW_INIT(.kind = whole           ? RANDOM_BATCH_NORM
                                   : groups        ? RANDOM_GROUP_NORM
                                   : chance(m, 50) ? RANDOM_LAYER_NORM
                                                   : RANDOM_RMS_NORM,
                           .n_in = 1, .in = {x}, .shape = s,
                           .n = {size % 2 == 0 && chance(m, 50) ? 2 : 1}, .size = 3.0f);
    const int w = chance(m, 70) ? random_push_param(m, SW_SHAPE(size)) : -1;
    if (w >= 0)
        op.in[op.n_in++] = w;
    const int b = w >= 0 && op.kind != RANDOM_RMS_NORM && chance(m, 70)
                      ? random_push_param(m, SW_SHAPE(size))
                      : -1;
    if (b >= 0)
        op.in[op.n_in++] = b;
    if (whole) {
        random_net *r = m->net;
        r->running[r->n_norms] =
            (random_param){.shape = SW_SHAPE(size), .model = below(m, r->n_models)};
        op.what = r->n_norms++;
    }
    const int y = random_push(m, op);
    return whole && chance(m, 70) ? pointwise_on(m, y) : y;
}

static int transpose(maker *m)
{
    const int x = random_pick(m, 2, 5);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    const int a = below(m, s.rank), b = below(m, s.rank);
    random_op op = SW_INIT(.kind = RANDOM_TRANSPOSE, .n_in = 1, .in = {x}, .shape = s,
                           .n = {a, b}, .size = m->net->op[x].size);
    op.shape.dim[a] = s.dim[b];
    op.shape.dim[b] = s.dim[a];
    return random_push(m, op);
}

/* With something that came up, or with a parameter. */
static int matmul(maker *m)
{
    const int x = random_pick(m, 2, 2);
    if (x < 0 || m->net->op[x].shape.dim[1] > 300)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    int y = chance(m, 60) ? random_pick(m, 2, 2) : -1;
    if (y >= 0 && m->net->op[y].shape.dim[0] != s.dim[1])
        y = -1;
    float strength = 2.0f;
    if (y >= 0)
        strength = (float)s.dim[1] * m->net->op[y].size;
    else
        y = random_push_param(m, SW_SHAPE(s.dim[1], 1 + below(m, 10)));
    if (y < 0)
        return -1;
    const sw_shape to = SW_SHAPE(s.dim[0], m->net->op[y].shape.dim[1]);
    if (elements(&to) > MOST_ELEMENTS)
        return -1;
    return random_push(m,
                       (random_op)SW_INIT(.kind = RANDOM_MATMUL, .n_in = 2, .in = {x, y},
                                          .shape = to, .size = strength * m->net->op[x].size));
}

static int reshape(maker *m)
{
    const int x = random_pick(m, 1, 5);
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
    return random_push(m, (random_op)SW_INIT(.kind = RANDOM_RESHAPE, .n_in = 1, .in = {x},
                                             .shape = to, .size = m->net->op[x].size));
}

static int slice(maker *m)
{
    const int x = random_pick(m, 1, 6);
    return x < 0 ? -1 : push_slice(m, x, below(m, m->net->op[x].shape.rank), false);
}

static int concat(maker *m)
{
    const int x = random_pick(m, 1, 6);
    if (x < 0)
        return -1;
    random_op op = SW_INIT(.kind = RANDOM_CONCAT, .n_in = 1, .in = {x},
                           .shape = m->net->op[x].shape, .size = m->net->op[x].size);
    const int axis = below(m, op.shape.rank), wanted = 2 + below(m, 2);
    op.n[0] = axis;
    for (int i = 0; i < 20 && op.n_in < wanted; i++) {
        const int y = chance(m, 15) ? x : random_pick(m, op.shape.rank, op.shape.rank);
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
    return random_push(m, op);
}

static int linear(maker *m)
{
    const int x = random_pick(m, 2, 2);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    if (s.dim[1] > 300)
        return -1;
    int w = -1;
    for (int i = 0; i < 10 && w < 0 && chance(m, 25); i++) { /* a weight that was computed */
        w = random_pick(m, 2, 2);
        if (w >= 0 &&
            (m->net->op[w].shape.dim[1] != s.dim[1] || m->net->op[w].shape.dim[0] > 64))
            w = -1;
    }
    const float strength = w >= 0 ? (float)s.dim[1] * m->net->op[w].size : 2.0f;
    if (w < 0)
        w = random_push_param(m, SW_SHAPE(1 + below(m, chance(m, 20) ? 40 : 10), s.dim[1]));
    if (w < 0)
        return -1;
    random_op op = SW_INIT(.kind = RANDOM_LINEAR, .n_in = 2, .in = {x, w},
                           .shape = SW_SHAPE(s.dim[0], m->net->op[w].shape.dim[0]),
                           .size = 1.0f + strength * m->net->op[x].size);
    if (elements(&op.shape) > MOST_ELEMENTS)
        return -1;
    const int b = chance(m, 70) ? random_push_param(m, SW_SHAPE(op.shape.dim[1])) : -1;
    if (b >= 0)
        op.in[op.n_in++] = b;
    return random_push(m, op);
}

static int conv(maker *m)
{
    const int x = random_pick(m, 4, 4);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    const int64_t k = 1 + below(m, 4), stride = 1 + below(m, 3), pad = below(m, (int)k);
    if (s.dim[1] > 8 || s.dim[2] + 2 * pad < k || s.dim[3] + 2 * pad < k)
        return -1;
    const int64_t out = 1 + below(m, 5);
    const int w = random_push_param(m, SW_SHAPE(out, s.dim[1], k, k));
    if (w < 0)
        return -1;
    random_op op =
        SW_INIT(.kind = RANDOM_CONV, .n_in = 2, .in = {x, w},
                .shape = SW_SHAPE(s.dim[0], out, (s.dim[2] + 2 * pad - k) / stride + 1,
                                  (s.dim[3] + 2 * pad - k) / stride + 1),
                .n = {k, stride, pad}, .size = 2.0f * m->net->op[x].size);
    const int b = chance(m, 70) ? random_push_param(m, SW_SHAPE(out)) : -1;
    if (b >= 0)
        op.in[op.n_in++] = b;
    return random_push(m, op);
}

static int pool(maker *m)
{
    const int x = random_pick(m, 4, 4);
    if (x < 0)
        return -1;
    const sw_shape s = m->net->op[x].shape;
    random_op op =
        SW_INIT(.kind = (random_kind)(RANDOM_MAX_POOL + below(m, 4)), .n_in = 1, .in = {x},
                .shape = SW_SHAPE(s.dim[0], s.dim[1], 1, 1), .size = m->net->op[x].size);
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
    return random_push(m, op);
}

int random_reduce(maker *m, int x, random_kind kind, uint32_t axes)
{
    const random_op *of = &m->net->op[x];
    random_op op = {.kind = kind, .n_in = 1, .in = {x}};
    op.n[0] = axes;
    for (int i = 0; i < of->shape.rank; i++)
        if (axes != 0 && (axes >> i & 1u) == 0)
            op.shape.dim[op.shape.rank++] = of->shape.dim[i];
    op.size = of->size;
    if (kind == RANDOM_SUM)
        op.size *= (float)(elements(&of->shape) / elements(&op.shape));
    return random_push(m, op);
}

static int any_reduction(maker *m)
{
    static const random_kind kinds[] = {RANDOM_MEAN, RANDOM_SUM, RANDOM_MAX};
    const int x = random_pick(m, 1, 6);
    if (x < 0)
        return -1;
    const random_kind kind = kinds[below(m, 3)];
    return random_reduce(m, x, kind, (uint32_t)below(m, 1 << m->net->op[x].shape.rank));
}

static int lone(maker *m, random_kind kind)
{
    const int x = random_pick(m, 1, 6);
    if (x < 0)
        return -1;
    return random_push_on(m, kind, x, kind == RANDOM_SOFTMAX ? 1.0f : m->net->op[x].size);
}

/* A state of the shape of a value; what it is given is decided at the end. */
static int state(maker *m)
{
    random_net *r = m->net;
    const int x = random_pick(m, 0, 6);
    if (x < 0 || r->n_states == 4 || elements(&r->op[x].shape) > 4000)
        return -1;
    r->state[r->n_states] =
        (random_param){.shape = r->op[x].shape, .model = below(m, r->n_models)};
    return random_push(m, (random_op)SW_INIT(.kind = RANDOM_STATE, .shape = r->op[x].shape,
                                             .what = r->n_states++, .of_model = true,
                                             .size = 5.0f));
}

void random_make_step(maker *m)
{
    const int kind = below(m, 120);
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
    else if (kind < 100)
        x = state(m);
    else if (kind < 114)
        x = norm(m);
    else if (kind < 117)
        x = transpose(m);
    else
        x = matmul(m);
    if (x >= 0)
        (void)random_tamed(m, x);
}
