#!/usr/bin/env python3
"""The readers of CIFAR-10, CSV, text and NumPy's arrays against parsing with Python's csv module and NumPy, bit for bit.

usage: compare_readers.py SOURCE_ROOT

Generated files always; real ones where they are below $STEPWELL_DATA or beside the source tree. Exit status 77
(skipped) where NumPy is missing.
"""
import csv
import gzip
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import support

support.sanitize()
try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import stepwell as sw

M32 = 0xFFFFFFFF


def sets_of(fn, *given):
    """The data sets that a call makes."""
    made = sw.make(fn, *given)
    return made if isinstance(made, tuple) else (made,)


def fields_of(part):
    """Arrays of all samples, the number of classes, their names."""
    info = sw.get(sw.sw_dataset_describe, part)
    arrays = []
    for field in list(info.field)[:info.n_fields]:
        shape = (info.n, *field.shape.dim[:field.shape.rank])
        arrays.append(np.asarray(sw.view(sw.sw_array(dtype=field.dtype, shape=shape, data=field.data), part)))
    names = [info.class_names[i] for i in range(info.n_classes)] if info.class_names else []
    return arrays, info.n_classes, [x.decode() if isinstance(x, bytes) else x for x in names]


def philox(seed, block, stream, step=0, run=0):
    """Philox 4x32-10 as published."""
    c, k = [block, stream, step, run], [seed & M32, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & M32, (a >> 32) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def stream(name):
    hashed = 2166136261
    for byte in name.encode():
        hashed = (hashed ^ byte) * 16777619 & M32
    return hashed


def expect(what, ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    same = ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
    print(f"{what:<48} {ours.shape!s:<18} {'same' if same else 'DIFFERS'}")
    if not same:
        sys.exit(1)


def read_rows(path, delimiter, header):
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, delimiter=delimiter, skipinitialspace=True) if any(x.strip() for x in row)]
    return rows[1:] if header else rows


def classes_of(labels):
    try:
        return [str(x) for x in sorted({int(float(x)) for x in labels})], [str(int(float(x))) for x in labels]
    except ValueError:
        return sorted(set(labels), key=str.encode), labels


def compare_csv(what, path, delimiter=",", header=False, label=-1, test=None, standardise=False, seed=1):
    """`label` counts from 0."""
    rows = read_rows(path, delimiter, header)
    word = str(label + 1) if label >= 0 else str(label)
    sets = sets_of(sw.sw_dataset_csv, path, sw.sw_csv_opts(label=word, test_path=test, standardise=standardise, seed=seed))
    names, known = classes_of([row[label].strip() for row in rows])

    def arrays(rows, keys):
        x = np.array([[float(v) for i, v in enumerate(row) if i != label % len(row)] for row in rows])
        y = np.array([names.index(key) for key in keys])
        return x.astype(np.float32), y.astype(np.uint8 if len(names) <= 256 else np.int32)

    if test:
        others = read_rows(test, delimiter, header)
        parts = [arrays(rows, known), arrays(others, classes_of([row[label].strip() for row in others])[1])]
    else:
        left, needed, picked = len(rows), int(np.floor(0.2 * len(rows) + 0.5)), []
        for i in range(len(rows)):
            word = philox(seed, i, stream("split"))[0]
            picked.append(word * (left - i) >> 32 < needed)
            needed -= picked[-1]
        parts = [arrays([r for r, p in zip(rows, picked) if p == t], [k for k, p in zip(known, picked) if p == t])
                 for t in (False, True)]
    mean, deviation = parts[0][0].astype(np.float64).mean(axis=0), parts[0][0].astype(np.float64).std(axis=0)
    for which, part, (x, y) in zip(("training", "testing"), sets, parts):
        (ours, labels), classes, our_names = fields_of(part)
        if standardise:
            expected = (x.astype(np.float64) - mean) / deviation
            worst = float(np.abs(ours - expected).max())
            print(f"{what + ', ' + which + ', standardised':<48} {ours.shape!s:<18} {worst:.1e}")
            if worst > 1e-5 * float(np.abs(expected).max()):
                sys.exit(1)
        else:
            expect(f"{what}, {which}", ours, x)
        expect(f"{what}, {which}, labels", labels, y)
        if classes != len(names) or our_names != names:
            sys.exit(f"{what}: classes {our_names[:9]}, must be {names[:9]}")


