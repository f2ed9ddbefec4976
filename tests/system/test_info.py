#!/usr/bin/env python3
"""stepwell info: what it says of checkpoints, of files of parameters and of other programs' files, whole or damaged, and how two of them
differ."""
import ctypes
import json
import os
import struct

from frame import Run, Skip, check, main, put, raw, run, test

CREATED = "2026-01-02T03:04:05Z"
WIDTH = {"F64": 8, "F32": 4, "U8": 1}
RUN = {"version": 1, "step": 7, "seed": 5, "isa": "avx512", "device": "cpu",
       "models": [{"name": "lenet5", "layout": "0123456789abcdef", "members": 1}],
       "groups": [{"name": "mlp", "layout": "00000000000000ab", "members": 100000, "state_bytes": 24}],
       "loaders": [{"epoch": 1, "batch_index": 2, "batch_rows": 64, "samples": 1200, "seed": "9", "shuffle": True, "drop_last": False,
                    "data": "fedcba9876543210"}]}


def sum_of(text):
    """XXH3 of 64 bits, by the library itself."""
    try:
        xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    except OSError as why:
        raise Skip("no libxxhash") from why
    xxh3.restype, xxh3.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
    return f"{xxh3(text, len(text)):016x}"


def put_tensors(name, tensors, notes):
    """Written by hand: the widest types first, with the sums of the tensors and of the header."""
    tensors = sorted(tensors, key=lambda row: -WIDTH[row[1]])
    head, at = {"__metadata__": {"format": "pt", "stepwell.header": "0" * 16, "stepwell.checksums": "".join(sum_of(x[2]) for x in tensors),
                                 **notes}}, 0
    for tensor, dtype, text in tensors:
        head[tensor] = {"dtype": dtype, "shape": [len(text) // WIDTH[dtype]], "data_offsets": [at, at + len(text)]}
        at += len(text)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    text = text.replace(b"0" * 16, sum_of(text).encode(), 1)
    return put(name, struct.pack("<Q", len(text)) + text + b"".join(x[2] for x in tensors))


def parameters(name, weight=(1, 2, 3, 4, 5, 6), second="fc.bias", own=(), **notes):
    return put_tensors(name, [("fc.weight", "F32", struct.pack("<6f", *weight)), (second, "F32", struct.pack("<3f", 0.5, 0, -1)), *own], notes)


def checkpoint(name, step=7, created=CREATED):
    one, half = struct.pack("<f", 1), struct.pack("<f", 0.5)
    own = (("stepwell.optimizer/fc.weight.m", "F32", half), ("stepwell.optimizer/tick", "F64", struct.pack("<2d", 1, 2)),
           ("stepwell.state/hidden", "F32", one), ("stepwell.gradient/fc.weight", "F32", one), ("stepwell.knobs", "F32", half),
           ("mlp/stepwell.members", "U8", b"seeds..."), ("mlp/stepwell.bytes", "U8", b"abc"), ("stepwell.blob/best", "U8", b"0.5"),
           ("stepwell.run", "U8", json.dumps({**RUN, "step": step}, separators=(",", ":")).encode()))
    return parameters(name, own=own, **{"stepwell.checkpoint": "1", "stepwell.command": "stepwell train", "stepwell.created": created})


def foreign():
    head = b'{"w":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]}}'
    return put("foreign", struct.pack("<Q", len(head)) + head + bytes(4))


def flip(name, at):
    """The lowest bit of a byte."""
    text = bytearray(raw(name))
    text[at] ^= 1
    return put(name, bytes(text))


def info(words, status, *says):
    done = run(f"info {words}", status)
    for part in says:
        check(part in done.out, part, "is not in", done)
    return done


def damaged(words, part, *says):
    """One line on standard error has the part."""
    done = info(words, 3, *says)
    check(done.err.count("\n") == 1 and part in done.err, done, "must say", part)
    return done


@test("a checkpoint is described")
def described():
    done = info(checkpoint("c"), 0, ": a checkpoint, version 1, ", "step 7, seed 5, avx512, cpu",
                "model lenet5, layout 0123456789abcdef, 1 member\n", "group mlp, layout 00000000000000ab, 100,000 members, 24 bytes of state "
                "each\n", "loader 0: epoch 1, 2 batches of 64 rows taken\n    1,200 samples, seed 9, shuffled, data fedcba9876543210",
                "stepwell.command: stepwell train", f"stepwell.created: {CREATED}", "parameters and buffers: 2 tensors, 36 B",
                "optimizer: 2 tensors, 20 B", "states: 1 tensor, 4 B", "gradients: 1 tensor", "knobs: 1 tensor", "members: 2 tensors, 11 B",
                "blobs: 1 tensor, 3 B", "run: 1 tensor", "F32 (6)", "whole: all 11 tensors and the header match their checksums")
    assert not done.err


@test("its JSON says the same")
def described_json():
    x = info(f"--json {checkpoint('c')}", 0).json
    assert (x["kind"], x["whole"], x["step"], len(x["tensors"]), len(x["models"]), len(x["loaders"])) == ("checkpoint", True, 7, 11, 1, 1)
    group = x["groups"][0]
    assert (group["name"], group["members"], group["state_bytes"]) == ("mlp", 100000, 24)
    assert all(len(tensor["checksum"]) == 16 for tensor in x["tensors"])
    assert 100 < sum(tensor["bytes"] for tensor in x["tensors"]) < x["bytes"]
    assert x["metadata"]["stepwell.command"] == "stepwell train"


@test("parameters are described")
def parameters_described():
    info(parameters("p"), 0, ": parameters with checksums, ", "whole: all 2 tensors and the header match their checksums")


@test("files of other programs are described")
def others():
    info(foreign(), 0, ": safetensors of another program, ", "F16 (2, 1)", "no checksums: whether it is whole is not known")
    assert info("--json foreign", 0).json["whole"] is None


@test("damage is named")
def damage():
    flip(checkpoint("d"), -1)  # in the run's text, which comes last
    damaged("d", "'stepwell.run', bytes ", "damaged: 1 of 11 tensors; the first: ")
    x = damaged("--json d", "'stepwell.run', bytes ").json
    assert x["whole"] is False and x["damaged_tensors"] == 1
    assert not damaged(flip(checkpoint("d"), 40), "d: ").out  # in the header
    put("d", raw(checkpoint("d"))[:-1])
    assert not damaged("--json d", "lies at").out


@test("what is no such file is refused")
def none_such():
    os.mkdir("folder")
    os.mkfifo("pipe")
    put("empty", "")
    put("text", "hello, all!")
    for name, part in (("missing", "No such file"), ("folder", "directory"), ("empty", "0 bytes are not a safetensors file"),
                       ("text", "is announced")):
        damaged(name, part)
    Run("exec echo x > pipe", shell=True)
    job = Run("info pipe").wait(20)
    check(job.status == 3, job)
    info("", 2)
    info("a --dif b", 2)


@test("generations have a line each")
def generations():
    checkpoint("g")
    checkpoint("g.1", step=6)
    flip(checkpoint("g.2", step=6), -1)
    checkpoint("g.4", step=6)  # a process may have ended while it moved them up
    info("g", 0, "g.1: step 6, whole\n", "g.2: damaged: ", "g.4: step 6, whole\n")
    rows = info("--json g", 0).json["generations"]
    assert len(rows) == 3 and rows[0]["step"] == 6 and rows[1]["whole"] is False
    put("g", "x")  # damaged itself: what to go back to is said
    damaged("g", "g: 1 bytes are not", "g.1: step 6, whole\n")


@test("the same is the same")
def same():
    checkpoint("a")
    checkpoint("b", created="2027-01-01T00:00:00Z")
    info("a --diff a", 0, "the same: ")
    info("a --diff b", 0, "2027")
    assert info("--json a --diff a", 0).json["same"] is True


@test("the first difference is named")
def first():
    parameters("a")
    parameters("b", (1, 2, 3.5, 4, 7, 6), "fc.offset")
    info("a --diff b", 1, "'fc.weight' differs first at element 2: 3 and 3.5; 2 of 6 elements differ, the largest difference is 2\n",
         "'fc.bias' is in ", "'fc.offset' is in ")
    x = info("--json a --diff b", 1).json
    assert x["same"] is False and len(x["only_a"]) == len(x["only_b"]) == 1
    assert (x["first"]["name"], x["first"]["element"], x["first"]["differing"]) == ("fc.weight", 2, 2)
    info(f"a --diff {foreign()}", 1, "'w' is in ")


@test("differences need whole files")
def need_whole():
    damaged(f"{parameters('a')} --diff missing", "No such file")
    flip(parameters("b"), -1)
    damaged("a --diff b", "is damaged")
    assert not damaged("b --diff a", "is damaged").out


main("info")
