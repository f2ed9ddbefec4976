"""Shared by the tests of the Python package. Each file is a test: exit status 77 where all of it skipped.

A library that was built with the address sanitizer needs the sanitizer's runtime in the process from its start. The build names
it in STEPWELL_PRELOAD, and main() begins the interpreter again with it. No other program may inherit it: the program stepwell has
a runtime of its own, and the sanitizer's symbolizer does not end with a second one in it. So it leaves the environment at once, and
python() gives it back to an interpreter."""
import importlib
import os
import signal
import subprocess
import sys
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.dont_write_bytecode = True
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without it, and so would what it starts
SANITIZED = os.environ.get("STEPWELL_SANITIZED", "")  # as the option b_sanitize says it
PRELOAD = os.environ.get("STEPWELL_PRELOAD", "")


def need(name):
    """A library of others, or the test skips."""
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise unittest.SkipTest(str(missing)) from missing


def environment(**more):
    """Of another interpreter that uses the package."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **more}
    if PRELOAD:
        env.update(LD_PRELOAD=PRELOAD, PYTHONMALLOC="malloc")  # malloc: the sanitizer sees each object of Python's
    return env


def python(program, **more):
    """A program run to its end by another interpreter; `more` goes to its environment."""
    program = "import os; os.environ.pop('LD_PRELOAD', None)\n" + program
    return subprocess.run([sys.executable, "-c", program], env=environment(**more), capture_output=True, text=True)


def sanitize():
    """The sanitizer's runtime in this process, or a skip."""
    if "thread" in SANITIZED or "memory" in SANITIZED:
        print(f"skipped: -fsanitize={SANITIZED} judges an interpreter that was built without it")
        sys.exit(77)
    if PRELOAD == "none":
        print(f"skipped: the compiler has no shared runtime of -fsanitize={SANITIZED}")
        sys.exit(77)
    if PRELOAD and os.environ.get("LD_PRELOAD") != PRELOAD:
        os.execve(sys.executable, [sys.executable, *sys.argv], environment())
    if PRELOAD:
        del os.environ["LD_PRELOAD"]


def main():
    """Run the tests of the calling file; words of the command line choose some by name."""
    sanitize()
    names = [w for w in sys.argv[1:] if "/" not in w]
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    if names:
        tests = unittest.TestSuite(t for suite in tests for t in suite if any(n in t.id() for n in names))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(tests)
    for test, why in result.skipped:
        print(f"skipped: {test.id()}: {why}")
    if result.testsRun == 0 or not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if len(result.skipped) == result.testsRun else 0)
