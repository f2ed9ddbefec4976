#!/usr/bin/env python3
"""Runs that save a checkpoint after each step or turn, stopped at random moments, several times in a row, and started again by the
same command until they end: they leave what a run leaves that nothing stopped.

usage: kills.py PROGRAM [--kills N] [--seed N] [--scenes LIST] [--module FILE] [--row N] [--only WAY]

PROGRAM may be several words in one argument. Ways to stop one: `kill` (SIGKILL; --kills counts these), `request` (SIGINT, SIGTERM
or SIGHUP: exit status 130, and the checkpoint is of the last step that the metrics have), `two` (two requests, the second of which
kills), `save` (SIGUSR1, where no checkpoint is due otherwise: the step after it is saved, and the training goes on to its end or
to a kill). A signal that the program did not catch yet, or not any more, may end it.

The same: of a training the sha256 of the parameters and of the best ones, the lines of the metrics but for their times, and the numbers
of its JSON; of a population (--scenes populations, or names of them) all that it writes and prints but for times. After each stop the
checkpoint that is there is whole, and at the end no temporary file and no lock is left. --module: the module over the fake card, for
the scene `card`."""
import argparse
import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import resume_scene


WAYS = ("kill", "kill", "kill", "request", "two", "save")
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # caught in this order
LONG = ["--checkpoint-every", "10m"]  # so that nothing is due but what is asked for


class Count:
    def __init__(self):
        self.kills = self.writing = self.ends = self.trainings = self.longest = self.noted = 0
        self.ways = collections.Counter()


def is_writing(pid, folder):
    """Whether a file that has not got its name yet is open, or lies there. The process must stand still."""
    if any(name.endswith(".tmp") for name in os.listdir(folder)):
        return True
    files = f"/proc/{pid}/fd"
    try:
        links = [os.readlink(os.path.join(files, fd)) for fd in os.listdir(files)]
    except OSError:
        return False
    return any(link.startswith(folder) and (link.endswith(" (deleted)") or ".tmp" in link) for link in links)


def stand_still(child):
    """Stop it, so that what is open can be looked at; false where it has ended before."""
    child.send_signal(signal.SIGSTOP)
    if child.returncode is not None:
        return False
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return True
    child.returncode = os.waitstatus_to_exitcode(status)
    return False


