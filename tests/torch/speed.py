#!/usr/bin/env python3
"""Whole training steps: `stepwell bench speed` beside PyTorch and JAX, all in turns within one run.

usage: speed.py STEPWELL [--model NAME] [--batch N] [--threads N] [--steps N] [--warm N] [--pairs N] [--only WAYS]
                [--ours KINDS] [--isa NAME] [--python PYTHON] [--settle S] [--patience S]

STEPWELL is the program; models and batches are those of its `bench speed`. KINDS are its own sides: float32 (the usual
one), and pair and tile, bf16 in that order; others are compared with the first. Each side is a process of its own
(speed_peer.py) that waits for a line. A turn is --warm steps that are not timed
and --steps that are; each of --pairs rounds begins with another side. --settle seconds lie between two turns, so that
threads that spin for work are asleep when the next side begins. PYTHON is an interpreter with PyTorch, JAX or both
(default: this one); what it lacks is left out. PyTorch runs with malloc told to keep large blocks and with fused
optimizers, eager and compiled. Exit status 77 (skipped) where no peer is there.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Batch, and steps of a turn: before the clock, and timed. Cores that slept are slow for some ten milliseconds.
MODELS = {"lenet5": (128, 30, 100), "mlp200": (128, 10, 30), "lenet5x5": (128, 1, 2), "swishnet": (128, 1, 1),
          "gpt": (8, 1, 3), "mbconv": (32, 1, 3)}
# Those of float32 come by themselves.
WAYS = {"eager": "torch", "compile": "torch", "jax": "jax", "autocast": "torch", "half": "torch"}
NAMES = {"eager": "PyTorch, eager", "compile": "PyTorch, compiled", "jax": "JAX, jit", "autocast": "PyTorch, autocast",
         "half": "PyTorch, all bf16"}
KINDS = {"float32": "stepwell", "pair": "stepwell, bf16 pair", "tile": "stepwell, bf16 tile"}
ENV = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456",
       "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}


class Failed(Exception):
    pass


class Worker:
    """A process that answers lines; `ready` is what it said first."""

    def __init__(self, command, env, seconds):
        self.command, self.errors = command, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=env)
        self.ready = self.read()
        if self.ready["first_ns"] > seconds * 1e9:
            self.end()
            raise Failed(f"its first loop took {self.ready['first_ns'] / 1e9:.0f} s")

    def read(self):
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            self.end()
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines() or [f"{self.command[0]} ended without a word"]
            raise Failed(said[-1])
        return json.loads(line)

    def ask(self, name, warm, count):
        try:
            self.process.stdin.write(f"{name} {warm} {count}\n")
            self.process.stdin.flush()
        except OSError:
            pass  # what it said before shows in read()
        return self.read()["ns"]

    def used(self):
        """Seconds of processor time."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def busy():
    """Seconds that all processors have worked, for whomever."""
    with open("/proc/stat") as file:
        words = file.readline().split()[1:]
    return (sum(int(w) for w in words[:8]) - int(words[3]) - int(words[4])) / os.sysconf("SC_CLK_TCK")


def lacks(python):
    """Modules of the peers that this interpreter has not."""
    test = "import importlib.util as u; print(' '.join(n for n in ('torch', 'jax') if not u.find_spec(n)))"
    try:
        done = subprocess.run([python, "-c", test], capture_output=True, text=True)
    except OSError as why:
        print(f"speed.py: --python {python}: {why.strerror}; no peers", file=sys.stderr)
        return ["torch", "jax"]
    for name in done.stdout.split():
        print(f"speed.py: {python} has no {name} (pip install {name}): left out", file=sys.stderr)
    return done.stdout.split()


def peer_command(args, way):
    return [args.python, os.path.join(HERE, "speed_peer.py"), args.model, way, str(args.threads), str(args.batch)]


