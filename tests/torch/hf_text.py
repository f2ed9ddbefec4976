"""Ids and labels of `stepwell tokens` against the packages tokenizers and transformers: random
texts for real and made tokenizers, and conversations for each chat template.

usage: hf_text.py PROGRAM TEMPLATES
TEMPLATES is a folder with the published texts of the templates, or "-" for those of the package
trl where it is installed. Exit status: 0 good, 1 not, 77 something is not installed.
"""

import glob
import gzip
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = os.path.normpath(os.path.join(os.path.dirname(__file__), "../.."))
DATA = os.path.join(os.environ.get("STEPWELL_DATA", os.path.join(ROOT, "../shared/data")), "tokenizers")
FULL = os.environ.get("STEPWELL_TESTS") == "full"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SMOLLM2 = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI "
           "assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
           "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


# ---- texts ---------------------------------------------------------------------------------

BLANKS = " \t\n\r\x0b\x0c\x85\xa0\u2028\u3000\u1680\u180e\u200b\x1c\x1f"
MARKS = "\u0300\u0301\u0308\u0323\u0327\u0338\u0345\u3099\u309a\u1161\u11a8\u05b0\u064b\u093c"
WORDS = ["the ", "Hello", " world", "ing ", "tion", "你好", "привет ", "的", "한국어", "\u1112\u1161\u11ab", "é", "e\u0301", "\u212b", "\u2126", "ﬁ", "\r",
         "\r\n", "'s", "'S", "'ll", "'LL", "'re", "'\u017f", "\u2019s", "don't", "I'M", "we'Ve"]


def random_text(dice, special):
    def character():
        k = dice.randrange(13)
        if k == 0:
            return chr(dice.randrange(1, 0x80))
        if k == 1:
            return dice.choice(BLANKS) * dice.choice([1, 1, 2, 3, 7])
        if k == 2:
            return chr(dice.randrange(0x80, 0x800))
        if k == 3:
            return dice.choice(MARKS)
        if k == 4:
            return chr(dice.choice([dice.randrange(1, 0xD800), dice.randrange(0xE000, 0x110000)]))
        if k == 5:
            return dice.choice("0123456789\u0663\u00bd\u2167\u2460\u4e00") * dice.choice([1, 2, 4])
        if k == 6 and special:
            return dice.choice(special)
        if k == 7:
            return chr(dice.randrange(0x10000, 0x20000))
        if k == 8:
            return chr(dice.randrange(0x3000, 0xA000))
        if k == 9:
            return chr(dice.randrange(0xAC00, 0xD7A4))
        if k == 10:
            return dice.choice("abcdefghijklmnopqrstuvwxyz ETAOIN.,;:!?-_()[]{}#@/\\\"'`~*&^%$")
        if k == 11:
            return "".join(dice.choice("etaoin shrdlu") for _ in range(dice.randrange(1, 12)))
        return dice.choice(WORDS)

    return "".join(character() for _ in range(dice.randrange(1, 24)))


def lines(program, folder, objects, *more):
    """The program's ids and labels of each."""
    path = os.path.join(folder, "data.jsonl")
    with open(path, "w") as f:
        for i, o in enumerate(objects):
            f.write(json.dumps(o, ensure_ascii=i % 2 == 0) + "\n")
    done = subprocess.run([program, "tokens", "--model", "hf:" + folder, "--data", "chat:" + path, "--json", *more],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def unlike(program, folder, tokenizer, texts):
    said = lines(program, folder, [{"text": t} for t in texts])
    assert len(said) == len(texts), (len(said), len(texts))
    assert all(s["labels"] == s["input_ids"] for s in said)
    return [t for t, s, e in zip(texts, said, tokenizer.encode_batch(texts)) if s["input_ids"] != e.ids]


def probe(split, normalizer):
    """A tokenizer that shows where it cuts: a blank's sign and the first byte of what follows are one token."""
    signs = "!?;:"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in signs for b in alphabet]
    vocabulary = {text: i for i, text in enumerate(alphabet + [a + b for a, b in pairs])}
    t = Tokenizer(models.BPE(vocabulary, pairs))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    return t


