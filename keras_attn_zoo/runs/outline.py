"""The outline of a system's body: its sizes before it has weights."""

import dataclasses
import functools
import json
import threading
from typing import Any

import keras

from keras_attn_zoo.bodies.backbone import check_guided
from keras_attn_zoo.bodies.schema import BODIES, longest_translation
from keras_attn_zoo.runs.settings import TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.runs.trained_parts import choose_trained
from keras_attn_zoo.support.errors import UserError


def body_arguments(system: System, longest: int | None = None) -> dict[str, Any]:
    """Return the arguments of a system's body, without the vocabulary sizes.

    Args:
        system: the system.
        longest: the length for weights that depend on one, if the system sets none; by default that of its longest
            translation.
    """
    if not BODIES[system.body].takes_length:
        return system.backbone
    longest = longest or longest_translation(system.data.max_tokens)
    return {**system.backbone, "max_length": system.sizes["max_length"] or longest}


@dataclasses.dataclass(frozen=True)
class Outline:
    """What is known about a body before it has weights.

    Attributes:
        parameters: number of its parameters.
        longest_sentence: the maximum tokens that length-dependent weights allow; None if there are no such weights.
    """

    parameters: int
    longest_sentence: int | None


def outline(
    system: System, source_vocabulary_size: int, target_vocabulary_size: int, longest: int | None = None
) -> Outline:
    """Build a system's body abstractly: all shapes but no weights, in a fraction of a second at any size.

    Args:
        system: the system.
        source_vocabulary_size, target_vocabulary_size: sizes of the vocabularies.
        longest: see `body_arguments`.

    Raises:
        UserError: the body cannot be built: an unknown mechanism, sizes that do not fit.
    """
    settings = system.training
    names = ("freeze", "initial_model", "lora_rank", "guided_alignment")
    trained = TrainingSettings(**{name: getattr(settings, name) for name in names})
    arguments = json.dumps(body_arguments(system, longest), sort_keys=True)
    sizes = source_vocabulary_size, target_vocabulary_size
    try:
        return _outline(system.body, arguments, sizes, trained, keras.config.dtype_policy().name)
    except UserError:
        raise
    except (ValueError, TypeError) as error:
        raise UserError(f"the system {system.name!r} cannot be built: {str(error).strip().splitlines()[0]}") from error


@functools.lru_cache(maxsize=1024)
def _outline(name, arguments, sizes, trained, policy):
    """The same of the body alone: systems of a comparison differ in seeds and learning rates."""
    made = []

    def build():
        try:
            with keras.StatelessScope(initialize_variables=False):
                body = BODIES[name].body_class(*sizes, dtype=policy, **json.loads(arguments))
                found = Outline(body.count_params(), body.longest_sentence)
                choose_trained(body, trained)
                if trained.guided_alignment:
                    check_guided(body)
                made.append(found)
        except (ValueError, TypeError) as error:
            made.append(error)

    # Keras records weights that are not yet initialised, and initialises them when it next leaves a stateless scope.
    # The record is kept by thread, so that of a thread of its own is dropped.
    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    (found,) = made
    if isinstance(found, Exception):
        raise found
    return found
