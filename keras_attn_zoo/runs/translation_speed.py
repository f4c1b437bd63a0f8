"""How fast a translator searches."""

import time

from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.translators.translator import Translator


def translation_speed(translator: Translator, text: EncodedText, batch_size: int, runs: int = 3) -> float:
    """Return the target tokens per second of translating a text, the end tokens included: the mean of several runs.

    A run before them compiles, and is not counted.

    Args:
        translator: a `Translator`.
        text: what its `encode` returned.
        batch_size: sentences per batch.
        runs: how often the text is translated.
    """

    def translate():
        return sum(len(best.token_ids) for [best] in translator.translate(text, batch_size=batch_size))

    tokens = translate()
    began = time.perf_counter()
    for _ in range(runs):
        translate()
    return runs * tokens / (time.perf_counter() - began)
