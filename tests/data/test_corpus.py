import gzip
import itertools
import os
import re
import subprocess
import sys
import tracemalloc
import unicodedata
from collections import Counter

import numpy as np
import pytest

from keras_attn_zoo import data
from keras_attn_zoo.data.filters import Filter, FilterReport, filter_numbered_pairs, filter_pairs
from keras_attn_zoo.data.splits import Splits, random_split
from keras_attn_zoo.data.text_files import ParallelFiles, TSVFile, read_lines, read_windows
from keras_attn_zoo.data.words import has_illegal_characters, normalise, word_count
from tests.data.helpers import one_line_error

PAIRS = [("ein Haus", "a house"), ("ein kleiner Hund", "a small dog"), ("ja", "yes")]


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def sides(pairs):
    return ["".join(f"{pair[side]}\n" for pair in pairs) for side in range(2)]


# Reading


def test_parallel_files_whatever_their_names(tmp_path):
    source, target = sides(PAIRS)
    corpus = ParallelFiles(write(tmp_path / "text.txt", source), str(write(tmp_path / "text.gz", target)))
    assert list(corpus) == PAIRS
    assert list(corpus) == PAIRS, "a second pass reads the same"
    assert corpus.paths == (tmp_path / "text.txt", tmp_path / "text.gz")


def test_tsv_columns(tmp_path):
    text = "".join(f"{i}\t{source}\t{target}\tCC-BY\n" for i, (source, target) in enumerate(PAIRS))
    corpus = TSVFile(write(tmp_path / "a.tsv", text), source_column=2, target_column=1)
    assert list(corpus) == list(corpus) == [(target, source) for source, target in PAIRS]
    assert corpus.paths == (tmp_path / "a.tsv",)


def test_text_is_stripped_and_composed(tmp_path):
    decomposed = unicodedata.normalize("NFD", "schöne Häuser")
    assert decomposed != "schöne Häuser"
    path = write(tmp_path / "a", "\ufeff  " + decomposed + "\t\u00a0 hier \r\n\n x\u2028y \n")
    assert list(read_lines(path)) == ["schöne Häuser hier", "", "x y"]
    tsv = TSVFile(write(tmp_path / "b", f" {decomposed} \t  a \r\n"))
    assert list(tsv) == [("schöne Häuser", "a")]


def test_blank_lines_make_empty_pairs(tmp_path):
    corpus = ParallelFiles(write(tmp_path / "a", "x\n\nz\n"), write(tmp_path / "b", "1\n2\n \n"))
    assert list(corpus) == [("x", "1"), ("", "2"), ("z", "")]
    assert list(TSVFile(write(tmp_path / "c", "x\t1\n\n"))) == [("x", "1"), ("", "")]


def test_reading_is_streamed(tmp_path):
    """The first pairs come although a later line is damaged."""
    source = write(tmp_path / "a", b"x\n" * 50_000 + b"\xff\n")
    target = write(tmp_path / "b", b"y\n" * 50_001)
    assert list(itertools.islice(ParallelFiles(source, target), 3)) == [("x", "y")] * 3


def test_windows_of_lines(tmp_path):
    path = write(tmp_path / "a", "".join(f"{i}\n" for i in range(20_000)) + "last")
    windows = list(read_windows(path, 3000))
    assert [len(window) for window in windows] == [3000] * 6 + [2001]
    assert [line for window in windows for line in window] == [str(i) for i in range(20_000)] + ["last"]


def test_windows_of_a_pipe_that_pauses(monkeypatch):
    """A line is given as soon as the writer pauses, the beginning of the next one is kept."""
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as stream, open(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr("sys.stdin", stream)
        windows = read_windows("-", 4)
        found = []
        for text in (b"1\n", b"2\n3\n4", b"\n5\n6\n7\n8\n9\n"):
            pipe.write(text)
            found.append(next(windows))
        pipe.write(b"10")
        pipe.close()
        assert [*found, *windows] == [["1"], ["2", "3"], ["4", "5", "6", "7"], ["8", "9", "10"]]


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path):
    path = write(tmp_path / "a", b"x\n" + b"y" * (2**24 + 1))
    for read in (lambda: list(read_lines(path)), lambda: list(read_windows(path, 2))):
        one_line_error("line 2 has more than 16,777,216 bytes", read)


