"""`--precision`, and the backend that a command takes by itself."""

import json
import os
import platform
import shutil
import subprocess
import sys

import keras
import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.cli import build_parser, guard
from keras_attn_zoo.cli.options import resumed, settings_from_options
from keras_attn_zoo.kernels import processor
from keras_attn_zoo.support import backends
from keras_attn_zoo.support.errors import UserError
from tests.tiny_run import TINY

TRAIN = ("train", "--system", "uniform", "--run", "runs/a")


def test_a_precision_is_given_once_and_is_one_of_three(capsys):
    parse = build_parser().parse_args
    assert settings_from_options(parse([*TRAIN, "--precision", "auto"])) == {"precision": "auto"}
    assert settings_from_options(parse([*TRAIN, "--set", "precision=bfloat16"])) == {"precision": "bfloat16"}
    assert settings_from_options(parse(TRAIN)) == {}
    with pytest.raises(UserError, match="precision was given twice"):
        settings_from_options(parse([*TRAIN, "--precision", "auto", "--set", "precision=bfloat16"]))
    with pytest.raises(SystemExit):
        parse([*TRAIN, "--precision", "float16"])
    assert "must be one of float32, bfloat16, auto; received float16" in capsys.readouterr().err


def test_without_an_option_a_run_keeps_its_precision(trained, tmp_path):
    """Settings from the command line come after it, in `train`; `compare` leaves it out if there is one."""
    assert resumed(TINY, trained).precision == "auto"
    assert resumed(TINY, tmp_path).precision == "float32"


def test_translate_in_bfloat16(attn_zoo, trained):
    status, output, _ = attn_zoo("translate", trained, "rot haus", "--precision", "bfloat16", "--scores")
    score = float(output.split("\t")[1])
    _, exact, _ = attn_zoo("translate", trained, "rot haus", "--scores")
    assert status == 0 and score != float(exact.split("\t")[1])
    assert score == pytest.approx(float(exact.split("\t")[1]), rel=0.05)


@pytest.fixture
def installed(monkeypatch):
    """A function that lets only some backends be installed, none configured."""
    monkeypatch.setattr(backends, "_quieten", lambda name, devices: None)
    monkeypatch.setattr(backends, "keep_freed_memory", lambda name: None)
    monkeypatch.setattr(backends, "_configured", lambda: "tensorflow")

    def only(*names, environment=""):
        monkeypatch.setenv("KERAS_BACKEND", environment)
        monkeypatch.setattr(backends.importlib.util, "find_spec", lambda name: name in names or None)

    return only


@pytest.mark.parametrize(
    ("names", "fastest"),
    [(("jax", "tensorflow", "torch"), "jax"), (("tensorflow", "torch"), "tensorflow"), (("torch",), "torch")],
)
def test_each_job_has_the_backend_that_is_fastest_at_it(installed, names, fastest):
    for job, wanted in {"training": fastest, "search": fastest, "few steps": "torch"}.items():
        installed(*names)
        assert backends.choose_backend(job=job) == wanted


@pytest.mark.parametrize(
    ("line", "backend"),
    [
        ("train --run a --system transformer", "jax"),
        ("train --run a --system bahdanau --backend torch", "torch"),
        ("compare --out a --systems bahdanau transformer", "jax"),
        ("compare --out a --systems bahdanau transformer --scale smoke", "torch"),
        ("demo", "jax"),
        ("translate luong_general_tatoeba_de_en b", "jax"),
    ],
)
def test_each_command_takes_the_backend_that_is_fastest_at_its_job(installed, monkeypatch, line, backend):
    class Chosen(Exception):
        pass

    def choose(*arguments):
        raise Chosen(backends.choose_backend(*arguments))

    installed("jax", "tensorflow", "torch")
    monkeypatch.setattr(guard, "choose_backend", choose)
    with pytest.raises(Chosen, match=f"^{backend}$"):
        cli.main(line.split())


def test_a_run_is_resumed_under_its_own_backend(installed):
    installed("jax", "tensorflow", environment="tensorflow")
    assert backends.choose_backend(job="training", own="jax") == "jax"
    installed("jax", "tensorflow", environment="tensorflow")
    assert backends.choose_backend("tensorflow", own="jax") == "tensorflow"
    with pytest.raises(UserError, match="the backend torch of the run is not installed"):
        backends.choose_backend(own="torch")


@pytest.mark.parametrize(
    ("vendor", "flags", "instructions", "faster"),
    [
        ("AuthenticAMD", "fpu avx512_bf16 amx_tile", ["avx512_bf16"], True),
        ("GenuineIntel", "fpu avx512_bf16 amx_tile", ["avx512_bf16"], False),
        ("GenuineIntel", "fpu avx512_bf16 amx_bf16", ["amx_bf16", "avx512_bf16"], True),
        ("AuthenticAMD", "fpu avx512f avx512_bf16x", [], False),
    ],
)
def test_instructions_for_bfloat16(monkeypatch, vendor, flags, instructions, faster):
    monkeypatch.setattr(processor, "_description", lambda: f"vendor_id\t: {vendor}\nflags\t\t: {flags}\nbugs\t\t:\n")
    assert processor.bfloat16_instructions() == instructions
    assert processor.is_faster_in_bfloat16() is faster


@pytest.mark.parametrize(("command", "resumes"), [("train", True), ("compare", True), ("presets", False)])
def test_help_speaks_of_a_run_to_resume_where_there_may_be_one(capsys, command, resumes):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    _, found, text = " ".join(capsys.readouterr().out.split()).partition("--backend NAME one of ")
    assert found and text.partition("(default: ")[2].startswith(
        "that of the run to resume; else as configured" if resumes else "as configured"
    )


