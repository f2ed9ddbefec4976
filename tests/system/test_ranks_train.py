#!/usr/bin/env python3
"""train over several processes: the bits of one for any number of them, their bytes as planned and sent, and an end for all when one is gone."""
import glob
import itertools
import math
import os
import signal
import socket
import subprocess
import tempfile

from frame import FULL, PROGRAM, Run, Skip, check, main, put, raw, records, run, said, test, wait_until
from ranks_frame import MODULE, RANDOM, ended, gone, killed, met, ranks, silent

MODELS = {"mlp": "--model mlp --hidden 24,12 --synthetic-n 130", "lenet5": "--model lenet5 --synthetic-n 130",
          "gpt": "--model gpt --data text:t.txt --layers 1 --width 16 --heads 2 --context 16",
          "mbconv": "--model mbconv --synthetic-n 130 --width-factor 0.1 --depth-factor 0.1"}
WAYS = {"released": "--update release", "after": "--update after", "clipped": "--clip 0.5", "dropout": "--dropout 0.3", "augmented": "--augment flip,crop=2",
        "momentum": "--optimizer momentum", "adafactor": "--optimizer adafactor"}
SHARDS = {8: (2, 4, 8), 12: (3, 6, 12)}
SMALL = f"train {MODELS['mlp']} --batch 24 --seed 2 --quiet"
LONG = f"{SMALL} --steps 1000000"


def kept(out):
    """All that does not depend on time, or on who ran what."""
    return {k: out[k] for k in ("steps", "epochs", "final_loss", "epoch_loss", "validation_loss", "skipped", "best_step", "best_validation_loss", "shards", "batch")}


def rows(name):
    return [{k: v for k, v in r.items() if k != "ms"} for r in records(name)]


