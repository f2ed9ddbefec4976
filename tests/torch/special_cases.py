"""The rows of tests/ops/special_values.txt, and where stepwell differs on purpose."""
import torch

from special_ops import INF, MAX, NAN, Operand, constant, evaluate, image, is_finite, op, rows, whole


# ---- the cases -------------------------------------------------------------------------------

VALUES = [NAN, INF, -INF, MAX, -MAX, 1e30, -1e30, 2e19, -2e19, 1e5, -1e5, 100.0, -100.0, 89.0, -89.0, 88.0, -88.0, 20.5, -20.5, 8.3, -8.3,
          6.0, 3.0, -3.0, 2.999999, -2.999999, 1.0, -1.0, 0.5, -0.5, 0.0, -0.0, 1e-6, -1e-6, 1e-37, -1e-37]  # fmt: skip
PAIRS = [NAN, INF, -INF, MAX, -MAX, 1.0, -1.0, 0.0, -0.0]


def elementwise():
    unary = ["relu", "leaky_relu 0.1", "leaky_relu 0", "leaky_relu -0.5", "tanh", "sigmoid", "swish", "gelu", "gelu_tanh", "mish", "softplus", "hard_swish",
             "elu 0.75", "selu", "exp", "log", "sqrt", "rsqrt", "pow 2", "pow 3", "pow 5", "pow 2.5", "pow 0.5", "pow 1", "pow 0", "pow -1", "pow -2",
             "pow -2.5", "abs", "clamp -0.5 3", "scale_by 2", "scale_by 0", "scale 2", "detach"]  # fmt: skip
    for name in unary:
        for x in VALUES:
            yield name, [Operand([x])], None
    for name in ["relu", "leaky_relu 0.1", "abs", "clamp -0.5 3", "hard_swish", "tanh", "exp", "pow 2"]:
        for x in [NAN, INF, -1.0, 0.0, 4.0]:
            for dy in [NAN, INF, -INF]:
                yield name, [Operand([x])], [dy]
    for name in ["add", "sub", "mul", "div", "swiglu"]:
        for x in PAIRS:
            for y in PAIRS:
                yield name, [Operand([x]), Operand([y])], None
    for m in [0, 1, 2, 255]:
        for x, y, dy in [(NAN, 1.0, 1.0), (1.0, NAN, 1.0), (INF, -INF, 1.0), (-0.0, 0.0, 1.0), (1.0, 2.0, NAN), (1.0, 2.0, INF)]:
            yield "where", [Operand([m], kind="u"), Operand([x]), Operand([y])], [dy]
    for x in [NAN, INF, -INF, MAX, 0.0, 1.0]:
        for p in ["0", "1"]:
            yield f"dropout {p}", [Operand([x])], None
    for dy in [NAN, INF]:
        for p in ["0", "1"]:
            yield f"dropout {p}", [Operand([1.0])], [dy]
    yield "dropout 0.5", [Operand([NAN])], [NAN]
    for x in [0, 1, 255]:
        yield "to_f32 2 -0.5", [Operand([x], kind="u")], None
    for x in [-2147483648, -1, 2147483647]:
        yield "to_f32 2 -0.5", [Operand([x], kind="i")], None


