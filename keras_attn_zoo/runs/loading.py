"""Load the translator of a run folder or of a preset, or an ensemble of several, ready to search."""

from collections.abc import Iterator, Sequence
from typing import Any

import keras

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.onnx.description import is_exported
from keras_attn_zoo.presets.preset_reading import preset_json
from keras_attn_zoo.presets.preset_registry import find_preset
from keras_attn_zoo.runs.precision import policy, resolve
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.settings import SearchSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.choices import MEANS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, kind_of, shown
from keras_attn_zoo.support.setting_types import shown_value
from keras_attn_zoo.translators import Translator


def load_translator(
    path: PathLike,
    beams: int | None = None,
    length_penalty: float | None = None,
    search_top_k: int | None = None,
    max_tokens: int | None = None,
    precision: str = "float32",
    coverage_penalty: float | None = None,
    min_length: int | None = None,
    no_repeat_ngram: int | None = None,
    plain: bool = False,
) -> Translator:
    """Load the translator of a run folder or of a preset.

    Its programs are kept beside what JAX compiles, if JAX has a folder for that, as it has on the command line.

    Args:
        path: a run folder, or whatever `Translator.from_preset` takes.
        beams, length_penalty, search_top_k: search settings; by default those of the run or of the preset.
        max_tokens: maximum tokens of a sentence and its translation; by default the model's.
        precision: "float32", "bfloat16", or "auto" for what suits this machine; whatever it was trained in.
        coverage_penalty, min_length, no_repeat_ngram: further search settings.
        plain: whether to search by a `BeamSearch` where a preset has a `PooledBeamSearch`.

    Raises:
        UserError: there is no trained system, its files are damaged, or the preset in the run folder is of another run;
            a coverage penalty with a `PooledBeamSearch`.
    """
    run = RunFolder(path)
    preset = str(path)
    if run.holds_run:
        if kind_of(run.best) is None:
            raise UserError(f"{shown(path)} has no trained model yet: continue its training with --resume.")
        preset = str(run.best)
    elif is_exported(path):
        raise UserError(
            f"{shown(path)} was exported to ONNX, which `attn-zoo translate` and ONNXTranslator alone take: give the "
            "model itself."
        )
    else:
        preset = find_preset(preset)
    translator = _from_preset(preset, precision)
    if run.holds_run:
        # Not before: this reads a file that loading compares with its checksum.
        check_own_preset(run)
        check_own_subwords(run, translator.preprocessor.models)
    given: dict[str, Any] = {
        **{"beams": beams, "length_penalty": length_penalty, "search_top_k": search_top_k},
        **{"coverage_penalty": coverage_penalty, "min_length": min_length, "no_repeat_ngram": no_repeat_ngram},
    }
    if run.holds_run:
        own = run.system().search
        translator.search_settings = {**translator.search_settings, **{name: getattr(own, name) for name in given}}
    _set_search(translator, given, plain)
    if max_tokens is not None:
        translator.set_max_tokens(max_tokens)
    return translator


def load_ensemble(
    paths: Sequence[PathLike],
    mean: str = MEANS[0],
    max_tokens: int | None = None,
    precision: str = "float32",
    plain: bool = False,
    **search: Any,
) -> Translator:
    """Load several translators as one; see `Translator.ensemble`.

    Args:
        paths: two or more of what `load_translator` takes.
        mean: how their probabilities are combined.
        max_tokens, precision, plain, **search: see `load_translator`; by default, the search is that of the first.

    Raises:
        UserError: see `load_translator` and `Translator.ensemble`.
    """
    translator = Translator.ensemble([load_translator(path, precision=precision) for path in paths], mean)
    _set_search(translator, search, plain)
    if max_tokens is not None:
        translator.set_max_tokens(max_tokens)
    return translator


def _set_search(translator, given, plain):
    """Change those settings of a search that are given, which are not None."""
    kept = translator.search_settings
    if plain:
        kept = {name: value for name, value in kept.items() if name != "pooled"}
    own = {name: kept[name] for name in given if name in kept}
    # Creating the settings checks them.
    search = SearchSettings(**{**own, **{name: value for name, value in given.items() if value is not None}})
    if "pooled" in kept and search.coverage_penalty:
        text = "a PooledBeamSearch, as this preset has it, has no coverage_penalty: leave it out, or"
        raise UserError(f"{text} set plain=True.", f"{text} set --strategy beam.")
    translator.search_settings = {**kept, **{name: getattr(search, name) for name in given}}


def _from_preset(preset, precision):
    """Load a preset; report any defect in one line that names it."""
    try:
        return Translator.from_preset(preset, dtype=policy(resolve(precision)))
    except UserError as error:
        if preset in str(error):
            raise
        reason = error
    except Exception as error:
        # With a damaged or hostile file, Keras, HDF5 and SentencePiece may raise anything.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    raise UserError(f"{shown(preset)} is not a translator preset, or is damaged: {reason}") from None


def check_own_preset(run: RunFolder) -> None:
    """Raise if the body of a run's best round is not that of the run's settings, as after two runs were mixed up.

    Vocabulary sizes and precision are not compared: they follow from the text, and from how a preset is loaded.

    Raises:
        UserError: names the class or the setting, and both values; see `RunFolder.system` and `preset_json`.
    """
    system, found = run.system(), preset_json(str(run.best), "config.json")
    for name, own, there in _differences(system, found):
        raise UserError(
            f"{shown(run.best)} is not of this run: it has {name}={shown_value(there)}, but {shown(run.config)} says "
            f"{shown_value(own)}. Restore both from a backup, or train the system again in another folder."
        )


def check_own_subwords(run: RunFolder, models: Sequence[str]) -> None:
    """Raise if the subword models of a run's best round, by checksum, are not those that its text was encoded with.

    Runs of earlier versions do not tell; of them, only the sizes of vocabularies are known to fit.
    """
    known = run.corpus().get("subwords")
    if known not in (None, list(models)):
        raise UserError(
            f"{shown(run.best)} is not of this run: its subword models are others than {shown(run.config)} was written "
            "for. Restore both from a backup, or train the system again in another folder."
        )


def _differences(system: System, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the settings in which a preset's config.json differs from a system, with the values of both."""
    body, tree = BODIES[system.body], found if isinstance(found, dict) else {}
    if keras.saving.get_registered_object(str(tree.get("registered_name"))) is not body.body_class:
        yield "class_name", body.class_name, tree.get("class_name")
        return
    for name, setting in body.settings.items():
        # A preset of an earlier version lacks what has been as the default says.
        own, there = system.sizes[name], tree["config"].get(name, setting.default)
        # What the system leaves open, the body chooses; the best round may have been before all layers were added.
        grows = name == "encoder_layers" and system.training.pretraining_rounds is not None
        if own is not None and own != there and not (grows and there in range(1, own)):
            yield name, own, there
