#!/usr/bin/env python3
"""System calls of the program that fail, by strace from outside: the k-th call of a thread, once or from it on, in `train`, in a
`train` that resumes, in the thread that writes meanwhile, in `info` and in `report`.

usage: faults.py PROGRAM [--cases N] [--seed N] [--scene NAME] [--only WORDS] [--targets LIST] [--calls LIST]
                 [--without-memory] [--jobs N] [--limit S]

Whatever fails, the program ends by itself with a documented exit status; a checkpoint that is there is whole; status 0 means that
the results are there; and the same command without a fault ends with the bits of a training that nothing stopped, or says with
exit status 1 that the best parameters or rows of the metrics could not be written before.

Calls that the program makes before its own work (its loader's) are left out: they are those that `PROGRAM --help` makes too, up
to the first that differs. strace counts the calls of each thread by itself, so a thread that writes is also traced alone, from
the moment that it is there. EINTR from a call on means forty in a row: a call that is interrupted for ever is rightly made for
ever. The first mmap of the thread that writes is left out where it is jemalloc's. Cases that no call came to are not counted.
--only "train fsync EIO 3+" does one case, as a failure prints it."""
import argparse
import collections
import concurrent.futures
import errno
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import resume_scene

CALLS = ("write pwrite64 writev fsync fdatasync rename renameat renameat2 link linkat unlink unlinkat openat open ftruncate lseek "
         "flock fcntl close mmap munmap clone clone3 fstat newfstatat statx read pread64 statfs fstatfs fchmod getdents64 "
         "mkdir").split()
MEMORY_CALLS = ("mmap", "munmap")  # brk answers with an address, never with an error
ERRORS = ("ENOSPC", "EIO", "EINTR", "ENOMEM")
INTERRUPTIONS = 40
CALL_LINE = re.compile(r"^(?:(\d+)\s+)?(\w+)\(")  # no thread where there is one alone
NOT_WRITERS = ("sw-loader", "sw-worker", "sw-profile", "jemalloc")  # threads that have other work

NO_GENERATION = re.compile(rb"C\.\d+: damaged: .*(" + b"|".join(os.strerror(getattr(errno, name)).encode() for name in ERRORS) +
                           b")$")

# The message of a training that went on about a file that lost something by an earlier fault, and the file. The best parameters fail it.
LOST = {b"could not be saved in B": "B", b"rows are missing": "M.jsonl"}

Case = collections.namedtuple("Case", "target call error k on")


def name_of(case):
    return f"{case.target} {case.call} {case.error} {case.k}{'+' if case.on else ''}"


def injection(case):
    when = f"{case.k}"
    if case.on:
        when += f"..{case.k + INTERRUPTIONS - 1}" if case.error == "EINTR" else "+"
    return ["-e", f"trace={case.call}", "-e", f"inject={case.call}:error={case.error}:when={when}"]


