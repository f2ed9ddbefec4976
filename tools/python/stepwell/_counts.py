"""No call reads past the end of what Python gave: lengths of lists, and of samples, against the counts beside them."""
import ctypes
import re

from ._types import Struct, field_types, kept_of, target

_known = {}


def names_of(row):
    """Names of the arguments of a prototype, in order; "" where it has none."""
    inner = row.text[row.text.index("(") + 1:-1]
    while True:  # arguments of arguments have commas too
        plain = re.sub(r"\(\*(\w+)\)\s*\([^()]*\)", r"\1", inner)
        if plain == inner:
            break
        inner = plain
    return [(re.findall(r"\w+", re.sub(r"\[.*", "", part)) or [""])[-1] for part in inner.split(",")]


def pairs(names, kinds):
    """(place of an array, place of its length): `n_x` says the length of x, else an `n` after it."""
    found = []
    for i, (name, kind) in enumerate(zip(names, kinds)):
        counts = [c for c in ("n_" + name, "n") if c in names[i + 1:]]
        if counts and target(kind) is not None:
            found.append((i, names.index(counts[0], i + 1)))
    return found


def length(value):
    return len(value) if isinstance(value, (list, tuple, ctypes.Array)) else None


def compare(what, array, n, has, count):
    if has is not None and hasattr(count, "__index__") and count.__index__() > has:
        raise ValueError(f"{what}: {n} must be at most {has}, which is what {array} has (got {count.__index__()})")


def check_struct(struct):
    kind, kept = type(struct), kept_of(struct)
    if kind not in _known:
        fields = field_types(kind)
        _known[kind] = [(list(fields)[i], list(fields)[k]) for i, k in pairs(list(fields), list(fields.values()))]
    for array, n in _known[kind]:
        if array in kept:
            compare(kind.__name__, array, n, length(kept[array][0]), getattr(struct, n))
    for name, value in kept.items():
        if name in field_types(kind):
            check_structs(value[0])


def check_structs(value):
    if isinstance(value, Struct):
        check_struct(value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            check_structs(v)


def check_call(row, given):
    """Raise ValueError where a count of a call, or of a struct that it was given, is more than what is there."""
    if row.name not in _known:
        names = names_of(row)
        _known[row.name] = [(i, k, names[i], names[k]) for i, k in pairs(names, row.arguments)]
    for i, k, array, n in _known[row.name]:
        compare(row.name, array, n, length(given[i]), given[k])
    for value in given:
        check_structs(value)
    if row.name == "sw_dataset_arrays":  # each field says how many samples it has
        n, fields = given[1], given[2] if isinstance(given[2], (list, tuple)) else [given[2]]
        for i, field in enumerate(fields):
            compare(row.name, f"field {i}", "n", kept_of(field).get("samples") if isinstance(field, Struct) else None, n)
