#!/usr/bin/env python3
"""swishnet in PyTorch: the peer of swish.py, which starts it; one JSON object on standard output.

usage: swish_torch.py BATCH WIDTH LAYERS ACTIVATION GRADIENTS THREADS STEPS WHAT

ACTIVATION  naive (x * sigmoid(x)) or silu (nn.SiLU)
GRADIENTS   none (set to none before forward) or kept (until right before backward, as a loop has it that
            calls zero_grad there)
WHAT        bytes: live bytes at the end of each phase and at their most inside it, for each step. Every
            storage that an op makes is watched through a weak reference, from the first op on; what a kernel
            takes inside itself is not seen.
            times: nanoseconds of each step, nothing watched.
"""
import json
import sys
import time

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten


class Watch(TorchDispatchMode):
    """Bytes of all storages that live; `peak` is the most since it was last set."""

    def __init__(self):
        super().__init__()
        self.known = {}
        self.peak = 0

    def add(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.known or self.known[key][0].expired():
            self.known[key] = (StorageWeakRef(storage), storage.nbytes())

    def live(self):
        self.known = {key: (ref, n) for key, (ref, n) in self.known.items() if not ref.expired()}
        return sum(n for _, n in self.known.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for value in tree_flatten(out)[0]:
            if isinstance(value, torch.Tensor):
                self.add(value)
        self.peak = max(self.peak, self.live())
        return out


class Naive(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


class Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def main():
    batch, width, layers = (int(x) for x in sys.argv[1:4])
    activation, gradients = sys.argv[4:6]
    threads, steps = (int(x) for x in sys.argv[6:8])
    watched = sys.argv[8] == "bytes"
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), Naive() if activation == "naive" else torch.nn.SiLU()]
    net = torch.nn.Sequential(*parts)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, fused=True)
    x, target = torch.randn(batch, width), torch.randn(batch, width)
    watch = Watch()
    for tensor in list(net.parameters()) + [x, target]:
        watch.add(tensor)
    found = {"torch": torch.__version__, "blas": "mkl" if torch.backends.mkl.is_available() else "other",
             "steps": [], "ns": []}
    for _ in range(steps):
        phases = {}

        def phase(name, run):
            watch.peak = watch.live() if watched else 0
            value = run()
            if watched:
                phases[name] = {"peak_bytes": watch.peak, "end_bytes": watch.live()}
            return value

        def backward(loss):
            if gradients == "kept":
                optimizer.zero_grad(set_to_none=True)
            loss.backward()

        with watch if watched else Nothing():
            start = time.perf_counter_ns()
            if gradients == "none":
                optimizer.zero_grad(set_to_none=True)
            phase("data", lambda: None)
            y = phase("forward", lambda: net(x))
            loss = phase("loss", lambda: torch.nn.functional.mse_loss(y, target))
            y = None  # the loss's graph holds what backward needs
            phase("backward", lambda: backward(loss))
            loss = None
            phase("step", optimizer.step)
            found["ns"].append(time.perf_counter_ns() - start)
        found["steps"].append(phases)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
