#!/usr/bin/env python3
"""Signals end what waits for the other end of a pipe; locks and notes are in transcripts/waiting.txt."""
import os
import signal
import time

from frame import FULL, Run, check, get, main, put, run, test

SMALL = "--quiet --synthetic-n 64 --batch 32 --steps 2"


def waits(job):
    """It took no time for a while."""
    before, quiet = None, 0
    for _ in range(600):
        state, *numbers = get(f"/proc/{job.child.pid}/stat").rpartition(")")[2].split()
        now = numbers[10:12]  # processor time of the user and of the kernel
        quiet = quiet + 1 if state == "S" and now == before else 0
        if quiet == 8 or state == "Z":
            return state != "Z"
        before = now
        time.sleep(0.05)
    return False


def end_by_signal(*lines):
    """Run by sh, so that standard output can go anywhere: all at once, and once they wait, a signal ends each."""
    jobs = [Run(f'exec "$P" {line}', shell=True) for line in lines]
    for job in jobs:
        check(waits(job), job, "does not wait")
    for i, job in enumerate(jobs):
        job.send((signal.SIGTERM, signal.SIGINT)[i % 2])
    for job in jobs:
        check(job.wait(10).status == 130, job)


def pipes(*names):
    for name in names:
        os.mkfifo(name)


def stopped_reader(name, full=True):
    """A pipe that is no longer read; `full`: nothing more fits from the beginning."""
    os.mkfifo(name)
    fd = os.open(name, os.O_RDWR | os.O_NONBLOCK)
    try:
        while full:
            os.write(fd, bytes(4096))
    except BlockingIOError:
        pass
    return fd


@test("a signal ends what opens a pipe")
def opens():
    """Outputs to pipes, inputs from pipes, and standard output."""
    run(f"train {SMALL} --profile profile")
    pipes("pipe", "pipe.csv", "in1", "in2")
    put("problem.csv", "id,lower,upper,size\na,0,2,64\n")
    end_by_signal(*(f"train {SMALL} {to}" for to in ("--profile pipe", "--save-params pipe", "--save-best pipe", "--metrics pipe.csv")),
                  "report profile --format perfetto --out pipe", "report in1 --format perfetto", "place in2", "place problem.csv --out pipe")


@test("a signal ends what writes to a full pipe")
def writes():
    run(f"train {SMALL} --profile profile")
    readers = stopped_reader("pipe"), stopped_reader("pipe.csv", False), stopped_reader("full")
    endless = "train --quiet --model mlp --hidden 8 --synthetic-n 64 --batch 32 --steps 100000000"
    end_by_signal(f"{endless} --profile pipe", f"{endless} --metrics pipe.csv", f"train {SMALL} --save-params pipe",
                  f"train {SMALL} --json > full", f"train {SMALL} > full", "train --synthetic-n 64 --batch 32 --steps 2 2> full",
                  "report profile --format perfetto --out - > full")
    for fd in readers:
        os.close(fd)


@test("a signal ends sampling")
def sampling():
    """Text to a reader that has stopped."""
    gpt = "--layers 1 --heads 1 --width 8 --context 8"
    put("text", "a line of text. " * 100)
    run(f"train --quiet --model gpt --data text:text {gpt} --batch 4 --steps 1 --save-params params")
    reader = stopped_reader("full")
    end_by_signal(f"sample {gpt} --load-params params --tokens 100000000 > full")
    os.close(reader)


@test("a run that is killed leaves whole parameters")
def killed():
    """Killed again and again while it starts, trains and saves, once every few steps: the parameters that are there are whole, and the
    first run that is left alone sweeps up."""
    kills, saved = 25 if FULL else 9, 0
    began = time.monotonic()
    run(f"train --model mlp --hidden 8 {SMALL}")
    last = max(0.16, 2 * (time.monotonic() - began))  # a machine may be slow, and busy
    for i in range(kills):
        job = Run("train --quiet --model mlp --hidden 8 --synthetic-n 64 --batch 32 --epochs 100000000 --save-best x")
        time.sleep(0.001 + i * last / kills)
        job.send(signal.SIGKILL)
        check(job.wait().status == -signal.SIGKILL, job)
        if os.path.exists("x"):
            saved += 1
            run("info x")
    assert saved > 0
    run(f"train --model mlp --hidden 8 {SMALL} --save-params x")
    assert not [name for name in os.listdir() if "tmp" in name]
    print(f"      {kills} kills, {saved} times there were parameters")


main("waiting")
