#!/usr/bin/env python3
"""`stepwell place`: what is written, and that every placement holds. The check here is quadratic and plain."""
import os
import random
import signal

from frame import FULL, Run, check, data, get, main, pairs, put, run, said, test

HEAD = "id,lower,upper,size\n"
SMALL = HEAD + "first,0,4,10\na b,2,6,20\n7,4,9,10\n"


def place_to(source, words, **env):
    if os.path.exists("out.csv"):
        os.unlink("out.csv")
    return run(f"place {source} {words} --json --out out.csv", **env)


def rows_of(source):
    """lower, upper, size, offset of each row; line by line they are `source` and an offset."""
    head, *lines = get("out.csv").splitlines()
    first, *before = get(source).splitlines()
    assert head == first + ",offset" and [line.rpartition(",")[0] for line in lines] == before
    return [[int(x) for x in line.split(",")[1:]] for line in lines]


def height(rows):
    return max((row[-1] + row[2] for row in rows), default=0)


def check_rows(rows):
    """No pair that lives together overlaps."""
    for a, b in pairs(rows):
        check(a[0] >= b[1] or b[0] >= a[1] or a[-1] >= b[-1] + b[2] or b[-1] >= a[-1] + a[2], a, "overlaps", b)


def check_written(source, x):
    """After `place SOURCE --json --out out.csv` that ended well."""
    rows = rows_of(source)
    assert (x["buffers"], x["height"], x["solved"], x["written"]) == (len(rows), height(rows), True, True)
    assert not x["optimal"] or x["height"] == x["proved"]
    if len(rows) <= 2000:
        check_rows(rows)
    return x


@test("a placement holds and keeps the rows")
def small():
    put("small.csv", SMALL)
    done = place_to("small.csv", "")
    x = check_written("small.csv", done.json)
    assert (x["optimal"], x["height"], x["lower_bound"], x["capacity"], done.out.count("\n")) == (True, 30, 30, None, 1)
    done = run("place small.csv")
    check(done.err == "" and "the optimum: the lower bound is reached" in done.out, done)
    assert run("place small.csv --quiet").out == "30\n"


@test("random problems are placed soundly")
def soundly():
    dice = random.Random(5)
    for turn in range(200 if FULL else 12):
        scale = (1, 0x00ffffffffffff)[turn % 2]
        end = dice.randint(2, 301)
        lowers = [dice.randrange(end - 1) for _ in range(dice.randint(1, 400))]
        put("random.csv", HEAD + "".join(f"v{i},{lower * scale},{dice.randint(lower + 1, end - 1) * scale},{dice.randint(1, 1000)}\n"
                                         for i, lower in enumerate(lowers)))
        check_written("random.csv", place_to("random.csv", "--nodes 200").json)


@test("alignments hold")
def aligned():
    """Offsets are multiples of what each row asks for, and the check knows them."""
    asked = {"a,0,4,128": 64, "b,2,6,65": 1, "c,4,9,64": 48, "d,0,9,3": 7}
    put("aligned.csv", HEAD[:-1] + ",alignment\n" + "".join(f"{row},{n}\n" for row, n in asked.items()))
    put("plain.csv", HEAD + "".join(f"{row}\n" for row in asked))
    x = place_to("aligned.csv", "").json
    rows = rows_of("aligned.csv")
    assert x["optimal"] and x["lower_bound"] == 196 and x["height"] == height(rows) and len(rows) == 4
    assert all(offset % alignment == 0 for _, _, _, alignment, offset in rows)
    check_rows(rows)
    assert said("place plain.csv --json")["height"] == 196


@test("a capacity is met or refused")
def capacity():
    """Seven buffers of which no placement has the lower bound of 6: found by trying them all."""
    put("tight.csv", HEAD + "a,3,5,1\nb,0,3,3\nc,5,7,3\nd,2,4,1\ne,2,5,2\nf,4,6,3\ng,1,2,3\n")
    put("kept.csv", "as it was")
    done = run("place tight.csv --capacity 5 --out kept.csv", 4)
    check(done.failed_cleanly(4) and " proved: no placement within 5 bytes" in done.err, done)
    done = run("place tight.csv --capacity 6 --json --out kept.csv", 4)
    x = done.json
    says = {"no_fit": ": proved: no", "gave_up": "not proved: no"}[x["end"]]
    check(not x["solved"] and not x["written"] and x["height"] > 6 and says in done.err, done)
    assert get("kept.csv") == "as it was"
    assert check_written("tight.csv", place_to("tight.csv", "--capacity 8").json)["height"] <= 8
    assert check_written("tight.csv", place_to("tight.csv", "--prove").json)["height"] == 7


@test("an interrupt writes the best so far")
def interrupt():
    """The signal comes while the file is read from a pipe: the search ends at once."""
    put("small.csv", SMALL)
    os.mkfifo("pipe")
    place = Run("place pipe --json --out out.csv")
    with open("pipe", "w", encoding="utf-8") as pipe:  # waits for the reader, which heeds signals
        pipe.write(SMALL[:40])
        pipe.flush()
        place.send(signal.SIGINT)
        pipe.write(SMALL[40:])
    check(place.wait(60).status == 130 and place.json["interrupted"], place)
    check_written("small.csv", place.json)


@test("a limit that is over leaves a placement")
def hurried():
    """The limit is over before the file is read: a whole placement all the same, and it says so."""
    put("many.csv", HEAD + "".join(f"{i},{i // 3},{i // 3 + 1 + i * 7919 % 40},{1 + i * 104729 % 1000}\n" for i in range(20000)))
    x = check_written("many.csv", place_to("many.csv", "--time-limit 0.000001").json)
    assert x["hurried"] and x["timed_out"] and not x["optimal"]
    assert "when it had to end" in run("place many.csv --time-limit 0.000001").out


@test("known problems are placed soundly")
def known():
    for name in [f"minimalloc/{x}.1048576.csv" for x in "ABCEGI"] + [f"placement-large/{x}.csv" for x in ("G_1", "resnet50", "S_1")]:
        source = data(name)
        check_written(source, place_to(source, f"--time-limit {5 if FULL else 0.2}").json)


main("place")
