#!/usr/bin/env python3
"""Write the tables of functions that take an object, of callback types, and of NULLs, from <stepwell.h>.

usage: generate.py GENERATE HEADER FOLDER > functions.h     GENERATE: tools/python/generate.py
"""
import importlib.util
import re
import sys

OBJECTS = ("budget", "exec", "model", "optimizer", "ctx", "profile", "dataset", "loader", "checkpoint", "members", "feed", "space",
           "pbt", "es", "zo", "ranks", "genome", "search_space", "net", "evolution")
BY_VALUE = {"sw_param": "model", "sw_knob": "model", "sw_member": "members"}
WORDS = {"path": "f->path", "dir": "f->folder", "init": '"zeros"', "kind": '"sgd"', "key": '"key"', "fitness": '"loss"', "loss": '"loss"'}
NUMBERS = {"n": "1", "status": "SW_INVALID", "n_models": "1", "batch": "1", "bytes": "f->bytes", "in": "2", "out": "2", "size": "2", "kernel": "1"}
# Parameters that may be NULL, or {0}: of any function, and of one.
OPTIONAL = ("user", "progress", "total", "in_a_row", "bias", "steps", "batches", "n_checks", "n_failures", "report", "to", "test", "validation", "ranks")
OPTIONAL_OF = {
    "sw_exec_create": "opts", "sw_param_freeze": "param", "sw_rms_norm_op": "weight", "sw_apply_layer_norm": "layer", "sw_apply_rms_norm": "layer",
    "sw_dataset_csv": "opts", "sw_dataset_text": "opts", "sw_dataset_tokens": "opts", "sw_dataset_npz": "opts", "sw_dataset_images": "opts",
    "sw_dataset_describe": "dataset", "sw_member_end": "member", "sw_members_plan": "args out", "sw_mutations_default": "n", "sw_model_note": "text", "sw_checkpoint_create": "opts",
    "sw_checkpoint_find": "path", "sw_profile_create": "opts", "sw_profile_least": "opts", "sw_profile_end_status": "why", "sw_pbt_log": "dir",
    "sw_pbt_free": "bytes", "sw_policy_change": "member time values", "sw_zo_create": "opts", "sw_text_free": "text", "sw_net_create": "opts",
    "sw_genome_price": "opts", "sw_genome_mutate": "opts", "sw_genome_crossover": "out_a out_b opts", "sw_interrupt_set": "asked",
}
# Functions that are a macro's alone.
NOT_CALLED = ("sw_error_set",)
# How a result says that there is none.
EMPTY = {"int": " <= 0", "size_t": " == 0", "uint64_t": " == 0", "uint32_t": " == 0", "int64_t": " == 0", "float": " == 0", "double": " == 0", "sw_shape": ".rank == 0",
         "sw_param": ".index == 0", "sw_knob": ".index == UINT32_MAX"}
NOTHING = {"sw_param": "(sw_param){0}", "sw_knob": "(sw_knob){0}", "sw_member": "(sw_member){0}", "sw_value": "(sw_value){0}"}


def load(path):
    spec = importlib.util.spec_from_file_location("header", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def argument(parsed, function, name, kind):
    if kind.function is not None or (kind.base in parsed.callbacks and kind.pointers):
        return "NULL"
    short = kind.base[3:]
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


def nulls(parsed):
    """A call for each pointer, handle and struct of handles, which is NULL or has zeros; a bit for each object that it needs."""
    rows = []
    print("static bool no_text(const char *text)\n{\n    return text == NULL || text[0] == 0;\n}")
    for name, result, parameters, _, _ in parsed.functions:
        if name in NOT_CALLED:
            continue
        given = [p for p in parameters if p[1] is not None]
        of = {BY_VALUE.get(kind.base, kind.base[3:]) for _, kind in given if kind.function is None and kind.base in (*parsed.opaque, *BY_VALUE)}
        for own, kind in given:
            if kind.pointers or kind.function is not None or kind.array is not None:
                nothing = "NULL"
            elif kind.base in NOTHING or kind.base in parsed.structs and kind.base != "sw_shape":
                nothing = f"({kind.base}){{0}}"
            else:
                continue
            allowed = own in OPTIONAL or own in OPTIONAL_OF.get(name, "").split() or re.search("_(destroy|free)$", name)
            arguments = ", ".join(nothing if other == own else argument(parsed, name, other, k) for other, k in given)
            call = f"{name}({arguments})"
            if result.base == "sw_status" and result.pointers == 0:
                call = f"return (int){call};"
            elif result.base == "char":
                call = f'return no_text({call}) ? (int)SW_INVALID : -1;'
            elif result.pointers or result.base in EMPTY:
                empty = " == NULL" if result.pointers else EMPTY[result.base]
                call = f"return {call}{empty} ? (int)SW_INVALID : -1;"
            else:
                call = f"(void){call};\n    return -1;"
            print(f"static int null_{len(rows)}(fixture *f)\n{{\n    (void)f;\n    {call}\n}}")
            bits = " | ".join(sorted(o.upper() for o in of)) or "0"
            rows.append(f'{{"{name}", "{own}", {bits}, {int(bool(allowed))}, null_{len(rows)}}},')
    print("static const null_row nulls[] = {")
    print("\n".join("    " + row for row in rows) + "\n};")


def main():
    header = load(sys.argv[1])
    _, text, defines = header.preprocess(header.read(sys.argv[2], sys.argv[3:], set()))
    parsed = header.Parser(text, defines).all()
    taken = {kind.base for _, _, parameters, _, _ in parsed.functions for _, kind in parameters if kind is not None}
    missing = [x for x in parsed.opaque if x[3:] not in OBJECTS and x in taken]
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
    print("};\n#endif\n#ifdef SW_NULLS")
    nulls(parsed)
    print("#endif")


main()
