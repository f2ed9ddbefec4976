#!/usr/bin/env python3
"""Networks on a device, stepwell beside PyTorch: one command that measures and writes a page.

usage: device.py STEPWELL --out FILE [--python PYTHON] [--device cuda] [--steps 50] [--rounds 2] [--only CASE]
                 [--share 1] [--copy-bytes N] [--side N] [--seconds N]

STEPWELL is the program; PYTHON an interpreter that has PyTorch (default: this one). Without PyTorch the page has
stepwell's figures alone. The card's limits come first. All sides take turns, round by round; each is a process of
its own. A side that fails, or begins later than --seconds after the start, is left out and named. FILE is Markdown;
the figures of each run follow on the page as JSON, one line each.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

CASES = ["mlp4096", "mlp256", "lenet5", "mbconv128", "mbconv16", "gpt124m"]
OURS = [("stepwell", []), ("stepwell, no graphs", ["--no-graphs"])]
PEERS = [("PyTorch, eager", "eager"), ("PyTorch, compiled", "compile"), ("PyTorch, graph", "graph")]
HERE = os.path.dirname(os.path.abspath(__file__))


def call(command, seconds):
    """(object, None) or (None, why not)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"no end within {seconds:.0f} s"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return None, lines[-1]
    try:
        return json.loads(done.stdout.strip().splitlines()[-1]), None
    except (IndexError, ValueError):
        return None, "no JSON on its standard output"


def ours(args, case, words):
    common = ["--device", args.device, "--steps", str(args.steps), "--share", str(args.share), "--copy-bytes",
              str(args.copy_bytes), "--side", str(args.side)]
    found, why = call([args.stepwell, "bench", "device", "--json", "--quiet", "--only", case, *common, *words],
                      args.seconds)
    if found is None:
        return None, why
    if case == "card":
        return {row["kernel"]: row for row in found["card"]}, None
    return found["networks"][0], None


def peer(args, case, mode, words):
    found, why = call([args.python, os.path.join(HERE, "device_torch.py"), case, mode, "--device", args.device,
                       "--steps", str(args.steps), "--share", str(args.share), "--copy-bytes", str(args.copy_bytes),
                       "--side", str(args.side), *words], args.seconds)
    return (found["found"], None) if found is not None else (None, why)


def sides(args, case, torch):
    """(name, how to run it) for a case."""
    rows = [(name, lambda words=words: ours(args, case, words)) for name, words in OURS]
    rows.append(("stepwell, TF32", lambda: ours(args, case, ["--tf32"])))
    if torch:
        rows += [(name, lambda mode=mode: peer(args, case, mode, [])) for name, mode in PEERS
                 if args.device != "cpu" or mode != "graph"]
        rows.append(("PyTorch, compiled, TF32", lambda: peer(args, case, "compile", ["--tf32"])))
    if case == "card":
        rows = [row for row in rows if row[0] in ("stepwell", "PyTorch, eager", "stepwell, TF32")]
    return rows


def measure(args, torch):
    """{(case, side): [figures of each round]}, and what was left out."""
    found, left_out, start = {}, {}, time.monotonic()
    for turn in range(args.rounds):
        for case in (["card"] if args.device != "cpu" else []) + CASES:
            if args.only not in (None, case):
                continue
            rows = sides(args, case, torch)
            for name, run in rows[turn % len(rows):] + rows[:turn % len(rows)]:
                if (case, name) in left_out:
                    continue
                if time.monotonic() - start > args.seconds:
                    figures, why = None, "no time was left"
                else:
                    figures, why = run()
                if figures is None:
                    if (case, name) not in found:
                        left_out[case, name] = why
                    continue
                found.setdefault((case, name), []).append(figures)
                print(f"round {turn + 1}: {case}, {name}", file=sys.stderr)
    return found, left_out


def mib(n):
    return "-" if n is None else f"{n / 2 ** 20:.1f}"


def ms(ns):
    return f"{ns / 1e6:.3f}"


def card_rows(found):
    lines = ["| card | kernel | least, ms | median, ms | GB/s | TFLOP/s |", "|---|---|---:|---:|---:|---:|"]
    for (case, name), rounds in found.items():
        if case != "card":
            continue
        for kernel in rounds[0]:
            least = min(r[kernel]["time"]["min_ns"] for r in rounds)
            median = statistics.median(r[kernel]["time"]["median_ns"] for r in rounds)
            lines.append(f"| {name} | {kernel} | {ms(least)} | {ms(median)} | "
                         f"{max(r[kernel]['gigabytes_per_second'] for r in rounds):.1f} | "
                         f"{max(r[kernel]['teraflops'] for r in rounds):.2f} |")
    return lines


def net_rows(found):
    lines = ["| network | batch | | least, ms | median, ms | in a loop, ms | peak, MiB | card, MiB |",
             "|---|---:|---|---:|---:|---:|---:|---:|"]
    for case in CASES:
        for (which, name), rounds in found.items():
            if which != case:
                continue
            last = rounds[-1]
            lines.append(f"| {case} | {last['batch']} | {name} | {ms(min(r['step']['min_ns'] for r in rounds))} | "
                         f"{ms(statistics.median(r['step']['median_ns'] for r in rounds))} | "
                         f"{ms(statistics.median(r['in_a_loop_ns'] for r in rounds))} | {mib(last['peak_bytes'])} | "
                         f"{mib(last.get('card_bytes'))} |")
    return lines


def driver():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                              capture_output=True, text=True)
    except OSError:
        return "no nvidia-smi"
    return done.stdout.strip() or "nvidia-smi has no card"


def page(args, found, left_out, torch):
    version = subprocess.run([args.stepwell, "--version"], capture_output=True, text=True).stdout.strip()
    lines = [f"# Networks on a device, {datetime.date.today()}", "",
             f"Card and driver: {driver()}. {version.splitlines()[0] if version else 'stepwell'}; "
             f"{torch or 'no PyTorch'}. Written by `tools/bench/device.py`.", "",
             f"{args.rounds} rounds in turns of {args.steps} steps after 5 of warm-up; least of all, median of the "
             "rounds' medians, by device events. fp32 without TF32 where TF32 is not named. \"In a loop\": the clock's "
             "time of a step where none is waited for. Peak: bytes that lived at one time, ours as the run counted "
             "them, PyTorch's as its allocator did (of a graph: what is reserved). Card: what its free memory fell by "
             "since the process had opened it."]
    if args.share > 1:
        lines[-1] += f" **Batches are 1/{args.share} of what they would be.**"
    lines += ["", *card_rows(found), "", *net_rows(found), ""]
    lines += [f"- left out: {case}, {name}: {why}" for (case, name), why in left_out.items()]
    lines += ["", "```"] + [json.dumps({"case": case, "side": name, "rounds": rounds})
                            for (case, name), rounds in found.items()] + ["```", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("stepwell")
    parser.add_argument("--out", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=["card", *CASES])
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--copy-bytes", type=int, default=1 << 30)
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=3600)
    args = parser.parse_args()
    torch = subprocess.run([args.python, "-c", "import torch; print('PyTorch', torch.__version__)"],
                           capture_output=True, text=True).stdout.strip()
    found, left_out = measure(args, torch)
    with open(args.out, "w") as file:
        file.write(page(args, found, left_out, torch))
    for (case, name), why in left_out.items():
        print(f"left out: {case}, {name}: {why}", file=sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
