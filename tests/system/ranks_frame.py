"""Several processes of one run, by sockets: what the tests of commands over ranks share."""
import os
import random
import signal
import socket
import tempfile
import time

from frame import PROGRAM, Run, check, wait_until

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


def killed(words, i):
    """One of three is killed at some moment, and all end."""
    jobs = met(ranks(3, words))
    time.sleep(RANDOM.random() * 0.5)
    jobs[i % 3].send(signal.SIGKILL)
    text = gone(jobs)
    check("has left" in text or all(job.status < 0 for job in jobs), text)


def silent(words, *parts):
    """The second of three stops: it is named, and all end soon after the deadline."""
    jobs = met(ranks(3, f"{words} --rank-timeout 2"))
    time.sleep(0.5)
    jobs[1].send(signal.SIGSTOP)
    began = time.monotonic()
    text = gone(jobs, 20)
    check(all(part in text for part in (f"rank 1 of 3 on host {socket.gethostname()[:60]}", "has given no sign of life for", *parts)), text)
    check(time.monotonic() - began < 8 and jobs[2].status == 1, *jobs)
