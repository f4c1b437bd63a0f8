"""The attention layers in one place of a Transformer, and what they share."""

from typing import Any

from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, get_attention
from keras_attn_zoo.layers.base.shared_by_layers import SharedByLayers
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import DType, Tensor, TensorTree

# Names of the attention inside its Transformer layer.
_NAMES = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}


class AttentionStack:
    """The attention layers in one place, from one description or one per layer.

    What the layers of a side share, by `shared_by_layers` of their class, is created here and passed from layer to
    layer by `given`. A description may contain arguments of what is shared, besides those of its layer.

    Args:
        attention: anything that `get_attention` accepts, or a list of these, one per layer. A layer is copied for
            each place, with separate weights.
        count: number of layers.
        place: "encoder", "decoder" or "cross".
        dtype: dtype policy of the layers.
        positions: what the layers know of positions, as argument of each; None leaves it to the descriptions.
        **sizes: sizes for layers created from a name: `width`, `num_heads`, `max_length`, `dropout`.

    Raises:
        UserError: a list of the wrong length; layers that share something but describe it differently; a context of
            the wrong width; layers that do not take the positions, or others; whatever `get_attention` raises.
    """

    def __init__(
        self, attention: Any, count: int, place: str, dtype: DType, positions: str | None = None, **sizes: Any
    ) -> None:
        descriptions = list(attention) if isinstance(attention, (list, tuple)) else [attention] * count
        if len(descriptions) != count:
            raise UserError(
                f"{place} attention: {len(descriptions)} mechanisms for {count} layers: give one, or one per layer."
            )
        if positions is not None:
            descriptions = [_with_positions(description, place, positions) for description in descriptions]
        made = [_layer(description, place, dtype, sizes) for description in descriptions]
        self.layers = [layer for layer, _ in made]
        self.shared: dict[type[SharedByLayers], SharedByLayers] = {}
        for kind in {_sharing(layer): None for layer in self.layers if _sharing(layer)}:
            sharing = [(layer, of_side) for layer, of_side in made if _sharing(layer) is kind]
            asked = [kind.asked_by(layer) for layer, _ in sharing]
            # A layer given as an object says nothing about what it shares.
            said = [of_side for _, of_side in sharing if of_side is not None] or [{}]
            if any(one != asked[0] for one in asked) or any(one != said[0] for one in said):
                raise UserError(
                    f"{place} attention: the {type(sharing[0][0]).__name__} layers of a side share their {kind.what}: "
                    f"describe it alike in each; received {', '.join(str(one) for one in descriptions)}."
                )
            self.shared[kind] = kind(place, **{"max_length": sizes["max_length"], **asked[0], **said[0]})

    def given(self, x: Tensor) -> list[dict[str, Tensor]]:
        """Return the additional arguments of each layer's call or `prepare`; only the length of `x` matters."""
        found: list[dict[str, Tensor]] = []
        current: dict[type[SharedByLayers] | None, dict[str, Tensor]] = {}
        for layer in self.layers:
            kind = _sharing(layer)
            if kind is not None:
                shared = self.shared[kind]
                current[kind] = shared.next(current[kind]) if kind in current else shared.first(x)
            found.append(current.get(kind, {}))
        return found

    def memories(self, max_length: int) -> list[TensorTree]:
        """Return what the steps of every self-attention layer need, computed once per search."""
        given = self.given(ops.zeros((1, max_length, 1)))
        return [layer.prepare(max_length=max_length, **one) for layer, one in zip(self.layers, given, strict=True)]


def _with_positions(description, place, positions):
    """Return a description with the positions of its side as an argument; raise unless it takes them."""
    if isinstance(description, str):
        description = {"attention": description}
    if isinstance(description, dict) and "attention" in description:
        name = description["attention"]
        entry = ATTENTIONS.get(name) if isinstance(name, str) else None
        if entry is None or not getattr(entry.layer, "plain_heads", "no heads"):
            return {"positions": positions, **description}
    elif getattr(description, "positions", None) == positions:
        return description
    else:
        name = type(description).__name__
    raise UserError(
        f"{place}_positions={positions!r} needs a self-attention that takes `positions`, which {name!r} does not: "
        f"choose another one, or {place}_positions='sine'."
    )


def _layer(description, place, dtype, sizes):
    """Return one layer, and what its description says about what the layers of a side share, or None."""
    named, of_side = {"name": _NAMES[place], "dtype": dtype}, None
    if isinstance(description, str):
        description = {"attention": description}
    if isinstance(description, dict) and "attention" in description:
        name = description["attention"]
        entry = ATTENTIONS.get(name) if isinstance(name, str) else None
        if entry is not None and entry.layer.shared_by_layers is not None:
            try:
                description, of_side = entry.layer.shared_by_layers.split(description)
            except ValueError as error:
                raise UserError(f"{place} attention: {error}") from error
        layer = get_attention(description, place=place, **sizes, **named)
    else:
        layer = get_attention(description, place=place, **sizes)
        layer = type(layer).from_config({**layer.get_config(), "name": named["name"]})
    shape = (None, None, sizes["width"])
    width = layer.compute_output_shape(shape, shape)[-1]
    if width != sizes["width"]:
        raise UserError(
            f"{place} attention: the context must be as wide as the model, {sizes['width']}; received "
            f"output_shape={width}."
        )
    return layer, of_side


def _sharing(layer):
    """Return the class of what a layer shares with the others of its side; None if it shares nothing."""
    kind = layer.shared_by_layers
    return None if kind is None or kind.asked_by(layer) is None else kind