@functools.cache
def filtered():
    """Options with which calls that are not looked at cost nothing, where strace has them."""
    probe = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "true"]
    done = subprocess.run(probe, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return ["--seccomp-bpf"] if done.returncode == 0 and not done.stderr else []


def strace_env(env):
    """A leak checker cannot work in a process that is traced."""
    return {**env, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def read_calls(log):
    """[(thread, call)] in their order."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return [match.groups() for match in map(CALL_LINE.match, file) if match]


def was_hit(log):
    with open(log, "rb") as file:
        return b"(INJECTED)" in file.read()


def of_the_loader(mine, help_calls):
    """{call: how many the main thread makes before its own work}"""
    main = [call for thread, call in mine if thread == mine[0][0]]
    other = [call for thread, call in help_calls if thread == help_calls[0][0]]
    n = next((i for i, pair in enumerate(zip(main, other)) if pair[0] != pair[1]), min(len(main), len(other)))
    return collections.Counter(main[:n])


# ---- what is run ------------------------------------------------------------------------------------


class Target:
    """A command of the program: where it runs, and what is right after it."""

    def __init__(self, name, scene, argv, start):
        self.name, self.scene, self.argv, self.start, self.limit = name, scene, argv, start, scene.limit
        self.reference = None

    def folder(self):
        path = self.scene.folder()
        if self.start:
            shutil.rmtree(path)
            shutil.copytree(self.start, path)
        return path

    def trace(self, folder, words, log):
        argv = ["strace", "-f", *(filtered() if words else []), "-qq", "-o", log, *words, "--", *self.argv]
        return resume_scene.run(argv, folder, strace_env(self.scene.env), self.limit)

    def calls(self, log):
        outcome = self.trace(self.folder(), [], log)
        if outcome.status != 0:
            raise resume_scene.Failed(f"{self.name}, traced: exit status {outcome.status}: {resume_scene.said(outcome)}")
        return read_calls(log)

    def fault(self, case, folder, log):
        return self.trace(folder, injection(case), log)

    def wrong(self, folder, outcome):
        """After a fault; None: all is right."""
        raise NotImplementedError


class Training(Target):
    def wrong(self, folder, outcome):
        wrong = self.scene.damaged(folder)
        if wrong:
            return wrong
        if outcome.status == 0:
            wrong = [text for text in self.scene.differences(folder) if not text.endswith(" is left")]
            if wrong:
                return f"exit status 0, and {'; '.join(wrong)}"
        again = self.scene.run(folder)
        missing = [text for text in LOST if text in again.err and outcome.status != 0]
        if again.status != (1 if "B" in {LOST[text] for text in missing} else 0):
            return f"the same command without a fault: exit status {again.status}: {resume_scene.said(again)}"
        unswept = {f"{name} is left" for name in (os.listdir(self.start) if self.start else []) if name.endswith(".tmp")}
        wrong = [text for text in self.scene.differences(folder, {LOST[text] for text in missing})
                 if text not in unswept]  # left by a kill: the save that the fault came to would have swept it
        return "then without a fault: " + "; ".join(wrong) if wrong else None


class Reading(Target):
    @staticmethod
    def is_right(lines, others):
        """An older generation that cannot be read is damaged; that costs its line, not the file."""
        damaged = {line.split(b":")[0] for line in lines if NO_GENERATION.match(line)}
        return [line for line in lines if line.split(b":")[0] not in damaged] == \
            [line for line in others if line.split(b":")[0] not in damaged]

    def wrong(self, folder, outcome):
        if self.reference is None:
            self.reference = resume_scene.run(self.argv, folder, self.scene.env, self.limit)
        if outcome.status == 0 and not self.is_right(outcome.out.splitlines(), self.reference.out.splitlines()):
            return "exit status 0, and the output is another"
        again = resume_scene.run(self.argv, folder, self.scene.env, self.limit)
        if again.status != 0 or again.out != self.reference.out:
            return f"the same command without a fault: exit status {again.status}, or another output"
        return None


class Writer(Training):
    """A training whose writing thread alone is traced, from the moment that it is there."""

    def thread_of(self, pid):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
            if int(thread) != pid and name.startswith("sw-") and name not in NOT_WRITERS:
                return thread
        return None

    def stopped_at_thread(self, child):
        """The thread's number, with the process stopped; None: there never was one."""
        while child.poll() is None:
            try:
                thread = self.thread_of(child.pid)
            except OSError:
                continue  # it has just ended
            if thread:
                child.send_signal(signal.SIGSTOP)
                if os.path.exists(f"/proc/{child.pid}/task/{thread}"):
                    return thread
                child.send_signal(signal.SIGCONT)  # it ended just before
            time.sleep(0.0002)
        return None

    def trace(self, folder, words, log):
        with open(log, "w", encoding="ascii"):
            pass
        with subprocess.Popen(self.argv, cwd=folder, env={**os.environ, **strace_env(self.scene.env)},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            late = threading.Timer(self.limit, child.kill)
            late.start()
            thread = self.stopped_at_thread(child)
            if thread:
                with subprocess.Popen(["strace", "-o", log, *words, "-p", thread], stderr=subprocess.PIPE) as tracer:
                    tracer.stderr.readline()  # "Process N attached", or why not; with -f it were all threads
                    child.send_signal(signal.SIGCONT)
                    tracer.stderr.read()
            out, err = child.communicate()
            ended = late.is_alive()
            late.cancel()
        return resume_scene.Outcome(child.returncode if ended else "no end", out, err)


def half_done(scene):
    """The folder of a training that was killed with two checkpoints or more after it."""
    for _ in range(50):
        folder = scene.folder()
        with subprocess.Popen(scene.train, cwd=folder, env={**os.environ, **scene.env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            while child.poll() is None and not os.path.exists(os.path.join(folder, "C.1")):
                time.sleep(0.0002)
            ended = child.poll() is not None
            child.kill()
        if not ended:
            return folder
    raise resume_scene.Failed("it ends before it can be killed with a checkpoint")


def profiled(scene):
    folder = scene.folder()
    words = [word for word in scene.train[:scene.train.index("--quiet")] if word != "--checkpoint-pauses"]
    argv = [*words, "--quiet", "--profile", "F", "--steps", "2"]
    outcome = resume_scene.run(argv, folder, scene.env, scene.limit)
    if outcome.status != 0:
        raise resume_scene.Failed(f"with --profile: exit status {outcome.status}: {resume_scene.said(outcome)}")
    return folder


# {NAME: of a scene, and the folder of a training that came to its end}
TARGETS = {
    "train": lambda scene, done: Training("train", scene, scene.train, None),
    "resume": lambda scene, done: Training("resume", scene, scene.train, half_done(scene)),
    "writer": lambda scene, done: Writer("writer", scene, scene.train, None),
    "info": lambda scene, done: Reading("info", scene, [*scene.program, "info", "C"], done),
    "report": lambda scene, done: Reading("report", scene, [*scene.program, "report", "F"], profiled(scene)),
}


# ---- cases ------------------------------------------------------------------------------------------


def has_jemalloc(program):
    return b"jemalloc" in subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout


def groups_of(target, calls, help_calls, chosen):
    """{(call, error, on): [k...]}"""
    if not calls:
        return {}
    first = of_the_loader(calls, help_calls)
    if isinstance(target, Writer):
        # The first malloc of a thread makes jemalloc (5.3.0) map an arena for it; where it cannot, its arena_choose() answers NULL,
        # and the thread's cache is joined to that: SIGSEGV in libjemalloc, whoever calls malloc.
        first = collections.Counter({"mmap": 1} if has_jemalloc(target.argv[0]) else {})
    most = collections.Counter()
    for (_, call), n in collections.Counter(calls).items():
        most[call] = max(most[call], n)
    return {(call, error, on): list(range(first[call] + 1, most[call] + 1))
            for call in chosen if most[call] > first[call] for error in ERRORS for on in (False, True)}


def spread(numbers, n, rng):
    """n of them, evenly, each anywhere in its part."""
    if n >= len(numbers):
        return numbers
    return [numbers[rng.randrange(i * len(numbers) // n, (i + 1) * len(numbers) // n)] for i in range(n)]


def choose(groups, n, rng):
    """n cases of {(target, call, error, on): [k...]}: each group in turn has one more, until there are enough."""
    left = collections.Counter()
    names = sorted(groups)
    rng.shuffle(names)
    total = min(n, sum(map(len, groups.values())))
    while sum(left.values()) < total:
        for name in names:
            if left[name] < len(groups[name]) and sum(left.values()) < total:
                left[name] += 1
    return [Case(name[0], name[1], name[2], k, name[3]) for name in names for k in spread(groups[name], left[name], rng)]


def parse(text):
    words = text.split()
    return Case(words[0], words[1], words[2], int(words[3].rstrip("+")), words[3].endswith("+"))


def one_case(target, case, work):
    """(a call was hit, what is wrong or None)"""
    folder = target.folder()
    handle, log = tempfile.mkstemp(prefix="calls.", dir=work)
    os.close(handle)
    outcome = target.fault(case, folder, log)
    hit = was_hit(log)
    wrong = resume_scene.complaint(outcome) or target.wrong(folder, outcome)
    os.remove(log)
    if wrong is None:
        shutil.rmtree(folder)
        return hit, None
    return hit, f"{wrong} (exit status {outcome.status}: {resume_scene.said(outcome)}; kept: {folder})"


# ---- the program ------------------------------------------------------------------------------------


def why_not():
    """Why strace cannot do it here; None: it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    probe = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fsync:error=EIO:when=1..2", "true"]
    done = subprocess.run(probe, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return None if done.returncode == 0 else "strace may not trace here: " + done.stderr.decode(errors="replace").strip()


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="stepwell; several words in one argument are a program and its arguments")
    parser.add_argument("--cases", type=int, default=60, help="as many, spread evenly (default 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument("--scene", default="mlp", choices=[name for name in resume_scene.SCENES if name != "card"],
                        help="all but card: the fake card ends the program where its own calls fail")
    parser.add_argument("--only", help="one case")
    parser.add_argument("--targets", default=",".join(TARGETS), help="names, with commas between")
    parser.add_argument("--calls", default=",".join(CALLS), help="names, with commas between")
    parser.add_argument("--without-memory", action="store_true", help="leave out " + ", ".join(MEMORY_CALLS) +
                        ": a sanitizer makes them too, and ends the program where they fail")
    parser.add_argument("--jobs", type=int, default=2, help="cases at the same time (default 2)")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a command may take (default 60)")
    return parser.parse_args()


def prepare(given, work):
    """{name: target} and their groups of cases."""
    scene = resume_scene.Scene(given.program, given.scene, work, limit=given.limit)
    done = scene.begin()
    names = [given.only.split()[0]] if given.only else given.targets.split(",")
    every = [TARGETS[name](scene, done) for name in names]
    log = os.path.join(work, "log")
    helps = subprocess.run(["strace", "-f", "-qq", "-o", log, *scene.program, "--help"], stdout=subprocess.DEVNULL, check=False,
                           env={**os.environ, **strace_env(scene.env)})
    if helps.returncode != 0:
        raise resume_scene.Failed(f"--help: exit status {helps.returncode}")
    help_calls = read_calls(log)
    chosen = [call for call in given.calls.split(",") if not (given.without_memory and call in MEMORY_CALLS)]
    groups = {}
    for target in every:
        mine = groups_of(target, target.calls(log), help_calls, chosen)
        groups.update({(target.name, *key): ks for key, ks in mine.items()})
        if isinstance(target, Reading):
            target.wrong(target.start, resume_scene.Outcome(1, b"", b""))  # its reference
    return {target.name: target for target in every}, groups


def do_all(cases, every, work, jobs):
    """Prints what is wrong; (hit, wrong) of each target."""
    hits, wrongs, errors = collections.Counter(), collections.Counter(), collections.Counter()
    lock = threading.Lock()

    def do(case):
        try:
            hit, wrong = one_case(every[case.target], case, work)
        except resume_scene.Failed as failed:
            hit, wrong = True, str(failed)
        with lock:
            hits[case.target] += hit
            errors[case.error] += hit
            if wrong:
                wrongs[case.target] += 1
                print(f"FAILED: --only \"{name_of(case)}\": {wrong}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(do, cases))
    print("came to a call: " + ", ".join(f"{errors[error]} {error}" for error in ERRORS))
    return hits, wrongs


def main():
    given = options()
    why = why_not()
    if why:
        print(f"skipped: {why}")
        resume_scene.totals(0, 0, 1)
    work = tempfile.mkdtemp(prefix="faults.")
    try:
        every, groups = prepare(given, work)
    except resume_scene.Failed as failed:
        print(f"FAILED: {failed}")
        resume_scene.totals(0, 1, 0)
    cases = [parse(given.only)] if given.only else choose(groups, given.cases, random.Random(given.seed))
    hits, wrongs = do_all(cases, every, work, given.jobs)
    passed, failed, skipped = 0, 0, 0
    for name in every:
        mine = sum(case.target == name for case in cases)
        calls = sorted({key[1] for key in groups if key[0] == name})
        print(f"{name}: {mine} cases, {hits[name]} came to a call, {wrongs[name]} went wrong; calls: {' '.join(calls) or 'none'}")
        failed += wrongs[name] > 0
        passed += hits[name] > 0 and wrongs[name] == 0
        skipped += hits[name] == 0 and wrongs[name] == 0
    if not failed:
        shutil.rmtree(work)
    resume_scene.totals(passed, failed, skipped)


if __name__ == "__main__":
    sys.exit(main())
