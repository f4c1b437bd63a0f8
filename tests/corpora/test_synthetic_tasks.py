"""Documents with their summaries, and questions with their answers."""

import re

import pytest

from keras_attn_zoo.corpora.synthetic import generate_task
from keras_attn_zoo.support.errors import UserError

SENTENCE = re.compile(r"(?<=[.?!]) ")


@pytest.fixture(scope="module", params=["summarization", "dialogue"])
def task(request):
    return request.param


@pytest.fixture(scope="module")
def corpus(task):
    return generate_task(task, 150, 20, 30, seed=5, max_words=12)


def test_splits_share_no_source_and_a_larger_corpus_has_the_same_test_text(task, corpus):
    sources = [source for pairs in corpus.values() for source, _ in pairs]
    assert len(set(sources)) == len(sources) == 200
    assert {name: len(pairs) for name, pairs in corpus.items()} == {"train": 150, "valid": 20, "test": 30}
    assert generate_task(task, 10, 20, 30, seed=5, max_words=12) == {**corpus, "train": corpus["train"][:10]}
    assert generate_task(task, 10, 20, 30, seed=6, max_words=12)["test"] != corpus["test"]


def test_a_summary_is_the_marked_sentence_of_the_first_two():
    places = set()
    for source, summary in generate_task("summarization", 150, 0, 0, max_words=12)["train"]:
        sentences = SENTENCE.split(source)
        assert 3 <= len(sentences) <= 5 and source.count("In short:") == 1
        place = sentences.index(f"In short: {summary}")
        places.add(place)
        for sentence in sentences:
            assert len(re.findall(r"[\w'-]+|\.", sentence.removeprefix("In short: "))) <= 12
    assert places == {0, 1}


def test_an_answer_says_yes_to_the_last_question():
    """Of the question, all words but the auxiliary stand in the answer, the verb perhaps inflected."""
    inflected = 0
    for source, answer in generate_task("dialogue", 150, 0, 0, max_words=12)["train"]:
        remark, question = SENTENCE.split(source)
        assert remark.endswith(".") and question.endswith("?") and answer.startswith("Yes, ") and answer.endswith(".")
        auxiliary, *asked = question.rstrip("?").split()
        said = answer.removeprefix("Yes, ").rstrip(".").split()
        missing = [word for word in asked if word not in said and word.lower() not in said]
        assert len(missing) <= 1
        inflected += len(missing)
        assert auxiliary in {"Do", "Does", "Did"} or auxiliary.lower() in said
        assert not {"i", "me", "my", "we", "us", "our", "you", "your"} & {word.lower() for word in asked}
    assert inflected > 30


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
def test_what_cannot_be_generated_is_refused(arguments, text):
    with pytest.raises(UserError, match=text):
        generate_task(*arguments)
