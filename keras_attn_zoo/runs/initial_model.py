"""The model that a training begins with: a run, a preset, or a Marian model."""

import dataclasses

import keras

from keras_attn_zoo.bodies.schema import BODIES, longest_translation
from keras_attn_zoo.presets.loading_without_drawing import without_drawing
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.precision import policy
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.settings import UNGUIDED, DataSettings, SearchSettings, TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.compat import layers_of
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, shown
from keras_attn_zoo.support.setting_types import shown_value
from keras_attn_zoo.translators import Translator

# Settings that make a vocabulary.
_OF_VOCABULARY = ("vocabulary_size", "model_type", "joint", "byte_fallback", "truecase")
# Settings that say what a training begins with, and what it trains; links are those of its text.
_OF_ONE_TRAINING = ("pretraining_rounds", "word_vectors_source", "word_vectors_target", "lora_rank", "freeze")
# Settings of a body on which no weight depends.
_WITHOUT_WEIGHTS = (
    *("dropout", "attention_dropout", "activation_dropout", "attention_layer"),
    *("marginalization", "top_k", "top_k_gradient"),
)


def system_from(model: PathLike) -> System:
    """Return the system that continues a model: its body, vocabulary and search; of a run all settings but the length.

    Train it with `train_system`: weights and subwords are those of the model, the optimizer is new, and there is no
    guided alignment unless it is set again. Settings may be changed by `override`, but not those of the vocabulary, and
    of the body only dropout, the alignment layer and how a latent alignment is summed up.

    Args:
        model: a run folder, of which the best round counts, or whatever `Translator.from_preset` takes.

    Raises:
        UserError: see `load_translator`; a model that is quantized.

    Example:
        >>> system_from("runs/general").override(learning_rate=1e-4, epochs=2)  # doctest: +SKIP
    """
    return _system_of(load_translator(model), model)


def _system_of(translator, model):
    if any(layer.quantization_mode is not None for layer in layers_of(translator)):
        raise UserError(
            f"{shown(model)} is quantized, and integers cannot be trained: give the model from before that."
        )
    run, config = RunFolder(model), translator.backbone.get_config()
    body = next(one for one in BODIES.values() if isinstance(translator.backbone, one.body_class))
    backbone = {name: config[name] for name in body.settings}
    if run.holds_run:
        length = {"epochs": TrainingSettings.epochs, "budget": None}
        system = run.system().override(**dict.fromkeys(_OF_ONE_TRAINING), **UNGUIDED, **length)
        return dataclasses.replace(system, backbone=backbone).override(initial_model=str(model))
    preprocessor, search = translator.preprocessor, translator.search_settings
    cased = [tokenizer.truecaser is not None for tokenizer in (preprocessor.source_tokenizer, preprocessor.tokenizer)]
    source, target = preprocessor.models
    data = DataSettings(
        vocabulary_size=preprocessor.tokenizer.vocabulary_size(),
        joint=source == target or config["tie_embeddings"] == "all",
        truecase={(True, True): "both", (True, False): "source", (False, True): "target"}.get(tuple(cased)),
        max_tokens=_longest_sentence(min(preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length)),
    )
    known = {one.name for one in dataclasses.fields(SearchSettings)}
    return System(
        str(model).rstrip("/").rsplit("/", 1)[-1][:100],
        backbone,
        data,
        TrainingSettings(initial_model=str(model)),
        SearchSettings(**{name: value for name, value in (search or {}).items() if name in known}),
        body=body.name,
    )


def _longest_sentence(room):
    """The usual maximum of tokens, or as many as leave a translation so much room."""
    return next((count for count in range(DataSettings.max_tokens, 3, -1) if longest_translation(count) <= room), 3)


def load_initial_model(system: System) -> Translator | None:
    """Return the translator that a system's training begins with, in float32; None if weights are drawn.

    Raises:
        UserError: see `system_from`; the system has another body or vocabulary.
    """
    model = system.training.initial_model
    if model is None:
        return None
    translator = load_translator(model)
    own = _system_of(translator, model)
    if own.body != system.body:
        raise UserError(
            f"{shown(model)} has body={own.body!r}, not {system.body!r}: take the body of the model, with --from."
        )
    given = {**system.sizes, **{name: getattr(system.data, name) for name in _OF_VOCABULARY}}
    kept = {**own.sizes, **{name: getattr(own.data, name) for name in _OF_VOCABULARY}}
    for name, value in kept.items():
        if given[name] != value and name not in _WITHOUT_WEIGHTS:
            free = [name for name in _WITHOUT_WEIGHTS if name in kept]
            raise UserError(
                f"--from keeps body and vocabulary of {shown(model)}, which has {name}={shown_value(value)}, not "
                f"{shown_value(given[name])}: leave it out. You may change {', '.join(free)}, seed, "
                "precision, and the settings of search, training, lengths and filters."
            )
    return translator


def build_from(model: Translator, system: System) -> Translator:
    """Build the translator of a system with the weights, tokenizers and subwords of another one of the same body.

    Args:
        model: see `load_initial_model`.
        system: the system, of which precision, dropout, lengths and seed matter here.
    """
    keras.utils.set_random_seed(system.seed)
    backbone, preprocessor = model.backbone, model.preprocessor
    own = {name: system.sizes[name] for name in _WITHOUT_WEIGHTS if name in system.sizes}
    config = {**backbone.get_config(), **own, "dtype": policy(system.precision)}
    config.pop("name")
    with without_drawing():
        copy = type(backbone).from_config(config)
    copy.set_weights(backbone.get_weights())
    length = longest_translation(system.data.max_tokens)
    preprocessor.encoder_sequence_length = preprocessor.decoder_sequence_length = length
    preprocessor.truncation = system.data.truncation
    return Translator(copy, preprocessor)
