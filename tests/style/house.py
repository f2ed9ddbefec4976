#!/usr/bin/env python3
"""house.py SOURCE BUILD: the layers of floors.txt, held against the sources and the objects.

Reads every #include of .c .h .cu .cuh .cpp and .def files, and every name that an object of the
build takes from another one (nm: functions and data; inline functions are seen by their includes).
Prints the floors, the arrows that point up and the circles of files; fails where an include or a
call points up, or where a circle is larger than one folder. house.py --test plants faults first.
Exit status: 0 holds, 1 does not, 77 skipped (no nm, or objects of link-time optimisation)."""
import collections
import os
import re
import subprocess
import sys

EVERYBODY = ("runtime/stepwell.h", "runtime/ops.def", "stepwell.h")  # of the public header, and the list of ops
SOURCES = (".c", ".h", ".cu", ".cuh", ".cpp", ".def")
TOP = ("alloc/", "kernels/", "profiler/", "runtime/", "tools/")


def read_floors(path):
    """[(folder, floor)], the longest folder first."""
    floors, floor = [], 0
    for line in open(path, encoding="utf-8"):
        words = line.split("#")[0].split()
        if words:
            floors += [(folder, floor) for folder in words]
            floor += 1
    return sorted(floors, key=lambda f: -len(f[0]))


def place_of(path, floors):
    """The folder of the list that a file is in, and its floor."""
    for folder, floor in floors:
        if path.startswith(folder + "/"):
            return folder, floor
    return None, None


def may(path, other, floors):
    """May the file `path` take something from the file `other`?"""
    mine, floor = place_of(path, floors)
    its, below = place_of(other, floors)
    if other in EVERYBODY:
        return floor >= place_of("runtime/base/x.c", floors)[1]
    if mine == "kernels":
        return its == mine or other == "alloc/base/base.h"
    if path.startswith("tools/examples/"):
        return False
    if mine == "profiler/inspect":
        return its is not None and its.startswith(("profiler/", "alloc/"))
    return its == mine or (its is not None and below < floor)


# ---- includes ----------------------------------------------------------------------------------

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.M)


def includes_of(text):
    """(line, name) of each include of ours."""
    for m in INCLUDE.finditer(text):
        if m.group(1) == '"' or m.group(2) == "stepwell.h":
            yield text.count("\n", 0, m.start()) + 1, m.group(2)


def check_includes(path, text, floors):
    """Complaints about one file."""
    for line, name in includes_of(text):
        if ".." in name:
            yield f"{path}:{line}: an include is written from the root (got {name})"
        elif "/" not in name and name != "stepwell.h":
            continue  # a file of a test's own, or made by the build
        elif path.startswith("tools/examples/"):
            if name != "stepwell.h":
                yield f"{path}:{line}: an example includes stepwell.h alone (got {name})"
        elif not may(path, name, floors):
            yield f"{path}:{line}: {place_of(path, floors)[0]} must not include {name}"


def sources_of(root):
    for top in TOP:
        for folder, names, files in os.walk(os.path.join(root, top)):
            names.sort()
            for name in sorted(files):
                if name.endswith(SOURCES):
                    full = os.path.join(folder, name)
                    yield os.path.relpath(full, root), full


# ---- calls -------------------------------------------------------------------------------------

SYMBOL = re.compile(r"^(.*\.o):\s*[0-9a-fA-F]*\s+(\w)\s+(\S+)$")
DEFINED = set("TDRBVWGS")


def objects_of(root, build):
    """{object: source} of what libraries and programs of the tree are made of, one object a source."""
    sources = {}
    for folder, _, files in os.walk(build):
        m = re.search(r"([^/]+)\.p$", folder)
        if m is None or "/tests/" in folder:
            continue
        base = os.path.relpath(os.path.dirname(folder), build)
        for name in files:
            if not name.endswith(".o"):
                continue
            stem = name[:-2]
            # meson writes a source's path below its folder with _ for /; ".._" leads upward.
            up, where = stem, base
            while up.startswith(".._"):
                up, where = up[3:], os.path.dirname(where)
            found = find_source(root, where, up)
            if found is not None and found not in sources.values():
                sources[os.path.join(folder, name)] = found
    return sources


def find_source(root, where, stem):
    """The file below `where` whose path is `stem`, with / for some of its _."""
    def walk(folder, rest):
        full = os.path.join(root, folder, rest)
        if os.path.isfile(full):
            return os.path.normpath(os.path.join(folder, rest))
        for i, c in enumerate(rest):
            if c == "_" and os.path.isdir(os.path.join(root, folder, rest[:i])):
                found = walk(os.path.join(folder, rest[:i]), rest[i + 1:])
                if found is not None:
                    return found
        return None
    return walk(where, stem)


