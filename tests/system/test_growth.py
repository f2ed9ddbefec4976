#!/usr/bin/env python3
"""Profile and report from one end to the other: a run that leaks is named by what and where, a clean one is not; what did not fit says who
would have held it; the heap's own profile. And steps after the warm-up take no memory, counted from outside."""
import os
import re
import shutil

from frame import FULL, PROGRAM, STEADY, Run, Skip, check, get, main, raw, run, said, test


def steady(steps, plant="", before=""):
    """The figures that the program `steady` prints of so many steps after the warm-up, with what is planted."""
    if not STEADY:
        raise Skip("sanitizers have a heap of their own")
    done = Run(f"exec {before} '{os.path.dirname(PROGRAM)}/../tests/system/steady' {steps} profile {plant}", shell=True).wait(900)
    check(done.status == 0, done)
    return re.match(r"steps (\d+) heap_calls (\d+) first (\S+) allocations (\d+)", done.out).groups()


def growth_of(steps, plant=""):
    """The growth that is reported of them."""
    steady(steps, plant)
    return said("report --json profile")["growth"]


def row_of(growth, purpose):
    return next((row for row in growth["rows"] if row["purpose"] == purpose), None)


@test("nothing grows in a clean run")
def clean():
    """Warm-up, last partial batches and evaluation plan programs: none of that is growth."""
    assert growth_of(1000 if FULL else 100)["grew"] is False
    assert "  nothing grew\n" in run("report profile").out


@test("a leak of data is named within two steps")
def leak():
    """The warm-up takes an epoch of 16 batches and a step. A leak after step 18 is in the record of step 19, and by step 20 it is growth."""
    growth = growth_of(3, "data")
    row = row_of(growth, "datasets")
    check(row and row["place"].startswith("runtime/data/") and row["bytes_per_step"] >= 5 * 28 * 28 and row["first_step"] == 19, growth)
    assert "datasets grows by" in run("report profile").out


@test("a leak outside is named so")
def outside():
    """Memory that the library did not take is named so; by which means, where the heap can tell."""
    for plant, purpose, place, least in (("malloc", "malloc", "outside the library's heap", 10000),
                                         ("pages", "process", "not by malloc", 8000)):
        growth = growth_of(3000 if FULL else 150, plant)
        if "malloc" not in growth["series"]:
            raise Skip("this heap does not say what it has given out")
        row = row_of(growth, purpose)
        check(row and place in row["place"] and row["bytes_per_step"] >= least, plant, growth)
        assert row_of(growth, "datasets") is None


@test("nothing grows over 100,000 steps")
def long():
    """The program itself: epochs, loaders, validations, and hundreds of last partial batches."""
    steps = 100000 if FULL else 3000
    run(f"train --model mlp --hidden 16 --synthetic-n 3210 --batch 32 --steps {steps} --epochs 1000000 --quiet --profile profile")
    x = said("report --json profile")
    check(x["growth"]["grew"] is False and x["steps"] == steps, x)
    print(f"      {steps} steps, {x['evaluations']} evaluation runs")


@test("a refusal names who held it and what fits")
def denied():
    """The largest batch that it names is accepted, and one more is not."""
    job = "train --model lenet5 --quiet --synthetic-n 200 --steps 1 --no-recompute --memory-budget 1MiB"
    done = run(f"{job} --batch 128 --profile profile", 4)
    check(done.failed_cleanly(4), done)
    x = said("report --json profile")
    d = x["denied"]
    assert (x["status"], d["limited_by"], d["limit_bytes"], len(d["holders"])) == ("failed", "budget", 1 << 20, 10)
    assert d["holders"][0]["name"] == "conv1/max_pool2d.grad" and d["largest_batch"] > 0 and d["largest_batch_bytes"] <= 1 << 20
    run(f"{job} --batch {d['largest_batch']}")
    run(f"{job} --batch {d['largest_batch'] + 1}", 4)
    assert run("report profile").out.startswith("It did not fit\n")  # before all else


@test("the heap profile is written on request")
def heap():
    words = "train --model mlp --quiet --synthetic-n 200 --steps 1 --batch 16 --heap-profile heap"
    done = run(words, 1, MALLOC_CONF="prof:false")
    check(done.failed_cleanly(1) and "--heap-profile" in done.err and not os.path.exists("heap"), done)
    if "MALLOC_CONF=prof:true" not in done.err:
        check("-Djemalloc=enabled" in done.err or "--enable-prof" in done.err, done)
        raise Skip("this build has no jemalloc, or one without a heap profile")
    run(words, MALLOC_CONF="prof:true,lg_prof_sample:0")
    assert raw("heap").startswith(b"heap_v2/") and len(raw("heap")) > 100


@test("planted calls of the heap are seen")
def heap_seen():
    calls = int(steady(20, "heap")[1])
    check(calls >= 40, calls, "calls")  # one each way, a step and more


STEPS = 10000 if FULL else 100


@test("steps make no call of the heap, loaders and profile included")
def heap_calls():
    steps, calls, first, allocations = steady(STEPS)
    check(calls == "0", calls, "calls, the first from", first)
    assert allocations == "0"  # the library's own count says the same
    print(f"      {steps} steps, {calls} calls of the heap")


def traced(steps, plant=""):
    """System calls for memory between the two marks."""
    if not shutil.which("strace") or Run("strace -f --seccomp-bpf -o trace true", shell=True).wait().status:
        raise Skip("strace is not installed or may not trace here")
    steady(steps, plant, "strace -f -qq --seccomp-bpf -o trace -e trace=mmap,munmap,mremap,brk,mprotect,madvise,getppid")
    parts = re.split(r".*getppid\(.*\n", get("trace"))
    assert len(parts) == 3
    return parts[1].splitlines()


@test("steps ask the system for no memory")
def system_calls():
    planted = len(traced(20, "system"))
    check(planted >= 40, planted, "planted calls")
    calls = traced(STEPS)
    check(not calls, len(calls), "calls, the first:", *calls[:1])
    print(f"      {STEPS} steps, {len(calls)} system calls for memory")


main("growth")
