"""Published models at full size: config.json as transformers writes it, over sparse files of zeros in shards, by the links of the
hub's cache, with tensors that are passed over. `info`, `plan` by config.json alone, and a step: all logits are equal, so its loss is
the logarithm of the vocabulary; and the process has the bytes that were planned.

usage: hf_published.py PROGRAM [NAME ...]
Exit status: 0 good, 1 not, 77 transformers or PyTorch is not installed.
"""

import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def llama(hidden, inner, layers, heads, kv, **more):
    return dict(vocab_size=49152, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv, max_position_embeddings=8192, rms_norm_eps=1e-5, tie_word_embeddings=True, **more)


LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
QWEN = dict(vocab_size=151936, rms_norm_eps=1e-6, tie_word_embeddings=True, sliding_window=32768, use_sliding_window=False)
ROPE = "rope_theta", "rope_type"
MODELS = {
    "gpt2": ("gpt2", {}, "float32"),
    "SmolLM2-135M": ("llama", llama(576, 1536, 30, 9, 3, rope_parameters=dict(zip(ROPE, (1e5, "default")))), "bfloat16"),
    "SmolLM2-360M": ("llama", llama(960, 2560, 32, 15, 5, rope_parameters=dict(zip(ROPE, (1e5, "default")))), "bfloat16"),
    "SmolLM2-1.7B": ("llama", llama(2048, 8192, 24, 32, 32, rope_parameters=dict(zip(ROPE, (1.3e5, "default")))), "bfloat16"),
    "Qwen2.5-0.5B": ("qwen2", {**llama(896, 4864, 24, 14, 2), **QWEN, "max_position_embeddings": 32768,
                               "rope_parameters": dict(zip(ROPE, (1e6, "default")))}, "bfloat16"),
    "Qwen3-0.6B": ("qwen3", {**llama(1024, 3072, 28, 16, 8), **QWEN, "max_position_embeddings": 40960, "head_dim": 128,
                             "rope_parameters": dict(zip(ROPE, (1e6, "default")))}, "bfloat16"),
    "Llama-3.2-1B": ("llama", {**llama(2048, 8192, 16, 32, 8), "vocab_size": 128256, "max_position_embeddings": 131072, "head_dim": 64,
                               "rope_parameters": LLAMA3}, "bfloat16"),
    "Mistral-7B-v0.3": ("mistral", {**llama(4096, 14336, 32, 32, 8), "vocab_size": 32768, "max_position_embeddings": 32768, "sliding_window": None,
                                    "tie_word_embeddings": False, "rope_parameters": dict(zip(ROPE, (1e6, "default")))}, "bfloat16"),
}
SHARD = 2 << 30
CONTEXT = 64
program = os.path.abspath(sys.argv[1])


def sparse(path, tensors, dtype):
    """A file of zeros: its data take no room on the disk."""
    size, head, at = {"F32": 4, "BF16": 2}[dtype], {}, 0
    for name, shape in tensors:
        end = at + math.prod(shape) * size
        head[name] = dict(dtype=dtype, shape=list(shape), data_offsets=[at, end])
        at = end
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at


