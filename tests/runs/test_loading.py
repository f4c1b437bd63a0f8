"""The translator of a run folder or of a preset, and what is damaged."""

import dataclasses
import shutil

import pytest

from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.preparation import build_translator
from keras_attn_zoo.runs.resuming import check_resumable
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.table import read_results
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.translators import Translator
from tests.tiny_run import TINY


def test_a_preset_stands_for_itself(trained, tmp_path):
    preset = shutil.copytree(trained / "best", tmp_path / "preset")
    sentences = ["kalo", "mi fi do"]
    # A preset has no settings of a search: they are given.
    found, wanted = (load_translator(path, 3, 0.5).translate(sentences, n_best=3) for path in (preset, trained))
    assert [[(h.text, h.score) for h in one] for one in found] == [[(h.text, h.score) for h in one] for one in wanted]
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder(preset).system()
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder(preset).check_free()


def test_further_settings_of_a_search(trained, tmp_path):
    given = {"coverage_penalty": 0.2, "min_length": 2, "no_repeat_ngram": 3}
    translator = load_translator(trained, **given)
    assert given.items() <= translator.sampler.get_config().items()
    translator.save_to_preset(tmp_path / "preset")
    assert given.items() <= load_translator(tmp_path / "preset", min_length=2).sampler.get_config().items()
    # A pool of finished hypotheses takes no coverage penalty; a plain search may take its place.
    translator.sampler = PooledBeamSearch(2, 1.0)
    translator.save_to_preset(tmp_path / "pooled")
    with pytest.raises(UserError, match="a PooledBeamSearch, as this preset has it, has no coverage_penalty"):
        load_translator(tmp_path / "pooled", coverage_penalty=0.2)
    plain = load_translator(tmp_path / "pooled", coverage_penalty=0.2, plain=True).sampler
    assert (type(plain), plain.num_beams, plain.length_penalty) == (BeamSearch, 2, 1.0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"{", "/config.json is damaged: it is not JSON"),
        ("model.weights.h5", b"nothing", "/model.weights.h5 is damaged or not a file of weights"),
        ("config.json", None, " is not a preset: it has no config.json. Check the path."),
    ],
)
def test_a_damaged_preset_is_one_line(trained, tmp_path, name, content, message):
    preset = shutil.copytree(trained / "best", tmp_path / "preset")
    # As one from before there were checksums, which would tell at once.
    (preset / "checksums.json").unlink()
    if content is None:
        (preset / name).unlink()
    else:
        (preset / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        load_translator(preset)
    assert str(error.value).startswith(f"{preset}{message}")
    assert "\n" not in str(error.value)


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(UserError, match=r"no folder or published preset .*nowhere: check the path"):
        load_translator(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder(tmp_path).system()
    with pytest.raises(UserError, match="no run has been scored on 'test'"):
        read_results([tmp_path])


@pytest.fixture(scope="module")
def subwords(trained):
    return [Subwords(path) for path in sorted((trained / "data").rglob("*.spm"))]


def run_with(trained, folder, system, subwords, **best):
    """A run of a system, whose best preset is of the system with other settings; without weights that were trained."""
    run = RunFolder(folder)
    run.create(system, RunFolder(trained).corpus())
    made = system.override(**best) if best.keys() <= system.settings() else dataclasses.replace(system, **best)
    build_translator(made, subwords, system.data.max_tokens).save_to_preset(run.best)
    return run


TRANSFORMER = {
    "body": "transformer",
    "backbone": {"width": 8, "num_heads": 2, "ffn_dim": 11, "encoder_layers": 1, "decoder_layers": 1},
    "training": dataclasses.replace(TINY.training, teacher_forcing=1.0),
}
WINDOW = {"attention": "local_p", "window": 3}


@pytest.mark.parametrize(
    ("own", "best", "message"),
    [
        ({}, TRANSFORMER, "class_name='TransformerBackbone', .*'RNNBackbone'"),
        ({}, {"cross_attention": "coverage"}, "cross_attention='coverage', .*'bahdanau'"),
        ({"cross_attention": WINDOW}, {"cross_attention": {**WINDOW, "window": 4}}, "cross_attention={.*4}, .*{.*3}"),
        ({}, {"dropout": 0.3}, "dropout=0.3, .*0.2"),
        # Of the same shape: the weights would fit.
        ({}, {"input_feeding": True, "readout_embedding": False}, "input_feeding=True, .*False"),
        ({}, {"encoder_layers": 2}, "encoder_layers=2, .*1"),
        ({"encoder_layers": 2}, {"encoder_layers": 1}, "encoder_layers=1, .*2"),
    ],
)
def test_a_preset_of_another_run_is_refused(trained, tmp_path, subwords, own, best, message):
    run = run_with(trained, tmp_path / "run", TINY.override(**own), subwords, **best)
    with pytest.raises(UserError, match=rf"run/best is not of this run: it has {message}\. Restore both") as error:
        load_translator(run.path)
    assert "\n" not in str(error.value)


def test_a_run_is_not_resumed_with_a_preset_of_another(run, corpus, subwords):
    shutil.rmtree(run.best)
    build_translator(TINY.override(cross_attention="coverage"), subwords, 12).save_to_preset(run.best)
    with pytest.raises(UserError, match=r"run/best is not of this run: it has cross_attention='coverage'"):
        check_resumable(run, TINY, run.corpus(), corpus.test.rows())


def test_a_preset_with_the_vocabulary_of_another_run_is_refused(run, trained, subwords):
    """Its sizes and settings are the same."""
    shutil.rmtree(run.best)
    build_translator(TINY, subwords[::-1], 12).save_to_preset(run.best)
    with pytest.raises(UserError, match="run/best is not of this run: its subword models are others"):
        load_translator(run.path)
    # Runs of earlier versions do not tell.
    config = read_json(run.config)
    assert len(config["corpus"].pop("subwords")) == 2
    write_json(run.config, config)
    load_translator(run.path)
    run.check_settings(TINY, RunFolder(trained).corpus())


@pytest.mark.parametrize(
    ("own", "best"),
    [
        # The best round may have been before the encoder had all its layers.
        ({"encoder_layers": 3, "pretraining_rounds": 2}, {"encoder_layers": 2}),
        ({"cross_attention": WINDOW}, {}),
        # Chosen by the body: the width of the readout.
        ({"readout_dim": None}, {"readout_dim": 12}),
        ({"precision": "bfloat16"}, {"precision": "float32"}),
    ],
)
def test_presets_of_the_run_are_not_refused(trained, tmp_path, subwords, own, best):
    load_translator(run_with(trained, tmp_path / "run", TINY.override(**own), subwords, **best).path)


def test_a_preset_that_was_quantized_in_its_place_or_lacks_later_settings_is_of_the_run(run):
    translator = Translator.from_preset(run.best)
    translator.quantize("int8")
    translator.save_to_preset(run.best)
    load_translator(run.path)
    for name, place in (("config.json", ()), ("task.json", ("config", "backbone"))):
        tree = part = read_json(run.best / name)
        for key in place:
            part = part[key]
        for setting in ("input_feeding", "marginalization"):
            del part["config"][setting]
        write_json(run.best / name, tree)
    (run.best / "checksums.json").unlink()
    load_translator(run.path)


def test_settings_of_a_search_are_checked(trained):
    with pytest.raises(UserError, match="search_top_k must be an integer from 0 to 10,000 or None; received -1"):
        load_translator(trained, search_top_k=-1)
    with pytest.raises(UserError, match="beams must be an integer from 1 to 1,000; received 0"):
        load_translator(trained, beams=0)
