"""The translator's classes for Transformers: KerasHub finds the parts of a preset by the class of its body."""

from typing import Any

import keras

from keras_attn_zoo.bodies.transformer_backbone import TransformerBackbone
from keras_attn_zoo.translators.preprocessor import TranslationPreprocessor
from keras_attn_zoo.translators.tokenizer import TranslationTokenizer
from keras_attn_zoo.translators.translator import Translator


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TransformerTokenizer(TranslationTokenizer):
    """The `TranslationTokenizer` of a Transformer's preset."""

    backbone_cls = TransformerBackbone


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TransformerPreprocessor(TranslationPreprocessor):
    """The `TranslationPreprocessor` of a Transformer's preset."""

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    @classmethod
    def of(cls, preprocessor: Any) -> Any:
        """Convert the preprocessor of another body's translator into a Transformer's."""

        def convert(tokenizer):
            return TransformerTokenizer(
                tokenizer.proto, tokenizer.truecaser, config_file=tokenizer.config_file, name=tokenizer.name
            )

        source, target = preprocessor.source_tokenizer, preprocessor.tokenizer
        tokenizer = convert(target)
        return cls(
            tokenizer if source is target else convert(source),
            tokenizer,
            encoder_sequence_length=preprocessor.encoder_sequence_length,
            decoder_sequence_length=preprocessor.decoder_sequence_length,
            truncation=preprocessor.truncation,
            name=preprocessor.name,
        )


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TransformerTranslator(Translator):
    """A `Translator` with a `TransformerBackbone`, created by `Translator(backbone, ...)` or `Translator.from_preset`.

    Example:
        >>> TransformerTranslator(TransformerBackbone(100, 100, width=8, num_heads=2), preprocessor=None)
    """

    backbone_cls = TransformerBackbone
    preprocessor_cls = TransformerPreprocessor

    def __init__(self, backbone: Any, preprocessor: Any = None, **kwargs: Any) -> None:
        if preprocessor is not None and not isinstance(preprocessor, TransformerPreprocessor):
            preprocessor = TransformerPreprocessor.of(preprocessor)
        super().__init__(backbone, preprocessor, **kwargs)
