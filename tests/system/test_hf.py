#!/usr/bin/env python3
"""Folders of transformers, made here by hand, trained with adapters: the same bits again and after --resume, what is refused and when, Ctrl-C."""
import json
import math
import os
import random
import shutil
import signal
import struct

from frame import FULL, Run, Skip, caught, check, main, put, raw, records, refused, run, said, tensors, test, wait_until
from ranks_frame import ended, ranks

SIZES = dict(vocab_size=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
LLAMA = dict(SIZES, hidden_size=16, intermediate_size=24, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=False)
GPT2 = dict(vocab_size=40, n_embd=16, n_layer=2, n_head=4, n_positions=64)
MODEL = "--model hf:model --context 32 --data ids:d.jsonl"
JOB = f"{MODEL} --lora 2 --accumulate 2 --lr 0.01 --quiet --json"
KEPT = ("steps", "final_loss", "epoch_loss", "validation_loss")
ADAPTER = ("adapter_config.json", "adapter_model.safetensors")


def shapes(family, layers, h):
    inner = 24
    if family == "gpt2":
        yield from (("wte.weight", (40, h)), ("wpe.weight", (64, h)), ("ln_f.weight", (h,)), ("ln_f.bias", (h,)))
        for i in range(2):
            for part, shape in (("ln_1", (h,)), ("attn.c_attn", (h, 3 * h)), ("attn.c_proj", (h, h)), ("ln_2", (h,)),
                                ("mlp.c_fc", (h, 4 * h)), ("mlp.c_proj", (4 * h, h))):
                yield f"h.{i}.{part}.weight", shape
                yield f"h.{i}.{part}.bias", shape[-1:]
        return
    yield from (("model.embed_tokens.weight", (40, h)), ("model.norm.weight", (h,)), ("lm_head.weight", (40, h)))
    for i in range(layers):
        for part, shape in (("input_layernorm", (h,)), ("self_attn.q_proj", (h, h)), ("self_attn.k_proj", (h // 2, h)), ("self_attn.v_proj", (h // 2, h)),
                            ("self_attn.o_proj", (h, h)), ("post_attention_layernorm", (h,)), ("mlp.gate_proj", (inner, h)),
                            ("mlp.up_proj", (inner, h)), ("mlp.down_proj", (h, inner))):
            yield f"model.layers.{i}.{part}.weight", shape


def half(x):
    """BF16, towards zero."""
    return struct.pack("<f", x)[2:]


def write_tensors(path, of, seed, dtype, three):
    dice, head, body = random.Random(seed), {}, b""
    for name, shape in of:
        numbers = [dice.choice((-0.25, 0, 0.25)) if three and len(shape) > 1 else dice.gauss(len(shape) == 1, 0.2) for _ in range(math.prod(shape))]
        data = b"".join(half(x) if dtype == "BF16" else struct.pack("<f", x) for x in numbers)
        head[name] = dict(dtype=dtype, shape=shape, data_offsets=[len(body), len(body) + len(data)])
        body += data
    text = json.dumps(head).encode()
    put(path, struct.pack("<Q", len(text)) + text + body)
    return head, len(body)


def folder(name="model", seed=1, family="llama", dtype="F32", shards=1, three=False, **other):
    shutil.rmtree(name, ignore_errors=True)
    os.mkdir(name)
    config = {"model_type": family, "dtype": {"F32": "float32", "BF16": "bfloat16"}[dtype], **(GPT2 if family == "gpt2" else LLAMA), **other}
    put(f"{name}/config.json", json.dumps(config))
    every, index, total = list(shapes(family, config.get("num_hidden_layers"), config.get("hidden_size", 16))), {}, 0
    for i in range(shards):
        file = f"model-{i}.safetensors" if shards > 1 else "model.safetensors"
        head, size = write_tensors(f"{name}/{file}", every[i::shards], seed + i, dtype, three)
        index.update(dict.fromkeys(head, file))
        total += size
    if shards > 1:
        put(f"{name}/model.safetensors.index.json", json.dumps(dict(metadata=dict(total_size=total), weight_map=index)))


def documents():
    dice = random.Random(3)
    with open("d.jsonl", "w") as file:
        for _ in range(60):
            first = dice.randrange(40)
            ids = [(first + i) % 40 for i in range(dice.randrange(2, 33))]
            cut = dice.randrange(len(ids))
            file.write(json.dumps(dict(input_ids=ids, labels=[-100] * cut + ids[cut:])) + "\n")


def files(**of):
    folder(**of)
    documents()


def adapter(name):
    return [raw(f"{name}/{file}") for file in ADAPTER]


def rows_of(name):
    return [{k: v for k, v in r.items() if k != "ms"} for r in records(name)]


@test("the bits are the same again, on more threads, over ranks and after a resume")
def bits():
    for of in (dict(), dict(family="gpt2", dtype="BF16", shards=3)):
        for name in os.listdir():
            (shutil.rmtree if os.path.isdir(name) else os.unlink)(name)
        files(**of)
        words = f"train {JOB} --epochs 3 --validate-every 5 --dropout 0.1 --metrics m.jsonl --save-adapter"
        first = said(f"{words} a")
        check(first["predicted"] == first["measured"] and first["roles"], first)
        check(all(r["predicted"] == r["measured"] for r in first["roles"] + first["layers"]), first["roles"])
        params, rows = adapter("a"), rows_of("m.jsonl")
        losses = [r["loss"] for r in rows if r["kind"] == "train"]
        check(losses[-1] != losses[0] and first["final_loss"] == losses[-1], losses)
        for threads in (1, 3):
            again = said(f"{words} b --threads {threads}")
            assert adapter("b") == params and rows_of("m.jsonl") == rows and again["final_loss"] == first["final_loss"]
        said(f"{words} b --checkpoint c --checkpoint-pauses --checkpoint-every 7 --keep-checkpoints 9")
        longer = raw("m.jsonl")
        for name in [name for name in os.listdir() if name.startswith("c.")]:
            put("m.jsonl", longer)
            out = said(f"{words} b --resume {name}")
            assert adapter("b") == params and rows_of("m.jsonl") == rows and [out[k] for k in KEPT] == [first[k] for k in KEPT]
            os.unlink(name)
        # Op by op there are other places and the same numbers.
        said(f"{words} b --immediate")
        assert adapter("b") == params and rows_of("m.jsonl") == rows
        evaluated = said(f"eval {MODEL} --adapter a --batch 1 --json")
        assert evaluated["loss"] == first["validation_loss"]
        alone = said(f"train {JOB.replace('--accumulate 2', '--batch 4 --shards 4')} --steps 5 --save-adapter a")
        params = adapter("a")
        out = ended(ranks(2, f"train {JOB.replace('--accumulate 2', '--batch 4 --shards 4')} --steps 5 --save-adapter b")).json
        assert adapter("b") == params and [out[k] for k in KEPT] == [alone[k] for k in KEPT]


@test("plan says the bytes of train, of config.json alone too")
def planned():
    for of in (dict(), dict(dtype="BF16"), dict(family="gpt2"), dict(hidden_size=64)):
        files(**of)
        os.makedirs("alone", exist_ok=True)
        shutil.copy("model/config.json", "alone")
        for words in ("--lora 2", "--lora 3 --weights bf16 --accumulate 1", "--lora 2 --weights int8", "--lora 2 --weights 4bit", "", "--lora 2 --method mezo", "--lora 2 --batch 4 --shards 2"):
            job = f"--model hf:model --context 32 --data ids:d.jsonl {words} --json"
            trained = said(f"train {job} --steps 2 --quiet")
            check(trained["measured_peak_bytes"] == trained["predicted_peak_bytes"] and trained["measured"] == trained["predicted"], words, trained)
            if "mezo" in words:
                assert run(f"plan {job}").out
                continue
            for name in ("model", "alone"):
                a = said(f"plan {job.replace('hf:model', 'hf:' + name)}")
                check(all(a[k] == trained[k] for k in ("predicted", "model_bytes", "arena_bytes", "total_bytes")), name, words, a, trained)
    refused("train --model hf:alone --lora 2 --quiet", 3, "alone", "model.safetensors")
    refused("eval --model hf:alone --quiet", 3, "alone", "model.safetensors")


@test("weights in 8 and 4 bits: fewer bytes, the same loss where they have the numbers, and rows without blocks of 64 are said")
def stored():
    files(hidden_size=64, three=True)
    sizes, losses = [], []
    for kind in ("f32", "bf16", "int8", "4bit"):
        words = f"{JOB} --weights {kind} --steps 8"
        out = said(f"train {words} --save-adapter a")
        params = adapter("a")
        assert said(f"train {words} --save-adapter b --threads 2")["final_loss"] == out["final_loss"] and adapter("b") == params
        sizes.append(out["model_bytes"])
        losses.append(out["final_loss"])
        err = run(f"train {words.replace(' --quiet --json', '')}")
        check(("2 linears stay bf16" in err.out + err.err) == (kind == "4bit"), kind, err)
    check(sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 4, sizes)
    check(losses[1] == losses[0] and max(abs(x - losses[0]) for x in losses) < 1e-4, losses)
    files(hidden_size=64)
    other = [said(f"train {JOB} --weights {kind} --steps 8")["final_loss"] for kind in ("f32", "bf16", "int8", "4bit")]
    check(len(set(other)) == 4, other)


@test("a budget that is too small is refused before a weight is read")
def budget():
    files()
    needed = said(f"plan {JOB}")["total_bytes"]
    least = said(f"train {JOB} --steps 2 --memory-budget {needed}")
    check(least["total_bytes"] <= needed, least)

    def operations(status, more):
        """Of files, in this run."""
        err = run(f"train {JOB} --steps 2 {more}", status, STEPWELL_FAULT="file:count").err
        check(status == 0 or "does not fit" in err and "the budget is 20,480" in err, err)
        return int(err.split("file ")[1].split()[0])

    few = operations(4, "--memory-budget 20KiB"), operations(0, "")
    folder(num_hidden_layers=6)
    many = operations(4, "--memory-budget 20KiB"), operations(0, "")
    check(few[0] == many[0] and many[1] > few[1] + 36, few, many) # what would fit was planned, of config.json


@test("another base is refused at --resume and said at --adapter")
def other_base():
    files()
    folder("other", seed=2)
    run(f"train {JOB} --steps 4 --checkpoint c --save-adapter a")
    refused(f"train {JOB.replace('hf:model', 'hf:other')} --steps 4 --resume c", 2, "--resume c: weights of the model's folder was '")
    refused(f"train {JOB} --weights bf16 --steps 4 --resume c", 2, "--resume c: --weights was 'none'")
    words = f"train {JOB.replace('--lora 2', '--adapter a')} --steps 1"
    assert not run(words).err
    err = run(words.replace("hf:model", "hf:other")).err
    check("--adapter a was trained beside other weights than those of other" in err, err)
    check("--adapter a was trained with --weights file; this is --weights int8" in run(f"{words} --weights int8").err)
    # Merging reads the base in the kind that the adapter had.
    for kind in ("file", "bf16", "int8"):
        run(f"train {JOB} --weights {kind} --steps 1 --save-adapter k")
        shutil.rmtree("m", ignore_errors=True)
        assert not run("sample --model hf:model --adapter k --merge m --quiet").err
        shutil.rmtree("m", ignore_errors=True)
        err = run("sample --model hf:other --adapter k --merge m --quiet").err
        check("beside other weights than those of other" in err, kind, err)
    # Of another shape.
    folder("short", num_hidden_layers=1)
    refused(words.replace("hf:model", "hf:short"), 3, "a/adapter_model.safetensors", "layers.1", "is of no linear that llama has")
    folder("wide", hidden_size=16, num_key_value_heads=4)
    refused(words.replace("hf:model", "hf:wide"), 3, "wide/model.safetensors", "k_proj", "(16, 16)")
    folder("gpt2", family="gpt2")
    refused(words.replace("hf:model", "hf:gpt2"), 3, "a/adapter_model.safetensors", "is of no linear that gpt2 has")
    refused(words.replace("train", "plan").replace("hf:model", "hf:gpt2").replace(" --steps 1", ""), 3, "is of no linear")


@test("files that are missing, cut or of something else are refused by name")
def damaged():
    files()
    run(f"train {JOB} --steps 2 --save-adapter a")
    for of, names in (("a", ADAPTER), ("model", ("config.json", "model.safetensors"))):
        for name in names:
            sound = raw(f"{of}/{name}")
            for text in (None, b"", sound[:100], sound[:-3], b"hello, world", sound[:8] + b"x" * (len(sound) - 8)):
                os.unlink(f"{of}/{name}")
                if text is not None:
                    put(f"{of}/{name}", text)
                refused(f"train {JOB.replace('--lora 2', '--adapter a')} --steps 2", 3, f"{of}/{name}" if text is not None or of == "a" else of)
                put(f"{of}/{name}", sound)
    os.mkdir("old")
    shutil.copy("model/config.json", "old")
    put("old/pytorch_model.bin", "x")
    refused("train --model hf:old --lora 2 --quiet", 1, "old", "save_pretrained")
    refused(f"train {JOB} --steps 2 --save-adapter no/such/folder", 1, "--save-adapter no/such/folder", "no/such")
    refused(f"train {JOB} --steps 2 --save-adapter d.jsonl", 1, "d.jsonl is no folder")
    refused(f"train {JOB.replace('--lora 2', '--adapter none')} --steps 2", 3, "none/adapter_config.json")


@test("a folder that cannot be written is said before a step")
def read_only():
    files()
    os.mkdir("closed", 0o555)
    if os.access("closed", os.W_OK):
        raise Skip("this user may write everywhere")
    refused(f"train {JOB} --steps 2 --save-adapter closed", 1, "closed")
    refused(f"train {JOB} --steps 2 --save-adapter closed/a", 1, "closed")


@test("Ctrl-C saves the adapter")
def interrupted():
    files()
    for number in (signal.SIGINT, signal.SIGTERM):
        shutil.rmtree("a", ignore_errors=True)
        put("m.jsonl", "")
        job = Run(f"train {JOB} --epochs 100000 --metrics m.jsonl --save-adapter a")
        wait_until(lambda: os.path.getsize("m.jsonl") > 1000, pause=0.01)
        job.send(number)
        job.wait(60)
        check(job.status == 130 and job.json["steps"] > 1, number, job)
        steps = job.json["steps"]
        # This is the run as far as it came.
        out = said(f"eval {MODEL} --adapter a --json")
        check(math.isfinite(out["loss"]) and steps > 1, out)
        head, body = tensors("a/adapter_model.safetensors")
        assert sum(any(body[head[n]["data_offsets"][0]:head[n]["data_offsets"][1]]) for n in head if n.endswith("lora_B.weight")) == 14


@test("other ways to train work, or are refused by name")
def ways():
    files()
    before = said(f"eval {MODEL} --lora 2 --json")["loss"]
    for words in ("--immediate", "--witness", "--precision bf16", "--optimizer adafactor", "--state 8bit", "--clip 0.1",
                  "--update after", "--update release --accumulate 1", "--keep-gradients", "--weights bf16", "--profile p --steps 20",
                  "--profile q --op-clocks", "--no-recompute", "--batch 3 --accumulate 3"):
        out = said(f"train {JOB} --epochs 3 {words}")
        check(out["validation_loss"] < before, words, before, out["validation_loss"])
    run("report p")
    for method in ("mezo", "lozo"):
        job = JOB.replace("--accumulate 2 --lr 0.01", f"--method {method} --record r")
        out = said(f"train {job} --steps 8 --save-adapter a")
        replayed = said(f"train {job.replace(f'--method {method} --record', '--replay')} --save-adapter b")
        check(out["accumulate"] == 1 and adapter("a") == adapter("b") and replayed["validation_loss"] == out["validation_loss"], method, out)
    assert said(f"train {JOB.replace('--lr 0.01', '')} --find-lr --steps 20")["find_lr"]
    assert "warm-up -1" not in run(f"train {MODEL} --lora 2 --find-lr --steps 20").err
    run(f"plan {MODEL} --lora 2 --batch 2 --shards 2")
    run(f"plan {MODEL} --lora 2 --batch 2 --ranks 2")
    run(f"plan {MODEL} --lora 2 --method backprop,mezo")
    for words, part in ((f"train {MODEL} --lora 2 --members 2", "members"), (f"es {MODEL} --lora 2", "es"), ("es --model hf:model", "es"),
                        (f"pbt {MODEL} --lora 2 lr=log:0.0001..0.1", "members"), ("evolve --model hf:model", "--model"),
                        ("es --environment cartpole --model hf:model", "environment"),
                        (f"plan {MODEL} --lora 2 --method es --batch 2", "es"), (f"predict {MODEL} --load-params x", "predict"),
                        (f"train {MODEL} --lora 2 --adapter a", "exclude each other"),
                        (f"train {MODEL} --dropout 0.1", "--dropout"), (f"train {MODEL} --lora-alpha 3", "--lora-alpha"),
                        ("train --model hf --lora 2", "--model 'hf'"), (f"train {MODEL} --lora 2 --augment flip", "--augment")):
        refused(words, 2, part)
    refused(f"train {JOB.replace('--lora 2', '--weights bf16')}", 2, "--weights has no effect")
    # Shards take the place of micro-batches, and the default batch has a row for each.
    assert said(f"plan {MODEL} --lora 2 --shards 4 --json")["batch"] == 4
    out = said(f"train {MODEL} --lora 2 --shards 4 --steps 2 --quiet --json")
    assert out["batch"] == 4 and out["accumulate"] == 1, out


@test("a run of all parameters is saved, goes on and is evaluated by its checkpoint")
def whole():
    files()
    job = JOB.replace("--lora 2 ", "")
    out = said(f"train {job} --epochs 1 --checkpoint c --save-params all")
    again = said(f"eval {MODEL} --load-params c --batch 1 --json")
    saved = said(f"eval {MODEL.replace('hf:model', 'hf:all')} --batch 1 --json")
    assert again["loss"] == saved["loss"] == out["validation_loss"] != said(f"eval {MODEL} --batch 1 --json")["loss"], (again, saved, out)
    refused(f"eval {MODEL} --load-params c --weights int8", 2, "--weights has no effect")
    # No whole model goes over its base, or beside an adapter.
    refused(f"train {job} --steps 1 --save-params model", 2, "--save-params model", "the folder of the base")
    refused(f"train {job} --steps 1 --save-best ./model/", 2, "--save-best ./model/", "the folder of the base")
    run(f"train {JOB} --steps 1 --save-adapter a")
    refused(f"train {job} --steps 1 --save-params a", 2, "--save-params a", "has an adapter")
    refused("sample --model hf:model --adapter a --merge a", 2, "--merge a", "has an adapter")
    refused("sample --model hf:model --adapter a --merge model", 2, "--merge model", "the folder of the base")
    refused(f"train {MODEL.replace('hf:model', 'hf:nowhere')} --lora 2", 3, "nowhere", "hf download nowhere")
    refused(f"train {MODEL.replace('hf:model', 'hf:')} --lora 2", 3, "must be a folder")


main("hf")
