#!/usr/bin/env python3
"""The generated part of the Python package against the header: text, sizes, offsets, numbers, names."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

GENERATE = os.path.join(support.ROOT, "tools", "python", "generate.py")
# Macros that only C can have: attributes, and what returns from the function that it stands in.
FOR_C = {"SW_API", "SW_MUST_USE", "SW_PRINTF", "SW_RESTRICT", "SW_FAIL", "SW_TRY", "SW_OPTS", "SW_OPTS_OF"}


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def header():
    parts = ["alloc/base/base.h", "kernels/launch.h", "kernels/par.h", *(os.path.join("runtime/api", p) for p in os.listdir(os.path.join(support.ROOT, "runtime/api")))]
    return "\n".join(text(os.path.join(support.ROOT, p)) for p in parts)


def layouts(package, folder):
    """C's layout of each struct and constant that a _header.py names: [(what, C, Python)] of those that differ, and how many."""
    import ctypes
    lines, asked = [], []
    for name, kind in vars(package).items():
        if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and getattr(kind, "_fields_", None):
            asked.append((f"sizeof({name})", ctypes.sizeof(kind)))
            for field in kind._fields_:
                at = getattr(kind, field[0])
                asked += [(f"offsetof({name}, {field[0]})", at.offset), (f"sizeof((({name} *)0)->{field[0]})", at.size)]
        elif name.startswith("SW_") and isinstance(kind, int):
            asked.append((name, int(kind)))
    for what, _ in asked:
        lines.append(f'    printf("%lld\\n", (long long)({what}));')
    program = os.path.join(folder, "layout.c")
    with open(program, "w", encoding="utf-8") as f:
        f.write('#include <stddef.h>\n#include <stdio.h>\n#include "runtime/stepwell.h"\nint main(void)\n{\n' + "\n".join(lines) + "\n    return 0;\n}\n")
    cc = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(cc[0]) is None:
        raise unittest.SkipTest(f"there is no C compiler ({cc[0]})")
    out = os.path.join(folder, "layout")
    subprocess.run([*cc, "-std=c11", "-I", support.ROOT, program, "-o", out], check=True)
    said = [int(line) for line in subprocess.run([out], check=True, capture_output=True, text=True).stdout.split()]
    assert len(said) == len(asked)
    return [(what, c, python) for (what, python), c in zip(asked, said) if c != python], len(asked)


class Header(unittest.TestCase):
    def test_the_package_is_what_generate_writes(self):
        """The build writes it from the installed header; the header of the sources gives the same."""
        from stepwell import _header
        self.assertEqual(subprocess.run([sys.executable, GENERATE, os.path.join(support.ROOT, "runtime/stepwell.h"), support.ROOT], check=True, capture_output=True, text=True).stdout,
                         text(_header.__file__))

    def test_the_sources_build_as_a_package(self):
        """As pip builds it, in a copy, so that the tree stays as it is."""
        from stepwell import _header
        support.need("setuptools")
        with tempfile.TemporaryDirectory() as folder:
            for part in ("tools/python", "runtime/api", "alloc/base", "kernels"):
                shutil.copytree(os.path.join(support.ROOT, part), os.path.join(folder, part), ignore=shutil.ignore_patterns("*.c", "*.cu", "_header.py"))
            shutil.copy(os.path.join(support.ROOT, "runtime/stepwell.h"), os.path.join(folder, "runtime"))
            done = subprocess.run([sys.executable, "setup.py", "--quiet", "build", "--build-lib", "built"], cwd=os.path.join(folder, "tools/python"), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            built = os.path.join(folder, "tools/python/built/stepwell")
            self.assertEqual(text(os.path.join(built, "_header.py")), text(_header.__file__))
            self.assertEqual(sorted(os.listdir(built)), sorted(n for n in os.listdir(os.path.dirname(_header.__file__)) if n.endswith(".py")))

    def test_sizes_offsets_and_numbers_are_those_of_the_compiler(self):
        from stepwell import _header
        with tempfile.TemporaryDirectory() as folder:
            wrong, n = layouts(_header, folder)
        self.assertEqual(wrong, [])
        self.assertGreater(n, 900)

    def test_members_that_change_places_are_found(self):
        """A planted fault: two members of sw_exec_opts in the wrong order."""
        import ctypes
        import types
        from stepwell import _header
        wrong = types.SimpleNamespace()
        fields = list(_header.sw_exec_opts._fields_)
        fields[1], fields[2] = fields[2], fields[1]
        wrong.sw_exec_opts = type("sw_exec_opts", (ctypes.Structure,), {"_fields_": fields})
        wrong.SW_STOPPED = 8
        with tempfile.TemporaryDirectory() as folder:
            found, _ = layouts(wrong, folder)
        self.assertIn("offsetof(sw_exec_opts, threads)", [w[0] for w in found])
        self.assertIn(("SW_STOPPED", 9, 8), found)

    def test_every_function_is_there(self):
        from stepwell import _types
        import stepwell  # noqa: F401: fills the table
        declared = set(re.findall(r"\bSW_API\b[^;]*?\b(sw_\w+)\(", header()))
        self.assertEqual(declared, set(_types.FUNCTIONS))
        must = set(re.findall(r"\bSW_MUST_USE SW_API sw_status (sw_\w+)\(", header()))
        self.assertEqual(must, {n for n, f in _types.FUNCTIONS.items() if f.must})
        self.assertGreater(len(declared), 300)

    def test_every_macro_is_there(self):
        import stepwell
        macros = set(re.findall(r"^#define (SW_\w+)", header(), flags=re.M))
        self.assertEqual({m for m in macros - FOR_C if not hasattr(stepwell, m)}, set())

    def test_every_object_has_an_owner(self):
        import stepwell
        destroyed = set(re.findall(r"sw_(\w+)_destroy\(sw_\1 \*", header()))
        self.assertEqual(destroyed, {kind.__name__[3:] for kind in stepwell.OWNERS})
        self.assertGreaterEqual(len(destroyed), 17)
        for name in destroyed:
            self.assertTrue(issubclass(getattr(stepwell, name), stepwell.Owner))

    def test_the_order_in_which_objects_end_names_objects(self):
        from stepwell import OWNERS, _owners
        names = {kind.__name__ for kind in OWNERS}
        self.assertLessEqual({*_owners.BORROWS, *(n for s in _owners.BORROWS.values() for n in s)}, names)
        from stepwell import FUNCTIONS
        self.assertLessEqual(_owners.BINDING | _owners.RUNNING, set(FUNCTIONS))

    def test_the_version_is_the_projects(self):
        import stepwell
        self.assertIn(f"  version: '{stepwell.__version__}'", text(os.path.join(support.ROOT, "meson.build")))


if __name__ == "__main__":
    support.main()
