"""Marian checkpoints of random weights, with subwords trained on generated text, made by Transformers itself."""

import functools
import io
import json

import numpy as np
import sentencepiece
import torch
import transformers

from tests import tiny

SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 40,
}


@functools.cache
def subword_model(side):
    """A SentencePiece model as OPUS-MT trains them: unigram, text normalised by NFKC."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text(side, 300)),
        model_writer=model,
        vocab_size=60,
        model_type="unigram",
        minloglevel=2,
        num_threads=1,
    )
    return model.getvalue()


@functools.cache
def text(side, count):
    """Sentences with capitals, punctuation, accents, and characters that NFKC changes."""
    rng = np.random.default_rng(3)
    words = " ".join(tiny.sentences(side)).split()
    marks = ["", "", ",", ".", "?", "!", "é", "…", "ﬁ", "\u00a0"]
    cases = [str, str.upper, str.title]
    return [
        " ".join(cases[rng.integers(3)](str(rng.choice(words))) + str(rng.choice(marks)) for _ in range(size))
        for size in rng.integers(1, 8, size=count)
    ]


def vocabulary(*sides):
    """Ids as Transformers gives them to a converted model: the end first, the padding last."""
    pieces = ["</s>", "<unk>", ">>fra<<"]
    for side in sides:
        processor = sentencepiece.SentencePieceProcessor(model_proto=subword_model(side))
        pieces += [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    pieces = [*dict.fromkeys(piece for piece in pieces if piece != "<s>"), "<pad>"]
    return {piece: number for number, piece in enumerate(pieces)}


def write(folder, generation=None, spare=0, **changes):
    """Write a checkpoint; return Transformers' own model and tokenizer of it.

    Args:
        folder: where to.
        generation: what its generation_config.json says besides or instead of what those of OPUS-MT say.
        spare: how many ids have no piece, and are never predicted.
        changes: what its config.json says instead.
    """
    folder.mkdir()
    shared = changes.get("share_encoder_decoder_embeddings", True)
    vocabularies = {"vocab": vocabulary("source", "target")}
    if not shared:
        vocabularies = {"vocab": vocabulary("source"), "target_vocab": vocabulary("target")}
    for name, ids in vocabularies.items():
        (folder / f"{name}.json").write_text(json.dumps(ids))
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(subword_model(side))
    tokenizer = transformers.MarianTokenizer(
        *(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")),
        target_vocab_file=None if shared else str(folder / "target_vocab.json"),
        separate_vocabs=not shared,
    )
    size, target_size = (len(ids) for ids in (vocabularies["vocab"], [*vocabularies.values()][-1]))
    config = transformers.MarianConfig(
        **SIZES
        | {
            "vocab_size": size + spare,
            "decoder_vocab_size": target_size + spare,
            "pad_token_id": target_size - 1,
            "decoder_start_token_id": target_size - 1,
            "eos_token_id": 0,
            "forced_eos_token_id": 0,
            "activation_function": "swish",
            "scale_embedding": True,
        }
        | changes
    )
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        # Those of `MarianMTModel` are too small, zero and one: a mistake would not show.
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.normal_(0.6 if "layer_norm.weight" in name else 0.0, 0.35)
        model.final_logits_bias.normal_(0.0, 0.5)
        # Otherwise hardly a translation would end.
        model.final_logits_bias[0, 0] += 3.5
        model.final_logits_bias[0, target_size:] = -1e4
    of_opus = {"num_beams": 4, "max_length": 40, "bad_words_ids": [[target_size - 1]], "renormalize_logits": True}
    special = {"decoder_start_token_id": target_size - 1, "pad_token_id": target_size - 1, "eos_token_id": 0}
    settings = {**of_opus, **special, "bos_token_id": 0, "forced_eos_token_id": 0, **(generation or {})}
    model.generation_config = transformers.GenerationConfig(**settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer
