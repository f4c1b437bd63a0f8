"""Translators exported to ONNX, held against Keras; and what is said of those that are damaged."""

import functools
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.cli import main
from keras_attn_zoo.data.subwords import train_subwords
from keras_attn_zoo.data.truecasing import Truecaser
from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch, Sampling
from keras_attn_zoo.layers.base.positions import POSITIONS
from keras_attn_zoo.onnx import ONNXTranslator, onnx_translator
from keras_attn_zoo.onnx.onnx_steps import ONNXSteps
from keras_attn_zoo.presets.preset_registry import find_preset, published
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.outline import body_arguments
from keras_attn_zoo.support.checksums import write_checksums
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import TranslationTokenizer, Translator, onnx_export
from keras_attn_zoo.translators.onnx_export import _write_tokenizer, check_program, export_to_onnx
from tests import tiny
from tests.everyday_sentences import for_preset
from tests.onnx import other_runtime
from tests.weights import fill_weights

# The second has as many tokens as there may be; all differ.
TEXTS = ["", tiny.sentences("source")[10] + " k" * 7, *[*dict.fromkeys(tiny.sentences("source", 260))][:200]]
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
SIZES = {
    "rnn": {"embedding_dim": 6, "hidden_dim": 8},
    "transformer": {"width": 16, "num_heads": 4, "ffn_dim": 24, "decoder_layers": 2, "max_length": 24},
}


# More than a chunk of any mechanism has, so that none may take the number of its chunks for a constant.
LENGTH = 40


def conditioned(body, scale=0.5, length=tiny.LENGTH, seed=3):
    """A translator whose translations depend on the source, with weights that do not magnify rounding.

    Normalisations with gains around 0 magnify it layer by layer: attention of `tiny.mixed_transformer("mixed_3")` under
    Keras changes by 0.01 with the size of the batches, that of these by less than 1e-6.
    """
    fill_weights(body, seed=seed, scale=scale)
    for weight in body.weights:
        if len(weight.shape) == 1:
            weight.assign(weight / 5 + weight.path.endswith(("gamma", "scale")))
        elif "source_embedding" in weight.path or "output_projection" in weight.path:
            weight.assign(weight * 3)
    return tiny.translator(body=lambda **_: body, sampler=BeamSearch(4, length_penalty=0.6), length=length)


def named(name):
    """A named system at a small size."""
    system = SYSTEMS[name].override(**SIZES[SYSTEMS[name].body], tie_embeddings="none")
    system = system.override(encoder_layers=min(2, system.sizes["encoder_layers"]))
    body = BODIES[system.body].body_class(tiny.PIECES, tiny.PIECES, **body_arguments(system))
    return conditioned(body, 0.5 if system.body == "transformer" else 1.0)


def mixed(given):
    """A Transformer of several mechanisms, with the attention of all layers, and room for long sentences."""
    given = {"encoder_layers": 1, "decoder_layers": 3, **given, "attention_layer": "all", "tie_embeddings": "none"}
    # With these weights, no search is decided by rounding, and none magnifies it.
    return conditioned(tiny.transformer(max_length=LENGTH, **given), length=LENGTH, seed=5)


def of_positions(**attention):
    """Self-attention with each kind of positions."""
    kinds = [{**attention, "positions": kind} for kind in POSITIONS]
    sizes = {"encoder_layers": len(kinds), "decoder_layers": len(kinds)}
    return mixed({**sizes, "encoder_attention": kinds, "decoder_attention": kinds})


