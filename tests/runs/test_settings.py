"""The table of settings: what is typed or in a file, what is refused; constructors, help and docs say the same."""

import argparse
import inspect
import json
import runpy
from pathlib import Path

import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.cli.options import settings_from_options
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.preparation import check_system
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings, TrainingSettings
from keras_attn_zoo.runs.system import SETTINGS, System, parse_settings, read_settings
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import Choice, Number, Switch, Whole
from tests.tiny_run import TINY

EVERY = [(part, name) for part, settings in SETTINGS.items() for name in settings]
HUGE = ("1e12", "1000000000000", "-1", "nan", "inf", "-inf", "", " ", "x" * 5000, "maybe", "[" * 3000, "\x1b[31m")


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "yes", "on", "1"])
def test_switches_as_people_type_them(text):
    assert parse_settings([f"bidirectional={text}"]) == {"bidirectional": True}


@pytest.mark.parametrize("text", ["false", "False", "no", "Off", "0"])
def test_a_switch_that_is_off_is_off(text):
    """It was the string "false" once, which is true."""
    system = TINY.override(**parse_settings([f"bidirectional={text}", f"joint={text}"]))
    assert system.backbone["bidirectional"] is False
    assert system.data.joint is False


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("learning_rate=1", 1.0),
        ("epochs=2", 2.0),
        ("dropout=0", 0.0),
        ("clip_norm=None", None),
        ("patience=none", None),
        ("max_words=null", None),
        ("tie_embeddings=None", "none"),
        ("schedule='halving'", "halving"),
        ("attention_layer=all", "all"),
        ("attention_layer=-2", -2),
        ("attention_layer=-1:07", "-1:7"),
        ("readout_dim=64", 64),
        ("word_vectors_source=a=b.txt", "a=b.txt"),
        ("cross_attention=uniform", "uniform"),
        ("cross_attention=['multi_head', 'previous_weight']", ["multi_head", "previous_weight"]),
        (
            'encoder_attention={"attention": "recurrent", "trainable": false}',
            {"attention": "recurrent", "trainable": 0},
        ),
        ("encoder_attention={'attention': 'recurrent', 'dropout': 0.2}", {"attention": "recurrent", "dropout": 0.2}),
        (
            "decoder_attention=[{'attention': 'gaussian', 'offsets': (-1, 0)}]",
            # As a run folder keeps it.
            [{"attention": "gaussian", "offsets": [-1, 0]}],
        ),
    ],
)
def test_values_as_people_type_them(typed, value):
    name = typed.partition("=")[0]
    found = parse_settings([typed])[name]
    assert found == value
    assert isinstance(found, bool) or type(found) is type(value)


@pytest.mark.parametrize(("part", "name"), EVERY)
def test_every_setting_refuses_what_it_cannot_be(part, name):
    """In one line that names it, whether it is typed or stands in a file; its default is a value of it."""
    setting = SETTINGS[part][name]
    if setting.default is not None:
        assert setting.check(setting.default) == setting.default
        assert type(setting.check(setting.default)) is type(setting.default)
    assert setting.help
    # A mechanism may have any name until a layer is made of it, a file and a system any at all.
    typed = [text for text in HUGE if not (isinstance(setting, Whole) and setting.least < 0 and text == "-1")]
    if name in ("word_vectors_source", "word_vectors_target", "initial_model", "guided_links", "name"):
        typed = ["", " ", "x" * 5000, "\x1b[31m"]
    elif name.endswith("_attention"):
        typed = [text for text in typed if not text.isidentifier()]
    for text in typed:
        with pytest.raises(UserError, match=f"^the setting {name} must be ") as error:
            parse_settings([f"{name}={text}"])
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 400
    wrong = [float("nan"), float("inf"), 10**12, -(10**12), [], {}, [[]], b"x", object(), 1e999, 0.5j]
    if not isinstance(setting, Switch):
        wrong += [True, False]
    if not setting.optional:
        wrong.append(None)
    for value in wrong:
        with pytest.raises(UserError, match=f"^the setting {name} must be ") as error:
            setting.check(value, f"the setting {name}")
        assert str(error.value).isprintable()


