"""What of a body is trained: all weights, those of some parts, or matrices of low rank beside them."""

from typing import Any

import keras

from keras_attn_zoo.runs.settings import TrainingSettings
from keras_attn_zoo.support.compat import layers_of
from keras_attn_zoo.support.errors import UserError

# Layers whose kernels LoRA adapts.
_LINEAR = (keras.layers.Dense, keras.layers.EinsumDense)


def choose_trained(body: Any, training: TrainingSettings) -> None:
    """Set up LoRA, and freeze what is not to be trained.

    LoRA (Hu and others 2022) leaves the kernel W of a linear map as it is, and trains two matrices of the given rank
    beside it, B from 0, so that the training begins with the model as it is:

        W' = W + A·B

    Every Dense layer of the body has them; recurrent cells, other layers with kernels of their own, such as additive
    attention and the output, embeddings and layer norms are left as they are. What is saved has W', and is a preset as
    any other.

    Args:
        body: a backbone.
        training: `lora_rank` and `freeze` count.

    Raises:
        UserError: nothing is left to be trained; no layer has a linear map.
    """
    if training.lora_rank is not None:
        maps = {layer.name for layer in layers_of(body, include_self=False) if isinstance(layer, _LINEAR)}
        body.enable_lora(training.lora_rank, sorted(maps))
    parts = set((training.freeze or "").split(",")) - {""}
    for weight in body.trainable_variables:
        if parts & _parts_of(weight.path):
            weight.trainable = False
    if not body.trainable_variables:
        raise UserError(f"freeze={training.freeze} leaves nothing to be trained: freeze fewer parts.")


def _parts_of(path):
    """The parts that a weight belongs to, by `PARTS`."""
    names = path.split("/")
    embeddings = {"source_embedding", "target_embedding"} & {*names}
    if embeddings or {"encoder_positions", "decoder_positions"} & {*names}:
        return embeddings | {"embeddings"}
    if {"output_projection", "latent_alignment_head", "first_order_alignment", "readout"} & {*names}:
        return {"output"}
    if names[0].startswith("encoder_"):
        return {"encoder"}
    return {"decoder", "cross_attention"} if "cross_attention" in names else {"decoder"}