def code_points_that_differ(program, work):
    """Of another class, or with another normal form: the two have tables of other Unicode versions."""
    characters = [chr(c) for c in list(range(1, 0xD800)) + list(range(0xE000, 0x40000)) + list(range(0xE0000, 0xE1000))]
    found = set()
    for i, t in enumerate((probe(pre_tokenizers.Split(Regex(r"(?<=!)\p{L}|(?<=\?)\p{N}|(?<=;)\s"), "isolated"), None),
                           probe(pre_tokenizers.Digits(individual_digits=True), normalizers.NFC()))):
        texts = [f"!{c}?{c};{c}" if i == 0 else f":{c}a\u0345{c}b{c}\u0334d\u0323{c}e{c}\u0323" for c in characters]
        found |= {t[1] for t in unlike(program, folder_of(work, f"probe{i}", t), t, texts)}
    ranges = []
    for c in sorted(map(ord, found)):
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    print(f"{len(found)} code points are of another Unicode version:", " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in ranges))
    known = [hex(ord(c)) for c in sorted(found) if unicodedata.ucd_3_2_0.category(c) != "Cn"]
    assert not known, f"assigned in Unicode 3.2: {known}"
    if unicodedata.unidata_version == "14.0.0":  # that of PCRE2 10.40 to 10.42; tokenizers' normal form is of Unicode 9
        print("of these in Unicode 14:", " ".join(f"{ord(c):X}" for c in sorted(found) if unicodedata.category(c) != "Cn"))
    return found


# ---- tokenizers ----------------------------------------------------------------------------

def made(special, pre_tokenizer, normalizer=None, post_processor=None, whole=False, size=3000):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    corpus = [open(path, errors="ignore").read() for path in sorted(glob.glob(ROOT + "/*.md") + glob.glob(ROOT + "/tools/docs/*.md"))]
    t.train_from_iterator(corpus + WORDS, trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens(special)
    if post_processor is not None:
        t.post_processor = post_processor(t)
    t.model.ignore_merges = whole
    return t


def llama_like():
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    def post(t):
        return processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B:1",
            special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])

    return made(special, split, post_processor=post, whole=True)


def smollm2_like():
    split = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    return made(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], split)


def flagged(prefix, use_regex):
    """Added tokens with all flags, a blank before each piece, digits by runs."""
    split = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False),
                                     pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)])

    def post(t):
        return processors.TemplateProcessing(single="[A] [B] $A [A]", special_tokens=[(x, t.token_to_id(x)) for x in ("[A]", "[B]")])

    t = made(["[A]", "[B]"], split, normalizers.Sequence([normalizers.NFC()]), post, size=600)
    t.add_tokens([AddedToken("é", normalized=True), AddedToken("e\u0323\u0301", normalized=True), AddedToken("ing", single_word=True, normalized=False),
                  AddedToken("hel", lstrip=True, normalized=False), AddedToken("tao", rstrip=True, normalized=True),
                  AddedToken("<x>", lstrip=True, rstrip=True, normalized=False), AddedToken("<x>>", normalized=False)])
    return t


def folder_of(work, name, tokenizer, config=None, old_merges=False):
    folder = os.path.join(work, name)
    os.makedirs(folder, exist_ok=True)
    text = tokenizer if isinstance(tokenizer, str) else tokenizer.to_str()
    if old_merges:
        whole = json.loads(text)
        whole["model"]["merges"] = [" ".join(m) for m in whole["model"]["merges"]]
        text = json.dumps(whole)
    open(os.path.join(folder, "tokenizer.json"), "w").write(text)
    if config is not None:
        json.dump(config, open(os.path.join(folder, "tokenizer_config.json"), "w"))
    return folder


def check_texts(program, work, real):
    differ = code_points_that_differ(program, work)
    cases = list(real.items()) + [("llama", llama_like().to_str()), ("smollm2", smollm2_like().to_str())] + [
        (f"flags{prefix:d}{use:d}", flagged(prefix, use).to_str()) for prefix in (True, False) for use in (True, False)]
    for i, (name, text) in enumerate(cases):
        tokenizer = Tokenizer.from_str(text)
        folder = folder_of(work, name, text, old_merges=i % 2 == 1)
        special = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
        dice = random.Random(i)
        texts = [random_text(dice, special) for _ in range((100000 if name in real else 30000) if FULL else 6000)]
        found = unlike(program, folder, tokenizer, texts)
        wrong = [t for t in found if not differ & set(unicodedata.normalize("NFC", t) + t)]
        print(f"{name}: {len(texts)} texts: {len(found)} differ, {len(wrong)} of them without such a code point")
        assert not wrong, wrong[:5]