def read_symbols(objects):
    """{source: names it takes}, {name: source that has it}."""
    defined, takes = {}, collections.defaultdict(set)
    names = sorted(objects)
    out = ""
    for i in range(0, len(names), 200):
        out += subprocess.run(["nm", "-A"] + names[i:i + 200], capture_output=True, text=True,
                              check=False).stdout
    for line in out.splitlines():
        m = SYMBOL.match(line)
        if m is None:
            continue
        source, kind, name = objects[m.group(1)], m.group(2), m.group(3)
        if kind == "U":
            takes[source].add(name)
        elif kind in DEFINED:
            defined.setdefault(name, source)
    return takes, defined


def arrows_of(takes, defined):
    """{(from, to): names}."""
    arrows = collections.defaultdict(set)
    for source, names in takes.items():
        for name in names:
            other = defined.get(name)
            if other is not None and other != source:
                arrows[source, other].add(name)
    return arrows


def circles_of(arrows):
    """Sets of files that call each other in circles (Tarjan's strongly connected components)."""
    graph = collections.defaultdict(set)
    for a, b in arrows:
        graph[a].add(b)
    index, low, stack, on, out, count = {}, {}, [], set(), [], [0]

    def visit(v):
        index[v] = low[v] = count[0]
        count[0] += 1
        stack.append(v)
        on.add(v)
        for w in sorted(graph[v]):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            circle = set()
            while True:
                w = stack.pop()
                on.discard(w)
                circle.add(w)
                if w == v:
                    break
            if len(circle) > 1:
                out.append(circle)

    sys.setrecursionlimit(10000)
    for v in sorted(graph):
        if v not in index:
            visit(v)
    return sorted(out, key=lambda c: -len(c))


def check_calls(arrows, floors):
    for (a, b), names in sorted(arrows.items()):
        mine, floor = place_of(a, floors)
        its, below = place_of(b, floors)
        if mine is None or its is None or mine == its or below < floor:
            continue
        yield f"{a} calls up, {b}: {', '.join(sorted(names)[:4])}"


# ---- the picture in ARCHITECTURE.md ---------------------------------------------------------------

def check_picture(text, floors):
    """The page's first picture names the folders of runtime/ in the order of the floors, the highest first."""
    floor = {f.split("/")[1]: n for f, n in floors if f.startswith("runtime/")}
    block = re.search(r"^```\n(.*?)^```", text, re.M | re.S)
    shown = []
    for line in block.group(1).splitlines() if block else []:
        words = re.sub(r"^(runtime/)?[ |]*", "", line).split()
        while words and words[0] in floor:
            shown.append(words.pop(0))
    if sorted(shown) != sorted(floor):
        yield f"ARCHITECTURE.md shows {', '.join(shown)}; floors.txt has {', '.join(sorted(floor))}"
    for above, below in zip(shown, shown[1:]):
        if floor[above] < floor[below]:
            yield f"ARCHITECTURE.md shows {above} above {below}"


