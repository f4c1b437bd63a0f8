"""What a translator was compiled with, as it is kept in `.keras` files and handed to clones."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

import keras

from keras_attn_zoo.types import Config


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class CompileSettings(Mapping[str, Any]):
    """Arguments of `Translator.compile`; as a mapping, those alone that every Keras model takes.

    `keras.models.clone_model` makes a plain functional model of a translator and compiles it with these: it gets the
    optimizer, and knows no label smoothing and no search.

    Args:
        **arguments: arguments of `Translator.compile`.

    Example:
        >>> dict(CompileSettings(optimizer="adam", label_smoothing=0.1))
        {'optimizer': 'adam'}
    """

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments

    def __getitem__(self, name: str) -> Any:
        """Return an argument that every Keras model takes."""
        return {"optimizer": self.arguments["optimizer"]}[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of these."""
        return iter(("optimizer",))

    def __len__(self) -> int:
        """Count these."""
        return 1

    def get_config(self) -> Config:
        """Return all arguments, serialized."""
        return {name: keras.saving.serialize_keras_object(value) for name, value in self.arguments.items()}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Create the settings from the result of `get_config`."""
        return cls(**keras.saving.deserialize_keras_object(config))
