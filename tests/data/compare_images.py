#!/usr/bin/env python3
"""The reader of folders of images against Pillow: decoding, colours, resizing and cutting, bit for bit.

usage: compare_images.py IMAGE_PEER

The images are made here. Exit status 77 (skipped) where Pillow or NumPy is missing, or the library reads no images.
"""
import os
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def picture(dice, w, h, channels):
    """Smooth shapes and noise."""
    y, x = np.mgrid[0:h, 0:w]
    planes = [
        127 + 80 * np.sin(x / dice.uniform(1, 30) + k) + 50 * np.cos(y / dice.uniform(1, 30)) for k in range(channels)
    ]
    noise = np.random.default_rng(dice.randrange(1 << 30)).integers(0, 40, (h, w, channels))
    pixels = np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels)


def write(dice, path, w, h, kind):
    image = picture(dice, w, h, 1 if kind in ("gray", "bits", "few", "gray jpeg") else 3)
    if kind == "gray jpeg":
        image.save(path + ".jpeg", quality=dice.randint(20, 95))
    elif kind.endswith("jpeg"):
        options = {"subsampling": dice.choice([0, 1, 2]), "quality": dice.randint(20, 95)}
        image.save(path + ".JPG", progressive=kind.startswith("progressive"), optimize=True, **options)
    elif kind == "bits":
        image.convert("1").save(path + ".png")
    elif kind == "few":
        image.quantize(dice.choice([4, 16, 200])).save(path + ".png")
    elif kind == "palette":
        image.quantize(dice.choice([2, 4, 16, 256])).save(path + ".PNG")
    elif kind == "alpha":
        image.putalpha(picture(dice, w, h, 1))
        image.save(path + ".png")
    elif kind == "gray alpha":
        Image.merge("LA", [picture(dice, w, h, 1), picture(dice, w, h, 1)]).save(path + ".png")
    else:
        image.save(path + ".png")


KINDS = ["gray", "colour", "bits", "few", "palette", "alpha", "gray alpha", "gray jpeg", "jpeg", "progressive jpeg"]


def make(dice, root, count, sizes):
    for label in ("zebra", "Ant", "b c", "b"):
        os.makedirs(os.path.join(root, label, "more"))
        for i in range(count):
            where = os.path.join(root, label, "more" if i % 3 == 0 else "")
            write(dice, os.path.join(where, f"image {i}"), *sizes(), KINDS[(i + len(label)) % len(KINDS)])
        for name in (".hidden.png", "note.txt"):
            with open(os.path.join(root, label, name), "w") as file:
                file.write("no image")


def half_even(x):
    return int(round(x / 2.0))


def expected(path, side, channels):
    image = Image.open(path).convert("L" if channels == 1 else "RGB")
    if side > 0:
        w, h = image.size
        short = min(w, h)
        w, h = (side, int(side * h / short)) if w == short else (int(side * w / short), side)
        # Along rows first: for some tall images Pillow 13 takes the other order, which rounds otherwise.
        image = image.resize((w, image.size[1]), Image.BILINEAR).resize((w, h), Image.BILINEAR)
        left, top = half_even(w - side), half_even(h - side)
        image = image.crop((left, top, left + side, top + side))
    pixels = np.asarray(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def files_of(root):
    classes = sorted((x for x in os.listdir(root) if os.path.isdir(os.path.join(root, x))), key=str.encode)
    found = []
    for label, name in enumerate(classes):
        inside = [
            os.path.join(folder, file)
            for folder, _, files in os.walk(os.path.join(root, name))
            for file in files
            if file.lower().endswith((".png", ".jpg", ".jpeg")) and not file.startswith(".")
        ]
        found += [(path, label) for path in sorted(inside, key=str.encode)]
    return classes, found


def compare(peer, folder, root, parts, side, channels):
    out = os.path.join(folder, "dump")
    subprocess.run([peer, out, root, str(side), str(channels)], check=True)
    with open(out, "rb") as file:
        data = file.read()
    at, wrong, most, n_all = 0, 0, 0, 0
    for part in parts:
        n, n_classes, c, h, w = np.frombuffer(data, np.int64, 5, at)
        at += 40
        classes, files = files_of(os.path.join(root, part))
        for name in classes:
            end = data.index(b"\0", at)
            assert data[at:end].decode() == name, (data[at:end], name)
            at = end + 1
        assert n == len(files) and n_classes == len(classes), (n, len(files))
        images = np.frombuffer(data, np.uint8, n * c * h * w, at).reshape(n, c, h, w)
        at += images.nbytes
        labels = np.frombuffer(data, np.uint8, n, at)
        at += n
        for (path, label), image, ours in zip(files, images, labels):
            theirs = expected(path, side, int(c))
            assert ours == label and theirs.shape == image.shape, (path, ours, label, theirs.shape, image.shape)
            distance = int(np.abs(theirs.astype(int) - image.astype(int)).max())
            if distance > 0:
                print(f"  {path}: {Image.open(path).size} {Image.open(path).mode}: up to {distance}")
            wrong += distance > 0
            most = max(most, distance)
            n_all += 1
    print(f"side {side:<3} channels {channels}: {n_all} images, {wrong} differ, by {most} at most")
    return wrong


def main(peer):
    dice = random.Random(5)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "images")
        for part in ("train", "val"):
            make(dice, os.path.join(root, part), 23, lambda: (dice.randint(1, 200), dice.randint(1, 150)))
        run = subprocess.run([peer, os.path.join(folder, "dump"), root, "8", "0"], capture_output=True, text=True)
        if "this build reads no" in run.stderr:
            print(f"skipped: {run.stderr.strip()}")
            return 77
        for side in (1, 2, 7, 32, 33, 224):
            for channels in (1, 3):
                wrong += compare(peer, folder, root, ("train", "val"), side, channels)
        alike = os.path.join(folder, "alike")
        for part in ("train", "test"):
            make(dice, os.path.join(alike, part), 12, lambda: (37, 21))
        for channels in (0, 1, 3):
            wrong += compare(peer, folder, alike, ("train", "test"), 0, channels)
    print(f"{wrong} images differ")
    return 1 if wrong > 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
