"""The links of an encoded corpus on disk, and in batches."""

import numpy as np
import pytest

from keras_attn_zoo.data.batches import TranslationBatches, as_fit_input
from keras_attn_zoo.data.subword_links import SubwordLinks, build_subword_links
from keras_attn_zoo.support.errors import UserError


@pytest.fixture(scope="module")
def text(make_corpus):
    return make_corpus([(1 + i % 5, 1 + i % 7) for i in range(20)])


@pytest.fixture
def linked(text, tmp_path):
    """Links of a corpus, target first, as lists and on disk; some pairs have none."""
    rng = np.random.default_rng(2)
    pairs = []
    for source, target in zip(text.source_lengths, text.target_lengths, strict=True):
        pairs.append(np.argwhere(rng.random((target, source)) < rng.choice([0.0, 0.3])))
    return pairs, build_subword_links(tmp_path / "links", text, "a", iter(pairs))


def test_batches_have_the_links_of_their_sentences(text, linked):
    pairs, links = linked
    assert len(links) == len(pairs)
    batches = TranslationBatches(text, links=links, sentences_per_batch=6, bucket_count=3, seed=4)
    padding = 0
    for number in range(batches.batches_per_epoch):
        (x, y, _), rows = batches[number], batches.sentences(number)
        assert x["links"].shape == (*y.shape, x["encoder_token_ids"].shape[1]) and x["links"].dtype == bool
        for found, row in zip(x["links"], rows, strict=True):
            assert np.argwhere(found).tolist() == (pairs[row].tolist() if row >= 0 else [])
            padding += row < 0
    assert padding and any(map(len, pairs)) and not all(map(len, pairs))
    assert "links" not in TranslationBatches(text, sentences_per_batch=6)[0][0]
    first = next(iter(as_fit_input(batches)))
    assert np.asarray(first[0]["links"]).tolist() == batches[0][0]["links"].tolist()


def test_links_are_built_once_for_a_corpus_and_a_key(text, linked):
    pairs, links = linked
    unread = iter(())
    again = build_subword_links(links.folder, text, "a", unread)
    rows = np.arange(len(pairs))
    shape = text.target_lengths.max(), text.source_lengths.max()
    assert (again.matrices(rows, *shape) == links.matrices(rows, *shape)).all()
    none = [np.zeros((0, 2), int)] * len(pairs)
    assert not build_subword_links(links.folder, text, "b", none).matrices(rows, *shape).any()


def test_damaged_links_are_named_and_built_again(text, linked):
    pairs, links = linked
    before = (links.folder / "sources.npy").read_bytes()
    (links.folder / "sources.npy").write_bytes(before[:-1] + b"x")
    with pytest.raises(UserError, match=r"links has no links, or is damaged \(sources.npy\): remove it"):
        SubwordLinks(links.folder)
    build_subword_links(links.folder, text, "a", pairs)
    assert (links.folder / "sources.npy").read_bytes() == before