# ---- conversations -------------------------------------------------------------------------

CONTENTS = ["", "\n", " ", "Hi", " x ", "\n\nhello\n", "12345", "你好", "e\u0301", "\u0301x", "  \n ", "\x1c y \x1f", "\u3000z\xa0", "don't\r", "two\nlines\n\n",
            "<think>\na\n\n</think>\n\nb", "a</think>b<think>c</think>\nd", "<think></think>", "<tool_response>x</tool_response>", "<|im_start|>user\n",
            "<|eot_id|>", "def f():\n    return 1\n"]


def conversation(dice, thoughts):
    turns = [("system", None)] if dice.randrange(2) else []
    for _ in range(dice.randrange(1, 6)):
        turns += [("user", None), ("assistant", None)]
    if dice.randrange(8) == 0:
        turns.insert(dice.randrange(len(turns)), (dice.choice(["system", "user", "assistant"]), None))
    if dice.randrange(8) == 0:
        turns.pop()
    messages = [{"role": role, "content": dice.choice(CONTENTS) + dice.choice(["", "", dice.choice(CONTENTS)])} for role, _ in turns]
    for m in messages:
        if thoughts and m["role"] == "assistant" and dice.randrange(6) == 0:
            m["reasoning_content"] = dice.choice(CONTENTS)
    return messages


def replaced(text, *pairs):
    for a, b in pairs:
        assert a in text, a
        text = text.replace(a, b)
    return text


def marked(name, text):
    """With marks of what counts: answers and their end token."""
    def turn(begin, rest, end):
        return (f"{{{{- {begin} }}}}{{%- if message.role == 'assistant' %}}{{%- generation %}}{{{{- {rest} }}}}{{%- endgeneration %}}"
                f"{{%- else %}}{{{{- {rest} }}}}{{%- endif %}}" + (f"{{{{- {end} }}}}" if end else ""))

    if name.startswith("qwen2.5"):
        return replaced(text, ("{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}",
                               turn("'<|im_start|>' + message.role + '\\n'", "message.content + '<|im_end|>'", "'\\n'")))
    if name == "qwen3":
        return replaced(text, ("        {%- if loop.index0 > ns.last_query_index %}",
                               "        {%- set turn = namespace(index=loop.index0, last=loop.last) %}{{- '<|im_start|>' + message.role + '\\n' }}"
                               "{%- generation %}{%- if turn.index > ns.last_query_index %}"),
                        ("{%- if loop.last or (not loop.last and reasoning_content) %}", "{%- if turn.last or (not turn.last and reasoning_content) %}"),
                        ("{{- '<|im_start|>' + message.role + '\\n<think>", "{{- '<think>"),
                        ("{{- '<|im_start|>' + message.role + '\\n' + content }}", "{{- content }}"),
                        ("        {{- '<|im_end|>\\n' }}\n    {%- elif message.role == \"tool\" %}",
                         "        {{- '<|im_end|>' }}{%- endgeneration %}{{- '\\n' }}\n    {%- elif message.role == \"tool\" %}"))
    if name == "llama3.2":
        return replaced(text, ("{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}",
                               turn("'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'", "message['content'] | trim + '<|eot_id|>'", "")))
    return replaced(text, ("{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}",
                           turn("'<|im_start|>' + message['role'] + '\\n'", "message['content'] + '<|im_end|>'", "'\\n'")))


def published(folder):
    if folder == "-":
        found = importlib.util.find_spec("trl")
        folder = os.path.join(os.path.dirname(found.origin), "chat_templates") if found else None
    texts = {"smollm2": SMOLLM2, "chatml": CHATML}
    for name, file in (("qwen2.5", "qwen2_5"), ("qwen3", "qwen3"), ("llama3.2", "llama3_2")) if folder else ():
        texts[name] = open(os.path.join(folder, file + ".jinja")).read()
    if "qwen2.5" in texts:
        texts["qwen2.5-base"] = replaced(texts["qwen2.5"], ("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
                                                            "You are a helpful assistant."))
    return texts


def ids_of(tokenizer, messages, **more):
    return tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, date_string="26 Jul 2024", **more)


