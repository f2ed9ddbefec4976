#!/usr/bin/env python3
"""evolve over several processes: the bits of one for any number of them, their bytes as said, and an end for all when one is gone."""
import glob
import json
import os
import re
import shutil
import signal
import time

from frame import FULL, Run, Skip, check, get, main, put, raw, run, wait_until
from frame import test as frame_test
from ranks_frame import RANDOM, ended, gone, killed, met, ranks, silent

SPACE = """{"format": "stepwell search space 1", "body": {"chain": [{"vertex": "conv2d", "size": {"from": 2, "to": 8}, "kernel": 3, "stride": 4},
 {"vertex": "activation"}, {"residual": {"vertex": "conv2d", "size": [2, 3, 5], "kernel": [1, 3]}}, {"vertex": "global_avg_pool"}]},
 "optimizers": ["adam", "sgd"], "lr": {"from": 0.001, "to": 0.05}, "batch": [8, 12], "activations": ["relu", "swish"]}"""
FIRST = """{"format": "stepwell genome 1", "input": [1, 28, 28], "optimizer": {"kind": "adam", "lr": 0.003, "update": "release"}, "batch": 8,
 "loss": {"kind": "cross_entropy"}, "vertices": [{"name": "c", "kind": "conv2d", "in": ["input"], "size": 4, "kernel": 3, "stride": 4},
 {"name": "a", "kind": "activation", "in": ["c"], "activation": "relu"}, {"name": "p", "kind": "global_avg_pool", "in": ["a"]},
 {"name": "out", "kind": "linear", "in": ["p"], "size": 10, "shield": ["size", "remove", "outputs", "crossover"]}]}"""
NET = "evolve --synthetic-n 300 --space S --first F --start 4 --samples 144 --trainings 8 --seed 3 --quiet --json --out R"
PLAIN = "evolve --synthetic-n 400 --start 4 --samples 720 --trainings 6 --quiet --json --out R"  # the default space, and the plain net
LONG = NET.replace("--samples 144", "--samples 100000000")
HELLO, WORD, BUFFER = 96, 88, 2 * 256 * 1024


def clear():
    for name in glob.glob("*"):
        (shutil.rmtree if os.path.isdir(name) else os.unlink)(name)
    put("S", SPACE)
    put("F", FIRST)


def lines(text):
    """Of a history, but times, and the sums of lines that have them."""
    kept = [json.loads(line) for line in text.splitlines()]
    for line in kept:
        for key in "ns_per_sample", "sum":
            line.pop(key, None)
    return kept


def left():
    """Each file of the run; what all took together stands in one row of the page."""
    found = {}
    for name in sorted(glob.glob("R/**", recursive=True)):
        if os.path.isfile(name):
            found[name] = lines(get(name)) if name.endswith(".jsonl") else re.sub(b"memory, at most.*", b"", raw(name))
    return found


def kept(done):
    """The result but times, bytes of all and who was there."""
    gone_keys = ("peak_bytes", "transport", "transport_bytes", "ranks", "longest_gap_ns", "wall_ns", "resumed")
    return {k: v for k, v in done.json.items() if k not in gone_keys}


def said_text(words):
    return run(words).out.removesuffix("\n")


def alone(words):
    clear()
    done = run(words)
    reference = left(), kept(done)
    clear()
    return reference


def equal(reference, done, *of):
    files = left()
    check(list(files) == list(reference[0]), *of, list(files))
    for name, content in files.items():
        check(content == reference[0][name], *of, name, "differs")
    check(kept(done) == reference[1], *of, kept(done), "and not", reference[1])


def same(words, sizes, threads=1):
    """The files and the result of so many processes are those of one."""
    words = f"{words} --threads {threads}"
    reference = alone(words)
    for n in sizes:
        equal(reference, ended(ranks(n, words)), n, words)
        clear()
    return reference


def test(promise):
    """The space is there first."""
    return lambda body: frame_test(promise)(lambda: clear() or body())


