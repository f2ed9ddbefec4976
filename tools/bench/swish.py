#!/usr/bin/env python3
"""The Swish experiment: one command that measures and writes a section of the guide.

usage: swish.py STEPWELL [--out FILE] [--batches 128,512,2688] [--width 4096] [--layers 8] [--threads 2]
                [--rounds 2] [--steps 3] [--python PYTHON]

STEPWELL is the program; PYTHON an interpreter that has PyTorch (default: this one). Without PyTorch there are
stepwell's figures alone. Runs of all variants take turns, round by round, so that a machine that changes its speed
does it to all; times are of the steps after the first of each run. In a FILE that has the two marks (tools/docs/budgets.md) only
what stands between them is replaced.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

PHASES = ["data", "forward", "loss", "backward", "step"]
MARKS = ("<!-- written by tools/bench/swish.py -->\n", "<!-- end of swish.py -->\n")
ARTICLE = [[524, 1552, 1552, 1044, 1044], [1044, 2072, 2072, 1044, 1044]]

# Each line has what the one before has, and one thing more. An option that this stepwell does not know is left out
# with its line.
OURS = [
    ("stepwell, naive", "x times sigmoid(x) from primitive ops, nothing else",
     ["--activation", "swish-naive", "--update", "after", "--no-rebuild", "--no-tiles", "--no-strips"]),
    ("stepwell, swish", "one op, which keeps its input alone",
     ["--activation", "swish", "--update", "after", "--no-rebuild", "--no-tiles", "--no-strips"]),
    ("stepwell, rebuilt", "the input of the next layer is recomputed in backward",
     ["--activation", "swish", "--update", "after", "--no-tiles", "--no-strips"]),
    ("stepwell, released", "each weight is updated right after its gradient, which ends there",
     ["--activation", "swish", "--update", "release", "--no-tiles", "--no-strips"]),
    ("stepwell, tiles", "weights are updated tile by tile",
     ["--activation", "swish", "--update", "release", "--no-strips"]),
    ("stepwell, strips", "swish is made and used up strip by strip, its gradients too: the default",
     ["--activation", "swish", "--update", "release"]),
]
KEPT = ("stepwell, kept", "naive, and gradients stay from step to step",
        ["--activation", "swish-naive", "--keep-gradients", "--no-rebuild", "--no-tiles", "--no-strips"])
PEERS = [("PyTorch, naive", "x * torch.sigmoid(x)", ["naive", "none"]),
         ("PyTorch, SiLU", "torch.nn.SiLU()", ["silu", "none"])]
PEER_KEPT = ("PyTorch, naive, kept", "zero_grad() right before backward", ["naive", "kept"])

# glibc gives large blocks back to the system and faults them in again in each step. PyTorch is faster without that.
PEER_ENV = {"MALLOC_MMAP_THRESHOLD_": "17179869184", "MALLOC_TRIM_THRESHOLD_": "17179869184",
            "MALLOC_TOP_PAD_": "268435456"}


class Failed(Exception):
    pass


def known_options(stepwell):
    text = subprocess.run([stepwell, "train", "--help"], capture_output=True, text=True, check=True).stdout
    return {word for word in text.split() if word.startswith("--")}


def run_ours(args, known, words, batch):
    """Records of the training steps of one run."""
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "profile")
        command = [args.stepwell, "train", "--quiet", "--model", "swishnet", "--width", str(args.width),
                   "--layers", str(args.layers), "--batch", str(batch), "--synthetic-n", str(batch),
                   "--epochs", str(args.steps), "--schedule", "constant", "--threads", str(args.threads),
                   "--profile", profile] + [w for w in words if not w.startswith("--no-") or w in known]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: {done.stderr.strip()}")
        with open(profile) as file:
            records = [json.loads(line) for line in file]
    steps = [r for r in records if r["type"] == "step" and r["run"] == "train"]
    if len(steps) != args.steps:
        raise Failed(f"{' '.join(command)}: {len(steps)} steps in the profile")
    phases = [{p: {k: r["phases"][p][k] for k in ("peak_bytes", "end_bytes")} for p in PHASES} for r in steps]
    return {"phases": phases, "ns": [r["ns"] for r in steps]}


def run_peer(args, words, batch, what):
    command = [args.python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "swish_torch.py"), str(batch),
               str(args.width), str(args.layers), *words, str(args.threads), str(args.steps), what]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **PEER_ENV})
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return {"phases": found["steps"], "ns": found["ns"], "version": found["torch"]}


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def mib(n):
    return f"{n / 2**20:.1f}"


def peak(phases):
    return max(p["peak_bytes"] for p in phases.values())


def measure(args, known, peers):
    """{batch: {name: {"phases", "ns"}}}, in rounds over all that is compared."""
    newer = [word for word in ("tiles", "strips") if "--no-" + word not in known]
    ours = [row for row in OURS if row[0].split()[-1] not in newer]
    found = {batch: {} for batch in args.batches}
    for turn in range(args.rounds):
        for batch in args.batches:
            for name, _, words in ours + ([KEPT] if turn == 0 else []):
                one = run_ours(args, known, words, batch)
                kept = found[batch].setdefault(name, {"phases": one["phases"], "ns": []})
                if kept["phases"] != one["phases"]:
                    raise Failed(f"{name}, batch {batch}: other bytes in another run")
                kept["ns"] += one["ns"][1:]
            for name, _, words in (PEERS + ([PEER_KEPT] if turn == 0 else [])) if peers else []:
                if turn == 0:
                    found[batch][name] = {**run_peer(args, words, batch, "bytes"), "ns": []}
                found[batch][name]["ns"] += run_peer(args, words, batch, "times")["ns"][1:]
            print(f"round {turn + 1}, batch {batch}", file=sys.stderr)
    return found


def ratio(mine, theirs):
    return f"{mine / theirs:.3f}" if theirs else "-"


def summary(found, names):
    """Peaks of the last step, beside PyTorch's, and times."""
    theirs = {name: peak(found[name]["phases"][-1]) for name, _, _ in PEERS if name in found}
    lines = ["| | peak of step 3, MiB | of PyTorch naive | of PyTorch SiLU | step, s: least | median |",
             "|---|---:|---:|---:|---:|---:|"]
    for name in names:
        if name not in found:
            continue
        mine, ns = peak(found[name]["phases"][-1]), found[name]["ns"]
        lines.append(f"| {name} | {mib(mine)} | {ratio(mine, theirs.get(PEERS[0][0]))} | "
                     f"{ratio(mine, theirs.get(PEERS[1][0]))} | {min(ns) / 1e9:.3f} | "
                     f"{statistics.median(ns) / 1e9:.3f} |")
    return lines