def shapes():
    x = rows([NAN, 1.0, INF, -0.0], [-INF, 2.0, MAX, NAN])
    yield "reshape", [x], None
    yield "slice", [x], None
    yield "permute", [x], None
    yield "concat", [x, rows([INF, 1.0], [NAN, -1.0])], None
    yield "expand", [rows([1.0, NAN, 2.0], [3.0, 4.0, INF]), Operand([-INF, 1.0, 2.0], (3,))], None
    yield "expand", [rows([1.0, MAX, 2.0], [3.0, MAX, INF]), Operand([MAX, MAX, -INF], (3,))], [1.0, MAX, INF, 1.0, MAX, -INF]
    for name in ["matmul", "linear_relu", "linear_leaky_relu 0.1", "linear"]:
        bias = [] if name == "matmul" else [Operand([0.5, -0.5], (2,))]
        for a in ([1.0, 2.0, 3.0], [NAN, 0.0, 1.0], [INF, 0.0, 1.0], [INF, -INF, 1.0], [0.0, 0.0, 0.0], [MAX, MAX, 1.0], [2e19, 0.0, 1.0]):
            for w in ([1.0, 1.0, 1.0], [0.0, 1.0, NAN], [INF, 0.0, -1.0]):
                other = rows(w, [1.0, -1.0, 2.0])
                if name == "matmul":
                    other = Operand(other.tensor.t().reshape(-1).tolist(), (3, 2))
                yield name, [rows(a, [0.5, -1.0, 0.0]), other] + bias, None
    for bias in [NAN, INF]:
        yield "linear_relu", [rows([1.0, 2.0]), rows([1.0, 1.0], [1.0, -1.0]), Operand([bias, 1.0], (2,))], None
        yield "linear", [rows([1.0, 2.0]), rows([1.0, 1.0], [1.0, -1.0]), Operand([bias, 1.0], (2,))], None
    table = rows([NAN, 1.0], [INF, -INF], [0.0, 2.0])
    yield "embedding", [whole([0, 2, 1, 1]), table], None
    yield "embedding", [whole([2, 2, 0, 2]), table], [NAN, 1.0, INF, -INF, 1.0, INF, -INF, 1.0]


def reductions():
    some = [[1.0, 2.0, 3.0], [NAN, 2.0, 3.0], [1.0, NAN, 3.0], [1.0, 5.0, NAN], [NAN, 1.0, NAN], [INF, 1.0, 2.0], [-INF, 1.0, 2.0], [INF, -INF, 1.0],
            [INF, INF, 1.0], [-INF, -INF, -INF], [MAX, MAX, -MAX], [INF, NAN, -INF], [0.0, -0.0, 0.0], [2e19, -2e19, 1.0], [1e30, 1e30, 2e30], [1e30, -1e30, 1e29]]  # fmt: skip
    long = [[1.0] * 18 + [v] + [2.0] * 18 for v in (NAN, INF, -INF, MAX)] + [[-INF] * 36 + [0.0], [NAN] + [1.0] * 36, [1.0] * 36 + [NAN],
            [1.0] * 5 + [NAN] + [1.0] * 29 + [NAN, 3.0], [3.0] * 37]  # fmt: skip
    for values in some + long:
        for name in ["sum", "mean", "max"]:
            yield name, [Operand(values, (len(values),))], None
        for name in ["sum_axis", "mean_axis", "max_axis"]:
            yield f"{name} 1", [rows(values, values[::-1])], None
            if len(values) < 9 or name == "max_axis":
                yield f"{name} 0", [Operand([x for v in values for x in (v, -v)], (len(values), 2))], None
        for name in ["softmax", "log_softmax"] if values[:2] != [MAX, MAX] else []:
            yield name, [rows(values, [0.5] * len(values))], None
        yield "argmax 1", [constant(rows(values, values[::-1]))], None
        if len(values) < 9:
            yield "argmax 0", [constant(Operand([x for v in values for x in (v, -v)], (len(values), 2)))], None
            yield "cumsum 1", [rows(values, values[::-1])], None
            yield "cumsum 0", [Operand([x for v in values for x in (v, -v)], (len(values), 2))], None
        yield "accuracy", [constant(rows(values, values[::-1])), whole([1, 1])], None
        for labels in ([0, 1], [1, 0]) if values[:2] != [MAX, MAX] else []:
            yield "softmax_ce", [rows(values, [0.5] * len(values)), whole(labels)], None
        if values[:2] != [MAX, MAX]:
            yield "softmax_ce_with 0.1 -100", [rows(values, [0.5] * len(values)), whole([0, 2])], None
    for dy in ([NAN, 1.0, 1.0], [INF, 1.0, 1.0], [INF, INF, -INF], [MAX, MAX, MAX]):
        for name in ["softmax", "log_softmax"] if dy[0] != MAX else []:
            yield name, [rows([1.0, 2.0, -1.0])], dy
            yield name, [rows([-INF, 2.0, -1.0])], dy
        for name in ["max_axis 1", "sum_axis 1", "mean_axis 1"]:
            yield name, [rows([1.0, 2.0], [3.0, 3.0], [2.0, 1.0])], dy
        if dy[0] != MAX:
            yield "cumsum 0", [Operand([1.0, 2.0, 3.0], (3,))], dy
    for smoothing in ["0", "0.1"]:  # rows of label 0 do not count
        for values in ([1.0, 2.0, 3.0], [NAN, 2.0, 3.0], [INF, 1.0, 2.0]):
            yield f"softmax_ce_with {smoothing} 0", [rows(values, [0.5] * 3), whole([0, 2])], None
    for x in ([1.0, 2.0], [NAN, 1.0], [INF, 1.0], [1e30, 2e30], [0.0, 0.0]):
        for w in ([1.0, 0.5], [INF, 1.0], [0.0, NAN], [1e30, 1.0]):
            yield "linear_ce", [rows(x, [0.5, 1.0]), rows(w, [0.5, -0.5], [1.0, 1.0]), Operand([0.1, 0.2, 0.3], (3,)), whole([0, 2])], None


