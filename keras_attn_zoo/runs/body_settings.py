"""The bodies of a translator: their classes, settings, needs and limits."""

import ast
import dataclasses
import functools
import importlib
import importlib.resources
import math
from collections.abc import Callable
from typing import Any

from keras_attn_zoo.runs.setting_types import (
    Choice,
    Mechanism,
    Setting,
    Switch,
    Whole,
    rate,
)
from keras_attn_zoo.runs.settings import TrainingSettings
from keras_attn_zoo.support.choices import (
    ACTIVATIONS,
    ATTENTION_QUERIES,
    CELLS,
    INITIAL_STATES,
    MARGINALIZATIONS,
    MOST_TOKENS,
    NORMALIZATIONS,
    OUTPUTS,
    POSITIONS,
    READOUTS,
    TIED,
)

# Upper bounds that catch mistyped numbers.
_WIDEST, MOST_LAYERS, MOST_HEADS = 65_536, 100, 1024
# A translation may be this many times as long as the longest training sentence.
ROOM_FOR_TRANSLATIONS = 1.25
# The output settings that all bodies share.
OUTPUT = ("output", "marginalization", "top_k")
# Arguments of the constructors that depend on the machine or the vocabulary.
_NOT_SET = ("dtype", "suppressed_tokens")


@dataclasses.dataclass(frozen=True)
class Body:
    """A body of a translator.

    Attributes:
        name: its name in run folders.
        title: its name in tables.
        module, class_name: where its class is, in `keras_attn_zoo.bodies`.
        arguments: type, bounds and help of the constructor's arguments, by name, except the vocabulary sizes. Their
            order and defaults come from the constructor's signature.
        kept_numbers: function of the sizes and the longest sentence; returns a rough count of the numbers kept for
            the backward pass per position of a batch, output layer excluded.
        small, small_training: settings for the demonstration's size, and a training to match.
        grows: whether layers can be added to its encoder one by one during training.
    """

    name: str
    title: str
    module: str
    class_name: str
    arguments: dict[str, Setting]
    kept_numbers: Callable[[dict[str, Any], int], float]
    small: dict[str, Any]
    small_training: TrainingSettings
    grows: bool = False

    @functools.cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings by name, with the constructor's defaults, except `max_length`, which depends on the data."""
        defaults = _defaults(self._source)
        kept = {"max_length": None}
        return {
            name: dataclasses.replace(self.arguments[name], default=kept.get(name, default))
            for name, default in defaults.items()
            if name not in _NOT_SET
        }

    @property
    def takes_length(self) -> bool:
        """Whether the constructor takes the longest sentence, for weights that depend on it."""
        return "max_length" in self.settings

    @functools.cached_property
    def feeds_itself(self) -> bool:
        """Whether it can be trained on its own predictions, unless its output is latent; the class says so."""
        values = [
            node.value
            for node in self._source.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "feeds_itself"
        ]
        return bool(values) and ast.literal_eval(values[0])

    @functools.cached_property
    def _source(self):
        """The class as it is written: importing it would import Keras before the command line has chosen a backend."""
        source = importlib.resources.files("keras_attn_zoo") / "bodies" / f"{self.module}.py"
        tree = ast.parse(source.read_text(encoding="utf-8"))
        return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == self.class_name)

    @property
    def body_class(self) -> type:
        """The class; this imports Keras."""
        return getattr(importlib.import_module(f"keras_attn_zoo.bodies.{self.module}"), self.class_name)


