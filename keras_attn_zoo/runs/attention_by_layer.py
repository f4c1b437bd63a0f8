"""Attention of every layer of a translator: statistics over a text, and matrices that are the same for any text."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.support.choices import MOST_TOKENS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators.translations import pieces
from keras_attn_zoo.translators.translator import Translator
from keras_attn_zoo.viewing.attention_statistics import LayerStatistics
from keras_attn_zoo.viewing.word_attention import mean_of_heads

# Where there is attention, and what each is called in a picture.
PLACES = {"encoder": "encoder", "decoder": "decoder", "cross": "encoder-decoder"}
# Positions of a matrix that is drawn; most sentences do not exceed them (Zeng, §4.2).
MOST_POSITIONS = 80


def statistics_by_layer(
    translator: Translator, text: ParallelText, places: Sequence[str], progress: Callable[[int], None] | None = None
) -> dict[str, LayerStatistics]:
    """Return statistics of the attention along the references of a text, by place.

    Args:
        text: the text. Pairs with an empty side are left out.
        places: of `PLACES`; those that the translator lacks are left out.
        progress: function called with the number of sentences done.

    Raises:
        UserError: no pair is left; a sentence is longer than the limit.
    """
    encoded = text.encoded_for(translator.preprocessor)
    kept = [i for i, pair in enumerate(text.pairs) if all(side.strip() for side in pair)]
    if not kept:
        raise UserError("every pair of the text has an empty side: give sentences and their translations.")
    outputs = translator.backbone.attention_outputs
    found = {
        place: LayerStatistics(len(outputs[place]), causal=place == "decoder") for place in places if outputs.get(place)
    }

    def read(weights):
        for place, statistics in found.items():
            statistics.add(weights[place])

    translator.attention_along(encoded.select(kept), read=read, batch_size=32, progress=progress)
    return found


def self_attention(
    translator: Translator, text: EncodedText, place: str, layer: int | None = None, heads: Sequence[int] | None = None
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return the self-attention of one sentence, ready to draw: the matrix, and the subwords of its columns and rows.

    In the decoder, a row is the position at which a subword is predicted, and a column the subword that is read there:
    the one before.

    Args:
        text: one sentence and its translation.
        place: "encoder" or "decoder".
        layer: counted from 0; by default the mean of all layers.
        heads: heads to average, counted from 0; by default all.

    Raises:
        UserError: there is no such place, layer or head.
    """
    weights = translator.attention_along(text)[0].get(place)
    if not weights:
        raise UserError(f"its {place} has no self-attention: choose another place.")
    if layer is not None and layer >= len(weights):
        raise UserError(f"there is no layer {layer + 1}: the {place} has {len(weights)}.")
    chosen = weights if layer is None else [weights[layer]]
    matrix = np.mean([_mean_of_heads(one, heads) for one in chosen], axis=0)
    preprocessor = translator.preprocessor
    source = pieces(preprocessor.source_tokenizer, text.sources[0])
    target = pieces(preprocessor.tokenizer, (text.targets or [[]])[0])
    return (matrix, source, source) if place == "encoder" else (matrix, ["<s>", *target[:-1]], target)


def _mean_of_heads(weights, heads):
    wrong = [head for head in heads or () if head >= len(weights)]
    if wrong:
        raise UserError(f"there is no head {wrong[0]}: a layer has {len(weights)}, counted from 0.")
    return mean_of_heads(weights, heads)


def matrices_by_position(
    translator: Translator, length: int | None = None, heads: Sequence[int] | None = None
) -> dict[str, dict[int, np.ndarray]]:
    """Return the weights of every layer whose attention does not depend on tokens: `{place: {layer: matrix}}`.

    Args:
        length: number of positions, the size of the matrices; by default `MOST_POSITIONS`, or as many as the
            translator accepts.
        heads: heads to average, counted from 0; by default all.

    Raises:
        UserError: the attention of every layer depends on tokens; the length is beyond the translator's limit; a head
            that does not exist.
    """
    preprocessor = translator.preprocessor
    most = min(preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length)
    length = min(MOST_POSITIONS, most) if length is None else length
    if length > most:
        text = f"{length} positions are more than the {most} that the model accepts: ask for fewer"
        if length > min(MOST_TOKENS, translator.backbone.longest_sentence or MOST_TOKENS):
            raise UserError(f"{text}.")
        raise UserError(
            f"{text}, or call the translator's set_max_tokens({length}).", f"{text}, or set --max-tokens {length}."
        )
    description = translator.description("")
    layers = {
        place: [number for number, mechanism in enumerate(mechanisms) if mechanism.by_position]
        for place, mechanisms in description.places.items()
        if place in ("encoder", "decoder")
    }
    if not any(layers.values()):
        raise UserError("every attention of this model depends on the tokens, so there is no matrix to draw.")
    source, target = (subwords.end for subwords in translator.preprocessor.subwords)
    models = translator.preprocessor.models
    weights = translator.attention_along(EncodedText([[source] * length], [[target] * length], models))[0]
    found: dict[str, dict[int, np.ndarray]] = {}
    for place, numbers in layers.items():
        for number in numbers:
            found.setdefault(place, {})[number] = _mean_of_heads(weights[place][number], heads)
    return found
