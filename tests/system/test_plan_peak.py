#!/usr/bin/env python3
"""stepwell plan --explain-peak: the tensors are the peak, and each option has the bytes that the plan with it has."""
import json
import math
import os
import re
import struct

from frame import FULL, check, main, put, raw, run, said, test

NET = "--model gpt --data text:text --layers 2 --width 32 --heads 2 --context 32 --batch 8 --optimizer adamw"
JOBS = [f"{NET} --update after", "--model mlp --hidden 40,30 --batch 64 --synthetic-n 200 --clip 1 --keep-gradients",
        "--model swishnet --width 256 --layers 4 --batch 64 --synthetic-n 256 --no-rebuild --no-tiles --no-strips --optimizer momentum --checkpoint C",
        "--model hf:tiny --data ids:d.jsonl --context 32 --lora 2 --batch 2",
        "--model hf:tiny --data ids:d.jsonl --context 32 --accumulate 1"]
MORE = ["--model lenet5 --batch 32 --synthetic-n 100", "--model lenet5 --batch 33 --synthetic-n 100 --checkpoint C --state 8bit", f"{NET} --memory-budget 2000000", f"{NET} --no-chunks --no-recompute", "--model resnet9 --width-factor 0.125 --batch 8 --synthetic-n 40", "--model mlp --batch 1 --synthetic-n 9",
        "--model lenet5 --batch 16 --accumulate 3 --synthetic-n 100", "--model lenet5 --batch 32 --synthetic-n 100 --update release",
        "--model lenet5 --batch 32 --synthetic-n 100 --precision bf16"]


def make_data():
    put("text", "the quick brown fox " * 300)
    put("d.jsonl", "".join(json.dumps({"input_ids": [(7 * i * k + k) % 40 for k in range(1, 60)]}) + "\n" for i in range(1, 12)))
    shapes = {"wte.weight": (40, 16), "wpe.weight": (64, 16), "ln_f.weight": (16,), "ln_f.bias": (16,)}
    for name, (rows, cols) in {"attn.c_attn": (16, 48), "attn.c_proj": (16, 16), "mlp.c_fc": (16, 64), "mlp.c_proj": (64, 16), "ln_1": (0, 16), "ln_2": (0, 16)}.items():
        shapes[f"h.0.{name}.weight"] = (rows, cols) if rows else (cols,)
        shapes[f"h.0.{name}.bias"] = (cols,)
    head, n = {}, 0
    for name, shape in shapes.items():
        head[name] = dict(dtype="F32", shape=shape, data_offsets=[n, n + 4 * math.prod(shape)])
        n += 4 * math.prod(shape)
    os.makedirs("tiny", exist_ok=True)
    put("tiny/model.safetensors", struct.pack("<Q", len(json.dumps(head))) + json.dumps(head).encode() + bytes(n))
    put("tiny/config.json", json.dumps(dict(model_type="gpt2", vocab_size=40, n_embd=16, n_layer=1, n_head=4, n_positions=64)))


def changed(words, option):
    """The command with it, or without."""
    words = words.split()
    for name, value in re.findall(r"(without|--[a-z0-9-]+) (\S+)", option):
        if name == "without":
            at = words.index(value)
            del words[at:at + (2 if value == "--clip" else 1)]
        elif name in words:
            words[words.index(name) + 1] = value
        else:
            words += [name, value]
    return " ".join(words)


