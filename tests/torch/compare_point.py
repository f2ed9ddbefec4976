#!/usr/bin/env python3
"""Pointwise ops and losses of stepwell against PyTorch's in float64: values and gradients.

usage: compare_point.py POINT_PEER

Agreement: each element within 2e-6 of the largest, and 1e-6 by norm over the tensor.
Exit status 77 (skipped) where PyTorch or NumPy is missing.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CLASSES, IGNORED, BOUND, NORM_BOUND = 10, 3, 2e-6, 1e-6


def table(t, mask, labels):
    """The list of tests/ops/pointwise_list.h in PyTorch."""
    rows = lambda x: x.reshape(-1, CLASSES)

    def ce(smoothing, ignore):
        return lambda x: F.cross_entropy(rows(x), labels, label_smoothing=smoothing, ignore_index=ignore)

    return {
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "mish": F.mish,
        "softplus": F.softplus,
        "hard_swish": F.hardswish,
        "elu": lambda x: F.elu(x, 0.75),
        "selu": F.selu,
        "exp": torch.exp,
        "log": torch.log,
        "sqrt": torch.sqrt,
        "rsqrt": torch.rsqrt,
        "pow2": lambda x: x.pow(2),
        "pow3": lambda x: x.pow(3),
        "pow5": lambda x: x.pow(5),
        "pow_root": lambda x: x.pow(0.375),
        "pow_below": lambda x: x.pow(-2.5),
        "abs": torch.abs,
        "clamp": lambda x: x.clamp(-0.5, 0.75),
        "sub": lambda x: t - x,
        "div": lambda x: x / t,
        "divisor": lambda x: t / x,
        "where": lambda x: torch.where(mask, x, t),
        "huber": lambda x: F.huber_loss(x, t, delta=0.75),
        "l1": lambda x: F.l1_loss(x, t),
        "kl_div": lambda x: F.kl_div(rows(x), rows(t), reduction="batchmean"),
        "ce": ce(0.0, -100),
        "ce_smooth": ce(0.1, -100),
        "ce_ignore": ce(0.0, IGNORED),
        "ce_both": ce(0.25, IGNORED),
    }


def error(ours, theirs):
    """The largest difference by the largest element, and the difference by norm."""
    difference = ours.double() - theirs
    return (float(difference.abs().max() / theirs.abs().max()),
            float(difference.norm() / theirs.norm()))


def main(peer):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, folder], check=True)

        def read(name, dtype):
            return torch.from_numpy(np.fromfile(os.path.join(folder, name + ".bin"), dtype=dtype))

        t, w = read("t", np.float32).double(), read("w", np.float32).double()
        mask, labels = read("mask", np.uint8) != 0, read("labels", np.int32).long()
        functions, good = table(t, mask, labels), True
        with open(os.path.join(folder, "names.txt")) as file:
            names = [line.split() for line in file]
        assert sorted(functions) == sorted(name for name, _ in names), "two lists"
        for name, is_loss in names:
            data, n = read(name, np.float32), t.numel()
            n_y = 1 if is_loss == "1" else n
            x = data[:n].double().requires_grad_()
            y = functions[name](x)
            (y if is_loss == "1" else (y * w).sum()).backward()
            values = error(data[n : n + n_y], y.detach().reshape(-1))
            slopes = error(data[n + n_y :], x.grad)
            right = max(values[0], slopes[0]) <= BOUND and max(values[1], slopes[1]) <= NORM_BOUND
            print(f"{name}: values {values[0]:.1e}, gradients {slopes[0]:.1e} of the largest; "
                  f"{values[1]:.1e}, {slopes[1]:.1e} by norm{'' if right else '  TOO FAR'}")
            good = good and right
    return good


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
