"""The attention that a forced decoding returns: that of layers, or the posterior of a latent alignment."""

import reprlib
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from keras import ops

from keras_attn_zoo.bodies.backbone import OPTIONAL_INPUTS, TranslationBackbone
from keras_attn_zoo.support.errors import UserError


def attention_program(
    backbone: TranslationBackbone, layers: Sequence[int] | str | None
) -> tuple[Hashable, Callable[[], Callable]]:
    """Return key and maker of the function of inputs and labels that computes attention, see `Programs.run`.

    `Translator.force` says what `layers` may be, and which are refused.
    """
    if layers is None:
        return ("force", None), lambda: lambda x, labels: backbone(x)["attention_scores"]
    if isinstance(layers, str) and layers == "posterior":
        if backbone.latent_head is None:
            raise UserError("the model has no latent alignment, so there is no posterior: choose a layer.")
        return ("force", layers), lambda: _posterior(backbone)
    count = len(backbone.cross_attention_heads)
    if not isinstance(layers, (list, tuple, range)) or not layers:
        raise UserError(f"layers must be a list of layers or 'posterior'; received {reprlib.repr(layers)}.")
    for layer in layers:
        if not isinstance(layer, (int, np.integer)) or not -count <= layer < count:
            raise UserError(f"there is no cross-attention layer {layer!r}: choose from 0 to {count - 1}.")
    return ("force", tuple(layers)), lambda: _of_layers(backbone, tuple(layers))


def _of_layers(backbone, layers):
    every_layer = backbone.attention_model()

    def of_layers(x, labels):
        found = every_layer({**OPTIONAL_INPUTS, **x})["cross"]
        return ops.concatenate([found[layer] for layer in layers], axis=1)

    return of_layers


def _posterior(backbone):
    posterior = backbone.posterior_model()
    return lambda x, labels: posterior({**OPTIONAL_INPUTS, **x, "decoder_labels": labels})
