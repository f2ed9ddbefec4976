#!/usr/bin/env python3
"""One network of `stepwell bench device` in PyTorch, or what the card can do; one JSON object on standard output.

usage: device_torch.py CASE MODE [--device cuda] [--steps 50] [--warmup 5] [--share 1] [--tf32] [--bf16]
                       [--copy-bytes 1073741824] [--side 8192]

CASE  card, or a network: mlp4096, mlp256, lenet5, mbconv128, mbconv16, gpt124m
MODE  eager; compile (torch.compile, default mode); graph (a whole step captured by torch.cuda.graph, after its own
      warm-up on a side stream). Of card only eager.

--bf16 is automatic mixed precision (torch.autocast), with parameters in float32. Networks of convolutions have
channels last. Steps are what stepwell's are: the batch comes from pinned host memory in each of them, bytes as bytes; forward, loss,
backward, a fused update, gradients set to none before. Times are of device events, one pair around each step; "in a
loop" is the clock's time of a step where none is waited for. first_step_ns: the clock's time of the first step, in
which a network is compiled; what TORCHINDUCTOR_CACHE_DIR holds is not compiled again. peak_bytes: the allocator's most, of a step after the
warm-up; card_bytes: what the card's free memory fell by since the process had its context.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "torch"))

nn = torch.nn


class Swishnet(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.silu(layer(x))
        return x


class Pixels(nn.Module):
    """Bytes as numbers of 0 to 1, then the network."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.to(torch.float32, memory_format=torch.channels_last) * (1 / 255))


def pixels(net):
    return Pixels(net).to(memory_format=torch.channels_last)


def mbconv():
    from mbconv_net import Net
    net = Net(3, 224, 1.0, 1.0)
    net.classes = nn.Linear(net.classes.in_features, 1000)
    return pixels(net)


def lenet5():
    from speed_peer import torch_lenet
    return pixels(torch_lenet(torch))


def gpt():
    from gpt_net import Net
    return Net(12, 768, 12, 1024, 50257)


def cross_entropy(out, y):
    return nn.functional.cross_entropy(out.flatten(0, -2), y.long().flatten())


def vectors(width):
    return lambda n: (torch.rand(n, width) * 2 - 1, torch.rand(n, width) * 2 - 1)


def images(channels, side, classes):
    return lambda n: (torch.randint(0, 256, (n, channels, side, side), dtype=torch.uint8),
                      torch.randint(0, classes, (n,), dtype=torch.int32 if classes > 256 else torch.uint8))


def ids(context, classes):
    return lambda n: tuple(torch.randint(0, classes, (n, context), dtype=torch.int32) for _ in range(2))


def sgd(momentum):
    return lambda p, extra: torch.optim.SGD(p, lr=0.01, momentum=momentum, fused=extra)


def adam(p, extra):
    return torch.optim.Adam(p, lr=0.001, fused=extra)


def adamw(p, extra):
    return torch.optim.AdamW(p, lr=0.002, weight_decay=0.01, fused=extra)


# As tools/bench/device_nets.c: batch, network, loss, batch maker, optimizer.
CASES = {
    "mlp4096": (512, lambda: Swishnet(8, 4096), nn.functional.mse_loss, vectors(4096), sgd(0)),
    "mlp256": (64, lambda: Swishnet(8, 256), nn.functional.mse_loss, vectors(256), adam),
    "lenet5": (128, lenet5, cross_entropy, images(1, 28, 10), adam),
    "mbconv128": (128, mbconv, cross_entropy, images(3, 224, 1000), sgd(0.9)),
    "mbconv16": (16, mbconv, cross_entropy, images(3, 224, 1000), sgd(0.9)),
    "gpt124m": (8, gpt, cross_entropy, ids(1024, 50257), adamw),
}


class Timer:
    """Device events, or the clock where there is no card."""

    def __init__(self, on_card):
        self.on_card = on_card

    def measure(self, work):
        if not self.on_card:
            start = time.perf_counter_ns()
            work()
            return time.perf_counter_ns() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        return int(begin.elapsed_time(end) * 1e6)


def summary(times):
    ordered = sorted(times)
    return {"n": len(ordered), "min_ns": ordered[0], "median_ns": int(statistics.median(ordered)),
            "p99_ns": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], "max_ns": ordered[-1]}


