#!/usr/bin/env python3
"""PyTorch memory snapshots, both ways, with PyTorch's own tools.

usage: snapshot.py STEPWELL

A snapshot of stepwell is loaded by Python's pickle and held against the rules of the viewer, opcode by
opcode, block by block and event by event, and goes through every function of torch.cuda._memory_viz that
needs neither a GPU nor a network. A snapshot of PyTorch - its profiler's snapshot of a training step, and
snapshots with the members of each version, in each pickle protocol - is read by stepwell, and its answers
are those of a replay here.

Exit status 77 (skipped) where PyTorch is missing.
"""
import csv
import io
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile

try:
    import torch
    from torch.cuda import _memory_viz as viz
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HIDDEN = ["unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start", "PyEval_", "PyObject_",
          "PyFunction_"]
# Opcodes that the viewer's own unpickler knows.
VIEWER = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "BININT1", "BININT2",
          "BININT", "LONG1", "NEWFALSE", "NEWTRUE", "TUPLE2", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
          "STOP"}


def run(*words):
    done = subprocess.run(words, capture_output=True)
    assert done.returncode == 0, f"{words}: {done.returncode}: {done.stderr.decode()}"
    return done.stdout


def report(program, path, form):
    return run(program, "report", path, "--format", form)


# ---- what stepwell writes ----------------------------------------------------------------------


def check_opcodes(data):
    """Only opcodes of the viewer; no list grows by more than a thousand at once."""
    sizes, marks = [], []
    pushes = {"EMPTY_DICT", "EMPTY_LIST", "BINUNICODE", "BININT1", "BININT2", "BININT", "LONG1", "NEWFALSE",
              "NEWTRUE", "BINGET", "LONG_BINGET"}
    depth = 0
    for opcode, argument, _ in pickletools.genops(data):
        assert opcode.name in VIEWER, opcode.name
        if opcode.name == "LONG1":
            assert argument < 2**53
        if opcode.name in pushes:
            depth += 1
        elif opcode.name == "TUPLE2":
            depth -= 1
        elif opcode.name == "MARK":
            marks.append(depth)
        elif opcode.name in ("APPENDS", "SETITEMS"):
            sizes.append(depth - marks[-1])
            depth = marks.pop()
    assert max(sizes) == 1000, f"the largest batch has {max(sizes)} items: make the run longer"
    assert depth == 1 and not marks


def find(segments, address, size):
    return [s for s in segments if s["address"] <= address and address + size <= s["address"] + s["total_size"]]


def check_segments(snapshot):
    """Blocks tile their segments, and segments do not overlap."""
    end = 0
    for s in sorted(snapshot["segments"], key=lambda s: s["address"]):
        assert s["address"] >= end and s["total_size"] > 0 and s["device"] == 0
        end = s["address"] + s["total_size"]
        assert end < 2**53
        at, active, requested = s["address"], 0, 0
        for b in s["blocks"]:
            assert b["address"] == at and b["size"] > 0 and 0 < b["requested_size"] <= b["size"]
            assert b["state"] in ("active_allocated", "inactive") and "frames" in b
            at += b["size"]
            if b["state"] != "inactive":
                active += b["size"]
                requested += b["requested_size"]
        assert at == end, f"blocks end at {at}, the segment at {end}"
        assert s["allocated_size"] == s["active_size"] == active and s["requested_size"] == requested


def check_frames(frames):
    assert frames[0]["filename"] == "tensor" and frames[-1]["filename"] == "phase"
    kinds = [f["filename"] for f in frames]
    assert set(kinds) <= {"tensor", "op", "layer", "role", "phase"} and kinds.count("role") == 1, kinds
    for f in frames:
        assert set(f) == {"filename", "line", "name"} and not any(h in f["name"] for h in HIDDEN), f
        assert viz._frame_filter(f["name"], f["filename"])


