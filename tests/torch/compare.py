#!/usr/bin/env python3
"""Gradients and ten Adam steps of stepwell against PyTorch: same parameters, same batches.

usage: compare.py TORCH_PEER

Agreement: 1e-4 relative by norm per tensor, with a floor of 1e-3 of the norm of all tensors together.
Exit status 77 (skipped) where PyTorch, NumPy or safetensors is missing.
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

BATCH, STEPS, BOUND, FLOOR = 128, 10, 1e-4, 1e-3


def build(name):
    """The same network, with the same names, in PyTorch."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            if name == "lenet5":
                self.conv1 = nn.Conv2d(1, 6, 5)
                self.conv2 = nn.Conv2d(6, 16, 5)
            self.fc1 = nn.Linear(256 if name == "lenet5" else 784, 120)
            self.fc2 = nn.Linear(120, 84)
            self.fc3 = nn.Linear(84, 10)

        def forward(self, x):
            if name == "lenet5":
                x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
                x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
            x = torch.relu(self.fc1(x.flatten(1)))
            return self.fc3(torch.relu(self.fc2(x)))

    return Net()


def worst(ours, theirs):
    """The largest disagreement: |a - b| / max(|b|, FLOOR * |all b|), and whose it is."""
    total = sum(float(t.double().norm()) ** 2 for t in theirs.values()) ** 0.5
    found = (0.0, "")
    for name, reference in theirs.items():
        difference = float((ours[name].double() - reference.double()).norm())
        scale = max(float(reference.double().norm()), FLOOR * total)
        found = max(found, (difference / scale, name))
    return found


def compare(peer, name):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, "dump", name, folder], check=True)
        net = build(name)
        net.load_state_dict(load_file(os.path.join(folder, "init.safetensors")))
        raw = np.fromfile(os.path.join(folder, "batches.bin"), dtype=np.uint8).reshape(STEPS, BATCH * 785)
        flat = np.fromfile(os.path.join(folder, "grads.bin"), dtype=np.float32)
        after = load_file(os.path.join(folder, "after.safetensors"))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    gradient_error = None
    for step in range(STEPS):
        images = torch.from_numpy(raw[step, : BATCH * 784].reshape(BATCH, 1, 28, 28).astype(np.float32)) / 255
        labels = torch.from_numpy(raw[step, BATCH * 784 :].astype(np.int64))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        if step == 0:
            ours, at = {}, 0
            for key, parameter in net.named_parameters():
                ours[key] = torch.from_numpy(flat[at : at + parameter.numel()].copy()).reshape(parameter.shape)
                at += parameter.numel()
            assert at == flat.size, f"{name}: {flat.size} gradient elements, PyTorch has {at}"
            gradient_error = worst(ours, {k: p.grad for k, p in net.named_parameters()})
        optimizer.step()
    step_error = worst(after, {k: p.detach() for k, p in net.named_parameters()})
    print(f"{name}: gradients {gradient_error[0]:.2e} ({gradient_error[1]}), "
          f"after {STEPS} Adam steps {step_error[0]:.2e} ({step_error[1]}); bound {BOUND:.0e}")
    return gradient_error[0] <= BOUND and step_error[0] <= BOUND


if __name__ == "__main__":
    torch.manual_seed(0)
    results = [compare(sys.argv[1], name) for name in ("mlp", "lenet5")]
    sys.exit(0 if all(results) else 1)
