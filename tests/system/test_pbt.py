#!/usr/bin/env python3
"""`stepwell pbt`: what the parts of the data are for, files without a name, columns, damaged checkpoints, logs and policies. The rest is in
transcripts/pbt.txt, options in transcripts/pbt-refused.txt."""
import ctypes
import os
import random
import shutil

from frame import FULL, Skip, check, column, get, main, put, raw, refused, run, said, test

NET = "pbt --data synthetic --synthetic-n 96 --batch 16 --model mlp --hidden 12 --members 6 --interval 3 --steps 24 --seed 3 --quiet --json"
FILES = "--metrics M.csv --log-dir L --save-params P%d"
LR = "--optimizer momentum lr=log:0.01..1"


@test("the file of members that wait has no name")
def unnamed():
    """A name that is there for a moment stays where the process is killed in that moment."""
    os.mkdir("Z")
    try:
        os.close(os.open("Z", os.O_TMPFILE | os.O_RDWR, 0o600))
    except OSError as why:
        raise Skip("the file system has no files without a name") from why
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0 and libc.inotify_add_watch(watch, b"Z", 0x100) >= 0  # IN_CREATE
    x = said(f"{NET} {LR} momentum=uniform:0..0.95 --memory-budget 200000 --pause-to Z")
    assert x["memory"]["paused_peak_bytes"] > 0
    try:
        check(False, "a name came up in Z:", os.read(watch, 4096))
    except BlockingIOError:
        pass
    put("Z/x", "")
    assert os.read(watch, 4096)  # it is watched
    os.close(watch)


def put_table(name, rows, seed, other=None):
    """Rows of two classes; the row `other` has the other class."""
    dice, text = random.Random(seed), ""
    for i in range(rows):
        kind = i if i < 2 else dice.randrange(2)
        text += f"{kind}.{dice.randrange(90):02},{2 - kind}.{dice.randrange(90):02},{'yes' if kind ^ (i == other) else 'no'}\n"
    put(name, text)


TABLES = "pbt --data csv:train.csv --test-data csv:test.csv --model mlp --hidden 5 --quiet --json"
OF_TABLES = f"{TABLES} --members 6 --interval 2 --steps 12 --batch 8 --seed 3 {FILES} {LR}"


@test("no member is trained with the validation part")
def validation_part():
    """One row after the other gets the other class: of the rows that are for validation all members know nothing but by their scores."""
    def state(other):
        put_table("train.csv", 20, 1, other)
        run(f"{OF_TABLES} --quantile 0 --validation-share 0.3 --steps 4 --interval 4")
        return raw("M.csv"), raw("P3")
    put_table("test.csv", 8, 7)
    whole, rows, unknown = state(None), range(2, 20, 1 if FULL else 3), 0
    for i in rows:
        metrics, params = state(i)
        unknown += params == whole[1]
        assert metrics != whole[0]
    check((4 if FULL else 1) <= unknown < len(rows), unknown, "of", len(rows), "rows are for validation")


def left(done):
    """Each file that was written, and what the JSON says of the test and of all members."""
    names = ["M.csv", "L/pbt_global.txt", *(f"P{k}" for k in range(6)), *(f"L/pbt_policy_{k}.txt" for k in range(6))]
    return [raw(name) for name in names], done.out[done.out.index('"train_rows":'):done.out.index('"shapes":')]


