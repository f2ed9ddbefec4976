"""Ids that stepwell sample draws from folders that transformers writes, against generate: every
family, kv heads, both rules of rotary positions, adapters, end tokens; what is refused.

usage: hf_sample.py PROGRAM
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
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=160, initializer_range=0.2, bos_token_id=1, eos_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
CONFIGS = [
    ("gpt2", dict(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=160, initializer_range=0.2, bos_token_id=1,
                  eos_token_id=None)),
    ("llama", dict(SMALL, attention_bias=True, mlp_bias=True)),
    ("llama", dict(SMALL, num_key_value_heads=4, rope_parameters=LLAMA3)),
    ("qwen2", dict(SMALL, num_key_value_heads=1)),
    ("qwen3", dict(SMALL, head_dim=16)),
    ("qwen3", dict(SMALL, num_key_value_heads=4, head_dim=8)),
    ("mistral", dict(SMALL, num_key_value_heads=1, sliding_window=None)),
    ("mistral", dict(SMALL, sliding_window=None)),
]
PROMPT = [5, 17, 3, 80, 41, 9, 22]
TOKENS = 64


def made(family, given, folder, dtype, seed, shard="1GB"):
    shutil.rmtree(folder, ignore_errors=True)
    config = transformers.AutoConfig.for_model(family, **given, tie_word_embeddings=seed % 2 == 0)
    torch.manual_seed(seed)
    transformers.AutoModelForCausalLM.from_config(config).to(dtype).save_pretrained(folder, max_shard_size=shard)


def generated(folder, prompt, tokens, **given):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        ids = torch.tensor([prompt])
        return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, pad_token_id=0, **given)[0].tolist()


def run(program, folder, *words):
    return subprocess.run([program, "sample", "--model", "hf:" + folder, *words], capture_output=True, text=True)


def sampled(program, folder, *words, tokens=TOKENS):
    done = run(program, folder, "--prompt-ids", ",".join(map(str, PROMPT)), "--tokens", str(tokens), "--quiet", *words)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def change(folder, **keys):
    path = os.path.join(folder, "generation_config.json")
    with open(path) as file:
        config = json.load(file)
    config.update(keys)
    with open(path, "w") as file:
        json.dump(config, file)


def check_greedy(program, folder):
    """The likeliest ids, of seeds whose text has 20 different ones."""
    n = 0
    for family, given in CONFIGS:
        for dtype in (torch.float32, torch.bfloat16):
            for seed in range(40):
                made(family, given, folder, dtype, seed)
                want = generated(folder, PROMPT, TOKENS, do_sample=False)
                if len(set(want[len(PROMPT):])) >= 20:
                    break
            assert len(want) == len(PROMPT) + TOKENS and len(set(want[len(PROMPT):])) >= 20, (family, given)
            got = sampled(program, folder)
            assert got == want, (family, given, dtype, got, want)
            assert sampled(program, folder, "--threads", "1") == want
            if dtype == torch.bfloat16:
                assert sampled(program, folder, "--weights", "f32") == want
            n += 1
    return n


def check_ends(program, folder):
    """An end token of either file ends the text, which has it."""
    want = generated(folder, PROMPT, TOKENS, do_sample=False)
    end = want[len(PROMPT) + 9]
    short = want[:want.index(end, len(PROMPT)) + 1]
    for eos in (end, [95 if end != 95 else 94, end]):
        change(folder, eos_token_id=eos)
        assert generated(folder, PROMPT, TOKENS, do_sample=False) == short
        assert sampled(program, folder) == short
    change(folder, eos_token_id=None)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    config["eos_token_id"] = end
    with open(path, "w") as file:
        json.dump(config, file)
    assert sampled(program, folder) == short
    config["eos_token_id"] = None
    with open(path, "w") as file:
        json.dump(config, file)
    assert sampled(program, folder) == want


def check_draws(program, folder):
    """Draws are among what top-k and top-p leave of the scores, and the file's are the defaults."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        scores = model(torch.tensor([PROMPT])).logits[:, -1]
    temperature = 0.6
    for top_k, top_p in ((3, 1.0), (0, 0.7), (8, 0.5), (0, 0.01)):
        left = scores / temperature
        if top_k > 0:
            left = transformers.TopKLogitsWarper(top_k)(None, left)
        left = transformers.TopPLogitsWarper(top_p)(None, left)
        may = {i for i in range(96) if left[0, i] > -float("inf")}
        words = ["--temperature", str(temperature), "--top-k", str(top_k), "--top-p", str(top_p)]
        drawn = {sampled(program, folder, "--seed", str(seed), *words, tokens=1)[-1] for seed in range(1, 80)}
        assert drawn <= may, (top_k, top_p, drawn, may)
        assert len(drawn) * 2 >= len(may), (top_k, top_p, drawn, may)
    greedy = sampled(program, folder)
    change(folder, do_sample=True, temperature=temperature, top_k=8, top_p=0.5, repetition_penalty=1.1)
    done = run(program, folder, "--prompt-ids", ",".join(map(str, PROMPT)), "--tokens", "20")
    assert "temperature 0.6, top-k 8, top-p 0.5" in done.stderr and "repetition_penalty 1.1" in done.stderr, done.stderr
    said = [int(word) for word in done.stdout.split()]
    assert said == sampled(program, folder, "--temperature", "0.6", "--top-k", "8", "--top-p", "0.5", tokens=20)
    assert sampled(program, folder, "--temperature", "0") == greedy
    change(folder, do_sample=False, repetition_penalty=1.0)
    assert sampled(program, folder) == greedy


