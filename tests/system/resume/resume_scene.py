"""Shared by kills.py and faults.py: runs as command lines, each in a folder of its own, and what they must leave."""
import collections
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

DOCUMENTED = {0, 1, 2, 3, 4, 5, 130}  # exit statuses, of `stepwell train --help`
SAVES = "--metrics M.jsonl --save-best B --save-params P --seed 5 --quiet --json".split()
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
    "lenet5": ("--model lenet5 --optimizer adagrad --validate-every 1 --threads 2 --data synthetic --synthetic-n 128 "
               "--batch 16 --epochs 2", {}),
    "gpt": (f"--model gpt --data text:../{TEXT} --layers 2 --width 32 --heads 2 --context 16 --dropout 0.1 --batch 4 "
            "--epochs 1 --steps 24", {}),
    "threads": ("--model mlp --optimizer rmsprop --threads 2 " + SYNTHETIC, {}),
    "swishnet": ("--model swishnet --width 64 --layers 3 --validate-every 2 --accumulate 3 " + SYNTHETIC, {}),
    "pauses": ("--model mlp --optimizer nesterov --checkpoint-pauses " + SYNTHETIC, {}),
    "card": ("--model mlp --optimizer adam --device cuda " + SYNTHETIC, {"STEPWELL_FAKE_LAZY": "5"}),
}

# The same for `pbt`: options and ranges
COMMON = ("--data synthetic --synthetic-n 160 --batch 16 --model mlp --hidden 12 --members 8 --interval 4 --steps 60 --seed 3 "
          "--json --quiet --metrics M.csv --log-dir L --save-params P%d")
KNOBS = "lr=log:0.01..1 momentum=uniform:0..0.95"
SHAPES = KNOBS + " batch=choice:8,16,24 hidden=int:4..20"
POPULATIONS = {
    "knobs": "--optimizer momentum --threads 2 " + KNOBS,
    "shapes": "--optimizer momentum --dropout 0.2 dropout=uniform:0..0.5 " + SHAPES,
    "synch": "--optimizer momentum --synch --threads 2 " + SHAPES,
    "waiting": "--optimizer momentum --memory-budget 400000 --threads 2 " + SHAPES,
    "paused": "--optimizer momentum --memory-budget 400000 --pause-to Z " + SHAPES,
    "tournament": "--optimizer adam --exploit tournament lr=log:0.001..0.1 beta1=uniform:0.5..0.95 hidden=int:4..20",
    "t-test": "--optimizer momentum --exploit t-test --interval 2 --synch " + KNOBS,
    "state8": "--optimizer adamw --state 8bit --threads 2 lr=log:0.001..0.1 batch=choice:8,16,24 hidden=int:4..20",
    "others": "--optimizer momentum --dropout 0.2 " + SHAPES,  # each start has other threads and another budget
}
STARTS = (["--threads", "1"], ["--threads", "3"], ["--memory-budget", "700000", "--threads", "2"],
          ["--memory-budget", "700000", "--pause-to", "Z"])
OF_THE_PROCESS = {"paused_peak_bytes", "measured_peak_bytes"}  # of the JSON of a population, beside times

# Of the JSON of a training: the same of any run with the same numbers
TOLD = ("steps epochs final_loss diverged skipped test_accuracy validations validation_loss best_step best_accuracy stopped_early "
        "best_validation_loss").split()

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

    def start(self, _rng, more=()):
        """The command line of a run that is to be stopped."""
        return [*self.train, *more]

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
        self.look(folder, outcome)
        return folder

    def look(self, folder, outcome):
        """The reference: all that it left without a stop."""
        self.reference, self.told = results(folder), told(json.loads(outcome.out))
        for name in ("P", "B", "M.jsonl"):
            if not self.reference[name]:
                raise Failed(f"without any stop: no {name}")
        if not os.path.exists(os.path.join(folder, "C")):
            raise Failed("without any stop: no checkpoint")
        others = self.left(folder)
        if others:
            raise Failed(f"without any stop: {', '.join(others)} left")

    def last_step(self, folder):
        """Of the metrics; 0 where they have none, None where nothing is known of steps."""
        path = os.path.join(folder, "M.jsonl")
        lines = lines_without_times(path) if os.path.exists(path) else []
        steps = [int(found.group(1)) for found in (re.search(r'"step": (\d+)', line) for line in lines if '"train"' in line) if found]
        return steps[-1] if steps else 0

    def ended(self, folder, outcome):
        """Faults of a run that was stopped, at its end."""
        now = told(json.loads(outcome.out))
        return self.differences(folder) + [f"{k} is {now.get(k)} and not {then}" for k, then in self.told.items() if now.get(k) != then]

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


class Population(Scene):
    """One population of POPULATIONS: every byte of the metrics, of the logs of exploits and of the parameters of all members, and
    the JSON but for times and measured memory."""

    def __init__(self, program, name, work, _module=None, limit=60):
        self.program, self.name, self.work = words_of(program), name, work
        self.train = [*self.program, "pbt", *COMMON.split(), *sorted(POPULATIONS[name].split(), key=lambda word: "=" in word), *CHECKPOINTS]
        self.env, self.folders, self.limit = {}, 0, limit
        self.reference, self.seconds = None, 0.0

    def folder(self):
        path = super().folder()
        for part in ("L", "Z"):
            os.mkdir(os.path.join(path, part))
        return path

    def start(self, rng, more=()):
        return [*self.train, *(rng.choice(STARTS) if self.name == "others" else []), *more]

    def results(self, folder, out):
        found = {"json": without_times(json.loads(out))}
        for name in ("memory", "threads") if self.name == "others" else ():
            del found["json"][name]
        for where, _, names in os.walk(folder):
            for name in sorted(set(names) - {"C", "C.1"}):
                with open(os.path.join(where, name), "rb") as file:
                    found[os.path.relpath(file.name, folder)] = hashlib.sha256(file.read()).hexdigest()
        return found

    def look(self, folder, outcome):
        self.reference = self.results(folder, outcome.out)
        if self.reference["json"]["exploits"] < 5 or "P7" not in self.reference:
            raise Failed("without any stop: too little happens")

    def last_step(self, folder):
        return None

    def ended(self, folder, outcome):
        now, then = self.results(folder, outcome.out), self.reference
        other = [name for name in sorted(set(now) | set(then)) if now.get(name) != then.get(name)]
        if other == ["json"]:
            other = [f"{k} of the JSON: {now['json'].get(k)} and not {v}" for k, v in then["json"].items() if now["json"].get(k) != v]
        return [f"other or missing: {', '.join(other)}"] if other else []


def told(x):
    return {name: x[name] for name in TOLD if name in x}


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if not k.endswith("_ns") and k not in OF_THE_PROCESS}
    return [without_times(v) for v in value] if isinstance(value, list) else value


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
