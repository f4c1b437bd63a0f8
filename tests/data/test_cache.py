import json

import numpy as np
import pytest

from keras_attn_zoo.data import cache as cache_module
from keras_attn_zoo.data.cache import EncodedCorpus, build_cache
from keras_attn_zoo.data.filters import Filter, FilterReport
from keras_attn_zoo.data.text_files import ParallelFiles, TSVFile
from keras_attn_zoo.support.errors import UserError
from tests.data.helpers import Numbers, one_line_error


def made_pairs(count=50, seed=0, longest=9):
    rng = np.random.default_rng(seed)
    return [
        tuple(" ".join(map(str, rng.integers(4, 100, rng.integers(1, longest + 1)))) for _ in range(2))
        for _ in range(count)
    ]


PAIRS = made_pairs()


def build(folder, pairs=PAIRS, source=None, target=None, **options):
    return build_cache(folder, pairs, source or Numbers(), target or Numbers(), **options)


def pairs_of(corpus):
    return [tuple(" ".join(map(str, ids)) for ids in (corpus.source(i), corpus.target(i))) for i in range(len(corpus))]


def write_files(folder, pairs):
    paths = folder / "text.de", folder / "text.en"
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return paths


@pytest.mark.parametrize("chunk", [1, 7, 50, 10_000])
def test_ids_of_every_pair(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(cache_module, "_CHUNK", chunk)
    corpus = build(tmp_path / "cache")
    assert pairs_of(corpus) == PAIRS
    assert not corpus.reused
    assert len(corpus) == 50
    assert corpus.source_lengths.tolist() == [len(source.split()) for source, _ in PAIRS]
    assert corpus.target_lengths.tolist() == [len(target.split()) for _, target in PAIRS]
    assert corpus.lines.tolist() == list(range(50))
    assert corpus.report == FilterReport(kept=50)
    assert pairs_of(EncodedCorpus(tmp_path / "cache")) == PAIRS
    for path in (tmp_path / "cache").glob("*.npy"):
        assert np.load(path, allow_pickle=False).ndim == 1


def test_ids_are_mapped_and_small(tmp_path):
    corpus = build(tmp_path / "a", target=Numbers(2**16 + 1))
    assert corpus.source_ids.dtype == np.uint16
    assert corpus.target_ids.dtype == np.int32
    assert isinstance(corpus.source_ids.base, np.memmap)
    edge = build(tmp_path / "b", [("65535", "4")], source=Numbers(2**16))
    assert edge.source(0).tolist() == [65535]


def test_filter_and_line_numbers(tmp_path):
    pairs = [("4 5", "6 7"), ("4", "5 6"), ("", "4 5"), ("8 9", "10 11"), ("4 5", "6 7")]
    corpus = build(tmp_path / "cache", pairs, pair_filter=Filter(min_words=2, drop_duplicates=True))
    assert pairs_of(corpus) == [pairs[0], pairs[3]]
    assert corpus.lines.tolist() == [0, 3]
    assert corpus.report == FilterReport(kept=2, empty=1, short=1, duplicate=1)


@pytest.mark.parametrize("count", [0, 1, 7, 50])
def test_the_first_sources_are_encoded_again_only_if_they_were_dropped(tmp_path, count):
    sources = [source for source, _ in PAIRS][:count]
    long = [source for source in sources if len(source.split()) > 6]
    assert bool(long) == (count > 0)
    subwords = Numbers()
    found = build(tmp_path / "cache", max_source_tokens=6).first_sources(sources, subwords)
    assert found == [[*map(int, source.split()), 3] for source in sources]
    assert subwords.encoded == long


def test_progress_counts_up(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "_CHUNK", 20)
    seen = []
    build(tmp_path / "cache", progress=seen.append)
    assert seen == [20, 40, 50]
    build(tmp_path / "cache", progress=seen.append)
    assert seen == [20, 40, 50], "a cache that stands is not built"


# Reuse


def test_reused_where_nothing_changed(tmp_path):
    build(tmp_path / "cache")
    modified = (tmp_path / "cache" / "meta.json").stat().st_mtime_ns
    again = build(tmp_path / "cache", list(PAIRS))
    assert again.reused
    assert pairs_of(again) == PAIRS
    assert (tmp_path / "cache" / "meta.json").stat().st_mtime_ns == modified


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": [*PAIRS[:-1], ("4", "5")]},
        {"pairs": [(source + " " + target[:1], target[1:] or "4") for source, target in PAIRS]},
        {"source": Numbers(checksum="01")},
        {"target": Numbers(checksum="01")},
        {"pair_filter": Filter(min_words=2)},
        {"max_source_tokens": 8},
        {"max_target_tokens": 8},
    ],
)
def test_rebuilt_where_an_input_changed(tmp_path, change):
    build(tmp_path / "cache")
    changed = build(tmp_path / "cache", **change)
    assert not changed.reused
    assert pairs_of(changed) == pairs_of(build(tmp_path / "fresh", **change))
    assert build(tmp_path / "cache", **change).reused
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "fresh"}, "nothing is left beside"


