#!/usr/bin/env python3
"""Manual pages and completions: they come from the tables of --help, and have what it has. The guide and the README agree with them."""
import os
import re
import shutil
import subprocess

from frame import ROOT, Skip, check, get, main, put, run, test

COMMANDS = "train pbt evolve plan eval predict report bench place sample tokens info top help".split()


def options(help_text):
    """Lines "  --name ..."."""
    return re.findall(r"\n  (--[^ \n]*)", help_text)


def man_has(page, _, name):
    """As roff has it: "\\fB\\-\\-batch\\fR"."""
    return "\\fB" + name.replace("-", "\\-") + "\\fR" in page


def bash_has(script, command, name):
    """Between "'train')" and the end of its part."""
    part = script.partition(f"'{command}')\n")[2].partition("esac\n")[0]
    return re.search(f"[ ']{name}[ ']", part) is not None


def missing(help_text, page, command, has):
    names = options(help_text)
    assert names
    return [name for name in names if not has(page, command, name)]


@test("every option of a help is in its page and completions")
def all_there():
    bash = run("help --completion bash").out
    for command in [c for c in COMMANDS if c != "bench"] + ["bench place"]:  # the help of bench is a list of names
        says, man = run(f"{command} --help").out, run(f"help --man {command.split()[0]}").out
        lost = missing(says, man, command, man_has) + missing(says, bash, command, bash_has)
        check(not lost, command, "has no", lost)


@test("a missing option is found")
def found():
    """An option that is in another page only, or in none, is missed."""
    says = "usage\n\n  --batch N   rows\n  --prompt TEXT   text\n"
    assert missing(says, run("help --man train").out, "train", man_has) == ["--prompt"]
    assert missing(says, run("help --completion bash").out, "train", bash_has) == ["--prompt"]


@test("options of the guide exist")
def guide():
    """`--name` at the beginning of inline code. Each is in some help."""
    known = {name for command in COMMANDS for name in options(run(f"{command} --help").out)}
    seen = 0
    for page in "README training budgets memory formats gpu programs ops architectures evaluation".split():
        for name in re.findall("`(--[-a-z0-9]*)", get(f"{ROOT}/tools/docs/{page}.md")):
            check(name in known, f"{page}.md: no option", name)
            seen += 1
    assert seen > 50 and "--nonsense" not in known


@test("pictures of the README are current")
def pictures():
    """Each is drawn by a command that stands there too."""
    text = get(f"{ROOT}/README.md")
    commands = re.findall(r"stepwell (p[^`\n]*) (tools/docs/[^`\n]*\.svg)", text)
    assert len(commands) == len(re.findall(r"\]\(tools/docs/[^)]*\.svg\)", text)) == 2
    for words, shown in commands:
        run(f"{words} picture.svg")
        check(get("picture.svg") == get(f"{ROOT}/{shown}"), shown, "is out of date: run its command in the README again")
        assert os.path.getsize("picture.svg") < 100 << 10


def roff(page, *how):
    done = subprocess.run(["groff", "-man", *how], input=page, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


@test("the pages are sound roff")
def sound():
    if not shutil.which("groff"):
        raise Skip("groff is not installed")
    for command in COMMANDS + [""]:
        page = run(f"help --man {command}").out
        check(roff(page, "-ww", "-Tutf8")[1] == "" and "does not fit" in roff(page, "-Tascii")[0], command)
    assert roff(".TH A 1\n.nonsense\n", "-ww", "-Tutf8")[1] != ""


@test("words are completed in bash")
def completed():
    if not shutil.which("bash"):
        raise Skip("bash is not installed")
    put("page-of-a-file", "")
    put("stepwell.bash", run("help --completion bash").out)
    for words, answer in (("stepwell pl", "plan place"), ("stepwell train --optimizer ada", "adam adamw adagrad adafactor"),
                          ("stepwell train --save-p", "--save-params"), ("stepwell train --save-params page-o", "page-of-a-file"),
                          ("stepwell report page-o", "page-of-a-file"), ("stepwell bench sp", "speed"),
                          ("stepwell bench place --ra", "--random"), ("stepwell train --batch 1", ""),
                          ("stepwell help --completion b", "bash"), ("stepwell nonsense --", "")):
        line = 'source ./stepwell.bash || exit 1; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stepwell; echo "${COMPREPLY[*]}"'
        done = subprocess.run(["bash", "-c", line, "bash", *words.split()], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and done.stdout.strip() == answer, words, done.stdout, "not", answer)


main("pages")
