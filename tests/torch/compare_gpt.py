#!/usr/bin/env python3
"""The model gpt against PyTorch: gradients, ten AdamW steps, and the peak bytes of a large step; and a step of the ops
that it does not use in every way.

usage: compare_gpt.py GPT_PEER

Agreement: 1e-4 relative by norm per tensor, with a floor of 1e-3 of the norm of all tensors together. Peak: at most 0.55 of
PyTorch's live bytes (live_bytes.py) in its second step, and 0.5 with that as the budget, for at most 3 % of repeated work.
PyTorch is eager, with scaled_dot_product_attention, fused AdamW, and gradients set to None before forward. Exit status 77 (skipped) where PyTorch, NumPy or safetensors is missing.
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

from compare import worst
from gpt_net import Net, adamw
from live_bytes import LiveBytes

STEPS, BATCH, CONTEXT, BOUND, KEY_BIAS, PEAK, REPEATED = 10, 5, 23, 1e-4, 1e-2, 0.55, 0.03


def train_step(net, optimizer, ids, following):
    optimizer.zero_grad(set_to_none=True)
    net.loss(ids, following).backward()
    optimizer.step()


def without_key_bias(tensors):
    """A bias of the keys shifts all scores of a query alike, which softmax does not see: its gradient is rounding alone,
    and Adam would make whole steps of it. It must be small, and is left out of the comparison."""
    total = sum(float(t.double().norm()) ** 2 for t in tensors.values()) ** 0.5
    kept = {}
    for name, tensor in tensors.items():
        if name.endswith("qkv.bias"):
            query, key, value = tensor.chunk(3)
            assert float(key.norm()) < KEY_BIAS * total, f"{name}: {float(key.norm())} for the keys"
            tensor = torch.cat([query, value])
        kept[name] = tensor
    return kept


def compare(peer):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, "dump", folder], check=True)
        init = load_file(os.path.join(folder, "init.safetensors"))
        raw = np.fromfile(os.path.join(folder, "batches.bin"), dtype=np.uint8).astype(np.int64)
        flat = torch.from_numpy(np.fromfile(os.path.join(folder, "grads.bin"), dtype=np.float32))
        after = load_file(os.path.join(folder, "after.safetensors"))
    net = Net(2, 48, 3, CONTEXT, 61)
    net.load_state_dict(init)
    optimizer = adamw(net)
    for step, batch in enumerate(torch.from_numpy(raw).reshape(STEPS, 2, BATCH, CONTEXT)):
        train_step(net, optimizer, batch[0], batch[1])
        if step == 0:
            ours, at = {}, 0
            for name, parameter in net.named_parameters():
                ours[name] = flat[at : at + parameter.numel()].reshape(parameter.shape)
                at += parameter.numel()
            assert at == flat.numel(), f"{flat.numel()} gradient elements, PyTorch has {at}"
            theirs = {n: p.grad for n, p in net.named_parameters()}
            gradients = worst(without_key_bias(ours), without_key_bias(theirs))
    theirs = {n: p.detach() for n, p in net.named_parameters()}
    steps = worst(without_key_bias(after), without_key_bias(theirs))
    print(f"gradients {gradients[0]:.2e} ({gradients[1]}), after {STEPS} AdamW steps {steps[0]:.2e} ({steps[1]}); "
          f"bound {BOUND:.0e}")
    return gradients[0] <= BOUND and steps[0] <= BOUND


def ops_step(p, labels):
    functional = torch.nn.functional
    k, v = p["kv"].split(24, dim=-1)
    q, k, v = (t.unflatten(-1, (4, 6)).transpose(1, 2) for t in (p["q"], k, v))
    y = functional.scaled_dot_product_attention(q, k, v, scale=0.3).transpose(1, 2).flatten(2)
    a, b = y.split(12, dim=-1)
    z = (functional.silu(a) * b).flatten(0, 1)
    logits = functional.linear(z, p["weight"], p["bias"])
    ce = functional.cross_entropy(logits, labels, label_smoothing=0.1, ignore_index=5)
    return (functional.log_softmax(z, dim=-1) ** 2).mean() + ce


def compare_ops(peer):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, "ops", folder], check=True)
        p = {n: t.requires_grad_() for n, t in load_file(os.path.join(folder, "init.safetensors")).items()}
        flat = torch.from_numpy(np.fromfile(os.path.join(folder, "grads.bin"), dtype=np.float32))
    loss = ops_step(p, torch.arange(p["q"].shape[0] * p["q"].shape[1]) * 7 % p["bias"].numel())
    loss.backward()
    ours, theirs, at = {"loss": flat[:1]}, {"loss": loss.detach().reshape(1)}, 1
    for name in ("q", "kv", "weight", "bias"):
        theirs[name] = p[name].grad
        ours[name] = flat[at : at + p[name].numel()].reshape(p[name].shape)
        at += p[name].numel()
    assert at == flat.numel(), f"{flat.numel()} numbers, PyTorch has {at}"
    found = worst(ours, theirs)
    print(f"ops: loss and gradients {found[0]:.2e} ({found[1]}); bound {BOUND:.0e}")
    return found[0] <= BOUND


def torch_peak():
    net = Net(4, 256, 8, 128, 8192)
    optimizer = adamw(net, fused=True)
    ids = torch.randint(0, 8192, (8, 128))
    following = torch.randint(0, 8192, (8, 128))
    with LiveBytes() as live:
        live.track([ids, following, *net.parameters()])
        for _ in range(2):
            live.peak = live.live
            train_step(net, optimizer, ids, following)
    return live.peak


def peaks(peer):
    theirs, good = torch_peak(), True
    for budget, bound in ((0, PEAK), (theirs // 2, 0.5)):
        line = subprocess.run([peer, "peak", str(budget)], check=True, capture_output=True, text=True).stdout
        planned, measured, repeated = (float(word) for word in line.split())
        print(f"peak{', half of that as a budget' if budget else ''}: {measured:.0f} bytes, PyTorch {torch.__version__} "
              f"{theirs}: ratio {measured / theirs:.3f}, {100 * repeated:.1f} % repeated; bounds {bound}, {100 * REPEATED:.0f} %")
        good = good and planned == measured and measured <= bound * theirs and repeated <= REPEATED
    return good


if __name__ == "__main__":
    torch.manual_seed(0)
    results = [compare_ops(sys.argv[1]), compare(sys.argv[1]), peaks(sys.argv[1])]
    sys.exit(0 if all(results) else 1)
