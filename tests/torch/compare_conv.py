#!/usr/bin/env python3
"""Convolutions with groups, dilation and strides, transposed ones, channel_scale, images of another size and cumulative sums:
results and gradients against PyTorch.

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


PARTS = {"conv": "xwb", "transpose": "xwb", "scale": "xs", "resize": "x", "cumsum": "x"}


def result(case):
    functional, o = torch.nn.functional, case["options"]
    if case["kind"] == "conv":
        return functional.conv2d(case["x"], case["w"], case["b"], *o)
    if case["kind"] == "transpose":
        return functional.conv_transpose2d(case["x"], case["w"], case["b"], *o)
    if case["kind"] == "scale":
        return case["x"] * case["s"]
    if case["kind"] == "cumsum":
        return case["x"].cumsum(o[0])
    return functional.interpolate(case["x"], size=tuple(o[:2]), mode="bilinear" if o[2] else "nearest")


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
        y = result(case)
        (y * y).sum().backward()
        worst = max(worst, (error(outputs[at : at + y.numel()], y), f"y of case {number}"))
        at += y.numel()
        for part in PARTS[case["kind"]]:
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