TRANSLATORS = {
    "rnn": lambda: tiny.translator(cross_attention="bahdanau_feedback"),
    "one layer": lambda: tiny.translator(body=tiny.transformer, **ONE_LAYER, encoder_attention="recurrent"),
    "pooled": lambda: tiny.translator(
        sampler=PooledBeamSearch(3, length_penalty=0.8, min_length=2, no_repeat_ngram=2, forced_end=3)
    ),
    "int8": lambda: quantized(tiny.translator(body=tiny.transformer, **ONE_LAYER)),
    "ensemble": lambda: Translator.ensemble([tiny.translator(seed=3), tiny.translator(seed=4)]),
    # Between them, every mechanism in every place.
    **{name: functools.partial(mixed, given) for name, given in tiny.EVERY_MECHANISM.items()},
    "positions": functools.partial(of_positions, attention="multi_head"),
    "positions in a window": functools.partial(of_positions, attention="sliding_window", window=3, sinks=1),
    **{name: functools.partial(named, name) for name in SYSTEMS},
}
# An export takes half a minute. By day, that in int8 compares an RNN with Keras before it rounds.
BY_DAY = "one layer"
only_torch = pytest.mark.skipif(keras.config.backend() != "torch", reason="PyTorch writes it")
pytestmark = pytest.mark.long


def quantized(translator):
    translator.quantize("int8")
    return translator


@functools.cache
def exported(name):
    """A translator, and the folder that it was exported to."""
    translator = TRANSLATORS[name]()
    folder = Path(tempfile.mkdtemp()) / "exported"
    if name == BY_DAY:
        translator.save_to_preset(str(folder.parent / "preset"))
        assert main(["export", str(folder.parent / "preset"), "--to", "onnx", str(folder)]) == 0
    else:
        export_to_onnx(translator, folder)
    return translator, folder


def check(found, expected, tolerance=1e-4):
    """Compare hypotheses: tokens, scores and attention. Those of a sentence stand in the order of their scores."""
    assert [len(one) for one in found] == [len(one) for one in expected]
    for hypotheses in (*found, *expected):
        scores = [one.score for one in hypotheses]
        assert scores == sorted(scores, reverse=True)
    for ours, keras_own in zip(*map(by_tokens, (found, expected)), strict=True):
        assert (ours.text, ours.tokens, ours.token_ids) == (keras_own.text, keras_own.tokens, keras_own.token_ids)
        assert ours.source_tokens == keras_own.source_tokens
        np.testing.assert_allclose(
            [ours.score, ours.log_prob], [keras_own.score, keras_own.log_prob], atol=tolerance, rtol=0
        )
        np.testing.assert_allclose(ours.attention, keras_own.attention, atol=tolerance / 10, rtol=0)


def check_axes(folder):
    """The programs name their axes as the description does."""
    import onnx

    said = json.loads((folder / "translator.json").read_text(encoding="utf-8"))
    told = {"encoder": [*said["encoder"]["inputs"], *said["encoder"]["outputs"]]}
    told["step"] = [*said["step"]["inputs"], *said["memory"], *said["state"], *said["step"]["outputs"]]
    for part, values in told.items():
        graph = onnx.load(folder / said[part]["file"]).graph
        dims = {one.name: one.type.tensor_type.shape.dim for one in (*graph.input, *graph.output)}
        named = {name: [dim.dim_param or dim.dim_value for dim in shape] for name, shape in dims.items()}
        assert {one["name"]: named[one["name"]] for one in values} == {one["name"]: one["shape"] for one in values}


def by_tokens(translations):
    """All hypotheses, those of a sentence by their tokens: in the order of scores, equal ones may change places."""
    return [one for of_sentence in translations for one in sorted(of_sentence, key=lambda one: one.token_ids)]


@only_torch
@pytest.mark.parametrize(
    "name", [name if name == BY_DAY else pytest.param(name, marks=pytest.mark.slow) for name in TRANSLATORS]
)
def test_translations_are_those_of_keras(name):
    translator, folder = exported(name)
    served = ONNXTranslator(folder)
    count = 12 if name == BY_DAY else len(TEXTS)
    beams = translator.sampler.num_beams
    for texts, n_best, batch_size in ((TEXTS[:count], beams, 64), (TEXTS[:12], 2, 4), (TEXTS[2:3], 1, 1)):
        options = {"n_best": n_best, "attention": True, "batch_size": batch_size, "max_length": tiny.LENGTH}
        check(served.translate(texts, **options), translator.translate(texts, **options))
    check_axes(folder)
    assert not list(folder.parent.glob(".*"))


