"""Adapters of folders against peft: the loss of a step, the gradients of all A and B, A and B after 20 steps of AdamW; peft reads
what is written and stepwell what peft writes, or refuses it by the name of its key; packed rows against documents alone.

usage: hf_lora.py PROGRAM [full]         full: each shape in each type, tied and not
Exit status: 0 good, 1 not, 77 peft, transformers or PyTorch is not installed.
"""

import json
import os
import subprocess
import sys
import tempfile

try:
    import peft
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# By how much the sides may differ: float32 sums in another order. Of the loss; of the largest gradient of each tensor; of A and B
# after 20 steps at a rate of 0.001, where an element whose gradients are nothing but rounding may go the other way.
LOSS, GRADIENT, AFTER = 2e-6, 1e-4, 1e-3
RATE = 1000.0  # of one step of SGD: what A and B lose is their gradient by this
SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
SHAPES = [("gpt2", dict(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=1,
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
          ("llama", dict(SMALL, attention_bias=True, mlp_bias=True)),
          ("llama", dict(SMALL, rope_parameters=LLAMA3)),
          ("llama", dict(SMALL, num_key_value_heads=4)),
          ("qwen2", SMALL),
          ("qwen3", dict(SMALL, head_dim=16)),
          ("mistral", dict(SMALL, num_key_value_heads=1, sliding_window=None))]
TYPES = (torch.float32, torch.bfloat16, torch.float16)
MODEL = "--model hf:model --context 64"
ON = f"{MODEL} --data ids:d.jsonl --test-data ids:d.jsonl --schedule constant --warmup 0 --metrics m.jsonl"
program = os.path.abspath(sys.argv[1])
worst = {}


def run(words, status=0):
    done = subprocess.run([program, *words.split()], capture_output=True, text=True)
    assert done.returncode == status, (words, done.returncode, done.stderr, done.stdout)
    return done


def said(words):
    return json.loads(run(words + " --json").stdout)


def below(name, difference, bound):
    worst[name] = max(worst.get(name, 0.0), float(difference))
    assert difference <= bound, (name, float(difference), bound)


def documents(lengths):
    """A third of each does not count."""
    made = torch.Generator().manual_seed(5)
    docs = [torch.randint(0, 96, (n,), generator=made).tolist() for n in lengths]
    with open("d.jsonl", "w") as file:
        for ids in docs:
            cut = len(ids) // 3
            file.write(json.dumps(dict(input_ids=ids, labels=[-100] * cut + ids[cut:])) + "\n")
    return docs


DOCUMENTS = (64, 40, 24, 30, 34, 10, 50, 64)


def base():
    return transformers.AutoModelForCausalLM.from_pretrained("model", dtype=torch.float32)


def make(family, config, dtype, tied, **lora):
    """The folder, and an adapter beside it whose B is not zero; returns peft's model of both, in float32."""
    torch.manual_seed(3)
    for name in ("model", "adapter"):
        subprocess.run(["rm", "-rf", name], check=True)
    config = transformers.AutoConfig.for_model(family, **config, initializer_range=0.2, tie_word_embeddings=tied)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, p in model.named_parameters():
        if p.dim() == 1:
            p.data += 0.2 * torch.randn_like(p)
    model.to(dtype).save_pretrained("model", max_shard_size="20KB" if tied else "1GB")
    options = dict(r=4, lora_alpha=12, target_modules="all-linear", init_lora_weights=False)
    model = peft.get_peft_model(base(), peft.LoraConfig(**{**options, **lora}, task_type="CAUSAL_LM", fan_in_fan_out=family == "gpt2"))
    model.save_pretrained("adapter")
    return model


def loss(model, docs):
    total, n = 0.0, 0
    for ids in docs:
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1]
        labels, counts = torch.tensor(ids[1:]), torch.arange(1, len(ids)) >= len(ids) // 3
        total = total + torch.nn.functional.cross_entropy(logits[counts], labels[counts], reduction="sum")
        n += int(counts.sum())
    return total / n


def trained(model):
    return {name.replace(".default", ""): p for name, p in model.named_parameters() if p.requires_grad}


def scales(model):
    return {name: (module.r["default"], module.scaling["default"]) for name, module in model.named_modules() if hasattr(module, "lora_A")}


def compare(model, docs):
    """One step, 20 steps, and peft with what they wrote."""
    params = trained(model)
    start = load_file("adapter/adapter_model.safetensors")
    value = loss(model, docs)
    value.backward()
    run(f"train {ON} --adapter adapter --batch 8 --accumulate 1 --optimizer sgd --lr {RATE} --save-adapter out")
    with open("m.jsonl") as file:
        first = next(row["loss"] for row in map(json.loads, file) if row["kind"] == "train")
    below("loss", abs(first - value.item()) / value.item(), LOSS)
    after = load_file("out/adapter_model.safetensors")
    assert set(start) == set(after) == set(params), (set(start) ^ set(after), set(after) ^ set(params))
    for name, p in params.items():
        below("gradients", ((start[name] - after[name]) / RATE - p.grad).abs().max() / p.grad.abs().max(), GRADIENT)

    optimizer = torch.optim.AdamW(params.values(), lr=1e-3, weight_decay=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        loss(model, docs).backward()
        optimizer.step()
    run(f"train {ON} --adapter adapter --batch 2 --accumulate 4 --optimizer adamw --weight-decay 0.01 --lr 0.001 --epochs 20 "
        "--save-adapter out")
    after = load_file("out/adapter_model.safetensors")
    for name, p in params.items():
        assert (start[name] - after[name]).abs().max() > 0.005, (name, "did not go anywhere")
        below("20 steps", (p.detach() - after[name]).abs().max(), AFTER)

    back = peft.PeftModel.from_pretrained(base(), "out", is_trainable=True)
    read = trained(back)
    assert set(read) == set(after) and all(torch.equal(read[name], after[name]) for name in after)
    assert scales(back) == scales(model), (scales(back), scales(model))
    here = said(f"eval {MODEL} --data ids:d.jsonl --test-data ids:d.jsonl --adapter out")["loss"]
    with torch.no_grad():
        there = loss(back, docs).item()
    below("loss of the written adapter", abs(here - there) / there, LOSS)


def check_shapes(full):
    n = 0
    for i, (family, config) in enumerate(SHAPES):
        for tied in (False, True):
            for dtype in TYPES if full else (TYPES[(i + tied) % 3],):
                model = make(family, config, dtype, tied)
                compare(model, documents(DOCUMENTS))
                n += 1
    return n


def check_adapters():
    """Of some modules only, of several ranks and alphas."""
    llama, gpt2 = SHAPES[1], SHAPES[0]
    kinds = [(llama, dict(target_modules=["q_proj", "v_proj"])),
             (llama, dict(target_modules=["q_proj", "down_proj"], layers_to_transform=[1], layers_pattern="layers")),
             (llama, dict(rank_pattern={"down_proj": 2, "model.layers.1.self_attn.q_proj": 7})),
             (llama, dict(alpha_pattern={"up_proj": 3, "layers.2.self_attn.o_proj": 20}, use_rslora=True)),
             (llama, dict(use_rslora=True, rank_pattern={"k_proj": 9}, alpha_pattern={"k_proj": 5.5})),
             (gpt2, dict(target_modules=["c_attn"])),
             (gpt2, dict(target_modules=["attn.c_proj", "h.1.mlp.c_fc"], rank_pattern={"attn.c_proj": 6}, lora_alpha=5))]
    for (family, config), lora in kinds:
        compare(make(family, config, torch.float32, False, **lora), documents(DOCUMENTS))
    return len(kinds)


def check_refused():
    kinds = [("use_dora", dict(use_dora=True)),
             ("modules_to_save", dict(modules_to_save=["lm_head"])),
             ("lora_bias", dict(lora_bias=True, init_lora_weights=True)),
             ("bias", dict(bias="all")),
             ("init_lora_weights", dict(init_lora_weights="pissa")),
             ("alpha_pattern", dict(alpha_pattern={r"layers\.[01]\.mlp.up_proj": 3}))]
    for key, lora in kinds:
        make("llama", SHAPES[1][1], torch.float32, False, **lora)
        documents(DOCUMENTS)
        said_there = run(f"train {ON} --adapter adapter", 1).stderr
        assert "adapter_config.json" in said_there and f"'{key}'" in said_there, said_there
    return len(kinds)


def check_packed():
    """Rows of several documents; and a file of bf16, whose numbers are the same as float32."""
    model = make("qwen2", SHAPES[4][1], torch.bfloat16, True)
    lengths = (5, 9, 30, 12, 33, 2, 40, 22, 7)
    docs = documents(lengths)
    words = f"eval {MODEL} --adapter adapter --data ids:d.jsonl --test-data ids:d.jsonl"
    packed = said(words)
    assert packed["samples"] < len(docs)
    with torch.no_grad():
        there = loss(model, docs).item()
    below("loss of packed rows", abs(packed["loss"] - there) / there, LOSS)
    total, lines = 0.0, open("d.jsonl").read().splitlines()
    for line in lines:
        with open("d.jsonl", "w") as file:
            file.write(line + "\n")
        alone = said(words)
        total += alone["loss"] * alone["tokens"]
    below("packed rows and documents alone", abs(packed["loss"] - total / packed["tokens"]) / packed["loss"], LOSS)
    documents(DOCUMENTS)
    of = {}
    for kind in ("file", "f32", "bf16"):
        run(f"train {ON} --adapter adapter --weights {kind} --epochs 3 --save-adapter {kind}")
        with open("m.jsonl") as file:
            of[kind] = [row["loss"] for row in map(json.loads, file)], load_file(f"{kind}/adapter_model.safetensors")
    for kind in ("f32", "bf16"):
        assert of[kind][0] == of["file"][0], (kind, of[kind][0], of["file"][0])
        assert all(torch.equal(of[kind][1][name], x) for name, x in of["file"][1].items()), kind


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        n = check_shapes("full" in sys.argv[2:])
        adapters = check_adapters()
        n_refused = check_refused()
        check_packed()
        os.chdir("/")
    print(f"{n} folders and {adapters} adapters as peft {peft.__version__} has them, {n_refused} are refused; the largest differences:",
          ", ".join(f"{name} {x:.1e}" for name, x in worst.items()))


main()
