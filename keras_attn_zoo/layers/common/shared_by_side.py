"""What the attention layers of one side of a model may share: made once, handed on from layer to layer."""

from typing import Any

from keras_attn_zoo.types import Tensor


class SharedBySide:
    """What the layers of a side share, such as the matrices of `RecurrentAttention`; the hook of a mechanism.

    A mechanism names its subclass as `shared_by_side`. A stack of layers then asks for one per side, and gives every
    layer what comes out of it, in its call and where its steps begin::

        shared = layers[0].shared_by_side("encoder", max_length=100, **arguments)
        given = shared.first(x)
        x = layers[0](x, **given)           # or layers[0].prepare(max_length=100, **given)
        given = shared.next(given)
        x = layers[1](x, **given)

    Attributes:
        what: the name of what is shared, in the plural.
        arguments: what a description of a layer may say of it, rather than of the layer.
        of_each: arguments of a layer that shares, whatever its registry entry says.
    """

    what = ""
    arguments: tuple[str, ...] = ()
    of_each: dict[str, Any] = {}

    def __init__(self, place: str, max_length: int, **arguments: Any) -> None:
        """Make what is shared by the layers of a place: "encoder", "decoder" or "cross"."""

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
        """What the first layer is given, as arguments by name; of `x`, `(batch, length, ...)`, the length counts."""
        raise NotImplementedError

    def next(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        """What a layer is given after one that was given this."""
        return given
