"""The configuration of a layer or a sampler, from the arguments of its constructors."""

import inspect
from typing import Any

import keras

from keras_attn_zoo.support.types import Config

# A class of these has a configuration of its own.
_OF_KERAS = ("keras", "keras_hub")


class Configured:
    """Mixin for a class of Keras: its configuration has each argument that an attribute keeps under the same name.

    Initialisers and layers are serialised. A class with a `get_config` adds its own arguments there.

    Raises:
        NotImplementedError: an argument that no attribute keeps, which a saved file or a copy would silently lack.

    Example:
        >>> class Scale(Configured, keras.layers.Layer):
        ...     def __init__(self, factor, **kwargs):
        ...         super().__init__(**kwargs)
        ...         self.factor = factor
        >>> Scale(2).get_config()["factor"]
        2
    """

    def get_config(self) -> Config:
        """Return the arguments of the constructors."""
        inherited: Any = super()
        return {**inherited.get_config(), **self._own_arguments()}

    def _own_arguments(self):
        found = {}
        for kind in type(self).__mro__:
            if kind.__module__.partition(".")[0] in _OF_KERAS:
                break
            if "__init__" in vars(kind) and "get_config" not in vars(kind):
                _, *arguments = inspect.signature(kind.__init__).parameters.values()
                for one in arguments:
                    if one.kind is not one.VAR_KEYWORD:
                        if not hasattr(self, one.name):
                            raise NotImplementedError(
                                f"{kind.__name__} cannot be saved or copied without its argument {one.name!r}: keep it "
                                f"as `self.{one.name}`, or add it in a `get_config` of its own."
                            )
                        value = getattr(self, one.name)
                        value = list(value) if isinstance(value, tuple) else value
                        found[one.name] = keras.saving.serialize_keras_object(value)
        return found