def test_files_are_known_by_content(tmp_path):
    paths = write_files(tmp_path, PAIRS)
    assert not build(tmp_path / "cache", ParallelFiles(*paths)).reused
    (tmp_path / "moved").mkdir()
    moved = write_files(tmp_path / "moved", PAIRS)
    assert build(tmp_path / "cache", ParallelFiles(*moved)).reused
    moved[1].write_text(moved[1].read_text().replace("4", "5"))
    assert not build(tmp_path / "cache", ParallelFiles(*moved)).reused


def test_other_columns_of_a_file_are_other_text(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("".join("\t".join(pair) + "\n" for pair in PAIRS))
    assert pairs_of(build(tmp_path / "cache", TSVFile(path))) == PAIRS
    swapped = build(tmp_path / "cache", TSVFile(path, 1, 0))
    assert not swapped.reused
    assert pairs_of(swapped) == [pair[::-1] for pair in PAIRS]


def damage(folder, how):
    name, action = how
    path = folder / name
    if action == "remove":
        path.unlink()
    elif action == "empty":
        path.write_bytes(b"")
    elif action == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    elif action == "shorten":
        np.save(path, np.load(path)[:-1])
    else:
        path.write_text(action)


ARRAYS = [f"{side}_{kind}.npy" for side in ("source", "target") for kind in ("ids", "offsets")] + ["lines.npy"]


@pytest.mark.parametrize(
    "how",
    [(name, action) for name in ARRAYS for action in ("remove", "empty", "cut", "shorten")]
    + [("meta.json", action) for action in ("remove", "empty", "cut", "[]", "{}")]
    + [("meta.json", '{"format": 1, "fingerprint": "", "report": []}'), ("source_ids.npy", "text")],
)
def test_damaged_cache_is_rebuilt(tmp_path, how):
    build(tmp_path / "cache")
    damage(tmp_path / "cache", how)
    with pytest.raises(UserError):
        EncodedCorpus(tmp_path / "cache")
    corpus = build(tmp_path / "cache")
    assert not corpus.reused
    assert pairs_of(corpus) == PAIRS


def test_one_bit_is_found(tmp_path):
    build(tmp_path / "cache")
    for path in (tmp_path / "cache").glob("*.npy"):
        whole = path.read_bytes()
        # The last byte is one of the numbers: such an array is as good as any to those who read it.
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        one_line_error(f"{path.name} was changed", lambda: EncodedCorpus(tmp_path / "cache"))
        path.write_bytes(whole)
    assert build(tmp_path / "cache").reused


def test_cache_of_another_format_is_rebuilt(tmp_path):
    build(tmp_path / "cache")
    path = tmp_path / "cache" / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 0}))
    one_line_error("format 0, not", lambda: EncodedCorpus(tmp_path / "cache"))
    assert not build(tmp_path / "cache").reused


def test_failure_keeps_the_old_cache(tmp_path):
    build(tmp_path / "cache")

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "cache", made_pairs(seed=1), progress=stop)
    assert {path.name for path in tmp_path.iterdir()} == {"cache"}
    assert build(tmp_path / "cache").reused


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    one_line_error(r"has other files in it \(thesis\.tex\)", lambda: build(tmp_path))
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


# Limits


def test_long_sentences_are_dropped_and_counted(tmp_path):
    corpus = build(tmp_path / "cache", max_source_tokens=6, max_target_tokens=4)
    expected = [pair for pair in PAIRS if len(pair[0].split()) <= 6 and len(pair[1].split()) <= 4]
    assert 0 < len(expected) < 50
    assert pairs_of(corpus) == expected
    assert [PAIRS[line] for line in corpus.lines] == expected
    assert corpus.report == FilterReport(kept=len(expected), over_limit=50 - len(expected))
    assert build(tmp_path / "cache", max_source_tokens=6, max_target_tokens=4).report == corpus.report


def test_sentences_that_encode_to_nothing_are_dropped(tmp_path):
    corpus = build(tmp_path / "cache", [("-", "4"), ("5", "6"), ("7", "-")])
    assert pairs_of(corpus) == [("5", "6")]
    assert corpus.report == FilterReport(kept=1, empty=2)


def test_nothing_left(tmp_path):
    one_line_error("empty 1", lambda: build(tmp_path / "cache", [("", "4")]))
    one_line_error("over_limit 2", lambda: build(tmp_path / "cache", [("4 5", "4")] * 2, max_source_tokens=1))
    assert not list(tmp_path.iterdir())


def test_bad_arguments(tmp_path):
    one_line_error("only once", lambda: build(tmp_path / "cache", iter(PAIRS)))