def test_bounds_are_inclusive_or_not_as_they_say():
    closed, opened = Number(least=0, most=1), Number(least=0, most=1, above=True, below=True)
    assert [closed.check(x) for x in (0, 1)] == [0.0, 1.0]
    assert closed.values == "a number from 0 to 1"
    assert opened.values == "a number above 0 and below 1"
    for x in (0, 1):
        with pytest.raises(UserError):
            opened.check(x)
    count = Whole(least=1, most=9)
    assert [count.check(x) for x in (1, 9)] == [1, 9]
    for x in (0, 10, 1.0, "3"):
        with pytest.raises(UserError, match=r"must be an integer from 1 to 9; received"):
            count.check(x)
    # As it is typed in one place, as Python has it in the other.
    optional = Whole(least=1, most=9, optional=True)
    for read, value, nothing in ((optional.parse, "0", "none"), (optional.check, 0, "None")):
        with pytest.raises(UserError, match=f"from 1 to 9 or {nothing}; received 0"):
            read(value)
    with pytest.raises(UserError, match=r"must be one of a, b; received 'c'"):
        Choice(choices=("a", "b")).check("c")


def test_the_last_of_a_name_counts_and_several_settings_change_together():
    assert parse_settings(["beams=3", "beams=4"]) == {"beams": 4}
    assert TINY.override(sentences_per_batch=None, tokens_per_batch=64).data.tokens_per_batch == 64
    assert TINY.override(tokens_per_batch=64, sentences_per_batch=None).data.sentences_per_batch is None


def test_a_setting_of_the_other_body_is_said_to_be_one():
    with pytest.raises(UserError, match="'num_heads' is a setting of the Transformer, not of the RNN: leave it out"):
        System("a", {}, body="rnn").override(num_heads=4)
    with pytest.raises(UserError, match="'hidden_dim' is a setting of the RNN, not of the Transformer: leave it out"):
        System("a", {}, body="transformer").override(hidden_dim=4)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("epoch=3", r"there is no setting 'epoch': did you mean epochs\?"),
        ("learningrate=1", r"'learningrate': did you mean learning_rate\?"),
        ("colour=1", "there is no setting 'colour': choose one of .*epochs"),
        ("epochs.x=1", "there is no setting 'epochs.x'"),
        ("cross_attention.window=[1]", r"cross_attention.window must be a number, .*; received \[1\]"),
        ("epochs", "--set takes NAME=VALUE; received 'epochs'"),
        ("=3", "there is no setting ''"),
    ],
)
def test_what_is_no_setting(typed, text):
    with pytest.raises(UserError, match=text):
        parse_settings([typed])


@pytest.mark.parametrize(
    ("part", "settings", "text"),
    [
        (DataSettings, {"tokens_per_batch": 64}, "sentences_per_batch=128, tokens_per_batch=64"),
        (DataSettings, {"sentences_per_batch": None}, "sentences_per_batch=None, tokens_per_batch=None"),
        (DataSettings, {"vocabulary_size": None}, "model_type='bpe' needs a vocabulary_size"),
        (DataSettings, {"model_type": "word", "byte_fallback": True}, "does not support byte_fallback"),
        (DataSettings, {"min_words": 5, "max_words": 4}, "max_words=4 is less than min_words=5"),
        (TrainingSettings, {"teacher_forcing_end": 0.5}, "over how many steps is not set"),
        (TrainingSettings, {"schedule": "cosine", "budget": "3min"}, "which budget=3min does not give"),
        (SearchSettings, {"beams": 100_000}, "an integer from 1 to 1,000; received 100000"),
    ],
)
def test_settings_of_one_part_that_do_not_fit(part, settings, text):
    with pytest.raises(UserError, match=text):
        part(**settings)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: [],
        lambda d: {**d, "backbone": []},
        lambda d: {**d, "backbone": {"hidden_dim": "512"}},
        lambda d: {**d, "backbone": {"hidden_dim": 10**15}},
        lambda d: {**d, "backbone": {"bidirectional": "false"}},
        lambda d: {**d, "data": 3},
        lambda d: {**d, "data": {"max_tokens": 1e9}},
        lambda d: {**d, "training": {**d["training"], "learning_rate": float("nan")}},
        lambda d: {**d, "search": {"beams": 10**9}},
        lambda d: {**d, "body": ["rnn"]},
        lambda d: {**d, "seed": -1},
        lambda d: {**d, "seed": 1.5},
        lambda d: {**d, "name": "a\nb"},
        lambda d: {**d, "source": 3},
        lambda d: {key: value for key, value in d.items() if key != "name"},
    ],
)
def test_settings_of_a_stranger_are_checked_too(damage):
    with pytest.raises(UserError) as error:
        System.from_dict(damage(json.loads(json.dumps(TINY.to_dict()))))
    assert "\n" not in str(error.value)


def test_settings_round_trip_and_unknown_ones_are_listed():
    assert System.from_dict(json.loads(json.dumps(TINY.to_dict()))) == TINY
    with pytest.raises(UserError, match=r"no setting 'epoch': did you mean epochs\?"):
        TINY.override(epoch=1)
    with pytest.raises(UserError, match="do not fit this version"):
        System.from_dict({**TINY.to_dict(), "colour": "red"})