@only_torch
def test_the_search_may_be_another_one():
    translator, folder = exported(BY_DAY)
    settings = {"length_penalty": 1.4, "coverage_penalty": 0.3, "min_length": 2, "no_repeat_ngram": 2}
    options = {"n_best": 2, "attention": True, "max_length": 9}
    found = ONNXTranslator(folder, threads=1).translate(TEXTS, beams=2, **settings, **options)
    check(found, translator.translate(TEXTS, sampler=BeamSearch(2, **settings), **options))


# With spaces of other kinds, marks in front, and characters that are composed.
ODD = ["", " \t\u2028 ", "\ufeff \ufeffka\x1clo\u3000 mi\r\n", "re\u0301 ka \xa0tu", *TEXTS[2:4]]


@only_torch
@pytest.mark.parametrize("settings", [{}, {"coverage_penalty": 0.3, "min_length": 3, "no_repeat_ngram": 2}])
def test_the_description_is_enough_for_another_runtime(settings):
    translator, folder = exported(BY_DAY)
    expected = translator.translate(ODD, sampler=BeamSearch(3, length_penalty=0.6, **settings))
    for text, [best] in zip(ODD, expected, strict=True):
        found, score = other_runtime.translate(folder, text, **settings)
        assert found == best.text and score == pytest.approx(best.score, abs=1e-4)


@only_torch
@pytest.mark.parametrize("kind", ["bpe", "char", "word"])
def test_the_description_says_what_is_done_to_text(tmp_path, kind):
    text = [*tiny.sentences("source"), "r\u00e9 ka lo"]
    model = train_subwords(text, tmp_path / "model", 30 if kind == "bpe" else None, model_type=kind)
    tokenizer = TranslationTokenizer(model.read_bytes())
    known = _write_tokenizer(tokenizer, tmp_path, "source")
    other = other_runtime.Tokenizer(tmp_path, known)
    ids = tokenizer.tokenize(ODD)
    assert [other.encode(text) for text in ODD] == ids
    assert [other.decode(one) for one in ids] == tokenizer.detokenize(ids)
    # Words are split at spaces of every kind.
    for step in known["before"][kind == "word" :]:
        other.known = {**known, "before": [one for one in known["before"] if one != step]}
        assert [other.encode(text) for text in ODD] != ids
    truecaser = Truecaser(b"Haus (1/1)\n")
    truecased = _write_tokenizer(TranslationTokenizer(model.read_bytes(), truecaser), tmp_path, "source")
    assert truecased["before"] == [*known["before"], "truecase", "nfc"]
    assert truecased["after"] == ["replace_nul", "detruecase", *known["after"][1:]]


@only_torch
def test_a_translation_needs_neither_keras_nor_a_backend():
    translator, folder = exported(BY_DAY)
    code = """
import sys
sys.modules.update(dict.fromkeys(["keras", "keras_hub", "torch", "tensorflow", "jax", "onnx", "sacrebleu"]))
from keras_attn_zoo.cli import main
import keras_attn_zoo.onnx
sys.exit(main(["translate", *sys.argv[1:]]))
"""
    command = [sys.executable, "-c", code, str(folder), *TEXTS[2:4], "--beams", "2", "--scores"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    best = translator.translate(TEXTS[2:4], sampler=BeamSearch(2, length_penalty=0.6))
    assert found.splitlines() == [f"{one.text}\t{one.score:.4f}" for [one] in best]


@only_torch
def test_a_stopped_file_is_gone_on_with(tmp_path, capsys):
    translator, folder = exported(BY_DAY)
    line = ["translate", str(folder), "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"), "--resume"]
    (tmp_path / "in").write_text(f"{TEXTS[2]}\n{' '.join(TEXTS)}\n")
    assert main(line) == 2 and "line 2 has" in capsys.readouterr().err
    assert main([*line, "--beams", "2"]) == 2 and "was begun with beams=None, not 2" in capsys.readouterr().err
    (tmp_path / "in").write_text(f"{TEXTS[2]}\n{TEXTS[3]}\n")
    assert main(line) == 0
    assert (tmp_path / "out").read_text().splitlines() == [one.text for [one] in translator.translate(TEXTS[2:4])]