@test("all parts are planned")
def planned():
    """Rows of the parts below and above the batch: what is planned is what is taken, and is enough."""
    for train, test_rows, words in ((60, 30, "--batch 8"), (60, 30, "--batch 64"), (12, 90, "--batch 32"),
                                    (12, 90, "--batch 100 --validation-share 0.5"), (90, 8, "--batch 16"),
                                    (90, 8, "--batch 50 --validation-samples 2"), (90, 60, "--batch 100"), (2, 90, "--batch 64")):
        put_table("train.csv", train, 1)
        put_table("test.csv", test_rows, 7)
        done = run(f"{OF_TABLES} {words}")
        memory, reference = done.json["memory"], left(done)
        check(memory["measured_peak_bytes"] == memory["predicted_peak_bytes"], done)
        for name in ("L", *(name for name in os.listdir() if name[0] in "MP")):
            (shutil.rmtree if name == "L" else os.unlink)(name)
        largest = said(f"{TABLES} --prove {LR} {words}")["explore_bytes"]
        done = run(f"{OF_TABLES} {words} --memory-budget {largest} --pause-to Z")
        memory = done.json["memory"]
        check(left(done) == reference and not os.path.exists("Z"), done, "and not", reference[1])
        check(memory["waiting"] >= 5 and memory["measured_peak_bytes"] <= memory["budget_bytes"], done)
        shutil.rmtree("L")


@test("columns have one number of decimals")
def columns():
    """On the terminal and on the page."""
    done = run("pbt --synthetic-n 100 --model mlp --hidden 4 --members 8 --interval 2 --steps 8 --batch 8 --quiet --plot p.html --seed 4 "
               f"{LR} momentum=choice:0,0.5,0.95")
    for i in range(2, 6):
        assert column(done.out, "  member ", "\n", None, i) == 8
    for i in (1, 2, 7, 8):
        assert column(get("p.html"), "<th>member</th>", "<tr", "<td>", i) == 8


@test("damaged checkpoints are refused")
def damaged():
    """Cut at many places and with bytes changed: refused as damaged, never a crash."""
    dice, words = random.Random(11), f"{NET} {LR} hidden=int:4..20"
    run(f"{words} --checkpoint S --checkpoint-every 1")
    whole = raw("S")
    for i in range(400 if FULL else 24):
        at = dice.randrange(len(whole))
        put("D", whole[:at] if i % 2 == 0 else whole[:at] + bytes([whole[at] ^ dice.randint(1, 255)]) + whole[at + 1:])
        refused(f"{words} --resume=D", 3)


@test("damaged logs are refused")
def damaged_logs():
    """A log that is not as it was is refused before any file is changed, with the way out, which is one; with the log as it was the run
    goes on."""
    log, words = "L/pbt_global.txt", f"{NET} {LR} --steps 12"
    os.mkdir("L")
    run(f"{words} {FILES} --checkpoint C")
    whole = raw(log)
    assert len(whole) > 100
    put("M.csv", "not the metrics\n")
    for i in range(0, len(whole), len(whole) // 9):
        put(log, whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1:])
        done = run(f"{words} --resume=C --metrics M.csv --log-dir L", 3)
        check("pbt_global.txt is damaged: its first" in done.err and "or go on without --log-dir" in done.err, "byte", i, done)
        assert get("M.csv") == "not the metrics\n"
    done = run(f"{words} --resume=C --log-dir new", 3)
    check("pbt_global.txt: has 0 bytes, and had" in done.err and not os.path.exists("new"), done)
    run(f"{words} --resume=C")
    put(log, whole)
    run(f"{words} --resume=C --log-dir L")


@test("damaged policies are refused")
def damaged_policies():
    """A policy that is cut, or of another space."""
    run(f"{NET} --synch {LR} {FILES}")
    whole = next(text for text in (raw(f"L/pbt_policy_{k}.txt") for k in range(6)) if text.count(b"\n") >= 2)
    for i in range(0, len(whole), 1 if FULL else 37):
        put("cut", whole[:i])
        if whole[:i].endswith(b"\n"):
            run(f"{NET} --synch {LR} --replay cut")
        else:
            refused(f"{NET} --synch {LR} --replay cut", 3)
    put("cut", whole)
    refused(f"{NET} {LR} momentum=uniform:0..0.9 --replay cut", 3)
    put("wide", '[0,0,0,0,{"hidden":900},{"hidden":900}]\n')
    refused(f"{NET} hidden=choice:8,900 --replay wide --memory-budget 300,000", 4, "hidden 900 does not fit --memory-budget 300,000")


main("pbt")
