"""Training and validation steps with figures per real target token: one mixin for three backends."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.devices import current
from keras_attn_zoo.support.compat import BuiltForReplicas, WholeVariables, layers_of
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Tensor, TensorTree
from keras_attn_zoo.training.adam import Adam, global_norm
from keras_attn_zoo.training.token_loss import token_losses, weighted_sums


class PerTokenTraining(WholeVariables, BuiltForReplicas):
    """Mixin for a Keras model: `fit` and `evaluate` with a loss per real target token.

    Put it before `keras.Model` among the bases. The model's outputs must contain "logits", unless `batch_sums` is
    overridden; labels are token ids and sample weights mark the real ones, or weigh whole rows.

        loss = Σ w·loss / Σ w + R      over all tokens of all parts of a batch

    R is the sum of the model's `losses`: weight regularisers, and what layers add by `add_loss`. As in Keras, it counts
    once per batch, also in `evaluate`; perplexity does not include it.

    With `accumulation_steps=k`, a batch is split into k parts with equal numbers of rows: the memory needed is that of
    one part, loss and gradient are those of the whole batch. What layers add by `add_loss` is averaged over the parts,
    weighted by tokens.

    Logs of a training step: "loss", "perplexity" (of the plain likelihood), "accuracy", "gradient_norm" (before
    clipping) and "tokens"; an epoch and a validation report means over all tokens under the same names. With
    `guided_alignment=λ`, "loss" has λ times "alignment_loss" in it, which `batch_sums` returns too wherever a batch has
    links.
    """

    dtype_policy: Any
    __call__: Callable[..., Any]

    def compile_training(
        self, label_smoothing: float = 0.0, accumulation_steps: int = 1, guided_alignment: float = 0.0
    ) -> None:
        """Set up what the steps need; the model's `compile` calls this."""
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"`label_smoothing` must lie in [0, 1). Received: {label_smoothing}.")
        if not isinstance(accumulation_steps, int) or accumulation_steps < 1:
            raise ValueError(f"`accumulation_steps` must be a positive integer. Received: {accumulation_steps}.")
        if not 0 <= guided_alignment < float("inf"):
            raise ValueError(f"`guided_alignment` must be a number of at least 0. Received: {guided_alignment}.")
        self.label_smoothing = float(label_smoothing)
        self.accumulation_steps = accumulation_steps
        self.guided_alignment = float(guided_alignment)
        self._figures = _Figures(self.guided_alignment > 0)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics that `fit` resets and reports."""
        return self._figures.all() if hasattr(self, "_figures") else []

    def token_losses(
        self, x: dict[str, Tensor], y: Tensor, label_smoothing: float, training: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the model on one batch; return loss, negative log-likelihood and correctness of every token."""
        return token_losses(self(x, training=training)["logits"], y, label_smoothing)

    def batch_sums(
        self, x: dict[str, Tensor], y: Tensor, weights: Tensor, label_smoothing: float, training: bool
    ) -> dict[str, Tensor]:
        """Run the model on one batch; return sums like those of `token_sums`."""
        return weighted_sums(*self.token_losses(x, y, label_smoothing, training), weights)

    def token_weights(self, x: dict[str, Tensor], y: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Return the weight of every target token `(batch, target)`: 1, or its row's of `(batch,)` or `(batch, 1)`."""
        ones = ops.ones_like(y, dtype="float32")
        if sample_weight is None:
            return ones
        # TensorFlow knows no rank of weights that come in one shape and in another.
        return ops.reshape(ops.cast(sample_weight, "float32"), (ops.shape(y)[0], -1)) * ones

    def _sums(self, x, y, weights, training):
        weights = self.token_weights(x, y, weights)
        sums = self.batch_sums(x, y, weights, self.label_smoothing if training else 0.0, training)
        if "alignment_loss" in sums:
            sums = {**sums, "loss": sums["loss"] + self.guided_alignment * sums["alignment_loss"]}
        losses = self.losses
        if losses:
            # Added once per token, since the sum is divided by the tokens of all parts later.
            extra = sum(ops.sum(ops.cast(loss, "float32")) for loss in losses)
            sums = {**sums, "loss": sums["loss"] + sums["tokens"] * extra}
        return sums

    def make_train_function(self, force: bool = False) -> Any:
        """Create the function that `fit` runs; see `keras.Model`.

        Raises:
            UserError: the model computes in float16, whose small gradients would vanish without a scaled loss.
        """
        layers = layers_of(self)
        if any(layer.compute_dtype == "float16" for layer in layers):
            raise UserError(
                "a model that computes in float16 translates, but cannot be trained, since its loss is not scaled: use "
                "mixed_bfloat16 or float32."
            )
        return super().make_train_function(force)  # type: ignore[misc]

    def train_step(self, *args: TensorTree) -> TensorTree:
        """Take one optimiser step; arguments and result are those of the backend's Keras trainer."""
        return _STEPS[keras.config.backend()][0](self, *args)

    def test_step(self, *args: TensorTree) -> TensorTree:
        """Score one batch; arguments and result as in `train_step`."""
        return _STEPS[keras.config.backend()][1](self, *args)

    def get_metrics_result(self) -> dict[str, Tensor]:
        """Return the figures of an epoch; a validation has no gradient, and one without links no alignment loss."""
        # Copies: a sum is the metric's own variable, which the validation after an epoch overwrites.
        results = {metric.name: ops.copy(metric.result()) for metric in self.metrics}
        for metric in self._figures.of_some:
            if not ops.convert_to_numpy(metric.count):
                del results[metric.name]
        return results

    def build_for_replicas(self) -> bool:
        """Build the optimizer if several devices share the batches; return whether they do."""
        model: Any = self
        if current() is not None and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        return current() is not None

    # The mathematics, once for all backends.

    def _parts(self, data):
        """Split a batch into parts with equal numbers of rows."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if self.accumulation_steps == 1:
            return [(x, y, sample_weight)]
        # No part may be empty; TensorFlow does not always know the number of rows.
        k = min(self.accumulation_steps, y.shape[0] or self.accumulation_steps)

        def part(i):
            return keras.tree.map_structure(lambda t: None if t is None else t[i::k], (x, y, sample_weight))

        return [part(i) for i in range(k)]

    def _update_metrics(self, sums, gradient_norm=None, whole=None):
        """Update the metrics with a batch; return the batch's own figures.

        Args:
            sums: of the batch, or of a replica's rows of it, since TensorFlow adds up the metrics of all replicas.
            gradient_norm: norm of the gradient.
            whole: the sums of the whole batch, if these are a replica's.
        """
        logs = self._means(sums)
        for name, value in logs.items():
            self._figures.of_tokens[name].update_state(value, sample_weight=sums["tokens"])
        if whole is not None:
            logs = self._means(whole)
        logs["perplexity"] = ops.exp(logs["perplexity"])
        self._figures.tokens.update_state(sums["tokens"])
        if gradient_norm is not None:
            self._figures.gradient_norm.update_state(gradient_norm)
            logs["gradient_norm"] = gradient_norm
        logs["tokens"] = (whole or sums)["tokens"]
        return logs

    def _means(self, sums):
        """Return the figures per token."""
        tokens = ops.maximum(sums["tokens"], 1.0)
        names = {"loss": "loss", "perplexity": "nll", "accuracy": "correct", "alignment_loss": "alignment_loss"}
        return {name: sums[of] / tokens for name, of in names.items() if of in sums}


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Perplexity(keras.metrics.Mean):
    """Exponential of the mean of the negative log-likelihoods it is updated with."""

    def result(self) -> Tensor:
        """Return exp of the mean."""
        return ops.exp(super().result())


class _Figures:
    """The metrics of a model: in an object, they are none of the state that Keras locks in a quantized model."""

    def __init__(self, is_guided):
        self.of_tokens = {
            "loss": keras.metrics.Mean(name="loss"),
            "perplexity": Perplexity(name="perplexity"),
            "accuracy": keras.metrics.Mean(name="accuracy"),
        }
        self.gradient_norm = keras.metrics.Mean(name="gradient_norm")
        # Those that not every step or validation has.
        self.of_some = [self.gradient_norm]
        if is_guided:
            self.of_tokens["alignment_loss"] = keras.metrics.Mean(name="alignment_loss")
            self.of_some.append(self.of_tokens["alignment_loss"])
        self.tokens = keras.metrics.Sum(name="tokens")

    def all(self):
        return [*self.of_tokens.values(), self.gradient_norm, self.tokens]


def _add(left, right):
    """Add two trees; the gradient of a weight that no part of a batch uses is None."""
    return keras.tree.map_structure(lambda a, b: None if a is None else a + b, left, right)


def _is_one_part(parts):
    """Whether a batch is one part, on one device: then its tokens are known before the gradient.

    To divide the loss by them costs nothing, to divide all gradients a pass over them.
    """
    return len(parts) == 1 and current() is None


def _objective(sums, is_one_part):
    """Return what is differentiated: the mean per token, or its sum over the tokens of a part."""
    return sums["loss"] / ops.maximum(sums["tokens"], 1.0) if is_one_part else sums["loss"]


def _per_token(gradients, sums):
    """Return the gradients of the mean per token from those of the sum."""
    tokens = ops.maximum(sums["tokens"], 1.0)
    return [None if g is None else g / ops.cast(tokens, g.dtype) for g in gradients]


def _apply(optimizer, gradients, variables):
    """Update the variables; return the norm of the gradients."""
    norm = global_norm(gradients)
    if keras.config.backend() == "tensorflow" and current() is not None:
        # Keras' optimizer adds up what the replicas give it, and each has the whole.
        gradients = current().of_first(gradients)
    if isinstance(optimizer, Adam):
        optimizer.apply(gradients, variables, norm)
    else:
        optimizer.apply(gradients, variables)
    return norm


def _jax_train_step(model, state, data):
    import jax

    trainable, non_trainable, optimizer_variables, metrics_variables = state
    total, parts = None, model._parts(data)
    is_one_part = _is_one_part(parts)

    def objective(*arguments):
        sums, non_trainable = _jax_sums(model, *arguments, training=True)
        return _objective(sums, is_one_part), (sums, non_trainable)

    for part in parts:
        (_, (sums, non_trainable)), gradients = jax.value_and_grad(objective, has_aux=True)(
            trainable, non_trainable, *part
        )
        total = (sums, gradients) if total is None else _add(total, (sums, gradients))
    sums, gradients = total
    if not is_one_part:
        gradients = _per_token(gradients, sums)
    norm = global_norm(gradients)
    trainable, optimizer_variables = model.optimizer.stateless_apply(optimizer_variables, gradients, trainable)
    logs, metrics_variables = _jax_update_metrics(model, metrics_variables, sums, norm)
    return logs, (trainable, non_trainable, optimizer_variables, metrics_variables)


def _jax_test_step(model, state, data):
    trainable, non_trainable, metrics_variables = state
    x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
    sums, non_trainable = _jax_sums(model, trainable, non_trainable, x, y, weights, training=False)
    logs, metrics_variables = _jax_update_metrics(model, metrics_variables, sums)
    return logs, (trainable, non_trainable, metrics_variables)


def _jax_sums(model, trainable, non_trainable, x, y, weights, training):
    """Return the sums of a batch as a function of the variables' values, and the new non-trainable values."""
    values = [(model.trainable_variables, trainable), (model.non_trainable_variables, non_trainable)]
    return _with_values(values, lambda: model._sums(x, y, weights, training))


def _jax_update_metrics(model, metrics_variables, sums, norm=None):
    return _with_values([(model.metrics_variables, metrics_variables)], lambda: model._update_metrics(sums, norm))


def _with_values(values, function):
    """Call a function with variables set to values, pairs of lists; return its result and the last new values."""
    mapping = [pair for variables, given in values for pair in zip(variables, given, strict=True)]
    with keras.StatelessScope(state_mapping=mapping, collect_losses=True) as scope:
        result = function()
    variables, given = values[-1]
    new = [scope.get_current_value(variable) for variable in variables]
    return result, [old if value is None else value for old, value in zip(given, new, strict=True)]


def _tensorflow_train_step(model, data):
    import tensorflow as tf

    total, parts = None, model._parts(data)
    is_one_part = _is_one_part(parts)
    for x, y, weights in parts:
        with tf.GradientTape() as tape:
            sums = model._sums(x, y, weights, training=True)
            objective = _objective(sums, is_one_part)
        gradients = tape.gradient(objective, [v.value for v in model.trainable_variables])
        gradients = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
        total = (sums, gradients) if total is None else _add(total, (sums, gradients))
    sums, gradients = total
    whole, gradients = _of_all_devices(sums, gradients)
    if not is_one_part:
        gradients = _per_token(gradients, whole)
    norm = _apply(model.optimizer, gradients, model.trainable_variables)
    return model._update_metrics(sums, norm, whole)


def _torch_train_step(model, data):
    import torch

    model.zero_grad()
    total, parts = None, model._parts(data)
    is_one_part = _is_one_part(parts)
    variables = list(model.trainable_variables)
    for x, y, weights in parts:
        sums = model._sums(x, y, weights, training=True)
        if variables:
            _objective(sums, is_one_part).backward()
        sums = {name: value.detach() for name, value in sums.items()}
        total = sums if total is None else _add(total, sums)
    with torch.no_grad():
        total, gradients = _of_all_devices(total, [v.value.grad for v in variables])
        if not is_one_part:
            gradients = _per_token(gradients, total)
        norm = _apply(model.optimizer, gradients, variables)
        return model._update_metrics(total, norm)


def _tensorflow_test_step(model, data):
    x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
    sums = model._sums(x, y, weights, training=False)
    return model._update_metrics(sums, whole=_of_all_devices(sums)[0])


def _torch_test_step(model, data):
    import torch

    with torch.no_grad():
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        sums, _ = _of_all_devices(model._sums(x, y, weights, training=False))
        return model._update_metrics(sums)


def _of_all_devices(sums, gradients=()):
    """Add up the sums of a batch and their gradients over the devices that share it; JAX does so by itself."""
    devices = current()
    if devices is None:
        return sums, gradients
    summed = devices.sum([*sums.values(), *gradients])
    return dict(zip(sums, summed, strict=False)), summed[len(sums) :]


_STEPS: dict[str, tuple[Callable[..., TensorTree], Callable[..., TensorTree]]] = {
    "jax": (_jax_train_step, _jax_test_step),
    "tensorflow": (_tensorflow_train_step, _tensorflow_test_step),
    "torch": (_torch_train_step, _torch_test_step),
}
