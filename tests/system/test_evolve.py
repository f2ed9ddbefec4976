#!/usr/bin/env python3
"""`stepwell evolve`: whom it names, and its tables. The rest is in transcripts/evolve.txt."""
from frame import column, get, main, put, records, run, said, test

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


@test("the best is named by accuracy itself")
def named():
    """Selection rounds accuracy; whom the program names, in each generation and in all, does not."""
    rounded = 0
    put("S", SPACE)
    for seed in range(1, 5):
        x = said(f"evolve --quiet --json --synthetic-n 2000 --space S --population 16 --samples 16 --generations 2 --seed {seed} --out R{seed}")
        members = records(f"R{seed}/history.jsonl")
        assert {member["generation"] for member in members} <= {0, 1}
        assert x["best"]["accuracy"] == max(member["accuracy"] for member in members)
        for g in range(2):
            born = [member for member in members if member["generation"] == g]
            most = max(member["accuracy"] for member in born)
            assert x["history"][g]["accuracy"] == most
            rounded += max(born, key=lambda member: member["fitness"])["accuracy"] < most
    assert rounded > 0


@test("columns have one number of decimals")
def columns():
    """The table of generations and that of the page."""
    put("S", SPACE)
    done = run("evolve --synthetic-n 100 --space S --population 6 --samples 48 --generations 5 --out R")
    for i in (1, 2):
        assert column(done.out, "  gen ", "\n", None, i) == 5
    for i in (3, 5):  # fitness and loss
        assert column(get("R/report.html"), "<th>born</th>", "<tr", "<td>", i) == 6


main("evolve")
