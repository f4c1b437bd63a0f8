"""Which weight of a Marian model is which of a `TransformerBackbone`."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import shown
from keras_attn_zoo.models.marian.checkpoint import Checkpoint
from keras_attn_zoo.models.positions import sine_table

SHARED = "model.shared.weight"
OF_SIDE = "model.{}.embed_tokens.weight"
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"
POSITIONS = "model.{}.embed_positions.weight"
LAST_NORM = "model.{}.layer_norm.{}"
# The parts of a layer: our attribute, the attention's name and its norm's in the checkpoint.
_PARTS = {
    "encoder": {"attention": ("self_attn", "self_attn_layer_norm")},
    "decoder": {
        "self_attention": ("self_attn", "self_attn_layer_norm"),
        "cross_attention": ("encoder_attn", "encoder_attn_layer_norm"),
    },
}
_PROJECTIONS = {"query_dense": "q_proj", "key_dense": "k_proj", "value_dense": "v_proj"}


def layer_weights(backbone: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name in the checkpoint and the variable of every weight inside the layers.

    A kernel of PyTorch is the transpose of ours, heads joined into one axis: see `to_ours` and `to_theirs`.
    """
    for side, parts in _PARTS.items():
        for number in range(getattr(backbone, f"{side}_layers")):
            layer = backbone.get_layer(f"{side}_{number}")
            prefix = f"model.{side}.layers.{number}"
            for part, (attention, norm) in parts.items():
                ours = getattr(layer, part)
                maps = [(getattr(ours, name), theirs) for name, theirs in _PROJECTIONS.items()]
                for dense, name in [*maps, (ours.output_dense, "out_proj")]:
                    yield f"{prefix}.{attention}.{name}.weight", dense.kernel
                    yield f"{prefix}.{attention}.{name}.bias", dense.bias
                yield from _norm(layer.norms[part], f"{prefix}.{norm}")
            for dense, name in ((layer.ffn_hidden, "fc1"), (layer.ffn_output, "fc2")):
                yield f"{prefix}.{name}.weight", dense.kernel
                yield f"{prefix}.{name}.bias", dense.bias
            yield from _norm(layer.norms["ffn"], f"{prefix}.final_layer_norm")


def last_norms(backbone: Any) -> dict[str, Any]:
    """Return the last normalisation of each side of a body with normalisation before the sublayers."""
    return {side: backbone.get_layer(f"{side}_norm") for side in _PARTS}


def _norm(norm, prefix):
    yield f"{prefix}.weight", norm.gamma
    yield f"{prefix}.bias", norm.beta


def their_shape(name: str, shape: Sequence[int], width: int) -> tuple[int, ...]:
    """Return the shape that a checkpoint stores a variable of ours in.

    Example:
        >>> their_shape("model.encoder.layers.0.self_attn.q_proj.weight", (8, 2, 4), 8)
        (8, 8)
    """
    size = int(np.prod(shape))
    if len(shape) == 1 or name.endswith(".bias"):
        return (size,)
    if name.endswith("out_proj.weight") or len(shape) == 2:
        return (shape[-1], size // shape[-1])
    return (size // width, width)


def assign_weights(backbone: Any, checkpoint: Checkpoint) -> None:
    """Give a body the weights of a checkpoint.

    Raises:
        UserError: a weight is missing, has another shape, or is one that a Marian model does not have.
    """
    width = backbone.width
    for name, variable in layer_weights(backbone):
        weight = checkpoint.take(name, shape=their_shape(name, variable.shape, width))
        variable.assign(np.reshape(weight.T, variable.shape))
    sizes = {"encoder": backbone.source_vocabulary_size, "decoder": backbone.target_vocabulary_size}
    embeddings = {"encoder": backbone.source_embedding, "decoder": backbone.target_embedding}
    if backbone.tie_embeddings == "all":
        names = (SHARED, *map(OF_SIDE.format, sizes), OUTPUT)
        backbone.target_embedding.embeddings.assign(checkpoint.take(*names, shape=(sizes["decoder"], width)))
    else:
        for side, embedding in embeddings.items():
            tied = [OUTPUT] if side == "decoder" and backbone.tie_embeddings == "target" else []
            names = (OF_SIDE.format(side), *tied)
            embedding.embeddings.assign(checkpoint.take(*names, shape=(sizes[side], width)))
        if backbone.tie_embeddings == "none":
            kernel = checkpoint.take(OUTPUT, shape=(sizes["decoder"], width))
            backbone.output_projection.kernel.assign(kernel)
    backbone.output_projection.bias.assign(checkpoint.take(BIAS, shape=(1, sizes["decoder"]))[0])
    sines = sine_table(width, backbone.max_length)
    for side, embedding in embeddings.items():
        table = checkpoint.find(POSITIONS.format(side))
        if table is None:
            continue
        same = np.isclose(table, sines, atol=1e-3).all(axis=1) if table.shape == sines.shape else np.zeros(1, bool)
        if side == "decoder" and same[1:].any() and not same[0] and np.isfinite(table[0]).all():
            # What `export` adds to the first position: the embedding of the padding, with which translations begin.
            rows = ops.convert_to_numpy(ops.cast(embedding.embeddings, "float32")).copy()
            rows[list(backbone.suppressed_tokens)] += (table[0] - sines[0]) / width**0.5
            embedding.embeddings.assign(rows)
            same[0] = True
        if not same.all():
            raise UserError(f"the positions of {shown(checkpoint.preset)} are not Marian's sines: it cannot be opened.")
    checkpoint.check_all_taken()
