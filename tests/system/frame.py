"""Tests of the program from outside, in Python: what it prints, writes and answers to signals.

A file names its promises by @test and ends with main(). Each test has an empty folder, in which the program runs; what it started ends
with it. An assert that fails ends its test; `check` says more than its expression. FILE PROGRAM [quick|full] [sanitized] [checked] [PART]:
the tests whose promise has PART. The last line has the totals."""
import fcntl
import itertools
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

PROGRAM = os.path.abspath(sys.argv[1])
FULL = "full" in sys.argv[2:]
STEADY = "sanitized" not in sys.argv[2:]  # sanitizers keep memory of their own
CHECKED = "checked" in sys.argv[2:]  # arenas have bytes between allocations
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
tests, running = [], []
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without it, and so would what it starts


class Skip(Exception):
    pass


def test(promise):
    return lambda body: tests.append((promise, body)) or body


def check(holds, *says):
    if not holds:
        raise AssertionError(" ".join(str(s) for s in says))


def written(file):
    """Its text, while another process may write on where it is."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()


class Run:
    """The program with these words, split at blanks. status is below 0 where a signal ended it."""

    def __init__(self, words, env=(), shell=False):
        self.words, self.out, self.err, self.status = words, "", "", None
        self.file = tempfile.TemporaryFile("w+", encoding="utf-8"), tempfile.TemporaryFile("w+", encoding="utf-8")
        argv = ["sh", "-c", words] if shell else [PROGRAM, *words.split()]
        self.child = subprocess.Popen(argv, env={**os.environ, "P": PROGRAM, **dict(env)}, stdin=subprocess.DEVNULL, stdout=self.file[0],
                                      stderr=self.file[1])
        running.append(self.child)

    def send(self, number):
        self.child.send_signal(number)

    def printed(self):
        """Whole lines on standard output so far."""
        text = written(self.file[0])
        return text[:text.rfind("\n") + 1].splitlines()

    def line_with(self, part, seconds=20):
        """Waits for a last line that has it."""
        wait_until(lambda: part in "".join(self.printed()[-1:]), seconds, 0.01)
        return self.printed()[-1]

    def notes(self, part, seconds=20):
        """Waits for it on standard error."""
        wait_until(lambda: part in written(self.file[1]), seconds)

    def wait(self, seconds=300):
        wait_until(lambda: os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), seconds, longer=1.05)
        _, status, used = os.wait4(self.child.pid, 0)
        self.status = self.child.returncode = os.waitstatus_to_exitcode(status)
        self.peak_bytes = used.ru_maxrss * 1024  # at least what Python took before it
        self.out, self.err = (written(f) for f in self.file)
        return self

    @property
    def json(self):
        return json.loads(self.out)

    def failed_cleanly(self, status):
        """One line of error and no output."""
        return self.status == status and not self.out and self.err.count("\n") == 1

    def __str__(self):
        return f"{self.words}: status {self.status}: {self.err[:400]}{self.out[:400]}"


def run(words, status=0, **env):
    """Runs to its end with this status; None: any."""
    done = Run(words, env.items()).wait()
    check(status is None or done.status == status, done)
    return done


def said(words, status=0, **env):
    """The object that it prints."""
    return run(words, status, **env).json


def refused(words, status, *parts):
    done = run(words, status)
    check(done.failed_cleanly(status) and all(p in done.err for p in parts), done, "must say", parts)


def on_terminal(words, status=0, columns=80, **env):
    """Its output on a terminal of so many columns."""
    try:
        pid, fd = pty.fork()
    except OSError as why:
        raise Skip("no terminal can be made here") from why
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        os.execve(PROGRAM, [PROGRAM, *words.split()], {**os.environ, "NO_COLOR": "", **env})
    shown = b""
    try:
        while part := os.read(fd, 4096):
            shown += part
    except OSError:
        pass  # the other side is closed
    os.close(fd)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    check(ended == status, words, "status", ended, shown)
    return shown.decode()


def signals(job, kind):
    """The process's mask: ShdPnd, sent to it and not seen yet; SigCgt, with a handler."""
    try:
        return int(get(f"/proc/{job.child.pid}/status").split(f"{kind}:")[1].split()[0], 16)
    except OSError as why:
        raise Skip("the system does not tell which signals a process has") from why


def caught(job, number):
    """Whether the process has a handler for the signal."""
    return bool(signals(job, "SigCgt") >> (number - 1) & 1)


def wait_until(holds, seconds=20, pause=0.001, longer=1):
    """Looks again after a pause; each is longer than the one before by this factor, up to 20 ms."""
    end = time.monotonic() + seconds
    while not holds():
        check(time.monotonic() < end, "it took too long")
        time.sleep(pause)
        pause = min(longer * pause, 0.02)


def put(name, text):
    """Text or bytes."""
    with open(name, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return name


def get(name):
    with open(name, encoding="utf-8") as f:
        return f.read()


def raw(name):
    with open(name, "rb") as f:
        return f.read()


def records(name):
    """The objects of its lines."""
    return [json.loads(line) for line in get(name).splitlines()]


def tensors(name):
    """The header of a file of tensors, and the bytes after it."""
    text = raw(name)
    end = 8 + struct.unpack_from("<Q", text)[0]
    return json.loads(text[8:end]), text[end:]


def column(text, head, row, cell, number):
    """How many numbers a column has of the table after `head`, whose rows and cells begin so (None: blanks). All must have the same number
    of decimals; "none" and "nan" are none."""
    decimals = []
    for line in text.split(head, 1)[1].split(row)[1:]:
        cells = line.split(cell)[cell is not None:]
        if not cells:
            break  # after the table
        if len(cells) > number and (found := re.match(r"[-0-9]+(?:\.([0-9]*))?", cells[number])):
            decimals.append(len(found.group(1) or ""))
    check(len(set(decimals)) == 1, head, "column", number, "has decimals", decimals)
    return len(decimals)


def put_idx(folder, part, pixels, labels):
    """A part, train or t10k, of a data set in MNIST's format."""
    os.makedirs(folder, exist_ok=True)
    for name, head, body in (("images-idx3", (0x803, len(labels), 28, 28), pixels), ("labels-idx1", (0x801, len(labels)), labels)):
        put(f"{folder}/{part}-{name}-ubyte", struct.pack(f">{len(head)}I", *head) + body)


def data(name):
    """A file of the data sets, or a skip."""
    for folder in (os.environ.get("STEPWELL_DATA"), os.path.join(ROOT, "..", "shared", "data")):
        if folder and os.path.exists(os.path.join(folder, name)):
            return os.path.abspath(os.path.join(folder, name))
    raise Skip(f"{name} is not here")


def one(suite, promise, body):
    with tempfile.TemporaryDirectory(prefix="stepwell-test-") as folder:
        os.chdir(folder)
        try:
            body()
            return print(f"{suite}: {promise} ok") or 0
        except Skip as why:
            return print(f"{suite}: {promise} skipped: {why}") or 2
        except Exception:  # any: the others run
            traceback.print_exc(file=sys.stdout)
            return print(f"{suite}: {promise} FAILED") or 1
        finally:
            for child in running:
                child.kill()
                child.wait()
            running.clear()
            os.chdir("/")


def main(suite):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    part = "".join(w for w in sys.argv[2:] if w not in ("full", "quick", "sanitized", "checked"))
    ends = [one(suite, promise, body) for promise, body in tests if part in promise]
    print(f"{ends.count(0)} passed, {ends.count(1)} failed, {ends.count(2)} skipped", flush=True)
    sys.exit(1 if ends.count(1) else 0)


def pairs(rows):
    return itertools.combinations(rows, 2)
