#!/usr/bin/env python3
"""Mutants of the CUDA kernels, and whether the tests under the emulator catch them.

    mutate.py SOURCE_DIR BUILD_DIR [--first BUILD_DIR] [-j N] [--only FILE] [--sample N] [--match RE] [--list OUT]

BUILD_DIR is a sanitizer build (address, undefined) in which tests/cuda/test_cuda has been built. --first: one without
sanitizers, much faster, in which each mutant is tried before. Where the code allows it, all mutants of a file are compiled
together, each behind a switch that the environment sets; a mutant is then one run of the tests. Others are compiled alone.
Mutants are made from the code that runs on the device (functions marked __global__ or
__device__), one change each: a barrier removed, a comparison shifted (< to <=) or inverted (==
to !=), a whole number one larger, the operands of - / % and of comparisons swapped. A mutant is
caught where the tests fail, crash, or take two minutes. Those that do not compile do not count,
nor those that MUTANTS.md lists as equivalent with a reason. Ends with status 1 below 95 %.
"""
import argparse, concurrent.futures, os, re, shlex, subprocess, sys, tempfile

UNITS = {  # whose tests look at a header
    "device.h": ["rows", "losses", "arith"],
    "each.h": ["arith", "move"],
    "axes.h": ["sum", "max"],
    "updates.h": ["optim", "adafactor"],
    "nd.h": ["arith", "move", "sum"],
    "rows.h": ["rows", "norm"],
    "reduce.h": ["sum", "losses", "norm", "linear"],
    "planes.h": ["batch_norm", "group_norm"],
    "image.h": ["pool", "conv_depthwise"],
    "conv.h": ["conv", "conv_weights"],
    "tile.h": ["conv", "conv_weights"],
    "ce.h": ["losses", "linear_ce"],
}
MORE = {  # tests that look at a unit besides those of its entries
    "optim": ["updates"], "sum": ["updates"], "losses": ["updates"], "embedding": ["ids"],
    "adafactor": ["updates"], "max": ["updates"],
}
SHIFT = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}


def blank(text):
    """The text with comments and strings as spaces: places stay where they are."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|#\s*(?:include|if|ifdef|ifndef|endif|else)[^\n]*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def device_spans(code):
    """[from, to) of the bodies of functions that run on the device."""
    spans = []
    for m in re.finditer(r"__global__|__device__", code):
        if spans and m.start() < spans[-1][1]:
            continue
        depth, i = 0, m.end()
        while i < len(code):
            if code[i] == "(":
                depth += 1
            elif code[i] == ")":
                depth -= 1
            elif code[i] in "{;" and depth == 0:
                break
            i += 1
        if i >= len(code) or code[i] == ";":
            continue
        start, depth = i, 0
        while i < len(code):
            depth += {"{": 1, "}": -1}.get(code[i], 0)
            if depth == 0:
                break
            i += 1
        spans.append((start, i))
    return spans


ATOM = r"(?:\(\w+\))?[\w.]+(?:\[[^\[\]]*\])?(?:\.[\w]+)*"


def mutants(path):
    text = open(path).read()
    code = blank(text)
    found = []
    for a, b in device_spans(code):
        body = code[a:b]

        def add(m, new, what):
            line = text.count("\n", 0, a + m.start()) + 1
            found.append((a + m.start(), a + m.end(), new, "%s:%d: %s" % (
                os.path.basename(path), line, what)))

        for m in re.finditer(r"__syncthreads\(\);", body):
            add(m, ";", "barrier removed")
        for m in re.finditer(r"(?<= )(<=|>=|==|!=|<|>)(?= )", body):
            add(m, SHIFT[m.group()], "%s for %s" % (SHIFT[m.group()], m.group()))
        for m in re.finditer(r"(?<![\w.#])(\d+)(?![\w.])", body):
            add(m, str(int(m.group()) + 1), "%d for %s" % (int(m.group()) + 1, m.group()))
        for m in re.finditer(r"(%s) (-|/|%%|<|>|<=|>=) (?=(%s))" % (ATOM, ATOM), body):
            op, left, right = m.group(2), m.group(1), m.group(3)
            end = m.end() + len(right)
            if left == right:
                continue
            line = text.count("\n", 0, a + m.start()) + 1
            found.append((a + m.start(), a + end, "%s %s %s" % (right, op, left),
                          "%s:%d: %s %s %s swapped" % (os.path.basename(path), line, left, op, right)))
    return text, sorted(set(found))


SWITCHES = """#pragma once
#include <stdlib.h>
/* Which mutant is on, and operators of the precedence of what they stand for. */
inline const int sw_mutant = getenv("SW_MUTANT") != nullptr ? atoi(getenv("SW_MUTANT")) : -1;
static inline int sw_mutant_number(int id, int a, int b) { return sw_mutant == id ? b : a; }
template <int ID> struct sw_mutant_op {};
template <int ID, class T> struct sw_mutant_left { T v; };
template <int ID, class T> static inline sw_mutant_left<ID, T> operator<(T a, sw_mutant_op<ID>) { return {a}; }
template <int ID, class T> static inline sw_mutant_left<ID, T> operator>(T a, sw_mutant_op<ID>) { return {a}; }
template <int ID, class T> static inline sw_mutant_left<ID, T> operator<=(T a, sw_mutant_op<ID>) { return {a}; }
template <int ID, class T> static inline sw_mutant_left<ID, T> operator>=(T a, sw_mutant_op<ID>) { return {a}; }
template <int ID, class T> static inline sw_mutant_left<ID, T> operator==(T a, sw_mutant_op<ID>) { return {a}; }
template <int ID, class T> static inline sw_mutant_left<ID, T> operator!=(T a, sw_mutant_op<ID>) { return {a}; }
#define SW_MUTANT_OP(op, other) \\
    template <int ID, class T, class U> static inline bool operator op(sw_mutant_left<ID, T> a, U b) \\
    { return sw_mutant == ID ? a.v other b : a.v op b; }
