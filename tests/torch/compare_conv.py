#!/usr/bin/env python3
"""Convolutions with groups, dilation and strides, and channel_scale: results and gradients against PyTorch.

usage: compare_conv.py CONV_PEER

Agreement: 1e-5 relative by norm for each tensor (float32 on both sides). Exit status 77 (skipped) where PyTorch,
NumPy or safetensors is missing.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from safetensors import safe_open
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BOUND = 1e-5


def error(ours, theirs):
    theirs = theirs.detach().double().flatten()
    assert ours.numel() == theirs.numel(), f"{ours.numel()} elements, PyTorch has {theirs.numel()}"
    return float((ours.double() - theirs).norm() / theirs.norm())


def main(peer):
    cases = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, folder], check=True)
        with safe_open(os.path.join(folder, "init.safetensors"), framework="pt") as file:
            for name in file.keys():
                kind, number, *options, part = name.split(".")
                case = cases.setdefault(int(number), {"kind": kind, "options": [int(o) for o in options]})
                case[part] = file.get_tensor(name).requires_grad_()
        outputs = torch.from_numpy(np.fromfile(os.path.join(folder, "outputs.bin"), dtype=np.float32))
        grads = torch.from_numpy(np.fromfile(os.path.join(folder, "grads.bin"), dtype=np.float32))
    worst, at, grad_at = (0.0, ""), 0, 0
    for number in sorted(cases):
        case = cases[number]
        if case["kind"] == "conv":
            y = torch.nn.functional.conv2d(case["x"], case["w"], case["b"], *case["options"])
        else:
            y = case["x"] * case["s"]
        (y * y).sum().backward()
        worst = max(worst, (error(outputs[at : at + y.numel()], y), f"y of case {number}"))
        at += y.numel()
        for part in ("x", "w", "b") if case["kind"] == "conv" else ("x", "s"):
            g = case[part].grad
            found = error(grads[grad_at : grad_at + g.numel()], g)
            worst = max(worst, (found, f"d{part} of case {number}"))
            grad_at += g.numel()
    assert at == outputs.numel() and grad_at == grads.numel()
    print(f"{len(cases)} cases: {worst[0]:.2e} ({worst[1]}); bound {BOUND:.0e}")
    return worst[0] <= BOUND


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(0 if main(sys.argv[1]) else 1)
