#!/usr/bin/env python3
"""es over several processes: the same bits for any number of them, their bytes as planned, and an end for all when one is gone."""
import glob
import os
import shutil
import signal
import tempfile
import time

from frame import FULL, PROGRAM, Run, Skip, check, main, put, raw, records, refused, run, said, test, wait_until
from ranks_frame import MODULE, RANDOM, ended, gone, killed, met, ranks, silent

SMALL = "es --model mlp --hidden 16 --synthetic-n 300 --population 96 --slice 8 --generations 5 --sigma 0.02"


def kept(out):
    """All that does not depend on time."""
    return {k: v for k, v in out.items() if k in ("fitness", "generations", "evaluations", "not_finite", "test_loss", "test_accuracy", "test_steps")}


@test("the bits are those of one process, for any number of ranks and threads")
def bits():
    kinds = [f"--noise {k}" for k in ("low-rank", "iid", "permuted", "permuted-in", "permuted-out", "sign-flip", "sign-flip-in", "sign-flip-out",
                                      "sparse", "dropout")] + ["--strategy snes", "--strategy ars", "--strategy nes --no-antithetic"]
    for i, kind in enumerate(kinds if FULL else ("--noise low-rank", "--strategy snes --noise iid")):
        words = f"{SMALL} {kind} --json --save-params p --metrics m.jsonl"
        alone, bytes_alone = said(words), raw("p")
        rows = [{k: v for k, v in r.items() if k != "ms"} for r in records("m.jsonl")]
        for n in (2, 3, 4, 8) if FULL or i == 0 else (3,):
            os.unlink("p")
            both = ended(ranks(n, f"{words} --threads {1 + n % 2}")).json
            check(raw("p") == bytes_alone and kept(both) == kept(alone), n, kind, both)
            check([{k: v for k, v in r.items() if k != "ms"} for r in records("m.jsonl")] == rows, n, kind)


@test("the lowest instruction set counts for all")
def isa():
    words = f"{SMALL} --save-params p"
    said_by = []
    for run in (lambda: Run(f"{words} --isa base").wait(), lambda: ended(ranks(3, words, {2: f"{words} --isa base"})), lambda: Run(words).wait()):
        run()
        said_by.append(raw("p"))
        os.unlink("p")
    check(said_by[0] == said_by[1])
    print(f"      that of another {'differs' if said_by[0] != said_by[2] else 'has the same bits'}")


@test("a fitness that goes in several pieces comes whole")
def pieces():
    words = "es --model mlp --hidden 4 --synthetic-n 300 --population 98304 --slice 2048 --samples 1 --generations 2 --json --save-params p"
    alone, bytes_alone = said(words), raw("p")  # 192 KiB of each of two ranks, and a piece has 128
    os.unlink("p")
    check(kept(ended(ranks(2, words)).json) == kept(alone) and raw("p") == bytes_alone)


@test("an environment is played by all")
def environment():
    words = "es --environment cart-pole --generations 6 --population 64 --slice 8 --json --save-params p"
    alone, bytes_alone = said(words), raw("p")
    check(kept(ended(ranks(3, words)).json) == kept(alone) and raw("p") == bytes_alone)


