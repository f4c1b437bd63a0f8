"""Scales of a comparison: the same systems in minutes, in hours, or as published."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.setting_types import layer_and_head


@dataclasses.dataclass(frozen=True)
class Scale:
    """A size of systems and of their training.

    Attributes:
        name: its name on the command line.
        about: what it changes, in one line.
        settings: settings of every system that has them; a system that groups tokens into batches keeps doing so.
        layers: the most layers that an encoder and a decoder have. Decoders that are read from different layers have
            as many as the highest of these.
        corpus: sizes of the built-in corpus, for `embedded_corpus`; None if the text is given.
        room: the tokens that a test sentence may have, if training sentences have fewer; None for as many as these.
    """

    name: str
    about: str
    settings: dict[str, Any]
    layers: int | None = None
    corpus: dict[str, int] | None = None
    room: int | None = None


def _widths(width, heads, ffn_dim):
    """The widths of either body."""
    rnn = {"embedding_dim": width, "hidden_dim": width, "readout_dim": None}
    return {**rnn, "width": width, "num_heads": heads, "ffn_dim": ffn_dim}


SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "smoke",
            "tiny systems and 6 steps on a built-in corpus, to see that everything runs: scores and times mean nothing",
            {
                **_widths(16, heads=2, ffn_dim=32),
                **{"vocabulary_size": 120, "min_words": 1, "max_words": None, "max_tokens": 24, "bucket_count": 1},
                **{"sentences_per_batch": 16, "tokens_per_batch": None, "beams": 2, "batch_size": 32},
                **{"budget": "6steps", "validations_per_epoch": 2, "warmup_steps": 5, "learning_rate": 3e-3},
            },
            layers=2,
            corpus={"train": 96, "valid": 16, "test": 16, "max_words": 5, "words_per_kind": 3},
        ),
        Scale(
            "small",
            "at most three layers of width 256, more where attention is read from one in the middle, 8,000 subwords, "
            "at most 10,000 steps: for 30,000 to 300,000 sentence pairs",
            {
                **_widths(256, heads=4, ffn_dim=1024),
                **{"vocabulary_size": 8000, "max_tokens": 80},
                **{"budget": "10000steps", "validations_per_epoch": 1, "patience": 8},
                **{"warmup_steps": 1000, "decay_start": 4000, "decay_every": 1000},
            },
            layers=3,
        ),
        # Published test texts have some sentences that are longer than those that papers train on.
        Scale("paper", "sizes, preparation of the text and length of training as published", {}, room=250),
    )
}


def attended_layers(system: System) -> int:
    """Return how many layers a decoder needs, as attention is read from one in the middle; 0 if it is not.

    Example:
        >>> attended_layers(System("a", {"attention_layer": 2}, body="transformer"))
        3
    """
    layer, _ = layer_and_head(system.sizes.get("attention_layer", -1))
    return 0 if layer is None else layer + 1


# Hyperparameters that a paper tries several values of: made equal, they would be one experiment.
_OF_EXPERIMENTS: dict[str, Callable[[System], float | None]] = {
    "learning_rate": lambda system: system.training.learning_rate,
    "sentences_per_batch": lambda system: system.data.sentences_per_batch,
}


def _share(own, system, others):
    """What a hyperparameter of a system is, as a share of the highest of all systems."""
    highest = max((value for one in (system, *others) if (value := own(one))), default=None)
    return (own(system) or highest) / highest if highest else 1


# Sizes that a paper varies from one system to another.
_VARIED = ("embedding_dim", "hidden_dim")


def _widths_at(scale, sizes, baseline):
    """The widths of a system at a scale, and its heads: never more than its own."""
    found = {}
    for name in ("width", "ffn_dim", *_VARIED):
        if name in sizes:
            ratio = sizes[name] / baseline.get(name, sizes[name]) if name in _VARIED else 1
            found[name] = min(sizes[name], round(scale.settings[name] * ratio))
    # Heads divide the width that they were made for.
    heads = {"num_heads": sizes["num_heads"]} if "width" in sizes and found["width"] == sizes["width"] else {}
    return {**found, **heads}


def scaled(
    system: System,
    scale: Scale,
    published: Mapping[str, Any] | None = None,
    others: Iterable[System] = (),
    baseline: System | None = None,
) -> System:
    """Return a system at a scale.

    Args:
        system: the system.
        scale: the scale.
        published: settings of the paper's own training, for the scale "paper".
        others: systems that it is compared with: those whose attention is read from different layers are equally deep;
            of a scale's learning rate and batch size, each gets its share of the highest among them.
        baseline: the system that it is held against, of which its embeddings and states stay a multiple or a part.

    Example:
        >>> scaled(System("a", {"hidden_dim": 1024, "encoder_layers": 6}), SCALES["small"]).sizes["encoder_layers"]
        3
    """
    if scale.name == "paper":
        return system.override(**system.applicable_settings(dict(published or {})))
    sizes, layers = system.sizes, {}
    # Text that is cut is long on purpose; only the built-in corpus is shorter still.
    longer = {"max_tokens"} if system.data.truncate_source is not None and scale.corpus is None else set()
    settings = {name: value for name, value in scale.settings.items() if name not in longer}
    shares = {name: _share(own, system, others) for name, own in _OF_EXPERIMENTS.items()}
    settings |= {
        name: type(settings[name])(settings[name] * share) for name, share in shares.items() if name in settings
    }
    settings |= _widths_at(scale, sizes, {} if baseline is None else baseline.sizes)
    if system.training.teacher_forcing_end is not None:
        # A ratio that falls does so during all of the training.
        settings["teacher_forcing_steps"] = int(settings["budget"].removesuffix("steps"))
    if scale.layers is not None:
        needed = max(map(attended_layers, (system, *others))) if attended_layers(system) else 0
        layers = {
            "encoder_layers": min(sizes["encoder_layers"], scale.layers),
            "decoder_layers": min(sizes["decoder_layers"], max(scale.layers, needed)),
        }
    return system.override(**system.applicable_settings({**settings, **layers}))
