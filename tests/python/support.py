"""What the tests of the Python package share. Each file is a test: exit status 77 where all of it skipped."""
import importlib
import os
import sys
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))


def need(name):
    """A library of others, or the test skips."""
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise unittest.SkipTest(str(missing)) from missing


def main():
    """Run the tests of the calling file; words of the command line choose some by name."""
    if os.environ.get("STEPWELL_SANITIZED") and "test_header" not in sys.argv[0]:
        print("skipped: Python cannot load a library that was built with sanitizers")
        sys.exit(77)
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
