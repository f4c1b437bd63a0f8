"""Counts that are kept in place of the translations of a run."""

import shutil

import numpy as np
import pytest
import sacrebleu

from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.sentence_counts import counted, keep_counts
from keras_attn_zoo.support.errors import UserError
from tests.made_runs import REFERENCES, WRONG, make_run

WAYS = [("bleu", "13a", False), ("bleu", "char", True), ("ter", "13a", False)]


@pytest.fixture
def kept(tmp_path):
    """A run without its text."""
    run = make_run(tmp_path / "run")
    keep_counts(run, "test", WAYS, tmp_path / "kept")
    shutil.copyfile(run.scores, tmp_path / "kept" / "scores.json")
    return RunFolder(tmp_path / "kept")


def test_kept_counts_have_the_scores_of_the_translations(kept):
    expected = [
        sacrebleu.corpus_bleu(WRONG, [REFERENCES]).score,
        sacrebleu.corpus_bleu(WRONG, [REFERENCES], tokenize="char", lowercase=True).score,
        sacrebleu.corpus_ter(WRONG, [REFERENCES]).score,
    ]
    for way, score_of_text in zip(WAYS, expected, strict=True):
        counts, score = counted(kept, "test", *way)
        assert len(counts) == len(WRONG) and score(counts.sum(0)) == pytest.approx(score_of_text, abs=1e-9)
    # Of some sentences too.
    counts, score = counted(kept, "test", *WAYS[0])
    few = [3, 3, 7]
    of_few = sacrebleu.corpus_bleu([WRONG[i] for i in few], [[REFERENCES[i] for i in few]]).score
    assert score(counts[few].sum(0)) == pytest.approx(of_few, abs=1e-9)


def test_translations_come_first(kept):
    run = make_run(kept.path, translations=REFERENCES)
    assert not run.has_counts_alone("test")
    counts, score = counted(run, "test", *WAYS[0])
    assert score(counts.sum(0)) == pytest.approx(100)


def test_what_is_not_there_is_said(kept):
    with pytest.raises(UserError, match="has no counts of chrf 13a: keep them from the run itself"):
        counted(kept, "test", "chrf", "13a", False)
    with pytest.raises(UserError, match="has no translations for 'valid'"):
        counted(kept, "valid", *WAYS[0])


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive", "rows", "objects"])
def test_damage_is_said(kept, content):
    path = kept.sentence_counts("test")
    if content == "rows":
        np.savez(path, **{"bleu 13a": np.zeros((3, 10))})
    elif content == "objects":
        np.savez(path, **{"bleu 13a": np.array([{}], "object")}, allow_pickle=True)
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"test\.npz is damaged, or of other scores"):
        counted(kept, "test", *WAYS[0])