def check_events(snapshot):
    """Every address in a segment that is there, no place twice, frees in pairs; the peak."""
    (trace,) = snapshot["device_traces"]
    final = {(s["address"], s["total_size"]) for s in snapshot["segments"]}
    made, made_by, live, total, peak, time = set(), {}, {}, 0, 0, 0
    for i, e in enumerate(trace):
        assert e["time_us"] >= time and e["stream"] == 0
        time = e["time_us"]
        if e["action"] == "segment_alloc":
            made.add((e["addr"], e["size"]))
            continue
        assert e["size"] > 0
        inside = [m for m in made if m[0] <= e["addr"] and e["addr"] + e["size"] <= m[0] + m[1]]
        assert len(inside) == 1, f"event {i} lies in {len(inside)} segments"
        if e["action"] == "alloc":
            assert e["addr"] not in live, f"event {i}: the place is taken"
            live[e["addr"]] = e["size"]
            made_by[e["addr"]] = e
            total += e["size"]
            peak = max(peak, total)
            check_frames(e["frames"])
        elif e["action"] == "free_requested":
            assert live.pop(e["addr"]) == e["size"]
            total -= e["size"]
            birth = made_by[e["addr"]]
            assert (e["frames"], e["category"]) == (birth["frames"], birth["category"]), "a free is of what was made"
            after = trace[i + 1]
            assert (after["action"], after["addr"], after["size"]) == ("free_completed", e["addr"], e["size"])
        else:
            assert e["action"] == "free_completed" and trace[i - 1]["action"] == "free_requested"
    assert made == final, "segments come by the place and size that they end with"
    spans = sorted(live.items())
    assert all(a + n <= b for (a, n), (b, _) in zip(spans, spans[1:])), "what lives overlaps"
    blocks = {b["address"]: b["size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] != "inactive"}
    assert blocks == live, "what the trace leaves alive is what the segments show"
    categories = {e["category"] for e in trace if "category" in e}
    assert "unknown" in categories and {"parameter", "gradient", "saved"} <= categories, categories
    return peak


def check_step_ends(snapshot):
    """Tensors that a step has to its end - here its images and labels - die in the reverse order of its birth."""
    alive, deepest, runs = [], 0, 0
    for e in snapshot["device_traces"][0]:
        if e.get("category") != "input" or e["addr"] < 3 << 40:
            continue
        if e["action"] == "alloc":
            alive.append(e["addr"])
            deepest = max(deepest, len(alive))
        elif e["action"] == "free_requested":
            assert alive.pop() == e["addr"]
            runs += not alive
    assert deepest == 2 and runs >= 4 and not alive


def check_own(program, folder):
    profile = os.path.join(folder, "run.jsonl")
    run(program, "train", "--model", "lenet5", "--data", "synthetic", "--steps", "4", "--profile", profile)
    data = report(program, profile, "memory-viz")
    snapshot = pickle.loads(data)
    check_opcodes(data)
    check_segments(snapshot)
    peak = check_events(snapshot)
    check_step_ends(snapshot)
    with open(profile) as lines:
        records = [json.loads(line) for line in lines]
    planned = max(r["peak_bytes"] for r in records if r["type"] == "plan" and r["run"] == "train")
    assert peak == planned, f"the snapshot peaks at {peak}, the plan at {planned}"
    plain = {"format_flamegraph": lambda text: text}
    assert f"segments: {len(snapshot['segments'])}" in viz.segsum(snapshot)
    flame = viz.memory(snapshot, **plain)
    assert "role:0:parameter;layer:0:conv1;tensor:" in flame
    assert viz.segments(snapshot, **plain).count("\n") == flame.count("\n")
    assert "Device 0" in viz.trace(snapshot)
    smaller = [s for s in snapshot["segments"][1:]]
    assert "only_after" in viz.compare(smaller, snapshot["segments"], **plain)
    for plot in (viz.trace_plot(snapshot), viz.trace_plot(snapshot, plot_segments=True), viz.segment_plot(snapshot)):
        assert "base64" in plot
    kept = viz.filter_alloc_free_pairs(pickle.loads(data))["device_traces"][0]
    assert {e["action"] for e in kept} == {"segment_alloc", "alloc"}
    print(f"written: {len(snapshot['device_traces'][0])} events, {len(data)} bytes, peak {peak} as planned")


# ---- what PyTorch writes -----------------------------------------------------------------------


def replay(snapshot, device):
    """The peak, and what lives there by category: the viewer's arithmetic, plainly. A file without categories, here
    of a forward pass alone, has them by rules: what was there before, what the pass frees, what it leaves."""
    trace = snapshot["device_traces"][device]
    said = any("category" in e for e in trace)
    before = "unknown" if said else "parameter"
    started, live, events, freed, made = set(), {}, [], set(), []
    for e in reversed(trace):
        if e["action"] == "alloc":
            made.append("unknown" if said else "temporary" if e["addr"] in freed else "activation")
            freed.discard(e["addr"])
        elif e["action"] == "free_completed":
            freed.add(e["addr"])
    for e in trace:
        if e["action"] == "alloc":
            started.add(e["addr"])
        elif e["action"] == "free_completed" and e["addr"] not in started:
            live[e["addr"]] = (e["size"], before)
        if e["action"] == "free_completed":
            started.discard(e["addr"])
    for s in snapshot["segments"]:
        at = s["address"]
        for b in s["blocks"] if s["device"] == device else []:
            if b["state"].startswith("active") and at not in started:
                live[at] = (b["requested_size"], b.get("category", before))
            at += b["size"]
    events.append(dict(live))
    for e in trace:
        if e["action"] == "alloc":
            role = e.get("category", made.pop())
        if e["action"] == "alloc" and e["size"] > 0:
            live[e["addr"]] = (e["size"], role)
            events.append(dict(live))
        elif e["action"] == "free_completed":
            live.pop(e["addr"], None)
    best = max(events, key=lambda l: sum(n for n, _ in l.values()))
    roles = {}
    for n, role in best.values():
        role = {"autograd_detail": "temporary"}.get(role, role)
        roles[role] = roles.get(role, 0) + n
    return sum(n for n, _ in best.values()), roles


def check_read(program, path, snapshot, device, what):
    peak, roles = replay(snapshot, device)
    rows = list(csv.DictReader(io.StringIO(report(program, path, "csv").decode())))
    live, seen, best = {}, {}, 0
    for r in rows:
        if r["action"] == "alloc":
            live[r["role"]] = live.get(r["role"], 0) + int(r["bytes"])
        elif r["action"] == "free":
            live[r["role"]] -= int(r["bytes"])
        assert sum(live.values()) == int(r["live_bytes"])
        if sum(live.values()) > best:
            best, seen = sum(live.values()), {k: v for k, v in live.items() if v}
    assert best == peak, f"{what}: {best}, PyTorch's events say {peak}"
    assert seen == roles, f"{what}: {seen}, PyTorch's events say {roles}"
    return peak


def small_network_snapshot():
    """PyTorch's own: its memory profiler's snapshot of a training step, with its categories."""
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(864, 10))
    optimizer = torch.optim.Adam(net.parameters())
    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as profile:
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(torch.randn(16, 1, 28, 28)), torch.arange(16) % 10).backward()
            optimizer.step()
    assert "base64" in viz.profile_plot(profile)
    return viz._profile_to_snapshot(profile)


