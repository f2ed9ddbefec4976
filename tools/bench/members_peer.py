#!/usr/bin/env python3
"""A loop over many perceptrons 49-64-24-10 in PyTorch or JAX: a peer of tests/torch/speed.py, which starts it.

usage: members_peer.py SIDE THREADS MEMBERS BATCH

SIDE    bmm        PyTorch: parameters of all stacked, products by baddbmm, backward by autograd, one fused Adam
        compile    the same with loss, gradients and Adam in one compiled function (torch.func, inductor)
        jax        vmap of the gradient of one network and Adam, jit, arguments donated

All read one batch, as the members do. The first line on standard output is a JSON object: the time of the first loop
of new networks (made, traced and compiled, without imports), of the second, and the version. Then each line NAME
WARM COUNT is answered by {"ns": [...]}: WARM loops, then COUNT that are timed. Between two lines the process sleeps.
"""
import json
import os
import sys
import time

SIDE, THREADS, MEMBERS, BATCH = sys.argv[1], *(int(word) for word in sys.argv[2:5])
WIDTHS = (49, 64, 24, 10)
LR = 1e-3


def torch_batch():
    import torch
    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    return torch, torch.rand(BATCH, WIDTHS[0]) * 2 - 1, torch.randint(0, WIDTHS[-1], (BATCH,))


def stacked(torch):
    """Weights (members, in, out) and biases (members, 1, out), as a linear layer would start."""
    found = []
    for rows, cols in zip(WIDTHS, WIDTHS[1:]):
        bound = rows ** -0.5
        found += [torch.empty(MEMBERS, rows, cols).uniform_(-bound, bound),
                  torch.empty(MEMBERS, 1, cols).uniform_(-bound, bound)]
    return found


def stacked_loss(torch, p, x, y):
    """Of all members together; x (batch, in) is read by all."""
    h = torch.baddbmm(p[1], x.expand(MEMBERS, -1, -1), p[0]).relu()
    h = torch.baddbmm(p[3], h, p[2]).relu()
    h = torch.baddbmm(p[5], h, p[4])
    return torch.nn.functional.cross_entropy(h.flatten(0, 1), y.repeat(MEMBERS), reduction="sum") / BATCH


def torch_bmm():
    torch, x, y = torch_batch()

    def make():
        p = [t.requires_grad_() for t in stacked(torch)]
        adam = torch.optim.Adam(p, lr=LR, fused=True)

        def loop():
            loss = stacked_loss(torch, p, x, y)
            adam.zero_grad(set_to_none=True)
            loss.backward()
            adam.step()
            return loss.item()
        return loop
    return make, torch.__version__


def torch_compile():
    torch, x, y = torch_batch()

    def make():
        p = stacked(torch)
        m, v, t = [torch.zeros_like(a) for a in p], [torch.zeros_like(a) for a in p], torch.zeros(())

        @torch.compile(fullgraph=True)
        def step(p, m, v, t):
            t.add_(1)
            g, loss = torch.func.grad_and_value(lambda p: stacked_loss(torch, p, x, y))(p)
            c1, c2 = 1 - 0.9 ** t, 1 - 0.999 ** t
            for i in range(len(p)):
                m[i].mul_(0.9).add_(g[i], alpha=0.1)
                v[i].mul_(0.999).addcmul_(g[i], g[i], value=0.001)
                p[i].sub_(LR * (m[i] / c1) / ((v[i] / c2).sqrt() + 1e-8))
            return loss

        def loop():
            with torch.no_grad():
                return step(p, m, v, t).item()
        return loop
    return make, torch.__version__


def jax_vmap():
    if THREADS == 1:  # the pool of XLA has as many threads as the process may use
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    import jax
    import jax.numpy as np
    jax.config.update("jax_platforms", "cpu")
    x = jax.random.uniform(jax.random.key(1), (BATCH, WIDTHS[0]), minval=-1, maxval=1)
    y = jax.random.randint(jax.random.key(2), (BATCH,), 0, WIDTHS[-1])

    def loss_of(p, x, y):
        h = jax.nn.relu(x @ p[0] + p[1])
        h = jax.nn.relu(h @ p[2] + p[3])
        h = jax.nn.log_softmax(h @ p[4] + p[5])
        return -np.take_along_axis(h, y[:, None], 1).mean()

    def one(p, m, v, t):
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        c1, c2 = 1 - 0.9 ** t, 1 - 0.999 ** t
        p = [a - LR * (b / c1) / (np.sqrt(c / c2) + 1e-8) for a, b, c in zip(p, m, v)]
        return p, m, v, loss

    def make():
        key, p = jax.random.key(3), []
        for rows, cols in zip(WIDTHS, WIDTHS[1:]):
            bound = rows ** -0.5
            p += [jax.random.uniform(key, (MEMBERS, rows, cols), minval=-bound, maxval=bound),
                  jax.random.uniform(key, (MEMBERS, 1, cols), minval=-bound, maxval=bound)]
        state = [p, [np.zeros_like(a) for a in p], [np.zeros_like(a) for a in p]]
        run = jax.jit(jax.vmap(one, in_axes=(0, 0, 0, None)), donate_argnums=(0, 1, 2))
        steps = [0]

        def loop():
            steps[0] += 1
            *state[:], loss = run(*state, float(steps[0]))
            return float(loss.sum())
        return loop
    return make, jax.__version__


def main():
    make, version = {"bmm": torch_bmm, "compile": torch_compile, "jax": jax_vmap}[SIDE]()
    start = time.perf_counter_ns()
    loop = make()
    first_loss = loop()
    between = time.perf_counter_ns()
    loop()
    end = time.perf_counter_ns()
    print(json.dumps({"first_ns": between - start, "second_ns": end - between, "version": version}), flush=True)
    for line in sys.stdin:
        _, warm, count = line.split()
        ns = []
        for i in range(-int(warm), int(count)):
            start = time.perf_counter_ns()
            loss = loop()
            if i >= 0:
                ns.append(time.perf_counter_ns() - start)
        assert loss < first_loss, "the loss must fall"
        print(json.dumps({"ns": ns}), flush=True)


if __name__ == "__main__":
    main()
