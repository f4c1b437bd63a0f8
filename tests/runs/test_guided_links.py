"""Guided alignment of a run: links of a file and of an aligner, from words to subwords, and what comes of them."""

import numpy as np
import pytest

from keras_attn_zoo.corpora.corpus import Corpus, corpus_from_files
from keras_attn_zoo.data.splits import Splits
from keras_attn_zoo.evaluation.aligners import align_text
from keras_attn_zoo.evaluation.alignments import write_alignments
from keras_attn_zoo.runs.guided_links import prepare_links
from keras_attn_zoo.runs.initial_model import system_from
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.preparation import check_system, prepare_data
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import check_texts, train_system
from keras_attn_zoo.runs.word_alignment import align_words, score_links
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.run_log import read_log, read_steps
from tests.tiny_run import TINY, interrupted_after, make_pairs

pytestmark = pytest.mark.one_backend
# Of letters, so that a word is many subwords; a pair is left out for each of three reasons.
PAIRS = [
    ("ab c, de", "Fg hi, j."),
    ("ab", ""),
    ("c de c", "j hi"),
    ("c de c", "j hi"),
    ("ab c de ab c de ab", "fg hi"),
    ("de  ab", "j fghij"),
    ("c c ab", "hi fg"),
]
LETTERS = TINY.override(model_type="char", drop_duplicates=True, max_words=6, teacher_forcing=1, max_tokens=30)
KEPT = [0, 2, 5, 6]


def text_of(pairs, description=None):
    return Corpus(Splits(pairs, make_pairs(4, 200), make_pairs(4, 400)), description or {"train": ["a"]})


def linked(corpus, system, folder):
    """The places of linked tokens in each pair of the encoded text, target first."""
    data = prepare_data(corpus, system.data, folder)
    links = prepare_links(corpus, system, data, folder)
    shape = data.train.target_lengths.max() + 1, data.train.source_lengths.max() + 1
    return [set(map(tuple, np.argwhere(one))) for one in links.matrices(np.arange(len(links)), *shape)]


def by_letters(pair, words, links):
    """The same of one pair in a model of letters, whose tokens are a mark of space and the letters of each word."""
    owners = []
    for sentence, of_side in zip(pair, words, strict=True):
        letters = [number for number, word in enumerate(of_side) for _ in word]
        owner = []
        for word in sentence.split():
            # The mark in front of a word is its own.
            owner += [letters[0], *letters[: len(word)]]
            letters = letters[len(word) :]
        owners.append(owner)
    source, target = owners
    return {(i, j) for i, word in enumerate(target) for j, other in enumerate(source) if (other, word) in links}


def write_links(path, links, base=0):
    write_alignments(path, links, index_base=base)
    return str(path)


@pytest.mark.parametrize("base", [0, 1])
def test_a_subword_is_linked_as_its_word_is(base, tmp_path):
    rng = np.random.default_rng(7)
    words = [tuple(sentence.split() for sentence in pair) for pair in PAIRS]
    links = [
        {(j, i) for j in range(len(source)) for i in range(len(target)) if rng.random() < 0.4}
        for source, target in words
    ]
    file = write_links(tmp_path / "links", links, base)
    system = LETTERS.override(guided_alignment=0.1, guided_links=file, guided_index_base=base)
    found = linked(text_of(PAIRS), system, tmp_path)
    assert found == [by_letters(PAIRS[n], words[n], links[n]) for n in KEPT]
    assert all(found)


def test_of_text_that_is_cut_the_rest_keeps_its_links(tmp_path):
    """Sources lose their beginning, targets their end."""
    links = [{(0, 0), (2, 1)}, set(), {(0, 1), (1, 0)}, {(0, 0)}, {(6, 1)}, {(0, 1), (1, 0)}, {(2, 1)}]
    system = LETTERS.override(guided_alignment=0.1, guided_links=write_links(tmp_path / "links", links))
    whole = linked(text_of(PAIRS), system, tmp_path)
    cut = system.override(truncate_source=7, truncate_target=6, truncate_keep="end")
    words = [tuple(sentence.split() for sentence in PAIRS[n]) for n in KEPT]
    lost = [max(0, sum(1 + len(word) for word in source) - 5) for source, _ in words]
    expected = [{(i, j - n) for i, j in one if i < 4 and j >= n} for one, n in zip(whole, lost, strict=True)]
    assert linked(text_of(PAIRS), cut, tmp_path) == expected != whole
    assert max(lost) and any(expected)


