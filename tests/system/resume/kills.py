#!/usr/bin/env python3
"""Trainings that save a checkpoint behind each step, killed (SIGKILL) at random moments, several times in a row, and started
again by the same command until they end: they leave what a training leaves that nothing stopped.

usage: kills.py PROGRAM [--kills N] [--seed N] [--scenes LIST] [--module FILE] [--row N] [--without-checkpoints]

PROGRAM may be several words in one argument. The same: the sha256 of the parameters and of the best ones, and the lines of the
metrics but for their times. Behind each kill the checkpoint that is there is whole, and at the end no temporary file and no lock
is left. --module: the module over the fake card, for the scene `card`. --without-checkpoints: each start begins anew."""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import resume_scene


class Count:
    def __init__(self):
        self.kills = self.writing = self.ends = self.trainings = self.longest = 0


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


def start_and_kill(scene, folder, seconds, count):
    """True: it was killed; false: it had ended before, as it should."""
    with subprocess.Popen(scene.train, cwd=folder, env={**os.environ, **scene.env}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        time.sleep(seconds)
        if child.poll() is None and stand_still(child):
            count.writing += is_writing(child.pid, folder)
            child.kill()
            child.wait()
            count.kills += 1
            return True
        outcome = resume_scene.Outcome(child.returncode, b"", child.stderr.read())
    if outcome.status != 0:
        raise resume_scene.Failed(f"exit status {outcome.status}, behind a kill: {resume_scene.said(outcome)}")
    count.ends += 1
    return False


def one_training(scene, most, rng, count):
    """Killed up to `most` times; then it may end. Its folder is kept where something is wrong."""
    folder = scene.folder()
    row = 0
    while row < most and start_and_kill(scene, folder, rng.uniform(0.0, scene.seconds), count):
        row += 1
        wrong = scene.damaged(folder)
        if wrong:
            raise resume_scene.Failed(f"behind {row} kills: {wrong}; kept: {folder}")
    count.longest = max(count.longest, row)
    outcome = scene.run(folder)
    if outcome.status != 0:
        raise resume_scene.Failed(f"behind {row} kills: exit status {outcome.status}: {resume_scene.said(outcome)}; "
                                  f"kept: {folder}")
    wrong = scene.differences(folder)
    if wrong:
        raise resume_scene.Failed(f"behind {row} kills: {'; '.join(wrong)}; kept: {folder}")
    count.trainings += 1
    shutil.rmtree(folder)


def one_scene(scene, kills, row, rng):
    """So many kills, spread over trainings of 1 to `row` kills each."""
    count = Count()
    scene.begin()
    without = 0
    while count.kills < kills:
        before = count.kills
        one_training(scene, min(rng.randint(1, row), kills - count.kills), rng, count)
        without = without + 1 if count.kills == before else 0
        if without == 100:
            raise resume_scene.Failed("it ends before it can be killed")
    print(f"{scene.name}: {count.kills} kills ({count.writing} while a file was written, at most {count.longest} in a row) of "
          f"{count.trainings} trainings of {scene.seconds:.2f} s: the same bits, nothing left", flush=True)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="stepwell")
    parser.add_argument("--kills", type=int, default=20, help="of all scenes together (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--scenes", default=",".join(resume_scene.SCENES), help="names, with commas between")
    parser.add_argument("--row", type=int, default=8, help="the most kills of one training (default 8)")
    parser.add_argument("--module", help="the CUDA module over the fake card")
    parser.add_argument("--without-checkpoints", action="store_true", help="leave out --checkpoint and --resume")
    return parser.parse_args()


def main():
    given = options()
    names = given.scenes.split(",")
    rng = random.Random(given.seed)
    passed, failed, skipped = 0, 0, 0
    work = os.path.realpath(tempfile.mkdtemp(prefix="kills."))
    for i, name in enumerate(names):
        why = resume_scene.missing(name, given.module)
        if why:
            print(f"{name}: skipped: {why}")
            skipped += 1
            continue
        scene = resume_scene.Scene(given.program, name, work, not given.without_checkpoints, given.module)
        share = (i + 1) * given.kills // len(names) - i * given.kills // len(names)
        try:
            one_scene(scene, max(share, 1), given.row, rng)
            passed += 1
        except resume_scene.Failed as wrong:
            print(f"{name}: FAILED: {wrong}; --seed {given.seed}", flush=True)
            failed += 1
    if not failed:
        shutil.rmtree(work)
    resume_scene.totals(passed, failed, skipped)


if __name__ == "__main__":
    sys.exit(main())