def made_snapshot():
    """With the members that the allocator records, of several versions and devices."""
    def frames(line):
        return [{"filename": "??", "line": 0, "name": "torch::unwind::unwind()"},
                {"filename": "??", "line": 0, "name": "at::_ops::addmm::call(at::Tensor const&)"},
                {"filename": "/opt/site-packages/torch/nn/modules/linear.py", "line": 125, "name": "forward"},
                {"filename": "/users/me/net.py", "line": line, "name": "forward"}]

    base, trace = 0x7f0000000000, []
    blocks = [{"address": base, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": frames(1)}]
    where = base + 512
    for i in range(3000):
        size = 512 * (1 + i % 7)
        event = {"action": "alloc", "addr": where, "size": size - 12, "stream": 0, "time_us": 1700000000000000 + 5 * i,
                 "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0), "frames": frames(i % 9)}
        trace.append(event)
        if i % 3:
            for action in ("free_requested", "free_completed"):
                trace.append({**event, "action": action})
        else:
            blocks.append({"address": where, "size": size, "requested_size": size - 12, "frames": frames(i % 9),
                           "state": "active_pending_free" if i % 2 else "active_allocated"})
            where += size
    total = 1 << 24
    blocks.append({"address": where, "size": base + total - where, "requested_size": 0, "state": "inactive",
                   "frames": []})
    trace.append({"action": "oom", "device_free": 1 << 20, "size": 1 << 40, "stream": 0, "time_us": 1, "frames": []})
    trace.append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 2})
    segment = {"device": 2, "address": base, "total_size": total, "stream": 0, "allocated_size": 5, "active_size": 5,
               "requested_size": 5, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
               "frames": [], "blocks": blocks}
    return {"segments": [segment], "device_traces": [[], [], trace, []],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": True,
                                   "garbage_collection_threshold": 0.0, "roundup_power2_divisions": {"1": 0}},
            "external_annotations": [{"name": "step", "stage": "START", "device": 2, "time_us": 3}]}


