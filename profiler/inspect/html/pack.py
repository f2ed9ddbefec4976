"""Joins page.html, style.css and the scripts to the two texts that a report has around its data, as C; run by the build.

usage: pack.py PAGE STYLE SCRIPT... > html_page.c

The page's policy names the hashes of its style and of its script, so that nothing else can run in it, whatever the data say.
"""
import base64
import hashlib
import sys


def read(*paths):
    text = "".join(open(path, encoding="ascii").read() for path in paths)  # what is not ASCII stands in it as an escape
    if "\0" in text or "</script" in text and paths[0].endswith(".js"):
        sys.exit(f"pack: {paths[0]}: the text may not have zero bytes, or name the end of its script")
    return text


def policy(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def quoted(text):
    return '"' + text.replace("\\", r"\\").replace('"', r"\"").replace("?", r"\?").replace("\n", '\\n"\n    "') + '"'


page, style, script = read(sys.argv[1]), read(sys.argv[2]), read(*sys.argv[3:])
for mark, text in (("style-hash", policy(style)), ("script-hash", policy(script)), ("style", style), ("script", script)):
    page = page.replace(f"@@{mark}@@", text)
print('#include "profiler/inspect/sink_html.h"\n')
front, back = page.split("@@data@@")
for name, text in ("front", front), ("back", back):
    print(f"const char swi_html_{name}[] =\n    {quoted(text)};\nconst size_t swi_html_{name}_bytes = sizeof swi_html_{name} - 1;")
