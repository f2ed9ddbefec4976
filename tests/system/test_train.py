#!/usr/bin/env python3
"""The results of `stepwell train`: it learns, the accuracy counts what is right, and options that leave every bit do their work. Parameters
by option are in transcripts/train.txt."""
import random

from frame import FULL, Skip, check, data, main, put_idx, records, run, said, tensors, test


def train(words):
    x = said(f"train --json --quiet --save-params params {words}")
    check(tensors("params")[1], words, "saved nothing")
    return x


@test("training learns, with every optimizer")
def learns():
    optimizers = run("train --optimizer x", 2).err.strip().partition("one of ")[2].split(", ")
    assert len(optimizers) >= 9
    for words in [f"--model mlp --hidden 32 --epochs 6 --optimizer {name}" for name in optimizers] + ["--epochs 3 --threads 2"]:
        x = train(f"--synthetic-n 1000 --batch 50 {words}")
        check(x["final_loss"] < 0.1 and 0.95 < x["test_accuracy"] <= 1, words, x["final_loss"], x["test_accuracy"])


if FULL:
    @test("LeNet5 learns MNIST")
    def mnist():
        """Real digits, where the data set is."""
        done = run(f"train --json --quiet --data idx:{data('mnist')} --batch 128 --epochs 1 --threads 2", None)
        if "zlib is off" in done.err:
            raise Skip("built without zlib")
        check(done.status == 0 and done.json["test_accuracy"] > 0.97, done)
        print(f"      {done.json['test_accuracy']:.2%} of the test images after one epoch")


@test("an image is right under one of ten labels")
def turned():
    """Ten label files that differ by a turn of all labels: each image is right under exactly one of them, so the shares of ten runs add up
    to one. The last batch of four is smaller."""
    dice, right = random.Random(1), 0
    put_idx("turned", "train", dice.randbytes(80 * 784), bytes(i % 10 for i in range(80)))
    pixels = dice.randbytes(40 * 784)
    for turn in range(10):
        put_idx("turned", "t10k", pixels, bytes((i * 7 + turn) % 10 for i in range(40)))
        rows = 40 * train("--model mlp --hidden 16 --data idx:turned --batch 12 --steps 3 --epochs 5")["test_accuracy"]
        check(abs(rows - round(rows)) < 1e-9, rows, "images of 40")
        right += rows
    check(abs(right - 40) < 1e-6, right, "of 40 images in ten runs")


SMALL = "--synthetic-n 150 --steps 8 --epochs 4 --model mlp --hidden 16 --batch 32"


def threads(words):
    """Those that are started, by the counters of faults."""
    err = run(f"train --json --quiet {words}", STEPWELL_FAULT="thread:count").err
    return int(err.partition("fault sites:")[2].partition(" thread ")[2].split()[0])


def times_ops(words):
    """Whether the profile has times of single ops."""
    train(f"{words} --profile profile")
    rows = records("profile")
    assert "step" in [x["type"] for x in rows]
    return any("op_ns" in x for x in rows)


@test("options that leave the bits do their work")
def work():
    after = train(f"{SMALL} --update after")
    assert after["predicted_peak_bytes"] > 0 and after["predicted"]["step"]["peak_bytes"] > 0
    released = train(SMALL)
    assert released["predicted"]["step"]["peak_bytes"] == 0  # updates count as backward
    assert released["predicted_peak_bytes"] < after["predicted_peak_bytes"]
    immediate = train(f"{SMALL} --immediate")
    assert immediate["measured_peak_bytes"] > after["predicted_peak_bytes"] and immediate["bump_bytes"] == immediate["immediate_bytes"] > 0
    assert times_ops(f"{SMALL} --op-clocks") and not times_ops(SMALL)
    one, four = threads(SMALL), threads(f"{SMALL} --threads 4")
    check(four == one + 3, one, "threads are started, with --threads 4", four)
    # A step of one image and one unit takes less than tracing it again. Least times of runs that take turns: other work on the machine only
    # adds.
    least = "--model mlp --hidden 1 --synthetic-n 400 --batch 1"
    rows = [(train(least)["min_step_ns"], train(f"{least} --checks")["min_step_ns"]) for _ in range(6)]
    plain, checked = (min(column) for column in zip(*rows))
    check(0 < 1.4 * plain < checked, plain, "ns a step, with --checks", checked)


main("train")