def why(found):
    """The second step of the article, in whole MiB at the ends of the phases."""
    lines = ["| | step | " + " | ".join(PHASES) + " |", "|---|---|" + "---:|" * len(PHASES)]
    for i, row in enumerate(ARTICLE):
        lines.append(f"| the article, MB | {i + 1} | " + " | ".join(str(x) for x in row) + " |")
    for name in [PEER_KEPT[0], PEERS[0][0], KEPT[0], OURS[0][0], OURS[-2][0]]:
        for i, phases in enumerate(found.get(name, {"phases": []})["phases"][:2]):
            cells = [mib(phases[p]["end_bytes"]) if phases[p]["end_bytes"] else "-" for p in PHASES]
            lines.append(f"| {name} | {i + 1} | " + " | ".join(cells) + " |")
    return lines


def page(args, found, version):
    names = [row[0] for row in OURS + [KEPT] + PEERS + [PEER_KEPT]]
    said = [f"- **{name}**: {text}." for name, text, _ in OURS + [KEPT] + (PEERS + [PEER_KEPT] if version else [])
            if name in found[args.batches[-1]]]
    peer = (f"PyTorch {version}, CPU, {args.threads} threads, fused SGD, gradients set to none before forward, malloc "
            "told to keep large blocks (" + ", ".join(f"{k}={v}" for k, v in PEER_ENV.items()) + "). Its bytes are "
            "those of all storages that live, watched through weak references at every op; what a kernel takes inside "
            "itself is not seen.") if version else "PyTorch was not installed: stepwell alone."
    out = ["`python3 tools/bench/swish.py BUILD/tools/stepwell --out tools/docs/budgets.md` writes this section: "
           f"{args.layers} linear layers of {args.width}, each followed by swish, mean squared error, SGD, "
           f"{args.threads} threads. Live bytes: parameters, batch and everything else that a step holds. "
           f"{args.rounds} round{'s' if args.rounds > 1 else ''} of {args.steps} steps, all variants in turns; times are of the steps after the "
           "first of each run.", "", peer, ""] + said
    for batch in args.batches:
        out += ["", f"### Batch {batch}", ""] + summary(found[batch], names)
    out += ["", "### Why the second step of the article is larger than the first", "",
            f"MiB at the end of each phase, batch {args.batches[-1]}. The article's step 2 begins with the gradients of "
            "step 1: its loop sets them to zero right before backward, so all of them lie beside the activations "
            "while forward runs. A loop that frees them before forward repeats step 1. stepwell plans its bytes "
            "before the first step. With `--keep-gradients` each step is like the article's second, and without "
            "it each is like the first; released gradients are never there all at once.", ""]
    return "\n".join(out + why(found[args.batches[-1]])) + "\n"


def main():
    parser = argparse.ArgumentParser(description="The Swish experiment: measure and write its section.")
    parser.add_argument("stepwell")
    parser.add_argument("--out", default=None, help="where it goes (default: standard output)")
    parser.add_argument("--batches", default="128,512,2688", type=lambda s: [int(x) for x in s.split(",")])
    for name, usual in (("--width", 4096), ("--layers", 8), ("--threads", 2), ("--rounds", 2), ("--steps", 3)):
        parser.add_argument(name, default=usual, type=int)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has PyTorch")
    args = parser.parse_args()
    if args.steps < 3 or args.rounds < 1:
        parser.error("--steps must be at least 3, --rounds at least 1")
    try:
        known = known_options(args.stepwell)
        peers = has_torch(args.python)
        found = measure(args, known, peers)
    except (Failed, OSError, subprocess.CalledProcessError) as why_not:
        sys.exit(f"swish.py: {why_not}")
    version = found[args.batches[0]][PEERS[0][0]]["version"] if peers else None
    text = page(args, found, version)
    if args.out is None:
        sys.stdout.write(text)
        return
    old = ""
    if os.path.exists(args.out):
        with open(args.out) as file:
            old = file.read()
    before, begin, rest = old.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    with open(args.out, "w") as file:
        file.write(before + begin + text + end + after if end else text)


if __name__ == "__main__":
    main()