def losses():
    pairs = [(1.0, 0.5), (NAN, 0.5), (0.5, NAN), (INF, 0.5), (-INF, 0.5), (INF, INF), (INF, -INF), (MAX, -MAX), (1e30, 0.0), (2e19, 0.0), (0.5, 0.5),
             (1.25, 0.5), (-0.25, 0.5), (100.0, 1.0), (-100.0, 0.0), (-100.0, 1.0), (0.0, 0.0), (-0.0, 0.0), (INF, 1.0), (INF, 0.0), (-INF, 0.0), (-INF, 1.0)]  # fmt: skip
    for x, t in pairs:
        for name in ["mse", "huber 0.75", "l1", "bce_with"] if x != MAX else ["huber 0.75", "l1"]:
            yield name, [Operand([x], (1,)), constant(Operand([t], (1,)))], None
            yield name, [Operand([x] + [0.25] * 36, (37,)), constant(Operand([t] + [0.5] * 36, (37,)))], None
    for x in VALUES:
        for t in ["0", "1", "0.25"]:
            yield f"bce {t}", [Operand([x], (1,))], None
    for x, t in [(-1.0, 0.5), (NAN, 0.5), (-1.0, NAN), (-INF, 0.5), (-INF, 0.0), (NAN, 0.0), (INF, 0.5), (-1.0, 0.0), (-1.0, INF), (-1.0, 1e-37), (-1.0, -0.5), (-MAX, 1.0)]:
        yield "kl_div", [constant(rows([x, -0.5])), rows([t, 0.25])], None
        yield "kl_div", [rows([x, -0.5]), constant(rows([t, 0.25]))], None


def norms():
    other = [0.5, 2.0, 1.0, -1.0]
    some = [[1.0, 2.0, 4.0, 3.0], [NAN, 1.0, 2.0, 3.0], [INF, 1.0, 2.0, 3.0], [INF, -INF, 1.0, 2.0], [1.0] * 4, [0.0] * 4, [2e19, 1.0, 2.0, 3.0],
            [2e19, -2e19, 2e19, 1e19], [1e30, 1.0, 2.0, 3.0], [1e30, 2e30, -1e30, 0.0], [3e37, 1.0, 2.0, 3.0], [1e-15, 2e-15, 0.0, 1e-15]]  # fmt: skip
    for v in some:
        longer = v + [v[1]] * 32 + [v[2]]
        for values in (v, longer):
            n = len(values)
            yield "layer_norm", [rows(values, (other * 10)[:n])], None
            yield "rms_norm", [rows(values, (other * 10)[:n])], None
        yield "layer_norm_affine", [rows(v, [0.5, 0.0, 1.0, 2.0]), Operand([1.0, 2.0] * 2, (4,)), Operand([0.5] * 4, (4,))], None
        yield "batch_norm_stats", [constant(Operand([x for i, y in enumerate(v) for x in (y, 0.5 * i)], (4, 2)))], None
        yield "group_norm 2", [image(v + [1.0, 2.0, 3.0, 5.0] + [0.5, -1.0] * 4, (2, 4, 1, 2))], None
        for name in ["batch_norm", "batch_norm_relu"] if v in some[:4] else ["batch_norm"]:
            yield name, [image(v[:2] + [1.0, 2.0] + v[2:] + [3.0, 5.0], (2, 2, 1, 2))], None
    for bad in ([NAN, 1.0], [0.0, 1.0]):
        yield "layer_norm_affine", [rows([1.0, 2.0, 4.0]), Operand(bad + [1.0], (3,)), Operand([0.5] * 3, (3,))], None
        yield "layer_norm_affine", [rows([1.0, 2.0, 4.0]), Operand([0.5] * 3, (3,)), Operand(bad + [1.0], (3,))], None
    half = lambda v: Operand(v, (2,))
    for x in [NAN, INF, MAX, 0.0]:
        for mean, var in [([0.5, 0.5], [2.0, 1.0]), ([INF, 0.5], [1.0, 1.0]), ([0.5, 0.5], [INF, 0.0]), ([NAN, 0.5], [1.0, 1.0])]:
            yield "batch_norm_fixed", [image([x, 1.0, 2.0, 3.0], (1, 2, 1, 2)), half([1.5, 2.0]), half([0.5, 0.25]), constant(half(mean)), constant(half(var))], None
    for dy in ([NAN, 1.0, 1.0],):
        for name in ["layer_norm", "rms_norm"]:
            yield name, [rows([1.0, 2.0, 4.0])], dy


