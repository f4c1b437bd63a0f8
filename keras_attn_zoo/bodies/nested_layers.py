"""Layers that contain layers: configurations, arguments and weights."""

from typing import Any

import keras

from keras_attn_zoo.support.types import Config


def serialize_layer(layer: keras.layers.Layer | None) -> Config | None:
    """Return the configuration of a layer that another layer holds and builds; None for None.

    Example:
        >>> serialize_layer(keras.layers.Dense(4))["class_name"]
        'Dense'
    """
    if layer is None:
        return None
    config = keras.layers.serialize(layer)
    # The outer layer builds it. Removed in place, because Keras marks shared layers in this very dict.
    config.pop("build_config", None)
    return config


def deserialize_layers(config: Config, *names: str) -> Config:
    """Return a configuration with the named layers created; layers shared in a saved model are shared again.

    Example:
        >>> config = {"bridge": serialize_layer(keras.layers.Dense(4))}
        >>> deserialize_layers(config, "bridge")["bridge"].units
        4
    """
    return {
        key: keras.layers.deserialize(value) if key in names and isinstance(value, dict) else value
        for key, value in config.items()
    }


def build_once(layer: keras.layers.Layer, *shapes: Any) -> None:
    """Build a layer, which others may share, unless it is already built.

    Example:
        >>> build_once(keras.layers.Dense(4), (None, 3))
    """
    if not layer.built:
        layer.build(*shapes)
