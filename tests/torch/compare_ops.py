#!/usr/bin/env python3
"""Single ops against PyTorch, results and gradients of one step: pointwise ops and losses, an attention block of small ops,
convolutions and other ops of images, LSTM and GRU, and the ops of a language model.

usage: compare_ops.py [CASE]

Agreement by norm for each tensor: 1e-5, and 1e-4 for the language model's; of pointwise ops, which are held to PyTorch in float64, 1e-6, and
each element within 2e-6 of the largest. Exit status 77 (skipped) where PyTorch or NumPy is missing.
"""
import os
import re
import sys

from sides import Side, np, sw, torch, worst

F = torch.nn.functional
BOUND = 1e-5


def compare(name, declare, ours, theirs, inputs=(), bound=BOUND, floor=0.0, seed=7):
    """ours(c, net) gives the loss and named results, theirs(p, found, *inputs) the same of PyTorch; p: parameters, found: our results."""
    side, names = Side(declare, kind="sgd", keep_gradients=1, seed=seed), []

    def step(c):
        loss, results = ours(c, side.net)
        for key, y in {"loss": loss, **results}.items():
            sw.sw_output(c, key, y)
            names.append(key)
        side.backward(c, loss, update=False)

    side.run(step, inputs)
    found = {key: side.output(key) for key in names}
    p = {n: t.requires_grad_() for n, t in side.tensors().items()}
    loss, results = theirs(p, found, *(torch.from_numpy(np.asarray(x)) for x in inputs))
    loss.backward()
    error = max(worst(found, {"loss": loss, **results}, floor), worst(side.gradients(), {n: t.grad for n, t in p.items()}, floor))
    print(f"{name}: {error[0]:.2e} ({error[1]}); bound {bound:.0e}{'' if error[0] <= bound else '  TOO FAR'}")
    return error[0] <= bound


def squares(name, declare, ours, theirs):
    """Of results alone: the loss is the sum of their squares."""

    def our_loss(c, net):
        ys = ours(c, net)
        loss = None
        for y in ys:
            each = sw.sw_sum(c, sw.sw_mul(c, y, y), 0)
            loss = each if loss is None else sw.sw_add(c, loss, each)
        return loss, {f"y{i}": y for i, y in enumerate(ys)}

    def their_loss(p, _):
        ys = theirs(p)
        return sum((y * y).sum() for y in ys), {f"y{i}": y for i, y in enumerate(ys)}

    return compare(name, declare, our_loss, their_loss)


def normal(**shapes):
    """Declares parameters of these shapes."""
    return lambda model: {n: sw.sw_param_new(model, n, sw.SW_F32, s, "normal:1") for n, s in shapes.items()}


# ---- pointwise ops and losses, by the list of tests/ops/pointwise_list.h ----------------------

CLASSES, IGNORED, POINT_BOUND, NORM_BOUND, ROWS = 10, 3, 2e-6, 1e-6, 401
rows = lambda x: x.reshape(-1, CLASSES)
our_rows = lambda c, x: sw.sw_reshape(c, x, (-1, CLASSES))


def our_ce(smoothing, ignored):
    return lambda c, x: sw.sw_softmax_ce_with(c, our_rows(c, x), sw.sw_input(c, 2), smoothing, ignored)