SW_MUTANT_OP(<, <=) SW_MUTANT_OP(<=, <) SW_MUTANT_OP(>, >=) SW_MUTANT_OP(>=, >) SW_MUTANT_OP(==, !=) SW_MUTANT_OP(!=, ==)
"""


def switched(text, found, ids):
    """The text with the mutants of `ids` behind switches. Those that overlap one before are left out."""
    out, at, kept = [], 0, []
    for i in sorted(ids, key=lambda i: found[i][0]):
        start, end, new, what = found[i]
        old = text[start:end]
        if start < at:
            continue
        if "barrier removed" in what:
            new = "if (sw_mutant != %d) __syncthreads();" % i
        elif old in SHIFT:
            new = "%s sw_mutant_op<%d>() %s" % (old, i, old)
        elif old.isdigit():
            new = "sw_mutant_number(%d, %s, %s)" % (i, old, new)
        else:
            new = "(sw_mutant == %d ? (%s) : (%s))" % (i, new, old)
        out += [text[at:start], new]
        at = end
        kept.append(i)
    return "".join(out) + text[at:], kept


def may_switch(text, mutant):
    """A swap only where parentheses change nothing."""
    start, end, new, what = mutant
    if "swapped" not in what:
        return True
    before, behind = text[:start].rstrip()[-1:], text[end:].lstrip()[:2]
    return before in "(,=[?:&|{" and not re.match(r"[-+*/%.([]|->", behind)


class Build:
    def __init__(self, source, build):
        self.source, self.build, self.limit = os.path.abspath(source), os.path.abspath(build), 120
        out = subprocess.run(["ninja", "-C", build, "-t", "commands", "tests/cuda/test_cuda"],
                             capture_output=True, text=True, check=True).stdout.splitlines()
        self.link = shlex.split(out[-1])
        self.compile = {}
        for line in out:
            m = re.search(r"SW_CUDA_UNIT=\\?\"kernels/cuda/(\w+)\.cu", line)
            if m:
                self.compile[m.group(1)] = shlex.split(line)
        self.ops = {u: self.ops_of(u) for u in self.compile}

    def archive(self, unit):
        return "tests/cuda/libsw_emulated_kernels_cuda_%s.a" % unit

    def ops_of(self, unit):
        out = subprocess.run(["nm", "-g", os.path.join(self.build, self.archive(unit))],
                             capture_output=True, text=True).stdout
        return sorted(set(re.findall(r" T sw_cuda_(\w+)_(?:forward|grad\d+)\b", out)))

    def make(self, unit, folder):
        """The test program with the unit compiled from changed kernels in `folder`; else what the compiler said."""
        args, skip = [], False
        for arg in self.compile[unit]:
            if skip or arg in ("-MD", "ccache"):
                skip = False
            elif arg in ("-MQ", "-MF", "-o"):
                skip = True
            elif arg != "-O2":
                args.append(arg)
        at = args.index("-c")
        obj = os.path.join(folder, unit + ".o")
        args[at:at] = ["-O1", "-g0", "-w"]
        first = args.index(next(a for a in args if a.startswith("-I")))
        args.insert(first, "-I" + folder)
        quiet = dict(cwd=self.build, stdout=subprocess.DEVNULL)
        done = subprocess.run(args + ["-o", obj], stderr=subprocess.PIPE, text=True, **quiet)
        if done.returncode != 0:
            return None, done.stderr
        link, program = [], os.path.join(folder, "test-" + unit)
        for arg in self.link:
            if arg == "ccache":
                continue
            link.append(obj if arg == self.archive(unit) else arg)
        link[link.index("-o") + 1] = program
        done = subprocess.run(link, stderr=subprocess.PIPE, text=True, **quiet)
        return (program, "") if done.returncode == 0 else (None, done.stderr)

    def is_caught(self, unit, program, mutant):
        env = dict(os.environ, STEPWELL_CUDA_OPS=",%s," % ",".join(self.ops[unit]), SW_MUTANT=str(mutant),
                   ASAN_OPTIONS="detect_leaks=0", UBSAN_OPTIONS="halt_on_error=1")
        for part in ["entries: entries"] + MORE.get(unit, []):
            try:
                if subprocess.run([program, part], env=env, timeout=self.limit, cwd=self.build,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
                    return True
            except subprocess.TimeoutExpired:
                return True
        return False


class File:
    """One source and its mutants."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        self.text, self.found = mutants(path)
        self.units = UNITS.get(self.name, [self.name.split(".")[0]])
        self.folders = []

    def put(self, text):
        folder = tempfile.TemporaryDirectory()
        self.folders.append(folder)
        os.makedirs(os.path.join(folder.name, "kernels/cuda"))
        with open(os.path.join(folder.name, "kernels/cuda", "sw_mutants.h"), "w") as f:
            f.write(SWITCHES)
        with open(os.path.join(folder.name, "kernels/cuda", self.name), "w") as f:
            f.write(text)
        return folder.name

    def switch(self, build, ids):
        """Programs of all units with these mutants behind switches, and which of them they have."""
        ids = [i for i in ids if may_switch(self.text, self.found[i])]
        for _ in range(8):
            text, kept = switched(self.text, self.found, ids)
            folder = self.put('#include "kernels/cuda/sw_mutants.h"\n' + text)
            programs, said = {}, ""
            for unit in self.units:
                programs[unit], errors = build.make(unit, folder)
                said += errors
            if not said:
                return programs, kept
            bad = {int(n) - 1 for n in re.findall(re.escape(self.name) + r":(\d+):", said)}
            left = [i for i in kept if int(self.found[i][3].split(":")[1]) not in bad]
            if len(left) == len(kept) or not left:
                break
            ids = left
        return {}, []

    def alone(self, builds, i):
        """The verdict on a mutant that is compiled by itself."""
        start, end, new, _ = self.found[i]
        verdict = "no mutant"
        for build in builds:
            folder = self.put(self.text[:start] + new + self.text[end:])
            for unit in self.units:
                program, _ = build.make(unit, folder)
                if program is not None and build.is_caught(unit, program, -1):
                    return "caught"
                verdict = "survived" if program is not None else verdict
        return verdict

    def verdicts(self, builds, ids, pool):
        """(mutant, verdict) of each."""
        programs = [self.switch(build, ids) for build in builds]
        shared = set(ids).intersection(*[kept for _, kept in programs])

        def one(i):
            if i not in shared:
                return i, self.alone(builds, i)
            caught = any(build.is_caught(unit, of[unit], i)
                         for build, (of, _) in zip(builds, programs) for unit in self.units)
            return i, "caught" if caught else "survived"

        yield from pool.map(one, ids)
        self.folders.clear()


