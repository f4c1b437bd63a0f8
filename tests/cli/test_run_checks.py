"""What is checked of a comparison's runs once the text is there; nothing is trained."""

import argparse
import dataclasses

import pytest

from keras_attn_zoo.cli.run_checks import check_with_text
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.comparison import Run
from keras_attn_zoo.support.errors import UserError
from tests.made_runs import copy_run
from tests.tiny_run import TINY


def test_a_run_of_another_text_is_refused(trained, corpus, tmp_path):
    """That of its own is not."""
    copy_run(trained, tmp_path / "rnn", TINY)
    runs = [Run("rnn", "rnn", RunFolder(tmp_path / "rnn").system(), {})]
    options = argparse.Namespace(scale=None, max_tokens=None)
    check_with_text(runs, options, tmp_path, corpus)
    other = dataclasses.replace(corpus, splits=corpus.splits._replace(train=corpus.splits.train[:-9]))
    with pytest.raises(
        UserError, match=r"^rnn: .* was started with other text than a and b: resume with the same text"
    ):
        check_with_text(runs, options, tmp_path, other)
