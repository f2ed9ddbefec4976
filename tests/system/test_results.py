#!/usr/bin/env python3
"""The output of the commands with --json: the keys that are part of the interface, and figures that agree with each other and between
commands."""
from frame import FULL, check, main, run, said, test

PHASES = ("data", "forward", "loss", "backward", "step")
PLAN = ("batch predicted_peak_bytes model_bytes arena_bytes data_bytes total_bytes plan_ns lower_bound_bytes checkpoint_bytes")


def has(x, strings, numbers):
    for key in strings.split():
        check(isinstance(x[key], str), key, x[key])
    for key in numbers.split():
        check(isinstance(x[key], (int, float)) and x[key] >= 0, key, x[key])


def has_phases(phases):
    assert set(phases) == set(PHASES)
    for phase in phases.values():
        has(phase, "", "peak_bytes end_bytes")


def has_shares(x, measured, words=""):
    """Roles or layers: every line has a name and bytes, as planned and, with `measured`, the same as measured; those at the peak add up to
    it."""
    for kind in ("roles", "layers"):
        lines = x[kind]
        assert len(lines) > 1
        for line in lines:
            has(line, "name", "")
            has(line["predicted"], "", "at_peak_bytes peak_bytes")
            assert line["predicted"]["peak_bytes"] > 0 and line["predicted"]["peak_bytes"] >= line["predicted"]["at_peak_bytes"]
            check(line.get("measured") == (line["predicted"] if measured else None), words, kind, line)
        assert sum(line["predicted"]["at_peak_bytes"] for line in lines) == x["predicted_peak_bytes"]


@test("train prints the keys of the interface")
def train_keys():
    done = run("train --json --synthetic-n 100 --batch 16 --steps 9 --epochs 2 --seed 3 --threads 2 --optimizer momentum")
    assert done.out.count("\n") == 1
    x = done.json
    has(x, "model device data optimizer measured_by", "batch steps epochs seed threads final_loss test_accuracy predicted_peak_bytes "
        "measured_peak_bytes model_bytes arena_bytes data_bytes checkpoint_bytes total_bytes lower_bound_bytes allocations_after_warmup "
        "min_step_ns median_step_ns p99_step_ns max_step_ns wall_ns")
    has_phases(x["predicted"])
    assert x["measured"] == x["predicted"]
    has_shares(x, True)
    # 7 steps are an epoch: the second is not whole
    assert [x[key] for key in ("batch", "steps", "epochs", "seed", "threads", "allocations_after_warmup")] == [16, 9, 1, 3, 2, 0]
    assert x["total_bytes"] == x["model_bytes"] + x["arena_bytes"] + x["data_bytes"] and x["lower_bound_bytes"] <= x["arena_bytes"]
    assert 0 < x["min_step_ns"] <= x["median_step_ns"] <= x["p99_step_ns"] <= x["max_step_ns"] < x["wall_ns"]
    assert x["checkpoint"] is None and x["resumed_from_step"] is None


@test("a run with checkpoints has their keys")
def checkpoint_keys():
    """Each member is null where nothing is known under it."""
    x = said("train --json --synthetic-n 100 --batch 20 --checkpoint c --checkpoint-every 2")
    saves = x["checkpoint"]
    has(saves, "path", "every_steps copy_bytes saved failed last_step file_bytes last_copy_ns last_write_ns")
    assert (saves["path"], saves["every_ns"], len(saves), saves["last_step"]) == ("c", None, 10, 5)
    assert saves["copy_bytes"] == x["checkpoint_bytes"] == x["model_bytes"]
    assert x["total_bytes"] == x["model_bytes"] + x["arena_bytes"] + x["data_bytes"] + x["checkpoint_bytes"]
    x = said("train --json --synthetic-n 100 --batch 20 --resume --checkpoint c --checkpoint-pauses")
    saves = x["checkpoint"]
    assert x["resumed_from_step"] == 5 and saves["every_steps"] is None and saves["last_copy_ns"] is None
    assert saves["every_ns"] == 600e9 and saves["copy_bytes"] == 0


@test("plan prints the keys of the interface")
def plan_keys():
    one = said("plan --json --synthetic-n 100 --batch 16")
    has(one, "model device", "")
    plans = said("plan --json --synthetic-n 100 --batch 1,16,50")["plans"]
    for x in [one] + plans:
        has(x, "", PLAN)
        has_phases(x["predicted"])
        has_shares(x, False)
    assert one["plan_ns"] > 0 and [x["batch"] for x in plans] == [1, 16, 50]
    assert plans[1]["predicted_peak_bytes"] == one["predicted_peak_bytes"]


def agrees(witness):
    return all(witness[name] is True for name in ("access", "extent", "death", "need")) and witness["faults"] == 0 and \
        witness["first_fault"] is None


def check_witnessed(words):
    """Program by program: what `plan` says, what `train` planned, what the witnesses saw."""
    plan, train = said(f"plan --json {words}"), said(f"train --json --quiet --witness --epochs 1 {words}")
    assert len(plan["programs"]) == len(train["programs"]) > 1
    for p, t in zip(plan["programs"], train["programs"]):
        for key in ("name", "batch", "predicted", "predicted_peak_bytes", "arena_bytes"):
            check(p[key] == t[key], words, key, p[key], t[key])
        has_shares(p, False, words)
        has_shares(t, True, words)
        check(t["predicted"] == t["measured"] and t["predicted_peak_bytes"] == t["measured_peak_bytes"], words, "other bytes were observed", t)
        check(t["runs"] > 0 and agrees(t["witness"]), words, "a witness disagrees or did not look", t)
    check(agrees(train["witness"]) and train["measured_by"] == "access", words, train)


@test("what is planned is what the witnesses observe")
def witnessed():
    """Of all 75, quick mode takes each optimizer once with another batch."""
    for o, optimizer in enumerate(("sgd", "momentum", "nesterov", "adam", "adamw")):
        for b, batch in enumerate((16, 100, 33, 5, 1)):
            for e, extra in enumerate(("", "--update after", "--clip 1 --weight-decay 0.01")):
                if FULL or (b == o and e == o % 3):
                    check_witnessed(f"--model mlp --hidden 12 --synthetic-n 100 --batch {batch} --optimizer {optimizer} {extra}")
    check_witnessed("--synthetic-n 90 --batch 32 --optimizer adam")
    check_witnessed("--synthetic-n 70 --batch 70 --optimizer nesterov --clip 1")


@test("every mode has its roles and layers")
def modes():
    """Without a witness the arena's births and deaths are what is measured, with batches that are not full and evaluation among them;
    immediate mode has the bump, a budget makes ops run again. A program that did not run has nothing."""
    for words in ("--synthetic-n 70 --batch 32 --optimizer adamw --threads 2", "--model mlp --synthetic-n 70 --batch 32 --immediate",
                  "--model mlp --hidden 9,8,7 --synthetic-n 40 --batch 7 --optimizer sgd --update after",
                  "--synthetic-n 20 --batch 20 --immediate --optimizer momentum --clip 1",
                  "--synthetic-n 128 --batch 64 --isa base --memory-budget 3000KiB --witness"):
        x = said(f"train --json --quiet --epochs 2 {words}")
        for part in [x] + x["programs"]:
            has_shares(part, True, words)
    last = said("train --json --quiet --steps 1 --synthetic-n 70 --batch 32")["programs"][1]
    assert last["runs"] == 0 and last["roles"][0]["measured"] is None
    has_shares(said("plan --json --immediate --batch 9"), False)


main("results")