@test("the bits are those of one process, for any number of ranks, threads and workers")
def bits():
    same(NET, (2, 3, 4, 8) if FULL else (2, 3))
    same(f"{NET} --workers 5 --retrain 1", (2, 3, 4, 8) if FULL else (4,), 2)
    if not FULL:
        return
    kinds = ("--workers 2", "--search ageing --population 6 --parents 3 --workers 3", "--search random", "--fresh 0.5 --looks 0", "--rungs 1 --start 8 --workers 8",
             "--rungs 4 --eta 2 --trainings 6", "--looks 3 --parents 3", "--mutations size=0.5,kernel --fitness 2*accuracy+-0.00001*parameters",
             "--fitness train_accuracy:drop=0.25+-0.000000001*operations", "--candidate-memory 40KiB --memory-budget 700KiB", "--validation-samples 7",
             "--normalise 0.5,0.25 --seed 9")
    for i, kind in enumerate(kinds):
        same(f"{NET} {kind}", (2, 3, 4, 8), 1 + i % 2)
    same(PLAIN, (2, 3, 4, 8), 2)


def dealt(n, width, eta=3):
    """Who trained what, by the rule: those that have begun go to the rank with the least planned operations left, the longest first, and no
    rank has more than its share of all that may be in training. Steps of each, and bytes of states that went from it to another."""
    now, running, made, steps, moved = 0, {}, {}, [0] * n, [0] * n
    born, turns, fetched = {}, 0, 0
    for line in (json.loads(text) for text in get("R/history.jsonl").splitlines()[1:]):
        key = line["id"]
        if line["what"] != "rung":
            born[key] = line["operations"] / json.loads(line["genome"])["batch"], line["needs"][2]
            running[key] = [now + born[key][0] * (eta**2 if line["what"] == "look" else 1), None]
            continue
        if key not in running:  # one that goes on, alone
            running[key] = [now + born[key][0] * (eta**line["rung"] - eta**(line["rung"] - 1)), None]
        for job in sorted((job for job in running.values() if job[1] is None), key=lambda job: now - job[0]):
            work = [sum(other[0] - now for other in running.values() if other[1] == k) for k in range(n)]
            free = [k for k in range(n) if sum(other[1] == k for other in running.values()) < -(-width // n)]
            job[1] = min(free, key=lambda k: work[k])
        ends, owner = running.pop(key)
        if key in made:
            fetched += 1
            moved[0] += born[key][1] * (owner > 0)
        turns += 1
        now = max(now, ends)
        steps[owner] += line["steps"] - made.get(key, 0)
        made[key] = line["steps"]
        moved[owner] += born[key][1] * (owner > 0 and line["rests"])
    return steps, moved, turns, fetched


@test("each trains its share, and sends as much as a formula says")
def shares():
    """Each rank: what it says at first, ISA, budget and order of sums, space and first nets, 22 numbers that are compared, a word for each turn, whether a state is
    whole, at the end that of the best and the exit status. A state goes to rank 0, and back from there; as does the reason of one that failed."""
    for n, more, width in ((2, "", 4), (3, "--workers 6 --rungs 1 --start 8", 6), (4, "--looks 4 --trainings 9", 4)) if FULL else ((3, "--looks 3", 4),):
        clear()
        space = said_text(f"evolve --print-space --synthetic-n 300 --space S")
        out = ended(ranks(n, f"{NET} {more}")).json
        steps, moved, turns, fetched = dealt(n, width, 1 if "--rungs 1" in more else 3)
        check([r["steps"] for r in out["ranks"]] == steps and all(steps), n, more, out["ranks"], steps)
        assert sum(steps) == out["steps"]
        check(out["transport"] == "sockets" and out["transport_bytes"] == BUFFER + (HELLO + 16 + WORD) * n, out)
        first = json.loads(get("R/history.jsonl").splitlines()[1])["genome"]
        to_all = {r["sent_bytes"] - moved[k] for k, r in enumerate(out["ranks"])}
        at_first = HELLO + 24 + 24 + 8 + len(space) + 8 + len(first) + 22 * 8
        its = (n - 1) * (at_first + WORD * turns + 4 * fetched + 4 + 4)
        check(to_all == {its}, n, more, to_all, its, turns, fetched)
        for r in out["ranks"]:
            check(r["measured_peak_bytes"] == r["predicted_peak_bytes"] > 0, r)
        assert max(r["predicted_peak_bytes"] for r in out["ranks"]) == max(c["predicted_bytes"] for c in out["candidates"])
    # Beside the plain net, which is long, a rank has no more small ones than its share.
    clear()
    out = ended(ranks(2, NET.replace("--first F ", ""))).json
    steps, moved, *_ = dealt(2, 4)
    check([r["steps"] for r in out["ranks"]] == steps != dealt(2, 8)[0], out["ranks"], steps)
    assert len({r["sent_bytes"] - moved[k] for k, r in enumerate(out["ranks"])}) == 1


@test("the budget of each rank has the exchange in it, and changes no bit")
def budget():
    """Unless it is too small for both, which is an end for all."""
    words = f"{PLAIN} --mutations grow=0.8,size"  # nets grow as far as there is room
    reference = alone(f"{words} --memory-budget 9MiB")
    check(max(c["predicted_bytes"] for c in reference[1]["candidates"]) > 7 << 20, reference)
    for n in (2, 3) if FULL else (3,):
        equal(reference, ended(ranks(n, words, {n - 1: f"{words} --memory-budget 9MiB"})))  # the least budget counts for all
        clear()
    jobs = ranks(2, f"{NET} --memory-budget 520KiB")
    says = gone(jobs)
    check("for exchanges of ranks" in says and any(job.status == 4 for job in jobs), *jobs)


def ended_early(jobs):
    """All end well, or all as interrupted, where the search was not over by then."""
    for job in jobs:
        job.wait(120)
    check({job.status for job in jobs} in ({0}, {130}) and not any(job.out for job in jobs[1:]), *jobs)
    check(not jobs[0].json["timed_out"] and jobs[0].json["ended"] >= (jobs[0].status == 0), jobs[0])
    return not jobs[0].json["ended"]


@test("a run goes on with another number of ranks, after an interrupt or a kill")
def resume():
    """Its files are those of a whole run."""
    words = NET.replace("--samples 144", f"--samples {60000 if FULL else 20000}") + " --workers 3 --looks 2"
    reference, stopped_early = alone(words), 0
    for i, number in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[:5 if FULL else 2]):
        first, then = ((3, 2), (2, 5), (4, 1), (1, 3), (8, 3))[i]
        jobs = ranks(first, words) if first > 1 else [Run(words)]
        wait_until(lambda: os.path.exists("R/history.jsonl") and '"rung"' in get("R/history.jsonl"))
        time.sleep(RANDOM.random() * 0.2)
        if number == signal.SIGKILL:
            jobs[RANDOM.randrange(first)].send(number)
            gone(jobs)
        else:
            # a launcher sends again what a terminal has sent; or one rank alone is asked to end
            for job in jobs[1:2] if i == 0 else jobs + jobs[:2] * (first > 1):
                job.send(number)
            stopped_early += ended_early(jobs)
        done = ended(ranks(then, f"{words} --resume")) if then > 1 else ended([Run(f"{words} --resume")])
        check(done.json["resumed"], done)
        equal(reference, done, i)
        clear()
    check(stopped_early > 0, "all were over before the signal came")


@test("a state that is damaged or gone is trained again, wherever it was")
def damaged():
    """Before it goes on, and that of the best."""
    words = NET.replace("--samples 144", "--samples 10000") + " --workers 4"
    reference = alone(words)
    for i in range(6 if FULL else 2):
        jobs = ranks(3, words)
        wait_until(lambda: glob.glob("R/members/*"))
        time.sleep(0.1 * RANDOM.random())
        for job in jobs:
            job.send(signal.SIGTERM)
        ended_early(jobs)
        for name in glob.glob("R/members/*"):
            if i % 2:
                os.unlink(name)
            else:
                whole = raw(name)
                put(name, whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
        equal(reference, ended(ranks(2, f"{words} --resume")), i)
        clear()


@test("--time-limit follows the clock of rank 0, and all end")
def time_limit():
    done = ended(ranks(3, f"{LONG} --time-limit 1s"))
    check(done.json["timed_out"] and not done.json["ended"], done)


@test("rank 0 alone has the folder, and reads spaces and nets")
def files():
    reference = alone(NET)
    other = NET.replace("--out R", "--out Q")
    for its in other.replace("--space S --first F", "--space none --first no,nothing"), other.replace("--space S --first F ", ""):
        done = ended(ranks(3, NET, {1: its, 2: its}))
        check(not os.path.exists("Q"), glob.glob("*"))
        equal(reference, done, its)
        clear()
    if FULL:
        ended(ranks(2, PLAIN, {1: f"{PLAIN} --space none --first no"}))


@test("where one is killed, at whatever moment, all end")
def kills():
    for i in range(20 if FULL else 4):
        clear()
        killed(f"{LONG} --workers 3", i)


@test("a rank that has stopped is named, and all end")
def stopped():
    silent(LONG)


@test("while rank 0 trains the best again, the others wait longer than the deadline")
def waits():
    began, epochs = time.monotonic(), 6000 if FULL else 1500
    done = ended(ranks(2, f"{NET} --trainings 1 --looks 0 --rank-timeout 1 --retrain {epochs}")).json
    assert done["retrained_accuracy"] is not None
    took = time.monotonic() - began
    clear()
    jobs = ranks(3, f"{NET} --trainings 1 --looks 0 --retrain 1000000")
    wait_until(lambda: os.path.exists("R/report.html"))
    jobs[0].send(signal.SIGTERM)
    ended(jobs, 130)  # of all, though only one was asked
    if took < 2:
        raise Skip("this machine is too fast for it")


@test("a net whose loss is no number is said as one process says it")
def invalid():
    put("S", SPACE.replace('"from": 0.001, "to": 0.05', '"from": 1e20, "to": 1e30').replace('["adam", "sgd"]', '["sgd"]'))
    done = run(f"{NET} --rungs 1")
    reference = left(), kept(done)
    check(done.json["invalid"] > 1 and "the loss of" in get("R/report.html"), done)
    for n in 2, 3:
        shutil.rmtree("R")
        equal(reference, ended(ranks(n, f"{NET} --rungs 1")))


@test("what is not the same on all ranks is named")
def differs():
    for more, name in ("--trainings 9", "trainings"), ("--seed 4", "seed"), ("--threads 2", "threads of a candidate"), ("--validation-share 0.2", "data"), (
            "--candidate-memory 1MiB", "candidate_bytes"):
        words = f"{NET} --validation-samples 9"
        says = gone(ranks(2, words, {1: f"{words} {more}"}))
        check(f"all ranks must have the same {name}: rank 1 on host" in says, says)
        clear()


@test("what is not there over several processes is refused once, by name")
def refusals():
    for more, part in ("--fitness accuracy+-1e-9*time", "--fitness time"), ("--print-space", "--print-space"), ("--price f.json", "--price"), (
            "--rank-timeout 0", "--rank-timeout"):
        jobs = ranks(3, f"evolve {more}")
        for job in jobs:
            job.wait(20)
        check(all(job.status == 2 for job in jobs) and [bool(job.err) for job in jobs] == [True, False, False], *jobs)
        check(part in jobs[0].err and jobs[0].err.count("\n") == 1, jobs[0])
    ended(ranks(2, NET))
    says = gone(ranks(2, NET))
    check("a run is there already" in says and says.count("\n") == 1, says)


@test("a full disk, no memory, a damaged history: all end, and one line says why")
def ends():
    for at in (60, 80, 100, 120, 200) if FULL else (100,):
        jobs = ranks(3, f"{NET} --workers 3", env_of={0: {"STEPWELL_FAULT": f"file:{at}+"}})
        says = gone(jobs)
        check(says.count("\n") == 1 and "Input/output error" in says and jobs[0].status in (1, 3), at, *jobs)
        clear()
    jobs = ranks(3, f"{NET} --workers 3", env_of={1: {"STEPWELL_FAULT": "memory:3000+"}})
    says = gone(jobs)
    check(jobs[1].status in (1, 4) and says.count("\n") == 1, says)
    clear()
    done = ended(ranks(2, f"{NET} --workers 3"))
    reference, whole = (left(), kept(done)), raw("R/history.jsonl")
    for at in (len(whole) // 2, len(whole) - 40):
        put("R/history.jsonl", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        equal(reference, ended(ranks(3, f"{NET} --workers 3 --resume")), at)


@test("an allocation or a file operation of one rank fails, and all end with one reason")
def sweep():
    """Or none has to: a state that cannot be read is trained again."""
    words = f"{NET} --workers 3 --rank-timeout 5"
    reference = alone(words)
    for i in range(60 if FULL else 4):
        clear()
        kind, k = ("memory", 25 + RANDOM.randrange(6000)) if i % 2 else ("file", 45 + RANDOM.randrange(200))
        plan = f"{kind}:{k}{'+' if i % 3 == 0 else ''}"
        jobs = ranks(2, words, env_of={i // 2 % 2: {"STEPWELL_FAULT": plan}})
        for job in jobs:
            job.wait(30)
        if all(job.status == 0 for job in jobs):
            equal(reference, jobs[0], plan)
        else:
            check(sum(job.err.count("stepwell evolve:") for job in jobs) == 1, plan, *jobs)


main("ranks evolve")
