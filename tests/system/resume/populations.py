#!/usr/bin/env python3
"""Populations that save a checkpoint after each turn, stopped at random moments, several times in a row, and started again by the
same command until they end: they leave what a population leaves that nothing stopped.

usage: populations.py PROGRAM [--kills N] [--seed N] [--scenes LIST] [--row N]

Ways to stop one: SIGKILL (--kills counts these), SIGINT, SIGTERM or SIGHUP (exit status 130), and SIGUSR1 where no checkpoint is
due otherwise (it goes on, and is killed later or ends). The same: every byte of the metrics, of the logs of exploits and of the
parameters of all members, and the JSON but for times and measured memory. After each stop the checkpoint
that is there is whole, and at the end nothing else is left."""
import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import resume_scene

COMMON = ("--data synthetic --synthetic-n 160 --batch 16 --model mlp --hidden 12 --members 8 --interval 4 --steps 60 --seed 3 "
          "--json --quiet --metrics M.csv --log-dir L --save-params P%d")
KNOBS = "lr=log:0.01..1 momentum=uniform:0..0.95"
SHAPES = KNOBS + " batch=choice:8,16,24 hidden=int:4..20"

# NAME: options and ranges
SCENES = {
    "knobs": "--optimizer momentum --threads 2 " + KNOBS,
    "shapes": "--optimizer momentum --dropout 0.2 dropout=uniform:0..0.5 " + SHAPES,
    "synch": "--optimizer momentum --synch --threads 2 " + SHAPES,
    "waiting": "--optimizer momentum --memory-budget 400000 --threads 2 " + SHAPES,
    "paused": "--optimizer momentum --memory-budget 400000 --pause-to Z " + SHAPES,
    "tournament": "--optimizer adam --exploit tournament lr=log:0.001..0.1 beta1=uniform:0.5..0.95 hidden=int:4..20",
    "t-test": "--optimizer momentum --exploit t-test --interval 2 --synch " + KNOBS,
    "others": "--optimizer momentum --dropout 0.2 " + SHAPES,  # each start has other threads and another budget
}
STARTS = (["--threads", "1"], ["--threads", "3"], ["--memory-budget", "700000", "--threads", "2"],
          ["--memory-budget", "700000", "--pause-to", "Z"])
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAYS = ("kill", "kill", "kill", "request", "save")
OF_THE_PROCESS = {"paused_peak_bytes", "measured_peak_bytes"}  # beside times


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if not k.endswith("_ns") and k not in OF_THE_PROCESS}
    return [without_times(v) for v in value] if isinstance(value, list) else value


