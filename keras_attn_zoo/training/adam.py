"""Adam in one pass over weights and moments, and the norm by which it clips gradients."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
from keras import ops

from keras_attn_zoo import kernels
from keras_attn_zoo.support.types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Adam(keras.optimizers.Adam):
    """`keras.optimizers.Adam`, with the same results to rounding, in less time.

    Use it as `keras.optimizers.Adam`. Keras' update is a dozen operations, each of which reads and writes arrays as
    large as all weights. PyTorch has it as a single one; JAX's compiler makes one of them by itself. The equation is
    that of `kernels.adam`.

    Args:
        *args, **kwargs: see `keras.optimizers.Adam`. With `amsgrad`, `clipnorm`, `clipvalue`, `weight_decay`,
            `ema_overwrite_frequency`, `loss_scale_factor`, gradient accumulation or constraints, the update is Keras'.

    Example:
        >>> translator.compile(Adam(1e-3, global_clipnorm=1.0))  # doctest: +SKIP

    Differences from Keras: under TensorFlow, the rows that the gradient of a
    `keras.layers.Embedding` has for one token are added before they are squared.

    Source: Kingma and Ba, Adam: a method for stochastic optimization, 2015.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._moments = _Moments()

    def add_variable_from_reference(
        self, reference_variable: keras.Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> keras.Variable:
        """Add a moment of a weight's gradient, or its average."""
        moment = super().add_variable_from_reference(reference_variable, name=name, initializer=initializer)
        self._moments.of.setdefault(id(reference_variable), {})[name] = moment
        return moment

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the moments, and with `use_ema` averages, which begin as the weights are."""
        if self.built:
            return
        super().build(variables)
        self._moments.weights = list(variables)
        # Keras' are zero until the first step, and would stay near it for layers that are added to a trained model.
        for weight, average in self.averages():
            # A copy: JAX would have one buffer for both, and a step gives both away.
            average.assign(ops.copy(weight))

    def averages(self) -> list[tuple[keras.Variable, keras.Variable]]:
        """Return every weight with its exponential moving average; nothing without `use_ema`."""
        weights = self._moments.weights if self.use_ema else []
        return [(weight, self._moments.of[id(weight)]["average"]) for weight in weights]

    def apply(
        self,
        grads: Sequence[Tensor],
        trainable_variables: Sequence[keras.Variable] | None = None,
        norm: Tensor | None = None,
    ) -> None:
        """Update weights.

        Args:
            grads: a gradient for each weight, which PyTorch may overwrite.
            trainable_variables: the weights; by default those of the first call.
            norm: √Σ g² over all gradients if it is known, for `global_clipnorm`.
        """
        # Keras reads both more than once, too.
        grads, weights = list(grads), None if trainable_variables is None else list(trainable_variables)
        if weights and not self.built:
            with keras.name_scope(self.name, caller=self):
                self.build(weights)
        if not weights or not self._is_plain(grads, weights):
            super().apply(grads, weights)
            return
        moments = [self._moments.of[id(weight)] for weight in weights]
        kernels.adam(
            weights,
            grads,
            [moment["momentum"] for moment in moments],
            [moment["velocity"] for moment in moments],
            kernels.AdamStep(
                self.iterations + 1,
                self.learning_rate,
                self.beta_1,
                self.beta_2,
                self.epsilon,
                self._factor(grads, norm),
            ),
        )
        # As in Keras, the first step has no average before it.
        momentum = self.ema_momentum * ops.cast(self.iterations > 0, "float32")
        for weight, average in self.averages():
            average.assign(momentum * average + (1.0 - momentum) * weight)
        self.iterations.assign_add(1)

    def _is_plain(self, gradients, weights):
        """Whether the update is that of the equation, perhaps clipped by the norm of all gradients."""
        options = (self.clipnorm, self.clipvalue, self.weight_decay, self.loss_scale_factor)
        return (
            type(self).update_step is keras.optimizers.Adam.update_step
            and all(option is None for option in options)
            and not (self.amsgrad or self.ema_overwrite_frequency or self.gradient_accumulation_steps)
            and len(gradients) == len(weights)
            # The norm is one of float32.
            and all(
                g is not None and _type(g) == _type(w) != "float64" for g, w in zip(gradients, weights, strict=True)
            )
            and all(id(w) in self._moments.of and w.constraint is None for w in weights)
            and not any(w.overwrite_with_gradient for w in weights)
            and not kernels.is_replica()
        )

    def _factor(self, gradients, norm):
        """By what gradients are multiplied to clip them; infinity and NaN reach the weights, as in Keras."""
        limit = self.global_clipnorm
        if limit is None or limit <= 0:
            return None
        norm = global_norm(gradients) if norm is None else norm
        return limit / ops.maximum(norm, limit) + (norm - norm)


def _type(x):
    return keras.backend.standardize_dtype(x.dtype)


class _Moments:
    """The weights, and their moments by identity and by name; in a dictionary, Keras would count them twice."""

    def __init__(self):
        self.weights: list[keras.Variable] = []
        self.of: dict[int, dict[str | None, keras.Variable]] = {}


def global_norm(gradients: Iterable[Tensor | None]) -> Tensor:
    """Return √Σ g² over all gradients, in float32.

    Args:
        gradients: tensors; None for a weight that has no gradient.

    Example:
        >>> global_norm([keras.ops.array([3.0, 0.0]), None, keras.ops.array([4.0])])  # 5.0
    """
    exact = [ops.cast(x, "float32") for x in gradients if x is not None]
    return ops.sqrt(sum((ops.sum(ops.square(x)) for x in exact), ops.zeros(())))