def made(name, cache):
    """The model in the hub's cache, by links; how many numbers it has."""
    family, sizes, dtype = MODELS[name]
    home = os.path.join(cache, f"models--org--{name}")
    blobs, snapshot = os.path.join(home, "blobs"), os.path.join(home, "snapshots", "abc")
    for folder in (blobs, snapshot, os.path.join(home, "refs")):
        os.makedirs(folder)
    with open(os.path.join(home, "refs", "main"), "w") as ref:
        ref.write("abc")
    config = transformers.AutoConfig.for_model(family, **sizes, dtype=dtype)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(blobs)
    of = {"float32": "F32", "bfloat16": "BF16"}[dtype]
    size = {"F32": 4, "BF16": 2}[of]
    every = [(key, tuple(t.shape)) for key, t in model.named_parameters()]
    numbers = sum(math.prod(shape) for _, shape in every)
    every += [("transformer.h.0.attn.bias", (1, 1, 1024, 1024))] if family == "gpt2" else [("model.layers.0.self_attn.rotary_emb.inv_freq", (32,))]
    shards, room = [[]], SHARD
    for key, shape in every:
        room -= math.prod(shape) * size
        if room < 0 and shards[-1]:
            shards.append([])
            room = SHARD - math.prod(shape) * size
        shards[-1].append((key, shape))
    names = ["model.safetensors"] if len(shards) == 1 else [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    total = sum(sparse(os.path.join(blobs, file), shard, of) for file, shard in zip(names, shards))
    if len(shards) > 1:
        with open(os.path.join(blobs, "model.safetensors.index.json"), "w") as index:
            json.dump(dict(metadata=dict(total_size=total), weight_map={key: file for file, shard in zip(names, shards) for key, _ in shard}), index)
    for file in os.listdir(blobs):
        os.symlink(os.path.join("..", "..", "blobs", file), os.path.join(snapshot, file))
    return numbers, len(shards), config.vocab_size, blobs


def said(words):
    done = subprocess.run([program, *words.split(), "--json"], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return json.loads(done.stdout)


def step(words):
    """The results of a step, and the most bytes that its process had."""
    process = 0
    with tempfile.TemporaryFile("w+") as out:
        job = subprocess.Popen([program, *words.split(), "--json", "--quiet"], stdout=out)
        while job.poll() is None:
            with open(f"/proc/{job.pid}/status") as status:
                lines = [line.split() for line in status]
            process = max([process] + [int(line[1]) * 1024 for line in lines if line[0] == "VmHWM:"])
            time.sleep(0.02)
        assert job.returncode == 0, words
        out.seek(0)
        return json.load(out), process


def check(name, scratch):
    cache = os.path.join(scratch, "cache")
    numbers, files, vocabulary, blobs = made(name, cache)
    os.environ["HF_HUB_CACHE"] = cache
    notes = {note["key"]: note["text"] for note in said(f"info hf:org/{name}")["notes"]}
    assert notes["parameters"] == f"{numbers:,}" and f"in {files} file" in notes["weights"], (notes, numbers, files)
    kind = "4bit" if numbers > 4e9 else "file"
    words = f"--lora 4 --context {CONTEXT} --data ids:{scratch}/d.jsonl --test-data ids:{scratch}/d.jsonl --accumulate 1 --weights {kind}"
    alone = os.path.join(scratch, "alone")
    os.makedirs(alone, exist_ok=True)
    shutil.copy(os.path.join(blobs, "config.json"), alone)
    plan = said(f"plan --model hf:{alone} {words}")
    out, process = step(f"train --model hf:org/{name} {words} --steps 1")
    assert out["predicted"] == out["measured"] == plan["predicted"] and out["total_bytes"] == plan["total_bytes"], (name, out, plan)
    assert all(r["predicted"] == r["measured"] for r in out["roles"]), (name, out["roles"])
    assert abs(out["final_loss"] - math.log(vocabulary)) < 1e-5, (name, out["final_loss"], math.log(vocabulary))
    planned = plan["process_bytes"]
    assert abs(process - planned) < 0.01 * planned + (8 << 20), (name, process, planned)
    print(f"{name}: {numbers:,} numbers in {files} file{'s'[:files > 1]}, --weights {kind}: process {process / 2**20:,.1f} MiB, planned "
          f"{planned / 2**20:,.1f}, loss {out['final_loss']:.6f}", flush=True)
    shutil.rmtree(cache)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        with open(os.path.join(scratch, "d.jsonl"), "w") as file:
            file.write(json.dumps(dict(input_ids=list(range(CONTEXT)))))
        for name in sys.argv[2:] or MODELS:
            check(name, scratch)


main()
