#!/usr/bin/env python3
"""Ten steps of every optimizer of stepwell against PyTorch's: same parameters, same batches.

usage: compare_optim.py OPTIM_PEER

The net has a convolution, two linear layers and their biases, of odd sizes. Compared is how far the parameters have
moved from where they began: 1e-4 relative by norm per tensor, with a floor of 1e-3 of the norm of all tensors together. Lion,
which PyTorch does not have, is written out here in float64; its rates are such that no sum of gradients is so near 0 that
rounding turns its sign. Exit status 77 (skipped) where PyTorch, NumPy or safetensors
is missing.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BATCH, SIDE, CHANNELS, HIDDEN, OUT, STEPS, BOUND, FLOOR = 23, 9, 5, 37, 11, 10, 1e-4, 1e-3


class Net(torch.nn.Module):
    """The same network, with the same names."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, CHANNELS, 3)
        self.fc1 = torch.nn.Linear(CHANNELS * 49, HIDDEN)
        self.fc2 = torch.nn.Linear(HIDDEN, OUT)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(torch.tanh(self.conv(x)).flatten(1))))


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, plainly."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p -= lr * (torch.sign(b1 * m + (1 - b1) * p.grad) + group["weight_decay"] * p)
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


# Kind, options of the peer, class, options of the class.
CASES = [
    ("sgd", {"lr": 0.1}, "SGD", {}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "decay": 0.01}, "SGD", {"momentum": 0.9}),
    ("sgd", {"lr": 0.05, "momentum": 0.8, "nesterov": 1, "group": 1, "decay": 0.1}, "SGD",
     {"momentum": 0.8, "nesterov": True}),
    ("adam", {"lr": 0.01, "decay": 0.01}, "Adam", {}),
    ("adamw", {"lr": 0.01, "decay": 0.1, "group": 1}, "AdamW", {}),
    ("rmsprop", {"lr": 0.003}, "RMSprop", {}),
    ("rmsprop", {"lr": 0.01, "momentum": 0.9, "alpha": 0.9, "decay": 0.01, "epsilon": 1e-4, "group": 1}, "RMSprop",
     {"momentum": 0.9, "alpha": 0.9, "eps": 1e-4}),
    ("rmsprop", {"lr": 0.01, "centered": 1, "epsilon": 1e-3}, "RMSprop", {"centered": True, "eps": 1e-3}),
    ("rmsprop", {"lr": 0.01, "centered": 1, "momentum": 0.5, "epsilon": 1e-3}, "RMSprop",
     {"centered": True, "momentum": 0.5, "eps": 1e-3}),
    ("adagrad", {"lr": 0.05}, "Adagrad", {}),
    ("adagrad", {"lr": 0.05, "accumulator": 0.1, "epsilon": 1e-3, "decay": 0.01, "group": 1}, "Adagrad",
     {"initial_accumulator_value": 0.1, "eps": 1e-3}),
    ("lion", {"lr": 0.001, "decay": 0.2}, "Lion", {}),
    ("lion", {"lr": 0.001, "beta1": 0.5, "beta2": 0.75, "group": 1}, "Lion", {"betas": (0.5, 0.75)}),
    ("adafactor", {"lr": 0.01}, "Adafactor", {}),
    ("adafactor", {"lr": 0.3, "decay": 0.1, "group": 1}, "Adafactor", {}),
]


def make(net, options, name, theirs):
    """PyTorch's optimizer with what the peer was given."""
    kind = Lion if name == "Lion" else getattr(torch.optim, name, None)
    if kind is None:
        return None
    lr, decay = options["lr"], options.get("decay", 0.0)
    if not options.get("group"):
        return kind(net.parameters(), lr=lr, weight_decay=decay, **theirs)
    named = list(net.named_parameters())
    groups = [{"params": [p for k, p in named if k.endswith("weight")], "weight_decay": decay},
              {"params": [p for k, p in named if k.endswith("bias")], "lr": lr / 10, "weight_decay": 0.0}]
    return kind(groups, lr=lr, **theirs)


def worst(ours, theirs, begin):
    moved = {k: theirs[k].detach().double() - begin[k].double() for k in theirs}
    total = sum(float(m.norm()) ** 2 for m in moved.values()) ** 0.5
    assert total > 0
    return max((float((ours[k].double() - begin[k].double() - m).norm()) / max(float(m.norm()), FLOOR * total), k)
               for k, m in moved.items())


def compare(peer, kind, options, name, theirs):
    with tempfile.TemporaryDirectory() as folder:
        words = [f"{k}={v}" for k, v in options.items()]
        subprocess.run([peer, folder, kind] + words, check=True)
        begin = load_file(os.path.join(folder, "init.safetensors"))
        after = load_file(os.path.join(folder, "after.safetensors"))
        flat = np.fromfile(os.path.join(folder, "batches.bin"), dtype=np.float32).reshape(STEPS, -1)
    net = Net().double() if name == "Lion" else Net()
    net.load_state_dict(begin)
    optimizer = make(net, options, name, theirs)
    if optimizer is None:
        print(f"{kind} {' '.join(words)}: this PyTorch has none")
        return True
    dtype = next(net.parameters()).dtype
    for row in flat:
        x = torch.from_numpy(row[: BATCH * SIDE * SIDE]).reshape(BATCH, 1, SIDE, SIDE).to(dtype)
        t = torch.from_numpy(row[BATCH * SIDE * SIDE :]).reshape(BATCH, OUT).to(dtype)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), t).backward()
        optimizer.step()
    error, where = worst(after, dict(net.named_parameters()), begin)
    print(f"{kind} {' '.join(words)}: {error:.2e} ({where}); bound {BOUND:.0e}")
    return error <= BOUND


if __name__ == "__main__":
    results = [compare(sys.argv[1], *case) for case in CASES]
    sys.exit(0 if all(results) else 1)