def text():
    put("t.txt", "".join(chr(97 + (i * i // 7 + i // 3) % 26) for i in range(3000)))


def choices():
    """Runs in which every pair of choices occurs: model, way, shards, ranks' place, threads."""
    factors = [list(MODELS), list(WAYS), list(SHARDS), [0, 1, 2], [1, 2]]
    possible = [c for c in itertools.product(*factors) if not (c[1] == "augmented" and c[0] in ("mlp", "gpt"))]
    pairs = {(i, j, c[i], c[j]) for c in possible for i in range(5) for j in range(i)}
    while pairs:
        best = max(possible, key=lambda c: len(pairs & {(i, j, c[i], c[j]) for i in range(5) for j in range(i)}))
        pairs -= {(i, j, best[i], best[j]) for i in range(5) for j in range(i)}
        yield best


@test("the bits are those of one process, for any number of ranks and threads")
def bits():
    text()
    chosen = list(choices())
    if not FULL:
        chosen = chosen[:8]
    elif len(chosen) < 40:
        chosen += [c for c in itertools.product(MODELS, ("released", "clipped", "dropout"), SHARDS, (0, 1, 2), (1,)) if c not in chosen][:40 - len(chosen)]
    for model, way, shards, place, threads in chosen:
        n = SHARDS[shards][place]
        words = f"train {MODELS[model]} {WAYS[way]} --batch {2 * shards} --epochs 2 --validate-every 3 --shards {shards} --json --quiet --save-params p --metrics m.jsonl"
        alone = kept(said(words))
        params, metrics = raw("p"), rows("m.jsonl")
        os.unlink("p")
        out = ended(ranks(n, f"{words} --threads {threads}")).json
        check(raw("p") == params, "parameters", model, way, shards, n)
        check(kept(out) == alone and rows("m.jsonl") == metrics, model, way, shards, n, out, alone)
        check(all(r["measured_peak_bytes"] == r["predicted_peak_bytes"] for r in out["ranks"]), out["ranks"])
    print(f"      {len(chosen)} runs")


@test("each rank runs its shards, with the bytes that were planned and sent")
def shares():
    """Sent: what a rank says at first, its ISA, budget and order of sums, numbers that are compared, how pixels become numbers, progress, the model, and
    for each step the gradients, the check of losses and the scores; for each validation a batch's score."""
    sizes = (784 * 24, 24, 24 * 12, 12, 12 * 10, 10)
    for n, shards in ((2, 2), (2, 8), (3, 6), (4, 8)):
        words = f"{SMALL} --shards {shards} --epochs 2 --json --save-params p --checkpoint c --profile f"
        more = ended(ranks(n, words)).json
        os.unlink("c")
        rows_of = [line.split() for line in run(f"report f").out.splitlines() if line.split()[1:2] == [socket.gethostname()]]
        check(len(rows_of) == n, rows_of)
        fewer = ended(ranks(n, f"{words} --steps {more['steps'] - 1}")).json
        check(more["steps"] == 2 * (130 // 24) and [r["runs"] for r in more["ranks"]] == [more["steps"] * shards // n] * n, more)
        each = sum(8 * (n - 1) * math.ceil(g / n) for g in sizes) + (n - 1) * (8 + 16 + 16 * shards // n)
        for a, b in zip(more["ranks"], fewer["ranks"]):
            assert a["sent_bytes"] - b["sent_bytes"] == each, (a, b, each)
            check(a["measured_peak_bytes"] == a["predicted_peak_bytes"], more["ranks"])
        assert more["transport_bytes"] == 2 * 256 * 1024 + 112 * n + (n + 1) * (16 + 16 * shards // n), more
        planned = said(f"plan {MODELS['mlp']} --batch 24 --ranks {n} --shards {shards} --checkpoint c --json")
        check(all(planned[k] == more[k] for k in ("predicted_peak_bytes", "arena_bytes", "model_bytes", "total_bytes", "transport_bytes", "shards", "batch")), planned)
        assert sum(planned["sent_bytes_of_a_step"].values()) == each and planned["ranks"] == n, planned
        budget = more["total_bytes"]
        for name in glob.glob("[pc]*"):
            os.unlink(name)
        ended(ranks(n, f"{words} --memory-budget {budget}"))
        for name in glob.glob("[pc]*"):
            os.unlink(name)
        check("does not fit" in gone(ranks(n, f"{words} --memory-budget {budget - 1}"), 20))
        for name in glob.glob("[pc]*"):
            os.unlink(name)


@test("all sum products of bf16 in the first rank's order, and two that ask for different ones do not run")
def orders():
    words, saved = f"{SMALL} --epochs 2 --shards 4 --json --save-params p --precision bf16", {}
    for order in ("pair", "tile"):
        alone = said(f"{words} --bf16-order {order}")
        saved[order] = raw("p")
        os.unlink("p")
        both = ended(ranks(2, words, {0: f"{words} --bf16-order {order}"})).json
        check(both["bf16_order"] == order and kept(both) == kept(alone) and raw("p") == saved[order], order, both)
        os.unlink("p")
    check(saved["pair"] != saved["tile"])
    said_by = gone(ranks(2, f"{words} --bf16-order pair", {0: f"{words} --bf16-order tile"}), 20)
    check("options" in said_by, said_by)


@test("weights are updated in tiles, in the arena of one process")
def tiles():
    net = "--model mlp --hidden 600,600 --synthetic-n 130 --quiet"
    for n in (2, 3) if FULL else (3,):
        words = f"train {net} --batch 48 --steps {{}} --schedule constant --shards {n} --json --save-params p"
        alone = kept(said(words.format(4)))
        params = raw("p")
        os.unlink("p")
        both = ended(ranks(n, words.format(4))).json
        check(kept(both) == alone and raw("p") == params, both)
        os.unlink("p")
        fewer = ended(ranks(n, words.format(3))).json
        os.unlink("p")
        planned = said(f"plan {net} --batch 48 --ranks {n} --json")
        small = said(f"plan {net} --batch {48 // n} --json")
        each = sum(planned["sent_bytes_of_a_step"].values())
        assert [b["sent_bytes"] - a["sent_bytes"] for a, b in zip(fewer["ranks"], both["ranks"])] == [each] * n, (each, fewer["ranks"], both["ranks"])
        check(both["arena_bytes"] == planned["arena_bytes"] <= small["arena_bytes"] < 600 * 784 * 4, small["arena_bytes"], planned)


@test("an infinite loss of one shard skips the update everywhere")
def infinite():
    for some in ((5, 33, 70), (60, 61, 62), (2, 40, 90)):
        put("d.csv", "\n".join(",".join(["3e38" if i in some else f"{(i * k) % 13 * 0.1}" for k in range(9)] + [str(i % 3)]) for i in range(96)))
        words = "train --data csv:d.csv --model mlp --hidden 8 --batch 12 --shards 4 --epochs 3 --seed 2 --test-share 0.05 --quiet --json --save-params p"
        alone = kept(said(words))
        params = raw("p")
        check(alone["skipped"] > 0, alone)
        for n in (2, 4):
            out = ended(ranks(n, words)).json
            check(kept(out) == alone and raw("p") == params, out)


@test("too many skipped updates fail all ranks, and one says so")
def skipped():
    jobs = ranks(3, f"{SMALL} --lr 1e30 --max-skipped 2 --epochs 50 --save-params p")
    text_said = gone(jobs, 20)
    check(all(job.status == 1 for job in jobs) and text_said.count("2 updates in a row were skipped") == 1, text_said)
    check("the parameters of step" in text_said and os.path.exists("p"), text_said)


@test("a run goes on with another number of ranks, after an interrupt or a kill")
def resume():
    words = f"{SMALL} --shards 4 --epochs 400 --validate-every 3 --save-params p --metrics m.jsonl --checkpoint c --checkpoint-every 7"
    run(f"{SMALL} --shards 4 --epochs 400 --validate-every 3 --save-params whole --metrics w.jsonl")
    numbers = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
    for number, first, then in zip(numbers[:3 if FULL else 2], (4, 2, 4), (2, 4, 1)):
        jobs = ranks(first, words)
        wait_until(lambda: os.path.exists("c"))
        if number == signal.SIGKILL:
            jobs[RANDOM.randrange(first)].send(number)
            gone(jobs)
        else:
            for job in jobs[-1:] if number == signal.SIGTERM else jobs + jobs[:2]:  # one alone; all, and again, as a launcher does
                job.send(number)
            ended(jobs, 130)
        if then > 1:
            ended(ranks(then, f"{words} --resume c"))
        else:
            run(f"{words} --resume c")
        check(raw("p") == raw("whole") and rows("m.jsonl") == rows("w.jsonl"), number)
        for name in ["p", "m.jsonl", *glob.glob("c*")]:
            os.unlink(name)


@test("a wish to stop of one rank ends all after that step")
def step():
    words = f"{SMALL.replace('--synthetic-n 130', '--synthetic-n 40000')} --epochs 9 --json --metrics m.jsonl"
    jobs = ranks(3, words)
    wait_until(lambda: os.path.exists("m.jsonl") and raw("m.jsonl").count(b"\n") > 3, 60)
    jobs[2].send(signal.SIGTERM)
    out = ended(jobs, 130).json
    check(3 < out["steps"] < 40000 // 24 and out["epochs"] == 0, out["steps"])


@test("another number of shards is another run")
def other_shards():
    words = f"{SMALL} --steps 4 --checkpoint c"
    ended(ranks(2, words))
    check("--shards" in gone(ranks(4, f"{words} --resume c --steps 8")))


@test("where one is killed, at whatever moment, all end")
def kills():
    for i in range(20 if FULL else 4):
        killed(LONG, i)


@test("a rank that has stopped is named, and all end")
def stopped():
    silent(LONG, "; the others are at step ")


@test("a disk that is full, and no memory, end all with one reason")
def faults():
    if os.path.exists("/dev/full"):
        os.symlink("/dev/full", "m.csv")
        said_all = gone(ranks(2, f"{SMALL} --steps 5 --metrics m.csv"), 20)
        check("m.csv" in said_all and said_all.count("stepwell train:") == 1, said_all)
    check("does not fit" in gone(ranks(2, SMALL, {1: f"{SMALL} --memory-budget 600KiB"}), 20))


@test("an allocation or a file operation of one rank fails, and all end with one reason")
def sweep():
    words = f"{SMALL} --steps 8 --json --save-params p --checkpoint c --profile f --shards 4 --rank-timeout 5"
    whole = None
    for i in range(61 if FULL else 7):
        for name in glob.glob("[pcf]*"):
            os.unlink(name)
        kind, k = ("memory", 25 + RANDOM.randrange(400)) if i % 2 else ("file", 45 + RANDOM.randrange(205))
        plan = f"{kind}:{k}{'+' if i % 3 == 0 else ''}"
        jobs = ranks(2, words, env_of={i // 2 % 2: {"STEPWELL_FAULT": plan}} if i else None)  # the first: no fault
        for job in jobs:
            job.wait(30)
        lines = sum(job.err.count("stepwell train:") for job in jobs)
        if all(job.status == 0 for job in jobs):
            whole = whole or raw("p")
            check(raw("p") == whole and lines <= 1, plan, *jobs)
        else:  # a second line: the last checkpoint could not be saved either
            check(1 <= lines <= 2, plan, *jobs)


@test("what is not the same on all ranks is named, and what is not there is refused once")
def differs():
    check("all ranks must have the same options: rank 1 on host" in gone(ranks(2, f"{SMALL} --steps 9", {1: f"{SMALL} --steps 9 --weight-decay 0.5"})))
    for words, part in ((f"{SMALL} --accumulate 2", "--accumulate is not there with --shards or several processes"), (f"{SMALL} --immediate", "--immediate"),
                        (f"{SMALL} --method mezo", "--method"), (f"{SMALL} --device cuda", "cuda"), (f"{SMALL} --members 2", "start one, or give --ranks off"),
                        (f"{SMALL} --shards 3", "shards must be 2 times 1, 2, 4, 8, ..., since there are 2 ranks (got 3)"),
                        (f"{SMALL} --batch 25", "--batch must be a multiple of the 2 shards of a step (got 25; 26 would do)"),
                        (f"{SMALL} --batch 4000", "--batch must be at most the 130 training samples")):
        said_all = gone(ranks(2, words), 20)
        check(part in said_all and said_all.count("stepwell train:") == 1, words, said_all)
    done = Run(f"{SMALL} --shards 5").wait()
    check(done.failed_cleanly(2) and "--batch must be a multiple of the 5 shards" in done.err, done)


@test("a program of its own trains over ranks, by the public header")
def example():
    example = os.path.join(os.path.dirname(PROGRAM), "examples", "train_ranks")
    if not os.path.exists(example):
        raise Skip("it is not built")
    alone = subprocess.run([example], capture_output=True, text=True, timeout=120, check=True).stdout
    for n in (2, 4, 8) if FULL else (4,):
        env = {**os.environ, "WORLD_SIZE": str(n), "SOCKETS": tempfile.mkdtemp(dir="."), "STEPWELL_MPI_MODULE": MODULE}
        jobs = [subprocess.Popen([example], stdout=subprocess.PIPE, text=True, env={**env, "RANK": str(k)}) for k in range(n)]
        outs = [job.communicate(timeout=120)[0] for job in jobs]
        check(outs[0] == alone.replace("1 ranks:", f"{n} ranks:") and not any(outs[1:]) and not any(job.returncode for job in jobs), outs, alone)


main("ranks_train")