def explained(words):
    """The plan, whose peak is the sum of its tensors, all and by role."""
    plan = said(f"plan --json {words} --explain-peak")
    peak, tensors = plan["peak"], plan["peak"]["tensors"]
    check(sum(t["bytes"] for t in tensors) == peak["peak_bytes"] == plan["predicted_peak_bytes"], words, "the tensors are not the peak")
    for role in plan["roles"]:
        here = sum(t["bytes"] for t in tensors if t["role"] == role["name"])
        check(here == role["predicted"]["at_peak_bytes"], words, role, here)
    for layer in plan["layers"]:
        here = sum(t["bytes"] for t in tensors if (t["layer"] or "") == layer["name"])
        check(here == layer["predicted"]["at_peak_bytes"], words, layer, here)
    check(any(t["op"] == peak["peak_op"] for t in tensors if t["birth"] == peak["position"]) or all(t["birth"] != peak["position"] for t in tensors), words, peak["peak_op"])
    for t in tensors:
        check((t["segment"] == "step") == (t["birth"] is not None) == (t["op"] is not None), words, t)
        check(t["birth"] is None or t["birth"] <= peak["position"] <= t["death"], words, t)
    assert [t["bytes"] for t in tensors] == sorted((t["bytes"] for t in tensors), reverse=True)
    return plan


def bytes_of(tensors):
    """By name, in the model and outside it."""
    sums = {}
    for t in tensors:
        key = t["segment"] == "model", t["name"]
        sums[key] = sums.get(key, 0) + t["bytes"]
    return sums


def sample_time(plan, words):
    """Of a job without micro-batches."""
    return plan["rebuilt"]["of_cost"] / plan["batch"]


@test("what lives at the peak is the peak, and each option has the bytes that are said")
def options():
    make_data()
    seen = set()
    for words in JOBS + (MORE if FULL else []):
        plan = explained(words)
        here = bytes_of(plan["peak"]["tensors"])
        for k, option in enumerate(plan["peak"]["options"]):
            letter, other = chr(ord("a") + k), changed(words, option["option"])
            then = explained(other) if FULL or k % 4 == 0 else said(f"plan --json {other}")
            check((then["predicted_peak_bytes"], then["total_bytes"]) == (option["peak_bytes"], option["total_bytes"]) and option["letter"] == letter, other, option)
            check(option["change_bytes"] == then["predicted_peak_bytes"] - plan["predicted_peak_bytes"], other, option)
            check(option["change_bytes"] < 0 or then["total_bytes"] < plan["total_bytes"], other, "is not less")
            if "--accumulate" not in other and "hf:" not in words and option["more_time_percent"] is not None:
                more = 100 * (sample_time(then, other) / sample_time(plan, words) - 1)
                check(abs(more - option["more_time_percent"]) < 0.006, other, more, option)
            if "peak" in then:
                there = bytes_of(then["peak"]["tensors"])
                for t in plan["peak"]["tensors"]:
                    key = t["segment"] == "model", t["name"]
                    check((letter in t["less_by"]) == (there.get(key, 0) < here[key]), other, t, there.get(key))
            seen |= set(re.findall(r"without --[a-z-]+|--[a-z]+(?: [a-z]\S*| \d?bit)?", option["option"]))
    for option in ("--batch", "--accumulate", "--state 8bit", "--precision bf16", "--lora", "--weights bf16", "--weights int8", "--weights 4bit", "--memory",
                   "without --keep-gradients", "--update release", "without --no-rebuild"):
        check(any(s.startswith(option) for s in seen), "no job has", option, seen)


@test("the least budget is taken, below a proved one none is, and results stay where it is said")
def least():
    make_data()
    proved = 0
    for words in JOBS[:3 if FULL else 2]:
        peak = said(f"plan --json {words} --explain-peak")["peak"]
        budget = peak["least_budget_bytes"]
        run(f"plan {words} --memory-budget {budget}")
        if peak["least_budget_proved"]:
            run(f"plan {words} --memory-budget {budget - 1}", 4)
            proved += 1
        words = words.replace(" --checkpoint C", "")
        run(f"train --quiet {words} --steps 2 --save-params first")
        for option in peak["options"]:
            if option["same_bits"]:
                run(f"train --quiet {changed(words, option['option'])} --steps 2 --save-params then")
                check(raw("first") == raw("then"), words, option)
    assert proved > 0


main("plan_peak")
