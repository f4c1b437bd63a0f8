"""What each extra brings: the layers need Keras and NumPy alone, and what is missing is named with its remedy."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from keras_attn_zoo.support.extras import ALIGNERS, CORPORA, EXTRAS, ONNX, TASKS, TRANSLATE
from tests.viewing.static_site import site

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
# Modules by the requirement that brings them, and those that come along with Keras.
BROUGHT = {
    "keras": {"keras", "h5py", "ml_dtypes"},
    "numpy": {"numpy"},
    "keras-hub": {"keras_hub", "huggingface_hub", "kagglehub"},
}
BROUGHT["rouge-score"] = {"rouge_score"}
BROUGHT["systran-align"] = {"systran_align"}
BROUGHT["onnxscript"] = {"onnxscript", "onnx_ir"}
BROUGHT["tensorflow"] = {"tensorflow", "tensorflow_text"}

LAYERS_ALONE = """
import sys, tempfile
missing = dict.fromkeys(["keras_hub", "sentencepiece", "sacrebleu", "matplotlib", "tqdm", "tensorflow", "jax"])
sys.modules.update(missing)

import keras
import numpy as np
from keras_attn_zoo.layers import ATTENTIONS, get_attention

query, value = keras.Input((3, 8)), keras.Input((5, 8))
outputs = {}
for name, entry in ATTENTIONS.items():
    for place in entry.places:
        layer = get_attention(name, width=8, num_heads=2, max_length=6, place=place)
        inputs = (query, value) if place == "cross" else (query,)
        causal = {"use_causal_mask": True} if place == "decoder" else {}
        outputs[f"{name}_{place}"] = layer(*inputs, **causal, return_attention_scores=True)
model = keras.Model([query, value], outputs)
numbers = [np.random.default_rng(0).normal(size=(2, length, 8)).astype("float32") for length in (3, 5)]
expected = model.predict(numbers, verbose=0)
with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model.keras")
    loaded = keras.saving.load_model(f"{folder}/model.keras")
for one, other in zip(*map(keras.tree.flatten, (expected, loaded.predict(numbers, verbose=0))), strict=True):
    np.testing.assert_array_equal(one, other)
assert not [name for name in missing if sys.modules[name] is not None]
print(len(expected))
"""


def run(code, *arguments, **environment):
    """Run Python in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "jax", **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.long
def test_every_layer_works_with_keras_and_numpy_alone():
    from keras_attn_zoo.layers import ATTENTIONS

    # PyTorch compiles nothing.
    done = run(LAYERS_ALONE, KERAS_BACKEND="torch")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(len(entry.places) for entry in ATTENTIONS.values())


# Keras, which takes seconds, is imported once; each line of code then runs in a process of its own without packages.
WITHOUT = """
import contextlib, io, json, os, sys, traceback
import keras

def run(missing, code):
    sys.modules.update(dict.fromkeys(missing))
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            exec(code, {})
        except Exception:
            return output.getvalue(), traceback.format_exc().splitlines()[-1]
    return output.getvalue(), ""

found = []
for missing, code in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(run(missing, code)).encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    found.append(os.read(reading, 1 << 16).decode())
print(*found, sep="\\n")
"""
SCORES = """
from keras_attn_zoo.evaluation.text_scores import score_text
print(score_text(["a b"], ["a b"], "ter")["ter"].score)
score_text(["a"], ["a"], ["rouge1"])
"""


@pytest.mark.long
def test_what_is_missing_is_named_with_the_line_that_installs_it():
    messages = {
        "kaz.Translator": "keras_attn_zoo.translators needs keras-hub, sentencepiece",
        "kaz.BeamSearch": "keras_attn_zoo.decoding needs keras-hub",
        "import keras_attn_zoo.evaluation.text_scores": "keras_attn_zoo.evaluation.text_scores needs sacrebleu",
        "import keras_attn_zoo.viewing.figures": "keras_attn_zoo.viewing.figures needs matplotlib",
        "kaz.data.Subwords(b'')": "a subword model needs sentencepiece",
        "from keras_attn_zoo.support import locks; locks.locked('a').__enter__()": "a lock on a folder needs filelock",
    }
    cases = [([*TRANSLATE, "filelock"], f"import keras_attn_zoo as kaz\n{code}") for code in messages]
    done = run(WITHOUT, json.dumps([*cases, ([*TASKS], SCORES)]))
    assert done.returncode == 0, done.stderr
    *of_translate, of_tasks = map(json.loads, done.stdout.splitlines())
    for (output, error), message in zip(of_translate, messages.values(), strict=True):
        assert output == ""
        assert error.endswith(f"MissingPackageError: {message}: pip install 'keras-attn-zoo[translate]'.")
    message = "scoring with ROUGE or METEOR needs rouge-score, nltk: pip install 'keras-attn-zoo[tasks]'."
    assert of_tasks[0] == "0.0\n" and of_tasks[1].endswith(f"MissingPackageError: {message}")


@pytest.mark.parametrize(
    ("missing", "also", "remedy"),
    [
        ((), "", "'keras-attn-zoo[translate]'"),
        (
            ("jax", "tensorflow", "torch"),
            ", a backend",
            "'keras-attn-zoo[translate,jax]' (or tensorflow, torch in place of jax)",
        ),
    ],
)
def test_the_command_line_names_all_that_is_missing_in_one_line(missing, also, remedy):
    code = f"import sys\nsys.modules.update({dict.fromkeys([*TRANSLATE, *missing])})\n"
    done = run(code + "from keras_attn_zoo.cli import main\nsys.exit(main(sys.argv[1:]))", "demo")
    needs = ", ".join(TRANSLATE.values()) + also
    line = f"attn-zoo: error: attn-zoo demo needs {needs}: pip install {remedy}.\n"
    assert (done.returncode, done.stderr) == (2, line)