class Scene:
    def __init__(self, program, name, work):
        self.name, self.work, self.folders = name, work, 0
        self.program = resume_scene.words_of(program)
        ranges = [word for word in SCENES[name].split() if "=" in word]
        options = [word for word in SCENES[name].split() if "=" not in word]
        self.words = [*self.program, "pbt", *COMMON.split(), *options, *ranges]
        self.saves = ["--checkpoint", "C", "--resume", "--checkpoint-every"]
        begin = self.folder()
        then = time.monotonic()
        outcome = resume_scene.run([*self.words, "--checkpoint", "C"], begin)
        self.seconds = time.monotonic() - then
        if outcome.status != 0:
            raise resume_scene.Failed(f"without any stop: exit status {outcome.status}: {resume_scene.said(outcome)}")
        self.reference = self.results(begin, outcome.out)
        if self.reference["json"]["exploits"] < 5 or "P7" not in self.reference:
            raise resume_scene.Failed("without any stop: too little happens")
        shutil.rmtree(begin)

    def folder(self):
        self.folders += 1
        path = os.path.join(self.work, f"{self.name}{self.folders}")
        for part in ("", "L", "Z"):
            os.mkdir(os.path.join(path, part))
        return path

    @staticmethod
    def results(folder, out):
        found = {"json": without_times(json.loads(out))}
        for where, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(where, name)
                if name not in ("C", "C.1"):
                    with open(path, "rb") as file:
                        found[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
        return found

    def start(self, folder, rng, every="1"):
        start = rng.choice(STARTS) if self.name == "others" else []
        return subprocess.Popen([*self.words, *start, *self.saves, every], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def check_saved(self, folder):
        if os.path.exists(os.path.join(folder, "C")):
            outcome = resume_scene.run([*self.program, "info", "C"], folder)
            if outcome.status != 0:
                raise resume_scene.Failed(f"info C: exit status {outcome.status}: {resume_scene.said(outcome)}")


def stop(scene, folder, way, rng, count):
    """One run; what it printed where it came to its end, else None."""
    with scene.start(folder, rng, "10m" if way == "save" else "1") as child:
        time.sleep(rng.uniform(0.0, scene.seconds))
        if way == "kill":
            child.kill()
        elif way == "save":
            child.send_signal(signal.SIGUSR1)
            time.sleep(rng.uniform(0.0, scene.seconds / 2))
            child.kill()
        else:
            child.send_signal(rng.choice(REQUESTS))
        try:
            out, err = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            raise resume_scene.Failed("it did not end") from None
    right = {0, 130} if way == "request" else {0}
    killed = {-int(number) for number in (*REQUESTS, signal.SIGKILL, signal.SIGUSR1)}  # before it catches them, or for good
    if child.returncode not in right | killed:
        raise resume_scene.Failed(f"exit status {child.returncode} after a {way}: {err.decode()[-300:]}")
    count[way] = count.get(way, 0) + (child.returncode != 0)
    return out if child.returncode == 0 else None


def one(scene, most, rng, count):
    """Stopped up to `most` times; then it ends, and leaves what it must."""
    folder = scene.folder()
    how, out = [], None
    try:
        while out is None and len(how) < most:
            how.append(rng.choice(WAYS))
            out = stop(scene, folder, how[-1], rng, count)
            scene.check_saved(folder)
        if out is None:
            with scene.start(folder, rng) as child:
                out, err = child.communicate(timeout=120)
            if child.returncode != 0:
                raise resume_scene.Failed(f"exit status {child.returncode} at the end: {err.decode()[-300:]}")
        now = scene.results(folder, out)
        for name in ("memory", "threads") if scene.name == "others" else ():
            now["json"][name] = scene.reference["json"][name]
        other = [name for name in sorted(set(now) | set(scene.reference)) if now.get(name) != scene.reference.get(name)]
        if other == ["json"]:
            other = [f"{k} of the JSON: {now['json'][k]} and not {v}" for k, v in scene.reference["json"].items() if now["json"].get(k) != v]
        if other:
            raise resume_scene.Failed(f"other or missing: {', '.join(other)}")
    except resume_scene.Failed as failed:
        raise resume_scene.Failed(f"after {', '.join(how)}: {failed}; kept: {folder}") from None
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="stepwell")
    parser.add_argument("--kills", type=int, default=16, help="of all scenes together (default 16)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--scenes", default=",".join(SCENES), help="names, with commas between")
    parser.add_argument("--row", type=int, default=5, help="the most stops of one population (default 5)")
    given = parser.parse_args()
    for number in (*REQUESTS, signal.SIGUSR1):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    names = given.scenes.split(",")
    rng = random.Random(given.seed)
    work = os.path.realpath(tempfile.mkdtemp(prefix="populations."))
    passed = failed = 0
    for i, name in enumerate(names):
        share = max(1, (i + 1) * given.kills // len(names) - i * given.kills // len(names))
        count, populations = {}, 0
        try:
            scene = Scene(given.program, name, work)
            while count.get("kill", 0) < share and populations < 20 + 4 * share:
                one(scene, rng.randint(1, given.row), rng, count)
                populations += 1
            print(f"{name}: {count} in {populations} populations of {scene.seconds:.2f} s: the same bytes", flush=True)
            passed += 1
        except resume_scene.Failed as wrong:
            print(f"{name}: FAILED: {wrong}; --seed {given.seed}", flush=True)
            failed += 1
    if not failed:
        shutil.rmtree(work)
    resume_scene.totals(passed, failed, 0)


if __name__ == "__main__":
    sys.exit(main())
