#!/usr/bin/env python3
"""The failure sweep of `stepwell train`: every allocation, file operation, thread start and library opening of twenty steps fails once, and
once from there on. Quick mode takes a sample of the sites."""
import gzip
import json
import os
import random

from frame import FULL, check, get, main, put, put_idx, raw, run, test

SAMPLE, MOST = 4, 5000  # sites of a kind that are tried: in quick mode, and at most
# Two trainings: between them they use every part that can fail.
JOBS = (("lenet5", "--model lenet5 --threads 2 --batch 16 --data idx:idx"),
        ("mlp", "--model mlp --hidden 512,512 --optimizer sgd --batch 128 --synthetic-n 512"))


def make_data():
    dice = random.Random(1)
    for part, n in (("train", 128), ("t10k", 64)):
        put_idx("idx", part, dice.randbytes(n * 784), bytes(dice.randrange(10) for _ in range(n)))
    plain = "idx/t10k-images-idx3-ubyte"  # compressed, where the program can read that
    text = raw(plain)
    put(plain + ".gz", gzip.compress(text))
    os.unlink(plain)
    if run("plan --json --batch 16 --data idx:idx", None).status:
        os.unlink(plain + ".gz")
        put(plain, text)


def sites_of_limits():
    """File operations that look for a limit of the memory: a limit that cannot be read is none, and only --process says so. Four of each
    file at most."""
    groups = get("/proc/self/cgroup").splitlines() if os.path.exists("/proc/self/cgroup") else ()
    return 4 * (1 + sum(line.count("/") + 1 for line in groups if "::" in line or ":memory:" in line))


class Sweep:
    def __init__(self, name, options):
        self.folder, self.loaded = os.path.abspath(f"kept-{name}"), os.path.abspath(f"loaded-{name}")  # loaded: read, so never written
        self.absorbed, self.noted, self.wrong = dict.fromkeys(("memory", "file", "thread", "library"), 0), 0, []
        words = f"train --json --quiet {options} --steps 20 --epochs 5"
        os.mkdir(self.folder)
        run(f"{words} --save-params {self.loaded}")
        self.words = f"{words} --load-params {self.loaded} --profile {self.folder}/profile --save-params {self.folder}/params"
        counted = run(self.words, STEPWELL_FAULT="memory:count").err.partition("fault sites: ")[2].split()
        self.sites = {kind: int(counted[counted.index(kind) + 1]) for kind in self.absorbed}
        self.params = raw(f"{self.folder}/params")  # of a run without failures
        check(self.sites["memory"] > 20 and self.sites["file"] > 10 and self.sites["thread"] > 0, name, self.sites)

    def status_of(self, kind, error):
        """The status that belongs to a failure of the kind. Of files the message names which: an input that cannot be read is as good as
        damaged, 3; what cannot be written, or what the system says of itself, is a failure, 1."""
        if kind == "file":
            if self.loaded in error or "-ubyte" in error:
                return 3
            return 1 if any(part in error for part in (": /proc/", ": /sys/", self.folder)) else "of no file"
        return 4 if kind == "memory" else 1

    def left(self, may_keep, any_step):
        """The files that should not be there: besides the profile there may be the whole parameters, of the last step or of any, or none,
        and nothing temporary - unless files cannot be removed either."""
        for name in os.listdir(self.folder):
            if name == "profile" or (may_keep and name.startswith("params.")):
                continue
            text = raw(f"{self.folder}/{name}")
            if name != "params" or len(text) != len(self.params) or not (any_step or text == self.params):
                yield name

    def try_site(self, kind, plan):
        """It ends with the status of what failed and one line of error, or does without it: then it saves the parameters of a run without
        failures."""
        for name in os.listdir(self.folder):
            os.unlink(f"{self.folder}/{name}")
        done = run(self.words, None, STEPWELL_FAULT=plan)
        status, lines = self.status_of(kind, done.err), done.err.count("\n")
        saved = "the parameters of step" in done.err  # a second line: the training until then is not lost
        noted = "/params: saved, durability unknown" in done.err  # a folder that cannot be synced costs no file
        failed = done.status == status and lines == 1 + saved + noted
        whole = done.status == 0 and os.path.exists(f"{self.folder}/params") and raw(f"{self.folder}/params") == self.params
        absorbed = whole and lines == noted
        # The profile is flushed by the clock: a faster run may end before its last sites.
        missed = whole and kind == "file" and "no call failed" in done.err
        if absorbed:
            self.noted += noted
            self.absorbed[kind] += not noted
            print(f"      {plan}: done without")
        if not (failed or absorbed or missed):
            self.wrong.append(f"{plan}: must have status {status}: {done}")
        if done.out and (done.out.count("\n") != 1 or not isinstance(json.loads(done.out), dict)):
            self.wrong.append(f"{plan}: the output is not whole: {done.out}")
        self.wrong += [f"{plan} leaves {name}" for name in self.left(kind == "file" and plan.endswith("+"), saved)]


@test("every site of twenty training steps fails cleanly")
def sweep():
    make_data()
    for j, (name, options) in enumerate(JOBS):
        s, tried = Sweep(name, options), 0
        for kind, n in s.sites.items():
            step = 1 if FULL else max(1, -(-min(n, MOST) // SAMPLE))
            for k in range(j if step > 1 else 0, min(n, MOST), step):
                for mode in ("", "+"):
                    s.try_site(kind, f"{kind}:{k}{mode}")
                tried += 1
        print(f"      {name}: {s.sites}: {tried} sites failed, once and from there on; done without: {s.absorbed}, {s.noted} noted")
        check(not s.wrong, name, "\n".join(s.wrong))
        assert s.absorbed["memory"] <= 4  # a smaller range of addresses does as well
        # Opening what is not there, before its compressed form; locking the profile and the temporary file; reading the folder for temporary
        # files that a kill left.
        assert s.absorbed["file"] <= 7 + sites_of_limits()
        assert s.noted <= 4  # the folder of a save: opened and synced, once and from there on
        assert s.absorbed["thread"] == 0


main("faults")
