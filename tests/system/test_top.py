#!/usr/bin/env python3
"""stepwell top: profiles that the test writes record by record, so that every figure is known, and trainings that run beside it."""
import json
import os
import signal
import time

from frame import PROGRAM, Run, Skip, STEADY, check, get, main, on_terminal, put, refused, run, said, test, wait_until

PHASES = ("data", "forward", "loss", "backward", "step")
STEP_NS = 3000000


class Profile:
    """It begins with a header and a plan."""

    def __init__(self, name, created="a"):
        self.file = open(name, "w", encoding="utf-8")
        self.add(type="header", format="stepwell-profile", version=1, model="tiny", device="cpu", data="synthetic", batch=16, seed=1,
                 created=created, command="train")
        self.add(type="plan", program=0, run="train", batch=16, model_bytes=4096, arena_bytes=8192, data_bytes=1024, total_bytes=13312,
                 lower_bound_bytes=8192, phases=self.phases(), n_ops=1, ops=["x"], values=[])

    def add(self, **record):
        self.write(json.dumps(record, separators=(",", ":")) + "\n")

    def write(self, text):
        self.file.write(text)
        self.file.flush()

    @staticmethod
    def phases(more=0):
        """Phase i peaks at i + 1 KiB and ends at half of it, but for step: at 0."""
        return {name: {"peak_bytes": (i + 1) * 1024 + (more if name == "backward" else 0), "end_bytes": (i + 1) * 512 if i < 4 else 0, "ns": 100}
                for i, name in enumerate(PHASES)}

    def record(self, k, allocations=0, more=0, **other):
        """Step k begins 4 ms after the one before and takes STEP_NS and k microseconds; its loss is 1000 - k. `more` bytes at the peak of
        backward are not as planned. The first is not warm."""
        return {**dict(type="step", step=k, program=0, run="train", mode="planned", loss=1000 - k, measured_by="arena",
                       phases=self.phases(more), peak_bytes=max(5120, 4096 + more), arena_bytes=8192, model_bytes=4096, host_bytes=7000 + k,
                       process_bytes=1000000 + k, allocations=allocations, ns=STEP_NS + k * 1000, warm=k > 1, at_ns=4000000 * k), **other}

    def step(self, k, *how, **other):
        self.add(**self.record(k, *how, **other))

    def end(self, status="done"):
        self.add(type="end", status=status, error=None, steps=1, wall_ns=1)
        self.file.close()


def watch(what, options="--json"):
    return Run(f"top {what} --interval 0.05 {options}", {"LC_ALL": "C"}.items())


