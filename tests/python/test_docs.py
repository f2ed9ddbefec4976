#!/usr/bin/env python3
"""The programs of tools/docs/python.md run as they are shown."""
import contextlib
import io
import os
import re
import tempfile
import unittest

import support

PAGE = os.path.join(support.ROOT, "tools", "docs", "python.md")


def blocks():
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    for match in re.finditer(r"^```python\n(.*?)^```$", page, flags=re.M | re.S):
        yield page[:match.start()].count("\n") + 1, match.group(1)


class Docs(unittest.TestCase):
    def test_the_programs_run(self):
        names, here, ran, missing = {}, os.getcwd(), 0, []
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for line, text in blocks():
                    if support.PRELOAD and "sw.ray." in text:
                        missing.append("another interpreter, which sw.ray starts, cannot load a library with sanitizers")
                        continue
                    for library in re.findall(r"\b(numpy|frames)\b", text)[:1]:
                        try:
                            __import__({"frames": "pandas"}.get(library, library))
                        except ImportError as absent:
                            missing.append(str(absent))
                            break
                    else:
                        said = io.StringIO()
                        with contextlib.redirect_stdout(said):
                            exec(compile("\n" * line + text, PAGE, "exec"), names)
                        ran += 1
            finally:
                os.chdir(here)
        self.assertGreaterEqual(ran, 2)
        self.assertEqual(len(names["logits"]), 64)
        self.assertLess(names["loss"], 1.1)
        if missing:
            self.skipTest("; ".join(missing))

    def test_names_on_the_page_are_there(self):
        import stepwell
        with open(PAGE, encoding="utf-8") as f:
            names = set(re.findall(r"\bsw\.(\w+)", f.read()))
        self.assertEqual({n for n in names if n not in dir(stepwell)}, set())
        self.assertGreater(len(names), 30)


if __name__ == "__main__":
    support.main()