def test_missing_file_and_folder(tmp_path):
    there = write(tmp_path / "a", "x\n")
    for make in (
        lambda path: ParallelFiles(there, path),
        lambda path: ParallelFiles(path, there),
        TSVFile,
        read_lines,
    ):
        one_line_error("there is no file .*nowhere", lambda make=make: make(tmp_path / "nowhere"))
        one_line_error("is a folder", lambda make=make: make(tmp_path))


@pytest.mark.parametrize(("first", "second"), [(5, 3), (3, 5), (1, 4)])
def test_unequal_files_name_both_counts(tmp_path, first, second):
    corpus = ParallelFiles(write(tmp_path / "a", "x\n" * first), write(tmp_path / "b", "y\n" * second))
    one_line_error(f"a has {first} lines but .*b has {second}", lambda: list(corpus))


def test_invalid_utf8_names_file_and_line(tmp_path):
    path = write(tmp_path / "latin.de", b"x\ny\nsch\xf6n\n")
    one_line_error(r"latin\.de line 3 is not UTF-8", lambda: list(read_lines(path)))
    one_line_error(
        r"latin\.de line 3 is not UTF-8",
        lambda: list(ParallelFiles(write(tmp_path / "b", "1\n2\n3\n"), path)),
    )
    one_line_error(r"latin\.de line 3 is not UTF-8", lambda: list(TSVFile(path, 0, 0)))


@pytest.mark.parametrize("packed", [False, True])
def test_empty_file(tmp_path, packed):
    path = write(tmp_path / "a", gzip.compress(b"") if packed else "")
    one_line_error("a is empty", lambda: list(read_lines(path)))
    one_line_error("a is empty", lambda: list(ParallelFiles(write(tmp_path / "b", "x\n"), path)))


def test_tsv_line_with_too_few_columns(tmp_path):
    path = write(tmp_path / "a.tsv", "1\t2\n3\n")
    one_line_error(r"a\.tsv line 2 has 1, not 2 columns separated by tabs: fix", lambda: list(TSVFile(path)))
    one_line_error("line 1 has 2", lambda: list(TSVFile(path, 0, 2)))
    one_line_error("count them from 0", lambda: TSVFile(path, -1, 0))


def test_normalise_and_word_count():
    assert normalise(" a\u0301\tb  c\n") == "á b c"
    assert word_count("ein  kleiner Hund ") == 3
    assert word_count("") == 0
    # Only in front: inside a word, it is a character like others.
    assert normalise("ein\ufeffHaus") == "ein\ufeffHaus"
    for front in ("\ufeff", " \ufeff ", "\ufeff \ufeff", "\ufeff\u2028\ufeff\ufeff"):
        assert normalise(f"{front}ein Haus") == "ein Haus"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("湖边的房子", 5),
        # With spaces, as segmented text has them, a character is still a word.
        ("湖边 的 房子", 5),
        # A full stop, full-width letters and the digits of a number are no Chinese characters.
        ("第12章。", 4),
        ("私はハンスだ", 6),
        ("時々ｶﾅ𠮷", 5),
        ("Hans는 집에 있다", 3),
        ("Ein Haus (家) am See", 7),
    ],
)
def test_chinese_and_japanese_characters_are_words(text, words):
    assert word_count(text) == words


def test_the_description_of_a_filter_is_the_same_unless_words_are_counted_otherwise():
    plain, chinese = [("ein Haus", "a house")], [("ein Haus", "a house"), ("房子", "a house")]
    before = {"min_words": 1, "max_words": None, "max_length_ratio": None, "drop_duplicates": False}
    assert Filter().described(chinese) == Filter().described(plain) == before
    for counting in ({"max_words": 9}, {"min_words": 2}, {"max_length_ratio": 3}):
        assert Filter(**counting).described(plain) == {**before, **counting}
        assert Filter(**counting).described(chinese) not in (Filter(**counting).described(plain), before)
    dropping = Filter(drop_illegal_characters=True)
    assert dropping.described(plain) == {**before, "drop_illegal_characters": True}


