#!/usr/bin/env python3
"""`stepwell bench speed --ops`: rows that add up, and their order; all else of bench is in transcripts/bench.txt."""
import math
import os

from frame import FULL, PROGRAM, check, main, run, said, test

LIBRARY = os.path.join(os.path.dirname(os.path.dirname(PROGRAM)), "tests", "system", "blas_peer.so")


def near(a, b):
    return abs(a - b) <= 1e-9 * (1 + abs(b))


def check_products(row):
    """An op that is a product alone has the operations of a product, and an addition for each element where it adds; others have more, or
    are no products."""
    name, ops, products = row["op"], row["operations"], row["product_operations"]
    linear = name.startswith("linear") and "db" not in name and "ce d" not in name
    alone = products > 0 and name in ("linear dx", "linear dw", "matmul", "conv2d dx")
    check(products <= ops and (not linear or products > 0.9 * ops) and (not alone or products > 0.99 * ops), row)


def check_ops(x, library=False):
    """Rows: their sums, the bound by the peaks that are printed, the most time lost first."""
    *rows, whole = x["ops"]
    before = math.inf
    for row in rows:
        bound = max(row["operations"] / x["peak_gflops"], row["bytes"] / x["peak_mixed_gb_per_s"])
        assert near(row["bound_ns"], bound) and near(row["lost_ns"], row["min_ns"] - row["bound_ns"]) and row["lost_ns"] <= before
        before = row["lost_ns"]
        check_products(row)
    for key in ("calls", "min_ns", "operations", "bytes", "product_operations"):
        assert whole[key] == sum(row[key] for row in rows)
    assert whole["op"] == "all" and any(row.get("library_ns") is not None for row in rows) == library
    return x


@test("bench speed: ops add up and are ranked")
def ops():
    if FULL:  # each measures the machine's peaks, and takes seconds
        check_ops(said("bench speed --json --ops --model gpt --batch 1 --steps 2"))
        check_ops(said("bench speed --json --ops --model mbconv --batch 17 --steps 1"))
        # Rows and features enough for strips: of 8 layers 7 go forward in strips and 7 are updated in strips, by products above all; the
        # loss and its gradient have none.
        x = check_ops(said("bench speed --json --ops --model swishnet --width 1024 --batch 1100 --steps 1"))
        strips = [row for row in x["ops"] if row["op"].startswith("in_strips")]
        assert all(row["product_operations"] == 0 or row["product_operations"] > 0.9 * row["operations"] for row in strips)
        assert [sum(row["calls"] for row in strips if row["product_operations"] > least) for least in (-1, 0)] == [7 + 7 + 2, 7 + 7]
    x = check_ops(said(f"bench speed --json --ops --model mlp200 --batch 4 --steps 2 --library {LIBRARY}"), True)
    whole = x["ops"][-1]
    assert near(x["with_library_ns"], whole["min_ns"] - whole["products_ns"] + whole["library_ns"])
    done = run("bench speed --ops --model lenet5 --batch 4 --steps 2 --top 3")
    check("the rest" in done.out and "no --library" in done.out, done)


main("bench")
