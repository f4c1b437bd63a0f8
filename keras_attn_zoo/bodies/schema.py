"""The arguments of the bodies, each declared once: name, type, default, bounds and help.

The constructors and their checks, `get_config`, `--set`, `--help`, the page of settings, the checks of presets and the
estimate of memory follow from these dataclasses. A new argument is one line here, and its use in the body. Nothing here
imports Keras, so that the command line can read it before it has chosen a backend.
"""

import dataclasses
import functools
import importlib
import inspect
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from keras_attn_zoo.support.choices import (
    ACTIVATIONS,
    ATTENTION_QUERIES,
    CELLS,
    GATES,
    INITIAL_STATES,
    MARGINALIZATIONS,
    MOST_TOKENS,
    NORMALIZATIONS,
    NORMS,
    OUTPUTS,
    POSITIONS,
    READOUTS,
    TIED,
    TOP_K_GRADIENTS,
)
from keras_attn_zoo.support.errors import UserError, check_arguments, check_counts, check_rates
from keras_attn_zoo.support.setting_types import (
    Choice,
    LayerOrHead,
    Layers,
    Length,
    Mechanism,
    Rate,
    Setting,
    Switch,
    Whole,
    Width,
    field,
    layer_and_head,
    settings_of,
)
from keras_attn_zoo.support.types import Config, DType

if TYPE_CHECKING:
    from keras_attn_zoo.layers import AttentionLayer

# An attention of a body: a name, a dict with the name as "attention" and arguments, a configuration, or a layer.
AttentionChoice: TypeAlias = "str | Config | AttentionLayer"
# One of these, or a list with one per layer.
AttentionChoices: TypeAlias = "AttentionChoice | Sequence[AttentionChoice]"

# Upper bounds that catch mistyped numbers.
MOST_LAYERS, MOST_HEADS = Layers.most, 1024
_WIDEST_NETWORK = 4 * Width.most
# A translation may be this many times as long as the longest training sentence.
ROOM_FOR_TRANSLATIONS = 1.25
# Arguments that every model of Keras has.
_OF_KERAS = ("dtype", "name", "trainable")
_TIED = "share embeddings; target ties the target embedding to the output, all also shares the source embedding"

P = ParamSpec("P")
A = TypeVar("A", bound="BodyArguments")


def longest_translation(max_tokens: int) -> int:
    """Return the maximum tokens of a translation, for training sentences of at most `max_tokens`."""
    return math.ceil(max_tokens * ROOM_FOR_TRANSLATIONS)