def images():
    planes = [[1.0, 2.0, 3.0, 4.0], [NAN, 2.0, 3.0, 4.0], [1.0, 2.0, NAN, 4.0], [NAN, 2.0, NAN, 4.0], [INF, 2.0, 3.0, INF], [-INF] * 4,
              [-INF, NAN, INF, 1.0], [5.0, 5.0, 1.0, 5.0], [MAX] * 4, [0.0, -0.0, -1.0, 0.0], [-1.0, -2.0, NAN, -3.0]]  # fmt: skip
    pools = ["max_pool2d 2 2 0", "avg_pool2d 2 2 0", "relu_max_pool", "max_pool_relu"]
    for p in planes:
        one = image(p, (1, 1, 2, 2))
        three = image(p + [0.5] + p[::-1], (1, 1, 3, 3))
        many = image([x for i in range(16) for x in (p[i % 4], 0.5, -1.0, 2.0)], (16, 1, 2, 2))  # lie in blocks
        for name in pools + ["max_pool2d 3 1 1", "avg_pool2d 3 1 1", "max_pool2d 2 1 0", "max_pool2d 3 1 0", "avg_pool2d 3 1 0"]:
            if name.startswith("avg") and p[0] == MAX:
                continue  # sums overflow in float32 and not in float64
            for o in (one, many) if name in pools else (three,):
                yield name, [o], None
        for name in ["upsample 0 4 4", "upsample 1 4 4", "upsample 0 3 5", "upsample 1 3 5", "upsample 0 1 1", "upsample 1 1 1"]:
            for o in (one, many) if name[-3:] == "4 4" else (one,):
                yield name, [o], None
        yield "channel_scale", [image(p * 2, (1, 2, 2, 2)), image([0.0, INF], (1, 2, 1, 1))], None
        yield "channel_scale", [image(p * 2, (1, 2, 2, 2)), image([NAN, 2.0], (1, 2, 1, 1))], None
    for p in (planes[0], planes[3]):
        for name in pools:
            yield name, [image((p[:2] * 19 + p[2:] * 19), (1, 1, 2, 38))], None
    for p in (planes[0], planes[1], planes[4], planes[5], planes[9]):
        three = image(p + [0.5] + p[::-1], (1, 1, 3, 3))
        many = image([x for i in range(16) for x in (p[i % 4], 0.5, -1.0, 2.0)], (16, 1, 2, 2))
        for w in ([1.0, 0.0, -1.0, 0.5], [INF, 0.0, 1.0, 0.0], [NAN, 0.0, 1.0, 0.0]):
            bias, kernel = Operand([0.5], (1,)), image(w, (1, 1, 2, 2))
            for name in ["conv2d 1 0", "conv2d_relu 1 0"]:
                yield name, [three, kernel, bias], None
                yield name, [many, kernel, bias], None
            if w[0] == 1.0:  # others meet the zeros around the image, as in padding
                for name, o in [("1 0 0", three), ("2 1 1", three), ("2 0 0", many)]:
                    yield f"conv_transpose2d {name}", [o, kernel, bias], None
            yield "conv2d 2 0", [image(p * 4, (1, 1, 4, 4)), kernel, bias], None
            yield "depthwise 1 0", [image((p + [0.5] + p[::-1]) * 2, (1, 2, 3, 3)), image(w * 2, (2, 1, 2, 2)), Operand([0.5, 1.0], (2,))], None
        yield "conv2d 1 0", [image(p * 2, (1, 2, 2, 2)), image([1.0, INF, 0.0, 2.0], (2, 2, 1, 1)), Operand([0.5, 1.0], (2,))], None
        yield "conv2d 1 1", [image(p, (1, 1, 2, 2)), image([1.0, 0.0, -1.0, 0.5], (1, 1, 2, 2)), Operand([0.5], (1,))], None
    for dy in [NAN, INF]:
        for name in ["max_pool2d 2 2 0", "avg_pool2d 2 2 0"]:
            yield name, [image([1.0, 2.0, 3.0, 4.0], (1, 1, 2, 2))], [dy]