def start(scene, folder, rng, more=()):
    return subprocess.Popen(scene.start(rng, more), cwd=folder, env={**os.environ, **scene.env}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def catches(pid, number):
    """Whether the process has a handler for it; false where that is not known."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            mask = next(line for line in file if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


def ended(child, late):
    """How it ended by itself."""
    try:
        out, err = child.communicate(timeout=late)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise resume_scene.Failed("it did not end") from None
    return resume_scene.Outcome(child.returncode, out, err)


def must_be(outcome, right, when):
    if outcome.status not in right:
        raise resume_scene.Failed(f"exit status {outcome.status} {when}, and not {' or '.join(map(str, sorted(right)))}: "
                                  f"{resume_scene.said(outcome)}")


# ---- ways to stop one: None where it was stopped, its outcome where it had ended before, as it should


def kill(scene, folder, seconds, rng, count):
    with start(scene, folder, rng) as child:
        time.sleep(seconds)
        if child.poll() is None and stand_still(child):
            count.writing += is_writing(child.pid, folder)
            child.kill()
            child.wait()
            count.kills += 1
            return None
        outcome = ended(child, scene.limit)
    must_be(outcome, {0}, "after a stop")
    return outcome


def request(scene, folder, seconds, rng, count):
    number = rng.choice(REQUESTS)
    with start(scene, folder, rng) as child:
        time.sleep(seconds)
        caught = catches(child.pid, REQUESTS[-1])
        child.send_signal(number)
        at = scene.last_step(folder)
        outcome = ended(child, scene.limit)
    must_be(outcome, {0, 130} if caught else {0, 130, -number}, f"when asked to end by signal {int(number)}")
    if outcome.status == 130 and at is not None and b"interrupted" not in outcome.err:  # else before the first step
        saved = re.search(rb"step ([\d,]+)", scene.info(folder).out)
        saved = int(saved.group(1).replace(b",", b"")) if saved else 0
        if saved != scene.last_step(folder):
            raise resume_scene.Failed(f"asked to end it saved step {saved}, and the metrics have step {scene.last_step(folder)}")
    if caught and outcome.status == 0 and at is not None and at + 3 <= scene.last_step(folder):
        raise resume_scene.Failed(f"asked to end after step {at} it went on to step {scene.last_step(folder)}")
    count.ways["requests"] += outcome.status == 130
    return None if outcome.status else outcome


def two(scene, folder, seconds, rng, count):
    first, second = rng.choice(REQUESTS), rng.choice(REQUESTS)
    with start(scene, folder, rng) as child:
        time.sleep(seconds)
        caught = catches(child.pid, REQUESTS[-1])
        child.send_signal(first)
        time.sleep(rng.choice((0.0, rng.uniform(0.0, 0.005))))
        child.send_signal(second)
        outcome = ended(child, scene.limit)
    must_be(outcome, {0, 130, -first, -second}, "after two requests to end")  # the system may tell the second one first
    count.ways["second requests that killed"] += caught and outcome.status < 0
    return None if outcome.status else outcome


def save(scene, folder, seconds, rng, count):
    with start(scene, folder, rng, LONG) as child:
        time.sleep(seconds)
        caught = catches(child.pid, signal.SIGUSR1)
        child.send_signal(signal.SIGUSR1)
        at = scene.last_step(folder)
        if rng.random() < 0.3:
            time.sleep(rng.uniform(0.0, scene.seconds / 2))
            child.send_signal(signal.SIGKILL)
            right, ended_itself = {0, -signal.SIGKILL}, False
        else:
            right, ended_itself = {0}, True
        outcome = ended(child, scene.limit)
    must_be(outcome, right if caught else {*right, -signal.SIGUSR1}, "when asked to save")
    count.ways["asked to save"] += caught
    noted = b"is saved in C" in outcome.err
    count.noted += noted
    # Two steps or more came after the signal: one of them was saved, and that is said.
    if caught and ended_itself and at is not None and at + 3 <= scene.last_step(folder) and not noted:
        raise resume_scene.Failed(f"asked to save after step {at} it says nothing of a save")
    return None if outcome.status else outcome


def one_training(scene, most, ways, rng, count):
    """Stopped up to `most` times; then it may end. Its folder is kept where something is wrong."""
    folder = scene.folder()
    outcome, how = None, []
    try:
        while len(how) < most and outcome is None:
            way = rng.choice(ways)
            how.append(way)
            outcome = globals()[way](scene, folder, rng.uniform(0.0, scene.seconds), rng, count)
            wrong = scene.damaged(folder)
            if wrong:
                raise resume_scene.Failed(wrong)
        count.longest = max(count.longest, len(how) - (outcome is not None))
        if outcome is None:
            outcome = scene.run(folder)
            must_be(outcome, {0}, "at the end")
            count.ends += 1
        wrong = scene.ended(folder, outcome)
        if wrong:
            raise resume_scene.Failed("; ".join(wrong))
    except resume_scene.Failed as failed:
        raise resume_scene.Failed(f"after {', '.join(how)}: {failed}; kept: {folder}") from None
    count.trainings += 1
    shutil.rmtree(folder)


def one_scene(scene, kills, row, ways, rng):
    """So many kills, spread over trainings of 1 to `row` stops each."""
    count = Count()
    scene.begin()
    without = 0
    while (count.kills if "kill" in ways else count.trainings) < kills:
        before = count.kills + sum(count.ways.values())
        one_training(scene, rng.randint(1, row), ways, rng, count)
        without = without + 1 if count.kills + sum(count.ways.values()) == before else 0
        if without == 100:
            raise resume_scene.Failed("it ends before it can be killed")
    others = "".join(f", {n} {name}" for name, n in sorted(count.ways.items()))
    print(f"{scene.name}: {count.kills} kills ({count.writing} while a file was written){others} ({count.noted} said it), at most "
          f"{count.longest} in a row, in {count.trainings} runs of {scene.seconds:.2f} s: the same bits, nothing left", flush=True)
    return count


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="stepwell")
    parser.add_argument("--kills", type=int, default=20, help="of all scenes together (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--scenes", default=",".join(resume_scene.SCENES), help="names, with commas between")
    parser.add_argument("--row", type=int, default=8, help="the most stops of one training (default 8)")
    parser.add_argument("--only", choices=sorted(set(WAYS)), help="stop by this way alone")
    parser.add_argument("--module", type=os.path.abspath, help="the CUDA module over the fake card")
    return parser.parse_args()


def main():
    given = options()
    for number in (*REQUESTS, signal.SIGUSR1):  # one that is ignored here, as after nohup, would be ignored there
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    names = list(resume_scene.POPULATIONS) if given.scenes == "populations" else given.scenes.split(",")
    rng = random.Random(given.seed)
    ways = [given.only] if given.only else WAYS
    passed, failed, skipped, kills, writing, others = 0, 0, 0, 0, 0, collections.Counter()
    work = os.path.realpath(tempfile.mkdtemp(prefix="kills."))
    for i, name in enumerate(names):
        why = resume_scene.missing(name, given.module)
        if why:
            print(f"{name}: skipped: {why}")
            skipped += 1
            continue
        kind = resume_scene.Population if name in resume_scene.POPULATIONS else resume_scene.Scene
        scene = kind(given.program, name, work, given.module)
        share = (i + 1) * given.kills // len(names) - i * given.kills // len(names)
        try:
            count = one_scene(scene, max(share, 1), given.row, ways, rng)
            kills, writing = kills + count.kills, writing + count.writing
            others.update(count.ways)
            passed += 1
        except resume_scene.Failed as wrong:
            print(f"{name}: FAILED: {wrong}; --seed {given.seed}", flush=True)
            failed += 1
    if not failed:
        shutil.rmtree(work)
    print(", ".join([f"{kills} kills, {writing} of them while a file was written"] + [f"{n} {name}" for name, n in others.items()]))
    resume_scene.totals(passed, failed, skipped)


if __name__ == "__main__":
    sys.exit(main())