@dataclasses.dataclass(frozen=True, eq=False)
class BodyArguments:
    """The arguments that all bodies have.

    A field with a `Setting` is also a setting of a system. The constructor of a body takes what this dataclass takes,
    see `takes`; those of `kw_only` come last in its signature.

    Raises:
        UserError: a value that is none of its field's, or does not fit another.
    """

    source_vocabulary_size: int
    target_vocabulary_size: int
    _: dataclasses.KW_ONLY
    output: str = field(Choice, "softmax", "output layer; latent is a mixture over source positions", choices=OUTPUTS)
    marginalization: str = field(
        Choice, "exact", "sum over source positions in training, if latent", choices=MARGINALIZATIONS
    )
    top_k: int = field(Whole, 6, "source positions in the top_k sum", least=1, most=MOST_TOKENS)
    top_k_gradient: str = field(
        Choice,
        "selected",
        "gradient of positions outside the top_k sum: none, or with straight_through that of the full sum",
        choices=TOP_K_GRADIENTS,
    )
    max_jump: int | None = field(
        Whole,
        None,
        "longest jump with a weight of its own, which makes a latent alignment a hidden Markov model; None "
        "for positions that are independent of each other",
        least=1,
        most=MOST_TOKENS,
    )
    dtype: DType = None
    name: str | None = None
    trainable: bool | None = None

    def __post_init__(self) -> None:
        """Check every argument; those that depend on each other are checked by the subclasses."""
        check_counts(
            source_vocabulary_size=self.source_vocabulary_size, target_vocabulary_size=self.target_vocabulary_size
        )
        for name, setting in self.settings().items():
            _check(name, setting, getattr(self, name))
        if self.max_jump is not None:
            self._need_posterior("max_jump", self.max_jump)
        source, target = self.source_vocabulary_size, self.target_vocabulary_size
        if self.tie_embeddings == "all" and source != target:
            raise UserError(
                f"tie_embeddings='all' needs one joint vocabulary; received {source} source and {target} target tokens."
            )

    def _need_posterior(self, name, value):
        """Raise unless there is an exact posterior, on which an argument builds."""
        if (self.output, self.marginalization) != ("latent", "exact"):
            raise UserError(
                f"{name} needs output='latent' and marginalization='exact'; received {name}={value!r} with "
                f"output={self.output!r} and marginalization={self.marginalization!r}."
            )

    @property
    def tie_embeddings(self) -> str:
        """Which embeddings are shared: a field of every body."""
        raise NotImplementedError

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of a body's own arguments, in the order of its constructor."""
        return [name for name in inspect.signature(cls).parameters if name not in _OF_KERAS]

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Return the settings among the arguments, by name, in the same order."""
        found = settings_of(cls)
        return {name: found[name] for name in cls.names() if name in found}

    def kept_numbers(self, length: int) -> float:
        """Estimate how many numbers the backward pass needs of each position of a batch.

        Args:
            length: tokens of the longest sentence.
        """
        size = self.target_vocabulary_size
        # A latent alignment keeps the logits of both sides, and what it looked up for each pair of positions.
        of_output = 9 * size + 3 * length if self.output == "latent" else 3 * size
        if self.max_jump is not None:
            # The normalisers once more, and what the loop over positions keeps of each.
            of_output += 3 * size + 9 * length
        return self._kept_by_layers(length) + of_output

    def _kept_by_layers(self, length):
        raise NotImplementedError


def _check(name, setting, value):
    """Raise unless an argument has a value that it may have. In Python, sizes have no upper bound."""
    # The layers check mechanisms; which layers can be numbered or named depends on other arguments.
    if isinstance(setting, Mechanism) or (isinstance(setting, Whole) and setting.words):
        return
    if value is None and setting.optional:
        return
    if isinstance(setting, Whole) and setting.least == 1:
        check_counts(**{name: value})
    elif isinstance(setting, Rate):
        check_rates(**{name: value})
    else:
        setting.check(value, name)


@dataclasses.dataclass(frozen=True, eq=False)
class RNNArguments(BodyArguments):
    """The arguments of `RNNBackbone`, which explains them.

    Example:
        >>> RNNArguments(8000, 8000, embedding_dim=64, tie_embeddings="target").readout_dim
        64
    """

    embedding_dim: int = field(Width, 256, "embedding width")
    hidden_dim: int = field(Width, 512, "width of decoder states, and of encoder states per direction")
    cell: str = field(Choice, "gru", "recurrent cell", choices=CELLS)
    encoder_layers: int = field(Layers, 1, "number of encoder layers")
    decoder_layers: int = field(Layers, 1, "number of decoder layers")
    bidirectional: bool = field(Switch, True, "read the source in both directions")
    cross_attention: AttentionChoice = field(Mechanism, "bahdanau", "cross-attention mechanism")
    attention_query: str = field(
        Choice, "previous_state", "decoder state used as the attention query", choices=ATTENTION_QUERIES
    )
    input_feeding: bool = field(Switch, False, "feed the previous readout into the decoder cells")
    posterior_feeding: bool = field(
        Switch,
        False,
        "feed the source of the previous token, by a latent alignment's posterior, into the decoder cells",
    )
    readout: str = field(
        Choice, "linear", "layer before the output; state uses the decoder state alone", choices=READOUTS
    )
    readout_dim: int | None = field(
        Width, None, "readout width; None chooses one that suits readout and tie_embeddings"
    )
    readout_embedding: bool = field(Switch, True, "include the previous token's embedding in the readout")
    initial_state: str = field(
        Choice, "linear", "map from the encoder's final states to the decoder's initial states", choices=INITIAL_STATES
    )
    tie_embeddings: str = field(Choice, "none", _TIED, choices=TIED)
    dropout: float = field(Rate, help="dropout rate on embeddings, between layers and on the readout")

    def __post_init__(self) -> None:
        """Check the arguments, and choose the width of the readout if none is given."""
        super().__post_init__()
        if self.posterior_feeding:
            self._need_posterior("posterior_feeding", True)
            others = (self.attention_query, self.input_feeding, self.max_jump)
            if others != ("current_state", False, None):
                raise UserError(
                    "posterior_feeding needs attention_query='current_state', and neither input_feeding nor max_jump; "
                    "received attention_query={!r}, input_feeding={}, max_jump={}.".format(*others)
                )
        tied, width = self.tie_embeddings != "none", self.embedding_dim
        if tied and self.readout_dim not in (None, width):
            raise UserError(f"tied embeddings need readout_dim = embedding_dim = {width}; received {self.readout_dim}.")
        if tied and (self.output, self.readout) == ("softmax", "state") and self.hidden_dim != width:
            raise UserError(
                f"tied embeddings and readout='state' need hidden_dim = embedding_dim = {width}; "
                f"received {self.hidden_dim}."
            )
        if self.readout_dim is None and self.readout != "state" and (tied or self.readout != "linear"):
            object.__setattr__(self, "readout_dim", width if tied else self.hidden_dim)

    def _kept_by_layers(self, length):
        hidden, directions = self.hidden_dim, 1 + self.bidirectional
        # Gates, states and outputs of a cell; the attention's keys, weights and context beside the decoder's.
        numbers = 12 * hidden * (self.encoder_layers * directions + self.decoder_layers)
        if self.posterior_feeding:
            numbers += 3 * self.target_vocabulary_size + 9 * length
        return numbers + 6 * hidden * directions + 3 * length + 4 * self.embedding_dim


@dataclasses.dataclass(frozen=True, eq=False)
class TransformerArguments(BodyArguments):
    """The arguments of `TransformerBackbone`, which explains them.

    Example:
        >>> TransformerArguments(8000, 8000, num_heads=4).max_length
        256
    """

    width: int = field(Width, 512, "model width")
    num_heads: int = field(Width, 8, "attention heads", most=MOST_HEADS)
    ffn_dim: int = field(Width, 2048, "hidden width of the feed-forward networks", most=_WIDEST_NETWORK)
    encoder_layers: int = field(Layers, 6, "number of encoder layers")
    decoder_layers: int = field(Layers, 6, "number of decoder layers")
    encoder_attention: AttentionChoices = field(
        Mechanism, "multi_head", "encoder self-attention mechanism", layers=MOST_LAYERS
    )
    decoder_attention: AttentionChoices = field(
        Mechanism, "multi_head", "decoder self-attention mechanism", layers=MOST_LAYERS
    )
    cross_attention: AttentionChoices = field(Mechanism, "multi_head", "cross-attention mechanism", layers=MOST_LAYERS)
    normalization: str = field(
        Choice, "post", "normalisation after (post) or before (pre) each sublayer", choices=NORMALIZATIONS
    )
    activation: str = field(
        Choice,
        "relu",
        "activation of the feed-forward networks; swiglu and geglu add a gate, a third matrix",
        choices=ACTIVATIONS,
    )
    encoder_positions: str = field(
        Choice,
        "sine",
        "positional encoding of the encoder; rotary, alibi, shaw and t5 are those of its self-attention",
        choices=POSITIONS,
    )
    decoder_positions: str = field(
        Choice, "sine", "positional encoding of the decoder, as encoder_positions", choices=POSITIONS
    )
    max_length: int = field(
        Length, 256, "longest sentence, for weights that depend on it; None is 1.25 times max_tokens"
    )
    tie_embeddings: str = field(Choice, "none", _TIED, choices=TIED)
    output_bias: bool = field(Switch, False, "add a bias to the logits even if the output matrix is tied")
    suppressed_tokens: Sequence[int] = ()
    dropout: float = field(Rate, 0.1, "dropout rate on embeddings and sublayer outputs")
    attention_dropout: float = field(Rate, help="dropout rate on attention weights")
    activation_dropout: float = field(Rate, help="dropout rate in the feed-forward networks")
    attention_layer: int | str = field(
        LayerOrHead,
        -1,
        "decoder layer whose attention is the alignment, counted from 0, or from the end with -1; all "
        "averages them; LAYER:HEAD is one head of a layer, counted from 0",
        least=-MOST_LAYERS,
        most=MOST_LAYERS - 1,
    )
    norm: str = field(Choice, "layer", "layer normalisation, or that by the root mean square (rms)", choices=NORMS)

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        value = self.settings()["attention_layer"].check(self.attention_layer, "attention_layer")
        (layer, _), count = layer_and_head(value), self.decoder_layers
        if layer is not None and layer not in range(-count, count):
            raise UserError(f"attention_layer must name one of the {count} layers, or 'all'; received {value!r}.")
        object.__setattr__(self, "attention_layer", value)
        size = self.target_vocabulary_size
        for token in self.suppressed_tokens:
            if type(token) is not int or not 0 <= token < size:
                raise UserError(f"suppressed_tokens must be ids below {size}; received {token!r}.")
        object.__setattr__(self, "suppressed_tokens", tuple(self.suppressed_tokens))

    def _kept_by_layers(self, length):
        # Inputs and outputs of projections, normalisations and sums; one attention per encoder layer, two per decoder
        # layer.
        of_network = (4 if self.activation in GATES else 2) * self.ffn_dim
        of_attention = 3 * self.num_heads * length
        numbers = self.encoder_layers * (14 * self.width + of_network + of_attention)
        return numbers + self.decoder_layers * (22 * self.width + of_network + 2 * of_attention)


def takes(arguments: Callable[P, A]) -> Callable[[Callable[[Any, A], None]], Callable[Concatenate[Any, P], None]]:
    """Return a decorator for the constructor of a body: it takes what a dataclass takes, and is called with that.

    `inspect.signature`, `help`, Sphinx and type checkers see the arguments of the dataclass.

    Args:
        arguments: a `BodyArguments`.

    Example:
        >>> class Body:
        ...     @takes(RNNArguments)
        ...     def __init__(self, given):
        ...         self.sizes = given.embedding_dim, given.hidden_dim
        >>> Body(100, 100, hidden_dim=16).sizes
        (256, 16)
    """
    signature = inspect.signature(arguments)

    def decorate(build):
        @functools.wraps(build)
        def construct(self, *args, **kwargs):
            check_arguments(self, kwargs.keys() - signature.parameters.keys())
            build(self, arguments(*args, **kwargs))

        instance, *_ = inspect.signature(build).parameters.values()
        vars(construct)["__signature__"] = signature.replace(parameters=[instance, *signature.parameters.values()])
        return construct

    return decorate


def with_arguments(text: str | None, arguments: type[BodyArguments]) -> str | None:
    """Return the docstring of a body, with the help of settings for arguments that its `Args` do not explain.

    Example:
        >>> print(with_arguments("Args:\\n    cell: or gate.\\n\\nRaises:", RNNArguments))  # doctest: +ELLIPSIS
        Args:
            cell: or gate.
            embedding_dim: embedding width.
            ...
    """
    found = text and re.search(r"^( *)Args:\n(?:\1 +.*\n)+", text, re.MULTILINE)
    if not text or not found:
        return text
    explained = {name for names in re.findall(r"^ *([\w, ]+): ", found[0], re.MULTILINE) for name in names.split(", ")}
    more = {name: one for name, one in arguments.settings().items() if name not in explained}
    lines = (f"{found[1]}    {name}: {one.help}.\n" for name, one in more.items())
    return text[: found.end()] + "".join(lines) + text[found.end() :]


@dataclasses.dataclass(frozen=True)
class Body:
    """A body of a translator.

    Attributes:
        name: its name in run folders.
        title: its name in tables.
        class_name: that of its class, in `keras_attn_zoo.bodies`.
        arguments: the dataclass of its arguments.
        small: arguments for the demonstration's size.
        grows: whether layers can be added to its encoder one by one during training.
        feeds_itself: whether it can be trained on its own predictions, unless its output is latent.
    """

    name: str
    title: str
    class_name: str
    arguments: type[BodyArguments]
    small: dict[str, Any]
    grows: bool = False
    feeds_itself: bool = False

    @functools.cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings by name, in the order of the arguments; a length is left to the data."""
        settings = self.arguments.settings()
        open_lengths = {
            name: dataclasses.replace(one, default=None, optional=True)
            for name, one in settings.items()
            if isinstance(one, Length)
        }
        return {**settings, **open_lengths}

    @property
    def takes_length(self) -> bool:
        """Whether the constructor takes the longest sentence, for weights that depend on it."""
        return any(isinstance(one, Length) for one in self.settings.values())

    @property
    def body_class(self) -> type:
        """The class; this imports Keras."""
        return getattr(importlib.import_module("keras_attn_zoo.bodies"), self.class_name)


# What all bodies have.
OUTPUT_SETTINGS = BodyArguments.settings()
BODIES = {
    body.name: body
    for body in (
        Body(
            "rnn",
            "RNN",
            "RNNBackbone",
            RNNArguments,
            small={"embedding_dim": 64, "hidden_dim": 128, "dropout": 0.1},
            grows=True,
            feeds_itself=True,
        ),
        Body(
            "transformer",
            "Transformer",
            "TransformerBackbone",
            TransformerArguments,
            small={
                "width": 64,
                "num_heads": 4,
                "ffn_dim": 256,
                "encoder_layers": 2,
                "decoder_layers": 2,
                "dropout": 0.1,
            },
        ),
    )
}
