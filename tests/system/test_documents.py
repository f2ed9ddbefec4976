#!/usr/bin/env python3
"""Trainings on documents of ids: the loss of a step, of an epoch, of a validation and of eval is over the tokens that count, however rows come together."""
import json
import math
import os
import random
import re
import struct

from frame import check, main, put, raw, records, refused, run, said, tensors, test
from ranks_frame import ended, ranks

RANDOM = random.Random(7)
ANSWERS = (1, 1, 2, 5, 30, 120, 500)  # tokens of a row that count
NET = "--model gpt --layers 1 --width 16 --heads 2 --optimizer sgd --lr 0.5 --schedule constant --quiet --json"
LONG, SHORT = f"{NET} --context 512 --data ids:long.jsonl --test-data ids:test.jsonl", f"{NET} --context 64 --vocabulary 40 --data ids:short.jsonl"
KEPT = ("steps", "final_loss", "epoch_loss", "validation_loss")


def document(n, counts):
    """Its answer is at the end; the next id follows from the last two, so that there is something to learn."""
    ids = [RANDOM.randrange(40), RANDOM.randrange(40)]
    while len(ids) < n:
        ids.append((3 * ids[-1] + ids[-2]) % 37)
    return {"input_ids": ids, "labels": [-100] * (n - counts) + ids[n - counts:], "attention_mask": [1] * n}


def write(name, documents):
    put(name, "".join(json.dumps(d) + "\n" for d in documents))


def files():
    """Rows of one document each, 43 in all, and short ones for packing."""
    write("long.jsonl", [document(RANDOM.randrange(max(c + 1, 260), 513), c) for c in (ANSWERS * 7)[:43]])
    write("test.jsonl", [document(RANDOM.randrange(max(c + 1, 260), 513), c) for c in ANSWERS])
    write("short.jsonl", [document(n, RANDOM.randrange(1, n)) for n in (RANDOM.randrange(2, 50) for _ in range(150))])


def numbers(name):
    """The parameters of a file."""
    data = tensors(name)[1]
    return struct.unpack(f"<{len(data) // 4}f", data)


def near(a, b, start):
    """By how much two trainings differ, as a part of how far they went."""
    return max(abs(x - y) for x, y in zip(a, b)) / max(abs(x - y) for x, y in zip(a, start))


def rows_of(name):
    return [{k: v for k, v in r.items() if k != "ms"} for r in records(name)]


@test("a step is the same however its rows are cut")
def cut():
    files()
    run(f"train {LONG} --batch 8 --steps 1 --lr 1e-30 --save-params start")
    start = numbers("start")
    said(f"train {LONG} --batch 8 --epochs 2 --validate-every 4 --metrics m.jsonl --save-params whole")
    whole, steps = numbers("whole"), rows_of("m.jsonl")
    for way in ("--batch 1 --accumulate 8", "--batch 2 --accumulate 4 --threads 2", "--batch 4 --accumulate 2 --immediate"):
        said(f"train {LONG} {way} --epochs 2 --validate-every 4 --metrics m.jsonl --save-params p")
        check(near(numbers("p"), whole, start) < 2e-4, way, near(numbers("p"), whole, start))
        for a, b in zip(rows_of("m.jsonl"), steps, strict=True):
            check(a["kind"] == b["kind"] and a["step"] == b["step"] and abs(a["loss"] - b["loss"]) < 2e-5 * b["loss"], way, a, b)
    # Steps of shards are whole.
    said(f"train {LONG} --batch 8 --steps 5 --metrics m.jsonl --save-params whole")
    whole, steps = numbers("whole"), [r for r in rows_of("m.jsonl") if r["kind"] == "train"]
    for way in ("--shards 8", "--shards 4", "--shards 2 --threads 2"):
        said(f"train {LONG} --batch 8 {way} --steps 5 --metrics m.jsonl --save-params p")
        check(near(numbers("p"), whole, start) < 2e-4, way, near(numbers("p"), whole, start))
        for a, b in zip([r for r in rows_of("m.jsonl") if r["kind"] == "train"], steps, strict=True):
            check(abs(a["loss"] - b["loss"]) < 2e-5 * b["loss"], way, a, b)


@test("ranks have the bits of one process")
def processes():
    files()
    for words, n in ((f"{LONG} --shards 8 --batch 8", 2), (f"{SHORT} --shards 12 --batch 24 --clip 0.5 --dropout 0.1", 3)):
        words = f"train {words} --epochs 2 --validate-every 2 --metrics m.jsonl --save-params p"
        alone = said(words)
        params, metrics = raw("p"), rows_of("m.jsonl")
        out = ended(ranks(n, words)).json
        assert raw("p") == params and rows_of("m.jsonl") == metrics and [out[k] for k in KEPT] == [alone[k] for k in KEPT]


