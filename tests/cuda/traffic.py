#!/usr/bin/env python3
"""Loads, stores and instructions of hot kernels for each element, from their machine code: a table of kernels/cuda/README.md.

usage: traffic.py SASS_DIR      with UNIT.sass: what `cuobjdump -sass` prints of a unit that nvcc compiled for sm_90

A pass is a loop over elements, given by the accesses to global memory of one trip. Counted is the shortest way through an innermost
loop that has exactly those: other ways are of other types, ranks and rules. Calls, for divisions that are not normal, are not
followed. A strided position is divided for each axis but the first, by a product whose high half is DIVISION.
"""
import collections, re, sys

DIVISION, FFMA = "IMAD.WIDE.U32.X", "FFMA"
BYTES = {"LDG.128": 16, "LDG.64": 8, "LDG": 4, "LDG.U16": 2, "LDG.U8": 1, "STG.128": 16, "STG.64": 8, "STG": 4, "STG.U16": 2}
ISSUED, MEMORY = 33.5, 4.8  # of an H200 in a second: 10^12 instructions of a lane, as many as multiply-adds, and TB

# name, unit, kernel, bytes that come from memory and go there, passes: accesses, elements
TABLE = [
    ("norm, warp", "rows", r"norm_kernelI.*ILi32ELi4E", 8, [({"LDG.128": 16}, 64), ({"LDG.128": 4}, 16), ({"LDG.128": 12, "STG.128": 4}, 16)]),
    ("norm, dx", "rows", r"norm_dx_kernelI.*ILi32ELi4E", 12, [({"LDG.128": 12}, 16), ({"LDG.128": 6, "STG.128": 2}, 8)]),
    ("softmax", "rows", r"softmax_kernelI.*ILi32ELi4E", 8, [({"LDG.128": 4}, 16), ({"LDG.128": 1, "STG.128": 1}, 4)]),
    ("softmax, dx", "rows", r"softmax_dx_kernelI.*ILi32ELi4E", 12, [({"LDG.128": 8}, 16), ({"LDG.128": 2, "STG.128": 1}, 4)]),
    ("cross-entropy", "losses", r"cross_entropy_kernelI.*ILi256ELi4E", 4, [({"LDG.128": 4}, 16)]),
    ("cross-entropy, dx", "losses", r"cross_entropy_dx_kernelI.*ILi256ELi4E", 8, [({"LDG.128": 2, "STG.128": 2}, 8)]),
    ("embedding", "embedding", r"take_kernelI.*ILi32ELi4E", 8, [({"LDG.128": 2, "STG.128": 2}, 8)]),
    ("strided copy, 2 axes", "arith", r"strided_kernelILi4ELi1E6of_oneI6itself", 8, [({"LDG.128": 1, "STG.128": 1, DIVISION: 1}, 4)]),
    ("strided copy, 3 axes", "arith", r"strided_kernelILi4ELi1E6of_oneI6itself", 8, [({"LDG.128": 1, "STG.128": 1, DIVISION: 2}, 4)]),
    ("transposed copy", "arith", r"strided_kernelILi4ELi1E6of_oneI6itself", 8, [({"LDG": 4, "STG.128": 1, DIVISION: 1}, 4)]),
    ("copy one by one, 2 axes", "arith", r"strided_kernelILi1ELi1E6of_oneI6itself", 8, [({"LDG": 1, "STG": 1, DIVISION: 1}, 1)]),
    ("concat, 2 axes", "arith", r"copy_kernelI6float4", 8, [({"LDG.128": 1, "STG.128": 1, DIVISION: 1}, 4)]),
    ("x + row", "arith", r"strided_kernelILi4ELi2E6add_of", 8, [({"LDG.128": 2, "STG.128": 1, DIVISION: 1}, 4)]),
    ("x + column", "arith", r"strided_kernelILi4ELi2E6add_of", 8, [({"LDG.128": 1, "LDG": 1, "STG.128": 1, DIVISION: 1}, 4)]),
    ("db", "linear", r"reduce_alongI18sw_cuda_column_sum", 4, [({"LDG": 4}, 4)]),
    ("db, bf16", "linear", r"reduce_alongI18sw_cuda_column_sum", 2, [({"LDG.U16": 4}, 4)]),
    ("convolution, db", "conv", r"planes_sumI.*ILi256ELi4E.*6db_sum", 4, [({"LDG.128": 4}, 16)]),
    ("update, 1 state", "optim", r"update_kernel", 20, [({"LDG.128": 3, "STG.128": 2}, 4)]),
    ("update, 2 states", "optim", r"update_kernel", 28, [({"LDG.128": 4, "STG.128": 3}, 4)]),
    ("depthwise 3x3", "conv_depthwise", r"depthwise_kernelILi3ELi1E", 8, [({"LDG": 27, "STG": 4}, 4)]),
    ("depthwise 5x5", "conv_depthwise", r"depthwise_kernelILi5ELi1E", 8, [({"LDG": 65, "STG": 4}, 4)]),
    ("depthwise 3x3, dw", "conv_depthwise", r"depthwise_dw_kernelILi3ELi1E", 8, [({"LDG": 22}, 4)]),
    ("depthwise 5x5, dw", "conv_depthwise", r"depthwise_dw_kernelILi5ELi1E", 8, [({"LDG": 44}, 4)]),
    # Tiles: an element is a term of a sum. Most of their loads are from caches.
    ("convolution, tile 64", "conv", r"conv_kernelI.*ILi64ELi128ELi8E.*ELb0E", 0, [({"LDG": 12}, 512)]),
    ("convolution, tile 128", "conv", r"conv_kernelI.*ILi128ELi128ELi8E.*ELb0E", 0, [({"LDG": 8}, 512)]),
    ("convolution, dw, tile 64", "conv", r"9dw_kernelI.*ILi64ELi64E", 0, [({"LDG": 16}, 512)]),
    ("convolution, dw, tile 128", "conv", r"9dw_kernelI.*ILi128ELi128E", 0, [({"LDG": 8}, 512)]),
]