@only_torch
def test_products_in_int8_take_a_quarter_of_the_size(tmp_path):
    translator = tiny.translator(embedding_dim=48, hidden_dim=48)
    export_to_onnx(translator, tmp_path / "int8", "int8")
    numbers = sum(np.prod(weight.shape) for weight in translator.weights)
    assert sum(path.stat().st_size for path in (tmp_path / "int8").glob("*.onnx")) < 3 * numbers
    found, expected = ONNXTranslator(tmp_path / "int8").translate(TEXTS), translator.translate(TEXTS)
    differences = [abs(one.score - other.score) for [one], [other] in zip(found, expected, strict=True)]
    # Rows are rounded to one of 255 numbers, and so are weights.
    assert 0 < np.median(differences) < 1
    check_axes(tmp_path / "int8")


@only_torch
@pytest.mark.parametrize("fault", ["no number", "no such token"])
def test_programs_in_int8_are_run_before_they_are_left(tmp_path, monkeypatch, fault):
    """Of a fault that valid ONNX has."""
    import onnx

    (translator, folder), quantize = exported(BY_DAY), onnx_export._quantize

    def write(programs, *paths):
        for path in paths:
            shutil.copyfile(folder / path.name, path)

    def spoil(path):
        quantize(path)
        model = onnx.load(path)
        if fault == "no number":
            scale = next(one for one in model.graph.initializer if one.name.endswith("_scale"))
            scale.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(scale) * np.nan, scale.name))
        elif path.name == "step.onnx":
            for node in model.graph.node:
                node.input[:] = ["beyond" if name == "token_ids" else name for name in node.input]
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.int32(10**6), "far"))
            model.graph.node.insert(0, onnx.helper.make_node("Add", ["token_ids", "far"], ["beyond"]))
        onnx.save(model, path)

    monkeypatch.setattr(onnx_export, "_write_programs", write)
    monkeypatch.setattr(onnx_export, "_quantize", spoil)
    said = {"no number": "differs from Keras by nan", "no such token": "onnxruntime cannot run what was exported: .*"}
    with pytest.raises(UserError, match=said[fault]) as error:
        export_to_onnx(translator, tmp_path / "new", "int8")
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


@only_torch
@pytest.mark.slow
@pytest.mark.parametrize("name", published())
def test_every_preset_translates_alike(tmp_path, name):
    translator = Translator.from_preset(find_preset(name), dtype="float32")
    export_to_onnx(translator, tmp_path / "exported")
    sentences = for_preset(name)
    texts = [f"{one} {other}" for one, other in itertools.product(sentences, sentences[:10])]
    options = {"n_best": translator.sampler.num_beams, "attention": True}
    check(ONNXTranslator(tmp_path / "exported").translate(texts, **options), translator.translate(texts, **options))


@only_torch
@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "separate"])
def test_a_marian_model_translates_alike(tmp_path, shared):
    from tests.translators.marian_checkpoint import text, write

    write(tmp_path / "model", share_encoder_decoder_embeddings=shared)
    translator = Translator.from_preset(str(tmp_path / "model"))
    export_to_onnx(translator, tmp_path / "exported")
    texts, options = text("source", 200), {"n_best": 4, "attention": True}
    check(ONNXTranslator(tmp_path / "exported").translate(texts, **options), translator.translate(texts, **options))


