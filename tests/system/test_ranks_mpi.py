#!/usr/bin/env python3
"""Commands over ranks that Open MPI and MPICH started: the bits of one process, and an end for all when one is gone. The suite mpi."""
import functools
import glob
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import time

from frame import PROGRAM, Run, Skip, check, get, main, raw, records, run, said, test, wait_until
from ranks_frame import RANDOM

MPIS = {"Open MPI": ("mpirun.openmpi --allow-run-as-root --oversubscribe", "libstepwell-openmpi.so"), "MPICH": ("mpirun.mpich", "libstepwell-mpich.so")}
OF = "--synthetic-n 130 --model mlp --quiet"
FILES, SAVES = "--save-params p --metrics m.jsonl", "--checkpoint c --checkpoint-every 1000000"
# A run; the option that says how long it is, for one that is compared and one that is interrupted; what it writes, saves for another run, and
# goes on by; the file that has a line once it runs.
COMMANDS = {
    "es": (f"es {OF} --hidden 16 --population 96 --slice 8 --sigma 0.02", "--generations", 30, 400, FILES, SAVES, "--resume c", "m.jsonl"),
    "evolve": ("evolve --synthetic-n 300 --start 4 --trainings 6 --seed 3 --workers 3 --quiet", "--samples", 720, 4000, "--out R", "", "--resume", "R/history.jsonl"),
    "pbt": (f"pbt {OF} --hidden 12 --batch 16 --members 6 --interval 3 --seed 3 lr=log:0.01..1 hidden=int:4..20 batch=choice:8,16", "--steps", 30, 900, FILES, SAVES,
            "--resume c", "m.jsonl"),
    "train": (f"train {OF} --hidden 24,12 --batch 24 --validate-every 3", "--shards 4 --steps", 30, 2000, FILES, SAVES, "--resume c", "m.jsonl")}
WITHOUT_TIMES = ("fitness", "generations", "evaluations", "test_loss", "test_accuracy", "population", "turns", "exploits", "best", "steps", "final_loss",
                 "validation_loss", "epoch_loss", "skipped", "candidates", "mutants")
TIMES = ("ms", "ns_per_sample", "sum")  # the sum of a line that has times


def launcher_of(mpi):
    launcher, module = MPIS[mpi]
    if shutil.which(launcher.split()[0]) is None or not os.path.exists(os.path.join(os.path.dirname(PROGRAM), "..", "runtime", module)):
        raise Skip(f"no {mpi} is here")
    return launcher


def start(mpi, n, words, *more):
    """n processes of the program."""
    return Run(" ".join(["exec", launcher_of(mpi), *more, "-n", str(n), PROGRAM, words]), shell=True)


def clear():
    shutil.rmtree("R", ignore_errors=True)
    for name in glob.glob("[pmc]*"):
        os.unlink(name)


def left():
    """The files of a run, which go, without times and what all ranks took together."""
    found = {}
    for name in filter(os.path.isfile, glob.glob("[pm]*") + glob.glob("R/**", recursive=True)):
        found[name] = [{k: v for k, v in r.items() if k not in TIMES} for r in records(name)] if name.endswith(".jsonl") else re.sub(b"memory, at most.*", b"", raw(name))
    clear()
    assert len(found) > 1
    return found


def kept(out):
    return {k: v for k, v in out.items() if k in WITHOUT_TIMES}


def parents():
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            found[int(name)] = int(get(f"/proc/{name}/stat").rsplit(")", 1)[1].split()[1])
        except OSError:
            pass  # it has ended
    return found


def ranks_of(job):
    """The processes of the program that the launcher has, by their rank."""
    parent, below, found = parents(), {job.child.pid}, {}
    while more := {pid for pid, of in parent.items() if of in below} - below:
        below |= more
    for pid in below:
        try:
            env = dict(word.split("=", 1) for word in get(f"/proc/{pid}/environ").split("\0") if "=" in word)
            rank = env.get("OMPI_COMM_WORLD_RANK", env.get("PMI_RANK"))
            if rank and os.path.samefile(f"/proc/{pid}/exe", PROGRAM):
                found[int(rank)] = pid
        except OSError:
            pass
    return found


def begun(job, n):
    """All its ranks, which join each other from here on."""
    wait_until(lambda: len(ranks_of(job)) == n, 20, 0.01)
    return ranks_of(job)


def at_work(job, n, command):
    """The same, once the run has begun: MPI's own start has no deadline."""
    pids, name = begun(job, n), COMMANDS[command][-1]
    wait_until(lambda: os.path.exists(name) and "\n" in get(name), 60)
    return pids


def all_gone(job, pids, seconds):
    """The launcher ends, not well, and 5 seconds later nothing is there."""
    job.wait(seconds)
    check(job.status != 0, job)
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()), 5, 0.05)


def endless(command):
    words, end, _, _, files, *_ = COMMANDS[command]
    return f"{words} {end.split()[-1]} 1000000 {files}"


def each(promise, commands=COMMANDS):
    """A test for each MPI and command, which are what its function gets."""
    def add(body):
        for mpi in MPIS:
            for command in commands:
                test(f"{command} by {mpi}: {promise}")(functools.partial(body, mpi, command))
    return add


