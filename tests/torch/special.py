#!/usr/bin/env python3
"""What PyTorch answers to NaN, infinities, huge numbers, zeros and kinks: tests/ops/special_values.txt.

usage: special.py write PAGE    write the table
       special.py check PAGE    compare its answers with those of the PyTorch that is installed

A row is one case of one op: operands, the gradient of the result, PyTorch's result and gradients
in float32, and, where stepwell differs on purpose, its answers and the reason. The page's head
says how tensors are written. tests/ops/special.c holds stepwell to it.
Exit status 77 (skipped) where PyTorch or NumPy is missing.
"""
import sys

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

NAN, INF, MAX, MIN = float("nan"), float("inf"), 3.4028234663852886e38, 1.1754943508222875e-38

HEAD = """\
# What PyTorch {version} answers, on a CPU and in float32, to NaN, infinities, huge numbers, zeros and kinks, for every op.
# Written by tests/torch/special.py; tests/ops/special.c holds stepwell to it: every instruction set, planned and immediate,
# and the kernels of the CUDA module under the emulator.
#
# op | operands | gradient of the result | result | gradients of the operands [| our result | our gradients | reason]
#
# A tensor: its shape, as "(2,3)", and its values apart by commas, "v*n" for n times v. Where no operand has a shape, the op is
# elementwise and has one number each: it is run on many copies. In front of a tensor: i, u whole numbers (I32, U8), c a constant
# without a gradient. "-": none. "~": the numbers are not looked at: what the zeros of padding are multiplied with (image gradients
# of a weight that is not finite), and what keys that a query does not see give (causal attention), is a matter of the kernel.
#
# A NaN has to be a NaN and an infinity the same infinity; a number agrees within 1e-5 of the largest finite one of its tensor, and
# where there are shapes within 5e-7.
# The sign of a zero is not looked at, and a number below 1.1754944e-38 may be 0: denormals are flushed during a run.
#
# A row with a reason differs on purpose: its last three columns are stepwell's answers, and it fails where they are PyTorch's.
"""

# ---- writing tensors -------------------------------------------------------------------------


def word(v):
    v = float(v)
    if v != v:
        return "nan"
    if v in (INF, -INF):
        return "inf" if v > 0 else "-inf"
    return format(np.float32(v), ".9g") if abs(v) < 1e-4 or abs(v) >= 1e9 or v != int(v) else repr(int(v)) if v != 0 or str(v)[0] != "-" else "-0"


def text(values, shape=None, kind=""):
    words, out = [word(v) for v in np.asarray(values, dtype=np.float64).reshape(-1)], []
    for w in words:
        if out and out[-1][0] == w:
            out[-1][1] += 1
        else:
            out.append([w, 1])
    body = ",".join(w if n == 1 else f"{w}*{n}" for w, n in out)
    return kind + (f"({','.join(map(str, shape))})" if shape is not None else "") + body


# ---- the ops ---------------------------------------------------------------------------------


def attention(heads, causal, scale):
    """The formula as it stands: what PyTorch's fused kernels leave out is not asked."""

    def run(q, k, v):
        b, m, n = q.shape[0], q.shape[1], k.shape[1]
        split = lambda x: x.reshape(b, x.shape[1], heads, -1).transpose(1, 2)
        scores = split(q) @ split(k).transpose(-1, -2) * scale
        if causal:
            scores = scores.masked_fill(torch.ones(m, n).tril().logical_not(), -INF)
        return (torch.softmax(scores, -1) @ split(v)).transpose(1, 2).reshape(b, m, -1)

    return run


def updated(make, clip=None):
    """The parameter behind one update; the gradient is an operand."""

    def run(p, g):
        q = torch.nn.Parameter(p.detach().clone())
        optimizer = make([q])
        q.grad = g.detach().clone()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([q], clip)
        optimizer.step()
        return q.detach().clone()

    return run


def batch_stats(x):
    mean, var = torch.zeros(x.shape[1], dtype=x.dtype), torch.ones(x.shape[1], dtype=x.dtype)
    F.batch_norm(x, mean, var, training=True, momentum=0.1)
    return torch.cat([mean, var])


def norm_fixed(x, w, b, mean, var):
    return F.batch_norm(x, mean, var, w, b, training=False)


