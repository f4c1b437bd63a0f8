"""Quantization of models to int8, in memory and from presets."""

import contextlib
import gc
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras.dtype_policies import DTypePolicyMap, QuantizedDTypePolicy
from keras.quantizers import QuantizationConfig

from keras_attn_zoo.presets.preset_reading import preset_json
from keras_attn_zoo.support.compat import finish_quantization, layers_of, replace_policy
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import shown
from keras_attn_zoo.support.types import DType

_LOG = logging.getLogger(__name__)
# Keras would take the path of a layer for a pattern if it held other characters.
_PATH = re.compile(r"[\w/]+")
# Python 3.12 begins with some.
_FROZEN = gc.get_freeze_count()


class Quantization:
    """Mixin before a Keras model: `quantize` changes the layers that have an int8 form, or none."""

    def quantize(
        self,
        mode: str | None = None,
        config: QuantizationConfig | None = None,
        filters: str | list[str] | Callable[[keras.layers.Layer], bool] | None = None,
        **kwargs: Any,
    ) -> None:
        """Quantize the kernels of all projections to int8; other layers stay as they are.

        Products are of integers, for which the rows are rounded too. Under JAX on a CPU without instructions for them
        (VNNI of AVX-512, or AMX), translations and scores multiply by copies of most quantized kernels in float32
        instead, which is faster.

        A preset of the result is loaded in int8. To store any model in a quarter of the size, and load it in floating
        point, call `save_to_preset(..., storage="int8")` instead.

        Args:
            mode: "int8".
            config: a `keras.quantizers.Int8QuantizationConfig`, in place of a mode.
            filters: which layers; see `keras.Model.quantize`.
            **kwargs: see `keras.Model.quantize`.

        Raises:
            UserError: another mode.
            ValueError: the model computes in float16, in which int8 is too inexact.
        """
        mode = mode or getattr(config, "mode", None)
        if mode != "int8":
            raise UserError(f"only quantization to 'int8' is supported; received {mode!r}.")
        model: Any = self
        chosen = [layer for layer in layers_of(model) if _can_be_quantized(layer) and _is_chosen(layer, filters)]
        inner = {id(layer): {id(one) for one in layers_of(layer, include_self=False)} for layer in chosen}
        by_keras = {id(layer) for layer in chosen if not inner[id(layer)]}
        # Keras leaves out every layer that holds another: an output projection with a shared embedding.
        shared = [layer for layer in chosen if inner[id(layer)] and not inner[id(layer)] & by_keras]
        maps = _plain_policies(chosen)
        # Keras warns about each other layer, and fails at those that are never built, such as tokenizers.
        with _one_collection():
            super().quantize(  # type: ignore[misc]
                None if config else mode, config=config, filters=lambda layer: id(layer) in by_keras, **kwargs
            )
            for layer in shared:
                layer.quantize(None if config else mode, config=config)
        for policies in maps:
            for layer in layers_of(model):
                if layer.quantization_mode is not None and not isinstance(layer.dtype_policy, DTypePolicyMap):
                    _replace(policies, layer.path, layer.dtype_policy)
        if shared:
            finish_quantization(model, mode)

    def _warn_of_int8(self) -> None:
        model: Any = self
        fixed = sum(layer.quantization_mode is not None for layer in layers_of(model) if layer.built)
        if fixed:
            layers = counted(fixed, "layer")
            _LOG.warning("the kernels of %s are in int8 and stay as they are: training changes the rest", layers)


def with_int8(preset: str, dtype: DType) -> keras.DTypePolicy:
    """Return a dtype policy in which those layers are int8 that were so when a preset was saved.

    Args:
        preset: a folder, or anything else that KerasHub accepts.
        dtype: the policy of all other layers.

    Raises:
        UserError: it computes in float16, in which int8 is too inexact.
    """
    policy = keras.dtype_policies.get(dtype)
    try:
        stored = preset_json(preset, "config.json")["config"]["dtype"]["config"]["policy_map"]
        paths = [path for path, one in stored.items() if one["config"]["mode"] == "int8" and _PATH.fullmatch(path)]
    except (FileNotFoundError, LookupError, TypeError, AttributeError):
        # Nothing was quantized, or KerasHub reports what is wrong.
        return policy
    if not paths or isinstance(policy, DTypePolicyMap):
        return policy
    if policy.compute_dtype == "float16":
        raise UserError(
            f"the preset {shown(preset)} has int8 layers, which are too inexact in {policy.name}: load it in float32, "
            "bfloat16 or mixed_bfloat16."
        )
    return DTypePolicyMap(policy, dict.fromkeys(paths, QuantizedDTypePolicy("int8", source_name=policy.name)))


def take_own_policies(model: keras.Model) -> None:
    """Give int8 layers their own dtype policy in place of the map from which they have it.

    When Keras stores a layer, it asks the map for a mode, which answers for the layers that it does not name.
    """
    for layer in layers_of(model):
        policy = layer.dtype_policy
        if isinstance(policy, DTypePolicyMap) and layer.quantization_mode is not None:
            replace_policy(layer, policy[layer.path])


def _plain_policies(layers):
    """Give layers a policy of their own where they have a map, as all of a loaded preset: Keras cannot quantize a map.

    Returns:
        the maps, with which the model will be saved.
    """
    maps = {}
    for layer in layers:
        policies = layer.dtype_policy
        if isinstance(policies, DTypePolicyMap):
            maps[id(policies)] = policies
            replace_policy(layer, policies[layer.path])
    return list(maps.values())


def _replace(policies, path, policy):
    # A map answers for paths that it does not hold, and takes none twice.
    if path in list(policies):
        del policies[path]
    policies[path] = policy


@contextlib.contextmanager
def _one_collection() -> Iterator[None]:
    """Collect garbage once, at the end: Keras does so after every layer, which takes most of the time."""
    # Whoever has frozen objects wants them to stay so.
    freezes = gc.get_freeze_count() == _FROZEN
    if freezes:
        gc.freeze()
    try:
        yield
    finally:
        if freezes:
            gc.unfreeze()
        gc.collect()


def _can_be_quantized(layer):
    owner = next(one for one in type(layer).__mro__ if "quantize" in vars(one))
    # Keras' layers leave their subclasses out; those of this package do not.
    able = owner is type(layer) or not owner.__module__.startswith("keras.")
    return able and not isinstance(layer, keras.Model) and layer.built and layer.quantization_mode is None


def _is_chosen(layer, filters):
    """Whether the `filters` of `keras.Model.quantize` choose a layer."""
    if filters is None or callable(filters):
        return filters is None or filters(layer)
    patterns = [filters] if isinstance(filters, str) else filters
    return any(re.search(pattern, layer.name) for pattern in patterns)
