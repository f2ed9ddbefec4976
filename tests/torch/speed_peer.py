#!/usr/bin/env python3
"""A workload of `stepwell bench speed` in PyTorch or JAX: a peer of speed.py, which starts it.

usage: speed_peer.py MODEL WAY THREADS BATCH

MODEL   lenet5, lenet5x5, mlp200, swishnet, gpt, mbconv
WAY     eager      PyTorch: fused optimizers, gradients set to None before forward
        compile    the same with torch.compile around the net and its loss
        autocast   eager, the net and its loss under autocast in bf16
        half       eager, parameters, optimizer and images in bf16
        jax        jit of loss, gradients and update, arguments donated

Images of LeNet5 are float32 in memory and are indexed by a permutation, for each of the five its own; other workloads
have one batch. mlp200 has the parameters of all stacked; its compiled step has Adam in it too. gpt has scaled_dot_product_attention; mbconv is in channels_last (JAX: NHWC), with running statistics.
The first line on standard output is a JSON object: the time of the first step (made, traced and compiled, without
imports), of the second, and the version.
Then each line NAME WARM COUNT is answered by {"ns": [...]}: WARM steps, then COUNT that are timed.
"""
import json
import math
import os
import sys
import time

RATE, ADAM_EPS = 1e-3, 1e-8
LENETS, RUNS, IMAGES = 5, 14, 60000  # of lenet5x5: 14 steps of each are one
SWISH_WIDTH, SWISH_LAYERS = 4096, 8
MEMBERS, WIDTHS = 200, (49, 64, 24, 10)  # of mlp200
GPT = (4, 256, 8, 128, 8192)  # layers, width, heads, context, vocabulary
# As in mbconv_net.py, which needs PyTorch: expand, channels, blocks, stride, kernel.
MBCONV = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
          (6, 320, 1, 1, 3))

# ---- PyTorch ---------------------------------------------------------------------------------


