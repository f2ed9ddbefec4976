#!/usr/bin/env python3
"""Metrics of `stepwell train`, and the page of the Swish experiment. The loop is in transcripts/learn.txt."""
import csv
import subprocess
import sys

from frame import PROGRAM, ROOT, check, get, main, records, said, tensors, test


@test("metrics have each step and each validation")
def metrics():
    """Both formats have a line for each step and each validation, with the same numbers, and cost no bit of the parameters."""
    def train(more, name):
        x = said(f"train --json --quiet --model mlp --hidden 16 --synthetic-n 150 --epochs 4 --batch 50 {more} --save-params {name}")
        return x, tensors(name)[1]
    _, plain = train("", "plain")
    x, bits = train("--validate-every 2 --metrics m.csv", "csv")
    assert bits == plain and train("--validate-every 2 --metrics m.jsonl", "jsonl")[1] == plain
    assert get("m.csv").startswith("kind,step,epoch,loss,accuracy,rate,ms\n") and get("m.csv").endswith("\n")
    with open("m.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    lines = records("m.jsonl")
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in ("train", "validation", "epoch")}
    assert [len(part) for part in kinds.values()] == [12, 8, 4] and x["validations"] == 8  # after 2 3 4 6 8 9 10 12
    steps = 0
    for row, line in zip(rows, lines, strict=True):
        steps += row["kind"] == "train"
        assert int(row["step"]) == line["step"] == steps and int(row["epoch"]) == (steps + 2) // 3 and 0 <= float(row["accuracy"]) <= 1
        assert (row["rate"] == "") == ("rate" not in line or line["rate"] is None) == (row["kind"] != "train")
        assert (row["ms"] == "" or float(row["ms"]) > 0) and (row["ms"] == "") == (row["kind"] == "epoch") == (line.get("ms") is None)
        assert line["kind"] == row["kind"] and abs(line["loss"] - float(row["loss"])) < 1e-6
    for i, row in enumerate(kinds["epoch"]):  # all steps have as many samples
        for key in ("loss", "accuracy"):
            mean = sum(float(step[key]) for step in kinds["train"][3 * i:3 * i + 3]) / 3
            check(abs(float(row[key]) - mean) < 1e-7, row, key, mean)
    first, *_, last = kinds["train"]
    assert abs(float(last["loss"]) - x["final_loss"]) < 1e-6
    assert abs(float(first["rate"]) - 0.005) < 1e-8 and float(last["rate"]) < 1e-3


@test("the Swish page has the planned peaks")
def swish():
    subprocess.run([sys.executable, f"{ROOT}/tools/bench/swish.py", PROGRAM, *"--batches 16,256 --width 192 --layers 3 --rounds 2 "
                    "--python false --out page".split()], check=True, stdout=subprocess.DEVNULL)
    text = get("page")
    second = text[text.index("## Batch 256"):]
    for name, words in (("naive", "--activation swish-naive --update after --no-rebuild"), ("released", ""),
                        ("kept", "--activation swish-naive --keep-gradients --no-rebuild")):
        x = said(f"plan --json --model swishnet --width 192 --layers 3 --batch 256 --synthetic-n 256 --threads 2 {words}")
        row = f"| stepwell, {name} | {x['predicted_peak_bytes'] / 1048576:.1f} |"
        check(row in second, row, "is not in", text)
    assert "| stepwell, kept | 1 |" in text and "PyTorch was not installed" in text


main("learning")
