#!/usr/bin/env python3
"""tools/bench/device.sh, rehearsed where little is installed: a PATH of links to the programs that it may use, no git, no pkg-config.

    device_script.py BUILD [full]

Parts that pass, fail, run into their limit and are killed, over the fake module: each leaves a page that says how far it came. PyTorch and
compute-sanitizer, which no machine without a card has, are scripts, as is a test program that crashes for one op and hangs for
another. full: the part `build` from nothing too, and the whole steps under the stand-in for compute-sanitizer.
"""
import os, shutil, signal, subprocess, sys, tempfile, time

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
NEEDS = "sh sed awk grep cat date mkdir mv rm head tail tr cut sort comm wc seq tee nproc sleep timeout xargs dirname nm".split()
TO_BUILD = "cc gcc g++ c++ ld ar as strip ninja meson ls cp readlink uname env cmp touch".split()
PARTS = "build suite gpt124m memcheck mlp4096 mbconv lenet5 card racecheck".split()
FIGURES = ('{"found": {"batch": 2, "step": {"min_ns": 1000000, "median_ns": 2000000}, "in_a_loop_ns": 1, "peak_bytes": 1, '
           '"card_bytes": 1, "first_step_ns": 81500000000}}')
SCRIPTS = {
    "torch": f"""#!/bin/sh
case $TORCHINDUCTOR_CACHE_DIR in *[\\ ,]*) echo 'its compiler takes no such folder' >&2; exit 1 ;; esac
case $* in
*'import torch'*) echo 'PyTorch 0' ;;
*device_torch.py*) echo "$*" >> "$(dirname "$0")/peers"; echo '{FIGURES}' ;;
*) exec python3 "$@" ;;
esac
""",
    "compute-sanitizer": """#!/bin/sh
echo "$*" >> "$(dirname "$0")/sanitized"
echo '========= COMPUTE-SANITIZER'
[ "$STEPWELL_CUDA_OPS" != ,sub, ] || { echo '========= Invalid __global__ read of size 4 bytes'; exit 9; }
while [ "${1#--}" != "$1" ]; do shift 2; done
case $*-$RUNS in
*mbconv*-) echo '========= ERROR SUMMARY: 3 errors'; exit 9 ;;
*-) echo '========= ERROR SUMMARY: 0 errors'; exit 0 ;;
esac
"$@"
""",
    "test_on_card": """#!/bin/sh
case $STEPWELL_CUDA_OPS in
,crash,) kill -SEGV $$ ;;
,hang,) exec sleep 20 ;;
,skip,) exit 77 ;;
esac
exec "$REAL" "$@"
"""}


