"""Shared by kills.py and faults.py: trainings as command lines, each run in a folder of its own, and what they must leave."""
import collections
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

DOCUMENTED = {0, 1, 2, 3, 4, 5, 130}  # exit statuses, of `stepwell train --help`
SAVES = "--metrics M.jsonl --save-best B --save-params P --seed 5 --quiet".split()
CHECKPOINTS = "--checkpoint C --checkpoint-every 1 --resume".split()
SYNTHETIC = "--data synthetic --synthetic-n 256 --batch 32 --epochs 3 "
TEXT = "text"  # a file beside the folders of the runs

# NAME: (options of train, settings of the environment)
SCENES = {
    "mlp": ("--model mlp --optimizer adam " + SYNTHETIC, {}),
    "momentum": ("--model mlp --optimizer momentum --clip 0.5 --schedule one_cycle --patience 9 " + SYNTHETIC, {}),
    "accumulate": ("--model mlp --optimizer adamw --data synthetic --synthetic-n 256 --batch 8 --accumulate 4 --epochs 3", {}),
    "validate": ("--model mlp --optimizer lion --keep-gradients --validate-every 2 " + SYNTHETIC, {}),
    "immediate": ("--model mlp --optimizer adafactor --immediate " + SYNTHETIC, {}),
    "lenet5": ("--model lenet5 --optimizer adagrad --data synthetic --synthetic-n 128 --batch 16 --epochs 2", {}),
    "gpt": (f"--model gpt --data text:../{TEXT} --layers 2 --width 32 --heads 2 --context 16 --dropout 0.1 --batch 4 "
            "--epochs 1 --steps 24", {}),
    "threads": ("--model mlp --optimizer rmsprop --threads 2 " + SYNTHETIC, {}),
    "pauses": ("--model mlp --optimizer nesterov --checkpoint-pauses " + SYNTHETIC, {}),
    "card": ("--model mlp --optimizer adam --device cuda " + SYNTHETIC, {"STEPWELL_FAKE_LAZY": "5"}),
}

Outcome = collections.namedtuple("Outcome", "status out err")  # status: "no end" where it was stopped


class Failed(Exception):
    pass


def text_of_letters(n):
    """Bytes that have something to learn, the same ones every time."""
    rng = random.Random(7)
    words = ["".join(rng.choice("abcdefgh") for _ in range(rng.randint(2, 6))) for _ in range(40)]
    return " ".join(rng.choice(words) for _ in range(n // 4))[:n]


def words_of(program):
    """The first is a path from here, or a name that is looked up."""
    first, *more = program.split()
    return [os.path.abspath(first) if os.sep in first else first, *more]


def run(argv, folder, env=None, limit=60):
    with subprocess.Popen(argv, cwd=folder, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, start_new_session=True) as child:
        try:
            out, err = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # what strace traces does not end with it
            return Outcome("no end", *child.communicate())
    return Outcome(child.returncode, out, err)


def complaint(outcome):
    """A behaviour that no run may have, whatever happened to it; None: it did not."""
    if outcome.status == "no end":
        return "it did not end"
    if outcome.status < 0:
        return f"killed by signal {-outcome.status} ({signal.Signals(-outcome.status).name})"
    if outcome.status not in DOCUMENTED:
        return f"exit status {outcome.status}, which is not documented"
    for word in (b"Sanitizer", b"runtime error:", b"Assertion"):
        if word in outcome.err:
            return f"'{word.decode()}' on standard error"
    return None


def said(outcome):
    """The end of standard error, for messages."""
    return outcome.err.decode(errors="replace").strip()[-300:]


class Scene:
    """One training. Its folders are made below `work`, where the text of gpt lies too."""

    def __init__(self, program, name, work, module=None, limit=60):
        words, env = SCENES[name]
        self.program, self.name, self.work = words_of(program), name, work
        self.train = [*self.program, "train", *words.split(), *SAVES, *CHECKPOINTS]
        self.env = {**env, "STEPWELL_CUDA_MODULE": module} if module and "cuda" in words else dict(env)
        self.folders, self.limit = 0, limit
        self.reference, self.seconds = None, 0.0
        text = os.path.join(work, TEXT)
        if not os.path.exists(text):
            with open(text, "w", encoding="ascii") as file:
                file.write(text_of_letters(6000))

    def folder(self):
        self.folders += 1
        path = os.path.join(self.work, f"{self.name}{self.folders}")
        os.mkdir(path)
        return path

    def run(self, folder):
        return run(self.train, folder, self.env, self.limit)

    def info(self, folder):
        return run([*self.program, "info", "C"], folder, self.env, self.limit)

    def begin(self):
        """Run it once without a stop: what all others must leave, and how long it takes."""
        folder = self.folder()
        then = time.monotonic()
        outcome = self.run(folder)
        self.seconds = time.monotonic() - then
        if outcome.status != 0:
            raise Failed(f"without any stop: exit status {outcome.status}: {said(outcome)}")
        self.reference = results(folder)
        for name in ("P", "B", "M.jsonl"):
            if not self.reference[name]:
                raise Failed(f"without any stop: no {name}")
        if not os.path.exists(os.path.join(folder, "C")):
            raise Failed("without any stop: no checkpoint")
        others = self.left(folder)
        if others:
            raise Failed(f"without any stop: {', '.join(others)} left")
        return folder

    def left(self, folder):
        """Names that an ended run leaves and must not."""
        return sorted(set(os.listdir(folder)) - {"P", "B", "M.jsonl", "C", "C.1"})

    def differences(self, folder, lost=()):
        """From the run without a stop; [] where there are none. A lost file may be an older one, or have fewer lines."""
        found = []
        for name, now in results(folder).items():
            then = self.reference[name]
            if now == then or (name in lost and (name != "M.jsonl" or is_part(now, then))):
                continue
            if not now:
                found.append(f"no {name}")
            elif name == "M.jsonl":
                at = next((i for i, pair in enumerate(zip(now, then)) if pair[0] != pair[1]), min(len(now), len(then)))
                found.append(f"{name} has {len(now)} lines, not {len(then)}; line {at + 1} is "
                             f"{now[at] if at < len(now) else 'not there'}")
            else:
                found.append(f"{name} has other bytes")
        return found + [f"{name} is left" for name in self.left(folder)]

    def damaged(self, folder):
        """The damage of the checkpoint that is there; None: nothing, or there is none."""
        if not os.path.exists(os.path.join(folder, "C")):
            return None
        outcome = self.info(folder)
        return None if outcome.status == 0 else f"info C: exit status {outcome.status}: {said(outcome)}"


def lines_without_times(path):
    """Of a metrics file; a line that is no JSON stays as it is."""
    lines = []
    with open(path, "rb") as file:
        for line in file.read().splitlines():
            try:
                fields = json.loads(line)
                fields.pop("ms", None)
                lines.append(json.dumps(fields, sort_keys=True))
            except (ValueError, AttributeError):
                lines.append(line.decode(errors="replace"))
    return lines


def is_part(lines, every):
    """Whether they are some of them, in their order."""
    left = iter(every)
    return all(line in left for line in lines)


def results(folder):
    """{P, B: their sha256; M.jsonl: its lines without times}; None for what is not there."""
    found = {"P": None, "B": None, "M.jsonl": None}
    for name in found:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        if name == "M.jsonl":
            found[name] = lines_without_times(path)
        else:
            with open(path, "rb") as file:
                found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def missing(scene_name, module):
    """Why the scene cannot run here; None: it can."""
    if scene_name == "card" and not (module and os.path.exists(module)):
        return "no module over the card that is not there"
    return None


def totals(passed, failed, skipped):
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)
