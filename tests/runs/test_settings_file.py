"""Settings from a TOML file: what they become, who wins, what is refused."""

import argparse

import pytest

from keras_attn_zoo.cli.options import settings_from_options
from keras_attn_zoo.runs.preparation import check_system
from keras_attn_zoo.runs.system import read_settings
from keras_attn_zoo.support.errors import UserError
from tests.tiny_run import TINY


@pytest.fixture
def write(tmp_path):
    """Write a file of settings; return its path."""

    def file(text):
        path = tmp_path / "settings.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return file


def test_a_file_gives_what_the_command_line_would(write):
    text = '\ufeff# mine\nepochs = 3\nclip_norm = "none"\njoint = true\nbudget = "none"\n'
    text += 'cross_attention.window = 3\ncross_attention.score = "dot"\nschedule = "cosine"\n'
    text += 'decoder_attention = [{attention = "multi_head", normalizer = "sparsemax"}, "average"]\n'
    assert read_settings(write(text)) == {
        "epochs": 3.0,
        "clip_norm": None,
        "joint": True,
        "budget": None,
        "cross_attention.window": 3,
        "cross_attention.score": "dot",
        "schedule": "cosine",
        "decoder_attention": [{"attention": "multi_head", "normalizer": "sparsemax"}, "average"],
    }
    described = TINY.override(**read_settings(write('cross_attention = {attention = "local_m", window = 2}')))
    assert described.backbone["cross_attention"] == {"attention": "local_m", "window": 2}


def resolved(path, *typed, given=(), **more):
    options = argparse.Namespace(settings=path, set=list(typed), **{"precision": None, "budget": None, **more})
    return settings_from_options(options, given)


def test_the_command_line_wins(write):
    path = write('epochs = 3\nseed = 4\nprecision = "bfloat16"\nbeams = 2\n')
    assert resolved(path) == {"epochs": 3.0, "seed": 4, "precision": "bfloat16", "beams": 2}
    found = resolved(path, "beams=7", given=["seed"], precision="float32", budget="5steps")
    assert found == {"precision": "float32", "beams": 7, "budget": "5steps"}
    assert resolved(write('budget = "5steps"'), "epochs=2") == {"epochs": 2.0}
    with pytest.raises(UserError, match="a budget or after epochs"):
        resolved(write('budget = "5steps"\nepochs = 1'))
    with pytest.raises(UserError, match="the budget was given twice"):
        resolved(path, "budget=6steps", budget="5steps")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learnin_rate = 1", r"toml: there is no setting 'learnin_rate': did you mean learning_rate\?"),
        (
            "[training]\nepochs = 3",
            r"'training' is a table, but no mechanism: choose one of .*: Write settings above".replace(": W", " W"),
        ),
        ("cross_atention.window = 3", r"toml: 'cross_atention' is a table, .*: did you mean cross_attention\?"),
        ("dropout.x = 1", r"toml: 'dropout' is a table"),
        ("epochs = [3]", r"toml: the setting epochs must be a number .*; received \[3\]"),
        ('epochs = "many"', "toml: the setting epochs must be a number .*; received many"),
        ("epochs = 2026-01-01", "toml: the setting epochs must be"),
        ("cross_attention.window = [1]", r"toml: the setting cross_attention\.window must be a number"),
        ("epochs: 3", r"settings\.toml is not TOML \(.*line 1.*\): write lines such as epochs = 3"),
        ("a = " + "[" * 100_000, r"settings\.toml is not TOML"),
        (b"epochs = 3 # \xff", r"settings\.toml is not TOML"),
    ],
)
def test_what_is_refused_is_named_with_the_file(write, text, message):
    with pytest.raises(UserError, match=message) as error:
        read_settings(write(text))
    assert "\n" not in str(error.value)


def test_true_is_no_number_of_a_mechanism(write):
    text = 'hidden_dim = 16\n[cross_attention]\nattention = "weight_subtraction"\nsubtraction = '
    one, true = (TINY.override(**read_settings(write(text + value))) for value in ("1", "true"))
    check_system(one)
    with pytest.raises(UserError, match=r"`subtraction` must be a number of at least 0\. Received: subtraction=True"):
        check_system(true)


def test_a_file_that_is_not_there(tmp_path):
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(UserError, match=path.name):
            read_settings(path)
