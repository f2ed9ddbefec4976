#!/usr/bin/env python3
"""stepwell plan: the table of several batches, the largest batch that fits, the picture."""
import random
import re
import xml.etree.ElementTree

from frame import FULL, check, get, main, pairs, run, said, test

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
    done = run(f"plan --json --synthetic-n 1000 {words} --no-recompute --fit {fit_bytes}", None)
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
        needs = {first + i: most_of(plan) for first in range(1, brute + 1, 16) for i, plan in enumerate(sixteen(f"--synthetic-n 1000 {words}", first))}
        needs = {batch: need for batch, need in needs.items() if batch <= brute}
        most = max(batch for batch, need in needs.items() if need // IMAGE_BYTES + 40 <= brute or batch == 1)
        check(most > 13, words, "sizes of up to", most, "images")
        for i in range(100 if FULL else 12):
            check_fit(words, needs, needs[dice.randint(1, most)] + dice.randrange(3) - 1 + (dice.randrange(30000) if i % 4 == 3 else 0))
        check_fit(words, needs, needs[1] - 1)


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