def test_illegal_characters_are_those_of_unicode():
    categories = {"Cc": "control", "Co": "private use", "Cs": "surrogate"}
    for number in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(number))
        nonce = number & 0xFFFE == 0xFFFE or 0xFDD0 <= number <= 0xFDEF or number == 0xFFFD
        expected = not chr(number).isspace() and (category in categories or nonce)
        assert has_illegal_characters(chr(number)) == expected, hex(number)
    assert has_illegal_characters("ein H\x81us")
    assert not has_illegal_characters("ein Häuschen – für 3 €, 家 🏠, zu\u00adsammen\u200d")


# Filtering


def made_pairs(count=400):
    rng = np.random.default_rng(1)
    return [tuple(" ".join("w" * n) for n in rng.integers(0, 12, 2)) for _ in range(count)]


@pytest.mark.parametrize(
    "pair_filter",
    [
        Filter(),
        Filter(min_words=4, max_words=9),
        Filter(max_length_ratio=1.5),
        Filter(drop_duplicates=True),
        Filter(drop_illegal_characters=True),
        Filter(min_words=2, max_words=10, max_length_ratio=2, drop_duplicates=True, drop_illegal_characters=True),
    ],
)
def test_filter_equals_a_literal_loop(pair_filter):
    pairs = made_pairs()
    pairs = [
        (f"{source}{chr(0x7F) * (i % 7 == 0)}", f"{target}\ufffd" if i % 5 == 0 else target)
        for i, (source, target) in enumerate(pairs)
    ]
    kept, reasons, seen = [], Counter(), []
    for pair in pairs:
        first, second = len(pair[0].split()), len(pair[1].split())
        if first == 0 or second == 0:
            reasons["empty"] += 1
        elif first < pair_filter.min_words or second < pair_filter.min_words:
            reasons["short"] += 1
        elif pair_filter.max_words is not None and (first > pair_filter.max_words or second > pair_filter.max_words):
            reasons["long"] += 1
        elif pair_filter.max_length_ratio is not None and (
            max(first / second, second / first) > pair_filter.max_length_ratio
        ):
            reasons["ratio"] += 1
        elif pair_filter.drop_illegal_characters and {"\x7f", "\ufffd"} & {*pair[0], *pair[1]}:
            reasons["illegal"] += 1
        elif pair_filter.drop_duplicates and pair in seen:
            reasons["duplicate"] += 1
        else:
            kept.append(pair)
        seen.append(pair)
    report = FilterReport()
    assert list(filter_pairs(pairs, pair_filter, report)) == kept
    assert report == FilterReport(kept=len(kept), **reasons)
    assert list(filter_pairs(pairs, pair_filter)) == kept
    numbered = list(filter_numbered_pairs(pairs, pair_filter, FilterReport()))
    assert [pairs[number] for number, *_ in numbered] == [tuple(pair) for _, *pair in numbered] == kept


def test_pairs_that_join_alike_are_no_duplicates():
    pairs = [("a b", "c"), ("a", "b c"), ("a b", "c")]
    assert list(filter_pairs(pairs, Filter(drop_duplicates=True))) == pairs[:2]


def test_nothing_left_is_an_error_with_counts():
    pairs = [("a", ""), ("a", "b"), ("a b c d e", "a b c d e"), ("a b c d e", "a b c d e f")]
    report = FilterReport()
    one_line_error(
        "no sentence pair is left after filtering: empty 1, short 1, long 2",
        lambda: list(filter_pairs(pairs, Filter(min_words=2, max_words=4), report)),
    )
    assert report.kept == 0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"min_words": 0}, "min_words=0"),
        ({"min_words": 5, "max_words": 4}, "max_words=4 is less than min_words=5"),
        ({"max_length_ratio": 0.5}, "max_length_ratio=0.5"),
    ],
)
def test_filter_that_lets_nothing_pass(options, match):
    one_line_error(match, lambda: Filter(**options))


