#!/usr/bin/env python3
"""Write stepwell/_header.py from <stepwell.h>: enums, structs, callbacks and prototypes.

usage: generate.py HEADER [FOLDER...] > stepwell/_header.py

HEADER     runtime/stepwell.h with the root of the sources as FOLDER, or the one that is installed
FOLDER     where the headers are that HEADER includes by name
"""
import os
import re
import sys

BASE = {"int": "c_int", "char": "c_char", "float": "c_float", "double": "c_double", "size_t": "c_size_t"}
BASE.update({f"{s}int{n}_t": f"c_{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)})
TOKEN = re.compile(r'"(?:\\.|[^"])*"|[A-Za-z_]\w*|0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*|<<|>>|\.\.\.|[^\s\w]')
# The answer of a callback where its Python function raised: a status is SW_STOPPED, a number is 0,
# but for those that ask whether to stop, and for the one that reports a failure as a negative status.
ANSWERS = {"stop": "1", "asked": "1", "progress": "1", "sw_genome_fits": "-9"}


def read(path, folders, seen):
    """The text of a header with its own includes in their places, each once."""
    with open(path, encoding="utf-8") as f:
        text = f.read()

    def include(match):
        name = match.group(1)
        if name in seen:
            return ""
        seen.add(name)
        for folder in folders:
            if os.path.exists(os.path.join(folder, name)):
                return read(os.path.join(folder, name), folders, seen)
        sys.exit(f"generate.py: {path} includes {name}, which is in none of the folders")

    return re.sub(r'^#include "([^"]+)".*$', include, text, flags=re.M)


def preprocess(text):
    """Declarations as C sees them, and the #defines."""
    version = re.search(r'/\* "(\d+\.\d+\.\d+)" \*/\s*SW_API const char \*sw_version', text)
    if version is None:
        sys.exit("generate.py: no version stands before sw_version")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//.*", "", text).replace("\\\n", " ")
    lines, defines, open_ifs = [], {}, []
    for line in text.split("\n"):
        word = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if word is None:
            if all(open_ifs):
                lines.append(line)
            continue
        name, rest = word.groups()
        if name in ("ifdef", "ifndef", "if"):
            open_ifs.append(not (name == "ifdef" and rest.strip() == "__cplusplus"))
        elif name == "else":
            open_ifs[-1] = not open_ifs[-1]
        elif name == "endif":
            open_ifs.pop()
        elif name == "define" and all(open_ifs):
            macro = re.match(r"(\w+)(\([^)]*\))?\s*(.*)", rest)
            defines[macro.group(1)] = (macro.group(2), macro.group(3).strip())
    return version.group(1), "\n".join(lines), defines


class Type:
    """A C type: a base name, and for each pointer after it whether what it points to is const."""

    def __init__(self, base, const, pointers, function=None, array=None):
        self.base, self.const, self.pointers = base, const, pointers
        self.function, self.array = function, array

    def is_out(self, parsed):
        """Whether a parameter of this type is a place that the function fills, of a known size."""
        if self.pointers == 0 or self.const or self.function is not None or self.base in parsed.callbacks:
            return False
        return self.pointers > 1 or self.base not in ("void", "char", *parsed.opaque)


class Parser:
    def __init__(self, text, defines):
        self.tokens = TOKEN.findall(text)
        self.at = 0
        self.defines = {k: v[1] for k, v in defines.items()}
        self.enums, self.structs, self.opaque, self.functions, self.callbacks = {}, {}, [], [], {}
        self.constants = {}
        self.order = []

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def take(self, what=None):
        token = self.peek()
        if token is None or what is not None and token != what:
            near = " ".join(self.tokens[max(0, self.at - 12):self.at + 4])
            sys.exit(f"generate.py: {what or 'a declaration'} must stand where {token} does, near: {near}")
        self.at += 1
        return token

    def accept(self, *words):
        if self.peek() in words:
            return self.take()
        return None

    def number(self, end):
        """A constant expression up to one of the tokens in `end`."""
        words = []
        while self.peek() not in end:
            word = self.take()
            words.append(re.sub(r"[uUlL]+$", "", word) if word[0].isdigit() else word)
        return self.value(" ".join(words))

    def value(self, text):
        for _ in range(8):
            text = re.sub(r"[A-Za-z_]\w*", lambda m: str(self.constants.get(m.group(), self.defines.get(m.group(), m.group()))), text)
        text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
        return int(eval(text, {"__builtins__": {}}))

    def base(self):
        const = bool(self.accept("const"))
        self.accept("struct")
        name = self.take()
        return name, const or bool(self.accept("const"))

    def declarator(self, name, const):
        """Pointers, a name (or none), a list of parameters or a length: (name, Type)."""
        pointers, inner = 0, False
        while self.accept("*"):
            pointers += 1
            if pointers > 1:
                const = inner
            inner = bool(self.accept("const"))
            self.accept("restrict", "SW_RESTRICT")
        if self.peek() == "(" and self.peek(1) == "*":
            self.take(), self.take("*")
            own = self.take()
            self.take(")")
            return own, Type(None, False, 0, function=(Type(name, const, pointers), self.parameters()))
        own = self.take() if re.match(r"[A-Za-z_]", self.peek()) else ""
        length = None
        if self.accept("["):
            length = self.number("]")
            self.take("]")
        return own, Type(name, const, pointers, array=length)

    def parameters(self):
        self.take("(")
        found = []
        if self.peek() == "void" and self.peek(1) == ")":
            self.take()
        while not self.accept(")"):
            if self.accept("..."):
                found.append(("...", None))
                continue
            found.append(self.declarator(*self.base()))
            self.accept(",")
        return found

    def enum(self):
        self.take("{")
        members, following = [], 0
        while not self.accept("}"):
            name = self.take()
            if self.accept("="):
                following = self.number((",", "}"))
            members.append((name, following))
            self.constants[name] = following
            following += 1
            self.accept(",")
        name = self.take()
        self.enums[name] = members
        self.order.append(("enum", name))

    def fields(self):
        self.take("{")
        found = []
        while not self.accept("}"):
            name, const = self.base()
            while True:
                found.append(self.declarator(name, const))
                if not self.accept(","):
                    break
            self.take(";")
        return found

    def typedef(self):
        if self.accept("enum"):
            self.enum()
        elif self.peek() == "struct" and "{" in (self.peek(1), self.peek(2)):
            self.take("struct")
            if self.peek() != "{":
                self.take()
            fields = self.fields()
            name = self.take()
            self.structs[name] = fields
            self.order.append(("struct", name))
        elif self.peek() == "struct" and self.peek(1) == self.peek(2):
            self.take("struct"), self.take()
            self.opaque.append(self.take())
        else:
            name, result = self.declarator(*self.base())
            self.callbacks[name] = (result, self.parameters())
            self.order.append(("callback", name))
        self.take(";")

    def all(self):
        while self.peek() is not None:
            if self.accept(";"):
                continue
            if self.accept("typedef"):
                self.typedef()
                continue
            marks = set()
            while self.peek() in ("SW_MUST_USE", "SW_API"):
                marks.add(self.take())
            if "SW_API" not in marks:
                sys.exit(f"generate.py: what is {' '.join(self.tokens[self.at:self.at + 8])}?")
            begin = self.at
            name, result = self.declarator(*self.base())
            parameters = self.parameters()
            text = " ".join(self.tokens[begin:self.at])
            if self.accept("SW_PRINTF"):
                while self.take() != ")":
                    pass
            self.take(";")
            self.functions.append((name, result, parameters, "SW_MUST_USE" in marks, text))
        return self


class Writer:
    """The Python text of what was parsed."""

    def __init__(self, parsed):
        self.parsed = parsed

    def plain(self, kind, result=False):
        """The ctypes type, as text; `result`: of what a callback returns, which is no struct."""
        if kind.function is not None:
            return self.callback(*kind.function, "")
        if kind.base in self.parsed.callbacks and kind.pointers:
            if result:
                return "c_void_p"
            return self.point(kind.base, kind.pointers - 1)
        if kind.base == "void":
            return "None" if kind.pointers == 0 else self.point("c_void_p", kind.pointers - 1)
        if kind.base == "char" and kind.pointers and (kind.const or kind.pointers > 1):
            return self.point("c_char_p", kind.pointers - 1)
        base = BASE.get(kind.base, "c_int" if kind.base in self.parsed.enums else kind.base)
        if result and kind.pointers == 0 and kind.base in self.parsed.structs:
            return "c_uint64"
        text = self.point(base, kind.pointers)
        return text if kind.array is None else f"{text} * {kind.array}"

    @staticmethod
    def point(text, times):
        return f"P({Writer.point(text, times - 1)})" if times > 0 else text

    def callback(self, result, parameters, name):
        if result.base == "sw_status" and result.pointers == 0:
            answer = "9"
        elif result.base == "void" and result.pointers == 0:
            answer = "None"
        else:
            answer = ANSWERS.get(name, '_nan' if result.base == "double" else "0")
        made = "sw_value" if result.base == "sw_value" and result.pointers == 0 else "None"
        types = "".join(", " + self.plain(t) for _, t in parameters)
        return f"C({answer}, {made}, {self.plain(result, True)}{types})"

    def enum(self, name):
        members = self.parsed.enums[name]
        yield f"class {name}(_IntEnum):"
        yield from (f"    {m} = {v}" for m, v in members)
        yield ""
        yield from (f"{m} = {name}.{m}" for m, _ in members)
        yield ""

    def struct(self, name):
        yield f"{name}._fields_ = ["
        for field, kind in self.parsed.structs[name]:
            kind_text = self.callback(*kind.function, field) if kind.function else self.plain(kind)
            yield f'    ("{field}", {kind_text}),'
        yield "]"

    def function(self, row):
        name, result, parameters, must, text = row
        types = ", ".join(self.callback(*t.function, n) if t.function else self.plain(t) for n, t in parameters if t is not None)
        outs = ", ".join(str(i) for i, (_, t) in enumerate(parameters) if t is not None and t.is_out(self.parsed))
        text = re.sub(r"\s*([*(),\[\]])\s*", lambda m: {",": ", ", "*": " *"}.get(m.group(1), m.group(1)), text)
        text = re.sub(r"\* (?=[*\w])", "*", text).replace("* *", "**").replace("( *", "(*").replace("*const", "*const ").replace("const  ", "const ")
        text = re.sub(r"(\w)\(\*", r"\1 (*", text)
        variadic = any(t is None for _, t in parameters)
        yield f'F("{name}", {self.plain(result)}, [{types}], [{outs}], {int(must)}, {int(variadic)},'
        yield f'  "{text}")'

    def all(self, version, defines):
        p = self.parsed
        yield '"""The declarations of <stepwell.h>. Written by generate.py from the header: do not edit."""'
        yield "from ctypes import (POINTER as P, " + ", ".join(sorted(set(BASE.values()) | {"c_char_p", "c_void_p"})) + ")"
        yield "from enum import IntEnum as _IntEnum"
        yield ""
        yield "from ._types import Opaque, Struct, callback as C, function as F"
        yield ""
        yield f'VERSION = "{version}"'
        yield '_nan = float("nan")'
        yield ""
        for name, (arguments, value) in defines.items():
            if arguments is None and re.match(r"(0x[0-9a-fA-F]+|\d+)u?$", value):
                yield f"{name} = {value.rstrip('u')}"
        yield ""
        yield "# Objects without members, and structs."
        yield from (f"class {name}(Opaque): pass" for name in p.opaque)
        yield from (f"class {name}(Struct): pass" for name in p.structs)
        yield ""
        for kind, name in p.order:
            if kind == "callback":
                yield f"{name} = {self.callback(*p.callbacks[name], name)}"
            else:
                yield from getattr(self, kind)(name)
        yield ""
        for row in p.functions:
            yield from self.function(row)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    version, text, defines = preprocess(read(sys.argv[1], sys.argv[2:], set()))
    parsed = Parser(text, defines).all()
    sys.stdout.write("\n".join(Writer(parsed).all(version, defines)) + "\n")


if __name__ == "__main__":
    main()
