"""What is too long to be scored is refused before anything that takes time, and nothing half done is left."""

import dataclasses
import logging

import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.encoded_text import encode_text
from keras_attn_zoo.data.splits import Splits
from keras_attn_zoo.data.subwords import Subwords, train_subwords
from keras_attn_zoo.data.truncation import Truncation
from keras_attn_zoo.runs import training
from keras_attn_zoo.runs.training import check_test_text, check_test_words, train_system
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from tests.hard_text import HYPOTHESES, REFERENCES, drawn
from tests.tiny_run import TINY, WORDS, make_pairs

# A translation may have twelve tokens and a quarter.
ROOM = 15
BY_CHARACTERS = TINY.override(model_type="char", max_tokens=40)


def with_test(*pairs):
    return Corpus(Splits(make_pairs(96), make_pairs(16, 200), [*make_pairs(2, 400), *pairs]), {})


@pytest.mark.parametrize("pair", [("hund " * ROOM, "dog"), ("hund", "dog " * ROOM)], ids=["source", "target"])
def test_too_many_words_are_refused_before_anything_is_written(tmp_path, caplog, pair):
    caplog.set_level(logging.INFO)
    with pytest.raises(UserError, match=r"^1 of 3 test sentences .* sentence 3: set --max-tokens to at least 16, or"):
        train_system(TINY, with_test(pair), tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists() and "subword" not in caplog.text


@pytest.mark.parametrize(
    ("change", "corpus", "message"),
    [
        ({"budget": "20steps", "schedule": "cosine", "warmup_steps": 20}, with_test(), "training has only 20 steps"),
        ({"task": "summarization"}, with_test(("hund", "犬")), "test sentence 3"),
    ],
)
def test_so_is_whatever_else_is_known_by_then(tmp_path, monkeypatch, change, corpus, message):
    monkeypatch.setattr(training, "prepare_subwords", lambda *_: pytest.fail("subwords are trained"))
    if "task" in change:
        pytest.importorskip("rouge_score")
    with pytest.raises(UserError, match=message):
        train_system(TINY.override(**change), corpus, tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_too_many_pieces_are_refused_before_text_is_encoded_and_subwords_are_kept(tmp_path, monkeypatch):
    """Twelve words of five characters, and the spaces between them."""
    monkeypatch.setattr(training, "prepare_data", lambda *_: pytest.fail("text is encoded"))
    corpus = with_test(("katze " * 12, "cat"))
    found = []
    for _ in range(2):
        with pytest.raises(UserError, match=r"the 50 tokens .* sentence 3: set --max-tokens 73, or leave them out"):
            train_system(BY_CHARACTERS, corpus, tmp_path / "run")
        files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
        assert {path.name for path in files} == {"source.spm", "target.spm", "checksums.json"}
        found.append({(path, path.stat().st_mtime_ns, sha256(path)) for path in files})
    assert found[0] == found[1]


def test_a_vocabulary_that_is_too_large_leaves_no_folder(tmp_path):
    with pytest.raises(UserError, match="vocabulary_size=5000 is too large"):
        train_system(TINY.override(vocabulary_size=5000), with_test(), tmp_path / "new" / "run")
    assert not any(tmp_path.iterdir())


def test_a_comparison_looks_at_all_texts_of_all_runs_first(tmp_path, capsys):
    lines = {"train": make_pairs(96), "valid": make_pairs(16, 200), "test": [("hund", "dog")]}
    lines["news"] = [("hund " * 130, "dog")]
    for name, pairs in lines.items():
        for side, ending in enumerate(("de", "en")):
            (tmp_path / f"{name}.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    files = {name: [str(tmp_path / f"{name}.{ending}") for ending in ("de", "en")] for name in lines}
    texts = [one for name in ("train", "valid", "test") for one in (f"--{name}", *files[name])]
    # The first one has room for the text.
    systems = ["--systems", "bahdanau", "luong-general", "--grid", "max_tokens=200,80"]
    out = tmp_path / "runs"
    assert cli.main(["compare", *texts, "--more-test", "news", *files["news"], *systems, "--out", str(out)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "max_tokens=80: 1 of 1 news sentences have more than the 100 tokens" in error and "at least 131" in error
    assert not out.exists() or not [path for path in out.rglob("*") if path.is_file() and path.suffix == ".spm"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
@pytest.mark.parametrize("cut", [Truncation(), Truncation(source=6, target=5)], ids=["uncut", "cut"])
def test_no_sentence_has_fewer_pieces_than_words(tmp_path, kind, cut):
    """Where its tokens have just enough room, its words have too; unknown characters included."""
    size = {"bpe": 60, "unigram": 35}.get(kind)
    plain = [side for pair in make_pairs(96) for side in pair]
    subwords = Subwords(train_subwords(plain, tmp_path / "model.spm", size, kind))
    pairs = list(zip(*drawn(200), strict=True)) + list(zip(HYPOTHESES, REFERENCES, strict=True))
    pairs += [("\u2581 \u2581 hund \u2581\u2581", "a\u2581b \u2581"), (" ".join(WORDS), " ".join(WORDS.values()))]
    system = dataclasses.replace(TINY, data=dataclasses.replace(TINY.data, truncate_source=cut.source))
    system = dataclasses.replace(system, data=dataclasses.replace(system.data, truncate_target=cut.target))
    assert system.data.truncation == cut
    for pair in pairs:
        text = ParallelText([pair])
        encoded = text.encoded(subwords, subwords, truncation=cut)
        room = max(len(encoded.sources[0]), len(encoded.targets[0]))
        check_test_text(encoded, room)
        check_test_words(text, system, room)
    # And it is not fooled: one token less, and words of known letters are too many where each is one piece.
    if kind == "word":
        text = ParallelText([("hund haus rot", "dog")])
        assert len(encode_text(subwords, subwords, text.sources, text.targets).sources[0]) == 4
        with pytest.raises(UserError, match="at least 4"):
            check_test_words(text, TINY, 3)