def torch_digits(torch, batch, images):
    """Batches in the order of a permutation, without end."""
    x, y = torch.rand(images, 1, 28, 28), torch.randint(0, 10, (images,))

    def batches():
        while True:
            order = torch.randperm(images)
            for i in range(images // batch):
                at = order[i * batch : (i + 1) * batch]
                yield x[at], y[at]

    return batches


def torch_lenet(torch):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def torch_net(torch, model, batch):
    """(net, loss of (net, x, y), optimizer, endless batches)"""
    nn, functional, optim = torch.nn, torch.nn.functional, torch.optim

    def cross_entropy(net, x, y):
        return functional.cross_entropy(net(x), y)

    def one(x, y):
        while True:
            yield x, y

    if model.startswith("lenet5"):
        net = torch_lenet(torch)
        adam = optim.Adam(net.parameters(), lr=RATE, fused=True)
        return net, cross_entropy, adam, torch_lenet.batches()
    if model == "swishnet":
        net = nn.Sequential(*(m for _ in range(SWISH_LAYERS) for m in (nn.Linear(SWISH_WIDTH, SWISH_WIDTH), nn.SiLU())))
        sgd = optim.SGD(net.parameters(), lr=0.1, fused=True)
        return (net, lambda net, x, y: functional.mse_loss(net(x), y), sgd,
                one(torch.randn(batch, SWISH_WIDTH), torch.randn(batch, SWISH_WIDTH)))
    if model == "gpt":
        import gpt_net
        net = gpt_net.Net(*GPT)
        ids = torch.randint(0, GPT[4], (2, batch, GPT[3]))
        return (net, lambda net, x, y: functional.cross_entropy(net(x).flatten(0, 1), y.flatten()),
                gpt_net.adamw(net, fused=True), one(ids[0], ids[1]))
    import mbconv_net
    net = mbconv_net.Net(3, 64, 1.0, 1.0).to(memory_format=torch.channels_last)
    adam = optim.Adam(net.parameters(), lr=RATE, fused=True)
    images = torch.randn(batch, 3, 64, 64).contiguous(memory_format=torch.channels_last)
    return net, cross_entropy, adam, one(images, torch.randint(0, 10, (batch,)))


def torch_stacked(torch, way, batch):
    """A step of mlp200: all members read one batch."""
    p, x, y = [], torch.rand(batch, WIDTHS[0]) * 2 - 1, torch.randint(0, WIDTHS[-1], (batch,))
    for rows, cols in zip(WIDTHS, WIDTHS[1:]):
        p += [torch.empty(MEMBERS, n, cols).uniform_(-rows ** -0.5, rows ** -0.5) for n in (rows, 1)]

    def loss_of(p):
        h = torch.baddbmm(p[1], x.expand(MEMBERS, -1, -1), p[0]).relu()
        h = torch.baddbmm(p[5], torch.baddbmm(p[3], h, p[2]).relu(), p[4])
        return torch.nn.functional.cross_entropy(h.flatten(0, 1), y.repeat(MEMBERS), reduction="sum") / batch

    if way == "eager":
        adam = torch.optim.Adam([t.requires_grad_() for t in p], lr=RATE, fused=True)

        def step():
            loss = loss_of(p)
            adam.zero_grad(set_to_none=True)
            loss.backward()
            adam.step()
            return loss.item()

        return step
    m, v, t = [torch.zeros_like(a) for a in p], [torch.zeros_like(a) for a in p], torch.zeros(())

    @torch.compile(fullgraph=True)
    def compiled(p, m, v, t):
        t.add_(1)
        g, loss = torch.func.grad_and_value(loss_of)(p)
        c1, c2 = 1 - 0.9 ** t, 1 - 0.999 ** t
        for i in range(len(p)):
            m[i].mul_(0.9).add_(g[i], alpha=0.1)
            v[i].mul_(0.999).addcmul_(g[i], g[i], value=0.001)
            p[i].sub_(RATE * (m[i] / c1) / ((v[i] / c2).sqrt() + ADAM_EPS))
        return loss

    def step():
        with torch.no_grad():
            return compiled(p, m, v, t).item()

    return step


def torch_step(model, way, threads, batch):
    import torch
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    torch_lenet.batches = torch_digits(torch, batch, IMAGES if model == "lenet5x5" else 100 * batch)

    def make():
        def of_one():
            net, plain, optimizer, batches = torch_net(torch, model, batch)
            if way == "half":
                net.to(torch.bfloat16)

            def loss_of(net, x, y):
                if way == "half":
                    x, y = (t.to(torch.bfloat16) if t.is_floating_point() else t for t in (x, y))
                with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
                    return plain(net, x, y)

            run = torch.compile(plain) if way == "compile" else loss_of

            def step():
                x, y = next(batches)
                optimizer.zero_grad(set_to_none=True)
                loss = run(net, x, y)
                loss.backward()
                optimizer.step()
                return loss.item()

            return step

        if model == "mlp200":
            return torch_stacked(torch, way, batch)
        if model != "lenet5x5":
            return of_one()
        steps = [of_one() for _ in range(LENETS)]
        return lambda: sum(step() for step in steps for _ in range(RUNS))

    return make, torch.__version__


# ---- JAX -------------------------------------------------------------------------------------


def jax_linear(jax, key, rows, cols):
    bound = rows ** -0.5
    return {"w": jax.random.uniform(key, (rows, cols), minval=-bound, maxval=bound),
            "b": jax.random.uniform(key, (cols,), minval=-bound, maxval=bound)}


def jax_lenet(jax, key, batch):
    np = jax.numpy
    p = {"c1": jax.random.uniform(key, (6, 1, 5, 5), minval=-0.2, maxval=0.2), "b1": np.zeros((6, 1, 1)),
         "c2": jax.random.uniform(key, (16, 6, 5, 5), minval=-0.08, maxval=0.08), "b2": np.zeros((16, 1, 1))}
    for name, rows, cols in (("f1", 256, 120), ("f2", 120, 84), ("f3", 84, 10)):
        p[name] = jax_linear(jax, key, rows, cols)

    def loss(p, x, y):
        for conv, bias in (("c1", "b1"), ("c2", "b2")):
            x = jax.nn.relu(jax.lax.conv(x, p[conv], (1, 1), "VALID") + p[bias])
            x = jax.lax.reduce_window(x, -math.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        x = x.reshape(batch, -1)
        for name in ("f1", "f2", "f3"):
            x = x @ p[name]["w"] + p[name]["b"]
            x = jax.nn.relu(x) if name != "f3" else x
        return -np.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    return p, loss


def jax_mlp200(jax, key, batch):
    """The members' losses add up: the gradient of each is of its own parameters."""
    p = [jax.vmap(lambda k, r=rows, c=cols: jax_linear(jax, k, r, c))(jax.random.split(key, MEMBERS))
         for rows, cols in zip(WIDTHS, WIDTHS[1:])]

    def of_one(p, x, y):
        for layer in p[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        h = jax.nn.log_softmax(x @ p[-1]["w"] + p[-1]["b"])
        return -jax.numpy.take_along_axis(h, y[:, None], 1).mean()

    return p, lambda p, x, y: jax.vmap(of_one, (0, None, None))(p, x, y).sum()


def jax_swishnet(jax, key, batch):
    p = [jax_linear(jax, key, SWISH_WIDTH, SWISH_WIDTH) for _ in range(SWISH_LAYERS)]

    def loss(p, x, y):
        for layer in p:
            x = jax.nn.silu(x @ layer["w"] + layer["b"])
        return ((x - y) ** 2).mean()

    return p, loss


def jax_gpt(jax, key, batch):
    np, (layers, width, heads, context, vocabulary) = jax.numpy, GPT
    norm = {"g": np.ones(width), "b": np.zeros(width)}
    p = {"tokens": 0.02 * jax.random.normal(key, (vocabulary, width)), "norm": norm,
         "places": 0.02 * jax.random.normal(key, (context, width)),
         "blocks": [{"norm1": norm, "qkv": jax_linear(jax, key, width, 3 * width), "out": jax_linear(jax, key, width, width),
                     "norm2": norm, "up": jax_linear(jax, key, width, 4 * width),
                     "down": jax_linear(jax, key, 4 * width, width)} for _ in range(layers)]}

    def normal(n, x):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * n["g"] + n["b"]

    def linear(layer, x):
        return x @ layer["w"] + layer["b"]

    def loss(p, x, y):
        x = p["tokens"][x] + p["places"]
        for b in p["blocks"]:
            q, k, v = (t.reshape(batch, context, heads, -1)
                       for t in np.split(linear(b["qkv"], normal(b["norm1"], x)), 3, -1))
            a = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            x = x + linear(b["out"], a.reshape(batch, context, width))
            x = x + linear(b["down"], jax.nn.gelu(linear(b["up"], normal(b["norm2"], x)), approximate=False))
        logits = jax.nn.log_softmax(normal(p["norm"], x) @ p["tokens"].T)
        return -np.take_along_axis(logits, y[..., None], -1).mean()

    return jax.tree.map(np.array, p), loss


def jax_mbconv(jax, key, batch):
    """Parameters, and the loss with the running statistics that batch norms leave."""
    np, silu, drawn = jax.numpy, jax.nn.silu, iter(jax.random.split(key, 256))
    p, state = {}, {}

    def conv_new(name, kernel, inside, out, groups=1, bias=False):
        bound = (kernel * kernel * inside // groups) ** -0.5
        shape = (kernel, kernel, inside // groups, out)
        p[name] = {"w": jax.random.uniform(next(drawn), shape, minval=-bound, maxval=bound)}
        if bias:
            p[name]["b"] = np.zeros(out)
        else:
            p[name].update(g=np.ones(out), b=np.zeros(out))
            state[name] = {"mean": np.zeros(out), "var": np.ones(out)}

    blocks, inside = [], 32
    conv_new("stem", 3, 3, inside)
    for expand, out, n, first, kernel in MBCONV:
        for k in range(n):
            name, wide, few, stride = f"block{len(blocks) + 1}", inside * expand, max(1, inside // 4), first if k == 0 else 1
            if expand > 1:
                conv_new(name + "expand", 1, inside, wide)
            conv_new(name + "depth", kernel, wide, wide, wide)
            conv_new(name + "reduce", 1, wide, few, bias=True)
            conv_new(name + "excite", 1, few, wide, bias=True)
            conv_new(name + "project", 1, wide, out)
            blocks.append((name, expand > 1, stride, wide, stride == 1 and inside == out))
            inside = out
    conv_new("head", 1, inside, 1280)
    p["classes"] = jax_linear(jax, key, 1280, 10)

    def loss(p, state, x, y):
        after = {}

        def conv(name, x, stride=1, groups=1):
            half = p[name]["w"].shape[0] // 2
            return jax.lax.conv_general_dilated(x, p[name]["w"], (stride, stride), [(half, half)] * 2,
                                                dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)

        def norm(name, x):
            mean, var, old = x.mean((0, 1, 2)), x.var((0, 1, 2)), state[name]
            n = x.size / x.shape[-1]
            after[name] = {"mean": 0.9 * old["mean"] + 0.1 * mean, "var": 0.9 * old["var"] + 0.1 * var * n / (n - 1)}
            return (x - mean) * jax.lax.rsqrt(var + 1e-3) * p[name]["g"] + p[name]["b"]

        x = silu(norm("stem", conv("stem", x, 2)))
        for name, expands, stride, wide, adds in blocks:
            z = silu(norm(name + "expand", conv(name + "expand", x))) if expands else x
            z = silu(norm(name + "depth", conv(name + "depth", z, stride, wide)))
            few = silu(conv(name + "reduce", z.mean((1, 2), keepdims=True)) + p[name + "reduce"]["b"])
            z = z * jax.nn.sigmoid(conv(name + "excite", few) + p[name + "excite"]["b"])
            z = norm(name + "project", conv(name + "project", z))
            x = x + z if adds else z
        x = silu(norm("head", conv("head", x))).mean((1, 2))
        logits = jax.nn.log_softmax(x @ p["classes"]["w"] + p["classes"]["b"])
        return -np.take_along_axis(logits, y[:, None], 1).mean(), after

    return p, loss, state


def jax_batches(jax, model, batch):
    np, key = jax.numpy, jax.random.key(1)
    if model == "swishnet":
        x = jax.random.normal(key, (2, batch, SWISH_WIDTH))
    elif model == "mlp200":
        x = jax.random.uniform(key, (batch, WIDTHS[0]), minval=-1, maxval=1), jax.random.randint(key, (batch,), 0, 10)
    elif model == "gpt":
        x = jax.random.randint(key, (2, batch, GPT[3]), 0, GPT[4])
    elif model == "mbconv":
        x = jax.random.normal(key, (batch, 64, 64, 3)), jax.random.randint(key, (batch,), 0, 10)
    if not model.startswith("lenet5"):
        while True:
            yield x[0], x[1]
    import numpy
    images = IMAGES if model == "lenet5x5" else 100 * batch
    pixels = numpy.random.rand(images, 1, 28, 28).astype(numpy.float32)
    labels = numpy.random.randint(0, 10, images)
    while True:
        order = numpy.random.permutation(images)
        for i in range(images // batch):
            at = order[i * batch : (i + 1) * batch]
            yield np.asarray(pixels[at]), np.asarray(labels[at])


def jax_step(model, way, threads, batch):
    if threads == 1:  # the pool of XLA has as many threads as the process may use
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    import jax
    np, tree = jax.numpy, jax.tree
    jax.config.update("jax_platforms", "cpu")
    decay = 0.1 if model == "gpt" else 0.0

    def make():
        build = {"mlp200": jax_mlp200, "swishnet": jax_swishnet, "gpt": jax_gpt, "mbconv": jax_mbconv}.get(model, jax_lenet)
        p, plain, *running = build(jax, jax.random.key(2), batch)
        running = running[0] if running else {}
        loss_of = plain if running else lambda p, running, x, y: (plain(p, x, y), running)

        def sgd(state, x, y):
            (loss, _), g = jax.value_and_grad(loss_of, has_aux=True)(state, {}, x, y)
            return tree.map(lambda a, b: a - 0.1 * b, state, g), loss

        def adam(state, x, y):
            p, m, v, t, running = state
            (loss, running), g = jax.value_and_grad(loss_of, has_aux=True)(p, running, x, y)
            t = t + 1
            m = tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
            v = tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
            c1, c2 = 1 - 0.9 ** t, 1 - 0.999 ** t
            p = tree.map(lambda a, b, c: a * (1 - RATE * decay) - RATE * (b / c1) / (np.sqrt(c / c2) + ADAM_EPS), p, m, v)
            return (p, m, v, t, running), loss

        run = jax.jit(sgd if model == "swishnet" else adam, donate_argnums=0)

        def of_one():
            fresh = tree.map(np.array, p)
            state = [fresh if model == "swishnet" else
                     (fresh, tree.map(np.zeros_like, p), tree.map(np.zeros_like, p), np.zeros(()),
                      tree.map(np.array, running))]
            batches = jax_batches(jax, model, batch)

            def step():
                state[0], loss = run(state[0], *next(batches))
                return float(loss)

            return step

        if model != "lenet5x5":
            return of_one()
        steps = [of_one() for _ in range(LENETS)]
        return lambda: sum(step() for step in steps for _ in range(RUNS))

    return make, jax.__version__


def main():
    model, way, threads, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    make, version = (jax_step if way == "jax" else torch_step)(model, way, threads, batch)
    start = time.perf_counter_ns()
    step = make()
    step()
    between = time.perf_counter_ns()
    step()
    print(json.dumps({"first_ns": between - start, "second_ns": time.perf_counter_ns() - between, "version": version}),
          flush=True)
    for line in sys.stdin:
        _, warm, count = line.split()
        ns = []
        for i in range(-int(warm), int(count)):
            start = time.perf_counter_ns()
            loss = step()
            if i >= 0:
                ns.append(time.perf_counter_ns() - start)
        assert math.isfinite(loss), "the loss must be a number"
        print(json.dumps({"ns": ns}), flush=True)


if __name__ == "__main__":
    main()
