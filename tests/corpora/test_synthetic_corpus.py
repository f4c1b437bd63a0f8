"""The corpus: agreement, determinism, splits, files."""

import re
from itertools import pairwise

import pytest

from keras_attn_zoo.corpora.synthetic import (
    SyntheticPair,
    generate_corpus,
    generate_splits,
    lexicon,
    write_corpus,
)
from keras_attn_zoo.data.words import split_words
from keras_attn_zoo.evaluation.alignments import read_alignments
from keras_attn_zoo.support.errors import UserError
from tests.corpora.written import (
    NOUNS,
    VERBS,
)


@pytest.fixture(scope="module")
def corpus():
    return generate_corpus(4000, seed=11)


def test_the_same_numbers_give_the_same_corpus_and_more_start_with_fewer(corpus):
    assert generate_corpus(300, seed=11) == corpus[:300]
    assert generate_corpus(50, seed=12) != corpus[:50]


def test_words_links_and_lengths(corpus):
    for pair in corpus:
        assert split_words(pair.source) == list(pair.source_words)
        assert split_words(pair.target) == list(pair.target_words)
        sizes = (len(pair.source_words), len(pair.target_words))
        assert all(4 <= size <= 25 for size in sizes)
        links = pair.alignment | pair.possible
        assert all(0 <= j < sizes[0] and 0 <= i < sizes[1] for j, i in links)
        assert not pair.alignment & pair.possible
        assert (sizes[0] - 1, sizes[1] - 1) in pair.alignment


def test_raw_text_is_ordinary(corpus):
    for pair in corpus:
        for text in (pair.source, pair.target):
            assert text[0].isupper()
            assert re.fullmatch(r"\S.*[.?!]", text)
            assert not re.search(r"\s[,.?!]|[,.?!]{2}|  ", text)


def test_a_german_sentence_that_is_drawn_again_is_left_out(monkeypatch):
    drawn = iter(pair for pair in generate_corpus(10) for _ in range(2))
    monkeypatch.setattr(
        "keras_attn_zoo.corpora.synthetic.synthetic_corpus.SentenceSampler.sentence", lambda self: next(drawn)
    )
    assert len({pair.source for pair in generate_corpus(10)}) == 10


def test_no_german_sentence_comes_twice(corpus):
    assert len({pair.source for pair in corpus}) == len(corpus)


def test_word_types_are_many(corpus):
    assert len({word for pair in corpus for word in pair.source_words}) > 4500
    assert len({word for pair in corpus for word in pair.target_words}) > 2500


def test_every_pattern_occurs_and_lengths_vary(corpus):
    patterns = {pair.construction for pair in corpus}
    assert len(patterns) == 19
    lengths = [len(pair.source_words) for pair in corpus]
    assert 10 <= sum(lengths) / len(lengths) <= 14
    assert sum(length >= 18 for length in lengths) > 0.1 * len(lengths)


def test_content_words_are_linked_to_their_dictionary_translation(corpus):
    """Every link of a German noun goes to a word of one of its English forms."""
    english = {}
    for noun in NOUNS.values():
        for forms, translation in ((noun.singular, noun.english), (noun.plural or {}, noun.english_plural)):
            for form in forms.values():
                english.setdefault(form, set()).update(translation.split())
    checked = 0
    for pair in corpus:
        linked = {}
        for j, i in pair.alignment:
            linked.setdefault(j, set()).add(pair.target_words[i].lower())
        for j, word in enumerate(pair.source_words[1:], start=1):
            title = {"Herr", "Herrn", "Frau"} & {word, pair.source_words[j - 1]}
            if word in english and not title:
                known = {form.lower() for form in english[word]}
                plain = {re.sub(r"'s?$", "", form) for form in linked[j]} | linked[j]
                assert plain & known, (pair.source, word, linked[j])
                checked += 1
    assert checked > 5000


def test_articles_agree_after_dative_prepositions(corpus):
    """After "mit", "von" and "bei" no determiner has a nominative or accusative form."""
    wrong = {"das", "die", "ein", "eine", "einen"}  # "den" may be a dative plural
    for pair in corpus:
        for first, second in pairwise(word.lower() for word in pair.source_words):
            if first in ("mit", "von", "bei"):
                assert second not in wrong, pair.source


