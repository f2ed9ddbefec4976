#!/usr/bin/env python3
"""A training that was interrupted and goes on ends as one that was not: the same parameters, the same best ones, the same metrics but
for times, the same result. Also when a training saves at a signal, and a disk that is full; the rest is in transcripts/saves.txt.

No clock is needed to interrupt it at each step: a run that keeps the checkpoint of each step has as many runs in it that ended there.
Its metrics have more rows than theirs, as those of a killed run have, and are cut. resume/kills.py interrupts at any moment."""
import hashlib
import os
import random
import resource
import shutil
import signal

from frame import FULL, PROGRAM, STEADY, Run, Skip, check, get, main, put, put_idx, raw, refused, run, said, signals, test, wait_until
from resume.resume_scene import text_of_letters, told

FILES = "--save-params P --save-best B --metrics M.jsonl"
EACH = "--checkpoint-every 1 --keep-checkpoints 1000"


def clear(*names):
    for name in os.listdir():
        if name.split(".")[0] in names:
            os.unlink(name)


def train(words):
    """Its JSON, and all that it comes to, without times."""
    x = said(f"train --json --quiet {FILES} {words}")
    return x, {"parameters": [hashlib.sha256(raw("P")).hexdigest()],
               "--save-best": [hashlib.sha256(raw("B")).hexdigest()] if os.path.exists("B") else [],
               "metrics": [line.split(',"ms":')[0] for line in get("M.jsonl").splitlines()], "result": list(told(x).items())}


def same(whole, end, *what):
    for part, then in whole.items():
        check(end[part] == then, *what, f"{len(end[part])} and {len(then)}", part, "the first other", [x for x in end[part] if x not in then][:1])


def goes_on(words, first="", then="", pauses="--checkpoint-pauses"):
    """From each step of a run by the words `first`, by the words `then`; in full also each step a process of its own, by one and the
    other. Without pauses a thread saves what it comes to."""
    clear("P", "B", "M", "C", "R", "D")
    x, whole = train(f"{words} {first}")
    clear("P", "B", "M")
    same(whole, train(f"--checkpoint C {EACH} {pauses} {words} {first}")[1], words, pauses)
    metrics, best, best_step = raw("M.jsonl"), os.path.exists("B") and raw("B"), x["best_step"] or 0

    def leave_files(step, over=False):
        """Those of the run that was interrupted. The validation there comes after the checkpoint, but for the last one of a run."""
        clear("P", "B")
        put("M.jsonl", metrics)
        if best_step > 0 and (over or best_step < step):
            put("B", best)

    kept = said("info --json C")
    steps = {"C": kept["step"], **{old["file"]: old["step"] for old in kept["generations"]}}
    assert set(steps) == {name for name in os.listdir() if name.split(".")[0] == "C"}
    for name, step in steps.items():
        shutil.copy(name, "R")
        leave_files(step, name == "C")
        again, end = train(f"--resume R {words} {then}")
        what = f"{words} | {first}, then {then}, from step {step}:"
        check(again["resumed_from_step"] == step > 0, what, again["resumed_from_step"])
        same(whole, end, what)
    n = len(set(steps.values()))
    check(n == x["steps"] if pauses else n >= 2, words, n, "of", x["steps"], "steps")
    if not FULL or not pauses:
        return
    shutil.copy(max(steps, key=lambda name: -steps[name]), "R")
    leave_files(1)
    for step in range(1, n + 1):
        clear("P", "D", *(["B"] if best_step >= step else []))
        again, end = train(f"--resume R --checkpoint D {pauses} {EACH} {words} {then if step % 2 else first}")
        check(again["resumed_from_step"] == step, words, "a process for each step:", step)
        if step < n:
            shutil.copy(f"D.{n - step}", "R")
    same(whole, end, words, "a process for each step")


def go_on(quick, *cases, **more):
    for case in cases if FULL else cases[:quick]:
        goes_on(*case, **more)


MLP = "--model mlp --hidden 16 --synthetic-n 100 --batch 24 --epochs 2"
LENET = "--synthetic-n 80 --batch 32 --epochs 2"
SWISH_NET = "--model swishnet --width 24 --layers 3 --synthetic-n 70 --batch 32"
SWISH = f"{SWISH_NET} --epochs 2"
MBCONV = "--model mbconv --width-factor 0.25 --depth-factor 0.25 --dropout 0.2 --synthetic-n 16 --batch 6 --epochs 2 --image-size 32"
GPT = "--model gpt --data text:text --layers 2 --width 32 --heads 2 --context 16 --batch 8 --dropout 0.1 --steps 5 --epochs 1"
SMALL_NET = "--model mlp --hidden 12 --synthetic-n 60 --batch 16"
SMALL = f"{SMALL_NET} --epochs 2"


@test("every model goes on")
def models():
    go_on(3, (LENET, "", "--threads 3"), (MLP, "--threads 2"), (SWISH, "", "--immediate"), (MBCONV, "--threads 2"),
          (f"{MBCONV} --bn-momentum 0.3 --optimizer momentum", "--immediate", "--threads 3"),
          (f"{LENET} --keep-gradients", "--threads 3", "--immediate"),
          (f"{SWISH} --optimizer lion", "--update after", "--update after --threads 2"),
          (f"{LENET} --state 8bit", "--threads 2", "--immediate"))


@test("a language model goes on")
def language_model():
    put("text", text_of_letters(3000))
    go_on(1, (GPT, "--threads 2"), (f"{GPT} --optimizer adafactor", "", "--immediate"), (f"{GPT} --accumulate 2", "--no-chunks", "--threads 3"))


HALF = "--precision bf16 --bf16-order"


@test("runs in bf16 go on without FMA")
def half():
    """Nets of products and pointwise ops: the kernels of float32, as those of images and attention, have other bits there."""
    go_on(2, (f"{MLP} {HALF} tile", "", "--isa base --threads 2"), (f"{SWISH} {HALF} pair", "--isa base", ""),
          (f"{MLP} {HALF} pair --state 8bit", "--isa base", "--immediate"), (f"{SWISH} {HALF} tile", "", "--isa base"))


@test("runs in tile order go on from AVX2 to AVX-512")
def half_wide():
    if run("train --quiet --model mlp --synthetic-n 100 --steps 1 --isa avx512", None).status:
        raise Skip("the processor has no AVX-512")
    put("text", text_of_letters(3000))
    go_on(3, (f"{LENET} {HALF} tile", "--isa avx2", "--isa avx512 --threads 2"), (f"{GPT} {HALF} tile", "--isa avx512", "--isa avx2"),
          (f"{MLP} {HALF} tile --state 8bit", "--isa avx2", "--isa avx512"), (f"{MBCONV} {HALF} tile", "--isa avx2", "--isa avx512"))


@test("every optimizer goes on")
def optimizers():
    kinds = run("train --optimizer none", 2).err.split("one of ")[1].split()
    assert len(kinds) >= 9
    for kind in (word.strip(",") for word in kinds):
        decay = "--weight-decay 0.01 --clip 0.1" + (" --momentum 0.5" if kind in ("momentum", "nesterov", "rmsprop") else "")
        go_on(1, *((f"{SMALL} --optimizer {kind} {more}", "", "--threads 2") for more in ("", decay, "--accumulate 3 --keep-gradients")))


@test("every schedule goes on")
def schedules():
    go_on(2, *((f"{SMALL} --schedule {words}",) for words in (
        "one_cycle --warmup 3", "step --lr-every 3 --lr-gamma 0.5 --warmup 2", "constant --warmup 5", "exponential --lr-floor 0.001",
        "linear --lr-floor 0.001 --warmup 1", "cosine --warmup 4", "step")))


@test("accumulated steps go on")
def accumulated():
    """Steps of several micro-batches, the last of an epoch smaller; gradients that stay."""
    go_on(2, ("--model mlp --hidden 12 --synthetic-n 100 --batch 9 --accumulate 3 --epochs 3", "", "--threads 3"),
          (f"{LENET} --accumulate 3 --clip 0.05", "--threads 2", "--immediate"), (f"{SMALL} --clip 0.01 --keep-gradients --optimizer momentum",),
          (f"{SWISH} --accumulate 2 --update after", "--immediate", "--threads 2"))


