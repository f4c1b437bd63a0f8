"""The whole search of a translator as a SavedModel, which TensorFlow runs without this package."""

import errno
import os
from typing import Any

import keras

from keras_attn_zoo.decoding import Sampling
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, atomic_path, check_new_folder
from keras_attn_zoo.translators.preprocessor import check_exported
from keras_attn_zoo.translators.search import search


def export_to_saved_model(translator: Any, folder: PathLike) -> None:
    """Write a translator as a SavedModel from padded source ids to translations.

    Use it to serve any system of the zoo, whatever its body and attention. The endpoint "translate" takes
    `encoder_token_ids` `(batch, length)`, int32, and `encoder_padding_mask`, bool, true on real tokens; each sentence
    ends with the end token. It returns "token_ids" `(batch, beams, length)`, the start token first, and "scores"
    `(batch, beams)`. The search is the translator's sampler, and translations are as long as its preprocessor allows.
    The subword models are in `assets.extra`, and so are truecasers, if there are any.

    Args:
        translator: a `Translator` with its preprocessor.
        folder: where to write; there must not be anything yet.

    Raises:
        UserError: another backend than TensorFlow; no preprocessor; the folder exists, or cannot be written.

    Example:
        >>> export_to_saved_model(translator, "served")  # doctest: +SKIP
    """
    if keras.config.backend() != "tensorflow":
        raise UserError("a SavedModel can be written only under TensorFlow: run the export with --backend tensorflow.")
    check_exported(translator.preprocessor)
    if isinstance(translator.sampler, Sampling):
        raise UserError("a SavedModel draws no translations: compile the translator with a beam search first.")
    check_new_folder(folder)
    import tensorflow as tf

    tokenizer, length = translator.preprocessor.tokenizer, translator.preprocessor.decoder_sequence_length

    def translate(encoder_token_ids, encoder_padding_mask):
        shape = (tf.shape(encoder_token_ids)[0], length)
        first = tf.broadcast_to(tf.range(length) == 0, shape)
        inputs = {
            "encoder_token_ids": encoder_token_ids,
            "encoder_padding_mask": encoder_padding_mask,
            "decoder_token_ids": tf.where(first, tokenizer.start_token_id, 0),
            "decoder_padding_mask": first,
        }
        found = search(translator, inputs, translator.sampler, (tokenizer.end_token_id,), translator.search_top_k)
        return {name: found[name] for name in ("token_ids", "scores")}

    signature = [
        tf.TensorSpec((None, None), tf.int32, "encoder_token_ids"),
        tf.TensorSpec((None, None), tf.bool, "encoder_padding_mask"),
    ]
    with atomic_path(folder) as aside:
        # Keras' own archive would write the model's call too, with inputs that a Transformer does not take.
        module = tf.Module()
        module.weights = [variable.value for variable in translator.variables]
        module.translate = tf.function(translate, input_signature=signature)
        try:
            tf.saved_model.save(module, str(aside), signatures={"translate": module.translate})
        except tf.errors.ResourceExhaustedError as error:
            if os.strerror(errno.ENOSPC) not in str(error):
                raise
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
        extra = aside / "assets.extra"
        extra.mkdir()
        for side, one in (("source", translator.preprocessor.source_tokenizer), ("target", tokenizer)):
            (extra / f"{side}.spm").write_bytes(one.proto)
            if one.truecaser is not None:
                (extra / f"{side}.truecase").write_bytes(one.truecaser.model_bytes)