def make_csv(path, delimiter, header, words, rows, columns, end):
    dice = random.Random(len(path) * rows)
    spell = [repr, lambda v: f"{v:.3f}", lambda v: f"{v:.18e}", lambda v: f" {v:.6g} ", lambda v: f'"{v:.2f}"',
             lambda v: f"{int(v)}"]
    kinds = ["b,x", "a", "\u00e9t\u00e9", "B", "two words"] if words else [str(3 * k - 30) for k in range(300)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        if header:
            file.write(delimiter.join(f'"column {c}"' for c in range(columns)) + delimiter + "kind" + end)
        for _ in range(rows):
            values = [dice.choice(spell)(dice.gauss(0, 1) * 10 ** dice.randint(-6, 9)) for _ in range(columns)]
            kind = dice.choice(kinds)
            file.write(delimiter.join(values) + delimiter + (f'"{kind}"' if words else kind) + end)
            if dice.random() < 0.05:
                file.write(end)


def compare_text(what, path, context):
    with open(path, "rb") as file:
        text = np.frombuffer(file.read(), np.uint8)
    sets = sets_of(sw.sw_dataset_text, path, sw.sw_text_opts(context=context))
    cut = len(text) * 9 // 10
    for own, part, bytes_, windows in ((sets[0], "training", text[:cut], max(1, cut // context - 1)),
                                       (sets[1], "validation", text[cut:], (len(text) - cut - 1) // context)):
        (tokens, following), _, _ = fields_of(own)
        expect(f"{what}, {part}", tokens, bytes_[: windows * context].reshape(windows, context))
        expect(f"{what}, {part}, following", following, bytes_[1 : windows * context + 1].reshape(windows, context))
        if part == "training":
            n = windows
    places = min(context, cut - n * context)
    loader = sw.make(sw.sw_loader_create, sets[0], sw.sw_loader_opts(batch=8, seed=3, shuffle=1))
    for epoch in range(4):
        first = philox(3, 0, stream("window"), epoch)[0] * places >> 32
        order, words = list(range(n)), None
        for i in range(n - 1, 0, -1):
            if i % 4 == 3 or i == n - 1:
                words = philox(3, i // 4, stream("shuffle"), epoch)
            j = words[i % 4] * (i + 1) >> 32
            order[i], order[j] = order[j], order[i]
        expected = np.stack([np.stack([text[first + w * context + s :][:context] for s in (0, 1)]) for w in order])
        expect(f"{what}, epoch {epoch}, from byte {first}", np.concatenate(list(batches_of(loader, epoch))), expected)
    loader.close()


def batches_of(loader, epoch):
    """Copies of (rows, 2, context)."""
    sw.sw_loader_epoch(loader, epoch)
    while True:
        inputs, n = sw.get(sw.sw_loader_next, loader)
        if n == 0:
            return
        yield np.stack([np.array(sw.view(inputs[f], loader)) for f in (0, 1)], axis=1)


def compare_cifar(what, path, part, files):
    raw = b""
    for name in files:
        full = os.path.join(path, name)
        opener = open if os.path.exists(full) else gzip.open
        with opener(full if opener is open else full + ".gz", "rb") as file:
            raw += file.read()
    records = np.frombuffer(raw, np.uint8).reshape(-1, 3073)
    (images, labels), _, _ = fields_of(sw.make(sw.sw_dataset_cifar, path, part, None))
    expect(f"{what}, {part}", images, records[:, 1:].reshape(-1, 3, 32, 32))
    expect(f"{what}, {part}, labels", labels, records[:, 0])


def as_fields(x, y):
    """Arrays of inputs and targets, converted as the header says."""
    if np.issubdtype(y.dtype, np.floating):
        classes, y = 0, y.astype(np.float32)
    else:
        classes = int(y.max()) + 1
        width = np.uint8 if classes <= 256 else np.uint16 if classes <= 65536 else np.int32
        kept = {1: np.uint8, 2: np.uint16}
        sequence = np.issubdtype(x.dtype, np.integer) and y.ndim > 1 and x.shape == y.shape
        if sequence:
            classes = max(classes, int(x.max()) + 1)
            width = np.uint8 if classes <= 256 else np.uint16 if classes <= 65536 else np.int32
            return x.astype(kept.get(x.itemsize, width)), y.astype(kept.get(y.itemsize, width)), classes
        y = y.reshape(len(y)).astype(kept.get(y.itemsize, width))
    if x.dtype != np.uint8:
        x = x.astype(np.float32)
    if x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4):
        x = x.transpose(0, 3, 1, 2)
    elif x.ndim == 3:
        x = x[:, None]
    return np.ascontiguousarray(x), y, classes


def compare_arrays(folder, what, x, y):
    """By numpy.save in C and Fortran order and as a view, numpy.savez and numpy.savez_compressed."""
    expected = as_fields(x, y)
    paths = []
    for k, (a, b) in enumerate([(x, y), (np.asfortranarray(x), y), (np.repeat(x, 2, axis=0)[::2], y[::-1][::-1])]):
        names = [os.path.join(folder, f"{name}{k}.npy") for name in "xy"]
        np.save(names[0], a)
        np.save(names[1], b)
        paths.append((sw.sw_dataset_npy, ",".join(names)))
    for save, name in ((np.savez, "stored"), (np.savez_compressed, "deflated")):
        path = os.path.join(folder, name + ".npz")
        save(path, inputs=x, targets=y)
        paths.append((sw.sw_dataset_npz, path + ":inputs,targets"))
    for reader, path in paths:
        try:  # with data for testing, so that all of it is for training
            arrays, classes, _ = fields_of(sets_of(reader, path, sw.sw_npy_opts(test_path=path))[0])
        except sw.Error as refused:
            if "zlib is off" not in str(refused):
                raise
            print(f"skipped: {what}, deflated: built without zlib")
            continue
        for ours, theirs in zip(arrays, expected):
            expect(f"{what}, {os.path.basename(path.split(',')[0])}", ours, theirs)
        if classes != expected[2]:
            sys.exit(f"{what}: {classes} classes, must be {expected[2]}")


def compare_numpy(folder):
    dice = np.random.default_rng(7)
    for name in ("f4", "f8", "u1", "i1", "b1", "u2", "i2", "u4", "i4", "u8", "i8"):
        whole = dice.integers(0, 2 if name == "b1" else 100, (40, 6, 5))
        real = name[0] == "f"
        x = (dice.normal(size=(40, 6, 5)) if real else whole).astype(name)
        compare_arrays(folder, f"inputs {name}", x, dice.integers(0, 9, 40))
        compare_arrays(folder, f"targets {name}", x, x[:, 0, 0] if real else whole[:, 0, 0].astype(name))
    pixels = dice.integers(0, 256, (30, 9, 8, 3), dtype=np.uint8)
    compare_arrays(folder, "images", pixels, dice.integers(0, 300, (30, 1)))
    compare_arrays(folder, "images, channels in front", pixels.transpose(0, 3, 1, 2).copy(), dice.integers(0, 70000, 30))
    compare_arrays(folder, "floats of images", pixels.astype(np.float64) / 255, dice.normal(size=(30, 4)))
    ids = dice.integers(0, 50257, (20, 33))
    compare_arrays(folder, "ids", ids[:, :-1].astype(np.uint16), ids[:, 1:].astype(np.int64))


def main(root):
    data = os.environ.get("STEPWELL_DATA") or os.path.join(root, "..", "shared", "data")
    with tempfile.TemporaryDirectory() as folder:
        for i, (delimiter, header, words, end) in enumerate(
                [(",", True, True, "\n"), (";", True, False, "\r\n"), ("\t", False, True, "\r"), (",", False, False, "\n")]):
            path = os.path.join(folder, "t" * (i + 1) + ".csv")
            make_csv(path, delimiter, header, words, 1500, 7, end)
            compare_csv(f"made {i}", path, delimiter, header, seed=i)
            compare_csv(f"made {i}", path, delimiter, header, standardise=True)
        compare_numpy(folder)
        text = os.path.join(folder, "text")
        with open(text, "wb") as file:
            file.write(random.Random(5).randbytes(9999))
        compare_text("made text", text, 33)
        for i, name in enumerate([f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]):
            dice = random.Random(i)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"".join(bytes([dice.randrange(10)]) + dice.randbytes(3072) for _ in range(11 + i)))
        compare_cifar("made images", folder, "train", [f"data_batch_{k}.bin" for k in range(1, 6)])
        compare_cifar("made images", folder, "test", ["test_batch.bin"])

        def there(*names):
            path = os.path.join(data, *names)
            if not os.path.exists(path):
                print(f"skipped: no {'/'.join(names)} below $STEPWELL_DATA")
            return path if os.path.exists(path) else None

        if there("iris", "iris.csv"):
            compare_csv("iris", there("iris", "iris.csv"), header=True)
        if there("digits", "optdigits.tra"):
            compare_csv("digits", there("digits", "optdigits.tra"), test=there("digits", "optdigits.tes"))
        if there("tinyshakespeare", "input.txt"):
            compare_text("tinyshakespeare", there("tinyshakespeare", "input.txt"), 256)
        if there("cifar10-mini"):
            compare_cifar("cifar10-mini", there("cifar10-mini"), "train", ["data_batch_mini.bin"])
            compare_cifar("cifar10-mini", there("cifar10-mini"), "test", ["test_batch_mini.bin"])
    print("all the same")


if __name__ == "__main__":
    main(*sys.argv[1:])
