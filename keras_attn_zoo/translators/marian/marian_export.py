"""A Transformer of ours, written in the format of Transformers."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_attn_zoo.bodies.transformer_backbone import TransformerBackbone
from keras_attn_zoo.data.marian_pieces import END, PAD, UNKNOWN
from keras_attn_zoo.layers import MultiHeadAttention
from keras_attn_zoo.support.choices import GATES
from keras_attn_zoo.support.compat import layers_of
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, atomic_path, check_new_folder, write_json
from keras_attn_zoo.translators.marian.checkpoint import SAFETENSORS, write_safetensors
from keras_attn_zoo.translators.marian.marian_weights import (
    BIAS,
    LAST_NORM,
    OF_SIDE,
    OUTPUT,
    POSITIONS,
    SHARED,
    last_norms,
    layer_weights,
    position_table,
    their_shape,
)
from keras_attn_zoo.translators.preprocessor import check_exported

# The bias of a piece that only the other side has, and of the padding: its probability is 0.
_NEVER = -1e9
# What a layer's configuration may say without computing something else.
_FREE = ("name", "dtype", "trainable", "dropout", "seed", "_initializer", "_regularizer", "_constraint")
_LONGEST = 512


def export_to_transformers(translator: Any, folder: PathLike) -> None:
    """Write a translator as a model of Transformers, which CTranslate2 converts too.

    Use it for a standard Transformer: multi-head attention in every place, a softmax over the vocabulary. With
    normalisation after the sublayers it becomes a `MarianMTModel`, with normalisation before them a
    `PegasusForConditionalGeneration`; the tokenizer is a `MarianTokenizer` either way.

    A Marian model begins a translation with an embedding of zeros. What our start token has instead is added to the
    first position of the decoder, whose table is therefore part of the checkpoint; Transformers' own `save_pretrained`
    leaves the table out, so keep what is written here.

    Args:
        translator: a `TransformerTranslator` with its preprocessor.
        folder: where to write; there must not be anything yet.

    Raises:
        UserError: Transformers has no such model; no preprocessor; the folder exists, or cannot be written.

    Example:
        >>> export_to_transformers(translator, "exported")  # doctest: +SKIP
    """
    check_standard(translator)
    check_new_folder(folder)
    backbone, preprocessor = translator.backbone, translator.preprocessor
    sides = (preprocessor.source_tokenizer, preprocessor.tokenizer)
    pieces = joint_vocabulary(sides[0].get_vocabulary(), sides[1].get_vocabulary(), sides[1].start_token)
    longest = max(_LONGEST, preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length)
    if backbone.longest_sentence is not None:
        longest = min(longest, backbone.longest_sentence)
    weights = dict(_weights(backbone, sides, pieces, longest))
    with atomic_path(folder) as aside:
        aside.mkdir()
        write_safetensors(aside / SAFETENSORS, weights)
        for name, value in _configurations(translator, pieces, longest).items():
            write_json(aside / name, value)
        for side, tokenizer in zip(("source", "target"), sides, strict=True):
            (Path(aside) / f"{side}.spm").write_bytes(tokenizer.proto)


def check_standard(translator: Any) -> None:
    """Raise a `UserError` that says why if Transformers has no model that computes what a translator does."""
    check_exported(translator.preprocessor)
    backbone = translator.backbone
    sides = (translator.preprocessor.source_tokenizer, translator.preprocessor.tokenizer)
    reason = None
    if not isinstance(backbone, TransformerBackbone):
        reason = f"a body such as {type(backbone).__name__}"
    elif backbone.latent_head is not None:
        reason = "a latent alignment as its output"
    elif backbone.normalization == "pre" and backbone.tie_embeddings != "all":
        reason = "normalisation before the sublayers, unless all embeddings are tied (tie_embeddings='all')"
    elif backbone.norm != "layer":
        reason = f"norm={backbone.norm!r}"
    elif backbone.activation in GATES:
        reason = f"activation={backbone.activation!r}"
    else:
        for name, layer in _attentions(backbone):
            if not _is_standard(layer, backbone):
                reason = f"{type(layer).__name__} ({name}) as configured here"
    if reason is None and any(layer.quantization_mode is not None for layer in layers_of(backbone)):
        reason = "int8 layers: export it as it was before `quantize`"
    if reason is None and sides[0].subwords.whole_words:
        reason = "a vocabulary of whole words"
    if reason is None and any(tokenizer.truecased for tokenizer in sides):
        reason = "a truecaser"
    if reason is not None:
        raise UserError(f"the translator cannot be exported: Transformers has no translator with {reason}.")


def _attentions(backbone):
    for side, parts in (("encoder", ("attention",)), ("decoder", ("self_attention", "cross_attention"))):
        for number in range(getattr(backbone, f"{side}_layers")):
            layer = backbone.get_layer(f"{side}_{number}")
            yield from ((f"{side} layer {number}", getattr(layer, part)) for part in parts)


def _is_standard(layer, backbone):
    if type(layer) is not MultiHeadAttention or backbone.width % backbone.num_heads:
        return False
    plain = MultiHeadAttention(backbone.num_heads, backbone.width // backbone.num_heads).get_config()
    return all(value == plain[name] for name, value in layer.get_config().items() if not name.endswith(_FREE))


def joint_vocabulary(source: Sequence[str], target: Sequence[str], start: str) -> list[str]:
    """Return the pieces of both sides in the order that Marian models have: the end first, the padding last.

    Example:
        >>> ours = ["<pad>", "<unk>", "<s>", "</s>"]
        >>> joint_vocabulary([*ours, "a", "b"], [*ours, "b", "c"], "<s>")
        ['</s>', '<unk>', 'b', 'c', 'a', '<pad>']
    """
    special = (END, UNKNOWN, PAD, start)
    return [END, UNKNOWN, *(piece for piece in dict.fromkeys([*target, *source]) if piece not in special), PAD]


def _weights(backbone, sides, pieces, longest):
    """Yield the name and the value of every weight of the checkpoint."""
    width = backbone.width
    for name, variable in layer_weights(backbone):
        shape = their_shape(name, variable.shape, width)
        weight = _numpy(variable)
        weight = weight.reshape(shape[::-1]).T if len(shape) == 2 else weight.reshape(shape)
        yield name, np.ascontiguousarray(weight)
    pre = backbone.normalization == "pre"
    if pre:
        for side, norm in last_norms(backbone).items():
            yield LAST_NORM.format(side, "weight"), _numpy(norm.gamma)
            yield LAST_NORM.format(side, "bias"), _numpy(norm.beta)
    embeddings = (backbone.source_embedding, backbone.target_embedding)
    tables = [
        _rows(_numpy(embedding.embeddings), tokenizer, pieces)
        for embedding, tokenizer in zip(embeddings, sides, strict=True)
    ]
    start = _numpy(backbone.target_embedding.embeddings)[sides[1].start_token_id]
    positions = [_positions(backbone, side, longest) for side in ("encoder", "decoder")]
    if pre:
        # The padding is masked and never predicted: its row is free for what begins a translation.
        tables[0][-1] = tables[1][-1] = start
    else:
        tables[0][-1] = tables[1][-1] = 0.0
        positions[1][0] += width**0.5 * start
    if backbone.tie_embeddings == "all":
        yield SHARED, tables[1]
    else:
        for side, table in zip(("encoder", "decoder"), tables, strict=True):
            yield OF_SIDE.format(side), table
    for side, table in zip(("encoder", "decoder"), positions, strict=True):
        yield POSITIONS.format(side), table
    projection = backbone.output_projection
    if backbone.tie_embeddings == "none":
        yield OUTPUT, _rows(_numpy(projection.kernel), sides[1], pieces)
    own = _numpy(projection.bias) if projection.use_bias else np.zeros(backbone.target_vocabulary_size, "float32")
    bias = _rows(own, sides[1], pieces)
    known = set(sides[1].get_vocabulary())
    bias[[i for i, piece in enumerate(pieces) if piece not in known or piece == PAD]] = _NEVER
    yield BIAS, bias[None]


def _rows(table, tokenizer, pieces):
    """Rows in the order of a vocabulary; a piece that the side lacks has the row of the unknown one."""
    return np.ascontiguousarray(table[[tokenizer.token_to_id(piece) for piece in pieces]])


def _positions(backbone, side, longest):
    kind = getattr(backbone, f"{side}_positions")
    if kind == "learned":
        return _numpy(backbone.get_layer(f"{side}_positions").weights[0])[:longest].copy()
    return position_table(kind, backbone.width, longest)


def _numpy(variable):
    return np.array(ops.convert_to_numpy(ops.cast(variable, "float32")))


def _configurations(translator, pieces, longest):
    """The JSON files of the checkpoint, by name."""
    backbone, preprocessor, sampler = translator.backbone, translator.preprocessor, translator.sampler
    pre = backbone.normalization == "pre"
    special = {"pad_token_id": len(pieces) - 1, "decoder_start_token_id": len(pieces) - 1, "eos_token_id": 0}
    sizes = {}
    for side in ("encoder", "decoder"):
        sizes[f"{side}_layers"] = getattr(backbone, f"{side}_layers")
        sizes |= {f"{side}_attention_heads": backbone.num_heads, f"{side}_ffn_dim": backbone.ffn_dim}
    config = {
        "architectures": ["PegasusForConditionalGeneration" if pre else "MarianMTModel"],
        "model_type": "pegasus" if pre else "marian",
        "vocab_size": len(pieces),
        "decoder_vocab_size": len(pieces),
        "share_encoder_decoder_embeddings": backbone.tie_embeddings == "all",
        "tie_word_embeddings": backbone.tie_embeddings != "none",
        "d_model": backbone.width,
        **sizes,
        "max_position_embeddings": longest,
        "activation_function": backbone.activation,
        "scale_embedding": True,
        "normalize_before": pre,
        "normalize_embedding": False,
        "add_final_layer_norm": pre,
        "static_position_embeddings": True,
        "dropout": backbone.dropout,
        "attention_dropout": backbone.attention_dropout,
        "activation_dropout": backbone.activation_dropout,
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
        "dtype": "float32",
        **special,
    }
    if pre:
        # Marian alone has these.
        del config["decoder_vocab_size"], config["share_encoder_decoder_embeddings"]
    suppressed = {PAD, *map(preprocessor.tokenizer.id_to_token, backbone.suppressed_tokens)}
    generation = {
        **special,
        # A start token of ours is none of the pieces.
        "bad_words_ids": [[number] for number, piece in enumerate(pieces) if piece in suppressed],
        "renormalize_logits": getattr(sampler, "renormalize", True),
        "forced_eos_token_id": None if getattr(sampler, "forced_end", None) is None else 0,
        "max_length": preprocessor.decoder_sequence_length,
        # Any other sampler searches greedily, or draws, which is not a setting of a model there.
        "num_beams": getattr(sampler, "num_beams", 1),
        "length_penalty": getattr(sampler, "length_penalty", 1.0),
        "early_stopping": getattr(sampler, "early_stopping", False),
        # With the start token; "min_new_tokens" would go before what a caller asks for.
        "min_length": 1 + sampler.min_length if getattr(sampler, "min_length", 0) else 0,
        "no_repeat_ngram_size": getattr(sampler, "no_repeat_ngram", 0),
    }
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": preprocessor.encoder_sequence_length,
        "separate_vocabs": False,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "pad_token": PAD,
        **_added_tokens(preprocessor, pieces),
    }
    return {
        "config.json": config,
        "generation_config.json": generation,
        "tokenizer_config.json": tokenizer,
        "vocab.json": {piece: number for number, piece in enumerate(pieces)},
    }


def _added_tokens(preprocessor, pieces):
    """What says which tokens of an opened model were added to its vocabulary."""
    sides = (preprocessor.source_tokenizer, preprocessor.tokenizer)
    tokens = {token.content: token for side in sides for token in getattr(side, "added_tokens", ())}
    numbered = {}
    for number, piece in enumerate(pieces):
        if (token := tokens.get(piece)) is not None:
            flags = dataclasses.asdict(token)
            special = flags.pop("skipped")
            numbered[str(number)] = {**flags, "normalized": False, "special": special}
    return {
        "added_tokens_decoder": numbered,
        "extra_special_tokens": [token.content for token in tokens.values() if token.skipped],
        "clean_up_tokenization_spaces": getattr(preprocessor.tokenizer, "clean_up_spaces", False),
    }