@test("another budget goes on")
def budgets():
    """Under the smallest budget that a plan is found for, which has ops run again, and from there without it, and back."""
    x = said(f"plan --json {SWISH_NET}")
    total, least = x["total_bytes"], x["model_bytes"] + x["data_bytes"]
    assert total > least > 0
    tight = again = None
    for part in range(19, 0, -1):
        less = f"--memory-budget {least + (total - least) * part / 20:.0f}"
        done = run(f"plan --json {SWISH_NET} {less}", None)
        if done.status:
            break
        tight, again = less, done.json["recompute"]
    check(again, "no budget between", least, total, "has ops run again")
    # The copy of a checkpoint is part of the budget: saves that pause have none.
    go_on(2, (SWISH, "", f"--threads 2 {tight}"), (SWISH, f"--threads 2 {tight}"), (f"{SWISH} --no-recompute",))


@test("validations go on")
def validations():
    go_on(2, (f"{SMALL_NET} --validate-every 3 --epochs 3",),
          (f"{SMALL_NET} --patience 1 --epochs 20 --schedule constant --lr 0.5 --optimizer sgd",), (f"{LENET} --validate-every 1", "--threads 2"),
          (f"{SMALL_NET} --validate-every 2 --patience 3 --min-delta 0.05 --epochs 20 --lr 0.001",),
          (f"{SMALL_NET} --validate-every 5 --steps 7 --epochs 5", "", "--threads 2"))


@test("what is not finite goes on")
def not_finite():
    """Losses and gradients: the record, the count of skipped updates and the step that they began at."""
    first = f"{SMALL} --optimizer sgd --lr 1e30 --max-skipped 0"
    go_on(1, (first,), (f"{SWISH} --optimizer sgd --lr 1e20 --max-skipped 0 --validate-every 1",),
          (f"{SWISH} --optimizer adam --lr 1e38 --max-skipped 0", "", "--immediate"))
    x = said(f"train --json --quiet {first}")
    assert x["skipped"] > 1 and x["diverged"] is True


@test("a limit of skipped updates goes on")
def skipped():
    """The limit counts across an interruption: a run that ends for it ends at the same step."""
    words = f"train --json --quiet {SMALL_NET} --optimizer sgd --lr 1e30 --max-skipped 4 --epochs 9"
    whole = run(f"{words} --checkpoint C --checkpoint-pauses {EACH}", 1).err
    assert "in a row" in whole
    names = [name for name in os.listdir() if name.split(".")[0] == "C"]
    for name in names:
        shutil.copy(name, "R")
        check(run(f"{words} --resume R", 1).err == whole, "from", name)
    assert len(names) >= 3


@test("every source goes on")
def sources():
    dice = random.Random(4)
    records = [bytes([i % 10]) + dice.randbytes(3072) for i in range(40)]
    put("data_batch_mini.bin", b"".join(records))
    put("test_batch_mini.bin", b"".join(records[:20]))
    put("table.csv", "a,b,kind\n" + "".join(f"{i * 7 % 60}.5,{i % 7},{'dog' if i % 3 else 'cat'}\n" for i in range(60)))
    for part, n in (("train", 60), ("t10k", 30)):
        put_idx("idx", part, dice.randbytes(n * 784), bytes(dice.randrange(10) for _ in range(n)))
    put("text", text_of_letters(3000))
    go_on(3, ("--model mlp --hidden 8 --data csv:table.csv --standardise --batch 13 --epochs 2",),
          ("--model mlp --hidden 8 --data idx:idx --batch 16 --epochs 2", "", "--threads 2"),
          ("--model mlp --hidden 8 --data cifar:. --batch 16 --epochs 2",),
          ("--model mlp --hidden 8 --data csv:table.csv --test-data csv:table.csv --seed 9 --batch 60 --epochs 3",),
          (f"{GPT} --seed 3 --validate-every 2",))


@test("checkpoints without a pause go on")
def without_pause():
    """A file that a thread writes while training goes on has the state after its step."""
    go_on(2, (f"{LENET} --epochs 6", "", "--threads 2"), (f"{MLP} --epochs 10 --validate-every 3", "--threads 2"),
          (f"{SWISH} --keep-gradients --clip 0.1 --epochs 8", "--immediate"), (MBCONV, "--threads 2", "--immediate"), pauses="")


@test("more epochs are one long run")
def more_epochs():
    """A schedule that does not go by the number of steps lets a run become longer."""
    for schedule in ("constant --warmup 2", "step --lr-every 4", "exponential --lr-every 4"):
        words = f"{SMALL_NET} --schedule {schedule} --epochs"
        clear("P", "B", "M", "C")
        whole = train(f"{words} 5")[1]
        clear("P", "B", "M")
        for epochs in (1, 3, 5):
            end = train(f"--checkpoint C --resume {words} {epochs}")[1]
        same(whole, end, words)
        refused(f"train --quiet --checkpoint C --resume {words} 4", 2, "after step 20, and this run has 16 steps in all")