WRONG = {
    **dict.fromkeys(("search", "lengths", "source", "target", "tokenizers", "memory", "state")),
    "format": "1",
    "target": {"start": 2, "end": "3", "pad": 0},
    "tokenizers": {side: {"model": "../source.spm"} for side in ("source", "target")},
}


@only_torch
def test_damage_is_one_line(tmp_path):
    _, folder = exported(BY_DAY)

    def broken(change):
        copy = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(folder, copy)
        change(copy)
        return copy

    def newer(copy):
        (copy / "translator.json").write_text(json.dumps({"format": 99}))
        sums = json.loads((copy / "checksums.json").read_text())
        del sums["sha256"]["translator.json"]
        (copy / "checksums.json").write_text(json.dumps(sums))

    def changed(name, value):
        def change(copy):
            said = json.loads((copy / "translator.json").read_text())
            (copy / "translator.json").write_text(json.dumps({**said, name: value}))
            write_checksums(copy, [path.name for path in copy.iterdir() if path.name != "checksums.json"])

        return change

    for change, message in (
        (lambda copy: (copy / "step.onnx").unlink(), "has no step.onnx"),
        (lambda copy: (copy / "step.onnx").write_bytes(b""), "is damaged or was changed"),
        (lambda copy: (copy / "translator.json").unlink(), "is no translator exported to ONNX"),
        (newer, "has format 99"),
        *((changed(name, value), "translator.json is damaged") for name, value in WRONG.items()),
    ):
        with pytest.raises(UserError, match=message) as error:
            ONNXTranslator(broken(change))
        assert "\n" not in str(error.value)
    # That of the end in models of OPUS-MT.
    ids = {"start": 3, "end": 0, "pad": 3}
    assert ONNXTranslator(broken(changed("target", ids))).description["target"] == ids


@only_torch
def test_a_program_that_is_no_onnx_is_one_line(tmp_path):
    import onnx

    node = onnx.helper.make_node("Unheard", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "one", [x], [y])), tmp_path / "step.onnx")
    with pytest.raises(UserError, match=r"step\.onnx was written, and is no valid ONNX: .*Unheard") as error:
        check_program(tmp_path / "step.onnx")
    assert "\n" not in str(error.value)


@only_torch
def test_programs_are_opened_once_wherever_the_process_is(tmp_path, monkeypatch):
    _, folder = exported(BY_DAY)
    copy, opened, session = tmp_path / "copy", [], onnx_translator._session
    shutil.copytree(folder, copy)

    def slow(path, threads):
        opened.append(path.name)
        time.sleep(0.05)
        return session(path, threads)

    monkeypatch.setattr(onnx_translator, "_session", slow)
    monkeypatch.chdir(tmp_path)
    served, late = (ONNXTranslator("copy", threads=4) for _ in range(2))
    monkeypatch.chdir("/")
    found = served.translate(TEXTS[2:10], batch_size=1, attention=True)
    assert opened == ["encoder.onnx", "step.onnx"]
    # None keeps that of the padding.
    assert all(best.attention.base is None for [best] in found)
    (copy / "step.onnx").write_bytes(b"another")
    with pytest.raises(UserError, match=r"step\.onnx is damaged or was changed"):
        late.translate(TEXTS[2])
    with pytest.raises(UserError, match="threads must be a positive integer; received 0"):
        ONNXTranslator(folder, threads=0)


@only_torch
def test_an_interrupt_ends_the_step_of_another_thread(monkeypatch):
    served, step, ended = ONNXTranslator(exported(BY_DAY)[1], threads=2), ONNXSteps.__call__, []
    longest, shorter = TEXTS[1], TEXTS[2]

    def late(self, *arguments):
        # That of the shorter sentence still runs when the other one is done.
        waits = 1000 if self.mask.shape[1] < len(served.encode([longest])[0]) else 0
        while waits and not self._options.terminate:
            time.sleep(0.01)
            waits -= 1
        try:
            return step(self, *arguments)
        except Exception as error:
            ended.append(str(error))
            raise

    def interrupt(done):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ONNXSteps, "__call__", late)
        served.translate([longest, shorter], batch_size=1, progress=interrupt)
    assert len(ended) == 1 and "terminate" in ended[0]
    assert len(served.translate([longest, shorter], batch_size=1)) == 2


