#!/usr/bin/env python3
"""LeNet5, batch 128, Adam, whole steps with the loader: stepwell and PyTorch interleaved in one run.

usage: speed.py TORCH_PEER [THREADS] [ROUNDS]

PyTorch runs eager with the settings that were fastest for it here: float32 NCHW, fused Adam,
zero_grad(set_to_none=True), a data set that is in memory already as float32 and is indexed by a shuffled
permutation (no loader processes: they cost more than they give), inference of shapes by oneDNN.
"""
import statistics
import subprocess
import sys

import torch

CHUNK = 50


def torch_loop():
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84),
                        nn.ReLU(), nn.Linear(84, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    images = torch.rand(100 * 128, 1, 28, 28)
    labels = torch.randint(0, 10, (100 * 128,))
    order = torch.randperm(len(labels))

    def step(i):
        at = order[(i % 100) * 128 : (i % 100 + 1) * 128]
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(images[at]), labels[at])
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main():
    import time

    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    torch.set_num_threads(threads)
    peer = subprocess.Popen([sys.argv[1], "speed", str(threads)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    step = torch_loop()
    ours, theirs = [], []
    for turn in range(rounds + 1):
        peer.stdin.write(f"{CHUNK}\n")
        peer.stdin.flush()
        mine = [int(x) for x in peer.stdout.readline().split()]
        yours = []
        for i in range(CHUNK):
            start = time.perf_counter_ns()
            step(turn * CHUNK + i)
            yours.append(time.perf_counter_ns() - start)
        if turn > 0:  # the first round warms both up
            ours += mine
            theirs += yours
    peer.stdin.close()
    peer.wait()
    print(f"PyTorch {torch.__version__}, {threads} threads, {len(ours)} steps each, interleaved by {CHUNK}")
    for name, ns in (("stepwell", ours), ("PyTorch eager", theirs)):
        print(f"{name:14} min {min(ns) / 1e6:7.3f} ms   median {statistics.median(ns) / 1e6:7.3f} ms")
    print(f"ratio          min {min(theirs) / min(ours):7.2f}      median "
          f"{statistics.median(theirs) / statistics.median(ours):7.2f}")


if __name__ == "__main__":
    main()
