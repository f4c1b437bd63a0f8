"""A system: the settings of a translator, its training and its search; and the table of all settings."""

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.bodies.schema import BODIES, OUTPUT_SETTINGS
from keras_attn_zoo.runs.mechanism_arguments import (
    arguments_of,
    check_argument,
    parse_argument,
    split_name,
    with_argument,
)
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings, TrainingSettings, settings_of
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.files import PathLike, check_file, reason_of, shown
from keras_attn_zoo.support.setting_types import Choice, Mechanism, Setting, Text, Whole, shown_value

_SYSTEM = {
    "seed": Whole(default=1, help="random seed of weights, data order, dropout and sampling", least=0, most=2**32 - 1),
    "precision": Choice(
        default="float32",
        help="what layers compute in; weights, softmax, loss and optimiser are in float32 anyway; auto is bfloat16 "
        "where that is faster",
        choices=("float32", "bfloat16", "auto"),
    ),
    "name": Text(help="name of the system in logs and scores", longest=100),
}
_PARTS = {"data": DataSettings, "training": TrainingSettings, "search": SearchSettings}
# All settings by part: `--set`, the checks, `--help` and the docs are derived from this table.
SETTINGS: dict[str, dict[str, Setting]] = {
    "Data": settings_of(DataSettings),
    "Training": settings_of(TrainingSettings),
    "Search": settings_of(SearchSettings),
    **{
        body.title: {name: one for name, one in body.settings.items() if name not in OUTPUT_SETTINGS}
        for body in BODIES.values()
    },
    "Output": OUTPUT_SETTINGS,
    "System": _SYSTEM,
}


def parse_settings(items: Iterable[str]) -> dict[str, Any]:
    """Parse settings of the form NAME=VALUE.

    Args:
        items: strings; the last one of each name counts.

    Returns:
        a dict of values by name, each converted to the type of its setting.

    Raises:
        UserError: a missing equals sign, an unknown name, a value of the wrong type or out of bounds.

    Example:
        >>> parse_settings(["epochs=3", "bidirectional=no", "clip_norm=none"])
        {'epochs': 3.0, 'bidirectional': False, 'clip_norm': None}
    """
    found = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals:
            raise UserError(f"--set takes NAME=VALUE; received {shown_value(item)}.")
        found[name] = _read(name, text)
    return found