def test_the_option_of_a_resumed_run_names_its_backend(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "a")
    environment = json.loads((folder / "environment.json").read_text())
    (folder / "environment.json").write_text(json.dumps({**environment, "backend": "torch"}))
    script = (
        "import sys; from keras_attn_zoo.cli import build_parser\n"
        "options = build_parser().parse_args(sys.argv[1:])\n"
        "print(options.own_backend(options), 'keras' in sys.modules)"
    )

    def own(*more):
        command = [sys.executable, "-c", script, "train", "--system", "uniform", "--run", folder, *more]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert own("--resume") == "torch False"
    assert own() == "None False"


def filled_pages(backend, job, prepare, run):
    """How many pages the system fills in each of four runs of a line, in a process of its own."""
    script = (
        "import resource, sys; from keras_attn_zoo.support.backends import choose_backend\n"
        "choose_backend(*sys.argv[1:3])\n"
        "exec(sys.argv[3])\n"
        "def filled():\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    exec(sys.argv[4])\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "print(*[filled() for _ in range(4)])"
    )
    command = [sys.executable, "-c", script, backend, job, prepare, run]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return list(map(int, done.stdout.split()))


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_large_arrays_that_are_freed_are_kept(backend):
    """From the second on of a size."""
    first, second, *_ = filled_pages(backend, "search", "import numpy as np", "np.full(1 << 24, 1.0, 'float32')")
    # NumPy asks for huge pages, if the system has them: 64 MB are 16,384 pages, or 32.
    assert first >= 32 and second < first / 4


@pytest.mark.skipif(keras.config.backend() != "jax", reason="the memory of JAX")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_what_a_step_needs_is_kept_in_training_under_jax():
    """Not in a search, whose parts run in threads that would wait for each other's memory."""
    prepare = "import jax; product, factor = jax.jit(lambda x: (x @ x).sum()), jax.numpy.ones((3000, 3000))"
    training, search = (
        filled_pages("jax", job, prepare, "product(factor).block_until_ready()")[2:] for job in ("training", "search")
    )
    # In a search, 414,000 pages, or 800 if they are huge: XLA asks for more than the product alone.
    assert sum(training) < sum(search) / 4


def test_memory_is_kept_for_known_backends():
    with pytest.raises(ValueError, match=r"must be one of jax, tensorflow, torch\. Received: 'Jax'"):
        backends.keep_freed_memory("Jax")


@pytest.mark.long
@pytest.mark.parametrize(
    "package",
    [
        "layers",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("devices", "training", "decoding", "bodies", "translators")
        ),
    ],
)
def test_keras_is_imported_where_it_is_used_and_without_what_no_command_needs_of_it(package):
    """Whichever package imports it first. Nothing else may miss it: all can be imported afterwards."""
    needless = {
        *("IPython", "matplotlib", "rouge_score", "kagglehub", "PIL"),
        *({"jax", "tensorflow"} - {keras.config.backend()}),
        *(() if keras.config.backend() == "tensorflow" else ("requests",)),
        "torch._dynamo",
    }
    script = (
        "import importlib, importlib.util, sys, keras_attn_zoo as kaz, keras_attn_zoo.cli as cli\n"
        "backend, package, *needless = sys.argv[1:]\n"
        "assert 'Translator' in dir(kaz) and cli.build_parser().format_help()\n"
        "print({'keras', 'tensorflow', 'jax', 'torch', 'matplotlib', 'sacrebleu'} & set(sys.modules))\n"
        "from keras_attn_zoo.support.backends import choose_backend\n"
        "choose_backend(backend)\n"
        "if package == 'layers':\n"
        "    assert kaz.layers.__name__ == 'keras_attn_zoo.layers'\n"
        "    assert not {'keras_hub', 'sentencepiece'} & set(sys.modules)\n"
        "importlib.import_module(f'keras_attn_zoo.{package}')\n"
        "print([name for name in needless if sys.modules.get(name)])\n"
        "import matplotlib, torch._dynamo\n"
        "print(hasattr(torch._dynamo, 'optimize'))"
    )
    command = [sys.executable, "-c", script, keras.config.backend(), package, *needless]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n[]\nTrue\n"


@pytest.mark.slow
def test_a_preset_of_kaggle_is_found_by_a_command():
    """KerasHub is imported without the package, unless an argument names such a preset."""
    pytest.importorskip("kagglehub")
    script = (
        "import sys; from keras_attn_zoo.support.backends import choose_backend\n"
        "choose_backend(sys.argv[1], arguments=['translate', 'kaggle://a/b/keras/c'])\n"
        "import keras_attn_zoo.translators\n"
        "from keras_attn_zoo.presets.hub_presets import downloading\n"
        "from keras_hub.src.utils.preset_utils import get_file\n"
        "import kagglehub\n"
        "def download(handle, path):\n"
        "    error = kagglehub.exceptions.KaggleApiHTTPError\n"
        "    raise error('404 Client Error', response=None)\n"
        "kagglehub.model_download = download\n"
        "try:\n"
        "    with downloading('kaggle://a/b/keras/c'):\n"
        "        get_file('kaggle://a/b/keras/c', 'config.json')\n"
        "except FileNotFoundError as error:\n"
        "    print('config.json' in str(error))"
    )
    command = [sys.executable, "-c", script, keras.config.backend()]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"
