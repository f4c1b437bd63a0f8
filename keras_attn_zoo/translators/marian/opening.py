"""Marian models of Transformers, such as OPUS-MT, opened as translators."""

from typing import Any

import keras_hub

from keras_attn_zoo.bodies.transformer_backbone import TransformerBackbone
from keras_attn_zoo.data.checked_text import check_characters
from keras_attn_zoo.data.marian_pieces import END, PAD, UNKNOWN
from keras_attn_zoo.data.subwords import LARGEST_MODEL
from keras_attn_zoo.presets.loading_without_drawing import without_drawing
from keras_attn_zoo.presets.preset_reading import has_file, preset_json
from keras_attn_zoo.presets.saving import CONVERTERS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_bytes, shown
from keras_attn_zoo.translators.marian.added_tokens import add_to, read_added_tokens, tokenizer_settings
from keras_attn_zoo.translators.marian.checkpoint import Checkpoint, checkpoint_file
from keras_attn_zoo.translators.marian.fields import CONFIG, GENERATION, TOKENIZER, check_fields
from keras_attn_zoo.translators.marian.generation import SPECIAL, Generation
from keras_attn_zoo.translators.marian.marian_tokenizer import MarianTokenizer
from keras_attn_zoo.translators.marian.marian_weights import assign_weights, position_kinds
from keras_attn_zoo.translators.transformer_translator import TransformerPreprocessor, TransformerTranslator

# Transformers' names of activations, and those of Keras.
_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu", "tanh": "tanh"}
# Other names that Transformers has for sizes; there, they win.
_SAME = {
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
}
# Of a vocabulary, with the ids that have no piece, a width or a number of layers.
_LARGEST_SIZE = 2**20


def open_marian(cls: Any, preset: str, config: dict[str, Any], load_weights: bool = True, **kwargs: Any) -> Any:
    """Open a Marian model as a translator, or as the part of one that `cls` says; see `PresetFiles.from_preset`.

    Raises:
        UserError: it computes what our body does not; its files do not fit together; `cls` is no part of a Transformer.
    """
    generation = Generation(preset, config)
    tokenizer_files = zip(("tokenizer_config.json", "special_tokens_map.json"), tokenizer_settings(preset), strict=True)
    of_model = {name: value for name, value in config.items() if name in CONFIG.read or name not in GENERATION.known}
    found = [
        ("config.json", CONFIG, of_model),
        (generation.file, GENERATION, generation.fields),
        *((file, TOKENIZER, fields) for file, fields in tokenizer_files),
    ]
    check_fields(preset, found)
    if issubclass(cls, keras_hub.models.Tokenizer):
        side = "source" if kwargs.pop("config_file", "tokenizer.json").startswith("source") else "target"
        return _tokenizer(preset, config, generation, side)
    if issubclass(cls, keras_hub.models.Preprocessor):
        return _preprocessor(preset, config, generation, **kwargs)
    if issubclass(TransformerBackbone, cls):
        return _backbone(preset, config, generation, load_weights, **kwargs)
    if issubclass(TransformerTranslator, cls) or issubclass(cls, TransformerTranslator):
        backbone = _backbone(preset, config, generation, load_weights, dtype=kwargs.pop("dtype", None))
        kwargs.setdefault("preprocessor", _preprocessor(preset, config, generation))
        translator = cls(backbone, **kwargs)
        if "search_settings" not in kwargs:
            translator.sampler = generation.sampler(translator.preprocessor.decoder_sequence_length)
        return translator
    raise UserError(f"{shown(preset)} is a Transformer: open it as a Translator, not as a {cls.__name__}.")


CONVERTERS["marian"] = open_marian


def backbone_arguments(config: dict[str, Any], generation: Generation, preset: str) -> dict[str, Any]:
    """Return the arguments of a `TransformerBackbone` that computes what a Marian model does.

    Args:
        config: the config.json of the model.
        generation: what it says of its search.
        preset: what errors call the model.

    Raises:
        UserError: an architecture that the body does not have; a value that is missing or of the wrong type.
    """
    if not config.get("scale_embedding"):
        raise UserError(f"{shown(preset)} does not have scale_embedding=True: only models with it can be opened.")
    for name, same in _SAME.items():
        if name in config and config[name] != config.get(same):
            raise UserError(
                f"config.json of {shown(preset)} says {name}={shown(repr(config[name]))}, but {same}="
                f"{shown(repr(config.get(same)))}: make them equal, or download it again."
            )
    activation = config.get("activation_function", "gelu")
    if activation not in _ACTIVATIONS:
        raise UserError(
            f"{shown(preset)} has activation_function={shown(repr(activation))}: only {', '.join(_ACTIVATIONS)} can "
            "be opened."
        )
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = (_size(config, f"{side}_{name}", preset) for side in ("encoder", "decoder"))
        if encoder != decoder:
            raise UserError(
                f"{shown(preset)} has encoder_{name}={encoder} and decoder_{name}={decoder}: only models with the same "
                "on both sides can be opened."
            )
    source = _size(config, "vocab_size", preset)
    shared = config.get("share_encoder_decoder_embeddings", True)
    tied = config.get("tie_word_embeddings", True)
    target = source if shared else _size({"decoder_vocab_size": source} | config, "decoder_vocab_size", preset)
    if shared and not tied:
        raise UserError(
            f"{shown(preset)} shares the embeddings of both sides, but not the output matrix: it cannot be opened."
        )
    width, heads = _size(config, "d_model", preset), config["encoder_attention_heads"]
    if width % heads:
        raise UserError(
            f"config.json of {shown(preset)} says d_model={width} and encoder_attention_heads={heads}, which does not "
            "divide it: download it again."
        )
    return {
        "source_vocabulary_size": source,
        "target_vocabulary_size": target,
        "width": width,
        "num_heads": heads,
        "ffn_dim": config["encoder_ffn_dim"],
        "encoder_layers": _size(config, "encoder_layers", preset),
        "decoder_layers": _size(config, "decoder_layers", preset),
        "normalization": "post",
        "activation": _ACTIVATIONS[activation],
        "encoder_positions": "halved_sine",
        "decoder_positions": "halved_sine",
        "max_length": _size(config, "max_position_embeddings", preset, least=2),
        "tie_embeddings": "all" if shared else "target" if tied else "none",
        "output_bias": True,
        "suppressed_tokens": generation.suppressed_tokens(target),
        "dropout": _rate(config, "dropout", 0.1, preset),
        "attention_dropout": _rate(config, "attention_dropout", 0.0, preset),
        "activation_dropout": _rate(config, "activation_dropout", 0.0, preset),
    }


