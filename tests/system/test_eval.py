#!/usr/bin/env python3
"""stepwell predict: the confusion of eval is that of its rows, and formats have the same numbers. The rest is transcripts/eval.txt."""
import collections
import csv
import io
import json
import re
import struct

from frame import check, main, run, said, test

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


main("predictions")