def equivalents(source):
    """What MUTANTS.md lists: file and change of each line of its table, without line numbers."""
    listed = set()
    try:
        for line in open(os.path.join(source, "tests/cuda/MUTANTS.md")):
            m = re.match(r"\| `([\w.]+)` \| `(.*?)` \| (.*) \|$", line)
            if m:
                listed.add((m.group(1), m.group(2)))
    except FileNotFoundError:
        pass
    return listed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source")
    p.add_argument("build")
    p.add_argument("--first", help="a build without sanitizers")
    p.add_argument("-j", type=int, default=2)
    p.add_argument("--only", help="one file of kernels/cuda")
    p.add_argument("--sample", type=int, default=1, help="each N-th mutant alone")
    p.add_argument("--match", default="", help="mutants whose description has this expression")
    p.add_argument("--list", help="write what became of each mutant")
    a = p.parse_args()
    builds = [Build(a.source, b) for b in (a.first, a.build) if b]
    folder = os.path.join(a.source, "kernels/cuda")
    names = sorted(n for n in os.listdir(folder)
                   if n in UNITS or (n.endswith(".cu") and n != "module.cu"))
    listed, counts, out = equivalents(a.source), {}, open(a.list, "a") if a.list else sys.stdout
    with concurrent.futures.ThreadPoolExecutor(a.j) as pool:
        for name in names:
            if a.only and name != a.only:
                continue
            file = File(os.path.join(folder, name))
            ids = [i for i, c in enumerate(file.found) if re.search(a.match, c[3])][::a.sample]
            lines = file.text.splitlines()
            for i, verdict in file.verdicts(builds, ids, pool) if ids else ():
                what = file.found[i][3]
                _, number, change = what.split(":", 2)
                line = lines[int(number) - 1].strip()
                if verdict == "survived" and (name, "%s: %s" % (line, change.strip())) in listed:
                    verdict = "equivalent"
                counts.setdefault(name, {}).setdefault(verdict, 0)
                counts[name][verdict] += 1
                if verdict == "survived" or a.list:
                    print("%-10s %s   | %s" % (verdict, what, line), file=out, flush=True)
    total = {}
    for file, c in sorted(counts.items()):
        print("%-12s %s" % (file, "  ".join("%s %d" % k for k in sorted(c.items()))))
        for k, n in c.items():
            total[k] = total.get(k, 0) + n
    real = total.get("caught", 0) + total.get("survived", 0)
    share = 100.0 * total.get("caught", 0) / real if real else 0.0
    print("%d of %d caught: %.1f %%" % (total.get("caught", 0), real, share))
    return 0 if share >= 95.0 else 1


if __name__ == "__main__":
    sys.exit(main())