def point_pairs(t, mask, labels):
    """Ours of (c, x), theirs of x."""
    ce = lambda smoothing, ignored: lambda x: F.cross_entropy(rows(x), labels, label_smoothing=smoothing, ignore_index=ignored)
    power = lambda e: (lambda c, x: sw.sw_pow(c, x, e), lambda x: x.pow(e))
    return {
        "gelu": (sw.sw_gelu, F.gelu),
        "gelu_tanh": (sw.sw_gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
        "mish": (sw.sw_mish, F.mish),
        "softplus": (sw.sw_softplus, F.softplus),
        "hard_swish": (sw.sw_hard_swish, F.hardswish),
        "elu": (lambda c, x: sw.sw_elu(c, x, 0.75), lambda x: F.elu(x, 0.75)),
        "selu": (sw.sw_selu, F.selu),
        "exp": (sw.sw_exp, torch.exp),
        "log": (sw.sw_log, torch.log),
        "sqrt": (sw.sw_sqrt, torch.sqrt),
        "rsqrt": (sw.sw_rsqrt, torch.rsqrt),
        "pow2": power(2), "pow3": power(3), "pow5": power(5), "pow_root": power(0.375), "pow_below": power(-2.5),
        "abs": (sw.sw_abs, torch.abs),
        "clamp": (lambda c, x: sw.sw_clamp(c, x, -0.5, 0.75), lambda x: x.clamp(-0.5, 0.75)),
        "sub": (lambda c, x: sw.sw_sub(c, sw.sw_input(c, 0), x), lambda x: t - x),
        "div": (lambda c, x: sw.sw_div(c, x, sw.sw_input(c, 0)), lambda x: x / t),
        "divisor": (lambda c, x: sw.sw_div(c, sw.sw_input(c, 0), x), lambda x: t / x),
        "where": (lambda c, x: sw.sw_where(c, sw.sw_input(c, 1), x, sw.sw_input(c, 0)), lambda x: torch.where(mask, x, t)),
        "huber": (lambda c, x: sw.sw_huber(c, x, sw.sw_input(c, 0), 0.75), lambda x: F.huber_loss(x, t, delta=0.75)),
        "l1": (lambda c, x: sw.sw_l1(c, x, sw.sw_input(c, 0)), lambda x: F.l1_loss(x, t)),
        "kl_div": (lambda c, x: sw.sw_kl_div(c, our_rows(c, x), our_rows(c, sw.sw_input(c, 0))), lambda x: F.kl_div(rows(x), rows(t), reduction="batchmean")),
        "ce": (lambda c, x: sw.sw_softmax_ce(c, our_rows(c, x), sw.sw_input(c, 2)), ce(0.0, -100)),
        "ce_smooth": (our_ce(0.1, -100), ce(0.1, -100)),
        "ce_ignore": (our_ce(0.0, IGNORED), ce(0.0, IGNORED)),
        "ce_both": (our_ce(0.25, IGNORED), ce(0.25, IGNORED)),
    }  # fmt: skip


def points():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ops", "pointwise_list.h"), encoding="utf-8") as file:
        listed = re.findall(r"^    ROW\((\w+), ([-.\d]+)f, ([-.\d]+)f, ([01]),", file.read(), flags=re.M)
    draw, n = np.random.default_rng(20), ROWS * CLASSES
    inputs = [draw.uniform(0.1, 1, n).astype("float32"), draw.integers(0, 2, n).astype("uint8"), draw.integers(0, CLASSES, ROWS).astype("int32"),
              draw.uniform(-1, 1, n).astype("float32")]
    t, mask, labels, w = (torch.from_numpy(x) for x in inputs)
    pairs, good = point_pairs(t.double(), mask != 0, labels.long()), True
    assert sorted(pairs) == sorted(name for name, *_ in listed), "two lists"
    for name, low, high, is_loss in listed:
        (ours, theirs), is_loss = pairs[name], is_loss == "1"
        side = Side(normal(x=(n,)), kind="sgd", keep_gradients=1)
        sw.write(side.net["x"], draw.uniform(float(low), float(high), n).astype("float32"))

        def step(c):
            y = ours(c, sw.sw_use(c, side.net["x"]))
            sw.sw_output(c, "y", y)
            side.backward(c, y if is_loss else sw.sw_sum(c, sw.sw_mul(c, y, sw.sw_input(c, 3)), 0), update=False)

        side.run(step, inputs)
        x = side.tensors()["x"].double().requires_grad_()
        y = theirs(x)
        (y if is_loss else (y * w.double()).sum()).backward()
        found = [(side.output("y").flatten(), y.detach().flatten()), (side.gradients()["x"], x.grad)]
        largest = [float((a - b).abs().max() / b.abs().max()) for a, b in found]
        by_norm = [float((a - b).norm() / b.norm()) for a, b in found]
        right = max(largest) <= POINT_BOUND and max(by_norm) <= NORM_BOUND
        print(f"{name}: values {largest[0]:.1e}, gradients {largest[1]:.1e} of the largest; {by_norm[0]:.1e}, {by_norm[1]:.1e} by norm{'' if right else '  TOO FAR'}")
        good = good and right
    return good


# ---- embedding, dropout, products, permuted axes, sums and maxima over axes ------------------

BATCH, SEQ, HEADS, DEPTH, VOCABULARY, DROPPED = 3, 17, 4, 8, 61, 0.3
WIDTH = HEADS * DEPTH


def axes():
    def declare(model):
        net = {"words": sw.sw_embedding_new(model, "words", VOCABULARY, WIDTH), "places": sw.sw_embedding_new(model, "places", SEQ, WIDTH)}
        net["inner"] = sw.sw_param_new(model, "inner", sw.SW_F32, (WIDTH, 3 * WIDTH), "normal:0.2")
        net["outer"] = sw.sw_param_new(model, "outer", sw.SW_F32, (WIDTH, WIDTH), "normal:0.2")
        return net

    def ours(c, net):
        heads = lambda x: sw.sw_permute(c, sw.sw_reshape(c, x, (BATCH, SEQ, HEADS, DEPTH)), [0, 2, 1, 3], 4)
        x = sw.sw_add(c, sw.sw_apply_embedding(c, net["words"], sw.sw_input(c, 0)), sw.sw_apply_embedding(c, net["places"], sw.sw_input(c, 1)))
        drops = x = sw.sw_dropout(c, x, DROPPED)  # zeros here were dropped: PyTorch gets them
        x = sw.sw_add(c, x, sw.sw_scale_by(c, sw.sw_mean_axes(c, x, [-1], 1, 1), -1.0))
        part = (sw.sw_value * 3)()
        sw.sw_split(c, sw.sw_matmul(c, x, sw.sw_use(c, net["inner"])), WIDTH, -1, part, 3)
        q, k, v = (heads(p) for p in part)
        scores = sw.sw_scale_by(c, sw.sw_matmul(c, q, sw.sw_transpose(c, k, -1, -2)), 0.5)
        y = sw.sw_matmul(c, sw.sw_softmax(c, scores), v)
        y = sw.sw_reshape(c, sw.sw_transpose(c, y, 1, 2), (BATCH, SEQ, WIDTH))
        y = sw.sw_add(c, x, sw.sw_matmul(c, y, sw.sw_use(c, net["outer"])))
        y = sw.sw_mul(c, y, sw.sw_max_axes(c, y, [-2], 1, 1))
        logits = sw.sw_matmul(c, y, sw.sw_transpose(c, sw.sw_use(c, net["words"].weight), 0, 1))
        loss = sw.sw_sum_axes(c, sw.sw_tanh(c, sw.sw_scale_by(c, logits, 0.02)), None, 0, 0)
        return loss, {"logits": logits, "drops": drops}

    def theirs(p, found, ids, places):
        kept = (found["drops"] != 0).float().reshape(BATCH, SEQ, WIDTH)
        share, spread = 1.0 - float(kept.mean()), (DROPPED * (1.0 - DROPPED) / kept.numel()) ** 0.5
        print(f"dropped: {share:.3f} of {DROPPED}; bound {5 * spread:.3f}")
        assert abs(share - DROPPED) < 5 * spread
        x = F.embedding(ids.long(), p["words.weight"]) + F.embedding(places.long(), p["places.weight"])
        drops = x = x * kept / (1.0 - DROPPED)
        x = x - x.mean(dim=-1, keepdim=True)
        q, k, v = (t.reshape(BATCH, SEQ, HEADS, DEPTH).permute(0, 2, 1, 3) for t in (x @ p["inner"]).split(WIDTH, dim=-1))
        y = torch.softmax(q @ k.transpose(-1, -2) * 0.5, dim=-1) @ v
        y = x + y.transpose(1, 2).reshape(BATCH, SEQ, WIDTH) @ p["outer"]
        y = y * y.max(dim=-2, keepdim=True).values
        logits = y @ p["words.weight"].T
        return torch.tanh(0.02 * logits).sum(), {"logits": logits, "drops": drops}

    ids = (np.arange(BATCH * SEQ, dtype="int32") ** 2 * 7 % 43).reshape(BATCH, SEQ)
    return compare("axes", declare, ours, theirs, [ids, np.arange(SEQ, dtype="uint8")])


# ---- convolutions and other ops of images ----------------------------------------------------

# Batches of 17 to 19 are plain, of 16 and 30 to 32 in blocks of sixteen.
# batch, in, h, w, out, kh, kw, stride, pad, dilation, groups
CONVS = [(1, 3, 9, 8, 6, 3, 3, 1, 1, 1, 1), (17, 4, 7, 6, 6, 3, 2, 2, 1, 1, 2), (32, 6, 7, 9, 6, 3, 3, 1, 1, 1, 6), (3, 6, 15, 20, 6, 5, 5, 1, 2, 1, 6),
         (31, 5, 9, 8, 5, 5, 5, 2, 2, 1, 5), (2, 5, 9, 18, 5, 3, 3, 2, 1, 1, 5), (16, 4, 11, 9, 8, 3, 3, 1, 2, 2, 2), (5, 3, 12, 11, 4, 3, 2, 2, 2, 3, 1),
         (32, 40, 4, 4, 70, 1, 1, 1, 0, 1, 1), (33, 70, 5, 3, 21, 1, 1, 1, 0, 1, 1), (3, 24, 13, 11, 17, 1, 1, 1, 0, 1, 1),
         (30, 8, 4, 4, 16, 1, 1, 1, 0, 1, 4), (30, 3, 6, 5, 6, 4, 4, 3, 1, 1, 3), (16, 4, 2, 2, 4, 5, 5, 1, 2, 1, 4)]  # fmt: skip
# batch, in, h, w, out, kh, kw, stride, pad, output_pad, groups, dilation
TRANSPOSES = [(2, 6, 5, 7, 4, 3, 3, 1, 1, 0, 1, 1), (17, 6, 4, 5, 4, 2, 2, 2, 0, 0, 2, 1), (32, 4, 4, 5, 6, 3, 3, 2, 1, 1, 1, 1), (3, 5, 6, 5, 5, 5, 5, 2, 2, 1, 5, 1),
              (31, 3, 3, 4, 3, 3, 3, 1, 1, 0, 3, 1), (1, 4, 6, 7, 8, 4, 4, 2, 1, 0, 1, 1), (16, 40, 4, 4, 20, 1, 1, 1, 0, 0, 1, 1),
              (5, 3, 4, 6, 6, 3, 2, 3, 1, 2, 3, 2)]  # fmt: skip
# batch, channels, h, w, to h, to w, whether bilinear
RESIZES = [(2, 3, 7, 20, 14, 40, 0), (32, 3, 5, 6, 10, 12, 0), (3, 2, 9, 21, 18, 42, 1), (31, 2, 4, 5, 8, 10, 1), (2, 2, 5, 8, 13, 11, 0), (16, 2, 5, 8, 13, 11, 1),
           (2, 3, 11, 9, 4, 5, 1), (2, 3, 11, 9, 4, 5, 0), (3, 2, 1, 1, 6, 5, 1)]  # fmt: skip
CUMSUMS = [(6, 5, 4, 7, 0), (6, 5, 4, 7, 1), (6, 5, 4, 70, 3)]
SCALES = [(2, 3, 5, 7), (32, 4, 3, 3), (17, 2, 9, 17)]


def conv(batch, inside, h, w, out, kh, kw, stride, pad, dilation, groups):
    opts = sw.sw_conv_opts(stride=stride, pad=pad, dilation=dilation, groups=groups)
    return (normal(x=(batch, inside, h, w), w=(out, inside // groups, kh, kw), b=(out,)),
            lambda c, x, w, b: sw.sw_conv2d_op_with(c, x, w, b, opts),
            lambda x, w, b: F.conv2d(x, w, b, stride, pad, dilation, groups))


def transpose(batch, inside, h, w, out, kh, kw, stride, pad, output_pad, groups, dilation):
    opts = sw.sw_conv_transpose_opts(stride=stride, pad=pad, output_pad=output_pad, dilation=dilation, groups=groups)
    return (normal(x=(batch, inside, h, w), w=(inside, out // groups, kh, kw), b=(out,)),
            lambda c, x, w, b: sw.sw_conv_transpose2d_op(c, x, w, b, opts),
            lambda x, w, b: F.conv_transpose2d(x, w, b, stride, pad, output_pad, groups, dilation))


def resize(batch, channels, h, w, to_h, to_w, bilinear):
    mode = sw.SW_BILINEAR if bilinear else sw.SW_NEAREST
    twice = (to_h, to_w) == (2 * h, 2 * w)
    return (normal(x=(batch, channels, h, w)), lambda c, x: sw.sw_upsample(c, x, 2, mode) if twice else sw.sw_upsample_to(c, x, to_h, to_w, mode),
            lambda x: F.interpolate(x, size=(to_h, to_w), mode="bilinear" if bilinear else "nearest"))


def cumsum(*sizes):
    return normal(x=sizes[:4]), lambda c, x: sw.sw_cumsum(c, x, sizes[4]), lambda x: x.cumsum(sizes[4])


def scale(batch, channels, h, w):
    return normal(x=(batch, channels, h, w), s=(batch, channels, 1, 1)), sw.sw_channel_scale, lambda x, s: x * s


def images():
    good = True
    for make, cases in ((conv, CONVS), (transpose, TRANSPOSES), (scale, SCALES), (resize, RESIZES), (cumsum, CUMSUMS)):
        for case in cases:
            declare, ours, theirs = make(*case)
            good &= squares(f"{make.__name__} {case}", declare, lambda c, net: [ours(c, *(sw.sw_use(c, p) for p in net.values()))], lambda p: [theirs(*p.values())])
    return good


# ---- LSTM and GRU: whole sequences and step by step -------------------------------------------

# seq, batch, in, hidden, whether step by step
RECURRENT = [(1, 1, 1, 1, 0), (7, 5, 9, 13, 0), (35, 3, 16, 16, 0), (6, 4, 10, 33, 1), (2, 40, 3, 70, 0)]
LAYER = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]


def recurrent_case(kind, seq, batch, inside, hidden, by_steps):
    states = ["h", "c"] if kind == "lstm" else ["h"]

    def declare(model):
        net = normal(x=(seq, batch, inside), **{s: (batch, hidden) for s in states})(model)
        net["layer"] = getattr(sw, f"sw_{kind}_new")(model, "layer", inside, hidden)
        return net

    def ours(c, net):
        x, state = sw.sw_use(c, net["x"]), [sw.sw_use(c, net[s]) for s in states]
        if not by_steps:
            y = getattr(sw, f"sw_apply_{kind}")(c, net["layer"], x, *state)
            return [y, *state]
        step = getattr(sw, f"sw_apply_{kind}_step")
        all_h = [step(c, net["layer"], sw.sw_reshape(c, sw.sw_slice(c, x, 0, t, 1), (batch, inside)), *state) for t in range(seq)]
        return [sw.sw_stack(c, all_h, seq, 0), *state]

    def theirs(p):
        name = kind.upper() + ("Cell" if by_steps else "")
        module, named = getattr(torch.nn, name)(inside, hidden), {n + ("" if by_steps else "_l0"): p["layer." + n] for n in LAYER}
        call = lambda *given: torch.func.functional_call(module, named, given)
        if not by_steps:
            first = tuple(p[s][None] for s in states)
            y, last = call(p["x"], first if kind == "lstm" else first[0])
            return [y, *(part[0] for part in (last if kind == "lstm" else [last]))]
        state, all_h = tuple(p[s] for s in states), []
        for row in p["x"]:
            state = call(row, state if kind == "lstm" else state[0])
            state = state if kind == "lstm" else (state,)
            all_h.append(state[0])
        return [torch.stack(all_h), *state]

    return squares(f"{kind} {(seq, batch, inside, hidden)}{', by steps' if by_steps else ''}", declare, ours, theirs)


def recurrent():
    return all([recurrent_case(kind, *case) for kind in ("lstm", "gru") for case in RECURRENT])


# ---- what gpt does not use in every way -------------------------------------------------------


def language():
    """More keys than queries, halves of a tensor, smoothed labels of which one is ignored."""

    def ours(c, net):
        kv, half = (sw.sw_value * 2)(), (sw.sw_value * 2)()
        sw.sw_split(c, sw.sw_use(c, net["kv"]), 24, -1, kv, 2)
        sw.sw_split(c, sw.sw_attention(c, sw.sw_use(c, net["q"]), kv[0], kv[1], 4, 0, 0.3), 12, -1, half, 2)
        z = sw.sw_reshape(c, sw.sw_swiglu(c, half[0], half[1]), (-1, 12))
        logs = sw.sw_log_softmax(c, z)
        ce = sw.sw_linear_ce_with(c, z, sw.sw_use(c, net["weight"]), sw.sw_use(c, net["bias"]), sw.sw_input(c, 0), 0.1, 5)
        return sw.sw_add(c, sw.sw_mean(c, sw.sw_mul(c, logs, logs), 0), ce), {}

    def theirs(p, found, labels):
        k, v = p["kv"].split(24, dim=-1)
        q, k, v = (t.unflatten(-1, (4, 6)).transpose(1, 2) for t in (p["q"], k, v))
        y = F.scaled_dot_product_attention(q, k, v, scale=0.3).transpose(1, 2).flatten(2)
        a, b = y.split(12, dim=-1)
        z = (F.silu(a) * b).flatten(0, 1)
        ce = F.cross_entropy(F.linear(z, p["weight"], p["bias"]), labels.long(), label_smoothing=0.1, ignore_index=5)
        return (F.log_softmax(z, dim=-1) ** 2).mean() + ce, {}

    labels = np.arange(33, dtype="int32") * 7 % 30
    return compare("language", normal(q=(3, 11, 24), kv=(3, 70, 48), weight=(30, 12), bias=(30,)), ours, theirs, [labels], bound=1e-4, floor=1e-3)


if __name__ == "__main__":
    torch.set_num_threads(1)
    cases = [case for case in (points, axes, images, recurrent, language) if len(sys.argv) < 2 or case.__name__ == sys.argv[1]]
    sys.exit(0 if all([case() for case in cases]) else 1)
