#!/usr/bin/env python3
"""The reader of folders of images against Pillow: decoding, colours, resizing and cutting, bit for bit.

The images are made here. Exit status 77 (skipped) where Pillow or NumPy is missing, or the library reads no images.
"""
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import support

support.sanitize()
try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import stepwell as sw


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


def compare(root, parts, side, channels):
    wrong, most, n_all = 0, 0, 0
    for part, own in zip(parts, sw.make(sw.sw_dataset_images, root, sw.sw_images_opts(side=side, channels=channels))):
        info = sw.get(sw.sw_dataset_describe, own)
        images, labels = (np.asarray(sw.view(sw.sw_array(dtype=f.dtype, shape=(info.n, *f.shape.dim[:f.shape.rank]), data=f.data), own))
                          for f in info.field[:2])
        c = images.shape[1]
        classes, files = files_of(os.path.join(root, part))
        ours = [info.class_names[i] for i in range(info.n_classes)]
        assert [x.decode() if isinstance(x, bytes) else x for x in ours] == classes, (ours, classes)
        assert info.n == len(files), (info.n, len(files))
        for (path, label), image, ours in zip(files, images, labels):
            theirs = expected(path, side, c)
            assert ours == label and theirs.shape == image.shape, (path, ours, label, theirs.shape, image.shape)
            distance = int(np.abs(theirs.astype(int) - image.astype(int)).max())
            if distance > 0:
                print(f"  {path}: {Image.open(path).size} {Image.open(path).mode}: up to {distance}")
            wrong += distance > 0
            most = max(most, distance)
            n_all += 1
    print(f"side {side:<3} channels {channels}: {n_all} images, {wrong} differ, by {most} at most")
    return wrong


def main():
    dice = random.Random(5)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "images")
        for part in ("train", "val"):
            make(dice, os.path.join(root, part), 23, lambda: (dice.randint(1, 200), dice.randint(1, 150)))
        try:
            sw.make(sw.sw_dataset_images, root, sw.sw_images_opts(side=8))
        except sw.Error as refused:
            if "this build reads no" not in str(refused):
                raise
            print(f"skipped: {refused}")
            return 77
        for side in (1, 2, 7, 32, 33, 224):
            for channels in (1, 3):
                wrong += compare(root, ("train", "val"), side, channels)
        alike = os.path.join(folder, "alike")
        for part in ("train", "test"):
            make(dice, os.path.join(alike, part), 12, lambda: (37, 21))
        for channels in (0, 1, 3):
            wrong += compare(alike, ("train", "test"), 0, channels)
    print(f"{wrong} images differ")
    return 1 if wrong > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
