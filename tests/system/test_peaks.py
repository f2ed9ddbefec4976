#!/usr/bin/env python3
"""The figures of `stepwell report` for real runs, against those known without the profiler: figures of `train` and `plan`, and sums
worked out from shapes."""
from frame import check, main, run, said, test

ROLES = {"parameter", "optimizer_state", "buffer", "state", "input", "activation", "saved", "gradient", "temporary", "workspace", "metric",
         "output", "knob"}


def check_sums(diff, a, b):
    """Each group of lines has the whole of both peaks."""
    for group in ("roles", "layers", "ops", "tensors"):
        sums = [sum(line[side] for line in diff[group].values()) for side in "ab"]
        check(sums == [a, b], group, sums, "not", a, b)
    assert diff["peak_difference_bytes"] == (a - b if diff["newer"] == "a" else b - a)


def check_table(profile, by, peak):
    """The rows of a table but for the first one add up to it, and it is what training measured."""
    table = said(f"report --json --by {by} {profile}")
    first, *rows = table["rows"]
    assert table["measured_peak_bytes"] == first["at_peak_bytes"] == peak
    assert by != "role" or {row["role"] for row in rows} <= ROLES
    assert all(row["own_peak_bytes"] >= row["at_peak_bytes"] for row in rows)
    total = sum(row["at_peak_bytes"] for row in rows if "/" not in row[by])
    check(total == peak, by, total, "of", peak)


@test("every byte of every model has role and layer")
def roles_and_layers():
    """Planned and immediate, released and kept gradients, and with what does not fit rebuilt."""
    net = "--model swishnet --width 64 --layers 4 --batch 32 --synthetic-n 64"
    for words in ("--model mlp --batch 32 --synthetic-n 99", "--model lenet5 --batch 32 --synthetic-n 99",
                  "--model lenet5 --batch 32 --immediate --synthetic-n 99",
                  "--model lenet5 --batch 16 --optimizer momentum --keep-gradients --synthetic-n 99",
                  "--model lenet5 --batch 16 --optimizer adamw --state 8bit --synthetic-n 99",
                  "--model mlp --batch 8 --accumulate 3 --synthetic-n 99", net, net + " --immediate"):
        peak = said(f"train --json --quiet --steps 3 {words} --profile p")["measured_peak_bytes"]
        check_table("p", "role", peak)
        check_table("p", "layer", peak)
        equal = said("report --json p")["equal"]
        check(equal is (None if "--immediate" in words else True), words, "predicted as measured:", equal)


@test("two steps differ as their plans do")
def steps_differ():
    """The last batch of an epoch is smaller, and an evaluation is another program: each peaks as `plan` says for its batch."""
    whole, part = (said(f"plan --json --model mlp --batch {n}")["predicted_peak_bytes"] for n in (48, 4))
    run("train --json --quiet --model mlp --synthetic-n 100 --batch 48 --epochs 1 --profile p")
    for steps, a, b, same in (("2,3", whole, part, False), ("1,2", whole, whole, True), ("3,eval:4", part, None, False)):
        diff = said(f"report --json --steps {steps} p")
        check_sums(diff, a, diff["totals"]["peak"]["b"] if b is None else b)
        assert diff["same_program"] is same


@test("immediate steps are compared too")
def immediate():
    run("train --json --quiet --model mlp --synthetic-n 100 --batch 48 --epochs 1 --immediate --profile p")
    diff = said("report --json --steps 2,3 p")
    peak = diff["totals"]["peak"]
    check_sums(diff, peak["a"], peak["b"])
    assert peak["a"] > peak["b"] and "(not in the values)" not in diff["roles"]


@test("one layer more is the whole difference")
def one_layer_more():
    """A layer more of width 64 has 64 * 64 + 64 parameters, and keeps its output of 32 * 64."""
    for name, layers in (("few", 3), ("more", 4)):
        run(f"train --json --quiet --model swishnet --width 64 --batch 32 --synthetic-n 64 --steps 2 --layers {layers} --profile {name}")
    diff = said("report --json more --diff few")
    peak = diff["totals"]["peak"]
    check_sums(diff, peak["a"], peak["b"])
    assert peak["difference"] == 4 * (64 * 64 + 64 + 32 * 64)
    assert [diff["roles"][role]["difference"] for role in ("parameter", "saved", "gradient")] == [4 * (64 * 64 + 64), 4 * 32 * 64, 0]
    assert diff["layers"]["fc1"]["difference"] == 0 < diff["layers"]["fc4"]["difference"]
    assert diff["a"]["equal"] and diff["b"]["equal"]
    more = run("report --quiet more --diff few --fail-on-increase 2%", 1)
    check("layer fc4 (+" in more.err and more.err.count("\n") == 1, more)
    assert run("report --quiet few --diff more --fail-on-increase 0%").err == ""


@test("limits are those of the peak that was measured")
def limits():
    peak = said("train --json --quiet --model mlp --steps 2 --batch 32 --profile p")["measured_peak_bytes"]
    for below in (0, 1):
        run(f"report p --max-peak {peak - below}", below)


main("peaks")
