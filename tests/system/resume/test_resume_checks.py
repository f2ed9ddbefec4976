#!/usr/bin/env python3
"""Do kills.py and faults.py notice? They look at a program that is right, and at some that are wrong in one way each.

usage: test_resume_checks.py"""
import os
import subprocess
import sys
import tempfile

import faults
import resume_scene

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = f"{sys.executable} -S -E {os.path.join(HERE, 'fake_program.py')}"
KILLS = ["--scenes", "mlp", "--row", "4", "--kills"]
MANY = [*KILLS, "300"]  # it ends with the first that is noticed
CALLS = ["--calls", "write,fsync,rename,unlink,link", "--cases"]
TRAIN = [*CALLS, "5", "--targets", "train"]

# Defects of the program, and words that report them.
NOTICED = [
    ("kills.py", MANY, "forgets", "other bytes"),
    ("kills.py", MANY, "repeats lines", "M.jsonl"),
    ("kills.py", MANY, "leaves a file", "left"),
    ("kills.py", MANY, "writes in place", "exit status 1"),
    ("kills.py", [*MANY, "--only", "request"], "ends unsaved", "asked to end it saved"),
    ("kills.py", [*MANY, "--only", "request"], "takes no requests", "it went on to step"),
    ("kills.py", [*MANY, "--only", "save"], "saves when it likes", "says nothing of a save"),
    ("faults.py", TRAIN, "crashes", "SIGSEGV"),
    ("faults.py", [*TRAIN, "--limit", "10", "--only", "train write EIO 3"], "hangs", "did not end"),
    ("faults.py", TRAIN, "is quiet", "exit status 0"),
    ("faults.py", TRAIN, "another status", "not documented"),
    ("faults.py", TRAIN, "is noticed", "Sanitizer"),
    ("faults.py", TRAIN, "forgets", "other bytes"),
]


def run(script, words, wrong):
    """The folder and all that the script keeps in it go at the end."""
    with tempfile.TemporaryDirectory(prefix="checks.") as folder:
        done = subprocess.run([sys.executable, os.path.join(HERE, script), PROGRAM, *words], check=False,
                              env={**os.environ, "FAKE": wrong, "TMPDIR": folder}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode(errors="replace")


def main():
    passed, failed, skipped = 0, 0, 0
    traced = faults.why_not() is None
    rows = [("kills.py", [*KILLS, "3"], "", "same bits"), ("faults.py", [*CALLS, "12"], "", "0 went wrong")] + NOTICED
    for script, words, wrong, text in rows:
        name = f"{script}: {'a program that ' + wrong + ' is noticed' if wrong else 'a program that is right passes'}"
        if script == "faults.py" and not traced:
            print(f"{name} ... skipped: strace cannot trace here")
            skipped += 1
            continue
        status, out = run(script, words, wrong)
        good = text in out and (status != 0) == bool(wrong)
        print(f"{name} {'ok' if good else 'FAILED'}" + ("" if good else f"\n{out}"), flush=True)
        passed += good
        failed += not good
    resume_scene.totals(passed, failed, skipped)


if __name__ == "__main__":
    main()
