"""Folders that transformers writes, read by stepwell: every family, tied and not, in several
files, in each type; and what is refused.

usage: hf_folders.py PROGRAM
Exit status: 0 good, 1 not, 77 transformers or PyTorch is not installed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
CONFIGS = {
    "gpt2": dict(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=1),
    "llama": dict(SMALL, attention_bias=True, mlp_bias=True),
    "qwen2": SMALL,
    "qwen3": dict(SMALL, head_dim=16),
    "mistral": dict(SMALL, num_key_value_heads=1, sliding_window=None),
}


def made(family, folder, dtype, tied, shard):
    config = transformers.AutoConfig.for_model(family, **CONFIGS[family], tie_word_embeddings=tied)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    model.save_pretrained(folder, max_shard_size=shard)
    return sum(p.numel() for p in model.parameters())


def info(program, folder, **env):
    return subprocess.run([program, "info", "hf:" + folder, "--json"], capture_output=True, text=True,
                          env=dict(os.environ, **env))


def notes(done):
    assert done.returncode == 0, done.stderr
    return {note["key"]: note["text"] for note in json.loads(done.stdout)["notes"]}


def check_good(program, folder):
    n = 0
    for family in CONFIGS:
        for dtype, name in ((torch.float32, "F32"), (torch.bfloat16, "BF16"), (torch.float16, "F16")):
            for tied in (False, True):
                for shard in ("1GB", "20KB"):
                    shutil.rmtree(folder, ignore_errors=True)
                    numbers = made(family, folder, dtype, tied, shard)
                    said = notes(info(program, folder))
                    assert said["family"] == family, said
                    assert said["parameters"] == f"{numbers:,}", (family, tied, said, numbers)
                    assert said["weights"].startswith(f"{numbers:,} {name} in "), said
                    assert said["weights"].endswith(" in 1 file") == (shard == "1GB"), said
                    assert ("the head is its table" in said["vocabulary"]) == tied, said
                    n += 1
    return n


def changed(folder, change):
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    change(tensors)
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata={"format": "pt"})


def rename(tensors, old, new):
    for name in [n for n in tensors if n.startswith(old)]:
        tensors[new + name[len(old):]] = tensors.pop(name)


def check_changed(program, folder):
    """Names and tensors of other versions are passed over, and faults are named."""

    def refused(change, *words):
        shutil.rmtree(folder, ignore_errors=True)
        made("qwen2", folder, torch.float32, True, "1GB")
        changed(folder, change)
        done = info(program, folder)
        assert done.returncode == 3, done
        for word in words:
            assert word in done.stderr, (word, done.stderr)

    def passes(family, change):
        shutil.rmtree(folder, ignore_errors=True)
        numbers = made(family, folder, torch.float32, True, "1GB")
        changed(folder, change)
        assert notes(info(program, folder))["parameters"] == f"{numbers:,}"

    table = "model.embed_tokens.weight"
    passes("qwen2", lambda t: rename(t, "model.", ""))
    passes("gpt2", lambda t: rename(t, "transformer.", ""))
    passes("qwen2", lambda t: t.update({"lm_head.weight": t[table].clone()}))
    passes("llama", lambda t: t.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}))
    passes("gpt2", lambda t: t.update({"transformer.h.0.attn.bias": torch.ones(1, 1, 64, 64),
                                       "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)}))
    refused(lambda t: t.update({"lm_head.weight": t[table] + 1}), "lm_head.weight", table, "tie_word_embeddings")
    refused(lambda t: t.pop("model.norm.weight"), "'model.norm.weight' is missing")
    refused(lambda t: t.update({"model.layers.3.mlp.up_proj.weight": torch.ones(48, 32)}), "layers.3", "unknown")
    refused(lambda t: t.update({"model.norm.weight": torch.ones(33)}), "model.norm.weight", "F32 (33)", "(32)")
    refused(lambda t: t.update({"model.norm.weight": torch.ones(32, dtype=torch.float64)}), "model.norm.weight", "F64")


def check_cache(program, folder):
    """ORG/NAME by links, as the hub's cache has it; what is not there says the command."""
    cache = folder + "-cache"
    home = os.path.join(cache, "models--org--small")
    snapshot = os.path.join(home, "snapshots", "abc")
    shutil.rmtree(folder, ignore_errors=True)
    numbers = made("llama", folder, torch.bfloat16, False, "20KB")
    os.makedirs(snapshot)
    os.makedirs(os.path.join(home, "refs"))
    os.makedirs(os.path.join(home, "blobs"))
    with open(os.path.join(home, "refs", "main"), "w") as ref:
        ref.write("abc")
    for i, name in enumerate(os.listdir(folder)):
        shutil.copy(os.path.join(folder, name), os.path.join(home, "blobs", str(i)))
        os.symlink(os.path.join("..", "..", "blobs", str(i)), os.path.join(snapshot, name))
    assert notes(info(program, "org/small", HF_HUB_CACHE=cache))["parameters"] == f"{numbers:,}"
    done = info(program, "org/other", HF_HUB_CACHE=cache)
    assert done.returncode != 0 and "download" in done.stderr, done.stderr
    shutil.rmtree(cache)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "model")
        n = check_good(sys.argv[1], folder)
        check_changed(sys.argv[1], folder)
        check_cache(sys.argv[1], folder)
    print(f"{n} folders of transformers {transformers.__version__} are read; 5 others pass, 5 are refused")


main()
