#!/usr/bin/env python3
"""`plan` plans what `train` runs: jobs are drawn at random from one table of data and options, and both are compared. Jobs that train
refuses, plan refuses with the same words."""
import os
import random
import re
import struct
import zlib

from frame import FULL, Run, check, main, put, put_idx, run, test

LINES, PIXELS, FILES, PICTURES, TEXT, ANY = 1, 2, 4, 8, 16, 31

# Data and a model for it.
SOURCES = [(PIXELS, "--model mlp --hidden 9 --synthetic-n 1"), (PIXELS, "--model mlp --hidden 9 --synthetic-n 5"),
           (PIXELS, "--model mlp --hidden 9 --synthetic-n 40"), (PIXELS, "--model mlp --hidden 9,5 --synthetic-n 96"),
           (PIXELS, "--model lenet5 --synthetic-n 37"), (PIXELS | FILES, "--model mlp --hidden 8 --data idx:idx"),
           (LINES, "--model mlp --hidden 8 --data csv:few.csv --test-data csv:many.csv"),
           (LINES, "--model mlp --hidden 8 --data csv:many.csv --test-data csv:few.csv"),
           (LINES | FILES, "--model mlp --hidden 8 --data csv:many.csv"), (LINES | FILES, "--model mlp --hidden 8 --data csv:few.csv"),
           (PICTURES, "--model mlp --hidden 6 --data images:pictures"), (PICTURES, "--model lenet5 --data images:pictures --channels 1"),
           (TEXT, "--model gpt --layers 1 --width 8 --heads 2 --data text:text"),
           (TEXT, "--model gpt --layers 1 --width 8 --heads 2 --data text:short")]

# The sources that take an option (others draw it now and then, to be refused), the option, and what it may be; "" is the option alone.
# One without OFTEN is left out as often as not.
OFTEN = 64
OPTIONS = [(ANY | OFTEN, "--batch", "1 2 3 7 16 31 32 64 100 4096 16777216"), (ANY, "--accumulate", "1 2 3 4 7 50"),
           (ANY, "--optimizer", "sgd momentum adamw"), (ANY, "--update", "after release"), (ANY, "--keep-gradients", ""), (ANY, "--clip", "1"),
           (ANY, "--threads", "1 2"), (ANY, "--immediate", ""), (ANY, "--isa", "base"), (ANY, "--no-chunks", ""), (ANY, "--no-tiles", ""),
           (ANY, "--no-strips", ""), (ANY, "--no-rebuild", ""), (ANY, "--no-recompute", ""),
           (ANY, "--memory-budget", "60KiB 200KiB 500KiB 1MiB 16MiB"), (ANY, "--checkpoint C", ""), (ANY, "--checkpoint-pauses", ""),
           (ANY, "--seed", "1 2 77"), (FILES | PICTURES, "--test-share", "0.05 0.2 0.5 0.9"), (FILES | PICTURES, "--split-seed", "1 2 3"),
           (LINES, "--standardise", ""), (PIXELS | PICTURES, "--normalise", "none 0.5,0.25 auto"),
           (PIXELS | PICTURES, "--augment", "flip crop=2 flip,crop=1"), (PICTURES | OFTEN, "--resize", "20 28 30"),
           (PICTURES, "--data-limit", "1KiB 60000 200000 1MiB 1GiB"), (TEXT | OFTEN, "--context", "1 4 8 33 64 700"),
           (TEXT, "--vocabulary", "256 300 20")]


def draw(dice):
    """Four options on average, and those that are never left out."""
    kind, words = dice.choice(SOURCES)
    for takes, name, values in OPTIONS:
        fits = takes & kind
        if dice.randrange(6 if fits else 300) <= (4 if fits and takes & OFTEN else 0):
            words += f" {name} {dice.choice(values.split(' '))}"
    return words


def png(path, dice, width, height, gray):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + dice.randbytes(width * (1 if gray else 3)) for _ in range(height))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 0 if gray else 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_data(dice):
    for part, n in (("train", 50), ("t10k", 25)):
        put_idx("idx", part, dice.randbytes(n * 784), bytes(dice.randrange(10) for _ in range(n)))
    for name, n in (("many.csv", 73), ("few.csv", 11)):
        put(name, "a,b,c,kind\n" + "".join(f"{i},{i * i % 17}.5,{-i},k{i % 3}\n" for i in range(n)))
    for name, n in (("text", 1500), ("short", 90)):
        put(name, "".join("the quick brown fox "[i * 7 % 20] for i in range(n)))
    for i in range(24):
        png(f"pictures/{'cat' if i % 2 == 0 else 'dog'}/{i}.png", dice, 30 + i % 2 * 2, 30 + i % 5, i % 3 == 0)


def compare(words, plan, train):
    """Every program that is planned runs, and takes what was planned."""
    for key in ("batch", "batch_asked", "predicted", "predicted_peak_bytes", "model_bytes", "arena_bytes", "data_bytes", "checkpoint_bytes",
                "total_bytes", "recompute"):
        check(plan.get(key) == train.get(key), words, key, "plan", plan.get(key), "train", train.get(key))
    assert len(plan["programs"]) == len(train["programs"])
    for a, b in zip(plan["programs"], train["programs"]):
        for key in ("name", "batch", "predicted", "predicted_peak_bytes", "arena_bytes"):
            check(a[key] == b[key], words, key, "plan", a[key], "train", b[key])
        check(b["runs"] > 0 and b["measured_peak_bytes"] == a["predicted_peak_bytes"], words, a, b)
        check("--immediate" in words or b["measured"] == a["predicted"], words, "phases", a, b)


@test("plan plans what train runs")
def both():
    rows = 1000 if FULL else 24
    dice = random.Random(7)
    done = clamped = refused = 0
    make_data(dice)
    pictures = "libpng" not in run("plan --model mlp --data images:pictures", None).err
    for _ in range(rows):
        words = draw(dice)
        if not pictures and "images:" in words:
            continue
        plan, train = [Run(f"{command} {words}") for command in ("plan --json", "train --json --quiet")]
        plan.wait(60), train.wait(60)
        if os.path.exists("C"):
            os.unlink("C")
        check(plan.status == train.status >= 0, plan, train)
        if plan.status != 0:
            # train also says what would fit
            check(plan.err.partition(": ")[2].rstrip() == re.sub("; a (batch|context) of .*", "", train.err.partition(": ")[2]).rstrip(), plan, train)
            refused += 1
            continue
        compare(words, plan.json, train.json)
        done += 1
        clamped += "batch_asked" in plan.json
    print(f"      {rows} rows, {clamped} of them with a batch above the data; {refused} refused by both")
    assert done > rows / 2 and clamped > rows / 20


main("plan and train")