def check_adapter(program, folder):
    """Adapters that stepwell has trained change the ids, to those of peft where it is installed."""
    data, adapter = folder + ".jsonl", folder + "-adapter"
    with open(data, "w") as file:
        for k in range(8):
            ids = [(k * 7 + i * 3) % 96 for i in range(24)]
            file.write(json.dumps(dict(input_ids=ids, labels=ids)) + "\n")
    trained = subprocess.run([program, "train", "--model", "hf:" + folder, "--lora", "4", "--data", "ids:" + data, "--context", "32",
                              "--lr", "0.02", "--epochs", "8", "--save-adapter", adapter, "--quiet"], capture_output=True, text=True)
    assert trained.returncode == 0, trained.stderr
    plain, got = sampled(program, folder), sampled(program, folder, "--adapter", adapter)
    assert got != plain
    try:
        import peft
    except ImportError:
        return "peft is not installed"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        ids = torch.tensor([PROMPT])
        want = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, pad_token_id=0, do_sample=False)
    assert got == want[0].tolist(), (got, want[0].tolist())
    return "equal to peft's"


def check_merge(program, folder):
    """Merged folders beside peft's: numbers of the file's type, which are the nearest to the sum in float32."""
    try:
        import peft
    except ImportError:
        return 0
    n = 0
    for family, given in CONFIGS[:2]:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for shard in ("1GB", "20KB"):
                for name in (folder, folder + "-a", folder + "-b"):
                    shutil.rmtree(name, ignore_errors=True)
                made(family, given, folder, dtype, n, shard)
                model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
                config = peft.LoraConfig(r=3, lora_alpha=5, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM",
                                         fan_in_fan_out=family == "gpt2")
                model = peft.get_peft_model(model, config)
                model.save_pretrained(folder + "-a")
                done = run(program, folder, "--adapter", folder + "-a", "--merge", folder + "-b", "--quiet")
                assert done.returncode == 0, done.stderr
                due = model.merge_and_unload().state_dict()
                got = transformers.AutoModelForCausalLM.from_pretrained(folder + "-b", dtype="auto")
                assert got.dtype == dtype
                assert sorted(os.listdir(folder)) == sorted(os.listdir(folder + "-b"))
                for key, x in got.state_dict().items():
                    step = torch.finfo(dtype).eps * due[key].abs().clamp(min=torch.finfo(dtype).tiny)
                    off = ((x.float() - due[key]).abs() - 0.5 * step - 1e-6).max().item()
                    assert off <= 0, (family, dtype, key, off)
                n += 1
    done = run(program, folder, "--adapter", folder + "-a", "--merge", folder)
    assert done.returncode != 0 and "not overwritten" in done.stderr, done
    return n


def check_memory(program, folder):
    """The plan says the bytes; a budget of one byte less is refused before a weight is read."""
    done = subprocess.run([program, "plan", "--model", "hf:" + folder, "--sample", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["model_bytes"] == plan["base_bytes"] + plan["adapter_bytes"] + plan["cache_bytes"], plan
    assert plan["arena_bytes"] == max(p["arena_bytes"] for p in plan["programs"]), plan
    need = plan["model_bytes"] + plan["arena_bytes"]
    words = ["--prompt-ids", "5,6", "--tokens", "4", "--memory-budget"]
    assert run(program, folder, *words, str(need)).returncode == 0
    with open(os.path.join(folder, "model.safetensors"), "r+b") as file: # weights that are no numbers
        size = os.fstat(file.fileno()).st_size
        begin = 8 + int.from_bytes(file.read(8), "little")
        file.seek(begin)
        file.write(b"\xff" * (size - begin))
    done = run(program, folder, *words, str(need - 1))
    assert done.returncode == 4 and "budget" in done.stderr, done
    done = run(program, folder, *words, str(need))
    assert done.returncode == 1 and "are not numbers" in done.stderr, done
    os.remove(os.path.join(folder, "model.safetensors"))
    assert run(program, folder, *words, str(need)).returncode == 3


def check_shape(program, folder):
    """Of a token after 1,000 others in a net of Qwen2.5-0.5B's shape, of config.json alone."""
    shutil.rmtree(folder, ignore_errors=True)
    transformers.AutoConfig.for_model(
        "qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, max_position_embeddings=32768, tie_word_embeddings=True).save_pretrained(folder)
    operations = []
    for context in (10, 1000):
        done = subprocess.run([program, "plan", "--model", "hf:" + folder, "--sample", "--context", str(context), "--json"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        operations += [p["operations"] for p in json.loads(done.stdout)["programs"] if p["name"] == "token"]
    assert operations[1] <= 1.3 * operations[0], operations
    return operations[1] / operations[0]


def check_refused(program, folder):
    for words, text in ((["--prompt-ids", "96"], "96 ids"), (["--top-k", "4"], "--temperature"), (["--load-params", "x"], "--load-params"),
                        (["--prompt", "x", "--chat", "y"], "leave all but one out"), (["--merge", "x"], "--adapter"), (["--top-p", "1.5"], "--top-p"), (["--context", "200000000"], "--context"),
                        (["--temperature", "1", "--top-k", "97"], "--top-k"), (["--context", "2", "--prompt-ids", "1,2,3"], "3 ids")):
        done = run(program, folder, *words)
        assert done.returncode == 2 and text in done.stderr, (words, done)


def main():
    torch.set_num_threads(1)
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "model")
        n = check_greedy(program, folder)
        check_refused(program, folder)
        check_ends(program, folder)
        check_draws(program, folder)
        peft = check_adapter(program, folder)
        check_memory(program, folder)
        more = check_shape(program, folder)
        merged = check_merge(program, folder)
    print(f"{n} folders have the ids of generate, adapters: {peft}; {merged} merged folders have peft's numbers; a token at 1,000 has {more:.3f} times the operations of one at 10")


main()
