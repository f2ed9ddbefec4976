#!/usr/bin/env python3
"""words.py SOURCE: the words of the table in CONTRIBUTING.md, held over comments, messages, help and documents.

The table's second column has in backquotes what is not said, "... X" for a word that no sentence begins with (a question
may). Each case, also across the end of a line, is named with file and line. Faults are planted first.
Exit status: 0 holds, 1 does not."""
import os
import re
import sys

TEXTS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
CODE = (".c", ".h", ".cu", ".cuh", ".cpp", ".def", ".js", ".mjs")
TOP = (".ci", "alloc", "kernels", "profiler", "runtime", "tests", "tools")
SCRIPTS = (".py", ".sh", ".awk", ".md", ".build", ".txt", ".css", ".html")
LEFT_OUT = ("LICENSE", "CONTRIBUTING.md", "tests/style/words.py", "tools/python/stepwell/_header.py")
BREAK = r"(?:\s+(?:[*#]+ +|//+ +)?|\s*\"\s*\"\s*)"  # between two words: also the next line of a comment, or of a string


def read_table(text):
    """(phrases, words that open no sentence)."""
    rows = re.search(r"\| say \| do not say \|\n *\|[-|]+\|\n((?: *\|.*\n)+)", text).group(1).splitlines()
    assert len(rows) <= 30
    quoted = [q for row in rows for q in re.findall(r"`([^`]+)`", row.split("|")[2])]
    return [q for q in quoted if not q.startswith("... ")], [q[4:] for q in quoted if q.startswith("... ")]


def rules_of(table):
    phrases, opening = table
    spoken = "|".join(BREAK.join(map(re.escape, p.split())) for p in phrases)
    begin = r'(?:^[ ]*(?:/\*+|//|#+(?!#)|\*)? ?|"|[.;!?]\s+(?:[*#]+ +|//+ +)?)'
    return (re.compile(rf"(?<![\w-])(?:{spoken})(?![\w\[-])", re.I),
            re.compile(rf"{begin}(?:{'|'.join(opening)})\b(?=[^.?!:]*(?:[.!:]|\Z))", re.M))


def faults(name, text, rules):
    """[(line, words)]"""
    if name.endswith(CODE):
        pieces = [(m.start(), m.group()) for m in TEXTS.finditer(text) if m.group()[0] != "'"]
    else:
        pieces = [(0, re.sub(r"^#+ .*$", lambda m: " " * len(m.group()), text, flags=re.M) if name.endswith(".md") else text)]
    found = [(at + m.start(), m.group()) for at, piece in pieces for rule in rules for m in rule.finditer(piece)]
    return [(text.count("\n", 0, at + len(words) - len(words.lstrip())) + 1, " ".join(words.split())) for at, words in sorted(found)]


def test(rules):
    planted = {"a.c": ["/* It comes\n * behind it. */", 'fail("must stand in front of it");', "/* What is kept. */"],
               "a.md": ["A file, which is\nwanted, is there.", "It is there. Whose it is, is said."], "a.py": ["# nobody reads it"]}
    good = {"a.c": ["int behind = wanted;", "/* behind_it and is_wanted */", "/* Does it hold? What holds it? */", "'\"' /* x */"],
            "a.md": ["## What it shows", "What do you want to do?"]}
    bad = [f"not found: {t}" for n, all_ in planted.items() for t in all_ if not faults(n, t, rules)]
    return bad + [f"found: {t}" for n, all_ in good.items() for t in all_ if faults(n, t, rules)]


def main():
    source = sys.argv[1]
    with open(os.path.join(source, "CONTRIBUTING.md"), encoding="utf-8") as file:
        rules = rules_of(read_table(file.read()))
    bad = test(rules)
    names = [n for n in os.listdir(source) if os.path.isfile(os.path.join(source, n))]
    names += [os.path.relpath(os.path.join(folder, name), source) for top in TOP
              for folder, _, files in os.walk(os.path.join(source, top)) for name in files]
    n = 0
    for name in sorted(names):
        if name in LEFT_OUT or not (name.endswith(CODE + SCRIPTS) or "." not in os.path.basename(name)):
            continue
        try:
            with open(os.path.join(source, name), encoding="utf-8") as file:
                bad += [f"{name}:{line}: '{words}'" for line, words in faults(name, file.read(), rules)]
            n += 1
        except UnicodeDecodeError:
            continue  # no text
    print("\n".join(bad))
    print(f"words: {n} files read, {len(bad)} faults")
    print(f"{int(not bad)} passed, {int(bool(bad))} failed, 0 skipped")
    return 1 if bad or n < 100 else 0


sys.exit(main())
