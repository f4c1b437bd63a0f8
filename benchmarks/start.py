"""Time from the command to the first translation: `attn-zoo translate MODEL SENTENCE`, whole processes in turn.

Cold is the first process with an empty cache of compiled programs, which only JAX has; warm are those after it. Without
`--preset`, the model has random weights, in the sizes of `--set`, and the tokenizers of a preset of this repository.
The backend "onnx" is onnxruntime, with what PyTorch exports in float32.

  python benchmarks/start.py
  python benchmarks/start.py --preset transformer_tatoeba_de_en --backends jax --repeats 5
"""

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from keras_attn_zoo.cli.options import add_override_argument, add_precision_argument, settings_from_options
from keras_attn_zoo.presets.preset_registry import find_preset
from keras_attn_zoo.studies.tabular import markdown_table
from keras_attn_zoo.support.backends import BACKENDS

TOKENIZERS = "transformer_tatoeba_de_en"
ONNX = "onnx"
COMMAND = [sys.executable, "-m", "keras_attn_zoo.cli"]


def save_random(folder, options):
    """Save a translator with random weights; return its number of parameters."""
    from keras_attn_zoo.bodies.schema import BODIES
    from keras_attn_zoo.runs.named_systems import SYSTEMS
    from keras_attn_zoo.translators import Translator

    system = SYSTEMS["transformer"].override(**settings_from_options(options))
    preprocessor = Translator.from_preset(TOKENIZERS).preprocessor
    sizes = [one.vocabulary_size for one in preprocessor.subwords]
    model = Translator(BODIES[system.body].body_class(*sizes, **system.backbone), preprocessor)
    model.save_to_preset(folder)
    return model.count_params()


def export(model, folder):
    """Export a model beside the compiled programs, if that is still to be done; return where it is."""
    exported = Path(folder) / "exported"
    if not exported.exists():
        subprocess.run([*COMMAND, "export", model, "--to", "onnx", exported, "--backend", "torch"], check=True)
    return str(exported)


def run(model, backend, cache, options):
    """Translate in a process of its own; return its seconds, those of the processor, and the precision."""
    if backend == ONNX:
        command = [*COMMAND, "translate", export(model, cache), options.sentence]
    else:
        how = ["--backend", backend, "--precision", options.precision]
        command = [*COMMAND, "translate", model, options.sentence, *how]
    if not options.preset:
        # Random weights never end a sentence.
        command += ["--max-tokens", str(options.max_tokens)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    # pip compiles what it installs.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    chosen = re.search(r"computing in (\w+)", done.stderr)
    precision = chosen[1] if chosen else "float32" if backend == ONNX else options.precision
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, precision


def measured(model, options):
    """The first run of every backend, and the later ones."""
    found = {backend: [] for backend in options.backends}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(options.repeats + 1):
            for backend, runs in found.items():
                runs.append(run(model, backend, cache, options))
                print(f"{backend}: {runs[-1][0]:.1f} s, {runs[-1][1]:.1f} s of the processor", flush=True)
    return found


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", help="a preset in place of random weights")
    parser.add_argument("--backends", nargs="+", default=[*BACKENDS], choices=[*BACKENDS, ONNX], metavar="NAME")
    parser.add_argument("--sentence", default="Ich habe Hunger.")
    parser.add_argument("--max-tokens", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3, choices=range(1, 100), metavar="N")
    add_precision_argument(parser, "auto")
    add_override_argument(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.preset:
            # Here, as the processes have an empty cache.
            model, title = find_preset(options.preset), options.preset
        else:
            model = str(Path(folder) / "model")
            title = f"{save_random(model, options) / 1e6:.1f} million parameters, random"
        found = measured(model, options)
    rows = []
    for backend, ((cold, cold_cpu, precision), *warm) in found.items():
        seconds, cpu = (statistics.median(one[i] for one in warm) for i in (0, 1))
        rows.append([backend, *(f"{x:.1f}" for x in (cold, seconds, cold_cpu, cpu)), precision])
    print(f"\n{title}\n")
    print(markdown_table(["backend", "cold s", "warm s", "cold, processor s", "warm, processor s", "precision"], rows))


if __name__ == "__main__":
    main()
