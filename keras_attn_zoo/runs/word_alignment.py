"""From subword attention to word alignment."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.data.words import as_sentence, normalise, split_words
from keras_attn_zoo.evaluation.alignment_scores import AlignmentScores, aer_sums, alignment_scores
from keras_attn_zoo.evaluation.alignments import Alignment, WordPair
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import ForcedDecoding, Hypothesis, Translator
from keras_attn_zoo.viewing.word_attention import mean_of_heads, word_attention, word_links

# Links between words; the `layers` of `Translator.force`.
Links: TypeAlias = set[tuple[int, int]]
Layers: TypeAlias = str | Sequence[int] | None
LEAVE_OUT = ("end", "full_stop")


def align_words(
    translator: Translator,
    pairs: Sequence[WordPair],
    layers: Layers = None,
    heads: Sequence[int] | None = None,
    leave_out: Sequence[str] = ("end",),
    batch_size: int = 32,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Links], list[np.ndarray]]:
    """Align the words of given translations: forced decoding, mean over heads, argmax over source words.

    Args:
        translator: the translator.
        pairs: `(source words, target words)` per sentence.
        layers, heads: see `Translator.force`; attention is averaged over all of them.
        leave_out: what no word is aligned to: "end", the end of the source sentence, and "full_stop", which gets
            no link on the target side either. A word that attends most to what is left out gets its next best; a
            word that attends most to the end gets no link, unless the end is left out.
        batch_size, progress: see `Translator.force`.

    Returns:
        a list of sets of links `(source word, target word)`, and a list of word attention matrices
        `(target words, source words)`.

    Raises:
        UserError: a head that a layer does not have; an unknown `leave_out`; a sentence whose start is cut off.
    """
    _check_leave_out(leave_out)
    text = encode_words(translator, pairs)
    _check_start(translator, text)
    decoded = translator.force(text, layers=layers, heads=heads, batch_size=batch_size, progress=progress)
    return links_of(decoded, pairs, leave_out)


def encode_words(translator: Translator, pairs: Sequence[WordPair]) -> EncodedText:
    """Encode the sentences of word pairs, to be aligned more than once."""
    return translator.encode(*([as_sentence(pair[side]) for pair in pairs] for side in range(2)))


def score_links(
    links: Iterable[Links], pairs: Sequence[WordPair], gold: Sequence[Alignment], leave_out: Sequence[str] = ("end",)
) -> AlignmentScores:
    """Score links against gold ones, sentence by sentence; both omit those of a full stop if `leave_out` says so."""
    return alignment_scores(*_compared(links, pairs, gold, leave_out))


def sums_of_links(
    links: Iterable[Links], pairs: Sequence[WordPair], gold: Sequence[Alignment], leave_out: Sequence[str] = ("end",)
) -> list[list[float]]:
    """Return what the error rate of `score_links` is a ratio of, sentence by sentence; see `aer_sums`."""
    return aer_sums(*_compared(links, pairs, gold, leave_out))


def _compared(links, pairs, gold, leave_out):
    return [Alignment(sure=frozenset(one)) for one in links], without_left_out(gold, pairs, leave_out)


def without_left_out(
    alignments: Iterable[Alignment], pairs: Sequence[WordPair], leave_out: Sequence[str]
) -> list[Alignment]:
    """Return alignments without the links of a full stop, if `leave_out` says so; see `align_words`."""
    return [
        one.without(_ignored(source, leave_out), _ignored(target, leave_out))
        for one, (source, target) in zip(alignments, pairs, strict=True)
    ]


def align_by_layer(
    translator: Translator,
    pairs: Sequence[WordPair],
    gold: Sequence[Alignment],
    heads: Sequence[int] | None = None,
    leave_out: Sequence[str] = ("end",),
    batch_size: int = 32,
    progress: Callable[[int], None] | None = None,
) -> dict[int | str, tuple[list[Links], AlignmentScores]]:
    """Align given translations by each layer and by all together, to find the one that aligns best.

    Args:
        translator, pairs, heads, leave_out, batch_size, progress: see `align_words`.
        gold: the `Alignment` of every pair.

    Returns:
        `{layer: (links, scores)}`: layers counted from 0, "all" for the mean of all, and "prior" and "posterior" for
        a latent alignment; scores as returned by `alignment_scores`.
    """
    _check_leave_out(leave_out)
    backbone = translator.backbone
    every = range(len(backbone.cross_attention_heads))
    named: dict[int | str, Sequence[int]] = {**{layer: [layer] for layer in every}, "all": every}
    rows = {name: backbone.rows_of_heads(layers, heads, among=every) for name, layers in named.items()}
    text = encode_words(translator, pairs)
    _check_start(translator, text)
    decoded = translator.force(text, layers=every, batch_size=batch_size, progress=progress)
    found: dict[int | str, list[ForcedDecoding]] = {
        name: [dataclasses.replace(one, attention=one.attention[heads]) for one in decoded]
        for name, heads in rows.items()
    }
    for name, layer in {"prior": None, "posterior": "posterior"}.items() if backbone.latent_head is not None else ():
        found[name] = translator.force(text, layers=layer, batch_size=batch_size, progress=progress)
    links = {name: links_of(one, pairs, leave_out)[0] for name, one in found.items()}
    return {name: (one, score_links(one, pairs, gold, leave_out)) for name, one in links.items()}


def _ignored(words, leave_out):
    return [i for i, word in enumerate(words) if word == "." and "full_stop" in leave_out]


def _check_leave_out(leave_out):
    unknown = set(leave_out) - set(LEAVE_OUT)
    if unknown:
        raise UserError(f"leave_out must be among {', '.join(LEAVE_OUT)}; received {', '.join(sorted(unknown))}.")


def _check_start(translator, text):
    """Raise if a model reads the end of a sentence alone: its words are counted from the first."""
    truncation = translator.preprocessor.truncation
    if truncation.keep == "end" and truncation.source is not None:
        for number, ids in enumerate(text.sources, start=1):
            if len(ids) >= truncation.source - 1:
                raise UserError(
                    f"of sentence {number}, the model reads the last {len(ids) - 1} tokens: to align words, leave out "
                    "sentences of as many tokens or more."
                )


def links_of(
    decoded: Iterable[ForcedDecoding], pairs: Sequence[WordPair], leave_out: Sequence[str] = ("end",)
) -> tuple[list[Links], list[np.ndarray]]:
    """Return the links and the word attention of forced decodings, as `align_words` does."""
    links: list[Links] = []
    matrices = []
    for one, (source, target) in zip(decoded, pairs, strict=True):
        found, matrix = word_links(
            mean_of_heads(one.attention),
            one.source_tokens,
            one.tokens,
            source,
            target,
            to_end="end" not in leave_out,
            ignore_source=_ignored(source, leave_out),
            ignore_target=_ignored(target, leave_out),
        )
        links.append(found)
        matrices.append(matrix)
    return links, matrices


def sentence_picture(
    translator: Translator,
    sentence: str,
    target: str | None = None,
    subwords: bool = False,
    layers: Layers = None,
    heads: Sequence[int] | None = None,
    text: EncodedText | None = None,
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return the attention of one sentence, ready to draw.

    Args:
        translator: the translator.
        sentence: the source sentence.
        target: a given translation; by default the model's own.
        subwords: whether rows and columns are subwords instead of words.
        layers, heads: see `align_words`.
        text: the sentence, alone or with its translation, if it is encoded already.

    Returns:
        the matrix `(target, source)` and the words on its two axes.
    """
    if not normalise(sentence):
        raise UserError(f"the sentence {sentence!r} is empty: there is nothing to draw.")
    if text is None:
        text = translator.encode([sentence], None if target is None else [target])
    one: Hypothesis | ForcedDecoding | None = None
    rows = None
    if target is None:
        [[one]] = translator.translate(text, attention=True)
        target, rows = one.text, translator.backbone.rows_of_heads(layers, heads)
        # What the search chose: its text may have other subwords.
        text = dataclasses.replace(text, targets=[one.token_ids])
    if not normalise(target) and not subwords:
        raise UserError(f"the translation of {sentence!r} is empty: give one, or draw subwords.")
    if one is None or layers is not None:
        # A search keeps one layer's attention; forced decoding can return any layer's.
        [one] = translator.force(text, None if text.targets is not None else [target], layers, heads=heads)
        rows = None
    attention = mean_of_heads(one.attention, rows)
    if subwords:
        return attention, one.source_tokens, one.tokens
    if translator.preprocessor.truncation.keep == "end":
        # The words that the model has read, if it is not all of them.
        sentence = translator.preprocessor.source_tokenizer.detokenize(text.sources[0])
    source_words, target_words = split_words(sentence), split_words(target)
    matrix = word_attention(
        attention, one.source_tokens, one.tokens, source_words, target_words, source_reduction="sum"
    )
    return matrix, source_words, target_words