def op(name):
    """The function of an op's name with its numbers."""
    name, *args = name.split()
    a = [float(x) for x in args]
    n = [int(x) for x in a]
    optim = torch.optim
    table = {
        "relu": lambda: F.relu, "leaky_relu": lambda: lambda x: F.leaky_relu(x, a[0]), "tanh": lambda: torch.tanh,
        "sigmoid": lambda: torch.sigmoid, "swish": lambda: F.silu, "gelu": lambda: F.gelu,
        "gelu_tanh": lambda: lambda x: F.gelu(x, approximate="tanh"), "mish": lambda: F.mish, "softplus": lambda: F.softplus,
        "hard_swish": lambda: F.hardswish, "elu": lambda: lambda x: F.elu(x, a[0]), "selu": lambda: F.selu, "exp": lambda: torch.exp,
        "log": lambda: torch.log, "sqrt": lambda: torch.sqrt, "rsqrt": lambda: torch.rsqrt, "pow": lambda: lambda x: x.pow(a[0]),
        "abs": lambda: torch.abs, "clamp": lambda: lambda x: x.clamp(a[0], a[1]), "scale_by": lambda: lambda x: x * a[0],
        "scale": lambda: lambda x: x * a[0],
        "add": lambda: torch.add, "sub": lambda: torch.sub, "mul": lambda: torch.mul, "div": lambda: torch.div,
        "where": lambda: lambda m, x, y: torch.where(m != 0, x, y), "swiglu": lambda: lambda x, y: F.silu(x) * y,
        "reshape": lambda: lambda x: x.reshape(-1), "slice": lambda: lambda x: x[:, 1:3], "permute": lambda: lambda x: x.t(),
        "concat": lambda: lambda x, y: torch.cat([x, y], 1), "expand": lambda: lambda x, y: x + y, "detach": lambda: lambda x: x + x.detach(),
        "to_f32": lambda: lambda x: x.float() * a[0] + a[1],
        "sum": lambda: torch.sum, "sum_axis": lambda: lambda x: x.sum(n[0]), "mean": lambda: torch.mean, "mean_axis": lambda: lambda x: x.mean(n[0]),
        "max": lambda: lambda x: x.reshape(-1).max(0).values, "max_axis": lambda: lambda x: x.max(n[0]).values,
        "softmax": lambda: lambda x: torch.softmax(x, -1), "log_softmax": lambda: lambda x: torch.log_softmax(x, -1),
        "softmax_ce": lambda: lambda x, t: F.cross_entropy(x, t.long()),
        "softmax_ce_with": lambda: lambda x, t: F.cross_entropy(x, t.long(), label_smoothing=a[0], ignore_index=n[1]),
        "linear_ce": lambda: lambda x, w, b, t: F.cross_entropy(F.linear(x, w, b), t.long()),
        "mse": lambda: F.mse_loss, "bce": lambda: lambda x: F.binary_cross_entropy_with_logits(x, torch.full_like(x, a[0])),
        "bce_with": lambda: F.binary_cross_entropy_with_logits, "huber": lambda: lambda x, t: F.huber_loss(x, t, delta=a[0]), "l1": lambda: F.l1_loss,
        "kl_div": lambda: lambda x, t: F.kl_div(x, t, reduction="batchmean"),
        "accuracy": lambda: lambda x, t: (x.argmax(1) == t).float().mean(),
        "layer_norm": lambda: lambda x: F.layer_norm(x, x.shape[-1:], eps=1e-5), "rms_norm": lambda: lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-5),
        "layer_norm_affine": lambda: lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, eps=1e-5),
        "group_norm": lambda: lambda x: F.group_norm(x, n[0], eps=1e-5),
        "batch_norm": lambda: lambda x: F.batch_norm(x, None, None, training=True), "batch_norm_stats": lambda: batch_stats, "batch_norm_fixed": lambda: norm_fixed,
        "max_pool2d": lambda: lambda x: F.max_pool2d(x, n[0], n[1], n[2]), "avg_pool2d": lambda: lambda x: F.avg_pool2d(x, n[0], n[1], n[2]),
        "linear": lambda: F.linear, "linear_relu": lambda: lambda x, w, b: F.relu(F.linear(x, w, b)),
        "linear_leaky_relu": lambda: lambda x, w, b: F.leaky_relu(F.linear(x, w, b), a[0]),
        "conv2d": lambda: lambda x, w, b: F.conv2d(x, w, b, n[0], n[1]), "depthwise": lambda: lambda x, w, b: F.conv2d(x, w, b, n[0], n[1], 1, x.shape[1]),
        "conv2d_relu": lambda: lambda x, w, b: F.relu(F.conv2d(x, w, b, n[0], n[1])),
        "batch_norm_relu": lambda: lambda x: F.relu(F.batch_norm(x, None, None, training=True)),
        "relu_max_pool": lambda: lambda x: F.max_pool2d(F.relu(x), 2), "max_pool_relu": lambda: lambda x: F.relu(F.max_pool2d(x, 2)),
        "matmul": lambda: torch.matmul, "channel_scale": lambda: torch.mul, "embedding": lambda: lambda t, w: F.embedding(t.long(), w),
        "dropout": lambda: lambda x: F.dropout(x, a[0], training=True), "attention": lambda: attention(n[0], n[1], a[2]),
        "clip_norm": lambda: updated(lambda p: optim.SGD(p, lr=1.0), a[0]), "sgd": lambda: updated(lambda p: optim.SGD(p, lr=a[0])),
        "momentum": lambda: updated(lambda p: optim.SGD(p, lr=a[0], momentum=0.9)), "adam": lambda: updated(lambda p: optim.Adam(p, lr=a[0])),
        "adamw": lambda: updated(lambda p: optim.AdamW(p, lr=a[0], weight_decay=0.01)), "rmsprop": lambda: updated(lambda p: optim.RMSprop(p, lr=a[0])),
        "adagrad": lambda: updated(lambda p: optim.Adagrad(p, lr=a[0])),
    }  # fmt: skip
    return table[name]()


