#!/usr/bin/env python3
"""Mutants of the CUDA kernels, and whether the tests under the emulator catch them.

    mutate.py SOURCE_DIR BUILD_DIR [--first BUILD_DIR] [-j N] [--only FILE] [--sample N[:K]] [--match RE] [--timeout S]
              [--list OUT] [--tried LIST]...

BUILD_DIR is a sanitizer build (address, undefined) in which tests/cuda/test_cuda has been built. --first: one without
sanitizers, much faster, in which each mutant is tried before. --tried: what a list of an earlier run says of the same kernels
stands, but for survivors, which are tried again. Where the code allows it, all mutants of a file are compiled
together, each with a switch that the environment sets; a mutant is then one run of the tests. Of those that overlap each
is in a program of its own round; others are compiled alone.
Mutants are made from the code that runs on the device (functions marked __global__ or
__device__), one change each: a barrier removed, a comparison shifted (< to <=) or inverted (==
to !=), a whole number one larger, the operands of - / % and of comparisons swapped, whole ones. A mutant is
caught where the tests fail, crash, or take more time of a processor than --timeout says. Those that do not compile do
not count. Ends with status 1 where more of a file survive than its row in MUTANTS.md says.
"""
import argparse, concurrent.futures, os, re, resource, shlex, subprocess, sys, tempfile

