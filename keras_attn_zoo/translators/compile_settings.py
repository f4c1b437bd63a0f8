"""What a translator was compiled with, as it is kept in `.keras` files and handed to clones."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

import keras

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Config, Tensor
from keras_attn_zoo.training.token_loss import token_losses


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TokenCrossEntropy(keras.losses.Loss):
    """Compute the loss of a translator per real target token, for models of Keras' own training.

    Args:
        label_smoothing: probability mass spread evenly over the vocabulary.

    Example:
        >>> loss = TokenCrossEntropy()(np.array([[1, 2]]), np.zeros((1, 2, 4)))  # all four words are equally probable
        >>> round(float(loss), 4)
        1.3863
    """

    def __init__(self, label_smoothing: float = 0.0) -> None:
        super().__init__(name="token_cross_entropy", reduction="mean_with_sample_weight")
        self.label_smoothing = label_smoothing

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the loss of every token `(batch, target)` for gold tokens and logits."""
        return token_losses(y_pred, y_true, self.label_smoothing)[0]

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {"label_smoothing": self.label_smoothing}


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class NoLossOfMixtures(keras.losses.Loss):
    """Refuse to compute a loss of the log-probabilities of a latent alignment, which have no gradient."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Raise a `UserError`."""
        raise UserError(
            "the log-probabilities of a latent alignment have no gradient, so that this clone cannot be trained: train "
            "the translator, or make another one of its body, by Translator(type(body).from_config(body.get_config()))."
        )


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class CompileSettings(Mapping[str, Any]):
    """Arguments of `Translator.compile`; as a mapping, those alone that every Keras model takes.

    `keras.models.clone_model` makes a plain functional model of a translator and compiles it with these: it gets the
    optimizer and the loss of the logits, and knows no search. With a latent alignment, its loss raises.

    Args:
        is_latent: whether the translator has a latent alignment.
        **arguments: arguments of `Translator.compile`.

    Example:
        >>> dict(CompileSettings(optimizer="adam", label_smoothing=0.1))
        {'optimizer': 'adam', 'loss': {'logits': <...TokenCrossEntropy object at ...>}}
    """

    def __init__(self, is_latent: bool = False, **arguments: Any) -> None:
        self.is_latent, self.arguments = is_latent, arguments

    def __getitem__(self, name: str) -> Any:
        """Return an argument that every Keras model takes."""
        smoothing = self.arguments.get("label_smoothing", 0.0)
        loss = NoLossOfMixtures() if self.is_latent else TokenCrossEntropy(smoothing)
        return {"optimizer": self.arguments["optimizer"], "loss": {"logits": loss}}[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of these."""
        return iter(("optimizer", "loss"))

    def __len__(self) -> int:
        """Count these."""
        return 2

    def get_config(self) -> Config:
        """Return all arguments, serialized."""
        arguments = {name: keras.saving.serialize_keras_object(value) for name, value in self.arguments.items()}
        return {"is_latent": self.is_latent, **arguments}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Create the settings from the result of `get_config`."""
        return cls(**keras.saving.deserialize_keras_object(config))
