"""The ops of tests/ops/special_values.txt in PyTorch, and their operands and answers."""
import itertools

import numpy as np
import torch
import torch.nn.functional as F

NAN, INF, MAX, MIN = float("nan"), float("inf"), 3.4028234663852886e38, 1.1754943508222875e-38


# ---- writing tensors -------------------------------------------------------------------------


def word(v):
    v = float(v)
    if v != v:
        return "nan"
    if v in (INF, -INF):
        return "inf" if v > 0 else "-inf"
    return format(np.float32(v), ".9g") if abs(v) < 1e-4 or abs(v) >= 1e9 or v != int(v) else repr(int(v)) if v != 0 or str(v)[0] != "-" else "-0"


def in_runs(words):
    runs = [(w, len(list(run))) for w, run in itertools.groupby(words)]
    return ",".join(w if n == 1 else f"{w}*{n}" for w, n in runs)


def text(values, shape=None, kind=""):
    words = [word(v) for v in np.asarray(values, dtype=np.float64).reshape(-1)]
    return kind + (f"({','.join(map(str, shape))})" if shape is not None else "") + in_runs(words)


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
    """The parameter after one update; the gradient is an operand."""

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
        "argmax": lambda: lambda x: x.argmax(n[0]).float(), "cumsum": lambda: lambda x: x.cumsum(n[0]),
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
        "conv_transpose2d": lambda: lambda x, w, b: F.conv_transpose2d(x, w, b, n[0], n[1], n[2]),
        "upsample": lambda: lambda x: F.interpolate(x, size=(n[1], n[2]), mode=["nearest", "bilinear"][n[0]]),
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


def slopes_of(y, sources, dy):
    grads = torch.autograd.grad(y, sources, dy, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(sources, grads)]


def evaluate(function, operands, dy, dtype=torch.float32):
    """The result, the gradient that it is given, and those of the operands."""
    given = [o.tensor.clone().to(dtype) if o.tensor.is_floating_point() else o.tensor.clone() for o in operands]
    sources = [x.requires_grad_() for x, o in zip(given, operands) if o.kind == ""]
    y, grads = function(*given), []
    if not y.requires_grad:
        return y, None, grads
    n, point = y.numel(), all(o.shape is None for o in operands)
    dy = dy if dy is not None else [1.0] * n if point or n == 1 else [WEIGHTS[min(i, 6)] for i in range(n)]
    dy = torch.tensor(dy, dtype=torch.float32).to(dtype).reshape(y.shape)
    return y.detach(), dy, slopes_of(y, sources, dy)


def is_finite(*tensors):
    return all(bool(torch.isfinite(t).all()) for t in tensors)


