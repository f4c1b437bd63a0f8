"""Training speed of the translators: steps and target tokens per second, without compilation.

Random ids of one length, Adam, dropout as given. Step times are relative to the first system's, whose steps alternate
with those of each other system.

  KERAS_BACKEND=jax python benchmarks/train.py
  KERAS_BACKEND=torch python benchmarks/train.py --systems uniform bahdanau --batch 32 --length 30
  KERAS_BACKEND=jax python benchmarks/train.py --systems transformer ran-all previous-weight --set width=256
  KERAS_BACKEND=jax python benchmarks/train.py --systems transformer ran-all --output systems.jsonl
"""

import argparse
import datetime
import importlib.metadata
import os
import statistics
import time

import numpy as np

from keras_attn_zoo.support.backends import choose_backend

# What the command line sets up.
choose_backend(job="training")

import keras  # noqa: E402
from peers.records import append, machine  # noqa: E402

from keras_attn_zoo.bodies.schema import BODIES  # noqa: E402
from keras_attn_zoo.cli.options import (  # noqa: E402
    add_override_argument,
    add_precision_argument,
    settings_from_options,
)
from keras_attn_zoo.runs.memory import on_cpu  # noqa: E402
from keras_attn_zoo.runs.named_systems import SYSTEMS  # noqa: E402
from keras_attn_zoo.runs.precision import policy, resolve  # noqa: E402
from keras_attn_zoo.studies.tabular import markdown_table  # noqa: E402
from keras_attn_zoo.training.adam import Adam  # noqa: E402
from keras_attn_zoo.translators import Translator  # noqa: E402


class Clock(keras.callbacks.Callback):
    """Seconds of every step, until its loss is available."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        float(logs["loss"])
        self.seconds.append(time.perf_counter() - self._began)


def system_of(name, options):
    """A named system with the settings of the command line, and the precision that it computes in here."""
    system = SYSTEMS[name].override(**settings_from_options(options))
    return system.override(precision=resolve(system.precision))


def built(system, options):
    """A translator of a system."""
    body, dtype = BODIES[system.body].body_class, policy(system.precision)
    return Translator(body(options.vocabulary, options.vocabulary, dtype=dtype, **system.backbone))


def translator(system, options):
    """A translator to train, and the seconds of its first step."""
    model = built(system, options)
    model.compile(optimizer=Adam(1e-3, global_clipnorm=1.0))
    return model, train(model, 2, options)[0]


def train(model, steps, options):
    """Take some steps; return the seconds of each."""
    rng = np.random.default_rng(0)
    shape = (options.batch * steps, options.length)
    ids = [rng.integers(4, options.vocabulary, shape).astype("int32") for _ in range(3)]
    x = {"encoder_token_ids": ids[0], "encoder_padding_mask": np.ones(shape, "bool"), "decoder_token_ids": ids[1]}
    clock, fit = Clock(), {"batch_size": options.batch, "shuffle": False, "verbose": 0}
    model.fit(x, ids[2], sample_weight=np.ones(shape, "float32"), callbacks=[clock], **fit)
    return clock.seconds


def in_turn(models, options):
    """The median seconds of a step of each of several models."""
    seconds = [[] for _ in models]
    for _ in range(options.rounds):
        for model, of_model in zip(models, seconds, strict=True):
            # The time of the first step of a fit includes more than the step.
            of_model.extend(train(model, options.steps + 1, options)[1:])
    return [statistics.median(of_model) for of_model in seconds]


def add_output_argument(parser):
    """Add the option for a file of figures, see `write_figures`."""
    parser.add_argument(
        "--output", metavar="FILE", help="append the figures of all systems to this file, as JSON lines"
    )


def write_figures(options, **figures):
    """Append figures of a system to the file that the command line names, with where and how they were measured."""
    if options.output is None:
        return
    backend = keras.config.backend()
    sizes = {name: getattr(options, name) for name in ("batch", "length", "vocabulary") if name not in figures}
    versions = f"{backend} {importlib.metadata.version(backend)}, Keras {keras.version()}"
    where = {"machine": machine("cpu" if on_cpu() else "cuda"), "threads": os.cpu_count()}
    made = {"version": versions, "date": datetime.date.today().isoformat()}
    append(options.output, {**figures, "backend": backend, **sizes, "settings": options.set, **where, **made})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--steps", type=int, default=4, help="consecutive steps of a system before the next one's turn")
    parser.add_argument("--rounds", type=int, default=2)
    add_output_argument(parser)
    add_precision_argument(parser, "auto")
    add_override_argument(parser)
    options = parser.parse_args()
    rows, baseline = [], None
    for name in options.systems:
        system = system_of(name, options)
        model, first = translator(system, options)
        baseline = baseline or model
        seconds = in_turn([baseline, model] if model is not baseline else [model], options)
        of_baseline, step = seconds[0], seconds[-1]
        tokens = options.batch * options.length / step
        figures = [f"{step / of_baseline:.2f}", f"{1 / step:.2f}", f"{tokens:.0f}", f"{first - step:.1f}"]
        rows.append([name, *figures, f"{model.count_params() / 1e6:.1f} M", system.precision])
        ratio = {"seconds": step, "ratio": step / of_baseline}
        write_figures(options, job="training", system=name, precision=system.precision, **ratio)
        print(
            f"{name}: {1 / step:.2f} steps/s, {step / of_baseline:.2f} times the baseline's time per step", flush=True
        )
    print(f"\n{keras.config.backend()}, batch {options.batch}, length {options.length}, V {options.vocabulary}\n")
    print(
        markdown_table(
            ["system", "time per step", "steps/s", "target tokens/s", "compilation s", "parameters", "precision"], rows
        )
    )


if __name__ == "__main__":
    main()
