#!/usr/bin/env python3
"""Which kernels a real device has checked last, and with which sources: tests/cuda/DEVICE.md.

    device_list.py SOURCE_DIR BUILD_DIR mark [--out FILE] [DATE CARD DRIVER]
    device_list.py SOURCE_DIR BUILD_DIR ops
    device_list.py SOURCE_DIR BUILD_DIR test

mark: of the entries on standard input (op, which, how many the op has, passed or failed; of any number of processes), ops that
have passed with all of theirs have passed on that card as the sources are now. Without a card it brings the list to the ops and
files of today. ops: the ops of the module's table, one in a line.
A kernel's sources are the .cu files that its entries are in and all that they include of this project, without comments; their
hash is kept with the date, the card and its driver. A kernel that no device has checked since its sources changed is stale: it
is shown, never an error.
"""
import hashlib, os, re, subprocess, sys, tempfile

HEAD = """# Kernels on a real device

Which sources a device has checked last, by the hash of the files and of what they include,
comments left out. Written by the suite that runs on a device; a kernel whose sources have
another hash now is stale. `device_list.py test` shows what is.

| kernel | files | sources | date | card | driver |
|---|---|---|---|---|---|
"""


class Bad(Exception):
    pass


def texts_of(folders, path, seen):
    """The file and what it includes, each once, without comments; looked for in the folders in turn."""
    if path in seen:
        return ""
    seen.add(path)
    for folder in folders:
        if os.path.exists(os.path.join(folder, path)):
            with open(os.path.join(folder, path)) as f:
                text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", f.read(), flags=re.S)
            break
    else:
        raise Bad("a source cannot be read: " + path)
    included = "".join(texts_of(folders, p, seen) for p in re.findall(r'^#\s*include "([^"]+)"', text, re.M))
    return included + " ".join(text.split()) + "\n"


def hash_of(folders, *paths):
    return hashlib.sha256("".join(texts_of(folders, p, set()) for p in paths).encode()).hexdigest()[:16]


def entries_of(source, build):
    """(op, function) of the module's table, in its order."""
    def read(folder, path):
        with open(os.path.join(folder, path)) as f:
            return f.read()
    unary = re.findall(r"^SW_(?:UNARY|BENT|POWER)\((\w+)", read(source, "kernels/unary.def"), re.M)
    updates = re.findall(r"^SW_OPTIMIZER\((\w+)", read(source, "kernels/optimizers.def"), re.M)
    entries = [(op, "sw_cuda_%s_forward" % op) for op in unary + [kind + "_update" for kind in updates]]
    return entries + re.findall(r"^SW_CUDA_KERNEL\((\w+), \S+, (\w+),", read(build, "kernels/cuda/units.def"), re.M)


def kernels(source, build):
    """{op: [files, hash]} of the module's table, in its order; nothing is checked yet."""
    units = sorted(f[:-3] for f in os.listdir(os.path.join(source, "kernels/cuda")) if f.endswith(".cu"))
    home = {}  # of each function
    for unit in units:
        objects = [os.path.join(build, "kernels/cuda/%s.o" % unit), os.path.join(build, "tests/cuda/libsw_emulated_kernels_cuda_%s.a" % unit)]
        out = subprocess.run(["nm", "--defined-only"] + [o for o in objects if os.path.exists(o)][:1], capture_output=True, text=True).stdout
        home.update((name, unit) for name in re.findall(r" T (sw_cuda_\w+)", out))
    files = {}
    for op, function in entries_of(source, build):
        if function not in home:
            raise Bad("no objects of the kernels, or no nm: " + function)
        if home[function] not in files.setdefault(op, []):
            files[op].append(home[function])
    paths = {unit: "kernels/cuda/%s.cu" % unit for unit in units}
    return {op: ["+".join(of), hash_of([source, build], *(paths[u] for u in of))] for op, of in files.items()}


def read_list(text, ops):
    """{op: [hash, date, card, driver]} of what the list says was checked; ops that are not there now are dropped."""
    head, _, rows = text.partition("|---|")
    if not rows:
        raise Bad("the list has no table")
    checked = {}
    for row in rows.split("\n")[1:-1]:
        cells = [c.strip() for c in row.split("|")]
        if len(cells) != 8 or (cells[4] != "never" and not re.fullmatch("[0-9a-f]{16}", cells[3])):
            raise Bad("no row of the list: " + row)
        if cells[4] != "never" and cells[1] in ops:
            checked[cells[1]] = cells[3:7]
    return checked


