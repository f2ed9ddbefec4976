#!/usr/bin/env python3
"""stepwell plan: the table of several batches, the largest batch that fits, the picture."""
import random
import re
import signal
import time
import xml.etree.ElementTree

from frame import FULL, Run, check, get, main, pairs, put, run, said, test

PHASES = ("data", "forward", "loss", "backward", "step")


@test("the table has the peaks of each phase")
def table():
    words = "plan --batch 1,32,128"
    lines = [line.split() for line in run(words).out.splitlines()]
    plans = said(words + " --json")["plans"]
    assert len(plans) == 3
    for plan in plans:
        cells = [plan["predicted"][phase]["peak_bytes"] for phase in PHASES] + [plan["total_bytes"]]
        row = [str(plan["batch"])] + [f"{cell / 1048576:.2f}" for cell in cells]
        check(any(line[:7] == row for line in lines), "no line", row)


def sixteen(words, first):
    """The plans of the batches from `first`: as many as --batch takes."""
    plans = said(f"plan --json {words} --batch " + ",".join(map(str, range(first, first + 16))))["plans"]
    assert len(plans) == 16
    return plans


def most_of(plan):
    """The largest need of its programs."""
    return max(program["total_bytes"] for program in plan["programs"])


IMAGE_BYTES = 2355  # less than an image takes, as bytes in a slot and as numbers


def check_fit(words, needs, fit_bytes):
    best = max((batch for batch, need in needs.items() if need <= fit_bytes), default=0)
    done = run(f"plan --json --synthetic-n 3000 {words} --no-recompute --fit {fit_bytes}", None)
    if best == 0:
        return check(done.failed_cleanly(4), done)
    x = done.json
    check((x["largest_batch"], x["batch"], x["fit_bytes"], most_of(x)) == (best, best, fit_bytes, needs[best]) and
          x["total_bytes"] <= fit_bytes, done, best, "is the largest")
    assert len(x["fit"]["next"]) == 3
    for i, beside in enumerate(x["fit"]["next"]):
        batch, total = beside["batch"], beside["job_total_bytes"]
        check(batch == best + 1 + i and total > fit_bytes and needs.get(batch, total) == total, done, beside)


