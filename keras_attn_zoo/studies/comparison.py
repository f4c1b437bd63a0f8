"""A comparison: named systems with several seeds and on a grid of settings, each run with a name of its own."""

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.runs.mechanism_arguments import arguments_of, split_name
from keras_attn_zoo.runs.system import System, parse_settings
from keras_attn_zoo.runs.tasks import settings_of_task
from keras_attn_zoo.studies.paper_tables import AnyTable, Finding, Pair, Ranking, splits_of
from keras_attn_zoo.studies.scales import SCALES, scaled
from keras_attn_zoo.studies.tuned_values import tuned_values
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.files import kind_of
from keras_attn_zoo.support.setting_types import shown_value

# Characters of a folder's name that no shell or file system minds, and how long a value in it may be.
_UNUSUAL, _LONGEST_VALUE = re.compile(r"[^\w.=+-]+", re.ASCII), 40
# The title of a comparison that is no recipe's begins so; the names of its systems follow.
OF_SYSTEMS = "Comparison of"
# The option by which `attn-zoo plot` takes scores of another text than the test text.
_OF_SCORES = "--name"
_OPENING, _CLOSING = "([{", ")]}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One system of a comparison, with a paper's figures for it.

    Attributes:
        system: the `System`.
        paper: the paper's figures, `{column: figure}`; empty if it reports none.
        baseline: name of the system that it is compared with, or None.
    """

    system: System
    paper: dict[str, str] = dataclasses.field(default_factory=dict)
    baseline: str | None = None


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A paper's comparison, or one from the command line.

    Attributes:
        title: short title of the paper.
        entries: its systems, by name.
        default: names of the systems trained by default, except at the scale "smoke".
        published: settings for every system at the scale "paper": how the paper prepares its text, and the length of
            its training, where the systems stop earlier.
        note: text below the table.
        pictures: command lines of `attn-zoo plot` by the name of the file that they draw, without `--output`. A word
            that is the name of a system stands for its run, with `--over-seeds` for one of each seed, and is left out
            if there is none; "{sentence}" and
            "{translation}" are a pair of the test text, "{source-2}" and "{translation-2}" the second-best translation
            of the system that the tables have `Examples` of, and what it translates.
        rank_by: function that takes a run's scores and returns the number by which the paper ranks its systems,
            lowest first; None keeps their order.
        tasks: the paper's comparisons on other tasks, by the task's name.
        tables: the paper's own tables, or a `Ranking`.
        pairs: the language pairs of these, by name; the first is the default. Empty if there is only one.
        scale: name of the scale that `at_scale` made it of; None as published.
        original: the comparison that `for_pair` and `at_scale` made it of, if they did.
        about: what the paper asks, in a paragraph.
        findings: what it claims to have found.
        captions: what the pictures show, by the name of the file.
        corpus: name of the paper's text in the catalogue; empty if it is not there, or if each pair has its own.
        words: how many words a side has, at least and at most, in all text at the scale "paper": validation and test
            text too, which filters of a system leave whole. None for any number.
        tune: values to choose from for each system, by the name of the setting, see `--tune`.
        equal_to: name of the system that all others have as many parameters as, see `equal_parameters`; None if they
            have their own sizes.
        joined: how many words the text "joined" has, see `joined_text`; None if there is none.
        smoke: names of the systems trained at the scale "smoke"; empty for all.
    """

    title: str
    entries: dict[str, Entry]
    default: tuple[str, ...]
    published: dict[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""
    pictures: dict[str, str] = dataclasses.field(default_factory=dict)
    rank_by: Callable[[dict[str, Any]], float] | None = None
    tasks: Mapping[str, "Recipe"] = dataclasses.field(default_factory=dict)
    tables: tuple[AnyTable, ...] = ()
    pairs: dict[str, Pair] = dataclasses.field(default_factory=dict)
    scale: str | None = None
    original: "Recipe | None" = None
    about: str = ""
    findings: tuple[Finding, ...] = ()
    captions: dict[str, str] = dataclasses.field(default_factory=dict)
    corpus: str = ""
    words: tuple[int, int] | None = None
    tune: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    equal_to: str | None = None
    joined: tuple[int, int] | None = None
    smoke: tuple[str, ...] = ()

    def of_task(self, name: str) -> "Recipe":
        """Return the comparison on a task: its own if it has one, else these systems with the settings of the task."""
        settings = settings_of_task(name)
        if name in self.tasks or not settings:
            return self.tasks.get(name, self)
        entries = {
            key: dataclasses.replace(entry, system=entry.system.override(**settings))
            for key, entry in self.entries.items()
        }
        # A paper's tables and findings are of translation.
        return dataclasses.replace(self, entries=entries, tables=(), pairs={}, findings=(), corpus="")

    @property
    def is_ranking(self) -> bool:
        """Whether it ranks its systems, in place of a paper's tables."""
        return any(isinstance(table, Ranking) for table in self.tables)

    @property
    def first_pair(self) -> str | None:
        """The language pair that stands for itself, if there are several."""
        return next(iter(self.pairs), None)

    def folder_of(self, out: Path, pair: str | None) -> Path:
        """Return the folder for the runs of a language pair: that of the first is the comparison's own."""
        return out if pair in (None, self.first_pair) else out / pair

    def for_pair(self, pair: str | None) -> "Recipe":
        """Return the comparison with the settings that the paper has for a language pair; with None, as it is."""
        if pair is None:
            return self
        own = self.pairs[pair]
        entries = {
            name: dataclasses.replace(entry, system=_of_pair(entry.system, own.settings))
            for name, entry in self.entries.items()
        }
        if pair != self.first_pair:
            # The figures of the entries are those of the first pair.
            entries = {name: dataclasses.replace(entry, paper={}) for name, entry in entries.items()}
        note = self.note if pair == self.first_pair else f"Language pair: {pair}."
        published = {**self.published, **own.published}
        original = self.original or self
        return dataclasses.replace(
            self, entries=entries, published=published, note=note, original=original, corpus=own.corpus
        )

    def tests_of(self, pair: str | None) -> tuple[str, ...]:
        """Return the names of the scores whose mean stands for the test text of a language pair."""
        return self.pairs[pair].tests if pair is not None else Pair().tests

    def tokenizer_of(self, pair: str | None) -> str:
        """Return sacrebleu's tokeniser for the target of a language pair; empty for the usual one."""
        return self.pairs[pair].tokenize if pair is not None else ""

    def splits(self, entry: str, pair: str | None) -> list[str]:
        """Return the names of the scores, other than "test", that a system has in tables, pictures and findings.

        Args:
            entry: the system.
            pair: the language pair; findings that no table has are held against the first alone.
        """
        found = dict.fromkeys(splits_of(self.tables, entry, pair, self.first_pair))
        if pair in (None, self.first_pair):
            contrasts = (contrast for finding in self.findings for contrast in finding.contrasts)
            cells = (cell for contrast in contrasts for cell in contrast.cells(pair))
            found.update({cell.split: None for cell in cells if cell.entry == entry and cell.split != "test"})
        for words in map(str.split, self.pictures.values()):
            if entry in words and _OF_SCORES in words:
                found[words[words.index(_OF_SCORES) + 1]] = None
        return list(found)

    def at_scale(self, scale: str | None) -> "Recipe":
        """Return the comparison at one of `SCALES`; with None, as it is."""
        if scale is None:
            return self
        systems = [entry.system for entry in self.entries.values()]
        entries = {}
        for name, entry in self.entries.items():
            baseline = self.entries[entry.baseline].system if entry.baseline in self.entries else None
            own = scaled(entry.system, SCALES[scale], self.published, systems, baseline)
            entries[name] = dataclasses.replace(entry, system=own)
        # How fast tiny systems are says nothing, and takes longer than training them; classes of length are too small.
        left_out = ("speed ", "trade-off ", "by-length ") if scale == "smoke" else ()
        pictures = {file: line for file, line in self.pictures.items() if not line.startswith(left_out)}
        joined, text = self.joined, SCALES[scale].corpus
        if joined is not None and text is not None:
            joined = text["max_words"], 2 * text["max_words"]
        made = dataclasses.replace(
            self, entries=entries, pictures=pictures, joined=joined, scale=scale, original=self.original or self
        )
        return dataclasses.replace(made, note=f"{made.about_scale}\n\n{self.note}".strip())

    @property
    def about_scale(self) -> str:
        """What its scale changes, in a line; empty without one."""
        return f"Scale {self.scale}: {SCALES[self.scale].about}." if self.scale else ""


def _of_pair(system, settings):
    """A system with the settings of a language pair; without a joint vocabulary, not all embeddings are tied."""
    apart = settings.get("joint") is False and system.sizes["tie_embeddings"] == "all"
    apart_settings = {"tie_embeddings": "target"} if apart else {}
    return system.override(**system.applicable_settings({**settings, **apart_settings}))


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a comparison.

    Attributes:
        name: name of its folder: the system, the settings of the grid that the system has, and the seed unless it is
            the system's own.
        entry: name of the system.
        system: the `System` to train.
        point: values of those settings, by name, and of the seed.
        baseline: name of the run that it is compared with, or None.
        tuned: names of the settings whose values are chosen by validation loss, see `candidates`.
    """

    name: str
    entry: str
    system: System
    point: dict[str, Any]
    baseline: str | None = None
    tuned: tuple[str, ...] = ()

    @property
    def of_grid(self) -> bool:
        """Whether it has values of a grid, which are still to be chosen."""
        return bool(self.point.keys() - {"seed", *self.tuned})


def expand(
    entries: Mapping[str, Entry],
    settings: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: Iterable[int] = (),
    baselines: Mapping[str, Entry] | None = None,
) -> list[Run]:
    """Return the runs of a comparison: each system at each point of the grid, with each seed.

    Args:
        entries: the systems, by name.
        settings: changes for every system that has the setting. With a budget, no run stops early unless a patience
            is given too: all are of one length. Epochs take the place of a system's budget.
        grid: values to try of each setting, by name. A system has one run for all points that differ only in
            settings that it does not have.
        seeds: the seeds; by default each system's own.
        baselines: further systems, by name, whose runs others may be compared with.

    Raises:
        UserError: a setting that none of the systems has, or that was given twice; a budget beside epochs; a value
            that a system rejects; two values that folders could not be told apart by.

    Example:
        >>> entries = {"a": Entry(System("a", {}))}
        >>> [run.name for run in expand(entries, {}, {"dropout": [0.1, 0.3]}, seeds=[1, 2])]
        ['a-dropout=0.1', 'a-dropout=0.1-seed=2', 'a-dropout=0.3', 'a-dropout=0.3-seed=2']
    """
    grid, seeds = dict(grid or {}), list(dict.fromkeys(seeds))
    twice = next((name for name in grid if name in settings), None)
    if twice is not None:
        raise UserError(f"the setting {twice} was given twice: take it out of the grid, or leave out the other value.")
    if "seed" in grid or (seeds and "seed" in settings):
        raise UserError("--seeds gives the seeds: leave out the setting seed.")
    lengths = {"budget", "epochs"}
    if lengths & grid.keys() and lengths <= {*grid, *(name for name, value in settings.items() if value is not None)}:
        raise UserError("training ends after a budget or after epochs: give one of them, in the grid or outside.")
    if any((settings.get("budget"), *grid.get("budget", ()))) and "patience" not in {*settings, *grid}:
        settings = {**settings, "patience": None}
    if "epochs" in {*settings, *grid}:
        # A scale, or a paper, may have one, which would go before the epochs.
        settings = {"budget": None, **settings}
    names = sorted(grid)
    points = [dict(zip(names, values, strict=True)) for values in itertools.product(*(grid[name] for name in names))]
    points = [{**point, "seed": seed} for point in points for seed in seeds] if seeds else points

    known = {**(baselines or {}), **entries}

    def applicable(name, point):
        return known[name].system.applicable_settings({**settings, **point})

    def differing(name, point):
        """The settings of a point that a system has, without its own seed."""
        own, seed = applicable(name, point), known[name].system.seed
        return {key: own[key] for key in point if key in own and (key, own[key]) != ("seed", seed)}

    used = {key for name, point in itertools.product(entries, points) for key in applicable(name, point)}
    for key in (*settings, *grid):
        if key not in used:
            who = ", ".join(entries)
            lacks = f"the system {who} has no" if len(entries) == 1 else f"none of the systems {who} has a"
            raise UserError(f"{lacks} setting {key!r}{_nearest(key, entries)}")
    runs: dict[str, Run] = {}
    for name, point in itertools.product(entries, points):
        own, baseline = differing(name, point), entries[name].baseline
        if baseline is not None:
            # One that is not trained here has the name that it would have.
            baseline = run_name(baseline, differing(baseline if baseline in known else name, point))
        try:
            system = entries[name].system.override(**applicable(name, point))
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        run = Run(run_name(name, own), name, system, own, baseline)
        if runs.setdefault(run.name, run).point != own:
            raise UserError(f"two points of the grid have the same name, {run.name}: leave out one of the values.")
    return list(runs.values())


def _nearest(key, entries):
    """What a message says of an unknown argument of a mechanism: the nearest one that the systems have."""
    parts = split_name(key)
    if parts is None:
        return "."
    known = {one for entry in entries.values() for one in arguments_of(entry.system.sizes.get(parts[0], []))}
    return f": of the arguments of {parts[0]}, {choice(parts[1], sorted(known))}" if known else "."


def run_name(name: str, point: Mapping[str, Any]) -> str:
    """Return the name of a run's folder: the system, and in which settings the run differs from it.

    Example:
        >>> run_name("luong", {"seed": 2, "learning_rate": 5e-4})
        'luong-learning_rate=0.0005-seed=2'
    """
    order = sorted(point, key=lambda key: (key == "seed", key))
    return "-".join([name, *(f"{key}={_in_name(point[key])}" for key in order)])


def folders_by_seed(place: Path, entry: str) -> dict[str, Path]:
    """Return the folders of a system's runs in a folder, in order, by what their names say of the seed.

    Those of a grid are left out; of a system that was tuned, those with other values.
    """
    stem = tuned_values(place).get(entry, {}).get("run", entry)
    named, found = re.compile(rf"{re.escape(stem)}((?:-seed=\d+)?)"), {}
    for folder in place.iterdir() if kind_of(place) == "folder" else ():
        if name := named.fullmatch(folder.name):
            found[name[1]] = folder
    return dict(sorted(found.items(), key=lambda one: (len(one[0]), one[0])))


def check_seed(run: Path, seed: int) -> None:
    """Raise if the name of a run's folder says another seed than its settings: it was copied or renamed.

    Raises:
        UserError: names both.
    """
    named = re.search(r"-seed=(\d+)$", run.name)
    if named and int(named[1]) != seed:
        raise UserError(f"its settings have seed={seed}: rename the folder, or train the run again")


def _in_name(value):
    """A value as part of a folder's name; if it is long or has unusual characters, a checksum tells it from others."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    plain = _UNUSUAL.sub("_", text).strip("_")
    if plain == text and len(text) <= _LONGEST_VALUE:
        return text
    return f"{plain[:_LONGEST_VALUE]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def parse_grid(items: Iterable[str], option: str = "--grid") -> dict[str, list[Any]]:
    """Parse a grid of the form NAME=VALUE,VALUE.

    Raises:
        UserError: what `parse_settings` refuses; a name given twice. It names the option.

    Example:
        >>> parse_grid(["learning_rate=1e-3,5e-4", "cross_attention=bahdanau,luong_dot"])
        {'learning_rate': [0.001, 0.0005], 'cross_attention': ['bahdanau', 'luong_dot']}
    """
    found: dict[str, list[Any]] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not (name and equals):
            raise UserError(f"{option} takes NAME=VALUE,VALUE; received {shown_value(item)}.")
        if name in found:
            raise UserError(f"{option} has {shown_value(name)} twice: give all its values at once.")
        values = [parse_settings([f"{name}={value}"])[name] for value in _split(text)]
        # To Python, 1 is True.
        typed = [(isinstance(value, bool), value) for value in values]
        found[name] = [value for i, value in enumerate(values) if typed[i] not in typed[:i]]
    return found


def _split(text: str) -> Iterator[str]:
    """Split at commas that are not inside brackets."""
    depth, start = 0, 0
    for place, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]