def write_list(ops, checked):
    row = "| %s | %s | %s | %s | %s | %s |\n"
    return HEAD + "".join(row % (op, files, *checked.get(op, ["-", "never", "-", "-"])) for op, (files, _) in ops.items())


def passed(text):
    """Ops of which all entries have passed in a process or another, and none has failed."""
    rows = {tuple(line.split()) for line in text.splitlines()}
    failed = {op for op, _, _, word in rows if word != "passed"}
    return sorted({op for op, _, n, _ in rows if op not in failed and int(n) == sum(row[0] == op for row in rows)})


def mark(ops, checked, names, date, card, driver):
    for op in names:
        if op not in ops:
            raise Bad("no kernel of the module: " + op)
        checked[op] = [ops[op][1]] + [re.sub(r"[|\n]", "/", cell) for cell in (date, card, driver)]


def state(ops, checked, op):
    return ("never on a device" if op not in checked else "checked on a device as they are" if checked[op][0] == ops[op][1]
            else "changed since they were on a device")


def test(source, ops, text):
    """The list as it is today is shown; changes are noticed."""
    def refused(call, *args):
        try:
            call(*args)
        except Bad:
            return True
        return False
    checked = read_list(text, ops)
    for what in ("never on a device", "changed since they were on a device", "checked on a device as they are"):
        of = [op for op in ops if state(ops, checked, op) == what]
        print("%s: %d of %d: %s" % (what, len(of), len(ops), " ".join(of)))
    assert len(ops) > 50 and all(files and len(now) == 16 for files, now in ops.values())
    with tempfile.TemporaryDirectory() as folder:
        def of(unit, part):
            for name, its in (("unit.cu", unit), ("part.h", part)):
                with open(os.path.join(folder, name), "w") as f:
                    f.write(its)
            return hash_of([folder], "unit.cu")
        unit, part = '#include "part.h"\n#include <none.h>\nint a = 1; /* one */\n', '#include "unit.cu"\nint b;\n'
        was = of(unit, part)
        assert was == of(unit, part) == of(unit.replace("/* one */", " // two").replace(" 1", "  1"), "/* three */ " + part)
        assert was != of(unit.replace("1", "2"), part) and was != of(unit, part.replace("b", "c"))
        assert refused(of, '#include "missing.h"\n', "")
    assert hash_of([source], "kernels/cuda/rows.cu") != hash_of([source], "kernels/cuda/device.h")
    assert next(iter(ops)) == "relu"
    checked = {}
    mark(ops, checked, ["relu"], "2031-02-03", "a|card", "600.1")
    assert refused(mark, ops, checked, ["no_such_op"], "2031-02-03", "card", "600.1")
    assert read_list(write_list(ops, checked), ops) == {"relu": [ops["relu"][1], "2031-02-03", "a/card", "600.1"]}
    assert read_list(write_list(ops, checked), {}) == {}
    assert [state(ops, checked, op).split()[0] for op in ("relu", "tanh")] == ["checked", "never"]
    assert state({**ops, "relu": ["unary", "0" * 16]}, checked, "relu").startswith("changed")
    assert passed("relu -1 2 passed\nadd -1 3 passed\nrelu 0 2 passed\nrelu 0 2 passed\nmul -1 1 failed\nmul -1 1 passed\n") == ["relu"]
    for bad in ("|---|\n| relu | unary | 12 | 2031-02-03 | card | 1 |\n", "|---|\n| relu | unary |\n", ""):
        assert refused(read_list, bad, ops)
    print("1 passed, 0 failed, 0 skipped")


def main(source, build, what, *rest):
    path = os.path.join(source, "tests/cuda/DEVICE.md")
    out = path
    if rest[:1] == ("--out",):
        out, rest = rest[1], rest[2:]
    if what == "ops":
        return print("\n".join(dict.fromkeys(op for op, _ in entries_of(source, build))))
    ops = kernels(source, build)
    with open(path) as f:
        text = f.read()
    if what == "test":
        return test(source, ops, text)
    if what != "mark" or len(rest) not in (0, 3):
        raise Bad("expected ops, test, or mark with DATE CARD DRIVER or nothing")
    checked = read_list(text, ops)
    if rest:
        mark(ops, checked, passed(sys.stdin.read()), *rest)
    with open(out, "w") as f:
        f.write(write_list(ops, checked))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Bad as e:
        sys.exit("device_list.py: %s" % e)
