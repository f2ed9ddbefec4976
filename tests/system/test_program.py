#!/usr/bin/env python3
"""The program at its limits: a budget that is too small, Ctrl-C, a killed run, a full disk."""
import json
import os
import re
import signal

from frame import FULL, Run, Skip, check, get, main, raw, records, run, said, test, wait_until

SMALL = "--quiet --synthetic-n 64 --batch 16 --steps 3"


@test("a small budget is refused before training, with numbers and the holder")
def budget():
    for size in ("1KiB", "100KiB", "600KiB", "800KiB")[::1 if FULL else 3]:
        done = run(f"train {SMALL} --memory-budget {size} --profile profile", 4)
        check(done.failed_cleanly(4) and re.search("[0-9]", done.err) and "byte" in done.err, size, done)
        assert not os.path.exists("profile") or '"type":"step"' not in get("profile")
    check("conv" in done.err or "fc" in done.err, "names no holder:", done)
    print(f"      {done.err.strip()}")


@test("the least budget that works is the one that is said")
def least():
    """Where updates wait for the end of backward: without recomputation it is the planned total, with it what a refusal says."""
    words = f"train --json {SMALL} --update after"
    total = said(words)["total_bytes"]
    says = "stepwell train: does not fit: "
    err = run(f"{words} --memory-budget 1000", 4).err
    assert err.startswith(says)
    again = int(err[len(says):].split()[0].replace(",", ""))
    assert total > again > 1000
    run(f"{words} --memory-budget {total} --no-recompute")
    run(f"{words} --memory-budget {total - 1} --no-recompute", 4)
    assert said(f"{words} --memory-budget {again}")["total_bytes"] == again
    run(f"{words} --memory-budget {again - 1}", 4)


def ended_by(number):
    """An endless run that is sent a signal after steps are in its profile."""
    job = Run("train --quiet --batch 32 --synthetic-n 1000 --epochs 100000 --profile profile")
    wait_until(lambda: os.path.exists("profile") and b'"type":"step"' in raw("profile"), pause=0.01)
    job.send(number)
    job.wait(30)
    run("report profile")
    return job


@test("an interrupt ends with 130 and a valid profile")
def interrupt():
    """Every line is an object with a type; the last is the end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        job = ended_by(number)
        check(job.status == 130, job)
        kinds = [x["type"] for x in records("profile")]
        assert get("profile").endswith("\n") and kinds[0] == "header" and kinds[-1] == "end" and "step" in kinds and all(kinds)
        os.unlink("profile")  # a step in it would not be the next run's


@test("a killed run leaves readable lines")
def killed():
    job = ended_by(signal.SIGKILL)
    check(job.status == -signal.SIGKILL, job)
    lines = get("profile").split("\n")[:-1]  # the last may be cut
    assert len([json.loads(line) for line in lines]) > 2


@test("a full disk fails with one line")
def full():
    if not os.access("/dev/full", os.W_OK):
        raise Skip("no /dev/full here")
    done = run(f"train {SMALL} --profile /dev/full", 1)
    check(done.err.count("\n") == 1 and "/dev/full" in done.err, done)
    assert Run(f'exec "$P" train --json {SMALL} > /dev/full', shell=True).wait().status == 1


@test("unknown words are wrong usage")
def unknown():
    for words in ("trian", "train --modle mlp", "train --batch -1", "train --batch x", "train --model gpt9", "train --memory-budget 5XB",
                  "train --checkpoint-every 3", "train --steps", ""):
        done = run(words, 2)
        check(not done.out and done.err, words, done)
    done = run("train --device cuda --steps 1", 5)
    check("CUDA" in done.err, done)
    run("train --steps 1", 2, STEPWELL_FAULT="nonsense")


main("program")
