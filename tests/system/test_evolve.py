#!/usr/bin/env python3
"""`stepwell evolve`: whom it names, and its table. The rest is in transcripts/evolve.txt."""
from frame import column, get, main, put, run, said, test

SPACE = """{"format": "stepwell search space 1",
 "body": {"chain": [
  {"vertex": "conv2d", "size": {"from": 2, "to": 6}, "kernel": 3, "stride": 4},
  {"vertex": "activation"},
  {"residual": {"vertex": "conv2d", "size": [2, 3], "kernel": [1, 3]}},
  {"vertex": "global_avg_pool"}]},
 "insert": [{"if": "image", "then": {"vertex": "conv2d", "size": 3, "kernel": 1},
  "else": {"vertex": "activation"}}],
 "optimizers": ["adam", "sgd"],
 "lr": {"from": 0.001, "to": 0.05},
 "batch": [8, 12],
 "activations": ["relu", "swish"]
}
"""


@test("the best has the best mean, or is at the highest rung")
def named():
    put("S", SPACE)
    looked = 0
    for seed in range(1, 5):
        x = said(f"evolve --quiet --json --synthetic-n 400 --space S --start 4 --samples 144 --trainings 8 --seed {seed} --out R{seed}")
        best, all_of = x["best"], x["candidates"]
        means = [c["mean"] for c in all_of if c["looks"] > 1]
        assert best["mean"] == max(means) and best["rung"] == 2
        looked += len(means)
        assert all(c["of"] in [b["id"] for b in all_of if b["looks"] > 1] for c in all_of if c["look"])
        assert x["steps"] == sum(c["steps"] for c in all_of)
    assert looked == 8


@test("columns have one number of decimals")
def columns():
    """Those of the page."""
    put("S", SPACE)
    run("evolve --synthetic-n 100 --space S --start 4 --samples 72 --trainings 4 --out R")
    for i in (4, 8):  # fitness and loss
        assert column(get("R/report.html"), "<th>of</th>", "<tr", "<td>", i) > 6


main("evolve")
