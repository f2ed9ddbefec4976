#!/usr/bin/env python3
"""The last column of runtime/ops/SAVED.md: what a plain autograd saves, counted in PyTorch.

usage: compare_saved.py runtime/ops/SAVED.md

Each formula of the column is evaluated; saved_tensors_hooks see what autograd saves, distinct
storages are counted once and parameters not at all. The bytes must be those that stand before
 the formula. Exit status 77 (skipped) where PyTorch is missing.
"""
import re
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROWS, COLS, IMAGES, CHANNELS, SIDE, GROUPS = 6, 32, 4, 6, 8, 3


def operands():
    """The names that formulas may have: results of other ops, so autograd saves them; parameters; inputs."""
    make = torch.Generator().manual_seed(5)

    def made(*shape):
        return torch.rand(*shape, generator=make).requires_grad_().clone()

    def parameter(*shape):
        return torch.nn.Parameter(torch.rand(*shape, generator=make))

    return {
        "torch": torch, "F": F, "eps": 1e-5, "groups": GROUPS,
        "x": made(ROWS, COLS), "y": made(ROWS, COLS), "image": made(IMAGES, CHANNELS, SIDE, SIDE),
        "s": made(IMAGES, CHANNELS, 1, 1), "q": made(2, 3, 16, 8), "u": made(2, 3, 16, 8), "v": made(2, 3, 16, 8),
        "scores": torch.empty(2, 3, 16, 16),
        "w": parameter(COLS, COLS), "b": parameter(COLS), "f": parameter(()),
        "k": parameter(CHANNELS, CHANNELS, 3, 3), "c": parameter(CHANNELS, 1, 1),
        "t": torch.rand(ROWS, COLS, generator=make) + 0.1,
        "mean": torch.rand(CHANNELS, 1, 1), "var": torch.rand(CHANNELS, 1, 1),
        "labels": torch.randint(0, COLS, (ROWS,), generator=make),
        "ids": torch.randint(0, COLS, (ROWS, 5), generator=make),
        "mask": torch.rand(ROWS, COLS, generator=make) > 0.5,
    }  # fmt: skip


def saved_bytes(formula, names):
    """The bytes that the formula saves, and its result."""
    parameters = {v.untyped_storage().data_ptr() for v in names.values() if isinstance(v, torch.nn.Parameter)}
    seen = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            seen[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = eval(formula, dict(names))
    return sum(nbytes for nbytes, _ in seen.values()), result


def counted(text, names, formula, result):
    """The bytes of "4 of in0 + 8 per row"; other operands by their names in the formula."""
    first = next(names[name] for name in ("image", "q", "x") if re.search(rf"\b{name}\b", formula) or name == "x")
    units = {f"of {name}": value.numel() for name, value in names.items() if isinstance(value, torch.Tensor)}
    units |= {
        "": result.numel(), "of in0": first.numel(), "of in1": names["t"].numel(),
        "per row": ROWS, "per channel": CHANNELS, "per group": IMAGES * GROUPS, "per image": IMAGES,
    }  # fmt: skip
    total = 0
    for term in text.split(" + "):
        match = re.fullmatch(r"(\d+) ?(.*)", term)
        if match is None or match[2] not in units:
            raise ValueError(f"'{term}' is not a number of bytes")
        total += int(match[1]) * units[match[2]]
    return total


def check(cell):
    """A fault of a cell, or None."""
    match = re.fullmatch(r"(.*?): `(.*)`", cell)
    if match is None:
        return None if cell == "0" else f"'{cell}' has no formula"
    names = operands()
    got, result = saved_bytes(match[2], names)
    want = counted(match[1], names, match[2], result)
    return None if got == want else f"{match[1]}: {want} bytes stand on the page, {got} are saved by {match[2]} ({tuple(result.shape)})"


def main():
    n = faults = 0
    planted = ["4: `x * torch.sigmoid(x)`", "8 + 4: `torch.exp(x)`", "8"]
    for cell in planted:
        if check(cell) is None:
            print(f"planted and not found: {cell}")
            faults += 1
    with open(sys.argv[1], encoding="utf-8") as page:
        rows = [line.strip().strip("|").split(" | ") for line in page if line.startswith("| ")]
    for row in rows[1:]:
        fault = check(row[5].strip()) if len(row) == 6 else "a row must have six cells"
        n += 1
        if fault is not None:
            faults += 1
            print(f"{row[0].strip()}: {fault}")
    print(f"{n} rows, {faults} faults")
    return 1 if faults > 0 or n < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
