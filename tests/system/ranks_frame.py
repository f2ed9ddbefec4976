"""Several processes of one run, by sockets: what the tests of commands over ranks share."""
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

from frame import PROGRAM, Run, Skip, check, get, running, wait_until

MODULE = os.path.join(os.path.dirname(PROGRAM), "..", "tests", "system", "libsockets.so")
RANDOM = random.Random(1)


def ranks(n, words, of=None, env_of=None, **env):
    """n processes with these words; `of` and `env_of` have others, and more of the environment, for some."""
    place = tempfile.mkdtemp(dir=".")  # short: names of sockets are
    base = {"WORLD_SIZE": str(n), "SOCKETS": place, "STEPWELL_MPI_MODULE": MODULE, **env}
    jobs = [Run((of or {}).get(k, words), {**base, "RANK": str(k), **(env_of or {}).get(k, {})}.items()) for k in range(n)]
    jobs[0].place = place
    return jobs


def met(jobs):
    """Until then a launcher ends the others, and here is none."""
    wait_until(lambda: all(os.path.exists(os.path.join(jobs[0].place, f"met{k}")) for k in range(len(jobs))), 60, 0.005)
    return jobs


def ended(jobs, status=0, seconds=120):
    """All end with this status; rank 0."""
    for job in jobs:
        job.wait(seconds)
    for k, job in enumerate(jobs):
        check(job.status == status and (k == 0 or not job.out), k, job)
    return jobs[0]


def gone(jobs, seconds=10):
    """All end, and not all well; what they said."""
    for job in jobs:
        job.wait(seconds)
    check(any(job.status != 0 for job in jobs), *jobs)
    return "".join(job.err for job in jobs)


def launchers(sizes):
    """The begin of a command for so many processes, by each MPI that is here."""
    found = 0
    for launcher, file, more in (("mpirun.openmpi", "libstepwell-openmpi.so", "--allow-run-as-root --oversubscribe"),
                                 ("mpirun.mpich", "libstepwell-mpich.so", "")):
        if shutil.which(launcher) is None or not os.path.exists(os.path.join(os.path.dirname(PROGRAM), "..", "runtime", file)):
            continue
        for n in sizes:
            found += 1
            yield [launcher, *more.split(), "-n", str(n), PROGRAM]
    if found == 0:
        raise Skip("no MPI is here")


def by_mpi(words, sizes):
    """Runs of so many processes by each MPI: what they print."""
    for argv in launchers(sizes):
        yield subprocess.run([*argv, *words.split()], capture_output=True, text=True, timeout=120, check=True).stdout


def programs_of(pid):
    """The processes of the program that come from it."""
    parents = {}
    for name in os.listdir("/proc"):
        try:
            parents[int(name)] = int(get(f"/proc/{name}/stat").rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue  # it has ended, or is none
    found, pids = {pid}, set(parents)
    while more := {p for p in pids if parents[p] in found} - found:
        found |= more
    return [p for p in found if os.path.exists(f"/proc/{p}") and os.path.realpath(f"/proc/{p}/exe") == PROGRAM]


def killed_by_mpi(words, n, times):
    """At so many moments one of n is killed: the others end, and the launcher."""
    for argv in launchers([n]):
        for _ in range(times):
            job = subprocess.Popen([*argv, *words.split()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            running.append(job)
            wait_until(lambda job=job: len(programs_of(job.pid)) == n, 60)
            pids = programs_of(job.pid)
            time.sleep(RANDOM.random())
            os.kill(RANDOM.choice(pids), signal.SIGKILL)
            check(job.wait(20) != 0, argv)
            wait_until(lambda pids=pids: not any(os.path.exists(f"/proc/{p}") for p in pids), 5)
