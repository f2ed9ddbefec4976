#!/usr/bin/env python3
"""One network on a device, stepwell beside PyTorch, or what the card can do by both: measured, and written to a page.

usage: device.py STEPWELL CASE --out FILE [--python PYTHON] [--device cuda] [--steps 50] [--rounds 2] [--share 1]
                 [--copy-bytes N] [--side N] [--seconds 500]

STEPWELL is the program; CASE card, mlp4096, mlp256, lenet5, mbconv128, mbconv16 or gpt124m; PYTHON an interpreter that
has PyTorch (default: this one). Without PyTorch the page has stepwell's figures alone. All sides take turns, round by
round, those that matter most first; each is a process of its own. A side that fails is left out and named, as is
one that has no figures when --seconds are over. The page is written anew after each side, so that it is there whenever
this ends: FILE is Markdown; the figures of each run follow as JSON, one line each. PyTorch compiles into an empty
folder of this run, so the first step of the first round is a cold one.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

CASES = ["card", "mlp4096", "mlp256", "lenet5", "mbconv128", "mbconv16", "gpt124m"]
EAGER, COMPILED = "PyTorch, eager, TF32", "PyTorch, compiled, bf16"
# (name, mode of device_torch.py or None for stepwell, words)
NETWORK = [("stepwell, TF32", None, ["--tf32"]), (COMPILED, "compile", ["--bf16", "--tf32"]), (EAGER, "eager", ["--tf32"]),
           ("stepwell, bf16", None, ["--precision", "bf16"]), ("PyTorch, compiled, TF32", "compile", ["--tf32"]),
           ("stepwell, fp32", None, []), ("stepwell, TF32, no graphs", None, ["--tf32", "--no-graphs"]),
           ("PyTorch, graph, TF32", "graph", ["--tf32"])]
CARD = [("stepwell, TF32", None, ["--tf32"]), (EAGER, "eager", ["--tf32"]), ("stepwell, fp32", None, []),
        ("PyTorch, eager, fp32", "eager", [])]
HERE = os.path.dirname(os.path.abspath(__file__))


def call(command, seconds, env=None):
    """(object, None) or (None, why not)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=env)
    except subprocess.TimeoutExpired:
        return None, f"no end in the {seconds:.0f} s that were left"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return None, next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception):", line)), lines[-1])
    try:
        return json.loads(done.stdout.strip().splitlines()[-1]), None
    except (IndexError, ValueError):
        return None, "no JSON on its standard output"


def run(args, mode, words, seconds, cache):
    """The figures of one side: of a network, or by kernel of the card."""
    common = ["--device", args.device, "--steps", str(args.steps), "--share", str(args.share), "--copy-bytes",
              str(args.copy_bytes), "--side", str(args.side), *words]
    if mode is None:
        found, why = call([args.stepwell, "bench", "device", "--json", "--quiet", "--only", args.case, *common], seconds)
        if found is not None and args.case == "card":
            return {row["kernel"]: row for row in found["card"]}, None
        return (found["networks"][0], None) if found is not None else (None, why)
    env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache, TRITON_CACHE_DIR=os.path.join(cache, "triton"))
    found, why = call([args.python, os.path.join(HERE, "device_torch.py"), args.case, mode, *common], seconds, env)
    return (found["found"], None) if found is not None else (None, why)


def measure(args, sides, write):
    """{side: [figures of each round]} and {side: why not}, given to write() whenever they change."""
    found, left_out, start = {}, {}, time.monotonic()
    with tempfile.TemporaryDirectory() as cache:
        for turn in range(args.rounds):
            for name, mode, words in sides[turn % len(sides):] + sides[:turn % len(sides)]:
                left = args.seconds - (time.monotonic() - start)
                figures, why = None, "no time was left"
                if name not in left_out and left > 0:
                    figures, why = run(args, mode, words, left, os.path.join(cache, re.sub(r"\W+", "-", name)))
                if figures is not None:
                    found.setdefault(name, []).append(figures)
                elif name not in found:
                    left_out.setdefault(name, why)
                write(found, left_out)
    return found, left_out


def mib(n):
    return "-" if n is None else f"{n / 2 ** 20:.1f}"


