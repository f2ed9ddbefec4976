#!/usr/bin/env python3
"""A PyTorch run planned again: `stepwell report --replan` of a snapshot that PyTorch's own profiler made.

usage: replan.py STEPWELL [SNAPSHOT]

A small net is trained under the profiler. Every figure that the report gives of it is computed here once more
from the events: what lived at the peak, lives of what was written in place, the steady step, and that offsets of
the plan do not overlap. With SNAPSHOT the file is written there and stays.

Exit status 77 (skipped) where PyTorch is missing.
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile

try:
    import torch
    from torch.cuda import _memory_viz as viz
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

STEPS = 8


def record(path):
    """Eight steps of a perceptron, as the profiler's snapshot."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
    net = torch.nn.Sequential(*layers)
    adam = torch.optim.Adam(net.parameters())
    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True,
                                activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(STEPS):
            loss = torch.nn.functional.cross_entropy(net(torch.randn(128, 256)), torch.randint(0, 10, (128,)))
            adam.zero_grad()
            loss.backward()
            adam.step()
    snapshot = viz._profile_to_snapshot(profile)
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)
    return snapshot


ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom"}


def is_in_place(a, b):
    """A free and an allocation of the same bytes, one after the other: something was written in place."""
    return a["action"] == "free_completed" and b["action"] == "alloc" and (a["addr"], a["size"]) == (b["addr"], b["size"])


def lives(snapshot, device):
    """(born, dead, bytes) by event numbers; before the trace -1, never freed the number of events."""
    events = snapshot["device_traces"][device]
    numbers = [n for n, e in enumerate(events) if e["action"] in ACTIONS]
    known, before, skip = {}, {}, set()
    found = []
    for number, then in zip(numbers, numbers[1:]):
        if is_in_place(events[number], events[then]):
            skip.update((number, then))
    freed = {}
    for number in numbers:
        e = events[number]
        if e["action"] == "free_completed" and e["addr"] not in freed and e["addr"] not in known:
            before[e["addr"]] = [-1, len(events), e["size"]]
            found.append(before[e["addr"]])
            known[e["addr"]] = before[e["addr"]]
        if number in skip or e["size"] == 0:
            continue
        if e["action"] == "alloc":
            if e["addr"] in known:
                known[e["addr"]][1] = number
            known[e["addr"]] = [number, len(events), e["size"]]
            found.append(known[e["addr"]])
        elif e["action"] == "free_completed":
            known.pop(e["addr"])[1] = number
            freed[e["addr"]] = True
    ever = {events[n]["addr"] for n in numbers if events[n]["action"] == "alloc"} | set(before)
    blocks = [b for s in snapshot["segments"] if s["device"] == device for b in with_addresses(s)]
    for address, block in blocks:
        if block["state"].startswith("active") and address not in ever:
            found.append([-1, len(events), block.get("requested_size", block["size"])])
    return found


def with_addresses(segment):
    address = segment["address"]
    for block in segment["blocks"]:
        yield address, block
        address += block["size"]


def most(of):
    changes = sorted([(born, 1, size) for born, _, size in of] + [(dead, 0, -size) for _, dead, size in of])
    live = peak = 0
    for _, _, size in changes:
        live += size
        peak = max(peak, live)
    return peak


def overlaps(allocations, columns, field):
    """Pairs that live at one time and share bytes."""
    at = {name: i for i, name in enumerate(columns)}
    rows = [(r[at["born"]] if r[at["born"]] is not None else -1, r[at["completed"]] if r[at["completed"]] is not None else 1 << 60,
             r[at[field]], r[at["bytes"]]) for r in allocations if r[at[field]] is not None]
    rows.sort()
    wrong, open_now = 0, []
    for row in rows:
        open_now = [o for o in open_now if o[1] > row[0]]
        wrong += sum(o[2] < row[2] + row[3] and row[2] < o[2] + o[3] for o in open_now)
        open_now.append(row)
    return wrong


def main():
    stepwell = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = sys.argv[2] if len(sys.argv) > 2 else os.path.join(folder, "snapshot.pickle")
        snapshot = record(path)
        plan = os.path.join(folder, "plan.json")
        done = subprocess.run([stepwell, "report", path, "--replan", "--json", "--out", plan], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        said = json.loads(done.stdout)["devices"]
        with open(plan) as file:
            offsets = json.load(file)["devices"]
    for device, plan in zip(said, offsets):
        own = lives(snapshot, device["device"])
        assert device["allocations"] == len(own), (device["allocations"], len(own))
        assert device["requested_bytes"] == device["whole"]["bound_bytes"] == most(own), (device["requested_bytes"], most(own))
        assert device["whole"]["planned_bytes"] <= 1.01 * device["whole"]["bound_bytes"]
        assert device["causes"] is None and device["proof"] is None
        assert device["step"]["steps"] >= STEPS - 2, device["step"]
        assert overlaps(plan["allocations"], plan["columns"], "offset") == 0
        assert overlaps(plan["allocations"], plan["columns"], "step_offset") == 0
        print(f"device {device['device']}: {len(own)} allocations, at least {most(own)} bytes, "
              f"planned {device['whole']['planned_bytes']}, {device['step']['steps']} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
