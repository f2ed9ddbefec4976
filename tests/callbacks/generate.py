#!/usr/bin/env python3
"""Write the table of functions that take an object, and of callback types, from <stepwell.h>.

usage: generate.py GENERATE HEADER FOLDER > functions.h     GENERATE: tools/python/generate.py
"""
import importlib.util
import sys

OBJECTS = ("budget", "exec", "model", "optimizer", "ctx", "profile", "dataset", "loader", "checkpoint", "members", "feed", "space",
           "pbt", "es", "zo", "genome", "search_space", "net", "evolution")
BY_VALUE = {"sw_param": "model", "sw_knob": "model", "sw_member": "members"}
WORDS = {"path": "f->path", "dir": "f->folder", "init": '"zeros"', "kind": '"sgd"', "key": '"key"', "fitness": '"loss"', "loss": '"loss"'}
NUMBERS = {"n": "1", "n_models": "1", "batch": "1", "bytes": "f->bytes", "in": "2", "out": "2", "size": "2", "kernel": "1"}


def load(path):
    spec = importlib.util.spec_from_file_location("header", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def argument(parsed, function, name, kind):
    short = kind.base[3:]
    if kind.function is not None or (kind.base in parsed.callbacks and kind.pointers):
        return "NULL"
    if kind.pointers == 0:
        if kind.base in BY_VALUE:
            return ("f->shape_" if function.startswith("sw_member") and short != "member" else "f->") + short
        if kind.base == "sw_value":
            return "f->value"
        if kind.base == "sw_shape":
            return "SW_SHAPE(2)"
        if kind.base in parsed.structs:
            return f"({kind.base}){{0}}"
        return NUMBERS.get(name, "0")
    if kind.base in parsed.opaque and kind.pointers == 1:
        return f"f->{short}"
    if kind.base in parsed.opaque and kind.const:
        return f"(void *)&f->{short}"
    if kind.base == "char" and kind.const and kind.pointers == 1:
        return WORDS.get(name, '"x"')
    if kind.pointers == 1 and kind.base in ("sw_run_args", "sw_members_args"):
        return f"&f->{short}"
    if kind.pointers == 1 and kind.base == "sw_array" and kind.const:
        return "&f->array"
    fields = parsed.structs.get(kind.base, [])
    sized = kind.pointers == 1 and fields and fields[0][0] == "size"
    return f"room(sizeof({kind.base}))" if sized else "room(0)"


def main():
    header = load(sys.argv[1])
    _, text, defines = header.preprocess(header.read(sys.argv[2], sys.argv[3:], set()))
    parsed = header.Parser(text, defines).all()
    missing = [x for x in parsed.opaque if x[3:] not in OBJECTS]
    if missing:
        sys.exit(f"tests/callbacks/generate.py: no fixture has {missing}")
    print("enum {")
    for k, name in enumerate(OBJECTS):
        print(f"    {name.upper()} = 1 << {k},")
    print("};\n#ifdef SW_TABLE")
    rows = []
    for name, result, parameters, _, _ in parsed.functions:
        of = []
        for _, kind in parameters:
            if kind is not None and (kind.base in parsed.opaque and (kind.pointers == 1 or kind.const) or
                                     kind.base in BY_VALUE and kind.pointers == 0):
                of.append((BY_VALUE.get(kind.base, kind.base[3:]), kind))
        if not of:
            continue
        ends = name.endswith("_destroy")
        changed = {o for o, kind in of if not kind.const or kind.pointers == 2}
        arguments = ", ".join(argument(parsed, name, *p) for p in parameters if p[1] is not None)
        answers = result.base == "sw_status" and result.pointers == 0
        print(f"static int call_{len(rows)}(fixture *f)\n{{\n    (void)f;")
        print(f"    {'return (int)' if answers else '(void)'}{name}({arguments});")
        if not answers:
            print("    return -1;")
        print("}")
        mask = [" | ".join(o.upper() for o in sorted(objects)) or "0" for objects in ({o for o, _ in of}, changed)]
        rows.append(f'{{"{name}", {mask[0]}, {mask[1]}, {int(ends)}, call_{len(rows)}}},')
    print("static const row rows[] = {")
    print("\n".join("    " + row for row in rows))
    print("};")
    types = [f for f in parsed.callbacks]
    for struct, fields in parsed.structs.items():
        types += [f"{struct}.{field}" for field, kind in fields if kind.function is not None]
    for name, _, parameters, _, _ in parsed.functions:
        types += [f"{name}.{field}" for field, kind in parameters if kind is not None and kind.function is not None]
    print("static const char *const types[] = {")
    print("\n".join(f'    "{t}",' for t in types))
    print("};\n#endif")


main()
