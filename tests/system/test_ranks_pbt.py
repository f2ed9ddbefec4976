#!/usr/bin/env python3
"""pbt over several processes: the bits of one for any number of them, their bytes as planned and sent, and an end for all when one is gone."""
import glob
import json
import os
import shutil
import signal
import time

from frame import FULL, STEADY, Run, Skip, caught, check, get, main, put, raw, run, said, test, wait_until
from ranks_frame import RANDOM, ended, gone, killed, met, ranks, silent

NET = "pbt --synthetic-n 96 --batch 16 --model mlp --hidden 12 --members 6 --interval 3 --steps 24 --seed 3 --quiet --json --optimizer momentum"
LR = "lr=log:0.01..1 momentum=uniform:0..0.95"
WIDTH = "lr=log:0.01..1 hidden=int:4..20 batch=choice:8,16,32"
FILES = "--metrics m.jsonl --log-dir L --save-params p%d --plot p.svg"
MEMBERS, HELLO, WORD, TOLD = 6, 96, 24, 56
LONG = f"{NET} {LR}".replace("--steps 24", "--steps 300000")


def clear():
    for name in glob.glob("*"):
        (shutil.rmtree if os.path.isdir(name) else os.unlink)(name)


def left():
    """Each file that was written, by its name."""
    names = sorted(name for name in glob.glob("**", recursive=True) if name[0] in "mpL" and os.path.isfile(name))
    return {name: raw(name) for name in names}


def kept(done):
    """The result but times, bytes and who was there."""
    gone_keys = ("memory", "transport", "transport_bytes", "ranks", "threads")
    return {k: v for k, v in done.json.items() if k not in gone_keys and not k.endswith("_ns")}


def same(words, sizes, reference=None):
    """The files and the result of so many processes are those of one."""
    if reference is None:
        done = run(f"{words} {FILES}")
        reference = left(), kept(done)
        clear()
    for n in sizes:
        done = ended(ranks(n, f"{words} {FILES} --threads {1 + n % 2}"))
        files = left()
        check(list(files) == list(reference[0]), n, words, list(files))
        for name, bytes_ in files.items():
            check(bytes_ == reference[0][name], n, words, name, "differs")
        check(kept(done) == reference[1], n, words, kept(done), "and not", reference[1])
        clear()
    return reference


@test("the bits are those of one process, for any number of ranks and threads")
def bits():
    same(f"{NET} {LR}", (2, 3, 4, 8))
    kinds = (f"{WIDTH}", f"{WIDTH} --synch", f"{LR} --synch", f"{WIDTH} --exploit tournament --steps 45", f"{WIDTH} --synch --exploit t-test --steps 60",
             f"{LR} --members 7 --same-data --burn-in 5 --steps 31", f"{WIDTH} --quantile 0 --members 3", f"{LR} --members 1 --steps 30",
             f"{WIDTH} --stop-score 0.35 --metric accuracy", f"{WIDTH} --state 8bit")
    for kind in kinds if FULL else kinds[:2]:
        same(f"{NET} {kind}", (2, 3, 4, 8) if FULL else (3,))


