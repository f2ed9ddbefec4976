#!/usr/bin/env python3
"""The whole process, seen from inside by `stepwell train --process` and from outside by the system: what our ranges hold is what was
predicted, every other byte has a name, and two batch sizes differ by what their plans differ."""
import os

from frame import CHECKED, STEADY, Run, Skip, check, main, run, said, test

SMALL = "train --json --quiet --model mlp --synthetic-n 100 --batch 50 --steps 2"
REST = 64 << 10  # nearly nothing may be unexplained: what the loader of programs keeps may lie apart


def need_maps():
    if not (os.access("/proc/self/smaps", os.R_OK) and os.access("/proc/self/pagemap", os.R_OK)):
        raise Skip("no /proc/self/smaps")


def need_steady():
    if not STEADY:
        raise Skip("a sanitizer has memory of its own")


@test("what is resident is what was predicted, and the rest has names")
def resident():
    """The lines add up, and each arena has what was predicted."""
    need_maps()
    need_steady()
    rests = []
    for words in ("--model mlp --synthetic-n 1000 --batch 100 --steps 4", "--model lenet5 --synthetic-n 1000 --batch 100 --steps 4",
                  "--model mlp --hidden 700,300 --synthetic-n 150 --batch 64 --steps 5 --threads 3",
                  "--model lenet5 --synthetic-n 150 --batch 64 --epochs 2 --threads 2",
                  "--model lenet5 --synthetic-n 300 --batch 7 --steps 3 --optimizer sgd",
                  "--model lenet5 --synthetic-n 300 --batch 50 --steps 3 --immediate", "--model mlp --synthetic-n 40 --batch 100 --steps 1",
                  "--model mlp --synthetic-n 300 --batch 50 --steps 3 --witness"):
        x = said(f"train --json --quiet --process {words}")["process"]
        arenas = [line for line in x["lines"] if "predicted_bytes" in line]
        check(len(arenas) == 3 and sum(line["resident_bytes"] for line in x["lines"]) == x["resident_bytes"], words, x)
        if not CHECKED:
            check(x["equal"] is True and all(line["resident_bytes"] == line["predicted_bytes"] for line in arenas), words, arenas)
        rests.append(x["unexplained_bytes"])
        check(rests[-1] <= REST, words, rests[-1], "bytes are unexplained")
    print(f"      {len(rests)} runs, at most {max(rests)} bytes unexplained")


@test("the profile has it too")
def profile():
    """The same record; without the option nothing is read or written."""
    need_maps()
    x = said(f"{SMALL} --process --profile process.jsonl")["process"]
    assert isinstance(x, dict) and x == said("report --json process.jsonl")["process"]
    assert "Resident bytes of the process" in run("report process.jsonl").out
    assert "process" not in said(SMALL)


@test("without /proc it says so")
def without():
    """In a namespace with an empty /proc."""
    need_steady()
    empty = "mount -t tmpfs none /proc"
    if Run(f"unshare -rm sh -c '{empty}'", shell=True).wait().status != 0:
        raise Skip("no namespace with an empty /proc to be had")
    done = Run(f"unshare -rm sh -c '{empty} && exec \"$P\" {SMALL} --process'", shell=True).wait(60)
    check(done.status == 0 and "/proc/self/smaps: " in done.err and done.err.count("\n") == 1, done)
    assert done.json["process"] is None and done.json["steps"] == 2


def off_by(words, small, large):
    """By how much the large batch needs more: measured less predicted, as a share of the latter."""
    a, b = (run(f"train --json --quiet {words} --batch {batch}") for batch in (small, large))
    if a.peak_bytes <= 0 or b.peak_bytes <= 0:
        raise Skip("the system does not say what a process needed at most")
    predicted, seen = b.json["total_bytes"] - a.json["total_bytes"], b.peak_bytes - a.peak_bytes
    check(predicted > 20e6, words, "only", predicted, "bytes")
    print(f"      {words}, batch {small} and {large}: {seen} bytes more, {predicted} predicted ({seen / predicted - 1:+.2%})")
    return abs(seen / predicted - 1)


@test("from outside two batches differ as predicted")
def outside():
    """The same images in both processes, so that nothing differs but the batch. The kernel counts pages in batches, for each thread and
    core: what it says is a little off now and then."""
    need_steady()
    for row in (("--model mlp --hidden 1024 --synthetic-n 4096 --steps 1", 512, 4096), ("--model lenet5 --synthetic-n 4096 --steps 1", 1024, 4096)):
        check(any(off_by(*row) <= 0.01 for _ in range(4)), row, "off by more than 1 % four times")


main("process")