def check_limits(text):
    """A page that is read whole: at most 250 lines of at most 120 characters, and a glossary of at most 40 rows."""
    lines = text.splitlines()
    rows = re.search(r"^## Glossary\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    rows = rows.group(1).count("\n| ") - 1 if rows else 0
    if len(lines) > 250 or not 0 < rows <= 40:
        yield f"ARCHITECTURE.md has {len(lines)} lines, at most 250 are allowed; its glossary has {rows} rows of 40"
    for n, line in enumerate(lines, 1):
        if len(line) > 120:
            yield f"ARCHITECTURE.md:{n}: {len(line)} characters, at most 120 are allowed"


# ---- the whole -------------------------------------------------------------------------------------

def planted(floors):
    """Faults that must be found; the number that were not."""
    cases = [
        ("alloc/base/a.c", '#include "alloc/base/mem.h"\n#include <stdio.h>\n', 0),
        ("alloc/base/a.c", '#include "alloc/arena/arena.h"\n', 1),
        ("alloc/arena/a.c", '#include "alloc/placement/placement.h"\n', 1),
        ("alloc/base/a.c", '#include "runtime/stepwell.h"\n#include <stepwell.h>\n', 2),
        ("kernels/cpu/k.c", '#include "kernels/par.h"\n#include "alloc/base/base.h"\n', 0),
        ("kernels/cuda/k.cu", '#include "alloc/base/mem.h"\n#include "profiler/x.h"\n', 2),
        ("kernels/cuda/fusions.def", 'int a;\n  #  include   "runtime/ops/ops.h"\n', 1),
        ("profiler/record/p.c", '#include "kernels/par.h"\n', 1),
        ("profiler/record/p.c", '#include "profiler/inspect/timeline.h"\n', 1),
        ("profiler/inspect/p.c", '#include "profiler/record/json.h"\n', 0),
        ("profiler/inspect/p.c", '#include "runtime/exec/exec.h"\n', 1),
        ("runtime/ops/o.c", '#include "kernels/par.h"\n#include "runtime/graph/trace.h"\n', 0),
        ("runtime/graph/o.c", '#include "runtime/ops/ops.h"\n', 1),
        ("runtime/model/o.c", '#include "runtime/data/data_internal.h"\n', 1),
        ("runtime/exec/o.c", '#include "../common.h"\n', 1),
        ("runtime/library.c", '#include "runtime/verify/op_check.h"\n', 0),
        ("tools/t.c", '#include "tools/cli/cli.h"\n#include "alloc/base/mem.h"\n', 0),
        ("tools/t.c", '#include "tests/support/suite.h"\n', 1),
        ("tools/examples/mlp.c", "#include <stepwell.h>\n#include <stdio.h>\n", 0),
        ("tools/examples/mlp.c", '#include "alloc/base/base.h"\n', 1),
    ]
    missed = 0
    for path, text, expected in cases:
        found = len(list(check_includes(path, text, floors)))
        if found != expected:
            print(f"planted include in {path}: {found} found, must be {expected}")
            missed += 1
    up = {("runtime/graph/a.c", "runtime/exec/b.c"): {"f"}, ("runtime/exec/b.c", "runtime/graph/a.c"): {"g"},
          ("runtime/exec/b.c", "runtime/exec/c.c"): {"h"}}
    if len(list(check_calls(up, floors))) != 1 or circles_of(up) != [{"runtime/graph/a.c", "runtime/exec/b.c"}]:
        print("planted call up: not found")
        missed += 1
    right = ["population", "verify", "observe", "exec", "autograd", "plan", "ops", "graph", "state", "model data",
             "device transport", "base"]
    for turned in (False, True):
        lines = right[:2] + right[2:4][::-1] + right[4:] if turned else right
        if bool(list(check_picture("```\n" + "\n".join(f" | {l}  what" for l in lines) + "\n```\n", floors))) != turned:
            print("planted picture: not found")
            missed += 1
    page = "## Glossary\n\n| word | meaning |\n|---|---|\n" + "| a | b |\n" * 40
    for text, faults in ((page, 0), (page + "| a | b |\n", 1), (page + "\n" * 206, 0), (page + "\n" * 207, 1),
                         (page + "x" * 120, 0), (page + "x" * 121, 1), ("no glossary\n", 1)):
        if len(list(check_limits(text))) != faults:
            print("planted page past its limits: not found")
            missed += 1
    return missed


def report(faults, what, examined):
    for fault in faults:
        print(f"  {fault}")
    print(f"{what}: {examined} examined, {len(faults)} point up")
    return len(faults)


def main():
    root, build = sys.argv[-2], sys.argv[-1]
    floors = read_floors(os.path.join(root, "tests/style/floors.txt"))
    passed, failed = 0, 0

    def end(name, bad):
        nonlocal passed, failed
        print(f"house: {name} {'FAILED' if bad else 'ok'}")
        passed += not bad
        failed += bool(bad)

    files = list(sources_of(root))
    count = collections.Counter(place_of(path, floors)[0] for path, _ in files)
    by_floor = collections.defaultdict(list)
    for folder, floor in floors:
        by_floor[floor].append(folder)
    for floor in sorted(by_floor, reverse=True):
        print("  %2d  %s" % (floor, ", ".join(f"{f} ({count[f]} files)" for f in sorted(by_floor[floor]))))
    end("planted includes, calls and pictures are found", planted(floors))
    faults, examined = [], 0
    for path, full in files:
        text = open(full, encoding="utf-8", errors="replace").read()
        faults += check_includes(path, text, floors)
        examined += len(list(includes_of(text)))
    end("includes go down only", report(faults, "includes", examined) or examined < 500)
    homeless = [path for path, _ in files if place_of(path, floors)[0] is None]
    end("every file has a floor", report(homeless, "files", len(files)))
    page = open(os.path.join(root, "ARCHITECTURE.md"), encoding="utf-8").read()
    end("ARCHITECTURE shows the floors", report(list(check_picture(page, floors)), "pictures", 1))
    end("ARCHITECTURE keeps its limits", len(list(map(print, check_limits(page)))))

    objects = objects_of(root, build)
    takes, defined = read_symbols(objects)
    arrows = arrows_of(takes, defined)
    if len(arrows) < 500:
        print("house: calls are skipped: nm reads no names here (link-time optimisation?)")
        print(f"{passed} passed, {failed} failed, 1 skipped")
        return 1 if failed else 0
    end("calls go down only", report(list(check_calls(arrows, floors)), "calls", len(arrows)))
    wide = []
    for circle in circles_of(arrows):
        folders = {place_of(path, floors)[0] for path in circle}
        print(f"  circle of {len(circle)} files in {', '.join(sorted(f or '?' for f in folders))}: "
              f"{', '.join(sorted(os.path.basename(p) for p in circle))}")
        if len(folders) > 1:
            wide.append(f"a circle of {len(circle)} files in {len(folders)} folders")
    end("no circle is larger than a folder", report(wide, "circles", len(circles_of(arrows))))
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