def ms(ns):
    return f"{ns / 1e6:.3f}"


def table(*rows):
    """The first row: names of columns; numbers stand on the right."""
    line = ["---" if i == 0 else "---:" for i in range(len(rows[0]))]
    return ["| " + " | ".join(row) + " |" for row in (rows[0], line, *rows[1:])] + [""]


def card_rows(found):
    rows = [("card", "kernel", "least, ms", "median, ms", "GB/s", "TFLOP/s")]
    for name, rounds in found.items():
        for kernel in rounds[0]:
            at = [r[kernel] for r in rounds]
            rows.append((name, kernel, ms(min(r["time"]["min_ns"] for r in at)),
                         ms(statistics.median(r["time"]["median_ns"] for r in at)),
                         f"{max(r['gigabytes_per_second'] for r in at):.1f}", f"{max(r['teraflops'] for r in at):.2f}"))
    return table(*rows)


def net_rows(case, found):
    medians = {name: statistics.median(r["step"]["median_ns"] for r in rounds) for name, rounds in found.items()}

    def times(name, peer):
        return f"{medians[name] / medians[peer]:.2f}" if medians.get(peer) else "-"

    steps = [(case, "batch", "least, ms", "median, ms", "times eager TF32", "times compiled bf16", "in a loop, ms", "peak, MiB",
              "card, MiB", "launches")]
    first = [(case, "first step, s")]
    for name, rounds in found.items():
        last = rounds[-1]
        steps.append((name, str(last["batch"]), ms(min(r["step"]["min_ns"] for r in rounds)), ms(medians[name]),
                      times(name, EAGER), times(name, COMPILED),
                      ms(statistics.median(r["in_a_loop_ns"] for r in rounds)), mib(last["peak_bytes"]),
                      mib(last.get("card_bytes")), str(last.get("launches") or "-")))
        cold = ": cold compile and one step" if "compiled" in name else ""
        first.append((name + cold, f"{rounds[0]['first_step_ns'] / 1e9:.2f}"))
    return table(*steps) + table(*first)


def page(args, found, left_out, torch):
    rounds = max([len(r) for r in found.values()] or [0])
    ours = [row["cublaslt"] for r in found.values() for row in (r[0], r[0].get("product", {})) if "cublaslt" in row]
    lines = [f"## {args.case}", "",
             f"{torch or 'no PyTorch'}; cuBLASLt {ours[0] if ours else 'not said'}. {rounds} rounds of {args.steps} steps after 5 of warm-up; least of all, median of the rounds' "
             "medians, by device events. bf16 of PyTorch: autocast; channels last where there are convolutions; compiled: net "
             "and loss. In a loop: the clock's time of a step where none is waited for. Peak: bytes that lived at one time, "
             "ours as the run counted them, PyTorch's as its allocator did (of a graph: what is reserved). Card: what its "
             "free memory fell by since the process had opened it."]
    if args.share > 1:
        lines[-1] += f" **Batches are 1/{args.share} of what they would be.**"
    rows = [] if not found else card_rows(found) if args.case == "card" else net_rows(args.case, found)
    lines += ["", *rows]
    lines += [f"- left out: {name}: {why}" for name, why in left_out.items()]
    lines += ["", "```"] + [json.dumps({"case": args.case, "side": name, "rounds": r}) for name, r in found.items()]
    return "\n".join(lines + ["```", ""])


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("stepwell")
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--out", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--copy-bytes", type=int, default=1 << 30)
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=500)
    args = parser.parse_args()
    torch = subprocess.run([args.python, "-c", "import torch; print('PyTorch', torch.__version__)"],
                           capture_output=True, text=True).stdout.strip()
    sides = [side for side in (CARD if args.case == "card" else NETWORK)
             if side[1] is None or torch and (args.device != "cpu" or side[1] != "graph")]

    def write(found, left_out):
        with open(args.out + ".new", "w") as file:
            file.write(page(args, found, left_out, torch))
        os.replace(args.out + ".new", args.out)

    write({}, {})
    found, left_out = measure(args, sides, write)
    for name, why in left_out.items():
        print(f"left out: {args.case}, {name}: {why}", file=sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
