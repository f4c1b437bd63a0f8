"""The methods of `keras.Model` that run a translator: each takes ids, or text, in any form that Keras reads."""

import reprlib
from typing import Any

import keras

from keras_attn_zoo.bodies.call_export import CallExport
from keras_attn_zoo.support.compat import kept_whole
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Tensor
from keras_attn_zoo.translators.input_forms import source_batches, to_ids


class KerasMethods(CallExport):
    """Mixin for a translator, whose `preprocessor` makes ids of text; see `to_ids` for the forms of input.

    KerasHub's own pipeline, which this replaces, takes neither a `keras.utils.PyDataset` nor a generator nor ids beside
    a preprocessor. Positional arguments are in its order.
    """

    backbone: Any
    preprocessor: Any

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        validation_data: Any = None,
        validation_split: float | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Train; see `keras.Model.fit`. Kernels in int8 stay as they are, and a message says so.

        Args:
            x: a dict of "encoder_text" and "decoder_text", lists of strings; sources, with the translations as `y`;
                ids; or a source of batches of these: a `tf.data.Dataset`, a `keras.utils.PyDataset`, a PyTorch
                `DataLoader`, a generator.
            y: the next tokens, beside ids.
            batch_size: pairs per batch, unless x comes in batches; by default 32.
            sample_weight: `(batch, target)`, which marks the real tokens of ids; `(batch,)`, a weight for each pair.
            validation_data: like x, or a tuple of x, y and sample_weight.
            validation_split: part of x, text or ids, that is validated on.
            **kwargs: see `keras.Model.fit`.

        Raises:
            UserError: text that `to_ids` does not take; `class_weight`; an ensemble.
        """
        self._check_training(kwargs)
        self._warn_of_int8()  # type: ignore[attr-defined]
        x, y, sample_weight = self._labelled(x, y, sample_weight)
        if validation_data is not None:
            parts = keras.utils.unpack_x_y_sample_weight(validation_data)
            validation_data = self._labelled(*parts)
        with kept_whole(self):
            return keras.Model.fit(
                self,
                x=x,
                y=y,
                batch_size=batch_size,
                sample_weight=sample_weight,
                validation_data=validation_data,
                validation_split=validation_split or 0.0,
                **kwargs,
            )

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, sample_weight: Any = None, **kwargs: Any
    ) -> list[float] | dict[str, float]:
        """Return loss, perplexity and accuracy per token; see `fit` for the input, and `keras.Model.evaluate`."""
        if not kwargs.get("_use_cached_eval_dataset"):
            x, y, sample_weight = self._labelled(x, y, sample_weight)
        with kept_whole(self):
            return keras.Model.evaluate(self, x=x, y=y, batch_size=batch_size, sample_weight=sample_weight, **kwargs)

    def predict(self, x: Any = None, batch_size: int | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return logits and attention scores of given translations; see `fit` for x, and `keras.Model.predict`."""
        with kept_whole(self):
            return keras.Model.predict(self, x=self._ids(x)[0], batch_size=batch_size, **kwargs)

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any) -> Any:
        """Train on one batch, text or ids; see `keras.Model.train_on_batch`."""
        self._check_training(kwargs)
        return self._on_batch("train_on_batch", x, y, sample_weight, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any) -> Any:
        """Score one batch, text or ids; see `keras.Model.test_on_batch`."""
        return self._on_batch("test_on_batch", x, y, sample_weight, **kwargs)

    def predict_on_batch(self, x: Any, **kwargs: Any) -> dict[str, Any]:
        """Return logits and attention scores of one batch, text or ids; see `keras.Model.predict_on_batch`."""
        return self._on_batch("predict_on_batch", x, **kwargs)

    def _check_training(self, arguments):
        if not self.backbone.can_be_trained:
            raise UserError("an ensemble is not trained: train its members, then combine them.")
        if arguments.pop("class_weight", None) is not None:
            raise UserError(
                "class_weight weighs one class for each row, not tokens: leave it out, or give sample_weight."
            )

    def _labelled(self, *arguments):
        x, y, sample_weight = self._ids(*arguments)
        if isinstance(x, dict) and y is None:
            raise UserError("ids need labels, the next tokens: give them as y, as the preprocessor returns them.")
        return x, y, sample_weight

    def _ids(self, *arguments):
        return to_ids(self.preprocessor, self.backbone.vocabulary_sizes, *arguments)

    def _on_batch(self, method, x, *labels, **kwargs):
        if source_batches(x) is not None:
            raise UserError(f"{method} takes one batch; received {reprlib.repr(x)}: give a batch of it.")
        batch = self._labelled(x, *labels) if labels else self._ids(x)[:1]
        batch = keras.tree.map_structure(lambda one: None if one is None else keras.ops.convert_to_tensor(one), batch)
        with kept_whole(self):
            return getattr(keras.Model, method)(self, *batch, **kwargs)

    def token_weights(self, x: dict[str, Tensor], y: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Return the weight of every target token, 0 for padding if the inputs have a mask of it."""
        weights = super().token_weights(x, y, sample_weight)  # type: ignore[misc]
        mask = x.get("decoder_padding_mask")
        return weights if mask is None else weights * keras.ops.cast(mask, weights.dtype)