@test("an epoch's loss is over its tokens, and goes on with a checkpoint")
def epochs():
    files()
    words = f"train {LONG} --batch 2 --accumulate 2 --epochs 3 --metrics m.jsonl --save-params p"
    # With a rate of nothing each epoch has all tokens once, in another order: one loss.
    run(f"train {LONG} --batch 2 --accumulate 2 --epochs 3 --lr 1e-30 --metrics m.jsonl")
    losses = [r["loss"] for r in rows_of("m.jsonl") if r["kind"] == "epoch"]
    check(len(losses) == 3 and max(losses) - min(losses) < 1e-5, losses)
    of_steps = [r["loss"] for r in rows_of("m.jsonl") if r["kind"] == "train"]
    check(abs(sum(of_steps) / len(of_steps) - losses[0]) > 1e-4, "the mean over steps is the same: the files show nothing")
    alone = said(words)
    params, metrics = raw("p"), rows_of("m.jsonl")
    said(f"{words} --checkpoint c --checkpoint-pauses --checkpoint-every 4 --keep-checkpoints 9")
    kept, longer = [name for name in os.listdir() if name.startswith("c.")], raw("m.jsonl")
    assert len(kept) == 8
    for name in kept:  # those of an interrupted run; its metrics have more rows, and are cut
        put("m.jsonl", longer)
        out = said(f"{words} --resume {name}")
        assert raw("p") == params and rows_of("m.jsonl") == metrics and [out[k] for k in KEPT] == [alone[k] for k in KEPT]


@test("packed documents have the loss that they have alone")
def alone():
    files()
    trained = said(f"train {SHORT} --batch 8 --epochs 3 --test-data ids:short.jsonl --save-params p")
    words = f"eval {SHORT.replace('--optimizer sgd --lr 0.5 --schedule constant', '')} --load-params p --test-data ids:"
    write("some.jsonl", some := [document(n, max(1, n // 3)) for n in (2, 64, 11, 40, 12, 33, 5)])
    sums = 0
    for d in some:
        write("one.jsonl", [d])
        one = said(f"{words}one.jsonl")
        counts = sum(label != -100 for label in d["labels"][1:])
        assert one["samples"] == 1 and one["tokens"] == counts and abs(one["perplexity"] - math.exp(one["loss"])) < 1e-6
        sums += counts * one["loss"]
    for batch in (1, 2, 128):
        x = said(f"{words}some.jsonl --batch {batch}")
        assert x["samples"] == 3 and x["tokens"] == sum(max(1, len(d["input_ids"]) // 3) for d in some)
        check(abs(x["loss"] - sums / x["tokens"]) < 1e-6, batch, x["loss"], sums / x["tokens"])
    assert said(f"{words}short.jsonl --batch 8")["loss"] == trained["validation_loss"]


@test("training and plan say what is read, and count four fields")
def lines():
    files()
    put("some.jsonl", raw("short.jsonl").decode() + json.dumps(document(100, 40)) + "\n" + json.dumps({"input_ids": [1, 2], "labels": [-100, -100]}) + "\n")
    words = f"--model gpt --context 64 --data ids:some.jsonl --test-share 0.1 --batch 4 --vocabulary 40"
    for command in (f"train {words} --steps 1", f"plan {words}"):
        said_there = run(command).err.splitlines()
        check(said_there[0].startswith("training: documents 136, tokens ") and " x 64 (" in said_there[0] and
              said_there[0].endswith(" empty), cut to the context 1 (by 36 tokens), passed over 1 (no token counts)"), said_there)
        assert said_there[1].startswith("testing: documents 15, tokens ")
    assert not run(f"plan {words} --quiet").err
    train, test = said(f"train {words} --steps 1 --quiet --json")["documents"]
    check((train["documents"], train["context"], train["cut"], train["cut_tokens"], train["passed_over"], test["documents"]) == (136, 64, 1, 36, 1, 15) and
          train["counted"] <= train["tokens"] <= train["rows"] * 64, train, test)
    rows = sum(int(n) for n in re.findall(r" rows ([0-9]+) x 64 ", "\n".join(said_there)))
    check(said(f"plan {words} --json")["data_bytes"] == (4 + rows) * 4 * 64 * 4, rows) # the loader for training, and all rows
    refused(f"plan {words.replace('40', '20')}", 3, "some.jsonl: line ", "must be an id, 0 to 19 (got ", "the model knows no others")
    refused(f"es {SHORT}".replace("--schedule constant", ""), 2, "is not there for es")
    refused(f"train {SHORT} --members 2", 2, "is not there for members")
    refused("train --data ids:short.jsonl", 2, "does not learn documents", "--model gpt takes these data")


main("documents")
