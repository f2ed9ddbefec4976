#!/usr/bin/env python3
"""PyTorch's answers to NaN, infinities, huge numbers, zeros and kinks: tests/ops/special_values.txt.

usage: special.py write PAGE    write the table
       special.py check PAGE    compare its answers with those of the PyTorch that is installed

A row has cases of an op: operands, the gradient of the result, PyTorch's result and gradients
in float32, and, where stepwell differs on purpose, its answers and the reason. The page's head
says how tensors are written. tests/ops/special.c holds stepwell to it.
Exit status 77 (skipped) where PyTorch or NumPy is missing.
"""
import re
import sys

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.dont_write_bytecode = True  # of the two beside this
from special_cases import DIFFERENT, GROUPS, unseen
from special_ops import MIN, evaluate, in_runs, op, text

HEAD = """\
# The answers of PyTorch {version}, on a CPU and in float32, to NaN, infinities, huge numbers, zeros and kinks, for every op.
# Written by tests/torch/special.py; tests/ops/special.c holds stepwell to it: every instruction set, planned and immediate,
# and the kernels of the CUDA module under the emulator.
#
# op | operands | gradient of the result | result | gradients of the operands [| our result | our gradients | reason]
#
# A tensor: its shape, as "(2,3)", and its values apart by commas, "v*n" for n times v. A row has many cases, one after the other in each
# tensor's values. Where no operand has a shape, the op is elementwise, and a case is run on many copies of its numbers. Before a tensor: i, u whole
# numbers (I32, U8), c a constant without a gradient. "-": none. "~": the numbers are not looked at: what the zeros of padding are multiplied with (image gradients
# of a weight that is not finite; the weight's, of a transposed convolution), and what keys that a query does not see give (causal attention), is a matter of the kernel.
#
# A NaN has to be a NaN and an infinity the same infinity; a number agrees within 1e-5 of the largest finite one of its tensor, and
# where there are shapes within 5e-7.
# The sign of a zero is not looked at, and a number below 1.1754944e-38 may be 0: denormals are flushed during a run.
#
# A row with a reason differs on purpose: its last three columns are stepwell's answers, and it fails where they are PyTorch's.
"""


def answer(name, operands, dy, used):
    """The cells of one case."""
    y, slope, grads = evaluate(op(name), operands, dy)
    shape = None if all(o.shape is None for o in operands) else tuple(y.shape)
    shapes, blank = [o.shape for o in operands if o.kind == ""], unseen(name, operands, dy)

    def texts(y, grads):
        given = ["~" if i in blank else text(g.numpy(), s) for i, (g, s) in enumerate(zip(grads, shapes))]
        return [text(y.numpy(), shape), " ".join(given) or "-"]

    cells = [name, " ".join(o.text() for o in operands), text(slope.numpy(), shape) if grads else "-"] + texts(y, grads)
    for i, (applies, ours, why) in enumerate(DIFFERENT):
        if not applies(name, operands, dy, y, grads):
            continue
        used.add(i)
        own = texts(*ours(name, operands, dy, y, grads))
        if own != cells[3:]:
            return cells + own + [why]
    return cells


def side_by_side(cases):
    """Rows of cells: cases share a row where op, kinds and shapes of all tensors, and reason are the same."""
    found = {}
    for cells in cases:
        heads = [[re.match(r"[~-]$|([uc]|i(?!n))?(\([^)]*\))?", w).group() for w in c.split(" ")] for c in cells[1:7]]
        rows = found.setdefault((cells[0], repr(heads), *cells[7:]), (heads, []))[1]
        if cells not in rows:
            rows.append(cells)
    for heads, rows in found.values():
        row = list(rows[0])
        for i, words in enumerate(heads, 1):
            places = zip(*(cells[i].split(" ") for cells in rows))
            row[i] = " ".join(h + in_runs(v for w in ws for v in apart(w[len(h) :]) if v) for h, ws in zip(words, places))
        yield row


def apart(body):
    """The values of "1,nan,-0*3"."""
    pairs = [w.partition("*") for w in body.split(",")]
    return [value for value, _, times in pairs for _ in range(int(times or 1))]


def page():
    used = set()
    cases = [answer(*case, used) for group in GROUPS for case in group()]
    lines = [HEAD.format(version=torch.__version__.split("+")[0]), *map(" | ".join, side_by_side(cases))]
    for i, (_, _, why) in enumerate(DIFFERENT):
        assert i in used, f"no row differs because {why}"
    return "\n".join(lines) + "\n"


def numbers(cell):
    """The tensors of a cell: their shapes and values."""
    found = []
    for part in cell.split(" "):
        head, _, body = part.rpartition(")")
        found.append((head, apart(body or part)))
    return found


def is_same(mine, theirs):
    """Other versions and processors sum in another order: as special.c compares."""
    for (head, a), (other, b) in zip(mine, theirs):
        if head != other or len(a) != len(b):
            return False
        if a in (["~"], ["-"]) or b in (["~"], ["-"]):
            if a != b:
                return False
            continue
        size = int(np.prod([int(d) for d in re.findall(r"\d+", head)])) if head else 1  # of a case
        x, y = np.array(a, dtype=np.float64).reshape(-1, size), np.array(b, dtype=np.float64).reshape(-1, size)
        error = 1e-5 * np.max(np.abs(y), axis=1, keepdims=True, initial=0.0, where=np.isfinite(y)) + (5e-7 if head else 0.0)
        with np.errstate(invalid="ignore"):
            difference = np.abs(x - y)
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | (difference <= error) | ((np.abs(x) < MIN) & (np.abs(y) < MIN))
        if not same.all():
            return False
    return len(mine) == len(theirs)


def check(path):
    """Each row of the page, in this PyTorch."""
    with open(path, encoding="utf-8") as file:
        written = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    now = [line for line in page().split("\n") if line.strip() and not line.startswith("#")]
    faults = abs(len(now) - len(written))
    for old, new in zip(written, now):
        a, b = old.split(" | "), new.split(" | ")
        if a[:3] != b[:3] or len(a) != len(b) or a[7:] != b[7:] or not all(is_same(numbers(x), numbers(y)) for x, y in zip(a[3:7], b[3:7])):
            faults += 1
            print(f"the page has  {old}\nPyTorch says  {new}")
    print(f"{len(written)} rows, {faults} faults, PyTorch {torch.__version__}")
    return faults == 0


def main(how, path):
    torch.set_num_threads(1)
    if how == "write":
        whole_page = page()
        with open(path, "w", encoding="utf-8") as file:
            file.write(whole_page)
        return True
    return check(path)


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
