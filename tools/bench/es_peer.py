#!/usr/bin/env python3
"""Dense layers under evolution strategies in PyTorch and JAX: peers of `stepwell bench es`.

usage: es_peer.py [--sizes 256,512,1024] [--batch 1024] [--threads 2] [--runs 100] [--json]

Each row of the batch is a member with noise of its own, as in NESgpu's table; all ways take turns, and each is
divided by the plain layer of its own framework.

torch bmm        full noise of every member, stored, one batched product beside the plain layer (NESgpu's Perturbed)
torch stored     low rank 1: factors stored, y = x W^T + b + sigma (x . B) A
torch drawn      the same with factors and noise of the bias drawn by torch.randn in the step, from a generator that
                 is seeded there
torch sign-flip  one shared noise matrix and signs of inputs and outputs, stored
jax eggroll      low rank 1 as EGGROLL has it: vmap over members of a layer whose factors come from a key that is
                 folded with the member's number; members 2 k and 2 k + 1 share noise with opposite signs
torch update     the estimate of rank 1 from stored factors: (A w)^T B, one product; torch.einsum over both
"""
import argparse
import json
import os
import statistics
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--sizes", default="256,512,1024")
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--runs", type=int, default=100)
    p.add_argument("--seconds", type=float, default=60, help="after which a way has no more runs")
    p.add_argument("--json", action="store_true")
    return p.parse_args()


def torch_ways(n, batch):
    import torch
    torch.manual_seed(1)
    sigma = 0.01
    x, w, b = torch.rand(batch, n) * 2 - 1, torch.randn(n, n) / n ** 0.5, torch.randn(n)
    rows, cols, bias = torch.randn(batch, n), torch.randn(batch, n), torch.randn(batch, n)
    shared = torch.randn(n, n)
    flip_in, flip_out = torch.randn(batch, n).sign(), torch.randn(batch, n).sign()
    weights = torch.randn(batch, 1)
    generator = torch.Generator()

    def plain():
        return torch.addmm(b, x, w.t())

    def low_rank(a, c, e):
        return plain().addcmul_(a, (x * c).sum(1, keepdim=True), value=sigma).add_(e, alpha=sigma)

    def drawn():
        generator.manual_seed(7)
        return low_rank(*(torch.randn(batch, n, generator=generator) for _ in range(3)))

    def signs():
        return plain().addcmul_(flip_out, (x * flip_in) @ shared.t(), value=sigma).add_(bias, alpha=sigma)

    def estimate():
        return (rows * weights).t() @ cols, (weights * bias).sum(0)

    ways = {"torch base": plain, "torch stored": lambda: low_rank(rows, cols, bias), "torch drawn": drawn,
            "torch sign-flip": signs, "torch update": estimate}
    if 4 * batch * n * n <= 5 << 30:
        full = torch.randn(batch, n, n)
        ways["torch bmm"] = lambda: (plain() + torch.bmm(full, x.unsqueeze(2)).squeeze(2) * sigma).add_(bias, alpha=sigma)
    return ways, torch.__version__


def jax_ways(n, batch):
    import jax
    import jax.numpy as jnp
    sigma = 0.01
    key = jax.random.key(1)
    x = jax.random.uniform(key, (batch, n), minval=-1, maxval=1)
    w, b = jax.random.normal(key, (n, n)) / n ** 0.5, jax.random.normal(key, (n,))

    def member(w, b, x, t, key):
        sign = jnp.where(t % 2 == 0, sigma, -sigma)
        k = jax.random.fold_in(key, t // 2)
        factors = jax.random.normal(k, (2 * n,))
        noise = jax.random.normal(jax.random.fold_in(k, 1), (n,))
        return x @ w.T + b + sign * (jnp.dot(x, factors[:n]) * factors[n:] + noise)

    eggroll = jax.jit(jax.vmap(member, in_axes=(None, None, 0, 0, None)))
    plain = jax.jit(lambda w, b, x: x @ w.T + b)
    members = jnp.arange(batch)
    return {"jax base": lambda: plain(w, b, x).block_until_ready(),
            "jax eggroll": lambda: eggroll(w, b, x, members, key).block_until_ready()}, jax.__version__


def take_turns(ways, runs, seconds):
    """Milliseconds of each way, in turns; each round begins with another."""
    names, found, taken = list(ways), {name: [] for name in ways}, dict.fromkeys(ways, 0.0)
    for name in names:
        ways[name]()
    for turn in range(runs):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            if taken[name] > seconds:
                continue
            start = time.perf_counter()
            ways[name]()
            ms = (time.perf_counter() - start) * 1e3
            found[name].append(ms)
            taken[name] += ms / 1e3
    return found


def main():
    o = arguments()
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={o.threads}"
    os.environ.setdefault("OMP_NUM_THREADS", str(o.threads))
    import torch
    torch.set_num_threads(o.threads)
    torch.set_grad_enabled(False)
    report = {}
    for n in (int(word) for word in o.sizes.split(",")):
        ways, version = torch_ways(n, o.batch)
        try:
            more, jax_version = jax_ways(n, o.batch)
        except ImportError:
            more, jax_version = {}, "none"
        found = take_turns({**ways, **more}, o.runs, o.seconds)
        report[n] = {}
        if not o.json:
            print(f"\n{n},{n}: batch {o.batch}, {o.threads} threads, torch {version}, jax {jax_version}")
            print(f"{'':18} {'runs':>5} {'min ms':>9} {'median ms':>9} {'x min':>8} {'x median':>8}")
        for name, ms in found.items():
            base = found[name.split()[0] + " base"]
            row = {"n": len(ms), "min_ms": min(ms), "median_ms": statistics.median(ms),
                   "times_base_min": min(ms) / min(base),
                   "times_base_median": statistics.median(ms) / statistics.median(base)}
            report[n][name] = row
            if not o.json:
                print(f"{name:18} {row['n']:5} {row['min_ms']:9.3f} {row['median_ms']:9.3f} "
                      f"{row['times_base_min']:8.2f} {row['times_base_median']:8.2f}")
    if o.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
