"""Long text is cut in training and wherever a model reads it."""

import pytest

from keras_attn_zoo.data.cache import build_cache
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.data.subwords import Subwords, train_subword_pair
from keras_attn_zoo.data.truncation import UNCUT, Truncation
from keras_attn_zoo.runs.settings import DataSettings
from keras_attn_zoo.support.errors import UserError

PAIRS = [("a b c d e f", "v w x y z"), ("a b", "v w")]
END = 3


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subwords")
    return [Subwords(path) for path in train_subword_pair(PAIRS, folder, None, model_type="word")]


def test_ids_are_cut_to_so_many_tokens_with_start_and_end():
    text = EncodedText([[*range(10, 16), END], [10, 11, END], [END]], [[20, 21, 22, END], [20, END], [END]], ("", ""))
    assert Truncation(6, 4).cut(text).sources == [[10, 11, 12, 13, END], [10, 11, END], [END]]
    assert Truncation(6, 4, "end").cut(text).sources == [[12, 13, 14, 15, END], [10, 11, END], [END]]
    assert Truncation(6, 4, "end").cut(text).targets == [[20, 21, END], [20, END], [END]]
    assert Truncation(6, 4).cut_sources(text).targets == text.targets
    assert Truncation(8).cut(text) == UNCUT.cut(text) == text


@pytest.mark.parametrize(
    ("truncation", "sources", "targets"),
    [
        (Truncation(6, 4), ["a b c d", "a b"], ["v w", "v w"]),
        (Truncation(6, 4, "end"), ["c d e f", "a b"], ["v w", "v w"]),
        (Truncation(target=5), ["a b"], ["v w"]),
        (UNCUT, ["a b"], ["v w"]),
    ],
)
def test_a_cache_holds_what_is_left_and_drops_what_is_still_too_long(subwords, truncation, sources, targets, tmp_path):
    cache = build_cache(tmp_path / "cache", PAIRS, *subwords, None, 4, 4, truncation=truncation)
    assert [subwords[0].decode(cache.source(i).tolist()) for i in range(len(cache))] == sources
    assert [subwords[1].decode(cache.target(i).tolist()) for i in range(len(cache))] == targets
    assert cache.report.over_limit == 2 - len(sources)
    assert build_cache(tmp_path / "cache", PAIRS, *subwords, None, 4, 4, truncation=truncation).reused
    assert not build_cache(tmp_path / "cache", PAIRS, *subwords, None, 4, 4, truncation=Truncation(3)).reused


def test_settings_cut_to_at_most_max_tokens():
    assert DataSettings().truncation == UNCUT
    assert DataSettings(max_tokens=40, truncate_source=400, truncate_target=30, truncate_keep="end").truncation == (
        Truncation(40, 30, "end")
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((2,), "cuts the source to an integer of at least 3 tokens; received 2"),
        ((None, 4.5), "cuts the target to an integer of at least 3 tokens; received 4.5"),
        ((5, 5, "middle"), "keeps one of start, end; received 'middle'"),
    ],
)
def test_what_cannot_be_cut_is_refused(arguments, text):
    with pytest.raises(UserError, match=text):
        Truncation(*arguments)
