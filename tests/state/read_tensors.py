#!/usr/bin/env python3
"""A file of tensors, read with nothing of ours.

usage: read_tensors.py plain|package TENSOR_PEER

plain: with Python's json alone. package: by safetensors (and the checksums by xxhash where that is installed). Exit
status 77 (skipped) where the package is not installed.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

TENSORS = [("a", "U8", [101], 101), ("gr\u00f6\u00dfe/\"b\"", "F32", [12], 48), ("c.weight", "F64", [3, 2], 48),
           ("d", "BF16", [9], 18), ("empty", "U8", [0], 0)]


def must(i):
    return bytes((i * 31 + k * 7) & 255 for k in range(TENSORS[i][3]))


def read_plain(path):
    with open(path, "rb") as file:
        whole = file.read()
    length, = struct.unpack_from("<Q", whole)
    header = json.loads(whole[8:8 + length].decode("utf-8"))
    data = whole[8 + length:]
    notes = header.pop("__metadata__")
    assert (8 + length) % 64 == 0 and notes["format"] == "pt" and notes["note"] == "a \"quoted\" \u20ac", notes
    assert sorted(header) == sorted(t[0] for t in TENSORS), header
    end = 0
    for name, entry in header.items():
        assert entry["data_offsets"][0] == end, (name, entry)
        end = entry["data_offsets"][1]
    assert end == len(data)
    for i, (name, dtype, shape, size) in enumerate(TENSORS):
        begin, end = header[name]["data_offsets"]
        assert (header[name]["dtype"], header[name]["shape"], end - begin) == (dtype, shape, size), (name, header[name])
        assert data[begin:end] == must(i), name
    check_sums(notes, header, whole, length)


def check_sums(notes, header, whole, length):
    sums = notes["stepwell.checksums"]
    assert len(sums) == 16 * len(header) and len(notes["stepwell.header"]) == 16
    try:
        import xxhash
    except ImportError as missing:
        print(f"checksums were not computed: {missing}")
        return
    for i, entry in enumerate(header.values()):
        begin, end = entry["data_offsets"]
        data = whole[8 + length + begin:8 + length + end]
        assert xxhash.xxh3_64_hexdigest(data) == sums[16 * i:16 * i + 16]
    text = whole[8:8 + length].replace(notes["stepwell.header"].encode(), b"0" * 16, 1)
    assert xxhash.xxh3_64_hexdigest(text) == notes["stepwell.header"]


def read_package(path):
    import safetensors
    with open(path, "rb") as file:
        got = dict(safetensors.deserialize(file.read()))
    assert sorted(got) == sorted(t[0] for t in TENSORS), got
    for i, (name, dtype, shape, _) in enumerate(TENSORS):
        entry = got[name]
        assert (entry["dtype"], entry["shape"], bytes(entry["data"])) == (dtype, shape, must(i)), (name, entry)


def main():
    which, peer = sys.argv[1:]
    if which == "package":
        try:
            print(f"safetensors {__import__('safetensors').__version__}")
        except ImportError as missing:
            print(f"skipped: {missing}")
            sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tensors")
        subprocess.run([peer, path], check=True)
        {"plain": read_plain, "package": read_package}[which](path)
    print("the same")


main()
