#!/usr/bin/env python3
"""PyTorch's answers to NaN, infinities, huge numbers, zeros and kinks: tests/ops/special_values.txt.

usage: special.py write PAGE    write the table
       special.py check PAGE    compare its answers with those of the PyTorch that is installed

A row is a case of an op, or all cases of one number: operands, the gradient of the result, PyTorch's result and gradients
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
# A tensor: its shape, as "(2,3)", and its values apart by commas, "v*n" for n times v. Where no operand has a shape, the op is
# elementwise, and each place of the lists is a case, which is run on many copies of its numbers. Before a tensor: i, u whole numbers (I32, U8), c a constant
# without a gradient. "-": none. "~": the numbers are not looked at: what the zeros of padding are multiplied with (image gradients
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
    """Rows of cells: cases of one number each share a row where op, kinds of operands and reason are the same."""
    found = {}
    for cells in cases:
        kinds = [re.match("([uc]|i(?!n))?", w).group() for w in cells[1].split(" ")]
        key = (cells[0], *kinds, *cells[7:]) if "(" not in cells[1] else (*cells,)
        rows = found.setdefault(key, (kinds, []))[1]
        if cells not in rows:
            rows.append(cells)
    for kinds, rows in found.values():
        row = list(rows[0])
        for i in range(1, min(len(row), 7)) if len(rows) > 1 else ():
            before = kinds if i == 1 else [""] * len(row)
            places = zip(*(cells[i].split(" ") for cells in rows))
            row[i] = " ".join(k + in_runs(w[len(k):] for w in words) for k, words in zip(before, places)) if row[i] != "-" else "-"
        yield row


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
        values = []
        for w in (body or part).split(","):
            value, _, times = w.partition("*")
            values += [value] * int(times or 1)
        found.append((head, values))
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
        x, y = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
        finite = np.abs(y[np.isfinite(y)])
        error = 1e-5 * (finite.max() if finite.size else 0.0) + 5e-7 if head else 1e-5 * np.abs(y)
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