# ---- operands and answers ---------------------------------------------------------------------


WEIGHTS = [1.0, -0.5, 2.0, 0.75, -1.25, 0.5, 1.5]  # gradients of results that have several numbers


class Operand:
    """Values with a shape (None: elementwise) and a kind: "", "c" constant, "i" and "u" whole numbers."""

    def __init__(self, values, shape=None, kind=""):
        self.kind, self.shape = kind, shape
        dtype = {"": torch.float32, "c": torch.float32, "i": torch.int32, "u": torch.uint8}[kind]
        self.tensor = torch.tensor(values, dtype=dtype).reshape(shape if shape is not None else (-1,))

    def text(self):
        return text(self.tensor.numpy(), self.shape, self.kind)


def whole(values, kind="i"):
    return Operand(values, (len(values),), kind)


def rows(*values):
    return Operand([v for row in values for v in row], (len(values), len(values[0])))


def image(values, shape):
    return Operand(values, shape)


def constant(o):
    o.kind = "c"
    return o


def slopes_of(y, wanted, dy):
    grads = torch.autograd.grad(y, wanted, dy, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, grads)]


def evaluate(function, operands, dy, dtype=torch.float32):
    """The result, the gradient that it is given, and those of the operands."""
    given = [o.tensor.clone().to(dtype) if o.tensor.is_floating_point() else o.tensor.clone() for o in operands]
    wanted = [x.requires_grad_() for x, o in zip(given, operands) if o.kind == ""]
    y, grads = function(*given), []
    if not y.requires_grad:
        return y, None, grads
    n, point = y.numel(), all(o.shape is None for o in operands)
    dy = dy if dy is not None else [1.0] * n if point or n == 1 else [WEIGHTS[min(i, 6)] for i in range(n)]
    dy = torch.tensor(dy, dtype=torch.float32).to(dtype).reshape(y.shape)
    return y.detach(), dy, slopes_of(y, wanted, dy)


def is_finite(*tensors):
    return all(bool(torch.isfinite(t).all()) for t in tensors)


def unseen(name, operands, dy):
    """Gradients that are not looked at, by position."""
    first = name.split()[0]
    if first in ("conv2d", "conv2d_relu", "depthwise") and not is_finite(operands[1].tensor):
        return {0}
    if name.startswith("attention 1 1") and not is_finite(*(o.tensor for o in operands), torch.tensor(dy or [0.0])):
        return {0, 1, 2}
    return set()