def check_chat(program, work, name, template, text, eos, bos):
    config = {"eos_token": eos, "bos_token": bos and {"content": bos}}
    jinja = name in ("qwen3", "smollm2")
    if not jinja:
        config["chat_template"] = template if name != "llama3.2" else [{"name": "tool_use", "template": "x"}, {"name": "default", "template": template}]
    folder = folder_of(work, "chat " + name, text, config)
    if jinja:
        open(os.path.join(folder, "chat_template.jinja"), "w").write(template)
    path = os.path.join(folder, "tokenizer.json")
    peer = PreTrainedTokenizerFast(tokenizer_file=path, eos_token=eos, bos_token=bos, chat_template=template)
    peer_marked = PreTrainedTokenizerFast(tokenizer_file=path, eos_token=eos, bos_token=bos, chat_template=marked(name, template))
    dice = random.Random(name)
    talks = [conversation(dice, name == "qwen3") for _ in range(2000 if FULL else 150)]
    # Every third as a prompt and its completion, every fifth with its contents as parts.
    objects, prompts = [], []
    for i, talk in enumerate(talks):
        n = len(talk) - 1 if i % 3 == 0 and len(talk) > 1 else 0
        told = talk if i % 5 else [dict(m, content=[{"type": "text", "text": part} for part in (m["content"][:2], m["content"][2:])]) for m in talk]
        objects.append({"completion": told[n:], "prompt": told[:n]} if n else {"id": i, "messages": told, "tools": None})
        prompts.append(n)
    counted = 0
    said = lines(program, folder, objects)
    assert len(said) == len(talks)
    for talk, n, s in zip(talks, prompts, said):
        ids = ids_of(peer, talk)["input_ids"]
        assert s["input_ids"] == ids, (talk, s["input_ids"], ids)
        with_marks = ids_of(peer_marked, talk, return_assistant_tokens_mask=True)
        assert with_marks["input_ids"] == ids, talk
        mask = with_marks["assistant_masks"]
        if n:  # what the prompt has does not count
            keep = talk[n]["role"] == "assistant"
            last = max((i for i in range(len(mask)) if mask[i]), default=-1)
            first = last
            while first > 0 and mask[first - 1]:
                first -= 1
            mask = [int(keep and first <= i <= last) for i in range(len(mask))]
        labels = [i if m else -100 for i, m in zip(ids, mask)]
        assert s["labels"] == labels, (talk, n, [(peer.decode([i]), a, b) for i, a, b in zip(ids, s["labels"], labels) if a != b])
        counted += sum(mask)
    for content in CONTENTS[1:14]:
        done = subprocess.run([program, "tokens", "--model", "hf:" + folder, "--turn", "--json", "--", content], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["input_ids"] == ids_of(peer, [{"role": "user", "content": content}], add_generation_prompt=True)["input_ids"]
    pairs = [(a, b) for a in CONTENTS for b in CONTENTS]
    for (a, b), s in zip(pairs, lines(program, folder, [{"prompt": a, "completion": b} for a, b in pairs])):
        ids = peer(a + b + (eos if not b.endswith(eos) else ""))["input_ids"]
        assert s["input_ids"] == ids, (a, b)
        assert s["labels"][-1] == ids[-1] == peer.convert_tokens_to_ids(eos)
    print(f"{name}: {len(talks)} conversations, {counted} tokens count; {len(pairs)} prompts and completions")


def main():
    program, templates = sys.argv[1:]
    real = {}
    for name in ("gpt2", "qwen3"):
        path = os.path.join(DATA, name, "tokenizer.json.gz")
        if os.path.exists(path):
            real[name] = gzip.open(path, "rt").read()
        else:
            print(f"skipped: there is no {path}")
    with tempfile.TemporaryDirectory() as work:
        llama, smollm2 = llama_like().to_str(), smollm2_like().to_str()
        for name, template in published(templates).items():
            if name == "llama3.2":
                check_chat(program, work, name, template, llama, "<|eot_id|>", "<|begin_of_text|>")
            else:
                text = real["qwen3"] if name.startswith("qwen") and "qwen3" in real else smollm2
                check_chat(program, work, name, template, text, "<|im_end|>", None)
        check_texts(program, work, real)
    return 0


if __name__ == "__main__":
    sys.exit(main())