def test_settings_that_do_not_fit_together_are_refused():
    plain = System("plain", {"width": 8, "num_heads": 2}, body="transformer")
    for system, settings, text in (
        (TINY, {"output": "latent"}, "received body='rnn', output='latent'"),
        (plain, {"teacher_forcing": 0.5}, "body='rnn' without a latent alignment: .* received body='transformer'"),
        (plain, {"pretraining_rounds": 1}, "pretraining_rounds needs body='rnn': .*; received body='transformer'"),
        (TINY, {"search_top_k": 0}, "search_top_k=0"),
        (plain, {"tie_embeddings": "all"}, "received joint=False: set joint=True"),
        (plain, {"num_heads": 0}, "num_heads must be an integer from 1 to 1,024; received 0"),
        (TINY, {"dropout": 1.5}, "dropout must be a number of at least 0 and below 1; received 1.5"),
    ):
        with pytest.raises(UserError, match=text):
            system.override(**settings)


def test_which_settings_for_all_apply_to_a_system():
    settings = {"epochs": 2.0, "num_heads": 2, "hidden_dim": 8, "search_top_k": 1, "teacher_forcing": 0.5}
    rnn, transformer = System("a", {}), System("b", {}, body="transformer")
    assert rnn.applicable_settings(settings).keys() == {"epochs", "hidden_dim", "teacher_forcing"}
    assert transformer.applicable_settings(settings).keys() == {"epochs", "num_heads"}
    latent = {**settings, "output": "latent"}
    assert rnn.applicable_settings(latent).keys() == {"epochs", "hidden_dim", "search_top_k", "output"}


@pytest.mark.parametrize("body", BODIES.values(), ids=lambda body: body.name)
def test_a_body_has_the_arguments_and_defaults_of_its_constructor(body):
    parameters = inspect.signature(body.body_class.__init__).parameters
    known = [name for name in parameters if name not in ("self", "dtype", "suppressed_tokens", "name", "trainable")]
    assert list(body.settings) == [name for name in known if not name.endswith("vocabulary_size")]
    for name, setting in body.settings.items():
        # The longest sentence is that of the data.
        assert setting.default == (None if name == "max_length" else parameters[name].default), name
    assert body.feeds_itself == body.body_class.feeds_itself


@pytest.mark.parametrize("body", BODIES.values(), ids=lambda body: body.name)
def test_a_body_accepts_the_choices_of_its_settings(body):
    choices = {name: setting for name, setting in body.settings.items() if isinstance(setting, Choice)}
    assert len(choices) > 6
    for name, setting in choices.items():
        with pytest.raises(UserError, match=f"{name} must be {setting.values}; received 'neither'"):
            body.body_class(9, 9, **body.small, **{name: "neither"})


def test_the_output_has_the_same_settings_in_every_body():
    for name, setting in SETTINGS["Output"].items():
        assert all(body.settings[name] == setting for body in BODIES.values()), name


def test_help_lists_every_setting(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    # Lines are as wide as the terminal.
    text = " ".join(capsys.readouterr().out.split())
    for settings in SETTINGS.values():
        for name, setting in settings.items():
            assert f"{name}={setting.default}" in text
            assert f"{setting.help}: {setting.values}" in text


def test_docs_have_the_tables():
    """`python docs/write_settings.py` writes them."""
    written = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "write_settings.py"))
    texts = [page.read_text(encoding="utf-8") for page in written["PAGES"]]
    counts = [text.count(f"<!-- {table}: ") for text, table in zip(texts, written["TABLES"], strict=True)]
    assert counts == [len(SETTINGS), len(BODIES)]
    assert list(map(written["with_tables"], texts)) == texts
    assert all(f"| `{name}` | " in texts[1] for name in SYSTEMS)


@pytest.mark.parametrize(
    "option",
    [
        ("--beams", "100000"),
        ("--beams", "0"),
        ("--length-penalty", "nan"),
        ("--length-penalty", "-1"),
        ("--n-best", "1e3"),
        ("--top-k", "-1"),
        ("--batch-size", "99999999999"),
        ("--max-tokens", "1000000000"),
    ],
)
def test_numeric_options_have_bounds(option, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["translate", "nowhere", "x", *option])
    last = capsys.readouterr().err.splitlines()[-1]
    assert stopped.value.code == 2
    assert f"argument {option[0]}: " in last
    assert f"received {option[1]}." in last


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
