"""The program `stepwell` from Python: plan, train and report, what --json says as a dict, and tables
of a profile as pandas frames."""
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

from ._calls import HERE

STATUSES = {1: "failed", 2: "wrong usage", 3: "a damaged or foreign file", 4: "does not fit the memory", 5: "no such device", 130: "interrupted"}


class CommandError(Exception):
    """The program did not end with status 0. status: its exit status (below 0: the signal); message:
    what it wrote to standard error; result: the object that it wrote all the same, or None."""

    def __init__(self, words, status, message, result=None):
        self.words, self.status, self.message, self.result = words, status, message, result
        super().__init__(f"{' '.join(words[:2])} ended with status {status} ({STATUSES.get(status, 'ended by a signal' if status < 0 else 'unknown')})"
                         + (f": {message}" if message else ""))


def program():
    """The path of `stepwell`: STEPWELL, beside the installed package or library, or in PATH."""
    if os.environ.get("STEPWELL"):
        return os.environ["STEPWELL"]
    places = [os.path.join(HERE, "..", "..", "..", "..", "bin")]  # of PREFIX/share/stepwell/python/stepwell
    if os.environ.get("STEPWELL_LIBRARY"):
        places.append(os.path.join(os.path.dirname(os.environ["STEPWELL_LIBRARY"]), "..", "bin"))
    for place in places:
        path = os.path.normpath(os.path.join(place, "stepwell"))
        if os.access(path, os.X_OK):
            return path
    path = shutil.which("stepwell")
    if path is None:
        raise FileNotFoundError("the program stepwell was not found: name it with STEPWELL=PATH, or install it and have its folder in PATH")
    return path


def words_of(options):
    """Options as the command has them: _ for -, True for one without a value, lists by commas."""
    words = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words.append(option + "=" + ",".join(str(v) for v in value))
        else:
            words.append(f"{option}={os.fspath(value) if hasattr(value, '__fspath__') else value}")
    return words


def run(words, progress=None):
    """Run the program: its standard output. Ctrl-C reaches it too, whenever it comes, and what it says
    in its end is waited for; a second one kills it."""
    words, child, interrupts, early = [program(), *words], None, [], []

    def interrupt(*_):
        interrupts.append(None)
        if child is None:
            early.append(None)
        elif len(interrupts) > 1:
            child.kill()
        elif not _shares_terminal():  # a terminal sends Ctrl-C to both; one that came from elsewhere is passed on
            child.send_signal(signal.SIGINT)

    # An exception may come anywhere, also while the program starts, which would then train on unseen.
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=progress or subprocess.PIPE, text=True) as started:
            child = started
            if early:  # one that comes from here on is passed on already
                child.send_signal(signal.SIGINT)
            out, err = child.communicate()
    except BaseException:
        if child is not None:
            child.kill()
        raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupts:
        interrupted = KeyboardInterrupt()
        interrupted.result = parsed(out)
        raise interrupted
    if child.returncode != 0:
        raise CommandError(["stepwell", *words[1:]], child.returncode, (err or "").strip(), parsed(out))
    return out


def _shares_terminal():
    """Whether a Ctrl-C of the terminal goes to this process, and so to the child."""
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def parsed(out):
    try:
        return json.loads(out)
    except (ValueError, TypeError):
        return None


def command(name, *words, progress=None, **options):
    """`stepwell NAME WORDS --OPTIONS --json` as a dict. progress: a file for what the program writes
    to standard error, such as sys.stderr; None keeps it for the message of CommandError. Ctrl-C
    raises KeyboardInterrupt once the program has ended, with what it wrote as `result`."""
    options.pop("json", None)
    out = run([name, *map(os.fspath, words), *words_of(options), "--json"], progress)
    result = parsed(out)
    if result is None:
        raise CommandError(["stepwell", name], 0, f"standard output is no JSON object: {out[:200]!r}")
    return result


def plan(**options):
    """`stepwell plan` as a dict: plan(model="lenet5", batch=128, memory_budget="8MiB")."""
    return command("plan", **options)


def train(**options):
    """`stepwell train` as a dict: train(model="lenet5", synthetic_n=1000, epochs=1, profile="p.jsonl")."""
    return command("train", **options)


def report(path, **options):
    """`stepwell report PATH` as a dict: report("p.jsonl"), report("p.jsonl", by="layer")."""
    return command("report", path, **options)


TABLES = ("layers", "roles", "ops", "phases", "steps")


def frames(profile, *tables):
    """Tables of a profile as pandas frames, by name: "layers", "roles", "ops", "phases" (of the
    program that holds the peak, as --by has them), "steps" (a row for each run that was recorded, in
    training and evaluation: its program, bytes and ns of each phase), and, where it is named,
    "events" (every birth, reuse and death). Needs pandas."""
    try:
        import pandas
    except ImportError as missing:
        raise ImportError("stepwell.frames needs pandas: install it, or read the dict of stepwell.report") from missing
    made = {}
    formats = {"steps": ["--format=csv-runs"], "events": ["--format=csv"],
               **{f"{word}s": [f"--by={word}", "--format=csv"] for word in ("layer", "role", "op", "phase")}}
    for table in tables or TABLES:
        if table not in formats:
            raise ValueError(f"a table must be one of {', '.join(TABLES)}, events (got {table!r})")
        rows = io.StringIO(run(["report", os.fspath(profile), *formats[table]]))
        made[table] = pandas.read_csv(rows, keep_default_na=table == "steps")  # a step may have no loss; "NA" may be a layer
    return made
