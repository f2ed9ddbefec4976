#!/usr/bin/env python3
"""Mutants of the CUDA kernels, and whether the tests under the emulator catch them.

    mutate.py SOURCE_DIR BUILD_DIR [-j N] [--only FILE] [--sample N] [--match RE] [--list OUT]

BUILD_DIR is a sanitizer build (address, undefined) in which tests/cuda/test_cuda has been built.
Mutants are made from the code that runs on the device (functions marked __global__ or
__device__), one change each: a barrier removed, a comparison shifted (< to <=) or inverted (==
to !=), a whole number one larger, the operands of - / % and of comparisons swapped. A mutant is
caught where the tests fail, crash, or take --timeout seconds. Those that do not compile do not count,
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
    "reduce.h": ["sum", "losses", "norm"],
    "planes.h": ["batch_norm", "group_norm"],
    "image.h": ["pool", "conv_depthwise"],
    "conv.h": ["conv", "conv_weights"],
    "tile.h": ["conv", "conv_weights"],
}
OPS = {"conv_depthwise": ["conv2d"]}  # of units that have no entries themselves
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


class Build:
    def __init__(self, source, build, timeout):
        self.timeout = timeout
        self.source, self.build = os.path.abspath(source), os.path.abspath(build)
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

    def run(self, unit, folder):
        """"built", "caught" or "survived", of a tree of changed kernels in `folder`."""
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
        args[at:at] = ["-O1", "-g0", "-w", "-I" + folder]
        first = args.index(next(a for a in args if a.startswith("-I")))
        args.insert(first, "-I" + folder)
        quiet = dict(cwd=self.build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if subprocess.run(args + ["-o", obj], **quiet).returncode != 0:
            return "no mutant"
        link, program = [], os.path.join(folder, "test")
        for arg in self.link:
            if arg == "ccache":
                continue
            link.append(obj if arg == self.archive(unit) else arg)
        link[link.index("-o") + 1] = program
        if subprocess.run(link, **quiet).returncode != 0:
            return "no mutant"
        env = dict(os.environ, STEPWELL_CUDA_OPS=",%s," % ",".join(self.ops[unit]),
                   ASAN_OPTIONS="detect_leaks=0", UBSAN_OPTIONS="halt_on_error=1")
        parts = ["entries: entries"] + (["updates"] if unit in ("optim", "sum", "losses", "adafactor", "max", "random") else [])
        for part in parts:
            try:
                if subprocess.run([program, part], env=env, timeout=self.timeout, **quiet).returncode != 0:
                    return "caught"
            except subprocess.TimeoutExpired:
                return "caught"
        return "survived"


def try_one(build, path, text, change):
    start, end, new, what = change
    name = os.path.basename(path)
    units = UNITS.get(name, [name.split(".")[0]])
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "kernels/cuda"))
        with open(os.path.join(folder, "kernels/cuda", name), "w") as f:
            f.write(text[:start] + new + text[end:])
        verdict = "no mutant"
        for unit in units:
            got = build.run(unit, folder)
            if got == "caught":
                return what, got
            verdict = got if got == "survived" else verdict
        return what, verdict


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
    p.add_argument("-j", type=int, default=2)
    p.add_argument("--only", help="one file of kernels/cuda")
    p.add_argument("--sample", type=int, default=1, help="each N-th mutant alone")
    p.add_argument("--match", default="", help="mutants whose description has this expression")
    p.add_argument("--timeout", type=int, default=60, help="of one test, in seconds")
    p.add_argument("--list", help="write what became of each mutant")
    a = p.parse_args()
    build = Build(a.source, a.build, a.timeout)
    folder = os.path.join(a.source, "kernels/cuda")
    names = sorted(n for n in os.listdir(folder)
                   if n in UNITS or (n.endswith(".cu") and n != "module.cu"))
    work = []
    for name in names:
        if a.only and name != a.only:
            continue
        text, found = mutants(os.path.join(folder, name))
        found = [c for c in found if re.search(a.match, c[3])]
        work += [(os.path.join(folder, name), text, c) for c in found][::a.sample]
    listed, counts, out = equivalents(a.source), {}, open(a.list, "w") if a.list else sys.stdout
    with concurrent.futures.ThreadPoolExecutor(a.j) as pool:
        for what, verdict in pool.map(lambda w: try_one(build, *w), work):
            file, _, change = what.split(":", 2)
            line = open(os.path.join(folder, file)).read().splitlines()[int(what.split(":")[1]) - 1]
            if verdict == "survived" and (file, "%s: %s" % (line.strip(), change.strip())) in listed:
                verdict = "equivalent"
            counts.setdefault(file, {}).setdefault(verdict, 0)
            counts[file][verdict] += 1
            if verdict == "survived" or a.list:
                print("%-10s %s   | %s" % (verdict, what, line.strip()), file=out, flush=True)
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
