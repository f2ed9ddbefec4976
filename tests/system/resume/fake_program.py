"""A program that takes the command lines of `stepwell train`, `info` and `report`, for the checks of kills.py and faults.py.
$FAKE says what is wrong with it; nothing is, where it is empty."""
import hashlib
import json
import os
import queue
import signal
import sys
import threading
import time

STEPS, VALIDATE = 24, 8
WRONG = os.environ.get("FAKE", "")
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TEMPORARY = ".0123456789abcdef.tmp"


def put(path, data):
    """Whole or not at all."""
    new = path + TEMPORARY
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    if WRONG == "leaves a file" and path == "C" and not os.path.exists("again" + TEMPORARY):
        os.link(new, "again" + TEMPORARY)
    os.rename(new, path)


def put_torn(path, data):
    """As no program should."""
    with open(path, "wb", buffering=0) as file:
        file.write(data[:20])
        time.sleep(0.002)
        file.write(data[20:])


def read_checkpoint(path="C"):
    with open(path, "rb") as file:
        data = json.load(file)
    if hashlib.sha256(data["state"].encode()).hexdigest() != data["sum"]:
        raise ValueError("another sum")
    return data


def save(step, state, lines):
    data = json.dumps({"step": step, "state": state, "lines": lines,
                       "sum": hashlib.sha256(state.encode()).hexdigest()}).encode()
    if os.path.exists("C"):
        if os.path.exists("C.1"):
            os.unlink("C.1")
        os.link("C", "C.1")
    (put_torn if WRONG == "writes in place" else put)("C", data)


class Writer:
    """A thread that saves; the training goes on when it has."""

    def __init__(self):
        self.work, self.done = queue.Queue(), queue.Queue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w", encoding="ascii") as file:
            file.write("sw-checkpoint")
        while True:
            work = self.work.get()
            try:
                save(*work)
                self.done.put(None)
            except OSError as error:
                self.done.put(error)

    def save(self, *work):
        self.work.put(work)
        error = self.done.get()
        if error:
            raise error


def metrics_cut(lines):
    """Open the metrics with that many lines; what is after them goes."""
    file = open("M.jsonl", "r+b" if lines else "w+b", buffering=0)
    kept = file.read().splitlines(True)[:lines]
    if len(kept) < lines:
        raise OSError("metrics are shorter")
    file.truncate(sum(map(len, kept)))
    file.seek(0, os.SEEK_END)
    if WRONG == "repeats lines" and kept:
        file.write(kept[-1])
    return file


def go_on():
    """(step, state, lines) of the checkpoint, or of the beginning."""
    if "--resume" in sys.argv and os.path.exists("C"):
        data = read_checkpoint()
        state = data["state"] + ("x" if WRONG == "forgets" else "")
        return data["step"], state, data["lines"]
    return 0, "begin", 0


asked = {"end": False, "save": False}


def on_request(_number, _frame):
    for number in REQUESTS:
        signal.signal(number, signal.SIG_DFL)
    asked["end"] = WRONG != "takes no requests"


def on_save(_number, _frame):
    asked["save"] = WRONG != "saves when it likes"


def catch():
    signal.signal(signal.SIGUSR1, on_save)
    for number in REQUESTS:
        signal.signal(number, on_request)


def is_due():
    every = [word for before, word in zip(sys.argv, sys.argv[1:]) if before == "--checkpoint-every"]
    return every[-1:] == ["1"] or asked["save"]


def train():
    saves = "--checkpoint" in sys.argv
    catch()
    for name in os.listdir("."):
        if name.endswith(TEMPORARY) and WRONG != "leaves a file":
            os.unlink(name)
    writer = Writer()
    step, state, lines = go_on()
    file = metrics_cut(lines)
    while step < STEPS:
        time.sleep(0.001)
        step += 1
        state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
        file.write(json.dumps({"kind": "train", "step": step, "loss": state, "ms": time.monotonic()}).encode() + b"\n")
        lines += 1
        if step % VALIDATE == 0:
            put("B", f"best {state}".encode())
        os.fsync(file.fileno())
        ends = step == STEPS or asked["end"]
        if saves and (ends or is_due()) and not (asked["end"] and WRONG == "ends unsaved"):
            writer.save(step, state, lines)
            if asked["save"]:
                os.write(2, f"step {step} is saved in C\n".encode())
            asked["save"] = False
        if asked["end"]:
            sys.exit(130)
    file.close()
    put("P", f"last {state}".encode())
    if "--profile" in sys.argv:
        put("F", b"profile\n")


def say(text):
    os.write(1, text.encode() + b"\n")


def main():
    command = sys.argv[1]
    if command == "--help":
        say("help")
    elif command == "train":
        train()
    elif command == "info":
        say(f"step {read_checkpoint()['step']}")
    elif command == "report":
        with open("F", "rb") as file:
            say(file.read().decode())


def behave(error):
    """Acts as a fault makes the program act."""
    if WRONG == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if WRONG == "hangs":
        time.sleep(1000)
    if WRONG == "is quiet":
        sys.stdout.flush()
        os._exit(0)
    if WRONG == "another status":
        os._exit(99)
    if WRONG == "is noticed":
        os.write(2, b"ERROR: AddressSanitizer: planted\n")
    try:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(1)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError) as wrong:
        behave(wrong)
    os._exit(0)
