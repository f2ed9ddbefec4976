#!/usr/bin/env python3
"""stepwell pbt --profile, and what stepwell report makes of it."""
import collections
import json
import os
import random
import signal
import time

from frame import FULL, Run, check, get, main, refused, said, test, wait_until

PBT = "pbt --model mlp --hidden 8 --quiet --synthetic-n 200"


def check_rows(x):
    """The report's rows, members and totals add up."""
    each = collections.Counter()
    for row in x["budget"]:
        if row["kind"] == "member":
            each[row["number"]] += row["bytes"]
    assert all(each[k] == member["range_bytes"] for k, member in enumerate(x["members"]))
    assert sum(row["bytes"] for row in x["budget"]) == x["measured_bytes"]
    assert sum(member["range_bytes"] for member in x["members"]) == x["live_bytes"]
    assert sum(member["waiting_bytes"] + member["kept_bytes"] for member in x["members"]) == x["outside_bytes"]


def check_turns(budget, seen):
    """Each turn holds what was planned for it, and no more than the budget."""
    for line in get("p").splitlines():
        x = json.loads(line)
        seen.update(place for place in ("resident", "waiting") if f'"place":"{place}"' in line)
        if x["type"] == "member":
            seen.update({"kept": x["kept_bytes"] > 0, "copies": x["donor"] is not None})
        if x["type"] == "turn":
            seen["turns"] += 1
            check(x["turn"] > 0 and x["measured_bytes"] > 0 and (not budget or max(x["measured_bytes"], x["predicted_bytes"]) <= budget), line)


@test("every byte of random populations adds up")
def adds_up():
    """Batches and widths among what is explored, with and without a budget, members that wait, states that are kept."""
    dice, seen = random.Random(11), collections.Counter()
    for i in range(40 if FULL else 6):
        kib = (0, 400, 600, 1024)[i if i < 4 else dice.randrange(4)]
        x = said(f"{PBT} --json --members {dice.randint(2, 10)} --steps 24 --interval {dice.randint(4, 8)} --threads {dice.randint(1, 2)} "
                 f"--quantile 0.{dice.randint(1, 4)} --seed {dice.randint(1, 1000)} {dice.choice(('', '--synch'))} "
                 f"{f'--memory-budget {kib}KiB' if kib else ''} --profile p lr=log:0.001..0.1 batch=choice:8,16,32 hidden=int:2..12")
        report = said("report p --json")
        assert (report["measured_peak_bytes"], report["turns"]) == (x["memory"]["measured_peak_bytes"], x["turns"])
        assert (report["scores"], report["damaged"]) == ("validation accuracy", None)
        check_rows(report)
        check_turns(kib << 10, seen)
    print("     ", dict(seen))
    assert all(seen[key] > 0 for key in ("resident", "waiting", "kept", "copies"))


@test("a profile changes no number")
def same():
    """Scores, values and shapes are what they are without it."""
    words = f"{PBT} --json --members 5 --steps 24 --interval 6 --memory-budget 500KiB lr=log:0.001..0.1 batch=choice:8,16"
    a, b = said(words), said(words + " --profile p")
    assert a["population"] == b["population"] and a["memory"] == b["memory"]


@test("a killed run leaves a file that is read")
def killed():
    """Wherever it is killed, the file is read to the last turn that is whole."""
    files = turns = 0
    for i in range(20 if FULL else 4):
        if os.path.exists("p"):
            os.unlink("p")
        job = Run(f"{PBT} --members 6 --steps 1000000 --interval 4 --memory-budget 500KiB --profile p lr=log:0.001..0.1 batch=choice:8,16")
        time.sleep(0.12 + 0.06 * i)
        job.send(signal.SIGKILL)
        assert job.wait().status == -signal.SIGKILL
        if os.path.exists("p"):
            x = said("report p --json")
            assert x["status"] is None
            files += 1
            turns += x["turns"] > 0
            if x["turns"] > 0:
                check_rows(x)
    print(f"      {files} files, {turns} with turns")
    assert files > 0 and turns > 0


def interrupted(words, *files):
    """Interrupted when the files have a turn, looked at in their order: the kept one first, or "p" may still be that of the run before."""
    job = Run(words)
    wait_until(lambda: all(os.path.exists(name) and '"type":"turn"' in get(name) for name in files))
    job.send(signal.SIGINT)
    check(job.wait(60).status == 130, job)


@test("a run that goes on keeps the profile before")
def goes_on():
    """The profile of the run before is kept beside it."""
    words = f"{PBT} --members 3 --steps 1000000 --interval 5 --checkpoint c --profile p lr=log:0.001..0.1"
    interrupted(words, "p")
    before = said("report p --json")
    assert before["status"] == "interrupted"
    kept = f"p.before-{before['last_turn']}"
    interrupted(words + " --resume", kept, "p")
    check_rows(said(f"report {kept} --json"))
    assert said("report p --json")["first_turn"] == before["last_turn"] + 1


@test("what has no profile is refused")
def none():
    for words in ("--prove", "--replay none", "--without 1"):
        refused(f"pbt --profile no {words} lr=log:0.1..1", 2)
    refused("pbt --steps 4 --quiet --profile /no/such/folder/p lr=log:0.1..1", 1)


main("pbt profile")
