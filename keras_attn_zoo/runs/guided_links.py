"""Links of the training text for guided alignment: of a file or of an aligner, and from words to subwords."""

from pathlib import Path
from typing import cast

import numpy as np

from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.data.cache import EncodedCorpus, fingerprint
from keras_attn_zoo.data.splits import random_split
from keras_attn_zoo.data.subword_links import SubwordLinks, build_subword_links
from keras_attn_zoo.data.text_files import read_lines
from keras_attn_zoo.data.words import normalise, split_words
from keras_attn_zoo.evaluation.aligners import align_text
from keras_attn_zoo.evaluation.alignments import check_inside, lowest_position, parse_alignment, tell_base
from keras_attn_zoo.runs.preparation import PreparedData, cache_name
from keras_attn_zoo.runs.settings import TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import PathLike, shown
from keras_attn_zoo.support.locks import locked
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.viewing.word_attention import group_pieces


def check_links(system: System, corpus: Corpus) -> None:
    """Raise unless a file of links that a system is trained with, if there is one, fits the training text.

    Raises:
        UserError: another number of lines; what is no link, or points past the last word: names the line.
    """
    training = system.training
    if training.guided_links is not None:
        lowest = lowest_position(_links_of_file(corpus, training))
        if training.guided_index_base == 0:
            tell_base(training.guided_links, lowest, "--index-base")


def links_key(training: TrainingSettings) -> str | None:
    """Return a fingerprint of where a training takes its links from; None without guided alignment."""
    if not training.guided_alignment:
        return None
    if training.guided_links is None:
        return fingerprint([], (), [training.guided_aligner, training.guided_symmetrization])[:12]
    return fingerprint([], (), [sha256(Path(training.guided_links)), training.guided_index_base])[:12]


def prepare_links(corpus: Corpus, system: System, data: PreparedData, folder: PathLike) -> SubwordLinks | None:
    """Link the subwords of the training text, or open what exists; None without guided alignment.

    Words are those between spaces in a file of links; for a statistical aligner, punctuation is split off.

    Args:
        corpus: the text.
        system: the system.
        data: what `prepare_data` made of the text.
        folder: the folder that it was given.

    Raises:
        UserError: see `align_text`.
    """
    key = links_key(system.training)
    if key is None:
        return None
    # With subword sampling, guided alignment is refused.
    place, text = Path(folder) / data.key, cast("EncodedCorpus", data.train)
    with locked(place, wait=True):
        links = _linked_tokens(corpus, system, text, data.subwords)
        return build_subword_links(place / f"{cache_name('train', system.data)}-links-{key}", text, key, links)


def _linked_tokens(corpus, system, text, subwords):
    """Yield the places of linked tokens in each pair of an encoded text, target first."""
    training, truncation = system.training, system.data.truncation
    kept = set(text.lines.tolist())
    pairs = [tuple(map(normalise, pair)) for number, pair in enumerate(corpus.splits.train) if number in kept]
    if training.guided_links is None:
        words = [(split_words(source), split_words(target)) for source, target in pairs]
        links = align_text(training.guided_aligner, words, method=training.guided_symmetrization)
    else:
        words = [(source.split(), target.split()) for source, target in pairs]
        links = (one.sure for number, one in enumerate(_links_of_file(corpus, training)) if number in kept)
    sides = list(zip(subwords, (truncation.source_ids, truncation.target_ids), strict=True))
    with progress_bar("linking the subwords", len(pairs), "pair") as show:
        for done, (pair, of_pair, linked) in enumerate(zip(pairs, words, links, strict=True), start=1):
            groups = [
                cut(group_pieces(model.pieces(model.encode([sentence])[0]), own, sentence))
                for (model, cut), sentence, own in zip(sides, pair, of_pair, strict=True)
            ]
            yield _places(linked, *groups)
            if show:
                show(done)


def _places(links, source_groups, target_groups):
    """The places of linked tokens `(links, 2)`, target first, from links between words and the word of each token."""
    # The last row and column are of no word, -1.
    words = np.zeros((max(target_groups) + 2, max(source_groups) + 2), bool)
    for j, i in links:
        # Words behind the cut have no tokens.
        if i < len(words) - 1 and j < words.shape[1] - 1:
            words[i, j] = True
    return np.argwhere(words[np.ix_(target_groups, source_groups)])


class _Lines:
    """The lines of a file with their numbers from 1; can be iterated repeatedly."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        return enumerate(read_lines(self.path), start=1)


def _links_of_file(corpus, training):
    """Yield the links of each training pair, from a file with a line for each pair of the text."""
    path, base, lines = training.guided_links, training.guided_index_base, _Lines(training.guided_links)
    description, splits = corpus.description, corpus.splits
    # Of a random split, the file has all parts, of which the training part is drawn as that of the text was.
    is_split = "split_seed" in description
    given, wanted = (sum(1 for part in parts for _ in part) for parts in ([lines], splits if is_split else splits[:1]))
    if given != wanted:
        raise UserError(
            f"{shown(path)} has {counted(given, 'line')}, but the training text {counted(wanted, 'sentence pair')}: "
            "give one line per pair."
        )
    if is_split:
        lines = random_split(lines, seed=description["split_seed"], max_held_out=description.get("max_held_out")).train
    for (number, line), pair in zip(lines, splits.train, strict=True):
        place = f"{shown(path)}, line {number}: "
        links = parse_alignment(line, base, place=place)
        check_inside(links, tuple(len(sentence.split()) for sentence in pair), place, base)
        yield links
