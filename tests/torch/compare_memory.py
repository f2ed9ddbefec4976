#!/usr/bin/env python3
"""Peak bytes of a large step of gpt against PyTorch's live bytes (live_bytes.py) in its second step: at most 0.55 of them, and 0.5 with that as the budget, for at
most 3 % of repeated work. PyTorch is eager, with scaled_dot_product_attention, fused AdamW, and gradients set to None before forward.

usage: compare_memory.py             the peaks of gpt
       compare_memory.py --mbconv    prints saved and peak bytes of mbconv, at 64x64 and batch 32

Exit status 77 (skipped) where PyTorch or NumPy is missing.
"""
import sys

from sides import ToolSide, np, sw, torch

import gpt_net
import mbconv_net
from live_bytes import LiveBytes

PEAK, REPEATED, MIB = 0.55, 0.03, 1 << 20
F = torch.nn.functional


def torch_peak(net, optimizer, loss_of, data, steps):
    """The most live bytes in the last of these steps."""
    with LiveBytes() as live:
        live.track([*data, *net.parameters(), *net.buffers()])
        for _ in range(steps):
            live.peak = live.live
            optimizer.zero_grad(set_to_none=True)
            loss_of(*data).backward()
            optimizer.step()
    return live.peak


def gpt():
    net = gpt_net.Net(4, 256, 8, 128, 8192)
    theirs = torch_peak(net, gpt_net.adamw(net, fused=True), net.loss, [torch.randint(0, 8192, (8, 128)) for _ in range(2)], 2)
    ids = (np.arange(8 * 128, dtype="int32") * 37 % 8192).reshape(8, 128)
    good = True
    for budget, bound in ((0, PEAK), (theirs // 2, 0.5)):
        owner = sw.make(sw.sw_budget_create, budget) if budget else None
        with ToolSide("gpt", [(sw.SW_I32, (128,))] * 2, 8192, counts=(4, 256, 8, 128, 8192), budget=owner, kind="adamw", lr=1e-3, weight_decay=0.1, release=1) as side:
            inputs = [ids, (ids + 37) % 8192]
            plan = sw.get(sw.sw_plan, side.exec, side.args(None, inputs))
            for step in range(2):
                side.run(None, inputs, step=step)
            measured, repeated = sw.get(sw.sw_last_run, side.exec).peak_bytes, plan.repeat_cost / plan.cost
            print(f"peak{', half of that as a budget' if budget else ''}: {measured} bytes, PyTorch {torch.__version__} "
                  f"{theirs}: ratio {measured / theirs:.3f}, {100 * repeated:.1f} % repeated; bounds {bound}, {100 * REPEATED:.0f} %")
            good = good and plan.peak_bytes == measured and measured <= bound * theirs and repeated <= REPEATED
    return good


def mbconv(batch=32, channels=3, side=64):
    net = mbconv_net.Net(channels, side, 1.0, 1.0)
    images, labels = torch.randn(batch, channels, side, side), torch.randint(0, 10, (batch,))
    loss_of = lambda images, labels: F.cross_entropy(net(images), labels)
    own = {p.untyped_storage()._cdata for p in [*net.parameters(), images]}
    seen = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            seen[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = loss_of(images, labels)
    saved = sum(storage.nbytes() for storage in seen.values())
    seen.clear()
    del loss
    peak = torch_peak(net, torch.optim.SGD(net.parameters(), lr=0.01), loss_of, [images, labels], 2)
    print(f"PyTorch {torch.__version__}: saved {saved / MIB:.1f} MiB, peak {peak / MIB:.1f} MiB")
    for how, release in (("after", 0), ("release", 1)):
        with ToolSide("mbconv", [(sw.SW_U8, (channels, side, side)), (sw.SW_U8, ())], 10, factors=(1.0, 1.0), kind="sgd", release=release) as ours:
            args, found = ours.args(None, [np.zeros((batch, channels, side, side), "uint8"), np.zeros(batch, "uint8")]), {}

            def share(_, one):
                if one.contents.kind == sw.SW_SHARE_ROLE:
                    found[one.contents.name] = one.contents.peak_bytes

            plan = sw.get(sw.sw_plan, ours.exec, args)
            sw.sw_plan_shares(ours.exec, args, share, None)
            print(f"stepwell, update {how}: saved {found['saved'] / MIB:.1f} MiB ({found['saved'] / saved:.3f}), peak {plan.peak_bytes / MIB:.1f} MiB ({plan.peak_bytes / peak:.3f})")
    return True


if __name__ == "__main__":
    torch.manual_seed(0)
    sys.exit(0 if (mbconv if sys.argv[1:] == ["--mbconv"] else gpt)() else 1)