def card(args):
    n, side, device = args.copy_bytes // 4, args.side, args.device
    x, y = torch.rand(n, device=device), torch.rand(n, device=device)
    a, b, c = (torch.rand(side, side, device=device) for _ in range(3))
    timer = Timer(device != "cpu")
    works = {
        "copy": (lambda: y.copy_(x), 8 * n, 0),
        "product": (lambda: torch.mm(a, b, out=c), 0, 2 * side ** 3),
        "swish": (lambda: torch.ops.aten.silu.out(x, out=y), 8 * n, 0),
        "swish_backward": (lambda: torch.ops.aten.silu_backward.grad_input(y, x, grad_input=y), 12 * n, 0),
    }
    found = {}
    for name, (work, moved, operations) in works.items():
        for _ in range(args.warmup):
            work()
        times = summary([timer.measure(work) for _ in range(args.steps)])
        found[name] = {"time": times, "gigabytes_per_second": moved / times["median_ns"],
                       "teraflops": operations / times["median_ns"] / 1e3}
    return found


class Step:
    def __init__(self, args):
        batch, make, loss, data, optimizer = CASES[args.case]
        self.on_card = args.device != "cpu"
        self.batch = max(1, batch // args.share)
        self.net = net = make().to(args.device)
        self.forward = lambda x, y: loss(net(x), y)
        self.host = data(self.batch)
        if self.on_card:
            self.host = tuple(t.pin_memory() for t in self.host)
        self.x, self.y = (torch.empty_like(t, device=args.device) for t in self.host)
        self.optimizer = optimizer(self.net.parameters(), self.on_card)
        self.loss = None
        self.cast = lambda: torch.autocast(args.device, torch.bfloat16, enabled=args.bf16)
        if args.mode == "graph" and hasattr(self.optimizer, "defaults"):
            for group in self.optimizer.param_groups:
                if "capturable" in group:
                    group["capturable"] = True

    def compute(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.cast():
            self.loss = self.forward(self.x, self.y)
        self.loss.backward()
        self.optimizer.step()

    def copy(self):
        self.x.copy_(self.host[0], non_blocking=True)
        self.y.copy_(self.host[1], non_blocking=True)

    def run(self):
        self.copy()
        self.compute()


def captured(step):
    """The step's work as a graph; the batch is copied before each replay."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    step.copy()
    with torch.cuda.stream(side):
        for _ in range(3):
            step.compute()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    step.optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step.compute()
    return graph.replay


def network(args):
    free = torch.cuda.mem_get_info()[0] if args.device != "cpu" else 0
    step = Step(args)
    if args.mode == "compile":
        step.forward = torch.compile(step.forward)
    elif args.mode == "graph":
        step.compute = captured(step)
    timer = Timer(step.on_card)
    start = time.perf_counter_ns()
    step.run()
    if step.on_card:
        torch.cuda.synchronize()
    first = time.perf_counter_ns() - start
    for _ in range(args.warmup - 1):
        step.run()
    if step.on_card:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    times = summary([timer.measure(step.run) for _ in range(args.steps)])
    start = time.perf_counter_ns()
    for _ in range(args.steps):
        step.run()
    loss = float(step.loss.detach())
    loop = (time.perf_counter_ns() - start) // args.steps
    peak = torch.cuda.max_memory_allocated() if step.on_card else None
    if args.mode == "graph":  # a replay allocates nothing: the graph's pool is there all the time
        peak = torch.cuda.memory_reserved()
    return {"batch": step.batch, "step": times, "in_a_loop_ns": loop, "peak_bytes": peak,
            "card_bytes": free - torch.cuda.mem_get_info()[0] if step.on_card else None, "first_step_ns": first,
            "loss": loss}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("case", choices=["card", *CASES])
    parser.add_argument("mode", choices=["eager", "compile", "graph"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--copy-bytes", type=int, default=1 << 30)
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    if args.mode == "graph" and args.device == "cpu":
        parser.error("graphs are for a card")
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
    found = card(args) if args.case == "card" else network(args)
    version = torch.version.cuda if args.device != "cpu" else None
    print(json.dumps({"case": args.case, "mode": args.mode, "torch": torch.__version__, "cuda": version,
                      "found": found}))


if __name__ == "__main__":
    main()