# Splits


@pytest.mark.parametrize(("count", "sizes"), [(10, (8, 1, 1)), (100, (80, 10, 10)), (1003, (802, 101, 100))])
def test_random_split_puts_every_pair_in_one_part(count, sizes):
    pairs = [(f"s{i}", f"t{i}") for i in range(count)]
    splits = random_split(iter(pairs), seed=3)
    assert isinstance(splits, Splits)
    assert tuple(map(len, splits)) == sizes
    assert Counter(itertools.chain(*splits)) == Counter(pairs)
    assert splits == random_split(pairs, seed=3)
    assert splits != random_split(pairs, seed=4)
    assert all(part == sorted(part, key=lambda pair: int(pair[0][1:])) for part in splits)


@pytest.mark.parametrize("most", [1, 7, 100, 101, None])
def test_a_random_split_holds_out_no_more_than_asked(most):
    """What is beyond the maximum is for training; the parts are subsets of those without one."""
    pairs = [(f"s{i}", f"t{i}") for i in range(1000)]
    every, found = random_split(pairs, seed=3, max_held_out=None), random_split(pairs, seed=3, max_held_out=most)
    assert [len(part) for part in every] == [800, 100, 100]
    assert len(found.valid) == len(found.test) == min(most or 100, 100)
    assert set(found.valid) <= set(every.valid) and set(found.test) <= set(every.test)
    assert Counter(itertools.chain(*found)) == Counter(pairs)
    assert all(part == sorted(part, key=lambda pair: int(pair[0][1:])) for part in found)


def test_the_training_part_of_files_is_read_as_it_is_used(tmp_path):
    """Many times the same pairs, which do not stay in memory."""
    pairs = [(f"s{i} " + "x" * 1000, f"t{i}") for i in range(5000)]
    path = write(tmp_path / "all.tsv", "".join("\t".join(pair) + "\n" for pair in pairs))
    inside = random_split(pairs, max_held_out=10)
    tracemalloc.start()
    found = random_split(TSVFile(path), max_held_out=10)
    assert sum(1 for _ in found.train) == len(found.train) == 4980
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    assert tuple(map(list, found)) == tuple(map(list, inside)) and list(found.train) == inside.train


def test_random_split_errors():
    pairs = [("a", "b")] * 4
    one_line_error("max_held_out=0 leaves nothing", lambda: random_split(pairs, max_held_out=0))
    one_line_error("4 sentence pairs split 8:1:1 into 3, 1 and 0", lambda: random_split(pairs))
    one_line_error("0 sentence pairs", lambda: random_split([]))
    one_line_error("three positive numbers", lambda: random_split(pairs, ratios=(1, 0, 1)))
    one_line_error("three positive numbers", lambda: random_split(pairs, ratios=(1, 1)))


def test_reading_needs_neither_keras_nor_sentencepiece():
    code = (
        "import sys\n"
        "from keras_attn_zoo.data import Filter, TSVFile\n"
        "assert not {'keras', 'sentencepiece'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_package_offers_its_rooms_names():
    assert data.Filter is Filter
    assert all(getattr(data, name) is not None for name in data.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        data.nothing  # noqa: B018


@pytest.mark.long
def test_what_is_normalised_stays_as_it_is(tmp_path):
    """Every character, alone and between others, and every sentence in a file."""
    text = "".join(f"a{chr(i)} {chr(i)}b " for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000)
    once = normalise(text)
    assert once.split(" ") == unicodedata.normalize("NFC", "\n".join(re.findall(r"\S+", text))).split("\n")
    assert normalise(once) == once
    fronts = ["\ufeff", "\u0301", "\u3000\ufeff", "\ufeff\x85", "\u1161"]
    lines = {normalise(f"{front}{behind}a") for front in fronts for behind in fronts}
    assert set(map(normalise, lines)) == lines
    for line in lines:
        (tmp_path / "lines").write_bytes(f"{line}\n{line}\n".encode())
        assert list(read_lines(tmp_path / "lines")) == [line, line]
