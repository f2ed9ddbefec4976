#!/usr/bin/env python3
"""Embedding, dropout, products, permuted axes, sums and maxima over axes: outputs and gradients of one step against PyTorch.

usage: compare_axes.py AXES_PEER

Agreement: 1e-5 relative by norm, outputs and gradients. Which elements dropout drops is taken from the
peer; their share is checked. Exit status 77 (skipped) where PyTorch, NumPy or safetensors is missing.
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

BATCH, ROWS, HEADS, DEPTH, VOCABULARY, DROPPED = 3, 17, 4, 8, 61, 0.3
WIDTH = HEADS * DEPTH


def error(ours, theirs):
    theirs = theirs.detach().double()
    return float((ours.double() - theirs).norm() / theirs.norm())


def main(peer):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, folder], check=True)
        p = load_file(os.path.join(folder, "init.safetensors"))
        ids = torch.from_numpy(np.fromfile(os.path.join(folder, "ids.bin"), dtype=np.int32).astype(np.int64))
        outputs = torch.from_numpy(np.fromfile(os.path.join(folder, "outputs.bin"), dtype=np.float32))
        flat = torch.from_numpy(np.fromfile(os.path.join(folder, "grads.bin"), dtype=np.float32))
    p = {name: t.requires_grad_() for name, t in p.items()}
    n_logits = BATCH * ROWS * VOCABULARY
    loss_ours, logits_ours, drops = outputs[0], outputs[1 : 1 + n_logits], outputs[1 + n_logits :]
    kept = (drops != 0).float().reshape(BATCH, ROWS, WIDTH)
    share = 1.0 - float(kept.mean())

    embedding = torch.nn.functional.embedding
    x = embedding(ids.reshape(BATCH, ROWS), p["words.weight"]) + embedding(torch.arange(ROWS), p["places.weight"])
    x = x * kept / (1.0 - DROPPED)
    dropped_error = error(drops, x.flatten())
    x = x - x.mean(dim=-1, keepdim=True)
    q, k, v = (t.reshape(BATCH, ROWS, HEADS, DEPTH).permute(0, 2, 1, 3) for t in (x @ p["inner"]).split(WIDTH, dim=-1))
    y = torch.softmax(q @ k.transpose(-1, -2) * 0.5, dim=-1) @ v
    y = x + y.transpose(1, 2).reshape(BATCH, ROWS, WIDTH) @ p["outer"]
    y = y * y.max(dim=-2, keepdim=True).values
    logits = y @ p["words.weight"].T
    loss = torch.tanh(0.02 * logits).sum()
    loss.backward()

    errors = {"dropout": (dropped_error, 1e-5), "logits": (error(logits_ours, logits.flatten()), 1e-5),
              "loss": (error(loss_ours, loss), 1e-5)}
    at = 0
    for name in ("words.weight", "places.weight", "inner", "outer"):
        n = p[name].numel()
        errors["gradient of " + name] = (error(flat[at : at + n], p[name].grad.flatten()), 1e-5)
        at += n
    assert at == flat.numel(), f"{flat.numel()} gradient elements, PyTorch has {at}"
    for name, (found, bound) in errors.items():
        print(f"{name}: {found:.2e}; bound {bound:.0e}")
    spread = (DROPPED * (1.0 - DROPPED) / kept.numel()) ** 0.5
    print(f"dropped: {share:.3f} of {DROPPED}; bound {5 * spread:.3f}")
    return all(found <= bound for found, bound in errors.values()) and abs(share - DROPPED) < 5 * spread


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