def attentions():
    good = lambda *x: Operand(list(x), (1, len(x) // 2, 2))
    q, k, v = [1.0, 0.5, -1.0, 2.0, 0.5, 1.0], [0.5, -0.5, 1.0, 1.0, 2.0, -1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    for causal in "01":
        name = f"attention 1 {causal} 0.5"
        yield name, [good(*q), good(*k), good(*v)], None
        for bad in [NAN, INF, -INF, 2e19, 1e30]:
            for at in (0, 3, 5):
                put = lambda x: good(*(x[:at] + [bad] + x[at + 1 :]))
                yield name, [put(q), good(*k), good(*v)], None
                yield name, [good(*q), put(k), good(*v)], None
                yield name, [good(*q), good(*k), put(v)], None
        yield name, [good(*(q * 6)), good(*(k * 5 + [NAN] + k[1:])), good(*(v * 6))], None
        yield name, [good(*q), good(*k), good(*v)], [NAN, 1.0, 1.0, 1.0, 1.0, 1.0]
        yield name, [good(*q), good(*k), good(*v)], [INF, 1.0, 1.0, 1.0, 1.0, 1.0]


def updates():
    for name in ["clip_norm 1", "sgd 0.5", "momentum 0.5", "adam 0.5", "adamw 0.5", "rmsprop 0.5", "adagrad 0.5"]:
        for g in ([1.0, -2.0, 3.0], [NAN, 1.0, 2.0], [INF, 1.0, 2.0], [-INF, 0.0, 0.0], [2e19, 1.0, 0.0], [1e30, -1e30, 1.0], [1e36, 1e37, 0.0], [0.0, 0.0, 0.0], [1e-30, 1e-20, 0.0]):
            yield name, [constant(Operand([1.0, 2.0, -3.0], (3,))), constant(Operand(g, (3,)))], None


GROUPS = (elementwise, shapes, reductions, losses, norms, images, attentions, updates)


def unseen(name, operands, dy):
    """Gradients that are not looked at, by position."""
    first = name.split()[0]
    if first in ("conv2d", "conv2d_relu", "depthwise") and not is_finite(operands[1].tensor):
        return {0}
    if first == "conv_transpose2d" and name.split()[2] != "0" and not is_finite(operands[0].tensor):
        return {1}  # the zeros stand around the gradient of the result
    if name.startswith("attention 1 1") and not is_finite(*(o.tensor for o in operands), torch.tensor(dy or [0.0])):
        return {0, 1, 2}
    return set()


# ---- where stepwell differs on purpose -------------------------------------------------------


def in_float64(name, operands, dy, y, grads):
    """Answers without overflow on the way."""
    y, _, grads = evaluate(op(name), operands, dy, torch.float64)
    return y.float(), [g.float() for g in grads]


def huge(*names):
    """Finite operands whose float32 answers are not those of float64."""

    def applies(name, operands, dy, y, grads):
        if name.split()[0] not in names or not is_finite(*(o.tensor for o in operands), torch.tensor(dy or [0.0])):
            return False
        exact = in_float64(name, operands, dy, y, grads)
        near = lambda a, b: torch.allclose(a, b, rtol=1e-4, atol=1e-6)
        return not (near(y, exact[0]) and all(near(a, b) for a, b in zip(grads, exact[1])))

    return applies


def where(name_, test):
    """Rows of one op whose first operands pass the test."""
    return lambda name, operands, dy, y, grads: (name + " ").startswith(name_ + " ") and bool(test(*(o.tensor for o in operands)))


def constant_answer(new_y=None, new_grads=None):
    """Our own numbers; None: as PyTorch's."""

    def ours(name, operands, dy, y, grads):
        mine = y if new_y is None else torch.tensor(new_y, dtype=torch.float32).reshape(y.shape)
        slopes = grads if new_grads is None else [torch.tensor(g, dtype=torch.float32).reshape(t.shape) for g, t in zip(new_grads, grads)]
        return mine, slopes

    return ours


def skipped(name, operands, dy, y, grads):
    """The parameter stays."""
    return operands[0].tensor, []


def without_ignored(name, operands, dy, y, grads):
    """Whatever the row of label 0 holds."""
    x = Operand(operands[0].tensor.tolist(), operands[0].shape)
    x.tensor[0] = 0.0
    y, _, grads = evaluate(op(name), [x, operands[1]], dy)
    return y, grads


def kl_terms(x, t):
    """Nothing of a target of 0."""
    term = torch.where(t == 0, 0.0, t * (torch.log(t) - x))
    return term.sum() / x.shape[0], [torch.where(t == 0, 0.0, torch.log(t) + 1 - x)], [-t]


def kl_ours(name, operands, dy, y, grads):
    x, t = (o.tensor for o in operands)
    loss, dt, dx = kl_terms(x, t)
    return loss, dt if operands[0].kind == "c" else dx


def bound_slope(name, operands, dy, y, grads):
    return y, [torch.ones_like(grads[0])]


def smooth(name, x):
    """Value and slope of a curve by formulas that do not cancel, in float64; its limits at what is not small."""
    if abs(x) > 200.0:
        return (x, 1.0) if x > 0 else (0.0, 0.0)
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    up = 2 * (2 / torch.pi) ** 0.5 * (t + 0.044715 * t**3)
    y = {
        "swish": lambda: t * torch.sigmoid(t),
        "gelu": lambda: t / 2 * torch.special.erfc(-t / 2**0.5),
        "gelu_tanh": lambda: t * torch.sigmoid(up),
        "mish": lambda: t * torch.tanh(torch.nn.functional.softplus(t)),
    }[name]()
    y.backward()
    return y.item(), t.grad.item()


def by_limit(name, operands, dy, y, grads):
    value, slope = smooth(name.split()[0], operands[0].tensor.item())
    f = lambda x: torch.tensor(x, dtype=torch.float32).reshape(y.shape)
    return f(value), [f(slope)]


def gate_by_limit(name, operands, dy, y, grads):
    a, b = operands[0].tensor.item(), operands[1].tensor.item()
    value, slope = smooth("swish", a)
    f = lambda x: torch.tensor(x, dtype=torch.float32).reshape(y.shape)
    return f(value * b), [f(slope * b), f(value)]


def far(names, ours):
    """Rows of these ops, of numbers, that are not within the table's bounds of our answers."""

    def near(a, b):
        b = torch.where(b.abs() < 2.0**-126, torch.zeros_like(b), b)
        a = torch.where((b == 0) & (a.abs() < 2.0**-126), torch.zeros_like(a), a)
        return torch.allclose(b, a, rtol=1e-5, atol=0.0, equal_nan=True)

    def applies(name, operands, dy, y, grads):
        if name.split()[0] not in names or torch.isnan(operands[0].tensor).any() or not is_finite(torch.tensor(dy or [1.0])):
            return False
        mine, slopes = ours(name, operands, dy, y, grads)
        return not (near(y, mine) and all(near(a, b) for a, b in zip(grads, slopes)))

    return applies


UPDATES = ("clip_norm", "sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad")
NORMS = ("layer_norm", "layer_norm_affine", "rms_norm", "group_norm", "batch_norm", "batch_norm_relu", "batch_norm_stats")

# (which rows, our answers, why); a row that the first two leave as it is is none of these.
DIFFERENT = [
    (lambda name, operands, *_: name.split()[0] in UPDATES and not is_finite(operands[1].tensor), skipped,
     "a gradient that is not finite is never used: the update is skipped and counted"),
    (where("adam", lambda p, g: (g == 2e19).any()), constant_answer([1.0, 1.5, -3.0]), "the square of a gradient is made before it is scaled: past 1.8e19 it is infinite, and there is no step"),
    (where("adamw", lambda p, g: (g == 2e19).any()), constant_answer([0.995, 1.49, -2.985]), "the square of a gradient is made before it is scaled: past 1.8e19 it is infinite, and there is no step"),
    (where("rmsprop", lambda p, g: (g == 2e19).any()), constant_answer([1.0, -2.9999995, -3.0]), "the square of a gradient is made before it is scaled: past 1.8e19 it is infinite, and there is no step"),
    (huge("clip_norm"), in_float64, "the norm is summed in float64, where the squares do not overflow"),
    (huge("sum", "mean", "sum_axis", "mean_axis", "mse", "softmax_ce_with"), in_float64, "summed in float64, where this does not overflow"),
    (huge(*NORMS), in_float64, "squares that float32 cannot hold are summed in float64"),
    (where("softmax_ce_with 0 0", lambda x, t: True), without_ignored, "a row that is ignored has no gradient, whatever it holds"),
    (where("softmax_ce_with 0.1 0", lambda x, t: True), without_ignored, "a row that is ignored has no gradient, whatever it holds"),
    (where("kl_div", lambda x, t: (t == 0).any() or torch.isinf(t).any()), kl_ours, "where the target is 0 its term and its gradient are 0 (stepwell.h); where it is infinite, its gradient is too"),
    (where("clamp", lambda x: x in (-0.5, 3.0)), bound_slope, "a bound is within the range: the slope is 1 there (stepwell.h)"),
    (where("pow 0.5", lambda x: x == -INF), constant_answer([INF], [[0.0]]), "as C's pow; PyTorch takes a square root"),
    (where("pow 0.5", lambda x: x == 0 and torch.signbit(x)), constant_answer(None, [[INF]]), "as C's pow; PyTorch takes a square root"),
    (where("pow 0", lambda x: not torch.isfinite(x)), constant_answer(None, [[NAN]]), "0 times what is not finite"),
    (where("div", lambda x, y: torch.isinf(x) and y.abs() == MAX), constant_answer(None, [[0.0], [NAN]]), "1 / 3.4e38 is a denormal, which is 0 in a run, and 0 times infinity"),
    (where("bce_with", lambda x, t: x[0] == -INF and t[0] > 0 and torch.isfinite(t[0])), constant_answer([INF]), "an impossible target costs infinitely much, as it does at +inf"),
    (where("bce 1", lambda x: x == -INF), constant_answer([INF]), "an impossible target costs infinitely much, as it does at +inf"),
    (where("bce 0.25", lambda x: x == -INF), constant_answer([INF]), "an impossible target costs infinitely much, as it does at +inf"),
    (where("batch_norm_stats", lambda x: torch.isinf(x).any() and not torch.isnan(x).any()), constant_answer([NAN, 0.075, NAN, 0.94166666]), "the mean is summed from differences to a first mean, so it is NaN with its variance"),
    (far(("swish", "gelu", "gelu_tanh", "mish"), by_limit), by_limit, "the limit, or the number itself, where float32 overflows or cancels on the way"),
    (far(("swiglu",), gate_by_limit), gate_by_limit, "swish has its limits at infinity"),
    (where("hard_swish", lambda x: x == MAX), in_float64, "x times 1, not x times 6 divided by 6: nothing overflows"),
]  # fmt: skip
