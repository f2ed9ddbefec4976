#!/usr/bin/env python3
"""Real snapshots of PyTorch as a table: steps, roles at the peak, proof, seconds, and what would help with its bytes.

usage: real_snapshots.py STEPWELL [FILE...]

Without files those of $STEPWELL_DATA/pytorch-snapshots, else of ../shared/data beside the tree, are held to what is known of
them: their steps, nothing unknown at the peak, causes that are proved, less than a second, and the changes that gain.
Exit status 77 (skipped) where they are missing.
"""
import json
import os
import subprocess
import sys
import time

# steps, and what gains, the most first; of several devices all together
KNOWN = {
    "gpt-forward-24-layers": (0, []),
    "gpt-one-step-24-layers": (1, ["attention 2415919104", "norm 411041792", "activation 402653184", "expandable 121634816", "loss 62857220"]),
    "gpt-one-step-32-layers": (1, ["expandable 5599395840"]),
    "gpt-one-step-36-layers": (1, ["zero_grad 3809734652", "attention 1509949440", "softmax 754974720", "activation 754974720",
                                   "norm 382730240"]),
    "no-optimizer-frames": (1, ["attention 2415919104", "softmax 1207959552", "activation 1207959552", "loss 655523836"]),
    "out-of-memory-two-devices": (0, []),
    "served-model": (0, []),
    "ten-steps": (10, ["expandable 20971520"]),
}


def look(stepwell, path):
    """A row for each device; what is wrong with the file."""
    began = time.monotonic()
    done = subprocess.run([stepwell, "report", path, "--replan", "--json"], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    name = os.path.basename(path).split(".")[0]
    if done.returncode != 0:
        return [f"{name}: {done.stderr.strip()}"], [f"{name}: status {done.returncode}"]
    rows, wrong, steps, gains = [], [], 0, []
    for device in json.loads(done.stdout)["devices"]:
        whole = sum(role["bytes"] for role in device["roles"])
        unknown = sum(role["bytes"] for role in device["roles"] if role["role"] == "unknown")
        proof, causes = device["proof"], device["causes"] or {}
        proved = "no segments" if proof is None else f"from {proof['unknown_from']} on unknown" if proof["why"] else "whole"
        if causes.get("unsure_bytes"):
            proved += f", up to {causes['unsure_bytes']:,} unsure"
        roles = ", ".join(f"{role['role']} {100 * role['bytes'] / whole:.1f} %" for role in device["roles"][:4])
        rows.append(f"{name}, {device['device']}: {device['steps']} {device['steps_are']}; {roles}; unknown "
                    f"{100 * unknown / whole if whole else 0:.2f} %; proof {proved}; {seconds:.2f} s")
        rows += [f"    -{change['bytes']:>16,}  {change['change']}" for change in device["help"]] or ["    nothing that would help"]
        steps += device["steps"]
        gains += [f"{change['change']} {change['bytes']}" for change in device["help"]]
        if unknown:
            wrong.append(f"{name}: {unknown} bytes are unknown")
        if proof is not None and proof["why"]:
            wrong.append(f"{name}: {proof['why']}")
    if name in KNOWN and (steps, gains) != KNOWN[name]:
        wrong.append(f"{name}: {steps} steps and {gains}, and must be {KNOWN[name]}")
    if seconds > 1:
        wrong.append(f"{name}: {seconds:.2f} s")
    return rows, wrong


def main():
    stepwell, files = sys.argv[1], sys.argv[2:]
    known = not files
    if known:
        here = os.path.dirname(os.path.abspath(__file__))
        data = os.environ.get("STEPWELL_DATA", os.path.join(here, "../../../shared/data"))
        folder = os.path.join(data, "pytorch-snapshots")
        if not os.path.isdir(folder):
            print(f"skipped: {folder} is not there")
            return 77
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".pickle.gz")]
    mistakes = []
    for path in files:
        rows, wrong = look(stepwell, path)
        print("\n".join(rows))
        mistakes += wrong if known else []
    for mistake in mistakes:
        print("wrong:", mistake)
    print(f"{len(files)} files, {len(mistakes)} mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
