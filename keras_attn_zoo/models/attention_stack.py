"""The attention layers of one place in a Transformer, and what they share."""

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.layers import (
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
        UserError: a list of another length; recurrent attention of one side with different matrices; a context of
            another width; what `get_attention` raises.
    """

    def __init__(self, attention, count, place, dtype, **sizes):
        descriptions = list(attention) if isinstance(attention, (list, tuple)) else [attention] * count
        if len(descriptions) != count:
            raise UserError(
                f"{place} attention: {len(descriptions)} mechanisms for {count} layers: give one, or one a layer."
            )
        made = [_layer(description, place, dtype, sizes) for description in descriptions]
        self.layers = [layer for layer, _ in made]
        self.initial = self.transition = None
        takers = [layer for layer in self.layers if _takes_energies(layer)]
        if takers:
            said = [of_matrices for _, of_matrices in made if of_matrices is not None] or [{}]
            if any(one != said[0] for one in said) or len({layer.num_heads for layer in takers}) > 1:
                raise UserError(
                    f"{place} attention: the recurrent layers of a side share their matrices: say the same of each; "
                    f"received {', '.join(str(one) for one in descriptions)}."
                )
            self._share(place, {"max_length": sizes["max_length"], **said[0]}, takers[0].num_heads)

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


def _layer(description, place, dtype, sizes):
    """Make one layer; and what its description says of the matrices that recurrent layers share, else None."""
    named, of_matrices = {"name": _NAMES[place], "dtype": dtype}, None
    if isinstance(description, str):
        description = {"attention": description}
    if isinstance(description, dict) and "attention" in description:
        if description["attention"] == "recurrent":
            if "causal" in description:
                raise UserError(f"{place} attention: the place says whether it is causal: leave causal out.")
            of_matrices = {k: v for k, v in description.items() if k in (*_OF_INITIAL, *_OF_TRANSITION)}
            own = {k: v for k, v in description.items() if k not in of_matrices}
            description = {**own, "max_length": None, "causal": False}
        layer = get_attention(description, place=place, **sizes, **named)
    else:
        layer = get_attention(description, place=place, **sizes)
        layer = type(layer).from_config({**layer.get_config(), "name": named["name"]})
    if getattr(layer, "output_width", None) not in (None, sizes["width"]):
        raise UserError(
            f"{place} attention: the context has to be {sizes['width']} wide, like the model; received "
            f"output_shape={layer.output_width}."
        )
    return layer, of_matrices


def _takes_energies(layer):
    return isinstance(layer, RecurrentAttention) and layer.max_length is None
