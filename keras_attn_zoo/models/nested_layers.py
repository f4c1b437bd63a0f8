"""Layers made of layers: their configurations, arguments and weights."""

from typing import Any

import keras

from keras_attn_zoo.types import Config


def serialize_layer(layer: keras.layers.Layer | None) -> Config | None:
    """Return the configuration of a layer that another one holds and builds, or None for None.

    Example:
        >>> serialize_layer(keras.layers.Dense(4))["class_name"]
        'Dense'
    """
    if layer is None:
        return None
    config = keras.layers.serialize(layer)
    # The layer around it builds it. Taken out in place: Keras marks what several layers share in this very dict.
    config.pop("build_config", None)
    return config


def deserialize_layers(config: Config, *names: str) -> Config:
    """Return a configuration with the layers of these names made; in a saved model, what was shared is shared again.

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
    """Build a layer that several may hold, unless it is built.

    Example:
        >>> build_once(keras.layers.Dense(4), (None, 3))
    """
    if not layer.built:
        layer.build(*shapes)
