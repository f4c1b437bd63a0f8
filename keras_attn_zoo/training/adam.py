"""Adam in one pass over weights and moments."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_attn_zoo.support.types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Adam(keras.optimizers.Adam):
    """`keras.optimizers.Adam`, with the same results to rounding, in less time.

    Use it as `keras.optimizers.Adam`. Keras' update is a dozen operations, each of
    which reads and writes arrays as large as all weights. TensorFlow and PyTorch have
    it as a single one; JAX's compiler makes one of them by itself. `apply_of_norm` clips
    by a norm that is known, under PyTorch within the update.

        m ← m + (1 - β₁) (g - m),   v ← v + (1 - β₂) (g² - v)
        w ← w - η √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + ε)

    Symbols: w weights, g gradients, η the learning rate, t the step, counted from 1.

    Args:
        *args, **kwargs: see `keras.optimizers.Adam`; with `amsgrad`, the update is Keras'.

    Example:
        >>> translator.compile(Adam(1e-3, global_clipnorm=1.0))  # doctest: +SKIP

    Source: Kingma and Ba, Adam: a method for stochastic optimization, 2015.
    """

    # Of the gradients that are being applied; None to clip as Keras does.
    _factor: Tensor | None = None

    def apply_of_norm(self, gradients: Sequence[Tensor], variables: Sequence[keras.Variable], norm: Tensor) -> None:
        """Apply gradients as `apply` does; their global norm is not computed again.

        Args:
            gradients, variables: see `apply`. PyTorch overwrites the gradients.
            norm: √Σ g² over all gradients.
        """
        clips_by_it = not self.clipnorm and (self.global_clipnorm or 0) > 0
        if not clips_by_it or self.gradient_accumulation_steps or self.loss_scale_factor:
            self.apply(gradients, variables)
            return
        # Infinity and NaN reach the weights, as in Keras.
        self._factor = self.global_clipnorm / ops.maximum(norm, self.global_clipnorm) + (norm - norm)
        try:
            self.apply(gradients, variables)
        finally:
            self._factor = None

    def _clip_gradients(self, grads):
        if self._factor is None:
            return super()._clip_gradients(grads)
        if keras.config.backend() == "torch" and not self.amsgrad and _scales_as_it_updates(grads):
            return grads
        return [gradient * ops.cast(self._factor, gradient.dtype) for gradient in grads]

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        """Update one variable; on TensorFlow, Keras passes the backend's own."""
        if self.amsgrad or keras.config.backend() != "tensorflow":
            super().update_step(gradient, variable, learning_rate)
            return
        import tensorflow as tf

        i = self._get_variable_index(variable)
        step = tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[i].value.handle,
            v=self._velocities[i].value.handle,
            beta1_power=tf.pow(tf.cast(self.beta_1, variable.dtype), step),
            beta2_power=tf.pow(tf.cast(self.beta_2, variable.dtype), step),
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(tf.convert_to_tensor(gradient), variable.dtype),
        )

    def _backend_update_step(
        self, grads: Sequence[Tensor], trainable_variables: Sequence[keras.Variable], learning_rate: Tensor
    ) -> None:
        """Update all variables."""
        if self.amsgrad or keras.config.backend() != "torch":
            super()._backend_update_step(grads, trainable_variables, learning_rate)
            return
        import torch
        from torch.optim.adam import adam

        indices = [self._get_variable_index(variable) for variable in trainable_variables]
        step = int(self.iterations)
        weights = [variable.value for variable in trainable_variables]
        adam(
            weights,
            list(grads),
            [self._momentums[i].value for i in indices],
            [self._velocities[i].value for i in indices],
            [],
            [torch.tensor(float(step), device=weight.device) for weight in weights],
            fused=True,
            amsgrad=False,
            beta1=self.beta_1,
            beta2=self.beta_2,
            lr=float(learning_rate),
            weight_decay=0.0,
            # PyTorch divides √v by √(1 - β₂ᵗ) before it adds ε.
            eps=self.epsilon / (1 - self.beta_2 ** (step + 1)) ** 0.5,
            maximize=False,
            # PyTorch divides by it.
            grad_scale=None if self._factor is None or not _scales_as_it_updates(grads) else 1.0 / self._factor,
        )


def _scales_as_it_updates(gradients):
    """Whether PyTorch's update heeds `grad_scale`: that of Apple's GPUs takes it, and does nothing with it."""
    return all(gradient.device.type in ("cpu", "cuda") for gradient in gradients)
