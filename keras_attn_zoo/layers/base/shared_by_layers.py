"""What the self-attention layers of one side of a model may share: created once, and passed from layer to layer."""

from typing import Any

from keras_attn_zoo.support.types import Tensor


class SharedByLayers:
    """What the self-attention layers of a side share, such as the matrices of `RecurrentAttention`.

    A mechanism names its subclass as `shared_by_layers`. A stack of layers then creates one per side, and passes
    its results to every layer, in its call and when its steps begin::

        shared = layers[0].shared_by_layers("encoder", max_length=100, **arguments)
        given = shared.first(x)
        x = layers[0](x, **given)           # or layers[0].prepare(max_length=100, **given)
        given = shared.next(given)
        x = layers[1](x, **given)

    Attributes:
        what: the name of what is shared, in the plural.
        arguments: its own arguments in the description of a layer.
        of_each: arguments of a layer that shares, which override those of its registry entry.
    """

    what = ""
    arguments: tuple[str, ...] = ()
    of_each: dict[str, Any] = {}

    def __init__(self, place: str, max_length: int, **arguments: Any) -> None:
        """Create what the layers of a place share: "encoder" or "decoder"."""

    @classmethod
    def asked_by(cls, layer: Any) -> dict[str, Any] | None:
        """Return what a layer needs, a dict of more arguments in which layers must agree; None if it shares nothing."""
        return {}

    @classmethod
    def split(cls, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split a description into the arguments of a layer and those of what is shared."""
        of_side = {key: value for key, value in arguments.items() if key in cls.arguments}
        return {**{key: value for key, value in arguments.items() if key not in of_side}, **cls.of_each}, of_side

    def first(self, x: Tensor) -> dict[str, Tensor]:
        """Return the first layer's arguments, by name; of `x`, `(batch, length, ...)`, only the length matters."""
        raise NotImplementedError

    def next(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the arguments of a layer, from those of the previous one."""
        return given
