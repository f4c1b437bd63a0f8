"""The generated corpora: the same text for all time, splits, files, errors."""

import hashlib
import json
import re

import pytest

from keras_attn_zoo.corpora.synthetic import generate_corpus, generate_splits, generate_task, write_corpus
from keras_attn_zoo.data.words import split_words
from keras_attn_zoo.evaluation.alignments import read_alignments
from keras_attn_zoo.support.errors import UserError

SENTENCE = re.compile(r"(?<=[.?!]) ")


@pytest.fixture(scope="module")
def corpus():
    return generate_corpus(4000, seed=11)


def checksum(rows):
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def test_the_text_and_its_links_are_those_of_every_version(corpus):
    """Results of runs on it are compared over years. Whatever changes a single word or link is seen here."""

    def of(pairs):
        links = ((sorted(one.alignment), sorted(one.possible), one.construction) for one in pairs)
        return checksum([(one.source_words, one.target_words, *own) for one, own in zip(pairs, links, strict=True)])

    assert of(corpus) == "c638ad23848140a9"
    assert of(generate_corpus(400, seed=1, max_words=10, words_per_kind=3)) == "5d947dd055b551a3"
    assert checksum(generate_task("summarization", 100, 10, 10, seed=3)) == "124bb680da5c68c4"
    assert checksum(generate_task("dialogue", 100, 10, 10, seed=3)) == "5c672595f5a45f90"


def test_words_are_those_of_the_text_and_links_are_between_them(corpus):
    for pair in corpus:
        for text, words in ((pair.source, pair.source_words), (pair.target, pair.target_words)):
            assert split_words(text) == list(words) and 4 <= len(words) <= 25
        sizes = (len(pair.source_words), len(pair.target_words))
        links = pair.alignment | pair.possible
        assert all(0 <= j < sizes[0] and 0 <= i < sizes[1] for j, i in links)
        assert not pair.alignment & pair.possible


def test_a_sentence_that_is_drawn_again_is_left_out(corpus, monkeypatch):
    drawn = iter(pair for pair in corpus[:10] for _ in range(2))
    monkeypatch.setattr(
        "keras_attn_zoo.corpora.synthetic.synthetic_corpus.SentenceSampler.sentence", lambda self: next(drawn)
    )
    assert generate_corpus(10) == corpus[:10]


def test_splits_are_disjoint_share_words_and_the_test_text_is_drawn_first():
    splits = generate_splits(3000, 100, 200, seed=4)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [3000, 100, 200]
    sources = [pair.source for pairs in splits.values() for pair in pairs]
    assert len(set(sources)) == len(sources)
    known = {word.lower() for pair in splits["train"] for word in pair.source_words}
    words = [word.lower() for pair in splits["test"] for word in pair.source_words]
    assert sum(word in known for word in words) > 0.95 * len(words)
    assert generate_splits(20, 100, 200, seed=4) == {**splits, "train": splits["train"][:20]}
    assert generate_splits(20, 100, 200, seed=5)["test"] != splits["test"]


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
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UserError, match="not an empty folder"):
        write_corpus(folder, generate_splits(2, 1, 1))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(size=-1), "size is -1"),
        (dict(size=2.5), "size is 2.5"),
        (dict(size=1, seed=None), "seed is None"),
        (dict(size=1, min_words=9, max_words=5), "max_words is 5"),
        (dict(size=1, min_words=90, max_words=95), "no more sentences of 90 to 95 words"),
        (dict(size=1, words_per_kind=0), "words_per_kind is 0"),
    ],
)
def test_what_cannot_be_made_raises(arguments, message):
    with pytest.raises(UserError, match=message):
        generate_corpus(**arguments)


def test_few_words_per_kind_make_a_small_lexicon():
    counts = [
        len({word for pair in generate_corpus(600, 1, max_words=10, words_per_kind=n) for word in pair.source_words})
        for n in (3, 12, None)
    ]
    assert counts[0] < 500 < 2 * counts[0] < counts[1] < counts[2]


# Other tasks


@pytest.mark.parametrize("task", ["summarization", "dialogue"])
def test_splits_of_a_task_share_no_source_and_a_larger_corpus_has_the_same_test_text(task):
    corpus = generate_task(task, 150, 20, 30, seed=5, max_words=12)
    sources = [source for pairs in corpus.values() for source, _ in pairs]
    assert len(set(sources)) == len(sources) == 200
    assert {name: len(pairs) for name, pairs in corpus.items()} == {"train": 150, "valid": 20, "test": 30}
    assert generate_task(task, 10, 20, 30, seed=5, max_words=12) == {**corpus, "train": corpus["train"][:10]}


def test_a_summary_is_the_marked_sentence_of_the_first_two():
    places = set()
    for source, summary in generate_task("summarization", 150, 0, 0, max_words=12)["train"]:
        sentences = SENTENCE.split(source)
        assert 3 <= len(sentences) <= 5 and source.count("In short:") == 1
        places.add(sentences.index(f"In short: {summary}"))
        for sentence in sentences:
            assert len(re.findall(r"[\w'-]+|\.", sentence.removeprefix("In short: "))) <= 12
    assert places == {0, 1}


def test_an_answer_says_yes_to_the_last_question():
    """Of the question, all words but the auxiliary stand in the answer, the verb perhaps inflected."""
    for source, answer in generate_task("dialogue", 150, 0, 0, max_words=12)["train"]:
        remark, question = SENTENCE.split(source)
        assert remark.endswith(".") and question.endswith("?") and answer.startswith("Yes, ") and answer.endswith(".")
        auxiliary, *asked = question.rstrip("?").split()
        said = answer.removeprefix("Yes, ").rstrip(".").split()
        assert sum(word not in said and word.lower() not in said for word in asked) <= 1
        assert auxiliary in {"Do", "Does", "Did"} or auxiliary.lower() in said
        assert not {"i", "me", "my", "we", "us", "our", "you", "your"} & {word.lower() for word in asked}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("translation", 1, 1, 1), "for the task 'translation': choose from summarization, dialogue"),
        (("dialogue", 1, -1, 1), "valid is -1: give an integer of at least 0"),
        (("dialogue", 1, 1, 1, 0, 0), "max_words is 0: give an integer of at least 1"),
        (("dialogue", 1, 1, 1, 0, 2), "no sentence of at most 2 words: raise max_words"),
        (("dialogue", 1, 1, 1, 0, 9, 0), "words_per_kind is 0"),
    ],
)
def test_a_task_that_cannot_be_generated_is_refused(arguments, text):
    with pytest.raises(UserError, match=text):
        generate_task(*arguments)
