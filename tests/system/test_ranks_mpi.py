#!/usr/bin/env python3
"""Ranks over Open MPI and MPICH: bytes on the wire, kills, Ctrl-C, and a launcher of the other one. In full alone."""
import glob
import json
import os
import pty
import shutil
import subprocess

from frame import FULL, PROGRAM, Run, Skip, check, main, raw, said, test, wait_until
from ranks_frame import killed_by_mpi

NET = "--model mlp --hidden 16 --synthetic-n 300 --seed 2"
ES = f"es {NET} --population 96 --slice 8 --quiet"
MODULES = os.path.join(os.path.dirname(PROGRAM), "..", "runtime")


def here():
    """Of each MPI that is here: the words before the program, its module."""
    if not FULL:
        raise Skip("in full alone")
    known = ("mpirun.openmpi --allow-run-as-root --oversubscribe", "libstepwell-openmpi.so"), ("mpirun.mpich", "libstepwell-mpich.so")
    found = [(words, os.path.join(MODULES, file)) for words, file in known if shutil.which(words.split()[0]) and os.path.exists(os.path.join(MODULES, file))]
    if not found:
        raise Skip("no MPI is here")
    return found


@test("where a rank is killed, at whatever moment, the launcher ends all")
def kills():
    here()
    for words in f"{ES} --generations 1000000", f"train {NET} --batch 24 --steps 10000000 --quiet":  # pbt: test_ranks_pbt.py
        killed_by_mpi(words, 3, 5)


@test("Ctrl-C in a terminal ends all with a checkpoint, from which another number goes on")
def interrupted():
    for mpirun, _ in here():
        words = f"{mpirun} -n 3 {PROGRAM} {ES} --generations 1000000 --checkpoint c --checkpoint-every 5"
        try:
            pid, fd = pty.fork()
        except OSError as why:
            raise Skip("no terminal can be made here") from why
        if pid == 0:
            os.execvp(words.split()[0], words.split())
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
        check(status != 0 and b"the run was interrupted" in shown, mpirun, status, shown)
        more = f"{ES} --generations {said('info c --json')['step'] + 20} --save-params p"
        said(f"{more} --json")
        whole = raw("p")
        os.unlink("p")
        done = Run(f"exec {mpirun} -n 2 $P {more} --resume c", shell=True).wait(60)
        check(done.status == 0 and raw("p") == whole, mpirun, done)
        for name in glob.glob("[cp]*"):
            os.unlink(name)


@test("a module of another MPI than the launcher's is refused")
def other():
    found = here()
    if len(found) < 2:
        raise Skip("there is one MPI here")
    for (mpirun, _), (_, module) in (found, found[::-1]):
        done = Run(f"STEPWELL_MPI_MODULE={module} exec {mpirun} -n 2 $P {ES} --generations 1", shell=True).wait(60)
        check(done.status != 0 and not done.out and "it is of another MPI; start them by its own mpirun" in done.err, done)


@test("MPI over TCP sends at most 1 % more than the formula says")
def wire():
    """In a network of its own, whose one device counts: MPI's headers, its start and signs of life are the rest."""
    if not any("openmpi" in mpirun for mpirun, _ in here()):
        raise Skip("no Open MPI is here")
    if shutil.which("unshare") is None or shutil.which("ip") is None or subprocess.run("unshare -rn ip link set lo up", shell=True, check=False).returncode != 0:
        raise Skip("no network of its own can be made here")
    size = "--model mlp --hidden 512,512 --synthetic-n 300 --population 96 --slice 16"
    for n in 2, 3:
        mpirun = f"mpirun.openmpi --allow-run-as-root --oversubscribe --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo -n {n}"
        words = f"ip link set lo up && {mpirun} $P es {size} --optimizer adam --generations 10 --json && grep lo: /proc/net/dev"
        done = Run(f"exec unshare -rn sh -c '{words}'", shell=True).wait(120)
        check(done.status == 0 and done.out.count("\n") == 2, done)
        out, device = done.out.splitlines()
        counted = int(device.split()[9])  # bytes that it sent
        plan = said(f"plan --method es {size} --optimizer adam --batch 16 --ranks {n} --json")["methods"][0]
        of_each = (n - 1) * 136 + plan["sent_bytes_of_the_model"] + 10 * sum(plan["sent_bytes_of_a_generation"].values())
        check([r["sent_bytes"] for r in json.loads(out)["ranks"]] == [of_each] * n, out, of_each)
        print(f"      {n} ranks: {counted:,} bytes for {n * of_each:,}: {100 * counted / (n * of_each) - 100:.2f} % more")
        assert n * of_each <= counted <= 1.01 * n * of_each


main("ranks_mpi")