def test_links_follow_a_random_split(tmp_path):
    pairs = [(f"a{number} b", f"c{number} d") for number in range(30)]
    for side, name in enumerate(("de", "en")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    corpus = corpus_from_files((tmp_path / "de", tmp_path / "en"), seed=3)
    # Those of a line are the bits of its number.
    places = [(j, i) for j in (0, 1) for i in (0, 1)]
    links = [{place for bit, place in enumerate(places) if number >> bit & 1} for number in range(30)]
    system = TINY.override(guided_alignment=0.1, guided_links=write_links(tmp_path / "links", links))
    numbers = [int(source.split()[0][1:]) for source, _ in corpus.splits.train]
    assert len(numbers) == 24 and numbers != list(range(24))
    found = linked(corpus, system, tmp_path / "data")
    assert found == [{(i, j) for j, i in links[number]} for number in numbers]


def test_an_aligner_links_words_without_punctuation(tmp_path, caplog):
    pairs = [("Das Haus.", "The house."), ("Das Buch!", "The book!"), ("Ein Buch.", "A book."), ("Ein Haus", "A house")]
    system = LETTERS.override(guided_alignment=0.1, guided_aligner="ibm1", guided_symmetrization="intersection")
    words = [tuple(sentence.replace(".", " .").replace("!", " !").split() for sentence in pair) for pair in pairs]
    with caplog.at_level("INFO"):
        found = linked(text_of(pairs), system, tmp_path)
    links = align_text("ibm1", words, method="intersection")
    assert found == [by_letters(*parts) for parts in zip(pairs, words, links, strict=True)]
    assert "training ibm1 on 4 sentence pairs" in caplog.text
    caplog.clear()
    linked(text_of(pairs), system, tmp_path)
    assert "ibm1" not in caplog.text


LEARNING = TINY.override(
    epochs=4, validations_per_epoch=1, learning_rate=3e-2, schedule="constant", hidden_dim=16, teacher_forcing=1
)


@pytest.fixture(scope="module")
def guided(tmp_path_factory):
    """The system of a run with links of a file: the words stand in reverse order."""
    folder = tmp_path_factory.mktemp("links")
    links = [{(j, len(source.split()) - 1 - j) for j in range(len(source.split()))} for source, _ in make_pairs(96)]
    return LEARNING.override(guided_alignment=2, guided_links=write_links(folder / "all.align", links))


@pytest.fixture(scope="module")
def guided_run(guided, corpus, tmp_path_factory):
    return train_system(guided, corpus, tmp_path_factory.mktemp("guided") / "run")


def test_a_guided_run_aligns_better(guided_run, corpus, tmp_path):
    pairs, gold = [pair[:2] for pair in corpus.gold], [links for *_, links in corpus.gold]
    before, after = (
        score_links(align_words(load_translator(run.path), pairs)[0], pairs, gold).aer
        for run in (train_system(LEARNING, corpus, tmp_path / "run"), guided_run)
    )
    assert after < 0.2 < 0.4 < before
    steps = read_steps(guided_run.log)
    assert steps[-1]["alignment_loss"] < 0.7 * steps[0]["alignment_loss"]
    rounds = [line for line in read_log(guided_run.log) if "round" in line]
    assert all("alignment_loss" in line and "val_alignment_loss" not in line for line in rounds)


def test_a_guided_run_resumes_to_the_same_numbers(guided, guided_run, corpus, tmp_path):
    with interrupted_after(15):
        train_system(guided, corpus, tmp_path / "run")
    other = write_links(tmp_path / "other.align", [set()] * 96)
    with pytest.raises(UserError, match=r"started with .*guided_links"):
        train_system(guided.override(guided_links=other), corpus, tmp_path / "run", resume=True)
    file = guided.training.guided_links
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_attn_zoo.runs.guided_links.sha256", lambda path: "changed")
        with pytest.raises(UserError, match=rf"started with other links than those of {file}: resume with the same"):
            train_system(guided, corpus, tmp_path / "run", resume=True)
    run = train_system(guided, corpus, tmp_path / "run", resume=True)
    expected, found = (load_translator(one.path).backbone.get_weights() for one in (guided_run, run))
    for own, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(own, other)


def test_a_run_that_goes_on_from_a_guided_one_has_no_links(guided_run):
    training = system_from(guided_run.path).training
    assert (training.guided_alignment, training.guided_links) == (0, None)
    assert RunFolder(guided_run.path).system().training.guided_alignment == 2


@pytest.mark.parametrize(
    "lines, message",
    [
        (["0-0"] * 95, r"all has 95 lines, but the training text 96 sentence pairs: give one line per pair"),
        (
            ["0-0"] * 6 + ["0-9"] + [""] * 89,
            r"all, line 7: link 0-9 points past the last word",
        ),
        (["0-0"] * 2 + ["0.1"] + [""] * 93, r"all, line 3: '0.1' is not a link"),
    ],
)
def test_links_that_do_not_fit_are_refused_before_anything_is_prepared(lines, message, corpus, tmp_path):
    (tmp_path / "all").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    system = TINY.override(guided_alignment=0.1, guided_links=str(tmp_path / "all"))
    with pytest.raises(UserError, match=message):
        check_texts(system, corpus)
    with pytest.raises(UserError, match=message):
        train_system(system, corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"guided_alignment": -1}, "guided_alignment must be a number from 0 to 1,000; received -1"),
        ({"guided_links": "a"}, "guided_links=a has no effect without guided_alignment, their weight"),
        ({"guided_index_base": 1}, "guided_index_base=1 has no effect without guided_links"),
        ({"guided_alignment": 0.1, "guided_links": "nowhere"}, "nowhere"),
        (
            {"guided_alignment": 0.1, "guided_aligner": "hm"},
            "guided_aligner must be one of ibm1, hmm, fast_align",
        ),
        (
            {"guided_alignment": 0.1, "guided_aligner": "fast_align", "guided_symmetrization": "union"},
            "fast_align",
        ),
        (
            {"guided_alignment": 0.1, "cross_attention": "uniform"},
            "its weights, which UniformAttention does not",
        ),
        (
            {"guided_alignment": 0.1, "model_type": "unigram", "vocabulary_size": 20, "subword_sampling_nbest": 3},
            "guided_alignment links the subwords of a sentence, which subword sampling draws anew",
        ),
    ],
)
def test_settings_that_do_not_fit(settings, message):
    with pytest.raises((UserError, ImportError), match=message):
        check_system(TINY.override(**settings))