def answer(name, operands, dy, used):
    """The row of one case."""
    y, slope, grads = evaluate(op(name), operands, dy)
    shape = None if all(o.shape is None for o in operands) else tuple(y.shape)
    shapes, blank = [o.shape for o in operands if o.kind == ""], unseen(name, operands, dy)

    def texts(y, grads):
        given = ["~" if i in blank else text(g.numpy(), s) for i, (g, s) in enumerate(zip(grads, shapes))]
        return [text(y.numpy(), shape), " ".join(given) or "-"]

    cells = [name, " ".join(o.text() for o in operands), text(slope.numpy(), shape) if grads else "-"] + texts(y, grads)
    for i, (applies, ours, why) in enumerate(DIFFERENT):
        if not applies(name, operands, dy, y, grads):
            continue
        used.add(i)
        own = texts(*ours(name, operands, dy, y, grads))
        if own != cells[3:]:
            return " | ".join(cells + own + [why])
    return " | ".join(cells)


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
    (where("kl_div", lambda x, t: (t == 0).any() or torch.isinf(t).any()), kl_ours, "where the target is 0 its term and its gradient are 0 (stepwell.h); where it is infinite, so is its gradient"),
    (where("clamp", lambda x: x in (-0.5, 3.0)), bound_slope, "a bound is within the range: the slope is 1 there (stepwell.h)"),
    (where("pow 0.5", lambda x: x == -INF), constant_answer([INF], [[0.0]]), "as C's pow; PyTorch takes a square root"),
    (where("pow 0.5", lambda x: x == 0 and torch.signbit(x)), constant_answer(None, [[INF]]), "as C's pow; PyTorch takes a square root"),
    (where("pow 0", lambda x: not torch.isfinite(x)), constant_answer(None, [[NAN]]), "0 times what is not finite"),
    (where("div", lambda x, y: torch.isinf(x) and y.abs() == MAX), constant_answer(None, [[0.0], [NAN]]), "1 / 3.4e38 is a denormal, which is 0 in a run, and 0 times infinity"),
    (where("bce_with", lambda x, t: x[0] == -INF and t[0] > 0 and torch.isfinite(t[0])), constant_answer([INF]), "an impossible target costs infinitely much, as it does at +inf"),
    (where("bce 1", lambda x: x == -INF), constant_answer([INF]), "an impossible target costs infinitely much, as it does at +inf"),
    (where("bce 0.25", lambda x: x == -INF), constant_answer([INF]), "an impossible target costs infinitely much, as it does at +inf"),
    (where("batch_norm_stats", lambda x: torch.isinf(x).any() and not torch.isnan(x).any()), constant_answer([NAN, 0.075, NAN, 0.94166666]), "the mean is summed from differences to a first mean, so it is NaN with its variance"),
]  # fmt: skip


def page():
    used = set()
    lines, seen = [HEAD.format(version=torch.__version__.split("+")[0])], set()
    for group in (elementwise, shapes, reductions, losses, norms, images, attentions, updates):
        for name, operands, dy in group():
            line = answer(name, operands, dy, used)
            if line not in seen:
                lines.append(line)
            seen.add(line)
    for i, (_, _, why) in enumerate(DIFFERENT):
        assert i in used, f"no row differs because {why}"
    return "\n".join(lines) + "\n"


def numbers(cell):
    """The tensors of a cell: their shapes and values."""
    found = []
    for part in cell.split(" "):
        head, _, body = part.rpartition(")")
        values = []
        for w in (body or part).split(","):
            value, _, times = w.partition("*")
            values += [value] * int(times or 1)
        found.append((head, values))
    return found


def is_same(mine, theirs):
    """Other versions and processors sum in another order: as special.c compares."""
    for (head, a), (other, b) in zip(mine, theirs):
        if head != other or len(a) != len(b):
            return False
        if a in (["~"], ["-"]) or b in (["~"], ["-"]):
            if a != b:
                return False
            continue
        x, y = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
        finite = np.abs(y[np.isfinite(y)])
        error = 1e-5 * (finite.max() if finite.size else 0.0) + (5e-7 if head else 0.0)
        with np.errstate(invalid="ignore"):
            difference = np.abs(x - y)
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | (difference <= error) | ((np.abs(x) < MIN) & (np.abs(y) < MIN))
        if not same.all():
            return False
    return len(mine) == len(theirs)


def check(path):
    """Each row of the page, in this PyTorch."""
    with open(path, encoding="utf-8") as file:
        written = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    now = [line for line in page().split("\n") if line.strip() and not line.startswith("#")]
    faults = abs(len(now) - len(written))
    for old, new in zip(written, now):
        a, b = old.split(" | "), new.split(" | ")
        if a[:3] != b[:3] or len(a) != len(b) or a[7:] != b[7:] or not all(is_same(numbers(x), numbers(y)) for x, y in zip(a[3:7], b[3:7])):
            faults += 1
            print(f"the page has  {old}\nPyTorch says  {new}")
    print(f"{len(written)} rows, {faults} faults, PyTorch {torch.__version__}")
    return faults == 0


def main(how, path):
    torch.set_num_threads(1)
    if how == "write":
        whole_page = page()
        with open(path, "w", encoding="utf-8") as file:
            file.write(whole_page)
        return True
    return check(path)


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
