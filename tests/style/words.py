#!/usr/bin/env python3
"""words.py SOURCE: the words of the table in CONTRIBUTING.md, held over comments, messages, help and documents.

The table's second column has in backquotes what is not said, "... X" for a word that no sentence begins with (a question
may). Each case, also across the end of a line, is named with file and line. Faults are planted first.
Exit status: 0 holds, 1 does not."""
import os
import re
import subprocess
import sys

TEXTS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
CODE = (".c", ".h", ".cu", ".cuh", ".cpp", ".def", ".js", ".mjs")
SCRIPTS = (".py", ".sh", ".md", ".build", ".txt", ".css", ".html", ".in")
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
    source = next(a for a in sys.argv[1:] if not a.startswith("--"))
    with open(os.path.join(source, "CONTRIBUTING.md"), encoding="utf-8") as file:
        rules = rules_of(read_table(file.read()))
    bad = test(rules)
    listed = subprocess.run(["git", "-C", source, "ls-files"], capture_output=True, text=True).stdout.split("\n")
    names = [n for n in listed if n] or [os.path.relpath(os.path.join(d, f), source)
                                         for top in (".ci", "runtime", "alloc", "kernels", "profiler", "tools", "tests")
                                         for d, _, files in os.walk(os.path.join(source, top)) for f in files]
    n = 0
    for name in names:
        if name in LEFT_OUT or not (name.endswith(CODE + SCRIPTS) or "." not in os.path.basename(name)):
            continue
        try:
            with open(os.path.join(source, name), encoding="utf-8") as file:
                bad += [f"{name}:{line}: '{words}'" for line, words in faults(name, file.read(), rules)]
            n += 1
        except (OSError, UnicodeDecodeError):
            continue
    print("\n".join(bad))
    print(f"words: {n} files read, {len(bad)} faults")
    print(f"{int(not bad)} passed, {int(bool(bad))} failed, 0 skipped")
    return 1 if bad or n < 100 else 0


sys.exit(main())