@test("a budget of each rank changes no bit, and its exchange is in it")
def budget():
    """Members that wait are in memory or in a file; a rank with fewer members has fewer that wait."""
    words, waited = f"{NET} {WIDTH}", 0
    reference = same(words, ())
    largest = said(f"{words} --prove")["explore_bytes"]
    for n in (2, 3, 8) if FULL else (2,):
        for to in "", " --pause-to Z":
            taken = 2 * 256 * 1024 + 112 * n + (n + 1) * (WORD + -(-MEMBERS // n) * TOLD)
            for more in (0, 40_000):
                limit = taken + largest + more
                same(f"{words} --memory-budget {limit}{to}", (n,), reference)
            out = ended(ranks(n, words, {n - 1: f"{words} --memory-budget {limit}{to}"})).json  # the least budget counts for all
            memory = out["memory"]
            check(out["transport_bytes"] == taken and memory["budget_bytes"] == limit, out)
            for r in out["ranks"]:
                check(r["measured_peak_bytes"] <= r["predicted_peak_bytes"] <= limit - taken, r)
            waited += memory["waiting"]
            clear()
    assert waited > 0
    check("no shape fits --memory-budget" in gone(ranks(n, f"{words} --memory-budget {taken + 1000}")))


@test("each does its share, with the bytes that were planned")
def shares():
    for n in 2, 4, 8:
        out = ended(ranks(n, f"{NET} {LR} --quantile 0")).json
        check([r["steps"] for r in out["ranks"]] == [24 * len(range(k, MEMBERS, n)) for k in range(n)], out["ranks"])
        check(out["member_steps"] == 24 * MEMBERS and out["transport"] == "sockets", out)
        for r in out["ranks"]:
            check(r["measured_peak_bytes"] == r["predicted_peak_bytes"] and (r["predicted_peak_bytes"] > 0) == (r["steps"] > 0), r)
        assert out["memory"]["predicted_peak_bytes"] == out["ranks"][0]["predicted_peak_bytes"]
    out = ended(ranks(3, f"{NET} {LR} --synch")).json
    check(out["exploits"] > 0 and sum(r["steps"] for r in out["ranks"]) == out["member_steps"], out)


@test("each rank has a profile of its own members")
def profiles():
    """All of them have all members of each turn; a member has bytes in one of them."""
    out = ended(ranks(3, f"{NET} {WIDTH} --profile P")).json
    turns = []
    for k in range(3):
        records = [json.loads(line) for line in get(f"P.r{k}" if k else "P").splitlines()]
        turns.append([r for r in records if r["type"] == "turn"])
        members = [r for r in records if r["type"] == "member"]
        check(len(members) == MEMBERS * out["turns"] and len(turns[-1]) == out["turns"], k)
        for r in members:
            mine = r["member"] % 3 == k
            check(r["place"] in ("resident", "waiting") if mine else r["place"] == f"rank {r['member'] % 3}", k, r)
            check((r["range_bytes"] + r["waiting_bytes"] > 0) == mine, k, r)
        shown = said(f"report --json {f'P.r{k}' if k else 'P'}")
        check(shown["n_members"] == MEMBERS and shown["turns"] == out["turns"], shown)
    both = said("report --json P P.r1 P.r2")["ranks"]
    for k, (row, rank) in enumerate(zip(both, out["ranks"])):
        check(row["rank"] == k and row["runs"] == out["turns"] and row["sent_bytes"] - rank["sent_bytes"] == 2 * 64, row, rank)  # these figures
        check((row["predicted_bytes"], row["measured_bytes"]) == (rank["predicted_peak_bytes"], max(t["measured_bytes"] for t in turns[k])), row, rank)


@test("what is sent is as much as a formula says")
def sent():
    """Each rank: what it says at first, ISA, budget and order of sums, five numbers that are compared, what rank 0 knows of files and of a run before, and
    for each turn a word and its members. A copy from owner to owner is a member's pack, 64 bytes and its range. The best one's test goes to
    rank 0. For a save the size of each member, for parameters too, and the members that are not with rank 0, each after its head; a
    checkpoint is made of them twice, for its checksums and for its bytes."""
    head, files = 1888, ("", "--checkpoint c --checkpoint-every 1000", "--save-params p%d", "--checkpoint c --checkpoint-every 3 --save-params p")
    for n, more, saved, each, best_of in ((2, files[0], 0, 0, 0), (4, files[1], 1, 0, 0), (3, files[2], 0, 1, 0), (3, files[3], 3, 0, 1)):
        out = ended(ranks(n, f"{NET} {LR} --synch --log-dir L {more}")).json
        pack, best = 64 + out["population"][0]["bytes"], out["best"]["member"] % n
        rows = [json.loads(line) for line in get("L/pbt_global.txt").splitlines()]
        check(len(rows) == out["exploits"] > 0 and out["turns"] == 8, out)
        for k, r in enumerate(out["ranks"]):
            to_all = HELLO + 24 + 5 * 8 + 8 + 8 + 72 + 8 * (WORD + -(-MEMBERS // n) * TOLD) + 8 * (MEMBERS * (saved + each) + best_of)
            copies = sum(donor % n == k != target % n for target, donor, *_ in rows) * pack
            pieces = (head + pack) * (len(range(k, MEMBERS, n)) * (2 * saved + each) + best_of * (best == k)) if k > 0 else 0
            its = (n - 1) * to_all + copies + pieces + 40 * (best == k > 0)
            check(r["sent_bytes"] == its, n, more, k, r, its)
        clear()


@test("a run goes on with another number of ranks, after an interrupt or a kill")
def resume():
    """Its files are those of a whole run."""
    many = f"{NET} lr=log:0.01..1 hidden=choice:8,16".replace("--steps 24", f"--steps {3000 if FULL else 900}")
    words = f"{many} {FILES} --checkpoint c --checkpoint-every 7"
    done = run(f"{many} {FILES}")
    reference = left(), kept(done)
    clear()
    for i, number in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[:5 if FULL else 2]):
        first, then = ((3, 2), (2, 5), (4, 1), (1, 3), (8, 3))[i]
        jobs = ranks(first, words) if first > 1 else [Run(words)]
        wait_until(lambda: os.path.exists("c"))
        time.sleep(RANDOM.random() * 0.05)
        if number == signal.SIGKILL:
            jobs[RANDOM.randrange(first)].send(number)
            gone(jobs)
        else:
            # a launcher sends again what a terminal has sent; or one rank alone is asked to end
            for job in jobs[1:2] if i == 0 else jobs + jobs[:2] * (first > 1):
                job.send(number)
            ended(jobs, 130)
        done = ended(ranks(then, f"{words} --resume c") if then > 1 else [Run(f"{words} --resume c")])
        files = left()
        for name, bytes_ in files.items():
            check(bytes_ == reference[0][name], i, name)
        check(list(files) == list(reference[0]) and kept(done) == reference[1], i, kept(done), "and not", reference[1])
        clear()


@test("a save takes the memory of few members")
def memory():
    """Rank 0 has one of another rank at a time, and the run that goes on too."""
    if not STEADY:
        raise Skip("sanitizers keep memory of their own")
    words = "pbt --synthetic-n 100 --batch 16 --model mlp --hidden 512 --members 24 --interval 2 --steps 4 --quiet --json lr=log:0.001..0.01 --synch --quantile 0"
    without = ended(ranks(2, words))
    size = without.json["population"][0]["bytes"]
    for more in " --checkpoint c", " --checkpoint c --resume":
        taken = ended(ranks(2, words + more)).peak_bytes - without.peak_bytes
        print(f"      {taken / size:.1f} members more")
        check(taken < 5 * size, taken, size)


@test("a save that any rank is asked for is made by all")
def asked():
    jobs = met(ranks(3, f"{LONG} --checkpoint c --checkpoint-every 1000000"))
    wait_until(lambda: caught(jobs[2], signal.SIGUSR1))
    jobs[2].send(signal.SIGUSR1)
    wait_until(lambda: os.path.exists("c"))
    jobs[0].send(signal.SIGINT)
    ended(jobs, 130)
    assert os.path.exists("c.1")  # the first, and that of the end


@test("where one is killed, at whatever moment, all end")
def kills():
    for i in range(20 if FULL else 4):
        killed(f"{LONG} --checkpoint c --checkpoint-every 3" if i % 2 else LONG, i)
        clear()


@test("a rank that has stopped is named, and all end")
def stopped():
    silent(LONG, "; the others are at turn ")


@test("a turn of many deadlines is no reason to end")
def long():
    """Nor is a validation, or the last steps of a turn."""
    rows, steps, limit = (1500, 24, 3) if not STEADY else (48_000, 1000, 1) if FULL else (26_000, 500, 2)
    words = (f"pbt --synthetic-n {rows} --batch 8 --model mlp --hidden 2048,512 --members 3 --quantile 0 --steps {steps} --interval {steps} "
             f"--validation-share 0.5 --validation-samples {rows // 2} --quiet --json --rank-timeout {limit} lr=log:0.001..0.01")
    out = ended(ranks(2, words)).json
    print(f"      a turn of {out['train_ns'] / 1e9 / limit:.1f} deadlines, and {out['validation_ns'] / 1e9 / limit:.1f} for its scores")
    if min(out["train_ns"], out["validation_ns"]) < limit * 1e9:
        raise Skip("this machine is too fast for it")


@test("what fails a member is said as one process says it")
def failures():
    words = f"{NET} lr=choice:0.01,1e30 --max-skipped 2"
    alone = same(words, (2, 3))[1]
    check(any(m["failed"] for m in alone["population"]), alone["population"])


@test("what is not the same on all ranks is named")
def differs():
    words = f"{NET} {LR}"
    says = gone(ranks(2, words, {1: f"{words} --burn-in 7"}))
    check("all ranks must have the same options: rank 1 on host" in says, says)
    for part, name in (0, "training"), (1, "test"):
        for k, text in enumerate(("a", "b")):
            rows = [f"{i},{i % 7},{i % 2}" for i in range(40)]
            other = ["59,4,1"] * k * 30 + rows[k * 30:]
            put(f"{text}.csv", "\n".join(other if part == 0 else rows))
            put(f"{text}t.csv", "\n".join(other if part == 1 else rows))
        words = "pbt --data csv:{0}.csv --test-data csv:{0}t.csv --model mlp --hidden 4 --members 2 --quiet lr=log:0.01..0.1"
        says = gone(ranks(2, words.format("a"), {1: words.format("b")}))
        check(f"all ranks must have the same {name} data: rank 1 on host" in says, says)
    words += " --validation-share 0.5"
    for i in range(2, 40, 1 if FULL else 7):  # some are for validation
        put("bt.csv", get("at.csv"))
        put("b.csv", get("a.csv").replace(f"\n{i},", f"\n9{i},"))
        check("all ranks must have the same" in gone(ranks(2, words.format("a"), {1: words.format("b")})), i)


@test("a full disk, no memory, a damaged checkpoint: all end, and one line says why")
def ends():
    words = f"{LONG} --checkpoint c --checkpoint-every 1"
    jobs = ranks(3, words, env_of={0: {"STEPWELL_FAULT": "file:60+"}})
    says = gone(jobs)
    check(says.count("\n") == 1 and "Input/output error" in says and jobs[0].status == 1, says)
    clear()
    jobs = ranks(3, LONG, env_of={1: {"STEPWELL_FAULT": "memory:3000+"}})
    says = gone(jobs)
    check(jobs[1].status == 4 and says.count("\n") == 1, says)
    ended(ranks(2, f"{NET} {LR} --checkpoint c"))
    whole = raw("c")
    for at in (len(whole) // 2, len(whole) // 3):
        put("c", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        for job in ranks(2, f"{NET} {LR} --resume=c"):
            job.wait(20)
            check(job.status == 3 and job.err.count("\n") == 1 or job.status < 0, job)


main("ranks pbt")
