#!/usr/bin/env python3
"""Nets with layer norm, RMS norm, group norm and batch norm against PyTorch: outputs, gradients, ten Adam steps, running
statistics, and outputs in evaluation after them.

usage: compare_norm.py NORM_PEER

Agreement: 1e-4 relative by norm per tensor, with a floor of 1e-3 of the norm of all tensors together. Images in batches
of 100 lie in blocks of sixteen, the last not full; in batches of 20 they are plain. Exit status 77 (skipped) where
PyTorch, NumPy or safetensors is missing.
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

STEPS, HIDDEN, BOUND, FLOOR = 10, 100, 1e-4, 1e-3


class Net(torch.nn.Module):
    """The same network, with the same names."""

    def __init__(self, kind):
        super().__init__()
        nn = torch.nn
        self.images = kind in ("group", "batch")
        if self.images:
            self.conv0 = nn.Conv2d(1, 8, 5, bias=False)
            self.conv1 = nn.Conv2d(8, 12, 5, bias=False)
        else:
            self.fc0 = nn.Linear(784, HIDDEN)
            self.fc1 = nn.Linear(HIDDEN, HIDDEN)
        make = {
            "layer": lambda size: nn.LayerNorm(size),
            "rms": lambda size: nn.RMSNorm(size),
            "group": lambda size: nn.GroupNorm(4, size),
            "batch": lambda size: nn.BatchNorm2d(size),
        }[kind]
        self.norm0 = make(8 if self.images else HIDDEN)
        self.norm1 = make(12 if self.images else HIDDEN)
        self.fc2 = nn.Linear(192 if self.images else HIDDEN, 10)

    def forward(self, x):
        silu, pool = torch.nn.functional.silu, torch.nn.functional.max_pool2d
        if self.images:
            x = pool(silu(self.norm0(self.conv0(x))), 2)
            x = pool(silu(self.norm1(self.conv1(x))), 2).flatten(1)
        else:
            x = silu(self.norm0(self.fc0(x.flatten(1))))
            x = silu(self.norm1(self.fc1(x)))
        return self.fc2(x)


def worst(ours, theirs):
    """The largest disagreement: |a - b| / max(|b|, FLOOR * |all b|), and whose it is."""
    total = sum(float(t.double().norm()) ** 2 for t in theirs.values()) ** 0.5
    found = (0.0, "")
    for name, reference in theirs.items():
        difference = float((ours[name].double() - reference.double()).norm())
        found = max(found, (difference / max(float(reference.double().norm()), FLOOR * total), name))
    return found


def compare(peer, kind, batch):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, kind, str(batch), folder], check=True)
        net = Net(kind)
        missing = net.load_state_dict(load_file(os.path.join(folder, "init.safetensors")), strict=False)
        assert not missing.unexpected_keys, missing
        assert all(key.endswith("num_batches_tracked") for key in missing.missing_keys), missing
        raw = np.fromfile(os.path.join(folder, "batches.bin"), dtype=np.uint8).reshape(STEPS, batch * 785)
        flat = torch.from_numpy(np.fromfile(os.path.join(folder, "grads.bin"), dtype=np.float32))
        outputs = torch.from_numpy(np.fromfile(os.path.join(folder, "outputs.bin"), dtype=np.float32))
        after = load_file(os.path.join(folder, "after.safetensors"))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    theirs = []
    for step in range(STEPS):
        images = torch.from_numpy(raw[step, : batch * 784].reshape(batch, 1, 28, 28).astype(np.float32)) / 255
        labels = torch.from_numpy(raw[step, batch * 784 :].astype(np.int64))
        optimizer.zero_grad()
        logits = net(images)
        torch.nn.functional.cross_entropy(logits, labels).backward()
        if step == 0:
            theirs.append(logits.detach())
            ours, at, given = {}, 0, dict(net.named_parameters())
            for key in order(given):
                ours[key] = flat[at : at + given[key].numel()].reshape(given[key].shape)
                at += given[key].numel()
            assert at == flat.numel(), f"{kind}: {flat.numel()} gradient elements, PyTorch has {at}"
            gradients = worst(ours, {k: p.grad for k, p in given.items()})
        optimizer.step()
    net.eval()
    with torch.no_grad():
        theirs.append(net(images))
    names = ("training", "evaluation")
    found = {
        "outputs": worst(dict(zip(names, outputs.reshape(2, batch, 10))), dict(zip(names, theirs))),
        "gradients": gradients,
        f"after {STEPS} Adam steps": worst(after, {k: t for k, t in net.state_dict().items() if k in after}),
    }
    assert len(after) == sum(not k.endswith("num_batches_tracked") for k in net.state_dict())
    print(f"{kind}, batch {batch}: " + ", ".join(f"{k} {e:.2e} ({n})" for k, (e, n) in found.items()) +
          f"; bound {BOUND:.0e}")
    return all(e <= BOUND for e, _ in found.values())


def order(given):
    """Declared in the order of the layers: convolutions, linear layers, norms, the last linear layer."""
    first = [k for k in given if k.startswith(("conv", "fc0", "fc1"))]
    norms = [k for k in given if k.startswith("norm")]
    return first + norms + [k for k in given if k.startswith("fc2")]


if __name__ == "__main__":
    torch.manual_seed(0)
    runs = [("layer", 100), ("rms", 100), ("group", 100), ("group", 20), ("batch", 100), ("batch", 20)]
    results = [compare(sys.argv[1], kind, batch) for kind, batch in runs]
    sys.exit(0 if all(results) else 1)
