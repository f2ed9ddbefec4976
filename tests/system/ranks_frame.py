"""Several processes of one run, by sockets: what the tests of commands over ranks share."""
import os
import random
import tempfile

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
