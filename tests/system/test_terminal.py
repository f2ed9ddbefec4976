#!/usr/bin/env python3
"""On a terminal, and not: progress lines, colours, Ctrl-C pressed twice."""
import signal
import time

from frame import Run, caught, check, main, on_terminal, run, test, wait_until

SMALL = "train --model mlp --hidden 16 --synthetic-n 400 --batch 16 --epochs 3"


@test("progress is drawn on a terminal, and wiped")
def progress():
    """Each line begins at the left and wipes the rest of the one before. The last line is wiped too, and no later line follows on it."""
    *lines, last = on_terminal(SMALL, columns=100, TERM="xterm").split("\033[K")
    assert any("\repoch 1  step 1/75  loss " in line for line in lines) and len(lines) >= 6 and lines[-1].endswith("\r")
    assert "accuracy" in last  # the result, on lines of its own


@test("progress fits the width of the terminal")
def width():
    *lines, _ = on_terminal(SMALL, columns=20, TERM="xterm").split("\033[K")
    drawn = [line.rpartition("\r")[2] for line in lines]
    assert any(drawn) and all(len(line) <= 19 for line in drawn)


@test("nothing moves in files, on dumb terminals or with --quiet")
def still():
    """Only the result, and nothing that moves, where lines cannot be wiped or are switched off."""
    text = on_terminal(SMALL, columns=100, TERM="dumb")
    assert "\033" not in text and "epoch 3  step 75" in text  # lines per epoch stay
    text = on_terminal(SMALL + " --quiet", columns=100, TERM="xterm", NO_COLOR="1")
    assert "\033" not in text and "epoch 1 " not in text
    done = run(SMALL, TERM="xterm")
    check(not set("\r\033") & set(done.err + done.out) and done.err.count("\n") == 3, done)  # one per epoch
    done = run(SMALL + " --quiet", TERM="xterm")
    check(done.err == "" and "accuracy" in done.out, done)


@test("colours are for terminals that want them")
def colours():
    for words, colour, status in (("train --batch 0", "\033[31m", 2), ("plan --synthetic-n 40 --batch 8", "\033[1m", 0)):
        assert colour in on_terminal(words, status, 100, TERM="xterm")
        assert "\033" not in on_terminal(words, status, 100, TERM="xterm", NO_COLOR="1")
        assert "\033" not in on_terminal(words, status, 100, TERM="dumb")
        done = run(words, status, TERM="xterm")
        assert "\033" not in done.err + done.out


@test("a second Ctrl-C ends at once")
def twice():
    """The first one asks for an end after the running step, which is a long one here; the second, of whatever kind, does not wait for
    it."""
    for first, second in ((signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM), (signal.SIGHUP, signal.SIGINT)):
        job = Run("train --quiet --isa base --model mlp --hidden 2048,2048 --optimizer sgd --synthetic-n 4096 --batch 4096 --epochs 100")
        wait_until(lambda: caught(job, signal.SIGINT))
        time.sleep(0.3)  # data and plans; then the step of seconds
        job.send(first)
        wait_until(lambda: not caught(job, signal.SIGINT))
        job.send(second)
        check(job.wait(30).status == -second, first, "then", second, job)


main("terminal")