def start_all(args, cache):
    """{side: worker}, stepwell's first; and why others are not there."""
    ours = [args.stepwell, "bench", "speed", "--turns", "--model", args.model, "--threads", str(args.threads), "--batch",
            str(args.batch)] + (["--isa", args.isa] if args.isa else [])
    sides, without, missing = {}, {}, lacks(args.python)
    for way in args.only:
        if WAYS[way] in missing:
            without[way] = f"{args.python} has no {WAYS[way]}"
        else:
            env = {**os.environ, **ENV, "OMP_NUM_THREADS": str(args.threads),
                   "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, way)}
            try:
                sides[way] = Worker(peer_command(args, way), env, args.patience)
            except Failed as why:
                without[way] = str(why)
    if sides:
        orders = {kind: ["--bf16-order", kind] if kind != "float32" else [] for kind in args.ours}
        sides = {**{kind: Worker(ours + order, os.environ, args.patience) for kind, order in orders.items()}, **sides}
    return sides, without


def used(sides):
    return sum(worker.used() for worker in sides.values())


def take_turns(args, sides):
    """{side: [ns]}, and cores that other processes used meanwhile."""
    found = {side: [] for side in sides}
    order, start, before = list(sides), time.monotonic(), busy() - used(sides)
    for turn in range(args.pairs):
        for side in order[turn % len(order):] + order[:turn % len(order)]:
            time.sleep(args.settle)
            found[side] += sides[side].ask("step", args.warm, args.steps)
    others = (busy() - used(sides) - before) / (time.monotonic() - start)
    return found, max(0.0, others)


def ms(ns):
    return f"{ns / 1e6:.3f}"


def report(args, sides, found, others, without):
    print(f"{args.model}, batch {args.batch}, {args.threads} threads: {args.pairs} rounds of {args.warm} + {args.steps} "
          f"steps of each; others used {others:.2f} cores")
    print(f"{'one step, ms':28} {'min':>10} {'median':>10} {'of the first: min':>18} {'median':>8}")
    base = found[args.ours[0]]
    for side, ns in found.items():
        name = KINDS.get(side) or f"{NAMES[side]} ({sides[side].ready['version']})"
        print(f"{name:28} {ms(min(ns)):>10} {ms(statistics.median(ns)):>10} {min(ns) / min(base):18.2f} "
              f"{statistics.median(ns) / statistics.median(base):8.2f}")
    for way, why in without.items():
        print(f"left out: {NAMES[way]}: {why}")


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("stepwell")
    parser.add_argument("--model", default="lenet5", choices=MODELS)
    parser.add_argument("--only", default=["eager", "compile", "jax"], type=lambda s: s.split(","))
    parser.add_argument("--ours", default=["float32"], type=lambda s: s.split(","))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--isa", default=None)
    for name, usual in (("--batch", None), ("--threads", 2), ("--steps", None), ("--warm", None), ("--pairs", 15)):
        parser.add_argument(name, default=usual, type=int)
    parser.add_argument("--settle", default=0.05, type=float)
    parser.add_argument("--patience", default=300, type=float, help="a peer whose first step took longer (seconds) is left out")
    args = parser.parse_args()
    batch, warm, steps = MODELS[args.model]
    args.batch, args.steps, args.warm = args.batch or batch, args.steps or steps, warm if args.warm is None else args.warm
    if args.pairs < 1 or args.steps < 1 or args.warm < 0 or not (set(args.only) <= set(WAYS) and set(args.ours) <= set(KINDS)):
        parser.error("--pairs and --steps must be at least 1, --warm at least 0, --only of " + ", ".join(WAYS) + ", --ours of " + ", ".join(KINDS))
    return args


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as cache:
        try:
            sides, without = start_all(args, cache)
            try:
                found, others = take_turns(args, sides) if sides else ({}, 0.0)
            finally:
                for worker in sides.values():
                    worker.end()
        except (Failed, OSError) as why:
            sys.exit(f"speed.py: {why}")
    if not sides:
        print("skipped: " + "; ".join(f"{NAMES[way]}: {why}" for way, why in without.items()))
        sys.exit(77)
    report(args, sides, found, others, without)


if __name__ == "__main__":
    main()
