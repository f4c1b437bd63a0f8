"""What Transformers and we make of a checkpoint: the same ids and the same translations, or a refusal by name."""

import contextlib
import io
import json
import logging
import shutil
import warnings

import torch
import transformers

from keras_attn_zoo.data.encoded_text import encode_sentences
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests.checkpoints.cases import SPARE
from tests.translators import marian_checkpoint

# With what a token that was added may be: alone, at either end, inside a word, beside another.
TEXTS = [
    *[text for text in marian_checkpoint.text("source", 30) if len(text) < 30][:12],
    *("ka <ent> lo", "<ent>ka lo", "ka lo<ent>", "k<ent>a <ent><ent> .", ">>fra<< ka <ent>", "lo n't ' ka !"),
]
_WHAT = ("ids", "ids of targets", "translations", "text of ids")
EQUAL, REFUSED, THEIRS_FAILS = "equal", "refused", "Transformers fails"


def write_base(folder):
    """Write the checkpoint whose fields are changed: its translations differ, and some of them are cut."""
    model, _ = marian_checkpoint.write(folder, generation={"max_length": 14, "length_penalty": 1.2}, spare=4)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "layer_norm.weight" in name:
                weight.normal_(1.0, 0.3)
            elif "embed_positions" not in name:
                # What is read of the source counts.
                weight.normal_(0.0, 1.4 if "encoder_attn." in name else 0.35)
        bias = model.final_logits_bias[0, :SPARE]
        bias.normal_(0.0, 0.5)
        bias[0] += 4
        # The padding is likely, so that it counts whether it takes part in probabilities.
        bias[SPARE - 1] += 4
    model.save_pretrained(folder)
    assert json.loads((folder / "vocab.json").read_text())["<pad>"] == SPARE - 1


def changed(base, folder, changes):
    """Copy a checkpoint, and change fields, `{file: {field: value}}`; a field of None goes."""
    shutil.copytree(base, folder)
    for file, fields in changes.items():
        path = folder / file
        known = json.loads(path.read_text()) if path.exists() else {}
        known = {name: value for name, value in {**known, **fields}.items() if value is not None}
        path.write_text(json.dumps(known))
    return folder


def ours(folder):
    """Ids of both sides, and translations."""
    translator = Translator.from_preset(folder)
    # The maximum length of translations is that of given ones too.
    sides = [encode_sentences(subwords, TEXTS) for subwords in translator.preprocessor.subwords]
    return *sides, translator.generate(TEXTS), translator.preprocessor.tokenizer.detokenize(sides[1])


def theirs(folder):
    """What Transformers makes of it."""
    logging.getLogger("transformers").setLevel(logging.CRITICAL)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        model = transformers.MarianMTModel.from_pretrained(folder).eval()
        batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
        found = model.generate(**{name: batch[name] for name in ("input_ids", "attention_mask")})
    found = getattr(found, "sequences", found)
    # Of several for a sentence, the first.
    found = found[:: len(found) // len(TEXTS)]
    texts = tokenizer.batch_decode(found, skip_special_tokens=True)
    ids = tokenizer(TEXTS)["input_ids"], tokenizer(text_target=TEXTS)["input_ids"]
    given = tokenizer.batch_decode(ids[1], skip_special_tokens=True)
    return *ids, *([" ".join(text.split()) for text in some] for some in (texts, given))


def judge(folder, fields):
    """Return what became of a checkpoint, and what is wrong with that, or None."""
    try:
        found = ours(folder)
    except UserError as error:
        # The line names the field, or what it stands for.
        named = "\n" not in str(error) and any(name in str(error) for field in fields for name in names(field))
        return REFUSED, None if named else f"a message without the field: {error}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = theirs(folder)
        except Exception as error:
            return THEIRS_FAILS, None if found else str(error)
    for what, one, other in zip(_WHAT, found, wanted, strict=True):
        if one != other:
            place = next(i for i in range(len(TEXTS)) if one[i] != other[i])
            return "different", f"{what} of {TEXTS[place]!r}: {one[place]!r}, not {other[place]!r}"
    return EQUAL, None


def names(field):
    """What a message may call a field: a size by that of our body, or by the weights that do not fit it."""
    of_sizes = ("vocab_size", "d_model", "layers", "ffn_dim", "share_", "tie_word")
    weights = ("weight", "has the shape", "is missing", "embeddings") if any(one in field for one in of_sizes) else ()
    others = {"model_type": "bart", "separate_vocabs": "target_vocab.json", "vocab_size": "no ids of pieces"}
    return (field, *weights, *(("added token",) if "token" in field else ()), others.get(field, field))
