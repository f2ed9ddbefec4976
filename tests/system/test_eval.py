#!/usr/bin/env python3
"""stepwell predict: the confusion of eval is that of its rows, and formats have the same numbers. The rest is transcripts/eval.txt."""
import collections
import csv
import io
import json
import os
import re
import struct

from frame import check, main, raw, refused, run, said, test

NET = "--model mlp --hidden 24 --synthetic-n 600"
SAMPLES, CLASSES = 120, 10  # a fifth


def rows_of(text):
    """row, label, predicted, and the probabilities."""
    return [[int(x) for x in row[:3]] + [[float(x) for x in row[3:]]] for row in list(csv.reader(io.StringIO(text)))[1:]]


@test("confusion is that of the rows")
def confusion():
    run(f"train {NET} --steps 6 --batch 50 --quiet --save-params p")
    rows = rows_of(run(f"predict --load-params p {NET} --batch 50 --quiet --format csv").out)
    counts = collections.Counter((label, predicted) for _, label, predicted, _ in rows)
    assert [row[0] for row in rows] == list(range(SAMPLES))
    for _, _, predicted, p in rows:
        assert len(p) == CLASSES and p.index(max(p)) == predicted and abs(sum(p) - 1) < 1e-5
    x = said(f"eval --load-params p {NET} --batch 50 --json --quiet")
    assert x["confusion"] == [[counts[label, k] for k in range(CLASSES)] for label in range(CLASSES)]
    for label, scores in enumerate(x["classes"]):
        support, predicted = (sum(counts[pair] for pair in counts if pair[side] == label) for side in (0, 1))
        right = counts[label, label]
        assert (scores["support"], scores["predicted"], scores["right"]) == (support, predicted, right)
        assert support + predicted == 0 or abs(scores["f1"] - 2 * right / (support + predicted)) < 1e-12
    assert any(label != predicted for label, predicted in counts)  # or the comparison says little


@test("formats have the same numbers")
def formats():
    """The numbers of every format are those of the array."""
    run(f"train {NET} --steps 3 --batch 50 --quiet --save-params p")
    run(f"predict --load-params p {NET} --quiet --out rows.npy")
    with open("rows.npy", "rb") as f:
        head, body = f.read(128), f.read()
    assert head.startswith(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', ") and b"'shape': (120, 10), }" in head and head.endswith(b"\n")
    array = list(struct.iter_unpack("<10f", body))
    assert len(array) == SAMPLES
    for kind in ("csv", "json", "jsonl"):
        text = run(f"predict --load-params p {NET} --quiet --threads 2 --batch 33 --format {kind}").out
        if kind == "csv":
            rows = [row[3] for row in rows_of(text)]
        else:
            rows = json.loads("[" + ",".join(re.findall(r'"probabilities":(\[[^]]*\])', text)) + "]")
        single = [struct.unpack("<10f", struct.pack("<10f", *row)) for row in rows]
        check(single == array, kind)


@test("parameters are saved as bf16")
def halves():
    """Half the bytes, for one model, the best one and each of several; eval is that of the file that is loaded and saved again."""
    run(f"train {NET} --steps 12 --batch 50 --quiet --save-params p")
    run(f"train {NET} --steps 12 --batch 50 --quiet --validate-every 6 --save-params h --save-best b --save-type bf16")
    run(f"train {NET} --steps 12 --batch 50 --quiet --members 2 --save-params m%d --save-type bf16")
    run(f"es {NET} --generations 2 --population 4 --quiet --save-params e --save-type bf16")
    run(f"pbt {NET} --steps 12 --interval 6 --members 2 --quiet --save-params q%d --save-type bf16 lr=log:0.01..0.1")
    for name in ("h", "b", "m0", "m1", "e", "q0", "q1"):
        assert b'"BF16"' in raw(name) and b'"F32"' not in raw(name), name
        check(2 * 24 * 784 < os.path.getsize(name) < os.path.getsize("p") * 0.55, name)
    run(f"train {NET} --steps 1 --lr 0 --batch 50 --quiet --load-params h --save-params w")
    a, b = (said(f"eval --load-params {name} {NET} --batch 50 --json --quiet") for name in "hw")
    assert (a["confusion"], a["loss"]) == (b["confusion"], b["loss"])
    numbers = [struct.unpack(f"<{len(raw(name)[-80:]) // width}{kind}", raw(name)[-80:]) for name, width, kind in (("h", 2, "H"), ("w", 4, "I"))]
    check([x << 16 for x in numbers[0][-20:]] == list(numbers[1][-20:]), numbers)
    for words in ("train --save-type bf16", "es --save-type bf16", "pbt --save-type bf16 lr=log:0.01..0.1"):
        refused(f"{words} --synthetic-n 100", 2, "--save-type has no effect without --save-params")
    refused("train --save-params x --save-type f16", 2, "f32", "bf16")


main("predictions")
