"""Tokenizers with added tokens: every number gives one, in one of the forms in which Transformers stores them."""

import json
import random
import shutil

import transformers

from keras_attn_zoo.data.encoded_text import encode_sentences
from keras_attn_zoo.translators import MarianTokenizer
from tests.checkpoints.cases import SPARE

# Some begin alike, hold each other, are pieces or words of the model, or look like what means something elsewhere.
CONTENTS = [
    "<ent>",
    "<ent>x",
    "<e",
    "nt>",
    ">>deu<<",
    ">>fra<<",
    ">>",
    "lo",
    "ka lo",
    "<2de>",
    "é",
    "(",
    "kalo",
    "A",
    "x y",
]
WORDS = ["ka", "lo", "mi", ".", "é", "xyz", ">>fra<<", "kalo", "\u00a0", "日本", *CONTENTS]
FLAGS = ("lstrip", "rstrip", "single_word")
SPACES = ["", " ", " ", "  "]
# As many as the checkpoint has ids without a piece.
MOST = 4


def write_tokenizer(base, folder, number):
    """Write the tokenizer of a case beside the checkpoint's other files; return texts that hold its tokens."""
    rng = random.Random(number)
    shutil.copytree(base, folder, ignore=lambda *_: ["model.safetensors"])
    known = json.loads((folder / "vocab.json").read_text())
    contents = rng.sample(CONTENTS, rng.randint(1, MOST))
    new = [content for content in contents if content not in known]
    numbers = {content: known[content] if content in known else SPARE + new.index(content) for content in contents}
    special = rng.sample(contents, rng.randint(0, len(contents)))
    flags = {content: {name: rng.random() < 0.2 for name in FLAGS} for content in contents}
    name = rng.choice(["additional_special_tokens", "extra_special_tokens"])
    form = rng.choice(["decoder", "files", "tokenizer.json", "no numbers"])
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["added_tokens_decoder"]
    if rng.random() < 0.3:
        settings["clean_up_tokenization_spaces"] = True
    if form == "decoder":
        tokens = {
            str(numbers[content]): {"content": content, **flags[content], "special": content in special}
            for content in contents
        }
        settings |= {"added_tokens_decoder": tokens, name: special}
    elif form == "tokenizer.json":
        tokens = [{"id": numbers[content], "content": content, **flags[content]} for content in contents]
        (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}))
        settings[name] = special
    else:
        if form == "files":
            (folder / "added_tokens.json").write_text(json.dumps(numbers))
        kept = {"eos_token": "</s>", name: special}
        if special and rng.random() < 0.3:
            kept["cls_token"] = {"content": special[0], **flags[special[0]], "normalized": False}
        (folder / "special_tokens_map.json").write_text(json.dumps(kept))
        settings |= {name: special} if rng.random() < 0.5 else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    words = [*WORDS, *contents * 4]
    return ["".join(rng.choice(SPACES) + rng.choice(words) for _ in range(rng.randint(1, 9))) for _ in range(12)]


def judge_tokenizer(folder, texts):
    """Return what is wrong with the ids or the text of one of the sides, or None."""
    theirs = transformers.MarianTokenizer.from_pretrained(folder)
    for side, config_file in (("source", "source_tokenizer.json"), ("target", "tokenizer.json")):
        ours = MarianTokenizer.from_preset(folder, config_file=config_file)
        wanted = theirs(texts)["input_ids"] if side == "source" else theirs(text_target=texts)["input_ids"]
        found = encode_sentences(ours.subwords, texts)
        for text, one, other in zip(texts, found, wanted, strict=True):
            if one != other:
                return f"{side} ids of {text!r}: {one}, not {other}"
        decoded = [" ".join(text.split()) for text in theirs.batch_decode(wanted, skip_special_tokens=True)]
        for ids, one, other in zip(wanted, ours.detokenize(wanted), decoded, strict=True):
            if one != other:
                return f"text of {side} ids {ids}: {one!r}, not {other!r}"
    return None