def test_verb_is_last_in_subordinate_clauses(corpus):
    finite = {form for v in VERBS.values() for form in (*v.present, *v.preterite)}
    finite |= {v.prefix + form for v in VERBS.values() for form in (*v.present, *v.preterite)}
    others = [lexicon.auxiliary(name) for name in ("haben", "sein", "werden")]
    others += [modal.german for modal in lexicon.modals().values()]
    finite |= {form for v in others for form in (*v.present, *v.preterite)}
    found = 0
    for pair in corpus:
        match = re.search(r", (weil|obwohl|bevor|falls) ([^,]+)\.$", pair.source)
        if match:
            assert match[2].split()[-1] in finite, pair.source
            found += 1
    assert found > 50


def test_splits_are_disjoint_and_share_words():
    splits = generate_splits(3000, 100, 200, seed=4)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [3000, 100, 200]
    sources = [pair.source for pairs in splits.values() for pair in pairs]
    assert len(set(sources)) == len(sources)
    known = {word.lower() for pair in splits["train"] for word in pair.source_words}
    words = [word.lower() for pair in splits["test"] for word in pair.source_words]
    assert sum(word in known for word in words) > 0.95 * len(words)


def test_more_training_pairs_leave_the_test_set_alone():
    small, large = generate_splits(20, 10, 10), generate_splits(60, 10, 10)
    assert small["test"] == large["test"]
    assert small["train"] == large["train"][:20]


def test_files_say_what_the_pairs_say(tmp_path):
    splits = generate_splits(30, 5, 7, seed=2)
    folder = tmp_path / "corpus"
    write_corpus(folder, splits)
    assert len(list(folder.iterdir())) == 9
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    for name, pairs in splits.items():
        lines = {side: (folder / f"{name}.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en")}
        assert lines["de"] == [pair.source for pair in pairs]
        assert lines["en"] == [pair.target for pair in pairs]
        alignments = read_alignments(folder / f"{name}.align")
        assert [alignment.sure for alignment in alignments] == [pair.alignment for pair in pairs]
        possible = [alignment.possible - alignment.sure for alignment in alignments]
        assert possible == [pair.possible for pair in pairs]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="not an empty folder"):
        write_corpus(tmp_path, generate_splits(2, 1, 1))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_limits_of_length_hold():
    pairs = generate_corpus(30, seed=1, min_words=15, max_words=18)
    assert all(15 <= len(pair.source_words) <= 18 and 15 <= len(pair.target_words) <= 18 for pair in pairs)


def test_a_pair_is_a_value():
    first, second = generate_corpus(1), generate_corpus(1)
    assert isinstance(first[0], SyntheticPair)
    assert len({first[0], second[0]}) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(size=-1), "size is -1"),
        (dict(size=2.5), "size is 2.5"),
        (dict(size=1, seed=None), "seed is None"),
        (dict(size=1, min_words=9, max_words=5), "max_words is 5"),
        (dict(size=1, min_words=90, max_words=95), "no more sentences of 90 to 95 words"),
    ],
)
def test_what_cannot_be_made_raises(arguments, message):
    with pytest.raises(UserError, match=message):
        generate_corpus(**arguments)


def test_few_words_per_kind_make_a_small_lexicon():
    counts = [
        len(
            {word for pair in generate_corpus(600, 1, max_words=10, words_per_kind=kinds) for word in pair.source_words}
        )
        for kinds in (3, 12, None)
    ]
    assert counts[0] < 500 < 2 * counts[0] < counts[1] < counts[2]
    # None of them lies outside the whole lexicon's grammar: gold links still lead from each word to words.
    for pair in generate_corpus(50, 2, words_per_kind=3):
        assert {j for j, _ in pair.alignment | pair.possible} <= set(range(len(pair.source_words)))
    with pytest.raises(UserError, match="words_per_kind is 0"):
        generate_corpus(1, words_per_kind=0)
