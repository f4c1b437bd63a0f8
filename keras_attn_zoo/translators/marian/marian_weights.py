"""Which weight of a Marian model is which of a `TransformerBackbone`."""

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from keras import ops

from keras_attn_zoo.bodies.position_encodings import position_layer
from keras_attn_zoo.translators.marian.checkpoint import Checkpoint

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
    """Return the shape that a checkpoint stores a variable of ours in."""
    size = int(np.prod(shape))
    if len(shape) == 1 or name.endswith(".bias"):
        return (size,)
    if name.endswith("out_proj.weight") or len(shape) == 2:
        return (shape[-1], size // shape[-1])
    return (size // width, width)


def position_kinds(checkpoint: Checkpoint, width: int, longest: int) -> dict[str, str]:
    """Return the kinds of positions of both sides: sines unless a table is stored that has other numbers."""
    kinds = {}
    for side in _PARTS:
        table = checkpoint.positions(POSITIONS.format(side), shape=(longest, width))
        kinds[f"{side}_positions"] = "halved_sine"
        if table is not None:
            # The decoder's first position may hold the embedding that translations begin with, too: see `export`.
            rows = slice(side == "decoder" and longest > 1, None)
            sines = ("halved_sine", "sine")
            same = (one for one in sines if _close(table, position_table(one, width, longest))[rows].all())
            kinds[f"{side}_positions"] = next(same, "learned")
    return kinds


def position_table(kind: str, width: int, longest: int) -> np.ndarray:
    """Return the vectors of positions `(longest, width)` of a kind that has no weights."""
    nowhere = np.zeros((1, longest, width), "float32")
    layer = position_layer(kind, width, longest, "positions")
    if layer is None:
        return nowhere[0]
    return np.array(np.broadcast_to(ops.convert_to_numpy(layer(nowhere)), nowhere.shape)[0])


def _close(table, sines):
    """Which rows of a table are sines, as far as the precision in which it is stored can tell."""
    rounding = float(ml_dtypes.finfo(table.dtype).eps) / 2
    return np.isclose(table.astype("float32"), sines, atol=1e-3 + rounding).all(axis=1)


def assign_weights(backbone: Any, checkpoint: Checkpoint, start: int) -> None:
    """Give a body the weights of a checkpoint.

    Args:
        backbone: a body with the `position_kinds` of the checkpoint.
        checkpoint: the weights.
        start: the id of the token with which translations begin.

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
    for side, embedding in embeddings.items():
        kind, longest = getattr(backbone, f"{side}_positions"), backbone.max_length
        table = checkpoint.positions(POSITIONS.format(side), shape=(longest, width))
        checkpoint.drop(POSITIONS.format(side))
        if kind == "learned":
            backbone.get_layer(f"{side}_positions").weights[0].assign(table)
        elif table is not None:
            sines = position_table(kind, width, longest)
            if not _close(table, sines)[0]:
                # What `export` adds to the first position: the embedding with which translations begin.
                rows = ops.convert_to_numpy(ops.cast(embedding.embeddings, "float32")).copy()
                rows[start] += (table[0].astype("float32") - sines[0]) / width**0.5
                embedding.embeddings.assign(rows)
    checkpoint.check_all_taken()
