"""Multiplications of a decoding step in products of matrices, for each hypothesis, relative to the first system's.

Counted in a greedy search under PyTorch, as its operations are executed: products with the model's weights, and all
products, which adds those with keys, values and what else comes from the source of `--length` tokens.

  KERAS_BACKEND=torch python benchmarks/products.py --systems transformer ran-all transformer-latent
"""

import argparse

import keras
import numpy as np
from torch.utils._python_dispatch import TorchDispatchMode

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.cli.options import add_override_argument
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.system import parse_settings
from keras_attn_zoo.studies.tabular import markdown_table
from keras_attn_zoo.translators import Translator

# PyTorch's products, and the place of their first factor among the arguments.
PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "mv": 0, "addmv": 1}


class Counter(TorchDispatchMode):
    """Counts multiplications in products, and those with weights among them."""

    def __init__(self, weights):
        super().__init__()
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self.with_weights = self.all = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in PRODUCTS:
            one, other = args[PRODUCTS[name] : PRODUCTS[name] + 2]
            columns = other.shape[-1] if other.ndim > 1 else 1
            count = one.numel() * columns
            self.all += count
            if any(factor.untyped_storage().data_ptr() in self._weights for factor in (one, other)):
                self.with_weights += count
        return function(*args, **(kwargs or {}))


def multiplications(system, options):
    """Multiplications of a step for a hypothesis: with weights, and all."""
    body = BODIES[system.body].body_class(options.vocabulary, options.vocabulary, **system.backbone)
    model, rows, steps = Translator(body), 2, []
    counter = Counter([weight.value for weight in model.weights])
    step = body.search_step

    def counted(*args, **kwargs):
        before = counter.with_weights, counter.all
        with counter:
            found = step(*args, **kwargs)
        steps.append([(counter.with_weights - before[0]) / rows, (counter.all - before[1]) / rows])
        return found

    body.search_step = counted
    prompt = np.zeros((rows, options.length + 1), "int32")
    prompt[:, 0] = 2
    inputs = {
        "encoder_token_ids": np.full((rows, options.length), 4, "int32"),
        "encoder_padding_mask": np.ones((rows, options.length), "bool"),
        "decoder_token_ids": prompt,
        "decoder_padding_mask": prompt > 0,
    }
    model.compile(sampler=BeamSearch(1))
    model.make_generate_function()(inputs, stop_token_ids=None)
    return steps[-1]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--vocabulary", type=int, default=8000)
    add_override_argument(parser)
    options = parser.parse_args()
    rows, baseline = [], None
    for name in options.systems:
        counts = multiplications(SYSTEMS[name].override(**parse_settings(options.set)), options)
        baseline = baseline or counts
        cells = [f"{count:,.0f} ({count / of_first:.2f})" for count, of_first in zip(counts, baseline, strict=True)]
        rows.append([f"`{name}`", *cells])
    print(f"{keras.config.backend()}, {options.length} tokens, V {options.vocabulary}\n")
    print(markdown_table(["system", "with weights", "all"], rows))


if __name__ == "__main__":
    main()