@test("each does its share, with the bytes that were planned and sent")
def shares():
    """Sent: what a rank says at first, its ISA, budget and order of sums, two numbers that are compared, where rank 0 is, its model, and then of each generation
    64-byte multiples and rows of the estimate, of the weights (784 -> 16 -> 10)."""
    alone = said(f"{SMALL} --json")
    for n in 2, 5:
        out = ended(ranks(n, f"{SMALL} --json")).json
        slices = 2 * 96 // 2 // 8
        assert out["transport"] == "sockets" and [r["runs"] for r in out["ranks"]] == [5 * len(range(k, slices, n)) for k in range(n)], out
        assert all(r["measured_peak_bytes"] == out["predicted_peak_bytes"] and r["waited_ns"] > 0 for r in out["ranks"])
        each = (-(-slices // n) * 8 * 4 + 16 + 63) // 64 * 64
        assert out["total_bytes"] - alone["total_bytes"] == out["transport_bytes"] == 2 * 256 * 1024 + 112 * n + (n + 1) * each
        rows = 4 * (-(-16 // n) * 784 + -(-10 // n) * 16)
        assert all(r["sent_bytes"] == (n - 1) * (96 + 3 * 8 + 2 * 8 + 8 + out["model_bytes"] + 5 * (each + rows)) for r in out["ranks"]), out["ranks"]


@test("an estimate that is made tile by tile is shared out")
def tiles():
    """Of 500 rows of 784 floats: 144 in a tile, and 68 in the last one; with snes and l2 a rank takes its rows of what is beside them."""
    big = "es --model mlp --hidden 500 --synthetic-n 300 --population 32 --slice 4 --samples 2 --generations 2 --save-params p --json"
    kinds = "--strategy snes --l2 0.1", "--noise low-rank --rank 2 --l1 0.01", "--noise dropout --optimizer sgd", "--noise sign-flip --threads 2", "--noise sparse"
    for i, kind in enumerate(kinds if FULL else kinds[:2]):
        said(f"{big} {kind}")
        whole = raw("p")
        for n in (2, 3, 7) if FULL else (3,):
            os.unlink("p")
            out = ended(ranks(n, f"{big} {kind}")).json
            check(raw("p") == whole, n, kind)
            rows = 4 * (784 * (3 * -(-144 // n) + -(-68 // n)) + -(-10 // n) * 500)
            each = (-(-8 // n) * 4 * 4 + 16 + 63) // 64 * 64
            check(all(r["sent_bytes"] == (n - 1) * (144 + out["model_bytes"] + 2 * (each + rows)) for r in out["ranks"]), rows, out)
            assert i > 0 or all(0 < r["update_ns"] < out["wall_ns"] for r in out["ranks"])


@test("plan knows the bytes of each rank, and what it sends")
def planned():
    nets = ("mlp --hidden 500 --optimizer adam", 32, 8, 2), ("mlp --hidden 16 --optimizer sgd", 96, 8, 1), ("lenet5 --optimizer adam", 40, 20, 1)
    for net, population, size, samples in nets if FULL else nets[:1]:
        for n in (2, 3, 16) if FULL else (3,):
            each = f"--model {net} --synthetic-n 300 --population {population} --slice {size}"
            plan = said(f"plan --method es {each} --batch {size * samples} --ranks {n} --json")["methods"][0]
            out = ended(ranks(n, f"es {each} --samples {samples} --generations 3 --json")).json
            check(all(plan[key] == out[key] for key in ("total_bytes", "transport_bytes", "predicted_peak_bytes", "model_bytes")) and plan["ranks"] == n, plan, out)
            assert all(r["measured_peak_bytes"] == (plan["predicted_peak_bytes"] if r["runs"] > 0 else 0) for r in out["ranks"])
            sent = sum(plan["sent_bytes_of_a_generation"].values())
            check(all(r["sent_bytes"] == (n - 1) * 144 + plan["sent_bytes_of_the_model"] + 3 * sent for r in out["ranks"]), plan, out)
    one = "plan --method es --model mlp --batch 8 --population 64"
    assert said(f"{one} --ranks 1 --json")["methods"] == said(f"{one} --json")["methods"]
    text = run(f"{one} --ranks 4").out.replace("\n", " ")
    assert "Each of 4 ranks has this total, " in text and " of the estimate, and before the first " in text, text
    total = said(f"{one} --ranks 4 --json")["methods"][0]["total_bytes"]
    said(f"{one} --ranks 4 --json --memory-budget {total}")
    refused(f"{one} --ranks 4 --memory-budget {total - 1}", 4, "does not fit", f"{total:,}")
    refused("plan --method es,mezo --model mlp --ranks 2", 2, "--ranks is planned with --method backprop or es")
    refused("plan --method es --model mlp --fit 64MiB --ranks 2", 2, "--ranks and --fit exclude each other")
    refused(f"{one} --ranks 5000", 2, "--ranks")


@test("a profile of each rank, and a report of all")
def profiles():
    out = ended(ranks(3, f"{SMALL} --profile f --json")).json
    lines = [records(name) for name in ("f", "f.r1", "f.r2")]
    begins, ends = zip(*([r for r in of if r["type"] == "rank"] for of in lines))
    for k, (of, begin, end) in enumerate(zip(lines, begins, ends)):
        assert (begin["at"], end["at"]) == ("begin", "end") and all((r["rank"], r["ranks"], r["host"]) == (k, 3, out["ranks"][k]["host"]) for r in (begin, end))
        assert of[-1]["status"] == "done" and begin["run"] == end["run"] == ends[0]["run"]
        assert end["sent_bytes"] >= out["ranks"][k]["sent_bytes"] and end["waited_ns"] >= out["ranks"][k]["waited_ns"], (end, out)
    one, all_of_them = said("report f --json"), said("report f.r2 f f.r1 --json")
    assert one["ranks"] == all_of_them["ranks"] and all_of_them["n_ranks"] == 3
    for k, row in enumerate(one["ranks"]):
        peak = max(r["peak_bytes"] for r in lines[k] if r["type"] == "step")
        runs = sum(r["type"] == "step" for r in lines[k])
        check((row["rank"], row["file"], row["measured_bytes"], row["predicted_bytes"], row["runs"], row["status"]) == (k, f"f.r{k}" if k else "f", peak, peak, runs, "done"), row)
        assert row["waited_ns"] == ends[k]["waited_ns"] and row["sent_bytes"] == ends[k]["sent_bytes"]
    text = run("report f").out
    table = text[text.index("Ranks: 3 of 3"):].splitlines()
    assert len(table) == 5 and all(line.split()[0] == str(k) and " equal" in line for k, line in enumerate(table[2:])), text
    assert run("report f f.r1 f.r2").out.splitlines() == table
    assert "Ranks" not in run("report f.r1").out and "ranks" not in said("report f.r1 --json")
    os.unlink("f.r1")
    assert run("report f").out.endswith("  1 of 3 files are not here, the first that of rank 1\n")
    assert "not here" not in run("report f --quiet").out
    refused("report f f", 2, "f and f are of one rank")
    put("f.r1", "no profile")  # is passed over beside it, and refused by name
    assert len(said("report f --json")["ranks"]) == 2
    run("report f f.r1", 3)
    shutil.copy("f", "first")
    ended(ranks(3, f"{SMALL} --profile f"))
    refused("report first f.r1", 2, "first and f.r1 are of two runs")
    shutil.move("first", "f")  # its neighbours are of another run
    assert [r["rank"] for r in said("report f --json")["ranks"]] == [0]
    run(f"{SMALL} --profile alone")
    assert "ranks" not in said("report alone --json")
    refused("report f alone", 2, "alone is of a run in one process")
    put("cut", raw("f.r2")[:raw("f.r2").index(b'"at":"end"')])
    done = Run("report f.r1 cut").wait()
    check(done.status == 0 and ", not ended" in done.out and " -  " in done.out, done)


@test("a run goes on with another number of ranks, after an interrupt or a kill")
def resume():
    many = SMALL.replace("--generations 5", "--generations 400")
    words = f"{many} --save-params p --checkpoint c --checkpoint-every 7"
    Run(f"{many} --save-params whole").wait()
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)[:3 if FULL else 2]:
        jobs = ranks(3, words)
        wait_until(lambda: os.path.exists("c"))
        if number == signal.SIGKILL:
            jobs[RANDOM.randrange(3)].send(number)
            gone(jobs)
        else:
            for job in jobs + jobs[:2]:  # a launcher sends again what a terminal has sent
                job.send(number)
            ended(jobs, 130)
        out = ended(ranks(2, f"{words} --resume c --json")).json
        check(raw("p") == raw("whole") and 0 < out["resumed_from_generation"] < out["generations"] and out["evaluations"] == 400 * 96, out)
        for name in glob.glob("[cp]*"):
            os.unlink(name)
    assert not glob.glob("m*")


@test("where one is killed, at whatever moment, all end")
def kills():
    for i in range(20 if FULL else 4):
        killed(SMALL.replace("--generations 5", "--generations 100000"), i)


@test("a rank that has stopped is named, and all end")
def stopped():
    silent(SMALL.replace("--generations 5", "--generations 100000"), "; the others are at generation ")


@test("all that stop for longer than the deadline go on, and no rank is named")
def away():
    jobs = met(ranks(3, SMALL.replace("--generations 5", "--generations 100000") + " --rank-timeout 2"))
    time.sleep(0.5)
    for number, pause in (signal.SIGSTOP, 3.5), (signal.SIGCONT, 1), (signal.SIGTERM, 0):
        for job in jobs:
            job.send(number)
        time.sleep(pause)
    ended(jobs, 130)


@test("a generation of many deadlines is no reason to end")
def long():
    size, limit = (8192, 1) if FULL else (1024, 2)
    out = ended(ranks(2, f"es --model mlp --hidden 256 --synthetic-n 300 --population {size} --slice 16 --samples 128 --generations 1 --rank-timeout {limit} --json")).json
    print(f"      a generation of {out['evaluate_ns'] / 1e9 / limit:.1f} deadlines")
    if FULL:  # signs between the ops of a run, for which the other waits
        out = ended(ranks(2, f"es --model mlp --hidden {','.join(['320'] * 40)} --synthetic-n 300 --population 256 --slice 256 --samples 128 --generations 1 --rank-timeout 1 --json")).json
        print(f"      a run of {out['evaluate_ns'] / 1e9:.1f} deadlines")
        assert out["evaluate_ns"] > 2e9, out


@test("what is not the same on all ranks is named")
def differs():
    def says(jobs, *parts):
        text = gone(jobs)
        check(all(p in text for p in parts) and text.count("stepwell es:") == 1, text)
    says(ranks(2, SMALL, {1: f"{SMALL} --l2 0.5"}), "all ranks must have the same options: rank 1 on host")
    lines = [f"{i},{i % 7},{i % 2}" for i in range(60)]
    put("a.csv", "\n".join(lines))
    put("b.csv", "\n".join(lines[:-1] + ["59,4,1"]))
    words = "es --model mlp --hidden 8 --population 16 --generations 2 --data csv:{}.csv"

    same = words.format("a")
    os.makedirs("one"), os.makedirs("two")
    shutil.copy("a.csv", "one/d.csv"), shutil.copy("b.csv", "two/d.csv")
    ended(ranks(2, same))
    here = os.getcwd()
    jobs, base = [], {"WORLD_SIZE": "2", "SOCKETS": tempfile.mkdtemp(dir=here), "STEPWELL_MPI_MODULE": MODULE}
    for k, folder in enumerate(("one", "two")):
        os.chdir(folder)
        jobs.append(Run(words.format("d"), {**base, "RANK": str(k)}.items()))
        os.chdir(here)
    says(jobs, "all ranks must have the same training data: rank 1")
    says(ranks(2, SMALL, {1: f"{SMALL} --warmup 5"}), "--warmup must be below the 5 generations")  # known after the data
    place = tempfile.mkdtemp(dir=".")
    base = {"WORLD_SIZE": "2", "SOCKETS": place, "STEPWELL_MPI_MODULE": MODULE}
    text = gone([Run(SMALL, {**base, "RANK": str(k), **({"SOCKETS_VERSION": "0.0.1"} if k else {})}.items()) for k in range(2)])
    check("all ranks must have the same version of stepwell: rank 1 on host" in text and "has 0.0.1, rank 0 on host" in text, text)


@test("an interrupt while data are loaded ends all")
def early():
    if not FULL:
        raise Skip("in full alone")
    put("d.csv", (",".join(str(i) for i in range(100)) + ",0\n" + ",".join(str(i) for i in range(1, 101)) + ",1\n") * 100000)
    jobs = met(ranks(2, "es --model mlp --hidden 8 --population 16 --data csv:d.csv"))
    jobs[1].send(signal.SIGINT)
    text = gone(jobs, 30)
    check("interrupted while the data were loaded" in text and "the same" not in text and jobs[1].status == 130, text, *jobs)


@test("what is wrong with the options of all is said once")
def one_voice():
    def alone(words, rank, said_by, of=None, **env):
        """The ranks that say so; all end with status 2."""
        jobs = ranks(3, words, of, **env)
        for job in jobs:
            job.wait(20)
        check(jobs[rank].status == 2 and [k for k, job in enumerate(jobs) if job.err] == said_by, *jobs)
        check(all(job.status == 2 for job in jobs) and not any(job.out for job in jobs), *jobs)

    for words in (f"{SMALL} --sigma 0", f"{SMALL} --no-such", f"{SMALL} --rank-timeout 0", f"{SMALL} --save-params p.npz", "train --accumulate 2", "evolve --price x"):
        alone(words, 0, [0])
    alone(f"{SMALL} --sigma 0 --ranks off", 0, [0, 1, 2])  # separate runs
    alone(f"{SMALL} --sigma 0 --ranks=off", 0, [0, 1, 2])
    alone(f"{SMALL} --sigma 0", 0, [0, 1, 2], OMPI_NUM_APP_CTX="2")  # mpirun ... : ...
    for names in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"), ("WORLD_SIZE", "RANK"):
        for rank in "0", "2":
            done = Run(f"{SMALL} --sigma 0", {names[0]: "3", names[1]: rank}.items()).wait()
            check(done.status == 2 and bool(done.err) == (rank == "0"), done)
    check("--sigma must be" in Run(f"{SMALL} --sigma 0", {"WORLD_SIZE": "1", "RANK": "2"}.items()).wait().err)
    check("unknown option" in Run("info --no-such", {"WORLD_SIZE": "2", "RANK": "1"}.items()).wait().err)
    for words in f"{SMALL} --warmup 5", "es --data csv:not-here.csv", f"{SMALL} --memory-budget 100KiB":  # known after the ranks have joined
        jobs = ranks(3, words)
        check(gone(jobs).count("stepwell es:") == 1 and jobs[0].err, words, *jobs)
    # of one rank alone: data that it does not have
    put("here.csv", "1,2,0\n2,3,1\n" * 20)
    jobs = ranks(2, "es --model mlp --hidden 8 --population 16 --data csv:here.csv", {1: "es --model mlp --hidden 8 --population 16 --data csv:not-here.csv"})
    check("not-here.csv" in gone(jobs) and "not-here.csv" in jobs[1].err, *jobs)


@test("a full disk and no memory on a rank end all, and one line says why")
def faults():
    os.mkdir("f.r2")
    for words, rank, env, part, status in ((f"{SMALL} --save-params p", 0, {"STEPWELL_FAULT": "file:40+"}, "Input/output error", 1),
                                           (SMALL, 1, {"STEPWELL_FAULT": "memory:200+"}, "no memory", 4), (f"{SMALL} --profile f", 2, {}, "f.r2", 1)):
        jobs = ranks(3, words, env_of={rank: env})
        says = gone(jobs)
        check(jobs[rank].status == status and says.count("\n") == 1 and part in says and not os.path.exists("p"), says, jobs[rank])


@test("a module that cannot be is refused in one line")
def modules():
    def says(*parts, **env):
        done = Run(SMALL, {"WORLD_SIZE": "2", "RANK": "0", "SOCKETS": ".", **env}.items()).wait()
        check(done.failed_cleanly(5) and all(p in done.err for p in parts), done)
    put("text", "no library\n" * 100)
    put("cut", raw(MODULE)[:4096])
    says("MPI module: ./not-there", STEPWELL_MPI_MODULE="not-there")
    says("MPI module: ./text is not a shared library", STEPWELL_MPI_MODULE="text")
    says("MPI module: ./cut is cut off", STEPWELL_MPI_MODULE="cut")
    says("the launcher started 2 processes (WORLD_SIZE), and sockets sees 3", STEPWELL_MPI_MODULE=MODULE, SOCKETS_SIZE="3")


@test("a budget has the transport in it")
def budget():
    total = ended(ranks(2, f"{SMALL} --json")).json["total_bytes"]
    ended(ranks(2, f"{SMALL} --memory-budget {total}"))
    check("does not fit" in gone(ranks(2, f"{SMALL} --memory-budget {total - 1}")))
    jobs = ranks(2, SMALL, {1: f"{SMALL} --memory-budget {total - 1}"})  # the least counts for rank 0 too
    check(gone(jobs).count("does not fit") == 1 and "does not fit" in jobs[0].err, *jobs)
    for words, part in ((f"{SMALL} --rank-timeout 0.5", "--rank-timeout must be 1 to 1e6 seconds (got 0.5)"), (f"{SMALL} --rank-timeout nan", "--rank-timeout")):
        done = Run(words).wait()
        check(done.failed_cleanly(2) and part in done.err, done)


@test("ranks share the cards of their host, and the bits are those of one process on a card")
def cards():
    fake = os.path.join(os.path.dirname(PROGRAM), "..", "tests", "cuda", "libstepwell-cuda-fake.so")
    if not os.path.exists(fake):
        raise Skip("the card that is not there is not built")
    for words, name in ((f"es --device cuda {SMALL[3:]} --save-params p", "p"),
                        ("pbt --device cuda --synthetic-n 96 --batch 16 --model mlp --hidden 32 --optimizer adamw --state 8bit --members 4 --interval 3 --steps 9 --quiet --save-params p%d lr=log:0.001..0.1", "p3")):
        run(words, STEPWELL_CUDA_MODULE=fake)
        alone = raw(name)
        os.unlink(name)
        ended(ranks(2, words, STEPWELL_CUDA_MODULE=fake))
        check(raw(name) == alone, words)


main("ranks")