def kernels(path):
    """{name: [(address, instruction)]}"""
    found, body = {}, None
    with open(path) as f:
        for line in f:
            name = re.search(r"Function : (\S+)", line)
            one = re.match(r"\s+/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;", line)
            if name:
                body = found.setdefault(name[1], [])
            elif one and body is not None:
                body.append((int(one[1], 16), one[2]))
    return found


def parts(text):
    """Name with width, whether a predicate guards it, the address that it branches to."""
    words = re.sub(r"^@!?U?P\w+\s+", "", text).split()
    name = words[0].replace(".E", "").replace(".CONSTANT", "")
    return name, text[0] == "@", int(words[-1], 16) if name.startswith("BRA") and words[-1].startswith("0x") else None


def loops(body):
    back = [(to, at) for at, text in body for to in [parts(text)[2]] if to is not None and to <= at]
    return [l for l in back if not any(m != l and l[0] <= m[0] and m[1] <= l[1] for m in back)]


def shortest(body, loop, accesses):
    """(instructions, multiply-adds) of the shortest way from the loop's head back to it with exactly these accesses, or None."""
    code = [(at, *parts(text)) for at, text in body if loop[0] <= at <= loop[1]]
    place = {one[0]: i for i, one in enumerate(code)}
    names = sorted(set(accesses) | {one[1] for one in code if one[1] in BYTES or (one[1] == DIVISION and DIVISION in accesses)})
    most = tuple(accesses.get(name, 0) for name in names)
    ways, ends = collections.defaultdict(dict), []  # of each place: {counts: (instructions, multiply-adds)}
    ways[0][(0,) * len(names)] = (0, 0)
    for i, (at, name, guarded, to) in enumerate(code):
        for before, (n, adds) in ways.pop(i, {}).items():
            n, adds = n + 1, adds + (name == FFMA)
            after = tuple(c + (name == its) for c, its in zip(before, names))
            for counts in {after, before} if guarded else {after}:
                if any(c > m for c, m in zip(counts, most)) or name in ("EXIT", "RET"):
                    continue
                if to == loop[0] and counts == most:
                    ends.append((n, adds))
                nexts = [place[to]] if to in place and to > at else []
                nexts += [i + 1] if to is None or guarded else []
                for k in nexts:
                    ways[k][counts] = min(ways[k].get(counts, (n, adds)), (n, adds))
    return min(ends, default=None)


def main(folder):
    print("| kernel | loads, B | stores, B | instructions | multiply-adds | at most |\n|---|---|---|---|---|---|")
    units = {}
    for name, unit, pattern, memory, passes in TABLE:
        if unit not in units:
            units[unit] = kernels(f"{folder}/{unit}.sass")
        found = [body for kernel, body in units[unit].items() if re.search(pattern, kernel)]
        loads = stores = issued = adds = 0
        for accesses, elements in passes:
            ways = [way for body in found for loop in loops(body) for way in [shortest(body, loop, accesses)] if way]
            if not ways:
                sys.exit(f"{name}: no loop with {accesses} in the {len(found)} kernels like {pattern}")
            issued += min(ways)[0] / elements
            adds += min(ways)[1] / elements
            loads += sum(BYTES.get(k, 0) * n for k, n in accesses.items() if k[:3] == "LDG") / elements
            stores += sum(BYTES.get(k, 0) * n for k, n in accesses.items() if k[:3] == "STG") / elements
        share = f"{min(1, memory / MEMORY / (issued / ISSUED)):.0%} of the memory's" if memory else f"{adds / issued:.0%} of the multiply-adds"
        print(f"| {name} | {loads:.3g} | {stores:.3g} | {issued:.3g} | {adds:.3g} | {share} |")


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 2 else sys.exit(__doc__)