@each("the bits are those of one process")
def bits(mpi, command):
    words, end, length, _, files, *_ = COMMANDS[command]
    words = f"{words} {end} {length} {files} --json"
    alone = kept(said(words)), left()
    assert len(alone[0]) > 3
    for n in 2, 4:
        job = start(mpi, n, words).wait(60)
        check(job.status == 0 and job.out.count("\n") == 1 and len(job.json["ranks"]) == n and mpi in job.json["transport"], job)
        check((kept(job.json), left()) == alone, n, job)


@each("where one is killed, at whatever moment, all end")
def kills(mpi, command):
    for i in range(5):
        job = start(mpi, 3, endless(command))
        pids = begun(job, 3)
        time.sleep(0.3 * i + RANDOM.random() * 0.3)
        os.kill(pids[i % 3], signal.SIGKILL)
        all_gone(job, pids, 20)
        clear()


@each("a rank that has stopped is named, and all end")
def stopped(mpi, command):
    job = start(mpi, 3, f"{endless(command)} --rank-timeout 2")
    pids = at_work(job, 3, command)
    os.kill(pids[1], signal.SIGSTOP)
    began = time.monotonic()
    all_gone(job, pids, 20)
    check(f"rank 1 of 3 on host {socket.gethostname()[:60]}" in job.err and "has given no sign of life for" in job.err, job)
    assert time.monotonic() - began < 10


@each("SIGTERM saves, and another number of ranks goes on")
def resume(mpi, command):
    words, end, _, length, files, saves, goes_on, _ = COMMANDS[command]
    words = f"{words} {end} {length} {files}"
    run(words)
    whole = left()
    longer = ["--mca odls_base_sigkill_timeout 3"] if mpi == "Open MPI" else []  # seconds to save in; else 1
    job = start(mpi, 4, f"{words} {saves}", *longer)
    pids = at_work(job, 4, command)
    check(not os.path.exists("c"))
    job.send(signal.SIGTERM)
    all_gone(job, pids, 20)
    check(os.path.exists("c") or not saves, job)
    job = start(mpi, 2, f"{words} {saves} {goes_on} --json").wait(120)
    check(job.status == 0 and job.json.get("resumed", True) and left() == whole, job)


@each("Ctrl-C in a terminal ends all with a checkpoint, from which another number goes on", ("es",))
def terminal(mpi, command):
    words, end, *_ = COMMANDS[command]
    line = f"{launcher_of(mpi)} -n 3 {PROGRAM} {endless(command)} --checkpoint c --checkpoint-every 5"
    try:
        pid, fd = pty.fork()
    except OSError as why:
        raise Skip("no terminal can be made here") from why
    if pid == 0:
        os.execvp(line.split()[0], line.split())
    wait_until(lambda: os.path.exists("c"), 20, 0.01)
    os.write(fd, b"\3")
    shown = b""
    try:
        while part := os.read(fd, 4096):
            shown += part
    except OSError:
        pass  # the other side is closed
    os.close(fd)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    check(status != 0, status, shown)
    more = f"{words} {end} {said('info c --json')['step'] + 20} --save-params p"
    run(more)
    whole = raw("p")
    os.unlink("p")
    job = start(mpi, 2, f"{more} --resume c").wait(60)
    check(job.status == 0 and raw("p") == whole, job)


@each("the module of another MPI than the launcher's is refused", ("train",))
def other(mpi, command):
    another = next(name for name in MPIS if name != mpi)
    launcher_of(another)
    module = os.path.join(os.path.dirname(PROGRAM), "..", "runtime", MPIS[another][1])
    done = Run(f"STEPWELL_MPI_MODULE={module} exec {launcher_of(mpi)} -n 2 $P {COMMANDS[command][0]}", shell=True).wait(60)
    check(done.status != 0 and not done.out and "it is of another MPI; start them by its own mpirun" in done.err, done)


@test("es by Open MPI: over TCP it sends at most 1 % more than the formula says")
def wire():
    """In a network of its own, whose one device counts: MPI's headers, its start and signs of life are the rest."""
    launcher = launcher_of("Open MPI")
    if shutil.which("unshare") is None or shutil.which("ip") is None or subprocess.run("unshare -rn ip link set lo up", shell=True, check=False).returncode != 0:
        raise Skip("no network of its own can be made here")
    size = "--model mlp --hidden 512,512 --synthetic-n 300 --population 96 --slice 16"
    for n in 2, 3:
        mpirun = f"{launcher} --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo -n {n}"
        words = f"ip link set lo up && {mpirun} $P es {size} --optimizer adam --generations 10 --json && grep lo: /proc/net/dev"
        done = Run(f"exec unshare -rn sh -c '{words}'", shell=True).wait(120)
        check(done.status == 0 and done.out.count("\n") == 2, done)
        out, device = done.out.splitlines()
        counted = int(device.split()[9])  # bytes that it sent
        plan = said(f"plan --method es {size} --optimizer adam --batch 16 --ranks {n} --json")["methods"][0]
        of_each = (n - 1) * 144 + plan["sent_bytes_of_the_model"] + 10 * sum(plan["sent_bytes_of_a_generation"].values())
        check([r["sent_bytes"] for r in json.loads(out)["ranks"]] == [of_each] * n, out, of_each)
        print(f"      {n} ranks: {counted:,} bytes for {n * of_each:,}: {100 * counted / (n * of_each) - 100:.2f} % more")
        assert n * of_each <= counted <= 1.01 * n * of_each


main("ranks mpi")