UNITS = {  # whose tests look at a header
    "device.h": ["rows", "losses", "arith"],
    "elementwise.h": ["arith"],
    "strided_index.h": ["arith", "sum"],
    "rows.h": ["rows", "batch_norm"],
    "reduce.h": ["sum", "losses", "rows", "linear"],
    "planes.h": ["batch_norm"],
    "image.h": ["pool", "conv_depthwise"],
    "conv.h": ["conv"],
    "tile.h": ["conv"],
    "cross_entropy.h": ["losses", "linear"],
    "ids.h": ["embedding", "losses"],
    "unary_values.h": ["unary", "gemm"],
}
OPS = {  # of units without entries of their own
    "conv_depthwise": ["conv2d"], "gemm": ["linear", "matmul"],
}
SUITES = {  # that look at a unit besides "entries"
    "gemm": ["own cases", "pairs", "library: "], "linear": ["own cases", "pairs", "library: "],
    "conv": ["own cases"], "conv_depthwise": ["own cases"], "pool": ["own cases"], "attention": ["own cases"],
    "embedding": ["own cases"], "losses": ["own cases", "updates"], "optim": ["updates"], "sum": ["updates"],
    "random": ["updates"], "es_gradient": ["updates"],
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


LEVELS = ["= += -= *= /= %= <<= >>= &= |= ^= ? :", "||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"]
LEVEL = {op: level for level, ops in enumerate(LEVELS) for op in ops.split()}


def operand(code, at, by, least):
    """The far end of an operand that begins at `at`, leftward (by -1) or rightward: up to what binds less than `least`."""
    # Binary operators stand between spaces; "f<T>(x)" has none.
    depth, i = 0, at
    while 0 <= i < len(code):
        c, before = code[i], code[i - 1] if i else " "
        opens = c in "([{" or (c == "<" and re.match(r"\w", before))
        closes = c in ")]}" or (c == ">" and not re.match(r"[\s\-<>]", before))
        if (closes if by < 0 else opens):
            depth += 1
        elif (opens if by < 0 else closes):
            depth -= 1
        elif depth == 0 and c in ",;\\#":
            return i
        elif depth == 0 and c == ":" and code[i - 1] != ":" and code[i + 1:i + 2] != ":":
            return i
        elif depth == 0 and c.isspace():
            m = re.match(r"\s([^\s\w]{1,3})(?=\s)", code[i:i + 5])
            if m and LEVEL.get(m.group(1), 99) < least:
                return i + len(m.group()) - 1 if by < 0 else i
            if by < 0 and re.search(r"\b(return|case|else)$", code[max(0, i - 8):i]):
                return i
        if depth < 0:
            return i
        i += by
    return i


def swap(code, m):
    """(from, to, left, right) of the whole operands of the operator of the match."""
    level = LEVEL[m.group()]
    a = operand(code, m.start() - 2, -1, level) + 1
    b = operand(code, m.end() + 1, 1, level + 1)
    left, right = code[a:m.start()], code[m.end():b]
    a, b = a + len(left) - len(left.lstrip()), b - len(right) + len(right.rstrip())
    return a, b, left.strip(), right.strip()


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
        for m in re.finditer(r"(?<=\s)(<=|>=|==|!=|<|>)(?=\s)", body):
            add(m, SHIFT[m.group()], "%s for %s" % (SHIFT[m.group()], m.group()))
        for m in re.finditer(r"(?<![\w.#])(\d+)(?![\w.])", body):
            add(m, str(int(m.group()) + 1), "%d for %s" % (int(m.group()) + 1, m.group()))
        for m in re.finditer(r"(?<=\s)(-|/|%|<|>|<=|>=)(?=\s)", body):
            start, end, left, right = swap(body, m)
            if left == right or not left or not right:
                continue
            line = text.count("\n", 0, a + m.start()) + 1
            found.append((a + start, a + end, "((%s) %s (%s))" % (right, m.group(), left), "%s:%d: %s swapped" % (
                os.path.basename(path), line, " ".join(("%s %s %s" % (left, m.group(), right)).split()))))
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
    """The text with the mutants of `ids` with switches. Those that overlap one before are left out."""
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
            new = "(sw_mutant == %d ? %s : (%s))" % (i, new, old)
        out += [text[at:start], new]
        at = end
        kept.append(i)
    return "".join(out) + text[at:], kept


class Build:
    def __init__(self, source, build, timeout):
        self.source, self.build, self.timeout, self.limits = os.path.abspath(source), os.path.abspath(build), timeout, {}
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
        return OPS.get(unit) or sorted(set(re.findall(r" T sw_cuda_(\w+)_(?:forward|grad\d+)\b", out)))

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

    def fails(self, unit, program, part, mutant, limit):
        env = dict(os.environ, STEPWELL_CUDA_OPS=",%s," % ",".join(self.ops[unit]), SW_MUTANT=str(mutant),
                   ASAN_OPTIONS="detect_leaks=0", UBSAN_OPTIONS="halt_on_error=1")
        return subprocess.run([program, part], env=env, cwd=self.build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))).returncode != 0

    def limit(self, unit, part):
        """Seconds of a processor: four times what the unchanged kernels take, which pass."""
        if (unit, part) not in self.limits:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            if self.fails(unit, os.path.join(self.build, "tests/cuda/test_cuda"), part, -1, 3600):
                sys.exit("mutate.py: the tests \"%s\" fail without a mutant in %s" % (part, self.build))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            self.limits[unit, part] = self.timeout or 5 + int(4 * took)
        return self.limits[unit, part]

    def parts(self, unit):
        return SUITES.get(unit, []) + ["entries: entries"]

    def measure(self, units):
        for unit in units:
            for part in self.parts(unit):
                self.limit(unit, part)

    def is_caught(self, unit, program, mutant):
        return any(self.fails(unit, program, part, mutant, self.limit(unit, part)) for part in self.parts(unit))


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
        """Programs of all units with as many of these mutants as can have switches, and which they have."""
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
            left = [i for i in kept if not bad & self.lines_of(i)]
            if len(left) == len(kept) or not left:
                break
            ids = left
        return {}, []

    def lines_of(self, i):
        start, end, _, _ = self.found[i]
        return set(range(self.text.count("\n", 0, start) + 1, self.text.count("\n", 0, end) + 2))

    def alone(self, build, i):
        """The verdict on a mutant that is compiled by itself."""
        start, end, new, _ = self.found[i]
        folder, verdict = self.put(self.text[:start] + new + self.text[end:]), "no mutant"
        for unit in self.units:
            program, _ = build.make(unit, folder)
            if program is not None and build.is_caught(unit, program, -1):
                return "caught"
            verdict = "survived" if program is not None else verdict
        return verdict

    def verdicts_of(self, build, ids, pool):
        """{mutant: verdict} of one build."""
        build.measure(self.units)
        rounds, rest = [], ids
        while rest:  # those that overlap one before are left to the next round
            tried = switched(self.text, self.found, rest)[1]
            rounds.append(tried)
            rest = [i for i in rest if i not in set(tried)]
        verdict = {}
        for tried in rounds:
            programs, kept = self.switch(build, tried) if len(tried) > 1 else ({}, [])

            def one(i):
                if i not in kept:
                    return i, self.alone(build, i)
                return i, "caught" if any(build.is_caught(unit, programs[unit], i) for unit in self.units) else "survived"

            verdict.update(pool.map(one, tried))
            if kept and all(verdict[i] == "caught" for i in kept) and any(
                    build.is_caught(unit, programs[unit], -1) for unit in self.units):
                sys.exit("mutate.py: the tests fail with the switches of %s alone" % self.name)
            self.folders.clear()
        return verdict

    def verdicts(self, builds, ids, pool, known):
        """(mutant, verdict) of each, from what is known of some: later builds try what earlier ones leave."""
        names = [(self.name, name) for name in self.names()]
        verdict = {i: known.get(names[i], "untried") for i in ids}
        for build in [None] + builds:  # None: what is known
            left = [i for i in ids if verdict[i] in ("untried", "survived")] if build else []
            verdict.update(self.verdicts_of(build, left, pool) if left else {})
        return sorted(verdict.items())

    def names(self):
        """The name of each mutant in a list: its line, its change, and which one it is of those of the same words."""
        lines, seen, names = self.text.splitlines(), {}, []
        for _, _, _, what in self.found:
            _, number, change = what.split(":", 2)
            name = "%s: %s" % (lines[int(number) - 1].strip(), change.strip())
            seen[name] = seen.get(name, 0) + 1
            names.append(name + (" #%d" % seen[name] if seen[name] > 1 else ""))
        return names


