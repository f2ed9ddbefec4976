#!/usr/bin/env python3
"""Rows of `stepwell bench NAME --json` as a Markdown table, as MEASURED.md has them.

usage: stepwell bench NAME --json | table.py ARRAY KEY...
       stepwell bench NAME --json | table.py ARRAY --by ROW COLUMN CELL...

ARRAY is the name of the rows ("rows", "ops"). A KEY is a column: a member, or one of a summary (times.min_ns, in ms). With
--by each value of COLUMN is a column of its own, each of ROW a row, and a cell has least and then others in brackets.
"""
import json
import sys


def cell(row, key):
    for part in key.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    if row is None:
        return ""
    if key.endswith("_ns"):
        return f"{row / 1e6:.3f}"
    return f"{row:.2f}" if isinstance(row, float) else str(row)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.split("\n\n")[1])
    rows, words = json.load(sys.stdin)[sys.argv[1]], sys.argv[2:]
    if words[0] == "--by":
        by, across, first, *more = words[1:]
        heads = [by, *dict.fromkeys(cell(r, across) for r in rows)]
        table = {cell(r, by): {} for r in rows}
        for r in rows:
            others = ", ".join(cell(r, key) for key in more)
            table[cell(r, by)][cell(r, across)] = cell(r, first) + (f" ({others})" if others else "")
        lines = [[name, *(found.get(head, "") for head in heads[1:])] for name, found in table.items()]
    else:
        heads, lines = words, [[cell(r, key) for key in words] for r in rows]
    for line in [heads, ["---"] * len(heads), *lines]:
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main()
