"""The attention layers of one place in a Transformer, and what they share."""

import keras

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.layers import (
    AttentionLayer,
    InitialAttention,
    RecurrentAttention,
    RecurrentTransition,
    get_attention,
)

# What belongs to the matrices that recurrent attention shares, and not to each of its layers.
_OF_INITIAL = ("max_length", "initializer", "trainable")
_OF_TRANSITION = ("normalize", "residual")
# Names of the attention inside its Transformer layer.
_NAMES = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}


class AttentionStack:
    """The attention layers of one place, from one description or one a layer.

    Recurrent attention (RAN) shares its initial matrices and its transition
    among the layers of a side: they are made here, and `energies` passes the
    matrices from layer to layer. Its description may say "trainable" (False
    freezes the initial matrices), "normalize" and "residual".

    Args:
        attention: what `get_attention` takes, or a list of that, one a layer. Of a layer each place gets a
            copy with weights of its own.
        count: number of layers.
        place: "encoder", "decoder" or "cross".
        dtype: policy of the layers.
        **sizes: of layers that are made from a name: `width`, `num_heads`, `max_length`, `dropout`.

    Raises:
        UserError: a list of another length; what `get_attention` raises.
    """

    def __init__(self, attention, count, place, dtype, **sizes):
        descriptions = list(attention) if isinstance(attention, (list, tuple)) else [attention] * count
        if len(descriptions) != count:
            raise UserError(
                f"{place} attention: {len(descriptions)} mechanisms for {count} layers: give one, or one a layer."
            )
        self.initial = self.transition = None
        self.layers = []
        for description in descriptions:
            if isinstance(description, dict) and "attention" not in description:
                description = keras.layers.deserialize(description)
            named = {"name": _NAMES[place], "dtype": dtype}
            shared = {}
            if isinstance(description, AttentionLayer):
                config = {**description.get_config(), "name": named["name"]}
                layer = type(description).from_config(config)
            else:
                description = description if isinstance(description, dict) else {"attention": description}
                if description["attention"] == "recurrent":
                    shared = {k: description[k] for k in (*_OF_INITIAL, *_OF_TRANSITION) if k in description}
                    own = {k: v for k, v in description.items() if k not in shared}
                    description = {**own, "max_length": None, "causal": False}
                layer = get_attention(description, place=place, **sizes, **named)
            if _takes_energies(layer) and self.initial is None:
                self._share(place, {"max_length": sizes["max_length"], **shared}, layer.num_heads)
            self.layers.append(layer)

    def _share(self, place, arguments, num_heads):
        """Make the matrices and the transition of all recurrent layers."""
        self.initial = InitialAttention(
            num_heads,
            causal=place == "decoder",
            name=f"{place}_initial_attention",
            **{k: arguments[k] for k in _OF_INITIAL if k in arguments},
        )
        self.transition = RecurrentTransition(
            name=f"{place}_transition", **{k: arguments[k] for k in _OF_TRANSITION if k in arguments}
        )

    def energies(self, initial):
        """Energies of every layer, None where it makes its own; `initial` is a function of the initial matrices."""
        found, current = [], None
        for layer in self.layers:
            if _takes_energies(layer):
                current = self.transition(initial(self.initial) if current is None else current)
            found.append(current if _takes_energies(layer) else None)
        return found

    def memories(self, max_length):
        """What the steps of every layer of self-attention need, computed once a search."""
        energies = self.energies(lambda initial: initial.rows(max_length))
        return [
            layer.prepare(max_length=max_length, **({} if matrices is None else {"energies": matrices}))
            for layer, matrices in zip(self.layers, energies, strict=True)
        ]


def _takes_energies(layer):
    return isinstance(layer, RecurrentAttention) and layer.max_length is None