def test_a_mistyped_folder_is_named_where_keras_is_missing(tmp_path):
    for name in ("empty", "preset"):
        (tmp_path / name).mkdir()
    (tmp_path / "preset" / "config.json").write_text("{}")
    code = f"import sys\nsys.modules.update({dict.fromkeys(['keras', *TRANSLATE])})\n"
    code += "from keras_attn_zoo.cli import main\nfor one in sys.argv[1:]: assert main(['translate', one, 'Ja.']) == 2"
    done = run(code, *(str(tmp_path / name) for name in ("nowhere", "empty", "preset")))
    missing, empty, preset = done.stderr.splitlines()
    assert missing.endswith(f"no folder or published preset {tmp_path / 'nowhere'}: check the path.")
    assert f"{tmp_path / 'empty'} is no model" in empty and "translator.json" in empty
    assert "attn-zoo translate needs keras-hub" in preset


def test_presets_are_listed_and_verified_with_the_package_alone():
    code = f"import sys\nsys.modules.update({dict.fromkeys(['keras', *TRANSLATE, 'jax', 'tensorflow', 'torch'])})\n"
    code += "from keras_attn_zoo.cli import main\n"
    code += "print(*[main(['presets', *more]) for more in ([], ['--verify'], ['publish', 'presets', 'hf://user'])])"
    done = run(code)
    assert done.stdout.splitlines()[-1] == "0 0 2" and "| bahdanau_tatoeba_de_en " in done.stdout
    assert done.stderr.startswith("attn-zoo: error: attn-zoo presets publish needs keras-hub")


def test_a_site_is_verified_with_the_package_alone():
    missing = ["keras", *TRANSLATE, "filelock", "jax", "tensorflow", "torch"]
    # On a terminal, tqdm would draw a bar.
    code = f"import sys\nsys.modules.update({dict.fromkeys(missing)})\nsys.stderr.isatty = lambda: True\n"
    code += "from keras_attn_zoo.cli import main\nsys.exit(main(['presets', 'verify-remote', *sys.argv[1:]]))"
    # A checkout has presets where a site has them.
    with site(ROOT) as address:
        done = run(code, "uniform_tatoeba_de_en", "--base-url", address)
    assert (done.returncode, done.stdout, done.stderr) == (0, "uniform_tatoeba_de_en: as published\n", "")


def test_a_missing_backend_is_named_with_the_line_that_installs_it():
    code = "import sys\nsys.modules.update({'torch': None, 'tensorflow': None})\nimport keras_attn_zoo.layers"
    done = run(code, KERAS_BACKEND="torch")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        "MissingPackageError: Keras needs its backend torch: pip install 'keras-attn-zoo[torch]', "
        "or set KERAS_BACKEND to an installed one (jax)."
    )


@pytest.mark.long
def test_the_only_backend_there_is_need_not_be_chosen(tmp_path):
    # As at a user's: TensorFlow cannot be found, and Keras has written its default there.
    (tmp_path / "keras.json").write_text(json.dumps({"backend": "tensorflow"}))
    code = "import sys\nsys.modules['tensorflow'] = None\nimport keras_attn_zoo.layers, keras\n"
    code += "print(keras.config.backend())"
    done = run(code, KERAS_BACKEND="", KERAS_HOME=str(tmp_path))
    assert (done.stdout, done.stderr, done.returncode) == ("jax\n", "", 0)


def test_what_the_package_reads_beside_its_code_is_installed_with_it():
    """Without a file that is left out, as from a wheel, the package might not even be imported."""
    package, [patterns] = ROOT / "keras_attn_zoo", SETTINGS["tool"]["setuptools"]["package-data"].values()
    installed = {path for pattern in patterns for path in package.glob(pattern)}
    beside = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyi", ".pyc")}
    assert beside and beside <= installed


def names(requirements):
    """The names of packages in requirements."""
    return [re.match(r"[\w-]+", requirement)[0] for requirement in requirements]


@pytest.mark.long
def test_the_extras_bring_what_the_package_imports():
    extras = PROJECT["optional-dependencies"]
    assert names(PROJECT["dependencies"]) == ["keras", "numpy"]
    # KerasHub imports safetensors, without which it cannot convert a checkpoint, but does not bring it.
    assert names(extras["translate"]) == [*EXTRAS["translate"].values(), "safetensors"]
    assert names(extras["tasks"]) == list(TASKS.values())
    assert names(extras["corpora"]) == list(CORPORA.values())
    assert names(extras["aligners"]) == list(ALIGNERS.values())
    assert names(extras["onnx"]) == list(ONNX.values())
    assert extras["all"] == ["keras-attn-zoo[translate,tasks,corpora,tensorboard,jax,tensorflow,torch]"]
    # eflomal is compiled, and under another licence, so `all` leaves the aligners out.
    extra = ("translate", "tasks", "corpora", "tensorboard", "aligners", "onnx", "jax", "tensorflow", "torch")
    declared = [*PROJECT["dependencies"], *(one for name in extra for one in extras[name])]
    brought = set().union(*(BROUGHT.get(name, {name}) for name in names(declared)))
    for path in (ROOT / "keras_attn_zoo").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found = {module.partition(".")[0] for module in modules}
            assert found <= brought | {"keras_attn_zoo"} | sys.stdlib_module_names, path
