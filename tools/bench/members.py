#!/usr/bin/env python3
"""One loop over many small networks: stepwell beside PyTorch and JAX, all in turns within one run.

usage: members.py STEPWELL [--python PYTHON] [--threads 2,1] [--members 200] [--batch 128] [--rounds 50] [--block 4]
                  [--warm 1] [--settle 0.02] [--only SIDES] [--preload FILE] [--out FILE]

STEPWELL is the program; PYTHON an interpreter that has PyTorch, JAX or both (default: this one). Missing packages are
named and left out. Networks are perceptrons 49-64-24-10 with cross-entropy and Adam, and all read one batch. Each
side is a process of its own that waits for a line on its standard input; stepwell's one process has three sides:
members, the same networks as models (one thread), and a control of pure arithmetic. A turn is --warm loops that are
not timed and --block that are; each round begins with another side. --settle seconds lie between two turns, so that
threads that spin for work are asleep when the next side begins.

The first loop of new networks counts making them, tracing and compiling (with empty caches), but no import. PyTorch
runs with malloc told to keep large blocks, denormals flushed, fused Adam; --preload names another malloc for the
peers, such as jemalloc. On one thread JAX is held on one core, since it has no option for that; on several it runs a
second time with the networks shared out over as many CPU devices, where that number divides theirs.
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
OURS = [("members", "stepwell, members"), ("models", "stepwell, models, 1 thread"), ("control", "arithmetic")]
PEERS = [("bmm", "torch", "PyTorch, stacked bmm"), ("compile", "torch", "PyTorch, stacked, compiled"),
         ("vmap", "torch", "PyTorch, torch.func.vmap"), ("nets", "torch", "PyTorch, net by net"),
         ("jax", "jax", "JAX, vmap and jit"), ("sharded", "jax", "JAX, the same on a device a thread")]
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
        print(f"members.py: --python {python}: {why.strerror}; stepwell alone", file=sys.stderr)
        return ["torch", "jax"]
    for name in done.stdout.split():
        print(f"members.py: {python} has no {name} (pip install {name}): left out", file=sys.stderr)
    return done.stdout.split()


def start_all(args, threads, missing, cache):
    """[(side, name, worker)], the members first; and why others are not there."""
    sides, without = [], {}
    command = [args.stepwell, "bench", "members", "--turns", "--threads", str(threads), "--members", str(args.members),
               "--batch", str(args.batch)]
    ours = Worker(command, os.environ, args.patience)
    sides += [(side, name, ours) for side, name in OURS if side == "members" or args.only is None or side in args.only]
    for side, module, name in PEERS:
        if module in missing or (args.only is not None and side not in args.only):
            continue
        if side == "sharded" and (threads == 1 or args.members % threads != 0):
            continue
        env = {**os.environ, **ENV, "OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_CACHE_DIR":
               os.path.join(cache, f"{side}-{threads}")}
        if args.preload:
            env["LD_PRELOAD"] = args.preload
        command = [args.python, os.path.join(HERE, "members_peer.py"), side, str(threads), str(args.members),
                   str(args.batch)]
        try:
            sides.append((side, name, Worker(command, env, args.patience)))
            print(f"threads {threads}: {name} is ready", file=sys.stderr)
        except Failed as why:
            without[name] = str(why)
    return sides, without


def take_turns(args, sides, without):
    """{name: [ns]}, and cores that other processes used meanwhile."""
    found = {name: [] for _, name, _ in sides}
    workers = {id(w): w for _, _, w in sides}.values()
    start, before = time.monotonic(), busy() - sum(w.used() for w in workers)
    for turn in range(args.rounds):
        for side, name, worker in sides[turn % len(sides):] + sides[:turn % len(sides)]:
            if name in without:
                continue
            time.sleep(args.settle)
            try:
                found[name] += worker.ask(side, args.warm, args.block)
            except Failed as why:
                if side == "members":
                    raise
                without[name] = str(why)
        print(f"round {turn + 1} of {args.rounds}", file=sys.stderr)
    others = busy() - before - sum(w.used() for w in workers if w.process.poll() is None)
    return found, max(0.0, others / (time.monotonic() - start))


def ms(ns):
    return f"{ns / 1e6:.2f}"


def table(args, threads, sides, found, others, without):
    lines = [f"## {threads} thread{'s' if threads > 1 else ''}", "",
             f"{args.rounds} rounds of {args.warm} + {args.block} loops of each; meanwhile other processes (this script "
             f"among them) used {others:.2f} cores.", "",
             "| one loop, ms | min | median | p99 | max | of members: min | median | first loop | second |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    base = sorted(found[sides[0][1]])
    for side, name, worker in sides:
        ns = sorted(found[name])
        if not ns:
            continue
        first = [ms(worker.ready[k]) for k in ("first_ns", "second_ns")] if side not in ("models", "control") else ["", ""]
        version = f" ({worker.ready['version']})" if "version" in worker.ready else ""
        lines.append(f"| {name}{version} | {ms(ns[0])} | {ms(statistics.median(ns))} | "
                     f"{ms(ns[min(len(ns) - 1, len(ns) * 99 // 100)])} | {ms(ns[-1])} | {ns[0] / base[0]:.2f} | "
                     f"{statistics.median(ns) / statistics.median(base):.2f} | {first[0]} | {first[1]} |")
    return lines + [""] + [f"Left out: {name}: {why}" for name, why in without.items()]


def run(args):
    lines = ["# A loop over many small networks", "",
             f"`tools/bench/members.py`: {args.members} perceptrons 49-64-24-10, batch {args.batch}, Adam.", ""]
    missing = lacks(args.python)
    for threads in args.threads:
        with tempfile.TemporaryDirectory() as cache:
            sides, without = start_all(args, threads, missing, cache)
            try:
                found, others = take_turns(args, sides, without)
            finally:
                for worker in {id(w): w for _, _, w in sides}.values():
                    worker.end()
        lines += table(args, threads, sides, found, others, without) + [""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("stepwell")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--threads", default="2,1", type=lambda s: [int(x) for x in s.split(",")])
    for name, usual in (("--members", 200), ("--batch", 128), ("--rounds", 50), ("--block", 4), ("--warm", 1)):
        parser.add_argument(name, default=usual, type=int)
    parser.add_argument("--settle", default=0.02, type=float)
    parser.add_argument("--patience", default=300, type=float, help="a peer whose first loop took longer (seconds) is left out")
    parser.add_argument("--only", default=None, type=lambda s: s.split(","))
    parser.add_argument("--preload", default=None)
    parser.add_argument("--out", default=None)
    args = parser.parse_args()
    if args.rounds < 1 or args.block < 1 or args.warm < 0:
        parser.error("--rounds and --block must be at least 1, --warm at least 0")
    if args.preload and not os.path.exists(args.preload):
        parser.error(f"--preload must be a library (got {args.preload})")
    try:
        text = run(args)
    except (Failed, OSError) as why:
        sys.exit(f"members.py: {why}")
    if args.out is None:
        sys.stdout.write(text)
        return
    with open(args.out, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