@test("the answer is the largest of all batches")
def largest():
    """Each batch is planned alone. No larger one fits the sizes that are asked, since its inputs alone do not. Sizes at the edge of each
    step, where one byte more or less decides, and some between."""
    brute = 2400 if FULL else 300
    dice = random.Random(23)
    for words in ("--model mlp --hidden 4 --optimizer sgd", "--optimizer sgd", "--model mlp --hidden 3 --immediate --optimizer sgd",
                  "--immediate --optimizer momentum", "--update after --threads 2")[:5 if FULL else 2]:
        needs = {first + i: most_of(plan) for first in range(1, brute + 1, 16) for i, plan in enumerate(sixteen(f"--synthetic-n 3000 {words}", first))}
        needs = {batch: need for batch, need in needs.items() if batch <= brute}
        most = max(batch for batch, need in needs.items() if need // IMAGE_BYTES + 40 <= brute or batch == 1)
        check(most > 13, words, "sizes of up to", most, "images")
        for i in range(100 if FULL else 12):
            check_fit(words, needs, needs[dice.randint(1, most)] + dice.randrange(3) - 1 + (dice.randrange(30000) if i % 4 == 3 else 0))
        check_fit(words, needs, needs[1] - 1)


@test("a refusal has the least budget that any plan keeps to")
def least():
    text = random.Random(1).choices(b"abcdefgh \n", k=20000)
    with open("text", "wb") as file:
        file.write(bytes(text))
    for shape in ("--layers 3 --width 64", "--layers 2 --width 96", "--layers 4 --width 32"):
        words = f"plan --model gpt {shape} --heads 2 --context 64 --batch 8 --optimizer adamw --update after --data text:text --memory-budget"
        needed = int(re.search(r"does not fit: ([0-9,]+) bytes", run(f"{words} 1MiB", 4).err)[1].replace(",", ""))
        assert said(f"{words} {needed} --json")["total_bytes"] <= needed
        for less in (1, 64, 4096, 16384, 32768, 36864, 65536):
            err = run(f"{words} {needed - less}", 4).err
            check(f"does not fit: {needed:,} bytes" in err, shape, needed, less, err)


TEXT = "--model gpt --data text:text --layers "
MLP = "--synthetic-n 500 --model mlp --hidden "
SWISH = "--synthetic-n 500 --model swishnet --layers "
NETS = (TEXT + "2 --width 64 --heads 4 --context 64 --optimizer sgd", MLP + "512,512,512,512 --optimizer sgd",
        MLP + "64,32,64,32,64 --activation swish", MLP + "900,30,900,30 --activation swish-naive --dropout 0.2",
        SWISH + "4 --width 256 --activation mish", MLP + "2000 --update after",
        TEXT + "4 --width 32 --heads 2 --context 32", TEXT + "6 --width 16 --heads 1 --context 16 --clip 1",
        TEXT + "3 --width 48 --heads 3 --context 20 --precision bf16", TEXT + "1 --width 128 --heads 2 --context 64",
        "--synthetic-n 500", "--synthetic-n 500 --optimizer sgd --clip 1", "--synthetic-n 500 --activation gelu --dropout 0.1",
        "--synthetic-n 500 --no-rebuild", "--synthetic-n 500 --activation mish --no-strips", SWISH + "6 --width 128 --optimizer sgd",
        SWISH + "10 --width 64 --activation tanh --no-rebuild", MLP + "300,200,100 --no-tiles --accumulate 2",
        TEXT + "2 --width 32 --heads 2 --context 128 --no-chunks", "--synthetic-n 500 --model resnet9 --optimizer sgd")


def more_of(plan):
    r = plan["recompute"]
    return 100 * r["budget_cost"] / (r["cost"] - r["budget_cost"]) if r else 0.0


@test("the answer at an overhead is the largest of all batches from 1 to 64")
def overhead():
    """Each batch is planned alone under the budget. Costs fall with the batch at some places, as the last line knows."""
    put("text", "the quick brown fox jumps over it; " * 1200)
    dice, falls = random.Random(1), 0
    for words in NETS[:20 if FULL else 6]:
        size = most_of(said(f"plan --json {words} --batch {dice.randint(8, 30)}"))
        most = dice.choice((2, 5, 10, 20, 40))
        cost = {}
        for batch in range(1, 65):
            done = run(f"plan --json {words} --memory-budget {size} --batch {batch}", None)
            check(done.status in (0, 4), done)
            if done.status == 0:
                cost[batch] = more_of(done.json)
        best = max(batch for batch in cost if cost[batch] <= most)
        x = said(f"plan --json {words} --fit {size} --overhead {most}%")
        check(x["largest_batch"] == best or x["largest_batch"] > 64, words, size, most, best, x["fit"])
        fit, costs = x["fit"], list(cost.values())
        falls += sum(a > b + 1e-9 for a, b in zip(costs, costs[1:]))
        check(x["total_bytes"] <= fit["best"]["total_bytes"] <= size and abs(fit["best"]["more_time_percent"] - more_of(x)) < 1e-9, fit)
        if x["largest_batch"] == best:
            check(abs(cost[best] - fit["best"]["more_time_percent"]) < 1e-9, words, cost[best], fit)
        # A size that is said to be excluded: no plan of it will do.
        after = fit["next"]
        if after and after["excluded"] and after["batch"] in cost:
            check(cost[after["batch"]] > most, words, after, cost[after["batch"]])
    assert falls > 0 or not FULL


def rows_of(text):
    """The table: value, total_bytes, more time."""
    for line in text.splitlines():
        found = re.match(r" *([\d,]+) +([\d,]+) +([\d.]+) % +[\d.]+ .?s$", line)
        if found:
            yield int(found[1].replace(",", "")), int(found[2].replace(",", "")), found[3]


@test("a curve has at most 12 points, and table, JSON and picture have the same")
def curve():
    put("text", "the quick brown fox jumps over it; " * 1200)
    for words, over, unit in (("--model mlp --fit 3MiB", "batch", "sample_ns"),
                              (TEXT + "2 --width 32 --heads 2 --batch 4 --fit 4MiB --over context", "context", "id_ns"),
                              ("--model swishnet --layers 3 --batch 8 --fit 1MiB --over width --overhead 5", "width", "sample_ns"),
                              (TEXT + "2 --heads 4 --batch 4 --context 32 --fit 4MiB --over width", "width", "sample_ns")):
        x = said(f"plan --json --curve {words}")
        points = x["fit"]["curve"]
        values = [p[over] for p in points]
        check(3 < len(points) <= 12 and values == sorted(set(values)) and all(p["total_bytes"] <= x["fit_bytes"] and p[unit] > 0 for p in points), x["fit"])
        check("--overhead" in words or values[-1] == x["largest_" + over], x["fit"])
        done = run(f"plan --curve {words} --svg curve.svg")
        check(list(rows_of(done.out)) == [(p[over], p["total_bytes"], f"{p['more_time_percent']:.2f}") for p in points], done, points)
        text = get("curve.svg")
        xml.etree.ElementTree.fromstring(text.encode())
        check(text.count("<circle ") == len(points) and all(f"<title>{over} {v:,}: " in text for v in values), text)
        # A point is what plan says of that value.
        for p in points[:: 4 if FULL else 11]:
            alone = said(f"plan --json {re.sub('--over(head)? [^ ]+|--fit [^ ]+', '', words)} --{over} {p[over]} --memory-budget {x['fit_bytes']}")
            check(alone["total_bytes"] <= p["total_bytes"] and abs(more_of(alone) - p["more_time_percent"]) < 1e-9, p, alone)


@test("an interrupt ends a search")
def interrupt():
    put("text", "the quick brown fox jumps over it; " * 1200)
    job = Run("plan --curve --fit 8GiB --vocabulary 50257 --width 768 --context 1024 --heads 12 " + TEXT + "12")
    time.sleep(0.3)
    job.send(signal.SIGINT)
    check(job.wait(10).status == -signal.SIGINT, job)


@test("what lives at one time grows with the batch")
def bound():
    """The bound that excludes larger batches: model, data and the most that lives at one time."""
    for words in ("", "--isa base --clip 1", "--model mlp --update after", "--model mlp --hidden 7,300,9 --optimizer nesterov"):
        before = 0
        for first in range(60, 4000 if FULL else 140, 16):
            for plan in sixteen(words, first):
                least = plan["model_bytes"] + plan["data_bytes"] + plan["lower_bound_bytes"]
                check(before <= least <= plan["total_bytes"], words, "batch", plan["batch"], least, "after", before)
                before = least


def storages(text):
    """bytes, offset, birth, death of each tooltip; None: it takes the place of another."""
    for title in re.findall("<title>(.*?)</title>", text, re.S):
        number = lambda before: int(re.search(before + r"([\d,]+)", title).group(1).replace(",", ""))
        assert ", dies at op " in title or "read out at the end" in title
        death = number(", dies at op ") if ", dies at op " in title else 1 << 32
        yield ("takes the place" in title, number(", "), number("at offset "), number("born at op "), death)


@test("the picture shows every storage in its place")
def picture():
    names = 0
    for words in ("", "--model mlp --update after --batch 5", "--optimizer sgd --batch 17", "--fit 5MiB",
                  "--model mlp --hidden 9,9,9,9 --synthetic-n 40"):
        x = said(f"plan --json {words} --svg plan.svg")
        text = get("plan.svg")
        xml.etree.ElementTree.fromstring(text.encode())
        assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<svg ')
        all_of = list(storages(text))
        assert 10 < len(all_of) == text.count('<rect class="s ')
        for a, b in pairs([s[1:] for s in all_of if not s[0]]):
            check(a[2] > b[3] or b[2] > a[3] or a[1] >= b[1] + b[0] or b[1] >= a[1] + a[0], words, a, "lies on", b)
        assert max(s[1] + s[2] for s in all_of) == x["arena_bytes"]
        # A name stands in the rectangle before it, with the widest letters of usual fonts; others are left out.
        for rect, begin, name in re.findall(r'(<rect [^>]*>)(?:(?!<rect ).)*?<text class="name" x="([\d.]+)"[^>]*>([^<]*)<', text, re.S):
            left, width = (float(re.search(f' {key}="([^"]*)"', rect).group(1)) for key in ("x", "width"))
            check(left < float(begin) and float(begin) + 6.9 * len(name) < left + width, name, begin, left, width)
            names += 1
        for part in (">forward<", ">loss<", ">saved<", ">gradient<", "prefers-color-scheme", ">backward<"):
            check(part in text, words, "no", part)
        assert text.count("http") == 1  # it names no other file
    assert names > 10


main("plan")