def _size(config, name, preset, least=1):
    value = config.get(name)
    if type(value) is not int or not least <= value <= _LARGEST_SIZE:
        raise UserError(
            f"config.json of {shown(preset)} says {name}={shown(repr(value))}, not an integer from {least} to "
            f"{_LARGEST_SIZE:,}: download it again."
        )
    return value


def _rate(config, name, default, preset):
    value = config.get(name, default)
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise UserError(
            f"config.json of {shown(preset)} says {name}={shown(repr(value))}, not a number from 0 to below 1: "
            "download it again."
        )
    return float(value)


def _backbone(preset, config, generation, load_weights=True, dtype=None):
    arguments = backbone_arguments(config, generation, preset)
    if not load_weights:
        return TransformerBackbone(**arguments, dtype=dtype)
    # The weights are read first: a body that does not fit them might not fit in memory either.
    checkpoint = Checkpoint(preset)
    checkpoint.check_sizes(arguments)
    arguments |= position_kinds(checkpoint, arguments["width"], arguments["max_length"])
    with without_drawing(checkpoint.numbers):
        backbone = TransformerBackbone(**arguments, dtype=dtype)
    assign_weights(backbone, checkpoint, generation.special("decoder_start_token_id"))
    return backbone


def _preprocessor(preset, config, generation, **kwargs):
    # Every position beyond the table would have no embedding.
    longest = _size(config, "max_position_embeddings", preset, least=2)
    lengths = {"encoder_sequence_length": longest, "decoder_sequence_length": generation.longest(longest)}
    source, target = (_tokenizer(preset, config, generation, side) for side in ("source", "target"))
    return TransformerPreprocessor(source, target, **{**lengths, **kwargs})


def _tokenizer(preset, config, generation, side):
    settings, _ = tokenizer_settings(preset)
    separate = settings.get("separate_vocabs") is True
    if has_file(preset, "target_vocab.json") and not separate:
        raise UserError(
            f"{shown(preset)} has target_vocab.json, but tokenizer_config.json does not say separate_vocabs=True: "
            "remove the one, or correct the other."
        )
    of_target = side == "target" and separate
    name = "target_vocab.json" if of_target else "vocab.json"
    shared = config.get("share_encoder_decoder_embeddings", True)
    size = config.get("vocab_size")
    if side == "target" and not shared:
        size = config.get("decoder_vocab_size", size)
    ids = _ids(preset, name, size)
    pieces = _pieces(ids, name, size, preset)
    # What is padded on the source's side is masked, whatever its id.
    generation.check_special(ids, name, ("eos_token_id",) if separate and side == "source" else tuple(SPECIAL))
    # Transformers numbers added tokens behind the pieces of the source, for both sides.
    source_ids = _ids(preset, "vocab.json", config.get("vocab_size")) if of_target else ids
    added = read_added_tokens(preset, source_ids)
    tokens = add_to(pieces, added, preset, ids, said=side == "target")
    model = read_bytes(checkpoint_file(preset, f"{side}.spm"), LARGEST_MODEL)
    config_file = {"config_file": "source_tokenizer.json"} if side == "source" else {}
    clean_up = settings.get("clean_up_tokenization_spaces") is True
    try:
        return MarianTokenizer(model, pieces, added_tokens=tokens, clean_up_spaces=clean_up, **config_file)
    except UserError:
        raise UserError(
            f"{side}.spm of {shown(preset)} is not a SentencePiece model, or is damaged: download it again."
        ) from None


def _ids(preset, name, size):
    """Return the id of every piece of a vocabulary file."""
    try:
        ids = preset_json(preset, name)
    except FileNotFoundError:
        raise UserError(f"{name} is missing from {shown(preset)}: download it again.") from None
    if not isinstance(ids, dict) or any(type(number) is not int or number < 0 for number in ids.values()):
        raise _damaged(name, preset)
    for piece in ids:
        check_characters(piece, f"a piece of {name} of {shown(preset)}")
    if type(size) is not int or not max(ids.values(), default=0) < size <= _LARGEST_SIZE:
        raise UserError(
            f"{name} of {shown(preset)} has {len(ids)} pieces, but config.json says vocab_size={shown(repr(size))}: "
            "download both again."
        )
    for piece in (UNKNOWN, END, PAD):
        if piece not in ids:
            raise UserError(f"{name} of {shown(preset)} has no {piece}: download it again.")
    return ids


def _pieces(ids, name, size, preset):
    """Return the pieces of a vocabulary file in the order of their ids."""
    # Ids without a piece only make the matrices larger.
    pieces = [f"<unused {number}>" for number in range(size)]
    for piece, number in ids.items():
        pieces[number] = piece
    if len(set(ids.values())) != len(ids) or len(set(pieces)) != size:
        raise _damaged(name, preset)
    return pieces


def _damaged(name, preset):
    return UserError(f"{name} of {shown(preset)} does not give every piece an id of its own: download it again.")