class Rehearsal:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.bin, self.out = (os.path.join(folder, name) for name in ("bin", "out"))
        self.link(NEEDS)
        os.symlink(sys.executable, os.path.join(self.bin, "python3"))
        tests = os.path.join(folder, "build", "tests", "cuda")
        for inside in ("tools", "kernels"):
            os.makedirs(os.path.dirname(tests), exist_ok=True)
            os.symlink(os.path.join(build, inside), os.path.join(folder, "build", inside))
        os.makedirs(tests)
        for name in os.listdir(os.path.join(build, "tests", "cuda")):
            if name not in SCRIPTS:
                os.symlink(os.path.join(build, "tests", "cuda", name), os.path.join(tests, name))
        for name, text in SCRIPTS.items():
            path = os.path.join(tests if name == "test_on_card" else self.bin, name)
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, 0o755)
        self.env = {"PATH": self.bin, "PKG_CONFIG": "/nowhere", "HOME": folder, "TMPDIR": folder,
                    "STEPWELL_CUDA_MODULE": os.path.join(build, "tests/cuda/libstepwell-cuda-fake.so"),
                    "REAL": os.path.join(build, "tests/cuda/test_on_card")}

    def link(self, names):
        os.makedirs(self.bin, exist_ok=True)
        for name in names:
            if shutil.which(name):
                os.symlink(shutil.which(name), os.path.join(self.bin, name))

    def words(self, part, *words, as_is=True):
        return ["sh", os.path.join(SOURCE, "tools/bench/device.sh"), *([part] if part else []), "--out", self.out, "--jobs", "2", "--commit", "abc123",
                "--build", os.path.join(self.folder, "build"), *(["--as-is"] if as_is else []), *words]

    def run(self, status, part, *words, env=None, **more):
        done = subprocess.run(self.words(part, *words, **more), env=self.env if env is None else env, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == status, (part, words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def page(self, name):
        with open(os.path.join(self.out, name)) as f:
            return f.read()

    def has(self, name, *texts):
        page = self.page(name)
        for text in texts:
            assert text in page, (name, text, page)
        return page

    def stopped(self, sign, *words):
        """Killed once its page says that it has begun with the ops."""
        path = os.path.join(self.out, "suite-ops.txt")
        os.remove(path)
        p = subprocess.Popen(self.words(*words), env=self.env, stdout=subprocess.DEVNULL, cwd=self.folder)
        while not (os.path.exists(path) and "relu good" in self.page("suite-ops.txt")):
            assert p.poll() is None, self.page("suite.md")
            time.sleep(0.05)
        p.send_signal(sign)
        p.wait()


def usage(r):
    said = r.run(0, "--help")
    assert all(f"\n  {part}" in said or f" {part}" in said for part in PARTS + ["merge", "--commit", "--packages"]), said
    for words, text in (((None,), "PART must be one of: build suite"), (("suites",), "got 'suites'"), (("suite", "card"), "one part at a time"),
                        (("suite", "--seconds", "soon"), "must be numbers (got 'soon'"), (("suite", "--out"), "--out has no value"),
                        (("suite", "--fast"), "there is no option --fast"), (("suite", "--packages", "nowhere"), "there is no folder nowhere")):
        said = r.run(2, *words)
        assert text in said and "--help" in said, (words, said)


def lacks(r):
    """A missing program is named, with the way out, and the page is there."""
    r.run(5, "card", env={k: v for k, v in r.env.items() if k != "STEPWELL_CUDA_MODULE"})
    r.has("card.md", "nvidia-smi shows no card", "set STEPWELL_CUDA_MODULE", "BAD")
    r.run(5, "build", as_is=False)
    r.has("build.md", "meson is not in PATH: carry a build folder and give --as-is", "ended after")
    r.run(5, "suite", "--packages", r.bin)
    r.has("suite.md", "has neither Debian packages nor usr/include")
    hidden = os.path.join(r.bin, "compute-sanitizer")
    os.rename(hidden, hidden + "-")
    if not os.path.exists("/usr/local/cuda/bin/compute-sanitizer"):
        r.run(5, "memcheck")
        r.has("memcheck.md", "compute-sanitizer is not in PATH: it is in the toolkit's bin")
    os.rename(hidden + "-", hidden)


def suite(r):
    """One op that crashes and one that hangs hide nothing of the others."""
    r.run(1, "suite", "--only", "add,crash,relu,hang,2/46", "--seconds", "24")
    r.has("suite.md", "sources: abc123", "rehearsal with libstepwell-cuda-fake.so", "cuBLASLt", "3 of 5 processes good", "crash BAD, status 139",
          "hang BAD, no end in 9 s", "DEVICE.md: good", ": BAD")
    rows = [line for line in r.page("DEVICE.md").splitlines() if "rehearsal" in line]
    assert [row.split()[1] for row in rows] == ["relu", "add"], rows


def killed(r):
    r.stopped(signal.SIGTERM, "suite", "--only", "relu,hang")
    r.has("suite.md", "**killed** after", "entries of each op", "1 of 2 processes good", "killed: hang")
    r.stopped(signal.SIGKILL, "suite", "--only", "relu,hang", "--seconds", "15")
    assert "ended" not in r.has("suite.md", "**now**, since")
    r.run(1, "gpt124m", "--seconds", "8")
    r.has("gpt124m.md", "left out: gpt124m, stepwell, TF32: no end in the", "ended after", ": BAD")
    r.has("gpt124m-figures.md", "Batches are 1/64")


def nets(r):
    r.run(0, "lenet5", "--python", os.path.join(r.bin, "torch"))
    r.has("lenet5.md", "lenet5: good", "ended after", ": good")
    r.has("lenet5-figures.md", "PyTorch 0; cuBLASLt 130000", "times compiled bf16", "| stepwell, bf16 | 2 |", "| PyTorch, eager, TF32 | 2 | 1.000 | 2.000 | 1.00 | 1.00 |",
          "| PyTorch, compiled, bf16: cold compile and one step | 81.50 |", "| PyTorch, compiled, TF32: cold compile and one step | 81.50 |")
    alone = os.path.join(r.folder, "alone")
    r.run(0, "card", "--out", alone)
    r.has(os.path.join(alone, "card-figures.md"), "no PyTorch; cuBLASLt 130000", "| stepwell, TF32 | product |")
    with open(os.path.join(r.bin, "peers")) as f:
        peers = f.read().splitlines()
    assert len(peers) == 4 and all("lenet5" in line and "--tf32" in line for line in peers) and sum("--bf16" in line for line in peers) == 1, peers


def sanitizer(r, full):
    r.run(1, "racecheck")
    page = r.has("racecheck.md", "compute-sanitizer racecheck, gpt: good", "ERROR SUMMARY: 0 errors", "initcheck, mbconv: BAD, status 9", "ERROR SUMMARY: 3 errors")
    assert page.count("ERROR SUMMARY") == 9 + 3, page # and the ends of three logs
    r.run(1, "memcheck", "--only", "add,sub,skip", env=dict(r.env, RUNS="1"))
    r.has("memcheck.md", "2 of 3 processes good", "limit 360 s", "sub BAD, status 9: ========= Invalid __global__ read")
    with open(os.path.join(r.bin, "sanitized")) as f:
        lines = f.read().splitlines()
    assert len(lines) == 12 and all(f"--tool {tool} --nvtx yes" in "".join(lines) for tool in ("racecheck", "synccheck", "initcheck")), lines
    assert sum("--tool memcheck" in line and "gpu entries: entries do" in line for line in lines) == 3, lines
    if full:
        r.run(0, "racecheck", env=dict(r.env, RUNS="1"))


def merged(r):
    r.run(0, "merge")
    page = r.has("page.md", "several sources or cards", "## mlp4096\n\n- not run", "the page ends there", "suite-ops.txt: 1 of",
                 "cold compile", "## racecheck")
    heads = [line.split()[1].rstrip(",") for line in page.splitlines() if line.startswith("## ")]
    assert heads == PARTS, heads


def built(r):
    """From nothing: what is there is found without pkg-config."""
    r.link(TO_BUILD)
    r.run(0, "build", "--build", os.path.join(r.folder, "new"), "--seconds", "3000", as_is=False)
    r.has("build.md", "configure: good", "build: good", "stepwell 0.")
    r.run(0, "suite", "--build", os.path.join(r.folder, "new"), "--only", "add,5/40", as_is=False)


def main(build, *words):
    with tempfile.TemporaryDirectory() as folder:
        r = Rehearsal(os.path.abspath(build), folder)
        for test, args in ((usage, ()), (lacks, ()), (suite, ()), (killed, ()), (nets, ()), (sanitizer, ("full" in words,)), (merged, ()),
                           *([(built, ())] if "full" in words else [])):
            start = time.monotonic()
            test(r, *args)
            print(f"{test.__name__}: {time.monotonic() - start:.1f} s", flush=True)
    print("%d passed, 0 failed, 0 skipped" % (8 if "full" in words else 7))


if __name__ == "__main__":
    main(*sys.argv[1:])