@only_torch
def test_bad_arguments_are_one_line():
    served = ONNXTranslator(exported(BY_DAY)[1])
    assert served.translate([]) == []
    for options, message in (
        ({"n_best": 4}, "more beams"),
        ({"beams": 0}, "beams must be an integer from 1"),
        ({"beams": 1.5}, "beams must be an integer from 1"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram must be an integer from 0"),
        ({"length_penalty": -1.0}, "length_penalty must be a number from 0"),
        ({"batch_size": 0}, "batch_size must be a positive integer"),
        ({"max_length": 17}, "from 2 to 16, as exported"),
    ):
        with pytest.raises(UserError, match=message):
            served.translate(TEXTS, **options)
    with pytest.raises(UserError, match="list of strings"):
        served.translate([3])
    with pytest.raises(UserError, match="sentence 2 has"):
        served.translate([TEXTS[0], " ".join(TEXTS)])


@only_torch
def test_what_is_not_exported(tmp_path):
    translator = tiny.translator()
    (tmp_path / "there").mkdir()
    for given, folder, precision, message in (
        (translator, "there", "float32", "already exists"),
        (translator, "new", "int4", "unknown precision 'int4'"),
        (tiny.translator(sampler=Sampling(2)), "new", "float32", "Sampling cannot be exported"),
        (Translator(tiny.backbone()), "new", "float32", "has no preprocessor"),
        (tiny.translator(length=7), "new", "float32", "at least 8 tokens; received 7"),
    ):
        with pytest.raises(UserError, match=message):
            export_to_onnx(given, tmp_path / folder, precision)
    assert not (tmp_path / "new").exists()


@only_torch
def test_what_is_missing_is_named(tmp_path, monkeypatch, capsys):
    resumed = ["translate", str(exported(BY_DAY)[1]), "ka lo", "--output", str(tmp_path / "new"), "--resume"]
    monkeypatch.setitem(sys.modules, "filelock", None)
    assert main(resumed) == 2
    assert "--resume needs filelock: pip install 'keras-attn-zoo[onnx]'." in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"needs onnxscript: pip install 'keras-attn-zoo\[onnx\]'"):
        export_to_onnx(None, tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(keras.config.backend() == "torch", reason="PyTorch writes it")
@pytest.mark.every_backend
def test_other_backends_say_which_one_writes_it(tmp_path):
    with pytest.raises(UserError, match="--backend torch"):
        export_to_onnx(None, tmp_path / "new")


@only_torch
def test_commands_say_what_they_do_not_take(tmp_path, capsys):
    _, folder = exported(BY_DAY)
    page, preset = tmp_path / "page.html", folder.parent / "preset"
    page.touch()
    for arguments, text in (
        (["translate", folder, "x", "--strategy", "sampling"], "exported to ONNX, with a plain beam search: leave out"),
        (["translate", folder, folder, "x"], "an ensemble takes no translator that was exported to ONNX"),
        (["explore", folder, "x", "--output", page], "exported to ONNX"),
        (["export", folder, "--to", "transformers", "new", "--precision", "int8"], "only --to onnx has a precision"),
        (["export", preset, "--to", "onnx", folder], "already exists"),
        # Before any model is looked for.
        *((["export", "nosuch", "--to", to, page / "new"], "cannot write") for to in ("onnx", "transformers")),
    ):
        assert main([str(argument) for argument in arguments]) == 2
        assert text in capsys.readouterr().err