def check_others(program, folder):
    real, made = small_network_snapshot(), made_snapshot()
    for name, snapshot, device in (("profiler", real, 0), ("allocator", made, 2)):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            path = os.path.join(folder, f"{name}{protocol}")
            with open(path, "wb") as file:
                pickle.dump(snapshot, file, protocol)
            peak = check_read(program, path, snapshot, device, f"{name}, protocol {protocol}")
        path = os.path.join(folder, f"{name}.json")
        with open(path, "w") as file:
            json.dump(snapshot, file)
        assert check_read(program, path, snapshot, device, f"{name}, JSON") == peak
        print(f"read: {name}, {len(snapshot['device_traces'][device])} events, peak {peak}")
    rows = list(csv.DictReader(io.StringIO(report(program, os.path.join(folder, "profiler4"), "csv").decode())))
    assert {r["phase"] for r in rows} >= {"forward", "backward", "step"}
    assert {r["layer"] for r in rows} >= {"Sequential_0/Conv2d_0", "Sequential_0/Linear_0"}
    assert {r["op"] for r in rows} >= {"conv2d", "max_pool2d", "run_backward", "free"}
    rows = list(csv.DictReader(io.StringIO(report(program, path, "csv").decode())))
    assert {r["op"] for r in rows} >= {"aten::addmm"} and any(r["layer"] == "net.py:3 forward" for r in rows)


def check_text(program, folder):
    """The report for people: what the file does not tell is left out or said so, never zero."""
    text = report(program, os.path.join(folder, "profiler4"), "text").decode()
    assert all(f"\n  {phase} " in text for phase in ("forward", "loss", "backward", "step")), text
    assert "training step" not in text, text
    assert "PyTorch snapshot on device 0" in text and "run_backward" in text and "gradient" in text, text
    bare, path = made_snapshot(), os.path.join(folder, "bare")
    for event in bare["device_traces"][2] + bare["segments"][0]["blocks"]:
        event.pop("frames", None)
    with open(path, "wb") as file:
        pickle.dump(bare, file)
    text = report(program, path, "text").decode()
    assert "no frames tell" in text and "\n  forward" not in text and "16,777,216 reserved" in text, text
    both = run(program, "report", os.path.join(folder, "run.jsonl"), "--diff", os.path.join(folder, "profiler4"))
    assert b"gradient" in both and b"Sequent" in both, both
    print("shown: snapshots as text, and beside a profile")


class Planted:
    """A pickle that would write a file if it were executed."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def check_planted(program, folder):
    trap, path = os.path.join(folder, "trap"), os.path.join(folder, "planted")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with open(path, "wb") as file:
            pickle.dump({"segments": [], "device_traces": [[Planted(trap)]]}, file, protocol)
        done = subprocess.run([program, "report", path, "--format", "csv"], capture_output=True, text=True)
        assert done.returncode == 3 and done.stdout == "", done
        assert "would run code" in done.stderr and "byte " in done.stderr, done.stderr
        assert not os.path.exists(trap)
    print("refused: pickles that would run code")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        check_own(sys.argv[1], scratch)
        check_others(sys.argv[1], scratch)
        check_text(sys.argv[1], scratch)
        check_planted(sys.argv[1], scratch)
