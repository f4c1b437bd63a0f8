"""A model's variables stay whole whatever ends `fit`, `evaluate` or `predict` under JAX.

Keras takes the values off the variables while it runs steps, hands each step the memory of the one before, and puts
values back at the end. An exception in between, such as an interrupt or a batch that the model does not take, would
leave a model without weights.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from keras_attn_zoo.support.types import TensorTree

# What the state of a step consists of, by its length: training, validation, prediction.
_STATES = {
    4: ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables"),
    3: ("trainable_variables", "non_trainable_variables", "metrics_variables"),
    2: ("trainable_variables", "non_trainable_variables"),
}


class WholeVariables:
    """Mixin for a Keras model: two hooks of Keras' trainer for JAX; other backends have no such state."""

    def _get_jax_state(self, *args: Any, **kwargs: Any) -> TensorTree:
        """Leave the values on the variables too: a step that fails before it runs then changes nothing."""
        return super()._get_jax_state(*args, **{**kwargs, "purge_model_variables": False})  # type: ignore[misc]

    def _make_function(self, step_function: Any, *args: Any, **kwargs: Any) -> Any:
        """Note the new state as soon as there is one, before Keras does."""
        if not hasattr(self, "jax_state_sync"):
            return super()._make_function(step_function, *args, **kwargs)  # type: ignore[misc]

        def step(state, data):
            results: list[Any] = []
            try:
                # Nothing of Python runs between the compiled step and the list, so an interrupt finds the state there.
                results.extend(map(step_function, (state,), (data,)))
            finally:
                if results:
                    state = results[0][1]
                    self._jax_state = dict(zip(_STATES[len(state)], state, strict=True))
                    self._jax_state_synced = False
            return results[0]

        return super()._make_function(step, *args, **kwargs)  # type: ignore[misc]


@contextlib.contextmanager
def kept_whole(model: Any) -> Iterator[None]:
    """Put the last state back on a model's variables if a method of Keras, which is run inside, ends early.

    Example:
        >>> with kept_whole(model):  # doctest: +SKIP
        ...     keras.Model.evaluate(model, x, y)
    """
    try:
        yield
    except BaseException:
        if hasattr(model, "jax_state_sync"):
            model.jax_state_sync()
            model._jax_state = None
        raise