def check_figures(line, k, allocations):
    """The figures after steps 1 to k of one file."""
    x = json.loads(line)
    expected = dict(step=k, loss=1000 - k, median_step_ns=STEP_NS + 1000 * ((k + 1) // 2), max_step_ns=STEP_NS + 1000 * k, window_steps=k,
                  model_bytes=4096, arena_bytes=8192, data_bytes=1024, total_bytes=13312, process_bytes=1000000 + k, host_bytes=7000 + k,
                  predicted_peak_bytes=5120, measured_peak_bytes=5120)
    if k > 1:  # the first is not warm
        expected["allocations_after_warmup"] = allocations
    check({key: x[key] for key in expected} == expected, line)
    pace = k * 1e9 / (4e6 * (k - 1) + STEP_NS + 1000 * k)
    check(abs(x["steps_per_second"] - pace) <= 1e-9 * pace, line, pace)
    assert '"backward":{"peak_bytes":4096,"end_bytes":2048}' in line


@test("a growing file is followed, record by record")
def grows():
    p = Profile("p")
    p.step(1, 5)  # not warm: its allocations do not count
    top = watch("p")
    check_figures(top.line_with('"step":1,'), 1, 0)
    assert '"condition":"running"' in top.printed()[-1]
    for k in range(2, 41):
        p.step(k, 3 if k == 7 else 0)
    check_figures(top.line_with('"step":40,'), 40, 3)
    half = json.dumps(p.record(41), separators=(",", ":")) + "\n"
    p.write(half[:200])  # half a record is none
    time.sleep(0.2)
    assert json.loads(top.printed()[-1])["step"] == 40
    p.write(half[200:])
    check_figures(top.line_with('"step":41,'), 41, 3)
    p.end()
    top.wait(20)
    check(top.status == 0 and top.err == "", top)
    check_figures(top.printed()[-1], 41, 3)
    assert '"condition":"ended","status":"done"' in top.printed()[-1]


@test("a clock that went back does no harm")
def clock():
    """No pace beyond measure."""
    p = Profile("p")
    p.step(10)
    p.step(11, at_ns=1)
    p.end()
    x = said("top p --json --once")
    assert (x["window_steps"], x["window_ns"]) == (2, STEP_NS + 11000)


@test("the highest program stays")
def highest():
    """The program with the peak so far is shown with its name: training, then an evaluation of 9000 bytes, which stays also while lower
    steps follow."""
    shown = '"program":"program 1 (eval, batch 64)"'
    p = Profile("p")
    p.step(1)
    top = watch("p")
    top.line_with('"program":"program 0 (train, batch 16)"')
    phases = {name: {"peak_bytes": 9000 * (name == "forward"), "end_bytes": int(name == "forward")} for name in PHASES}
    p.add(type="plan", program=1, run="eval", batch=64, model_bytes=4096, arena_bytes=4000, data_bytes=904, total_bytes=9000,
          lower_bound_bytes=4000, phases=phases, n_ops=1, ops=["x"], values=[])
    p.add(type="step", step=1, program=1, run="eval", mode="planned", measured_by="arena", phases=phases, peak_bytes=9000, arena_bytes=4000,
          model_bytes=4096, allocations=1)
    p.step(2)
    top.line_with(shown)
    p.step(3)
    p.end()
    top.wait(20)
    x = json.loads(top.printed()[-1])
    assert shown in top.printed()[-1]
    assert (x["step"], x["measured_peak_bytes"], x["predicted_peak_bytes"], x["total_bytes"]) == (3, 9000, 9000, 9000)


@test("another run begins from nothing")
def anew():
    """Emptied and written anew in the same place, and under the same name."""
    p = Profile("p")
    for k in range(1, 11):
        p.step(k, 1)
    p.end()
    top = watch("p", "--json --wait")
    assert json.loads(top.line_with('"step":10,'))["allocations_after_warmup"] == 9
    p = Profile("p", "b")
    for k in range(1, 13):  # longer than the one before
        p.step(k)
    check_figures(top.line_with('"step":12,'), 12, 0)
    os.unlink("p")
    p = Profile("p", "c")
    for k in range(1, 4):
        p.step(k)
    check_figures(top.line_with('"step":3,'), 3, 0)
    top.send(signal.SIGTERM)
    assert top.wait(20).status == 130


@test("a long file takes no more memory")
def long_file():
    """The part that was there before is read too, in bounded memory."""
    last = 20000  # 13 MB
    p = Profile("p")
    p.file.write("".join(json.dumps(p.record(k, int(k % 2500 == 1)), separators=(",", ":")) + "\n" for k in range(1, last + 1)))
    p.file.close()
    top = run("top p --once --json")
    x = top.json
    assert (x["step"], x["allocations_after_warmup"]) == (last, last // 2500 - 1)
    # The last ten seconds: steps that begin 4 ms apart and take 23 ms at last.
    assert abs(x["window_steps"] - (10e9 - (STEP_NS + 1000 * last)) / 4e6) <= 1
    if STEADY:
        check(top.peak_bytes < 64 << 20, top.peak_bytes, "bytes")


@test("a failed run says why")
def failed():
    """A run of which nothing was warm, and which failed: no figure is made up."""
    p = Profile("p")
    p.step(1, 5)
    p.add(type="end", status="failed", error="no room", wall_ns=9)
    top = run("top p --once", LC_ALL="C")
    check(": failed: no room\n" in top.out and "warm-up" not in top.out, top)
    assert '"allocations_after_warmup":null' in run("top p --once --json").out


@test("what differs from the plan is shown")
def differs():
    p = Profile("p")
    for k in range(1, 49):
        p.step(k, 0, 2048 if k == 48 else 0)
    p.file.close()
    text = run("top p --once", LC_ALL="C").out
    lines = [line.split() for line in text.splitlines()]
    for line in ("backward 4,096 6,144 2,048 2,048 peak +2,048", "forward 2,048 2,048 1,024 1,024 equal",
                 "measured by arena in 48 runs: 1 differs (shown: step 48)",
                 "loss  ####*******++++++=======-------::::::.......____  952",
                 "peak  _______________________________________________#  6.00 KiB",
                 "model 4.00 KiB   arena 8.00 KiB   data 1.00 KiB   total 13.00 KiB"):
        check(line.split() in lines, line, "is not in", text)
    assert "\nstep 48, loss 952: died (" in text
    assert all(len(line) <= 80 and line.isascii() and line.isprintable() for line in text.splitlines())


@test("what no one measured is not as planned")
def uncounted():
    """Runs that count nothing have the figures of their plan."""
    Profile("p").step(1, measured_by="plan")
    assert "\n  measured by plan in 1 run: " in run("top p --once", LC_ALL="C").out
    text = run("top p --once --json").out
    assert '"measured":null,"measured_by":"plan"' in text and '"measured_peak_bytes":null' in text


@test("a terminal has pictures")
def pictures():
    """On a terminal each picture is drawn over the last, in colour unless NO_COLOR asks for none. A terminal that is dumb has lines."""
    p = Profile("p")
    for k in range(1, 6):
        p.step(k)
    p.file.close()  # no process writes it: top ends at once
    shown = on_terminal("top p", TERM="xterm", NO_COLOR="", LC_ALL="C.UTF-8")
    assert shown.startswith("\033[H\033[J") and "step 5, loss 995: \033[31mdied\033[0m" in shown and "\u2588" in shown
    shown = on_terminal("top p", TERM="xterm", NO_COLOR="1", LC_ALL="C")
    assert shown.startswith("\033[H\033[J") and "#" in shown and "\u2588" not in shown
    assert all(part.lstrip("[0123456789;")[:1] != "m" for part in shown.split("\033")[1:])
    shown = on_terminal("top p", TERM="dumb", NO_COLOR="", LC_ALL="C")
    assert "\033" not in shown and shown.startswith("step 5, loss 995, ")


def train():
    return Run("train --quiet --model mlp --hidden 16 --synthetic-n 4000 --batch 16 --epochs 100000 --memory-budget 8MiB --profile p")


def need_proc():
    if not os.access("/proc/self/fd", os.R_OK):
        raise Skip("the system shows no processes")


@test("a training is watched until it is killed")
def killed():
    """Found by its number; killed, it leaves no end record, and top says so and ends."""
    need_proc()
    training = train()
    number = training.child.pid
    by_number = watch(number, "--json --wait")
    line = by_number.line_with('"condition":"running"')
    x = json.loads(line)
    assert os.path.abspath("p") in line and x["process"] == number
    wait_until(lambda: json.loads(by_number.printed()[-1])["step"] > x["step"])
    by_name = watch("p")
    x = json.loads(by_name.line_with('"condition":"running"'))
    assert x["steps_per_second"] > 0
    # 784 to 16 to 10, weights and biases, and adam's two of each; 4,000 samples by 16, each epoch
    assert x["model_bytes"] > 3 * 4 * (785 * 16 + 17 * 10) and x["planned_steps"] == 250 * 100000 and x["budget_bytes"] == 8 << 20
    assert x["predicted_peak_bytes"] == x["measured_peak_bytes"] > 0
    training.send(signal.SIGSTOP)  # stopped it lives and waits
    by_number.line_with('"condition":"waiting"')
    by_name.line_with('"condition":"waiting"')
    training.send(signal.SIGCONT)
    by_name.line_with('"condition":"running"')
    training.send(signal.SIGKILL)
    training.wait(20)
    for top in (by_number, by_name):
        check(top.wait(20).status == 0 and '"condition":"died"' in top.printed()[-1], top)


@test("report can watch too")
def live():
    p = Profile("p")
    p.step(1)
    report = Run("report p --live --json")
    report.line_with('"step":1,')
    p.step(2)
    p.end()
    check(report.wait(20).status == 0 and report.err == "", report)
    check_figures(report.printed()[-1], 2, 0)
    refused("report p --live --diff p", 2, "--live shows what is there now")


@test("a training that ends is reported")
def ends():
    training, top = train(), watch("p", "--wait")
    top.line_with(", running")
    training.send(signal.SIGINT)
    training.wait(20)
    line = top.line_with(", interrupted")
    assert line.startswith("step ") and " steps/s, " in line
    top.send(signal.SIGINT)
    check(top.wait(20).status == 130 and top.err == "", top)


@test("what cannot be watched is refused")
def unwatched():
    put("foreign", '{"type":"other"}\n')
    Profile("whole").file.close()
    put("damaged", get("whole").splitlines(True)[0] + '{"type":7}\n')
    for words, status, says in (
            ("", 2, "PID or FILE must be given"), (" x --interval 0", 2, "--interval"), (" x --interval 1e30", 2, "--interval"),
            (" 999999999", 3, "there is no process 999999999; a file of that name is ./999999999"),
            (f" {os.getpid()}", 3, "writes no profile; start it with stepwell train --profile FILE"),
            (" nothing", 3, "nothing: No such file"), (" .", 3, "not a regular file"), (" /dev/null", 3, "not a regular file"),
            (" foreign", 3, "foreign: not a stepwell profile"), (" damaged", 3, "damaged: line 2: ")):
        refused("top" + words, status, says)


@test("a process of another user is distinguished")
def other_user():
    """Processes of other users are not ours to look at; as the superuser the test becomes another."""
    need_proc()
    if os.geteuid() != 0:
        raise Skip("only the superuser can become another")
    says, to = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(to, 2)
            os.setgid(65534)
            os.setuid(65534)
            os.execv(PROGRAM, [PROGRAM, "top", str(os.getppid())])
        except OSError:
            os._exit(126)
    os.close(to)
    with os.fdopen(says) as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status in (126, 127):
        raise Skip("the program cannot be started by another user")
    check(status == 3 and "belongs to another user" in text, status, text)


main("top")
