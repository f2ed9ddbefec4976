#!/usr/bin/env python3
"""additions.py SOURCE [--keep FOLDER] [ADDITION...]: what an addition touches, counted and proven.

Copies the tracked files to a temporary folder, adds a dummy of each kind (the folders beside this file), counts the files
that it touches, builds, and runs what proves the addition. Fails where the files are more than limits.txt says, where the
build fails, or a proof. README.md says how an addition is written. --keep: the copy stays in FOLDER, and a second run
builds only what changed. CC and CXX choose the compilers."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

BUILD = "build-additions"


class Refused(Exception):
    pass


# ---- what an addition is -----------------------------------------------------------------------


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_limits(path):
    """{addition: (new files, edited files)}"""
    rows = [line.split("#")[0].split() for line in read(path).splitlines()]
    return {row[0]: (int(row[1]), int(row[2])) for row in rows if row}


def read_edits(path):
    """[(file, before or after, anchor, text)]: ">>> FILE after LINE", then the inserted lines."""
    edits = []
    for number, line in enumerate(read(path).splitlines() if os.path.exists(path) else [], 1):
        words = line.split(" ", 3)
        if words[0] == ">>>" and len(words) == 4 and words[2] in ("before", "after"):
            edits.append((words[1], words[2], words[3], []))
        elif edits and words[0] != ">>>":
            edits[-1][3].append(line)
        else:
            raise Refused(f"{path}:{number}: '>>> FILE before|after LINE' must be here (got '{line}')")
    return edits


def new_files(folder):
    """Files to add, as they are called in the tree."""
    root = os.path.join(folder, "files")
    found = [os.path.join(where, name) for where, _, names in os.walk(root) for name in names]
    return sorted(os.path.relpath(path, root) for path in found)


def insert(text, edit, path):
    """The text with the edit's lines before or after the one line that is the anchor."""
    _, side, anchor, lines = edit
    old = text.split("\n")
    at = [i for i, line in enumerate(old) if line.strip() == anchor.strip()]
    if len(at) != 1:
        raise Refused(f"{path}: the line '{anchor}' must be there once (got {len(at)})")
    where = at[0] + (side == "after")
    return "\n".join(old[:where] + lines + old[where:])


# ---- the copy ----------------------------------------------------------------------------------


def put(path, data):
    """Write a file, unless it has these bytes: what did not change is not built again."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == data:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def copied(source, folders):
    """{path: bytes} of the tracked files with all additions."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z"], check=True, capture_output=True).stdout
    tree = {}
    for path in listed.decode().split("\0"):
        full = os.path.join(source, path)
        if path and os.path.isfile(full):
            with open(full, "rb") as file:
                tree[path] = file.read()
    for folder in folders:
        for path in new_files(folder):
            if path in tree:
                raise Refused(f"{folder}: {path} must be new")
            tree[path] = read(os.path.join(folder, "files", path)).encode()
        for edit in read_edits(os.path.join(folder, "edits")):
            tree[edit[0]] = insert(tree[edit[0]].decode(), edit, edit[0]).encode()
    return tree


def write_tree(tree, to, modes_of):
    for where, folders, names in os.walk(to):
        if where == to:
            folders[:] = [name for name in folders if name != BUILD]
        for name in names:
            path = os.path.join(where, name)
            if os.path.relpath(path, to) not in tree:
                os.remove(path)
    for path, data in tree.items():
        full = os.path.join(to, path)
        put(full, data)
        if os.path.exists(os.path.join(modes_of, path)):
            shutil.copymode(os.path.join(modes_of, path), full)


# ---- build and proof ---------------------------------------------------------------------------


def build(to, targets):
    folder = os.path.join(to, BUILD)
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        run(["meson", "setup", folder, to, "-Ddebug=false", "-Dcuda=disabled", "-Dwerror=true"], to)
    run(["ninja", "-C", folder] + sorted(targets), to)


def run(command, where):
    """Run it, and show what it said where it fails."""
    env = dict(os.environ, BUILD=os.path.join(where, BUILD))
    done = subprocess.run(command, cwd=where, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        said = done.stdout.decode(errors="replace").splitlines()
        raise Refused("\n".join([" ".join(command) + f": status {done.returncode}"] + said[-60:]))


def targets_of(folder):
    return read(os.path.join(folder, "targets")).split()


def generated_by(folder):
    """Pages that a command writes anew, and that are reviewed."""
    path = os.path.join(folder, "generated")
    return read(path).split() if os.path.exists(path) else []


def generate(folders, to):
    for folder in folders:
        if os.path.exists(os.path.join(folder, "generate")):
            run(["sh", "-e", os.path.join(folder, "generate")], to)


def check_tree(tree, folders, to):
    """Nothing but generated pages differs from what was put there."""
    pages = {page for folder in folders for page in generated_by(folder)}
    for path, data in tree.items():
        with open(os.path.join(to, path), "rb") as file:
            if path not in pages and file.read() != data:
                raise Refused(f"{path} was written by a build or a script, and is no generated page")


def judge(folder, to, limit):
    """The addition's row of the table, and whether it holds."""
    new, edited = new_files(folder), sorted({edit[0] for edit in read_edits(os.path.join(folder, "edits"))})
    generated = generated_by(folder)
    fault = ""
    try:
        run(["sh", "-e", os.path.join(folder, "prove")], to)
    except Refused as refused:
        fault = str(refused)
    if len(new) > limit[0] or len(edited) > limit[1]:
        fault += f"\n{folder}: at most {limit[0]} new and {limit[1]} edited files (got {len(new)} and {len(edited)})"
    row = f"{os.path.basename(folder):22} {len(new):4} {len(edited):7} {len(generated):10}   "
    return row + " ".join(new + edited + [f"({path})" for path in generated]), fault


def check(source, names, keep):
    here = os.path.dirname(os.path.abspath(__file__))
    limits = read_limits(os.path.join(here, "limits.txt"))
    folders = [os.path.join(here, name) for name in names or limits]
    to = keep or tempfile.mkdtemp(prefix="stepwell-additions-")
    try:
        tree = copied(source, folders)
        write_tree(tree, to, source)
        build(to, {target for folder in folders for target in targets_of(folder)})
        generate(folders, to)
        check_tree(tree, folders, to)
        print(f"{'addition':22} {'new':>4} {'edited':>7} {'generated':>10}   files")
        faults = []
        for folder in folders:
            row, fault = judge(folder, to, limits[os.path.basename(folder)])
            print(row, flush=True)
            faults += [fault] if fault else []
    finally:
        if keep is None:
            shutil.rmtree(to)
    print("\n".join(faults + [f"{len(folders) - len(faults)} passed, {len(faults)} failed, 0 skipped"]))
    return 1 if faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("source")
    parser.add_argument("addition", nargs="*")
    parser.add_argument("--keep", metavar="FOLDER", type=os.path.abspath)
    args = parser.parse_intermixed_args()
    try:
        return check(os.path.abspath(args.source), args.addition, args.keep)
    except Refused as refused:
        print(f"{refused}\n0 passed, 1 failed, 0 skipped")
        return 1


if __name__ == "__main__":
    sys.exit(main())