def _defaults(source):
    """Return the defaults of the constructor's arguments, by name, from the source of a class."""
    signature = next(node.args for node in source.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    first = len(signature.args) - len(signature.defaults)
    pairs = [*zip(signature.args[first:], signature.defaults, strict=True)]
    pairs += zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
    return {argument.arg: ast.literal_eval(default) for argument, default in pairs if default is not None}


def longest_translation(max_tokens: int) -> int:
    """Return the maximum tokens of a translation, for training sentences of at most `max_tokens`."""
    return math.ceil(max_tokens * ROOM_FOR_TRANSLATIONS)


def _layers_of(side):
    return Whole(help=f"number of {side} layers", least=1, most=MOST_LAYERS)


def _width(help, most=_WIDEST, optional=False):
    return Whole(help=help, least=1, most=most, optional=optional)


def _mechanism(help):
    return Mechanism(help=f"{help} mechanism", layers=MOST_LAYERS)


def _positions(side):
    return Choice(help=f"positional encoding of the {side}", choices=POSITIONS)


_SHARED = {
    "encoder_layers": _layers_of("encoder"),
    "decoder_layers": _layers_of("decoder"),
    "tie_embeddings": Choice(
        help="share embeddings; target ties the target embedding to the output, all also shares the source embedding",
        choices=TIED,
    ),
    "output": Choice(help="output layer; latent is a mixture over source positions", choices=OUTPUTS),
    "marginalization": Choice(help="sum over source positions in training, if latent", choices=MARGINALIZATIONS),
    "top_k": Whole(help="source positions in the top_k sum", least=1, most=MOST_TOKENS),
}
_RNN = {
    **_SHARED,
    "embedding_dim": _width("embedding width"),
    "hidden_dim": _width("width of decoder states, and of encoder states per direction"),
    "cell": Choice(help="recurrent cell", choices=CELLS),
    "bidirectional": Switch(help="read the source in both directions"),
    "cross_attention": Mechanism(help="cross-attention mechanism"),
    "attention_query": Choice(help="decoder state used as the attention query", choices=ATTENTION_QUERIES),
    "input_feeding": Switch(help="feed the previous readout into the decoder cells"),
    "readout": Choice(
        help="layer before the output; state uses the decoder state alone",
        choices=READOUTS,
    ),
    "readout_dim": _width("readout width; None chooses one that suits readout and tie_embeddings", optional=True),
    "readout_embedding": Switch(help="include the previous token's embedding in the readout"),
    "initial_state": Choice(
        help="map from the encoder's final states to the decoder's initial states", choices=INITIAL_STATES
    ),
    "dropout": rate("dropout rate on embeddings, between layers and on the readout"),
}
_TRANSFORMER = {
    **_SHARED,
    "width": _width("model width"),
    "num_heads": _width("attention heads", MOST_HEADS),
    "ffn_dim": _width("hidden width of the feed-forward networks", 4 * _WIDEST),
    "encoder_attention": _mechanism("encoder self-attention"),
    "decoder_attention": _mechanism("decoder self-attention"),
    "cross_attention": _mechanism("cross-attention"),
    "normalization": Choice(
        help="layer normalisation after (post) or before (pre) each sublayer", choices=NORMALIZATIONS
    ),
    "activation": Choice(help="activation of the feed-forward networks", choices=ACTIVATIONS),
    "encoder_positions": _positions("encoder"),
    "decoder_positions": _positions("decoder"),
    "max_length": Whole(
        help="longest sentence, for weights that depend on it; None is 1.25 times max_tokens",
        optional=True,
        least=1,
        most=2 * MOST_TOKENS,
    ),
    "output_bias": Switch(help="add a bias to the logits even if the output matrix is tied"),
    "dropout": rate("dropout rate on embeddings and sublayer outputs"),
    "attention_dropout": rate("dropout rate on attention weights"),
    "activation_dropout": rate("dropout rate in the feed-forward networks"),
    "attention_layer": Whole(
        help="decoder layer whose attention is the alignment, counted from 0, or from the end with -1; "
        "all averages them",
        least=-MOST_LAYERS,
        most=MOST_LAYERS - 1,
        words=("all",),
    ),
}


def _kept_by_rnn(sizes, length):
    hidden, directions = sizes["hidden_dim"], 1 + sizes["bidirectional"]
    # Gates, states and outputs of a cell; the attention's keys, weights and context beside the decoder's.
    numbers = 12 * hidden * (sizes["encoder_layers"] * directions + sizes["decoder_layers"])
    return numbers + 6 * hidden * directions + 3 * length + 4 * sizes["embedding_dim"]


def _kept_by_transformer(sizes, length):
    # Inputs and outputs of projections, normalisations and sums; one attention per encoder layer, two per decoder
    # layer.
    of_network = 2 * sizes["ffn_dim"]
    of_attention = 3 * sizes["num_heads"] * length
    numbers = sizes["encoder_layers"] * (14 * sizes["width"] + of_network + of_attention)
    return numbers + sizes["decoder_layers"] * (22 * sizes["width"] + of_network + 2 * of_attention)


BODIES = {
    body.name: body
    for body in (
        Body(
            "rnn",
            "RNN",
            "rnn_backbone",
            "RNNBackbone",
            _RNN,
            _kept_by_rnn,
            small={"embedding_dim": 64, "hidden_dim": 128, "dropout": 0.1},
            small_training=TrainingSettings(
                epochs=4, validations_per_epoch=1, learning_rate=3e-3, schedule="plateau", plateau_factor=0.5
            ),
            grows=True,
        ),
        Body(
            "transformer",
            "Transformer",
            "transformer_backbone",
            "TransformerBackbone",
            _TRANSFORMER,
            _kept_by_transformer,
            small={
                "width": 64,
                "num_heads": 4,
                "ffn_dim": 256,
                "encoder_layers": 2,
                "decoder_layers": 2,
                "dropout": 0.1,
            },
            small_training=TrainingSettings(
                epochs=8, validations_per_epoch=1, learning_rate=3e-3, schedule="inverse_sqrt", warmup_steps=200
            ),
        ),
    )
}
