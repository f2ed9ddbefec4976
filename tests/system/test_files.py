#!/usr/bin/env python3
"""The files of `stepwell train` after a signal: none is destroyed before the first step, and later each has whole lines; refusals are in
transcripts/files.txt."""
import os
import signal
import struct

from frame import Run, caught, check, get, main, put, tensors, test, wait_until


def send_when_caught(job, number, sent):
    """Waits until the process catches a signal, and sends that or another."""
    wait_until(lambda: caught(job, number))
    job.send(sent)


def ended_with(name, size, number):
    """Trains until the file of metrics has so many bytes, then gets the signal."""
    job = Run(f"train --json --synthetic-n 64 --batch 32 --epochs 100000000 --metrics {name} --save-best best --save-params last")
    wait_until(lambda: os.path.exists(name) and os.path.getsize(name) > size)
    job.send(number)
    return job.wait(60)


@test("a signal before the first step touches no file")
def early():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        put("best", "parameters")
        put("profile", "old")
        job = Run("train --quiet --json --synthetic-n 20000 --save-params best --profile profile")
        send_when_caught(job, number, number)
        check(job.wait(60).failed_cleanly(130) and "no file was written" in job.err, number, job)
        assert (get("best"), get("profile")) == ("parameters", "old")


@test("a run that is ended keeps its metrics")
def ended():
    """Ctrl-C, a terminal that goes and a killed process leave whole lines of metrics and the best parameters so far; but for the last the
    parameters are saved too, and there is a result."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
        job = ended_with("m.csv", 2000, number)
        killed = number == signal.SIGKILL
        check(job.status == -number if killed else job.status == 130 and job.json["steps"] > 1, number, job)
        assert get("m.csv").endswith("\n")
        head, body = tensors("best")
        assert max(x["data_offsets"][1] for name, x in head.items() if name != "__metadata__") == len(body) > 0
        assert os.path.exists("last") != killed
        for name in ("m.csv", "best") + (() if killed else ("last",)):
            os.unlink(name)


def masked(data):
    """CRC-32C as TensorBoard's records have it."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


@test("a run that is killed keeps its events")
def events():
    """Killed at any moment: what the file of events has reads as whole records to its end."""
    for _ in range(3):
        assert ended_with("events.out.tfevents.k", 3000, signal.SIGKILL).status == -signal.SIGKILL
        with open("events.out.tfevents.k", "rb") as f:
            records = 0
            while head := f.read(12):
                n, sum_of_head = struct.unpack("<QI", head)
                body = f.read(n)
                assert len(body) == n and masked(head[:8]) == sum_of_head and struct.unpack("<I", f.read(4))[0] == masked(body)
                records += 1
        assert records > 5
        os.unlink("events.out.tfevents.k")


@test("an ignored signal stays ignored")
def ignored():
    """nohup and job control ask for that."""
    for name in ("INT", "HUP"):
        job = Run(f"trap '' {name}; exec \"$P\" train --quiet --synthetic-n 20000 --steps 1", shell=True)
        send_when_caught(job, signal.SIGTERM, signal.Signals["SIG" + name])
        check(job.wait(60).status == 0, name, job)


main("files")
