"""A training step on several processes of PyTorch, beside what its parts predict, in milliseconds.

A step on N devices takes the time of a step of a device's rows, and that of adding up the gradients:

  T(N) = C(B / N) + R(P)    with B rows, P weights, C a step of one device, R an all-reduce of P numbers

  KERAS_BACKEND=torch python benchmarks/devices.py
  KERAS_BACKEND=torch python benchmarks/devices.py --widths 256 512 --batch 64
"""

import argparse
import statistics
import time

import keras
import numpy as np
import torch

from keras_attn_zoo.bodies import TransformerBackbone
from keras_attn_zoo.cli.options import add_precision_argument
from keras_attn_zoo.devices import devices_of, leads, using
from keras_attn_zoo.runs.precision import policy, resolve
from keras_attn_zoo.studies.tabular import markdown_table
from keras_attn_zoo.training.adam import Adam
from keras_attn_zoo.translators import Translator


def translator(width, options):
    """A translator of that width; heads and networks are as wide as usual."""
    keras.utils.set_random_seed(0)
    sizes = {"width": width, "num_heads": max(1, width // 64), "ffn_dim": 4 * width}
    layers = {"encoder_layers": options.layers, "decoder_layers": options.layers}
    dtype = policy(options.precision)
    model = Translator(TransformerBackbone(options.vocabulary, options.vocabulary, **sizes, **layers, dtype=dtype))
    model.compile(optimizer=Adam(1e-3, global_clipnorm=1.0))
    model.optimizer.build(model.trainable_variables)
    return model


def seconds(function, options):
    """The median of several runs, after one that is not counted."""
    taken = []
    for _ in range(options.steps + 1):
        began = time.perf_counter()
        function()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def step(model, rows, options):
    """A training step of so many rows, as a function."""
    ids = np.random.default_rng(0).integers(4, options.vocabulary, (rows, options.length)).astype("int32")
    x = {"encoder_token_ids": ids, "encoder_padding_mask": np.ones(ids.shape, "bool"), "decoder_token_ids": ids}
    return lambda: model.train_step((x, ids, np.ones(ids.shape, "float32")))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", nargs="+", type=int, default=[128, 256, 512])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--devices", type=int, default=2)
    add_precision_argument(parser, "auto")
    options = parser.parse_args()
    options.precision = resolve(options.precision)
    devices, alone, rows = devices_of(options.devices), {}, []
    # One thread each, so that several processes have no more cores each than one.
    torch.set_num_threads(1)
    if devices is None or devices.leads:
        for width in options.widths:
            model = translator(width, options)
            parts = (options.batch, -(-options.batch // options.devices))
            alone[width] = [seconds(step(model, part, options), options) for part in parts]
    with using(devices):
        torch.set_num_threads(1)
        for width in options.widths:
            model = translator(width, options)
            gradients = [torch.ones(tuple(v.shape)) for v in model.trainable_variables]
            reduce = seconds(lambda given=gradients: devices and devices.sum(given), options)
            together = seconds(step(model, -(-options.batch // options.devices), options), options)
            if leads():
                whole, part = alone[width]
                count = sum(gradient.numel() for gradient in gradients) / 1e6
                figures = [f"{1000 * one:.0f}" for one in (whole, part, reduce, part + reduce, together)]
                rows.append([str(width), f"{count:.1f}", *figures, f"{whole / together:.2f}", options.precision])
        if leads():
            times = ["C(B)", "C(B/N)", "R(P)", "C(B/N) + R(P)", "T(N)", "C(B) / T(N)"]
            print(markdown_table(["width", "million weights", *times, "precision"], rows))


if __name__ == "__main__":
    main()
