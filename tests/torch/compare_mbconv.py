#!/usr/bin/env python3
"""mbconv against PyTorch: gradients, losses, ten steps of SGD with momentum, running statistics, and the loss in
evaluation after them.

usage: compare_mbconv.py MBCONV_PEER          agreement
       compare_mbconv.py --memory MBCONV_PEER    saved and peak bytes at 64x64, batch 32

Agreement: 1e-4 relative by norm per tensor, with a floor of 1e-3 of the norm of all tensors together. Exit status 77
(skipped) where PyTorch, NumPy or safetensors is missing.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from safetensors.torch import load_file
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from mbconv_net import Net

STEPS, BOUND, FLOOR, RATE = 10, 1e-4, 1e-3, 2e-3
nn = torch.nn


def worst(ours, theirs):
    """The largest disagreement: |a - b| / max(|b|, FLOOR * |all b|), and whose it is."""
    total = sum(float(t.double().norm()) ** 2 for t in theirs.values()) ** 0.5
    found = (0.0, "")
    for name, reference in theirs.items():
        difference = float((ours[name].double() - reference.double()).norm())
        found = max(found, (difference / max(float(reference.double().norm()), FLOOR * total), name))
    return found


def compare(peer, batch, channels, side, width, depth):
    sizes = [str(n) for n in (batch, channels, side, width, depth)]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([peer, "dump", *sizes, folder], check=True)
        net = Net(channels, side, width, depth)
        missing = net.load_state_dict(load_file(os.path.join(folder, "init.safetensors")), strict=False)
        assert not missing.unexpected_keys, missing
        assert all(key.endswith("num_batches_tracked") for key in missing.missing_keys), missing
        pixels = channels * side * side
        raw = np.fromfile(os.path.join(folder, "batches.bin"), dtype=np.uint8).reshape(STEPS, batch * (pixels + 1))
        flat = torch.from_numpy(np.fromfile(os.path.join(folder, "grads.bin"), dtype=np.float32))
        with open(os.path.join(folder, "losses.txt"), encoding="ascii") as file:
            scale, shift = (float(n) for n in file.readline().split())
            losses = torch.tensor([float(line) for line in file], dtype=torch.float64)
        after = load_file(os.path.join(folder, "after.safetensors"))
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    theirs = []
    for step in range(STEPS):
        images = torch.from_numpy(raw[step, : batch * pixels].astype(np.float32)).reshape(batch, channels, side, side)
        images = images * scale + shift
        labels = torch.from_numpy(raw[step, batch * pixels :].astype(np.int64))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        theirs.append(loss.item())
        if step == 0:
            ours, at, given = {}, 0, dict(net.named_parameters())
            for key in given:
                ours[key] = flat[at : at + given[key].numel()].reshape(given[key].shape)
                at += given[key].numel()
            assert at == flat.numel(), f"{flat.numel()} gradient elements, PyTorch has {at}"
            gradients = worst(ours, {k: p.grad for k, p in given.items()})
        optimizer.step()
    net.eval()
    with torch.no_grad():
        theirs.append(nn.functional.cross_entropy(net(images), labels).item())
    theirs = torch.tensor(theirs, dtype=torch.float64)
    found = {
        "gradients": gradients,
        f"after {STEPS} steps": worst(after, {k: t for k, t in net.state_dict().items() if k in after}),
        "losses": (float(((losses - theirs) / theirs).abs().max()), "all"),
    }
    assert len(after) == sum(not k.endswith("num_batches_tracked") for k in net.state_dict())
    print(f"batch {batch}, {channels}x{side}x{side}, width {width}, depth {depth}: " +
          ", ".join(f"{k} {e:.2e} ({n})" for k, (e, n) in found.items()) + f"; bound {BOUND:.0e}")
    return all(e <= BOUND for e, _ in found.values())


# ---- memory --------------------------------------------------------------------------------


class Live(TorchDispatchMode):
    """Bytes of storages that ops have made and that are still referenced, and the most of them."""

    def __init__(self):
        super().__init__()
        self.live, self.peak, self.known = 0, 0, {}

    def note(self, tensor):
        import weakref
        storage = tensor.untyped_storage()
        if storage._cdata in self.known:
            return
        key, size = storage._cdata, storage.nbytes()
        self.known[key] = size
        self.live += size
        self.peak = max(self.peak, self.live)

        def gone(_=None):
            self.live -= self.known.pop(key, 0)

        weakref.finalize(storage, gone)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(value, torch.Tensor):
                self.note(value)
        return out


def memory(peer, batch=32, channels=3, side=64):
    net = Net(channels, side, 1.0, 1.0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    images, labels = torch.randn(batch, channels, side, side), torch.randint(0, 10, (batch,))
    held = sum(p.nbytes for p in net.parameters()) + sum(b.nbytes for b in net.buffers()) + images.nbytes
    own = {p.untyped_storage()._cdata for p in net.parameters()}
    peak, saved_bytes = 0, 0
    for _ in range(3):
        seen, keep = {}, []

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage._cdata not in own and storage._cdata != images.untyped_storage()._cdata:
                seen[storage._cdata] = storage.nbytes()
                keep.append(storage)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            loss = nn.functional.cross_entropy(net(images), labels)
        saved_bytes = sum(seen.values())
        del loss, keep
        optimizer.zero_grad(set_to_none=True)
        with Live() as live:
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()
        peak = held + live.peak
        optimizer.zero_grad(set_to_none=True)
    mib = 1 << 20
    print(f"PyTorch {torch.__version__}: saved {saved_bytes / mib:.1f} MiB, peak {peak / mib:.1f} MiB")
    lines = subprocess.run([peer, "plan", str(batch), str(channels), str(side), "1", "1"], check=True,
                           capture_output=True, text=True).stdout.split("\n")
    for line in lines[:2]:
        how, our_peak, our_saved, _ = line.split()
        print(f"stepwell, update {how}: saved {int(our_saved) / mib:.1f} MiB ({int(our_saved) / saved_bytes:.3f}), "
              f"peak {int(our_peak) / mib:.1f} MiB ({int(our_peak) / peak:.3f})")
    return True


if __name__ == "__main__":
    torch.manual_seed(0)
    if sys.argv[1] == "--memory":
        memory(sys.argv[2])
    else:
        torch.set_num_threads(2)
        runs = [(32, 3, 32, 0.25, 1.0), (5, 1, 28, 0.5, 0.5), (20, 3, 40, 0.25, 1.0)]
        sys.exit(0 if all([compare(sys.argv[1], *run) for run in runs]) else 1)
