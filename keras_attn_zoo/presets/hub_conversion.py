"""KerasHub's own `from_preset`, extended by the checkpoints of Transformers that this package converts."""

from collections.abc import Callable
from typing import Any

from keras_hub.src.utils.transformers import preset_loader

# What opens a kind of checkpoint, and the class of its body, by the "model_type" in its config.json.
CONVERTERS: dict[str, tuple[Callable[..., Any], type]] = {}


def opens(model_type: str, body: type) -> Callable[[Callable], Callable]:
    """Return a decorator for what opens a kind of checkpoint of Transformers.

    It is a function `(cls, preset, config, load_weights, **kwargs)` that returns an object of a class of presets.

    Args:
        model_type: as in its config.json.
        body: the class of its body, by which KerasHub finds the classes of its other parts.
    """

    def register(function):
        CONVERTERS[model_type] = function, body
        return function

    return register


class CheckpointLoader(preset_loader.TransformersPresetLoader):
    """KerasHub's loader of checkpoints, which falls back on `CONVERTERS` for the kinds that KerasHub does not know.

    KerasHub has no register to add a converter to: it compares model types one by one and looks this class up in its
    module when it needs it. So this subclass takes its place there, and leaves everything that KerasHub can convert,
    now or in a later version, to KerasHub.
    """

    def __init__(self, preset: str, config: dict[str, Any]) -> None:
        self._ours: tuple[Callable[..., Any], type] | None = None
        try:
            super().__init__(preset, config)
        except ValueError:
            kind = config["model_type"]
            self._ours = CONVERTERS.get(kind) if isinstance(kind, str) else None
            if self._ours is None:
                raise

    def check_backbone_class(self) -> Any:
        """Return the class of the body."""
        return self._ours[1] if self._ours else super().check_backbone_class()

    def load_backbone(self, cls: Any, load_weights: bool, **kwargs: Any) -> Any:
        """Return the body."""
        if self._ours is None:
            return super().load_backbone(cls, load_weights, **kwargs)
        return self._open(cls, load_weights=load_weights, **kwargs)

    def load_task(self, cls: Any, load_weights: bool, load_task_weights: bool, **kwargs: Any) -> Any:
        """Return the task: body and preprocessor."""
        if self._ours is None:
            return super().load_task(cls, load_weights, load_task_weights, **kwargs)
        return self._open(cls, load_weights=load_weights, **kwargs)

    def load_tokenizer(self, cls: Any, config_name: str = "tokenizer.json", **kwargs: Any) -> Any:
        """Return the tokenizer of a side."""
        if self._ours is None:
            return super().load_tokenizer(cls, config_name, **kwargs)
        return self._open(cls, config_file=config_name, **kwargs)

    def load_preprocessor(self, cls: Any, config_file: str | None = None, **kwargs: Any) -> Any:
        """Return the preprocessor."""
        if self._ours is None:
            return super().load_preprocessor(cls, config_file, **kwargs)
        return self._open(cls, **kwargs)

    def _open(self, cls, **kwargs):
        return self._ours[0](cls, self.preset, self.config, **kwargs)


preset_loader.TransformersPresetLoader = CheckpointLoader
