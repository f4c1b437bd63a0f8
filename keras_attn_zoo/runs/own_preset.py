"""Whether the preset in a run folder is of this run."""

from collections.abc import Iterator, Sequence
from typing import Any

import keras

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.presets.preset_reading import preset_json
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown
from keras_attn_zoo.support.setting_types import shown_value


def check_own_preset(run: RunFolder) -> None:
    """Raise if the body of a run's best round is not that of the run's settings, as after two runs were mixed up.

    Vocabulary sizes and precision are not compared: they follow from the text, and from how a preset is loaded.

    Args:
        run: a run that has a preset.

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
    """Raise if the subword models of a run's best round are not those that its text was encoded with.

    Runs of earlier versions do not tell; of them, only the sizes of vocabularies are known to fit.

    Args:
        run: a run that has a preset.
        models: their checksums, see `TranslationPreprocessor.models`.

    Raises:
        UserError: they are others.
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
