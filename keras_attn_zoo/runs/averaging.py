"""Average the weights of models, such as the last rounds of a run."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.compat import layers_of
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import PathLike, kind_of, shown
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.training.checkpoints import best_rounds, checkpoint_name, figures_of_rounds, last_rounds
from keras_attn_zoo.translators import Translator


def average_models(models: Sequence[PathLike]) -> Translator:
    """Return a translator whose weights are the mean of those of models with one body and one vocabulary.

    Use it on rounds of one run, or on runs that continue the same one: a mean of
    models that began with different weights translates nothing.

        w = Σ_k w_k / K

    Args:
        models: run folders, of which the best round counts, or whatever `Translator.from_preset` takes.

    Returns:
        the first of them with other weights; they were summed in float64.

    Raises:
        UserError: fewer than two; models of another body or vocabulary than the first; quantized ones; see
            `load_translator`.

    Source: Vaswani et al., Attention is all you need, 2017, section 6.1 (the last 5 checkpoints).
    """
    if len(models) < 2:
        raise UserError(f"an average is of at least two models; received {len(models)}: give more.")
    first = load_translator(models[0])
    total: list[np.ndarray] = []
    with progress_bar("averaging", len(models), "model") as show:
        for number, model in enumerate(models):
            translator = load_translator(model) if number else first
            _check_alike(translator, model, first, models[0])
            weights = [np.asarray(ops.convert_to_numpy(weight), "float64") for weight in translator.backbone.weights]
            total = [one + other for one, other in zip(total, weights, strict=True)] if total else weights
            if show is not None:
                show(number + 1)
    for weight, sum_ in zip(first.backbone.weights, total, strict=True):
        weight.assign((sum_ / len(models)).astype(weight.dtype))
    return first


def _check_alike(translator, model, first, model_of_first):
    if any(layer.quantization_mode is not None for layer in layers_of(translator)):
        raise UserError(f"{shown(model)} is quantized, and integers have no mean: average models before that.")
    own, wanted = (_settings(one) for one in (translator, first))
    different = [name for name in wanted if own.get(name) != wanted[name]]
    if different or own.keys() != wanted.keys():
        raise UserError(
            f"{shown(model)} and {shown(model_of_first)} cannot be averaged: they differ in "
            f"{', '.join(different) or 'their bodies'}. Give models of one body and one vocabulary."
        )


def _settings(translator):
    neutral = ("name", "dtype", "trainable")
    config = {name: value for name, value in translator.backbone.get_config().items() if name not in neutral}
    return {"body": type(translator.backbone), **config, "subwords": tuple(translator.preprocessor.models)}


def checkpoints_of(run: RunFolder, last: int = 0, best: int = 0) -> list[str]:
    """Return the presets of the last or the best rounds of a run; give one of the two numbers.

    Raises:
        UserError: the run does not keep so many.
    """
    training = run.system().training
    monitor = f"val_{training.best_by}"
    figures = figures_of_rounds(run.log, monitor) if kind_of(run.log) else {}
    rounds = last_rounds(figures, last) or best_rounds(figures, best, monitor)
    found = [run.checkpoints / checkpoint_name(number) for number in rounds]
    kept = [str(path) for path in found if kind_of(path)]
    if len(kept) < (last or best):
        which = "last" if last else "best"
        raise UserError(
            f"{shown(run.path)} keeps {counted(len(kept), 'preset')} of its {last or best} {which} rounds: train with "
            f"keep_{which}={last or best}, or average fewer."
        )
    return kept