def check_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings from plain data, by name, each converted to the type of its setting; text is parsed.

    Raises:
        UserError: an unknown name, a value of the wrong type or out of bounds.

    Example:
        >>> check_settings({"epochs": 3, "clip_norm": "none"})
        {'epochs': 3.0, 'clip_norm': None}
    """
    return {name: _read(name, value) for name, value in values.items()}


def read_settings(path: PathLike) -> dict[str, Any]:
    """Read settings from a TOML file, by name; None is the word `"none"`, for TOML has no such value.

    Args:
        path: a file with lines such as `epochs = 3`. A table that is no description of a mechanism has arguments of
            one: `cross_attention.window = 3`.

    Raises:
        UserError: the file cannot be read or is not TOML; a table that names no mechanism; an unknown name, a value of
            the wrong type or out of bounds.

    Example:
        >>> read_settings("settings.toml")  # doctest: +SKIP
        {'epochs': 3.0, 'hidden_dim': 256}
    """
    check_file(path)
    try:
        found = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UserError(f"cannot read {shown(path)}: {reason_of(error)}. Check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{shown(path)} is not TOML ({error}): write lines such as epochs = 3.") from None
    flat = {}
    for name, value in found.items():
        if isinstance(value, dict) and "attention" not in value:
            every = (one for part in SETTINGS.values() for one in part.items())
            mechanisms = sorted({one for one, setting in every if isinstance(setting, Mechanism)})
            if name not in mechanisms:
                raise UserError(
                    f"{shown(path)}: {shown_value(name)} is a table, but no mechanism: {choice(name, mechanisms)} "
                    "Write settings above all tables, such as epochs = 3."
                )
            flat.update({f"{name}.{argument}": one for argument, one in value.items()})
        else:
            flat[name] = value
    try:
        return check_settings(flat)
    except UserError as error:
        raise UserError(f"{shown(path)}: {error}") from None


def _read(name, value):
    """The value of a setting, or of an argument of a mechanism, in its type."""
    if _takes_arguments(name):
        return parse_argument(value, name) if isinstance(value, str) else check_argument(value, name)
    refusal = _unknown(name, {name for part in SETTINGS.values() for name in part})
    # Both bodies may have a setting of this name: a value that either takes passes, and each system checks again.
    for setting in {id(part[name]): part[name] for part in SETTINGS.values() if name in part}.values():
        try:
            return (setting.parse if isinstance(value, str) else setting.check)(value, f"the setting {name}")
        except UserError as error:
            refusal = error
    raise refusal


def _takes_arguments(name):
    """Whether a name with a dot stands for an argument of a mechanism."""
    parts = split_name(name)
    every = [part[parts[0]] for part in SETTINGS.values() if parts[0] in part] if parts else []
    return any(isinstance(setting, Mechanism) for setting in every)


def _unknown(name, names):
    return UserError(f"there is no setting {shown_value(name)}: {choice(name, sorted(names))}")


def _of_other_body(name, body):
    """What to say of a setting that only another body has; None if none has it."""
    titles = [other.title for other in BODIES.values() if name in other.settings]
    if not titles:
        return None
    others = " and the ".join(titles)
    return UserError(
        f"{shown_value(name)} is a setting of the {others}, not of the {BODIES[body].title}: leave it out."
    )


def _among(names):
    return " or ".join(f"body={name!r}" for name in names)


@dataclasses.dataclass(frozen=True)
class System:
    """A named system: a model with its data, training and search settings.

    Attributes:
        name: the name by which recipes and the command line know it.
        backbone: arguments of the body's class, without the vocabulary sizes.
        body: name of a `Body` of `BODIES`: "rnn" or "transformer".
        data, training, search: the settings.
        seed: random seed of weights, data order, dropout and sampling.
        precision: "float32", "bfloat16" or "auto", which is decided when training begins.
        source: paper and section.

    Raises:
        UserError: a setting that the body does not have, of the wrong type or out of bounds; settings that do not fit
            together.
    """

    name: str
    backbone: dict[str, Any]
    data: DataSettings = dataclasses.field(default_factory=DataSettings)
    training: TrainingSettings = dataclasses.field(default_factory=TrainingSettings)
    search: SearchSettings = dataclasses.field(default_factory=SearchSettings)
    seed: int = 1
    precision: str = "float32"
    source: str = ""
    body: str = "rnn"

    def __post_init__(self) -> None:
        """Check every setting, and that they fit together."""
        if not isinstance(self.body, str) or self.body not in BODIES:
            raise UserError(f"the setting body must be one of {', '.join(BODIES)}; received {shown_value(self.body)}.")
        for name, setting in _SYSTEM.items():
            object.__setattr__(self, name, setting.check(getattr(self, name), f"the setting {name}"))
        for name, kind in {**_PARTS, "backbone": dict, "source": str}.items():
            if not isinstance(getattr(self, name), kind):
                received = shown_value(getattr(self, name))
                raise UserError(f"the settings of {self.name!r} are damaged: {name} is {received}.")
        checked = {}
        for key, value in self.backbone.items():
            if key not in BODIES[self.body].settings:
                advice = choice(key, sorted(self.settings()))
                raise UserError(f"a system with body={self.body!r} has no setting {shown_value(key)}: {advice}")
            checked[key] = BODIES[self.body].settings[key].check(value, f"the setting {key}")
        object.__setattr__(self, "backbone", checked)
        body = BODIES[self.body]
        if self.training.pretraining_rounds is not None and not body.grows:
            raise UserError(
                f"pretraining_rounds needs {_among(one.name for one in BODIES.values() if one.grows)}: leave it out; "
                f"received body={self.body!r}."
            )
        if self.training.samples_tokens and (self.is_latent or not body.feeds_itself):
            raise UserError(
                f"training on the model's own predictions needs "
                f"{_among(one.name for one in BODIES.values() if one.feeds_itself)} without a latent alignment: leave "
                "teacher_forcing and teacher_forcing_end at 1; "
                f"received body={self.body!r}, output={self.sizes['output']!r}."
            )
        if self.training.guided_alignment and self.data.subword_sampling_nbest is not None:
            raise UserError(
                "guided_alignment links the subwords of a sentence, which subword sampling draws anew in each epoch: "
                "leave one of them out."
            )
        if self.search.search_top_k is not None and not self.is_latent:
            raise UserError(
                "search_top_k applies only to latent alignments: leave it out, or set output='latent'; received "
                f"search_top_k={self.search.search_top_k}."
            )
        if self.sizes["tie_embeddings"] == "all" and not self.data.joint:
            raise UserError(
                "tie_embeddings='all' shares one embedding between both languages, which needs a joint vocabulary; "
                "received joint=False: set joint=True, or tie_embeddings=target."
            )

    @property
    def sizes(self) -> dict[str, Any]:
        """The value of every setting of the body, defaults included."""
        return {name: self.backbone.get(name, setting.default) for name, setting in BODIES[self.body].settings.items()}

    @property
    def is_latent(self) -> bool:
        """Whether the output is a latent alignment."""
        return self.sizes["output"] == "latent"

    @property
    def values(self) -> dict[str, Any]:
        """The value of every setting of its body, data, training and search, by name."""
        return {**self.sizes, **{k: v for part in _PARTS for k, v in dataclasses.asdict(getattr(self, part)).items()}}

    def settings(self) -> set[str]:
        """Return the names of all settings that `override` accepts."""
        parts = (*map(settings_of, _PARTS.values()), BODIES[self.body].settings, _SYSTEM)
        return {name for part in parts for name in part}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value: Any) -> "System":
        """Create a system from the result of `to_dict`.

        Raises:
            UserError: an unknown setting, or an invalid value.
        """
        if not isinstance(value, dict):
            raise UserError(f"the settings of a system are damaged: received {shown_value(value)}.")
        try:
            return cls(**{key: _PARTS[key](**part) if key in _PARTS else part for key, part in value.items()})
        except TypeError as error:
            raise UserError(f"the settings do not fit this version: {error}. Train the system again.") from None

    def override(self, **settings: Any) -> "System":
        """Return a copy with some settings changed, those in `backbone` included.

        Raises:
            UserError: no part has a setting of that name.

        Example:
            >>> System("a", {"hidden_dim": 512}).override(epochs=3, hidden_dim=64).training.epochs
            3.0
        """
        # All settings of a part at once: one may be valid only together with another.
        changed: dict[str, Any] = {}
        arguments = {}
        for key, value in settings.items():
            part = next((name for name, kind in _PARTS.items() if key in settings_of(kind)), None)
            if part is not None:
                changed.setdefault(part, {})[key] = value
            elif key in _SYSTEM:
                changed[key] = value
            elif key in BODIES[self.body].settings:
                changed.setdefault("backbone", dict(self.backbone))[key] = value
            elif _takes_arguments(key) and (parts := split_name(key)) and parts[0] in self.sizes:
                arguments[parts] = check_argument(value, key)
            else:
                raise _of_other_body(key, self.body) or _unknown(key, self.settings())
        for (place, argument), value in arguments.items():
            backbone = changed.setdefault("backbone", dict(self.backbone))
            backbone[place] = with_argument(backbone.get(place, self.sizes[place]), argument, value)
        for part in _PARTS:
            if part in changed:
                changed[part] = dataclasses.replace(getattr(self, part), **changed[part])
        return dataclasses.replace(self, **changed)

    def applicable_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return only those of some settings, by name, that apply to this system: to its body and its output.

        Example:
            >>> System("a", {}).applicable_settings({"epochs": 3.0, "num_heads": 4, "search_top_k": 2})
            {'epochs': 3.0}
        """
        sizes = {**self.sizes, **settings}
        latent = sizes["output"] == "latent"
        without = set()
        body = BODIES[self.body]
        if not body.grows:
            without |= {"pretraining_rounds"}
        if not body.feeds_itself or latent:
            without |= {name for name in settings_of(TrainingSettings) if name.startswith("teacher_forcing")}
        if not latent:
            without |= {"search_top_k"}
        known = self.settings() - without
        for name in settings:
            place, argument = split_name(name) or ("", "")
            if place in known and _takes_arguments(name) and argument in arguments_of(sizes[place]):
                known.add(name)
        return {name: value for name, value in settings.items() if name in known}