def bounds(source):
    """{file: survivors} of the table in MUTANTS.md."""
    rows = re.findall(r"\| `([\w.]+)` \|.*\| (\d+) \| (\d+) \|$", open(os.path.join(source, "tests/cuda/MUTANTS.md")).read(), re.M)
    return {name: int(equivalent) + int(others) for name, equivalent, others in rows}


def known_of(lists):
    """{(file, name): verdict} of lists of earlier runs; the last word on a mutant counts."""
    known = {}
    for path in lists:
        for line in open(path):
            m = re.match(r"(caught|no mutant|survived) +([\w.]+):\d+: .*?   \| (.*)$", line)
            if m:
                known[m.group(2), m.group(3)] = m.group(1)
    return known


def row(of, counts):
    print("| %s | %s |" % (of, " | ".join(str(counts.get(k, 0)) for k in ["mutants", "no mutant", "caught", "survived"])))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source")
    p.add_argument("build")
    p.add_argument("--first", help="a build without sanitizers")
    p.add_argument("-j", type=int, default=2)
    p.add_argument("--only", help="one file of kernels/cuda")
    p.add_argument("--sample", default="1", metavar="N[:K]", help="each N-th mutant alone, from the K-th on")
    p.add_argument("--timeout", type=int, default=0, metavar="S",
                   help="processor seconds of one part of the tests; else four times what the unchanged kernels take")
    p.add_argument("--match", default="", help="mutants whose description has this expression")
    p.add_argument("--list", help="write what became of each mutant, after what is there")
    p.add_argument("--tried", action="append", default=[], metavar="LIST",
                   help="what this list of an earlier run says was caught or did not compile is not tried again")
    a = p.parse_args()
    builds = [Build(a.source, b, a.timeout) for b in (a.first, a.build) if b]
    step, _, first = a.sample.partition(":")
    folder = os.path.join(a.source, "kernels/cuda")
    names = sorted(n for n in os.listdir(folder)
                   if n in UNITS or (n.endswith(".cu") and n != "module.cu"))
    bound, known, counts = bounds(a.source), known_of(a.tried), {}
    out = open(a.list, "a") if a.list else sys.stdout
    with concurrent.futures.ThreadPoolExecutor(a.j) as pool:
        for name in names:
            if a.only and name != a.only:
                continue
            file = File(os.path.join(folder, name))
            ids = [i for i, c in enumerate(file.found) if re.search(a.match, c[3])][int(first or 0)::int(step)]
            called = file.names()
            for i, verdict in file.verdicts(builds, ids, pool, known):
                counts.setdefault(name, {"mutants": len(file.found), "tried": len(ids)}).setdefault(verdict, 0)
                counts[name][verdict] += 1
                if verdict == "survived" or a.list:
                    print("%-10s %s   | %s" % (verdict, file.found[i][3], called[i]), file=out, flush=True)
    total = {}
    for file, c in sorted(counts.items()):
        row("`%s`" % file, c)
        for k, n in c.items():
            total[k] = total.get(k, 0) + n
    row("together", total)
    more = [name for name, c in counts.items() if c.get("survived", 0) > bound.get(name, 0)]
    print("%d caught; more survive than before: %s" % (total.get("caught", 0), " ".join(more) or "none"))
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
