#!/usr/bin/env python3
"""LSTM and GRU, whole sequences and step by step: results and gradients against PyTorch's nn.LSTM, nn.GRU, nn.LSTMCell and
nn.GRUCell.

usage: compare_recurrent.py RECURRENT_PEER

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
LAYER = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]


def error(ours, theirs):
    theirs = theirs.detach().double().flatten()
    assert ours.numel() == theirs.numel(), f"{ours.numel()} elements, PyTorch has {theirs.numel()}"
    return float((ours.double() - theirs).norm() / theirs.norm())


def module_of(case):
    """PyTorch's module with the case's parameters, and these by their names here."""
    lstm, steps = case["kind"] == "lstm", case["way"] == "step"
    cls = (torch.nn.LSTMCell if lstm else torch.nn.GRUCell) if steps else (torch.nn.LSTM if lstm else torch.nn.GRU)
    module = cls(case["x"].shape[2], case["h"].shape[1])
    named = {name: getattr(module, name if steps else name + "_l0") for name in LAYER}
    with torch.no_grad():
        for name in LAYER:
            named[name].copy_(case[name])
    return module, named


def results(case, module):
    x, lstm = case["x"], case["kind"] == "lstm"
    if case["way"] == "step":
        state, all_h = (case["h"], case["c"]) if lstm else case["h"], []
        for row in x:
            state = module(row, state)
            all_h.append(state[0] if lstm else state)
        return [torch.stack(all_h), *(state if lstm else [state])]
    first = (case["h"][None], case["c"][None]) if lstm else case["h"][None]
    y, last = module(x, first)
    return [y, *([part[0] for part in last] if lstm else [last[0]])]


def main(peer):
    cases = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, folder], check=True)
        with safe_open(os.path.join(folder, "init.safetensors"), framework="pt") as file:
            for name in file.keys():
                kind, number, way, part = name.split(".")
                case = cases.setdefault(int(number), {"kind": kind, "way": way})
                case[part] = file.get_tensor(name).requires_grad_()
        outputs = torch.from_numpy(np.fromfile(os.path.join(folder, "outputs.bin"), dtype=np.float32))
        grads = torch.from_numpy(np.fromfile(os.path.join(folder, "grads.bin"), dtype=np.float32))
    worst, at, grad_at = (0.0, ""), 0, 0
    for number in sorted(cases):
        case = cases[number]
        module, named = module_of(case)
        theirs = results(case, module)
        sum((y * y).sum() for y in theirs).backward()
        for k, y in enumerate(theirs):
            worst = max(worst, (error(outputs[at : at + y.numel()], y), f"result {k} of case {number}"))
            at += y.numel()
        states = ["x", "h", "c"] if case["kind"] == "lstm" else ["x", "h"]
        for part in states + LAYER:
            g = (case[part] if part in states else named[part]).grad
            found = error(grads[grad_at : grad_at + g.numel()], g)
            worst = max(worst, (found, f"d{part} of case {number}"))
            grad_at += g.numel()
    assert at == outputs.numel() and grad_at == grads.numel()
    print(f"{len(cases)} cases: {worst[0]:.2e} ({worst[1]}); bound {BOUND:.0e}")
    return worst[0] <= BOUND


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(0 if main(sys.argv[1]) else 1)
