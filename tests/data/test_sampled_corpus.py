"""Subword sampling against SentencePiece's own n-best lists and probabilities computed from them."""

import collections

import numpy as np
import pytest
import sentencepiece

from keras_attn_zoo.corpora.synthetic import generate_splits
from keras_attn_zoo.data.batches import TranslationBatches
from keras_attn_zoo.data.cache import build_cache
from keras_attn_zoo.data.sampled_corpus import SampledCorpus, build_sampled_corpus, uniform_numbers
from keras_attn_zoo.data.subwords import Subwords, train_subwords
from keras_attn_zoo.data.truncation import Truncation
from keras_attn_zoo.support.errors import UserError
from tests.data.helpers import same

COUNT, ALPHA, LIMIT = 6, 0.3, 40
PAIRS = [(pair.source, pair.target) for pair in generate_splits(60, 1, 1, max_words=8)["train"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder, the subwords, the corpus, and a function; two pairs are too long for the corpus."""
    folder = tmp_path_factory.mktemp("sampled")
    text = [sentence for pair in PAIRS for sentence in pair]
    subwords = Subwords(train_subwords(text, folder / "spm", 150, "unigram"))
    pairs = [PAIRS[0], ("x " * 60, "y"), *PAIRS[1:], ("Haus", "z " * 60)]
    corpus = build_cache(folder / "plain", pairs, subwords, subwords, None, LIMIT, LIMIT)

    def build(alpha=ALPHA, count=COUNT):
        return build_sampled_corpus(folder / "best", corpus, pairs, subwords, subwords, count, alpha, LIMIT)

    return folder, subwords, corpus, build, [pairs[i] for i in corpus.lines]


def drawn(sampled, side, epoch, rows=None):
    rows = np.arange(len(sampled)) if rows is None else np.array(rows)
    ids, starts, lengths = sampled.spans(side, rows, key=(1, epoch))
    return [ids[start : start + length].tolist() for start, length in zip(starts, lengths, strict=True)]


def test_segmentations_are_those_of_sentencepiece_and_mean_the_same(made):
    _, subwords, corpus, build, texts = made
    sampled, processor = build(), sentencepiece.SentencePieceProcessor(model_proto=subwords.model_bytes)
    assert 40 < len(sampled) == len(corpus) < 60
    seen = collections.defaultdict(set)
    for epoch in range(30):
        for side in range(2):
            for row, ids in enumerate(drawn(sampled, ("source", "target")[side], epoch)):
                assert subwords.decode(ids) == texts[row][side]
                seen[texts[row][side]].add(tuple(ids))
    for sentence, found in seen.items():
        every = processor.nbest_encode_as_ids(sentence, nbest_size=COUNT)
        assert found <= {tuple(ids) for ids in every if len(ids) <= LIMIT}
    assert np.mean([len(found) for found in seen.values()]) > COUNT / 2


def test_segmentations_are_drawn_by_their_probabilities(made):
    """5,000 draws of one sentence; the probabilities are computed from the scores of its pieces."""
    _, subwords, _, build, texts = made
    processor = sentencepiece.SentencePieceProcessor(model_proto=subwords.model_bytes)
    every = processor.nbest_encode_as_ids(texts[0][0], nbest_size=COUNT)
    logs = ALPHA * np.array([sum(processor.get_score(i) for i in ids) for ids in every])
    wanted = np.exp(logs) / np.exp(logs).sum()
    sampled, even, best = build(), build(alpha=0), build(alpha=100)
    counts = collections.Counter(tuple(drawn(sampled, "source", epoch, [0])[0]) for epoch in range(5000))
    shares = np.array([counts[tuple(ids)] for ids in every]) / 5000
    assert shares.min() > 0.02 and np.abs(shares - wanted).max() < 4 * np.sqrt(0.25 / 5000)
    # An exponent of 0 draws evenly, a large one the best.
    assert len({tuple(drawn(even, "source", epoch, [0])[0]) for epoch in range(100)}) == COUNT
    assert drawn(best, "source", 0, [0])[0] == every[0]
    mean = np.mean([sum(map(len, drawn(sampled, "source", epoch))) for epoch in range(300)])
    assert sampled.tokens("source") == pytest.approx(mean, rel=0.01)


def test_segmentations_are_cut_as_the_corpus_is(made, tmp_path):
    _, subwords, _, _, _ = made
    cut = Truncation(source=9, target=7, keep="end")
    corpus = build_cache(tmp_path / "plain", PAIRS, subwords, subwords, None, LIMIT, LIMIT, truncation=cut)
    sampled = build_sampled_corpus(
        tmp_path / "best", corpus, PAIRS, subwords, subwords, COUNT, ALPHA, LIMIT, truncation=cut
    )
    for side, most in (("source", 7), ("target", 5)):
        for epoch in range(5):
            for pair, ids in zip(PAIRS, drawn(sampled, side, epoch), strict=True):
                assert len(ids) <= most
                whole, read = pair[side == "target"], subwords.decode(ids)
                assert whole.endswith(read) if side == "source" else whole.startswith(read)
    assert sampled.source_lengths.max() == 7 and sampled.target_lengths.max() == 5


def test_a_draw_depends_on_seed_epoch_side_and_sentence_alone(made):
    sampled = made[3]()
    first = drawn(sampled, "source", 0)
    assert drawn(sampled, "source", 0, [7, 3]) == [first[7], first[3]]
    assert drawn(sampled, "source", 0, [-1]) == [[]]
    assert drawn(sampled, "source", 1) != first == drawn(made[3](), "source", 0)
    numbers = uniform_numbers((5, 2, 0), np.arange(100_000))
    assert abs(numbers.mean() - 0.5) < 0.005 and abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.02
    assert numbers.min() >= 0 and numbers.max() < 1 and len(set(numbers.tolist())) == 100_000


def test_batches_differ_from_epoch_to_epoch_and_resume_the_same(made):
    sampled = made[3]()
    options = {"tokens_per_batch": 256, "seed": 3, "bucket_count": 3, "rounds_per_epoch": 2}
    batches = TranslationBatches(sampled, **options)
    plain = TranslationBatches(made[2], **options)
    assert len({shape for shape, _ in batches.bounds}) > 1
    whole = [batches[i] for i in range(4 * len(batches))]
    assert any(not same(one[0], two[0]) for one, two in zip(whole, plain, strict=False))
    resumed = TranslationBatches(sampled, **options)
    resumed.set_round(3)
    for i in range(len(batches)):
        assert same(resumed[i], whole[3 * len(batches) + i])
    rows = collections.defaultdict(list)
    for i in range(batches.batches_per_epoch * 2):
        for row, ids in zip(batches.sentences(i).tolist(), batches[i][0]["encoder_token_ids"], strict=True):
            rows[row].append(ids[ids > 0].tolist())
    del rows[-1]
    assert sum(first != second for first, second in rows.values()) > len(sampled) / 2


def test_segmentations_are_kept_until_they_are_damaged_or_others_are_wanted(made):
    folder, subwords, corpus, build, _ = made
    build()
    written = (folder / "best" / "meta.json").stat().st_mtime_ns
    build(alpha=0.7)
    assert (folder / "best" / "meta.json").stat().st_mtime_ns == written
    build(count=3)
    assert len(np.load(folder / "best" / "source_scores.npy")) <= 3 * len(corpus)
    np.save(folder / "best" / "source_ids.npy", np.zeros(3, np.uint16))
    with pytest.raises(UserError, match="is damaged"):
        SampledCorpus(folder / "best", corpus, ALPHA)
    assert drawn(build(), "source", 0) and subwords.n_best("", 3) == [([], 0.0)]


def test_only_unigram_models_have_probabilities(tmp_path):
    for kind in ("char", "word"):
        subwords = Subwords(train_subwords(["ein Haus"], tmp_path / kind, None, kind))
        with pytest.raises(UserError, match="only a unigram model"):
            subwords.n_best("ein Haus", 2)