@test("more epochs are refused where the schedule counts")
def counted():
    for schedule in ("cosine", "linear", "one_cycle"):
        clear("C")
        run(f"train --quiet {SMALL} --checkpoint C --schedule {schedule}")
        refused(f"train --quiet {SMALL_NET} --epochs 3 --checkpoint C --resume --schedule {schedule}", 2,
                "steps in all (--epochs, --steps) was '8'", "is '12' now", "--load-params")


NET = "--model mlp --hidden 200 --synthetic-n 300 --batch 20 --schedule constant"
LONG = f"{NET} --epochs 100000000"


def has(name, size):
    wait_until(lambda: os.path.exists(name) and os.path.getsize(name) > size)


@test("a second request ends at once")
def second_request():
    """It does not wait for the step and the save that the first one waits for."""
    hidden = "2000,2000" if STEADY else "900,900"  # steps that take about as long
    job = Run(f"train --json --quiet --model mlp --hidden {hidden} --synthetic-n 2000 --batch 1000 --epochs 1000000 --schedule constant "
              "--checkpoint C --metrics M.jsonl")
    has("M.jsonl", 0)
    job.send(signal.SIGINT)
    wait_until(lambda: not signals(job, "ShdPnd"), pause=0)
    job.send(signal.SIGINT)
    check(job.wait(60).status == -signal.SIGINT and not os.path.exists("C"), job)


@test("a signal saves at once")
def saves():
    job = Run(f"train --quiet {LONG} --checkpoint C --metrics M.jsonl")
    has("M.jsonl", 2000)
    for i in range(3):
        if i > 0:
            os.unlink("C")
        job.send(signal.SIGUSR1)
        has("C", 1000)
    job.notes("is saved in")
    job.send(signal.SIGKILL)
    check(job.wait(60).status == -signal.SIGKILL, job)
    step = said("info --json C")["step"]
    assert step > 1
    x = said(f"train --json --quiet {NET} --steps {step + 1} --resume C")
    assert x["resumed_from_step"] == step and x["checkpoint"] is None


@test("a full disk costs a save and not the training")
def full_disk():
    """It goes on, what was saved before stays, and a later save works and is said."""
    def step():
        return said("info --json C")["step"]
    run(f"train --quiet {NET} --steps 5 --checkpoint C --metrics M.jsonl")
    assert step() == 5
    # No room for a file above 128 KiB, as a full disk has none.
    job = Run(f"trap '' XFSZ; ulimit -S -f 256; exec '{PROGRAM}' train --json --quiet {LONG} --resume --checkpoint-every 20 --checkpoint C "
              "--metrics M.jsonl", shell=True)
    job.notes("could not be saved")
    assert step() == 5
    resource.prlimit(job.child.pid, resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE))
    job.notes("is saved in")
    later = step()
    job.send(signal.SIGINT)
    check(job.wait(60).status == 130 and later > 5 and job.err.count("\n") == 2, job)
    saved = job.json["checkpoint"]
    assert saved["failed"] >= 1 and saved["saved"] >= 2


@test("the result says what was saved")
def result():
    done = run(f"train --quiet {NET} --checkpoint C")
    check("\nsaved   1 checkpoint of " in done.out and "\ncopy    " in done.out and not done.err, done)
    done = run(f"train {NET} --epochs 2 --checkpoint C --resume")
    check("goes on after step 15 of 30, from " in done.err and "step 30 is saved in " in done.err, done)
    done = run(f"train --quiet {NET}")
    check("saved" not in done.out and "copy" not in done.out, done)
    check('"resumed_from_step":null,"checkpoint":null,' in run(f"train --quiet --json {NET}").out)


@test("a checkpoint of another program is refused")
def another_program():
    run("pbt --model mlp --hidden 4 --synthetic-n 40 --batch 8 --members 2 --interval 2 --steps 4 --quiet --checkpoint C lr=log:0.01..1")
    refused("train --quiet --model mlp --resume C", 2, "`stepwell train` did not save it")


main("resume")
